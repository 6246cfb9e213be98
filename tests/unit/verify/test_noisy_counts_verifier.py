"""The verifier of noisy counts: everything that is wrong with a release is noticed."""

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

from accepted import ALL_ACCEPTED, give_reasons
from sfumato import BreachBound, Request, Schema, publish
from sfumato._records import DATA_FILE
from sfumato._records.count_tables import COUNTS_FILE
from sfumato._release.manifest import WEIGHTS
from sfumato._request.range_edges import Ranges
from sfumato._verify.against_original import verify
from sfumato._verify.distributions.crowd_noise_distribution import CrowdNoise
from tampering import Design, edit_design, failed, failed_alone, rewrite, with_cell, with_column

DISEASES = ("asthma", "flu", "gout", "measles", "mumps")
SIZE = len(DISEASES)
BOUND, RATIO = BreachBound("1/4", "3/5"), Fraction(2, 9)
HOUSES, ALONE = 240, 80
Change = Callable[[pa.Table], pa.Table]


def original(alone: int = ALONE) -> pa.Table:
    """Houses of two to five people, whose people are in crowds, and people who live alone."""
    chance = np.random.default_rng(7)
    houses = np.concatenate([np.repeat(np.arange(HOUSES), np.arange(HOUSES) % 4 + 2), HOUSES + np.arange(alone)])
    houses = chance.permutation(houses)
    return pa.table(
        {
            "house": houses,
            "town": [None if house % 3 == 0 else "AB"[house % 2] for house in houses.tolist()],
            "disease": [DISEASES[each] for each in chance.integers(0, SIZE, len(houses))],
        }
    )


def publish_counts(table: pa.Table, folder: Path, *, domain: tuple[Any, ...] = DISEASES, **schema: Any) -> Path:
    """Publish a table as noisy counts."""
    public = [name for name in table.column_names if name != "disease"]
    request = Request(
        table,
        schema=Schema.of("disease", public="*", keep=public, domains={"disease": domain}, **schema),
        spec=BOUND,
        mechanism="noisy-counts",
        accept_disclosing=give_reasons(public),
        **ALL_ACCEPTED,
    )
    return publish(request, folder / "release", on_notice=lambda notice: None).release.folder


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A release that nobody changes."""
    return publish_counts(original(), tmp_path_factory.mktemp("noisy"))


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    """A release of one's own."""
    return Path(shutil.copytree(made, tmp_path / "release"))


def read_counts(folder: Path) -> pa.Table:
    return pq.read_table(folder / COUNTS_FILE)


def test_a_release_as_it_was_is_right(folder: Path) -> None:
    rewrite(folder, COUNTS_FILE, lambda table: table)
    rewrite(folder, DATA_FILE, lambda table: table)
    checks = verify(folder, original()).checks
    assert [check.name for check in checks if not check.has_passed] == []
    names = [check.name for check in checks]
    assert "counts" in names
    assert names[-4:] == ["public columns", "order", "draws", "posteriors"]


# ----------------------------------------------------------------------------------------------------- the tables alone


def with_lines(lines: Callable[[int], Any]) -> Change:
    """Takes other lines, given their number."""
    return lambda table: table.take(pa.array(lines(len(table))))


def with_other_cell(name: str, line: int, change: Callable[[Any], Any]) -> Change:
    return lambda table: with_cell(table, name, line, change(table.column(name)[line].as_py()))


def move_one_person(table: pa.Table) -> pa.Table:
    """One more in a noisy count and one fewer in another of its group; both remain between 0 and the people."""
    noisy, people = (np.array(table.column(name).to_pylist()) for name in ("noisy", "people"))
    for first in range(0, len(noisy), SIZE):
        counts, most = noisy[first : first + SIZE], people[first]
        more, fewer = np.flatnonzero((counts >= 0) & (counts < most)), np.flatnonzero((counts > 0) & (counts <= most))
        pairs = [(one, other) for one in more for other in fewer if one != other]
        if pairs:
            noisy[first + pairs[0][0]] += 1
            noisy[first + pairs[0][1]] -= 1
            return with_column(table, "noisy", noisy.tolist())
    raise AssertionError("no group has two such counts")


def add_people(table: pa.Table) -> pa.Table:
    """The first crowd has three more people, but its counts do not."""
    people = table.column("people").to_pylist()
    return with_column(table, "people", [each + 3 * (line < SIZE) for line, each in enumerate(people)])


