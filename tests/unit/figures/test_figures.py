"""Every figure: well-formed, escaped, with the same numbers in its picture, its reading and its table."""

from __future__ import annotations

import math
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable
from fractions import Fraction

import pytest

from figure_examples import EXAMPLES
from sfumato._figures import (
    STYLE,
    AnswerRow,
    AttackSuccess,
    BeliefBound,
    BoundCost,
    BucketComposition,
    BucketSize,
    ClassSizeCurve,
    ColumnExposure,
    ErrorCurve,
    EstimateWithTruth,
    Figure,
    KnownOthersCurve,
    TradeOff,
    TradeOffCurve,
    draw_against_truth,
    draw_attack_scenarios,
    draw_bucket_composition,
    draw_cost_per_value,
    draw_error_by_count,
    draw_exposure_by_column,
    draw_forest_plot,
    draw_known_others,
    draw_posterior_by_prior,
    draw_risk_utility,
    draw_uniqueness,
)
from sfumato._figures.figure_style import NOTEBOOK_STYLE
from sfumato._figures.line_chart import Axis, MeasuredLine, Panel, draw_lines, draw_panels

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = "<script>alert('x')</script>\"&\x00\x1b[2J\r\u202e\ud800\uffff" + "W" * 1000
TAGS = {"svg", "desc", "title", "defs", "pattern", "rect", "path", "circle", "text"}
UNKNOWN = (None, math.nan, math.inf)


def bound(*shares: tuple[str, float], factor: Fraction | None = Fraction(6)) -> BeliefBound:
    return BeliefBound(Fraction(1, 13), Fraction(1, 3), factor, shares)


def lines(names: list[str], **kinds: bool) -> Figure:
    """A line for each name."""
    measured = [MeasuredLine(each, ((1, 2.0), (3, 1.0)), **kinds) for each in names]
    return draw_lines("heading", Axis("across"), Axis("up"), measured, reading="It falls.")


def panels(names: list[str]) -> Figure:
    """The same over each other, the second on powers of ten and with a hollow mark."""
    measured = [MeasuredLine(each, ((1, 2.0), (3, 1.0)), hollow_points=(3,)) for each in names]
    times = Axis("far up", lambda number: f"{number:g} times", is_logarithmic=True)  # ticks unlike those above
    over = [Panel(Axis("up"), measured, "odd"), Panel(times, measured, "odd")]
    return draw_panels("heading", Axis("across"), over, reading="It falls.")


