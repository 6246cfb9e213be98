"""The set encoding: a record publishes a set of values, which may or may not contain the true value."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sfumato._core.array_types import Amounts, Bits64, Codes, Counts, Floats
from sfumato._core.cell_values import Value, make_labels
from sfumato._core.radix_sort import LARGEST_WORD
from sfumato._parquet.footer import count_column_values, read_footer
from sfumato._parquet.thrift_compact import ThriftError
from sfumato._records import Counter, Naming, PerturbedRecords, RecordEncoding, RecordReader
from sfumato._records.column_codes import CodedRows, PublishedColumn, SensitiveColumns, TableColumn
from sfumato._records.sql_quoting import TABLE, quote_if_needed, quote_name
from sfumato._records.tally import Key, Scan, Scanner, Tally, WeightTallies
from sfumato.errors import ReleaseFormatError, SpecError

LARGEST_DICTIONARY_SET = 24
"""Sets up to this size are written with a dictionary."""

WORD_BYTES = 8
LARGEST_BYTE = 255
"""The largest number of zeros and ones whose sum fits into a byte."""


@dataclass(frozen=True)
class SetEncoding(RecordEncoding):
    """Publishes a set of values of the domain."""

    size: int
    """The number of values of the domain."""
    is_list: bool
    """Whether the sets are lists of values.

    Otherwise they are bits, and the first value is the highest bit of the first byte.
    """

    WARNING: ClassVar = "Do not count the members of the sets directly: most members are in a set by chance."

    # ---------------------------------------------------------------------------------------------------------- writing

    def check(self, sensitive: SensitiveColumns) -> None:
        """Rejects lists for several columns, because a list holds the values of one column only."""
        if self.is_list and len(sensitive.parts) > 1:
            raise SpecError(
                "sets of several columns are written as bits; remove `form='list'`.", code="list-of-several-columns"
            )

    def make_columns(
        self, columns: Sequence[TableColumn], sensitive: SensitiveColumns, cell: str
    ) -> tuple[PublishedColumn, ...]:
        """One column of sets, in place of the first sensitive column."""
        parts = [part.name for part in sensitive.parts]
        return tuple(
            SetColumn(sensitive, self.is_list) if column.name == parts[0] else column
            for column in columns
            if column.name not in parts[1:]
        )

    def make_readable(self, batch: pa.RecordBatch, naming: Naming) -> pa.RecordBatch:
        """Converts bits to lists of their values."""
        place = batch.schema.get_field_index(naming.joined_name)
        if self.is_list or place < 0:  # other tables of the release have no sets
            return batch
        bits = unpack_sets(batch.column(place), self.size)
        domain = pa.array(make_labels(naming.domain)) if len(naming.sensitive) > 1 else naming.make_part_domain(0)
        offsets = np.concatenate([[0], np.cumsum(bits.sum(axis=1, dtype=np.int64))]).astype(np.int32)
        lists = pa.ListArray.from_arrays(pa.array(offsets), domain.take(pa.array(np.nonzero(bits)[1])))
        return batch.set_column(place, naming.joined_name, lists)

    def make_rows(self, perturbed: PerturbedRecords, name: str, cell: str) -> CodedRows:
        """The bits of each record's set."""
        return {} if perturbed.values is None else {name: convert_bits_to_arrow(perturbed.values)}

    # ------------------------------------------------------------------------------------------------------- describing

    def list_column_names(self, naming: Naming) -> tuple[str, ...]:
        """The column of the sets."""
        return (naming.joined_name,)

    def describe(self, subject: str, naming: Naming) -> str:
        """Describes the encoding."""
        form = (
            "a list of values" if self.is_list else f"{self.size} bits, one for each value in the order of the domain"
        )
        return (
            f"{subject}: each record has a set of values, written as {form}. The set was drawn at random, and may or "
            "may not contain the true value."
        )

    def write_match(self, naming: Naming, columns: Sequence[str], value: Value) -> tuple[str, list[str]]:
        """Tests if the set contains the value."""
        data = f"d.{quote_if_needed(naming.joined_name)}"
        return f"list_contains({data}, w.value)" if self.is_list else f"get_bit({data}::BIT, w.place) = 1", []

    # --------------------------------------------------------------------------------------------------------- trusting

    def check_footer(self, path: Path, naming: Naming, metadata: pq.FileMetaData) -> None:
        """Checks that sets are bits of one length, or lists no longer than the domain."""
        columns = [metadata.schema.column(place) for place in range(metadata.num_columns)]
        is_right = all(
            column.physical_type == "FIXED_LEN_BYTE_ARRAY" and column.length == -(-self.size // 8)
            for column in columns
            if column.path == naming.joined_name
        )
        if not is_right or (
            self.is_list and _count_listed_members(path, naming.joined_name) > metadata.num_rows * self.size
        ):
            raise make_mismatch_error()

    # --------------------------------------------------------------------------------------------------------- counting

    def make_reader(self, naming: Naming) -> RecordReader:
        """A row of zeros and ones for each record."""
        return partial(_read, naming.joined_name, self, naming.make_part_domain(0))

    def sum_weights(self, codes: Codes, weights: Floats) -> Floats:
        """The sum of the weights of each record's members. Most weights are zero and are skipped."""
        nonzero_places = np.flatnonzero(weights)
        return np.asarray(codes[:, nonzero_places] @ weights[nonzero_places])

    @property
    def width(self) -> int:
        """The number of possible members of a record."""
        return self.size

    def list_needed_members(self, places: Sequence[int]) -> Sequence[int]:
        """The members that must be counted to count some values."""
        return places

    def write_column(self, naming: Naming) -> str:
        """SQL of the published value of a record."""
        return f"{quote_name(TABLE)}.{quote_name(naming.joined_name)}"

    def list_scan_columns(self, naming: Naming) -> list[str]:
        """SQL of the published value of a record for a scan, in one or several columns."""
        return [self.write_column(naming)]

    def decode_columns(self, columns: Sequence[pa.Array], domain: pa.Array) -> Codes:
        """A row of zeros and ones for each set, from the scanned columns."""
        return self.decode_column(columns[0], domain)

    def tally_groups(self, scanner: Scanner, scan: Scan, naming: Naming) -> dict[Key, WeightTallies]:
        """Counts members by group. DuckDB numbers the groups, and numpy adds up the members."""
        columns = self.list_scan_columns(naming)
        keys, batches = scan.number_groups(scanner, columns)
        scan.check_size(len(keys), self.width)
        if not keys:
            return scan.make_empty_tallies(self.width)
        shape = (len(keys), 1 + len(scan.weights))
        sums, rows = self.sum_members(batches, shape, naming.make_part_domain(0), len(columns))
        return {
            key: scan.make_tallies(
                [np.rint(sums[number, 0]).astype(np.int64), *sums[number, 1:]],
                [round(rows[number, 0]), *rows[number, 1:].tolist()],
            )
            for number, key in enumerate(keys)
        }

    def tally_conditions(self, counter: Counter, naming: Naming, folder: Path) -> Tally:
        """Counts the members of the sets of each condition."""
        return Tally(*counter.count_members(self.make_reader(naming), self.width, self.list_needed_members))

    def sum_members(
        self, batches: Iterable[pa.RecordBatch], shape: tuple[int, int], domain: pa.Array, columns: int = 1
    ) -> tuple[Floats, Floats]:
        """For each group and weight, sums weights: over the sets that contain each value, and over all sets.

        Each batch has the number of the group and the sets in `columns` columns. It also has a column for each weight
        except the first, which is 1.
        """
        groups, width = shape
        sums, rows = np.zeros((groups, width, self.width)), np.zeros((groups, width))
        for batch in batches:
            numbers = batch.column(0).to_numpy(zero_copy_only=False).astype(np.int64)
            set_columns, weight_columns = batch.columns[1 : 1 + columns], batch.columns[1 + columns :]
            members = self.decode_columns(set_columns, domain)
            weights = [
                np.ones(len(numbers)),
                *(weight_column.to_numpy(zero_copy_only=False) for weight_column in weight_columns),
            ]
            for place, weight in enumerate(weights):
                rows[:, place] += (
                    weight.sum() if groups == 1 else np.bincount(numbers, weights=weight, minlength=groups)
                )
            _add_members(sums, numbers, members, weights)
        return sums, rows

    def decode_column(self, column: pa.Array, domain: pa.Array) -> Codes:
        """A row of zeros and ones for each set."""
        try:
            if column.null_count or pa.types.is_list(column.type) != self.is_list:
                raise ValueError("a set is missing, or lists are not bits")
            return _encode_lists(column, domain) if self.is_list else unpack_sets(column, self.size)
        except (pa.ArrowException, ValueError) as error:
            raise make_mismatch_error() from error

    def count_members(self, batch: pa.RecordBatch, domain: pa.Array) -> tuple[Counts, bool]:
        """The number of values in each set. Also whether any member stands for no value."""
        column = batch.column(0)
        if self.is_list:
            members = self.decode_column(column, domain).sum(axis=1)
            return members, bool((members != pc.list_value_length(column).to_numpy(zero_copy_only=False)).any())
        try:
            rows = read_set_bytes(column, self.size)
        except pa.ArrowException as error:
            raise ReleaseFormatError(
                "the size of the release's sets does not fit the domain.", code="set-of-other-size"
            ) from error
        if column.null_count:
            return np.zeros(1, dtype=np.int64), True
        unused = (1 << (-self.size % 8)) - 1
        return _count_members(rows), bool((rows[:, -1] & unused).any())


def _count_members(rows: npt.NDArray[np.uint8]) -> Counts:
    """The number of set bits in each row. They are counted by words, of which there are eight times fewer than bytes.

    The first word of a row starts at the row. The last word may extend into the next row, and its extra bits are
    masked.
    """
    count, width = rows.shape
    data = np.append(rows.ravel(), np.zeros(WORD_BYTES, dtype=np.uint8))
    members: Counts = np.zeros(count, dtype=np.int64)
    for start in range(0, width if count else 0, WORD_BYTES):  # an empty array has no start
        row_words: Bits64 = np.ndarray((count,), "<u8", data, start, (width,))
        row_mask = LARGEST_WORD >> np.uint64(8 * max(0, start + WORD_BYTES - width))
        members += np.bitwise_count(row_words & row_mask)
    return members


def _read(name: str, encoding: SetEncoding, domain: pa.Array, batch: pa.RecordBatch) -> Codes:
    return encoding.decode_column(batch.column(name), domain)


def _add_members(sums: Floats, numbers: Counts, members: Codes, weights: Sequence[Amounts]) -> None:
    """Adds the sets of one batch, a few at a time. A byte can then hold their sum, which saves space."""
    present, starts = [0], [0]
    if len(sums) > 1:
        order = np.argsort(numbers, kind="stable")
        members, weights = members[order], [weight[order] for weight in weights]
        present, starts = (array.tolist() for array in np.unique(numbers[order], return_index=True))
    for group, (first, last) in zip(present, itertools.pairwise([*starts, len(members)]), strict=True):
        for start in range(first, last, LARGEST_BYTE):
            batch_slice = slice(start, min(start + LARGEST_BYTE, last))
            sums[group, 0] += members[batch_slice].sum(axis=0, dtype=np.uint8)
            for place, weight in enumerate(weights[1:], 1):
                sums[group, place] += weight[batch_slice] @ members[batch_slice]


def _encode_lists(column: pa.Array, domain: pa.Array) -> Codes:
    places = pc.index_in(column.flatten().cast(domain.type), domain)
    if places.null_count:
        raise ValueError("a member is outside the domain")
    members = np.zeros((len(column), len(domain)), dtype=np.uint8)
    rows = np.repeat(np.arange(len(column)), pc.list_value_length(column).to_numpy(zero_copy_only=False))
    members[rows, places.to_numpy(zero_copy_only=False)] = 1
    return members


def _count_listed_members(path: Path, name: str) -> int:
    """The total number of members in the lists of a column."""
    try:
        return count_column_values(read_footer(path), name)
    except ThriftError as error:
        raise ReleaseFormatError(
            f"{path.name} cannot be read; get the release again from its publisher.",
            code="damaged-file",
            fields={"file": path.name},
        ) from error


def make_mismatch_error() -> ReleaseFormatError:
    """Makes the error for sets that a valid release cannot contain."""
    return ReleaseFormatError(
        "the release contains sets that do not fit its domain; get it again from its publisher.",
        code="set-outside-domain",
    )


@dataclass(frozen=True)
class SetColumn:
    """A column of sets, as bits or as lists of the values of a single column."""

    sensitive: SensitiveColumns
    is_list: bool

    has_missing = False
    dictionary_values = None

    @property
    def is_plain(self) -> bool:
        """Whether sets are written without a dictionary. Large sets rarely repeat, so a dictionary would not pay."""
        return not self.is_list and self.sensitive.size > LARGEST_DICTIONARY_SET

    @property
    def name(self) -> str:
        """The joined names of the sensitive columns."""
        return self.sensitive.name

    @property
    def source(self) -> str:
        """The key of its rewritten rows."""
        return self.sensitive.name

    @property
    def written_type(self) -> pa.DataType:
        """The type of the values."""
        if self.is_list:
            return pa.list_(self.sensitive.parts[0].type)
        return pa.binary(-(-self.sensitive.size // 8))

    def to_file_values(self, bits: pa.FixedSizeBinaryArray) -> pa.Array:
        """Keeps the bits, or lists their values in canonical order."""
        if not self.is_list:
            return bits
        members = unpack_sets(bits, self.sensitive.size)
        _, places = np.nonzero(members)
        offsets = np.append(0, np.cumsum(members.sum(axis=1, dtype=np.int32)))
        column = self.sensitive.parts[0]
        mask = places == len(column.values) if column.has_missing else None
        values = column.values.take(pa.array(places, mask=mask))
        return pa.ListArray.from_arrays(pa.array(offsets, type=pa.int32()), values)


def convert_bits_to_arrow(bits: Codes) -> pa.FixedSizeBinaryArray:
    """Rows of bytes as an Arrow column."""
    buffer = pa.py_buffer(np.ascontiguousarray(bits))
    return pa.FixedSizeBinaryArray.from_buffers(pa.binary(bits.shape[1]), len(bits), [None, buffer])


def read_set_bytes(column: pa.Array, size: int) -> npt.NDArray[np.uint8]:
    """The bytes of each row of a column of sets of `size` bits."""
    width = -(-size // 8)
    plain = column.cast(pa.binary(width))
    data = np.frombuffer(plain.buffers()[1], dtype=np.uint8)
    return data[plain.offset * width : (plain.offset + len(plain)) * width].reshape(len(plain), width)


def unpack_sets(column: pa.Array, size: int) -> npt.NDArray[np.uint8]:
    """For each row of bytes, a row of `size` zeros and ones."""
    return np.unpackbits(read_set_bytes(column, size), axis=1, count=size)
