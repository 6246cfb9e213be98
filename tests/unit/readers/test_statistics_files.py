"""Files of SPSS, Stata and SAS: what is published of labels, missing codes, dates and texts; and damaged files.

Every file is written by pyreadstat, which reads them too; what is expected is what the packages themselves would show.
"""

from __future__ import annotations

import datetime
import io
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyreadstat
import pytest

from refusals import refuses
from sfumato._readers import statistics_files
from sfumato._readers.open_table import open_source
from sfumato._readers.read_options import ReadOptions
from sfumato._readers.sources import Source
from sfumato.errors import MissingExtraError, SourceError

pytestmark = pytest.mark.slow

WRITERS: dict[str, Callable[..., None]] = {
    ".sav": pyreadstat.write_sav,
    ".zsav": lambda *given, **options: pyreadstat.write_sav(*given, compress=True, **options),
    ".dta": pyreadstat.write_dta,
    ".xpt": pyreadstat.write_xport,
}
LABELLED = (".sav", ".zsav", ".dta")


def write(desk: Path, ending: str, columns: dict[str, Any], **options: Any) -> Path:
    path = desk / f"people{ending}"
    WRITERS[ending](pd.DataFrame(columns), path, **options)
    return path


def opened(path: Path | str, **how: Any) -> Source:
    return open_source(path, Path(path).absolute().parent / "spool", read=ReadOptions(**how))


def table(path: Path | str, **how: Any) -> pa.Table:
    source = opened(path, **how)
    return pa.Table.from_batches(source.read_batches(source.schema.names, 1000), source.schema)


@pytest.mark.parametrize("ending", WRITERS)
def test_numbers_dates_and_texts_are_read_as_such(ending: str, desk: Path) -> None:
    day, moment = datetime.date(1999, 12, 31), datetime.datetime(2024, 2, 29, 23, 59, 58)
    columns = {
        "whole": [1.0, 2.0, np.nan],
        "half": [0.5, 2.0, np.nan],
        "nothing": [np.nan] * 3,
        "day": [day, datetime.date(1900, 1, 1), None],
        "moment": [moment, moment, None],
        "text": ["a", "ä b  ", ""],
    }
    read = table(write(desk, ending, columns))
    assert read.schema.types == [
        pa.int64(),
        pa.float64(),
        pa.int64(),
        pa.date32(),
        pa.timestamp("us"),
        pa.string(),
    ]
    assert read.to_pydict() == {
        "whole": [1, 2, None],
        "half": [0.5, 2.0, None],
        "nothing": [None] * 3,
        "day": [day, datetime.date(1900, 1, 1), None],
        "moment": [moment, moment, None],
        "text": ["a", "ä b", None],
    }


@pytest.mark.parametrize("ending", LABELLED)
def test_labels_are_the_values_and_codes_without_one_stay(ending: str, desk: Path) -> None:
    path = write(desk, ending, {"sex": [1, 2, 3, 1]}, variable_value_labels={"sex": {1: "female", 2: " male ", 3: " "}})
    assert table(path)["sex"].to_pylist() == ["female", "male", "3", "female"]


@pytest.mark.parametrize("ending", LABELLED)
def test_codes_that_share_a_label_stay_apart(ending: str, desk: Path) -> None:
    labels = {1: "other", 2: "other", 3: "flu"}
    path = write(desk, ending, {"disease": [1, 2, 3]}, variable_value_labels={"disease": labels})
    assert table(path)["disease"].to_pylist() == ["other [1]", "other [2]", "flu"]


def test_label_that_reads_like_another_code_stays_apart(desk: Path) -> None:
    """Code 1 is labelled `2`, and a record has the code 2, which has no label."""
    labels = {"x": {1: "2", 3: "7"}}
    path = write(desk, ".sav", {"x": [1, 2, 3]}, variable_value_labels=labels)
    assert table(path)["x"].to_pylist() == ["2 [1]", "2", "7"]


