"""The two tables that are published of any table: they agree, and every bucket keeps its caps; in exact numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bucket_tables import complaint, tables
from sfumato._core.random_draws import Draws
from sfumato._perturb.perturbation import Slots
from sfumato._request.bucket_and_decoy_requirements import Diversity, ShareCap
from sfumato._request.histogram import Histogram
from sfumato.errors import InfeasibleError
from sfumato.mechanisms._bucketization import anatomy_mechanism as anatomy
from sfumato.mechanisms._bucketization import buckets
from sfumato.mechanisms._bucketization.buckets import DealingMethod, Options, Plan, Sizes
from strategies import batch_splits

every_deal = pytest.mark.parametrize("deal", DealingMethod)


def histogram_of(counts: tuple[int, ...]) -> Histogram:
    return Histogram.of(range(len(counts)), counts)


def shuffled(counts: tuple[int, ...], seed: int) -> np.ndarray:
    """The values of all records, in some order."""
    return np.random.default_rng(seed).permutation(np.repeat(np.arange(len(counts)), counts))


def released(plan: Plan, codes: np.ndarray, batches: list[range], key: Draws) -> Iterator[int]:
    """The bucket of each record, batch after batch."""
    slots, before = Slots(key, plan.name, plan.histogram.counts), np.zeros(plan.histogram.domain_size, dtype=np.int64)
    for batch in batches:
        some = codes[batch.start : batch.stop]
        cells = buckets.perturb(plan, some, slots(some, before), key, batch.start).cells
        assert cells is not None
        yield from cells.tolist()
        before += np.bincount(some, minlength=len(before))


def written_lines(plan: Plan, batch_rows: int) -> list[dict[str, int]]:
    """The lines of the table of buckets, in the order in which they are written."""
    contents = buckets.MECHANISM.bucket_table.list_contents(plan)
    assert contents is not None
    found = [
        {"bucket": bucket, "value": place, "count": count}
        for batch in contents.iter_batches(batch_rows)
        for bucket, place, count in zip(*(column.tolist() for column in batch), strict=True)
    ]
    assert len(found) == contents.size
    return sorted(found, key=lambda line: (line["bucket"], line["value"]))


def check(plan: Plan, data: st.DataObject, seed: int, key: Draws) -> list[int]:
    """Publish in memory; the sizes of the buckets."""
    codes = shuffled(plan.histogram.counts, seed)
    shown = list(released(plan, codes, data.draw(batch_splits(len(codes))), key))
    lines = written_lines(plan, data.draw(st.integers(1, 20)))
    held = Counter(zip(shown, codes.tolist(), strict=True))
    assert held == {(line["bucket"], line["value"]): line["count"] for line in lines}
    assert complaint(shown, lines, plan.histogram.values, plan.caps) is None
    return list(Counter(shown).values())


def key_of(seed: int) -> Draws:
    return Draws.unsafe_test_key(f"{seed:064x}")


@st.composite
def requests(draw: st.DrawFn) -> tuple[Histogram, ShareCap]:
    """Counts with caps of their own, or, which leaves more room, with caps from the shares."""
    counts, caps = draw(tables())
    histogram = histogram_of(counts)
    if draw(st.integers(0, 3)) == 0:
        return histogram, ShareCap(dict(enumerate(caps)))
    factor, offset = draw(st.fractions(1, 5, max_denominator=4)), draw(st.fractions(0, 1, max_denominator=20))
    return histogram, ShareCap.from_shares(histogram, factor, offset / 2)


all_options = st.builds(
    Options, st.sampled_from(Sizes), st.integers(1, 3), st.integers(6, 50), st.sampled_from(DealingMethod)
)


@given(request=requests(), options=all_options, seed=st.integers(0, 10**6), data=st.data())
def test_tables_of_any_request_agree_and_keep_the_caps_exactly(
    request: tuple[Histogram, ShareCap], options: Options, seed: int, data: st.DataObject
) -> None:
    try:
        plan = buckets.plan(*request, options, key_of(seed))
    except InfeasibleError:
        return  # whether that is right is asked elsewhere
    found = check(plan, data, seed, key_of(seed))
    assert options.min_bucket <= min(found) <= max(found) <= options.max_bucket
    assert plan.choice.loss == sum((size - 1) ** 2 for size in found)


@pytest.mark.slow
@pytest.mark.parametrize("sizes", Sizes)
def test_most_random_requests_can_be_published(sizes: Sizes) -> None:
    """Otherwise the property above would say little."""
    chance = np.random.default_rng(3)
    made = 0
    for _ in range(40):
        histogram = histogram_of(tuple(chance.integers(1, 31, chance.integers(2, 7)).tolist()))
        caps = ShareCap.from_shares(
            histogram, Fraction(int(chance.integers(4, 21)), 4), Fraction(int(chance.integers(20)), 40)
        )
        try:
            made += buckets.plan(histogram, caps, Options(sizes), key_of(0)).bucket_count > 1
        except InfeasibleError:
            continue
    assert made > 20


@every_deal
@given(
    counts=st.lists(st.integers(0, 30), min_size=2, max_size=6)
    .map(tuple)
    .filter(lambda each: 2 * max(each) <= sum(each) > 0),
    seed=st.integers(0, 10**6),
    data=st.data(),
)
def test_tables_of_anatomy_agree_and_no_bucket_holds_a_value_twice(
    deal: DealingMethod, counts: tuple[int, ...], seed: int, data: st.DataObject
) -> None:
    ell = data.draw(st.integers(2, sum(counts) // max(counts)))
    plan = anatomy.plan(histogram_of(counts), Diversity(ell), anatomy.Options(deal), key_of(seed))
    found = check(plan, data, seed, key_of(seed))
    assert min(found) >= ell
    assert {line["count"] for line in written_lines(plan, 50)} == {1}


# ----------------------------------------------------------------------------------------------------- the check itself

SOUND: tuple[list[int], list[tuple[int, str, int]]] = (
    [0, 1, 0, 1, 1],
    [(0, "a", 1), (0, "b", 1), (1, "a", 1), (1, "b", 2)],
)


@pytest.mark.parametrize(
    ("shown", "lines", "words"),
    [
        (*SOUND, None),
        ([0, 2, 0, 2, 2], SOUND[1], "ids"),
        ([0, 1, 0, 1], SOUND[1], "disagree"),
        (SOUND[0], SOUND[1][::-1], "order"),
        (SOUND[0], [SOUND[1][0], *SOUND[1]], "order"),
        (SOUND[0], [*SOUND[1][:2], (1, "a", 2), (1, "b", 1)], "above"),
        (SOUND[0], [*SOUND[1][:3], (1, "c", 2)], "nothing"),
        (SOUND[0], [*SOUND[1], (1, "c", 0)], "nothing"),
        (SOUND[0], [*SOUND[1], (2, "a", 1)], "nothing"),
    ],
)
def test_the_slow_check_knows_what_is_wrong(
    shown: list[int], lines: list[tuple[int, Any, int]], words: str | None
) -> None:
    written = [{"bucket": bucket, "value": value, "count": count} for bucket, value, count in lines]
    found = complaint(shown, written, ["a", "b"], [Fraction(1, 2), Fraction(2, 3)])
    assert (found is None) == (words is None)
    assert words is None or words in str(found)
