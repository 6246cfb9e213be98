from __future__ import annotations

import math
import sys

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from papers.baselines.distribution_based import count_published, redraw
from papers.baselines.laplace import answer_counts
from refusals import refuses
from sfumato._comparison.comparison_baselines import compute_laplace_scale
from sfumato.errors import MissingExtraError, SchemaError, SpecError
from statistical.support import (
    ALPHA,
    assert_different,
    assert_same_distribution,
    counts_of,
    joint_counts_of,
    keyed_draws,
    product_law,
)

COUNTS = (500, 0, 300, 150, 49, 1)
SHARES = [each / sum(COUNTS) for each in COUNTS]
ROWS = 200_000
ANSWERS = 20_000

# ------------------------------------------------------------------------------------------------------- drawn afresh


@pytest.mark.statistical
def test_redrawn_values_follow_the_distribution_of_the_table() -> None:
    """Fails with probability ALPHA; a value that no record has is never drawn."""
    assert_same_distribution(counts_of(redraw(COUNTS, ROWS, keyed_draws(1)), len(COUNTS)), SHARES)


@pytest.mark.statistical
@pytest.mark.parametrize("factor", [0.95, 1.05])
def test_a_wrong_distribution_would_be_noticed(factor: float) -> None:
    """The commonest value's share off by a twentieth is 22 standard errors: missed with probability below 1e-30."""
    skewed = [share * factor if share == 0.5 else share * (2 - factor) for share in SHARES]
    assert_different(counts_of(redraw(COUNTS, ROWS, keyed_draws(1)), len(COUNTS)), skewed)


@pytest.mark.statistical
def test_redrawn_values_of_neighbours_are_independent() -> None:
    counts = (5, 3, 2)
    drawn = redraw(counts, ROWS, keyed_draws(2))
    law = product_law([0.5, 0.3, 0.2], [0.5, 0.3, 0.2])
    assert_same_distribution(joint_counts_of(drawn[::2], drawn[1::2], 3), law)
    assert_different(joint_counts_of(drawn[::2], drawn[::2], 3), law)


@given(st.lists(st.integers(0, 10**12), min_size=1, max_size=300).filter(any), st.integers(0, 50))
def test_redrawn_rows_do_not_depend_on_batches(counts: list[int], first: int) -> None:
    whole, part = redraw(counts, 60, keyed_draws(3)), redraw(counts, 60 - first, keyed_draws(3), first)
    assert (whole[first:] == part).all()
    assert all(counts[place] for place in whole)
    assert whole.dtype.kind == "u"


def test_every_record_is_drawn_by_one_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """All numbers that a row can draw, once each: the values come out exactly as often as the table has them."""
    monkeypatch.setattr(
        "sfumato._core.random_draws.Stream.draw_integers",
        lambda stream, first, rows, bound: np.arange(bound, dtype=np.uint64),
    )
    drawn = redraw(COUNTS, sum(COUNTS), keyed_draws(4))
    assert counts_of(drawn, len(COUNTS)).tolist() == list(COUNTS)


def test_count_is_taken_as_published() -> None:
    published = np.array([0, 1, 1, 2, 1], dtype=np.uint8)
    assert count_published(published, np.array([True, True, False, True, True]), 1) == 2


@pytest.mark.parametrize("counts", [(), (0, 0)])
def test_redraw_of_an_empty_table_is_refused(counts: tuple[int, ...]) -> None:
    with refuses(SchemaError, "empty-table"):
        redraw(counts, 3, keyed_draws(5))


# -------------------------------------------------------------------------------------------------------------- Laplace


def _p_value(noise: npt.NDArray[np.float64], deviation: float) -> float:
    """Of the mean absolute noise, two-sided: the sizes of n Laplace variables over their scale sum to Gamma(n)."""
    law = stats.gamma(len(noise))
    size = float(np.abs(noise).sum()) / deviation
    return 2 * float(min(law.cdf(size), law.sf(size)))


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("epsilon", "mean"), [(math.log(2), 1.4426950408889634), (math.log(3), 0.9102392266268373), (0.01, 100.0)]
)
def test_laplace_answers_have_the_mean_absolute_error_of_their_scale(epsilon: float, mean: float) -> None:
    """Fails with probability ALPHA: OpenDP's noise has no key, so this is drawn anew in every run.

    A scale off by a tenth is 14 standard errors away, and is missed with probability below 1e-12.
    """
    noise = answer_counts(np.full(ANSWERS, 7), epsilon) - 7
    assert _p_value(noise, mean) >= ALPHA
    assert all(_p_value(noise, mean * factor) < ALPHA for factor in (0.9, 1.1))


@pytest.mark.statistical
def test_laplace_answers_follow_the_law_of_laplace() -> None:
    """By eight equally likely intervals; fails with probability ALPHA. A scale that is a fifth off is rejected."""
    epsilon = math.log(2)
    noise = answer_counts([0] * ANSWERS, epsilon)
    for factor, verdict in ((1.0, assert_same_distribution), (0.8, assert_different), (1.25, assert_different)):
        edges = stats.laplace(scale=factor / epsilon).ppf(np.arange(1, 8) / 8)
        verdict(counts_of(np.searchsorted(edges, noise), 8), [1 / 8] * 8)


@given(st.floats(1e-6, 100))
def test_scale_is_confirmed_by_opendp(epsilon: float) -> None:
    assert compute_laplace_scale(epsilon) == pytest.approx(1 / epsilon, rel=1e-14)
    assert len(answer_counts([3, 4], epsilon)) == 2


@pytest.mark.slow
def test_no_counts_have_no_answers() -> None:
    assert answer_counts([], 1.0).shape == (0,)


@pytest.mark.parametrize("epsilon", [0.0, -1.0, math.inf, math.nan])
def test_epsilon_without_sense_is_refused(epsilon: float) -> None:
    with refuses(SpecError, "epsilon-out-of-range", given=str(epsilon)):
        answer_counts([1], epsilon)


def test_missing_opendp_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opendp", None)
    monkeypatch.setitem(sys.modules, "opendp.prelude", None)
    with refuses(MissingExtraError, "missing-package", package="opendp"):
        answer_counts([1], 1.0)
