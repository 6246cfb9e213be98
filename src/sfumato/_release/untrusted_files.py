"""Checks untrusted releases: all files must lie inside the release, and no table may be larger than it looks.

A release is data from someone else. A file of a few kilobytes can claim billions of records, and a link can point at
any file on the analyst's computer. The metadata of Parquet files are read first. Absurd sizes are refused before any
memory is allocated.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from sfumato._release.manifest import MANIFEST, WEIGHTS, Manifest
from sfumato.errors import ReleaseFormatError

MOST_ROWS = 10**11
MOST_COLUMNS = 10_000
MOST_ROWS_PER_BYTE = 1000
"""A record with the same values as others takes almost no space, but its published value is random and takes some."""
MOST_LINES_PER_BYTE = 100
"""The limit for tables that are read at once. Lines of buckets have distinct ids, so each takes about a byte."""
MOST_SWELLING = 1000
"""The largest allowed ratio of the unpacked size of a part to its file size."""
FEW_ROWS, FEW_BYTES = 1 << 20, 1 << 20
"""Smaller sizes are always allowed."""
GET_AGAIN = "get the release again from its publisher"


def check_inside(folder: Path, name: str) -> None:
    """Refuses names that are not regular files, and links that lead outside the release.

    Missing files are allowed here. Reading a pipe or a device would never end.
    """
    path = folder / name
    try:
        is_inside = path.resolve().is_relative_to(folder.resolve())
        is_special = path.exists() and not path.is_file() and not path.is_dir()
    except (OSError, RuntimeError):  # the link points at itself
        is_inside, is_special = False, False
    if not is_inside:
        raise ReleaseFormatError(
            f"{name} of the release is a link to somewhere else; {GET_AGAIN}.", code="link", fields={"file": name}
        )
    if is_special:
        raise ReleaseFormatError(
            f"{name} of the release is not a regular file; {GET_AGAIN}.",
            code="not-a-regular-file",
            fields={"file": name},
        )


def check_sizes(folder: Path, manifest: Manifest) -> None:
    """Refuses tables of absurd sizes. Unreadable files are refused where they are read."""
    metadata_by_file = {name: _read_metadata(folder / name) for name in manifest.files if name.endswith(".parquet")}
    for name, metadata in metadata_by_file.items():
        if metadata is not None:
            check_table(name, metadata, (folder / name).stat().st_size)
    records = {name: metadata for name in manifest.data_files if (metadata := metadata_by_file[name]) is not None}
    if len(records) < len(manifest.data_files):
        return
    _check_parts(manifest, list(records.values()))
    max_lines = manifest.encoding.compute_line_limits(sum(metadata.num_rows for metadata in records.values()))
    if manifest.weights is not None:
        needed = max((len(column) for column in manifest.weights.values()), default=0)
        max_lines = {**max_lines, WEIGHTS: 2 * needed}  # `verify` reports an excess of a few lines
    for name, lines in max_lines.items():
        _check_lines(name, metadata_by_file[name], lines, folder)
    for name, metadata in records.items():
        manifest.encoding.check_footer(folder / name, manifest.naming, metadata)


def check_side_tables(folder: Path, names: Sequence[str]) -> None:
    """Refuses tables of absurd sizes beside the records, if the records lie elsewhere."""
    for name in names:
        metadata = _read_metadata(folder / name)
        if metadata is not None:
            check_table(name, metadata, (folder / name).stat().st_size)
            _check_lines(name, metadata, MOST_ROWS, folder)


def _check_parts(manifest: Manifest, records: Sequence[pq.FileMetaData]) -> None:
    """Checks that record files have the same columns, and the number of records that the manifest gives for each."""
    if len(records) == 1:
        return
    for name, rows, metadata in zip(manifest.data_files, manifest.file_rows, records, strict=True):
        if metadata.num_rows != rows:
            raise ReleaseFormatError(
                f"{name} has {metadata.num_rows:,} records where {MANIFEST} says {rows:,}; {GET_AGAIN}.",
                code="other-record-count",
                fields={"file": name, "records": metadata.num_rows, "listed": rows},
            )
        if not metadata.schema.equals(records[0].schema):
            raise ReleaseFormatError(
                f"{name} has other columns or types than {manifest.data_files[0]}; {GET_AGAIN}.",
                code="other-columns",
                fields={"file": name, "first_file": manifest.data_files[0]},
            )
    if sum(manifest.file_rows) > MOST_ROWS:
        raise ReleaseFormatError(
            f"the release claims to have more than {MOST_ROWS:,} records; {GET_AGAIN}.",
            code="too-many-records",
            fields={"limit": MOST_ROWS},
        )


def _read_metadata(path: Path) -> pq.FileMetaData | None:
    try:
        return pq.read_metadata(path)
    except (pa.ArrowException, OSError, ValueError):
        return None


def check_table(name: str, metadata: pq.FileMetaData, size: int) -> None:
    """Refuses a file that claims more content than fits into its `size` bytes."""
    rows, columns = metadata.num_rows, metadata.num_columns
    if not 0 <= rows <= MOST_ROWS:
        raise ReleaseFormatError(
            f"{name} claims to have {rows:,} records, more than any release can have; {GET_AGAIN}.",
            code="too-many-records",
            fields={"file": name, "records": rows},
        )
    if columns > MOST_COLUMNS:
        raise ReleaseFormatError(
            f"{name} has {columns:,} columns, more than any release can have; {GET_AGAIN}.",
            code="too-many-columns",
            fields={"file": name, "columns": columns},
        )
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    if any(group.num_rows < 0 for group in groups) or sum(group.num_rows for group in groups) != rows:
        raise ReleaseFormatError(
            f"{name} does not have the number of records that it claims; {GET_AGAIN}.",
            code="inconsistent-record-count",
            fields={"file": name},
        )
    if rows > max(MOST_ROWS_PER_BYTE * size, FEW_ROWS):
        raise ReleaseFormatError(
            f"{name} claims to have {rows:,} records in {size:,} bytes, which is impossible; {GET_AGAIN}.",
            code="implausible-record-count",
            fields={"file": name, "records": rows, "bytes": size},
        )
    # Columns are not checked one by one, because pyarrow crashes on a senseless footer instead of raising an error.
    largest = max((group.total_byte_size for group in groups), default=0)
    if largest > max(MOST_SWELLING * size, FEW_BYTES):
        raise ReleaseFormatError(
            f"{name} would unpack from {size:,} to {largest:,} bytes, which no release needs; {GET_AGAIN}.",
            code="unpacks-too-large",
            fields={"file": name, "bytes": largest},
        )


def check_page(name: str, unpacked: int, size: int) -> None:
    """Refuses a page that would unpack to an absurd number of bytes for the size of its file."""
    if unpacked > max(MOST_SWELLING * size, FEW_BYTES):
        raise ReleaseFormatError(
            f"a page of {name} would unpack to {unpacked:,} bytes, which no release needs; {GET_AGAIN}.",
            code="page-unpacks-too-large",
            fields={"file": name, "bytes": unpacked},
        )


def _check_lines(name: str, metadata: pq.FileMetaData | None, max_lines: int, folder: Path) -> None:
    """Checks a table that is read at once. It may not have more lines than the release needs."""
    if metadata is None:
        return
    max_lines = min(max_lines, MOST_LINES_PER_BYTE * (folder / name).stat().st_size)
    if metadata.num_rows > max_lines:
        raise ReleaseFormatError(
            f"{name} has {metadata.num_rows:,} lines, but this release needs at most {max_lines:,}; {GET_AGAIN}.",
            code="too-many-lines",
            fields={"file": name, "lines": metadata.num_rows, "limit": max_lines},
        )
