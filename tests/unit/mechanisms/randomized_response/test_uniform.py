from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from itertools import product
from math import prod
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import assume, given, reject
from hypothesis import strategies as st

from refusals import refuses
from sfumato._core.array_types import RandomBits
from sfumato._core.random_draws import LARGEST_BOUND, Draws
from sfumato._records.tally import Tally
from sfumato._request.belief_bounds import BreachBound
from sfumato._request.histogram import Histogram
from sfumato.errors import InfeasibleError, ReleaseFormatError, SfumatoError
from sfumato.mechanisms._randomized_response import uniform_mechanism as uniform
from single import Single, counted
from strategies import batch_splits, breach_bounds, domains, field_types, fine_breach_bounds, histograms

DRAWS = Draws.unsafe_test_key("5f" * 32)
ROWS = 200


def _plan(domain_size: int, bound: BreachBound) -> uniform.Plan:
    histogram = Histogram.of(range(domain_size), [1] * domain_size)
    return uniform.plan(histogram, bound, uniform.NoOptions(), DRAWS)


def _plan_or_reject(domain_size: int, bound: BreachBound) -> uniform.Plan:
    """The plan; an example of hypothesis that has none, because the belief may hardly rise, is passed over."""
    try:
        return _plan(domain_size, bound)
    except InfeasibleError:
        reject()


def _bound(amplification: str | Fraction) -> BreachBound:
    """A request with the given amplification: from even odds to `amplification` times even odds."""
    amplification = Fraction(amplification)
    return BreachBound("1/2", amplification / (1 + amplification))


def _design(domain_size: int, amplification: str | Fraction) -> uniform.Design:
    return uniform.make_design(_plan(domain_size, _bound(amplification)))


def _tally(*counts: int) -> Tally:
    return Tally.of_symbols(np.array(counts, dtype=np.int64))


def _reconstructed(design: uniform.Design, tally: Tally, places: Sequence[int]) -> Single:
    """The default estimate of how many records hold a value at one of these places."""
    (moments,) = counted(uniform.MECHANISM.estimators["closed"], design, tally, places)
    return moments


def _weights_of_a_value(design: uniform.Design, value: int) -> tuple[float, float]:
    """What a row adds to the count of a value: if it shows that value, and otherwise."""
    weights = uniform.make_weights(design)
    line = weights["value"].tolist().index(value)
    return float(weights["if_equal"][line]), float(weights["otherwise"][line])


def _amplification(plan: uniform.Plan) -> Fraction:
    return Fraction(plan.keep_outcomes + plan.swap_outcomes, plan.swap_outcomes)


# Planning


@pytest.mark.parametrize(
    ("domain_size", "prior", "posterior", "law"),
    [
        (50, "1/13", "1/6", ("7/257", "5/257", "12/257")),
        (50, "1/13", "1/5", ("1/26", "1/52", "3/52")),
        (50, "1/13", "1/4", ("3/53", "1/53", "4/53")),
        (50, "1/13", "1/3", ("1/11", "1/55", "6/55")),
        (50, "3/40", "1/6", ("11/386", "15/772", "37/772")),
        (14, "1/30", "1/10", ("10/73", "9/146", "29/146")),
        (2, "1/3", "2/3", ("3/5", "1/5", "4/5")),
        (15_000, "1/10", "5/14", ("1/3751", "1/15004", "5/15004")),
    ],
)
def test_plan_keeps_as_often_as_the_bound_allows(
    domain_size: int, prior: str, posterior: str, law: tuple[str, str, str]
) -> None:
    """The coin p = (γ-1)/(m-1+γ), a swap q = 1/(m-1+γ) and p + q, by hand: Chaytor and Wang, section 3."""
    design = uniform.make_design(_plan(domain_size, BreachBound(prior, posterior)))
    retention, swap, kept = map(Fraction, law)
    assert (design.retention, design.swap_probability) == (retention, swap)
    assert design.retention + design.swap_probability == kept


@given(breach_bounds(), st.integers(2, 1000))
def test_plan_amplifies_exactly_as_asked_where_63_bits_hold_it(bound: BreachBound, domain_size: int) -> None:
    amplification = bound.amplification
    assert amplification.numerator + (domain_size - 1) * amplification.denominator <= LARGEST_BOUND
    assert _amplification(_plan(domain_size, bound)) == amplification


