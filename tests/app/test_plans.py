"""Plans of every mechanism: what they decide, how they are shown, and the private files that repeat them."""

from __future__ import annotations

import json
import random
import re
import stat
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from accepted import OPTIONS
from command_line import GRADES, SCRIPT, content, run_apart, succeed, write_csv, write_parquet
from protected_tables import BOUND, DISEASES, EXAMPLE, SMALL_DOMAIN, WAYS, bounds_file, counts_file, patients, refused
from sfumato import BreachBound, choose
from slow_counts import SlowRelease

NARROW = ("--prior", "1/10", "--posterior", "1/2")

COMMON = {
    "mechanism",
    "feasible",
    "guarantee",
    "in_short",
    "scope",
    "total",
    "domain_size",
    "values",
    "counts",
    "predicted",
    "remarks",
    "alternatives",
}
"""What every plan tells."""

BESIDE = {"format", "target", "notices", "exposures", "uniqueness", "recodings"}
"""What stands beside the chosen one."""


def planned(desk: Path, counts: Sequence[int], *options: str | Path) -> dict[str, Any]:
    """The plan for values x1, x2, ... in JSON."""
    file = counts_file(desk, {f"x{number}": count for number, count in enumerate(counts, 1)})
    found: dict[str, Any] = succeed("plan", "--counts", file, *options, "--json").json
    return found


@pytest.mark.slow
def test_per_cents_ask_for_the_same_as_fractions(desk: Path) -> None:
    (desk / "caps.csv").write_text("value,cap\nx1,40%\nx2,33.5 %\n")
    (desk / "same.csv").write_text("value,cap\nx1,2/5\nx2,67/200\n")
    bounds, exact = desk / "percents.csv", bounds_file(desk, {"x1": ("1/4", "3/8"), "x3": ("1/20", "1/8")})
    bounds.write_text("value,prior,posterior\nx1,25%,37.5%\nx3,5%,12.5%\n")
    for one, other in (
        (("--prior", "10%", "--posterior", "33.5%"), ("--prior", "1/10", "--posterior", "67/200")),
        (("--bounds", bounds), ("--bounds", exact)),
        (("--caps", "caps.csv"), ("--caps", "same.csv")),
        (("--cap-factor", "150%", "--cap-offset", "10%"), ("--cap-factor", "3/2", "--cap-offset", "1/10")),
    ):
        found, same = (planned(desk, [30, 30, 20, 20], *each) for each in (one, other))
        assert found["scope"] == same["scope"]
        assert {**found, "predicted": None} == {**same, "predicted": None}  # which follows how buckets are dealt


# --------------------------------------------------------------------------------------------------------- small-domain


def test_plan_of_the_paper_s_example_has_its_two_cells(desk: Path) -> None:
    """Chaytor and Wang, Example 1 and the examples after it: cells of 36 and 6 records, and a bound of 2.0196."""
    plan = planned(desk, EXAMPLE, *SMALL_DOMAIN, "--as-published", "small-domain")
    assert plan.keys() - COMMON == {
        "balance",
        "error_bound",
        "error_bound_risk",
        "groups",
        "cells",
        "format",
        "target",
        "notices",
        "exposures",
        "uniqueness",
        "recodings",
    }
    assert (plan["mechanism"], plan["feasible"], plan["guarantee"]) == ("small-domain", True, "marginal-prior")
    assert (plan["total"], plan["domain_size"], plan["balance"]) == (42, 10, 3)
    assert plan["counts"] == list(EXAMPLE)
    assert plan["error_bound"] == pytest.approx(2.0196, abs=5e-5)
    assert [cell["counts"] for cell in plan["cells"]] == [[12, 8, 6, 4, 4, 2], [1] * 6]
    assert [cell["values"] for cell in plan["cells"]] == [
        ["x1", "x2", "x3", "x4", "x5", "x6"],
        ["x4", "x6", "x7", "x8", "x9", "x10"],
    ]
    assert [cell["prior"] for cell in plan["cells"]] == ["1/3", "1/6"]
    assert [cell["amplification"] for cell in plan["cells"]] == ["4/1", "10/1"]
    assert [cell["retention"] for cell in plan["cells"]] == ["1/3", "3/5"]
    assert [cell["error_bound"] for cell in plan["cells"]] == pytest.approx([1.9206, 2.6137], abs=5e-5)
    assert [group["number"] for group in plan["groups"]] == [1, 3, 2, 4, 5]
    assert plan["groups"][1] == {"number": 3, "values": ["x1", "x2", "x6"], "counts": [2, 2, 2]}
    assert [cell["groups"] for cell in plan["cells"]] == [[1, 3, 2], [4, 5]]
    assert plan["error_bound_risk"] == 0.05


