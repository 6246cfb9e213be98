"""The numbers in docs/limits.md, docs/promise.md and the how-tos of what goes beyond a promise, computed again.

`bench/attacks.py` measures the same on a table of one's own. Keys and tables are fixed here, so nothing is by chance.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from sfumato._core import exact_numbers
from sfumato._core.random_draws import Draws
from sfumato._perturb.perturbation import Slots
from sfumato._profile import column_checks, record_sample, table_profile
from sfumato._records.tally import Holdings
from sfumato._request.belief_bounds import BreachBound, BreachBoundPerValue, PrivacySpec, Tolerance
from sfumato._request.bucket_and_decoy_requirements import DecoyGroups, Diversity
from sfumato._request.histogram import Histogram
from sfumato._risk.attackers import predictive_columns
from sfumato._risk.attackers.guesses_from_release import CandidateBeliefs, learn_from_buckets
from sfumato._verify.distributions import score_tests
from sfumato.errors import InfeasibleError
from sfumato.mechanisms import REGISTRY, _decoys
from sfumato.mechanisms._noisy_counts.few_cells import compute_sum_distribution
from sfumato.mechanisms._noisy_counts.fixed_sum_noise import FixedSumNoise
from sfumato.mechanisms._randomized_response import fine_grain, small_domain

Codes = npt.NDArray[np.int64]
GUARANTEE = (Path(__file__).parents[2] / "docs" / "promise.md").read_text(encoding="utf-8")


def _histogram(counts: Sequence[int]) -> Histogram:
    return Histogram.of([f"value {place}" for place in range(len(counts))], counts)


def _key(number: int) -> Draws:
    return Draws.unsafe_test_key(f"{number:02x}" * 32).narrow_to_column("sensitive")


def _slots(counts: Codes, codes: Codes, draws: Draws, name: str) -> Any:
    return Slots(draws, name, counts.tolist())(codes, np.zeros(len(counts), dtype=np.int64))


# ----------------------------------------------------------------------------------------------- two releases of decoys

GROUP_SIZE = 5
RARE = 0.01


def _agreeing_is_true(share: Any, group_size: int) -> Any:
    """The chance that a value on which two independent releases agree is the true one, if all other values leak alike.

    Both show it for one in N² of the share s that hold it, and for a² of the others: (N-1) s / (N (1-s)) = a.
    """
    return (1 - share) / (1 - share + (group_size - 1) ** 2 * share)


@pytest.fixture(scope="module")
def twice() -> tuple[Codes, Codes, Codes]:
    """A column of 46 values as skewed as the occupations of a census, and two releases of it."""
    counts = np.maximum(50, 5300 * 0.93 ** np.arange(46)).astype(np.int64)
    codes = np.repeat(np.arange(46), counts)
    shown = []
    for number in (1, 2):
        draws = _key(number)
        plan = _decoys.plan(_histogram(counts.tolist()), DecoyGroups(GROUP_SIZE), _decoys.Options(), draws)
        shown.append(_decoys.perturb(plan, codes, _slots(counts, codes, draws, _decoys.NAME), draws, 0).values)
    return codes, shown[0].astype(np.int64), shown[1].astype(np.int64)


def test_a_second_release_of_decoys_breaks_one_over_the_group_size(twice: tuple[Codes, Codes, Codes]) -> None:
    """60% of the values on which both agree are true where one release promises 20%; of rare ones 90%."""
    codes, one, two = twice
    shares = np.bincount(codes) / len(codes)
    same = one == two
    rare = same & (shares[one] < RARE)
    right = [float(np.mean(one[which] == codes[which])) for which in (np.full(len(codes), True), same, rare)]
    assert right == pytest.approx([1 / GROUP_SIZE, 0.6, 0.9], abs=0.04)


def test_what_two_releases_of_decoys_agree_on_is_true_as_often_as_the_formula_says(
    twice: tuple[Codes, Codes, Codes],
) -> None:
    codes, one, two = twice
    shares = np.bincount(codes) / len(codes)
    agreed = one[one == two]
    found = np.mean(agreed == codes[one == two])
    assert found == pytest.approx(np.mean(_agreeing_is_true(shares[agreed], GROUP_SIZE)), abs=0.02)
    # The numbers of the how-to, for groups of five.
    told = [_agreeing_is_true(Fraction(share), 5) for share in ("1/10", "1/100", "1/1000")]
    assert [round(float(each), 2) for each in told] == [0.36, 0.86, 0.98]


# ---------------------------------------------------------------------------------------- what a bucket release teaches


def _bucket_release(related: bool, diversity: int) -> tuple[Codes, CandidateBeliefs]:
    """Guesses at a table of 12,000 people with 24 values, whose three public columns follow the value or do not."""
    chance = np.random.default_rng(5)
    codes = chance.permutation(np.repeat(np.arange(24), 500))
    columns = []
    for number in range(3):
        typical = (codes // 2 + 4 * number) % 12 if related else chance.integers(0, 12, len(codes))
        columns.append(np.where(chance.random(len(codes)) < 0.4, typical, chance.integers(0, 12, len(codes))))
    counts, draws, anatomy = np.bincount(codes), _key(3), REGISTRY["anatomy"]
    plan = anatomy.plan(_histogram(counts.tolist()), Diversity(diversity), anatomy.options(), draws)
    shown = anatomy.perturb(plan, codes, _slots(counts, codes, draws, "anatomy"), draws, 0).cells
    contents = anatomy.bucket_table.list_contents(plan)
    assert contents is not None
    lines = [np.concatenate(each).astype(np.int64) for each in zip(*contents.iter_batches(1 << 20), strict=True)]
    return codes, learn_from_buckets(shown.astype(np.int64), Holdings(*lines, domain_size=24), columns, 5)


@pytest.mark.slow
@pytest.mark.parametrize("diversity", [4, 8])
def test_a_bucket_release_teaches_more_than_twice_what_its_caps_say_where_columns_go_with_values(
    diversity: int,
) -> None:
    codes, found = _bucket_release(True, diversity)
    assert np.mean(found.guesses == codes) > 2 / diversity
    # Whoever is believed with more than 0.9 is believed rightly, mostly.
    sure = found.weights.max(axis=1) > 0.9
    assert sure.sum() > 100
    assert np.mean(found.guesses[sure] == codes[sure]) > 0.8


@pytest.mark.slow
def test_a_bucket_release_teaches_no_more_than_its_caps_where_columns_do_not_go_with_values() -> None:
    """The twin of the test before: the guess is no better than the promise says."""
    codes, found = _bucket_release(False, 4)
    assert np.mean(found.guesses == codes) == pytest.approx(1 / 4, abs=0.02)


# -------------------------------------------------------------------------------------------- small cells of few values


@cache
def _cell(records: int) -> tuple[int, Fraction, Fraction]:
    """A cell of two values, of which a quarter have the protected one: how many, and the chances to show it."""
    own = records // 4
    plan = small_domain.plan(
        _histogram([own, records - own]), BreachBound("1/4", "1/2"), small_domain.Options(min_cell=0), _key(4)
    )
    (cell,) = small_domain.make_design(plan).cells
    assert (cell.places, cell.prior) == ((0, 1), Fraction(1, 4))
    swap = (1 - cell.retention) / 2
    return own, cell.retention + swap, swap


def _believed_if_shown(records: int, times: int, number: type) -> tuple[Any, Any]:
    """How much those who show the value are believed to have it if so many do, and how likely so many are."""
    own, *chances = _cell(records)
    kept, swapped = map(number, chances)
    true, chance = number(0), number(0)
    for of_own in range(max(0, times - records + own), min(own, times) + 1):
        others, rest = times - of_own, records - own
        each = math.comb(own, of_own) * kept**of_own * (1 - kept) ** (own - of_own)
        each *= math.comb(rest, others) * swapped**others * (1 - swapped) ** (rest - others)
        chance += each
        true += each * of_own
    return (true / (chance * max(times, 1)), chance)


@pytest.mark.parametrize(("records", "shown", "belief"), [(32, 7, 0.627), (100, 29, 0.563), (1000, 348, 0.519)])
def test_a_value_that_its_cell_shows_rarely_is_believed_beyond_the_posterior(
    records: int, shown: int, belief: float
) -> None:
    """What docs/promise.md says of a prior of 1/4 and a posterior of 1/2, and of one cell in thirty."""
    found, _ = _believed_if_shown(records, shown, float)
    assert found == pytest.approx(belief, abs=0.0005)
    rarer = sum(_believed_if_shown(records, times, float)[1] for times in range(shown + 1))
    assert 1 / 40 < rarer < 1 / 30


@pytest.mark.parametrize("records", [32, 100, 1000])
def test_the_only_record_of_a_cell_that_shows_a_value_is_believed_with_three_quarters_whatever_the_cell(
    records: int,
) -> None:
    assert _believed_if_shown(records, 1, Fraction)[0] == Fraction(3, 4)


def test_a_cell_alone_is_believed_with_the_posterior_on_average() -> None:
    """The twin: over everything that the cell may show, those who show the value have it with the posterior exactly."""
    own, kept, swapped = _cell(100)
    assert own * kept / (own * kept + (100 - own) * swapped) == Fraction(1, 2)


# --------------------------------------------------------------------------------------- designs that follow one record


def _design(counts: Sequence[int], spec: PrivacySpec, objective: fine_grain.Objective) -> object:
    histogram = _histogram(counts)
    resolved = spec.resolve(histogram)
    assert isinstance(resolved, BreachBoundPerValue)
    try:
        plan = fine_grain.plan(histogram, resolved, fine_grain.Options(objective=objective), _key(5))
    except InfeasibleError:
        return None
    return fine_grain.make_design(plan).to_json()


def _follows_a_record(counts: list[int], spec: PrivacySpec, objective: fine_grain.Objective) -> bool:
    """Whether another value of some one record would have made another design."""
    own = _design(counts, spec, objective)
    for one, other in permutations(range(len(counts)), 2):
        if counts[one]:
            changed = list(counts)
            changed[one] -= 1
            changed[other] += 1
            if _design(changed, spec, objective) != own:
                return True
    return False


def _random_bounds(size: int, chance: np.random.Generator) -> BreachBoundPerValue:
    pairs = (np.sort(chance.choice(np.arange(1, 20), 2, replace=False)) for _ in range(size))
    return BreachBoundPerValue(
        {f"value {place}": BreachBound(f"{p}/20", f"{q}/20") for place, (p, q) in enumerate(pairs)}
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("objective", "by_tolerance", "records", "tables", "share"),
    [
        pytest.param("record", False, 10, 240, 1 / 3, id="exact shares, ten records"),
        pytest.param("record", False, 1000, 60, 0, id="exact shares, a thousand records"),
        pytest.param("record", True, 1000, 120, 1 / 2, id="a tolerance, a thousand records"),
        pytest.param("aggregate", False, 1000, 60, 2 / 5, id="aggregate, a thousand", marks=pytest.mark.full),
    ],
)
def test_a_fine_grain_design_follows_one_record_as_often_as_the_limits_say(
    objective: str, by_tolerance: bool, records: int, tables: int, share: float
) -> None:
    chance = np.random.default_rng(7)
    follows = []
    for number in range(tables):
        size = 3 + number % 3
        cuts = np.sort(chance.integers(0, records + 1, size - 1))
        counts = np.diff([0, *cuts, records]).tolist()
        spec: PrivacySpec = Tolerance(2) if by_tolerance else _random_bounds(size, chance)
        follows.append(_follows_a_record(counts, spec, fine_grain.Objective(objective)))
    assert np.mean(follows) == pytest.approx(share, abs=0.1)


# ----------------------------------------------------------------------------------------------------- smaller numbers


def test_a_belief_of_three_tenths_rises_to_two_thirds_by_an_amplification_of_nine_halves() -> None:
    odds = Fraction(3, 7) * BreachBound("1/10", "1/3").amplification
    assert BreachBound("1/10", "1/3").amplification == Fraction(9, 2)
    assert round(float(odds / (1 + odds)), 2) == 0.66


@pytest.mark.parametrize(("before", "after"), [("1%", "4.4%"), ("5%", "19.2%"), ("22%", "56.0%"), ("50%", "81.9%")])
def test_confidence_after_the_record_is_that_of_the_table_of_the_guarantee(before: str, after: str) -> None:
    confidence = Fraction(before.rstrip("%")) / 100
    odds = confidence / (1 - confidence) * BreachBound("1/10", "1/3").amplification
    assert f"{math.ceil(1000 * odds / (1 + odds)) / 10:.1f}%" == after  # an upper limit is rounded up
    rows = [line for line in GUARANTEE.splitlines() if line.startswith("|") and f" {before}" in line]
    assert any(f"| {after}" in line for line in rows)


# ------------------------------------------------------------------------------------ people who are tied to each other

TIED_SIZE, TIED_BOUND = 17, BreachBound("1/10", "1/3")
LIMITS = (Path(__file__).parents[2] / "docs" / "limits.md").read_text(encoding="utf-8")


def _compute_factor_of_sets(tied: int) -> float:
    """The geometric mean of the factor for the true value, if all these people show a set; found exactly."""
    subset = REGISTRY["subset"]
    plan = subset.plan(_histogram([1] * TIED_SIZE), TIED_BOUND, subset.options(), _key(1))
    design = subset.make_design(plan)
    hold, other = float(design.hold_probability), float(design.other_probability)
    return math.exp(tied * (hold - other) * math.log(TIED_BOUND.amplification))


def _compute_factor_of_counts(tied: int) -> float:
    """The same for counts of one crowd, found exactly: the noise of two values moves by so many units."""
    lowest, chances = compute_sum_distribution(FixedSumNoise(TIED_SIZE, 1 / TIED_BOUND.amplification), 1, 1)
    noise = lowest + np.arange(len(chances))
    units = float(chances @ (np.abs(noise + tied) - np.abs(noise)))  # for each of the two values, of which half count
    return math.exp(units * math.log(TIED_BOUND.amplification))


@pytest.mark.parametrize("tied", [1, 2, 3, 5])
def test_tied_people_come_near_the_limit_with_counts(tied: int) -> None:
    numbers = (_compute_factor_of_sets(tied), _compute_factor_of_counts(tied))
    sets, counts = (f"{number:.0f}" if number > 10 else f"{number:.1f}" for number in numbers)
    limit = float(TIED_BOUND.amplification) ** tied
    shown_limit = f"{limit:,.0f}" if tied > 1 else f"{limit:.1f}"
    for page in (GUARANTEE, LIMITS):
        assert f"| {tied} | {sets} | {counts} | {shown_limit} |" in page


@pytest.mark.parametrize(
    ("posterior", "amplification", "epsilon"), [("1/4", "3", "1.10"), ("1/3", "4.5", "1.50"), ("1/2", "9", "2.20")]
)
def test_epsilon_is_the_logarithm_of_the_amplification(posterior: str, amplification: str, epsilon: str) -> None:
    bound = BreachBound("1/10", posterior)
    assert bound.amplification == Fraction(amplification)
    assert f"{math.log(bound.amplification):.2f}" == epsilon
    assert f"{epsilon} for γ = {amplification} (1/10 to {posterior})" in GUARANTEE


def test_a_false_alarm_of_verify_has_a_chance_of_one_in_a_million_at_most() -> None:
    """By Bernstein's inequality for sums of independent coins, where the variance is the smallest that is looked at."""
    variance, deviation = score_tests.SMALLEST_VARIANCE, score_tests.MOST_DEVIATION
    off = deviation * math.sqrt(variance)
    one_count = 2 * math.exp(-(off**2) / 2 / (variance + off / 3))
    assert 10_000 * one_count < 1e-6


def test_the_sizes_in_the_limits_are_those_of_the_code() -> None:
    assert (record_sample.MOST_RECORDS, table_profile.MOST_VALUES, table_profile.MOST_BYTES >> 20) == (
        200_000,
        1_048_576,
        256,
    )
    assert (predictive_columns.SMALLEST_GROUP, column_checks.MANY_VALUES, table_profile.FEW_RECORDS - 2) == (
        20,
        1000,
        3,
    )
    assert (small_domain.USUAL_MINIMUM, exact_numbers.FINEST_STEPS, exact_numbers.COARSEST_STEP) == (1000, 100, 10)
