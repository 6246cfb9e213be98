"""Writes, reads and describes a separate bound for each value, for the mechanisms that guarantee such bounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

from sfumato._core.cell_values import Value, display, format_values
from sfumato._core.exact_numbers import parse_exact
from sfumato._core.json_types import Json, JsonView
from sfumato._core.option_fields import option
from sfumato._figures.number_format import format_upper_factor
from sfumato._request.belief_bounds import BreachBound, BreachBoundPerValue
from sfumato._request.guarantee import GuaranteeStatement
from sfumato._request.histogram import Histogram
from sfumato._request.warnings import Notice
from sfumato.errors import ReleaseFormatError, SpecError


class Direction(StrEnum):
    """The directions in which beliefs are bounded: upward as in the paper, or also downward."""

    UPWARD = "upward"
    BOTH = "both"


@dataclass(frozen=True, slots=True)
class DirectionOptions:
    """The option for the direction of the bounds."""

    direction: Direction = option(
        Direction.UPWARD, "direction", "Bound how far beliefs rise (upward), or also how far they fall (both)."
    )


Bounds = tuple[BreachBound | None, ...]
"""The bound of each value of a domain; None for a value without a bound."""

NAMED_VALUES = 5

SHARE_BOUNDS_NOTE = (
    "The bounds follow the shares of the values in this table. The shares are rounded down to two digits and to "
    "steps of at least ten records. If a share is at the edge of a step, one record can change the bounds. An "
    "attacker who knows the values of all other records may then learn the value of this record. One record changed "
    "the bounds in 2 of 100 cases on a public table with 46 values, and in 7 of 100 cases on a table with 1,420 "
    "values."
)
"""`bench/attacks.py` measured these numbers on a census and on vaccine reports.

Every table gets the same numbers, because the rate for a table would itself disclose something about its counts.
"""


def list_bounds(histogram: Histogram, spec: BreachBoundPerValue) -> Bounds:
    """The bound of each value of a table. Refuses a request in which no value has a bound."""
    bounds = spec.list_bounds(histogram.values)
    if not any(bounds):
        raise SpecError(
            "no value of the domain has a bound, so nothing would be protected; give at least one.",
            code="nothing-protected",
        )
    return bounds


def compute_amplifications(bounds: Bounds) -> tuple[Fraction | None, ...]:
    """The bound on the odds of each value; None for a value without a bound."""
    return tuple(None if bound is None else bound.amplification for bound in bounds)


def describe_bounds(bounds: Bounds, tolerance: Fraction | None) -> Json:
    """The limits of each bound, and the tolerance that produced the bounds from shares, if there was one."""
    return {
        "priors": [bound and str(bound.prior) for bound in bounds],
        "posteriors": [bound and str(bound.posterior) for bound in bounds],
        **({} if tolerance is None else {"tolerance": str(tolerance)}),
    }


def read_bounds(design_json: JsonView) -> tuple[Bounds, Fraction | None]:
    """Reads the bounds of a design, and their tolerance."""
    pairs = zip(design_json["priors"], design_json["posteriors"], strict=True)
    bounds = tuple(None if prior is None else BreachBound(prior, posterior) for prior, posterior in pairs)
    if not any(bounds):
        raise ReleaseFormatError(
            "no value of the design has a bound, so nothing is protected.", code="design-without-protection"
        )
    tolerance = parse_exact(design_json["tolerance"], "the tolerance") if "tolerance" in design_json else None
    if tolerance is not None and any(bound and min(_compute_factors(bound)) > tolerance for bound in bounds):
        raise ReleaseFormatError("a bound of the design allows more than the tolerance.", code="design-breaks-bound")
    return bounds, tolerance


def _compute_factors(bound: BreachBound) -> tuple[Fraction, Fraction]:
    """The largest factors by which a probability and its odds may rise."""
    return bound.posterior / bound.prior, bound.amplification


def list_unprotected_values(values: Sequence[Value], bounds: Bounds) -> list[Value]:
    """The values without a bound."""
    return [value for value, bound in zip(values, bounds, strict=True) if bound is None]


def list_remarks(values: Sequence[Value], bounds: Bounds, *, may_fall: bool) -> list[Notice]:
    """Notes which values are not protected, and whether beliefs may fall without limit."""
    notices = []
    if unprotected := list_unprotected_values(values, bounds):
        without = f"these values have no bound and are not protected: {format_values(unprotected)}."
        notices.append(Notice("values-unprotected", without, numbers={"values": len(unprotected)}))
    if may_fall:
        falling = (
            "only rising beliefs are bounded, so an attacker may almost rule out a value for a person. To prevent "
            "this, use `mechanism='fine-grain'` with `direction='both'`."
        )
        notices.append(Notice("beliefs-may-fall", falling))
    return notices


REMARK_CODES = ("values-unprotected", "beliefs-may-fall")
"""The codes of these remarks."""


def state_guarantee(
    values: Sequence[Value], bounds: Bounds, tolerance: Fraction | None, *, may_fall: bool
) -> GuaranteeStatement:
    """States the guarantee for single values in plain words, with its bounds."""
    bounded = [(value, bound) for value, bound in zip(values, bounds, strict=True) if bound is not None]
    named = []
    for value, bound in bounded[:NAMED_VALUES]:
        ends = "" if bound.is_odds_only else f" {bound.prior} and {bound.posterior},"
        named.append(f"{display(value)!r}{ends} odds by a factor of at most {format_upper_factor(bound.amplification)}")
    more = (
        f"; the bounds of {len(bounded) - NAMED_VALUES} more values are in datapackage.json"
        if len(bounded) > NAMED_VALUES
        else ""
    )
    falling = (
        "The guarantee does not limit how far a probability may fall."
        if may_fall
        else "A probability of at least the second number stays at least the first number."
    )
    unprotected = list_unprotected_values(values, bounds)
    without = f"Not protected, because they have no bound: {format_values(unprotected, NAMED_VALUES)}."
    return GuaranteeStatement(
        "Each value has its own bound, with a factor. The record of a person multiplies anyone's odds that this "
        "person has the value by at most this factor, whatever else they know.",
        "Take a person with one record, and one value that has a bound. An attacker may know anything, including "
        "everything in this release except this person's published value. Then, for any "
        "probability that the attacker gives the value, the published value multiplies its odds by at most the "
        "factor of the bound. If the bound has two numbers, a probability of at most the first number rises to at "
        f"most the second number. {falling}",
        (
            "The guarantee holds for single values, not for statements about several values.",
            f"The bounds: {'; '.join(named)}{more}.",
            *([without] if unprotected else []),
            *([] if tolerance is None else [SHARE_BOUNDS_NOTE]),
        ),
    )
