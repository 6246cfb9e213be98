"""Counts published values, with DuckDB for one question, and with Arrow and bitmaps for thousands of questions."""
