"""Tables in files for tests of Spark, and releases of them, here and by Spark."""

from __future__ import annotations

import os
from base64 import b64encode
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from accepted import ALL_ACCEPTED, REASON, give_reasons
from engine_inputs import Input
from releases import WAYS, accepting, known_key, people
from sfumato import BreachBound, Schema, SparkEngine
from sfumato._engines.engine import Engine
from sfumato._engines.shuffle import Bundle
from sfumato._publish.publication import publish
from sfumato._publish.request import Request
from sfumato.errors import SfumatoError


def content(folder: Path) -> dict[str, bytes]:
    """Every file of a folder."""
    return {str(each.relative_to(folder)): each.read_bytes() for each in folder.rglob("*") if each.is_file()}


def saved(table: pa.Table, path: Path, group_rows: int = 1 << 20) -> Path:
    """A Parquet file with row groups of so many rows, of which each can be a piece."""
    pq.write_table(table, path, row_group_size=group_rows)
    return path


def asked(given: Input, table: Any, mechanism: str) -> Request:
    """A request for a table that is what was given, in whichever form."""
    way = WAYS[mechanism]
    schema = way.schema(given.schema, given.table)
    return Request(
        table,
        schema=schema,
        **way.request(mechanism),
        **accepting(given.table, schema),
        accept_exposure=REASON,
        **ALL_ACCEPTED,
    )


def released(request: Request, out: Path, engine: Engine | None = None) -> dict[str, bytes]:
    """The files of a release with a known key."""
    publish(request, out, unsafe_test_key=known_key(0), engine=engine)
    return content(out)


def outcome(request: Request, out: Path, engine: Engine | None = None) -> dict[str, bytes] | tuple[str, str]:
    """The files of a release, or the words with which it is refused."""
    try:
        return released(request, out, engine)
    except SfumatoError as error:
        return type(error).__name__, str(error)


@dataclass(frozen=True)
class FailsOnce:
    """Work whose worker dies in the middle of it, the first time."""

    work: Any
    flag: Path

    def __call__(self, item: Any) -> Any:
        if not self.flag.exists():
            self.flag.touch()
            os._exit(1)
        return self.work(item)


@dataclass(frozen=True)
class UnluckyEngine(SparkEngine):
    """Loses a worker in each job."""

    flags: Path = Path()

    def _run_tasks(self, run: Any, work: Any, items: Any) -> Any:
        return super()._run_tasks(run, FailsOnce(work, self.flags / uuid4().hex), items)


@dataclass(frozen=True)
class Failing:
    """Work that fails in a way that quotes a value of the table."""

    error: type[Exception]
    words: str

    def __call__(self, item: Any) -> Any:
        raise self.error(self.words)


KEY = known_key(0xC0FFEE)
VALUE = "Zwiebelfieber"
"""A value that no log holds by chance."""


def publish_secretly(session: Any, folder: Path) -> None:
    """Publish a frame of a table with a value and a key, and fail with them; `folder` gets what is made."""
    table = saved(people(name=[VALUE, "b"], disease=[VALUE, "cold", "flu"] * 4), folder / "people.parquet", 20)
    schema, bound = Schema.of("disease", keep=["name"], public="*"), BreachBound("1/10", "1/2")
    request = Request(
        session.read.parquet(str(table)),
        schema=schema,
        spec=bound,
        accept_disclosing=give_reasons(("age", "sex", "name")),
        **ALL_ACCEPTED,
    )
    publish(request, folder / "release", unsafe_test_key=KEY)
    for error in (pa.ArrowInvalid, OSError):
        with suppress(pa.ArrowInvalid, OSError):
            list(SparkEngine(session).map_items(Failing(error, f"{VALUE} {KEY}"), [1, 2]))


def secrets_in(log: bytes) -> list[str]:
    """Which secrets are in a log, in any form that they have on the way."""
    key = bytes.fromhex(KEY)
    return [str(each) for each in (VALUE.encode(), KEY.encode(), key, b64encode(key)) if each in log]


class Bundles:
    """A bundle for each of two parts."""

    def __call__(self, item: int) -> Any:
        for part in range(2):
            yield Bundle(part, {"": np.array([item], dtype=np.uint64)}, np.array([0, 1]))


class DiesOnce:
    """What came to a part; the first time, half of it, and then nothing."""

    def __init__(self, flag: Path) -> None:
        self.flag = flag

    def __call__(self, part: int, bundles: Any) -> Any:
        first = next(bundles)
        FailsOnce(str, self.flag)(part)
        yield part, [int(bundle.rows[""][0]) for bundle in (first, *bundles)]
