"""The distribution of decoys, derived from the published histogram alone, and its inverse.

A distribution acts on numbers along the last axis of an array, one for each value. `mean` gives the average published
number of a record of each value. `solve` finds the numbers to publish so that the average number of a record is the
wanted one.

Notation: gamma = group size, phi = share of a value, a = leak: the chance that a record of another value shows it, d =
1/gamma - a = gain, W = how often values meet.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property, lru_cache
from typing import Protocol

import numpy as np

from sfumato._core.array_types import Floats, Indices, Mask
from sfumato._core.json_types import Json
from sfumato._core.random_draws import Draws
from sfumato.mechanisms._decoys.group_creation import (
    Groups,
    count_tranches,
    make_fullest_groups,
    make_mixed_groups,
    shuffle_orders,
)

NEAR_LARGEST = 1e-6
"""A value is treated as in every group if its share is nearer than this to the largest possible one."""
TINY = 1e-150
HALVINGS = 100
SINGULAR = 1e-9
"""Directions with less than this share of information in the groups are treated as lost."""

RECOMPUTATIONS = 4
FEW_VALUES, MORE_RECOMPUTATIONS = 100, 16
"""With at most this many values, the meetings vary more, and mixed groups can be recomputed fast."""


class GroupCreation(StrEnum):
    """The method that makes decoy groups."""

    MIXED = "mixed"
    ANATOMY_RANDOM = "anatomy-random"
    ANATOMY = "anatomy"


def create_groups(counts: list[int], group_size: int, creation: GroupCreation, draws: Draws, purpose: str) -> Groups:
    """Makes the groups of a table; everything random in them follows from the key."""
    stream = draws.get_stream(f"{purpose}/groups")
    if creation is GroupCreation.MIXED:
        tranches = count_tranches(sum(counts), len(counts), group_size) + 1
        return make_mixed_groups(
            counts, group_size, shuffle_orders(stream.draw_bits(0, tranches * len(counts)), len(counts))
        )
    return make_fullest_groups(counts, group_size, stream if creation is GroupCreation.ANATOMY_RANDOM else None)


class DecoyDistribution(Protocol):
    """The distribution of the published value, given the true value."""

    @property
    def shares(self) -> Floats:
        """The published shares of the values."""
        ...

    def is_estimable(self, theta: Floats) -> bool:
        """Whether published values determine the wanted numbers under a condition on public columns."""
        ...

    def solve(self, theta: Floats) -> Floats:
        """The contribution of each published value that adds `wanted` of the true value on average."""
        ...

    def average(self, numbers: Floats) -> Floats:
        """The average of the numbers that a record of each value publishes."""
        ...

    def expect_published(self, true_counts: Floats) -> Floats:
        """The expected number of records that publish each value, given the true counts."""
        ...

    def export_numbers(self) -> Json:
        """The distribution for a script: `mean` and `solve` as matrices or diagonals, and the lost directions."""
        ...


@dataclass(frozen=True, eq=False)
class EvenDistribution:
    """Assumes that all other values leak equally into a value.

    This is about right for mixed groups without frequent values.
    """

    published_shares: Floats
    """The published shares of the values."""
    group_size: int

    @property
    def shares(self) -> Floats:
        """The published shares of the values."""
        return self.published_shares

    @cached_property
    def leaks(self) -> Floats:
        """The leak of each value: A = phi (gamma - 1) / (gamma (1 - phi))."""
        rest = np.maximum(1 - self.shares, SINGULAR)
        return np.asarray(self.shares * (self.group_size - 1) / (self.group_size * rest))

    @cached_property
    def gains(self) -> Floats:
        """d: the probability to publish a value for a record with this value, minus that for another record."""
        return np.asarray(1 / self.group_size - self.leaks)

    @property
    def is_countable(self) -> Mask:
        """Whether each value can be counted.

        A value in every group, with a share of one over the group size, cannot.
        """
        return self.gains > SINGULAR

    @property
    def record_variances(self) -> tuple[Floats, Floats]:
        """The variance that a record with a value, and a record with another value, adds to the count of this value."""
        own, gains = 1 / self.group_size, np.where(self.is_countable, self.gains, np.nan)
        return own * (1 - own) / gains**2, np.asarray(self.leaks * (1 - self.leaks) / gains**2)

    def is_estimable(self, theta: Floats) -> bool:
        """Whether no wanted value is in every group."""
        return not bool(theta[..., ~self.is_countable].any())

    @cached_property
    def _inverse(self) -> Floats:
        return np.divide(1.0, self.gains, out=np.zeros_like(self.gains), where=self.is_countable)

    @cached_property
    def _scale(self) -> Floats:
        """The factor that makes the chances of a value's record add up to 1."""
        others = np.maximum(self.leaks.sum() - self.leaks, SINGULAR)
        return np.asarray((1 - 1 / self.group_size) / others)

    def solve(self, theta: Floats) -> Floats:
        """The expectation under independence, plus the excess over the gain: phi R + (y - phi R) / d for one value."""
        constant = (theta * self.shares * (1 - self._inverse)).sum(axis=-1, keepdims=True)
        return np.asarray(theta * self._inverse + constant)

    def average(self, numbers: Floats) -> Floats:
        """The average published number.

        A record publishes its own value with probability one over the group size, and others by their leaks.
        """
        leaked = (numbers * self.leaks).sum(axis=-1, keepdims=True) - numbers * self.leaks
        return np.asarray(leaked * self._scale + numbers / self.group_size)

    def expect_published(self, true_counts: Floats) -> Floats:
        """The expected number of records that publish each value, given the true counts."""
        moved = true_counts * self._scale
        return np.asarray((moved.sum(axis=-1, keepdims=True) - moved) * self.leaks + true_counts / self.group_size)

    def export_numbers(self) -> Json:
        """The distribution as a diagonal and two vectors. The lost directions are the values in every group."""
        return {
            "shares": self.shares,
            "mean_diagonal": 1 / self.group_size - self.leaks * self._scale,
            "mean_left": self._scale,
            "mean_right": self.leaks,
            "solve_diagonal": self._inverse,
            "solve_left": np.ones(len(self.shares)),
            "solve_right": self.shares * (1 - self._inverse),
            **_describe_lost_directions(np.ones(len(self.shares)), np.eye(len(self.shares))[:, ~self.is_countable]),
        }


