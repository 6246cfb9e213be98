"""Many questions from a file: the answers of single questions, in their order, whatever one of them is.

The same number must come from SQL, from Python, from a batch and, where records have weights, from adding them up.
"""

from __future__ import annotations

import csv
import datetime
import json
import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from command_line import Outcome, complaint, run, succeed
from refusals import refuses
from releases import SENSITIVE, WAYS, published_by
from sfumato._core.cell_values import Value
from sfumato._query.batch_queries import read_numbered_batch
from sfumato._query.counting.count_request import CountQuery, Range
from sfumato._query.intervals import DEFAULT_LEVEL
from sfumato._query.release import Release
from sfumato.cli.flags import name_flags
from sfumato.cli.query_command import answer_json
from sfumato.errors import QueryError, SfumatoError

ROWS = 300
DAY = datetime.date(2020, 2, 29)
SUFFIXES = pytest.mark.parametrize("suffix", [".csv", ".jsonl"])
LINEAR = ("uniform", "small-domain", "subset", "levels", "fine-grain", "harmonic")


def patients() -> pa.Table:
    """Odd types, missing values, a name with a space, one in capitals and one that must be quoted."""
    chance = random.Random(11)
    columns = {
        "age": pa.array(chance.choices([*range(20, 26), None], k=ROWS), pa.int16()),
        "Sex": pa.array(chance.choices(["F", "M", None], k=ROWS)),
        "home town": pa.array(chance.choices(["Aix", "Birr", "Lich's"], k=ROWS)).dictionary_encode(),
        'a "b"': pa.array(chance.choices(["", "x;y", "select"], k=ROWS)),
        "admitted": pa.array(chance.choices([DAY, datetime.date(1999, 1, 1), None], k=ROWS), pa.date32()),
        "smoker": pa.array(chance.choices([True, False, None], k=ROWS)),
        "weight": pa.array(chance.choices([50.25, 61.5, -0.0, None], k=ROWS), pa.float32()),
        "fee": pa.array(chance.choices([Decimal("1.10"), Decimal("2.00")], k=ROWS), pa.decimal128(8, 2)),
        SENSITIVE: pa.array(chance.choices(["flu", "HIV", "cold", "crohn's", None, "gout"], k=ROWS)),
    }
    return pa.table(columns)


@pytest.fixture(scope="module")
def releases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Release]:
    """The same patients by every mechanism."""
    folder = tmp_path_factory.mktemp("batch")
    return {name: published_by(name, patients(), folder / name) for name in WAYS}


@pytest.fixture
def folder(releases: dict[str, Release]) -> Path:
    """A release that most tests need no other than."""
    return releases["uniform"].folder


def written(path: Path, questions: Sequence[str]) -> Path:
    """A file of questions; CSV has another column beside, JSON another key and an empty line."""
    with path.open("w", newline="", encoding="utf-8") as file:
        if path.suffix == ".csv":
            csv.writer(file).writerows([["id", "sql"], *enumerate(questions)])
        else:
            file.writelines(json.dumps({"sql": sql, "id": number}) + "\n\n" for number, sql in enumerate(questions))
    return path


def answered(folder: Path, file: Path, *options: str) -> list[dict[str, Any]]:
    """What a batch answers to machines."""
    found: list[dict[str, Any]] = succeed("query", folder, "--batch", file, *options, "--json").json["results"]
    return found


def alone(release: Release, sql: str, **options: Any) -> dict[str, Any]:
    """What the same question is answered alone."""
    found: dict[str, Any] = json.loads(json.dumps(answer_json(release.sql(sql, **options), DEFAULT_LEVEL)))
    return found


