"""A request file to begin with: what it guesses, what it leaves open, and that it holds nothing of the table."""

from __future__ import annotations

import random
import re
import tomllib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from command_line import complaint, content, fail, people, run, succeed, write_csv, write_csv_rows, write_parquet
from sfumato._commands.request_draft import format_table_path, quote_toml
from sfumato._profile import role_guessing
from sfumato._publish.request_file import list_keys
from sfumato._readers.open_table import open_source

ROWS = 3000


def stays(rows: int = ROWS) -> dict[str, list[Any]]:
    """Stays in a hospital: patients come again, `?` is missing, and some columns point at one of them."""
    chance = random.Random(7)
    return {
        "encounter_id": [2_278_391 + 37 * row for row in range(rows)],
        "patient_nbr": [8_222_157 + 11 * chance.randrange(rows * 2 // 3) for _ in range(rows)],
        "last_name": [chance.choice(["Zelenka", "Quimby", "Oduya"]) for _ in range(rows)],
        "race": chance.choices(["Caucasian", "Asian", "?"], k=rows),
        "gender": chance.choices(["Female", "Male", "Unknown/Invalid"], [50, 49, 1], k=rows),
        "age": [min(101, max(0, round(chance.gauss(60, 18)))) for _ in range(rows)],
        "weight": chance.choices(["[75-100)", "?"], [3, 97], k=rows),
        "admitted": [f"20{chance.randrange(8, 13):02d}-{chance.randrange(1, 13):02d}-07" for _ in range(rows)],
        "ward": chance.choices(["north", "south"], k=rows),
        "labs": [chance.choice([*range(1, 118), "?"]) for _ in range(rows)],
        "income": [round(chance.lognormvariate(10.3, 0.6), 2) for _ in range(rows)],
        "diagnosis": chance.choices(["250.83", "276", "428", "V57", "?"], k=rows),
        "zip": [chance.randrange(10_000, 12_500) for _ in range(rows)],
        "notes": [f"came in with pains, number {chance.random()}" for _ in range(rows)],
    }


@pytest.fixture(scope="module")
def hospital(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_csv(tmp_path_factory.mktemp("hospital") / "stays.csv", stays())


def drafted(table: Path, *options: str) -> str:
    """The file that is written for a table."""
    succeed("init", table, "--out", "request.toml", "--force", *options)
    return Path("request.toml").read_text(encoding="utf-8")


def listed(text: str) -> list[str]:
    """The columns of the list `public`, the undecided ones with a mark."""
    (lines,) = re.findall(r"^public = \[\n(.*?)^\]$", text, re.MULTILINE | re.DOTALL)
    return re.findall(r'^    ((?:# )?"[^"]*"),', lines, re.MULTILINE)


def decided(text: str, *keys: str) -> str:
    """A file in which some decisions were taken: their lines have lost the mark of a comment."""
    for key in keys:
        text, number = re.subn(rf"^# ({key} = )", r"\1", text, count=1, flags=re.MULTILINE)
        assert number == 1, key
    return text


@pytest.mark.usefixtures("desk")
def test_roles_are_guessed(hospital: Path) -> None:
    text = drafted(hospital)
    written = tomllib.loads(text)
    assert written["table"] == {"path": str(hospital), "missing": ["?"]}
    assert written["columns"] == {
        "person": "patient_nbr",
        "identifier": ["encounter_id", "notes"],
        "drop": ["last_name", "weight", "zip"],
        "public": ["gender", "age", "admitted", "ward", "labs"],
    }
    assert listed(text)[-2:] == ['# "income"', '# "diagnosis"'], "what looks sensitive is never public by default"
    assert list(written["ranges"]) == ["admitted", "income"], "days can be looked up, incomes are nearly unique"
    assert re.search(r'^    "admitted", +# published in ranges, see \[ranges\] below$', text, re.MULTILINE)
    assert "\n# age = [" in text
    assert written["protection"] == {"prior": "1/5"}, "five values, and the missing one"
    assert re.search(r'^    "labs", +# "\?" is a missing value; many different values', text, re.MULTILINE)
    assert re.search(r'"weight", +# "\?" is a missing value; mostly missing$', text, re.MULTILINE)
    assert re.search(r'# "income", +# DECIDE: looks sensitive; nearly unique, but could be published in ranges', text)
    assert re.search(r'"last_name", +# names people$', text, re.MULTILINE)
    assert re.search(r'"notes", +# free text, which can name people$', text, re.MULTILINE)
    assert re.search(r'^    "gender", +# "Unknown/Invalid" may be a missing value$', text, re.MULTILINE)


@pytest.fixture(scope="module")
def german(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a German hospital exports: semicolons, decimal commas, days before months, `k.A.`, in Latin-1."""
    chance, path = random.Random(8), tmp_path_factory.mktemp("klinik") / "faelle.csv"
    born = [f"{chance.randrange(1, 29):02d}.{chance.randrange(1, 13):02d}.{1930 + row % 80}" for row in range(ROWS)]
    rows = []
    for _ in range(ROWS):
        person = chance.randrange(ROWS * 2 // 3)
        came = f"{chance.randrange(1, 29)}.{chance.randrange(1, 13)}.2024 {chance.randrange(24)}:30"
        cost = f"{chance.randrange(1000, 9000)},{chance.randrange(10, 99)}"
        rows.append((f"P{person}", born[person], came, cost, chance.choice(["I10", "J44", "k.A."]), "Gynäkologie"))
    header = ("Patienten-Nr", "Geburtsdatum", "Aufnahme", "Kosten", "Diagnose", "Station")
    text = "\n".join(";".join(row) for row in [header, *rows])
    path.write_text(text, encoding="latin-1")
    return path


@pytest.mark.usefixtures("desk")
def test_table_of_a_german_hospital_is_understood(german: Path) -> None:
    text = drafted(german, "--encoding", "latin-1", "--sensitive", "Diagnose")
    written = tomllib.loads(text)
    assert written["table"] == {"path": str(german), "encoding": "latin-1", "decimal": ",", "missing": ["k.A."]}
    assert written["columns"] == {
        "sensitive": ["Diagnose"],
        "person": "Patienten-Nr",
        "drop": ["Geburtsdatum", "Aufnahme", "Kosten"],
        "public": ["Station"],
    }
    assert re.search(r'"Aufnahme", +# nearly unique, but could be published in ranges', text)
    lines = text.splitlines()
    assert any(line.startswith("Aufnahme = [1900-01-01, ") for line in lines)
    assert written["protection"] == {"prior": "1/3"}
    assert '# one_row = "first:Aufnahme"' in lines, "the date of birth puts nobody's rows in order"


@pytest.mark.usefixtures("desk")
def test_file_is_read_once_and_once_more_where_it_is_to_be_read_otherwise(
    german: Path, table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To open a CSV file is to read all of it, and some are large."""
    opened: list[str] = []

    def noted(name: str | Path, *place: Any, **how: Any) -> Any:
        opened.append(Path(name).name)
        return open_source(name, *place, **how)

    monkeypatch.setattr(role_guessing, "open_source", noted)
    drafted(table)
    drafted(german, "--encoding", "latin-1")
    assert opened == [table.name, german.name, german.name]


@pytest.mark.slow
@pytest.mark.usefixtures("desk")
def test_table_of_a_german_hospital_is_published_and_verified(german: Path) -> None:
    read = ("--encoding", "latin-1", "--decimal", ",")
    ranges = ("--ranges", "Geburtsdatum=1900-01-01,1970-01-01,2100-01-01", "--ranges", "Aufnahme=2024-01-01,2025-01-01")
    chosen = ("--person", "Patienten-Nr", "--one-row", "first:Aufnahme", "--drop", "Kosten", "--missing", "k.A.")
    asked = ("--sensitive", "Diagnose", "--prior", "1/10", "--posterior", "1/3", "--plan-file", "key", "--out", "r")
    succeed("publish", german, *read, *ranges, *chosen, *asked)
    succeed("verify", "r", "--original", german, *read, "--plan-file", "key")
    found = succeed("query", "r", "SELECT Geburtsdatum, COUNT(*) FROM release GROUP BY 1", "--json").json
    assert {row["Geburtsdatum"] for row in found["rows"]} == {"[1900-01-01,1970-01-01)", "[1970-01-01,2100-01-01]"}


@pytest.mark.usefixtures("desk")
def test_decisions_are_left_open_with_a_line_each(hospital: Path) -> None:
    text = drafted(hospital)
    for line in [
        '# sensitive = "diagnosis"',
        '# one_row = "first:admitted"',
        '# one_row = "last:admitted"',
        '# one_row = "random"',
        '# rows_per_person = "2 at random"',
        '# posterior = "1/2"',
        '# missing = ["?", "Unknown/Invalid"]',
        '# diagnosis = "values.txt"',
    ]:
        assert line in text.splitlines()
    assert len(re.findall("^# DECIDE: ", text, re.MULTILINE)) == 4
    assert text.endswith("#   sfumato plan request.toml\n#   sfumato publish request.toml\n")


@pytest.mark.usefixtures("desk")
def test_command_says_what_is_left_to_do(hospital: Path) -> None:
    assert succeed("init", hospital).out.splitlines()[1:] == [
        "written to request.toml; open it in an editor, check it, and decide:",
        "  1. which column is sensitive",
        "  2. what to do with several rows of a person",
        "  3. what to do with columns that look sensitive (DECIDE in the list public)",
        "  4. how much anyone may learn about a person (posterior)",
        "then run: sfumato plan request.toml",
    ]


@pytest.mark.slow
def test_completed_file_is_planned_and_published(desk: Path) -> None:
    """All decisions taken as they are proposed; of several rows of a person there are none in this table."""
    table = stays()
    table["patient_nbr"] = table["encounter_id"]
    write_csv(desk / "stays.csv", table)
    succeed("init", "stays.csv")
    text = (desk / "request.toml").read_text()
    assert 'person = "patient_nbr"' in text.splitlines()
    assert "one_row" not in text
    text = decided(text, "sensitive", "posterior", "age", "labs").replace('# "income",', '"income",')
    text = text.replace('# "race",', '"race",').replace('sensitive = "income"', 'sensitive = "diagnosis"')
    text += '[accept_disclosing]\nrace = "these people are made up"\nincome = "these people are made up"\n'
    (desk / "request.toml").write_text(text)
    succeed("plan", "request.toml")
    succeed("publish", "request.toml")
    succeed("verify", "release", "--original", "stays.csv")
    found = succeed("info", "release", "--json").json
    assert found["public"] == ["race", "gender", "age", "admitted", "ward", "labs", "income"]


@pytest.mark.usefixtures("desk")
def test_file_that_is_not_completed_says_what_is_lacking(hospital: Path) -> None:
    drafted(hospital)
    assert "no protection was chosen" in complaint(run("plan", "request.toml"))
    Path("request.toml").write_text(decided(Path("request.toml").read_text(), "posterior"))
    assert "name the column to protect" in complaint(run("plan", "request.toml"))


@pytest.mark.usefixtures("desk")
def test_known_sensitive_column_is_no_decision(hospital: Path) -> None:
    text = drafted(hospital, "--sensitive", "income")
    columns = tomllib.loads(text)["columns"]
    assert columns["sensitive"] == ["income"]
    assert columns["drop"] == ["last_name", "weight", "zip"]
    assert "values.txt" not in text, "the ranges declare what an income may be"
    assert tomllib.loads(text)["ranges"]["income"]
    assert listed(text)[-1] == '# "diagnosis"'


@pytest.mark.slow
@pytest.mark.parametrize("way", ["compound", "decoys"])
def test_draft_for_two_sensitive_columns_is_published_after_its_decisions(way: str, desk: Path) -> None:
    write_csv(desk / "people.csv", people(drug=["A", "B", "C"] * 20))
    succeed("init", "people.csv", "--sensitive", "disease", "--sensitive", "drug", "--json")
    path = desk / "request.toml"
    text = path.read_text()
    (desk / "values-1.txt").write_text("\n".join(sorted(set(people()["disease"]))))
    (desk / "values-2.txt").write_text("A\nB\nC\n")
    if way == "compound":
        changes = ['disease = "values-1.txt"', 'drug = "values-2.txt"', "posterior =", "each_row_is_a_person"]
    else:
        text = re.sub(r"(?s)\ncompound = \[.*?\]", "", text)
        text = re.sub(r"(?m)^prior = .*", "group_size = 2", text)
        changes = ['sensitive = ["disease", "drug"]', "each_row_is_a_person"]
    for line in changes:
        assert f"# {line}" in text
        text = text.replace(f"# {line}", line)
    path.write_text(text)
    succeed("publish", "request.toml", "--accept-unique", "These people are invented.")
    assert set(tomllib.loads(text)["columns"]["public"]) == {"age", "sex"}


def test_sensitive_column_that_is_not_there_is_refused(desk: Path) -> None:
    write_csv(desk / "people.csv", people())
    assert fail(desk, "init", "people.csv", "--sensitive", "town") == (
        "the table has no column 'town'; it has 'age', 'sex', 'disease'."
    )


@pytest.mark.usefixtures("desk")
def test_every_key_that_is_written_is_known(hospital: Path) -> None:
    keys = set(re.findall(r"^#? ?([a-z_]+) = ", drafted(hospital), re.MULTILINE))
    ranged = {"age", "admitted", "labs", "income", "diagnosis"}
    rows_of_a_person = {"one_row", "rows_per_person", "surplus"}
    assert keys - ranged - rows_of_a_person <= {*list_keys()}


# ---------------------------------------------------------------------------------------------- nothing of the table


def planted(kind: str) -> dict[str, list[Any]]:
    """A table in which every value, smallest and largest included, can be recognised in a text."""
    rows = 400
    numbers = [731_000_913 + 7919 * (row * 37 % rows) for row in range(rows)]
    return {
        "patient_id": [f"Ptnt{number}" for number in numbers],
        "first_name": [f"Nme{number % 7}x" for number in numbers],
        "town": [f"Twn{number % 5}x" for number in numbers],
        "story": [f"Stry{number}\nx" for number in numbers],
        "wage": [number / 100 for number in numbers] if kind == "float" else numbers,
        "year": [1903 + 4 * (row % 25) for row in range(rows)],
        "temperature": [-17.38 + 0.93 * (row % 47) for row in range(rows)],
        "born": [f"19{31 + row % 57:02d}-{1 + row % 12:02d}-{1 + row % 28:02d}" for row in range(rows)],
        "diagnosis": [f"Dgns{number % 3}x" for number in numbers],
        "rarely": [f"Rre{row}x" if row < 4 else "?" for row in range(rows)],
    }


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["int", "float"])
def test_file_holds_no_value_and_no_count(kind: str, desk: Path) -> None:
    table = planted(kind)
    write_csv(desk / "secrets.csv", table)
    succeed("init", "secrets.csv")
    text = (desk / "request.toml").read_text()
    for column in table.values():
        for value in {column[0], column[-1], min(map(str, column)), max(map(str, column)), *column} - {"?"}:
            assert str(value) not in re.findall(r"[\w.-]+", text)
    assert not re.search("(Ptnt|Nme|Twn|Stry|Dgns|Rre)[0-9]", text)
    # Numbers of ours alone: examples, the proposed bound, steps, round edges.
    edges = "\n".join(re.findall(r"^# \w+ = \[[-0-9., inf]+\]$", text, re.MULTILINE))
    others = re.findall(r"[0-9]+", text.replace(edges, "") if edges else text)
    assert not {"400", str(len(set(table["wage"])))} & set(others)
    for line in edges.splitlines():
        if "born" not in line:
            digits = [edge.strip("-0.").replace(".", "") for edge in re.findall(r"-?[0-9][0-9.]*", line)]
            assert max(map(len, digits)) <= 4


def test_smallest_and_largest_value_are_never_edges(desk: Path) -> None:
    """Round extremes too: 20 and 100 are round, and are not proposed for a column that begins and ends with them."""
    ages = [20 + row % 81 for row in range(810)]
    days = [f"20{10 + row % 11}-01-01" for row in range(810)]
    other = [f"2{row % 9}-{1 + row % 12:02d}" for row in range(810)]
    write_csv(desk / "people.csv", {"age": ages, "day": days, "other": other, "disease": ["flu", "cold", "HIV"] * 270})
    succeed("init", "people.csv")
    text = (desk / "request.toml").read_text()
    edges = re.search(r"^# age = \[(.*)\]$", text, re.MULTILINE)
    assert edges is not None
    assert not {"20", "100"} & set(edges[1].split(", "))
    assert "2010-01-01" not in text
    assert "2020-01-01" not in text


def test_file_says_the_path_and_never_a_password() -> None:
    target = Path("requests/request.toml")
    assert format_table_path("data/people.csv", target) == "../data/people.csv"
    assert format_table_path("/data/people.csv", target) == "/data/people.csv"
    assert format_table_path("db://ann:secret@host/people", target) == "db://host/people"
    assert format_table_path("db://ann:sec/r@et@host/people", target) == "db://host/people"
    assert format_table_path("db://ann:se@cret@host/people", target) == "db://host/people"


# ----------------------------------------------------------------------------------------------------------- odd tables


def test_path_leads_from_the_file_to_the_table(desk: Path) -> None:
    (desk / "data").mkdir()
    (desk / "requests").mkdir()
    write_csv(desk / "data" / "people.csv", people())
    succeed("init", "data/people.csv", "--out", "requests/first.toml")
    path = desk / "requests" / "first.toml"
    assert tomllib.loads(path.read_text())["table"]["path"] == "../data/people.csv"
    assert "sfumato plan first.toml" in path.read_text()
    path.write_text(decided(path.read_text(), "sensitive", "posterior"))
    succeed("plan", "requests/first.toml")


def test_names_of_columns_cannot_leave_their_line(desk: Path) -> None:
    names = [
        'a"b',
        "new\nline",
        "esc\x1b[2J",
        "turn\u202eed",
        "tab\t",
        "back\\slash",
        "é ü",
        "x" * 200,
        "#",
        "= [",
        "\x7f",
    ]
    write_csv(desk / "odd.csv", {**{name: ["x", "y"] * 30 for name in names}, "disease": ["flu", "cold", "HIV"] * 20})
    succeed("init", "odd.csv", "--sensitive", names[1], "--sensitive", names[3])
    text = (desk / "request.toml").read_text(encoding="utf-8")
    assert tomllib.loads(text)["columns"]["compound"] == [names[1], names[3]]
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f\u202e]", text)
    for name in names:
        assert tomllib.loads(f"{quote_toml(name)} = {quote_toml(name)}") == {name: name}
        assert quote_toml(name) in text


def test_odd_columns_are_left_out(desk: Path) -> None:
    write_parquet(
        desk / "odd.parquet",
        pa.table(
            {
                "": ["a", "b"] * 30,
                "nested": [[1], [2]] * 30,
                "nothing": pa.nulls(60),
                "no value": pa.nulls(60, pa.string()),
                "numbers": [1.5, float("inf"), float("nan")] * 20,
                "large": pa.array([2**64 - 1 - row // 2 for row in range(60)], pa.uint64()),
                "ages ago": pa.array([-10_000_000 + 3000 * (row // 2) for row in range(60)], pa.int32()).cast(
                    pa.date32()
                ),
                "disease": ["flu", "cold", "HIV"] * 20,
            }
        ),
    )
    succeed("init", "odd.parquet")
    found = tomllib.loads((desk / "request.toml").read_text())
    assert found["columns"]["drop"] == ["", "nested", "nothing", "no value"]


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (["patient_id", "member no"], '# person = "patient_id"'),
        (["town", "sex"], '# person = "COLUMN"'),
        (["subjectID", "town"], 'person = "subjectID"'),
        (["Insurance Number", "insurance_type"], 'person = "Insurance Number"'),
        (["mrn", "member_since"], 'person = "mrn"'),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_one_column_says_whose_row_it_is_or_none(names: list[str], words: str, desk: Path) -> None:
    table = {name: ["a", "b", "c", "d"] * 20 for name in names}
    write_csv(desk / "people.csv", {**table, "disease": ["flu", "cold", "HIV", "gout", "flu"] * 16})
    succeed("init", "people.csv")
    text = (desk / "request.toml").read_text()
    assert words in text.splitlines()
    assert ("one_row" in text) == (not words.startswith("#"))
    if names == ["patient_id", "member no"]:
        assert tomllib.loads(text)["columns"]["drop"] == names


def test_rows_of_nobody_and_codes_are_remarked(desk: Path) -> None:
    table = {"person": ["a", "b", "c", ""] * 20, "diag": [*range(40), *range(40)]}
    write_csv(desk / "people.csv", {**table, "disease": ["flu", "cold", "HIV", "gout"] * 20})
    succeed("init", "people.csv")
    text = (desk / "request.toml").read_text()
    assert 'person = "person"  # rows without a value must be completed or removed' in text
    assert "[ranges]" not in text.replace("ranges in [ranges]", "")


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1"])
def test_encoding_is_kept(encoding: str, desk: Path) -> None:
    write_csv_rows(desk / "people.csv", [["größe", "disease"], *[["ß", "flu"], ["ä", "cold"]] * 20], encoding=encoding)
    succeed("init", "people.csv", "--encoding", encoding)
    written = tomllib.loads((desk / "request.toml").read_text(encoding="utf-8"))
    assert written["table"].get("encoding", "utf-8") == encoding


def test_guesses_are_told_to_machines(desk: Path) -> None:
    write_csv(desk / "people.csv", people(name=["Ann", "Bob"], weight=["?", 70]))
    found = succeed("init", "people.csv", "--json").json
    assert found["path"] == "request.toml"
    assert found["missing"] == ["?"]
    assert [(each["name"], each["role"]) for each in found["columns"]] == [
        ("age", "public"),
        ("sex", "public"),
        ("disease", "public"),
        ("name", "dropped"),
        ("weight", "public"),
    ]
    assert found["open"][0] == "which column is sensitive"


# ------------------------------------------------------------------------------------------------------ what is refused


def test_existing_file_is_replaced_by_force_only(desk: Path) -> None:
    write_csv(desk / "people.csv", people())
    (desk / "request.toml").write_text("mine")
    assert fail(desk, "init", "people.csv") == (
        "'request.toml' exists; choose another name with --out, or replace it with --force."
    )
    succeed("init", "people.csv", "--force")
    assert (desk / "request.toml").read_text().startswith('# How to publish "people.csv".')


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["people.csv", "--out", "people.csv", "--force"],
         "the name of a request file has a fixed ending; choose a name that ends in .toml, not 'people.csv'."),
        (["people.csv", "--out", "nowhere/request.toml"],
         "the request file 'nowhere/request.toml' cannot be written: No such file or directory."),
        (["people.csv", "--out", "folder.toml", "--force"],
         "the request file 'folder.toml' cannot be written: Is a directory."),
        (["nobody.csv"], "'nobody.csv' is not a table: there is no file, glob or directory of CSV, "
         "Parquet, Arrow or JSON lines files with this name."),
        (["empty.csv"], "the table is empty: there is nothing to publish."),
        (["twice.parquet"], "the table has two columns named 'x'; rename one of them."),
    ],
    ids=["no toml", "no folder", "folder", "no table", "empty", "two columns"],
)  # fmt: skip
def test_what_cannot_be_is_refused(arguments: list[str], sentence: str, desk: Path) -> None:
    write_csv(desk / "people.csv", people())
    write_csv(desk / "empty.csv", {"age": [], "disease": []})
    write_parquet(desk / "twice.parquet", pa.table([[1], [2]], names=["x", "x"]))
    (desk / "folder.toml").mkdir()
    assert fail(desk, "init", *arguments) == sentence
    assert not [name for name in content(desk) if name.startswith(".")]
