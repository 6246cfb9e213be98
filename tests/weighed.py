"""Estimates and their errors, record by record in plain Python: what any query must agree with.

A query asks each record for a number that may depend on its sensitive value: a(x) for each value x of the domain. What
a record adds to the estimate is the sum over x of a(x) times the weight of x, which comes from what the record shows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from releases import people, published_by
from sfumato._query.release import Release
from slow_counts import SlowRelease

Asked = Callable[[Mapping[str, Any]], float | None]
"""What is asked of a record, given all its columns; None where it adds nothing."""

LINEAR = ("uniform", "small-domain", "subset", "levels", "fine-grain", "harmonic")
"""The mechanisms whose default estimate is a sum of weights."""
CELLS = ("uniform", "small-domain")

AGES = [21, 35, 47, None, 58, 66, 80]
WEIGHTS = [50.25, 61.5, None, 83.125, 99.5]
SEXES = ["F", "M", None]


def patients(rows: int = 84) -> Any:
    """People with missing values in their public columns."""
    return people(rows, age=AGES, sex=SEXES, weight=WEIGHTS)


@dataclass(frozen=True)
class Weighed:
    """A release, with the weights of each record."""

    release: Release = field(repr=False)
    slow: SlowRelease = field(repr=False)
    weights: list[dict[Any, float]] = field(repr=False)
    """For each record, how much it adds to the count of each value."""

    @classmethod
    def by(cls, mechanism: str, out: Path) -> Weighed:
        """Publish the patients by a mechanism."""
        release = published_by(mechanism, patients(), out)
        slow = SlowRelease(release.folder)
        weights = []
        for row in slow.rows:
            found = slow.counts(lambda each, row=row: each is row)  # type: ignore[misc]
            weights.append({value: float(count) for (value,), count in found.items()})
        return cls(release, slow, weights)

    def asked(self, what: Asked) -> list[dict[Any, float]]:
        """What each record is asked for, by the value that it may have."""
        return [
            {value: float(what({**row, "disease": value}) or 0.0) for value in self.weights[0]}
            for row in self.slow.rows
        ]

    def total(self, what: Asked) -> float:
        """The estimate of the sum over all records."""
        pairs = zip(self.asked(what), self.weights, strict=True)
        return math.fsum(asked[value] * weight for asked, weights in pairs for value, weight in weights.items())

    def error(self, *parts: tuple[Asked, float]) -> float:
        """The standard error of a linear combination of sums: that of what each record adds, added up."""
        asked = [self.asked(what) for what, _ in parts]
        factors = [factor for _, factor in parts]
        variance = least = 0.0
        for number, row in enumerate(self.slow.rows):
            joined = {
                value: math.fsum(factor * each[number][value] for each, factor in zip(asked, factors, strict=True))
                for value in self.weights[number]
            }
            mine, floor = self._spread(row, joined, self.weights[number])
            variance, least = variance + mine, least + floor
        return math.sqrt(max(variance, least, 0.0))

    def _spread(self, row: Mapping[str, Any], asked: Mapping[Any, float], weights: Mapping[Any, float]) -> Any:
        """The variance of what one record adds: its unbiased estimate, and what it is at least."""
        column = self.slow.ours.get("cell_column")
        places, retention = self.slow.cells[0 if column is None else row[column]]
        values = [self.slow.domain[place][0] for place in places]
        keep, swap = float(retention), float((1 - retention) / len(values))
        told = {
            shown: math.fsum(asked[value] * ((value == shown) - swap) / keep for value in values) for shown in values
        }
        spread = {
            true: math.fsum((keep * (true == shown) + swap) * told[shown] ** 2 for shown in values) - asked[true] ** 2
            for true in values
        }
        return math.fsum(spread[value] * weights[value] for value in values), min(spread.values())


def number_of(rows: Sequence[Mapping[str, Any]], name: str) -> float:
    """The one number of an answer."""
    (row,) = rows
    return float(row[name].value)
