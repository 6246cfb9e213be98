"""Publishes a table in two passes. The result is a complete release, or nothing."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

from sfumato._core.cell_values import find_field_type, format_value_count, split_value
from sfumato._core.random_draws import Draws
from sfumato._core.software_version import read_software_version
from sfumato._document.document import Alerts, Document, Section
from sfumato._document.notebook_document import render_notebook
from sfumato._engines.engine import Engine
from sfumato._engines.shuffle import Layout
from sfumato._engines.spark_engine import choose_engine
from sfumato._parquet.parquet_writer import write_table
from sfumato._perturb.count_table import make_count_tables
from sfumato._perturb.crowd_counts import Crowds, find_crowds
from sfumato._perturb.perturbation import Rewrite
from sfumato._perturb.record_writer import write_records
from sfumato._planning.plan_file import PlanFile, claim_plan_file
from sfumato._profile.equivalence_classes import Uniqueness
from sfumato._profile.table_scan import TableScan
from sfumato._publish.exposure_section import make_exposure_section
from sfumato._publish.journal_writer import claim_journal, make_entry
from sfumato._publish.plan_notices import list_notice_codes
from sfumato._publish.planning_draws import compute_first_digest
from sfumato._publish.publication_plan import (
    check_decided,
    check_publishable,
    make_publication_plan,
    open_table,
    survey_table,
)
from sfumato._publish.request import Request
from sfumato._query.release import Release
from sfumato._records import SideTable
from sfumato._records.column_codes import Field, SensitiveColumns, convert_to_arrow
from sfumato._release.csv_copies import write_copy
from sfumato._release.description import NO_DESCRIPTION, Description
from sfumato._release.destinations import Destination, make_destination
from sfumato._release.manifest import MANIFEST, README, VALUE_WEIGHTS, WEIGHTS, Manifest
from sfumato._release.manifest_reader import parse_manifest, read_digest
from sfumato._release.readme import make_readme
from sfumato._release.release_folder import pack
from sfumato._release.staging import check_private_file, make_staging_folder, remove_stale, sync
from sfumato._request.warnings import Notice, NoticeWarning, check_codes, check_notices
from sfumato._risk.attackers.attack_result import Attack
from sfumato._verify.file_checks import FITNESS, verify_folder
from sfumato.errors import (
    EngineError,
    InternalError,
    SfumatoError,
    SourceError,
    SpecError,
    TargetError,
    explain_os_error,
)


@dataclass(frozen=True, repr=False)
class Publication:
    """A written release, with the advice for its data steward. Everything except the release is private."""

    release: Release
    notices: tuple[Notice, ...]
    exposures: tuple[Attack, ...]
    uniqueness: Uniqueness
    journal_head: str | None = None
    """The digest of the journal's last line, to be noted elsewhere. None without a journal."""

    def __repr__(self) -> str:
        return f"Publication({self.release!r}, {format_value_count(self.notices, 'notice')}; private)"

    def _repr_html_(self) -> str:
        """The HTML form for a notebook, marked as private."""
        return render_notebook(self.document())

    def document(self) -> Document:
        """Makes the document of the publication: the release, and the advice for its data steward. Private."""
        document = self.release.document().add_sections([make_exposure_section(self.exposures, self.uniqueness)])
        return replace(document.add_sections([Section("", (Alerts.of(self.notices),))]), is_private=True)


KEY_NOT_KEPT = Notice(
    "key-not-kept",
    "The key of this release was not kept. Publishing the table again creates an independent second release; "
    "together, the two releases disclose more than the guarantee of one allows. To be able to repeat a release, name "
    "a file that "
    "only you can read "
    "(`plan_file='FILE'`).",
)


def _warn(notice: Notice) -> None:
    warnings.warn(NoticeWarning(notice), stacklevel=4)  # the warning names the caller's line


