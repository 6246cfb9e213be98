"""A reader that src does not know: one module and one line of the registry, and nothing else."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import toy_reader
from accepted import ALL_ACCEPTED, give_reasons
from command_line import complaint, content, people, run, succeed
from refusals import refuses
from sfumato import BreachBound, Request, Schema, publish, verify
from sfumato._readers.open_table import open_source
from sfumato._readers.reader_registry import READERS, describe_endings, describe_tables
from sfumato.errors import ReleaseFormatError, SourceError

ROOT = Path(__file__).parents[2]
BOUND = BreachBound("1/10", "1/2")


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(READERS, toy_reader.READER.name, toy_reader.READER)


@pytest.fixture
def archive(desk: Path, registered: None) -> Path:
    np.savez(desk / "people.npz", **{name: np.array(values) for name, values in people(3000).items()})
    return desk / "people.npz"


def test_contributing_shows_the_whole_reader() -> None:
    assert (ROOT / "tests" / "toy_reader.py").read_text() in (ROOT / "CONTRIBUTING.md").read_text()


@pytest.mark.usefixtures("registered")
def test_help_and_messages_name_the_reader() -> None:
    assert ".npz" in describe_endings()
    assert "NumPy" in describe_tables()


def test_table_of_the_reader_is_published_and_verified(archive: Path, desk: Path) -> None:
    request = Request(
        archive,
        schema=Schema.of("disease", public="*"),
        spec=BOUND,
        accept_disclosing=give_reasons(("age", "sex")),
        **ALL_ACCEPTED,
    )
    release = publish(request, "release", plan_file="private.plan").release
    assert release.rows == 3000
    assert verify("release", archive, plan_file="private.plan").has_passed
    succeed("measure", archive, "--public", "sex")


def test_plan_file_is_refused_for_another_table_of_the_reader(archive: Path, desk: Path) -> None:
    request = Request(
        archive,
        schema=Schema.of("disease", public="*"),
        spec=BOUND,
        accept_disclosing=give_reasons(("age", "sex")),
        **ALL_ACCEPTED,
    )
    publish(request, "release", plan_file="private.plan")
    before = content(desk / "release")
    changed = people(3000)
    changed["disease"] = changed["disease"][::-1]
    np.savez(archive, **{name: np.array(values) for name, values in changed.items()})
    with refuses(ReleaseFormatError, "plan-file-of-another-table"):
        publish(request, "second", plan_file="private.plan")
    assert content(desk / "release") == before


def test_damaged_table_of_the_reader_is_refused(archive: Path, desk: Path) -> None:
    archive.write_bytes(archive.read_bytes()[:100])
    assert "people.npz" in complaint(run("measure", archive, "--public", "sex"))


def test_file_is_nobodys_without_its_line(desk: Path) -> None:
    np.savez(desk / "people.npz", x=np.array([1]))
    with refuses(SourceError, "wrong-ending", file="people.npz"):
        open_source(desk / "people.npz", desk / "spool")
