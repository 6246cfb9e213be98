"""Counting by an engine: each file of the records by itself, elsewhere; the same answers to the last bit."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from far_engine import FarEngine
from refusals import refuses
from releases import SENSITIVE, WAYS, published, published_by
from sfumato._engines import shuffle
from sfumato._query.counting.count_request import CountQuery, Range
from sfumato._query.release import Release
from sfumato.errors import QueryError, ReleaseFormatError
from sfumato.mechanisms import REGISTRY
from sfumato.mechanisms.estimator import Moments

QUERIES = [
    CountQuery(),
    CountQuery(values=["flu"]),
    CountQuery({"sex": "F"}, ["flu", "cold"]),
    CountQuery({"age": Range(at_least=30)}, ["HIV"]),
    CountQuery({"sex": "M", "age": [20, 21, 30, None]}, ["cold"]),
    CountQuery({"age": Range(below=40)}),
    *(CountQuery({"age": age, "sex": sex}, ["flu"]) for age in range(20, 40) for sex in "FM"),
]


def people(rows: int) -> pa.Table:
    chance = random.Random(3)
    columns = {"age": range(20, 43), "sex": "FM", SENSITIVE: ["flu", "HIV", "cold", "flu", "asthma", "gout"]}
    return pa.table({name: chance.choices(values, k=rows) for name, values in columns.items()})


@pytest.fixture
def small_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shuffle, "FILE_ROWS", 64)


@dataclass(frozen=True)
class Watched(FarEngine):
    """Remembers what it was given."""

    given: list[Any] = field(default_factory=list)

    def each(self, work: Any, items: Any) -> Iterator[Any]:
        self.given.append(items := list(items))
        return super().each(work, items)


def list_arrays(moments: Moments) -> dict[str, Any]:
    """All numbers of estimates, with those of known distributions."""
    arrays = dict(vars(moments))
    if (known := arrays.pop("known")) is not None:
        arrays |= {name: values for name, values in vars(known).items() if isinstance(values, np.ndarray)}
    return arrays


@pytest.mark.slow
@pytest.mark.usefixtures("small_files")
@pytest.mark.parametrize("mechanism", WAYS)
def test_counts_by_files_are_those_of_all_files(mechanism: str, tmp_path: Path) -> None:
    table = people(300)
    if REGISTRY[mechanism].crowd_counts is not None:  # people in crowds have no records
        alone = table.set_column(table.schema.names.index("age"), "age", pa.array(range(100, 400)))
        table = pa.concat_tables([table, alone])
    release, engine = published_by(mechanism, table, tmp_path / "release"), Watched()
    assert len(release.records) == 5
    for method in release.manifest.methods:
        expected = list_arrays(release.count_many(QUERIES, method=method).moments)
        found = list_arrays(release.count_many(QUERIES, method=method, engine=engine).moments)
        for name, values in expected.items():
            np.testing.assert_array_equal(found[name], values, err_msg=f"{method}: {name}")
    assert all(items == [(path,) for path in release.records] for items in engine.given)


@pytest.mark.slow
@pytest.mark.usefixtures("small_files")
def test_one_count_by_an_engine_is_the_count(tmp_path: Path) -> None:
    release = published(people(300), tmp_path / "release", mechanism="uniform")
    for value, where in [("flu", None), ("cold", "sex = 'F' AND age >= 30"), (..., "disease IN ('flu', 'HIV')")]:
        assert release.count(value, where=where, engine=FarEngine()) == release.count(value, where=where)
    assert release.count(where="age < 30", engine=FarEngine()) == release.count(where="age < 30")
    for value, where in [("flu", "age + 1 = 30"), ("flu", "disease = 'cold'"), (..., "sex = 'F' OR age = 3")]:
        with refuses(QueryError, "unsupported-with-engine"):
            release.count(value, where=where, engine=FarEngine())


@pytest.mark.slow
@pytest.mark.usefixtures("small_files")
def test_file_that_is_damaged_elsewhere_is_named(tmp_path: Path) -> None:
    release = published(people(300), tmp_path / "release", mechanism="uniform")
    opened = Release.open(Path(shutil.copytree(release.folder, tmp_path / "copy")))
    (opened.folder / "data" / "part-00002.parquet").write_bytes(b"nothing")
    with refuses(ReleaseFormatError, "damaged-file", file="part-00002.parquet"):
        opened.count_many(QUERIES, engine=FarEngine())
