"""The published order is a uniformly random one, so that neighbours say nothing about each other."""

from __future__ import annotations

import math
from itertools import permutations
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import stats

from accepted import ALL_ACCEPTED
from releases import BOUND, published
from sfumato._core.random_draws import Draws
from sfumato._engines.local_engine import LocalEngine
from sfumato._perturb.perturbation import Rewrite
from sfumato._perturb.record_writer import write_records
from sfumato._planning.mechanism_choice import choose
from sfumato._publish.publication_plan import survey_table
from sfumato._publish.request import Request
from sfumato._readers.sources import MemorySource
from sfumato._records import DATA_FILE
from sfumato._request.histogram import Histogram
from sfumato._request.schema import Schema
from sfumato.mechanisms._randomized_response import uniform_mechanism as uniform
from statistical.support import (
    ALPHA,
    assert_different,
    assert_same_distribution,
    counts_of,
    joint_counts_of,
    keyed_draws,
)

pytestmark = pytest.mark.statistical

Orders = npt.NDArray[np.int64]
"""A published order in each row: the number that each record had in the table."""

PEOPLE = 4
KEYS = 480
ORDERS = list(permutations(range(PEOPLE)))


def tiny_table() -> tuple[pa.Table, Schema]:
    """Four people, numbered in the order of the table."""
    table = pa.table({"number": list(range(PEOPLE)), "disease": ["flu", "flu", "cold", "cold"]})
    return table, Schema.of("disease", keep=["number"], public="*")


@pytest.fixture(scope="module")
def orders(tmp_path_factory: pytest.TempPathFactory) -> Orders:
    """The orders in which an engine writes the same table under many keys."""
    folder = tmp_path_factory.mktemp("orders")
    table, schema = tiny_table()
    engine, source = LocalEngine(threads=1), MemorySource(table)
    _, found = survey_table(
        Request(table, schema=schema, spec=BOUND, **ALL_ACCEPTED), source, engine, folder, Draws.from_fresh_key()
    )

    def order_of(draws: Draws) -> list[int]:
        chosen = choose(found.histogram, BOUND, draws)
        counts = found.histogram.counts
        rewrite = Rewrite(found.columns, found.sensitive, chosen.mechanism, chosen.plan, counts, draws)
        write_records(engine, found, rewrite, folder)
        return list(pq.read_table(folder / DATA_FILE, columns=["number"]).column(0).to_pylist())

    return np.array([order_of(keyed_draws(key)) for key in range(KEYS)])


def counts_of_orders(orders: Orders) -> npt.NDArray[np.int64]:
    return counts_of(np.array([ORDERS.index(tuple(order)) for order in orders.tolist()]), len(ORDERS))


def test_all_orders_are_equally_likely(orders: Orders) -> None:
    assert_same_distribution(counts_of_orders(orders), [1 / len(ORDERS)] * len(ORDERS))


@pytest.mark.parametrize("person", range(PEOPLE))
def test_every_position_is_equally_likely_for_everybody(orders: Orders, person: int) -> None:
    positions = np.argmax(orders == person, axis=1)
    assert_same_distribution(counts_of(positions, PEOPLE), [1 / PEOPLE] * PEOPLE)


def test_order_of_the_table_would_be_noticed() -> None:
    left_in_order = np.tile(np.arange(PEOPLE), (KEYS, 1))
    assert_different(counts_of_orders(left_in_order), [1 / len(ORDERS)] * len(ORDERS))
    assert_different(counts_of(np.zeros(KEYS, dtype=np.int64), PEOPLE), [1 / PEOPLE] * PEOPLE)


def test_order_that_is_only_rotated_would_be_noticed() -> None:
    """Everybody may stand anywhere, and still has the same neighbours: the positions alone would not tell."""
    rotated = np.array([np.roll(np.arange(PEOPLE), key) for key in range(KEYS)])
    assert_same_distribution(counts_of(np.argmax(rotated == 0, axis=1), PEOPLE), [1 / PEOPLE] * PEOPLE)
    assert_different(counts_of_orders(rotated), [1 / len(ORDERS)] * len(ORDERS))


def test_releases_are_shuffled_too(tmp_path: Path) -> None:
    """From end to end: the first of four published records is anybody, under sixty keys."""
    table, schema = tiny_table()
    folders = [published(table, tmp_path / str(key), schema=schema, key=key).folder for key in range(60)]
    firsts = [pq.read_table(folder / DATA_FILE).column("number")[0].as_py() for folder in folders]
    assert_same_distribution(counts_of(np.array(firsts), PEOPLE), [1 / PEOPLE] * PEOPLE)
    assert_different(counts_of(np.zeros(60, dtype=np.int64), PEOPLE), [1 / PEOPLE] * PEOPLE)


