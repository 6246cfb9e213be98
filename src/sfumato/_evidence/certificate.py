"""The certificate of a release: one public sheet, and a second one if there are many columns.

The certificate is made from the release alone, and from what the publisher adds to its description. So the certificate
cannot contain private facts: no counts of the original, no exposure, no file names, and no time finer than a day.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
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
from sfumato._figures import ErrorCurve, Figure, draw_error_by_count
from sfumato._figures.error_by_count import describe_error
from sfumato._figures.number_format import format_count
from sfumato._query.release import Release
from sfumato._query.release_error_prediction import PredictedErrors, predict_errors
from sfumato._release.description import NO_DESCRIPTION, Description
from sfumato._release.manifest import Manifest
from sfumato._request.range_edges import Ranges
from sfumato._verify.check_results import Check
from sfumato._verify.file_checks import ACCEPTED, verify_folder
from sfumato.errors import ReleaseFormatError

TITLE = "Certificate of a protected release"
SHARES = (100, 10, 1000)
"""Errors are shown for values that one in this number of people has. The figure's text is about the first."""
COUNTS = (30, 100, 300, 1_000, 3_000, 10_000, 30_000, 100_000)
ANY_SHARE = "any share"
CURVE_SUBJECT, ANY_SUBJECT = "for a value that {} of the counted rows have", "for a value of {}"
TABLE_COUNTS = (100, 1_000, 10_000, 100_000)
MOST_COLUMNS = 12
"""The most columns that fit on one sheet with everything else. More columns have a sheet of their own."""
MOST_VALUES, MOST_PARTS = 6, 4
"""The most items that fit on one sheet; the release lists all."""
SIGNED_LINES = ("name", "role", "date", "signature")
ABOUT = ("title", "description")
DOMAIN_KEYS = ("domain", "domains")

