"""Worked cases of perturbation: uniform, small domain, subset selection, and what attackers learn.

The numbers come from an independent implementation in exact rationals, made for Chaytor and Wang, "Small Domain
Randomization" (VLDB 2010), for the fine-grain paper, and for subset selection (Ye and Barg 2018).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import combinations
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from enumeration import replaced_by
from selection import examples
from sfumato._core.array_types import Floats
from sfumato._core.random_draws import Draws
from sfumato._query.estimate import Estimate
from sfumato._query.intervals import compute_score_ends
from sfumato._records.tally import Tally
from sfumato._request.belief_bounds import BreachBound, BreachBoundPerValue
from sfumato._request.histogram import Histogram
from sfumato._verify.distributions.sub_table_distribution import (
    SubTableDistribution,
    compute_lowered_belief,
    compute_raised_belief,
    compute_sub_table_posteriors,
)
from sfumato._verify.distributions.subset_verifier import SetDistribution
from sfumato.mechanisms._randomized_response import fine_grain, small_domain
from sfumato.mechanisms._randomized_response import known_group_risk as exposure
from sfumato.mechanisms._randomized_response import uniform_mechanism as uniform
from sfumato.mechanisms._randomized_response.inverse_estimation import estimate_by_iteration
from sfumato.mechanisms._randomized_response.perturbation_operators import Cell, Operator
from sfumato.mechanisms._randomized_response.small_domain import Merge
from sfumato.mechanisms._randomized_response.small_domain.balancing import balance
from sfumato.mechanisms._randomized_response.small_domain.sub_table_planning import rearrange_groups
from sfumato.mechanisms._subset_selection import subset_mechanism as subset
from sfumato.mechanisms._subset_selection.set_sampler import find_best_set_size
from sfumato.mechanisms.estimator import Moments

DRAWS = Draws.unsafe_test_key("ca" * 32)
Law = list[list[Fraction]]
"""law[original][published]"""

EXAMPLE = (12, 8, 6, 5, 4, 3, 1, 1, 1, 1)
THIRDS = BreachBound("1/3", "2/3")
T1, T2 = (12, 8, 6, 4, 4, 2, 0, 0, 0, 0), (0, 0, 0, 1, 0, 1, 1, 1, 1, 1)


def _uniform(domain_size: int, bound: BreachBound) -> uniform.Design:
    histogram = Histogram.of(range(domain_size), [1] * domain_size)
    return uniform.make_design(uniform.plan(histogram, bound, uniform.NoOptions(), DRAWS))


def _odds(amplification: str | Fraction) -> BreachBound:
    """A request with the given amplification: from even odds to that many times even odds."""
    odds = Fraction(amplification)
    return BreachBound("1/2", odds / (1 + odds))


def _paper_plan(counts: Sequence[int], bound: BreachBound) -> small_domain.Plan:
    """The plan of the paper's own three phases."""
    options = small_domain.Options(merge=Merge.PAPER, publish_shares=True)
    return small_domain.plan(Histogram.of(range(len(counts)), counts), bound, options, DRAWS)


def _close(numbers: object) -> object:
    return pytest.approx(numbers, rel=1e-9, abs=1e-9)


# --------------------------------------------------------------------------------------------------------- uniform


@pytest.mark.parametrize(
    ("domain_size", "prior", "posterior", "amplification", "law"),
    [
        (50, "1/13", "1/6", "12/5", ("7/257", "5/257", "12/257")),
        (50, "1/13", "1/5", "3", ("1/26", "1/52", "3/52")),
        (50, "1/13", "1/4", "4", ("3/53", "1/53", "4/53")),
        (50, "1/13", "1/3", "6", ("1/11", "1/55", "6/55")),
        (50, "3/40", "1/6", "37/15", ("11/386", "15/772", "37/772")),
        (14, "1/30", "1/10", "29/9", ("10/73", "9/146", "29/146")),
        (2, "1/3", "2/3", "4", ("3/5", "1/5", "4/5")),
        (15_000, "1/10", "5/14", "5", ("1/3751", "1/15004", "5/15004")),
    ],
)
def test_uniform_law(
    domain_size: int, prior: str, posterior: str, amplification: str, law: tuple[str, str, str]
) -> None:
    bound = BreachBound(prior, posterior)
    design = _uniform(domain_size, bound)
    assert bound.amplification == Fraction(amplification)
    kept = design.retention + design.swap_probability
    assert (design.retention, design.swap_probability, kept) == tuple(map(Fraction, law))


