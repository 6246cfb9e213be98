"""What Spark publishes is what one machine publishes: byte for byte, however a table is cut."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from pyarrow import feather

from accepted import ALL_ACCEPTED, REASON, give_reasons
from engine_inputs import INPUTS, ROWS, Input, every_type, with_gaps
from refusals import refuses
from releases import BOUND, WAYS, known_key, people
from sfumato import CountQuery, EngineError, ReadOptions, Release, Request, Schema, SparkEngine, publish
from sfumato._engines import shuffle, spark_engine
from sfumato._engines.engine import Engine
from sfumato._engines.shuffle import Bundle
from sfumato._parquet import page_encoding as dictionary_pages
from sfumato._perturb import perturbation, record_writer
from sfumato._request.bucket_and_decoy_requirements import DecoyGroups
from sfumato.mechanisms import REGISTRY
from sfumato.mechanisms._subset_selection import subset_mechanism as subset
from spark_tables import Bundles, asked, content, outcome, released, saved

MECHANISMS = pytest.mark.parametrize("mechanism", REGISTRY)


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give a table of a hundred rows three files, each with several parts, row groups and pages."""
    monkeypatch.setattr(shuffle, "FILE_ROWS", 40)
    monkeypatch.setattr(shuffle, "PART_ROWS", 16)
    monkeypatch.setattr(record_writer, "ROW_GROUP_ROWS", 25)
    monkeypatch.setattr(dictionary_pages, "PAGE_ROWS", 8)


def same(given: Input, mechanism: str, group_rows: int, session: Any, folder: Path) -> None:
    """Whether a table in one file is published alike, or refused with the same words."""
    request = asked(given, str(saved(given.table, folder / "people.parquet", group_rows)), mechanism)
    here = outcome(request, folder / "here")
    assert outcome(request, folder / "there", SparkEngine(session, group_rows)) == here
    assert {path.name for path in folder.iterdir()} <= {"here", "people.parquet", "there"}


@MECHANISMS
def test_every_mechanism_publishes_the_same_bytes(mechanism: str, sail: Any, tmp_path: Path) -> None:
    same(INPUTS["every type"], mechanism, 15, sail, tmp_path)
    names = set(content(tmp_path / "there"))
    assert {f"part-{number:05}.parquet" for number in range(3)} <= {Path(name).name for name in names}


