"""What kind of promise a mechanism makes: against whose knowledge it holds, and for which statements."""

from __future__ import annotations

from enum import StrEnum


class Guarantee(StrEnum):
    """The kinds of promise, each with the sentence that says how far it goes."""

    ANY_PRIOR = "any-prior"
    SINGLE_VALUES = "single-values"
    MARGINAL_PRIOR = "marginal-prior"
    BUCKET_ONLY = "bucket-only"
    DECOYS_ONLY = "decoys-only"

    @property
    def sentence(self) -> str:
        """How far the promise goes, and where it ends."""
        return _SENTENCES[self]

    @property
    def is_for_everybody(self) -> bool:
        """Whether it holds whatever somebody knew before; else for those who know how frequent the values are."""
        return self in (Guarantee.ANY_PRIOR, Guarantee.SINGLE_VALUES)

    def is_weaker_than(self, other: Guarantee) -> bool:
        """Whether it holds against fewer people than the other, or for fewer statements, at the same numbers."""
        return _rank_guarantee(self) < _rank_guarantee(other)

    def covers(self, other: Guarantee) -> bool:
        """Whether whoever gets this promise has the other one too: one for every prior covers the marginal one."""
        return self is other or (self is Guarantee.ANY_PRIOR and other is Guarantee.MARGINAL_PRIOR)


SELECTABLE_GUARANTEES = (Guarantee.ANY_PRIOR, Guarantee.MARGINAL_PRIOR)
"""What a holder may insist on; the others come with the request that only one mechanism meets."""

_SENTENCES = {
    Guarantee.ANY_PRIOR: (
        "whatever somebody knew before, and for every statement about a person's value, one published value moves the "
        "odds no further than the bound; the design does not depend on anybody's value."
    ),
    Guarantee.SINGLE_VALUES: (
        "whatever somebody knew before, the odds of each single value rise no further than its own bound; statements "
        "about several values are not covered, and the design may follow the counts of the table."
    ),
    Guarantee.MARGINAL_PRIOR: (
        "the bound holds for somebody who knows how the values are distributed and nothing else about the person; "
        "other columns, other people and statements about several values are not covered."
    ),
    Guarantee.BUCKET_ONLY: (
        "the cap holds for somebody who knows a person's bucket and nothing that tells its people apart; what public "
        "columns say about the values is not covered."
    ),
    Guarantee.DECOYS_ONLY: (
        "the bound holds for somebody who knows how frequent the values are and nothing else about the person; whoever "
        "suspects a rare value already may become nearly certain."
    ),
}


def _rank_guarantee(guarantee: Guarantee) -> int:
    """How far a promise goes: for everybody and every statement, for everybody and single values, for few."""
    if guarantee is Guarantee.ANY_PRIOR:
        return 2
    return 1 if guarantee.is_for_everybody else 0
