from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from itertools import combinations, pairwise
from random import Random
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refusals import refuses
from sfumato.errors import ErrorField, InfeasibleError, InternalError
from sfumato.mechanisms._randomized_response.small_domain.balancing import (
    BalancedGroups,
    Group,
    balance,
    find_protected_places,
)
from sfumato.mechanisms._randomized_response.small_domain.merging import (
    CountedCell,
    Part,
    compute_error_bound,
    compute_total_variance,
    merge_by_bound,
    merge_by_variance,
    merge_groups,
)
from sfumato.mechanisms._randomized_response.small_domain.sub_table_planning import rearrange_groups

EXAMPLE = (12, 8, 6, 5, 4, 3, 1, 1, 1, 1)
Counts = tuple[int, ...]
Cost = Callable[[Sequence[CountedCell], Fraction], float]


# What to plan: counts, some of them zero, of tables that are not empty


class Table(NamedTuple):
    counts: Counts
    protected: tuple[int, ...]


class Request(NamedTuple):
    counts: Counts
    protected: tuple[int, ...]
    posterior: Fraction


class Loose(NamedTuple):
    """Groups that no table was balanced into."""

    groups: list[Group]
    protected: tuple[int, ...]
    posterior: Fraction


def _counts(smallest: int = 1, largest: int = 12) -> st.SearchStrategy[Counts]:
    few, many = st.integers(0, 9), st.integers(0, 10**6)
    tables = [st.lists(count, min_size=smallest, max_size=largest) for count in (few, many)]
    return st.one_of(tables).map(tuple).filter(lambda counts: sum(map(bool, counts)) >= smallest)


@st.composite
def _partly_protected(draw: st.DrawFn) -> Table:
    """Counts, and the places up to the share of one of them: exactly at the limit is the normal case."""
    counts = draw(_counts(2))
    limit = draw(st.sampled_from(sorted(filter(None, counts))))
    return Table(counts, find_protected_places(counts, Fraction(limit, sum(counts))))


@st.composite
def _with_others(draw: st.DrawFn) -> Table:
    """Some values above the prior, and a balance of at least two: the largest protected count occurs twice."""
    rare = draw(st.lists(st.integers(1, 50), min_size=1, max_size=8))
    frequent = [max(rare) + more for more in draw(st.lists(st.integers(1, 500), min_size=1, max_size=4))]
    counts = tuple(draw(st.permutations([max(rare), *rare, *frequent])))
    return Table(counts, find_protected_places(counts, Fraction(max(rare), sum(counts))))


def _posteriors(whole: CountedCell) -> st.SearchStrategy[Fraction]:
    """Posteriors above the largest share of a protected value."""
    share = Fraction(whole.peak, whole.total)
    return st.integers(1, 99).map(lambda percent: share + (1 - share) * Fraction(percent, 100))


@st.composite
def _requests(draw: st.DrawFn) -> Request:
    """Counts, protected places, and a posterior above the largest share of a protected value."""
    counts, protected = draw(_partly_protected())
    return Request(counts, protected, draw(_posteriors(merge_groups([counts], protected))))


@st.composite
def _loose_groups(draw: st.DrawFn) -> Loose:
    size = draw(st.integers(1, 4))
    group = st.tuples(*[st.integers(0, 6)] * size).filter(any)
    groups = draw(st.lists(group, min_size=1, max_size=8))
    protected = tuple(sorted(draw(st.sets(st.integers(0, size - 1)))))
    return Loose(groups, protected, Fraction(draw(st.integers(1, 19)), 20))


@st.composite
def _mergeable(draw: st.DrawFn) -> Loose:
    """Such groups, feasible as a whole."""
    size = draw(st.integers(2, 4))
    first = draw(st.tuples(*[st.integers(1, 6)] * size))
    others = draw(st.lists(st.tuples(*[st.integers(0, 6)] * size).filter(any), max_size=7))
    groups = draw(st.permutations([first, *others]))
    protected = tuple(sorted(draw(st.sets(st.integers(0, size - 1), min_size=1))))
    return Loose(groups, protected, draw(_posteriors(merge_groups(groups, protected))))


def _places(group: Sequence[int]) -> list[int]:
    return [place for place, count in enumerate(group) if count]


