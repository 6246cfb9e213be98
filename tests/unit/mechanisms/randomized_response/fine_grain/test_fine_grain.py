"""The mechanism made of the solver: its law, its design, and what it tells its holder and the public."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refusals import refuses
from selection import examples
from sfumato._core.array_types import RandomBits
from sfumato._core.random_draws import LARGEST_BOUND, Draws
from sfumato._records.tally import Tally
from sfumato._records.value_records import ValueEncoding
from sfumato._request.belief_bounds import BreachBound, BreachBoundPerValue
from sfumato._request.histogram import Histogram
from sfumato._verify.distributions.sub_table_distribution import (
    SubTableDistribution,
    compute_lowered_belief,
    compute_raised_belief,
)
from sfumato.errors import InfeasibleError, ReleaseFormatError, SfumatoError, SpecError
from sfumato.mechanisms._randomized_response import fine_grain
from sfumato.mechanisms._randomized_response.fine_grain import MOST_DENOMINATOR, Objective, Options
from sfumato.mechanisms._randomized_response.fine_grain.amplification_order import Direction
from single import Single, counted
from strategies import batch_splits, breach_bounds, fine_breach_bounds

DRAWS = Draws.unsafe_test_key("5f" * 32)
ROWS = 200

Limits = Sequence[BreachBound | None]

every_choice = pytest.mark.parametrize("direction", Direction)
every_objective = pytest.mark.parametrize("objective", Objective)


def _names(size: int) -> list[str]:
    return [f"value {place}" for place in range(size)]


def _plan(counts: Sequence[int], limits: Limits, options: Options | None = None) -> fine_grain.Plan:
    names = _names(len(counts))
    bounds = {name: bound for name, bound in zip(names, limits, strict=True) if bound is not None}
    histogram = Histogram.of(names, counts)
    return fine_grain.plan(histogram, BreachBoundPerValue(bounds), options or Options(), DRAWS)


def _limits(*amplifications: str) -> list[BreachBound | None]:
    """Bounds with the given amplifications, from even odds; `-` for none."""
    odds = [None if each == "-" else Fraction(each) for each in amplifications]
    return [None if each is None else BreachBound("1/2", each / (1 + each)) for each in odds]


PAPER = _plan((1, 1, 1, 1), _limits("3/2", "3", "19/2", "18"))
SKEWED = _plan((50, 20, 12, 9, 6, 3), _limits("12", "9", "7", "5", "4", "3"))
TIED = _plan((1, 1, 4, 4), _limits("3/2", "3/2", "9", "12"))


@st.composite
def _requests(draw: st.DrawFn, bounds: st.SearchStrategy[BreachBound]) -> tuple[list[int], list[BreachBound | None]]:
    """Counts, some of them zero, and a bound for at least one value."""
    size = draw(st.integers(2, 7))
    counts = draw(st.lists(st.integers(0, 50), min_size=size, max_size=size).filter(any))
    limits = draw(st.lists(st.none() | bounds, min_size=size, max_size=size).filter(any))
    return counts, limits


# Planning


def _assert_kept(plan: fine_grain.Plan) -> None:
    """Every bound of the plan holds for every prior, by the exact law of what is published."""
    law = SubTableDistribution.of(range(len(plan.keep_numerators)), plan.design.retentions)
    for value, bound in enumerate(plan.bounds):
        if bound is not None:
            assert compute_raised_belief(bound.prior, law.compute_rise(value)) <= bound.posterior
            if plan.options.direction is Direction.BOTH:
                assert compute_lowered_belief(bound.posterior, law.compute_fall(value)) >= bound.prior


@every_choice
@every_objective
@settings(max_examples=examples(50))
@given(request_=_requests(breach_bounds(50)))
def test_every_bound_holds(
    request_: tuple[list[int], list[BreachBound | None]], direction: Direction, objective: Objective
) -> None:
    """With values that nobody has, and values without a bound."""
    _assert_kept(_plan(*request_, Options(direction, objective)))


@every_choice
@given(request_=_requests(fine_breach_bounds()))
def test_too_fine_bounds_are_rounded_towards_privacy(
    request_: tuple[list[int], list[BreachBound | None]], direction: Direction
) -> None:
    plan = _plan(*request_, Options(direction))
    _assert_kept(plan)
    assert plan.denominator <= MOST_DENOMINATOR
    assert len(plan.keep_numerators) * plan.denominator <= LARGEST_BOUND


def test_rounding_costs_at_most_one_part_in_a_million_million() -> None:
    """158/33 and its like: the common denominator of the best retentions is far beyond what is drawn with."""
    limits = _limits("158/33", "204/79", "877/377", "227/102", "463/213", "939/439", "237/112", "477/227")
    plan = _plan((368, 184, 123, 92, 74, 61, 52, 46), limits)
    best = ["625/1209", "1125/31837", "56375/3190551", "4625/431613", "12875/1802619", "5875/1238419", "125/39494"]
    assert plan.denominator == MOST_DENOMINATOR
    for kept, exact in zip(plan.retentions, map(Fraction, best), strict=False):
        assert 0 <= exact - kept < Fraction(1, 10**12)


@pytest.mark.parametrize(
    ("counts", "limits", "retentions"),
    [
        ((1, 1, 1, 1), _limits("3/2", "3", "19/2", "18"), "0 1/3 1/3 1/3"),
        ((1, 1, 1, 1, 1), _limits(*["4"] * 5), "3/8 3/8 3/8 3/8 3/8"),
        ((2, 1), _limits("5/2", "7"), "9/11 3/11"),
        ((9, 1), _limits("20", "3/2"), "1/3 0"),
        ((38, 1, 1), _limits("3", "30", "40"), "29/30 0 1/45"),
        ((5, 3, 2), _limits("-", "4", "2"), "1/2 1/2 0"),
        ((50, 20, 12, 9, 6, 3), _limits("12", "9", "7", "5", "4", "3"), "4/7 4/7 2/5 8/35 1/7 2/35"),
    ],
    ids=["paper", "equal", "two values", "peak", "peak of the least", "one free", "skewed"],
)
def test_plan_finds_the_best_retentions(counts: tuple[int, ...], limits: Limits, retentions: str) -> None:
    """Optima of an independent linear program in rationals."""
    assert _plan(counts, limits).retentions == tuple(map(Fraction, retentions.split()))


@every_choice
@every_objective
def test_equal_bounds_of_equally_frequent_values_are_uniform_perturbation(
    direction: Direction, objective: Objective
) -> None:
    plan = _plan((3, 3, 3), _limits("5", "5", "5"), Options(direction, objective))
    assert set(plan.retentions) == {Fraction(4, 7)}


def test_the_record_objective_gives_all_to_a_value_that_nearly_everybody_has() -> None:
    """Equal bounds, and still 7/9 of 4/5 is more than 4/7 of all: what the paper's objective asks for."""
    assert _plan((7, 0, 2), _limits("5", "5", "5")).retentions == (Fraction(4, 5), 0, 0)


