"""Everything that is written for people, made for a small table: a new page joins by one line in WRITERS."""

from __future__ import annotations

import base64
import hashlib
import html
import io
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from accepted import ALL_ACCEPTED, REASON
from releases import SENSITIVE, WAYS, accepting, people
from sfumato._document.document import Document
from sfumato._evidence import Dossier, audit_release
from sfumato._evidence.certificate import make_certificate
from sfumato._publish.publication import publish
from sfumato._publish.publication_plan import PublicationPlan, plan
from sfumato._publish.request import Request
from sfumato._query.release import Release
from sfumato._release.manifest import README
from sfumato._report import make_question_page
from sfumato._request.schema import Schema
from sfumato._verify.against_original import verify
from sfumato.cli import render

DAY = date(2026, 3, 1)
QUESTIONS = (
    f"SELECT sex, COUNT(*) FROM release WHERE {SENSITIVE} = 'flu' GROUP BY sex",
    "SELECT nothing FROM release",
)


@dataclass(frozen=True)
class Made:
    """A table, what was planned for it, and the release, which was drawn with a secret key."""

    request: Request
    planned: PublicationPlan
    release: Release
    plan: Path

    @cached_property
    def dossier(self) -> Dossier:
        """What a report about the release says."""
        files = dict[str, Any](self.request.schema.hierarchies)
        found = {"plan_file": self.plan, "hierarchies": files, "seed": 1, "questions": QUESTIONS}
        return audit_release(self.release.path, self.request.table, report_date=DAY, **found)


def made(mechanism: str, folder: Path, table: Any = None) -> Made:
    """Plan and publish a table by a mechanism."""
    table = people() if table is None else table
    schema = WAYS[mechanism].schema(Schema.of(SENSITIVE, public="*"), table)
    asked = WAYS[mechanism].request(mechanism)
    request = Request(table, schema=schema, **asked, accept_exposure=REASON, **accepting(table, schema), **ALL_ACCEPTED)
    plan_file = folder / "plan.json"
    published = publish(request, folder / "release", plan_file=plan_file)
    return Made(request, plan(request), published.release, plan_file)


def printed(made: Made) -> str:
    """What commands print."""
    console = render.GuardedConsole(file=io.StringIO(), width=200)
    for document in (*(make(made) for make in DOCUMENTS.values()), verify(made.release.path).document()):
        render.show_document(console, document)
    for notice in made.planned.notices:
        render.show_notice(console, notice)
    return console.file.getvalue()


DOCUMENTS: Mapping[str, Callable[[Made], Document]] = {
    "plan": lambda made: made.planned.document(),
    "sheet": lambda made: made.planned.decision_sheet(),
    "audit": lambda made: made.dossier.document(),
    "certificate": lambda made: make_certificate(made.release.path, DAY).document(),
    "release": lambda made: made.release.document(),
}
"""From what was made to a document."""

WRITERS: Mapping[str, Callable[[Made], str]] = {
    "certificate": lambda made: DOCUMENTS["certificate"](made).to_html(),
    "page": lambda made: make_question_page(made.release).to_html(),
    "plan": lambda made: DOCUMENTS["plan"](made).to_html(),
    "sheet": lambda made: DOCUMENTS["sheet"](made).to_html(),
    "report": lambda made: DOCUMENTS["audit"](made).to_html(),
    "README": lambda made: (made.release.path / README).read_text(encoding="utf-8"),
    "printed": printed,
}
"""From what was made to a text, HTML or not."""

VERDICTS = (
    r"anonymous",
    r"anonymi[sz]ed data",
    r"de-identified",
    r"(GDPR|HIPAA) does not apply",
    r"re-?identification risk is",
    r"nobody can learn",
    r"no risk",
    r"safe",
    r"passed the attacks",
    r"k-anonymous",
    r"for the population",
)
"""What is never said: whether a release is good enough is for a person to decide."""
QUALIFIED = ("local", "of this column", "one record per person", "epsilon = ln(amplification)")
"""What a sentence must say beside 'differentially private'."""


def read_out(text: str) -> str:
    """The words of a page: without its style, packed numbers, its elements, and names of options."""
    bare = re.sub(r"<style>.*?</style>|<script type=.*?</script>|<[^>]*>", " ", text, flags=re.DOTALL)
    return " ".join(re.sub(r"--[a-z-]+", " ", html.unescape(bare)).split())


def verdicts(text: str) -> list[str]:
    """The sentences of a page that must not be there."""
    words = read_out(text)
    found = [each[0] for rule in VERDICTS for each in re.finditer(rf"(?<![\w-]){rule}(?![\w-])", words, re.IGNORECASE)]
    for each in re.findall(r"[^.]*\bdifferential(?:ly private| privacy)\b[^.]*", words, re.IGNORECASE):
        found += [] if all(said in each for said in QUALIFIED) else [each]
    return found


VOID = {"meta", "path", "rect", "circle"}


class Elements(HTMLParser):
    """Every element of a page with its attributes; elements must be closed in their order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in VOID, f"a browser would not close <{tag}/>"
        self.found.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag

    def named(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.found if name == tag]


def check_sound(text: str) -> Elements:
    """What every page must be: well formed, with one heading, its policy, and nothing from elsewhere."""
    elements = Elements(text)
    names = {name for name, _ in elements.found}
    assert not names & {"script", "link", "img", "iframe", "object", "form", "base", "a"}
    assert not [key for _, each in elements.found for key in each if key.startswith("on") or key in {"src", "style"}]
    assert {"header", "main", "h1"} <= names
    assert len(elements.named("h1")) == len(elements.named("main")) == 1
    (style,) = re.findall(r"<style>(.*?)</style>", text, flags=re.DOTALL)
    policy = next(each["content"] or "" for each in elements.named("meta") if "http-equiv" in each)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert policy.startswith(f"default-src 'none'; style-src 'sha256-{digest}';")
    assert "url(" not in style
    assert "@import" not in style
    assert all("scope" in each for each in elements.named("th"))
    return elements