def test_people_see_the_groups_in_their_order(desk: Path) -> None:
    """The paper's examples 2 to 4: five groups, of which the third stands beside the first."""
    file = counts_file(desk, {f"x{number}": count for number, count in enumerate(EXAMPLE, 1)})
    told = succeed("plan", "--counts", file, *SMALL_DOMAIN, "--as-published", "small-domain").out
    assert "delta is 0.05" in told
    lines = [[word.strip() for word in line.split("│")[1:-1]] for line in told.splitlines() if line.count("│") == 6]
    assert lines == [
        ["1", "3", "18", "6", "1"],
        ["3", "3", "6", "2", "1"],
        ["2", "3", "12", "4", "1"],
        ["4", "3", "3", "1", "2"],
        ["5", "3", "3", "1", "2"],
    ]


MANY = [100 * count for count in EXAMPLE]


@pytest.mark.parametrize(
    ("options", "least"),
    [
        ([], 1000),
        (["--min-cell", "2000"], 2000),
        (["--min-cell", "4200"], 4200),
        (["--min-cell", "0"], 0),
        (["--as-published", "small-domain"], 0),
        (["--as-published", "small-domain", "--min-cell", "700"], 700),
    ],
    ids=["usual", "larger", "everybody", "any size", "paper", "paper, larger"],
)
def test_cells_hold_every_record_once_and_are_not_too_small(desk: Path, options: list[str], least: int) -> None:
    cells = planned(desk, MANY, *SMALL_DOMAIN, *options)["cells"]
    placed = Counter[str]()
    for cell in cells:
        placed.update(dict(zip(cell["values"], cell["counts"], strict=True)))
        assert sum(cell["counts"]) >= least
    assert placed == {f"x{number}": count for number, count in enumerate(MANY, 1)}
    assert len(cells) > 1 or least >= 2000


def test_largest_minimum_makes_one_cell_and_says_so(desk: Path) -> None:
    plan = planned(desk, MANY, *SMALL_DOMAIN, "--min-cell", "4200")
    assert [cell["counts"] for cell in plan["cells"]] == [MANY]
    assert any(
        remark.startswith("a single sub-table with all values has the smallest error here")
        for remark in plan["remarks"]
    )


# ----------------------------------------------------------------------------------------------------------- fine-grain


AMPLIFICATIONS = {"x1": ("2/5", "1/2"), "x2": ("1/4", "1/2"), "x3": ("2/21", "1/2"), "x4": ("1/19", "1/2")}
"""Bounds with the amplifications 3/2, 3, 19/2 and 18."""


def test_plan_of_one_bound_for_each_value_has_a_retention_for_each(desk: Path) -> None:
    """With x1 never kept, the others may be kept by 1/3 each: (1/4 * 1/4) + 3 * (1/4 * (1/3 + 1/6)) is 7/16."""
    plan = planned(desk, [5] * 4, "--bounds", bounds_file(desk, AMPLIFICATIONS), "--mechanism", "fine-grain")
    own = {"direction", "objective", "retention", "amplification", "record_utility", "aggregate_error", "shadow_price"}
    assert plan.keys() - COMMON == own | BESIDE
    assert (plan["mechanism"], plan["guarantee"], plan["direction"]) == ("fine-grain", "single-values", "upward")
    assert plan["retention"] == {"x1": "0/1", "x2": "1/3", "x3": "1/3", "x4": "1/3"}
    assert plan["amplification"] == {"x1": "3/2", "x2": "3/1", "x3": "19/2", "x4": "18/1"}
    assert plan["record_utility"] == 0.4375
    assert plan["shadow_price"].keys() == {"x1", "x2", "x3", "x4"}
    assert plan["aggregate_error"] > 0
    assert {each["mechanism"] for each in plan["alternatives"]} == {"uniform", "subset", "harmonic"}


