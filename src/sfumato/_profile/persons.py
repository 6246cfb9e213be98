"""Whose row is whose: persons are counted, and where they have more rows than they may, rows are chosen by key.

Rows are shuffled by a keyed hash of their person, so that all rows of a person come together, and each part of the
persons is looked at by itself. What stays in memory is one bit a row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sfumato._core.arrays import Codes, Places, RandomBits
from sfumato._core.digests import FileMapper
from sfumato._core.ordered_threads import map_in_order
from sfumato._core.random_draws import Draws
from sfumato._engines.engine import Engine, Means, TablePiece
from sfumato._engines.shuffle import ORDER, Bundle, Gathered, Layout, Rows, split
from sfumato._profile.equivalence_classes import hash_values
from sfumato._readers.sources import Source
from sfumato._records.column_codes import decode_dictionary, encode_batch_values
from sfumato._request.person_rows import PersonRows, RowChoice
from sfumato.errors import SchemaError, SourceError

MANY_REPEATS = 0.01
"""More of an identifier's values than this do not repeat by mistake, or because two people have one name."""
PURPOSE = "person rows"
"""Of the draws that choose between the rows of a person."""
TOGETHER = "persons together"
"""Of the draws that say where the rows of a person are brought together."""
PERSON, ROW, RANDOM_KEY, PLACE = "person", "row", "word", "place"

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

    def pieces(self, rows: int) -> Iterator[SelectedSource]:
        """The rows that were chosen of each piece of the source."""
        first = 0
        for piece in self.source.pieces(rows):
            size = piece.rows or 0
            around = np.unpackbits(self.bits[first >> 3 : (first + size + 7) >> 3], bitorder="little")
            mine = around[first & 7 : (first & 7) + size]
            yield SelectedSource(piece, np.packbits(mine, bitorder="little"), int(mine.sum()))
            first += size

    def fingerprint(self, each: FileMapper = map, *, is_content: bool = True) -> str:
        """That of the whole source."""
        return self.source.fingerprint(each, is_content=is_content)


@dataclass(frozen=True)
class Counted:
    """What is known of some persons, or of all."""

    persons: int = 0
    repeated: int = 0
    """Persons with more rows than they may have."""
    largest: int = 0
    """The most rows that anybody has."""
    missing: int = 0
    """Rows of nobody."""
    chosen: Places = field(default_factory=lambda: np.zeros(0, dtype=np.int64), repr=False)
    """The rows that were chosen, if any were to be."""


