"""A release from a stranger: it cannot lead out of its directory, and claims no more than it holds.

Files are crafted: footers of Parquet files are edited to claim what is not there, and archives hold what `zipfile`
would not write by itself. Everything is refused by one sentence, and before anything is made as large as it says.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import struct
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from command_line import fail, run, run_apart
from refusals import refuses
from releases import WAYS, edit_manifest, people, published_by, read_json
from selection import examples
from sfumato._query.counting.count_request import CountQuery
from sfumato._query.release import Release
from sfumato._records import DATA_FILE
from sfumato._records.bucket_records import BUCKET_CONTENTS, BUCKET_RECORDS
from sfumato._release import untrusted_files as sizes
from sfumato._release.manifest import MANIFEST, README, WEIGHTS
from sfumato._release.release_folder import pack, unpack
from sfumato.errors import ErrorField, ReleaseFormatError, SfumatoError

ROWS = 120
QUESTION = "SELECT COUNT(*) FROM release WHERE disease = 'flu'"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A release by each mechanism that nobody changes."""
    folder = tmp_path_factory.mktemp("made")
    return {name: published_by(name, people(ROWS), folder / name).folder for name in sorted(WAYS)}


@pytest.fixture
def folder(made: dict[str, Path], desk: Path) -> Path:
    """A release of one's own, by `uniform`, in the working directory."""
    return Path(shutil.copytree(made["uniform"], desk / "release"))


def refused(folder: Path, code: str, **facts: ErrorField) -> None:
    """Opening is refused, in Python and by every command, without much memory."""
    tracemalloc.start()
    with refuses(ReleaseFormatError, code, **facts):
        Release.open(folder)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 8 << 20
    for command in (["info", folder], ["query", folder, QUESTION], ["verify", folder]):
        assert "Traceback" not in fail(folder, *command)


# ---------------------------------------------------------------------------------------------------------------- links


@pytest.mark.parametrize("name", [MANIFEST, DATA_FILE, WEIGHTS, README])
def test_link_to_a_file_outside_is_refused(folder: Path, name: str) -> None:
    (folder / name).rename(folder.parent / name)
    (folder / name).symlink_to(folder.parent / name)
    refused(folder, "link", file=name)


@pytest.mark.parametrize("target", ["/dev/zero", "/etc/passwd", "../../nowhere", "datapackage.json"])
@pytest.mark.parametrize("name", [MANIFEST, DATA_FILE])
def test_link_to_anything_else_is_refused(folder: Path, name: str, target: str) -> None:
    if target == name:
        target = f"./{name}"  # a link to itself
    (folder / name).unlink()
    (folder / name).symlink_to(target)
    if (name, target) == (DATA_FILE, MANIFEST):
        with refuses(ReleaseFormatError, "damaged-file", file="data.parquet"):
            Release.open(folder).count("flu")
    else:
        refused(folder, "link", file=name)


def test_links_inside_and_to_the_whole_are_followed(folder: Path) -> None:
    (folder / DATA_FILE).rename(folder / "kept")
    (folder / DATA_FILE).symlink_to("kept")
    (folder.parent / "other").symlink_to(folder)
    assert Release.open(folder.parent / "other").rows == ROWS


@pytest.mark.parametrize("name", [MANIFEST, DATA_FILE])
def test_pipe_is_refused_and_not_waited_for(folder: Path, name: str) -> None:
    (folder / name).unlink()
    os.mkfifo(folder / name)
    with refuses(ReleaseFormatError, "not-a-regular-file", file=name):
        Release.open(folder)


@pytest.mark.parametrize(
    "path",
    ["../data.parquet", "/etc/passwd", "sub/../../data.parquet", "https://example.org/x", "", None, ["data.parquet"]],
)
@pytest.mark.parametrize("number", [0, -1])
def test_path_that_is_no_file_of_a_release_is_refused(folder: Path, path: Any, number: int) -> None:
    shutil.copy(folder / DATA_FILE, folder.parent / DATA_FILE)
    edit_manifest(folder, lambda written: written["resources"][number].update(path=path))
    refused(folder, "foreign-file", file=str(path))


