"""Untidy tables: `init` lists each kind with its remedy, and `plan` and `publish` warn of what would be published."""

from __future__ import annotations

import random
import re
import tomllib
from pathlib import Path
from typing import Any

import openpyxl
import pyarrow as pa
import pytest

from command_line import fail, people, succeed, write_csv, write_csv_rows, write_parquet
from sfumato._profile.role_guessing import guess_table
from sfumato._profile.untidy_values import Untidy

ASKED = ("--sensitive", "disease", "--prior", "1/10", "--posterior", "1/2", "--json")
ROWS = 240
CODES = {
    "bmi": "missing-numbers",
    "ward": "outer-spaces",
    "town": "several-spellings",
    "cost": "thousands-separators",
    "seen": "dates-as-text",
    "story": "free-text",
    "sex ": "spaces-in-names",
}


def untidy() -> dict[str, list[Any]]:
    chance = random.Random(5)
    return {
        **people(ROWS),
        "bmi": [chance.choice([*range(18, 40), 999]) for _ in range(ROWS)],
        "ward": [chance.choice(["north", "south "]) for _ in range(ROWS)],
        "town": [chance.choice(["Oslo", "OSLO", "Bergen"]) for _ in range(ROWS)],
        "cost": [chance.choice(["1,234", "12,345", "120"]) for _ in range(ROWS)],
        "seen": [chance.choice(["31.12.2024", "12/31/2024"]) for _ in range(ROWS)],
        "story": [f"came in with {row % 80} small pains" for row in range(ROWS)],
        "sex ": [chance.choice("FM") for _ in range(ROWS)],
    }


@pytest.fixture
def table(desk: Path) -> Path:
    columns = untidy()
    del columns["sex"]
    return write_csv(desk / "people.csv", columns)


def test_plan_warns_of_each_kind_and_names_its_column(table: Path) -> None:
    accepted = [part for name in ("story", "cost", "bmi") for part in ("--accept-disclosing", f"{name}=made up")]
    notices = succeed("plan", table, *ASKED, *accepted).json["notices"]
    assert {notice["column"]: notice["code"] for notice in notices if notice["code"] in CODES.values()} == CODES
    for notice in notices:
        if notice["code"] in CODES.values():
            assert notice["grade"] == "warning"
            assert notice["numbers"] == {"columns": 1}
            assert not re.search("OSLO|south|12,345|12/31|999", notice["sentence"]), "no value of the table"


def test_unique_numbers_with_separators_are_refused_as_numbers(desk: Path) -> None:
    write_csv(desk / "people.csv", {**people(ROWS), "cost": [f"{1 + row},{100 + row}" for row in range(ROWS)]})
    sentence = fail(desk, "publish", "people.csv", *ASKED[:-1], "--out", "release")
    assert "separators of thousands" in sentence
    assert "decimal" not in sentence


def test_column_that_is_not_published_gives_no_warning(table: Path) -> None:
    dropped = [part for name in CODES for part in ("--drop", name)]
    codes = {notice["code"] for notice in succeed("plan", table, *ASKED, *dropped).json["notices"]}
    assert codes.isdisjoint(CODES.values())


def test_number_in_ranges_is_examined_before_it_is_grouped(table: Path) -> None:
    dropped = [part for name in CODES if name != "bmi" for part in ("--drop", name)]
    asked = ("plan", table, *ASKED, *dropped, "--ranges", "bmi=0,20,30,inf")
    assert "missing-numbers" in {notice["code"] for notice in succeed(*asked).json["notices"]}
    assert "missing-numbers" not in {notice["code"] for notice in succeed(*asked, "--missing", "999").json["notices"]}


def test_init_lists_each_kind_beside_its_column_and_once_in_the_terminal(table: Path) -> None:
    lines = succeed("init", table, "--sensitive", "disease").out.splitlines()
    text = Path("request.toml").read_text()
    for name, code in CODES.items():
        (kind,) = (kind for kind in Untidy if kind.value.code == code)
        assert sum(kind.value.finding in line and repr(name) in line for line in lines) == 1
        if kind is not Untidy.MISSING_NUMBERS:
            assert re.search(rf'"{name}",? +# .*{re.escape(kind.value.remark)}', text)
    assert re.search('"bmi", +# .*999 may be a missing value, see missing above', text)
    assert '# missing = ["999"]' in text.splitlines()
    assert "story" not in tomllib.loads(text)["columns"]["public"]
    found = succeed("init", table, "--force", "--json").json["untidy"]
    assert found == {code: [name] for name, code in CODES.items()}


