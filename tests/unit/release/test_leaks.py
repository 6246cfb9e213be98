"""What the bytes of a release say besides what it means to say: nothing.

Files are read as an attacker reads them: every byte, and every compressed block of Parquet unpacked.
"""

from __future__ import annotations

import contextlib
import random
import re
import zipfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

from releases import FILES, people, published, read_json
from sfumato._core.digests import compute_file_digest
from sfumato._parquet.parquet_writer import Encoder, FileWriter
from sfumato._query.bound_coverage import estimate_bound_coverage
from sfumato._query.release import Release
from sfumato._records import DATA_FILE
from sfumato._records.column_codes import CodedColumn
from sfumato._release.manifest import MANIFEST, README, WEIGHTS
from sfumato._request.belief_bounds import BreachBound
from sfumato._request.schema import Schema

ZSTD = b"\x28\xb5\x2f\xfd"
"""Every compressed block starts so."""

KEEP_ALL = BreachBound("1/1000000000", "999999999/1000000000")
"""So weak that no record of a small table is ever changed."""


def readable(path: Path) -> bytes:
    """All that can be read in a file: its bytes, and what its compressed blocks hold."""
    content = path.read_bytes()
    places = [match.start() for match in re.finditer(re.escape(ZSTD), content)]
    return content + b"\0".join(_unpacked(content[place:]) for place in places)


def _unpacked(block: bytes) -> bytes:
    """What a block holds. Byte by byte, because the stream fails at the end of the block, where other bytes follow."""
    found = bytearray()
    with contextlib.suppress(OSError), pa.CompressedInputStream(pa.BufferReader(block), "zstd") as stream:
        while byte := stream.read(1):
            found += byte
    return bytes(found)


def dictionaries(path: Path, column: str) -> list[list[str]]:
    """The dictionary of a text column in each row group, in the order in which the file holds it."""
    with pq.ParquetFile(path, read_dictionary=[column]) as file:
        groups = [file.read_row_group(group, columns=[column]) for group in range(file.num_row_groups)]
    return [group.column(0).chunk(0).dictionary.to_pylist() for group in groups]


# ------------------------------------------------------------------------------------------ the reader reads everything


def test_reader_finds_what_is_compressed(tmp_path: Path) -> None:
    towns = [f"the old town number {number} on the river" for number in range(300)]
    data = published(people(2000, town=towns), tmp_path / "release").folder / DATA_FILE
    found, raw = readable(data), data.read_bytes()
    assert all(town.encode() in found for town in towns)
    assert not all(town.encode() in raw for town in towns)


def test_reader_sees_a_dictionary_in_the_order_of_the_file(tmp_path: Path) -> None:
    odd = pa.DictionaryArray.from_arrays(pa.array([2, 0, 1], pa.int8()), pa.array(["m", "z", "a", "unused"]))
    pq.write_table(pa.table({"x": odd}), tmp_path / "odd.parquet", compression="zstd", store_schema=False)
    assert dictionaries(tmp_path / "odd.parquet", "x") == [["m", "z", "a", "unused"]]
    assert b"unused" in readable(tmp_path / "odd.parquet")


# --------------------------------------------------------------------------------------------------------- dictionaries

DISEASES = ["HIV", "asthma", "cold", "flu", "gout", "lupus"]
TOWNS = ["Aix", "Birr", "Lich"]
DECLARED = ["gout", "flu", "HIV", "lupus", "cold", "asthma"]


def random_table(seed: int) -> pa.Table:
    """Twelve people in any order: who comes first is anybody's guess."""
    chance = random.Random(seed)
    rows = [chance.choice(DISEASES[: chance.randint(2, 6)]) for _ in range(10)] + DISEASES[:2]
    chance.shuffle(rows)
    return people(12, disease=rows, town=chance.sample(TOWNS, 3), sex=chance.sample(["F", "M"], 2))


def used(order: Sequence[str], values: Iterable[str | None]) -> list[str]:
    """The values that occur, in a given order."""
    found = set(values)
    return [value for value in order if value in found]


@pytest.mark.slow
@pytest.mark.parametrize("block", [*range(3), *(pytest.param(block, marks=pytest.mark.full) for block in range(3, 10))])
def test_dictionaries_are_in_the_order_of_the_domain_whatever_comes_first(block: int, tmp_path: Path) -> None:
    """Sixty tables, in all two hundred; half have a declared domain, in an order that is not that of the alphabet."""
    for seed in range(20 * block, 20 * block + 20):
        domain = {"disease": DECLARED} if seed % 2 else {}
        table = random_table(seed)
        release = published(
            table, tmp_path / str(seed), schema=Schema.of("disease", domains=domain, public="*"), key=seed
        )
        expected = {"town": TOWNS, "sex": ["F", "M"]}
        expected["disease"] = DECLARED if seed % 2 else used(DISEASES, table.column("disease").to_pylist())
        assert list(release.manifest.domain) == expected["disease"]
        assert {name: dictionaries(release.folder / DATA_FILE, name) for name in expected} == {
            name: [order] for name, order in expected.items()
        }


