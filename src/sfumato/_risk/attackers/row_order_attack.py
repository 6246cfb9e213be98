"""R: an attacker who uses the order of rows to match records with people or with neighbouring rows.

The row order of a correct release is independent of the table, of published values, of the table of group values and of
other releases. Each test gives a standard score, with exact mean and variance over all orders. By chance, the score
exceeds the limit once in a million tests. `verify` checks what files disclose beside their rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sfumato._core.array_types import Codes, Places
from sfumato._profile.equivalence_classes import number_combinations
from sfumato._query.release import Release
from sfumato._risk.attackers.record_linkage import encode_shared_values, list_public_columns
from sfumato._risk.attackers.release_matching import MatchedRelease, read_published_codes
from sfumato._verify.check_results import Check
from sfumato.mechanisms.capabilities import CrowdAttackModel

LARGEST_SCORE = 4.891638475698590
"""The distance from 0 that a standard normal number exceeds once in a million times."""
LEAST_RECORDS = 20
"""With fewer records, the normal approximation would give false alarms."""


@dataclass(frozen=True, slots=True)
class OrderTest:
    """One test of an order, with the association (in standard deviations) of two things that should be independent."""

    name: str
    score: float
    records: int
    """The number of tested records; the score is 0 if they are too few."""
    largest_score: float = 0.0
    """The score of an order that discloses every tested record; 0 if they are too few."""

    @property
    def is_significant(self) -> bool:
        """Whether the order discloses something."""
        return abs(self.score) > LARGEST_SCORE

    @property
    def check(self) -> Check:
        """The test as a check of `verify`."""
        verdict = "are associated" if self.is_significant else "are independent"
        sentence = f"{self.name} {verdict} ({self.score:.1f} standard deviations, {self.records:,} records)."
        return Check("order", not self.is_significant, sentence)

    @classmethod
    def of(  # noqa: PLR0913, PLR0917 - a number, and what it could be
        cls, name: str, statistic: float, mean: float, variance: float, records: int, largest: float
    ) -> OrderTest:
        """Makes the score from a number, its mean and its variance over all orders, and its largest value."""
        if records < LEAST_RECORDS or not variance > 0:
            return cls(name, 0.0, records)
        deviation = math.sqrt(variance)
        return cls(name, (statistic - mean) / deviation, records, (largest - mean) / deviation)


def compare_places(name: str, one: Sequence[Codes], other: Sequence[Codes]) -> OrderTest:
    """Tests if people with the same public columns have the same row numbers in two tables.

    This is so in two releases with one key, and in a release that was never shuffled.
    """
    rows = len(one[0]) if one else 0
    if not rows or rows != len(other[0]):
        return OrderTest(name, 0.0, 0)
    class_numbers = number_combinations([np.concatenate(pair) for pair in zip(one, other, strict=True)])
    return _score_agreement(name, np.zeros(rows, dtype=np.int64), class_numbers[:rows], class_numbers[rows:])


def compare_order(name: str, one: Sequence[Codes], other: Sequence[Codes]) -> OrderTest:
    """Tests by rank correlation if people with unique public columns come in the same order in two tables."""
    rows = len(one[0]) if one else 0
    combined_numbers = number_combinations([np.concatenate(pair) for pair in zip(one, other, strict=True)])
    first, second = combined_numbers[:rows], combined_numbers[rows:]
    counts = [
        np.bincount(class_numbers, minlength=int(combined_numbers.max(initial=0)) + 1)
        for class_numbers in (first, second)
    ]
    unique_classes = np.flatnonzero((counts[0] == 1) & (counts[1] == 1))
    places = [np.empty(len(counts[0]), dtype=np.int64) for _ in range(2)]
    for place, class_numbers in zip(places, (first, second), strict=True):
        place[class_numbers] = np.arange(len(class_numbers))
    ranks = [np.argsort(np.argsort(place[unique_classes])).astype(np.float64) for place in places]
    number = len(unique_classes)
    if number < LEAST_RECORDS:
        return OrderTest(name, 0.0, number)
    correlation = float(np.corrcoef(ranks[0], ranks[1])[0, 1])
    return OrderTest.of(name, correlation, 0.0, 1 / (number - 1), number, largest=1.0)


def compare_neighbours(name: str, published_codes: Codes) -> OrderTest:
    """Tests if neighbouring records share their published value more often than by chance.

    The test uses the number of runs of several kinds (Wald and Wolfowitz 1940; Barton and David 1957). If a table is
    sorted by the protected column and perturbed without shuffling, its order discloses values.
    """
    counts, rows = np.bincount(published_codes).astype(np.float64), len(published_codes)
    if rows < LEAST_RECORDS:
        return OrderTest(name, 0.0, rows)
    squares, cubes = float((counts**2).sum()), float((counts**3).sum())
    mean = (squares - rows) / rows
    variance = (squares * (squares + rows * (rows + 1)) - 2 * rows * cubes - rows**3) / (rows**2 * (rows - 1))
    equal_neighbours = float((published_codes[1:] == published_codes[:-1]).sum())
    largest = rows - float((counts > 0).sum())  # each value in one run
    return OrderTest.of(name, equal_neighbours, mean, variance, rows, largest)


def compare_group_lists(name: str, groups: Codes, true_codes: Codes, lines: Codes, values: Codes) -> OrderTest:
    """Tests if the i-th record of each group has the i-th of the group's published values.

    `groups` and `true_codes` describe the records in the order of the release. `lines` are the groups of the values.
    """
    order = np.argsort(groups, kind="stable")
    return _score_agreement(
        name, groups[order].astype(np.int64), true_codes[order], values[np.argsort(lines, kind="stable")]
    )


def _score_agreement(name: str, groups: Places, one: Codes, other: Codes) -> OrderTest:
    """Scores the agreements of two lists, place by place, against random orders within each group.

    Both lists have the same values in each group. If c of n values are of a kind, the mean is the sum of c²/n, and the
    variance is (S2 - 2 S3/n + S2²/n²)/(n - 1), where Sk is the sum of c^k (Hoeffding 1951).
    """
    size = int(max(one.max(initial=0), other.max(initial=0))) + 1
    lines, counts = np.unique(groups * size + one, return_counts=True)
    group, group_counts = lines // size, counts.astype(np.float64)
    number = np.bincount(groups).astype(np.float64)
    sums = [
        np.bincount(group, weights=group_counts**power, minlength=len(number)).astype(np.float64) for power in (2, 3)
    ]
    rows, squares, cubes = (array[number > 1] for array in (number, *sums))
    variance = (squares - 2 * cubes / rows + (squares / rows) ** 2) / (rows - 1)
    is_testable = number[groups] > 1
    agreements, mean = float((one == other)[is_testable].sum()), float((squares / rows).sum())
    number_tested = int(is_testable.sum())
    return OrderTest.of(name, agreements, mean, float(variance.sum()), number_tested, largest=number_tested)


def detect_reused_key(one: str | Path, other: str | Path) -> OrderTest:
    """Detects that two releases of the same people have the same order. This happens if one key drew both releases.

    If nobody has a record, the noise of the counts is compared.
    """
    first, second = Release.open(one), Release.open(other)
    if first.manifest.mechanism.crowd_attack_model is not None:
        test = _compare_counts(first, second)
        if test is not None and test.is_significant:
            return test
    names = [name for name in list_public_columns(first) if name in list_public_columns(second)]
    tables = [
        pq.read_table(list(release.manifest.list_data_paths(release.folder)), columns=names)
        for release in (first, second)
    ]
    if not any(table.num_rows for table in tables):
        return OrderTest("the rows of the two releases", 0.0, 0)
    return compare_places("the rows of the two releases", *encode_shared_values(names, tables))


def _compare_counts(first: Release, second: Release) -> OrderTest | None:
    """Tests if two releases have more groups with equal counts than two different keys give. None if the groups differ.

    Independent noise is equal at most as often as there is no noise at all.
    """
    one, other = (item.manifest.encoding.read_crowds(item.manifest.naming, item.folder) for item in (first, second))
    if one is None or other is None or one.noisy.shape != other.noisy.shape or (one.people != other.people).any():
        return None
    model = first.manifest.mechanism.require(CrowdAttackModel)
    chance = float(model.list_moved_probabilities(first.manifest.design)[0])
    groups, mean = len(one), len(one) * chance
    equal = float((one.noisy == other.noisy).all(axis=1).sum())
    name = "the noisy counts of the two releases"
    return OrderTest.of(name, max(equal, mean), mean, mean * (1 - chance), groups, largest=float(groups))


def examine_row_order(release: Release, table: pa.Table) -> list[OrderTest]:
    """Tests the order of a release against the rows of its original that have a record. The test needs no key."""
    names, published_codes = list_public_columns(release), read_published_codes(release)
    records = pq.read_table(list(release.manifest.list_data_paths(release.folder)), columns=names)
    if not records.num_rows and not table.num_rows:
        return []
    release_codes, table_codes = encode_shared_values(names, [records, table])
    # The first member of a set is used.
    symbols = published_codes if published_codes.ndim == 1 else published_codes.argmax(axis=1)
    return [
        compare_places("the rows of the release and those of the table", release_codes, table_codes),
        compare_order("the order of the release and that of the table", release_codes, table_codes),
        compare_neighbours("published values and those of the next rows", symbols.astype(np.int64)),
    ]


def examine_value_table(release: MatchedRelease) -> list[OrderTest]:
    """Tests the order of the table of group values, if there is one."""
    if release.holdings is None:
        return []
    holdings, order = release.holdings, release.order
    lines, values = (np.repeat(array, holdings.counts) for array in (holdings.buckets, holdings.places))
    name = "the records of groups and the listed values of these groups"
    return [compare_group_lists(name, release.published_codes[order], release.true_codes[order], lines, values)]
