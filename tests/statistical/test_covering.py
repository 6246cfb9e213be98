"""The judge of coverage must itself be right: it lets pass what may be, and notices what cannot be."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato._query.estimate import Estimate
from sfumato.mechanisms.estimator import Moments
from statistical.covering import (
    LEVELS,
    MEANS,
    RANGES,
    assert_covers,
    assert_covers_too_rarely,
    halved,
    held,
    holds,
    share_held,
)

MOMENTS = Moments.of(500.0, 100.0, 0.0, 1000)


@pytest.mark.parametrize("level", LEVELS)
def test_the_ranges_hold_the_levels(level: float) -> None:
    for low, high in (RANGES[level], MEANS[level]):
        assert low < level < high
    assert RANGES[level][0] < MEANS[level][0] < MEANS[level][1] < RANGES[level][1]


def test_half_the_error_gives_half_the_width() -> None:
    wide, narrow = (Estimate.of(each, "method", "assumption").interval(0.95) for each in (MOMENTS, halved(MOMENTS)))
    assert narrow.high - narrow.low == pytest.approx((wide.high - wide.low) / 2)


def test_an_interval_holds_what_lies_between_its_ends() -> None:
    """500 plus and minus 1.96 times 10."""
    assert [holds(MOMENTS, 0.95, truth) for truth in (480, 481, 519, 520)] == [False, True, True, False]
    several = Moments.concatenate([MOMENTS, MOMENTS, halved(MOMENTS), Moments.of(600.0, 100.0, 0.0, 1000)])
    assert held(several, 0.95, 515).tolist() == [True, True, False, False]
    assert share_held(several, 0.95, 515) == 0.5
    assert held(several, 0.95, np.array([515, 520, 500, 600])).tolist() == [True, False, True, True]


@pytest.mark.parametrize("share", [0.925, 0.95, 0.985])
def test_coverage_within_the_range_passes(share: float) -> None:
    assert_covers(share, 1000, RANGES[0.95])


@pytest.mark.parametrize("share", [0.85, 1.0])
def test_coverage_far_from_the_range_is_noticed(share: float) -> None:
    with pytest.raises(AssertionError, match=r"too rare|too often"):
        assert_covers(share, 2000, RANGES[0.95])


def test_coverage_of_few_trials_is_not_judged_too_hard() -> None:
    assert_covers(0.86, 100, RANGES[0.95])
    with pytest.raises(AssertionError, match="may well be"):
        assert_covers_too_rarely(0.86, 100, RANGES[0.95])


def test_coverage_of_intervals_of_half_the_width_is_too_rare() -> None:
    for level, share in zip(LEVELS, (0.48, 0.67, 0.8), strict=True):
        assert_covers_too_rarely(share, 300, RANGES[level])
