"""What somebody believes of a person who knows public columns of everybody, record by record in plain Python.

Each record is left out where it is believed something of. Protected values are numbers below the size of the domain.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from hypothesis import reject

from sfumato._risk.attackers.known_column_beliefs import WEIGHTS


def shares_of(held: Sequence[int], size: int) -> list[float]:
    """The shares of the table; a value that nobody has is worth a part of one record."""
    return [(list(held).count(value) + 1 / size) / (len(held) + 1) for value in range(size)]


def others(column: Sequence[object], held: Sequence[int], row: int, size: int) -> list[int]:
    """How many of the others who share a record's value hold each protected value."""
    met = [0] * size
    for number, (group, value) in enumerate(zip(column, held, strict=True)):
        if group == column[row] and number != row:
            met[value] += 1
    return met


def slow_weight(column: Sequence[object], held: Sequence[int], size: int) -> float:
    """The weight of the table's shares that makes the records likeliest, each by what the others say."""
    shares = shares_of(held, size)
    met = [others(column, held, row, size) for row in range(len(held))]
    fits = [
        sum(
            math.log((each[value] + weight * shares[value]) / (sum(each) + weight))
            for each, value in zip(met, held, strict=True)
        )
        for weight in WEIGHTS
    ]
    best = [weight for weight, fit in zip(WEIGHTS, fits, strict=True) if fit > max(fits) - 1e-9]
    if len(best) not in {1, len(WEIGHTS)}:  # two that are as good are for floating-point numbers to choose from
        reject()
    return float(best[0])


def lifts(column: Sequence[object], held: Sequence[int], size: int) -> list[list[float]]:
    """How many times likelier each value of each record is by what the others say.

    Its own value is weighed as if the record were not in the table.
    """
    shares, weight, found = shares_of(held, size), slow_weight(column, held, size), []
    for row, own in enumerate(held):
        bases = [weight * share for share in shares]
        bases[own] = weight * max(shares[own] - 1 / len(held), shares[own] / len(held))
        found.append([(met + base) / base for met, base in zip(others(column, held, row, size), bases, strict=True)])
    return found


def beliefs(column: Sequence[object], held: Sequence[int], size: int) -> list[list[float]]:
    """What is believed of each record by one column: the shares of the table times what the others say."""
    shares, found = shares_of(held, size), []
    for lifted in lifts(column, held, size):
        weighed = [share * lift for share, lift in zip(shares, lifted, strict=True)]
        found.append([each / sum(weighed) for each in weighed])
    return found


def right(believed: Sequence[Sequence[float]], held: Sequence[int]) -> float:
    """For how many records the likeliest value is the true one; of equally likely ones one is guessed."""
    guessed = 0.0
    for row, value in zip(believed, held, strict=True):
        likeliest = [place for place, each in enumerate(row) if each >= max(row) * (1 - 1e-9)]
        guessed += (value in likeliest) / len(likeliest)
    return guessed / len(held)
