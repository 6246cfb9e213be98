"""Roles, bins and domain files."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pytest

from accepted import ALL_ACCEPTED
from refusals import refuses
from sfumato._publish.request import Request
from sfumato._request.belief_bounds import BreachBound
from sfumato._request.bucket_and_decoy_requirements import DecoyGroups
from sfumato._request.domain_files import read_domain
from sfumato._request.named_columns import explain_missing_column
from sfumato._request.range_edges import Ranges
from sfumato._request.schema import NullPolicy, Role, Schema
from sfumato.errors import ErrorField, SchemaError

COLUMNS = ["name", "age", "sex", "disease"]


def test_columns_are_undecided_unless_named() -> None:
    schema = Schema.of("disease", identifier=["name"], person="number", drop=["note"], public=["age"])
    roles = {name: schema.get_role(name) for name in ("disease", "name", "number", "note", "age")}
    assert roles == {
        "disease": Role.SENSITIVE,
        "name": Role.IDENTIFIER,
        "number": Role.PERSON,
        "note": Role.DROPPED,
        "age": Role.PUBLIC,
    }
    assert schema.get_role("sex") is Role.UNDECIDED
    assert (schema.sensitive_name, schema.person_column) == ("disease", "number")


def test_published_columns_keep_the_order_of_the_table() -> None:
    schema = Schema.of("age", identifier="name", public="*")
    assert schema.select_published(COLUMNS) == ("age", "sex", "disease")


def test_a_name_alone_is_not_taken_for_its_letters() -> None:
    assert Schema.of("disease", identifier="name", drop="sex", keep="age", public="*") == Schema.of(
        ["disease"], identifier=["name"], drop=["sex"], keep=["age"], public="*"
    )


def test_schema_without_a_person_has_none() -> None:
    assert Schema.of("disease", public="*").person_column is None


def test_sensitive_column_is_named() -> None:
    with refuses(SchemaError, "no-sensitive-column"):
        _ = Schema.of([], public="*").sensitive_name


def test_several_sensitive_columns_are_protected_each_for_itself_unless_they_are_a_compound() -> None:
    several, compound, one = (
        Schema.of(["age", "disease"], public="*"),
        Schema.of(compound=["age", "disease"], public="*"),
        Schema.of("age", public="*"),
    )
    assert [schema.is_independent for schema in (several, compound, one)] == [True, False, False]
    assert [schema.combined_columns for schema in (several, compound, one)] == [
        ("age", "disease"),
        ("age", "disease"),
        (),
    ]
    assert several.sensitive_name == compound.sensitive_name == "age + disease"


def test_only_decoys_protect_several_columns_each_for_itself() -> None:
    with refuses(SchemaError, "several-sensitive-columns", columns=2):
        Request(
            "people.csv",
            schema=Schema.of(["age", "disease"], public="*"),
            spec=BreachBound("1/10", "1/2"),
            **ALL_ACCEPTED,
        )
    assert Request(
        "people.csv", schema=Schema.of(["age", "disease"], public="*"), spec=DecoyGroups(3), **ALL_ACCEPTED
    ).schema.is_independent


@pytest.mark.parametrize(
    "roles",
    [{"identifier": ["disease"]}, {"person": "disease"}, {"drop": ["disease"]}, {"identifier": ["x"], "drop": ["x"]}],
    ids=str,
)
def test_column_of_two_roles_is_refused(roles: dict[str, Any]) -> None:
    with refuses(SchemaError, "two-roles"):
        Schema.of("disease", **roles, public="*")


def test_column_named_twice_in_one_role_is_one() -> None:
    assert Schema.of("disease", drop=["note", "note"], public="*") == Schema.of("disease", drop=["note"], public="*")


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
def test_name_of_no_column_is_refused(named: dict[str, Any]) -> None:
    with refuses(SchemaError, "missing-column", column="nmae"):
        Schema.of("disease", **named, public="*").check_columns(COLUMNS)


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
    ("columns", "code", "fields"),
    [
        (["age", "disease", "age"], "repeated-column", {"column": "age"}),
        (["age", "", "disease"], "column-without-name", {}),
        (["age", "a\0b", "disease"], "zero-in-column-name", {"column": "a\\x00b"}),
        (["Age", "age", "disease"], "column-names-alike", {"first": "Age", "second": "age"}),
        (["STRASSE", "strasse", "disease"], "column-names-alike", {"first": "STRASSE", "second": "strasse"}),
        (["disease"], "no-public-column", {}),
    ],
)
def test_columns_that_cannot_be_published_are_refused(
    columns: list[str], code: str, fields: dict[str, ErrorField]
) -> None:
    with refuses(SchemaError, code, **fields):
        Schema.of("disease", public="*").check_columns(columns)


@pytest.mark.parametrize("columns", [["age", "", "disease"], ["age", "Age", "disease"], ["age", "a\0", "disease"]])
def test_columns_that_are_left_out_may_have_any_name(columns: list[str]) -> None:
    Schema.of("disease", drop=[columns[1]], public="*").check_columns(columns)


def test_bins_and_a_domain_exclude_each_other() -> None:
    with refuses(SchemaError, "two-domains", column="age", by="domain, ranges"):
        Schema.of("disease", domains={"age": [1]}, ranges={"age": Ranges(("0", "1"))}, public="*")


def test_null_policy_is_read_by_its_name() -> None:
    assert Schema.of("disease", nulls="drop", public="*").nulls is NullPolicy.DROP


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
    ("text", "code", "fields"),
    [
        ("", "too-few-edges", {}),
        ("5", "too-few-edges", {}),
        ("5,", "wrong-edge", {"edge": ""}),
        ("a,b", "wrong-edge", {"edge": "a"}),
        ("nan,1", "wrong-edge", {"edge": "nan"}),
        ("2024-02-30,2025-01-01", "wrong-edge", {"edge": "2024-02-30"}),
        ("2,1", "edges-not-rising", {}),
        ("1,1.0", "edges-not-rising", {}),
        ("2024-01-01T00:00,2024-01-01", "edges-not-rising", {}),
        ("0,2024-01-01", "mixed-edges", {}),
        ("2024-01-01,2024-01-02T00:00+00:00", "mixed-offsets", {}),
    ],
)
def test_edges_that_make_no_bins_are_refused(text: str, code: str, fields: dict[str, ErrorField]) -> None:
    with refuses(SchemaError, code, **fields):
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
    with refuses(SchemaError, "wrong-number-of-fields", file=str(desk / "domain.txt"), line=2):
        read_domain(desk / "domain.txt")


def test_person_column_may_be_in_a_list_of_columns_that_are_not_published() -> None:
    for role in ("identifier", "drop"):
        schema = Schema.of("disease", person="number", **{role: ["number", "name"]}, public="*")  # type: ignore[arg-type]
        assert schema.person_column == "number"
        assert schema.get_role("name") is not Role.PUBLIC
    with pytest.raises(SchemaError, match="give one of the two"):
        Schema.of("disease", person="number", each_row_is_a_person=True, public="*")
