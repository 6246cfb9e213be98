"""Estimates counts from decoys: the true values of the records that a condition selects, from their published ones.

The published histogram has two uses. It determines how values leak into each other. It also cancels its own noise,
which all records share. Let R of N records be selected, rho = R / N, and w be the numbers that reverse the decoys. Then
the estimate has two errors. Selected records contribute the noise of (1 - rho) w + rho theta, and the other records the
noise of rho (theta - w). So counts under conditions on public columns have little of the noise that all records share.

Notation: theta = what a record of each value counts, z = what a record counts by its public columns.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Protocol

import numpy as np

from sfumato._core.array_types import Counts, Floats, Indices, Mask
from sfumato._records.tally import Holdings, Tally
from sfumato._request.histogram import compute_margins
from sfumato.errors import InternalError, QueryError
from sfumato.mechanisms._decoys.group_creation import count_tranches
from sfumato.mechanisms._decoys.joint_columns import COMPOSITION_STEPS, MOST_AMPLIFIED, JointDistribution
from sfumato.mechanisms._decoys.leak_matrix import (
    DecoyDistribution,
    EvenDistribution,
    FittedDistribution,
    GroupCreation,
    GroupDistribution,
    recompute_distribution,
)
from sfumato.mechanisms._randomized_response.empirical_bayes import make_counts_add_up, shrink_counts
from sfumato.mechanisms._randomized_response.estimators import make_moments_without_error
from sfumato.mechanisms.estimator import BrowserEstimator, Moments, SumPiece

MOST_PAIRS = 1 << 22
FAR_AMPLIFIED = 3
"""If the amplification of noise exceeds this many group sizes, the cause is a value in most groups."""
UNRELIABLE = 0.3
"""An estimate is unreliable if its standard error is above this share of the estimate."""


class DecoyDesign(Protocol):
    """The part of a design that the estimators need."""

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of values of each sensitive column.

        The domain has all combinations of values; the last column varies fastest.
        """
        ...

    @property
    def group_size(self) -> int:
        """The number of records that share a decoy group."""
        ...

    @property
    def creation(self) -> GroupCreation:
        """The method that made the groups."""
        ...


def _require_whole(tally: Tally) -> Tally:
    if tally.release_tally is None:
        raise InternalError("to count decoys, the counts of the whole release are needed.", code="no-release-counts")
    return tally.release_tally


def count_published_values(tally: Tally) -> Counts:
    """The published counts of all records."""
    return np.asarray(_require_whole(tally).counts[0].astype(np.int64))


def count_all_records(tally: Tally) -> int:
    """The number of records."""
    return int(_require_whole(tally).rows[0])


DistributionMaker = Callable[[DecoyDesign, Floats], DecoyDistribution]


def make_even_distribution(design: DecoyDesign, counts: Floats) -> DecoyDistribution:
    """Assumes that all other values leak alike."""
    return EvenDistribution(counts / max(float(counts.sum()), 1.0), design.group_size)


def make_fitted_distribution(design: DecoyDesign, counts: Floats) -> DecoyDistribution:
    """Assumes that values meet as often as their frequencies allow."""
    return FittedDistribution(counts / max(float(counts.sum()), 1.0), design.group_size)


def make_group_distribution(design: DecoyDesign, counts: Floats) -> DecoyDistribution:
    """Makes the groups again from the published histogram."""
    return recompute_distribution(counts.astype(np.int64), design.group_size, design.creation)


@dataclass(frozen=True, eq=False)
class _Reading:
    """The parts of a release that an estimator needs: the published counts and their distribution."""

    design: DecoyDesign
    whole: Counts
    make_distribution: DistributionMaker
    joints: dict[tuple[int, ...], JointDistribution] = field(default_factory=dict)

    @cached_property
    def total(self) -> float:
        """The number of records."""
        return float(self.whole.sum())

    @cached_property
    def margins(self) -> list[Floats]:
        """The published counts of each single column."""
        return compute_margins(self.whole.astype(np.float64), self.design.sizes)

    def get_joint(self, axes: tuple[int, ...]) -> JointDistribution:
        """The joint distribution of some columns."""
        if axes not in self.joints:
            self.joints[axes] = JointDistribution(
                tuple(self.make_distribution(self.design, self.margins[axis]) for axis in axes)
            )
        return self.joints[axes]

    def make_floored_joint(self, axes: tuple[int, ...]) -> JointDistribution | None:
        """The distribution if every unpublished value were published once; None if all values are published."""
        margins = [self.margins[axis] for axis in axes]
        if all((margin > 0).all() for margin in margins):
            return None
        return JointDistribution(
            tuple(make_fitted_distribution(self.design, np.maximum(margin, 1.0)) for margin in margins)
        )


