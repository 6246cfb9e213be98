"""The brute force that other tests lean on must itself be right."""

from __future__ import annotations

from fractions import Fraction

import pytest

from enumeration import every_outcome
from sfumato.draws import Draws


def _two_dice(draws: Draws) -> int:
    first = draws.stream("first").integers(0, 1, 3)
    second = draws.stream("second").integers(0, 1, 2)
    return int(first[0] + second[0])


def _a_coin_and_perhaps_a_die(draws: Draws) -> str:
    if draws.stream("coin").integers(0, 1, 2)[0] == 0:
        return "kept"
    return str(draws.stream("die").integers(0, 1, 3)[0])


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
        list(every_outcome(lambda draws: [draws.stream("coins"), draws.stream("coins")]))
