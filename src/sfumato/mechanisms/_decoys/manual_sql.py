"""How to count decoys with any SQL tool, for the README of a release."""

from __future__ import annotations

from collections.abc import Sequence

from sfumato._core.cell_values import Value, example_value, parts
from sfumato._core.markdown import as_code
from sfumato._records import Naming
from sfumato._records.sql_quoting import equals, plain_name
from sfumato._terminal_safe import printable

_BY_HAND = """\
With any SQL tool, compare how often the value is shown by the selected records with how often it is shown by all. This
takes all other values to leak alike into it; `sfumato query` fits that better. In DuckDB, for {column}, with a
condition on the public columns in place of `true`:

    WITH whole AS (SELECT {shown} / COUNT(*) AS share FROM '{data}'),
         selected AS (SELECT COUNT(*) AS records, {shown} AS shown FROM '{data}' WHERE true)
    SELECT records * share + (shown - records * share) * {size} * (1 - share) / (1 - {size} * share)
    FROM whole, selected"""


def manual_sql(naming: Naming, values: Sequence[Value], group_size: int, data: str) -> str:
    """Write the closed form for the first sensitive column: R phi + (y - R phi) / d."""
    column, (example, *_) = naming.sensitive[0], parts(example_value(values))
    held = printable(f"COUNT(*) FILTER (WHERE {equals(plain_name(column), example)})")
    return _BY_HAND.format(column=as_code(column), shown=held, size=group_size, data=data)