@dataclass(frozen=True, eq=False)
class FittedDistribution:
    """Assumes that values meet as often as their frequencies allow, as in mixed groups. Only the group size is needed.

    Two values u and v meet in s_u s_v groups, weighted by one over the size. A value meets itself in f_u / gamma
    groups. Every record is in a group, so s_u (S - s_u) = f_u (1 - 1/gamma), where S is the sum of all s. If all other
    values are equally frequent, each of them leaks equally: f (gamma - 1) / (gamma (N - f)).
    """

    published_shares: Floats
    """The published shares of the values."""
    group_size: int

    @property
    def shares(self) -> Floats:
        """The published shares of the values."""
        return self.published_shares

    def is_estimable(self, theta: Floats) -> bool:
        """Whether the numbers can be estimated. If a value is in every group, all numbers are unknown."""
        return self.group_size * float(self.shares.max(initial=0.0)) < 1 - NEAR_LARGEST

    @cached_property
    def _matrix_factors(self) -> tuple[Floats, Floats, Floats]:
        """Returns s, s over the share of the value, and the additional probability of a record's own value."""
        shares = np.minimum(self.shares, (1 - NEAR_LARGEST) / self.group_size)
        meeting_factors, total = fit_meetings(shares * (1 - 1 / self.group_size))
        by_share = (1 - 1 / self.group_size) / np.maximum(total - meeting_factors, TINY)
        return meeting_factors, by_share, 1 / self.group_size - meeting_factors * by_share

    def solve(self, theta: Floats) -> Floats:
        """Solves with the inverse of a diagonal matrix plus a matrix of rank one (Sherman and Morrison)."""
        meeting_factors, by_share, diagonal = self._matrix_factors
        diagonal = np.where(np.abs(diagonal) < TINY, TINY, diagonal)
        scale = (theta / diagonal * meeting_factors).sum(axis=-1, keepdims=True) / (
            1 + float((by_share / diagonal * meeting_factors).sum())
        )
        return np.asarray((theta - by_share * scale) / diagonal)

    def average(self, numbers: Floats) -> Floats:
        """The average of the numbers that a record of each value publishes."""
        meeting_factors, by_share, diagonal = self._matrix_factors
        return np.asarray(diagonal * numbers + by_share * (numbers * meeting_factors).sum(axis=-1, keepdims=True))

    def expect_published(self, true_counts: Floats) -> Floats:
        """The expected number of records that publish each value, given the true counts."""
        meeting_factors, by_share, diagonal = self._matrix_factors
        return np.asarray(
            diagonal * true_counts + meeting_factors * (true_counts * by_share).sum(axis=-1, keepdims=True)
        )

    def export_numbers(self) -> Json:
        """The distribution as a diagonal and two vectors. If any direction is lost, all directions are."""
        meeting_factors, by_share, diagonal = self._matrix_factors
        not_zero = np.where(np.abs(diagonal) < TINY, TINY, diagonal)
        no_directions = np.zeros((len(diagonal), 0))
        return {
            "shares": self.shares,
            "mean_diagonal": diagonal,
            "mean_left": by_share,
            "mean_right": meeting_factors,
            "solve_diagonal": 1 / not_zero,
            "solve_left": -by_share / not_zero / (1 + float((by_share / not_zero * meeting_factors).sum())),
            "solve_right": meeting_factors / not_zero,
            **_describe_lost_directions(
                np.ones(len(diagonal)), no_directions, tells_nothing=not self.is_estimable(np.ones(len(diagonal)))
            ),
        }


