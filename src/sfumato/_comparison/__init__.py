"""Compares mechanisms: what they guarantee, what attackers learn, what they cost."""
