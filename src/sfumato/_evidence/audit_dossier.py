"""Gathers all facts for a report about a release, from the release and its original table. Private."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date
from fractions import Fraction
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato._core.array_types import Codes
from sfumato._core.cell_values import make_labels
from sfumato._core.json_types import Json, JsonView
from sfumato._document.document import Document
from sfumato._evidence.certificate import describe_release
from sfumato._evidence.own_questions import OwnAnswer, answer_own_questions
from sfumato._evidence.random_counts import Utility, measure_random_counts
from sfumato._evidence.singling_out import SinglingOut, measure_singling_out
from sfumato._planning.plan_file import PlanFile
from sfumato._query.release import Release
from sfumato._readers.read_options import DEFAULT_READ_OPTIONS, ReadOptions
from sfumato._readers.reader import AnyTable
from sfumato._records.column_codes import encode_batch_values
from sfumato._release.description import NO_DESCRIPTION, Description
from sfumato._release.manifest import Manifest
from sfumato._request.belief_bounds import PrivacySpec
from sfumato._request.hierarchy import Hierarchy
from sfumato._request.stated_context import StatedContext
from sfumato._risk.attackers.domain_places import find_domain_places
from sfumato._risk.attackers.record_linkage import list_public_columns
from sfumato._risk.attackers.release_attacks import Audit, audit
from sfumato._risk.attackers.release_matching import prepare_table
from sfumato._verify.against_original import BATCH_ROWS, open_original, verify
from sfumato._verify.check_results import Check, Verification
from sfumato.errors import ReleaseFormatError, SfumatoError

FILES_CHECK, PUBLIC_CHECK = "files", "public columns"
"""The checks that must pass before a report is made, about the release's files and its original table."""

Progress = Callable[[str, int, int | None], None]
"""A callback that gets a stage, its progress and its total."""


@dataclass(frozen=True)
class ProtectedValue:
    """One protected value, with its count and whether the bound covers the value."""

    name: str
    count: int
    limit: Fraction | None
    """The highest allowed confidence in the value; None if the design does not limit the confidence."""
    is_covered: bool


@dataclass(frozen=True)
class Dossier:
    """The evidence about a release, and the statements of a person. There is no verdict."""

    release: Release
    report_date: date
    verification: Verification
    audit: Audit
    singling_out: SinglingOut
    utility: Utility
    values: tuple[ProtectedValue, ...]
    """The protected values, most frequent first."""
    spec: PrivacySpec | None
    """The request, derived from the design."""
    dropped_rows: int | None
    """The number of rows that were not published; None if unknown."""
    dropped_columns: tuple[str, ...]
    """The columns that were not published."""
    remembered_request: JsonView | None = None
    """The request in the plan file, if a plan file was given."""
    context: StatedContext = field(default_factory=StatedContext)
    description: Description = NO_DESCRIPTION
    """The description of the release, and what was added to it."""
    own_answers: tuple[OwnAnswer, ...] = ()
    seed: int | None = None
    command: str = ""
    """The command of this report, if known."""

    @property
    def manifest(self) -> Manifest:
        """The manifest of the release."""
        return self.release.manifest

    @property
    def digest(self) -> str:
        """The digest of the release's manifest, which contains the digests of all its files."""
        return self.release.digest

    @property
    def failed_checks(self) -> list[Check]:
        """The checks that failed."""
        return [check for check in (*self.verification.checks, *self.audit.checks) if not check.has_passed]

    @property
    def is_met(self) -> bool:
        """Whether every check passed, so that the release is consistent with its manifest."""
        return not self.failed_checks

    def document(self) -> Document:
        """Makes the document of the audit. Private."""
        from sfumato._evidence.audit_document import make_audit_document  # noqa: PLC0415 - a cycle

        return make_audit_document(self)

    def to_json(self) -> Json:
        """The evidence as JSON: everything on the page, and the rows that the page omits."""
        manifest = self.manifest
        checks = [*self.verification.checks, *self.audit.checks]
        return {
            "date": self.report_date.isoformat(),
            "digest": self.digest,
            "description": self.description.to_json(),
            "software": manifest.software,
            "audited_with": version("sfumato"),
            "mechanism": manifest.mechanism_name,
            "guarantee": manifest.mechanism.guarantee,
            "statement": manifest.guarantee.to_json(),
            "design": manifest.design.to_json(),
            "request_met": self.is_met,
            "records": self.release.rows,
            "rows_left_out": self.dropped_rows,
            "columns_left_out": list(self.dropped_columns),
            "columns": [
                {"name": name, "type": kind, "role": role, "description": self.description.columns.get(name)}
                for name, kind, role in self.release.columns
            ],
            "checks": [{"name": item.name, "passed": item.has_passed, "detail": item.detail} for item in checks],
            "values": [
                {
                    "value": item.name,
                    "count": item.count,
                    "limit": None if item.limit is None else str(item.limit),
                    "is_covered": item.is_covered,
                }
                for item in self.values
            ],
            "singling_out": self.singling_out.to_json(),
            "audit": self.audit.to_json(),
            "utility": self.utility.to_json(),
            "questions": [item.to_json() for item in self.own_answers],
            "asked": dict(self.remembered_request or {}),
            "context": self.context.to_json(),
            "seed": self.seed,
        }


