"""What a command cannot do, it refuses: exit code 2, one sentence that names the remedy, and nothing left behind."""

from __future__ import annotations

import bz2
import datetime
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from accepted import ALL_ACCEPTED
from command_line import BOUND, content, fail, people, publishing, succeed, write_csv, write_parquet
from refusals import refuses
from sfumato import BreachBound, Request, Schema, SourceError, publish

HEADER = b"age,sex,disease\n"
ROWS = b"".join(b"%d,%s,%s\n" % (30 + row % 2, b"FM"[row % 2 :][:1], b"flucold"[row % 3 :][:3]) for row in range(40))

# ---------------------------------------------------------------------------------------------------- tables to be read


def test_csv_with_a_header_only_is_refused(desk: Path) -> None:
    (desk / "empty.csv").write_bytes(HEADER)
    assert fail(desk, *publishing("empty.csv")) == "the table is empty: there is nothing to publish."


def test_parquet_without_rows_is_refused(desk: Path) -> None:
    write_parquet(desk / "empty.parquet", pa.table(people()).slice(0, 0))
    assert fail(desk, *publishing("empty.parquet")) == "the table is empty: there is nothing to publish."


def test_table_that_dropping_nulls_empties_is_refused(desk: Path) -> None:
    write_parquet(desk / "empty.parquet", people() | {"disease": pa.nulls(60, pa.string())})
    assert "the table is empty" in fail(desk, *publishing("empty.parquet", "--nulls", "drop"))


BEYOND = {"days": (pa.int32(), pa.date32(), 10**7), "times": (pa.int64(), pa.timestamp("us"), -(10**18))}
"""What stands for a day or a time that Python has not."""


@pytest.mark.parametrize("sensitive", ["disease", "until"])
@pytest.mark.parametrize("kind", BEYOND)
def test_days_beyond_the_calendar_are_refused(kind: str, sensitive: str, desk: Path) -> None:
    stored, meant, far = BEYOND[kind]
    until = pa.array([0, far, None, 3] * 15, stored).cast(meant)
    write_parquet(desk / "stays.parquet", pa.table(people()).append_column("until", until))
    said = fail(desk, "publish", "stays.parquet", "--out", "release", "--sensitive", sensitive, *BOUND)
    assert said.startswith("column 'until' holds infinite dates, or dates before the year 1 or after 9999")


@pytest.mark.parametrize("zone", [None, "America/New_York", "Pacific/Kiritimati"])
def test_first_and_last_day_of_the_calendar_are_published(zone: str | None, desk: Path) -> None:
    """In some zone, these are a day of the year 0 or 10000."""
    ends = [datetime.datetime(1, 1, 1), datetime.datetime(9999, 12, 31, 23), None]
    until = pa.array(ends * 20, pa.timestamp("us")).cast(pa.int64()).cast(pa.timestamp("us", zone))
    write_parquet(desk / "stays.parquet", pa.table(people()).append_column("until", until))
    succeed(*publishing("stays.parquet", "--accept-disclosing", "until=made up"))


@pytest.mark.parametrize("write", [write_csv, write_parquet])
def test_one_row_is_refused(desk: Path, write: Callable[[Path, Any], Path]) -> None:
    name = {write_csv: "one.csv", write_parquet: "one.parquet"}[write]
    write(desk / name, people(1))
    assert "the table has one row" in fail(desk, *publishing(name))


