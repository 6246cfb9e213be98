"""Errors of those who answer the queries of small sums, by the size of groups and by what a query finds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from papers.experiment import Conditions
from papers.measured_errors import REPEATS, MeanError, compute_mean_error
from papers.query_pools import Band, make_bands_between
from papers.splu_gen.query_trials import QueriedTable, collect_answers
from sfumato._figures.figure import Figure
from sfumato._figures.line_chart import Axis, MeasuredLine, draw_lines
from sfumato._figures.number_format import format_percent, format_quantity

DEFAULT = 5
"""The group size of the paper's comparisons on CENSUS."""
PERCENT_LABEL = "mean relative error in %"
GROUP_SIZE_AXIS = Axis("group size")
CENSUS_SHARES = ("0.5%", "1%", "2%", "3%", "4%", "5%")


@dataclass(frozen=True)
class BandError:
    """The error of one contestant for one group size and the queries of one band."""

    group_size: int
    band: Band
    name: str
    errors: MeanError


@dataclass(frozen=True)
class BandErrors:
    """What was found in an experiment."""

    errors: Sequence[BandError]

    def find_error(self, name: str, group_size: int, band: Band | None = None) -> float:
        """The mean error of a contestant; nan where nothing was measured."""
        for band_error in self.errors:
            if (band_error.name, band_error.group_size) == (name, group_size) and band in (None, band_error.band):
                return band_error.errors.mean
        return np.nan

    @property
    def names(self) -> list[str]:
        """The contestants in order."""
        return list(dict.fromkeys(band_error.name for band_error in self.errors))

    @property
    def rows(self) -> tuple[tuple[object, ...], ...]:
        """The table."""
        return tuple(
            (
                band_error.group_size,
                band_error.band.label,
                band_error.name,
                band_error.errors.percent,
                100 * band_error.errors.standard_error,
            )
            for band_error in self.errors
        )

    def draw_by_group_size(self, heading: str, reading: str, band: Band | None = None) -> Figure:
        """A line for each contestant over the size of groups."""
        lines = [
            MeasuredLine(
                name,
                tuple(
                    (band_error.group_size, band_error.errors.percent)
                    for band_error in self.errors
                    if band_error.name == name and band in (None, band_error.band)
                ),
            )
            for name in self.names
        ]
        return draw_lines(heading, GROUP_SIZE_AXIS, Axis(PERCENT_LABEL, is_logarithmic=True), lines, reading=reading)

    def draw_by_band(self, heading: str, reading: str, rows: int) -> Figure:
        """A line for each contestant over the selectivity, drawn in the middle of each band."""
        lines = [
            MeasuredLine(
                name,
                tuple(
                    (50 * (band_error.band.least + (band_error.band.below or rows)) / rows, band_error.errors.percent)
                    for band_error in self.errors
                    if band_error.name == name
                ),
            )
            for name in self.names
        ]
        across = Axis("records that a query finds, in %")
        return draw_lines(heading, across, Axis(PERCENT_LABEL, is_logarithmic=True), lines, reading=reading)


HEADINGS = ("group size", "true counts", "method", "error in %", "standard error")


def measure(
    conditions: Conditions, trial: QueriedTable, group_size: int, names: Sequence[str], bands: Sequence[Band]
) -> list[BandError]:
    """The errors of some contestants in some bands."""
    answers_by_repeat = [
        collect_answers(conditions, trial, group_size, number, names) for number in range(conditions.choose(1, REPEATS))
    ]
    return [
        BandError(
            group_size,
            band,
            name,
            compute_mean_error(trial.pool, [repeat_answers[name] for repeat_answers in answers_by_repeat], band),
        )
        for band in bands
        for name in names
    ]


def make_whole_band(shares: Sequence[str], rows: int) -> Band:
    """From the first share to the last."""
    (band,) = make_bands_between(rows, shares[0], shares[-1])
    return band


def describe_extent(conditions: Conditions, trial: QueriedTable) -> str:
    """That it is a quick run, if it is."""
    return conditions.choose(f"in a quick run of {format_quantity(trial.table.rows)} records, ", "")


def capitalize(text: str) -> str:
    """With a capital, whatever it begins with."""
    return text[:1].upper() + text[1:]


def describe_range(band_errors: BandErrors, size: int) -> str:
    """Who has the least and the largest error."""
    errors = {name: band_errors.find_error(name, size) for name in band_errors.names}
    least, most = (choose(errors, key=lambda name: errors[name]) for choose in (min, max))
    ends = (f"{format_percent(errors[name])} ({name})" for name in (least, most))
    return f"In groups of {size} the errors go from {' to '.join(ends)}."


def format_sizes(sizes: Sequence[int]) -> str:
    """Group sizes in a sentence."""
    if len(sizes) > 2 and list(sizes) == list(range(sizes[0], sizes[-1] + 1)):  # noqa: PLR2004
        return f"{sizes[0]} to {sizes[-1]}"
    return ", ".join(map(str, sizes))
