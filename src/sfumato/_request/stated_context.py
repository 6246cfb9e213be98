"""Statements that only a person can make, from a TOML file: purpose, recipients, rules and decision.

    [decision]     name = "Ada Lovelace"     role = "data protection officer"     date = 2026-03-01

    [columns]     age = "needed by the study plan"

The user writes the text. An empty entry is printed as `not stated`, and no entry is judged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

from sfumato._core.json_types import Json
from sfumato._core.small_text_files import read_toml
from sfumato.errors import SpecError

NOT_STATED = "not stated"
COLUMNS = "columns"
LONGEST = 2000

SECTIONS: Mapping[str, Mapping[str, str]] = {
    "decision": {
        "purpose": "purpose of the release",
        "decision": "decision",
        "name": "name",
        "role": "role",
        "date": "date",
        "review_by": "review by",
    },
    "setting": {
        "recipients": "recipients",
        "legal_basis": "legal basis",
        "purposes": "permitted uses (projects)",
        "people": "users and their agreements (people)",
        "environment": "place of use (settings)",
        "licence": "licence or agreement",
        "outputs": "results that may leave the place of use (outputs)",
    },
    "judgement": {
        "threshold": "smallest class size wanted",
        "registers": "existing registers with these columns",
        "acceptable_gain": "acceptable increase in an attacker's correct guesses",
        "intruder_knows": "realistic knowledge of an intruder",
        "fit_for_purpose": "required accuracy of answers",
    },
}
"""The possible statements by section and key, with the labels that a page prints."""


@dataclass(frozen=True)
class StatedContext:
    """The statements that a person made about a release."""

    statements: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    column_reasons: Mapping[str, str] = field(default_factory=dict)
    """The reason why each column is needed."""

    @classmethod
    def read(cls, path: Path, columns: Sequence[str] | None = ()) -> StatedContext:
        """Reads a file. Refuses unknown sections, keys and columns, because their text would be lost.

        If `columns` is None, the columns are not known yet, and any column may be named.
        """
        file_sections = read_toml(path, f"the context {str(path)!r}")
        allowed_keys = {**SECTIONS, COLUMNS: dict.fromkeys(columns or (), "")}
        statements: dict[str, dict[str, str]] = {}
        for section, entries in file_sections.items():
            _check(section, allowed_keys, "section of a context")
            if not isinstance(entries, Mapping):
                raise SpecError(
                    f"{section!r} is a section of the context file: write [{section}] above its lines.",
                    code="key-not-in-section",
                    fields={"section": section},
                )
            for key in entries:
                if section != COLUMNS or columns is not None:
                    _check(key, allowed_keys[section], f"{'column' if section == COLUMNS else 'key'} of [{section}]")
            statements[section] = {key: _format_entry(section, key, value) for key, value in entries.items()}
        column_reasons = statements.pop(COLUMNS, {})
        return cls(statements, column_reasons)

    def get_entry(self, section: str, key: str) -> str:
        """The statement of a key, or `not stated`."""
        return self.statements.get(section, {}).get(key, "") or NOT_STATED

    def list_entries(self, section: str) -> list[tuple[str, str]]:
        """Lists all possible statements of a section, with their text."""
        return [(label, self.get_entry(section, key)) for key, label in SECTIONS[section].items()]

    @property
    def decider(self) -> str | None:
        """The person who decides, if stated."""
        decision = self.statements.get("decision", {})
        return ", ".join(filter(None, (decision.get("name"), decision.get("role")))) or None

    def to_json(self) -> Json:
        """The statements as JSON."""
        return {
            **{name: dict(entries) for name, entries in self.statements.items()},
            COLUMNS: dict(self.column_reasons),
        }


def _check(name: str, allowed: Mapping[str, object], what: str) -> None:
    if name not in allowed:
        raise SpecError(
            f"{name!r} is not a {what}; use one of: {', '.join(allowed) or 'none'}.",
            code="unknown-key",
            fields={"key": name},
        )


def _format_entry(section: str, key: str, value: object) -> str:
    """Formats a sentence, a number or a date for printing."""
    if not isinstance(value, str | int | float | date):
        raise SpecError(
            f"{key!r} of [{section}] must be a string, a number or a date; write it in quotes.",
            code="wrong-type",
            fields={"section": section, "key": key},
        )
    text = str(value).strip()
    if len(text) > LONGEST:
        raise SpecError(
            f"{key!r} of [{section}] has more than {LONGEST:,} characters; shorten it.",
            code="entry-too-long",
            fields={"section": section, "key": key, "longest": LONGEST},
        )
    return text
