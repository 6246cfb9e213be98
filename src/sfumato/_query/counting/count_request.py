"""Queries for many counts at once. A query has a set of sensitive values, and conditions on some public columns."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from sfumato._core.cell_values import Scalar, Value
from sfumato._records.sql_quoting import format_plain_value, quote_name, write_equality


@dataclass(frozen=True, slots=True)
class Range:
    """Lower and upper limits of a public column. A limit of None does not apply."""

    at_least: Scalar = None
    above: Scalar = None
    at_most: Scalar = None
    below: Scalar = None

    def list_ends(self) -> dict[str, Scalar]:
        """The given limits, by comparison operator."""
        bounds = {">=": self.at_least, ">": self.above, "<=": self.at_most, "<": self.below}
        return {comparison: end for comparison, end in bounds.items() if end is not None}


Condition = Scalar | Collection[Scalar] | Range
"""A condition that a public column has a value, one of several values, or a value in a range.

None is a missing value.
"""


@dataclass(frozen=True, slots=True)
class CountQuery:
    """Counts the records that satisfy conditions on public columns and have one of the values.

    Without values, all records that satisfy the conditions are counted. This count is exact.
    """

    where: Mapping[str, Condition] = field(default_factory=dict)
    values: Collection[Value] | None = None

    @property
    def sql(self) -> str | None:
        """The conditions on the public columns as SQL."""
        return (
            " AND ".join(_write_condition(quote_name(name), condition) for name, condition in self.where.items())
            or None
        )


def _write_condition(name: str, condition: Condition) -> str:
    if isinstance(condition, Range):
        ends = [f"{name} {comparison} {format_plain_value(end)}" for comparison, end in condition.list_ends().items()]
        return " AND ".join(ends) or "TRUE"
    if isinstance(condition, Collection) and not isinstance(condition, str):
        return "(" + (" OR ".join(write_equality(name, value) for value in condition) or "FALSE") + ")"
    return write_equality(name, condition)
