"""A release as a thing: a Data Package that opens from a directory or one file, and trusts nothing in it."""

from __future__ import annotations

import contextlib
import datetime
import gc
import shutil
import socket
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import frictionless
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accepted import ALL_ACCEPTED, give_reasons
from refusals import refuses
from releases import BOUND, FILES, WAYS, edit_manifest, known_key, people, published, published_by, read_json
from sfumato._publish.publication import publish
from sfumato._publish.request import Request
from sfumato._query.release import Release
from sfumato._records import DATA_FILE
from sfumato._release.manifest import MANIFEST
from sfumato._release.release_folder import pack, unpack
from sfumato._request.schema import Schema
from sfumato.errors import ReleaseFormatError
from sfumato.mechanisms._subset_selection import subset_mechanism as subset


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A release that nobody changes."""
    return published(people(), tmp_path_factory.mktemp("release") / "release").folder


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    """A release of one's own."""
    return Path(shutil.copytree(made, tmp_path / "release"))


# --------------------------------------------------------------------------------------------------------- Data Package


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Refuses every connection, and remembers who asked for one."""
    asked: list[Any] = []

    def refuse(*arguments: Any, **options: Any) -> Any:
        asked.append(arguments)
        raise OSError("there is no network in this test")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr(socket.socket, "connect", refuse)
    return asked


def everything() -> pa.Table:
    """A column of every type, with and without missing values, and an empty text."""
    moment = datetime.datetime(2024, 2, 29, 12, 30, tzinfo=datetime.UTC)
    return people(
        town=["", "Aix", 'a,b\n"c"', "nan"],
        nickname=["", None, "x"],
        children=[0, 1, None],
        height=[1.5, None, 2.25],
        smoker=[True, False],
        donor=[True, None],
        born=[datetime.date(1970, 1, 1), None, datetime.date(2001, 12, 31)],
        seen=[moment.replace(tzinfo=None), None],
        called=[moment, moment + datetime.timedelta(days=200)],
    )


def errors_of(descriptor: Path) -> list[tuple[str, str]]:
    """What frictionless has to say against a package: the type of each error, and where it is."""
    report = frictionless.Package(str(descriptor)).validate()
    return sorted({(error.type, getattr(error, "field_name", "")) for task in report.tasks for error in task.errors})


@pytest.mark.slow
@pytest.mark.parametrize("sensitive", ["disease", "town", "donor", "born", "seen", "nickname"])
def test_release_is_a_valid_data_package(tmp_path: Path, no_network: list[Any], sensitive: str) -> None:
    release = published(everything(), tmp_path / "release", schema=Schema.of(sensitive, keep=["town"], public="*"))
    package = frictionless.Package(str(release.folder / MANIFEST))
    report = package.validate()
    assert report.valid, report.flatten(["title", "fieldName", "note"])
    assert [(task.name, task.type) for task in report.tasks] == [
        ("data", "table"),
        ("weights", "table"),
        ("readme", "text"),
    ]
    assert report.tasks[0].stats["rows"] == release.rows
    assert no_network == []


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (lambda field: field.update(type="integer"), ("type-error", "disease")),
        (lambda field: field.update(name="illness"), ("incorrect-label", "illness")),
        (lambda field: field["constraints"].update(enum=["flu"]), ("constraint-error", "disease")),
    ],
    ids=["type", "name", "constraint"],
)
def test_data_package_that_is_wrong_would_be_noticed(
    folder: Path, change: Callable[[dict[str, Any]], Any], error: tuple[str, str]
) -> None:
    edit_manifest(folder, lambda written: change(written["resources"][0]["schema"]["fields"][2]))
    assert error in errors_of(folder / MANIFEST)


def test_data_package_says_its_version(made: Path) -> None:
    written = read_json(made)
    assert written["$schema"] == "https://datapackage.org/profiles/2.0/datapackage.json"
    assert [resource["path"] for resource in written["resources"]] == list(FILES)


# ------------------------------------------------------------------------------------------------ directory or one file


def test_release_opens_from_a_directory(made: Path) -> None:
    release = Release.open(str(made))
    assert (release.rows, release.path, release.folder) == (60, made, made)
    assert "at most 1/2" in release.guarantee.exact


def test_release_in_one_file_gives_the_same_answers(made: Path, tmp_path: Path) -> None:
    pack(made, tmp_path / "release.zip")
    packed = Release.open(tmp_path / "release.zip")
    assert packed.manifest == Release.open(made).manifest
    assert packed.count("flu") == Release.open(made).count("flu")


def test_publishing_to_one_file_publishes_the_same_release(made: Path, tmp_path: Path) -> None:
    packed = published(people(), tmp_path / "release.zip")
    assert {path.name: path.read_bytes() for path in packed.folder.iterdir()} == {
        path.name: path.read_bytes() for path in made.iterdir()
    }


def test_packing_twice_gives_the_same_bytes(folder: Path, tmp_path: Path) -> None:
    pack(folder, tmp_path / "one.zip")
    for path in folder.iterdir():
        path.touch()
        path.chmod(0o600)
    pack(folder, tmp_path / "other.zip")
    assert (tmp_path / "one.zip").read_bytes() == (tmp_path / "other.zip").read_bytes()


def test_packed_file_says_no_date_no_system_and_no_rights(made: Path, tmp_path: Path) -> None:
    pack(made, tmp_path / "release.zip")
    with zipfile.ZipFile(tmp_path / "release.zip") as archive:
        entries = archive.infolist()
        assert archive.comment == b""
    assert [entry.filename for entry in entries] == [MANIFEST, *FILES]
    assert {entry.date_time for entry in entries} == {(1980, 1, 1, 0, 0, 0)}
    assert {entry.external_attr >> 16 for entry in entries} == {0o600}
    assert {entry.comment for entry in entries} == {b""}


@pytest.mark.slow
def test_unpacked_files_go_with_the_release(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pack(made, tmp_path / "release.zip")
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    release = Release.open(tmp_path / "release.zip")
    assert release.folder.is_relative_to(tmp_path / "temporary")
    del release
    gc.collect()
    assert list((tmp_path / "temporary").iterdir()) == []


# ------------------------------------------------------------------------------------------------------------- refusals

Change = Callable[[zipfile.ZipFile], Any]


def packed_with(made: Path, path: Path, change: Change, leave_out: str = "") -> Path:
    """The release in one file, with something else in it."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for name in (MANIFEST, *FILES):
            if name != leave_out:
                archive.write(made / name, name)
        change(archive)
    return path


