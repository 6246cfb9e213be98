"""Engines run the work on a table on this machine or on Spark, and shuffle the rows of all pieces."""
