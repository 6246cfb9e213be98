"""Privacy requests: one frozen class for each definition, in exact rationals."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import TypeVar

from sfumato.errors import SpecError
from sfumato.request.histogram import Histogram
from sfumato.request.values import Value, display

Exact = str | int | Fraction | Decimal

_HUGE = re.compile(r"[eE][-+]?[\d_]{4}")
"""An exponent that would take minutes and gigabytes to write out; a stranger's release may hold one."""


def exact(number: Exact, what: str = "a number") -> Fraction:
    """Read an exact rational from `1/13`, `0.02`, `3`, a Fraction or a Decimal.

    Floats are refused: 0.1 as a float is not one tenth, and a promise must not rest on the difference.
    """
    if isinstance(number, float):
        written = float.__repr__(number)
        raise SpecError(f"{what} must be exact, and the float {written} is not: write it as a string, '{written}'.")
    try:
        if isinstance(number, str) and _HUGE.search(number):
            raise ValueError("the exponent is too large")
        return Fraction(number)
    except (ValueError, ZeroDivisionError, OverflowError, TypeError) as error:
        raise SpecError(f"{what} is {number!r}: write a number such as 1/13, 0.02 or 3.") from error


@dataclass(frozen=True, slots=True, init=False)
class BreachBound:
    """Whoever believed a property with at most `prior` believes it with at most `posterior` afterwards.

    Source: Evfimievski, Gehrke and Srikant 2003 ((rho1, rho2)-privacy).
    Notation: rho1 = prior, rho2 = posterior, gamma = amplification.
    """

    prior: Fraction
    posterior: Fraction

    def __init__(self, prior: Exact, posterior: Exact) -> None:
        object.__setattr__(self, "prior", exact(prior, "the prior"))
        object.__setattr__(self, "posterior", exact(posterior, "the posterior"))
        self._check()

    def _check(self) -> None:
        if self.prior <= 0:
            raise SpecError(
                f"the prior is {self.prior}, and must be above 0: it is the belief to protect, such as 1/10."
            )
        if self.posterior >= 1:
            raise SpecError(
                f"the posterior is {self.posterior}, and must be below 1: a posterior of 1 lets an attacker be "
                "certain, so nothing would be protected."
            )
        if self.prior >= self.posterior:
            raise SpecError(
                f"the prior {self.prior} must be below the posterior {self.posterior}: the bound says how far a belief "
                "may rise, and no table can be published if it may not rise at all."
            )

    @property
    def amplification(self) -> Fraction:
        """The largest factor by which a published value may multiply anybody's odds; exact, above 1."""
        return self.posterior * (1 - self.prior) / (self.prior * (1 - self.posterior))


Given = TypeVar("Given")

LONGEST_VALUE = 1000
"""A longer value in a file of bounds or caps is a mistake."""


