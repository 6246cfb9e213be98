"""The journal: a line before each release and one after it, in a chain that shows what was done to the file."""

from __future__ import annotations

import getpass
import hashlib
import json
import os
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from accepted import ALL_ACCEPTED, REASON, give_reasons
from command_line import content
from moments import run_scenario
from releases import people as small_table
from sfumato import (
    BreachBound,
    JournalOutcome,
    LocalEngine,
    Release,
    Request,
    Schema,
    __version__,
    publish,
    read_journal,
)
from sfumato._core.digests import compute_json_digest
from sfumato._document.document import DataTable
from sfumato._publish import journal_writer
from sfumato._publish.journal import NO_LINE
from sfumato._release import destinations
from sfumato.errors import ReleaseFormatError, SfumatoError, SpecError, TargetError

KEY = "07" * 32


def request(**more: Any) -> Request:
    """A request for a small table."""
    return Request(
        small_table(), schema=Schema.of("disease", public="*"), spec=BreachBound("1/10", "1/2"), **more, **ALL_ACCEPTED
    )


def write(*names: str) -> None:
    """Publish releases, each recorded in one journal."""
    for name in names:
        publish(request(), name, unsafe_test_key=KEY, journal="journal")


def list_lines() -> list[bytes]:
    """The lines of the journal."""
    return Path("journal").read_bytes().splitlines(keepends=True)


# ------------------------------------------------------------------------------------------------------- what it holds


def test_entry_says_what_was_published_by_whom_and_for_which_request(desk: Path) -> None:
    before = datetime.now(UTC)
    asked = request(accept_disclosing=give_reasons(("age",)), accept_exposure=REASON)
    published = publish(asked, "release", unsafe_test_key=KEY, journal="journal")
    (entry,) = read_journal("journal").entries
    record = asked.to_record()
    assert entry.request == compute_json_digest({"request": dict(record.request), "options": dict(record.options)})
    assert entry.release == published.release.digest == Release.open("release").digest
    assert (entry.number, entry.target, entry.user) == (1, "release", getpass.getuser())
    assert (entry.software, entry.bound) == (__version__, asked.spec.sentence)
    assert entry.mechanism == published.release.manifest.mechanism_name
    assert entry.accepted == asked.accepted_risks.to_json()
    assert entry.outcome is JournalOutcome.PUBLISHED
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", entry.time)
    assert before - timedelta(seconds=1) <= datetime.fromisoformat(entry.time) <= datetime.now(UTC)


def test_journal_holds_no_value_of_the_table_and_no_key(desk: Path) -> None:
    write("one")
    text = Path("journal").read_text()
    assert KEY not in text
    assert not [value for value in set(small_table().column("disease").to_pylist()) if f'"{value}' in text]


def test_password_in_a_target_is_not_recorded() -> None:
    entry = journal_writer.make_entry(request(), "s3://me:secret@store/release", "0", "uniform")
    assert "secret" not in entry.target


def test_journal_is_for_its_owner_only(desk: Path) -> None:
    os.umask(before := os.umask(0))
    os.umask(0)
    try:
        write("one")
    finally:
        os.umask(before)
    assert Path("journal").stat().st_mode & 0o777 == 0o600


def test_each_line_holds_the_digest_of_the_line_before(desk: Path) -> None:
    write("one", "two")
    lines = [line.removesuffix(b"\n") for line in list_lines()]
    digests = [hashlib.sha256(line).hexdigest() for line in lines]
    assert [json.loads(line)["previous"] for line in lines] == [NO_LINE, *digests[:-1]]
    assert read_journal("journal").head == digests[-1]


def test_publication_gives_the_head(desk: Path) -> None:
    assert publish(request(), "one", unsafe_test_key=KEY).journal_head is None
    published = publish(request(), "two", unsafe_test_key=KEY, journal="journal")
    assert published.journal_head == read_journal("journal").head


def test_lines_are_only_added(desk: Path) -> None:
    write("one")
    before = Path("journal").read_bytes()
    write("two")
    assert Path("journal").read_bytes().startswith(before)
    assert [entry.number for entry in read_journal("journal").entries] == [1, 2]


# -------------------------------------------------------------------------------------------------- what shows in it


def edit(number: int) -> Callable[[list[bytes]], list[bytes]]:
    """Writes another name into a line, as long as the old one."""
    return lambda lines: [line.replace(b'"2', b'"3', 1) if at == number else line for at, line in enumerate(lines, 1)]


def rewrite(lines: list[bytes]) -> list[bytes]:
    """Edits the first line, and gives it the digest of its new content."""
    facts = json.loads(lines[0])
    facts["user"] = "somebody"
    facts.pop("digest")
    return [json.dumps({**facts, "digest": compute_json_digest(facts)}).encode() + b"\n", *lines[1:]]


