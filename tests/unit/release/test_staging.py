"""A release appears whole or not at all, and a run removes only what a crashed one left behind."""

from __future__ import annotations

import ctypes
import fcntl
import functools
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from accepted import ALL_ACCEPTED
from command_line import BOUND, content, people, publishing, succeed, write_csv
from moments import run_scenario
from refusals import refuses
from releases import people as small_table
from sfumato import BreachBound, LocalEngine, Request, Schema, TargetError, publish
from sfumato._engines import shuffle
from sfumato._release import atomic_renames, staging
from sfumato._release.atomic_renames import rename_new
from sfumato._release.release_folder import pack
from sfumato._release.staging import (
    LOCK,
    PREFIX,
    check_private_file,
    check_target,
    make_staging_folder,
    move_into_place,
    remove_stale,
)

REQUEST = Request(
    small_table(150), schema=Schema.of("disease", public="*"), spec=BreachBound("1/10", "1/2"), **ALL_ACCEPTED
)


def test_workshop_is_private_beside_the_target_and_gone_afterwards(desk: Path) -> None:
    with make_staging_folder(desk / "release") as folder:
        assert folder.parent == desk
        assert folder.name.startswith(PREFIX)
        assert folder.stat().st_mode & 0o777 == 0o700
        (folder / "draft").mkdir()
    assert content(desk) == {}


def test_workshop_is_gone_after_a_failure(desk: Path) -> None:
    def stop() -> None:
        with make_staging_folder(desk / "release") as folder:
            (folder / "draft").touch()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stop()
    assert content(desk) == {}


def test_stale_workshop_is_removed_by_the_next_run(desk: Path) -> None:
    stale = desk / f"{PREFIX}crashed"
    stale.mkdir()
    (stale / LOCK).write_text("release")
    (stale / "secrets").touch()
    succeed(*publishing(write_csv(desk / "people.csv", people())))
    assert set(os.listdir(desk)) == {"people.csv", "release"}


@pytest.mark.parametrize("name", ["release2", "rel", "", "release\n"])
def test_stale_workshop_of_another_target_is_kept(name: str, desk: Path) -> None:
    """On a file system that several machines share, its run may be alive on another one."""
    other = desk / f"{PREFIX}release"
    other.mkdir()
    (other / LOCK).write_text(name)
    remove_stale(desk / "release")
    assert other.is_dir()


def test_stale_workshop_of_a_name_that_is_no_text_is_removed(desk: Path) -> None:
    target = desk / os.fsdecode(b"r\xe9sum\xe9")
    with make_staging_folder(target) as folder:
        shutil.copytree(folder, desk / f"{PREFIX}crashed")
    remove_stale(target)
    assert content(desk) == {}


def test_live_workshop_is_kept_by_another_run(desk: Path) -> None:
    with make_staging_folder(desk / "release") as live, make_staging_folder(desk / "other") as other:
        assert live.is_dir()
        assert other != live
        remove_stale(desk / "release")
        assert live.is_dir()
        assert other.is_dir()


