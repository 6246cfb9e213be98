"""Numbers as people see them: never smaller than they are where they bound something."""

from __future__ import annotations

import re
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.mechanisms._randomized_response.guarantee_sentences import format_factor, format_number, format_percent


@pytest.mark.parametrize(
    ("factor", "words"),
    [
        (Fraction(4), "4 times"),
        ("16/1", "16 times"),
        ("33/8", "4.125 times"),
        ("88/13", "6.77 times"),  # 6.76923...: up, because odds may rise so far
        ("31/6", "5.167 times"),
        (Fraction(3999999996, 999999996), "just over 4 times"),
        (Fraction(4) + Fraction(1, 10**6), "4.001 times"),
        (100, "100 times"),
        (Fraction(123451, 10), "12,350 times"),
        (1000, "1,000 times"),
        (Fraction(1001, 1000), "1.001 times"),
        (10**9 - 1, "1,000,000,000 times"),
        (0.75, "0.75 times"),
    ],
)
def test_times_rounds_up_at_the_fourth_digit(factor: Fraction | str | float, words: str) -> None:
    assert format_factor(factor) == words


@given(st.fractions(Fraction(1, 100), 10**8))
def test_times_is_never_less_than_the_factor_and_near_it(factor: Fraction) -> None:
    found = re.fullmatch(r"(just over )?([\d,.]+) times", format_factor(factor))
    assert found
    shown = Fraction(found[2].replace(",", ""))
    if found[1]:
        assert shown < factor <= shown * (1 + Fraction(1, 10**7))
    else:
        assert factor <= shown <= factor * (1 + Fraction(1, 1000))


@pytest.mark.parametrize(
    ("share", "words"),
    [
        ("1/3", "1/3 (33.3%)"),
        ("1/1", "1 (100%)"),
        ("13643/25000", "13643/25000 (54.6%)"),
        ("1234567/7654321", "16.13%"),
        ("1/1000", "1/1000 (0.1%)"),
        ("1/1000000000", "1/1000000000 (below 0.1%)"),
    ],
)
def test_percent_stands_beside_the_exact_share(share: str, words: str) -> None:
    assert format_percent(share) == words


@pytest.mark.parametrize(
    ("number", "words"), [("0/1", "0"), ("80/99", "80/99"), ("1234567/7654321", "0.1613"), (0.004054, "0.004054")]
)
def test_figure_is_exact_where_that_can_be_read(number: str | float, words: str) -> None:
    assert format_number(number) == words
