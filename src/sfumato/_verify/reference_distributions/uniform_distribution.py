"""The law of uniform perturbation: one coin for all values, and one cell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from sfumato._core.exact_numbers import exact
from sfumato._verify.manifest_view import Written
from sfumato._verify.original_counts import Connection
from sfumato._verify.reference_distributions import value_distribution
from sfumato._verify.reference_distributions.any_prior import bounded_posteriors, check_any_prior
from sfumato._verify.reference_distributions.reference_distribution import Coin, Json, Law
from sfumato._verify.reference_distributions.sub_table_distribution import CellLaw, cell_posteriors, coin
from sfumato._verify.verification import Check


def law_of(design: Json) -> CellLaw:
    """The one cell, from the rationals of the manifest."""
    size = len(design["domain"])
    return CellLaw.of(range(size), [coin(design)] * size)


def check_promise(folder: Path, written: Written) -> Check:
    """Odds rise by what one value is likelier to stay than to come from another."""
    return check_any_prior(written.design, law_of(written.design).rise(0))


def are_weights(written: Written, table: Mapping[str, list[Any]]) -> bool:
    """One cell."""
    return value_distribution.are_weights(written, table, [law_of(written.design)])


def check_draws(connection: Connection, written: Written) -> Check:
    """Values by their coins."""
    return value_distribution.check_draws(connection, written, [law_of(written.design)])


def check_posteriors(connection: Connection, written: Written) -> Check:
    """By Bayes' rule with the counts of the original."""
    return bounded_posteriors(connection, written, partial(_believed, law_of(written.design)))


def _believed(law: CellLaw, counts: Sequence[int]) -> Sequence[Any]:
    return cell_posteriors(counts, law)


def coins(explained: Json, design: Json, counts: Sequence[int]) -> list[list[Coin]]:
    """The cells with their counts, as a plan tells them to its holder."""
    return [
        [
            Coin(value, count, exact(cell["retention"]))
            for value, count in zip(cell["values"], cell["counts"], strict=True)
        ]
        for cell in explained["cells"]
    ]


LAW = Law(
    guarantees=("any-prior",),
    shown=value_distribution.whole_domain,
    domain=value_distribution.check_domain,
    promise=check_promise,
    weights=are_weights,
    draws=check_draws,
    posteriors=check_posteriors,
    coins=coins,
)
