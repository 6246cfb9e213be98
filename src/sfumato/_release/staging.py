"""A private place beside the target in which a release is built, so that it appears whole or not at all.

Everything is written below a hidden directory `.sfumato-*` next to the target and moved into place by renaming. A lock
tells a run that is alive from one that crashed; what a crashed run left behind is removed by the next to the same
target. Never what another target's left: not every file system tells a machine which locks another one holds.

The names in the hidden directory say how far a run came, at whatever moment it is killed. `ready/NAME` is the whole new
release, until it changes places with the old one: then it is that. Where there is no such step, the old release is
`aside/NAME` while the new one takes its place; if both are there, it goes back.
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
    """Refuse a target that cannot be written, exists, or is something else than a release."""
    if target.name in ("", ".."):
        raise TargetError(f"{str(target)!r} is no name for a release; choose a new directory, or a name with .zip.")
    if not target.parent.is_dir():
        raise TargetError(f"the directory {str(target.parent)!r} does not exist; create it first.")
    check_outside(target, "the release")
    if not os.path.lexists(target):
        _check_ending(target)
        return
    if not force:
        raise TargetError(f"{str(target)!r} exists; choose another name, or replace it with `force=True`.")
    if not _is_replaceable(target):
        raise _make_replace_error(target)


def _check_ending(target: Path) -> None:
    """Refuse the name of a file for a directory: who sees it later would open it with a program for such files."""
    if target.suffix.lower() in FILE_ENDINGS and target.suffix != ".zip":
        raise TargetError(
            f"{str(target)!r} is the name of a file, and a release is a directory with several; choose a name without "
            f"{target.suffix}, or one that ends in .zip."
        )


def check_outside(path: Path, what: str) -> None:
    """Refuse a place inside of a release: it would go out with it, and the release would no longer verify."""
    if any(_is_release(folder / MANIFEST) for folder in path.resolve().parents):
        raise TargetError(f"{what} {str(path)!r} would lie in a release; keep it in another place.")


def _is_release(manifest: Path) -> bool:
    """Whether a release lies here, also one that was edited: what is not known to be something else is one."""
    if not manifest.is_file():
        return False
    try:
        return "sfumato" in json.loads(manifest.read_bytes())
    except (OSError, ValueError, TypeError, RecursionError):
        return True


def _make_replace_error(target: Path) -> TargetError:
    return TargetError(f"{str(target)!r} exists and is not a release, so it is not replaced; choose another name.")


def check_plan_file(plan_file: Path | None, target: Path) -> None:
    """Refuse a plan file that cannot be written, or that would lie in the release and be published or lost with it."""
    if plan_file is None:
        return
    if not plan_file.parent.is_dir():
        raise TargetError(f"the directory {str(plan_file.parent)!r} of the plan file does not exist; create it first.")
    if target.resolve() in (plan_file.resolve(), *plan_file.resolve().parents):
        raise TargetError("the plan file is private, so it cannot lie in the release; keep it in another place.")
    check_outside(plan_file, "the plan file")


def _is_replaceable(path: Path) -> bool:
    """Whether a file is a packed release, or a directory is empty or holds a release and nothing else."""
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
    """Whether what was at the target may be removed; a link may, because what it leads to stays."""
    return path.is_symlink() or _is_replaceable(path)


def _is_packed_release(path: Path) -> bool:
    try:
        with zipfile.ZipFile(path) as archive:
            return MANIFEST in (names := archive.namelist()) and set(names) <= {MANIFEST, *KNOWN_FILES}
    except (OSError, zipfile.BadZipFile):
        return False


@contextmanager
def make_staging_folder(target: Path) -> Iterator[Path]:
    """A fresh private directory beside the target; it is gone afterwards, whatever happens."""
    folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=target.parent)).absolute()
    try:
        lock = (folder / f"{LOCK}.new").open("wb")
    except OSError:
        folder.rmdir()
        raise
    with lock:
        try:
            # Held before it has the name by which others look for it: a lock that can be had is a dead one.
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            lock.write(os.fsencode(target.name))
            lock.flush()
            Path(lock.name).rename(folder / LOCK)
            yield folder
        finally:
            _clear(folder)


def remove_stale(target: Path) -> None:
    """Remove what crashed runs to a target left behind: workshops whose lock nobody holds."""
    for folder in target.parent.glob(f"{PREFIX}*"):
        try:
            with (folder / LOCK).open("r+b") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if lock.read() == os.fsencode(target.name):
                    _clear(folder)
        except OSError:
            continue  # in use, not ours to remove, or no workshop at all


def _clear(folder: Path) -> None:
    """Remove a workshop of ours, and nothing that was there before it: what cannot go back is left where it is."""
    ready, aside, removed = folder / READY, folder / ASIDE, folder / "removed"
    with suppress(OSError):
        for ready_path in ready.iterdir() if ready.is_dir() else ():
            old_path, target = aside / ready_path.name, folder.parent / ready_path.name
            # The old one goes back, unless one of the two has its name already and is to lose this one only.
            if os.path.lexists(old_path) and not any(is_at(target, entry.lstat()) for entry in (ready_path, old_path)):
                rename_new(old_path, target)
            if not _is_removable(ready_path):
                return  # it is of somebody who put it at the target at the moment when places were changed
        if ready.is_dir():
            ready.rename(removed)  # from here on nothing has to be asked again, however often this is killed
        for entry in folder.iterdir():
            if entry.is_dir() and not entry.is_symlink():
                _remove(entry)
            elif entry.name != LOCK:
                entry.unlink()
        (folder / LOCK).unlink(missing_ok=True)  # last, because without it nobody would go on with the rest
        folder.rmdir()


def _remove(folder: Path) -> None:
    """Remove a directory in which workers elsewhere may go on writing, who have not heard of the end."""
    # Where they do not look, so that they begin no new file.
    renamed_folder = folder.rename(folder.with_name(uuid4().hex))
    shutil.rmtree(renamed_folder, ignore_errors=True)
    if renamed_folder.exists():
        shutil.rmtree(renamed_folder)  # one had been on the way


def move_into_place(ready: Path, target: Path, folder: Path, *, force: bool) -> None:
    """Give what was built its name: nothing is replaced without force, and nothing but a release with it."""
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
            f"{str(target)!r} appeared while the release was made, and is not replaced; choose another name."
        ) from error
    sync(target.parent)


def _replace(ready_path: Path, target: Path, aside: Path) -> None:
    """Put the new release where the old one is, which is looked at once more when nobody can change it any longer."""
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
            f"something else appeared as {str(target)!r} while it was replaced; the old release is {str(aside)!r} now, "
            "and comes back with the next run here if its name is free."
        ) from error


def place_file(text: str, target: Path, what: str, *, force: bool, mode: int = 0o666) -> None:
    """Write a small file, whole or not at all; what is there stays unless it is to be replaced."""

    def write(path: Path) -> None:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(text)

    place_with_writer(write, target, what, force=force)


def place_with_writer(write: Callable[[Path], None], target: Path, what: str, *, force: bool) -> None:
    """Let a file be written beside its target, and give it its name when it is whole."""
    remove_stale(target)
    try:
        with make_staging_folder(target) as folder:
            staged_file = folder / f"file{target.suffix}"  # some writers go by the ending
            write(staged_file)
            sync(staged_file)
            (os.replace if force else rename_new)(staged_file, target)
    except OSError as error:
        raise TargetError(f"{what} {str(target)!r} cannot be written: {explain_os_error(error)}.") from error


def is_at(target: Path, built_status: os.stat_result) -> bool:
    """Whether what was built is at the target: a file or directory stays the same one under every name."""
    with suppress(OSError):
        return os.path.samestat(target.stat(), built_status)
    return False


def sync(*paths: Path) -> None:
    """Bring files or the names in a directory to the disk, so that a crash leaves no whole name on half a file."""
    with ThreadPoolExecutor() as pool:  # a disk takes many at once as quickly as one
        list(pool.map(_sync, paths))


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
