"""What only a person can state: why, for whom, under which rules, and what was decided; from a TOML file.

    [decision]
    name = "Ada Lovelace"
    role = "data protection officer"
    date = 2026-03-01

    [columns]
    age = "asked for by the study plan"

Nothing here is ours: what is empty is printed as not stated, and no word of it is judged.
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
        "recipients": "who gets it",
        "purposes": "what they may do with it (projects)",
        "people": "who they are, and what they signed (people)",
        "environment": "where it is used (settings)",
        "licence": "licence or agreement",
        "outputs": "what may leave that place (outputs)",
    },
    "judgement": {
        "threshold": "how many alike are wanted",
        "registers": "which registers exist that have these columns",
        "acceptable_gain": "how much more may be guessed",
        "intruder_knows": "what an intruder really knows",
        "fit_for_purpose": "how accurate answers must be",
    },
}
"""What may be stated, by section and key, and how it is called on a page."""


@dataclass(frozen=True)
class StatedContext:
    """What a person states about a release."""

    statements: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    column_reasons: Mapping[str, str] = field(default_factory=dict)
    """Why each column is needed."""

    @classmethod
    def read(cls, path: Path, columns: Sequence[str] = ()) -> StatedContext:
        """Read a file; a section, key or column that nobody knows is refused, because it would be lost."""
        file_sections = read_toml(path, f"the context {str(path)!r}")
        allowed_keys = {**SECTIONS, COLUMNS: dict.fromkeys(columns, "")}
        statements: dict[str, dict[str, str]] = {}
        for section, entries in file_sections.items():
            _check(section, allowed_keys, "section of a context")
            if not isinstance(entries, Mapping):
                raise SpecError(f"{section!r} is a section of a context: write [{section}] above its lines.")
            for key in entries:
                _check(key, allowed_keys[section], f"{'column' if section == COLUMNS else 'key'} of [{section}]")
            statements[section] = {key: _format_entry(section, key, value) for key, value in entries.items()}
        column_reasons = statements.pop(COLUMNS, {})
        return cls(statements, column_reasons)

    def get_entry(self, section: str, key: str) -> str:
        """What was stated, or that it was not."""
        return self.statements.get(section, {}).get(key, "") or NOT_STATED

    def list_entries(self, section: str) -> list[tuple[str, str]]:
        """All that may be stated in a section, and what was."""
        return [(label, self.get_entry(section, key)) for key, label in SECTIONS[section].items()]

    @property
    def decider(self) -> str | None:
        """Who decides, if that was stated."""
        decision = self.statements.get("decision", {})
        return ", ".join(filter(None, (decision.get("name"), decision.get("role")))) or None

    def to_json(self) -> Json:
        """For machines."""
        return {
            **{name: dict(entries) for name, entries in self.statements.items()},
            COLUMNS: dict(self.column_reasons),
        }


def _check(name: str, allowed: Mapping[str, object], what: str) -> None:
    if name not in allowed:
        raise SpecError(f"{name!r} is no {what}; there are: {', '.join(allowed) or 'none'}.")


def _format_entry(section: str, key: str, value: object) -> str:
    """A sentence, a number or a day, as it is printed."""
    if not isinstance(value, str | int | float | date):
        raise SpecError(f"{key!r} of [{section}] is a text, a number or a date; write it in quotes.")
    text = str(value).strip()
    if len(text) > LONGEST:
        raise SpecError(f"{key!r} of [{section}] has more than {LONGEST:,} characters; say it shorter.")
    return text
