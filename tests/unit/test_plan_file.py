"""The plan file keeps a key for its owner alone, and for one table and one request."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from command_line import people
from sfumato import BreachBound, Request, Schema
from sfumato.draws import Draws
from sfumato.errors import ReleaseFormatError, TargetError
from sfumato.plan.plan_file import FORMAT, PlanFile
from sfumato.request.schema import Bins

PLAN = PlanFile(Draws.unsafe_test_key("ab" * 32), "fingerprint", {"prior": "1/10"}, "subset")


def test_plan_file_is_read_as_it_was_written(desk: Path) -> None:
    for number, plan in enumerate((PLAN, PlanFile(Draws.secret(), "other", {}, "uniform"))):
        plan.write(desk / str(number))
        assert PlanFile.read(desk / str(number)) == plan


def test_plan_file_is_for_its_owner_only_and_says_so(desk: Path) -> None:
    PLAN.write(desk / "plan")
    assert (desk / "plan").stat().st_mode & 0o777 == 0o600
    assert json.loads((desk / "plan").read_text())["warning"].startswith("private: whoever has this file can undo")


def test_existing_file_is_never_overwritten(desk: Path) -> None:
    (desk / "plan").write_text("precious")
    with pytest.raises(TargetError, match=r"cannot be written: File exists"):
        PLAN.write(desk / "plan")
    assert (desk / "plan").read_text() == "precious"


def test_file_behind_a_link_is_never_overwritten(desk: Path) -> None:
    (desk / "plan").symlink_to(desk / "precious")
    with pytest.raises(TargetError):
        PLAN.write(desk / "plan")
    assert not (desk / "precious").exists()


def test_half_a_plan_file_is_removed(desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def half(written: Any, file: io.TextIOBase, **_: Any) -> None:
        file.write('{"sfumato_plan"')
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(json, "dump", half)
    with pytest.raises(OSError, match="No space left"):
        PLAN.write(desk / "plan")
    assert list(desk.iterdir()) == []


def test_plan_file_of_the_first_format_is_for_the_only_mechanism_there_was(desk: Path) -> None:
    PLAN.write(desk / "plan")
    written = json.loads((desk / "plan").read_text()) | {"sfumato_plan": 1}
    del written["mechanism"]
    (desk / "plan").write_text(json.dumps(written))
    assert PlanFile.read(desk / "plan") == PlanFile(PLAN.draws, PLAN.fingerprint, PLAN.request, "uniform")


def test_plan_file_of_a_newer_format_is_refused(desk: Path) -> None:
    PLAN.write(desk / "plan")
    written = json.loads((desk / "plan").read_text())
    (desk / "plan").write_text(json.dumps(written | {"sfumato_plan": FORMAT + 1}))
    with pytest.raises(ReleaseFormatError, match="is of a newer format: update sfumato"):
        PlanFile.read(desk / "plan")


@pytest.mark.parametrize(
    "change",
    [{"key": "ab"}, {"key": "xy" * 32}, {"key": None}, {"sfumato_plan": "1"}, {"request": None}, {"request": 3}],
    ids=str,
)
def test_plan_file_that_makes_no_sense_is_refused_without_its_key(change: dict[str, Any], desk: Path) -> None:
    PLAN.write(desk / "plan")
    written = json.loads((desk / "plan").read_text())
    (desk / "plan").write_text(json.dumps(written | change))
    with pytest.raises(ReleaseFormatError, match="is not a plan file; name another one") as caught:
        PlanFile.read(desk / "plan")
    assert "abab" not in str(caught.value)


@pytest.mark.parametrize("name", ["sfumato_plan", "key", "is_test", "fingerprint", "request"])
def test_plan_file_that_lacks_something_is_refused(name: str, desk: Path) -> None:
    PLAN.write(desk / "plan")
    written = json.loads((desk / "plan").read_text())
    del written[name]
    (desk / "plan").write_text(json.dumps(written))
    with pytest.raises(ReleaseFormatError, match="is not a plan file"):
        PlanFile.read(desk / "plan")


def test_plan_file_is_used_for_its_table_and_request_only() -> None:
    PLAN.check("fingerprint", {"prior": "1/10"})
    with pytest.raises(ReleaseFormatError, match="belongs to another table"):
        PLAN.check("another", {"prior": "1/10"})
    with pytest.raises(ReleaseFormatError, match="belongs to another request"):
        PLAN.check("fingerprint", {"prior": "1/11"})


BASE: dict[str, Any] = {"schema": Schema.of("disease"), "spec": BreachBound("1/10", "1/2")}


@pytest.mark.parametrize(
    "other",
    [
        {"spec": BreachBound("1/11", "1/2")},
        {"spec": BreachBound("1/10", "2/3")},
        {"schema": Schema.of("sex")},
        {"schema": Schema.of("disease", drop=["sex"])},
        {"schema": Schema.of("disease", nulls="drop")},
        {"schema": Schema.of("disease", bins={"age": Bins(("0", "99"))})},
        {"schema": Schema.of("disease", domains={"disease": ["flu", "HIV"]})},
        {"schema": Schema.of("disease", domains={"disease": ["HIV", "flu"]})},
        {"mechanism": "uniform"},
        {"guarantee": "marginal-prior"},
        {"text": ("age",)},
        {"encoding": "latin-1"},
    ],
    ids=lambda other: next(iter(other)),
)
def test_another_request_is_told_apart(other: dict[str, Any]) -> None:
    one, changed = Request(people(), **BASE), Request(people(), **{**BASE, **other})
    assert one.to_json() != changed.to_json()
    assert changed.to_json() == Request(people(), **{**BASE, **other}).to_json()


def test_the_same_request_in_other_words_is_the_same() -> None:
    one = Request("a.csv", Schema.of("disease", drop=["sex"], identifier=["name"]), BreachBound("1/10", "1/2"))
    other = Request("b.csv", Schema.of(["disease"], identifier="name", drop="sex"), BreachBound("0.1", "0.5"))
    assert one.to_json() == other.to_json()


def test_remembered_request_says_nothing_of_the_values() -> None:
    schema = Schema.of("disease", domains={"disease": ["Zelenka's disease"]})
    assert "Zelenka" not in json.dumps(Request("a.csv", schema, BreachBound("1/10", "1/2")).to_json())