LIMITS = (
    "Public columns are not protected. Public columns may identify a person, and nothing limits what they disclose "
    "about the protected column.",
    "The release does not hide who is in the table, nor facts about groups of people.",
    "A second release about the same people discloses more. If people have related values, as families do, the records "
    "of all of them disclose something about each.",
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
    description: Description = NO_DESCRIPTION
    """The description of the release, and what was added to it."""

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
    def accepted_risks(self) -> list[str]:
        """What the publisher accepted in spite of a warning, in sentences."""
        return self.manifest.accepted_risks.list_sentences(self.manifest.sensitive_name)

    @property
    def error_curves(self) -> list[ErrorCurve]:
        """The standard errors of counts by size, for values with some shares; empty if none is predicted."""
        return make_error_curves(self.predicted_errors)

    @property
    def limits(self) -> list[str]:
        """The limits of this kind of guarantee, and of every guarantee."""
        coverage = self.release.bound_coverage
        return [*([] if coverage is None else [coverage.sentence]), *list_uncovered(self.manifest)]

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
            "description": self.description.to_json(),
            "columns": [
                {"name": name, "type": kind, "role": role, "description": self.description.columns.get(name)}
                for name, kind, role in self.columns
            ],
            "accepted": self.accepted_risks,
            "checks": [{"name": check.name, "detail": check.detail} for check in self.checks],
            "not_checked": list(UNCHECKED),
            "relative_errors": curves,
            "coverage": None if self.release.bound_coverage is None else self.release.bound_coverage.to_json(),
            "not_covered": self.limits,
        }

    def document(self) -> Document:
        """Makes the document of the certificate, which is one sheet."""
        name = self.manifest.sensitive_name
        has_many_columns = len(self.columns) > MOST_COLUMNS
        statement = self.manifest.guarantee
        details = tuple(sentence for sentence in statement.details if sentence not in self.accepted_risks)
        left = (
            make_section("Design, exactly as published", self._make_design()),
            make_section("Columns", self._summarize_columns() if has_many_columns else self._make_columns()),
            make_section("Checks of the release's files; all passed", self._make_checks()),
        )
        right = (
            make_section("Error of a count", *self._list_errors()),
            make_section("Signed by", self._make_signature()),
        )
        sections: list[Section | SideBySide] = [
            self._make_release(),
            make_section("Guarantee", *list_guarantee_blocks(dataclasses.replace(statement, details=details))),
            make_section("What the publisher accepted", self._make_accepted_risks()),
            SideBySide(left, right),
            make_section("What is not covered", Items(tuple(self.limits))),
            make_section("What was not checked", Items(UNCHECKED)),
        ]
        if has_many_columns:
            heading = f"All {len(self.columns):,} columns"
            sections.append(make_section(heading, self._make_columns(), has_page_break=True))
        ending = (
            f"Made from the release alone, with sfumato {version('sfumato')}, on {self.issue_date.isoformat()}. The "
            f"release was made with sfumato {self.manifest.software}. Its digest (SHA-256 of its manifest, which "
            f"contains the digests of all its files): {format_digest(self.digest)}"
        )
        subtitle = f"A table in which {name!r} is protected; its numbers are about {self.manifest.population}"
        return Document(TITLE, subtitle, tuple(sections), ending, is_one_page=True)

    def _make_release(self) -> SideBySide:
        """Makes two columns: the statements of the publisher about the release, and the issuer with the date."""
        facts = self.description.list_facts()
        about = [fact for fact in facts if fact[0] in ABOUT]
        if not about:
            about = [("protected", self.manifest.sensitive_name)]
        issued = [fact for fact in facts if fact[0] not in ABOUT]
        issued.append(("date", self.issue_date.isoformat()))
        return SideBySide(
            (make_section("Release", Facts("", tuple(about))),), (make_section("Issue", Facts("", tuple(issued))),)
        )

    def _make_design(self) -> Facts:
        pairs = (("mechanism", self.manifest.mechanism_name), *self.design_facts)
        return Facts("", pairs)

    def _make_columns(self) -> DataTable:
        """Lists every column with its role, and with its meaning if any is described."""
        columns, meanings = self.columns, self.description.columns
        if not meanings:
            rows = tuple((shorten_name(name), kind, role) for name, kind, role in columns)
            return DataTable("Every column with its role", ("column", "type", "role"), rows, max_rows=len(rows))
        rows = tuple((shorten_name(name), role, meanings.get(name, "")) for name, _, role in columns)
        return DataTable("Every column with its role", ("column", "role", "meaning"), rows, max_rows=len(rows))

    def _summarize_columns(self) -> Facts:
        counts = Counter(role for _, _, role in self.columns)
        pairs = tuple((format_count(number, "column"), role) for role, number in counts.items())
        return Facts("Each column and its role: see the next sheet", pairs)

    def _make_accepted_risks(self) -> Items | Text:
        if self.accepted_risks:
            return Items(tuple(self.accepted_risks))
        details = [check.detail for check in self.checks if check.name == ACCEPTED]
        return Text(" ".join(detail[:1].upper() + detail[1:] for detail in details))

    def _make_signature(self) -> Decision:
        """Makes the lines for a signature: the name and role of `decider`, or blanks."""
        name, _, role = ("", "", "") if self.decider == DEFAULT_DECIDER else self.decider.partition(",")
        contents = (name.strip(), role.strip(), "", "")
        return Decision(True, self.decider, statements=tuple(zip(SIGNED_LINES, contents, strict=True)))

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
        caption = "Standard error in % of the count; columns: share of the counted rows that have the value"
        errors = self.predicted_errors
        assumption = (
            "Predicted from the design and the sizes of all groups of people with equal public columns. Counts of "
            "larger groups have smaller errors."
            if errors is not None and errors.has_crowds
            else "Predicted from the buckets, for a count with a condition that selects a small share of the records. "
            "The number of all people with a value is published exactly."
            if errors is not None and errors.is_share_independent
            else "Predicted from the design, as if all other values were equally frequent. About two of three counts "
            "have a smaller error."
        )
        return (
            Picture(partial(draw_certificate_curves, self.error_curves), NARROW_FIGURE),
            DataTable(caption, headings, rows, tuple(range(1, len(headings)))),
            Text(assumption, Tone.QUIET),
        )

    def _make_checks(self) -> Facts:
        stated = self.manifest.guarantee.details
        pairs = tuple(
            (check.name, check.detail)
            for check in self.checks
            if check.name != ACCEPTED and check.detail not in stated  # these stand above
        )
        return Facts("", pairs)


def make_certificate(
    release: str | Path,
    issue_date: date,
    decider: str = DEFAULT_DECIDER,
    describe: Description | str | Path | None = None,
) -> Certificate:
    """Verifies a release and makes its certificate; refuses if a check fails.

    `describe` adds what the description of the release lacks.
    """
    opened = Release.open(release)
    description = describe_release(opened, describe)
    verification = verify_folder(opened.folder)
    if failed_check := next((check for check in verification.checks if not check.has_passed), None):
        raise ReleaseFormatError(
            f"the release fails the check {failed_check.name!r}, so it gets no certificate: {failed_check.detail}",
            code="release-fails-check",
            fields={"check": failed_check.name},
        )
    return Certificate(opened, verification.checks, predict_errors(opened), issue_date, decider, description)


def describe_release(release: Release, describe: Description | str | Path | None) -> Description:
    """The description of a release, with what another one, or a file, adds."""
    added = describe if isinstance(describe, Description) else Description.read_optional(describe)
    added.check_columns(name for name, _, _ in list_column_roles(release.manifest))
    return release.manifest.description.add(added)


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
        shares = {ANY_SHARE: 1.0}
    return [
        ErrorCurve(name, tuple((count, errors.predict_error(count, share)) for count in COUNTS))
        for name, share in shares.items()
    ]


def draw_certificate_curves(curves: Sequence[ErrorCurve], width: float) -> Figure:
    """Draws the curves of `make_error_curves`."""
    subject = ANY_SUBJECT if curves[0].name == ANY_SHARE else CURVE_SUBJECT
    return draw_error_by_count(curves, width, subject=subject)


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
        elif key == "columns":  # of a coarse table
            yield name, ", ".join(value)
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
