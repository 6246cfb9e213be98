"""`verify` with the original notices orders that give values away, in every record encoding, and passes shuffles.

A proper shuffle fails the check at most once in a million times, so all of those here together less than once in a
thousand runs. Each wrong order has a chance below that limit by far: the exponents are stated beside the tests.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import stats

from accepted import ALL_ACCEPTED, REASON
from releases import SENSITIVE, WAYS, accepting, edit_manifest, fit_digests
from sabotage import RECORDS, patients, plan_of, released, truth
from sfumato._engines import shuffle
from sfumato._parquet.parquet_writer import write_table
from sfumato._publish.publication import publish
from sfumato._publish.request import Request
from sfumato._query.release import Release
from sfumato._request.belief_bounds import BreachBound
from sfumato._request.schema import Schema
from sfumato._risk.attackers.release_matching import match_by_key, read_original
from sfumato._verify import row_order
from sfumato._verify.against_original import verify
from sfumato._verify.row_order import (
    LabelPositions,
    compute_log_chance,
    compute_log_factorials,
    compute_runs_log_chance,
    label_parts,
    label_values,
)
from sfumato.mechanisms import REGISTRY
from tampering import failed, rewrite

pytestmark = [pytest.mark.statistical, pytest.mark.slow]

Places = npt.NDArray[np.int64]
Reorder = Callable[[Places, Places, np.random.Generator], Places]


def blocks(rows: int, size: int) -> Iterator[Places]:
    return (np.arange(first, min(first + size, rows)) for first in range(0, rows, size))


def jittered(own: Places, held: Places, chance: np.random.Generator) -> Places:
    return np.argsort(own + chance.uniform(-200, 200, len(own)))


def shuffled_in_blocks(own: Places, held: Places, chance: np.random.Generator) -> Places:
    order = np.argsort(own)
    return np.concatenate([chance.permutation(order[block]) for block in blocks(len(own), 1500)])


def blocks_shuffled(own: Places, held: Places, chance: np.random.Generator) -> Places:
    order, parts = np.argsort(own), list(blocks(len(own), 10))
    return np.concatenate([order[parts[number]] for number in chance.permutation(len(parts))])


def sorted_in_blocks(own: Places, held: Places, chance: np.random.Generator) -> Places:
    order = chance.permutation(len(own))
    return np.concatenate([order[block][np.argsort(held[order[block]])] for block in blocks(len(own), 50)])


def dealt(own: Places, held: Places, chance: np.random.Generator) -> Places:
    """Every seventh row of the table, then every seventh from the next one."""
    order = np.argsort(own)
    return np.concatenate([order[first::7] for first in range(7)])


def values_together(own: Places, held: Places, chance: np.random.Generator) -> Places:
    """All records of a value together, the values in any order."""
    return np.argsort(chance.permutation(held.max() + 1)[held] + chance.uniform(0, 0.5, len(held)))


WRONG: dict[str, Reorder] = {
    "identical": lambda own, held, chance: np.argsort(own),
    "reversed": lambda own, held, chance: np.argsort(-own),
    "jittered": jittered,
    "shuffled in blocks": shuffled_in_blocks,
    "blocks shuffled": blocks_shuffled,
    "dealt": dealt,
    "sorted by value": lambda own, held, chance: np.lexsort((chance.random(len(held)), held)),
    "sorted by value, reversed": lambda own, held, chance: np.lexsort((chance.random(len(held)), -held)),
    "values together": values_together,
    "sorted by value in blocks": sorted_in_blocks,
}


def match_alone(release: Path) -> tuple[Places, Places]:
    """The row number and the true value of each person who is alone with the public columns, and so has a record."""
    people, records = patients(), pq.read_table(release / Release.open(release).manifest.data_file)
    rows = {key: row for row, key in enumerate(zip(*people.select(["born", "sex"]).to_pydict().values(), strict=True))}
    own = np.array([rows[key] for key in zip(*records.select(["born", "sex"]).to_pydict().values(), strict=True)])
    assert RECORDS // 2 < len(own) < RECORDS
    return own, label_codes(people)[own]


def label_codes(people: pa.Table) -> Places:
    return np.asarray(people.column(SENSITIVE).combine_chunks().dictionary_encode().indices.to_numpy()).astype(np.int64)


@pytest.fixture(scope="module", params=list(REGISTRY))
def honest(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Places, Places]:
    """A release, and for each of its records the row number of its person and the true value."""
    release = released(request.param, tmp_path_factory.mktemp("honest"))
    if REGISTRY[request.param].crowd_counts is not None:
        return release, *match_alone(release)
    found = truth(release)
    return release, found.order, found.true_codes[found.order].astype(np.int64)


def reordered(release: Path, order: Places) -> None:
    rewrite(release, Release.open(release).manifest.data_file, lambda table: table.take(order))


def test_wrong_orders_are_noticed_and_shuffles_pass(honest: tuple[Path, Places, Places]) -> None:
    """Of 3,000 records a wave has an exponent of 400 and more where the limit is about 25; runs are far fewer."""
    release, own, held = honest
    chance = np.random.default_rng(7)
    data = release / Release.open(release).manifest.data_file
    whole = pq.read_table(data)

    def found(order: Places) -> bool:
        write_table(data, whole.take(order))
        fit_digests(release)  # the README does not depend on the order
        return "order" in failed(release, patients())

    assert [name for name, reorder in WRONG.items() if not found(reorder(own, held, chance))] == []
    assert not any(found(chance.permutation(len(own))) for _ in range(3))


def test_order_across_several_files_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each file is shuffled, and which file a record is in tells where its person stands in the table."""
    monkeypatch.setattr(shuffle, "FILE_ROWS", RECORDS // 3)
    release = released("uniform", tmp_path)
    opened = Release.open(release)
    names = [path.relative_to(opened.folder) for path in map(Path, opened.manifest.list_data_paths(opened.folder))]
    assert len(names) == 3
    assert failed(release, patients()) == []
    own, chance = truth(release).order, np.random.default_rng(8)
    whole = pa.concat_tables([pq.read_table(release / name) for name in names])
    order, first = np.argsort(own), 0
    for name in names:
        rows = pq.read_metadata(release / name).num_rows
        write_table(release / name, whole.take(chance.permutation(order[first : first + rows])))
        first += rows
    edit_manifest(release)
    assert failed(release, patients()) == ["order"]


def without_public_columns(rows: int) -> pa.Table:
    chance = np.random.default_rng(5)
    return pa.table(
        {
            "sex": ["F", "M"] * (rows // 2),
            SENSITIVE: [f"disease {each}" for each in np.sort(chance.choice(5, rows, p=(0.3, 0.25, 0.2, 0.15, 0.1)))],
        }
    )


@pytest.mark.parametrize("mechanism", ["uniform", "subset", "decoys"])
def test_order_is_noticed_where_nobody_can_be_linked(tmp_path: Path, mechanism: str) -> None:
    """Two classes of 2,000 people: what records publish goes with their place, because the table is sorted by value."""
    table = without_public_columns(4000)
    schema = WAYS[mechanism].schema(Schema.of(SENSITIVE, public="*"), table)
    asked = {**WAYS[mechanism].request(mechanism), "accept_exposure": REASON}
    asked |= {"spec": BreachBound("1/10", "1/2")} if mechanism == "subset" else {}
    out = tmp_path / "release"
    request = Request(table, schema=schema, **asked, **accepting(table, schema), **ALL_ACCEPTED)
    publish(request, out, plan_file=plan_of(out), on_notice=lambda notice: None)
    assert failed(out, table) == []
    (detail,) = (check.detail for check in verify(out, table).checks if check.name == "order")
    assert "4,000 of 4,000 records" in detail
    opened = Release.open(out)
    order = match_by_key(opened, read_original(opened, table, plan_of(out)), plan_of(out)).order
    chance = np.random.default_rng(1)
    reordered(out, jittered(order, order, chance))
    assert failed(out, table) == ["order"]


def test_windows_of_a_large_release_are_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 3,000 records 1,024 are looked at, in 8 windows of 128 neighbours."""
    monkeypatch.setattr(row_order, "MOST_RECORDS", 1024)
    release = released("uniform", tmp_path)
    found = truth(release)
    own, held, chance = found.order, found.true_codes[found.order].astype(np.int64), np.random.default_rng(2)
    data = release / Release.open(release).manifest.data_file
    whole = pq.read_table(data)
    missed = []
    (detail,) = (check.detail for check in verify(release, patients()).checks if check.name == "order")
    assert "1,024 of 3,000 records" in detail
    assert failed(release, patients()) == []
    for name, reorder in WRONG.items():
        write_table(data, whole.take(reorder(own, held, chance)))
        edit_manifest(release)
        missed += [] if "order" in failed(release, patients()) else [name]
    assert missed == []


# --------------------------------------------------------------------------------------------------------- error rates


def labels_of(order: Places, values: Places) -> list[list[LabelPositions]]:
    members = np.array([values == value for value in range(3)]).T.astype(np.uint8)
    return [label_parts(order), label_values(values), [LabelPositions.from_members(members)]]


@pytest.mark.parametrize("rows", [12, 40, 300])
def test_shuffles_are_as_unlikely_as_is_said_at_most(rows: int) -> None:
    """Of 2,000 shuffles and three kinds of labels, one in a hundred may be below 1/100, with rare values as well.

    More than 1% + 5 standard deviations come up with a chance below one in a million.
    """
    chance = np.random.default_rng(4)
    values = np.minimum(chance.geometric(0.6, rows) - 1, 6).astype(np.int64)
    tries, own = 2000, np.arange(rows)
    rejected = np.zeros(3)
    for _ in range(tries):
        order = chance.permutation(rows)
        rejected += [compute_log_chance(labels) < math.log(0.01) for labels in labels_of(own[order], values[order])]
    assert (rejected <= tries * 0.01 + 5 * math.sqrt(tries * 0.01)).all()


def test_single_numbers_are_as_unlikely_as_is_said_at_most() -> None:
    """Of one wave and one label, shuffles are beyond the bound for 1% no more often than that, and not never."""
    chance, tries, rows, count = np.random.default_rng(6), 20_000, 200, 3
    wave = math.sqrt(2) * np.cos((np.arange(rows) + 0.5) * math.pi / rows)
    sums = np.array([wave[chance.choice(rows, count, replace=False)].sum() for _ in range(tries)])
    bound = math.sqrt(2 * count * math.log(2 / 0.01))
    assert (np.abs(sums) > bound).mean() <= 0.01
    assert (np.abs(sums) > bound / 2).mean() > 0.05


@pytest.mark.parametrize(("rows", "count"), [(10, 3), (30, 1), (30, 15), (30, 29), (200, 90)])
def test_runs_are_hypergeometric(rows: int, count: int) -> None:
    """By the distribution of scipy, and for few records by all orders."""
    known = stats.hypergeom(rows, rows - count + 1, count)
    for runs in range(1, min(count, rows - count + 1) + 1):
        expected = min(1.0, 2 * min(known.cdf(runs), known.sf(runs - 1)))
        assert math.exp(compute_runs_log_chance(compute_log_factorials(rows + 1), rows, count, runs)) == pytest.approx(
            expected
        )


def test_waves_have_mean_0_and_variance_1() -> None:
    for rows in (16, 33, 5000):
        waves = row_order.make_waves(rows)
        assert len(waves) == min(16, rows // 16)
        assert waves.mean(axis=1) == pytest.approx(0, abs=1e-12)
        assert (waves @ waves.T / rows) == pytest.approx(np.eye(len(waves)), abs=1e-9)
