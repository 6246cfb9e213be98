"""The kinds of guarantee that mechanisms give, with the attackers and the statements that each kind covers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Self

from sfumato._core.json_types import Json


class Guarantee(StrEnum):
    """The kinds of guarantee, each with a sentence about its reach."""

    ANY_PRIOR = "any-prior"
    SINGLE_VALUES = "single-values"
    MARGINAL_PRIOR = "marginal-prior"
    BUCKET_ONLY = "bucket-only"
    DECOYS_ONLY = "decoys-only"

    @property
    def sentence(self) -> str:
        """The reach of the guarantee and its limits, in one sentence."""
        return _SENTENCES[self]

    @property
    def limit(self) -> str:
        """The attackers or statements that the guarantee does not cover, in one sentence."""
        return _LIMITS[self]

    @property
    def is_for_everybody(self) -> bool:
        """Whether it holds for any prior knowledge of an attacker; otherwise only for knowledge of frequencies."""
        return self in (Guarantee.ANY_PRIOR, Guarantee.SINGLE_VALUES)

    def is_weaker_than(self, other: Guarantee) -> bool:
        """Whether this guarantee covers fewer attackers or fewer statements than the other, with the same bound."""
        return _rank_guarantee(self) < _rank_guarantee(other)

    def covers(self, other: Guarantee) -> bool:
        """Whether this guarantee implies the other one, as one for every prior implies one for the marginal prior."""
        return self is other or (self is Guarantee.ANY_PRIOR and other is Guarantee.MARGINAL_PRIOR)


@dataclass(frozen=True, slots=True)
class GuaranteeStatement:
    """A guarantee in words: in short, exactly, and what else the design discloses."""

    short: str
    """A summary of at most two lines, which is true but not complete."""
    exact: str
    """The strict sentence."""
    details: tuple[str, ...] = ()
    """The probabilities of published values, and the limits of the guarantee, in one or two sentences each."""

    def add_details(self, details: Sequence[str]) -> Self:
        """The statement with further details at its end."""
        return replace(self, details=(*self.details, *filter(None, details)))

    def to_json(self) -> Json:
        """Writes the statement for programs."""
        return {"short": self.short, "exact": self.exact, "details": list(self.details)}

    @property
    def text(self) -> str:
        """The strict sentence and the details, as one text."""
        return " ".join([self.exact, *self.details])


SELECTABLE_GUARANTEES = (Guarantee.ANY_PRIOR, Guarantee.MARGINAL_PRIOR)
"""The guarantees that a data steward may choose.

Each other guarantee belongs to a request that only one mechanism meets.
"""

_SENTENCES = {
    Guarantee.ANY_PRIOR: (
        "whatever an attacker knew before, one published value multiplies or divides the odds of any statement about "
        "a person's value by no more than the bound allows. The design does not depend on anybody's value."
    ),
    Guarantee.SINGLE_VALUES: (
        "whatever an attacker knew before, one published value multiplies the odds of any single value by no more "
        "than that value's bound allows. Statements about several values are not covered, and the design may depend "
        "on counts from the table."
    ),
    Guarantee.MARGINAL_PRIOR: (
        "the bound holds against an attacker who knows the distribution of the values and nothing else about the "
        "person. Attackers who know other columns or other people's values are not covered, nor are statements about "
        "several values."
    ),
    Guarantee.BUCKET_ONLY: (
        "the cap holds against an attacker who knows a person's bucket and cannot distinguish the people in the "
        "bucket. Disclosure by public columns is not covered."
    ),
    Guarantee.DECOYS_ONLY: (
        "the bound holds against an attacker who knows the frequencies of the values and nothing else about the "
        "person. An attacker who already suspects a rare value may become nearly certain of the value."
    ),
}

_LIMITS = {
    Guarantee.ANY_PRIOR: (
        "The guarantee limits what a person's own record adds to an attacker's knowledge. A "
        "confidence that was above the prior before has no fixed limit; only the factor by which its odds can rise is "
        "limited."
    ),
    Guarantee.SINGLE_VALUES: (
        "Statements about several values are not covered, and the design may depend on counts from the table."
    ),
    Guarantee.MARGINAL_PRIOR: (
        "Attackers who know more than the frequencies of the values are not covered. Statements about several values "
        "are not covered either."
    ),
    Guarantee.BUCKET_ONLY: (
        "Attackers who can distinguish the people in a bucket are not covered. Public columns help attackers to "
        "distinguish them."
    ),
    Guarantee.DECOYS_ONLY: (
        "Attackers who know more than the frequencies of the values are not covered. An attacker who suspects a rare "
        "value and sees it published may become nearly certain."
    ),
}


def _rank_guarantee(guarantee: Guarantee) -> int:
    """Ranks a guarantee by what it covers.

    First is every attacker and statement, then every attacker and single values, then few attackers.
    """
    if guarantee is Guarantee.ANY_PRIOR:
        return 2
    return 1 if guarantee.is_for_everybody else 0
