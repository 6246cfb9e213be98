"""Sentences and numbers that several mechanisms share, about sub-tables and guarantees."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction

from sfumato._core.cell_values import to_json
from sfumato._core.json_types import Json, JsonView
from sfumato._figures.number_format import format_upper_factor
from sfumato._request.belief_bounds import BreachBound
from sfumato._request.guarantee import GuaranteeStatement
from sfumato._request.histogram import Histogram
from sfumato.errors import InfeasibleError

BOUND_RISK = 0.05
"""The error bound of the small-domain paper (its Theorem 2) holds with probability 1 - RISK."""

BOUND_FACTOR = 2 * math.sqrt(math.log(2 / BOUND_RISK))
"""The factor of this bound that depends only on the risk."""

LONGEST_RATIO = 12
"""A rational longer than this is displayed as a decimal."""


def compute_error_bound(total: int, retention: Fraction) -> float:
    """The bound on the error of any share by Theorem 2 of the small-domain paper. It is 5 to 57 times too large."""
    return BOUND_FACTOR / (math.sqrt(total) * float(retention))


def describe_sub_table(
    histogram: Histogram, places: Iterable[int], counts: Sequence[int], prior: Fraction, retention: Fraction
) -> Json:
    """One sub-table in JSON, with its values and counts, the prior that it covers, and its retention."""
    values = [histogram.values[place] for place in places]
    swap = (1 - retention) / len(values)
    return {
        "values": [to_json(value) for value in values],
        "counts": list(counts),
        "prior": format_ratio(prior),
        "amplification": format_ratio((retention + swap) / swap),
        "retention": format_ratio(retention),
        "error_bound": compute_error_bound(sum(counts), retention),
    }


def format_ratio(number: Fraction) -> str:
    """A rational number for JSON, always with its denominator."""
    return f"{number.numerator}/{number.denominator}"


def format_number(number: str | float) -> str:
    """A number for people; a long rational becomes a decimal."""
    is_short = isinstance(number, str) and len(number) <= LONGEST_RATIO
    return str(Fraction(number)) if is_short else f"{float(Fraction(number)):.4g}"


def format_factor(number: Fraction | str | float) -> str:
    """The largest factor by which odds can rise, rounded up."""
    return f"{format_upper_factor(Fraction(number))} times"


def describe_odds_factor(number: Fraction | str | float) -> str:
    """The largest factor by which odds can rise, as a phrase."""
    return f"odds can rise by a factor of at most {format_upper_factor(Fraction(number))}"


def format_percent(number: Fraction | str) -> str:
    """A share for people, as a fraction (if it is short) and in per cent."""
    share = Fraction(number)
    if len(str(share)) > LONGEST_RATIO:
        return f"{float(share):.2%}"
    return f"{share} ({f'{100 * float(share):.3g}%' if 1000 * share >= 1 else 'below 0.1%'})"


KNOWLEDGE = (
    "An attacker may know all other columns, the true values of all other people, and everything in this release "
    "except "
)
"""The knowledge that an attacker may have under a guarantee for every prior."""


def format_chance(number: Fraction) -> str:
    """A probability in a guarantee, in per cent; if this is not exact, also as a fraction."""
    return f"{float(100 * number):g}%" if (1000 * number).denominator == 1 else format_percent(number)


def _format_exact(factor: Fraction) -> str:
    """A factor in a guarantee: as a decimal number if this is exact, otherwise as a fraction."""
    decimal = f"{float(factor):g}"
    return decimal if Fraction(decimal) == factor else str(factor)


def state_any_prior(bound: BreachBound, *details: str) -> GuaranteeStatement:
    """States the guarantee for every prior and every statement, upward and downward."""
    prior, posterior = format_chance(bound.prior), format_chance(bound.posterior)
    factor = _format_exact(bound.person_amplification)
    odds = (
        f"multiplies or divides the attacker's odds by at most {factor} (epsilon is ln {factor}, about "
        f"{math.log(bound.person_amplification):.2f})"
    )
    believed = (
        f"Anyone who thinks it at most {prior} likely that a person has a given value can think it at most "
        f"{posterior} likely"
    )
    if bound.rows > 1:
        return GuaranteeStatement(
            f"{believed} after seeing all records of that person (at most {bound.rows}), whatever else they know.",
            f"Take any statement about all sensitive values of a person with at most {bound.rows} records. "
            f"{KNOWLEDGE}this person's published values. If the attacker then gives the statement a probability of at "
            f"most {bound.prior}, seeing these values can raise it to at most {bound.posterior}; a probability of at "
            f"least {bound.posterior} cannot fall below {bound.prior}. Together, the published values {odds}.",
            (
                f"One published value multiplies odds by at most {bound.amplification} (about "
                f"{float(bound.amplification):.3f}). The number of a person's records is not hidden.",
                *filter(None, details),
            ),
        )
    if bound.is_odds_only:
        return GuaranteeStatement(
            "The record of a person multiplies anyone's odds that this person has a given value by at most "
            f"{factor}, whatever else they know.",
            f"Take any statement about the sensitive value of a person with one record. {KNOWLEDGE}this person's "
            "published value. Then, for any probability that the attacker gives the statement, the published value "
            f"{odds}.",
            tuple(filter(None, details)),
        )
    return GuaranteeStatement(
        f"{believed} after seeing that person's published value, whatever else they know.",
        f"Take any statement about the sensitive value of a person with one record. {KNOWLEDGE}this person's "
        f"published value. If the attacker then gives the statement a probability of at most {bound.prior}, seeing "
        f"the published value can raise it to at most {bound.posterior}; a probability of at least {bound.posterior} "
        f"cannot fall below {bound.prior}. The published value {odds}.",
        tuple(filter(None, details)),
    )


def state_marginal_prior(bound: BreachBound, sub_tables: int, width: str) -> GuaranteeStatement:
    """States the guarantee of sub-tables for the marginal prior. `width` is the number of values in a sub-table."""
    prior, posterior = format_chance(bound.prior), format_chance(bound.posterior)
    return GuaranteeStatement(
        f"Take a value that at most {prior} of the people have, and an attacker who knows only how frequent the "
        f"values are. After seeing a person's record, this attacker gives a probability of at most {posterior} that "
        "the person has the value.",
        f"Take a person with one record, and one value that at most {bound.prior} of the people in the table have. An "
        f"attacker may know how often each value occurs in each of the {sub_tables} sub-tables, and nothing about "
        "that person. After seeing the person's sub-table and published value, this attacker gives that value a "
        f"probability of at most {bound.posterior}.",
        (
            "Nothing else is covered. An attacker may become more confident by using the other records of the "
            "sub-table, the person's other columns or the values of other people. Statements that the value is one "
            "of several values are not covered either.",
            f"Values that more than {bound.prior} of the people have are not protected.",
            f"The sub-table of a record discloses that the true value is one of its {width} values. All sub-tables "
            "together disclose which values no person has.",
        ),
    )


def describe_choice(bound: BreachBound) -> str:
    """States what the choice of the mechanism discloses if a tolerance produced a bound on odds alone."""
    if not bound.is_odds_only:
        return ""
    return (
        "These numbers do not depend on the counts of the table. If the publisher did not name the mechanism, the "
        "choice of the mechanism depends on the shares of the values. The shares are rounded down to two digits and "
        "to steps of at least ten records. If a share is at the edge of a step, one record can change the choice. An "
        "attacker who knows the values of all other records may then learn the value of this record."
    )


def summarize_sub_tables(cells: Sequence[JsonView]) -> str:
    """Describes the decisions of a plan with sub-tables in one line."""
    if len(cells) == 1:
        return f"retention {cells[0]['retention']}; {describe_odds_factor(cells[0]['amplification'])}"
    sizes = sorted({len(cell["values"]) for cell in cells})
    width = f"{sizes[0]} to {sizes[-1]}" if len(sizes) > 1 else f"{sizes[0]}"
    return f"{len(cells)} sub-tables of {width} values"


def check_several(histogram: Histogram) -> None:
    """Refuses a domain of one value."""
    if histogram.domain_size == 1:
        raise InfeasibleError(
            "the sensitive column has only one value, so no other value can replace it; declare the whole domain "
            "(`domains=`).",
            code="one-value-domain",
        )
