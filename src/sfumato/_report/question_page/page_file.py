"""The file: what it says, what it holds, and the script that answers."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from pathlib import Path

import numpy as np

from sfumato._core.arrays import Array
from sfumato._core.json_types import Json, JsonView
from sfumato._figures.svg import element, escape_markup
from sfumato._query.intervals import compute_quantile
from sfumato._query.release import Release
from sfumato._records.tally import COUNT, Scan
from sfumato._release.manifest import Manifest
from sfumato._report.certificate import LIMITS
from sfumato._report.html_page import (
    Section,
    render_document,
    render_list,
    render_paragraph,
    shorten_text,
    write_stylesheet,
)
from sfumato._report.question_page.page_contents import (
    PageContents,
    Progress,
    count_column_pairs,
    list_protected_columns,
    pack_arrays,
    pack_records,
)
from sfumato._report.question_page.question_style import STYLE
from sfumato.mechanisms.estimator import AnyMethod, BrowserEstimator
from sfumato.mechanisms.mechanism import PAGE

MAX_MEGABYTES = 10
"""Megabytes of a page that is still mailed and opened without waiting; a larger release is counted beforehand."""
MEGABYTE = 1_000_000
TIMEOUT = 86_400.0
"""Seconds: many counts of a large release take long, and whoever waits sees how far they are."""
LEVELS = (0.8, 0.9, 0.95, 0.99)
SCRIPTS = ("arithmetic.js", "intervals.js", "answers.js", "words.js", "drawing.js", "view.js")
"""In this order, with that of the method between them: one function around all, so that nothing else can be reached."""
TITLE = "Ask about {}"
FORM_HTML = (
    '<noscript><p class="alarm">This page answers by a script, which this browser does not run.</p></noscript>'
    '<p id="status" role="status"></p>'
    '<div id="desk" hidden="hidden"><details id="asking"><summary>Change the question</summary>'
    '<form id="question" aria-label="Your question"></form></details>'
    '<section id="answer" aria-label="The answer"></section></div>'
)
"""Where the script puts the question and the answer."""
TEST_KEY_NOTE = "This release was drawn with a known key, for a test: it protects nobody."
TOO_LARGE_NOTE = (
    "This release is too large for one file, so its page holds counts for up to two public columns together; ask about "
    "fewer columns, or ask the release itself with sfumato."
)


@dataclass(frozen=True)
class QuestionPage:
    """A page made from a release, ready to be written."""

    manifest: Manifest
    records: int
    method: AnyMethod
    twin: BrowserEstimator
    contents: PageContents
    title: str
    is_private: bool = False

    @property
    def has_only_counts(self) -> bool:
        """Whether it holds counts, and not the records."""
        return "tables" in self.contents.script_settings

    @cached_property
    def size(self) -> int:
        """How many bytes the file has."""
        return len(self.to_html().encode())

    def to_html(self) -> str:
        """The whole file."""
        return self._html

    @cached_property
    def _html(self) -> str:
        numbers, arrays = _split_arrays(self.twin.numbers)
        protected = list_protected_columns(self.manifest)
        letters, places = pack_arrays(
            {**self.contents.arrays, **{item.id: codes for item, codes in protected}, **arrays},
        )
        about = {
            **self.contents.script_settings,
            "arrays": places,
            "numbers": numbers,
            "public": [item.to_json() for item in self.contents.columns],
            "protected": [item.to_json() for item, _ in protected],
            "descriptions": dict(self.manifest.description.columns),
            "domain_size": len(self.manifest.domain),
            "records": self.records,
            "counted": self.manifest.count_unit,
            "quantiles": {str(level): compute_quantile(level) for level in LEVELS},
            "too_many": TOO_LARGE_NOTE,
        }
        script = _write_script(self.twin)
        about_json = json.dumps(about, ensure_ascii=True, allow_nan=False, separators=(",", ":")).replace(
            "<", "\\u003c"
        )
        body = [
            *self._render_body(),
            f'<script type="application/json" id="about">{about_json}</script>',
            f'<script type="application/octet-stream" id="packed">{letters}</script>',
        ]
        return render_document(self.title, write_stylesheet(_format_footer(self.title)) + STYLE, body, script=script)

    def _render_body(self) -> list[str]:
        records_text = f"{self.records:,} {self.manifest.count_unit}"
        subtitle = f"{records_text}. Every answer comes with its error. Nothing that you ask leaves this page."
        promise = [render_paragraph(self.manifest.guarantee_text)]
        if self.manifest.is_test:
            promise.append(render_paragraph(TEST_KEY_NOTE, "alarm"))
        sections = [
            Section("What is promised", element("div", *promise, class_="promise")),
            Section("What is not covered", render_list([self._guarantee, *LIMITS])),
            Section("How to read the numbers", render_list(self._reading_notes)),
        ]
        sections_html = element("div", *(item.to_html(is_private=False) for item in sections), class_="words")
        return [
            element(
                "header",
                element("h1", escape_markup(shorten_text(self.title))),
                render_paragraph(subtitle, "subtitle"),
                render_paragraph(self.manifest.description.description)
                if self.manifest.description.description
                else "",
            ),
            element("main", FORM_HTML, sections_html),
            element("footer", render_paragraph(self._ending)),
        ]

    @property
    def _guarantee(self) -> str:
        guarantee = self.manifest.mechanism.guarantee
        return f"This kind of promise ({guarantee}): {guarantee.sentence}"

    @property
    def _reading_notes(self) -> list[str]:
        reading_facts = [
            "A number such as 1,860 \u00b1 110 is an estimate and its standard error. About 95 in 100 of the intervals "
            "beside such numbers hold the number of the original table, if that is the level; the others do not.",
            f"The numbers are about the {self.manifest.count_unit} of the original table, not about a population that "
            "they were taken from.",
            f"How they are estimated: {self.method.label}. What is assumed: {self.method.assumption}.",
            "An estimate may be below zero or above what is possible, by chance: so sums of estimates stay right.",
            "In the picture, a thin upright tick is a bound that is certain; what is dashed is not to be relied on.",
        ]
        if self.has_only_counts:
            reading_facts.append(TOO_LARGE_NOTE)
        if self.contents.omitted_columns:
            names = ", ".join(repr(shorten_text(name, 60)) for name in self.contents.omitted_columns)
            reading_facts.append(f"Public columns of the release that have no room in this page: {names}.")
        return reading_facts

    @property
    def _ending(self) -> str:
        contents_text = "counts of the release" if self.has_only_counts else "all records of the release"
        about = self.manifest.description
        licence = f"Licence: {about.licence}. " if about.licence else ""
        contact = f"Whom to ask: {about.contact}. " if about.contact else ""
        return (
            f"{licence}{contact}This file holds {contents_text}, and nothing that is not in the release; it needs no "
            f"network, and its policy allows none. Made with sfumato {version('sfumato')}."
        )


def make_question_page(
    release: str | Path | Release,
    *,
    title: str | None = None,
    max_megabytes: float = MAX_MEGABYTES,
    progress: Progress = lambda done, total: None,
) -> QuestionPage:
    """Make the page of a release: of all its records, or of counts where that would be more than so many megabytes."""
    opened = release if isinstance(release, Release) else Release.open(release)
    manifest, method = opened.manifest, next(iter(opened.manifest.methods.values()))
    if method.twin is None:
        raise manifest.mechanism.make_missing_error(PAGE, "answer in a page; ask its releases with sfumato query")
    with opened.open_session(TIMEOUT) as session:
        ((_, tallies),) = manifest.encoding.tally_groups(session, Scan(), manifest.naming).items()
        holdings = manifest.encoding.read_side_table(manifest.naming, opened.folder)
        twin = method.twin(manifest.design, tallies[COUNT], holdings)
        page_title = title or manifest.description.title or TITLE.format(manifest.sensitive_name)
        records, width = opened.rows, int(tallies[COUNT].counts.shape[1])

        def make_page(contents: PageContents) -> QuestionPage:
            contents.script_settings["width"] = width
            return QuestionPage(manifest, records, method, twin, contents, page_title)

        room = int(max_megabytes * MEGABYTE)
        if records <= room:  # less than a byte is needed for none
            answer_page = make_page(pack_records(opened))
            if answer_page.size <= room:
                return answer_page
        room -= make_page(PageContents((), {})).size  # what is in every page
        return make_page(count_column_pairs(manifest, session, width, room, progress))


def _write_script(twin: BrowserEstimator) -> str:
    """All scripts in one function; the first lines of each say what it is for, and stay."""
    here = Path(__file__).parent
    sources = [(here / name).read_text(encoding="utf-8") for name in SCRIPTS]
    sources.insert(1, twin.script.read_text(encoding="utf-8"))
    return '(() => {\n"use strict";\n' + "\n".join(sources) + "})();"


def _split_arrays(numbers: JsonView) -> tuple[Json, dict[str, Array]]:
    """What an estimator is made from: what JSON holds, and arrays."""
    arrays = {f"numbers.{name}": value for name, value in numbers.items() if isinstance(value, np.ndarray)}
    return {name: value for name, value in numbers.items() if not isinstance(value, np.ndarray)}, arrays


def _format_footer(title: str) -> str:
    """What stands at the foot of printed pages: a text between quotes in a style."""
    safe_title = "".join(
        letter for letter in shorten_text(title, 80) if letter.isalnum() or letter in " .,:;-()'\u2019"
    )
    return f"{safe_title}, by sfumato"
