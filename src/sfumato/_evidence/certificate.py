"""Makes the certificate of a release, which is one public sheet.

The certificate is made from the release alone, so it contains no private facts: no counts from the original table, no
exposure, no file names, and no time finer than a day.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from fractions import Fraction
from functools import partial
from importlib.metadata import version
from pathlib import Path

from sfumato._core.cell_values import format_values
from sfumato._core.digests import format_digest
from sfumato._core.json_types import Json, JsonView
from sfumato._document.document import (
    DEFAULT_DECIDER,
    Block,
    DataTable,
    Decision,
    Document,
    Facts,
    Heading,
    Items,
    Picture,
    Section,
    SideBySide,
    Text,
    Tone,
    list_guarantee_blocks,
    make_section,
)
from sfumato._document.html_document import NARROW_FIGURE
from sfumato._document.html_markup import shorten_name
from sfumato._figures import ErrorCurve, draw_error_by_count
from sfumato._figures.error_by_count import describe_error
from sfumato._query.release import Release
from sfumato._query.release_error_prediction import PredictedErrors, predict_errors
from sfumato._release.manifest import Manifest
from sfumato._request.schema import Ranges
from sfumato._verify.check_results import Check
from sfumato._verify.file_checks import verify_folder
from sfumato.errors import ReleaseFormatError

TITLE = "Certificate of a protected release"
SHARES = (100, 10, 1000)
"""Errors are shown for values that one in this number of people has. The figure's text is about the first."""
COUNTS = (30, 100, 300, 1_000, 3_000, 10_000, 30_000, 100_000)
CURVE_PREFIX = "for a value of"
TABLE_COUNTS = (100, 1_000, 10_000, 100_000)
MOST_COLUMNS, MOST_VALUES, MOST_PARTS = 9, 6, 4
"""The most items that fit on one sheet. The release lists all of them."""
DOMAIN_KEYS = ("domain", "domains")

LIMITS = (
    "Public columns are not protected. Public columns may identify a person, and nothing limits what they disclose "
    "about the protected column.",
    "The release does not hide who is in the table, nor facts about groups of people.",
    "A second release about the same people discloses more. So do people with related values, such as families.",
)
UNCHECKED = (
    "The original table was not read. With this table, the data steward can verify the public columns and the counts "
    "of each value.",
    "Digests detect accidents, not forgery. Only a signature shows who made the release.",
)


