from __future__ import annotations

import dataclasses
import json
import math
from collections import defaultdict
from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, reject
from hypothesis import strategies as st

from enumeration import every_outcome
from refusals import refuses
from sfumato._core.random_draws import LARGEST_BOUND, Draws
from sfumato._records import PerturbedRecords
from sfumato._records.member_columns import MemberColumnEncoding
from sfumato._records.set_records import SetEncoding
from sfumato._records.tally import Tally
from sfumato._request.belief_bounds import BreachBound
from sfumato._request.histogram import Histogram
from sfumato.errors import InfeasibleError, ReleaseFormatError, SfumatoError
from sfumato.mechanisms._subset_selection import set_sampler
from sfumato.mechanisms._subset_selection import subset_mechanism as subset
from sfumato.mechanisms._subset_selection.set_sampler import number_sets
from sfumato.mechanisms._subset_selection.subset_mechanism import Form, Options
from single import Single, counted
from strategies import batch_splits, breach_bounds, fine_breach_bounds, histograms

DRAWS = Draws.unsafe_test_key("5e" * 32)
ROWS = 200


def _bound(amplification: str | Fraction) -> BreachBound:
    odds = Fraction(amplification)
    return BreachBound("1/2", odds / (1 + odds))


def _plan(domain_size: int, bound: BreachBound, options: Options | None = None) -> subset.Plan:
    histogram = Histogram.of(range(domain_size), [1] * domain_size)
    return subset.plan(histogram, bound, options or Options(), DRAWS)


def _design(domain_size: int, amplification: str | Fraction) -> subset.Design:
    return subset.make_design(_plan(domain_size, _bound(amplification)))


def _plan_or_reject(domain_size: int, bound: BreachBound) -> subset.Plan:
    try:
        return _plan(domain_size, bound)
    except InfeasibleError:
        reject()


def _counted(design: subset.Design, counts: Any, rows: int, wanted: list[int]) -> Single:
    tally = Tally.of_one(np.array(counts), rows)
    (moments,) = counted(subset.MECHANISM.estimators["closed"], design, tally, wanted)
    return moments


# Planning


def _variance(domain_size: int, subset_size: int, amplification: Fraction) -> Fraction:
    """What a row without the value adds to the variance of its count, from the chances of whole sets."""
    inside, outside = math.comb(domain_size - 1, subset_size - 1), math.comb(domain_size - 1, subset_size)
    hold = inside * amplification / (inside * amplification + outside)
    other = (hold * (subset_size - 1) + (1 - hold) * subset_size) / (domain_size - 1)
    return other * (1 - other) / (hold - other) ** 2


@given(st.integers(2, 60), st.fractions(Fraction(21, 20), 100))
def test_the_size_of_the_sets_is_the_best_of_all_sizes(domain_size: int, amplification: Fraction) -> None:
    sizes = range(1, domain_size)
    best = min(sizes, key=lambda size: (_variance(domain_size, size, amplification), size))
    assert set_sampler.find_best_set_size(domain_size, amplification) == best


@given(breach_bounds(), st.integers(2, 1000))
def test_plan_amplifies_exactly_as_asked_where_63_bits_hold_it(bound: BreachBound, domain_size: int) -> None:
    design = subset.make_design(_plan(domain_size, bound))
    assert design.amplification == bound.amplification
    size, members = domain_size, design.subset_size
    hold = bound.amplification * members / (bound.amplification * members + size - members)
    assert design.hold_probability == hold
    assert members == hold + (size - 1) * design.other_probability


@given(fine_breach_bounds(), st.integers(2, 1000))
def test_plan_rounds_too_fine_a_bound_towards_privacy(bound: BreachBound, domain_size: int) -> None:
    plan = _plan_or_reject(domain_size, bound)
    assert 1 < subset.make_design(plan).amplification <= bound.amplification
    assert plan.selection.outcome_count <= LARGEST_BOUND


@given(fine_breach_bounds(), st.integers(2, 1000))
def test_plan_could_not_hold_the_true_value_one_word_more_often(bound: BreachBound, domain_size: int) -> None:
    plan = _plan_or_reject(domain_size, bound)
    assume(plan.selection.hold_outcomes + 1 < plan.selection.outcome_count)
    more = dataclasses.replace(
        plan, selection=dataclasses.replace(plan.selection, hold_outcomes=plan.selection.hold_outcomes + 1)
    )
    assert subset.make_design(more).amplification > bound.amplification


