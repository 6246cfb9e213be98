"""Checks that the order of the published records discloses nothing about the original.

Every record gets labels that do not depend on its position. They are the part of the original with its public columns,
the most frequent true value of people with these public columns, and the published value. A record that is unique on
its public columns has its own place and its own true value. Records that share public columns have the same label. So
the check does not need to know which record belongs to which person. In a proper shuffle every order of the labels is
equally likely.

For each label, two numbers are compared with their distribution in a proper shuffle. The bounds hold for any number of
records:

- Waves: the sum of sqrt(2) cos(pi k (i + 1/2) / n) over the places i of its m of n records, for k from 1 to 16. Its
absolute value exceeds t with a probability of at most 2 exp(-t^2 / (2 min(m, n - m))), because places are negatively
associated (Joag-Dev and Proschan 1983). So the tails of a sum over places are at most those of a sum over independent
places. A cosine of a random place is strictly sub-Gaussian with the variance 1.
- Runs: the number of sequences of neighbours with the label. It has exactly a hypergeometric distribution (Stevens
1939).

The first rows are also compared with the first and the last rows of the original, with an exact probability. The
probabilities of a false alarm add up to at most one in a million. Each kind of label gets an equal part of this
probability, and so do the first rows. All numbers of one kind share its part equally.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sfumato._core.array_types import Codes, Counts, Floats, Places
from sfumato._records.column_codes import decode_dictionary
from sfumato._records.sql_quoting import quote_name
from sfumato._verify.check_results import Check
from sfumato._verify.manifest_view import ManifestView
from sfumato._verify.original_counts import Connection
from sfumato.errors import ReleaseFormatError

ERROR_RATE = 1e-6
"""The largest rate at which a proper shuffle fails the check."""
MOST_RECORDS, WINDOWS = 1 << 15, 8
"""The largest number of checked records.

Larger releases are checked in windows of neighbours from all parts of the release.
"""
WAVES, SHORTEST_WAVE = 16, 16
"""The largest number of waves, and the smallest number of records in each."""
MOST_LABELS = 64
"""The largest number of labels. Values beyond the most frequent values share a label."""
PARTS = (2, 16)
"""Records whose labels have an order are divided into this number of parts of equal size."""
FIRST_ROWS = 1000
ROW = quote_name("sfumato row")
"""The column with the number of a row, if the table has a column `rowid`."""
ENOUGH_PEOPLE = 16
"""The number of people used to locate and label a class, if classes have on average more than twice this number."""


@dataclass(frozen=True)
class LabelPositions:
    """The positions of the records of each label. There may be several kinds of labels."""

    rows: int
    counts: Counts
    """The number of records of each label."""
    waves: Floats
    """A line for each wave, and a column for each label."""
    runs: Counts

    @classmethod
    def from_codes(cls, codes: Codes) -> LabelPositions:
        """Makes positions if each record has one label, from 0 on."""
        rows, number = len(codes), int(codes.max(initial=-1)) + 1
        begins = np.flatnonzero(np.diff(codes, prepend=-1))
        waves = [np.bincount(codes, weights=wave, minlength=number) for wave in make_waves(rows)]
        runs = np.bincount(codes[begins], minlength=number)
        return cls(
            rows, np.bincount(codes, minlength=number), np.array(waves, dtype=np.float64).reshape(-1, number), runs
        )

    @classmethod
    def from_members(cls, members: Codes) -> LabelPositions:
        """Makes positions if each record may have several labels, given as a row of zeros and ones."""
        counts = members.sum(axis=0, dtype=np.int64)
        members = members[
            :, np.sort(np.argsort(-np.minimum(counts, len(members) - counts), kind="stable")[:MOST_LABELS])
        ]
        begins = members[1:] & ~members[:-1] & 1
        runs = members[:1].sum(axis=0, dtype=np.int64) + begins.sum(axis=0, dtype=np.int64)
        waves = make_waves(len(members)) @ members.astype(np.float64)
        shape = (-1, members.shape[1])
        return cls(len(members), members.sum(axis=0, dtype=np.int64), waves.reshape(shape), runs)

    @cached_property
    def smallest_log_chance(self) -> float:
        """The logarithm of a bound on the smallest probability, multiplied by the number of comparisons."""
        is_varied = (self.counts > 0) & (self.counts < self.rows)
        if not is_varied.any():
            return 0.0
        counts = self.counts[is_varied]
        variances = np.minimum(counts, self.rows - counts)
        chances = [math.log(2) - self.waves[:, is_varied] ** 2 / (2 * variances)]
        factorials, runs = (
            compute_log_factorials(self.rows + 1),
            zip(counts.tolist(), self.runs[is_varied].tolist(), strict=True),
        )
        chances.append(np.array([[compute_runs_log_chance(factorials, self.rows, *pair) for pair in runs]]))
        all_log_chances = np.concatenate(chances)
        return min(float(all_log_chances.min()) + math.log(all_log_chances.size), 0.0)


@lru_cache(maxsize=1)
def make_waves(rows: int) -> Floats:
    """Cosines of the places of records, with a line for each wave, mean 0 and variance 1."""
    angles = (np.arange(rows) + 0.5) * (math.pi / max(rows, 1))
    numbers = np.arange(1, min(WAVES, rows // SHORTEST_WAVE) + 1)
    return np.asarray(math.sqrt(2) * np.cos(numbers[:, np.newaxis] * angles))


def compute_runs_log_chance(factorials: Floats, rows: int, count: int, runs: int) -> float:
    """The logarithm of the two-sided probability of the number of runs of a label's records."""
    numbers = np.arange(1, min(count, rows - count + 1) + 1)
    log_chances = (
        _compute_log_choices(factorials, count - 1, numbers - 1)
        + _compute_log_choices(factorials, rows - count + 1, numbers)
        - _compute_log_choices(factorials, rows, np.array(count))
    )
    tails = (log_chances[numbers <= runs], log_chances[numbers >= runs])
    return min(math.log(2) + min(float(np.logaddexp.reduce(tail)) if len(tail) else 0.0 for tail in tails), 0.0)


