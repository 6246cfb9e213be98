"""The exact law of a mechanism by brute force: run it once for every outcome that its draws can have."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import TypeVar, cast

import numpy as np

from sfumato.draws import Draws, Words
from sfumato.mechanisms import AnyMechanism

Outcome = TypeVar("Outcome")
Law = list[list[Fraction]]
"""law[original][published], each row summing to one."""


class ScriptedDraws:
    """Stands in for `Draws`: answers each bounded integer from a script, with zeros once the script has ended."""

    def __init__(self, script: list[int]) -> None:
        self.script = list(script)
        self.bounds: list[int] = []
        self.purposes: set[str] = set()

    def stream(self, purpose: str) -> ScriptedDraws:
        """A purpose gives one word for a row: a second stream of the same purpose would repeat it."""
        assert purpose not in self.purposes, f"the purpose {purpose!r} is drawn from twice for one record"
        self.purposes.add(purpose)
        return self

    def integers(self, first_row: int, rows: int, bound: int) -> Words:
        """The next number of the script, for every row."""
        turn = len(self.bounds)
        self.bounds.append(int(bound))
        self.script += [0] * (len(self.bounds) - len(self.script))
        return np.full(rows, self.script[turn], dtype=np.uint64)

    def next_script(self) -> list[int]:
        """Count on by one, as an odometer does; empty after the last script."""
        script = self.script[: len(self.bounds)]
        while script and script[-1] + 1 == self.bounds[len(script) - 1]:
            script.pop()
        return [*script[:-1], script[-1] + 1] if script else []


def every_outcome(run: Callable[[Draws], Outcome]) -> Iterator[tuple[Fraction, Outcome]]:
    """Everything that `run` can return, with its exact probability; the same result may come more than once."""
    script: list[int] = []
    while True:
        draws = ScriptedDraws(script)
        outcome = run(cast("Draws", draws))
        yield Fraction(1, math.prod(draws.bounds)), outcome
        script = draws.next_script()
        if not script:
            return


def transition_law(mechanism: AnyMechanism, plan: object, domain_size: int) -> Law:
    """The exact probability of publishing each value of the domain, for each original."""
    return [_row(mechanism, plan, original, domain_size) for original in range(domain_size)]


def _row(mechanism: AnyMechanism, plan: object, original: int, domain_size: int) -> list[Fraction]:
    def replaced(draws: Draws) -> int:
        return int(mechanism.replace(plan, np.array([original]), None, draws, 0)[0])

    row = [Fraction(0)] * domain_size
    for probability, published in every_outcome(replaced):
        row[published] += probability
    return row
