"""The bucket encoding: a record publishes its bucket, and a separate table lists the contents of buckets."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from sfumato._core.array_types import Amounts, Codes, Counts, Floats
from sfumato._core.cell_values import Value, split_value
from sfumato._core.markdown import format_as_code
from sfumato._records import CellContents, Counter, Naming, PerturbedRecords, RecordEncoding, RecordReader, SideTable
from sfumato._records.bucket_kinds import BucketKinds, BucketLines, InMemoryTally, find_kinds
from sfumato._records.column_codes import (
    CodedRows,
    Field,
    PartColumn,
    PublishedColumn,
    SensitiveColumns,
    TableColumn,
    convert_to_arrow,
    find_smallest_type,
)
from sfumato._records.sql_quoting import RECORDS, TABLE, quote_if_needed, quote_name
from sfumato._records.tally import COUNT, Holdings, Key, Scan, Scanner, Tally, WeightTallies, look_up_numbers
from sfumato._terminal_safe import escape_unprintable
from sfumato.errors import ReleaseFormatError

BUCKET_RECORDS, BUCKET_CONTENTS = "qit.parquet", "st.parquet"
"""The files with the bucket of each record and the values of each bucket."""
BATCH_ROWS = 1 << 20
"""The number of lines of the second file that are read at a time."""

_MANUAL_SQL = """\
With any SQL tool, count every record by the share of its bucket's records that have the value. This plain estimate is
right only if values and public columns are unrelated within buckets; `sfumato query` corrects for such relations. In
DuckDB:

    WITH sizes AS (SELECT {bucket}, SUM({count}) AS size FROM '{table}' GROUP BY ALL),
         marked AS (SELECT {bucket}, SUM({count}) AS marked FROM '{table}' WHERE {wanted} GROUP BY ALL)
    SELECT COALESCE(SUM(marked.marked / sizes.size), 0) FROM '{records}'
    JOIN sizes USING ({bucket}) JOIN marked USING ({bucket})"""


@dataclass(frozen=True)
class BucketEncoding(RecordEncoding):
    """Publishes the bucket of each record."""

    CELL_COLUMN: ClassVar = "bucket"
    FILES: ClassVar = (BUCKET_RECORDS, BUCKET_CONTENTS)
    WARNING: ClassVar = (
        "To count records, do not join the records with the values of their buckets: every record would get every "
        "value."
    )

    @property
    def has_cells(self) -> bool:
        """True, because a column gives the bucket of a record."""
        return True

    # ---------------------------------------------------------------------------------------------------------- writing

    def make_columns(
        self, columns: Sequence[TableColumn], sensitive: SensitiveColumns, cell: str
    ) -> tuple[PublishedColumn, ...]:
        """The public columns, and the bucket."""
        parts = [part.name for part in sensitive.parts]
        return (*(column for column in columns if column.name not in parts), NumberColumn(cell))

    def make_rows(self, perturbed: PerturbedRecords, name: str, cell: str) -> CodedRows:
        """The ids of the buckets."""
        return {cell: perturbed.cells}

    def make_side_table(self, sensitive: SensitiveColumns, naming: Naming, contents: CellContents) -> SideTable:
        """The contents of the buckets, in the order of their ids.

        Ids are random, and the values of a bucket are in domain order. So the order carries no information.
        """
        parts, bucket, count = sensitive.parts, naming.cell or "", name_count_column(naming)
        values = [PartColumn(sensitive, number) for number in range(len(parts))] if len(parts) > 1 else [parts[0]]
        kind = find_smallest_type(sensitive.size)

        def iter_batches(rows: int) -> Iterator[CodedRows]:
            for buckets, places, counts in contents.iter_batches(rows):
                yield {bucket: buckets, sensitive.name: places.astype(kind), count: counts}

        return SideTable(
            BUCKET_CONTENTS, (NumberColumn(bucket), *values, NumberColumn(count)), contents.size, iter_batches
        )

    # ------------------------------------------------------------------------------------------------------- describing

    def list_column_names(self, naming: Naming) -> tuple[str, ...]:
        """The column of the buckets."""
        return (naming.cell or "",)

    def list_tables(self, naming: Naming, fields: Sequence[Field]) -> dict[str, Sequence[Field]]:
        """The records, and the contents of the buckets."""
        content_fields = [Field(naming.cell or "", "integer", False), *naming.make_value_fields(naming.sensitive)]
        return {
            BUCKET_RECORDS: fields,
            BUCKET_CONTENTS: [*content_fields, Field(name_count_column(naming), "integer", False)],
        }

    def describe(self, subject: str, naming: Naming) -> str:
        """Describes the encoding."""
        return (
            f"Each record is in a bucket ({format_as_code(naming.cell or '')}). `{BUCKET_CONTENTS}` lists how often "
            f"each value of {naming.markdown_names} occurs in each bucket, but not which record has which value."
        )

    def write_manual_sql(self, naming: Naming, condition: str) -> str | None:
        """Writes SQL for the plain estimate of the papers."""
        bucket, count = (
            escape_unprintable(quote_if_needed(name)) for name in (naming.cell or "", name_count_column(naming))
        )
        return _MANUAL_SQL.format(
            bucket=bucket,
            count=count,
            table=BUCKET_CONTENTS,
            records=BUCKET_RECORDS,
            wanted=escape_unprintable(condition),
        )

    def write_match(self, naming: Naming, columns: Sequence[str], value: Value) -> tuple[str, list[str]]:
        """Raises an error. A record has no published value, so no weight could apply."""
        return "false", []

    # --------------------------------------------------------------------------------------------------------- trusting

    def compute_line_limits(self, records: int) -> dict[str, int]:
        """Each line needs at least one record, because a bucket lists only values that its records have."""
        return {BUCKET_CONTENTS: records}

    # --------------------------------------------------------------------------------------------------------- counting

    def make_reader(self, naming: Naming) -> RecordReader:
        """The bucket of each record."""
        return partial(_read, naming.cell or "")

    def sum_weights(self, codes: Codes, weights: Floats) -> Floats:
        """The weight of each record's bucket."""
        return weights[codes]

    def tally_groups(self, scanner: Scanner, scan: Scan, naming: Naming) -> dict[Key, WeightTallies]:
        """Counts the records of each bucket, by group."""
        bucket = f"{quote_name(TABLE)}.{quote_name(naming.cell or '')}"
        buckets = self._count_buckets(scanner, scan, naming)
        keys, batches = scan.number_groups(scanner, [bucket])
        scan.check_size(len(keys), buckets)
        if not keys:
            return scan.make_empty_tallies(buckets)
        length = len(keys) * buckets
        counts: list[Amounts] = [np.zeros(length, dtype=np.int64)]
        counts += [np.zeros(length, dtype=np.float64) for _ in scan.weights]
        for group, place, *weights in _combine_batches(batches, length):
            at = place if len(keys) == 1 else group * buckets + place
            counts[0] += np.bincount(at, minlength=length)
            for number, weight in enumerate(weights, 1):
                counts[number] += np.bincount(at, weights=weight, minlength=length)
        by_group = [group_sums.reshape(-1, buckets) for group_sums in counts]
        return {
            key: scan.make_tallies([group_sums[place] for group_sums in by_group]) for place, key in enumerate(keys)
        }

    @staticmethod
    def _count_buckets(scanner: Scanner, scan: Scan, naming: Naming) -> int:
        """The number of buckets. Before large arrays are created, ids that are not numbered from 0 are rejected."""
        bucket = quote_name(naming.cell or "")
        ((rows, present, least, most),) = scanner.fetch_cached_rows(
            f"SELECT COUNT(*), COUNT({bucket}), MIN({bucket}), MAX({bucket}) FROM {RECORDS}"
        )
        if not rows or present < rows or least < 0 or most >= rows:
            raise make_mismatch_error()
        return int(most) + 1

    def read_side_table(self, naming: Naming, folder: Path) -> Holdings:
        """Reads the contents of the buckets in the order of their table."""
        buckets, places, counts = _read_all_lines(naming, folder)
        return Holdings(
            buckets.astype(np.int64), places.astype(np.int64, copy=False), counts.astype(np.int64), len(naming.domain)
        )

    def read_holdings(self, scanner: Scanner, everything: Scan, naming: Naming, folder: Path) -> Holdings:
        """Reads the contents of the kinds of buckets. Checks that they match the number of records."""
        ((_, release_tallies),) = self.tally_groups(scanner, everything, naming).items()
        return read_kinds(naming, folder, release_tallies[COUNT].counts[0])

    def tally_conditions(self, counter: Counter, naming: Naming, folder: Path) -> Tally:
        """Counts the records of each condition by kind of bucket.

        Single buckets are needed only for the certain bounds of a count and for the variance of the plain estimate.
        These results need only buckets with a wanted value.
        """
        records = counter.load_records(self.make_reader(naming))
        if (
            not len(records.published_codes)
            or records.published_codes.min() < 0
            or records.published_codes.max() >= len(records.published_codes)
        ):
            raise make_mismatch_error()
        kinds = read_kinds(naming, folder, np.bincount(records.published_codes))
        return InMemoryTally.of(records, kinds)


