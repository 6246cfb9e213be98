"""Turns a batch of the table into a batch of the release, by encoding and perturbing it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from sfumato._core.array_types import BLOCK_ROWS, Codes, Counts, Numbers, Places, RandomBits
from sfumato._core.random_draws import Draws, FeistelPermutation, FeistelPermutations, TablePermutation
from sfumato._engines.shuffle import ORDER, Rows, take_rows
from sfumato._perturb.crowd_counts import CrowdIndex
from sfumato._profile.piece_offsets import PieceCounts, PieceOffset, compute_offsets
from sfumato._records import PerturbedRecords, RecordEncoding
from sfumato._records.column_codes import PublishedColumn, SensitiveColumns, TableColumn
from sfumato._request.histogram import compute_margins
from sfumato.errors import SourceError
from sfumato.mechanisms.mechanism import AnyMechanism

# Maps the rank of a record among the records with its value to a random slot, so that the order of the file does not
# disclose the record's sub-table.

EMPTY: Numbers = np.zeros(0, dtype=np.uint8)


class Slots:
    """A keyed permutation of the ranks of each value."""

    def __init__(self, draws: Draws, purpose: str, counts: Sequence[int]) -> None:
        self.counts = np.array(counts, dtype=np.int64)
        permutations = draws.make_permutations(f"{purpose}/slots", counts)
        networks = [permutation for permutation in permutations if isinstance(permutation, FeistelPermutation)]
        tables = [
            permutation.table if isinstance(permutation, TablePermutation) else EMPTY for permutation in permutations
        ]
        self._is_computed = np.array([isinstance(permutation, FeistelPermutation) for permutation in permutations])
        self._network_numbers = np.cumsum(self._is_computed) - 1
        self._networks = FeistelPermutations.from_networks(networks)
        self._tables = np.concatenate(tables)
        self._first_entries = np.cumsum([0, *map(len, tables[:-1])])

    def __call__(self, codes: Codes, ranks_before: Counts) -> Numbers:
        """The slot of each record of a batch, given the number of earlier records of each value."""
        value_counts = np.bincount(codes, minlength=len(self.counts))
        if (ranks_before + value_counts > self.counts).any():
            raise SourceError(
                "the table changed while it was read: a value is more frequent than before.", code="table-changed"
            )
        permuted = np.empty(len(codes), dtype=np.min_scalar_type(self.counts.max()))
        ends = np.cumsum(value_counts)
        shifts = (
            ranks_before + value_counts - ends
        )  # from the position of a record in the list sorted by value to its rank
        for start in range(0, len(codes), BLOCK_ROWS):
            stop = min(start + BLOCK_ROWS, len(codes))
            first, last = np.searchsorted(ends, [start, stop - 1], side="right")
            values = np.arange(first, last + 1)
            limits = np.clip(ends[values], start, stop)
            inside = limits - np.append(start, limits[:-1])
            ranks = np.arange(start, stop) + np.repeat(shifts[values], inside)
            permuted[start:stop] = self._permute(values, inside, ranks)
        slots = np.empty_like(permuted)
        slots[np.argsort(codes, kind="stable")] = permuted
        return slots

    def _permute(self, values: Places, rank_counts: Counts, ranks: Numbers) -> Numbers:
        """The permuted ranks of each value.

        Values with few records have a table. For other values, ranks are computed.
        """
        is_computed = self._is_computed[values]
        if is_computed.all():
            return self._networks(self._network_numbers[values], rank_counts, ranks)
        if not is_computed.any():
            return self._tables.take(np.repeat(self._first_entries[values], rank_counts) + ranks)
        permuted = np.empty_like(ranks)
        for is_chosen in (is_computed, ~is_computed):
            is_own_rank = np.repeat(is_chosen, rank_counts)
            permuted[is_own_rank] = self._permute(values[is_chosen], rank_counts[is_chosen], ranks[is_own_rank])
        return permuted


# ---------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Rewrite:
    """Turns a prepared batch into codes to publish, with perturbed sensitive values and a random key for each row.

    It is row-local: the result for a row depends only on the row's values, its number, its rank among the rows of the
    same value, the plan and the key.
    """

    columns: tuple[TableColumn, ...]
    sensitive: SensitiveColumns
    mechanism: AnyMechanism
    plan: object
    counts: tuple[int, ...]
    draws: Draws
    crowd_index: CrowdIndex | None = None
    """Finds the rows that are published as counts, and not as records. None if there are no such rows."""

    def __call__(self, batch: pa.RecordBatch, first_row: int, ranks_before: Counts | None = None) -> Rows:
        """Rewrite one batch; `first_row` is the number of its first record in the table.

        `ranks_before` is the number of earlier records of each value. It is needed if records have slots.
        """
        return self._rewrite_batch(batch, self.sensitive.encode(batch), first_row, ranks_before)

    def _rewrite_batch(self, batch: pa.RecordBatch, codes: Codes, first_row: int, ranks_before: Counts | None) -> Rows:
        rows: Rows = {ORDER: draw_order_keys(self.draws, first_row, batch.num_rows)}
        parts = {part.name for part in self.sensitive.parts}
        for column in self.columns:
            if column.name not in parts:
                rows[column.name] = column.encode(batch.column(column.name))
        if self.crowd_index is not None:
            return self._rewrite_outside_crowds(rows, codes, first_row, self.crowd_index)
        slots = None if ranks_before is None else self._find_slots(codes, ranks_before)
        records = self._perturb_codes(codes, slots, first_row)
        return {**rows, **self.encoding.make_rows(records, self.sensitive.name, self.cell_name)}

    def _rewrite_outside_crowds(self, rows: Rows, codes: Codes, first_row: int, crowd_index: CrowdIndex) -> Rows:
        """Perturb the rows that are in no crowd.

        Draws are addressed by row, so the rows between these rows get draws too.
        """
        places = np.flatnonzero(~crowd_index.mark_rows(rows, len(codes)))
        first, last = (int(places[0]), int(places[-1]) + 1) if len(places) else (0, 0)
        records = self._perturb_codes(codes[first:last], None, first_row + first)
        published = self.encoding.make_rows(records, self.sensitive.name, self.cell_name)
        return {**take_rows(rows, places), **take_rows(published, places - first)}

    def _perturb_codes(self, codes: Codes, slots: Numbers | None, first_row: int) -> PerturbedRecords:
        """Perturb a block of rows at a time, because rows are independent of each other."""
        draws, blocks = self.column_draws, []
        for start in range(0, max(len(codes), 1), BLOCK_ROWS):
            part = slice(start, start + BLOCK_ROWS)
            own_slots = None if slots is None else slots[..., part]
            blocks.append(self.mechanism.perturb(self.plan, codes[part], own_slots, draws, first_row + start))
        return PerturbedRecords.from_blocks(blocks)

    def rewrite_piece(self, batches: Iterable[pa.RecordBatch], offset: PieceOffset) -> Iterator[Rows]:
        """Rewrite the batches of a piece, whose content must be the same as when it was counted."""
        first_row, ranks = offset.first_row, offset.ranks_before
        for batch in batches:
            codes = self.sensitive.encode(batch)
            yield self._rewrite_batch(batch, codes, first_row, ranks)
            first_row += batch.num_rows
            if ranks is not None:
                ranks = ranks + self._count_codes(codes)
        if first_row != offset.first_row + offset.rows:
            raise SourceError(
                "the table changed while it was read: its number of rows is different.", code="table-changed"
            )
        if ranks is not None and (ranks != offset.ranks_after).any():
            raise SourceError(
                "the table changed while it was read: a value is more frequent than before.", code="table-changed"
            )

    def list_offsets(self, pieces: Sequence[PieceCounts]) -> Iterator[PieceOffset]:
        """The position of each piece. If records have slots, also the number of earlier records of each value."""
        return compute_offsets(
            pieces, [len(slots.counts) for slots in self._slots] if self.mechanism.uses_slots else []
        )

    def _count_codes(self, codes: Codes) -> Counts:
        """The number of records of each value, by the columns in which records are ranked."""
        ranked = zip(self.sensitive.list_rank_codes(codes), self._slots, strict=True)
        return np.concatenate(
            [np.bincount(column_codes, minlength=len(slots.counts)) for column_codes, slots in ranked]
        )

    @cached_property
    def column_draws(self) -> Draws:
        """The draws of the sensitive column."""
        return self.draws.narrow_to_column(self.sensitive.name)

    def _find_slots(self, codes: Codes, ranks_before: Counts) -> Numbers:
        """The slot of each record. There is one row for each column if several columns are protected separately."""
        ends = np.cumsum([len(slots.counts) for slots in self._slots])
        ranks = np.split(ranks_before, ends[:-1])
        ranked = self.sensitive.list_rank_codes(codes)
        column_slots = [
            slots(column_codes, before) for slots, column_codes, before in zip(self._slots, ranked, ranks, strict=True)
        ]
        return np.stack(column_slots) if self.sensitive.is_independent else column_slots[0]

    @cached_property
    def _slots(self) -> list[Slots]:
        if not self.sensitive.is_independent:
            return [Slots(self.column_draws, self.mechanism.name, self.counts)]
        pairs = zip(self.sensitive.parts, compute_margins(self.counts, self.sensitive.sizes), strict=True)
        return [
            Slots(self.draws.narrow_to_column(part.name), self.mechanism.name, counts.tolist())
            for part, counts in pairs
        ]

    @cached_property
    def encoding(self) -> RecordEncoding:
        """The record encoding of the release."""
        return self.mechanism.make_encoding(self.mechanism.make_design(self.plan))

    @cached_property
    def cell_name(self) -> str:
        """The name of the column of sub-tables, levels or buckets.

        No other column has this name in any capitalisation.
        """
        used_names = {column.name.lower() for column in self.columns}
        name = self.encoding.name_cell_column(self.sensitive.name)
        while name.lower() in used_names:
            name = f"{name}_"
        return name

    @cached_property
    def published_columns(self) -> tuple[PublishedColumn, ...]:
        """The columns of the release: the published sensitive values, and the sub-tables beside them."""
        return self.encoding.make_columns(self.columns, self.sensitive, self.cell_name)


def draw_order_keys(draws: Draws, first_row: int, rows: int) -> RandomBits:
    """The random keys by which rows are sorted for publication."""
    return draws.get_stream("order").draw_bits(first_row, rows)