@dataclass(frozen=True)
class Certificate:
    """The public facts about a verified release."""

    release: Release
    checks: tuple[Check, ...]
    predicted_errors: PredictedErrors | None
    issue_date: date
    decider: str = DEFAULT_DECIDER

    @property
    def manifest(self) -> Manifest:
        """The manifest of the release."""
        return self.release.manifest

    @property
    def digest(self) -> str:
        """The digest of the release's manifest, which contains the digests of all its files."""
        return self.release.digest

    @property
    def design_facts(self) -> list[tuple[str, str]]:
        """The exact numbers of the design, with their names."""
        return list_design_facts(self.manifest)

    @property
    def columns(self) -> list[tuple[str, str, str]]:
        """Each column with its type and role, protected columns first."""
        return list_column_roles(self.manifest)

    @property
    def error_curves(self) -> list[ErrorCurve]:
        """The standard errors of counts by size, for values with some shares; empty if none is predicted."""
        return make_error_curves(self.predicted_errors)

    @property
    def limits(self) -> list[str]:
        """The limits of this kind of guarantee, and of every guarantee."""
        return list_uncovered(self.manifest)

    def to_json(self) -> Json:
        """The certificate as JSON."""
        manifest = self.manifest
        curves = [{"of": check.name, "errors": [list(pair) for pair in check.errors]} for check in self.error_curves]
        return {
            "date": self.issue_date.isoformat(),
            "digest": self.digest,
            "software": manifest.software,
            "certified_with": version("sfumato"),
            "mechanism": manifest.mechanism_name,
            "guarantee": manifest.mechanism.guarantee,
            "statement": manifest.guarantee.to_json(),
            "population": str(manifest.population),
            "design": manifest.design.to_json(),
            "columns": [{"name": name, "type": kind, "role": role} for name, kind, role in self.columns],
            "checks": [{"name": check.name, "detail": check.detail} for check in self.checks],
            "not_checked": list(UNCHECKED),
            "relative_errors": curves,
            "not_covered": self.limits,
        }

    def document(self) -> Document:
        """Makes the document of the certificate, which is one sheet."""
        name = self.manifest.sensitive_name
        side_sections = SideBySide(
            (make_section("Design", *self._list_design()), make_section("Checks", self._list_checks())),
            (
                make_section("Error of a count", *self._list_errors()),
                make_section(
                    "What is not covered",
                    Items(tuple(self.limits)),
                    Heading("What was not checked"),
                    Items(UNCHECKED),
                ),
            ),
        )
        sections: tuple[Section | SideBySide, ...] = (
            make_section("Guarantee", *list_guarantee_blocks(self.manifest.guarantee)),
            side_sections,
            make_section("Decision", Decision(True, self.decider)),
        )
        ending = (
            f"Made from the release alone, with sfumato {version('sfumato')}, on {self.issue_date.isoformat()}. The "
            f"release was made with sfumato {self.manifest.software}. Its digest (SHA-256 of its manifest, which "
            f"contains the digests of all its files): {format_digest(self.digest)}"
        )
        subtitle = f"A table in which {name!r} is protected. Its numbers are for {self.manifest.population}"
        return Document(TITLE, subtitle, sections, ending, is_one_page=True)

    def _list_design(self) -> tuple[Block, ...]:
        pairs = (("mechanism", self.manifest.mechanism_name), *self.design_facts)
        columns = self.columns
        rows = [(shorten_name(name), kind, role) for name, kind, role in columns[:MOST_COLUMNS]]
        if len(columns) > MOST_COLUMNS:
            rows.append((f"and {len(columns) - MOST_COLUMNS:,} more", "", "public; the release lists all columns"))
        return (
            Facts("The design, exactly as published", pairs),
            DataTable("Columns and their roles", ("column", "type", "role"), tuple(rows)),
        )

    def _list_errors(self) -> tuple[Block, ...]:
        if not self.error_curves:
            return (Text("The error of a count depends on more than the design. Every answer states its own error."),)
        # Frequent values come first in the table. In the figure, the curve that the text describes comes first.
        curves = sorted(self.error_curves, key=lambda curve: curve.errors[0][1] or 0.0)
        rows = tuple(
            (f"{count:,}", *(describe_error(dict(curve.errors)[count] or 0.0) for curve in curves))
            for count in TABLE_COUNTS
        )
        headings = ("count", *(curve.name for curve in curves))
        caption = f"Standard error in % of the count, {CURVE_PREFIX} this share of the counted rows"
        assumption = (
            "Predicted from the buckets, for a count with a condition that selects a small share of the records. The "
            "number of all people with a value is published exactly."
            if self.predicted_errors is not None and self.predicted_errors.is_share_independent
            else "Predicted from the design alone, with equally frequent other values. About two of three counts are "
            "within one standard error of the truth."
        )
        draw = partial(draw_error_by_count, self.error_curves, name_prefix=CURVE_PREFIX)
        return (
            Picture(draw, NARROW_FIGURE),
            DataTable(caption, headings, rows, tuple(range(1, len(headings)))),
            Text(assumption, Tone.QUIET),
        )

    def _list_checks(self) -> Facts:
        pairs = tuple((check.name, check.detail) for check in self.checks)
        return Facts("Checks of the release's files; all passed", pairs)


def make_certificate(release: str | Path, issue_date: date, decider: str = DEFAULT_DECIDER) -> Certificate:
    """Verifies a release and makes its certificate; refuses if a check fails."""
    opened = Release.open(release)
    verification = verify_folder(opened.folder)
    if failed_check := next((check for check in verification.checks if not check.has_passed), None):
        raise ReleaseFormatError(
            f"the release fails the check {failed_check.name!r}, so it gets no certificate: {failed_check.detail}",
            code="release-fails-check",
            fields={"check": failed_check.name},
        )
    return Certificate(opened, verification.checks, predict_errors(opened), issue_date, decider)


