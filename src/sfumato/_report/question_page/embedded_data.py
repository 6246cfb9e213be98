"""Makes the data of a page: all packed records. If these are too large, counts for pairs of columns."""

from __future__ import annotations

import base64
import itertools
import math
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sfumato._core.array_types import Array, Codes
from sfumato._core.cell_values import Scalar, split_value, to_json
from sfumato._core.json_types import Json
from sfumato._query.counting.record_blocks import read_batches, read_record_schema
from sfumato._query.duckdb_session import Session
from sfumato._query.release import Release
from sfumato._records.column_codes import find_smallest_type
from sfumato._records.sql_quoting import RECORDS, TABLE, format_level, quote_if_needed, quote_name
from sfumato._records.tally import COUNT, Scan, Tally
from sfumato._release.manifest import Manifest
from sfumato._request.range_edges import Ranges
from sfumato.errors import QueryError

# Columns for questions are public columns with their values, and protected columns with values and groups.

EXACT = 1 << 53
"""Larger whole numbers lose digits in a browser, so they are stored as strings."""


@dataclass(frozen=True)
class QuestionColumn:
    """A column for questions. Values are identified by their positions in its list of values."""

    id: str
    name: str
    sql: str
    """The column's name, quoted for SQL."""
    type: str
    values: tuple[Scalar, ...]

    def to_json(self) -> Json:
        """The column as JSON for the page."""
        json_values = (to_json(value) for value in self.values)
        values = [str(value) if isinstance(value, int) and abs(value) > EXACT else value for value in json_values]
        return {"id": self.id, "name": self.name, "sql": self.sql, "type": self.type, "values": values}

    @property
    def places(self) -> Mapping[Scalar, int]:
        """The position of each value. All NaNs count as one value."""
        return {unify_nan(value): place for place, value in enumerate(self.values)}


def unify_nan(value: Scalar) -> Scalar:
    """Replaces all NaNs by the same object, because equal objects count as the same value."""
    return math.nan if isinstance(value, float) and math.isnan(value) else value


def describe_public_column(manifest: Manifest, number: int, values: Iterable[Scalar]) -> QuestionColumn:
    """A public column and its values: ranges in their order, other values sorted, and the missing value last."""
    name = manifest.public_columns[number]
    edges = manifest.ranges.get(name)
    ranges = {label: place for place, label in enumerate(Ranges(edges).labels)} if edges else {}

    def make_sort_key(value: Any) -> tuple[object, ...]:
        is_odd = isinstance(value, float) and math.isnan(value)
        return (value is None, is_odd, ranges.get(value, len(ranges)), 0 if value is None or is_odd else value)

    sorted_values = tuple(sorted({unify_nan(value) for value in values}, key=make_sort_key))
    return QuestionColumn(f"p{number}", name, quote_if_needed(name), manifest.get_field(name).type, sorted_values)


def list_protected_columns(manifest: Manifest) -> list[tuple[QuestionColumn, npt.NDArray[np.int64]]]:
    """The protected columns and the levels above them. Each has the position of every value of the domain."""
    pairs = enumerate(zip(manifest.sensitive_columns, manifest.sensitive_types, strict=True))
    entries = [
        (name, quote_if_needed(name), kind, [split_value(value)[number] for value in manifest.domain])
        for number, (name, kind) in pairs
    ]
    for column, hierarchy in manifest.hierarchies.items():
        for number, level in enumerate(hierarchy.levels[1:], start=1):
            groups = [path[number] for path in hierarchy.paths]
            entries.append((f"{column}.{level}", format_level(column, level), "string", groups))  # type: ignore[arg-type]
    return [_map_places(f"s{at}", *entry) for at, entry in enumerate(entries)]


def _map_places(
    id_: str, name: str, sql: str, kind: str, values: Sequence[Scalar]
) -> tuple[QuestionColumn, npt.NDArray[np.int64]]:
    column = QuestionColumn(id_, name, sql, kind, tuple(dict.fromkeys(map(unify_nan, values))))
    return column, np.array([column.places[unify_nan(value)] for value in values], dtype=np.int64)


# ---------------------------------------------------------------------------------------------------------------------

# A page has its numbers as arrays in sequence, compressed and in base64, which browsers decode without a library.

ALIGNMENT = 8
"""Browsers read numbers only at multiples of their size."""