def assert_same(found: Mapping[str, Any], expected: Mapping[str, Any]) -> None:
    """The same answer, up to the rounding of sums in another order."""
    assert {key: value for key, value in found.items() if key != "rows"} == {
        key: value for key, value in expected.items() if key != "rows"
    }
    for one, other in zip(found["rows"], expected["rows"], strict=True):
        for name, value in other.items():
            is_number = isinstance(value, float)
            assert one[name] == (pytest.approx(value, rel=1e-9, abs=1e-5) if is_number else value), name


SIMPLE = [
    "SELECT COUNT(*) FROM release",
    "SELECT COUNT(*) FROM release WHERE disease = 'flu'",
    "SELECT COUNT(*) AS k FROM release WHERE age = 20 AND disease = 'HIV'",
    "SELECT COUNT(*) FROM release WHERE \"home town\" = 'Lich''s' AND disease = 'crohn''s'",
    "SELECT COUNT(*) FROM release WHERE \"a \"\"b\"\"\" = 'x;y' AND Disease IN ('flu', 'cold')",
    "SELECT COUNT(*) FROM release WHERE disease IS NULL AND sex IS NULL",
    "SELECT COUNT(*) FROM release WHERE age BETWEEN 21 AND 23 AND smoker = TRUE AND disease = 'gout'",
    "SELECT COUNT(*) FROM release WHERE age = 99 AND disease = 'flu'",
    "SELECT COUNT(*) FROM release WHERE weight >= 0 AND fee = 2 AND release.disease = 'flu'",
    "SELECT COUNT(*) FROM release WHERE age > 40.5",
]
OTHER = [
    "SELECT disease, COUNT(*) AS n FROM release WHERE sex = 'F' GROUP BY disease ORDER BY disease",
    "SELECT Sex, AVG(weight) AS w FROM release WHERE disease IN ('flu', 'cold', 'gout') GROUP BY Sex ORDER BY Sex",
    "SELECT COUNT(*) FROM release WHERE disease = 'flu' OR age > 23",
    "SELECT COUNT(*) FROM release WHERE age = NULL",
    "SELECT COUNT(*) FROM release WHERE disease = 'flu' AND sex = NULL",
    "SELECT COUNT(*) FROM release WHERE admitted = DATE '2020-02-29' AND disease = 'flu'",
    "SELECT COUNT(*) FROM release WHERE admitted = '2020-02-29' AND disease = 'flu'",
    "SELECT COUNT(*) FROM release WHERE fee = 1.1 AND disease <> 'flu'",
    "SELECT COUNT(*) FROM release WHERE age = '20' AND disease = 'flu'",
    'SELECT "home town" AS t, COUNT(*) FROM release GROUP BY 1 ORDER BY 1',
    "SELECT age FROM release WHERE age > 24 ORDER BY age LIMIT 2",
]
BAD = [
    ("", "SELECT"),
    ("SELEC COUNT(*) FROM release", ""),
    ("SELECT COUNT(*) FROM release WHERE shoe = 1", "shoe"),
    ("SELECT disease FROM release", "disease"),
    ("SELECT COUNT(*) FROM release WHERE disease = 'plague'", "disease"),
    ("SELECT COUNT(*) FROM release WHERE disease = NULL", "disease"),
    ("SELECT COUNT(*) FROM other", "release"),
    ("SELECT COUNT(*) FROM 'people.csv'", ""),
    ("SELECT COUNT(*) FROM release; DROP TABLE release", ""),
    ("SELECT COUNT(*) FROM release WHERE age = 'old' AND disease = 'flu'", "old"),
]


