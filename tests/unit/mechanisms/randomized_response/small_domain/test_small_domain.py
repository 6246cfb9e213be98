"""The mechanism made of the planning: its law, its design, and what it tells its holder and the public."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, reject
from hypothesis import strategies as st

from refusals import refuses
from sfumato._core.array_types import RandomBits
from sfumato._core.random_draws import LARGEST_BOUND, Draws
from sfumato._perturb.perturbation import Slots
from sfumato._records.tally import Tally
from sfumato._request.belief_bounds import BreachBound
from sfumato._request.histogram import Histogram
from sfumato.errors import InfeasibleError, InternalError, ReleaseFormatError, SfumatoError
from sfumato.mechanisms._randomized_response import small_domain
from sfumato.mechanisms._randomized_response.small_domain import USUAL_MINIMUM, Merge, Options
from sfumato.mechanisms._randomized_response.small_domain.sub_table_planning import CellLayout
from single import Single, counted
from strategies import batch_splits, breach_bounds, fine_breach_bounds

DRAWS = Draws.unsafe_test_key("5d" * 32)
EXAMPLE = (12, 8, 6, 5, 4, 3, 1, 1, 1, 1)
THIRDS = BreachBound("1/3", "2/3")
ANY_SIZE = Options(min_cell=0)


def _plan(counts: Sequence[int], bound: BreachBound, options: Options = ANY_SIZE) -> small_domain.Plan:
    histogram = Histogram.of([f"value {place}" for place in range(len(counts))], counts)
    return small_domain.plan(histogram, bound, options, DRAWS)


def _cells(plan: small_domain.Plan) -> list[tuple[int, ...]]:
    return [cell.counts for cell in plan.cells]


def _counted(plan: small_domain.Plan, counts: Any, wanted: Sequence[int], method: str = "closed") -> Single:
    design, tally = small_domain.make_design(plan), Tally.of_symbols(np.array(counts))
    (moments,) = counted(small_domain.MECHANISM.estimators[method], design, tally, wanted)
    return moments


tables = st.lists(st.integers(0, 30), min_size=2, max_size=8).filter(lambda counts: sum(map(bool, counts)) > 1)


def _planned(counts: Sequence[int], bound: BreachBound, options: Options = ANY_SIZE) -> small_domain.Plan:
    """The plan; an example of hypothesis that has none is passed over."""
    try:
        return _plan(counts, bound, options)
    except InfeasibleError:
        reject()


# Planning


@given(tables, breach_bounds(20), st.sampled_from(Merge))
def test_the_cells_are_the_table(counts: list[int], bound: BreachBound, merge: Merge) -> None:
    plan = _planned(counts, bound, Options(merge, min_cell=0))
    assert [sum(each) for each in zip(*_cells(plan), strict=True)] == counts


@given(tables, breach_bounds(20), st.sampled_from(Merge))
def test_no_protected_value_is_believed_beyond_the_posterior_by_who_knows_the_cells(
    counts: list[int], bound: BreachBound, merge: Merge
) -> None:
    """Bayes' rule in rationals, with the counts of the cell as the prior, for every published value."""
    plan = _planned(counts, bound, Options(merge, min_cell=0))
    for cell, published in zip(plan.cells, plan.design.cells, strict=True):
        swap = (1 - published.retention) / len(published.places)
        for shown in published.places:
            weights = {
                place: cell.counts[place] * (swap + published.retention * (place == shown))
                for place in published.places
            }
            beliefs = [
                weights[place] / sum(weights.values()) for place in published.places if place in plan.protected_places
            ]
            assert max(beliefs) <= bound.posterior


@given(tables, breach_bounds(20))
def test_protected_are_the_values_that_occur_with_a_share_within_the_prior(
    counts: list[int], bound: BreachBound
) -> None:
    plan = _planned(counts, bound)
    shares = plan.histogram.shares
    assert plan.protected_places == tuple(place for place, share in enumerate(shares) if 0 < share <= bound.prior)


