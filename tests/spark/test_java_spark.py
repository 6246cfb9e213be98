"""Spark itself: workers are processes of their own, which get everything that they know."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from engine_inputs import INPUTS, ROWS, every_type
from refusals import refuses
from releases import known_key
from sfumato import EngineError, MissingExtraError, Release, SparkEngine, publish
from sfumato._core import spark_tasks
from spark_files import check_files
from spark_tables import (
    Bundles,
    DiesOnce,
    Failing,
    UnluckyEngine,
    asked,
    content,
    publish_secretly,
    released,
    saved,
    secrets_in,
)

pytestmark = [  # what the Spark before this one does, not we
    pytest.mark.filterwarnings(f"ignore:{words}")
    for words in (
        "distutils:DeprecationWarning",
        "unclosed <socket:ResourceWarning",
        ":pytest.PytestUnraisableExceptionWarning",
    )
]
GIVEN = INPUTS["every type"]
HAS_CONNECT = find_spec("grpc") is not None
IS_CONNECT = bool(os.environ.get("SFUMATO_TEST_CONNECT"))


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A table of several pieces."""
    return saved(every_type(), tmp_path / "people.parquet", 34)


@pytest.mark.parametrize("mechanism", ["uniform", "buckets"])
def test_files_are_published_in_the_same_bytes(mechanism: str, java: Any, table: Path, tmp_path: Path) -> None:
    request = asked(GIVEN, str(table), mechanism)
    here = released(request, tmp_path / "here")
    assert released(request, tmp_path / "there", SparkEngine(java, 34)) == here


def test_frame_and_its_name_are_published_alike(java: Any, table: Path, tmp_path: Path) -> None:
    frame = java.read.parquet(str(table))
    frame.createOrReplaceTempView("people")
    assert released(asked(GIVEN, frame, "uniform"), tmp_path / "frame") == released(
        asked(GIVEN, "spark:people", "uniform"), tmp_path / "name"
    )
    assert Release.open(tmp_path / "frame").rows == ROWS


def test_release_is_counted_by_workers_as_here(java: Any, table: Path, tmp_path: Path) -> None:
    publish(asked(GIVEN, str(table), "uniform"), tmp_path / "release", unsafe_test_key=known_key(0))
    release = Release.open(tmp_path / "release")
    where = "sex = 'F'"
    assert release.count("flu", where=where, engine=SparkEngine(java)) == release.count("flu", where=where)


@pytest.mark.skipif(IS_CONNECT, reason="a session through Spark Connect on one machine tries nothing twice")
def test_worker_that_dies_is_replaced_and_the_bytes_are_the_same(java: Any, table: Path, tmp_path: Path) -> None:
    (flags := tmp_path / "flags").mkdir()
    request = asked(GIVEN, str(table), "small-domain")
    there = released(request, tmp_path / "there", UnluckyEngine(java, 34, flags=flags))
    assert len(list(flags.iterdir())) >= 5  # fingerprints, counting, rewriting, digests, verification
    assert there == released(request, tmp_path / "here")


@pytest.mark.skipif(IS_CONNECT, reason="a session through Spark Connect on one machine tries nothing twice")
def test_part_whose_worker_dies_is_finished_by_another(java: Any, tmp_path: Path) -> None:
    finish = DiesOnce(tmp_path / "flag")
    found = list(SparkEngine(java).shuffle(Bundles(), range(5), finish, 2, lambda number: None))
    assert sorted(found) == [(0, [0, 1, 2, 3, 4]), (1, [0, 1, 2, 3, 4])]
    assert (tmp_path / "flag").exists()


def test_error_of_a_worker_has_the_words_of_the_local_one(java: Any, tmp_path: Path) -> None:
    with pytest.raises(pa.ArrowInvalid, match=r"^what was wrong$"):
        list(SparkEngine(java).map_items(Failing(pa.ArrowInvalid, "what was wrong"), range(3)))


def test_workers_of_another_version_do_nothing(java: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    known = spark_tasks.version
    monkeypatch.setattr(spark_tasks, "version", lambda name: "0.0.1" if name == "pyarrow" else known(name))
    with refuses(EngineError, "worker-versions-differ", package="pyarrow"):
        list(SparkEngine(java).map_items(str, range(3)))


@pytest.mark.skipif(IS_CONNECT, reason="a session through Spark Connect is not made without it")
def test_package_that_spark_lacks_is_named(java: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with refuses(MissingExtraError, "missing-package", package="pandas"):
        list(SparkEngine(java).map_items(str, range(3)))


WITHOUT = """
import sys
from sfumato._readers.spark_frames import get_session
sys.modules["grpc"] = None
get_session("sc://127.0.0.1:1")
"""


@pytest.mark.skipif(not HAS_CONNECT, reason="without Spark Connect there is nothing that it could lack")
def test_package_that_spark_connect_lacks_is_named(tmp_path: Path) -> None:
    """Spark is installed without most of what Spark Connect needs, unless that is asked for."""
    fresh = {name: value for name, value in os.environ.items() if "SPARK" not in name}
    (script := tmp_path / "without.py").write_text(WITHOUT)
    ran = subprocess.run([sys.executable, script], env=fresh, capture_output=True, text=True, check=False, timeout=120)
    said = "Spark is installed without the package 'grpcio' that sfumato needs; install it, or Spark with all its pack"
    assert f"sfumato.errors.MissingExtraError: {said}" in ran.stderr


def test_no_value_and_no_key_is_in_the_log(java: Any, spark_log: Path, tmp_path: Path) -> None:
    publish_secretly(java, tmp_path)
    assert content(tmp_path / "release")
    written = spark_log.read_bytes()
    assert b"TaskSetManager" in written
    assert secrets_in(written) == []
    events = b"".join(content(spark_log.with_name("events")).values())
    assert b"SparkListenerTaskEnd" in events
    assert secrets_in(events) == []


def test_files_that_are_packed_here_are_read_back(java: Any, tmp_path: Path) -> None:
    check_files(java, tmp_path)