def test_plan_of_a_posterior_next_to_certainty_still_leaves_the_true_value_out() -> None:
    plan = _plan(3, BreachBound("1/2", 1 - Fraction(1, 10**60)))
    assert plan.selection.hold_outcomes < plan.selection.outcome_count == LARGEST_BOUND


@pytest.mark.parametrize("counts", [(7,), (1,)])
def test_plan_refuses_a_domain_of_one_value(counts: tuple[int, ...]) -> None:
    with refuses(InfeasibleError, "one-value-domain"):
        subset.plan(Histogram(("flu",), counts), _bound("4"), Options(), DRAWS)


def test_plan_refuses_a_bound_so_narrow_that_a_set_tells_nothing() -> None:
    narrow = BreachBound("1/2", Fraction(1, 2) + Fraction(1, 10**30))
    with refuses(InfeasibleError, "posterior-too-close", prior=str(narrow.prior), posterior=str(narrow.posterior)):
        _plan(3, narrow)


@given(histograms(), breach_bounds())
def test_plan_looks_at_the_domain_and_not_at_the_counts(histogram: Histogram, bound: BreachBound) -> None:
    """Values that nobody has are hidden among like any other."""
    flat = Histogram.of(histogram.values, [1] * histogram.domain_size)
    designs = [subset.make_design(subset.plan(each, bound, Options(), DRAWS)) for each in (histogram, flat)]
    assert designs[0] == designs[1]
    assert len(designs[0].domain) == histogram.domain_size


def test_every_plan_can_be_counted_with() -> None:
    subset.MECHANISM.plan_rules.check_countable(_plan(2, _bound("1001/1000")))


# Drawing sets


def _law(plan: subset.Plan, original: int) -> dict[tuple[int, ...], Fraction]:
    """The exact chance of every set, by running through every outcome of the draws."""
    size = plan.histogram.domain_size

    def drawn(draws: Draws) -> tuple[int, ...]:
        bits = subset.perturb(plan, np.array([original], dtype=np.uint8), None, draws, 0).values
        return tuple(np.flatnonzero(np.unpackbits(bits[0], count=size)).tolist())

    law: dict[tuple[int, ...], Fraction] = defaultdict(Fraction)
    for chance, members in every_outcome(drawn):
        law[members] += chance
    return dict(law)


@pytest.mark.parametrize(
    ("domain_size", "amplification", "subset_size"),
    [(2, "3", 1), (3, "2", 1), (4, "11/10", 2), (5, "3/2", 2), (7, "4/3", 3), (9, "3", 2)],
)
def test_replace_has_exactly_the_law_of_the_design(domain_size: int, amplification: str, subset_size: int) -> None:
    """All sets with the true value have one chance, all others another, and their ratio is the amplification."""
    plan = _plan(domain_size, _bound(amplification))
    assert plan.subset_size == subset_size
    for original in range(domain_size):
        law = _law(plan, original)
        assert set(law) == set(combinations(range(domain_size), subset_size))
        (inside,) = {chance for members, chance in law.items() if original in members}
        (outside,) = {chance for members, chance in law.items() if original not in members}
        assert inside == Fraction(amplification) * outside
        assert sum(law.values()) == 1


