"""The law of uniform perturbation: one coin for all values, and one cell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from sfumato._core.exact_numbers import parse_exact
from sfumato._verify.manifest_view import Written
from sfumato._verify.original_counts import Connection
from sfumato._verify.reference_distributions import value_distribution
from sfumato._verify.reference_distributions.any_prior import check_any_prior, check_bounded_posteriors
from sfumato._verify.reference_distributions.reference_distribution import Json, ReferenceDistribution, ValueRetention
from sfumato._verify.reference_distributions.sub_table_distribution import (
    CellLaw,
    compute_sub_table_posteriors,
    read_retention,
)
from sfumato._verify.verification import Check


def read_distribution(design: Json) -> CellLaw:
    """The one cell, from the rationals of the manifest."""
    size = len(design["domain"])
    return CellLaw.of(range(size), [read_retention(design)] * size)


def check_promise(folder: Path, written: Written) -> Check:
    """Odds rise by what one value is likelier to stay than to come from another."""
    return check_any_prior(written.design, read_distribution(written.design).rise(0))


def are_weights(written: Written, table: Mapping[str, list[Any]]) -> bool:
    """One cell."""
    return value_distribution.are_weights(written, table, [read_distribution(written.design)])


def check_draws(connection: Connection, written: Written) -> Check:
    """Values by their coins."""
    return value_distribution.check_draws(connection, written, [read_distribution(written.design)])


def check_posteriors(connection: Connection, written: Written) -> Check:
    """By Bayes' rule with the counts of the original."""
    return check_bounded_posteriors(
        connection, written, partial(_compute_posteriors, read_distribution(written.design))
    )


def _compute_posteriors(law: CellLaw, counts: Sequence[int]) -> Sequence[Any]:
    return compute_sub_table_posteriors(counts, law)


def list_value_retentions(explained: Json, design: Json, counts: Sequence[int]) -> list[list[ValueRetention]]:
    """The cells with their counts, as a plan tells them to its holder."""
    return [
        [
            ValueRetention(value, count, parse_exact(cell["retention"]))
            for value, count in zip(cell["values"], cell["counts"], strict=True)
        ]
        for cell in explained["cells"]
    ]


REFERENCE_DISTRIBUTION = ReferenceDistribution(
    guarantees=("any-prior",),
    shown=value_distribution.make_domain_encoding,
    domain=value_distribution.check_domain,
    promise=check_promise,
    weights=are_weights,
    draws=check_draws,
    posteriors=check_posteriors,
    coins=list_value_retentions,
)
