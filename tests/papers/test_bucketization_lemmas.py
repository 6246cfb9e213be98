"""The lemmas and theorems of P. Wang, "Multiple-sized Bucketization For Privacy Protection", on tables of any kind.

Each test holds a lemma, as corrected in its docstring, against the code that rests on it and against brute force. Where
the printed form, or a sentence that leans on it, is not true, a test has a counterexample.
Notation: |T| = records; o_i = count, f'_i = cap of value i; c_i(S) = floor(f'_i S); S1 < S2 = sizes of b1 and b2
buckets; Γ = the pairs (b1, b2) that hold exactly |T| records, by descending b1; Δ1, Δ2 = what one step of Γ gives and
takes. PC, eq. (5.10): min(c_i(S1) b1, o_i) + min(c_i(S2) b2, o_i) >= o_i. FC, eq. (5.8) and (5.9): the sum over the
values of min(c_i(S) b, o_i) is at least S b.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import settings as profile
from hypothesis import strategies as st

from bucket_oracles import Request, can_be_filled, requests, settings
from bucket_tables import Table, one_cap, tables
from papers.baselines.two_size_programs import search_fully_pruned, search_loss_pruned
from selection import examples
from sfumato.mechanisms._bucketization.buckets.bucket_problem import CapBelowShare, NoBucketingError, Problem, pose
from sfumato.mechanisms._bucketization.buckets.bucket_setting import Assignment, Setting, is_valid
from sfumato.mechanisms._bucketization.buckets.cap_rounding import compute_floors
from sfumato.mechanisms._bucketization.buckets.least_loss import find_optimal_setting
from sfumato.mechanisms._bucketization.buckets.record_assignment import deal_round_robin
from sfumato.mechanisms._bucketization.buckets.two_size_splitting import split_top_down
from sfumato.mechanisms._bucketization.buckets.two_sizes import count_fillable_buckets, find_best_two_sizes, list_pairs

Pair = tuple[int, int]
METHODS = [find_best_two_sizes, search_loss_pruned, search_fully_pruned]


def posed(counts: Sequence[int], caps: Sequence[Fraction], sizes: Sequence[int]) -> Problem:
    """A problem of exactly these sizes, whether or not buckets of them can be filled."""
    return Problem(np.array(counts, dtype=np.int64), np.array(sizes, dtype=np.int64), compute_floors(caps, sizes))


def gamma(total: int, small: int, large: int) -> list[Pair]:
    """Γ, as the code steps through it."""
    row = list_pairs(total, small, large)
    if row is None:
        return []
    return [(row.first - step * row.small_step, row.second + step * row.large_step) for step in range(row.steps + 1)]


def setting_of(sizes: Pair, buckets: Pair) -> Setting:
    return Setting.of(zip(sizes, buckets, strict=True))


def pairs_or_none(method: Callable[[Problem], Setting], problem: Problem) -> tuple[Pair, ...] | None:
    try:
        return method(problem).pairs
    except NoBucketingError:
        return None


two_different_sizes = st.lists(st.integers(1, 9), min_size=2, max_size=2, unique=True).map(sorted).map(tuple)


# -------------------------------------------------------------------------------------------------------------- Lemma 1


@st.composite
def small_tables(draw: st.DrawFn) -> Request:
    """At most nine records, with caps on both sides of their shares."""
    counts = tuple(draw(st.lists(st.integers(0, 3), min_size=1, max_size=3).filter(any)))
    near = [
        st.sampled_from([Fraction(max(count, 1), sum(counts)), Fraction(max(count, 1), sum(counts) + 1), Fraction(1)])
        for count in counts
    ]
    return Request(counts, tuple(draw(each | one_cap) for each in near), 1, sum(counts))


@profile(max_examples=examples(150))
@given(request=small_tables())
def test_lemma_1_some_bucketization_exists_exactly_where_caps_are_at_least_the_shares(request: Request) -> None:
    """Lemma 1, and its converse, which holds as long as nothing limits the size: one bucket of all records will do.

    The proof needs no bucket to be smaller than the table, and its last sign is "at most".
    """
    total = sum(request.counts)
    exists = any(can_be_filled(request, setting) for setting in settings(total, 1, total))
    within = [cap >= Fraction(count, total) for count, cap in zip(request.counts, request.caps, strict=True) if count]
    assert exists == all(within)
    if exists:
        problem = pose(request.counts, request.caps, 1, total)
        assert is_valid(problem, Setting.of([(total, 1)]))
        assert is_valid(problem, find_optimal_setting(problem).setting)
    else:
        with pytest.raises(NoBucketingError) as caught:
            pose(request.counts, request.caps, 1, total)
        assert isinstance(caught.value.reason, CapBelowShare)
        (place,) = caught.value.places
        assert request.caps[place] < Fraction(request.counts[place], total)


@pytest.mark.parametrize(
    ("counts", "caps", "sizes"),
    [
        ((1, 1, 1), ("1/2", "1/2", "1/2"), (2, 2)),
        ((16, 9, 5, 18, 27, 42), ("13/30", "1", "3/10", "1/5", "21/65", "23/30"), (1, 5)),
    ],
    ids=["three records in pairs", "no room"],
)
def test_lemma_1_has_no_converse_where_the_size_is_limited(
    counts: tuple[int, ...], caps: tuple[str, ...], sizes: Pair
) -> None:
    """Section 7.1 concludes from Lemma 1 that a solution always exists; a largest size can rule it out."""
    exact = [Fraction(cap) for cap in caps]
    assert all(cap >= Fraction(count, sum(counts)) for count, cap in zip(counts, exact, strict=True))
    with pytest.raises(NoBucketingError):
        find_optimal_setting(pose(counts, exact, *sizes))
    find_optimal_setting(pose(counts, exact, sizes[0], sum(counts)))


# -------------------------------------------------------------------------------------------------------------- Lemma 2


@given(sizes=st.lists(st.integers(1, 10**6), min_size=1, max_size=30))
@example(sizes=[1])
@example(sizes=[1, 1])
@example(sizes=[2])
def test_lemma_2_information_loss_is_0_in_the_clear_and_1_in_one_bucket_and_between_elsewhere(sizes: list[int]) -> None:
    """Lemma 2; for a table of one record eq. (3.1) divides by zero, and the loss is 0 by definition."""
    setting = Setting.of((size, 1) for size in sizes)
    loss = setting.information_loss
    if set(sizes) == {1}:
        assert loss == 0
    elif len(sizes) == 1:
        assert loss == 1
    else:
        assert 0 < loss < 1
        assert setting.loss < (sum(sizes) - 1) ** 2


# -------------------------------------------------------------------------------------------------------------- Lemma 3


@profile(max_examples=examples(60))
@given(request=requests())
def test_lemma_3_one_size_is_valid_if_dealing_in_turn_is_and_if_counts_are_within_the_floors(request: Request) -> None:
    """Lemma 3: (1) some filling exists, (2) dealing in turn is one, (3) eq. (4.1), (4) eq. (4.2)."""
    counts, caps, total = request.counts, request.caps, sum(request.counts)
    for size in (size for size in range(1, total + 1) if total % size == 0):
        buckets, setting = total // size, Setting.of([(size, total // size)])
        problem = posed(counts, caps, [size])
        dealt = next(deal_round_robin(Assignment(setting, problem.counts[:, None])).generate_holdings())
        statements = {
            can_be_filled(request, setting),
            all(int(held) <= cap * size for row in dealt for held, cap in zip(row, caps, strict=True)),
            all(-(-count // buckets) <= cap * size for count, cap in zip(counts, caps, strict=True)),
            bool((problem.counts <= problem.floors[:, 0] * buckets).all()),
            is_valid(problem, setting),
        }
        assert len(statements) == 1
        assert (dealt.sum(axis=1) == size).all()


# -------------------------------------------------------------------------------------------------------------- Lemma 4


@pytest.mark.slow
@given(total=st.integers(1, 10**6), sizes=two_different_sizes)
def test_lemma_4_loss_grows_along_the_row_by_the_same_amount_with_every_step(total: int, sizes: Pair) -> None:
    """Lemma 4. The growth is Δ2 (S2-1)² - Δ1 (S1-1)², the divisor of eq. (5.7), and is above 0."""
    losses = [setting_of(sizes, pair).loss for pair in gamma(total, *sizes)[:200]]
    divisor = np.gcd(*sizes)
    growth = (sizes[0] * (sizes[1] - 1) ** 2 - sizes[1] * (sizes[0] - 1) ** 2) // divisor
    assert growth > 0
    assert all(after - before == growth for before, after in itertools.pairwise(losses))


@profile(max_examples=examples(200))
@given(table=tables(6), smallest=st.integers(1, 3), span=st.integers(1, 6))
def test_lemma_4_pairs_of_sizes_that_cannot_win_are_all_that_is_left_out(
    table: Table, smallest: int, span: int
) -> None:
    """What the best loss so far cuts off, eq. (5.7) as corrected, never holds a better setting, nor an equal one first.

    The cutoff is min(k, ceil((Best - lead) / growth) - 1); as printed it can lie beyond the row.
    """
    counts, caps = table
    sizes = range(smallest, smallest + span + 1)
    alone = [pairs_or_none(find_best_two_sizes, posed(counts, caps, pair)) for pair in itertools.combinations(sizes, 2)]
    found = [Setting(pairs) for pairs in alone if pairs is not None]
    best = min(found, key=lambda setting: setting.loss, default=None)  # the first of equals
    for method in METHODS:
        assert pairs_or_none(method, posed(counts, caps, sizes)) == (None if best is None else best.pairs)


def test_lemma_4_the_first_feasible_pair_is_cheapest_and_need_not_be_valid() -> None:
    """Section 5.3.1 calls the first feasible pair optimal; Example 10 has its first valid one at step four."""
    problem = posed((4, 4, 4, 8, 8), [Fraction(2, 7)] * 3 + [Fraction(4, 7)] * 2, (2, 4))
    row = gamma(28, 2, 4)
    assert [is_valid(problem, setting_of((2, 4), pair)) for pair in row] == [False] * 4 + [True] * 4
    assert find_best_two_sizes(problem) == setting_of((2, 4), row[4])


def test_lemma_4_the_printed_cutoff_reaches_beyond_the_row_and_keeps_equals() -> None:
    """Eq. (5.7) for 4 records in sizes 1 and 2: the row has three pairs, with losses 0, 1 and 2.

    They start at 0 and grow by 1, so as printed the last step to look at is the best loss itself.
    """
    losses = [setting_of((1, 2), pair).loss for pair in gamma(4, 1, 2)]
    assert losses == [0, 1, 2]
    for best, printed, corrected in ((0, 0, -1), (1, 1, 0), (9, 9, 2)):
        assert max(0, (best - 0) // 1) == printed
        assert min(len(losses), -(-(best - 0) // 1)) - 1 == corrected
        assert sum(loss < best for loss in losses) == corrected + 1 < printed + 1


# -------------------------------------------------------------------------------------------------------------- Lemma 5


@given(table=tables(), sizes=two_different_sizes)
def test_lemma_5_the_small_size_can_be_filled_on_a_suffix_and_the_large_size_on_a_prefix(
    table: Table, sizes: Pair
) -> None:
    """Lemma 5, for the reason that min(c_i, o_i / b) does not grow with b; and FC is b <= lim(S)."""
    problem = posed(*table, sizes)
    row = gamma(problem.total, *sizes)

    def can_fill(column: int, pair: Pair) -> bool:
        room = np.minimum(problem.floors[:, column] * pair[column], problem.counts)
        return int(room.sum()) >= sizes[column] * pair[column]

    small, large = ([can_fill(column, pair) for pair in row] for column in (0, 1))
    assert small == sorted(small)
    assert large == sorted(large, reverse=True)
    for column, found in enumerate((small, large)):
        assert found == [pair[column] <= count_fillable_buckets(problem)[column] for pair in row]


# ------------------------------------------------------------------------------------------------------- Lemmas 6 and 7


@dataclass(frozen=True)
class Room:
    """Where in Γ one value has room: sets of steps. Any other record may be anywhere."""

    total: int
    sizes: Pair
    count: int
    cap: Fraction

    @cached_property
    def row(self) -> list[Pair]:
        return gamma(self.total, *self.sizes)

    @cached_property
    def floors(self) -> Pair:
        small, large = compute_floors([self.cap], self.sizes)[0].tolist()
        return small, large

    @property
    def slope(self) -> int:
        """The sign of c(S2) Δ2 - c(S1) Δ1; eq. (5.12) is that it is not negative."""
        small, large = self.floors
        return int(np.sign(large * self.sizes[0] - small * self.sizes[1]))

    def alone(self, column: int) -> set[int]:
        """Ω+ of one size: the steps at which it has room for all records of the value."""
        return {step for step, pair in enumerate(self.row) if self.floors[column] * pair[column] >= self.count}

    @property
    def between(self) -> list[int]:
        """The steps at which neither size has room alone."""
        return sorted(set(range(len(self.row))) - self.alone(0) - self.alone(1))

    @cached_property
    def together(self) -> set[int]:
        """Ω: the steps at which eq. (5.10) holds."""
        rooms = [[floor * buckets for floor, buckets in zip(self.floors, pair, strict=True)] for pair in self.row]
        return {step for step, room in enumerate(rooms) if sum(min(each, self.count) for each in room) >= self.count}

    @property
    def problem(self) -> Problem:
        """The value beside another that may be anywhere: valid is what leaves the value room."""
        return posed((self.count, self.total - self.count), (self.cap, Fraction(1)), self.sizes)

    @property
    def valid(self) -> set[int]:
        return {step for step, pair in enumerate(self.row) if is_valid(self.problem, setting_of(self.sizes, pair))}


def is_prefix(steps: set[int]) -> bool:
    return steps == set(range(len(steps)))


def is_suffix(steps: set[int], row: Sequence[Pair]) -> bool:
    return steps == set(range(len(row) - len(steps), len(row)))


@st.composite
def rooms(draw: st.DrawFn) -> Room:
    """Two sizes, records that they can hold exactly, and a value that is not above its cap in the table."""
    sizes, cap = draw(two_different_sizes), draw(one_cap)
    total = sum(size * draw(st.integers(0, 25)) for size in sizes) or sizes[0]
    most = int(cap * total)
    return Room(total, sizes, draw(st.integers(most // 2, most)), cap)


def every_small_room() -> Iterable[Room]:
    caps = sorted({Fraction(a, b) for b in range(1, 6) for a in range(1, b + 1)})
    for sizes in itertools.combinations(range(1, 6), 2):
        for total, cap in itertools.product(range(1, 17), caps):
            yield from (Room(total, sizes, count, cap) for count in range(int(cap * total) + 1))


def check_lemma_6(room: Room) -> None:
    holds = [step in room.together for step in room.between]
    assert holds == sorted(holds, reverse=room.slope < 0)


def check_lemma_7(room: Room) -> None:
    row, small, large = room.row, room.alone(0), room.alone(1)
    both = room.together & set(room.between)
    prefix, suffix = (small, both | large) if room.slope >= 0 else (small | both, large)
    assert is_prefix(prefix)
    assert is_suffix(suffix, row)
    assert room.together == prefix | suffix


def check_half_line(room: Room) -> None:
    row, found = room.row, room.together
    plain = [sum(floor * each for floor, each in zip(room.floors, pair, strict=True)) for pair in row]
    assert found == {step for step, held in enumerate(plain) if held >= room.count} == room.valid
    assert room.slope > 0 or is_prefix(found)
    assert room.slope < 0 or is_suffix(found, row)


@given(room=rooms())
def test_lemma_6_between_the_sizes_room_only_comes_or_only_goes(room: Room) -> None:
    """Lemma 6: with eq. (5.12) it comes, else it goes."""
    check_lemma_6(room)


@given(room=rooms())
def test_lemma_7_room_is_a_prefix_and_a_suffix(room: Room) -> None:
    """Lemma 7, whose first half is meant under eq. (5.12)."""
    check_lemma_7(room)


@given(room=rooms())
def test_lemmas_6_and_7_are_one_half_line(room: Room) -> None:
    """The minima of eq. (5.10) are redundant, so Ω is one prefix or one suffix, never two separate pieces.

    It is what the flow calls valid, and its first step is what every search for two sizes returns.
    """
    check_half_line(room)
    first = min(room.together, default=None)
    expected = None if first is None else setting_of(room.sizes, room.row[first]).pairs
    assert {pairs_or_none(method, room.problem) for method in METHODS} == {expected}


def test_lemmas_6_and_7_hold_on_all_small_rows() -> None:
    """All tables of up to 16 records; rows on which room comes and goes in between are among them."""
    kinds: Counter[tuple[int, bool]] = Counter()
    for room in every_small_room():
        if len(room.row) > 1:
            check_lemma_6(room)
            check_lemma_7(room)
            inside = room.together & set(room.between)
            kinds[room.slope, 0 < len(inside) < len(room.between)] += 1
    assert all(kinds[sign, turns] > 20 for sign, turns in [(1, True), (1, False), (-1, True), (-1, False), (0, False)])


def test_lemma_7_as_printed_fails_where_room_goes() -> None:
    """Without its condition: 12 records in sizes 2 and 3, five of them of a value with the cap 1/2.

    The value has room at (6, 0) and (3, 2), but not at (0, 4); the second of these is no suffix.
    """
    room = Room(12, (2, 3), 5, Fraction(1, 2))
    assert room.row == [(6, 0), (3, 2), (0, 4)]
    assert (room.slope, room.alone(0), room.alone(1), room.together) == (-1, {0}, set(), {0, 1})
    assert not is_suffix(room.together & set(room.between) | room.alone(1), room.row)
    assert room.valid == {0, 1}


# -------------------------------------------------------------------------------------------------------- Theorems 1, 2


def meets_theorem_1(problem: Problem, pair: Pair) -> bool:
    """PC for every value, and FC for both sizes, from their definitions."""
    room = np.minimum(problem.floors * np.array(pair), problem.counts[:, None])
    return bool((room.sum(axis=1) >= problem.counts).all() and (room.sum(axis=0) >= problem.sizes * pair).all())


@profile(max_examples=examples(60))
@given(request=requests(), sizes=st.sampled_from(list(itertools.combinations(range(1, 7), 2))))
def test_theorem_1_two_sizes_are_valid_exactly_where_its_conditions_hold(request: Request, sizes: Pair) -> None:
    """Theorem 1, against filling buckets in every possible way; numbers of buckets may be 0."""
    problem = posed(request.counts, request.caps, sizes)
    for pair in gamma(problem.total, *sizes):
        setting = setting_of(sizes, pair)
        assert can_be_filled(request, setting) == meets_theorem_1(problem, pair) == is_valid(problem, setting)


@profile(max_examples=examples(300))
@given(table=tables(6) | tables(), sizes=two_different_sizes)
def test_theorem_2_the_best_of_two_sizes_is_the_first_valid_pair(table: Table, sizes: Pair) -> None:
    """Theorem 2: of Γ, the first pair at which all conditions hold; and that loses least."""
    problem = posed(*table, sizes)
    valid = [pair for pair in gamma(problem.total, *sizes) if meets_theorem_1(problem, pair)]
    expected = setting_of(sizes, valid[0]) if valid else None
    for method in METHODS:
        assert pairs_or_none(method, problem) == (None if expected is None else expected.pairs)
    if expected is not None:
        assert expected.loss == min(setting_of(sizes, pair).loss for pair in valid)
        assert find_optimal_setting(problem).setting == expected
        assert split_top_down(problem) == expected