def test_shadow_price_is_what_a_wider_bound_gains(desk: Path) -> None:
    """One amplification at a time raised by a thousandth; with a posterior of 1/2, g has the prior 1 / (1 + g)."""
    plan = planned(desk, [5] * 4, "--bounds", bounds_file(desk, AMPLIFICATIONS), "--mechanism", "fine-grain")
    for value, written in plan["amplification"].items():
        more = Fraction(written) + Fraction(1, 1000)
        wider = bounds_file(desk, {**AMPLIFICATIONS, value: (str(1 / (1 + more)), "1/2")})
        gain = planned(desk, [5] * 4, "--bounds", wider, "--mechanism", "fine-grain")["record_utility"]
        gain -= plan["record_utility"]
        assert gain == pytest.approx(plan["shadow_price"][value] / 1000, rel=1e-2, abs=1e-9)
    assert plan["shadow_price"]["x1"] > 0


def test_plan_for_counts_keeps_fewer_records_and_has_no_shadow_price(desk: Path) -> None:
    bounds = bounds_file(desk, AMPLIFICATIONS)
    options = ("--bounds", bounds, "--direction", "both", "--mechanism", "fine-grain")
    record, counts = planned(desk, [5] * 4, *options), planned(desk, [5] * 4, *options, "--objective", "aggregate")
    assert (record["objective"], counts["objective"]) == ("record", "aggregate")
    assert "shadow_price" not in counts
    assert counts["aggregate_error"] < record["aggregate_error"]
    assert counts["record_utility"] < record["record_utility"]


def test_plan_in_both_directions_keeps_fewer_records(desk: Path) -> None:
    bounds = bounds_file(desk, AMPLIFICATIONS)
    options = ("--mechanism", "fine-grain", "--bounds", bounds, "--direction")
    upward, both = (planned(desk, [5] * 4, *options, each) for each in ("upward", "both"))
    assert both["direction"] == "both"
    assert both["record_utility"] < upward["record_utility"]
    assert any("only rising beliefs are bounded" in remark for remark in upward["remarks"])
    assert not any("bounded upward" in remark for remark in both["remarks"])


def test_values_without_a_bound_are_named_and_have_no_amplification(desk: Path) -> None:
    plan = planned(desk, [5] * 4, "--bounds", bounds_file(desk, {"x2": ("1/4", "1/2")}))
    assert plan["amplification"] == {"x1": None, "x2": "3/1", "x3": None, "x4": None}
    assert any("have no bound" in remark and "'x1', 'x3', 'x4'" in remark for remark in plan["remarks"])


def test_tolerance_makes_bounds_of_shares_of_two_digits(desk: Path) -> None:
    """Of 1280 records, 370 are 28 hundredths and 270 are 21: from 7/25 to 14/25 the odds rise by 36/11; a half has no
    bound, because twice that is certain.
    """
    plan = planned(desk, [370, 640, 270], "--tolerance", "2")
    assert plan["amplification"] == {"x1": "36/11", "x2": None, "x3": "79/29"}


def test_tolerance_says_by_how_much_the_odds_of_each_value_may_rise(desk: Path) -> None:
    """Four times a fifth is 4/5, for which odds of 1/4 become 4: 16 times. A third has no bound, and what fewer than
    ten records have is rounded down to nothing, and leaves the tolerance itself.
    """
    counts = {"flu": 3300, "cold": 3300, "gout": 2000, "HIV": 1391, "kuru": 9}
    options = (
        "--counts",
        counts_file(desk, counts),
        "--mechanism",
        "fine-grain",
        "--tolerance",
        "4",
        "--objective",
        "aggregate",
    )
    shown = succeed("plan", *options)
    for row in ("flu │ 3,300 │ 33%", "cold │ 3,300 │ 33%"):
        assert re.search(rf"{re.escape(row)} │ [\d./]+ │ no bound │", shown.words)
    assert re.search(r"gout │ 2,000 │ 20% │ [\d./]+ │ 16 times │", shown.words)
    assert re.search(r"kuru │ 9 │ 0.09% │ [\d./]+ │ 4 times │", shown.words)
    assert "000000" not in shown.out
    told = succeed("plan", *options, "--json").json["amplification"]
    assert (told["flu"], told["cold"], told["gout"]) == (None, None, "16/1")
    assert Fraction(told["kuru"]) == 4