COUNT_CHANGES: dict[str, Change] = {
    "the last line is missing": with_lines(lambda lines: range(lines - 1)),
    "a line in the middle is missing": with_lines(lambda lines: np.delete(np.arange(lines), 7)),
    "two values are exchanged": with_lines(lambda lines: [1, 0, *range(2, lines)]),
    "a value occurs twice": with_other_cell("disease", 1, lambda value: DISEASES[0]),
    "a value is unknown": with_other_cell("disease", 0, lambda value: "cold"),
    "two groups are exchanged": with_lines(
        lambda lines: [*range(SIZE, 2 * SIZE), *range(SIZE), *range(2 * SIZE, lines)]
    ),
    "a group occurs twice": with_lines(lambda lines: [*range(SIZE), *range(lines)]),
    "a line has another public value": with_other_cell("house", 3, lambda value: value + 1),
    "a line has no public value": with_other_cell("town", SIZE, lambda value: None if value else "A"),
    "a line has another number of people": with_other_cell("people", 3, lambda value: value + 1),
    "a group has more people": add_people,
    "a noisy count is one more": with_other_cell("noisy", 0, lambda value: value + 1),
    "a person is moved": move_one_person,
    "an estimate is off": with_other_cell("count", 0, lambda value: value + 1e-6),
    "an estimate is no number": with_other_cell("count", 0, lambda value: float("nan")),
}


@pytest.mark.parametrize("change", COUNT_CHANGES)
def test_changed_counts_are_noticed(folder: Path, change: str) -> None:
    rewrite(folder, COUNTS_FILE, COUNT_CHANGES[change])
    assert "counts" in failed_alone(folder)


def test_small_groups_must_not_have_counts(folder: Path) -> None:
    edit_design(folder, lambda design: design.update(smallest_crowd=3))
    assert "counts" in failed_alone(folder)


def test_large_groups_must_not_have_records(folder: Path) -> None:
    rewrite(folder, DATA_FILE, lambda table: pa.concat_tables([table, table.slice(0, 1)]))
    assert "counts" in failed_alone(folder)


def test_a_group_must_not_have_counts_and_records(folder: Path) -> None:
    """Even if the record alone would be too few people for counts."""
    line = read_counts(folder).slice(0, 1)

    def add_record(table: pa.Table) -> pa.Table:
        public = [line.column(name).cast(table.schema.field(name).type) for name in ("house", "town")]
        record = pa.Table.from_arrays([*public, table.slice(0, 1).column("disease")], schema=table.schema)
        return pa.concat_tables([table, record])

    rewrite(folder, DATA_FILE, add_record)
    assert "counts" in failed_alone(folder)


def test_sets_and_weights_are_checked_too(folder: Path) -> None:
    rewrite(folder, DATA_FILE, lambda table: with_cell(table, "disease", 0, b"\xf8"))
    rewrite(folder, WEIGHTS, lambda table: with_cell(table, "if_equal", 0, 1.0))
    assert {"domain", "weights"} <= set(failed_alone(folder))


# ------------------------------------------------------------------------------------------------------------ guarantee


def scale_ratio(design: Design, factor: Fraction) -> None:
    design["ratio"] = str(Fraction(design["ratio"]) * factor)


def raise_hold(design: Design) -> None:
    design["hold_probability"] = str(Fraction(design["hold_probability"]) + Fraction(1, 10**9))


GUARANTEE_CHANGES: dict[str, Callable[[Design], Any]] = {
    "the noise is too small": lambda design: scale_ratio(design, 1 - Fraction(1, 10**9)),
    "sets hold the true value too often": raise_hold,
    "the bound is for two rows": lambda design: design.update(rows_per_person=2),
    "the bound is stricter": lambda design: design.update(posterior="1/2"),
}


@pytest.mark.parametrize("change", GUARANTEE_CHANGES)
def test_a_design_beyond_the_guarantee_is_noticed(folder: Path, change: str) -> None:
    edit_design(folder, GUARANTEE_CHANGES[change])
    assert "guarantee" in failed_alone(folder)


def test_estimates_for_another_ratio_are_noticed(folder: Path) -> None:
    """With more noise than the design says, the guarantee would hold, but estimates would be wrong."""
    edit_design(folder, lambda design: scale_ratio(design, Fraction(11, 10)))
    assert "guarantee" not in failed_alone(folder)
    assert "counts" in failed_alone(folder)


