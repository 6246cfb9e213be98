"""The kinds of guarantee a mechanism gives: the attackers and the statements each one covers."""

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
        """Whether it holds against fewer attackers than the other, or for fewer statements, at the same numbers."""
        return _rank_guarantee(self) < _rank_guarantee(other)

    def covers(self, other: Guarantee) -> bool:
        """Whether it includes the other guarantee: one for every prior covers the marginal one."""
        return self is other or (self is Guarantee.ANY_PRIOR and other is Guarantee.MARGINAL_PRIOR)


@dataclass(frozen=True, slots=True)
class GuaranteeStatement:
    """A guarantee in words: in short, exactly, and what else the design discloses."""

    short: str
    """At most two lines; true, but not complete."""
    exact: str
    """The strict sentence."""
    details: tuple[str, ...] = ()
    """The probabilities of published values, and what is not covered, one sentence or two each."""

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
"""The guarantees a data steward may insist on; the others come with the request that only one mechanism meets."""

_SENTENCES = {
    Guarantee.ANY_PRIOR: (
        "whatever an attacker knew before, one published value moves the odds of any statement about a person's "
        "value no further than the bound; the design does not depend on anybody's value."
    ),
    Guarantee.SINGLE_VALUES: (
        "whatever an attacker knew before, the odds of each single value rise no further than its own bound; "
        "statements about several values are not covered, and the design may follow the counts of the table."
    ),
    Guarantee.MARGINAL_PRIOR: (
        "the bound holds against an attacker who knows the distribution of the values and nothing else about the "
        "person; other columns, other people and statements about several values are not covered."
    ),
    Guarantee.BUCKET_ONLY: (
        "the cap holds against an attacker who knows a person's bucket and cannot distinguish its people; what "
        "public columns disclose about the values is not covered."
    ),
    Guarantee.DECOYS_ONLY: (
        "the bound holds against an attacker who knows the frequencies of the values and nothing else about the "
        "person; an attacker who already suspects a rare value may become nearly certain."
    ),
}

_LIMITS = {
    Guarantee.ANY_PRIOR: (
        "The guarantee limits what a person's own record adds. For beliefs above the prior, it bounds only the odds."
    ),
    Guarantee.SINGLE_VALUES: (
        "Statements about several values are not covered, and the design may depend on counts of the table."
    ),
    Guarantee.MARGINAL_PRIOR: (
        "Attackers who know more than the frequencies of the values are not covered, nor statements about several "
        "values."
    ),
    Guarantee.BUCKET_ONLY: (
        "Attackers who can distinguish the people of a bucket are not covered. Public columns help to do so."
    ),
    Guarantee.DECOYS_ONLY: (
        "Attackers who know more than the frequencies are not covered. If they suspect a rare value and see it "
        "published, they may become nearly certain."
    ),
}


def _rank_guarantee(guarantee: Guarantee) -> int:
    """Ranks a guarantee by reach: every attacker and statement, every attacker and single values, few attackers."""
    if guarantee is Guarantee.ANY_PRIOR:
        return 2
    return 1 if guarantee.is_for_everybody else 0
