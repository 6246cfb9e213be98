"""A release as the analyst holds it: open it, read its promise, ask it questions."""

from __future__ import annotations

import shutil
import tempfile
import weakref
import zipfile
from dataclasses import dataclass
from pathlib import Path
from types import EllipsisType

import pyarrow as pa
import pyarrow.parquet as pq

from sfumato.errors import ReleaseFormatError
from sfumato.estimate import Estimate
from sfumato.manifest import KNOWN_FILES, MANIFEST, Manifest, read_manifest
from sfumato.query import Answer, ask, count
from sfumato.values import Value


@dataclass(frozen=True)
class Release:
    """A published table with its design."""

    path: Path
    folder: Path
    manifest: Manifest

    @classmethod
    def open(cls, path: str | Path) -> Release:
        """Open a release directory or .zip; nothing in it is executed or trusted."""
        given = Path(path)
        if given.is_dir():
            return cls(given, given, _read(given))
        if not given.exists():
            raise ReleaseFormatError(f"{str(path)!r} does not exist; name the directory or .zip of a release.")
        folder = Path(tempfile.mkdtemp(prefix="sfumato-"))
        try:
            unpack(given, folder)
            release = cls(given, folder, _read(folder))
        except BaseException:
            shutil.rmtree(folder)
            raise
        weakref.finalize(release, shutil.rmtree, folder, ignore_errors=True)
        return release

    @property
    def rows(self) -> int:
        """The number of records."""
        try:
            return int(pq.read_metadata(self.folder / self.manifest.data).num_rows)
        except (pa.ArrowException, OSError) as error:
            raise ReleaseFormatError(
                f"{self.manifest.data} cannot be read; get the release again from its publisher."
            ) from error

    @property
    def promise(self) -> str:
        """What an attacker can learn at most, in plain words."""
        return self.manifest.promise

    def count(
        self, value: Value | EllipsisType = ..., *, where: str | None = None, method: str | None = None
    ) -> Estimate:
        """Estimate how many records hold `value` (None: missing) and satisfy a condition on public columns.

        Without a value, the rows that satisfy the condition are counted, exactly. The value of a compound is a tuple.
        """
        return count(self.manifest, self.folder, value, where, method)

    def sql(self, query: str, *, method: str | None = None) -> Answer:
        """Answer `SELECT COUNT(*) ... FROM release WHERE ... GROUP BY ...`, each count with its error."""
        return ask(self.manifest, self.folder, query, method)

    @property
    def methods(self) -> tuple[str, ...]:
        """The names of the estimators that this release can be asked with; the first is the default."""
        return tuple(self.manifest.methods)


def _read(folder: Path) -> Manifest:
    manifest = read_manifest(folder)
    for name in manifest.files:
        if not (folder / name).is_file():
            raise ReleaseFormatError(f"the release lacks {name}; get it again from its publisher.")
    return manifest


def unpack(path: Path, folder: Path) -> None:
    """Unpack the .zip of a release: the known files, stored as they are, so that nothing can swell or escape."""
    try:
        with zipfile.ZipFile(path) as archive:
            for entry in archive.infolist():
                if entry.filename not in (MANIFEST, *KNOWN_FILES) or entry.compress_type != zipfile.ZIP_STORED:
                    raise ReleaseFormatError(
                        f"{path.name!r} holds what no release holds; get it again from its publisher."
                    )
                archive.extract(entry, folder)
    except (OSError, EOFError, RuntimeError, zipfile.BadZipFile) as error:
        raise ReleaseFormatError(f"{path.name!r} is not the directory or .zip of a release.") from error


def pack(folder: Path, path: Path) -> None:
    """Pack a release directory into one .zip; every entry has the same fixed date."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for name in (MANIFEST, *KNOWN_FILES):
            if not (folder / name).exists():
                continue
            with (
                archive.open(zipfile.ZipInfo(name), "w", force_zip64=True) as entry,
                (folder / name).open("rb") as file,
            ):
                shutil.copyfileobj(file, entry, 1 << 20)
