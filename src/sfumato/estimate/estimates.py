"""Many estimates at once: one array for each number that an estimate has."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import overload

import numpy as np
import pyarrow as pa

from sfumato.estimate.estimate import DEFAULT_LEVEL, Estimate, quantile, score_ends
from sfumato.shown.tally import Floats, ManyMoments, Mask


@dataclass(frozen=True, eq=False)
class Estimates(Sequence[Estimate]):
    """The answers to many queries, in their order: arrays for all, and an Estimate for each."""

    moments: ManyMoments = field(repr=False)
    method: str
    assumption: str
    note: str | None = None
    """What to beware of, beside every estimate."""

    def __len__(self) -> int:
        return len(self.moments.value)

    def __iter__(self) -> Iterator[Estimate]:
        return (self[number] for number in range(len(self)))

    @overload
    def __getitem__(self, number: int) -> Estimate: ...
    @overload
    def __getitem__(self, number: slice) -> list[Estimate]: ...
    def __getitem__(self, number: int | slice) -> Estimate | list[Estimate]:
        if isinstance(number, slice):
            return [self[each] for each in range(*number.indices(len(self)))]
        if self.is_exact[number]:
            return Estimate.exact(float(self.moments.value[number]))
        note = self.notes[number]
        return Estimate.of(self.moments.one(number, note), self.method, self.assumption, note)

    @cached_property
    def is_exact(self) -> Mask:
        """Which answers are certain: those about public columns only, and those about no record."""
        moments = self.moments
        return np.asarray((moments.base == 0) & (moments.slope == 0) & (moments.least == moments.most))

    @cached_property
    def notes(self) -> list[str | None]:
        """What to beware of, beside each estimate."""
        own = [None] * len(self) if self.moments.notes is None else self.moments.notes.tolist()
        return [None if exact else self.note or note for exact, note in zip(self.is_exact.tolist(), own, strict=True)]

    @property
    def value(self) -> Floats:
        """The estimated counts."""
        return self.moments.value

    @property
    def standard_error(self) -> Floats:
        """Their standard errors; not-a-number where none is known."""
        return standard_errors(self.moments)

    def interval(self, level: float = DEFAULT_LEVEL) -> tuple[Floats, Floats]:
        """The low and the high ends of their intervals; not-a-number where no error is known."""
        return intervals(self.moments, level)

    def table(self, level: float = DEFAULT_LEVEL) -> pa.Table:
        """A row for each query: `n`, `n_se`, `n_low` and `n_high`, and `n_note` if there is something to say."""
        low, high = self.interval(level)
        numbers = {"n": self.value, "n_se": self.standard_error, "n_low": low, "n_high": high}
        named = {name: pa.array(each, from_pandas=True) for name, each in numbers.items()}
        if any(self.notes):
            named["n_note"] = pa.array(self.notes, type=pa.string())
        return pa.table(named)


def standard_errors(moments: ManyMoments) -> Floats:
    """The standard errors at the estimates, moved into the range that a count can have."""
    nearest = np.clip(moments.value, moments.least, moments.most)
    return np.asarray(np.sqrt(np.maximum(moments.base + moments.slope * nearest, 0.0)))


def intervals(moments: ManyMoments, level: float) -> tuple[Floats, Floats]:
    """The score intervals of all estimates, within the ranges that counts can have; as `Estimate.interval` for one."""
    ends = score_ends(moments.value, moments.base, moments.slope, level)
    low, high = (np.clip(end, moments.least, moments.most) for end in ends)
    errors = standard_errors(moments)
    # Every count that fits lies outside the range of a count: say how far off the nearest may be.
    is_stuck, reach = (low == high) & (errors > 0), quantile(level) * errors
    stuck_low, stuck_high = (np.clip(end, moments.least, moments.most) for end in (low - reach, low + reach))
    return np.where(is_stuck, stuck_low, low), np.where(is_stuck, stuck_high, high)
