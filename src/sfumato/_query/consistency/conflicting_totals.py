"""Explains in one sentence why totals contradict each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from sfumato._core.array_types import Counts, Floats, Mask
from sfumato._query.consistency.sum_constraints import CONFLICT, Family, SumConstraints, is_near
from sfumato.errors import QueryError

REMEDY = "correct or remove one of the totals."
MOST_NAMED = 4
MOST_TRIED = 40
"""Larger conflicts are not reduced by trying to remove each total."""


def check_exact(values: Floats, variances: Floats) -> None:
    """Rejects negative cells without variance."""
    if (values[variances == 0] < 0).any():
        raise QueryError(
            "a number of the table is known exactly and is negative, so it cannot be a count.", code="negative-count"
        )


def check_remainders(sums: SumConstraints, remainders: Floats, has_free: Mask) -> None:
    """Rejects a total that its cells cannot have.

    The exact cells may exceed the total. Or all cells are exact, and their sum is below the total.
    """
    wrong = np.flatnonzero((remainders < 0) | ((remainders > 0) & ~has_free))
    if not len(wrong):
        return
    number = int(wrong[0])
    total = sums.totals[number]
    actual_total = f"add up to {_format_number(total - remainders[number])}"
    if remainders[number] > 0:
        cells = "its cells, which are exact or belong to a total of 0," if total != remainders[number] else "its cells"
        actual_total = (
            f"{cells} {actual_total}" if total != remainders[number] else "no remaining cell can be more than 0"
        )
    else:
        actual_total = f"its exact cells alone {actual_total}" if total >= 0 else "no count is negative"
    raise QueryError(
        f"{sums.describe_total(number)} is {_format_number(total)}, but {actual_total}; {REMEDY}",
        code="conflicting-totals",
        fields={"first_sum": float(total), "second_sum": float(total - remainders[number])},
    )


def check_sums(sums: SumConstraints, *, has_signs: bool) -> None:
    """Rejects two families that contradict each other about the same cells. This is the most common conflict."""
    for one, other in combinations(sums.families, 2):
        parts = _Parts.of(one, other)
        first, second = parts.add_totals(one, parts.one_parts), parts.add_totals(other, parts.other_parts)
        one_only, other_only = (
            parts.find_outside(one, other, parts.one_parts),
            parts.find_outside(other, one, parts.other_parts),
        )
        is_wrong = ~one_only & ~other_only
        if not has_signs:  # without negative numbers, a part cannot exceed the whole
            is_wrong |= (~one_only & (first > second)) | (~other_only & (second > first))
        is_wrong &= parts.is_shared & ~is_near(first, second, CONFLICT)
        if is_wrong.any():
            part = int(np.flatnonzero(is_wrong)[0])
            sides = [
                _describe_totals(one, parts.one_parts == part, first[part]),
                _describe_totals(other, parts.other_parts == part, second[part]),
            ]
            both_sums = [float(first[part]), float(second[part])]
            if one_only[part]:
                sides.reverse()
                both_sums.reverse()
            cells = "the same cells" if one_only[part] == other_only[part] else "these cells and more"
            raise QueryError(
                f"{sides[0]}, but {sides[1]}, for {cells}; {REMEDY}",
                code="conflicting-totals",
                fields={"first_sum": both_sums[0], "second_sum": both_sums[1]},
            )


@dataclass(frozen=True)
class _Parts:
    """Divides two families into parts, so that no set of one part shares a cell with a set of another part."""

    one_parts: Counts
    other_parts: Counts
    part_count: int

    @classmethod
    def of(cls, one: Family, other: Family) -> _Parts:
        from scipy import sparse  # noqa: PLC0415 - most answers do not need scipy
        from scipy.sparse.csgraph import connected_components  # noqa: PLC0415

        both = (one.labels >= 0) & (other.labels >= 0)
        size = len(one.totals) + len(other.totals)
        edges = (np.ones(int(both.sum())), (one.labels[both], other.labels[both] + len(one.totals)))
        number, labels = connected_components(sparse.csr_array(edges, shape=(size, size)), directed=False)
        parts = labels.astype(np.int64)
        return cls(parts[: len(one.totals)], parts[len(one.totals) :], int(number))

    @property
    def is_shared(self) -> Mask:
        """Marks the parts in which both families have sets."""
        every = np.arange(self.part_count)
        is_in_both: Mask = np.isin(every, self.one_parts) & np.isin(every, self.other_parts)
        return is_in_both

    def add_totals(self, family: Family, parts: Counts) -> Floats:
        """The sum of a family's totals in each part."""
        return np.bincount(parts, weights=family.totals, minlength=self.part_count).astype(np.float64)

    def find_outside(self, family: Family, other: Family, parts: Counts) -> Mask:
        """Marks the parts in which the first family has cells that the other family lacks."""
        is_outside = np.zeros(self.part_count, dtype=np.bool_)
        is_outside[parts[family.labels[(family.labels >= 0) & (other.labels < 0)]]] = True
        return is_outside


