"""A record shows a set of values by a column of truth values for each value of the domain, which every tool reads."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sfumato._core.arrays import Amounts, Codes, Counts, Mask
from sfumato._core.cell_values import Value, split_value
from sfumato._core.markdown import format_as_code
from sfumato._records import Naming, Reader
from sfumato._records.column_codes import PublishedColumn, Sensitive, TableColumn
from sfumato._records.set_records import Sets, make_mismatch_error, read_set_bytes
from sfumato._records.sql_quoting import TABLE, quote_if_needed, quote_name
from sfumato._records.tally import Key, Measured, Scan, Scanner, make_group_key
from sfumato.errors import SpecError

if TYPE_CHECKING:
    import pyarrow.parquet as pq

MOST_COLUMNS = 1024
"""More columns than this are a burden for most tools."""
LONGEST = 40
"""The longest part of a column's name that is taken from a value."""


@dataclass(frozen=True)
class MemberColumns(Sets):
    """A set of values of the domain, a column for each value."""

    held: int
    """How many values a set holds."""

    # ---------------------------------------------------------------------------------------------------------- writing

    def check(self, sensitive: Sensitive) -> None:
        """Each value takes a column."""
        if self.size > MOST_COLUMNS:
            raise SpecError(
                f"sets of {self.size:,} values would take as many columns; write them as bits (--subset-form bits)."
            )

    def published(self, columns: Sequence[TableColumn], sensitive: Sensitive, cell: str) -> tuple[PublishedColumn, ...]:
        """The columns of the values, where the first sensitive column stood."""
        own = [part.name for part in sensitive.parts]
        names = make_member_names(sensitive.name, sensitive.domain)
        others = {column.name.lower(): column.name for column in columns if column.name not in own}
        if taken := [others[name.lower()] for name in names if name.lower() in others]:
            raise SpecError(
                f"the column {taken[0]!r} has the name that a column of the sets would have; rename it, leave it out "
                "(--drop), or write the sets as bits (--subset-form bits)."
            )
        members = [MemberColumn(sensitive, place, name) for place, name in enumerate(names)]
        published_columns: list[PublishedColumn] = []
        for column in columns:
            published_columns += members if column.name == own[0] else [column] if column.name not in own else []
        return tuple(published_columns)

    def readable(self, batch: pa.RecordBatch, naming: Naming) -> pa.RecordBatch:
        """As they are."""
        return batch

    # ------------------------------------------------------------------------------------------------------- describing

    def names(self, naming: Naming) -> tuple[str, ...]:
        """The columns of the values, in the order of the domain."""
        return make_member_names(naming.together, naming.domain)

    def words(self, subject: str, naming: Naming) -> str:
        """What a record shows."""
        first, *_, last = self.names(naming)
        return (
            f"{subject}: each record shows a set of values, which may or may not hold the true one. For each value a "
            f"column says whether the set holds it: {format_as_code(first)} to {format_as_code(last)}, {self.size} "
            "columns in the order of the domain; `weights.parquet` names the column of each value. That a column says "
            f"true does not mean that the person has the value: sets hold {self.held} values by design."
        )

    def matched(self, naming: Naming, columns: Sequence[str], value: Value) -> tuple[str, list[str]]:
        """The column of the value says that the set holds it."""
        return f"d.{quote_if_needed(self.names(naming)[naming.domain.index(value)])}", []

    def weight_columns(self, naming: Naming) -> dict[str, Sequence[str]]:
        """The column of each value."""
        return {"column": self.names(naming)}

    # --------------------------------------------------------------------------------------------------------- trusting

    def check_footer(self, path: Path, naming: Naming, metadata: pq.FileMetaData) -> None:
        """Every column of a value holds truth values, and none is missing."""
        names = set(self.names(naming))
        columns = [metadata.schema.column(place) for place in range(metadata.num_columns)]
        mine = [column for column in columns if column.path in names]
        if not all(column.physical_type == "BOOLEAN" and column.max_definition_level == 0 for column in mine):
            raise make_mismatch_error()

    # --------------------------------------------------------------------------------------------------------- counting

    def reader(self, naming: Naming) -> Reader:
        """A row of zeros and ones for each record."""
        return partial(_read, self.names(naming))

    def column(self, naming: Naming) -> str:
        """The truth values of a record, as a list."""
        return f"[{', '.join(f'{quote_name(TABLE)}.{quote_name(name)}' for name in self.names(naming))}]"

    def membership(self, column: pa.Array, domain: pa.Array) -> Codes:
        """A row of zeros and ones for each list of truth values."""
        flat = column.flatten()
        if column.null_count or flat.null_count or len(flat) != len(column) * self.size:
            raise make_mismatch_error()
        return _convert_to_numbers(flat).reshape(len(column), self.size)

    def sizes(self, batch: pa.RecordBatch, domain: pa.Array) -> tuple[Counts, bool]:
        """How many values each set holds; nothing else can be written in truth values."""
        set_sizes = np.zeros(batch.num_rows, dtype=np.uint16)  # there are no more than MOST_COLUMNS
        for column in batch.columns:
            set_sizes += _convert_to_numbers(column)
        return set_sizes.astype(np.int64), False

    def scanned_columns(self, naming: Naming) -> list[str]:
        """Each column by itself."""
        return [f"{quote_name(TABLE)}.{quote_name(name)}" for name in self.names(naming)]

    def membership_of(self, columns: Sequence[pa.Array], domain: pa.Array) -> Codes:
        """A row of zeros and ones for each record."""
        return _stack_members(columns) if len(columns) > 1 else super().membership_of(columns, domain)

    def hits(
        self, scanner: Scanner, scan: Scan, naming: Naming, condition: str, wanted: Mask
    ) -> dict[Key, Measured] | None:
        """Count the wanted members, and put them and the others into one place each: which one does not matter.

        All sets hold as many values, so what is not wanted need not be read.
        """
        if wanted.all() or not wanted.any():
            return None
        names = [name for name, is_wanted in zip(self.names(naming), wanted.tolist(), strict=True) if is_wanted]
        sums = [f"COUNT(*) FILTER (WHERE {quote_name(TABLE)}.{quote_name(name)})" for name in names]
        group_tallies = {}
        for key, (rows, *counts) in _sum_by_group(scanner, scan, ["COUNT(*)", *sums]):
            members: Amounts = np.zeros(self.size, dtype=np.int64)
            members[wanted.argmax()] = sum(counts)
            members[wanted.argmin()] = self.held * rows - sum(counts)
            group_tallies[key] = scan.measured([members], [rows])
        scan.check_size(len(group_tallies), self.size)
        return group_tallies


