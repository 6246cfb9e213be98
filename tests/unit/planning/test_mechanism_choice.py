"""Which mechanism is taken: by the size of the domain, the request and the options, and by no count."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accepted import ALL_ACCEPTED
from refusals import refuses
from selection import examples
from sfumato._core.random_draws import Draws
from sfumato._planning.mechanism_choice import COUNTS_ERROR_SHARE, choose
from sfumato._planning.predicted_error import ChosenMechanism, compute_even_error
from sfumato._publish.request import Request
from sfumato._request.belief_bounds import BreachBound, BreachBoundPerValue, Tolerance
from sfumato._request.histogram import Histogram
from sfumato._request.schema import Schema
from sfumato.errors import InfeasibleError, SpecError
from sfumato.mechanisms import REGISTRY
from sfumato.mechanisms._randomized_response import fine_grain
from sfumato.mechanisms._subset_selection import set_sampler
from strategies import breach_bounds

DRAWS = Draws.unsafe_test_key("07" * 32)
BOUND = BreachBound("1/10", "1/3")


def taken(counts: Sequence[int], bound: BreachBound = BOUND, guarantee: str | None = None) -> tuple[str, str]:
    """The mechanism that is chosen for values of these counts, and why."""
    chosen = choose(Histogram.of(range(len(counts)), counts), bound, DRAWS, guarantee=guarantee)
    return chosen.mechanism.name, chosen.reason


@given(data=st.data(), bound=breach_bounds(50), size=st.integers(2, 40))
@settings(max_examples=examples(100))
def test_choice_and_its_reason_are_the_same_for_all_counts(data: st.DataObject, bound: BreachBound, size: int) -> None:
    """Not only for tables that differ in one record."""
    tables = st.lists(st.integers(0, 10**9), min_size=size, max_size=size).filter(any)
    try:
        first = taken(data.draw(tables), bound)
    except InfeasibleError:
        with pytest.raises(InfeasibleError):
            taken(data.draw(tables), bound)
    else:
        assert taken(data.draw(tables), bound) == first


def even_but_one(most: int) -> list[int]:
    """100,000 records of 1,500 values, of which the first has so many and no other a thousandth."""
    rest, more = divmod(100_000 - most, 1499)
    return [most, *[rest + 1] * more, *[rest] * (1499 - more)]


def test_one_record_does_not_decide_the_mechanism() -> None:
    """Errors are predicted for counts of a thousandth of the records; with 99 of 100,000 there is no such count."""
    counts, other = even_but_one(99), even_but_one(100)
    assert sum(counts) == sum(other) == 100_000
    assert sum(abs(one - two) for one, two in zip(counts, other, strict=True)) == 2
    assert taken(counts) == taken(other)
    assert taken(counts)[0] == "subset"


def test_predicted_errors_would_follow_one_record() -> None:
    """What the choice must not be made by: the prediction is there with one record more, and is not with one less."""
    mechanism = REGISTRY["uniform"]
    found = []
    for most in (99, 100):
        histogram = Histogram.of(range(1500), even_but_one(most))
        plan = mechanism.plan(histogram, BOUND, mechanism.options(), DRAWS)
        found.append(ChosenMechanism(mechanism, plan, histogram).predicted_errors["0.001"])
    assert found[0] is None
    assert found[1] is not None


def rare_value_errors(size: int, gamma: float) -> tuple[float, float]:
    """The standard error of a count of nobody by one record each: of uniform, and of sets of the best size.

    From probabilities a and b that a record shows its own value and a given other one: sqrt(b (1 - b)) / (a - b).
    """
    members = set_sampler.find_best_set_size(size, Fraction(gamma))
    own = members * gamma / (members * gamma + size - members)
    other = (members - own) / (size - 1)
    kept, swapped = gamma / (size - 1 + gamma), 1 / (size - 1 + gamma)
    found = [math.sqrt(b * (1 - b)) / (a - b) for a, b in ((kept, swapped), (own, other))]
    return found[0], found[1]


@pytest.mark.parametrize("size", [2, 3, 5, 7, 8, 9, 16, 19, 21, 22, 40, 41, 60, 1500])
@pytest.mark.parametrize("bound", [BOUND, BreachBound("1/10", "1/2"), BreachBound("1/3", "2/3")], ids=str)
def test_sets_are_taken_where_they_have_at_most_four_fifths_of_the_error(size: int, bound: BreachBound) -> None:
    """By the size of the domain and the amplification alone; otherwise people can read what is published."""
    uniform_error, set_error = rare_value_errors(size, float(bound.amplification))
    name, reason = taken([7] * size, bound)
    assert name == ("subset" if set_error <= 0.8 * uniform_error else "uniform")
    ratio = set_error / uniform_error if name == "uniform" else uniform_error / set_error
    assert ("has the same" if ratio > 0.996 and name == "uniform" else f"{ratio:.2f} times") in reason


@pytest.mark.parametrize(
    ("bound", "largest"), [(BOUND, 21), (BreachBound("1/10", "1/2"), 41), (BreachBound("1/3", "2/3"), 19)], ids=str
)
def test_documented_domain_sizes_are_the_largest_with_readable_values(bound: BreachBound, largest: int) -> None:
    """The sizes that docs/how-to/choose-a-mechanism.md names."""
    assert [taken([7] * size, bound)[0] for size in (largest, largest + 1)] == ["uniform", "subset"]


def test_readable_values_do_not_displace_a_stronger_guarantee() -> None:
    """Sets are best here, and the readable values of `harmonic` nearly as good; but these cover single values only."""
    counts = zipf(50)
    chosen = choose(Histogram.of(range(50), counts), Tolerance(10), DRAWS, options=AGGREGATE)
    assert chosen.mechanism.name == "subset"
    assert "harmonic" in {plan.mechanism.name for plan in chosen.alternatives if plan.has_readable_values}


def test_reason_names_no_count_and_says_by_what_was_compared() -> None:
    """Uniform: p = 7/3007, q = 2/3007; sets of 273: a = 0.5003, b = 0.1818. Variances of nobody are 9.15² apart."""
    name, reason = taken(even_but_one(100))
    assert name == "subset"
    assert reason == (
        "subset has the smallest error of the mechanisms with this guarantee. The error is predicted for the "
        "count of a rare value, averaged over all 1,500 values. Compared with subset: uniform has 9.15 times the error."
    )
    assert taken([60, 30, 10])[1].endswith("over all 3 values. Compared with uniform: subset has the same error.")
    assert taken([60] * 16) == (
        "uniform",
        "uniform publishes one readable value per record. No other mechanism with this guarantee reduces the error by "
        "20% or more. The error is predicted for the count of a rare value, averaged over all 16 values. "
        "Compared with uniform: subset has 0.88 times the error.",
    )


def test_mechanism_of_a_weaker_guarantee_is_taken_where_only_unequal_frequencies_allow_it() -> None:
    """Of seven equally frequent values each has more than the prior of a tenth; of these, some are rarer."""
    counts = [40_000, 30_000, 10_000, 8_000, 5_000, 4_000, 3_000]
    name, reason = taken(counts, BOUND, "marginal-prior")
    assert (name, reason) == (
        "small-domain",
        "small-domain is chosen whenever it meets the request. It does so here, because the frequencies differ.",
    )
    assert taken([1000] * 7, BOUND, "marginal-prior")[0] == "uniform"


@pytest.mark.parametrize(
    ("size", "name"), [(2, "uniform"), (7, "uniform"), (16, "uniform"), (46, "subset"), (1420, "subset")]
)
def test_skewed_tables_get_a_mechanism_of_nearly_the_smallest_predicted_error(size: int, name: str) -> None:
    """As when it was chosen by that; so do the columns of these sizes in the census and in vaccine reports."""
    counts = [1_000_000 // (place + 1) for place in range(size)]
    chosen = choose(Histogram.of(range(size), counts), BOUND, DRAWS)
    assert chosen.mechanism.name == name
    (rival,) = chosen.alternatives
    for share, error in chosen.predicted_errors.items():
        assert error is not None
        assert error <= (rival.predicted_errors[share] or 0) * 1.25


# ----------------------------------------------------------------------------------------------- a bound for each value


AGGREGATE = {"fine-grain": fine_grain.Options(objective=fine_grain.Objective.AGGREGATE)}


def zipf(size: int) -> list[int]:
    """150,000 records, of which every value has a share by its rank."""
    whole = sum(1 / rank for rank in range(1, size + 1))
    return [max(1, int(150_000 / rank / whole)) for rank in range(1, size + 1)]


def errors(counts: Sequence[int], factor: int) -> dict[str, float]:
    """The mean standard error of the counts of a table by each mechanism that meets a tolerance, by that of fine-grain.

    Exact, from the designs: the mean is over the values, each with the records that it has.
    """
    histogram = Histogram.of(range(len(counts)), counts)
    request, held = Tolerance(factor).resolve(histogram), np.array(counts, dtype=float)
    found = {}
    for name in ("fine-grain", "uniform", "subset", "harmonic"):
        mechanism = REGISTRY[name]
        plan = mechanism.plan(
            histogram, mechanism.adapt_request(request), AGGREGATE.get(name) or mechanism.options(), DRAWS
        )
        variances = mechanism.error_prediction.predict_variances(plan, np.full(len(held), held.sum()), held)
        found[name] = float(np.sqrt(np.maximum(variances, 0.0)).mean())
    return {name: error / found["fine-grain"] for name, error in found.items()}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("size", "factor", "subset_error", "harmonic_error"),
    [
        (843, 3, 0.12, 1.00),
        (843, 10, 0.22, 1.00),
        (843, 50, 0.47, 0.98),
        (50, 3, 0.48, 0.98),
        (50, 10, 0.82, 0.93),
        (50, 50, 1.29, 0.79),
        (19, 3, 0.77, 0.94),
        (19, 10, 1.21, 0.84),
        (5, 3, 1.335, 0.79),
    ],
)
def test_sets_and_the_harmonic_operator_have_less_error_than_fine_grain_under_a_tolerance(
    size: int, factor: int, subset_error: float, harmonic_error: float
) -> None:
    """Frequencies by Zipf's law: sets on large domains and strict bounds, the harmonic operator on small ones."""
    found = errors(zipf(size), factor)
    assert found["subset"] == pytest.approx(subset_error, abs=0.005)
    assert found["harmonic"] == pytest.approx(harmonic_error, abs=0.005)
    least = min(found, key=found.__getitem__)
    chosen = choose(Histogram.of(range(size), zipf(size)), Tolerance(factor), DRAWS, options=AGGREGATE)
    assert chosen.mechanism.name == least
    assert {each.mechanism.name for each in chosen.alternatives} == found.keys() - {least}


