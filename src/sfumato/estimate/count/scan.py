"""Counting what records show: group by group, in one scan, by itself or weighted by public columns."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sfumato.errors import QueryError, ReleaseFormatError
from sfumato.estimate.connection import RECORDS, Session
from sfumato.release.manifest import BUCKETS, Manifest
from sfumato.request.values import Value, domain_array, parts
from sfumato.shown.members import member_sums
from sfumato.shown.quoting import TABLE, quoted
from sfumato.shown.tally import Buckets, Counts, Floats, Holdings, Members, Symbols, Tally

MOST_CELLS = 1 << 26
"""Groups times values of the domain: beyond this an answer would fill the memory, and nobody could read it."""
WHOLE = f"{RECORDS} AS {quoted(TABLE)}"
COUNT = "1"
"""The weight of a record that counts once."""

Key = tuple[Value, ...]
Measured = Mapping[str, Tally]
"""A tally for each weight."""


@dataclass(frozen=True)
class Asked:
    """Which records are counted, by which groups, with which weights, and for how many answers each."""

    records: str = WHOLE
    where: str | None = None
    groups: tuple[str, ...] = ()
    weights: tuple[str, ...] = ()
    """SQL of numbers, besides the count."""
    answers: int = 1

    @property
    def clause(self) -> str:
        """FROM and WHERE."""
        return f"FROM {self.records}" + (f" WHERE {self.where}" if self.where else "")

    @property
    def named(self) -> list[str]:
        """The groups, under names of their own."""
        return [f"({group}) AS g{number}" for number, group in enumerate(self.groups)]

    def check_size(self, groups: int, size: int) -> None:
        """Refuse what would fill the memory."""
        if groups * max(size * (1 + len(self.weights)), self.answers) > MOST_CELLS:
            raise QueryError("the query makes too many groups; group by fewer or coarser columns.")


def tallies(session: Session, asked: Asked) -> dict[Key, Measured]:
    """For each group, what its records show; one empty tally if there is nothing to group by."""
    shown = session.manifest.observation
    if isinstance(shown, Symbols):
        found, size = _symbol_tallies(session, shown, asked), len(shown.places)
    elif isinstance(shown, Members):
        found, size = _member_tallies(session, shown, asked), shown.size
    else:
        size = _bucket_count(session)
        found = _bucket_tallies(session, size, asked)
    if not found and not asked.groups:
        found = {(): {weight: Tally(np.zeros(size, dtype=np.int64), 0) for weight in (COUNT, *asked.weights)}}
    return found


def key_of(values: Sequence[Value]) -> Key:
    """The values of a group; one object for every not-a-number, because two of them are never equal."""
    return tuple(math.nan if isinstance(value, float) and math.isnan(value) else value for value in values)


# -------------------------------------------------------------------------------------------------------------- symbols


def _symbol_tallies(session: Session, shown: Symbols, asked: Asked) -> dict[Key, Measured]:
    """Count the symbols: each is a value, or a cell and a value."""
    manifest = session.manifest
    columns = [name for name in (manifest.cell_column,) if name is not None]
    symbols = pa.table({f"s{number}": column for number, column in enumerate(_symbol_columns(manifest, shown))})
    session.connection.register("sfumato symbols", symbols.append_column("symbol", pa.array(range(len(shown.places)))))
    seen = [f"{quoted(TABLE)}.{quoted(name)} AS c{at}" for at, name in enumerate([*columns, *manifest.sensitive])]
    sums = ["COUNT(*) AS m0", *(f"SUM(CAST({sql} AS DOUBLE)) AS m{at}" for at, sql in enumerate(asked.weights, 1))]
    counted = f"SELECT {', '.join([*asked.named, *seen, *sums])} {asked.clause} GROUP BY ALL"
    matches = " AND ".join(f"c{number} IS NOT DISTINCT FROM s{number}" for number in range(len(seen)))
    names = "".join(f"g{number}, " for number in range(len(asked.groups)))
    measures = ", ".join(f"m{number}" for number in range(len(sums)))
    joined = f"({counted}) LEFT JOIN {quoted('sfumato symbols')} ON {matches}"
    rows = session.rows(f"SELECT {names}symbol, {measures} FROM {joined} ORDER BY ALL")
    return _gathered(rows, len(shown.places), asked)


def _gathered(rows: Sequence[tuple[Any, ...]], size: int, asked: Asked) -> dict[Key, Measured]:
    """Put rows of group, symbol and measures together."""
    width = len(asked.groups)
    asked.check_size(len({row[:width] for row in rows}), size)
    found: dict[Key, list[Counts | Floats]] = {}
    for row in rows:
        key, symbol = key_of(row[:width]), row[width]
        if symbol is None:
            raise ReleaseFormatError("the release holds a value outside its domain; get it again from its publisher.")
        if key not in found:
            sums = [np.zeros(size, dtype=np.float64) for _ in asked.weights]
            found[key] = [np.zeros(size, dtype=np.int64), *sums]
        for counts, measure in zip(found[key], row[width + 1 :], strict=True):
            counts[symbol] += 0 if measure is None else measure
    return {key: _named(asked, counts) for key, counts in found.items()}


def _named(asked: Asked, counts: Sequence[Counts | Floats]) -> Measured:
    """Tallies in which every row shows one symbol, by weight."""
    several = zip((COUNT, *asked.weights), counts, strict=True)
    return {weight: Tally(each, each.sum().item()) for weight, each in several}


def _symbol_columns(manifest: Manifest, shown: Symbols) -> list[pa.Array]:
    cells = [] if shown.cells is None else [pa.array(shown.cells)]
    places = pa.array(shown.places)
    return [*cells, *(part_array(manifest, number).take(places) for number in range(len(manifest.sensitive)))]


def part_array(manifest: Manifest, number: int) -> pa.Array:
    """The domain of one of the sensitive columns."""
    return domain_array([parts(value)[number] for value in manifest.domain])


# ------------------------------------------------------------------------------------------------------------- sets


def _numbered(session: Session, shown: str, asked: Asked) -> tuple[list[Key], str]:
    """The groups in order, and SQL for the number of a record's group, what it shows, and its weights."""
    rows = session.rows(f"SELECT {', '.join([*asked.named, 'COUNT(*)'])} {asked.clause} GROUP BY ALL ORDER BY ALL")
    keys = [key_of(row[:-1]) for row in rows if asked.groups or row[-1]]
    weights = [f"COALESCE(CAST({sql} AS DOUBLE), 0) AS w{number}" for number, sql in enumerate(asked.weights)]
    inner = f"SELECT {', '.join([*asked.named, f'{shown} AS shown', *weights])} {asked.clause}"
    order = ", ".join(f"g{number}" for number in range(len(asked.groups)))
    number = f"DENSE_RANK() OVER (ORDER BY {order}) - 1" if asked.groups else "0"
    names = "".join(f", w{number}" for number in range(len(weights)))
    return keys, f"SELECT {number}, shown{names} FROM ({inner})"


