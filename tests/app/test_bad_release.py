"""What is no release, no longer one, or not one of that table; and questions that cannot be answered."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from command_line import fail, people, run, write_csv
from sfumato._release.manifest import FORMAT, compute_manifest_digest

QUESTION = "SELECT COUNT(*) FROM release WHERE disease = 'flu'"


def reading(release: str | Path) -> list[list[str]]:
    """Every command that reads a release."""
    return [["info", str(release)], ["query", str(release), QUESTION], ["verify", str(release)]]


def _nothing(path: Path) -> None:
    pass


def _zip_of(path: Path, kind: int, name: str) -> None:
    with zipfile.ZipFile(path, "w", kind) as archive:
        archive.writestr(name, b"x" * 100)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (_nothing, "'thing' does not exist; name the directory or .zip of a release."),
        (Path.touch, "'thing' is not the directory or .zip of a release."),
        (Path.mkdir, "'thing' is not a readable release: it has no readable datapackage.json."),
        (lambda path: _zip_of(path, zipfile.ZIP_STORED, "../escaped"), "'thing' has content that no release has"),
        (lambda path: _zip_of(path, zipfile.ZIP_DEFLATED, "README.md"), "'thing' has content that no release has"),
        (lambda path: _zip_of(path, zipfile.ZIP_STORED, "README.md"), "is not a readable release"),
    ],
    ids=["missing", "file", "empty directory", "zip that escapes", "zip that swells", "zip without manifest"],
)
def test_what_is_no_release_is_refused(desk: Path, make: Callable[[Path], None], words: str) -> None:
    make(desk / "thing")
    for command in reading("thing"):
        assert words in fail(desk, *command)


@pytest.mark.parametrize("name", ["data.parquet", "weights.parquet", "README.md"])
def test_release_that_lacks_a_file_is_refused(desk: Path, release: Path, name: str) -> None:
    (release / name).unlink()
    for command in reading("release"):
        assert fail(desk, *command) == f"the release lacks {name}; get it again from its publisher."


def edit(release: Path, change: Callable[[dict[str, Any]], Any], *, sign: bool = False) -> None:
    """Change the manifest of a release; on request with a digest that fits again."""
    path = release / "datapackage.json"
    written = json.loads(path.read_text(encoding="utf-8"))
    change(written)
    if sign:
        written["sfumato"]["digest"] = compute_manifest_digest(written)
    path.write_text(json.dumps(written), encoding="utf-8")


def test_release_of_a_newer_format_is_refused_with_how_to_update(desk: Path, release: Path) -> None:
    edit(release, lambda written: written["sfumato"].update(format=FORMAT + 1), sign=True)
    for command in reading("release"):
        sentence = fail(desk, *command)
        assert sentence.startswith(
            f"the release has format {FORMAT + 1}, but this version reads formats up to {FORMAT}; update sfumato (pip"
        )


@pytest.mark.parametrize(
    "change",
    [
        lambda written: written["sfumato"]["design"].update(retention="9/10"),
        lambda written: written["sfumato"].update(sensitive="age"),
        lambda written: written["resources"][0].update(hash="sha256:0"),
        lambda written: written.update(title="Our survey"),
    ],
    ids=["design", "sensitive", "hash", "title"],
)
def test_hand_edited_manifest_is_refused(desk: Path, release: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    edit(release, change)
    for command in reading("release"):
        sentence = fail(desk, *command)
        assert sentence == "datapackage.json was changed after publishing; get the release again from its publisher."


@pytest.mark.parametrize(
    "change",
    [
        lambda written: written["sfumato"].update(mechanism="magic"),
        lambda written: written["sfumato"].update(mechanism=["uniform"]),
        lambda written: written["sfumato"].update(sensitive="diagnosis"),
        lambda written: written["sfumato"].pop("design"),
        lambda written: written["sfumato"]["design"].update(retention="1/0"),
        lambda written: written["sfumato"]["design"].update(retention="2"),
        lambda written: written["sfumato"]["design"].update(prior="1e-99999999"),
        lambda written: written["sfumato"]["design"].update(domain=["flu"]),
        lambda written: written["sfumato"]["design"].update(domain=[1, 2, 3, 4]),
        lambda written: written["sfumato"].update(bins=[]),
        lambda written: written.update(resources=[]),
        lambda written: written["resources"][0].pop("schema"),
    ],
)
def test_manifest_that_makes_no_sense_is_refused_even_with_its_digest(
    desk: Path, release: Path, change: Callable[[dict[str, Any]], Any]
) -> None:
    edit(release, change, sign=True)
    for command in reading("release"):
        fail(desk, *command)


@pytest.mark.parametrize(
    "written",
    [
        b"",
        b"{",
        b"\xff\xfe",
        b"null",
        b'"sfumato"',
        b"[]",
        b"[" * 100_000,
        b'{"sfumato": {"format": 1e999, "digest": ""}}',
    ],
    ids=lambda written: repr(written[:12]),
)
def test_manifest_that_is_no_json_of_ours_is_refused(desk: Path, release: Path, written: bytes) -> None:
    (release / "datapackage.json").write_bytes(written)
    for command in reading("release"):
        sentence = fail(desk, *command)
        assert sentence == "datapackage.json does not belong to a release; get the release again from its publisher."


def damage(path: Path, how: str) -> None:
    whole = path.read_bytes()
    ways = {
        "cut": whole[:-9],
        "emptied": b"",
        "longer": whole + b"PAR1",
        "other": whole[:50] + bytes(9) + whole[59:],
        "with a name that is none": whole.replace(b"sex", b"\xcdex"),
    }
    path.write_bytes(ways[how])


@pytest.mark.parametrize("how", ["cut", "emptied", "longer", "other"])
@pytest.mark.parametrize("original", [False, True], ids=["alone", "with original"])
def test_data_changed_after_publishing_does_not_verify(
    desk: Path, table: Path, release: Path, how: str, original: bool
) -> None:
    damage(release / "data.parquet", how)
    outcome = run("verify", "release", *(["--original", str(table)] if original else []))
    assert outcome.code == 1
    assert outcome.words.startswith("FAIL files: data.parquet is missing or was changed after publishing.")
    sentence = outcome.err.splitlines()
    assert sentence == [
        "error: the release fails the check 'files': data.parquet is missing or was changed after publishing."
    ]


@pytest.mark.parametrize("how", ["cut", "emptied", "with a name that is none"])
def test_data_that_cannot_be_read_is_refused(desk: Path, release: Path, how: str) -> None:
    damage(release / "data.parquet", how)
    for command in reading("release")[:2]:
        sentence = fail(desk, *command)
        assert sentence == "data.parquet cannot be read; get the release again from its publisher."


def test_file_added_to_a_release_does_not_verify(desk: Path, release: Path) -> None:
    (release / "names.csv").touch()
    outcome = run("verify", "release")
    assert outcome.code == 1
    assert "the release contains files that do not belong to it; remove them: names.csv." in outcome.err


def test_verifying_against_a_table_of_other_columns_is_refused(desk: Path, release: Path) -> None:
    write_csv(desk / "other.csv", {"age": [1, 2], "disease": ["flu", "cold"]})
    sentence = fail(desk, "verify", "release", "--original", "other.csv")
    assert sentence == "the table is not the original of this release, because it has no column 'sex'."


def test_verifying_against_another_table_fails(desk: Path, release: Path) -> None:
    write_csv(desk / "other.csv", people() | {"age": [30] * 60})
    outcome = run("verify", "release", "--original", "other.csv")
    assert outcome.code == 1
    assert "fails the check 'public columns'" in outcome.err


def test_verifying_against_a_table_that_is_not_there_is_refused(desk: Path, release: Path) -> None:
    assert "nowhere.csv" in fail(desk, "verify", "release", "--original", "nowhere.csv")


@pytest.mark.parametrize(
    "sql",
    [
        "",
        "SELEC COUNT(*) FROM release",
        "SELECT COUNT(*) FROM 'people.csv'",
        "SELECT disease FROM release",
        "SELECT COUNT(*) FROM release WHERE weight > 1",
        "SELECT COUNT(*) FROM release WHERE age = 'old'",
        "SELECT COUNT(*) FROM release; DROP TABLE release",
        "SELECT COUNT(*)\nFROM release\nWHERE (",
    ],
)
def test_question_that_cannot_be_answered_is_refused(desk: Path, release: Path, sql: str) -> None:
    fail(desk, "query", "release", sql)


@pytest.mark.parametrize("level", ["0", "1", "-1", "95", "nan"])
def test_level_that_is_none_is_refused(desk: Path, release: Path, level: str) -> None:
    assert "must lie between 0 and 1, such as 0.95" in fail(desk, "query", "release", QUESTION, f"--level={level}")
