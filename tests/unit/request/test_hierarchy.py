"""Hierarchies: what is read, what is refused, and where each value lies."""

from __future__ import annotations

from pathlib import Path

import pytest

from sfumato.errors import SchemaError
from sfumato.request.hierarchy import Hierarchy
from sfumato.request.histogram import Histogram

CODES = Hierarchy.of(
    ("code", "chapter", "part"),
    [("J10", "lungs", "body"), ("F32", "mind", "mind"), ("J45", "lungs", "body"), (None, None, None)],
)


def test_groups_are_in_the_order_in_which_values_name_them() -> None:
    assert CODES.domain == ("J10", "F32", "J45", None)
    assert CODES.groups(1) == ("lungs", "mind", None)
    assert CODES.places(1) == (0, 1, 0, 2)
    assert CODES.number("Chapter") == 1


def test_what_lies_above_a_level_is_a_hierarchy_of_its_groups() -> None:
    above = CODES.above(1)
    assert above == Hierarchy.of(("chapter", "part"), [("lungs", "body"), ("mind", "mind"), (None, None)])
    assert CODES.above(2) is None


def test_written_and_read_back_it_is_the_same() -> None:
    assert Hierarchy.from_json(CODES.to_json()) == CODES


def test_file_names_its_levels(tmp_path: Path) -> None:
    file = tmp_path / "codes.csv"
    file.write_text("code,chapter\nJ10,lungs\nF32,mind\n,\n", encoding="utf-8")
    assert Hierarchy.read(file) == Hierarchy.of(("code", "chapter"), [("J10", "lungs"), ("F32", "mind"), (None, None)])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("code\nJ10\n", "at least two levels"),
        ("code,Code\nJ10,lungs\n", "at least two levels"),
        ("code,chapter\nJ10\n", "'J10' has not a group at every level"),
        ("code,chapter\nJ10,\n", "empty group"),
        ("code,chapter\nJ10,lungs\nJ10,mind\n", "twice"),
        ("code,chapter,part\nJ10,lungs,body\nJ45,lungs,mind\n", "chapter 'lungs' lies in two groups of part"),
        ("", "at least two levels"),
    ],
)
def test_wrong_file_is_refused(text: str, said: str, tmp_path: Path) -> None:
    file = tmp_path / "codes.csv"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(SchemaError, match=said):
        Hierarchy.read(file)


def test_unknown_level_is_refused_with_those_there_are() -> None:
    with pytest.raises(SchemaError, match="code, chapter, part"):
        CODES.number("block")


def test_histogram_has_the_values_of_its_hierarchy() -> None:
    with pytest.raises(SchemaError, match="other values"):
        Histogram(("J10", "F32"), (1, 2), hierarchy=CODES)
