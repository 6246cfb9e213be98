"""Tables and releases in an object store, by a real S3 server on this machine."""

from __future__ import annotations

import gzip
import json
import os
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import frictionless
import pyarrow as pa
import pyarrow.parquet as pq
import pyreadstat
import pytest
from pyarrow import feather

import sfumato
from accepted import ALL_ACCEPTED
from command_line import BOUND, TEST_KEY, complaint, people, publishing, run, succeed, write_csv
from far_engine import FarEngine
from refusals import refuses
from releases import known_key, published_by
from sfumato._core.object_store import Address
from sfumato._engines import shuffle
from sfumato._query.release import Release
from sfumato._readers.open_table import open_source
from sfumato._readers.reader_registry import READERS, find_reader_of_file
from sfumato._release.manifest import MANIFEST
from sfumato.errors import ReleaseFormatError, SourceError, TargetError
from store_server import Store, make_bucket, serving

pytestmark = pytest.mark.slow
COUNT = "SELECT sex, COUNT(*) AS n FROM release WHERE disease = 'flu' GROUP BY sex"


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    with serving() as found:
        yield found


@pytest.fixture
def bucket(store: Store, request: pytest.FixtureRequest) -> str:
    """A bucket of one's own."""
    found = make_bucket(f"bucket-{zlib.crc32(request.node.name.encode())}")
    store.asked.clear()
    return found


def address(name: str) -> Address:
    found = Address.of(name, SourceError)
    assert found is not None
    return found


def names(place: str) -> list[str]:
    """What is at an address, with the names of versions left out."""
    return sorted(
        re.sub("-[0-9a-f]{16}/", "/", str(each.relative_to(address(place)))) for each in address(place).list_files()
    )


def test_release_in_a_store_answers_as_the_same_one_in_a_directory(bucket: str, desk: Path) -> None:
    table = write_csv(desk / "people.csv", people())
    far, here = f"{bucket}/some/release", desk / "release"
    for out in (far, here):
        told = succeed(*publishing(table, "--unsafe-test-key", TEST_KEY, out=out))
        assert f"written to {out}" in told.words
    assert names(far) == [MANIFEST, *(f"version/{name}" for name in names_in(here))]
    assert Release.open(far).manifest == Release.open(here).manifest
    asked = [succeed("query", str(each), COUNT, "--json").json for each in (far, here)]
    assert asked[0] == asked[1]
    assert succeed("info", far, "--json").json["rows"] == 60
    checked = run("verify", far)  # drawn with a test key, which is all that is wrong
    assert checked.code == 1
    assert checked.out == run("verify", here).out


def names_in(folder: Path) -> list[str]:
    return sorted(each.relative_to(folder).as_posix() for each in folder.rglob("*") if each.is_file())


def test_plan_file_knows_the_table_again_wherever_it_lies(bucket: str, desk: Path) -> None:
    table = write_csv(desk / "people.csv", people())
    address(f"{bucket}/tables/people.csv").put(table)
    succeed(*publishing(table, "--plan-file", "plan.json", out="release"))
    succeed(*publishing(f"{bucket}/tables/people.csv", "--plan-file", "plan.json", out=f"{bucket}/release"))
    assert Release.open(f"{bucket}/release").manifest == Release.open("release").manifest


@pytest.mark.parametrize("name", ["tables/1.parquet", "tables", "tables/*.parquet", "texts/*.csv"])
def test_table_in_a_store_is_the_table(name: str, bucket: str, desk: Path) -> None:
    halves = [people(40), people(20)]
    for number, half in enumerate(halves, 1):
        pq.write_table(pa.table(half), desk / "half.parquet")
        address(f"{bucket}/tables/{number}.parquet").put(desk / "half.parquet")
        address(f"{bucket}/texts/{number}.csv").put(write_csv(desk / "half.csv", half))
    wanted = halves[:1] if name.endswith("1.parquet") else halves
    whole = pa.concat_tables([pa.table(each) for each in wanted])
    made = [
        published_by("uniform", table, desk / out, engine=engine)
        for out, table, engine in (
            ("far", f"{bucket}/{name}", None),
            ("very far", f"{bucket}/{name}", FarEngine()),  # whose pieces are pickled and read elsewhere
            ("here", whole, None),
        )
    ]
    assert len({(each.folder / "data.parquet").read_bytes() for each in made}) == 1