def _read_csv(path: Path, columns: tuple[str, ...]) -> dict[Value, dict[str, str]]:
    """The lines of a CSV by their value, which each has once."""
    rows: dict[Value, dict[str, str]] = {}
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            for row in csv.DictReader(file):
                value = row["value"] or None
                if len(value or "") > LONGEST_VALUE:  # other libraries may have lifted the limit of csv
                    raise csv.Error
                if value in rows:
                    raise SpecError(f"{str(path)!r} has two lines for {display(value)!r}; write one.")
                rows[value] = {column: row[column] + "" for column in columns}
    except OSError as error:
        raise SpecError(f"{str(path)!r} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise SpecError(f"{str(path)!r} is not UTF-8 text; save it as UTF-8.") from error
    except (KeyError, TypeError, csv.Error) as error:
        raise SpecError(f"{str(path)!r} must have the columns {', '.join(columns)}.") from error
    if not rows:
        raise SpecError(f"{str(path)!r} names no value; write a line for each value to protect.")
    return rows


def _matched(given: Mapping[Value, Given], values: Sequence[Value], what: str) -> tuple[Given | None, ...]:
    """What is given for each value of a domain; a value that is no text may be named by its text."""
    lacking = set(given)
    found = []
    for value in values:
        key = value if value in given or value is None else display(value)
        found.append(given.get(key))
        lacking.discard(key)
    if lacking:
        named = ", ".join(repr(display(value)) for value in sorted(lacking, key=display)[:3])
        raise SpecError(f"there is a {what} for a value that is not in the domain: {named}; correct it.")
    return tuple(found)


FINEST_STEPS, COARSEST_STEP = 100, 10
"""Shares are rounded down to hundredths, or to ten records if that is coarser, before something published follows."""

SMALLEST_PRIOR = Fraction(1, 10**9)
"""Stands for a share that was rounded down to nothing: below the share of one record in a thousand million."""


def coarse_steps(total: int) -> int:
    """Into how many steps shares of a table of this size are cut where what is published follows them."""
    return max(1, min(FINEST_STEPS, total // COARSEST_STEP))


@dataclass(frozen=True, slots=True)
class BreachBoundPerValue:
    """A bound for each value; a value without one is not protected.

    Source: the fine-grain model, in which a value that is harmless may be published more often as it is.
    Notation: rho1i = prior, rho2i = posterior and gamma_i = amplification of the bound of value i.
    """

    bounds: Mapping[Value, BreachBound]

    def __post_init__(self) -> None:
        if not self.bounds:
            raise SpecError("no value has a bound, so nothing would be protected; give at least one.")

    @classmethod
    def from_tolerance(cls, histogram: Histogram, tolerance: Exact) -> BreachBoundPerValue:
        """Let the belief in each value rise from its share to `tolerance` times its share.

        Shares are first rounded down to coarse steps: the amplification that a tolerance allows grows with the share,
        so this rounds towards privacy, and the bounds tell no more than the steps. A value of which `tolerance` times
        the share reaches 1 has no bound, as in the paper.
        """
        factor = Tolerance(tolerance).factor
        steps = coarse_steps(histogram.total)
        bounds: dict[Value, BreachBound] = {}
        for value, share in zip(histogram.values, histogram.shares, strict=True):
            prior = max(Fraction(math.floor(share * steps), steps), SMALLEST_PRIOR)
            if factor * prior < 1:
                bounds[value] = BreachBound(prior, factor * prior)
        if not bounds:
            raise SpecError(
                f"with a tolerance of {factor} the belief in every value may rise to certainty, so nothing would be "
                "protected; choose a smaller one."
            )
        return cls(bounds)

    @classmethod
    def read(cls, path: Path) -> BreachBoundPerValue:
        """Read a CSV with the columns value, prior and posterior; an empty value is the missing one."""
        rows = _read_csv(path, ("value", "prior", "posterior"))
        return cls({value: _bound_of(row, value, path) for value, row in rows.items()})

    def of(self, values: Sequence[Value]) -> tuple[BreachBound | None, ...]:
        """The bound of each value of a domain; a value that is no text may be named by its text."""
        return _matched(self.bounds, values, "bound")


def _bound_of(row: Mapping[str, str], value: Value, path: Path) -> BreachBound:
    try:
        return BreachBound(row["prior"].strip(), row["posterior"].strip())
    except SpecError as error:
        raise SpecError(f"the bound of {display(value)!r} in {str(path)!r} is wrong: {error}") from error


@dataclass(frozen=True, slots=True, init=False)
class Tolerance:
    """A request for bounds from the table's own shares: from a share to `factor` times that share.

    Notation: theta = factor.
    """

    factor: Fraction = field()

    def __init__(self, factor: Exact) -> None:
        object.__setattr__(self, "factor", exact(factor, "the tolerance"))
        if self.factor <= 1:
            raise SpecError(f"the tolerance is {self.factor}, and must be above 1: a belief may rise by this factor.")


@dataclass(frozen=True, slots=True)
class ShareCap:
    """A cap for each value on its share of any bucket: what the bucket alone lets one infer of a record in it.

    Source: F'-privacy, in which each value has a cap of its own; a value that is not named has the cap 1.
    Notation: f'_i = cap of value i.
    """

    caps: Mapping[Value, Fraction]

    def __post_init__(self) -> None:
        if not self.caps:
            raise SpecError("no value has a cap, so nothing would be protected; give at least one.")
        for value, cap in self.caps.items():
            if not 0 < cap <= 1:
                raise SpecError(f"the cap of {display(value)!r} is {cap}, and must be above 0 and at most 1.")

    @classmethod
    def linear(cls, histogram: Histogram, factor: Exact, offset: Exact = 0) -> ShareCap:
        """The cap min(1, factor * share + offset) for each value."""
        made = LinearCap(factor, offset)
        pairs = zip(histogram.values, histogram.shares, strict=True)
        # A value that nobody has is in no bucket, so its cap decides nothing; it must still be a cap.
        smallest = Fraction(1, 10**9)
        return cls(
            {value: max(min(Fraction(1), made.factor * share + made.offset), smallest) for value, share in pairs}
        )

    @classmethod
    def read(cls, path: Path) -> ShareCap:
        """Read a CSV with the columns value and cap; an empty value is the missing one."""
        rows = _read_csv(path, ("value", "cap"))
        return cls({value: exact(row["cap"].strip(), "a cap") for value, row in rows.items()})

    def of(self, values: Sequence[Value]) -> tuple[Fraction, ...]:
        """The cap of each value of a domain."""
        return tuple(Fraction(1) if cap is None else cap for cap in _matched(self.caps, values, "cap"))


@dataclass(frozen=True, slots=True, init=False)
class LinearCap:
    """A request for caps from the table's own shares: `factor` times the share plus `offset`, at most 1."""

    factor: Fraction
    offset: Fraction

    def __init__(self, factor: Exact, offset: Exact = 0) -> None:
        object.__setattr__(self, "factor", exact(factor, "the cap factor"))
        object.__setattr__(self, "offset", exact(offset, "the cap offset"))
        if self.factor < 0 or self.offset < 0 or self.factor + self.offset == 0:
            raise SpecError(
                f"the cap factor {self.factor} and offset {self.offset} must not be below 0, nor both 0: a cap is "
                "factor * share + offset."
            )


@dataclass(frozen=True, slots=True)
class Diversity:
    """Every bucket holds at least `ell` different values, each at most once."""

    ell: int

    def __post_init__(self) -> None:
        if self.ell < 2:  # noqa: PLR2004
            raise SpecError(f"the diversity is {self.ell}, and must be at least 2: one value alone is no diversity.")


@dataclass(frozen=True, slots=True)
class DecoyGroups:
    """Every record publishes a value drawn from a group of at least `group_size` records with different values.

    `sizes` are the numbers of values of several columns that are protected each for itself; empty for one column.
    """

    group_size: int
    sizes: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.group_size < 2:  # noqa: PLR2004
            raise SpecError(f"the group size is {self.group_size}, and must be at least 2: one record has no decoys.")


PrivacySpec = BreachBound | BreachBoundPerValue | Tolerance | ShareCap | LinearCap | Diversity | DecoyGroups
