"""Searches for recodings of public columns that make fewer records unique and keep most of the columns' detail.

Claim: a proposal follows from the public columns alone, so it discloses nothing about the sensitive column. Edges of
ranges are round, and the first and the last edge do not come from the table.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sfumato._core.array_types import Codes, RandomBits
from sfumato._core.json_types import Json
from sfumato._core.ordered_threads import map_arrays
from sfumato._profile.equivalence_classes import count_unique, hash_numbers
from sfumato._profile.ranges import assign_bins, is_fractional
from sfumato._profile.role_guessing import propose_date_edges, propose_number_edges
from sfumato._records.column_codes import CodedColumn, TableColumn, encode_batch_values
from sfumato._request.range_edges import Ranges
from sfumato._request.schema import Schema

LEAST_UNIQUE_SHARE = 0.01
"""Up to this share of unique records, no recoding is searched. A recoding would help few people and cost all analysts.
"""
LEAST_REDUCTION = 0.1
"""A change is proposed only if it makes at least this share of the unique records common."""
LEAST_LOSS = 0.01
"""Ranges are proposed only if they remove at least this share of a column's entropy.

Other ranges join hardly any values.
"""
MOST_STEPS = 6
"""The most changes in a combination: a data steward decides on each of them."""
NUMBER_RANGES = (20, 10, 5)
"""The approximate numbers of ranges to try for numbers: mostly fives, tens and twenties of years."""
DATE_RANGES = (36, 12, 4)
"""The approximate numbers of ranges to try for dates: mostly months, quarters and years."""
JOINED_RANGES = (2, 4)
"""The numbers of neighbouring ranges to join, for a column that is in ranges already."""


class RecodingKind(StrEnum):
    """The kinds of changes to a public column."""

    DROP = "drop"
    RANGES = "ranges"
    WIDER_RANGES = "wider ranges"


@dataclass(frozen=True, eq=False)
class PublicColumn:
    """The codes of some records in one public column. The search sees nothing else of the table."""

    name: str
    codes: Codes
    """The code of each record. The code of a missing value is the number of values."""
    values: pa.Array | None = None
    """The value of each code. None if the column can only be dropped."""
    edges: tuple[str, ...] = ()
    """The edges of the ranges in which the column is published, if any. The values are then the names of the ranges."""


@dataclass(frozen=True)
class Recoding:
    """A change to one public column, with its effect on the share of unique records. Private."""

    column: str
    kind: RecodingKind
    edges: tuple[str, ...] | None
    """The edges of the ranges. None if the column is dropped."""
    unique_share_before: float
    unique_share_after: float
    loss: float
    """The share of the column's entropy that is lost: 1 if it is dropped, about 0.4 for ages in tens.
    """

    @property
    def setting(self) -> str:
        """The setting to type, as an argument of the library."""
        if self.edges is None:
            return f"`drop={[self.column]!r}`"
        return f"`ranges={ {self.column: ','.join(self.edges)}!r}`"

    @property
    def description(self) -> str:
        """The change in words."""
        if self.edges is None:
            return f"drop {self.column!r}"
        labels = Ranges(self.edges).labels
        return f"group {self.column!r} into {len(labels)} ranges such as {labels[len(labels) // 2]}"

    def to_json(self) -> Json:
        """The JSON form."""
        return {
            "column": self.column,
            "kind": self.kind,
            "edges": None if self.edges is None else list(self.edges),
            "alone_before": self.unique_share_before,
            "alone_after": self.unique_share_after,
            "loss": self.loss,
            "recommendation": self.setting,
        }


@dataclass(frozen=True)
class RecodingProposals:
    """The changes that help most for the entropy they lose, best first, and a combination of some of them. Private."""

    single: tuple[Recoding, ...]
    """Each change by itself."""
    combined: tuple[Recoding, ...]
    """Up to `MOST_STEPS` changes of different columns.

    The effect of each change is measured after the changes before it.
    """
    records: int
    """The number of records on which uniqueness was counted."""

    def to_json(self) -> Json:
        """The JSON form."""
        return {
            "single": [recoding.to_json() for recoding in self.single],
            "combined": [recoding.to_json() for recoding in self.combined],
            "records": self.records,
        }


def list_public_columns(
    columns: Sequence[TableColumn], sample_codes: Mapping[str, Codes], schema: Schema
) -> list[PublicColumn]:
    """The public columns of a sample of records. A column with a declared domain can only be dropped."""
    by_name = {column.name: column for column in columns}
    public_columns = []
    for name, codes in sample_codes.items():
        column, ranges = by_name[name], schema.ranges.get(name)
        values = column.values if isinstance(column, CodedColumn) and name not in schema.domains else None
        public_columns.append(PublicColumn(name, codes, values, () if ranges is None else ranges.edges))
    return public_columns


def search_recodings(columns: Sequence[PublicColumn], rows_each: int = 1) -> RecodingProposals:
    """Searches for the changes that make the most unique records common, relative to the entropy they lose.

    A record counts as unique if at most `rows_each` records share its values, because a person may have that many rows.
    Each step of the combination takes the best change. If no single change helps, it takes the column with the most
    entropy, and groups it into the widest ranges or drops it.
    """
    records = len(columns[0].codes) if columns else 0
    candidates = [candidate for column in columns for candidate in _list_candidates(column)]
    sums: RandomBits = np.zeros(records, dtype=np.uint64)
    for column in columns:
        sums += _hash_codes(_count_codes(column), column.name).take(column.codes)
    unique_share = count_unique(sums, rows_each) / max(records, 1)
    steps: list[Recoding] = []
    candidates = _select_allowed(candidates, steps, len(columns))
    ranked = _rank_candidates(candidates, sums, unique_share, rows_each)
    single = tuple(recoding for _, recoding in ranked)
    while candidates and len(steps) < MOST_STEPS and unique_share > LEAST_UNIQUE_SHARE:
        best = ranked[0][0] if ranked else _find_most_detailed(candidates)
        sums = best.apply(sums)
        steps.append(best.measure(sums, unique_share, rows_each))
        unique_share = steps[-1].unique_share_after
        candidates = _select_allowed(candidates, steps, len(columns))
        ranked = _rank_candidates(candidates, sums, unique_share, rows_each)
    return RecodingProposals(single, _select_helpful(steps), records)


def _select_allowed(candidates: Sequence[_Candidate], steps: Sequence[Recoding], columns: int) -> list[_Candidate]:
    """The possible changes of columns that have not been changed. At least one column always remains."""
    changed_names = {step.column for step in steps}
    may_drop = sum(step.edges is None for step in steps) < columns - 1
    return [
        candidate
        for candidate in candidates
        if candidate.column.name not in changed_names and (may_drop or candidate.edges is not None)
    ]


def _find_most_detailed(candidates: Sequence[_Candidate]) -> _Candidate:
    """The widest ranges of the column with the most entropy, or dropping it."""
    return max(candidates, key=lambda candidate: (candidate.entropy, candidate.edges is not None, candidate.loss))


def _select_helpful(steps: Sequence[Recoding]) -> tuple[Recoding, ...]:
    """The steps up to the last one that helps. There are no steps if a single change has the same effect."""
    helpful = len(steps)
    while helpful and not _is_helpful(steps[helpful - 1]):
        helpful -= 1
    return tuple(steps[:helpful]) if helpful > 1 else ()


def _is_helpful(recoding: Recoding) -> bool:
    """Whether a change makes a notable part of the unique records common."""
    before, after = recoding.unique_share_before, recoding.unique_share_after
    return before > 0 and before - after >= LEAST_REDUCTION * before


@dataclass(frozen=True, eq=False)
class _Candidate:
    """A change that may be proposed."""

    column: PublicColumn
    edges: tuple[str, ...] | None
    loss: float
    entropy: float
    """The entropy of the column before the change, in nats."""
    hash_changes: RandomBits
    """For each code of the column, the number that the change adds to the sum of a record's hashes."""

    def apply(self, sums: RandomBits) -> RandomBits:
        """The sums of the records' hashes after the change."""
        return sums + self.hash_changes.take(self.column.codes)

    def measure(self, changed_sums: RandomBits, unique_share: float, rows_each: int) -> Recoding:
        """Measures a change, from the sums of hashes after the change and the share of unique records before it."""
        kind = RecodingKind.DROP
        if self.edges is not None:
            kind = RecodingKind.WIDER_RANGES if self.column.edges else RecodingKind.RANGES
        after = count_unique(changed_sums, rows_each) / max(len(changed_sums), 1)
        return Recoding(self.column.name, kind, self.edges, unique_share, after, self.loss)