def test_dictionaries_of_all_row_groups_are_the_domain_whatever_they_lack(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sfumato._perturb.record_writer.ROW_GROUP_ROWS", 7)
    release = published(people(60), tmp_path / "release")
    values = pq.read_table(release.folder / DATA_FILE).column("disease").to_pylist()
    assert any(set(values[first : first + 7]) < set(values) for first in range(0, 60, 7))
    assert dictionaries(release.folder / DATA_FILE, "disease") == [used(DISEASES, values)] * 9


def test_weights_are_in_the_order_of_the_domain(tmp_path: Path) -> None:
    release = published(
        random_table(3), tmp_path / "release", schema=Schema.of("disease", domains={"disease": DECLARED}, public="*")
    )
    assert pq.read_table(release.folder / WEIGHTS).column("value").to_pylist() == DECLARED
    assert list(release.manifest.design.domain) == DECLARED


def test_value_of_a_public_column_that_nobody_has_is_nowhere_in_the_data(tmp_path: Path) -> None:
    schema = Schema.of("disease", domains={"sex": ["F", "M", "neverseen"]}, public="*")
    release = published(people(), tmp_path / "release", schema=schema)
    assert dictionaries(release.folder / DATA_FILE, "sex") == [["F", "M"]]
    assert b"neverseen" not in readable(release.folder / DATA_FILE)


def test_data_list_the_domain_of_the_manifest_whatever_was_drawn(tmp_path: Path) -> None:
    """Whether a value was drawn for nobody is the same whether somebody had it or not."""
    schema = Schema.of("disease", domains={"disease": ["flu", "HIV", "cold", "asthma", "neverseen"]}, public="*")
    release = published(people(), tmp_path / "release", schema=schema, bound=KEEP_ALL)
    assert "neverseen" not in pq.read_table(release.folder / DATA_FILE).column("disease").to_pylist()
    assert dictionaries(release.folder / DATA_FILE, "disease") == [list(release.manifest.domain)]


def test_data_are_nothing_but_the_published_rows(tmp_path: Path) -> None:
    """Whoever writes the published values down again, and knows nothing but the domain besides, gets the same bytes."""
    table = people(500, town=["Virum", "Aix", None], weight=[70.5, None, 61.25], smoker=[True, False, None])
    release = published(table, tmp_path / "release")
    rows = pq.read_table(release.folder / DATA_FILE)
    columns = [_column(rows.column(name), rows.schema.field(name)) for name in rows.column_names]
    encoder = Encoder(columns)
    with (tmp_path / "again.parquet").open("wb") as sink:
        writer = FileWriter(sink, encoder.schema)
        writer.add(
            encoder([each.to_file_values(each.encode(rows.column(each.name).combine_chunks())) for each in columns])
        )
        assert writer.finish() == compute_file_digest(release.folder / DATA_FILE)
    assert (tmp_path / "again.parquet").read_bytes() == (release.folder / DATA_FILE).read_bytes()


def _column(column: pa.ChunkedArray, field: pa.Field) -> CodedColumn:
    values = sorted(set(column.to_pylist()) - {None})
    return CodedColumn(field.name, pa.array(values, type=field.type), field.nullable)


# ------------------------------------------------------------------------------------------------ metadata of the files


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Release:
    """A release of a table that comes from a file with a telling name, and has columns that are not published."""
    folder = tmp_path_factory.mktemp("ward-of-dr-jekyll")
    pa_csv.write_csv(telling_table(), folder / "patients-of-dr-jekyll.csv")
    schema = Schema.of("disease", identifier=["fullname"], person="insurance", drop=["remark"], public="*")
    out = tmp_path_factory.mktemp("public") / "release"
    return published(str(folder / "patients-of-dr-jekyll.csv"), out, schema=schema)


def telling_table() -> pa.Table:
    rows = 60
    return people(
        rows,
        fullname=[f"Edwina Hyde {row}" for row in range(rows)],
        insurance=[f"INS{row:04d}" for row in range(rows)],
        remark=["smells of sulphur", "owns a cane"],
    )


@pytest.mark.parametrize("name", [DATA_FILE, WEIGHTS])
def test_tables_carry_no_statistics_no_index_and_no_metadata(release: Release, name: str) -> None:
    metadata = pq.read_metadata(release.folder / name)
    assert metadata.metadata is None
    for group in range(metadata.num_row_groups):
        assert metadata.row_group(group).sorting_columns == ()
        for place in range(metadata.num_columns):
            chunk = metadata.row_group(group).column(place)
            assert not chunk.is_stats_set
            assert chunk.statistics is None
            assert not chunk.has_column_index
            assert not chunk.has_offset_index
            assert chunk.metadata is None


def test_tables_carry_no_schema_of_another_program(release: Release) -> None:
    for name in (DATA_FILE, WEIGHTS):
        schema = pq.read_schema(release.folder / name)
        assert schema.metadata is None
        assert all(field.metadata in (None, {}) or list(field.metadata) == [b"PARQUET:field_id"] for field in schema)
        assert b"ARROW:schema" not in readable(release.folder / name)
        assert b"pandas" not in readable(release.folder / name)


SECRETS = [
    *(b"jekyll", b"patients-of", b"ward-of", b"pytest"),
    *(b"fullname", b"insurance", b"remark"),
    *(b"Edwina", b"INS00", b"INS0059", b"sulphur", b"owns a cane"),
]


@pytest.mark.parametrize("secret", SECRETS, ids=lambda secret: secret.decode())
@pytest.mark.parametrize("name", [MANIFEST, *FILES])
def test_nothing_of_what_was_not_published_is_in_any_file(release: Release, name: str, secret: bytes) -> None:
    assert secret.lower() not in readable(release.folder / name).lower()


def test_what_was_published_is_in_the_files(release: Release) -> None:
    for name, value in ((DATA_FILE, b"asthma"), (WEIGHTS, b"asthma"), (MANIFEST, b'"sex"'), (README, b"disease")):
        assert value in readable(release.folder / name)


def test_release_in_one_file_says_no_more(tmp_path: Path) -> None:
    folder = tmp_path / "ward-of-dr-jekyll"
    folder.mkdir()
    pq.write_table(telling_table(), folder / "patients-of-dr-jekyll.parquet")
    schema = Schema.of("disease", identifier=["fullname"], person="insurance", drop=["remark"], public="*")
    published(folder / "patients-of-dr-jekyll.parquet", tmp_path / "release.zip", schema=schema)
    content = readable(tmp_path / "release.zip").lower()
    assert b"asthma" in content
    assert [secret for secret in SECRETS if secret.lower() in content] == []
    with zipfile.ZipFile(tmp_path / "release.zip") as archive:
        assert {entry.date_time for entry in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
        assert {(entry.extra, entry.comment) for entry in archive.infolist()} == {(b"", b"")}


def test_no_file_says_when_it_was_made(release: Release) -> None:
    for name in (MANIFEST, README):
        text = (release.folder / name).read_text(encoding="utf-8")
        assert not re.search(r"\d{4}-\d\d-\d\d|\d\d:\d\d:\d\d", text)


def test_same_key_gives_the_same_files_at_any_time_and_place(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    one, other = published(people(), tmp_path / "release"), published(people(), tmp_path / "elsewhere" / "other")
    for name in (MANIFEST, *FILES):
        assert (one.folder / name).read_bytes() == (other.folder / name).read_bytes()


# ------------------------------------------------------------------------------------------------- nothing but a design


def block(table: pa.Table, out: Path, **options: Any) -> dict[str, Any]:
    """What sfumato says in the manifest, without the digest, which depends on the files."""
    said = read_json(published(table, out, **options).folder)["sfumato"]
    return {key: value for key, value in said.items() if key != "digest"}


@pytest.mark.slow
def test_design_does_not_depend_on_counts_or_order(tmp_path: Path) -> None:
    rare, common = people(60, disease=["flu"] * 57 + ["HIV", "cold", "asthma"]), people(60)
    backwards = common.take(list(reversed(range(60))))
    blocks = [
        block(table, tmp_path / str(number), key=number) for number, table in enumerate((rare, common, backwards))
    ]
    assert blocks[0] == blocks[1] == blocks[2]


@pytest.mark.slow
def test_design_does_not_depend_on_the_number_of_rows(tmp_path: Path) -> None:
    assert block(people(60), tmp_path / "one") == block(people(6000), tmp_path / "other")


def test_manifest_holds_a_design_and_nothing_else(tmp_path: Path) -> None:
    said = block(people(), tmp_path / "release")
    assert sorted(said) == [
        *("accepted", "bins", "design", "domain_declared", "fit_to_publish", "format", "guarantee", "mechanism"),
        *("nulls", "persons", "readme_template", "sensitive", "software", "types"),
    ]
    assert sorted(said["design"]) == ["domain", "posterior", "prior", "retention"]


def test_schema_does_not_tell_a_missing_value_that_was_declared(tmp_path: Path) -> None:
    """Whether anybody's disease is missing must not show, once the domain says that it may be."""
    schema = Schema.of("disease", domains={"disease": ["flu", "HIV", "cold", "asthma", None]}, public="*")
    complete = published(people(), tmp_path / "complete", schema=schema)
    missing = published(people(60, disease=["flu", "HIV", None]), tmp_path / "missing", schema=schema)
    assert complete.manifest.fields == missing.manifest.fields
    assert pq.read_schema(complete.folder / DATA_FILE).equals(pq.read_schema(missing.folder / DATA_FILE))


def test_readme_tells_the_rows_and_no_other_count(tmp_path: Path) -> None:
    tables = people(60, disease=["flu"] * 57 + ["HIV", "cold", "asthma"]), people(60)
    releases = [published(table, tmp_path / str(number)) for number, table in enumerate(tables)]
    # The coverage is computed from the published records alone, as anyone can.
    texts = {
        (made.folder / README).read_text().replace(estimate_bound_coverage(made).sentence, "") for made in releases
    }
    assert len(texts) == 1