def _rests(groups: Sequence[Group]) -> list[Group]:
    """What was left before each group was taken."""
    return [tuple(map(sum, zip(*groups[number:], strict=True))) for number in range(len(groups))]


def _top(counts: Sequence[int], width: int) -> list[int]:
    return sorted(range(len(counts)), key=lambda place: (-counts[place], place))[:width]


def _is_flat(group: Group, width: int) -> bool:
    return len(_places(group)) == width and len(set(group) - {0}) == 1


def _fully_balanced(counts: Counts) -> BalancedGroups:
    return balance(counts, range(len(counts)))


# Protected values


@pytest.mark.parametrize(
    ("counts", "prior", "protected"),
    [
        ((4, 3, 2, 1), "3/10", (1, 2, 3)),
        ((4, 3, 2, 1), "29/100", (2, 3)),
        ((4, 3, 2, 1), "1/20", ()),
        ((0, 5, 0, 5), "1/2", (1, 3)),
        ((10**17, 2 * 10**17), "1/3", (0,)),
        ((10**17 + 1, 2 * 10**17), "1/3", ()),  # a float could not tell the two apart
    ],
)
def test_protected_are_the_places_up_to_the_prior(counts: Counts, prior: str, protected: tuple[int, ...]) -> None:
    assert find_protected_places(counts, Fraction(prior)) == protected


# Balancing


@given(_partly_protected())
def test_the_groups_are_the_table(table: Table) -> None:
    counts, protected = table
    groups = balance(counts, protected).groups
    assert tuple(map(sum, zip(*groups, strict=True))) == counts
    assert all(min(group) >= 0 and any(group) for group in groups)


@given(_partly_protected())
def test_the_balance_is_how_often_the_largest_protected_count_fits(table: Table) -> None:
    counts, protected = table
    hidden = [counts[place] for place in protected]
    width = balance(counts, protected).balance
    assert width * max(hidden) <= sum(hidden) < (width + 1) * max(hidden)


@given(_counts())
def test_every_group_but_the_last_is_flat(counts: Counts) -> None:
    balanced = _fully_balanced(counts)
    assert all(_is_flat(group, balanced.balance) for group in balanced.groups[:-1])


@given(_counts())
def test_the_last_group_is_flat_if_the_balance_divides_the_table_and_small_if_not(counts: Counts) -> None:
    """A residual group has fewer than θ² records.

    h = 0 means μ_{θ+1} = ⌊|T0|/θ⌋ = f. So (θ+1)·f ≤ |T0| ≤ θ·f + θ - 1, f ≤ θ - 1, and |T0| ≤ θ² - 1. If θ divides |T0|
    it cannot be; and taking flat groups never changes the remainder.
    """
    balanced = _fully_balanced(counts)
    last, width = balanced.groups[-1], balanced.balance
    if sum(counts) % width:
        assert sum(last) < width**2
        assert sum(last) % width == sum(counts) % width
    else:
        assert _is_flat(last, width)


@pytest.mark.parametrize("width", range(2, 9))
def test_a_residual_group_can_be_as_large_as_that(width: int) -> None:
    counts = (width - 1,) * (width + 1)
    groups = balance(counts, range(len(counts))).groups
    assert groups == (counts,)
    assert sum(counts) == width**2 - 1


@given(_counts())
def test_there_is_at_most_one_group_more_than_values(counts: Counts) -> None:
    """Each group but the last uses up a value, or makes one tight, with ⌊|T0|/θ⌋ records.

    A tight value is in every later group, and is used up by the last one only.
    """
    assert len(_fully_balanced(counts).groups) <= len(_places(counts)) + 1


def test_there_can_be_one_group_more_than_values() -> None:
    assert _fully_balanced((5, 4, 4)).groups == ((2, 2, 0), (2, 0, 2), (0, 1, 1), (1, 1, 1))


@given(_counts())
def test_each_group_takes_the_most_frequent_values_of_the_rest(counts: Counts) -> None:
    """The thesis' Lemma 1, that the rest has the records, is in `test_the_groups_are_the_table`."""
    balanced = _fully_balanced(counts)
    for group, rest in zip(balanced.groups[:-1], _rests(balanced.groups), strict=False):
        assert _places(group) == sorted(_top(rest, balanced.balance))


