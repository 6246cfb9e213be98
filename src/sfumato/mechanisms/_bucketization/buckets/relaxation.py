"""Solves the linear programme over numbers of buckets, and proves bounds in integers from its solution.

The solver works in floating point, so its answer is a proposal. Its dual prices, rounded to multiples of 2^-40, give a
valid bound whatever they are. For y >= 0 and any z,
    loss = w b >= z |T| + y needs + (w - z S - y rows) b >= z |T| + y needs + sum of min(d low, d high)
where d = w - z S - y rows and low <= b <= high. This bound is evaluated in integers of any length.

Notation: w_S = (S-1)² = weights, b = buckets, y = prices of the cuts, z = price of a record, d = reduced.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Iterator
from dataclasses import dataclass
from threading import Lock

import numpy as np
import numpy.typing as npt

from sfumato._core.array_types import Floats
from sfumato.mechanisms._bucketization.buckets.bucket_problem import Problem
from sfumato.mechanisms._bucketization.buckets.cap_rounding import Integers
from sfumato.mechanisms._bucketization.buckets.cutting_planes import (
    Cuts,
    Reals,
    find_violated_cuts,
    make_single_value_cuts,
)

# Solves linear programmes with HiGHS directly, because loading scipy takes longer than planning.

# The output of the solver is discarded, because its lines must not mix with those of a command.

STANDARD_OUTPUT = 1
_ONE_AT_A_TIME = Lock()


@contextlib.contextmanager
def silence_output() -> Iterator[None]:
    """Discards everything written to the standard output of the process, in any language.

    HiGHS has an option to print nothing, but prints some lines anyway. Output of other threads during this time is lost
    too, so use this for a call of the solver only.
    """
    with _ONE_AT_A_TIME:
        try:
            saved_output = os.dup(STANDARD_OUTPUT)
        except OSError:  # there is none
            yield
            return
        _flush()
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, STANDARD_OUTPUT)
        os.close(nowhere)
        try:
            yield
        finally:
            _flush()  # otherwise C would write its buffer after the output is restored
            os.dup2(saved_output, STANDARD_OUTPUT)
            os.close(saved_output)


def _flush() -> None:
    """Writes the contents of C's buffers, if its library can be called."""
    with contextlib.suppress(OSError, TypeError, AttributeError):
        ctypes.CDLL(None).fflush(None)


# ---------------------------------------------------------------------------------------------------------------------

DUAL = 1
"""The name of the dual simplex method in HiGHS."""


@dataclass(frozen=True, slots=True, eq=False)
class Programme:
    """A linear programme: costs to minimise, bounds of the numbers, and bounds of their sums by row."""

    costs: Floats
    bounds: tuple[Floats, Floats]
    rows: Floats
    sums: tuple[Floats, Floats]


@dataclass(frozen=True, slots=True, eq=False)
class PricedNumbers:
    """The numbers, and the price of a unit more of each sum."""

    numbers: Floats
    prices: Floats


def solve_programme(programme: Programme) -> PricedNumbers | None:
    """The cheapest numbers, found by the dual simplex method; None if there is no solution."""
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


# ---------------------------------------------------------------------------------------------------------------------

Objects = npt.NDArray[np.object_]

DIGITS = 40


