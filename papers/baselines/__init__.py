"""Methods that the papers compare with, or use where sfumato has better ones: for figures and as oracles only.

Nothing here can publish a table: distribution-based randomization, Laplace noise, suppression until Anatomy exists,
and the thesis' ways to bucket sizes (its searches for two sizes, and its integer programme).
docs/how-to/compare-with-the-literature.md shows how each is used.
"""