# -------------------------------------------------------------------------------------- the answers of single questions


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", sorted(WAYS))
def test_answers_are_those_of_single_questions_in_their_order(
    releases: dict[str, Release], tmp_path: Path, mechanism: str
) -> None:
    questions = [*SIMPLE, *OTHER]
    random.Random(mechanism).shuffle(questions)
    release = releases[mechanism]
    expected = [alone(release, sql) for sql in questions]
    for suffix in (".csv", ".jsonl"):
        found = answered(release.folder, written(tmp_path / f"questions{suffix}", questions))
        assert len(found) == len(questions)
        for answer, single in zip(found, expected, strict=True):
            assert_same(answer, single)


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", ["buckets", "decoys", "levels", "uniform"])
def test_options_are_those_of_single_questions(releases: dict[str, Release], tmp_path: Path, mechanism: str) -> None:
    release, questions = releases[mechanism], [SIMPLE[2], *OTHER[:2]]
    file = written(tmp_path / "questions.csv", questions)
    (tmp_path / "towns.csv").write_text("town,country\nAix,F\nBirr,IE\n")
    attached = ("--attach", f"towns={tmp_path / 'towns.csv'}")
    for options in (["--level", "0.8"], ["--simultaneous"], attached):
        found = answered(release.folder, file, *options)
        for sql, answer in zip(questions, found, strict=True):
            assert_same(answer, single(release.folder, sql, *options))
    join = "SELECT country, COUNT(*) FROM release JOIN towns ON town = \"home town\" WHERE disease = 'flu' GROUP BY 1"
    (answer,) = answered(release.folder, written(tmp_path / "join.jsonl", [join]), *attached)
    assert_same(answer, single(release.folder, join, *attached))


def single(folder: Path, sql: str, *options: str) -> dict[str, Any]:
    """The answer to one question alone; a batch has one number of its format for all."""
    found: dict[str, Any] = succeed("query", folder, sql, *options, "--json").json
    assert found.pop("format") == 1
    return found


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", sorted(WAYS))
def test_every_method_answers_a_batch(releases: dict[str, Release], tmp_path: Path, mechanism: str) -> None:
    release, questions = releases[mechanism], SIMPLE[1:3]
    file = written(tmp_path / "questions.csv", questions)
    for method in release.methods:
        found = answered(release.folder, file, "--method", method)
        for sql, answer in zip(questions, found, strict=True):
            assert_same(answer, alone(release, sql, method=method))


@pytest.mark.slow
def test_thousands_of_questions_are_answered_in_their_order(releases: dict[str, Release]) -> None:
    release = releases["uniform"]
    values = [value for value in release.manifest.domain if value is not None and "'" not in str(value)]
    questions = [
        f"SELECT COUNT(*) FROM release WHERE age = {20 + number % 7} AND disease = '{values[number % len(values)]}'"
        for number in range(2000)
    ]
    found = release.ask_many(questions)
    for number in random.Random(1).sample(range(2000), 10):
        answer, expected = found[number], release.sql(questions[number])
        assert not isinstance(answer, Exception)
        assert answer.get_estimate().value == pytest.approx(expected.get_estimate().value)


# ------------------------------------------------------------------------------------------------------ same everywhere


@dataclass(frozen=True)
class Count:
    """A count of one value under a condition, in every way to write it."""

    value: Value
    where: str
    query: Mapping[str, Any]

    def sql(self, name: str = SENSITIVE) -> str:
        """The whole condition."""
        value = str(self.value).replace("'", "''")
        return f"{self.where} AND {name} " + ("IS NULL" if self.value is None else f"= '{value}'")


