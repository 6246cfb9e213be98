"""Engines run the work on a table, on this machine or on Spark, and shuffle rows between pieces."""
