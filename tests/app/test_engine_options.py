"""Where the work runs, on a machine without Spark; with it, see `tests/spark`."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from accepted import ALL_ACCEPTED
from command_line import complaint, publishing, run, succeed
from refusals import refuses
from releases import BOUND
from sfumato import Request, Schema, SparkEngine, publish
from sfumato._engines.spark_engine import choose_engine
from sfumato.errors import MissingExtraError

LACKS = "Spark is not installed; install it (pip install 'sfumato[spark]')."


def test_local_engine_can_be_named(table: Path, desk: Path) -> None:
    succeed(*publishing(table), "--engine", "local")
    assert (desk / "release" / "datapackage.json").is_file()


@pytest.mark.parametrize("options", [("--engine", "spark"), ("--spark-master", "local[2]")])
def test_spark_that_is_not_installed_is_named(options: tuple[str, ...], table: Path, desk: Path) -> None:
    assert LACKS in complaint(run(*publishing(table), *options))
    assert os.listdir(desk) == [table.name]


def test_table_of_spark_needs_spark(desk: Path) -> None:
    assert LACKS in complaint(run(*publishing("spark:hospital.people")))
    with refuses(MissingExtraError, "missing-package", extra="spark"):
        publish(
            Request("spark:hospital.people", schema=Schema.of("disease", public="*"), spec=BOUND, **ALL_ACCEPTED),
            desk / "release",
        )
    assert os.listdir(desk) == []


def test_two_engines_are_refused(table: Path) -> None:
    said = complaint(run(*publishing(table), "--engine", "local", "--spark-master", "local[2]"))
    assert "--engine local does not use Spark" in said


def test_unknown_engine_is_refused(table: Path) -> None:
    assert "local" in complaint(run(*publishing(table), "--engine", "dask"))


@pytest.mark.parametrize("engine", ["spark", "local"])
def test_request_file_may_say_where_it_runs(engine: str, table: Path, desk: Path) -> None:
    lines = [
        f"path = '{table.name}'",
        "sensitive = 'disease'",
        "prior = '1/10'",
        "posterior = '1/2'",
        f"engine = '{engine}'",
    ]
    (desk / "request.toml").write_text("\n".join(lines))
    ran = run("publish", "request.toml", "--out", "release")
    assert (LACKS in complaint(ran)) if engine == "spark" else ran.code == 0


def test_request_file_may_name_a_table_of_spark(desk: Path) -> None:
    lines = ["path = 'spark:hospital.people'", "sensitive = 'disease'", "prior = '1/10'", "posterior = '1/2'"]
    (desk / "request.toml").write_text("\n".join(lines))
    assert LACKS in complaint(run("plan", "request.toml"))


def test_engine_of_anything_but_a_frame_is_this_machine() -> None:
    assert not isinstance(choose_engine("people.csv"), SparkEngine)
    assert not isinstance(choose_engine(None), SparkEngine)
