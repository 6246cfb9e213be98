"""Roles, bins and domain files."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pytest

from sfumato._publish.request import Request
from sfumato._request.belief_bounds import BreachBound
from sfumato._request.bucket_and_decoy_requirements import DecoyGroups
from sfumato._request.schema import NullPolicy, Ranges, Role, Schema, explain_missing_column, read_domain
from sfumato.errors import SchemaError

COLUMNS = ["name", "age", "sex", "disease"]


def test_columns_are_public_unless_named() -> None:
    schema = Schema.of("disease", identifier=["name"], person="number", drop=["note"])
    roles = {name: schema.get_role(name) for name in ("disease", "name", "number", "note", "age")}
    assert roles == {
        "disease": Role.SENSITIVE,
        "name": Role.IDENTIFIER,
        "number": Role.PERSON,
        "note": Role.DROPPED,
        "age": Role.PUBLIC,
    }
    assert (schema.sensitive_name, schema.person_column) == ("disease", "number")


def test_published_columns_keep_the_order_of_the_table() -> None:
    schema = Schema.of("age", identifier="name")
    assert schema.select_published(COLUMNS) == ("age", "sex", "disease")


def test_a_name_alone_is_not_taken_for_its_letters() -> None:
    assert Schema.of("disease", identifier="name", drop="sex", keep="age") == Schema.of(
        ["disease"], identifier=["name"], drop=["sex"], keep=["age"]
    )


def test_schema_without_a_person_has_none() -> None:
    assert Schema.of("disease").person_column is None


def test_sensitive_column_is_named() -> None:
    with pytest.raises(SchemaError, match="there is no sensitive column"):
        _ = Schema.of([]).sensitive_name


def test_several_sensitive_columns_are_protected_each_for_itself_unless_they_are_a_compound() -> None:
    several, compound, one = Schema.of(["age", "disease"]), Schema.of(compound=["age", "disease"]), Schema.of("age")
    assert [schema.is_independent for schema in (several, compound, one)] == [True, False, False]
    assert [schema.combined_columns for schema in (several, compound, one)] == [
        ("age", "disease"),
        ("age", "disease"),
        (),
    ]
    assert several.sensitive_name == compound.sensitive_name == "age + disease"


def test_only_decoys_protect_several_columns_each_for_itself() -> None:
    with pytest.raises(SchemaError, match=r"^name exactly one sensitive column; 2 were named\..*DecoyGroups"):
        Request("people.csv", schema=Schema.of(["age", "disease"]), spec=BreachBound("1/10", "1/2"))
    assert Request("people.csv", schema=Schema.of(["age", "disease"]), spec=DecoyGroups(3)).schema.is_independent


@pytest.mark.parametrize(
    "roles",
    [{"identifier": ["disease"]}, {"person": "disease"}, {"drop": ["disease"]}, {"identifier": ["x"], "drop": ["x"]}],
    ids=str,
)
def test_column_of_two_roles_is_refused(roles: dict[str, Any]) -> None:
    with pytest.raises(SchemaError, match=r"cannot be both .* give it one role"):
        Schema.of("disease", **roles)


def test_column_named_twice_in_one_role_is_one() -> None:
    assert Schema.of("disease", drop=["note", "note"]) == Schema.of("disease", drop=["note"])


@pytest.mark.parametrize(
    "named",
    [
        {"identifier": ["nmae"]},
        {"person": "nmae"},
        {"drop": ["nmae"]},
        {"keep": ["nmae"]},
        {"ranges": {"nmae": Ranges(("0", "1"))}},
        {"domains": {"nmae": ["x"]}},
    ],
    ids=lambda named: next(iter(named)),
)
def test_name_of_no_column_is_refused_with_the_columns_there_are(named: dict[str, Any]) -> None:
    with pytest.raises(
        SchemaError, match=r"no column 'nmae'; did you mean 'name'\? It has 'name', 'age', 'sex', 'disease'"
    ):
        Schema.of("disease", **named).check_columns(COLUMNS)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("diagnois", "diagnosis"),
        ("DIAGNOSIS", "diagnosis"),
        ("home_town", "Home Town"),
        (" age", "age"),
        ("town", None),
        ("", None),
        ("diagnosis" * 1000, None),
    ],
)
def test_column_that_is_not_there_suggests_the_nearest_name(name: str, meant: str | None) -> None:
    said = explain_missing_column(name, ["Home Town", "age", "diagnosis"])
    middle = "it" if meant is None else f"did you mean {meant!r}? It"
    assert said == f"the table has no column {name!r}; {middle} has 'Home Town', 'age', 'diagnosis'."


def test_nearest_of_two_alike_columns_is_the_first() -> None:
    assert "did you mean 'Sex'?" in explain_missing_column("sexx", ["Sex", "sex"])


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        (["age", "disease", "age"], "two columns named 'age'; rename one of them"),
        (["age", "", "disease"], "a column of the table has no name"),
        (["age", "a\0b", "disease"], r"the name of column 'a\\x00b' has a zero character"),
        (["Age", "age", "disease"], "'Age' and 'age' differ only by capital letters"),
        (["STRASSE", "strasse", "disease"], "differ only by capital letters"),
        (["disease"], "there would be no public column"),
    ],
)
def test_columns_that_cannot_be_published_are_refused(columns: list[str], words: str) -> None:
    with pytest.raises(SchemaError, match=words):
        Schema.of("disease").check_columns(columns)


@pytest.mark.parametrize("columns", [["age", "", "disease"], ["age", "Age", "disease"], ["age", "a\0", "disease"]])
def test_columns_that_are_left_out_may_have_any_name(columns: list[str]) -> None:
    Schema.of("disease", drop=[columns[1]]).check_columns(columns)


def test_bins_and_a_domain_exclude_each_other() -> None:
    with pytest.raises(SchemaError, match="'age' has both a domain and ranges"):
        Schema.of("disease", domains={"age": [1]}, ranges={"age": Ranges(("0", "1"))})


def test_null_policy_is_read_by_its_name() -> None:
    assert Schema.of("disease", nulls="drop").nulls is NullPolicy.DROP


# ---------------------------------------------------------------------------------------------------------------- bins


@pytest.mark.parametrize(
    ("text", "values", "labels"),
    [
        ("0,20,40", (0, 20, 40), ("[0,20)", "[20,40]")),
        (" 0 , 1.50 ", (0, 1.5), ("[0,1.50]",)),
        ("-inf,0,inf", (float("-inf"), 0, float("inf")), ("[-inf,0)", "[0,inf]")),
        ("-5,-1e0", (-5, -1), ("[-5,-1e0]",)),
        (
            "2024-01-01,2025-01-01",
            (datetime.date(2024, 1, 1), datetime.date(2025, 1, 1)),
            ("[2024-01-01,2025-01-01]",),
        ),
        (
            "2024-01-01,2024-01-01T12:00",
            (datetime.datetime(2024, 1, 1), datetime.datetime(2024, 1, 1, 12)),
            ("[2024-01-01,2024-01-01T12:00]",),
        ),
    ],
)
def test_bins_are_half_open_but_the_last_and_labelled_as_written(
    text: str, values: tuple[Any, ...], labels: tuple[str, ...]
) -> None:
    bins = Ranges.parse(text)
    assert (bins.parsed_edges, bins.labels) == (values, labels)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "at least two edges"),
        ("5", "at least two edges"),
        ("5,", "the edge '' is neither a number nor a date"),
        ("a,b", "the edge 'a' is neither a number nor a date"),
        ("nan,1", "the edge 'nan'"),
        ("2024-02-30,2025-01-01", "the edge '2024-02-30'"),
        ("2,1", "must rise from left to right"),
        ("1,1.0", "must rise from left to right"),
        ("2024-01-01T00:00,2024-01-01", "must rise from left to right"),
        ("0,2024-01-01", "all numbers or all dates"),
        ("2024-01-01,2024-01-02T00:00+00:00", "an offset from UTC, or none has"),
    ],
)
def test_edges_that_make_no_bins_are_refused(text: str, words: str) -> None:
    with pytest.raises(SchemaError, match=words):
        Ranges.parse(text)


# -------------------------------------------------------------------------------------------------------- domain files


@pytest.mark.parametrize(
    ("written", "values"),
    [
        ("flu\ncold\n", ("flu", "cold")),
        ("flu\ncold", ("flu", "cold")),
        ("value\nflu\ncold\n", ("flu", "cold")),
        ("flu\nvalue\n", ("flu", "value")),
        ("flu\n\ncold\n", ("flu", None, "cold")),
        ('flu\n""\n', ("flu", None)),
        ('"a, b"\n"say ""hi"""\n', ("a, b", 'say "hi"')),
        ("\ufefffière\r\nété\r\n", ("fière", "été")),
        (" x\nx \n", (" x", "x ")),
        ("", ()),
    ],
)
def test_domain_file_has_one_value_a_line(written: str, values: tuple[str | None, ...], desk: Path) -> None:
    (desk / "domain.txt").write_text(written, encoding="utf-8", newline="")
    assert read_domain(desk / "domain.txt") == values


def test_domain_file_of_several_fields_is_refused_by_its_line(desk: Path) -> None:
    (desk / "domain.txt").write_text("flu\na, b\n")
    with pytest.raises(SchemaError, match=r"line 2 of the domain file .* has several fields"):
        read_domain(desk / "domain.txt")


def test_person_column_may_be_in_a_list_of_columns_that_are_not_published() -> None:
    for role in ("identifier", "drop"):
        schema = Schema.of("disease", person="number", **{role: ["number", "name"]})  # type: ignore[arg-type]
        assert schema.person_column == "number"
        assert schema.get_role("name") is not Role.PUBLIC
    with pytest.raises(SchemaError, match="give one of the two"):
        Schema.of("disease", person="number", each_row_is_a_person=True)
