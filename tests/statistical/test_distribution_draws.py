"""Bounded integers are uniform, tables are shuffled evenly, and Feistel networks scatter evenly over many keys."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import permutations

import numpy as np
import numpy.typing as npt
import pytest

from sfumato._core.random_draws import LARGEST_TABLE, FeistelPermutation, Stream, TablePermutation
from statistical.support import (
    Counts,
    assert_different,
    assert_same_distribution,
    counts_of,
    joint_counts_of,
    keyed_draws,
)

pytestmark = pytest.mark.statistical

ORDERS = {order: number for number, order in enumerate(permutations(range(4)))}
KEYS = 20_000


@pytest.mark.parametrize("bound", [2, 7, 100])
def test_integers_are_uniform(bound: int) -> None:
    drawn = keyed_draws(1).get_stream("coins").draw_integers(0, 200_000, bound)
    assert_same_distribution(counts_of(drawn, bound), [1 / bound] * bound)


def test_integers_of_which_many_are_redrawn_are_uniform() -> None:
    """Below 3 x 2^61 the words are cut into two shares each, and a quarter of them is rejected."""
    bound = 3 * 2**61
    drawn = keyed_draws(2).get_stream("coins").draw_integers(0, 100_000, bound)
    sixths = drawn // np.uint64(bound // 6)
    assert_same_distribution(counts_of(sixths, 6), [1 / 6] * 6)


def test_a_remainder_instead_of_a_rejection_would_be_noticed() -> None:
    bound = 3 * 2**61
    folded = keyed_draws(2).get_stream("coins").draw_bits(0, 100_000) % np.uint64(bound)
    assert_different(counts_of(folded // np.uint64(bound // 6), 6), [1 / 6] * 6)


def _naive_shuffle(stream: Stream) -> Sequence[int]:
    """Swap each position with any other: the well-known mistake, whose orders are not equally likely."""
    table = list(range(4))
    for position, chosen in enumerate(stream.draw_integers(0, 4, 4).tolist()):
        table[position], table[chosen] = table[chosen], table[position]
    return table


def _shuffle(stream: Stream) -> Sequence[int]:
    table: list[int] = TablePermutation.from_stream(stream, 4).table.tolist()
    return table


def _order_counts(shuffle: Callable[[Stream], Sequence[int]]) -> Counts:
    streams = (keyed_draws(number).get_stream("slots") for number in range(KEYS))
    orders = [ORDERS[tuple(shuffle(stream))] for stream in streams]
    return counts_of(np.array(orders), len(ORDERS))


def test_all_orders_of_a_table_are_equally_likely() -> None:
    assert_same_distribution(_order_counts(_shuffle), [1 / 24] * 24)


def test_a_biased_shuffle_would_be_noticed() -> None:
    assert_different(_order_counts(_naive_shuffle), [1 / 24] * 24)


def _feistel_slots(size: int, ranks: Sequence[int], keys: int) -> npt.NDArray[np.uint64]:
    """The slots of some ranks, one row for each key."""
    asked = np.array(ranks, dtype=np.uint64)
    subkeys = (number.to_bytes(32, "big") for number in range(keys))
    return np.array([FeistelPermutation.of(subkey, size)(asked) for subkey in subkeys])


def test_feistel_puts_a_rank_anywhere_and_two_ranks_anywhere_but_on_each_other() -> None:
    """A grid of 4 x 3 for 11 slots: the twelfth place is walked past."""
    size = 11
    slots = _feistel_slots(size, [0, 1], KEYS // 2)
    pairs = joint_counts_of(slots[:, 0], slots[:, 1], size)
    apart = 1 - np.eye(size)
    assert_same_distribution(counts_of(slots[:, 0], size), [1 / size] * size)
    assert_same_distribution(counts_of(slots[:, 1], size), [1 / size] * size)
    assert_same_distribution(pairs, (apart / apart.sum()).ravel())


def test_feistel_scatters_the_first_and_the_last_rank_of_a_large_range_evenly() -> None:
    size, classes = LARGEST_TABLE + 1, 64
    slots = _feistel_slots(size, [0, size - 1], KEYS // 2)
    for rank in range(2):
        places = slots[:, rank] * np.uint64(classes) // np.uint64(size)
        assert_same_distribution(counts_of(places, classes), [1 / classes] * classes)


@pytest.mark.parametrize("rounds", [0, 2])
def test_a_feistel_network_of_too_few_rounds_would_be_noticed(rounds: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rounds come in pairs: of none, ranks stay in place; of one pair, ranks of one column stay in one column."""
    monkeypatch.setattr("sfumato._core.random_draws.FEISTEL_ROUNDS", rounds)
    size = 12
    slots = _feistel_slots(size, [0, 3], KEYS // 4)
    apart = 1 - np.eye(size)
    assert_different(joint_counts_of(slots[:, 0], slots[:, 1], size), (apart / apart.sum()).ravel())
