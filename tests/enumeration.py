"""The exact law of a mechanism by brute force: run it once for every outcome that its draws can have."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import partial
from typing import TypeVar, cast

import numpy as np

from sfumato.arrays import Words
from sfumato.draws import Draws
from sfumato.mechanisms.mechanism import AnyMechanism
from sfumato.shown import Replaced

Outcome = TypeVar("Outcome")
Shown = int | tuple[int, int] | frozenset[int]
"""What a record of a release shows: a value, its cell and a value of it, a set of values, or only its bucket."""

Law = list[Mapping[Shown, Fraction]]
"""law[original][shown], each row summing to one; what cannot be shown is not in it."""


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

    def integers(self, first_row: int, rows: int, bound: int | Words) -> Words:
        """The next number of the script, for one record."""
        (only,) = np.broadcast_to(bound, rows)
        turn = len(self.bounds)
        self.bounds.append(int(only))
        self.script += [0] * (len(self.bounds) - len(self.script))
        return np.array([self.script[turn]], dtype=np.uint64)

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


def transition_law(mechanism: AnyMechanism, plan: object, counts: Sequence[int]) -> Law:
    """The exact probability of all that a record can show, for each original.

    Where records have slots, a record has each slot of its value with the same chance; a value without records has
    none, and so its row is empty.
    """
    return [_row(mechanism, plan, original, count, len(counts)) for original, count in enumerate(counts)]


def _row(mechanism: AnyMechanism, plan: object, original: int, count: int, size: int) -> Mapping[Shown, Fraction]:
    slots = [np.array([slot], dtype=np.uint64) for slot in range(count)] if mechanism.uses_slots else [None]
    row: dict[Shown, Fraction] = defaultdict(Fraction)
    for slot in slots:
        run = partial(_replaced, mechanism, plan, original, slot)
        for probability, replaced in every_outcome(run):
            (shown,) = shown_by(replaced, size)
            row[shown] += probability / len(slots)
    return dict(row)


def _replaced(mechanism: AnyMechanism, plan: object, original: int, slot: Words | None, draws: Draws) -> Replaced:
    return mechanism.replace(plan, np.array([original]), slot, draws, 0)


def shown_by(replaced: Replaced, size: int) -> list[Shown]:
    """What each record of a batch shows; sets of a domain of this size are read bit by bit."""
    if replaced.values is None:
        assert replaced.cells is not None, "a record shows nothing"
        return replaced.cells.tolist()
    if replaced.values.ndim > 1:
        bits = np.unpackbits(replaced.values, axis=1)
        assert not bits[:, size:].any(), "a bit is set that stands for no value"
        return [frozenset(np.flatnonzero(row).tolist()) for row in bits]
    values = replaced.values.tolist()
    return values if replaced.cells is None else list(zip(replaced.cells.tolist(), values, strict=True))
