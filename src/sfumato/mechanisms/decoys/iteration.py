"""The reconstruction of the paper, as printed: kept to compare with, not to count with.

It is wrong in two ways. Its leak counts a value's own seats too, so that even the whole table is not reproduced; and it
stops when no state moves by more than one in a hundred, which for large groups is at once.
Source: Fu et al. 2014, section 5.2; notation: gamma = group size, f = records of the value, N = all records. States are
numbered by bits: the condition first, then one bit for each sensitive value.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sfumato.arrays import Floats

STOP = 0.01
MOST_ROUNDS = 4000


def iterated(
    shown: Floats, group_sizes: Sequence[int], stop: float = STOP, most_rounds: int = MOST_ROUNDS
) -> tuple[Floats, int]:
    """What the states of a table are by the printed iteration, and after how many rounds it stopped."""
    held, total = shown.astype(np.float64), float(shown.sum())
    for number in range(1, most_rounds + 1):
        chances = _chances(held, total, group_sizes)
        expected = held @ chances
        ratio = np.divide(shown, expected, out=np.zeros_like(expected), where=shown > 0)
        stepped = held * (chances @ ratio)
        moved = np.abs(stepped - held) > stop * held
        held = stepped
        if not moved.any():
            return held, number
    return held, most_rounds


def _chances(held: Floats, total: float, group_sizes: Sequence[int]) -> Floats:
    """The printed matrix: the condition stays, and each value is shown by gamma and by its share alone."""
    bits = len(group_sizes)
    table = held.reshape((2,) * (bits + 1))
    found = np.eye(2)
    for number, group_size in enumerate(group_sizes):
        count = float(table.take(1, axis=number + 1).sum())
        leak = count / total  # not what it is: a record has no seat in its own group but one
        found = np.kron(found, np.array([[1 - leak, leak], [1 - 1 / group_size, 1 / group_size]]))
    return np.asarray(found)
