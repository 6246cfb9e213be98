"""Makes the document of an audit from the evidence and the statements of a person, with ten sections.

The document is private, because it shows counts from the table and what attackers can learn about its people. It gives
no verdict. Every risk number stands with a statement of what the number does not cover.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version

from sfumato._core.digests import format_digest
from sfumato._document.document import MOST_ROWS, Block, DataTable, Document, Facts, Items, make_section
from sfumato._document.html_markup import shorten_name
from sfumato._evidence.audit_document.risk_sections import (
    list_inference,
    list_intruder_test,
    list_linkability,
    list_singling_out,
)
from sfumato._evidence.audit_document.section_phrases import STATED_CAPTION
from sfumato._evidence.audit_document.summary_section import list_summary
from sfumato._evidence.audit_document.utility_section import list_utility
from sfumato._evidence.audit_dossier import Dossier
from sfumato._evidence.certificate import UNCHECKED, list_column_roles, list_design_facts, list_uncovered
from sfumato._figures.number_format import NOT_AVAILABLE
from sfumato._request.schema import NullPolicy
from sfumato._request.stated_context import NOT_STATED
from sfumato._verify.check_results import make_checks

TITLE = "Evidence about a release"
NULL_TEXTS: Mapping[str, str] = {
    NullPolicy.VALUE: "missing values of the protected column are a value of their own",
    NullPolicy.ERROR: "the protected column has no missing values",
    NullPolicy.DROP: "records without a protected value were dropped",
}


def make_audit_document(dossier: Dossier) -> Document:
    """Makes the document with its ten sections."""
    sections = [
        make_section("0. Summary", *list_summary(dossier), is_sheet=True),
        make_section("1. Setting", _make_setting(dossier), has_page_break=True, is_page_only=True),
        make_section("2. Columns", *_list_columns(dossier), is_page_only=True),
        make_section("3. Singling out", *list_singling_out(dossier), is_page_only=True),
        make_section("4. Linkability", *list_linkability(dossier), is_page_only=True),
        make_section("5. Inference", *list_inference(dossier), has_page_break=True, is_page_only=True),
        make_section("6. Motivated intruder", *list_intruder_test(dossier), is_page_only=True),
        make_section("7. Utility", *list_utility(dossier), has_page_break=True, is_page_only=True),
        make_section("8. Design", *_list_design(dossier), is_page_only=True),
        make_section("9. Limits", _list_limits(dossier), is_page_only=True),
    ]
    name = dossier.manifest.sensitive_name
    ending = (
        f"Made with sfumato {version('sfumato')} on {dossier.report_date.isoformat()}, from the release and its "
        f"original table. Tables show at most {MOST_ROWS} rows; the JSON output of audit has all rows."
    )
    return Document(TITLE, f"A table in which {name!r} is protected", tuple(sections), ending, is_private=True)


def _make_setting(dossier: Dossier) -> Facts:
    return Facts(STATED_CAPTION, tuple(dossier.context.list_entries("setting")))


def _list_columns(dossier: Dossier) -> tuple[Block, ...]:
    manifest, column_reasons = dossier.manifest, dossier.context.column_reasons
    meanings = dossier.description.columns
    rows = [
        (shorten_name(name), kind, role, meanings.get(name, NOT_STATED), column_reasons.get(name, NOT_STATED))
        for name, kind, role in list_column_roles(manifest)
    ]
    rows += [(shorten_name(name), "", "dropped", "", "") for name in dossier.dropped_columns]
    origin = (
        "declared by the publisher"
        if manifest.is_declared
        else "from the table, so the list discloses which values occur"
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
    headings = ("column", "type", "technique", "meaning", "why it is needed")
    table = DataTable("Each column and its role", headings, tuple(rows))
    return table, Facts("Records and values", tuple(fact_rows))


def _list_design(dossier: Dossier) -> tuple[Block, ...]:
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
    checks = make_checks("Verification", dossier.verification.checks)
    return Facts("The design, exactly as published", tuple(fact_rows)), checks


def _list_limits(dossier: Dossier) -> Items:
    attack_limits = [
        "Only the listed attackers were run; an attacker who knows more may guess more values. The measured success "
        "is for this release and the attacked people.",
        UNCHECKED[1],
    ]
    return Items((*list_uncovered(dossier.manifest), *attack_limits))
