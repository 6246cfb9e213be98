"""The promise, recomputed from the published rationals by first principles.

The whole law of what is published given what is true, its largest odds ratio, and Bayes' rule, all exact. None of the
planner's code is used, so a mistake there does not repeat itself here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from sfumato.errors import ReleaseFormatError
from sfumato.spec import exact


@dataclass(frozen=True)
class Law:
    """The law of one published value: `same` if it is the true one, `other` for each other value of the domain."""

    same: Fraction
    other: Fraction

    @property
    def amplification(self) -> Fraction:
        """The largest ratio between two chances of one published value, over all pairs of true values."""
        return max(self.same / self.other, self.other / self.same)


def published_law(ours: Mapping[str, Any]) -> Law:
    """The law of a published value, from the rationals of the manifest."""
    if ours["mechanism"] != "uniform":
        raise ReleaseFormatError(f"the mechanism {ours['mechanism']!r} cannot be verified by this version.")
    retention, size = exact(ours["design"]["retention"]), len(ours["design"]["domain"])
    other = (1 - retention) / size
    law = Law(1 - (size - 1) * other, other)
    if not 0 < law.other < law.same < 1:
        raise ReleaseFormatError("the design is no law of probability that protects anything.")
    return law


def worst_posterior(counts: Sequence[int], prior: Fraction, law: Law) -> Fraction:
    """The largest posterior of a value whose share is within the prior, for whoever knows the table's shares; exact.

    For a published value y, Bayes' rule gives x the chance n(x) P(y|x) / sum of n(z) P(y|z), with counts for shares. It
    is largest for y = x: another published value leaves x at most its share, its own leaves it at least that.
    """
    total = sum(counts)
    covered = [count for count in counts if count * prior.denominator <= prior.numerator * total]
    posteriors = (law.same * count / (law.same * count + law.other * (total - count)) for count in covered)
    return max(posteriors, default=Fraction(0))
