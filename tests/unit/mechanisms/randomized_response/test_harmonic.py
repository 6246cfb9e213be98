"""The harmonic operator: one coin, redraws by the bounds, and what it tells its holder and the public."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from refusals import refuses
from selection import examples
from sfumato._core.random_draws import LARGEST_BOUND, Draws
from sfumato._request.belief_bounds import BreachBound, BreachBoundPerValue, Tolerance
from sfumato._request.histogram import Histogram
from sfumato._verify.distributions import harmonic_verifier as law
from sfumato.errors import InfeasibleError, SpecError
from sfumato.mechanisms._randomized_response import harmonic_mechanism as harmonic
from sfumato.mechanisms._randomized_response import uniform_mechanism as uniform
from sfumato.mechanisms._randomized_response.fine_grain import Direction
from strategies import breach_bounds, fine_breach_bounds

DRAWS = Draws.unsafe_test_key("5f" * 32)

Limits = Sequence[BreachBound | None]


def _plan(limits: Limits, counts: Sequence[int] | None = None, tolerance: Fraction | None = None) -> harmonic.Plan:
    names = [f"value {place}" for place in range(len(limits))]
    bounds = {name: bound for name, bound in zip(names, limits, strict=True) if bound is not None}
    histogram = Histogram.of(names, counts or range(1, len(names) + 1))
    return harmonic.plan(histogram, BreachBoundPerValue(bounds, tolerance), harmonic.Options(), DRAWS)


def _limits(*amplifications: str) -> list[BreachBound | None]:
    """Bounds with the given amplifications, from even odds; `-` for none."""
    odds = [None if each == "-" else Fraction(each) for each in amplifications]
    return [None if each is None else BreachBound("1/2", each / (1 + each)) for each in odds]


any_bound = breach_bounds(50) | fine_breach_bounds().filter(lambda bound: bound.amplification - 1 > Fraction(1, 10**6))
several_limits = st.lists(st.none() | any_bound, min_size=2, max_size=6).filter(any)


def _transition(design: harmonic.Design) -> list[list[Fraction]]:
    """The chance that each value (row) shows as each other."""
    size = range(len(design.swaps))
    return [[design.swaps[shown] + design.retention * (shown == true) for shown in size] for true in size]


# ------------------------------------------------------------------------------------------------------------- planning


def test_the_coin_is_the_largest_and_every_bound_is_tight() -> None:
    """1 / (1 + 1/2 + 1/5 + 1/10) = 5/9; the swaps are 5/18, 1/9 and 1/18."""
    made = _plan(_limits("3", "6", "11")).design
    assert (made.retention, made.swaps) == (Fraction(5, 9), (Fraction(5, 18), Fraction(1, 9), Fraction(1, 18)))
    for swap, amplification in zip(made.swaps, (3, 6, 11), strict=True):
        assert made.retention + swap == amplification * swap


def test_a_value_without_a_bound_is_never_drawn() -> None:
    made = _plan(_limits("-", "4", "-")).design
    assert (made.retention, made.swaps) == (Fraction(3, 4), (0, Fraction(1, 4), 0))


@settings(max_examples=examples(100))
@given(several_limits)
def test_no_prior_lets_a_belief_rise_above_its_posterior(limits: list[BreachBound | None]) -> None:
    """By all pairs and all that can be shown; bounds that are too fine to draw with are rounded towards privacy."""
    plan = _plan(limits)
    assert plan.outcome_count <= LARGEST_BOUND
    transition = _transition(plan.design)
    assert all(sum(row) == 1 for row in transition)
    for one, other in permutations(range(len(limits)), 2):
        bound = limits[one]
        if bound is not None:
            factor = bound.amplification
            assert all(true <= factor * false for true, false in zip(transition[one], transition[other], strict=True))


@settings(max_examples=examples(50))
@given(several_limits)
def test_the_law_of_the_audit_finds_the_largest_rise_by_enumeration(limits: list[BreachBound | None]) -> None:
    made = _plan(limits).design
    audited, transition = law.read_distribution(made.to_json()), _transition(made)
    for one in range(len(limits)):
        pairs = [
            (true, false)
            for other in range(len(limits))
            if other != one
            for true, false in zip(transition[one], transition[other], strict=True)
            if true
        ]
        worst = max((true / false for true, false in pairs if false), default=Fraction(0))
        assert audited.compute_rise(one) == (None if any(not false for _, false in pairs) else worst)


@settings(max_examples=examples(50))
@given(several_limits, st.data())
def test_the_law_of_the_audit_has_the_posteriors_of_bayes_rule(
    limits: list[BreachBound | None], data: st.DataObject
) -> None:
    size = len(limits)
    counts = data.draw(st.lists(st.integers(0, 9), min_size=size, max_size=size).filter(any))
    made = _plan(limits).design
    transition = _transition(made)
    joint = [[counts[true] * chance for chance in row] for true, row in enumerate(transition)]
    shown = [sum(column) for column in zip(*joint, strict=True)]
    expected = [max(each / total for each, total in zip(row, shown, strict=True) if total) for row in joint]
    assert law.read_distribution(made.to_json()).compute_posteriors(counts) == expected


@settings(max_examples=examples(30))
@given(st.lists(breach_bounds(20), min_size=2, max_size=5))
def test_no_operator_with_one_coin_keeps_more(limits: list[BreachBound]) -> None:
    """By a linear program: the largest coin, with swaps that meet every demand."""
    gains = [float(each.amplification - 1) for each in limits]
    demands = np.hstack([np.ones((len(gains), 1)), -np.diag(gains)])
    found = linprog([-1, *[0] * len(gains)], demands, np.zeros(len(gains)), [[1] * (len(gains) + 1)], [1])
    assert float(_plan(limits).design.retention) == pytest.approx(found.x[0], rel=1e-7)


def test_equal_bounds_are_uniform_perturbation() -> None:
    histogram, bound = Histogram.of(range(7), [1] * 7), BreachBound("1/10", "1/3")
    made = harmonic.plan(histogram, BreachBoundPerValue(dict.fromkeys(range(7), bound)), harmonic.Options(), DRAWS)
    theirs = uniform.make_design(uniform.plan(histogram, bound, uniform.NoOptions(), DRAWS))
    assert (made.design.retention, set(made.design.swaps)) == (theirs.retention, {theirs.swap_probability})


def test_the_design_of_bounds_from_a_file_follows_no_count() -> None:
    limits = _limits("3", "6", "-")
    assert _plan(limits, [1, 0, 0]).design == _plan(limits, [5, 7, 900]).design


def test_rounding_costs_next_to_nothing() -> None:
    """The numerators of these odds have no small common multiple."""
    limits = _limits("1000003/7", "1000033/11", "1000037/13", "999983/17", "3")
    exact = 1 / (1 + sum(1 / (each.amplification - 1) for each in limits if each))
    plan = _plan(limits)
    assert plan.keep_outcomes == harmonic.MOST_KEEP_OUTCOMES
    assert 0 <= exact - plan.design.retention < Fraction(1, 10**11)


def test_bounds_that_let_nothing_be_kept_are_refused() -> None:
    nothing = BreachBound("1/2", Fraction(10**30 + 1, 2 * 10**30))
    with refuses(InfeasibleError, "posterior-too-close"):
        _plan([nothing, BreachBound("1/3", "1/2")])


def test_both_directions_are_refused() -> None:
    spec = BreachBoundPerValue({0: BreachBound("1/3", "1/2")})
    with refuses(InfeasibleError, "direction-not-possible", direction="both"):
        harmonic.plan(Histogram.of(range(3), [1] * 3), spec, harmonic.Options(Direction.BOTH), DRAWS)


def test_bounds_for_no_value_of_the_table_and_one_value_are_refused() -> None:
    with refuses(InfeasibleError, "one-value-domain"):
        _plan(_limits("3"))
    spec = BreachBoundPerValue({"flu": BreachBound("1/10", "1/2")})
    with refuses(SpecError, "value-outside-domain", what="bound", values=1):
        harmonic.plan(Histogram.of(["cold", "cough"], [1, 1]), spec, harmonic.Options(), DRAWS)


def test_hundreds_of_values_are_drawn_from_exactly() -> None:
    """Each value owns its outcomes: the first and the last of each are its own."""
    counts = [100_000 // rank for rank in range(1, 901)]
    histogram = Histogram.of(range(900), counts)
    plan = harmonic.plan(histogram, Tolerance(5).resolve(histogram), harmonic.Options(), DRAWS)
    assert plan.outcome_count <= LARGEST_BOUND
    ends = np.cumsum([plan.keep_outcomes, *plan.swap_outcomes])
    assert plan.outcome_ends.tolist() == ends[1:].tolist()


# ----------------------------------------------------------------------------------------------------------- explaining


def test_the_promise_names_the_bounds_and_says_what_a_tolerance_follows() -> None:
    limits = [BreachBound.from_odds(Fraction(3)), BreachBound("1/10", "3/10"), None]
    of_file, of_shares = (
        harmonic.state_guarantee(_plan(limits, tolerance=each).design).text for each in (None, Fraction(3))
    )
    for words in (
        "'value 0' odds by a factor of at most 3; 'value 1' 1/10 and 3/10, odds by a factor of at most 3.858",
        "ot protected, because they have no bound: 'value 2'.",
    ):
        assert words in of_file
        assert words in of_shares
    assert "does not limit how far" in of_file
    assert "rounded down to two digits and to steps of at least ten records" in of_shares
    assert "rounded" not in of_file
    assert of_file.endswith(harmonic.CERTAINTY_NOTE)
    assert harmonic.CERTAINTY_NOTE not in harmonic.state_guarantee(_plan(_limits("3", "6")).design).text


def test_the_holder_is_told_who_is_not_protected_and_that_beliefs_may_fall() -> None:
    codes = [each.code for each in harmonic.list_remarks(_plan(_limits("3", "-")))]
    assert codes == ["values-unprotected", "beliefs-may-fall"]
    falling = harmonic.list_remarks(_plan(_limits("3", "6")))[0].sentence
    assert falling.endswith("use `mechanism='fine-grain'` with `direction='both'`.")  # which this one refuses
    assert harmonic.list_remarks(_plan(_limits("3", "-")))[0].sentence.endswith(f"'value 1'. {harmonic.CERTAINTY_NOTE}")
    assert harmonic.summarize(_plan(_limits("3", "6"))) == (
        "retention 10/17; odds can rise by a factor of at most 3 for the strictest bound, and of at most 6 for the "
        "loosest"
    )