def _make_reading(design: DecoyDesign, tally: Tally, make_distribution: DistributionMaker) -> _Reading:
    """Computes what the estimator needs from a release. The result is the same for all queries."""
    readings = _require_whole(tally).derive(_make_reading_cache)
    key = (id(design), make_distribution)
    if key not in readings:
        readings[key] = _Reading(design, count_published_values(tally), make_distribution)
    return readings[key]


def _make_reading_cache(whole: Tally) -> dict[tuple[int, DistributionMaker], _Reading]:
    return {}


# ------------------------------------------------------------------------------------------------------------ one total


@dataclass(frozen=True, eq=False)
class _SelectedRecords:
    """The published counts of selected records, in the columns of the query, and the amount of each value."""

    theta: Floats
    first: Floats
    second: Floats


def _estimate_parts(reading: _Reading, parts: Sequence[_SelectedRecords]) -> Moments:
    """Estimates the sum of z theta over all parts, each with a theta over the whole domain."""
    sizes = reading.design.sizes
    axes = find_axes(sizes, [part.theta for part in parts])
    if not axes or not any(part.second.any() for part in parts):
        value = sum(float(part.theta.flat[0] * part.first.sum()) for part in parts)
        return Moments.of(value, 0.0, 0.0, value, value)
    joint, reduced = reading.get_joint(axes), [_reduce_part(part, sizes, axes) for part in parts]
    estimate = _compute_estimate(reading, joint, reduced)
    if (floored_joint := reading.make_floored_joint(axes)) is not None:
        # An unpublished value may still occur: its variance is that of a value published once.
        floored_estimate = _compute_estimate(reading, floored_joint, reduced)
        estimate = replace(
            estimate, base=max(estimate.base, floored_estimate.base), slope=max(estimate.slope, floored_estimate.slope)
        )
    thetas = [part.theta - _find_weighted_median(part.theta, joint.shares) for part in reduced]
    if not all(joint.is_estimable(theta) for theta in thetas):
        return _make_unknown_estimate(joint, reduced)
    is_wanted = np.any(thetas, axis=0)
    least, most = _compute_bounds(parts)
    bounded_value = min(max(estimate.value, least), most)
    note = _describe_reliability(
        joint,
        is_wanted,
        abs(bounded_value),
        math.sqrt(max(estimate.base + estimate.slope * bounded_value, 0.0)),
        reading.design.group_size,
    )
    return Moments.of(estimate.value, estimate.base, estimate.slope, most, least, note, is_own_note=True)


def _compute_bounds(parts: Sequence[_SelectedRecords]) -> tuple[float, float]:
    """The certain bounds of the total, whatever the true values are, if no z is negative."""
    ends = [sorted(float(end * part.first.sum()) for end in (part.theta.min(), part.theta.max())) for part in parts]
    return sum(least for least, _ in ends), sum(most for _, most in ends)


def find_axes(sizes: tuple[int, ...], thetas: Sequence[Floats]) -> tuple[int, ...]:
    """The columns on which some theta depends."""
    tables = [theta.reshape(sizes) for theta in thetas]
    return tuple(axis for axis in range(len(sizes)) if any((np.diff(table, axis=axis) != 0).any() for table in tables))


