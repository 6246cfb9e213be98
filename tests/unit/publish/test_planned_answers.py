"""Questions before publishing: the numbers of the table, and the standard errors that a release would give."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from accepted import ALL_ACCEPTED, REASON
from releases import SENSITIVE, WAYS, accepting, people
from sfumato import BreachBound, Hierarchy, LocalEngine, Request, Schema, plan
from sfumato._document.document import DataTable, Text
from sfumato._publish import planned_answers
from sfumato._query.true_answers import UNKNOWN
from sfumato.errors import InfeasibleError, QueryError

BOUND = BreachBound("1/10", "1/2")
FLU = "SELECT COUNT(*) FROM release WHERE disease = 'flu'"
BY_SEX = "SELECT sex, COUNT(*) FROM release WHERE disease = 'flu' GROUP BY sex"
ROWS = 3000


def make_table() -> pa.Table:
    """A table in which nothing discloses the disease."""
    return pa.table(
        {
            "age": [20 + row % 50 for row in range(ROWS)],
            "sex": ["FM"[row % 2] for row in range(ROWS)],
            "disease": [("flu", "HIV", "cold", "asthma", "flu")[row // 4 % 5] for row in range(ROWS)],
        }
    )


def request(**more: Any) -> Request:
    """A request for this table."""
    schema = more.pop("schema", Schema.of("disease", drop=["age"], public="*"))
    return Request(
        more.pop("table", make_table()), schema=schema, spec=BOUND, mechanism="uniform", **more, **ALL_ACCEPTED
    )


def test_questions_have_their_true_numbers_and_the_predicted_errors(desk: Path) -> None:
    planned = plan(request(), questions=[FLU, BY_SEX])
    one, two = planned.answers
    assert [number.truth for number in one.numbers] == [1200]
    assert {number.label: number.truth for number in two.numbers} == {"F": 600, "M": 600}
    chosen = planned.choice
    predict = chosen.mechanism.error_prediction.predict_variances
    counts, rows = np.array([300.0, 600.0, 600.0, 1200.0]), np.full(4, 3000.0)
    error_of_all = math.sqrt(predict(chosen.plan, rows, counts)[3])
    error_of_half = math.sqrt(predict(chosen.plan, rows / 2, counts / 2)[3])
    for number, error in ((one.numbers[0], error_of_all), (two.numbers[0], error_of_half)):
        # The release estimates its own error from 3,000 records, to a few percent.
        assert number.standard_error == pytest.approx(error, rel=0.15)
        assert number.relative_error == number.standard_error / number.truth


def test_error_in_one_question_names_its_line_and_does_not_stop_the_others(desk: Path) -> None:
    Path("questions.sql").write_text(f"{FLU}\n\nSELECT nothing FROM release\nSELECT (\n{BY_SEX}\n")
    planned = plan(request(), questions="questions.sql")
    assert [(answer.line, bool(answer.problem), len(answer.numbers)) for answer in planned.answers] == [
        (1, False, 1),
        (3, True, 0),
        (4, True, 0),
        (5, False, 2),
    ]
    texts = [block.text for block in planned.document().blocks if isinstance(block, Text)]
    assert [text for text in texts if "line 3" in text and "nothing" in text]


def test_plan_without_questions_simulates_nothing(desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planned_answers, "build_release", None)
    assert plan(request()).answers == ()


def test_file_that_is_no_batch_is_refused_before_the_table_is_read(desk: Path) -> None:
    with pytest.raises(QueryError):
        plan(request(table="none.csv"), questions="none.sql")


def test_questions_are_shown_in_the_section_of_what_analysts_get(desk: Path) -> None:
    document = plan(request(), questions=[FLU, BY_SEX]).document()
    (section,) = [part for part in document.flat_sections if part.heading == "What analysts will get"]
    table = next(block for block in section.blocks if isinstance(block, DataTable))
    assert [row[:2] for row in table.rows] == [(FLU, "1,200"), (BY_SEX, ""), ("  F", "600"), ("  M", "600")]
    assert all(row[2].startswith("± ") for row in table.rows if row[1])


def test_questions_are_about_the_rows_and_ranges_that_would_be_published(desk: Path) -> None:
    """Ages are in ranges, and of a person with two rows one is chosen."""
    table = make_table().append_column("person", pa.array([row % 2000 for row in range(ROWS)]))
    schema = Schema.of("disease", person="person", ranges={"age": [20, 40, 70]}, surplus="drop", public="*")
    planned = plan(
        request(table=table, schema=schema),
        questions=["SELECT age, COUNT(*) FROM release GROUP BY age", "SELECT COUNT(*) FROM release"],
    )
    ages, everybody = planned.answers
    assert {number.label for number in ages.numbers} == {"[20,40)", "[40,70]"}
    assert everybody.numbers[0].truth == sum(number.truth for number in ages.numbers) == 2000
    # Public columns are answered exactly, so the simulated release has the same rows.
    assert {number.standard_error for number in (*ages.numbers, *everybody.numbers)} == {0.0}


def test_table_that_can_be_read_only_once_is_asked(desk: Path) -> None:
    reader = pa.RecordBatchReader.from_batches(make_table().schema, make_table().to_batches(500))
    (answer,) = plan(request(table=reader), questions=[FLU]).answers
    assert answer.numbers[0].truth == 1200


def test_question_that_only_the_release_can_answer_has_no_truth(desk: Path) -> None:
    paths = [("flu", "usual"), ("cold", "usual"), ("HIV", "rare"), ("asthma", "rare")]
    levels = {"disease": Hierarchy.of(("disease", "kind"), paths)}
    asked = request(schema=Schema.of("disease", drop=["age"], hierarchies=levels, public="*"))
    (answer,) = plan(asked, questions=["SELECT COUNT(*) FROM release WHERE disease.kind = 'usual'"]).answers
    (number,) = answer.numbers
    assert number.truth is None
    assert number.standard_error > 0
    assert answer.problem == UNKNOWN


def test_plan_that_cannot_be_drawn_says_so_for_each_question(desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise InfeasibleError("no release.")

    monkeypatch.setattr(planned_answers, "build_release", fail)
    assert [answer.problem for answer in plan(request(), questions=[FLU, BY_SEX]).answers] == ["no release."] * 2


def test_long_work_shows_progress(desk: Path) -> None:
    seen: list[tuple[str, int, int | None]] = []
    engine = LocalEngine(progress=lambda *progress: seen.append(progress))
    plan(request(), engine, questions=[FLU, BY_SEX])
    assert ("asking", 2, 2) in seen
    assert ("rewriting", ROWS, ROWS) in seen


@pytest.mark.slow
@pytest.mark.parametrize("name", WAYS)
def test_every_mechanism_answers_a_question(name: str, desk: Path) -> None:
    table = people()
    schema = WAYS[name].schema(Schema.of(SENSITIVE, public="*"), table)
    asked = Request(
        table,
        schema=schema,
        **WAYS[name].request(name),
        accept_exposure=REASON,
        **accepting(table, schema),
        **ALL_ACCEPTED,
    )
    (answer,) = plan(asked, questions=["SELECT sex, COUNT(*) FROM release GROUP BY sex"]).answers
    sexes = table.column("sex").to_pylist()
    assert {number.label: number.truth for number in answer.numbers} == {sex: sexes.count(sex) for sex in set(sexes)}
    (answer,) = plan(asked, questions=[f"SELECT COUNT(*) FROM release WHERE {SENSITIVE} = 'flu'"]).answers
    assert answer.problem or answer.numbers[0].truth == table.column(SENSITIVE).to_pylist().count("flu")
    assert answer.problem or answer.numbers[0].standard_error is None or math.isfinite(answer.numbers[0].standard_error)
