"""Counts the rows of each person. If a person has more rows than allowed, it chooses rows by a key.

Rows are distributed by a keyed hash of their person, so that all rows of a person arrive in the same part. Each part of
the persons is counted separately. Memory holds one bit for each row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sfumato._core.array_types import Codes, Places, RandomBits, WholeNumbers
from sfumato._core.digests import FileMapper
from sfumato._core.ordered_threads import map_in_order
from sfumato._core.random_draws import Draws
from sfumato._engines.engine import Engine, Resources, TablePiece
from sfumato._engines.shuffle import ORDER, Bundle, Layout, PartStore, Rows, bundle_rows
from sfumato._profile.equivalence_classes import hash_values
from sfumato._readers.sources import Source
from sfumato._records.column_codes import decode_dictionary, encode_batch_values
from sfumato._request.person_rows import PersonBasis, PersonRows, RowChoice
from sfumato.errors import SchemaError, SourceError

MANY_REPEATS = 0.01
"""A larger share of repeated values cannot be due to mistakes, or to two people with the same name."""
CHOICE_PURPOSE = "person rows"
"""Purpose of the draws that choose between the rows of a person."""
GATHER_PURPOSE = "persons together"
"""Purpose of the draws that decide which part receives the rows of a person."""
PERSON, ROW, RANDOM_KEY, PLACE = "person", "row", "word", "place"
NO_ROWS: Places = np.zeros(0, dtype=np.int64)
DIGITS = "^[0-9]{1,18}$"
"""A row number, as it is written in a column of text."""

Bits = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class SelectedSource:
    """The chosen rows of a source, in their order."""

    source: Source
    bits: Bits
    """One bit for each row of the source; the first row is the lowest bit of the first byte."""
    rows: int

    @property
    def schema(self) -> pa.Schema:
        """The columns of the source."""
        return self.source.schema

    def read_batches(self, columns: Sequence[str], batch_rows: int) -> Iterator[pa.RecordBatch]:
        """The chosen rows, as batches of some of the columns."""
        first = 0
        for batch in self.source.read_batches(columns, batch_rows):
            places = np.arange(first, first + batch.num_rows)
            first += batch.num_rows
            if first > 8 * len(self.bits):
                raise SourceError(
                    "the table changed while it was read: it has more rows than before.", code="table-changed"
                )
            is_chosen = self.bits[places >> 3] >> (places & 7).astype(np.uint8) & 1
            yield batch.filter(pa.array(is_chosen.astype(np.bool_)))

    def iter_pieces(self, rows: int) -> Iterator[SelectedSource]:
        """The chosen rows of each piece of the source."""
        first = 0
        for piece in self.source.iter_pieces(rows):
            size = piece.rows or 0
            around = np.unpackbits(self.bits[first >> 3 : (first + size + 7) >> 3], bitorder="little")
            piece_bits = around[first & 7 : (first & 7) + size]
            yield SelectedSource(piece, np.packbits(piece_bits, bitorder="little"), int(piece_bits.sum()))
            first += size

    def compute_fingerprint(self, map_files: FileMapper = map, *, is_content: bool = True) -> str:
        """The fingerprint of the whole source."""
        return self.source.compute_fingerprint(map_files, is_content=is_content)


@dataclass(frozen=True)
class PersonSelection:
    """The rows to publish."""

    source: Source
    dropped_rows: int
    """The number of rows that are not published, because other rows of the same persons are."""
    basis: PersonBasis
    """How it is known which rows belong to one person."""


@dataclass(frozen=True)
class PersonCounts:
    """Counts of some persons, or of all."""

    persons: int = 0
    repeated_persons: int = 0
    """Persons with more rows than allowed."""
    most_rows: int = 0
    """The largest number of rows of one person."""
    missing_rows: int = 0
    """Rows without a person."""
    chosen_rows: Places = field(default_factory=lambda: NO_ROWS, repr=False)
    """The positions of the chosen rows, if rows were to be chosen."""
    extremes: tuple[int, int] | None = None
    """The smallest and the largest identity, if all identities are whole numbers."""

    @property
    def basis(self) -> PersonBasis:
        """Whether the identities number the rows: 1 to n, or 0 to n - 1, in any order."""
        if self.extremes is None or self.most_rows != 1 or self.missing_rows or self.persons == 1:
            return PersonBasis.COLUMN
        low, high = self.extremes
        is_row_number = low in (0, 1) and high - low + 1 == self.persons
        return PersonBasis.ROW_NUMBERS if is_row_number else PersonBasis.COLUMN

    @classmethod
    def add_up(cls, parts: Iterable[PersonCounts]) -> PersonCounts:
        """The counts of all parts together, without their chosen rows."""
        filled_parts = [part for part in parts if part.persons or part.missing_rows]
        extremes = [part.extremes for part in filled_parts if part.extremes is not None]
        lows, highs = [low for low, _ in extremes], [high for _, high in extremes]
        return cls(
            sum(part.persons for part in filled_parts),
            sum(part.repeated_persons for part in filled_parts),
            max((part.most_rows for part in filled_parts), default=0),
            sum(part.missing_rows for part in filled_parts),
            extremes=(min(lows), max(highs)) if extremes and len(extremes) == len(filled_parts) else None,
        )


@dataclass(frozen=True)
class PersonGrouping:
    """The rows of a table grouped by person."""

    engine: Engine
    source: Source
    person: str
    folder: Path
    """The folder for data that does not fit into memory."""

    def select_rows(self, rows: PersonRows, draws: Draws) -> PersonSelection:
        """The rows to publish. Refuses a table in which a person has more rows than allowed."""
        if not rows.is_selective:
            return PersonSelection(self.source, 0, self.check(rows.max_rows, draws).basis)
        bits, kept_rows, counts = self.choose(rows, draws)
        dropped_rows = (self.source.rows or 0) - kept_rows
        return PersonSelection(SelectedSource(self.source, bits, kept_rows), dropped_rows, counts.basis)

    def check(self, most: int, draws: Draws) -> PersonCounts:
        """Count the persons. Refuse a table in which a person has more than `most` rows."""
        counts = self.count_persons(most, draws)
        persons, repeated, largest = counts.persons, counts.repeated_persons, counts.most_rows
        if counts.missing_rows:
            self._refuse_missing(counts.missing_rows)
        if repeated:
            several = "several rows" if most == 1 else f"more than {most} rows"
            raise SchemaError(
                f"{repeated:,} of {persons:,} persons have {several} (the same {self.person!r}, up to {largest:,} "
                "times). Every further row of a person weakens the protection, because an attacker can average the "
                "rows. Publish one row of each person (`one_row='first:COL'`, `one_row='last:COL'` or "
                "`one_row='random'`). Or share the bound among up to K rows of each person: `rows_per_person=K`, "
                "and `surplus='drop'` if some persons have more.",
                code="several-rows-per-person",
                fields={
                    "column": self.person,
                    "repeated": repeated,
                    "persons": persons,
                    "most": most,
                    "largest": largest,
                },
            )
        return counts

    def count_persons(self, most: int, draws: Draws) -> PersonCounts:
        """The counts of all persons. A person with more than `most` rows counts as repeated."""
        return PersonCounts.add_up(self._count_parts(PersonRows(most), draws))

    def choose(self, rows: PersonRows, draws: Draws) -> tuple[Bits, int, PersonCounts]:
        """One bit for each row (1 if the row is chosen), the number of chosen rows, and the counts of all persons.

        A keyed random number decides between equal rows, because the order of arrival may disclose something.
        """
        total_rows = self.source.rows or 0
        bits, kept_rows, parts = np.zeros(-(-total_rows // 8), dtype=np.uint8), 0, []
        for part_counts in self._count_parts(rows, draws):
            if part_counts.chosen_rows.max(initial=-1) >= total_rows:
                raise SourceError(
                    "the table changed while it was read: it has more rows than before.", code="table-changed"
                )
            np.bitwise_or.at(
                bits, part_counts.chosen_rows >> 3, np.uint8(1) << (part_counts.chosen_rows & 7).astype(np.uint8)
            )
            kept_rows += len(part_counts.chosen_rows)
            parts.append(replace(part_counts, chosen_rows=NO_ROWS))
        counts = PersonCounts.add_up(parts)
        if counts.missing_rows:
            self._refuse_missing(counts.missing_rows)
        return bits, kept_rows, counts

    def _refuse_missing(self, missing: int) -> None:
        raise SchemaError(
            f"{missing:,} rows have no {self.person!r}, so their person is unknown; complete or remove them.",
            code="missing-person",
            fields={"column": self.person, "rows": missing},
        )

    def _count_parts(self, rows: PersonRows, draws: Draws) -> Iterator[PersonCounts]:
        """The counts of the persons of each part."""
        column = None if rows.one_row is None else rows.one_row.column
        if column is not None:
            _check_ordered(column, self.source.schema.field(column).type)
        layout = Layout.of(self.source.rows or 0)
        work = _PersonScatter(self.person, column, draws, layout, chooses=rows.is_selective)
        finish = _PersonGather(rows, layout, self.folder, self.engine.allot_resources(layout.files))
        pieces = self.engine.split_source(self.source, work.columns)
        try:
            yield from self.engine.shuffle(work, pieces, finish, layout.files, lambda number: None)
        except pa.ArrowException as error:
            raise SourceError(
                f"column {self.person!r} cannot be read to its end; check that the table was copied completely and "
                "holds plain values in this column.",
                code="damaged-column",
                fields={"column": self.person},
            ) from error


@dataclass(frozen=True)
class _PersonScatter:
    """Splits a piece into the parts that receive its persons.

    Each row has a row number, a random number and a sort value.
    """

    person: str
    order_column: str | None
    draws: Draws
    layout: Layout
    chooses: bool

    @property
    def columns(self) -> list[str]:
        return list(dict.fromkeys([self.person, *([] if self.order_column is None else [self.order_column])]))

    def __call__(self, piece: TablePiece) -> Iterator[Bundle]:
        salt = self.draws.get_stream(GATHER_PURPOSE).draw_bits(0, 1)[0]
        for batch, first in piece.read_batches(self.columns):
            persons = _normalize_persons(decode_dictionary(batch.column(self.person)))
            random_keys: RandomBits = np.zeros(len(persons), dtype=np.uint64)
            random_keys[persons.is_valid().to_numpy(zero_copy_only=False)] = hash_values(persons.drop_null(), salt)
            rows: Rows = {ORDER: random_keys, PERSON: persons}
            if self.chooses:
                rows[ROW] = np.arange(first, first + len(persons))
                rows[RANDOM_KEY] = self.draws.get_stream(CHOICE_PURPOSE).draw_bits(first, len(persons))
            if self.order_column is not None:
                rows[PLACE] = _replace_nan(decode_dictionary(batch.column(self.order_column)))
            yield from bundle_rows(self.layout, rows)


@dataclass(frozen=True)
class _PersonGather:
    """Counts the persons whose rows were brought together in one part."""

    rows: PersonRows
    layout: Layout
    folder: Path
    resources: Resources

    def __call__(self, part: int, bundles: Iterator[Bundle]) -> Iterator[PersonCounts]:
        threads = self.resources.threads
        with (
            PartStore(self.layout, self.folder, self.resources.memory) as gathered,
            ThreadPoolExecutor(threads) as pool,
        ):
            for bundle in bundles:
                gathered.add(bundle)
            if not gathered.is_empty:
                yield from map_in_order(
                    pool,
                    threads,
                    lambda number: self._count_persons(gathered.read_part(number)),
                    range(self.layout.parts),
                )

    def _count_persons(self, rows: Rows) -> PersonCounts:
        codes, values = encode_batch_values(rows[PERSON])
        counts = np.bincount(codes, minlength=len(values) + 1)
        person_counts, missing = counts[:-1], int(counts[-1])
        chosen_rows = self._choose_rows(rows, codes) if ROW in rows and not missing else NO_ROWS
        repeated = int((person_counts > self.rows.max_rows).sum())
        return PersonCounts(
            int((person_counts > 0).sum()),
            repeated,
            int(person_counts.max(initial=0)),
            missing,
            chosen_rows,
            find_extremes(values),
        )

    def _choose_rows(self, rows: Rows, codes: Codes) -> Places:
        """The published rows of each person: the first ones by sort value, with ties broken by random number."""
        keys = [rows[ROW], rows[RANDOM_KEY]]
        if PLACE in rows and self.rows.one_row is not None:
            places = _convert_to_integers(rows[PLACE])
            keys += [
                ~places if self.rows.one_row.choice is RowChoice.LAST else places,
                rows[PLACE].is_null().to_numpy(False),
            ]
        order = np.lexsort([*keys, codes])
        person_codes = codes[order].astype(np.int64)
        firsts = np.searchsorted(person_codes, person_codes)
        return np.asarray(rows[ROW][order[np.arange(len(person_codes)) - firsts < self.rows.max_rows]])


def check_identifier(column: str, grouping: PersonGrouping, draws: Draws) -> None:
    """Refuse an identifier column whose values repeat often, unless the rows of persons are counted."""
    counts = grouping.count_persons(1, draws)
    value_count, repeated, largest = counts.persons, counts.repeated_persons, counts.most_rows
    if repeated > value_count * MANY_REPEATS:
        raise SchemaError(
            f"identifier {column!r} repeats ({repeated:,} of its {value_count:,} values are on several rows, up to "
            f"{largest:,}), as if persons had several rows: if it identifies the person of each row, use "
            f"`person={column!r}` with `one_row='random'` or `rows_per_person={largest}`, instead of `identifier=`; "
            f"if it does not, drop it (`drop={[column]!r}`).",
            code="identifier-repeats",
            fields={"column": column, "repeated": repeated, "values": value_count, "largest": largest},
        )


def check_stated_persons(column: str, grouping: PersonGrouping, draws: Draws) -> None:
    """Refuse the statement that each row is a person, if a column that names persons has a value on several rows."""
    counts = grouping.count_persons(1, draws)
    if counts.repeated_persons:
        raise SchemaError(
            f"each row was stated to be a different person, but {counts.repeated_persons:,} of the {counts.persons:,} "
            f"values of {column!r} are on several rows. Name the column that identifies the person "
            f"(`person={column!r}`). Or withdraw the statement (`each_row_is_a_person=`).",
            code="stated-persons-repeat",
            fields={"column": column, "repeated": counts.repeated_persons, "values": counts.persons},
        )


def _check_ordered(column: str, kind: pa.DataType) -> None:
    """Refuse to order rows by a column of text. Only dates, times and numbers give an order."""
    if not (
        pa.types.is_decimal(kind)
        or pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_temporal(kind)
    ):
        raise SchemaError(
            f"column {column!r} is of type {kind}, which cannot put rows in order. Write dates as 2024-01-31 and "
            "numbers as 12.5, and name missing values with `missing=`. Or choose a random row "
            "(`one_row='random'`).",
            code="rows-not-ordered",
            fields={"column": column, "type": str(kind)},
        )


def _convert_to_integers(places: pa.Array) -> WholeNumbers:
    """Whole numbers that have the same order as the values. A number with a fraction is replaced by its bits."""
    if pa.types.is_decimal(places.type):
        places = places.cast(pa.float64())
    if pa.types.is_floating(places.type):
        bits = places.cast(pa.float64()).fill_null(0.0).to_numpy(zero_copy_only=False).view(np.int64)
        return np.asarray(np.where(bits < 0, bits ^ np.int64(2**63 - 1), bits))
    if pa.types.is_temporal(places.type):
        places = places.view(pa.int32() if places.type.bit_width == pa.int32().bit_width else pa.int64())
    return np.asarray(places.fill_null(0).to_numpy(zero_copy_only=False))


def find_extremes(values: pa.Array) -> tuple[int, int] | None:
    """The smallest and the largest value, if all values are whole numbers."""
    if pa.types.is_string(values.type) and pc.all(pc.match_substring_regex(values, DIGITS)).as_py():
        values = values.cast(pa.int64())
    elif pa.types.is_floating(values.type) and pc.all(pc.equal(pc.floor(values), values)).as_py():
        values = values.filter(pc.is_finite(values))
    elif not pa.types.is_integer(values.type):
        return None
    low, high = (end.as_py() for end in pc.min_max(values).values())
    return None if low is None else (int(low), int(high))


def _normalize_persons(persons: pa.Array) -> pa.Array:
    """The identities of persons. Empty strings and not-a-number are missing, and spaces at the ends are ignored."""
    if not pa.types.is_string(persons.type):
        return _replace_nan(persons)
    trimmed = pc.utf8_trim_whitespace(persons)
    return pc.if_else(pc.equal(trimmed, ""), pa.scalar(None, trimmed.type), trimmed)


def _replace_nan(numbers: pa.Array) -> pa.Array:
    """Numbers with not-a-number replaced by the missing value."""
    if not pa.types.is_floating(numbers.type):
        return numbers
    return pc.if_else(pc.is_nan(numbers), pa.scalar(None, numbers.type), numbers)