@given(fine_breach_bounds(), st.integers(2, 1000))
def test_plan_never_amplifies_beyond_the_request(bound: BreachBound, domain_size: int) -> None:
    plan = _plan_or_reject(domain_size, bound)
    assert plan.swap_outcomes >= 1
    assert _amplification(plan) <= bound.amplification


@given(breach_bounds() | fine_breach_bounds(), st.integers(2, 1000))
def test_plan_needs_at_most_63_bits(bound: BreachBound, domain_size: int) -> None:
    assert _plan_or_reject(domain_size, bound).outcome_count <= LARGEST_BOUND


@given(fine_breach_bounds(), st.integers(2, 1000))
def test_plan_could_not_keep_one_word_more(bound: BreachBound, domain_size: int) -> None:
    plan = _plan_or_reject(domain_size, bound)
    more = dataclasses.replace(plan, keep_outcomes=plan.keep_outcomes + 1)
    assert _amplification(more) > bound.amplification or more.outcome_count > LARGEST_BOUND


@given(breach_bounds(10**40), st.integers(2, 1000))
def test_rounding_costs_next_to_no_retention(bound: BreachBound, domain_size: int) -> None:
    """The largest retention is (γ-1)/(m-1+γ); rounding may cost one word in keep, out of nearly 2^63."""
    assume(bound.amplification < 2**20)
    largest = (bound.amplification - 1) / (domain_size - 1 + bound.amplification)
    retention = _plan_or_reject(domain_size, bound).retention
    assert 0 <= largest - retention < Fraction(1, 2**40)


@pytest.mark.parametrize("digits", [18, 19, 20, 40, 300])
def test_plan_of_a_posterior_next_to_certainty_still_swaps(digits: int) -> None:
    """Beyond 63 bits the one swap word of each value remains, so that no published value is ever certain."""
    plan = _plan(3, BreachBound("1/2", 1 - Fraction(1, 10**digits)))
    assert plan.swap_outcomes >= 1
    assert plan.outcome_count <= LARGEST_BOUND
    assert _amplification(plan) <= plan.bound.amplification


@pytest.mark.parametrize("counts", [(7,), (1,)])
def test_plan_refuses_a_domain_of_one_value(counts: tuple[int, ...]) -> None:
    with refuses(InfeasibleError, "one-value-domain"):
        uniform.plan(Histogram(("flu",), counts), _bound("4"), uniform.NoOptions(), DRAWS)


def test_plan_refuses_a_bound_so_narrow_that_nothing_could_be_kept() -> None:
    """A retention of zero publishes pure noise, from which no count can be reconstructed."""
    narrow = BreachBound("1/2", Fraction(1, 2) + Fraction(1, 10**30))
    with pytest.raises(InfeasibleError):
        _plan(3, narrow)


@given(histograms(), breach_bounds())
def test_plan_looks_at_the_domain_and_not_at_the_counts(histogram: Histogram, bound: BreachBound) -> None:
    flat = Histogram.of(histogram.values, [1] * histogram.domain_size)
    plans = [uniform.plan(each, bound, uniform.NoOptions(), DRAWS) for each in (histogram, flat)]
    assert dataclasses.replace(plans[0], histogram=flat) == plans[1]
    assert uniform.make_design(plans[0]) == uniform.make_design(plans[1])


# Perturbing


class EveryOutcome:
    """Stands in for the draws: row i draws the number i, so that one batch meets each outcome once."""

    def get_stream(self, purpose: str) -> EveryOutcome:
        return self

    def draw_integers(self, first_row: int, rows: int, bound: int) -> RandomBits:
        assert rows == bound, "one row for each outcome"
        return np.arange(bound, dtype=np.uint64)


