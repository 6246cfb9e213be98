"""The verifier of buckets: both tables match, and no value exceeds its cap in any bucket.

For Anatomy, no bucket may have the same value twice.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sfumato._core.array_types import Codes
from sfumato._core.cell_values import Scalar, split_value
from sfumato._core.exact_numbers import parse_exact
from sfumato._core.json_types import JsonView
from sfumato._records.bucket_records import BucketEncoding
from sfumato._records.column_codes import encode_batch_values
from sfumato._records.sql_quoting import quote_name
from sfumato._verify.check_results import Check
from sfumato._verify.distributions.reference_distribution import ReferenceDistribution
from sfumato._verify.distributions.score_tests import MOST_DEVIATION, SMALLEST_VARIANCE
from sfumato._verify.manifest_view import ManifestView
from sfumato._verify.original_counts import Connection, count_original_values, list_coarse_columns

Lines = tuple[Codes, Codes, Codes]
"""Lines of the table of buckets: ids, indices of the values, and counts."""

LARGEST_MARKED = 1 << 22
FIRST_WIDE = 1 << 31
OUT_OF_RANGE = "a bucket has an id out of range."
SIZES_DIFFER = "the number of records in a bucket differs from its number of values."
ID_PARTS = 8
"""The range of bucket ids is divided into this number of parts, to test whether the ids disclose anything."""


def make_encoding(design: JsonView) -> BucketEncoding:
    """Each record publishes its bucket."""
    return BucketEncoding()


def explain_missing_weights(view: ManifestView) -> str:
    """Returns the reason for missing weights: a record's contribution depends on its bucket."""
    return "a release of buckets has no weights."


class _BucketError(Exception):
    """A mismatch between the two tables, or an error within one of them."""


def check_domain(folder: Path, view: ManifestView, *, once: bool = False) -> Check:
    """Checks exactly that every bucket has equal numbers of records and values, and that no value exceeds its cap.

    With `once`, no bucket may have the same value twice. The two tables are read at the same time.
    """
    rows = sum(pq.read_metadata(folder / name).num_rows for name in view.record_files)
    try:
        with ThreadPoolExecutor(1) as other:
            size_task = other.submit(_count_bucket_sizes, folder, view, rows)
            value_sizes, kinds = _count_bucket_values(folder, view, rows)
            sizes = size_task.result()
        if not np.array_equal(value_sizes, sizes):
            raise _BucketError(SIZES_DIFFER)
        _check_caps(kinds, [parse_exact(cap) for cap in view.design["caps"]], once=once)
    except _BucketError as wrong:
        return Check("domain", False, str(wrong))
    detail = f"all {len(sizes):,} buckets of {int(sizes.sum()):,} records have matching contents, within the caps."
    return Check("domain", True, detail)


def _count_bucket_sizes(folder: Path, view: ManifestView, rows: int) -> Codes:
    """The number of records of each bucket. Ids must run from 0 without a gap."""
    sizes: Codes = np.zeros(
        0, dtype=np.int32 if rows < FIRST_WIDE else np.int64
    )  # a narrow type, because there may be many ids
    for batch in view.read_batches(folder, view.published_names):
        ids = batch.column(0).to_numpy(zero_copy_only=False)
        if batch.column(0).null_count or (len(ids) and not 0 <= ids.min() <= ids.max() < rows):
            raise _BucketError(OUT_OF_RANGE)
        if (last := int(ids.max(initial=-1))) >= len(sizes):
            sizes = np.append(sizes, np.zeros(last + 1 - len(sizes), dtype=sizes.dtype))
        np.add.at(sizes, ids, sizes.dtype.type(1))
    if not sizes.all():
        raise _BucketError(OUT_OF_RANGE)
    return sizes


def _count_bucket_values(folder: Path, view: ManifestView, rows: int) -> tuple[Codes, set[tuple[int, int, int]]]:
    """The number of values of each bucket, and the distinct triples of value, count and bucket size.

    Buckets come in the order of their ids, which must run from 0 without a gap.
    """
    size_batches: list[Codes] = []
    triples: set[tuple[int, int, int]] = set()
    buckets = 0
    for ids, places, counts in _split_between_buckets(_read_bucket_lines(folder, view)):
        first = np.flatnonzero(np.append(True, ids[1:] != ids[:-1]))
        sizes = np.add.reduceat(counts, first, dtype=np.int64)
        if not np.array_equal(ids[first], np.arange(buckets, buckets + len(first))) or sizes.max() > rows:
            raise _BucketError(SIZES_DIFFER)
        triples |= _list_distinct_triples(places, counts, np.repeat(sizes, np.diff(first, append=len(ids))))
        size_batches.append(sizes.astype(np.int32 if rows < FIRST_WIDE else np.int64))
        buckets += len(first)
    return np.concatenate(size_batches) if size_batches else np.zeros(0, dtype=np.int64), triples


