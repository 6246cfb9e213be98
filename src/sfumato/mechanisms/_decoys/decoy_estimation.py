"""From decoys back to counts: what the records that a condition selects hold, by what they show.

The published histogram does two things: it says how values leak into each other, and its own noise is known to cancel.
With R selected of N records, rho = R / N and w the numbers that undo the decoys, the estimate deviates by what selected
records add beyond (1 - rho) w + rho theta, and the others beyond rho (theta - w): conditions on public columns select
little of the noise that all records have in common.

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

from sfumato._core.arrays import Counts, Floats, Indices, Mask
from sfumato._records.tally import Holdings, Tally
from sfumato._request.histogram import compute_margins
from sfumato.errors import InternalError, QueryError
from sfumato.mechanisms._decoys.group_creation import count_tranches
from sfumato.mechanisms._decoys.joint_columns import COMPOSITION_STEPS, MOST_AMPLIFIED, Joint
from sfumato.mechanisms._decoys.leak_matrix import Creation, DecoyLaw, EvenLaw, FittedLaw, GroupLaw, group_law
from sfumato.mechanisms._randomized_response.empirical_bayes import shrink_counts
from sfumato.mechanisms._randomized_response.estimators import make_moments_without_error
from sfumato.mechanisms.estimator import Moments, Piece, Twin

MOST_PAIRS = 1 << 22
FAR_AMPLIFIED = 3
"""So many times the group size, noise is amplified because a value is in most groups."""
UNRELIABLE = 0.3
"""A standard error above this part of the estimate makes a number one to leave alone."""


class DecoyDesign(Protocol):
    """What the estimators need to know of a design."""

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many values each sensitive column has; together they make the domain, the last one fastest."""
        ...

    @property
    def group_size(self) -> int:
        """How many records share a decoy group."""
        ...

    @property
    def creation(self) -> Creation:
        """How the groups were made."""
        ...


def _require_whole(tally: Tally) -> Tally:
    if tally.whole is None:
        raise InternalError("decoys cannot be counted without the counts of the whole release.")
    return tally.whole


def count_published_values(tally: Tally) -> Counts:
    """What all records show."""
    return np.asarray(_require_whole(tally).counts[0].astype(np.int64))


def count_all_records(tally: Tally) -> int:
    """How many records there are."""
    return int(_require_whole(tally).rows[0])


DistributionMaker = Callable[[DecoyDesign, Floats], DecoyLaw]


def make_even_distribution(design: DecoyDesign, counts: Floats) -> DecoyLaw:
    """Take all other values to leak alike."""
    return EvenLaw(counts / max(float(counts.sum()), 1.0), design.group_size)


def make_fitted_distribution(design: DecoyDesign, counts: Floats) -> DecoyLaw:
    """Take values to meet as often as their frequencies allow."""
    return FittedLaw(counts / max(float(counts.sum()), 1.0), design.group_size)


def group_law_of(design: DecoyDesign, counts: Floats) -> DecoyLaw:
    """Make the groups again from the published histogram."""
    return group_law(counts.astype(np.int64), design.group_size, design.creation)


@dataclass(frozen=True, eq=False)
class _Reading:
    """A release as an estimator reads it: what all records show, and by which law that came about."""

    design: DecoyDesign
    whole: Counts
    laws: DistributionMaker
    joints: dict[tuple[int, ...], Joint] = field(default_factory=dict)

    @cached_property
    def total(self) -> float:
        """How many records there are."""
        return float(self.whole.sum())

    @cached_property
    def margins(self) -> list[Floats]:
        """The published counts of each column alone."""
        return compute_margins(self.whole.astype(np.float64), self.design.sizes)

    def joint(self, axes: tuple[int, ...]) -> Joint:
        """The law of some columns."""
        if axes not in self.joints:
            self.joints[axes] = Joint(tuple(self.laws(self.design, self.margins[axis]) for axis in axes))
        return self.joints[axes]

    def shown_once(self, axes: tuple[int, ...]) -> Joint | None:
        """The law if every value that nobody shows were shown once; None where there is no such value."""
        margins = [self.margins[axis] for axis in axes]
        if all((margin > 0).all() for margin in margins):
            return None
        return Joint(tuple(make_fitted_distribution(self.design, np.maximum(margin, 1.0)) for margin in margins))


def _make_reading(design: DecoyDesign, tally: Tally, laws: DistributionMaker) -> _Reading:
    """How a release is read; the same for all questions to it."""
    readings = _require_whole(tally).once(_make_reading_cache)
    key = (id(design), laws)
    if key not in readings:
        readings[key] = _Reading(design, count_published_values(tally), laws)
    return readings[key]


