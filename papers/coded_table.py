"""A table as numbers of its values, in which many questions are counted at once: the truth that answers are held to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from sfumato._core.arrays import Codes, Counts, Places
from sfumato._core.cell_values import Scalar
from sfumato.errors import SchemaError

BLOCK_RECORDS, BLOCK_QUESTIONS = 4096, 1024
"""How many records are compared with how many questions at a time."""

Taken = Mapping[str, Sequence[int]]
"""The codes that a question takes of some columns; of every other column it takes all."""


@dataclass(frozen=True, eq=False)
class ColumnCodes:
    """A column as numbers of its values."""

    codes: Codes
    domain: tuple[Scalar, ...]

    @classmethod
    def of(cls, column: pa.ChunkedArray) -> ColumnCodes:
        """The values stand in their own order, whatever the order of the records; a missing value is the last."""
        whole = column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
        encoded = pa.concat_arrays(whole.chunks).dictionary_encode(null_encoding="encode")
        values = encoded.dictionary.to_pylist()
        order = sorted(range(len(values)), key=lambda place: (values[place] is None, values[place]))
        numbers = np.empty(len(values), dtype=np.min_scalar_type(len(values)))
        numbers[order] = np.arange(len(values))
        return cls(numbers[np.asarray(encoded.indices)], tuple(values[place] for place in order))

    @property
    def size(self) -> int:
        """The number of values."""
        return len(self.domain)


@dataclass(frozen=True, eq=False)
class CodedTable:
    """Public columns, and the sensitive one."""

    public: Mapping[str, ColumnCodes]
    sensitive: ColumnCodes

    @classmethod
    def of(cls, table: pa.Table, sensitive: str) -> CodedTable:
        """All columns but the sensitive one are public."""
        if sensitive not in table.column_names or table.num_columns == 1 or not table.num_rows:
            raise SchemaError(f"a pool needs records, a public column and the sensitive column {sensitive!r}.")
        columns = {name: ColumnCodes.of(table[name]) for name in table.column_names}
        return cls(columns, columns.pop(sensitive))

    @property
    def rows(self) -> int:
        """The number of records."""
        return len(self.sensitive.codes)

    def with_sensitive(self, codes: Codes) -> CodedTable:
        """The same records with other sensitive values of the same domain: what some method would publish."""
        if len(codes) != self.rows:
            raise SchemaError(f"there are {self.rows:,} records, and {len(codes):,} values for them.")
        return CodedTable(self.public, ColumnCodes(codes, self.sensitive.domain))

    def held(self, where: Taken) -> Counts:
        """How many of the records that a condition on public columns takes hold each sensitive value."""
        chosen: Places = np.arange(self.rows)
        for name, codes in where.items():
            wanted = np.zeros(self.public[name].size, dtype=np.bool_)
            wanted[list(codes)] = True
            chosen = chosen[wanted[self.public[name].codes[chosen]]]
        return np.bincount(self.sensitive.codes[chosen], minlength=self.sensitive.size)

    def found(self, wheres: Sequence[Taken], values: Sequence[Sequence[int]]) -> Counts:
        """How many records each of many questions finds: those of its condition that hold one of its values."""
        counts = np.zeros(len(wheres), dtype=np.int64)
        for begin in range(0, len(wheres), BLOCK_QUESTIONS):
            part = slice(begin, begin + BLOCK_QUESTIONS)
            taken = [
                (column, [where.get(name, range(column.size)) for where in wheres[part]])
                for name, column in self.public.items()
            ]
            bits = [(column.codes, _bits(column.size, each)) for column, each in taken]
            bits.append((self.sensitive.codes, _bits(self.sensitive.size, values[part])))
            for first in range(0, self.rows, BLOCK_RECORDS):
                rows = slice(first, first + BLOCK_RECORDS)
                both = np.bitwise_and.reduce([lines[codes[rows]] for codes, lines in bits])
                found = np.unpackbits(both, axis=1, count=len(counts[part]))
                counts[part] += found.sum(axis=0, dtype=np.uint16)  # a block has fewer records than that holds
        return counts


def _bits(size: int, taken: Sequence[Sequence[int]]) -> Codes:
    """For each code of a column a bit for every question, which is set if the question takes the code."""
    table = np.zeros((size, len(taken)), dtype=np.bool_)
    for number, codes in enumerate(taken):
        table[codes, number] = True
    return np.packbits(table, axis=1)