def _read_bucket_lines(folder: Path, view: ManifestView) -> Iterator[Lines]:
    """Reads the table of buckets in batches: ids, indices of the values, and counts."""
    table = view.encoding.FILES[1]
    names = [field["name"] for field in view.find_resource(table)["schema"]["fields"]]
    domain = {split_value(value): place for place, value in enumerate(view.domain)}
    last = -1
    for batch in view.read_batches(folder, names, table):
        if batch.column(names[0]).null_count or batch.column(names[-1]).null_count:
            raise _BucketError("a bucket has no id or no count.")
        ids, counts = (batch.column(name).to_numpy(zero_copy_only=False) for name in (names[0], names[-1]))
        places = _find_places(batch, view.sensitive_names, domain)
        if places is None or ids.min(initial=0) < 0 or counts.min(initial=1) < 1:
            raise _BucketError("a bucket has a value outside the domain, no value, or a value without records.")
        # Lines are strictly ordered by bucket and value, so no line can occur twice.
        keys = ids.astype(np.int64) * len(domain) + places
        if (keys[:1] <= last).any() or (keys[1:] <= keys[:-1]).any():
            raise _BucketError("the lines of the buckets are not in order, or a line occurs twice.")
        last = int(keys[-1]) if len(keys) else last
        yield ids, places, counts


def _split_between_buckets(batches: Iterable[Lines]) -> Iterator[Lines]:
    """Yields the same lines in batches that end between buckets.

    A bucket from several batches becomes a batch of its own.
    """
    pending_lines: list[Lines] = []  # all lines are of one bucket
    for lines in batches:
        ids = lines[0]
        shared_lines = int(np.searchsorted(ids, pending_lines[0][0][0], side="right")) if pending_lines else 0
        if shared_lines:
            pending_lines.append(_cut(lines, 0, shared_lines))
        if shared_lines < len(ids):
            last = int(np.searchsorted(ids, ids[-1]))
            if pending_lines:
                yield _join_lines(pending_lines)
            if shared_lines < last:
                yield _cut(lines, shared_lines, last)
            pending_lines = [_cut(lines, last, len(ids))]
    if pending_lines:
        yield _join_lines(pending_lines)


def _cut(lines: Lines, start: int, stop: int) -> Lines:
    ids, places, counts = lines
    return ids[start:stop], places[start:stop], counts[start:stop]


def _join_lines(pieces: Sequence[Lines]) -> Lines:
    ids, places, counts = map(np.concatenate, zip(*pieces, strict=True))
    return ids, places, counts


def _check_caps(kinds: set[tuple[int, int, int]], caps: Sequence[Fraction], *, once: bool) -> None:
    """Checks that no bucket has a value more often than its cap allows, or more than once with `once`."""
    if once and any(count > 1 for _, count, _ in kinds):
        raise _BucketError("a bucket of Anatomy has a value twice.")
    for place, count, size in kinds:
        if count * caps[place].denominator > caps[place].numerator * size:
            raise _BucketError(
                f"a bucket of {size} records has a value {count} times, which is above the value's cap {caps[place]}."
            )