def test_workshop_locked_by_another_process_is_kept(desk: Path) -> None:
    live = desk / f"{PREFIX}live"
    live.mkdir()
    (live / LOCK).write_text("release")
    with (live / LOCK).open("r+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        remove_stale(desk / "release")
        assert live.is_dir()
    remove_stale(desk / "release")
    assert not live.exists()


def test_worker_that_goes_on_while_its_dead_run_is_removed_leaves_nothing(
    desk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cluster may hear late that a run was killed: its workers go on to the next file where they were told to."""
    spool = desk / f"{PREFIX}crashed" / "spool"
    spool.mkdir(parents=True)
    (spool.parent / LOCK).write_text("release")
    (spool / "0.parquet").touch()
    unlink = os.unlink

    def unlink_beside_a_worker(*given: Any, **named: Any) -> None:
        unlink(*given, **named)
        with suppress(FileNotFoundError):
            (spool / "1.parquet").touch()

    monkeypatch.setattr(os, "unlink", unlink_beside_a_worker)
    remove_stale(desk / "release")
    assert content(desk) == {}


@pytest.mark.parametrize("make", [Path.touch, Path.mkdir], ids=["file", "directory without a lock"])
def test_what_is_no_workshop_is_kept(make: Callable[[Path], None], desk: Path) -> None:
    make(desk / f"{PREFIX}notes")
    before = content(desk)
    remove_stale(desk / "release")
    assert content(desk) == before


# ------------------------------------------------------------------------------------------------------------- targets


def _release(path: Path, text: str = "old") -> Path:
    path.mkdir()
    (path / "datapackage.json").write_text(text)
    return path


def _published(path: Path) -> None:
    succeed(*publishing(write_csv(path.parent / "people.csv", people()), out=path))


def test_target_may_be_new(desk: Path) -> None:
    check_target(desk / "release", force=False)


@pytest.mark.parametrize("make", [Path.touch, Path.mkdir, _release], ids=["file", "directory", "release"])
def test_existing_target_needs_force(make: Callable[[Path], Any], desk: Path) -> None:
    make(desk / "release")
    with refuses(TargetError, "target-exists", file=str(desk / "release")):
        check_target(desk / "release", force=False)


@pytest.mark.parametrize("force", [False, True])
def test_link_to_nowhere_is_something_that_exists(force: bool, desk: Path) -> None:
    (desk / "release").symlink_to("nowhere")
    with refuses(TargetError, "target-not-a-release" if force else "target-exists", file="release"):
        check_target(Path("release"), force=force)


@pytest.mark.parametrize("name", [".", "..", "/", "release/.."])
def test_target_needs_a_name_of_its_own(name: str, desk: Path) -> None:
    with refuses(TargetError, "invalid-target", file=str(Path(name))):
        check_target(Path(name), force=True)


@pytest.mark.parametrize("make", [Path.mkdir, _published], ids=["empty directory", "release"])
def test_force_replaces_a_release_or_nothing(make: Callable[[Path], Any], desk: Path) -> None:
    make(desk / "release")
    check_target(desk / "release", force=True)
    (desk / "release" / "notes.txt").touch()
    with refuses(TargetError, "target-not-a-release", file=str(desk / "release")):
        check_target(desk / "release", force=True)


def test_force_keeps_a_directory_of_something_else(desk: Path) -> None:
    (desk / "photos").mkdir()
    (desk / "photos" / "photo.jpg").touch()
    with refuses(TargetError, "target-not-a-release", file=str(desk / "photos")):
        check_target(desk / "photos", force=True)


@pytest.mark.parametrize("plan_file", ["release", "release/plan", "release/deep/plan", "other/../release/plan"])
def test_plan_file_cannot_lie_in_the_release(plan_file: str, desk: Path) -> None:
    (desk / plan_file).parent.mkdir(parents=True, exist_ok=True)
    with refuses(TargetError, "inside-release", file=plan_file):
        check_private_file(Path(plan_file), Path("release"), "the plan file")


@pytest.mark.parametrize("plan_file", [None, Path("plan"), Path("release.plan")])
def test_plan_file_may_lie_beside_the_release(plan_file: Path | None, desk: Path) -> None:
    check_private_file(plan_file, Path("release"), "the plan file")


# -------------------------------------------------------------------------------------------------------------- moving


@pytest.fixture(params=["in one step", "in several"])
def renaming(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """A system that can rename without replacing, and let two things change places; and one that cannot."""
    if request.param == "in several":
        monkeypatch.setattr(atomic_renames, "renameat2", lambda old, new, flags: False)
    elif not _has_renameat2():
        pytest.skip("no renameat2 here")
    return str(request.param)


def _has_renameat2() -> bool:
    return sys.platform == "linux" and hasattr(ctypes.CDLL(None), "renameat2")


def _photos(path: Path) -> None:
    path.mkdir()
    (path / "photo.jpg").write_bytes(b"holiday")


def _link(path: Path) -> None:
    path.symlink_to("elsewhere")


THINGS: dict[str, Callable[[Path], Any]] = {
    "file": lambda path: path.write_text("precious"),
    "empty directory": Path.mkdir,
    "photos": _photos,
    "link": _link,
    "release": lambda path: _packed(path) if path.suffix else _unpacked(path),
}
every_thing = pytest.mark.parametrize("thing", THINGS)
every_target = pytest.mark.parametrize("target", ["release", "release.zip"])


@functools.cache
def _made() -> dict[str, bytes]:
    """The files of a release."""
    with tempfile.TemporaryDirectory() as folder:
        publish(REQUEST, Path(folder) / "release")
        return {path.name: path.read_bytes() for path in (Path(folder) / "release").iterdir()}


def _unpacked(path: Path, readme: str = "another one") -> Path:
    path.mkdir()
    for name, written in (_made() | {"README.md": readme.encode()}).items():
        (path / name).write_bytes(written)
    return path


def _packed(path: Path, readme: str = "another one") -> Path:
    folder = _unpacked(path.with_suffix(".unpacked"), readme)
    pack(folder, path)
    shutil.rmtree(folder)
    return path


def _built(path: Path, target: str, readme: str) -> Path:
    return _packed(path.with_suffix(".zip"), readme) if target.endswith(".zip") else _unpacked(path, readme)


def test_new_name_is_given_only_if_it_is_free(renaming: str, desk: Path) -> None:
    for number, make in enumerate((_photos, Path.touch, _link)):
        make(Path(f"old-{number}"))
        rename_new(Path(f"old-{number}"), Path(f"new-{number}"))
    before = content(desk)
    assert sorted(os.listdir(desk)) == ["new-0", "new-1", "new-2"]
    for old in range(3):
        for new in set(range(3)) - {old}:
            with pytest.raises(FileExistsError):
                rename_new(Path(f"new-{old}"), Path(f"new-{new}"))
    assert content(desk) == before


def test_directory_that_fills_at_the_last_moment_is_not_replaced(desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where names are looked at first and given then."""
    monkeypatch.setattr(atomic_renames, "renameat2", lambda old, new, flags: False)
    monkeypatch.setattr(os.path, "lexists", lambda path: False)
    _photos(desk / "old")
    for name, make in {"photos": _photos, "file": Path.touch}.items():
        make(desk / name)
        with pytest.raises(FileExistsError):
            rename_new(desk / "old", desk / name)
    assert content(desk / "photos") == {"photo.jpg": b"holiday"}


def _appearing(make: Callable[[], Any]) -> LocalEngine:
    """An engine during whose work something happens once."""
    happened: list[Any] = []

    def progress(stage: str, done: int, total: int | None) -> None:
        if stage == "writing" and not happened:
            happened.append(make() or True)

    return LocalEngine(progress=progress)


@every_target
def test_what_appears_at_the_target_while_publishing_is_never_replaced(target: str, renaming: str, desk: Path) -> None:
    engine = _appearing(lambda: _photos(desk / target))
    with refuses(TargetError, "target-appeared", file=target):
        publish(REQUEST, target, plan_file="plan", engine=engine)
    assert content(desk) == {target: None, f"{target}/photo.jpg": b"holiday"}


@every_thing
@every_target
def test_nothing_is_replaced_without_force(thing: str, target: str, renaming: str, desk: Path) -> None:
    THINGS[thing](desk / target)
    before = content(desk)
    with make_staging_folder(desk / target) as folder, refuses(TargetError, "target-appeared", file=str(desk / target)):
        move_into_place(_built(folder / "built", target, "new"), desk / target, folder, force=False)
    assert content(desk) == before
    assert (thing == "link") == (desk / target).is_symlink()


@every_target
def test_force_replaces_nothing_that_took_the_place_of_a_release(target: str, renaming: str, desk: Path) -> None:
    _built(desk / "release", target, "old")
    before = content(desk)

    def take_its_place() -> None:
        (desk / target).rename("moved")
        _photos(desk / target)

    with refuses(TargetError, "target-not-a-release", file=target):
        publish(REQUEST, target, force=True, plan_file="plan", engine=_appearing(take_its_place))
    assert content(desk / target) == {"photo.jpg": b"holiday"}
    shutil.rmtree(target)
    (desk / "moved").rename(target)
    assert content(desk) == before


@every_thing
@every_target
def test_force_replaces_a_release_or_an_empty_directory(thing: str, target: str, renaming: str, desk: Path) -> None:
    THINGS[thing](desk / target)
    before = content(desk)
    with make_staging_folder(desk / target) as folder:
        built = _built(folder / "built", target, "new")
        if thing in ("release", "empty directory"):
            move_into_place(built, desk / target, folder, force=True)
        else:
            with refuses(TargetError, "target-not-a-release", file=str(desk / target)):
                move_into_place(built, desk / target, folder, force=True)
    if thing in ("release", "empty directory"):
        _built(desk / "expected", target, "new")
        (desk / "expected").with_suffix((desk / target).suffix).rename(desk / f"expected-{target}")
        assert content(desk / f"expected-{target}") == content(desk / target)
        assert set(os.listdir(desk)) == {target, f"expected-{target}"}
    else:
        assert content(desk) == before


@every_target
def test_what_comes_after_the_last_look_goes_back_to_its_place(
    target: str, renaming: str, desk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between that and the rename there is a moment in which the target can become something else."""
    _built(desk / "release", target, "old")

    def look_and_lose(path: Path, *, force: bool) -> None:
        path.rename("moved")
        _photos(path)

    monkeypatch.setattr(staging, "check_target", look_and_lose)
    with (
        make_staging_folder(desk / target) as folder,
        refuses(TargetError, "target-not-a-release", file=str(desk / target)),
    ):
        move_into_place(_built(folder / "built", target, "new"), desk / target, folder, force=True)
    assert set(os.listdir(desk)) == {target, "moved"}
    assert content(desk / target) == {"photo.jpg": b"holiday"}


def test_old_release_whose_name_is_taken_between_two_renames_is_kept_and_comes_back(
    desk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = content(_unpacked(desk / "release"))

    def take(old_name: Path, new_name: Path) -> None:
        if new_name == desk / "release" and not new_name.exists():
            _photos(new_name)
        atomic_renames.rename_new(old_name, new_name)

    monkeypatch.setattr(atomic_renames, "renameat2", lambda old, new, flags: False)
    monkeypatch.setattr(staging, "rename_new", take)
    with refuses(TargetError, "target-appeared", file=str(desk / "release")) as refused:
        publish(REQUEST, desk / "release", force=True)
    assert str(refused.value.fields["old_release"]).endswith("aside/release")
    monkeypatch.setattr(staging, "rename_new", atomic_renames.rename_new)
    remove_stale(desk / "release")
    assert content(desk / "release") == {"photo.jpg": b"holiday"}
    shutil.rmtree(desk / "release")
    with refuses(TargetError, "target-exists", file=str(desk / "release")):
        publish(REQUEST, desk / "release")
    assert content(desk) == {"release": None, **{f"release/{name}": each for name, each in old.items()}}


def test_link_to_a_release_is_replaced_and_the_release_stays(renaming: str, desk: Path) -> None:
    first = content(_unpacked(desk / "first"))
    (desk / "release").symlink_to("first")
    publish(REQUEST, "release", force=True)
    assert not (desk / "release").is_symlink()
    assert set(os.listdir(desk)) == {"first", "release"}
    assert content(desk / "first") == first


def test_names_are_on_the_disk_before_the_old_release_goes(desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _unpacked(desk / "release")
    synced: list[tuple[bool, bool]] = []
    inode, real = desk.stat().st_ino, os.fsync

    def sync(descriptor: int) -> None:
        if os.fstat(descriptor).st_ino == inode:
            synced.append(((desk / "release").is_dir(), bool(list(desk.glob(f"{PREFIX}*/*/release")))))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", sync)
    publish(REQUEST, desk / "release", force=True)
    assert synced == [(True, True)]


@pytest.mark.parametrize("target", ["release", "release.zip"])
@pytest.mark.parametrize("force", [False, True])
def test_every_file_is_on_the_disk_before_the_release_has_its_name(
    target: str, force: bool, desk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if force:
        THINGS["release"](desk / target)
    synced: set[int] = set()
    built: list[int] = []
    real = {"fsync": os.fsync, "renameat2": atomic_renames.renameat2}

    def sync(descriptor: int) -> None:
        synced.add(os.fstat(descriptor).st_ino)
        real["fsync"](descriptor)

    def rename(old: Path, new: Path, flags: int) -> bool:
        built.extend(path.stat().st_ino for path in (old, *old.rglob("*")))
        assert set(built) <= synced
        return bool(real["renameat2"](old, new, flags))

    monkeypatch.setattr(os, "fsync", sync)
    monkeypatch.setattr(atomic_renames, "renameat2", rename)
    if target == "release":
        monkeypatch.setattr(shuffle, "FILE_ROWS", 40)  # so that there is a directory in it
    publish(REQUEST, desk / target, force=force, as_csv=True)
    assert len(built) == (1 if target == "release.zip" else 11)


# -------------------------------------------------------------------------------------------------------- whole or not


@pytest.mark.parametrize("stage", ["counting", "rewriting", "writing"])
def test_failure_in_the_middle_leaves_the_old_release_whole(stage: str, desk: Path) -> None:
    table = write_csv(desk / "people.csv", people())
    succeed(*publishing(table))
    before = content(desk)

    def fail(current: str, done: int, total: int | None) -> None:
        if current == stage:
            raise OSError(28, "No space left on device")

    request = Request(table, schema=Schema.of("disease", public="*"), spec=BreachBound("1/10", "1/2"), **ALL_ACCEPTED)
    with refuses(TargetError, "unwritable-file", reason="No space left on device"):
        publish(request, desk / "release", force=True, plan_file=desk / "plan", engine=LocalEngine(progress=fail))
    assert content(desk) == before


@pytest.mark.parametrize("is_out", [False, True], ids=["before the release is out", "after it"])
def test_failure_at_the_last_step_takes_the_plan_file_back_unless_the_release_is_out(
    is_out: bool, desk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, seen = content(desk), []

    def refuse(old: Path, new: Path) -> None:
        seen.append((desk / "plan").stat().st_size > 0)  # no release is ever out whose key is lost
        if is_out:
            atomic_renames.rename_new(old, new)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(staging, "rename_new", refuse)
    with refuses(TargetError, "unwritable-file", reason="No space left on device"):
        publish(REQUEST, desk / "release", plan_file=desk / "plan")
    assert seen == [True]
    if not is_out:
        assert content(desk) == before
        return
    monkeypatch.undo()
    publish(REQUEST, desk / "again", plan_file=desk / "plan")
    assert content(desk / "again") == content(desk / "release")


KILLED = """
import os, signal, sys
from sfumato import BreachBound, LocalEngine, Request, Schema, publish
def crash(stage, done, total):
    if stage == "writing":
        os.kill(os.getpid(), signal.SIGKILL)
accepted = dict.fromkeys(("accept_unique", "accept_uncovered"), "made up")
request = Request(sys.argv[1], schema=Schema.of("disease", public="*"), spec=BreachBound("1/10", "1/2"), **accepted)
publish(request, sys.argv[2], force=True, engine=LocalEngine(progress=crash))
"""


@pytest.mark.slow
def test_killed_run_leaves_the_old_release_whole_and_the_next_run_cleans_up(desk: Path) -> None:
    table = write_csv(desk / "people.csv", people())
    succeed(*publishing(table))
    old = content(desk / "release")
    killed = subprocess.run([sys.executable, "-c", KILLED, str(table), "release"], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert content(desk / "release") == old
    assert len(list(desk.glob(f"{PREFIX}*"))) == 1
    succeed("publish", table, "--out", "another", "--sensitive", "disease", *BOUND)
    assert len(list(desk.glob(f"{PREFIX}*"))) == 1  # not another run's to remove
    succeed(*publishing(table), "--force")
    assert set(os.listdir(desk)) == {"people.csv", "release", "another"}


@pytest.mark.slow
def test_release_survives_a_kill_at_many_moments_of_a_move(tmp_path: Path) -> None:
    """Directories and .zip, with and without force, by changing places and by two renames."""
    ends = [int(line) for line in run_scenario("moving", tmp_path, 11, "").split()]
    assert len(ends) == 8
    assert min(ends) > 50  # lines of all threads, also of those that bring one file each to the disk


@pytest.mark.full
@pytest.mark.parametrize(("step", "second"), [(1, ""), (4, "twice")], ids=["the move", "the run that cleans up too"])
def test_release_survives_a_kill_at_every_moment(step: int, second: str, tmp_path: Path) -> None:
    assert len(run_scenario("moving", tmp_path, step, second).split()) == 8


@pytest.mark.slow
def test_publishing_survives_a_kill_at_some_moments_and_no_key_is_lost(tmp_path: Path) -> None:
    assert int(run_scenario("publishing", tmp_path, 40, "release", 8)) > 150


@pytest.mark.full
@pytest.mark.parametrize("target", ["release", "release.zip"])
def test_publishing_survives_a_kill_at_every_moment_and_no_key_is_lost(target: str, tmp_path: Path) -> None:
    assert int(run_scenario("publishing", tmp_path, 1, target, 1)) > 150
