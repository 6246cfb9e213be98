"""Each command does its job, for people and for machines; notices go to standard error, answers to standard output."""

from __future__ import annotations

import ast
import contextlib
import json
import os
import re
import shlex
import signal
import stat
import subprocess
import sys
import zipfile
from dataclasses import dataclass, replace
from enum import Enum
from fractions import Fraction
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from accepted import OPTIONS
from command_line import (
    BOUND,
    OPEN_BOUND,
    SCRIPT,
    TEST_KEY,
    Outcome,
    content,
    fail,
    list_stops,
    people,
    publishing,
    run,
    run_apart,
    succeed,
    write_csv,
    write_parquet,
)
from releases import fit_digests
from sfumato import BreachBound, Histogram, cli
from sfumato._core.exact_numbers import Exact
from sfumato._core.option_fields import list_flags, option
from sfumato._core.random_draws import Draws
from sfumato._engines.local_engine import LocalEngine
from sfumato._request.requirement_kinds import REQUIREMENT_KINDS
from sfumato.cli.app import build
from sfumato.cli.command_settings import EXAMPLES
from sfumato.cli.flags import format_flag
from sfumato.cli.options import GuaranteeOptions
from sfumato.mechanisms import REGISTRY
from sfumato.mechanisms._bucketization.buckets import Sizes
from sfumato.mechanisms._randomized_response import uniform_mechanism as uniform
from sfumato.mechanisms._randomized_response.value_bounds import Direction
from sfumato.mechanisms.mechanism import AnyMechanism, NoOptions

FILES = {"README.md", "data.parquet", "datapackage.json", "weights.parquet"}
DISEASES = ["HIV", "asthma", "cold", "flu"]
LONGEST_FUNCTION = 40
PROMISE = "at most 10% likely"
EXACTLY = "the attacker's odds by at most 9 "


# ---------------------------------------------------------------------------------------------------------- the program


def test_version_is_that_of_the_package() -> None:
    assert succeed("--version").out == f"sfumato {version('sfumato')}\n"


@pytest.mark.slow
def test_program_runs_in_a_process_of_its_own(desk: Path, table: Path) -> None:
    published = run_apart(*publishing(table, "--json"))
    assert published.code == 0
    assert json.loads(published.out)["rows"] == 60
    assert {path.name for path in desk.iterdir()} == {"people.csv", "release"}


@pytest.mark.parametrize("command", ["demo", "plan", "publish", "info", "query", "verify"])
def test_help_names_every_option_with_a_sentence(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "480")
    shown = succeed(command, "--help").words
    for parameter in build().commands[command].params:
        assert parameter.help, parameter.name
        assert parameter.help in shown
        for name in parameter.opts:
            assert name.startswith("--") is False or f" {name} " in shown
    assert "--json" in shown


def panels(shown: str) -> dict[str, str]:
    """The panels of a help page: what stands in each, by its title."""
    parts = re.split(r"(?m)^╭─ (.+?) ─+╮$", shown)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def flags_of(mechanism: AnyMechanism) -> list[str]:
    return [format_flag(flag.name) for _, flag in list_flags(mechanism.options)]


@pytest.mark.parametrize("name", ["plan", "publish"])
def test_help_shows_panels_from_the_table_to_the_output(name: str) -> None:
    shown = panels(succeed(name, "--help").out)
    flags = {each.name: flags_of(each) for each in REGISTRY.values()}
    firsts = {flag: name for name, mine in reversed(flags.items()) for flag in mine}
    mechanisms = [name for name in flags if name in firsts.values()]  # an option stands with the first that has it
    assert list(shown) == ["Arguments", "The table", "Guarantee and method", *mechanisms, "Where it runs", "Output"]
    assert re.findall(r"(?m)^│ (--\S+)", shown["The table"])[0] == "--sensitive"
    assert re.findall(r"(?m)^│ (--\S+)", shown["Guarantee and method"])[:2] == ["--prior", "--posterior"]
    assert "--help" in shown["Output"]


@pytest.mark.parametrize("name", ["plan", "publish"])
def test_help_names_every_option_of_a_request_and_of_a_mechanism_once(name: str) -> None:
    shown = panels(succeed(name, "--help").out)
    declared = {format_flag(flag.name): "Guarantee and method" for kind in REQUIREMENT_KINDS for flag in kind.FLAGS}
    for mechanism in REGISTRY.values():
        for flag in flags_of(mechanism):
            declared.setdefault(flag, mechanism.name)
    for flag, title in declared.items():
        places = [each for each, lines in shown.items() for _ in re.findall(rf"(?m)^│ {flag} ", lines)]
        assert places == [title], flag


