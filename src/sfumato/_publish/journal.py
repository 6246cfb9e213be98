"""Reads the private journal of publications, a file in which each line has the digest of the line before.

A publication writes two lines of JSON. The first line (`begun`) is written before the release appears, and contains all
facts about the release. The second line (`ended`) is written afterwards, and says whether the release appeared. So
every release has a line, even if its run is stopped at any moment. A first line without a second line belongs to a run
that was stopped.

`previous` is the SHA-256 of the line before, without its line break, and `digest` that of the line's own content. So a
check finds a line that was edited, removed or moved. The check does not find that lines were removed from the end. To
find such removals too, note the head (the digest of the last line) elsewhere, and compare.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from sfumato._core.digests import compute_json_digest
from sfumato._core.json_types import Json, JsonView
from sfumato._core.small_text_files import read_small
from sfumato._document.document import Document
from sfumato.errors import ReleaseFormatError, SpecError, explain_os_error

NO_LINE = "0" * 64
"""Stands in place of the digest of a previous line, in the first line."""
DIGEST = re.compile(r"[0-9a-f]{64}")
BEGUN, ENDED = "begun", "ended"
TEXT_KEYS = ("time", "user", "software", "request", "release", "target", "mechanism", "bound")
"""The facts of a publication that are strings."""
INCOMPLETE = (
    "is incomplete, because it has no line break. If a run was stopped while it wrote this line, remove the line; "
    "its release then did not appear, or an earlier line records the release"
)
EDITED = "was edited, because its content does not match the digest in the line"
MISPLACED = "does not follow the line before, so a line was removed, added or moved here"
FOREIGN = "is not a line of a journal"


class JournalOutcome(StrEnum):
    """Whether the release of a publication appeared."""

    PUBLISHED = "published"
    NOT_PUBLISHED = "not published"
    UNKNOWN = "unknown"
    """The run was stopped between its two lines."""


@dataclass(frozen=True)
class JournalEntry:
    """One publication in a journal."""

    number: int
    """The number of the publication, from 1."""
    time: str
    """The time just before the release appeared, in UTC."""
    user: str
    """The user name of the operating system."""
    software: str
    """The version of sfumato."""
    request: str
    """The digest of the request."""
    release: str
    """The digest of the release, as `info` shows it."""
    target: str
    """The name of the release, as it was typed."""
    mechanism: str
    bound: str
    """The requirement in plain words."""
    accepted: JsonView = field(default_factory=dict)
    """The stops that were accepted, with their reasons."""
    outcome: JournalOutcome = JournalOutcome.UNKNOWN

    @property
    def facts(self) -> Json:
        """The facts in the first line of the publication."""
        texts = {name: getattr(self, name) for name in TEXT_KEYS}
        return {"publication": self.number, "event": BEGUN, **texts, "accepted": dict(self.accepted)}

    @classmethod
    def from_facts(cls, facts: JsonView) -> JournalEntry:
        """Reads the first line of a publication; raises ValueError if it has another form."""
        texts = {name: facts[name] for name in TEXT_KEYS}
        if not all(isinstance(text, str) for text in texts.values()) or not isinstance(facts["accepted"], Mapping):
            raise ValueError
        return cls(number=facts["publication"], accepted=facts["accepted"], **texts)

    def to_json(self) -> Json:
        """The publication as JSON."""
        facts = {name: value for name, value in self.facts.items() if name != "event"}
        return {**facts, "outcome": self.outcome}


@dataclass(frozen=True)
class Journal:
    """The publications in a journal, up to the first line that breaks the chain. Private."""

    path: Path
    entries: tuple[JournalEntry, ...] = ()
    line_digests: tuple[str, ...] = field(default=(), repr=False)
    """The SHA-256 of each intact line."""
    bad_line: int | None = None
    """The number of the first line that breaks the chain."""
    problem: str = ""
    """The problem with the chain, in one sentence. Empty if the chain is intact."""

    @property
    def head(self) -> str:
        """The digest of the last line, to be noted elsewhere. A journal without lines has a digest of zeros."""
        return self.line_digests[-1] if self.line_digests else NO_LINE

    @property
    def is_intact(self) -> bool:
        """Whether all lines form one chain, and one of them has the noted head."""
        return not self.problem

    def document(self) -> Document:
        """Makes the document of the journal. Private."""
        from sfumato._publish.journal_document import make_journal_document  # noqa: PLC0415 - a cycle

        return make_journal_document(self)

    def to_json(self) -> Json:
        """The journal as JSON."""
        return {
            "path": str(self.path),
            "is_intact": self.is_intact,
            "bad_line": self.bad_line,
            "problem": self.problem or None,
            "head": self.head,
            "lines": len(self.line_digests),
            "publications": [entry.to_json() for entry in self.entries],
        }

    def add_line(self, facts: JsonView) -> tuple[bytes, Journal]:
        """Makes the next line, without its line break, and the journal with this line."""
        content = {**facts, "previous": self.head}
        line = json.dumps({**content, "digest": compute_json_digest(content)}).encode()
        return line, self._take_line(line)

    def _take_line(self, line: bytes) -> Journal:
        """The journal with a further line. If the line does not belong there, raises ValueError with the reason."""
        facts = _read_line(line)
        if facts["previous"] != self.head:
            raise ValueError(MISPLACED)
        try:
            entries = self._add_event(facts)
        except (LookupError, TypeError, ValueError) as error:
            raise ValueError(FOREIGN) from error
        digests = (*self.line_digests, hashlib.sha256(line).hexdigest())
        return replace(self, entries=entries, line_digests=digests)

    def _add_event(self, facts: JsonView) -> tuple[JournalEntry, ...]:
        if facts["event"] == BEGUN and facts["publication"] == len(self.entries) + 1:
            return (*self.entries, JournalEntry.from_facts(facts))
        last = self.entries[-1]
        is_open = last.outcome is JournalOutcome.UNKNOWN
        if facts["event"] != ENDED or facts["publication"] != last.number or not is_open:
            raise ValueError
        return (*self.entries[:-1], replace(last, outcome=JournalOutcome(facts["outcome"])))


def read_journal(path: str | Path, head: str | None = None) -> Journal:
    """Reads a journal, and checks that its lines form one chain. Private.

    `head` is a digest that was noted before. The journal must still have the line with this digest.
    """
    noted_head = None if head is None else _normalize_head(head)
    try:
        content = read_small(Path(path), f"the journal {str(path)!r}", ReleaseFormatError)
    except OSError as error:
        raise ReleaseFormatError(f"the journal {str(path)!r} cannot be read: {explain_os_error(error)}.") from error
    journal = parse_journal(Path(path), content)
    if noted_head is None or noted_head in (NO_LINE, *journal.line_digests) or not journal.is_intact:
        return journal
    problem = (
        f"the journal {str(path)!r} has no line with the noted head {noted_head[:12]}...: lines were removed from "
        "the end of the journal, or the journal was rewritten, or the head belongs to another journal."
    )
    return replace(journal, problem=problem)


def parse_journal(path: Path, content: bytes) -> Journal:
    """Reads the lines of a journal up to the first line that breaks the chain."""
    journal = Journal(path)
    *lines, rest = content.split(b"\n")
    for number, line in enumerate((*lines, rest) if rest else lines, start=1):
        try:
            if number > len(lines):
                raise ValueError(INCOMPLETE)
            journal = journal._take_line(line)
        except ValueError as error:
            return replace(journal, bad_line=number, problem=f"line {number} of the journal {str(path)!r} {error}.")
    return journal


def _read_line(line: bytes) -> Json:
    """The content of a line. If the line was changed, raises ValueError with the reason."""
    try:
        facts: dict[str, Any] = json.loads(line)
        digest = facts.pop("digest")
        is_edited = digest != compute_json_digest(facts) or not isinstance(facts["previous"], str)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(FOREIGN) from error
    if is_edited:
        raise ValueError(EDITED)
    return facts


def _normalize_head(head: str) -> str:
    digest = "".join(head.split()).lower()
    if not DIGEST.fullmatch(digest):
        raise SpecError("the noted head is not a digest of 64 hexadecimal digits; copy the whole head of the journal.")
    return digest
