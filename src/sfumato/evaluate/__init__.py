"""The papers' own methods where the product has better ones: for figures and as oracles, never for a release.

Questions and how far answers to them are off: `pools`, `coded_table`, `accuracy`. Baselines: values drawn afresh
(`redrawn`), Laplace noise (`laplace`), records left out until Anatomy exists (`suppression`), and the thesis' ways to
bucket sizes: its searches for two (`two_size_programs`) and its integer programme (`assignment_program`).
docs/how-to/compare-with-the-literature.md shows how each is used.
"""
