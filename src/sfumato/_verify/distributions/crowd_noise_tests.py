"""Compares the noise of counts with its distribution, given the true counts of the original.

The noise of a crowd is independent of everything else: of the crowd's public columns, its people and its counts, and of
the noise of other crowds. Three kinds of tests compare it with its distribution:

- Sums. The first sums are over the noise of each value, in the table and in each group of crowds. The second sum is
over the noise of values that nobody in the crowd has; clipped counts would raise this sum. The third sum is over the
products of two neighbouring crowds' noise. A right sum deviates by 8 standard deviations with a probability below 1e-10
(for products below 1e-9).
- Moved units, which are half the sum of a crowd's absolute noise. The noise says nothing about its ratio beyond their
sum. The shares of crowds with few or many moved units show noise that is missing in some crowds. The largest number of
moved units shows a count that is wrong by much in a single crowd. Chernoff's bounds hold for any number of crowds.
Right noise fails with a probability of at most one in a million, half of it for the whole table.
- Repetitions: pairs of crowds with the same rare noise.

Crowds are grouped by each public column, by their number of people, and by the number of values that they have.

With two values and an amplification of 4.5, right noise moves no unit in 64% of the crowds. So the tests notice a ratio
that is a tenth off if there are at least about 12,000 crowds. They notice missing noise in 5% of the crowds if there
are at least 40,000 crowds, or if the crowds without noise make up a group. With 17 values, 1,000 crowds are enough for
both. With two values, no test can do much better, because their noise says nothing beyond the number of moved units.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from sfumato._core.array_types import Bits64, Counts, Floats, Indices
from sfumato._records.sql_quoting import quote_name
from sfumato._verify.check_results import Check
from sfumato._verify.crowd_tables import CountTable, write_same_crowd_sql
from sfumato._verify.distributions.crowd_noise_distribution import CrowdNoise
from sfumato._verify.distributions.score_tests import MOST_DEVIATION, find_largest_deviation
from sfumato._verify.manifest_view import ManifestView
from sfumato._verify.original_counts import MOST_GROUPS, Connection, register_domain

ERROR_RATE = 1e-6
"""The largest rate at which right noise fails the tests of moved units."""
FEWEST_CROWDS = 50
"""The noise has heavier tails than a normal distribution.

