"""How to count decoys with any SQL tool, for the README of a release."""

from __future__ import annotations

from collections.abc import Sequence

from sfumato._core.cell_values import Value, choose_example_value, split_value
from sfumato._core.markdown import format_as_code
from sfumato._records import Naming
from sfumato._records.sql_quoting import quote_if_needed, write_equality
from sfumato._terminal_safe import escape_unprintable

_CLOSED_FORM_SQL = """\
With any SQL tool, compare how often the value is shown by the selected records with how often it is shown by all. This
takes all other values to leak alike into it; `sfumato query` fits that better. In DuckDB, for {column}, with a
condition on the public columns in place of `true`:

    WITH whole AS (SELECT {shown} / COUNT(*) AS share FROM '{data}'),
         selected AS (SELECT COUNT(*) AS records, {shown} AS shown FROM '{data}' WHERE true)
    SELECT records * share + (shown - records * share) * {size} * (1 - share) / (1 - {size} * share)
    FROM whole, selected"""


def format_closed_form(naming: Naming, values: Sequence[Value], group_size: int, data: str) -> str:
    """Write the closed form for the first sensitive column: R phi + (y - R phi) / d."""
    column, (example, *_) = naming.sensitive[0], split_value(choose_example_value(values))
    count_expression = escape_unprintable(f"COUNT(*) FILTER (WHERE {write_equality(quote_if_needed(column), example)})")
    return _CLOSED_FORM_SQL.format(column=format_as_code(column), shown=count_expression, size=group_size, data=data)
