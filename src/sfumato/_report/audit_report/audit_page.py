"""The report about a release: ten sections that an officer files, from what was gathered and what a person states.

Private: it shows counts of the table and what can be learned about its people. It gives no verdict; beside every number
of a risk stands what the number does not cover.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version

from sfumato._evidence.audit_dossier import Dossier
from sfumato._evidence.stated_context import NOT_STATED
from sfumato._figures.number_format import NOT_TOLD
from sfumato._report.audit_report.risk_sections import (
    inference_section,
    intruder_section,
    linking_section,
    singling_section,
)
from sfumato._report.audit_report.shared_sections import STATED
from sfumato._report.audit_report.summary_section import summary_section
from sfumato._report.audit_report.utility_section import utility_section
from sfumato._report.certificate import UNCHECKED, column_roles, design_words, digest_in_parts, uncovered
from sfumato._report.html_page import MOST_ROWS, Page, Section, called, facts, listed, table
from sfumato._request.schema import NullPolicy

TITLE = "Evidence about a release"
MISSING: Mapping[str, str] = {
    NullPolicy.VALUE: "counted as a value of their own, where what is protected is missing",
    NullPolicy.ERROR: "there are none in what is protected",
    NullPolicy.DROP: "records without a value of what is protected are left out",
}


def report_page(found: Dossier) -> Page:
    """All ten sections."""
    sections = [
        Section("0. Summary", summary_section(found), is_sheet=True),
        Section("1. Setting", _setting(found), starts_page=True),
        Section("2. Columns", _columns(found)),
        Section("3. Singling out", singling_section(found)),
        Section("4. Linkability", linking_section(found)),
        Section("5. Inference", inference_section(found), starts_page=True),
        Section("6. Motivated intruder", intruder_section(found)),
        Section("7. Utility", utility_section(found), starts_page=True),
        Section("8. How it was made", _made(found)),
        Section("9. Limits", _limits(found)),
    ]
    name = found.manifest.sensitive_name
    ending = (
        f"Made with sfumato {version('sfumato')} on {found.on.isoformat()}, from the release and the table it was made "
        f"from. Tables are cut to {MOST_ROWS} rows or fewer; all rows are in the output of audit --json."
    )
    return Page(TITLE, f"A table in which {name!r} is protected", tuple(sections), ending, is_private=True)


def _setting(found: Dossier) -> str:
    return facts(STATED, found.context.entries("setting"))


def _columns(found: Dossier) -> str:
    manifest, needed = found.manifest, found.context.needed
    rows = [(called(name), kind, role, needed.get(name, NOT_STATED)) for name, kind, role in column_roles(manifest)]
    rows += [(called(name), "", "left out", "") for name in found.dropped]
    origin = "declared by the publisher" if manifest.is_declared else "taken from the table, so it tells which occur"
    checks = {each.name: each.detail for each in found.verification.checks}
    left = NOT_TOLD if found.left_out is None else f"{found.left_out:,} rows of the table were not published"
    known = [
        ("records", f"{found.release.rows:,} published; {left}"),
        ("missing values", MISSING.get(manifest.nulls, manifest.nulls)),
        ("list of values", f"{len(manifest.domain):,} values, {origin}"),
        ("persons", checks.get("persons", NOT_TOLD)),
        ("accepted", checks.get("accepted", NOT_TOLD)),
    ]
    return table(
        "Each column, and what became of it", ("column", "type", "technique", "why it is needed"), rows
    ) + facts("Records and values", known)


def _made(found: Dossier) -> str:
    manifest = found.manifest
    asked = ", ".join(
        f"{key} {value}" for key, value in (found.asked or {}).items() if value is not None and key != "schema"
    )
    known = [
        ("mechanism", manifest.mechanism_name),
        *design_words(manifest),
        ("software", f"release by sfumato {manifest.software}, report by {version('sfumato')}"),
        ("digest", digest_in_parts(found.digest)),
        ("request", asked or "the plan file was not given, which remembers it"),
        ("key", "the plan file told whose record is whose" if found.asked is not None else "no plan file was given"),
        ("seed", "secret" if found.seed is None else str(found.seed)),
        ("command", found.command or NOT_STATED),
    ]
    rows = [(each.name, "passed" if each.passed else "FAILED", each.detail) for each in found.verification.checks]
    return facts("The design, exactly as it is published", known) + table(
        "Verification", ("check", "result", "what was seen"), rows
    )


def _limits(found: Dossier) -> str:
    measured = [
        "Attackers are those that are named; somebody who knows more may guess more. What they find holds for this "
        "release, and for the people who were looked at.",
        UNCHECKED[1],
    ]
    return listed([*uncovered(found.manifest), *measured])
