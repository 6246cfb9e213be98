"""What an experiment gives: a table, a figure, and one sentence that compares them with what was published."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from sfumato._figures.figure import Figure

STANDARD_ERRORS = 3
"""Ours agrees if what is published lies within so many standard errors of our repeats."""


class Verdict(StrEnum):
    """How ours compare with the published numbers; `judge` has the rule for the first three."""

    AGREES = "agrees"
    """Within the printed precision, or within three standard errors of our repeats."""
    DIFFERS = "differs"
    """Other numbers for a known reason: other data, a misprint, a value that the text leaves open."""
    CONTRADICTS = "contradicts"
    """A claim about every table has a counterexample that follows from the print alone."""
    BEYOND = "beyond"
    """Nothing was published to compare with: what sfumato's own version gains."""


@dataclass(frozen=True)
class Outcome:
    """The result of an experiment."""

    headings: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    verdict: Verdict
    sentence: str
    """Of one experiment one sentence: what agrees, or what differs and why."""
    figure: Figure | None = None

    def to_csv(self) -> str:
        """The table with all digits."""
        buffer = io.StringIO()
        writer = csv.writer(buffer, lineterminator="\n")
        writer.writerow(self.headings)
        writer.writerows([_format_exactly(cell) for cell in row] for row in self.rows)
        return buffer.getvalue()

    def to_markdown(self) -> str:
        """The table as people read it."""
        lines = [
            self.headings,
            ["---"] * len(self.headings),
            *([_format_shortly(cell) for cell in row] for row in self.rows),
        ]
        return "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |\n" for line in lines)


def is_within(ours: float, published: float, precision: float) -> bool:
    """Whether a number is as near to a printed one as its precision tells."""
    return abs(ours - published) <= precision * (1 + 1e-9)


def judge(agreeing: Sequence[bool], *, refuted: bool = False) -> Verdict:
    """Gives the verdict on the numbers and claims of an experiment; the one place that decides it.

    An experiment contradicts if it refutes a claim that the work makes about every table: a theorem, a lemma, an
    equation, a rule. The counterexample is computed from the print alone. It needs no table of ours, no random draw
    and nothing that the print leaves open.

    Everything else that does not agree differs. What a work measured on a table that we do not have cannot be
    contradicted by another table, and a number of one example is a misprint.
    """
    if refuted:
        return Verdict.CONTRADICTS
    return Verdict.AGREES if all(agreeing) else Verdict.DIFFERS


def _format_exactly(cell: Any) -> str:
    return "" if cell is None else repr(cell) if isinstance(cell, float) else str(cell)


def _format_shortly(cell: Any) -> str:
    if cell is None or cell != cell:  # noqa: PLR0124 - not a number
        return "-"
    return f"{cell:.4g}" if isinstance(cell, float) else str(cell)