def publish(  # noqa: PLR0913 - one argument for each decision of the data steward
    request: Request,
    out: str | Path,
    *,
    force: bool = False,
    plan_file: str | Path | None = None,
    unsafe_test_key: str | None = None,
    engine: Engine | None = None,
    on_notice: Callable[[Notice], None] = _warn,
    fail_on: Collection[str] = (),
    as_csv: bool = False,
    describe: Description | str | Path | None = None,
    journal: str | Path | None = None,
) -> Publication:
    """Publish a table. Either a complete release appears at `out`, or nothing.

    Passes notices to `on_notice` after the first pass, before anything is published; by default they become Python
    warnings. A notice whose code is in `fail_on` stops the publication. With `as_csv`, each table is also written as
    CSV, beside its Parquet file. `describe` is the description of the release, or the name of a TOML file that holds
    it. `journal` is a private file that records each publication.
    """
    check_codes(fail_on, list_notice_codes())
    description = describe if isinstance(describe, Description) else Description.read_optional(describe)
    target, engine = make_destination(out), engine or choose_engine(request.table)
    remove_stale(target.local_path)  # first, because opening the target may restore an old release
    plan_path, journal_path = (None if path is None else Path(path) for path in (plan_file, journal))
    try:
        target.check(force=force)
        _check_private_files(plan_path, journal_path, target.local_path)
        with (
            claim_plan_file(plan_path) as claim,
            claim_journal(journal_path) as journal_claim,
            make_staging_folder(target.local_path) as folder,
        ):
            source = open_table(request, folder, engine)
            # A plan file must recognise the table's content later, even if the table was moved.
            compute_digest = partial(source.compute_fingerprint, engine.map_items, is_content=plan_path is not None)
            fingerprint, repeated_plan = compute_first_digest(compute_digest), claim.repeated_plan
            if repeated_plan is not None:
                repeated_plan.check(fingerprint, request.to_record())
            key = _choose_draws(repeated_plan, unsafe_test_key)
            # A kept key is bound to the content of its table. A fresh key is used once, so no content is read.
            request_record = request.to_record() if repeated_plan is None else repeated_plan.request_record
            draws = key if plan_path is None else request_record.bind(key, fingerprint)
            original_request = request  # the request as given, before rare values were merged
            check_decided(request, source.schema.names)
            request, survey = survey_table(request, source, engine, folder, draws, keeps=True)
            repeated_mechanism = repeated_plan.mechanism if repeated_plan else None
            publication_plan = make_publication_plan(request, survey, draws, repeated_mechanism)
            chosen = publication_plan.choice
            counts = chosen.histogram.counts
            rewrite = Rewrite(survey.columns, survey.sensitive, chosen.mechanism, chosen.plan, counts, draws)
            if repeated_plan is not None:
                repeated_plan.check_plan(chosen.digest)
            is_key_lost = plan_path is None and unsafe_test_key is None
            open_notices = [notice for notice in publication_plan.notices if notice not in publication_plan.stops]
            notices = (*open_notices, *([KEY_NOT_KEPT] if is_key_lost else []))
            _report_notices(notices, on_notice, fail_on)
            check_publishable(request, publication_plan)
            rewrite.encoding.check(survey.sensitive)
            _check_packable(target, survey)
            built_folder = folder / "release"
            with _guard_against_change(compute_digest, fingerprint) as check_unchanged:
                build = partial(build_release, description=description, as_csv=as_csv, on_read=check_unchanged)
                build(built_folder, request, survey, rewrite, engine=engine)
            built_release = _pack_release(built_folder) if target.is_packed else built_folder
            name, people = chosen.mechanism.name, original_request.schema.person_settings
            new_plan = PlanFile(key, fingerprint, request_record, name, chosen.digest, person_settings=people)
            is_published = target.make_published_check(built_release)
            claim.write(new_plan, is_published)
            entry = make_entry(original_request, out, read_digest(built_folder), name)
            with journal_claim.record(entry, is_published):
                target.place(built_release, folder, engine.progress, force=force)
    except OSError as error:
        raise TargetError(
            f"the release cannot be written to {str(target)!r}: {explain_os_error(error)}.",
            code="unwritable-file",
            fields={"file": str(target), "reason": explain_os_error(error)},
        ) from error
    return Publication(Release.open(out), notices, publication_plan.exposures, survey.uniqueness, journal_claim.head)


