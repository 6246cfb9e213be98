"""The verifier of noisy counts: crowds publish counts with noise, and all other people publish sets.

A crowd is a group of people with equal public columns. The noise of a crowd adds up to 0 and does not depend on any
record. Coarse tables count everybody by some of the public columns, with noise of their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import prod
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato._core.array_types import Counts, Indices
from sfumato._core.exact_numbers import parse_exact
from sfumato._core.json_types import JsonView
from sfumato._records.column_codes import decode_dictionary, encode_batch_values, encode_values
from sfumato._records.count_tables import COUNT_COLUMNS, COUNTS_FILE
from sfumato._records.crowd_lines import are_possible_counts
from sfumato._records.crowd_records import CrowdEncoding
from sfumato._records.sql_quoting import quote_name
from sfumato._request.range_edges import Ranges
from sfumato._verify.check_results import Check
from sfumato._verify.crowd_tables import CountTable, leave_out_crowds, list_count_tables
from sfumato._verify.distributions import subset_verifier as subset_distribution
from sfumato._verify.distributions.any_prior_guarantee import check_any_prior, check_bounded_posteriors
from sfumato._verify.distributions.crowd_noise_distribution import CrowdNoise
from sfumato._verify.distributions.crowd_noise_tests import are_tables_independent, check_noise
from sfumato._verify.distributions.reference_distribution import ReferenceDistribution, WeightTable
from sfumato._verify.distributions.subset_verifier import compute_set_posteriors, read_distribution
from sfumato._verify.distributions.weight_checks import TOLERANCE
from sfumato._verify.manifest_view import ManifestView
from sfumato._verify.original_counts import WHOLE, Connection, count_original_values, count_true_values
from sfumato.errors import ReleaseFormatError

SMALLEST_CROWD = 2
"""The smallest crowd that a design may have."""
MEMORY_LIMIT = "512MB"


def read_noise(design: JsonView) -> CrowdNoise:
    """The noise of a crowd's counts, from the rationals of the manifest."""
    noise = CrowdNoise(len(design["domain"]), parse_exact(design["ratio"]))
    smallest = design["smallest_crowd"]
    if noise.size <= 1 or not 0 < noise.ratio < 1 or type(smallest) is not int or smallest < SMALLEST_CROWD:
        raise ReleaseFormatError(
            "the design is not a probability distribution that protects values.", code="invalid-distribution"
        )
    return noise


def read_coarse_noise(design: JsonView) -> list[CrowdNoise]:
    """The noise of each coarse table, in which everybody is counted too."""
    noises = [CrowdNoise(len(design["domain"]), parse_exact(table["ratio"])) for table in design.get("also_by", ())]
    if not all(0 < noise.ratio < 1 for noise in noises):
        raise ReleaseFormatError(
            "the design is not a probability distribution that protects values.", code="invalid-distribution"
        )
    return noises


def compute_factor(design: JsonView) -> Fraction:
    """The largest factor between the likelihoods of two values of a person, given all tables.

    A person is in a crowd or has a set, and is in every coarse table. The noise of these is independent.
    """
    own = max(read_noise(design).amplification, read_distribution(design).amplification)
    return prod((noise.amplification for noise in read_coarse_noise(design)), start=own)


def make_encoding(design: JsonView) -> CrowdEncoding:
    """Crowds publish counts, and each other person publishes a set."""
    columns = tuple(tuple(map(str, table["columns"])) for table in design.get("also_by", ()))
    return CrowdEncoding(len(design["domain"]), coarse_columns=columns)


def _view_sets(view: ManifestView) -> ManifestView:
    """The manifest as that of a release of sets. The sets of this mechanism are always bits."""
    design = {**view.design, "form": "bits"}
    return replace(view, json={**view.json, "sfumato": {**view.sfumato_json, "design": design}})


def check_domain(folder: Path, view: ManifestView) -> Check:
    """Checks that every set has the size of the design and only values of the domain."""
    return subset_distribution.check_domain(folder, _view_sets(view))


def check_guarantee(folder: Path, view: ManifestView) -> Check:
    """Checks that neither the counts nor the sets raise odds by more than the guarantee allows.

    Another value of one person changes the number of moved units by at most 1. So the likelihoods of counts differ by a
    factor of at most 1/r, whatever the attacker knows about the other people of the crowd. If several tables count the
    same person, their factors multiply.
    """
    return check_any_prior(view.design, compute_factor(view.design))


