"""Experiments are run once, written when finished, and run again under other conditions."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from papers import EXPERIMENTS, Conditions, Experiment, Outcome, Verdict, reproduce, select_experiments
from refusals import refuses
from sfumato._figures.line_chart import Axis, MeasuredLine, draw_lines
from sfumato.errors import SpecError, TargetError


def figure_of(number: int) -> Outcome:
    line = MeasuredLine("ours", ((1.0, float(number)), (2.0, 4.0)))
    drawn = draw_lines("A figure", Axis("x"), Axis("y"), [line], reading="It rises.")
    return Outcome(("x", "y"), ((1, number), (2, 4)), Verdict.AGREES, "As printed.", drawn)


def figure_of_seed(conditions: Conditions) -> Outcome:
    return figure_of(conditions.seed)


class Counted:
    """An experiment that knows how often it ran."""

    def __init__(self) -> None:
        self.runs = 0

    def __call__(self, conditions: Conditions) -> Outcome:
        self.runs += 1
        return figure_of(conditions.seed)


def test_a_finished_experiment_is_kept_and_another_seed_runs_anew(tmp_path: Path) -> None:
    counted = Counted()
    experiments = [Experiment("work/item", "an item", counted)]
    (first,), (second,) = (list(reproduce(experiments, tmp_path)) for _ in range(2))
    assert (first.is_kept, second.is_kept, counted.runs) == (False, True, 1)
    assert second.sentence == first.sentence
    list(reproduce(experiments, tmp_path, seed=2))
    list(reproduce(experiments, tmp_path, seed=2, quick=True))
    assert counted.runs == 3
    found = json.loads((tmp_path / "work/item.json").read_text())
    assert (found["seed"], found["quick"], found["verdict"]) == (2, True, "agrees")
    assert (tmp_path / "work/item.svg").read_text().startswith("<svg")
    assert "**agrees**: As printed." in (tmp_path / "work/item.md").read_text()
    assert sorted(path.name for path in (tmp_path / "work").iterdir()) == [
        "item.csv",
        "item.json",
        "item.md",
        "item.svg",
    ]


def test_a_fault_of_the_scan_is_not_called_wrong_in_print(tmp_path: Path) -> None:
    experiments = [
        Experiment("work/one", "", figure_of_seed, scan_faults=("0 for 1",)),
        Experiment("work/two", "", figure_of_seed, ("5 for 6",)),
    ]
    list(reproduce(experiments, tmp_path))
    one, two = ((tmp_path / f"work/{name}.md").read_text() for name in ("one", "two"))
    assert "Our scan may be at fault, and not the print: 0 for 1." in one
    assert "wrong in print" not in one
    assert "Known to be wrong in print (see the errata): 5 for 6." in two
    assert "scan" not in two
    assert json.loads((tmp_path / "work/one.json").read_text())["scan_faults"] == ["0 for 1"]


def test_an_interrupted_run_goes_on_where_it_was(tmp_path: Path) -> None:
    counted, is_interrupted = Counted(), True

    def second(conditions: Conditions) -> Outcome:
        if is_interrupted:
            raise KeyboardInterrupt
        return figure_of(conditions.seed)

    experiments = [Experiment("work/one", "first", counted), Experiment("work/two", "second", second)]
    with pytest.raises(KeyboardInterrupt):
        list(reproduce(experiments, tmp_path))
    assert not (tmp_path / "work/two.json").exists()
    is_interrupted = False
    assert [each.is_kept for each in reproduce(experiments, tmp_path)] == [True, False]
    assert counted.runs == 1


def test_a_spoilt_record_is_written_anew(tmp_path: Path) -> None:
    counted = Counted()
    experiments = [Experiment("work/item", "an item", counted)]
    list(reproduce(experiments, tmp_path))
    (tmp_path / "work/item.json").write_text("{")
    list(reproduce(experiments, tmp_path))
    assert counted.runs == 2


def test_one_page_has_all_sentences_by_what_they_were_made_with(tmp_path: Path) -> None:
    first, second = (Experiment(f"work/{name}", name, figure_of_seed) for name in ("one", "two"))
    list(reproduce([first], tmp_path, seed=3, quick=True))
    list(reproduce([second], tmp_path))
    (tmp_path / "work/notes.json").write_text("[]")  # somebody else's
    list(reproduce([second], tmp_path, seed=2))
    page = (tmp_path / "results.md").read_text()
    quick, full = page.split("sfumato ")[1:]
    assert "seed 3, a quick run. Tables: generated." in quick
    assert "| work/one | agrees | As printed. |\n" in quick
    assert "seed 2, a full run." in full
    assert full.count("| work/two |") == 1


def test_the_page_has_experiments_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    names = ("work/ex10", "work/table3-4", "work/ex2", "other/ex3", "work/table3-12")
    list(reproduce([Experiment(name, "", figure_of_seed) for name in names], tmp_path))
    listed = re.findall(r"^\| (\w+/\S+)", (tmp_path / "results.md").read_text(), re.MULTILINE)
    assert listed == ["other/ex3", "work/ex2", "work/ex10", "work/table3-4", "work/table3-12"]


def test_a_file_is_no_directory(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with refuses(TargetError, "target-is-a-file", file=str(tmp_path / "file")):
        list(reproduce(EXPERIMENTS, tmp_path / "file"))


def test_names_of_works_and_items() -> None:
    assert select_experiments(["all"]) == EXPERIMENTS
    assert {each.name.partition("/")[0] for each in select_experiments(["small-domain"])} == {"small-domain"}
    assert [each.name for each in select_experiments(["small-domain/ex1", "small-domain/ex1"])] == ["small-domain/ex1"]
    with refuses(SpecError, "unknown-experiment", experiment="small-domain/tabl2", nearest="small-domain/table2"):
        select_experiments(["small-domain/tabl2"])
    assert len({each.name for each in EXPERIMENTS}) == len(EXPERIMENTS)