per_value = st.lists(st.none() | breach_bounds(50), min_size=2, max_size=12).filter(any)


@settings(max_examples=examples(30))
@given(data=st.data(), bounds=per_value)
def test_choice_under_bounds_is_the_same_for_all_counts(data: st.DataObject, bounds: list[BreachBound | None]) -> None:
    """And so it is under a tolerance for all tables of the same rounded shares, because these are the bounds."""
    spec = BreachBoundPerValue({place: bound for place, bound in enumerate(bounds) if bound is not None})
    tables = st.lists(st.integers(0, 10**6), min_size=len(bounds), max_size=len(bounds)).filter(any)
    first, second = (choose(Histogram.of(range(len(bounds)), data.draw(tables)), spec, DRAWS) for _ in range(2))
    assert (first.mechanism, first.reason) == (second.mechanism, second.reason)


def test_reason_compares_all_that_meet_the_bounds() -> None:
    chosen = choose(Histogram.of(range(19), zipf(19)), Tolerance(10), DRAWS, options=AGGREGATE)
    assert chosen.reason == (
        "harmonic has the smallest error of the mechanisms with this guarantee. The error is predicted for the "
        "count of a rare value, averaged over all 19 values. Compared with harmonic: uniform has 1.52 times the "
        "error, "
        "subset has 1.52 times the error, fine-grain has 1.26 times the error."
    )


