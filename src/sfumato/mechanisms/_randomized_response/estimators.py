"""The estimators of mechanisms that keep or redraw within cells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Protocol

import numpy as np

from sfumato._core.arrays import Floats, Indices
from sfumato._records.tally import Holdings, Tally
from sfumato.mechanisms._randomized_response.estimation_weights import CoinWeights, weighed
from sfumato.mechanisms._randomized_response.inverse_estimation import (
    COMPOSITION_STEPS,
    closed,
    entry_counts,
    iterated,
    least_squares,
    shares_from,
)
from sfumato.mechanisms._randomized_response.operators import Operator
from sfumato.mechanisms.estimator import Method, Moments, Twin

DEFAULT = "closed"
EM_TOLERANCE = 1e-9
EM_STEPS = 10_000

NO_ASSUMPTION = "none: the randomness is the perturbation's own, and its probabilities are published"
SPREAD = "the records of a value that a condition selects are spread over the cells as all records of that value are"
BIASED = "biased, and its error is not known: use it to compare, not to conclude"
PLUG_IN = (
    "slightly biased: its weights are estimated from the same release; an error is given only if the release publishes "
    "the shares of its cells"
)


class CellDesign(Protocol):
    """A design of cells in which records are kept or redrawn."""

    @property
    def operator(self) -> Operator:
        """The cells, laid out as arrays."""
        ...

    @property
    def cell_shares(self) -> Floats | None:
        """Which part of each value's records is in each cell, where the holder has made that public."""
        ...


def _by_closed_form(design: CellDesign, tally: Tally, wanted: Sequence[Indices]) -> list[Moments]:
    return closed(design.operator, tally, wanted)


def _by_iteration(design: CellDesign, tally: Tally, wanted: Sequence[Indices]) -> list[Moments]:
    held = iterated(design.operator, tally.counts, _shares(design, tally), EM_STEPS, EM_TOLERANCE)
    return [without_error(held[:, places].sum(axis=1), tally) for places in wanted]


def _by_least_squares(design: CellDesign, tally: Tally, wanted: Sequence[Indices]) -> list[Moments]:
    found = least_squares(design.operator, tally, _shares(design, tally), wanted)
    if design.cell_shares is not None:
        return found
    # The error of shares that are estimated themselves is not known, and can be most of the error.
    return [replace(moments, base=np.full(len(moments), np.nan)) for moments in found]


def without_error(values: Floats, tally: Tally) -> Moments:
    """Counts of whose error nothing is known."""
    nothing, rows = np.zeros(len(values)), tally.rows.astype(np.float64)
    return Moments(values, np.full(len(values), np.nan), nothing, rows, nothing)


def _shares(design: CellDesign, tally: Tally) -> Floats:
    """The published shares, or else those that the whole release lets one estimate."""
    if design.cell_shares is not None:
        return design.cell_shares
    return shares_from(design.operator, entry_counts(design.operator, tally.whole or tally))


def _twin(design: CellDesign, whole: Tally, holdings: Holdings | None) -> Twin:
    """The cells with their coins."""
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
    return Twin(Path(__file__).with_name("counting.js"), numbers)


CLOSED: Method[CellDesign] = weighed(
    lambda design: CoinWeights(design.operator),
    "unbiased count, exact or score interval",
    NO_ASSUMPTION,
    _by_closed_form,
    needs_hits_only=lambda design: design.operator.is_flat,
    twin=_twin,
)
EM: Method[CellDesign] = Method(
    "iterative Bayes (EM), biased", NO_ASSUMPTION, _by_iteration, note=BIASED, is_reproduction=True
)
CELLS_EM: Method[CellDesign] = Method(
    "iterative Bayes (EM) over all cells, biased",
    SPREAD,
    _by_iteration,
    needs_whole=True,
    note=BIASED,
    is_reproduction=True,
)
CELLS_GLS: Method[CellDesign] = Method(
    "generalised least squares over all cells, normal interval",
    SPREAD,
    _by_least_squares,
    needs_whole=True,
    note=PLUG_IN,
)

ONE_CELL: Mapping[str, Method[CellDesign]] = MappingProxyType({DEFAULT: CLOSED, "em": EM})
SEVERAL_CELLS: Mapping[str, Method[CellDesign]] = MappingProxyType({DEFAULT: CLOSED, "gls": CELLS_GLS, "em": CELLS_EM})
