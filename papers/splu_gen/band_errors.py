"""Errors of those who answer the queries of small sums, by the size of groups and by what a query finds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from papers.experiment import Conditions
from papers.experiment_outcome import Verdict
from papers.measured_errors import REPEATS, Errors, mean_errors
from papers.query_pools import Band, between
from papers.splu_gen.query_trials import QueriedTable, answers
from sfumato._figures.figure import Figure
from sfumato._figures.line_chart import Axis, MeasuredLine, draw_lines
from sfumato._figures.number_format import format_percent, format_quantity

DEFAULT = 5
"""The group size of the paper's comparisons on CENSUS."""
PERCENT = "mean relative error in %"
ACROSS = Axis("group size")
CENSUS_SHARES = ("0.5%", "1%", "2%", "3%", "4%", "5%")


@dataclass(frozen=True)
class BandError:
    """The error of one contestant for one group size and the queries of one band."""

    group_size: int
    band: Band
    name: str
    errors: Errors


@dataclass(frozen=True)
class BandErrors:
    """What was found in an experiment."""

    found: Sequence[BandError]

    def error(self, name: str, group_size: int, band: Band | None = None) -> float:
        """The mean error of a contestant; nan where nothing was measured."""
        for each in self.found:
            if (each.name, each.group_size) == (name, group_size) and band in (None, each.band):
                return each.errors.mean
        return np.nan

    @property
    def names(self) -> list[str]:
        """The contestants in order."""
        return list(dict.fromkeys(each.name for each in self.found))

    @property
    def rows(self) -> tuple[tuple[object, ...], ...]:
        """The table."""
        return tuple(
            (each.group_size, each.band.words, each.name, each.errors.percent, 100 * each.errors.standard_error)
            for each in self.found
        )

    def by_group_size(self, heading: str, reading: str, band: Band | None = None) -> Figure:
        """A line for each contestant over the size of groups."""
        lines = [
            MeasuredLine(
                name,
                tuple(
                    (each.group_size, each.errors.percent)
                    for each in self.found
                    if each.name == name and band in (None, each.band)
                ),
            )
            for name in self.names
        ]
        return draw_lines(heading, ACROSS, Axis(PERCENT, is_logarithmic=True), lines, reading=reading)

    def by_band(self, heading: str, reading: str, rows: int) -> Figure:
        """A line for each contestant over the selectivity, drawn in the middle of each band."""
        lines = [
            MeasuredLine(
                name,
                tuple(
                    (50 * (each.band.least + (each.band.below or rows)) / rows, each.errors.percent)
                    for each in self.found
                    if each.name == name
                ),
            )
            for name in self.names
        ]
        across = Axis("records that a query finds, in %")
        return draw_lines(heading, across, Axis(PERCENT, is_logarithmic=True), lines, reading=reading)


HEADINGS = ("group size", "true counts", "method", "error in %", "standard error")


def measure(
    conditions: Conditions, trial: QueriedTable, group_size: int, names: Sequence[str], bands: Sequence[Band]
) -> list[BandError]:
    """The errors of some contestants in some bands."""
    tries = [answers(conditions, trial, group_size, number, names) for number in range(conditions.either(1, REPEATS))]
    return [
        BandError(group_size, band, name, mean_errors(trial.pool, [each[name] for each in tries], band))
        for band in bands
        for name in names
    ]


def everything(shares: Sequence[str], rows: int) -> Band:
    """From the first share to the last."""
    (band,) = between(rows, shares[0], shares[-1])
    return band


def verdict(conditions: Conditions, *claims: bool, is_near: bool = True) -> Verdict:
    """A claim about large tables is not refuted by a small one; and that numbers of other data are not near differs."""
    if all(claims):
        return Verdict.AGREES if is_near else Verdict.DIFFERS
    return conditions.either(Verdict.DIFFERS, Verdict.CONTRADICTS)


def extent(conditions: Conditions, trial: QueriedTable) -> str:
    """That it is a quick run, if it is."""
    return conditions.either(f"in a quick run of {format_quantity(trial.table.rows)} records, ", "")


def sentence_of(words: str) -> str:
    """With a capital, whatever it begins with."""
    return words[:1].upper() + words[1:]


def reading(found: BandErrors, size: int) -> str:
    """Who has the least and the largest error."""
    errors = {name: found.error(name, size) for name in found.names}
    least, most = (choose(errors, key=lambda name: errors[name]) for choose in (min, max))
    ends = (f"{format_percent(errors[name])} ({name})" for name in (least, most))
    return f"In groups of {size} the errors go from {' to '.join(ends)}."


def listed(sizes: Sequence[int]) -> str:
    """Group sizes in a sentence."""
    if len(sizes) > 2 and list(sizes) == list(range(sizes[0], sizes[-1] + 1)):  # noqa: PLR2004
        return f"{sizes[0]} to {sizes[-1]}"
    return ", ".join(map(str, sizes))
