"""Mechanisms that keep a record's value with some probability, and otherwise redraw it within the record's
sub-table.
"""
