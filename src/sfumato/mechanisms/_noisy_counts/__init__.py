"""Publishes the counts of equivalence classes with noise that adds up to zero."""
