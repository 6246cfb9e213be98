"""Makes the document of a journal, with its publications, the accepted stops, and its head. Private."""

from __future__ import annotations

from sfumato._core.json_types import JsonView
from sfumato._document.document import DataTable, Document, Facts, Items, Text, Tone, make_section
from sfumato._publish.journal import Journal, JournalEntry

SHORT_DIGEST = 12
"""The first characters of a digest, which are enough to recognise a release."""
HEADINGS = ("no.", "time (UTC)", "user", "target", "mechanism", "release", "outcome")
ABOUT = (
    "Note the head, and keep the note in another place. A later check with the noted head also finds that lines were "
    "removed from the end, which the file alone cannot show."
)


def make_journal_document(journal: Journal) -> Document:
    """Makes the document. If the chain is broken, it shows the publications before the first bad line."""
    rows = tuple(_make_row(entry) for entry in journal.entries)
    table = DataTable("", HEADINGS, rows, (0,), max_rows=max(len(rows), 1), max_screen_rows=max(len(rows), 1))
    accepted = tuple(
        f"Publication {entry.number}: {text}" for entry in journal.entries if (text := _describe_accepted(entry))
    )
    chain = "intact" if journal.is_intact else "broken"
    lines = len(journal.line_digests)
    facts = Facts("", (("chain", f"{chain}, {lines:,} line{'' if lines == 1 else 's'}"), ("head", journal.head)))
    sections = (
        make_section("Publications", Text("" if rows else "No publication was recorded."), table),
        make_section("Accepted stops", Items(accepted)),
        make_section("Is the journal intact?", facts, Text(journal.problem, Tone.STRONG), Text(ABOUT, Tone.QUIET)),
    )
    return Document(
        "A journal of publications",
        str(journal.path),
        tuple(section for section in sections if section.blocks),
        is_private=True,
    )


def _make_row(entry: JournalEntry) -> tuple[str, ...]:
    time = entry.time.replace("T", " ").removesuffix("Z")
    release = entry.release[:SHORT_DIGEST]
    return str(entry.number), time, entry.user, entry.target, entry.mechanism, release, entry.outcome


def _describe_accepted(entry: JournalEntry) -> str:
    """The accepted stops of a publication, by option. Empty if no stop was accepted."""
    return "; ".join(f"{name.replace('_', ' ')}: {_format(value)}" for name, value in entry.accepted.items() if value)


def _format(value: object) -> str:
    """An accepted stop in words: `yes`, a reason, or columns with their reasons."""
    if value is True:
        return "yes"
    if isinstance(value, dict):
        return _join(value)
    return ", ".join(map(_format, value)) if isinstance(value, list) else str(value)


def _join(reasons: JsonView) -> str:
    return ", ".join(f"{name} ({_format(reason)})" if reason else str(name) for name, reason in reasons.items())
