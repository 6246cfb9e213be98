"""Arrow files: damaged ones and those of another kind get one sentence."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import feather

from refusals import refuses
from sfumato._readers.open_table import open_source
from sfumato.errors import SourceError

TABLE = pa.table({"x": list(range(1000)), "y": ["a", "b"] * 500})


@pytest.mark.parametrize("kept", [0, 5, 100, -20])
def test_file_that_was_not_copied_whole_is_refused(kept: int, desk: Path) -> None:
    feather.write_feather(TABLE, desk / "t.feather")
    (desk / "t.feather").write_bytes((desk / "t.feather").read_bytes()[:kept])
    with refuses(SourceError, "damaged-file", file="t.feather"):
        open_source(desk / "t.feather", desk / "spool")


def test_damage_behind_the_head_is_found_while_reading(desk: Path) -> None:
    feather.write_feather(TABLE, desk / "t.feather", compression="zstd")
    content = bytearray((desk / "t.feather").read_bytes())
    content[400:900] = bytes(500)
    (desk / "t.feather").write_bytes(content)
    with refuses(SourceError, "damaged-file", file="t.feather"):
        list(open_source(desk / "t.feather", desk / "spool").read_batches(["x", "y"], 100))


def test_first_version_of_feather_is_named(desk: Path) -> None:
    (desk / "t.feather").write_bytes(b"FEA1" + bytes(100))
    with refuses(SourceError, "older-format", file="t.feather"):
        open_source(desk / "t.feather", desk / "spool")


def test_files_with_other_columns_are_refused(desk: Path) -> None:
    feather.write_feather(TABLE, desk / "1.feather")
    feather.write_feather(TABLE.select(["x"]), desk / "2.feather")
    with refuses(SourceError, "other-columns", file="2.feather", first_file="1.feather"):
        open_source("*.feather", desk / "spool")