def test_beliefs_that_must_not_fall_leave_the_harmonic_operator_out() -> None:
    """What was asked of one mechanism by an option that others share is asked of all of them."""
    both = {name: REGISTRY[name].options(direction=fine_grain.Direction.BOTH) for name in ("fine-grain", "harmonic")}
    chosen = choose(Histogram.of(range(19), zipf(19)), Tolerance(10), DRAWS, options=both)
    assert "harmonic" not in {chosen.mechanism.name, *(each.mechanism.name for each in chosen.alternatives)}
    alone = {"fine-grain": both["fine-grain"]}
    same = choose(Histogram.of(range(19), zipf(19)), Tolerance(10), DRAWS, options=alone)
    assert (same.mechanism, same.digest, same.reason) == (chosen.mechanism, chosen.digest, chosen.reason)
    requests = [
        Request("t.csv", schema=Schema.of("disease", public="*"), spec=Tolerance(10), options=each, **ALL_ACCEPTED)
        for each in (alone, both)
    ]
    assert requests[0].options == requests[1].options == both
    assert requests[0].to_record() == requests[1].to_record()  # and so a plan file of one is one of the other


@pytest.mark.parametrize("name", ["uniform", "subset"])
def test_one_bound_for_all_values_is_no_looser_than_any_that_was_asked_for(name: str) -> None:
    """Values without a bound are protected too, and nothing of the design follows the table."""
    bounds = {0: BreachBound("1/10", "1/2"), 2: BreachBound("1/4", "1/3"), 3: BreachBound("1/50", "1/2")}
    designs = []
    for spec in (BreachBoundPerValue(bounds), Tolerance(3)):
        found = [choose(Histogram.of(range(40), counts), spec, DRAWS, name) for counts in (zipf(40), [7] * 40)]
        assert found[0].design == found[1].design
        designs.append(found[0].design)
    assert designs[0].bound == bounds[2]
    assert designs[1].bound.amplification == 3
    assert "multiplies or divides the attacker's odds by at most 3 " in REGISTRY[name].state_guarantee(designs[1]).exact
    said = ["the choice of the mechanism depends" in REGISTRY[name].state_guarantee(each).text for each in designs]
    assert said == [False, True]  # whoever names each bound has chosen it without the table
    assert "a probability of at most 1/4," in REGISTRY[name].state_guarantee(designs[0]).exact


