"""Many designs, each by brute force: every outcome that the draws of a record can have, in exact numbers.

The contract of the mechanisms looks at a few plans from all sides. Here a few laws are looked at for many plans: what
the sampler does is what the published rationals say, and that keeps the promise. `make full` takes more of them.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import combinations, permutations, product
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from enumeration import Law, Shown, transition_law, whole_law
from selection import examples
from sfumato import InfeasibleError
from sfumato._core.random_draws import Draws, TablePermutation
from sfumato._request.belief_bounds import BreachBound, BreachBoundPerValue
from sfumato._request.bucket_and_decoy_requirements import DecoyGroups
from sfumato._request.histogram import Histogram
from sfumato.mechanisms import REGISTRY, _decoys
from sfumato.mechanisms._randomized_response import fine_grain, small_domain
from sfumato.mechanisms._randomized_response import uniform_mechanism as uniform
from sfumato.mechanisms._randomized_response.perturbation_operators import RetentionDraws
from sfumato.mechanisms._subset_selection import subset_mechanism as subset

DRAWS = Draws.unsafe_test_key("e7" * 32)

MOST_OUTCOMES = 20_000
"""Coins of finer parts are left out: they are the same code, and take long."""

BOUNDS = [
    BreachBound(*pair.split()) for pair in ("1/10 1/3", "1/3 2/3", "1/13 1/6", "1/100 99/100", "1/4 1/2", "3/10 31/100")
]
SIZES = [2, 3, 4, 5, 6, 7]


def _planned(name: str, counts: Sequence[int], spec: Any, options: Any) -> Any:
    values = [f"value {number}" for number in range(len(counts))]
    return REGISTRY[name].plan(Histogram.of(values, counts), spec, options, DRAWS)


def _ratios(law: Law, place: int) -> Iterator[Fraction]:
    """How many times likelier each thing is shown for this value than for another, over all others."""
    for other, row in enumerate(law):
        if other != place:
            yield from (law[place].get(shown, Fraction(0)) / chance for shown, chance in row.items())


def _believed(law: Law, counts: Sequence[int]) -> Iterator[tuple[int, Shown, Fraction]]:
    """By Bayes' rule, the chance of each value for each thing that is shown, for whoever knows these counts."""
    seen: dict[Shown, Fraction] = defaultdict(Fraction)
    for count, row in zip(counts, law, strict=True):
        for shown, chance in row.items():
            seen[shown] += count * chance
    for place, (count, row) in enumerate(zip(counts, law, strict=True)):
        yield from ((place, shown, count * chance / seen[shown]) for shown, chance in row.items())


# ------------------------------------------------------------------------------------------- for every prior, all sizes


def _uniform_law(written: Any) -> Law:
    size, kept = len(written["domain"]), Fraction(written["retention"])
    swap = (1 - kept) / size
    return [{shown: swap + kept * (shown == place) for shown in range(size)} for place in range(size)]


def _subset_law(written: Any) -> Law:
    size, members, hold = len(written["domain"]), written["subset_size"], Fraction(written["hold_probability"])
    inside, outside = hold / math.comb(size - 1, members - 1), (1 - hold) / math.comb(size - 1, members)
    sets = [frozenset(each) for each in combinations(range(size), members)]
    return [{each: inside if place in each else outside for each in sets} for place in range(size)]


@pytest.mark.slow
@pytest.mark.light
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("bound", BOUNDS, ids=lambda bound: f"{bound.prior} to {bound.posterior}")
@pytest.mark.parametrize("name", ["uniform", "subset"])
def test_every_size_and_bound_has_the_published_law_and_the_amplification_exactly(
    name: str, bound: BreachBound, size: int
) -> None:
    mechanism, options = REGISTRY[name], {"uniform": uniform.NoOptions, "subset": subset.Options}[name]()
    plan = _planned(name, [1] * size, bound, options)
    law = whole_law(mechanism, plan, [1] * size)
    published = {"uniform": _uniform_law, "subset": _subset_law}[name](mechanism.make_design(plan).to_json())
    assert law == published
    ratios = [ratio for place in range(size) for ratio in _ratios(law, place)]
    assert (max(ratios), min(ratios)) == (bound.amplification, 1 / bound.amplification)