@given(tables, fine_breach_bounds())
def test_too_fine_a_bound_is_rounded_towards_privacy(counts: list[int], bound: BreachBound) -> None:
    plan = _planned(counts, bound)
    for cell, published, (keep, swap) in zip(plan.cells, plan.design.cells, plan.outcome_splits, strict=True):
        exact = cell.compute_amplification(bound.posterior)
        assert exact is not None
        assert 1 < published.amplification <= exact
        assert keep >= 1
        assert swap >= 1
        assert keep + cell.domain_size * swap <= LARGEST_BOUND


@given(tables, breach_bounds(20))
def test_a_bound_that_63_bits_hold_is_met_exactly(counts: list[int], bound: BreachBound) -> None:
    plan = _planned(counts, bound)
    for cell, published in zip(plan.cells, plan.design.cells, strict=True):
        assert published.amplification == cell.compute_amplification(bound.posterior)
        assert published.retention == cell.compute_retention(bound.posterior)
        assert published.prior == cell.prior


def test_values_that_nobody_has_are_in_no_cell() -> None:
    plan = _plan((0, 12, 0, 8, 6, 5, 4, 3, 1, 1, 1, 1, 0), THIRDS)
    held = {place for cell in plan.design.cells for place in cell.places}
    assert held == set(range(13)) - {0, 2, 12}
    assert not {0, 2, 12} & set(plan.protected_places)
    others = _plan(EXAMPLE, THIRDS)
    assert [cell.retention for cell in plan.design.cells] == [cell.retention for cell in others.design.cells]


@pytest.mark.parametrize("method", ["closed", "gls", "em"])
def test_a_value_that_nobody_has_is_counted_as_zero(method: str) -> None:
    plan = _plan((0, 12, 0, 8, 6), BreachBound("1/2", "2/3"))
    shown = np.arange(1, 1 + len(plan.design.operator.places))
    for absent in (0, 2):
        assert _counted(plan, shown, [absent], method).value == 0
    assert _counted(plan, shown, [0, 2]).variance_at(0) == 0
    assert _counted(plan, shown, [1, 3, 4], method).value == pytest.approx(shown.sum())


def test_plan_refuses_a_table_in_which_nothing_is_rare() -> None:
    with refuses(InfeasibleError, "no-value-below-prior", prior="1/10"):
        _plan((60, 40, 0), BreachBound("1/10", "1/2"))


def test_plan_refuses_a_table_of_one_value() -> None:
    """Its share is one, above every prior."""
    with refuses(InfeasibleError, "no-value-below-prior", prior="9/10"):
        _plan((100,), BreachBound("9/10", "95/100"))


def test_plan_refuses_a_posterior_at_which_nothing_could_be_kept() -> None:
    """Two values of one half each, and a posterior above one half by less than any word."""
    bound = BreachBound("1/2", Fraction(1, 2) + Fraction(1, 10**30))
    with refuses(InfeasibleError, "posterior-too-close", posterior=str(bound.posterior)):
        _plan((5, 5), bound)


@pytest.mark.parametrize(
    ("options", "minimum"),
    [
        (Options(), USUAL_MINIMUM),
        (Options(merge=Merge.PAPER), 0),
        (Options(min_cell=7), 7),
        (Options(merge=Merge.PAPER, min_cell=7), 7),
        (Options(min_cell=0), 0),
    ],
)
def test_the_smallest_cell_is_as_asked_for_or_as_usual(options: Options, minimum: int) -> None:
    assert options.minimum == minimum


@pytest.mark.parametrize("minimum", [0, 10, 100, 10**6])
def test_no_cell_is_smaller_than_asked_but_for_the_whole_table(minimum: int) -> None:
    plan = _plan([10 * count for count in EXAMPLE], THIRDS, Options(min_cell=minimum))
    assert min(cell.total for cell in plan.cells) >= min(minimum, 420)


def test_merging_by_variance_gives_more_cells_than_the_paper() -> None:
    """The examples of the paper: two cells by its bound, four by variance."""
    by_paper = _plan(EXAMPLE, THIRDS, Options(merge=Merge.PAPER))
    assert len(by_paper.cells) == 2
    assert len(_plan(EXAMPLE, THIRDS).cells) == 4


