"""Answers questions with estimates and their errors."""
