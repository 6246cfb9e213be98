"""One document, four renderers: each shows every text, escapes it, and changes nothing else."""

from __future__ import annotations

import html
import io
import json
import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import partial
from typing import Any

import pytest

from sfumato._document import document as blocks
from sfumato._document.document import (
    Alert,
    Alerts,
    CheckLine,
    Checks,
    DataTable,
    Decision,
    Document,
    EstimateBlock,
    Facts,
    Heading,
    Items,
    Outcome,
    Picture,
    Section,
    SideBySide,
    Text,
    Tile,
    Tiles,
    Tone,
    make_section,
)
from sfumato._document.estimate_table import EstimateColumn, EstimateTable
from sfumato._document.notebook_document import render_notebook
from sfumato._document.terminal_document import print_document
from sfumato._figures import draw_forest_plot, make_answer_rows
from sfumato._figures.estimate_format import NumberCell
from sfumato._query.estimate import Estimate
from sfumato._request.warnings import NOTICE_CODES, Grade, Notice
from sfumato.cli.flags import name_flags
from sfumato.cli.render import GuardedConsole

ROWS = make_answer_rows(["north"], [Estimate.exact(3)])
ESTIMATES = EstimateTable(
    (EstimateColumn("region", ("north-cell",)), EstimateColumn("n", (), (NumberCell("12", "3", "6", "18"),), ("",))),
    ("a-footnote",),
    ("a-remark",),
)
EVERY_BLOCK = (
    Text("plain-text"),
    Text("quiet-text", Tone.QUIET),
    Text("strong-text", Tone.STRONG),
    Text("code-text", Tone.CODE),
    Text("guarantee-text\n\nsecond-paragraph", Tone.GUARANTEE),
    Heading("small-heading"),
    Items(("first-item", "second-item")),
    Facts("facts-caption", (("fact-name", "fact-value"),)),
    DataTable("table-caption", ("heading-one", "heading-two"), (("row-name", "row-number"),), (1,)),
    Tiles((Tile("tile-number", "tile-meaning", "tile-caveat"),)),
    Picture(partial(draw_forest_plot, ROWS)),
    Alerts((Alert(Grade.STOP, "stop-sentence", ("way-out",)), Alert(Grade.NOTE, "note-sentence"))),
    Checks("checks-caption", (CheckLine(Outcome.FAILED, "check-name", "check-detail"),)),
    Decision(False, "decider-name", ("decision-reason",), (("blank-label", "blank-content"),)),
    EstimateBlock(ESTIMATES, 1),
)
DOCUMENT = Document(
    "document-title",
    "document-subtitle",
    (
        make_section("section-heading", *EVERY_BLOCK),
        SideBySide(
            (make_section("left-heading", Text("left-text")),),
            (
                make_section(
                    "right-heading",
                    Text("right"),
                ),
            ),
        ),
    ),
    "document-ending",
)
ONLY_ON_PAPER = {"blank-label", "blank-content"}
"""The lines that a person signs."""
CAPTIONS_OF_CHECKS = {"checks-caption"}


def printed(document: Document, width: int = 100) -> str:
    console = GuardedConsole(file=io.StringIO(), width=width)
    print_document(console, document)
    return console.file.getvalue()


def words(markup: str) -> str:
    return html.unescape(re.sub(r"<style>.*?</style>|<[^>]*>", " ", markup, flags=re.DOTALL))


RENDERERS = {
    "html": lambda document: words(document.to_html()),
    "terminal": printed,
    "json": lambda document: json.dumps(document.to_json()),
    "notebook": lambda document: words(render_notebook(document)),
}


def list_texts(value: Any) -> Iterator[str]:
    if isinstance(value, str) and not isinstance(value, Enum):
        yield from filter(None, value.split("\n\n"))
    elif isinstance(value, tuple):
        for part in value:
            yield from list_texts(part)
    elif is_dataclass(value) and not isinstance(value, type):
        for field in fields(value):
            yield from list_texts(getattr(value, field.name))


def test_example_has_every_kind_of_block() -> None:
    assert {type(block) for block in EVERY_BLOCK} == set(blocks.Block.__args__)


@pytest.mark.parametrize("name", RENDERERS)
def test_every_renderer_shows_every_text(name: str) -> None:
    rendered = RENDERERS[name](DOCUMENT)
    skipped = {"terminal": ONLY_ON_PAPER | CAPTIONS_OF_CHECKS}.get(name, set())
    parts = DOCUMENT.sections if name == "notebook" else DOCUMENT
    texts = set(list_texts(parts)) - skipped
    assert len(texts) > 40
    assert [text for text in sorted(texts) if text not in rendered] == []


@pytest.mark.parametrize("name", RENDERERS)
def test_hostile_text_stays_text_in_every_renderer(name: str) -> None:
    hostile = "<script>alert(1)</script>\x1b[2J\u202e[red]"
    changed = DOCUMENT.map_text(lambda text: hostile)
    rendered = {
        "html": changed.to_html,
        "terminal": partial(printed, changed),
        "json": lambda: json.dumps(changed.to_json(), ensure_ascii=True),
        "notebook": partial(render_notebook, changed),
    }[name]()
    assert "\x1b" not in rendered
    assert "\u202e" not in rendered
    if name in ("html", "notebook"):
        assert "<script" not in rendered


@pytest.mark.parametrize("width", [60, 80, 120])
def test_terminal_keeps_to_its_width(width: int) -> None:
    wide = DOCUMENT.map_text(
        lambda text: f"{text} with some further words that need more than one line of any terminal"
    )
    console = GuardedConsole(file=io.StringIO(), width=width, force_terminal=True, color_system=None)
    print_document(console, wide)
    assert max(map(len, console.file.getvalue().splitlines())) <= width


def test_lines_of_advice_are_whole_where_nobody_reads_them_in_a_terminal() -> None:
    sentence = "word " * 60
    alone = Document("", "", (make_section("", Alerts((Alert(Grade.WARNING, sentence.strip()),))),))
    assert sentence.strip() in printed(alone, 80)


def test_page_only_sections_are_left_out_of_terminals_alone() -> None:
    document = Document("", "", (Section("hidden-heading", (Text("hidden"),), is_page_only=True),))
    assert "hidden" not in printed(document)
    assert "hidden" in document.to_html()
    assert "hidden" in json.dumps(document.to_json())


def test_arguments_become_options_in_every_text() -> None:
    sentence = "drop it (`drop=['age']`)."
    document = DOCUMENT.map_text(lambda text: sentence).map_text(name_flags)
    assert "drop=" not in json.dumps(document.to_json())
    assert "--drop age" in document.to_html()


def test_stops_come_first_and_every_code_has_a_grade() -> None:
    notices = [Notice(code, code) for code in NOTICE_CODES]
    grades = [alert.grade for alert in Alerts.of(notices).alerts]
    assert grades == sorted(grades, key=list(Grade).index)
    assert set(grades) == set(Grade)


def test_empty_blocks_are_left_out() -> None:
    section = make_section("heading", Text(""), Items(()), Alerts(()), DataTable("c", ("h",), ()), None, Facts("c", ()))
    assert section.blocks == ()