def test_file_that_is_listed_beside_those_of_the_release_is_refused(folder: Path) -> None:
    edit_manifest(folder, lambda written: written["resources"].append({"name": "more", "path": "../more.csv"}))
    refused(folder, "foreign-file", file="../more.csv")


# ------------------------------------------------------------------------------------------------------------- archives


def archived(made: Path, path: Path, change: Callable[[zipfile.ZipFile], Any], leave_out: str = "") -> Path:
    """The release in one file, with something else in it."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for name in (MANIFEST, DATA_FILE, WEIGHTS, README):
            if name != leave_out:
                archive.write(made / name, name)
        change(archive)
    return path


def _link(archive: zipfile.ZipFile) -> None:
    entry = zipfile.ZipInfo(README)
    entry.external_attr = (stat.S_IFLNK | 0o777) << 16
    archive.writestr(entry, "/etc/passwd")


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize(
    "change",
    [
        lambda archive: archive.writestr(README, "twice"),
        lambda archive: archive.writestr(DATA_FILE, "twice"),
        lambda archive: archive.writestr("../data.parquet", "x"),
        lambda archive: archive.writestr("/tmp/data.parquet", "x"),
        lambda archive: archive.writestr("./data.parquet", "x"),
        lambda archive: archive.writestr("..\\data.parquet", "x"),
        lambda archive: archive.writestr("C:data.parquet", "x"),
        lambda archive: archive.writestr("data.parquet/", ""),
    ],
)
def test_archive_with_other_entries_is_refused(
    made: dict[str, Path], desk: Path, change: Callable[[zipfile.ZipFile], Any]
) -> None:
    archived(made["uniform"], desk / "release.zip", change)
    assert "has content that no release has" in fail(desk, "query", "release.zip", QUESTION)


@pytest.mark.parametrize(
    "change",
    [
        _link,
        lambda archive: archive.writestr(README, bytes(50_000_000), zipfile.ZIP_DEFLATED),
        lambda archive: archive.writestr(README, bytes(5_000_000), zipfile.ZIP_LZMA),
        lambda archive: archive.writestr(README, bytes(5_000_000), zipfile.ZIP_BZIP2),
    ],
    ids=["link", "deflated", "lzma", "bzip2"],
)
def test_archive_with_a_link_or_a_bomb_is_refused(
    made: dict[str, Path], desk: Path, change: Callable[[zipfile.ZipFile], Any]
) -> None:
    path = archived(made["uniform"], desk / "release.zip", change, leave_out=README)
    assert path.stat().st_size < 100_000
    assert "has content that no release has" in fail(desk, "query", "release.zip", QUESTION)


@pytest.mark.parametrize("claimed", [1 << 30, (1 << 32) - 2])
@pytest.mark.parametrize("place", [20, 24], ids=["stored", "unpacked"])
def test_archive_whose_entry_claims_to_be_larger_is_refused(
    made: dict[str, Path], desk: Path, claimed: int, place: int
) -> None:
    content = bytearray(archived(made["uniform"], desk / "release.zip", lambda archive: None).read_bytes())
    directory = content.find(b"PK\x01\x02")
    content[directory + place : directory + place + 4] = struct.pack("<I", claimed)
    (desk / "release.zip").write_bytes(content)
    assert "has content that no release has" in fail(desk, "info", "release.zip")


def test_archive_whose_entries_overlap_is_refused(made: dict[str, Path], desk: Path) -> None:
    """Four entries that are the same bytes, each as long as nearly all of the file."""
    content = bytearray(archived(made["uniform"], desk / "release.zip", lambda archive: None).read_bytes())
    directory, size = content.find(b"PK\x01\x02"), len(content) - 400
    at = directory
    while content[at : at + 4] == b"PK\x01\x02":
        content[at + 20 : at + 28] = struct.pack("<II", size, size)
        at += 46 + sum(struct.unpack("<HHH", content[at + 28 : at + 34]))
    (desk / "release.zip").write_bytes(content)
    fail(desk, "info", "release.zip")


def test_archive_with_a_name_that_is_no_text_is_refused(made: dict[str, Path], desk: Path) -> None:
    content = bytearray(archived(made["uniform"], desk / "release.zip", lambda archive: None).read_bytes())
    directory = content.find(b"PK\x01\x02")
    content[directory + 9] |= 0x08  # the names are in UTF-8
    content[directory + 46] = 0xFF
    (desk / "release.zip").write_bytes(content)
    assert "is not the directory or .zip of a release" in fail(desk, "info", "release.zip")


@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_damaged_archive_is_unpacked_or_refused(made: dict[str, Path], tmp_path: Path, data: st.DataObject) -> None:
    """Bytes of the directory are changed, where names, sizes and places stand."""
    if not (tmp_path / "whole.zip").exists():
        pack(made["uniform"], tmp_path / "whole.zip")
    content = bytearray((tmp_path / "whole.zip").read_bytes())
    directory = content.find(b"PK\x01\x02")
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(directory, len(content) - 1))] = data.draw(st.integers(0, 255))
    (tmp_path / "damaged.zip").write_bytes(content)
    target = tmp_path / "target"
    target.mkdir(exist_ok=True)
    with contextlib.suppress(ReleaseFormatError):
        unpack(tmp_path / "damaged.zip", target)
    assert sum(path.stat().st_size for path in target.iterdir()) <= len(content)
    assert {path.name for path in tmp_path.iterdir()} == {"whole.zip", "damaged.zip", "target"}
    shutil.rmtree(target)


# -------------------------------------------------------------------------------------------------------- absurd sizes


def number(value: int) -> bytes:
    """A whole number as Thrift writes it in a footer."""
    value = (value << 1) ^ (value >> 63)
    found = b""
    while value > 0x7F:
        found += bytes([value & 0x7F | 0x80])
        value >>= 7
    return b"\x16" + found + bytes([value])


def claiming(path: Path, true: int, claimed: int, times: int = -1) -> None:
    """Put another number for one in the footer of a Parquet file, at its first places."""
    content = path.read_bytes()
    length = int.from_bytes(content[-8:-4], "little")
    footer = content[-8 - length : -8]
    assert number(true) in footer
    footer = footer.replace(number(true), number(claimed), times)
    path.write_bytes(content[: -8 - length] + footer + len(footer).to_bytes(4, "little") + b"PAR1")


def rewrite(path: Path, table: pa.Table, **options: Any) -> None:
    """Write a table as sfumato writes: no statistics, and no schema of Arrow."""
    pq.write_table(table, path, compression="zstd", write_statistics=False, store_schema=False, **options)


ROWS_LIMITED_SINCE = 23
"""Since this version of pyarrow a page has no more rows than it is told."""


def repeated(path: Path, rows: int) -> None:
    """Write the table again with its first record so many times, which takes next to no space."""
    table = pq.read_table(path).slice(0, 1)
    columns = {
        name: pa.DictionaryArray.from_arrays(np.zeros(rows, dtype=np.int8), table.column(name).combine_chunks())
        for name in table.column_names
    }
    # As few and large pages as can be: each has a header, and repeats of one value are one number.
    limit = {"max_rows_per_page": rows} if int(pa.__version__.split(".")[0]) >= ROWS_LIMITED_SINCE else {}
    rewrite(path, pa.table(columns), row_group_size=rows, write_batch_size=rows, **limit)


def test_number_is_written_as_footers_are(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1] * 300}), tmp_path / "a.parquet")
    claiming(tmp_path / "a.parquet", 300, 12_345_678)
    assert pq.read_metadata(tmp_path / "a.parquet").num_rows == 12_345_678


@pytest.mark.parametrize(
    ("claimed", "code"),
    [
        (10**12, "too-many-records"),
        (2**62, "too-many-records"),
        (-5, "too-many-records"),
        (10**10, "implausible-record-count"),
    ],
)
def test_table_that_claims_too_many_records_is_refused(folder: Path, claimed: int, code: str) -> None:
    claiming(folder / DATA_FILE, ROWS, claimed)
    edit_manifest(folder)
    refused(folder, code, file=DATA_FILE, records=claimed)


def test_table_that_has_other_records_than_it_says_is_refused(folder: Path) -> None:
    claiming(folder / DATA_FILE, ROWS, ROWS + 1, times=1)
    edit_manifest(folder)
    refused(folder, "inconsistent-record-count", file=DATA_FILE)


@pytest.mark.slow
def test_table_of_one_record_repeated_is_refused(folder: Path) -> None:
    rows = 5_000_000
    repeated(folder / DATA_FILE, rows)
    assert (folder / DATA_FILE).stat().st_size < rows // sizes.MOST_ROWS_PER_BYTE
    edit_manifest(folder)
    refused(folder, "implausible-record-count", file=DATA_FILE, records=rows)


@pytest.mark.slow
def test_table_of_too_many_columns_is_refused(folder: Path) -> None:
    table = pq.read_table(folder / DATA_FILE)
    wide = {f"c{each}": table.column("sex") for each in range(sizes.MOST_COLUMNS)}
    rewrite(folder / DATA_FILE, pa.table({**dict(zip(table.column_names, table.columns, strict=True)), **wide}))
    edit_manifest(folder)
    refused(folder, "too-many-columns", file=DATA_FILE, columns=10_003)


def test_text_that_swells_is_refused(folder: Path) -> None:
    """One long text that every record has, in a dictionary: together they would be a thousand million bytes."""
    table = pq.read_table(folder / DATA_FILE)
    text = pa.DictionaryArray.from_arrays(np.zeros(ROWS, dtype=np.int8), pa.array(["x" * 10_000_000]))
    rewrite(folder / DATA_FILE, table.set_column(table.column_names.index("sex"), "sex", text))
    edit_manifest(folder)
    refused(folder, "unpacks-too-large", file=DATA_FILE)


def test_part_that_claims_to_swell_is_refused(folder: Path) -> None:
    whole = pq.read_metadata(folder / DATA_FILE).row_group(0)
    claiming(folder / DATA_FILE, whole.total_byte_size, 1 << 50)
    edit_manifest(folder)
    refused(folder, "unpacks-too-large", file=DATA_FILE)


def test_weights_of_more_values_than_the_design_has_are_refused(folder: Path) -> None:
    table = pq.read_table(folder / WEIGHTS)
    rewrite(folder / WEIGHTS, pa.concat_tables([table] * 300))
    edit_manifest(folder)
    refused(folder, "too-many-lines", file=WEIGHTS, lines=1_200, limit=8)


@pytest.mark.parametrize("mechanism", ["buckets", "anatomy"])
def test_more_lines_of_buckets_than_records_are_refused(made: dict[str, Path], desk: Path, mechanism: str) -> None:
    folder = Path(shutil.copytree(made[mechanism], desk / "release"))
    table = pq.read_table(folder / BUCKET_CONTENTS)
    rewrite(folder / BUCKET_CONTENTS, pa.concat_tables([table] * ROWS))
    edit_manifest(folder)
    refused(folder, "too-many-lines", file=BUCKET_CONTENTS, limit=ROWS)


def test_lines_of_buckets_that_take_no_space_are_refused(made: dict[str, Path], desk: Path) -> None:
    folder = Path(shutil.copytree(made["buckets"], desk / "release"))
    for name in (BUCKET_RECORDS, BUCKET_CONTENTS):
        repeated(folder / name, sizes.FEW_ROWS)
    edit_manifest(folder)
    refused(folder, "too-many-lines", file=BUCKET_CONTENTS, lines=sizes.FEW_ROWS)


@pytest.mark.parametrize("kind", ["long bits", "texts"])
def test_sets_of_another_length_are_refused(made: dict[str, Path], desk: Path, kind: str) -> None:
    folder = Path(shutil.copytree(made["subset"], desk / "release"))
    table = pq.read_table(folder / DATA_FILE)
    wide = pa.array([bytes(2000)] * ROWS, pa.binary(2000) if kind == "long bits" else pa.binary())
    rewrite(folder / DATA_FILE, table.set_column(table.column_names.index("disease"), "disease", wide))
    edit_manifest(folder)
    refused(folder, "set-outside-domain")


@pytest.mark.slow
def test_value_outside_the_domain_is_refused(folder: Path) -> None:
    table = pq.read_table(folder / DATA_FILE)
    values = ["plague", *table.column("disease").to_pylist()[1:]]
    rewrite(folder / DATA_FILE, table.set_column(table.column_names.index("disease"), "disease", pa.array(values)))
    edit_manifest(folder)
    release = Release.open(folder)
    for ask in (
        lambda: release.crosstab("disease"),
        lambda: release.weights("flu"),
        lambda: release.count_many([CountQuery({}, ["flu"])]),
    ):
        with refuses(ReleaseFormatError, "value-outside-domain"):
            ask()


def test_text_that_is_none_is_refused(folder: Path) -> None:
    table = pq.read_table(folder / DATA_FILE)
    texts = pa.array([b"\xfb\xff", *[b"F"] * (ROWS - 1)])
    texts = pa.StringArray.from_buffers(ROWS, *texts.buffers()[1:])
    rewrite(folder / DATA_FILE, table.set_column(table.column_names.index("sex"), "sex", texts))
    edit_manifest(folder)
    release = Release.open(folder)
    for ask in (lambda: release.crosstab("sex"), lambda: release.crosstab("sex", "disease")):
        with pytest.raises(SfumatoError):
            ask()


@pytest.mark.parametrize("mechanism", sorted(WAYS))
def test_no_release_of_ours_is_refused(made: dict[str, Path], mechanism: str) -> None:
    assert Release.open(made[mechanism]).rows == ROWS


# ------------------------------------------------------------------------------------------------------ damaged Parquet


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", sorted(WAYS))
def test_damaged_tables_are_read_or_refused(made: dict[str, Path], tmp_path: Path, mechanism: str) -> None:
    """Bytes are changed or cut off; whatever then happens is an answer or an error of ours."""
    chance, whole = np.random.default_rng(7), made[mechanism]
    names = [str(each["path"]) for each in read_json(whole)["resources"] if str(each["path"]).endswith(".parquet")]
    for number in range(12):
        folder = Path(shutil.copytree(whole, tmp_path / str(number)))
        path = folder / names[number % len(names)]
        content = bytearray(path.read_bytes())
        for place in chance.integers(0, len(content), int(chance.integers(1, 5))).tolist():
            content[place] = int(chance.integers(0, 256))
        path.write_bytes(content[: int(chance.integers(0, len(content)))] if number % 6 == 0 else content)
        edit_manifest(folder)
        _use(folder)


@pytest.mark.slow
def test_footer_that_makes_no_sense_does_not_end_the_process(folder: Path) -> None:
    """Texts that claim to be numbers, with the statistics of texts: looking at that column, pyarrow aborts."""
    content = (folder / DATA_FILE).read_bytes()
    as_text, as_number = (b"\x15" + kind + b"%\x00\x18\x03sex" for kind in (b"\x0c", b"\x08"))
    assert as_text in content
    (folder / DATA_FILE).write_bytes(content.replace(as_text, as_number))
    edit_manifest(folder)
    for command, code in ((["query", folder, QUESTION], 2), (["verify", folder], 1)):  # which fails a check
        outcome = run_apart(*command)
        assert outcome.code == code
        assert outcome.err.startswith("error: ")
        assert len(outcome.err.splitlines()) == 1


def _use(folder: Path) -> None:
    """Open a release and ask it in each way; errors of ours are fine, and others are not."""
    try:
        release = Release.open(folder)
    except SfumatoError:
        return
    asked: list[Callable[[], Any]] = [
        lambda: release.rows,
        lambda: release.sql("SELECT sex, disease, COUNT(*) FROM release GROUP BY ALL"),
        lambda: release.sql("SELECT AVG(age) FROM release"),
        lambda: release.count_many([CountQuery({"sex": "F"}, ["flu"])]),
        lambda: release.weights("flu"),
        lambda: run("verify", folder),
    ]
    for ask in asked:
        try:
            ask()
        except SfumatoError:
            continue
