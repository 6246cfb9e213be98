"""Releases in which a record shows one value, perhaps within its cell: what their laws share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa

from sfumato._core.arrays import Floats
from sfumato._records.value_records import SymbolReader, Values
from sfumato._verify.manifest_view import Written
from sfumato._verify.original_counts import (
    WHOLE,
    Connection,
    count_published_values,
    count_true_values,
    list_coarse_columns,
    match_values,
)
from sfumato._verify.reference_distributions.score_tests import (
    LARGEST_TRANSITION,
    check_distribution,
    compute_expected_weights,
    find_largest_deviation,
    measure_agreement,
)
from sfumato._verify.reference_distributions.sub_table_distribution import CellLaw
from sfumato._verify.reference_distributions.weight_checks import are_close, are_values
from sfumato._verify.verification import Check
from sfumato.errors import ReleaseFormatError


def make_domain_encoding(design: Mapping[str, Any]) -> Values:
    """A record shows a value of the domain."""
    return Values(np.arange(len(design["domain"])))


def check_domain(folder: Path, written: Written, cells: int = 1) -> Check:
    """Every record must show what the design lets it show."""
    size = len(written.domain)
    read = SymbolReader(written.naming, cast("Values", written.shown))
    strays = set().union(*written.worked(partial(_find_strays, read), folder, read.names))
    if strays:
        return Check("domain", False, f"{len(strays)} published values are outside the domain.")
    where = f"the values of its cell, of {cells}" if written.shown.has_cells else f"the {size} values of the domain"
    return Check("domain", True, f"every published {written.naming.together!r} is one of {where}.")


def _find_strays(read: SymbolReader, batch: pa.RecordBatch) -> set[tuple[Any, ...]]:
    """What the records of a batch show, and may not."""
    columns = [batch.column(name) for name in read.names]
    try:
        is_stray = read.found(columns) == len(read.symbols)
    except ReleaseFormatError:  # of another type than the domain
        is_stray = np.ones(batch.num_rows, dtype=np.bool_)
    if not is_stray.any():
        return set()
    return set(zip(*(column.filter(pa.array(is_stray)).to_pylist() for column in columns), strict=True))


def are_weights(written: Written, table: Mapping[str, list[Any]], laws: Sequence[CellLaw]) -> bool:
    """A line for each cell and value: what a record adds if it shows that value, and otherwise."""
    expected = [
        (number, *compute_expected_weights(law.same[0], law.other[0]))
        for number, law in enumerate(laws)
        for _ in law.places
    ]
    weight_rows = zip(table["cell"], table["if_equal"], table["otherwise"], strict=True)
    places = [place for law in laws for place in law.places]
    return are_close(weight_rows, expected) and are_values(written, table, {"value": places})


def check_draws(connection: Connection, written: Written, laws: Sequence[CellLaw]) -> Check:
    """Values by the coins of their cells."""
    return check_published_counts(
        connection, written, partial(_measure_deviation, laws), partial(_estimate_transition, laws)
    )


def check_published_counts(
    connection: Connection,
    written: Written,
    deviation: Callable[[Floats, Mapping[int, Floats]], float],
    transition: Callable[[Mapping[int, Floats], int], Floats],
) -> Check:
    """The published values must be distributed as the design says, in the whole table and by each public column.

    `deviation` says by how many standard deviations what is shown is off at most, from what is held; `transition` is
    the chance that each value shows as each other, from what is shown and the size of the domain.
    """
    worst = 0.0
    for group in (WHOLE, *list_coarse_columns(connection, written)):
        truth = count_true_values(connection, written, group)
        if truth is None:
            return written.outside("draws")
        cells = count_published_values(connection, written, group)
        for key, true_counts in truth.items():
            worst = max(worst, deviation(true_counts, cells.get(key, {})))
    # Records that share their public columns with few others are found again in the release. Each shows its own value
    # by a coin of its own; counts alone would not tell whether the coins were thrown where values are equally frequent.
    matched = 0
    if len(written.domain) <= LARGEST_TRANSITION:
        chances = transition(count_published_values(connection, written, WHOLE).get(None, {}), len(written.domain))
        matched, agreed = measure_agreement(*match_values(connection, written, chances))
        worst = max(worst, agreed)
    return check_distribution(worst, matched)


def _estimate_transition(laws: Sequence[CellLaw], shown: Mapping[int, Floats], size: int) -> Floats:
    """The chance that each value (row) shows as each other; how values are spread over cells is estimated."""
    estimated_counts = np.zeros((len(laws), size))
    for number, law in enumerate(laws):
        places = list(law.places)
        counts = shown.get(number, np.zeros(size))[places]
        same, other = (np.array([float(chance) for chance in numbers]) for numbers in (law.same, law.other))
        # One cell holds everything; of several, each has one coin for all its values.
        retentions = same - other if len(laws) > 1 else np.ones(len(places))
        estimated_counts[number, places] = (
            np.maximum((counts - counts.sum() * other) / retentions, 0.0) if len(laws) > 1 else 1.0
        )
    shares = estimated_counts / np.maximum(estimated_counts.sum(axis=0), 1e-300)
    matrix = np.zeros((size, size))
    for number, law in enumerate(laws):
        places = list(law.places)
        same, other = (np.array([float(chance) for chance in numbers]) for numbers in (law.same, law.other))
        block = np.tile(other[:, None], (1, len(places)))
        np.fill_diagonal(block, same)
        matrix[np.ix_(places, places)] += shares[number, places][:, None] * block
    return matrix


def _measure_deviation(laws: Sequence[CellLaw], true_counts: Floats, shown: Mapping[int, Floats]) -> float:
    """By how many standard deviations a published count is off at most.

    How the records of a value are spread over cells is not known from outside. What is known: each cell's unbiased
    counts add up to the truth. Their variance is at most what it would be if each cell held as many of the value as
    make it largest, and no more than there are.
    """
    if len(laws) == 1 and len(laws[0].places) == len(true_counts):
        same, other = (np.array([float(chance) for chance in numbers]) for numbers in (laws[0].same, laws[0].other))
        expected = true_counts @ other + true_counts * (same - other)
        variance = true_counts @ (other * (1 - other)) + true_counts * (same * (1 - same) - other * (1 - other))
        return find_largest_deviation(shown.get(0, np.zeros(len(true_counts))) - expected, variance)
    total, variance = np.zeros(len(true_counts)), np.zeros(len(true_counts))
    for number, law in enumerate(laws):
        places = list(law.places)
        counts = shown.get(number, np.zeros(len(true_counts)))[places]
        rows, retention, swapped = counts.sum(), float(law.same[0]), float(law.other[0])
        total[places] += (counts - rows * swapped) / (retention - swapped)
        noise = rows * swapped * (1 - swapped) + np.minimum(true_counts[places], rows) * retention * (1 - retention)
        variance[places] += noise / (retention - swapped) ** 2
    return find_largest_deviation(total - true_counts, variance)
