"""Answers to look at: in terminals of any width, in notebooks, and in the tools that analysts use."""

from __future__ import annotations

import io
import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from accepted import ALL_ACCEPTED
from command_line import people
from refusals import refuses
from releases import accepting
from sfumato import (
    Answer,
    BreachBound,
    CountQuery,
    Estimates,
    Publication,
    QueryError,
    Request,
    Schema,
    publish,
)
from sfumato._query.answer_document import MOST_ROWS
from sfumato._query.estimate import Estimate, Tabular
from sfumato._query.parser.allowed_sql import parse
from sfumato._query.parser.answer_names import make_output_names
from sfumato._request.person_rows import Population
from sfumato._terminal_safe import UNPRINTABLE
from sfumato.cli.render import GuardedConsole, show_document
from sfumato.mechanisms.estimator import Moments

HOSTILE = '<script>alert(1)</script>"&\x1b[2J\u202e[red]\n│'


def counted(value: float, variance: float | None, note: str | None = None) -> Estimate:
    return Estimate.of(Moments.of(value, variance, 0.0, 1e6), "a method", "no assumption", note)


def answer_of(*rows: dict[str, Any], numbers: tuple[str, ...] = ("n",)) -> Answer:
    return Answer(tuple(rows[0]), numbers, rows, "a method", "no assumption")


def grouped(*estimates: Estimate) -> Answer:
    """An answer with a group, called as if it were a number, for each estimate."""
    return answer_of(*({"name": f"group {place}", "n": each} for place, each in enumerate(estimates)))


def printed(answer: Answer, width: int = 120) -> str:
    with (console := GuardedConsole(file=io.StringIO(), width=width)).capture() as shown:
        show_document(console, answer.document(0.95))
    return shown.get()


# ------------------------------------------------------------------------------------------------------------ terminals

FIVE = ("patients", "women", "avg_age", "emergency", "sum_age")


def five(rows: int = 2) -> Answer:
    """An answer with five numbers in each row."""
    numbers = {"patients": (388, 47), "women": (188, 33), "avg_age": (68.4, 1.3), "emergency": (0.45, 0.06)}
    estimates = {name: counted(value, error**2) for name, (value, error) in numbers.items()}
    row = {"region": "North", **estimates, "sum_age": counted(26500.0, 3200.0**2)}
    return answer_of(*[row] * rows, numbers=FIVE)


@pytest.mark.parametrize("width", [80, 100, 120, 200])
def test_five_numbers_are_whole_at_any_width(width: int) -> None:
    shown = printed(five(), width)
    assert max(map(len, shown.splitlines())) <= width
    cells = re.findall(r"[\d.,]+ ± [\d.,]+", shown)
    assert len(cells) == 10
    assert {"388 ± 47", "188 ± 33", "68.4 ± 1.3", "0.450 ± 0.060", "26,500 ± 3,200"} == set(cells)
    assert shown.count("[20,200, 32,800]") == 2


def test_numbers_stand_side_by_side_if_there_is_room_and_else_below_each_other() -> None:
    wide, middle, narrow = (printed(five(), width) for width in (200, 110, 80))
    assert "388 ± 47 [296, 480] │ 188 ± 33 [123, 253] │" in wide
    assert "388 ± 47   │ 188 ± 33   │" in middle
    assert "│ [296, 480] │ [123, 253] │" in middle
    assert re.search(r"│ North  │ patients  │    388 ± 47    \[296, 480\] +│\n│ +│ women ", narrow)


def test_groups_stand_left_and_numbers_are_lined_up() -> None:
    shown = printed(replace(grouped(counted(12345.0, 100.0), counted(7.0, 100.0)), population=Population("people")))
    assert "│ group 0 │ 12,345 ± 10 [12,325, 12,365] │" in shown
    assert "│ group 1 │      7 ± 10 [0, 27]          │" in shown
    assert "┃ name    ┃" in shown
    assert "± standard error, [95% confidence interval], for the numbers of the original table" in shown


def test_number_without_a_known_error_says_so() -> None:
    shown = printed(grouped(*(counted(value, None) for value in (1352.85, 7.26, 0.0314))))
    assert re.findall(r"group . │ +(\S+ ± \S) │", shown) == ["1,353 ± ?", "7.3 ± ?", "0.031 ± ?"]
    assert "± ?: the error is unknown" in shown
    assert "95%" not in shown


def test_exact_and_missing_numbers_are_told_from_estimates() -> None:
    shown = printed(grouped(Estimate.exact(30), counted(7.0, 100.0), Estimate.missing("nobody is counted")))
    assert re.search(r"group 0 │ +30 +│", shown)
    assert re.search(r"group 2 │ no number +¹? *│", shown)
    assert "(missing)" not in shown
    assert "without ±: exact" in shown
    assert "¹ nobody is counted" in shown
    assert "exact" not in printed(grouped(counted(7.0, 100.0), Estimate.missing("nobody is counted")))


