"""The verifier of uniform perturbation, which has one retention for all values and one sub-table."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import partial
from pathlib import Path

from sfumato._core.exact_numbers import parse_exact
from sfumato._core.json_types import JsonView
from sfumato._verify.check_results import Check
from sfumato._verify.distributions import single_value_checks as value_distribution
from sfumato._verify.distributions.any_prior_guarantee import check_any_prior, check_bounded_posteriors
from sfumato._verify.distributions.reference_distribution import (
    ReferenceDistribution,
    ValueRetention,
    WeightTable,
)
from sfumato._verify.distributions.sub_table_distribution import (
    SubTableDistribution,
    compute_sub_table_posteriors,
    read_retention,
)
from sfumato._verify.manifest_view import ManifestView
from sfumato._verify.original_counts import Connection


def read_distribution(design: JsonView) -> SubTableDistribution:
    """Reads the single sub-table from the rational numbers of the manifest."""
    size = len(design["domain"])
    return SubTableDistribution.of(range(size), [read_retention(design)] * size)


def check_guarantee(folder: Path, view: ManifestView) -> Check:
    """Checks that odds rise at most by the ratio of the probabilities to publish a true and a false value."""
    return check_any_prior(view.design, read_distribution(view.design).compute_rise(0))


def are_weights(view: ManifestView, table: WeightTable) -> bool:
    """Checks the weights of the single sub-table."""
    return value_distribution.are_weights(view, table, [read_distribution(view.design)])


def check_draws(connection: Connection, view: ManifestView) -> Check:
    """Checks the published values with the retention."""
    return value_distribution.check_draws(connection, view, [read_distribution(view.design)])


def check_posteriors(connection: Connection, view: ManifestView) -> Check:
    """Checks the posteriors by Bayes' rule with the counts of the original."""
    return check_bounded_posteriors(connection, view, partial(_compute_posteriors, read_distribution(view.design)))


def _compute_posteriors(distribution: SubTableDistribution, counts: Sequence[int]) -> Sequence[Fraction]:
    return compute_sub_table_posteriors(counts, distribution)


def list_value_retentions(explanation: JsonView, design: JsonView, counts: Sequence[int]) -> list[list[ValueRetention]]:
    """The sub-tables with their counts, from a plan's explanation."""
    return [
        [
            ValueRetention(value, count, parse_exact(cell["retention"]))
            for value, count in zip(cell["values"], cell["counts"], strict=True)
        ]
        for cell in explanation["cells"]
    ]


REFERENCE_DISTRIBUTION = ReferenceDistribution(
    guarantees=("any-prior",),
    make_encoding=value_distribution.make_domain_encoding,
    check_domain=value_distribution.check_domain,
    check_guarantee=check_guarantee,
    are_weights=are_weights,
    check_draws=check_draws,
    check_posteriors=check_posteriors,
    list_value_retentions=list_value_retentions,
)