RECONSTRUCTED = [
    ((30, 20, 10, 0), "3", (60, 30, 0, -30), (42, 18, 0, 0)),
    ((5, 5, 5), "2", (5, 5, 5), (5, 5, 5)),
    ((100, 0), "7/2", (140, -40), (100, 0)),
]


def _reconstructed(shown: Sequence[int], amplification: str, method: str) -> list[Moments]:
    design = _uniform(len(shown), _odds(amplification))
    tally = Tally.of_symbols(np.array(shown))
    return uniform.MECHANISM.estimators[method].count(design, tally, [np.array([place]) for place in range(len(shown))])


@pytest.mark.parametrize(("shown", "amplification", "closed", "iterated_"), RECONSTRUCTED)
def test_reconstructed_counts(
    shown: tuple[int, ...], amplification: str, closed: tuple[int, ...], iterated_: tuple[int, ...]
) -> None:
    """The closed form may leave the range of a count; iterative Bayes converges to its end."""
    assert [each.value for each in _reconstructed(shown, amplification, "closed")] == _close(closed)
    found = [each.value for each in _reconstructed(shown, amplification, "em")]
    assert found == pytest.approx(iterated_, abs=1e-4 * sum(shown))
    assert sum(found) == pytest.approx(sum(shown))


class CountCase(NamedTuple):
    """A count of hits among rows, and what to make of it."""

    hits: int
    rows: int
    amplification: str
    domain_size: int
    estimate: str
    variance_at_nearest: float
    unbiased_variance: float
    interval: tuple[float, float]


COUNTS = [
    CountCase(
        40, 1000, "12/5", 50, "5280/7", 51575.5102040816, 51575.5102040816, (370.18163764396417, 1270.0969504941)
    ),
    CountCase(0, 25, "3", 13, "-25/2", 87.5, 18.75, (-15.486844204546989, 11.614867718364682)),
    CountCase(25, 25, "3", 13, "175", 225.0, 1050.0, (121.18132692527927, 249.9466965885384)),
]


def _counted(case: CountCase) -> Moments:
    design = _uniform(case.domain_size, _odds(case.amplification))
    counts = np.array([case.hits, case.rows - case.hits] + [0] * (case.domain_size - 2))
    (moments,) = uniform.MECHANISM.estimators["closed"].count(design, Tally.of_symbols(counts), [np.array([0])])
    return moments


@pytest.mark.parametrize("case", COUNTS)
def test_count_with_its_score_interval(case: CountCase) -> None:
    moments = _counted(case)
    assert moments.value == _close(float(Fraction(case.estimate)))
    assert np.concatenate(compute_score_ends(moments, 0.95)) == _close(case.interval)


@pytest.mark.parametrize("case", COUNTS)
def test_variance_of_a_count_at_the_nearest_possible_count(case: CountCase) -> None:
    moments = _counted(case)
    estimate = Estimate.of(moments, "method", "assumption")
    assert estimate.standard_error == _close(case.variance_at_nearest**0.5)


@pytest.mark.parametrize("case", COUNTS)
def test_unbiased_variance_of_a_count_is_that_at_the_estimate_itself(case: CountCase) -> None:
    """The sum of the squared weights less the estimate: the same line, taken where no count needs to be possible."""
    moments = _counted(case)
    assert moments.base + moments.slope * moments.value == _close(case.unbiased_variance)
    written = uniform.make_weights(_uniform(case.domain_size, _odds(case.amplification)))
    squares = case.hits * written["if_equal"][0] ** 2 + (case.rows - case.hits) * written["otherwise"][0] ** 2
    assert squares - moments.value == _close(case.unbiased_variance)


# ------------------------------------------------------------------------------------------------------ small domain


