"""`python -m papers` as people type it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from command_line import Outcome as Ran
from command_line import complaint, people, run, succeed, write_csv
from papers import Conditions, Experiment, Outcome, experiments, select_experiments
from papers.as_published import SETTINGS
from papers.command_line import main
from protected_tables import EXAMPLE
from sfumato import Release
from sfumato.mechanisms import REGISTRY

REQUESTS = {
    "small-domain": ("--prior", "1/3", "--posterior", "1/2", "--accept-marginal-prior=made up"),
    "fine-grain": ("--tolerance", "2"),
    "buckets": ("--cap-factor", "2", "--cap-offset", "1/10"),
    "anatomy": ("--diversity", "2"),
    "decoys": ("--group-size", "2"),
}
"""A request for each mechanism that a work prints."""
SQL = "SELECT sex, COUNT(*) AS n FROM release WHERE disease = 'flu' GROUP BY sex"


def run_papers(*arguments: str | Path) -> Ran:
    return run(*arguments, program=main)


def succeed_papers(*arguments: str | Path) -> Ran:
    outcome = run_papers(*arguments)
    assert outcome.code == 0, outcome.err
    return outcome


@pytest.fixture
def table(desk: Path) -> Path:
    return write_csv(desk / "people.csv", people(120))


def publish_as(work: str, table: Path, *options: str) -> list[str]:
    request = ("--sensitive", "disease", *REQUESTS[SETTINGS[work].mechanism], "--accept-exposure=made up")
    return ["publish", str(table), "--as-published", work, *request, "--out", "release", *options]


def test_experiments_write_tables_and_say_what_agrees(tmp_path: Path) -> None:
    told = succeed_papers("small-domain/ex1", "small-domain/table1", "--out", tmp_path / "results")
    assert "small-domain/table1 agrees" in told.out
    assert (tmp_path / "results/small-domain/table1.csv").read_text().startswith("values,")
    again = succeed_papers("small-domain/table2", "--quick", "--out", tmp_path / "q", "--json").json
    assert {each["verdict"] for each in again["experiments"]} <= {"agrees", "differs", "contradicts", "beyond"}


def test_experiments_are_listed_and_complain(tmp_path: Path) -> None:
    assert "small-domain/table2" in succeed_papers("list").out
    assert "--out" in complaint(run_papers("small-domain/ex1"))
    assert "no experiment" in complaint(run_papers("small-domain/ex99", "--out", tmp_path / "x"))
    assert "cannot be written" in complaint(run_papers("small-domain/ex1", "--out", __file__ + "/x"))
    (tmp_path / "data").mkdir()
    tables = ("--data", tmp_path / "data", "--out", tmp_path / "x")
    assert "none of the tables" in complaint(run_papers("small-domain/ex1", *tables))
    assert not (tmp_path / "x").exists()


def test_experiments_are_listed_by_work() -> None:
    told = succeed_papers("list", "--json").json["experiments"]
    assert all(" " in each["work"] for each in told)  # words, and not the name of a module
    listed = succeed_papers("list").words
    assert listed.index("Small domain randomization") < listed.index("small-domain/ex1") < listed.index("Fine-grain")


def test_experiments_that_are_stopped_keep_what_is_finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(conditions: Conditions) -> Outcome:
        raise KeyboardInterrupt

    both = (select_experiments(["small-domain/table1"])[0], Experiment("work/long", "", stop))
    monkeypatch.setattr(experiments, "EXPERIMENTS", both)
    stopped = run_papers("all", "--out", tmp_path / "results")
    assert stopped.code == 130
    assert f"stopped; 1 of 2 are in {tmp_path / 'results'}, and the same command goes on from there." in stopped.err
    assert "small-domain/table1 agrees (kept from before)" in run_papers("all", "--out", tmp_path / "results").out


@pytest.mark.slow
def test_package_runs_from_a_checkout() -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "papers", "list", "--json"],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(ran.stdout)["format"] == 1


@pytest.mark.slow
@pytest.mark.parametrize("work", SETTINGS)
@pytest.mark.filterwarnings("ignore::sfumato.NoticeWarning")
def test_release_as_published_is_opened_verified_and_answered_by_sfumato(work: str, table: Path) -> None:
    succeed_papers(*publish_as(work, table, "--plan-file", "plan.json"))
    settings = SETTINGS[work]
    remembered = json.loads(Path("plan.json").read_text())["options"][settings.mechanism]
    assert {name: remembered[name] for name in settings.options} == dict(settings.options)
    assert succeed("verify", "release", "--original", table, "--json").json["passed"]
    assert succeed("query", "release", SQL, "--json").json["rows"]
    asked = succeed_papers("query", "release", SQL, "--as-published", work, "--json").json
    assert asked["method"].startswith(REGISTRY[settings.mechanism].estimators[settings.method].label)


@pytest.mark.slow
def test_flag_wins_over_what_a_work_prints(table: Path) -> None:
    succeed_papers(*publish_as("one-size-buckets", table, "--min-bucket", "5", "--plan-file", "plan.json"))
    remembered = json.loads(Path("plan.json").read_text())["options"]["buckets"]
    assert (remembered["sizes"], remembered["min_bucket"], remembered["dealing"]) == ("one", 5, "round-robin")


@pytest.mark.slow
def test_plan_as_published_merges_as_the_paper_does(desk: Path) -> None:
    (desk / "counts.csv").write_text(
        "value,count\n" + "".join(f"x{number},{count}\n" for number, count in enumerate(EXAMPLE))
    )
    asked = ("plan", "--counts", "counts.csv", "--prior", "1/3", "--posterior", "2/3")
    printed = succeed_papers(*asked, "--as-published", "small-domain", "--json").json
    ours = succeed(*asked, "--mechanism", "small-domain", "--json").json
    assert len(printed["cells"]) > len(ours["cells"])  # ours merges cells of fewer than a thousand records


@pytest.mark.slow
def test_mistakes_of_publishing_and_asking_are_one_sentence(desk: Path, table: Path) -> None:
    named = complaint(run_papers(*publish_as("splu", table)[:2], "--as-published", "splo", "--sensitive", "disease"))
    assert "out" in named
    asked = ("--sensitive", "disease", *REQUESTS["decoys"], "--out", "release")
    assert "'splu'?" in complaint(run_papers("publish", table, "--as-published", "splo", *asked))
    other = complaint(run_papers("publish", table, "--as-published", "splu", "--mechanism", "subset", *asked))
    assert "--mechanism subset" in other
    assert not (desk / "release").exists()
    succeed("publish", table, *asked, "--accept-exposure=made up")
    assert "'decoys'" in complaint(run_papers("query", "release", SQL, "--as-published", "anatomy"))


@pytest.mark.slow
def test_estimators_of_papers_are_not_offered_to_analysts(table: Path) -> None:
    succeed_papers(*publish_as("splu", table))
    assert "paper" not in succeed("info", "release", "--json").json["methods"]
    assert Release.open("release").methods == ("inverse", "fitted", "closed", "shrunk")
    refusal = complaint(run("query", "release", SQL, "--method", "paper"))
    assert refusal.startswith("the method 'paper' is unknown for 'decoys'; use inverse")
    assert complaint(run("export", "release", "--values", "flu", "--out", "x.csv", "--method", "paper")) == refusal


@pytest.mark.parametrize(
    "options",
    [("--merge", "paper"), ("--dealing", "mixed"), ("--groups", "anatomy"), ("--sizes", "two")],
    ids=lambda options: options[0],
)
def test_options_that_only_reproduce_a_paper_are_no_flags_of_sfumato(desk: Path, options: tuple[str, str]) -> None:
    (desk / "counts.csv").write_text("value,count\nflu,24\ncold,12\nHIV,12\n")
    complaint(run("plan", "--counts", "counts.csv", "--cap-factor", "3", *options))
