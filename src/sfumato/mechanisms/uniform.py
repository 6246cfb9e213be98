"""Uniform perturbation: keep the value with a coin, else redraw it from the whole domain.

Claim: (prior, posterior)-privacy for every record and every predicate of its value, upward and downward. Prior is what
is believed from everything but the record's own published value, which may be anything: all other columns, and the true
values of all other records.
Source: Evfimievski et al. 2003, Statement 1; the largest retention: Chaytor and Wang, section 3.
Published: the domain, the retention and the bound. Not published: any count of the original table.
Notation: p = retention, m = domain_size, γ = amplification, q = swap_probability = (1-p)/m; Pr[kept] = p + q = γ q.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from sfumato.draws import LARGEST_BOUND, Draws, Words
from sfumato.errors import InfeasibleError, ReleaseFormatError
from sfumato.histogram import Histogram
from sfumato.spec import BreachBound, exact
from sfumato.tally import Codes, Mask, Moments, Tally
from sfumato.values import Value, values_from_json, values_to_json

NAME = "uniform"
GUARANTEE = "any-prior"
METHOD = "unbiased count, score interval"
ASSUMPTION = "none: the randomness is the perturbation's own, and its probabilities are published"


@dataclass(frozen=True, slots=True)
class Plan:
    """A draw below `keep_words + domain_size * swap_words` decides a record.

    The first `keep_words` outcomes keep the value; each value of the domain owns `swap_words` of the rest.
    """

    domain: tuple[Value, ...]
    bound: BreachBound
    keep_words: int
    swap_words: int

    @property
    def words(self) -> int:
        """The number of equally likely outcomes."""
        return self.keep_words + len(self.domain) * self.swap_words

    @property
    def retention(self) -> Fraction:
        """The probability of the coin that keeps a value."""
        return Fraction(self.keep_words, self.words)


@dataclass(frozen=True, slots=True)
class Design:
    """What the analyst needs: the domain, the retention, and the bound that it was chosen for."""

    domain: tuple[Value, ...]
    retention: Fraction
    bound: BreachBound

    @property
    def swap_probability(self) -> Fraction:
        """The probability that a record becomes one given other value."""
        return (1 - self.retention) / len(self.domain)

    def to_json(self) -> dict[str, Any]:
        """Write the design down; rationals as strings."""
        return {
            "domain": values_to_json(self.domain),
            "retention": str(self.retention),
            "prior": str(self.bound.prior),
            "posterior": str(self.bound.posterior),
        }


def plan(histogram: Histogram, spec: BreachBound, options: None, draws: Draws, /) -> Plan:
    """Choose the largest retention that the amplification allows."""
    if histogram.domain_size == 1:
        raise InfeasibleError(
            "the sensitive column has one value, so there is nothing to hide it among; declare the whole domain with a "
            "domain file, or publish without this column."
        )
    keep_words, swap_words = _words(histogram.domain_size, spec.amplification)
    if not keep_words:
        raise InfeasibleError(
            f"the posterior {spec.posterior} is so close to the prior {spec.prior} that no value could ever be kept, "
            "and nothing could be counted; allow a larger posterior."
        )
    return Plan(histogram.values, spec, keep_words, swap_words)


def _words(domain_size: int, amplification: Fraction) -> tuple[int, int]:
    """Split the outcomes so that Pr[kept] is `amplification` times Pr[one given other value].

    (keep + swap) / swap = amplification: with amplification a/b that is swap = b and keep = a - b. Where the exact
    rational needs more than 63 bits, keep is rounded down, towards privacy.
    """
    swap_words = amplification.denominator
    keep_words = amplification.numerator - amplification.denominator
    if keep_words + domain_size * swap_words <= LARGEST_BOUND:
        return keep_words, swap_words
    swap_words = max(1, math.floor(LARGEST_BOUND / (domain_size - 1 + amplification)))
    room = LARGEST_BOUND - domain_size * swap_words
    return min(room, math.floor((amplification - 1) * swap_words)), swap_words


def replace(plan: Plan, codes: Codes, slots: Words | None, draws: Draws, first_row: int, /) -> Codes:
    """Perturb a batch of codes; `first_row` is the number of the batch's first record."""
    drawn = draws.stream(f"{NAME}/coins").integers(first_row, len(codes), plan.words)
    swapped = (drawn - np.uint64(plan.keep_words)) // np.uint64(plan.swap_words)
    return np.where(drawn < plan.keep_words, codes, swapped.astype(codes.dtype))


def design(plan: Plan, /) -> Design:
    """What is published: nothing in it depends on the counts."""
    return Design(plan.domain, plan.retention, plan.bound)


def read_design(written: Mapping[str, Any], field_type: str, /) -> Design:
    """Read a design back, given the Data Package type of its column."""
    read = Design(
        values_from_json(written["domain"], field_type),
        exact(written["retention"], "the retention"),
        BreachBound(written["prior"], written["posterior"]),
    )
    size = len(set(read.domain))
    if not 0 < read.retention < 1 or size in (0, 1) or size != len(read.domain):
        raise ReleaseFormatError("the design's retention or domain is out of range.")
    if read.retention > (read.bound.amplification - 1) * read.swap_probability:
        raise ReleaseFormatError("the design's retention is higher than its bound allows, so its promise is untrue.")
    return read


def reconstruct(design: Design, tally: Tally, wanted: Mask, /) -> Moments:
    """Estimate how many of the tallied records hold one of the wanted values.

    Notation: R = rows, o = hits, k = wanted values; estimate (o - kRq) / p, where a wanted record shows a wanted
    value with a = p + kq and another one with b = kq.
    """
    hits, rows, values = int(tally.counts[wanted].sum()), tally.rows, int(wanted.sum())
    retention, swap = float(design.retention), float(design.swap_probability)
    base, slope = count_variance(design, rows, values)
    if values in (0, len(design.domain)):
        return Moments(float(rows if values else 0), 0.0, 0.0, rows)  # nobody, or everybody: known without error
    return Moments((hits - values * rows * swap) / retention, base, slope, rows)


def count_variance(design: Design, rows: int, values: int = 1) -> tuple[float, float]:
    """The exact variance [c a(1-a) + (R-c) b(1-b)] / p², as base + slope * c."""
    retention = design.retention
    other = values * design.swap_probability
    wanted = retention + other
    base = rows * other * (1 - other) / retention**2
    slope = (wanted * (1 - wanted) - other * (1 - other)) / retention**2
    return float(base), float(slope)


def weights(design: Design, /) -> tuple[float, float]:
    """What a row adds to the unbiased count of a value: (if it shows that value, otherwise)."""
    retention, swap = design.retention, design.swap_probability
    return float((1 - swap) / retention), float(-swap / retention)


def promise(design: Design, /) -> str:
    """The guarantee in plain words, with the numbers of this design."""
    bound, kept = design.bound, design.retention + design.swap_probability
    return (
        "Take a person with one record, and any statement about that person's sensitive value. If somebody, from all "
        "they know and from everything in this release but that person's own published value, gives the statement a "
        f"chance of at most {bound.prior}, then with that value they give it a chance of at most {bound.posterior}; "
        f"and a chance of at least {bound.posterior} stays at least {bound.prior}. The published value multiplies "
        f"anybody's odds by at most {bound.amplification}, even if they know all other columns and the true values of "
        f"all other people. It is the true one with probability {float(kept):.4g}, and any given other one of the "
        f"{len(design.domain)} values with probability {float(design.swap_probability):.4g}."
    )
