"""Estimates counts and sums from the noisy counts of crowds and the sets of all other people.

The estimate of a crowd's count is the mean of the noisy count, given all noisy counts clamped to possible counts. This
estimate is unbiased, and has less variance than the noisy count. Its variance is estimated without bias. Crowds and
sets are independent, so their variances add up. If a question selects whole groups of a coarse table, the counts of
this table are combined with both parts.
Notation: theta = a number for each value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import numpy.typing as npt

from sfumato._core.array_types import Counts, Floats, Indices, Mask
from sfumato._records.crowd_lines import CrowdLines, CrowdTable
from sfumato._records.tally import Holdings, Tally
from sfumato.errors import InternalError
from sfumato.mechanisms._noisy_counts.clamped_estimation import VarianceReduction
from sfumato.mechanisms._noisy_counts.coarse_estimation import CoarseCombiner, CombinedParts, compute_shares
from sfumato.mechanisms._noisy_counts.crowd_size import average_set_variance
from sfumato.mechanisms._noisy_counts.few_cells import compute_interval
from sfumato.mechanisms._noisy_counts.fixed_sum_noise import FixedSumNoise
from sfumato.mechanisms._randomized_response.estimators import DEFAULT, NO_ASSUMPTION
from sfumato.mechanisms._subset_selection import subset_mechanism as subset
from sfumato.mechanisms.estimator import BrowserEstimator, KnownDistributions, Method, Moments, SumPiece, Weights

if TYPE_CHECKING:
    from sfumato.mechanisms._noisy_counts.noisy_counts_mechanism import Design

NumberT = TypeVar("NumberT", bound=np.generic)

MOST_KNOWN_CROWDS = 19
"""Up to this number of crowds, the exact distribution of the noise gives the interval."""
LEAST_SHARE = 0.5
"""The smallest allowed sum of estimated variances, as a share of the variance of the noise."""
MOST_KEPT = 1 << 24
"""The number of reductions that a table keeps for further questions."""


SUMMED_NOTE = (
    "This page has sums of noisy counts, because the release is too large for one file. So its standard errors and "
    "intervals are at least as large as those that sfumato gives for the same question."
)


def compute_noise_variance(noise: FixedSumNoise, theta: Floats) -> float:
    """The variance of the noise in the sum of theta over one crowd."""
    size = noise.size
    return float(noise.variance) * size / (size - 1) * float(((theta - theta.mean()) ** 2).sum())


def estimate_crowds(
    noise: FixedSumNoise, crowds: CrowdLines, squared: CrowdLines, theta: Floats
) -> tuple[Floats, Floats]:
    """The sum of theta over the crowds of each line, and its variance. `squared` has the squares of the weights."""
    table = crowds.counts
    wanted = np.flatnonzero(theta)
    value = crowds.sum(table.estimates[:, wanted] @ theta[wanted])
    noise_variance = squared.sum_weights() * compute_noise_variance(noise, theta)
    reduced = noise_variance - squared.sum(_compute_reductions(noise, table, theta))
    return value, np.maximum(reduced, LEAST_SHARE * noise_variance)


def _compute_reductions(noise: FixedSumNoise, table: CrowdTable, theta: Floats) -> Floats:
    """The variance that clamping removes from the sum of theta in each crowd. Recent results are kept."""
    kept: dict[object, Floats] = table.__dict__.setdefault("_kept_reductions", {})
    key = theta.tobytes()
    if key not in kept:
        if len(kept) * len(table) > MOST_KEPT:
            kept.clear()
        kept[key] = _find_reduction(noise, table).compute(theta)
    return kept[key]


def _find_reduction(noise: FixedSumNoise, table: CrowdTable) -> VarianceReduction:
    """The effect of clamping in each crowd. It is computed once for a table."""
    reduction: VarianceReduction | None = table.__dict__.get("_reduction")
    if reduction is None:
        reduction = table.__dict__["_reduction"] = VarianceReduction.of(noise, table.people, table.noisy)
    return reduction


def _get_crowds(design: Design, tally: Tally) -> CrowdLines:
    """The crowds of a tally. A tally of records alone has none."""
    return CrowdLines.of_none(len(tally), len(design.domain)) if tally.crowds is None else tally.crowds


def _combine_parts(design: Design, tally: Tally, squared_tally: Tally) -> CombinedParts:
    """The parts of a sum: its crowds, its sets, and the coarse groups that it selects as a whole."""
    crowds, records = _get_crowds(design, tally), _select_records(tally)
    is_same = squared_tally is tally
    squared = crowds if is_same else _get_crowds(design, squared_tally)
    squared_records = records if is_same else _select_records(squared_tally)
    if not _uses_coarse_tables(crowds):
        return CombinedParts(crowds, squared, records, squared_records, ())
    return _find_combiner(design, crowds.counts).combine(crowds, squared, records, squared_records)


def _uses_coarse_tables(crowds: CrowdLines) -> bool:
    return crowds.coarse is not None and len(crowds.coarse.crowds) > 0


def _find_combiner(design: Design, table: CrowdTable) -> CoarseCombiner:
    """The weights of the coarse groups. They are computed once for a table."""
    combiner: CoarseCombiner | None = table.__dict__.get("_combiner")
    if combiner is None:
        coarse_noise = [coarse.noise for coarse in design.coarse]
        (own, *_), (other, *_) = subset.predict_record_variances(design.sets)
        set_variance = average_set_variance(design.noise.size, float(own), float(other))
        shares = compute_shares(table, design.noise, coarse_noise, set_variance)
        combiner = table.__dict__["_combiner"] = CoarseCombiner(table, shares, coarse_noise)
    return combiner


def _estimate_fine_parts(design: Design, parts: CombinedParts, theta: Floats) -> tuple[Floats, Floats]:
    """The sum of theta over the crowds and the coarse groups of each line, and its variance."""
    value, variance = estimate_crowds(design.noise, parts.crowds, parts.squared_crowds, theta)
    for part in parts.coarse:
        own_value, own_variance = estimate_crowds(part.noise, part.groups, part.squared, theta)
        value, variance = value + own_value, variance + own_variance
    return value, variance


def _select_records(tally: Tally) -> Tally:
    """The tally of the people outside crowds; their number is the last symbol."""
    return Tally(tally.counts[:, :-1], tally.counts[:, -1])


# --------------------------------------------------------------------------------------------------------------- counts


def _estimate_counts(design: Design, tally: Tally, value_sets: Sequence[Indices]) -> list[Moments]:
    """Adds the estimates from crowds and from sets.

    A line without crowds has the confidence interval of a release of sets.
    """
    crowds, records = _get_crowds(design, tally), _select_records(tally)
    combined = _CombinedCounts.of(design, tally)
    rows, size = tally.rows.astype(np.float64), len(design.domain)
    estimates = []
    for places, sets in zip(value_sets, subset.CLOSED.count(design.sets, records, value_sets), strict=True):
        if len(places) in (0, size):
            estimates.append(Moments.exact(rows if len(places) else np.zeros(len(rows))))
            continue
        theta = np.zeros(size)
        theta[places] = 1.0
        moments = _add_crowds(design.noise, crowds, sets, theta, rows)
        estimates.append(moments if combined is None else combined.replace_lines(moments, places, theta))
    return estimates


@dataclass(frozen=True)
class _CombinedCounts:
    """The lines of a tally that select whole groups of coarse tables."""

    design: Design
    lines: Indices
    parts: CombinedParts

    @classmethod
    def of(cls, design: Design, tally: Tally) -> _CombinedCounts | None:
        """Selects the lines that use coarse tables, and returns None if no line uses one. Each line is a count."""
        crowds = _get_crowds(design, tally)
        if crowds.coarse is None or not _uses_coarse_tables(crowds):
            return None
        lines = np.flatnonzero(crowds.coarse.sizes)
        part = tally.take(lines)
        return cls(design, lines, _combine_parts(design, part, part))

    def replace_lines(self, moments: Moments, places: Indices, theta: Floats) -> Moments:
        """Estimates the count of some values in these lines again, with normal intervals."""
        value, variance = _estimate_fine_parts(self.design, self.parts, theta)
        (sets,) = subset.CLOSED.count(self.design.sets, self.parts.records, [places])
        (noise,) = subset.CLOSED.count(self.design.sets, self.parts.squared_records, [places])
        variance = variance + noise.base + noise.slope * np.clip(noise.value, 0.0, noise.most)
        values, base, slope = (
            _replace(numbers, self.lines, new)
            for numbers, new in ((moments.value, value + sets.value), (moments.base, variance), (moments.slope, 0.0))
        )
        moments = replace(moments, value=values, base=base, slope=slope)
        if moments.chances is not None:
            chances = moments.chances.copy()
            chances[:, self.lines] = np.nan
            moments = replace(moments, chances=chances)
        if moments.known is not None:
            known = replace(moments.known, crowds=_replace(moments.known.crowds, self.lines, 0))
            moments = replace(moments, known=known if known.crowds.any() else None)
        return moments


def _replace(numbers: npt.NDArray[NumberT], places: Indices, new: npt.ArrayLike) -> npt.NDArray[NumberT]:
    changed = numbers.copy()
    changed[places] = new
    return changed


def _add_crowds(noise: FixedSumNoise, crowds: CrowdLines, sets: Moments, theta: Floats, rows: Floats) -> Moments:
    value, variance = estimate_crowds(noise, crowds, crowds, theta)
    has_crowds, has_sets = crowds.sizes > 0, sets.most > 0
    # The variance of the sets is taken at the estimate of the sets, because the total count does not tell how many
    # people have a set.
    plugged_in = sets.base + sets.slope * np.clip(sets.value, 0.0, sets.most)
    base = np.where(has_crowds, variance + plugged_in, sets.base)
    slope = np.where(has_crowds, 0.0, sets.slope)
    moments = Moments(sets.value + value, base, slope, rows, np.zeros(len(rows)))
    if sets.chances is not None:
        moments = replace(moments, chances=np.where(has_crowds, np.nan, sets.chances))
    is_known = has_crowds & ~has_sets & (crowds.sizes <= MOST_KNOWN_CROWDS)
    if not is_known.any():
        return moments
    wanted = np.full(len(rows), int(theta.sum()))
    known = KnownDistributions(
        partial(compute_interval, noise),
        np.where(is_known, crowds.sizes, 0),
        wanted,
        _add_up_noisy(crowds, is_known, theta),
    )
    return replace(moments, known=known)


def _add_up_noisy(crowds: CrowdLines, is_known: Mask, theta: Floats) -> Counts:
    """The noisy counts of the wanted values, added up over the crowds of each known line; 0 for any other line."""
    sums = np.zeros(len(crowds), dtype=np.int64)
    (lines,) = np.nonzero(is_known)
    known = crowds.take(lines)
    noisy = known.counts.noisy[np.ix_(known.crowds, np.flatnonzero(theta))].sum(axis=1)
    if known.weights is not None:
        noisy = np.rint(noisy * known.weights).astype(np.int64)
    sums[lines] = np.add.reduceat(noisy, known.starts[:-1])
    return sums


# ----------------------------------------------------------------------------------------------------------------- sums


def _estimate_total(design: Design, pieces: Sequence[SumPiece]) -> Moments:
    """Estimates a sum over all people."""
    value, variance = 0.0, 0.0
    set_pieces = []
    for piece in pieces:
        parts = _combine_parts(design, piece.tally, piece.squared_tally)
        own_value, own_variance = _estimate_fine_parts(design, parts, piece.theta)
        value += float(own_value[0])
        variance += float(own_variance[0])
        set_pieces.append(SumPiece(piece.theta, parts.records, parts.squared_records, piece.is_positive))
    sets = (
        subset.CLOSED.total(design.sets, set_pieces) if subset.CLOSED.total is not None else Moments.exact(np.zeros(1))
    )
    least, most = -np.inf, np.inf
    if all(piece.has_bounds for piece in pieces):
        least, most = (
            sum(float(pick(piece.theta)) * float(piece.tally.rows[0]) for piece in pieces) for pick in (np.min, np.max)
        )
    return Moments.of(value + float(sets.value[0]), variance + float(sets.base[0]), 0.0, most, least)


# ---------------------------------------------------------------------------------------------------- records and pages


def _compute_weights(design: Design, theta: Floats) -> Weights:
    """What each person outside crowds adds to a sum. The crowds add their estimates."""
    if subset.CLOSED.compute_weights is None:
        raise InternalError("sets have no weights. Please report this.", code="no-set-weights")
    weights = subset.CLOSED.compute_weights(design.sets, theta)
    # The last symbol is the person, because the people of a tally include those in crowds.
    return Weights(np.append(weights.entry_weights, weights.constant), np.zeros(()))


def _make_twin(design: Design, whole: Tally, holdings: Holdings | None) -> BrowserEstimator:
    """The estimator for the browser, from the design alone: the page has the noisy counts."""
    noise, sets = design.noise, asdict(design.sets.selection.weighing)
    numbers = {
        "sets": sets,
        "ratio": float(noise.ratio),
        "variance": float(noise.variance),
        "least_share": LEAST_SHARE,
        "most_known": MOST_KNOWN_CROWDS,
    }
    scripts = Path(__file__).with_name("crowds.js"), Path(subset.__file__).with_name(subset.SET_SCRIPT)
    return BrowserEstimator(scripts[0], numbers, scripts[1:], SUMMED_NOTE)


CLOSED: Method[Design] = Method(
    "unbiased count, with an exact, a score or a normal confidence interval",
    NO_ASSUMPTION,
    _estimate_counts,
    total=_estimate_total,
    compute_weights=_compute_weights,
    twin=_make_twin,
)
METHODS: Mapping[str, Method[Design]] = {DEFAULT: CLOSED}