NOTHING: dict[str, Figure] = {
    "lines": lines([]),
    "panels": panels([]),
    "error": draw_error_by_count([]),
    "ladder": draw_attack_scenarios([]),
    "plane": draw_risk_utility([]),
    "belief": draw_posterior_by_prior(bound()),
    "exposure": draw_exposure_by_column([]),
    "alike": draw_uniqueness([]),
    "forest": draw_forest_plot([]),
    "truth": draw_against_truth([]),
    "cost": draw_cost_per_value([]),
    "composition": draw_bucket_composition(BucketComposition((), {})),
    "corruption": draw_known_others([]),
}
MANY: dict[str, Figure] = {
    "lines": lines([f"m{each}" for each in range(14)], is_published=True),
    "panels": panels([f"m{each}" for each in range(14)]),
    "error": draw_error_by_count([ErrorCurve(f"m{each}", ((100, 0.3), (1000, 0.1))) for each in range(14)]),
    "ladder": draw_attack_scenarios(
        [AttackSuccess(f"c{each % 30}", f"m{each // 30}", 0.1, 0.2) for each in range(300)]
    ),
    "belief": draw_posterior_by_prior(bound(*((f"v{each}", each / 300) for each in range(300)))),
    "exposure": draw_exposure_by_column([ColumnExposure(f"c{each}", each / 300, 0.5) for each in range(300)]),
    "forest": draw_forest_plot([AnswerRow(f"row {each}", each - 150, each - 155, each - 145) for each in range(300)]),
    "cost": draw_cost_per_value([BoundCost(f"v{each}", "1/3", each / 7) for each in range(300)]),
    "composition": draw_bucket_composition(
        BucketComposition(
            tuple(BucketSize(2 + size, 9, {f"v{each}": each + 1 for each in range(60)}) for size in range(20)), {}
        )
    ),
}
ODD: dict[str, Figure] = {
    "error, exact": draw_error_by_count([ErrorCurve("a", ((1000, 0.0),))]),
    "error, unknown": draw_error_by_count([ErrorCurve("a", tuple((100.0, each) for each in UNKNOWN))]),
    "error, huge": draw_error_by_count([ErrorCurve("a", ((1e-9, 1e308), (1e308, 1e-308)))]),
    "exposure, tiny": draw_exposure_by_column([ColumnExposure("a", 0.0, 2e-5)]),
    "plane, tiny": draw_risk_utility([TradeOffCurve("a", (TradeOff("p", 2e-5, 0.1),))]),
    "ladder, unknown": draw_attack_scenarios([AttackSuccess("a", "b", 0.2, each, each) for each in UNKNOWN]),
    "plane, equal": draw_risk_utility([TradeOffCurve("a", (TradeOff("p", 0.0, 0.0),) * 2)], accepted_gain=0.0),
    "plane, none within": draw_risk_utility([TradeOffCurve("a", (TradeOff("p", 0.2, 0.1),))], accepted_gain=0.1),
    "belief, only within": draw_posterior_by_prior(bound(("a", 0.5), factor=None)),
    "exposure, unknown": draw_exposure_by_column([ColumnExposure("a", 0.0, each) for each in UNKNOWN]),
    "alike, sketched": draw_uniqueness([ClassSizeCurve("after", ((1, 0.0),), is_exact=False)]),
    "forest, unknown": draw_forest_plot([AnswerRow("a", each, each, each) for each in UNKNOWN]),
    "forest, endless": draw_forest_plot([AnswerRow("a", 5, -math.inf, math.inf, -math.inf, math.inf)]),
    "forest, huge": draw_forest_plot([AnswerRow("a", -1e308, -1.7e308, 1.7e308)]),
    "truth, one": draw_against_truth([EstimateWithTruth(0, -5, 2, 0, 1)]),
    "truth, huge": draw_against_truth([EstimateWithTruth(1.7e308, -1.7e308, 1e308, -math.inf, math.inf)]),
    "cost, zero": draw_cost_per_value([BoundCost("a", "1/3", 0.0), BoundCost("b", "", None)]),
    "composition, above": draw_bucket_composition(
        BucketComposition((BucketSize(4, 1, {"a": 3}),), {"a": Fraction(1, 2)})
    ),
    "corruption, apart": draw_known_others(
        [KnownOthersCurve("a", ((0.1, 0.5),)), KnownOthersCurve("b", ((0.2, 0.5),))]
    ),
}
NAMED: dict[str, Callable[[str], Figure]] = {
    "lines": lambda name: lines([name, name]),
    "panels": lambda name: panels([name]),
    "error": lambda name: draw_error_by_count([ErrorCurve(name, ((100, 0.3), (1000, 0.1)), name)]),
    "ladder": lambda name: draw_attack_scenarios(
        [AttackSuccess(name, name, 0.1, 0.2), AttackSuccess("a", "b", 0.1, 0.2)]
    ),
    "plane": lambda name: draw_risk_utility([TradeOffCurve(name, (TradeOff(name, 0.1, 0.2),))]),
    "belief": lambda name: draw_posterior_by_prior(bound((name, 0.3))),
    "exposure": lambda name: draw_exposure_by_column([ColumnExposure(name, 0.1, 0.2)], bound=name),
    "alike": lambda name: draw_uniqueness(
        [ClassSizeCurve(name, ((1, 0.1), (4, 0.2))), ClassSizeCurve(name, ((1, 0.3),))]
    ),
    "forest": lambda name: draw_forest_plot([AnswerRow(name, 1, 0, 2, note=name)]),
    "cost": lambda name: draw_cost_per_value([BoundCost(name, name, 1.0, name, 0.1)], caption=name),
    "composition": lambda name: draw_bucket_composition(
        BucketComposition((BucketSize(4, 9, {name: 9}),), {name: Fraction(1, 2)})
    ),
    "corruption": lambda name: draw_known_others([KnownOthersCurve(name, ((0.0, 0.1), (0.2, 0.3)))]),
}
ALL = {
    **{f"{name} {width}": draw(width) for name, draw in EXAMPLES.items() for width in (360, 760)},
    **{f"{name}, nothing": figure for name, figure in NOTHING.items()},
    **{f"{name}, many": figure for name, figure in MANY.items()},
    **ODD,
    **{f"{name}, hostile": draw(HOSTILE) for name, draw in NAMED.items()},
}
PARSED = {name: ET.fromstring(figure.svg) for name, figure in ALL.items()}
every_figure = pytest.mark.parametrize("kind", ["760", "360", "nothing", "many", "odd", "hostile"])


