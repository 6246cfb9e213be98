"""Record encodings: the published form of a record (value, set or bucket), with code to write, read and count records.

Other modules only use the interface `RecordEncoding`. To add an encoding, add a file here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Protocol

import numpy as np
import pyarrow as pa

from sfumato._core.array_types import Codes, Counts, Floats, Indices, Mask, UInts
from sfumato._core.cell_values import Value, build_domain_array, split_value
from sfumato._core.markdown import format_as_code
from sfumato._records.bit_masks import BitWords
from sfumato._records.column_codes import CodedColumn, CodedRows, Field, PublishedColumn, SensitiveColumns, TableColumn
from sfumato._records.sql_quoting import RECORDS, TABLE, quote_name
from sfumato._records.tally import Holdings, Key, Scan, Scanner, SideContents, Tally, WeightTallies
from sfumato._request.schema import COMPOUND_MARK

if TYPE_CHECKING:
    import pyarrow.parquet as pq

    from sfumato._records.crowd_lines import CrowdTable

DATA_FILE = "data.parquet"
"""The default name of the file with the records."""


def list_record_files(data: str, files: int) -> tuple[str, ...]:
    """The names of the record files: the single file of an encoding, or the parts in a folder of that name."""
    if files == 1:
        return (data,)
    return tuple(f"{data.removesuffix('.parquet')}/part-{number:05d}.parquet" for number in range(files))


RecordReader = Callable[[pa.RecordBatch], Codes]
"""Reads the published columns into codes: one number for each record, or a row of zeros and ones for a set."""


@dataclass(frozen=True, slots=True)
class PerturbedRecords:
    """The published part of a batch: the sub-tables, and the codes of the values or the bits of the sets.

    If only the sub-table or bucket of a record is published, there are no values.
    """

    values: Codes | None
    cells: Codes | None = None

    @classmethod
    def from_blocks(cls, blocks: Sequence[PerturbedRecords]) -> PerturbedRecords:
        """Concatenates blocks of neighbouring rows."""
        if len(blocks) == 1:
            return blocks[0]
        values, cells = ([getattr(arrays, name) for arrays in blocks] for name in ("values", "cells"))
        return cls(*(None if arrays[0] is None else np.concatenate(arrays) for arrays in (values, cells)))


@dataclass(frozen=True, slots=True)
class CellContents:
    """The planned contents of published sub-tables: ids, domain indices and counts.

    They are in the order of the ids.
    """

    size: int
    """The number of lines."""
    iter_batches: Callable[[int], Iterator[tuple[UInts, UInts, UInts]]]
    """Yields the lines in batches of about this size."""


@dataclass(frozen=True, slots=True)
class CrowdBatch:
    """Some neighbouring crowds. A crowd is a group of people with equal public columns whose counts are published."""

    public_codes: Sequence[Codes]
    """The code of each crowd in each public column."""
    people: Counts
    """The number of people in each crowd."""
    noisy: Counts
    """The noisy count of each value (columns) in each crowd (rows)."""
    estimates: Floats
    """The estimated counts."""


@dataclass(frozen=True, slots=True)
class CrowdContents:
    """The published counts of all crowds, in the order of their public columns."""

    public: Sequence[CodedColumn]
    size: int
    """The number of crowds."""
    iter_batches: Callable[[int], Iterator[CrowdBatch]]
    """Yields batches of about this number of crowds."""


@dataclass(frozen=True, slots=True)
class SideTable:
    """A table beside the records. Its lines are written in the given order. This order carries no information."""

    file: str
    columns: tuple[PublishedColumn, ...]
    size: int
    iter_batches: Callable[[int], Iterator[CodedRows]]
    """Yields rewritten rows in batches of about this size."""


@dataclass(frozen=True)
class Naming:
    """The names of the published columns, and their domain."""

    sensitive: tuple[str, ...]
    domain: tuple[Value, ...]
    types: tuple[str, ...]
    """The Data Package type of each sensitive column's values."""
    cell: str | None = None
    """The column with the sub-table or bucket of a record."""

    @property
    def joined_name(self) -> str:
        """The joined names of the sensitive columns."""
        return COMPOUND_MARK.join(self.sensitive)

    @property
    def markdown_names(self) -> str:
        """The names of the sensitive columns in Markdown, for people."""
        return " and ".join(map(format_as_code, self.sensitive))

    def make_part_domain(self, number: int) -> pa.Array:
        """The domain of one of the sensitive columns, with one value for each domain index."""
        return build_domain_array([split_value(value)[number] for value in self.domain])

    def make_value_fields(self, names: Sequence[str]) -> list[Field]:
        """The fields of columns with domain values, one for each sensitive column."""
        return [
            Field(name, kind, any(split_value(value)[number] is None for value in self.domain))
            for number, (name, kind) in enumerate(zip(names, self.types, strict=True))
        ]


