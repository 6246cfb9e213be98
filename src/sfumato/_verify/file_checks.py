"""Checks a release from its files alone: digests, columns, metadata, domain, guarantee and weights."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from sfumato._core.digests import FileMapper, compute_file_digest
from sfumato._parquet.footer import has_extra_metadata, iter_page_sizes, read_footer
from sfumato._parquet.thrift_compact import ThriftError
from sfumato._query.release import Release
from sfumato._records.column_codes import describe_type
from sfumato._release.csv_copies import compute_copy_digest
from sfumato._release.manifest import COPY_NAMES, MANIFEST, README, README_TEMPLATE, WEIGHTS, make_copy_name
from sfumato._release.manifest_reader import load_json, parse_manifest
from sfumato._release.readme import make_readme
from sfumato._release.untrusted_files import GET_AGAIN, check_page
from sfumato._request.accepted_risks import AcceptedRisks
from sfumato._request.person_rows import UNCHECKED_SENTENCE
from sfumato._verify.check_results import Check, Verification
from sfumato._verify.distributions import read_reference
from sfumato._verify.distributions.reference_distribution import ReferenceDistribution
from sfumato._verify.manifest_view import ManifestView
from sfumato.errors import InternalError, MissingCapabilityError, ReleaseFormatError, SfumatoError

FITNESS = "fitness"
PERSONS = "persons"
ACCEPTED = "accepted"
README_TEXT = "readme"


def verify_folder(folder: Path, apply_each: FileMapper = map, *, own_release: Release | None = None) -> Verification:
    """Checks the files of a release directory against its manifest, and the guarantee against its design.

    `apply_each` may read several files at once. Files are read only if the digests are right, because damaged files may
    be unreadable. Files that this process just wrote are read while their digests are computed. `own_release` is the
    release in these files. Its estimates for the README are used again.
    """
    json = load_json(folder)
    try:
        reference, view = read_reference(json)
        if own_release is not None:
            with ThreadPoolExecutor(1) as other:
                digests = other.submit(_check_files, folder, view, apply_each)
                checks = _run_checks(folder, reference, view, own_release)
            return Verification((digests.result(), *checks))
        files = _check_files(folder, view, apply_each)
        return Verification((files, *(_run_checks(folder, reference, view) if files.has_passed else ())))
    except (pa.ArrowException, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:  # this is an error of the disk, not of the file
            raise
        raise ReleaseFormatError(
            "a table cannot be read; get the release again from its publisher.", code="unreadable-release"
        ) from error
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, SfumatoError) as error:
        if isinstance(error, ReleaseFormatError | InternalError | MissingCapabilityError):
            raise
        raise ReleaseFormatError(
            f"{MANIFEST} is not a valid description of a release.", code="invalid-manifest", fields={"file": MANIFEST}
        ) from error


def _run_checks(
    folder: Path, reference: ReferenceDistribution, view: ManifestView, own_release: Release | None = None
) -> tuple[Check, ...]:
    """Runs all checks except the check of the digests."""
    guarantee = view.sfumato_json.get("guarantee", reference.guarantees[0])
    mismatch_text = f"the mechanism {view.sfumato_json['mechanism']!r} cannot give the guarantee {guarantee!r}."
    checks = (
        _check_schema(folder, view),
        _check_metadata(folder, view),
        *_check_copies(folder, view),
        reference.check_domain(folder, view),
        *(() if reference.check_counts is None else (reference.check_counts(folder, view),)),
        reference.check_guarantee(folder, view)
        if guarantee in reference.guarantees
        else Check("guarantee", False, mismatch_text),
        _check_weights(folder, reference, view),
        _check_persons(view),
        _check_accepted(view),
    )
    return (*checks, *_check_readme(folder, view, checks, own_release), _check_fitness(view))


def _check_files(folder: Path, view: ManifestView, apply_each: FileMapper) -> Check:
    resources = {str(resource["path"]): resource for resource in view.json["resources"]}
    changed_files = [name for name in resources if not (folder / name).is_file()]
    if not changed_files:
        digests = zip(
            resources.items(), apply_each(compute_file_digest, [folder / name for name in resources]), strict=True
        )
        changed_files = [name for (name, resource), digest in digests if f"sha256:{digest}" != resource["hash"]]
    if changed_files:
        return Check("files", False, f"{changed_files[0]} is missing or was changed after publishing.")
    listed_files = sorted(str(resource["path"]) for resource in view.json["resources"])
    folders = {name.partition("/")[0] for name in listed_files if "/" in name}
    present_names = {path.relative_to(folder).as_posix() for path in folder.rglob("*")}
    extra = sorted(present_names - {*listed_files, *folders, MANIFEST})
    required_files = (*view.record_files, *view.encoding.files[1:], README)
    found_copies = [name for name in listed_files if name in COPY_NAMES]
    tables = [name for name in listed_files if name not in (*found_copies, README)]
    copies = sorted({_name_copy(view, name) for name in tables}) if found_copies else []
    if (
        extra
        or found_copies != copies
        or sorted([*tables, README]) not in (sorted(required_files), sorted((*required_files, WEIGHTS)))
    ):
        if extra:
            return Check(
                "files", False, f"the release contains files that do not belong to it; remove them: {', '.join(extra)}."
            )
        return Check(
            "files", False, "the manifest does not fit the files, because a file is not listed or is listed twice."
        )
    return Check("files", True, f"the digests of {len(listed_files)} files match the manifest.")


def _name_copy(view: ManifestView, table: str) -> str:
    """The name of a table's CSV copy. All files of the records together have one copy."""
    return make_copy_name(view.encoding.FILES[0] if table in view.record_files else table)