def test_plan_refuses_a_domain_of_one_value() -> None:
    with refuses(InfeasibleError, "one-value-domain"):
        _plan((5,), _limits("4"))


def test_plan_refuses_a_bound_for_a_value_that_is_not_in_the_domain() -> None:
    spec = BreachBoundPerValue({"flu": BreachBound("1/10", "1/2")})
    with refuses(SpecError, "value-outside-domain", what="bound", values=1):
        fine_grain.plan(Histogram.of(["cold", "cough"], [1, 1]), spec, Options(), DRAWS)


def test_bounds_from_a_tolerance_round_shares_down_and_leave_frequent_values_free() -> None:
    """Shares 0.6, 0.299, 0.1, 0.001 and 0: to two digits 0.60, 0.29, 0.10, and odds of the tolerance for the others."""
    histogram = Histogram.of(_names(5), [600, 299, 100, 1, 0])
    spec = BreachBoundPerValue.from_tolerance(histogram, 2)
    plan = fine_grain.plan(histogram, spec, Options(objective=Objective.AGGREGATE), DRAWS)
    tiny = BreachBound("1/1000000000", "2/1000000001")
    assert tiny.amplification == 2
    assert plan.bounds == (None, BreachBound("29/100", "58/100"), BreachBound("1/10", "1/5"), tiny, tiny)
    _assert_kept(plan)


