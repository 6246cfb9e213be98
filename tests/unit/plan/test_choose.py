"""Which mechanism is taken: by the size of the domain, the request and the options, and by no count."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from selection import examples
from sfumato.draws import Draws
from sfumato.errors import InfeasibleError
from sfumato.mechanisms import REGISTRY, selection
from sfumato.plan.choose import choose
from sfumato.plan.predict import Chosen
from sfumato.request.histogram import Histogram
from sfumato.request.spec import BreachBound
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
        found.append(Chosen(mechanism, plan, histogram).predicted["0.001"])
    assert found[0] is None
    assert found[1] is not None


@pytest.mark.parametrize("size", [2, 3, 5, 7, 8, 9, 16, 40, 1500])
@pytest.mark.parametrize("bound", [BOUND, BreachBound("1/10", "1/2"), BreachBound("1/3", "2/3")], ids=str)
def test_sets_are_taken_where_the_best_hold_more_than_one_value(size: int, bound: BreachBound) -> None:
    """Sets of one value are uniform perturbation, which is the simpler one of the two."""
    is_set = selection.best_members(size, bound.amplification) > 1
    assert taken([7] * size, bound)[0] == ("subset" if is_set else "uniform")


def test_reason_names_no_count_and_says_by_what_was_compared() -> None:
    """Uniform: p = 7/3007, q = 2/3007; sets of 273: a = 0.5003, b = 0.1818. Variances of R/m are 9.16² apart."""
    name, reason = taken(even_but_one(100))
    assert name == "subset"
    assert reason.startswith("subset has the smallest predicted error of the mechanisms that give this guarantee, if ")
    assert reason.endswith("1,500 values are equally frequent (uniform has 9.16 times as much).")
    assert taken([60, 30, 10])[1].endswith("3 values are equally frequent (subset has the same).")


def test_mechanism_of_a_weaker_guarantee_is_taken_where_only_unequal_frequencies_allow_it() -> None:
    """Of seven equally frequent values each has more than the prior of a tenth; of these, some are rarer."""
    counts = [40_000, 30_000, 10_000, 8_000, 5_000, 4_000, 3_000]
    name, reason = taken(counts, BOUND, "marginal-prior")
    assert (name, reason) == (
        "small-domain",
        "small-domain is taken wherever it meets the request, as it does here because frequencies differ.",
    )
    assert taken([1000] * 7, BOUND, "marginal-prior")[0] == "uniform"


@pytest.mark.parametrize(
    ("size", "name"), [(2, "uniform"), (7, "uniform"), (16, "subset"), (46, "subset"), (1420, "subset")]
)
def test_skewed_tables_get_the_mechanism_of_the_smaller_predicted_error(size: int, name: str) -> None:
    """As when it was chosen by that; so do the columns of these sizes in the census and in vaccine reports."""
    counts = [1_000_000 // (place + 1) for place in range(size)]
    chosen = choose(Histogram.of(range(size), counts), BOUND, DRAWS)
    assert chosen.mechanism.name == name
    (rival,) = chosen.others
    for share, error in chosen.predicted.items():
        assert error is not None
        assert error <= (rival.predicted[share] or 0) * (1 + 1e-9)