def figures(kind: str) -> list[tuple[str, Figure, ET.Element]]:
    """The figures of one kind, each with its name and its parsed picture."""
    names = list(ODD) if kind == "odd" else [name for name in ALL if name.endswith(kind)]
    assert names
    return [(name, ALL[name], PARSED[name]) for name in names]


def texts(root: ET.Element) -> list[str]:
    return ["".join(each.itertext()) for each in root.iter(f"{SVG}text")]


@every_figure
def test_picture_is_well_formed_and_says_its_reading(kind: str) -> None:
    for name, figure, root in figures(kind):
        assert root.findtext(f"{SVG}desc") == figure.reading, name
        assert figure.reading.endswith("."), name
        names = [each.attrib["id"] for each in root.iter() if "id" in each.attrib]
        assert len(set(names)) == len(names), name
        assert root.get("aria-describedby") in names, name
        assert not any(key in {"style", "onclick", "href"} for each in root.iter() for key in each.attrib), name
        assert {each.tag.removeprefix(SVG) for each in root.iter()} <= TAGS, name


@every_figure
def test_every_row_of_the_table_has_its_mark_or_is_said_to_have_none(kind: str) -> None:
    for name, figure, root in figures(kind):
        marked = [int(each.attrib["data-row"]) for each in root.iter() if "data-row" in each.attrib]
        assert len(set(marked)) == len(marked), name
        assert set(marked) <= set(range(len(figure.table.rows))), name
        left_out = [int(each.attrib["data-left-out"]) for each in root.iter() if "data-left-out" in each.attrib]
        assert len(marked) + sum(left_out) == len(figure.table.rows), name
        assert not left_out or kind in {"many", "360"}, name


@every_figure
def test_marks_and_words_lie_within_the_picture(kind: str) -> None:
    for name, figure, root in figures(kind):
        width, height = (float(each) for each in root.attrib["viewBox"].split()[2:])
        for each in root.iter():
            for key, most in (("x", width), ("cx", width), ("y", height), ("cy", height)):
                assert 0 <= float(each.get(key, 0)) <= most, name
            for x, y in re.findall(r"[ML](-?[\d.e+]+) (-?[\d.e+]+)", each.get("d", "")):
                assert 0 <= float(x) <= width, name
                assert 0 <= float(y) <= height, name
        assert not re.search("nan|inf", re.sub(r"<(title|desc|text)[^>]*>[^<]*", "", figure.svg)), name


NUMBER = re.compile(r"(?<![\w.])-?\d+(?:,\d{3})*(?:\.\d+)?(?:/\d+)?%?")


