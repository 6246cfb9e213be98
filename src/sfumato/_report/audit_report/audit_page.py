"""Makes the audit report from the evidence and the statements of a person: ten sections to file.

Private: it shows counts of the table and what attackers can learn about its people. It gives no verdict, and states
with every risk number what the number does not cover.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version

from sfumato._evidence.audit_dossier import Dossier
from sfumato._evidence.stated_context import NOT_STATED
from sfumato._figures.number_format import NOT_AVAILABLE
from sfumato._report.audit_report.risk_sections import (
    render_inference,
    render_intruder_test,
    render_linkability,
    render_singling_out,
)
from sfumato._report.audit_report.section_phrases import STATED_CAPTION
from sfumato._report.audit_report.summary_section import render_summary
from sfumato._report.audit_report.utility_section import render_utility
from sfumato._report.certificate import UNCHECKED, format_digest, list_column_roles, list_design_facts, list_uncovered
from sfumato._report.html_page import MOST_ROWS, Page, Section, render_facts, render_list, render_table, shorten_name
from sfumato._request.schema import NullPolicy

TITLE = "Evidence about a release"
NULL_TEXTS: Mapping[str, str] = {
    NullPolicy.VALUE: "missing protected values count as a value of their own",
    NullPolicy.ERROR: "the protected column has none",
    NullPolicy.DROP: "records without a protected value were dropped",
}


def make_audit_page(dossier: Dossier) -> Page:
    """Makes the page with its ten sections."""
    sections = [
        Section("0. Summary", render_summary(dossier), is_sheet=True),
        Section("1. Setting", _render_setting(dossier), has_page_break=True),
        Section("2. Columns", _render_columns(dossier)),
        Section("3. Singling out", render_singling_out(dossier)),
        Section("4. Linkability", render_linkability(dossier)),
        Section("5. Inference", render_inference(dossier), has_page_break=True),
        Section("6. Motivated intruder", render_intruder_test(dossier)),
        Section("7. Utility", render_utility(dossier), has_page_break=True),
        Section("8. Design", _render_design(dossier)),
        Section("9. Limits", _render_limits(dossier)),
    ]
    name = dossier.manifest.sensitive_name
    ending = (
        f"Made with sfumato {version('sfumato')} on {dossier.report_date.isoformat()}, from the release and its "
        f"original table. Tables are cut to {MOST_ROWS} rows or fewer; the JSON output of audit has all rows."
    )
    return Page(TITLE, f"A table in which {name!r} is protected", tuple(sections), ending, is_private=True)


def _render_setting(dossier: Dossier) -> str:
    return render_facts(STATED_CAPTION, dossier.context.list_entries("setting"))


def _render_columns(dossier: Dossier) -> str:
    manifest, column_reasons = dossier.manifest, dossier.context.column_reasons
    rows = [
        (shorten_name(name), kind, role, column_reasons.get(name, NOT_STATED))
        for name, kind, role in list_column_roles(manifest)
    ]
    rows += [(shorten_name(name), "", "dropped", "") for name in dossier.dropped_columns]
    origin = (
        "declared by the publisher" if manifest.is_declared else "from the table, so it discloses which values occur"
    )
    checks = {check.name: check.detail for check in dossier.verification.checks}
    dropped_text = (
        NOT_AVAILABLE
        if dossier.dropped_rows is None
        else f"{dossier.dropped_rows:,} rows of the table were not published"
    )
    fact_rows = [
        ("records", f"{dossier.release.rows:,} published; {dropped_text}"),
        ("missing values", NULL_TEXTS.get(manifest.nulls, manifest.nulls)),
        ("list of values", f"{len(manifest.domain):,} values, {origin}"),
        ("persons", checks.get("persons", NOT_AVAILABLE)),
        ("accepted", checks.get("accepted", NOT_AVAILABLE)),
    ]
    return render_table(
        "Each column and its role", ("column", "type", "technique", "why it is needed"), rows
    ) + render_facts("Records and values", fact_rows)


def _render_design(dossier: Dossier) -> str:
    manifest = dossier.manifest
    request_text = ", ".join(
        f"{key} {value}"
        for key, value in (dossier.remembered_request or {}).items()
        if value is not None and key != "schema"
    )
    fact_rows = [
        ("mechanism", manifest.mechanism_name),
        *list_design_facts(manifest),
        ("software", f"release by sfumato {manifest.software}, report by {version('sfumato')}"),
        ("digest", format_digest(dossier.digest)),
        ("request", request_text or "unknown, because no plan file was given"),
        (
            "key",
            "records were matched with people by the plan file"
            if dossier.remembered_request is not None
            else "no plan file was given",
        ),
        ("seed", "secret" if dossier.seed is None else str(dossier.seed)),
        ("command", dossier.command or NOT_STATED),
    ]
    rows = [
        (check.name, "passed" if check.has_passed else "FAILED", check.detail) for check in dossier.verification.checks
    ]
    return render_facts("The design, exactly as published", fact_rows) + render_table(
        "Verification", ("check", "result", "detail"), rows
    )


def _render_limits(dossier: Dossier) -> str:
    attack_limits = [
        "Only the listed attackers were run; an attacker who knows more may guess more. Their success holds for this "
        "release and the attacked people.",
        UNCHECKED[1],
    ]
    return render_list([*list_uncovered(dossier.manifest), *attack_limits])
