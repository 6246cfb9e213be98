"""The member-column encoding: a set is one boolean column for each value. Every tool can read these columns."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from sfumato._core.array_types import Amounts, Codes, Counts, Mask
from sfumato._core.cell_values import Value, split_value
from sfumato._core.markdown import format_as_code
from sfumato._records import Naming, RecordReader
from sfumato._records.column_codes import PublishedColumn, SensitiveColumns, TableColumn
from sfumato._records.set_records import SetEncoding, make_mismatch_error, read_set_bytes
from sfumato._records.sql_quoting import TABLE, quote_if_needed, quote_name
from sfumato._records.tally import Key, Scan, Scanner, WeightTallies, make_group_key
from sfumato.errors import SpecError

if TYPE_CHECKING:
    import pyarrow.parquet as pq

MOST_COLUMNS = 1024
"""Most tools have difficulties with more columns than this."""
LONGEST_WORD = 40
"""The largest number of a value's characters in a column name."""


@dataclass(frozen=True)
class MemberColumnEncoding(SetEncoding):
    """Publishes a set of values of the domain, one column for each value."""

    set_size: int
    """The number of values in a set."""

    # ---------------------------------------------------------------------------------------------------------- writing

    def check(self, sensitive: SensitiveColumns) -> None:
        """Rejects domains with too many values, because each value takes a column."""
        if self.size > MOST_COLUMNS:
            raise SpecError(
                f"sets of {self.size:,} values would take {self.size:,} columns; write them as bits (`form='bits'`).",
                code="too-many-columns",
                fields={"columns": self.size},
            )

    def make_columns(
        self, columns: Sequence[TableColumn], sensitive: SensitiveColumns, cell: str
    ) -> tuple[PublishedColumn, ...]:
        """The columns of the values, in place of the first sensitive column."""
        part_names = [part.name for part in sensitive.parts]
        names = make_member_names(sensitive.name, sensitive.domain)
        other_names = {column.name.lower(): column.name for column in columns if column.name not in part_names}
        if name_clashes := [other_names[name.lower()] for name in names if name.lower() in other_names]:
            raise SpecError(
                f"the column {name_clashes[0]!r} has the same name as a column of the sets; rename it, drop it "
                "(`drop=`), or write the sets as bits (`form='bits'`).",
                code="repeated-column",
                fields={"column": name_clashes[0]},
            )
        members = [MemberColumn(sensitive, place, name) for place, name in enumerate(names)]
        published_columns: list[PublishedColumn] = []
        for column in columns:
            published_columns += (
                members if column.name == part_names[0] else [column] if column.name not in part_names else []
            )
        return tuple(published_columns)

    def make_readable(self, batch: pa.RecordBatch, naming: Naming) -> pa.RecordBatch:
        """Returns the batch unchanged, because it is readable already."""
        return batch

    # ------------------------------------------------------------------------------------------------------- describing

    def list_column_names(self, naming: Naming) -> tuple[str, ...]:
        """The columns of the values, in domain order."""
        return make_member_names(naming.joined_name, naming.domain)

    def describe(self, subject: str, naming: Naming) -> str:
        """Describes the encoding."""
        first, *_, last = self.list_column_names(naming)
        return (
            f"{subject}: each record has a set of {self.set_size} values. The set was drawn at random, and may or may "
            "not contain the true value. Each value has a column, which is true if the set contains the value. These "
            f"are the {self.size} columns {format_as_code(first)} to {format_as_code(last)}, in the order of the "
            "domain. `weights.parquet` gives the column of each value. If a column is true, this does not mean that "
            "the person has the value."
        )

    def write_match(self, naming: Naming, columns: Sequence[str], value: Value) -> tuple[str, list[str]]:
        """Tests the column of the value."""
        return f"d.{quote_if_needed(self.list_column_names(naming)[naming.domain.index(value)])}", []

    def list_weight_columns(self, naming: Naming) -> dict[str, Sequence[str]]:
        """The column of each value."""
        return {"column": self.list_column_names(naming)}

    # --------------------------------------------------------------------------------------------------------- trusting

    def check_footer(self, path: Path, naming: Naming, metadata: pq.FileMetaData) -> None:
        """Checks that every value has a column of booleans without missing entries."""
        names = set(self.list_column_names(naming))
        columns = [metadata.schema.column(place) for place in range(metadata.num_columns)]
        member_columns = [column for column in columns if column.path in names]
        if not all(column.physical_type == "BOOLEAN" and column.max_definition_level == 0 for column in member_columns):
            raise make_mismatch_error()

    # --------------------------------------------------------------------------------------------------------- counting

    def make_reader(self, naming: Naming) -> RecordReader:
        """A row of zeros and ones for each record."""
        return partial(_read, self.list_column_names(naming))

    def write_column(self, naming: Naming) -> str:
        """The booleans of a record, as a list."""
        return f"[{', '.join(f'{quote_name(TABLE)}.{quote_name(name)}' for name in self.list_column_names(naming))}]"

    def decode_column(self, column: pa.Array, domain: pa.Array) -> Codes:
        """A row of zeros and ones for each list of booleans."""
        flat = column.flatten()
        if column.null_count or flat.null_count or len(flat) != len(column) * self.size:
            raise make_mismatch_error()
        return _convert_to_numbers(flat).reshape(len(column), self.size)

    def count_members(self, batch: pa.RecordBatch, domain: pa.Array) -> tuple[Counts, bool]:
        """The number of values in each set. Booleans cannot stand for other values."""
        set_sizes = np.zeros(batch.num_rows, dtype=np.uint16)  # there are at most MOST_COLUMNS columns
        for column in batch.columns:
            set_sizes += _convert_to_numbers(column)
        return set_sizes.astype(np.int64), False

    def list_scan_columns(self, naming: Naming) -> list[str]:
        """Each column separately."""
        return [f"{quote_name(TABLE)}.{quote_name(name)}" for name in self.list_column_names(naming)]

    def decode_columns(self, columns: Sequence[pa.Array], domain: pa.Array) -> Codes:
        """A row of zeros and ones for each record."""
        return _stack_members(columns) if len(columns) > 1 else super().decode_columns(columns, domain)

    def tally_hits(
        self, scanner: Scanner, scan: Scan, naming: Naming, condition: str, value_mask: Mask
    ) -> dict[Key, WeightTallies] | None:
        """Counts the wanted members. One wanted member gets the count, and another member gets the rest.

        All sets have the same size, so the unwanted members need not be read.
        """
        if value_mask.all() or not value_mask.any():
            return None
        names = [
            name
            for name, is_wanted in zip(self.list_column_names(naming), value_mask.tolist(), strict=True)
            if is_wanted
        ]
        sums = [f"COUNT(*) FILTER (WHERE {quote_name(TABLE)}.{quote_name(name)})" for name in names]
        group_tallies = {}
        for key, (rows, *counts) in _sum_by_group(scanner, scan, ["COUNT(*)", *sums]):
            members: Amounts = np.zeros(self.size, dtype=np.int64)
            members[value_mask.argmax()] = sum(counts)
            members[value_mask.argmin()] = self.set_size * rows - sum(counts)
            group_tallies[key] = scan.make_tallies([members], [rows])
        scan.check_size(len(group_tallies), self.size)
        return group_tallies