def _list_distinct_triples(places: Codes, counts: Codes, sizes: Codes) -> set[tuple[int, int, int]]:
    """The distinct triples of value, count and bucket size."""
    widths = int(counts.max(initial=0)) + 1, int(sizes.max(initial=0)) + 1
    kind = np.min_scalar_type((int(places.max(initial=0)) + 1) * widths[0] * widths[1])
    keys = _find_distinct((places.astype(kind) * widths[0] + counts.astype(kind)) * widths[1] + sizes.astype(kind))
    kinds = zip(keys // widths[1] // widths[0], keys // widths[1] % widths[0], keys % widths[1], strict=True)
    return {(int(place), int(count), int(size)) for place, count, size in kinds}


def _find_distinct(keys: Codes) -> Codes:
    """The distinct integers. Small integers are marked in a table, and large integers are sorted."""
    largest_key = int(keys.max(initial=0))
    return np.flatnonzero(np.bincount(keys)) if largest_key < LARGEST_MARKED else np.unique(keys)


def _find_places(
    batch: pa.RecordBatch, names: tuple[str, ...], domain: Mapping[tuple[Scalar, ...], int]
) -> Codes | None:
    """The indices of the values in the domain; None if a value is not in the domain."""
    columns = [encode_batch_values(batch.column(name)) for name in names]
    values = [[*distinct.to_pylist(), None] for _, distinct in columns]
    codes = columns[0][0]
    for (local, _), part_values in zip(columns[1:], values[1:], strict=True):
        codes = codes.astype(np.int64) * len(part_values) + local
    numbers = _find_distinct(codes)
    places = [domain.get(_decode_value(int(number), values)) for number in numbers]
    if None in places:
        return None
    return _look_up_places(numbers, np.array(places, dtype=np.min_scalar_type(len(domain))), codes)


def _look_up_places(numbers: Codes, places: Codes, codes: Codes) -> Codes:
    """The index of each code in `numbers`, the distinct codes. A table is used if codes are small."""
    largest_code = int(codes.max(initial=0))
    if largest_code >= LARGEST_MARKED:
        return places.take(np.searchsorted(numbers, codes))
    table = np.zeros(largest_code + 1, dtype=places.dtype)
    table[numbers] = places
    return table.take(codes)


def _decode_value(number: int, values: list[list[Scalar]]) -> tuple[Scalar, ...]:
    decoded_parts: list[Scalar] = []
    for part_values in reversed(values):
        number, code = divmod(number, len(part_values))
        decoded_parts.append(part_values[code])
    return tuple(reversed(decoded_parts))


def check_guarantee(folder: Path, view: ManifestView, *, once: bool = False) -> Check:
    """Checks the caps themselves. `check_domain` checks that the caps hold in every bucket."""
    caps = [parse_exact(cap) for cap in view.design["caps"]]
    if len(caps) != len(view.design["domain"]) or not all(0 < cap <= 1 for cap in caps):
        return Check("guarantee", False, "a value lacks a cap, or its cap is not between 0 and 1.")
    if all(cap == 1 for cap in caps):
        return Check("guarantee", False, "every value has the cap 1, so no value is protected.")
    if once and (len(set(caps)) > 1 or caps[0].numerator != 1):
        return Check("guarantee", False, "the caps do not belong to a single diversity.")
    return Check("guarantee", True, f"every value has a cap, from {min(caps)} to {max(caps)}.")


def check_draws(connection: Connection, view: ManifestView) -> Check:
    """Checks that buckets have the values of the original, and were dealt independently of the public columns.

    Bucket ids are random. If the dealing does not depend on a column, its values are spread evenly over all parts of
    the ids.
    """
    names = ", ".join(map(quote_name, view.sensitive_names))
    fields = view.find_resource(view.encoding.FILES[1])["schema"]["fields"]
    values_sql = f"SELECT {names}, SUM({quote_name(fields[-1]['name'])})::BIGINT FROM beside GROUP BY ALL"
    truth = f"SELECT {names}, COUNT(*) FROM original GROUP BY ALL"
    if connection.execute(
        f"SELECT COUNT(*) FROM (({values_sql} EXCEPT {truth}) UNION ALL ({truth} EXCEPT {values_sql}))"
    ).fetchall()[0][0]:
        return Check("draws", False, "the buckets do not have the values of the original.")
    bucket, worst = quote_name(view.naming.cell or ""), 0.0
    ((buckets,),) = connection.execute(f"SELECT MAX({bucket}) + 1 FROM release").fetchall()
    for column in list_coarse_columns(connection, view):
        part = f"FLOOR({bucket} * {ID_PARTS} / {buckets})"
        rows = connection.execute(f"SELECT {part}, {column}, COUNT(*) FROM release GROUP BY ALL").fetchall()
        worst = max(worst, _measure_unevenness(rows))
    if worst > MOST_DEVIATION:
        return Check("draws", False, f"the ids of buckets depend on a public column ({worst:.1f} standard deviations).")
    return Check(
        "draws",
        True,
        "the buckets have the values of the original, and their ids disclose nothing (largest deviation: "
        f"{worst:.1f} standard deviations).",
    )


def _measure_unevenness(rows: Sequence[tuple[object, object, int]]) -> float:
    """The largest deviation of a column's value from an even spread over the bucket ids, in standard deviations."""
    totals: dict[object, int] = {}
    sizes: dict[object, int] = {}
    for part, value, count in rows:
        totals[value] = totals.get(value, 0) + count
        sizes[part] = sizes.get(part, 0) + count
    total = sum(sizes.values())
    worst = 0.0
    for part, value, count in rows:
        share = totals[value] / total
        variance = sizes[part] * share * (1 - share)
        if variance >= SMALLEST_VARIANCE:
            worst = max(worst, abs(count - sizes[part] * share) / math.sqrt(variance))
    return worst


def check_posteriors(connection: Connection, view: ManifestView) -> Check:
    """Checks that no value's share of the table exceeds its cap. `check_domain` checks each bucket."""
    counts = count_original_values(connection, view)
    if counts is None:
        return view.fail_outside_domain("posteriors")
    total, caps = sum(counts), [parse_exact(cap) for cap in view.design["caps"]]
    if any(count * cap.denominator > cap.numerator * total for count, cap in zip(counts, caps, strict=True)):
        return Check("posteriors", False, "a value has a larger share of the table than its cap.")
    detail = "an attacker who knows only the bucket gives no value a probability above its cap."
    return Check("posteriors", True, detail)


REFERENCE_DISTRIBUTION = ReferenceDistribution(
    guarantees=("bucket-only",),
    make_encoding=make_encoding,
    check_domain=check_domain,
    check_guarantee=check_guarantee,
    explain_missing_weights=explain_missing_weights,
    check_draws=check_draws,
    check_posteriors=check_posteriors,
)

ANATOMY = ReferenceDistribution(
    guarantees=REFERENCE_DISTRIBUTION.guarantees,
    make_encoding=make_encoding,
    check_domain=partial(check_domain, once=True),
    check_guarantee=partial(check_guarantee, once=True),
    explain_missing_weights=explain_missing_weights,
    check_draws=check_draws,
    check_posteriors=check_posteriors,
)
