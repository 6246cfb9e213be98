"""Writes the page, with its text, its data, and the script that answers questions."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from pathlib import Path

import numpy as np

from sfumato._core.array_types import Array
from sfumato._core.json_types import Json, JsonView
from sfumato._document.document import Alert, Alerts, Items, list_guarantee_blocks, make_section
from sfumato._document.html_document import render_section
from sfumato._document.html_markup import render_document, render_paragraph, shorten_text
from sfumato._document.page_style import write_stylesheet
from sfumato._evidence.certificate import LIMITS
from sfumato._figures.svg import element, escape_markup
from sfumato._query.intervals import compute_quantile
from sfumato._query.release import Release
from sfumato._records.tally import COUNT, Scan
from sfumato._release.manifest import Manifest
from sfumato._report.question_page.embedded_data import (
    PageContents,
    Progress,
    count_column_pairs,
    list_protected_columns,
    pack_arrays,
    pack_records,
)
from sfumato._report.question_page.question_style import STYLE
from sfumato._request.warnings import Grade
from sfumato.mechanisms.estimator import AnyMethod, BrowserEstimator
from sfumato.mechanisms.mechanism import PAGE

MAX_MEGABYTES = 10
"""The largest page, in megabytes, that is easy to mail and open. For a larger release, the page has counts."""
MEGABYTE = 1_000_000
TIMEOUT = 86_400.0
"""A time limit in seconds. It is long, because a large release has many counts. A progress bar shows them."""
LEVELS = (0.8, 0.9, 0.95, 0.99)
SCRIPTS = ("arithmetic.js", "intervals.js", "answers.js", "words.js", "drawing.js", "view.js")
"""The scripts in order; the script of the mechanism is second.