# --------------------------------------------------------------------------------------------------------- the original


def count_truth(folder: Path, table: pa.Table) -> np.ndarray[Any, Any]:
    """The true counts, in the order of the table of counts."""
    rows = table.select(["house", "disease"]).to_pylist()
    truth: dict[tuple[int, str], int] = {}
    for row in rows:
        key = (row["house"], row["disease"])
        truth[key] = truth.get(key, 0) + 1
    return np.array([truth.get((row["house"], row["disease"]), 0) for row in read_counts(folder).to_pylist()])


def replace_counts(folder: Path, noisy: np.ndarray[Any, Any]) -> None:
    """Other noisy counts, with the estimates that belong to them."""
    people = np.array(read_counts(folder).column("people").to_pylist()[::SIZE])
    estimates = CrowdNoise(SIZE, RATIO).estimate_counts(people, noisy.reshape(-1, SIZE)).ravel()
    rewrite(folder, COUNTS_FILE, lambda lines: with_column(lines, "noisy", noisy.tolist()))
    rewrite(folder, COUNTS_FILE, lambda lines: with_column(lines, "count", estimates.tolist()))


def test_true_counts_are_noticed(folder: Path) -> None:
    replace_counts(folder, count_truth(folder, original()))
    assert failed(folder, original()) == ["draws"]


def test_sets_of_other_people_are_noticed(tmp_path: Path) -> None:
    """If each person has the set of somebody else, sets do not depend on the person's value."""
    table = original(alone=600)
    folder = publish_counts(table, tmp_path)
    rewrite(folder, DATA_FILE, lambda records: with_column(records, "disease", rotate(records["disease"].to_pylist())))
    assert failed_alone(folder) == []
    assert failed(folder, table) == ["draws"]


def rotate(items: list[Any]) -> list[Any]:
    return [*items[1:], items[0]]


def test_a_missing_group_is_noticed_beside_the_original(folder: Path) -> None:
    rewrite(folder, COUNTS_FILE, lambda lines: lines.slice(SIZE))
    assert "public columns" in failed(folder, original())


def test_a_group_of_another_size_is_noticed_beside_the_original(folder: Path) -> None:
    rewrite(folder, COUNTS_FILE, add_people)
    noisy = np.array(read_counts(folder).column("noisy").to_pylist())
    noisy[0] += 3
    replace_counts(folder, noisy)
    assert failed_alone(folder) == []
    assert "public columns" in failed(folder, original())


def test_records_in_the_order_of_the_original_are_noticed(folder: Path) -> None:
    """People in crowds have no record, so they do not count in the order."""
    houses = original().column("house").to_pylist()
    rewrite(
        folder,
        DATA_FILE,
        lambda table: table.take(pa.array(np.argsort([houses.index(each) for each in table["house"].to_pylist()]))),
    )
    assert failed(folder, original()) == ["order"]


def test_a_value_outside_the_domain_of_another_original_is_noticed(folder: Path) -> None:
    other = with_cell(original(), "disease", 0, "cold")
    assert {"draws", "posteriors"} <= set(failed(folder, other))


@pytest.mark.parametrize("kind", ["everybody alone", "everybody counted", "columns of the same names", "ranges"])
def test_other_tables_are_verified(kind: str, tmp_path: Path) -> None:
    rows = 300
    numbers = np.arange(rows)
    values = [DISEASES[each] for each in np.random.default_rng(1).integers(0, SIZE, rows)]
    columns: dict[str, Any] = {
        "everybody alone": {"number": numbers},
        "everybody counted": {"sex": numbers % 2, "is old": [number % 3 == 0 for number in range(rows)]},
        "columns of the same names": {
            "people": [str(number % 7) for number in range(rows)],
            "count": numbers % 5,
            "rowid": numbers % 3,
            "rowid_": numbers % 2,
        },
        "ranges": {"age": numbers % 100, "sex": numbers % 2},
    }[kind]
    table = pa.table({**columns, "disease": values})
    ranges = {"ranges": {"age": Ranges(("0", "5", "18", "65", "100"))}} if kind == "ranges" else {}
    assert failed(publish_counts(table, tmp_path, **ranges), table) == []
