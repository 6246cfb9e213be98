"""Intervals of counts from records of several levels hold the truth as often as they say, for values and groups.

Releases are drawn by the mechanism itself. The variance of a count depends on how many records are near of kin to what
is counted, and is estimated: so it is tried where most records are siblings, and where hardly any is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

import numpy as np
import pyarrow as pa
import pytest

from sfumato._records.set_records import convert_bits_to_arrow
from sfumato._records.tally import Tally
from sfumato._request.belief_bounds import BreachBound
from sfumato._request.hierarchy import Hierarchy
from sfumato._request.histogram import Histogram
from sfumato.mechanisms._randomized_response.estimators import DEFAULT
from sfumato.mechanisms._subset_selection import levels
from sfumato.mechanisms.estimator import Moments
from statistical.covering import RANGES, assert_covers, halved, held, share_held
from statistical.support import LARGEST_SCORE, keyed_draws, standard_score

pytestmark = pytest.mark.statistical

RELEASES = 1500
ROWS = 300
GROUPS = "AAAAAABBBCCCCCCCCCDE"
SIZE = len(GROUPS)

TABLES: Mapping[str, Sequence[int]] = {
    "even": [15] * SIZE,
    "mostly siblings": [10, 50, 50, 50, 50, 60, *[2] * 13, 4],
    "rare groups": [*[0] * 5, 5, *[0] * 3, *[32] * 9, 7, 0],
}
WANTED: Mapping[str, Sequence[int]] = {
    "a value": [0],
    "a value alone in its group": [18],
    "a group": range(6),
    "a small group": range(6, 9),
    "a value of each group": [0, 6, 9, 18, 19],
}


@cache
def released(table: str) -> tuple[levels.Design, Tally]:
    """Many releases of a table, each a line of one tally."""
    paths = list(zip(range(SIZE), GROUPS, strict=True))
    histogram = Histogram.of(range(SIZE), TABLES[table], (), Hierarchy.of(("value", "chapter"), paths))
    assert histogram.total == ROWS
    plan = levels.plan(histogram, BreachBound("1/10", "1/3"), levels.Options("value=0.7,chapter=0.3"), keyed_draws(0))
    codes = np.tile(np.repeat(np.arange(SIZE), TABLES[table]), RELEASES)
    replaced = levels.perturb(plan, codes, None, keyed_draws(len(table)), 0)
    design = levels.make_design(plan)
    shown = levels.make_encoding(design)
    names = pa.array(shown.levels, pa.string()).take(pa.array(replaced.cells))
    entries = shown.decode_records(names, convert_bits_to_arrow(replaced.values)).reshape(RELEASES, ROWS, -1)
    return design, Tally(entries.sum(axis=1, dtype=np.int64), np.full(RELEASES, ROWS))


@cache
def counted(table: str, wanted: str) -> tuple[Moments, int]:
    design, tally = released(table)
    (moments,) = levels.MECHANISM.estimators[DEFAULT].count(design, tally, [np.array(WANTED[wanted])])
    return moments, sum(TABLES[table][place] for place in WANTED[wanted])


every_setting = pytest.mark.parametrize(("table", "wanted"), [(table, wanted) for table in TABLES for wanted in WANTED])


@every_setting
def test_intervals_hold_the_truth_as_often_as_they_say(table: str, wanted: str) -> None:
    moments, truth = counted(table, wanted)
    for level, limits in RANGES.items():
        # Near no count at all an interval can miss on one side only.
        assert_covers(share_held(moments, level, truth), RELEASES, (limits[0], 1.0))
        assert_covers(share_held(moments, level, truth), RELEASES, (0.0, max(limits[1], (3 + level) / 4)))


def test_intervals_hold_the_truth_as_often_as_they_say_on_average() -> None:
    """At 95%, over all settings in which the count is not near its end."""
    found = [counted(table, wanted) for table in TABLES for wanted in WANTED]
    inner = [held(moments, 0.95, truth).mean() for moments, truth in found if truth > 2 * np.sqrt(moments.base.mean())]
    assert len(inner) >= 3
    assert 0.93 <= float(np.mean(inner)) <= 0.97


@every_setting
def test_intervals_of_half_the_width_would_be_noticed(table: str, wanted: str) -> None:
    moments, truth = counted(table, wanted)
    assert share_held(halved(moments), 0.95, truth) < RANGES[0.95][0] - 0.05


@every_setting
def test_estimates_are_right_on_average_and_scatter_as_much_as_they_say(table: str, wanted: str) -> None:
    moments, truth = counted(table, wanted)
    variance = float(np.mean(moments.base + moments.slope * truth))
    assert abs(standard_score(moments.value, truth, variance**0.5)) <= LARGEST_SCORE
    # The variance of so many draws is known to about 1 in 27, and six times that is hardly ever passed.
    assert float(((moments.value - truth) ** 2).mean()) == pytest.approx(variance, rel=0.22)
    assert float(moments.base.std()) < 0.2 * variance
