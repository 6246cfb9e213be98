"""Tallies: the counts of published values in the records that satisfy some conditions."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar

import numpy as np
import pyarrow as pa

from sfumato._core.array_types import Amounts, Counts, Floats, Indices
from sfumato._core.cell_values import Value
from sfumato._records.sql_quoting import RECORDS, TABLE, quote_name
from sfumato.errors import InternalError, QueryError

if TYPE_CHECKING:
    from sfumato._records.crowd_lines import CrowdLines

MOST_CELLS = 1 << 26
"""The largest product of groups and domain values. A larger answer would fill the memory, and be too long to read."""

CONDITION_BATCH = 64
"""The number of conditions that are evaluated bucket by bucket at a time. This limits memory."""

CachedResult = TypeVar("CachedResult")

ResultRow = tuple[Any, ...]
"""A row of a statement's result. The statement determines the types."""

COUNT = "1"
"""The weight of a record that counts once."""


class DerivedCache:
    """Caches derived values, keyed by the function that computes them."""

    def derive(self, make: Callable[[Self], CachedResult]) -> CachedResult:
        """Returns the derived value of a function, which is computed once."""
        cache: dict[object, Any] = self.__dict__.setdefault("_made", {})
        if make not in cache:
            cache[make] = make(self)
        result: CachedResult = cache[make]
        return result


class SideContents(ABC):
    """The contents of a table beside the records. Estimators need these contents in addition to a tally."""

    @abstractmethod
    def attach_to(self, tally: Tally, release_tally: Tally | None) -> Tally:
        """The tally with these contents."""


@dataclass(frozen=True, eq=False)
class Holdings(DerivedCache, SideContents):
    """The contents of buckets, with a line for each bucket and value. Buckets with equal contents may be merged."""

    buckets: Counts
    places: Counts
    counts: Counts
    domain_size: int
    times: Counts | None = None
    """The number of buckets that each merged bucket represents. The default is 1."""

    @cached_property
    def sizes(self) -> Counts:
        """The number of records in each bucket."""
        return np.bincount(self.buckets, weights=self.counts).astype(np.int64)

    @cached_property
    def repeats(self) -> Counts:
        """The number of buckets that each merged bucket represents."""
        return np.ones(len(self.sizes), dtype=np.int64) if self.times is None else self.times

    @cached_property
    def value_counts(self) -> Counts:
        """The number of records with each value."""
        lines = self.counts * self.repeats[self.buckets]
        return np.bincount(self.places, weights=lines, minlength=self.domain_size).astype(np.int64)

    @cached_property
    def _by_bucket(self) -> tuple[Indices, Indices]:
        """The lines sorted by bucket, and the start of each bucket."""
        order = np.argsort(self.buckets, kind="stable")
        return self.places[order], np.searchsorted(self.buckets[order], np.arange(len(self.sizes)))

    def find_ranges(self, numbers: Floats) -> tuple[Floats, Floats]:
        """Given a number for each domain value, the smallest and the largest number among each bucket's records."""
        places, starts = self._by_bucket
        lines = numbers[places]
        return np.minimum.reduceat(lines, starts), np.maximum.reduceat(lines, starts)

    def attach_to(self, tally: Tally, release_tally: Tally | None) -> Tally:
        """Adds the contents of the buckets to a tally by bucket."""
        return replace(tally, release_tally=release_tally, holdings=self)

    def find_buckets(self, places: Indices) -> tuple[Indices, Floats]:
        """The buckets with one of the values, and the number of their records with such a value."""
        is_wanted = np.zeros(self.domain_size, dtype=np.bool_)
        is_wanted[places] = True
        lines = np.flatnonzero(is_wanted[self.places])
        if len(places) == 1:  # a bucket has one line for a value
            return self.buckets[lines], self.counts[lines].astype(np.float64)
        buckets, number = np.unique(self.buckets[lines], return_inverse=True)
        return buckets, np.bincount(number, weights=self.counts[lines], minlength=len(buckets)).astype(np.float64)

    def count_matches(self, places: Indices) -> Floats:
        """The number of each bucket's records with one of the values."""
        is_wanted = np.zeros(self.domain_size, dtype=np.bool_)
        is_wanted[places] = True
        lines = np.where(is_wanted[self.places], self.counts, 0)
        return np.bincount(self.buckets, weights=lines, minlength=len(self.sizes)).astype(np.float64)


