"""`sfumato reproduce` as people type it."""

from __future__ import annotations

from pathlib import Path

from command_line import complaint, run, succeed


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
    assert not (tmp_path / "x").exists()