COUNTS = [
    Count("flu", "TRUE", {}),
    Count("crohn's", "\"home town\" = 'Lich''s'", {"home town": "Lich's"}),
    Count(None, "sex IS NULL", {"Sex": None}),
    Count("HIV", "age >= 22 AND age < 25", {"age": Range(at_least=22, below=25)}),
    Count("gout", "sex IN ('F', 'M') AND smoker", {"Sex": ["F", "M"], "smoker": True}),
    Count("cold", "admitted = DATE '2020-02-29'", {"admitted": DAY}),
    Count("flu", "fee > 1.5 AND weight = 0", {"fee": Range(above=Decimal("1.5")), "weight": 0.0}),
    Count("flu", "age = 99", {"age": 99}),
]


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", sorted(WAYS))
def test_sql_python_and_batch_say_the_same(releases: dict[str, Release], tmp_path: Path, mechanism: str) -> None:
    release = releases[mechanism]
    questions = [f"SELECT COUNT(*) AS n FROM release WHERE {count.sql()}" for count in COUNTS]
    answers = answered(release.folder, written(tmp_path / "questions.csv", questions))
    several = release.count_many([CountQuery(count.query, [count.value]) for count in COUNTS])
    for count, sql, answer, many in zip(COUNTS, questions, answers, several, strict=True):
        (row,) = answer["rows"]
        expected = (row["n"], row["n_se"], row["n_low"], row["n_high"])
        single = release.count(count.value, where=count.where), release.count(where=count.sql())
        for found in (*single, release.sql(sql).get_estimate(), many):
            numbers = (found.value, found.standard_error, *found.interval())
            assert numbers == pytest.approx(expected, rel=1e-9, abs=1e-5), sql
            assert found.assumption == answer["assumption"] or row["n_se"] == 0


@pytest.mark.parametrize("count", COUNTS, ids=lambda count: count.sql())
@pytest.mark.parametrize("mechanism", LINEAR)
def test_weights_of_the_selected_records_add_up_to_the_count(
    releases: dict[str, Release], mechanism: str, count: Count
) -> None:
    release = releases[mechanism]
    expected = release.count(count.value, where=count.where).value
    records = pq.read_table(release.folder / "data.parquet").append_column("own", release.weights(count.value))
    with duckdb.connect() as connection:
        connection.register("d", records)
        own = connection.sql(f"SELECT COALESCE(SUM(own), 0) FROM d WHERE {count.where}").fetchall()[0][0]
        connection.register("w", pq.read_table(release.folder / "weights.parquet"))
        joined = connection.sql(by_weights(release, count)).fetchall()[0][0]
    assert own == pytest.approx(expected, rel=1e-9, abs=1e-5)
    assert joined == pytest.approx(expected, rel=1e-9, abs=1e-5)


def by_weights(release: Release, count: Count) -> str:
    """A query that adds up the weights of weights.parquet, as the README of the release does."""
    name, cell = f"d.{SENSITIVE}", release.manifest.cell_column
    if release.manifest.mechanism_name == "fine-grain":
        summed, joined = "w.weight", f"{name} IS NOT DISTINCT FROM w.published"
    else:
        is_equal = f"{name} IS NOT DISTINCT FROM w.value"
        has_levels = release.manifest.mechanism_name == "levels"
        if release.manifest.mechanism_name == "subset" or has_levels:
            is_equal = f"get_bit({name}::BIT, w.place) = 1"
        summed = f"CASE WHEN {is_equal} THEN w.if_equal ELSE w.otherwise END"
        if has_levels:
            summed += f" + w.per_sibling * bit_count({name}::BIT & w.siblings::BIT)"
        joined = "TRUE" if cell is None else f'd."{cell}" = w.{"level" if has_levels else "cell"}'
    value = "NULL" if count.value is None else "'" + str(count.value).replace("'", "''") + "'"
    wanted = f"w.value IS NOT DISTINCT FROM {value}"
    records = f"(SELECT * FROM d WHERE {count.where}) AS d"
    return f"SELECT COALESCE(SUM({summed}), 0) FROM {records}, w WHERE {joined} AND {wanted}"


@pytest.mark.parametrize("mechanism", sorted(set(WAYS) - {*LINEAR, "noisy-counts"}))
def test_release_without_weights_says_so(releases: dict[str, Release], mechanism: str) -> None:
    with refuses(QueryError, "no-record-weights"):
        releases[mechanism].weights("flu")


# -------------------------------------------------------------------------------------------------- questions that fail


