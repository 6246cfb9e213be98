"""Decoys do what their groups say: everybody sits in a group at random, and shows any value of it with the same chance.

Error rate: an assertion that something follows a law, or that two things have nothing to do with each other, fails with
probability ALPHA if that is so. Each has a twin that must fail: a law that is slightly wrong, or an order that is kept.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import stats

from accepted import ALL_ACCEPTED
from releases import known_key
from sfumato._core.random_draws import Draws
from sfumato._engines.local_engine import LocalEngine
from sfumato._perturb.perturbation import Rewrite, Slots
from sfumato._publish.publication import publish
from sfumato._publish.publication_plan import survey_table
from sfumato._publish.request import Request
from sfumato._readers.sources import MemorySource
from sfumato._records import DATA_FILE
from sfumato._request.bucket_and_decoy_requirements import DecoyGroups
from sfumato._request.histogram import Histogram
from sfumato._request.schema import Schema
from sfumato.mechanisms import REGISTRY, _decoys
from sfumato.mechanisms._decoys.decoy_options import Options
from sfumato.mechanisms._decoys.leak_matrix import GroupCreation
from statistical.support import (
    ALPHA,
    assert_different,
    assert_same_distribution,
    counts_of,
    joint_counts_of,
    keyed_draws,
    product_law,
)

pytestmark = pytest.mark.statistical

Numbers = npt.NDArray[np.int64]

COUNTS = (70_001, 60_000, 50_000, 40_000, 20_000, 9_000, 1_000)
"""The first value has too many records for a permutation in a table; two records are left over in groups of three."""

GROUP_SIZE = 3
WAYS = {
    "mixed": Options(),
    "fullest first, random ties": Options(GroupCreation.ANATOMY_RANDOM),
    "fullest first, ties by place": Options(GroupCreation.ANATOMY),
}
every_way = pytest.mark.parametrize("way", WAYS)


class Released(NamedTuple):
    """What became of the records of a table sorted by value."""

    plan: _decoys.Plan
    codes: Numbers
    runs: Numbers
    shown: Numbers


@cache
def released(way: str) -> Released:
    histogram = Histogram.of(range(len(COUNTS)), COUNTS)
    draws = keyed_draws(11)
    plan = _decoys.plan(histogram, DecoyGroups(GROUP_SIZE), WAYS[way], draws)
    codes = np.repeat(np.arange(len(COUNTS), dtype=np.uint8), COUNTS)
    slots = Slots(draws, _decoys.NAME, COUNTS)(codes, np.zeros(len(COUNTS), dtype=np.int64))
    shown = _decoys.perturb(plan, codes, slots, draws, 0).values
    assert shown is not None
    runs = plan.columns[0].groups.find_runs(codes, slots)
    return Released(plan, codes.astype(np.int64), runs, shown.astype(np.int64))


def seats(made: Released) -> tuple[Numbers, Numbers, Numbers]:
    """Of each record the seat of its own value in its group, the seat that it shows, and the size of the group."""
    groups = made.plan.columns[0].groups
    members, sizes = groups.members[made.runs], groups.sizes[made.runs]
    is_seat = np.arange(members.shape[1]) < sizes[:, None]
    own = (members == made.codes[:, None]) & is_seat
    drawn = (members == made.shown[:, None]) & is_seat
    assert (own.sum(axis=1) == 1).all()
    assert (drawn.sum(axis=1) == 1).all(), "a record shows a value that its group does not hold"
    return own.argmax(axis=1), drawn.argmax(axis=1), sizes


# ---------------------------------------------------------------------------------------------------- what is published


@every_way
def test_every_seat_of_a_group_is_shown_with_the_same_chance(way: str) -> None:
    _, drawn, sizes = seats(released(way))
    counts = counts_of(drawn[sizes == GROUP_SIZE], GROUP_SIZE)
    assert_same_distribution(counts, [1 / GROUP_SIZE] * GROUP_SIZE)
    for wrong in (0.98, 1.02):
        assert_different(counts, [wrong / GROUP_SIZE, 1 / GROUP_SIZE, (2 - wrong) / GROUP_SIZE])


@every_way
@pytest.mark.parametrize("value", range(len(COUNTS)))
def test_a_record_shows_its_own_value_with_one_over_the_group_size(way: str, value: int) -> None:
    made = released(way)
    own, drawn, sizes = seats(made)
    mine = (made.codes == value) & (sizes == GROUP_SIZE)
    kept = counts_of((own == drawn)[mine], 2)
    assert_same_distribution(kept, [1 - 1 / GROUP_SIZE, 1 / GROUP_SIZE])
    if kept.sum() > 15_000:
        for factor in (0.9, 1.1):
            assert_different(kept, [1 - factor / GROUP_SIZE, factor / GROUP_SIZE])


@every_way
def test_in_the_largest_runs_every_value_shows_every_member_alike(way: str) -> None:
    """Per run and value: the composition is the law, whoever is asked."""
    made = released(way)
    groups = made.plan.columns[0].groups
    for run in np.argsort(groups.lengths)[-3:].tolist():
        members = groups.members[run, : groups.sizes[run]]
        for value in members.tolist():
            mine = made.shown[(made.runs == run) & (made.codes == value)]
            assert len(mine) == groups.lengths[run]
            if len(mine) >= 5 * len(members):
                law = [float(place in members) / len(members) for place in range(len(COUNTS))]
                assert_same_distribution(counts_of(mine, len(COUNTS)), law)


@every_way
def test_values_are_shown_as_the_groups_say(way: str) -> None:
    """By value, over all its groups: how many records sit in each is certain, so that this errs on the safe side.

    The twin has every other value leak by its share, whatever the groups are.
    """
    made = released(way)
    chances = made.plan.columns[0].groups.count_meetings() / np.array(COUNTS)[:, None]
    for value in range(4):
        mine, law = counts_of(made.shown[made.codes == value], len(COUNTS)), chances[value]
        assert mine[law == 0].sum() == 0
        frequent = law * COUNTS[value] >= 10
        assert_same_distribution(_folded(mine, frequent), _folded(law, frequent))
        others = np.where(np.arange(len(COUNTS)) == value, 0, COUNTS)
        wrong = (1 - law[value]) * others / others.sum()
        wrong[value] = law[value]
        assert_different(_folded(mine, frequent), _folded(wrong, frequent))


def _folded(numbers: npt.NDArray[Any], is_frequent: npt.NDArray[np.bool_]) -> npt.NDArray[Any]:
    """The same numbers, with all rare cells added to the first frequent one."""
    found = numbers[is_frequent].copy()
    found[0] += numbers[~is_frequent].sum()
    return found


@every_way
def test_records_of_a_group_draw_independently(way: str) -> None:
    """Two records that share a group, or one like it: what one shows tells nothing of what the other shows."""
    made = released(way)
    own, drawn, sizes = seats(made)
    one, other = (
        drawn[mine][np.argsort(made.runs[mine], kind="stable")]
        for mine in (np.flatnonzero((own == seat) & (sizes == GROUP_SIZE)) for seat in (0, 1))
    )
    law = product_law([1 / GROUP_SIZE] * GROUP_SIZE, [1 / GROUP_SIZE] * GROUP_SIZE)
    assert_same_distribution(joint_counts_of(one, other, GROUP_SIZE), law)
    mostly = np.where(np.arange(len(one)) % 20 == 0, one, other)  # one pair of twenty shows the same
    assert_different(joint_counts_of(one, mostly, GROUP_SIZE), law)


# ---------------------------------------------------------------------------------------------- who sits in which group


@every_way
def test_the_order_of_the_table_tells_nothing_of_the_group(way: str) -> None:
    """The rank of a record among those of its value, and its run; without slots the first records are in the first."""
    made = released(way)
    groups = made.plan.columns[0].groups
    for value in range(5):
        mine = made.runs[made.codes == value]
        ranks = np.arange(len(mine))
        assert stats.spearmanr(ranks, mine).pvalue >= ALPHA
        in_order = groups.find_runs(made.codes[made.codes == value], ranks.astype(np.uint64))
        assert stats.spearmanr(ranks, in_order).pvalue < ALPHA


def test_the_first_record_of_a_value_is_in_each_of_its_groups_with_the_same_chance() -> None:
    """Over many keys, with groups that do not change: ties by place."""
    counts, keys = (6, 5, 4, 3, 2), 3000
    plan = _decoys.plan(Histogram.of(range(5), counts), DecoyGroups(2), WAYS["fullest first, ties by place"], _draws(0))
    groups = plan.columns[0].groups
    runs = []
    for key in range(keys):
        slots = Slots(_draws(key), _decoys.NAME, counts)(np.array([1]), np.zeros(5, dtype=np.int64))
        runs.append(int(groups.find_runs(np.array([1]), slots)[0]))
    has_value = [1 in row[:size] for row, size in zip(groups.members, groups.sizes, strict=True)]
    holds = np.where(has_value, groups.lengths, 0)
    observed = counts_of(np.array(runs), len(holds))
    assert_same_distribution(observed[holds > 0], holds[holds > 0] / holds.sum())
    assert observed[holds == 0].sum() == 0
    skewed = holds[holds > 0] * np.linspace(0.7, 1.3, (holds > 0).sum())
    assert_different(observed[holds > 0], skewed / skewed.sum())


def _draws(key: int) -> Draws:
    return keyed_draws(key).narrow_to_column("disease")


# ---------------------------------------------------------------------------------------------------------- two columns


class Pair(NamedTuple):
    """Two columns of the same values, published together: what each shows, and where each record sits."""

    held: Numbers
    shown: Numbers
    slots: npt.NDArray[np.uint64]


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    """The second column repeats the first: whatever the two have in common comes from the decoys."""
    rows = 30_000
    values = np.sort(np.random.default_rng(2).choice(6, size=rows, p=np.array([6, 5, 4, 4, 3, 2]) / 24))
    table = pa.table({"row": np.arange(rows), "one": values, "two": values})
    request = Request(
        table, schema=Schema.of(["one", "two"], keep=["row"], public="*"), spec=DecoyGroups(3), **ALL_ACCEPTED
    )
    source, engine, folder = MemorySource(table), LocalEngine(), tmp_path_factory.mktemp("pair")
    draws = keyed_draws(5)
    _, found = survey_table(request, source, engine, folder, draws)
    plan = _decoys.plan(found.histogram, DecoyGroups(3), Options(), draws)
    rewrite = Rewrite(found.columns, found.sensitive, REGISTRY["decoys"], plan, found.histogram.counts, draws)
    (batch,) = table.combine_chunks().to_batches()
    codes = found.sensitive.encode(found.preparation(batch))
    slots = rewrite._find_slots(codes, np.zeros(sum(found.sensitive.sizes), dtype=np.int64))
    shown = _decoys.perturb(plan, codes, slots, rewrite.column_draws, 0).values
    assert shown is not None
    return Pair(values, np.array(_decoys.split_codes(shown, plan.sizes)), slots)


def test_two_columns_deal_their_records_independently(pair: Pair) -> None:
    """Where a record sits in one column tells nothing of where it sits in the other, though it holds the same value."""
    for value in range(6):
        one, two = pair.slots[:, pair.held == value].astype(np.int64)
        assert stats.spearmanr(one, two).pvalue >= ALPHA
        assert stats.spearmanr(one, one + np.random.default_rng(0).integers(0, len(one), len(one))).pvalue < ALPHA


def test_two_columns_draw_independently(pair: Pair) -> None:
    """Of records of one value, what one column shows tells nothing of the other."""
    for value in range(6):
        one, two = pair.shown[:, pair.held == value]
        joint = joint_counts_of(one, two, 6).reshape(6, 6)
        assert stats.chi2_contingency(joint).pvalue >= ALPHA
        both = np.where(np.arange(len(one)) % 4 == 0, one, two)  # a quarter of the records shows the same in both
        assert stats.chi2_contingency(joint_counts_of(one, both, 6).reshape(6, 6)).pvalue < ALPHA


def test_each_of_two_columns_shows_its_own_value_with_one_over_the_group_size(pair: Pair) -> None:
    """And both with the product, because the draws are independent."""
    is_own = pair.shown == pair.held
    observed = counts_of(is_own[0] * 2 + is_own[1], 4)
    assert_same_distribution(observed, product_law([2 / 3, 1 / 3], [2 / 3, 1 / 3]))
    assert_different(observed, product_law([0.7, 0.3], [2 / 3, 1 / 3]))


# ----------------------------------------------------------------------------------------------- the order of a release


def test_the_order_of_a_release_is_uniform(tmp_path: Path) -> None:
    """From end to end: the first of four published records is anybody, under eighty keys; twins are left in order."""
    table = pa.table({"number": list(range(4)), "disease": ["flu", "flu", "cold", "cold"]})
    firsts = []
    for key in range(80):
        request = Request(
            table, schema=Schema.of("disease", keep=["number"], public="*"), spec=DecoyGroups(2), **ALL_ACCEPTED
        )
        release = publish(request, tmp_path / str(key), unsafe_test_key=known_key(key)).release
        firsts.append(pq.read_table(release.folder / DATA_FILE).column("number")[0].as_py())
    assert_same_distribution(counts_of(np.array(firsts), 4), [1 / 4] * 4)
    assert_different(counts_of(np.zeros(80, dtype=np.int64), 4), [1 / 4] * 4)


def test_a_table_sorted_by_value_is_published_in_another_order(tmp_path: Path) -> None:
    """Neither the position of a record nor that of its value is that of the table."""
    rows = 20_000
    values = np.sort(np.random.default_rng(3).choice(8, size=rows))
    table = pa.table({"row": np.arange(rows), "disease": values})
    request = Request(table, schema=Schema.of("disease", keep=["row"], public="*"), spec=DecoyGroups(4), **ALL_ACCEPTED)
    release = publish(request, tmp_path / "release", unsafe_test_key=known_key(1)).release
    published = pq.read_table(release.folder / DATA_FILE)
    row, shown = (published.column(name).to_numpy() for name in ("row", "disease"))
    positions = np.arange(rows)
    assert stats.spearmanr(positions, row).pvalue >= ALPHA
    assert stats.spearmanr(positions, shown).pvalue >= ALPHA
    assert stats.spearmanr(row, shown).pvalue < ALPHA  # the values do go with the rows that they belong to
    nearly = positions + np.random.default_rng(0).integers(0, rows // 3, rows)
    assert stats.spearmanr(positions, nearly).pvalue < ALPHA
