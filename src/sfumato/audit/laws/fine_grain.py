"""The law of fine-grain perturbation: one cell, in which each value has a coin and a bound of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from sfumato.audit.comparison import Connection, original_counts
from sfumato.audit.laws import shown_values
from sfumato.audit.laws.cells import CellLaw, bound_of, cell_posteriors, fallen, reached
from sfumato.audit.laws.law import Coin, Json, Law
from sfumato.audit.laws.weight_lines import CLOSE, are_values
from sfumato.audit.result import Check
from sfumato.audit.written import Written
from sfumato.request.exact import exact
from sfumato.request.spec import BreachBound

LARGEST_WEIGHTS = 1000
"""Larger domains come without weights."""


def law_of(design: Json) -> CellLaw:
    """The one cell, from the rationals of the manifest."""
    return CellLaw.of(range(len(design["domain"])), [exact(each) for each in design["retentions"]])


def check_promise(folder: Path, written: Written) -> Check:
    """No belief in a value with a bound rises above its posterior; or falls below its prior, if that is promised."""
    law, design = law_of(written.design), written.design
    bounds = list(zip(design["priors"], design["posteriors"], strict=True))
    if len(bounds) != len(law.places):
        return Check("promise", False, "there is not one bound for each value.")
    bounded = 0
    for number, (low, high) in enumerate(bounds):
        if low is None:
            continue
        bounded += 1
        prior, posterior = bound_of(low, high)
        risen, lowered = reached(prior, law.rise(number)), fallen(posterior, law.fall(number))
        if risen > posterior:
            return Check("promise", False, f"a belief of {prior} can rise to {risen}, above the promised {posterior}.")
        if design["direction"] == "both" and lowered < prior:
            return Check(
                "promise", False, f"a belief of {posterior} can fall to {lowered}, below the promised {prior}."
            )
    if not bounded:
        return Check("promise", False, "no value has a bound, so nothing is promised.")
    also = "above its posterior or below its prior" if design["direction"] == "both" else "above its posterior"
    return Check("promise", True, f"no belief in one of {bounded} values with a bound can go {also}.")


def are_weights(written: Written, table: Mapping[str, list[Any]]) -> bool:
    """A line for each pair of a value and what is published: the inverse of the matrix of chances."""
    law = law_of(written.design)
    size = len(law.places)
    if size > LARGEST_WEIGHTS or len(table["weight"]) != size**2:
        return False
    transition = np.tile(np.array([float(each) for each in law.other])[:, None], (1, size))
    np.fill_diagonal(transition, [float(each) for each in law.same])
    weights = np.array(table["weight"]).reshape(size, size)
    scale = max(1.0, float(np.abs(weights).max()))
    if not np.allclose(transition @ weights.T, np.eye(size), atol=CLOSE * scale):
        return False
    pairs = {"value": np.repeat(np.arange(size), size).tolist(), "published": list(range(size)) * size}
    return are_values(written, table, pairs)


def without_weights(written: Written) -> str | None:
    """There would be too many lines."""
    return "the domain is too large for weights." if len(written.design["domain"]) > LARGEST_WEIGHTS else None


def check_draws(connection: Connection, written: Written) -> Check:
    """Values by their own coins."""
    return shown_values.check_draws(connection, written, [law_of(written.design)])


def check_posteriors(connection: Connection, written: Written) -> Check:
    """Each value with a bound, by Bayes' rule with the counts of the original."""
    counts = original_counts(connection, written)
    if counts is None:
        return written.outside("posteriors")
    law, design, total = law_of(written.design), written.design, sum(counts)
    bounds = zip(design["priors"], design["posteriors"], counts, cell_posteriors(counts, law), strict=True)
    bounded = [
        (worst, allowed(BreachBound(low, high), Fraction(count, total))) for low, high, count, worst in bounds if low
    ]
    if over := next((pair for pair in bounded if pair[0] > pair[1]), None):
        return Check("posteriors", False, f"a value can be believed with {over[0]}; promised: {over[1]}.")
    return Check("posteriors", True, f"none of {len(bounded)} values with a bound can be believed beyond it.")


def allowed(bound: BreachBound, share: Fraction) -> Fraction:
    """How far a value of this share may come to be believed: beyond its prior, the bound is one on the odds."""
    return bound.posterior if share <= bound.prior else reached(share, bound.amplification)


def coins(explained: Json, design: Json, counts: Sequence[int]) -> list[list[Coin]]:
    """The one cell of all values."""
    pairs = zip(design["domain"], counts, design["retentions"], strict=True)
    return [[Coin(value, count, exact(retention)) for value, count, retention in pairs]]


LAW = Law(
    guarantees=("single-values", "any-prior"),  # the second is what releases said before it had a name of its own
    shown=shown_values.whole_domain,
    domain=shown_values.check_domain,
    promise=check_promise,
    weights=are_weights,
    without_weights=without_weights,
    draws=check_draws,
    posteriors=check_posteriors,
    coins=coins,
)