@dataclass(frozen=True, eq=False)
class _OriginalView:
    """The facts that the original table adds to the release."""

    table: pa.Table
    """The published rows of the original table, with ranges and groups as in the release, and with true values."""
    raw_columns: Mapping[str, Codes] | None
    """The public columns before they were recoded into ranges, if any were."""
    dropped_rows: int | None
    dropped_columns: tuple[str, ...]

    @classmethod
    def of(
        cls,
        release: Release,
        original: AnyTable,
        plan_file: str | Path | None,
        *,
        hierarchies: Mapping[str, Hierarchy | Path] | None,
        read: ReadOptions,
    ) -> _OriginalView:
        names, raw_columns = list_public_columns(release), None
        with open_original(release.folder, original, plan_file, read=read) as rows:
            table = prepare_table(release, rows, hierarchies)
            if any(name in release.manifest.ranges for name in names):
                raw_columns = {
                    name: _encode_column(rows.source.read_batches([name], BATCH_ROWS), name) for name in names
                }
            dropped_rows = None if rows.table_rows is None else rows.table_rows - table.num_rows
            columns = rows.source.schema.names
        published_names = (*names, *release.manifest.sensitive_columns)
        return cls(table, raw_columns, dropped_rows, tuple(name for name in columns if name not in published_names))


