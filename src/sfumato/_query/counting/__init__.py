"""Counts published values: with DuckDB for one question, with Arrow and bitmaps for thousands."""