@pytest.mark.parametrize("given_input", [name for name in INPUTS if name != "every type"])
@pytest.mark.parametrize("mechanism", ["uniform", "noisy-counts", "buckets"])
def test_every_table_gives_the_same_bytes(
    given_input: str, mechanism: str, sail: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _wide(given_input, monkeypatch)
    same(INPUTS[given_input], mechanism, 15, sail, tmp_path)


@pytest.mark.parametrize("group_rows", [1000, 34, 1])
@pytest.mark.parametrize("mechanism", ["uniform", "small-domain"])
def test_number_of_pieces_does_not_matter(mechanism: str, group_rows: int, sail: Any, tmp_path: Path) -> None:
    given = INPUTS["gaps dropped"]
    same(replace(given, table=given.table.slice(0, 50)), mechanism, group_rows, sail, tmp_path)


@pytest.mark.full
@MECHANISMS
@pytest.mark.parametrize("given_input", INPUTS)
def test_every_mechanism_publishes_every_table_in_the_same_bytes(
    mechanism: str, given_input: str, sail: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _wide(given_input, monkeypatch)
    for group_rows in (1000, 34, 7):
        (folder := tmp_path / str(group_rows)).mkdir()
        same(INPUTS[given_input], mechanism, group_rows, sail, folder)


def _wide(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if INPUTS[name].most_values is not None:
        monkeypatch.setattr("sfumato._profile.table_profile.MOST_VALUES", INPUTS[name].most_values)


@pytest.mark.parametrize("mechanism", ["uniform", "small-domain", "buckets"])
def test_files_and_row_groups_without_rows_do_not_matter(mechanism: str, sail: Any, tmp_path: Path) -> None:
    table, folder = with_gaps(), tmp_path / "people"
    folder.mkdir()
    for name, sizes in {"a": [], "b": [0], "c": [40, 0, 1, 0], "d": [0, 60]}.items():
        with pq.ParquetWriter(folder / f"{name}.parquet", table.schema) as writer:
            for size in sizes:
                writer.write_table(table.slice(0, size))
                table = table.slice(size)
    assert len(table) == 0
    request = asked(INPUTS["gaps dropped"], str(folder), mechanism)
    here = released(request, tmp_path / "here")
    assert released(request, tmp_path / "there", SparkEngine(sail, 15)) == here


@pytest.mark.parametrize("nulls", ["value", "drop"])
def test_files_of_text_are_read_as_here(nulls: str, sail: Any, tmp_path: Path) -> None:
    """A file is a piece; texts that stand for what is missing are known to every worker."""
    for number in range(3):
        pa_csv.write_csv(with_gaps().slice(40 * number, 40), tmp_path / f"people-{number}.csv")
    schema = Schema.of("disease", nulls=nulls, public="*")
    table, public = str(tmp_path / "people-*.csv"), ("age", "sex", "weight")
    request = Request(
        table,
        schema=schema,
        spec=BOUND,
        read=ReadOptions(missing=("NA", "M")),
        accept_disclosing=give_reasons(public),
        **ALL_ACCEPTED,
    )
    here = released(request, tmp_path / "here")
    assert released(request, tmp_path / "there", SparkEngine(sail)) == here


@pytest.mark.parametrize("ending", [".arrow", ".jsonl", ".csv.gz"])
def test_other_files_are_read_as_here(ending: str, sail: Any, tmp_path: Path) -> None:
    """Rows of persons are chosen by their numbers, which must be right in every file."""
    table = people(ROWS, who=[f"p{row % 37}" for row in range(ROWS)])
    (folder := tmp_path / "people").mkdir()
    for number in range(3):
        part, path = table.slice(40 * number, 40), folder / f"{number}{ending}"
        if ending == ".arrow":
            feather.write_feather(part, str(path))
        elif ending == ".jsonl":
            path.write_text("".join(f"{json.dumps(row)}\n" for row in part.to_pylist()))
        else:
            with pa.CompressedOutputStream(str(path), "gzip") as sink:
                pa_csv.write_csv(part, sink)
    schema = Schema.of("disease", person="who", one_row="random", public="*")
    request = Request(
        str(folder), schema=schema, spec=BOUND, accept_disclosing=give_reasons(("age", "sex")), **ALL_ACCEPTED
    )
    here = released(request, tmp_path / "here")
    assert released(request, tmp_path / "there", SparkEngine(sail, 15)) == here


def test_marks_of_what_is_missing_hold_in_parquet(sail: Any, tmp_path: Path) -> None:
    table = saved(every_type(), tmp_path / "people.parquet", 15)
    request = Request(
        str(table),
        schema=Schema.of("disease", public="*"),
        spec=BOUND,
        read=ReadOptions(missing=("Aix",)),
        accept_disclosing=give_reasons(tuple(every_type().column_names[:-1])),
        **ALL_ACCEPTED,
    )
    here = released(request, tmp_path / "here")
    assert released(request, tmp_path / "there", SparkEngine(sail, 15)) == here


def test_sets_as_lists_have_the_same_bytes(sail: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(WAYS, "subset", replace(WAYS["subset"], options=subset.Options(subset.Form.LIST)))
    same(INPUTS["with gaps"], "subset", 15, sail, tmp_path)


def test_columns_that_are_protected_each_for_itself_have_the_same_bytes(sail: Any, tmp_path: Path) -> None:
    table = str(saved(with_gaps(), tmp_path / "people.parquet", 15))
    schema = Schema.of(["disease", "sex"], public="*")
    request = Request(
        table,
        schema=schema,
        spec=DecoyGroups(2),
        accept_disclosing=give_reasons(("age", "weight")),
        accept_exposure=REASON,
        **ALL_ACCEPTED,
    )
    here = released(request, tmp_path / "here")
    assert released(request, tmp_path / "there", SparkEngine(sail, 15)) == here


@pytest.mark.parametrize(
    "rows", [{"one_row": "last:age"}, {"one_row": "random"}, {"rows_per_person": 2, "surplus": "drop"}]
)
def test_rows_of_persons_are_chosen_as_here(rows: dict[str, Any], sail: Any, tmp_path: Path) -> None:
    table = people(ROWS, who=[f"p{row % 37}" for row in range(ROWS)], age=list(range(ROWS)))
    path = str(saved(table, tmp_path / "people.parquet", 15))
    schema = Schema.of("disease", person="who", ranges={"age": [0, 50, 200]}, **rows, public="*")
    request = Request(path, schema=schema, spec=BOUND, accept_disclosing=give_reasons(("age", "sex")), **ALL_ACCEPTED)
    here = released(request, tmp_path / "here")
    assert released(request, tmp_path / "there", SparkEngine(sail, 15)) == here


def test_rows_of_equal_words_keep_the_order_of_the_table(
    sail: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = np.array([1 << 63, 5, 1 << 62], dtype=np.uint64)
    monkeypatch.setattr(
        perturbation, "draw_order_keys", lambda draws, first, rows: words.take((first + np.arange(rows)) % len(words))
    )
    same(
        Input(people(ROWS, age=list(range(ROWS))), Schema.of("disease", keep=["age"], public="*")),
        "uniform",
        15,
        sail,
        tmp_path,
    )


def test_relative_paths_are_found_by_workers(sail: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saved(every_type(), tmp_path / "people.parquet")
    monkeypatch.chdir(tmp_path)
    engine, given = SparkEngine(sail), INPUTS["every type"]
    assert released(asked(given, "people.parquet", "uniform"), Path("there"), engine) == released(
        asked(given, str(tmp_path / "people.parquet"), "uniform"), tmp_path / "here"
    )


def test_progress_is_told_up_to_the_last_row(sail: Any, tmp_path: Path) -> None:
    told: list[tuple[str, int, int | None]] = []
    engine = SparkEngine(sail, 15, lambda *each: told.append(each))
    table = str(saved(every_type(), tmp_path / "people.parquet", 15))
    released(asked(INPUTS["every type"], table, "uniform"), tmp_path / "release", engine)
    for stage in ("counting", "rewriting", "writing"):
        done = [each for name, each, _ in told if name == stage]
        assert done == sorted(done)
        assert done[-1] == ROWS
    assert {total for _, _, total in told} == {ROWS}


# ----------------------------------------------------------------------------------------------------------- the engine


def test_results_come_in_the_order_of_the_items(sail: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sfumato._engines.spark_engine.TASKS_PER_CORE", 1)
    monkeypatch.setattr(SparkEngine, "_cores", 3)  # several jobs
    assert list(SparkEngine(sail).map_items(str, range(8))) == [str(number) for number in range(8)]
    assert list(SparkEngine(sail).map_items(str, [])) == []


class Numbers:
    """Sends a bundle of its number to every second part, and to none the others."""

    def __call__(self, item: int) -> Any:
        yield Bundle(item % 2 * 2, {"": np.array([item], dtype=np.uint64)}, np.array([0, 1]))


def gathered(part: int, bundles: Any) -> Any:
    """What came, in the order in which it came."""
    yield part, [int(bundle.rows[""][0]) for bundle in bundles]


@pytest.mark.parametrize("of", ["each", "blocks", "parts"])
def test_result_that_comes_twice_is_refused(of: str, sail: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that tries again may deliver what it had delivered before."""
    known = spark_engine.run_on_workers

    def twice(frame: Any, run: Any, *given: Any) -> Any:
        sent, is_last = known(frame, run, *given), run is spark_engine._finish_parts
        return sent.unionAll(sent) if is_last == (of == "parts") else sent

    monkeypatch.setattr(spark_engine, "run_on_workers", twice)
    engine = SparkEngine(sail)
    with refuses(EngineError, "work-lost-or-repeated"):
        list(
            engine.map_items(str, range(3)) if of == "each" else engine.shuffle(Bundles(), range(3), First(), 2, print)
        )


class First:
    """The words of the bundles of a part."""

    def __call__(self, part: int, bundles: Any) -> Any:
        yield part, [int(bundle.rows[""][0]) for bundle in bundles]


def test_parts_that_get_nothing_are_finished_too(sail: Any) -> None:
    done: list[int] = []
    found = list(SparkEngine(sail).shuffle(Numbers(), range(9), gathered, 4, done.append))
    assert sorted(found) == [(0, [0, 2, 4, 6, 8]), (1, []), (2, [1, 3, 5, 7]), (3, [])]
    assert done[-1] == 9


def test_engine_is_one_of_ours(sail: Any) -> None:
    engine: Engine = SparkEngine(sail)
    assert engine.allot_resources(7).threads == 1


# ------------------------------------------------------------------------------------------------------------- counting


@pytest.mark.parametrize("mechanism", ["uniform", "small-domain", "subset", "noisy-counts", "buckets", "decoys"])
def test_release_is_counted_by_workers_as_here(mechanism: str, sail: Any, tmp_path: Path) -> None:
    table = str(saved(every_type(), tmp_path / "people.parquet", 15))
    publish(asked(INPUTS["every type"], table, mechanism), tmp_path / "release", unsafe_test_key=known_key(0))
    release, engine = Release.open(tmp_path / "release"), SparkEngine(sail)
    assert release.count("flu", where="sex = 'F'", engine=engine) == release.count("flu", where="sex = 'F'")
    queries = [CountQuery({"sex": "F"}, ["flu"]), CountQuery({"town": "Aix"}, ["cold", "flu"]), CountQuery({}, ["HIV"])]
    assert list(release.count_many(queries, engine=engine)) == list(release.count_many(queries))
