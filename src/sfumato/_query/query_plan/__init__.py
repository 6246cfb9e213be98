"""Runs queries over estimates: windows, subtotals, subqueries and other SQL over the rows of an answer.

A query is split into SELECTs over records, which the rest of `_query` answers, and operations on the rows of their
answers. DuckDB runs these operations on values. Formulas travel along, so that each displayed number has the error of
its formula.
"""
