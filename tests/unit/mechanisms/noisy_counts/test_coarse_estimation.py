"""Coarse tables and crowds with sets are combined without bias, and the variance is that of the combination.

All outcomes of a tiny table are lines of one tally, each with crowds, sets and a coarse group of its own. So means over
outcomes are exact, up to outcomes that are too rare to be listed.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import product

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

from coarse_plans import make_plan
from sfumato._records.crowd_lines import CoarseGroups, CrowdLines, CrowdTable
from sfumato._records.tally import Tally
from sfumato._request.belief_bounds import BreachBound
from sfumato.errors import ReleaseFormatError
from sfumato.mechanisms._noisy_counts import crowd_estimators
from sfumato.mechanisms._noisy_counts import noisy_counts_mechanism as noisy_counts
from sfumato.mechanisms._noisy_counts.clamped_estimation import estimate_counts
from sfumato.mechanisms._noisy_counts.fixed_sum_noise import FixedSumNoise
from sfumato.mechanisms.estimator import Moments, SumPiece

FLOATS = npt.NDArray[np.float64]
DESIGN = noisy_counts.make_design(make_plan("age=1/3", BreachBound("1/10", "9/10"), values=2))
CROWDS = [[2, 0], [1, 2]]
"""The true counts of two crowds."""
ALONE = 1
"""The value of a person outside crowds."""
TRUTH = [3, 3]
FARTHEST = 7
"""Noise beyond this is left out."""


def make_table(noise: FixedSumNoise, people: list[int], noisy: list[list[int]]) -> CrowdTable:
    sizes, counts = np.array(people), np.array(noisy)
    return CrowdTable(pa.table({"line": range(len(people))}), sizes, counts, estimate_counts(noise, sizes, counts))


@cache
def list_outcomes() -> tuple[FLOATS, Tally]:
    """The probability of every outcome, and a tally with a line for each."""
    noise, coarse = DESIGN.noise, DESIGN.coarse[0].noise
    hold = DESIGN.sets.hold_probability
    moves, probabilities = range(-FARTHEST, FARTHEST + 1), []
    crowd_counts, coarse_counts, members = [], [], []
    for first, second, also, is_held in product(moves, moves, moves, (True, False)):
        own = noise.zero_probability**2 * noise.ratio ** (abs(first) + abs(second))
        beside = coarse.zero_probability * coarse.ratio ** abs(also)
        probabilities.append(float(own * beside * (hold if is_held else 1 - hold)))
        crowd_counts += [[CROWDS[0][0] + first, CROWDS[0][1] - first], [CROWDS[1][0] + second, CROWDS[1][1] - second]]
        coarse_counts.append([TRUTH[0] + also, TRUTH[1] - also])
        members.append([0, 1, 1] if is_held else [1, 0, 1])
    lines = len(probabilities)
    table = make_table(noise, [sum(counts) for counts in CROWDS] * lines, crowd_counts)
    groups = CoarseGroups(
        make_table(coarse, [sum(TRUTH)] * lines, coarse_counts), np.repeat(np.arange(lines), 2), np.array(members)
    )
    crowds = CrowdLines(
        np.arange(2 * lines),
        2 * np.arange(lines + 1),
        table=replace(table, coarse=(groups,)),
        coarse=CrowdLines(np.arange(lines), np.arange(lines + 1)),
    )
    return np.array(probabilities), Tally(np.array(members), np.full(lines, 6), crowds=crowds)


def compute_mean_and_variance(probabilities: FLOATS, moments: Moments) -> tuple[float, float, float]:
    """The mean and the variance of an estimate, and the mean of its estimated variance."""
    whole = probabilities.sum()
    mean = float(probabilities @ moments.value / whole)
    variance = float(probabilities @ (moments.value - mean) ** 2 / whole)
    return mean, variance, float(probabilities @ moments.base / whole)


def count(tally: Tally, value: int) -> Moments:
    (moments,) = crowd_estimators.CLOSED.count(DESIGN, tally, [np.array([value])])
    return moments


@pytest.fixture
def unbounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Estimated variances without a least value, which would bias them upwards."""
    monkeypatch.setattr(crowd_estimators, "LEAST_SHARE", -1e9)


@pytest.mark.usefixtures("unbounded")
def test_combined_count_is_unbiased_and_so_is_its_variance() -> None:
    probabilities, tally = list_outcomes()
    assert probabilities.sum() == pytest.approx(1, abs=1e-4)
    mean, variance, estimated = compute_mean_and_variance(probabilities, count(tally, 0))
    assert mean == pytest.approx(TRUTH[0], abs=1e-3)
    # The variance of a set is inserted at an estimate that is kept within the possible counts, so it is a little off.
    assert estimated == pytest.approx(variance, rel=0.02)