def test_labels_of_texts_are_the_values(desk: Path) -> None:
    labels = {"ward": {"A": "surgery", "B": "C"}}
    path = write(desk, ".sav", {"ward": ["A", "B", "C", "A"]}, variable_value_labels=labels)
    assert table(path)["ward"].to_pylist() == ["surgery", "C [B]", "C", "surgery"]


def test_declared_missing_codes_of_spss_are_missing(desk: Path) -> None:
    columns = {"age": [40, 97, 98, 99], "word": ["a", "NA", "b", "c"], "sex": [1, 2, 9, 1]}
    missing = {"age": [{"lo": 97, "hi": 98}, 99], "word": ["NA"], "sex": [9]}
    labels = {"age": {97: "refused", 99: "unknown"}, "sex": {1: "female", 2: "male", 9: "no answer"}}
    read = table(write(desk, ".sav", columns, missing_ranges=missing, variable_value_labels=labels))
    assert read.to_pydict() == {
        "age": [40, None, None, None],  # its labels are those of missing codes alone: it stays a number
        "word": ["a", None, "b", "c"],
        "sex": ["female", "male", None, "female"],
    }


def test_letters_for_missing_values_of_stata_are_missing(desk: Path) -> None:
    columns = {"age": pd.Series([40.0, "a", "z", np.nan], dtype=object)}
    path = write(
        desk,
        ".dta",
        columns,
        missing_user_values={"age": ["a", "z"]},
        variable_value_labels={"age": {"a": "refused"}},
    )
    assert table(path)["age"].to_pylist() == [40, None, None, None]


def test_times_of_day_are_texts(desk: Path) -> None:
    times = [datetime.time(1, 2, 3), datetime.time(23, 0, 0)]
    for ending in (".sav", ".xpt"):
        assert table(write(desk, ending, {"at": times}))["at"].to_pylist() == ["01:02:03", "23:00:00"]


def test_column_named_as_text_is_text(desk: Path) -> None:
    path = write(desk, ".sav", {"zip": [8001.0, 8002.0], "half": [0.5, 1.0]})
    assert table(path, text=("zip", "half")).to_pydict() == {"zip": ["8001", "8002"], "half": ["0.5", "1"]}


def test_marked_texts_and_labels_are_missing(desk: Path) -> None:
    path = write(desk, ".sav", {"x": [1, 2], "y": ["a", "?"]}, variable_value_labels={"x": {1: "yes", 2: "refused"}})
    assert table(path, missing=("?", "refused")).to_pydict() == {"x": ["yes", None], "y": ["a", None]}


def test_dates_beyond_the_calendar_are_refused_without_their_values(desk: Path) -> None:
    path = write(desk, ".dta", {"d": [5e6, 1.0]}, variable_format={"d": "%td"})
    with refuses(SourceError, "dates-out-of-range", column="d"):
        opened(path)


@pytest.mark.parametrize("ending", WRITERS)
@pytest.mark.parametrize("rows", [1, 8, 9])
def test_chunks_give_the_rows_of_the_file(ending: str, rows: int, desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statistics_files, "BATCH_CELLS", 8)  # four rows of two columns
    columns = {"x": list(range(rows)), "s": [f"t{row}" for row in range(rows)]}
    assert table(write(desk, ending, columns)).to_pydict() == columns


@pytest.mark.parametrize("ending", [".sav", ".dta", ".xpt"])
def test_table_without_rows_has_its_columns(ending: str, desk: Path) -> None:
    path = write(desk, ending, {"x": pd.Series([], dtype=float)})
    source = opened(path)
    assert (source.rows, source.schema.names) == (0, ["x"])