def are_weights(view: ManifestView, table: WeightTable) -> bool:
    """Checks the contribution of a record whose set contains a value, and of a record whose set does not."""
    return subset_distribution.are_weights(_view_sets(view), table)


# --------------------------------------------------------------------------------------------------------- the counts


class _CountError(Exception):
    """An error in the table of counts, or a mismatch with the records."""


def check_counts(folder: Path, view: ManifestView) -> Check:
    """Checks the table of counts, and that no group of people has both counts and records.

    Crowds are sorted by their public columns, and lines by their values, so the order discloses nothing. The noisy
    counts of a crowd add up to its people. Estimates are computed again.
    """
    noise, tables = read_noise(view.design), list_count_tables(view)
    checker = _CrowdChecker(view, tables[0], noise, view.design["smallest_crowd"])
    coarse = [
        _CrowdChecker(view, table, own_noise, 1)
        for table, own_noise in zip(tables[1:], read_coarse_noise(view.design), strict=True)
    ]
    try:
        for own in (checker, *coarse):
            for lines in _iter_crowd_lines(folder, view, own.table):
                own.check(lines)
        _check_groups(folder, view)
        for own in coarse:
            _check_coarse_groups(folder, view, own.table)
    except _CountError as wrong:
        return Check("counts", False, str(wrong))
    coarse_counts = sum(own.crowds for own in coarse) * noise.size
    also = f" So are the {coarse_counts:,} counts of everybody in {len(coarse)} coarse tables." if coarse else ""
    detail = (
        f"the {checker.crowds * noise.size:,} counts of {checker.crowds:,} groups with {checker.people:,} people add "
        f"up, are complete and in order, and have the right estimates.{also}"
    )
    return Check("counts", True, detail)


def _iter_crowd_lines(folder: Path, view: ManifestView, table: CountTable) -> Iterator[pa.Table]:
    """Reads a table of counts in parts of whole crowds."""
    fields, size = view.find_resource(table.file)["schema"]["fields"], len(view.domain)
    types = {column["name"]: column["type"] for column in fields[:-COUNT_COLUMNS]}
    value_name, expected = table.list_columns(view)[1], {name: view.column_types[name] for name in table.public_names}
    if list(types.items()) != list(expected.items()) or value_name != view.sensitive_names[0]:
        raise _CountError("the columns of the counts differ from those of the records.")
    names = [column["name"] for column in fields]
    pending: list[pa.Table] = []
    for batch in view.read_batches(folder, names, table.file):
        columns = [decode_dictionary(batch.column(name)) for name in names]
        lines = pa.concat_tables([*pending, pa.Table.from_arrays(columns, names)])
        whole = lines.num_rows // size * size
        if whole:
            yield lines.slice(0, whole).combine_chunks()
        pending = [lines.slice(whole)]
    if pending and pending[0].num_rows:
        raise _CountError("the last group does not have a line for each value.")


