"""Tables of counts from a stranger: what does not fit the release is refused by one sentence, which names the table."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from refusals import refuses
from releases import people, published_by, read_json
from sfumato import export, lint
from sfumato._parquet.parquet_writer import write_table
from sfumato._query.release import Release
from sfumato._records import DATA_FILE
from sfumato._records.crowd_lines import LARGEST_COUNT, are_possible_counts
from sfumato._records.crowd_records import COUNTS_FILE
from sfumato._report import make_question_page
from sfumato._verify.distributions.crowd_noise_distribution import CrowdNoise
from sfumato.errors import ReleaseFormatError
from tampering import failed_alone, rewrite

SIZE = 4
Change = Callable[[pa.Table], pa.Table]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A release that nobody changes, with people in crowds and people alone."""
    table = people(90, born=[*[1950] * 60, *range(1951, 1981)])
    return published_by("noisy-counts", table, tmp_path_factory.mktemp("counts") / "release").folder


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    """A release of one's own."""
    return Path(shutil.copytree(made, tmp_path / "release"))


def with_type(name: str, kind: pa.DataType) -> Change:
    """Converts a column to another type."""

    def change(table: pa.Table) -> pa.Table:
        place, column = table.schema.names.index(name), table.column(name)
        field = pa.field(name, kind, table.schema.field(name).nullable)
        return table.set_column(place, field, column.cast(kind, safe=False))

    return change


def with_names(*names: str) -> Change:
    """Gives other names to the last columns."""
    return lambda table: table.rename_columns([*table.schema.names[: -len(names)], *names])


COLUMN_CHANGES: dict[str, Change] = {
    "noisy counts are text": with_type("noisy", pa.string()),
    "noisy counts are fractions": with_type("noisy", pa.float64()),
    "people are fractions": with_type("people", pa.float64()),
    "estimates are whole numbers": with_type("count", pa.int64()),
    "a public column is text": with_type("age", pa.string()),
    "a public column is missing": lambda table: table.drop_columns(["age"]),
    "a column is added": lambda table: table.append_column("more", table.column("people")),
    "two columns are exchanged": lambda table: table.select([*table.schema.names[:-2], "count", "noisy"]),
    "columns have other names": with_names("number", "disease", "noisy", "count"),
    "there are no columns": lambda table: pa.table({"": pa.array([], pa.int64())}),
}


def test_the_release_as_it_was_is_read(folder: Path) -> None:
    release = Release.open(folder)
    assert 0 < release.people_in_counts < release.rows == 90


@pytest.mark.parametrize("change", COLUMN_CHANGES)
def test_columns_that_do_not_fit_the_records_are_refused(change: str, folder: Path, tmp_path: Path) -> None:
    table = COLUMN_CHANGES[change](pq.read_table(folder / COUNTS_FILE))
    write_table(folder / COUNTS_FILE, table)
    release = Release.open(folder)
    with refuses(ReleaseFormatError, "inconsistent-counts"):
        release.sql("SELECT COUNT(*) FROM release")
    with refuses(ReleaseFormatError, "inconsistent-counts"):
        release.count("flu")
    with refuses(ReleaseFormatError, "inconsistent-counts"):
        make_question_page(release)
    with refuses(ReleaseFormatError, "inconsistent-counts"):
        export(release, ["flu"], tmp_path / "out.csv")
    with refuses(ReleaseFormatError, "inconsistent-counts"):
        lint(folder)
    with refuses(ReleaseFormatError, "inconsistent-counts"):
        assert release.rows


def test_damaged_table_of_counts_is_named(folder: Path) -> None:
    (folder / COUNTS_FILE).write_bytes(b"")
    release = Release.open(folder)
    with refuses(ReleaseFormatError, "damaged-file", file=COUNTS_FILE):
        release.count("flu")
    with refuses(ReleaseFormatError, "damaged-file", file=COUNTS_FILE):
        release.sql("SELECT COUNT(*) FROM release")
    with refuses(ReleaseFormatError, "damaged-file", file=COUNTS_FILE):
        assert release.rows


def test_damaged_records_are_named(folder: Path) -> None:
    """The counts can be read, although their columns cannot be compared with those of the records."""
    (folder / DATA_FILE).write_bytes(b"")
    assert Release.open(folder).people_in_counts > 0
    with refuses(ReleaseFormatError, "damaged-file", file=DATA_FILE):
        assert Release.open(folder).rows


def test_incomplete_group_is_no_damage_of_the_file(folder: Path) -> None:
    write_table(folder / COUNTS_FILE, pq.read_table(folder / COUNTS_FILE).slice(1))
    with refuses(ReleaseFormatError, "inconsistent-counts"):
        assert Release.open(folder).rows


# -------------------------------------------------------------------------------------------------------- large numbers


def with_first_crowd(ratio: Fraction, people_of_crowd: int, noisy: list[int]) -> Change:
    """Replaces the numbers of the first crowd, with the estimates that belong to them."""

    def change(table: pa.Table) -> pa.Table:
        columns = {name: table.column(name).to_pylist() for name in ("people", "noisy", "count")}
        columns["people"][:SIZE], columns["noisy"][:SIZE] = [people_of_crowd] * SIZE, noisy
        crowd = np.array([people_of_crowd]), np.array([noisy])
        columns["count"][:SIZE] = CrowdNoise(SIZE, ratio).estimate_counts(*crowd)[0].tolist()
        for name, numbers in columns.items():
            kind: Any = pa.float64() if name == "count" else pa.int64()
            place = table.schema.names.index(name)
            table = table.set_column(place, pa.field(name, kind, nullable=False), pa.array(numbers, kind))
        return table

    return change


HUGE: dict[str, tuple[int, list[int]]] = {
    "a sum that overflows to the people": (15, [2**63 - 1, 2**63 - 1, 17, 0]),
    "a sum that overflows to the people from below": (15, [-(2**63), 2**62, 2**62, 15]),
    "large noise": (15, [2**40, -(2**40), 0, 15]),
    "many people": (2**62, [2**62, 0, 0, 0]),
}


@pytest.mark.parametrize("numbers", HUGE)
def test_numbers_that_are_too_large_to_be_added_up_are_refused(numbers: str, folder: Path) -> None:
    ratio = Fraction(read_json(folder)["sfumato"]["design"]["ratio"])
    rewrite(folder, COUNTS_FILE, with_first_crowd(ratio, *HUGE[numbers]))
    assert "counts" in failed_alone(folder)
    with refuses(ReleaseFormatError, "inconsistent-counts"):
        assert Release.open(folder).rows


def test_only_whole_numbers_up_to_a_limit_are_possible_counts() -> None:
    assert are_possible_counts(np.array([-LARGEST_COUNT, LARGEST_COUNT]))
    assert are_possible_counts(np.array([0, 255], dtype=np.uint8))
    for numbers in ([LARGEST_COUNT + 1], [-LARGEST_COUNT - 1], [-(2**63)], [2**64 - 1], [1.0], ["1"], [True]):
        assert not are_possible_counts(np.array(numbers))