DAMAGES: dict[str, tuple[Callable[[list[bytes]], list[bytes]], int]] = {
    "the first line edited": (edit(1), 1),
    "a line in the middle edited": (edit(3), 3),
    "the last line edited": (edit(6), 6),
    "the last line cut": (lambda lines: [*lines[:-1], lines[-1][:-1]], 6),
    "half of the last line": (lambda lines: [*lines[:-1], lines[-1][:40]], 6),
    "half of a line in the middle": (lambda lines: [*lines[:2], lines[2][:40] + b"\n", *lines[3:]], 3),
    "a line missing in the middle": (lambda lines: [*lines[:2], *lines[3:]], 3),
    "a publication missing in the middle": (lambda lines: [*lines[:2], *lines[4:]], 3),
    "the first line missing": (lambda lines: lines[1:], 1),
    "two lines exchanged": (lambda lines: [*lines[:2], lines[3], lines[2], *lines[4:]], 3),
    "a line twice": (lambda lines: [*lines[:2], lines[1], *lines[2:]], 3),
    "an empty line": (lambda lines: [*lines[:2], b"\n", *lines[2:]], 3),
    "a line that is no object": (lambda lines: [b"[1]\n", *lines], 1),
    "a deep line": (lambda lines: [b"[" * 100_000 + b"\n", *lines], 1),
    "bytes": (lambda lines: [*lines[:1], b"\xff\x00\n", *lines[1:]], 2),
    "a line written anew": (rewrite, 2),
}


@pytest.mark.parametrize(("damage", "number"), DAMAGES.values(), ids=DAMAGES)
def test_damaged_journal_names_its_first_bad_line_and_is_refused(
    damage: Callable[[list[bytes]], list[bytes]], number: int, desk: Path
) -> None:
    write("one", "two", "three")
    Path("journal").write_bytes(b"".join(damage(list_lines())))
    journal = read_journal("journal")
    assert (journal.is_intact, journal.bad_line) == (False, number)
    assert f"line {number} " in journal.problem
    assert len(journal.line_digests) == number - 1
    before = content(desk)
    with pytest.raises(ReleaseFormatError) as caught:
        write("four")
    assert (caught.value.code, caught.value.fields) == ("journal-damaged", {"line": number})
    assert content(desk) == before


def test_events_out_of_order_are_no_journal(desk: Path) -> None:
    """Every line has its digests, but an end has no beginning, a number is left out, or there are two ends."""
    write("one")
    journal = read_journal("journal")
    first, second = (json.loads(line) for line in list_lines())
    for facts in (second, {**first, "publication": 3}, {**first, "publication": 2, "accepted": []}, {"event": "begun"}):
        with pytest.raises(ValueError, match="not a line of a journal"):
            journal.add_line({key: value for key, value in facts.items() if key not in {"previous", "digest"}})


def test_noted_head_shows_what_was_removed_from_the_end(desk: Path) -> None:
    write("one", "two")
    head, lines = read_journal("journal").head, list_lines()
    assert read_journal("journal", head.upper()).is_intact
    write("three")
    assert read_journal("journal", head).is_intact  # it was the head then
    Path("journal").write_bytes(b"".join(lines[:2]))
    assert read_journal("journal").is_intact
    cut = read_journal("journal", head)
    assert (cut.is_intact, cut.bad_line) == (False, None)
    assert len(cut.entries) == 1


@pytest.mark.parametrize("head", ["", "abc", "0" * 63, "g" * 64])
def test_noted_head_must_be_a_digest(head: str, desk: Path) -> None:
    write("one")
    with pytest.raises(SpecError):
        read_journal("journal", head)


def test_missing_journal_is_refused_when_it_is_read(desk: Path) -> None:
    for name in ("none", "."):
        with pytest.raises(ReleaseFormatError):
            read_journal(name)


def test_empty_journal_has_no_publication(desk: Path) -> None:
    Path("journal").touch(mode=0o600)
    assert (read_journal("journal").entries, read_journal("journal").head) == ((), NO_LINE)
    write("one")
    assert len(read_journal("journal").entries) == 1


def test_document_has_a_row_for_each_publication_and_the_head(desk: Path) -> None:
    write("one")
    publish(request(accept_disclosing=give_reasons(("age",))), "two", unsafe_test_key=KEY, journal="journal")
    document = read_journal("journal").document()
    (table,) = [block for block in document.blocks if isinstance(block, DataTable)]
    assert [row[3] for row in table.rows] == ["one", "two"]
    assert document.is_private
    assert read_journal("journal").head in str(document)
    assert "'age'" in str(document) or "age" in str(document)


# --------------------------------------------------------------------------------------------------- where it may be


