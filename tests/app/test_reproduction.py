"""`sfumato reproduce` as people type it."""

from __future__ import annotations

from pathlib import Path

import pytest

from command_line import complaint, run, succeed
from sfumato.reproduce import Conditions, Experiment, Outcome, named, papers


def test_reproduce_writes_tables_and_says_what_agrees(tmp_path: Path) -> None:
    told = succeed("reproduce", "small-domain/ex1", "small-domain/table1", "--out", str(tmp_path / "papers"))
    assert "small-domain/table1 agrees" in told.out
    assert (tmp_path / "papers/small-domain/table1.csv").read_text().startswith("values,")
    again = succeed("reproduce", "small-domain/table2", "--quick", "--out", str(tmp_path / "q"), "--json").json
    assert {each["verdict"] for each in again["experiments"]} <= {"agrees", "differs", "contradicts", "beyond"}


def test_reproduce_lists_and_complains(tmp_path: Path) -> None:
    assert "small-domain/table2" in succeed("reproduce", "list").out
    assert "--out" in complaint(run("reproduce", "small-domain/ex1"))
    assert "no experiment" in complaint(run("reproduce", "small-domain/ex99", "--out", str(tmp_path / "x")))
    assert "cannot be written" in complaint(run("reproduce", "small-domain/ex1", "--out", __file__ + "/x"))
    (tmp_path / "data").mkdir()
    tables = ("--data", tmp_path / "data", "--out", tmp_path / "x")
    assert "none of the tables" in complaint(run("reproduce", "small-domain/ex1", *tables))
    assert not (tmp_path / "x").exists()


def test_reproduce_lists_by_work(tmp_path: Path) -> None:
    told = succeed("reproduce", "list", "--json").json["experiments"]
    assert all(" " in each["work"] for each in told)  # words, and not the name of a module
    listed = succeed("reproduce", "list").words
    assert listed.index("Small domain randomization") < listed.index("small-domain/ex1") < listed.index("Fine-grain")


def test_reproduce_that_is_stopped_keeps_what_is_finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(conditions: Conditions) -> Outcome:
        raise KeyboardInterrupt

    monkeypatch.setattr(papers, "EXPERIMENTS", (named(["small-domain/table1"])[0], Experiment("work/long", "", stop)))
    stopped = run("reproduce", "all", "--out", tmp_path / "papers")
    assert stopped.code == 130
    assert f"stopped; 1 of 2 are in {tmp_path / 'papers'}, and the same command goes on from there." in stopped.err
    assert "small-domain/table1 agrees (kept from before)" in run("reproduce", "all", "--out", tmp_path / "papers").out
