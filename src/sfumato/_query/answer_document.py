"""The document of an answer: its rows, notes on them, and a figure for each number."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

from sfumato._core.cell_values import format_value_count, format_values
from sfumato._document.document import (
    Alert,
    Alerts,
    Block,
    DataTable,
    Document,
    EstimateBlock,
    Facts,
    Items,
    Picture,
    Text,
    Tone,
    list_guarantee_blocks,
    make_section,
)
from sfumato._figures.forest_plot import draw_forest_plot, make_answer_rows
from sfumato._query.answer_layout import make_estimate_table
from sfumato._query.intervals import DEFAULT_LEVEL
from sfumato._records.sql_quoting import format_level, quote_if_needed
from sfumato._request.warnings import Grade

if TYPE_CHECKING:  # these classes use this module for display
    from sfumato._query.answer import Answer
    from sfumato._query.estimate import Estimate, Estimates
    from sfumato._query.release import Release

TEST_KEY_WARNING = "UNFIT TO PUBLISH: drawn with a test key."
MOST_ROWS = 40
"""The largest number of rows in a notebook. Other tools show all rows."""
MOST_VALUES = 12
EXACT_WORDING = "README.md of the release and `sfumato info` have the exact wording."


def make_answer_document(answer: Answer, level: float = DEFAULT_LEVEL, max_rows: int | None = None) -> Document:
    """Makes the document of an answer with its first rows, or with all rows."""
    estimates = EstimateBlock(make_estimate_table(answer, level, max_rows), len(answer.rows))
    grade = Grade.WARNING if answer.absence_note else Grade.NOTE
    alerts = Alerts((Alert(grade, answer.note),) if answer.note else ())
    return Document("", "", (make_section("", estimates, alerts, *_draw_numbers(answer, level)),))


def _draw_numbers(answer: Answer, level: float) -> Iterator[Picture]:
    """Draws a figure for a number with several rows. If there are several numbers, the figures are folded."""
    names = [
        name for name in answer.numbers if len(answer.rows) > 1 and any(row[name].has_interval for row in answer.rows)
    ]
    for name in names:
        yield Picture(partial(answer.plot, name, level), summary=f"Picture of {name}" if len(names) > 1 else "")


def make_estimate_document(estimate: Estimate) -> Document:
    """Makes the document of one number."""
    from sfumato._query.answer import Answer  # noqa: PLC0415 - an answer uses this module for display

    rows = ({"n": estimate},)
    return make_answer_document(
        Answer(("n",), ("n",), rows, estimate.method, estimate.assumption, population=estimate.population)
    )


def make_estimates_document(estimates: Estimates) -> Document:
    """Makes the document of the first of many numbers."""
    from sfumato._query.answer import Answer  # noqa: PLC0415 - an answer uses this module for display

    first = list(islice(estimates, MOST_ROWS))
    rows = tuple({"query": number, "n": estimate} for number, estimate in enumerate(first))
    answer = Answer(
        ("query", "n"), ("n",), rows, estimates.method, estimates.assumption, population=estimates.population
    )
    table = EstimateBlock(make_estimate_table(answer, DEFAULT_LEVEL), len(estimates))
    answer_rows = make_answer_rows(map(str, range(len(first))), first)
    source = None if estimates.population is None else estimates.population.source
    picture = Picture(partial(draw_forest_plot, answer_rows, source=source)) if rows else None
    return Document("", "", (make_section("", table, picture),))


def make_release_document(release: Release, *, is_brief: bool = False) -> Document:
    """Makes the document of a release: its columns and its guarantee. With `is_brief`, the guarantee is shortened."""
    manifest = release.manifest
    description = manifest.description
    estimators = f"Estimators: {', '.join(release.methods)} (query: `method=`)." if len(release.methods) > 1 else ""
    columns = tuple(map(tuple, release.columns))
    omitted = len(columns) - MOST_ROWS
    blocks: list[Block] = [
        Text(description.title, Tone.STRONG),
        Text(description.description),
        *map(Text, description.list_lines()),
        Text(f"{_describe_size(release)}, mechanism {manifest.mechanism_name}", Tone.STRONG),
        Text(manifest.population.sentence),
        DataTable("", ("column", "type", "role"), columns[:MOST_ROWS]),
        Text(f"and {omitted:,} further columns (query: DESCRIBE release)" if omitted > 0 else "", Tone.QUIET),
        Facts("", tuple(description.columns.items())),
        Items(tuple(_list_values(release))),
        *(list_guarantee_blocks(release.guarantee)[:1] if is_brief else list_guarantee_blocks(release.guarantee)),
        Text("" if release.known_coverage is None else release.known_coverage.sentence),
        Text(EXACT_WORDING if is_brief else "", Tone.QUIET),
        Text(estimators, Tone.QUIET),
        Text(manifest.proposal or "", Tone.QUIET),
        Alerts((Alert(Grade.STOP, TEST_KEY_WARNING),) if manifest.is_test else ()),
    ]
    return Document("", "", (make_section("", *blocks),))


def _describe_size(release: Release) -> str:
    if not release.people_in_counts:
        return f"{release.rows:,} records"
    counted = "all" if release.people_in_counts == release.rows else f"{release.people_in_counts:,} of them"
    return f"{release.rows:,} {release.manifest.count_unit} ({counted} in groups with published counts)"


def _list_values(release: Release) -> Iterator[str]:
    """Lists the values of protected columns and the groups of their levels.

    Adds the queries that show complete lists.
    """
    for column, values in release.values.items():
        shown = format_values(values, MOST_VALUES)
        yield f"{column} has {format_value_count(values)}: {shown} (query: GROUP BY {quote_if_needed(column)})"
    for column, hierarchy in release.manifest.hierarchies.items():
        for place, level in enumerate(hierarchy.levels[1:], 1):
            groups, name = hierarchy.list_groups(place), format_level(column, level)
            shown = format_values(groups, MOST_VALUES)
            yield f"{name} has {format_value_count(groups, 'group')}: {shown} (query: GROUP BY {name})"
