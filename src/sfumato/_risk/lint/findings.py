"""Findings in a table that will be published: problems to solve, and notes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sfumato._core.json_types import Json
from sfumato._document.document import Document
from sfumato._request.warnings import NoticeNumber
from sfumato._terminal_safe import escape_unprintable

FINDINGS = (
    "order-tied",
    "tables-joined",
    "identifier",
    "index-column",
    "free-text",
    "needless-precision",
    "dictionary-order",
    "dictionary-left-over",
    "statistics-left-over",
    "file-metadata",
)
"""The codes of problems to solve."""

NOTES = (
    "records-alone",
    "group-number",
    "column-statistics",
    "pandas-metadata",
    "byte-order-mark",
    "not-utf-8",
    "odd-bytes",
    "not-looked-at",
)
"""The codes of notes, which are harmless by themselves or due to the choice of columns."""


@dataclass(frozen=True)
class Finding:
    """A disclosure by a table, with its remedy. As text it is its sentence."""

    code: str
    sentence: str
    remedy: str
    column: str | None = None
    file: str | None = None
    numbers: Mapping[str, NoticeNumber] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "sentence", escape_unprintable(self.sentence))
        object.__setattr__(self, "remedy", escape_unprintable(self.remedy))

    def __str__(self) -> str:
        return self.sentence

    @property
    def is_note(self) -> bool:
        """Whether the finding is only a note."""
        return self.code in NOTES

    def to_json(self) -> Json:
        """The finding as JSON."""
        return {
            "code": self.code,
            "severity": "note" if self.is_note else "finding",
            "sentence": self.sentence,
            "remedy": self.remedy,
            "column": self.column,
            "file": self.file,
            "numbers": dict(self.numbers),
        }


@dataclass(frozen=True)
class LintReport:
    """The inspected tables, and the findings."""

    tables: Mapping[str, int]
    """The number of rows of each table."""
    all_findings: tuple[Finding, ...]

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The problems to solve."""
        return tuple(finding for finding in self.all_findings if not finding.is_note)

    @property
    def notes(self) -> tuple[Finding, ...]:
        """The notes."""
        return tuple(finding for finding in self.all_findings if finding.is_note)

    def document(self) -> Document:
        """Makes the document of the report."""
        from sfumato._risk.lint.lint_document import make_lint_document  # noqa: PLC0415 - a cycle

        return make_lint_document(self)

    def to_json(self) -> Json:
        """The report as JSON."""
        return {
            "tables": dict(self.tables),
            "findings": [finding.to_json() for finding in (*self.findings, *self.notes)],
        }
