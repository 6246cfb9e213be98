"""CSV becomes typed columns without losing anything, and a bad file is refused by its line."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from command_line import write_csv_rows
from refusals import refuses
from sfumato._readers import csv_files as csv_source
from sfumato._readers.csv_files import CsvSource
from sfumato._readers.read_options import ReadOptions
from sfumato._readers.type_inference import MOMENT, OVERSIZED, TIME
from sfumato.errors import ErrorField, SchemaError, SourceError


def opened(folder: Path, written: str, /, **options: Any) -> CsvSource:
    path = folder / "table.csv"
    path.write_text(written, encoding=options.get("encoding", "utf-8"), newline="")
    return CsvSource.open([path], ReadOptions(**options))


def columns(source: CsvSource, batch_rows: int = 1000) -> dict[str, list[Any]]:
    read: dict[str, list[Any]] = {name: [] for name in source.schema.names}
    for batch in source.read_batches(source.schema.names, batch_rows):
        for name, values in batch.to_pydict().items():
            read[name].extend(values)
    return read


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (["1", "-20", "0"], pa.int64()),
        (["1", "", "3"], pa.int64()),
        (["9223372036854775807", "-9223372036854775808"], pa.int64()),
        (["9223372036854775808"], OVERSIZED),
        (["1" * 76], OVERSIZED),
        (["1" * 77], pa.string()),
        (["1" * 30, "0.5"], pa.string()),
        (["1.5", "2", "-3e-2"], pa.float64()),
        (["0.10", "1E5"], pa.float64()),
        (["2024-02-29", "1066-10-14"], pa.date32()),
        (["2024-02-30"], pa.string()),
        (["2024-02-29", "yesterday"], pa.string()),
        (["2024-02-29 12:00", "2024-03-01T07:05:59.25"], TIME),
        (["2024-02-29 12:00Z", "2024-02-29 12:00:01+01:00"], MOMENT),
        (["2024-02-29 12:00", "2024-02-29 12:00Z"], pa.string()),
        (["2024-02-29 24:30"], pa.string()),
        (["2024-02-29", "2024-02-29 12:00"], pa.string()),
        (["29.02.2024", "1.3.1999"], pa.date32()),
        (["29.02.2024 7:05", "01.03.1999 17:05:09"], TIME),
        (["29.02.2023"], pa.string()),
        (["02.29.2024"], pa.string()),
        (["29.02.24"], pa.string()),
        (["29.02/2024"], pa.string()),
        (["01/02/2024", "13/02/2024"], pa.date32()),
        (["01/02/2024", "02/13/2024"], pa.date32()),
        (["13/02/2024", "02/13/2024"], pa.string()),
        (["01/02/2024", "12/12/2024"], pa.string()),
        (["13-02-2024 00:00"], TIME),
        (["2024/02/13"], pa.string()),
        (["007", "7"], pa.string()),
        (["+1"], pa.string()),
        (["-0"], pa.float64()),
        (["1_000"], pa.string()),
        (["1,5"], pa.string()),
        ([" 1"], pa.string()),
        (["0x10"], pa.string()),
        (["nan", "1.5"], pa.string()),
        (["inf"], pa.string()),
        (["true", "false"], pa.string()),
        (["", ""], pa.string()),
        (["1", "one"], pa.string()),
        (["1", "2024-02-29"], pa.string()),
        (["\u0661"], pa.string()),
    ],
    ids=lambda value: ",".join(value)[:24] if isinstance(value, list) else str(value),
)
def test_column_has_the_narrowest_type_that_loses_nothing(values: list[str], kind: pa.DataType, desk: Path) -> None:
    write_csv_rows(desk / "table.csv", [["x", "y"], *([value, "a"] for value in values)])
    assert CsvSource.open([desk / "table.csv"]).schema.field("x").type == kind


@given(st.lists(st.one_of(st.integers(-(2**70), 2**70).map(str), st.text("0123456789.-eE", max_size=6)), min_size=1))
def test_integer_column_prints_as_it_was_written(tmp_path_factory: pytest.TempPathFactory, values: list[str]) -> None:
    path = tmp_path_factory.getbasetemp() / "integers.csv"
    write_csv_rows(path, [["x", "y"], *([value, "a"] for value in values)])
    source = CsvSource.open([path])
    if source.schema.field("x").type in (pa.int64(), OVERSIZED, pa.string()):
        assert ["" if value is None else str(value) for value in columns(source)["x"]] == values


@given(st.lists(st.tuples(st.text(' a"\n\r,;é☕', max_size=5), st.text("a,\n", max_size=3)), min_size=1, max_size=20))
def test_quoted_text_is_read_as_it_was_written(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str]]
) -> None:
    path = tmp_path_factory.getbasetemp() / "quoted.csv"
    write_csv_rows(path, [["x", "y", "z"], *((*row, "end") for row in rows)], quoting=1)
    read = columns(CsvSource.open([path]))
    assert list(zip(read["x"], read["y"], strict=True)) == [tuple(each or None for each in row) for row in rows]


def test_values_have_the_type_of_their_column(desk: Path) -> None:
    source = opened(desk, "i,f,d,s\n1,1.5,2024-02-29,007\n,,,\n")
    assert columns(source) == {
        "i": [1, None],
        "f": [1.5, None],
        "d": [datetime.date(2024, 2, 29), None],
        "s": ["007", None],
    }
    assert source.rows == 2


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("%d.%m.%Y", "{0:%d.%m.%Y}"),
        ("%d/%m/%Y", "{0.day}/{0.month}/{0:%Y}"),
        ("%m/%d/%Y", "{0:%m/%d/%Y}"),
        ("%m-%d-%Y", "{0.month}-{0.day}-{0:%Y}"),
        ("%d.%m.%Y %H:%M", "{0:%d.%m.%Y} {0.hour}:{0:%M}"),
        ("%m/%d/%Y %H:%M:%S", "{0:%m/%d/%Y %H:%M:%S}"),
    ],
)
@given(moments=st.lists(st.datetimes(datetime.datetime(1000, 1, 1)), min_size=1))
def test_dates_and_times_are_read_as_they_are_meant(
    tmp_path_factory: pytest.TempPathFactory, written: str, meant: str, moments: list[datetime.datetime]
) -> None:
    """Python's own reading is the oracle; a day beyond the twelfth says whether the day or the month comes first."""
    path = tmp_path_factory.getbasetemp() / "dates.csv"
    texts = [meant.format(each) for each in [*moments, datetime.datetime(2024, 2, 29)]]
    write_csv_rows(path, [["x", "y"], *([text, "a"] for text in texts)])
    truth = [datetime.datetime.strptime(text, written) for text in texts]
    expected = truth if "%H" in written else [each.date() for each in truth]
    assert columns(CsvSource.open([path]))["x"] == expected