def test_examples_1_to_4_cells_and_matrices() -> None:
    """Sections 4.1 to 5.3: the parts {1, 3, 2} and {4, 5}, kept with 4/9 and 2/3; reproduced exactly."""
    balanced = balance(EXAMPLE, range(10))
    assert balanced.balance == 3
    assert balanced.groups == (
        (6, 6, 6, 0, 0, 0, 0, 0, 0, 0),
        (4, 0, 0, 4, 4, 0, 0, 0, 0, 0),
        (2, 2, 0, 0, 0, 2, 0, 0, 0, 0),
        (0, 0, 0, 1, 0, 1, 1, 0, 0, 0),
        (0, 0, 0, 0, 0, 0, 0, 1, 1, 1),
    )
    assert rearrange_groups(balanced.groups) == (0, 2, 1, 3, 4)
    plan = _paper_plan(EXAMPLE, THIRDS)
    assert tuple(cell.counts for cell in plan.cells) == (T1, T2)
    laws = [(cell.prior, cell.amplification, cell.retention) for cell in plan.design.cells]
    assert laws == [(Fraction(1, 3), 4, Fraction(1, 3)), (Fraction(1, 6), 10, Fraction(3, 5))]
    matrices = [SubTableDistribution.of(cell.places, [cell.retention] * 6) for cell in plan.design.cells]
    assert [(law.same_chances[0], law.other_chances[0]) for law in matrices] == [
        (Fraction(4, 9), Fraction(1, 9)),
        (Fraction(2, 3), Fraction(1, 15)),
    ]


@pytest.mark.parametrize("cell", [0, 1])
def test_example_1_meets_its_bound_with_equality(cell: int) -> None:
    plan = _paper_plan(EXAMPLE, THIRDS)
    published = plan.design.cells[cell]
    law = SubTableDistribution.of(published.places, [published.retention] * len(published.places))
    counts = [plan.cells[cell].counts[place] for place in published.places]
    assert max(compute_sub_table_posteriors(counts, law)) == Fraction(2, 3)


class CellsCase(NamedTuple):
    """Rows and hits of one value in the two cells of Example 1, and what to make of them."""

    place: int
    rows: tuple[int, int]
    hits: tuple[int, int]
    estimate: str
    unbiased_variance: float
    interval: tuple[float, float]


CELLS = [
    CellsCase(0, (20, 4), (9, 0), "61/3", 44.88888888888889, (9.515314940913859, 36.27329682001164)),
    CellsCase(3, (20, 4), (3, 2), "47/9", 22.864197530864196, (-2.4966794168461828, 17.49396394507626)),
    CellsCase(6, (20, 4), (0, 1), "11/9", 1.234567901234568, (-0.2631954870385589, 4.414954962902614)),
    CellsCase(3, (0, 0), (0, 0), "0", 0.0, (0.0, 0.0)),
]


def _counted_in_cells(case: CellsCase) -> Moments:
    design = _paper_plan(EXAMPLE, THIRDS).design
    operator = design.operator
    counts = np.zeros(len(operator.places), dtype=np.int64)
    for cell in (0, 1):
        mine = np.flatnonzero(operator.cells == cell)
        is_wanted = operator.places[mine] == case.place
        counts[mine[~is_wanted][0]] = case.rows[cell] - case.hits[cell]
        counts[mine[is_wanted]] = case.hits[cell]
    closed = small_domain.MECHANISM.estimators["closed"]
    (moments,) = closed.count(design, Tally.of_symbols(counts), [np.array([case.place])])
    return moments


@pytest.mark.parametrize("case", CELLS)
def test_count_over_cells_with_its_score_interval(case: CellsCase) -> None:
    moments = _counted_in_cells(case)
    assert moments.value == _close(float(Fraction(case.estimate)))
    assert np.concatenate(compute_score_ends(moments, 0.95)) == _close(case.interval)