# ------------------------------------------------------------------------------------------- sets, and the alternatives


def test_plan_of_sets_has_their_size_and_chances(desk: Path) -> None:
    """Of 20 values with amplification 9, sets of 2: they hold the true one with 9 * 2 / (9 * 2 + 18) = 1/2."""
    plan = planned(desk, [50] * 20, *NARROW, "--mechanism", "subset")
    own = {"subset_size", "hold_probability", "other_probability", "amplification"}
    assert plan.keys() - COMMON == own | BESIDE
    assert (plan["subset_size"], plan["hold_probability"], plan["amplification"]) == (2, "1/2", "9/1")
    assert plan["other_probability"] == "3/38"


def test_named_mechanism_lists_the_others_as_alternatives(desk: Path) -> None:
    plan = planned(desk, [50] * 20, *NARROW, "--mechanism", "uniform")
    assert "reason" not in plan
    others = {each["mechanism"]: each["guarantee"] for each in plan["alternatives"]}
    assert others.items() >= {"subset": "any-prior", "small-domain": "marginal-prior"}.items()
    assert "uniform" not in others
    for each in plan["alternatives"]:
        assert each.keys() >= COMMON
        assert (each["total"], each["alternatives"]) == (1000, [])


def test_automatic_choice_has_the_least_error_and_says_so_in_one_line(desk: Path) -> None:
    plan = planned(desk, [500] * 60, *NARROW)
    assert plan["mechanism"] == "subset"
    assert plan["reason"].startswith("subset has the smallest error of the mechanisms with this")
    assert "\n" not in plan["reason"]
    errors = {each["mechanism"]: each["predicted"]["relative_error"] for each in [plan, *plan["alternatives"]]}
    assert errors["subset"].keys() == {"0.001", "0.005", "0.01"}
    assert all(errors["subset"][share] < errors["uniform"][share] for share in errors["subset"])


def test_readable_values_are_kept_for_a_small_gain_and_the_reason_has_their_price(desk: Path) -> None:
    """Sets would have 0.89 times the error; the counts of the table do not decide."""
    plans = [planned(desk, counts, *NARROW) for counts in ([500] * 30, [*range(400, 429), 9000])]
    assert [plan["mechanism"] for plan in plans] == ["uniform", "uniform"]
    assert plans[0]["reason"] == plans[1]["reason"]
    assert "subset has 0.89 times the error" in plans[0]["reason"]


@pytest.mark.parametrize("counts", [EXAMPLE, [500] * 20, [1000] * 200], ids=["paper", "even", "many"])
@pytest.mark.parametrize("guarantee", [[], ["--guarantee", "any-prior"]], ids=["not named", "any-prior"])
def test_automatic_choice_covers_any_prior_unless_less_was_asked_for(
    desk: Path, counts: Sequence[int], guarantee: list[str]
) -> None:
    plan = planned(desk, counts, *BOUND, *guarantee)
    assert plan["mechanism"] in ("uniform", "subset")
    assert plan["guarantee"] == "any-prior"
    assert plan["reason"]
    assert "small-domain" in [each["mechanism"] for each in plan["alternatives"]]


def test_automatic_choice_may_be_for_the_marginal_prior_where_that_was_asked_for(desk: Path) -> None:
    plan = planned(desk, [1000] * 200, *BOUND, "--guarantee", "marginal-prior")
    assert (plan["mechanism"], plan["guarantee"]) == ("small-domain", "marginal-prior")
    assert plan["reason"].startswith("small-domain has the smallest error")
    assert {each["mechanism"] for each in plan["alternatives"]} >= {"uniform", "subset"}


