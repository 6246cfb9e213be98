"""A record shows the bucket it is in; what the buckets hold is in a table beside the records."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sfumato.arrays import Amounts, Codes, Counts, Floats, Places
from sfumato.errors import ReleaseFormatError
from sfumato.request.values import parts
from sfumato.shown import Contents, Counter, Kept, Naming, Reader, Replaced, Shown, SideTable
from sfumato.shown.columns import Field, PartColumn, PublishedColumn, Sensitive, TableColumn, smallest_type
from sfumato.shown.quoting import RECORDS, TABLE, plain_name, quoted
from sfumato.shown.tally import COUNT, Holdings, Key, Measured, Scan, Scanner, Tally

ASSIGNED, HELD = "qit.parquet", "st.parquet"
"""Which bucket each record is in, and which values each bucket holds."""

_BY_HAND = """\
With any SQL tool, let every record count for its bucket's share of the value. This is the plain estimate, which is
right only if values and public columns are unrelated within buckets; `sfumato query` corrects for that. In DuckDB:

    WITH sizes AS (SELECT {bucket}, SUM({count}) AS size FROM '{table}' GROUP BY ALL),
         marked AS (SELECT {bucket}, SUM({count}) AS marked FROM '{table}' WHERE {wanted} GROUP BY ALL)
    SELECT COALESCE(SUM(marked.marked / sizes.size), 0) FROM '{records}'
    JOIN sizes USING ({bucket}) JOIN marked USING ({bucket})"""


@dataclass(frozen=True)
class Buckets(Shown):
    """The bucket of a record."""

    CELL: ClassVar = "bucket"
    FILES: ClassVar = (ASSIGNED, HELD)
    WARNING: ClassVar = (
        "Records and values of a bucket must not be joined and counted: every record would have every value."
    )

    @property
    def has_cells(self) -> bool:
        """A column says in which bucket a record is."""
        return True

    # ---------------------------------------------------------------------------------------------------------- writing

    def published(self, columns: Sequence[TableColumn], sensitive: Sensitive, cell: str) -> tuple[PublishedColumn, ...]:
        """The public columns, and the bucket."""
        parts = [part.name for part in sensitive.parts]
        return (*(column for column in columns if column.name not in parts), NumberColumn(cell))

    def rows(self, replaced: Replaced, name: str, cell: str) -> dict[str, Any]:
        """The ids of the buckets."""
        return {cell: replaced.cells}

    def side(self, sensitive: Sensitive, naming: Naming, contents: Contents) -> SideTable:
        """What the buckets hold, in the order of their ids.

        Ids are random, and the values of a bucket stand in the order of the domain, so the order tells nothing.
        """
        parts, bucket, count = sensitive.parts, naming.cell or "", count_column(naming)
        values = [PartColumn(sensitive, number) for number in range(len(parts))] if len(parts) > 1 else [parts[0]]
        kind = smallest_type(len(sensitive.numbers))

        def batches(rows: int) -> Iterator[dict[str, Any]]:
            for buckets, places, counts in contents.batches(rows):
                yield {bucket: buckets, sensitive.name: places.astype(kind), count: counts}

        return SideTable(HELD, (NumberColumn(bucket), *values, NumberColumn(count)), contents.size, batches)

    # ------------------------------------------------------------------------------------------------------- describing

    def names(self, naming: Naming) -> tuple[str, ...]:
        """The column of the buckets."""
        return (naming.cell or "",)

    def tables(self, naming: Naming, fields: Sequence[Field]) -> dict[str, Sequence[Field]]:
        """The records, and what the buckets hold."""
        held = [Field(naming.cell or "", "integer", False), *naming.value_fields(naming.sensitive)]
        return {ASSIGNED: fields, HELD: [*held, Field(count_column(naming), "integer", False)]}

    def words(self, subject: str, naming: Naming) -> str:
        """What a record shows."""
        return (
            f"It does not say who has which {naming.quoted}: each record is in a bucket (`{naming.cell}`), and "
            f"`{HELD}` lists which values the records of each bucket have, and how often."
        )

    def by_hand(self, naming: Naming, wanted: str) -> str | None:
        """The plain estimate of the papers."""
        bucket, count = plain_name(naming.cell or ""), plain_name(count_column(naming))
        return _BY_HAND.format(bucket=bucket, count=count, table=HELD, records=ASSIGNED, wanted=wanted)

    def matched(self, naming: Naming, columns: Sequence[str]) -> tuple[str, list[str]]:
        """A record shows no value, so that no weight of one concerns it."""
        return "false", []

    # --------------------------------------------------------------------------------------------------------- trusting

    def most_lines(self, records: int) -> dict[str, int]:
        """No bucket holds a value that no record has."""
        return {HELD: records}

    # --------------------------------------------------------------------------------------------------------- counting

    def reader(self, naming: Naming) -> Reader:
        """The bucket of each record."""
        return partial(_read, naming.cell or "")

    def weighed(self, shown: Codes, weights: Floats) -> Floats:
        """The weight of each record's bucket."""
        return weights[shown]

    def scanned(self, scanner: Scanner, scan: Scan, naming: Naming) -> dict[Key, Measured]:
        """Count the records of each bucket, by group."""
        bucket = f"{quoted(TABLE)}.{quoted(naming.cell or '')}"
        buckets = self._number(scanner, scan, naming)
        keys, sql = scan.numbered(scanner, bucket)
        scan.check_size(len(keys), buckets)
        if not keys:
            return scan.nothing(buckets)
        length = len(keys) * buckets
        counts: list[Amounts] = [np.zeros(length, dtype=np.int64)]
        counts += [np.zeros(length, dtype=np.float64) for _ in scan.weights]
        for batch in scanner.batches(sql):
            group, place = (column.to_numpy(zero_copy_only=False).astype(np.int64) for column in batch.columns[:2])
            at = group * buckets + place
            counts[0] += np.bincount(at, minlength=length)
            for number, column in enumerate(batch.columns[2:], 1):
                counts[number] += np.bincount(at, weights=column.to_numpy(zero_copy_only=False), minlength=length)
        by_group = [each.reshape(-1, buckets) for each in counts]
        return {key: scan.measured([each[place] for each in by_group]) for place, key in enumerate(keys)}

    @staticmethod
    def _number(scanner: Scanner, scan: Scan, naming: Naming) -> int:
        """How many buckets there are; ids that do not run from 0 up are refused before anything is made so long."""
        bucket = quoted(naming.cell or "")
        ((rows, given, least, most),) = scanner.rows(
            f"SELECT COUNT(*), COUNT({bucket}), MIN({bucket}), MAX({bucket}) FROM {RECORDS}"
        )
        if not rows or given < rows or least < 0 or most >= rows:
            raise unlike()
        return int(most) + 1

    def listed(self, naming: Naming, folder: Path) -> Holdings:
        """What the buckets hold, in the order of their table."""
        return read_holdings(naming, folder)

    def holdings(self, scanner: Scanner, everything: Scan, naming: Naming, folder: Path) -> Holdings:
        """What the buckets hold, if that is as much as there are records in them."""
        holdings = read_holdings(naming, folder)
        ((_, whole),) = self.scanned(scanner, everything, naming).items()
        _check(holdings, whole[COUNT].counts[0])
        return holdings

    def counted(self, counter: Counter, naming: Naming, folder: Path) -> Tally:
        """The records of each condition by kinds of buckets: those that hold the same are alike.

        Only the certain bounds of a count, and the variance of the plain estimate, need each bucket by itself; and of
        these only the buckets that hold a wanted value.
        """
        holdings, records = read_holdings(naming, folder), counter.kept(self.reader(naming))
        if not len(records.shown) or records.shown.min() < 0 or records.shown.max() >= len(records.shown):
            raise unlike()
        _check(holdings, np.bincount(records.shown))
        kind_of, kinds = kinds_of(holdings)
        counts = records.counts(kind_of[records.shown], len(kinds.sizes))
        lines = np.arange(len(counts))
        return KindTally(counts, counts.sum(axis=1), None, kinds, lines=lines, records=records, by_bucket=holdings)


