"""Draws answers with their intervals, one below the other."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from sfumato._figures.estimate_format import NumberCell
from sfumato._figures.figure import HATCHED, WIDTH, Column, Figure, Head, assemble_figure, limit_width
from sfumato._figures.number_format import (
    NOT_AVAILABLE,
    format_count,
    format_name,
    format_percent,
    format_quantity,
    is_known,
)
from sfumato._figures.row_chart import MOST_ROWS, RowLayout, put_largest_first
from sfumato._figures.scales import Scale, keep_finite, make_linear_scale
from sfumato._figures.svg import draw_mark, element

LEVEL = 0.95


class EstimateLike(Protocol):
    """The attributes of an estimate."""

    @property
    def value(self) -> float: ...
    @property
    def standard_error(self) -> float | None: ...
    @property
    def bounds(self) -> tuple[float, float]: ...
    @property
    def note(self) -> str | None: ...
    def interval(self, level: float) -> tuple[float, float]: ...


@dataclass(frozen=True, slots=True)
class AnswerRow:
    """An answer, with its value and interval, and with its certain bounds if they are known."""

    label: str
    value: float | None
    low: float | None = None
    high: float | None = None
    least: float | None = None
    most: float | None = None
    note: str = ""
    is_unreliable: bool = False
    """Whether the release makes this number unreliable on purpose."""
    formatted_value: str = ""
    """The formatted value, if the error of the value determines the digits."""

    @classmethod
    def of(cls, label: str, estimate: EstimateLike, level: float = LEVEL, *, is_unreliable: bool = False) -> AnswerRow:
        """Makes the row from an `Estimate`."""
        is_estimated = estimate.standard_error is not None and not math.isnan(estimate.value)
        low, high = estimate.interval(level) if is_estimated else (None, None)
        formatted_value = NumberCell.of(estimate.value, estimate.standard_error).value if is_estimated else ""
        return cls(
            label, estimate.value, low, high, *estimate.bounds, estimate.note or "", is_unreliable, formatted_value
        )

    @property
    def has_value(self) -> bool:
        """Whether there is a number."""
        return is_known(self.value)

    @property
    def has_interval(self) -> bool:
        """Whether both ends of the interval exist. An end may be infinite."""
        ends = (self.low, self.high)
        return self.has_value and all(end is not None and not math.isnan(end) for end in ends)

    @property
    def excludes_zero(self) -> bool:
        """Whether the interval excludes zero."""
        return self.has_interval and not (self.low or 0.0) <= 0 <= (self.high or 0.0)

    @property
    def interval_text(self) -> str:
        """The interval as text."""
        return f"{_format_end(self.low)} to {_format_end(self.high)}" if self.has_interval else "no interval"

    @property
    def value_text(self) -> str:
        """The value as text."""
        return self.formatted_value or (format_quantity(self.value) if self.has_value else NOT_AVAILABLE)


def make_answer_rows(labels: Iterable[str], estimates: Iterable[EstimateLike], level: float = LEVEL) -> list[AnswerRow]:
    """Makes rows from `Estimates`, or from a list of `Estimate`."""
    return [AnswerRow.of(label, estimate, level) for label, estimate in zip(labels, estimates, strict=True)]


class AnswerLike(Protocol):
    """The attributes of an answer to a question in SQL, which are groups and estimates."""

    @property
    def names(self) -> tuple[str, ...]: ...
    @property
    def numbers(self) -> tuple[str, ...]: ...
    @property
    def rows(self) -> tuple[Mapping[str, Any], ...]: ...
    def correct_level(self, level: float) -> float: ...


def list_answer_rows(answer: AnswerLike, level: float = LEVEL) -> list[AnswerRow]:
    """Lists each number of an `Answer` with its groups. Intervals are simultaneous if requested."""
    groups = [name for name in answer.names if name not in answer.numbers]
    interval_level = answer.correct_level(level)
    result_rows = []
    for row in answer.rows:
        group = ", ".join("(missing)" if row[name] is None else str(row[name]) for name in groups)
        for number in answer.numbers:
            parts = [group] if group else []
            parts += [number] if len(answer.numbers) > 1 or not group else []
            result_rows.append(AnswerRow.of(": ".join(parts), row[number], interval_level))
    return result_rows


def _format_end(number: float | None) -> str:
    if number is not None and math.isinf(number):
        return "no upper limit" if number > 0 else "no lower limit"
    return format_quantity(number)


def draw_forest_plot(
    answers: Sequence[AnswerRow],
    width: float = WIDTH,
    *,
    level: float = LEVEL,
    is_simultaneous: bool = False,
    source: str | None = None,
) -> Figure:
    """Draws a dot and an interval for each answer, and certain bounds as ticks. Unreliable answers are hatched.

    The source is the table with the true numbers, such as `the original table`.
    """
    width = limit_width(width)
    ordered_answers = put_largest_first(
        answers, lambda answer: abs(answer.value) if answer.value is not None and answer.has_value else -1.0
    )
    drawn_answers = ordered_answers[:MOST_ROWS]
    simultaneous_text = " that hold simultaneously" if is_simultaneous else ""
    source_text = "" if source is None else f", for {source}"
    captions = [f"estimates with {format_percent(level)} intervals{simultaneous_text}{source_text}"]
    is_hatched = any(answer.is_unreliable for answer in drawn_answers)
    if is_hatched:
        captions.append("hatched: unreliable")
    head = Head.of("Answers with their intervals", captions, width)
    rows = RowLayout.from_head(
        head,
        width,
        [answer.label for answer in drawn_answers],
        [answer.value_text for answer in drawn_answers],
        total=len(ordered_answers),
    )
    numbers = [number for answer in drawn_answers for number in (answer.value, answer.low, answer.high)]
    x = make_linear_scale(numbers, rows.area.left + 8, rows.area.right - 8)
    parts = [rows.draw_frame(x, format_quantity, "estimated number")]
    zero = f"M{x(0.0):.1f} {rows.area.top:.1f}V{rows.area.bottom:.1f}"
    parts.append(element("path", d=zero, class_="axis"))
    parts += [_draw_row(rows, number, answer, x) for number, answer in enumerate(drawn_answers)]
    columns = (
        Column("", format_name),
        Column("estimate", format_quantity),
        Column("low", _format_end),
        Column("high", _format_end),
        Column("certainly at least", _format_end),
        Column("certainly at most", _format_end),
        Column("note", format_name),
    )
    table = [
        (
            answer_row.label,
            answer_row.value,
            answer_row.low,
            answer_row.high,
            answer_row.least,
            answer_row.most,
            answer_row.note,
        )
        for answer_row in ordered_answers
    ]
    return assemble_figure(
        head,
        parts,
        size=(width, rows.area.figure_height),
        reading=_describe_figure(answers, level),
        columns=columns,
        rows=table,
        is_hatched=is_hatched,
    )


def _draw_row(rows: RowLayout, number: int, answer: AnswerRow, x: Scale) -> str:
    at = rows.middles[number]
    tooltip = f"{format_name(answer.label)}: {answer.value_text} ({answer.interval_text})"
    if answer.note:
        tooltip = f"{tooltip}; {format_name(answer.note)}"
    parts = [rows.draw_row_text(number, answer.value_text)]
    if answer.has_interval:
        low, high = x(answer.low or 0.0), x(answer.high or 0.0)
        if answer.is_unreliable:
            size = {"width": max(high - low, 2.0), "height": 10.0}
            parts.append(element("rect", x=low, y=at - 5, fill=HATCHED, title=tooltip, **size))
        else:
            parts.append(rows.draw_row_line(number, low, high, "line s0", title=tooltip))
        ends = ((answer.low, low, 6), (answer.high, high, -6))
        for end, place, arrow_length in ends:  # an arrow for an infinite end
            if is_known(end):
                continue
            parts.append(
                element(
                    "path",
                    d=f"M{place + arrow_length:.1f} {at - 4:.1f}L{place:.1f} {at:.1f}l{arrow_length} 4",
                    class_="line s0",
                )
            )
    for bound in keep_finite([answer.least, answer.most]):
        if x.low <= bound <= x.high and bound != 0:  # zero has its own line
            parts.append(element("path", d=f"M{x(bound):.1f} {at - 6:.1f}v12", class_="axis"))
    if answer.value is not None and answer.has_value:
        shape, kind = ("diamond", "hollow grey") if answer.is_unreliable else ("circle", "dot s0")
        parts.append(draw_mark(shape, x(answer.value), at, kind, title=tooltip))
    return "".join(parts)


def _describe_figure(answers: Sequence[AnswerRow], level: float) -> str:
    reliable_answers = [answer for answer in answers if answer.has_interval and not answer.is_unreliable]
    unreliable = sum(answer.is_unreliable for answer in answers)
    rest = f"; {format_count(unreliable, 'unreliable answer')}" if unreliable else ""
    if not reliable_answers:
        return f"No answer has an interval{rest}." if answers else "There are no answers."
    nonzero_count = sum(answer.excludes_zero for answer in reliable_answers)
    verb = "excludes" if nonzero_count == 1 else "exclude"
    return (
        f"{nonzero_count:,} of {format_count(len(reliable_answers), 'interval')} {verb} zero, at "
        f"{format_percent(level)}{rest}."
    )