@pytest.mark.parametrize(
    ("name", "bytes_", "words"),
    [
        ("people.xlsx", b"PK\x03\x04", "cannot be read as an Excel file"),
        ("people.csv.gz", b"\x1f\x8b", "is damaged and cannot be unpacked; check that it was copied completely."),
        ("people", HEADER + ROWS, "cannot be read as a table: name a file that ends in .csv, .tsv"),
        ("people.txt", bytes(range(256)) * 9, "is not utf-8 text; name its encoding, such as --encoding latin-1"),
        ("people.csv", b"", "'people.csv' is empty, but the first line must name the columns."),
        ("people.csv", b"\n\n", "'people.csv' is empty, but the first line must name the columns."),
        ("people.csv", b"a" * 200_000, "the column names in the first line of 'people.csv' cannot be read"),
        ("people.csv", HEADER[:-1] + b",age\n", "two columns named 'age'; rename one of them (columns 1 and 4)."),
        ("people.csv", b"age,,disease,\n" + ROWS, "the columns 2 and 4 of the table have no name"),
        ("people.csv", b"Export of 2024\n\n" + HEADER + ROWS, "'people.csv' does not name the columns, but line 3"),
        ("people.csv", b"Export of 2024,,\n,,\n" + HEADER + ROWS, "does not name the columns, but line 3 seems to"),
        ("people.csv", (b"Export\n\n" + HEADER + ROWS).replace(b",", b";"), "but line 3 seems to; remove the lines"),
        ("people.csv", HEADER + ROWS + b'30,F,"fl"u",x\n', "has 4 fields, but the header has 3"),
        ("people.csv", b"age,,disease\n" + ROWS, "a column of the table has no name"),
        ("people.csv", b"Disease,sex,disease\n" + ROWS, "differ only by capital letters; rename"),
        ("people.parquet", b"", "is not a complete Parquet file; check that it was copied completely."),
        ("people.parquet", HEADER + ROWS, "is not a complete Parquet file"),
    ],
    ids=lambda value: value if isinstance(value, str) and "." in value and " " not in value else "",
)
def test_file_of_another_kind_is_refused(desk: Path, name: str, bytes_: bytes, words: str) -> None:
    (desk / name).write_bytes(bytes_)
    assert words in fail(desk, *publishing(name))


def test_binary_text_is_refused_in_an_encoding_that_reads_any_byte(desk: Path) -> None:
    (desk / "people.txt").write_bytes(bytes(range(256)) * 9)
    assert "line 2 of 'people.txt'" in fail(desk, *publishing("people.txt", "--encoding", "latin-1"))


@pytest.mark.parametrize("kept", [0.1, 0.5, 0.99])
def test_truncated_parquet_is_refused(desk: Path, kept: float) -> None:
    path = write_parquet(desk / "people.parquet", people())
    path.write_bytes(path.read_bytes()[: int(kept * path.stat().st_size)])
    assert "check that it was copied completely" in fail(desk, *publishing("people.parquet"))


@pytest.mark.parametrize("options", [["--person", "name"], ["--identifier", "name"]])
def test_parquet_with_damaged_pages_is_refused(desk: Path, options: list[str]) -> None:
    table = people(5000, name=[f"person number {row}" for row in range(5000)])
    path = write_parquet(desk / "people.parquet", table)
    whole = path.read_bytes()
    path.write_bytes(whole[:4] + bytes(len(whole) - 4000) + whole[len(whole) - 3996 :])
    sentence = fail(desk, *publishing("people.parquet", *options))
    assert "cannot be read to its end" in sentence


@pytest.mark.parametrize(
    ("line", "fields"), [(b"Zelenka,F", 2), (b"Zelenka", 1), (b"1,F,Zelenka,Zelenka", 4)], ids=["short", "one", "long"]
)
def test_ragged_csv_is_refused_by_its_line_and_not_its_content(desk: Path, line: bytes, fields: int) -> None:
    (desk / "people.csv").write_bytes(HEADER + ROWS + line + b"\n" + ROWS)
    sentence = fail(desk, *publishing("people.csv"))
    assert sentence.startswith(f"line 42 of 'people.csv' has {fields} fields, but the header has 3; correct this line")
    assert "Zelenka" not in sentence


def test_ragged_csv_is_refused_by_its_line_after_quoted_line_breaks(desk: Path) -> None:
    (desk / "people.csv").write_bytes(HEADER + b'30,F,"flu\n\n"\n' + b"31,F\n")
    assert fail(desk, *publishing("people.csv")).startswith("line 5 of ")


@pytest.mark.parametrize("closing", ["", '"'], ids=["never closed", "closed rows later"])
def test_csv_with_a_quote_that_swallows_rows_is_refused_without_them(desk: Path, closing: str) -> None:
    rows = [f"Zelenka {row},{30 + row % 2},{('flu', 'cold')[row // 2 % 2]}" for row in range(40)]
    rows[30] = 'Zelenka,30,"flu'
    rows[35] += closing
    (desk / "people.csv").write_text("\n".join(["name,age,disease", *rows]) + "\n")
    sentence = fail(desk, *publishing("people.csv", "--identifier", "name"))
    assert sentence.startswith("column 'disease' holds values with line breaks, so a quote may be unclosed")
    assert "Zelenka" not in sentence


