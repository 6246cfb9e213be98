"""A frame of Spark is written to private files first, and published as these would be."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import traceback
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from accepted import ALL_ACCEPTED, give_reasons
from engine_inputs import INPUTS, every_type
from refusals import refuses
from releases import BOUND, people
from sfumato import EngineError, Request, Schema, SchemaError, SourceError, publish
from sfumato._core.spark_tasks import collect_rows
from sfumato._readers import spark_frames
from sfumato._readers.spark_frames import spool_frame
from sfumato._release.staging import PREFIX
from sfumato.errors import ErrorField, ReleaseFormatError, SfumatoError
from spark_tables import asked, content, released, saved

GIVEN = INPUTS["every type"]


@pytest.fixture
def frame(sail: Any, tmp_path: Path) -> Any:
    """A frame of several partitions."""
    for number in range(4):
        saved(every_type().slice(25 * number, 26 if number == 3 else 25), tmp_path / f"people-{number}.parquet")
    return sail.read.parquet(*(str(tmp_path / f"people-{number}.parquet") for number in (2, 0, 3, 1)))


def as_its_files(frame: Any, mechanism: str, folder: Path) -> None:
    """Whether a frame is published as the files are that it is written to."""
    there = released(asked(GIVEN, frame, mechanism), folder / "there")
    (folder / "files").mkdir()
    for number, file in enumerate(spool_frame(frame, folder / "spool")):
        file.rename(folder / "files" / f"{number:03}.parquet")
    assert sum(pq.read_metadata(file).num_rows for file in (folder / "files").iterdir()) == len(every_type())
    assert released(asked(GIVEN, str(folder / "files"), mechanism), folder / "here") == there


@pytest.mark.parametrize("mechanism", ["uniform", "small-domain", "buckets"])
def test_frame_is_published_as_its_files_are(mechanism: str, frame: Any, tmp_path: Path) -> None:
    as_its_files(frame, mechanism, tmp_path)


def test_partitions_without_rows_do_not_matter(frame: Any, tmp_path: Path) -> None:
    nobody = frame.where("age > 1000")
    as_its_files(nobody.unionAll(frame).unionAll(nobody), "uniform", tmp_path)
    assert all(pq.read_metadata(file).num_rows for file in (tmp_path / "files").iterdir())


def test_table_is_named_as_spark_knows_it(frame: Any, tmp_path: Path) -> None:
    frame.createOrReplaceTempView("people")
    named = released(asked(GIVEN, "spark:people", "uniform"), tmp_path / "named")
    assert released(asked(GIVEN, frame, "uniform"), tmp_path / "given") == named


def test_order_of_partitions_does_not_matter(sail: Any, tmp_path: Path) -> None:
    """Partitions of the same rows, two of them alike, come in any order."""
    parts = [people(40), people(24, age=[25, 35]), people(40)]
    for number, part in enumerate(parts):
        saved(part, tmp_path / f"{number}.parquet")
    found = []
    for order in ((0, 1, 2), (2, 1, 0), (1, 2, 0)):
        frames = [sail.read.parquet(str(tmp_path / f"{number}.parquet")) for number in order]
        united = frames[0].unionAll(frames[1]).unionAll(frames[2])
        request = Request(
            united,
            schema=Schema.of("disease", public="*"),
            spec=BOUND,
            accept_disclosing=give_reasons(("age", "sex")),
            **ALL_ACCEPTED,
        )
        found.append(released(request, tmp_path / "".join(map(str, order))))
    assert found[0] == found[1] == found[2]
    assert pq.read_metadata(tmp_path / "012" / "data.parquet").num_rows == 104


def test_nothing_of_a_frame_stays_behind(frame: Any, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    released(asked(GIVEN, frame, "uniform"), tmp_path / "out" / "release")
    assert os.listdir(tmp_path / "out") == ["release"]
    with refuses(SchemaError, "missing-column", column="nothing"):
        publish(
            Request(frame, schema=Schema.of("nothing", public="*"), spec=BOUND, **ALL_ACCEPTED),
            tmp_path / "out" / "other",
        )
    assert os.listdir(tmp_path / "out") == ["release"]


def test_spool_is_private(frame: Any, tmp_path: Path) -> None:
    files = spool_frame(frame, tmp_path / "spool")
    assert (tmp_path / "spool").stat().st_mode & 0o777 == 0o700
    assert {file.stat().st_mode & 0o777 for file in files} == {0o600}


def test_attempt_that_was_not_told_of_does_not_count(
    frame: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that was lost, or a second one that was not needed, leaves a file that nobody knows."""
    known = Path.mkdir

    def litter(path: Path, *given: Any, **named: Any) -> None:
        known(path, *given, **named)
        if path.name == "spool":
            saved(every_type(), path / "0.parquet")

    monkeypatch.setattr(Path, "mkdir", litter)
    released(asked(GIVEN, frame, "uniform"), tmp_path / "release")
    assert pq.read_metadata(tmp_path / "release" / "data.parquet").num_rows == len(every_type())


