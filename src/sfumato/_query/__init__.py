"""Answers questions about a release with estimates and their errors."""