def _describe_totals(family: Family, chosen: Mask, total: float) -> str:
    """Describes the sum of some totals."""
    numbers = np.flatnonzero(chosen).tolist()
    if len(numbers) == 1:
        return f"{family.describe_total(numbers[0])} is {_format_number(total)}"
    is_all = len(numbers) == len(family.totals)
    description = family.title if is_all else _list_names([family.describe_total(number) for number in numbers])
    return f"{description} add up to {_format_number(total)}"


def explain_equations(sums: SumConstraints, remainders: Floats) -> QueryError:
    """Makes the error for totals that no table can have, even with negative numbers.

    The conflicting totals are found from the remaining differences.
    """
    return _explain_joint_conflict(
        sums, np.flatnonzero(np.abs(remainders) > np.abs(remainders).max() / 1000).tolist(), ""
    )


def check_feasible(rest: SumConstraints, sums: SumConstraints) -> None:
    """Rejects totals that would need negative numbers. The error names a small set of conflicting totals."""
    involved = _find_conflict(rest, np.arange(len(rest.totals)))
    if not len(involved):
        return
    if len(involved) <= MOST_TRIED:
        for number in involved.tolist():  # remove the totals that the conflict does not need, one by one
            fewer = involved[involved != number]
            if len(_find_conflict(rest, fewer)):
                involved = fewer
    raise _explain_joint_conflict(sums, involved.tolist(), " without negative numbers")


def _find_conflict(rest: SumConstraints, numbers: Counts) -> Counts:
    """The totals that take part in a conflict. The list is empty if the totals are compatible.

    A linear program without negative cells minimises the distance between the sums and the totals. A total with a
    multiplier of zero does not take part in the conflict.
    """
    from scipy import sparse  # noqa: PLC0415 - only a conflict needs scipy
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
    # The last totals come first, because the first ones are numbers of records, which are exact.
    starts = np.cumsum([0, *(len(family.totals) for family in sums.families)])
    order = sorted(numbers, key=lambda number: -int(np.searchsorted(starts, number, side="right")))
    descriptions = [f"{sums.describe_total(number)} ({_format_number(sums.totals[number])})" for number in order]
    return QueryError(
        f"{_list_names(descriptions)} cannot all be true{qualifier}; {REMEDY}",
        code="totals-need-negative-numbers" if qualifier else "conflicting-totals",
        fields={"totals": len(numbers)},
    )


def _list_names(names: Sequence[str]) -> str:
    if len(names) > MOST_NAMED:
        names = [*names[: MOST_NAMED - 1], f"{len(names) - MOST_NAMED + 1} others"]
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def _format_number(value: float) -> str:
    return f"{value:,.0f}" if is_near(value, round(value), CONFLICT) else f"{value:,.10g}"
