"""A private place beside the target in which a release is built, so that it appears whole or not at all.

Everything is written below a hidden directory `.sfumato-*` next to the target and moved into place by renaming. A lock
tells a run that is alive from one that crashed; what a crashed run left behind is removed by the next.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sfumato.errors import ReleaseFormatError, TargetError
from sfumato.release.manifest import KNOWN_FILES, MANIFEST, load_json

PREFIX = ".sfumato-"
LOCK = "lock"


def check_target(target: Path, *, force: bool) -> None:
    """Refuse a target that cannot be written, exists, or is something else than a release."""
    if not target.parent.is_dir():
        raise TargetError(f"the directory {str(target.parent)!r} does not exist; create it first.")
    if not target.exists():
        return
    if not force:
        raise TargetError(f"{str(target)!r} exists; choose another name, or replace it with --force.")
    is_release = _is_release(target) if target.is_dir() else _is_packed_release(target)
    if not is_release:
        raise TargetError(f"{str(target)!r} exists and is not a release, so it is not replaced; choose another name.")


def check_plan_file(plan_file: Path | None, target: Path) -> None:
    """Refuse a plan file that cannot be written, or that would lie in the release and be published or lost with it."""
    if plan_file is None:
        return
    if not plan_file.parent.is_dir():
        raise TargetError(f"the directory {str(plan_file.parent)!r} of the plan file does not exist; create it first.")
    if target.resolve() in (plan_file.resolve(), *plan_file.resolve().parents):
        raise TargetError("the plan file is private, so it cannot lie in the release; keep it in another place.")


def _is_release(folder: Path) -> bool:
    """Whether a directory is empty, or holds a release and nothing else that would be lost with it."""
    names = {path.name for path in folder.iterdir()}
    if not names:
        return True
    try:
        load_json(folder)
    except ReleaseFormatError:
        return False
    return names <= {MANIFEST, *KNOWN_FILES}


def _is_packed_release(path: Path) -> bool:
    try:
        with zipfile.ZipFile(path) as archive:
            return MANIFEST in (names := archive.namelist()) and set(names) <= {MANIFEST, *KNOWN_FILES}
    except (OSError, zipfile.BadZipFile):
        return False


@contextmanager
def workshop(target: Path) -> Iterator[Path]:
    """A fresh private directory beside the target; it is gone afterwards, whatever happens."""
    remove_stale(target.parent)
    folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=target.parent))
    try:
        with (folder / LOCK).open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def remove_stale(parent: Path) -> None:
    """Remove what crashed runs left behind: workshops whose lock nobody holds."""
    for folder in parent.glob(f"{PREFIX}*"):
        try:
            with (folder / LOCK).open("r+") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
        except OSError:
            continue  # in use, not ours to remove, or no workshop at all


def move_into_place(built: Path, target: Path, folder: Path) -> None:
    """Rename what was built to the target; an old release steps aside first and comes back if that fails."""
    _sync(built)
    old = folder / "old"
    if target.is_dir():
        target.rename(old)
    try:
        built.replace(target)
    except BaseException:
        if old.exists() and not target.exists():
            old.rename(target)
        raise


def _sync(path: Path) -> None:
    """Bring files to the disk before they are renamed, so that a crash cannot leave a whole name on half a file."""
    for each in (*path.iterdir(), path) if path.is_dir() else (path,):
        descriptor = os.open(each, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
