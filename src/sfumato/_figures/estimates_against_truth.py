"""Whether error bars are to be believed: estimates against the truth, which only the holder knows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist, median

from sfumato._figures.answer_intervals import LEVEL, Estimated
from sfumato._figures.axes import Area
from sfumato._figures.figure import WIDTH, Column, Figure, Head, drawn_width, finished
from sfumato._figures.number_format import is_known, percent, percent_exactly, quantity, some
from sfumato._figures.scales import SignedScale, finite, nice_step
from sfumato._figures.svg import element, path, short

MOST_DOTS = 500
STEPS = 8


@dataclass(frozen=True, slots=True)
class BesideTheTruth:
    """An answer with its interval, and the truth. Private."""

    truth: float
    estimate: float
    standard_error: float
    low: float
    high: float

    @classmethod
    def of(cls, truth: float, found: Estimated, level: float = LEVEL) -> BesideTheTruth:
        """From an `Estimate` and the truth; not a number where no error is known."""
        if found.standard_error is None:
            return cls(truth, found.value, math.nan, math.nan, math.nan)
        return cls(truth, found.value, found.standard_error, *found.interval(level))

    @property
    def is_known(self) -> bool:
        """Whether it can be judged."""
        has_ends = not (math.isnan(self.low) or math.isnan(self.high))
        return has_ends and is_known(self.truth) and is_known(self.estimate) and is_known(self.standard_error)

    @property
    def is_held(self) -> bool:
        """Whether the interval holds the truth."""
        return self.low <= self.truth <= self.high


@dataclass(frozen=True, slots=True)
class SizeClass:
    """Answers whose truths are about equally large."""

    low: float
    high: float
    answers: tuple[BesideTheTruth, ...]

    @property
    def held(self) -> float:
        """Which part of the intervals holds the truth."""
        return sum(each.is_held for each in self.answers) / len(self.answers)

    @property
    def error(self) -> float:
        """The middle one of the predicted standard errors."""
        return median(each.standard_error for each in self.answers)


def size_classes(answers: Sequence[BesideTheTruth]) -> list[SizeClass]:
    """Classes by powers of ten of the truth; zero and what is below it are one."""
    found: dict[int, list[BesideTheTruth]] = {}
    for each in answers:
        power = min(math.floor(math.log10(each.truth) + 1e-9), 300) if each.truth >= 1 else -1
        found.setdefault(power, []).append(each)
    ends = [(0.0 if power < 0 else 10.0**power, 10.0 ** (power + 1)) for power in sorted(found)]
    return [SizeClass(*pair, tuple(found[power])) for pair, power in zip(ends, sorted(found), strict=True)]


def against_truth(answers: Sequence[BesideTheTruth], width: float = WIDTH, *, level: float = LEVEL) -> Figure:
    """A speck for each answer, the diagonal, and where so many of them are expected by the predicted errors."""
    width = drawn_width(width)
    known = [each for each in answers if each.is_known]
    drawn = known[:: math.ceil(len(known) / MOST_DOTS) or 1] if known else []
    measured = ["estimated count (private: needs the original table)", f"band: where {percent(level)} are expected"]
    if len(drawn) < len(known):
        measured.append(f"{len(drawn):,} of {len(known):,} are drawn")
    head = Head.of("Estimates against the truth", measured, width)
    area = Area.below(head, width, ticks=[quantity(10 * max([1e3, *(abs(each.estimate) for each in known)]))])
    classes = size_classes(known)
    x, y = _scales(known, classes, area)
    parts = [area.across(x, quantity, "true count"), area.up(y, quantity)]
    reach = NormalDist().inv_cdf((1 + level) / 2)
    for row, each in enumerate(classes):
        steps = x.evenly(each.low or x.low, min(each.high, x.high), STEPS)
        far = reach * each.error
        edge = [(x(at), y(at + far)) for at in steps] + [(x(at), y(at - far)) for at in reversed(steps)]
        words = f"{_range(each)}: {percent_exactly(each.held)} of {some(len(each.answers), 'interval')} hold the truth"
        parts.append(element("path", d=path(edge) + "z", class_="soft s0", title=words, data_row=str(row)))
    low, high = max(x.low, y.low), min(x.high, y.high)
    parts.append(element("path", d=path((x(at), y(at)) for at in x.evenly(low, high, 4 * STEPS)), class_="rule"))
    if drawn:
        dots = "".join(f"M{short(x(each.truth))} {short(y(each.estimate))}h0" for each in drawn)
        parts.append(element("path", d=dots, class_="specks s0"))
    else:
        parts.append(area.nothing("nothing was asked"))
    columns = (
        Column("true count"),
        Column("intervals", quantity),
        Column("hold the truth", percent_exactly),
        Column("predicted standard error", quantity),
    )
    rows = [(_range(each), len(each.answers), each.held, each.error) for each in classes]
    return finished(head, parts, size=(width, area.height), reading=_reading(known, level), columns=columns, rows=rows)


def _range(each: SizeClass) -> str:
    return f"below {quantity(each.high)}" if not each.low else f"{quantity(each.low)} to {quantity(each.high)}"


def _scales(
    known: Sequence[BesideTheTruth], classes: Sequence[SizeClass], area: Area
) -> tuple[SignedScale, SignedScale]:
    """Both by powers of ten, and straight up to a typical error of small counts."""
    truths, estimates = finite(each.truth for each in known), finite(each.estimate for each in known)
    largest = nice_step(max([10.0, *truths, *estimates]))
    unit = min(max(classes[0].error if classes else 1.0, 1.0, largest / 1e6), largest / 10)
    least = min([0.0, *truths])
    lowest = min([0.0, *estimates])
    below = -nice_step(-lowest) if lowest < 0 else 0.0
    return (
        SignedScale(-nice_step(-least) if least < 0 else 0.0, largest, area.left, area.right, unit),
        SignedScale(below, largest, area.bottom, area.top, unit),
    )


def _reading(known: Sequence[BesideTheTruth], level: float) -> str:
    if not known:
        return "No interval was compared with the truth."
    held = sum(each.is_held for each in known) / len(known)
    verb = "holds" if len(known) == 1 else "hold"
    return f"{percent_exactly(held)} of {some(len(known), 'interval')} {verb} the truth; {percent(level)} are meant to."
