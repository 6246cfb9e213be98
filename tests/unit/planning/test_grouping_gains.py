"""What publishing at a level would gain, against errors that are worked out by hand."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from sfumato._core.random_draws import Draws
from sfumato._planning.grouping_gains import GroupingGain, compute_gains
from sfumato._planning.mechanism_choice import choose
from sfumato._request.belief_bounds import BreachBound, PrivacySpec
from sfumato._request.bucket_and_decoy_requirements import LinearCap
from sfumato._request.hierarchy import Hierarchy
from sfumato._request.histogram import Histogram
from sfumato.mechanisms import REGISTRY
from sfumato.mechanisms._subset_selection import levels

CODES = [f"x{number:02}" for number in range(12)]
HIERARCHY = Hierarchy.of(
    ("code", "chapter", "all"), [(code, f"chapter {place // 4}", "all") for place, code in enumerate(CODES)]
)
HISTOGRAM = Histogram.of(CODES, [100] * 12, (), HIERARCHY)


def gained(spec: PrivacySpec, mechanism: str = "auto", **more: Any) -> tuple[GroupingGain, ...]:
    """The gains of every level."""
    planned = partial(choose, spec=spec, draws=Draws.from_fresh_key(), mechanism=mechanism, **more)
    return compute_gains(planned(HISTOGRAM), planned)


def uniform_error(size: int, wanted: int, share: float, amplification: float) -> float:
    """The standard error of a count of some values by hits, of one record: a share of the records holds them."""
    retention = (amplification - 1) / (amplification - 1 + size)
    other = wanted * (1 - retention) / size
    own = retention + other
    return math.sqrt(share * own * (1 - own) + (1 - share) * other * (1 - other)) / retention


def test_gain_is_the_ratio_of_two_errors() -> None:
    bound = BreachBound("1/4", "1/2")  # odds may rise three times
    chapter, _ = gained(bound, "uniform")
    expected = uniform_error(12, 4, 1 / 3, 3) / uniform_error(3, 1, 1 / 3, 3)
    assert chapter == GroupingGain("chapter", 3, "uniform", pytest.approx(expected, rel=1e-9))
    assert expected > 1.5


def test_gain_is_that_of_what_would_be_chosen() -> None:
    chapter, _ = gained(BreachBound("1/4", "1/2"))
    assert (
        chapter.mechanism
        == choose(HISTOGRAM.group_by_level(1), BreachBound("1/4", "1/2"), Draws.from_fresh_key()).mechanism.name
    )
    assert chapter.factor is not None
    assert chapter.factor > 1


@pytest.mark.slow
def test_level_that_cannot_be_published_says_why() -> None:
    for each in (gained(BreachBound("1/4", "1/2"))[1], gained(LinearCap("3/2"))[1]):
        assert (each.level, each.group_count, each.mechanism, each.factor) == ("all", 1, None, None)
        assert f"(`publish_at={{'my code': 'all'}}`): not possible, because {each.reason}" in each.describe("my code")


def test_options_for_the_values_do_not_stand_against_groups() -> None:
    options = {"levels": levels.Options(levels="code=4/5,chapter=1/5")}
    chapter, _ = gained(BreachBound("1/4", "1/2"), options=options)
    assert (chapter.mechanism, chapter.reason) == ("uniform", None)
    named, _ = gained(BreachBound("1/4", "1/2"), "levels", options=options)
    assert named.factor is None
    assert named.describe("code").endswith("): unknown, because levels cannot publish only this level")


def test_mechanism_that_foretells_no_error_says_so() -> None:
    silent = replace(REGISTRY["uniform"], name="silent", error_prediction=None)
    plan = replace(choose(HISTOGRAM, BreachBound("1/4", "1/2"), Draws.from_fresh_key(), "uniform"), mechanism=silent)
    chapter, _ = compute_gains(plan, lambda histogram: plan)
    assert chapter.factor is None
    assert chapter.reason
    assert "ErrorPrediction" in chapter.reason


def test_counts_without_a_hierarchy_gain_nothing() -> None:
    plain = choose(Histogram.of(CODES, [100] * 12), BreachBound("1/4", "1/2"), Draws.from_fresh_key())
    assert compute_gains(plain, lambda histogram: plain) == ()


@pytest.mark.parametrize(
    ("factor", "words"),
    [
        (5.83, "5.8 times smaller"),
        (0.5, "2.0 times larger"),
        (1.04, "as large as without groups"),
        (0.97, "as large as without groups"),
    ],
)
def test_gain_in_words(factor: float, words: str) -> None:
    said = GroupingGain("chapter", 19, "subset", factor).describe("diagnosis")
    opening = "by chapter, in 19 groups (`publish_at={'diagnosis': 'chapter'}`)"
    assert said == f"{opening}: the error of a group's count is {words}"


def test_one_group_is_one() -> None:
    assert (
        GroupingGain("all", 1, reason="so")
        .describe("code")
        .startswith("by all, in one group (`publish_at={'code': 'all'}`): ")
    )