@pytest.mark.parametrize("ending", WRITERS)
def test_files_come_by_standard_input(ending: str, desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(desk, ending, {"x": [1, 2], "s": ["a", "b"]})

    class Piped:
        buffer = io.BytesIO(path.read_bytes())

        def isatty(self) -> bool:
            return False

    monkeypatch.setattr(sys, "stdin", Piped())
    source = open_source("-", desk / "spool")
    (batch,) = source.read_batches(["x", "s"], 10)
    assert batch.to_pydict() == {"x": [1, 2], "s": ["a", "b"]}


def test_file_says_its_encoding_and_may_be_corrected(desk: Path) -> None:
    """A file of SPSS in cp1252 that says it is UTF-8, as some programs write them."""
    path = write(desk, ".sav", {"ort": ["Zurich"] * 3})
    content = path.read_bytes()
    assert b"Zurich" in content
    path.write_bytes(content.replace(b"Zurich", "Zürich".encode("cp1252")))
    with refuses(SourceError, "other-encoding", file="people.sav"):
        opened(path)
    assert table(path, encoding="cp1252")["ort"].to_pylist() == ["Zürich"] * 3


@pytest.mark.parametrize("ending", WRITERS)
def test_damaged_files_give_one_sentence_and_leave_nothing(ending: str, desk: Path) -> None:
    source = random.Random(7)
    path = write(desk, ending, {"secret": [3.5, 2.5] * 200, "name": ["Doe", "Roe"] * 200})
    whole = path.read_bytes()
    noise = bytearray(whole)
    for place in range(200, len(noise), 3):
        noise[place] = source.randrange(256)
    for content in (b"", b"x" * 500, whole[: len(whole) // 240 * 80 + 7], whole[:150], bytes(noise)):
        path.write_bytes(content)
        with pytest.raises(SourceError) as refused:
            opened(path)
        assert "people" in str(refused.value)
        assert not {"Doe", "Roe", "3.5"} & set(str(refused.value).split())
        assert sorted(each.name for each in desk.iterdir()) == [path.name]


def test_file_of_stata_without_its_labels_is_refused(desk: Path) -> None:
    """Labels stand at the end: a file that is cut off there has all rows, and the library takes it for whole."""
    labels = {"sex": {1: "female", 2: "male"}}
    path = write(desk, ".dta", {"sex": [1, 2, 1]}, variable_value_labels=labels)
    whole = path.read_bytes()
    path.write_bytes(whole[: whole.index(b"<value_labels>") + 20])
    with refuses(SourceError, "damaged-file", file="people.dta"):
        opened(path)


def test_worker_that_is_ended_by_the_system_is_a_damaged_file(desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some damaged files end the library's process; here it ends itself the same way, in the middle of its rows."""
    path = write(desk, ".sav", {"x": [1.0, 2.0]})
    started = statistics_files.WORKER_CODE
    for crash in (
        "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)",
        started.replace(
            "main()",
            "_leave_no_core; import os, signal; import sfumato._readers.statistics_worker as w; "
            "w._Table.read_batches = lambda *given: os.kill(os.getpid(), signal.SIGSEGV); w.main()",
        ),
    ):
        monkeypatch.setattr(statistics_files, "WORKER_CODE", crash)
        with refuses(SourceError, "damaged-file", file="people.sav"):
            opened(path)
        assert sorted(each.name for each in desk.iterdir()) == [path.name]


def test_library_that_is_not_installed_is_named(desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(desk, ".sav", {"x": [1.0, 2.0]})
    lacking = statistics_files.WORKER_CODE.replace(
        "import json, sys;", "import json, sys; sys.modules['pyreadstat'] = None;"
    )
    monkeypatch.setattr(statistics_files, "WORKER_CODE", lacking)
    with refuses(MissingExtraError, "missing-package", extra="statistics"):
        opened(path)


def test_transport_file_of_several_data_sets_is_refused(desk: Path) -> None:
    path = write(desk, ".xpt", {"x": [1.0, 2.0]})
    content = path.read_bytes()
    members = content.index(b"HEADER RECORD*******MEMB")
    path.write_bytes(content + content[members:])
    with refuses(SourceError, "several-tables", file="people.xpt"):
        opened(path)


def test_several_files_at_once_are_refused(desk: Path) -> None:
    for name in ("a.sav", "b.sav"):
        pyreadstat.write_sav(pd.DataFrame({"x": [1.0]}), desk / name)
    with refuses(SourceError, "several-files"):
        opened(str(desk / "*.sav"))