def _make_reading_cache(whole: Tally) -> dict[tuple[int, DistributionMaker], _Reading]:
    return {}


# ------------------------------------------------------------------------------------------------------------ one total


@dataclass(frozen=True, eq=False)
class _Selected:
    """Selected records by what they show, in the columns that the question is about; and what each value counts."""

    theta: Floats
    first: Floats
    second: Floats


def _estimate_parts(reading: _Reading, parts: Sequence[_Selected]) -> Moments:
    """Estimate the sum of z theta over all parts, each with a theta over the whole domain."""
    sizes = reading.design.sizes
    axes = find_axes(sizes, [part.theta for part in parts])
    if not axes or not any(part.second.any() for part in parts):
        value = sum(float(part.theta.flat[0] * part.first.sum()) for part in parts)
        return Moments.of(value, 0.0, 0.0, value, value)
    joint, reduced = reading.joint(axes), [_reduce_part(part, sizes, axes) for part in parts]
    estimate = _compute_estimate(reading, joint, reduced)
    if (rare := reading.shown_once(axes)) is not None:
        # A value that nobody shows may still be there: its variance is that of a value shown once.
        once = _compute_estimate(reading, rare, reduced)
        estimate = replace(estimate, base=max(estimate.base, once.base), slope=max(estimate.slope, once.slope))
    thetas = [part.theta - _find_weighted_median(part.theta, joint.shares) for part in reduced]
    if not all(joint.tells(theta) for theta in thetas):
        return _make_unknown_estimate(joint, reduced)
    wanted = np.any(thetas, axis=0)
    least, most = _compute_bounds(parts)
    likely = min(max(estimate.value, least), most)
    note = _describe_reliability(
        joint,
        wanted,
        abs(likely),
        math.sqrt(max(estimate.base + estimate.slope * likely, 0.0)),
        reading.design.group_size,
    )
    return Moments.of(estimate.value, estimate.base, estimate.slope, most, least, note, is_own_note=True)


def _compute_bounds(parts: Sequence[_Selected]) -> tuple[float, float]:
    """Between what the total lies, whoever holds what, if no z is negative."""
    ends = [sorted(float(end * part.first.sum()) for end in (part.theta.min(), part.theta.max())) for part in parts]
    return sum(least for least, _ in ends), sum(most for _, most in ends)


def find_axes(sizes: tuple[int, ...], thetas: Sequence[Floats]) -> tuple[int, ...]:
    """The columns that some theta depends on."""
    tables = [theta.reshape(sizes) for theta in thetas]
    return tuple(axis for axis in range(len(sizes)) if any((np.diff(table, axis=axis) != 0).any() for table in tables))


def _reduce_part(part: _Selected, sizes: tuple[int, ...], axes: tuple[int, ...]) -> _Selected:
    """The same part in the columns that matter: the others are added up."""
    rest = tuple(axis for axis in range(len(sizes)) if axis not in axes)
    theta = part.theta.reshape(sizes)[tuple(slice(None) if axis in axes else 0 for axis in range(len(sizes)))]
    first = part.first.reshape(sizes).sum(axis=rest)
    return _Selected(theta, first, first if part.second is part.first else part.second.reshape(sizes).sum(axis=rest))


def _find_weighted_median(theta: Floats, shares: Floats) -> float:
    """The weighted median of theta: what most records count, and so what is best counted exactly."""
    if float(shares[theta == 0].sum()) > float(shares.sum()) / 2:  # nearly always, and so much quicker to see
        return 0.0
    order = np.argsort(theta, axis=None)
    passed = np.cumsum(shares.ravel()[order])
    return float(theta.ravel()[order][np.searchsorted(passed, passed[-1] / 2)])


@dataclass(frozen=True)
class _Estimate:
    """An estimate, and its variance as base + slope * count."""

    value: float
    base: float
    slope: float


