"""Any table to inspect, with its columns as codes, and its release if it belongs to one."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato._core.array_types import Codes, Counts
from sfumato._core.cell_values import find_field_type, simplify_type
from sfumato._core.object_store import Address
from sfumato._core.ordered_threads import read_ahead
from sfumato._engines.engine import BATCH_ROWS, Progress
from sfumato._profile.table_profile import ColumnProfile
from sfumato._readers.reader import AnyTable
from sfumato._readers.sources import Source
from sfumato._records.column_codes import encode_batch_values
from sfumato._release.manifest import MANIFEST, Manifest
from sfumato._release.manifest_reader import LARGEST_MANIFEST
from sfumato._release.release_folder import find_release_folder, read_folder, unpack
from sfumato._release.store_transfer import fetch_release
from sfumato.errors import SourceError

ARCHIVE = ".zip"


@dataclass(frozen=True)
class CodedValues:
    """A column as codes of its values. Codes follow the order of the values, and a missing value has the last code."""

    name: str
    codes: Codes
    values: pa.Array
    """The values that occur."""

    @cached_property
    def counts(self) -> Counts:
        """The number of rows of each value. The missing value comes last."""
        return np.bincount(self.codes, minlength=len(self.values) + 1)

    @property
    def size(self) -> int:
        """The number of codes. The missing value counts as a code if a row lacks a value."""
        return len(self.values) + int(self.counts[-1] > 0)

    @property
    def profile(self) -> ColumnProfile:
        """The profile of the column, in the form of the first pass of a publication."""
        return ColumnProfile(
            self.name, self.values.type, self.values, self.counts[:-1], int(self.counts[-1]), is_wide=False
        )


def can_be_coded(kind: pa.DataType) -> bool:
    """Whether values of a type can be compared and ordered. Lists cannot."""
    is_named = find_field_type(kind) is not None or pa.types.is_null(kind)
    return is_named or pa.types.is_fixed_size_binary(kind) or pa.types.is_binary(kind)


def read_coded_columns(source: Source, names: Sequence[str], progress: Progress) -> dict[str, CodedValues]:
    """Reads several columns of a table together, as codes if the source has codes."""
    batches, rows = [], 0
    for batch in read_ahead(source.read_batches(names, BATCH_ROWS)):
        batches.append(batch)
        rows += batch.num_rows
        progress("reading", rows, source.rows)
    columns_by_name = {}
    for number, name in enumerate(names):
        pieces = [batch.column(number) for batch in batches] or [pa.array([], source.schema.field(name).type)]
        columns_by_name[name] = _encode_column(name, pieces)
        progress("coding", rows * (number + 1) // len(names), rows)
    return columns_by_name


def _make_joinable(piece: pa.Array) -> pa.Array:
    """Gives a piece of a column a type that fits the values of all pieces.

    A piece with only missing values becomes strings.
    """
    texts = piece.cast(pa.string()) if pa.types.is_null(piece.type) else piece
    encoded = texts.dictionary_encode() if pa.types.is_string(simplify_type(texts.type)) else texts
    if not pa.types.is_dictionary(encoded.type):
        return encoded
    return pa.DictionaryArray.from_arrays(encoded.indices.cast(pa.int32()), encoded.dictionary)


def _encode_column(name: str, pieces: Sequence[pa.Array]) -> CodedValues:
    """Encodes a whole column in the order of its values. Values that only its dictionary lists are left out."""
    try:
        column = pa.chunked_array(list(map(_make_joinable, pieces))).unify_dictionaries().combine_chunks()
        column.validate(full=True)
    except pa.ArrowException as error:
        raise SourceError(
            f"column {name!r} is damaged, and its values cannot be read.",
            code="damaged-column",
            fields={"column": name},
        ) from error
    codes, values = encode_batch_values(column)
    counts = np.bincount(codes, minlength=len(values) + 1)
    order = pc.sort_indices(values).to_numpy()
    order = order[counts[order] > 0]
    places = np.full(len(values) + 1, len(order), dtype=np.min_scalar_type(len(order)))
    places[order] = np.arange(len(order))
    return CodedValues(name, places.take(codes), values.take(pa.array(order)))


@contextmanager
def open_containing_release(table: AnyTable) -> Iterator[tuple[Path, Manifest] | None]:
    """Opens the release at a path, or the release that contains the file.

    Returns it with its folder; None for other tables.

    A folder with another Data Package is not a release.
    """
    if not isinstance(table, str | Path):
        yield None
        return
    path, address = Path(table), Address.of(table, SourceError)
    is_archive = path.suffix.lower() == ARCHIVE and path.is_file()
    if is_archive or (address is not None and (address / MANIFEST).is_file()):
        with tempfile.TemporaryDirectory(prefix="sfumato-") as name:
            if address is None:
                unpack(path, Path(name))
            else:
                fetch_release(address, Path(name))
            yield Path(name), read_folder(Path(name))
        return
    if address is not None or not path.exists():
        yield None
        return
    folder = find_release_folder(path) if path.is_dir() else path.parent
    manifest = read_folder(folder) if _is_release(folder) else None
    is_part = manifest is not None and (path.is_dir() or path.name in manifest.tables)
    yield (folder, manifest) if manifest is not None and is_part else None


def _is_release(folder: Path) -> bool:
    path = folder / MANIFEST
    try:
        if not path.is_file() or path.stat().st_size > LARGEST_MANIFEST:
            return False
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(content, dict) and "sfumato" in content
