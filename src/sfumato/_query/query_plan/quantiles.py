"""Estimates medians and quantiles of public numbers under a protected condition.

The records of a group are counted up to each value of the number, or up to a limited number of points. The counts are
made monotone, and then give the quantile. For the interval, take the count up to a point minus the share of all
records. The interval follows from the errors of these differences.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

import numpy as np
from sqlglot import exp

from sfumato._core.array_types import Floats
from sfumato._core.cell_values import Value
from sfumato._query.duckdb_session import Session
from sfumato._query.estimate import Crossing, Estimate
from sfumato._query.formula_estimation import Sum
from sfumato._query.group_estimation import GroupCell, GroupEstimator
from sfumato._query.parser import allowed_sql
from sfumato._query.parser.aggregates import Total
from sfumato._query.parser.allowed_sql import Tree
from sfumato._query.parser.conditions import Condition
from sfumato._query.parser.sensitive_queries import Group, Question
from sfumato.errors import QueryError
from sfumato.mechanisms.estimator import Method, Moments

MOST_POINTS = 200
"""The largest number of points of a distribution."""
QUANTILES = "quantile of the estimated distribution, with a confidence interval from a band around the distribution"
COARSE_NOTE = f"rounded up to the next of {MOST_POINTS} points, because the column has too many values"
NO_RECORD = "no record satisfies the condition"
_ONE_SIGMA_LEVEL = 0.6826894921370859
_KINDS = (exp.Median, exp.PercentileCont, exp.PercentileDisc, exp.Quantile)


@dataclass(frozen=True)
class QuantileRequest:
    """A quantile of a public number, over the records that satisfy a condition."""

    value: Tree
    share: float
    is_continuous: bool
    """Whether the quantile may lie between two values. For example, the median of an even number of records may."""
    where: tuple[Tree, ...] = ()


def is_quantile(node: Tree) -> bool:
    """Whether an aggregate is a median or a quantile."""
    inner = node.this if isinstance(node, exp.Filter) else node
    inner = inner.this if isinstance(inner, exp.WithinGroup) else inner
    return isinstance(inner, _KINDS)


def parse_quantile(node: Tree) -> QuantileRequest:
    """Reads MEDIAN, QUANTILE_CONT, QUANTILE_DISC, QUANTILE and PERCENTILE_CONT ... WITHIN GROUP."""
    where: tuple[Tree, ...] = ()
    if isinstance(node, exp.Filter):
        where, node = (node.expression.this,), node.this
    if isinstance(node, exp.WithinGroup):
        (ordered,) = node.expression.expressions
        share = _parse_share(node.this.this)
        share = 1 - share if ordered.args.get("desc") else share
        return QuantileRequest(ordered.this, share, isinstance(node.this, exp.PercentileCont), where)
    if isinstance(node, exp.Median):
        return QuantileRequest(node.this, 0.5, is_continuous=True, where=where)
    share_tree = node.args.get("quantile") or node.args.get("expression")
    return QuantileRequest(node.this, _parse_share(share_tree), isinstance(node, exp.PercentileCont), where)


def _parse_share(node: Tree | None) -> float:
    share_tree = None if node is None else allowed_sql.unwrap(node)
    if not isinstance(share_tree, exp.Literal) or share_tree.is_string or not 0 <= float(share_tree.name) <= 1:
        raise QueryError(
            "a quantile needs one number from 0 to 1, such as QUANTILE_CONT(stay, 0.9); for several quantiles, "
            "select several columns.",
            code="invalid-quantile",
        )
    return float(share_tree.name)


class Distribution:
    """The counts of a group at each value of a number, or at selected points."""

    def __init__(
        self,
        session: Session,
        question: Question,
        method: Method[object],
        value: str,
        condition: Condition,
    ) -> None:
        self.session, self.method = session, method
        records, where = question.source.records_sql, question.where.public_sql
        self.points = self._choose_points(f"{records}{f' WHERE {where}' if where else ''}", value)
        point_question = replace(
            question,
            groups=(*question.groups, Group(self._write_group(value), is_sensitive=False)),
            totals=(Total(condition),),
            formulas=(Sum(0),),
        )
        self.estimator = GroupEstimator(session, point_question, method)
        self.cells: dict[tuple[Value, ...], list[tuple[float, GroupCell]]] = {}
        for cell in self.estimator.count_cells():
            *key, point = cell.public_key
            if point is not None:
                self.cells.setdefault((*key, None, *cell.sensitive_key), []).append((float(point), cell))  # type: ignore[arg-type]

    def _choose_points(self, records: str, value: str) -> Floats | None:
        """Selects points if there are too many values to use all of them."""
        number = f"CAST({value} AS DOUBLE)"
        ((values, is_finite),) = self.session.fetch_rows(
            f"SELECT COUNT(DISTINCT {number}), BOOL_AND(ISFINITE({number})) FROM {records}"
        )
        if is_finite is False:
            raise QueryError(
                "a column for quantiles contains an infinite number or NaN; exclude it with WHERE.",
                code="infinite-number",
            )
        self.is_coarse = values > MOST_POINTS
        if not self.is_coarse:
            return None
        shares = ", ".join(repr(number / MOST_POINTS) for number in range(1, MOST_POINTS + 1))
        ((quantile_points,),) = self.session.fetch_rows(f"SELECT QUANTILE_DISC({number}, [{shares}]) FROM {records}")
        return np.unique(np.array(quantile_points, dtype=np.float64))

    def _write_group(self, value: str) -> str:
        """The SQL that groups records by a number. The group is the number itself, or the first point not below it."""
        number = f"CAST({value} AS DOUBLE)"
        if self.points is None:
            return number
        cases = " ".join(f"WHEN {number} <= {float(point)!r} THEN {float(point)!r}" for point in self.points)
        return f"CASE {cases} END"

    def estimate(self, keys: Sequence[GroupCell], request: QuantileRequest) -> Estimate:
        """Estimates one quantile over the records of several rows of the answer."""
        cells_by_point: dict[float, list[GroupCell]] = {}
        for key in keys:
            for point, cell in self.cells.get((*key.public_key, None, *key.sensitive_key), []):
                cells_by_point.setdefault(point, []).append(cell)
        if not cells_by_point:
            return Estimate.missing(NO_RECORD)
        points = sorted(cells_by_point)
        counts = [
            sum(self.estimator.estimate_total(0, cell).value for cell in cells_by_point[point]) for point in points
        ]
        total = sum(counts)
        if total <= 0:
            return Estimate.missing("by the estimate, about 0 records satisfy the condition")
        cumulative = fit_isotonic(np.cumsum(counts))
        value = _find_quantile(points, cumulative, total, request)
        excess = [so_far - request.share * total for so_far in accumulate(counts)]
        crossing_errors = self.estimator.compute_crossing_errors(
            0, [cells_by_point[point] for point in points], request.share
        )
        errors = [error for error in crossing_errors if error is not None]
        if len(errors) < len(points):
            raise QueryError(
                "this method gives no errors, so it cannot estimate quantiles; use the default method.",
                code="method-without-errors",
                fields={"operation": "quantile"},
            )
        if not any(errors):
            return Estimate.exact(value)
        crossing = Crossing(tuple(points), tuple(excess), tuple(errors), self.is_coarse)
        error = _estimate_standard_error(crossing, cumulative, value)
        moments = Moments.of(value, error**2, 0.0, points[-1], points[0])
        note = COARSE_NOTE if self.is_coarse else None
        quantile_estimate = Estimate.of(moments, self.method.label, self.method.assumption, note, QUANTILES)
        return replace(quantile_estimate, origin=crossing)


def _estimate_standard_error(crossing: Crossing, cumulative: Floats, value: float) -> float:
    """The standard error of a quantile: the error of the distribution divided by the density around the quantile.

    If many records share few values, the interval may be a single value. Even then, the error is not zero.
    """
    points = crossing.points
    place = int(np.argmin(np.abs(np.array(points) - value)))
    first, last = max(place - 1, 0), min(place + 1, len(points) - 1)
    rise = float(cumulative[last] - (cumulative[first] if first < place else 0.0))
    width = points[last] - points[first]
    density_error = crossing.errors[place] * width / rise if rise > 0 else 0.0
    low, high = crossing.interval(_ONE_SIGMA_LEVEL)
    return max(density_error, (high - low) / 2)


def fit_isotonic(numbers: Floats) -> Floats:
    """The nearest non-decreasing numbers.

    Decreasing neighbours are replaced by their mean until no number decreases.
    """
    means: list[float] = []
    sizes: list[int] = []
    for number in numbers.tolist():
        means.append(number)
        sizes.append(1)
        while len(means) > 1 and means[-2] > means[-1]:
            last, size = means.pop(), sizes.pop()
            means[-1] = (means[-1] * sizes[-1] + last * size) / (sizes[-1] + size)
            sizes[-1] += size
    return np.repeat(means, sizes)


def _find_quantile(points: Sequence[float], cumulative: Floats, total: float, quantile: QuantileRequest) -> float:
    """The point where a distribution reaches a share of the records.

    For a continuous quantile, this point may lie between two values.
    """

    def at_rank(rank: float) -> float:
        return points[min(int(np.searchsorted(cumulative, rank - 1e-9 * total)), len(points) - 1)]

    if not quantile.is_continuous:
        return at_rank(max(math.ceil(quantile.share * total - 1e-9), 1) if total >= 1 else total)
    position = quantile.share * max(total - 1, 0.0)
    first, fraction = math.floor(position + 1e-9), position - math.floor(position + 1e-9)
    lower, upper = at_rank(first + 1), at_rank(min(first + 2, total))
    return lower + max(fraction, 0.0) * (upper - lower)