def test_table_that_changes_in_the_store_is_refused(bucket: str, desk: Path) -> None:
    table = address(f"{bucket}/people.parquet")
    pq.write_table(pa.table(people(60)), desk / "one.parquet")
    pq.write_table(pa.table(people(60, age=[31])), desk / "other.parquet")
    table.put(desk / "one.parquet")

    def change(notice: object) -> None:
        table.put(desk / "other.parquet")

    request = sfumato.Request(
        str(table),
        schema=sfumato.Schema.of("disease", public="*"),
        spec=sfumato.BreachBound("1/10", "1/2"),
        **ALL_ACCEPTED,
    )
    with refuses(SourceError, "table-changed"):
        sfumato.publish(request, desk / "release", unsafe_test_key=known_key(0), on_notice=change)
    assert not (desk / "release").exists()


def test_store_that_refuses_half_way_is_named_and_nothing_is_left(
    bucket: str, store: Store, desk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sfumato._engines.scan_cache.MOST_ROW_BYTES", 0)  # as a wide table, which is read twice
    pq.write_table(pa.table(people(60)), desk / "people.parquet")
    address(f"{bucket}/people.parquet").put(desk / "people.parquet")
    schema, bound = sfumato.Schema.of("disease", public="*"), sfumato.BreachBound("1/10", "1/2")
    request = sfumato.Request(f"{bucket}/people.parquet", schema=schema, spec=bound, **ALL_ACCEPTED)

    def refuse(notice: object) -> None:
        store.refused = re.compile("GET .*people.parquet")

    try:
        with refuses(SourceError, "unreadable-file", file="people.parquet", reason="access denied"):
            sfumato.publish(request, desk / "release", on_notice=refuse)
    finally:
        store.refused = None
    assert names_in(desk) == ["people.parquet"]


def test_release_appears_with_its_manifest_which_comes_last(bucket: str, store: Store, desk: Path) -> None:
    succeed(*publishing(write_csv(desk / "people.csv", people()), out=f"{bucket}/release"))
    written = [asked for asked in store.asked if asked.startswith(("PUT", "POST"))]
    assert written[-1].endswith(f"/release/{MANIFEST}")
    version = next(each.parent for each in address(f"{bucket}/release").list_files() if "version-" in each.key)
    address(f"{bucket}/release/{MANIFEST}").remove()
    assert version.is_dir()
    with refuses(ReleaseFormatError, "no-manifest", release=f"{bucket}/release"):
        Release.open(f"{bucket}/release")


@pytest.mark.parametrize("step", [r"(PUT|POST) .*README", rf"(PUT|POST) .*release/{MANIFEST}"])
def test_what_cannot_be_put_leaves_nothing_and_the_old_release_as_it_was(
    step: str, bucket: str, store: Store, desk: Path
) -> None:
    table, out = write_csv(desk / "people.csv", people()), f"{bucket}/release"
    with store.refusing(step):
        assert "access denied" in complaint(run(*publishing(table, "--plan-file", "plan.json", out=out)))
    assert names(out) == []
    assert not (desk / "plan.json").exists()
    succeed(*publishing(table, out=out))
    before = succeed("query", out, COUNT).out
    with store.refusing(step):
        complaint(run(*publishing(table, "--force", out=out)))
    assert succeed("query", out, COUNT).out == before
    assert len([name for name in names(out) if name == "version/data.parquet"]) == 1


def test_replacing_lets_readers_of_the_old_release_end_and_leaves_one_version(bucket: str, desk: Path) -> None:
    table, out = write_csv(desk / "people.csv", people()), f"{bucket}/release"
    succeed(*publishing(table, out=out))
    assert "--force" in complaint(run(*publishing(table, out=out)))
    (leftover := address(f"{out}/version-0123456789abcdef/data.parquet")).put(b"of a run that was killed")
    early, late = Release.open(out), Release.open(out)
    expected = early.count("flu").value  # which fetches the records
    succeed(*publishing(write_csv(table, people(90)), "--force", out=out))
    assert early.count("flu").value == expected
    with refuses(ReleaseFormatError, "missing-file", file="data.parquet") as refused:
        late.count("flu")
    assert "being replaced" in str(refused.value)
    assert Release.open(out).rows == 90
    assert not leftover.is_file()
    assert len(names(out)) == 1 + len(names_in(early.folder))


def test_publishing_the_same_again_changes_nothing(bucket: str, store: Store, desk: Path) -> None:
    table, out = write_csv(desk / "people.csv", people()), f"{bucket}/release"
    again = publishing(table, "--plan-file", "plan.json", out=out)
    succeed(*again)
    before = address(f"{out}/{MANIFEST}").read_bytes(1 << 20)
    with store.refusing(r"(PUT|POST|DELETE) "):  # all of it is there already
        succeed(*again, "--force")
    succeed("verify", out)
    (readme,) = (each for each in address(out).list_files() if each.name == "README.md")
    readme.put(b"spoilt")
    with store.refusing(r"(PUT|POST) .*README"):  # the version is not removed: it is the one that is out
        complaint(run(*again, "--force"))
    succeed(*again, "--force")
    assert address(f"{out}/{MANIFEST}").read_bytes(1 << 20) == before
    succeed("verify", out)


def test_publishing_the_same_again_spoils_nothing_when_it_is_cut_off(
    bucket: str, desk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was written of an object so far appears when its stream is closed, in the place of the whole one."""
    table, out = write_csv(desk / "people.csv", people()), f"{bucket}/release"
    again = publishing(table, "--plan-file", "plan.json", out=out)
    succeed(*again)

    def cut_off(file: Any, sink: Any, size: int) -> None:
        sink.write(file.read(10))
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("sfumato._core.object_store.shutil.copyfileobj", cut_off)
        run(*again, "--force")
    succeed("verify", out)


def test_file_of_the_same_version_that_was_cut_off_is_put_again(bucket: str, desk: Path) -> None:
    table, out = write_csv(desk / "people.csv", people()), f"{bucket}/release"
    again = publishing(table, "--plan-file", "plan.json", out=out)
    succeed(*again)
    (data,) = (each for each in address(out).list_files() if each.name == "data.parquet")
    whole = data.read_bytes(1 << 20)
    for damaged in (whole[:-1], whole[:-1] + b"?"):
        data.put(damaged)
        succeed(*again, "--force")
        assert data.read_bytes(1 << 20) == whole


def test_neighbours_of_a_release_are_not_touched(bucket: str, desk: Path) -> None:
    table = write_csv(desk / "people.csv", people())
    neighbours = [f"{bucket}/release{end}" for end in ("2", " 3", "%2F4", "#5")]
    for out in (*neighbours, f"{bucket}/release"):
        succeed(*publishing(table, out=out))
    before = [names(out) for out in neighbours]
    succeed(*publishing(write_csv(table, people(90)), "--force", out=f"{bucket}/release"))
    assert [names(out) for out in neighbours] == before
    assert [Release.open(out).rows for out in neighbours] == [60] * len(neighbours)


def test_what_is_no_release_is_not_replaced(bucket: str, desk: Path) -> None:
    table = write_csv(desk / "people.csv", people())
    address(f"{bucket}/mine/thesis.txt").put(b"three years")
    for force in ([], ["--force"]):
        assert "not a release" in complaint(run(*publishing(table, *force, out=f"{bucket}/mine")))
    assert names(f"{bucket}/mine") == ["thesis.txt"]


def test_copy_of_a_store_is_a_release(bucket: str, desk: Path) -> None:
    succeed(*publishing(write_csv(desk / "people.csv", people()), out=f"{bucket}/release"))
    for each in address(f"{bucket}/release").list_files():
        path = desk / "copy" / each.relative_to(address(f"{bucket}/release"))
        path.parent.parent.mkdir(exist_ok=True)
        each.fetch(path)
    resource = frictionless.Package(str(desk / "copy" / MANIFEST)).get_resource("data")
    assert len(resource.read_rows()) == 60
    assert succeed("query", "copy", COUNT).out == succeed("query", f"{bucket}/release", COUNT).out
    succeed("verify", "copy")
    (version,) = (desk / "copy").glob("version-*")
    version.rename(desk / "elsewhere")
    version.symlink_to(desk / "elsewhere")
    assert "link to somewhere else" in complaint(run("info", "copy"))


def test_release_put_there_by_other_means_is_read_and_replaced(bucket: str, desk: Path) -> None:
    table = write_csv(desk / "people.csv", people())
    succeed(*publishing(table, out="release"))
    for name in names_in(desk / "release"):
        address(f"{bucket}/release/{name}").put(desk / "release" / name)
    assert succeed("query", f"{bucket}/release", COUNT).out == succeed("query", "release", COUNT).out
    succeed(*publishing(table, "--force", out=f"{bucket}/release"))
    assert names(f"{bucket}/release") == [MANIFEST, *(f"version/{name}" for name in names_in(desk / "release"))]


@pytest.mark.parametrize("mechanism", ["uniform", "buckets"])
def test_engine_counts_where_the_records_are(mechanism: str, bucket: str, desk: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shuffle, "FILE_ROWS", 40)
        here = published_by(mechanism, pa.table(people(100)), desk / "release")
        published_by(mechanism, pa.table(people(100)), f"{bucket}/release")
    far = Release.open(f"{bucket}/release")
    queries = [sfumato.CountQuery({"sex": "F"}, ["flu"]), sfumato.CountQuery({"age": [30, 40]})]
    assert list(far.count_many(queries, engine=FarEngine())) == list(here.count_many(queries))
    assert len(far.records) == 3
    assert not [path for path in far.local_folder.rglob("part-*")]  # nothing of them came here
    assert list(far.count_many(queries)) == list(here.count_many(queries))  # now it did


def test_table_beside_the_records_that_is_absurd_is_refused(bucket: str, desk: Path) -> None:
    succeed(*publishing(write_csv(desk / "people.csv", people()), out=f"{bucket}/release"))
    pq.write_table(pa.table({"value": pa.nulls(3_000_000, pa.int8())}), desk / "bomb.parquet", compression="zstd")
    (weights,) = (each for each in address(f"{bucket}/release").list_files() if each.name == "weights.parquet")
    weights.put(desk / "bomb.parquet")
    with refuses(ReleaseFormatError, "too-many-lines", file="weights.parquet", lines=3_000_000):
        Release.open(f"{bucket}/release")


def test_spool_is_private_and_goes_with_the_release(bucket: str, desk: Path) -> None:
    succeed(*publishing(write_csv(desk / "people.csv", people()), out=f"{bucket}/release"))
    release = Release.open(f"{bucket}/release")
    assert not (release.local_folder / "data.parquet").exists()  # not before somebody asks
    spool = release.folder
    assert (spool / "data.parquet").exists()
    assert spool.stat().st_mode & 0o077 == 0
    del release
    assert not spool.exists()


@pytest.mark.parametrize(
    "command", [("info", "{}"), ("query", "{}", COUNT), ("verify", "{}"), ("measure", "{}", "--sensitive", "disease")]
)
def test_what_is_not_there_gets_one_sentence(command: tuple[str, ...], bucket: str, desk: Path) -> None:
    for place in (f"{bucket}/nothing", "s3://no-such-bucket/nothing"):
        sentence = complaint(run(*(part.format(place) for part in command)))
        assert place in sentence
        assert "very-secret" not in sentence


def test_table_that_is_not_there_gets_one_sentence(bucket: str, desk: Path) -> None:
    for place in (f"{bucket}/none.csv", f"{bucket}/none", "s3://no-such-bucket/none.parquet"):
        assert place in complaint(run(*publishing(place, out="release")))
    assert "no such bucket" in complaint(
        run(*publishing(write_csv(desk / "people.csv", people()), out="s3://no-such-bucket/release"))
    )


def test_measuring_and_drafting_read_from_a_store(bucket: str, desk: Path) -> None:
    address(f"{bucket}/people.csv").put(write_csv(desk / "people.csv", people()))
    far = succeed("measure", f"{bucket}/people.csv", "--sensitive", "disease", "--json").json
    assert far == succeed("measure", "people.csv", "--sensitive", "disease", "--json").json
    succeed("init", f"{bucket}/people.csv", "--sensitive", "disease", "--out", "far.toml")
    assert f'path = "{bucket}/people.csv"' in (desk / "far.toml").read_text()
    succeed("publish", "far.toml", *BOUND, "--out", f"{bucket}/release")
    far = succeed("measure", f"{bucket}/release", "--public", "age", "--json").json
    assert far == succeed("measure", "people.csv", "--public", "age", "--json").json
    assert "copy the table to this machine" in complaint(run("lint", f"{bucket}/people.csv"))


def test_no_credentials_are_written_or_said(bucket: str, desk: Path) -> None:
    table = write_csv(desk / "people.csv", people())
    outcome = succeed(*publishing(table, "--plan-file", "plan.json", out=f"{bucket}/release"))
    written = [path.read_bytes() for path in desk.rglob("*") if path.is_file()]
    written += [each.open("rb").read() for each in address(f"{bucket}/release").list_files()]
    for secret in (b"very-secret", b"AKIANOBODY", os.environ["AWS_ENDPOINT_URL"].encode()):
        assert not any(secret in each for each in [*written, outcome.out.encode(), outcome.err.encode()])


def test_zip_is_for_files_here(bucket: str, desk: Path) -> None:
    with refuses(TargetError, "invalid-target", file=f"{bucket}/release.zip"):
        published_by("uniform", pa.table(people()), f"{bucket}/release.zip")


def test_every_kind_of_file_is_read_from_a_store(bucket: str, desk: Path) -> None:
    table = pa.table(people(60))
    text = write_csv(desk / "people.csv", people(60)).read_bytes()
    feather.write_feather(table, desk / "a.feather")
    pq.write_table(table, desk / "a.parquet")
    frame = table.to_pandas()
    frame.to_excel(desk / "a.xlsx", index=False)
    pyreadstat.write_sav(frame, desk / "a.sav")
    pyreadstat.write_dta(frame, desk / "a.dta")
    pyreadstat.write_xport(frame, desk / "a.xpt")
    rows = "".join(json.dumps(row) + "\n" for row in table.to_pylist()).encode()
    given = {path.name: path.read_bytes() for path in desk.glob("a.*")}
    given |= {"a.csv.gz": gzip.compress(text), "a.jsonl": rows}
    tried = {reader.name for name in given if (reader := find_reader_of_file(Path(name)))}
    assert tried | {"SAS"} == {reader.name for reader in READERS.values() if reader.reads_stores}
    for name, content in given.items():
        (address(bucket) / name).put(content)
        source = open_source(f"{bucket}/{name}", desk / "spool")
        read = pa.Table.from_batches(source.read_batches(table.column_names, 25))
        assert read.to_pydict() == table.to_pydict()
    (address(bucket) / "a.duckdb").put(b"")
    with refuses(SourceError, "table-in-store", file="a.duckdb", format="DuckDB"):
        open_source(f"{bucket}/a.duckdb::people", desk / "spool")


def test_release_with_csv_files_is_fetched_whole(bucket: str, desk: Path) -> None:
    table = write_csv(desk / "people.csv", people())
    succeed(*publishing(table, "--format", "csv", out=f"{bucket}/release"))
    release = Release.open(f"{bucket}/release")
    assert (release.folder / "data.csv").is_file()
    assert succeed("verify", f"{bucket}/release").code == 0


def test_noisy_counts_in_a_store_are_those_of_a_directory(bucket: str, desk: Path) -> None:
    far, here = f"{bucket}/noisy", desk / "noisy"
    releases = [published_by("noisy-counts", pa.table(people()), out) for out in (far, here)]
    assert releases[0].people_in_counts == releases[1].people_in_counts > 0
    assert [str(Release.open(out).sql(COUNT).to_table()) for out in (far, here)] == [
        str(release.sql(COUNT).to_table()) for release in releases
    ]