@pytest.mark.slow
@SUFFIXES
@pytest.mark.parametrize("mechanism", sorted(WAYS))
def test_question_that_fails_says_why_and_the_rest_is_answered(
    releases: dict[str, Release], tmp_path: Path, mechanism: str, suffix: str
) -> None:
    release = releases[mechanism]
    questions = [sql for pair in zip(SIMPLE, (sql for sql, _ in BAD), strict=True) for sql in pair]
    outcome = run("query", release.folder, "--batch", written(tmp_path / f"questions{suffix}", questions), "--json")
    assert outcome.code == 2
    assert outcome.err.splitlines() == ["error: 10 of 20 questions were not answered; the first of these is number 2."]
    results = outcome.json["results"]
    for sql, answer in zip(SIMPLE, results[::2], strict=True):
        assert_same(answer, alone(release, sql))
    for (sql, word), answer in zip(BAD, results[1::2], strict=True):
        assert list(answer) == ["error"]
        assert word in answer["error"]
        with pytest.raises(SfumatoError) as raised:
            release.sql(sql)
        assert answer["error"] == name_flags(str(raised.value))


def test_batch_for_people_shows_what_was_not_answered(folder: Path, tmp_path: Path) -> None:
    file = written(tmp_path / "questions.csv", [SIMPLE[1], "SELECT [bold] FROM release", SIMPLE[0]])
    outcome = run("query", folder, "--batch", file)
    assert outcome.code == 2
    assert "question 1" in outcome.out
    assert "not answered: " in outcome.out
    assert "question 3" in outcome.out
    assert "1 of 3 questions were not answered; the first of these is number 2." in outcome.err


def test_method_that_is_unknown_fails_every_question(folder: Path, tmp_path: Path) -> None:
    file = written(tmp_path / "questions.csv", [SIMPLE[1], SIMPLE[2]])
    outcome = run("query", folder, "--batch", file, "--method", "magic", "--json")
    assert "Traceback" not in outcome.err
    assert outcome.code == 2


# ---------------------------------------------------------------------------------------------------------------- files


def test_column_of_questions_may_have_capital_letters(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "questions.csv").write_text("note;SQL\nall, of them;SELECT COUNT(*) AS n FROM release\n")
    (found,) = answered(folder, tmp_path / "questions.csv")
    assert found["columns"][0] == "n"


@SUFFIXES
def test_no_questions_have_no_answers(folder: Path, tmp_path: Path, suffix: str) -> None:
    assert answered(folder, written(tmp_path / f"none{suffix}", [])) == []
    assert succeed("query", folder, "--batch", tmp_path / f"none{suffix}").out == ""


def test_empty_file_has_no_answers(folder: Path, tmp_path: Path) -> None:
    for name in ("none.csv", "none.jsonl"):
        (tmp_path / name).touch()
        assert answered(folder, tmp_path / name) == []


@pytest.mark.slow
def test_marks_of_windows_and_line_ends_within_a_question_are_read(folder: Path, tmp_path: Path) -> None:
    sql = "SELECT COUNT(*)\r\nFROM release -- all\r\nWHERE disease = 'flu'"
    expected = single(folder, SIMPLE[1])
    for name in ("questions.csv", "questions.jsonl"):
        file = written(tmp_path / name, [sql])
        file.write_bytes(b"\xef\xbb\xbf" + file.read_bytes())
        (answer,) = answered(folder, file)
        assert_same(answer, expected)


@pytest.mark.parametrize("name", ["questions.sql", "questions.txt"])
def test_text_has_one_question_in_each_line(folder: Path, tmp_path: Path, name: str) -> None:
    sql = "SELECT COUNT(*) FROM release WHERE disease = 'flu'"
    (tmp_path / name).write_text(f"-- the flu\n\n  {sql};\r\n{sql}\n")
    assert read_numbered_batch(tmp_path / name) == [(3, sql), (4, sql)]
    assert len(answered(folder, tmp_path / name)) == 2