def test_option_of_several_mechanisms_is_for_those_that_meet_the_request() -> None:
    unsaid = {each.name: None for each in GuaranteeOptions.list_parameters()}
    directed = {**unsaid, "direction": Direction.BOTH}
    takers = {
        "several": ({"tolerance": "2"}, ("fine-grain", "harmonic")),
        "none": ({"diversity": 2}, ("fine-grain",)),
    }
    for words, (request, names) in takers.items():
        expected = {name: REGISTRY[name].options(direction=Direction.BOTH) for name in names}
        assert GuaranteeOptions({**directed, **request}).options == expected, words


def test_option_that_is_offered_in_part_is_taken_as_a_value_of_its_field() -> None:
    unsaid = {each.name: None for each in GuaranteeOptions.list_parameters()}
    (options,) = GuaranteeOptions({**unsaid, "cap_factor": "2", "sizes": "optimal"}).options.values()
    assert options.sizes is Sizes.OPTIMAL


def test_option_of_a_mechanism_that_does_not_meet_the_request_is_refused(desk: Path) -> None:
    (desk / "counts.csv").write_text("value,count\nflu,24\ncold,12\nHIV,12\n")
    asked = ["plan", "--counts", "counts.csv", "--diversity", "2"]
    succeed(*asked)
    words = (
        "options of 'buckets' were given, but this mechanism does not support this kind of request; "
        "remove these options."
    )
    assert fail(desk, *asked, "--min-bucket", "3") == words


class Spice(Enum):
    MILD = "mild"
    HOT = "hot"


@dataclass(frozen=True)
class Seasoning:
    spice: Spice = option(Spice.MILD, "spice", "How much spice.")
    limit: Exact | None = option(None, "spice_limit", "At most R of it.", metavar="R")
    is_fresh: bool = option(False, "fresh", "Only what is fresh.")