def _check_copies(folder: Path, view: ManifestView) -> list[Check]:
    """Makes every CSV file again from its Parquet file, and compares the two."""
    listed_files = [str(resource["path"]) for resource in view.json["resources"]]
    copies = [name for name in listed_files if name in COPY_NAMES]
    for name in copies:
        tables = tuple(folder / table for table in view.table_files if _name_copy(view, table) == name)
        digest = compute_copy_digest(tables, view.encoding, view.naming)
        if f"sha256:{digest}" != view.find_resource(name)["hash"]:
            return [Check("copies", False, f"{name} differs from its Parquet file.")]
    return [Check("copies", True, "the CSV files match the Parquet files.")] if copies else []


def _check_schema(folder: Path, view: ManifestView) -> Check:
    for name in view.table_files:
        with pq.ParquetFile(folder / name) as file:
            file_columns = [(column.name, describe_type(column.type)) for column in file.schema_arrow]
        fields = view.find_resource(name)["schema"]["fields"]
        if file_columns != [(field["name"], field["type"]) for field in fields]:
            return Check("schema", False, f"the columns or types of {name} differ from those in the manifest.")
    return Check("schema", True, "columns and types match the manifest.")


def _check_metadata(folder: Path, view: ManifestView) -> Check:
    """Refuses statistics and metadata, because they could disclose the original.

    The footer is parsed here, because pyarrow ends the process at an impossible column description. Pyarrow also does
    not check the size of a page before it unpacks the page.
    """
    for name in view.table_files:
        try:
            footer = read_footer(folder / name)
            has_metadata, size = has_extra_metadata(footer), (folder / name).stat().st_size
            for unpacked in iter_page_sizes(folder / name, footer):
                check_page(name, unpacked, size)
        except ThriftError as error:
            raise ReleaseFormatError(
                f"{name} cannot be read; get the release again from its publisher.",
                code="damaged-file",
                fields={"file": name},
            ) from error
        if has_metadata:
            return Check("metadata", False, f"{name} has statistics or metadata, which can disclose records.")
    return Check("metadata", True, "the files have no statistics and no metadata.")


def _check_weights(folder: Path, reference: ReferenceDistribution, view: ManifestView) -> Check:
    if WEIGHTS not in view.table_files:
        reason = reference.explain_missing_weights(view)
        return Check("weights", reason is not None, reason or f"{WEIGHTS} is missing.")
    with pq.ParquetFile(folder / WEIGHTS) as file:
        table = file.read().to_pydict()
    is_right = reference.are_weights is not None and reference.are_weights(view, table)
    return Check("weights", is_right, f"the weights {('' if is_right else 'do not ')}match the design.")


def _check_persons(view: ManifestView) -> Check:
    """Checks that the guarantee covers all rows that a person may have."""
    persons, promised_rows = view.persons, int(view.design.get("rows_per_person", 1))
    if persons is None:
        return Check(PERSONS, promised_rows == 1, UNCHECKED_SENTENCE)
    if persons.max_rows > promised_rows:
        return Check(
            PERSONS, False, f"a person may have {persons.max_rows} rows, but the guarantee covers {promised_rows}."
        )
    return Check(PERSONS, True, persons.sentence)


def _check_accepted(view: ManifestView) -> Check:
    """Reports the risks that the publisher accepted. This check cannot fail."""
    accepted_json = view.sfumato_json.get("accepted")
    if accepted_json is None:
        return Check(ACCEPTED, True, "the release does not say which risks its publisher accepted.")
    sentences = AcceptedRisks.from_json(accepted_json).list_sentences(view.naming.joined_name)
    return Check(ACCEPTED, True, " ".join(sentences) or "no warning was overridden.")


def _check_readme(
    folder: Path, view: ManifestView, others: Sequence[Check], own_release: Release | None
) -> list[Check]:
    """Writes the README again from the manifest and the records, and compares every byte.

    Refuses an unreadable README, unless another check already reports the error.
    """
    try:
        release = own_release or Release(folder, parse_manifest(view.json), folder)
        manifest = release.manifest
        is_current = manifest.readme_template == README_TEMPLATE
        coverage = release.bound_coverage if is_current else None
    except ReleaseFormatError:
        if all(check.has_passed for check in others):
            raise
        return []
    sentence = "" if coverage is None else coverage.sentence
    expected = make_readme(manifest, release.rows, sentence, people_in_counts=release.people_in_counts).encode()
    # The size is compared first, because a hostile README may be huge.
    is_same = (folder / README).stat().st_size == len(expected) and (folder / README).read_bytes() == expected
    if is_same:
        return [Check(README_TEXT, True, f"{README} matches the manifest exactly.")]
    if manifest.readme_template < README_TEMPLATE:
        old = f"{README} was not compared, because an older version of sfumato wrote it."
        return [Check(README_TEXT, True, old)]
    wrong = f"{README} does not match the manifest; do not rely on its text, and {GET_AGAIN}."
    return [Check(README_TEXT, False, wrong)]


def _check_fitness(view: ManifestView) -> Check:
    if view.sfumato_json["fit_to_publish"] is not True:
        return Check(
            FITNESS, False, "the release was drawn with a test key that others may know, so it is unfit to publish."
        )
    return Check(FITNESS, True, "the release was drawn with a secret key.")
