"""Hierarchies: what is read, what is refused, and where each value lies."""

from __future__ import annotations

from pathlib import Path

import pytest

from refusals import refuses
from sfumato._request.hierarchy import Hierarchy
from sfumato._request.histogram import Histogram
from sfumato.errors import ErrorField, SchemaError

CODES = Hierarchy.of(
    ("code", "chapter", "part"),
    [("J10", "lungs", "body"), ("F32", "mind", "mind"), ("J45", "lungs", "body"), (None, None, None)],
)


def test_groups_are_in_the_order_in_which_values_name_them() -> None:
    assert CODES.domain == ("J10", "F32", "J45", None)
    assert CODES.list_groups(1) == ("lungs", "mind", None)
    assert CODES.list_group_places(1) == (0, 1, 0, 2)
    assert CODES.find_level("Chapter") == 1


def test_what_lies_above_a_level_is_a_hierarchy_of_its_groups() -> None:
    above = CODES.start_at(1)
    assert above == Hierarchy.of(("chapter", "part"), [("lungs", "body"), ("mind", "mind"), (None, None)])
    assert CODES.start_at(2) is None


def test_written_and_read_back_it_is_the_same() -> None:
    assert Hierarchy.from_json(CODES.to_json()) == CODES


def test_file_names_its_levels(tmp_path: Path) -> None:
    file = tmp_path / "codes.csv"
    file.write_text("code,chapter\nJ10,lungs\nF32,mind\n,unknown\n", encoding="utf-8")
    found = Hierarchy.of(("code", "chapter"), [("J10", "lungs"), ("F32", "mind"), (None, "unknown")])
    assert Hierarchy.read(file) == found


@pytest.mark.parametrize(
    "text",
    [
        "code , chapter\n J10, lungs \nF32,mind\n",
        "code;chapter\nJ10;lungs\nF32;mind\n",
        "code,chapter\nJ10,lungs\n,\n\nF32,mind\n , \n",
        "code,chapter\nJ10,lungs\nF32,mind\nJ10,lungs\n",
    ],
    ids=["spaces", "semicolons", "empty lines", "a line again"],
)
def test_what_says_nothing_does_not_matter_in_a_file(text: str, tmp_path: Path) -> None:
    file = tmp_path / "codes.csv"
    file.write_text(text, encoding="utf-8")
    assert Hierarchy.read(file) == Hierarchy.of(("code", "chapter"), [("J10", "lungs"), ("F32", "mind")])


@pytest.mark.parametrize(
    ("text", "code", "fields"),
    [
        ("code\nJ10\n", "too-few-levels", {}),
        ("code,Code\nJ10,lungs\n", "too-few-levels", {}),
        ("code,chapter\nJ10\n", "wrong-number-of-fields", {"line": 2}),
        ("code,chapter\n\nJ10,\n", "value-without-group", {"line": 3}),
        ("code,chapter\nJ10,lungs\nJ10,mind\n", "repeated-value", {"line": 3, "first": 2}),
        ("code,chapter\n,lungs\n,mind\n", "repeated-value", {"line": 3, "first": 2}),
        ("code,chapter\nJ10,lungs\nJ45,Lungs\n", "groups-spelled-alike", {"line": 3}),
        ("code,chapter\nJ10,the lungs\nJ45,the  lungs\n", "groups-spelled-alike", {"line": 3}),
        ("code,chapter,\nJ10,lungs,\n", "level-without-name", {"position": 3}),
        (
            "code,chapter,part\nJ10,lungs,body\nJ45,lungs,mind\n",
            "group-in-two-groups",
            {"level": "chapter", "above": "part"},
        ),
        ("", "no-level-names", {}),
        ("\nJ10,lungs\n", "no-level-names", {}),
    ],
)
def test_wrong_file_is_refused(text: str, code: str, fields: dict[str, ErrorField], tmp_path: Path) -> None:
    file = tmp_path / "codes.csv"
    file.write_text(text, encoding="utf-8")
    with refuses(SchemaError, code, **fields):
        Hierarchy.read(file)


@pytest.mark.parametrize(
    ("paths", "code"),
    [([("J10", "")], "value-without-group"), ([("J10", "a"), ("J10", "a")], "repeated-value")],
)
def test_wrong_value_is_refused(paths: list[tuple[str, str]], code: str) -> None:
    with refuses(SchemaError, code):
        Hierarchy.of(("code", "chapter"), paths)


def test_unknown_level_is_refused_with_those_there_are() -> None:
    with refuses(SchemaError, "unknown-level", level="block", known="code, chapter, part"):
        CODES.find_level("block")


def test_histogram_has_the_values_of_its_hierarchy() -> None:
    with refuses(SchemaError, "hierarchy-of-other-domain"):
        Histogram(("J10", "F32"), (1, 2), hierarchy=CODES)