@given(_counts())
def test_the_rest_stays_balanced(counts: Counts) -> None:
    """Lemma 1 (ii) of the paper, Lemma 2 of the thesis: no count above |T0|/θ."""
    balanced = _fully_balanced(counts)
    assert all(max(rest) * balanced.balance <= sum(rest) for rest in _rests(balanced.groups))


@given(_counts())
def test_a_group_takes_as_much_as_it_can(counts: Counts) -> None:
    """Lemma 1 (iii) of the paper, Lemma 3 of the thesis: one more record of each value would not do.

    Either a value has no such record, or the rest would no longer be balanced.
    """
    balanced = _fully_balanced(counts)
    width = balanced.balance
    for group, rest in zip(balanced.groups[:-1], _rests(balanced.groups), strict=False):
        after = [count - (max(group) + 1) * bool(group[place]) for place, count in enumerate(rest)]
        assert min(after) < 0 or max(after) * width > sum(after)


@given(_counts())
def test_nothing_can_be_taken_evenly_from_a_residual_group(counts: Counts) -> None:
    balanced = _fully_balanced(counts)
    last, width = balanced.groups[-1], balanced.balance
    if not _is_flat(last, width):
        top = set(_top(last, width))
        after = [count - (place in top) for place, count in enumerate(last)]
        assert max(after) * width > sum(after)


@given(_counts())
def test_every_group_is_balanced(counts: Counts) -> None:
    """Lemma 1 (i) of the paper, Lemma 4 of the thesis."""
    balanced = _fully_balanced(counts)
    assert all(max(group) * balanced.balance <= sum(group) for group in balanced.groups)


@given(_counts())
def test_the_prior_of_a_flat_group_is_one_over_the_balance(counts: Counts) -> None:
    balanced = _fully_balanced(counts)
    flat = [group for group in balanced.groups if _is_flat(group, balanced.balance)]
    assert {merge_groups([group], range(len(counts))).prior for group in flat} <= {Fraction(1, balanced.balance)}


def test_ties_go_to_the_first_place() -> None:
    assert _fully_balanced((2, 2, 2, 2)).groups == ((2, 2, 2, 2),)
    assert _fully_balanced((3, 2, 2, 2)).groups == ((1, 1, 1, 0), (1, 1, 0, 1), (1, 0, 1, 1))


@given(_partly_protected(), st.data())
def test_places_without_records_change_nothing(table: Table, data: st.DataObject) -> None:
    counts, protected = table
    gap = data.draw(st.integers(0, len(counts)))
    wider = (*counts[:gap], 0, *counts[gap:])
    moved = tuple(place + (place >= gap) for place in protected)
    for places in (moved, (*moved, gap)):
        balanced = balance(wider, places)
        assert [group[gap] for group in balanced.groups] == [0] * len(balanced.groups)
        assert (
            tuple((*group[:gap], *group[gap + 1 :]) for group in balanced.groups) == balance(counts, protected).groups
        )


def test_the_first_group_asks_only_for_records_that_exist() -> None:
    """With σ > μ instead of σ ≥ μ in Eq. (13), the first group of 7, 3, 2, 2 would have 5 records of each of two."""
    assert _fully_balanced((7, 3, 2, 2)).groups == ((3, 3, 0, 0), (2, 0, 2, 0), (2, 0, 0, 2))


def test_one_value_makes_one_group() -> None:
    assert _fully_balanced((0, 7)) == BalancedGroups(1, ((0, 7),))


@pytest.mark.parametrize(("counts", "least"), [((5, 5), "1/2"), ((0, 1, 6), "1/7"), ((3,), "1")])
def test_balance_refuses_a_table_without_protected_values(counts: Counts, least: str) -> None:
    """And says which prior would protect one; a protected place without records is none."""
    protected = [place for place, count in enumerate(counts) if not count]
    with refuses(InfeasibleError, "no-value-below-prior", rarest=least):
        balance(counts, protected)
    assert find_protected_places(counts, Fraction(least))


# Pouring


def _hidden(group: Group, protected: Sequence[int]) -> int:
    return sum(group[place] for place in protected)