@pytest.mark.parametrize("name", ["uniform", "subset"])
def test_two_releases_of_a_record_square_the_amplification(name: str) -> None:
    """And so do two rows of one person: what both show is independent, given the value."""
    options = {"uniform": uniform.NoOptions, "subset": subset.Options}[name]()
    law = whole_law(REGISTRY[name], _planned(name, [1] * 4, BOUNDS[0], options), [1] * 4)
    both: Law = [{pair: row[pair[0]] * row[pair[1]] for pair in product(row, row)} for row in law]  # type: ignore[misc]
    assert max(_ratios(both, 0)) == BOUNDS[0].amplification ** 2


def test_one_outcome_more_that_keeps_the_value_would_break_the_bound() -> None:
    """The twin of the test before."""
    plan = _planned("uniform", [1] * 3, BOUNDS[0], uniform.NoOptions())
    looser = uniform.Plan(plan.histogram, plan.bound, plan.keep_outcomes + 1, plan.swap_outcomes)
    law = whole_law(REGISTRY["uniform"], looser, [1] * 3)
    assert law != _uniform_law(uniform.make_design(plan).to_json())
    assert max(_ratios(law, 0)) > BOUNDS[0].amplification


# ----------------------------------------------------------------------------------------------- a bound for each value

parts = st.integers(1, 12)
bounds = st.tuples(parts, parts, parts).map(
    lambda each: BreachBound(Fraction(each[0], sum(each)), Fraction(each[0] + each[1], sum(each)))
)


def _finest(coins: RetentionDraws) -> int:
    return int(coins.outcomes.max())


@pytest.mark.slow
@given(st.data(), st.sampled_from(fine_grain.Direction), st.sampled_from(fine_grain.Objective))
@settings(max_examples=examples(80))
def test_every_fine_grain_design_has_the_published_law_and_keeps_every_bound(
    data: st.DataObject, direction: fine_grain.Direction, objective: fine_grain.Objective
) -> None:
    counts = data.draw(st.lists(st.integers(0, 9), min_size=2, max_size=5).filter(any))
    given_bounds = data.draw(st.lists(st.none() | bounds, min_size=len(counts), max_size=len(counts)).filter(any))
    spec = BreachBoundPerValue({f"value {place}": each for place, each in enumerate(given_bounds) if each})
    plan = _planned("fine-grain", counts, spec, fine_grain.Options(direction, objective))
    assume(_finest(plan.retention_draws) <= MOST_OUTCOMES)
    law = whole_law(REGISTRY["fine-grain"], plan, counts)
    size, kept = len(counts), [Fraction(each) for each in fine_grain.make_design(plan).to_json()["retentions"]]
    assert law == [
        {shown: chance for shown in range(size) if (chance := (1 - own) / size + own * (shown == place))}
        for place, own in enumerate(kept)
    ]
    for place, bound in enumerate(given_bounds):
        if bound is not None:
            for other in range(size):
                for shown in range(size):
                    true, false = (law[each].get(shown, Fraction(0)) for each in (place, other))
                    assert true <= bound.amplification * false
                    assert direction is fine_grain.Direction.UPWARD or false <= bound.amplification * true


def test_a_value_that_is_always_kept_is_drawn_in_silence() -> None:
    """Its coin leaves nothing to divide among the others; a warning would be an error here."""
    plan = _planned("fine-grain", [0, 1], BreachBoundPerValue({"value 1": BOUNDS[1]}), fine_grain.Options())
    assert plan.retentions == (Fraction(1, 2), 1)
    assert whole_law(REGISTRY["fine-grain"], plan, [0, 1])[1] == {1: 1}


# ----------------------------------------------------------------------------------------------------- cells and groups


def _cell_law(written: Any, counts: Sequence[int]) -> Law:
    law: list[dict[Shown, Fraction]] = [{} for _ in counts]
    has_cells = len(written["cells"]) > 1
    for number, cell in enumerate(written["cells"]):
        kept = Fraction(cell["retention"])
        for (place, held), shown in product(zip(cell["places"], cell["counts"], strict=True), cell["places"]):
            chance = (1 - kept) / len(cell["places"]) + kept * (shown == place)
            law[place][(number, shown) if has_cells else shown] = Fraction(held, counts[place]) * chance
    return law


def _without_the_only_cell(law: Law) -> Law:
    """A release of one cell does not show it, and the sampler names it all the same."""
    cells = {shown[0] for row in law for shown in row}
    return law if len(cells) > 1 else [{shown[1]: chance for shown, chance in row.items()} for row in law]


