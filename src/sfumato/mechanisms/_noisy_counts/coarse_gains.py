"""Compares the predicted errors of counts with and without coarse tables, for the data steward."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from sfumato._core.array_types import Counts
from sfumato._request.histogram import ClassSizes, Histogram
from sfumato.mechanisms._noisy_counts.crowd_size import (
    compute_subset_variance,
    find_best_crowd,
    predict_cell_variances,
)
from sfumato.mechanisms._noisy_counts.fixed_sum_noise import FixedSumNoise
from sfumato.mechanisms.capabilities import PlanTable

if TYPE_CHECKING:
    from sfumato.mechanisms._noisy_counts.noisy_counts_mechanism import CoarseNoise

FEW_PEOPLE = 1000


def list_gains(
    histogram: Histogram,
    amplification: Fraction,
    crowd_amplification: Fraction,
    smallest_crowd: int,
    coarse: Sequence[CoarseNoise],
) -> list[PlanTable]:
    """A table for each coarse table: the errors with it, and with the whole budget for crowds and sets."""
    if not histogram.class_sizes or len(histogram.coarse_sizes) != len(coarse):
        return []
    size, people = histogram.domain_size, histogram.total
    without = _predict_person_variance(size, amplification, histogram.class_sizes, find_best_crowd(size, amplification))
    with_tables = _predict_person_variance(size, crowd_amplification, histogram.class_sizes, smallest_crowd)
    tables = []
    for table, group_sizes in zip(coarse, histogram.coarse_sizes, strict=True):
        sizes, groups = (np.array(numbers, dtype=np.int64) for numbers in zip(*group_sizes, strict=True))
        combined = _combine(sizes * with_tables, table.noise, sizes)
        number = int(groups.sum())
        rows = [
            (f"all {people:,} people", people * without, float(groups @ combined)),
            (f"one of the {number:,} groups, on average", people * without / number, float(groups @ combined) / number),
            (
                f"{FEW_PEOPLE:,} people by any other column",
                FEW_PEOPLE * without,
                FEW_PEOPLE * with_tables,
            ),
        ]
        tables.append(
            PlanTable(
                f"Standard error of the count of one value, with and without the table by {', '.join(table.columns)}",
                ("counted among", "without", "with"),
                [(label, *(f"{math.sqrt(variance):,.1f}" for variance in variances)) for label, *variances in rows],
            )
        )
    return tables


def _predict_person_variance(size: int, amplification: Fraction, class_sizes: ClassSizes, smallest: int) -> float:
    """The mean variance that a person adds to a count by crowds and sets."""
    sizes, classes = (np.array(numbers, dtype=np.int64) for numbers in zip(*class_sizes, strict=True))
    crowd_variances = predict_cell_variances(FixedSumNoise(size, 1 / amplification), sizes)
    variances = np.where(sizes >= smallest, crowd_variances, sizes * compute_subset_variance(size, amplification))
    return float(classes @ variances) / float(classes @ sizes)


def _combine(fine: np.ndarray, noise: FixedSumNoise, sizes: Counts) -> np.ndarray:
    """The variance of a group's count from both tables."""
    coarse = predict_cell_variances(noise, sizes)
    return np.asarray(fine * coarse / (fine + coarse))