def test_missing_number_that_is_a_value_elsewhere_is_not_proposed_as_a_marker(desk: Path) -> None:
    table = untidy()
    write_csv(desk / "people.csv", {**people(ROWS), "bmi": table["bmi"], "other": [999, 998, 1000, 1001] * (ROWS // 4)})
    succeed("init", "people.csv")
    text = (desk / "request.toml").read_text()
    assert "999 may be a missing value, but is a value in another column: empty these cells" in text
    assert not re.search("missing = .*999", text)
    numbers = [f"{900 + row}" for row in range(ROWS)]
    write_csv(desk / "people.csv", {**people(ROWS), "bmi": table["bmi"], "stay_number": numbers})
    succeed("init", "people.csv", "--force")
    assert '# missing = ["999"]' in (desk / "request.toml").read_text(), "numbers of stays are not published"


def test_missing_marker_is_a_number_in_tables_with_types(desk: Path) -> None:
    columns = untidy()
    floats = [float(number) for number in columns["bmi"]]
    write_parquet(desk / "people.parquet", pa.table({**people(ROWS), "bmi": columns["bmi"], "mass": pa.array(floats)}))
    asked = (
        "plan",
        "people.parquet",
        *ASKED,
        "--accept-disclosing",
        "bmi=made up",
        "--accept-disclosing",
        "mass=made up",
    )
    assert "missing-numbers" in {notice["code"] for notice in succeed(*asked).json["notices"]}
    assert "missing-numbers" not in {notice["code"] for notice in succeed(*asked, "--missing", "999").json["notices"]}


def test_ranges_are_proposed_without_numbers_that_mark_missing_values(desk: Path) -> None:
    ages = [20 + row % 61 for row in range(ROWS)]
    plain = write_csv(desk / "plain.csv", {**people(ROWS), "years": ages})
    dirty = write_csv(desk / "dirty.csv", {**people(ROWS), "years": [*ages[:-20], *[9999] * 20]})
    edges = [
        next(column.edges for column in guess_table(path)[0].columns if column.name == "years")
        for path in (plain, dirty)
    ]
    assert edges[0] == edges[1] != ()


# ----------------------------------------------------------------------------------------------------- names of columns


def test_repeated_names_are_all_named_with_their_places(desk: Path) -> None:
    write_csv_rows(desk / "people.csv", [["age", "sex", "age", "sex", "disease"], *[[1, 2, 3, 4, "flu"]] * 9])
    sentence = fail(desk, "init", "people.csv")
    assert "(columns 1 and 3)" in sentence
    assert "'sex'" in sentence


def test_title_above_the_names_of_a_sheet_is_said(desk: Path) -> None:
    book = openpyxl.Workbook()
    for row in (["Export of 2024"], [], ["age", "sex", "disease"], *[[33, "F", "flu"], [44, "M", "HIV"]] * 9):
        book.active.append(row)
    book.save(desk / "people.xlsx")
    assert "row 3 seems to" in fail(desk, "init", "people.xlsx")


@pytest.mark.parametrize(
    "lines",
    [
        [",age,town", *["0,33,Oslo", "1,44,Bergen"] * 20],
        ["age,sex", *["33,F", "44,M"] * 20],
        ["name,", *["x,1", "y,2"] * 20],
    ],
    ids=["index without a name", "plain", "last without a name"],
)
def test_first_line_that_names_columns_is_no_title(lines: list[str], desk: Path) -> None:
    (desk / "people.csv").write_text("\n".join(lines) + "\n")
    succeed("init", "people.csv")
    assert (desk / "request.toml").exists()


# ------------------------------------------------------------------------------------------------------------- persons


@pytest.mark.parametrize(
    "name",
    ["PatientId", "patient_id", "PATIENT_NUMBER", "Patient ID", "HospitalNo", "MRN", "SEQN", "eid", "Hospital Number"],
)
def test_usual_names_of_persons_are_found(name: str, desk: Path) -> None:
    write_csv(desk / "people.csv", {**people(ROWS), name: [1000 + 7 * row for row in range(ROWS)]})
    succeed("init", "people.csv")
    assert tomllib.loads((desk / "request.toml").read_text())["columns"]["person"] == name


def test_unique_whole_numbers_are_a_possible_person_and_row_numbers_are_not(desk: Path) -> None:
    numbers = [1000 + 7 * row for row in range(ROWS)]
    write_csv(desk / "people.csv", {**people(ROWS), "x1": numbers, "row": range(ROWS), "PatientId": range(1, ROWS + 1)})
    succeed("init", "people.csv")
    text = (desk / "request.toml").read_text()
    lines = text.splitlines()
    assert '# person = "x1"' in lines
    assert not re.search('person = "(row|PatientId)"', text)
    assert "# each_row_is_a_person = true" in lines
    assert re.search('"PatientId", +# numbers the rows', text)


def test_diagnosis_is_never_a_possible_person(desk: Path) -> None:
    """Also if nearly every value is of one person: by its name, or by its codes."""
    codes = [f"{letter}{number:02d}.{number % 10}" for letter in "ABCDEF" for number in range(ROWS // 6)]
    codes[1] = codes[0]
    names = [f"disease {row // 2 if row < 40 else row}" for row in range(ROWS)]
    write_csv(desk / "people.csv", {"sex": ["F", "M"] * (ROWS // 2), "diagnosis": names, "event": codes})
    succeed("init", "people.csv")
    text = (desk / "request.toml").read_text()
    assert re.findall('person = "(.*)"', text) == ["COLUMN"]
    assert re.findall('^    # "(.*?)",', text, re.MULTILINE) == ["diagnosis", "event"]
    assert "drop" not in tomllib.loads(text)["columns"]


def test_person_is_decided_by_one_edit(desk: Path) -> None:
    """The candidates are not published in any case, so they may stay in their lists."""
    numbers = [1000 + 7 * row for row in range(ROWS)]
    write_csv(desk / "people.csv", {**people(ROWS), "mrn": numbers, "patient_id": numbers[::-1]})
    succeed("init", "people.csv", "--sensitive", "disease")
    path = desk / "request.toml"
    for line, basis in (('person = "mrn"', None), ("each_row_is_a_person = true", "stated")):
        text = path.read_text()
        assert f"# {line}" in text.splitlines()
        (desk / "decided.toml").write_text(text.replace(f"# {line}", line).replace("# posterior", "posterior"))
        found = succeed("publish", "decided.toml", "--force", "--json").json
        assert found["persons"].get("basis") == basis


# ------------------------------------------------------------------------------------------------ numbers to begin with


@pytest.mark.parametrize(
    ("size", "prior", "posterior"),
    [(2, "1/2", "4/5"), (3, "1/3", "2/3"), (4, "1/4", "3/5"), (6, "1/5", "1/2"), (12, "1/10", "1/3")],
)
def test_proposed_bound_follows_the_number_of_values(size: int, prior: str, posterior: str, desk: Path) -> None:
    diseases = [f"d{row % size}" for row in range(ROWS)]
    write_csv(desk / "people.csv", {**people(ROWS), "disease": diseases})
    succeed("init", "people.csv")
    lines = (desk / "request.toml").read_text().splitlines()
    assert f'prior = "{prior}"' in lines
    assert f'# posterior = "{posterior}"' in lines


@pytest.mark.slow
def test_rows_at_random_are_one_line(desk: Path) -> None:
    columns = {**people(ROWS), "number": [1000 + row % 80 for row in range(ROWS)]}
    write_csv(desk / "people.csv", columns)
    request = desk / "request.toml"
    request.write_text(
        'path = "people.csv"\nsensitive = "disease"\nperson = "number"\nprior = 0.1\nposterior = 0.5\n'
        'rows_per_person = "2 at random"\n'
    )
    found = succeed("publish", request, "--out", "release", "--json").json
    assert (found["persons"]["most"], found["persons"]["surplus"], found["rows"]) == (2, "drop", 160)
    request.write_text(request.read_text() + 'surplus = "refuse"\n')
    assert "occurs twice" in fail(desk, "plan", request)
    request.write_text(request.read_text().replace("2 at random", "some"))
    assert "should be a whole number" in fail(desk, "plan", request)