def audit_release(  # noqa: PLR0913 - a release, a table, and further facts
    release: str | Path,
    original: AnyTable,
    *,
    report_date: date,
    plan_file: str | Path | None = None,
    second: tuple[str | Path, str | Path | None] | None = None,
    population: AnyTable = None,
    context: Path | None = None,
    describe: Description | str | Path | None = None,
    questions: Sequence[str] = (),
    seed: int | None = None,
    command: str = "",
    hierarchies: Mapping[str, Hierarchy | Path] | None = None,
    read: ReadOptions = DEFAULT_READ_OPTIONS,
    progress: Progress = lambda stage, done, total: None,
) -> Dossier:
    """Gathers the evidence about a release. Refuses a release with changed files, and a table that is not its original.

    For a release that fails another check, the report names the failure. `second` is another release of the table with
    its plan file, `population` a register to link with, and `context` the statements of a person. `describe` adds what
    the description of the release lacks.
    """
    opened, original = Release.open(release), _make_rereadable(original)
    description = describe_release(opened, describe)
    names = list_public_columns(opened)
    table_options: dict[str, Any] = {"hierarchies": hierarchies, "read": read}
    stated_context = (
        StatedContext() if context is None else StatedContext.read(context, [column[0] for column in opened.columns])
    )
    remembered_request = None if plan_file is None else dict(PlanFile.read(Path(plan_file)).request_record.request)
    progress("verifying", 0, opened.rows)
    verification = verify(release, original, plan_file=plan_file, **table_options)
    check_original(verification)
    progress("verifying", opened.rows, opened.rows)
    original_view = _OriginalView.of(opened, original, plan_file, **table_options)
    singling_out = measure_singling_out(names, original_view.table, original_view.raw_columns)
    progress("comparing", opened.rows, opened.rows)
    comparability = opened.manifest.mechanism.comparability
    spec = None if comparability is None else comparability.read_request(opened.manifest.design)
    audit_result = audit(
        release,
        original,
        plan_file,
        second=second,
        population=population,
        spec=spec,
        seed=seed,
        table=original_view.table,
        progress=lambda done, total: progress("attacking", opened.rows * done // total, opened.rows),
        **table_options,
    )
    progress("asking", 0, opened.rows)
    utility = measure_random_counts(opened, original_view.table, names, seed)
    own_answers = answer_own_questions(
        opened, original_view.table, questions, lambda done, total: progress("questions", done, total)
    )
    progress("asking", opened.rows, opened.rows)
    return Dossier(
        release=opened,
        report_date=report_date,
        verification=verification,
        audit=audit_result,
        singling_out=singling_out,
        utility=utility,
        values=_list_protected_values(opened.manifest, original_view.table, spec),
        spec=spec,
        dropped_rows=original_view.dropped_rows,
        dropped_columns=original_view.dropped_columns,
        remembered_request=remembered_request,
        context=stated_context,
        description=description,
        own_answers=tuple(own_answers),
        seed=seed,
        command=command,
    )


def check_original(verification: Verification) -> None:
    """Refuses a release whose files were changed, and a table that is not its original, in one sentence."""
    for check in verification.checks:
        if check.name == FILES_CHECK and not check.has_passed:
            raise ReleaseFormatError(
                f"the release fails the check 'files': {check.detail}",
                code="release-fails-check",
                fields={"check": check.name},
            )
        if check.name == PUBLIC_CHECK and not check.has_passed:
            raise ReleaseFormatError(
                "the public columns of the table differ from those of the release, so this is another table, or the "
                "table has changed; name the original table, in its state when the release was made.",
                code="public-columns-differ",
            )


def _make_rereadable(original: AnyTable) -> AnyTable:
    """Opens a table so that it can be read more than once."""
    return original.read_all() if isinstance(original, pa.RecordBatchReader) else original


def _encode_column(batches: Iterable[pa.RecordBatch], name: str) -> Codes:
    """Encodes one column of a table by the positions of its values in the domain."""
    arrays = [batch.column(name) for batch in batches]
    return encode_batch_values(pa.chunked_array(arrays).combine_chunks())[0] if arrays else np.zeros(0, dtype=np.int64)


def _list_protected_values(manifest: Manifest, table: pa.Table, spec: PrivacySpec | None) -> tuple[ProtectedValue, ...]:
    """Lists each value, with its count and whether the bound covers it. Values above the prior are not covered."""
    counts = np.bincount(find_domain_places(manifest.naming, table), minlength=len(manifest.domain))
    limits: Sequence[Fraction | None] = [None] * len(counts)
    if spec is not None:
        with suppress(SfumatoError):
            limits = list(spec.list_limits(manifest.domain))
    prior = None if spec is None or spec.bound is None else spec.bound.prior
    total, names, protected_values = max(int(counts.sum()), 1), make_labels(manifest.domain), []
    for place in np.argsort(-counts, kind="stable").tolist():
        count, limit = int(counts[place]), limits[place]
        is_covered = limit is not None and limit < 1 and (prior is None or Fraction(count, total) <= prior)
        protected_values.append(ProtectedValue(names[place], count, limit, is_covered))
    return tuple(protected_values)