@pytest.mark.parametrize("name", list(EXAMPLES))
def test_numbers_of_a_reading_stand_in_its_table_or_are_counted_from_it(name: str) -> None:
    figure = ALL[f"{name} 760"]
    told = {number for row in figure.table.formatted_rows for cell in row for number in NUMBER.findall(cell)}
    counted = {
        "3-risk-utility": {"1/3", "10"},
        "4-posterior-by-prior": {"1/13", "1/3"},
        "7-forest": {"6", "9", "1", "95%"},
        "8-against-truth": {"95.0%", "5,000", "95%"},
        "10-bucket-composition": {"2"},
    }
    left = set(NUMBER.findall(figure.reading)) - told - counted.get(name, set())
    assert not left


VERDICTS = re.compile(
    r"anonym|de-identif|gdpr|hipaa|re-identification risk|differential|nobody can learn|no risk|\bsafe|passed|"
    r"k-anonymous|for the population|guarantees? that|cannot be identified|protected from",
    re.IGNORECASE,
)


@every_figure
def test_ticks_of_an_axis_are_told_apart(kind: str) -> None:
    for name, _, root in figures(kind):
        for side, along in (("quiet middle", "y"), ("quiet end", "x")):
            ticks = [each for each in root.iter(f"{SVG}text") if each.get("class") == side]
            labels = [(each.get(along), "".join(each.itertext())) for each in ticks]
            assert len(set(labels)) == len(labels), name


@every_figure
def test_no_figure_pronounces_a_verdict(kind: str) -> None:
    for name, figure, root in figures(kind):
        words = ["".join(each.itertext()) for each in root.iter()]
        words += [figure.reading, *(column.heading for column in figure.table.columns)]
        assert not [each for each in words if VERDICTS.search(each)], name


@pytest.mark.parametrize(
    "sentence",
    [
        "the release is anonymous", "anonymised data", "De-identified.", "The GDPR does not apply", "there is no risk",
        "the re-identification risk is 3%", "it is differentially private", "nobody can learn it", "it is safe",
        "it passed the attacks", "the column is k-anonymous", "an interval for the population",
    ],
)  # fmt: skip
def test_verdicts_would_be_noticed(sentence: str) -> None:
    assert VERDICTS.search(sentence)


def test_hostile_names_are_escaped_and_cut_with_the_whole_beside_them() -> None:
    for name, figure, root in figures("hostile"):
        for markup in (figure.to_html(), figure._repr_html_(), figure.to_standalone_svg()):
            assert "<script" not in markup, name
            assert "alert('" not in markup, name
            assert not re.search("[\x00-\x09\x0b-\x1f\u202e\ud800\uffff]", markup), name
        cut = [each for each in root.iter(f"{SVG}text") if "".join(each.itertext()).endswith("\u2026")]
        assert cut, name
        assert all("W" * 1000 in (each.findtext(f"{SVG}title") or "") for each in cut), name
        assert len(figure.reading) < 600, name


def test_figures_are_the_same_each_time() -> None:
    for draw in EXAMPLES.values():
        assert draw(500) == draw(500)


def test_figures_of_one_page_share_no_id() -> None:
    names = [name for figure in ALL.values() for name in re.findall(r' id="([^"]+)"', figure.svg)]
    assert len(set(names)) == sum(svg.count(' id="') for svg in {figure.svg for figure in ALL.values()})


def test_notebook_gets_picture_reading_and_table() -> None:
    figure = ALL["2-attackers-ladder 760"]
    shown = figure._repr_html_()
    root = ET.fromstring(shown.removeprefix(f"<style>{NOTEBOOK_STYLE}</style>"))
    assert root.findtext("figcaption") == figure.reading
    rows = root.findall("details/table/tbody/tr")
    assert [tuple("".join(cell.itertext()) for cell in row) for row in rows] == figure.table.formatted_rows
    assert root.find(f"{SVG}svg") is not None


def test_standalone_picture_carries_its_style() -> None:
    figure = ALL["1-error-by-count 760"]
    root = ET.fromstring(figure.to_standalone_svg())
    assert (root.findtext(f"{SVG}style") or "").startswith(STYLE)


