"""The verifier of small domain randomization. Sub-tables have few values, and their own retention and prior."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path

import numpy as np

from sfumato._core.exact_numbers import parse_exact
from sfumato._core.json_types import JsonView
from sfumato._records.value_records import ValueEncoding
from sfumato._verify.check_results import Check
from sfumato._verify.distributions import single_value_checks as value_distribution
from sfumato._verify.distributions import uniform_verifier as uniform_distribution
from sfumato._verify.distributions.reference_distribution import ReferenceDistribution, WeightTable
from sfumato._verify.distributions.sub_table_distribution import (
    SubTableDistribution,
    compute_raised_belief,
    compute_sub_table_posteriors,
    parse_bound,
    read_retention,
)
from sfumato._verify.manifest_view import ManifestView
from sfumato._verify.original_counts import WHOLE, Connection, count_original_values, count_published_values
from sfumato.errors import ReleaseFormatError


def read_distributions(design: JsonView) -> list[SubTableDistribution]:
    """Reads the sub-tables from the rational numbers of the manifest."""
    distributions, size = [], len(design["domain"])
    for cell in design["cells"]:
        places = [int(place) for place in cell["places"]]
        if len(set(places)) != len(places) or not set(places) <= set(range(size)):
            raise ReleaseFormatError(
                "a sub-table of the design has values outside the domain.", code="value-outside-domain"
            )
        distributions.append(SubTableDistribution.of(places, [read_retention(cell)] * len(places)))
    return distributions


def make_encoding(design: JsonView) -> ValueEncoding:
    """Each record publishes its sub-table and a value of this sub-table."""
    distributions = read_distributions(design)
    cells = np.repeat(np.arange(len(distributions)), [len(distribution.places) for distribution in distributions])
    return ValueEncoding(
        np.array([place for distribution in distributions for place in distribution.places], dtype=np.int64), cells
    )


def check_domain(folder: Path, view: ManifestView) -> Check:
    """Checks that every record publishes a value of its sub-table."""
    return value_distribution.check_domain(folder, view, len(view.design["cells"]))


def check_guarantee(folder: Path, view: ManifestView) -> Check:
    """Checks that no sub-table raises the belief in its most frequent protected value above the posterior."""
    design = view.design
    _, posterior = parse_bound(design["prior"], design["posterior"])
    worst = Fraction(0)
    for distribution, cell in zip(read_distributions(design), design["cells"], strict=True):
        prior = parse_exact(cell["prior"])
        if not 0 < prior < posterior:
            return Check("guarantee", False, f"a sub-table with the prior {prior} protects nothing.")
        worst = max(
            worst,
            compute_raised_belief(prior, distribution.compute_rise(0)),
            *_compute_counted_posteriors(design, distribution, cell),
        )
    if worst > posterior:
        return Check(
            "guarantee",
            False,
            f"a belief can rise to {worst} in a sub-table, which is above the guaranteed {posterior}.",
        )
    cells = len(design["cells"])
    detail = (
        f"in all {cells} sub-tables, the belief in a protected value can rise to at most {worst}, which is within the "
        f"guaranteed {posterior}"
    )
    return Check("guarantee", True, f"{detail}, for an attacker who knows only the shares of the sub-table.")


def _compute_counted_posteriors(design: JsonView, distribution: SubTableDistribution, cell: JsonView) -> list[Fraction]:
    """The posteriors of the protected values of a sub-table, if its counts are published."""
    if "counts" not in cell:
        return []
    domain_counts = [0] * len(design["domain"])
    for sub_table in design["cells"]:
        for place, count in zip(sub_table["places"], sub_table["counts"], strict=True):
            domain_counts[place] += count
    limit = parse_exact(design["prior"]) * sum(domain_counts)
    posteriors_by_place = zip(
        distribution.places, compute_sub_table_posteriors(cell["counts"], distribution), strict=True
    )
    return [posterior for place, posterior in posteriors_by_place if domain_counts[place] <= limit]


def are_weights(view: ManifestView, table: WeightTable) -> bool:
    """Checks the weights of each sub-table."""
    return value_distribution.are_weights(view, table, read_distributions(view.design))


def check_draws(connection: Connection, view: ManifestView) -> Check:
    """Checks the published values with the retentions of their sub-tables."""
    return value_distribution.check_draws(connection, view, read_distributions(view.design))


def check_posteriors(connection: Connection, view: ManifestView) -> Check:
    """Checks posteriors exactly if counts are published.

    If no counts are published, checks that all protected records fit into sub-tables.
    """
    counts = count_original_values(connection, view)
    if counts is None:
        return view.fail_outside_domain("posteriors")
    design, distributions = view.design, read_distributions(view.design)
    prior, posterior, total = parse_exact(design["prior"]), parse_exact(design["posterior"]), sum(counts)
    protected = [0 < count * prior.denominator <= prior.numerator * total for count in counts]
    published_counts = count_published_values(connection, view, WHOLE).get(None, {})
    largest_counts = [0] * len(counts)
    worst = Fraction(0)
    for number, (distribution, cell) in enumerate(zip(distributions, design["cells"], strict=True)):
        rows = int(published_counts.get(number, np.zeros(1)).sum())
        cell_counts = cell.get("counts")
        if cell_counts is not None and sum(cell_counts) != rows:
            return Check(
                "posteriors", False, f"the number of records in sub-table {number} differs from the sum of its counts."
            )
        # A protected value may have the prior's share of a sub-table's rows. Any other value may have all rows.
        cell_limits = [
            math.floor(parse_exact(cell["prior"]) * rows) if protected[place] else rows for place in distribution.places
        ]
        for place, count in zip(distribution.places, cell_counts or cell_limits, strict=True):
            largest_counts[place] += count
        if cell_counts is not None:
            place_posteriors = zip(
                distribution.places, compute_sub_table_posteriors(cell_counts, distribution), strict=True
            )
            worst = max(
                [worst, *(reached_posterior for place, reached_posterior in place_posteriors if protected[place])]
            )
    is_exact = all("counts" in cell for cell in design["cells"])
    if (
        largest_counts != list(counts)
        if is_exact
        else any(more < count for more, count in zip(largest_counts, counts, strict=True))
    ):
        return Check("posteriors", False, "the records of the original do not fit into the sub-tables of the design.")
    if not is_exact:
        detail = (
            "all protected records fit into the sub-tables within the priors of these; guaranteed limit of a belief: "
            f"{posterior}."
        )
        return Check("posteriors", True, detail)
    sentence = (
        "for an attacker who knows the counts of the sub-tables, the confidence in a protected value is at most "
        f"{worst}"
    )
    return Check("posteriors", worst <= posterior, f"{sentence} (about {float(worst):.4f}); guaranteed: {posterior}.")


REFERENCE_DISTRIBUTION = ReferenceDistribution(
    guarantees=("marginal-prior",),
    make_encoding=make_encoding,
    check_domain=check_domain,
    check_guarantee=check_guarantee,
    are_weights=are_weights,
    check_draws=check_draws,
    check_posteriors=check_posteriors,
    list_value_retentions=uniform_distribution.list_value_retentions,
)