@dataclass(frozen=True, slots=True, eq=False)
class Box:
    """Bounds on the numbers of buckets of every size."""

    low: Integers
    high: Integers

    @staticmethod
    def of(problem: Problem) -> Box:
        """The bounds that follow from the number of records."""
        return Box(np.zeros_like(problem.sizes), problem.total // problem.sizes)


@dataclass(frozen=True, slots=True, eq=False)
class Point:
    """A corner of the relaxation from the solver: numbers of buckets and prices."""

    buckets: Reals
    prices: Reals
    record_price: float


@dataclass(frozen=True, slots=True, eq=False)
class Relaxation:
    """The best point of the relaxation under all cuts (if there is one), the cuts used, and a proven bound."""

    point: Point | None
    cuts: Cuts
    bound: int


def compute_bucket_losses(problem: Problem) -> Integers:
    """The loss of one bucket of every size."""
    return (problem.sizes - 1) ** 2


def relax(problem: Problem) -> Relaxation:
    """Solves the relaxation, adding cuts until none is violated."""
    cuts, box = make_single_value_cuts(problem), Box.of(problem)
    while True:
        point = solve(problem, cuts, box)
        if point is None:
            return Relaxation(None, cuts, 0)
        violated_cuts = find_violated_cuts(problem, point.buckets)
        if violated_cuts is None:
            return Relaxation(point, cuts, prove_lower_bound(problem, cuts, box, point))
        cuts = cuts.join(violated_cuts)


def solve(problem: Problem, cuts: Cuts, box: Box) -> Point | None:
    """The cheapest fractional numbers of buckets in the box."""
    return _call_solver(problem, cuts, box, compute_bucket_losses(problem), None)


def prove_lower_bound(problem: Problem, cuts: Cuts, box: Box, point: Point) -> int:
    """A lower bound of the loss of all valid settings in the box, as an integer."""
    return _compute_dual_value(problem, cuts, box, point, compute_bucket_losses(problem))


def prove_empty(problem: Problem, cuts: Cuts, box: Box) -> Reals | None:
    """Finds prices of the cuts that prove the box empty; None if there is no such proof.

    All costs are 0 here, so a valid point would cost 0. A bound of 1 proves that there is no valid point. The prices
    come from a programme in which every cut may be violated, at a price of 1 for each missing record.
    """
    nothing = np.zeros_like(problem.sizes)
    point = _call_solver(problem, cuts, box, nothing, 1.0)
    if point is None or _compute_dual_value(problem, cuts, box, point, nothing) <= 0:
        return None
    return point.prices


def _call_solver(problem: Problem, cuts: Cuts, box: Box, costs: Integers, penalty: float | None) -> Point | None:
    """Calls the solver. With a penalty, cuts may be violated at that price for each missing record."""
    sizes, slack_count = len(problem.sizes), 0 if penalty is None else len(cuts.needs)
    answer = solve_programme(
        Programme(
            np.concatenate([costs, np.full(slack_count, penalty or 0.0)]),
            (np.append(box.low, np.zeros(slack_count)), np.append(box.high, np.full(slack_count, np.inf))),
            np.vstack(
                [
                    np.hstack([cuts.rows, np.eye(len(cuts.needs), slack_count)]),
                    np.append(problem.sizes, np.zeros(slack_count)),
                ]
            ),
            (np.append(cuts.needs, problem.total), np.append(np.full(len(cuts.needs), np.inf), problem.total)),
        )
    )
    if answer is None:
        return None
    prices = np.maximum(answer.prices[:-1], 0.0)
    return Point(answer.numbers[:sizes], prices, float(answer.prices[-1]))


def _compute_dual_value(problem: Problem, cuts: Cuts, box: Box, point: Point, costs: Integers) -> int:
    """The dual value of rounded prices, rounded up: the loss is an integer."""
    prices = np.array([round(price * 2**DIGITS) for price in point.prices.tolist()], dtype=object)
    record_price = round(point.record_price * 2**DIGITS)
    reduced = (
        _convert_to_exact(costs) * 2**DIGITS
        - record_price * _convert_to_exact(problem.sizes)
        - prices @ _convert_to_exact(cuts.rows)
    )
    ends = np.minimum(reduced * _convert_to_exact(box.low), reduced * _convert_to_exact(box.high))
    value: int = record_price * problem.total + int(prices @ _convert_to_exact(cuts.needs)) + int(ends.sum())
    return -(-value >> DIGITS)


def _convert_to_exact(integers: Integers) -> Objects:
    """Converts an array to Python's integers, which do not overflow."""
    return integers.astype(object)