def _member_tallies(session: Session, shown: Members, asked: Asked) -> dict[Key, Measured]:
    """Count the members of sets: DuckDB numbers the groups, and the bits are added up here."""
    manifest = session.manifest
    keys, sql = _numbered(session, f"{quoted(TABLE)}.{quoted(manifest.sensitive_name)}", asked)
    asked.check_size(len(keys), shown.size)
    if not keys:
        return {}
    width = 1 + len(asked.weights)
    counts, rows = member_sums(session.batches(sql), (len(keys), width), shown, part_array(manifest, 0))
    found: dict[Key, Measured] = {}
    for place, key in enumerate(keys):
        measured = zip((COUNT, *asked.weights), counts[place], rows[place].tolist(), strict=True)
        found[key] = {weight: Tally(each, total) for weight, each, total in measured}
        found[key] = {**found[key], COUNT: _whole(found[key][COUNT])}
    return found


def _whole(tally: Tally) -> Tally:
    """A tally of whole numbers."""
    return Tally(np.rint(tally.counts).astype(np.int64), round(tally.rows))


# ------------------------------------------------------------------------------------------------------------- buckets


def _bucket_count(session: Session) -> int:
    """The number of buckets; ids that do not run from 0 up are refused before anything is made as long as they are."""
    bucket = quoted(session.manifest.cell_column or "")
    ((rows, given, least, most),) = session.rows(
        f"SELECT COUNT(*), COUNT({bucket}), MIN({bucket}), MAX({bucket}) FROM {RECORDS}"
    )
    if not rows or given < rows or least < 0 or most >= rows:
        raise unlike_buckets()
    return int(most) + 1