@dataclass(frozen=True, eq=False, kw_only=True)
class KindTally(Tally):
    """A tally by kinds of buckets, which looks at single buckets where that is needed."""

    lines: Places
    """The number of each condition."""
    records: Kept
    by_bucket: Holdings

    def take(self, lines: Places) -> Tally:
        """The tally of some of the conditions."""
        return replace(self, counts=self.counts[lines], rows=self.rows[lines], lines=self.lines[lines])

    def beside(self, whole: Tally | None, holdings: Holdings | None) -> Tally:
        """What the buckets hold is known already."""
        return replace(self, whole=whole)

    def inside(self, places: Places) -> tuple[Floats, Floats, Floats]:
        """The buckets that hold one of the places, and the records of each condition in them."""
        buckets, marked = self.by_bucket.holding(places)
        place_of = np.full(len(self.by_bucket.sizes), -1, dtype=np.int64)
        place_of[buckets] = np.arange(len(buckets))
        shown = place_of[self.records.shown]
        mine = np.flatnonzero(shown >= 0)
        records = self.records.among(mine, shown[mine])
        selected = [records.counted(where, len(buckets)) for where in self.lines.tolist()]
        sizes = self.by_bucket.sizes[buckets].astype(np.float64)
        return sizes, marked, np.array(selected, dtype=np.float64).reshape(len(self), len(buckets))


