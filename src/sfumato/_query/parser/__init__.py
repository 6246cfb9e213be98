"""Parses SQL into trees: the meaning of a question, its allowed constructs, and the estimates it needs."""
