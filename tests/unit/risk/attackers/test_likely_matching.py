from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest

from sfumato._core.random_draws import Draws
from sfumato._risk.attackers.release_matching import EquivalenceClasses, draw_likely_order

LAW = np.array([[0.6, 0.3, 0.1], [0.2, 0.5, 0.3], [0.5, 0.1, 0.4], [0.1, 0.1, 0.8]])
HELD = np.array([0, 1, 0, 2])


def keyed(number: int) -> Draws:
    return Draws.unsafe_test_key(f"{number:064x}")


def drawn(sizes: list[int], number: int) -> tuple[int, ...]:
    found = draw_likely_order(np.array(sizes), HELD, lambda person: LAW, keyed(number))
    assert found is not None
    return tuple(found.tolist())


def test_partners_are_of_the_same_crowd_and_each_others() -> None:
    crowds = EquivalenceClasses.of(np.array([1, 4, 3, 2]))
    for number in range(20):
        partner = crowds.choose_partners(keyed(number).get_stream("test").draw_bits(0, 4))
        assert (crowds.class_numbers[partner] == crowds.class_numbers).all()
        assert (partner[partner] == np.arange(10)).all()


def test_whoever_is_alone_has_the_own_record() -> None:
    assert drawn([1, 1, 1, 1], 0) == (0, 1, 2, 3)
    assert {each for number in range(20) for each in drawn([1, 2, 1], number)[1:3]} == {1, 2}


@pytest.mark.statistical
def test_orders_come_as_often_as_their_law_says() -> None:
    """All 24 ways of a crowd of four; each share within five standard deviations, so wrongly once in 70,000 runs."""
    crowds = 4000
    law, held = np.tile(LAW, (crowds, 1)), np.tile(HELD, crowds)
    found = draw_likely_order(np.full(crowds, 4), held, lambda person: law, keyed(1))
    assert found is not None
    seen = Counter(map(tuple, (found.reshape(-1, 4) - 4 * np.arange(crowds)[:, np.newaxis]).tolist()))
    weights = {
        way: float(np.prod([LAW[record, HELD[person]] for record, person in enumerate(way)]))
        for way in itertools.permutations(range(4))
    }
    total = sum(weights.values())
    for way, weight in weights.items():
        share = weight / total
        assert abs(seen[way] / crowds - share) < 5 * (share * (1 - share) / crowds) ** 0.5
    evenly = max(abs(seen[way] / crowds - 1 / 24) for way in weights)
    assert evenly > 5 * (1 / 24 / crowds) ** 0.5, "an even law would be noticed"


def test_law_that_is_not_known_gives_no_order() -> None:
    assert draw_likely_order(np.array([4]), HELD, lambda person: None, keyed(0)) is None
