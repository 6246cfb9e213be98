from __future__ import annotations

import pickle
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

from bucket_cases import CASES, EDU_LIKE_300000, Case, linear_caps
from bucket_oracles import seeded_requests
from refusals import refuses
from sfumato.mechanisms._bucketization.anatomy_mechanism import build_anatomy_buckets
from sfumato.mechanisms._bucketization.buckets import record_assignment as module
from sfumato.mechanisms._bucketization.buckets.bucket_problem import NoBucketingError
from sfumato.mechanisms._bucketization.buckets.bucket_setting import Assignment, Setting
from sfumato.mechanisms._bucketization.buckets.cap_rounding import Integers
from sfumato.mechanisms._bucketization.buckets.record_assignment import (
    Dealing,
    deal_round_robin,
    deal_tranches,
    divide_into_tranches,
)
from sfumato.mechanisms._bucketization.buckets.size_methods import Choice, choose

CHOSEN = [case for case in CASES if case.optimum is not None and sum(case.counts) < 10**5]
Dealer = Callable[[Assignment, Integers], Dealing]


def _round_robin(assignment: Assignment, floors: Integers) -> Dealing:
    return deal_round_robin(assignment)


def _mixed(assignment: Assignment, floors: Integers) -> Dealing:
    source = np.random.default_rng(17)
    tranches = divide_into_tranches(assignment.setting, len(floors))
    return deal_tranches(assignment, floors, tranches, np.array([source.permutation(len(floors)) for _ in tranches]))


DEALERS = [pytest.param(_round_robin, id="round robin"), pytest.param(_mixed, id="mixed")]


def _dealt(counts: list[int], dealing: Dealing) -> Integers:
    """What each bucket holds, record by record."""
    values = np.repeat(np.arange(len(counts)), counts)
    slots = np.concatenate([np.arange(count) for count in counts])
    held = np.zeros((int(dealing.buckets.sum()), len(counts)), dtype=np.int64)
    np.add.at(held, (dealing.find_buckets(values, slots), values), 1)
    return held


def _check(choice: Choice, counts: list[int], dealing: Dealing) -> None:
    held = _dealt(counts, dealing)
    floors = dict(zip([size for size, _ in choice.assignment.setting], choice.floors.T, strict=True))
    assert (held.sum(axis=1) == dealing.bucket_sizes).all()
    assert (held == np.concatenate(list(dealing.generate_holdings()))).all()
    _check_contents(dealing, held, np.random.default_rng(3).permutation(len(held)))
    assert all((row <= floors[size]).all() for row, size in zip(held, dealing.bucket_sizes.tolist(), strict=True))
    sizes, buckets = np.unique(dealing.bucket_sizes, return_counts=True)
    assert Setting.of(zip(sizes, buckets, strict=True)) == choice.assignment.setting


def _check_contents(dealing: Dealing, held: Integers, numbers: Integers) -> None:
    lines, values, counts = dealing.list_contents(numbers)
    found, places = np.nonzero(held[numbers])
    assert np.array_equal(np.repeat(np.arange(len(numbers)), lines), found)
    assert np.array_equal(values, places)
    assert np.array_equal(counts, held[numbers][found, places])


