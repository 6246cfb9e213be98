"""The layout of an answer: one cell for each number, notes as footnotes, and a legend below.

All renderers show the same layout.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sfumato._core.cell_values import display
from sfumato._document.estimate_table import EstimateColumn, EstimateTable
from sfumato._figures.estimate_format import NO_NUMBER, UNKNOWN, NumberCell
from sfumato._request.person_rows import Population

if TYPE_CHECKING:  # an answer uses its layout for display
    from sfumato._query.answer import Answer

SUPERSCRIPTS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


def make_estimate_table(answer: Answer, level: float, max_rows: int | None = None) -> EstimateTable:
    """Lays out the first rows of an answer, or all rows."""
    rows, interval_level = answer.rows[:max_rows], answer.correct_level(level)
    shared_notes, footnote_numbers = _split_footnotes(answer, interval_level, rows)
    columns = []
    for name in answer.names:
        if name not in answer.numbers:
            columns.append(EstimateColumn(name, tuple(display(row[name]) for row in rows)))
            continue
        marks = [
            " ".join(
                str(footnote_numbers[note]).translate(SUPERSCRIPTS)
                for note in row[name].list_notes(interval_level)
                if note in footnote_numbers
            )
            for row in rows
        ]
        columns.append(EstimateColumn(name, (), tuple(row[name].to_cell(interval_level) for row in rows), tuple(marks)))
        if name in answer.adjusted_columns:
            adjusted_name = answer.adjusted_columns[name]
            other_cells = (NumberCell.of(row[adjusted_name], row[name].standard_error) for row in rows)
            columns.append(EstimateColumn(adjusted_name, tuple(item.value for item in other_cells)))
    numbered_notes = [f"{str(number).translate(SUPERSCRIPTS)} {note}" for note, number in footnote_numbers.items()]
    cells = [cell for item in columns for cell in item.cells]
    remarks = (*_list_legend(cells, level, answer.population), *_describe_method(answer))
    return EstimateTable(
        tuple(columns), (*shared_notes, *numbered_notes), remarks, tuple(answer.adjusted_columns.values())
    )


def _split_footnotes(
    answer: Answer, level: float, rows: Sequence[Mapping[str, Any]]
) -> tuple[list[str], dict[str, int]]:
    """Splits notes into shared notes of a column and footnotes.

    A note is shared if all cells of the column have it. All other notes become numbered footnotes.
    """
    shared_notes: list[str] = []
    footnote_numbers: dict[str, int] = {}
    for name in answer.numbers:
        cell_notes = [row[name].list_notes(level) for row in rows]
        common_notes = set(cell_notes[0]).intersection(*cell_notes) if cell_notes else set()
        shared_notes += [
            f"{name}: {note}"
            for note in dict.fromkeys(note for notes in cell_notes for note in notes)
            if note in common_notes
        ]
        rest = dict.fromkeys(note for notes in cell_notes for note in notes if note not in common_notes)
        footnote_numbers |= {
            note: len(footnote_numbers) + place
            for place, note in enumerate((unmarked for unmarked in rest if unmarked not in footnote_numbers), 1)
        }
    return shared_notes, footnote_numbers


def _list_legend(cells: Sequence[NumberCell], level: float, population: Population | None) -> list[str]:
    """Explains the notation in the cells."""
    errors = {cell.error for cell in cells if cell.value != NO_NUMBER}
    sentences = []
    if errors - {"", UNKNOWN}:
        source = "" if population is None else f", for the numbers of {population.source}"
        sentences.append(f"± standard error, [{100 * level:g}% confidence interval]{source}")
    if UNKNOWN in errors:
        sentences.append(f"± {UNKNOWN}: the error is unknown")
    if "" in errors and len(errors) > 1:
        sentences.append("number without ±: exact")
    return ["; ".join(sentences)] if sentences else []


def _describe_method(answer: Answer) -> list[str]:
    """Describes the method, the assumption and the population."""
    sentences = [answer.method]
    if answer.population is not None and answer.population.remark:
        sentences.append(answer.population.remark)
    if answer.adjustment:
        sentences.append(f"{', '.join(answer.adjusted_columns.values())}: {answer.adjustment}")
    return sentences