def _rank_candidates(
    candidates: Sequence[_Candidate], sums: RandomBits, unique_share: float, rows_each: int
) -> list[tuple[_Candidate, Recoding]]:
    """The changes that help, best first. The best change has the largest reduction relative to the entropy it loses."""
    recodings = map_arrays(lambda item: item.measure(item.apply(sums), unique_share, rows_each), candidates, len(sums))
    pairs = [pair for pair in zip(candidates, recodings, strict=True) if _is_helpful(pair[1])]
    return sorted(pairs, key=lambda pair: (pair[1].unique_share_after - unique_share) / pair[1].loss)


def _list_candidates(column: PublicColumn) -> list[_Candidate]:
    """The possible changes of one column: ranges that lose some but not all entropy, and dropping the column."""
    size = _count_codes(column)
    counts = np.bincount(column.codes, minlength=size)
    entropy = _compute_entropy(counts)
    if not entropy:
        return []
    old_hashes, candidates = _hash_codes(size, column.name), []
    for edges, groups in _list_groupings(column):
        loss = 1 - _compute_entropy(np.bincount(groups, weights=counts)) / entropy
        if LEAST_LOSS <= loss < 1:
            changes = _hash_codes(int(groups.max()) + 1, column.name).take(groups) - old_hashes
            candidates.append(_Candidate(column, edges, loss, entropy, changes))
    return [*candidates, _Candidate(column, None, 1.0, entropy, -old_hashes)]


