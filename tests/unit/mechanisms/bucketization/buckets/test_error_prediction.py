"""Errors of counts foreseen from what buckets hold, and the sizes that are chosen by them."""

from __future__ import annotations

from fractions import Fraction
from functools import cache

import numpy as np
import numpy.typing as npt
import pytest

from sfumato._core.random_draws import Draws
from sfumato._records.tally import Holdings, Tally
from sfumato._request.bucket_and_decoy_requirements import LinearCap
from sfumato._request.histogram import Histogram
from sfumato.mechanisms._bucketization import buckets
from sfumato.mechanisms._bucketization.buckets import bucket_estimation, error_prediction
from sfumato.mechanisms._bucketization.buckets.bucket_estimation import METHODS
from sfumato.mechanisms._bucketization.buckets.error_prediction import CountErrors
from sfumato.mechanisms._bucketization.buckets.record_assignment import DealingMethod, deal_out
from sfumato.mechanisms._bucketization.buckets.size_comparison import predict_errors, rank_choices
from sfumato.mechanisms._bucketization.buckets.size_methods import MANY_VALUES, Choice, list_choices

DRAWS = Draws.unsafe_test_key("07" * 32)
COUNTS = (420, 300, 260, 200, 180, 150, 120, 100, 80, 60, 40, 30, 20, 15, 15, 10)


def caps_of(counts: tuple[int, ...], factor: int, offset: str) -> tuple[Fraction, ...]:
    total = sum(counts)
    return tuple(min(Fraction(1), Fraction(factor * count, total) + Fraction(offset)) for count in counts)


@cache
def planned(sizes: buckets.Sizes, key: str = "07", deal: DealingMethod = DealingMethod.MIXED) -> buckets.Plan:
    histogram = Histogram.of(range(len(COUNTS)), COUNTS)
    spec = LinearCap(2, "1/20").resolve(histogram)
    return buckets.plan(histogram, spec, buckets.Options(sizes, dealing=deal), Draws.unsafe_test_key(key * 32))


def errors_of(choice: Choice, counts: tuple[int, ...] = COUNTS) -> CountErrors:
    dealing = deal_out(choice.assignment, choice.floors, DealingMethod.MIXED, DRAWS, "test")
    return CountErrors(dealing, np.array(counts))


# -------------------------------------------------------------------------------------------------------------- meeting


