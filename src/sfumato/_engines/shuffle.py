"""Shuffles rows by random keys into files, and within a file into parts that are sorted one by one.

Every row has a 64-bit key in the column `ORDER`. The leading bits of the key determine the row's file and part. So the
order depends only on the keys and the number of rows, and not on the pieces.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import pyarrow as pa

from sfumato._core.array_types import Places
from sfumato._core.radix_sort import find_sorted_positions
from sfumato._records.column_codes import CodedRows, convert_to_arrow, find_smallest_type

FILE_ROWS = 1 << 24
"""The number of rows of a file. Smaller tables have a single file."""
PART_ROWS, LARGEST_PART = 1 << 17, 1 << 19
"""The number of rows of a part. The second number applies if the first number would give too many parts."""
MOST_PARTS = 1 << 8
"""The largest number of parts that one byte can number. Sorting by bytes is fastest."""

Rows = CodedRows
"""Rows during the shuffle: codes (numpy), or values (Arrow) for a column without codes."""

ORDER = ""
"""The column of random keys. No column of a table has this name."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The numbers of files, and of parts in each file."""

    files: int
    parts: int

    @classmethod
    def of(cls, rows: int) -> Layout:
        """Makes the layout for a number of rows, with files of about the same size."""
        files = max(1, -(-rows // FILE_ROWS))
        most, least = (max(1, -(-rows // (files * size))) for size in (PART_ROWS, LARGEST_PART))
        return cls(files, max(least, min(most, MOST_PARTS // files)))


@dataclass(frozen=True)
class Bundle:
    """The rows of a piece that belong to one file, sorted by part."""

    file: int
    rows: Rows
    offsets: Places
    """The positions where each part begins, and the position where the last part ends."""

    def pack(self) -> bytes:
        """The bundle in serialised form. Pickle would also send the complete arrays of which these are slices."""
        coded = [name for name, column in self.rows.items() if isinstance(column, np.ndarray)]
        batch = pa.RecordBatch.from_pydict({name: pa.array(column) for name, column in self.rows.items()})
        metadata = {"coded": json.dumps(coded), "offsets": json.dumps(self.offsets.tolist())}
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema.with_metadata(metadata)) as writer:
            writer.write_batch(batch)
        data: bytes = sink.getvalue().to_pybytes()
        return data

    @classmethod
    def unpack(cls, file: int, data: pa.Buffer | bytes) -> Bundle:
        """A received bundle, without copying its data."""
        reader = pa.ipc.open_stream(data)
        coded, offsets = (json.loads(reader.schema.metadata[name]) for name in (b"coded", b"offsets"))
        batch = reader.read_next_batch()
        columns = zip(batch.schema.names, batch.columns, strict=True)
        rows = {name: column.to_numpy() if name in coded else column for name, column in columns}
        return cls(file, rows, np.array(offsets, dtype=np.int64))

    def __reduce__(self) -> tuple[object, ...]:
        return Bundle.unpack, (self.file, self.pack())


def bundle_rows(layout: Layout, rows: Rows) -> Iterator[Bundle]:
    """Sort rows by part, with one bundle for each file."""
    # The leading 32 bits times the number of parts: monotone in the order, and within 64 bits.
    number = layout.files * layout.parts
    part = ((rows[ORDER] >> np.uint64(32)) * np.uint64(number)) >> np.uint64(32)
    part = part.astype(find_smallest_type(number))
    by_part = take_rows(rows, np.argsort(part, kind="stable"))
    offsets = np.append(0, np.cumsum(np.bincount(part, minlength=number)))
    for file in range(layout.files):
        file_offsets = offsets[file * layout.parts : (file + 1) * layout.parts + 1]
        # Views of the same arrays: memory of many small arrays would not be released.
        yield Bundle(
            file, slice_rows(by_part, int(file_offsets[0]), int(file_offsets[-1])), file_offsets - file_offsets[0]
        )


class PartStore:
    """The rows of one file by part, in memory up to a budget, and then in a file without a name."""

    def __init__(self, layout: Layout, folder: Path, budget: int) -> None:
        self.parts = layout.parts
        self.folder = folder
        self.budget = budget
        self.bundles: list[Bundle] = []
        self.bundle_bytes = 0
        self.file: Any = None
        self.columns_by_type: dict[np.dtype[np.generic], list[str]] = {}
        """The numeric columns in the file, by type."""
        self.other_schema: pa.Schema | None = None
        """The other columns, which follow the numeric ones."""
        self.spill_places: list[list[tuple[int, int, int]]] = [[] for _ in range(self.parts)]
        """The spilled rows of each part: first byte, number of bytes, and number of rows."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.file is not None:
            self.file.close()

    def add(self, bundle: Bundle) -> None:
        """Store a bundle; spill all stored bundles when they exceed the budget."""
        self.bundles.append(bundle)
        self.bundle_bytes += sum(column.nbytes for column in bundle.rows.values())
        if self.bundle_bytes > self.budget:
            self._spill()

    @property
    def is_empty(self) -> bool:
        """Whether no bundle was added."""
        return not self.bundles and self.file is None

    def read_part(self, number: int) -> Rows:
        """All rows of one part, in the order of their pieces."""
        return concatenate_rows([*self._read_spilled(number), *self._slice_bundles(number)])

    def read_sorted(self, number: int) -> Rows:
        """All rows of one part, in the order of their random keys."""
        rows = self.read_part(number)
        return take_rows(rows, find_sorted_positions(rows.pop(ORDER)))

    def _slice_bundles(self, number: int) -> list[Rows]:
        return [
            slice_rows(bundle.rows, int(bundle.offsets[number]), int(bundle.offsets[number + 1]))
            for bundle in self.bundles
        ]

    def _spill(self) -> None:
        if self.file is None:
            # The file has no name from the beginning, so it disappears with its last user, even if this process is
            # killed.
            self.file = tempfile.TemporaryFile(dir=self.folder)  # noqa: SIM115 - closed at the end of all parts
            self.columns_by_type = _group_by_type(self.bundles[0].rows)
        for number, places in enumerate(self.spill_places):
            slices, start = self._slice_bundles(number), self.file.tell()
            for (
                kind,
                names,
            ) in (
                self.columns_by_type.items()
            ):  # all columns of a type are copied at once, because few long steps are faster
                columns = [row_slice[name] for name in names for row_slice in slices]
                # The bytes of another type would be misread.
                self.file.write(np.concatenate(columns, dtype=kind, casting="no").data)
            others = [
                {name: row_slice[name] for name in row_slice if not isinstance(row_slice[name], np.ndarray)}
                for row_slice in slices
            ]
            if others[0]:
                batch = pa.RecordBatch.from_pydict(concatenate_rows(others))
                self.other_schema = batch.schema
                self.file.write(batch.serialize())
            places.append((start, self.file.tell() - start, sum(len(row_slice[ORDER]) for row_slice in slices)))
        self.file.flush()
        self.bundles, self.bundle_bytes = [], 0

    def _read_spilled(self, number: int) -> list[Rows]:
        part_rows: list[Rows] = []
        for start, size, rows in self.spill_places[number]:
            data, place = os.pread(self.file.fileno(), size, start), 0
            spilled_rows: Rows = {}
            for kind, names in self.columns_by_type.items():
                columns = np.frombuffer(data, kind, rows * len(names), place).reshape(len(names), rows)
                spilled_rows |= zip(names, columns, strict=True)
                place += columns.nbytes
            if self.other_schema is not None:
                batch = pa.ipc.read_record_batch(pa.py_buffer(data[place:]), self.other_schema)
                spilled_rows |= zip(batch.schema.names, batch.columns, strict=True)
            part_rows.append(spilled_rows)
        return part_rows


def _group_by_type(rows: Rows) -> dict[np.dtype[np.generic], list[str]]:
    """The numeric columns by type. Wide types come first, for alignment."""
    names_by_type: dict[np.dtype[np.generic], list[str]] = {}
    for name, column in rows.items():
        if isinstance(column, np.ndarray):
            names_by_type.setdefault(column.dtype, []).append(name)
    return dict(sorted(names_by_type.items(), key=lambda entry: -entry[0].itemsize))


def slice_rows(rows: Rows, start: int, stop: int) -> Rows:
    """Some neighbouring rows."""
    return {name: column[start:stop] for name, column in rows.items()}


def take_rows(rows: Rows, positions: Places) -> Rows:
    """The rows at some positions."""
    return {
        name: column.take(positions) if isinstance(column, np.ndarray) else column.take(convert_to_arrow(positions))
        for name, column in rows.items()
    }


def concatenate_rows(pieces: Sequence[Rows]) -> Rows:
    """Concatenates Arrow columns and numpy columns, each with its own function."""
    return {
        name: np.concatenate([piece[name] for piece in pieces])
        if isinstance(column, np.ndarray)
        else pa.concat_arrays([piece[name] for piece in pieces])
        for name, column in pieces[0].items()
    }
