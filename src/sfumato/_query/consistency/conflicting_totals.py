"""Totals that cannot hold together, explained in one sentence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from sfumato._core.array_types import Counts, Floats, Mask
from sfumato._query.consistency.sum_constraints import CONFLICT, Family, SumConstraints, is_near
from sfumato.errors import QueryError

REMEDY = "correct a total, or leave one out."
MOST_NAMED = 4
MOST_TRIED = 40
"""A conflict of more totals is not made smaller by trying to leave each of them out."""


def check_exact(values: Floats, variances: Floats) -> None:
    """Refuse cells that may not move and are negative."""
    if (values[variances == 0] < 0).any():
        raise QueryError("a number of the table is known exactly and is negative, so it cannot be a count.")


def check_remainders(sums: SumConstraints, remainders: Floats, has_free: Mask) -> None:
    """Refuse a total that the exact cells of its set exceed, or that they do not reach alone."""
    wrong = np.flatnonzero((remainders < 0) | ((remainders > 0) & ~has_free))
    if not len(wrong):
        return
    number = int(wrong[0])
    total = sums.totals[number]
    actual_total = f"add up to {_format_number(total - remainders[number])}"
    if remainders[number] > 0:
        cells = "its cells, which are exact or part of a total of 0," if total != remainders[number] else "its cells"
        actual_total = (
            f"{cells} {actual_total}" if total != remainders[number] else "no cell is left that could be more than 0"
        )
    else:
        actual_total = f"its exact cells alone {actual_total}" if total >= 0 else "no count is negative"
    raise QueryError(f"{sums.describe_total(number)} is {_format_number(total)}, but {actual_total}; {REMEDY}")


def check_sums(sums: SumConstraints, *, has_signs: bool) -> None:
    """Refuse two families that say different things about the same cells, which is the conflict most often met."""
    for one, other in combinations(sums.families, 2):
        parts = _Parts.of(one, other)
        first, second = parts.add_totals(one, parts.one_parts), parts.add_totals(other, parts.other_parts)
        one_only, other_only = (
            parts.find_outside(one, other, parts.one_parts),
            parts.find_outside(other, one, parts.other_parts),
        )
        is_wrong = ~one_only & ~other_only
        if not has_signs:  # a part cannot be more than the whole where nothing is negative
            is_wrong |= (~one_only & (first > second)) | (~other_only & (second > first))
        is_wrong &= parts.is_shared & ~is_near(first, second, CONFLICT)
        if is_wrong.any():
            part = int(np.flatnonzero(is_wrong)[0])
            sides = [
                _describe_totals(one, parts.one_parts == part, first[part]),
                _describe_totals(other, parts.other_parts == part, second[part]),
            ]
            if one_only[part]:
                sides.reverse()
            cells = "the same cells" if one_only[part] == other_only[part] else "these cells and more"
            raise QueryError(f"{sides[0]}, but {sides[1]}, for {cells}; {REMEDY}")


@dataclass(frozen=True)
class _Parts:
    """Two families fall into parts: no set of one part shares a cell with a set of another one."""

    one_parts: Counts
    other_parts: Counts
    part_count: int

    @classmethod
    def of(cls, one: Family, other: Family) -> _Parts:
        from scipy import sparse  # noqa: PLC0415 - most answers do without it
        from scipy.sparse.csgraph import connected_components  # noqa: PLC0415

        both = (one.labels >= 0) & (other.labels >= 0)
        size = len(one.totals) + len(other.totals)
        edges = (np.ones(int(both.sum())), (one.labels[both], other.labels[both] + len(one.totals)))
        number, labels = connected_components(sparse.csr_array(edges, shape=(size, size)), directed=False)
        parts = labels.astype(np.int64)
        return cls(parts[: len(one.totals)], parts[len(one.totals) :], int(number))

    @property
    def is_shared(self) -> Mask:
        """Whether both families are in a part."""
        every = np.arange(self.part_count)
        is_in_both: Mask = np.isin(every, self.one_parts) & np.isin(every, self.other_parts)
        return is_in_both

    def add_totals(self, family: Family, parts: Counts) -> Floats:
        """What the totals of a family add up to in each part."""
        return np.bincount(parts, weights=family.totals, minlength=self.part_count).astype(np.float64)

    def find_outside(self, family: Family, other: Family, parts: Counts) -> Mask:
        """The parts in which a family has cells that the other one has not."""
        is_outside = np.zeros(self.part_count, dtype=np.bool_)
        is_outside[parts[family.labels[(family.labels >= 0) & (other.labels < 0)]]] = True
        return is_outside


def _describe_totals(family: Family, chosen: Mask, total: float) -> str:
    """What some totals of a family add up to."""
    numbers = np.flatnonzero(chosen).tolist()
    if len(numbers) == 1:
        return f"{family.describe_total(numbers[0])} is {_format_number(total)}"
    is_all = len(numbers) == len(family.totals)
    description = family.title if is_all else _list_names([family.describe_total(number) for number in numbers])
    return f"{description} add up to {_format_number(total)}"


def explain_equations(sums: SumConstraints, remainders: Floats) -> QueryError:
    """Totals that no table can have, even with negative numbers, given by what is left of them."""
    return _explain_joint_conflict(
        sums, np.flatnonzero(np.abs(remainders) > np.abs(remainders).max() / 1000).tolist(), ""
    )


def check_feasible(rest: SumConstraints, sums: SumConstraints) -> None:
    """Refuse totals that no table without negative numbers has, and name a small set of them."""
    involved = _find_conflict(rest, np.arange(len(rest.totals)))
    if not len(involved):
        return
    if len(involved) <= MOST_TRIED:
        for number in involved.tolist():  # leave out what is not needed for the conflict, one after the other
            fewer = involved[involved != number]
            if len(_find_conflict(rest, fewer)):
                involved = fewer
    raise _explain_joint_conflict(sums, involved.tolist(), " without negative numbers")


def _find_conflict(rest: SumConstraints, numbers: Counts) -> Counts:
    """The totals that take part in a conflict among these; none where they can hold together.

    Minimise how far the sums of a table without negative numbers are off: totals without a price are not to blame.
    """
    from scipy import sparse  # noqa: PLC0415 - only a conflict needs it
    from scipy.optimize import linprog  # noqa: PLC0415

    matrix = rest.matrix[numbers]
    matrix = matrix[:, matrix.sum(axis=0) > 0]
    (rows, size), totals = matrix.shape, rest.totals[numbers]
    scale = max(1.0, float(np.abs(totals).max(initial=0.0)))
    slack = sparse.eye_array(rows)
    solution = linprog(
        np.concatenate([np.zeros(size), np.ones(2 * rows)]),
        A_eq=sparse.hstack([matrix, slack, -slack], format="csc"),
        b_eq=totals / scale,
        method="highs",
    )
    if (solution.fun or 0.0) <= CONFLICT:
        return np.zeros(0, dtype=np.int64)
    return np.asarray(numbers[np.abs(solution.eqlin.marginals) > CONFLICT], dtype=np.int64)


def _explain_joint_conflict(sums: SumConstraints, numbers: Sequence[int], qualifier: str) -> QueryError:
    # Those given last come first: the numbers of records are exact, so they are hardly the ones to correct.
    starts = np.cumsum([0, *(len(family.totals) for family in sums.families)])
    order = sorted(numbers, key=lambda number: -int(np.searchsorted(starts, number, side="right")))
    descriptions = [f"{sums.describe_total(number)} ({_format_number(sums.totals[number])})" for number in order]
    return QueryError(f"{_list_names(descriptions)} cannot hold together{qualifier}; {REMEDY}")


def _list_names(names: Sequence[str]) -> str:
    if len(names) > MOST_NAMED:
        names = [*names[: MOST_NAMED - 1], f"{len(names) - MOST_NAMED + 1} others"]
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def _format_number(value: float) -> str:
    return f"{value:,.0f}" if is_near(value, round(value), CONFLICT) else f"{value:,.10g}"
