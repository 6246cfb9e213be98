"""Runs that are killed at one moment after another, and runs at the same moment, each in a process of its own.

A moment is a line of the modules that move a release and keep its key, just before it is executed. It is a program,
because a process with threads had better not be forked: `python moments.py SCENARIO FOLDER NUMBER ...`.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import count, product
from pathlib import Path
from typing import Any

import pyarrow as pa

from accepted import ALL_ACCEPTED
from sfumato import BreachBound, Release, Request, Schema, publish, read_journal
from sfumato._planning import plan_file
from sfumato._publish import journal_writer
from sfumato._release import atomic_renames, staging
from sfumato._release.release_folder import pack
from sfumato._release.staging import LOCK, PREFIX, make_staging_folder, move_into_place, remove_stale
from sfumato.errors import TargetError

WATCHED = {staging.__file__, atomic_renames.__file__, plan_file.__file__, journal_writer.__file__}


def run_scenario(*arguments: str | Path | int) -> str:
    """Run a scenario in a process of its own, and return what it printed."""
    ran = subprocess.run(
        [sys.executable, __file__, *map(str, arguments)], capture_output=True, text=True, check=False, timeout=600
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def forked(act: Callable[[], Any]) -> int:
    """Start to do something in a process of its own, and return its number."""
    child = os.fork()
    if child:
        return child
    try:
        act()
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def killed(act: Callable[[], Any], moment: int) -> bool:
    """Do something in a process that is killed at a moment; False if it ended before."""
    passed = count(1)  # by whichever thread: files are brought to the disk by several

    def watch(frame: Any, event: str, argument: Any) -> Any:
        if event == "line" and next(passed) == moment:
            os.kill(os.getpid(), signal.SIGKILL)
        return watch

    def follow(frame: Any, event: str, argument: Any) -> Any:
        return watch if frame.f_code.co_filename in WATCHED else None

    def act_watched() -> None:
        threading.settrace(follow)
        sys.settrace(follow)
        act()

    _, status = os.waitpid(forked(act_watched), 0)
    if os.WIFSIGNALED(status):
        return True
    assert status == 0, "the run failed by itself"
    return False


def moments(act: Callable[[], Callable[[], Any]], when: Sequence[int]) -> Iterator[tuple[int, bool]]:
    """Kill what is made anew for each moment, and say whether it was; the last time it was not."""
    for moment in when:
        was_killed = killed(act(), moment)
        yield moment, was_killed
        if not was_killed:
            return


def request() -> Request:
    """A small table to publish."""
    table = pa.table({"age": [20, 30, 40] * 20, "disease": ["flu", "HIV", "cold", "flu"] * 15})
    return Request(table, schema=Schema.of("disease", public="*"), spec=BreachBound("1/10", "1/2"), **ALL_ACCEPTED)


def content(path: Path) -> Any:
    """What a release holds, or None if there is none."""
    if path.is_dir():
        return {each.name: each.read_bytes() for each in path.iterdir()}
    return path.read_bytes() if path.exists() else None


def leftovers(desk: Path) -> list[str]:
    """What workshops have left behind, but for a directory of a run that was killed before it held its lock."""
    return [str(path) for path in desk.glob(f"{PREFIX}*/*") if path.name != f"{LOCK}.new"]


# ------------------------------------------------------------------------------------------------------------ scenarios


def moving(base: Path, step: int, second: str) -> None:
    """Whatever moment a move is killed at: the old release or the new one is there, whole, after the next run.

    With `second`, the next run is killed too, at each of its moments.
    """
    publish(request(), base / "first", unsafe_test_key="07" * 32)
    for text in ("old", "new"):
        (base / text).mkdir()
        shutil.copytree(base / "first", base / text / "release")
        (base / text / "release" / "README.md").write_text(text)
        pack(base / text / "release", base / text / "release.zip")
    present = atomic_renames.renameat2
    cases = product((present, absent), ("release", "release.zip"), (True, False))
    for number, (atomic_renames.renameat2, name, force) in enumerate(cases):
        print(_moving(base, name, range(1 + number % step, sys.maxsize, step), force=force, second=bool(second)))


def _moving(base: Path, name: str, when: Sequence[int], *, force: bool, second: bool) -> int:
    desk = base / "desk"
    old, new = (content(base / text / name) for text in ("old", "new"))
    before = old if force else None

    def copy(text: str, to: Path) -> None:
        made = base / text / name
        (shutil.copytree if made.is_dir() else shutil.copy)(made, to)

    def move() -> None:
        with make_staging_folder(desk / name) as folder:
            copy("new", folder / "built")
            move_into_place(folder / "built", desk / name, folder, force=force)

    def afresh() -> Callable[[], None]:
        shutil.rmtree(desk, ignore_errors=True)
        desk.mkdir()
        if force:
            copy("old", desk / name)
        return move

    for moment, was_killed in moments(afresh, when):
        there = content(desk / name)
        assert there in ((before, new) if was_killed else (new,)) or (
            there is None and atomic_renames.renameat2 is absent
        )
        again = 1
        while second and killed(lambda: remove_stale(desk / name), again):
            again += 1
        remove_stale(desk / name)
        # What is there stays; what was about to be replaced comes back; what was not there does not appear.
        assert content(desk / name) == (before if there is None else there), moment
        assert leftovers(desk) == [], moment
    return moment


def publishing(base: Path, step: int, name: str, first: str) -> None:
    """Whatever moment publishing is killed at: a release that is out can be repeated, and the next run goes on."""
    desk, (made, again) = base / "desk", (f"{text}{Path(name).suffix}" for text in ("first", "again"))
    publish(request(), base / made, unsafe_test_key="07" * 32)
    old = content(base / made)

    def afresh() -> Callable[[], None]:
        shutil.rmtree(desk, ignore_errors=True)
        desk.mkdir()
        (shutil.copytree if (base / made).is_dir() else shutil.copy)(base / made, desk / name)
        return lambda: publish(request(), desk / name, force=True, plan_file=desk / "plan")

    for moment, _ in moments(afresh, range(int(first), sys.maxsize, step)):
        there = content(desk / name)
        publish(request(), desk / again, plan_file=desk / "plan")
        remove_stale(desk / name)  # as the next run to the same target does; another target's run leaves it alone
        assert content(desk / name) == there, moment
        assert there in (old, content(desk / again)), f"a release is out whose key is lost: {moment}"
        assert leftovers(desk) == [], moment
    print(moment)


def journaling(base: Path, step: int, first: str) -> None:
    """Whatever moment publishing is killed at: a release that is out has a line, and the next run goes on."""
    desk = base / "desk"
    kept = {"unsafe_test_key": "07" * 32, "journal": desk / "journal"}

    def afresh() -> Callable[[], None]:
        shutil.rmtree(desk, ignore_errors=True)
        desk.mkdir()
        publish(request(), desk / "first", **kept)
        return lambda: publish(request(), desk / "release", **kept)

    for moment, was_killed in moments(afresh, range(int(first), sys.maxsize, step)):
        journal = read_journal(desk / "journal")
        assert journal.is_intact, moment
        recorded = {Path(entry.target).name: entry for entry in journal.entries}
        if (desk / "release").exists():
            assert recorded["release"].release == Release.open(desk / "release").digest, moment
        if "release" in recorded and recorded["release"].outcome == "published":
            assert (desk / "release").exists(), moment
        assert was_killed or recorded["release"].outcome == "published"
        publish(request(), desk / "again", **kept)
        after = read_journal(desk / "journal")
        assert after.is_intact, moment
        assert after.line_digests[: len(journal.line_digests)] == journal.line_digests, moment
        assert after.entries[-1].outcome == "published", moment
    print(moment)


def racing(base: Path, runs: int) -> None:
    """Several runs with one new plan file: each release that comes out is the one that the file repeats."""
    ready, go = os.pipe()

    def race(number: int) -> None:
        os.close(go)
        os.read(ready, 1)  # ends for all at once when the other end is closed
        with suppress(TargetError):
            publish(request(), base / f"release-{number}", plan_file=base / "plan")

    children = [forked(lambda number=number: race(number)) for number in range(runs)]
    os.close(go)
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * runs
    found = [content(path) for path in base.glob("release-*")]
    assert found, "nobody went on"
    publish(request(), base / "again", plan_file=base / "plan")
    assert all(each == content(base / "again") for each in found), "a release is out whose key is lost"
    print(len(found))


def absent(*_: Any) -> bool:
    """A system without the call that changes places."""
    return False


SCENARIOS: dict[str, Callable[..., None]] = {
    "moving": moving,
    "publishing": publishing,
    "journaling": journaling,
    "racing": racing,
}

if __name__ == "__main__":
    scenario, where, number, *rest = sys.argv[1:]
    os.fsync = lambda descriptor: None  # takes most of the time, and a process that is killed loses nothing without it
    SCENARIOS[scenario](Path(where), int(number), *rest)