def kinds_of(holdings: Holdings) -> tuple[Codes, Holdings]:
    """The kind of each bucket, and what the kinds hold: buckets that hold the same are of one kind."""
    order = np.lexsort((holdings.places, holdings.buckets))
    lines = np.stack((holdings.places[order], holdings.counts[order]), axis=1)
    ends = np.searchsorted(holdings.buckets[order], np.arange(len(holdings.sizes) + 1)) * lines.itemsize * 2
    written = lines.tobytes()
    known: dict[bytes, int] = {}
    pieces = itertools.pairwise(ends.tolist())
    kinds = np.array([known.setdefault(written[first:last], len(known)) for first, last in pieces])
    contents = [np.frombuffer(each, dtype=np.int64).reshape(-1, 2) for each in known]
    held = np.concatenate(contents)
    number = np.repeat(np.arange(len(known)), [len(each) for each in contents])
    times = np.bincount(kinds, minlength=len(known))
    found = Holdings(number, held[:, 0].copy(), held[:, 1].copy(), holdings.domain_size, times)
    return kinds.astype(np.min_scalar_type(len(known))), found


def count_column(naming: Naming) -> str:
    """The column of the table of buckets that says how often a bucket holds a value: a name that no other has."""
    taken = {name.lower() for name in (naming.cell or "", *naming.sensitive)}
    return next(name for name in (f"count{'_' * more}" for more in itertools.count()) if name not in taken)


def _read(name: str, batch: pa.RecordBatch) -> Codes:
    column = batch.column(name)
    if column.null_count or not pa.types.is_integer(column.type):
        raise ReleaseFormatError("a record is in no bucket; get the release again from its publisher.")
    ids: Codes = column.to_numpy(zero_copy_only=False)
    return ids


def _check(holdings: Holdings, sizes: Counts) -> None:
    """The buckets must hold as much as there are records in them."""
    buckets, counts = holdings.buckets, holdings.counts
    fits = len(buckets) and buckets.min() >= 0 and buckets.max() < len(sizes) and counts.min() >= 1
    if not fits or not np.array_equal(holdings.sizes, sizes):
        raise unlike()


def unlike() -> ReleaseFormatError:
    """What to say of records and buckets that do not belong together."""
    return ReleaseFormatError(
        "the records and the buckets do not fit together; get the release again from its publisher."
    )


def read_holdings(naming: Naming, folder: Path) -> Holdings:
    """What the buckets of a release hold."""
    names = [naming.cell or "", *naming.sensitive, count_column(naming)]
    try:
        table = pq.read_table(folder / HELD, columns=names)
        if table.column(names[0]).null_count or table.column(names[-1]).null_count:
            raise unlike()
        buckets, counts = (table.column(name).to_numpy().astype(np.int64) for name in (names[0], names[-1]))
        places = _places(naming, table.select(names[1:-1]))
    except (pa.ArrowException, OSError, KeyError, ValueError) as error:
        raise ReleaseFormatError(f"{HELD} cannot be read; get the release again from its publisher.") from error
    return Holdings(buckets, places, counts, len(naming.domain))


def _places(naming: Naming, values: pa.Table) -> Counts:
    """The places of values in the domain."""
    known = {parts(value): place for place, value in enumerate(naming.domain)}
    if values.num_columns > 1:
        rows = zip(*(column.to_pylist() for column in values.columns), strict=True)
        return np.array([known[row] for row in rows], dtype=np.int64)
    column = values.column(0).combine_chunks().dictionary_encode()
    encoded = column if isinstance(column, pa.DictionaryArray) else column.combine_chunks()
    distinct = [known[(value,)] for value in encoded.dictionary.to_pylist()]
    places = np.array([*distinct, known.get((None,), -1)], dtype=np.int64)
    indices = encoded.indices.fill_null(len(distinct)).to_numpy(zero_copy_only=False)
    return np.asarray(places[indices])


# ----------------------------------------------------------------------------------------------------- written columns


@dataclass(frozen=True)
class NumberColumn:
    """Whole numbers that are carried along as they are: ids of buckets, counts."""

    name: str

    has_missing = False
    is_plain = True
    """Ids that hardly repeat are written without a dictionary."""
    type = pa.int32()  # fewer buckets than this would take some four thousand million people
    written_type = pa.int32()

    @property
    def source(self) -> str:
        """The rewritten rows that the column is decoded from: its own."""
        return self.name

    def decode(self, numbers: Codes) -> pa.Array:
        """The numbers themselves."""
        return pa.array(numbers, type=pa.int32())
