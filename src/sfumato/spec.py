"""Privacy requests: one frozen class for each definition, in exact rationals."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from sfumato.errors import SpecError

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


PrivacySpec = BreachBound
