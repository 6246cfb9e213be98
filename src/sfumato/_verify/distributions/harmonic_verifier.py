"""The verifier of the harmonic operator, which has one retention for all values and one distribution of all redraws."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np

from sfumato._core.array_types import Floats
from sfumato._core.exact_numbers import parse_exact
from sfumato._core.json_types import JsonView
from sfumato._verify.check_results import Check
from sfumato._verify.distributions import single_value_checks as value_distribution
from sfumato._verify.distributions.reference_distribution import (
    ReferenceDistribution,
    ValueRetention,
    WeightTable,
)
from sfumato._verify.distributions.score_tests import compute_expected_weights, find_largest_deviation
from sfumato._verify.distributions.single_value_bounds import check_single_posteriors, check_single_values
from sfumato._verify.distributions.sub_table_distribution import read_retention
from sfumato._verify.distributions.weight_checks import are_close, are_values
from sfumato._verify.manifest_view import ManifestView
from sfumato._verify.original_counts import Connection
from sfumato.errors import ReleaseFormatError


@dataclass(frozen=True)
class RedrawDistribution:
    """The distribution of a published value, which is kept, or drawn independently of the true value."""

    retention: Fraction
    draw_chances: tuple[Fraction, ...]

    def compute_rise(self, number: int) -> Fraction | None:
        """The largest factor by which a published value multiplies the odds of one value against another.

        If the value itself is published, the probability of this is larger by the retention than for records of other
        values. If another value is published, the probability is the same as for records of a third value, and smaller
        than for records of the published value.
        """
        return 1 + self.retention / self.draw_chances[number] if self.draw_chances[number] else None

    def compute_transition(self, published_counts: Mapping[int, Floats], size: int) -> Floats:
        """The probability that each value (row) is published as each value (column)."""
        return np.tile([float(chance) for chance in self.draw_chances], (size, 1)) + float(self.retention) * np.eye(
            size
        )

    def measure_deviation(self, true_counts: Floats, published_counts: Mapping[int, Floats]) -> float:
        """The largest deviation of a published count, in standard deviations."""
        other, retention = np.array([float(chance) for chance in self.draw_chances]), float(self.retention)
        same = other + retention
        variance = (true_counts.sum() - true_counts) * other * (1 - other) + true_counts * same * (1 - same)
        return find_largest_deviation(
            published_counts.get(0, np.zeros(len(true_counts))) - true_counts.sum() * other - true_counts * retention,
            variance,
        )

    def compute_posteriors(self, counts: Sequence[int]) -> list[Fraction]:
        """The exact largest posterior of each value, for an attacker who knows the counts.

        If y is published, the probability of x is n(x) P(y|x) / sum of n(z) P(y|z), and the sum is n(y) kept + total *
        drawn(y).
        """
        total = sum(counts)
        published_weights = [
            count * self.retention + total * draw_chance
            for count, draw_chance in zip(counts, self.draw_chances, strict=True)
        ]
        # The weight of y for its own records, for each record that is drawn into y. The smallest weight discloses most
        # about x.
        rivals = (
            (top / draw_chance, y)
            for y, (top, draw_chance) in enumerate(zip(published_weights, self.draw_chances, strict=True))
            if draw_chance
        )
        rarest, largest_posteriors = heapq.nsmallest(2, rivals), []
        for x, count in enumerate(counts):
            own = (
                count * (self.retention + self.draw_chances[x]) / published_weights[x]
                if published_weights[x]
                else Fraction(0)
            )
            beside = next((count / rival for rival, y in rarest if y != x and rival), Fraction(0))
            largest_posteriors.append(max(own, beside))
        return largest_posteriors


def read_distribution(design: JsonView) -> RedrawDistribution:
    """Reads the distribution from the rational numbers of the manifest."""
    distribution = RedrawDistribution(read_retention(design), tuple(parse_exact(swap) for swap in design["swaps"]))
    if (
        len(distribution.draw_chances) != len(design["domain"])
        or min(distribution.draw_chances) < 0
        or distribution.retention + sum(distribution.draw_chances) != 1
    ):
        raise ReleaseFormatError(
            "the design is not a probability distribution that protects values.", code="invalid-distribution"
        )
    return distribution


def check_guarantee(folder: Path, view: ManifestView) -> Check:
    """Checks that no belief in a value with a bound rises above the posterior of the bound."""
    return check_single_values(view.design, read_distribution(view.design).compute_rise, None)


def are_weights(view: ManifestView, table: WeightTable) -> bool:
    """Checks the weights of each value: for a record that publishes this value, and for other records."""
    distribution = read_distribution(view.design)
    expected = [
        (0, *compute_expected_weights(distribution.retention + draw_chance, draw_chance))
        for draw_chance in distribution.draw_chances
    ]
    weight_rows = zip(table["cell"], table["if_equal"], table["otherwise"], strict=True)
    return are_close(weight_rows, expected) and are_values(
        view, table, {"value": range(len(distribution.draw_chances))}
    )


def check_draws(connection: Connection, view: ManifestView) -> Check:
    """Checks the published values with the retention, and the distribution of the redraws."""
    distribution = read_distribution(view.design)
    return value_distribution.check_published_counts(
        connection, view, distribution.measure_deviation, distribution.compute_transition
    )


def check_posteriors(connection: Connection, view: ManifestView) -> Check:
    """Checks each value with a bound, by Bayes' rule with the counts of the original."""
    return check_single_posteriors(connection, view, read_distribution(view.design).compute_posteriors)


def list_value_retentions(explanation: JsonView, design: JsonView, counts: Sequence[int]) -> list[list[ValueRetention]]:
    """The single sub-table of all values, with the probability that each is drawn."""
    distribution = read_distribution(design)
    pairs = zip(design["domain"], counts, distribution.draw_chances, strict=True)
    return [
        [
            ValueRetention(value, count, distribution.retention, draw_chance / (1 - distribution.retention))
            for value, count, draw_chance in pairs
        ]
    ]


REFERENCE_DISTRIBUTION = ReferenceDistribution(
    guarantees=("single-values",),
    make_encoding=value_distribution.make_domain_encoding,
    check_domain=value_distribution.check_domain,
    check_guarantee=check_guarantee,
    are_weights=are_weights,
    check_draws=check_draws,
    check_posteriors=check_posteriors,
    list_value_retentions=list_value_retentions,
)