@pytest.mark.parametrize("case", CELLS)
def test_unbiased_variance_over_cells_is_the_sum_of_squared_weights_less_the_estimate(case: CellsCase) -> None:
    squares = 0.0
    written = small_domain.make_weights(_paper_plan(EXAMPLE, THIRDS).design)
    for cell, value, equal, otherwise in zip(*written.values(), strict=True):
        if value == case.place:
            squares += case.hits[cell] * equal**2 + (case.rows[cell] - case.hits[cell]) * otherwise**2
    assert squares - _counted_in_cells(case).value == _close(case.unbiased_variance)


JOINT_SHOWN = ((9, 4, 3, 2, 1, 1, 0, 0, 0, 0), (0, 0, 0, 1, 0, 1, 1, 0, 1, 0))
JOINT_STEPS: Mapping[int, tuple[float, ...]] = {
    1: (
        *(8.502380952380951, 4.268253968253969, 3.001190476190476, 2.7007936507936514, 1.5841269841269843),
        *(1.6765873015873014, 0.8666666666666666, 0.26666666666666666, 0.8666666666666666, 0.26666666666666666),
    ),
    300: (
        *(14.862668194503083, 2.8014162766028483, 0.38932051563757575, 1.9289231000389777, 2.1922972323462116e-41),
        *(1.4192760084444709, 1.2991979523865227, 2.6468750913875736e-118, 1.2991979523865227, 2.6468750913875736e-118),
    ),
}


def _iterated_by_hand(start: Sequence[float], steps: int) -> list[float]:
    """Bayes' rule for every record of the two cells of Example 1, over and over."""
    held = list(start)
    for _ in range(steps):
        told = [0.0] * len(EXAMPLE)
        for counts, retention, shown in zip((T1, T2), (1 / 3, 3 / 5), JOINT_SHOWN, strict=True):
            inside = {place: held[place] * count / EXAMPLE[place] for place, count in enumerate(counts) if count}
            swap = (1 - retention) / len(inside)
            for published in inside:
                chances = {true: each * (swap + retention * (true == published)) for true, each in inside.items()}
                for true, chance in chances.items():
                    told[true] += shown[published] * chance / sum(chances.values())
        held = told
    return held


@pytest.mark.parametrize("steps", JOINT_STEPS)
def test_joint_iterative_bayes_over_cells(steps: int) -> None:
    """From the shares of the table, with the shares of each value in the two cells of Example 1."""
    start = [count * 24 / 42 for count in EXAMPLE]
    assert _iterated_by_hand(start, steps) == pytest.approx(JOINT_STEPS[steps], rel=1e-9)


@pytest.mark.parametrize("steps", [0, *JOINT_STEPS])
def test_iterative_bayes_takes_the_steps_of_the_case_from_an_even_start(steps: int) -> None:
    """What is checked above by hand, and several lines of counts at once, each for itself."""
    design = _paper_plan(EXAMPLE, THIRDS).design
    operator, shares = design.operator, design.cell_shares
    assert shares is not None
    shown = np.array(JOINT_SHOWN)[operator.cells, operator.places]
    found = estimate_by_iteration(operator, np.array([shown, 0 * shown, 3 * shown]), shares, steps)
    expected = np.array(_iterated_by_hand([2.4] * 10, steps))
    assert found == pytest.approx(np.array([expected, 0 * expected, 3 * expected]), rel=1e-9)


def test_joint_iterative_bayes_takes_the_shares_of_the_values_in_the_cells() -> None:
    design = _paper_plan(EXAMPLE, THIRDS).design
    assert design.cell_shares == pytest.approx([1, 1, 1, 4 / 5, 1, 2 / 3, 1 / 5, 1 / 3, 1, 1, 1, 1])


# --------------------------------------------------------------------------------------------------- subset selection


class SetsCase(NamedTuple):
    """The best sets for a domain and an amplification; the variance is that of a count of nobody, for each row."""

    domain_size: int
    amplification: str
    subset_size: int
    hold: str
    other: str
    variance: float


