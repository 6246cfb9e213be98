"""Samples are fair, and sketches are right on average: over keys, because a table has one answer under one key."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from sfumato._profile import equivalence_classes, record_sample
from sfumato._profile.equivalence_classes import ClassSizeSketch, hash_numbers
from sfumato._profile.record_sample import SAMPLE_PURPOSE, Sampler
from statistical.support import LARGEST_SCORE, Counts, assert_different, assert_same_distribution, keyed_draws

pytestmark = pytest.mark.statistical

ROWS, MOST, KEYS = 50, 25, 400


@pytest.fixture
def sampled(monkeypatch: pytest.MonkeyPatch) -> Counts:
    """How often each row of a table is in a sample of half of its rows."""
    table = pa.RecordBatch.from_pydict({"row": list(range(ROWS))})
    counts = np.zeros(ROWS, dtype=np.int64)
    monkeypatch.setattr(record_sample, "MOST_RECORDS", MOST)
    for key in range(KEYS):
        sampler, stream = Sampler(table.schema), keyed_draws(key).get_stream(SAMPLE_PURPOSE)
        for first, rows in ((0, 30), (30, 20)):
            sampler.add(table.slice(first, rows), stream.draw_bits(first, rows))
        counts += np.bincount(sampler.to_table().column("row").to_numpy(), minlength=ROWS)
    return counts


def test_every_record_is_sampled_equally_often(sampled: Counts) -> None:
    """Rows of one sample are drawn without replacement, and so vary a little less than the law."""
    assert_same_distribution(sampled, [1 / ROWS] * ROWS)
    halves = sampled.reshape(2, -1).sum(axis=1)
    assert_same_distribution(halves, [0.5, 0.5])
    for share in (0.45, 0.55):
        assert_different(halves, [share, 1 - share])


SIZES = np.array([1, 2, 4, 5, 9, 11, 20] * 400)
"""The sizes of 2,800 groups; one record of 52 is alone."""


def _estimates(factor: float) -> np.ndarray:
    """What 200 sketches of 256 combinations make of the same table, each under a key of its own."""
    held, found = np.repeat(np.arange(len(SIZES)), SIZES), []
    for key in range(200):
        sketch = ClassSizeSketch()
        sketch.add(hash_numbers(held, np.uint64(key * 7919 + 1)))
        result = sketch.compute_shares(len(held))
        assert not result.is_exact
        found.append([result.unique_share * factor, result.below_5 * factor, result.below_11 * factor])
    return np.array(found)


@pytest.mark.parametrize("factor", [1.0, 0.9, 1.1])
def test_estimates_of_a_full_sketch_are_right_on_average(factor: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Below 5 and below 11; so few are alone that ten per cent of them would not be noticed."""
    monkeypatch.setattr(equivalence_classes, "MOST_COMBINATIONS", 256)
    truth = np.array([SIZES[few >= SIZES].sum() / SIZES.sum() for few in (1, 4, 10)])
    drawn = _estimates(factor)
    scores = np.abs(drawn.mean(axis=0) - truth) / (drawn.std(axis=0, ddof=1) / np.sqrt(len(drawn)))
    assert (scores <= LARGEST_SCORE).all() if factor == 1 else (scores[1:] > LARGEST_SCORE).all()


@pytest.mark.parametrize("bit", range(0, 64, 9))
def test_every_bit_of_a_hash_is_a_fair_coin(bit: int) -> None:
    ones = int(((hash_numbers(np.arange(100_000), np.uint64(7)) >> np.uint64(bit)) & np.uint64(1)).sum())
    assert_same_distribution(np.array([ones, 100_000 - ones]), [0.5, 0.5])
    for share in (0.45, 0.55):
        assert_different(np.array([ones, 100_000 - ones]), [share, 1 - share])
