"""Queries over estimates: windows, subtotals, subqueries and whatever else SQL makes of the rows of an answer.

A query is taken apart into SELECTs over records, which the rest of `_query` answers, and what is done with the rows
of their answers. That is left to DuckDB, which sees values; formulas travel along, and each number that is shown in the
end has the error of its formula.
"""