@pytest.mark.parametrize("deal", DealingMethod)
@pytest.mark.parametrize("most_dense", [0, 100], ids=["lists", "rows"])
def test_values_meet_as_often_as_in_the_buckets(
    deal: DealingMethod, most_dense: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of so few buckets all are looked at; in blocks that do not come out even."""
    monkeypatch.setattr(error_prediction, "MOST_DENSE", most_dense)
    monkeypatch.setattr(error_prediction, "BLOCK", 7)
    choice = list_choices(COUNTS, caps_of(COUNTS, 2, "1/20"))["optimal", 2]
    dealing = deal_out(choice.assignment, choice.floors, deal, DRAWS, "test")
    held = np.concatenate(list(dealing.generate_holdings()))
    weights = (held / dealing.bucket_sizes[:, None]).T @ held
    assert CountErrors(dealing, np.array(COUNTS)).weights == pytest.approx(weights)


@pytest.mark.parametrize("deal", DealingMethod)
def test_variances_grow_alike_by_the_inverse_and_by_directions(
    deal: DealingMethod, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where buckets are alike, and tell nothing of some values."""
    found = list_choices(COUNTS, caps_of(COUNTS, 2, "1/20"))
    inverted = {way: predict_errors(COUNTS, choice, deal).growth for way, choice in found.items()}
    monkeypatch.setattr(bucket_estimation, "LARGEST_INVERSE", 0)
    for way, choice in found.items():
        assert inverted[way] == pytest.approx(predict_errors(COUNTS, choice, deal).growth, rel=1e-8)
    is_lost = [np.isinf(each).any() for each in inverted.values()]
    assert any(is_lost)
    assert not all(is_lost)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("most", "values", "factor", "offset", "way", "setting"),
    [
        (40_000, 20, 3, "1/50", ("two", 16), ((16, 6_869), (17, 2_000))),
        (900_000, 50, 8, "1/50", ("two", 2), ((5, 509_197), (18, 83_516))),
        (5_000, 140, 2, "1/20", ("two", 20), ((20, 1_364), (21, 13))),
    ],
)
def test_what_is_chosen_for_known_counts_stays(  # noqa: PLR0913, PLR0917 - a case, and what was chosen for it
    most: int, values: int, factor: int, offset: str, way: tuple[str, int], setting: tuple[tuple[int, int], ...]
) -> None:
    """Found when each bucket that is looked at was listed by itself, and their matrix multiplied as a sparse one."""
    counts = tuple(most // rank for rank in range(1, values + 1))
    best, *_ = rank_choices(counts, list_choices(counts, caps_of(counts, factor, offset)), DealingMethod.MIXED)
    assert ((best.method, best.smallest), best.setting.pairs) == (way, setting)


# ------------------------------------------------------------------------------------------------------------ predicted


def held_by(plan: buckets.Plan) -> npt.NDArray[np.int64]:
    """How many records of each value every bucket holds."""
    return np.concatenate(list(plan.dealing.generate_holdings()))


@pytest.mark.slow
@pytest.mark.parametrize("method", ["inverse", "shrunk"])
def test_counts_are_off_as_far_as_predicted(method: str) -> None:
    """Conditions that select shares with a spread of half their mean, for shrunk; alike for the inverse.

    The mean squared error over 600 conditions, by value, against what was predicted: within a tenth on average.
    """
    chance, plan = np.random.default_rng(5), planned(buckets.Sizes.AUTO)
    held, number = held_by(plan), 600
    mean = 0.05
    wide = error_prediction.SCATTER if method == "shrunk" else 0.0
    expected = plan.count_errors
    scatter = np.sqrt(np.array(COUNTS).mean() / np.array(COUNTS))
    scatter /= (scatter @ np.array(COUNTS)) / sum(COUNTS)
    shares = np.clip(mean * (1 + wide * np.sqrt(scatter) * chance.normal(size=(number, len(COUNTS)))), 0, 1)
    chosen = chance.binomial(COUNTS, shares)
    selected = np.zeros((number, len(held)), dtype=np.int64)
    for column, some in zip(held.T, chosen.T, strict=True):
        selected += np.array([chance.multivariate_hypergeometric(column, each) for each in some])
    lines, places = np.nonzero(held)
    holdings = Holdings(lines, places, held[lines, places], len(COUNTS))
    tally = Tally.of_symbols(selected).attach_context(None, holdings)
    found = METHODS[method].count(None, tally, [np.array([place]) for place in range(len(COUNTS))])
    squared = np.array([((each.value - chosen[:, place]) ** 2).mean() for place, each in enumerate(found)])
    rows = np.full(len(COUNTS), mean * sum(COUNTS))
    foreseen = expected.predict_shrunk_variances(rows) if method == "shrunk" else expected.predict_variances(rows)
    ratio = np.sqrt(squared / foreseen)
    assert 0.9 < ratio[:10].mean() < (1.25 if method == "shrunk" else 1.1)  # how much to shrink must be learnt, too
    assert (ratio < 1.6).all()


def test_buckets_that_tell_nothing_have_the_largest_error_and_no_surprise() -> None:
    """One bucket: nothing is told, and the error is what the number of records allows."""
    choice = list_choices([6, 6], [Fraction(1, 2)] * 2, smallest=12, largest=12)["optimal", 12]
    found = errors_of(choice, (6, 6))
    assert np.isinf(found.growth).all()
    assert np.isfinite(found.score)
    assert (found.predict_variances(np.array([4.0, 4.0])) == 1 / 3 * 2 / 3 * 6 * 12).all()


@pytest.mark.slow
def test_some_of_the_buckets_foresee_what_all_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last three values are in large buckets alone, where a few tell them apart."""
    counts = tuple(50 * count for count in COUNTS)
    choice = list_choices(counts, caps_of(counts, 4, "1/20"))["two", 12]
    whole = errors_of(choice, counts).growth[:-3]
    monkeypatch.setattr(error_prediction, "LEAST_BUCKETS", 400)
    assert errors_of(choice, counts).growth[:-3] == pytest.approx(whole, rel=0.1)


# --------------------------------------------------------------------------------------------------------------- chosen


@pytest.mark.slow
def test_auto_takes_the_way_with_the_smallest_error() -> None:
    plan = planned(buckets.Sizes.AUTO)
    ways = plan.ranked_choices
    assert [way.score for way in ways] == sorted(way.score for way in ways)
    assert plan.choice.assignment.setting == ways[0].setting
    in_turn = predict_errors(COUNTS, plan.choice, DealingMethod.ROUND_ROBIN)
    assert in_turn.score > 2 * ways[0].score  # dealt in turn, buckets are alike
    least = next(way for way in ways if way.method == "optimal")
    assert least.setting.loss == plan.choice.bound < plan.choice.loss
    assert least.score > 2 * ways[0].score
    assert planned(buckets.Sizes.OPTIMAL).count_errors.score > 2 * plan.count_errors.score


@pytest.mark.slow
def test_auto_follows_the_histogram_and_not_the_key() -> None:
    first, second = (planned(buckets.Sizes.AUTO, key) for key in ("07", "3c"))
    assert first.ranked_choices == second.ranked_choices
    assert (first.dealing.starts != second.dealing.starts).any()


@pytest.mark.slow
def test_a_way_is_found_again_by_its_own_options() -> None:
    histogram = Histogram.of(range(len(COUNTS)), COUNTS)
    spec = LinearCap(2, "1/20").resolve(histogram)
    for way in planned(buckets.Sizes.AUTO).ranked_choices:
        options = buckets.Options(buckets.Sizes(way.method), min_bucket=way.smallest)
        assert buckets.plan(histogram, spec, options, DRAWS).choice.assignment.setting == way.setting


def test_many_values_are_planned_without_the_search_for_the_least_loss() -> None:
    counts = (7,) * MANY_VALUES
    found = list_choices(counts, caps_of(counts, 2, "1/20"))
    assert "optimal" not in {method for method, _ in found}
    (bound,) = {choice.bound for choice in found.values()}
    assert all(bound <= choice.loss for choice in found.values())


def test_the_optimum_is_taken_where_two_sizes_are_too_few() -> None:
    """8 records that need three sizes: ways by two sizes find nothing."""
    counts, caps = (1, 1, 2, 4), (Fraction(2, 5), Fraction(1, 3), Fraction(1), Fraction(4, 5))
    found = list_choices(counts, caps, smallest=1, largest=3)
    assert found
    assert rank_choices(counts, found, DealingMethod.MIXED)


@pytest.mark.slow
def test_the_plan_says_where_shrunk_is_closer() -> None:
    least, best = planned(buckets.Sizes.OPTIMAL), planned(buckets.Sizes.AUTO)
    (said,) = [each for each in buckets.list_remarks(least) if each.code == "shrunk-is-closer"]
    assert "`method='shrunk'`" in str(said)
    assert said.numbers["shrunk"] < 0.7 * said.numbers["default"]
    assert said == next(
        each for each in buckets.list_remarks(planned(buckets.Sizes.OPTIMAL, "3c")) if each.code == "shrunk-is-closer"
    )
    for plan in (least, best):
        expected = predict_errors(COUNTS, plan.choice, plan.dealing_method)
        default, shrunk = expected.inverse_errors[0], expected.shrunk_errors[0]
        codes = {each.code for each in buckets.list_remarks(plan)}
        assert ("shrunk-is-closer" in codes) == (shrunk.by_records < 0.7 * default.by_records)


@pytest.mark.parametrize("deal", DealingMethod)
def test_the_plan_says_how_much_farther_off_counts_are_that_are_dealt_in_turn(deal: DealingMethod) -> None:
    plan = planned(buckets.Sizes.MULTI, deal=deal)
    said = [each for each in buckets.list_remarks(plan) if each.code == "dealt-alike"]
    assert len(said) == (deal is DealingMethod.ROUND_ROBIN)
    for each in said:
        in_turn, mixed = (
            predict_errors(COUNTS, plan.choice, way).inverse_errors[0].by_records
            for way in (DealingMethod.ROUND_ROBIN, DealingMethod.MIXED)
        )
        assert each.numbers == {"in_turn": in_turn, "mixed": mixed}
        assert "With mixed buckets and the same caps the error would be" in str(each)


def test_the_plan_says_nothing_of_a_gain_that_is_too_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buckets, "WORTH_SAYING", 0.0)
    plan = planned(buckets.Sizes.MULTI, deal=DealingMethod.ROUND_ROBIN)
    assert not {each.code for each in buckets.list_remarks(plan)} & {"dealt-alike", "shrunk-is-closer"}


@pytest.mark.slow
def test_rare_values_are_not_given_up_for_frequent_ones() -> None:
    """Forty rare values need large buckets: where few are large, these are all alike, and tell nothing of them."""
    counts = (3000, 2500, 2000, 1500, 1000, 800, *[4] * 40)
    found = list_choices(counts, caps_of(counts, 4, "1/30"))
    expected = {way: predict_errors(counts, choice, DealingMethod.MIXED) for way, choice in found.items()}
    best = rank_choices(counts, found, DealingMethod.MIXED)[0]
    taken, least_loss = expected[best.method, best.smallest], expected["optimal", 2]
    assert (np.isinf(taken.growth).sum(), np.isinf(least_loss.growth).sum()) == (0, 40)
    assert taken.inverse_errors[0].by_records > least_loss.inverse_errors[0].by_records
