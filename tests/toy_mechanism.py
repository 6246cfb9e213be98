"""A mechanism that src does not know: randomized response by a keyed step around the domain; with its law.

It follows CONTRIBUTING's steps: one room, one law, two registry lines, which a test enters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from sfumato._core.array_types import Codes, Floats, Numbers
from sfumato._core.cell_values import Value, values_from_json, values_to_json
from sfumato._core.exact_numbers import parse_exact
from sfumato._core.option_fields import option
from sfumato._core.random_draws import Draws
from sfumato._records import PerturbedRecords
from sfumato._records.value_records import ValueEncoding
from sfumato._request.belief_bounds import BreachBound
from sfumato._request.guarantee import Guarantee, GuaranteeStatement
from sfumato._request.histogram import Histogram
from sfumato._verify.check_results import Check
from sfumato._verify.distributions import single_value_checks as value_distribution
from sfumato._verify.distributions.any_prior_guarantee import check_any_prior, check_bounded_posteriors
from sfumato._verify.distributions.reference_distribution import ReferenceDistribution
from sfumato._verify.distributions.sub_table_distribution import (
    SubTableDistribution,
    compute_sub_table_posteriors,
)
from sfumato._verify.manifest_view import ManifestView
from sfumato._verify.original_counts import Connection
from sfumato.errors import InfeasibleError, ReleaseFormatError
from sfumato.mechanisms._randomized_response.estimators import ONE_CELL
from sfumato.mechanisms._randomized_response.guarantee_sentences import state_any_prior
from sfumato.mechanisms._randomized_response.perturbation_operators import Cell, Operator
from sfumato.mechanisms.mechanism import Mechanism

NAME = "toy"


@dataclass(frozen=True, slots=True)
class Options:
    """How much of the bound is left unused."""

    slack: int = option(0, "toy_slack", "toy: leave so many hundredths of the odds unused.", metavar="N", minimum=0)


@dataclass(frozen=True)
class Plan:
    """Of `stay + step * (m - 1)` equal outcomes, `stay` keep a value, and `step` take it to each other one."""

    histogram: Histogram
    bound: BreachBound
    stay: int
    step: int


@dataclass(frozen=True)
class Design:
    """The domain, the chance to stay, and the bound."""

    domain: tuple[Value, ...]
    stays: Fraction
    bound: BreachBound

    @cached_property
    def operator(self) -> Operator:
        """The same as a coin that keeps, and a redraw from all values."""
        size = len(self.domain)
        retention = 1 - size * (1 - self.stays) / (size - 1)
        return Operator([Cell.from_retention(range(size), retention)], size)

    @property
    def cell_shares(self) -> Floats:
        """All records are in the one cell."""
        return np.ones(len(self.domain))

    def to_json(self) -> dict[str, Any]:
        """Rationals as strings."""
        return {
            "domain": values_to_json(self.domain),
            "stays": str(self.stays),
            "prior": str(self.bound.prior),
            "posterior": str(self.bound.posterior),
        }


def plan(histogram: Histogram, spec: BreachBound, options: Options, draws: Draws, /) -> Plan:
    """Stay as often as the odds allow."""
    if histogram.domain_size == 1:
        raise InfeasibleError("one value cannot be hidden among others.")
    odds = spec.amplification - Fraction(options.slack, 100)
    if odds <= 1:
        raise InfeasibleError("so much slack leaves nothing to count.")
    return Plan(histogram, spec, odds.numerator, odds.denominator)


def replace(plan: Plan, codes: Codes, slots: Numbers | None, draws: Draws, first_row: int, /) -> PerturbedRecords:
    """Step around the domain."""
    size = plan.histogram.domain_size
    drawn = draws.get_stream(f"{NAME}/steps").draw_integers(first_row, len(codes), plan.stay + plan.step * (size - 1))
    away = np.where(drawn < plan.stay, 0, 1 + (drawn - np.uint64(plan.stay)) // np.uint64(plan.step))
    return PerturbedRecords(((codes.astype(np.int64) + away.astype(np.int64)) % size).astype(codes.dtype))


def design(plan: Plan, /) -> Design:
    """Nothing in it depends on the counts."""
    stays = Fraction(plan.stay, plan.stay + plan.step * (plan.histogram.domain_size - 1))
    return Design(plan.histogram.values, stays, plan.bound)


def read_design(written: Mapping[str, Any], types: Sequence[str], /) -> Design:
    """Read with suspicion."""
    read = Design(
        values_from_json(written["domain"], types),
        parse_exact(written["stays"]),
        BreachBound(written["prior"], written["posterior"]),
    )
    size = len(set(read.domain))
    if size != len(read.domain) or size < 2 or not Fraction(1, size) < read.stays < 1:
        raise ReleaseFormatError("the design's domain or chance is out of range.")
    return read


def shown(design: Design, /) -> ValueEncoding:
    """One value."""
    return design.operator.make_encoding()


def promise(design: Design, /) -> GuaranteeStatement:
    """The usual bound."""
    return state_any_prior(design.bound, f"It stays with probability {float(design.stays):.4g}.")


MECHANISM = Mechanism(
    name=NAME,
    guarantee=Guarantee.ANY_PRIOR,
    request=BreachBound,
    options=Options,
    plan=plan,
    perturb=replace,
    make_design=design,
    read_design=read_design,
    make_encoding=shown,
    estimators=ONE_CELL,
    state_guarantee=promise,
)

# ------------------------------------------------------------------------------------------------------------- its law


def law_of(written: Mapping[str, Any]) -> SubTableDistribution:
    """From the published rational."""
    size, stays = len(written["domain"]), parse_exact(written["stays"])
    other = (1 - stays) / (size - 1)
    return SubTableDistribution(tuple(range(size)), (stays,) * size, (other,) * size)


def check_promise(folder: Path, written: ManifestView) -> Check:
    """Odds rise by how much likelier a value stays than comes."""
    return check_any_prior(written.design, law_of(written.design).compute_rise(0))


def check_draws(connection: Connection, written: ManifestView) -> Check:
    """By its coin."""
    return value_distribution.check_draws(connection, written, [law_of(written.design)])


def check_posteriors(connection: Connection, written: ManifestView) -> Check:
    """By Bayes' rule."""
    law = law_of(written.design)
    return check_bounded_posteriors(connection, written, lambda counts: compute_sub_table_posteriors(counts, law))


def without_weights(written: ManifestView) -> str:
    """It writes none."""
    return "a toy writes no weights."


LAW = ReferenceDistribution(
    guarantees=("any-prior",),
    make_encoding=value_distribution.make_domain_encoding,
    check_domain=value_distribution.check_domain,
    check_guarantee=check_promise,
    check_draws=check_draws,
    check_posteriors=check_posteriors,
    explain_missing_weights=without_weights,
)
