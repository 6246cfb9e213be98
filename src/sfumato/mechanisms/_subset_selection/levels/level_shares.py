"""Computes the best share of the records for each level of a hierarchy, and the weight of each level in each count.

A tier is a level at which some records are drawn. Above the last tier is the whole domain. A record estimates contrasts
of a tier. A contrast is an indicator of the true value's group, minus the expectation of this indicator. The
expectation follows from the group above and the group's size. A record gives no information about tiers below its own.

Notation: n = groups of a level, r and R = how many of them a group and the group above it hold, k and K = how many
values; x = the contrast of a group, 1 on its r and then k/K less on all R; d, a, b as for the sets of the level.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from sfumato._core.array_types import Counts, Floats, Indices
from sfumato.mechanisms._subset_selection.set_sampler import SubsetSelection

SHARE_STEPS = 100
"""Computed shares are multiples of 0.01, and at least 0.01."""
WEIGHT_STEPS = 10_000
LARGEST_DENOMINATOR = 10**9
"""The largest denominator of the variances that determine shares and contrast weights, so that their sums stay
short.
"""


@dataclass(frozen=True, eq=False)
class Tier:
    """Groups of the values: the index of each value's group."""

    places: Indices

    @cached_property
    def sizes(self) -> Counts:
        """The number of values in each group."""
        return np.bincount(self.places)

    @property
    def group_count(self) -> int:
        """The number of groups."""
        return len(self.sizes)

    @cached_property
    def order(self) -> Indices:
        """The values, group by group."""
        return np.argsort(self.places, kind="stable")

    @cached_property
    def starts(self) -> Indices:
        """The index in that order at which each group begins."""
        return np.cumsum(self.sizes) - self.sizes

    @cached_property
    def first_values(self) -> Indices:
        """The first value of each group."""
        return self.order[self.starts]

    def count_groups(self, level: Tier) -> Counts:
        """The number of groups of a lower level in each group."""
        return np.bincount(self.places[level.first_values], minlength=self.group_count)

    def compute_means(self, theta: Floats) -> Floats:
        """For each value, the mean of theta over the value's group.

        There may be several thetas, along the last axis.
        """
        sums = np.add.reduceat(theta[..., self.order], self.starts, axis=-1)
        return np.asarray((sums / self.sizes)[..., self.places])


def build_tiers(groups: Sequence[Sequence[int]]) -> tuple[Tier, ...]:
    """The tiers of some levels, and the whole domain above them."""
    return tuple(Tier(np.array(places)) for places in (*groups, [0] * len(groups[0])))


def group_by_kind(tiers: Sequence[Tier], number: int) -> list[tuple[int, Indices]]:
    """Collects the groups of a tier by the sizes of all groups above.

    Returns the first of each kind, and the members of the kind.
    """
    first = tiers[number].first_values
    sizes = [
        above.count_groups(level)[above.places[first]]
        for at, above in enumerate(tiers)
        if at >= number
        for level in tiers[: at + 1]
    ]
    _, kind_numbers = np.unique(np.array(sizes), axis=1, return_inverse=True)
    alike = [np.flatnonzero(kind_numbers.ravel() == kind) for kind in range(int(kind_numbers.max()) + 1)]
    return [(int(groups[0]), groups) for groups in alike]


Variances = list[list[list[Fraction]]]


