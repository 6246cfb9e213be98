"""Runs queries over estimates: windows, subtotals, subqueries, and other SQL over the rows of an answer.

A query is split into SELECTs over records, and operations on the rows of their answers. The rest of `_query` answers
the SELECTs. DuckDB runs the operations on values. Each value keeps its formula, so each displayed number has the error
of its formula.
"""