@dataclass(frozen=True, eq=False)
class Tally(DerivedCache):
    """Counts of each symbol or member among the rows of some conditions on public columns. Each condition has one line.

    Rows may be weighted by a number in their public columns. Counts and rows are then sums of these numbers. A tally of
    one condition has one line.
    """

    counts: Amounts
    rows: Amounts
    """The number of rows that satisfy each condition. The number is exact, because public columns are unchanged."""
    release_tally: Tally | None = None
    """The tally of all rows of the release in one line, for estimators that need it."""
    holdings: Holdings | None = None
    """The contents of the buckets, if counts are by bucket."""
    parts: Sequence[tuple[Tally, float]] = ()
    """The weighted tallies whose sum is this tally. Empty if this tally was counted."""
    crowds: CrowdLines | None = None
    """The selected groups of people with published counts, if the release has such groups."""

    @classmethod
    def of_symbols(cls, counts: Amounts) -> Tally:
        """Makes a tally in which every row has one symbol.

        It is made from one line, or from a line for each condition.
        """
        lines = counts.reshape(-1, counts.shape[-1])
        return cls(lines, lines.sum(axis=1))

    @classmethod
    def of_one(cls, counts: Amounts, rows: float) -> Tally:
        """The tally of one condition."""
        return cls(counts[np.newaxis], np.array([rows]))

    def __len__(self) -> int:
        return len(self.rows)

    def attach_context(self, release_tally: Tally | None, contents: SideContents | None) -> Tally:
        """The tally with further information for estimators."""
        return (
            replace(self, release_tally=release_tally) if contents is None else contents.attach_to(self, release_tally)
        )

    def take(self, lines: Indices) -> Tally:
        """The tally of some of the conditions."""
        crowds = None if self.crowds is None else self.crowds.take(lines)
        return replace(self, counts=self.counts[lines], rows=self.rows[lines], crowds=crowds)

    @staticmethod
    def combine(parts: Sequence[tuple[Tally, float]]) -> Tally:
        """A weighted sum of tallies of one release."""
        if len(parts) == 1 and parts[0][1] == 1:
            return parts[0][0]
        counts, rows = (
            np.asarray(sum(getattr(part, name) * factor for part, factor in parts)) for name in ("counts", "rows")
        )
        lines = [(part.crowds, factor) for part, factor in parts if part.crowds is not None]
        crowds = type(lines[0][0]).combine(lines) if lines else None
        return replace(parts[0][0], counts=counts, rows=rows, parts=tuple(parts), crowds=crowds)

    def count_in_buckets(self, places: Indices) -> tuple[Floats, Floats, Floats]:
        """For buckets that have one of the values: sizes, numbers of matches, and selected records by condition."""
        if self.holdings is None:
            raise InternalError(
                "to count in buckets, the contents of the buckets are needed.", code="no-bucket-contents"
            )
        bucket_indices, match_counts = self.holdings.find_buckets(places)
        return (
            self.holdings.sizes[bucket_indices].astype(np.float64),
            match_counts,
            self.counts[:, bucket_indices].astype(np.float64),
        )

    def find_bounds(self, places: Indices) -> tuple[Floats, Floats]:
        """For each condition, the certain bounds of the count of some values."""
        lines = np.arange(len(self))
        parts = (
            [self]
            if len(self) <= CONDITION_BATCH
            else [self.take(lines[at : at + CONDITION_BATCH]) for at in lines[::CONDITION_BATCH].tolist()]
        )
        bucket_counts = [part.count_in_buckets(places) for part in parts]
        bounds = [
            compute_certain_bounds(size, selected, match_counts) for size, match_counts, selected in bucket_counts
        ]
        least, most = (np.concatenate(ends) for ends in zip(*bounds, strict=True))
        return least, most

    def sum_over_buckets(self, function: Callable[[Amounts], Floats]) -> Floats:
        """Applies a function to the counts of single buckets, and sums the results within merged buckets."""
        return function(self.counts)

    @property
    def single_counts(self) -> Amounts:
        """The counts of single buckets."""
        return self.counts

    @property
    def single_tally(self) -> Tally:
        """The tally with every bucket separate."""
        return self


def compute_certain_bounds(size: Floats, selected: Floats, match_counts: Floats) -> tuple[Floats, Floats]:
    """For each condition, the certain bounds of its count. The buckets with a wanted value are given."""
    least = np.maximum(selected + match_counts - size, 0).sum(axis=-1)
    return least, np.minimum(selected, match_counts).sum(axis=-1)


# ------------------------------------------------------------------------------------------------------ counting in SQL

Key = tuple[Value, ...]
WeightTallies = Mapping[str, Tally]
"""A tally of one line for each weight."""


def make_group_key(values: Sequence[Value]) -> Key:
    """The values of a group. One shared object replaces every NaN, because two NaN are never equal."""
    return tuple(math.nan if isinstance(value, float) and math.isnan(value) else value for value in values)