def _check_private_files(plan_path: Path | None, journal_path: Path | None, target: Path) -> None:
    """Refuse a plan file or journal inside the release, and the same file for both."""
    check_private_file(plan_path, target, "the plan file")
    check_private_file(journal_path, target, "the journal")
    if plan_path is not None and journal_path is not None and plan_path.resolve() == journal_path.resolve():
        raise TargetError(
            "the plan file and the journal must be two files; name another journal (`journal='FILE'`).",
            code="same-file",
            fields={"file": str(journal_path)},
        )


def build_release(  # noqa: PLR0913 - the parts of a publication
    folder: Path,
    request: Request,
    survey: TableScan,
    rewrite: Rewrite,
    *,
    engine: Engine,
    description: Description = NO_DESCRIPTION,
    as_csv: bool = False,
    on_read: Callable[[], None] = lambda: None,
) -> None:
    """Protect all records, and write a verified release into a new folder.

    `on_read` is called after the last record was read.
    """
    folder.mkdir()
    manifest = _make_manifest(request, survey, rewrite, description)
    crowds = find_crowds(engine, survey, rewrite.mechanism, rewrite.plan)
    if crowds is not None:
        rewrite = replace(rewrite, crowd_index=crowds.index)
    written_records = write_records(
        engine,
        survey,
        rewrite,
        folder,
        side_tables=_make_side_tables(rewrite, manifest, crowds),
        people_in_crowds=0 if crowds is None else crowds.total,
        on_read=on_read,
    )
    manifest = replace(manifest, file_rows=written_records.rows, has_copies=as_csv)
    _describe(folder, manifest, survey, engine, written_records.digests)


def _report_notices(
    notices: Sequence[Notice], on_notice: Callable[[Notice], None], fatal_codes: Collection[str]
) -> None:
    """Passes each notice to the caller, and then stops if one of the notices is fatal."""
    for notice in notices:
        on_notice(notice)
    check_notices(notices, fatal_codes)


def _make_side_tables(rewrite: Rewrite, manifest: Manifest, crowds: Crowds | None) -> list[SideTable]:
    """The tables of counts, or the values of each bucket, for mechanisms that publish crowds or buckets."""
    if crowds is not None:
        return make_count_tables(crowds, rewrite)
    bucket_table = rewrite.mechanism.bucket_table
    if bucket_table is None:
        return []
    contents = bucket_table.list_contents(rewrite.plan)
    side_table = rewrite.encoding.make_side_table(rewrite.sensitive, manifest.naming, contents)
    return [] if side_table is None else [side_table]


def _choose_draws(repeated_plan: PlanFile | None, test_key: str | None) -> Draws:
    """The key of the plan file if there is one, otherwise the test key if given, otherwise a fresh secret."""
    test_draws = Draws.unsafe_test_key(test_key) if test_key is not None else None
    if repeated_plan is None:
        return test_draws or Draws.from_fresh_key()
    if test_draws is not None and test_draws != repeated_plan.draws:
        raise SpecError("the plan file holds another key than the test key; use only one of the two.", code="two-keys")
    return repeated_plan.draws


@contextmanager
def _guard_against_change(compute_digest: Callable[[], str], fingerprint: str) -> Iterator[Callable[[], None]]:
    """Refuse a table that changed before it was read again. Checked after the second reading, and after any error."""

    def check_unchanged() -> None:
        if _has_changed(compute_digest, fingerprint):
            raise SourceError(
                "the table changed while it was read; publish the table when no other program writes to it.",
                code="table-changed",
            )

    try:
        yield check_unchanged
    except SfumatoError:
        raise
    except Exception:
        check_unchanged()  # the change may be the reason for the error
        raise


def _has_changed(compute_digest: Callable[[], str], fingerprint: str) -> bool:
    try:
        return compute_digest() != fingerprint
    except (OSError, EngineError):
        return True  # the table no longer exists


def _check_packable(target: Destination, survey: TableScan) -> None:
    if target.is_packed and (files := Layout.of(survey.histogram.total).files) > 1:
        raise TargetError(
            f"{survey.histogram.total:,} records are published in {files} files, and these cannot be packed into one "
            ".zip; name a directory instead.",
            code="too-many-files-for-zip",
            fields={"files": files, "records": survey.histogram.total},
        )


def _pack_release(folder: Path) -> Path:
    """The release as a single file."""
    zip_path = folder.with_suffix(".zip")
    pack(folder, zip_path)
    return zip_path


