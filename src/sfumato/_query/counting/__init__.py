"""Counts published values. DuckDB counts for one question. Arrow and bitmaps count for thousands of questions."""
