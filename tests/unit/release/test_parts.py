"""Records in several files: the same rows and the same answers as in one, and nothing but what the manifest lists."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import frictionless
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from accepted import ALL_ACCEPTED, give_reasons
from far_engine import FarEngine
from protected_tables import readme_query
from refusals import refuses
from releases import BOUND, edit_manifest, known_key, people, published, published_by, read_json
from sfumato import CountQuery, Request, Schema, publish, verify
from sfumato._engines import shuffle
from sfumato._engines.engine import Engine
from sfumato._engines.local_engine import LocalEngine
from sfumato._engines.shuffle import Layout
from sfumato._perturb import record_writer
from sfumato._query.release import Release
from sfumato._release.manifest import MANIFEST, README
from sfumato._verify.file_checks import verify_folder
from sfumato.errors import QueryError, ReleaseFormatError, TargetError
from sfumato.mechanisms import REGISTRY
from tampering import rewrite, with_column

ROWS, FILES = 200, 5
PART = "data/part-00001.parquet"


@pytest.fixture
def small_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two hundred rows make five files, of several parts and row groups each."""
    monkeypatch.setattr(shuffle, "FILE_ROWS", 40)
    monkeypatch.setattr(shuffle, "PART_ROWS", 16)
    monkeypatch.setattr(record_writer, "ROW_GROUP_ROWS", 25)


def table(mechanism: str = "") -> pa.Table:
    """Two hundred people whose rows are published; for noisy counts, these have homes of their own, and 40 have not."""
    weight = [50.5, 61.25, None, 72.0]
    if mechanism != "noisy-counts":
        return people(ROWS, weight=weight)
    homes = [*range(ROWS), *[ROWS] * 40]
    house, flat = (
        [part[home] for home in homes] for part in zip(*(divmod(home, 10) for home in range(ROWS + 1)), strict=True)
    )
    return people(len(homes), weight=weight, house=house, flat=flat)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A release of five files that nobody changes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shuffle, "FILE_ROWS", 40)
        return published(table(), tmp_path_factory.mktemp("several") / "release", mechanism="uniform").folder


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    """A release of five files, to be changed."""
    shutil.copytree(made, tmp_path / "release")
    return tmp_path / "release"


def records(release: Release) -> pa.Table:
    """All records, file after file."""
    return pa.concat_tables([pq.read_table(path) for path in release.manifest.list_data_paths(release.folder)])


# ----------------------------------------------------------------------------------------------------------- which file