def _compute_log_choices(factorials: Floats, of: int, number: Counts) -> Floats:
    return np.asarray(factorials[of] - factorials[number] - factorials[of - number])


def compute_log_factorials(largest: int) -> Floats:
    """The logarithms of the factorials of 0, 1, and so on."""
    return np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, largest + 1)))])


def label_values(codes: Codes) -> list[LabelPositions]:
    """Labels records by values whose numbers have an order, by each frequent value and by parts of equal size."""
    counts = np.bincount(codes)
    label = np.full(len(counts), MOST_LABELS)
    frequent = np.argsort(-counts, kind="stable")[:MOST_LABELS]
    label[frequent] = np.arange(len(frequent))
    return [LabelPositions.from_codes(label[codes]), *label_parts(codes)]


def label_parts(scores: Codes | Floats) -> list[LabelPositions]:
    """Labels records by their part of all records, from the lowest score to the highest."""
    counts, places = np.unique_counts(scores).counts, np.unique_inverse(scores).inverse_indices
    middles = np.cumsum(counts) - counts / 2
    return [
        LabelPositions.from_codes((middles * parts / max(len(scores), 1)).astype(np.int64)[places]) for parts in PARTS
    ]


# ------------------------------------------------------------------------------------------------------------ linking


@dataclass(frozen=True)
class LinkedRecords:
    """The checked records in order, linked with the original by their public columns."""

    total: int
    """The number of records of the release."""
    classes: Places
    """The number of each record's equivalence class."""
    row_numbers: Floats
    """The mean row number of the people of each class in the original. It comes from a sample if classes are large."""
    true_values: dict[str, Codes]
    """The most frequent value of these people in each sensitive column, by its number in the order of values."""
    unique_count: int
    """The number of records that are unique on their public columns in the original."""
    log_chance_of_first_rows: float
    """The logarithm of the probability that the first rows match the first or last rows of the original; 0 if they do
    not match.
    """


def check_order(connection: Connection, folder: Path, view: ManifestView) -> Check:
    """Checks that the order of the records is independent of the original, and of the published values."""
    table, total = read_windows(folder, view)
    if not total:
        return Check("order", True, "the release has no records, so their order discloses nothing.")
    linked = link_records(connection, view, table, total)
    kinds = {"the order of the original": label_parts(linked.row_numbers[linked.classes])}
    for name, values in linked.true_values.items():
        kinds[f"the true {name!r}"] = label_values(values[linked.classes])
    kinds |= _label_published(connection, folder, view, table)
    limit = math.log(ERROR_RATE / (len(kinds) + 1))
    revealing_kinds = [name for name, labels in kinds.items() if compute_log_chance(labels) < limit]
    if linked.log_chance_of_first_rows < limit:
        revealing_kinds.insert(0, "the exact order of the original's rows")
    scope_text = (
        f"{table.num_rows:,} of {total:,} records were checked, and {linked.unique_count:,} of these are unique on "
        "their"
    )
    if revealing_kinds:
        kinds_text = " and ".join(revealing_kinds)
        detail = (
            f"the order of the records depends on {kinds_text}, which discloses values; {scope_text} public columns."
        )
        return Check("order", False, detail)
    rate = "a proper shuffle fails this check with a probability of at most one in a million"
    detail = f"the order of the records discloses nothing about the original; {scope_text} public columns; {rate}."
    return Check("order", True, detail)


