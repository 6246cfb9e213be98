"""Reads a table once before it is published: columns, counts, persons, equivalence classes, and advice."""