def test_questions_have_the_numbers_of_their_lines(tmp_path: Path) -> None:
    (tmp_path / "some.csv").write_text("sql\nSELECT 1\n\nSELECT 2\n")
    (tmp_path / "some.jsonl").write_text('\n{"sql": "SELECT 1"}\n\n{"sql": "SELECT 2"}\n')
    for name in ("some.csv", "some.jsonl"):
        assert read_numbered_batch(tmp_path / name) == [(2, "SELECT 1"), (4, "SELECT 2")]


def _refused(folder: Path, path: Path) -> str:
    outcome: Outcome = run("query", folder, "--batch", path, "--json")
    return complaint(outcome)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("no-column.csv", b"question\nSELECT 1\n"),
        ("short-line.csv", b"id,sql\n1\n"),
        ("text.jsonl", b"SELECT COUNT(*) FROM release\n"),
        ("no-key.jsonl", b'{"question": "SELECT 1"}\n'),
        ("number.jsonl", b'{"sql": 1}\n'),
        ("null.jsonl", b'{"sql": null}\n'),
        ("list.jsonl", b'["SELECT 1"]\n'),
        ("string.jsonl", b'"SELECT 1"\n'),
        ("half.jsonl", b'{"sql": "SELECT COUNT(*) FROM release"}\n{"sql": \n'),
        ("deep.jsonl", b"[" * 100_000 + b"\n"),
        ("binary.jsonl", b"\x00\xff\xfe\x00\x01"),
        ("utf16.jsonl", '{"sql": "SELECT 1"}'.encode("utf-16")),
    ],
    ids=lambda given: given if isinstance(given, str) else "",
)
def test_file_that_is_no_batch_is_refused(folder: Path, tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    assert "is not a batch of questions; write one question in each line" in _refused(folder, tmp_path / name)


@pytest.mark.parametrize(
    "content", [b"\x00\xff\xfe\x00\x01", b"PAR1\x15\x04\x15\x00\x00\xc3"], ids=["binary", "parquet"]
)
def test_batch_that_is_no_text_is_refused(folder: Path, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "questions.csv").write_bytes(content)
    assert "is not UTF-8 text; save it as UTF-8." in _refused(folder, tmp_path / "questions.csv")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["questions.text", "questions", "questions.json", "questions.parquet"])
def test_file_of_another_kind_is_refused(folder: Path, tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("sql\nSELECT COUNT(*) FROM release\n")
    assert "must end in .csv, .jsonl, .sql" in _refused(folder, tmp_path / name)


def test_file_that_is_not_there_or_a_directory_is_refused(folder: Path, tmp_path: Path) -> None:
    assert "cannot be read: No such file or directory" in _refused(folder, tmp_path / "nowhere.csv")
    (tmp_path / "folder.csv").mkdir()
    assert "cannot be read: Is a directory" in _refused(folder, tmp_path / "folder.csv")


@pytest.mark.parametrize("arguments", [[], [SIMPLE[0], "--batch", "questions.csv"]], ids=["nothing", "both"])
def test_one_question_or_a_batch_is_asked_for(folder: Path, arguments: list[str]) -> None:
    assert "one question in SQL, or many with --batch FILE" in complaint(run("query", folder, *arguments))


def test_half_a_character_in_a_question_is_an_error_of_that_question(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "half.jsonl").write_text('{"sql": "SELECT COUNT(*) FROM release WHERE sex = \'\\ud800\'"}\n')
    outcome = run("query", folder, "--batch", tmp_path / "half.jsonl", "--json")
    assert "Traceback" not in outcome.err
    assert outcome.code in (0, 2)


@pytest.mark.slow
def test_numbers_of_a_batch_are_finite(releases: dict[str, Release]) -> None:
    for name, release in releases.items():
        for answer in release.ask_many(SIMPLE):
            assert not isinstance(answer, Exception), name
            assert math.isfinite(answer.get_estimate().value)
            assert np.isfinite(answer.get_estimate().interval()).all()
