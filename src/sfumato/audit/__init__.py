"""Checking releases: by exact arithmetic, from the files alone and against the original."""
