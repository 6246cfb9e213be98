"""The papers' own methods where the product has better ones: for figures and as oracles, never for a release."""
