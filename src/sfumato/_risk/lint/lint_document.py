"""The document of `lint`: the inspected tables, the problems to solve, and the notes, each with its remedy."""

from __future__ import annotations

from sfumato._document.document import Alert, Alerts, Document, Facts, Text, make_section
from sfumato._request.warnings import Grade
from sfumato._risk.lint.findings import Finding, LintReport


def make_lint_document(report: LintReport) -> Document:
    """Makes the document, with the problems first."""
    tables = Facts("", tuple((name, f"{rows:,} rows") for name, rows in report.tables.items()))
    findings = (*report.findings, *report.notes)
    alerts = Alerts(tuple(_make_alert(finding, names_file=len(report.tables) > 1) for finding in findings))
    counts = f"{_format_count(len(report.findings), 'finding')} and {_format_count(len(report.notes), 'note')}"
    ending = Text(f"{counts}; sfumato lint cannot find every problem")
    return Document("", "", (make_section("", tables, alerts, ending),))


def _make_alert(finding: Finding, *, names_file: bool) -> Alert:
    place = f" in {finding.file}" if names_file and finding.file else ""
    grade = Grade.NOTE if finding.is_note else Grade.STOP
    return Alert(grade, f"{finding.code}{place}: {finding.sentence}", (f"Remedy: {finding.remedy}",))


def _format_count(number: int, what: str) -> str:
    return f"no {what}" if not number else f"one {what}" if number == 1 else f"{number:,} {what}s"
