"""The value encoding: a record publishes one value of the domain, or its sub-table and one value of this sub-table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import ClassVar

import numpy as np
import pyarrow as pa

from sfumato._core.array_types import Amounts, Codes, Counts, Floats, Indices, Mask
from sfumato._core.cell_values import Scalar, Value, build_domain_array, split_value
from sfumato._core.markdown import format_as_code
from sfumato._records import Counter, Naming, PerturbedRecords, RecordEncoding
from sfumato._records.column_codes import (
    CodedColumn,
    CodedRows,
    PartColumn,
    PublishedColumn,
    SensitiveColumns,
    TableColumn,
    convert_to_arrow,
    encode_values,
    find_smallest_type,
)
from sfumato._records.sql_quoting import TABLE, quote_if_needed, quote_name
from sfumato._records.tally import Key, Scan, Scanner, Tally, WeightTallies, make_group_key
from sfumato.errors import ReleaseFormatError

LARGEST_TABLE = 1 << 22
"""The largest number of combinations of published columns for which a table gives the symbols."""

FEW_CELLS = 256
"""The largest number of sub-tables whose ids take one byte. DuckDB groups by such ids without a hash table."""


@dataclass(frozen=True, eq=False)
class ValueEncoding(RecordEncoding):
    """Publishes one symbol: a value of the domain, or a sub-table and a value of this sub-table."""

    symbols: Indices
    """The value of each symbol, as its index in the domain."""
    cells: Indices | None = None
    """The sub-table of each symbol, in increasing order. None if the release has no sub-tables."""

    IS_READABLE_VALUE: ClassVar = True
    WARNING: ClassVar = "Do not count the published values directly: most of them may be random replacements."

    @property
    def has_cells(self) -> bool:
        """Whether a column gives the sub-table of a record."""
        return self.cells is not None

    # ---------------------------------------------------------------------------------------------------------- writing

    def make_columns(
        self, columns: Sequence[TableColumn], sensitive: SensitiveColumns, cell: str
    ) -> tuple[PublishedColumn, ...]:
        """Every column in its place. A compound is replaced by its parts."""
        parts = [part.name for part in sensitive.parts]
        published_columns: list[PublishedColumn] = [
            PartColumn(sensitive, parts.index(column.name)) if len(parts) > 1 and column.name in parts else column
            for column in columns
        ]
        if self.cells is not None:
            numbers = convert_to_arrow(np.arange(int(self.cells.max()) + 1, dtype=np.int32))
            published_columns.append(CodedColumn(cell, numbers, False))
        return tuple(published_columns)

    def make_rows(self, perturbed: PerturbedRecords, name: str, cell: str) -> CodedRows:
        """The codes of the values and of the sub-tables."""
        return {name: perturbed.values} if perturbed.cells is None else {name: perturbed.values, cell: perturbed.cells}

    # ------------------------------------------------------------------------------------------------------- describing

    def list_column_names(self, naming: Naming) -> tuple[str, ...]:
        """The sensitive columns, and the column of the sub-tables."""
        return (*naming.sensitive, *([naming.cell] if naming.cell is not None else []))

    def describe(self, subject: str, naming: Naming) -> str:
        """Describes the encoding."""
        cells = ""
        if naming.cell is not None:
            cells = f" The column {format_as_code(naming.cell)} gives the sub-table of each record."
        return (
            f"{subject}: each record has a value that was drawn at random, and may or may not be the true value.{cells}"
        )

    def list_places(self, size: int) -> Sequence[int]:
        """The values that occur in any sub-table."""
        return sorted(set(self.symbols.tolist()))

    def write_match(self, naming: Naming, columns: Sequence[str], value: Value) -> tuple[str, list[str]]:
        """Tests if the values are equal. The weights are those of the record's sub-table."""
        equalities = [
            f"d.{quote_if_needed(name)} IS NOT DISTINCT FROM w.{quote_if_needed(column)}"
            for name, column in zip(naming.sensitive, columns, strict=True)
        ]
        cells = [] if naming.cell is None else [f"d.{quote_if_needed(naming.cell)} = w.cell"]
        return " AND ".join(equalities), cells

    # --------------------------------------------------------------------------------------------------------- counting

    def make_reader(self, naming: Naming) -> SymbolReader:
        """Finds the symbol of each record."""
        return SymbolReader(naming, self)

    def sum_weights(self, codes: Codes, weights: Floats) -> Floats:
        """The weight of each record's symbol."""
        return weights[codes]

    def tally_groups(self, scanner: Scanner, scan: Scan, naming: Naming) -> dict[Key, WeightTallies]:
        """Counts the published columns with DuckDB, and maps them to symbols."""
        reader = self.make_reader(naming)
        column_aliases = [
            f"{quote_name(TABLE)}.{quote_name(name)} AS c{symbol_index}"
            for symbol_index, name in enumerate(reader.names)
        ]
        sums = [
            "COUNT(*) AS m0",
            *(f"SUM(CAST({sql} AS DOUBLE)) AS m{symbol_index}" for symbol_index, sql in enumerate(scan.weights, 1)),
        ]
        order = f" ORDER BY {scan.order}" if scan.groups else ""
        columns = ", ".join([*scan.group_columns, *column_aliases, *sums])
        table = scanner.fetch_table(f"SELECT {columns} {scan.clause} GROUP BY ALL{order}").combine_chunks()
        width, size = len(scan.groups), len(self.symbols)
        key_columns = [column.to_pylist() for column in table.columns[:width]]
        keys = [make_group_key(key) for key in zip(*key_columns, strict=True)] if key_columns else [()] * table.num_rows
        numbers = {key: number for number, key in enumerate(dict.fromkeys(keys))}
        scan.check_size(len(numbers), size)
        if not numbers:
            return scan.make_empty_tallies(size)
        symbol_index = np.array([numbers[key] for key in keys], dtype=np.int64) * size
        symbol_index += reader.read_columns(
            [_combine_chunks(column) for column in table.columns[width : width + len(column_aliases)]]
        )
        measures = [column.to_numpy() for column in table.columns[width + len(column_aliases) :]]
        totals: list[Amounts] = [
            np.bincount(symbol_index, weights=measures[0], minlength=len(numbers) * size).astype(np.int64)
        ]
        totals += [
            np.bincount(symbol_index, weights=np.nan_to_num(measure_sums), minlength=len(numbers) * size)
            for measure_sums in measures[1:]
        ]
        by_key = [measure_sums.reshape(len(numbers), size) for measure_sums in totals]
        return {
            key: scan.make_tallies([measure_sums[number] for measure_sums in by_key]) for key, number in numbers.items()
        }

    def tally_hits(
        self, scanner: Scanner, scan: Scan, naming: Naming, condition: str, value_mask: Mask
    ) -> dict[Key, WeightTallies] | None:
        """Counts, in each sub-table, the records with a wanted value and those with another.

        Assigns each count to one arbitrary symbol.
        """
        first, sizes = self._cell_ranges
        name = "0" if naming.cell is None else f"{quote_name(TABLE)}.{quote_name(naming.cell)}"
        # A number outside the range of a byte is an error of the release, and DuckDB reports it.
        cell = f"CAST({name} AS UTINYINT)" if len(sizes) <= FEW_CELLS else name
        columns = [*scan.group_columns, f"{cell} AS cell", "COUNT(*)", f"COUNT(*) FILTER (WHERE {condition})"]
        order = f" ORDER BY {scan.order}" if scan.groups else ""
        counts: dict[Key, Counts] = {}
        for *key, number, rows, hits in scanner.fetch_rows(
            f"SELECT {', '.join(columns)} {scan.clause} GROUP BY ALL{order}"
        ):
            if number is None or not 0 <= number < len(sizes):
                raise _make_mismatch_error()
            group_counts = counts.setdefault(make_group_key(key), np.zeros(len(self.symbols), dtype=np.int64))
            entries = value_mask[self.symbols[first[number] : first[number] + sizes[number]]]
            for count, is_wanted in ((hits, True), (rows - hits, False)):
                places = np.flatnonzero(entries == is_wanted)
                if count and not len(places):
                    raise _make_mismatch_error()
                if count:
                    group_counts[first[number] + places[0]] += count
        scan.check_size(len(counts), len(self.symbols))
        return {
            key: scan.make_tallies([group_counts]) for key, group_counts in counts.items()
        } or scan.make_empty_tallies(len(self.symbols))

    @cached_property
    def _cell_ranges(self) -> tuple[Indices, Indices]:
        """The first symbol and the number of symbols of each sub-table."""
        if self.cells is None:
            return np.zeros(1, dtype=np.int64), np.array([len(self.symbols)])
        sizes = np.bincount(self.cells)
        return np.cumsum(sizes) - sizes, sizes

    def tally_conditions(self, counter: Counter, naming: Naming, folder: Path) -> Tally:
        """Counts the symbols of the records of each condition."""
        return Tally.of_symbols(counter.count_symbols(self.make_reader(naming), len(self.symbols)))