@pytest.mark.slow
def test_wrong_encoding_is_refused_and_the_right_one_works(desk: Path) -> None:
    write_csv(desk / "people.csv", people(disease=["Grippe"] * 4 + ["Röteln"] * 4), encoding="latin-1")
    sentence = fail(desk, *publishing("people.csv"))
    assert sentence == "'people.csv' is not utf-8 text; name its encoding, such as --encoding latin-1."
    succeed(*publishing("people.csv", "--encoding", "latin-1"))
    answer = succeed("query", "release", "SELECT disease, COUNT(*) FROM release GROUP BY disease", "--json").json
    assert [row["disease"] for row in answer["rows"]] == ["Grippe", "Röteln"]
    succeed("verify", "release", "--original", "people.csv", "--encoding", "latin-1")


@pytest.mark.parametrize("encoding", ["utf-9", "hex", ""])
def test_unknown_encoding_is_refused(desk: Path, table: Path, encoding: str) -> None:
    sentence = fail(desk, *publishing(table, "--encoding", encoding))
    assert sentence == f"the encoding {encoding!r} is unknown; try utf-8, latin-1 or cp1252."


@pytest.mark.parametrize("name", ["nowhere.csv", "*.csv", "folder", ""])
def test_table_that_is_not_there_is_refused(desk: Path, name: str) -> None:
    (desk / "folder").mkdir()
    write_parquet(desk / "other.parquet", people())
    assert "name" in fail(desk, *publishing(name))


def test_duplicate_columns_in_parquet_are_refused(desk: Path) -> None:
    table = pa.table(people())
    write_parquet(desk / "people.parquet", table.append_column("age", table.column("age")))
    assert fail(desk, *publishing("people.parquet")) == "the table has two columns named 'age'; rename one of them."


def test_folder_that_keeps_a_column_in_its_names_is_refused(desk: Path) -> None:
    (desk / "people" / "year=2024").mkdir(parents=True)
    write_parquet(desk / "people" / "year=2024" / "part.parquet", people())
    assert "write it as a column" in fail(desk, *publishing("people"))


# ---------------------------------------------------------------------------------------------- columns and their roles


@pytest.mark.parametrize(
    "options",
    [
        ["--identifier", "nmae"],
        ["--person", "nmae"],
        ["--drop", "nmae"],
        ["--keep", "nmae"],
        ["--ranges", "nmae=0,1"],
        ["--text", "nmae"],
    ],
    ids=lambda options: options[0],
)
def test_option_that_names_no_column_is_refused(desk: Path, table: Path, options: list[str]) -> None:
    assert "the table has no column 'nmae'; it has 'age', 'sex', 'disease'." in fail(desk, *publishing(table, *options))


@pytest.mark.parametrize("option", ["--identifier", "--person", "--drop", "--keep", "--text"])
def test_misspelt_column_is_answered_with_the_nearest_name(desk: Path, table: Path, option: str) -> None:
    sentence = fail(desk, *publishing(table, option, "desease"))
    assert "the table has no column 'desease'; did you mean 'disease'? It has 'age', 'sex', 'disease'." in sentence
    assert sentence.endswith(f"Correct {option}.")


def test_domain_of_no_column_is_refused(desk: Path, table: Path) -> None:
    (desk / "domain.txt").write_text("flu\n")
    assert "the table has no column 'nmae'" in fail(desk, *publishing(table, "--domain", "nmae=domain.txt"))


def test_missing_sensitive_column_is_refused_with_the_columns_there_are(desk: Path, table: Path) -> None:
    sentence = fail(desk, "publish", table, "--out", "release", "--sensitive", "diagnosis", *BOUND)
    assert "the table has no column 'diagnosis'; it has 'age', 'sex', 'disease'." in sentence


def test_publishing_without_a_sensitive_column_is_refused(desk: Path, table: Path) -> None:
    sentence = fail(desk, "publish", table, "--out", "release", *BOUND)
    assert "--sensitive COL" in sentence
    assert "--compound A,B" in sentence


@pytest.mark.parametrize(
    ("options", "roles"),
    [
        (["--identifier", "disease"], "'disease' cannot be both sensitive and identifier"),
        (["--drop", "disease"], "'disease' cannot be both sensitive and dropped"),
        (["--person", "disease"], "'disease' cannot be both sensitive and person"),
        (["--identifier", "age", "--drop", "age"], "'age' cannot be both identifier and dropped"),
    ],
)
def test_column_of_two_roles_is_refused(desk: Path, table: Path, options: list[str], roles: str) -> None:
    sentence = fail(desk, *publishing(table, *options))
    assert roles in sentence
    assert sentence.endswith("give it one role.")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        # The last one would win, and the other column go out as it is.
        (["--sensitive", "sex"], "name exactly one sensitive column; 2 were named."),
        (["--person", "age", "--person", "sex"], "--person was given 2 times; name one column."),
        (["--ranges", "age=0,99", "--ranges", "age=0,50,99"], "'age' was given twice"),
    ],
)
def test_option_for_one_column_is_refused_twice(desk: Path, table: Path, options: list[str], words: str) -> None:
    assert words in fail(desk, *publishing(table, *options))


