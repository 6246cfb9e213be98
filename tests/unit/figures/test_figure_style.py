"""Ten lines are told apart: by colours, for colour-blind eyes too, by dashes and by marks."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import numpy.typing as npt
import pytest

from sfumato._figures.axes import (
    MOST_LINES,
    select_broken_dash,
    select_dash_class,
    select_mark_shape,
    select_series_class,
)
from sfumato._figures.figure_style import COLOURS
from sfumato._figures.svg import SHAPES

Floats = npt.NDArray[np.float64]

EYES = {
    "usual": np.eye(3),
    "without long waves": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "without middle waves": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
    "without short waves": np.array(
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]
    ),
}
"""What eyes make of linear red, green and blue: Machado, Oliveira and Fernandes 2009, all of a kind lacking."""

TO_CONES = np.array(
    [
        [0.4122214708, 0.5363325363, 0.0514459929],
        [0.2119034982, 0.6806995451, 0.1073969566],
        [0.0883024619, 0.2817188376, 0.6299787005],
    ]
)
TO_LAB = np.array(
    [
        [0.2104542553, 0.793617785, -0.0040720468],
        [1.9779984951, -2.428592205, 0.4505937099],
        [0.0259040371, 0.7827717662, -0.808675766],
    ]
)
"""Ottosson's OKLab, in which equal distances look about equally far."""
LUMINANCE = np.array([0.2126, 0.7152, 0.0722])

LEAST, LEAST_FOR_FEW = 0.06, 0.03
"""Half of it for eyes without short waves, of which there is one in ten thousand."""


def light(colour: str) -> Floats:
    """Red, green and blue as light adds up."""
    parts = np.array([int(colour[place : place + 2], 16) for place in (1, 3, 5)]) / 255
    return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)


def seen(colour: str, eyes: Floats) -> Floats:
    """A colour as eyes see it, in OKLab."""
    return np.asarray(TO_LAB @ np.cbrt(TO_CONES @ np.clip(eyes @ light(colour), 0, 1)))


def of_lines(side: int) -> list[str]:
    return [COLOURS[select_series_class(number)][side] for number in range(MOST_LINES)]


@pytest.mark.parametrize("side", [0, 1], ids=["day", "night"])
@pytest.mark.parametrize("eyes", EYES)
def test_each_two_lines_have_colours_that_differ(eyes: str, side: int) -> None:
    least = LEAST_FOR_FEW if eyes == "without short waves" else LEAST
    for one, other in combinations(of_lines(side), 2):
        assert float(np.linalg.norm(seen(one, EYES[eyes]) - seen(other, EYES[eyes]))) > least, (one, other)


@pytest.mark.parametrize("side", [0, 1], ids=["day", "night"])
def test_names_in_the_colours_of_lines_can_be_read(side: int) -> None:
    """A contrast of 4.5, as WCAG 2.2 asks of text."""
    for each in (*of_lines(side), COLOURS["grey"][side]):
        low, high = sorted(float(LUMINANCE @ light(colour)) for colour in (each, COLOURS["ground"][side]))
        assert (high + 0.05) / (low + 0.05) >= 4.5, each


def test_lines_differ_by_dashes_and_marks_too() -> None:
    numbers = range(MOST_LINES)
    assert (
        len(SHAPES)
        == MOST_LINES
        == len(set(map(select_mark_shape, numbers)))
        == len(set(map(select_dash_class, numbers)))
    )
    assert select_dash_class(0) not in set(map(select_broken_dash, numbers))
    assert len(set(map(select_broken_dash, numbers))) == MOST_LINES - 1
