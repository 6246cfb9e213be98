"""Phase 3: merges neighbouring groups into sub-tables, each with its own uniform perturbation.

Claim: of all ways to cut a sequence of groups into runs, the one with the smallest cost is found. Every run must be a
sub-table that can be perturbed: it has a protected value, and no protected value has a share as large as the posterior
(compared in integers). Costs are floats and only serve for ranking. Of equal costs, the solution with the longest last
sub-table is chosen.
Source: Chaytor and Wang, section 5.3 (least error bound) and Eq. (12). Least variance is ours, because the error bound
is valid but ranks partitions wrongly (docs/errata.md).
Notation: T_i = a cell, n = total, m = domain_size, ρ1 = prior, ρ2 = posterior, γ = amplification, p = retention, q =
swap_probability, a = p + q, δ = 1/20; ε = 2·√ln(2/δ) / (√n·p); variance = n·(a(1-a) + (m-1)q(1-q)) / p².
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from sfumato.errors import InfeasibleError, InternalError
from sfumato.mechanisms._randomized_response.guarantee_sentences import BOUND_FACTOR
from sfumato.mechanisms._randomized_response.small_domain.balancing import Group

Part = tuple[int, ...]
"""The numbers of the groups that form a sub-table."""


@dataclass(frozen=True, slots=True)
class CellShape:
    """The numbers that determine a sub-table's perturbation. `peak` is the largest count of a protected value."""

    total: int
    domain_size: int
    peak: int

    @property
    def prior(self) -> Fraction | None:
        """The largest share of a protected value; None without one."""
        return Fraction(self.peak, self.total) if self.peak else None

    def is_feasible(self, posterior: Fraction) -> bool:
        """Whether there is a protected value, and beliefs about it may rise. There is a second value in this case."""
        return 0 < self.peak * posterior.denominator < posterior.numerator * self.total

    def split_outcomes(self, posterior: Fraction) -> tuple[int, int]:
        """Of `keep + domain_size * swap` outcomes, `keep` keep the value, and `swap` give each value of the sub-table.

        p / q = γ - 1 = (ρ2 - ρ1) / (ρ1 (1-ρ2)), in integers. If the sub-table is infeasible, the numbers are not
        positive and cannot be used.
        """
        keep = posterior.numerator * self.total - posterior.denominator * self.peak
        swap = (posterior.denominator - posterior.numerator) * self.peak
        return keep, swap

    def compute_amplification(self, posterior: Fraction) -> Fraction | None:
        """The odds of the posterior divided by those of the prior. None (unbounded) without a prior."""
        keep, swap = self.split_outcomes(posterior)
        return Fraction(keep + swap, swap) if swap else None

    def compute_retention(self, posterior: Fraction) -> Fraction:
        """The probability that a record keeps its value."""
        keep, swap = self.split_outcomes(posterior)
        if keep <= 0:
            raise InternalError(
                f"for a sub-table with the prior {self.prior}, no retention meets the posterior {posterior}.",
                code="no-retention",
            )
        return Fraction(keep, keep + self.domain_size * swap)

    def compute_swap_probability(self, posterior: Fraction) -> Fraction:
        """The probability that a record gets one given other value of its sub-table."""
        return (1 - self.compute_retention(posterior)) / self.domain_size


@dataclass(frozen=True, slots=True)
class CountedCell(CellShape):
    """A sub-table: groups that are perturbed together. Only values that occur in these groups replace each other."""

    counts: Group

    @property
    def places(self) -> tuple[int, ...]:
        """The indices of the values that occur, in order."""
        return tuple(place for place, count in enumerate(self.counts) if count)


def merge_groups(groups: Sequence[Group], protected: Sequence[int]) -> CountedCell:
    """The union of groups."""
    counts = tuple(map(sum, zip(*groups, strict=True)))
    peak = max((counts[place] for place in protected), default=0)
    return CountedCell(sum(counts), sum(map(bool, counts)), peak, counts)


def compute_error_bound(cells: Sequence[CellShape], posterior: Fraction) -> float:
    """The paper's bound on the error of a reconstructed share, Eq. (12); infinite if a belief may not rise."""
    return BOUND_FACTOR * sum(_compute_bound(cell, posterior) for cell in cells) / sum(cell.total for cell in cells)


def compute_total_variance(cells: Sequence[CellShape], posterior: Fraction) -> float:
    """The sum of the variances of the reconstructed counts of all values; infinite if a belief may not rise."""
    return sum(_compute_variance(cell, posterior) for cell in cells)