@pytest.mark.parametrize("amplification", ["12/5", "4", "37/15", "101/100", "500"])
@pytest.mark.parametrize("domain_size", [2, 3, 10, 200])
def test_replace_has_exactly_the_law_of_the_design(domain_size: int, amplification: str) -> None:
    """All outcomes are run through: the last value of the domain and the last word are counted like any other."""
    plan = _plan(domain_size, _bound(amplification))
    design = uniform.make_design(plan)
    for original in {0, domain_size // 2, domain_size - 1}:
        codes = np.full(plan.outcome_count, original, dtype=np.int32)
        published = uniform.perturb(plan, codes, None, cast("Draws", EveryOutcome()), 0).values
        hits = Counter(published.tolist())
        expected = dict.fromkeys(range(domain_size), design.swap_probability)
        expected[original] += design.retention
        assert {value: Fraction(count, plan.outcome_count) for value, count in hits.items()} == expected


@given(batch_splits(ROWS), st.sampled_from(["12/5", "4", str(1 + Fraction(2**62, 3))]))
def test_replace_does_not_depend_on_how_rows_are_cut_into_batches(batches: list[range], amplification: str) -> None:
    plan = _plan(5, _bound(amplification))
    codes = np.arange(ROWS, dtype=np.int32) % 5
    parts = [uniform.perturb(plan, codes[each.start : each.stop], None, DRAWS, each.start).values for each in batches]
    assert np.array_equal(np.concatenate(parts), uniform.perturb(plan, codes, None, DRAWS, 0).values)


@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.int32, np.int64, np.uint64])
def test_replace_keeps_the_type_of_the_codes_and_stays_in_the_domain(kind: type[np.integer[Any]]) -> None:
    published = uniform.perturb(_plan(5, _bound("4")), np.full(ROWS, 4, dtype=kind), None, DRAWS, 0).values
    assert published.dtype == kind
    assert set(published.tolist()) == set(range(5))


def test_replace_leaves_its_input_alone() -> None:
    codes = np.zeros(ROWS, dtype=np.int32)
    uniform.perturb(_plan(5, _bound("4")), codes, None, DRAWS, 0)
    assert not codes.any()


@pytest.mark.parametrize("first_row", [0, 1])
def test_replace_of_an_empty_batch_is_empty(first_row: int) -> None:
    codes = np.array([], dtype=np.int32)
    assert len(uniform.perturb(_plan(5, _bound("4")), codes, None, DRAWS, first_row).values) == 0


def test_replace_makes_no_cells() -> None:
    assert uniform.perturb(_plan(5, _bound("4")), np.zeros(ROWS, dtype=np.int32), None, DRAWS, 0).cells is None


def test_replace_depends_on_the_column_and_the_key() -> None:
    plan, codes = _plan(5, _bound("4")), np.zeros(ROWS, dtype=np.int32)
    several = [DRAWS.narrow_to_column("age"), DRAWS.narrow_to_column("income"), Draws.unsafe_test_key("60" * 32)]
    assert len({uniform.perturb(plan, codes, None, draws, 0).values.tobytes() for draws in several}) == len(several)


# Reconstructing


@pytest.mark.parametrize(
    ("published", "amplification", "expected"),
    [
        ((30, 20, 10, 0), "3", (60, 30, 0, -30)),
        ((5, 5, 5), "2", (5, 5, 5)),
        ((100, 0), "7/2", (140, -40)),
    ],
)
def test_reconstruct_gives_the_closed_form(
    published: tuple[int, ...], amplification: str, expected: tuple[int, ...]
) -> None:
    """Worked in rationals from (o - Rq)/p, unclipped: an unbiased estimate may fall below zero or above the rows."""
    size = len(published)
    design = _design(size, amplification)
    values = [_reconstructed(design, _tally(*published), [value]).value for value in range(size)]
    assert values == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(
    ("hits", "rows", "design", "estimate", "variance"),
    [
        (40, 1000, _design(50, "12/5"), "5280/7", 51575.51020408162),
        (0, 25, _design(13, "3"), "-25/2", 87.5),
        (25, 25, _design(13, "3"), "175", 225.0),
    ],
    ids=["some hits", "no hits", "all hits"],
)
def test_reconstruct_gives_the_estimate_of_a_count_and_its_variance(
    hits: int, rows: int, design: uniform.Design, estimate: str, variance: float
) -> None:
    """Worked in rationals; the variance is taken at the estimate, clipped to what a count can be."""
    domain_size = len(design.domain)
    tally = _tally(hits, rows - hits, *[0] * (domain_size - 2))
    moments = _reconstructed(design, tally, [0])
    clipped = min(max(moments.value, 0), rows)
    assert moments.value == pytest.approx(float(Fraction(estimate)))
    assert moments.variance_at(clipped) == pytest.approx(variance)
    assert moments.most == rows


