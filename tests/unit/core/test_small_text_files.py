"""Small CSV files of the user's: read in one way, and refused in one sentence that names the file."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refusals import refuses
from sfumato._core.small_text_files import LONGEST_VALUE, match_to_domain, read_csv_lines, read_value_entries
from sfumato.errors import QueryError, SchemaError, SfumatoError, SpecError

UNLIKE = "'caps.csv' must have the columns value, cap."


def written(text: str | bytes) -> Path:
    """A file in the working directory."""
    path = Path("caps.csv")
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


# --------------------------------------------------------------------------------------------------------------- lines


@pytest.mark.parametrize("mark", ["", "\ufeff"], ids=["plain", "with a mark of the order of bytes"])
@pytest.mark.parametrize("end", ["\n", "\r\n"], ids=["unix", "windows"])
def test_lines_are_those_of_a_csv(desk: Path, mark: str, end: str) -> None:
    path = written(mark + end.join(["value,cap", '"cold, common",1/2', "", '"say ""é""",', "last,1"]))
    assert read_csv_lines(path, SpecError, UNLIKE) == [
        ["value", "cap"],
        ["cold, common", "1/2"],
        [],
        ['say "é"', ""],
        ["last", "1"],
    ]


def test_field_may_hold_a_line_break(desk: Path) -> None:
    assert read_csv_lines(written('value,cap\n"a\nb",1\n'), SpecError, UNLIKE)[1] == ["a\nb", "1"]


def test_empty_file_has_no_lines(desk: Path) -> None:
    assert read_csv_lines(written(""), SpecError, UNLIKE) == []


@pytest.mark.parametrize("wrong", [SpecError, SchemaError, QueryError])
@pytest.mark.parametrize(("what", "named"), [("", "'caps.csv'"), ("the domain file", "the domain file 'caps.csv'")])
def test_file_that_cannot_be_read_is_named_by_what_it_should_be(
    desk: Path, wrong: type[SfumatoError], what: str, named: str
) -> None:
    with refuses(wrong, "unreadable-file", file="caps.csv", reason="No such file or directory") as caught:
        read_csv_lines(Path("caps.csv"), wrong, UNLIKE, what)
    assert str(caught.value).startswith(f"{named} ")
    Path("caps.csv").mkdir()
    with refuses(wrong, "unreadable-file", file="caps.csv", reason="Is a directory"):
        read_csv_lines(Path("caps.csv"), wrong, UNLIKE, what)


def test_file_in_another_encoding_is_refused(desk: Path) -> None:
    with refuses(SchemaError, "other-encoding", file="caps.csv"):
        read_csv_lines(written("é".encode("latin-1")), SchemaError, UNLIKE, "the domain file")


def test_file_that_is_no_csv_is_refused_with_the_sentence_of_the_reader(desk: Path) -> None:
    """A quote that is never closed makes one field of all the rest; other libraries may have lifted the limit."""
    limit = csv.field_size_limit(1000)
    try:
        with refuses(QueryError, "wrong-file-format", file="caps.csv"):
            read_csv_lines(written('value\n"' + "x" * 1001), QueryError, "check its quotes.")
    finally:
        csv.field_size_limit(limit)


# -------------------------------------------------------------------------------------------------- values with columns


def test_each_value_has_what_stands_beside_it(desk: Path) -> None:
    path = written('note,cap,value\nrare,1/3,HIV\n\n,1,"cold, common"\n,1/2,\n')
    assert read_value_entries(path, ("cap",)) == {
        "HIV": {"cap": "1/3"},
        "cold, common": {"cap": "1"},
        None: {"cap": "1/2"},
    }
    assert list(read_value_entries(path, ("cap", "note"))["HIV"]) == ["cap", "note"]


def test_semicolons_and_capital_letters_in_the_header_do_not_matter(desk: Path) -> None:
    assert read_value_entries(written("Value; CAP\nflu, mild;1/3\n"), ("cap",)) == {"flu, mild": {"cap": "1/3"}}
    assert read_value_entries(written("value,cap\nflu; mild,1/3\n"), ("cap",)) == {"flu; mild": {"cap": "1/3"}}
    assert read_csv_lines(written("flu; mild\n"), SpecError, UNLIKE, is_list=True) == [["flu; mild"]]


def test_fields_beyond_the_header_do_not_matter(desk: Path) -> None:
    assert read_value_entries(written("value,cap\nHIV,1/3,more\n"), ("cap",)) == {"HIV": {"cap": "1/3"}}


@pytest.mark.parametrize(
    "text",
    [
        "disease,cap\nHIV,1/3\n",
        "value\nHIV\n",
        "value,cap\nHIV\n",
        "\nvalue,cap\nHIV,1/3\n",
        f"value,cap\n{'x' * (LONGEST_VALUE + 1)},1/3\n",
        'value,cap\n"HIV,1/3\nflu,1/2' + "\ncold,1/2" * 200,
    ],
    ids=["another name", "no cap", "short line", "blank first", "long value", "open quote"],
)
def test_file_without_these_columns_is_refused(desk: Path, text: str) -> None:
    with refuses(SpecError, "wrong-file-format", file="caps.csv"):
        read_value_entries(written(text), ("cap",))


def test_longest_value_is_read(desk: Path) -> None:
    assert read_value_entries(written(f"value,cap\n{'x' * LONGEST_VALUE},1/3\n"), ("cap",)) == {
        "x" * 1000: {"cap": "1/3"}
    }


@pytest.mark.parametrize("value", ["HIV", ""])
def test_value_that_comes_twice_is_refused(desk: Path, value: str) -> None:
    with refuses(SpecError, "repeated-value", file="caps.csv"):
        read_value_entries(written(f"value,cap\n{value},1/3\nflu,1\n{value},1/3\n"), ("cap",))


@pytest.mark.parametrize("text", ["", "value,cap\n", "value,cap\n\n\n"], ids=["empty", "header", "blank lines"])
def test_file_without_a_value_is_refused(desk: Path, text: str) -> None:
    with refuses(SpecError, "no-values", file="caps.csv"):
        read_value_entries(written(text), ("cap",))


# -------------------------------------------------------------------------------------------------------------- matched


def test_values_are_matched_by_themselves_or_by_their_text() -> None:
    assert match_to_domain({"3": "three", "True": "yes", None: "gone"}, [3, True, None, "x"], "cap") == (
        "three",
        "yes",
        "gone",
        None,
    )
    assert match_to_domain({3: "number", "3": "text"}, [3, "3"], "cap") == ("number", "text")


def test_missing_value_is_no_text() -> None:
    with refuses(SpecError, "value-outside-domain", what="cap", values=1):
        match_to_domain({"(missing)": 1}, [None], "cap")


def test_values_outside_the_domain_are_named_three_at_most() -> None:
    with refuses(SpecError, "value-outside-domain", what="bound", values=4) as caught:
        match_to_domain(dict.fromkeys("dcbax", 1), ["x"], "bound")
    assert [value for value in "abcdx" if f"'{value}'" in str(caught.value)] == ["a", "b", "c"]


@given(st.dictionaries(st.text("abc", max_size=2), st.integers()), st.lists(st.text("abc", max_size=2), unique=True))
def test_texts_are_matched_as_a_dictionary_does(given_: dict[Any, int], values: list[Any]) -> None:
    if given_.keys() <= set(values):
        assert match_to_domain(given_, values, "cap") == tuple(map(given_.get, values))
    else:
        with pytest.raises(SpecError):
            match_to_domain(given_, values, "cap")