def test_day_that_tells_the_order_may_stand_in_another_file(desk: Path) -> None:
    (desk / "a.csv").write_text("x,y\n01/02/2024,a\n")
    (desk / "b.csv").write_text("x,y\n01/31/2024,b\n")
    read = columns(CsvSource.open([desk / "a.csv", desk / "b.csv"]))
    assert read["x"] == [datetime.date(2024, 1, 2), datetime.date(2024, 1, 31)]


def test_column_is_text_on_request(desk: Path) -> None:
    source = opened(desk, "zip,age\n1010,30\n1020,40\n", text=["zip"])
    assert source.schema.field("zip").type == pa.string()
    assert source.schema.field("age").type == pa.int64()
    assert columns(source)["zip"] == ["1010", "1020"]


def test_quoted_empty_field_is_missing(desk: Path) -> None:
    assert columns(opened(desk, 'x,y\n"",a\n,b\n'))["x"] == [None, None]


def test_mark_is_missing_quoted_or_not_before_types_are_found(desk: Path) -> None:
    source = opened(desk, 'x,y,z\n1,?,"?"\n"?",a?,2024-02-29\n', missing=["?"])
    assert source.schema.types == [pa.int64(), pa.string(), pa.date32()]
    assert columns(source) == {"x": [1, None], "y": [None, "a?"], "z": [None, datetime.date(2024, 2, 29)]}


def test_mark_is_read_in_the_encoding_of_the_file(desk: Path) -> None:
    assert columns(opened(desk, "x,y\n1,ä\nfällt,ö\n", encoding="latin-1", missing=["fällt"]))["x"] == [1, None]


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_separator_is_found_in_the_header(delimiter: str, desk: Path) -> None:
    source = opened(desk, f"x{delimiter}y\n1{delimiter}a\n")
    assert source.delimiter == delimiter
    assert columns(source) == {"x": [1], "y": ["a"]}


def test_separator_inside_quotes_belongs_to_a_name(desk: Path) -> None:
    source = opened(desk, '"one, two, three";"say ""hi, there"""\n1;a\n')
    assert source.delimiter == ";"
    assert columns(source) == {"one, two, three": [1], 'say "hi, there"': ["a"]}


@pytest.mark.parametrize("note", ["sep=;", "SEP=,", '"sep=;"', "sep=\t"])
def test_note_for_excel_names_no_columns(note: str, desk: Path) -> None:
    with refuses(SourceError, "note-for-excel", file="table.csv"):
        opened(desk, f"{note}\r\nx;y\r\n1;a\r\n")