def _compute_bound(shape: CellShape, posterior: Fraction) -> float:
    """√n / p: what a sub-table contributes to the error bound, without the factor that all sub-tables share."""
    return math.sqrt(shape.total) * (1 + shape.domain_size * _compute_noise(shape, posterior))


def _compute_variance(shape: CellShape, posterior: Fraction) -> float:
    """n·(a(1-a) + (m-1)q(1-q)) / p² = n·(m-1)·(q/p)·(1/p + 1), as 1-a = (m-1)q."""
    noise = _compute_noise(shape, posterior)
    if noise == math.inf:
        return noise
    return shape.total * (shape.domain_size - 1) * noise * (2 + shape.domain_size * noise)


def _compute_noise(shape: CellShape, posterior: Fraction) -> float:
    """The ratio q/p, with 1/p = 1 + m·q/p; infinite if no belief may rise, or by less than floats resolve."""
    keep, swap = shape.split_outcomes(posterior)
    try:
        return swap / keep if keep > 0 else math.inf
    except OverflowError:
        return math.inf


def merge_by_bound(
    groups: Sequence[Group], order: Sequence[int], protected: Sequence[int], posterior: Fraction, minimum: int
) -> tuple[Part, ...]:
    """The runs of `order` with the smallest error bound.

    No run has fewer than `minimum` records, unless it is the whole table.
    """
    return _merge_cheapest(groups, order, protected, _make_price(groups, protected, posterior, minimum, _compute_bound))


def merge_by_variance(
    groups: Sequence[Group], protected: Sequence[int], posterior: Fraction, minimum: int
) -> tuple[Part, ...]:
    """The runs of the groups in order of creation with the smallest variance; `minimum` as in `merge_by_bound`."""
    return _merge_cheapest(
        groups, range(len(groups)), protected, _make_price(groups, protected, posterior, minimum, _compute_variance)
    )


def _make_price(
    groups: Sequence[Group],
    protected: Sequence[int],
    posterior: Fraction,
    minimum: int,
    cost: Callable[[CellShape, Fraction], float],
) -> Callable[[CellShape], float]:
    """Makes the cost function of a sub-table, which is infinite if the sub-table is not allowed.

    Refuses a table that is not allowed as a whole.
    """
    whole = merge_groups(groups, protected)
    if not whole.peak:
        raise InfeasibleError(
            "no value of the sensitive column is protected; choose a prior that covers rare values.",
            code="no-value-below-prior",
        )
    if whole.domain_size == 1:
        raise InfeasibleError(
            "the sensitive column has only one value, so no other value can replace it; declare the whole domain "
            "(`domains=`).",
            code="one-value-domain",
        )
    if not whole.is_feasible(posterior):
        raise InfeasibleError(
            f"a protected value has a share of {whole.prior} of the records, and the posterior {posterior} is not "
            f"above this share, so no belief may rise. Choose a posterior above {whole.prior}, or a prior below it.",
            code="posterior-not-above-share",
            fields={"share": str(whole.prior), "posterior": str(posterior)},
        )

    def price(shape: CellShape) -> float:
        return cost(shape, posterior) if shape.total >= minimum and shape.is_feasible(posterior) else math.inf

    return price


def _merge_cheapest(
    groups: Sequence[Group], order: Sequence[int], protected: Sequence[int], price: Callable[[CellShape], float]
) -> tuple[Part, ...]:
    """The cheapest runs by dynamic programming, Eq. (14).

    For the first i groups, best[i] is the smallest cost and the start of the last sub-table. If no cost is finite, the
    whole table is one sub-table.
    """
    # The values that occur and their counts, because most groups have few values.
    records = [[(place, count) for place, count in enumerate(groups[number]) if count] for number in order]
    protected_set = frozenset(protected)
    best = [(0.0, 0)] + [(math.inf, 0)] * len(order)
    for start in range(len(order)):
        cost, _ = best[start]
        if cost < math.inf:
            for end, shape in enumerate(_generate_unions(records[start:], protected_set), start + 1):
                best[end] = min(best[end], (cost + price(shape), start))
    runs: list[Part] = []
    end = len(order)
    while end:
        _, start = best[end]
        runs.append(tuple(order[start:end]))
        end = start
    return tuple(reversed(runs))


def _generate_unions(groups: Sequence[list[tuple[int, int]]], protected: frozenset[int]) -> Iterator[CellShape]:
    """Generates the shapes of the first group, of the first two, of the first three, and so on."""
    counts: dict[int, int] = defaultdict(int)
    total = peak = 0
    for group in groups:
        for place, count in group:
            counts[place] += count
            total += count
            if place in protected:
                peak = max(peak, counts[place])
        yield CellShape(total, len(counts), peak)