@given(st.lists(st.integers(0, 1000), min_size=2, max_size=8), breach_bounds(50), st.data())
def test_reconstruct_of_the_expected_tally_is_the_truth(
    counts: list[int], bound: BreachBound, data: st.DataObject
) -> None:
    """Counts in multiples of the outcomes make every expected count whole."""
    plan = _plan(len(counts), bound)
    truth = np.array(counts, dtype=np.int64) * plan.outcome_count
    expected = np.array(counts) * plan.keep_outcomes + sum(counts) * plan.swap_outcomes
    wanted = np.flatnonzero(data.draw(st.lists(st.booleans(), min_size=len(counts), max_size=len(counts))))
    moments = _reconstructed(uniform.make_design(plan), Tally.of_symbols(expected), wanted)
    assert moments.value == pytest.approx(truth[wanted].sum(), abs=1e-9 * truth.sum() / plan.retention, rel=1e-9)


@given(st.lists(st.integers(0, 10**6), min_size=2, max_size=8), breach_bounds())
def test_reconstruct_of_the_whole_domain_is_the_number_of_rows_and_certain(
    counts: list[int], bound: BreachBound
) -> None:
    tally = _tally(*counts)
    moments = _reconstructed(uniform.make_design(_plan(len(counts), bound)), tally, range(len(counts)))
    assert moments.value == tally.rows
    assert moments.variance_at(tally.rows) == 0


def test_reconstruct_of_no_value_is_zero_and_certain() -> None:
    moments = _reconstructed(_design(3, "4"), _tally(5, 6, 7), [])
    assert (moments.value, moments.variance_at(0), moments.variance_at(18)) == (0, 0, 0)


def test_reconstruct_of_no_rows_is_zero_and_certain() -> None:
    moments = _reconstructed(_design(3, "4"), _tally(0, 0, 0), [1])
    assert (moments.value, moments.variance_at(0), moments.most) == (0, 0, 0)


@given(st.lists(st.integers(0, 10**6), min_size=2, max_size=8), breach_bounds(), st.data())
def test_weights_summed_over_the_rows_are_the_reconstruction(
    counts: list[int], bound: BreachBound, data: st.DataObject
) -> None:
    value = data.draw(st.integers(0, len(counts) - 1))
    design, tally = uniform.make_design(_plan(len(counts), bound)), _tally(*counts)
    if_equal, otherwise = _weights_of_a_value(design, value)
    rows = sum(counts)
    total = counts[value] * if_equal + (rows - counts[value]) * otherwise
    moments = _reconstructed(design, tally, [value])
    assert moments.value == pytest.approx(total, rel=1e-9, abs=1e-9 * rows / float(design.retention))


def _brute_force_moments(
    design: uniform.Design, originals: tuple[int, ...], wanted: tuple[int, ...]
) -> tuple[Fraction, Fraction]:
    """The mean and the variance of the estimate over every table that could be published, in rationals."""
    size, first, second = len(design.domain), Fraction(0), Fraction(0)
    for published in product(range(size), repeat=len(originals)):
        probability = prod(
            design.swap_probability + design.retention * (original == shown)
            for original, shown in zip(originals, published, strict=True)
        )
        hits = sum(shown in wanted for shown in published)
        estimate = (hits - len(wanted) * len(originals) * design.swap_probability) / design.retention
        first += probability * estimate
        second += probability * estimate**2
    return first, second - first**2


@pytest.mark.parametrize("amplification", ["3/2", "4", "20"])
@pytest.mark.parametrize(
    ("originals", "wanted", "domain_size"),
    [
        ((0, 0, 1, 2), (0,), 3),
        ((1, 1, 1, 1), (0,), 3),
        ((0, 1, 2, 3), (1, 3), 4),
        ((0, 0, 0), (0, 1), 5),
        ((0, 1, 1, 0), (1,), 2),
        ((0, 1, 2), (0, 1, 2), 3),
    ],
)
def test_variance_agrees_with_every_table_that_could_be_published(
    originals: tuple[int, ...], wanted: tuple[int, ...], domain_size: int, amplification: str
) -> None:
    design = _design(domain_size, amplification)
    truth = sum(original in wanted for original in originals)
    mean, variance = _brute_force_moments(design, originals, wanted)
    moments = _reconstructed(design, _tally(len(originals), *[0] * (domain_size - 1)), wanted)
    assert mean == truth
    assert moments.variance_at(truth) == pytest.approx(float(variance), rel=1e-12, abs=1e-12)


def _exact_variance(design: uniform.Design, rows: int, values: int, count: int) -> Fraction:
    """[c a(1-a) + (R-c) b(1-b)] / p², with a = p + kq and b = kq, in rationals."""
    other = values * design.swap_probability
    wanted = design.retention + other
    return (count * wanted * (1 - wanted) + (rows - count) * other * (1 - other)) / design.retention**2