def _describe(folder: Path, manifest: Manifest, survey: TableScan, engine: Engine, digests: Mapping[str, str]) -> None:
    """Write every file except the data, and verify the whole release before it appears.

    The digests are computed from the data before they are written. The verification reads the written files.
    """
    if manifest.domain != survey.histogram.values:
        raise InternalError("the design differs from the requested one. Please report this.", code="design-differs")
    if manifest.weights is not None:
        write_weights(manifest, survey.sensitive, folder / WEIGHTS)
    for name, tables in manifest.copies.items():
        write_copy(tuple(folder / table for table in tables), folder / name, manifest.encoding, manifest.naming)
    # Computed from the manifest in the form in which it is read, so that `verify` gets the same result.
    published = parse_manifest(manifest.to_json(folder, known_digests=dict.fromkeys(manifest.files, "")))
    release = Release(folder, published, folder)
    coverage = release.bound_coverage
    sentence = "" if coverage is None else coverage.sentence
    readme = make_readme(published, survey.histogram.total, sentence, people_in_counts=release.people_in_counts)
    (folder / README).write_bytes(readme.encode())
    manifest_text = json.dumps(
        manifest.to_json(folder, engine.map_items, digests), indent=2, ensure_ascii=False, allow_nan=False
    )
    (folder / MANIFEST).write_text(manifest_text + "\n", encoding="utf-8")
    with ThreadPoolExecutor(1) as executor:
        disk_sync = executor.submit(sync, *(folder / name for name in digests))  # waits only for the disk
        verification = verify_folder(folder, engine.map_items, own_release=release)
        disk_sync.result()
    for check in verification.checks:
        if not check.has_passed and check.name != FITNESS:
            raise InternalError(
                f"the release failed its own check of {check.name}: {check.detail} Please report this.",
                code="release-fails-check",
                fields={"check": check.name},
            )


def _make_manifest(request: Request, survey: TableScan, rewrite: Rewrite, description: Description) -> Manifest:
    hierarchy = survey.histogram.hierarchy
    manifest = Manifest(
        mechanism_name=rewrite.mechanism.name,
        sensitive_columns=request.schema.sensitive_columns,
        sensitive_types=tuple(find_field_type(part.type) or "" for part in survey.sensitive.parts),
        fields=tuple(map(Field.of, rewrite.published_columns)),
        design=rewrite.mechanism.make_design(rewrite.plan),
        is_declared=request.schema.is_declared,
        ranges={name: bins.edges for name, bins in request.schema.ranges.items() if name in survey.preparation.columns},
        merged_values=request.schema.merged_values,
        person_check=survey.persons,
        accepted_risks=request.accepted_risks,
        missing_markers=request.read.missing,
        published_levels=request.schema.publish_at,
        hierarchies={} if hierarchy is None else {request.schema.sensitive_name: hierarchy},
        nulls=request.schema.nulls.value,
        software=read_software_version(),
        is_test=rewrite.draws.is_test,
        cell_column=rewrite.cell_name if rewrite.encoding.has_cells else None,
        description=description,
    )
    column_names = [field.name for name, fields in manifest.tables.items() if name != WEIGHTS for field in fields]
    description.check_columns([*column_names, *manifest.sensitive_columns])
    return manifest


def write_weights(manifest: Manifest, sensitive: SensitiveColumns, path: Path) -> None:
    """Write the estimation weights, which are the contributions of each record to the unbiased counts of the values."""
    domain = [split_value(value) for value in sensitive.domain]
    values = [
        pa.array([value[number] for value in domain], type=part.type) for number, part in enumerate(sensitive.parts)
    ]
    arrays: list[pa.Array] = []
    for name, column in (manifest.weights or {}).items():
        # Numbers are numpy arrays; column names are strings.
        places = convert_to_arrow(column) if isinstance(column, np.ndarray) else pa.array(column)
        arrays += [item.take(places) for item in values] if name in VALUE_WEIGHTS else [places]
    fields = [
        pa.field(item.name, array.type, nullable=item.has_missing)
        for item, array in zip(manifest.weight_fields, arrays, strict=True)
    ]
    write_table(path, pa.Table.from_arrays(arrays, schema=pa.schema(fields)))