def fit_meetings(others: Floats) -> tuple[Floats, float]:
    """Finds the s with s (S - s) = others for each value, and their sum S, by bisection of S.

    Of the two roots, s is the smaller one, except for the most frequent value if this value is in most groups.
    """
    top = int(np.argmax(others))

    def solve_roots(total: float) -> Floats:
        return np.asarray((total - np.sqrt(np.maximum(total**2 - 4 * others, 0.0))) / 2)

    least = 2 * math.sqrt(float(others[top]))
    is_in_most = float(solve_roots(least).sum()) < least

    def choose_roots(total: float) -> Floats:
        solutions = solve_roots(total)
        if is_in_most:
            solutions[top] = total - solutions[top]
        return solutions

    low, high = least, 2 * least
    sign = 1 if is_in_most else -1
    while sign * (float(choose_roots(high).sum()) - high) < 0 and high < 1 / TINY:
        high *= 2
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        if sign * (float(choose_roots(middle).sum()) - middle) < 0:
            low = middle
        else:
            high = middle
    return choose_roots(high), high


@dataclass(frozen=True, eq=False)
class GroupDistribution:
    """The distribution for groups that are recomputed from the published histogram by the published method."""

    meetings: Floats
    counts: Floats
    meeting_variances: Floats
    """The variance of the number of meetings."""

    @property
    def shares(self) -> Floats:
        """The published shares of the values."""
        return np.asarray(self.counts / self.counts.sum())

    @cached_property
    def _transition(self) -> Floats:
        divisors = np.where(self.counts > 0, self.counts, 1.0)
        matrix = self.meetings / divisors[:, None]
        absent = np.flatnonzero(self.counts == 0)
        matrix[absent, absent] = 1.0
        return np.asarray(matrix)

    @cached_property
    def _directions(self) -> tuple[Floats, Floats, Floats]:
        """The directions and eigenvalues; decoys are reversible, so the scaled matrix is symmetric."""
        roots = np.sqrt(np.where(self.counts > 0, self.counts, 1.0))
        eigenvalues, directions = np.linalg.eigh(self._transition * roots[:, None] / roots)
        return eigenvalues, directions, roots

    @cached_property
    def _inverse(self) -> Floats:
        eigenvalues, directions, roots = self._directions
        inverse = np.divide(1.0, eigenvalues, out=np.zeros_like(eigenvalues), where=np.abs(eigenvalues) > SINGULAR)
        return np.asarray((directions * inverse) @ directions.T * roots / roots[:, None])

    def is_estimable(self, theta: Floats) -> bool:
        """Whether the wanted numbers have no component in a lost direction."""
        eigenvalues, directions, roots = self._directions
        scaled = theta * roots
        lost_parts = scaled @ directions[:, np.abs(eigenvalues) <= SINGULAR]
        return float(np.abs(lost_parts).max(initial=0.0)) <= math.sqrt(SINGULAR) * float(
            np.abs(scaled).max(initial=0.0)
        )

    def solve(self, theta: Floats) -> Floats:
        """Solves by the inverse of the matrix."""
        return np.asarray(theta @ self._inverse.T)

    def average(self, numbers: Floats) -> Floats:
        """The average of the numbers that a record of each value publishes."""
        return np.asarray(numbers @ self._transition.T)

    def expect_published(self, true_counts: Floats) -> Floats:
        """The expected number of records that publish each value, given the true counts."""
        return np.asarray(true_counts @ self._transition)

    def export_numbers(self) -> Json:
        """The distribution as matrices, with the lost directions."""
        eigenvalues, directions, roots = self._directions
        return {
            "shares": self.shares,
            "mean_matrix": self._transition,
            "solve_matrix": self._inverse,
            "spread": self.meeting_variances,
            **_describe_lost_directions(roots, directions[:, np.abs(eigenvalues) <= SINGULAR]),
        }


