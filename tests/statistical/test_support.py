"""The helpers of the statistical tests, put to the test: they accept what is right, and reject what is wrong."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from statistical.support import (
    ALPHA,
    LARGEST_SCORE,
    assert_different,
    assert_mean,
    assert_other_mean,
    assert_same_distribution,
    counts_of,
    joint_counts_of,
    p_value,
    product_law,
    standard_score,
)

pytestmark = pytest.mark.statistical

LAW = (0.5, 0.3, 0.2)


def test_p_value_of_a_coin_agrees_with_the_table() -> None:
    """30 heads in 100: chi-square (20² + 20²)/50 = 16 with one degree of freedom, 6.334e-5 in any table."""
    assert p_value(np.array([30, 70]), (0.5, 0.5)) == pytest.approx(6.334e-5, rel=1e-3)


def test_p_value_of_counts_exactly_as_expected_is_one() -> None:
    assert p_value(np.array([50, 30, 20]), LAW) == pytest.approx(1)


def test_p_values_under_the_law_are_spread_evenly() -> None:
    """So that ALPHA is the false-positive rate; the 1000 p-values are compared with the uniform law in ten classes."""
    samples = np.random.default_rng(7).multinomial(2000, LAW, size=1000)
    classes = [min(9, int(10 * p_value(sample, LAW))) for sample in samples]
    assert_same_distribution(counts_of(np.array(classes), 10), [0.1] * 10)


def test_same_distribution_rejects_what_different_accepts() -> None:
    drawn = np.random.default_rng(7).multinomial(100_000, LAW)
    wrong = (0.48, 0.32, 0.2)
    assert_same_distribution(drawn, LAW)
    assert_different(drawn, wrong)
    with pytest.raises(AssertionError, match="below 1e-09"):
        assert_same_distribution(drawn, wrong)
    with pytest.raises(AssertionError, match="not below 1e-09"):
        assert_different(drawn, LAW)


def test_an_impossible_outcome_is_rejected_whatever_else_fits() -> None:
    assert_different(np.array([50_000, 50_000, 1]), (0.5, 0.5, 0))


def test_an_impossible_outcome_that_never_happened_does_not_count() -> None:
    assert_same_distribution(np.array([50_100, 49_900, 0]), (0.5, 0.5, 0))


def test_too_few_draws_are_refused() -> None:
    with pytest.raises(ValueError, match="take more draws"):
        p_value(np.array([8, 8, 0]), (0.495, 0.495, 0.01))


def test_a_law_that_does_not_sum_to_one_is_refused() -> None:
    with pytest.raises(ValueError, match="sum to one"):
        p_value(np.array([50, 50]), (0.5, 0.6))


@pytest.mark.parametrize("outcome", [-1, 3, 2**40])
def test_counts_refuse_an_outcome_outside_the_law(outcome: int) -> None:
    with pytest.raises(AssertionError, match="outside the law"):
        counts_of(np.array([0, 1, outcome]), 3)


def test_joint_counts_and_product_law_have_the_same_order() -> None:
    assert joint_counts_of(np.array([0, 1, 1]), np.array([2, 0, 0]), 3).tolist() == [0, 0, 1, 2, 0, 0, 0, 0, 0]
    assert product_law((0.5, 0.5, 0), LAW)[2] == pytest.approx(0.5 * 0.2)


def test_the_largest_score_has_the_error_rate_of_all_tests() -> None:
    assert 2 * stats.norm.sf(LARGEST_SCORE) == pytest.approx(ALPHA)


def test_a_mean_off_by_more_than_the_largest_score_is_rejected() -> None:
    sample = [9.0, 11.0] * 50
    assert standard_score(sample, 9.0, 1.0) == pytest.approx(10)
    assert_mean(sample, 10.0, 1.0)
    assert_other_mean(sample, 9.0, 1.0)
    with pytest.raises(AssertionError, match=r"10\.0 standard errors away, above"):
        assert_mean(sample, 9.0, 1.0)
    with pytest.raises(AssertionError, match="not above"):
        assert_other_mean(sample, 10.0, 1.0)
