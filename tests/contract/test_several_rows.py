"""A person with several rows: what all of them show together, by brute force over the law of each row.

The law of a row is that of the mechanism's own sampler; rows are drawn independently, given their values.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from enumeration import Law, whole_law
from refusals import refuses
from selection import examples
from sfumato import BreachBound, BreachBoundPerValue, Hierarchy, Histogram, SpecError, choose
from sfumato._core.random_draws import Draws
from sfumato.errors import ReleaseFormatError
from sfumato.mechanisms import REGISTRY
from sfumato.mechanisms._noisy_counts import noisy_counts_mechanism as noisy_counts
from sfumato.mechanisms._randomized_response import uniform_mechanism as uniform
from sfumato.mechanisms._subset_selection import levels
from sfumato.mechanisms._subset_selection import subset_mechanism as subset
from sfumato.mechanisms.mechanism import NoOptions

DRAWS = Draws.unsafe_test_key("3c" * 32)
SIZE = 3
SHARED = {2: BreachBound("1/5", "1/2", 2), 3: BreachBound("8/35", "1/2", 3)}
"""Bounds whose roots are 2 and 3/2, so that few outcomes are possible and the whole is reached exactly."""
OPTIONS: dict[str, Callable[[], Any]] = {
    "uniform": NoOptions,
    "subset": subset.Options,
    "levels": levels.Options,
    "noisy-counts": noisy_counts.Options,
}


def row_law(name: str, bound: BreachBound) -> Law:
    values = [f"value {number}" for number in range(SIZE)]
    hierarchy = Hierarchy.of(("value", "group"), zip(values, "AAB", strict=True))
    histogram = replace(Histogram.of(values, [1] * SIZE, (), hierarchy), is_declared=True)
    return whole_law(REGISTRY[name], REGISTRY[name].plan(histogram, bound, OPTIONS[name](), DRAWS), [1] * SIZE)


def together(law: Law, values: Sequence[int]) -> dict[tuple[Any, ...], Fraction]:
    """The chance of all that the rows of a person with these values can show."""
    return {
        tuple(shown for shown, _ in rows): math.prod((chance for _, chance in rows), start=Fraction(1))
        for rows in product(*(law[value].items() for value in values))
    }


def largest_ratio(law: Law, rows: int) -> Fraction:
    """By how much all rows together multiply the odds of one list of values against another, at most."""
    laws = [together(law, values) for values in product(range(len(law)), repeat=rows)]
    return max(one[shown] / chance for one in laws for other in laws for shown, chance in other.items())


@pytest.mark.parametrize(
    ("name", "rows"), [(name, rows) for name in OPTIONS for rows in SHARED if (name, rows) != ("levels", 3)]
)
def test_all_rows_together_multiply_odds_by_the_whole_and_no_more(name: str, rows: int) -> None:
    bound = SHARED[rows]
    law = row_law(name, bound)
    assert largest_ratio(law, rows) == bound.person_amplification
    assert largest_ratio(law, rows + 1) > bound.person_amplification  # the twin: one row more breaks it


@settings(max_examples=examples(30))
@given(st.data())
@pytest.mark.parametrize("name", OPTIONS)
def test_no_statement_about_all_values_of_a_person_is_believed_beyond_the_bound(name: str, data: st.DataObject) -> None:
    """Whatever is believed before, of lists of values that may be tied to each other in any way."""
    bound, law = SHARED[2], _LAWS[name]
    lists = list(product(range(SIZE), repeat=2))
    weights = [Fraction(each) for each in data.draw(st.lists(st.integers(0, 50), min_size=9, max_size=9))]
    holds = data.draw(st.lists(st.booleans(), min_size=9, max_size=9))
    inside = sum(weight for weight, held in zip(weights, holds, strict=True) if held)
    if not sum(weights) or inside > bound.prior * sum(weights):
        return
    laws = [together(law, values) for values in lists]
    for shown in set().union(*laws):
        seen = [weight * each.get(shown, Fraction(0)) for weight, each in zip(weights, laws, strict=True)]
        if sum(seen):
            believed = sum(chance for chance, held in zip(seen, holds, strict=True) if held) / sum(seen)
            assert believed <= bound.posterior


_LAWS = {name: row_law(name, SHARED[2]) for name in OPTIONS}


def test_bounds_of_their_own_do_not_multiply_as_they_promise() -> None:
    """Retentions 0, 1/2, 1/2 keep row factors of 2, 4 and 4, so two rows would promise 2² = 4 for the first value.

    Somebody who knows that a person has (first, second) or (third, third) gets odds of 8: the second row, whose value
    nobody wanted to protect as much, carries the belief in the first.
    """
    retentions = [Fraction(0), Fraction(1, 2), Fraction(1, 2)]
    law = [
        {shown: (1 - kept) / 3 + (kept if shown == value else 0) for shown in range(3)}
        for value, kept in enumerate(retentions)
    ]
    factors = [max(law[value][shown] / other[shown] for other in law for shown in range(3)) for value in range(3)]
    assert factors == [2, 4, 4]
    one, other = together(law, (0, 1)), together(law, (2, 2))
    assert max(one[shown] / chance for shown, chance in other.items()) == 8 > factors[0] ** 2


@pytest.mark.parametrize("mechanism", sorted(set(REGISTRY) - set(OPTIONS)))
def test_other_mechanisms_refuse_several_rows(mechanism: str) -> None:
    histogram = Histogram.of(list("abcdefgh"), [10] * 8)
    is_met = isinstance(SHARED[2], REGISTRY[mechanism].accepted_requests)
    with refuses(SpecError, "several-rows-not-covered" if is_met else "another-requirement", mechanism=mechanism):
        choose(histogram, SHARED[2], DRAWS, mechanism)


def test_automatic_choice_for_several_rows_is_one_that_holds_for_them() -> None:
    histogram = Histogram.of(list("abcdefgh"), [1000, 500, 10, 10, 10, 10, 10, 10])
    for guarantee in (None, "marginal-prior"):
        found = choose(histogram, SHARED[2], DRAWS, guarantee=guarantee, rivals=True)
        assert {each.mechanism.name for each in (found, *found.alternatives)} == set(OPTIONS) - {
            "levels",
            "noisy-counts",
        }


def test_bounds_for_each_value_are_refused_for_several_rows() -> None:
    with refuses(SpecError, "several-rows-not-covered", rows=2, requirement="BreachBoundPerValue"):
        BreachBoundPerValue({"a": SHARED[2].share_among_rows(1)}).share_among_rows(2)


def test_design_of_shared_rows_is_read_back_and_one_that_promises_too_little_is_not() -> None:
    hierarchy = Hierarchy.of(("own", "kind"), zip("abc", "AAB", strict=True))
    histogram = Histogram.of(list("abc"), [10] * 3, (), hierarchy)
    for name, module in (("uniform", uniform), ("subset", subset), ("levels", levels)):
        plan = REGISTRY[name].plan(histogram, SHARED[2], OPTIONS[name](), DRAWS)
        written = module.make_design(plan).to_json()
        assert written["rows_per_person"] == 2
        assert module.read_design(written, ["string"]).bound == SHARED[2]
        with refuses(ReleaseFormatError, "design-breaks-bound"):
            module.read_design({**written, "rows_per_person": 3}, ["string"])