@dataclass(frozen=True)
class Grouping:
    """The rows of a table grouped by person."""

    engine: Engine
    source: Source
    person: str
    folder: Path
    """Holds what does not fit into memory."""

    def checked(self, rows: PersonRows, draws: Draws) -> tuple[Source, int]:
        """The rows to publish, and how many are left out; refused where persons have more rows than they may."""
        if not rows.chooses:
            self.check(rows.most, draws)
            return self.source, 0
        bits, kept_rows, read = self.choose(rows, draws)
        return SelectedSource(self.source, bits, kept_rows), read - kept_rows

    def check(self, most: int, draws: Draws) -> None:
        """Refuse a table in which persons have more rows than so many."""
        persons, repeated, largest, missing = self.count(most, draws)
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

    def count(self, most: int, draws: Draws) -> tuple[int, int, int, int]:
        """How many persons there are, how many have more rows than so many, the most rows, and rows of nobody."""
        parts = list(self._grouped(PersonRows(most), draws))
        return (
            sum(part.persons for part in parts),
            sum(part.repeated for part in parts),
            max((part.largest for part in parts), default=0),
            sum(part.missing for part in parts),
        )

    def choose(self, rows: PersonRows, draws: Draws) -> tuple[Bits, int, int]:
        """A bit for each row, set where it is chosen; how many are, and how many rows there are.

        Among equals a keyed word decides: the order of arrival may tell something.
        """
        read = self.source.rows or 0
        bits, kept_rows, missing = np.zeros(-(-read // 8), dtype=np.uint8), 0, 0
        for part_counts in self._grouped(rows, draws):
            if part_counts.chosen.max(initial=-1) >= read:
                raise SourceError("the table changed while it was read: it has more rows than before.")
            np.bitwise_or.at(bits, part_counts.chosen >> 3, np.uint8(1) << (part_counts.chosen & 7).astype(np.uint8))
            kept_rows += len(part_counts.chosen)
            missing += part_counts.missing
        if missing:
            self._refuse_missing(missing)
        return bits, kept_rows, read

    def _refuse_missing(self, missing: int) -> None:
        raise SchemaError(
            f"{missing:,} rows have no {self.person!r}, so nobody can tell whose they are; complete or remove them."
        )

    def _grouped(self, rows: PersonRows, draws: Draws) -> Iterator[Counted]:
        """What is known of the persons of each part."""
        column = None if rows.one_row is None else rows.one_row.column
        if column is not None:
            _check_ordered(column, self.source.schema.field(column).type)
        layout = Layout.of(self.source.rows or 0)
        work = _Bringing(self.person, column, draws, layout, chooses=rows.chooses)
        finish = _Together(rows, layout, self.folder, self.engine.means(layout.files))
        pieces = self.engine.pieces(self.source, work.columns)
        try:
            yield from self.engine.shuffled(work, pieces, finish, layout.files, lambda number: None)
        except pa.ArrowException as error:
            raise SourceError(
                f"column {self.person!r} cannot be read to its end; check that the table was copied completely and "
                "holds plain values there."
            ) from error


@dataclass(frozen=True)
class _Bringing:
    """From a piece to its persons, by where they are brought together; and to choose by, a row, a word and a place."""

    person: str
    column: str | None
    draws: Draws
    layout: Layout
    chooses: bool

    @property
    def columns(self) -> list[str]:
        return list(dict.fromkeys([self.person, *([] if self.column is None else [self.column])]))

    def __call__(self, piece: TablePiece) -> Iterator[Bundle]:
        salt = self.draws.stream(TOGETHER).words(0, 1)[0]
        for batch, first in piece.batches(self.columns):
            persons = _normalize_persons(decode_dictionary(batch.column(self.person)))
            random_keys: RandomBits = np.zeros(len(persons), dtype=np.uint64)
            random_keys[persons.is_valid().to_numpy(zero_copy_only=False)] = hash_values(persons.drop_null(), salt)
            rows: Rows = {ORDER: random_keys, PERSON: persons}
            if self.chooses:
                rows[ROW] = np.arange(first, first + len(persons))
                rows[RANDOM_KEY] = self.draws.stream(PURPOSE).words(first, len(persons))
            if self.column is not None:
                rows[PLACE] = _replace_nan(decode_dictionary(batch.column(self.column)))
            yield from split(self.layout, rows)


@dataclass(frozen=True)
class _Together:
    """From the rows of persons that were brought together to what is known of them."""

    rows: PersonRows
    layout: Layout
    folder: Path
    means: Means

    def __call__(self, part: int, bundles: Iterator[Bundle]) -> Iterator[Counted]:
        threads = self.means.threads
        with Gathered(self.layout, self.folder, self.means.memory) as gathered, ThreadPoolExecutor(threads) as pool:
            for bundle in bundles:
                gathered.add(bundle)
            if not gathered.is_empty:
                yield from map_in_order(
                    pool, threads, lambda number: self._counted(gathered.part(number)), range(self.layout.parts)
                )

    def _counted(self, rows: Rows) -> Counted:
        codes, values = encode_batch_values(rows[PERSON])
        counts = np.bincount(codes, minlength=len(values) + 1)
        person_counts, missing = counts[:-1], int(counts[-1])
        chosen = self._chosen(rows, codes) if ROW in rows and not missing else np.zeros(0, dtype=np.int64)
        repeated = int((person_counts > self.rows.most).sum())
        return Counted(int((person_counts > 0).sum()), repeated, int(person_counts.max(initial=0)), missing, chosen)

    def _chosen(self, rows: Rows, codes: Codes) -> Places:
        """Of each person as many rows as are published: the first by place, then by word."""
        keys = [rows[ROW], rows[RANDOM_KEY]]
        if PLACE in rows and self.rows.one_row is not None:
            places = _convert_to_integers(rows[PLACE])
            keys += [
                ~places if self.rows.one_row.which is RowChoice.LAST else places,
                rows[PLACE].is_null().to_numpy(False),
            ]
        order = np.lexsort([*keys, codes])
        whose = codes[order].astype(np.int64)
        firsts = np.searchsorted(whose, whose)
        return np.asarray(rows[ROW][order[np.arange(len(whose)) - firsts < self.rows.most]])


def check_identifier(column: str, people: Grouping, draws: Draws) -> None:
    """Refuse a column that names people, and some of them again and again, where nobody asked to count their rows."""
    named, repeated, largest, _ = people.count(1, draws)
    if repeated > named * MANY_REPEATS:
        raise SchemaError(
            f"identifier {column!r} repeats ({repeated:,} of its {named:,} values are on several rows, up to "
            f"{largest:,}), as if persons had several rows: say that it tells whose row it is (--person {column} "
            f"instead of --identifier), or leave it out as a column that does not (--drop {column})."
        )


def _check_ordered(column: str, kind: pa.DataType) -> None:
    """Rows are put in order by dates, times and numbers; texts have no first and no last."""
    if not (
        pa.types.is_decimal(kind)
        or pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_temporal(kind)
    ):
        raise SchemaError(
            f"column {column!r} is of type {kind}, so no row is the first or the last by it; write dates as 2024-01-31 "
            "and numbers as 12.5 (and say what is missing with --missing), or take a random row (--one-row random)."
        )


def _convert_to_integers(places: pa.Array) -> npt.NDArray[Any]:
    """Whole numbers in the order of the places: of numbers with a fraction, their bits."""
    if pa.types.is_decimal(places.type):
        places = places.cast(pa.float64())
    if pa.types.is_floating(places.type):
        bits = places.cast(pa.float64()).fill_null(0.0).to_numpy(zero_copy_only=False).view(np.int64)
        return np.asarray(np.where(bits < 0, bits ^ np.int64(2**63 - 1), bits))
    if pa.types.is_temporal(places.type):
        places = places.view(pa.int32() if places.type.bit_width == pa.int32().bit_width else pa.int64())
    return np.asarray(places.fill_null(0).to_numpy(zero_copy_only=False))


def _normalize_persons(persons: pa.Array) -> pa.Array:
    """Who persons are: an empty text and what is no number are nobody, and spaces around a text are no part of it."""
    if not pa.types.is_string(persons.type):
        return _replace_nan(persons)
    trimmed = pc.utf8_trim_whitespace(persons)
    return pc.if_else(pc.equal(trimmed, ""), pa.scalar(None, trimmed.type), trimmed)


def _replace_nan(numbers: pa.Array) -> pa.Array:
    """What is no number is missing."""
    if not pa.types.is_floating(numbers.type):
        return numbers
    return pc.if_else(pc.is_nan(numbers), pa.scalar(None, numbers.type), numbers)