def test_plan_for_people_shows_the_reason_and_every_mechanism(desk: Path) -> None:
    outcome = succeed("plan", "--counts", counts_file(desk, dict.fromkeys("abcdefghijklmnopqrst", 500)), *NARROW)
    assert "one readable value per record" in outcome.words
    for words in ("with uniform (any-prior)", "subset", "uniform", "small-domain", "marginal-prior"):
        assert words in outcome.words


def test_plan_for_people_shows_caps_in_per_cent(desk: Path) -> None:
    (desk / "caps.csv").write_text("value,cap\nflu,1/3\ncold,1234567/2345678\ngout,0.5\n")
    file = counts_file(desk, {"flu": 300, "cold": 300, "gout": 300, "HIV": 50})
    shown = succeed("plan", "--counts", file, "--caps", "caps.csv").words
    for words in ("1/3 (33.3%)", "│ 52.63% │", "1/2 (50%)", "1 (100%)"):
        assert words in shown
    assert "1/3 (33.3%)" in succeed("plan", "--counts", file, "--diversity", "3").words


def test_plan_for_people_asks_what_people_ask_and_says_why_it_does_not_tell(desk: Path) -> None:
    file = counts_file(desk, {"flu": 700, "cold": 200, "HIV": 96, "kuru": 4})
    shown = succeed("plan", "--counts", file, *BOUND)
    for words in (
        "'HIV' (9.6% of",
        "'kuru' (0.4% of",
        "No prediction: there is no value that 0.03% to 0.3% of all people have.",
        "No prediction: fewer than one person has 'kuru', counted in a tenth of the people.",
    ):
        assert words in shown.words
    assert "counted in a tenth of the people" in shown.words
    caps = succeed("plan", "--counts", file, "--cap-factor", "1", "--cap-offset", "1/4").words
    assert re.search(r"'HIV' \(9.6% of[^│]*│ exact │", caps)


def test_mechanism_that_predicts_nothing_says_so(desk: Path) -> None:
    """Of two values that are never kept nobody can tell the counts apart."""
    held = {"flu": 3100, "cold": 2600, "gout": 2000, "asthma": 1200, "HIV": 104, "kuru": 9, "rabies": 2, "yaws": 0}
    shown = succeed("plan", "--counts", counts_file(desk, held), "--tolerance", "4", "--mechanism", "fine-grain").words
    assert "No prediction: fine-grain predicts no error for such a count." in shown


MARKS = ("STOP ", "WARN ", "NOTE ", "     ")
"""Advice and its ways out."""


@pytest.mark.slow
@pytest.mark.parametrize("columns", ["80", "120"])
@pytest.mark.parametrize("way", ["uniform", "small-domain", "fine-grain"])
def test_tables_of_a_plan_fit_the_screen(desk: Path, way: str, columns: str) -> None:
    counts = {f"{name or 'missing'} of the lower back and neck": count for name, count in DISEASES.items()}
    options = WAYS[way] if way != "small-domain" else SMALL_DOMAIN
    shown = run_apart("plan", "--counts", counts_file(desk, counts), *options, COLUMNS=columns)
    assert shown.code == 0, shown.err
    lines = [line for line in shown.out.splitlines() if not line.startswith(MARKS)]  # which are not wrapped, for grep
    assert max(map(len, lines)) <= int(columns)
    assert "…" not in shown.out