@pytest.mark.parametrize(
    "case",
    [
        SetsCase(50, "12/5", 14, "14/29", "8/29", 4.666666666666667),
        SetsCase(50, "6", 7, "42/85", "79/595", 0.881860465116279),
        SetsCase(717, "12/5", 211, "1266/2531", "532775/1812196", 4.881522322133431),
        SetsCase(14, "3", 3, "9/20", "51/260", 2.446969696969697),
        SetsCase(2, "3", 1, "3/4", "1/4", 0.75),
        SetsCase(6, "5/2", 1, "1/3", "2/15", 2.888888888888889),
    ],
)
def test_subset_selection(case: SetsCase) -> None:
    amplification, hold, other = map(Fraction, (case.amplification, case.hold, case.other))
    assert find_best_set_size(case.domain_size, amplification) == case.subset_size
    histogram = Histogram.of(range(case.domain_size), [1] * case.domain_size)
    plan = subset.plan(histogram, _odds(amplification), subset.Options(), DRAWS)
    design = subset.make_design(plan)
    assert (design.hold_probability, design.other_probability, design.amplification) == (hold, other, amplification)
    assert subset.predict_variances(plan, np.array([1.0]), np.array([0.0])) == _close(case.variance)
    law = SetDistribution(case.domain_size, case.subset_size, hold)
    assert (law.other_chance, law.amplification) == (other, amplification)


def test_subset_selection_halves_the_error_of_uniform_perturbation_on_fifty_values() -> None:
    """Model error at the same guarantee, odds times 12/5: sets of 14 values have 0.42 times the standard error."""
    design = _uniform(50, _odds("12/5"))
    swap, retention = float(design.swap_probability), float(design.retention)
    uniform_variance = swap * (1 - swap) / retention**2
    assert (4.666666666666667 / uniform_variance) ** 0.5 == pytest.approx(0.4257, abs=1e-3)


# ---------------------------------------------------------------------------------------------- what attackers learn


def _example_law() -> tuple[list[tuple[int, ...]], list[Law]]:
    """For each cell of Example 1 its counts, and law[original][published] over the whole domain."""
    plan = _paper_plan(EXAMPLE, THIRDS)
    laws = []
    for cell in plan.design.cells:
        law = SubTableDistribution.of(cell.places, [cell.retention] * len(cell.places))
        places = {place: number for number, place in enumerate(cell.places)}
        rows = []
        for original in range(len(EXAMPLE)):
            number = places.get(original)
            chances = [Fraction(0)] * len(EXAMPLE)
            if number is not None:
                for place in cell.places:
                    chances[place] = law.same_chances[number] if place == original else law.other_chances[number]
            rows.append(chances)
        laws.append(rows)
    return [cell.counts for cell in plan.cells], laws


def _posterior(weights: Mapping[int, Fraction], law: Law, shown: int, of: Sequence[int]) -> Fraction:
    """Bayes' rule: the chance that the value is one of `of`, given weights of the values and what is shown."""
    chances = {value: weight * law[value][shown] for value, weight in weights.items()}
    return sum((chances[value] for value in of if value in chances), Fraction(0)) / sum(chances.values())


def test_small_domain_does_not_cover_statements_about_several_values() -> None:
    """Example 1, "the value is one of x4, x6 ... x10": believed with 2/7 before and certain in the second cell."""
    (_, counts), (_, law) = _example_law()
    statement = [3, 5, 6, 7, 8, 9]
    prior = Fraction(sum(EXAMPLE[value] for value in statement), sum(EXAMPLE))
    weights = {value: Fraction(count) for value, count in enumerate(counts) if count}
    assert prior == Fraction(2, 7) <= THIRDS.prior
    assert {_posterior(weights, law, shown, statement) for shown in statement} == {1}
    assert THIRDS.posterior < 1


def _knowing(group: Sequence[int], counts: Sequence[int]) -> dict[int, Fraction]:
    """Whoever knows that the person is in a group with equal numbers of some values, and in a cell with these counts.

    A record of x is in the cell with the share of x's records that the cell has.
    """
    return {value: Fraction(counts[value], EXAMPLE[value]) for value in group}


def test_small_domain_does_not_cover_who_knows_a_public_column() -> None:
    """Example 1, a group with x1, x4 and x7 alike: seen in the first cell as x1, x1 rises from 1/3 to 5/6 > 2/3."""
    (counts, _), (law, _) = _example_law()
    weights = _knowing([0, 3, 6], counts)
    assert _posterior(weights, law, 0, [0]) == Fraction(5, 6)
    weights = _knowing([4, 6, 7], counts)
    assert _posterior(weights, law, 4, [4]) == 1