def _reduce_part(part: _SelectedRecords, sizes: tuple[int, ...], axes: tuple[int, ...]) -> _SelectedRecords:
    """Reduces a part to the columns of the query, by summing over the other columns."""
    rest = tuple(axis for axis in range(len(sizes)) if axis not in axes)
    theta = part.theta.reshape(sizes)[tuple(slice(None) if axis in axes else 0 for axis in range(len(sizes)))]
    first = part.first.reshape(sizes).sum(axis=rest)
    return _SelectedRecords(
        theta, first, first if part.second is part.first else part.second.reshape(sizes).sum(axis=rest)
    )


def _find_weighted_median(theta: Floats, shares: Floats) -> float:
    """The weighted median of theta. Most records have it, and counting it exactly gives the smallest error."""
    if float(shares[theta == 0].sum()) > float(shares.sum()) / 2:  # nearly always true, and much faster to test
        return 0.0
    order = np.argsort(theta, axis=None)
    cumulated_shares = np.cumsum(shares.ravel()[order])
    return float(theta.ravel()[order][np.searchsorted(cumulated_shares, cumulated_shares[-1] / 2)])


@dataclass(frozen=True)
class _Estimate:
    """An estimate, and its variance as base + slope * count."""

    value: float
    base: float
    slope: float


def _compute_estimate(reading: _Reading, joint: JointDistribution, parts: Sequence[_SelectedRecords]) -> _Estimate:
    """The estimate, and its variance by the delta method."""
    value, total = 0.0, reading.total
    common = np.zeros_like(joint.shares)  # added by every record of the release, through the published histogram
    weights_by_part = []
    for part in parts:
        median, rows = _find_weighted_median(part.theta, joint.shares), float(part.first.sum())
        weights = joint.solve(part.theta - median)
        value += median * rows + float((part.first * weights).sum())
        weights_by_part.append(weights)
        # The noise of combinations is almost independent of that of the single columns.
        if len(joint.distributions) == 1:
            common = common + rows / total * (weights - part.theta)
    is_whole = len(parts) == 1 and parts[0].first is parts[0].second and float(parts[0].first.sum()) == total
    # In this case the estimate is the published count, except for several columns.
    if is_whole and len(joint.distributions) == 1:
        return _Estimate(value, _compute_whole_variance(joint, parts[0].theta, total), 0.0)
    base, slope = total * float((joint.shares * joint.compute_covariance(common, common)).sum()), 0.0
    for part, weights in zip(parts, weights_by_part, strict=True):
        added, slope = _compute_added_variance(joint, part, weights, common, is_count=len(parts) == 1)
        base += added + _compute_unevenness(reading.design, joint, part, weights, total)
    return _Estimate(value, base, slope)


def _compute_whole_variance(joint: JointDistribution, theta: Floats, total: float) -> float:
    """The exact variance of a published count of all records: f minus the meetings of its values."""
    return max(total * float((joint.shares * theta * (theta - joint.average(theta))).sum()), 0.0)


def _compute_added_variance(
    joint: JointDistribution, part: _SelectedRecords, weights: Floats, common: Floats, *, is_count: bool
) -> tuple[float, float]:
    """The variance that the selected records add, as base + slope * count.

    The variance depends on the true values of these records. For a plain count, the number of records with a wanted
    value matters most. It is unknown here, so the variance is linear in it.
    """
    composition = joint.estimate_composition(part.second)
    squared, crossed = joint.compute_covariance(weights, weights), joint.compute_covariance(weights, common)
    rows, square = float(part.first.sum()), max(float(part.second.sum()), 1e-300)
    by_value = squared - 2 * rows / square * crossed
    is_wanted = part.theta != 0
    if not (is_count and part.first is part.second and (part.theta[is_wanted] == 1).all()):
        return float((composition * by_value).sum()), 0.0
    inside, outside = (_compute_weighted_mean(by_value[where], composition[where]) for where in (is_wanted, ~is_wanted))
    return rows * outside, inside - outside


def _compute_weighted_mean(numbers: Floats, weights: Floats) -> float:
    total = float(weights.sum())
    return float(weights @ numbers) / total if total > 0 else float(numbers.mean())


