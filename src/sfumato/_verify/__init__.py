"""Checks releases by exact arithmetic, from their files alone and against the original table."""
