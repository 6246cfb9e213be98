from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from accepted import ALL_ACCEPTED
from generated_pages import DAY, Made, check_sound, made, read_out, verdicts
from refusals import refuses
from releases import SENSITIVE, accepting, people
from sabotage import (
    beside_in_order,
    bind_no_key,
    in_order,
    kept_too_often,
    patients,
    plan_of,
    released,
    residue_alone,
)
from sfumato._document.document import Checks, Outcome, Section
from sfumato._evidence import Dossier, audit_release
from sfumato._figures.number_format import format_percent
from sfumato._publish.publication import publish
from sfumato._publish.request import Request
from sfumato._request.belief_bounds import BreachBound
from sfumato._request.schema import Schema
from sfumato._risk.attackers import published_value_test
from sfumato._risk.attackers.published_value_test import PublishedValueTest
from sfumato.errors import ReleaseFormatError

SECTIONS = (
    "0. Summary",
    "1. Setting",
    "2. Columns",
    "3. Singling out",
    "4. Linkability",
    "5. Inference",
    "6. Motivated intruder",
    "7. Utility",
    "8. Design",
    "9. Limits",
)
HOSTILE = "<script>alert('x')</script>\"&=$`"


@pytest.fixture(scope="module")
def subset(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return made("subset", tmp_path_factory.mktemp("made"), people(600))


def page_of(found: Dossier) -> str:
    text = found.document().to_html()
    check_sound(text)
    assert not verdicts(text)
    return text


# ------------------------------------------------------------------------------------------------------- what it says


@pytest.mark.slow
def test_report_has_ten_sections_each_of_them_private(subset: Made) -> None:
    text = page_of(subset.dossier)
    found = re.findall(r"<h2>([^<]*)<span class=\"tag\">PRIVATE</span>", text)
    assert tuple(found) == SECTIONS
    assert text.count("not stated") > 10


@pytest.mark.slow
def test_five_numbers_are_those_of_the_release_and_say_what_they_leave_open(subset: Made) -> None:
    dossier, text = subset.dossier, page_of(subset.dossier)
    assert dossier.audit.odds_factors[SENSITIVE] == pytest.approx(float(subset.release.manifest.design.amplification))
    (tiles,) = re.findall(r'<div class="tiles">(.*?)</div></div>', text, flags=re.DOTALL)
    assert tiles.count("<strong>") == 5
    assert tiles.count('class="quiet"') == 5
    assert f"<strong>{format_percent(dossier.singling_out.class_size_shares.unique_share)}</strong>" in tiles
    assert "Not covered: more frequent" not in text
    everybody = next(each for each in dossier.audit.attacks if each.scenario == "all columns")
    assert everybody.with_release is not None
    assert (
        f"{format_percent(everybody.without_release.success)} \u2192 {format_percent(everybody.with_release.success)}"
        in tiles
    )


@pytest.mark.slow
def test_summary_names_the_values_that_the_bound_does_not_cover(subset: Made) -> None:
    first, *others = subset.dossier.values
    text = page_of(replace(subset.dossier, values=(replace(first, is_covered=False), *others)))
    told = (
        f"&#x27;{first.name}&#x27;: {first.count:,} people ({format_percent(first.count / 600)}) have this value. "
        "Not covered: more frequent than the prior."
    )
    assert re.search(
        rf">{first.name}</th>(<td[^>]*>[^<]*</td>){{2}}<td[^>]*>\u2013</td><td>no: more frequent than the prior", text
    )
    assert text.index("What is not covered") < text.index(told) < text.index("Whether this is enough")


@pytest.mark.slow
def test_own_questions_stand_beside_the_truth(subset: Made) -> None:
    answered, refused = subset.dossier.own_answers
    truths = {each.label: truth for each, truth in answered.rows}
    table: pa.Table = subset.request.table
    counted = table.filter(pa.compute.equal(table["disease"], "flu")).group_by("sex").aggregate([([], "count_all")])
    assert truths == dict(zip(counted["sex"].to_pylist(), counted["count_all"].to_pylist(), strict=True))
    assert "no column 'nothing'" in refused.failure_reason
    assert "Not answered: the release has no column" in page_of(subset.dossier)


@pytest.mark.slow
def test_counts_at_random_are_beside_their_truth(subset: Made) -> None:
    table: pa.Table = subset.request.table
    total = {value: table["disease"].to_pylist().count(value) for value in ("flu", "HIV", "cold", "asthma")}
    truths = [each.truth for each in subset.dossier.utility.answers]
    conditions = 1 + 4 + 2 + 4  # all, each age, each sex, and both, of which each age has one sex
    assert len(truths) == conditions * 4
    assert max(truths) == max(total.values())
    coverage = subset.dossier.utility.coverage
    assert coverage is not None
    assert not coverage.is_below_expected
    words = read_out(page_of(subset.dossier))
    assert f"of {coverage.questions} intervals cover the truth" in words
    low, high = map(format_percent, coverage.interval)
    assert words.count(f"Interval of this share: {low} to {high}") == 2  # on the first sheet, and where the counts are


@pytest.mark.slow
def test_everything_is_in_the_json(subset: Made) -> None:
    told = json.loads(json.dumps(subset.dossier.to_json(), allow_nan=False))
    assert told["request_met"] is True
    assert told["audit"]["matched_by"] == "key"
    assert {each["who"] for each in told["audit"]["attacks"]} >= {"frequencies", "all columns", "release alone"}
    assert [each["is_noticed"] for each in told["audit"]["controls"]].count(True) >= 1
    assert told["audit"]["attacks"][0]["seed"] == 1
    assert len(told["values"]) == 4


@pytest.mark.slow
def test_without_the_key_people_are_found_by_their_columns(subset: Made) -> None:
    found = audit_release(subset.release.path, subset.request.table, report_date=DAY, seed=1)
    assert found.audit.unique_matches == 0
    assert "matched without the key" in page_of(found)
    assert len(found.audit.attacks) == len(subset.dossier.audit.attacks)


@pytest.mark.slow
def test_rows_and_columns_that_were_left_out_are_told(tmp_path: Path) -> None:
    """One row of each of 80 persons, who have three; the table is a part of a larger one."""
    table = people(300, person=[number // 3 for number in range(300)]).slice(30, 240)
    schema = Schema.of(SENSITIVE, person="person", one_row="random", public="*")
    request = Request(table, schema=schema, spec=BreachBound("1/10", "1/2"), **accepting(table, schema), **ALL_ACCEPTED)
    publish(request, tmp_path / "release", plan_file=tmp_path / "plan", on_notice=lambda notice: None)
    found = audit_release(tmp_path / "release", table, report_date=DAY, plan_file=tmp_path / "plan")
    assert (found.release.rows, found.dropped_rows, found.dropped_columns) == (80, 160, ("person",))
    assert "160 rows of the table were not published" in page_of(found)


@pytest.mark.slow
def test_buckets_are_not_scored_without_the_key(tmp_path: Path) -> None:
    told = made("anatomy", tmp_path)
    found = audit_release(told.release.path, told.request.table, report_date=DAY)
    assert found.audit.attacks == ()
    assert "publish with `plan_file=`" in page_of(found)


# ------------------------------------------------------------------------------------------------------ what is refused


@pytest.mark.slow
def test_table_that_has_changed_is_refused(subset: Made, tmp_path: Path) -> None:
    release, table = subset.release.path, subset.request.table
    ages = table.set_column(0, "age", pa.array([31, *table["age"].to_pylist()[1:]]))
    with refuses(ReleaseFormatError, "public-columns-differ"):
        audit_release(release, ages, report_date=DAY)
    values = table["disease"].to_pylist()
    swapped = table.set_column(2, "disease", pa.array([*values[-7:], *values[:-7]]))
    with refuses(ReleaseFormatError, "plan-file-of-another-table"):
        audit_release(release, swapped, report_date=DAY, plan_file=subset.plan)
    with refuses(ReleaseFormatError, "not-the-original", column="sex"):
        audit_release(release, table.drop_columns(["sex"]), report_date=DAY)


@pytest.mark.slow
def test_files_that_were_changed_are_refused(tmp_path: Path) -> None:
    told = made("uniform", tmp_path)
    (told.release.path / "README.md").write_text("changed", encoding="utf-8")
    with refuses(ReleaseFormatError, "release-fails-check", check="files"):
        audit_release(told.release.path, told.request.table, report_date=DAY)


# ------------------------------------------------------------------------------------------------------- hostile texts


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", ["uniform", "subset"])
def test_hostile_names_values_and_statements_stay_texts(tmp_path: Path, mechanism: str) -> None:
    names = {HOSTILE: ["a", HOSTILE * 20], f"{HOSTILE} again": ["x", "y", "z"]}
    values = [HOSTILE, f"{HOSTILE}2", "W" * 300, "plain"]
    table = people(240, **names).set_column(2, SENSITIVE, pa.array([values[row % 7 % 4] for row in range(240)]))
    schema = Schema.of(SENSITIVE, public="*")
    request = Request(
        table,
        schema=schema,
        spec=BreachBound("1/10", "1/2"),
        mechanism=mechanism,
        **accepting(table, schema),
        **ALL_ACCEPTED,
    )
    release = publish(request, tmp_path / "release").release
    context = tmp_path / "context.toml"
    context.write_text(f"[decision]\nname = '''{HOSTILE}'''\npurpose = '''{HOSTILE}'''\n", encoding="utf-8")
    asked = [f'SELECT "{HOSTILE.replace(chr(34), chr(34) * 2)}", COUNT(*) FROM release GROUP BY ALL', HOSTILE]
    found = audit_release(
        release.path, table, report_date=DAY, context=context, questions=asked, seed=1, command=HOSTILE
    )
    text = found.document().to_html()
    check_sound(text)
    assert "<script" not in text
    assert "alert" in text
    assert "&amp;lt;" not in text  # escaped once
    assert "W" * 61 not in text
    assert len(text.encode()) < 400_000


# ----------------------------------------------------------------------------------------------------------- self-test

BLIND = PublishedValueTest(SENSITIVE, 600, 0.5, 0.5, 0.3)


@pytest.mark.slow
def test_missed_self_test_fails_the_audit(subset: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(published_value_test, "examine_published_values", lambda setup: BLIND)
    found = audit_release(
        subset.release.path, people(600), report_date=DAY, plan_file=subset.plan, seed=1, questions=()
    )
    assert [each.name for each in found.failed_checks] == ["self-test"]
    assert not found.is_met
    lines = [
        line
        for section in found.document().sections
        if isinstance(section, Section)
        for block in section.blocks
        if isinstance(block, Checks)
        for line in block.lines
    ]
    assert [line.name for line in lines if line.outcome is Outcome.FAILED] == ["self-test"]
    assert "NOT DETECTED" in page_of(found)


@pytest.mark.slow
def test_self_test_that_cannot_detect_anything_says_so(tmp_path: Path) -> None:
    """Forty people, of whom four have the other value."""
    table = people(40).set_column(2, SENSITIVE, pa.array(["flu"] * 36 + ["HIV"] * 4))
    request = Request(
        table,
        schema=Schema.of(SENSITIVE, public="*"),
        spec=BreachBound("1/10", "1/2"),
        **accepting(table, Schema.of(SENSITIVE, public="*")),
        **ALL_ACCEPTED,
    )
    release = publish(request, tmp_path / "release", plan_file=tmp_path / "plan", on_notice=lambda notice: None).release
    found = audit_release(release.path, table, report_date=DAY, plan_file=tmp_path / "plan", seed=1)
    assert found.is_met
    impossible = [item for item in found.audit.self_tests if not item.is_possible]
    assert any("disclose the true values" in item.corruption for item in impossible)
    assert all(item.power in read_out(page_of(found)) for item in impossible)


# --------------------------------------------------------------------------------------------------- sabotaged releases


def reported(release: Path, **more: Any) -> tuple[Dossier, str]:
    given: dict[str, Any] = {"plan_file": plan_of(release), **more}
    found = audit_release(release, patients(), report_date=DAY, seed=1, **given)
    return found, page_of(found)


def check_caught(found: Dossier, text: str, *names: str) -> None:
    """The page says what is wrong, on its first sheet and where the look stands."""
    assert {each.name for each in found.failed_checks} >= set(names)
    assert "The request is not met." in text
    words = read_out(text)
    assert all(words.count(each.detail[1:]) >= 2 for each in found.failed_checks)
    assert "FAILED" in text or "FOUND" in text


@pytest.mark.slow
@pytest.mark.statistical
def test_honest_release_is_reported_as_met_with_its_power(tmp_path: Path) -> None:
    """Its checks fail by chance less than once in a hundred thousand runs; controls are noticed with 99.99%."""
    found, text = reported(released("uniform", tmp_path))
    assert found.is_met
    assert "The request is met." in text
    assert all(each.is_noticed for each in found.audit.self_tests)
    assert "detected in 95% of cases" in text


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize("has_key", [True, False])
def test_true_values_shown_besides_are_in_the_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_key: bool
) -> None:
    """As in the tests of sabotage, 11 standard deviations; without the key of nearly all people, who are alone."""
    kept_too_often(monkeypatch, "uniform", 0.3)
    release = released("uniform", tmp_path)
    found, text = reported(release, **({} if has_key else {"plan_file": None}))
    check_caught(found, text, "law", "draws")
    assert "of the best possible fit to the true values" in text


@pytest.mark.slow
@pytest.mark.statistical
def test_decoys_of_one_value_are_in_the_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept_too_often(monkeypatch, "decoys", 1.0)
    check_caught(*reported(released("decoys", tmp_path)), "law", "draws")


@pytest.mark.slow
@pytest.mark.statistical
def test_rows_in_order_are_in_the_report(tmp_path: Path) -> None:
    release = released("uniform", tmp_path)
    in_order(release)
    found, text = reported(release)
    check_caught(found, text, "order")
    assert "the order of the rows discloses the person of each row" in text
    assert "are associated" in text


@pytest.mark.slow
@pytest.mark.statistical
def test_key_that_is_used_twice_is_in_the_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bind_no_key(monkeypatch)
    specs = [BreachBound("1/10", "1/2"), BreachBound("1/10", "1/3")]
    one, same = (
        released("uniform", tmp_path, name=f"same {number}", spec=spec, key="05" * 32)
        for number, spec in enumerate(specs)
    )
    found, text = reported(one, second=(same, plan_of(same)))
    check_caught(found, text, "order")
    assert "the rows of the two releases are associated" in text
    assert "a second release" in text


@pytest.mark.slow
@pytest.mark.statistical
def test_table_beside_that_is_not_shuffled_is_in_the_report(tmp_path: Path) -> None:
    release = released("anatomy", tmp_path)
    honest, _ = reported(release)
    assert honest.is_met
    assert all(each.is_noticed for each in honest.audit.self_tests)
    beside_in_order(release)
    found, text = reported(release)
    check_caught(found, text, "order")
    assert "the records of groups and the listed values of these groups are associated" in text


@pytest.mark.slow
def test_residue_that_is_not_merged_is_in_the_report(tmp_path: Path) -> None:
    release = released("anatomy", tmp_path)
    residue_alone(release)
    check_caught(*reported(release), "domain")


@pytest.mark.slow
def test_number_that_is_not_known_is_not_told(subset: Made) -> None:
    bare = replace(
        subset.dossier, utility=replace(subset.dossier.utility, answers=(), failure_reason="nothing was asked.")
    )
    assert "No count was compared with the truth: nothing was asked." in page_of(bare)
