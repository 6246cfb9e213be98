"""JSON lines: types that hold every line, and one sentence for what is none."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refusals import refuses
from sfumato._readers import json_lines
from sfumato._readers.open_table import open_source
from sfumato._readers.read_options import ReadOptions
from sfumato._readers.sources import RowProgress, ignore_rows
from sfumato._readers.type_inference import OVERSIZED
from sfumato.errors import ErrorField, SchemaError, SourceError


def opened(desk: Path, *lines: str, **how: Any) -> pa.Table:
    (desk / "t.jsonl").write_text("\n".join(lines), encoding="utf-8")
    return read(desk / "t.jsonl", **how)


def read(path: Path, told: RowProgress = ignore_rows, **how: Any) -> pa.Table:
    source = open_source(path, path.parent / "spool", read=ReadOptions(**how), row_progress=told)
    return pa.Table.from_batches(source.read_batches(source.schema.names, 3), source.schema)


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ("1 -2 null", pa.int64()),
        ("9223372036854775807 -9223372036854775808", pa.int64()),
        ("1 9223372036854775808", OVERSIZED),
        ("1 2.5", pa.float64()),
        ("true false null", pa.bool_()),
        ('"a" "b"', pa.string()),
        ('"1" "2"', pa.string()),
        ('"2024-01-31" null', pa.date32()),
        ('"2024-01-31" "2024-02-30"', pa.string()),
        ("null null", pa.string()),
    ],
)
def test_column_has_the_type_that_all_lines_have(values: str, kind: pa.DataType, desk: Path) -> None:
    found = opened(desk, *(f'{{"x": {value}}}' for value in values.split()))
    assert found.schema.field("x").type == kind
    expected = [json.loads(value) for value in values.split()]
    if kind == pa.date32():
        expected = [None if value is None else datetime.date.fromisoformat(value) for value in expected]
    assert found.column("x").to_pylist() == expected


@given(rows=st.lists(st.dictionaries(st.sampled_from("abc"), st.none() | st.text(max_size=4)), min_size=1))
def test_texts_come_as_they_were_written(tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, Any]]) -> None:
    if not any(rows):
        return
    desk = tmp_path_factory.mktemp("desk")
    (desk / "t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    found = read(desk / "t.jsonl").to_pylist()
    assert found == [{name: row.get(name) for name in found[0]} for row in rows]


def test_types_are_decided_by_the_last_line_too(desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_lines, "BLOCK_LINES", 2)
    found = opened(desk, '{"x": 1}', '{"x": 2}', '{"x": 3, "y": "late"}', "", '{"x": 0.5}')
    assert found.to_pydict() == {"x": [1.0, 2.0, 3.0, 0.5], "y": [None, None, "late", None]}


def test_marks_are_missing_before_types_are_found(desk: Path) -> None:
    assert opened(desk, '{"x": 1}', '{"x": "?"}', missing=["?"]).column("x").to_pylist() == [1, None]


def test_mixed_column_is_text_on_request(desk: Path) -> None:
    found = opened(desk, '{"x": 1}', '{"x": "V45"}', '{"x": true}', '{"x": 0.5}', text=["x"])
    assert found.column("x").to_pylist() == ["1", "V45", "true", "0.5"]


@pytest.mark.parametrize(
    ("line", "code", "facts"),
    [
        ('{"x": 1', "invalid-line", {"file": "t.jsonl", "line": 2}),
        ("[1, 2]", "invalid-line", {"file": "t.jsonl", "line": 2}),
        ('{"x": NaN}', "invalid-line", {"file": "t.jsonl", "line": 2}),
        ("[" * 100_000, "invalid-line", {"file": "t.jsonl", "line": 2}),
        ('{"x": {"secret": 1}}', "nested-values", {"column": "x", "file": "t.jsonl"}),
        ('{"x": "secret"}', "mixed-types", {"column": "x"}),
    ],
)
def test_line_that_fits_nowhere_is_refused_and_not_repeated(
    line: str, code: str, facts: dict[str, ErrorField], desk: Path
) -> None:
    with refuses(SourceError, code, **facts) as caught:
        opened(desk, '{"x": 1}', line)
    assert "secret" not in str(caught.value)


def test_file_without_a_line_is_refused(desk: Path) -> None:
    with refuses(SchemaError, "empty-table"):
        opened(desk, "")


def test_other_encoding_is_named(desk: Path) -> None:
    (desk / "t.jsonl").write_bytes('{"x": "été"}'.encode("latin-1"))
    with refuses(SourceError, "other-encoding", file="t.jsonl", encoding="utf-8"):
        read(desk / "t.jsonl")
    assert read(desk / "t.jsonl", encoding="latin-1").column("x").to_pylist() == ["été"]


def test_somebody_is_told_how_many_rows_were_read(desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_lines, "BLOCK_LINES", 2)
    told: list[int] = []
    opened(desk, *['{"x": 1}'] * 5, told=told.append)
    assert told == [2, 4, 5, 2, 4, 5]  # to find the types, and to keep the rows


def test_few_long_lines_are_read_as_many_short_ones(desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise thousands of lines of megabytes each would be in memory together."""
    monkeypatch.setattr(json_lines, "BLOCK_SIZE", 20)
    told: list[int] = []
    (desk / "t.jsonl").write_text('{"a": 1}\n{"a": 2}\n{"a": "long enough"}\n{"a": 3}\n')
    with refuses(SourceError, "mixed-types", column="a"):
        json_lines.JsonLines((desk / "t.jsonl",)).open_stream((), told.append)
    assert told == [3, 4]
