"""A record shows a level of a hierarchy, and a set of values: those of some whole groups of that level."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato._core.arrays import Bytes, Codes, Indices
from sfumato._core.cell_values import Value
from sfumato._core.markdown import as_code
from sfumato._records import Naming, Reader, Replaced
from sfumato._records.column_codes import CodedColumn, PublishedColumn, Sensitive, TableColumn, coded
from sfumato._records.set_records import Sets, bytes_of, unlike
from sfumato._records.sql_quoting import TABLE, plain_name, quoted

BATCH_ROWS = 1 << 16
"""So many records are unpacked at once."""


@dataclass(frozen=True)
class LeveledSets(Sets):
    """A level, and a set of its groups.

    What a record may hold or not are, for each level in turn, its groups, and that the record is of this level.
    """

    levels: tuple[str, ...]
    """The names of the levels, the finest first."""
    groups: tuple[tuple[int, ...], ...]
    """For each level, the place of each value's group."""
    members: tuple[int, ...]
    """How many groups a set of each level holds."""

    @property
    def has_cells(self) -> bool:
        """A column says at which level a record was drawn."""
        return True

    def cell_name(self, sensitive: str) -> str:
        """The level of what is sensitive."""
        return f"{sensitive}_level"

    # ---------------------------------------------------------------------------------------------------------- writing

    def published(self, columns: Sequence[TableColumn], sensitive: Sensitive, cell: str) -> tuple[PublishedColumn, ...]:
        """One column of sets, where the sensitive column stood, and the levels after all others."""
        names = pa.array(self.levels, type=pa.string())
        return (*super().published(columns, sensitive, cell), CodedColumn(cell, names, False))

    def rows(self, replaced: Replaced, name: str, cell: str) -> dict[str, Any]:
        """The bits of each record's set, and the number of its level."""
        return {**super().rows(replaced, name, cell), cell: replaced.cells}

    # ------------------------------------------------------------------------------------------------------- describing

    def names(self, naming: Naming) -> tuple[str, ...]:
        """The column of the sets, and that of the levels."""
        return (naming.together, naming.cell or "")

    def words(self, subject: str, naming: Naming) -> str:
        """What a record shows."""
        above = " or ".join(map(as_code, self.levels[1:]))
        return (
            f"{super().words(subject, naming)} The column {as_code(naming.cell or '')} says at which level the set "
            f"was drawn: at "
            f"{above} it holds all values of some groups."
        )

    def matched(self, naming: Naming, columns: Sequence[str], value: Value) -> tuple[str, list[str]]:
        """The set holds the value; the weights are those of the record's level."""
        test, _ = super().matched(naming, columns, value)
        return test, [f"d.{plain_name(naming.cell or '')} = w.level"]

    def beside(self, naming: Naming) -> Sequence[str]:
        """The weights of the other groups that the set holds, by how near of kin they are to the value."""
        data, endings = plain_name(naming.together), ["", *(f"_{degree}" for degree in range(2, len(self.levels)))]
        return [f"w.per_sibling{each} * bit_count(d.{data}::BIT & w.siblings{each}::BIT)" for each in endings]

    # --------------------------------------------------------------------------------------------------------- counting

    @cached_property
    def layout(self) -> list[tuple[int, Indices, Indices]]:
        """For each level: where its groups begin, the group of each value, and the first value of each group."""
        found, start = [], 0
        for places in map(np.array, self.groups):
            first = np.unique(places, return_index=True)[1]
            found.append((start, places, first))
            start += len(first) + 1
        return found

    @property
    def width(self) -> int:
        """The groups of all levels, and the levels."""
        return sum(len(first) + 1 for _, _, first in self.layout)

    def needed(self, places: Sequence[int]) -> Sequence[int]:
        """Everything in the groups of the last level that hold one of the places, and the levels."""
        top = np.array(self.groups[-1])
        is_kin = np.isin(top, top[np.array(places, dtype=np.int64)])
        found = [[*np.unique(groups[is_kin]), len(first)] for _, groups, first in self.layout]
        return [start + int(each) for (start, _, _), mine in zip(self.layout, found, strict=True) for each in mine]

    def column(self, naming: Naming) -> str:
        """The level and the set of a record, as one value."""
        return f"{{'level': {quoted(TABLE)}.{quoted(naming.cell or '')}, 'held': {super().column(naming)}}}"

    def reader(self, naming: Naming) -> Reader:
        """A row of zeros and ones for each record."""
        return partial(_read, self, (naming.cell or "", naming.together))

    def membership(self, column: pa.Array, domain: pa.Array) -> Codes:
        """A row of zeros and ones for each level and set that are one value."""
        return self.entries(*column.flatten())

    def entries(self, levels: pa.Array, held: pa.Array) -> Codes:
        """A row of zeros and ones for each record; what no record of its level can hold is refused."""
        try:
            if levels.null_count or held.null_count:
                raise unlike()
            numbers = coded(levels, pa.array(self.levels, type=pa.string()))
            found = np.zeros((len(held), self.width), dtype=np.uint8)
            for start in range(0, len(held), BATCH_ROWS):
                mine = slice(start, start + BATCH_ROWS)
                self._enter(found[mine], numbers[mine], bytes_of(held[mine], self.size))
        except (pa.ArrowException, ValueError) as error:
            raise unlike() from error
        return found

    def _enter(self, found: Codes, numbers: Codes, held: Bytes) -> None:
        """Write into empty rows what records of these levels, whose sets are these bytes, hold of their level."""
        unused = (1 << (-self.size % 8)) - 1
        if numbers.max(initial=0) >= len(self.levels) or (held[:, -1] & unused).any():
            raise unlike()
        if (np.bitwise_count(held[numbers == 0]).sum(axis=1) != self.members[0]).any():
            raise unlike()
        values = np.unpackbits(held, axis=1, count=self.size)
        found[:, : self.size] = values  # the groups of the first level are the values
        found[:, self.size] = numbers == 0
        for number, ((start, groups, first), members) in enumerate(zip(self.layout, self.members, strict=True)):
            if not number:
                continue
            rows = np.flatnonzero(numbers == number)
            mine = values.take(rows, axis=0)
            told = mine.take(first, axis=1)
            if (told.sum(axis=1) != members).any() or not np.array_equal(told.take(groups, axis=1), mine):
                raise unlike()
            found[rows, : self.size + 1] = 0
            found[rows, start : start + len(first)] = told
            found[rows, start + len(first)] = 1


def _read(shown: LeveledSets, names: Sequence[str], batch: pa.RecordBatch) -> Codes:
    return shown.entries(*(batch.column(name) for name in names))