# What can be counted


def test_retentions_that_can_be_undone_are_accepted() -> None:
    for plan in (PAPER, SKEWED):
        fine_grain.check_countable(plan)


def test_two_values_that_are_never_kept_are_refused_by_name() -> None:
    assert TIED.keep_numerators[:2] == (0, 0)
    with refuses(InfeasibleError, "values-never-kept", values=2) as caught:
        fine_grain.check_countable(TIED)
    assert caught.value.sentence_with_values.startswith("'value 0', 'value 1' would never be kept")


def test_many_values_that_are_never_kept_are_not_all_named() -> None:
    plan = _plan((1,) * 8 + (50,), _limits(*["3/2"] * 8, "40"))
    assert plan.keep_numerators.count(0) == 8
    with pytest.raises(InfeasibleError) as caught:
        fine_grain.check_countable(plan)
    assert "8 values" in str(caught.value)
    assert "'value 4'" in caught.value.sentence_with_values
    assert "'value 5'" not in caught.value.sentence_with_values


def test_retentions_that_drown_all_counts_are_refused_with_how_much_worse_they_are() -> None:
    """One value is never kept, and another one with a coin of 1/6000: they can hardly be told apart."""
    plan = _plan((500, 10, 10, 10), _limits("20", "2", "2001/1000", "8"))
    assert plan.retentions == (Fraction(1, 2), 0, Fraction(1, 6000), Fraction(1, 2))
    with refuses(InfeasibleError, "value-rarely-kept", factor=1019):
        fine_grain.check_countable(plan)


