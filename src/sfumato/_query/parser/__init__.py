"""Parses SQL into trees. Finds what a question means, whether it is allowed, and which estimates it needs."""