@pytest.mark.slow
def test_plan_answers_first_and_puts_notices_after_json_one_line_each(desk: Path) -> None:
    table = write_parquet(desk / "patients.parquet", patients())
    command = [
        sys.executable,
        "-c",
        SCRIPT,
        "plan",
        str(table),
        "--sensitive",
        "disease",
        "--drop",
        "drug",
        *BOUND,
        *OPTIONS,
    ]
    lines = subprocess.check_output(command, stderr=subprocess.STDOUT, text=True).splitlines()
    grades = [number for number, line in enumerate(lines) if line.startswith(("STOP ", "WARN ", "NOTE "))]
    assert len(grades) > 1
    assert lines.index("Can I publish this?") < grades[0]
    assert grades[-1] < lines.index("What analysts will get")
    lines = subprocess.check_output([*command, "--json"], stderr=subprocess.STDOUT, text=True).splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith(GRADES))
    assert first > 10
    assert all(line.startswith(GRADES) for line in lines[first:])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--as-published", "small-domain", *SMALL_DOMAIN], "2 sub-tables of 6 values"),
        (["--mechanism", "fine-grain", "--tolerance", "3"], "a record keeps its value with probability"),
        (["--mechanism", "uniform", *BOUND], "retention 3/13; odds can rise by a factor of at most 4"),
    ],
    ids=["small-domain", "fine-grain", "uniform"],
)
def test_plan_for_people_sums_up_what_was_decided(desk: Path, options: list[str], words: str) -> None:
    file = counts_file(desk, {f"x{number}": count for number, count in enumerate(EXAMPLE, 1)})
    assert words in succeed("plan", "--counts", file, *options).words


def test_plan_of_a_table_is_the_plan_of_its_counts(desk: Path) -> None:
    table = write_parquet(desk / "patients.parquet", patients())
    found = succeed(
        "plan", table, "--sensitive", "disease", "--drop", "drug", *WAYS["small-domain"][:-1], "--json"
    ).json
    counted = Counter(patients()["disease"])
    file = counts_file(desk, {name or "": counted[name] for name in found["values"]})
    expected = succeed("plan", "--counts", file, *WAYS["small-domain"][:-1], "--json").json
    told = [each["told"] for each in found.pop("exposures")]
    assert told == [["sex"], ["age"], ["ward"], ["sex", "age", "ward"]]
    assert found.pop("uniqueness")["alone"] == 0
    assert (expected.pop("exposures"), expected.pop("uniqueness")) == ([], None)
    told, alone = ([each["code"] for each in plan.pop("notices")] for plan in (found, expected))
    assert [code for code in told if code not in ("persons-unchecked", "domain-observed", "bound-breached")] == alone
    assert found == expected


# ----------------------------------------------------------------------------------------------------------- plan files


def publishing(table: Path, out: str, way: str, *options: str) -> list[str]:
    return ["publish", str(table), "--out", out, "--sensitive", "disease", *WAYS[way], "--drop", "drug", *options]


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_plan_file_repeats_the_same_bytes_and_names_the_mechanism(desk: Path, way: str) -> None:
    table = write_parquet(desk / "patients.parquet", patients())
    succeed(*publishing(table, "one", way, "--plan-file", "plan.json"))
    kept = (desk / "plan.json").read_bytes()
    plan = json.loads(kept)
    assert (plan["sfumato_plan"], plan["mechanism"]) == (3, way.partition(" ")[0])
    assert stat.S_IMODE((desk / "plan.json").stat().st_mode) == 0o600
    succeed(*publishing(table, "two", way, "--plan-file", "plan.json"))
    assert content(desk / "one") == content(desk / "two")
    assert (desk / "plan.json").read_bytes() == kept


def automatic(table: Path, out: str, *options: str) -> list[str]:
    """Publish a table of 20 values, for which sets are best."""
    return ["publish", str(table), "--out", out, "--sensitive", "code", *BOUND, "--plan-file", "plan.json", *options]


@pytest.fixture
def codes(desk: Path) -> Path:
    chance = random.Random(7)
    columns = {"sex": chance.choices("FM", k=2000), "code": [f"c{row % 20:02d}" for row in range(2000)]}
    return write_csv(desk / "codes.csv", columns)


def test_plan_file_remembers_the_automatic_choice(desk: Path, codes: Path) -> None:
    """As if an earlier version had chosen another mechanism for the same request."""
    succeed(*automatic(codes, "one"))
    chosen = json.loads((desk / "plan.json").read_text())
    assert chosen["mechanism"] == "subset"
    (desk / "plan.json").unlink()
    succeed(*automatic(codes, "two", "--mechanism", "uniform"))
    other = json.loads((desk / "plan.json").read_text())
    (desk / "plan.json").write_text(json.dumps({**chosen, "mechanism": "uniform", "plan": other["plan"]}))
    succeed(*automatic(codes, "three"))
    assert SlowRelease(desk / "three").ours["mechanism"] == "uniform"


