from __future__ import annotations

import hashlib
import hmac
import json
import math
from dataclasses import FrozenInstanceError
from itertools import count, pairwise

import numpy as np
import numpy.typing as npt
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from hypothesis import example, given
from hypothesis import strategies as st

from refusals import refuses
from sfumato._core.array_types import BLOCK_ROWS, RandomBits
from sfumato._core.random_draws import (
    KEY_BYTES,
    LARGEST_BOUND,
    LARGEST_TABLE,
    Draws,
    FeistelPermutation,
    FeistelPermutations,
    Permutation,
    Stream,
    TablePermutation,
)
from sfumato.errors import InternalError, SpecError
from strategies import batch_splits

KEY = bytes(range(KEY_BYTES))
OTHER_KEY = bytes(KEY_BYTES)
ROWS = 200
LARGEST_FEISTEL = 2**34
"""More records than any table has; a network keeps tables of the square root of its size."""


def _draws(key: bytes = KEY) -> Draws:
    return Draws.unsafe_test_key(key.hex())


def _array(numbers: object) -> RandomBits:
    return np.array(numbers, dtype=np.uint64)


# The documented layout, written a second time from its description: HKDF by hand, one AES block at a time.


def _subkey_by_hand(key: bytes, column: str, purpose: str) -> bytes:
    """RFC 5869 with SHA-256 and no salt; 32 bytes need one round of the expansion."""
    extracted = hmac.digest(bytes(32), key, hashlib.sha256)
    info = json.dumps(["sfumato", 1, column, purpose]).encode()
    return hmac.digest(extracted, info + b"\x01", hashlib.sha256)