def name_count_column(naming: Naming) -> str:
    """The column with the frequency of a value in a bucket. No other column has its name."""
    used_names = {name.lower() for name in (naming.cell or "", *naming.sensitive)}
    return next(name for name in (f"count{'_' * more}" for more in itertools.count()) if name not in used_names)


def _read(name: str, batch: pa.RecordBatch) -> Codes:
    column = batch.column(name)
    if column.null_count or not pa.types.is_integer(column.type):
        raise ReleaseFormatError(
            "a record is in no bucket; get the release again from its publisher.", code="record-without-bucket"
        )
    ids: Codes = column.to_numpy(zero_copy_only=False)
    return ids


def _combine_batches(batches: Iterable[pa.RecordBatch], rows: int) -> Iterator[list[npt.NDArray[Any]]]:
    """Concatenates batches until they have enough rows for one count over all buckets to pay off."""
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        waiting.append(batch)
        if sum(waiting_batch.num_rows for waiting_batch in waiting) >= rows:
            yield _concatenate_columns(waiting)
            waiting = []
    if waiting:
        yield _concatenate_columns(waiting)


def _concatenate_columns(batches: Sequence[pa.RecordBatch]) -> list[npt.NDArray[Any]]:
    return [column.to_numpy() for column in pa.Table.from_batches(batches).columns]


