"""Checks shared by releases in which a record publishes one value, possibly within its sub-table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import cast

import numpy as np
import pyarrow as pa

from sfumato._core.array_types import Floats
from sfumato._core.json_types import JsonView
from sfumato._records.value_records import SymbolReader, ValueEncoding
from sfumato._verify.check_results import Check
from sfumato._verify.distributions.reference_distribution import WeightTable
from sfumato._verify.distributions.score_tests import (
    LARGEST_TRANSITION,
    check_distribution,
    compute_expected_weights,
    find_largest_deviation,
    measure_agreement,
)
from sfumato._verify.distributions.sub_table_distribution import SubTableDistribution
from sfumato._verify.distributions.weight_checks import are_close, are_values
from sfumato._verify.manifest_view import ManifestView
from sfumato._verify.original_counts import (
    WHOLE,
    Connection,
    count_published_values,
    count_true_values,
    list_coarse_columns,
    match_values,
)
from sfumato.errors import ReleaseFormatError


def make_domain_encoding(design: JsonView) -> ValueEncoding:
    """Each record publishes a value of the domain."""
    return ValueEncoding(np.arange(len(design["domain"])))


def check_domain(folder: Path, view: ManifestView, cells: int = 1) -> Check:
    """Checks that the design allows every published value."""
    size = len(view.domain)
    read = SymbolReader(view.naming, cast("ValueEncoding", view.encoding))
    stray_values = set().union(*view.map_batches(partial(_find_strays, read), folder, read.names))
    if stray_values:
        return Check("domain", False, f"{len(stray_values)} published values are outside the domain.")
    where = (
        f"the values of its sub-table (there are {cells} sub-tables)"
        if view.encoding.has_cells
        else f"the {size} values of the domain"
    )
    return Check("domain", True, f"every published value of {view.naming.joined_name!r} is one of {where}.")


def _find_strays(read: SymbolReader, batch: pa.RecordBatch) -> set[tuple[object, ...]]:
    """The published values of a batch that the design does not allow."""
    columns = [batch.column(name) for name in read.names]
    try:
        is_stray = read.find_symbols(columns) == len(read.symbols)
    except ReleaseFormatError:  # the type differs from that of the domain
        is_stray = np.ones(batch.num_rows, dtype=np.bool_)
    if not is_stray.any():
        return set()
    return set(zip(*(column.filter(pa.array(is_stray)).to_pylist() for column in columns), strict=True))


def are_weights(view: ManifestView, table: WeightTable, distributions: Sequence[SubTableDistribution]) -> bool:
    """Checks the weights of each sub-table and value: for a record that publishes this value, and for other records."""
    expected = [
        (number, *compute_expected_weights(distribution.same_chances[0], distribution.other_chances[0]))
        for number, distribution in enumerate(distributions)
        for _ in distribution.places
    ]
    weight_rows = zip(table["cell"], table["if_equal"], table["otherwise"], strict=True)
    places = [place for distribution in distributions for place in distribution.places]
    return are_close(weight_rows, expected) and are_values(view, table, {"value": places})


def check_draws(connection: Connection, view: ManifestView, distributions: Sequence[SubTableDistribution]) -> Check:
    """Checks the published values with the retentions of their sub-tables."""
    return check_published_counts(
        connection, view, partial(_measure_deviation, distributions), partial(_estimate_transition, distributions)
    )


def check_published_counts(
    connection: Connection,
    view: ManifestView,
    deviation: Callable[[Floats, Mapping[int, Floats]], float],
    transition: Callable[[Mapping[int, Floats], int], Floats],
) -> Check:
    """Checks that the published values are distributed as designed, in the whole table and by each public column.

    `deviation` gives the largest deviation of published counts from true ones, in standard deviations. `transition`
    gives the probability that each value is published as each value, from the published counts and the size of the
    domain.
    """
    worst = 0.0
    for group in (WHOLE, *list_coarse_columns(connection, view)):
        truth = count_true_values(connection, view, group)
        if truth is None:
            return view.fail_outside_domain("draws")
        cells = count_published_values(connection, view, group)
        for key, true_counts in truth.items():
            worst = max(worst, deviation(true_counts, cells.get(key, {})))
    # Records that share their public columns with few others are matched with the original, because each record
    # publishes its own value by an independent draw. If values are equally frequent, counts alone would not show
    # whether values were drawn.
    matched_rows = 0
    if len(view.domain) <= LARGEST_TRANSITION:
        chances = transition(count_published_values(connection, view, WHOLE).get(None, {}), len(view.domain))
        matched_rows, agreement = measure_agreement(*match_values(connection, view, chances))
        worst = max(worst, agreement)
    return check_distribution(worst, matched_rows)


def _estimate_transition(
    distributions: Sequence[SubTableDistribution], published_counts: Mapping[int, Floats], size: int
) -> Floats:
    """The probability that each value (row) is published as each value (column).

    Estimates the distribution over sub-tables.
    """
    estimated_counts = np.zeros((len(distributions), size))
    for number, distribution in enumerate(distributions):
        places = list(distribution.places)
        counts = published_counts.get(number, np.zeros(size))[places]
        same, other = (
            np.array([float(chance) for chance in numbers])
            for numbers in (distribution.same_chances, distribution.other_chances)
        )
        # A single sub-table has all records. If there are several, each has one retention for all its values.
        retentions = same - other if len(distributions) > 1 else np.ones(len(places))
        estimated_counts[number, places] = (
            np.maximum((counts - counts.sum() * other) / retentions, 0.0) if len(distributions) > 1 else 1.0
        )
    shares = estimated_counts / np.maximum(estimated_counts.sum(axis=0), 1e-300)
    matrix = np.zeros((size, size))
    for number, distribution in enumerate(distributions):
        places = list(distribution.places)
        same, other = (
            np.array([float(chance) for chance in numbers])
            for numbers in (distribution.same_chances, distribution.other_chances)
        )
        block = np.tile(other[:, None], (1, len(places)))
        np.fill_diagonal(block, same)
        matrix[np.ix_(places, places)] += shares[number, places][:, None] * block
    return matrix


def _measure_deviation(
    distributions: Sequence[SubTableDistribution], true_counts: Floats, published_counts: Mapping[int, Floats]
) -> float:
    """The largest deviation of a published count, in standard deviations.

    The distribution of a value's records over sub-tables is not published. But each sub-table has an unbiased count,
    and the sum of these has the true count as its expectation. The number of the value's records in each sub-table is
    unknown. So the variance of the sum is bounded by its maximum over all possible numbers.
    """
    if len(distributions) == 1 and len(distributions[0].places) == len(true_counts):
        same, other = (
            np.array([float(chance) for chance in numbers])
            for numbers in (distributions[0].same_chances, distributions[0].other_chances)
        )
        expected = true_counts @ other + true_counts * (same - other)
        variance = true_counts @ (other * (1 - other)) + true_counts * (same * (1 - same) - other * (1 - other))
        return find_largest_deviation(published_counts.get(0, np.zeros(len(true_counts))) - expected, variance)
    total, variance = np.zeros(len(true_counts)), np.zeros(len(true_counts))
    for number, distribution in enumerate(distributions):
        places = list(distribution.places)
        counts = published_counts.get(number, np.zeros(len(true_counts)))[places]
        rows, retention, other_chance = (
            counts.sum(),
            float(distribution.same_chances[0]),
            float(distribution.other_chances[0]),
        )
        total[places] += (counts - rows * other_chance) / (retention - other_chance)
        noise = rows * other_chance * (1 - other_chance) + np.minimum(true_counts[places], rows) * retention * (
            1 - retention
        )
        variance[places] += noise / (retention - other_chance) ** 2
    return find_largest_deviation(total - true_counts, variance)
