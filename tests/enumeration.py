"""The exact law of a mechanism by brute force: run it once for every outcome that its draws can have."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import partial
from typing import TypeVar, cast

import numpy as np

from sfumato._core.array_types import RandomBits
from sfumato._core.random_draws import Draws
from sfumato._records import PerturbedRecords
from sfumato.mechanisms.mechanism import AnyMechanism

Outcome = TypeVar("Outcome")
Shown = int | tuple[int, int] | frozenset[int] | tuple[int, frozenset[int]]
"""What a record of a release shows: a value, its cell and a value of it, a set, its level and a set, or its bucket."""

Law = list[Mapping[Shown, Fraction]]
"""law[original][shown], each row summing to one; what cannot be shown is not in it."""


class ScriptedDraws:
    """Stands in for `Draws`: answers each bounded integer from a script, with zeros once the script has ended."""

    def __init__(self, script: list[int]) -> None:
        self.script = list(script)
        self.bounds: list[int] = []
        self.purposes: set[str] = set()

    def get_stream(self, purpose: str) -> ScriptedDraws:
        """A purpose gives one word for a row: a second stream of the same purpose would repeat it."""
        assert purpose not in self.purposes, f"the purpose {purpose!r} is drawn from twice for one record"
        self.purposes.add(purpose)
        return self

    def draw_integers(self, first_row: int, rows: int, bound: int | RandomBits) -> RandomBits:
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


def _replaced(
    mechanism: AnyMechanism, plan: object, original: int, slot: RandomBits | None, draws: Draws
) -> PerturbedRecords:
    return mechanism.perturb(plan, np.array([original]), slot, draws, 0)


def shown_by(replaced: PerturbedRecords, size: int) -> list[Shown]:
    """What each record of a batch shows; sets of a domain of this size are read bit by bit."""
    if replaced.values is None:
        assert replaced.cells is not None, "a record shows nothing"
        return replaced.cells.tolist()
    if replaced.values.ndim > 1:
        bits = np.unpackbits(replaced.values, axis=1)
        assert not bits[:, size:].any(), "a bit is set that stands for no value"
        sets = [frozenset(np.flatnonzero(row).tolist()) for row in bits]
        return sets if replaced.cells is None else list(zip(replaced.cells.tolist(), sets, strict=True))
    values = replaced.values.tolist()
    return values if replaced.cells is None else list(zip(replaced.cells.tolist(), values, strict=True))


def replaced_by(shown: Sequence[Shown], size: int, *, is_dealt: bool = False) -> PerturbedRecords:
    """The batch whose records show these things, all of one kind: what `shown_by` reads again."""
    if isinstance(shown[0], frozenset):
        bits = np.array(
            [[place in members for place in range(size)] for members in cast("list[frozenset[int]]", shown)]
        )
        return PerturbedRecords(np.packbits(bits, axis=1), None)
    if isinstance(shown[0], tuple) and isinstance(shown[0][1], frozenset):
        levels, sets = zip(*cast("list[tuple[int, frozenset[int]]]", shown), strict=True)
        return PerturbedRecords(replaced_by(sets, size).values, np.array(levels, dtype=np.uint8))
    if isinstance(shown[0], tuple):
        cells, values = np.array(shown).T
        return PerturbedRecords(values, cells)
    return PerturbedRecords(None, np.array(shown)) if is_dealt else PerturbedRecords(np.array(shown), None)


# ------------------------------------------------------------------------------------------------- all outcomes at once


class OdometerDraws:
    """Stands in for `Draws`: row r of a batch has the r-th of all outcomes that draws below these bounds can have.

    A batch of one record repeated is then its whole law in one call, where no bound depends on an earlier draw.
    """

    def __init__(self, bounds: Sequence[int]) -> None:
        self.bounds = list(bounds)
        self.turn = 0

    def get_stream(self, purpose: str) -> OdometerDraws:
        """The same counter for every purpose: each draw is another wheel of it."""
        return self

    def draw_integers(self, first_row: int, rows: int, bound: int | RandomBits) -> RandomBits:
        """The next wheel, for all rows."""
        own, below = self.bounds[self.turn], math.prod(self.bounds[: self.turn])
        assert (np.broadcast_to(bound, rows) == own).all(), "a bound depends on an earlier draw"
        self.turn += 1
        return ((np.arange(rows) // below) % own).astype(np.uint64)


def whole_law(mechanism: AnyMechanism, plan: object, counts: Sequence[int]) -> Law:
    """The same as `transition_law`, a thousand times as fast."""
    return [_whole_row(mechanism, plan, original, count, len(counts)) for original, count in enumerate(counts)]


def _whole_row(mechanism: AnyMechanism, plan: object, original: int, count: int, size: int) -> Mapping[Shown, Fraction]:
    slots = range(count) if mechanism.uses_slots else [None]
    row: dict[Shown, Fraction] = defaultdict(Fraction)
    for slot in slots:
        first = ScriptedDraws([])
        _replaced(mechanism, plan, original, _repeated(slot, 1), cast("Draws", first))
        rows = math.prod(first.bounds)
        draws = cast("Draws", OdometerDraws(first.bounds))
        replaced = mechanism.perturb(plan, np.full(rows, original), _repeated(slot, rows), draws, 0)
        firsts, times = _different(replaced)
        for shown, often in zip(shown_by(firsts, size), times, strict=True):
            row[shown] += Fraction(often, rows * len(slots))
    return dict(row)


def _different(replaced: PerturbedRecords) -> tuple[PerturbedRecords, list[int]]:
    """One record of each kind, and how many there are of it."""
    shown = [each for each in (replaced.values, replaced.cells) if each is not None]
    _, first, times = np.unique(np.column_stack(shown), axis=0, return_index=True, return_counts=True)
    firsts = PerturbedRecords(*(None if each is None else each[first] for each in (replaced.values, replaced.cells)))
    return firsts, times.tolist()


def _repeated(slot: int | None, rows: int) -> RandomBits | None:
    return None if slot is None else np.full(rows, slot, dtype=np.uint64)