def test_name_may_hold_a_line_break(desk: Path) -> None:
    assert columns(opened(desk, '"age\nin years",sex\n30,F\n')) == {"age\nin years": [30], "sex": ["F"]}


@pytest.mark.parametrize("header", ["x,y", '"x","y"'])
def test_byte_order_mark_is_no_part_of_a_name(header: str, desk: Path) -> None:
    source = opened(desk, f"\ufeff{header}\n1,a\n")
    assert columns(source) == {"x": [1], "y": ["a"]}


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "latin-1", "cp1252"])
def test_encoding_is_the_one_named(encoding: str, desk: Path) -> None:
    assert columns(opened(desk, "größe,y\nß,a\n", encoding=encoding)) == {"größe": ["ß"], "y": ["a"]}


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_lines_may_end_either_way_and_be_blank(ending: str, desk: Path) -> None:
    text = ending.join(["x,y", "1,a", "", "2,b", "", ""])
    assert columns(opened(desk, text)) == {"x": [1, 2], "y": ["a", "b"]}


# ------------------------------------------------------------------------------------------------------------ in pieces


@pytest.mark.parametrize("batch_rows", [1, 3, 1000])
def test_blocks_and_batches_do_not_matter(batch_rows: int, desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [[row, f"value\n{row % 7}", 2.5 if row == 90 else row % 3] for row in range(100)]
    write_csv_rows(desk / "table.csv", [["x", "y", "z"], *rows])
    whole = CsvSource.open([desk / "table.csv"])
    monkeypatch.setattr(csv_source, "BLOCK_BYTES", 64)
    pieces = CsvSource.open([desk / "table.csv"])
    assert pieces == whole
    assert pieces.schema.field("z").type == pa.float64()
    assert (
        columns(pieces, batch_rows)
        == columns(whole)
        == dict(zip("xyz", map(list, zip(*rows, strict=True)), strict=True))
    )
    assert all(batch.num_rows <= batch_rows for batch in pieces.read_batches(["x"], batch_rows))


def test_type_is_decided_by_all_files(desk: Path) -> None:
    (desk / "a.csv").write_text("x,y\n1,a\n")
    (desk / "b.csv").write_text("x,y\n007,b\n")
    source = CsvSource.open([desk / "a.csv", desk / "b.csv"])
    assert columns(source) == {"x": ["1", "007"], "y": ["a", "b"]}
    assert source.rows == 2


@pytest.mark.parametrize("other", ["y,x\n1,2\n", "x,y,z\n1,2,3\n", "x;y\n1;2\n"])
def test_files_with_different_headers_are_refused(other: str, desk: Path) -> None:
    (desk / "a.csv").write_text("x,y\n1,a\n")
    (desk / "b.csv").write_text(other)
    with refuses(SourceError, "other-columns", file="b.csv", first_file="a.csv"):
        CsvSource.open([desk / "a.csv", desk / "b.csv"])


def test_selected_columns_come_in_the_order_asked(desk: Path) -> None:
    source = opened(desk, "x,y,z\n1,a,2.5\n")
    (batch,) = source.read_batches(["z", "x"], 10)
    assert batch.to_pydict() == {"z": [2.5], "x": [1]}


def test_repeated_name_is_refused(desk: Path) -> None:
    with refuses(SchemaError, "repeated-column", column="x"):
        opened(desk, "x,y,x\n1,2,3\n")


# ------------------------------------------------------------------------------------------------------- changing files


@pytest.mark.parametrize(
    ("changed", "code", "facts"),
    [
        ("x,y\none,a\n", "table-changed", {"column": "x"}),
        ("x,y\n1,a,b\n", "wrong-number-of-fields", {"file": "table.csv", "line": 2, "fields": 3, "columns": 2}),
        ("x,z\n1,a\n", "damaged-file", {"file": "table.csv"}),
    ],
)
def test_file_that_changed_is_refused_at_the_second_reading(
    changed: str, code: str, facts: dict[str, ErrorField], desk: Path
) -> None:
    source = opened(desk, "x,y\n1,a\n")
    (desk / "table.csv").write_text(changed)
    with refuses(SourceError, code, **facts):
        columns(source)


def test_file_that_is_gone_is_refused_at_the_second_reading(desk: Path) -> None:
    source = opened(desk, "x,y\n1,a\n")
    (desk / "table.csv").unlink()
    with refuses(SourceError, "unreadable-file", file="table.csv", reason="No such file or directory"):
        columns(source)


def test_fingerprint_tells_other_bytes(desk: Path) -> None:
    one = opened(desk, "x,y\n1,a\n").compute_fingerprint()
    assert opened(desk, "x,y\n1,a\n").compute_fingerprint() == one
    assert opened(desk, "x,y\n1,b\n").compute_fingerprint() != one
