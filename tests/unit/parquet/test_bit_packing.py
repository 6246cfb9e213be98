"""Packing against the way it is defined: bit by bit, the lowest first."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato._parquet.page_encoding import GROUP, WIDEST, pack_codes

WIDTHS = range(1, WIDEST + 1)


def slowly_packed(numbers: list[int], width: int) -> bytes:
    """All bits in a row, and then bytes of them."""
    filled = [*numbers, *[0] * (-len(numbers) % GROUP)]
    bits = [number >> place & 1 for number in filled for place in range(width)]
    return bytes(
        sum(bit << place for place, bit in enumerate(bits[start : start + 8])) for start in range(0, len(bits), 8)
    )


@pytest.mark.parametrize("width", WIDTHS)
@given(data=st.data())
def test_numbers_are_packed_bit_by_bit(width: int, data: st.DataObject) -> None:
    numbers = data.draw(st.lists(st.integers(0, 2**width - 1), max_size=40))
    kind = data.draw(
        st.sampled_from([kind for kind in (np.uint8, np.uint16, np.uint32) if 2**width - 1 <= np.iinfo(kind).max])
    )
    assert pack_codes(np.array(numbers, dtype=kind), width).tobytes() == slowly_packed(numbers, width)


@pytest.mark.parametrize("width", WIDTHS)
def test_largest_numbers_fill_all_bits(width: int) -> None:
    assert pack_codes(np.full(16, 2**width - 1, dtype=np.uint16), width).tobytes() == b"\xff" * (2 * width)


def test_example_of_the_format() -> None:
    """The numbers 0 to 7 in three bits each."""
    assert pack_codes(np.arange(8, dtype=np.uint8), 3).tobytes() == bytes([0b10001000, 0b11000110, 0b11111010])


def test_numbers_that_are_every_second_of_others_are_packed_alike() -> None:
    numbers = np.arange(64, dtype=np.uint8)
    assert (pack_codes(numbers[::2], 7) == pack_codes(numbers[::2].copy(), 7)).all()
