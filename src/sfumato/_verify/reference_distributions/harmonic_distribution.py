"""The law of the harmonic operator: one coin for all values, and one law by which every record is redrawn."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from sfumato._core.arrays import Floats
from sfumato._core.exact_numbers import parse_exact
from sfumato._verify.manifest_view import Written
from sfumato._verify.original_counts import Connection
from sfumato._verify.reference_distributions import value_distribution
from sfumato._verify.reference_distributions.reference_distribution import Json, ReferenceDistribution, ValueRetention
from sfumato._verify.reference_distributions.score_tests import compute_expected_weights, find_largest_deviation
from sfumato._verify.reference_distributions.single_value_bounds import check_single_posteriors, check_single_values
from sfumato._verify.reference_distributions.sub_table_distribution import read_retention
from sfumato._verify.reference_distributions.weight_checks import are_close, are_values
from sfumato._verify.verification import Check
from sfumato.errors import ReleaseFormatError


@dataclass(frozen=True)
class DrawnLaw:
    """The law of a published value: kept with one chance, or drawn with chances that do not depend on what it was."""

    kept: Fraction
    drawn: tuple[Fraction, ...]

    def rise(self, number: int) -> Fraction | None:
        """The largest factor by which a published value multiplies the odds of one value against another.

        Shown as itself, the value is likelier than any other by what is kept. Shown as another one it is as likely as
        a third value, and less likely than the one that is shown.
        """
        return 1 + self.kept / self.drawn[number] if self.drawn[number] else None

    def transition(self, shown: Mapping[int, Floats], size: int) -> Floats:
        """The chance that each value (row) shows as each other."""
        return np.tile([float(chance) for chance in self.drawn], (size, 1)) + float(self.kept) * np.eye(size)

    def deviation(self, held: Floats, shown: Mapping[int, Floats]) -> float:
        """By how many standard deviations a published count is off at most."""
        other, retention = np.array([float(chance) for chance in self.drawn]), float(self.kept)
        same = other + retention
        variance = (held.sum() - held) * other * (1 - other) + held * same * (1 - same)
        return find_largest_deviation(
            shown.get(0, np.zeros(len(held))) - held.sum() * other - held * retention, variance
        )

    def posteriors(self, counts: Sequence[int]) -> list[Fraction]:
        """For each value, its largest posterior for whoever knows the counts; exact.

        Shown as y, x has the chance n(x) P(y|x) / sum of n(z) P(y|z), and the sum is n(y) kept + total * drawn(y).
        """
        total = sum(counts)
        shown = [count * self.kept + total * drawn for count, drawn in zip(counts, self.drawn, strict=True)]
        # What y is shown for by those who hold it, for each record that is drawn into y: the least tells most of x.
        rivals = ((top / drawn, y) for y, (top, drawn) in enumerate(zip(shown, self.drawn, strict=True)) if drawn)
        rarest, largest_posteriors = heapq.nsmallest(2, rivals), []
        for x, count in enumerate(counts):
            own = count * (self.kept + self.drawn[x]) / shown[x] if shown[x] else Fraction(0)
            beside = next((count / rival for rival, y in rarest if y != x and rival), Fraction(0))
            largest_posteriors.append(max(own, beside))
        return largest_posteriors


def read_distribution(design: Json) -> DrawnLaw:
    """The law, from the rationals of the manifest."""
    law = DrawnLaw(read_retention(design), tuple(parse_exact(swap) for swap in design["swaps"]))
    if len(law.drawn) != len(design["domain"]) or min(law.drawn) < 0 or law.kept + sum(law.drawn) != 1:
        raise ReleaseFormatError("the design is no law of probability that protects anything.")
    return law


def check_promise(folder: Path, written: Written) -> Check:
    """No belief in a value with a bound rises above its posterior."""
    return check_single_values(written.design, read_distribution(written.design).rise, None)


def are_weights(written: Written, table: Mapping[str, list[Any]]) -> bool:
    """A line for each value: what a record adds if it shows that value, and otherwise."""
    law = read_distribution(written.design)
    expected = [(0, *compute_expected_weights(law.kept + drawn, drawn)) for drawn in law.drawn]
    weight_rows = zip(table["cell"], table["if_equal"], table["otherwise"], strict=True)
    return are_close(weight_rows, expected) and are_values(written, table, {"value": range(len(law.drawn))})


def check_draws(connection: Connection, written: Written) -> Check:
    """Values by the coin, and by the law of the redraws."""
    law = read_distribution(written.design)
    return value_distribution.check_published_counts(connection, written, law.deviation, law.transition)


def check_posteriors(connection: Connection, written: Written) -> Check:
    """Each value with a bound, by Bayes' rule with the counts of the original."""
    return check_single_posteriors(connection, written, read_distribution(written.design).posteriors)


def list_value_retentions(explained: Json, design: Json, counts: Sequence[int]) -> list[list[ValueRetention]]:
    """The one cell of all values, each with its chance to be drawn."""
    law = read_distribution(design)
    pairs = zip(design["domain"], counts, law.drawn, strict=True)
    return [[ValueRetention(value, count, law.kept, drawn / (1 - law.kept)) for value, count, drawn in pairs]]


REFERENCE_DISTRIBUTION = ReferenceDistribution(
    guarantees=("single-values",),
    shown=value_distribution.make_domain_encoding,
    domain=value_distribution.check_domain,
    promise=check_promise,
    weights=are_weights,
    draws=check_draws,
    posteriors=check_posteriors,
    coins=list_value_retentions,
)