def test_note_of_all_rows_is_said_once_and_others_are_footnotes() -> None:
    both = printed(grouped(counted(10.0, 1.0, "beware"), counted(-20.0, 1.0, "beware")))
    assert "\nn: beware\n¹ below zero by chance\n" in both
    assert both.count("¹") == 2
    assert re.search(r"group 1 │.* ¹ │", both)
    one = printed(grouped(counted(10.0, 1.0, "beware"), counted(20.0, 1.0)))
    assert "\n¹ beware\n" in one


# ------------------------------------------------------------------------------------------------------------ notebooks


def parsed(markup: str) -> ET.Element:
    """What a notebook shows, which must be well formed and hold no script; its style apart."""
    assert not UNPRINTABLE.search(markup)
    assert "<script" not in markup
    style, body = markup.split("</style>", 1)
    assert style.startswith("<style>.sfumato{")
    return ET.fromstring(body)


def words(element: ET.Element) -> str:
    return " ".join("".join(element.itertext()).split())


def test_notebook_shows_cells_footnotes_and_a_picture() -> None:
    shown = parsed(grouped(counted(388.0, 47.0**2), counted(-20.0, 900.0))._repr_html_())
    rows = [[words(cell) for cell in row] for row in shown.findall(".//tbody/tr")]
    assert rows == [["group 0", "388 ± 47", "[296, 480]"], ["group 1", "-20 ± 30", "[0, 39] ¹"]]
    assert "¹ below zero by chance" in words(shown)
    assert shown.find("figure/{http://www.w3.org/2000/svg}svg") is not None
    assert shown.findtext("figure/figcaption") == "1 of 2 intervals excludes zero, at 95%."


def test_several_numbers_have_pictures_of_their_own() -> None:
    shown = parsed(five()._repr_html_())
    assert [each.text for each in shown.findall("details/summary")] == [f"Picture of {name}" for name in FIVE]


def test_plot_is_of_one_number() -> None:
    answer = five()
    assert [row[1] for row in answer.plot("avg_age").table.rows] == [68.4, 68.4]
    assert answer.plot().table == answer.plot("patients").table
    with refuses(QueryError, "unknown-number", name="men"):
        answer.plot("men")


def test_long_answer_is_cut_in_a_notebook_and_says_so() -> None:
    many = grouped(*[counted(5.0, 1.0)] * (MOST_ROWS + 1))
    shown = parsed(many._repr_html_())
    assert len(shown.findall(".//tbody/tr")) == MOST_ROWS
    assert f"The first {MOST_ROWS} of {MOST_ROWS + 1} rows" in words(shown)


def test_one_and_many_estimates_show_themselves() -> None:
    one = counted(388.0, 47.0**2, HOSTILE)
    assert [words(each) for each in parsed(one._repr_html_()).iter("td")] == ["388 ± 47", "[296, 480]"]
    moments = Moments.concatenate([one.moments] * 50)
    many = Estimates(moments, "method", "assumption")
    assert f"The first {MOST_ROWS} of 50 rows" in words(parsed(many._repr_html_()))
    assert repr(many) == "Estimates(50 numbers, the first 388 ± 47 [296, 480])"
    none = Estimates(moments.take(np.array([], dtype=np.int64)), "method", "assumption")
    assert "n" in words(parsed(none._repr_html_()))


def test_hostile_names_and_values_are_text_everywhere() -> None:
    answer = answer_of(
        {HOSTILE: HOSTILE, "n" + HOSTILE: counted(-5.0, 1.0, HOSTILE)},
        {HOSTILE: None, "n" + HOSTILE: counted(7.0, 1.0)},
        numbers=("n" + HOSTILE,),
    )
    shown = parsed(answer._repr_html_())
    assert "<script>alert(1)</script>" in words(shown)
    for width in (40, 80, 200):
        assert not UNPRINTABLE.search(printed(answer, width).replace("\n", ""))
    assert not UNPRINTABLE.search(repr(answer))
    assert repr(answer).startswith("Answer(2 rows of ")


@pytest.fixture(scope="module")
def publication(tmp_path_factory: pytest.TempPathFactory) -> Publication:
    """A table whose names and values are hostile, published."""
    table = pa.table(people(disease=["flu", HOSTILE, "cold"]) | {HOSTILE: [f"{HOSTILE}{row % 2}" for row in range(60)]})
    schema = Schema.of("disease", public="*")
    request = Request(table, schema=schema, spec=BreachBound("1/3", "3/4"), **accepting(table, schema), **ALL_ACCEPTED)
    return publish(request, tmp_path_factory.mktemp("answers") / "release", unsafe_test_key="5f" * 32)