def _word_by_hand(subkey: bytes, row: int, attempt: int = 0) -> int:
    """Half a block: the block cipher of (attempt, row // 2) big-endian, the words little-endian."""
    block = attempt.to_bytes(8, "big") + (row // 2).to_bytes(8, "big")
    encrypted = Cipher(algorithms.AES(subkey), modes.ECB()).encryptor().update(block)
    return int.from_bytes(encrypted[8 * (row % 2) :][:8], "little")


def _integer_by_hand(subkey: bytes, row: int, bound: int) -> tuple[int, int]:
    """The integer of a row, and the number of words that were rejected on the way to it."""
    share = (2**64 - 1) // bound
    for attempt in count():
        number = _word_by_hand(subkey, row, attempt) // share
        if number < bound:
            return number, attempt
    raise AssertionError("unreachable")


@given(
    st.integers(0, 2**62), st.integers(0, 2**40), st.sampled_from(["", "age", 'a"/b']), st.sampled_from(["coins", "é"])
)
def test_words_follow_the_documented_layout(first_row: int, attempt: int, column: str, purpose: str) -> None:
    subkey = _subkey_by_hand(KEY, column, purpose)
    words = _draws().narrow_to_column(column).get_stream(purpose).draw_bits(first_row, 3, attempt)
    assert words.tolist() == [_word_by_hand(subkey, first_row + row, attempt) for row in range(3)]


@pytest.mark.parametrize("first_row", [0, 1])
def test_words_go_on_from_one_cached_block_to_the_next(first_row: int) -> None:
    subkey, rows = _subkey_by_hand(KEY, "", "coins"), 2 * BLOCK_ROWS + 3
    words = _draws().get_stream("coins").draw_bits(first_row, rows)
    looked_at = [
        edge + step for edge in (0, BLOCK_ROWS, 2 * BLOCK_ROWS) for step in (-2, -1, 0, 1, 2) if edge + step >= 0
    ]
    assert len(words) == rows
    assert words[looked_at].tolist() == [_word_by_hand(subkey, first_row + row) for row in looked_at]


@given(batch_splits(ROWS), st.integers(0, 2**40))
def test_words_do_not_depend_on_how_rows_are_cut_into_batches(batches: list[range], first_row: int) -> None:
    stream = _draws().get_stream("coins")
    parts = [stream.draw_bits(first_row + batch.start, len(batch)) for batch in batches]
    assert np.array_equal(np.concatenate(parts), stream.draw_bits(first_row, ROWS))


def test_words_share_nothing_between_attempts_purposes_columns_and_keys() -> None:
    draws = _draws()
    streams = [
        draws.get_stream("coins"),
        draws.get_stream("order"),
        draws.get_stream("coins/table/0"),
        draws.narrow_to_column("age").get_stream("coins"),
        draws.narrow_to_column("income").get_stream("coins"),
        _draws(OTHER_KEY).get_stream("coins"),
    ]
    words = [stream.draw_bits(0, 1000, attempt) for stream in streams for attempt in (0, 1, 2, 2**32)]
    assert len(np.unique(np.concatenate(words))) == 1000 * len(words)


def test_a_column_and_a_purpose_cannot_be_confused() -> None:
    one, other = _draws().narrow_to_column("a").get_stream("b/c"), _draws().narrow_to_column("a/b").get_stream("c")
    assert one != other


def test_a_column_narrows_the_same_key() -> None:
    draws = _draws().narrow_to_column("age")
    assert (draws.key, draws.is_test, draws.column) == (KEY, True, "age")


@pytest.mark.parametrize("bound", [1, 2, 3, 10, 2**32 + 1, 2**62 + 1, LARGEST_BOUND])
def test_integers_stay_below_their_bound(bound: int) -> None:
    drawn = _draws().get_stream("coins").draw_integers(0, ROWS, bound)
    assert len(drawn) == ROWS
    assert max(drawn.tolist()) < bound


def test_integers_below_one_are_zero() -> None:
    assert not _draws().get_stream("coins").draw_integers(0, ROWS, 1).any()


def test_integers_reach_both_ends_of_their_range() -> None:
    drawn = _draws().get_stream("coins").draw_integers(0, ROWS, 7)
    assert set(drawn.tolist()) == set(range(7))


@given(st.lists(st.integers(1, LARGEST_BOUND), max_size=ROWS), st.integers(0, 2**40))
def test_integers_stay_below_a_bound_for_each_row(bounds: list[int], first_row: int) -> None:
    drawn = _draws().get_stream("coins").draw_integers(first_row, len(bounds), _array(bounds))
    assert all(number < bound for number, bound in zip(drawn.tolist(), bounds, strict=True))


@given(st.integers(1, LARGEST_BOUND) | st.just(2**62 + 1), st.integers(0, 2**40))
def test_integers_are_the_same_for_one_bound_and_for_that_bound_in_every_row(bound: int, first_row: int) -> None:
    stream = _draws().get_stream("coins")
    each = stream.draw_integers(first_row, 20, _array([bound] * 20))
    assert np.array_equal(each, stream.draw_integers(first_row, 20, bound))


@given(batch_splits(ROWS), st.sampled_from([6, 2**62 + 1, LARGEST_BOUND]))
def test_integers_do_not_depend_on_how_rows_are_cut_into_batches(batches: list[range], bound: int) -> None:
    stream = _draws().get_stream("coins")
    parts = [stream.draw_integers(batch.start, len(batch), bound) for batch in batches]
    assert np.array_equal(np.concatenate(parts), stream.draw_integers(0, ROWS, bound))


@given(batch_splits(ROWS))
def test_integers_with_bounds_by_row_do_not_depend_on_the_batches(batches: list[range]) -> None:
    stream = _draws().get_stream("coins")
    bounds = _array([2**62 + 1 + row * 2**54 for row in range(ROWS)])
    parts = [stream.draw_integers(batch.start, len(batch), bounds[batch.start : batch.stop]) for batch in batches]
    assert np.array_equal(np.concatenate(parts), stream.draw_integers(0, ROWS, bounds))


@pytest.mark.parametrize(
    ("bound", "rejected"),
    [(2**62 + 1, 1 / 4), (2**64 // 3 + 1, 1 / 3), (LARGEST_BOUND, 1 / 2)],
    ids=["a quarter rejected", "a third rejected", "half rejected"],
)
def test_integers_redraw_rejected_words_by_attempt(bound: int, rejected: float) -> None:
    """The oracle is the rule in words: a number owns equally many words, and a word that nobody owns is drawn anew."""
    by_hand = [_integer_by_hand(_subkey_by_hand(KEY, "", "coins"), row, bound) for row in range(ROWS)]
    drawn = _draws().get_stream("coins").draw_integers(0, ROWS, bound)
    assert drawn.tolist() == [number for number, _ in by_hand]
    redrawn = np.mean([attempts > 0 for _, attempts in by_hand])
    assert redrawn == pytest.approx(rejected, abs=0.1)
    assert any(attempts > 1 for _, attempts in by_hand)


def test_integers_reject_the_very_first_words_that_nobody_owns() -> None:
    """A row found by search among six thousand million: its first word, divided by the share, is exactly the bound."""
    row, bound = 5_844_403_146, 2**32
    subkey = _subkey_by_hand(KEY, "", "coins")
    assert _word_by_hand(subkey, row) // ((2**64 - 1) // bound) == bound
    drawn = _draws().get_stream("coins").draw_integers(row, 1, bound)
    assert drawn.tolist() == [_integer_by_hand(subkey, row, bound)[0]]
    assert drawn[0] < bound


def test_integers_redraw_each_row_with_its_own_bound() -> None:
    subkey = _subkey_by_hand(KEY, "", "coins")
    bounds = [bound for _ in range(ROWS // 4) for bound in (3, 2**62 + 1, LARGEST_BOUND, 2**64 // 3 + 1)]
    drawn = _draws().get_stream("coins").draw_integers(7, ROWS, _array(bounds))
    assert drawn.tolist() == [_integer_by_hand(subkey, 7 + row, bound)[0] for row, bound in enumerate(bounds)]


@pytest.mark.parametrize(
    "bound",
    [0, -1, LARGEST_BOUND + 1, 2**64, np.array([3, 0, 3]), _array([3, LARGEST_BOUND + 1, 3])],
    ids=["zero", "negative", "above 2^63", "2^64", "a zero among them", "a large one among them"],
)
def test_integers_refuse_a_bound_out_of_range(bound: int | RandomBits) -> None:
    with refuses(InternalError, "bound-out-of-range"):
        _draws().get_stream("coins").draw_integers(0, 3, bound)


@pytest.mark.parametrize("first_row", [0, 1])
def test_an_empty_batch_has_no_draws(first_row: int) -> None:
    stream = _draws().get_stream("coins")
    assert len(stream.draw_bits(first_row, 0)) == 0
    assert len(stream.draw_integers(first_row, 0, 5)) == 0


def _permutation(draws: Draws, purpose: str, item: int, size: int) -> Permutation:
    """That of an item after others, of which the sizes do not matter."""
    return draws.make_permutations(purpose, [*[3] * item, size])[-1]


def _is_bijection(permutation: Permutation, size: int) -> bool:
    slots = permutation(np.arange(size, dtype=np.uint64))
    return np.array_equal(np.sort(slots), np.arange(size))


@given(st.integers(0, 300), st.integers(0, 20), st.binary(min_size=KEY_BYTES, max_size=KEY_BYTES))
@example(size=0, item=0, key=KEY)
@example(size=1, item=0, key=KEY)
def test_permutations_of_small_ranges_are_bijections(size: int, item: int, key: bytes) -> None:
    assert _is_bijection(_permutation(_draws(key), "slots", item, size), size)


@pytest.mark.parametrize("size", [LARGEST_TABLE - 1, LARGEST_TABLE, LARGEST_TABLE + 1, LARGEST_TABLE + 2, 199_999])
def test_permutations_of_large_ranges_are_bijections(size: int) -> None:
    assert _is_bijection(_permutation(_draws(), "slots", 0, size), size)


def test_feistel_permutations_of_all_small_sizes_are_bijections() -> None:
    assert all(_is_bijection(FeistelPermutation.of(KEY, size), size) for size in range(1, 201))


@given(st.integers(1, LARGEST_FEISTEL))
def test_feistel_grids_exceed_their_size_by_less_than_a_row(size: int) -> None:
    permutation = FeistelPermutation.of(KEY, size)
    assert 0 <= permutation.left_size * permutation.right_size - size < permutation.left_size


@given(st.integers(LARGEST_TABLE + 1, LARGEST_FEISTEL), st.data())
def test_feistel_permutations_keep_distinct_ranks_distinct_and_in_range(size: int, data: st.DataObject) -> None:
    ranks = data.draw(st.lists(st.integers(0, size - 1), unique=True, max_size=50))
    slots = _permutation(_draws(), "slots", 0, size)(_array(ranks)).tolist()
    assert len(set(slots)) == len(ranks)
    assert all(slot < size for slot in slots)


def _feistel_by_hand(subkey: bytes, size: int, rank: int) -> int:
    """Ten rounds that add the cipher of (round, one half) to the other half, walked on until within the range."""
    columns = math.isqrt(size - 1) + 1
    sizes = [columns, -(-size // columns)]
    halves = list(divmod(rank, sizes[1]))
    for number in range(10):
        block = number.to_bytes(8, "little") + halves[1 - number % 2].to_bytes(8, "little")
        word = int.from_bytes(Cipher(algorithms.AES(subkey), modes.ECB()).encryptor().update(block)[:8], "little")
        halves[number % 2] = (halves[number % 2] + word) % sizes[number % 2]
    slot = halves[0] * sizes[1] + halves[1]
    return slot if slot < size else _feistel_by_hand(subkey, size, slot)


@given(st.integers(2, 10**6), st.data())
def test_feistel_permutations_follow_the_documented_network(size: int, data: st.DataObject) -> None:
    ranks = data.draw(st.lists(st.integers(0, size - 1), min_size=1, max_size=5))
    slots = FeistelPermutation.of(KEY, size)(_array(ranks)).tolist()
    assert slots == [_feistel_by_hand(KEY, size, rank) for rank in ranks]


@pytest.mark.parametrize("size", [0, 1, 2, 300, LARGEST_TABLE, LARGEST_TABLE + 1, 199_999])
def test_the_inverse_of_a_permutation_takes_every_slot_back_to_its_rank(size: int) -> None:
    permutation, ranks = _permutation(_draws(), "slots", 0, size), np.arange(size, dtype=np.uint64)
    assert np.array_equal(permutation.invert(permutation(ranks)), ranks)


def test_feistel_permutations_of_all_small_sizes_have_an_inverse() -> None:
    for size in range(1, 201):
        permutation = FeistelPermutation.of(KEY, size)
        assert permutation(permutation.invert(np.arange(size))).tolist() == list(range(size))


@given(st.integers(LARGEST_TABLE + 1, LARGEST_FEISTEL), st.data())
def test_feistel_permutations_of_any_size_have_an_inverse(size: int, data: st.DataObject) -> None:
    ranks = data.draw(st.lists(st.integers(0, size - 1), max_size=50))
    permutation = FeistelPermutation.of(KEY, size)
    assert permutation.invert(permutation(_array(ranks))).tolist() == ranks


def test_networks_side_by_side_permute_as_each_does_alone() -> None:
    networks = [
        FeistelPermutation.of(bytes([number] * KEY_BYTES), size) for number, size in enumerate([7, 90_000, 300])
    ]
    asked, held = np.array([2, 1, 0]), np.array([300, 40_000, 7])
    ranks = np.concatenate([np.arange(size) for size in held])
    slots = np.split(FeistelPermutations.from_networks(networks)(asked, held, ranks), np.cumsum(held)[:-1])
    for number, size, found in zip(asked, held, slots, strict=True):
        assert np.array_equal(found, networks[number](np.arange(size)))


@given(batch_splits(ROWS), st.sampled_from([ROWS, LARGEST_TABLE + 1]))
def test_permutations_do_not_depend_on_how_ranks_are_cut_into_batches(batches: list[range], size: int) -> None:
    permutation = _permutation(_draws(), "slots", 0, size)
    parts = [permutation(np.arange(batch.start, batch.stop, dtype=np.uint64)) for batch in batches]
    assert np.array_equal(np.concatenate(parts), permutation(np.arange(ROWS, dtype=np.uint64)))


def test_permutations_change_their_kind_above_the_largest_table() -> None:
    assert isinstance(_permutation(_draws(), "slots", 0, LARGEST_TABLE), TablePermutation)
    assert isinstance(_permutation(_draws(), "slots", 0, LARGEST_TABLE + 1), FeistelPermutation)


def _slots(draws: Draws, purpose: str, item: int, size: int) -> npt.NDArray[np.uint64]:
    return _permutation(draws, purpose, item, size)(np.arange(100, dtype=np.uint64))


@pytest.mark.parametrize("size", [100, LARGEST_TABLE + 1], ids=["table", "feistel"])
def test_permutations_differ_by_item_purpose_column_and_key_and_repeat_otherwise(size: int) -> None:
    draws = _draws()
    orders = [
        _slots(draws, "slots", 0, size),
        _slots(draws, "slots", 1, size),
        _slots(draws, "order", 0, size),
        _slots(draws.narrow_to_column("age"), "slots", 0, size),
        _slots(_draws(OTHER_KEY), "slots", 0, size),
    ]
    assert len({order.tobytes() for order in orders}) == len(orders)
    assert np.array_equal(orders[0], _slots(_draws(), "slots", 0, size))


@pytest.mark.parametrize("size", [100, LARGEST_TABLE + 1], ids=["table", "feistel"])
def test_permutations_scatter_neighbours(size: int) -> None:
    slots = _slots(_draws(), "slots", 0, size).tolist()
    assert sum(abs(one - other) == 1 for one, other in pairwise(slots)) < 10


def test_secret_keys_are_fresh_whole_and_no_test_keys() -> None:
    draws = [Draws.from_fresh_key() for _ in range(10)]
    assert len({each.key for each in draws}) == 10
    assert all(len(each.key) == KEY_BYTES and not each.is_test for each in draws)


def test_a_test_key_is_marked_as_one_everywhere() -> None:
    assert _draws().is_test
    assert _draws().narrow_to_column("age").is_test


def _printed(key: bytes) -> str:
    draws = Draws(key)
    objects = [draws, draws.narrow_to_column("age"), Stream(key), FeistelPermutation.of(key, 10)]
    return " ".join(f"{each!r} {each}" for each in objects)


@given(st.binary(min_size=KEY_BYTES, max_size=KEY_BYTES))
def test_a_key_is_never_printed(key: bytes) -> None:
    printed = _printed(key)
    assert key.hex() not in printed
    assert repr(key) not in printed
    assert printed == _printed(KEY)


@pytest.mark.parametrize("digits", ["", "00", "00" * 31, "00" * 33], ids=["none", "one byte", "a byte short", "long"])
def test_a_test_key_of_another_length_is_refused(digits: str) -> None:
    with refuses(SpecError, "wrong-key-length", bytes=len(digits) // 2):
        Draws.unsafe_test_key(digits)


@pytest.mark.parametrize("digits", ["zz" * 32, "0" * 63, "secret"])
def test_a_test_key_that_is_not_hexadecimal_is_refused(digits: str) -> None:
    with refuses(SpecError, "key-not-hexadecimal"):
        Draws.unsafe_test_key(digits)


def test_draws_cannot_be_changed() -> None:
    draws = _draws()
    with pytest.raises(FrozenInstanceError):
        draws.is_test = False  # type: ignore[misc]