def _describe_lost_directions(roots: Floats, directions: Floats, *, tells_nothing: bool = False) -> Json:
    """The lost directions for a script, on the scale of the roots."""
    return {
        "roots": roots,
        "lost": directions,
        "least_told": math.sqrt(SINGULAR),
        "tells_nothing": tells_nothing,
    }


def recompute_distribution(counts: Indices, group_size: int, creation: GroupCreation) -> GroupDistribution:
    """Makes the groups of the published histogram, several times if groups are random."""
    return _recompute_distribution(counts.astype(np.int64).tobytes(), group_size, creation)


@lru_cache(maxsize=16)
def _recompute_distribution(counts: bytes, group_size: int, creation: GroupCreation) -> GroupDistribution:
    capped = cap_counts(np.frombuffer(counts, dtype=np.int64), group_size)
    # Anyone with the release gets the same groups, because their random part follows from the published histogram.
    draws = Draws(hashlib.sha256(counts).digest(), is_test=True)
    repetitions = 1 if creation is GroupCreation.ANATOMY else RECOMPUTATIONS
    if creation is GroupCreation.MIXED and len(capped) <= FEW_VALUES:
        repetitions = MORE_RECOMPUTATIONS
    mean, squares = np.zeros((2, len(capped), len(capped)))
    for number in range(repetitions):
        meetings = create_groups(capped.tolist(), group_size, creation, draws, f"recomputed/{number}").count_meetings()
        mean += meetings / repetitions
        squares += meetings**2 / repetitions
    # Two differences count. The true groups differ from the expected groups, as a single recomputed grouping does. The
    # mean of the recomputed groups also differs from the expected groups.
    spread = (
        np.maximum(squares - mean**2, 0.0) * (repetitions + 1) / max(repetitions - 1, 1)
        if repetitions > 1
        else np.zeros_like(mean)
    )
    return GroupDistribution(mean, capped.astype(np.float64), spread)


def cap_counts(counts: Indices, group_size: int) -> Indices:
    """Adjusts the published counts so that groups can be made: no value has more than its share.

    By chance a value may be published too often. The excess is distributed evenly over the other values.
    """
    capped = counts.copy()
    most = int(counts.sum()) // group_size
    while (excess := int(np.maximum(capped - most, 0).sum())) > 0:
        capped = np.minimum(capped, most)
        free = np.flatnonzero((capped < most) & (counts > 0))
        if not len(free):
            free = np.flatnonzero(capped < most)
        if not len(free):
            break  # all values are full, and the rest would be in no group
        more, rest = divmod(excess, len(free))
        capped[free] += more
        capped[free[:rest]] += 1
    return capped


def compute_closed_variances(
    true_counts: Floats, group_size: int, creation: GroupCreation, rows: Floats, counts: Floats
) -> Floats:
    """The variance of the closed form for values of `true_counts` records, if `counts` of `rows` rows have the value.

    If the same values always meet, the variance is unknown for counts under a condition.
    """
    total = true_counts.sum()
    own, other = EvenDistribution(true_counts / total, group_size).record_variances
    selected = np.clip(rows / total, 0.0, 1.0)
    noise = own * counts + other * (rows - counts)
    variances = np.asarray((1 - selected) * noise + selected**2 * true_counts * (1 - 1 / group_size))
    return np.where(rows < total, np.nan, variances) if creation is GroupCreation.ANATOMY else variances


def compute_even_variances(sizes: Sequence[int], group_size: int) -> tuple[Floats, Floats] | None:
    """The variance that a record adds to the closed form if few records are selected, for equally frequent values.

    It follows from the number of values of each column; None if there are several columns.
    """
    (size, *others) = sizes
    return None if others else EvenDistribution(np.full(size, 1 / size), group_size).record_variances
