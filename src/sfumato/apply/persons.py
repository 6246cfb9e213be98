"""Whose row is whose: persons are counted, and where they have more rows than they may, rows are chosen by key.

DuckDB groups the rows, and spills to disk where they are many. What stays in memory is one bit a row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.apply.source import Source
from sfumato.draws import Draws
from sfumato.errors import SchemaError, SourceError
from sfumato.request.persons import PersonRows, Which
from sfumato.shown.columns import dense

if TYPE_CHECKING:
    import duckdb

SMALLEST_BUDGET = 64 << 20
MANY_REPEATS = 0.01
"""More of an identifier's values than this do not repeat by mistake, or because two people have one name."""
PURPOSE = "person rows"
"""Of the draws that choose between the rows of a person."""

Bits = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class SelectedSource:
    """The rows of a source that were chosen, in their order."""

    source: Source
    bits: Bits
    """For each row of the source a bit, the first in the lowest bit of the first byte."""
    rows: int

    @property
    def schema(self) -> pa.Schema:
        """The columns of the source."""
        return self.source.schema

    def batches(self, columns: Sequence[str], batch_rows: int) -> Iterator[pa.RecordBatch]:
        """The chosen rows, as batches of some of the columns."""
        first = 0
        for batch in self.source.batches(columns, batch_rows):
            places = np.arange(first, first + batch.num_rows)
            first += batch.num_rows
            if first > 8 * len(self.bits):
                raise SourceError("the table changed while it was read: it has more rows than before.")
            is_chosen = self.bits[places >> 3] >> (places & 7).astype(np.uint8) & 1
            yield batch.filter(pa.array(is_chosen.astype(np.bool_)))

    def fingerprint(self) -> str:
        """That of the whole source."""
        return self.source.fingerprint()