@given(breach_bounds(), st.integers(2, 1000), st.integers(0, 10**6), st.data())
def test_reconstruct_carries_the_variance_of_any_count_of_any_values(
    bound: BreachBound, domain_size: int, rows: int, data: st.DataObject
) -> None:
    values, count = data.draw(st.integers(1, domain_size - 1)), data.draw(st.integers(0, rows))
    design = uniform.make_design(_plan(domain_size, bound))
    moments = _reconstructed(design, _tally(rows, *[0] * (domain_size - 1)), range(values))
    assert moments.variance_at(count) == pytest.approx(float(_exact_variance(design, rows, values, count)), rel=1e-9)


@given(breach_bounds(), st.integers(2, 50), st.data())
def test_variances_are_those_of_the_counts_of_single_values(
    bound: BreachBound, domain_size: int, data: st.DataObject
) -> None:
    plan = _plan(domain_size, bound)
    rows = data.draw(st.lists(st.integers(0, 10**6), min_size=domain_size, max_size=domain_size))
    counts = [data.draw(st.integers(0, each)) for each in rows]
    found = uniform.predict_variances(plan, np.array(rows, dtype=np.float64), np.array(counts, dtype=np.float64))
    pairs = zip(rows, counts, strict=True)
    expected = [float(_exact_variance(uniform.make_design(plan), each, 1, count)) for each, count in pairs]
    assert found == pytest.approx(expected, rel=1e-9)


# Publishing the design


@given(st.data(), breach_bounds() | breach_bounds(10**40))
def test_design_comes_back_from_json(data: st.DataObject, bound: BreachBound) -> None:
    kind = data.draw(field_types())
    domain = data.draw(domains(kind, max_size=3))
    assume(bound.amplification > 1 + Fraction(1, 2**40))
    design = uniform.make_design(
        uniform.plan(Histogram.of(domain, [1] * len(domain)), bound, uniform.NoOptions(), DRAWS)
    )
    back = uniform.read_design(json.loads(json.dumps(design.to_json(), allow_nan=False)), [kind])
    assert back == design
    assert [type(value) for value in back.domain] == [type(value) for value in domain]


def _written_design() -> dict[str, Any]:
    histogram = Histogram(("flu", "none", "cold"), (1, 1, 1))
    return uniform.make_design(uniform.plan(histogram, BreachBound("1/3", "2/3"), uniform.NoOptions(), DRAWS)).to_json()


@pytest.mark.parametrize(
    "damage",
    [
        {"retention": "0"},
        {"retention": "1"},
        {"retention": "-1/2"},
        {"domain": ["flu"]},
        {"domain": ["flu", "none", "flu"]},
        {"domain": ["flu", "none", 3]},
        {"domain": "flu"},
    ],
    ids=str,
)
def test_read_design_refuses_what_no_plan_could_have_written(damage: dict[str, Any]) -> None:
    with pytest.raises(ReleaseFormatError):
        uniform.read_design(_written_design() | damage, ["string"])


def test_read_design_refuses_a_retention_that_its_bound_does_not_allow() -> None:
    """The largest retention for (1/3, 2/3) over three values is 1/2: one above it would make the promise untrue."""
    written = _written_design()
    assert written["retention"] == "1/2"
    with pytest.raises(ReleaseFormatError):
        uniform.read_design(written | {"retention": "501/1000"}, ["string"])


@pytest.mark.parametrize(
    "damage", [{"retention": "much"}, {"retention": 0.5}, {"prior": "0"}, {"posterior": None}], ids=str
)
def test_read_design_refuses_numbers_that_are_none(damage: dict[str, Any]) -> None:
    with pytest.raises(SfumatoError):
        uniform.read_design(_written_design() | damage, ["string"])


@pytest.mark.parametrize("key", ["domain", "retention", "prior", "posterior"])
def test_read_design_needs_every_part(key: str) -> None:
    written = _written_design()
    del written[key]
    with pytest.raises((SfumatoError, KeyError)):
        uniform.read_design(written, ["string"])


def test_promise_states_the_numbers_of_the_design() -> None:
    design = uniform.make_design(_plan(50, BreachBound("1/13", "1/6")))
    promise = uniform.state_guarantee(design).text
    for number in ("at most 1/13", "at most 1/6", "at most 2.4", "49 other values", "0.04669", "0.01946"):
        assert number in promise