def test_sets_by_number_and_member_by_member_have_the_same_law(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = _plan(7, _bound("4/3"))
    by_number = _law(plan, 2)
    monkeypatch.setattr(set_sampler, "MOST_VALUES", 0)
    assert _law(plan, 2) == by_number


@pytest.mark.parametrize("size", [2, 5, 20, 50, 64])
def test_sets_follow_the_documented_draws(size: int) -> None:
    """A coin, and the number of a set of the others, one member less beside the own value; opened for it by hand."""
    plan, codes = _plan(size, _bound("5/2")), (np.arange(ROWS) * 7 % size).astype(np.uint8)
    members, others = plan.subset_size, size - 1

    def drawn(purpose: str, bound: int) -> list[int]:
        return DRAWS.get_stream(f"subset/{purpose}").draw_integers(3, ROWS, bound).tolist()

    holds = [coin < plan.selection.hold_outcomes for coin in drawn("hold", plan.selection.outcome_count)]
    beside, without = drawn("beside", math.comb(others, members - 1)), drawn("without", math.comb(others, members))
    expected = []
    for row, own in enumerate(codes.tolist()):
        number, size_of_set = (beside[row], members - 1) if holds[row] else (without[row], members)
        (word,) = number_sets(others, size_of_set).find_sets(np.array([number], dtype=np.uint64)).tolist()
        bits = f"{word:0{others}b}"
        expected.append(bits[:own] + str(int(holds[row])) + bits[own:])
    found = np.unpackbits(subset.perturb(plan, codes, None, DRAWS, 3).values, axis=1, count=size)
    assert ["".join(map(str, row)) for row in found.tolist()] == expected


@pytest.mark.parametrize("size", [20, 50, 64, 65])
def test_sets_hold_each_value_as_often_as_the_design_says(size: int) -> None:
    """By every place of the own value; a count is off by more than 6 standard deviations once in 10^8 such tests."""
    rows = 40_000
    plan = _plan(size, _bound("5/2"))
    design, codes = subset.make_design(plan), (np.arange(rows) % size).astype(np.uint8)
    bits = subset.perturb(plan, codes, None, DRAWS, 0).values
    held = np.unpackbits(bits, axis=1, count=size)
    for own in range(size):
        mine = held[codes == own]
        chances = np.full(size, float(design.other_probability))
        chances[own] = float(design.hold_probability)
        deviation = (mine.sum(axis=0) - len(mine) * chances) / np.sqrt(len(mine) * chances * (1 - chances))
        assert np.abs(deviation).max() < 6
        wrong = np.roll(chances, 1)  # a bit to the side would be seen
        assert abs(mine.sum(axis=0)[own] - len(mine) * wrong[own]) > 6 * np.sqrt(len(mine) * wrong[own])


@given(batch_splits(ROWS), st.sampled_from([5, 8, 9, 40, 64, 65]))
def test_replace_does_not_depend_on_how_rows_are_cut_into_batches(batches: list[range], size: int) -> None:
    plan = _plan(size, _bound("3/2"))
    codes = (np.arange(ROWS) % size).astype(np.uint8)
    parts = [subset.perturb(plan, codes[each.start : each.stop], None, DRAWS, each.start).values for each in batches]
    whole = subset.perturb(plan, codes, None, DRAWS, 0).values
    assert np.array_equal(np.concatenate(parts), whole)


@pytest.mark.slow
def test_replace_does_not_depend_on_how_many_rows_are_drawn_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    plan, codes = _plan(20, _bound("3/2")), (np.arange(ROWS) % 20).astype(np.uint8)
    whole = subset.perturb(plan, codes, None, DRAWS, 7).values
    for bits in (1, 20, 21, 1000):
        monkeypatch.setattr(subset, "MOST_BITS", bits)
        assert np.array_equal(subset.perturb(plan, codes, None, DRAWS, 7).values, whole)


@pytest.mark.parametrize(
    ("size", "width"), [(2, 1), (7, 1), (8, 1), (9, 2), (16, 2), (17, 3), (57, 8), (64, 8), (65, 9)]
)
def test_sets_have_as_many_bytes_as_they_need_and_no_stray_bit(size: int, width: int) -> None:
    plan = _plan(size, _bound("3/2"))
    replaced = subset.perturb(plan, np.full(ROWS, size - 1, dtype=np.uint8), None, DRAWS, 0)
    assert replaced.values.shape == (ROWS, width)
    assert replaced.values.dtype == np.uint8
    assert replaced.cells is None
    assert (np.bitwise_count(replaced.values).sum(axis=1) == plan.subset_size).all()
    assert not np.unpackbits(replaced.values, axis=1)[:, size:].any()


@pytest.mark.parametrize("size", [5, 9])
def test_replace_of_an_empty_batch_is_empty(size: int) -> None:
    plan = _plan(size, _bound("3/2"))
    assert subset.perturb(plan, np.array([], dtype=np.uint8), None, DRAWS, 3).values.shape == (0, (size + 7) // 8)


def test_replace_leaves_its_input_alone() -> None:
    codes = np.zeros(ROWS, dtype=np.uint8)
    subset.perturb(_plan(5, _bound("3/2")), codes, None, DRAWS, 0)
    assert not codes.any()


def test_replace_depends_on_the_column_and_the_key() -> None:
    plan, codes = _plan(5, _bound("3/2")), np.zeros(ROWS, dtype=np.uint8)
    several = [DRAWS.narrow_to_column("age"), DRAWS.narrow_to_column("income"), Draws.unsafe_test_key("60" * 32)]
    assert len({subset.perturb(plan, codes, None, draws, 0).values.tobytes() for draws in several}) == len(several)


# Counting


@given(st.lists(st.integers(0, 1000), min_size=2, max_size=8), breach_bounds(50), st.data())
def test_the_expected_members_are_counted_as_the_truth(
    counts: list[int], bound: BreachBound, data: st.DataObject
) -> None:
    design = subset.make_design(_plan(len(counts), bound))
    hold, other = design.hold_probability, design.other_probability
    factor = hold.denominator * other.denominator
    expected = [int(factor * (count * hold + (sum(counts) - count) * other)) for count in counts]
    wanted = sorted(data.draw(st.sets(st.integers(0, len(counts) - 1))))
    moments = _counted(design, expected, factor * sum(counts), wanted)
    truth = factor * sum(counts[place] for place in wanted)
    assert moments.value == pytest.approx(truth, rel=1e-9, abs=1e-9 * factor * sum(counts) / float(hold - other))


def _members_moments(design: subset.Design, own: int, wanted: list[int]) -> tuple[Fraction, Fraction]:
    """The mean and the variance of the number of wanted members in the set of one record, over all sets."""
    size, members = len(design.domain), design.subset_size
    inside = design.hold_probability / math.comb(size - 1, members - 1)
    outside = (1 - design.hold_probability) / math.comb(size - 1, members)
    first = second = Fraction(0)
    for each in combinations(range(size), members):
        chance, hits = inside if own in each else outside, sum(place in wanted for place in each)
        first += chance * hits
        second += chance * hits**2
    return first, second - first**2


@pytest.mark.parametrize("wanted", [[0], [4], [0, 1], [0, 2, 4], [1, 2, 3, 4]])
@pytest.mark.parametrize(("size", "amplification"), [(5, "3/2"), (5, "4"), (7, "4/3"), (7, "5/4")])
def test_the_variance_is_that_of_all_sets(size: int, amplification: str, wanted: list[int]) -> None:
    """Rows of two kinds: those whose own value is wanted, and the others."""
    design = _design(size, amplification)
    gain = design.hold_probability - design.other_probability
    _, inside = _members_moments(design, wanted[0], wanted)
    _, outside = _members_moments(design, next(place for place in range(size) if place not in wanted), wanted)
    moments = _counted(design, [3] * size, 20, wanted)
    for truth in (0, 7, 20):
        exact = (truth * inside + (20 - truth) * outside) / gain**2
        assert moments.variance_at(truth) == pytest.approx(float(exact), rel=1e-9)


def test_the_variance_of_one_value_is_what_planning_says() -> None:
    plan = _plan(50, _bound("12/5"))
    moments = _counted(subset.make_design(plan), [20] * 50, 100, [7])
    for truth in (0.0, 10.0, 100.0):
        planned = subset.predict_variances(plan, np.full(50, 100.0), np.full(50, truth))[7]
        assert moments.variance_at(truth) == pytest.approx(planned)


@pytest.mark.parametrize("size", [2, 5])
def test_all_values_are_every_row_and_no_value_is_none(size: int) -> None:
    design = _design(size, "3/2")
    everything = _counted(design, [9] * size, 30, list(range(size)))
    assert (everything.value, everything.variance_at(30), everything.least, everything.most) == (30, 0, 30, 30)
    nothing = _counted(design, [9] * size, 30, [])
    assert (nothing.value, nothing.variance_at(0), nothing.most) == (0, 0, 0)


def test_no_rows_are_zero_and_certain() -> None:
    moments = _counted(_design(5, "3/2"), [0] * 5, 0, [1])
    assert (moments.value, moments.variance_at(0), moments.most) == (0, 0, 0)


@given(st.lists(st.integers(0, 100), min_size=2, max_size=8), breach_bounds(), st.data())
def test_weights_summed_over_the_rows_are_the_estimate(
    counts: list[int], bound: BreachBound, data: st.DataObject
) -> None:
    value, rows = data.draw(st.integers(0, len(counts) - 1)), 100
    design = subset.make_design(_plan(len(counts), bound))
    written = subset.make_weights(design)
    assert written["place"].tolist() == written["value"].tolist() == list(range(len(counts)))
    total = counts[value] * written["if_equal"][value] + (rows - counts[value]) * written["otherwise"][value]
    assert _counted(design, counts, rows, [value]).value == pytest.approx(total, rel=1e-6, abs=1e-6 * abs(total))


@pytest.mark.parametrize("form", Form)
def test_a_release_shows_sets_of_the_domain(form: Form) -> None:
    design = subset.make_design(_plan(9, _bound("3/2"), Options(form)))
    columns = MemberColumnEncoding(9, False, design.subset_size)
    assert subset.make_encoding(design) == (columns if form is Form.COLUMNS else SetEncoding(9, form is Form.LIST))


# Publishing the design


@given(st.integers(2, 40), breach_bounds() | breach_bounds(10**40), st.sampled_from(Form))
def test_design_comes_back_from_json(size: int, bound: BreachBound, form: Form) -> None:
    assume(bound.amplification > 1 + Fraction(1, 2**40))
    design = subset.make_design(_plan(size, bound, Options(form)))
    written = json.loads(json.dumps(design.to_json(), allow_nan=False))
    assert subset.read_design(written, ["integer"]) == design


def _written() -> dict[str, Any]:
    histogram = Histogram.of("abcde", [1] * 5)
    return subset.make_design(subset.plan(histogram, _bound("3/2"), Options(), DRAWS)).to_json()


def test_a_written_design_has_a_size_a_chance_and_a_bound_and_no_count() -> None:
    assert _written() == {
        "domain": ["a", "b", "c", "d", "e"],
        "subset_size": 2,
        "hold_probability": "1/2",
        "form": "bits",
        "prior": "1/2",
        "posterior": "3/5",
    }


@pytest.mark.parametrize(
    "damage",
    [
        {"subset_size": 0},
        {"subset_size": 5},
        {"hold_probability": "0"},
        {"hold_probability": "1"},
        {"hold_probability": "501/1000"},
        {"hold_probability": "2/5"},
        {"hold_probability": "1/3"},
        {"domain": ["a", "b", "a", "d", "e"]},
        {"domain": ["a"]},
        {"domain": "abcde"},
    ],
    ids=str,
)
def test_read_design_refuses_what_no_plan_could_have_written(damage: dict[str, Any]) -> None:
    """The bound allows a chance of 1/2; at 2/5, two of five, a set would tell nothing."""
    with pytest.raises(ReleaseFormatError):
        subset.read_design(_written() | damage, ["string"])


@pytest.mark.parametrize("key", ["domain", "subset_size", "hold_probability", "form", "prior", "posterior"])
def test_read_design_needs_every_part(key: str) -> None:
    written = _written()
    del written[key]
    with pytest.raises((SfumatoError, KeyError)):
        subset.read_design(written, ["string"])


# Explaining


def test_explain_tells_the_sets_and_their_chances() -> None:
    assert subset.explain(_plan(50, _bound("12/5"))) == {
        "subset_size": 14,
        "hold_probability": "14/29",
        "other_probability": "8/29",
        "amplification": "12/5",
    }


def test_sets_of_one_value_are_remarked_upon() -> None:
    (remark,) = map(str, subset.list_remarks(_plan(6, _bound("5/2"))))
    assert "sets of one value" in remark
    assert "uniform perturbation" in remark


def test_there_is_nothing_to_remark_on_larger_sets() -> None:
    assert subset.list_remarks(_plan(50, _bound("12/5"))) == []


def test_promise_states_the_numbers_of_the_design() -> None:
    promise = subset.state_guarantee(subset.make_design(_plan(50, BreachBound("1/13", "1/6")))).text
    for number in ("at most 1/13", "at most 1/6", "at most 2.4", "14 of the 50 values", "0.4828", "0.2759"):
        assert number in promise


def test_likelihoods_are_of_the_values_of_a_set_and_not_of_the_bits_behind_them() -> None:
    """Two bytes for nine values: the seven bits that stand for none have no column."""
    plan = _plan(9, BreachBound("1/3", "1/2"))
    (likely,) = subset.compute_likelihoods(plan, PerturbedRecords(np.array([[0b10000000, 0b10000000]], dtype=np.uint8)))
    assert likely.tolist() == [[2.0, *[1.0] * 7, 2.0]]