# Perturbing


class EveryOutcome:
    """Stands in for the draws: row i draws the number i, so that one batch meets each outcome once."""

    def get_stream(self, purpose: str) -> EveryOutcome:
        return self

    def draw_integers(self, first_row: int, rows: int, bound: RandomBits) -> RandomBits:
        assert set(bound.tolist()) == {rows}, "one row for each outcome"
        return np.arange(rows, dtype=np.uint64)


def _slots_of(plan: small_domain.Plan, place: int) -> list[tuple[int, int]]:
    """For each cell that holds records of a value: its number, and the first of their slots."""
    found, before = [], 0
    for number, cell in enumerate(plan.cells):
        if cell.counts[place]:
            found.append((number, before))
            before += cell.counts[place]
    return found


@pytest.mark.parametrize(
    ("counts", "bound"),
    [(EXAMPLE, THIRDS), ((0, 6, 6, 4, 2), BreachBound("2/5", "3/4")), ((90, 60, 30, 12), BreachBound("1/5", "1/2"))],
)
def test_replace_has_exactly_the_law_of_the_cell(counts: tuple[int, ...], bound: BreachBound) -> None:
    """All outcomes are run through, for every value in every cell that has it."""
    plan = _plan(counts, bound)
    for place in np.flatnonzero(counts).tolist():
        for number, slot in _slots_of(plan, place):
            published, (keep, swap) = plan.design.cells[number], plan.outcome_splits[number]
            words = keep + len(published.places) * swap
            replaced = small_domain.perturb(
                plan,
                np.full(words, place, dtype=np.uint8),
                np.full(words, slot, dtype=np.uint64),
                cast("Draws", EveryOutcome()),
                0,
            )
            assert replaced.cells is not None
            assert set(replaced.cells.tolist()) == {number}
            expected = dict.fromkeys(published.places, swap)
            expected[place] += keep
            assert Counter(replaced.values.tolist()) == expected
            assert Fraction(keep, words) == published.retention


@given(tables, breach_bounds(20))
def test_slots_lead_to_the_cells_as_planned(counts: list[int], bound: BreachBound) -> None:
    plan = _planned(counts, bound)
    codes = np.repeat(np.arange(len(counts)), counts)
    slots = np.concatenate([np.arange(count, dtype=np.uint64) for count in counts])
    cells = plan.layout.find_cells(codes, slots)
    found = np.zeros((len(plan.cells), len(counts)), dtype=np.int64)
    np.add.at(found, (cells, codes), 1)
    assert found.tolist() == [list(cell.counts) for cell in plan.cells]


def test_layout_sends_the_first_and_the_last_slot_of_a_value_to_its_first_and_last_cell() -> None:
    layout = CellLayout([(2, 0, 1), (3, 4, 0), (0, 1, 1)])
    codes = np.array([0, 0, 0, 0, 1, 1, 1, 2, 2])
    slots = np.array([0, 1, 2, 4, 0, 3, 4, 0, 1], dtype=np.uint64)
    assert layout.find_cells(codes, slots).tolist() == [0, 0, 1, 1, 1, 1, 2, 0, 2]


@given(batch_splits(42))
def test_replace_does_not_depend_on_how_rows_are_cut_into_batches(batches: list[range]) -> None:
    plan = _plan(EXAMPLE, THIRDS)
    codes = np.random.default_rng(1).permutation(np.repeat(np.arange(10, dtype=np.uint8), EXAMPLE))
    slots = Slots(DRAWS, small_domain.NAME, EXAMPLE)(codes, np.zeros(10, dtype=np.int64))
    whole = small_domain.perturb(plan, codes, slots, DRAWS, 0)
    parts = [
        small_domain.perturb(plan, codes[each.start : each.stop], slots[each.start : each.stop], DRAWS, each.start)
        for each in batches
    ]
    assert whole.cells is not None
    assert np.array_equal(np.concatenate([part.values for part in parts]), whole.values)
    assert np.array_equal(np.concatenate([part.cells for part in parts if part.cells is not None]), whole.cells)


