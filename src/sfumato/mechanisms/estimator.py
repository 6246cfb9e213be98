"""The estimation methods: each has a name, states its assumptions, and says whether it is biased.

All functions take arrays. A tally has a line for each condition, and a single count is a tally of one line.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np

from sfumato._core.array_types import Floats, Indices, Mask
from sfumato._core.json_types import JsonView
from sfumato._records.tally import Holdings, Tally

DesignT = TypeVar("DesignT", contravariant=True)


@dataclass(frozen=True, eq=False)
class KnownDistributions:
    """The noise in some counts has a known distribution, which gives their intervals."""

    compute_interval: Callable[..., tuple[float, float]]
    """Computes the ends of an interval from the number of wanted values, the number of crowds, the noisy count, the
    number of people, and the level.
    """
    crowds: Indices
    """The number of crowds of each count; 0 where the distribution is not used."""
    wanted: Indices
    """The number of wanted values of each count."""
    noisy: Indices
    """The noisy counts."""

    def take(self, numbers: Indices) -> KnownDistributions:
        """The distributions of some of the counts."""
        return replace(self, crowds=self.crowds[numbers], wanted=self.wanted[numbers], noisy=self.noisy[numbers])

    @staticmethod
    def concatenate(parts: Sequence[tuple[KnownDistributions | None, int]]) -> KnownDistributions | None:
        """Joins the distributions of several lists of counts, given the number of counts of each list."""
        first = next((part for part, _ in parts if part is not None), None)
        if first is None:
            return None
        crowds, wanted, noisy = (
            np.concatenate(
                [np.zeros(size, dtype=np.int64) if part is None else getattr(part, name) for part, size in parts]
            )
            for name in ("crowds", "wanted", "noisy")
        )
        return KnownDistributions(first.compute_interval, crowds, wanted, noisy)


@dataclass(frozen=True, eq=False)
class Moments:
    """Estimates of counts or sums, each between `least` and `most`, with their variances given a true count c.

    The bounds are certain, and infinite if no bound is known. The variance is `base + slope * c`, which is linear in
    the unknown count. So an interval can solve for c instead of inserting an estimate. The variance is NaN if nothing
    is known about the error.
    """

    value: Floats
    base: Floats
    slope: Floats
    most: Floats
    least: Floats
    notes: Sequence[str | None] = ()
    """A caution beside each estimate; empty where there is none."""
    is_own_note: bool = False
    """Whether the notes apply only to these numbers, and not to numbers computed from these."""
    chances: Floats | None = None
    """The probabilities of a hit for a counted record (first line) and for another record (second line), among `most -
    least` records. They exist for counts that are estimated from hits (a sum of two binomials), and are NaN
    otherwise.
    """
    unbiased_value: Floats | None = None
    """The numbers to which variances and probabilities refer, if these are not the values themselves."""
    known: KnownDistributions | None = None
    """The distributions of the noise, for counts whose intervals need them."""

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
        """Makes the moments of one estimate."""
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
        """Makes counts without error."""
        nothing = np.zeros(len(counts))
        return cls(counts, nothing, nothing, counts, counts)

    @classmethod
    def concatenate(cls, moments: Sequence[Moments]) -> Moments:
        """Joins several moments, one after the other."""
        lines = [np.concatenate([np.zeros(0), *(getattr(part, name) for part in moments)]) for name in _ARRAYS]
        notes = [note for part in moments for note in part.all_notes] if any(part.notes for part in moments) else ()
        result = cls._from_lines(lines, notes, is_own_note=any(part.is_own_note for part in moments))
        if any(part.chances is not None for part in moments):
            result = replace(result, chances=np.concatenate([part.hit_chances for part in moments], axis=1))
        if any(part.unbiased_value is not None for part in moments):
            result = replace(result, unbiased_value=np.concatenate([part.centre for part in moments]))
        known = KnownDistributions.concatenate([(part.known, len(part)) for part in moments])
        return result if known is None else replace(result, known=known)

    def __len__(self) -> int:
        return len(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Moments) and self._comparison_key == other._comparison_key

    def __hash__(self) -> int:
        return hash(self._comparison_key)

    @property
    def _comparison_key(self) -> tuple[bytes | tuple[str | None, ...], ...]:
        """All fields in a form that can be compared, in which NaN equals itself."""
        arrays = (*(getattr(self, name) for name in _ARRAYS), self.hit_chances, self.centre)
        return (*(array.astype(np.float64).tobytes() for array in arrays), tuple(self.notes))

    @property
    def hit_chances(self) -> Floats:
        """The probabilities of a hit for each estimate; NaN if hits are not used."""
        return np.full((2, len(self)), np.nan) if self.chances is None else self.chances

    @property
    def centre(self) -> Floats:
        """The numbers to which variances and intervals refer."""
        return self.value if self.unbiased_value is None else self.unbiased_value

    @property
    def all_notes(self) -> Sequence[str | None]:
        """The caution beside each estimate."""
        return self.notes or [None] * len(self)

    @property
    def note(self) -> str | None:
        """The caution beside the first estimate."""
        return self.notes[0] if self.notes else None

    def take(self, numbers: Indices) -> Moments:
        """Selects some of the estimates."""
        notes = [self.notes[number] for number in numbers.tolist()] if self.notes else ()
        lines = [getattr(self, name)[numbers] for name in _ARRAYS]
        moments = self._from_lines(lines, notes, is_own_note=self.is_own_note)
        chances = None if self.chances is None else self.chances[:, numbers]
        return replace(
            moments,
            chances=chances,
            unbiased_value=None if self.unbiased_value is None else self.unbiased_value[numbers],
            known=None if self.known is None else self.known.take(numbers),
        )

    @property
    def is_certain(self) -> Mask:
        """Whether each number is without error."""
        return np.asarray((self.base == 0) & (self.slope == 0) & (self.least == self.most))


_ARRAYS = ("value", "base", "slope", "most", "least")


@dataclass(frozen=True, slots=True)
class SumPiece:
    """Records that add z * theta[true value] to a sum, with the same theta. Here z comes from their public columns."""

    theta: Floats
    """One number for each index of the domain."""
    tally: Tally
    """The tally of the published values, weighted by z, with one line."""
    squared_tally: Tally
    """The tally weighted by z². For a count every z is 1, and this is the same object as `first`."""
    is_positive: bool = False
    """Whether all z are 0 or more, so that certain bounds are known. A count can omit this field."""

    @property
    def has_bounds(self) -> bool:
        """Whether the sum lies between the sums that the smallest and the largest theta would give."""
        return self.is_positive or self.tally is self.squared_tally


@dataclass(frozen=True, slots=True)
class Weights:
    """What a record adds to a sum: a number for each published symbol or member, and a constant."""

    entry_weights: Floats
    constant: Floats

    def sum_tally(self, tally: Tally) -> float:
        """Sums over all records of a tally of one line."""
        return float(self.entry_weights @ tally.counts[0] + self.constant * tally.rows[0])


@dataclass(frozen=True)
class BrowserEstimator:
    """The same method for a browser: a script that defines `estimator`, and its numbers.

    `estimator(numbers)` returns a function from a tally (`counts`, `rows`) and wanted indices to moments, under the
    names they have here. Each script is in the folder of the Python method that it repeats, and tests compare the two.
    """

    script: Path
    numbers: JsonView
    """The numbers of the script: arrays, and everything that JSON can write."""
    helpers: tuple[Path, ...] = ()
    """Scripts that define what this script uses."""
    note: str | None = None
    """How the answers of a page without records differ from those of Python."""


@dataclass(frozen=True)
class Method(Generic[DesignT]):
    """An estimation method. Its name is in every answer."""

    label: str
    assumption: str
    count: Callable[[DesignT, Tally, Sequence[Indices]], list[Moments]]
    """Counts each set of wanted indices under all conditions of a tally, given a design."""
    needs_whole: bool = False
    """Whether the method also uses the counts of the whole release."""
    note: str | None = None
    """A caution that is shown beside every number."""
    total: Callable[[DesignT, Sequence[SumPiece]], Moments] | None = None
    """Estimates one sum from a design and pieces.

    The result has the value, its variance (for any sum) and its certain bounds. None if the method only counts.
    """
    compute_weights: Callable[[DesignT, Floats], Weights] | None = None
    """What each record adds to the sum of a theta, by published value; None if it depends on other records."""
    needs_hits_only: Callable[[DesignT], bool] | None = None
    """Whether a count needs only the number of records in each sub-table that publish a wanted value (default: no)."""
    twin: Callable[[DesignT, Tally, Holdings | None], BrowserEstimator] | None = None
    """Makes the same count for a browser, from a design, the tally of a whole release and the contents of its buckets,
    if any. Raises QueryError if a browser cannot count this design. None if the method has no browser version.
    """
    is_reproduction: bool = False
    """Whether the method only reproduces a paper.

    The library finds such a method by its name, but does not list it for analysts.
    """


AnyMethod = Method[Any]
"""A method of any mechanism."""