@dataclass(frozen=True)
class Grouping:
    """The rows of a table grouped by person, within a budget of memory."""

    source: Source
    person: str
    folder: Path
    """Holds what does not fit into memory."""
    batch_rows: int = 1 << 17
    memory_budget: int = 256 << 20

    def checked(self, rows: PersonRows, draws: Draws) -> tuple[Source, int]:
        """The rows to publish, and how many are left out; refused where persons have more rows than they may."""
        if not rows.chooses:
            self.check(rows.most)
            return self.source, 0
        bits, kept, read = self.choose(rows, draws)
        return SelectedSource(self.source, bits, kept), read - kept

    def check(self, most: int) -> None:
        """Refuse a table in which persons have more rows than so many."""
        persons, repeated, largest, missing = self.count(most)
        if missing:
            self._refuse_missing(missing)
        if repeated:
            several = "several rows" if most == 1 else f"more than {most} rows"
            raise SchemaError(
                f"{repeated:,} of {persons:,} persons have {several} (the same {self.person!r}, up to {largest:,} "
                "times), and every further row of a person averages the protection away: publish one row of each "
                "(--one-row first:COL, last:COL or random), or share the bound among up to K rows of each "
                "(--rows-per-person K, and --surplus drop where some have more)."
            )

    def count(self, most: int) -> tuple[int, int, int, int]:
        """How many persons there are, how many have more rows than so many, the most rows, and rows of nobody."""
        counted = "SELECT person, COUNT(*) AS rows FROM people GROUP BY person"
        sql = (
            f"SELECT COUNT(person), COUNT(person) FILTER (rows > {most}), COALESCE(MAX(rows), 0), "
            f"COALESCE(SUM(rows) FILTER (person IS NULL), 0) FROM ({counted})"
        )
        with self._people() as people:
            return tuple(map(int, people.execute(sql).fetchall()[0]))  # type: ignore[return-value]

    def choose(self, rows: PersonRows, draws: Draws) -> tuple[Bits, int, int]:
        """A bit for each row, set where it is chosen; how many are, and how many rows there are.

        Among equals a keyed word decides: the order of arrival may tell something.
        """
        order, column = ["word", "row"], None if rows.one_row is None else rows.one_row.column
        if rows.one_row is not None and column is not None:
            order.insert(0, f"place {'DESC' if rows.one_row.which is Which.LAST else 'ASC'} NULLS LAST")
        ranked = f"ROW_NUMBER() OVER (PARTITION BY person ORDER BY {', '.join(order)})"
        with self._people(column, draws) as people:
            people.execute("CREATE TEMP TABLE known AS SELECT * FROM people")
            read, missing = people.execute("SELECT COUNT(*), COUNT(*) - COUNT(person) FROM known").fetchall()[0]
            if missing:
                self._refuse_missing(missing)
            bits, kept = np.zeros(-(-read // 8), dtype=np.uint8), 0
            found = people.sql(f"SELECT row FROM known QUALIFY {ranked} <= {rows.most}")
            for batch in found.to_arrow_reader(self.batch_rows):
                places = batch.column(0).to_numpy()
                np.bitwise_or.at(bits, places >> 3, np.uint8(1) << (places & 7).astype(np.uint8))
                kept += len(places)
        return bits, kept, read

    def _refuse_missing(self, missing: int) -> None:
        raise SchemaError(
            f"{missing:,} rows have no {self.person!r}, so nobody can tell whose they are; complete or remove them."
        )

    @contextmanager
    def _people(self, column: str | None = None, draws: Draws | None = None) -> Iterator[duckdb.DuckDBPyConnection]:
        """A connection with a view of all rows: the person; and to choose by, a number, a keyed word and a place."""
        import duckdb  # noqa: PLC0415 - takes long to load, and most tables have nothing to group

        limits: dict[str, Any] = {
            "memory_limit": f"{max(self.memory_budget, SMALLEST_BUDGET)}B",
            "temp_directory": str(self.folder),
        }
        try:
            with duckdb.connect(config=limits) as connection:
                connection.register("people", self._rows(column, draws))
                yield connection
        except duckdb.Error as error:
            raise SourceError(
                f"column {self.person!r} cannot be read to its end; check that the table was copied completely and "
                "holds plain values there."
            ) from error

    def _rows(self, column: str | None, draws: Draws | None) -> pa.RecordBatchReader:
        names = [self.person] if column is None else [self.person, column]
        kinds = [_person_type(self.source.schema.field(self.person).type)]
        if column is not None:
            kinds.append(_ordered_type(column, self.source.schema.field(column).type))
        fields = list(zip(("person", "place"), kinds, strict=False))
        if draws is not None:
            fields += [("row", pa.int64()), ("word", pa.uint64())]
        schema = pa.schema(fields)

        def batches() -> Iterator[pa.RecordBatch]:
            first = 0
            for batch in self.source.batches(names, self.batch_rows):
                arrays = [_named(dense(batch.column(self.person))).cast(kinds[0])]
                if column is not None:
                    arrays.append(_without_nan(dense(batch.column(column))).cast(kinds[1]))
                if draws is not None:
                    arrays.append(pa.array(np.arange(first, first + batch.num_rows)))
                    arrays.append(pa.array(draws.stream(PURPOSE).words(first, batch.num_rows)))
                first += batch.num_rows
                yield pa.RecordBatch.from_arrays(arrays, schema=schema)

        return pa.RecordBatchReader.from_batches(schema, batches())


def check_identifier(column: str, people: Grouping) -> None:
    """Refuse a column that names people, and some of them again and again, where nobody asked to count their rows."""
    named, repeated, largest, _ = people.count(1)
    if repeated > named * MANY_REPEATS:
        raise SchemaError(
            f"identifier {column!r} repeats ({repeated:,} of its {named:,} values are on several rows, up to "
            f"{largest:,}), as if persons had several rows: say that it tells whose row it is (--person {column} "
            f"instead of --identifier), or leave it out as a column that does not (--drop {column})."
        )


def _person_type(kind: pa.DataType) -> pa.DataType:
    """DuckDB has no whole numbers of more than 38 digits; as text they are as different as before."""
    return pa.string() if pa.types.is_decimal256(kind) else kind


def _ordered_type(column: str, kind: pa.DataType) -> pa.DataType:
    """The type that rows are put in order by: dates, times and numbers; texts have no first and no last."""
    if pa.types.is_decimal(kind):
        return pa.float64()
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_temporal(kind):
        return kind
    raise SchemaError(
        f"column {column!r} is of type {kind}, so no row is the first or the last by it; write dates as 2024-01-31 and "
        "numbers as 12.5 (and say what is missing with --missing), or take a random row (--one-row random)."
    )


def _named(persons: pa.Array) -> pa.Array:
    """Who persons are: an empty text and what is no number are nobody, and spaces around a text are no part of it."""
    if not pa.types.is_string(persons.type):
        return _without_nan(persons)
    trimmed = pc.utf8_trim_whitespace(persons)
    return pc.if_else(pc.equal(trimmed, ""), pa.scalar(None, trimmed.type), trimmed)


def _without_nan(numbers: pa.Array) -> pa.Array:
    """What is no number is missing."""
    if not pa.types.is_floating(numbers.type):
        return numbers
    return pc.if_else(pc.is_nan(numbers), pa.scalar(None, numbers.type), numbers)