def test_table_without_a_public_column_is_refused(desk: Path, table: Path) -> None:
    sentence = fail(desk, *publishing(table, "--drop", "age", "--identifier", "sex"))
    assert (
        sentence
        == "there would be no public column to publish beside the sensitive column; keep at least one public column."
    )


@pytest.mark.parametrize("kind", [pa.null(), pa.string(), pa.int64(), pa.float64()], ids=str)
@pytest.mark.parametrize("name", ["age", "disease"])
def test_column_of_missing_values_is_refused(desk: Path, name: str, kind: pa.DataType) -> None:
    write_parquet(desk / "people.parquet", people() | {name: pa.nulls(60, kind)})
    sentence = fail(desk, *publishing("people.parquet"))
    assert sentence == f"column {name!r} holds only missing values; drop it (--drop {name})."


@pytest.mark.parametrize("name", ["age", "disease"])
def test_empty_column_of_csv_is_refused(desk: Path, name: str) -> None:
    write_csv(desk / "people.csv", people() | {name: [None] * 60})
    assert f"column {name!r} holds only missing values" in fail(desk, *publishing("people.csv"))


HUGE = [10**30 + row for row in range(60)]


def test_huge_integers_are_refused_where_they_would_be_published(desk: Path) -> None:
    write_csv(desk / "people.csv", people(number=HUGE))
    sentence = fail(desk, *publishing("people.csv", "--keep", "number"))
    assert sentence.startswith("column 'number' holds whole numbers beyond 64 bits; read it as text (--text number)")


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        ["--identifier", "number"],
        ["--person", "number"],
        ["--drop", "number"],
        ["--text", "number", "--keep", "number"],
    ],
    ids=lambda options: options[0],
)
def test_huge_integers_are_no_trouble_where_they_are_not_numbers(desk: Path, options: list[str]) -> None:
    write_csv(desk / "people.csv", people(number=HUGE))
    succeed(*publishing("people.csv", *options))
    succeed("verify", "release", "--original", "people.csv")


def test_huge_integers_that_repeat_are_found_as_persons(desk: Path) -> None:
    write_csv(desk / "people.csv", people(number=[*HUGE[:59], HUGE[0]]))
    assert "1 of 59 persons have several rows" in fail(desk, *publishing("people.csv", "--person", "number"))


@pytest.mark.parametrize("values", [HUGE, ["one", 2]], ids=["huge", "mixed"])
def test_pandas_objects_that_are_no_column_are_refused_without_their_values(desk: Path, values: list[Any]) -> None:
    frame = pd.DataFrame(people(number=values))
    with refuses(SourceError, "mixed-types") as caught:
        publish(
            Request(frame, schema=Schema.of("disease", public="*"), spec=BreachBound("1/10", "1/2"), **ALL_ACCEPTED),
            desk / "release",
        )
    assert str(values[0]) not in str(caught.value)
    assert content(desk) == {}


@pytest.mark.parametrize(
    "values",
    [pa.array([[1]] * 60), pa.array([b"\0"] * 60), pa.array([datetime.time(1)] * 60), pa.array([{"a": 1}] * 60)],
    ids=lambda values: str(values.type),
)
def test_column_of_a_strange_type_is_refused_and_can_be_dropped(desk: Path, values: pa.Array) -> None:
    write_parquet(desk / "people.parquet", people() | {"strange": values})
    assert "or drop it (--drop strange)" in fail(desk, *publishing("people.parquet"))
    succeed(*publishing("people.parquet", "--drop", "strange"))


@pytest.mark.parametrize("name", ["note", "disease"])
def test_values_of_more_than_1000_characters_are_refused(desk: Path, name: str) -> None:
    write_csv(desk / "people.csv", people(**{name: ["ä" * 1000, "ä" * 1001]}))
    sentence = fail(desk, *publishing("people.csv"))
    assert sentence.startswith(f"column {name!r} holds values of more than 1000 characters")
    assert "ä" not in sentence


def test_values_of_1000_characters_are_published(desk: Path) -> None:
    write_csv(desk / "people.csv", people(disease=["ä" * 1000] * 4 + ["cold"] * 4))
    succeed(*publishing("people.csv"))