def pack_arrays(arrays: Mapping[str, Array]) -> tuple[str, dict[str, tuple[str, int, int]]]:
    """The arrays in base64, and the type, the start and the number of items of each array."""
    places: dict[str, tuple[str, int, int]] = {}
    parts, start = [], 0
    for name, array in arrays.items():
        plain = np.ascontiguousarray(array, dtype=_choose_number_type(array)).ravel()
        places[name] = (plain.dtype.str[1:], start, len(plain))
        array_bytes = plain.tobytes()
        parts.append(array_bytes + b"\0" * (-len(array_bytes) % ALIGNMENT))
        start += len(parts[-1])
    return base64.b64encode(zlib.compress(b"".join(parts), 9)).decode("ascii"), places


def _choose_number_type(array: Array) -> np.dtype[np.generic]:
    """The smallest number type of browsers that fits an array. Its bytes are little-endian, as in browsers."""
    if array.dtype.kind == "f":
        return np.dtype("<f8")
    if array.size and array.min() < 0:
        return np.dtype("<i4")
    return np.dtype(find_smallest_type(int(array.max(initial=0)))).newbyteorder("<")


def make_bit_maps(members: Codes) -> npt.NDArray[np.uint8]:
    """Makes a bit map of all records for each member of sets, from a row of zeros and ones for each record."""
    return np.packbits(members.T, axis=1)


# ---------------------------------------------------------------------------------------------------------------------

MOST_VALUES = 2000
"""Public columns with more values are not counted in advance."""
MOST_NUMBERS = 1 << 22
"""The largest number of counts for one pair of columns: its cells times the possible published values."""

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class PageContents:
    """The public columns for questions, and their arrays."""

    columns: Sequence[QuestionColumn]
    arrays: dict[str, Array]
    script_settings: Json = field(default_factory=dict)
    """Other settings for the script."""
    omitted_columns: Sequence[str] = ()
    """The public columns that the page omits."""


class ColumnEncoder:
    """Numbers the values of a column in the order of their first occurrence."""

    def __init__(self) -> None:
        self._numbers: dict[Scalar, int] = {}
        self._codes: list[Array] = [np.zeros(0, dtype=np.int64)]

    def add(self, column: pa.Array) -> None:
        """Numbers the values of further rows."""
        encoded = column if hasattr(column, "dictionary") else column.dictionary_encode()
        values = [*map(unify_nan, encoded.dictionary.to_pylist()), None]
        numbers = np.array([self._numbers.setdefault(value, len(self._numbers)) for value in values])
        self._codes.append(numbers[encoded.indices.fill_null(len(values) - 1).to_numpy(zero_copy_only=False)])

    @property
    def present_values(self) -> list[Scalar]:
        """The values that some row has."""
        present = set(np.unique(np.concatenate(self._codes)).tolist())
        return [value for value, number in self._numbers.items() if number in present]

    def number_by(self, column: QuestionColumn) -> Codes:
        """The position of each row's value in the list of a column."""
        positions = np.zeros(max(len(self._numbers), 1), dtype=np.int64)
        for value, place in column.places.items():
            positions[self._numbers[value]] = place
        return np.asarray(positions[np.concatenate(self._codes)])


def pack_records(release: Release) -> PageContents:
    """All records in the order of the release, with a code for each public column and the published value."""
    manifest, published_blocks = release.manifest, []
    read, paths = manifest.encoding.make_reader(manifest.naming), manifest.list_data_paths(release.folder)
    encoders = [ColumnEncoder() for _ in manifest.public_columns]
    for batch in read_batches(
        paths, read_record_schema(paths, manifest), [*manifest.public_columns, *manifest.protected_columns]
    ):
        published_blocks.append(read(batch))
        for encoder, name in zip(encoders, manifest.public_columns, strict=True):
            encoder.add(batch.column(name))
    rows = sum(map(len, published_blocks))
    crowds = manifest.encoding.read_crowds(manifest.naming, release.folder)
    columns = []
    arrays: dict[str, Array] = {}
    if crowds is not None:
        arrays |= {"crowd_people": crowds.people, "crowd_noisy": crowds.noisy}
    for number, (encoder, name) in enumerate(zip(encoders, manifest.public_columns, strict=True)):
        if crowds is not None:
            encoder.add(crowds.public.column(name).combine_chunks())
        column = describe_public_column(manifest, number, encoder.present_values)
        codes = encoder.number_by(column)
        columns.append(column)
        arrays[column.id] = codes[:rows]
        if crowds is not None:
            arrays[f"crowd_{column.id}"] = codes[rows:]
    published_values = np.concatenate(published_blocks) if published_blocks else np.zeros(0, dtype=np.int64)
    is_set = published_values.ndim > 1
    arrays["shown"] = make_bit_maps(published_values) if is_set else published_values
    settings: Json = {"is_set": is_set, "lines": rows, **({"width": published_values.shape[1]} if is_set else {})}
    return PageContents(columns, arrays, settings)


