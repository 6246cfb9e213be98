"""Moves releases to and from an object store. A release appears in the store when its datapackage.json is written.

The files of one publication lie in a folder `version-*` that is named after their digest and never changes. The
datapackage.json beside the folder names these files. It is written last, by a single put. So a reader of the old
release sees only old files, or finds that a file is missing. A reader never sees a mixture.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import pyarrow.parquet as pq

from sfumato._core.digests import compute_file_digest
from sfumato._core.object_store import Address
from sfumato._release.manifest import KNOWN_FILES, MANIFEST, PART_NAME, Manifest, compute_manifest_digest
from sfumato._release.manifest_reader import LARGEST_MANIFEST, load_json, read_manifest
from sfumato._release.untrusted_files import check_side_tables
from sfumato.errors import ReleaseFormatError, TargetError, explain_os_error

Place = TypeVar("Place", Path, Address)

VERSION = re.compile(r"version-[0-9a-f]{16}")
"""The name of the folder of one publication."""


def check_address(target: Address, *, force: bool) -> None:
    """Refuses an address that holds a release or other files. Files of an interrupted run are allowed."""
    if target.suffix == ".zip" or "/" not in target.key:
        raise TargetError(
            f"'{target}' is not a valid address for a release; name a folder in a bucket, without .zip.",
            code="invalid-target",
            fields={"file": str(target)},
        )
    names = _list_names(target)
    if MANIFEST in names and not force:
        raise TargetError(
            f"'{target}' exists; choose another address, or replace it with `force=True`.",
            code="target-exists",
            fields={"file": str(target)},
        )
    for name in names:
        folder, _, rest = name.partition("/")
        file_name = rest if VERSION.fullmatch(folder) else name
        if file_name not in (MANIFEST, *KNOWN_FILES) and not PART_NAME.fullmatch(file_name):
            raise TargetError(
                f"'{target}' holds files that are not a release, so it is not replaced; choose another address.",
                code="target-not-a-release",
                fields={"file": str(target)},
            )


def _list_names(folder: Address) -> list[str]:
    return [str(file.relative_to(folder)) for file in folder.list_files()]


def make_outer_manifest(built_folder: Path) -> tuple[str, bytes]:
    """The folder for the files of a release, and the datapackage.json beside it."""
    package = load_json(built_folder)
    version = f"version-{package['sfumato']['digest'][:16]}"
    resources = [{**resource, "path": f"{version}/{resource['path']}"} for resource in package["resources"]]
    outer = {**package, "resources": resources}
    outer["sfumato"] = {**package["sfumato"], "digest": compute_manifest_digest(outer)}
    return version, (json.dumps(outer, indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode()


def is_uploaded(outer_manifest: bytes, target: Address) -> bool:
    """Whether this release is at the address."""
    with suppress(OSError):
        return (target / MANIFEST).read_bytes(LARGEST_MANIFEST) == outer_manifest
    return False


def upload(
    built_folder: Path, target: Address, *, force: bool, progress: Callable[[str, int, int | None], None]
) -> None:
    """Uploads a release to a store. The previous release is removed after the new release has appeared."""
    check_address(target, force=force)
    version, outer_manifest = make_outer_manifest(built_folder)
    version_folder, is_new = target / version, not any(name.startswith(f"{version}/") for name in _list_names(target))
    manifest, uploaded_rows = read_manifest(built_folder), 0
    rows = {name: int(pq.read_metadata(built_folder / name).num_rows) for name in manifest.data_files}
    try:
        for name in (*manifest.files, MANIFEST):
            progress("uploading", uploaded_rows, sum(rows.values()))
            # An interrupted put would damage a published release.
            if not _has_same_bytes(version_folder / name, built_folder / name):
                (version_folder / name).put(built_folder / name)
            uploaded_rows += rows.get(name, 0)
        if not is_uploaded(outer_manifest, target):
            (target / MANIFEST).put(outer_manifest)
    except BaseException:
        if is_new and not is_uploaded(outer_manifest, target):
            with suppress(OSError):
                version_folder.remove()
        raise
    try:
        for name in _list_names(target):
            if name != MANIFEST and not name.startswith(f"{version}/"):
                (target / name).remove()
    except OSError as error:
        raise TargetError(
            f"the release is at '{target}', but files of the previous release could not be removed: "
            f"{explain_os_error(error)}.",
            code="old-files-left",
            fields={"file": str(target), "reason": explain_os_error(error)},
        ) from error


def _has_same_bytes(address: Address, file: Path) -> bool:
    """Whether a store already holds the bytes of a file."""
    try:
        return address.size == file.stat().st_size and compute_file_digest(address) == compute_file_digest(file)
    except FileNotFoundError:
        return False


# -------------------------------------------------------------------------------------------------------------- reading


def find_files_folder(place: Place) -> Place:
    """The folder with the files of a release.

    This is the folder of its datapackage.json, or the folder that the datapackage.json names.
    """
    file = place / MANIFEST
    try:
        if isinstance(file, Path):
            is_one = file.is_file() and file.stat().st_size <= LARGEST_MANIFEST
            package = json.loads(file.read_bytes()) if is_one else {}
        else:
            package = json.loads(file.read_bytes(LARGEST_MANIFEST))
        folders = {str(resource["path"]).partition("/")[0] for resource in package["resources"]}
    except (ValueError, LookupError, TypeError, RecursionError):
        return place  # the reader of the manifest reports the problem
    return place / folders.pop() if len(folders) == 1 and VERSION.fullmatch(min(folders)) else place


def fetch_manifest(address: Address, folder: Path) -> tuple[Address, Manifest]:
    """Downloads the manifest and the tables beside the records. Returns the address of the release's files."""
    try:
        files = find_files_folder(address)
        (folder / MANIFEST).write_bytes((files / MANIFEST).read_bytes(LARGEST_MANIFEST))
        manifest = read_manifest(folder)
        others = [name for name in manifest.files if name not in (*manifest.data_files, *manifest.copies)]
        fetch(files, folder, others)
        check_side_tables(folder, [name for name in others if name in manifest.tables])
    except FileNotFoundError as error:
        raise ReleaseFormatError(
            f"'{address}' is not a readable release: it has no {MANIFEST}.",
            code="no-manifest",
            fields={"release": str(address)},
        ) from error
    except OSError as error:
        raise ReleaseFormatError(
            f"'{address}' cannot be read: {explain_os_error(error)}.",
            code="unreadable-file",
            fields={"file": str(address), "reason": explain_os_error(error)},
        ) from error
    return files, manifest


def fetch_release(address: Address, folder: Path) -> None:
    """Download a complete release."""
    files, manifest = fetch_manifest(address, folder)
    fetch(files, folder, [*manifest.data_files, *manifest.copies])


def fetch(files: Address, folder: Path, names: list[str]) -> None:
    """Download some files of a release."""
    for name in names:
        try:
            (files / name).fetch(folder / name)
        except FileNotFoundError as error:
            raise ReleaseFormatError(
                f"the release lacks {name}. If the release is being replaced, open it again. If not, get it from its "
                "publisher.",
                code="missing-file",
                fields={"file": name},
            ) from error
        except OSError as error:
            raise ReleaseFormatError(
                f"'{files / name}' cannot be read: {explain_os_error(error)}.",
                code="unreadable-file",
                fields={"file": str(files / name), "reason": explain_os_error(error)},
            ) from error
