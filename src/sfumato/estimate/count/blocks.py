"""The records of a release, block by block, as codes: what each shows, and how it stands to the conditions asked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sfumato.errors import QueryError, ReleaseFormatError
from sfumato.estimate.count.queries import Range
from sfumato.estimate.count.workload import Asked, Column
from sfumato.release.manifest import Manifest
from sfumato.request.values import Scalar, domain_array, parts, plain_type
from sfumato.shown.columns import smallest_type
from sfumato.shown.members import membership
from sfumato.shown.tally import Buckets, Codes, Mask, Members, Symbols

BLOCK_ROWS = 1 << 20
LARGEST_TABLE = 1 << 22
"""Combinations of what the columns of a record show: up to this many, their symbols are looked up in a table."""


@dataclass(frozen=True, eq=False)
class Block:
    """Some records of a release."""

    rows: int
    codes: Sequence[Codes]
    """For each column that is asked about: the code of each record."""
    ranges: Mapping[int, Mask]
    """For each condition that is a range, by its number: whether each record satisfies it."""
    shown: npt.NDArray[Any]
    """The symbol or the bucket of each record; or a row of zeros and ones for each set."""


def schema_of(path: Path, manifest: Manifest) -> pa.Schema:
    """The columns of the records, if all are there that the release speaks of."""
    try:
        schema = pq.read_schema(path)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise _unreadable(path) from error
    if not {*manifest.public, *manifest.shown} <= set(schema.names):
        raise _unreadable(path)
    return schema


def blocks(asked: Asked, manifest: Manifest, path: Path, schema: pa.Schema) -> Iterator[Block]:
    """Read the columns that are asked about, and what the records show, once."""
    ranges = {number: atom.column for number, atom in asked.atoms.items() if atom.range is not None}
    shown = _shown_reader(manifest)
    values = [column.values for column in asked.columns]
    for batch in batches(path, schema, [*(column.name for column in asked.columns), *manifest.shown]):
        arrays = [batch.column(column.name) for column in asked.columns]
        yield Block(
            batch.num_rows,
            [coded(array, wanted) for array, wanted in zip(arrays, values, strict=True)],
            {
                number: within(arrays[place], asked.columns[place], asked.atoms[number].range or Range())
                for number, place in ranges.items()
            },
            shown(batch),
        )


def batches(path: Path, schema: pa.Schema, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The named columns, texts by their dictionaries."""
    texts = [field.name for field in schema if pa.types.is_string(plain_type(field.type))]
    try:
        with pq.ParquetFile(path, read_dictionary=texts) as file:
            yield from file.iter_batches(BLOCK_ROWS, columns=list(dict.fromkeys(names)))
    except (pa.ArrowException, OSError, KeyError, UnicodeDecodeError) as error:
        raise _unreadable(path) from error


def _unreadable(path: Path) -> ReleaseFormatError:
    return ReleaseFormatError(f"{path.name} cannot be read; get the release again from its publisher.")


def coded(column: pa.Array, wanted: pa.Array) -> Codes:
    """Number the wanted values by their places; the missing value comes after the last, and then all others."""
    missing, other = len(wanted), len(wanted) + 1
    is_encoded = pa.types.is_dictionary(column.type)
    values = _comparable(column.dictionary if is_encoded else column, wanted.type)
    places = pc.index_in(values, value_set=wanted, skip_nulls=True).fill_null(other)
    codes: Codes = places.to_numpy(zero_copy_only=False).astype(smallest_type(other))
    if values.null_count:
        codes[values.is_null().to_numpy(zero_copy_only=False)] = missing
    if not is_encoded:
        return codes
    indices = column.indices.fill_null(len(codes)) if column.indices.null_count else column.indices
    return np.asarray(np.append(codes, codes.dtype.type(missing)).take(indices.to_numpy(zero_copy_only=False)))


