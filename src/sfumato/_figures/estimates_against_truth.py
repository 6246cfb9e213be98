"""Draws estimates against the true numbers, which only the data steward knows, to check standard errors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist, median

from sfumato._figures.axes import Area
from sfumato._figures.figure import WIDTH, Column, Figure, Head, assemble_figure, limit_width
from sfumato._figures.forest_plot import LEVEL, EstimateLike
from sfumato._figures.number_format import format_count, format_exact_percent, format_percent, format_quantity, is_known
from sfumato._figures.scales import SignedScale, find_nice_step, keep_finite
from sfumato._figures.svg import element, format_coordinate, make_path_data

MOST_DOTS = 500
STEPS = 8


@dataclass(frozen=True, slots=True)
class EstimateWithTruth:
    """An answer with its interval and its true number. Private."""

    truth: float
    estimate: float
    standard_error: float
    low: float
    high: float

    @classmethod
    def of(cls, truth: float, estimate: EstimateLike, level: float = LEVEL) -> EstimateWithTruth:
        """Makes the point from an `Estimate` and the true number. An unknown error is NaN."""
        if estimate.standard_error is None:
            return cls(truth, estimate.value, math.nan, math.nan, math.nan)
        return cls(truth, estimate.value, estimate.standard_error, *estimate.interval(level))

    @property
    def is_complete(self) -> bool:
        """Whether all numbers of the answer are known."""
        has_ends = not (math.isnan(self.low) or math.isnan(self.high))
        return has_ends and is_known(self.truth) and is_known(self.estimate) and is_known(self.standard_error)

    @property
    def is_covered(self) -> bool:
        """Whether the interval covers the truth."""
        return self.low <= self.truth <= self.high


@dataclass(frozen=True, slots=True)
class SizeClass:
    """Answers whose true numbers have similar sizes."""

    low: float
    high: float
    answers: tuple[EstimateWithTruth, ...]

    @property
    def coverage(self) -> float:
        """The share of intervals that cover the truth."""
        return sum(answer.is_covered for answer in self.answers) / len(self.answers)

    @property
    def median_error(self) -> float:
        """The median of the predicted standard errors."""
        return median(answer.standard_error for answer in self.answers)


def split_by_size(answers: Sequence[EstimateWithTruth]) -> list[SizeClass]:
    """Splits answers by powers of ten of the true number. Zero and negative numbers form one class."""
    answers_by_power: dict[int, list[EstimateWithTruth]] = {}
    for answer in answers:
        power = min(math.floor(math.log10(answer.truth) + 1e-9), 300) if answer.truth >= 1 else -1
        answers_by_power.setdefault(power, []).append(answer)
    ends = [(0.0 if power < 0 else 10.0**power, 10.0 ** (power + 1)) for power in sorted(answers_by_power)]
    return [
        SizeClass(*pair, tuple(answers_by_power[power]))
        for pair, power in zip(ends, sorted(answers_by_power), strict=True)
    ]


def draw_against_truth(answers: Sequence[EstimateWithTruth], width: float = WIDTH, *, level: float = LEVEL) -> Figure:
    """Draws a dot for each answer, the diagonal, and the band in which predicted errors let answers be expected."""
    width = limit_width(width)
    known_answers = [item for item in answers if item.is_complete]
    drawn_answers = known_answers[:: math.ceil(len(known_answers) / MOST_DOTS) or 1] if known_answers else []
    captions = [
        "estimated count (private: needs the original table)",
        f"band: {format_percent(level)} of answers are expected inside",
    ]
    if len(drawn_answers) < len(known_answers):
        captions.append(f"{len(drawn_answers):,} of {len(known_answers):,} are drawn")
    head = Head.of("Estimates against the truth", captions, width)
    area = Area.from_head(
        head, width, ticks=[format_quantity(10 * max([1e3, *(abs(item.estimate) for item in known_answers)]))]
    )
    classes = split_by_size(known_answers)
    x, y = _make_scales(known_answers, classes, area)
    parts = [area.draw_x_axis(x, format_quantity, "true count"), area.draw_y_axis(y, format_quantity)]
    quantile = NormalDist().inv_cdf((1 + level) / 2)
    for row, item in enumerate(classes):
        steps = x.space_evenly(item.low or x.low, min(item.high, x.high), STEPS)
        half_width = quantile * item.median_error
        edge = [(x(at), y(at + half_width)) for at in steps] + [(x(at), y(at - half_width)) for at in reversed(steps)]
        tooltip = (
            f"{_format_range(item)}: {format_exact_percent(item.coverage)} of "
            f"{format_count(len(item.answers), 'interval')} cover the truth"
        )
        parts.append(element("path", d=make_path_data(edge) + "z", class_="soft s0", title=tooltip, data_row=str(row)))
    low, high = max(x.low, y.low), min(x.high, y.high)
    parts.append(
        element("path", d=make_path_data((x(at), y(at)) for at in x.space_evenly(low, high, 4 * STEPS)), class_="rule")
    )
    if drawn_answers:
        dots = "".join(
            f"M{format_coordinate(x(item.truth))} {format_coordinate(y(item.estimate))}h0" for item in drawn_answers
        )
        parts.append(element("path", d=dots, class_="specks s0"))
    else:
        parts.append(area.draw_empty_note("no answers"))
    columns = (
        Column("true count"),
        Column("intervals", format_quantity),
        Column("cover the truth", format_exact_percent),
        Column("predicted standard error", format_quantity),
    )
    rows = [(_format_range(item), len(item.answers), item.coverage, item.median_error) for item in classes]
    return assemble_figure(
        head,
        parts,
        size=(width, area.figure_height),
        reading=_describe_figure(known_answers, level),
        columns=columns,
        rows=rows,
    )


def _format_range(size_class: SizeClass) -> str:
    return (
        f"below {format_quantity(size_class.high)}"
        if not size_class.low
        else f"{format_quantity(size_class.low)} to {format_quantity(size_class.high)}"
    )


def _make_scales(
    answers: Sequence[EstimateWithTruth], classes: Sequence[SizeClass], area: Area
) -> tuple[SignedScale, SignedScale]:
    """Logarithmic scales for both axes, which are linear up to a typical error of small counts."""
    truths, estimates = (
        keep_finite(answer.truth for answer in answers),
        keep_finite(answer.estimate for answer in answers),
    )
    largest = find_nice_step(max([10.0, *truths, *estimates]))
    unit = min(max(classes[0].median_error if classes else 1.0, 1.0, largest / 1e6), largest / 10)
    least = min([0.0, *truths])
    lowest = min([0.0, *estimates])
    below = -find_nice_step(-lowest) if lowest < 0 else 0.0
    return (
        SignedScale(-find_nice_step(-least) if least < 0 else 0.0, largest, area.left, area.right, unit),
        SignedScale(below, largest, area.bottom, area.top, unit),
    )


def _describe_figure(answers: Sequence[EstimateWithTruth], level: float) -> str:
    if not answers:
        return "No interval was compared with a true number."
    coverage = sum(answer.is_covered for answer in answers) / len(answers)
    verb = "covers" if len(answers) == 1 else "cover"
    return (
        f"{format_exact_percent(coverage)} of {format_count(len(answers), 'interval')} {verb} the truth "
        f"({format_percent(level)} expected)."
    )