class RecordsInMemory(Protocol):
    """All records of a release in memory, for estimators that count in several ways."""

    @property
    def published_codes(self) -> Codes:
        """The published code of each record."""
        ...

    def count_codes(self, codes: Codes, size: int) -> Counts:
        """For each condition, the number of its records by code."""
        ...

    def iter_place_sets(self) -> Iterator[tuple[Indices, Sequence[int]]]:
        """Yields each requested value set with the numbers of its conditions."""
        ...

    def iter_bits(self, index: Indices, wheres: Sequence[int]) -> Iterator[tuple[Sequence[int], BitWords]]:
        """Yields some conditions at a time. A bit for each index says whether the record satisfies the condition.

        An index past the last record stands for no record.
        """
        ...

    def select(self, rows: Indices, codes: Codes) -> RecordsInMemory:
        """Some of the records, with new published codes."""
        ...

    def count_condition(self, where: int, size: int) -> Counts:
        """The number of one condition's records by code."""
        ...


class Counter(Protocol):
    """Counts the records of many conditions on public columns in one pass over a release."""

    def count_symbols(self, read: RecordReader, size: int) -> Counts:
        """For each condition, the number of its records by symbol."""
        ...

    def count_members(
        self, read: RecordReader, size: int, needed: Callable[[Sequence[int]], Sequence[int]]
    ) -> tuple[Counts, Counts]:
        """For each condition, the number of its records. Also how many of their sets contain each needed member.

        `needed` maps the requested domain indices to the members that must be counted for them.
        """
        ...

    def load_records(self, read: RecordReader) -> RecordsInMemory:
        """Loads all records into memory."""
        ...

    def count_group_members(self, read: RecordReader, size: int, groups: pa.Table) -> Counts:
        """For each row of a small table of public columns, counts the members in the sets of the row's records.

        The last column has the number of the row's records.
        """
        ...

    def number_rows(self, table: pa.Table, groups: pa.Table) -> Indices:
        """For each row of a small table, the row of another table with the same values. -1 if no row has them."""
        ...

    def find_whole_groups(
        self, groups: pa.Table, people: Counts, others: pa.Table, other_people: Counts
    ) -> tuple[Indices, Indices]:
        """For each condition, the groups of which it selects all people.

        The people of a group are records, or another small table counts them. That table has all public columns.
        """
        ...

    def find_rows(self, table: pa.Table, rows: int) -> tuple[Indices, Indices]:
        """For each condition, the rows that satisfy it. The rows are those of a small table with the public columns.

        The second array has the first position of each condition. Its last item is the number of positions.
        """
        ...


