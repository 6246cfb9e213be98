"""Hierarchies: what is read, what is refused, and where each value lies."""

from __future__ import annotations

from pathlib import Path

import pytest

from sfumato._request.hierarchy import Hierarchy
from sfumato._request.histogram import Histogram
from sfumato.errors import SchemaError

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
    ("text", "said"),
    [
        ("code\nJ10\n", "at least two levels"),
        ("code,Code\nJ10,lungs\n", "at least two levels"),
        ("code,chapter\nJ10\n", r"^line 2 of the hierarchy .* Give 'J10' a group at every level"),
        ("code,chapter\n\nJ10,\n", r"^line 3 of .* has an empty group for 'J10'"),
        ("code,chapter\nJ10,lungs\nJ10,mind\n", r"^line 3 of .* names 'J10' again, with other groups than line 2"),
        ("code,chapter\n,lungs\n,mind\n", r"^line 3 of .* names '\(missing\)' again"),
        ("code,chapter\nJ10,lungs\nJ45,Lungs\n", r"^line 3 of .* the group 'Lungs' beside 'lungs'"),
        ("code,chapter\nJ10,the lungs\nJ45,the  lungs\n", "the group 'the  lungs' beside 'the lungs'"),
        ("code,chapter,\nJ10,lungs,\n", "column 3 of the hierarchy .* has no name"),
        ("code,chapter,part\nJ10,lungs,body\nJ45,lungs,mind\n", "chapter 'lungs' lies in two groups of part"),
        ("", "has no first line that names the levels"),
        ("\nJ10,lungs\n", "has no first line that names the levels"),
    ],
)
def test_wrong_file_is_refused(text: str, said: str, tmp_path: Path) -> None:
    file = tmp_path / "codes.csv"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(SchemaError, match=said):
        Hierarchy.read(file)


@pytest.mark.parametrize(
    ("paths", "said"),
    [([("J10", "")], "'J10' of the hierarchy has an empty group"), ([("J10", "a"), ("J10", "a")], "names 'J10' twice")],
)
def test_wrong_value_is_named(paths: list[tuple[str, str]], said: str) -> None:
    with pytest.raises(SchemaError, match=said):
        Hierarchy.of(("code", "chapter"), paths)


def test_unknown_level_is_refused_with_those_there_are() -> None:
    with pytest.raises(SchemaError, match="code, chapter, part"):
        CODES.find_level("block")


def test_histogram_has_the_values_of_its_hierarchy() -> None:
    with pytest.raises(SchemaError, match="other values"):
        Histogram(("J10", "F32"), (1, 2), hierarchy=CODES)
