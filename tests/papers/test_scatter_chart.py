"""Clouds of points: each in its panel, on one scale, with nothing outside of the picture."""

from __future__ import annotations

import math
import re
import xml.etree.ElementTree as ET

import pytest

from papers.scatter_chart import MOST_DOTS, Cloud, draw_scatter
from sfumato._figures.line_chart import Axis

SVG = "{http://www.w3.org/2000/svg}"
CLOUDS = [
    Cloud("near", tuple((float(each), each + 5.0) for each in range(100, 1000))),
    Cloud("far", ((200.0, -300.0), (500.0, 1700.0), (800.0, math.nan))),
    Cloud("<b>'&", ((1.0, 1.0),)),
]


def drawn(clouds: list[Cloud], width: float) -> ET.Element:
    figure = draw_scatter("A heading", Axis("truth"), Axis("estimate"), clouds, reading="Read.", width=width)
    return ET.fromstring(figure.svg)


@pytest.mark.parametrize("width", [280, 360, 760])
@pytest.mark.parametrize("number", [0, 1, 3, 12])
def test_every_cloud_has_its_panel_inside_of_the_picture(width: int, number: int) -> None:
    root = drawn((CLOUDS * 4)[:number], width)
    high = float(root.attrib["viewBox"].split()[3])
    marked = [each for each in root.iter() if "data-row" in each.attrib]
    assert len(marked) == min(number, 10)
    for each in root.iter():
        for x, y in re.findall(r"M(-?[\d.]+) (-?[\d.]+)", each.get("d", "")):
            assert 0 <= float(x) <= width
            assert 0 <= float(y) <= high
        assert 0 <= float(each.get("y", 0)) <= high


def test_many_points_are_thinned_and_said_to_be() -> None:
    root = drawn(CLOUDS, 760)
    (near,) = (each for each in root.iter() if each.get("data-row") == "0")
    assert near.attrib["d"].count("h0") <= MOST_DOTS
    assert any("of 900 points" in "".join(each.itertext()) for each in root.iter(f"{SVG}text"))


def test_panels_share_their_scales() -> None:
    """A point of one truth lies at one height in every panel."""
    same = [Cloud(name, ((100.0, 90.0), far)) for name, far in (("a", (50.0, 900.0)), ("b", (70.0, -20.0)))]
    root = drawn(same, 760)
    heights = [
        re.findall(r"M[\d.]+ ([\d.]+)h0", each.attrib["d"])[0] for each in root.iter() if "data-row" in each.attrib
    ]
    assert len(heights) == 2
    assert heights[0] == heights[1]


def test_table_tells_how_far_points_typically_are() -> None:
    figure = draw_scatter("A heading", Axis("truth"), Axis("estimate"), CLOUDS, reading="Read.")
    assert figure.table.formatted_rows[1] == ("far", "2", "245%")
    assert figure.table.formatted_rows[2][2] == "0%"