@pytest.mark.parametrize("name", ["release", "release/journal", "old/journal", "none/journal", "plan"])
def test_journal_in_the_release_or_elsewhere_impossible_is_refused(name: str, desk: Path) -> None:
    publish(request(), "old", unsafe_test_key=KEY)
    before = content(desk)
    with pytest.raises(TargetError):
        publish(request(), "release", plan_file="plan", journal=name)
    assert content(desk) == before


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o602])
def test_journal_that_is_open_to_others_is_refused(mode: int, desk: Path) -> None:
    write("one")
    Path("journal").chmod(mode)
    with pytest.raises(TargetError, match="chmod 600 journal"):
        write("two")
    assert read_journal("journal").is_intact  # reading is no risk
    assert not Path("two").exists()


def test_journal_that_is_no_file_is_refused(desk: Path) -> None:
    os.mkfifo("journal", mode=0o600)
    with pytest.raises(SfumatoError):
        write("one")
    assert [path.name for path in desk.iterdir()] == ["journal"]


def test_failed_publication_leaves_no_new_journal_and_no_line(desk: Path) -> None:
    Path("occupied").touch()
    with pytest.raises(TargetError):
        publish(request(), "occupied", journal="journal")
    assert not Path("journal").exists()
    write("one")
    before = Path("journal").read_bytes()
    with pytest.raises(SfumatoError):
        publish(request(mechanism="none"), "two", journal="journal")
    assert Path("journal").read_bytes() == before


def test_second_run_with_one_journal_is_refused_while_the_first_goes_on(desk: Path) -> None:
    refused = []

    def progress(stage: str, done: int, total: int | None) -> None:
        if stage == "writing" and not refused:
            with pytest.raises(TargetError, match="in use by another run") as caught:
                publish(request(), "two", journal="journal")
            refused.append(caught)

    publish(request(), "one", unsafe_test_key=KEY, journal="journal", engine=LocalEngine(progress=progress))
    assert refused
    assert [entry.target for entry in read_journal("journal").entries] == ["one"]
    write("two")
    assert len(read_journal("journal").entries) == 2


# ------------------------------------------------------------------------------------------------- never one without


def test_line_is_there_before_the_release(desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def place(*arguments: Any, **options: Any) -> None:
        seen.append((Path("one").exists(), read_journal("journal").entries[0].outcome))

    monkeypatch.setattr(destinations, "move_into_place", place)
    with pytest.raises(SfumatoError):
        write("one")
    assert seen == [(False, JournalOutcome.UNKNOWN)]


def test_release_that_cannot_be_placed_is_recorded_as_not_published(
    desk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def place(*arguments: Any, **options: Any) -> None:
        raise OSError(5, "broken")

    monkeypatch.setattr(destinations, "move_into_place", place)
    with pytest.raises(TargetError):
        write("one")
    assert [entry.outcome for entry in read_journal("journal").entries] == [JournalOutcome.NOT_PUBLISHED]


def test_release_that_appeared_before_an_error_is_recorded_as_published(
    desk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    move = destinations.move_into_place

    def place(*arguments: Any, **options: Any) -> None:
        move(*arguments, **options)
        raise KeyboardInterrupt

    monkeypatch.setattr(destinations, "move_into_place", place)
    with pytest.raises(KeyboardInterrupt):
        write("one")
    assert [entry.outcome for entry in read_journal("journal").entries] == [JournalOutcome.PUBLISHED]


def test_journal_that_cannot_be_written_keeps_the_release_back(desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write("one")
    before = Path("journal").read_bytes()
    whole = os.write

    def half(descriptor: int, text: bytes) -> int:
        return whole(descriptor, text[: len(text) // 2])

    monkeypatch.setattr(os, "write", half)
    with pytest.raises(TargetError, match="the journal 'journal' cannot be written"):
        write("two")
    assert Path("journal").read_bytes() == before
    assert not Path("two").exists()


def test_outcome_that_cannot_be_written_stays_unknown_and_is_told(desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: Any, outcome: JournalOutcome) -> None:
        raise TargetError("the disk is full.")

    with monkeypatch.context() as patched:
        patched.setattr(journal_writer.JournalClaim, "_end", fail)
        with pytest.raises(TargetError, match="the release was written to 'one'"):
            write("one")
    assert Path("one").exists()
    write("two")
    outcomes = [entry.outcome for entry in read_journal("journal").entries]
    assert outcomes == [JournalOutcome.UNKNOWN, JournalOutcome.PUBLISHED]


@pytest.mark.slow
def test_publishing_survives_a_kill_at_some_moments_and_no_release_is_without_a_line(tmp_path: Path) -> None:
    assert int(run_scenario("journaling", tmp_path, 23, 5)) > 150


@pytest.mark.full
def test_publishing_survives_a_kill_at_every_moment_and_no_release_is_without_a_line(tmp_path: Path) -> None:
    assert int(run_scenario("journaling", tmp_path, 1, 1)) > 150