def _compute_estimate(reading: _Reading, joint: Joint, parts: Sequence[_Selected]) -> _Estimate:
    """The estimate, and its variance by the delta method."""
    value, total = 0.0, reading.total
    common = np.zeros_like(joint.shares)  # what every record of the release adds, through the published histogram
    undone = []
    for part in parts:
        usual, rows = _find_weighted_median(part.theta, joint.shares), float(part.first.sum())
        weights = joint.solve(part.theta - usual)
        value += usual * rows + float((part.first * weights).sum())
        undone.append(weights)
        if len(joint.laws) == 1:  # the noise of combinations has next to nothing in common with that of the columns
            common = common + rows / total * (weights - part.theta)
    is_whole = len(parts) == 1 and parts[0].first is parts[0].second and float(parts[0].first.sum()) == total
    if is_whole and len(joint.laws) == 1:  # then the estimate is the published count; of several columns it is not
        return _Estimate(value, _whole_variance(joint, parts[0].theta, total), 0.0)
    base, slope = total * float((joint.shares * joint.covariance(common, common)).sum()), 0.0
    for part, weights in zip(parts, undone, strict=True):
        added, slope = _compute_added_variance(joint, part, weights, common, is_count=len(parts) == 1)
        base += added + _unevenness(reading.design, joint, part, weights, total)
    return _Estimate(value, base, slope)


def _whole_variance(joint: Joint, theta: Floats, total: float) -> float:
    """The variance of a published count of all records: f less how often values meet, which is exact."""
    return max(total * float((joint.shares * theta * (theta - joint.mean(theta))).sum()), 0.0)


def _compute_added_variance(
    joint: Joint, part: _Selected, weights: Floats, common: Floats, *, is_count: bool
) -> tuple[float, float]:
    """The variance that the selected records add, as base + slope * count.

    It depends on what they hold; for a plain count what matters most is how many of them hold what is wanted, and that
    is left open.
    """
    composition = joint.composition(part.second)
    squared, crossed = joint.covariance(weights, weights), joint.covariance(weights, common)
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


