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
    ANY_PRIOR_COUNTED = "any-prior-counted"
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
        return self in (Guarantee.ANY_PRIOR, Guarantee.ANY_PRIOR_COUNTED, Guarantee.SINGLE_VALUES)

    @property
    def covers_all_statements(self) -> bool:
        """Whether it holds for any prior knowledge and for every statement about a person's value."""
        return self in (Guarantee.ANY_PRIOR, Guarantee.ANY_PRIOR_COUNTED)

    def is_weaker_than(self, other: Guarantee) -> bool:
        """Whether this guarantee covers fewer attackers or fewer statements than the other, with the same bound."""
        return _rank_guarantee(self) < _rank_guarantee(other)

    def covers(self, other: Guarantee) -> bool:
        """Whether this guarantee has at least the reach of the other, for the same bound.

        The two guarantees for every prior have the same reach. They differ in the belief before the release.
        """
        is_within_reach = other is Guarantee.MARGINAL_PRIOR or other.covers_all_statements
        return self is other or (self.covers_all_statements and is_within_reach)


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
    Guarantee.ANY_PRIOR_COUNTED: (
        "whatever an attacker knew before, the fact that a person was counted multiplies or divides the odds of any "
        "statement about the person's value by no more than the bound allows. The design does not depend on "
        "anybody's value."
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
    Guarantee.ANY_PRIOR_COUNTED: (
        "The guarantee limits what counting one person adds to an attacker's knowledge. People who are tied to each "
        "other and have equal public columns are less protected than by records. A confidence that was above the prior "
        "before has no fixed limit; only the factor by which its odds can rise is limited."
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
    if guarantee.covers_all_statements:
        return 2
    return 1 if guarantee.is_for_everybody else 0
