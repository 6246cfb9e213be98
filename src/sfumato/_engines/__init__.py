"""Where work on a table runs: on this machine or on Spark, and how rows are shuffled between pieces."""