@pytest.mark.parametrize("name", ["uniform", "subset", "harmonic"])
def test_bounds_that_let_nothing_be_told_are_refused(name: str) -> None:
    close = BreachBound("1/2", Fraction(10**30 + 1, 2 * 10**30))
    spec = BreachBoundPerValue({0: close, 1: BreachBound("1/4", "1/3")})
    with refuses(InfeasibleError, "posterior-too-close"):
        choose(Histogram.of(range(3), [1, 2, 3]), spec, DRAWS, name)


@pytest.mark.parametrize("name", ["magic", "", "auto"])
def test_options_of_no_mechanism_are_refused(name: str) -> None:
    with refuses(SpecError, "unknown-mechanism", mechanism=name):
        choose({"flu": 1, "HIV": 1}, BOUND, DRAWS, options={name: fine_grain.Options()})


# ----------------------------------------------------------------------------------------------- counts of equal people


def with_groups(histogram: Histogram, *sizes: tuple[int, int], is_declared: bool = True) -> Histogram:
    """The counts, with sizes of groups of people with equal public columns."""
    return replace(histogram, is_declared=is_declared, class_sizes=sizes)


FEW_VALUES = Histogram.of(list("abcdef"), [300, 300, 200, 100, 60, 40])
ONE_TO_THIRD = BreachBound("1/10", "1/3")


def chosen_for(histogram: Histogram, **asked: Any) -> str:
    return choose(histogram, ONE_TO_THIRD, Draws.for_planning(), **asked).mechanism.name


def test_counts_are_taken_where_they_have_at_most_seven_tenths_of_the_error() -> None:
    grouped, alone = with_groups(FEW_VALUES, (50, 20)), with_groups(FEW_VALUES, (1, 1000))
    assert chosen_for(grouped) == "noisy-counts"
    assert chosen_for(alone) == "uniform"
    shares = []
    for size in (1, 2, 3, 4, 6, 10, 50):
        histogram = with_groups(FEW_VALUES, (size, 1200 // size), (1, 200))
        plans = choose(histogram, ONE_TO_THIRD, Draws.for_planning(), rivals=True)
        errors = {
            each.mechanism.name: compute_even_error(
                each.mechanism, ONE_TO_THIRD, each.mechanism.options(), Draws.for_planning(), histogram
            )
            for each in (plans, *plans.alternatives)
        }
        share = (errors["noisy-counts"] or 0) / (errors["uniform"] or 1)
        assert (plans.mechanism.name == "noisy-counts") == (share <= COUNTS_ERROR_SHARE)
        shares.append(share)
    assert min(shares) < COUNTS_ERROR_SHARE < max(shares)


def test_counts_are_never_taken_against_the_will_or_without_a_declared_domain() -> None:
    grouped = with_groups(FEW_VALUES, (50, 20))
    assert chosen_for(grouped, records=True) == "uniform"
    assert chosen_for(with_groups(FEW_VALUES, (50, 20), is_declared=False)) == "uniform"
    assert chosen_for(with_groups(FEW_VALUES)) == "uniform"
    with refuses(SpecError, "records-not-published", mechanism="noisy-counts"):
        chosen_for(grouped, mechanism="noisy-counts", records=True)
    with refuses(InfeasibleError, "counts-without-domain"):
        chosen_for(with_groups(FEW_VALUES, (50, 20), is_declared=False), mechanism="noisy-counts")


def test_choice_of_counts_does_not_depend_on_the_values_of_the_table() -> None:
    """Only on the sizes of public groups, the size of the domain and the bound."""
    even = replace(FEW_VALUES, counts=(1000, 0, 0, 0, 0, 0))
    for sizes in (((2, 500),), ((3, 300), (1, 100)), ((1, 1000),)):
        assert chosen_for(with_groups(FEW_VALUES, *sizes)) == chosen_for(with_groups(even, *sizes))


def test_more_counts_than_possible_are_refused_when_planning() -> None:
    many = with_groups(FEW_VALUES, (2, 1 << 26))
    assert chosen_for(many) == "uniform"
    with refuses(InfeasibleError, "too-many-counts"):
        chosen_for(many, mechanism="noisy-counts")