def _compressed(archive: zipfile.ZipFile) -> None:
    archive.writestr(DATA_FILE, b"0" * 1_000_000, zipfile.ZIP_DEFLATED)


@pytest.mark.parametrize(
    "change",
    [
        lambda archive: archive.writestr("notes.txt", "x"),
        lambda archive: archive.writestr("../escaped.txt", "x"),
        lambda archive: archive.writestr("/escaped.txt", "x"),
        lambda archive: archive.writestr("sub/data.parquet", "x"),
        lambda archive: archive.writestr("DATA.parquet", "x"),
        lambda archive: archive.mkdir("sub"),
    ],
    ids=["foreign file", "parent", "root", "directory", "capitals", "empty directory"],
)
def test_packed_release_with_a_foreign_entry_is_refused(made: Path, tmp_path: Path, change: Change) -> None:
    path = packed_with(made, tmp_path / "release.zip", change)
    with refuses(ReleaseFormatError, "foreign-content", file="release.zip"):
        Release.open(path)
    assert not list(tmp_path.parent.glob("escaped*"))


def test_packed_release_with_a_compressed_entry_is_refused(made: Path, tmp_path: Path) -> None:
    path = packed_with(made, tmp_path / "release.zip", _compressed, leave_out=DATA_FILE)
    with refuses(ReleaseFormatError, "foreign-content", file="release.zip"):
        Release.open(path)


@pytest.mark.parametrize("name", [MANIFEST, *FILES])
def test_packed_release_that_lacks_a_file_is_refused(made: Path, tmp_path: Path, name: str) -> None:
    path = packed_with(made, tmp_path / "release.zip", lambda archive: None, leave_out=name)
    with refuses(ReleaseFormatError, "no-manifest" if name == MANIFEST else "missing-file"):
        Release.open(path)


def test_packed_release_that_is_locked_is_refused(made: Path, tmp_path: Path) -> None:
    content = bytearray(packed_with(made, tmp_path / "release.zip", lambda archive: None).read_bytes())
    for mark, flags in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        place = content.find(mark)
        content[place + flags] |= 1  # the bit that says: encrypted
    (tmp_path / "locked.zip").write_bytes(content)
    with refuses(ReleaseFormatError, "not-a-release", file="locked.zip"):
        Release.open(tmp_path / "locked.zip")


