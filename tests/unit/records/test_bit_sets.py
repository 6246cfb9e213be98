"""Truth values in words, bit by bit."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato._records import bit_masks as bit_sets


@st.composite
def matrices(draw: st.DrawFn) -> npt.NDArray[np.uint8]:
    """Zeros and ones, row after row or column after column."""
    shape = draw(st.integers(0, 300)), draw(st.integers(1, 9))
    found = np.random.default_rng(draw(st.integers(0, 2**32 - 1))).integers(0, 2, shape).astype(np.uint8)
    return found if draw(st.booleans()) else np.asfortranarray(found)


@pytest.mark.parametrize("together", [64, 1 << 13])
@given(matrix=matrices(), data=st.data())
def test_columns_are_packed_as_each_by_itself(
    together: int, matrix: npt.NDArray[np.uint8], data: st.DataObject
) -> None:
    columns = data.draw(st.lists(st.integers(0, matrix.shape[1] - 1)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bit_sets, "ROWS", together)
        found = bit_sets.pack_columns(matrix, columns)
    assert found.shape == (len(columns), -(-len(matrix) // bit_sets.WORD_BITS))
    for line, column in zip(found, columns, strict=True):
        assert np.array_equal(line, bit_sets.pack_bits(matrix[:, column].astype(np.bool_)))
        assert bit_sets.count_bits(line) == matrix[:, column].sum()
