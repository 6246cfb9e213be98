"""The file: what it says, what it holds, and the script that answers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato._figures.svg import element, escaped
from sfumato._query.intervals import quantile
from sfumato._query.release import Release
from sfumato._records.tally import COUNT, Scan
from sfumato._release.manifest import Manifest
from sfumato._report.certificate import LIMITS
from sfumato._report.html_page import Section, document, listed, paragraph, shortened
from sfumato._report.page_style import stylesheet
from sfumato._report.question_page.page_columns import protected_columns
from sfumato._report.question_page.page_contents import PageContents, Progress, records_of, tallies_of
from sfumato._report.question_page.page_packing import packed
from sfumato._report.question_page.question_style import STYLE
from sfumato.mechanisms.estimator import Method, Twin
from sfumato.mechanisms.mechanism import PAGE

LARGEST = 10
"""Megabytes of a page that is still mailed and opened without waiting; a larger release is counted beforehand."""
MEGABYTE = 1_000_000
PATIENCE = 86_400.0
"""Seconds: many counts of a large release take long, and whoever waits sees how far they are."""
LEVELS = (0.8, 0.9, 0.95, 0.99)
SCRIPTS = ("arithmetic.js", "intervals.js", "answers.js", "words.js", "drawing.js", "view.js")
"""In this order, with that of the method between them: one function around all, so that nothing else can be reached."""
TITLE = "Ask about {}"
DESK = (
    '<noscript><p class="alarm">This page answers by a script, which this browser does not run.</p></noscript>'
    '<p id="status" role="status"></p>'
    '<div id="desk" hidden="hidden"><details id="asking"><summary>Change the question</summary>'
    '<form id="question" aria-label="Your question"></form></details>'
    '<section id="answer" aria-label="The answer"></section></div>'
)
"""Where the script puts the question and the answer."""
FOR_A_TEST = "This release was drawn with a known key, for a test: it protects nobody."
TOO_MANY = (
    "This release is too large for one file, so its page holds counts for up to two public columns together; ask about "
    "fewer columns, or ask the release itself with sfumato."
)


@dataclass(frozen=True)
class AskPage:
    """A page made from a release, ready to be written."""

    manifest: Manifest
    records: int
    method: Method[Any]
    twin: Twin
    contents: PageContents
    title: str
    is_private: bool = False

    @property
    def is_counted(self) -> bool:
        """Whether it holds counts, and not the records."""
        return "tables" in self.contents.about

    @cached_property
    def size(self) -> int:
        """How many bytes the file has."""
        return len(self.html().encode())

    def html(self) -> str:
        """The whole file."""
        return self._written

    @cached_property
    def _written(self) -> str:
        numbers, arrays = _parted(self.twin.numbers)
        protected = protected_columns(self.manifest)
        letters, places = packed(
            {**self.contents.arrays, **{each.id: codes for each, codes in protected}, **arrays},
        )
        about = {
            **self.contents.about,
            "arrays": places,
            "numbers": numbers,
            "public": [each.to_json() for each in self.contents.columns],
            "protected": [each.to_json() for each, _ in protected],
            "descriptions": dict(self.manifest.about.columns),
            "domain_size": len(self.manifest.domain),
            "records": self.records,
            "counted": self.manifest.counted,
            "quantiles": {str(level): quantile(level) for level in LEVELS},
            "too_many": TOO_MANY,
        }
        script = _script(self.twin)
        said = json.dumps(about, ensure_ascii=True, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
        body = [
            *self._body(),
            f'<script type="application/json" id="about">{said}</script>',
            f'<script type="application/octet-stream" id="packed">{letters}</script>',
        ]
        return document(self.title, stylesheet(_footer(self.title)) + STYLE, body, script=script)

    def _body(self) -> list[str]:
        known = f"{self.records:,} {self.manifest.counted}"
        subtitle = f"{known}. Every answer comes with its error. Nothing that you ask leaves this page."
        promise = [paragraph(self.manifest.promise)]
        if self.manifest.is_test:
            promise.append(paragraph(FOR_A_TEST, "alarm"))
        sections = [
            Section("What is promised", element("div", *promise, class_="promise")),
            Section("What is not covered", listed([self._guarantee, *LIMITS])),
            Section("How to read the numbers", listed(self._reading)),
        ]
        words = element("div", *(each.html(is_private=False) for each in sections), class_="words")
        return [
            element(
                "header",
                element("h1", escaped(shortened(self.title))),
                paragraph(subtitle, "subtitle"),
                paragraph(self.manifest.about.description) if self.manifest.about.description else "",
            ),
            element("main", DESK, words),
            element("footer", paragraph(self._ending)),
        ]

    @property
    def _guarantee(self) -> str:
        guarantee = self.manifest.mechanism.guarantee
        return f"This kind of promise ({guarantee}): {guarantee.sentence}"

    @property
    def _reading(self) -> list[str]:
        found = [
            "A number such as 1,860 \u00b1 110 is an estimate and its standard error. About 95 in 100 of the intervals "
            "beside such numbers hold the number of the original table, if that is the level; the others do not.",
            f"The numbers are about the {self.manifest.counted} of the original table, not about a population that "
            "they were taken from.",
            f"How they are estimated: {self.method.words}. What is assumed: {self.method.assumption}.",
            "An estimate may be below zero or above what is possible, by chance: so sums of estimates stay right.",
            "In the picture, a thin upright tick is a bound that is certain; what is dashed is not to be relied on.",
        ]
        if self.is_counted:
            found.append(TOO_MANY)
        if self.contents.left_out:
            names = ", ".join(repr(shortened(name, 60)) for name in self.contents.left_out)
            found.append(f"Public columns of the release that have no room in this page: {names}.")
        return found

    @property
    def _ending(self) -> str:
        held = "counts of the release" if self.is_counted else "all records of the release"
        about = self.manifest.about
        licence = f"Licence: {about.licence}. " if about.licence else ""
        contact = f"Whom to ask: {about.contact}. " if about.contact else ""
        return (
            f"{licence}{contact}This file holds {held}, and nothing that is not in the release; it needs no network, "
            f"and its policy allows none. Made with sfumato {version('sfumato')}."
        )


def ask_page(
    release: str | Path | Release,
    *,
    title: str | None = None,
    largest: float = LARGEST,
    progress: Progress = lambda done, total: None,
) -> AskPage:
    """Make the page of a release: of all its records, or of counts where that would be more than so many megabytes."""
    opened = release if isinstance(release, Release) else Release.open(release)
    manifest, method = opened.manifest, next(iter(opened.manifest.methods.values()))
    if method.twin is None:
        raise manifest.mechanism.lacks(PAGE, "answer in a page; ask its releases with sfumato query")
    with opened.session(PATIENCE) as session:
        ((_, measured),) = manifest.shown.scanned(session, Scan(), manifest.naming).items()
        holdings = manifest.shown.listed(manifest.naming, opened.folder)
        twin = method.twin(manifest.design, measured[COUNT], holdings)
        said = title or manifest.about.title or TITLE.format(manifest.sensitive_name)
        records, width = opened.rows, int(measured[COUNT].counts.shape[1])

        def page(contents: PageContents) -> AskPage:
            contents.about["width"] = width
            return AskPage(manifest, records, method, twin, contents, said)

        room = int(largest * MEGABYTE)
        if records <= room:  # less than a byte is needed for none
            found = page(records_of(opened))
            if found.size <= room:
                return found
        room -= page(PageContents((), {})).size  # what is in every page
        return page(tallies_of(manifest, session, width, room, progress))


def _script(twin: Twin) -> str:
    """All scripts in one function; the first lines of each say what it is for, and stay."""
    here = Path(__file__).parent
    sources = [(here / name).read_text(encoding="utf-8") for name in SCRIPTS]
    sources.insert(1, twin.script.read_text(encoding="utf-8"))
    return '(() => {\n"use strict";\n' + "\n".join(sources) + "})();"


def _parted(numbers: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
    """What an estimator is made from: what JSON holds, and arrays."""
    arrays = {f"numbers.{name}": each for name, each in numbers.items() if isinstance(each, np.ndarray)}
    return {name: each for name, each in numbers.items() if not isinstance(each, np.ndarray)}, arrays


def _footer(title: str) -> str:
    """What stands at the foot of printed pages: a text between quotes in a style."""
    kept = "".join(letter for letter in shortened(title, 80) if letter.isalnum() or letter in " .,:;-()'\u2019")
    return f"{kept}, by sfumato"