def test_uniform_perturbation_covers_who_knows_a_public_column() -> None:
    """The same group under uniform perturbation of the same request: 1/3 rises to 2/3, as promised."""
    design = _uniform(10, THIRDS)
    law = SubTableDistribution.of(range(10), [design.retention] * 10)
    shown = {0: law.same_chances[0], 3: law.other_chances[3], 6: law.other_chances[6]}
    assert shown[0] / sum(shown.values()) == Fraction(2, 3)


def test_exposure_tells_the_holder_of_the_group_that_knows_too_much() -> None:
    """Four records each of x1, x4 and x7. Worst: seen in the second cell as x7, by 8/3 of x7 and 4/75 of x4.

    In the first cell all that show x1 or x4 are breached, 96/45 and 84/45 records; in the second all but the 4/5 that
    show x4, where x4 is believed with exactly 2/3: together 8 of 12.
    """
    risk = small_domain.measure_group_risk(_paper_plan(EXAMPLE, THIRDS), np.array([[4, 0, 0, 4, 0, 0, 4, 0, 0, 0]]))
    assert risk.worst_posterior == pytest.approx(50 / 51)
    assert risk.breached_share == pytest.approx(2 / 3)


def test_small_domain_does_not_keep_beliefs_from_falling() -> None:
    """Counts 12, 10, 5, 2, 1, 1, 1, (5/32, 1/5): x1 has 3/8 of the table, and is ruled out in two cells."""
    counts = (12, 10, 5, 2, 1, 1, 1)
    bound = BreachBound("5/32", "1/5")
    plan = _paper_plan(counts, bound)
    assert [cell.counts for cell in plan.cells] == [
        (0, 4, 1, 0, 0, 1, 0),
        (12, 0, 3, 2, 1, 0, 0),
        (0, 6, 1, 0, 0, 0, 1),
    ]
    assert Fraction(counts[0], sum(counts)) == Fraction(3, 8) >= bound.posterior
    assert 0 not in plan.protected_places


def test_theorem_1_of_the_fine_grain_paper_fails_downward() -> None:
    """Figure 2(b): cancer is shown by 1/4 of the SARS records and 1/2 of its own, so 1/7 falls to 1/13 < 1/10."""
    pairs = [("1/10", "1/7"), ("1/10", "1/4"), ("1/9", "19/35"), ("1/8", "18/25")]
    bounds = {value: BreachBound(*pair) for value, pair in enumerate(pairs)}
    plan = fine_grain.plan(Histogram.of(range(4), [1] * 4), BreachBoundPerValue(bounds), fine_grain.Options(), DRAWS)
    assert plan.retentions == (0, Fraction(1, 3), Fraction(1, 3), Fraction(1, 3))
    law = SubTableDistribution.of(range(4), plan.retentions)
    assert compute_lowered_belief(Fraction(1, 7), law.compute_fall(0)) == Fraction(1, 13) < Fraction(1, 10)
    for value, (prior, posterior) in enumerate(pairs):
        assert compute_raised_belief(Fraction(prior), law.compute_rise(value)) <= Fraction(posterior)


def test_theorem_1_holds_in_both_directions_where_they_are_asked_for() -> None:
    pairs = [("1/10", "1/7"), ("1/10", "1/4"), ("1/9", "19/35"), ("1/8", "18/25")]
    bounds = {value: BreachBound(*pair) for value, pair in enumerate(pairs)}
    options = fine_grain.Options(fine_grain.Direction.BOTH)
    plan = fine_grain.plan(Histogram.of(range(4), [1] * 4), BreachBoundPerValue(bounds), options, DRAWS)
    law = SubTableDistribution.of(range(4), plan.retentions)
    for value, bound in bounds.items():
        assert compute_raised_belief(bound.prior, law.compute_rise(value)) <= bound.posterior
        assert compute_lowered_belief(bound.posterior, law.compute_fall(value)) >= bound.prior


