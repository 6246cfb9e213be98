"""Separates the people in crowds from all others, so that a release of noisy counts can be compared with its original.

A crowd is a group of people with equal public columns whose counts are published instead of their records. Coarse
tables count everybody by some of the public columns. Their groups are numbered like crowds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sfumato._records.sql_quoting import quote_name
from sfumato._verify.manifest_view import ManifestView
from sfumato._verify.original_counts import Connection
from sfumato._verify.row_order import ROW

CROWDS = "crowds"
"""The table of crowds: the public columns c0, c1, ..., then the people and the number of the crowd."""


@dataclass(frozen=True)
class CountTable:
    """A table of counts, and its public columns."""

    file: str
    public_names: tuple[str, ...]
    crowds: str
    """The table of its groups in DuckDB."""
    lines: str
    """The view of its lines in DuckDB."""

    def list_columns(self, view: ManifestView) -> list[str]:
        """The columns after the public ones: the people, the value, its noisy count and its estimated count."""
        fields = view.find_resource(self.file)["schema"]["fields"]
        return [column["name"] for column in fields[len(self.public_names) :]]

    def register(self, connection: Connection, view: ManifestView, folder: Path) -> None:
        """Makes the view of the lines, and the table of the groups, group after group."""
        connection.read_parquet([str(folder / self.file)]).create_view(self.lines)
        groups = view.encoding.write_crowds(view.naming, self.public_names, self.lines)
        connection.execute(f"CREATE TEMP TABLE {self.crowds} AS {groups} ORDER BY crowd")


def list_count_tables(view: ManifestView) -> list[CountTable]:
    """The table of the counts of crowds, and the coarse tables. Empty for a release without crowds."""
    tables = enumerate(view.encoding.list_count_files(view.public_names).items())
    return [
        CountTable(file, tuple(names), f"{CROWDS}{_number(place)}", f"beside{_number(place)}")
        for place, (file, names) in tables
    ]


def _number(place: int) -> str:
    return f"_{place}" if place else ""


def write_same_crowd_sql(names: Sequence[str], rows: str, crowds: str) -> str:
    """SQL of the condition that a row has the public columns of a crowd."""
    pairs = enumerate(map(quote_name, names))
    return " AND ".join(["TRUE", *(f"{rows}.{name} IS NOT DISTINCT FROM {crowds}.c{number}" for number, name in pairs)])


@contextmanager
def leave_out_crowds(connection: Connection, view: ManifestView) -> Iterator[None]:
    """Leaves people in crowds out of the table `original` for some checks, because they have no records.

    The other rows keep their order. The table does not change if the release has no crowds.
    """
    if not list_count_tables(view):
        yield
        return
    rows, row = f"(SELECT *, ROW_NUMBER() OVER () AS {ROW} FROM original)", f"o.{ROW}"
    connection.execute(
        f"CREATE OR REPLACE TEMP TABLE outside AS SELECT o.* EXCLUDE ({ROW}) FROM {rows} AS o ANTI JOIN {CROWDS} AS c "
        f"ON {write_same_crowd_sql(view.public_names, 'o', 'c')} ORDER BY {row}"
    )
    connection.execute("ALTER TABLE original RENAME TO everybody")
    connection.execute("ALTER TABLE outside RENAME TO original")
    try:
        yield
    finally:
        connection.execute("DROP TABLE original")
        connection.execute("ALTER TABLE everybody RENAME TO original")
