"""What the thesis' experiments on buckets are made of."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from papers import Conditions, Verdict
from papers.multiple_sized_bucketization.census_problems import (
    EDUCATION,
    FACTORS,
    LARGEST,
    OCCUPATIONS,
    Census,
    compute_diversity,
    make_anatomy_setting,
    pose_problem,
)
from papers.multiple_sized_bucketization.information_losses import NAMES, OPTIMAL, _compute_ratio, figure7_2
from papers.multiple_sized_bucketization.running_times import (
    FULL,
    NONE,
    PROGRAMME,
    SearchTime,
    compare_programme,
    split_values,
)
from sfumato.mechanisms._bucketization.buckets.bucket_setting import Setting
from sfumato.mechanisms._bucketization.buckets.two_size_splitting import generate_rounds, split_top_down


@pytest.mark.parametrize(
    ("census", "needed"), [(OCCUPATIONS, [43, 37, 30, 21, 13]), (EDUCATION, [35, 27, 19, 12, 7])], ids=["OCC", "EDU"]
)
def test_diversity_follows_from_the_published_smallest_share(census: Census, needed: list[int]) -> None:
    """By hand: 1 / (θ 0.0018 + 0.02) and 1 / (θ 0.0044 + 0.02), rounded up."""
    assert [compute_diversity(census.smallest_share, factor) for factor in FACTORS] == needed


@given(st.integers(2, 60), st.integers(60, 10**6))
def test_sizes_of_anatomy_hold_all_records_and_differ_by_one(ell: int, rows: int) -> None:
    if rows % ell <= rows // ell:
        setting = make_anatomy_setting(rows, ell)
        assert setting.record_count == rows
        assert {size for size, _ in setting} <= {ell, ell + 1}


@given(st.lists(st.integers(0, 500), min_size=1, max_size=8), st.integers(1, 6))
def test_split_values_hold_the_records_of_each(counts: list[int], parts: int) -> None:
    assert sum(split_values(counts, parts, np.random.default_rng(1))) == sum(counts)
    assert len(split_values(counts, parts, np.random.default_rng(1))) <= parts * len(counts)


def test_caps_of_the_thesis_allow_buckets_up_to_50() -> None:
    """Of 50 values the most frequent has a cap of 0.17: six records are the least, but so few cannot be filled."""
    problem = pose_problem(OCCUPATIONS.get_counts(Conditions(), 10_000), 2)
    assert 6 < problem.sizes.min() < problem.sizes.max() == LARGEST


def test_kinds_of_buckets_are_compared_by_information_loss() -> None:
    """Figure 7.3 draws (3.1), the root of the loss (3.2): 18% more of it are 40% more loss."""
    two, best = Setting.of([(5, 3), (6, 4)]), Setting.of([(2, 2), (3, 5), (5, 4)])
    assert (two.record_count, best.record_count) == (39, 39)
    ratio = _compute_ratio({NAMES["two"]: two, OPTIMAL: best}, NAMES["two"])
    assert ratio == pytest.approx((two.loss / best.loss) ** 0.5)
    assert ratio == pytest.approx((3 * 4**2 + 4 * 5**2) ** 0.5 / (2 * 1**2 + 5 * 2**2 + 4 * 4**2) ** 0.5)
    assert two.information_loss == pytest.approx(148**0.5 / 38)


def test_the_thesis_excepts_only_the_size_at_the_weakest_caps() -> None:
    """Section 7.1: l is large but for θ = 32. That EDU allows no l from 4 on is said of every θ."""
    outcome = figure7_2(Conditions())
    assert outcome.verdict is Verdict.AGREES
    possible = {(row[0], row[1]) for row in outcome.rows if row[-1] == "yes"}
    assert possible == {("OCC", 32)}
    assert "excepts" not in outcome.sentence


def test_every_round_of_top_down_loses_less_than_the_one_before_it() -> None:
    problem = pose_problem(OCCUPATIONS.get_counts(Conditions(), 10_000))
    found = list(generate_rounds(problem))
    assert len(found) > 2
    assert all(after.loss < before.loss for before, after in pairwise(found))
    assert {setting.record_count for setting in found} == {10_000}
    assert found[-1] == split_top_down(problem)


def test_a_programme_that_was_stopped_early_is_neither_quicker_nor_slower() -> None:
    times = [
        *(SearchTime(table, at, NONE, 1.0) for table in ("OCC", "EDU") for at in (1, 2)),
        *(SearchTime(table, at, FULL, 0.1) for table in ("OCC", "EDU") for at in (1, 2)),
        SearchTime("OCC", 1, PROGRAMME, 0.5),
        SearchTime("OCC", 2, PROGRAMME, 0.5, is_stopped=True),
        SearchTime("EDU", 1, PROGRAMME, 2.0, is_stopped=True),
        SearchTime("EDU", 2, PROGRAMME, 2.0),
    ]
    assert "quicker than no pruning in 1 of 4 cases and slower in 2," in compare_programme(times, NONE, 5)
    assert "quicker than full pruning in 0 of 4 cases and slower in 4," in compare_programme(times, FULL, 5)
    assert "stopped after 5 s of the clock in 2" in compare_programme(times, FULL, 5)