def look_up_numbers(columns: Sequence[pa.Array], numbers_by_key: Mapping[Key, int]) -> Counts:
    """Looks up a number for each row of some columns. It is -1 for rows of NULL without a number."""
    encoded = [
        distinct_values if pa.types.is_dictionary(distinct_values.type) else distinct_values.dictionary_encode()
        for distinct_values in columns
    ]
    values = [[*distinct_values.dictionary.to_pylist(), None] for distinct_values in encoded]
    codes = [
        distinct_values.indices.fill_null(len(distinct_values.dictionary)).to_numpy(zero_copy_only=False)
        for distinct_values in encoded
    ]
    if len(columns) == 1:
        value_numbers = [
            *(numbers_by_key[make_group_key([value])] for value in values[0][:-1]),
            numbers_by_key.get((None,), -1),
        ]
        return np.asarray(np.array(value_numbers, dtype=np.int64)[codes[0]])
    sizes = tuple(map(len, values))
    present, line = np.unique(np.ravel_multi_index(codes, sizes), return_inverse=True)
    places = np.transpose(np.unravel_index(present, sizes)).tolist()
    rows = [
        make_group_key([distinct_values[place] for distinct_values, place in zip(values, row, strict=True)])
        for row in places
    ]
    return np.asarray(np.array([numbers_by_key[row] for row in rows], dtype=np.int64)[line])


class Scanner(Protocol):
    """A connection to one release, with the operations that SQL counting needs."""

    def fetch_rows(self, sql: str) -> list[ResultRow]:
        """All rows of a statement, as Python values."""
        ...

    def fetch_table(self, sql: str) -> pa.Table:
        """All rows of a statement, as an Arrow table."""
        ...

    def fetch_batches(self, sql: str) -> Iterator[pa.RecordBatch]:
        """The rows of a statement, in batches."""
        ...

    def fetch_cached_rows(self, sql: str) -> list[ResultRow]:
        """All rows of a statement about all records. The statement runs once for all questions."""
        ...


@dataclass(frozen=True)
class Scan:
    """A scan of the records: conditions, groups, weights, and the number of answers for each group."""

    records: str = f"{RECORDS} AS {quote_name(TABLE)}"
    """The tables in FROM."""
    where: str | None = None
    groups: tuple[str, ...] = ()
    weights: tuple[str, ...] = ()
    """SQL of the weights, in addition to the count."""
    answers: int = 1

    @property
    def clause(self) -> str:
        """The FROM and WHERE clauses."""
        return f"FROM {self.records}" + (f" WHERE {self.where}" if self.where else "")

    @property
    def group_columns(self) -> list[str]:
        """The groups, with internal names."""
        return [f"({group}) AS g{number}" for number, group in enumerate(self.groups)]

    @property
    def order(self) -> str:
        """The names of the groups."""
        return ", ".join(f"g{number}" for number in range(len(self.groups)))

    def check_size(self, groups: int, size: int) -> None:
        """Rejects scans that would fill the memory."""
        if groups * max(size * (1 + len(self.weights)), self.answers) > MOST_CELLS:
            raise QueryError(
                "the query makes too many groups; group by fewer or coarser columns.", code="too-many-groups"
            )

    def number_groups(self, scanner: Scanner, columns: Sequence[str]) -> tuple[list[Key], Iterator[pa.RecordBatch]]:
        """The sorted groups, and batches with the group number, the published value and the weights of each record.

        Records are numbered in the given order. Without this numbering, DuckDB would sort all records. For millions of
        records, sorting takes too much memory.
        """
        keys: list[Key] = [()]
        if self.groups:
            groups_sql = (
                f"SELECT {', '.join([*self.group_columns, 'COUNT(*)'])} {self.clause} GROUP BY ALL ORDER BY ALL"
            )
            keys = [make_group_key(row[:-1]) for row in scanner.fetch_rows(groups_sql)]
        weights = [f"COALESCE(CAST({sql} AS DOUBLE), 0) AS w{number}" for number, sql in enumerate(self.weights)]
        columns_sql = [f"{sql} AS s{number}" for number, sql in enumerate(columns)]
        sql = f"SELECT {', '.join([*self.group_columns, *columns_sql, *weights])} {self.clause}"
        numbers_by_key, width = {key: number for number, key in enumerate(keys)}, len(self.groups)

        def number_batch(batch: pa.RecordBatch) -> pa.RecordBatch:
            numbers = (
                look_up_numbers(batch.columns[:width], numbers_by_key)
                if width
                else np.zeros(len(batch), dtype=np.uint8)
            )
            return pa.record_batch([numbers, *batch.columns[width:]], ["number", *batch.schema.names[width:]])

        return keys, map(number_batch, scanner.fetch_batches(sql) if keys else ())

    def make_tallies(self, sums: Sequence[Amounts], rows: Sequence[float] | None = None) -> WeightTallies:
        """A tally for each weight, from its sums by symbol. `rows` is needed only if a row can have several symbols."""
        totals = [weight_sums.sum().item() for weight_sums in sums] if rows is None else rows
        pairs = zip((COUNT, *self.weights), sums, totals, strict=True)
        return {weight: Tally.of_one(weight_sums, total) for weight, weight_sums, total in pairs}

    def make_empty_tallies(self, size: int) -> dict[Key, WeightTallies]:
        """The result if there are no records. This is one empty tally, or no tally if there are groups."""
        return (
            {} if self.groups else {(): self.make_tallies([np.zeros(size, dtype=np.int64)] * (1 + len(self.weights)))}
        )