@dataclass
class _CrowdChecker:
    """Checks the lines of crowds, part after part."""

    view: ManifestView
    table: CountTable
    noise: CrowdNoise
    smallest: int
    """The fewest people of a group."""
    crowds: int = 0
    people: int = 0
    last: pa.Table | None = None
    """The public columns of the last crowd."""

    def check(self, lines: pa.Table) -> None:
        """Checks the lines of whole crowds."""
        size = len(self.view.domain)
        people_name, value_name, noisy_name, count_name = self.table.list_columns(self.view)
        if any(lines.column(name).null_count for name in (people_name, noisy_name, count_name)):
            raise _CountError("a line has no number of people, no noisy count or no estimate.")
        values = encode_values(
            lines.column(value_name).combine_chunks(), self.view.naming.make_part_domain(0).drop_null()
        )
        if (values.reshape(-1, size) != np.arange(size)).any():
            raise _CountError("the lines of a group are not the values of the domain in their order.")
        people, noisy, estimates = (
            lines.column(name).to_numpy().reshape(-1, size) for name in (people_name, noisy_name, count_name)
        )
        if not (are_possible_counts(people) and are_possible_counts(noisy)):
            raise _CountError("a number of people or a noisy count is not a whole number, or is too large to be true.")
        public = lines.select(list(self.table.public_names))
        if (people != people[:, :1]).any() or not all(_is_constant(column, size) for column in public.columns):
            raise _CountError("the lines of a group have different public columns or numbers of people.")
        self._check_order(public.take(pa.array(np.arange(0, len(lines), size))))
        self._check_numbers(people[:, 0].astype(np.int64), noisy.astype(np.int64), estimates)
        self.crowds += len(people)
        self.people += int(people[:, 0].sum())

    def _check_order(self, public: pa.Table) -> None:
        """Checks that every crowd comes after the previous one, so none occurs twice."""
        with_last = pa.concat_tables([public] if self.last is None else [self.last, public]).combine_chunks()
        is_later, is_same = np.zeros(len(with_last) - 1, dtype=np.bool_), np.ones(len(with_last) - 1, dtype=np.bool_)
        for name, column in zip(with_last.column_names, with_last.columns, strict=True):
            edges = self.view.sfumato_json["bins"].get(name)
            labels = None if edges is None else pa.array(Ranges(tuple(edges)).labels)
            steps = np.diff(_rank_values(column.combine_chunks(), labels))
            is_later |= is_same & (steps > 0)
            is_same &= steps == 0
        if not is_later.all():
            raise _CountError("the groups are not in the order of their public columns, or one occurs twice.")
        self.last = with_last.slice(len(with_last) - 1)

    def _check_numbers(self, people: Counts, noisy: Counts, estimates: pa.Array) -> None:
        if (people < self.smallest).any():
            raise _CountError(f"a group of fewer than {self.smallest} people has counts.")
        if (noisy.sum(axis=1) != people).any():
            raise _CountError("the noisy counts of a group do not add up to its people.")
        expected = self.noise.estimate_counts(people, noisy)
        if not np.allclose(estimates, expected, rtol=TOLERANCE, atol=TOLERANCE):
            raise _CountError("an estimate does not follow from the noisy counts of its group.")


def _is_constant(column: pa.ChunkedArray, size: int) -> bool:
    codes = encode_batch_values(column.combine_chunks())[0].reshape(-1, size)
    return bool((codes == codes[:, :1]).all())


def _rank_values(column: pa.Array, labels: pa.Array | None) -> Indices:
    """The rank of each value in the order of values, or of these labels of ranges. The missing value is last."""
    codes, values = encode_batch_values(column)
    places = pc.rank(values) if labels is None else pc.index_in(values, labels)
    if places.null_count:
        raise _CountError("a group has a value that is none of the ranges of its column.")
    return np.append(places.to_numpy().astype(np.int64), np.iinfo(np.int64).max).take(codes)


def _check_groups(folder: Path, view: ManifestView) -> None:
    """Checks that groups with records are smaller than crowds, and that no group has counts too."""
    names = view.quoted_public_names
    columns = "".join(f"{name} AS c{number}, " for number, name in enumerate(names))
    keys = "".join(f"c{number}, " for number in range(len(names)))
    groups = f"SELECT {keys}COUNT(*) AS rows FROM (SELECT {columns}TRUE FROM data) GROUP BY ALL"
    crowds = f"SELECT DISTINCT {columns}0 AS rows FROM counts"
    tables = f"SELECT COUNT(*) AS tables FROM ({groups} UNION ALL {crowds}) GROUP BY {keys}TRUE"
    sql = f"SELECT (SELECT MAX(rows) FROM ({groups})), (SELECT MAX(tables) FROM ({tables}))"
    largest, most_tables = _fetch_row(folder, {"data": view.record_files, "counts": (COUNTS_FILE,)}, sql)
    if (most_tables or 0) > 1:
        raise _CountError("a group has both counts and records.")
    if (largest or 0) >= view.design["smallest_crowd"]:
        raise _CountError(f"a group of {largest} people has records instead of counts.")


