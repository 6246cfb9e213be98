"""Reads the records of a release in blocks of codes: published values and results of conditions."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sfumato._core.array_types import Codes, Mask
from sfumato._core.cell_values import Scalar, simplify_type
from sfumato._core.object_store import Address, File, open_for_arrow
from sfumato._query.counting.count_request import Range
from sfumato._query.counting.shared_conditions import QueriedColumn, Workload, convert_moment
from sfumato._records import RecordReader
from sfumato._records.column_codes import encode_values
from sfumato._release.manifest import Manifest
from sfumato._release.untrusted_files import check_table
from sfumato.errors import QueryError, ReleaseFormatError

BLOCK_ROWS = 1 << 20


@dataclass(frozen=True, eq=False)
class Block:
    """A block of records."""

    rows: int
    codes: Sequence[Codes]
    """The code of each record, for each queried column."""
    ranges: Mapping[int, Mask]
    """For each range condition, by its number: whether each record satisfies the condition."""
    published_codes: Codes
    """The symbol or the bucket of each record, or a row of zeros and ones for each set."""


def read_record_schema(paths: Sequence[File], manifest: Manifest) -> pa.Schema:
    """The schema of the records. Checks that all columns of the release exist and that all files agree."""
    path = paths[0]
    try:
        schema = pq.read_schema(open_for_arrow(path))
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise _explain_unreadable(path) from error
    if not {*manifest.public_columns, *manifest.protected_columns} <= set(schema.names):
        raise _explain_unreadable(path)
    return schema


def count_rows(paths: Sequence[File]) -> int:
    """The number of records. For a file in a store that was not read yet, the largest possible number."""
    rows = 0
    for path in paths:
        try:
            metadata = pq.read_metadata(open_for_arrow(path))
            if isinstance(path, Address):
                check_table(path.name, metadata, path.size)
        except (pa.ArrowException, OSError, ValueError) as error:
            raise error if isinstance(error, ReleaseFormatError) else _explain_unreadable(path) from error
        rows += int(metadata.num_rows)
    return rows


@dataclass(frozen=True, eq=False)
class BlockMaker:
    """Turns batches into blocks. A block has the queried columns and the published values that the reader needs."""

    work: Workload
    read: RecordReader

    @cached_property
    def values(self) -> list[pa.Array]:
        """The queried values of each column."""
        return [column.values for column in self.work.columns]

    def __call__(self, batch: pa.RecordBatch) -> Block:
        """Turns a batch into a block."""
        work = self.work
        arrays = [batch.column(column.name) for column in work.columns]
        return Block(
            batch.num_rows,
            [encode_values(array, values) for array, values in zip(arrays, self.values, strict=True)],
            {
                number: find_in_range(arrays[atom.column], work.columns[atom.column], atom.range)
                for number, atom in work.atoms.items()
                if atom.range is not None
            },
            self.read(batch),
        )


def read_batches(paths: Sequence[File], schema: pa.Schema, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Reads the named columns. Strings are read as dictionaries."""
    texts = [field.name for field in schema if pa.types.is_string(simplify_type(field.type))]
    for path in paths:
        try:
            with pq.ParquetFile(open_for_arrow(path), read_dictionary=texts) as file:
                yield from file.iter_batches(BLOCK_ROWS, columns=list(dict.fromkeys(names)))
        except (pa.ArrowException, OSError, KeyError, UnicodeDecodeError) as error:
            raise _explain_unreadable(path) from error


def _explain_unreadable(path: File) -> ReleaseFormatError:
    return ReleaseFormatError(
        f"{path.name} cannot be read; get the release again from its publisher.",
        code="damaged-file",
        fields={"file": path.name},
    )


# --------------------------------------------------------------------------------------------------------------- ranges

_COMPARISONS = {">=": pc.greater_equal, ">": pc.greater, "<=": pc.less_equal, "<": pc.less}


def find_in_range(array: pa.Array, column: QueriedColumn, asked_range: Range) -> Mask:
    """Whether each record lies in a range. A missing value lies in no range with a limit."""
    if not asked_range.list_ends():
        return np.ones(len(array), dtype=np.bool_)
    is_encoded = pa.types.is_dictionary(array.type)
    values = (array.dictionary if is_encoded else array).cast(column.kind)
    inside = np.ones(len(values), dtype=np.bool_)
    for comparison, end in asked_range.list_ends().items():
        inside &= _compare_values(comparison, values, end, column)
    if not is_encoded:
        return inside
    indices = array.indices.fill_null(len(values)) if array.indices.null_count else array.indices
    return np.asarray(np.append(inside, False).take(indices.to_numpy(zero_copy_only=False)))


def _compare_values(comparison: str, values: pa.Array, end: Scalar, column: QueriedColumn) -> Mask:
    try:
        comparison_result = _COMPARISONS[comparison](values, _convert_end(end, column.kind))
    except (pa.ArrowException, OverflowError, UnicodeEncodeError) as error:
        raise QueryError(
            f"{end!r} cannot be compared with {column.name!r}, which has the type {column.kind}.",
            code="incomparable-value",
            fields={"column": column.name, "type": str(column.kind)},
        ) from error
    return np.asarray(comparison_result.fill_null(False).to_numpy(zero_copy_only=False))


def _convert_end(end: Scalar, kind: pa.DataType) -> pa.Scalar:
    if pa.types.is_timestamp(kind) and isinstance(end, datetime.date):
        return pa.scalar(convert_moment(end, kind))
    if pa.types.is_floating(kind):
        return pa.scalar(float(end), kind)  # type: ignore[arg-type]
    if pa.types.is_decimal(kind) and isinstance(end, float):
        return pa.scalar(Decimal(repr(end)))
    return pa.scalar(float(end) if isinstance(end, Decimal) and pa.types.is_integer(kind) else end)
