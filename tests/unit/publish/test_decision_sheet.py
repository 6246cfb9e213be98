"""The decision sheet: what a plan says, on one page, with blanks for what nobody stated."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from accepted import ALL_ACCEPTED, REASON, give_reasons
from sfumato import BreachBound, Document, Histogram, Request, Schema, SchemaError, SpecError, plan
from sfumato._document.document import DataTable, Decision, Facts, Items, Section
from sfumato._publish.decision_sheet import BLANK, list_uncovered_places
from sfumato._publish.publication_plan import plan_counts
from sfumato._request.belief_bounds import BreachBoundPerValue
from sfumato._request.schema import Role

ROWS = 1000
BOUND = BreachBound("1/10", "1/2")
DISEASES = ["flu"] * 9 + ["cold"] * 7 + ["HIV", "gout", "asthma", "COPD"]


def make_table(**columns: Any) -> pa.Table:
    """A table in which nothing discloses the disease; two of six values are frequent."""
    return pa.table(
        {
            "name": [f"person {row}" for row in range(ROWS)],
            "age": [row % 50 for row in range(ROWS)],
            "sex": ["FM"[row // 20 % 2] for row in range(ROWS)],
            "disease": [DISEASES[row % 20] for row in range(ROWS)],
            **columns,
        }
    )


def request(**more: Any) -> Request:
    """A request in which names are identifiers, and ages in ranges."""
    schema = Schema.of("disease", identifier=["name"], ranges={"age": [0, 25, 50]}, public="*")
    return Request(
        make_table(), schema=schema, spec=more.pop("spec", BOUND), mechanism="uniform", **more, **ALL_ACCEPTED
    )


def find_section(document: Document, heading: str) -> Section:
    """The section with a heading."""
    (section,) = [part for part in document.flat_sections if part.heading == heading]
    return section


def find_block(document: Document, heading: str, kind: type) -> Any:
    """The first block of a kind in a section."""
    return next(block for block in find_section(document, heading).blocks if isinstance(block, kind))


def test_sheet_is_one_private_page() -> None:
    sheet = plan(request()).decision_sheet()
    assert (sheet.is_private, sheet.is_one_page) == (True, True)
    assert sheet.to_html().count(">PRIVATE<") == 0  # the mark stands once, at the side
    assert "PRIVATE: for the data steward only" in sheet.to_html()


def test_what_nobody_stated_is_a_blank_to_fill_in() -> None:
    facts = dict(find_block(plan(request()).decision_sheet(), "The request", Facts).pairs)
    assert [facts[label] for label in ("purpose", "recipients", "legal basis")] == [BLANK] * 3
    assert facts["requested"] == BOUND.sentence


def test_what_a_person_stated_is_on_the_sheet(tmp_path: Path) -> None:
    path = tmp_path / "context.toml"
    path.write_text(
        '[decision]\npurpose = "a study"\nname = "Ada Lovelace"\nrole = "officer"\ndecision = "publish"\n'
        '[setting]\nrecipients = "universities"\nlegal_basis = "Article 89"\n[columns]\nage = "protocol 4"\n'
    )
    sheet = plan(request()).decision_sheet(path)
    facts = dict(find_block(sheet, "The request", Facts).pairs)
    assert [facts[label] for label in ("purpose", "recipients", "legal basis")] == [
        "a study",
        "universities",
        "Article 89",
    ]
    assert ("age", "in 2 ranges", "protocol 4") in find_block(sheet, "Columns", DataTable).rows
    decision = find_block(sheet, "Open decisions", Decision)
    assert dict(decision.statements)["name and role"] == "Ada Lovelace, officer"
    assert dict(decision.statements)["decision"] == "publish"
    assert {"date", "signature"} <= {label for label, content in decision.statements if not content}
    assert "Ada Lovelace" in decision.sentence


def test_context_of_another_table_is_refused(tmp_path: Path) -> None:
    (tmp_path / "context.toml").write_text('[columns]\nheight = "protocol 4"\n')
    with pytest.raises(SpecError):
        plan(request()).decision_sheet(tmp_path / "context.toml")


def test_description_gives_the_title_and_the_reasons(tmp_path: Path) -> None:
    (tmp_path / "about.toml").write_text('title = "Hospital stays"\n[columns]\nsex = "for the study"\n')
    sheet = plan(request()).decision_sheet(describe=tmp_path / "about.toml")
    assert sheet.subtitle.startswith("Hospital stays: 1,000 records")
    assert ("sex", "unchanged", "for the study") in find_block(sheet, "Columns", DataTable).rows


def test_columns_have_their_treatment_protected_ones_first() -> None:
    planned = plan(request())
    assert [(column.name, column.role, column.treatment) for column in planned.columns] == [
        ("name", Role.IDENTIFIER, "identifies people"),
        ("age", Role.PUBLIC, "in 2 ranges"),
        ("sex", Role.PUBLIC, "unchanged"),
        ("disease", Role.SENSITIVE, "protected"),
    ]
    section = find_section(planned.decision_sheet(), "Columns")
    assert [row[0] for row in section.blocks[0].rows] == ["disease", "age", "sex"]
    assert "name (identifies people)" in section.blocks[1].text


def test_column_that_does_not_exist_is_refused_as_before() -> None:
    with pytest.raises(SchemaError):
        plan(Request(make_table(), schema=Schema.of("none", public="*"), spec=BOUND, **ALL_ACCEPTED))


def test_risk_is_that_of_the_plan() -> None:
    planned = plan(request())
    tables = [
        block
        for block in find_section(planned.decision_sheet(), "Disclosure risk, before and after").blocks
        if isinstance(block, DataTable)
    ]
    unique = tables[0].rows[0]
    assert unique[0] == "unique"
    assert planned.uniqueness is not None
    assert planned.uniqueness.before_bins is not None
    assert planned.uniqueness.after_bins.unique_share == 0
    assert unique[2] == "0%"
    everything = next(attack for attack in planned.exposures if len(attack.known_columns) > 1)
    assert everything.with_release is not None
    assert tables[1].rows[0][0] == "all 2 public columns"
    for cell, share in zip(
        tables[1].rows[0][1:], (everything.without_release.success, everything.with_release.success), strict=True
    ):
        assert float(cell.removesuffix("%")) == pytest.approx(100 * share, abs=0.06)


def test_uncovered_people_are_counted_exactly() -> None:
    """45% have flu and 35% a cold, and the prior is a tenth: 800 of 1,000 people."""
    planned = plan(request())
    values = planned.choice.histogram.values
    assert [values[place] for place in list_uncovered_places(planned)] == ["flu", "cold"]
    items = find_block(planned.decision_sheet(), "What is not covered", Items).items
    assert "800 people" in items[0]
    assert "80%" in items[0]
    assert "a factor of at most 9" in items[0]


def test_values_without_a_bound_of_their_own_are_uncovered() -> None:
    histogram = Histogram.of(["HIV", "cold", "flu"], [10, 70, 20])
    spec = BreachBoundPerValue({"HIV": BreachBound("1/10", "1/2")})
    planned = plan_counts(histogram, spec)
    assert [histogram.values[place] for place in list_uncovered_places(planned)] == ["cold", "flu"]
    assert "90 people" in find_block(planned.decision_sheet(), "What is not covered", Items).items[0]


def test_questions_of_the_steward_come_first() -> None:
    sql = "SELECT COUNT(*) FROM release WHERE disease = 'HIV'"
    planned = plan(request(), questions=[sql])
    rows = find_block(planned.decision_sheet(), "What analysts get", DataTable).rows
    assert rows[0][:2] == (sql, "50")
    assert 1 < len(rows) <= 4
    (example,) = [question for question in planned.choice.question_predictions if question.counted_text in rows[1][0]]
    assert float(rows[1][2].removeprefix("± ")) == pytest.approx(example.relative_error * example.count, rel=0.02)


def test_accepted_stops_and_open_decisions_are_listed() -> None:
    planned = plan(request(accept_disclosing=give_reasons(("age",))))
    section = find_section(planned.decision_sheet(), "Open decisions")
    advice, accepted = [block.items for block in section.blocks if isinstance(block, Items)]
    assert accepted == tuple(planned.accepted_risks.list_sentences("disease"))
    assert accepted
    assert [item for item in advice if item.startswith("WARNING: ")]
    assert REASON in " ".join(accepted)


def test_plan_that_would_be_refused_says_so_in_the_decision() -> None:
    table = make_table(icd=[f"code of {DISEASES[row % 20]}" for row in range(ROWS)])
    planned = plan(Request(table, schema=Schema.of("disease", drop=["name"], public="*"), spec=BOUND, **ALL_ACCEPTED))
    decision = find_block(planned.decision_sheet(), "Open decisions", Decision)
    assert not decision.is_met
    assert find_block(plan(request()).decision_sheet(), "Open decisions", Decision).is_met


def test_sheet_from_counts_says_what_was_not_measured() -> None:
    sheet = plan_counts(Histogram.of(["HIV", "cold", "flu"], [10, 70, 120]), BOUND).decision_sheet()
    assert "not from a table" in str(find_section(sheet, "Residual risk").blocks)
    assert "not from a table" in str(find_section(sheet, "Columns").blocks)


def test_digest_of_the_request_is_that_of_the_journal() -> None:
    asked = request()
    assert plan(asked).request_digest == asked.digest
    assert asked.digest in plan(asked).decision_sheet().ending.replace(" ", "")
    assert request(accept_exposure=REASON).digest != asked.digest