def compute_level_variances(tiers: Sequence[Tier], selections: Sequence[SubsetSelection]) -> Variances:
    """The variance that a record of each level adds to a group's count, by tier, tier of contrasts and level.

    All groups of a level are taken as equally frequent. A set is then a random set of size d, and the sum of x over it
    has the variance d (n-d) / (n (n-1)) times that of x. A contrast of a tier is divided among its groups in proportion
    to their sizes. The result is the mean over the groups of the tier.
    """
    count = len(selections)
    level_variances: Variances = [[[Fraction(0)] * count for _ in range(count)] for _ in range(count)]
    for at, (tier, above) in enumerate(itertools.pairwise(tiers)):
        parents = above.places[tier.first_values].tolist()
        parts = [Fraction(int(size), int(above.sizes[up])) for size, up in zip(tier.sizes, parents, strict=True)]
        shares = [_sum_squared_parts(tiers[lower], tier) for lower in range(at + 1)]
        for level, selection in enumerate(selections[: at + 1]):
            scale = Fraction(
                selection.members * (selection.size - selection.members), selection.size * (selection.size - 1)
            )
            scale /= (selection.hold_probability - selection.other_probability) ** 2
            group_counts, beside = tier.count_groups(tiers[level]).tolist(), above.count_groups(tiers[level]).tolist()
            spreads = []
            for part, inside, around in zip(parts, group_counts, (beside[up] for up in parents), strict=True):
                squares = inside * (1 - part) ** 2 + (around - inside) * part**2
                spreads.append(squares - (inside - part * around) ** 2 / selection.size)
            for lower, divided in enumerate(shares):
                total = sum(spread * share for spread, share in zip(spreads, divided, strict=True))
                mean = scale * total / tiers[lower].group_count
                level_variances[lower][at][level] = mean.limit_denominator(LARGEST_DENOMINATOR)
    return level_variances


def _sum_squared_parts(lower: Tier, tier: Tier) -> list[Fraction]:
    """For each group of a tier, the sum of the squared shares of its groups of a lower tier."""
    squares = np.bincount(tier.places[lower.first_values], weights=lower.sizes**2).astype(np.int64)
    return [Fraction(square, size**2) for square, size in zip(squares.tolist(), tier.sizes.tolist(), strict=True)]


def compute_contrast_weights(shares: Sequence[Fraction], level_variances: Variances) -> list[list[Fraction]]:
    """For each tier, the weight of each level up to it in its contrasts, in proportion to its precision.

    This is generalised least squares for equally frequent groups, with one number for all groups of a tier, large or
    small. So the contribution of a record depends only on the lowest common group of its value and the counted value.
    Counts of groups are therefore consistent.
    """
    weights = []
    for tier in range(len(shares)):
        precise = [shares[level] / level_variances[tier][tier][level] for level in range(tier + 1)]
        # Rounded down, so that the rest for the first level is never negative.
        rounded = [
            Fraction(math.floor(precision / sum(precise) * WEIGHT_STEPS), WEIGHT_STEPS) for precision in precise[1:]
        ]
        weights.append([1 - sum(rounded, Fraction(0)), *rounded])
    return weights


def find_best_shares(importance: Sequence[Fraction], level_variances: Variances) -> list[Fraction]:
    """The shares in hundredths that minimise the sum of each level's variance, weighted by the level's importance.

    The sum is convex in the shares, so single hundredths are moved from level to level as long as the sum falls.
    """
    count = len(importance)

    def error(parts: Sequence[int]) -> Fraction:
        shares = [Fraction(part, SHARE_STEPS) for part in parts]
        total = Fraction(0)
        for contrast in range(count):
            precise = [shares[level] / level_variances[contrast][contrast][level] for level in range(contrast + 1)]
            for tier, level in itertools.product(range(contrast + 1), range(contrast + 1)):
                factor = precise[level] / sum(precise)
                total += importance[tier] * factor**2 / shares[level] * level_variances[tier][contrast][level]
        return total

    best = [SHARE_STEPS // count + (level < SHARE_STEPS % count) for level in range(count)]
    least, is_moving = error(best), True
    while is_moving:
        is_moving = False
        for source, target in itertools.permutations(range(count), 2):
            while best[source] > 1:
                moved = [part - (at == source) + (at == target) for at, part in enumerate(best)]
                moved_error = error(moved)
                if moved_error >= least:
                    break
                best, least, is_moving = moved, moved_error, True
    return [Fraction(part, SHARE_STEPS) for part in best]
