"""Slots: each value's records get each slot once, however the table is cut into batches."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refusals import refuses
from sfumato._core.random_draws import LARGEST_TABLE, Draws
from sfumato._perturb import perturbation as slots_module
from sfumato._perturb.perturbation import Slots
from sfumato.errors import SourceError
from strategies import batch_splits

DRAWS = Draws.unsafe_test_key("51" * 32)
ROWS = 60


def _none(size: int) -> np.ndarray:
    return np.zeros(size, dtype=np.int64)


def _codes(*codes: int) -> np.ndarray:
    return np.array(codes, dtype=np.uint8)


def _whole(codes: np.ndarray, draws: Draws = DRAWS) -> np.ndarray:
    counts = np.bincount(codes, minlength=4).tolist()
    return Slots(draws, "small-domain", counts)(codes, _none(4))


tables = st.lists(st.integers(0, 3), min_size=ROWS, max_size=ROWS).map(lambda codes: _codes(*codes))


@given(tables)
def test_every_slot_of_a_value_is_given_once(codes: np.ndarray) -> None:
    slots = _whole(codes)
    for value in range(4):
        mine = slots[codes == value]
        assert sorted(mine.tolist()) == list(range(len(mine)))


@given(tables, batch_splits(ROWS))
def test_slots_do_not_depend_on_the_batches(codes: np.ndarray, batches: list[range]) -> None:
    slots = Slots(DRAWS, "small-domain", np.bincount(codes, minlength=4).tolist())
    before, parts = _none(4), []
    for batch in batches:
        part = codes[batch.start : batch.stop]
        parts.append(slots(part, before))
        before = before + np.bincount(part, minlength=4)
    assert np.array_equal(np.concatenate(parts), _whole(codes))


@given(tables, st.randoms(use_true_random=False))
def test_a_slot_depends_on_the_value_and_the_rank_only(codes: np.ndarray, random: object) -> None:
    """The records of a value keep their slots, in order, wherever the others stand."""
    mixed = codes.copy()
    random.shuffle(mixed)  # type: ignore[attr-defined]
    first, second = _whole(codes), _whole(mixed)
    for value in range(4):
        assert first[codes == value].tolist() == second[mixed == value].tolist()


def test_slots_depend_on_the_key_the_column_and_the_purpose() -> None:
    codes = np.zeros(ROWS, dtype=np.uint8)
    several = [
        Slots(DRAWS, "small-domain", [ROWS]),
        Slots(Draws.unsafe_test_key("52" * 32), "small-domain", [ROWS]),
        Slots(DRAWS.narrow_to_column("disease"), "small-domain", [ROWS]),
        Slots(DRAWS, "another", [ROWS]),
    ]
    assert len({slots(codes, _none(1)).tobytes() for slots in several}) == len(several)


def test_the_values_have_permutations_of_their_own() -> None:
    slots = Slots(DRAWS, "small-domain", [ROWS, ROWS])
    first, second = (slots(np.full(ROWS, value, dtype=np.uint8), _none(2)) for value in (0, 1))
    assert first.tolist() != second.tolist()


def test_values_without_records_have_no_slots_and_are_in_nobodys_way() -> None:
    slots = Slots(DRAWS, "small-domain", [0, 3, 0])
    assert sorted(slots(_codes(1, 1, 1), _none(3)).tolist()) == [0, 1, 2]


def test_an_empty_batch_has_no_slots() -> None:
    slots = Slots(DRAWS, "small-domain", [2, 3])
    assert slots(_codes(), np.array([2, 1])).tolist() == []


@pytest.mark.parametrize("before", [[0, 0], [2, 0]], ids=["in one batch", "over batches"])
def test_more_records_of_a_value_than_were_counted_are_refused(before: list[int]) -> None:
    slots = Slots(DRAWS, "small-domain", [3, 5])
    codes = _codes(0, 0, 0, 0) if before == [0, 0] else _codes(0, 1, 0)
    with refuses(SourceError, "table-changed"):
        slots(codes, np.array(before))


def test_a_value_that_was_not_counted_is_refused() -> None:
    slots = Slots(DRAWS, "small-domain", [3, 0])
    with refuses(SourceError, "table-changed"):
        slots(_codes(0, 1), _none(2))


def test_a_value_of_many_records_gets_every_slot_once() -> None:
    """Above the size of a table, the permutation is computed."""
    count = LARGEST_TABLE + 5
    slots = Slots(DRAWS, "small-domain", [count])
    codes = np.zeros(count, dtype=np.uint8)
    found = np.concatenate([slots(codes[:1000], _none(1)), slots(codes[1000:], np.array([1000]))])
    assert np.array_equal(np.sort(found), np.arange(count))
    assert not np.array_equal(found, np.arange(count))


def test_values_of_few_and_of_many_records_get_every_slot_once() -> None:
    """Some have a table, and some are computed: both in one batch."""
    counts = [3, LARGEST_TABLE + 5, 0, 700, LARGEST_TABLE + 1]
    codes = np.random.default_rng(1).permutation(np.repeat(np.arange(5, dtype=np.uint8), counts))
    slots = Slots(DRAWS, "small-domain", counts)(codes, _none(5))
    for value, count in enumerate(counts):
        assert np.array_equal(np.sort(slots[codes == value]), np.arange(count))


@pytest.mark.parametrize("block", [7, 100, 1 << 17])
def test_slots_are_those_of_the_permutation_of_each_value(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Values with a table and computed ones beside each other, in blocks that begin and end within values."""
    monkeypatch.setattr(slots_module, "BLOCK_ROWS", block)
    counts = [40, LARGEST_TABLE + 5, 0, LARGEST_TABLE + 9, 30, 30, 1]
    codes = np.repeat(np.arange(7, dtype=np.uint8), [30, 200, 0, 300, 30, 20, 1])
    np.random.default_rng(1).shuffle(codes)
    before = np.array([5, 70, 0, 9, 0, 3, 0])
    found = Slots(DRAWS, "small-domain", counts)(codes, before)
    for value, permutation in enumerate(DRAWS.make_permutations("small-domain/slots", counts)):
        mine = found[codes == value]
        assert mine.tolist() == permutation(before[value] + np.arange(len(mine))).tolist()
