"""Checking a release from its files alone: digests, columns, metadata, domain, promise and weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from sfumato.audit.promise import published_law
from sfumato.digest import file_digest
from sfumato.errors import ReleaseFormatError, SfumatoError
from sfumato.manifest import DATA, FILES, MANIFEST, WEIGHTS, load_json
from sfumato.spec import exact
from sfumato.values import Value, field_type, values_from_json

FIT = "fitness"
BATCH_ROWS = 1 << 18


@dataclass(frozen=True)
class Check:
    """One thing that was checked, in words."""

    name: str
    passed: bool
    detail: str


@dataclass(frozen=True)
class Verification:
    """All checks of a release."""

    checks: tuple[Check, ...]

    @property
    def passed(self) -> bool:
        """Whether every check passed."""
        return all(check.passed for check in self.checks)


def verify_folder(folder: Path) -> Verification:
    """Check the files of a release directory against its manifest, and the promise against its design."""
    written = load_json(folder)
    try:
        files = _check_files(folder, written)
        # What is not the published file cannot be asked about its columns, and may not be readable at all.
        others = _CHECKS if files.passed else ()
        return Verification((files, *(check(folder, written) for check in others)))
    except (KeyError, TypeError, ValueError, AttributeError, ZeroDivisionError, SfumatoError) as error:
        if isinstance(error, ReleaseFormatError):
            raise
        raise ReleaseFormatError(f"{MANIFEST} does not describe a release as it should.") from error


def _check_files(folder: Path, written: Mapping[str, Any]) -> Check:
    for resource in written["resources"]:
        name = str(resource["path"])
        if name not in FILES:
            return Check("files", False, f"{name!r} is not a file of a release.")
        path = folder / name
        if not path.is_file() or f"sha256:{file_digest(path)}" != resource["hash"]:
            return Check("files", False, f"{name} is missing or was changed after publishing.")
    listed = sorted(str(resource["path"]) for resource in written["resources"])
    extra = sorted({path.name for path in folder.iterdir()} - {*listed, MANIFEST})
    if extra or listed != sorted(FILES):
        named = ", ".join(extra) or "one is not listed, or twice"
        return Check("files", False, f"the files differ from the manifest: {named}.")
    return Check("files", True, f"{len(listed)} files have the digests of the manifest.")


def _check_schema(folder: Path, written: Mapping[str, Any]) -> Check:
    for name in (DATA, WEIGHTS):
        with pq.ParquetFile(folder / name) as file:
            found = [(column.name, field_type(column.type)) for column in file.schema_arrow]
        fields = resource_of(written, name)["schema"]["fields"]
        if found != [(field["name"], field["type"]) for field in fields]:
            return Check("schema", False, f"{name} has other columns or types than the manifest says.")
    return Check("schema", True, "columns and types are those of the manifest.")


def _check_metadata(folder: Path, written: Mapping[str, Any]) -> Check:
    """Statistics and metadata could tell of the original: there must be none."""
    for name in (DATA, WEIGHTS):
        with pq.ParquetFile(folder / name) as file:
            metadata = file.metadata
        groups = [metadata.row_group(group) for group in range(metadata.num_row_groups)]
        chunks = [group.column(column) for group in groups for column in range(metadata.num_columns)]
        if metadata.metadata or any(chunk.is_stats_set or chunk.metadata for chunk in chunks):
            return Check("metadata", False, f"{name} carries statistics or metadata, which can give records away.")
    return Check("metadata", True, "the files carry no statistics and no metadata.")


def _check_domain(folder: Path, written: Mapping[str, Any]) -> Check:
    column, domain = sensitive_domain(written)
    found: set[Value] = set()
    strings = [column] if all(isinstance(value, str) for value in domain if value is not None) else []
    with pq.ParquetFile(folder / DATA, read_dictionary=strings) as file:
        for group in range(file.num_row_groups):
            for batch in file.iter_batches(BATCH_ROWS, row_groups=[group], columns=[column]):
                found.update(batch.column(0).unique().to_pylist())
    if outside := len(found - set(domain)):
        return Check("domain", False, f"{outside} published values are outside the domain.")
    return Check("domain", True, f"every published {column!r} is one of the {len(domain)} values of the domain.")


def _check_promise(folder: Path, written: Mapping[str, Any]) -> Check:
    design = written["sfumato"]["design"]
    prior, posterior = exact(design["prior"]), exact(design["posterior"])
    law = published_law(written["sfumato"])
    if not 0 < prior < posterior < 1:
        return Check("promise", False, f"a bound from {prior} to {posterior} promises nothing.")
    worst = law.amplification
    # The worst case of Bayes' rule: a belief of exactly the prior, and odds multiplied by the whole amplification.
    reached = prior * worst / (prior * worst + 1 - prior)
    if reached > posterior:
        return Check("promise", False, f"a belief of {prior} can rise to {reached}, above the promised {posterior}.")
    detail = f"a belief of {prior} can rise to {reached} at most, within the promised {posterior} (odds times {worst})."
    return Check("promise", True, detail)


def _check_weights(folder: Path, written: Mapping[str, Any]) -> Check:
    _, domain = sensitive_domain(written)
    law = published_law(written["sfumato"])
    # A record of another value must count as 0 on average, and one of this value as 1: two equations, two unknowns.
    kept = law.same - law.other
    expected = (float((1 - law.other) / kept), float(-law.other / kept))
    table = pq.read_table(folder / WEIGHTS).to_pydict()
    pairs = set(zip(table["if_equal"], table["otherwise"], strict=True))
    if tuple(table["value"]) != domain or pairs != {expected}:
        return Check("weights", False, "the weights are not those of the design.")
    return Check("weights", True, "the weights are those of the design.")


def _check_fitness(folder: Path, written: Mapping[str, Any]) -> Check:
    if written["sfumato"]["fit_to_publish"] is not True:
        return Check(FIT, False, "the release was drawn with a test key that others may know: it is unfit to publish.")
    return Check(FIT, True, "the release was drawn with a secret key.")


_CHECKS: tuple[Callable[[Path, Mapping[str, Any]], Check], ...] = (
    _check_schema,
    _check_metadata,
    _check_domain,
    _check_promise,
    _check_weights,
    _check_fitness,
)


def sensitive_domain(written: Mapping[str, Any]) -> tuple[str, tuple[Value, ...]]:
    """The name of the sensitive column, and its domain."""
    ours = written["sfumato"]
    kinds = {field["name"]: field["type"] for field in resource_of(written, DATA)["schema"]["fields"]}
    return ours["sensitive"], values_from_json(ours["design"]["domain"], kinds[ours["sensitive"]])


def resource_of(written: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """The description of one file."""
    found: Mapping[str, Any] = {resource["path"]: resource for resource in written["resources"]}[name]
    return found
