"""Parses SQL into trees. It finds the meaning of a question, its allowed constructs, and the necessary estimates."""
