"""Counts the people with equal public columns, for a mechanism that publishes counts with noise.

Every group of people with equal public columns has a key, which is a number or a string of bytes. Keys are in the
canonical order of the public values, so the number of a group depends only on the table. Each piece of the table is
counted by itself, and the counts are added up. The mechanism decides by public sizes, and never sees a count.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato._core.array_types import Codes, Counts, Indices, Mask
from sfumato._engines.engine import Engine, TablePiece
from sfumato._profile.batch_preparation import Preparation
from sfumato._profile.table_scan import TableScan
from sfumato._records.column_codes import CodedColumn, SensitiveColumns, TableColumn, find_smallest_type
from sfumato._records.crowd_lines import MOST_COUNTS, make_too_many_counts_error
from sfumato.errors import SchemaError
from sfumato.mechanisms.mechanism import AnyMechanism

LARGEST_KEY = 1 << 63
LARGEST_TABLE = 1 << 24
"""Keys below this limit are looked up in a table."""
MOST_WAITING, MERGE_FACTOR = 1 << 24, 2
"""Waiting lines are merged if there are more of them than the first number.

Their number must also exceed the number of merged lines, times the second number.
"""
WORTHWHILE_REPEATS = 2
"""Equal pairs of a piece are counted if each occurs this often on average."""

Keys = npt.NDArray[Any]
"""Numbers, or strings of bytes of one length."""


@dataclass(frozen=True)
class GroupKeys:
    """Makes the keys of groups from the codes of the public columns."""

    columns: tuple[CodedColumn, ...]
    values: int
    """The number of values of the sensitive column."""

    @classmethod
    def of(cls, columns: Sequence[TableColumn], sensitive: SensitiveColumns) -> GroupKeys:
        """The public columns of a table. Columns with too many values to number are refused."""
        protected = {part.name for part in sensitive.parts}
        public = [column for column in columns if column.name not in protected]
        for column in public:
            if not isinstance(column, CodedColumn):
                raise SchemaError(
                    f"column {column.name!r} has too many different values, so hardly two people are equal; drop it "
                    f"(`drop={[column.name]!r}`), group it into ranges, or publish records (`records=True`).",
                    code="too-many-values-for-counts",
                    fields={"column": column.name},
                )
        return cls(tuple(column for column in public if isinstance(column, CodedColumn)), sensitive.size)

    @cached_property
    def sizes(self) -> list[int]:
        """The number of codes of each column, with the code of the missing value."""
        return [len(column.values) + 1 for column in self.columns]

    @cached_property
    def limit(self) -> int:
        """The number of possible keys."""
        return math.prod(self.sizes)

    @property
    def has_numbers(self) -> bool:
        """Whether keys, and keys together with values, are numbers."""
        return self.limit * self.values < LARGEST_KEY

    def make_pairs(self, codes: Sequence[Codes], values: Codes) -> Keys:
        """The key of each row's group together with its value, in the order of both."""
        keys = self.make_keys(codes, len(values))
        if self.has_numbers:
            return keys * np.uint64(self.values) + values.astype(np.uint64)
        kind = self._value_type
        parts = [_view_bytes(keys), _view_bytes(values.astype(kind))]
        return np.ascontiguousarray(np.hstack(parts)).view(f"S{keys.dtype.itemsize + kind.itemsize}")[:, 0]

    def split_pairs(self, pairs: Keys) -> tuple[Keys, Codes]:
        """The key of each pair's group, and its value."""
        if self.has_numbers:
            keys, values = np.divmod(pairs, np.uint64(self.values))
            return keys, values.astype(np.int64)
        kind, all_bytes = self._value_type, _view_bytes(pairs)
        width = pairs.dtype.itemsize - kind.itemsize
        keys, values = (np.ascontiguousarray(part) for part in np.split(all_bytes, [width], axis=1))
        return keys.view(f"S{width}")[:, 0], values.view(kind)[:, 0].astype(np.int64)

    def make_keys(self, codes: Sequence[Codes], rows: int) -> Keys:
        """The key of each row."""
        if self.has_numbers:
            numbers = np.zeros(rows, dtype=np.uint64)
            for column_codes, size in zip(codes, self.sizes, strict=True):
                numbers = numbers * np.uint64(size) + column_codes.astype(np.uint64)
            return numbers
        pairs = zip(codes, self._byte_types, strict=True)
        parts = [_view_bytes(column_codes.astype(kind)) for column_codes, kind in pairs]
        return np.ascontiguousarray(np.hstack(parts)).view(f"S{sum(kind.itemsize for kind in self._byte_types)}")[:, 0]

    def split_keys(self, keys: Keys) -> list[Codes]:
        """The codes of each column."""
        if self.has_numbers:
            codes: list[Codes] = []
            for size in reversed(self.sizes):
                keys, remainder = np.divmod(keys, np.uint64(size))
                codes.append(remainder.astype(find_smallest_type(size)))
            return codes[::-1]
        all_bytes = _view_bytes(keys)
        ends = np.cumsum([kind.itemsize for kind in self._byte_types])
        pairs = zip(self._byte_types, np.split(all_bytes, ends[:-1], axis=1), strict=True)
        return [np.ascontiguousarray(part).view(kind)[:, 0].astype(kind.newbyteorder("=")) for kind, part in pairs]

    @property
    def _value_type(self) -> np.dtype[Any]:
        return find_smallest_type(self.values).newbyteorder(">")

    @property
    def _byte_types(self) -> list[np.dtype[Any]]:
        """The big-endian type of each column's codes, so that bytes are in the order of codes."""
        return [find_smallest_type(size).newbyteorder(">") for size in self.sizes]


