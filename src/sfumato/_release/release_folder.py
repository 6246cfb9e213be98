"""Opens a release in a directory or a .zip. Nothing in the release is executed or trusted."""

from __future__ import annotations

import shutil
import stat
import struct
import zipfile
from pathlib import Path

from sfumato._release.manifest import KNOWN_FILES, MANIFEST, Manifest
from sfumato._release.manifest_reader import read_manifest
from sfumato._release.store_transfer import find_files_folder
from sfumato._release.untrusted_files import check_inside, check_sizes
from sfumato.errors import ReleaseFormatError


def find_release_folder(path: Path) -> Path:
    """The folder with the files of a release.

    This is the given folder. If the release was copied from a store, it is a folder inside.
    """
    folder = find_files_folder(path)
    if folder != path:
        check_inside(path, folder.name)
    return folder


def read_folder(folder: Path) -> Manifest:
    """Reads the manifest of a release directory. Refuses missing and unknown files."""
    check_inside(folder, MANIFEST)
    manifest = read_manifest(folder)
    for name in manifest.files:
        check_inside(folder, name)
        if not (folder / name).is_file():
            raise ReleaseFormatError(
                f"the release lacks {name}; get it again from its publisher.",
                code="missing-file",
                fields={"file": name},
            )
    check_sizes(folder, manifest)
    return manifest


def unpack(path: Path, folder: Path) -> None:
    """Unpacks the .zip of a release.

    Only known, uncompressed files are unpacked. So no file is larger than it looks, and no file lies outside the
    folder.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            entries = archive.infolist()
            names = [entry.filename for entry in entries]
            # Entries may overlap, so the sum of their sizes may exceed the size of the archive.
            is_larger = sum(entry.file_size for entry in entries) > path.stat().st_size
            if is_larger or len(set(names)) < len(names) or not all(map(_is_plain, entries)):
                raise ReleaseFormatError(
                    f"{path.name!r} has content that no release has, or was packed by another program. Unpack "
                    "it and name the directory. Or get it again from its publisher.",
                    code="foreign-content",
                    fields={"file": path.name},
                )
            for entry in entries:
                archive.extract(entry, folder)
    except ReleaseFormatError:
        raise
    except (OSError, EOFError, RuntimeError, ValueError, OverflowError, struct.error, zipfile.BadZipFile) as error:
        raise ReleaseFormatError(
            f"{path.name!r} is not the directory or .zip of a release.",
            code="not-a-release",
            fields={"file": path.name},
        ) from error


def _is_plain(entry: zipfile.ZipInfo) -> bool:
    """Whether an entry is an uncompressed file of a release. The upper half of the attributes marks links."""
    is_stored = entry.compress_type == zipfile.ZIP_STORED and entry.file_size == entry.compress_size
    kind = stat.S_IFMT(entry.external_attr >> 16)
    return entry.filename in (MANIFEST, *KNOWN_FILES) and is_stored and kind in (0, stat.S_IFREG)


def pack(folder: Path, path: Path) -> None:
    """Packs a release directory into one .zip. Every entry has the same fixed date."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for name in (MANIFEST, *KNOWN_FILES):
            if not (folder / name).exists():
                continue
            with (
                archive.open(zipfile.ZipInfo(name), "w", force_zip64=True) as entry,
                (folder / name).open("rb") as file,
            ):
                shutil.copyfileobj(file, entry, 1 << 20)