@pytest.mark.slow
def test_nearly_unique_column_is_refused_unless_it_is_confirmed_left_out_or_coarsened(desk: Path) -> None:
    write_csv(desk / "people.csv", people(number=range(60)))
    sentence = fail(desk, *publishing("people.csv"))
    assert "'number' is nearly unique (60 of 60 records" in sentence
    assert "--person number" in sentence
    assert "--identifier number" in sentence
    assert "--ranges number=..." in sentence
    assert "--keep number" in sentence
    for number, options in enumerate(
        (["--identifier", "number"], ["--keep", "number"], ["--ranges", "number=0,30,60"])
    ):
        succeed(*publishing("people.csv", *options, out=f"release-{number}"))


def test_name_with_a_line_break_is_refused_on_one_line(desk: Path) -> None:
    write_csv(desk / "people.csv", people(**{"house\nnumber": range(60)}))
    assert "'house\\nnumber' is nearly unique" in fail(desk, *publishing("people.csv"))


def test_nearly_unique_sensitive_column_is_refused(desk: Path) -> None:
    write_csv(desk / "people.csv", people(disease=[f"case {row}" for row in range(60)]))
    assert "it looks like an identifier or free text" in fail(desk, *publishing("people.csv"))


def test_repeated_person_is_refused(desk: Path) -> None:
    write_csv(desk / "people.csv", people(name=[f"Zelenka {row}" for row in range(57)]))
    sentence = fail(desk, *publishing("people.csv", "--person", "name"))
    assert sentence.startswith("3 of 57 persons have several rows (the same 'name', up to 2 times)")
    assert "(--one-row first:COL, --one-row last:COL or --one-row random)" in sentence
    assert "--rows-per-person K, and --surplus drop if some persons have more" in sentence
    assert "Zelenka" not in sentence


def test_missing_person_is_refused(desk: Path) -> None:
    write_csv(desk / "people.csv", people(name=[*range(58), None, None]))
    sentence = fail(desk, *publishing("people.csv", "--person", "name"))
    assert sentence.startswith("2 rows have no 'name'")
    assert sentence.endswith("complete or remove them.")


# ---------------------------------------------------------------------------------------------- domains, nulls and bins


def test_values_outside_the_domain_are_refused_by_their_number(desk: Path) -> None:
    write_csv(desk / "people.csv", people(disease=list("abcdefgh")))
    (desk / "domain.txt").write_text("a\n")
    sentence = fail(desk, *publishing("people.csv", "--domain", "disease=domain.txt"))
    assert "column 'disease' holds 7 values outside its declared domain; correct the table or add them" in sentence


@pytest.mark.parametrize(
    ("written", "words"),
    [
        (b"flu\ncold\nHIV\nasthma\nflu\n", "names a value twice; name each value once."),
        (
            b"flu,cold\nHIV\nasthma\n",
            "line 1 of the domain file 'domain.txt' has several fields; write one value a line",
        ),
        (b"flu\nGrippe f\xfcr immer\n", "is not UTF-8 text; save it as UTF-8."),
        (b"", "outside its declared domain"),
    ],
    ids=["twice", "fields", "encoding", "empty"],
)
def test_malformed_domain_file_is_refused(desk: Path, table: Path, written: bytes, words: str) -> None:
    (desk / "domain.txt").write_bytes(written)
    assert words in fail(desk, *publishing(table, "--domain", "disease=domain.txt"))


@pytest.mark.parametrize("file", ["nowhere.txt", ".", ""])
def test_domain_file_that_cannot_be_read_is_refused(desk: Path, table: Path, file: str) -> None:
    assert "the domain file " in fail(desk, *publishing(table, "--domain", f"disease={file}"))


@pytest.mark.parametrize(
    ("domain", "words"),
    [
        (
            "30\n40\n50\nsixty\n",
            "column 'age' holds one value outside its declared domain; correct the table or add",
        ),
        (
            "true\nfalse\n",
            "column 'age' holds values that cannot be read as boolean, the type of its domain (4 different "
            "such values in the "
            "first batch that has any); correct the table or the domain.",
        ),
    ],
    ids=["texts", "truths"],
)
def test_column_that_does_not_fit_its_domain_is_refused(desk: Path, table: Path, domain: str, words: str) -> None:
    (desk / "domain.txt").write_text(domain)
    assert words in fail(desk, *publishing(table, "--domain", "age=domain.txt"))


