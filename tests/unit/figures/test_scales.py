"""Scales, their ticks, words for numbers, and labels that make room for each other."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from selection import examples
from sfumato._figures.axes import interpolate, spread_labels
from sfumato._figures.number_format import format_exact_percent, format_percent, format_quantity, round_to_two_digits
from sfumato._figures.scales import (
    LogScale,
    Scale,
    SignedScale,
    find_nice_step,
    keep_finite,
    make_linear_scale,
    make_log_scale,
    make_share_scale,
)
from sfumato._figures.svg import cut_text, escape_controls, estimate_width, wrap_text

numbers = st.lists(st.floats(allow_nan=True, allow_infinity=True) | st.none(), max_size=8)


@settings(max_examples=examples(60))
@given(numbers, st.booleans())
def test_scales_are_monotone_and_stay_between_their_ends(drawn: list[float | None], is_up: bool) -> None:
    start, end = (300.0, 20.0) if is_up else (40.0, 700.0)
    for make in (make_linear_scale, make_share_scale, make_log_scale):
        scale = make(drawn, start, end)
        places = [scale(each) for each in sorted(keep_finite(drawn))]
        assert all(min(start, end) <= place <= max(start, end) for place in places)
        assert places == sorted(places, reverse=is_up)
        assert scale.low < scale.high
        ticks = scale.list_ticks(40)
        assert ticks == sorted(ticks)
        assert all(scale.low * (1 - 1e-6) - 1e-9 <= each <= scale.high * (1 + 1e-6) + 1e-9 for each in ticks)
        assert all(abs(scale(one) - scale(other)) >= 39 for one, other in pairwise(ticks))


@settings(max_examples=examples(60))
@given(st.floats(-1e12, 0), st.floats(1, 1e12), st.floats(0.01, 1e6), numbers)
def test_scale_of_both_signs_is_monotone_and_keeps_ticks_apart(
    low: float, high: float, unit: float, drawn: list[float | None]
) -> None:
    scale = SignedScale(low, high, 0.0, 500.0, unit)
    places = [scale(each) for each in sorted(keep_finite(drawn))]
    assert places == sorted(places)
    assert all(0 <= place <= 500 for place in places)
    ticks = scale.list_ticks(40)
    assert 0.0 in ticks
    assert all(scale(other) - scale(one) >= 40 for one, other in pairwise(ticks))


@pytest.mark.parametrize(
    ("scale", "room", "expected"),
    [
        (Scale(0, 1, 0, 300), 60, [0, 0.2, 0.4, 0.6, 0.8, 1]),
        (Scale(-240, 4710, 0, 140), 55, [0, 2000, 4000]),
        (Scale(-60, 4530, 0, 450), 90, [0, 1000, 2000, 3000, 4000]),
        (Scale(0, 0.0121, 0, 600), 80, [0, 0.002, 0.004, 0.006, 0.008, 0.01, 0.012]),
        (LogScale(100, 100_000, 0, 300), 60, [100, 1000, 10_000, 100_000]),
        (LogScale(1, 20, 0, 260), 40, [1, 2, 5, 10, 20]),
        (LogScale(0.001, 1e9, 0, 240), 60, [0.001, 1, 1000, 1e6, 1e9]),
        (SignedScale(-200, 50_000, 0, 400, 60), 50, [-100, 0, 100, 1000, 10_000]),
    ],
)
def test_ticks_are_those_that_people_would_choose(scale: Scale, room: float, expected: list[float]) -> None:
    assert scale.list_ticks(room) == pytest.approx(expected)


def test_steps_are_one_two_and_five_times_a_power_of_ten() -> None:
    assert [find_nice_step(each) for each in (1, 1.1, 3, 7, 0.03, 1900)] == pytest.approx([1, 2, 5, 10, 0.05, 2000])


@settings(max_examples=examples(60))
@given(st.lists(st.floats(0, 300), max_size=20))
def test_labels_are_moved_apart_in_their_order(places: list[float]) -> None:
    found = spread_labels(places, 0, 300)
    assert all(-1e-9 <= each <= 300 + 1e-9 for each in found)
    order = sorted(range(len(places)), key=lambda each: (places[each], each))
    gaps = [found[after] - found[before] for before, after in pairwise(order)]
    assert all(gap >= 15 - 1e-9 for gap in gaps)


def test_labels_stay_where_they_are_if_they_do_not_touch() -> None:
    assert spread_labels([100, 20, 250], 0, 300) == [100, 20, 250]
    assert spread_labels([100, 100], 0, 300) == [100, 115]
    assert spread_labels([299, 300], 0, 300) == [285, 300]


@pytest.mark.parametrize(
    ("share", "words"),
    [
        (0.1349, "13%"), (0.027, "2.7%"), (0.05, "5%"), (0.0061, "0.61%"), (0.00043, "0.04%"), (0, "0%"), (1, "100%"),
        (1.9, "190%"), (50.0, "5,000%"), (0.00001, "below 0.01%"), (0.99999, "above 99.99%"), (0.9966, "99.66%"),
        (-0.02, "-2%"), (None, "not available"), (math.nan, "not available"), (math.inf, "not available"),
    ],
)  # fmt: skip
def test_shares_are_read_as_people_read_them(share: float | None, words: str) -> None:
    assert format_percent(share) == words


def test_shares_that_are_compared_have_one_digit_more() -> None:
    assert [format_exact_percent(each) for each in (0.951, 0.95, 1.0, 0.0, 0.99999)] == [
        "95.1%", "95.0%", "100%", "0%", "above 99.99%",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (1_234_567, "1,234,567"), (1234.56, "1,235"), (12.345, "12.3"), (0.0121, "0.0121"), (-60, "-60"), (-0.0, "0"),
        (3.0, "3"), (1e20, "1e+20"), (1e-7, "1e-07"), (None, "not available"),
    ],
)  # fmt: skip
def test_numbers_have_thousands_and_no_more_digits_than_are_read(number: float | None, words: str) -> None:
    assert format_quantity(number) == words


def test_what_is_known_to_two_digits_is_told_with_two() -> None:
    assert [round_to_two_digits(each) for each in (1847.0, 0.0, 12, 0.123)] == [1800, 0, 12, 0.12]


def test_interpolation_is_straight_on_powers_of_ten() -> None:
    assert interpolate([(100, 1.0), (10_000, 0.01)], 1000) == pytest.approx(0.1)
    assert interpolate([(100, 1.0), (10_000, 0.01)], 99) is None
    assert interpolate([(100, 0.5)], 100) == 0.5


@settings(max_examples=examples(60))
@given(st.text(max_size=80), st.floats(30, 300))
def test_text_is_cut_to_its_room_and_kept_if_it_fits(text: str, room: float) -> None:
    shown = cut_text(text, room)
    assert estimate_width(shown) <= room
    assert shown == escape_controls(text) or shown.endswith("\u2026")
    assert shown == escape_controls(text) or estimate_width(escape_controls(text)) > room


def test_lines_are_broken_between_words() -> None:
    lines = wrap_text("one two three four five", 60)
    assert len(lines) > 1
    assert " ".join(lines) == "one two three four five"
    assert all(estimate_width(line) <= 60 for line in lines)