def test_order_is_independent_of_what_is_published(orders: Orders) -> None:
    """The words that order the rows are not those that decide which values are kept."""
    plan = uniform.plan(Histogram(("cold", "flu"), (2, 2)), BOUND, uniform.NoOptions(), keyed_draws(0))
    flu = np.ones(PEOPLE, dtype=np.uint8)
    is_kept = np.array([_first_is_kept(plan, flu, keyed_draws(key)) for key in range(KEYS)])
    is_first = orders[:, 0] == 0
    assert independence_p_value(is_kept, is_first) >= ALPHA
    assert independence_p_value(is_kept, is_kept) < ALPHA


def _first_is_kept(plan: uniform.Plan, codes: npt.NDArray[np.uint8], draws: Draws) -> bool:
    return bool(uniform.perturb(plan, codes, None, draws.narrow_to_column("disease"), 0).values[0] == codes[0])


def independence_p_value(one: npt.NDArray[np.bool_], other: npt.NDArray[np.bool_]) -> float:
    """The probability of so much dependence between two properties that have nothing to do with each other."""
    return float(stats.chi2_contingency(joint_counts_of(one, other, 2).reshape(2, 2)).pvalue)


# ----------------------------------------------------------------------------------------------------- the sorted table

ROWS, VALUES, REACH = 40_000, 10, 10
WINDOW = 2 * REACH + 1
USED = 0.2
"""The attack looks at windows that do not touch and cover a fifth of the rows."""


def attack(shown: npt.NDArray[np.int64], true: npt.NDArray[np.int64]) -> tuple[int, int]:
    """Guess a record's value by the majority of its neighbours: how often that is right, and how often it is tried.

    The record itself is not looked at, so that what is learned is learned from the order.
    """
    windows = int(ROWS * USED) // WINDOW
    centres = np.linspace(REACH, ROWS - REACH - 1, windows).astype(int)
    hits = 0
    for centre in centres:
        neighbours = np.r_[shown[centre - REACH : centre], shown[centre + 1 : centre + REACH + 1]]
        hits += int(np.bincount(neighbours, minlength=VALUES).argmax() == true[centre])
    return hits, windows


@pytest.fixture(scope="module")
def sorted_values() -> npt.NDArray[np.int64]:
    """A column sorted by its ten values, which are equally frequent."""
    return np.sort(np.arange(ROWS) % VALUES)


def test_neighbours_in_a_release_of_a_sorted_table_say_nothing(
    sorted_values: npt.NDArray[np.int64], tmp_path: Path
) -> None:
    """Whatever the window shows, its centre is anybody of those not looked at so far, at least 80% of the table.

    So each guess is right with a chance of at most (1/10) / 0.8, and the number of right guesses is at most binomial
    with that chance; fails with probability ALPHA if the order is random.
    """
    table = pa.table({"row": np.arange(ROWS), "disease": sorted_values})
    release = published(table, tmp_path / "release", schema=Schema.of("disease", keep=["row"], public="*"))
    rows = pq.read_table(release.folder / DATA_FILE)
    shown, true = rows.column("disease").to_numpy(), sorted_values[rows.column("row").to_numpy()]
    hits, guesses = attack(shown, true)
    chance = 1 / VALUES / (1 - USED)
    assert hits <= stats.binom(guesses, chance).isf(ALPHA)
    assert math.isclose((shown == true).mean(), 0.5, abs_tol=0.05)  # the values themselves are those of the table


def test_neighbours_in_a_sorted_table_left_in_order_say_nearly_everything(
    sorted_values: npt.NDArray[np.int64],
) -> None:
    """The same attack on the same perturbation without the shuffle: it works, and would be noticed."""
    histogram = Histogram(tuple(range(VALUES)), (ROWS // VALUES,) * VALUES)
    plan = uniform.plan(histogram, BOUND, uniform.NoOptions(), keyed_draws(0))
    shown = uniform.perturb(plan, sorted_values, None, keyed_draws(0), 0).values
    hits, guesses = attack(shown, sorted_values)
    assert hits > 0.9 * guesses
    assert (shown == sorted_values).mean() < 0.6
