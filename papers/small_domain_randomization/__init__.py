"""Chaytor, Wang: "Small domain randomization: same privacy, more utility", 2010."""