def _view_bytes(items: Keys) -> npt.NDArray[np.uint8]:
    """The bytes of each item, in a row of their own."""
    return np.ascontiguousarray(items).view(np.uint8).reshape(len(items), items.dtype.itemsize)


@dataclass(frozen=True)
class GroupCounts:
    """The number of people with each value in each group, where it is not zero."""

    pairs: Keys
    """The key of a group and a value in it, in rising order. Without counts, a line for each person."""
    counts: Counts | None = None
    """The number of people of each line; 1 if None."""

    @classmethod
    def of(cls, pairs: Keys) -> GroupCounts:
        """Counts people, given the pair of each. Pairs that hardly repeat are only sorted, which is faster."""
        pairs = np.sort(pairs)
        starts = find_starts(pairs)
        if len(starts) * WORTHWHILE_REPEATS > len(pairs):
            return cls(pairs)
        return cls(pairs[starts], np.diff(np.append(starts, len(pairs))))

    @classmethod
    def merge(cls, parts: Sequence[GroupCounts]) -> GroupCounts:
        """Adds several counts up, with one line for each pair."""
        pairs = np.concatenate([part.pairs for part in parts])
        if all(part.counts is None for part in parts):
            pairs.sort()
            starts = find_starts(pairs)
            return cls(pairs[starts], np.diff(np.append(starts, len(pairs))))
        order = np.argsort(pairs, kind="stable")  # fast where the parts are already sorted
        pairs = pairs[order]
        starts = find_starts(pairs)
        counts = np.concatenate([part.list_counts() for part in parts])
        return cls(pairs[starts], np.add.reduceat(counts[order], starts) if len(pairs) else counts)

    def list_counts(self) -> Counts:
        """The number of people of each line."""
        return np.ones(len(self.pairs), dtype=np.int64) if self.counts is None else self.counts


def find_starts(sorted_keys: Keys) -> Indices:
    """The first position of each distinct key."""
    return np.flatnonzero(np.append(len(sorted_keys) > 0, sorted_keys[1:] != sorted_keys[:-1])[: len(sorted_keys)])


@dataclass(frozen=True)
class Crowds:
    """The groups that publish counts. Secret."""

    group_keys: GroupKeys
    keys: Keys
    people: Counts
    counts: Counts
    """The true count of each value (columns) in each crowd (rows)."""
    coarse: tuple[Crowds, ...] = ()
    """The groups of each coarse table, which have all people."""

    @property
    def total(self) -> int:
        """The number of people in crowds."""
        return int(self.people.sum())

    @property
    def index(self) -> CrowdIndex:
        """Finds the rows of crowds."""
        return CrowdIndex(self.group_keys, self.keys)


@dataclass(frozen=True)
class CrowdIndex:
    """Finds the rows that are in crowds."""

    group_keys: GroupKeys
    keys: Keys

    def __getstate__(self) -> tuple[GroupKeys, Keys]:
        """Leaves the table out, because it can be made again."""
        return self.group_keys, self.keys

    def __setstate__(self, state: tuple[GroupKeys, Keys]) -> None:
        object.__setattr__(self, "group_keys", state[0])
        object.__setattr__(self, "keys", state[1])

    @cached_property
    def _table(self) -> Mask | None:
        if not self.group_keys.has_numbers or self.group_keys.limit > LARGEST_TABLE:
            return None
        table = np.zeros(self.group_keys.limit, dtype=np.bool_)
        table[self.keys] = True
        return table

    def mark_rows(self, rows: Mapping[str, Codes], count: int) -> Mask:
        """Marks the rows that are in crowds, given their codes by public column."""
        keys = self.group_keys.make_keys([rows[column.name] for column in self.group_keys.columns], count)
        if self._table is not None:
            return self._table.take(keys)
        if not len(self.keys):
            return np.zeros(count, dtype=np.bool_)
        places = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return np.asarray(self.keys[places] == keys)