@pytest.mark.parametrize(("rows", "files"), [(0, 1), (1, 1), (1 << 24, 1), ((1 << 24) + 1, 2), (10**9, 60)])
def test_number_of_files_follows_from_the_number_of_rows(rows: int, files: int) -> None:
    layout = Layout.of(rows)
    assert layout.files == files
    assert layout.parts * layout.files * shuffle.LARGEST_PART >= rows


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", REGISTRY)
def test_several_files_hold_the_rows_of_one_in_their_order(
    mechanism: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    one = published_by(mechanism, table(mechanism), tmp_path / "one")
    request.getfixturevalue("small_files")
    several = published_by(mechanism, table(mechanism), tmp_path / "several")
    assert (len(one.manifest.data_files), len(several.manifest.data_files)) == (1, FILES)
    assert records(several).equals(records(one))
    assert several.manifest.file_rows == tuple(
        len(pq.read_table(path)) for path in several.manifest.list_data_paths(several.folder)
    )
    assert sum(several.manifest.file_rows) == several.rows - several.people_in_counts == ROWS
    beside = [name for name in one.manifest.files if name not in (*one.manifest.data_files, README)]
    for name in beside:
        assert pq.read_table(several.folder / name).equals(pq.read_table(one.folder / name))
    assert all(check.has_passed for check in verify(several.folder, table(mechanism)).checks if check.name != "fitness")


@pytest.mark.slow
@pytest.mark.pairwise
@pytest.mark.usefixtures("small_files")
@pytest.mark.parametrize("mechanism", REGISTRY)
@pytest.mark.parametrize(
    "engine", [LocalEngine(7, 1, 0), LocalEngine(50, 4, 2000), FarEngine(13)], ids=["one thread", "four", "elsewhere"]
)
def test_same_key_gives_the_same_files(engine: Engine, mechanism: str, tmp_path: Path) -> None:
    usual, other = (
        published_by(mechanism, table(mechanism), tmp_path / name, engine=each).folder
        for name, each in (("usual", None), ("other", engine))
    )
    names = sorted(path.relative_to(usual).as_posix() for path in usual.rglob("*") if path.is_file())
    assert len([name for name in names if "/part-" in name]) == FILES
    assert [(usual / name).read_bytes() for name in names] == [(other / name).read_bytes() for name in names]
    assert sorted(os.listdir(tmp_path)) == ["other", "usual"]


def test_progress_is_told_up_to_the_last_row_of_the_last_file(tmp_path: Path, small_files: None) -> None:
    told: list[tuple[str, int, int | None]] = []
    published(table(), tmp_path / "release", engine=LocalEngine(10, 2, 0, progress=lambda *each: told.append(each)))
    for stage in ("counting", "rewriting", "writing"):
        done = [each for name, each, _ in told if name == stage]
        assert (done, done[-1]) == (sorted(done), ROWS)


# --------------------------------------------------------------------------------------------------------- same answers


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", REGISTRY)
def test_several_files_answer_as_one(mechanism: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    one = published_by(mechanism, table(mechanism), tmp_path / "one")
    request.getfixturevalue("small_files")
    several = published_by(mechanism, table(mechanism), tmp_path / "several")
    answers = [
        (
            release.count("flu", where="age >= 50"),
            release.sql("SELECT sex, COUNT(*) AS n FROM release WHERE disease = 'HIV' GROUP BY sex").rows,
            release.sql("SELECT COUNT(*) AS n, MAX(weight) AS w FROM release").rows,
            [str(each) for each in release.count_many([CountQuery({"sex": "F"}, ["flu"]), CountQuery({}, ["cold"])])],
        )
        for release in (one, several)
    ]
    assert answers[0] == answers[1]
    weights = [weights_of(release) for release in (one, several)]
    assert weights[0] == weights[1]


def weights_of(release: Release) -> list[float] | None:
    try:
        return list(release.weights("flu").to_pylist())
    except QueryError:
        return None


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", REGISTRY)
def test_sql_of_the_readme_counts_in_all_files(
    mechanism: str, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = published_by(mechanism, table(mechanism), tmp_path / "one")
    request.getfixturevalue("small_files")
    several = published_by(mechanism, table(mechanism), tmp_path / "several")
    found = []
    for release in (one, several):
        monkeypatch.chdir(release.folder)
        readme = (release.folder / README).read_text()
        found.append(duckdb.sql(readme_query(release.folder)).fetchall()[0][0])
    assert found[0] == pytest.approx(found[1])
    files = f"`{several.manifest.data_file.removesuffix('.parquet')}/*.parquet`"
    assert f"{files} has {ROWS} records" in readme or f"and {ROWS} are in {files}" in readme


def test_every_file_is_a_resource_of_its_own(made: Path) -> None:
    report = frictionless.Package(str(made / MANIFEST)).validate()
    assert report.valid, report.flatten(["title", "fieldName", "note"])
    rows = [task.stats["rows"] for task in report.tasks if task.name.startswith("data-part-")]
    assert (len(rows), sum(rows)) == (FILES, ROWS)


def test_connection_reads_the_files_of_the_release_and_no_others(made: Path) -> None:
    with Release.open(made)._open_release.open_session() as session:
        for name in (f"{made}/data/*.parquet", f"{made}/weights.parquet"):
            with pytest.raises(QueryError):
                session.fetch_rows(f"SELECT COUNT(*) FROM read_parquet('{name}')")


# ------------------------------------------------------------------------------------------------------------ the place


def test_zip_of_several_files_is_refused(tmp_path: Path, small_files: None) -> None:
    with refuses(TargetError, "too-many-files-for-zip", files=5, records=200):
        published(table(), tmp_path / "release.zip")
    assert os.listdir(tmp_path) == []


def published_over(folder: Path) -> None:
    request = Request(
        table(),
        schema=Schema.of("disease", public="*"),
        spec=BOUND,
        accept_disclosing=give_reasons(("age", "sex", "weight")),
        **ALL_ACCEPTED,
    )
    publish(request, folder, force=True, unsafe_test_key=known_key(1))


def test_release_of_several_files_is_replaced(folder: Path, tmp_path: Path) -> None:
    published_over(folder)
    assert sorted(os.listdir(tmp_path)) == ["release"]
    assert "data" not in os.listdir(folder)


@pytest.mark.parametrize("name", ["data/mine.txt", "data/part-00000.txt", "mine/part-00000.parquet", "data/mine/x"])
def test_folder_that_holds_something_else_is_not_replaced(name: str, folder: Path) -> None:
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text("mine")
    with refuses(TargetError, "target-not-a-release"):
        published_over(folder)
    assert (folder / name).read_text() == "mine"


def test_run_that_is_stopped_while_files_are_written_leaves_nothing(tmp_path: Path, small_files: None) -> None:
    def stop(stage: str, done: int, total: int | None) -> None:
        if stage == "writing":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        published(table(), tmp_path / "release", engine=LocalEngine(7, 2, 0, progress=stop))
    assert os.listdir(tmp_path) == []


# ----------------------------------------------------------------------------------------------------- hostile releases


def resources(written: dict[str, Any]) -> list[Any]:
    found: list[Any] = written["resources"]
    return found


def rename(written: dict[str, Any], path: Any) -> None:
    resources(written)[1]["path"] = path


LISTED: dict[str, Callable[[dict[str, Any]], Any]] = {
    "a part is not listed": lambda written: resources(written).pop(1),
    "the last part is not listed, nor needed": lambda written: resources(written).pop(FILES - 1),
    "a part is listed twice": lambda written: resources(written).insert(1, resources(written)[1]),
    "parts are exchanged": lambda written: resources(written).insert(0, resources(written).pop(1)),
    "a part of other records": lambda written: rename(written, "qit/part-00001.parquet"),
    "a part beside the one file": lambda written: rename(written, "data.parquet"),
    "a path out of the release": lambda written: rename(written, "data/../../part-00001.parquet"),
    "a name of another pattern": lambda written: rename(written, "data/part-1.parquet"),
    "a name that ends in a line": lambda written: rename(written, "data/part-00001.parquet\n"),
    "several paths at once": lambda written: rename(written, ["data/part-00001.parquet"]),
    "other rows": lambda written: resources(written)[1].update(rows=3),
    "rows that are no number": lambda written: resources(written)[1].update(rows="40"),
    "rows that are true": lambda written: resources(written)[1].update(rows=True),
    "no rows": lambda written: resources(written)[1].pop("rows"),
    "other columns": lambda written: resources(written)[1]["schema"]["fields"].pop(),
}


@pytest.mark.parametrize("change", LISTED.values(), ids=LISTED)
def test_manifest_that_does_not_list_the_parts_as_they_are_is_refused(
    change: Callable[[dict[str, Any]], Any], folder: Path
) -> None:
    edit_manifest(folder, change)
    try:
        release = Release.open(folder)
    except ReleaseFormatError:
        return
    # Whoever leaves the last part out, and names all others, has another release: its files are checked.
    assert release.manifest.data_files[-1] == f"data/part-0000{FILES - 2}.parquet"
    assert not verify_folder(folder).checks[0].has_passed


@pytest.mark.parametrize("name", ["data/part-00009.parquet", "data/mine.txt", "mine/x.parquet"])
def test_file_that_is_not_listed_is_noticed(name: str, folder: Path) -> None:
    (folder / name).parent.mkdir(exist_ok=True)
    shutil.copy(folder / PART, folder / name)
    check = verify_folder(folder).checks[0]
    assert (check.has_passed, name.partition("/")[0] in check.detail) == (False, True)


def test_lost_and_changed_parts_are_noticed(folder: Path) -> None:
    content = (folder / PART).read_bytes()
    (folder / PART).write_bytes(content[:-1] + b"?")
    check = verify_folder(folder).checks[0]
    assert (check.has_passed, check.detail) == (False, f"{PART} is missing or was changed after publishing.")
    (folder / PART).unlink()
    with refuses(ReleaseFormatError, "missing-file", file=PART):
        Release.open(folder)


def test_part_that_is_a_link_to_somewhere_else_is_refused(folder: Path, tmp_path: Path) -> None:
    shutil.move(folder / "data", tmp_path / "elsewhere")
    (folder / "data").symlink_to(tmp_path / "elsewhere")
    with refuses(ReleaseFormatError, "link", file="data/part-00000.parquet"):
        Release.open(folder)


def test_part_with_other_columns_is_refused(folder: Path) -> None:
    rewrite(folder, PART, lambda rows: rows.rename_columns(["age", "sex", "disease", "height"]))
    with refuses(ReleaseFormatError, "other-columns", file=PART, first_file="data/part-00000.parquet"):
        Release.open(folder)


def test_part_with_other_rows_is_refused(folder: Path) -> None:
    rows = read_json(folder)["resources"][1]["rows"]
    rewrite(folder, PART, lambda records: records.slice(1))
    with refuses(ReleaseFormatError, "other-record-count", file=PART, records=rows - 1, listed=rows):
        Release.open(folder)


def test_value_outside_the_domain_is_found_in_every_part(folder: Path) -> None:
    last = f"data/part-0000{FILES - 1}.parquet"
    rewrite(folder, last, lambda records: with_column(records, "disease", ["plague"] * len(records)))
    failed = [check.name for check in verify_folder(folder).checks if not check.has_passed]
    assert failed == ["domain", "fitness"]
