"""Mechanisms that keep a record's value with some probability, and otherwise redraw it within its sub-table."""