@pytest.mark.slow
@given(st.lists(st.integers(0, 6), min_size=2, max_size=7).filter(any), bounds, st.sampled_from(small_domain.Merge))
@settings(max_examples=examples(80))
def test_every_small_domain_design_has_the_published_law_and_keeps_the_bound_for_whoever_knows_the_counts(
    counts: list[int], bound: BreachBound, merge: small_domain.Merge
) -> None:
    try:
        plan = _planned("small-domain", counts, bound, small_domain.Options(merge, 0, publish_shares=True))
    except InfeasibleError:
        assume(False)
    assume(_finest(plan.retention_draws) <= MOST_OUTCOMES)
    law = whole_law(REGISTRY["small-domain"], plan, counts)
    assert _without_the_only_cell(law) == _cell_law(small_domain.make_design(plan).to_json(), counts)
    for place, _, chance in _believed(law, counts):
        assert chance <= bound.posterior or counts[place] > bound.prior * sum(counts)


@pytest.mark.slow
@given(
    st.lists(st.integers(0, 9), min_size=2, max_size=8).filter(any),
    st.integers(2, 5),
    st.sampled_from(_decoys.GroupCreation),
)
@settings(max_examples=examples(80))
def test_every_table_of_decoys_shows_all_of_a_group_alike_and_is_believed_with_one_over_the_size_at_most(
    counts: list[int], group_size: int, creation: _decoys.GroupCreation
) -> None:
    counts = [min(count, (sum(counts) - count) // (group_size - 1)) for count in counts]
    assume(0 < max(counts) * group_size <= sum(counts))
    plan = _planned("decoys", counts, DecoyGroups(group_size), _decoys.Options(creation))
    law = whole_law(REGISTRY["decoys"], plan, counts)
    for place, count in enumerate(counts):
        assert sum(law[place].values()) == (count > 0)
        assert sum(held * row.get(place, 0) for held, row in zip(counts, law, strict=True)) == count
        assert law[place].get(place, 0) <= Fraction(1, group_size)
    assert max(chance for _, _, chance in _believed(law, counts)) <= Fraction(1, group_size)


# -------------------------------------------------------------------------------------------------------- the machinery


@pytest.mark.parametrize("name", ["uniform", "subset", "fine-grain", "small-domain", "decoys"])
def test_all_outcomes_at_once_are_the_outcomes_one_by_one(name: str) -> None:
    """The quick enumeration against the slow one."""
    spec, options = {
        "uniform": (BOUNDS[1], uniform.NoOptions()),
        "subset": (BOUNDS[4], subset.Options()),
        "fine-grain": (BreachBoundPerValue({"value 0": BOUNDS[1], "value 2": BOUNDS[4]}), fine_grain.Options()),
        "small-domain": (BOUNDS[1], small_domain.Options(min_cell=0)),
        "decoys": (DecoyGroups(2), _decoys.Options()),
    }[name]
    counts = [3, 2, 2, 1, 1]
    plan = _planned(name, counts, spec, options)
    assert whole_law(REGISTRY[name], plan, counts) == transition_law(REGISTRY[name], plan, counts)


class ScriptedStream:
    """Stands in for a stream: its words are given, attempt by attempt."""

    def __init__(self, *attempts: Sequence[int]) -> None:
        self.attempts = attempts

    def draw_bits(self, first_row: int, rows: int, attempt: int = 0) -> Any:
        """The script of an attempt."""
        assert first_row == 0
        return np.array(self.attempts[attempt][:rows], dtype=np.uint64)


@pytest.mark.parametrize("size", range(5))
def test_every_order_of_a_table_is_equally_likely(size: int) -> None:
    """So a record has each slot of its value, and each place in the release, with the same chance.

    All words of two values, of which many are equal, and after them all orders of different ones.
    """
    scripts = product(product(range(2), repeat=size), permutations(range(size)))
    orders = Counter(
        tuple(TablePermutation.from_stream(ScriptedStream(*each), size).table.tolist()) for each in scripts
    )  # type: ignore[arg-type]
    assert orders == dict.fromkeys(permutations(range(size)), 2**size)


def test_words_that_stay_equal_are_drawn_until_they_differ() -> None:
    stream = ScriptedStream([5, 5, 1], [7, 7, 0], [9, 2, 3])
    assert TablePermutation.from_stream(stream, 3).table.tolist() == [2, 1, 0]  # type: ignore[arg-type]
