"""The count of each value of a column. Planning uses no other data."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato._core.cell_values import Value, format_value_count
from sfumato._core.small_text_files import LONGEST_VALUE, read_csv_records
from sfumato._request.hierarchy import Hierarchy
from sfumato.errors import SchemaError

ClassSizes = tuple[tuple[int, int], ...]
"""Sizes of groups of people with equal public columns, each with the number of such groups."""


@dataclass(frozen=True, slots=True)
class Histogram:
    """The values of a domain, in its canonical order, and the count of each, including zero counts."""

    values: tuple[Value, ...]
    counts: tuple[int, ...]
    axes: tuple[int, ...] = ()
    """The number of values of each column, if several columns are protected separately. Empty for one column."""
    hierarchy: Hierarchy | None = None
    """The hierarchy of the values, if one was declared. Its finest level is `values`."""
    is_declared: bool = False
    """Whether the values were declared and not taken from the table."""
    class_sizes: ClassSizes = ()
    """The sizes of groups of people with equal public columns, each with the number of such groups.

    They are public. Empty without a table.
    """
    coarse_sizes: tuple[ClassSizes, ...] = ()
    """The same sizes for each requested coarse table, by its columns. These sizes are estimates if the table is large.
    """

    def __post_init__(self) -> None:
        if len(self.values) != len(self.counts):
            raise SchemaError(
                f"there are {len(self.values)} values but {len(self.counts)} counts; give one count for each value.",
                code="values-do-not-fit-counts",
                fields={"values": len(self.values), "counts": len(self.counts)},
            )
        if self.hierarchy is not None and self.hierarchy.domain != self.values:
            raise SchemaError(
                "the hierarchy has other values than the column, or another order.", code="hierarchy-of-other-domain"
            )
        if any(count < 0 for count in self.counts):
            raise SchemaError("a count is below zero.", code="negative-count")
        if len({(type(value), value) for value in self.values}) != len(self.values):
            raise SchemaError("a value occurs twice in the domain; name each value once.", code="repeated-value")
        if not self.total:
            raise SchemaError("the table is empty: there is nothing to publish.", code="empty-table")

    @classmethod
    def of(
        cls,
        values: Sequence[Value],
        counts: Sequence[int],
        axes: Sequence[int] = (),
        hierarchy: Hierarchy | None = None,
    ) -> Histogram:
        """Makes a histogram from any two sequences."""
        return cls(tuple(values), tuple(operator.index(count) for count in counts), tuple(axes), hierarchy)

    @classmethod
    def read(cls, path: Path) -> Histogram:
        """Reads a CSV with the columns value and count. An empty value stands for the missing value."""
        format_message = f"{str(path)!r} must have the columns value and count, with whole numbers as counts."
        try:
            rows = read_csv_records(path, SchemaError, format_message)
            values, counts = [row["value"] or None for row in rows], [int(row["count"]) for row in rows]
        except (KeyError, ValueError) as error:
            if isinstance(error, SchemaError):  # its error says what is wrong with the file, or that there is none
                raise
            raise SchemaError(format_message, code="wrong-file-format", fields={"file": str(path)}) from error
        if any(len(value or "") > LONGEST_VALUE for value in values):
            raise SchemaError(format_message, code="wrong-file-format", fields={"file": str(path)})
        return cls.of(values, counts)

    @property
    def total(self) -> int:
        """The number of records."""
        return sum(self.counts)

    @property
    def domain_size(self) -> int:
        """The number of values, including those that do not occur."""
        return len(self.values)

    @property
    def shares(self) -> tuple[Fraction, ...]:
        """The exact share of records with each value."""
        total = self.total
        return tuple(Fraction(count, total) for count in self.counts)

    def align_with(self, hierarchy: Hierarchy) -> Histogram:
        """The counts of the values of a hierarchy, in the order of the hierarchy.

        Refuses a value that the hierarchy lacks.
        """
        counts = dict(zip(self.values, self.counts, strict=True))
        declared = hierarchy.canonical_hierarchy
        if unnamed_values := [value for value in self.values if value not in declared.domain]:
            raise SchemaError(
                f"the hierarchy lacks {format_value_count(unnamed_values)} that the counts have; add every value to "
                "it.",
                code="value-outside-domain",
                fields={"values": len(unnamed_values)},
            )
        aligned = Histogram.of(declared.domain, [counts.get(value, 0) for value in declared.domain], (), declared)
        return replace(aligned, is_declared=True, class_sizes=self.class_sizes)

    def group_by_level(self, number: int) -> Histogram:
        """The counts of the groups of a level, with the part of the hierarchy above them."""
        if self.hierarchy is None:
            raise SchemaError("there is no hierarchy to group the counts by.", code="no-hierarchy")
        groups, places = self.hierarchy.list_groups(number), self.hierarchy.list_group_places(number)
        counts = np.bincount(places, weights=self.counts, minlength=len(groups)).astype(np.int64)
        grouped = Histogram.of(groups, counts.tolist(), (), self.hierarchy.start_at(number))
        return replace(grouped, is_declared=self.is_declared, class_sizes=self.class_sizes)

    def count_within(self, share: Fraction) -> int:
        """The number of records whose value has at most this share, compared in integers."""
        limit = share.numerator * self.total
        return sum(count for count in self.counts if count * share.denominator <= limit)

    def list_values_above(self, share: Fraction) -> tuple[Value, ...]:
        """The values whose share exceeds the given one, compared in integers."""
        limit = share.numerator * self.total
        return tuple(
            value for value, count in zip(self.values, self.counts, strict=True) if count * share.denominator > limit
        )


def compute_margins(counts: npt.ArrayLike, sizes: Sequence[int]) -> list[npt.NDArray[Any]]:
    """The counts of each single column, from the counts of all combinations of values (last column fastest)."""
    table = np.asarray(counts).reshape(tuple(sizes))
    axes = range(table.ndim)
    return [table.sum(axis=tuple(other for other in axes if other != axis)) for axis in axes]
