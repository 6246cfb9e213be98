"""Counts true values in the original and published values in the release with DuckDB, so that they can be compared."""

from __future__ import annotations

from collections.abc import Iterable

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato._core.array_types import Floats
from sfumato._records.sql_quoting import quote_name
from sfumato._verify.manifest_view import ManifestView

Connection = duckdb.DuckDBPyConnection

MOST_MATCHED, LARGEST_GROUP = 100_000, 20
"""Records with the same public columns form a group. These are the largest number and size of compared groups."""

MOST_GROUPS = 100
"""A column is compared group by group if it has at most this number of values."""

WHOLE = "NULL"
"""The grouping that puts all records into one group with a missing value."""


def list_coarse_columns(connection: Connection, view: ManifestView) -> list[str]:
    """The public columns with few values, as strings, because Python cannot read all types of times."""
    columns = view.quoted_public_names
    counts = ", ".join(f"APPROX_COUNT_DISTINCT({column})" for column in columns)
    sizes = connection.execute(f"SELECT {counts} FROM original").fetchall()[0]
    return [f"CAST({column} AS VARCHAR)" for column, size in zip(columns, sizes, strict=True) if size <= MOST_GROUPS]


def count_true_values(connection: Connection, view: ManifestView, group: str) -> dict[object, Floats] | None:
    """For each value of a grouping, the number of records of the original with each value of the domain.

    None if a record has a value outside the domain.
    """
    cells = _count_by_place(connection, view, "original", group, "0")
    if any(place is None for _, _, place, _ in cells):
        return None
    return {key: counts[0] for key, counts in _arrange_by_sub_table(cells, len(view.domain)).items()}


def count_original_values(connection: Connection, view: ManifestView) -> list[int] | None:
    """The number of records of the original with each value of the domain; None if a record has another value."""
    value_counts = count_true_values(connection, view, WHOLE)
    return (
        None if value_counts is None else [int(count) for count in value_counts.get(None, np.zeros(len(view.domain)))]
    )


def match_values(
    connection: Connection, view: ManifestView, transition: Floats, largest: int = LARGEST_GROUP
) -> tuple[int, float, float, float]:
    """Matches records with the original by all public columns together, in small groups.

    Returns the number of records, and the number of pairs of equal published and true values in a group. It also
    returns the mean and the variance of the number of pairs if values are published with the probabilities in
    `transition`.
    """
    register_domain(connection, view)
    size = len(transition)
    chances = {"x": np.repeat(np.arange(size), size), "y": np.tile(np.arange(size), size), "p": transition.ravel()}
    connection.register("transition", pa.table(chances).filter(pc.field("p") > 0))
    connection.execute(f"CREATE OR REPLACE TEMP TABLE people AS {_write_small_groups_sql(view, largest)}")
    for table in ("original", "release"):
        connection.execute(f"CREATE OR REPLACE TEMP TABLE {table}_held AS {_write_group_counts_sql(table, view)}")
    moments = (
        "SELECT a.key, a.place, a.n, SUM(b.n * p) AS mean, SUM(b.n * b.n * p) AS square FROM original_held AS a "
        "JOIN original_held AS b USING (key) JOIN transition ON x = a.place AND y = b.place GROUP BY ALL"
    )
    sql = f"SELECT SUM(n)::BIGINT, SUM(n * mean), SUM(n * (square - mean * mean)) FROM ({moments})"
    ((rows, mean, variance),) = connection.execute(sql).fetchall()
    equal = "SELECT SUM(a.n * b.n) FROM original_held AS a JOIN release_held AS b USING (key, place)"
    ((agreements,),) = connection.execute(equal).fetchall()
    return int(rows or 0), float(agreements or 0), float(mean or 0), float(variance or 0)


def _write_small_groups_sql(view: ManifestView, largest: int) -> str:
    # Columns get new names, because a table may have any names.
    public = ", ".join(f"{name} AS c{number}" for number, name in enumerate(view.quoted_public_names))
    groups = f"SELECT {public} FROM original GROUP BY ALL HAVING COUNT(*) <= {largest} LIMIT {MOST_MATCHED}"
    return f"SELECT *, ROW_NUMBER() OVER () AS key FROM ({groups})"


def _write_group_counts_sql(table: str, view: ManifestView) -> str:
    """SQL for the number of records with each value in each small group of a table."""
    public, names = view.quoted_public_names, view.sensitive_names
    same = " AND ".join(f"t.{name} IS NOT DISTINCT FROM g.c{number}" for number, name in enumerate(public))
    value = " AND ".join(f"t.{quote_name(name)} IS NOT DISTINCT FROM d.v{number}" for number, name in enumerate(names))
    joined_sql = f"{table} AS t JOIN people AS g ON {same} JOIN domain AS d ON {value}"
    return f"SELECT g.key AS key, d.place AS place, COUNT(*) AS n FROM {joined_sql} GROUP BY ALL"


def count_published_values(connection: Connection, view: ManifestView, group: str) -> dict[object, dict[int, Floats]]:
    """For each value of a grouping and each sub-table, the number of records that publish each value of the domain."""
    column = view.naming.cell
    cells = _count_by_place(connection, view, "release", group, "0" if column is None else quote_name(column))
    return _arrange_by_sub_table([row for row in cells if row[2] is not None], len(view.domain))


def _count_by_place(
    connection: Connection, view: ManifestView, table: str, group: str, cell: str
) -> list[tuple[object, int, int | None, int]]:
    """Rows of group, sub-table, index in the domain (None for other values) and count."""
    names = view.sensitive_names
    register_domain(connection, view)
    symbols = ", ".join(f"{quote_name(name)} AS s{number}" for number, name in enumerate(names))
    counts_sql = f"SELECT {group} AS part, {cell} AS cell, {symbols}, COUNT(*) AS rows FROM {table} GROUP BY ALL"
    matches = " AND ".join(f"s{number} IS NOT DISTINCT FROM v{number}" for number in range(len(names)))
    sql = f"SELECT part, cell, place, rows FROM ({counts_sql}) LEFT JOIN domain ON {matches}"
    return connection.execute(sql).fetchall()


def register_domain(connection: Connection, view: ManifestView) -> None:
    """Registers the domain as a table, with the index of each value and its part in each sensitive column."""
    columns = {f"v{number}": view.naming.make_part_domain(number) for number in range(len(view.sensitive_names))}
    connection.register("domain", pa.table({"place": pa.array(range(len(view.domain))), **columns}))


def _arrange_by_sub_table(
    rows: Iterable[tuple[object, int, int | None, int]], size: int
) -> dict[object, dict[int, Floats]]:
    counts_by_group: dict[object, dict[int, Floats]] = {}
    for part, cell, place, count in rows:
        counts = counts_by_group.setdefault(part, {}).setdefault(cell, np.zeros(size))
        counts[place] += count
    return counts_by_group