def list_design_facts(manifest: Manifest) -> list[tuple[str, str]]:
    """The exact numbers of a design, with their names."""
    design_json = manifest.design.to_json()
    published_design = {key: value for key, value in design_json.items() if key not in DOMAIN_KEYS}
    origin = "declared by the publisher" if manifest.is_declared else "taken from the table"
    values = f"{len(manifest.domain):,}, {origin}: {format_values(manifest.domain, MOST_VALUES)}"
    return [("values", values), *_list_numbers(published_design)]


def list_column_roles(manifest: Manifest) -> list[tuple[str, str, str]]:
    """Lists each column with its type and role, protected columns first."""
    protected = f"protected by {manifest.mechanism_name}"
    field_names = {field.name for field in manifest.fields}
    # The types of the values, not of sets as bits.
    kinds = dict(zip(manifest.sensitive_columns, manifest.sensitive_types, strict=True))
    column_rows = [(name, kind, protected) for name, kind in kinds.items() if name not in field_names]
    for field in manifest.fields:
        role = "public, unchanged" if field.name in manifest.public_columns else protected
        if field.name == manifest.cell_column:
            role = "sub-table of the record"
        if field.name in manifest.ranges:
            role = f"public, in {len(Ranges(manifest.ranges[field.name]).labels):,} ranges"
        if level := manifest.published_levels.get(field.name):
            role += f", at the level {level}"
        column_rows.append((field.name, kinds.get(field.name, field.type), role))
    return sorted(column_rows, key=lambda column_row: column_row[0] in manifest.public_columns)


def make_error_curves(errors: PredictedErrors | None) -> list[ErrorCurve]:
    """Predicts the standard errors of counts by size, for values with some shares.

    Empty if a release predicts no errors.
    """
    if errors is None:
        return []
    shares = {f"1 in {share:,}": 1 / share for share in SHARES}
    if errors.is_share_independent:
        shares = {"any share": 1.0}
    return [
        ErrorCurve(name, tuple((count, errors.predict_error(count, share)) for count in COUNTS))
        for name, share in shares.items()
    ]


def list_uncovered(manifest: Manifest) -> list[str]:
    """Lists the limits of this kind of guarantee, and of every guarantee."""
    guarantee = manifest.mechanism.guarantee
    return [guarantee.limit, *LIMITS]


def _list_numbers(entries: JsonView) -> Iterator[tuple[str, str]]:
    """Each number with its name, exactly as published and as a decimal."""
    for key, value in entries.items():
        name = key.replace("_", " ")
        if isinstance(value, list) and value and isinstance(value[0], Mapping):
            for number, part in enumerate(value[:MOST_PARTS], start=1):
                yield (
                    f"{name}, {number}",
                    "; ".join(f"{label} {number_text}" for label, number_text in _list_numbers(part)),
                )
            if len(value) > MOST_PARTS:
                yield name, f"and {len(value) - MOST_PARTS:,} more, listed in the release"
        elif isinstance(value, list):
            fractions = sorted({Fraction(item) for item in value if isinstance(item, str | int)})
            if fractions and isinstance(value[0], str | None):
                ends = (
                    _format_exactly(str(fractions[0]))
                    if len(fractions) == 1
                    else f"{_format_exactly(str(fractions[0]))} to {fractions[-1]}"
                )
                yield name, ends if len(value) == 1 else f"{ends} ({len(value):,} numbers, listed in the release)"
            else:
                yield name, f"{len(value):,} numbers, listed in the release"
        else:
            yield name, _format_exactly(str(value))


def _format_exactly(number: str) -> str:
    """Formats a number as published; a fraction is shown as a decimal too."""
    return f"{number} = {float(Fraction(number)):.6g}" if "/" in number else number
