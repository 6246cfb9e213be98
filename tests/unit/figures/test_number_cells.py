"""One cell for a number: the error to two digits, the rest to the same place."""

from __future__ import annotations

import math
import re
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato._figures.estimate_format import NumberCell, align_cells
from sfumato._figures.number_format import format_upper_factor, format_upper_percent


@pytest.mark.light
@pytest.mark.parametrize(
    ("numbers", "text"),
    [
        ((4.1612, 0.0306, (4.1012, 4.2212)), "4.161 ± 0.031 [4.101, 4.221]"),
        ((514.2, 171.3, (180.4, 851.6)), "510 ± 170 [180, 850]"),
        ((1948.0, 11.2, (1926.0, 1970.4)), "1,948 ± 11 [1,926, 1,970]"),
        ((0.4512, 0.0996, (0.26, 0.65)), "0.45 ± 0.10 [0.26, 0.65]"),
        ((123456.0, 17345.0, (89459.0, 157453.0)), "123,000 ± 17,000 [89,000, 157,000]"),
        ((-3.0, 171.0, (0.0, 332.0)), "-3 ± 170 [0, 330]"),  # below zero is not written as zero
        ((35.0, 17.0, (0.2, 71.0)), "35 ± 17 [0.2, 71]"),  # nor an interval without zero as one with it
        ((35.0, 17.0, (1e-12, 71.0)), "35 ± 17 [0, 71]"),  # unless it is a matter of floating-point numbers
        ((12.0, 58.0, (-math.inf, math.inf)), "12 ± 58 [-∞, ∞]"),
        ((18.44, 5.5, (0.0, 21.2), 9.97), "18.4 beside 10.0 ± 5.5 [0.0, 21.2]"),
        ((30.0, 0.0, (30.0, 30.0)), "30"),
        ((1234.5, 1e-9, (1234.5, 1234.5)), "1,234.5000"),
        ((2e-9, 3e-10, (0.0, 2.6e-9)), "2e-09 ± 3e-10 [0, 2.6e-09]"),
        ((5.0, math.inf, (0.0, 9.0)), "5.0 ± ?"),
        ((0.03125, 0.0), "0.03125"),
        ((0.0, 0.0), "0"),
        ((1352.85, None), "1,353 ± ?"),
        ((7.26, None), "7.3 ± ?"),
        ((0.0314, None), "0.031 ± ?"),
        ((0.0, None), "0 ± ?"),
        ((None,), "no number"),
        ((math.nan, None), "no number"),
        ((2e17, 3e16, (1e17, 3e17)), "2e+17 ± 3e+16 [1e+17, 3e+17]"),
    ],
)
def test_cell_has_as_many_digits_as_its_error_deserves(numbers: tuple[float, ...], text: str) -> None:
    assert NumberCell.of(*numbers).text == text


@given(st.floats(-1e9, 1e9), st.floats(1e-6, 1e9))
def test_cell_is_the_number_within_half_of_the_last_digit_of_its_error(value: float, error: float) -> None:
    cell = NumberCell.of(value, error, (value - 2 * error, value + 2 * error))
    if not cell.error:
        assert error <= 1e-8 * abs(value)
        return
    said = {part: float(text.replace(",", "")) for part, text in (("value", cell.value), ("error", cell.error))}
    digits = re.sub(r"^0+", "", re.sub(r"\D", "", cell.error))
    assert len(digits.rstrip("0")) <= 2
    assert said["error"] == pytest.approx(error, rel=0.0501)
    assert said["value"] == pytest.approx(value, abs=0.0501 * error)
    assert (said["value"] == 0) == (abs(value) <= 1e-8 * error)


def test_cells_under_each_other_are_lined_up() -> None:
    cells = [
        NumberCell.of(9.0, 61.0, (0.0, 132.0)),
        NumberCell.of(1948.0, 110.0, (1730.0, 2170.0)),
        NumberCell.of(7.0, 0.0),
    ]
    assert align_cells(cells) == [
        ("    9 ± 61 ", "[0, 132]"),
        ("1,950 ± 110", "[1,730, 2,170]"),
        ("    7      ", ""),
    ]
    assert align_cells([]) == []


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (Fraction(1, 3), "33.4%"),
        (0.56339, "56.4%"),
        (Fraction(1, 2), "50%"),
        (0.07, "7%"),
        (0.1 + 0.2, "30%"),
        (0.00123, "0.13%"),
        (0.9999, "99.99%"),
        (Fraction(1), "100%"),
    ],
)
def test_upper_limit_is_never_rounded_down(share: Fraction | float, text: str) -> None:
    assert format_upper_percent(share) == text


@pytest.mark.parametrize(
    ("factor", "text"), [(Fraction(9, 2), "4.5"), (Fraction(88, 13), "6.77"), (2.0001, "2.001"), (1234.1, "1,235")]
)
def test_largest_factor_is_never_rounded_down(factor: Fraction | float, text: str) -> None:
    assert format_upper_factor(factor) == text
