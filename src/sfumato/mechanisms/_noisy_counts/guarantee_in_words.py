"""States the guarantee of noisy counts in words."""

from __future__ import annotations

import math
from collections.abc import Sequence

from sfumato._figures.number_format import format_upper_factor
from sfumato._request.belief_bounds import BreachBound
from sfumato._request.guarantee import GuaranteeStatement
from sfumato.mechanisms._randomized_response.guarantee_sentences import format_chance
from sfumato.mechanisms._subset_selection import subset_mechanism as subset

NOT_COUNTED = (
    "Read as if the person had not been counted means: the counts of all others, with noise of the same shape that "
    "adds up to 1 instead of 0, so that the total is still the size of the group. For an attacker who knows all "
    "others, or who thinks that people's values are independent, this tells nothing of the person. Compared with a "
    "release in which somebody else had taken the person's place, the factor is at most its square."
)
TIES = (
    "People who are tied to each other and have equal public columns are less protected than by records. Their "
    "shared factor is typically much larger than with records. It is at most the product of their factors."
)
ALONE = (
    "Being one of many people with equal public columns does not hide a person beyond this bound, as it does with "
    "records."
)
GROUP_FACTS = (
    "If all people of a small group have the same value, the counts tell this fact about the group with little doubt."
)


def state_counted_guarantee(
    bound: BreachBound, smallest_crowd: int, sets: subset.Design, coarse_columns: Sequence[Sequence[str]] = ()
) -> GuaranteeStatement:
    """States the guarantee for people in crowds and for all others, who are all in the coarse tables too."""
    prior, posterior = format_chance(bound.prior), format_chance(bound.posterior)
    factor = format_upper_factor(bound.person_amplification)
    rows = "" if bound.rows == 1 else f" with at most {bound.rows} records"
    person = f"one person{rows}"
    odds = (
        f"The odds of the statement rise and fall by a factor of at most {factor} (epsilon is ln {factor}, about "
        f"{math.log(bound.person_amplification):.2f})."
    )
    short = (
        f"Anyone who thinks it at most {prior} likely that a person has a given value can think it at most "
        f"{posterior} likely because that person was counted, whatever else they know."
    )
    exact = (
        f"Take any statement about the sensitive value of {person}. If somebody, from all they know and from the "
        "published counts read as if that person had not been counted, gives it a chance of at most "
        f"{bound.prior}, then knowing that the person was counted they give it at most {bound.posterior}; and at "
        f"least {bound.posterior} stays at least {bound.prior}. {odds}"
    )
    own_rows = (
        f"A person in a group of fewer than {smallest_crowd} people with equal public columns is not counted. The "
        f"person has a row with a set of {sets.subset_size} of the {len(sets.domain)} values. Whatever an attacker "
        "knows besides this set, the set changes the odds by at most the same factor."
    )
    if not coarse_columns:
        return GuaranteeStatement(short, exact, (NOT_COUNTED, own_rows, TIES, ALONE, GROUP_FACTS))
    tables = " and by ".join(", ".join(map(repr, columns)) for columns in coarse_columns)
    shared = (
        f"Everybody is also counted by {tables}. These tables share the bound: the product of the factors of all "
        "tables in which a person is counted, and of the person's set, is at most the factor of the odds."
    )
    own_rows = f"{own_rows[:-1]} and the counts of these tables, read as above."
    return GuaranteeStatement(short, exact, (shared, NOT_COUNTED, own_rows, TIES, ALONE, GROUP_FACTS))