def test_replace_keeps_the_type_of_the_codes() -> None:
    codes = np.array([0, 1, 2], dtype=np.uint16)
    replaced = small_domain.perturb(_plan(EXAMPLE, THIRDS), codes, np.zeros(3, dtype=np.uint64), DRAWS, 0)
    assert replaced.values.dtype == np.uint16


def test_replace_needs_slots() -> None:
    with pytest.raises(InternalError):
        small_domain.perturb(_plan(EXAMPLE, THIRDS), np.array([0], dtype=np.uint8), None, DRAWS, 0)
    assert small_domain.MECHANISM.uses_slots


# Counting


def test_the_expected_release_is_counted_as_the_table() -> None:
    plan = _plan(EXAMPLE, THIRDS)
    operator = plan.design.operator
    held = np.array(
        [plan.cells[cell].counts[place] for cell, place in zip(operator.cells, operator.places, strict=True)]
    )
    expected = 1000 * operator.compute_expected_counts(held.astype(float))
    for place, count in enumerate(EXAMPLE):
        assert _counted(plan, expected, [place]).value == pytest.approx(1000 * count)


@given(st.lists(st.integers(0, 50), min_size=15, max_size=15), st.integers(0, 9))
def test_weights_summed_over_the_rows_are_the_estimate(counts: list[int], place: int) -> None:
    """A row of a cell that does not have the value adds nothing, and has no line."""
    plan = _plan(EXAMPLE, THIRDS)
    operator = plan.design.operator
    assert len(operator.places) == len(counts)
    rows = operator.sum_by_cell(np.array(counts))
    total = 0.0
    for number, (cell, value, equal, otherwise) in enumerate(
        zip(*small_domain.make_weights(plan.design).values(), strict=True)
    ):
        if value == place:
            total += counts[number] * equal + (rows[cell] - counts[number]) * otherwise
    assert _counted(plan, counts, [place]).value == pytest.approx(total, abs=1e-9)


def test_the_variance_of_planning_is_that_of_a_count_in_all_rows() -> None:
    """At the table itself: the rows and the records of a value in each cell are those of the plan."""
    plan = _plan(EXAMPLE, THIRDS)
    planned = small_domain.predict_variances(plan, np.full(10, 42.0), np.array(EXAMPLE, dtype=float))
    exact = np.zeros(10)
    for cell, published in zip(plan.cells, plan.design.cells, strict=True):
        swap = float((1 - published.retention) / len(published.places))
        kept = float(published.retention) + swap
        for place in cell.places:
            held = cell.counts[place]
            noise = held * kept * (1 - kept) + (cell.total - held) * swap * (1 - swap)
            exact[place] += noise / float(published.retention) ** 2
    assert planned == pytest.approx(exact)


def test_a_release_shows_its_cells_even_if_there_is_one() -> None:
    shown = small_domain.make_encoding(_plan((50, 50), BreachBound("1/2", "3/4")).design)
    assert shown.cells is not None
    assert shown.cells.tolist() == [0, 0]


def test_every_plan_can_be_counted_with() -> None:
    small_domain.MECHANISM.plan_rules.check_countable(_plan(EXAMPLE, THIRDS))


# Publishing the design


@pytest.mark.parametrize("is_public", [True, False])
@pytest.mark.parametrize("counts", [EXAMPLE, (0, 6, 6, 4, 2)])
def test_design_comes_back_from_json(counts: tuple[int, ...], is_public: bool) -> None:
    design = _plan(counts, THIRDS, Options(min_cell=0, publish_shares=is_public)).design
    written = json.loads(json.dumps(design.to_json(), allow_nan=False))
    assert small_domain.read_design(written, ["string"]) == design