def _compute_unevenness(
    design: DecoyDesign, joint: JointDistribution, part: _SelectedRecords, weights: Floats, total: float
) -> float:
    """The added variance because values do not meet exactly in proportion to their shares.

    In a tranche of mixed groups a value fills an arc of the circle of groups. The overlap of two arcs of lengths a <= b
    has the variance a²(b - a/3) - a²b². This variance matters if the condition selects some values more often than
    others.
    """
    if len(joint.distributions) > 1:
        return 0.0
    distribution, shares, size = joint.distributions[0], joint.shares, design.group_size
    rows, square = float(part.first.sum()), max(float(part.second.sum()), 1e-300)
    composition = joint.estimate_composition(part.second) * (rows / square)
    excess = composition / np.maximum(shares * total, 1.0) - rows / total
    wanted_places = np.flatnonzero(part.theta != _find_weighted_median(part.theta, shares))
    if isinstance(distribution, GroupDistribution):
        return float(excess**2 @ distribution.meeting_variances @ (weights - weights.mean()) ** 2)
    if design.creation is not GroupCreation.MIXED:
        return 0.0
    groups = total / size / math.sqrt(count_tranches(round(total), len(shares), size))
    seats = (weights[wanted_places] - weights.mean()) * groups / size
    arcs = np.minimum(shares * size, 1.0)
    arcs = np.minimum(arcs, 1 - arcs)  # the complement of an arc overlaps as unevenly as the arc itself
    step = max(1, MOST_PAIRS // len(arcs))
    return sum(
        float(
            excess**2
            @ _compute_overlap_variances(arcs, wanted_places[start : start + step])
            @ seats[start : start + step] ** 2
        )
        for start in range(0, len(wanted_places), step)
    )


def _compute_overlap_variances(arcs: Floats, wanted_places: Indices) -> Floats:
    """The variance of the overlap of each value's arc (row) with those of wanted values (columns)."""
    short, long = np.minimum.outer(arcs, arcs[wanted_places]), np.maximum.outer(arcs, arcs[wanted_places])
    variances = np.maximum(short**2 * (long - short / 3) - (short * long) ** 2, 0.0)
    variances[wanted_places, np.arange(len(wanted_places))] = 0.0
    return np.asarray(variances)


def _make_unknown_estimate(joint: JointDistribution, parts: Sequence[_SelectedRecords]) -> Moments:
    """The estimate if a value is in every group. In this case only the frequencies in the whole release are known."""
    value = sum(float((part.theta * joint.shares).sum() * part.first.sum()) for part in parts)
    least, most = _compute_bounds(parts)
    note = (
        "no information: a value is in every decoy group, or always with the same other values; value and condition "
        "are assumed to be unrelated"
    )
    return Moments.of(value, (most - least) ** 2, 0.0, most, least, note)


def _describe_reliability(joint: JointDistribution, is_wanted: Mask, value: float, error: float, size: int) -> str:
    """Describes whether to rely on an answer: small sums are protected by being unreliable."""
    if error <= UNRELIABLE * value:
        return f"the relative error is about {error / value if value else 0.0:.1%}"
    amplification = joint.compute_amplification(is_wanted)
    reason = "the count is too small"
    if len(joint.distributions) > 1:
        reason = "almost no joint information about these columns is published"
    elif amplification > FAR_AMPLIFIED * size:
        reason = "a value is in most groups"
    return f"deliberately unreliable: {reason} (noise is amplified {amplification:.3g} times)"


# -------------------------------------------------------------------------------------------------------------- methods


def estimate_counts(
    design: DecoyDesign, tally: Tally, value_sets: Sequence[Indices], make_distribution: DistributionMaker
) -> list[Moments]:
    """Estimates the count of each set of wanted values under each condition. Reads the release once."""
    lines, size = tally.counts.astype(np.float64), math.prod(design.sizes)
    reading = _make_reading(design, tally, make_distribution)
    estimates: list[list[Moments]] = [[] for _ in value_sets]
    for counts in (
        lines
    ):  # all sets of one condition are treated together, so that the composition of its records is computed once
        for number, places in enumerate(value_sets):
            theta = np.zeros(size)
            theta[places] = 1.0
            estimates[number].append(_estimate_parts(reading, [_SelectedRecords(theta, counts, counts)]))
    return [Moments.concatenate(moments) for moments in estimates]


def estimate_total(design: DecoyDesign, pieces: Sequence[SumPiece], make_distribution: DistributionMaker) -> Moments:
    """Estimates one sum over all pieces."""
    parts = []
    for piece in pieces:
        first = np.asarray(piece.tally.counts[0], dtype=np.float64)
        second = (
            first if piece.squared_tally is piece.tally else np.asarray(piece.squared_tally.counts[0], dtype=np.float64)
        )
        parts.append(_SelectedRecords(piece.theta, first, second))
    moments = _estimate_parts(_make_reading(design, pieces[0].tally, make_distribution), parts)
    if moments.is_own_note:
        moments = replace(moments, notes=(), is_own_note=False)  # the note about a count does not apply to a sum
    if moments.base[0] == 0 or all(piece.has_bounds for piece in pieces):
        return moments
    return replace(moments, least=np.array([-math.inf]), most=np.array([math.inf]))


def make_twin(
    design: DecoyDesign, whole: Tally, holdings: Holdings | None, make_distribution: DistributionMaker
) -> BrowserEstimator:
    """The distribution of one column, as numbers."""
    if len(design.sizes) > 1:
        raise QueryError(
            "a page cannot count columns that are each protected on their own; use sfumato query.",
            code="page-cannot-count",
        )
    reading = _Reading(design, whole.counts[0].astype(np.int64), make_distribution)
    joints = {"law": reading.get_joint((0,)), "once": reading.make_floored_joint((0,))}
    numbers = {
        f"{name}_{part}": array
        for name, joint in joints.items()
        if joint is not None
        for part, array in joint.distributions[0].export_numbers().items()
    }
    tranches = count_tranches(round(reading.total), design.sizes[0], design.group_size)
    settings = {
        "total": reading.total,
        "group_size": design.group_size,
        "is_mixed": design.creation is GroupCreation.MIXED,
        "groups": reading.total / design.group_size / math.sqrt(tranches),
        "unreliable": UNRELIABLE,
        "far_amplified": FAR_AMPLIFIED,
        "most_amplified": MOST_AMPLIFIED,
        "steps": COMPOSITION_STEPS,
    }
    return BrowserEstimator(Path(__file__).with_name("counting.js"), {**settings, **numbers})


def estimate_shrunk(design: DecoyDesign, tally: Tally, value_sets: Sequence[Indices]) -> list[Moments]:
    """Shrinks the count of each value towards that of a value independent of the condition.

    All values of the same condition determine the amount. The less their counts deviate beyond noise, the more they are
    shrunk.
    """
    if len(design.sizes) > 1:
        raise QueryError(
            "the method 'shrunk' is for one sensitive column; use fitted, closed or inverse.",
            code="method-for-one-column",
            fields={"method": "shrunk"},
        )
    make_distribution = make_fitted_distribution if design.creation is GroupCreation.MIXED else make_group_distribution
    whole = count_published_values(tally)
    lines = Tally.of_symbols(np.concatenate([tally.counts, whole[np.newaxis]])).attach_context(
        tally.release_tally, None
    )
    singles = estimate_counts(design, lines, [np.array([place]) for place in range(design.sizes[0])], make_distribution)
    values, base, slope = (
        np.array([getattr(single, name) for single in singles]).T for name in ("value", "base", "slope")
    )
    # The expected count is a share of the published count, so its noise is in both.
    part = lines.rows[:, np.newaxis] / max(lines.rows[-1], 1)
    noise = np.maximum(base + slope * np.maximum(values, 0.0) - part**2 * base[-1], 0.0)
    expected = lines.rows[:, np.newaxis] * make_distribution(design, whole.astype(np.float64)).shares
    shrunk_counts = make_counts_add_up(shrink_counts(values, noise, expected), lines.rows.astype(np.float64))[:-1]
    return [
        Moments.exact(tally.rows.astype(np.float64) * bool(len(places)))
        if len(places) in (0, design.sizes[0])
        else make_moments_without_error(shrunk_counts[:, places].sum(axis=1), tally)
        for places in value_sets
    ]