def _list_groupings(column: PublicColumn) -> Iterator[tuple[tuple[str, ...], Codes]]:
    """Yields edges of ranges, and the range of each value. The missing value has a range of its own."""
    values = column.values
    if values is None or not len(values):
        return
    if column.edges:
        places = np.array([Ranges(column.edges).labels.index(label) for label in values.to_pylist()])
        for joined in JOINED_RANGES:
            if len(column.edges) > joined + 1:
                edges = (*column.edges[:-1:joined], column.edges[-1])
                yield edges, np.append(places // joined, len(edges))
        return
    for edges in dict.fromkeys(_propose_edges(column)):
        if edges:
            groups, _ = encode_batch_values(assign_bins(values, Ranges(edges), column.name))
            yield edges, np.append(groups, len(edges)).astype(np.int64)


def _propose_edges(column: PublicColumn) -> Iterator[tuple[str, ...]]:
    """Yields round edges for numbers or dates, from many ranges to few."""
    values = column.values
    if values is None:
        return
    # Values that no sampled record has count too, because the ranges must contain them.
    kind, counts = values.type, np.maximum(np.bincount(column.codes, minlength=_count_codes(column)), 1)[: len(values)]
    if pa.types.is_integer(kind) or is_fractional(kind):
        numbers = pc.cast(values, pa.float64(), safe=False).to_numpy(zero_copy_only=False)
        for ranges in NUMBER_RANGES:
            yield propose_number_edges(np.repeat(numbers, counts), is_whole=pa.types.is_integer(kind), ranges=ranges)
    elif pa.types.is_date32(kind) or pa.types.is_timestamp(kind):
        days = pc.cast(values, pa.date32(), safe=False).cast(pa.int32()).to_numpy(zero_copy_only=False)
        for ranges in DATE_RANGES:
            yield propose_date_edges(np.repeat(days.astype(np.int64), counts), ranges)


def _count_codes(column: PublicColumn) -> int:
    """The number of codes of a column: one for each value, and one for the missing value."""
    listed = 0 if column.values is None else len(column.values)
    return max(int(column.codes.max(initial=0)), listed) + 1


def _hash_codes(size: int, name: str) -> RandomBits:
    """A hash for each code of a column.

    The sum of a record's hashes over all columns stands for its combination of values.
    """
    salt = np.uint64(int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "little"))
    return hash_numbers(np.arange(size), salt)


def _compute_entropy(counts: npt.NDArray[Any]) -> float:
    """The entropy of a column, in nats, from the frequencies of its values."""
    shares = counts[counts > 0] / counts.sum()
    return float(-(shares * np.log(shares)).sum()) if len(shares) > 1 else 0.0