@pytest.fixture(scope="module")
def scratch(made: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A packed release that each example damages anew."""
    folder = tmp_path_factory.mktemp("damaged")
    pack(made, folder / "whole.zip")
    return folder


@given(st.integers(0), st.integers(0, 255), st.booleans())
def test_damaged_packed_release_is_opened_or_refused(scratch: Path, place: int, byte: int, cut: bool) -> None:
    content = bytearray((scratch / "whole.zip").read_bytes())
    place %= len(content)
    content[place:] = b"" if cut else bytes([byte]) + content[place + 1 :]
    (scratch / "damaged.zip").write_bytes(content)
    with tempfile.TemporaryDirectory(dir=scratch) as target:
        with contextlib.suppress(ReleaseFormatError):
            unpack(scratch / "damaged.zip", Path(target))
        assert {path.name for path in Path(target).rglob("*")} <= {MANIFEST, *FILES}


def test_refused_release_leaves_nothing_unpacked(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = packed_with(made, tmp_path / "release.zip", lambda archive: archive.writestr("notes.txt", "x"))
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    with pytest.raises(ReleaseFormatError):
        Release.open(path)
    assert list((tmp_path / "temporary").iterdir()) == []


@pytest.mark.parametrize("name", FILES)
def test_directory_that_lacks_a_file_is_refused(folder: Path, name: str) -> None:
    (folder / name).unlink()
    with refuses(ReleaseFormatError, "missing-file", file=name):
        Release.open(folder)


def test_rows_of_damaged_data_are_not_told(folder: Path) -> None:
    (folder / DATA_FILE).write_bytes(b"PAR1 and no more")
    with refuses(ReleaseFormatError, "damaged-file", file="data.parquet"):
        Release.open(folder).rows  # noqa: B018 - reading it is the point


def test_what_is_not_there_is_refused(tmp_path: Path) -> None:
    with refuses(ReleaseFormatError, "missing-file", file=str(tmp_path / "nowhere")):
        Release.open(tmp_path / "nowhere")


@pytest.mark.parametrize("content", [b"", b"PK", b"a,b\n1,2\n"], ids=["empty", "cut off", "CSV"])
def test_file_that_is_no_release_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "people.csv").write_bytes(content)
    with refuses(ReleaseFormatError, "not-a-release", file="people.csv"):
        Release.open(tmp_path / "people.csv")


# ------------------------------------------------------------------------------------------- what there is to ask about


@pytest.mark.parametrize("mechanism", WAYS)
def test_columns_are_those_that_can_be_asked_about(mechanism: str, tmp_path: Path) -> None:
    """However a mechanism writes what it protects: as values, bits, cells or buckets."""
    release = published_by(mechanism, people(), tmp_path / "release")
    assert sorted(release.columns) == [
        ("age", "integer", "public"),
        ("disease", "string", "protected"),
        ("sex", "string", "public"),
    ]
    for name, _, _ in release.columns:
        release.sql(f"SELECT {name}, COUNT(*) FROM release GROUP BY {name}")


def test_sets_in_columns_are_asked_about_by_the_column_they_are_of(tmp_path: Path) -> None:
    options = {"subset": subset.Options(form=subset.Form.COLUMNS)}
    request = Request(
        people(),
        schema=Schema.of("disease", public="*"),
        spec=BOUND,
        mechanism="subset",
        options=options,
        accept_disclosing=give_reasons(("age", "sex")),
        **ALL_ACCEPTED,
    )
    release = publish(request, tmp_path / "release", unsafe_test_key=known_key(0)).release
    assert [name for name, _, _ in release.columns] == ["age", "sex", "disease"]


def test_values_are_those_of_each_protected_column(tmp_path: Path) -> None:
    table = people(place=["here", "here", None])
    domains = {"disease": ["HIV", "asthma", "cold", "flu"], "place": ["here", None]}
    release = published(
        table, tmp_path / "release", schema=Schema.of(compound=["disease", "place"], public="*", domains=domains)
    )
    assert release.values == {"disease": ("HIV", "asthma", "cold", "flu"), "place": ("here", None)}


def test_rows_say_that_they_do_not_show_what_is_protected(made: Path) -> None:
    release = Release.open(made)
    note = "'disease' is protected, so rows do not show it; count its values with GROUP BY."
    assert release.sql("SELECT * FROM release LIMIT 1").note == note
    assert release.sql("SELECT r.* EXCLUDE (age) FROM release AS r LIMIT 1").note == note
    assert release.sql("SELECT age, COUNT(*) FROM release GROUP BY age").note is None
