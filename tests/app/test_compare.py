"""The command `compare`: three layers and a recommendation, in a terminal, for machines and as a page."""

from __future__ import annotations

import re
import stat
from pathlib import Path

import pytest

from command_line import BOUND, fail, succeed
from generated_pages import verdicts
from sfumato._comparison.matching_criteria import WEAKEST
from sfumato._comparison.mechanism_trial import ATTACKERS
from sfumato.cli import compare_command as comparing
from sfumato.mechanisms import REGISTRY

COMPARE = ("compare", "people.csv", "--sensitive", "disease")
AT_BOUND = (*COMPARE, *BOUND, "--seed", "1")


def test_weakest_posterior_is_the_same_where_help_waits_for_nothing() -> None:
    assert str(WEAKEST) == comparing.WEAKEST


@pytest.mark.slow
def test_comparison_is_told_in_a_terminal_and_filed_as_a_private_page(table: Path) -> None:
    told = succeed(*AT_BOUND, "--out", "compare.html", "--decider", "Ada <Lovelace>")
    titles = ["Proved", "Measured", "Cost"]
    places = [told.out.index(f"\n{each}\n") for each in titles]
    assert places == sorted(places)
    assert "Use subset against an attacker" in told.words
    assert "an attacker who knows all" in told.words
    stopped = set(re.findall(r"│ ([\w-]+) +│[^│]+│ refused", told.out))
    assert stopped == set(re.findall(r"publish would refuse ([\w-]+): ", told.words))
    assert told.out.endswith("written to compare.html (private)\n")
    # Stops and reasons stay one line each where nobody looks, to be searched.
    assert max(len(line) for line in told.out.splitlines() if line.startswith(("┃", "│", "┏", "└"))) <= 80
    assert verdicts(told.out) == []
    page = Path("compare.html")
    assert stat.S_IMODE(page.stat().st_mode) == 0o600
    text = page.read_text(encoding="utf-8")
    assert "is up to Ada &lt;Lovelace&gt;" in text
    assert text.count("PRIVATE") > 5
    assert verdicts(text) == []
    assert len(text) < 400_000


@pytest.mark.slow
def test_machines_are_told_all_layers(table: Path) -> None:
    told = succeed(*AT_BOUND, "--json").json
    assert told["format"] == 1
    assert told["asked"]["guarantee"] == "any-prior"
    assert [each["mechanism"] for each in told["mechanisms"]] == list(REGISTRY)
    for each in told["mechanisms"]:
        if each["possible"]:
            assert set(each["proved"]["attackers"]) == set(each["measured"]) == set(ATTACKERS)
            assert {"error_at", "relative_error", "bytes_a_record", "planning_seconds"} == set(each["cost"])
            assert each["mechanism"] != told["recommended"] or not each["weaker_than_asked"]
        else:
            assert each["reason"]


@pytest.mark.slow
def test_a_gain_or_an_error_needs_no_posterior(table: Path) -> None:
    for aim, said in (("--at-gain=5%", "a gain of at most 5 points"), ("--error=100%", "an error of at most 100%")):
        told = succeed(*COMPARE, "--prior", "1/10", aim, "--at", "20", "--attacker", "f", "--seed", "1", "--json").json
        assert told["aim"].startswith(said)
        assert told["attacker"]["letter"] == "F"
        assert told["asked"]["posterior"] == "99/100"


@pytest.mark.slow
def test_request_file_is_compared_whatever_it_says_of_other_commands(desk: Path, table: Path) -> None:
    """The release that it names, its plan file and its aim are for `publish` and `plan`."""
    lines = [
        "[table]",
        'path = "people.csv"',
        'sensitive = "disease"',
        "[protection]",
        'prior = "1/10"',
        'posterior = "1/2"',
        'error = "10%"',
        "[output]",
        'out = "release"',
        'plan_file = "key.json"',
    ]
    (desk / "request.toml").write_text("\n".join(lines), encoding="utf-8")
    told = succeed("compare", "request.toml", "--json").json
    assert told["aim"] == "one posterior, 1/2"
    assert sorted(each.name for each in desk.iterdir()) == ["people.csv", "request.toml"]


def test_what_cannot_be_compared_is_refused_and_leaves_nothing(desk: Path, table: Path, release: Path) -> None:
    assert "no protection was chosen" in fail(desk, *COMPARE)
    assert "two kinds of request" in fail(desk, *COMPARE, *BOUND, "--diversity", "2")
    assert "the attacker 'X' is unknown" in fail(desk, *AT_BOUND, "--attacker", "X")
    assert "give one of them" in fail(desk, *AT_BOUND, "--at-gain", "5%", "--error", "5%")
    assert "name the page with --out" in fail(desk, *AT_BOUND, "--decider", "Ada")
    assert "ends in .html" in fail(desk, *AT_BOUND, "--out", "page.pdf")
    assert "would lie in a release" in fail(desk, *AT_BOUND, "--out", release / "page.html")
    (desk / "page.html").write_text("old", encoding="utf-8")
    assert "exists" in fail(desk, *AT_BOUND, "--out", "page.html")
    assert re.search("at one posterior", fail(desk, *COMPARE, "--tolerance", "2"))