def test_plan_file_whose_release_would_come_out_differently_is_refused(desk: Path, codes: Path) -> None:
    succeed(*automatic(codes, "one"))
    plan = json.loads((desk / "plan.json").read_text())
    for edited in ({"mechanism": "uniform"}, {"draws": 5}, {"plan": "0" * 64}):
        (desk / "plan.json").write_text(json.dumps({**plan, **edited}))
        assert "would come out differently" in refused(desk, *automatic(codes, "two"))
        assert not (desk / "two").exists()


@pytest.mark.parametrize("mechanism", ["magic", "fine-grain", 7, None], ids=str)
def test_plan_file_of_a_mechanism_that_cannot_be_used_is_refused(desk: Path, codes: Path, mechanism: Any) -> None:
    succeed(*automatic(codes, "one"))
    plan = json.loads((desk / "plan.json").read_text())
    (desk / "plan.json").write_text(json.dumps({**plan, "mechanism": mechanism}))
    assert "mechanism" in refused(desk, *automatic(codes, "two"))


@pytest.mark.parametrize(
    "options",
    [
        ["--guarantee", "marginal-prior"],
        ["--mechanism", "subset"],
        ["--subset-form", "list"],
        ["--min-cell", "10"],
    ],
    ids=str,
)
def test_plan_file_belongs_to_one_request(desk: Path, codes: Path, options: list[str]) -> None:
    succeed(*automatic(codes, "one"))
    sentence = refused(desk, *automatic(codes, "two", *options))
    assert sentence.startswith("the plan file belongs to another request for this table")


@pytest.mark.parametrize(
    "options",
    [
        ["--subset-form", "list"],
        ["--min-cell", "10"],
    ],
    ids=str,
)
def test_automatic_choice_with_options_can_be_repeated(desk: Path, codes: Path, options: list[str]) -> None:
    succeed(*automatic(codes, "one", *options))
    succeed(*automatic(codes, "two", *options))
    assert content(desk / "one") == content(desk / "two")


def test_inverse_question_is_answered_beside_the_plan(desk: Path) -> None:
    """The posterior that is told gives at most the error that was asked for; a hundredth below it does not."""
    asked = ("--error", "20%", "--at", "300", "--prior", "1/10", "--posterior", "1/3")
    counts = [4000, 1500, 1000, 500, 400]
    found = planned(desk, counts, *asked)["target"]
    assert (found["error"], found["at"], found["reason"]) == ("1/5", 300, None)
    told = Fraction(found["posterior"])
    plans = [choose(dict(enumerate(counts)), BreachBound("1/10", each)) for each in (told, told - Fraction(1, 100))]
    enough, below = (plan.predict_error_curve([300])[0].evenly or 0 for plan in plans)
    assert enough <= 0.2 < below
    file = counts_file(desk, {"x1": 400, "x2": 300})
    words = succeed("plan", "--counts", file, *asked).words
    assert "use a posterior of" in words
    assert "any value (300)" in words
    assert "Any value (100): the error of a count of 100 people with a value" in words
    assert (
        "an error of at most 0.01% at a count of 300"
        in succeed("plan", "--counts", file, "--error", "0.01%", *asked[2:]).words
    )


@pytest.mark.parametrize("asked", [[], ["--error", "10%"], ["--at", "300"]], ids=str)
def test_inverse_question_about_another_promise_gets_one_line(desk: Path, asked: list[str]) -> None:
    outcome = succeed(
        "plan", "--counts", counts_file(desk, {"x1": 400, "x2": 400}), "--diversity", "2", "--json", *asked
    )
    said = "note: --error and --at are ignored, because they need --prior and --posterior."
    assert (said in " ".join(outcome.err.split())) == bool(asked)
    assert outcome.json["target"] is None