# ------------------------------------------------------------------------ exposure, against all that could be seen


class Instance(NamedTuple):
    """Cells, who is in them, the groups of a table, and the bounds of the values."""

    cells: list[Cell]
    shares: list[list[Fraction]]
    """The share of each value's records in each cell."""
    groups: list[list[int]]
    priors: list[Fraction]
    posteriors: list[Fraction]


@st.composite
def _instances(draw: st.DrawFn) -> Instance:
    """A few values in one to three cells of at least two values, each with a coin of its own, and a few groups."""
    size = draw(st.integers(2, 5))
    eighths = st.integers(0, 8).map(lambda part: Fraction(part, 8))
    cells = []
    for _ in range(draw(st.integers(1, 3))):
        places = draw(st.lists(st.integers(0, size - 1), min_size=2, max_size=size, unique=True))
        cells.append(Cell(tuple(places), tuple(draw(eighths) for _ in places)))
    weights = [{place: draw(st.integers(1, 4)) for place in cell.places} for cell in cells]
    totals = {place: sum(each.get(place, 0) for each in weights) for place in range(size)}
    shares = [[Fraction(weight, totals[place]) for place, weight in each.items()] for each in weights]
    # A value of no cell has no records; somebody is in the first group.
    group = st.tuples(*(st.integers(0, 6 if totals[place] else 0) for place in range(size))).map(list)
    groups = draw(st.lists(group, min_size=1, max_size=3))
    groups[0][cells[0].places[0]] += 1
    known = [("1/8", "3/8"), ("1/4", "1/2"), ("1/2", "7/8"), ("1/2", "1")]  # the last one protects nothing
    bounds = [draw(st.sampled_from(known)) for _ in range(size)]
    priors, posteriors = ([Fraction(bound[end]) for bound in bounds] for end in (0, 1))
    return Instance(cells, shares, groups, priors, posteriors)


def _seen(instance: Instance, group: list[int], cell: int) -> Iterator[dict[int, Fraction]]:
    """For each published value of a cell: how many records of the group show it, by their true value."""
    places, retentions = instance.cells[cell].places, instance.cells[cell].retentions
    for shown in places:
        yield {
            place: group[place] * share * ((1 - kept) / len(places) + kept * (place == shown))
            for place, share, kept in zip(places, instance.shares[cell], retentions, strict=True)
        }


def _brute_force(instance: Instance) -> tuple[Fraction, Fraction]:
    """The worst posterior and the expected share of breached records, over every group, cell and published value."""
    worst, breached = Fraction(0), Fraction(0)
    for group in instance.groups:
        covered = [
            place
            for place, count in enumerate(group)
            if count <= sum(group) * instance.priors[place] and instance.posteriors[place] < 1
        ]
        for weights in (each for cell in range(len(instance.cells)) for each in _seen(instance, group, cell)):
            expected = sum(weights.values())
            beliefs = {place: weights[place] / expected for place in covered if expected and place in weights}
            worst = max([worst, *beliefs.values()])
            if any(belief > instance.posteriors[place] for place, belief in beliefs.items()):
                breached += expected
    return worst, breached / sum(map(sum, instance.groups))


@settings(max_examples=examples(200))
@given(_instances())
def test_exposure_is_what_brute_force_finds(instance: Instance) -> None:
    operator = Operator(instance.cells, len(instance.priors))
    shares = np.array([float(each) for cell in instance.shares for each in cell])
    priors, posteriors = (np.array([float(each) for each in bounds]) for bounds in instance[3:])
    found = exposure.measure_risk(operator, shares, np.array(instance.groups), priors, posteriors)
    worst, breached = _brute_force(instance)
    assert found.worst_posterior == pytest.approx(float(worst), abs=1e-12)
    assert found.breached_share == pytest.approx(float(breached), abs=1e-12)


