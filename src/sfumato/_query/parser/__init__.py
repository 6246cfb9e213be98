"""SQL as trees: what a question asks, what it may be made of, and what estimates it needs."""