With at least 50 crowds, sums deviate as rarely as stated above.
"""
FEWEST_PAIRS = 200
"""The same for products, whose tails are heavier."""
EXPECTED_REPETITIONS, FEWEST_REPETITIONS = 1e-3, 5
"""Noise is rare if this number of pairs of crowds with equal noise is expected. Five pairs or more then have a
probability below 1e-7."""
THRESHOLDS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.25, 0.5, 0.75, 0.9, 0.97, 0.99, 0.999)
"""The shares of crowds are compared at about these quantiles of the number of moved units."""
BATCH_COUNTS = 1 << 18
MOST_VALUES_HELD = 8
"""Crowds with at least this number of values are one group."""


def check_noise(connection: Connection, view: ManifestView, noise: CrowdNoise, table: CountTable) -> Check:
    """Checks that the noise of a table of counts is distributed as designed."""
    tests = NoiseTests(noise, _group_crowds(connection, table))
    for true_counts, noisy_counts in _iter_counts(connection, view, table):
        tests.add(true_counts, noisy_counts)
    return tests.make_check()


def are_tables_independent(
    connection: Connection, view: ManifestView, noises: Sequence[CrowdNoise], tables: Sequence[CountTable]
) -> bool:
    """Whether all tables have different noise in groups of the same number, if they have enough groups."""
    all_noise = [
        np.concatenate([noisy - true for true, noisy in _iter_counts(connection, view, table)]) for table in tables
    ]
    for place, (one, own_noise) in enumerate(zip(all_noise, noises, strict=True)):
        for other, other_noise in zip(all_noise[:place], noises[:place], strict=True):
            groups = min(len(one), len(other))
            size = own_noise.size
            variance = groups * own_noise.variance * other_noise.variance * size**2 / (size - 1)
            product = float((one[:groups] * other[:groups]).sum())
            if groups > FEWEST_PAIRS and abs(product) > MOST_DEVIATION * math.sqrt(variance):
                return False
    return True


def _group_crowds(connection: Connection, table: CountTable) -> list[Indices]:
    """The groupings of crowds that the original does not decide: one group, by public column, and by people."""
    crowds = table.crowds
    rows = connection.execute(f"SELECT people FROM {crowds} ORDER BY crowd").fetchnumpy()["people"].astype(np.int64)
    groupings = [np.zeros(len(rows), dtype=np.int64), np.frexp(rows.astype(np.float64))[1].astype(np.int64)]
    for name, *_ in connection.execute(f"DESCRIBE {crowds}").fetchall()[:-2]:
        ((values,),) = connection.execute(f"SELECT COUNT(DISTINCT {name}) FROM {crowds}").fetchall()
        if values <= MOST_GROUPS:
            sql = f"SELECT DENSE_RANK() OVER (ORDER BY {name}) - 1 AS number FROM {crowds} ORDER BY crowd"
            groupings.append(connection.execute(sql).fetchnumpy()["number"].astype(np.int64))
    return groupings


def _iter_counts(connection: Connection, view: ManifestView, table: CountTable) -> Iterator[tuple[Counts, Counts]]:
    """The true and the noisy counts of some crowds at a time, in the order of the crowds."""
    size, noisy_name = len(view.domain), quote_name(table.list_columns(view)[2])
    register_domain(connection, view)
    sensitive = f"o.{quote_name(view.sensitive_names[0])} IS NOT DISTINCT FROM d.v0"
    is_same = write_same_crowd_sql(table.public_names, "o", "c")
    true_sql = (
        f"SELECT c.crowd * {size} + d.place AS line, COUNT(*) AS people FROM original AS o JOIN {table.crowds} AS c "
        f"ON {is_same} JOIN domain AS d ON {sensitive} GROUP BY ALL ORDER BY line"
    )
    true_lines = connection.execute(true_sql).fetchnumpy()
    lines, people = (np.asarray(true_lines[name]).astype(np.int64) for name in ("line", "people"))
    first, pending = 0, np.zeros(0, dtype=np.int64)
    for batch in connection.sql(f"SELECT {noisy_name} FROM {table.lines}").to_arrow_reader(BATCH_COUNTS):
        pending = np.append(pending, batch.column(0).to_numpy(zero_copy_only=False).astype(np.int64))
        whole = len(pending) // size * size
        true_counts = np.zeros(whole, dtype=np.int64)
        part = slice(*np.searchsorted(lines, (first, first + whole)))
        true_counts[lines[part] - first] = people[part]
        yield true_counts.reshape(-1, size), pending[:whole].reshape(-1, size)
        first, pending = first + whole, pending[whole:]


@dataclass
class NoiseTests:
    """Sums over the noise of crowds, part after part, and what follows from them."""

    noise: CrowdNoise
    groupings: list[Indices]
    """The group of each crowd. The first grouping is the whole table."""
    crowds: int = 0
    values_held: list[Indices] = field(default_factory=list)
    units: list[Counts] = field(default_factory=list)
    """The moved units of each crowd."""
    hashes: list[Bits64] = field(default_factory=list)
    """A number for each crowd that depends only on its noise."""
    sums: list[Floats] = field(init=False)
    """The noise of each value (columns) in each group (rows), for each grouping."""
    absent: Floats = field(default_factory=lambda: np.zeros(2))
    """The noise of values that nobody in a crowd has, and the variance of this sum."""
    products: float = 0
    last: Counts | None = None

    def __post_init__(self) -> None:
        self.sums = [np.zeros((int(numbers.max(initial=-1)) + 1, self.noise.size)) for numbers in self.groupings]

    def add(self, true_counts: Counts, noisy_counts: Counts) -> None:
        """Adds the noise of the next crowds."""
        noise, size = noisy_counts - true_counts, self.noise.size
        part = slice(self.crowds, self.crowds + len(noise))
        for place, numbers in enumerate(self.groupings):
            is_member = numbers[part] == np.arange(len(self.sums[place]))[:, np.newaxis]
            self.sums[place] += is_member.astype(np.float64) @ noise
        held = (true_counts > 0).sum(axis=1)
        self.values_held.append(held)
        self.units.append(np.maximum(noise, 0).sum(axis=1))
        self.hashes.append(noise.astype(np.uint64) @ _make_multipliers(size))
        variance = self.noise.variance / (size - 1) * float((held * (size - held)).sum())
        self.absent += (float(noise[true_counts == 0].sum()), variance)
        chain = noise if self.last is None else np.concatenate([self.last, noise])
        self.products += float((chain[1:] * chain[:-1]).sum())
        self.last = chain[-1:]
        self.crowds += len(noise)

    def make_check(self) -> Check:
        """Compares all sums with the distribution of the noise."""
        worst, log_chance = self.find_largest_deviation(), self.compute_log_chance()
        if worst > MOST_DEVIATION:
            detail = f"the noise of the counts deviates from the design by {worst:.1f} standard deviations."
        elif self.has_repetitions():
            detail = "several groups have the same noise or no noise, so their counts are not protected."
        elif log_chance < math.log(ERROR_RATE):
            detail = (
                "the counts have more or less noise than the design says; by chance, this has a probability of at most "
                f"10^{log_chance / math.log(10):.0f}."
            )
        else:
            detail = (
                "the noise of the counts is distributed as the design says (largest deviation: "
                f"{worst:.1f} standard deviations; {self.crowds:,} groups were compared with the original)."
            )
            return Check("draws", True, detail)
        return Check("draws", False, detail)

    def find_largest_deviation(self) -> float:
        """The largest deviation of a sum, in standard deviations."""
        worst = 0.0
        if self.crowds >= FEWEST_CROWDS:
            worst = find_largest_deviation(self.absent[:1], self.absent[1:])
        for numbers, sums in zip(self.groupings, self.sums, strict=True):
            sizes = np.bincount(numbers, minlength=len(sums))
            is_large = sizes >= FEWEST_CROWDS
            variances = np.broadcast_to((self.noise.variance * sizes[is_large])[:, np.newaxis], sums[is_large].shape)
            worst = max(worst, find_largest_deviation(sums[is_large], variances))
        if self.crowds > FEWEST_PAIRS:
            variance = np.array([(self.crowds - 1) * self.noise.product_variance])
            worst = max(worst, find_largest_deviation(np.array([self.products]), variance))
        return worst

    def has_repetitions(self) -> bool:
        """Whether several pairs of crowds have the same rare noise."""
        if not self.crowds:
            return False
        rare_units = self.noise.find_rare_units(self.crowds, EXPECTED_REPETITIONS)
        rare_hashes = np.concatenate(self.hashes)[np.concatenate(self.units) >= rare_units]
        equal = np.unique_counts(rare_hashes).counts
        return int((equal * (equal - 1) // 2).sum()) >= FEWEST_REPETITIONS

    def compute_log_chance(self) -> float:
        """The logarithm of the smallest probability of moved units, multiplied by the number of comparisons.

        One half of the probability of a false alarm belongs to the whole table, and the other half to all groups.
        """
        if not self.crowds:
            return 0.0
        units = np.concatenate(self.units)
        held = np.minimum(np.concatenate(self.values_held), MOST_VALUES_HELD)
        whole, *groupings = [self._list_log_chances(numbers, units) for numbers in (*self.groupings, held)]
        parts = (np.append(whole, self._bound_largest(units)), np.concatenate(groupings))
        return min(0.0, *(float(chances.min(initial=0)) + math.log(2 * max(len(chances), 1)) for chances in parts))

    def _bound_largest(self, units: Indices) -> float:
        """The logarithm of a bound on the probability of the largest observed number of moved units.

        This is the probability that any crowd moves at least this number of units.
        """
        largest = np.array([units.max()], dtype=np.float64)
        if largest[0] <= self.noise.mean_units:
            return 0.0
        return float(self.noise.bound_unit_chance(largest, np.ones(1, dtype=np.int64))[0]) + math.log(self.crowds)

    def _list_log_chances(self, numbers: Indices, units: Indices) -> Floats:
        """Bounds on the probabilities of the moved units of each group: of their sum, and of shares of its crowds."""
        sizes = np.bincount(numbers).astype(np.int64)
        is_filled = sizes > 0
        sums = np.bincount(numbers, weights=units).astype(np.float64)
        log_chances = [self.noise.bound_unit_chance(sums[is_filled], sizes[is_filled])]
        cumulative = np.cumsum(self.noise.list_unit_chances())
        levels = np.unique(np.searchsorted(cumulative, THRESHOLDS))
        for level in levels[levels < len(cumulative)].tolist():
            few = np.bincount(numbers, weights=units <= level).astype(np.float64)
            log_chances.append(_bound_binomial(few[is_filled], sizes[is_filled], float(cumulative[level])))
        return np.concatenate(log_chances) + math.log(2)  # a sum or a share may be too small or too large


def _bound_binomial(counts: Floats, numbers: Indices, chance: float) -> Floats:
    """The logarithm of Chernoff's bound on a binomial count at least as far from its mean, on its side."""
    shares = counts / numbers
    with np.errstate(divide="ignore", invalid="ignore"):
        inside = np.where(shares > 0, shares * np.log(shares / chance), 0)
        outside = np.where(shares < 1, (1 - shares) * np.log((1 - shares) / (1 - chance)), 0)
    return np.asarray(-numbers * (inside + outside))


def _make_multipliers(size: int) -> Bits64:
    return np.random.default_rng(size).integers(1, 1 << 64, size, dtype=np.uint64, endpoint=False)
