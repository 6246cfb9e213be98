"""What the original holds and what the release shows, counted by DuckDB: for comparing the two."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sfumato.audit.verify import Check, resource_of, sensitive_domain, sensitive_names, shown_names
from sfumato.counting import member_counts
from sfumato.manifest import DATA
from sfumato.schema import COMPOUND_MARK
from sfumato.sql import quoted
from sfumato.tally import Members
from sfumato.values import domain_array, parts

Numbers = npt.NDArray[np.float64]
Connection = duckdb.DuckDBPyConnection

BATCH_ROWS = 1 << 17
WHOLE = "NULL"
"""The grouping that puts all records into one group, whose value is missing."""


def public_columns(written: Mapping[str, Any]) -> list[str]:
    """The public columns of a release, quoted for SQL."""
    return [quoted(name) for name in public_names(written)]


def public_names(written: Mapping[str, Any]) -> list[str]:
    """The names of the public columns of a release."""
    fields = resource_of(written, DATA)["schema"]["fields"]
    return [field["name"] for field in fields if field["name"] not in shown_names(written)]


def outside(written: Mapping[str, Any], name: str) -> Check:
    """The check fails because the original holds what the release cannot have been made from."""
    column = COMPOUND_MARK.join(sensitive_names(written))
    return Check(name, False, f"the original holds a {column!r} outside the domain of the release.")


def held_counts(connection: Connection, written: Mapping[str, Any], group: str) -> dict[Any, Numbers] | None:
    """For each value of a grouping, how many records of the original hold each place of the domain.

    None if a record holds what is not in the domain.
    """
    cells = _placed(connection, written, "original", group, "0")
    if any(place is None for _, _, place, _ in cells):
        return None
    found = _by_cell(cells, len(sensitive_domain(written)))
    return {key: counts[0] for key, counts in found.items()}


def shown_counts(connection: Connection, written: Mapping[str, Any], group: str) -> dict[Any, dict[int, Numbers]]:
    """For each value of a grouping and each cell, how many records of the release show each place of the domain."""
    column = written["sfumato"].get("cell_column")
    cells = _placed(connection, written, "release", group, "0" if column is None else quoted(column))
    return _by_cell([row for row in cells if row[2] is not None], len(sensitive_domain(written)))


def _placed(
    connection: Connection, written: Mapping[str, Any], table: str, group: str, cell: str
) -> list[tuple[Any, int, int | None, int]]:
    """Rows of group, cell, place in the domain (None outside of it) and count."""
    names, domain = sensitive_names(written), sensitive_domain(written)
    columns = {f"v{number}": domain_array([parts(value)[number] for value in domain]) for number in range(len(names))}
    connection.register("domain", pa.table({"place": pa.array(range(len(domain))), **columns}))
    symbols = ", ".join(f"{quoted(name)} AS s{number}" for number, name in enumerate(names))
    counted = f"SELECT {group} AS part, {cell} AS cell, {symbols}, COUNT(*) AS rows FROM {table} GROUP BY ALL"
    matches = " AND ".join(f"s{number} IS NOT DISTINCT FROM v{number}" for number in range(len(names)))
    sql = f"SELECT part, cell, place, rows FROM ({counted}) LEFT JOIN domain ON {matches}"
    return connection.execute(sql).fetchall()


def _by_cell(rows: Iterable[tuple[Any, int, int | None, int]], size: int) -> dict[Any, dict[int, Numbers]]:
    found: dict[Any, dict[int, Numbers]] = {}
    for part, cell, place, count in rows:
        counts = found.setdefault(part, {}).setdefault(cell, np.zeros(size))
        counts[place] += count
    return found


def shown_members(connection: Connection, written: Mapping[str, Any], group: str) -> dict[Any, Numbers]:
    """For each value of a grouping, how many sets of the release hold each place of the domain."""
    domain, as_list = sensitive_domain(written), written["sfumato"]["design"]["form"] == "list"
    (column,) = shown_names(written)
    keys = [row[0] for row in connection.execute(f"SELECT DISTINCT {group} FROM release ORDER BY 1").fetchall()]
    numbered = f"SELECT DENSE_RANK() OVER (ORDER BY {group}) - 1, {quoted(column)} FROM release"
    reader = connection.sql(numbered).to_arrow_reader(BATCH_ROWS)
    values = domain_array([parts(value)[0] for value in domain])
    counts = member_counts(reader, len(keys), Members(len(domain), as_list), values)
    return dict(zip(keys, counts.astype(np.float64), strict=True))