def count_column_pairs(
    manifest: Manifest, session: Session, width: int, byte_limit: int, progress: Progress
) -> PageContents:
    """The counts of published values for pairs of public columns, for as many pairs as fit."""
    columns, omitted_columns = [], []
    for number, name in enumerate(manifest.public_columns):
        distinct_values = session.fetch_table(
            f"SELECT DISTINCT {quote_name(name)} FROM {RECORDS} LIMIT {MOST_VALUES + 1}"
        ).column(0)
        if len(distinct_values) > MOST_VALUES:
            omitted_columns.append(name)
        else:
            columns.append(describe_public_column(manifest, number, distinct_values.to_pylist()))
    column_sets = [*itertools.combinations(columns, 2), *((item,) for item in columns), ()]
    tables: list[list[str]] = []
    arrays: dict[str, Array] = {}
    covered: set[str] = set()
    room = byte_limit
    for done, column_set in enumerate(column_sets):
        progress(done, len(column_sets))
        if len(column_set) < 2 and tables and covered >= {item.id for item in column_set}:  # noqa: PLR2004 - no pair
            continue
        count_arrays = _count_combinations(manifest, session, column_set, width)
        size = 0 if count_arrays is None else len(pack_arrays(count_arrays)[0])
        if count_arrays is None or size > room:
            continue
        room -= size
        arrays |= {f"table{len(tables)}_{name}": array for name, array in count_arrays.items()}
        tables.append([item.id for item in column_set])
        covered |= {item.id for item in column_set}
    progress(len(column_sets), len(column_sets))
    omitted_columns += [item.name for item in columns if item.id not in covered]
    covered_columns = [item for item in columns if item.id in covered]
    if not tables:
        raise QueryError(
            "this release is too large for a page, even as counts; allow a larger page with `megabytes=`, or use "
            "sfumato query instead.",
            code="release-too-large-for-page",
        )
    settings: Json = {"tables": [{"columns": item} for item in tables], "width": arrays["table0_counts"].shape[1]}
    return PageContents(covered_columns, arrays, settings, omitted_columns)


def _count_combinations(
    manifest: Manifest, session: Session, columns: Sequence[QuestionColumn], width: int
) -> dict[str, Array] | None:
    """The cells of some columns, with codes, record numbers and published values. None if there are too many."""
    names = ", ".join(quote_name(column.name) for column in columns) or "1"
    ((cells,),) = session.fetch_rows(f"SELECT COUNT(*) FROM (SELECT DISTINCT {names} FROM {RECORDS}) AS t")
    if cells * width > MOST_NUMBERS:
        return None
    groups = tuple(f"{quote_name(TABLE)}.{quote_name(column.name)}" for column in columns)
    scan_result = manifest.encoding.tally_groups(session, Scan(groups=groups), manifest.naming)
    crowds = manifest.encoding.read_crowds(manifest.naming, session.folder)
    tallies = [measured[COUNT].attach_context(None, crowds) for measured in scan_result.values()]
    arrays: dict[str, Array] = {
        column.id: np.array([column.places[unify_nan(key[at])] for key in scan_result], dtype=np.int64)  # type: ignore[arg-type]
        for at, column in enumerate(columns)
    }
    arrays["rows"] = np.array([int(tally.rows[0]) for tally in tallies])
    arrays["counts"] = np.concatenate([tally.counts for tally in tallies])
    if crowds is not None:
        arrays |= _sum_crowds(tallies)
    return arrays


def _sum_crowds(tallies: Sequence[Tally]) -> dict[str, Array]:
    """The crowds of some cells, with the sums of their counts.

    The last count is the number of people outside crowds.
    """
    counts = np.concatenate([tally.counts for tally in tallies])
    lines = [tally.crowds for tally in tallies if tally.crowds is not None]
    return {
        "counts": counts[:, :-1],
        "records": counts[:, -1],
        "crowds": np.array([int(line.sizes[0]) for line in lines]),
        "estimates": np.array([line.counts.estimates[line.crowds].sum(axis=0) for line in lines]),
        "noisy": np.array([line.counts.noisy[line.crowds].sum(axis=0) for line in lines]),
    }