def test_domain_without_the_missing_value_is_refused_where_values_are_missing(desk: Path) -> None:
    write_csv(desk / "people.csv", people(disease=["flu", "cold", None]))
    (desk / "domain.txt").write_text("flu\ncold\n")
    sentence = fail(desk, *publishing("people.csv", "--domain", "disease=domain.txt"))
    assert sentence.startswith("20 records have no 'disease', and its declared domain has no missing value; add an")
    succeed(*publishing("people.csv", "--domain", "disease=domain.txt", "--nulls", "drop"))


def test_column_of_one_value_is_refused_and_a_declared_domain_helps(desk: Path) -> None:
    write_csv(desk / "people.csv", people(disease=["HIV"]))
    sentence = fail(desk, *publishing("people.csv"))
    assert sentence.startswith("the sensitive column has only one value,")
    (desk / "domain.txt").write_text("HIV\n")
    assert "has only one value" in fail(desk, *publishing("people.csv", "--domain", "disease=domain.txt"))
    (desk / "domain.txt").write_text("HIV\nflu\n")
    succeed(*publishing("people.csv", "--domain", "disease=domain.txt"))


def test_missing_values_are_an_error_on_request(desk: Path) -> None:
    write_csv(desk / "people.csv", people(disease=["flu", "cold", None]))
    sentence = fail(desk, *publishing("people.csv", "--nulls", "error"))
    assert sentence.startswith("20 records have no 'disease'")
    assert "(--nulls value)" in sentence
    assert "(--nulls drop)" in sentence


def test_missing_values_are_a_value_unless_asked_otherwise(desk: Path) -> None:
    write_csv(desk / "people.csv", people(disease=["flu", "cold", None]))
    succeed(*publishing("people.csv"))
    assert succeed("info", "release", "--json").json["design"]["domain"] == ["cold", "flu", None]


def test_missing_values_are_dropped_on_request(desk: Path) -> None:
    write_csv(desk / "people.csv", people(disease=["flu", "cold", None]))
    assert "20 records without a 'disease' were dropped" in succeed(*publishing("people.csv", "--nulls", "drop")).err
    found = succeed("info", "release", "--json").json
    assert (found["rows"], found["design"]["domain"]) == (40, ["cold", "flu"])


def test_unknown_treatment_of_nulls_is_refused(desk: Path, table: Path) -> None:
    assert "'value', 'error', 'drop'" in fail(desk, *publishing(table, "--nulls", "ignore"))


@pytest.mark.parametrize(
    ("bins", "words"),
    [
        ("age=0,40", "'age' outside its ranges, 0 to 40"),
        ("age=31,99", "'age' outside its ranges, 31 to 99"),
        ("sex=0,40", "the ranges of 'sex' do not fit a column of type string"),
        ("age=2020-01-01,2021-01-01", "the ranges of 'age' do not fit a column of type int64"),
        ("age=40", "ranges need at least two edges, such as 0,20,40,60."),
        ("age=", "ranges need at least two edges"),
        ("age", "'age' should be written as --ranges COL=0,20,40."),
        ("age=0,40,40,99", "the edges 0, 40, 40, 99 must rise from left to right."),
        ("age=0,forty,99", "the edge 'forty' is neither a number nor a date such as 2024-01-31."),
        ("age=0,nan", "the edge 'nan' is neither a number nor a date"),
        ("age=0,2024-01-31", "the edges of ranges must be all numbers or all dates."),
        (
            "age=2024-01-31T00:00,2024-02-01T00:00+01:00",
            "either all edges of ranges must have an offset from UTC, or none.",
        ),
    ],
)
def test_bins_that_do_not_fit_are_refused(desk: Path, table: Path, bins: str, words: str) -> None:
    assert words in fail(desk, *publishing(table, "--ranges", bins))


def test_bins_and_a_domain_for_one_column_are_refused(desk: Path, table: Path) -> None:
    (desk / "domain.txt").write_text("30\n")
    sentence = fail(desk, *publishing(table, "--ranges", "age=0,99", "--domain", "age=domain.txt"))
    assert sentence.startswith("column 'age' has both a domain and ranges,")


@pytest.mark.parametrize("name", ["people.csv.bz2", "people.jsonl.bz2"])
def test_archive_with_empty_parts_is_refused_in_words(desk: Path, name: str) -> None:
    """Arrow stumbles over them, and calls that by no name that it uses for other damage."""
    (desk / name).write_bytes(bz2.compress(b"") * 3 + bz2.compress(HEADER + ROWS))
    assert "cannot be unpacked" in fail(desk, *publishing(name))
