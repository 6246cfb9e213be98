"""The verifier of fine-grain perturbation, which has one sub-table with a retention and a bound for each value."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from sfumato._core.exact_numbers import parse_exact
from sfumato._core.json_types import JsonView
from sfumato._verify.check_results import Check
from sfumato._verify.distributions import single_value_checks as value_distribution
from sfumato._verify.distributions.reference_distribution import (
    ReferenceDistribution,
    ValueRetention,
    WeightTable,
)
from sfumato._verify.distributions.single_value_bounds import check_single_posteriors, check_single_values
from sfumato._verify.distributions.sub_table_distribution import (
    SubTableDistribution,
    compute_sub_table_posteriors,
)
from sfumato._verify.distributions.weight_checks import TOLERANCE, are_values
from sfumato._verify.manifest_view import ManifestView
from sfumato._verify.original_counts import Connection

LARGEST_WEIGHTS = 1000
"""The largest domain with weights."""


def read_distribution(design: JsonView) -> SubTableDistribution:
    """The single sub-table, from the rationals of the manifest."""
    return SubTableDistribution.of(
        range(len(design["domain"])), [parse_exact(retention) for retention in design["retentions"]]
    )


def check_guarantee(folder: Path, view: ManifestView) -> Check:
    """Checks that no belief in a value with a bound rises above the posterior (or falls below the prior)."""
    distribution, design = read_distribution(view.design), view.design
    return check_single_values(
        design, distribution.compute_rise, distribution.compute_fall if design["direction"] == "both" else None
    )


def are_weights(view: ManifestView, table: WeightTable) -> bool:
    """Checks the weights of each true and published value, which are the inverse of the transition matrix."""
    distribution = read_distribution(view.design)
    size = len(distribution.places)
    if size > LARGEST_WEIGHTS or len(table["weight"]) != size**2:
        return False
    transition = np.tile(
        np.array([float(probability) for probability in distribution.other_chances])[:, None], (1, size)
    )
    np.fill_diagonal(transition, [float(probability) for probability in distribution.same_chances])
    weights = np.array(table["weight"]).reshape(size, size)
    scale = max(1.0, float(np.abs(weights).max()))
    if not np.allclose(transition @ weights.T, np.eye(size), atol=TOLERANCE * scale):
        return False
    pairs = {"value": np.repeat(np.arange(size), size).tolist(), "published": list(range(size)) * size}
    return are_values(view, table, pairs)


def explain_missing_weights(view: ManifestView) -> str | None:
    """Returns the reason for missing weights: there would be too many lines."""
    return "the domain is too large for weights." if len(view.design["domain"]) > LARGEST_WEIGHTS else None


def check_draws(connection: Connection, view: ManifestView) -> Check:
    """Checks the published values with the retention of each value."""
    return value_distribution.check_draws(connection, view, [read_distribution(view.design)])


def check_posteriors(connection: Connection, view: ManifestView) -> Check:
    """Checks each value with a bound, by Bayes' rule with the counts of the original."""
    distribution = read_distribution(view.design)
    return check_single_posteriors(connection, view, lambda counts: compute_sub_table_posteriors(counts, distribution))


def list_value_retentions(explanation: JsonView, design: JsonView, counts: Sequence[int]) -> list[list[ValueRetention]]:
    """The single sub-table of all values."""
    pairs = zip(design["domain"], counts, design["retentions"], strict=True)
    return [[ValueRetention(value, count, parse_exact(retention)) for value, count, retention in pairs]]


REFERENCE_DISTRIBUTION = ReferenceDistribution(
    guarantees=("single-values", "any-prior"),  # the second name is that of older releases
    make_encoding=value_distribution.make_domain_encoding,
    check_domain=value_distribution.check_domain,
    check_guarantee=check_guarantee,
    are_weights=are_weights,
    explain_missing_weights=explain_missing_weights,
    check_draws=check_draws,
    check_posteriors=check_posteriors,
    list_value_retentions=list_value_retentions,
)
