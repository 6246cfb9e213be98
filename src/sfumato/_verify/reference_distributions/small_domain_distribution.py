"""The law of small domain randomization: cells of few values, each with a coin and a prior of its own."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from sfumato._core.exact_numbers import parse_exact
from sfumato._records.value_records import Values
from sfumato._verify.manifest_view import Written
from sfumato._verify.original_counts import WHOLE, Connection, count_original_values, count_published_values
from sfumato._verify.reference_distributions import uniform_distribution, value_distribution
from sfumato._verify.reference_distributions.reference_distribution import Json, ReferenceDistribution
from sfumato._verify.reference_distributions.sub_table_distribution import (
    CellLaw,
    bound_of,
    compute_raised_belief,
    compute_sub_table_posteriors,
    read_retention,
)
from sfumato._verify.verification import Check
from sfumato.errors import ReleaseFormatError


def read_distributions(design: Json) -> list[CellLaw]:
    """The cells, from the rationals of the manifest."""
    distributions, size = [], len(design["domain"])
    for cell in design["cells"]:
        places = [int(place) for place in cell["places"]]
        if len(set(places)) != len(places) or not set(places) <= set(range(size)):
            raise ReleaseFormatError("a cell of the design holds what is not in the domain.")
        distributions.append(CellLaw.of(places, [read_retention(cell)] * len(places)))
    return distributions


def make_encoding(design: Json) -> Values:
    """A record shows its cell and a value of that cell."""
    laws = read_distributions(design)
    cells = np.repeat(np.arange(len(laws)), [len(law.places) for law in laws])
    return Values(np.array([place for law in laws for place in law.places], dtype=np.int64), cells)


def check_domain(folder: Path, written: Written) -> Check:
    """Every record shows a value of its cell."""
    return value_distribution.check_domain(folder, written, len(written.design["cells"]))


def check_promise(folder: Path, written: Written) -> Check:
    """In each cell, the most frequent protected value starts from the cell's prior and must not pass the posterior."""
    design = written.design
    _, posterior = bound_of(design["prior"], design["posterior"])
    worst = Fraction(0)
    for law, cell in zip(read_distributions(design), design["cells"], strict=True):
        prior = parse_exact(cell["prior"])
        if not 0 < prior < posterior:
            return Check("promise", False, f"a cell that starts from a belief of {prior} protects nothing.")
        worst = max(worst, compute_raised_belief(prior, law.rise(0)), *_compute_counted_posteriors(design, law, cell))
    if worst > posterior:
        return Check("promise", False, f"a belief can rise to {worst} in a cell, above the promised {posterior}.")
    cells = len(design["cells"])
    detail = f"in each of {cells} cells a protected value can rise to {worst} at most, within the promised {posterior}"
    return Check("promise", True, f"{detail}, for whoever knows the shares of the cell and no more.")


def _compute_counted_posteriors(design: Mapping[str, Any], law: CellLaw, cell: Mapping[str, Any]) -> list[Fraction]:
    """The posteriors of the protected values of a cell, where its counts are published."""
    if "counts" not in cell:
        return []
    domain_counts = [0] * len(design["domain"])
    for sub_table in design["cells"]:
        for place, count in zip(sub_table["places"], sub_table["counts"], strict=True):
            domain_counts[place] += count
    limit = parse_exact(design["prior"]) * sum(domain_counts)
    posteriors_by_place = zip(law.places, compute_sub_table_posteriors(cell["counts"], law), strict=True)
    return [posterior for place, posterior in posteriors_by_place if domain_counts[place] <= limit]


def are_weights(written: Written, table: Mapping[str, list[Any]]) -> bool:
    """Cell by cell."""
    return value_distribution.are_weights(written, table, read_distributions(written.design))


def check_draws(connection: Connection, written: Written) -> Check:
    """Values by the coins of their cells."""
    return value_distribution.check_draws(connection, written, read_distributions(written.design))


def check_posteriors(connection: Connection, written: Written) -> Check:
    """Exact where the counts of the cells are published; else their rows must leave room for all protected records."""
    counts = count_original_values(connection, written)
    if counts is None:
        return written.outside("posteriors")
    design, laws = written.design, read_distributions(written.design)
    prior, posterior, total = parse_exact(design["prior"]), parse_exact(design["posterior"]), sum(counts)
    protected = [0 < count * prior.denominator <= prior.numerator * total for count in counts]
    shown = count_published_values(connection, written, WHOLE).get(None, {})
    room = [0] * len(counts)
    worst = Fraction(0)
    for number, (law, cell) in enumerate(zip(laws, design["cells"], strict=True)):
        rows = int(shown.get(number, np.zeros(1)).sum())
        cell_counts = cell.get("counts")
        if cell_counts is not None and sum(cell_counts) != rows:
            return Check("posteriors", False, f"cell {number} does not have as many records as its counts say.")
        # A protected value may hold the cell's prior of its rows; any other may hold them all.
        most = [math.floor(parse_exact(cell["prior"]) * rows) if protected[place] else rows for place in law.places]
        for place, count in zip(law.places, cell_counts or most, strict=True):
            room[place] += count
        if cell_counts is not None:
            believed = zip(law.places, compute_sub_table_posteriors(cell_counts, law), strict=True)
            worst = max([worst, *(reached_posterior for place, reached_posterior in believed if protected[place])])
    is_exact = all("counts" in cell for cell in design["cells"])
    if room != list(counts) if is_exact else any(more < count for more, count in zip(room, counts, strict=True)):
        return Check("posteriors", False, "the cells cannot hold the records of the original as the design says.")
    if not is_exact:
        detail = f"the cells have room for all protected records within their priors; promised: {posterior}."
        return Check("posteriors", True, detail)
    sentence = f"knowing the counts of the cells, no protected value can be believed with more than {worst}"
    return Check("posteriors", worst <= posterior, f"{sentence} (about {float(worst):.4f}); promised: {posterior}.")


REFERENCE_DISTRIBUTION = ReferenceDistribution(
    guarantees=("marginal-prior",),
    shown=make_encoding,
    domain=check_domain,
    promise=check_promise,
    weights=are_weights,
    draws=check_draws,
    posteriors=check_posteriors,
    coins=uniform_distribution.list_value_retentions,
)