@settings(max_examples=examples(100))
@given(_instances())
def test_likelihoods_of_cells_are_what_brute_force_finds(instance: Instance) -> None:
    """Times the records of a group: how many of each value show each entry."""
    operator = Operator(instance.cells, len(instance.priors))
    shares = np.array([float(each) for cell in instance.shares for each in cell])
    found = operator.compute_likelihoods(shares, operator.places, operator.cells)
    for group in instance.groups:
        seen = [weights for cell in range(len(instance.cells)) for weights in _seen(instance, group, cell)]
        expected = [[float(weights.get(place, 0)) for place in range(len(group))] for weights in seen]
        assert found * group == pytest.approx(np.array(expected), abs=1e-12)


def _worst(likely: Floats, group: Sequence[int], priors: Sequence[Fraction]) -> Floats:
    """How far each value can come to be believed in a group, by Bayes' rule; 0 if it is not within its prior there."""
    joint = likely * np.array(group)
    beliefs = joint / np.maximum(joint.sum(axis=1, keepdims=True), np.finfo(np.float64).tiny)
    is_covered = [count <= prior * sum(group) for count, prior in zip(group, priors, strict=True)]
    return np.asarray(beliefs.max(axis=0) * is_covered)


@settings(max_examples=examples(200))
@given(
    st.lists(st.integers(0, 9) | st.integers(30, 60), min_size=5, max_size=5).filter(any),
    st.sampled_from(["11/10", "3/2", "2", "4", "20"]).map(Fraction),
    st.sampled_from(["1/3", "1/6", "1/20"]).map(Fraction),
)
def test_beliefs_by_sets_are_what_brute_force_finds(group: list[int], odds: Fraction, prior: Fraction) -> None:
    """Every set of the size that is published, by Bayes' rule, for every value whose share is within the prior."""
    bound = BreachBound(prior, prior * odds / (prior * odds + 1 - prior))
    assert bound.amplification == odds
    plan = subset.plan(Histogram.of(range(5), [1] * 5), bound, subset.Options(), DRAWS)
    worst, sets = [Fraction(0)] * 5, [frozenset(each) for each in combinations(range(5), plan.subset_size)]
    for members in sets:
        weights = [count * (odds if value in members else 1) for value, count in enumerate(group)]
        for value in (value for value in range(5) if group[value] <= prior * sum(group)):
            worst[value] = max(worst[value], Fraction(weights[value]) / sum(weights))
    (likely,) = subset.compute_likelihoods(plan, replaced_by(sets, 5))
    assert _worst(likely, group, [prior] * 5) == pytest.approx([float(each) for each in worst], abs=1e-12)
    assert max(worst) <= bound.posterior


@given(
    st.lists(st.integers(0, 9), min_size=4, max_size=4).filter(any),
    st.sampled_from([("1/3", "1/2"), ("1/4", "2/3"), ("1/10", "3/20")]),
)
def test_uniform_perturbation_is_never_breached_by_a_public_column(group: list[int], pair: tuple[str, str]) -> None:
    bound = BreachBound(*pair)
    plan = uniform.plan(Histogram.of(range(4), [1] * 4), bound, uniform.NoOptions(), DRAWS)
    (likely,) = uniform.compute_likelihoods(plan, replaced_by(range(4), 4))
    assert _worst(likely, group, [bound.prior] * 4).max() <= float(bound.posterior) * (1 + exposure.ROUNDING)


@given(
    st.lists(st.integers(0, 9), min_size=4, max_size=4).filter(any),
    st.sampled_from(list(fine_grain.Direction)),
)
def test_fine_grain_perturbation_is_never_breached_by_a_public_column(
    group: list[int], direction: fine_grain.Direction
) -> None:
    bounds = {0: BreachBound("1/10", "1/7"), 1: BreachBound("1/5", "1/2"), 2: BreachBound("1/3", "9/10")}
    options = fine_grain.Options(direction)
    plan = fine_grain.plan(Histogram.of(range(4), [4, 3, 2, 1]), BreachBoundPerValue(bounds), options, DRAWS)
    (likely,) = fine_grain.compute_likelihoods(plan, replaced_by(range(4), 4))
    worst = _worst(likely, group, [*(bound.prior for bound in bounds.values()), Fraction(0)])
    for value, bound in bounds.items():
        assert worst[value] <= float(bound.posterior) * (1 + exposure.ROUNDING)
