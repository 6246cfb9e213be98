"""How often each value of a column occurs: all that planning may look at."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from sfumato.errors import SchemaError
from sfumato.request.values import Value


@dataclass(frozen=True, slots=True)
class Histogram:
    """The values of a domain, in its canonical order, and the count of each; zero counts included."""

    values: tuple[Value, ...]
    counts: tuple[int, ...]

    def __post_init__(self) -> None:
        if len(self.values) != len(self.counts):
            raise SchemaError(f"{len(self.values)} values and {len(self.counts)} counts do not fit together.")
        if any(count < 0 for count in self.counts):
            raise SchemaError("a count is below zero.")
        if len({(type(value), value) for value in self.values}) != len(self.values):
            raise SchemaError("a value occurs twice in the domain; name each value once.")
        if not self.total:
            raise SchemaError("the table is empty: there is nothing to publish.")

    @classmethod
    def of(cls, values: Sequence[Value], counts: Sequence[int]) -> Histogram:
        """Make a histogram of any two sequences."""
        return cls(tuple(values), tuple(operator.index(count) for count in counts))

    @property
    def total(self) -> int:
        """The number of records."""
        return sum(self.counts)

    @property
    def domain_size(self) -> int:
        """The number of values, those that do not occur included."""
        return len(self.values)

    @property
    def shares(self) -> tuple[Fraction, ...]:
        """The exact share of the records that holds each value."""
        total = self.total
        return tuple(Fraction(count, total) for count in self.counts)

    def above(self, share: Fraction) -> tuple[Value, ...]:
        """The values whose share exceeds the given one, decided in integers."""
        limit = share.numerator * self.total
        return tuple(
            value for value, count in zip(self.values, self.counts, strict=True) if count * share.denominator > limit
        )
