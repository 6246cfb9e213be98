"""Places where a release or a plan file cannot go."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from command_line import (
    BOUND,
    SCRIPT,
    TEST_KEY,
    Outcome,
    complaint,
    content,
    fail,
    people,
    publishing,
    run_apart,
    succeed,
    write_csv,
    write_parquet,
)

# -------------------------------------------------------------------------------------------------------------- targets


@pytest.mark.parametrize("make", [Path.mkdir, Path.touch], ids=["directory", "file"])
def test_existing_target_is_refused(desk: Path, table: Path, make: Callable[[Path], None]) -> None:
    make(desk / "release")
    sentence = fail(desk, *publishing(table))
    assert sentence == "'release' exists; choose another name, or replace it with --force."


def test_existing_release_is_replaced_by_force_only(desk: Path, table: Path, release: Path) -> None:
    old = content(release)
    assert "replace it with --force" in fail(desk, *publishing(table))
    succeed(*publishing(table, "--force"))
    assert old != content(release)
    assert set(old) == set(content(release))
    assert {path.name for path in desk.iterdir()} == {"people.csv", "release"}


def test_force_accepts_an_empty_directory(desk: Path, table: Path) -> None:
    (desk / "release").mkdir()
    succeed(*publishing(table, "--force"))


def _photos(target: Path) -> None:
    target.mkdir()
    (target / "photo.jpg").touch()


def _photos_zip(target: Path) -> None:
    with zipfile.ZipFile(target, "w") as archive:
        archive.writestr("photo.jpg", b"")


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("photos", _photos),
        ("photos.txt", Path.touch),
        ("photos.zip", _photos_zip),
        ("empty.zip", Path.touch),
        ("folder.zip", _photos),
    ],
)
def test_force_does_not_replace_what_is_no_release(
    desk: Path, table: Path, name: str, make: Callable[[Path], None]
) -> None:
    make(desk / name)
    sentence = fail(desk, *publishing(table, "--force", out=name))
    assert sentence == f"{name!r} exists and is not a release, so it is not replaced; choose another name."


def test_nothing_is_put_into_a_release(desk: Path, table: Path, release: Path) -> None:
    """It would go out with the release, a key above all, and the release would no longer verify."""
    for what, where, arguments in [
        ("the release", "release/second", publishing(table, out="release/second")),
        ("the plan file", "release/key", publishing(table, "--plan-file", "release/key", out="second")),
        ("the file", "release/w.csv", ["export", "release", "--values", "flu", "--out", "release/w.csv"]),
        ("the request file", "release/r.toml", ["init", "people.csv", "--out", "release/r.toml"]),
    ]:
        sentence = fail(desk, *arguments)
        assert sentence == f"{what} {where!r} would lie in a release; keep it in another place."
    succeed("verify", release)


@pytest.mark.parametrize("name", ["release.parquet", "release.csv", "release.ZIP", "page.html"])
def test_name_of_a_file_is_none_for_a_directory(desk: Path, table: Path, name: str) -> None:
    sentence = fail(desk, *publishing(table, out=name))
    assert f"{name!r} looks like the name of a file, but a release is a directory" in sentence


@pytest.mark.parametrize("parent", ["nowhere", "people.csv"])
def test_target_in_no_directory_is_refused(desk: Path, table: Path, parent: str) -> None:
    sentence = fail(desk, *publishing(table, out=f"{parent}/release"))
    assert sentence == f"the directory {parent!r} does not exist; create it first."


@pytest.mark.slow
@pytest.mark.parametrize("target", ["release", "release.zip"])
def test_no_space_for_the_release_leaves_nothing_behind(desk: Path, target: str) -> None:
    # Wide enough in its values that the release is larger than the limit; everything else is smaller.
    write_parquet(desk / "people.parquet", people(8000, size=[row * row % 997 for row in range(1994)]))
    before = content(desk)
    outcome = run_apart(*publishing("people.parquet", "--plan-file", "plan.json", out=target), largest_file=6000)
    assert complaint(outcome) == f"the release cannot be written to {target!r}: File too large."
    assert content(desk) == before


@pytest.mark.slow
def test_no_space_for_the_demonstration_leaves_nothing_behind(desk: Path) -> None:
    outcome = run_apart("demo", "--rows", "5000", "--out", "shown", largest_file=6000, TMPDIR=str(desk))
    assert complaint(outcome) == "cannot read or write a file: File too large."
    assert content(desk) == {}


def test_demonstration_in_an_existing_directory_is_refused(desk: Path) -> None:
    (desk / "shown").mkdir()
    assert fail(desk, "demo", "--out", "shown") == "cannot create the directory 'shown': File exists."


# ----------------------------------------------------------------------------------------------------------- plan files


def test_plan_file_of_another_table_is_refused(desk: Path, table: Path) -> None:
    succeed(*publishing(table, "--plan-file", "plan.json"))
    write_csv(desk / "other.csv", people(80))
    sentence = fail(desk, *publishing("other.csv", "--plan-file", "plan.json", out="again"))
    assert sentence.startswith("the plan file belongs to another table, or the table has changed")


@pytest.mark.parametrize(
    "options", [["--drop", "age"], ["--ranges", "age=0,99"], ["--nulls", "drop"], ["--mechanism", "uniform"]]
)
def test_plan_file_of_another_request_is_refused(desk: Path, table: Path, options: list[str]) -> None:
    succeed(*publishing(table, "--plan-file", "plan.json"))
    sentence = fail(desk, *publishing(table, *options, "--plan-file", "plan.json", out="again"))
    assert sentence.startswith("the plan file belongs to another request for this table")


def test_plan_file_with_another_key_than_the_test_key_is_refused(desk: Path, table: Path) -> None:
    succeed(*publishing(table, "--plan-file", "plan.json"))
    options = ["--plan-file", "plan.json", "--unsafe-test-key", TEST_KEY]
    sentence = fail(desk, *publishing(table, *options, out="again"))
    assert sentence == "the plan file holds another key than the test key; use only one of the two."


@pytest.mark.parametrize("written", [b"", b"{}", b"\xff", b"[1]", b'{"sfumato_plan": "1"}'])
def test_file_that_is_no_plan_is_refused(desk: Path, table: Path, written: bytes) -> None:
    (desk / "plan.json").write_bytes(written)
    sentence = fail(desk, *publishing(table, "--plan-file", "plan.json"))
    assert sentence == "'plan.json' is not a plan file, or is damaged; name another file."


def test_plan_file_that_others_may_read_is_refused(desk: Path, table: Path) -> None:
    succeed(*publishing(table, "--plan-file", "plan.json"))
    (desk / "plan.json").chmod(0o644)
    sentence = fail(desk, *publishing(table, "--plan-file", "plan.json", out="again"))
    assert sentence.startswith("other users can read the plan file 'plan.json'")
    assert sentence.endswith("make it private with `chmod 600 plan.json`.")


def test_plan_file_in_no_directory_is_refused(desk: Path, table: Path) -> None:
    sentence = fail(desk, *publishing(table, "--plan-file", "nowhere/plan.json"))
    assert sentence == "the directory 'nowhere' of the plan file does not exist; create it first."


@pytest.mark.parametrize("plan_file", ["release/plan.json", "release", "./release/../release/plan.json"])
def test_plan_file_in_the_release_is_refused(desk: Path, table: Path, release: Path, plan_file: str) -> None:
    sentence = fail(desk, *publishing(table, "--force", "--plan-file", plan_file))
    assert sentence == "the plan file is private, so it cannot be in the release; keep it in another place."


# ----------------------------------------------------------------------------------------------------------- full disks


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("page.html", ["page", "release", "--out"]),
        ("page.html", ["certificate", "release", "--out"]),
        ("page.html", ["plan", "people.csv", "--sensitive", "disease", *BOUND, "--json", "--report"]),
        ("out.csv", ["export", "release", "--values", "flu", "--out"]),
        ("out.dta", ["export", "release", "--values", "flu", "--out"]),
        ("out.sav", ["export", "release", "--values", "flu", "--out"]),
        ("request.toml", ["init", "people.csv", "--out"]),
    ],
    ids=["page", "certificate", "plan", "csv", "dta", "sav", "init"],
)
def test_no_space_for_a_file_leaves_the_old_one_whole(
    desk: Path, table: Path, release: Path, name: str, arguments: list[str]
) -> None:
    (desk / name).write_text("the old one")
    before = content(desk)
    outcome = run_apart(*arguments, name, "--force", largest_file=400)
    sentence = complaint(outcome)
    assert "cannot be written" in sentence or "could not be written" in sentence
    assert content(desk) == before


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no disk that is always full")
@pytest.mark.parametrize("options", [[], ["--json"]], ids=["people", "machines"])
def test_no_space_for_what_is_printed_is_told_in_one_sentence(desk: Path, release: Path, options: list[str]) -> None:
    with Path("/dev/full").open("w") as full:
        ran = subprocess.run(
            [sys.executable, "-B", "-c", SCRIPT, "info", "release", *options],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    sentence = complaint(Outcome(ran.returncode, "", ran.stderr))
    assert sentence == "cannot read or write a file: No space left on device."