@pytest.mark.parametrize(
    ("made", "refusal"),
    [
        (lambda frame: frame.where("age > 1000"), (SourceError, "empty-table", {})),
        (lambda frame: frame.select("age", "age", "disease"), (SchemaError, "repeated-column", {"column": "age"})),
        (lambda frame: "spark:nowhere.nothing", (SourceError, "unreadable-table", {"table": "nowhere.nothing"})),
        (lambda frame: frame.select("nothing"), (SourceError, "uncomputable-frame", {"frame": "spark"})),
        (lambda frame: frame.schema, (SourceError, "unknown-table-type", {"type": "StructType"})),
    ],
    ids=["empty", "two names", "no such table", "no such column", "something else"],
)
def test_what_is_no_table_is_refused(
    made: Any, refusal: tuple[type[SfumatoError], str, dict[str, ErrorField]], frame: Any, tmp_path: Path
) -> None:
    (tmp_path / "out").mkdir()
    error, code, facts = refusal
    with refuses(error, code, **facts):
        publish(
            Request(made(frame), schema=Schema.of("disease", public="*"), spec=BOUND, **ALL_ACCEPTED),
            tmp_path / "out" / "release",
        )
    assert os.listdir(tmp_path / "out") == []


def test_names_that_spark_would_take_for_something_else_are_names(sail: Any, tmp_path: Path) -> None:
    odd = ["a.b", "back`tick", 'quo"te', "Disease", "disease", " "]
    table = people(40)
    columns = [table.column("age")] * 4 + [table.column("disease"), table.column("sex")]
    saved(pa.table(columns, names=[f"c{number}" for number in range(6)]), tmp_path / "people.parquet")
    files = spool_frame(sail.read.parquet(str(tmp_path / "people.parquet")).toDF(*odd), tmp_path / "spool")
    assert pq.read_table(files[0]).column_names == odd
    assert pq.read_table(files[0]).column("disease").to_pylist() == table.column("disease").to_pylist()


@pytest.mark.parametrize(
    "made", ["cast(concat('Zwiebel', sex) AS int)", "INTERVAL '1' YEAR"], ids=["a value", "a type"]
)
def test_frame_that_cannot_be_computed_is_refused_without_its_values(made: str, frame: Any, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    broken = frame.selectExpr("sex", "disease", f"{made} AS broken")
    with refuses(SourceError, "uncomputable-frame", frame="spark") as caught:
        publish(
            Request(broken, schema=Schema.of("disease", public="*"), spec=BOUND, **ALL_ACCEPTED),
            tmp_path / "out" / "release",
        )
    assert "Zwiebel" not in "".join(traceback.format_exception(caught.value))
    assert os.listdir(tmp_path / "out") == []


def test_partition_that_comes_twice_is_refused(frame: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_frames, "collect_rows", lambda sent: [*(rows := collect_rows(sent)), rows[0]])
    with refuses(EngineError, "work-lost-or-repeated"):
        spool_frame(frame, tmp_path / "spool")


def test_plan_file_repeats_a_frame_of_the_same_rows_only(frame: Any, sail: Any, tmp_path: Path) -> None:
    def repeated(table: Any, name: str) -> dict[str, bytes]:
        publish(asked(GIVEN, table, "uniform"), tmp_path / name, plan_file=tmp_path / "plan.json")
        return content(tmp_path / name)

    assert repeated(frame, "first") == repeated(frame, "second")
    last = every_type().slice(75)
    for name, rows in {"fewer": last.slice(1), "other order": last.take(list(reversed(range(len(last)))))}.items():
        saved(rows, tmp_path / "people-3.parquet")
        other = sail.read.parquet(*(str(tmp_path / f"people-{number}.parquet") for number in range(4)))
        with refuses(ReleaseFormatError, "plan-file-of-another-table"):
            repeated(other, name)


CRASHING = """
import os, signal, sys
from pyspark.sql import SparkSession
from sfumato import BreachBound, Request, Schema, SparkEngine, publish
session = SparkSession.builder.remote(sys.argv[1]).getOrCreate()
frame = session.read.parquet(sys.argv[2])
crash = lambda stage, done, total: os.kill(os.getpid(), signal.SIGKILL)
accepted = dict.fromkeys(("accept_unique", "accept_uncovered"), "made up")
columns = dict.fromkeys(("age", "sex"), "made up")
schema = Schema.of("disease", public="*")
request = Request(frame, schema=schema, spec=BreachBound("1/10", "1/2"), accept_disclosing=columns, **accepted)
publish(request, sys.argv[3], engine=SparkEngine(session, progress=crash))
"""


def test_spool_of_a_crashed_run_is_removed_by_the_next_one_to_the_same_target(
    address: str, sail: Any, tmp_path: Path
) -> None:
    table, out = saved(people(), tmp_path / "people.parquet"), tmp_path / "out"
    out.mkdir()
    fresh = {name: value for name, value in os.environ.items() if "SPARK" not in name}
    (script := tmp_path / "crashing.py").write_text(CRASHING)
    run = [sys.executable, script, address, table, out / "release"]
    crashed = subprocess.run(run, env=fresh, check=False)
    assert crashed.returncode == -signal.SIGKILL
    (left,) = out.glob(f"{PREFIX}*")
    assert any((left / "spool").iterdir())
    request = Request(
        sail.read.parquet(str(table)),
        schema=Schema.of("disease", public="*"),
        spec=BOUND,
        accept_disclosing=give_reasons(("age", "sex")),
        **ALL_ACCEPTED,
    )
    publish(request, out / "other")
    assert left.is_dir()  # it is not of this target
    publish(request, out / "release")
    assert sorted(os.listdir(out)) == ["other", "release"]


def test_types_come_as_they_are_in_files(frame: Any, tmp_path: Path) -> None:
    released(asked(GIVEN, frame, "uniform"), tmp_path / "there")
    published = pq.read_schema(tmp_path / "there" / "data.parquet")
    kinds = {name: published.field(name).type for name in published.names}
    assert kinds == {each.name: pa.string() if each.name == "disease" else each.type for each in every_type().schema}
