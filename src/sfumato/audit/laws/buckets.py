"""The law of buckets: the two tables agree, and no value is above its cap in any bucket. Anatomy's is stricter."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sfumato.arrays import Codes
from sfumato.audit.comparison import Connection, coarse_columns, original_counts
from sfumato.audit.laws.law import Json, Law
from sfumato.audit.laws.statistics import MOST_DEVIATION, SMALLEST_VARIANCE
from sfumato.audit.result import Check
from sfumato.audit.written import Written
from sfumato.request.exact import exact
from sfumato.request.values import Scalar, parts
from sfumato.shown.buckets import Buckets
from sfumato.shown.columns import local_codes
from sfumato.shown.quoting import quoted

LARGEST_MARKED = 1 << 22
FIRST_WIDE = 1 << 31
ID_PARTS = 8
"""Into so many parts the ids of buckets are cut to see whether they tell anything."""


def shown(design: Json) -> Buckets:
    """A record shows its bucket."""
    return Buckets()


def without_weights(written: Written) -> str:
    """What a record adds depends on its bucket."""
    return "a release of buckets has no weights."


def check_domain(folder: Path, written: Written, *, once: bool = False) -> Check:
    """Every bucket has as many records as values, and of each value no more than its cap allows; exactly.

    With `once`, no bucket may hold a value twice.
    """
    sizes = _sizes(folder, written)
    wrong = "a bucket has an id out of range." if sizes is None else _wrong(folder, written, sizes, once=once)
    if wrong is not None or sizes is None:
        return Check("domain", False, str(wrong))
    detail = f"all {len(sizes):,} buckets of {int(sizes.sum()):,} records hold what they should, within the caps."
    return Check("domain", True, detail)


def _sizes(folder: Path, written: Written) -> Codes | None:
    """How many records each bucket has; None where ids do not run from 0 without a gap."""
    rows = sum(pq.read_metadata(folder / name).num_rows for name in written.records)
    sizes = np.zeros(0, dtype=np.int32 if rows < FIRST_WIDE else np.int64)  # narrow: there may be many of them
    for batch in written.batches(folder, written.shown_names):
        if batch.column(0).null_count:
            return None
        ids = batch.column(0).to_numpy(zero_copy_only=False)
        if len(ids) and not 0 <= ids.min() <= ids.max() < rows:
            return None
        if (last := int(ids.max(initial=-1))) >= len(sizes):
            sizes = np.append(sizes, np.zeros(last + 1 - len(sizes), dtype=sizes.dtype))
        np.add.at(sizes, ids, sizes.dtype.type(1))
    return sizes if sizes.all() else None


def _wrong(folder: Path, written: Written, sizes: Codes, *, once: bool) -> str | None:
    """What does not agree between the tables, or within the table of buckets."""
    table = written.shown.FILES[1]
    names = [field["name"] for field in written.resource(table)["schema"]["fields"]]
    domain = {parts(value): place for place, value in enumerate(written.domain)}
    caps = [exact(cap) for cap in written.design["caps"]]
    held, last = np.zeros(len(sizes), dtype=np.int64), -1
    found: set[tuple[int, int, int]] = set()
    for batch in written.batches(folder, names, table):
        if batch.column(names[0]).null_count or batch.column(names[-1]).null_count:
            return "a bucket has no id or no count."
        ids, counts = (batch.column(name).to_numpy(zero_copy_only=False) for name in (names[0], names[-1]))
        places = _places(batch, written.names, domain)
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
    if once and any(count > 1 for _, count, _ in found):
        return "a bucket of Anatomy holds a value twice."
    over = next(
        (kind for kind in found if kind[1] * caps[kind[0]].denominator > caps[kind[0]].numerator * kind[2]), None
    )
    return over and f"a bucket of {over[2]} records holds a value {over[1]} times, above its cap {caps[over[0]]}."


def _kinds(places: Codes, counts: Codes, sizes: Codes) -> set[tuple[int, int, int]]:
    """The different triples of value, count and size of the bucket."""
    widths = int(counts.max(initial=0)) + 1, int(sizes.max(initial=0)) + 1
    keys = _distinct((places * widths[0] + counts) * widths[1] + sizes)
    kinds = zip(keys // widths[1] // widths[0], keys // widths[1] % widths[0], keys % widths[1], strict=True)
    return {(int(place), int(count), int(size)) for place, count, size in kinds}


def _distinct(keys: Codes) -> Codes:
    """The different ones among small whole numbers; large ones are sorted."""
    most = int(keys.max(initial=0))
    return np.flatnonzero(np.bincount(keys)) if most < LARGEST_MARKED else np.unique(keys)


def _places(batch: pa.RecordBatch, names: tuple[str, ...], domain: Mapping[tuple[Scalar, ...], int]) -> Codes | None:
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


def _looked_up(numbers: Codes, places: Codes, codes: Codes) -> Codes:
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


def check_promise(folder: Path, written: Written, *, once: bool = False) -> Check:
    """The caps themselves; that they hold in every bucket is checked with the buckets."""
    caps = [exact(cap) for cap in written.design["caps"]]
    if len(caps) != len(written.design["domain"]) or not all(0 < cap <= 1 for cap in caps):
        return Check("promise", False, "there is not one cap between 0 and 1 for each value.")
    if all(cap == 1 for cap in caps):
        return Check("promise", False, "every value has the cap 1, so nothing is promised.")
    if once and (len(set(caps)) > 1 or caps[0].numerator != 1):
        return Check("promise", False, "the caps are not those of one diversity.")
    return Check("promise", True, f"every value has a cap, from {min(caps)} to {max(caps)}.")


def check_draws(connection: Connection, written: Written) -> Check:
    """The buckets must hold the values of the original, and records must be dealt to them whatever their columns are.

    Bucket ids are random, so a column that the dealing does not depend on is spread evenly over any part of them.
    """
    names = ", ".join(map(quoted, written.names))
    fields = written.resource(written.shown.FILES[1])["schema"]["fields"]
    held = f"SELECT {names}, SUM({quoted(fields[-1]['name'])})::BIGINT FROM beside GROUP BY ALL"
    truth = f"SELECT {names}, COUNT(*) FROM original GROUP BY ALL"
    if connection.execute(
        f"SELECT COUNT(*) FROM (({held} EXCEPT {truth}) UNION ALL ({truth} EXCEPT {held}))"
    ).fetchall()[0][0]:
        return Check("draws", False, "the buckets do not hold the values of the original.")
    bucket, worst = quoted(written.naming.cell or ""), 0.0
    ((buckets,),) = connection.execute(f"SELECT MAX({bucket}) + 1 FROM release").fetchall()
    for column in coarse_columns(connection, written):
        part = f"FLOOR({bucket} * {ID_PARTS} / {buckets})"
        rows = connection.execute(f"SELECT {part}, {column}, COUNT(*) FROM release GROUP BY ALL").fetchall()
        worst = max(worst, _unevenness(rows))
    if worst > MOST_DEVIATION:
        return Check("draws", False, f"the ids of buckets go with a public column ({worst:.1f} standard deviations).")
    return Check(
        "draws", True, f"the buckets hold the values of the original; their ids tell nothing (within {worst:.1f} sd)."
    )


def _unevenness(rows: Sequence[tuple[Any, Any, int]]) -> float:
    """By how many standard deviations a value of a column is unevenly spread over parts of the bucket ids at most."""
    totals: dict[Any, int] = {}
    sizes: dict[Any, int] = {}
    for part, value, count in rows:
        totals[value] = totals.get(value, 0) + count
        sizes[part] = sizes.get(part, 0) + count
    everyone = sum(sizes.values())
    worst = 0.0
    for part, value, count in rows:
        share = totals[value] / everyone
        variance = sizes[part] * share * (1 - share)
        if variance >= SMALLEST_VARIANCE:
            worst = max(worst, abs(count - sizes[part] * share) / math.sqrt(variance))
    return worst


def check_posteriors(connection: Connection, written: Written) -> Check:
    """Caps below the share of a value in the table could not hold; that they hold in each bucket is checked before."""
    counts = original_counts(connection, written)
    if counts is None:
        return written.outside("posteriors")
    total, caps = sum(counts), [exact(cap) for cap in written.design["caps"]]
    if any(count * cap.denominator > cap.numerator * total for count, cap in zip(counts, caps, strict=True)):
        return Check("posteriors", False, "a value has a larger share of the table than its cap.")
    detail = "knowing the bucket alone, no value can be believed with more than its cap."
    return Check("posteriors", True, detail)


LAW = Law(
    guarantees=("bucket-only",),
    shown=shown,
    domain=check_domain,
    promise=check_promise,
    without_weights=without_weights,
    draws=check_draws,
    posteriors=check_posteriors,
)

ANATOMY = Law(
    guarantees=LAW.guarantees,
    shown=shown,
    domain=partial(check_domain, once=True),
    promise=partial(check_promise, once=True),
    without_weights=without_weights,
    draws=check_draws,
    posteriors=check_posteriors,
)
