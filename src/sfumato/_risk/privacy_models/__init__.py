"""Measures the usual privacy models of a table: k-anonymity, diversity, closeness, likeness, disclosure and caps."""
