"""What the thesis' experiments on buckets are made of."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from papers import Conditions
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
from papers.multiple_sized_bucketization.running_times import (
    FULL,
    NONE,
    PROGRAMME,
    SearchTime,
    compare_programme,
    split_values,
)
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
