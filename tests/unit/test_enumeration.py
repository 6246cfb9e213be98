"""The brute force that other tests lean on must itself be right."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from enumeration import Shown, every_outcome, replaced_by, shown_by
from sfumato._core.random_draws import Draws
from sfumato._records import PerturbedRecords


def _two_dice(draws: Draws) -> int:
    first = draws.get_stream("first").draw_integers(0, 1, 3)
    second = draws.get_stream("second").draw_integers(0, 1, 2)
    return int(first[0] + second[0])


def _a_coin_and_perhaps_a_die(draws: Draws) -> str:
    if draws.get_stream("coin").draw_integers(0, 1, 2)[0] == 0:
        return "kept"
    return str(draws.get_stream("die").draw_integers(0, 1, 3)[0])


def test_every_outcome_gives_the_law_of_two_draws() -> None:
    law = dict.fromkeys(range(4), Fraction(0))
    for probability, total in every_outcome(_two_dice):
        law[total] += probability
    assert law == {0: Fraction(1, 6), 1: Fraction(1, 3), 2: Fraction(1, 3), 3: Fraction(1, 6)}


def test_every_outcome_follows_draws_that_depend_on_draws() -> None:
    outcomes = [(outcome, probability) for probability, outcome in every_outcome(_a_coin_and_perhaps_a_die)]
    sixth = Fraction(1, 6)
    assert outcomes == [("kept", Fraction(1, 2)), ("0", sixth), ("1", sixth), ("2", sixth)]


def test_every_outcome_of_no_draw_is_certain() -> None:
    assert list(every_outcome(lambda draws: "unchanged")) == [(Fraction(1), "unchanged")]


def test_every_outcome_refuses_two_streams_of_one_purpose() -> None:
    with pytest.raises(AssertionError, match="drawn from twice"):
        list(every_outcome(lambda draws: [draws.get_stream("coins"), draws.get_stream("coins")]))


def test_every_outcome_follows_bounds_that_come_in_an_array() -> None:
    bounds = np.array([3], dtype=np.uint64)
    outcomes = list(every_outcome(lambda draws: int(draws.get_stream("die").draw_integers(0, 1, bounds)[0])))
    assert outcomes == [(Fraction(1, 3), 0), (Fraction(1, 3), 1), (Fraction(1, 3), 2)]


def test_what_is_shown_is_a_value_a_cell_with_a_value_or_a_set() -> None:
    codes, cells = np.array([4, 0]), np.array([1, 0])
    assert shown_by(PerturbedRecords(codes), 5) == [4, 0]
    assert shown_by(PerturbedRecords(codes, cells), 5) == [(1, 4), (0, 0)]
    bits = np.array([[0b10000001, 0b01000000]], dtype=np.uint8)
    assert shown_by(PerturbedRecords(bits), 10) == [frozenset({0, 7, 9})]


def test_a_set_with_a_bit_beyond_the_domain_is_noticed() -> None:
    with pytest.raises(AssertionError, match="a bit is set that stands for no value"):
        shown_by(PerturbedRecords(np.array([[0b00000001]], dtype=np.uint8)), 7)


@pytest.mark.parametrize("shown", [[3, 0], [(1, 4), (0, 0)], [frozenset({0, 7, 9}), frozenset({8})]], ids=str)
def test_batch_that_shows_some_things_is_read_again(shown: list[Shown]) -> None:
    assert shown_by(replaced_by(shown, 10), 10) == shown


def test_batch_that_shows_buckets_is_read_again() -> None:
    assert shown_by(replaced_by([2, 5], 10, is_dealt=True), 10) == [2, 5]