@given(_partly_protected())
def test_the_protected_records_are_balanced_as_if_alone(table: Table) -> None:
    counts, protected = table
    alone = tuple(count * (place in protected) for place, count in enumerate(counts))
    balanced = balance(counts, protected)
    kept = tuple(tuple(count * (place in protected) for place, count in enumerate(group)) for group in balanced.groups)
    assert BalancedGroups(balanced.balance, kept) == _fully_balanced(alone)


@given(_partly_protected())
def test_a_group_gets_its_proportion_and_the_last_the_rest(table: Table) -> None:
    counts, protected = table
    groups = balance(counts, protected).groups
    inside = [_hidden(group, protected) for group in groups]
    poured = [sum(group) - hidden for group, hidden in zip(groups, inside, strict=True)]
    others = sum(counts) - sum(inside)
    assert poured[:-1] == [hidden * others // sum(inside) for hidden in inside[:-1]]
    assert sum(poured) == others


@given(_partly_protected())
def test_values_are_poured_one_after_the_other(table: Table) -> None:
    """The most frequent first, of equal counts the first place: no group has a value before its turn."""
    counts, protected = table
    others = [place for place in _top(counts, len(counts)) if place not in protected and counts[place]]
    poured = [place for group in balance(counts, protected).groups for place in others if group[place]]
    assert [place for number, place in enumerate(poured) if place not in poured[:number]] == others
    assert all(others.index(first) <= others.index(then) for first, then in pairwise(poured))


@given(_with_others())
def test_poured_groups_are_nearly_balanced(table: Table) -> None:
    """Lemma 2 of the paper, Lemma 5 of the thesis, for θ' ≥ 2, where α = 1/(1 - 1/θ') exists.

    A share is at most α/θ if a group's proportion is a whole number of records, otherwise at most α/(θ - α).
    """
    counts, protected = table
    balanced = balance(counts, protected)
    whole = merge_groups(balanced.groups, protected)
    width, alpha = whole.total // whole.peak, 1 / (1 - Fraction(1, balanced.balance))
    inside = _hidden(whole.counts, protected)
    for group in balanced.groups:
        is_whole = not _hidden(group, protected) * (whole.total - inside) % inside
        share = merge_groups([group], protected).prior
        assert share is not None
        assert share * (width if is_whole else width - alpha) <= alpha


def test_a_balance_of_one_needs_no_lemma() -> None:
    """θ' = 1: α does not exist. The priors are 1/10 each, above the prior 1/15 but below twice the prior."""
    balanced = balance((70, 20, 6, 4), (2, 3))
    assert balanced == BalancedGroups(1, ((54, 0, 6, 0), (16, 20, 0, 4)))
    assert [merge_groups([group], (2, 3)).prior for group in balanced.groups] == [Fraction(1, 10), Fraction(1, 10)]


def test_one_protected_value_makes_one_group() -> None:
    assert balance((70, 26, 4), (2,)) == BalancedGroups(1, ((70, 26, 4),))


# Rearranging


def _shared(groups: Sequence[Group]) -> list[set[int]]:
    places = [set(_places(group)) for group in groups]
    return [{other for other, theirs in enumerate(places) if own & theirs} for own in places]


def _walked(groups: Sequence[Group]) -> tuple[list[int], list[set[int]], Callable[[int], int]]:
    """The order as it was walked, who shares values with whom, and with how many."""
    shared = _shared(groups)
    return list(reversed(rearrange_groups(groups))), shared, lambda number: len(shared[number])


@given(_loose_groups())
def test_rearranged_has_every_group_once(loose: Loose) -> None:
    groups = loose.groups
    assert sorted(rearrange_groups(groups)) == list(range(len(groups)))


@given(_loose_groups())
def test_rearranged_is_a_reversed_walk_to_neighbours_with_few_neighbours(
    loose: Loose,
) -> None:
    """The rule in full: whoever is next, given everybody before."""
    walk, shared, degree = _walked(loose.groups)
    for position, number in enumerate(walk):
        before, after = walk[:position], set(walk[position:])
        waiting = next((shared[earlier] & after for earlier in before if shared[earlier] & after), None)
        if waiting is None:
            assert number == min(after, key=lambda other: (degree(other), -other))
        else:
            assert number == min(waiting, key=lambda other: (degree(other), other))


def test_rearranged_starts_at_the_last_of_the_groups_with_the_fewest_neighbours() -> None:
    """Group 1 shares values with everybody; the others are alike, and the walk, reversed, begins with the last."""
    assert rearrange_groups([(1, 0, 0), (1, 1, 1), (0, 1, 0), (0, 0, 1)]) == (2, 0, 1, 3)


def test_rearranged_keeps_groups_without_common_values_apart() -> None:
    assert rearrange_groups([(1, 0), (0, 1), (2, 0), (0, 2)]) == (0, 2, 1, 3)


# Cells


@given(_loose_groups())
def test_a_cell_is_the_union_of_its_groups(loose: Loose) -> None:
    groups, protected, _ = loose
    union = merge_groups(groups, protected)
    assert union.counts == tuple(map(sum, zip(*groups, strict=True)))
    assert (union.total, union.places) == (sum(map(sum, groups)), tuple(_places(union.counts)))
    assert union.domain_size == len(union.places)
    shares = [Fraction(union.counts[place], union.total) for place in protected if union.counts[place]]
    assert union.prior == max(shares, default=None)


def _belief(part: CountedCell, value: int, seen: int, posterior: Fraction) -> Fraction:
    """By Bayes, what somebody who knows the counts of the cell believes of a record with a given published value."""
    swap = part.compute_swap_probability(posterior)
    chances = {
        place: part.counts[place] * (swap + (place == seen) * part.compute_retention(posterior))
        for place in part.places
    }
    return chances[value] / sum(chances.values())


@given(_requests())
def test_no_belief_in_a_protected_value_exceeds_the_posterior(
    asked: Request,
) -> None:
    """And the bound is met: by the most frequent protected value, where it is seen."""
    counts, protected, posterior = asked
    groups = balance(counts, protected).groups
    for part in merge_by_variance(groups, protected, posterior, 0):
        union = merge_groups([groups[number] for number in part], protected)
        hidden = [place for place in union.places if place in protected]
        beliefs = [_belief(union, value, seen, posterior) for value in hidden for seen in union.places]
        assert max(beliefs) == posterior


@given(_requests())
def test_the_law_of_a_cell_is_the_uniform_one(asked: Request) -> None:
    """Eq. (4) and (10)."""
    counts, protected, posterior = asked
    union = merge_groups([counts], protected)
    prior, retention, swap = union.prior, union.compute_retention(posterior), union.compute_swap_probability(posterior)
    amplification = union.compute_amplification(posterior)
    assert prior is not None
    assert amplification == posterior * (1 - prior) / (prior * (1 - posterior))
    assert retention == (amplification - 1) / (union.domain_size - 1 + amplification)
    assert swap == 1 / (union.domain_size - 1 + amplification)
    assert union.split_outcomes(posterior)[0] * swap == union.split_outcomes(posterior)[1] * retention


@given(st.integers(2, 20), st.integers(1, 1000), st.data())
def test_a_flat_cell_shows_the_truth_with_the_posterior(size: int, height: int, data: st.DataObject) -> None:
    """Whatever the number of values: no law that keeps every belief below the posterior shows it more often."""
    flat = merge_groups([(height,) * size], range(size))
    posterior = data.draw(_posteriors(flat))
    assert flat.compute_retention(posterior) + flat.compute_swap_probability(posterior) == posterior


@pytest.mark.parametrize(
    ("counts", "protected", "posterior", "feasible"),
    [
        ((3, 3, 3), (0, 1, 2), "2/3", True),
        ((3, 3, 3), (0, 1, 2), "1/3", False),  # the belief may not rise
        ((30, 20, 18, 17, 15), (0, 1, 2, 3, 4), "301/1000", True),
        ((30, 20, 18, 17, 15), (0, 1, 2, 3, 4), "3/10", False),
        ((10**17, 2 * 10**17 - 1), (0,), "1/3", False),  # a float could not tell the share from the posterior
        ((10**17, 2 * 10**17 + 1), (0,), "1/3", True),
        ((9, 0, 0), (0, 1), "99/100", False),  # one value, protected: certain
        ((9, 0, 0), (1, 2), "99/100", False),  # one value, not protected
        ((9, 5, 0), (2,), "99/100", False),  # nothing to protect
    ],
)
def test_feasible_is_a_protected_value_whose_belief_may_rise(
    counts: Counts, protected: tuple[int, ...], posterior: str, feasible: bool
) -> None:
    assert merge_groups([counts], protected).is_feasible(Fraction(posterior)) is feasible


@given(_loose_groups())
def test_a_feasible_cell_has_two_values(loose: Loose) -> None:
    groups, protected, posterior = loose
    union = merge_groups(groups, protected)
    assert union.domain_size >= 2 or not union.is_feasible(posterior)


@given(_counts(2))
def test_flat_groups_are_feasible_alone_exactly_above_one_over_the_balance(counts: Counts) -> None:
    balanced = _fully_balanced(counts)
    flat = [merge_groups([group], range(len(counts))) for group in balanced.groups if _is_flat(group, balanced.balance)]
    limit = Fraction(1, balanced.balance)
    assert not any(part.is_feasible(limit) for part in flat)
    assert all(part.is_feasible(limit + Fraction(1, 10**9)) for part in flat if balanced.balance > 1)


def test_a_cell_without_protected_values_would_be_published_as_it_is() -> None:
    """Legal by the letter of the paper, and why it is not feasible here."""
    bare = merge_groups([(9, 5, 0)], (2,))
    half = Fraction(1, 2)
    assert (bare.prior, bare.compute_amplification(half)) == (None, None)
    assert bare.compute_retention(half) == 1
    assert bare.compute_swap_probability(half) == 0
    assert compute_total_variance([bare], half) == 0


@pytest.mark.parametrize(("counts", "posterior"), [((9, 0), "9/10"), ((6, 4), "3/5"), ((6, 4), "1/2")])
def test_a_cell_whose_beliefs_may_not_rise_has_no_retention(counts: Counts, posterior: str) -> None:
    stuck = merge_groups([counts], range(2))
    with refuses(InternalError, "no-retention"):
        stuck.compute_retention(Fraction(posterior))
    assert compute_error_bound([stuck], Fraction(posterior)) == math.inf
    assert compute_total_variance([stuck], Fraction(posterior)) == math.inf


def test_the_whole_table_is_bounded_by_its_own_largest_share_not_by_the_prior() -> None:
    """Only beliefs up to 2/7 are covered then, not up to the prior 1/3 that was asked for."""
    whole = merge_groups([EXAMPLE], find_protected_places(EXAMPLE, Fraction(1, 3)))
    assert whole.prior == Fraction(2, 7)
    assert whole.compute_amplification(Fraction(2, 3)) == 5


# Costs


def _exact_variance(part: CountedCell, posterior: Fraction) -> Fraction:
    """The variance as the sum over the values of the cell, for each record that holds it and each that does not."""
    retention, swap = part.compute_retention(posterior), part.compute_swap_probability(posterior)
    own, other = (chance * (1 - chance) / retention**2 for chance in (retention + swap, swap))
    return sum((count * own + (part.total - count) * other for count in part.counts if count), Fraction(0))


def _paper_bound(part: CountedCell, posterior: Fraction) -> float:
    """Eq. (11), for a cell with a prior."""
    amplification = part.compute_amplification(posterior)
    assert amplification is not None
    factor = 2 * math.sqrt(math.log(40))
    return factor / math.sqrt(part.total) * float(part.domain_size / (amplification - 1) + 1)


@given(_requests())
def test_total_variance_adds_up_the_variances_of_all_counts(
    asked: Request,
) -> None:
    counts, protected, posterior = asked
    union = merge_groups([counts], protected)
    assert compute_total_variance([union], posterior) == pytest.approx(
        float(_exact_variance(union, posterior)), rel=1e-12
    )
    assert compute_total_variance([union, union], posterior) == 2 * compute_total_variance([union], posterior)


@given(_requests())
def test_error_bound_weighs_the_bounds_of_the_cells(asked: Request) -> None:
    counts, protected, posterior = asked
    groups = balance(counts, protected).groups
    parts = merge_by_bound(groups, rearrange_groups(groups), protected, posterior, 0)
    cells = [merge_groups([groups[number] for number in part], protected) for part in parts]
    expected = sum(part.total * _paper_bound(part, posterior) for part in cells) / sum(counts)
    assert compute_error_bound(cells, posterior) == pytest.approx(expected, rel=1e-12)


def test_costs_beyond_floats_are_infinite_and_leave_the_whole_table() -> None:
    """A belief that may rise by next to nothing: no cut is better than another, and none is refused."""
    counts = (6, 3, 3)
    posterior = Fraction(1, 2) + Fraction(1, 10**400)
    assert compute_total_variance([merge_groups([counts], range(3))], posterior) == math.inf
    groups = _fully_balanced(counts).groups
    assert len(groups) == 2
    assert merge_by_variance(groups, range(3), posterior, 0) == ((0, 1),)


# Merging


def _cuts(number: int) -> Iterator[list[range]]:
    """Every way to cut so many groups into runs."""
    for cells in range(number):
        for inner in combinations(range(1, number), cells):
            yield [range(start, end) for start, end in pairwise((0, *inner, number))]


def _is_allowed(cells: Sequence[CountedCell], posterior: Fraction, minimum: int) -> bool:
    is_large = len(cells) == 1 or min(part.total for part in cells) >= minimum
    return is_large and all(part.is_feasible(posterior) for part in cells)


def _cells(loose: Loose, parts: Sequence[Sequence[int]]) -> list[CountedCell]:
    return [merge_groups([loose.groups[number] for number in part], loose.protected) for part in parts]


def _assert_cheapest(loose: Loose, minimum: int, cost: Cost, found: Sequence[Part]) -> None:
    """`found` cuts the groups as they stand, is allowed, and is as cheap as any such cut."""
    assert [number for part in found for number in part] == list(range(len(loose.groups)))
    cells = _cells(loose, found)
    assert _is_allowed(cells, loose.posterior, minimum)
    every = [_cells(loose, cut) for cut in _cuts(len(loose.groups))]
    costs = [cost(cut, loose.posterior) for cut in every if _is_allowed(cut, loose.posterior, minimum)]
    assert cost(cells, loose.posterior) == pytest.approx(min(costs), rel=1e-12)


@given(_mergeable(), st.integers(0, 30))
def test_merged_by_variance_is_the_best_of_all_cuts(loose: Loose, minimum: int) -> None:
    groups, protected, posterior = loose
    found = merge_by_variance(groups, protected, posterior, minimum)
    _assert_cheapest(loose, minimum, compute_total_variance, found)


@given(_mergeable(), st.integers(0, 30), st.randoms(use_true_random=False))
def test_merged_by_bound_is_the_best_of_all_cuts_of_the_order(loose: Loose, minimum: int, random: Random) -> None:
    groups, protected, posterior = loose
    order = random.sample(range(len(groups)), len(groups))
    found = merge_by_bound(groups, order, protected, posterior, minimum)
    moved = Loose([groups[number] for number in order], protected, posterior)
    positions = [tuple(order.index(number) for number in part) for part in found]
    _assert_cheapest(moved, minimum, compute_error_bound, positions)


@given(_requests(), st.integers(0, 100))
def test_a_balanced_table_can_always_be_merged(asked: Request, minimum: int) -> None:
    counts, protected, posterior = asked
    groups = balance(counts, protected).groups
    for found in (
        merge_by_variance(groups, protected, posterior, minimum),
        merge_by_bound(groups, rearrange_groups(groups), protected, posterior, minimum),
    ):
        cells = [merge_groups([groups[number] for number in part], protected) for part in found]
        assert _is_allowed(cells, posterior, minimum)
        assert tuple(map(sum, zip(*(part.counts for part in cells), strict=True))) == counts


@given(_requests())
def test_merged_cells_are_as_balanced_as_their_groups(asked: Request) -> None:
    """Theorems 3 (i) and 5 (i): a share in a union is at most the largest share in its groups."""
    counts, protected, posterior = asked
    groups = balance(counts, protected).groups
    for part in merge_by_bound(groups, rearrange_groups(groups), protected, posterior, 0):
        priors = [merge_groups([groups[number]], protected).prior or Fraction(0) for number in part]
        merged = merge_groups([groups[number] for number in part], protected).prior
        assert merged is not None
        assert merged <= max(priors)


def test_a_small_residual_group_is_merged_away_by_a_minimum() -> None:
    groups = _fully_balanced((50, 40, 39)).groups
    assert [sum(group) for group in groups] == [50, 48, 28, 3]
    posterior = Fraction(9, 10)
    assert merge_by_variance(groups, range(3), posterior, 0) == ((0,), (1,), (2,), (3,))
    assert merge_by_variance(groups, range(3), posterior, 4) == ((0, 1, 2, 3),)


@pytest.mark.parametrize("minimum", [42, 43, 10**9])
def test_the_whole_table_is_allowed_even_below_the_minimum(minimum: int) -> None:
    groups = _fully_balanced(EXAMPLE).groups
    assert merge_by_variance(groups, range(10), Fraction(2, 3), minimum) == ((0, 1, 2, 3, 4),)
    assert merge_by_bound(groups, rearrange_groups(groups), range(10), Fraction(2, 3), minimum) == ((0, 2, 1, 3, 4),)


@pytest.mark.parametrize(("minimum", "sizes"), [(0, [18, 12, 6, 6]), (7, [18, 12, 12]), (13, [18, 24]), (19, [42])])
def test_a_minimum_makes_cells_larger(minimum: int, sizes: list[int]) -> None:
    groups = _fully_balanced(EXAMPLE).groups
    parts = merge_by_variance(groups, range(10), Fraction(2, 3), minimum)
    assert [sum(sum(groups[number]) for number in part) for part in parts] == sizes


def test_groups_that_cost_as_much_together_are_merged() -> None:
    """Two flat groups of the same two values: 12 + 12 apart, 24 together."""
    groups = [(4, 4), (4, 4)]
    apart = [merge_groups([group], (0, 1)) for group in groups]
    posterior = Fraction(3, 4)
    assert (
        compute_total_variance(apart, posterior)
        == compute_total_variance([merge_groups(groups, (0, 1))], posterior)
        == 24
    )
    assert merge_by_variance(groups, (0, 1), posterior, 0) == ((0, 1),)


def test_of_equal_costs_the_longest_last_cell_wins() -> None:
    groups = [(4, 4, 0, 0), (0, 0, 1, 1), (4, 4, 0, 0)]
    assert merge_by_variance(groups, range(4), Fraction(3, 4), 4) == ((0,), (1, 2))


@pytest.mark.parametrize("minimum", [0, 1000])
def test_a_posterior_up_to_one_over_the_balance_leaves_the_whole_table(minimum: int) -> None:
    counts = (30, 20, 18, 17, 15)
    balanced, posterior = _fully_balanced(counts), Fraction(8, 25)
    assert posterior <= Fraction(1, balanced.balance)
    assert not any(merge_groups([group], range(5)).is_feasible(posterior) for group in balanced.groups[:-1])
    assert merge_by_variance(balanced.groups, range(5), posterior, minimum) == ((0, 1, 2, 3, 4),)


def test_groups_of_one_value_are_merged_on() -> None:
    """θ = 1: every group is one value, and certain."""
    groups = _fully_balanced((60, 40)).groups
    assert groups == ((60, 0), (0, 40))
    assert merge_by_variance(groups, (0, 1), Fraction(9, 10), 0) == ((0, 1),)


@pytest.mark.parametrize(
    ("groups", "protected", "posterior", "code", "fields"),
    [
        ([(4, 0), (0, 4)], (), "1/2", "no-value-below-prior", {}),
        ([(4, 0), (3, 0)], (0, 1), "1/2", "one-value-domain", {}),
        ([(4, 2), (2, 4)], (0, 1), "1/2", "posterior-not-above-share", {"share": "1/2", "posterior": "1/2"}),
        ([(1, 3), (1, 5)], (0,), "1/7", "posterior-not-above-share", {"share": "1/5", "posterior": "1/7"}),
    ],
)
def test_merging_refuses_a_table_that_is_infeasible_as_a_whole(
    groups: list[Group], protected: tuple[int, ...], posterior: str, code: str, fields: dict[str, ErrorField]
) -> None:
    with refuses(InfeasibleError, code, **fields):
        merge_by_variance(groups, protected, Fraction(posterior), 0)
    with refuses(InfeasibleError, code, **fields):
        merge_by_bound(groups, (0, 1), protected, Fraction(posterior), 0)
