"""A table as numbers of its values, in which many questions are counted at once: the truth that answers are held to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from sfumato._core.array_types import Codes, Counts, Places
from sfumato._core.cell_values import Scalar
from sfumato.errors import SchemaError

BLOCK_RECORDS, BLOCK_QUESTIONS = 4096, 1024
"""How many records are compared with how many questions at a time."""

CodesByColumn = Mapping[str, Sequence[int]]
"""The codes that a question takes of some columns; of every other column it takes all."""


@dataclass(frozen=True, eq=False)
class ColumnCodes:
    """A column as numbers of its values."""

    codes: Codes
    domain: tuple[Scalar, ...]

    @classmethod
    def of(cls, column: pa.ChunkedArray) -> ColumnCodes:
        """The values stand in their own order, whatever the order of the records; a missing value is the last."""
        plain_column = column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
        encoded = pa.concat_arrays(plain_column.chunks).dictionary_encode(null_encoding="encode")
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

    public_columns: Mapping[str, ColumnCodes]
    sensitive: ColumnCodes

    @classmethod
    def of(cls, table: pa.Table, sensitive: str) -> CodedTable:
        """All columns but the sensitive one are public."""
        if sensitive not in table.column_names or table.num_columns == 1 or not table.num_rows:
            raise SchemaError(
                f"a pool needs records, a public column and the sensitive column {sensitive!r}.",
                code="incomplete-pool",
                fields={"column": sensitive},
            )
        columns = {name: ColumnCodes.of(table[name]) for name in table.column_names}
        return cls(columns, columns.pop(sensitive))

    @property
    def rows(self) -> int:
        """The number of records."""
        return len(self.sensitive.codes)

    def replace_sensitive(self, codes: Codes) -> CodedTable:
        """The same records with other sensitive values of the same domain: what some method would publish."""
        if len(codes) != self.rows:
            raise SchemaError(
                f"there are {self.rows:,} records, and {len(codes):,} values for them.",
                code="values-do-not-fit-records",
                fields={"records": self.rows, "values": len(codes)},
            )
        return CodedTable(self.public_columns, ColumnCodes(codes, self.sensitive.domain))

    def count_values(self, where: CodesByColumn) -> Counts:
        """How many of the records that a condition on public columns takes hold each sensitive value."""
        rows: Places = np.arange(self.rows)
        for name, codes in where.items():
            is_wanted_code = np.zeros(self.public_columns[name].size, dtype=np.bool_)
            is_wanted_code[list(codes)] = True
            rows = rows[is_wanted_code[self.public_columns[name].codes[rows]]]
        return np.bincount(self.sensitive.codes[rows], minlength=self.sensitive.size)

    def count_questions(self, wheres: Sequence[CodesByColumn], values: Sequence[Sequence[int]]) -> Counts:
        """How many records each of many questions finds: those of its condition that hold one of its values."""
        counts = np.zeros(len(wheres), dtype=np.int64)
        for begin in range(0, len(wheres), BLOCK_QUESTIONS):
            part = slice(begin, begin + BLOCK_QUESTIONS)
            codes_by_question = [
                (column, [where.get(name, range(column.size)) for where in wheres[part]])
                for name, column in self.public_columns.items()
            ]
            bits = [
                (column.codes, _pack_bits(column.size, question_codes)) for column, question_codes in codes_by_question
            ]
            bits.append((self.sensitive.codes, _pack_bits(self.sensitive.size, values[part])))
            for first in range(0, self.rows, BLOCK_RECORDS):
                rows = slice(first, first + BLOCK_RECORDS)
                match_bits = np.bitwise_and.reduce([lines[codes[rows]] for codes, lines in bits])
                matches = np.unpackbits(match_bits, axis=1, count=len(counts[part]))
                counts[part] += matches.sum(axis=0, dtype=np.uint16)  # a block has fewer records than that holds
        return counts


def _pack_bits(size: int, codes_by_question: Sequence[Sequence[int]]) -> Codes:
    """For each code of a column a bit for every question, which is set if the question takes the code."""
    table = np.zeros((size, len(codes_by_question)), dtype=np.bool_)
    for number, codes in enumerate(codes_by_question):
        table[codes, number] = True
    return np.packbits(table, axis=1)