def _comparable(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Values in a type to look them up by; zero has one sign."""
    plain = values.cast(kind)
    return pc.add(plain, pa.scalar(0.0, kind)) if pa.types.is_floating(kind) else plain


# --------------------------------------------------------------------------------------------------------------- ranges

_COMPARISONS = {">=": pc.greater_equal, ">": pc.greater, "<=": pc.less_equal, "<": pc.less}


def within(array: pa.Array, column: Column, asked: Range) -> Mask:
    """Whether each record lies in a range; a missing value lies in none that has an end."""
    if not asked.ends():
        return np.ones(len(array), dtype=np.bool_)
    is_encoded = pa.types.is_dictionary(array.type)
    values = (array.dictionary if is_encoded else array).cast(column.kind)
    inside = np.ones(len(values), dtype=np.bool_)
    for comparison, end in asked.ends().items():
        inside &= _compared(comparison, values, end, column)
    if not is_encoded:
        return inside
    indices = array.indices.fill_null(len(values)) if array.indices.null_count else array.indices
    return np.asarray(np.append(inside, False).take(indices.to_numpy(zero_copy_only=False)))


def _compared(comparison: str, values: pa.Array, end: Scalar, column: Column) -> Mask:
    try:
        found = _COMPARISONS[comparison](values, _end(end, column.kind))
    except (pa.ArrowException, OverflowError) as error:
        raise QueryError(f"{end!r} cannot be compared with {column.name!r}, of type {column.kind}.") from error
    return np.asarray(found.fill_null(False).to_numpy(zero_copy_only=False))


def _end(end: Scalar, kind: pa.DataType) -> pa.Scalar:
    if pa.types.is_floating(kind):
        return pa.scalar(float(end), kind)  # type: ignore[arg-type]
    if pa.types.is_decimal(kind) and isinstance(end, float):
        return pa.scalar(Decimal(repr(end)))
    return pa.scalar(float(end) if isinstance(end, Decimal) and pa.types.is_integer(kind) else end)


# --------------------------------------------------------------------------------------------------- what records show


def _shown_reader(manifest: Manifest) -> Any:
    shown = manifest.observation
    if isinstance(shown, Symbols):
        return _SymbolReader(manifest, shown)
    if isinstance(shown, Members):
        domain = domain_array([parts(value)[0] for value in manifest.domain])
        return lambda batch: membership(batch.column(manifest.sensitive_name), shown, domain)
    return lambda batch: bucket_ids(batch.column(manifest.cell_column))


def bucket_ids(column: pa.Array) -> Codes:
    """The bucket of each record."""
    if column.null_count or not pa.types.is_integer(column.type):
        raise ReleaseFormatError("a record is in no bucket; get the release again from its publisher.")
    ids: Codes = column.to_numpy(zero_copy_only=False)
    return ids


class _SymbolReader:
    """Finds the symbol of each record: from its value, the parts of its value, or its cell and its value."""

    def __init__(self, manifest: Manifest, shown: Symbols) -> None:
        values = [parts(manifest.domain[place]) for place in shown.places]
        columns: list[Sequence[Scalar]] = [] if shown.cells is None else [shown.cells.tolist()]
        columns += list(zip(*values, strict=True))
        cells = [] if shown.cells is None else [manifest.cell_column or ""]
        self.names = [*cells, *manifest.sensitive]
        self.known = [_distinct(column) for column in columns]
        self.sizes = [len(known) + 2 for known in self.known]
        keys = self._keys(
            [coded(domain_array(column), known) for column, known in zip(columns, self.known, strict=True)]
        )
        self.symbols = np.argsort(keys, kind="stable")
        self.keys = keys[self.symbols]
        self.table = self._table() if np.prod([float(size) for size in self.sizes]) <= LARGEST_TABLE else None

    def _table(self) -> Codes:
        unknown = len(self.symbols)
        table = np.full(int(np.prod(self.sizes)), unknown, dtype=smallest_type(unknown))
        table[self.keys] = self.symbols
        return table

    def _keys(self, codes: Sequence[Codes]) -> npt.NDArray[np.int64]:
        """One number for what all columns of a record show."""
        keys = codes[0].astype(np.int64)
        for size, each in zip(self.sizes[1:], codes[1:], strict=True):
            keys = keys * size + each
        return keys

    def __call__(self, batch: pa.RecordBatch) -> Codes:
        try:
            codes = [coded(batch.column(name), known) for name, known in zip(self.names, self.known, strict=True)]
        except pa.ArrowException as error:
            raise _outside() from error
        symbols = self._of(codes)
        if len(symbols) and symbols.max() >= len(self.symbols):
            raise _outside()
        return symbols

    def _of(self, codes: Sequence[Codes]) -> Codes:
        """The symbols; one more than the last where there is none."""
        if self.table is not None:
            return self.table.take(codes[0] if len(codes) == 1 else self._keys(codes))
        keys = self._keys(codes)
        found = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return np.where(self.keys[found] == keys, self.symbols[found], len(self.symbols))


def _distinct(column: Sequence[Scalar]) -> pa.Array:
    return domain_array(list(dict.fromkeys(value for value in column if value is not None)))


def _outside() -> ReleaseFormatError:
    return ReleaseFormatError("the release holds a value outside its domain; get it again from its publisher.")


def shown_size(shown: Symbols | Members | Buckets) -> int:
    """How many symbols or members there are."""
    if isinstance(shown, Symbols):
        return len(shown.places)
    return shown.size if isinstance(shown, Members) else 0
