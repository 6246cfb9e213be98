"""Checking the two tables of a bucket release: they agree, and no value is above its cap in any bucket."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from sfumato.apply.source import read_ahead
from sfumato.audit.written import Check, resource_of, sensitive_domain, sensitive_names
from sfumato.release.manifest import BUCKETS, RECORDS
from sfumato.request.spec import exact
from sfumato.request.values import Scalar, parts
from sfumato.shown.columns import local_codes

Numbers = npt.NDArray[Any]

BATCH_ROWS = 1 << 18
LARGEST_MARKED = 1 << 22
FIRST_WIDE = 1 << 31


def check_buckets(folder: Path, written: Mapping[str, Any]) -> Check:
    """Every bucket has as many records as values, and of each value no more than its cap allows; exactly."""
    column = written["sfumato"]["cell_column"]
    sizes = _sizes(folder, column)
    wrong = "a bucket has an id out of range." if sizes is None else _wrong(folder, written, sizes)
    if wrong is not None or sizes is None:
        return Check("domain", False, str(wrong))
    detail = f"all {len(sizes):,} buckets of {int(sizes.sum()):,} records hold what they should, within the caps."
    return Check("domain", True, detail)


def _sizes(folder: Path, column: str) -> Numbers | None:
    """How many records each bucket has; None where ids do not run from 0 without a gap."""
    with pq.ParquetFile(folder / RECORDS) as file:
        rows = file.metadata.num_rows
    sizes = np.zeros(0, dtype=_type(rows))
    for batch in _batches(folder / RECORDS, [column]):
        if batch.column(0).null_count:
            return None
        ids = batch.column(0).to_numpy(zero_copy_only=False)
        if len(ids) and not 0 <= ids.min() <= ids.max() < rows:
            return None
        if (last := int(ids.max(initial=-1))) >= len(sizes):
            sizes = np.append(sizes, np.zeros(last + 1 - len(sizes), dtype=sizes.dtype))
        np.add.at(sizes, ids, sizes.dtype.type(1))
    return sizes if sizes.all() else None


def _type(most: int) -> np.dtype[Any]:
    """A narrow type for counts up to `most`: there may be many of them."""
    return np.dtype(np.int32 if most < FIRST_WIDE else np.int64)


def _wrong(folder: Path, written: Mapping[str, Any], sizes: Numbers) -> str | None:
    """What does not agree between the tables, or within the table of buckets."""
    names = [field["name"] for field in resource_of(written, BUCKETS)["schema"]["fields"]]
    domain = {parts(value): place for place, value in enumerate(sensitive_domain(written))}
    caps = [exact(cap) for cap in written["sfumato"]["design"]["caps"]]
    held, last = np.zeros(len(sizes), dtype=np.int64), -1
    found: set[tuple[int, int, int]] = set()
    for batch in _batches(folder / BUCKETS, names):
        if batch.column(names[0]).null_count or batch.column(names[-1]).null_count:
            return "a bucket has no id or no count."
        ids, counts = (batch.column(name).to_numpy(zero_copy_only=False) for name in (names[0], names[-1]))
        places = _places(batch, sensitive_names(written), domain)
        if places is None or (len(ids) and not 0 <= ids.min() <= ids.max() < len(sizes)) or counts.min(initial=1) < 1:
            return "a bucket holds a value outside the domain, or none, or is nobody's."
        # In the order of buckets and values each line comes after the one before: so none comes twice.
        keys = ids.astype(np.int64) * len(domain) + places
        if (keys[:1] <= last).any() or (keys[1:] <= keys[:-1]).any():
            return "the lines of the buckets are not in order, or one comes twice."
        last = int(keys[-1]) if len(keys) else last
        np.add.at(held, ids, counts.astype(np.int64))
        found |= _kinds(places, counts, sizes.take(ids))
    if (held != sizes).any():
        return "the buckets do not have as many records as values."
    if written["sfumato"]["mechanism"] == "anatomy" and any(count > 1 for _, count, _ in found):
        return "a bucket of Anatomy holds a value twice."
    over = next(
        (kind for kind in found if kind[1] * caps[kind[0]].denominator > caps[kind[0]].numerator * kind[2]), None
    )
    return over and f"a bucket of {over[2]} records holds a value {over[1]} times, above its cap {caps[over[0]]}."


def _kinds(places: Numbers, counts: Numbers, sizes: Numbers) -> set[tuple[int, int, int]]:
    """The different triples of value, count and size of the bucket."""
    widths = int(counts.max(initial=0)) + 1, int(sizes.max(initial=0)) + 1
    keys = _distinct((places * widths[0] + counts) * widths[1] + sizes)
    kinds = zip(keys // widths[1] // widths[0], keys // widths[1] % widths[0], keys % widths[1], strict=True)
    return {(int(place), int(count), int(size)) for place, count, size in kinds}


def _distinct(keys: Numbers) -> Numbers:
    """The different ones among small whole numbers; large ones are sorted."""
    most = int(keys.max(initial=0))
    return np.flatnonzero(np.bincount(keys)) if most < LARGEST_MARKED else np.unique(keys)


def _places(batch: pa.RecordBatch, names: tuple[str, ...], domain: Mapping[tuple[Scalar, ...], int]) -> Numbers | None:
    """The places of the values in the domain; None where one is not in it."""
    columns = [local_codes(batch.column(name)) for name in names]
    values = [[*distinct.to_pylist(), None] for _, distinct in columns]
    codes = np.zeros(batch.num_rows, dtype=np.int64)
    for (local, _), each in zip(columns, values, strict=True):
        codes = codes * len(each) + local
    numbers = _distinct(codes)
    places = [domain.get(_value(int(number), values)) for number in numbers]
    if None in places:
        return None
    return _looked_up(numbers, np.array(places, dtype=np.int64), codes)


def _looked_up(numbers: Numbers, places: Numbers, codes: Numbers) -> Numbers:
    """The place of each code, where `numbers` are the different codes: in a table, if codes are small."""
    most = int(codes.max(initial=0))
    if most >= LARGEST_MARKED:
        return places.take(np.searchsorted(numbers, codes))
    table = np.zeros(most + 1, dtype=np.int64)
    table[numbers] = places
    return table.take(codes)


def _value(number: int, values: list[list[Any]]) -> tuple[Any, ...]:
    found: list[Any] = []
    for each in reversed(values):
        number, code = divmod(number, len(each))
        found.append(each[code])
    return tuple(reversed(found))


def _batches(path: Path, columns: list[str]) -> Iterator[pa.RecordBatch]:
    return read_ahead(_read(path, columns))


def _read(path: Path, columns: list[str]) -> Iterator[pa.RecordBatch]:
    with pq.ParquetFile(path) as file:
        strings = [name for name in columns if pa.types.is_string(file.schema_arrow.field(name).type)]
    with pq.ParquetFile(path, read_dictionary=strings) as file:
        for group in range(file.num_row_groups):
            yield from file.iter_batches(BATCH_ROWS, row_groups=[group], columns=columns)
