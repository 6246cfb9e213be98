"""Seven situations of careless data stewards: what stops them, and where the messages alone lead them."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from command_line import BOUND, TEST_KEY, list_stops, run, succeed
from sfumato._profile.untidy_values import Untidy
from sfumato._query.bound_coverage import estimate_bound_coverage
from sfumato._query.release import Release
from situations import (
    ANSWERS,
    REASON,
    ROWS,
    Steward,
    Table,
    list_options,
    make_answers,
    make_appointments,
    make_dirty,
    make_discharges,
    make_registry,
    make_survey,
    make_wages,
    shuffle_column,
    tidy,
    write,
)

COMMANDS_OF_THE_GUIDE = 13
"""The commands of docs/how-to/publish-a-raw-hospital-table.md before publishing stopped with decisions."""
TABLE = "table.csv"


@dataclass(frozen=True)
class Situation:
    """A table, what a careless steward types, and what the same steward knows who reads the messages."""

    make: Callable[[], Table]
    sensitive: Sequence[str]
    careless: Sequence[str]
    """The options with which everything would be published at once."""
    stops: Collection[str]
    """The codes of what stops that."""
    drafts: bool = True
    """Whether the steward begins with `init`."""
    publishes: Collection[str] = ()
    accepts: Collection[str] = ()
    code_books: Mapping[str, Sequence[str]] = field(default_factory=dict)
    decided: Collection[str] = ()
    """The codes of what the steward decides on the way."""


SITUATIONS = {
    "discharges": Situation(
        make_discharges,
        ["DX1"],
        ("--sensitive", "DX1", "--public", "*", *BOUND),
        {"looks-sensitive", "column-discloses", "records-unique"},
        publishes=["DX2"],
        accepts=["records-unique"],
        decided={"columns-undecided", "looks-sensitive", "records-unique"},
    ),
    "survey": Situation(
        make_survey,
        ["hiv_test"],
        ("--sensitive", "hiv_test", "--public", "*", *BOUND),
        {"looks-sensitive", "records-unique"},
        publishes=["std", "depressed"],
        accepts=["records-unique"],
        decided={"columns-undecided", "looks-sensitive", "records-unique"},
    ),
    "wages": Situation(make_wages, ["wage"], ("--sensitive", "wage", "--public", "*", *BOUND), {"numbers-undeclared"}),
    "appointments": Situation(
        make_appointments,
        ["reason"],
        ("--sensitive", "reason", "--person", "appointment", "--public", "*", "--keep", "patient", *BOUND),
        {"looks-sensitive", "records-unique"},
    ),
    "uncovered": Situation(
        lambda: make_registry([25] * 4),
        ["disease"],
        ("--sensitive", "disease", "--public", "*", *BOUND),
        {"values-uncovered"},
        drafts=False,
        publishes=["sex", "region"],
        accepts=["values-uncovered"],
        decided={"no-protection", "columns-undecided", "values-uncovered"},
    ),
    "answers": Situation(
        make_answers,
        list(ANSWERS),
        ("--compound", ",".join(ANSWERS), "--public", "*", *BOUND),
        {"combinations-undeclared"},
        drafts=False,
        publishes=["sex", "region"],
        code_books=ANSWERS,
        decided={"no-protection", "columns-undecided", "combinations-undeclared"},
    ),
    "dirty": Situation(
        make_dirty,
        ["disease"],
        ("--sensitive", "disease", "--public", "*", *BOUND),
        {"records-unique"},
        decided={"records-unique"},
    ),
}


@pytest.mark.parametrize("name", SITUATIONS)
def test_careless_command_is_stopped(name: str, desk: Path) -> None:
    situation = SITUATIONS[name]
    write(situation.make())
    outcome = run("publish", TABLE, *situation.careless, "--out", "release", "--json", is_decided=False)
    assert outcome.code == 2
    error = outcome.json["error"]
    assert ({stop["code"] for stop in error["stops"]} if "stops" in error else {error["code"]}) == situation.stops
    assert not (desk / "release").exists()


@pytest.mark.slow
@pytest.mark.parametrize("name", SITUATIONS)
@pytest.mark.usefixtures("desk")
def test_messages_lead_to_a_release_that_says_what_was_accepted(name: str) -> None:
    situation = SITUATIONS[name]
    table = situation.make()
    options = ["--compound", ",".join(ANSWERS)] if situation.code_books else ["--sensitive", *situation.sensitive]
    steward = Steward(write(table), publishes=situation.publishes, accepts=situation.accepts)
    steward.code_books = situation.code_books
    if situation.drafts:
        steward.draft(*options)
    else:
        steward.options = [*options, "--out", "release", "--each-row-is-a-person"]
    steward.publish()
    verified = steward.verify(TABLE)
    assert set(steward.codes) == set(situation.decided)
    assert 2 * steward.commands <= COMMANDS_OF_THE_GUIDE
    check_acceptances(verified.out)
    accepted = [read_accepted(steward, made, str(place)) for place, made in enumerate((table, other_people(situation)))]
    assert accepted[0] == accepted[1], "an acceptance says nothing of the sensitive column"


def other_people(situation: Situation) -> Table:
    """The table with the sensitive values of other people."""
    return shuffle_column(situation.make(), *situation.sensitive)


def check_acceptances(verified: str) -> None:
    """Looks for the reasons in everything that people read about the release."""
    accepted = read_manifest("release")
    reasons = [accepted.get("unique"), accepted.get("uncovered"), *{one["reason"] for one in accepted["disclosing"]}]
    number = sum(reason == REASON for reason in reasons)
    succeed("certificate", "release", "--out", "certificate.html")
    for text in (verified, Path("release/README.md").read_text(), Path("certificate.html").read_text()):
        assert text.count(REASON) >= number
        assert (REASON in text) == bool(number)


def read_manifest(folder: str) -> dict[str, Any]:
    """What the manifest of a release says was accepted."""
    accepted: dict[str, Any] = json.loads(Path(folder, "datapackage.json").read_text())["sfumato"]["accepted"]
    return accepted


def read_accepted(steward: Steward, table: Table, folder: str) -> dict[str, Any]:
    """What was accepted, in a release of another table with the same decisions and a known key."""
    write(table)
    options = [*steward.options, "--out", folder, "--unsafe-test-key", TEST_KEY]
    outcome = run("publish", steward.source, *options, is_decided=False)
    assert outcome.code == 0, outcome.err
    return read_manifest(folder)


# ------------------------------------------------------------------------------------------------- one situation each


@pytest.mark.slow
@pytest.mark.usefixtures("desk")
def test_every_further_diagnosis_and_the_group_of_a_stay_are_named() -> None:
    write(make_discharges())
    stops = list_stops("publish", TABLE, "--sensitive", "DX1", "--out", "release", *BOUND)
    named = {name for stop in stops if stop["code"] == "looks-sensitive" for name in stop["columns"]}
    assert named == {"DRG", *(f"DX{number}" for number in range(2, 21))}
    ways_out = [list_options(way) for stop in stops if "DX2" in stop.get("columns", ()) for way in stop["ways_out"]]
    assert ways_out == [[("--drop", "DX*")], [("--accept-disclosing", "DX*=REASON")]]


@pytest.mark.slow
@pytest.mark.usefixtures("desk")
def test_answers_of_yes_and_no_are_not_taken_for_the_protected_one() -> None:
    write(make_survey())
    stops = list_stops("publish", TABLE, "--sensitive", "hiv_test", "--out", "release", *BOUND)
    named = {name for stop in stops if stop["code"] == "looks-sensitive" for name in stop["columns"]}
    assert named == {"abortion", "drug_use", "depressed", "std"}


@pytest.mark.slow
@pytest.mark.usefixtures("desk")
def test_refusal_of_wages_leads_to_ranges_of_which_no_edge_is_a_wage() -> None:
    table = make_wages()
    steward = Steward(write(table))
    command = ("publish", TABLE, "--sensitive", "wage", "--public", "*", "--out", "release", *BOUND, "--json")
    refused = steward.run(*command)
    assert refused.json["error"]["code"] == "numbers-undeclared"
    assert "sfumato init" in refused.json["error"]["message"]
    steward.draft("--sensitive", "wage")
    steward.publish()
    steward.verify(TABLE)
    assert 2 * steward.commands <= COMMANDS_OF_THE_GUIDE
    domain = Release.open("release").manifest.domain
    edges = {edge for label in domain if label for edge in str(label).strip("[)]").split(",")}
    assert len(edges) > 2
    assert not {str(wage) for wage in table["wage"]} & edges


@pytest.mark.slow
@pytest.mark.usefixtures("desk")
def test_one_row_of_a_person_counts_people_and_a_row_number_counts_rows() -> None:
    table = make_appointments()
    steward = Steward(write(table))
    steward.draft("--sensitive", "reason")
    found = steward.publish().json
    assert (found["counted"], found["rows"]) == ("people", len(set(table["patient"])))
    assert found["persons"]["one_row"] == "first:day"
    wrong = ("--person", "appointment", "--drop", "patient", "--drop", "day")
    outcome = succeed("publish", TABLE, "--sensitive", "reason", *BOUND, *wrong, "--out", "rows", "--json")
    assert "row-number-as-person" in {notice["code"] for notice in outcome.json["notices"]}
    assert (outcome.json["counted"], outcome.json["rows"]) == ("rows", ROWS)


@pytest.mark.slow
@pytest.mark.usefixtures("desk")
def test_covered_share_is_exact_in_the_plan_and_an_estimate_in_the_release() -> None:
    """Each covered value has 3% of people: far from the prior of 10%, no estimate takes it for a frequent one."""
    steward = Steward(write(make_registry([38, 35, *[3] * 8, 3])), publishes=["sex", "region"])
    steward.options = ["--sensitive", "disease", "--each-row-is-a-person", "--out", "release"]
    found = steward.publish().json
    planned = succeed("plan", TABLE, *steward.options[:2], *BOUND[:2], "--posterior", "1/3", "--json").json
    for notices in (found["notices"], planned["notices"]):
        (notice,) = (notice for notice in notices if notice["code"] == "frequent-values")
        assert notice["numbers"]["covered_share"] == 0.27
    coverage = estimate_bound_coverage(Release.open("release"))
    assert coverage is not None
    assert coverage.sentence in Path("release/README.md").read_text()
    assert len(coverage.uncovered_values) == 2
    assert coverage.low < 0.27 < coverage.high < coverage.low + 0.4


@pytest.mark.slow
@pytest.mark.usefixtures("desk")
def test_other_way_out_of_a_guarantee_that_covers_nobody_covers_everybody() -> None:
    steward = Steward(write(make_registry([25] * 4)), publishes=["sex", "region"])
    steward.options = ["--sensitive", "disease", "--each-row-is-a-person", "--out", "release"]
    found = steward.publish().json
    assert steward.codes[-1] == "values-uncovered"
    assert "frequent-values" not in {notice["code"] for notice in found["notices"]}
    assert 2 * steward.commands < COMMANDS_OF_THE_GUIDE


UNTIDY = {
    "missing-numbers": ["age", "visits"],
    "outer-spaces": ["ward"],
    "several-spellings": ["town"],
    "thousands-separators": ["cost"],
    "dates-as-text": ["seen"],
    "free-text": ["story"],
}


@pytest.mark.slow
@pytest.mark.usefixtures("desk")
def test_title_and_each_kind_of_untidiness_are_named_with_their_remedy_until_none_is_left() -> None:
    steward = Steward(write(make_dirty()))
    lines = Path(TABLE).read_text()
    Path(TABLE).write_text(f"Export of the office,,,,,,,\n{lines}")
    refused = steward.run("init", TABLE, "--sensitive", "disease", "--json")
    assert refused.code == 2
    assert "line 2" in refused.json["error"]["message"]
    Path(TABLE).write_text(lines)
    assert steward.draft("--sensitive", "disease").json["untidy"] == UNTIDY
    shown = succeed("init", TABLE, "--sensitive", "disease", "--force").words
    for kind in Untidy:
        assert (kind.value.remedy in shown) == (kind.value.code in UNTIDY)
    steward.source = write(tidy(make_dirty()))
    assert steward.draft("--sensitive", "disease").json["untidy"] == {}
    steward.publish()
    steward.verify(TABLE)
    assert 2 * steward.commands <= COMMANDS_OF_THE_GUIDE
