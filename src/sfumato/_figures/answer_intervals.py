"""Answers with their intervals, one under the other."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from sfumato._figures.figure import HATCHED, WIDTH, Column, Figure, Head, drawn_width, finished
from sfumato._figures.number_cells import NumberCell
from sfumato._figures.number_format import NOT_TOLD, is_known, name, percent, quantity, some
from sfumato._figures.row_chart import MOST_ROWS, Rows, most_telling
from sfumato._figures.scales import Scale, finite, linear
from sfumato._figures.svg import element, mark

LEVEL = 0.95


class Estimated(Protocol):
    """What an estimate tells."""

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
    """An answer: its value and interval, and between what it lies for certain where that is known."""

    label: str
    value: float | None
    low: float | None = None
    high: float | None = None
    least: float | None = None
    most: float | None = None
    note: str = ""
    is_unreliable: bool = False
    """Whether the release was made so that this number is not to be relied on."""
    said: str = ""
    """The value as people read it, if its error says how."""

    @classmethod
    def of(cls, label: str, found: Estimated, level: float = LEVEL, *, is_unreliable: bool = False) -> AnswerRow:
        """From an `Estimate`."""
        known = found.standard_error is not None and not math.isnan(found.value)
        low, high = found.interval(level) if known else (None, None)
        said = NumberCell.of(found.value, found.standard_error).value if known else ""
        return cls(label, found.value, low, high, *found.bounds, found.note or "", is_unreliable, said)

    @property
    def is_told(self) -> bool:
        """Whether there is a number."""
        return is_known(self.value)

    @property
    def has_interval(self) -> bool:
        """Whether both ends are given; they may be infinite."""
        ends = (self.low, self.high)
        return self.is_told and all(each is not None and not math.isnan(each) for each in ends)

    @property
    def excludes_zero(self) -> bool:
        """Whether the interval says that the number is not zero."""
        return self.has_interval and not (self.low or 0.0) <= 0 <= (self.high or 0.0)

    @property
    def ends(self) -> str:
        """The interval in words."""
        return f"{_end(self.low)} to {_end(self.high)}" if self.has_interval else "no interval"

    @property
    def words(self) -> str:
        """The value."""
        return self.said or (quantity(self.value) if self.is_told else NOT_TOLD)


def answer_rows(labels: Iterable[str], found: Iterable[Estimated], level: float = LEVEL) -> list[AnswerRow]:
    """From `Estimates`, or a list of them."""
    return [AnswerRow.of(label, each, level) for label, each in zip(labels, found, strict=True)]


class Answered(Protocol):
    """What an answer to a question in SQL tells: rows of groups and estimates."""

    @property
    def names(self) -> tuple[str, ...]: ...
    @property
    def numbers(self) -> tuple[str, ...]: ...
    @property
    def rows(self) -> tuple[Mapping[str, Any], ...]: ...
    def level_of_each(self, level: float) -> float: ...


def rows_of_answer(answer: Answered, level: float = LEVEL) -> list[AnswerRow]:
    """From an `Answer`: each number of each row, named by its groups; so that all hold together if that was asked."""
    groups = [name for name in answer.names if name not in answer.numbers]
    own = answer.level_of_each(level)
    found = []
    for row in answer.rows:
        group = ", ".join("(missing)" if row[name] is None else str(row[name]) for name in groups)
        for number in answer.numbers:
            parts = [group] if group else []
            parts += [number] if len(answer.numbers) > 1 or not group else []
            found.append(AnswerRow.of(": ".join(parts), row[number], own))
    return found


def _end(number: float | None) -> str:
    if number is not None and math.isinf(number):
        return "no upper limit" if number > 0 else "no lower limit"
    return quantity(number)


def forest(
    answers: Sequence[AnswerRow], width: float = WIDTH, *, level: float = LEVEL, is_simultaneous: bool = False
) -> Figure:
    """A dot and an interval for each answer, certain bounds as ticks; hatched where it is not to be relied on."""
    width = drawn_width(width)
    ordered = most_telling(answers, lambda each: abs(each.value) if each.value is not None and each.is_told else -1.0)
    drawn = ordered[:MOST_ROWS]
    together = " that hold together" if is_simultaneous else ""
    measured = [f"estimates with {percent(level)} intervals{together}, for the original table"]
    is_hatched = any(each.is_unreliable for each in drawn)
    if is_hatched:
        measured.append("hatched: not to be relied on")
    head = Head.of("Answers with their intervals", measured, width)
    rows = Rows.below(head, width, [each.label for each in drawn], [each.words for each in drawn], total=len(ordered))
    numbers = [number for each in drawn for number in (each.value, each.low, each.high)]
    x = linear(numbers, rows.area.left + 8, rows.area.right - 8)
    parts = [rows.frame(x, quantity, "estimated number")]
    zero = f"M{x(0.0):.1f} {rows.area.top:.1f}V{rows.area.bottom:.1f}"
    parts.append(element("path", d=zero, class_="axis"))
    parts += [_row(rows, number, each, x) for number, each in enumerate(drawn)]
    columns = (
        Column("", name),
        Column("estimate", quantity),
        Column("low", _end),
        Column("high", _end),
        Column("certainly at least", _end),
        Column("certainly at most", _end),
        Column("note", name),
    )
    table = [(one.label, one.value, one.low, one.high, one.least, one.most, one.note) for one in ordered]
    return finished(
        head,
        parts,
        size=(width, rows.area.height),
        reading=_reading(answers, level),
        columns=columns,
        rows=table,
        hatched=is_hatched,
    )


def _row(rows: Rows, number: int, answer: AnswerRow, x: Scale) -> str:
    at = rows.middles[number]
    words = f"{name(answer.label)}: {answer.words} ({answer.ends})"
    if answer.note:
        words = f"{words}; {name(answer.note)}"
    parts = [rows.said(number, answer.words)]
    if answer.has_interval:
        low, high = x(answer.low or 0.0), x(answer.high or 0.0)
        if answer.is_unreliable:
            size = {"width": max(high - low, 2.0), "height": 10.0}
            parts.append(element("rect", x=low, y=at - 5, fill=HATCHED, title=words, **size))
        else:
            parts.append(rows.across(number, low, high, "line s0", title=words))
        ends = ((answer.low, low, 6), (answer.high, high, -6))
        for end, place, back in ends:  # an arrow where there is no end
            if is_known(end):
                continue
            parts.append(
                element("path", d=f"M{place + back:.1f} {at - 4:.1f}L{place:.1f} {at:.1f}l{back} 4", class_="line s0")
            )
    for bound in finite([answer.least, answer.most]):
        if x.low <= bound <= x.high and bound != 0:  # which has its line
            parts.append(element("path", d=f"M{x(bound):.1f} {at - 6:.1f}v12", class_="axis"))
    if answer.value is not None and answer.is_told:
        shape, kind = ("diamond", "hollow grey") if answer.is_unreliable else ("circle", "dot s0")
        parts.append(mark(shape, x(answer.value), at, kind, title=words))
    return "".join(parts)


def _reading(answers: Sequence[AnswerRow], level: float) -> str:
    given = [each for each in answers if each.has_interval and not each.is_unreliable]
    unreliable = sum(each.is_unreliable for each in answers)
    rest = f"; {some(unreliable, 'answer')} not to be relied on" if unreliable else ""
    if not given:
        return f"No answer has an interval{rest}." if answers else "There is no answer."
    beyond = sum(each.excludes_zero for each in given)
    verb = "excludes" if beyond == 1 else "exclude"
    return f"{beyond:,} of {some(len(given), 'interval')} {verb} zero, at {percent(level)}{rest}."