def test_options_of_a_new_mechanism_are_taken_and_shown(desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[Seasoning] = []

    def plan(histogram: Histogram, spec: BreachBound, options: Seasoning, draws: Draws, /) -> uniform.Plan:
        taken.append(options)
        return uniform.plan(histogram, spec, NoOptions(), draws)

    toy = replace(uniform.MECHANISM, name="toy", options=Seasoning, plan=plan)
    monkeypatch.setitem(REGISTRY, "toy", toy)
    shown = panels(succeed("publish", "--help").out)
    assert list(shown)[-3:] == ["toy", "Where it runs", "Output"]
    assert "<mild|hot>" in shown["toy"]
    assert f"{list(REGISTRY)[-2]}, toy." in " ".join(shown["Guarantee and method"].replace("│", " ").split())
    (desk / "counts.csv").write_text("value,count\nflu,24\ncold,12\nHIV,12\n")
    chosen = ["plan", "--counts", "counts.csv", *BOUND, "--mechanism", "toy", "--json"]
    succeed(*chosen)
    assert succeed(*chosen, "--spice", "hot", "--spice-limit", "1/3", "--fresh").json["mechanism"] == "toy"
    assert list(dict.fromkeys(taken)) == [Seasoning(), Seasoning(Spice.HOT, "1/3", True)]


def test_no_function_of_the_command_line_is_long() -> None:
    lengths = {}
    for path in Path(cli.__file__).parent.glob("*.py"):
        for each in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(each, ast.FunctionDef):
                said = each.body[0].end_lineno - each.body[0].lineno + 1 if ast.get_docstring(each) else 0
                lengths[path.name, each.name] = each.end_lineno - each.lineno + 1 - said
    assert len(lengths) > 50
    assert {place: length for place, length in lengths.items() if length > LONGEST_FUNCTION} == {}


@pytest.fixture(scope="module")
def tour(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the demonstration was run as the examples say."""
    folder = tmp_path_factory.mktemp("tour")
    with contextlib.chdir(folder):
        succeed(*shlex.split(EXAMPLES["demo"])[1:], "--rows", "2000")
    return folder


def test_help_of_every_command_has_an_example() -> None:
    assert set(EXAMPLES) == set(build().commands)
    assert "Example: sfumato demo --out tour, then sfumato info tour/release" in succeed("info", "--help").words


@pytest.mark.parametrize("name", [name for name in EXAMPLES if name != "demo"])
def test_example_runs_as_it_stands(name: str, tour: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tour)
    program, *arguments = shlex.split(EXAMPLES[name])
    assert program == "sfumato"
    succeed(*arguments)


def test_help_of_the_program_names_every_command() -> None:
    shown = succeed("--help").words
    assert all(f"│ {name} " in shown for name in ("demo", "plan", "publish", "info", "query", "verify"))


def test_stopping_a_command_leaves_nothing_behind(desk: Path, table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(LocalEngine, "shuffle", stop)
    before = content(desk)
    outcome = run(*publishing(table, "--plan-file", "plan.json"))
    assert (outcome.code, outcome.err.splitlines()[-1]) == (130, "error: stopped; nothing was written.")
    assert content(desk) == before


def test_full_memory_is_told_in_words_and_leaves_nothing_behind(
    desk: Path, table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fill(*_: Any) -> None:
        np.empty(1 << 60, dtype=np.uint8)

    monkeypatch.setattr(LocalEngine, "shuffle", fill)
    before = content(desk)
    outcome = run(*publishing(table, "--plan-file", "plan.json"))
    assert outcome.code == 2
    assert outcome.err.splitlines()[-1].startswith("error: memory is full, and nothing was written")
    assert content(desk) == before


SIGNALLED = """
import os, signal, sys
from sfumato._publish import publication
from sfumato.cli import main
sent, is_ignored, written = signal.Signals[sys.argv[1]], sys.argv[2] == "ignored", publication.write_records
def write_records(*given, **named):
    os.kill(os.getpid(), sent)
    return written(*given, **named)
publication.write_records = write_records
if is_ignored:
    signal.signal(sent, signal.SIG_IGN)
main(sys.argv[3:])
"""


@pytest.mark.slow
@pytest.mark.usefixtures("plain_signals")
@pytest.mark.parametrize("sent", ["SIGINT", "SIGTERM", "SIGHUP"])
@pytest.mark.parametrize("how", ["taken", "ignored"])
def test_signal_leaves_nothing_behind_and_is_ignored_where_it_was(desk: Path, table: Path, sent: str, how: str) -> None:
    before = content(desk)
    command = [sys.executable, "-c", SIGNALLED, sent, how, *publishing(table, "--plan-file", "plan.json", *OPTIONS)]
    outcome = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    if how == "ignored":
        assert (outcome.returncode, (desk / "release").is_dir()) == (0, True)
        return
    assert (outcome.returncode, outcome.stderr.splitlines()[-1]) == (130, "error: stopped; nothing was written.")
    assert content(desk) == before


@pytest.mark.slow
@pytest.mark.usefixtures("plain_signals")
def test_interrupt_while_the_program_is_loaded_ends_it_without_a_word() -> None:
    # Some module of the command line is never loaded: the signal comes instead.
    script = """
import os, signal, sys
class Interrupting:
    def find_spec(self, name, path, target=None):
        if name == "sfumato.cli.app":
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupting())
from sfumato.cli import program
program()
"""
    outcome = subprocess.run([sys.executable, "-c", script, "--help"], capture_output=True, text=True, check=False)
    assert (outcome.returncode, outcome.stdout, outcome.stderr) == (-signal.SIGINT, "", "")


# -------------------------------------------------------------------------------------------------------------- publish


def test_publish_writes_a_release_and_shows_its_promise(desk: Path, table: Path) -> None:
    outcome = succeed(*publishing(table))
    assert {path.name for path in (desk / "release").iterdir()} == FILES
    assert PROMISE in outcome.words
    assert outcome.words.startswith("60 records, mechanism uniform")
    assert outcome.out.endswith("written to release\n")
    assert "The key of this release was not kept." in outcome.words
    kept = succeed(*publishing(table, "--plan-file", "plan.json", out="kept"))
    assert "The key of this release was not kept." not in kept.words


def test_publish_tells_machines_what_it_did(desk: Path, table: Path) -> None:
    outcome = succeed(*publishing(table, "--json"))
    found = outcome.json
    assert found["path"] == "release"
    assert found["rows"] == 60
    assert found["sensitive"] == "disease"
    assert found["public"] == ["age", "sex"]
    assert found["fit_to_publish"] is True
    assert EXACTLY in found["statement"]["exact"]
    assert [f"{notice['grade']}: {notice['sentence']}" for notice in found["notices"]] == outcome.notices


def test_publish_leaves_out_what_names_people(desk: Path) -> None:
    written = people(name=[f"Zelenka {row}" for row in range(60)], number=range(60), note=["x", "y"])
    table = write_csv(desk / "people.csv", written)
    options = ["--identifier", "name", "--person", "number", "--drop", "note"]
    assert succeed(*publishing(table, *options, "--json")).json["public"] == ["age", "sex"]
    assert not any(b"Zelenka" in (found or b"") for found in content(desk / "release").values())


def test_publish_of_bins_shows_ranges(desk: Path, table: Path) -> None:
    outcome = succeed(*publishing(table, "--ranges", "age=0,40,80"))
    assert "age │ string │ public, in [0,40), [40,80]" in outcome.words
    answer = succeed("query", "release", "SELECT age, COUNT(*) FROM release GROUP BY age", "--json").json
    assert [(row["age"], row["n"]) for row in answer["rows"]] == [("[0,40)", 15), ("[40,80]", 45)]


# -------------------------------------------------------------------------------------------------------------- notices


def said(outcome: Outcome, words: str) -> list[str]:
    return [notice for notice in outcome.notices if words in notice]


def test_notice_tells_that_the_domain_was_observed(desk: Path, table: Path) -> None:
    assert len(said(succeed(*publishing(table)), "'disease' was taken from the table")) == 1
    (desk / "domain.txt").write_text("value\nflu\ncold\nHIV\nasthma\nmalaria\n")
    declared = succeed(*publishing(table, "--domain", "disease=domain.txt", out="declared"))
    assert "taken from the table" not in declared.err
    domain = succeed("info", "declared", "--json").json["design"]["domain"]
    assert domain == ["flu", "cold", "HIV", "asthma", "malaria"]


def test_notice_names_the_values_above_the_prior(desk: Path) -> None:
    table = write_csv(desk / "people.csv", people(100, disease=["flu"] * 89 + ["cold"] * 10 + ["HIV"]))
    (notice,) = said(succeed(*publishing(table)), "These values of 'disease' are not covered")
    assert "'flu'" in notice
    assert "'cold'" not in notice  # exactly a tenth


def test_public_column_that_tells_the_sensitive_one_stops_unless_it_is_accepted(desk: Path) -> None:
    chapters = {"flu": "J", "cold": "J", "HIV": "B", "asthma": "J"}
    written = people()
    table = write_csv(desk / "people.csv", written | {"ICD chapter": [chapters[each] for each in written["disease"]]})
    # The chapter tells HIV for certain, and makes a guess at the rest right for 36 of 60; a blind guess is for 24.
    succeed(*publishing(table, "--accept-disclosing", "ICD chapter=made up"))
    finer = {"flu": "J1", "cold": "J0", "HIV": "B2", "asthma": "J4"}
    table = write_csv(desk / "finer.csv", written | {"ICD chapter": [finer[each] for each in written["disease"]]})
    stops = {stop["code"]: stop for stop in list_stops(*publishing(table, out="finer"))}
    assert set(stops) == {"looks-sensitive", "column-discloses"}
    assert stops["column-discloses"]["numbers"] == {"guessed": 1.0, "blindly": 0.4}
    assert any("--drop 'ICD chapter'" in way_out for way_out in stops["column-discloses"]["ways_out"])
    accepted = succeed(*publishing(table, "--accept-disclosing", "ICD chapter=made up", out="finer"))
    (notice,) = said(accepted, "guesses of 'disease' from 'ICD chapter'")
    assert notice.endswith("you accepted this.")


def test_notice_counts_the_records_left_out(desk: Path) -> None:
    table = write_csv(desk / "people.csv", people(disease=["flu", "cold", None]))
    outcome = succeed(*publishing(table, "--nulls", "drop"))
    assert len(said(outcome, "20 records without a 'disease' were dropped")) == 1
    assert "20 records without" not in outcome.out


def test_notice_asks_for_the_person_of_each_row(desk: Path) -> None:
    table = write_csv(desk / "people.csv", people(number=range(100, 160)))
    assert len(said(succeed(*publishing(table, "--identifier", "number")), "(--person)")) == 1
    assert said(succeed(*publishing(table, "--person", "number", out="checked")), "(--person)") == []


# ----------------------------------------------------------------------------------------------------------------- plan


def test_plan_of_a_table_writes_nothing_and_shows_counts(desk: Path, table: Path) -> None:
    before = content(desk)
    outcome = succeed("plan", table, "--sensitive", "disease", *BOUND)
    assert content(desk) == before
    assert "Protecting 'disease' with uniform (any-prior)" in outcome.words
    assert "retention 2/3; odds can rise by a factor of at most 9" in outcome.words
    assert "flu │ 24 │ 40%" in outcome.words
    assert len(said(outcome, "'disease' was taken from the table")) == 1


def _is_plan(found: dict[str, Any], counts: dict[str, int]) -> None:
    """The contract of `plan --json`."""
    assert found["mechanism"] == "uniform"
    assert found["feasible"] is True
    assert found["guarantee"] == "any-prior"
    assert EXACTLY in found["scope"]
    assert (found["total"], found["domain_size"]) == (sum(counts.values()), len(counts))
    (cell,) = found["cells"]
    assert dict(zip(cell["values"], cell["counts"], strict=True)) == counts
    assert (cell["prior"], cell["amplification"], cell["retention"]) == ("1/10", "9/1", "2/3")
    # Theorem 2 of the small-domain paper: 2 sqrt(ln(2 / 0.05)) / (sqrt(n) p).
    assert found["error_bound"] == cell["error_bound"] == pytest.approx(2 * 3.688879454**0.5 / (60**0.5 * 2 / 3))
    assert set(found["predicted"]["relative_error"]) == {"0.001", "0.005", "0.01"}
    for each in found["predicted"]["questions"]:
        assert set(each) == {"question", "share", "among", "value", "count", "relative_error", "reason"}
    # Of four values the best sets have one, which is the same perturbation; no value is rare enough for small-domain.
    others = {other["mechanism"]: other for other in found["alternatives"]}
    assert others["subset"]["subset_size"] == 1
    assert "small-domain" not in others


def test_plan_of_a_table_keeps_its_contract_with_machines(table: Path) -> None:
    found = succeed("plan", table, "--sensitive", "disease", *BOUND, "--json").json
    _is_plan(found, {"HIV": 12, "asthma": 12, "cold": 12, "flu": 24})


def test_plan_of_counts_keeps_its_contract_with_machines(desk: Path) -> None:
    (desk / "counts.csv").write_text("value,count\nflu,24\ncold,12\nHIV,12\nasthma,12\n")
    outcome = succeed("plan", "--counts", "counts.csv", *BOUND, "--json")
    _is_plan(outcome.json, {"flu": 24, "cold": 12, "HIV": 12, "asthma": 12})
    assert len(said(outcome, "the prior 1/10: 'flu', 'cold', 'HIV', 'asthma'.")) == 1


def test_plan_of_counts_reads_rationals_values_and_the_missing_one(desk: Path) -> None:
    (desk / "counts.csv").write_text('\ufeffvalue,count,note\n"a, b",7,x\n,3,y\n', encoding="utf-8")
    found = succeed("plan", "--counts", "counts.csv", "--prior", "0.02", "--posterior", "4/13", "--json").json
    cell = found["cells"][0]
    assert (cell["values"], cell["counts"]) == (["a, b", None], [7, 3])
    amplification = Fraction(4, 13) * Fraction(49, 50) / (Fraction(1, 50) * Fraction(9, 13))
    assert Fraction(cell["amplification"]) == amplification
    assert Fraction(cell["retention"]) == (amplification - 1) / (amplification + 1)


def test_plan_predicts_the_error_by_how_much_a_count_finds(desk: Path) -> None:
    (desk / "counts.csv").write_text("value,count\nflu,900000\ncold,90000\nHIV,10000\n")
    predicted = succeed("plan", "--counts", "counts.csv", *BOUND, "--json").json["predicted"]["relative_error"]
    assert 1 > predicted["0.001"] > predicted["0.005"] > predicted["0.01"] > 0


def test_plan_tells_the_error_of_questions_that_people_ask(desk: Path) -> None:
    """Of a million: p = 4/5 and q = 1/15, so counts of c have the variance [c (p+q)(1-p-q) + (R-c) q (1-q)] / p²."""
    (desk / "counts.csv").write_text("value,count\nflu,900000\ncold,90000\nHIV,10000\n")
    found = succeed("plan", "--counts", "counts.csv", "--prior", "1/14", "--posterior", "1/2", "--json").json
    assert found["cells"][0]["retention"] == "4/5"
    told = {(each["share"], each["among"]): each for each in found["predicted"]["questions"]}
    for share, value, count in (("0.1", "cold", 90000), ("0.01", "HIV", 10000)):
        for among in ("1", "0.1"):
            each, part = told[share, among], float(among)
            variance = part * (count * 13 / 15 * 2 / 15 + (10**6 - count) * 1 / 15 * 14 / 15) / (4 / 5) ** 2
            assert (each["value"], each["count"], each["reason"]) == (value, part * count, None)
            assert each["relative_error"] == pytest.approx(variance**0.5 / (part * count))
    assert told["0.001", "1"]["relative_error"] is None
    assert told["0.001", "1"]["reason"] == "there is no value that 0.03% to 0.3% of all people have"
    assert told["0.1", "0.1"]["question"] == "how many have 'cold' (9% of all people), counted in a tenth of the people"


# ------------------------------------------------------------------------------------------------------- info and query


def test_info_shows_columns_and_promise(release: Path) -> None:
    shown = succeed("info", release).words
    assert shown.startswith("60 records, mechanism uniform")
    assert "disease │ string │ protected" in shown
    assert "disease has 4 values: 'HIV', 'asthma', 'cold', 'flu' (query: GROUP BY disease)" in shown
    assert "age │ integer │ public" in shown
    assert EXACTLY in shown


def test_info_tells_machines_the_exact_design(release: Path) -> None:
    found = succeed("info", release, "--json").json
    design = {"domain": DISEASES, "retention": "2/3", "prior": "1/10", "posterior": "1/2"}
    assert (found["rows"], found["mechanism"], found["guarantee"]) == (60, "uniform", "any-prior")
    assert found["design"] == design
    assert found["software"] == version("sfumato")


def test_query_keeps_its_contract_with_machines(release: Path) -> None:
    sql = "SELECT COUNT(*) FROM release WHERE disease = 'flu' AND sex = 'F'"
    found = succeed("query", release, sql, "--json").json
    assert list(found) == ["format", "columns", "rows", "method", "assumption", "level", "counted", "population"]
    assert found["columns"] == ["n", "n_se", "n_low", "n_high"]
    assert found["level"] == 0.95
    (row,) = found["rows"]
    assert list(row) == found["columns"]
    assert row["n_se"] > 0
    assert 0 <= row["n_low"] <= row["n_high"] <= 30


def test_query_names_the_count_as_asked_and_groups(release: Path) -> None:
    sql = "SELECT disease, COUNT(*) AS people, sex FROM release GROUP BY disease, sex"
    found = succeed("query", release, sql, "--json").json
    columns = [name for name in found["columns"] if name != "people_note"]  # there if one is below zero, by chance
    assert columns == ["disease", "people", "people_se", "people_low", "people_high", "sex"]
    assert {(row["disease"], row["sex"]) for row in found["rows"]} == {(each, sex) for each in DISEASES for sex in "FM"}
    assert sum(row["people"] for row in found["rows"]) == pytest.approx(60)


def test_query_at_a_higher_level_has_a_wider_interval(release: Path) -> None:
    sql = "SELECT COUNT(*) FROM release WHERE disease = 'flu'"
    usual, higher = (succeed("query", release, sql, "--level", level, "--json").json for level in ("0.9", "0.99"))
    assert (usual["level"], higher["level"]) == (0.9, 0.99)
    assert higher["rows"][0]["n_low"] < usual["rows"][0]["n_low"]
    assert higher["rows"][0]["n_high"] > usual["rows"][0]["n_high"]


def test_query_shows_people_a_table_and_what_the_interval_is_for(release: Path) -> None:
    assert "F │ 30 │" in succeed("query", release, "SELECT sex, COUNT(*) FROM release GROUP BY sex").words
    sql = "SELECT COUNT(*) FROM release WHERE disease = 'flu'"
    shown = succeed("query", release, sql, "--level", "0.9").words
    assert re.search(r"│ [\d.]+ ± [\d.]+ \[[\d.]+, [\d.]+\] │", shown)
    assert "± standard error, [90% confidence interval], for the numbers of the original table" in shown


# --------------------------------------------------------------------------------------------------------------- verify


def test_verify_says_what_was_checked(release: Path) -> None:
    outcome = succeed("verify", release)
    assert [line[:5] for line in outcome.out.splitlines()] == ["ok   "] * 10
    assert "a belief of 1/10 can rise to at most 1/2, which is within the guaranteed 1/2" in outcome.words


def test_verify_with_the_original_checks_public_columns_and_posteriors(release: Path, table: Path) -> None:
    found = succeed("verify", release, "--original", table, "--json").json
    assert found["passed"] is True
    assert [check["name"] for check in found["checks"]][10:] == ["public columns", "order", "draws", "posteriors"]
    assert all(check["passed"] and check["detail"].endswith(".") for check in found["checks"])


def test_verify_tells_machines_what_failed(release: Path) -> None:
    (release / "README.md").write_text("Everything is exact.")
    outcome = run("verify", release, "--json")
    assert outcome.code == 1
    assert outcome.json["passed"] is False
    assert outcome.err.startswith("error: the release fails the check 'files': README.md is missing or was")


def test_readme_that_says_something_else_does_not_verify(release: Path) -> None:
    """Also where every digest fits."""
    (release / "README.md").write_text("Everything is exact.")
    fit_digests(release)
    outcome = run("verify", release)
    assert outcome.code == 1
    assert outcome.err.startswith("error: the release fails the check 'readme': README.md does not match")


# ------------------------------------------------------------------------------------------------------------------ zip


@pytest.mark.slow
def test_packed_release_opens_answers_and_verifies(desk: Path, table: Path) -> None:
    succeed("publish", table, "--out", "release.zip", "--sensitive", "disease", *OPEN_BOUND)
    with zipfile.ZipFile(desk / "release.zip") as archive:
        assert set(archive.namelist()) == FILES
        assert {entry.date_time for entry in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
    assert succeed("info", "release.zip", "--json").json["rows"] == 60
    answer = succeed("query", "release.zip", "SELECT COUNT(*) FROM release WHERE disease = 'flu'", "--json").json
    assert answer["rows"][0]["n"] == pytest.approx(24)
    succeed("verify", "release.zip", "--original", table)


@pytest.mark.slow
def test_packed_release_is_replaced_by_force(desk: Path, table: Path) -> None:
    succeed(*publishing(table, out="release.zip"))
    old = (desk / "release.zip").read_bytes()
    succeed(*publishing(table, "--force", out="release.zip"))
    assert (desk / "release.zip").read_bytes() != old
    assert {path.name for path in desk.iterdir()} == {"people.csv", "release.zip"}


@pytest.mark.slow
def test_packed_release_holds_the_files_of_the_directory(desk: Path, table: Path) -> None:
    succeed(*publishing(table, "--unsafe-test-key", TEST_KEY))
    succeed(*publishing(table, "--unsafe-test-key", TEST_KEY, out="release.zip"))
    with zipfile.ZipFile(desk / "release.zip") as archive:
        assert {name: archive.read(name) for name in archive.namelist()} == content(desk / "release")


# ----------------------------------------------------------------------------------------------------------- plan files


def test_plan_file_is_private(desk: Path, table: Path) -> None:
    succeed(*publishing(table, "--plan-file", "plan.json"))
    assert stat.S_IMODE((desk / "plan.json").stat().st_mode) == 0o600


def test_plan_file_repeats_the_release_byte_for_byte(desk: Path, table: Path) -> None:
    succeed(*publishing(table, "--plan-file", "plan.json"))
    kept = (desk / "plan.json").read_bytes()
    succeed(*publishing(table, "--plan-file", "plan.json", out="again"))
    assert content(desk / "again") == content(desk / "release")
    succeed(*publishing(table, "--plan-file", "plan.json", "--force"))
    assert content(desk / "again") == content(desk / "release")
    assert (desk / "plan.json").read_bytes() == kept


def test_release_without_a_plan_file_is_drawn_afresh(desk: Path, table: Path) -> None:
    succeed(*publishing(table, out="one"))
    succeed(*publishing(table, out="other"))
    assert (desk / "one" / "data.parquet").read_bytes() != (desk / "other" / "data.parquet").read_bytes()


def test_plan_file_keeps_a_test_key_marked_as_one(desk: Path, table: Path) -> None:
    succeed(*publishing(table, "--plan-file", "plan.json", "--unsafe-test-key", TEST_KEY))
    again = succeed(*publishing(table, "--plan-file", "plan.json", "--json", out="again"))
    assert again.json["fit_to_publish"] is False
    assert content(desk / "again") == content(desk / "release")


# ------------------------------------------------------------------------------------------------------------ test keys


def test_release_of_a_test_key_says_that_it_is_unfit(desk: Path, table: Path) -> None:
    assert "UNFIT TO PUBLISH" in succeed(*publishing(table, "--unsafe-test-key", TEST_KEY)).out
    assert "UNFIT TO PUBLISH" in succeed("info", "release").out
    assert succeed("info", "release", "--json").json["fit_to_publish"] is False
    assert "UNFIT TO PUBLISH" in (desk / "release" / "README.md").read_text(encoding="utf-8")
    succeed("query", "release", "SELECT COUNT(*) FROM release")


def test_release_of_a_test_key_does_not_verify(table: Path) -> None:
    succeed(*publishing(table, "--unsafe-test-key", TEST_KEY))
    outcome = run("verify", "release")
    assert outcome.code == 1
    assert "fails the check 'fitness'" in outcome.err
    assert "unfit to publish" in outcome.err
    assert "FAIL fitness" in outcome.out
    assert outcome.out.count("FAIL") == 1


def test_release_of_a_secret_key_is_not_called_unfit(release: Path) -> None:
    assert "UNFIT" not in succeed("info", release).out
    assert "UNFIT" not in (release / "README.md").read_text(encoding="utf-8")


# ----------------------------------------------------------------------------------------------------------------- demo


@pytest.mark.slow
def test_demo_shows_truth_estimate_and_interval_and_leaves_nothing(desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sfumato.cli.app.out", Console(width=200))
    outcome = succeed("demo", "--rows", "2000")
    assert "2,000 patients" in outcome.words
    for word in ("truth", "estimate", "95% confidence interval", "women with HIV", "depression by region"):
        assert word in outcome.words
    assert "FAIL" not in outcome.out
    assert content(desk) == {}


def test_demo_tells_machines_truth_beside_estimate(desk: Path) -> None:
    found = succeed("demo", "--rows", "2000", "--json").json
    assert found["release"]["rows"] == 2000
    assert found["verification"]["passed"] is True
    assert len(found["answers"]) == 6
    for answer in found["answers"]:
        assert set(answer) == {"question", "truth", "n", "n_se", "n_low", "n_high"}
        assert isinstance(answer["truth"], int)
        # Six standard errors: a true answer is further off once in 500 million.
        assert abs(answer["n"] - answer["truth"]) < 6 * answer["n_se"] + 6


@pytest.mark.slow
def test_demo_keeps_its_files_on_request(desk: Path) -> None:
    outcome = succeed("demo", "--rows", "2000", "--out", "shown")
    assert {path.name for path in (desk / "shown").iterdir()} == {
        "hospital.parquet",
        "diagnoses.txt",
        "chapters.csv",
        "release",
        "journal.jsonl",
    }
    assert {path.name for path in (desk / "shown" / "release").iterdir()} == {*FILES, "counts.parquet"}
    assert "are in shown" in outcome.words
    succeed("verify", "shown/release", "--original", "shown/hospital.parquet")


# --------------------------------------------------------------------------------------------------------------- tables


@pytest.mark.slow
def test_directory_of_parquet_files_is_one_table(desk: Path) -> None:
    (desk / "parts").mkdir()
    write_parquet(desk / "parts" / "a.parquet", people(40))
    write_parquet(desk / "parts" / "b.parquet", people(20))
    for number, name in enumerate(("parts", "parts/*.parquet")):
        assert succeed(*publishing(name, "--json", out=f"release-{number}")).json["rows"] == 60
        succeed("verify", f"release-{number}", "--original", name)


# -------------------------------------------------------------------------------------------------- quiet, or talkative


@pytest.mark.slow
def test_quiet_commands_say_the_result_alone(desk: Path, table: Path) -> None:
    assert succeed(*publishing(table)).notices
    quiet = succeed(*publishing(table, "--force", "-q"))
    assert (quiet.out, quiet.err) == ("", "")
    assert succeed("verify", "release").out
    assert succeed("verify", "release", "-q").out == ""
    sql = "SELECT COUNT(*) FROM release WHERE disease = 'flu'"
    usual, short = (succeed("query", "release", sql, *more).out for more in ([], ["--quiet"]))
    assert usual.startswith(short)
    assert "±" in short
    assert "standard error" not in short
    assert succeed("plan", table, "--sensitive", "disease", *BOUND, "-q").err == ""


def test_quiet_check_says_what_failed(release: Path) -> None:
    (release / "README.md").write_text("other words")
    outcome = run("verify", release, "-q")
    assert outcome.code == 1
    assert outcome.out.startswith("FAIL files: ")
    assert "ok " not in outcome.out


@pytest.mark.slow
def test_verbose_commands_say_what_took_how_long(table: Path) -> None:
    told = [line for line in succeed(*publishing(table, "-v")).err.splitlines() if line.startswith("time: ")]
    assert re.fullmatch(
        r"time: counting done at [\d.]+ s, rewriting done at [\d.]+ s, writing done at [\d.]+ s", told[0]
    )
    assert re.fullmatch(r"time: [\d.]+ s in all", told[1])
    assert re.fullmatch(r"time: [\d.]+ s in all\n", succeed("info", "release", "--verbose").err)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("plan --mechanism s", ["small-domain", "subset"]),
        ("publish --guarantee m", ["marginal-prior"]),
        ("quer", ["query"]),
    ],
)
def test_shell_completes_words(words: str, found: list[str]) -> None:
    typed = {
        "COMP_WORDS": f"sfumato {words}",
        "COMP_CWORD": str(len(words.split())),
        "_SFUMATO_COMPLETE": "complete_bash",
    }
    ran = subprocess.run(
        [sys.executable, "-c", SCRIPT], env={**os.environ, **typed}, capture_output=True, text=True, check=False
    )
    assert sorted(ran.stdout.split()) == found, ran.stderr
