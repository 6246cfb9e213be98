"""Mechanisms that keep a record's value at random, or redraw it within its sub-table."""