@pytest.mark.parametrize("largest", [0, module.LARGEST_TABLE], ids=["found", "from a table"])
@pytest.mark.parametrize("dealer", DEALERS)
def test_some_buckets_are_listed_as_they_are_among_all(
    dealer: Dealer, largest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Any of them in any order, also none, or those of one size of several."""
    monkeypatch.setattr(module, "LARGEST_TABLE", largest)
    counts = [900, 700, 300, 200, 90, 50, 20, 7]
    choice = choose(counts, linear_caps(counts, Fraction(2), Fraction(1, 20)), "optimal")
    assert len(choice.assignment.setting.pairs) > 1
    dealt = dealer(choice.assignment, choice.floors)
    held = _dealt(counts, dealt)
    chance = np.random.default_rng(4)
    for size in (0, 1, 5, len(held)):
        _check_contents(dealt, held, chance.choice(len(held), size, replace=False))
    _check_contents(dealt, held, np.flatnonzero(dealt.bucket_sizes == dealt.bucket_sizes.max()))


@pytest.mark.parametrize("dealer", DEALERS)
@pytest.mark.parametrize("case", CHOSEN, ids=lambda case: case.name)
def test_every_bucket_of_a_case_has_its_size_and_keeps_the_caps(case: Case, dealer: Dealer) -> None:
    smallest, largest = case.sizes
    choice = choose(case.counts, case.share_caps, "optimal", smallest=smallest, largest=largest)
    _check(choice, list(case.counts), dealer(choice.assignment, choice.floors))


@pytest.mark.slow
@pytest.mark.parametrize("dealer", DEALERS)
def test_every_bucket_of_a_random_table_has_its_size_and_keeps_the_caps(dealer: Dealer) -> None:
    for request, _ in seeded_requests(seed=18, number=120):
        try:
            choice = choose(request.counts, request.caps, "two", smallest=request.smallest, largest=request.largest)
        except NoBucketingError:
            continue
        _check(choice, list(request.counts), dealer(choice.assignment, choice.floors))


def test_batches_are_dealt_alike() -> None:
    choice = choose([29, 27, 40, 33, 101], [Fraction(1, 2)] * 5, "optimal")
    dealing = _mixed(choice.assignment, choice.floors)
    values = np.repeat(np.arange(5), [29, 27, 40, 33, 101])
    slots = np.concatenate([np.arange(count) for count in (29, 27, 40, 33, 101)])
    order = np.random.default_rng(19).permutation(len(values))
    apart = np.array([dealing.find_buckets(values[[row]], slots[[row]])[0] for row in order])
    assert (apart == dealing.find_buckets(values, slots)[order]).all()


def test_tables_do_not_travel() -> None:
    """A plan is sent to every worker of a cluster, perhaps after somebody looked at its buckets here."""
    counts = [900, 700, 300, 200, 90, 50, 20, 7]
    choice = choose(counts, linear_caps(counts, Fraction(2), Fraction(1, 20)), "optimal")
    dealing = _mixed(choice.assignment, choice.floors)
    before, numbers = len(pickle.dumps(dealing)), np.arange(9)
    listed = dealing.list_contents(numbers)
    sent = pickle.dumps(dealing)
    assert len(sent) == before
    for here, there in zip(listed, pickle.loads(sent).list_contents(numbers), strict=True):
        assert np.array_equal(here, there)


@pytest.mark.slow
def test_mixed_buckets_differ_and_round_robin_buckets_look_alike() -> None:
    caps = linear_caps(EDU_LIKE_300000, Fraction(2), Fraction(1, 50))
    choice = choose(EDU_LIKE_300000, caps, "two")
    kinds = [
        len(np.unique(np.concatenate(list(deal(choice.assignment, choice.floors).generate_holdings())), axis=0))
        for deal in (_round_robin, _mixed)
    ]
    assert kinds[1] > 10 * kinds[0]


def test_other_orders_deal_other_buckets() -> None:
    choice = choose([30, 30, 30, 30, 30], [Fraction(2, 5)] * 5, "one", smallest=5, largest=5)
    tranches = divide_into_tranches(choice.assignment.setting, 5)
    source = np.random.default_rng(20)
    dealings = [
        deal_tranches(choice.assignment, choice.floors, tranches, np.array([source.permutation(5) for _ in tranches]))
        for _ in range(2)
    ]
    first, second = (np.concatenate(list(dealing.generate_holdings())) for dealing in dealings)
    assert (first != second).any()


def test_tranches_keep_the_buckets_and_fit_into_memory() -> None:
    setting = Setting.of([(size, 1000 * size + 3) for size in range(2, 50)])
    tranches = divide_into_tranches(setting, 3200)
    assert Setting.of((tranche.size, tranche.buckets) for tranche in tranches) == setting
    assert len(tranches) * 3200 <= 2**22


@pytest.mark.parametrize(("counts", "diversity"), [([3, 3, 3, 1], 3), ([5, 5, 5, 5, 3], 4), ([1] * 7, 5), ([2] * 5, 4)])
@pytest.mark.parametrize("dealer", DEALERS)
def test_anatomy_gives_every_bucket_enough_different_values(counts: list[int], diversity: int, dealer: Dealer) -> None:
    problem, assignment = build_anatomy_buckets(counts, diversity)
    held = _dealt(counts, dealer(assignment, problem.floors))
    assert held.max() == 1
    assert held.sum(axis=1).min() >= diversity
    assert len(held) == sum(counts) // diversity


def test_anatomy_of_random_tables() -> None:
    source = np.random.default_rng(21)
    for _ in range(200):
        counts = source.integers(0, 12, source.integers(2, 9)).tolist()
        if not sum(counts):
            continue
        diversity = sum(counts) // max(counts)
        problem, assignment = build_anatomy_buckets(counts, diversity)
        held = _dealt(counts, _mixed(assignment, problem.floors))
        assert held.max() == 1
        assert held.sum(axis=1).min() >= diversity


def test_anatomy_refuses_a_value_that_is_too_frequent() -> None:
    with refuses(NoBucketingError, "cap-below-share", share="4/7", cap="1/2"):
        build_anatomy_buckets([3, 4], 2)