def _sum_by_group(scanner: Scanner, scan: Scan, sums: Sequence[str]) -> list[tuple[Key, list[float]]]:
    """Sums over the records of each group, in group order."""
    order = f" ORDER BY {scan.order}" if scan.groups else ""
    rows = scanner.fetch_rows(f"SELECT {', '.join([*scan.group_columns, *sums])} {scan.clause} GROUP BY ALL{order}")
    width = len(scan.groups)
    return [(make_group_key(row[:width]), list(row[width:])) for row in rows]


@lru_cache(maxsize=64)
def make_member_names(name: str, domain: tuple[Value, ...]) -> tuple[str, ...]:
    """Makes a column name for each value from its letters and digits. A number makes the names unique.

    Special characters of a value are left out. Names differ by more than case, because many tools ignore case.
    """
    unique_names: dict[str, None] = {}
    for place, value in enumerate(domain, 1):
        value_text = "_".join("missing" if part is None else str(part) for part in split_value(value))
        word = re.sub(r"\W+", "_", value_text.casefold()).strip("_")[:LONGEST_WORD].strip("_") or str(place)
        candidate, number = word, 1
        while candidate in unique_names:
            number += 1
            candidate = f"{word}_{number}"
        unique_names[candidate] = None
    return tuple(f"{name}_{word}" for word in unique_names)


def _read(names: Sequence[str], batch: pa.RecordBatch) -> Codes:
    return _stack_members([batch.column(name) for name in names])


def _stack_members(columns: Sequence[pa.Array]) -> Codes:
    """A row of zeros and ones for each record, stored column by column."""
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
    """A boolean column: whether each record's set contains one value."""

    sensitive: SensitiveColumns
    place: int
    name: str

    has_missing = False
    dictionary_values = None
    is_plain = True
    """True, because booleans are written without a dictionary."""
    written_type = pa.bool_()

    @property
    def source(self) -> str:
        """The key of the rewritten rows of the sets."""
        return self.sensitive.name

    def to_file_values(self, bits: pa.FixedSizeBinaryArray) -> pa.Array:
        """One bit of each set."""
        place_bits = read_set_bytes(bits, self.sensitive.size)[:, self.place >> 3] & (0x80 >> (self.place & 7))
        buffer = pa.py_buffer(np.packbits(place_bits != 0, bitorder="little"))
        return pa.BooleanArray.from_buffers(pa.bool_(), len(bits), [None, buffer])