def make_mismatch_error() -> ReleaseFormatError:
    """Makes the error for records that do not match the buckets."""
    return ReleaseFormatError(
        "the records and the buckets do not fit together; get the release again from its publisher.",
        code="inconsistent-buckets",
    )


def read_kinds(naming: Naming, folder: Path, sizes: Counts) -> BucketKinds:
    """Reads the kinds of buckets. Checks that they match the number of records."""
    try:
        size = len(naming.domain)
        bucket_kinds = find_kinds(_read_lines(naming, folder), size)
        if bucket_kinds is None:  # sfumato did not write this release, but another order may be valid
            buckets, places, counts = _read_all_lines(naming, folder)
            order = np.lexsort((places, buckets))
            bucket_kinds = find_kinds([(buckets[order], places[order], counts[order])], size)
    except (pa.ArrowException, OSError, KeyError, ValueError) as error:
        raise ReleaseFormatError(
            f"{BUCKET_CONTENTS} cannot be read; get the release again from its publisher.",
            code="damaged-file",
            fields={"file": BUCKET_CONTENTS},
        ) from error
    if bucket_kinds is None or not np.array_equal(bucket_kinds.sizes[bucket_kinds.kind_of], sizes):
        raise make_mismatch_error()
    return bucket_kinds


def _read_all_lines(naming: Naming, folder: Path) -> BucketLines:
    """Reads the contents of all buckets in the order of their table."""
    buckets, places, counts = map(np.concatenate, zip(*_read_lines(naming, folder), strict=True))
    return buckets, places, counts


def _read_lines(naming: Naming, folder: Path) -> Iterator[BucketLines]:
    """Reads the contents of the buckets, some lines at a time."""
    names = [naming.cell or "", *naming.sensitive, name_count_column(naming)]
    value_places: dict[Key, int] = {split_value(value): place for place, value in enumerate(naming.domain)}
    with pq.ParquetFile(folder / BUCKET_CONTENTS, read_dictionary=list(naming.sensitive)) as file:
        for batch in file.iter_batches(BATCH_ROWS, columns=names):
            buckets, *values, counts = (batch.column(name) for name in names)
            places = look_up_numbers(values, value_places)
            if buckets.null_count or counts.null_count or places.min(initial=0) < 0:
                raise make_mismatch_error()
            if counts.to_numpy().min(initial=1) < 1:
                raise make_mismatch_error()
            yield buckets.to_numpy(), places, counts.to_numpy()


# ----------------------------------------------------------------------------------------------------- written columns


@dataclass(frozen=True)
class NumberColumn:
    """A column of integers that are written unchanged, such as ids of buckets or counts."""

    name: str

    has_missing = False
    dictionary_values = None
    is_plain = True
    """True, because ids rarely repeat."""
    type = pa.int32()  # a table would need about four thousand million people to reach this number of buckets
    written_type = pa.int32()

    @property
    def source(self) -> str:
        """The key of the column's rewritten rows."""
        return self.name

    def to_file_values(self, numbers: Codes) -> pa.Array:
        """The numbers themselves."""
        return convert_to_arrow(numbers.astype(np.int32, copy=False))