def _unevenness(design: DecoyDesign, joint: Joint, part: _Selected, weights: Floats, total: float) -> float:
    """What it adds that values do not meet exactly as often as their shares say.

    In a tranche of mixed groups a value fills an arc of the circle of groups, and how far two arcs of lengths a <= b
    overlap has the variance a²(b - a/3) - a²b². It matters as far as the condition selects a value's records more often
    than others.
    """
    if len(joint.laws) > 1:
        return 0.0
    law, shares, size = joint.laws[0], joint.shares, design.group_size
    rows, square = float(part.first.sum()), max(float(part.second.sum()), 1e-300)
    composition = joint.composition(part.second) * (rows / square)
    excess = composition / np.maximum(shares * total, 1.0) - rows / total
    wanted = np.flatnonzero(part.theta != _find_weighted_median(part.theta, shares))
    if isinstance(law, GroupLaw):
        return float(excess**2 @ law.spread @ (weights - weights.mean()) ** 2)
    if design.creation is not Creation.MIXED:
        return 0.0
    groups = total / size / math.sqrt(count_tranches(round(total), len(shares), size))
    seats = (weights[wanted] - weights.mean()) * groups / size
    arcs = np.minimum(shares * size, 1.0)
    arcs = np.minimum(arcs, 1 - arcs)  # what an arc leaves free overlaps as unevenly as the arc itself
    step = max(1, MOST_PAIRS // len(arcs))
    return sum(
        float(
            excess**2
            @ _compute_overlap_variances(arcs, wanted[start : start + step])
            @ seats[start : start + step] ** 2
        )
        for start in range(0, len(wanted), step)
    )


def _compute_overlap_variances(arcs: Floats, wanted: Indices) -> Floats:
    """The variance of how far the arc of each value (row) overlaps those of wanted ones (columns)."""
    short, long = np.minimum.outer(arcs, arcs[wanted]), np.maximum.outer(arcs, arcs[wanted])
    variances = np.maximum(short**2 * (long - short / 3) - (short * long) ** 2, 0.0)
    variances[wanted, np.arange(len(wanted))] = 0.0
    return np.asarray(variances)


def _make_unknown_estimate(joint: Joint, parts: Sequence[_Selected]) -> Moments:
    """Where a value is in every group nothing is known but how often values are there at all."""
    value = sum(float((part.theta * joint.shares).sum() * part.first.sum()) for part in parts)
    least, most = _compute_bounds(parts)
    note = "no information: a value is in every decoy group, or always beside the same ones; taken as unrelated"
    return Moments.of(value, (most - least) ** 2, 0.0, most, least, note)


def _describe_reliability(joint: Joint, wanted: Mask, value: float, error: float, size: int) -> str:
    """Whether an answer is one to rely on: a small sum is protected by being unreliable."""
    if error <= UNRELIABLE * value:
        return f"relative error about {error / value if value else 0.0:.1%}"
    amplified = joint.amplification(wanted)
    why = "the count is too small"
    if len(joint.laws) > 1:
        why = "next to no joint information is published"
    elif amplified > FAR_AMPLIFIED * size:
        why = "a value is in most groups"
    return f"deliberately unreliable: {why} (noise is amplified {amplified:.3g} times)"


# -------------------------------------------------------------------------------------------------------------- methods


def estimate_counts(
    design: DecoyDesign, tally: Tally, wanted: Sequence[Indices], laws: DistributionMaker
) -> list[Moments]:
    """For each set of wanted places, an estimate under each condition; the release is read once for all."""
    lines, size = tally.counts.astype(np.float64), math.prod(design.sizes)
    reading = _make_reading(design, tally, laws)
    estimates: list[list[Moments]] = [[] for _ in wanted]
    for counts in lines:  # all sets of one condition together: what its records hold is worked out once
        for number, places in enumerate(wanted):
            theta = np.zeros(size)
            theta[places] = 1.0
            estimates[number].append(_estimate_parts(reading, [_Selected(theta, counts, counts)]))
    return [Moments.joined(moments) for moments in estimates]


def estimate_total(design: DecoyDesign, pieces: Sequence[Piece], laws: DistributionMaker) -> Moments:
    """One estimate for all pieces together."""
    parts = []
    for piece in pieces:
        first = np.asarray(piece.first.counts[0], dtype=np.float64)
        second = first if piece.second is piece.first else np.asarray(piece.second.counts[0], dtype=np.float64)
        parts.append(_Selected(piece.theta, first, second))
    moments = _estimate_parts(_make_reading(design, pieces[0].first, laws), parts)
    if moments.is_own_note:
        moments = replace(moments, notes=(), is_own_note=False)  # what is said of a count says nothing of a sum
    if moments.base[0] == 0 or all(piece.has_bounds for piece in pieces):
        return moments
    return replace(moments, least=np.array([-math.inf]), most=np.array([math.inf]))


def make_twin(design: DecoyDesign, whole: Tally, holdings: Holdings | None, laws: DistributionMaker) -> Twin:
    """The laws of one column, as numbers."""
    if len(design.sizes) > 1:
        raise QueryError(
            "several columns that are protected each for itself cannot be asked in a page; ask with sfumato query."
        )
    reading = _Reading(design, whole.counts[0].astype(np.int64), laws)
    joints = {"law": reading.joint((0,)), "once": reading.shown_once((0,))}
    numbers = {
        f"{name}_{part}": array
        for name, joint in joints.items()
        if joint is not None
        for part, array in joint.laws[0].twin().items()
    }
    tranches = count_tranches(round(reading.total), design.sizes[0], design.group_size)
    settings = {
        "total": reading.total,
        "group_size": design.group_size,
        "is_mixed": design.creation is Creation.MIXED,
        "groups": reading.total / design.group_size / math.sqrt(tranches),
        "unreliable": UNRELIABLE,
        "far_amplified": FAR_AMPLIFIED,
        "most_amplified": MOST_AMPLIFIED,
        "steps": COMPOSITION_STEPS,
    }
    return Twin(Path(__file__).with_name("counting.js"), {**settings, **numbers})


def estimate_shrunk(design: DecoyDesign, tally: Tally, wanted: Sequence[Indices]) -> list[Moments]:
    """Pull the count of each value towards what it would be if it had nothing to do with the condition.

    How far is learnt from all values of the same condition: the further, the less they deviate beyond noise.
    """
    if len(design.sizes) > 1:
        raise QueryError("the method 'shrunk' is for one sensitive column; use fitted, closed or inverse.")
    laws = make_fitted_distribution if design.creation is Creation.MIXED else group_law_of
    whole = count_published_values(tally)
    lines = Tally.of_symbols(np.concatenate([tally.counts, whole[np.newaxis]])).beside(tally.whole, None)
    singles = estimate_counts(design, lines, [np.array([place]) for place in range(design.sizes[0])], laws)
    values, base, slope = (
        np.array([getattr(single, name) for single in singles]).T for name in ("value", "base", "slope")
    )
    # What is expected is a part of the published count, and brings that part of its noise into both.
    part = lines.rows[:, np.newaxis] / max(lines.rows[-1], 1)
    noise = np.maximum(base + slope * np.maximum(values, 0.0) - part**2 * base[-1], 0.0)
    expected = lines.rows[:, np.newaxis] * laws(design, whole.astype(np.float64)).shares
    shrunk_counts = shrink_counts(values, noise, expected)[:-1]
    return [
        Moments.exact(tally.rows.astype(np.float64) * bool(len(places)))
        if len(places) in (0, design.sizes[0])
        else make_moments_without_error(shrunk_counts[:, places].sum(axis=1), tally)
        for places in wanted
    ]
