"""The bucketization problem, and the reasons why it may have no solution.

A problem consists of integers only: the count of each value, the usable bucket sizes, and the records of each value
that fit into a bucket of each size. Functions that find no answer raise `Blocked`. The error has the indices of the
responsible values. Callers that know the names of the values get the sentence from here.

Notation: o_i = counts[i], |T| = total, S = size, c_i(S) = floors[i, S], M = smallest, M' = largest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from sfumato._core.cell_values import format_value_count
from sfumato.errors import ErrorField, InfeasibleError
from sfumato.mechanisms._bucketization.buckets.cap_rounding import Integers, compute_floors, compute_least_size

# Finds the number of steps along a row of settings after which every condition holds. All conditions are linear in the
# step.


def find_first_step(surplus: Integers, gain: Integers, low: int = 0, high: int | None = None) -> int | None:
    """The first step from `low` to `high` at which nothing of have + step * gain is negative; None if there is none."""
    if (surplus[gain == 0] < 0).any():
        return None
    is_rising, is_falling = gain > 0, gain < 0
    low = int((-(surplus[is_rising] // gain[is_rising])).max(initial=low))
    high = int((surplus[is_falling] // -gain[is_falling]).min(initial=low if high is None else high))
    return low if low <= high else None


# ---------------------------------------------------------------------------------------------------------------------

Namer = Callable[[Sequence[int]], str]
"""Names the values with these indices; if there are many, gives their number."""
MOST_NAMED = 5
LONG_DENOMINATOR = 1000  # a denominator above this is hard to read


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """Counts of the values, usable bucket sizes in ascending order, and the capacities floors[value, size]."""

    counts: Integers
    sizes: Integers
    floors: Integers

    @property
    def total(self) -> int:
        """The number of records."""
        return int(self.counts.sum())

    def replace_counts(self, counts: Integers) -> Problem:
        """The same sizes and caps for some of the records."""
        return Problem(counts, self.sizes, self.floors)

    def drop_smaller_sizes(self, size: int) -> Problem:
        """The same problem with buckets of at least this many records."""
        is_large_enough = self.sizes >= size
        return Problem(self.counts, self.sizes[is_large_enough], self.floors[:, is_large_enough])


@dataclass(frozen=True, slots=True)
class CapBelowShare:
    """A value is more frequent in the table than its cap allows in any bucket."""

    code: ClassVar[str] = "cap-below-share"
    place: int
    share: Fraction
    cap: Fraction

    @property
    def places(self) -> tuple[int, ...]:
        """The responsible value."""
        return (self.place,)

    @property
    def facts(self) -> dict[str, ErrorField]:
        """The facts of the sentence, for programs."""
        return {"share": str(self.share), "cap": str(self.cap)}

    def explain(self, name_values: Namer) -> str:
        """Describes the reason and the remedy."""
        return (
            f"{name_values(self.places)} has a share of {_format_fraction(self.share)}, above its cap "
            f"{_format_fraction(self.cap)}, so no bucketization exists. Raise the cap to at least "
            f"{_format_fraction(self.share)}."
        )


@dataclass(frozen=True, slots=True)
class LargestTooSmall:
    """A value fits into no bucket of an allowed size."""

    code: ClassVar[str] = "largest-bucket-too-small"
    place: int
    cap: Fraction
    needed_size: int
    largest: int

    @property
    def places(self) -> tuple[int, ...]:
        """The responsible value."""
        return (self.place,)

    @property
    def facts(self) -> dict[str, ErrorField]:
        """The facts of the sentence, for programs."""
        return {"cap": str(self.cap), "needed": self.needed_size, "largest": self.largest}

    def explain(self, name_values: Namer) -> str:
        """Describes the reason and the remedy."""
        return (
            f"{name_values(self.places)} has the cap {_format_fraction(self.cap)} and fits into no bucket of fewer "
            f"than {self.needed_size} records, but the largest bucket may have {self.largest}. Allow buckets of at "
            f"least {self.needed_size}, or raise the cap to at least 1/{self.largest}."
        )


@dataclass(frozen=True, slots=True)
class NothingFits:
    """Some values together do not fit into buckets of the allowed sizes."""

    code: ClassVar[str] = "no-room-in-buckets"
    places: tuple[int, ...]
    largest: int
    feasible: int | None

    @property
    def facts(self) -> dict[str, ErrorField]:
        """The facts of the sentence, for programs."""
        return {"values": len(self.places), "largest": self.largest, "feasible": self.feasible}

    def explain(self, name_values: Namer) -> str:
        """Describes the reason and the remedy."""
        return (
            f"buckets of at most {self.largest} records cannot hold all records with {name_values(self.places)} "
            f"within the caps; {_suggest_larger_buckets(self.feasible)}, or raise the caps of these values."
        )


@dataclass(frozen=True, slots=True)
class NoCombination:
    """The records cannot be divided into buckets of the allowed sizes without a remainder."""

    code: ClassVar[str] = "no-whole-buckets"
    largest: int
    feasible: int | None

    @property
    def places(self) -> tuple[int, ...]:
        """No value is responsible: the cause is divisibility."""
        return ()

    @property
    def facts(self) -> dict[str, ErrorField]:
        """The facts of the sentence, for programs."""
        return {"largest": self.largest, "feasible": self.feasible}

    def explain(self, name_values: Namer) -> str:
        """Describes the reason and the remedy."""
        return (
            f"the records cannot be divided into buckets of at most {self.largest} records within the caps without a "
            f"remainder; {_suggest_larger_buckets(self.feasible)}, or raise the caps."
        )


@dataclass(frozen=True, slots=True)
class TooFewSizes:
    """The method uses one or two sizes, and these are too few for a solution."""

    code: ClassVar[str] = "too-few-bucket-sizes"
    method: str

    @property
    def places(self) -> tuple[int, ...]:
        """No value is responsible."""
        return ()

    @property
    def facts(self) -> dict[str, ErrorField]:
        """The facts of the sentence, for programs."""
        return {"method": self.method}

    def explain(self, name_values: Namer) -> str:
        """Describes the reason and the remedy."""
        return f"the method {self.method!r} finds no buckets within the caps; use 'optimal', or allow larger buckets."


Reason = CapBelowShare | LargestTooSmall | NothingFits | NoCombination | TooFewSizes


class NoBucketingError(InfeasibleError):
    """An error for a missing bucketization, with the indices of the responsible values."""

    def __init__(self, reason: Reason) -> None:
        self.reason = reason
        super().__init__(reason.explain(format_value_count), code=reason.code, fields=reason.facts)

    @property
    def places(self) -> tuple[int, ...]:
        """The indices of the responsible values, in ascending order."""
        return self.reason.places

    def name_values(self, names: Sequence[str]) -> InfeasibleError:
        """Returns the same error with the names of the values added."""

        def join_names(places: Sequence[int]) -> str:
            more = f" and {unnamed_count} other values" if (unnamed_count := len(places) - MOST_NAMED) > 0 else ""
            return ", ".join(names[place] for place in places[:MOST_NAMED]) + more

        return InfeasibleError(
            str(self), code=self.code, fields=self.fields, sentence_with_values=self.reason.explain(join_names)
        )


def pose(counts: Sequence[int], caps: Sequence[Fraction], smallest: int, largest: int) -> Problem:
    """Checks a request and turns it into integers. Sizes that no bucket can have are left out."""
    check_caps(counts, caps, largest)
    sizes = range(smallest, min(largest, sum(counts)) + 1)
    return select_usable_sizes(np.array(counts, dtype=np.int64), sizes, compute_floors(caps, sizes))


def select_usable_sizes(counts: Integers, sizes: Sequence[int], floors: Integers) -> Problem:
    """Selects the sizes of which at least one bucket can be filled."""
    columns = np.array(sizes, dtype=np.int64)
    is_fillable = np.minimum(floors, counts[:, None]).sum(axis=0) >= columns
    return Problem(counts, columns[is_fillable], floors[:, is_fillable])


def check_caps(counts: Sequence[int], caps: Sequence[Fraction], largest: int) -> None:
    """Refuses the first value that no bucketization can protect; ignores values without records."""
    total = sum(counts)
    for place, (count, cap) in enumerate(zip(counts, caps, strict=True)):
        if count and cap < Fraction(count, total):
            raise NoBucketingError(CapBelowShare(place, Fraction(count, total), cap))
    least_sizes = [
        (compute_least_size(cap), -place, cap)
        for place, (count, cap) in enumerate(zip(counts, caps, strict=True))
        if count
    ]
    needed_size, place, cap = max(least_sizes, default=(0, 0, Fraction(1)))
    if largest < needed_size:
        raise NoBucketingError(LargestTooSmall(-place, cap, needed_size, largest))


def _format_fraction(number: Fraction) -> str:
    """Writes short fractions exactly, and long ones as a decimal too."""
    return str(number) if number.denominator < LONG_DENOMINATOR else f"{number} (about {float(number):.4g})"


def _suggest_larger_buckets(feasible: int | None) -> str:
    return f"allow buckets of {feasible}" if feasible else "allow larger buckets"