@pytest.mark.usefixtures("unbounded")
@pytest.mark.slow
def test_combination_is_more_accurate_than_both_parts() -> None:
    probabilities, tally = list_outcomes()
    assert tally.crowds is not None
    alone = replace(tally, crowds=replace(tally.crowds, coarse=None))
    _, combined, _ = compute_mean_and_variance(probabilities, count(tally, 0))
    mean, fine, _ = compute_mean_and_variance(probabilities, count(alone, 0))
    coarse = tally.crowds.counts.coarse[0].table.estimates[:, 0]
    coarse_variance = float(probabilities @ (coarse - TRUTH[0]) ** 2)
    assert mean == pytest.approx(TRUTH[0], abs=1e-3)
    assert combined < 0.95 * min(fine, coarse_variance)
    assert combined == pytest.approx(1 / (1 / fine + 1 / coarse_variance), rel=0.05)  # the weights are predicted


@pytest.mark.usefixtures("unbounded")
def test_sums_are_combined_as_counts_are() -> None:
    """A sum of theta times a weight, for a sample of the outcomes; a constant in theta changes only the value."""
    _, tally = list_outcomes()
    lines = np.arange(0, len(tally), 997)
    counts = count(tally.take(lines), 0)
    for place, line in enumerate(lines.tolist()):
        first = tally.take(np.array([line]))
        assert crowd_estimators.CLOSED.total is not None
        weighted, squared = Tally.combine([(first, 3.0)]), Tally.combine([(first, 9.0)])
        piece = SumPiece(np.array([3.0, 1.0]), weighted, squared)
        total = crowd_estimators.CLOSED.total(DESIGN, [piece])
        assert total.value[0] == pytest.approx(6 * counts.value[place] + 3 * 6)


def test_counts_of_values_add_up_and_a_part_of_a_group_is_counted_without_it() -> None:
    _, tally = list_outcomes()
    every = tally.take(np.arange(0, len(tally), 97))
    assert count(every, 0).value + count(every, 1).value == pytest.approx(np.full(len(every), 6.0))
    assert tally.crowds is not None
    lines = np.array([3, 5, 8])
    part = tally.take(lines)
    plain = replace(tally, crowds=replace(tally.crowds, coarse=None)).take(lines)
    mixed = replace(part, crowds=replace(part.crowds, coarse=CrowdLines(np.array([3, 8]), np.array([0, 1, 1, 2]))))
    both, neither, some = count(part, 0), count(plain, 0), count(mixed, 0)
    assert some.value.tolist() == [both.value[0], neither.value[1], both.value[2]]
    assert some.base.tolist() == [both.base[0], neither.base[1], both.base[2]]


def test_exact_intervals_are_kept_where_no_coarse_group_is_used() -> None:
    _, tally = list_outcomes()
    assert tally.crowds is not None
    tally = replace(tally, counts=np.zeros((len(tally), 3), dtype=np.int64)).take(np.array([0, 1]))
    crowds = replace(tally.crowds, coarse=CrowdLines(np.array([1]), np.array([0, 0, 1])))
    moments = count(replace(tally, crowds=crowds), 0)
    assert moments.known is not None
    assert moments.known.crowds.tolist() == [2, 0]


def test_weights_follow_from_public_sizes_alone() -> None:
    _, tally = list_outcomes()
    assert tally.crowds is not None
    table = tally.crowds.counts
    other = replace(table, noisy=table.noisy[:, ::-1], estimates=table.estimates[:, ::-1])
    one, two = (crowd_estimators._find_combiner(DESIGN, each).shares for each in (table, other))
    assert np.array_equal(one, two)
    assert (one > 0).all()
    assert (one < 1).all()
    assert len(set(one.tolist())) == 1


def test_groups_with_other_people_are_refused() -> None:
    _, tally = list_outcomes()
    assert tally.crowds is not None
    table = tally.crowds.counts
    (groups,) = table.coarse
    for crowd_groups, members in (
        (groups.crowd_groups, groups.members + 1),
        (np.roll(groups.crowd_groups, 1), groups.members * np.array([1, 1, 0])),
        (np.where(np.arange(len(table)) == 4, -1, groups.crowd_groups), groups.members),
        (groups.crowd_groups[:-1], groups.members),
    ):
        with pytest.raises(ReleaseFormatError):
            CoarseGroups.check(groups.table, crowd_groups, members, table.people)