def _check_coarse_groups(folder: Path, view: ManifestView, table: CountTable) -> None:
    """Checks that each group of a coarse table has the people that crowds and records have with its public columns."""
    size, names = len(view.domain), [quote_name(name) for name in table.public_names]
    keys = ", ".join(f"{name} AS c{number}" for number, name in enumerate(names))
    crowd_people, coarse_people = (quote_name(own.list_columns(view)[0]) for own in (list_count_tables(view)[0], table))
    everybody = (
        f"SELECT {keys}, 1 AS people FROM data UNION ALL SELECT {keys}, {crowd_people} / {size} FROM counts "
        f"UNION ALL SELECT {keys}, -({coarse_people} / {size}) FROM coarse"
    )
    groups = ", ".join(f"c{number}" for number in range(len(names)))
    sums = f"SELECT {groups}, SUM(people) AS difference FROM ({everybody}) GROUP BY ALL"
    sql = f"SELECT COUNT(*) FROM ({sums}) WHERE ABS(difference) > 0.5"
    files = {"data": view.record_files, "counts": (COUNTS_FILE,), "coarse": (table.file,)}
    (different,) = _fetch_row(folder, files, sql)
    if different:
        raise _CountError(f"{different:,} groups of {table.file} do not have the people of the other tables.")


def _fetch_row(folder: Path, files_by_name: Mapping[str, Sequence[str]], sql: str) -> tuple[Any, ...]:
    """The single row of a statement about the tables of a release."""
    try:
        with duckdb.connect(config={"memory_limit": MEMORY_LIMIT}) as connection:
            for name, files in files_by_name.items():
                connection.read_parquet([str(folder / file) for file in files]).create_view(name)
            (row,) = connection.execute(sql).fetchall()
    except duckdb.Error as error:
        raise ReleaseFormatError(
            "a table cannot be read; get the release again from its publisher.", code="unreadable-release"
        ) from error
    return tuple(row)


# -------------------------------------------------------------------------------------------------------- the original


def check_draws(connection: Connection, view: ManifestView) -> Check:
    """Checks that the noise of the counts and the sets of people outside crowds are distributed as designed."""
    if count_true_values(connection, view, WHOLE) is None:
        return view.fail_outside_domain("draws")
    tables, noises = list_count_tables(view), [read_noise(view.design), *read_coarse_noise(view.design)]
    noise_check, *coarse_checks = (
        check_noise(connection, view, noise, table) for noise, table in zip(noises, tables, strict=True)
    )
    if coarse_checks and not are_tables_independent(connection, view, noises, tables):
        return Check("draws", False, "two tables of counts have the same noise, so their differences are exact.")
    with leave_out_crowds(connection, view):
        has_sets = any(count_original_values(connection, view) or ())
        sets_checks = [subset_distribution.check_draws(connection, _view_sets(view))] if has_sets else []
    failed = [check for check in (noise_check, *coarse_checks, *sets_checks) if not check.has_passed]
    details = [noise_check.detail, *(f"Outside: {check.detail}" for check in sets_checks)]
    return failed[0] if failed else replace(noise_check, detail=" ".join(details))


def check_posteriors(connection: Connection, view: ManifestView) -> Check:
    """Checks that no belief in a value exceeds the bound for shares within the prior.

    The attacker knows the values of all other people, and the frequencies of values in the table. Noisy counts favour a
    value most if they have no noise. They then make this value 1/r times as likely as every other value. So the largest
    posterior is exact. The counts also disclose the frequencies of values within a group, but this posterior does not
    include them. With coarse tables, the factors of all tables are multiplied.
    """
    sets, coarse = read_distribution(view.design), read_coarse_noise(view.design)
    coarse_factor = prod((noise.amplification for noise in coarse), start=Fraction(1))
    factor = read_noise(view.design).amplification * coarse_factor

    def compute_posteriors(counts: Sequence[int]) -> list[Fraction]:
        total = sum(counts)
        by_sets = [
            belief * coarse_factor / (belief * coarse_factor + 1 - belief)
            for belief in compute_set_posteriors(counts, sets)
        ]
        by_counts = [count * factor / (count * factor + total - count) if total else Fraction(0) for count in counts]
        return [max(pair) for pair in zip(by_counts, by_sets, strict=True)]

    return check_bounded_posteriors(connection, view, compute_posteriors)


REFERENCE_DISTRIBUTION = ReferenceDistribution(
    guarantees=("any-prior-counted",),
    make_encoding=make_encoding,
    check_domain=check_domain,
    check_counts=check_counts,
    check_guarantee=check_guarantee,
    are_weights=are_weights,
    check_draws=check_draws,
    check_posteriors=check_posteriors,
)
