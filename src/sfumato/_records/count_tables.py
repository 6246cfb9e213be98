"""Tables of published counts: their names and columns, and reading them as untrusted input.

A table has a line for each group of people and each value of the domain. The lines are sorted by group.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from sfumato._core.cell_values import simplify_type
from sfumato._records import DATA_FILE, Naming, list_record_files
from sfumato._records.column_codes import Field, encode_values
from sfumato._records.crowd_lines import CrowdTable, are_possible_counts
from sfumato.errors import ReleaseFormatError

COUNTS_FILE = "counts.parquet"
MOST_COARSE_TABLES = 4
COARSE_FILES = tuple(f"counts-{number}.parquet" for number in range(1, MOST_COARSE_TABLES + 1))
COUNT_COLUMNS = 4
"""The columns after the public ones: the number of people, the value, its noisy count, and its estimated count."""


@dataclass(frozen=True)
class CountNames:
    """The names of the columns in the table of counts, besides the public columns and the protected one."""

    people: str
    noisy: str
    count: str

    @classmethod
    def choose(cls, used_names: Iterable[str]) -> CountNames:
        """Adds underscores to names that a column already has, ignoring case."""
        return cls(*choose_free_names(("people", "noisy", "count"), used_names))


def choose_free_names(names: Iterable[str], used_names: Iterable[str]) -> list[str]:
    """Adds underscores to names that a column already has, ignoring case."""
    used = {name.lower() for name in used_names}
    free_names = []
    for name in names:
        while name in used:
            name += "_"  # noqa: PLW2901 - the name grows until it is free
        free_names.append(name)
    return free_names


@dataclass(frozen=True)
class AmountColumn:
    """A column of numbers that are written unchanged."""

    name: str

    has_missing = False
    dictionary_values = None
    is_plain = True
    written_type = pa.float64()

    @property
    def source(self) -> str:
        """The key of the column's rewritten rows."""
        return self.name

    def to_file_values(self, numbers: Any, /) -> pa.Array:
        """The numbers themselves."""
        return pa.array(numbers)


def list_count_fields(naming: Naming, public: Sequence[Field]) -> list[Field]:
    """The columns of a table of counts."""
    names = CountNames.choose([*(column.name for column in public), *naming.sensitive])
    return [
        *public,
        Field(names.people, "integer", False),
        *naming.make_value_fields(naming.sensitive),
        Field(names.noisy, "integer", False),
        Field(names.count, "number", False),
    ]


def read_crowd_table(naming: Naming, path: Path) -> CrowdTable:
    """Reads a table of counts. Checks that its lines are grouped by crowd, each crowd in the order of the domain."""
    size = len(naming.domain)
    try:
        with open_counts(naming, path) as file:
            if file.metadata.num_rows % size:
                raise make_mismatch_error(path.name)
            names = file.schema_arrow.names
            read = {name: file.read(columns=[name]).column(0) for name in names}
        *public, people_name, value_name, noisy_name, count_name = names
        people, noisy, estimates = (
            _read_numbers(read[name], size, path.name) for name in (people_name, noisy_name, count_name)
        )
        codes = encode_values(_combine_chunks(read[value_name]), naming.make_part_domain(0).drop_null())
        if (codes.reshape(-1, size) != np.arange(size)).any() or (people != people[:, :1]).any():
            raise make_mismatch_error(path.name)
        table = pa.table({name: _take_first_lines(read[name], size) for name in public})
    except ReleaseFormatError:
        raise
    except (pa.ArrowException, OSError, KeyError, ValueError, IndexError) as error:
        raise make_unreadable_error(path.name) from error
    if not (are_possible_counts(people) and are_possible_counts(noisy)):
        raise make_mismatch_error(path.name)
    counts = noisy.astype(np.int64, copy=False), estimates.astype(np.float64, copy=False)
    crowds = CrowdTable(table, people[:, 0].astype(np.int64), *counts)
    if (crowds.people < 1).any() or (crowds.noisy.sum(axis=1) != crowds.people).any():
        raise make_mismatch_error(path.name)
    if not np.isfinite(crowds.estimates).all():
        raise make_mismatch_error(path.name)
    return crowds


def open_counts(naming: Naming, path: Path) -> pq.ParquetFile:
    """A table of counts. Strings are read as dictionaries."""
    types = check_count_columns(naming, path)
    texts = [name for name, kind in types.items() if pa.types.is_string(kind)]
    return pq.ParquetFile(path, read_dictionary=texts)


def check_count_columns(naming: Naming, path: Path) -> dict[str, pa.DataType]:
    """The types of the columns of a table of counts. Refuses columns that do not match those of the records."""
    try:
        schema = pq.read_schema(path)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise make_unreadable_error(path.name) from error
    types = {field.name: simplify_type(field.type) for field in schema}
    public = schema.names[:-COUNT_COLUMNS]
    public_types = _read_public_types(naming, path.parent)
    if public_types is not None and path.name != COUNTS_FILE:  # a coarse table has some of the columns
        public_types = {name: kind for name, kind in public_types.items() if name in public}
    names = CountNames.choose([*public, *naming.sensitive])
    is_integer = pa.types.is_integer
    if (
        schema.names[-COUNT_COLUMNS:] != [names.people, *naming.sensitive, names.noisy, names.count]
        or not (is_integer(types[names.people]) and is_integer(types[names.noisy]))
        or not pa.types.is_floating(types[names.count])
        or public_types not in (None, {name: types[name] for name in public})
    ):
        raise make_mismatch_error(path.name)
    return types


def _read_public_types(naming: Naming, folder: Path) -> dict[str, pa.DataType] | None:
    """The types of the public columns in the records. None if the records are in a store or cannot be read."""
    paths = [folder / name for name in (DATA_FILE, list_record_files(DATA_FILE, 2)[0])]
    path = next((path for path in paths if path.is_file()), None)
    if path is None:
        return None
    try:
        schema = pq.read_schema(path)
    except (pa.ArrowException, OSError, ValueError):  # this is an error of the records
        return None
    return {field.name: simplify_type(field.type) for field in schema if field.name != naming.joined_name}


def _take_first_lines(column: pa.ChunkedArray, size: int) -> pa.Array:
    """The first line of each crowd."""
    parts, line = [], 0
    for chunk in column.chunks:
        parts.append(chunk.take(pa.array(np.arange(-line % size, len(chunk), size))))
        line += len(chunk)
    return _combine_chunks(pa.chunked_array(parts, column.type))


def _combine_chunks(column: pa.ChunkedArray) -> pa.Array:
    combined = column.combine_chunks()
    return combined.combine_chunks() if isinstance(combined, pa.ChunkedArray) else combined


def _read_numbers(column: pa.ChunkedArray, size: int, file: str) -> npt.NDArray[Any]:
    """The numbers of each crowd (rows) and value (columns)."""
    if column.null_count:
        raise make_mismatch_error(file)
    numbers: npt.NDArray[Any] = column.to_numpy().reshape(-1, size)
    return numbers


def make_unreadable_error(file: str) -> ReleaseFormatError:
    return ReleaseFormatError(
        f"{file} cannot be read; get the release again from its publisher.",
        code="damaged-file",
        fields={"file": file},
    )


def make_mismatch_error(file: str = COUNTS_FILE) -> ReleaseFormatError:
    """Makes the error for counts that do not match the release."""
    return ReleaseFormatError(
        f"the lines of {file} do not fit the release; get it again from its publisher.",
        code="inconsistent-counts",
    )
