"""From a batch of the table to protected records in files."""
