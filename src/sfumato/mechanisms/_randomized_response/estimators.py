"""The estimators of mechanisms that keep a value or redraw it within the record's sub-table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Protocol

import numpy as np

from sfumato._core.array_types import Floats, Indices
from sfumato._records.tally import Holdings, Tally
from sfumato.mechanisms._randomized_response.estimation_weights import OperatorWeights, make_weighted_method
from sfumato.mechanisms._randomized_response.inverse_estimation import (
    COMPOSITION_STEPS,
    estimate_by_iteration,
    estimate_closed_form,
    estimate_entry_counts,
    estimate_least_squares,
    estimate_shares,
)
from sfumato.mechanisms._randomized_response.perturbation_operators import Operator
from sfumato.mechanisms.estimator import BrowserEstimator, Method, Moments

DEFAULT = "closed"
EM_TOLERANCE = 1e-9
EM_STEPS = 10_000

NO_ASSUMPTION = "none, because the only randomness is the perturbation, and its probabilities are published"
SPREAD_ASSUMPTION = (
    "the records of a value that a condition selects are distributed over the sub-tables in the same way as all "
    "records of this value"
)
BIAS_NOTE = "biased, with unknown error; use this method for comparison only"
PLUG_IN_NOTE = (
    "slightly biased, because its weights are estimated from the same release; an error is given only if the release "
    "publishes the shares of its sub-tables"
)


class CellDesign(Protocol):
    """A design of sub-tables in which values are kept or redrawn."""

    @property
    def operator(self) -> Operator:
        """The sub-tables as arrays."""
        ...

    @property
    def cell_shares(self) -> Floats | None:
        """The share of each value's records in each sub-table, if the data steward published it."""
        ...


def _estimate_closed_form(design: CellDesign, tally: Tally, value_sets: Sequence[Indices]) -> list[Moments]:
    return estimate_closed_form(design.operator, tally, value_sets)


def _estimate_by_iteration(design: CellDesign, tally: Tally, value_sets: Sequence[Indices]) -> list[Moments]:
    value_counts = estimate_by_iteration(
        design.operator, tally.counts, _find_shares(design, tally), EM_STEPS, EM_TOLERANCE
    )
    return [make_moments_without_error(value_counts[:, places].sum(axis=1), tally) for places in value_sets]


def _estimate_least_squares(design: CellDesign, tally: Tally, value_sets: Sequence[Indices]) -> list[Moments]:
    estimates = estimate_least_squares(design.operator, tally, _find_shares(design, tally), value_sets)
    if design.cell_shares is not None:
        return estimates
    # The error of estimated shares is unknown, and may be the largest part of the error.
    return [replace(moments, base=np.full(len(moments), np.nan)) for moments in estimates]


def make_moments_without_error(values: Floats, tally: Tally) -> Moments:
    """Counts with an unknown error."""
    nothing, rows = np.zeros(len(values)), tally.rows.astype(np.float64)
    return Moments(values, np.full(len(values), np.nan), nothing, rows, nothing)


def _find_shares(design: CellDesign, tally: Tally) -> Floats:
    """The published shares, or shares estimated from the whole release."""
    if design.cell_shares is not None:
        return design.cell_shares
    return estimate_shares(design.operator, estimate_entry_counts(design.operator, tally.release_tally or tally))


def _make_twin(design: CellDesign, whole: Tally, holdings: Holdings | None) -> BrowserEstimator:
    """The estimator for the browser, from the sub-tables and their retentions."""
    operator = design.operator
    numbers = {
        "places": operator.places,
        "cells": operator.cells,
        "retention": operator.retention,
        "swap": operator.swap,
        "domain_size": operator.domain_size,
        "is_flat": operator.is_flat,
        "steps": COMPOSITION_STEPS,
    }
    return BrowserEstimator(Path(__file__).with_name("counting.js"), numbers)


CLOSED: Method[CellDesign] = make_weighted_method(
    lambda design: OperatorWeights(design.operator),
    "unbiased count, with an exact or a score confidence interval",
    NO_ASSUMPTION,
    _estimate_closed_form,
    needs_hits_only=lambda design: design.operator.is_flat,
    twin=_make_twin,
)
EM: Method[CellDesign] = Method(
    "iterative Bayes (EM), biased", NO_ASSUMPTION, _estimate_by_iteration, note=BIAS_NOTE, is_reproduction=True
)
CELLS_EM: Method[CellDesign] = Method(
    "iterative Bayes (EM) over all sub-tables, biased",
    SPREAD_ASSUMPTION,
    _estimate_by_iteration,
    needs_whole=True,
    note=BIAS_NOTE,
    is_reproduction=True,
)
CELLS_GLS: Method[CellDesign] = Method(
    "generalised least squares over all sub-tables, with a normal confidence interval",
    SPREAD_ASSUMPTION,
    _estimate_least_squares,
    needs_whole=True,
    note=PLUG_IN_NOTE,
)

ONE_CELL: Mapping[str, Method[CellDesign]] = MappingProxyType({DEFAULT: CLOSED, "em": EM})
SEVERAL_CELLS: Mapping[str, Method[CellDesign]] = MappingProxyType({DEFAULT: CLOSED, "gls": CELLS_GLS, "em": CELLS_EM})
