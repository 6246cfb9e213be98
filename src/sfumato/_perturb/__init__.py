"""Turns batches of the table into protected records in files."""