def test_the_counts_of_the_cells_are_published_only_if_asked_for() -> None:
    private, public = (_plan(EXAMPLE, THIRDS, Options(min_cell=0, publish_shares=each)) for each in (False, True))
    assert "counts" not in json.dumps(private.design.to_json())
    assert private.design.cell_shares is None
    written = [cell["counts"] for cell in public.design.to_json()["cells"]]
    assert written == [[6, 6, 6], [4, 4, 4], [2, 2, 2], [1, 1, 1, 1, 1, 1]]
    assert public.design.cell_shares == pytest.approx(private.shares)


def _written(**changes: Any) -> dict[str, Any]:
    options = Options(min_cell=0, publish_shares=True)
    written = _plan(EXAMPLE, THIRDS, options).design.to_json()
    first = written["cells"][0] | {key: value for key, value in changes.items() if key not in written}
    changed = {key: value for key, value in changes.items() if key in written}
    return written | {"cells": [first, *written["cells"][1:]]} | changed


@pytest.mark.parametrize(
    "changes",
    [
        {"places": [0]},
        {"places": [0, 1, 1]},
        {"places": [0, 1, 10]},
        {"places": [0, 1, -1]},
        {"retention": "0"},
        {"retention": "1"},
        {"retention": "501/1000"},
        {"prior": "0"},
        {"prior": "2/3"},
        {"counts": [6, 6]},
        {"counts": [6, 6, 0]},
        {"cells": []},
        {"domain": ["value"] * 10},
    ],
    ids=str,
)
def test_read_design_refuses_what_no_plan_could_have_written(changes: dict[str, Any]) -> None:
    """The first cell has the places 0, 1 and 2, and may keep half of its records."""
    assert _written()["cells"][0] == {"places": [0, 1, 2], "prior": "1/3", "retention": "1/2", "counts": [6, 6, 6]}
    written = _written(**changes)
    if "prior" in changes:  # the key of a cell and of the design
        written = _written()
        written["cells"][0] = written["cells"][0] | changes
    with pytest.raises(ReleaseFormatError):
        small_domain.read_design(written, ["string"])


@pytest.mark.parametrize("key", ["domain", "prior", "posterior", "cells"])
def test_read_design_needs_every_part(key: str) -> None:
    written = _written()
    del written[key]
    with pytest.raises((SfumatoError, KeyError)):
        small_domain.read_design(written, ["string"])


# Explaining


def test_explain_shows_the_holder_the_cells_with_their_counts() -> None:
    explained = small_domain.explain(_plan(EXAMPLE, THIRDS, Options(merge=Merge.PAPER)))
    assert explained["balance"] == 3
    assert explained["error_bound"] == pytest.approx(2.0196487259292377)
    first, second = explained["cells"]
    assert first["values"] == [f"value {place}" for place in range(6)]
    assert first["counts"] == [12, 8, 6, 4, 4, 2]
    assert (first["prior"], first["amplification"], first["retention"]) == ("1/3", "4/1", "1/3")
    assert (second["prior"], second["amplification"], second["retention"]) == ("1/6", "10/1", "3/5")
    assert first["error_bound"] == pytest.approx(1.9206455826398412)
    assert second["error_bound"] == pytest.approx(2.6136675856656177)
    json.dumps(explained, allow_nan=False)


LARGE = tuple(1000 * count for count in EXAMPLE)


def test_there_is_nothing_to_remark_on_a_plan_of_many_large_cells() -> None:
    assert small_domain.list_remarks(_plan(LARGE, THIRDS, Options())) == []


def _remark(plan: small_domain.Plan, words: str) -> str:
    (found,) = [said for said in map(str, small_domain.list_remarks(plan)) if words in said]
    return found


def test_a_posterior_up_to_one_over_the_balance_is_remarked_upon() -> None:
    """Balance 3: flat groups have shares of one third, so a posterior of one third cannot be met in them."""
    plan = _plan((3000, 3000, 2800, 800), BreachBound("5/16", "1/3"), Options())
    assert plan.balance == 3
    remark = _remark(plan, "not above 1/3")
    assert "posterior 1/3" in remark
    assert "had to be merged" in remark
    assert "larger posterior" in remark
    above = _plan((3000, 3000, 2800, 800), BreachBound("5/16", "2/5"), Options())
    assert not any("not above" in each for each in map(str, small_domain.list_remarks(above)))


