"""What a record of a release shows: a value, a set of values or a bucket; how it is written, read and counted.

Nobody else knows which kinds there are: everybody asks a `RecordEncoding`. A new kind is one more file here.
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
from sfumato._records.column_codes import CodedRows, Field, PublishedColumn, SensitiveColumns, TableColumn
from sfumato._records.tally import Holdings, Key, Scan, Scanner, Tally, WeightTallies
from sfumato._request.schema import COMPOUND_MARK

if TYPE_CHECKING:
    import pyarrow.parquet as pq

DATA_FILE = "data.parquet"
"""The file of the records, unless a kind has names of its own."""


def list_record_files(data: str, files: int) -> tuple[str, ...]:
    """The names of so many files of records: the one that a kind has, or the parts in a folder of that name."""
    if files == 1:
        return (data,)
    return tuple(f"{data.removesuffix('.parquet')}/part-{number:05d}.parquet" for number in range(files))


RecordReader = Callable[[pa.RecordBatch], Codes]
"""From the columns that show something to what each record shows: a number, or a row of zeros and ones for a set."""


@dataclass(frozen=True, slots=True)
class PerturbedRecords:
    """What is published of a batch: the codes of the values, or the bits of a set for each record; and their cells.

    Nothing of the values where only the cell of a record is published.
    """

    values: Codes | None
    cells: Codes | None = None

    @classmethod
    def from_blocks(cls, blocks: Sequence[PerturbedRecords]) -> PerturbedRecords:
        """Neighbouring rows, one after the other."""
        if len(blocks) == 1:
            return blocks[0]
        values, cells = ([getattr(arrays, name) for arrays in blocks] for name in ("values", "cells"))
        return cls(*(None if arrays[0] is None else np.concatenate(arrays) for arrays in (values, cells)))


@dataclass(frozen=True, slots=True)
class CellContents:
    """What a plan says of cells whose contents are published: cell ids, places and counts, in the order of the ids."""

    size: int
    """How many lines there are."""
    iter_batches: Callable[[int], Iterator[tuple[UInts, UInts, UInts]]]
    """The lines in batches of about so many."""


@dataclass(frozen=True, slots=True)
class SideTable:
    """A table beside the records, whose order tells nothing: it is written as it comes."""

    file: str
    columns: tuple[PublishedColumn, ...]
    size: int
    iter_batches: Callable[[int], Iterator[CodedRows]]
    """Rewritten rows, in batches of about so many."""


@dataclass(frozen=True)
class Naming:
    """What the columns of a release are called that show something, and the domain they speak of."""

    sensitive: tuple[str, ...]
    domain: tuple[Value, ...]
    types: tuple[str, ...]
    """The Data Package type of each sensitive column's values."""
    cell: str | None = None
    """The column that says in which cell or bucket a record is."""

    @property
    def joined_name(self) -> str:
        """The name of what is sensitive."""
        return COMPOUND_MARK.join(self.sensitive)

    @property
    def markdown_names(self) -> str:
        """The names for people, in Markdown."""
        return " and ".join(map(format_as_code, self.sensitive))

    def make_part_domain(self, number: int) -> pa.Array:
        """The domain of one of the sensitive columns, a value for each place."""
        return build_domain_array([split_value(value)[number] for value in self.domain])

    def make_value_fields(self, names: Sequence[str]) -> list[Field]:
        """Columns that hold values of the domain, one for each sensitive column."""
        return [
            Field(name, kind, any(split_value(value)[number] is None for value in self.domain))
            for number, (name, kind) in enumerate(zip(names, self.types, strict=True))
        ]


class RecordsInMemory(Protocol):
    """All records of a release in memory, for those that must be counted in several ways."""

    @property
    def published_codes(self) -> Codes:
        """What each record shows."""
        ...

    def count_codes(self, codes: Codes, size: int) -> Counts:
        """For each condition, how many of its records have each code."""
        ...

    def iter_place_sets(self) -> Iterator[tuple[Indices, Sequence[int]]]:
        """Each set of places that is asked for, and the numbers of the conditions under which it is."""
        ...

    def iter_bits(self, index: Indices, wheres: Sequence[int]) -> Iterator[tuple[Sequence[int], BitWords]]:
        """Some of these conditions at a time: a line of bits for each, whether the record at each index satisfies it.

        An index of one more than the last record stands for none.
        """
        ...

    def select(self, rows: Indices, codes: Codes) -> RecordsInMemory:
        """Some of the records, with what they shall show."""
        ...

    def count_condition(self, where: int, size: int) -> Counts:
        """How many records of one condition show each code."""
        ...


class Counter(Protocol):
    """Many conditions on public columns, whose records are counted in one reading of a release."""

    def count_symbols(self, read: RecordReader, size: int) -> Counts:
        """For each condition, how many of its records show each symbol."""
        ...

    def count_members(
        self, read: RecordReader, size: int, needed: Callable[[Sequence[int]], Sequence[int]]
    ) -> tuple[Counts, Counts]:
        """For each condition, how many sets of its records hold each member that is needed, and its records.

        From the places that are asked about to the members, of so many, that are needed to count them.
        """
        ...

    def load_records(self, read: RecordReader) -> RecordsInMemory:
        """All records in memory."""
        ...


