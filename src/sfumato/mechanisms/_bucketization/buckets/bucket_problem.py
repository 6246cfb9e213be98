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
from sfumato.mechanisms._bucketization.buckets.share_caps import Integers, compute_floors, least_size

Namer = Callable[[Sequence[int]], str]
"""Says which values are meant, or how many, given their places."""
NAMED_AT_MOST = 5
LONG = 1000  # a denominator that says little to a reader


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

    def part(self, counts: Integers) -> Problem:
        """Pose the same sizes and caps for some of the records."""
        return Problem(counts, self.sizes, self.floors)

    def at_least(self, size: int) -> Problem:
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

    def sentence(self, name: Namer) -> str:
        """Word the reason and the remedy."""
        return (
            f"{name(self.places)} holds {_number(self.share)} of the records, above its cap {_number(self.cap)}: no "
            f"bucketization exists; raise the cap to at least {_number(self.share)}, or merge it with a similar value."
        )


@dataclass(frozen=True, slots=True)
class LargestTooSmall:
    """A value fits into no bucket of an allowed size."""

    place: int
    cap: Fraction
    needed: int
    largest: int

    @property
    def places(self) -> tuple[int, ...]:
        """The value to blame."""
        return (self.place,)

    def sentence(self, name: Namer) -> str:
        """Word the reason and the remedy."""
        return (
            f"{name(self.places)} has the cap {_number(self.cap)} and fits into no bucket of fewer than {self.needed} "
            f"records, but the largest bucket is to have {self.largest}; allow buckets of at least {self.needed}, or "
            f"raise the cap to at least 1/{self.largest}."
        )


@dataclass(frozen=True, slots=True)
class NothingFits:
    """Some values together find no room in buckets of the allowed sizes."""

    places: tuple[int, ...]
    largest: int
    feasible: int | None

    def sentence(self, name: Namer) -> str:
        """Word the reason and the remedy."""
        return (
            f"buckets of at most {self.largest} records have no room for {name(self.places)} within the caps; "
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

    def sentence(self, name: Namer) -> str:
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

    def sentence(self, name: Namer) -> str:
        """Word the reason and the remedy."""
        return f"the method {self.method!r} finds no buckets within the caps; use 'optimal', or allow larger buckets."


Reason = CapBelowShare | LargestTooSmall | NothingFits | NoCombination | TooFewSizes


class Blocked(InfeasibleError):
    """No bucketing exists, for a reason that knows the places of the values to blame."""

    def __init__(self, reason: Reason) -> None:
        self.reason = reason
        super().__init__(reason.sentence(format_value_count))

    @property
    def places(self) -> tuple[int, ...]:
        """The places of the values to blame, in ascending order."""
        return self.reason.places

    def named(self, names: Sequence[str]) -> InfeasibleError:
        """Say the same with the values' own names beside it."""

        def named(places: Sequence[int]) -> str:
            more = f" and {left} more" if (left := len(places) - NAMED_AT_MOST) > 0 else ""
            return ", ".join(names[place] for place in places[:NAMED_AT_MOST]) + more

        return InfeasibleError(str(self), with_values=self.reason.sentence(named))


def pose(counts: Sequence[int], caps: Sequence[Fraction], smallest: int, largest: int) -> Problem:
    """Check a request and turn it into integers; sizes that no bucket can have are left out."""
    check_caps(counts, caps, largest)
    sizes = range(smallest, min(largest, sum(counts)) + 1)
    return select_usable_sizes(np.array(counts, dtype=np.int64), sizes, compute_floors(caps, sizes))


def select_usable_sizes(counts: Integers, sizes: Sequence[int], fits: Integers) -> Problem:
    """Keep the sizes of which at least one bucket can be filled."""
    columns = np.array(sizes, dtype=np.int64)
    fillable = np.minimum(fits, counts[:, None]).sum(axis=0) >= columns
    return Problem(counts, columns[fillable], fits[:, fillable])


def check_caps(counts: Sequence[int], caps: Sequence[Fraction], largest: int) -> None:
    """Raise for the first value that no bucketing can serve; values without records are not looked at."""
    total = sum(counts)
    for place, (count, cap) in enumerate(zip(counts, caps, strict=True)):
        if count and cap < Fraction(count, total):
            raise Blocked(CapBelowShare(place, Fraction(count, total), cap))
    strict = [
        (least_size(cap), -place, cap) for place, (count, cap) in enumerate(zip(counts, caps, strict=True)) if count
    ]
    needed, place, cap = max(strict, default=(0, 0, Fraction(1)))
    if largest < needed:
        raise Blocked(LargestTooSmall(-place, cap, needed, largest))


def _number(number: Fraction) -> str:
    """Write short fractions as they are, and long ones as a decimal too."""
    return str(number) if number.denominator < LONG else f"{number} (about {float(number):.4g})"


def _suggest_larger_buckets(feasible: int | None) -> str:
    return f"allow buckets of {feasible}" if feasible else "allow larger buckets"
