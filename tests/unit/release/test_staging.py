"""A release appears whole or not at all, and a run removes only what a crashed one left behind."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from command_line import BOUND, content, people, publishing, succeed, write_csv
from sfumato import BreachBound, LocalEngine, Request, Schema, TargetError, publish
from sfumato.release.staging import (
    LOCK,
    PREFIX,
    check_plan_file,
    check_target,
    move_into_place,
    remove_stale,
    workshop,
)


def test_workshop_is_private_beside_the_target_and_gone_afterwards(desk: Path) -> None:
    with workshop(desk / "release") as folder:
        assert folder.parent == desk
        assert folder.name.startswith(PREFIX)
        assert folder.stat().st_mode & 0o777 == 0o700
        (folder / "draft").mkdir()
    assert content(desk) == {}


def test_workshop_is_gone_after_a_failure(desk: Path) -> None:
    def stop() -> None:
        with workshop(desk / "release") as folder:
            (folder / "draft").touch()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stop()
    assert content(desk) == {}


def test_stale_workshop_is_removed_by_the_next_run(desk: Path) -> None:
    stale = desk / f"{PREFIX}crashed"
    stale.mkdir()
    (stale / LOCK).touch()
    (stale / "secrets").touch()
    with workshop(desk / "release"):
        assert not stale.exists()


def test_live_workshop_is_kept_by_another_run(desk: Path) -> None:
    with workshop(desk / "release") as live, workshop(desk / "other") as other:
        assert live.is_dir()
        assert other != live
        remove_stale(desk)
        assert live.is_dir()
        assert other.is_dir()


def test_workshop_locked_by_another_process_is_kept(desk: Path) -> None:
    live = desk / f"{PREFIX}live"
    live.mkdir()
    with (live / LOCK).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        remove_stale(desk)
        assert live.is_dir()
    remove_stale(desk)
    assert not live.exists()


@pytest.mark.parametrize("make", [Path.touch, Path.mkdir], ids=["file", "directory without a lock"])
def test_what_is_no_workshop_is_kept(make: Callable[[Path], None], desk: Path) -> None:
    make(desk / f"{PREFIX}notes")
    before = content(desk)
    remove_stale(desk)
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
    with pytest.raises(TargetError, match="exists; choose another name, or replace it with --force"):
        check_target(desk / "release", force=False)


@pytest.mark.parametrize("make", [Path.mkdir, _published], ids=["empty directory", "release"])
def test_force_replaces_a_release_or_nothing(make: Callable[[Path], Any], desk: Path) -> None:
    make(desk / "release")
    check_target(desk / "release", force=True)
    (desk / "release" / "notes.txt").touch()
    with pytest.raises(TargetError, match="is not a release, so it is not replaced"):
        check_target(desk / "release", force=True)


def test_force_keeps_a_directory_of_something_else(desk: Path) -> None:
    (desk / "photos").mkdir()
    (desk / "photos" / "photo.jpg").touch()
    with pytest.raises(TargetError, match="is not a release, so it is not replaced"):
        check_target(desk / "photos", force=True)


@pytest.mark.parametrize("plan_file", ["release", "release/plan", "release/deep/plan", "other/../release/plan"])
def test_plan_file_cannot_lie_in_the_release(plan_file: str, desk: Path) -> None:
    (desk / plan_file).parent.mkdir(parents=True, exist_ok=True)
    with pytest.raises(TargetError, match=r"cannot lie in the release"):
        check_plan_file(Path(plan_file), Path("release"))


@pytest.mark.parametrize("plan_file", [None, Path("plan"), Path("release.plan")])
def test_plan_file_may_lie_beside_the_release(plan_file: Path | None, desk: Path) -> None:
    check_plan_file(plan_file, Path("release"))


# -------------------------------------------------------------------------------------------------------------- moving


def test_old_release_is_replaced_as_a_whole(desk: Path) -> None:
    _release(desk / "release", "old")
    (desk / "release" / "more").touch()
    with workshop(desk / "release") as folder:
        move_into_place(_release(folder / "built", "new"), desk / "release", folder)
    assert content(desk) == {"release": None, "release/datapackage.json": b"new"}


def test_old_release_comes_back_when_the_new_one_cannot_be_moved(desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _release(desk / "release", "old")

    def refuse(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    with workshop(desk / "release") as folder:
        built = _release(folder / "built", "new")
        monkeypatch.setattr(Path, "replace", refuse)
        with pytest.raises(OSError, match="No space"):
            move_into_place(built, desk / "release", folder)
    assert content(desk) == {"release": None, "release/datapackage.json": b"old"}


# -------------------------------------------------------------------------------------------------------- whole or not


@pytest.mark.parametrize("stage", ["counting", "rewriting", "writing"])
def test_failure_in_the_middle_leaves_the_old_release_whole(stage: str, desk: Path) -> None:
    table = write_csv(desk / "people.csv", people())
    succeed(*publishing(table))
    before = content(desk)

    def fail(current: str, done: int, total: int | None) -> None:
        if current == stage:
            raise OSError(28, "No space left on device")

    request = Request(table, Schema.of("disease"), BreachBound("1/10", "1/2"))
    with pytest.raises(TargetError, match=r"cannot be written to .*release': No space left on device"):
        publish(request, desk / "release", force=True, plan_file=desk / "plan", engine=LocalEngine(progress=fail))
    assert content(desk) == before


def test_failure_at_the_last_step_takes_the_plan_file_back(desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = write_csv(desk / "people.csv", people())
    before = content(desk)
    seen = []

    def refuse(path: Path, target: Path) -> None:
        seen.append((desk / "plan").exists())
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", refuse)
    request = Request(table, Schema.of("disease"), BreachBound("1/10", "1/2"))
    with pytest.raises(TargetError):
        publish(request, desk / "release", plan_file=desk / "plan")
    assert seen == [True]  # no release is ever out whose key is lost
    assert content(desk) == before


KILLED = """
import os, signal, sys
from sfumato import BreachBound, LocalEngine, Request, Schema, publish
def crash(stage, done, total):
    if stage == "writing":
        os.kill(os.getpid(), signal.SIGKILL)
request = Request(sys.argv[1], Schema.of("disease"), BreachBound("1/10", "1/2"))
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
    assert set(os.listdir(desk)) == {"people.csv", "release", "another"}