class RecordEncoding(ABC):
    """What a record shows of what is sensitive."""

    CELL_COLUMN: ClassVar[str] = "cell"
    """The usual name of the column that says where a record is."""
    FILES: ClassVar[tuple[str, ...]] = (DATA_FILE,)
    """The tables of a release: the records first."""
    WARNING: ClassVar[str]
    """What nobody may do with the records."""

    @property
    def has_cells(self) -> bool:
        """Whether a column says where a record is."""
        return False

    def name_cell_column(self, sensitive: str) -> str:
        """What that column is called where no other has the name."""
        return self.CELL_COLUMN

    # ---------------------------------------------------------------------------------------------------------- writing

    def check(self, sensitive: SensitiveColumns) -> None:  # noqa: B027 - most kinds can show everything
        """Refuse what cannot be shown so."""

    @abstractmethod
    def make_columns(
        self, columns: Sequence[TableColumn], sensitive: SensitiveColumns, cell: str
    ) -> tuple[PublishedColumn, ...]:
        """The columns of the records, in the order of the table, and the cells after them."""

    def make_readable(self, batch: pa.RecordBatch, naming: Naming) -> pa.RecordBatch:
        """Records with what they show in a form that people can read; most kinds show nothing else."""
        return batch

    @abstractmethod
    def make_rows(self, perturbed: PerturbedRecords, name: str, cell: str) -> CodedRows:
        """What is published of a batch, by the rewritten columns."""

    def make_side_table(self, sensitive: SensitiveColumns, naming: Naming, contents: CellContents) -> SideTable | None:
        """The table beside the records, made from what the plan says of its cells; None where there is none."""
        return None

    # ------------------------------------------------------------------------------------------------------- describing

    @abstractmethod
    def list_column_names(self, naming: Naming) -> tuple[str, ...]:
        """The columns of the records that show something about what is sensitive."""

    def list_tables(self, naming: Naming, fields: Sequence[Field]) -> dict[str, Sequence[Field]]:
        """The columns of each table of the release, given those of the records."""
        return {self.FILES[0]: fields}

    @abstractmethod
    def describe(self, subject: str, naming: Naming) -> str:
        """What a record shows, in Markdown; the subject says what is protected."""

    def list_places(self, size: int) -> Sequence[int]:
        """The places of a domain of this size that some record can show."""
        return range(size)

    def write_manual_sql(self, naming: Naming, condition: str) -> str | None:
        """How to count without weights with any SQL tool, where the kind of record alone says how."""
        return None

    @abstractmethod
    def write_match(self, naming: Naming, columns: Sequence[str], value: Value) -> tuple[str, list[str]]:
        """SQL of whether a record `d` shows the value in these columns of weights `w`; and which weights concern it.

        The value is the one that is asked for, where what a record shows of it has a place of its own.
        """

    def list_weight_columns(self, naming: Naming) -> Mapping[str, Sequence[str]]:
        """What the table of the weights says besides, where it has a line for each value."""
        return {}

    def list_extra_terms(self, naming: Naming) -> Sequence[str]:
        """SQL of what else a record `d` adds by the weights `w`, besides the weight of a value that it shows or not."""
        return ()

    # --------------------------------------------------------------------------------------------------------- trusting

    def compute_line_limits(self, records: int) -> dict[str, int]:
        """How many lines the tables beside the records can have at most."""
        return {}

    def check_footer(self, path: Path, naming: Naming, metadata: pq.FileMetaData) -> None:  # noqa: B027 - most need none
        """Refuse records that say in their footer what this kind cannot show."""

    # --------------------------------------------------------------------------------------------------------- counting

    @abstractmethod
    def make_reader(self, naming: Naming) -> RecordReader:
        """The one reader from records to what they show."""

    @abstractmethod
    def sum_weights(self, codes: Codes, weights: Floats) -> Floats:
        """The weights of what each record shows, added up."""

    @abstractmethod
    def tally_groups(self, scanner: Scanner, scan: Scan, naming: Naming) -> dict[Key, WeightTallies]:
        """For each group of a scan by SQL, what its records show."""

    def tally_hits(
        self, scanner: Scanner, scan: Scan, naming: Naming, condition: str, value_mask: Mask
    ) -> dict[Key, WeightTallies] | None:
        """The same where it matters only whether a wanted value is shown, if that is quicker; None where it is not."""
        return None

    @abstractmethod
    def tally_conditions(self, counter: Counter, naming: Naming, folder: Path) -> Tally:
        """What the records of many conditions show."""

    def read_side_table(self, naming: Naming, folder: Path) -> Holdings | None:
        """What the table beside the records lists, line by line in its order; None where there is no such table."""
        return None

    def read_holdings(self, scanner: Scanner, everything: Scan, naming: Naming, folder: Path) -> Holdings | None:
        """What the buckets hold, if there are any and they hold as much as there are records in them."""
        return None
