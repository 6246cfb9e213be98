"""Checks releases by exact arithmetic, from their files alone or against the original table."""
