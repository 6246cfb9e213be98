"""What the usual privacy models say of a table: k-anonymity, diversity, closeness, likeness, disclosure and caps."""
