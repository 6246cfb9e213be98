"""What goes wrong on a worker is told with the words of the local error, and leaves nothing behind."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from accepted import ALL_ACCEPTED, give_reasons
from engine_inputs import ROWS
from refusals import refuses
from releases import BOUND, people
from sfumato import EngineError, LocalEngine, Request, Schema, SfumatoError, SparkEngine, publish
from sfumato._core import spark_tasks
from sfumato._engines.engine import Engine
from sfumato._parquet.parquet_writer import FileWriter
from spark_tables import Failing, content, outcome, saved, secrets_in

PUBLIC = ("age", "sex")


def request_for(table: Path) -> Request:
    return Request(
        str(table),
        schema=Schema.of("disease", public="*"),
        spec=BOUND,
        accept_disclosing=give_reasons(PUBLIC),
        **ALL_ACCEPTED,
    )


def both(table: Path, folder: Path, sail: Any) -> Any:
    """What comes of it here, which is what comes of it there."""
    found = []
    for name, engine in {"here": LocalEngine(), "there": SparkEngine(sail, 20)}.items():
        kind, words = outcome(request_for(table), folder / name, engine)
        found.append((kind, str(words).replace(str(folder / name), "it")))
    assert os.listdir(folder) == [table.name]
    assert found[0] == found[1]
    return found[0]


CHANGES: dict[str, Callable[[Path], Any]] = {
    "rows in another order": lambda path: saved(people(ROWS).take([*range(20), *reversed(range(20, ROWS))]), path, 20),
    "rows appended": lambda path: saved(people(ROWS + 4), path, 20),
    "another value": lambda path: saved(people(ROWS, disease=["flu", "cold", "plague"]), path, 20),
    "gone": lambda path: path.unlink(),
    "cut off": lambda path: path.write_bytes(path.read_bytes()[:-9]),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_table_that_changes_between_the_passes_is_refused(
    change: Callable[[Path], Any], sail: Any, tmp_path: Path
) -> None:
    path = tmp_path / "people.parquet"
    is_changed: list[bool] = []

    def afresh() -> None:
        saved(people(ROWS), path, 20)
        is_changed.clear()

    def meddle(stage: str, done: int, total: int | None) -> None:
        if stage == "counting" and done == ROWS and not is_changed:
            is_changed.append(True)
            change(path)

    kinds = {"here": LocalEngine(progress=meddle), "there": SparkEngine(sail, 20, meddle)}
    for name, engine in kinds.items():
        afresh()
        (tmp_path / name).mkdir()
        kind, words = outcome(request_for(path), tmp_path / name / "release", engine)
        assert kind == "SourceError"
        assert "the table changed" in words or "people.parquet" in words
        assert os.listdir(tmp_path / name) == []


def test_damaged_piece_is_told_as_here(sail: Any, tmp_path: Path) -> None:
    table = saved(people(ROWS, age=list(range(ROWS))), tmp_path / "people.parquet", 20)
    place = pq.read_metadata(table).row_group(2).column(0).data_page_offset
    with table.open("r+b") as file:
        file.seek(place)
        file.write(b"\xff" * 12)
    kind, words = both(table, tmp_path, sail)
    assert (kind, words) == ("SourceError", "'people.parquet' is damaged, because it cannot be read to its end.")


def test_full_disk_is_told_as_here(sail: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*given: Any) -> Any:
        raise OSError(28, "a text of others")

    monkeypatch.setattr(FileWriter, "add", full)
    kind, words = both(saved(people(ROWS), tmp_path / "people.parquet", 20), tmp_path, sail)
    assert (kind, words) == ("TargetError", "the release cannot be written to 'it': No space left on device.")


@pytest.mark.parametrize("error", [pa.ArrowInvalid, ValueError, SfumatoError, EngineError])
def test_error_of_a_worker_is_raised_as_it_is(error: type[Exception], sail: Any) -> None:
    with pytest.raises(error, match=r"^what was wrong$"):
        list(SparkEngine(sail).map_items(Failing(error, "what was wrong"), range(3)))
    with pytest.raises(error, match=r"^what was wrong$"):
        list(SparkEngine(sail).shuffle(Failing(error, "what was wrong"), range(3), print, 2, lambda number: None))


def test_of_several_errors_that_of_the_first_item_is_raised(sail: Any) -> None:
    def numbered(engine: Engine) -> str:
        with pytest.raises(ValueError, match=r"item \d") as caught:
            list(engine.map_items(FailsFrom(2), range(6)))
        return str(caught.value)

    assert numbered(SparkEngine(sail)) == numbered(LocalEngine()) == "item 2"


class FailsFrom:
    """Work that fails for all items from one on."""

    def __init__(self, first: int) -> None:
        self.first = first

    def __call__(self, item: int) -> int:
        if item >= self.first:
            raise ValueError(f"item {item}")
        return item


def test_file_that_workers_do_not_reach_is_told(sail: Any) -> None:
    with refuses(EngineError, "worker-lacks-file"):
        list(SparkEngine(sail).map_items(Path.read_bytes, [Path("/nowhere/at all")]))


@pytest.mark.parametrize("package", ["sfumato", "pyarrow", "numpy"])
def test_workers_of_another_version_do_nothing(
    package: str, sail: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = spark_tasks.version
    monkeypatch.setattr(spark_tasks, "version", lambda name: "0.0.1" if name == package else known(name))
    request = request_for(saved(people(), tmp_path / "people.parquet"))
    with refuses(EngineError, "worker-versions-differ", package=package):
        publish(request, tmp_path / "release", engine=SparkEngine(sail))
    assert os.listdir(tmp_path) == ["people.parquet"]


def test_session_that_was_stopped_is_told(address: str, tmp_path: Path) -> None:
    stopped = SparkSession.builder.remote(address).create()
    table = saved(people(), tmp_path / "people.parquet")
    frame = stopped.read.parquet(str(table))
    assert frame.columns
    stopped.stop()
    for request, engine in (
        (request_for(table), SparkEngine(stopped)),
        (replace(request_for(table), table=frame), None),
    ):
        with refuses(EngineError, "spark-stopped"):
            publish(request, tmp_path / "release", engine=engine)
    assert os.listdir(tmp_path) == [table.name]


@pytest.mark.parametrize("stage", ["counting", "rewriting", "writing"])
def test_run_that_is_stopped_leaves_nothing(stage: str, sail: Any, tmp_path: Path) -> None:
    def stop(now: str, done: int, total: int | None) -> None:
        if now == stage:
            raise KeyboardInterrupt

    table = saved(people(), tmp_path / "people.parquet")
    with pytest.raises(KeyboardInterrupt):
        publish(request_for(table), tmp_path / "release", engine=SparkEngine(sail, progress=stop))
    assert os.listdir(tmp_path) == [table.name]


LOGGED = """
import sys, warnings
from pathlib import Path
from pysail.spark import SparkConnectServer
from pyspark.sql import SparkSession
from spark_tables import publish_secretly
warnings.simplefilter("ignore")
server = SparkConnectServer("127.0.0.1", 0)
server.start(background=True)
session = SparkSession.builder.remote(f"sc://127.0.0.1:{server.listening_address[1]}").getOrCreate()
publish_secretly(session, Path(sys.argv[1]))
session.stop()
server.stop()
"""


def test_no_value_and_no_key_is_in_the_log(tmp_path: Path) -> None:
    (script := tmp_path / "logged.py").write_text(LOGGED)
    fresh = {name: value for name, value in os.environ.items() if "SPARK" not in name}
    known = {**fresh, "PYTHONPATH": str(Path(__file__).parents[1]), "RUST_LOG": "info"}
    ran = subprocess.run([sys.executable, script, tmp_path], env=known, capture_output=True, check=False, timeout=120)
    assert ran.returncode == 0, ran.stderr[-2000:]
    assert content(tmp_path / "release")
    assert b"sail" in ran.stderr
    assert secrets_in(ran.stderr + ran.stdout) == []