def test_one_protected_value_is_remarked_upon_by_its_name() -> None:
    plan = _plan((6000, 3900, 100), BreachBound("1/10", "1/2"), Options())
    assert plan.protected_places == (2,)
    assert "'value 2'" in _remark(plan, "no other value is protected")


def test_values_that_are_too_frequent_to_be_protected_are_counted() -> None:
    plan = _plan((6000, 2000, 1000, 1000, 0), BreachBound("1/10", "1/2"), Options())
    remark = _remark(plan, "not protected")
    assert "2 of the 4 values that occur" in remark
    assert "prior 1/10" in remark


def test_a_protected_value_that_nothing_can_balance_is_remarked_upon() -> None:
    """Of the protected 1500, 400 and 100 records the first outweighs the others; the balance is one."""
    plan = _plan((8000, 1500, 400, 100), BreachBound("1/5", "1/2"), Options())
    assert plan.balance == 1
    assert "more frequent than all other protected values" in _remark(plan, "balancing is impossible")
    balanced = _plan((8000, 1000, 600, 400), BreachBound("1/5", "1/2"), Options())
    assert balanced.balance == 2
    assert not any("balancing is impossible" in each for each in map(str, small_domain.list_remarks(balanced)))


def test_one_cell_is_remarked_upon_as_uniform_perturbation_with_a_weaker_promise() -> None:
    plan = _plan((5000, 5000), BreachBound("1/2", "3/4"), Options())
    remark = _remark(plan, "a single sub-table with all values")
    assert "uniform" in remark
    assert "subset" in remark


def test_small_cells_are_remarked_upon_with_the_smallest() -> None:
    remark = _remark(_plan(EXAMPLE, THIRDS), "fewer than 1000 records")
    assert remark.startswith("4 of 4 sub-tables")
    assert "the smallest has 6" in remark


def test_a_table_smaller_than_the_usual_minimum_is_one_small_cell() -> None:
    plan = _plan(EXAMPLE, THIRDS, Options())
    assert _cells(plan) == [EXAMPLE]
    assert "1 of 1 sub-tables" in _remark(plan, "fewer than 1000 records")
    assert _remark(plan, "a single sub-table with all values")


def test_promise_states_one_prior_and_what_is_not_covered() -> None:
    promise = small_domain.state_guarantee(_plan(LARGE, THIRDS, Options()).design).text
    for words in (
        "at most 1/3 of the people",
        "each of the 4 sub-tables",
        "at most 2/3",
        "Nothing else is covered",
        "one of several",
        "not protected",
        "one of its 3 to 6 values",
    ):
        assert words in promise
    assert small_domain.MECHANISM.guarantee == "marginal-prior"
    assert not small_domain.MECHANISM.covers_predicates


def test_promise_of_cells_of_one_width_states_it_once() -> None:
    promise = small_domain.state_guarantee(
        _plan((6000, 6000, 4000, 2000), BreachBound("2/5", "2/3"), Options()).design
    ).text
    assert "one of its 3 values" in promise


def test_unprotected_values_cannot_be_breached() -> None:
    """A group in which the frequent value is certain: it is not protected, so nothing is breached."""
    plan = _plan((9000, 500, 500), BreachBound("1/10", "1/2"), Options())
    risk = small_domain.measure_group_risk(plan, np.array([[100, 0, 0]]))
    assert (risk.worst_posterior, risk.breached_share) == (0, 0)


def test_knowing_only_the_table_breaches_nothing() -> None:
    for bound in (THIRDS, BreachBound("2/7", "1/2")):
        plan = _plan(EXAMPLE, bound)
        risk = small_domain.measure_group_risk(plan, np.array([EXAMPLE]))
        assert risk.breached_share == 0
        assert risk.worst_posterior == pytest.approx(float(bound.posterior))
        assert math.isclose(risk.worst_posterior, bound.posterior)