def compute_log_chance(labels: Sequence[LabelPositions]) -> float:
    """The logarithm of a bound on the smallest probability among labels of one kind."""
    return min(label.smallest_log_chance for label in labels) + math.log(len(labels))


def read_windows(folder: Path, view: ManifestView) -> tuple[pa.Table, int]:
    """Reads all records, or windows from all files if there are many records, and counts all records.

    The windows depend only on the number of records.
    """
    columns = [*view.public_names, *view.published_names]
    files = [folder / name for name in view.record_files]
    total = sum(pq.read_metadata(file).num_rows for file in files)
    number = WINDOWS if total > MOST_RECORDS else 1
    starts = [window * total // number for window in range(number)]
    windows = [(start, start + min(MOST_RECORDS, total) // number) for start in starts]
    tables, first = [], 0
    for path in files:
        with pq.ParquetFile(path) as file:
            for group in range(file.num_row_groups):
                last = first + file.metadata.row_group(group).num_rows
                overlaps = [
                    (max(start, first), min(end, last)) for start, end in windows if start < last and end > first
                ]
                if overlaps:
                    rows = file.read_row_group(group, columns=columns)
                    tables += [rows.slice(start - first, end - start) for start, end in overlaps]
                first = last
            schema = file.schema_arrow
    fields = pa.schema([schema.field(name) for name in columns])
    return pa.concat_tables([fields.empty_table(), *tables]).combine_chunks(), total


def link_records(connection: Connection, view: ManifestView, table: pa.Table, total: int) -> LinkedRecords:
    """Links records with the original by their equivalence classes."""
    names, width = view.public_names, range(len(view.public_names))
    columns = {f"c{number}": decode_dictionary(table.column(name)) for number, name in enumerate(names)}
    connection.register("looked", pa.table({"place": pa.array(range(table.num_rows)), **columns}))
    columns_sql = ", ".join(["TRUE AS any", *(f"c{number}" for number in width)])
    connection.execute(
        "CREATE OR REPLACE TEMP TABLE classes AS SELECT *, ROW_NUMBER() OVER () - 1 AS key "
        f"FROM (SELECT DISTINCT {columns_sql} FROM looked)"
    )
    same = " AND ".join(["c.any", *(f"l.c{number} IS NOT DISTINCT FROM c.c{number}" for number in width)])
    sql = f"SELECT c.key FROM looked AS l JOIN classes AS c ON {same} ORDER BY l.place"
    classes = _fetch(connection, sql)[0]
    number = int(classes.max(initial=-1)) + 1
    step = max(total // (ENOUGH_PEOPLE * max(number, 1)), 1)
    row_numbers, true_values = np.zeros(number), {}
    for name in view.sensitive_names:
        keys, codes, counts, sums = _fetch(connection, _write_value_counts_sql(view, name, step))
        sizes = np.bincount(keys, weights=counts, minlength=number)
        row_numbers = np.bincount(keys, weights=sums, minlength=number) / np.maximum(sizes, 1)
        true_values[name] = _find_most_frequent(keys, codes, counts, number)
    single_classes = np.flatnonzero(
        np.bincount(classes, minlength=number) == 1
    )  # all other classes have several people
    unique = int((_count_people(connection, view, single_classes) == 1).sum())
    log_chance = _compute_first_rows_chance(connection, view, classes, total)
    return LinkedRecords(total, classes, row_numbers, true_values, unique, log_chance)


def _write_value_counts_sql(view: ManifestView, name: str, step: int) -> str:
    """SQL that counts people by class and true value. Its columns are class, value number, people and row numbers.

    It counts every `step`th row of the original.
    """
    rows, row = _write_numbered_original_sql(view)
    counts_sql = (
        f"SELECT c.key, o.{quote_name(name)} AS value, COUNT(*) AS n, SUM({row})::DOUBLE AS total "
        f"FROM {rows} AS o JOIN classes AS c ON {_write_same_class_sql(view)} WHERE {row} % {step} = 0 GROUP BY ALL"
    )
    return f"SELECT key, DENSE_RANK() OVER (ORDER BY value NULLS LAST) AS code, n, total FROM ({counts_sql})"


def _write_numbered_original_sql(view: ManifestView) -> tuple[str, str]:
    """SQL for the original with a row number, and a name for this number that no column has."""
    if "rowid" not in {name.lower() for name in (*view.public_names, *view.sensitive_names)}:
        return "original", "o.rowid"
    return f"(SELECT *, ROW_NUMBER() OVER () - 1 AS {ROW} FROM original)", f"o.{ROW}"


def _write_same_class_sql(view: ManifestView) -> str:
    pairs = [f"o.{name} IS NOT DISTINCT FROM c.c{number}" for number, name in enumerate(view.quoted_public_names)]
    return " AND ".join(["c.any", *pairs])


def _find_most_frequent(keys: Places, codes: Codes, counts: Counts, number: int) -> Codes:
    """The most frequent value of each class. Of equally frequent values, the first in the order of values counts."""
    frequent_codes = np.zeros(number, dtype=np.int64)
    order = np.lexsort((-codes, counts, keys))  # the last row of a class stays
    frequent_codes[keys[order]] = codes[order]
    return frequent_codes


def _count_people(connection: Connection, view: ManifestView, keys: Places) -> Counts:
    """The number of people of the original in each of these classes."""
    connection.register("wanted", pa.table({"key": keys}))
    rows, _ = _write_numbered_original_sql(view)
    sql = (
        f"SELECT c.key, COUNT(*) AS n FROM {rows} AS o JOIN (SELECT * FROM classes JOIN wanted USING (key)) AS c ON "
        f"{_write_same_class_sql(view)} GROUP BY c.key"
    )
    fetched_rows, counts = _fetch(connection, sql)
    sizes = np.zeros(len(keys), dtype=np.int64)
    sizes[np.searchsorted(keys, fetched_rows)] = counts
    return sizes


def _compute_first_rows_chance(connection: Connection, view: ManifestView, classes: Places, total: int) -> float:
    """The logarithm of the probability that the first records are the first rows, or the last rows in reverse order.

    It is exact, from the sizes of their classes. It is 0 if the records are not these rows, or if a row is in no class.
    """
    number = min(FIRST_ROWS, len(classes))
    rows, row = _write_numbered_original_sql(view)
    for condition, order in ((f"{row} < {number}", "ASC"), (f"{row} >= {total - number}", "DESC")):
        sql = (
            f"SELECT c.key FROM (SELECT o.*, {row} AS row FROM {rows} AS o WHERE {condition}) AS o "
            f"JOIN classes AS c ON {_write_same_class_sql(view)} ORDER BY o.row {order}"
        )
        if np.array_equal(_fetch(connection, sql)[0], classes[:number]):
            keys, counts = np.unique(classes[:number], return_counts=True)
            sizes = _count_people(connection, view, keys)
            class_draws = zip(sizes.tolist(), counts.tolist(), strict=True)
            log_chance = sum(_compute_log_falling(size, count) for size, count in class_draws) - _compute_log_falling(
                total, number
            )
            return min(math.log(2) + log_chance, 0.0)
    return 0.0


def _compute_log_falling(number: int, factors: int) -> float:
    """The logarithm of n (n - 1) ... with this number of factors."""
    return math.lgamma(number + 1) - math.lgamma(number - factors + 1) if factors <= number else -math.inf


def _label_published(
    connection: Connection, folder: Path, view: ManifestView, table: pa.Table
) -> dict[str, list[LabelPositions]]:
    """Labels records by their published values.

    Gives no labels if the values cannot be read, because other checks report this.
    """
    try:
        (batch,) = table.select(list(view.published_names)).to_batches() or [None]
        published_codes: Codes = (
            np.zeros(0, dtype=np.int64) if batch is None else view.encoding.make_reader(view.naming)(batch)
        )
    except ReleaseFormatError:
        return {}
    if published_codes.ndim > 1:
        return {"the published sets": [LabelPositions.from_members(published_codes)]}
    labels_by_name = {}
    for name in view.published_names:
        connection.register(
            "shown",
            pa.table({"place": pa.array(range(len(published_codes))), "v": decode_dictionary(table.column(name))}),
        )
        sql = "SELECT DENSE_RANK() OVER (ORDER BY v NULLS LAST) AS code, place FROM shown ORDER BY place"
        labels_by_name[f"the published {name!r}"] = label_values(_fetch(connection, sql)[0])
    holdings = view.encoding.read_side_table(view.naming, folder)
    if holdings is not None:
        order = np.lexsort((-holdings.places, holdings.counts, holdings.buckets))
        frequent_values = np.zeros(
            int(max(holdings.buckets.max(initial=0), published_codes.max(initial=0))) + 1, dtype=np.int64
        )
        frequent_values[holdings.buckets[order]] = holdings.places[order]
        labels_by_name["the contents of the buckets"] = label_values(frequent_values[published_codes])
    return labels_by_name


def _fetch(connection: Connection, sql: str) -> list[Places]:
    """The columns of an answer, all of which are numbers."""
    return [np.asarray(column) for column in connection.execute(sql).fetchnumpy().values()]
