"""Checking a release from its files alone: digests, columns, metadata, domain, promise and weights."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from sfumato._core.digests import FileMapper, compute_file_digest
from sfumato._parquet.footer import has_extra_metadata, page_sizes, read_footer
from sfumato._parquet.thrift_compact import ThriftError
from sfumato._records.column_codes import describe_type
from sfumato._release.csv_copies import copy_digest
from sfumato._release.file_validation import AGAIN, check_page
from sfumato._release.manifest import COPIES, FIRST_TEMPLATE, MANIFEST, README, WEIGHTS, copy_name
from sfumato._release.manifest_reader import load_json, parse_manifest
from sfumato._release.readme import release_readme
from sfumato._request.accepted_risks import Accepted
from sfumato._request.person_rows import UNCHECKED
from sfumato._verify.manifest_view import Written
from sfumato._verify.reference_distributions import read
from sfumato._verify.reference_distributions.reference_distribution import ReferenceDistribution
from sfumato._verify.verification import Check, Verification
from sfumato.errors import InternalError, MissingCapabilityError, ReleaseFormatError, SfumatoError

FIT = "fitness"
PERSONS = "persons"
ACCEPTED = "accepted"
README_TEXT = "readme"


def verify_folder(folder: Path, apply_each: FileMapper = map, *, are_ours: bool = False) -> Verification:
    """Check the files of a release directory against its manifest, and the promise against its design.

    `apply_each` may read several files at once. Files that were just written here are looked into while their digests
    are made; those of others only when the digests are right, because what was damaged may not be readable at all.
    """
    json = load_json(folder)
    try:
        law, written = read(json)
        if are_ours:
            with ThreadPoolExecutor(1) as other:
                digests = other.submit(_check_files, folder, written, apply_each)
                checks = _run_checks(folder, law, written)
            return Verification((digests.result(), *checks))
        files = _check_files(folder, written, apply_each)
        return Verification((files, *(_run_checks(folder, law, written) if files.passed else ())))
    except (pa.ArrowException, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:  # of the disk, and not of what is on it
            raise
        raise ReleaseFormatError("a table cannot be read; get the release again from its publisher.") from error
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, SfumatoError) as error:
        if isinstance(error, ReleaseFormatError | InternalError | MissingCapabilityError):
            raise
        raise ReleaseFormatError(f"{MANIFEST} does not describe a release as it should.") from error


def _run_checks(folder: Path, law: ReferenceDistribution, written: Written) -> tuple[Check, ...]:
    """All checks but that of the digests."""
    says = written.ours.get("guarantee", law.guarantees[0])
    wrong = f"the mechanism {written.ours['mechanism']!r} does not give {says!r}."
    checks = (
        _check_schema(folder, written),
        _check_metadata(folder, written),
        *_check_copies(folder, written),
        law.domain(folder, written),
        law.promise(folder, written) if says in law.guarantees else Check("promise", False, wrong),
        _check_weights(folder, law, written),
        _check_persons(written),
        _check_accepted(written),
    )
    return (*checks, *_check_readme(folder, written, checks), _check_fitness(written))


def _check_files(folder: Path, written: Written, apply_each: FileMapper) -> Check:
    resources = {str(resource["path"]): resource for resource in written.json["resources"]}
    wrong = [name for name in resources if not (folder / name).is_file()]
    if not wrong:
        digests = zip(
            resources.items(), apply_each(compute_file_digest, [folder / name for name in resources]), strict=True
        )
        wrong = [name for (name, resource), digest in digests if f"sha256:{digest}" != resource["hash"]]
    if wrong:
        return Check("files", False, f"{wrong[0]} is missing or was changed after publishing.")
    listed = sorted(str(resource["path"]) for resource in written.json["resources"])
    folders = {name.partition("/")[0] for name in listed if "/" in name}
    present_names = {path.relative_to(folder).as_posix() for path in folder.rglob("*")}
    extra = sorted(present_names - {*listed, *folders, MANIFEST})
    needed = (*written.records, *written.shown.FILES[1:], README)
    found_copies = [name for name in listed if name in COPIES]
    tables = [name for name in listed if name not in (*found_copies, README)]
    copies = sorted({_name_copy(written, name) for name in tables}) if found_copies else []
    if extra or found_copies != copies or sorted([*tables, README]) not in (sorted(needed), sorted((*needed, WEIGHTS))):
        if extra:
            return Check(
                "files", False, f"files that are not of the release lie in it; remove them: {', '.join(extra)}."
            )
        return Check("files", False, "the files differ from the manifest: one is not listed, or twice.")
    return Check("files", True, f"{len(listed)} files have the digests of the manifest.")


def _name_copy(written: Written, table: str) -> str:
    """What the copy of a table is called; the files of the records have one together."""
    return copy_name(written.shown.FILES[0] if table in written.records else table)


def _check_copies(folder: Path, written: Written) -> list[Check]:
    """Make every CSV file again from its Parquet file."""
    listed = [str(resource["path"]) for resource in written.json["resources"]]
    copies = [name for name in listed if name in COPIES]
    for name in copies:
        tables = tuple(folder / table for table in written.tables if _name_copy(written, table) == name)
        digest = copy_digest(tables, written.shown, written.naming)
        if f"sha256:{digest}" != written.resource(name)["hash"]:
            return [Check("copies", False, f"{name} does not say what its Parquet file says.")]
    return [Check("copies", True, "the CSV files say what the Parquet files say.")] if copies else []


def _check_schema(folder: Path, written: Written) -> Check:
    for name in written.tables:
        with pq.ParquetFile(folder / name) as file:
            file_columns = [(column.name, describe_type(column.type)) for column in file.schema_arrow]
        fields = written.resource(name)["schema"]["fields"]
        if file_columns != [(field["name"], field["type"]) for field in fields]:
            return Check("schema", False, f"{name} has other columns or types than the manifest says.")
    return Check("schema", True, "columns and types are those of the manifest.")


def _check_metadata(folder: Path, written: Written) -> Check:
    """Statistics and metadata could tell of the original: there must be none.

    The footer is read here: pyarrow ends the process where one says of a column what cannot be. Neither does it ask
    how large a page will be before it is unpacked.
    """
    for name in written.tables:
        try:
            footer = read_footer(folder / name)
            is_telling, size = has_extra_metadata(footer), (folder / name).stat().st_size
            for unpacked in page_sizes(folder / name, footer):
                check_page(name, unpacked, size)
        except ThriftError as error:
            raise ReleaseFormatError(f"{name} cannot be read; get the release again from its publisher.") from error
        if is_telling:
            return Check("metadata", False, f"{name} carries statistics or metadata, which can give records away.")
    return Check("metadata", True, "the files carry no statistics and no metadata.")


def _check_weights(folder: Path, law: ReferenceDistribution, written: Written) -> Check:
    if WEIGHTS not in written.tables:
        why = law.without_weights(written)
        return Check("weights", why is not None, why or f"{WEIGHTS} is missing.")
    with pq.ParquetFile(folder / WEIGHTS) as file:
        table = file.read().to_pydict()
    is_right = law.weights is not None and law.weights(written, table)
    return Check("weights", is_right, f"the weights are {'' if is_right else 'not '}those of the design.")


def _check_persons(written: Written) -> Check:
    """How persons were checked, in the words of the release; the promise must be for as many rows as they may have."""
    persons, promised = written.persons, int(written.design.get("rows_per_person", 1))
    if persons is None:
        return Check(PERSONS, promised == 1, UNCHECKED)
    if persons.most > promised:
        return Check(PERSONS, False, f"a person may have {persons.most} rows, and the promise is for {promised}.")
    return Check(PERSONS, True, persons.sentence)


def _check_accepted(written: Written) -> Check:
    """What the publisher went on with in spite of a warning, in words: nothing that could fail, but to be read."""
    accepted_json = written.ours.get("accepted")
    if accepted_json is None:
        return Check(ACCEPTED, True, "the release does not say what its publisher accepted.")
    sentences = Accepted.from_json(accepted_json).sentences(written.naming.together)
    return Check(ACCEPTED, True, " ".join(sentences) or "nothing was accepted in spite of a warning.")


def _check_readme(folder: Path, written: Written, others: Sequence[Check]) -> list[Check]:
    """Write the README again from the manifest and compare every byte.

    A manifest that cannot be read is refused, unless another check says already what is wrong with it.
    """
    try:
        manifest = parse_manifest(written.json)
    except ReleaseFormatError:
        if all(check.passed for check in others):
            raise
        return []
    rows = sum(pq.read_metadata(path).num_rows for path in manifest.paths(folder))
    expected = release_readme(manifest, rows).encode()
    # A README of any size may lie there: one of another length is another one.
    is_same = (folder / README).stat().st_size == len(expected) and (folder / README).read_bytes() == expected
    if is_same:
        return [Check(README_TEXT, True, f"{README} says what the manifest says, to the letter.")]
    if manifest.readme_template < FIRST_TEMPLATE:
        old = f"{README}: not compared, because format {written.ours['format']} does not say how it was written."
        return [Check(README_TEXT, True, old)]
    wrong = f"{README} does not say what the manifest says; do not rely on its text, and {AGAIN}."
    return [Check(README_TEXT, False, wrong)]


def _check_fitness(written: Written) -> Check:
    if written.ours["fit_to_publish"] is not True:
        return Check(FIT, False, "the release was drawn with a test key that others may know: it is unfit to publish.")
    return Check(FIT, True, "the release was drawn with a secret key.")