class RecordEncoding(ABC):
    """The published form of the sensitive columns of a record."""

    CELL_COLUMN: ClassVar[str] = "cell"
    """The usual name of the column with a record's sub-table or bucket."""
    FILES: ClassVar[tuple[str, ...]] = (DATA_FILE,)
    """The tables of every release, the records first."""
    OPTIONAL_FILES: ClassVar[tuple[str, ...]] = ()
    """Further tables that a release may have."""
    WARNING: ClassVar[str]
    """A warning against a wrong use of the records."""
    TOOL_QUERY_HINT: ClassVar[str] = """\
With any SQL tool, add up the weights of `weights.parquet`. The sum is an unbiased count. It may be negative if the
true count is small. This DuckDB query counts the records with one value; add conditions on other columns with `AND`:"""
    """Explains the query of `write_tool_query` in Markdown."""
    IS_READABLE_VALUE: ClassVar[bool] = False
    """Whether each record publishes one value of the domain in readable form."""

    @property
    def files(self) -> tuple[str, ...]:
        """The tables of this release, the records first."""
        return self.FILES

    @property
    def has_coarse_tables(self) -> bool:
        """Whether some tables count people again who are already in another table."""
        return False

    @property
    def has_cells(self) -> bool:
        """Whether a column gives the sub-table or bucket of a record."""
        return False

    def name_cell_column(self, sensitive: str) -> str:
        """The default name of the column with the sub-table or bucket."""
        return self.CELL_COLUMN

    # ---------------------------------------------------------------------------------------------------------- writing

    def check(self, sensitive: SensitiveColumns) -> None:  # noqa: B027 - most encodings can represent all columns
        """Rejects sensitive columns that this encoding cannot represent."""

    @abstractmethod
    def make_columns(
        self, columns: Sequence[TableColumn], sensitive: SensitiveColumns, cell: str
    ) -> tuple[PublishedColumn, ...]:
        """The columns of the records in the order of the table. The sub-table or bucket comes last."""

    def make_readable(self, batch: pa.RecordBatch, naming: Naming) -> pa.RecordBatch:
        """Converts published values to a readable form. Most encodings are readable already."""
        return batch

    @abstractmethod
    def make_rows(self, perturbed: PerturbedRecords, name: str, cell: str) -> CodedRows:
        """The published rows of a batch, by column."""

    def make_side_table(self, sensitive: SensitiveColumns, naming: Naming, contents: CellContents) -> SideTable | None:
        """Builds the table beside the records from the planned contents. None if the encoding has no such table."""
        return None

    def make_count_tables(self, sensitive: SensitiveColumns, contents: Sequence[CrowdContents]) -> list[SideTable]:
        """Builds the table of the counts of crowds, and the coarse tables.

        The result is empty if there are no such tables.
        """
        return []

    # ------------------------------------------------------------------------------------------------------- describing

    @abstractmethod
    def list_column_names(self, naming: Naming) -> tuple[str, ...]:
        """The columns of the records that depend on the sensitive values."""

    def list_tables(self, naming: Naming, fields: Sequence[Field]) -> dict[str, Sequence[Field]]:
        """The columns of each table of the release, given the columns of the records."""
        return {self.FILES[0]: fields}

    @abstractmethod
    def describe(self, subject: str, naming: Naming) -> str:
        """Describes the encoding in Markdown. The subject of the sentence names the protected columns."""

    def describe_size(self, data: str, rows: int, counted: int, unit: str) -> str:
        """Says how many records the release has, in Markdown.

        A table beside the records has `counted` of these people.
        """
        return f"`{data}` has {rows:,} records."

    def write_tool_query(self, amount: str, source: str, naming: Naming, public: Sequence[str], condition: str) -> str:
        """SQL that adds up an amount of each record `d` of the source.

        It also adds the amounts in a table beside the records.
        """
        return f"SELECT COALESCE(SUM({amount}), 0)\n{source}"

    def list_places(self, size: int) -> Sequence[int]:
        """The domain indices that some record can publish."""
        return range(size)

    def write_manual_sql(self, naming: Naming, condition: str) -> str | None:
        """SQL that counts in any tool without weights. None if the encoding does not allow such a count."""
        return None

    @abstractmethod
    def write_match(self, naming: Naming, columns: Sequence[str], value: Value) -> tuple[str, list[str]]:
        """SQL that tests if a record `d` contains a value, with the join conditions of the test.

        The value is in these columns of the weights `w`. It is the requested value. Some encodings store its position
        instead.
        """

    def list_weight_columns(self, naming: Naming) -> Mapping[str, Sequence[str]]:
        """Further columns of the weights table, for encodings with a line for each value."""
        return {}

    def list_extra_terms(self, naming: Naming) -> Sequence[str]:
        """SQL of a record `d`'s further contribution by the weights `w`. The value itself contributes separately."""
        return ()

    # --------------------------------------------------------------------------------------------------------- trusting

    def compute_line_limits(self, records: int) -> dict[str, int]:
        """The largest number of lines in each table beside the records."""
        return {}

    def check_footer(self, path: Path, naming: Naming, metadata: pq.FileMetaData) -> None:  # noqa: B027 - most encodings need no check
        """Rejects records whose footer contradicts this encoding."""

    # --------------------------------------------------------------------------------------------------------- counting

    def list_count_files(self, public: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """The tables of published counts of people, with their public columns.

        The first table has all public columns.
        """
        return {}

    def list_query_files(self) -> tuple[str, ...]:
        """The tables beside the records that queries read."""
        return ()

    def write_query_tables(self, naming: Naming, public: Sequence[str], records: str, folder: Path) -> tuple[str, ...]:
        """SQL that makes the tables of a session: all columns of the records, and the public columns for analysts.

        `records` is SQL of the record files.
        """
        columns = ", ".join(map(quote_name, public))
        return (
            f"CREATE VIEW {RECORDS} AS SELECT * FROM {records}",
            f"CREATE VIEW {TABLE} AS SELECT {columns} FROM {RECORDS}",
        )

    def write_crowds(self, naming: Naming, public: Sequence[str], table: str) -> str | None:
        """SQL of the groups of people with counts in a table instead of records. None if all people have records.

        The columns are the public columns as c0, c1, ..., the number of people, and the number of the group.
        """
        return None

    def count_people_beside(self, naming: Naming, folder: Path) -> int:
        """The number of people who are counted in a table beside the records."""
        crowds = self.read_crowds(naming, folder)
        return 0 if crowds is None else int(crowds.people.sum())

    def read_crowds(self, naming: Naming, folder: Path) -> CrowdTable | None:
        """Reads the counts of people with equal public columns. None if the encoding has no table of such counts."""
        return None

    @abstractmethod
    def make_reader(self, naming: Naming) -> RecordReader:
        """Returns the reader from record columns to codes."""

    @abstractmethod
    def sum_weights(self, codes: Codes, weights: Floats) -> Floats:
        """The sum of the weights of each record's published value."""

    @abstractmethod
    def tally_groups(self, scanner: Scanner, scan: Scan, naming: Naming) -> dict[Key, WeightTallies]:
        """Counts the published values for each group of an SQL scan."""

    def tally_hits(
        self, scanner: Scanner, scan: Scan, naming: Naming, condition: str, value_mask: Mask
    ) -> dict[Key, WeightTallies] | None:
        """The same counts by a faster method, if only hits matter. None if there is no faster method."""
        return None

    @abstractmethod
    def tally_conditions(self, counter: Counter, naming: Naming, folder: Path) -> Tally:
        """Counts the published values for many conditions."""

    def read_side_table(self, naming: Naming, folder: Path) -> Holdings | None:
        """Reads the table beside the records line by line, in its order. None if there is no such table."""
        return None

    def read_holdings(self, scanner: Scanner, everything: Scan, naming: Naming, folder: Path) -> SideContents | None:
        """Reads the contents of the buckets or crowds, if any. Checks that they match the number of records."""
        return None