def test_classes_of_all_figures_have_a_style() -> None:
    used = {name for root in PARSED.values() for each in root.iter() for name in each.get("class", "").split()}
    assert len(used) > 20
    assert not {name for name in used if not re.search(rf"\.{name}\b", STYLE)}


def test_panels_lie_beneath_each_other_with_one_heading_and_hollow_marks_explained() -> None:
    root = ET.fromstring(panels(["a"]).svg)
    said = texts(root)
    assert (said.count("heading"), said.count("across"), said.count("hollow: odd")) == (1, 2, 2)
    hollow = [each for each in root.iter() if "hollow" in each.get("class", "")]
    assert [each.get("data-row") for each in hollow] == ["1", "3"]
    places = {each.text: float(each.attrib["y"]) for each in root.iter(f"{SVG}text")}
    assert places["up"] < places["far up"]


def test_an_axis_of_what_was_varied_ends_where_it_does_on_powers_of_ten_too() -> None:
    line = MeasuredLine("a", ((3, 1.0), (30, 1.0), (300, 1.0)))
    root = ET.fromstring(draw_lines("", Axis("x", is_logarithmic=True), Axis("y"), [line], reading=".").svg)
    first, middle, last = (float(each.attrib["cx"]) for each in root.iter(f"{SVG}circle"))
    edge = re.search(
        r"M([\d.]+) [\d.]+H([\d.]+)", "".join(each.get("d", "") for each in root.iter() if each.get("class") == "axis")
    )
    assert edge is not None
    assert middle == pytest.approx((first + last) / 2, abs=0.1)
    assert (first - 8, last + 8) == pytest.approx([float(each) for each in edge.groups()], abs=0.1)


@pytest.mark.parametrize("is_logarithmic", [False, True])
def test_one_place_of_what_was_varied_is_in_the_middle(is_logarithmic: bool) -> None:
    line = MeasuredLine("a", ((8, 1.0),))
    drawn = draw_lines("", Axis("x", is_logarithmic=is_logarithmic), Axis("y"), [line], reading=".")
    root = ET.fromstring(drawn.svg)
    (place,) = (float(each.attrib["cx"]) for each in root.iter(f"{SVG}circle"))
    (label,) = (float(each.attrib["x"]) for each in root.iter(f"{SVG}text") if each.text == "x")
    assert place == pytest.approx(label, abs=0.1)
    assert "8" in texts(root)


def test_a_line_has_a_gap_where_nothing_was_measured() -> None:
    points = ((1, 2.0), (2, 1.0), (3, None), (4, math.nan), (5, 3.0), (6, 2.0), (7, 1.0), (8, None))
    root = ET.fromstring(draw_lines("", Axis("x"), Axis("y"), [MeasuredLine("a", points)], reading=".").svg)
    (drawn,) = [each.attrib["d"] for each in root.iter(f"{SVG}path") if each.get("class", "").startswith("line")]
    assert [len(re.findall("[ML]", run)) for run in re.findall("M[^M]*", drawn)] == [2, 3]
    assert len([each for each in root.iter() if "data-row" in each.attrib]) == 5


@pytest.mark.parametrize(
    ("places", "ticks"),
    [((3, 4, 6), ["3", "4", "6"]), ((1, 2, 2.01, 5), ["1", "1.5", "2", "2.5", "3", "3.5", "4", "4.5", "5"])],
    ids=["with room", "too near"],
)
def test_what_was_varied_has_the_ticks_where_it_has_room(places: tuple[float, ...], ticks: list[str]) -> None:
    line = MeasuredLine("a", tuple((place, 0.0) for place in places))
    drawn = draw_lines("heading", Axis("across"), Axis("up"), [line], reading="It is flat.")
    root = ET.fromstring(drawn.svg)
    middle = [each for each in root.iter(f"{SVG}text") if "middle" in each.get("class", "").split()]
    assert [each.text for each in middle] == [*ticks, "across"]
