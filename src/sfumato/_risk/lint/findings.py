"""What was found in a table that is to be published: something to mend, or something to know."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sfumato._core.json_types import Json
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
"""The codes of what should be mended."""

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
"""The codes of what is worth knowing: it tells nothing by itself, or belongs to the columns that were chosen."""


@dataclass(frozen=True)
class Finding:
    """Something that a table gives away, and what helps. Its text is its sentence."""

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
        """Whether it is only worth knowing."""
        return self.code in NOTES

    def to_json(self) -> Json:
        """For machines."""
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
    """What was looked at, and what was found."""

    tables: Mapping[str, int]
    """How many rows each table has."""
    all_findings: tuple[Finding, ...]

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What should be mended."""
        return tuple(finding for finding in self.all_findings if not finding.is_note)

    @property
    def notes(self) -> tuple[Finding, ...]:
        """What is worth knowing."""
        return tuple(finding for finding in self.all_findings if finding.is_note)

    def to_json(self) -> Json:
        """For machines."""
        return {
            "tables": dict(self.tables),
            "findings": [finding.to_json() for finding in (*self.findings, *self.notes)],
        }
