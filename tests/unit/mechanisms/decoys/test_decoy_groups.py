"""Decoy groups: whatever way they are made, nobody is lost, no group has a value twice, and the law is exact."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import combinations_with_replacement, product

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato._core.random_draws import Stream
from sfumato.mechanisms._decoys import group_creation
from sfumato.mechanisms._decoys.group_creation import (
    Groups,
    compute_transition,
    count_tranches,
    make_fullest_groups,
    make_mixed_groups,
    shuffle_orders,
)
from sfumato.mechanisms._decoys.leak_matrix import (
    EvenDistribution,
    FittedDistribution,
    GroupCreation,
    cap_counts,
    create_groups,
    recompute_distribution,
)
from statistical.support import keyed_draws

Run = tuple[tuple[int, ...], int]
Maker = Callable[[Sequence[int], int, int], Groups]
Law = list[list[Fraction]]


def runs_of(groups: Groups) -> list[Run]:
    rows = zip(groups.members.tolist(), groups.sizes.tolist(), groups.lengths.tolist(), strict=True)
    return [(tuple(members[:size]), length) for members, size, length in rows]


def in_tranches(counts: Sequence[int], group_size: int, seed: int, tranches: int | None = None) -> Groups:
    number = tranches or count_tranches(sum(counts), len(counts), group_size)
    words = keyed_draws(seed).get_stream("orders").draw_bits(0, (number + 1) * len(counts))
    return make_mixed_groups(counts, group_size, shuffle_orders(words, len(counts)))


def in_two_tranches(counts: Sequence[int], group_size: int, seed: int) -> Groups:
    """Even of a table that is too small for several tranches."""
    return in_tranches(counts, group_size, seed, min(2, sum(counts) // group_size))


def ties(seed: int) -> Stream:
    return keyed_draws(seed).get_stream("ties")


MAKERS: Mapping[str, Maker] = {
    "mixed": in_tranches,
    "mixed in two tranches": in_two_tranches,
    "fullest first, random ties": lambda counts, group_size, seed: make_fullest_groups(counts, group_size, ties(seed)),
    "fullest first, ties by place": lambda counts, group_size, seed: make_fullest_groups(counts, group_size, None),
    "fullest first, many at once": lambda counts, group_size, seed: make_fullest_groups(
        counts, group_size, ties(seed), most_runs=3
    ),
}
every_maker = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)


def is_eligible(counts: Sequence[int], group_size: int) -> bool:
    return 0 < group_size * max(counts) <= sum(counts)


@st.composite
def tables(draw: st.DrawFn, largest: int = 60) -> tuple[list[int], int]:
    """Counts that can be grouped, and the group size: too frequent values are cut down to what is allowed."""
    group_size = draw(st.integers(2, 6))
    counts = draw(st.lists(st.integers(0, largest), min_size=group_size, max_size=12).filter(any))
    while not is_eligible(counts, group_size):
        most = max(sum(counts) // group_size, 1)
        counts = [min(max(count, 1), most) for count in counts]
    return counts, group_size


def check_groups(groups: Groups, counts: Sequence[int], group_size: int) -> None:
    """Nobody is lost, no group has a value twice or is too small, and there are as many groups as can be."""
    runs, held = runs_of(groups), Counter[int]()
    for members, length in runs:
        assert length > 0
        assert len(set(members)) == len(members) >= group_size
        held.update(dict.fromkeys(members, length))
    assert [held[place] for place in range(len(counts))] == list(counts)
    assert groups.counts.tolist() == list(counts)
    assert groups.group_count == sum(length for _, length in runs) == sum(counts) // group_size


def exact_law(groups: Groups, counts: Sequence[int]) -> Law:
    """The chance of each value (column) for a record of each value (row): its group, and then a seat of it."""
    found = [[Fraction(0)] * len(counts) for _ in counts]
    for members, length in runs_of(groups):
        for held, shown in product(members, members):
            found[held][shown] += Fraction(length, len(members) * counts[held])
    return found


# --------------------------------------------------------------------------------------------------------- small tables

SMALL = [
    (size, group_size)
    for size in (3, 4, 5)
    for group_size in (2, 3, 4)
    if group_size <= size  # fewer values than a group holds can never be grouped
]


def small_tables(size: int, group_size: int, *, in_order: bool = False) -> Iterator[tuple[int, ...]]:
    """All tables with counts of up to four that can be grouped; or only those whose counts rise."""
    found = combinations_with_replacement(range(5), size) if in_order else product(range(5), repeat=size)
    return (counts for counts in found if is_eligible(counts, group_size))


@every_maker
@pytest.mark.parametrize(("size", "group_size"), SMALL)
def test_records_that_are_left_over_find_a_group_in_every_small_table(make: Maker, size: int, group_size: int) -> None:
    """All tables of up to five values with counts of up to four; also those that are no multiple of the group size.

    Where ties are random the order of the values does not matter, and of the largest tables each is tried once.
    """
    left_over, in_order = 0, size == 5 and make is not MAKERS["fullest first, ties by place"]
    for number, counts in enumerate(small_tables(size, group_size, in_order=in_order)):
        check_groups(make(counts, group_size, number % 7), counts, group_size)
        left_over += sum(counts) % group_size > 0
    assert left_over or size == group_size


@every_maker
@pytest.mark.parametrize(("size", "group_size"), [(3, 2), (4, 2), (4, 3)])
def test_every_value_is_published_as_often_as_it_is_held_on_average_exactly(
    make: Maker, size: int, group_size: int
) -> None:
    """The sum over the groups that hold u and v of one over their size, over all u: the count of v, in fractions."""
    for counts in small_tables(size, group_size):
        law = exact_law(make(counts, group_size, 1), counts)
        shown = [sum(counts[held] * law[held][place] for held in range(size)) for place in range(size)]
        assert shown == list(counts)


# -------------------------------------------------------------------------------------------------------------- the law


@every_maker
@given(table=tables(), seed=st.integers(0, 99))
def test_groups_of_any_table_hold_everybody_once(make: Maker, table: tuple[list[int], int], seed: int) -> None:
    counts, group_size = table
    check_groups(make(counts, group_size, seed), counts, group_size)


@every_maker
@given(table=tables(), seed=st.integers(0, 99))
def test_the_law_of_any_groups_is_stationary_reversible_and_hides_every_record(
    make: Maker, table: tuple[list[int], int], seed: int
) -> None:
    counts, group_size = table
    size = len(counts)
    law = exact_law(make(counts, group_size, seed), counts)
    present = [place for place in range(size) if counts[place]]
    assert all(sum(law[place]) == 1 for place in present)
    assert [sum(counts[held] * law[held][place] for held in range(size)) for place in range(size)] == counts
    assert all(counts[u] * law[u][v] == counts[v] * law[v][u] for u in present for v in present)
    assert all(law[place][place] <= Fraction(1, group_size) for place in present)
    if sum(counts) % group_size == 0:
        assert all(law[place][place] == Fraction(1, group_size) for place in present)


@every_maker
@given(table=tables(), seed=st.integers(0, 99))
def test_the_matrix_in_floats_is_the_exact_one(make: Maker, table: tuple[list[int], int], seed: int) -> None:
    counts, group_size = table
    groups = make(counts, group_size, seed)
    exact = [[float(each) for each in row] for row in exact_law(groups, counts)]
    assert compute_transition(groups) == pytest.approx(np.array(exact))
    assert groups.count_meetings() == pytest.approx(np.array(exact) * np.array(counts)[:, None])


@given(table=tables(), seed=st.integers(0, 99))
def test_the_mean_leak_is_that_of_the_even_law(table: tuple[list[int], int], seed: int) -> None:
    """Exactly, where no group is larger: f (gamma - 1) / (gamma (N - f)), as docs/errata.md says."""
    counts, group_size = table
    total = sum(counts)
    if total % group_size:
        return
    law = exact_law(in_tranches(counts, group_size, seed), counts)
    even = EvenDistribution(np.array(counts) / total, group_size)
    for place, count in enumerate(counts):
        if count < total:
            others = sum(counts[held] * law[held][place] for held in range(len(counts)) if held != place)
            assert others / (total - count) == Fraction(count * (group_size - 1), group_size * (total - count))
            assert float(others / (total - count)) == pytest.approx(even.leaks[place])


# ------------------------------------------------------------------------------------------------------- runs and slots


def slots_of(counts: Sequence[int]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint64]]:
    """Every record, as its value and its slot."""
    values = np.repeat(np.arange(len(counts)), counts)
    return values, np.concatenate([np.arange(count, dtype=np.uint64) for count in counts])


def check_runs(groups: Groups, counts: Sequence[int]) -> None:
    values, slots = slots_of(counts)
    shuffled = np.random.default_rng(0).permutation(len(values))
    found = Counter(zip(groups.find_runs(values[shuffled], slots[shuffled]), values[shuffled].tolist(), strict=True))
    runs = runs_of(groups)
    assert found == Counter({(run, place): length for run, (members, length) in enumerate(runs) for place in members})


@every_maker
@given(table=tables(), seed=st.integers(0, 99))
def test_each_run_gets_its_length_of_records_of_each_of_its_values(
    make: Maker, table: tuple[list[int], int], seed: int
) -> None:
    counts, group_size = table
    check_runs(make(counts, group_size, seed), counts)


def test_runs_of_a_large_table_are_found() -> None:
    counts = [120_000, 90_000, 0, 70_001, 50_000, 9, 1]
    groups = in_tranches(counts, 2, 3)
    assert groups.group_count == sum(counts) // 2
    assert len(groups.lengths) < 512 * len(counts)
    check_runs(groups, counts)


def test_an_empty_batch_has_no_runs() -> None:
    groups = in_tranches([3, 3, 2], 2, 0)
    assert len(groups.find_runs(np.array([], dtype=np.uint8), np.array([], dtype=np.uint64))) == 0


# -------------------------------------------------------------------------------------------------------- fullest first


def one_by_one(counts: Sequence[int], group_size: int, breakers: Iterator[npt.NDArray[np.int64]]) -> list[Run]:
    """The definition: a record of each of the fullest values for every group, the larger breaker first among equals."""
    held, groups = list(counts), list[list[int]]()
    while sum(count > 0 for count in held) >= group_size:
        breaker = next(breakers)
        order = sorted(range(len(held)), key=lambda place: (-held[place], -int(breaker[place])))
        for place in order[:group_size]:
            held[place] -= 1
        groups.append(order[:group_size])
    for place in (place for place, count in enumerate(held) if count):
        assert held[place] == 1
        without = [group for group in groups if place not in group]
        min(without, key=len).append(place)
    return [(tuple(sorted(group)), 1) for group in groups]


@given(table=tables(20), seed=st.none() | st.integers(0, 99))
def test_the_fullest_values_are_taken_one_by_one(table: tuple[list[int], int], seed: int | None) -> None:
    counts, group_size = table
    stream = None if seed is None else ties(seed)
    expected = one_by_one(counts, group_size, group_creation._draw_tie_breakers(stream, len(counts)))
    found = runs_of(make_fullest_groups(counts, group_size, stream))
    assert [(tuple(sorted(members)), 1) for members, length in found for _ in range(length)] == expected


@given(table=tables(500), most_runs=st.integers(1, 20), seed=st.none() | st.integers(0, 99))
def test_groups_that_are_made_at_once_leave_what_can_be_grouped(
    table: tuple[list[int], int], most_runs: int, seed: int | None
) -> None:
    """After each run no value holds more than its part of what is left, so that nobody stays without a group."""
    counts, group_size = table
    stream = None if seed is None else ties(seed)
    held = np.array(counts)
    step = max(1, -(-(sum(counts) // group_size) // most_runs))
    breakers = group_creation._draw_tie_breakers(stream, len(counts))
    while np.count_nonzero(held) >= group_size:
        taken, length = group_creation._select_fullest(held, group_size, step, next(breakers))
        assert len(set(taken.tolist())) == group_size
        assert 1 <= length <= held[taken].min()
        held[taken] -= length
        assert length == 1 or group_size * held.max() <= held.sum()
    assert set(held.tolist()) <= {0, 1}
    check_groups(make_fullest_groups(counts, group_size, stream, most_runs), counts, group_size)


def test_making_groups_at_once_makes_few_runs() -> None:
    counts = [90_000, 80_000, 70_000, 60_000, 50_000, 40_000, 9, 1]
    groups = make_fullest_groups(counts, 3, ties(1), most_runs=500)
    check_groups(groups, counts, 3)
    assert len(groups.lengths) < 1200
    # They still hold the fullest values: every value meets every other that is not rare.
    assert (compute_transition(groups)[:6, :6] > 0).all()


def test_ties_by_place_prefer_the_first_values() -> None:
    assert [set(members) for members, _ in runs_of(make_fullest_groups([1, 1, 1, 1], 2, None))] == [{0, 1}, {2, 3}]


def test_random_ties_bring_other_values_together_under_another_key() -> None:
    found = {
        tuple(map(tuple, compute_transition(make_fullest_groups([4] * 6, 3, ties(seed))).tolist()))
        for seed in range(20)
    }
    assert len(found) > 10


# ---------------------------------------------------------------------------------------------------------------- mixed


@given(table=tables(200), tranches=st.integers(1, 9))
def test_tranches_get_even_shares_that_fill_their_groups(table: tuple[list[int], int], tranches: int) -> None:
    counts, group_size = table
    groups = sum(counts) // group_size
    tranches = min(tranches, groups)
    shares = group_creation._cut_into_tranches(np.array(counts), groups, tranches)
    sizes = [len(range(number, groups, tranches)) for number in range(tranches)]
    assert shares.sum(axis=0).tolist() == counts
    assert (shares >= 0).all()
    assert (shares <= np.array(sizes)[:, None]).all()  # no value more often than there are groups
    assert all(share >= size * group_size for share, size in zip(shares.sum(axis=1), sizes, strict=True))
    for count, mine in zip(counts, shares.T, strict=True):
        exact = [Fraction(count * size, groups) for size in sizes]
        assert all(abs(share - each) < 2 for share, each in zip(mine.tolist(), exact, strict=True))


@pytest.mark.parametrize(
    ("total", "values", "group_size", "expected"),
    [(1, 2, 2, 1), (40, 5, 5, 1), (80, 5, 5, 2), (10**6, 50, 5, 512), (10**6, 1 << 16, 5, 64), (10**9, 1 << 22, 2, 1)],
)
def test_there_are_as_many_tranches_as_rows_and_memory_allow(
    total: int, values: int, group_size: int, expected: int
) -> None:
    assert count_tranches(total, values, group_size) == expected


def test_values_of_mixed_groups_meet_about_as_often_as_their_shares_say() -> None:
    """The leaks into a value differ little from value to value; those of the fullest first by ties of place do."""
    counts = [800, 700, 600, 500, 400, 300, 200, 100, 80, 60, 40, 20] * 3
    spreads = {}
    for name in ("mixed", "fullest first, ties by place"):
        chances = compute_transition(MAKERS[name](counts, 4, 1))
        leaks = [np.delete(chances[:, place], place) for place in range(len(counts))]
        spreads[name] = float(np.median([each.std() / each.mean() for each in leaks]))
    assert spreads["mixed"] < 0.8
    assert spreads["fullest first, ties by place"] > 1.5


def test_the_orders_are_permutations_of_all_values() -> None:
    orders = shuffle_orders(keyed_draws(0).get_stream("orders").draw_bits(0, 70), 7)
    assert orders.shape == (10, 7)
    assert (np.sort(orders, axis=1) == np.arange(7)).all()
    assert len(set(map(tuple, orders.tolist()))) > 1


@pytest.mark.parametrize("kind", GroupCreation)
def test_groups_follow_from_the_key_and_the_purpose(kind: GroupCreation) -> None:
    """Of two columns with the same counts the groups are independent, unless nothing in them is random."""
    counts = [40, 40, 30, 30, 20, 20, 10, 10]

    def made(key: int, purpose: str) -> list[Run]:
        return runs_of(create_groups(counts, 3, kind, keyed_draws(key), purpose))

    assert made(1, "decoys/0") == made(1, "decoys/0")
    assert (made(1, "decoys/0") == made(1, "decoys/1")) == (kind is GroupCreation.ANATOMY)
    assert (made(1, "decoys/0") == made(2, "decoys/0")) == (kind is GroupCreation.ANATOMY)


# ---------------------------------------------------------------------------------------------- laws from what is shown


@given(table=tables(100), noise=st.integers(0, 2**32))
def test_published_counts_that_are_capped_can_be_grouped(table: tuple[list[int], int], noise: int) -> None:
    """Published counts have the total of a table that could be grouped, and may be anything else."""
    counts, group_size = table
    total, chance = sum(counts), np.random.default_rng(noise)
    shown = chance.multinomial(total, chance.dirichlet(np.full(len(counts), 0.3)))
    capped = cap_counts(shown, group_size)
    assert capped.sum() == total
    assert group_size * capped.max() <= total
    assert (capped >= np.minimum(shown, total // group_size)).all()
    assert np.array_equal(capped, shown) == (group_size * shown.max() <= total)


@pytest.mark.parametrize("kind", GroupCreation)
@given(table=tables(100))
def test_the_recomputed_law_is_that_of_groups(kind: GroupCreation, table: tuple[list[int], int]) -> None:
    counts, group_size = table
    law, held = recompute_distribution(np.array(counts), group_size, kind), np.array(counts, dtype=np.float64)
    chances = law.average(np.eye(len(counts))).T
    present = held > 0
    assert chances.sum(axis=1) == pytest.approx(np.ones(len(counts)))
    assert law.expect_published(held) == pytest.approx(held)
    assert chances[present][:, ~present].sum() == 0
    assert (np.diagonal(chances)[present] <= 1 / group_size + 1e-12).all()
    numbers = np.arange(len(counts)) ** 2.0
    if all(law.is_estimable(each) for each in np.eye(len(counts))):
        scale = float(np.abs(law.solve(np.eye(len(counts)))).max())
        assert law.average(law.solve(numbers)) == pytest.approx(numbers, abs=1e-9 * scale * numbers.max())


def test_the_recomputed_law_is_the_same_for_everybody() -> None:
    """What is random in it follows from the published histogram, so two analysts come to the same answer."""
    counts = np.array([40, 40, 30, 30, 20, 20, 10, 10])
    one = recompute_distribution(counts, 3, GroupCreation.ANATOMY_RANDOM).average(np.eye(8))
    recompute_distribution.__globals__["_recompute_distribution"].cache_clear()
    again = recompute_distribution(counts.astype(np.int32), 3, GroupCreation.ANATOMY_RANDOM).average(np.eye(8))
    assert np.array_equal(one, again)


def test_the_even_law_undoes_itself_where_all_shares_are_alike() -> None:
    law = EvenDistribution(np.full(10, 0.1), 4)
    numbers = np.arange(10.0)
    assert law.average(np.ones(10)) == pytest.approx(np.ones(10))
    assert law.average(law.solve(numbers)) == pytest.approx(numbers)
    assert law.expect_published(np.full(10, 7.0)) == pytest.approx(np.full(10, 7.0))
    assert law.is_countable.all()


@given(table=tables(300))
def test_the_fitted_law_is_one_of_groups_in_which_values_meet_by_their_frequencies(
    table: tuple[list[int], int],
) -> None:
    counts, group_size = table
    held = np.array(counts, dtype=np.float64)
    law, every = FittedDistribution(held / held.sum(), group_size), np.eye(len(counts))
    assert law.is_estimable(every) == (group_size * max(counts) < sum(counts))
    if not law.is_estimable(every):
        return
    chances = law.average(every).T
    assert chances.sum(axis=1) == pytest.approx(np.ones(len(counts)))
    assert np.diagonal(chances) == pytest.approx(np.full(len(counts), 1 / group_size))
    assert law.expect_published(held) == pytest.approx(held, abs=1e-6)
    meeting = held[:, None] * chances
    assert meeting == pytest.approx(meeting.T, abs=1e-6)  # reversible
    numbers = np.arange(len(counts)) ** 2.0
    scale = float(np.abs(law.solve(every)).max())
    assert law.average(law.solve(numbers)) == pytest.approx(numbers, abs=1e-9 * scale * numbers.max())
    assert law.solve(np.ones(len(counts))) == pytest.approx(np.ones(len(counts)), abs=1e-9 * scale)


def test_the_fitted_law_is_the_even_one_where_all_others_are_alike() -> None:
    shares = np.array([0.2, *[0.8 / 16] * 16])
    fitted, even = FittedDistribution(shares, 3), EvenDistribution(shares, 3)
    wanted = np.eye(17)[0]
    assert fitted.solve(wanted) == pytest.approx(even.solve(wanted))


@given(table=tables(300))
def test_the_even_law_is_stationary_and_says_nothing_of_a_value_in_every_group(table: tuple[list[int], int]) -> None:
    counts, group_size = table
    held = np.array(counts, dtype=np.float64)
    law = EvenDistribution(held / held.sum(), group_size)
    in_all = held * group_size == held.sum()
    assert law.is_countable.tolist() == (~in_all).tolist()
    assert law.average(np.ones(len(counts))) == pytest.approx(np.ones(len(counts)))
    # A single value's number is what the closed form says: phi R + (y - phi R) / d.
    for place in np.flatnonzero(~in_all):
        weights = law.solve(np.eye(len(counts))[place])
        gain = 1 / group_size - law.leaks[place]
        share = law.shares[place]
        expected = np.full(len(counts), share - share / gain) + np.eye(len(counts))[place] / gain
        assert weights == pytest.approx(expected)
        assert held @ weights == pytest.approx(held[place])