def _bucket_tallies(session: Session, buckets: int, asked: Asked) -> dict[Key, Measured]:
    """Count the records of each bucket, by group."""
    bucket = f"{quoted(TABLE)}.{quoted(session.manifest.cell_column or '')}"
    keys, sql = _numbered(session, bucket, asked)
    asked.check_size(len(keys), buckets)
    if not keys:
        return {}
    length = len(keys) * buckets
    counts: list[Counts | Floats] = [np.zeros(length, dtype=np.int64)]
    counts += [np.zeros(length, dtype=np.float64) for _ in asked.weights]
    for batch in session.batches(sql):
        group, place = (column.to_numpy(zero_copy_only=False).astype(np.int64) for column in batch.columns[:2])
        at = group * buckets + place
        counts[0] += np.bincount(at, minlength=length)
        for number, column in enumerate(batch.columns[2:], 1):
            counts[number] += np.bincount(at, weights=column.to_numpy(zero_copy_only=False), minlength=length)
    by_group = [each.reshape(-1, buckets) for each in counts]
    return {key: _named(asked, [each[place] for each in by_group]) for place, key in enumerate(keys)}


def unlike_buckets() -> ReleaseFormatError:
    """What to say of records and buckets that do not belong together."""
    return ReleaseFormatError(
        "the records and the buckets do not fit together; get the release again from its publisher."
    )


def holdings_of(session: Session) -> Holdings | None:
    """What the buckets hold, if there are any and they hold as much as there are records in them."""
    if not isinstance(session.manifest.observation, Buckets):
        return None
    holdings = read_holdings(session.manifest, session.folder)
    ((_, whole),) = tallies(session, Asked()).items()
    buckets, counts = holdings.buckets, holdings.counts
    sizes = whole[COUNT].counts
    fits = len(buckets) and buckets.min() >= 0 and buckets.max() < len(sizes) and counts.min() >= 1
    if not fits or not np.array_equal(holdings.sizes, sizes):
        raise unlike_buckets()
    return holdings


def read_holdings(manifest: Manifest, folder: Path) -> Holdings:
    """What the buckets of a release hold."""
    names = [field.name for field in manifest.bucket_fields()]
    try:
        table = pq.read_table(folder / BUCKETS, columns=names)
        if table.column(names[0]).null_count or table.column(names[-1]).null_count:
            raise unlike_buckets()
        buckets, counts = (table.column(name).to_numpy().astype(np.int64) for name in (names[0], names[-1]))
        places = places_of(manifest, table.select(names[1:-1]))
    except (pa.ArrowException, OSError, KeyError, ValueError) as error:
        raise ReleaseFormatError(f"{BUCKETS} cannot be read; get the release again from its publisher.") from error
    return Holdings(buckets, places, counts, len(manifest.domain))


def places_of(manifest: Manifest, values: pa.Table) -> Counts:
    """The places of values in the domain."""
    known = {parts(value): place for place, value in enumerate(manifest.domain)}
    columns = [column.combine_chunks().dictionary_encode() for column in values.columns]
    if len(columns) == 1:
        encoded = columns[0] if isinstance(columns[0], pa.DictionaryArray) else columns[0].combine_chunks()
        distinct = [known[(value,)] for value in encoded.dictionary.to_pylist()]
        places = np.array([*distinct, known.get((None,), -1)], dtype=np.int64)
        indices = encoded.indices.fill_null(len(distinct)).to_numpy(zero_copy_only=False)
        return np.asarray(places[indices])
    rows = zip(*(column.to_pylist() for column in values.columns), strict=True)
    return np.array([known[row] for row in rows], dtype=np.int64)


def with_whole(tally: Tally, whole: Tally | None, holdings: Holdings | None) -> Tally:
    """A tally with what estimators may look at besides."""
    return replace(tally, whole=whole, holdings=holdings)
