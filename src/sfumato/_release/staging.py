"""Builds a release in a private folder beside its target, so that the release appears complete or not at all.

Everything is written to a hidden directory `.sfumato-*` next to the target, which is then renamed. A lock distinguishes
a live run from a crashed run. The next run to the same target removes the remains of a crashed run. Remains of other
targets stay, because not every file system shows the locks of other machines.

The names in the hidden directory record the progress of a run. `ready/NAME` is the complete new release. After the
exchange, this name has the old release. If the system cannot exchange in one step, the old release is `aside/NAME`
until the new release is at the target. If both exist, the old release is moved back.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

from sfumato._release.atomic_renames import exchange, rename_new
from sfumato._release.manifest import KNOWN_FILES, MANIFEST, PART_NAME
from sfumato._release.manifest_reader import load_json
from sfumato.errors import ReleaseFormatError, TargetError, explain_os_error

PREFIX = ".sfumato-"
LOCK, READY, ASIDE = "lock", "ready", "aside"
FILE_ENDINGS = frozenset(
    (".csv", ".tsv", ".parquet", ".arrow", ".json", ".jsonl", ".xlsx", ".html", ".txt", ".toml", ".tar", ".gz", ".zip")
)


def check_target(target: Path, *, force: bool) -> None:
    """Refuse a target that is not writable, exists already, or is not a release."""
    if target.name in ("", ".."):
        raise TargetError(
            f"{str(target)!r} is not a valid name for a release; choose a new directory, or a name with .zip.",
            code="invalid-target",
            fields={"file": str(target)},
        )
    if not target.parent.is_dir():
        raise TargetError(
            f"the directory {str(target.parent)!r} does not exist; create it first.",
            code="missing-directory",
            fields={"file": str(target.parent)},
        )
    check_outside(target, "the release")
    if not os.path.lexists(target):
        _check_ending(target)
        return
    if not force:
        raise TargetError(
            f"{str(target)!r} exists; choose another name, or replace it with `force=True`.",
            code="target-exists",
            fields={"file": str(target)},
        )
    if not _is_replaceable(target):
        raise _make_replace_error(target)


def _check_ending(target: Path) -> None:
    """Refuses a directory name with the ending of a file. Programs would try to open the directory as a file."""
    if target.suffix.lower() in FILE_ENDINGS and target.suffix != ".zip":
        raise TargetError(
            f"{str(target)!r} looks like the name of a file, but a release is a directory; choose a name without "
            f"{target.suffix}, or a name that ends in .zip.",
            code="target-like-a-file",
            fields={"file": str(target)},
        )


def check_outside(path: Path, what: str) -> None:
    """Refuses a path inside a release. The file would be published too, and the release would no longer verify."""
    if any(_is_release(folder / MANIFEST) for folder in path.resolve().parents):
        raise TargetError(
            f"{what} {str(path)!r} would lie in a release; keep it in another place.",
            code="inside-release",
            fields={"path": str(path)},
        )


def _is_release(manifest: Path) -> bool:
    """Whether this is a release, even an edited one. In doubt, the answer is yes."""
    if not manifest.is_file():
        return False
    try:
        return "sfumato" in json.loads(manifest.read_bytes())
    except (OSError, ValueError, TypeError, RecursionError):
        return True


def _make_replace_error(target: Path) -> TargetError:
    return TargetError(
        f"{str(target)!r} exists and is not a release, so it is not replaced; choose another name.",
        code="target-not-a-release",
        fields={"file": str(target)},
    )


def check_private_file(file: Path | None, target: Path, what: str) -> None:
    """Refuses a private file that is not writable or lies in the release.

    A file in the release would be published or deleted with the release.
    """
    if file is None:
        return
    if not file.parent.is_dir():
        raise TargetError(
            f"the directory {str(file.parent)!r} of {what} does not exist; create it first.",
            code="missing-directory",
            fields={"file": str(file.parent)},
        )
    if target.resolve() in (file.resolve(), *file.resolve().parents):
        raise TargetError(
            f"{what} is private, so it cannot be in the release; keep it in another place.",
            code="inside-release",
            fields={"file": str(file)},
        )
    check_outside(file, what)


def _is_replaceable(path: Path) -> bool:
    """Whether this is a packed release or a directory without other content.

    The directory may be empty, or hold a release and nothing else.
    """
    if not path.is_dir():
        return _is_packed_release(path)
    names = {
        entry.relative_to(path).as_posix() for entry in path.rglob("*") if entry.is_symlink() or not entry.is_dir()
    }
    if not names and not any(path.iterdir()):
        return True
    try:
        load_json(path)
    except ReleaseFormatError:
        return False
    folders = {entry.name for entry in path.iterdir() if entry.is_dir()}
    return all(name in (MANIFEST, *KNOWN_FILES) or PART_NAME.fullmatch(name) for name in names) and folders == {
        name.partition("/")[0] for name in names if "/" in name
    }


def _is_removable(path: Path) -> bool:
    """Whether the old content of the target may be removed. A link may be removed, because its own target stays."""
    return path.is_symlink() or _is_replaceable(path)


def _is_packed_release(path: Path) -> bool:
    try:
        with zipfile.ZipFile(path) as archive:
            return MANIFEST in (names := archive.namelist()) and set(names) <= {MANIFEST, *KNOWN_FILES}
    except (OSError, zipfile.BadZipFile):
        return False


@contextmanager
def make_staging_folder(target: Path) -> Iterator[Path]:
    """Creates a private directory beside the target, and always removes it afterwards."""
    folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=target.parent)).absolute()
    try:
        lock = (folder / f"{LOCK}.new").open("wb")
    except OSError:
        folder.rmdir()
        raise
    with lock:
        try:
            # The folder is locked before it has its final name, because other runs take an unlocked folder for that of
            # a crashed run.
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            lock.write(os.fsencode(target.name))
            lock.flush()
            Path(lock.name).rename(folder / LOCK)
            yield folder
        finally:
            _clear(folder)


def remove_stale(target: Path) -> None:
    """Removes the remains of crashed runs to a target. These are the staging folders without a lock."""
    for folder in target.parent.glob(f"{PREFIX}*"):
        try:
            with (folder / LOCK).open("r+b") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if lock.read() == os.fsencode(target.name):
                    _clear(folder)
        except OSError:
            continue  # in use, owned by another user, or not a staging folder


def _clear(folder: Path) -> None:
    """Removes one of our staging folders.

    An old release in this folder is moved back. If it cannot be moved, it stays there.
    """
    ready, aside, removed = folder / READY, folder / ASIDE, folder / "removed"
    with suppress(OSError):
        for ready_path in ready.iterdir() if ready.is_dir() else ():
            old_path, target = aside / ready_path.name, folder.parent / ready_path.name
            # The old release goes back, unless one of the two already has its name; then only this one is removed.
            if os.path.lexists(old_path) and not any(is_at(target, entry.lstat()) for entry in (ready_path, old_path)):
                rename_new(old_path, target)
            if not _is_removable(ready_path):
                return  # another user put it at the target at the moment of the exchange
        if ready.is_dir():
            ready.rename(removed)  # from here on no further checks are needed, even after repeated crashes
        for entry in folder.iterdir():
            if entry.is_dir() and not entry.is_symlink():
                _remove(entry)
            elif entry.name != LOCK:
                entry.unlink()
        (folder / LOCK).unlink(missing_ok=True)  # last: otherwise no other run would continue the removal
        folder.rmdir()


def _remove(folder: Path) -> None:
    """Removes a directory to which remote workers may still be writing. They do not know that the run has ended."""
    # The directory is renamed first, so that workers cannot create new files in it.
    renamed_folder = folder.rename(folder.with_name(uuid4().hex))
    shutil.rmtree(renamed_folder, ignore_errors=True)
    if renamed_folder.exists():
        shutil.rmtree(renamed_folder)  # a worker created a file meanwhile


def move_into_place(ready: Path, target: Path, folder: Path, *, force: bool) -> None:
    """Moves the built release to the target.

    Only `force` allows a replacement, and only a release may be replaced.
    """
    sync(*(ready.rglob("*") if ready.is_dir() else ()), ready)
    ready_path = folder / READY / target.name
    ready_path.parent.mkdir()
    ready.rename(ready_path)
    try:
        if force and os.path.lexists(target):
            check_target(target, force=True)
            _replace(ready_path, target, folder / ASIDE / target.name)
        else:
            rename_new(ready_path, target)
    except FileExistsError as error:
        raise TargetError(
            f"{str(target)!r} appeared during the publication, and is not replaced; choose another name.",
            code="target-appeared",
            fields={"file": str(target)},
        ) from error
    sync(target.parent)


def _replace(ready_path: Path, target: Path, aside: Path) -> None:
    """Replaces the old release. It is first checked again, while no other run can change it."""
    if exchange(ready_path, target):
        if not _is_removable(ready_path):
            exchange(ready_path, target)
            raise _make_replace_error(target)
        return
    aside.parent.mkdir()
    target.rename(aside)
    if not _is_removable(aside):
        raise _make_replace_error(target)
    try:
        rename_new(ready_path, target)
    except FileExistsError as error:
        raise TargetError(
            f"another file appeared as {str(target)!r} during the replacement; the old release is now "
            f"{str(aside)!r}, and the next run here moves it back if its name is free.",
            code="target-appeared",
            fields={"file": str(target), "old_release": str(aside)},
        ) from error


def place_file(text: str, target: Path, what: str, *, force: bool, mode: int = 0o666) -> None:
    """Writes a small file, complete or not at all. An existing file stays unless it may be replaced."""

    def write(path: Path) -> None:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(text)

    place_with_writer(write, target, what, force=force)


def place_with_writer(write: Callable[[Path], None], target: Path, what: str, *, force: bool) -> None:
    """Writes a file beside its target, and renames the file when it is complete."""
    remove_stale(target)
    try:
        with make_staging_folder(target) as folder:
            staged_file = folder / f"file{target.suffix}"  # some writers choose the format by the ending
            write(staged_file)
            sync(staged_file)
            (os.replace if force else rename_new)(staged_file, target)
    except OSError as error:
        raise TargetError(
            f"{what} {str(target)!r} cannot be written: {explain_os_error(error)}.",
            code="unwritable-file",
            fields={"file": str(target), "reason": explain_os_error(error)},
        ) from error


def is_at(target: Path, built_status: os.stat_result) -> bool:
    """Whether the built file or directory is at the target. A rename does not change its identity."""
    with suppress(OSError):
        return os.path.samestat(target.stat(), built_status)
    return False


def sync(*paths: Path) -> None:
    """Flushes files or directory entries to the disk. After a crash, no file name then refers to incomplete content."""
    if len(paths) == 1:
        _sync(*paths)
        return
    with ThreadPoolExecutor() as pool:  # flushing many files at once takes a disk as long as flushing one
        list(pool.map(_sync, paths))


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