def _sum_by_group(scanner: Scanner, scan: Scan, sums: Sequence[str]) -> list[tuple[Key, list[Any]]]:
    """Sums over the records of each group, in the order of the groups."""
    order = f" ORDER BY {scan.order}" if scan.groups else ""
    rows = scanner.rows(f"SELECT {', '.join([*scan.named, *sums])} {scan.clause} GROUP BY ALL{order}")
    width = len(scan.groups)
    return [(make_group_key(row[:width]), list(row[width:])) for row in rows]


@lru_cache(maxsize=64)
def make_member_names(name: str, domain: tuple[Value, ...]) -> tuple[str, ...]:
    """A column's name for each value: letters and digits of the value, and a number where two would be the same.

    Nothing of a value gets into a name that would need care: values can be anything, and names of columns that differ
    in small and capital letters alone are the same for many tools.
    """
    unique_names: dict[str, None] = {}
    for place, value in enumerate(domain, 1):
        value_text = "_".join("missing" if part is None else str(part) for part in split_value(value))
        word = re.sub(r"\W+", "_", value_text.casefold()).strip("_")[:LONGEST].strip("_") or str(place)
        free, number = word, 1
        while free in unique_names:
            number += 1
            free = f"{word}_{number}"
        unique_names[free] = None
    return tuple(f"{name}_{word}" for word in unique_names)


def _read(names: Sequence[str], batch: pa.RecordBatch) -> Codes:
    return _stack_members([batch.column(name) for name in names])


def _stack_members(columns: Sequence[pa.Array]) -> Codes:
    """A row of zeros and ones for each record; those of one value lie together."""
    membership = np.empty((len(columns), len(columns[0])), dtype=np.uint8)
    for line, column in zip(membership, columns, strict=True):
        line[:] = _convert_to_numbers(column)
    return membership.T


def _convert_to_numbers(column: pa.Array) -> Codes:
    if column.null_count or not pa.types.is_boolean(column.type):
        raise make_mismatch_error()
    return np.asarray(column.to_numpy(zero_copy_only=False)).view(np.uint8)


@dataclass(frozen=True)
class MemberColumn:
    """Whether the set of each record holds one value."""

    sensitive: Sensitive
    place: int
    name: str

    has_missing = False
    listed = None
    is_plain = True
    """Truth values are written as they are."""
    written_type = pa.bool_()

    @property
    def source(self) -> str:
        """The rewritten rows that the column is made from: those of the sets."""
        return self.sensitive.name

    def written(self, bits: pa.FixedSizeBinaryArray) -> pa.Array:
        """One bit of each set."""
        own = read_set_bytes(bits, len(self.sensitive.numbers))[:, self.place >> 3] & (0x80 >> (self.place & 7))
        buffer = pa.py_buffer(np.packbits(own != 0, bitorder="little"))
        return pa.BooleanArray.from_buffers(pa.bool_(), len(bits), [None, buffer])
