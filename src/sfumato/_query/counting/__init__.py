"""Counting what records show: by DuckDB for one question, by Arrow and bitmaps for thousands."""
