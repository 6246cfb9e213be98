"""What is to be bucketed, and why it sometimes cannot be.

A problem holds integers only: how many records each value has, which bucket sizes may be used, and how many records of
each value fit into a bucket of each size. Functions that find no answer raise `Blocked`. It carries the places of the
values to blame, and is worded here, once the caller knows what the values are called.

Notation: o_i = counts[i], |T| = total, S = size, c_i(S) = floors[i, S], M = smallest, M' = largest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from sfumato._core.cell_values import format_value_count
from sfumato.errors import InfeasibleError
from sfumato.mechanisms._bucketization.buckets.cap_rounding import Integers, compute_floors, compute_least_size

# How far to go along a row of settings until every condition holds: all of them are linear in the step.


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
"""Says which values are meant, or how many, given their places."""
MOST_NAMED = 5
LONG_DENOMINATOR = 1000  # a denominator that says little to a reader


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """Counts of the values, usable bucket sizes in ascending order, and what fits: floors[value, size]."""

    counts: Integers
    sizes: Integers
    floors: Integers

    @property
    def total(self) -> int:
        """The number of records."""
        return int(self.counts.sum())

    def replace_counts(self, counts: Integers) -> Problem:
        """Pose the same sizes and caps for some of the records."""
        return Problem(counts, self.sizes, self.floors)

    def drop_smaller_sizes(self, size: int) -> Problem:
        """Pose the same with buckets of so many records and more."""
        is_large_enough = self.sizes >= size
        return Problem(self.counts, self.sizes[is_large_enough], self.floors[:, is_large_enough])


@dataclass(frozen=True, slots=True)
class CapBelowShare:
    """A value is more frequent in the table than it may be in any bucket."""

    place: int
    share: Fraction
    cap: Fraction

    @property
    def places(self) -> tuple[int, ...]:
        """The value to blame."""
        return (self.place,)

    def explain(self, name_values: Namer) -> str:
        """Word the reason and the remedy."""
        return (
            f"{name_values(self.places)} holds {_format_fraction(self.share)} of the records, above its cap "
            f"{_format_fraction(self.cap)}: no bucketization exists; raise the cap to at least "
            f"{_format_fraction(self.share)}, or merge it with a similar value."
        )


@dataclass(frozen=True, slots=True)
class LargestTooSmall:
    """A value fits into no bucket of an allowed size."""

    place: int
    cap: Fraction
    needed_size: int
    largest: int

    @property
    def places(self) -> tuple[int, ...]:
        """The value to blame."""
        return (self.place,)

    def explain(self, name_values: Namer) -> str:
        """Word the reason and the remedy."""
        return (
            f"{name_values(self.places)} has the cap {_format_fraction(self.cap)} and fits into no bucket of fewer "
            f"than {self.needed_size} records, but the largest bucket is to have {self.largest}; allow buckets of at "
            f"least {self.needed_size}, or raise the cap to at least 1/{self.largest}."
        )


@dataclass(frozen=True, slots=True)
class NothingFits:
    """Some values together find no room in buckets of the allowed sizes."""

    places: tuple[int, ...]
    largest: int
    feasible: int | None

    def explain(self, name_values: Namer) -> str:
        """Word the reason and the remedy."""
        return (
            f"buckets of at most {self.largest} records have no room for {name_values(self.places)} within the caps; "
            f"{_suggest_larger_buckets(self.feasible)}, or raise the caps of these values."
        )


@dataclass(frozen=True, slots=True)
class NoCombination:
    """No whole numbers of buckets of the allowed sizes hold exactly the records."""

    largest: int
    feasible: int | None

    @property
    def places(self) -> tuple[int, ...]:
        """Nobody is to blame: it is a matter of divisibility."""
        return ()

    def explain(self, name_values: Namer) -> str:
        """Word the reason and the remedy."""
        return (
            f"no whole numbers of buckets of at most {self.largest} records hold exactly these records within the "
            f"caps; {_suggest_larger_buckets(self.feasible)}, or raise the caps."
        )


@dataclass(frozen=True, slots=True)
class TooFewSizes:
    """The method uses one or two sizes, and there is no answer with so few."""

    method: str

    @property
    def places(self) -> tuple[int, ...]:
        """Nobody is to blame."""
        return ()

    def explain(self, name_values: Namer) -> str:
        """Word the reason and the remedy."""
        return f"the method {self.method!r} finds no buckets within the caps; use 'optimal', or allow larger buckets."


Reason = CapBelowShare | LargestTooSmall | NothingFits | NoCombination | TooFewSizes


class NoBucketingError(InfeasibleError):
    """No bucketing exists, for a reason that knows the places of the values to blame."""

    def __init__(self, reason: Reason) -> None:
        self.reason = reason
        super().__init__(reason.explain(format_value_count))

    @property
    def places(self) -> tuple[int, ...]:
        """The places of the values to blame, in ascending order."""
        return self.reason.places

    def name_values(self, names: Sequence[str]) -> InfeasibleError:
        """Say the same with the values' own names beside it."""

        def join_names(places: Sequence[int]) -> str:
            more = f" and {unnamed_count} more" if (unnamed_count := len(places) - MOST_NAMED) > 0 else ""
            return ", ".join(names[place] for place in places[:MOST_NAMED]) + more

        return InfeasibleError(str(self), sentence_with_values=self.reason.explain(join_names))


def pose(counts: Sequence[int], caps: Sequence[Fraction], smallest: int, largest: int) -> Problem:
    """Check a request and turn it into integers; sizes that no bucket can have are left out."""
    check_caps(counts, caps, largest)
    sizes = range(smallest, min(largest, sum(counts)) + 1)
    return select_usable_sizes(np.array(counts, dtype=np.int64), sizes, compute_floors(caps, sizes))


def select_usable_sizes(counts: Integers, sizes: Sequence[int], floors: Integers) -> Problem:
    """Keep the sizes of which at least one bucket can be filled."""
    columns = np.array(sizes, dtype=np.int64)
    is_fillable = np.minimum(floors, counts[:, None]).sum(axis=0) >= columns
    return Problem(counts, columns[is_fillable], floors[:, is_fillable])


def check_caps(counts: Sequence[int], caps: Sequence[Fraction], largest: int) -> None:
    """Raise for the first value that no bucketing can serve; values without records are not looked at."""
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
    """Write short fractions as they are, and long ones as a decimal too."""
    return str(number) if number.denominator < LONG_DENOMINATOR else f"{number} (about {float(number):.4g})"


def _suggest_larger_buckets(feasible: int | None) -> str:
    return f"allow buckets of {feasible}" if feasible else "allow larger buckets"
