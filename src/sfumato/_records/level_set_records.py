"""The level-set encoding: a record publishes a level of a hierarchy, and a set of groups of this level."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
import pyarrow as pa

from sfumato._core.array_types import Bytes, Codes, Indices
from sfumato._core.cell_values import Value
from sfumato._core.markdown import format_as_code
from sfumato._records import Naming, PerturbedRecords, RecordReader
from sfumato._records.column_codes import (
    CodedColumn,
    CodedRows,
    PublishedColumn,
    SensitiveColumns,
    TableColumn,
    encode_values,
)
from sfumato._records.set_records import SetEncoding, make_mismatch_error, read_set_bytes
from sfumato._records.sql_quoting import TABLE, quote_if_needed, quote_name

BATCH_ROWS = 1 << 16
"""The number of records that are unpacked at once."""


@dataclass(frozen=True)
class LevelSetEncoding(SetEncoding):
    """Publishes a level and a set of its groups.

    The possible members of a record are listed level by level. Each level has its groups, and an indicator of the
    level.
    """

    levels: tuple[str, ...]
    """The names of the levels, the finest first."""
    groups: tuple[tuple[int, ...], ...]
    """For each level, the index of each value's group."""
    set_sizes: tuple[int, ...]
    """The number of groups in a set of each level."""

    @property
    def has_cells(self) -> bool:
        """True, because a column gives the level of a record."""
        return True

    def name_cell_column(self, sensitive: str) -> str:
        """The name of the level column."""
        return f"{sensitive}_level"

    # ---------------------------------------------------------------------------------------------------------- writing

    def make_columns(
        self, columns: Sequence[TableColumn], sensitive: SensitiveColumns, cell: str
    ) -> tuple[PublishedColumn, ...]:
        """One column of sets in place of the sensitive column, and the level column at the end."""
        names = pa.array(self.levels, type=pa.string())
        return (*super().make_columns(columns, sensitive, cell), CodedColumn(cell, names, False))

    def make_rows(self, perturbed: PerturbedRecords, name: str, cell: str) -> CodedRows:
        """The bits of each record's set, and the number of its level."""
        return {**super().make_rows(perturbed, name, cell), cell: perturbed.cells}

    # ------------------------------------------------------------------------------------------------------- describing

    def list_column_names(self, naming: Naming) -> tuple[str, ...]:
        """The column of the sets, and the column of the levels."""
        return (naming.joined_name, naming.cell or "")

    def describe(self, subject: str, naming: Naming) -> str:
        """Describes the encoding."""
        coarser_levels = " or ".join(map(format_as_code, self.levels[1:]))
        return (
            f"{super().describe(subject, naming)} The column {format_as_code(naming.cell or '')} gives the level at "
            f"which the set was drawn. At {coarser_levels}, a set contains either all values of a group or none."
        )

    def write_match(self, naming: Naming, columns: Sequence[str], value: Value) -> tuple[str, list[str]]:
        """Tests if the set contains the value. The weights are those of the record's level."""
        test, _ = super().write_match(naming, columns, value)
        return test, [f"d.{quote_if_needed(naming.cell or '')} = w.level"]

    def list_extra_terms(self, naming: Naming) -> Sequence[str]:
        """The weights of the other groups in the set, by their closeness to the value in the hierarchy."""
        data, suffixes = (
            quote_if_needed(naming.joined_name),
            ["", *(f"_{degree}" for degree in range(2, len(self.levels)))],
        )
        return [f"w.per_sibling{suffix} * bit_count(d.{data}::BIT & w.siblings{suffix}::BIT)" for suffix in suffixes]

    # --------------------------------------------------------------------------------------------------------- counting

    @cached_property
    def layout(self) -> list[tuple[int, Indices, Indices]]:
        """For each level: the start of its groups, the group of each value, and the first value of each group."""
        level_layouts, start = [], 0
        for places in map(np.array, self.groups):
            first = np.unique(places, return_index=True)[1]
            level_layouts.append((start, places, first))
            start += len(first) + 1
        return level_layouts

    @property
    def width(self) -> int:
        """The number of groups of all levels, plus the number of levels."""
        return sum(len(first) + 1 for _, _, first in self.layout)

    def list_needed_members(self, places: Sequence[int]) -> Sequence[int]:
        """All members in the last-level groups that contain one of the values, and the level indicators."""
        top = np.array(self.groups[-1])
        is_kin = np.isin(top, top[np.array(places, dtype=np.int64)])
        needed_groups = [[*np.unique(groups[is_kin]), len(first)] for _, groups, first in self.layout]
        return [
            start + int(group)
            for (start, _, _), level_groups in zip(self.layout, needed_groups, strict=True)
            for group in level_groups
        ]

    def write_column(self, naming: Naming) -> str:
        """The level and the set of a record as one value."""
        return (
            f"{{'level': {quote_name(TABLE)}.{quote_name(naming.cell or '')}, 'held': {super().write_column(naming)}}}"
        )

    def make_reader(self, naming: Naming) -> RecordReader:
        """A row of zeros and ones for each record."""
        return partial(_read, self, (naming.cell or "", naming.joined_name))

    def decode_column(self, column: pa.Array, domain: pa.Array) -> Codes:
        """A row of zeros and ones for each combined level and set."""
        return self.decode_records(*column.flatten())

    def decode_records(self, levels: pa.Array, sets: pa.Array) -> Codes:
        """A row of zeros and ones for each record. A set that is impossible at its record's level is rejected."""
        try:
            if levels.null_count or sets.null_count:
                raise make_mismatch_error()
            numbers = encode_values(levels, pa.array(self.levels, type=pa.string()))
            membership_rows = np.zeros((len(sets), self.width), dtype=np.uint8)
            for start in range(0, len(sets), BATCH_ROWS):
                batch_slice = slice(start, start + BATCH_ROWS)
                self._fill_rows(
                    membership_rows[batch_slice], numbers[batch_slice], read_set_bytes(sets[batch_slice], self.size)
                )
        except (pa.ArrowException, ValueError) as error:
            raise make_mismatch_error() from error
        return membership_rows

    def _fill_rows(self, membership_rows: Codes, numbers: Codes, set_bytes: Bytes) -> None:
        """For the records of one level, fills empty rows with their groups. The bytes of their sets are given."""
        unused = (1 << (-self.size % 8)) - 1
        if numbers.max(initial=0) >= len(self.levels) or (set_bytes[:, -1] & unused).any():
            raise make_mismatch_error()
        if (np.bitwise_count(set_bytes[numbers == 0]).sum(axis=1) != self.set_sizes[0]).any():
            raise make_mismatch_error()
        values = np.unpackbits(set_bytes, axis=1, count=self.size)
        membership_rows[:, : self.size] = values  # the groups of the first level are the values
        membership_rows[:, self.size] = numbers == 0
        for number, ((start, groups, first), members) in enumerate(zip(self.layout, self.set_sizes, strict=True)):
            if not number:
                continue
            rows = np.flatnonzero(numbers == number)
            level_values = values.take(rows, axis=0)
            group_bits = level_values.take(first, axis=1)
            if (group_bits.sum(axis=1) != members).any() or not np.array_equal(
                group_bits.take(groups, axis=1), level_values
            ):
                raise make_mismatch_error()
            membership_rows[rows, : self.size + 1] = 0
            membership_rows[rows, start : start + len(first)] = group_bits
            membership_rows[rows, start + len(first)] = 1


def _read(encoding: LevelSetEncoding, names: Sequence[str], batch: pa.RecordBatch) -> Codes:
    return encoding.decode_records(*(batch.column(name) for name in names))