class SymbolReader:
    """Finds the symbol of each record: from its value, from the parts of its value, or from its sub-table and value."""

    def __init__(self, naming: Naming, encoding: ValueEncoding) -> None:
        values = [split_value(naming.domain[place]) for place in encoding.symbols.tolist()]
        columns: list[Sequence[Scalar]] = [] if encoding.cells is None else [encoding.cells.tolist()]
        columns += list(zip(*values, strict=True))
        self.names = [*([] if encoding.cells is None else [naming.cell or ""]), *naming.sensitive]
        self.column_domains = [
            build_domain_array(list(dict.fromkeys(value for value in column if value is not None)))
            for column in columns
        ]
        self.sizes = [len(domain_values) + 2 for domain_values in self.column_domains]
        keys = self._make_keys(
            [
                encode_values(build_domain_array(column), domain_values)
                for column, domain_values in zip(columns, self.column_domains, strict=True)
            ]
        )
        self.symbols = np.argsort(keys, kind="stable")
        self.keys = keys[self.symbols]
        self.table: Codes | None = None
        if np.prod([float(size) for size in self.sizes]) <= LARGEST_TABLE:
            unknown = len(self.symbols)
            self.table = np.full(int(np.prod(self.sizes)), unknown, dtype=find_smallest_type(unknown))
            self.table[self.keys] = self.symbols
        self.is_numbered_alike = len(self.column_domains) == 1 and np.array_equal(self.keys, self.symbols)
        """Whether there is only one column, and the code of each value is its symbol."""

    def _make_keys(self, codes: Sequence[Codes]) -> Codes:
        """Combines all published columns of a record into one integer.

        If the integer is looked up in a table, it has few bytes.
        """
        largest = int(np.prod([float(size) for size in self.sizes]))
        kind = np.min_scalar_type(largest) if largest <= LARGEST_TABLE else np.dtype(np.int64)
        keys = codes[0].astype(kind)
        for size, column_codes in zip(self.sizes[1:], codes[1:], strict=True):
            keys *= kind.type(size)
            keys += column_codes.astype(kind)
        return keys

    def __call__(self, batch: pa.RecordBatch) -> Codes:
        """The symbols of a batch. Values that no record may have are rejected."""
        return self.read_columns([batch.column(name) for name in self.names])

    def read_columns(self, columns: Sequence[pa.Array]) -> Codes:
        """The symbols of records, from their published columns."""
        symbols = self.find_symbols(columns)
        if len(symbols) and symbols.max() >= len(self.symbols):
            raise _make_outside_domain_error()
        return symbols

    def find_symbols(self, columns: Sequence[pa.Array]) -> Codes:
        """The symbols. A record without a symbol gets the number after the last symbol."""
        try:
            codes = [
                encode_values(column, domain_values)
                for column, domain_values in zip(columns, self.column_domains, strict=True)
            ]
        except pa.ArrowException as error:
            raise _make_outside_domain_error() from error
        if self.is_numbered_alike:
            return np.asarray(np.minimum(codes[0], codes[0].dtype.type(len(self.symbols))))
        if self.table is not None:
            return self.table.take(codes[0] if len(codes) == 1 else self._make_keys(codes))
        keys = self._make_keys(codes)
        key_positions = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return np.where(self.keys[key_positions] == keys, self.symbols[key_positions], len(self.symbols))


def _combine_chunks(column: pa.ChunkedArray) -> pa.Array:
    """A column of a table as one array."""
    combined_array = column.combine_chunks()
    return combined_array.combine_chunks() if isinstance(combined_array, pa.ChunkedArray) else combined_array


def _make_outside_domain_error() -> ReleaseFormatError:
    return ReleaseFormatError(
        "the release contains a value outside its domain; get the release again from its publisher.",
        code="value-outside-domain",
    )


def _make_mismatch_error() -> ReleaseFormatError:
    return ReleaseFormatError(
        "the release contains a value that does not belong to its sub-table; get the release again from its publisher.",
        code="value-outside-cell",
    )
