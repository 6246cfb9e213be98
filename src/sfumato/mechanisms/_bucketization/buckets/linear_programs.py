"""Linear programmes, solved by HiGHS itself: to load scipy, which brings it too, takes longer than to plan."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sfumato._core.arrays import Floats
from sfumato.mechanisms._bucketization.buckets.mute_solver import silence_output

DUAL = 1
"""What HiGHS calls its dual simplex method."""


@dataclass(frozen=True, slots=True, eq=False)
class Programme:
    """Costs to be made small: of numbers within bounds, whose sums by rows are within bounds too."""

    costs: Floats
    bounds: tuple[Floats, Floats]
    rows: Floats
    sums: tuple[Floats, Floats]


@dataclass(frozen=True, slots=True, eq=False)
class PricedNumbers:
    """The numbers, and what a little more of each sum would cost."""

    numbers: Floats
    prices: Floats


def solve_programme(programme: Programme) -> PricedNumbers | None:
    """The cheapest numbers, as the dual simplex method finds them; None if there are none."""
    import highspy  # noqa: PLC0415 - few commands need it

    solver = highspy.Highs()  # type: ignore[no-untyped-call]
    solver.setOptionValue("output_flag", False)
    solver.setOptionValue("solver", "simplex")
    solver.setOptionValue("simplex_strategy", DUAL)
    solver.setOptionValue("threads", 1)
    model = highspy.HighsLp()
    model.num_row_, model.num_col_ = programme.rows.shape
    model.col_cost_ = programme.costs
    model.col_lower_, model.col_upper_ = programme.bounds
    model.row_lower_, model.row_upper_ = programme.sums
    lines, columns = np.nonzero(programme.rows)
    model.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    model.a_matrix_.start_ = np.searchsorted(lines, np.arange(model.num_row_ + 1))
    model.a_matrix_.index_ = columns
    model.a_matrix_.value_ = programme.rows[lines, columns]
    with silence_output():
        solver.passModel(model)
        solver.run()
    if solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
        return None
    answer = solver.getSolution()
    return PricedNumbers(np.array(answer.col_value), np.array(answer.row_dual))