One function encloses all scripts, so that no names leak.
"""
TITLE = "Ask about {}"
FORM_HTML = (
    '<noscript><p class="alarm">This page needs JavaScript, which is disabled in this browser.</p></noscript>'
    '<p id="status" role="status"></p>'
    '<div id="desk" hidden="hidden"><details id="asking"><summary>Change the question</summary>'
    '<form id="question" aria-label="Your question"></form></details>'
    '<section id="answer" aria-label="The answer"></section></div>'
)
"""The elements that the script fills with the question and the answer."""
TEST_KEY_NOTE = "This release was drawn with a known test key: it protects no one."
TOO_LARGE_NOTE = (
    "This release is too large for one file, so this page contains counts for up to two public columns together. Ask "
    "about fewer columns, or query the release with sfumato."
)


@dataclass(frozen=True)
class QuestionPage:
    """A page made from a release."""

    manifest: Manifest
    records: int
    method: AnyMethod
    twin: BrowserEstimator
    contents: PageContents
    title: str
    coverage: str = ""
    """The share of people whom the bound covers, in a sentence; empty for guarantees without one bound."""
    is_private: bool = False
    people_in_counts: int = 0
    """How many people have no record. The counts of their groups are published instead."""

    @property
    def has_only_counts(self) -> bool:
        """Whether the page contains counts instead of records."""
        return "tables" in self.contents.script_settings

    @property
    def contents_in_words(self) -> str:
        """What the page contains: records, counts, or both."""
        if self.has_only_counts or self.people_in_counts == self.records > 0:
            return "counts"
        return "counts and records" if self.people_in_counts else "records"

    @cached_property
    def size(self) -> int:
        """The size of the file in bytes."""
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
            "source": self.manifest.population.source,
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
        if self.people_in_counts:
            counted = "all" if self.people_in_counts == self.records else f"{self.people_in_counts:,} of them"
            records_text += f", {counted} in groups with published counts"
        subtitle = f"{records_text}. Every answer has a standard error. Your questions never leave this page."
        test_warning = Alerts((Alert(Grade.STOP, TEST_KEY_NOTE),)) if self.manifest.is_test else None
        sections = [
            make_section("Guarantee", *list_guarantee_blocks(self.manifest.guarantee), test_warning),
            make_section("What is not covered", Items(tuple(filter(None, (self.coverage, self._guarantee, *LIMITS))))),
            make_section("How to read the numbers", Items(tuple(self._reading_notes))),
        ]
        sections_html = element("div", *map(render_section, sections), class_="words")
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
        return guarantee.limit

    @property
    def _reading_notes(self) -> list[str]:
        population = self.manifest.population
        reading_facts = [
            "A number such as 1,860 \u00b1 110 is an estimate and its standard error. About 95% of the 95% "
            f"confidence intervals cover the number in {population.source}.",
            population.sentence,
            f"Estimator: {self.method.label}. Assumption: {self.method.assumption}.",
            "By chance, an estimate can be too large or below zero. Such an estimate is not corrected, so that sums "
            "stay unbiased.",
            "In the picture, a thin vertical tick is a limit that holds for certain. Dashed marks are unreliable "
            "answers.",
        ]
        if self.has_only_counts:
            reading_facts += filter(None, (TOO_LARGE_NOTE, self.twin.note))
        if self.contents.omitted_columns:
            names = ", ".join(repr(shorten_text(name, 60)) for name in self.contents.omitted_columns)
            reading_facts.append(f"Public columns that this page omits for lack of space: {names}.")
        return reading_facts

    @property
    def _ending(self) -> str:
        contents_text = f"{self.contents_in_words.replace('records', 'all records')} of the release"
        about = self.manifest.description
        licence = f"Licence: {about.licence}. " if about.licence else ""
        contact = f"Contact: {about.contact}. " if about.contact else ""
        return (
            f"{licence}{contact}This file contains {contents_text} and no other data. The page makes no network "
            f"requests, and its policy forbids such requests. Made with sfumato {version('sfumato')}."
        )


def make_question_page(
    release: str | Path | Release,
    *,
    title: str | None = None,
    max_megabytes: float = MAX_MEGABYTES,
    progress: Progress = lambda done, total: None,
) -> QuestionPage:
    """Makes the page of a release, with all records. If they exceed the size limit, the page has counts."""
    opened = release if isinstance(release, Release) else Release.open(release)
    manifest, method = opened.manifest, next(iter(opened.manifest.methods.values()))
    if method.twin is None:
        raise manifest.mechanism.make_missing_error(PAGE, "answer in a page; use sfumato query for its releases")
    with opened.open_session(TIMEOUT) as session:
        ((_, tallies),) = manifest.encoding.tally_groups(session, Scan(), manifest.naming).items()
        holdings = manifest.encoding.read_side_table(manifest.naming, opened.folder)
        twin = method.twin(manifest.design, tallies[COUNT], holdings)
        page_title = title or manifest.description.title or TITLE.format(manifest.sensitive_name)
        records, width = opened.rows, int(tallies[COUNT].counts.shape[1])
        coverage = "" if opened.bound_coverage is None else opened.bound_coverage.sentence

        def make_page(contents: PageContents) -> QuestionPage:
            contents.script_settings.setdefault("width", width)
            return QuestionPage(
                manifest,
                records,
                method,
                twin,
                contents,
                page_title,
                coverage,
                people_in_counts=opened.people_in_counts,
            )

        room = int(max_megabytes * MEGABYTE)
        crowds = manifest.encoding.read_crowds(manifest.naming, opened.folder)
        counts = 0 if crowds is None else crowds.noisy.size
        # Every record needs at least a byte, and every count at least a bit.
        if records - opened.people_in_counts + counts // 8 <= room:
            answer_page = make_page(pack_records(opened))
            if answer_page.size <= room:
                return answer_page
        room -= make_page(PageContents((), {})).size  # the fixed part of every page
        return make_page(count_column_pairs(manifest, session, width, room, progress))


def _write_script(twin: BrowserEstimator) -> str:
    """Joins all scripts in one function, and keeps their comments."""
    here = Path(__file__).parent
    sources = [(here / name).read_text(encoding="utf-8") for name in SCRIPTS]
    sources[1:1] = [script.read_text(encoding="utf-8") for script in (*twin.helpers, twin.script)]
    return '(() => {\n"use strict";\n' + "\n".join(sources) + "})();"


def _split_arrays(numbers: JsonView) -> tuple[Json, dict[str, Array]]:
    """Splits an estimator's parameters into JSON values and arrays."""
    arrays = {f"numbers.{name}": value for name, value in numbers.items() if isinstance(value, np.ndarray)}
    return {name: value for name, value in numbers.items() if not isinstance(value, np.ndarray)}, arrays


def _format_footer(title: str) -> str:
    """The footer of printed pages, without characters that would end a quoted text in a style."""
    safe_title = "".join(
        letter for letter in shorten_text(title, 80) if letter.isalnum() or letter in " .,:;-()'\u2019"
    )
    return f"{safe_title}, by sfumato"
