"""What the original holds and what the release shows, counted by DuckDB: for comparing the two."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.audit.written import Check, data_of, resource_of, sensitive_domain, sensitive_names, shown_names
from sfumato.request.schema import COMPOUND_MARK
from sfumato.request.values import domain_array, parts
from sfumato.shown.members import member_counts, membership
from sfumato.shown.quoting import quoted
from sfumato.shown.tally import Members

Numbers = npt.NDArray[np.float64]
Connection = duckdb.DuckDBPyConnection

BATCH_ROWS = 1 << 17
MOST_MATCHED, LARGEST_GROUP = 100_000, 20
"""So many groups of records with the same public columns are looked at, and groups up to this size."""

WHOLE = "NULL"
"""The grouping that puts all records into one group, whose value is missing."""


def public_columns(written: Mapping[str, Any]) -> list[str]:
    """The public columns of a release, quoted for SQL."""
    return [quoted(name) for name in public_names(written)]


def public_names(written: Mapping[str, Any]) -> list[str]:
    """The names of the public columns of a release."""
    fields = resource_of(written, data_of(written))["schema"]["fields"]
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


def matched_values(
    connection: Connection, written: Mapping[str, Any], transition: Numbers, largest: int = LARGEST_GROUP
) -> tuple[int, float, float, float]:
    """Match records with the original by all their public columns together, in small groups.

    Returns how many there are, how often a published value meets an equal true one of its group, and the mean and
    variance of that if values are published as `transition` says.
    """
    _register_domain(connection, written)
    size = len(transition)
    chances = {"x": np.repeat(np.arange(size), size), "y": np.tile(np.arange(size), size), "p": transition.ravel()}
    connection.register("transition", pa.table(chances).filter(pc.field("p") > 0))
    connection.execute(f"CREATE OR REPLACE TEMP TABLE people AS {_small_groups(written, largest)}")
    for table in ("original", "release"):
        connection.execute(f"CREATE OR REPLACE TEMP TABLE {table}_held AS {_held_by_group(table, written)}")
    moments = (
        "SELECT a.key, a.place, a.n, SUM(b.n * p) AS mean, SUM(b.n * b.n * p) AS square FROM original_held AS a "
        "JOIN original_held AS b USING (key) JOIN transition ON x = a.place AND y = b.place GROUP BY ALL"
    )
    sql = f"SELECT SUM(n)::BIGINT, SUM(n * mean), SUM(n * (square - mean * mean)) FROM ({moments})"
    ((rows, mean, variance),) = connection.execute(sql).fetchall()
    equal = "SELECT SUM(a.n * b.n) FROM original_held AS a JOIN release_held AS b USING (key, place)"
    ((agreed,),) = connection.execute(equal).fetchall()
    return int(rows or 0), float(agreed or 0), float(mean or 0), float(variance or 0)


def _small_groups(written: Mapping[str, Any], largest: int) -> str:
    # Columns of the table get names of ours, because theirs may be any.
    public = ", ".join(f"{name} AS c{number}" for number, name in enumerate(public_columns(written)))
    groups = f"SELECT {public} FROM original GROUP BY ALL HAVING COUNT(*) <= {largest} LIMIT {MOST_MATCHED}"
    return f"SELECT *, ROW_NUMBER() OVER () AS key FROM ({groups})"


def _held_by_group(table: str, written: Mapping[str, Any]) -> str:
    """How many records of each small group of a table have each value."""
    public, names = public_columns(written), sensitive_names(written)
    same = " AND ".join(f"t.{name} IS NOT DISTINCT FROM g.c{number}" for number, name in enumerate(public))
    value = " AND ".join(f"t.{quoted(name)} IS NOT DISTINCT FROM d.v{number}" for number, name in enumerate(names))
    joined = f"{table} AS t JOIN people AS g ON {same} JOIN domain AS d ON {value}"
    return f"SELECT g.key AS key, d.place AS place, COUNT(*) AS n FROM {joined} GROUP BY ALL"


def matched_sets(connection: Connection, written: Mapping[str, Any]) -> tuple[int, int]:
    """How many records are alone with their public columns, and how many of their sets hold the true value."""
    _register_domain(connection, written)
    names, public = sensitive_names(written), public_columns(written)
    key = f"SELECT {', '.join(public)} FROM original GROUP BY ALL HAVING COUNT(*) = 1 LIMIT {MOST_MATCHED}"
    same = " AND ".join(f"o.{name} IS NOT DISTINCT FROM {{0}}.{name}" for name in public)
    true = " AND ".join(f"o.{quoted(name)} IS NOT DISTINCT FROM d.v{number}" for number, name in enumerate(names))
    (column,) = shown_names(written)
    sql = (
        f"SELECT d.place, r.{quoted(column)} FROM original AS o JOIN ({key}) AS k ON {same.format('k')} "
        f"JOIN release AS r ON {same.format('r')} JOIN domain AS d ON {true}"
    )
    domain = [parts(value)[0] for value in sensitive_domain(written)]
    shown = Members(len(domain), written["sfumato"]["design"]["form"] == "list")
    rows = agreed = 0
    for batch in connection.sql(sql).to_arrow_reader(BATCH_ROWS):
        members = membership(batch.column(1), shown, domain_array(domain))
        agreed += int(members[np.arange(batch.num_rows), batch.column(0).to_numpy()].sum())
        rows += batch.num_rows
    return rows, agreed


def shown_counts(connection: Connection, written: Mapping[str, Any], group: str) -> dict[Any, dict[int, Numbers]]:
    """For each value of a grouping and each cell, how many records of the release show each place of the domain."""
    column = written["sfumato"].get("cell_column")
    cells = _placed(connection, written, "release", group, "0" if column is None else quoted(column))
    return _by_cell([row for row in cells if row[2] is not None], len(sensitive_domain(written)))


def _placed(
    connection: Connection, written: Mapping[str, Any], table: str, group: str, cell: str
) -> list[tuple[Any, int, int | None, int]]:
    """Rows of group, cell, place in the domain (None outside of it) and count."""
    names = sensitive_names(written)
    _register_domain(connection, written)
    symbols = ", ".join(f"{quoted(name)} AS s{number}" for number, name in enumerate(names))
    counted = f"SELECT {group} AS part, {cell} AS cell, {symbols}, COUNT(*) AS rows FROM {table} GROUP BY ALL"
    matches = " AND ".join(f"s{number} IS NOT DISTINCT FROM v{number}" for number in range(len(names)))
    sql = f"SELECT part, cell, place, rows FROM ({counted}) LEFT JOIN domain ON {matches}"
    return connection.execute(sql).fetchall()


def _register_domain(connection: Connection, written: Mapping[str, Any]) -> None:
    """The domain as a table: the place of each value, and its part in each sensitive column."""
    domain, size = sensitive_domain(written), len(sensitive_names(written))
    columns = {f"v{number}": domain_array([parts(value)[number] for value in domain]) for number in range(size)}
    connection.register("domain", pa.table({"place": pa.array(range(len(domain))), **columns}))


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