def test_release_shows_what_it_is_in_one_line_and_in_a_notebook(publication: Publication) -> None:
    release = publication.release
    assert not UNPRINTABLE.search(repr(release))
    shown = parsed(release._repr_html_())
    assert " ".join(release.guarantee.exact.split()) in words(shown)
    rows = [[words(cell) for cell in row] for row in shown.findall(".//tbody/tr")]
    assert [row[1:] for row in rows] == [[kind, role] for _, kind, role in release.columns]
    assert "UNFIT TO PUBLISH" in words(shown)


def test_publication_is_marked_private(publication: Publication) -> None:
    assert not UNPRINTABLE.search(repr(publication))
    assert repr(publication).endswith("; private)")
    shown = parsed(publication._repr_html_())
    assert words(shown).startswith("PRIVATE: for the data steward")
    assert "PRIVATE" not in publication.release._repr_html_()
    alerts = [words(each) for each in shown.findall("div") if "alert" in (each.get("class") or "")]
    for each in publication.notices:
        sentence = " ".join(each.sentence.split())
        assert f"{each.grade.upper()} {sentence[:1].upper()}{sentence[1:]}" in alerts
    assert words(shown).count("Exposure by each public column") == 1
    assert publication.uniqueness.sentence in words(shown)


# ---------------------------------------------------------------------------------------------------------------- tools


@pytest.fixture(scope="module")
def asked(publication: Publication) -> dict[str, Tabular]:
    """One of each kind of answer."""
    release = publication.release
    queries = [CountQuery({"sex": "F"}, ["flu"]), CountQuery({}, ["cold"])]
    return {
        "answer": release.sql("SELECT sex, COUNT(*), AVG(age) FROM release WHERE disease = 'flu' GROUP BY sex"),
        "estimate": release.count("flu", where="sex = 'F'"),
        "estimates": release.count_many(queries),
    }


@pytest.mark.parametrize("kind", ["answer", "estimate", "estimates"])
def test_tools_read_an_answer_as_it_is(asked: dict[str, Tabular], kind: str) -> None:
    answer = asked[kind]
    table = answer.to_arrow()
    rows = table.to_pylist()
    assert rows
    read = duckdb.sql("SELECT * FROM answer")  # by the name of the variable
    assert read.columns == table.column_names
    assert [dict(zip(read.columns, row, strict=True)) for row in read.fetchall()] == rows
    assert pa.table(answer) == table
    assert answer.to_polars().to_dicts() == rows
    assert answer.to_pandas().to_dict("records") == pd.DataFrame(rows).to_dict("records")


def test_frames_are_made_of_an_answer(asked: dict[str, Tabular]) -> None:
    answer = asked["answer"]
    assert pl.DataFrame(answer).to_dicts() == answer.to_arrow().to_pylist()


def test_unnamed_numbers_have_names_that_need_no_quotes(asked: dict[str, Tabular]) -> None:
    answer = asked["answer"]
    read = duckdb.sql("SELECT sex, avg_age, avg_age_low FROM answer WHERE n_high > 0")
    assert len(read.fetchall()) == 2
    assert [row.avg_age for row in answer.to_pandas().itertuples()] == answer.to_arrow()["avg_age"].to_pylist()


@pytest.mark.light
@pytest.mark.parametrize(
    ("columns", "names"),
    [
        ("AVG(age)", ["avg_age"]),
        ("COUNT(*), COUNT(disease), COUNT(*) / 2", ["n", "count_disease", "count_2"]),
        ("AVG(age + 1), AVG(age - 1), AVG(age) AS avg_age_1_2", ["avg_age_1", "avg_age_1_3", "avg_age_1_2"]),
        ("SUM(age) AS total, age // 10", ["total", "age_10"]),
        (
            "COUNT(*) FILTER (WHERE disease = 'a very long name of a disease')",
            ["count_filter_where_disease_a_very_long"],
        ),
        ("1 + 1, '?'", ["column_1_1", "column"]),
        ('AVG("Größe")', ["avg_größe"]),
        (f"AVG({'x' * 60})", ["avg"]),
    ],
)
def test_columns_that_nobody_named_are_called_by_their_words(columns: str, names: list[str]) -> None:
    found = make_output_names(parse(f"SELECT {columns} FROM release").expressions)
    assert found == names
    assert all(name.isidentifier() for name in found)


@pytest.mark.parametrize("where", ["", " WHERE disease IS NOT NULL"], ids=["exact", "estimated"])
def test_names_are_the_same_whether_numbers_are_exact_or_not(publication: Publication, where: str) -> None:
    sql = f"SELECT sex, age // 100, AVG(age), SUM(age) / 2 FROM release{where} GROUP BY sex, age // 100"
    assert publication.release.sql(sql).names == ("sex", "age_100", "avg_age", "sum_age_2")