def find_crowds(engine: Engine, survey: TableScan, mechanism: AnyMechanism, plan: object) -> Crowds | None:
    """Counts the people of every group, and selects the groups that publish counts.

    None if the mechanism publishes no counts.
    """
    rules = mechanism.crowd_counts
    if rules is None:
        return None
    group_keys, size = GroupKeys.of(survey.columns, survey.sensitive), survey.sensitive.size
    groups = _count_groups(engine, survey, group_keys)
    keys, values = group_keys.split_pairs(groups.pairs)
    starts, counts = find_starts(keys), groups.list_counts()
    people = np.add.reduceat(counts, starts)
    is_crowd = rules.is_crowd(plan, people)
    numbers = np.flatnonzero(is_crowd)
    _check_size(len(numbers), size)
    lines = np.diff(np.append(starts, len(keys)))
    coarse = [
        _sum_groups(group_keys, keys[starts], lines, values, counts, table.columns)
        for table in rules.list_coarse_counts(plan)
    ]
    is_own = np.repeat(is_crowd, lines)
    places = np.repeat(np.arange(len(numbers)), lines[numbers]) * size + values[is_own]
    true_counts = np.zeros(len(numbers) * size, dtype=np.int64)
    true_counts[places] = counts[is_own]
    return Crowds(group_keys, keys[starts[numbers]], people[numbers], true_counts.reshape(-1, size), tuple(coarse))


def _sum_groups(  # noqa: PLR0913, PLR0917 - the groups, and the lines of each
    group_keys: GroupKeys, keys: Keys, lines: Counts, values: Codes, counts: Counts, names: Sequence[str]
) -> Crowds:
    """Counts everybody by some of the public columns, from the counts of the groups by all public columns."""
    codes = dict(zip((column.name for column in group_keys.columns), group_keys.split_keys(keys), strict=True))
    columns = {column.name: column for column in group_keys.columns}
    own_keys, size = GroupKeys(tuple(columns[name] for name in names), group_keys.values), group_keys.values
    distinct, numbers = np.unique(own_keys.make_keys([codes[name] for name in names], len(keys)), return_inverse=True)
    _check_size(len(distinct), size)
    places = np.repeat(numbers, lines) * size + values
    sums = np.bincount(places, weights=counts, minlength=len(distinct) * size).astype(np.int64).reshape(-1, size)
    return Crowds(own_keys, distinct, sums.sum(axis=1), sums)


def _check_size(groups: int, size: int) -> None:
    """Refuses tables with too many counts."""
    if groups * size > MOST_COUNTS:
        raise make_too_many_counts_error(groups, size)


def _count_groups(engine: Engine, survey: TableScan, group_keys: GroupKeys) -> GroupCounts:
    """Counts the values in every group of the table."""
    work = partial(_count_piece, survey.preparation, survey.sensitive, group_keys)
    pieces = engine.split_source(survey.source, survey.preparation.columns)
    return _merge_all(_report(engine, engine.map_items(work, pieces), survey.histogram.total))


def _report(engine: Engine, parts: Iterable[GroupCounts], total: int) -> Iterator[GroupCounts]:
    rows = 0
    for part in parts:
        rows += int(part.list_counts().sum())
        engine.progress("counting groups", rows, total)
        yield part


def _merge_all(parts: Iterable[GroupCounts]) -> GroupCounts:
    """Merges counts whenever many wait, so that every count is merged only a few times."""
    merged: list[GroupCounts] = []
    waiting: list[GroupCounts] = []
    for part in parts:
        waiting.append(part)
        lines, merged_lines = (sum(len(item.pairs) for item in items) for items in (waiting, merged))
        if lines > max(MOST_WAITING, MERGE_FACTOR * merged_lines):
            merged, waiting = [GroupCounts.merge([*merged, *waiting])], []
    return GroupCounts.merge([*merged, *waiting])


def _count_piece(
    preparation: Preparation, sensitive: SensitiveColumns, group_keys: GroupKeys, piece: TablePiece
) -> GroupCounts:
    """Counts the values in every group of one piece."""
    pairs = []
    for raw_batch, _ in piece.read_batches(preparation.columns):
        batch = preparation(raw_batch)
        codes = [column.encode(batch.column(column.name)) for column in group_keys.columns]
        pairs.append(group_keys.make_pairs(codes, sensitive.encode(batch)))
    nothing = group_keys.make_pairs([NO_CODES] * len(group_keys.sizes), NO_CODES)
    return GroupCounts.of(np.concatenate([nothing, *pairs]))


NO_CODES: Codes = np.zeros(0, dtype=np.int64)