def test_a_long_tail_can_be_counted_with_the_aggregate_objective_only() -> None:
    """Forty values by Zipf's law with a tolerance of four: the rarest are hardly kept."""
    histogram = Histogram.of(_names(40), [100_000 // rank for rank in range(1, 41)])
    spec = BreachBoundPerValue.from_tolerance(histogram, 4)
    record, aggregate = (
        fine_grain.plan(histogram, spec, Options(objective=objective), DRAWS)
        for objective in (Objective.RECORD, Objective.AGGREGATE)
    )
    with refuses(InfeasibleError, "value-rarely-kept"):
        fine_grain.check_countable(record)
    fine_grain.check_countable(aggregate)


def test_the_aggregate_objective_always_gives_something_to_count_with() -> None:
    for counts, limits in (
        ((1, 1, 4, 4), _limits("3/2", "3/2", "9", "12")),
        ((1,) * 8 + (50,), _limits(*["3/2"] * 8, "40")),
        ((0, 0, 9, 1), _limits("3/2", "3/2", "-", "12")),
    ):
        for direction in Direction:
            plan = _plan(counts, limits, Options(direction, Objective.AGGREGATE))
            assert all(plan.keep_numerators)
            fine_grain.check_countable(plan)


# Perturbing


class EveryOutcome:
    """Stands in for the draws: row i draws the number i, so that one batch meets each outcome once."""

    def get_stream(self, purpose: str) -> EveryOutcome:
        return self

    def draw_integers(self, first_row: int, rows: int, bound: RandomBits) -> RandomBits:
        assert set(bound.tolist()) == {rows}, "one row for each outcome"
        return np.arange(rows, dtype=np.uint64)


@pytest.mark.parametrize("plan", [PAPER, SKEWED, _plan((5, 3, 2), _limits("-", "4", "2"))])
def test_replace_has_exactly_the_law_of_the_design(plan: fine_grain.Plan) -> None:
    """All outcomes are run through, for every original; a value that is never kept is drawn like any other."""
    size = len(plan.keep_numerators)
    for original, retention in enumerate(plan.design.retentions):
        words = size * plan.denominator
        codes = np.full(words, original, dtype=np.uint8)
        replaced = fine_grain.perturb(plan, codes, None, cast("Draws", EveryOutcome()), 0)
        assert replaced.cells is None
        found = {value: Fraction(count, words) for value, count in Counter(replaced.values.tolist()).items()}
        expected = dict.fromkeys(range(size), (1 - retention) / size)
        expected[original] += retention
        assert found == expected


@given(batch_splits(ROWS))
def test_replace_does_not_depend_on_how_rows_are_cut_into_batches(batches: list[range]) -> None:
    codes = (np.arange(ROWS) % 6).astype(np.uint8)
    parts = [
        fine_grain.perturb(SKEWED, codes[each.start : each.stop], None, DRAWS, each.start).values for each in batches
    ]
    assert np.array_equal(np.concatenate(parts), fine_grain.perturb(SKEWED, codes, None, DRAWS, 0).values)


@pytest.mark.parametrize("kind", [np.uint8, np.uint16, np.uint32])
def test_replace_keeps_the_type_of_the_codes_and_stays_in_the_domain(kind: type[np.integer[Any]]) -> None:
    values = fine_grain.perturb(SKEWED, np.full(ROWS, 5, dtype=kind), None, DRAWS, 0).values
    assert values.dtype == kind
    assert set(values.tolist()) == set(range(6))


def test_replace_of_an_empty_batch_is_empty() -> None:
    assert len(fine_grain.perturb(SKEWED, np.array([], dtype=np.uint8), None, DRAWS, 3).values) == 0


# Counting


def _counted(plan: fine_grain.Plan, counts: Any, wanted: Sequence[int]) -> Single:
    tally = Tally.of_symbols(np.array(counts))
    (moments,) = counted(fine_grain.MECHANISM.estimators["closed"], plan.design, tally, wanted)
    return moments


def _matrix(plan: fine_grain.Plan) -> np.ndarray:
    retention = np.array([float(each) for each in plan.retentions])
    return np.tile((1 - retention)[:, None] / len(retention), (1, len(retention))) + np.diag(retention)


@pytest.mark.parametrize("plan", [PAPER, SKEWED], ids=["one never kept", "all kept"])
def test_weights_are_the_inverse_of_the_law(plan: fine_grain.Plan) -> None:
    written = fine_grain.make_weights(plan.design)
    assert written is not None
    size = len(plan.keep_numerators)
    inverse = np.linalg.inv(_matrix(plan))
    for value, published, weight in zip(*written.values(), strict=True):
        assert weight == pytest.approx(inverse[published, value])
    assert len(written["weight"]) == size**2


def test_weights_of_a_large_domain_are_not_written_out() -> None:
    size = fine_grain.MOST_WEIGHTS + 1
    plan = _plan([1] * size, _limits("3", *["4"] * (size - 1)), Options(objective=Objective.AGGREGATE))
    assert fine_grain.make_weights(plan.design) is None


@given(st.lists(st.integers(0, 100), min_size=6, max_size=6), st.integers(0, 5))
def test_weights_summed_over_the_rows_are_the_estimate(counts: list[int], value: int) -> None:
    written = fine_grain.make_weights(SKEWED.design)
    assert written is not None
    weights = written["weight"].reshape(6, 6)[value]
    assert _counted(SKEWED, counts, [value]).value == pytest.approx(weights @ counts, rel=1e-6, abs=1e-6)


def test_the_expected_release_is_counted_as_the_table() -> None:
    for plan in (PAPER, SKEWED):
        truth = 7 * np.array(plan.histogram.counts)
        expected = truth @ _matrix(plan)
        for value, count in enumerate(truth):
            assert _counted(plan, expected, [value]).value == pytest.approx(count)


@pytest.mark.parametrize("plan", [PAPER, SKEWED], ids=["one never kept", "all kept"])
def test_the_variance_of_planning_is_that_of_the_table(plan: fine_grain.Plan) -> None:
    """Over all rows: the sum over records of the variance of the weight of what each shows."""
    counts = np.array(plan.histogram.counts, dtype=float)
    matrix = _matrix(plan)
    inverse = np.linalg.inv(matrix)
    exact = counts @ (matrix @ inverse**2 - (matrix @ inverse) ** 2)
    assert fine_grain.predict_variances(plan, np.full(len(counts), counts.sum()), counts) == pytest.approx(exact)


def test_all_values_are_every_row_and_no_value_is_none() -> None:
    everything, nothing = (_counted(SKEWED, [5, 4, 3, 2, 1, 0], wanted) for wanted in (range(6), []))
    assert (everything.value, everything.variance_at(15), everything.least, everything.most) == (15, 0, 15, 15)
    assert (nothing.value, nothing.variance_at(0), nothing.most) == (0, 0, 0)


def test_no_rows_are_zero_and_certain() -> None:
    moments = _counted(SKEWED, [0] * 6, [1])
    assert (moments.value, moments.variance_at(0), moments.most) == (0, 0, 0)


def test_a_release_shows_one_value_of_the_domain() -> None:
    shown = fine_grain.make_encoding(SKEWED.design)
    assert isinstance(shown, ValueEncoding)
    assert (shown.symbols.tolist(), shown.cells) == (list(range(6)), None)


# Publishing the design


@pytest.mark.parametrize("plan", [PAPER, SKEWED, _plan((5, 3, 2), _limits("-", "4", "2"))])
def test_design_comes_back_from_json(plan: fine_grain.Plan) -> None:
    written = json.loads(json.dumps(plan.design.to_json(), allow_nan=False))
    assert fine_grain.read_design(written, ["string"]) == plan.design


def _written() -> dict[str, Any]:
    return _plan((5, 3, 2), _limits("-", "4", "2")).design.to_json()


def test_a_written_design_has_the_bounds_and_the_retentions_and_no_count() -> None:
    assert _written() == {
        "domain": _names(3),
        "direction": "upward",
        "priors": [None, "1/2", "1/2"],
        "posteriors": [None, "4/5", "2/3"],
        "retentions": ["1/2", "1/2", "0"],
    }


@pytest.mark.parametrize(
    "damage",
    [
        {"retentions": ["1/2", "501/1000", "0"]},
        {"retentions": ["1/2", "1/2", "1/1000"]},
        {"retentions": ["1/2", "0", "0"]},
        {"retentions": ["1/2", "1/2"]},
        {"retentions": ["1/2", "1/2", "-1/10"]},
        {"retentions": ["2", "0", "0"]},
        {"direction": "both", "retentions": ["1/2", "0", "1/10"]},
        {"domain": ["a", "b", "a"]},
        {"domain": ["a", "b"]},
        {"priors": [None] * 3, "posteriors": [None] * 3},
    ],
    ids=str,
)
def test_read_design_refuses_what_no_plan_could_have_written(damage: dict[str, Any]) -> None:
    with pytest.raises(ReleaseFormatError):
        fine_grain.read_design(_written() | damage, ["string"])


@pytest.mark.parametrize("key", ["domain", "direction", "priors", "posteriors", "retentions"])
def test_read_design_needs_every_part(key: str) -> None:
    written = _written()
    del written[key]
    with pytest.raises((SfumatoError, KeyError)):
        fine_grain.read_design(written, ["string"])


# Explaining


def test_explain_tells_what_each_value_keeps_and_what_its_bound_costs() -> None:
    explained = fine_grain.explain(_plan((5, 3, 2), _limits("-", "4", "2")))
    assert explained["retention"] == {"value 0": "1/2", "value 1": "1/2", "value 2": "0/1"}
    assert explained["amplification"] == {"value 0": None, "value 1": "4/1", "value 2": "2/1"}
    assert explained["record_utility"] == pytest.approx(0.6)
    assert (explained["direction"], explained["objective"]) == ("upward", "record")
    assert set(explained["shadow_price"]) == {"value 0", "value 1", "value 2"}
    assert explained["shadow_price"]["value 2"] > 0
    json.dumps(explained, allow_nan=False)


def test_explain_of_the_aggregate_objective_has_no_prices() -> None:
    plan = _plan((5, 3, 2), _limits("-", "4", "2"), Options(objective=Objective.AGGREGATE))
    explained = fine_grain.explain(plan)
    assert "shadow_price" not in explained
    assert explained["aggregate_error"] > 0


def test_explain_tells_no_error_where_nothing_can_be_counted() -> None:
    assert fine_grain.explain(TIED)["aggregate_error"] is None


def test_explain_tells_the_mean_error_of_the_shares() -> None:
    counts = np.array(SKEWED.histogram.counts, dtype=float)
    deviations = np.sqrt(fine_grain.predict_variances(SKEWED, np.full(6, 100.0), counts))
    expected = math.sqrt(2 / math.pi) * deviations.mean() / 100
    assert fine_grain.explain(SKEWED)["aggregate_error"] == pytest.approx(expected)


def _remark(plan: fine_grain.Plan, words: str) -> str:
    (found,) = [said for said in map(str, fine_grain.list_remarks(plan)) if words in said]
    return found


def test_values_without_a_bound_are_named() -> None:
    plan = _plan((5, 3, 2), _limits("-", "4", "2"))
    assert "'value 0'" in _remark(plan, "no bound")
    assert not any("no bound" in said for said in map(str, fine_grain.list_remarks(SKEWED)))


def test_only_some_of_many_values_are_named() -> None:
    plan = _plan((1,) * 9, _limits("2", *["-"] * 8))
    assert _remark(plan, "no bound").endswith("'value 5' and 3 more.")


def test_values_that_are_never_kept_are_named() -> None:
    assert "'value 0'" in _remark(PAPER, "never kept")
    assert not any("never kept" in said for said in map(str, fine_grain.list_remarks(SKEWED)))


def test_a_direction_that_lets_beliefs_fall_is_remarked_upon() -> None:
    assert "`direction='both'`" in _remark(SKEWED, "only rising beliefs are bounded")
    both = _plan((50, 20, 12), _limits("12", "9", "7"), Options(Direction.BOTH, Objective.AGGREGATE))
    assert fine_grain.list_remarks(both) == []


def test_promise_states_the_numbers_of_each_value() -> None:
    limits = [BreachBound("1/10", "1/7"), BreachBound("1/8", "18/25"), None]
    promise = fine_grain.state_guarantee(_plan((1, 1, 1), limits).design).text
    for words in (
        "'value 0' 1/10 and 1/7, odds by a factor of at most 1.5; ",
        "'value 1' 1/8 and 18/25, odds by a factor of at most 18.",
    ):
        assert words in promise
    assert promise.endswith(" Not protected, because they have no bound: 'value 2'.")


def test_promise_of_a_share_that_was_rounded_to_nothing_is_its_factor_alone() -> None:
    """From 1/10^9 to 4/10^9 the odds rise by 4 (1 - 1/10^9) / (1 - 4/10^9), which is above 4 by three thousand
    millionths of it.
    """
    limits = [BreachBound("1/1000000000", "1/250000000"), BreachBound("1/5", "4/5"), None]
    promise = fine_grain.state_guarantee(_plan((1, 1, 1), limits).design).text
    assert (
        "The bounds: 'value 0' odds by a factor of at most just over 4; 'value 1' 1/5 and 4/5, odds by a factor of at "
        "most 16." in promise
    )
    assert "1000000000" not in promise
    assert "single values, not for statements about several" in promise
    assert not fine_grain.MECHANISM.covers_predicates


def test_promise_says_whether_beliefs_may_fall() -> None:
    upward, both = (
        fine_grain.state_guarantee(_plan((1, 1), _limits("3", "4"), Options(direction)).design).text
        for direction in (Direction.UPWARD, Direction.BOTH)
    )
    assert "does not limit how far" in upward
    assert "at least the second number stays at least the first" in both


def test_promise_of_many_bounds_names_some() -> None:
    promise = fine_grain.state_guarantee(_plan((1,) * 8, _limits(*["3"] * 8)).design).text
    assert "'value 4'" in promise
    assert "'value 5'" not in promise
    assert "the bounds of 3 more values are in datapackage.json" in promise


@pytest.mark.parametrize("place", range(8))
def test_aggregate_design_does_not_follow_single_records(place: int) -> None:
    """Whoever knows all other records must not read the last one off the retentions."""
    counts = [505, 305, 225, 135, 95, 65, 45, 25]
    limits = _limits("3", "4", "5", "6", "7", "8", "9", "10")
    one_more = [count + (number == place) for number, count in enumerate(counts)]
    designs = [_plan(each, limits, Options(objective=Objective.AGGREGATE)).design for each in (counts, one_more)]
    assert designs[0].retentions == designs[1].retentions
