"""The ways to estimate from a release: each has a name and says what it assumes, and whether it is biased.

Everything is array-first: a tally has a line for each condition, and one count is a tally of one line.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np

from sfumato._core.arrays import Floats, Indices, Mask
from sfumato._core.json_types import JsonView
from sfumato._records.tally import Holdings, Tally

DesignT = TypeVar("DesignT", contravariant=True)


@dataclass(frozen=True, eq=False)
class Moments:
    """Estimates of counts or sums, each between `least` and `most`, and the variance each has if the count is c.

    The bounds are certain; they are infinite where nothing is. The variance is `base + slope * c`: linear in the
    unknown count, which is what lets an interval solve for c instead of plugging an estimate in. Not a number where
    nothing is known about the error.
    """

    value: Floats
    base: Floats
    slope: Floats
    most: Floats
    least: Floats
    notes: Sequence[str | None] = ()
    """What to beware of, beside each; nothing where there is nothing to say."""
    is_own_note: bool = False
    """Whether the notes are about these very numbers, and not about what is made from them."""
    chances: Floats | None = None
    """Where a count is told by hits that are two binomials: the chance of a hit, of a record that is counted (first
    line) and of another one (second), among `most - least` records. Not a number for those that are not so told."""
    unbiased_value: Floats | None = None
    """The numbers that variances and chances are about, where the values are others, which stand beside them."""

    @classmethod
    def of(  # noqa: PLR0913, PLR0917 - a number with its error and its bounds
        cls,
        value: float,
        base: float | None,
        slope: float,
        most: float,
        least: float = 0.0,
        note: str | None = None,
        *,
        is_own_note: bool = False,
    ) -> Moments:
        """The moments of one estimate."""
        variance_base = np.nan if base is None else base
        lines = np.array([value, variance_base, slope, most, least], dtype=np.float64)[:, np.newaxis]
        return cls._from_lines(lines, () if note is None else (note,), is_own_note=is_own_note)

    @classmethod
    def _from_lines(
        cls, lines: Sequence[Floats] | Floats, notes: Sequence[str | None], *, is_own_note: bool
    ) -> Moments:
        value, base, slope, most, least = lines
        return cls(value, base, slope, most, least, notes, is_own_note)

    @classmethod
    def exact(cls, counts: Floats) -> Moments:
        """Counts without error."""
        nothing = np.zeros(len(counts))
        return cls(counts, nothing, nothing, counts, counts)

    @classmethod
    def concatenate(cls, moments: Sequence[Moments]) -> Moments:
        """Several one after the other."""
        lines = [np.concatenate([np.zeros(0), *(getattr(part, name) for part in moments)]) for name in _ARRAYS]
        notes = [note for part in moments for note in part.all_notes] if any(part.notes for part in moments) else ()
        result = cls._from_lines(lines, notes, is_own_note=any(part.is_own_note for part in moments))
        if any(part.chances is not None for part in moments):
            result = replace(result, chances=np.concatenate([part.hit_chances for part in moments], axis=1))
        if any(part.unbiased_value is not None for part in moments):
            result = replace(result, unbiased_value=np.concatenate([part.centre for part in moments]))
        return result

    def __len__(self) -> int:
        return len(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Moments) and self._comparison_key == other._comparison_key

    def __hash__(self) -> int:
        return hash(self._comparison_key)

    @property
    def _comparison_key(self) -> tuple[bytes | tuple[str | None, ...], ...]:
        """All of it as something that can be compared; a number that is none is equal to itself here."""
        arrays = (*(getattr(self, name) for name in _ARRAYS), self.hit_chances, self.centre)
        return (*(array.astype(np.float64).tobytes() for array in arrays), tuple(self.notes))

    @property
    def hit_chances(self) -> Floats:
        """The chances of a hit of each, not a number where hits do not tell it."""
        return np.full((2, len(self)), np.nan) if self.chances is None else self.chances

    @property
    def centre(self) -> Floats:
        """The numbers that variances and intervals are about."""
        return self.value if self.unbiased_value is None else self.unbiased_value

    @property
    def all_notes(self) -> Sequence[str | None]:
        """What to beware of, beside each."""
        return self.notes or [None] * len(self)

    @property
    def note(self) -> str | None:
        """What to beware of, beside the first."""
        return self.notes[0] if self.notes else None

    def take(self, numbers: Indices) -> Moments:
        """Some of them."""
        notes = [self.notes[number] for number in numbers.tolist()] if self.notes else ()
        lines = [getattr(self, name)[numbers] for name in _ARRAYS]
        moments = self._from_lines(lines, notes, is_own_note=self.is_own_note)
        chances = None if self.chances is None else self.chances[:, numbers]
        return replace(
            moments,
            chances=chances,
            unbiased_value=None if self.unbiased_value is None else self.unbiased_value[numbers],
        )

    @property
    def is_certain(self) -> Mask:
        """Which numbers have no error at all."""
        return np.asarray((self.base == 0) & (self.slope == 0) & (self.least == self.most))


_ARRAYS = ("value", "base", "slope", "most", "least")


@dataclass(frozen=True, slots=True)
class SumPiece:
    """Records of which the same is asked: the sum of z * theta[true value], where z comes from their public columns."""

    theta: Floats
    """One number for each place of the domain."""
    tally: Tally
    """What the records show, each weighted by its z; of one line."""
    squared_tally: Tally
    """The same, weighted by z²; for a count, where every z is 1, the same object as `first`."""
    is_positive: bool = False
    """Whether no z is negative, so that certain bounds are known; a count needs not say so."""

    @property
    def has_bounds(self) -> bool:
        """Whether what the records add lies between what the smallest and the largest theta would add."""
        return self.is_positive or self.tally is self.squared_tally


@dataclass(frozen=True, slots=True)
class Weights:
    """What a record adds to a sum: a number for each symbol or member that it shows, and one in any case."""

    entry_weights: Floats
    constant: Floats

    def sum_tally(self, tally: Tally) -> float:
        """The sum over all records of a tally of one line."""
        return float(self.entry_weights @ tally.counts[0] + self.constant * tally.rows[0])


@dataclass(frozen=True)
class BrowserEstimator:
    """How a browser counts in the same way: a script that defines `estimator`, and what it is made from.

    `estimator(numbers)` gives a function from a tally (`counts`, `rows`) and wanted places to moments, which have the
    names that they have here. Scripts stand beside the method whose twins they are, and tests hold the two together.
    """

    script: Path
    numbers: JsonView
    """Arrays, and what JSON can hold."""


@dataclass(frozen=True)
class Method(Generic[DesignT]):
    """One way to estimate, as it is named in every answer."""

    label: str
    assumption: str
    count: Callable[[DesignT, Tally, Sequence[Indices]], list[Moments]]
    """From a design, a tally and sets of wanted places: for each set the counts under all conditions of the tally."""
    needs_whole: bool = False
    """Whether it also looks at the counts of the whole release."""
    note: str | None = None
    """What to beware of, beside every number."""
    total: Callable[[DesignT, Sequence[SumPiece]], Moments] | None = None
    """From a design and the pieces of one sum: its estimate, its variance (whatever the sum is) and its certain bounds.

    None where the method only counts."""
    compute_weights: Callable[[DesignT, Floats], Weights] | None = None
    """What each record adds to the sum of a theta, by what it shows; None where that depends on other records."""
    needs_hits_only: Callable[[DesignT], bool] | None = None
    """Whether a count needs no more than how many records of each cell show a wanted value; never, if not said."""
    twin: Callable[[DesignT, Tally, Holdings | None], BrowserEstimator] | None = None
    """The same count for a browser, from a design, the tally of a whole release and what its buckets hold, if there are
    any; raises QueryError where a design cannot be so counted. None where there is none."""
    is_reproduction: bool = False
    """Whether it only reproduces a paper: the library finds it by its name, and no list offers it to analysts."""


AnyMethod = Method[Any]
"""A method of any mechanism."""
