"""Mechanisms that publish a random set of values for each record."""
