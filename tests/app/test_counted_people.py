"""Audit, plan and compare with noisy counts, by the command line: both attack successes, named; and careless counts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pytest

from command_line import run, succeed
from sfumato.mechanisms._noisy_counts.fixed_sum_noise import FixedSumNoise

DISEASES = ("asthma", "flu", "gout", "none")
ROWS = 900


@pytest.fixture
def people(desk: Path) -> Path:
    """People in streets of one to many; those of street 0 are alike and all have gout."""
    chance = np.random.default_rng(5)
    streets = np.sort(chance.integers(1, 120, ROWS))
    streets[:6] = 0
    streets[-30:] = np.arange(200, 230)  # these are alone
    held = chance.choice(DISEASES, ROWS, p=[0.1, 0.2, 0.1, 0.6])
    held[:6] = "gout"
    sex = np.where(streets == 0, "f", chance.choice(["f", "m"], ROWS))
    pc.write_csv(pa.table({"street": streets, "sex": sex, "disease": held}), desk / "people.csv")
    (desk / "diseases.txt").write_text("\n".join([*DISEASES, "malaria"]) + "\n")
    return desk / "people.csv"


REQUEST = (
    "people.csv",
    *("--sensitive", "disease", "--public", "street,sex", "--domain", "disease=diseases.txt"),
    *("--prior", "1/10", "--posterior", "1/3", "--each-row-is-a-person"),
)
ACCEPTED = ("--accept-unique", "a test", "--accept-disclosing", "street=a test", "--accept-disclosing", "sex=a test")


def publish(*options: str) -> None:
    succeed("publish", *REQUEST, *ACCEPTED, "--mechanism", "noisy-counts", "--out", "release", *options)


@pytest.mark.slow
@pytest.mark.usefixtures("people")
@pytest.mark.parametrize("plan_file", [(), ("--plan-file", "plan.json")])
def test_audit_attacks_people_who_are_counted(plan_file: tuple[str, ...]) -> None:
    publish("--plan-file", "plan.json")
    told = succeed("audit", "release", "--original", "people.csv", *plan_file, "--out", "report.html", "--json").json
    audit = told["audit"]
    assert [each["who"] for each in audit["attacks"]] == [
        *("frequencies", "one column", "all columns", "others", "all others", "release alone"),
    ]
    for each in audit["attacks"]:
        assert each["with_release"]["right"] > each["without"]["right"] - 0.05
        assert ("record_unknown" in each) == (each["who"] not in {"others", "all others"})
    assert audit["odds_factors"]["disease"] == pytest.approx(4.5)
    assert audit["people_in_one_valued_groups"] >= 6
    assert audit["linked"]["records"] == told["records"] == told["singling_out"]["records"] == ROWS
    assert told["request_met"]
    noise = [each for each in audit["controls"] if "without noise" in each["what"]]
    assert len(noise) == 1
    assert noise[0]["is_noticed"]
    page = Path("report.html").read_text(encoding="utf-8")
    assert "own record known" in page
    assert "own record unknown" in page
    assert "safer" not in page


@pytest.mark.slow
@pytest.mark.usefixtures("people")
def test_counts_without_noise_fail_the_audit(monkeypatch: pytest.MonkeyPatch) -> None:
    def draw_nothing(noise: FixedSumNoise, draws: Any, first_cell: int, cells: int) -> np.ndarray:
        return np.zeros((cells, noise.size), dtype=np.int64)

    monkeypatch.setattr(FixedSumNoise, "draw", draw_nothing)
    publish()
    outcome = run("audit", "release", "--original", "people.csv", "--out", "report.html", "--json")
    assert outcome.code != 0
    told = outcome.json
    assert not told["request_met"]
    failed = [each["detail"] for each in told["checks"] if not each["passed"] and each["name"] == "law"]
    assert any("moves 0.00 people per group" in detail for detail in failed)


@pytest.mark.slow
@pytest.mark.usefixtures("people")
def test_reused_key_is_noticed_where_nobody_has_a_record() -> None:
    publish("--plan-file", "plan.json")
    succeed("publish", *REQUEST, *ACCEPTED, "--mechanism", "noisy-counts", "--out", "again", "--plan-file", "plan.json")
    options = ("--second", "again", "--out", "report.html", "--json")
    told = run("audit", "release", "--original", "people.csv", *options).json
    orders = {each["name"]: each["score"] for each in told["audit"]["order"]}
    assert orders["the noisy counts of the two releases"] > 5
    assert "two releases" in [each["who"] for each in told["audit"]["attacks"]]


@pytest.mark.slow
@pytest.mark.usefixtures("people")
def test_plan_shows_both_numbers_and_counts_people_of_small_groups_with_one_value() -> None:
    told = succeed("plan", *REQUEST, "--mechanism", "noisy-counts", "--json").json
    assert "capability-missing" not in {each["code"] for each in told["notices"]}
    (notice,) = (each for each in told["notices"] if each["code"] == "one-valued-groups")
    assert notice["numbers"]["people"] >= 6
    assert notice["numbers"]["total"] == ROWS
    words = succeed("plan", *REQUEST, "--mechanism", "noisy-counts").words
    assert "own record known" in words
    assert "own record unknown" in words
    other = succeed("plan", *REQUEST, "--mechanism", "subset", "--json").json
    assert "one-valued-groups" not in {each["code"] for each in other["notices"]}


@pytest.mark.slow
@pytest.mark.usefixtures("people")
def test_comparison_has_both_numbers_of_every_mechanism_with_records() -> None:
    told = succeed("compare", *REQUEST, "--seed", "1", "--json").json
    measured = {each["mechanism"]: each["measured"] for each in told["mechanisms"] if each["possible"]}
    for name in ("noisy-counts", "subset", "uniform"):
        for letter in "FCPL":
            assert measured[name][letter]["record_unknown"]["with_release"]["right"] > 0
    # All mechanisms are attacked on the same people.
    people = {measured[name]["P"]["record_unknown"]["records"] for name in ("noisy-counts", "subset", "uniform")}
    assert len(people) == 1
    known, unknown = (
        measured["subset"]["P"]["with_release"],
        measured["subset"]["P"]["record_unknown"]["with_release"],
    )
    assert known["right"] > unknown["right"]
    words = succeed("compare", *REQUEST, "--seed", "1").words
    assert "Own record unknown" in words
    assert "safer" not in words
