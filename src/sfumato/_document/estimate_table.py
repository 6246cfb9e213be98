"""A table of estimates, with columns of values and of numbers with intervals, footnotes and a legend."""

from __future__ import annotations

from dataclasses import dataclass

from sfumato._figures.estimate_format import NumberCell


@dataclass(frozen=True)
class EstimateColumn:
    """A column, which has formatted numbers or strings."""

    heading: str
    texts: tuple[str, ...] = ()
    cells: tuple[NumberCell, ...] = ()
    marks: tuple[str, ...] = ()
    """The footnote marks behind each cell."""


@dataclass(frozen=True)
class EstimateTable:
    """Columns of equal length, with footnotes and remarks."""

    columns: tuple[EstimateColumn, ...]
    footnotes: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    """The legend of the cells, and the method that computed the numbers."""
    adjusted_columns: tuple[str, ...] = ()
    """The columns of strings whose content is numbers."""

    @property
    def row_count(self) -> int:
        """The number of rows shown."""
        return max((len(column.cells or column.texts) for column in self.columns), default=0)
