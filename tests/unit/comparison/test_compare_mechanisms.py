"""Mechanisms side by side: each asked its own way, attacked with throw-away keys, and recommended with care."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accepted import ALL_ACCEPTED, REASON
from generated_pages import verdicts
from papers.baselines import distribution_based
from refusals import refuses
from sfumato import (
    BreachBound,
    Comparison,
    DecoyGroups,
    Diversity,
    Histogram,
    LinearCap,
    Request,
    Schema,
    SpecError,
    Tolerance,
    compare,
    plan,
)
from sfumato._comparison.compare_mechanisms import choose_usual_count, find_required_guarantee
from sfumato._comparison.comparison_baselines import estimate_laplace_table, redraw_values
from sfumato._comparison.comparison_document import list_alternative_sections, make_comparison_document
from sfumato._comparison.comparison_outcome import Contender, Standing
from sfumato._comparison.matching_criteria import SameError, SameGain, list_bounds_around, list_weaker_bounds
from sfumato._comparison.mechanism_trial import Trial
from sfumato._core.exact_numbers import round_up_two_digits
from sfumato._core.random_draws import Draws
from sfumato._profile import record_sample as sampling
from sfumato._profile.record_sample import Sample
from sfumato._publish.plan_document import make_plan_document
from sfumato._request.count_accuracy_request import CountThresholds
from sfumato._request.guarantee import Guarantee
from sfumato.errors import ErrorField
from sfumato.mechanisms import REGISTRY

BOUND = BreachBound("1/5", "1/3")
VALUES = [f"v{number}" for number in range(8)]
SEED = 3
ROWS = 4000


def people(rows: int = ROWS) -> pa.Table:
    """Eight values; one column tells nearly half of the people, one a quarter."""
    chance = np.random.default_rng(1)
    shares = np.arange(10, 2, -1) / np.arange(10, 2, -1).sum()
    held = chance.choice(8, rows, p=shares)
    columns = {
        name: np.where(chance.random(rows) < part, held, chance.integers(0, 8, rows)).astype(str)
        for name, part in (("town", 0.4), ("job", 0.25))
    }
    return pa.table({**columns, "disease": [VALUES[each] for each in held]})


def request(spec: Any = BOUND, **more: Any) -> Request:
    return Request(people(), schema=Schema.of("disease", public="*"), spec=spec, **more, **ALL_ACCEPTED)


@cache
def compared(**how: Any) -> Comparison:
    """A comparison of the table at its posterior, or as is said."""
    return compare(request(), seed=SEED, **how)


def contender(found: Comparison, mechanism: str) -> Contender:
    return next(each for each in found.contenders if each.mechanism.name == mechanism)


def right(found: Comparison, mechanism: str, letter: str = "P") -> float:
    belief = contender(found, mechanism).attacks[letter].with_release
    assert belief is not None
    return belief.success


# ------------------------------------------------------------------------------------------------------ what is asked


def test_each_mechanism_is_asked_its_own_way() -> None:
    bound = BreachBound("1/13", "1/3")
    asked = {name: each.comparability.match_posterior(bound, VALUES) for name, each in REGISTRY.items()}
    assert {name: None if each is None else each.summary for name, each in asked.items()} == {
        "uniform": "1/13 to 1/3",
        "subset": "1/13 to 1/3",
        "levels": "1/13 to 1/3",
        "noisy-counts": "1/13 to 1/3",
        "small-domain": "1/13 to 1/3",
        "fine-grain": "each 1/13 to 1/3",
        "harmonic": "each 1/13 to 1/3",
        "buckets": "cap 1/3",
        "anatomy": "diversity 3",
        "decoys": "groups of 3",
    }


@pytest.mark.parametrize("mechanism", REGISTRY)
@given(posterior=st.fractions(Fraction(1, 40), Fraction(99, 100), max_denominator=1000))
def test_no_value_is_let_beyond_the_posterior_and_none_held_back_further(mechanism: str, posterior: Fraction) -> None:
    spec = REGISTRY[mechanism].comparability.match_posterior(BreachBound(Fraction(1, 50), posterior), VALUES)
    assert spec is not None
    limits = set(spec.list_limits(VALUES))
    assert max(limits) <= posterior
    # With one record or value less, a whole number of them would let a value beyond it.
    looser = {Fraction(1, limit.denominator - 1) for limit in limits if limit.numerator == 1 and limit.denominator > 2}
    assert limits == {posterior} or min(looser, default=Fraction(1)) > posterior


def test_other_requests_have_one_bound_that_asks_for_as_much() -> None:
    counted = Histogram.of("abcd", [40, 30, 20, 10])
    assert Diversity(2).find_common_bound(counted) == BreachBound("2/5", "1/2")
    assert DecoyGroups(2).find_common_bound(counted) == BreachBound("2/5", "1/2")
    assert CountThresholds("3/10", 1, "1/2").resolve(counted).find_common_bound(counted) == BreachBound("2/5", "1/2")
    assert Diversity(3).find_common_bound(counted) is None  # a value has more than a third already
    assert LinearCap("0", "3/4").resolve(counted).find_common_bound(counted) == BreachBound("2/5", "3/4")
    assert Tolerance("3/2").resolve(counted).find_common_bound(counted) is None
    assert BOUND.find_common_bound(counted) == BOUND


@given(st.fractions(Fraction(1, 10**9), 1, max_denominator=10**9).filter(bool))
def test_two_digits_above_are_at_least_the_share_and_near_it(share: Fraction) -> None:
    found = round_up_two_digits(share)
    assert share <= found < share * Fraction(11, 10)
    assert len(str(found.numerator * 10**12 // found.denominator).rstrip("0")) <= 3


@pytest.mark.parametrize(
    ("how", "guarantee"),
    [
        ({}, Guarantee.ANY_PRIOR),
        ({"guarantee": "marginal-prior"}, Guarantee.MARGINAL_PRIOR),
        ({"mechanism": "small-domain"}, Guarantee.MARGINAL_PRIOR),
        ({"spec": Tolerance("3/2")}, Guarantee.SINGLE_VALUES),
        ({"spec": Diversity(2)}, Guarantee.BUCKET_ONLY),
        ({"spec": DecoyGroups(2)}, Guarantee.DECOYS_ONLY),
    ],
    ids=str,
)
def test_what_was_asked_is_as_far_as_it_goes(how: dict[str, Any], guarantee: Guarantee) -> None:
    counted = Histogram.of("abcd", [40, 30, 20, 10])
    assert find_required_guarantee(request(**how), counted) == guarantee


def test_guarantees_are_weaker_by_whom_and_what_they_cover() -> None:
    few = (Guarantee.MARGINAL_PRIOR, Guarantee.BUCKET_ONLY, Guarantee.DECOYS_ONLY)
    assert all(each.is_weaker_than(Guarantee.SINGLE_VALUES) for each in few)
    assert Guarantee.SINGLE_VALUES.is_weaker_than(Guarantee.ANY_PRIOR)
    assert not any(each.is_weaker_than(other) for each in few for other in few)
    assert not Guarantee.ANY_PRIOR.is_weaker_than(Guarantee.SINGLE_VALUES)


# ------------------------------------------------------------------------------------------------------- the layers


@pytest.mark.slow
def test_same_posterior_is_many_things_to_attackers() -> None:
    """Attackers are far apart; 4,000 people let a share be off by 0.03 once in a hundred thousand comparisons."""
    found = compared()
    assert right(found, "uniform") < right(found, "subset") < right(found, "anatomy") - 0.1
    assert right(found, "uniform", "F") < right(found, "anatomy", "F") < right(found, "anatomy")
    assert right(found, "anatomy", "F") == pytest.approx(1 / 3, abs=0.03)  # one of three, whoever knows no more


@pytest.mark.slow
def test_proved_is_a_bound_or_none_and_measured_stays_within() -> None:
    found = compared()
    for each in found.possible_contenders:
        told = [each.describe_bound(letter) for letter in each.attacks]
        if each.mechanism.guarantee.is_for_everybody:
            assert told == ["\u00d72"] * 5
        else:
            assert told == ["\u2264 1/3", "none", "none", "none", "none"]
    worst = contender(found, "uniform").attacks["F"]
    share = max(people()["disease"].to_pylist().count(value) for value in VALUES) / ROWS
    assert worst.with_release is not None
    assert worst.with_release.worst_belief <= 2 * share / (1 + share) + 1e-3


@pytest.mark.slow
def test_curves_have_three_points_that_rise_and_fall() -> None:
    for each in compared().possible_contenders:
        posteriors = [trial.bound.posterior for trial in each.curve]
        assert BOUND.posterior in posteriors
        assert len(posteriors) >= 2
        errors, gains = [trial.error for trial in each.curve], [trial.gain for trial in each.curve]
        assert errors == sorted(errors, reverse=True)
        assert gains[0] <= gains[-1] + 0.02


@pytest.mark.slow
def test_what_promises_less_is_never_recommended() -> None:
    found = compared()
    best = found.recommended_contender
    assert best is not None
    assert best.mechanism.name == "subset"
    assert not found.is_weaker(best.trial)
    smaller = [
        each.mechanism.name for each in found.possible_contenders if (each.trial.error or 9) < (best.trial.error or 0)
    ]
    assert "anatomy" in smaller
    assert all(found.is_weaker(contender(found, name).trial) for name in smaller)
    assert "Use subset against an attacker who knows all 2 public columns" in found.recommendation
    assert "weaker guarantee than requested" in found.recommendation
    assert not contender(found, "levels").is_possible
    assert not contender(found, "noisy-counts").is_possible  # the domain was not declared
    assert "Not possible here: levels and noisy-counts." in found.recommendation


@pytest.mark.slow
def test_a_request_for_less_lets_more_be_recommended() -> None:
    found = compare(
        request(guarantee="marginal-prior", accept_marginal_prior=REASON, accept_exposure=REASON), seed=SEED
    )
    best = found.recommended_contender
    assert best is not None
    assert best.mechanism.guarantee is not Guarantee.ANY_PRIOR
    stopped = compare(request(guarantee="marginal-prior"), seed=SEED)
    assert "`accept_marginal_prior='REASON'`" in contender(stopped, "small-domain").stop_reason
    assert stopped.recommended_contender is not None
    assert not stopped.recommended_contender.stop_reason
    names = [each.mechanism.name for each in stopped.contenders if each.stop_reason]
    assert "publish would refuse: " in stopped.recommendation
    page = stopped.document().to_html()
    for each in stopped.possible_contenders:
        assert re.search(rf">{each.mechanism.name}</th><td>[^<]*</td><td>{stopped.find_standing(each)}</td>", page)
    assert {stopped.find_standing(each) for each in stopped.possible_contenders} >= {
        Standing.RECOMMENDED,
        Standing.REFUSED,
    }
    refusals = stopped.recommendation.split("publish would refuse: ")[1]
    assert names
    assert all(name in refusals for name in names)


@pytest.mark.slow
def test_another_kind_of_request_is_compared_at_the_bound_that_asks_for_as_much() -> None:
    """A diversity of 3 holds for whoever knows frequencies, and so do all others from the largest share to a third."""
    found = compare(request(Diversity(3), accept_exposure=REASON), seed=SEED)
    assert (found.bound, found.guarantee) == (BreachBound("1/5", "1/3"), Guarantee.BUCKET_ONLY)
    assert not any(found.is_weaker(each.trial) for each in found.possible_contenders)
    assert found.recommended_contender is not None
    assert found.recommended_contender.mechanism.name in ("anatomy", "buckets")
    assert contender(found, "anatomy").trial.spec == Diversity(3)


HOSTILE = "</script><img src=x onerror=alert(1)>\x1b[2J"


@pytest.mark.slow
def test_names_and_values_cannot_leave_their_place_on_a_page() -> None:
    columns = people(600).rename_columns([HOSTILE, "job", "disease"])
    held = pa.array([f"{HOSTILE}{each}" for each in columns["disease"].to_pylist()])
    table = columns.set_column(2, HOSTILE + "!", held)
    made = Request(table, schema=Schema.of(HOSTILE + "!", public="*"), spec=BOUND, **ALL_ACCEPTED)
    found, seen = compare(made, seed=SEED), plan(made)
    for page in (
        make_comparison_document(found, HOSTILE),
        make_plan_document(seen, None, HOSTILE).add_sections(list_alternative_sections(found)),
    ):
        text = page.to_html()
        assert "<img" not in text
        assert "\x1b" not in text
        assert "&lt;img" in text
        assert verdicts(text) == []
        assert text.index("Proved") < text.index("Measured") < text.index("Cost")


@pytest.mark.slow
def test_keys_are_thrown_away_and_a_seed_repeats(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def told(found: Comparison) -> dict[str, Any]:
        written = found.to_json()
        for each in written["mechanisms"]:
            each.get("cost", {}).pop("planning_seconds", None)
        return written

    monkeypatch.chdir(tmp_path)
    once, again, other = (told(compare(request(), seed=seed)) for seed in (SEED, SEED, None))
    assert once == again
    assert once["mechanisms"] != other["mechanisms"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_part_of_a_table_is_attacked_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of half the records each group would be half there, and its values would not be known to be given away."""
    whole = right(compared(), "anatomy")
    monkeypatch.setattr(sampling, "MOST_RECORDS", ROWS // 2)
    part = compare(request(), seed=SEED)
    assert (part.records, part.total) == (ROWS // 2, ROWS)
    assert right(part, "anatomy") == pytest.approx(whole, abs=0.05)
    assert contender(part, "anatomy").trial.chosen_plan.histogram.total == ROWS  # type: ignore[union-attr]


# ----------------------------------------------------------------------------------------------- one gain, one error


@pytest.mark.slow
def test_one_gain_is_the_largest_posterior_within_it() -> None:
    loose = Request(
        people(), schema=Schema.of("disease", public="*"), spec=BreachBound("1/5", "99/100"), **ALL_ACCEPTED
    )
    found = compare(loose, at_gain="4%", seed=SEED)
    met = [each for each in found.contenders if each.is_possible and each.mechanism.guarantee is Guarantee.ANY_PRIOR]
    assert len(met) == 2
    for each in met:
        assert each.trial.gain is not None
        assert each.trial.gain <= 0.04
        beyond = [trial for trial in each.curve if trial.bound.posterior > each.trial.bound.posterior]
        assert min(trial.gain for trial in beyond if trial.gain is not None) > 0.02
    assert found.recommended_contender in met
    assert "at a gain of at most 4 points" in found.recommendation


@pytest.mark.slow
def test_one_error_is_the_smallest_posterior_within_it() -> None:
    loose = Request(
        people(), schema=Schema.of("disease", public="*"), spec=BreachBound("1/5", "99/100"), **ALL_ACCEPTED
    )
    found = compare(loose, error="20%", at=200, seed=SEED)
    for each in found.possible_contenders:
        assert each.trial.error is not None
        assert each.trial.error <= 0.2
    uniform = contender(found, "uniform").trial
    (below,) = [
        each
        for each in list_weaker_bounds(loose.spec.bound)
        if each.posterior == uniform.bound.posterior - Fraction(1, 100)
    ]  # type: ignore[arg-type]
    plan = REGISTRY["uniform"].plan(uniform.chosen_plan.histogram, below, None, Draws.from_fresh_key())  # type: ignore[union-attr]
    assert replace(uniform.chosen_plan, plan=plan).predict_error_curve([200])[0].evenly > 0.2  # type: ignore[arg-type, operator]
    best = found.recommended_contender
    assert best is not None
    strong = [each for each in found.possible_contenders if not found.is_weaker(each.trial) and not each.stop_reason]
    assert (best.trial.gain or 0) <= min(each.trial.gain or 0 for each in strong) + 0.005


def trial(mechanism: str, bound: BreachBound, gain: float | None = None, error: float | None = None) -> Trial:
    class Told(Trial):
        gain = property(lambda self: self._gain)  # type: ignore[assignment]

    made = Told(REGISTRY[mechanism], bound, error=error, chosen_plan="a plan")  # type: ignore[arg-type]
    object.__setattr__(made, "_gain", gain)
    return made


def test_aims_are_met_by_bisection_of_two_digits() -> None:
    bound, tried = BreachBound("1/10", "1/2"), []

    def attacked(each: BreachBound) -> Trial:
        tried.append(each.posterior)
        return trial("uniform", each, gain=float(each.posterior), error=1 - float(each.posterior))

    assert SameGain(0.335).find_trial(bound, attacked, attacked).bound.posterior == Fraction(33, 100)
    assert SameError(Fraction(1, 4), 100).find_trial(bound, attacked, attacked).bound.posterior == Fraction(3, 4)
    assert len(tried) < 20
    refused = SameGain(0.05).find_trial(bound, attacked, attacked)
    assert refused.chosen_plan is None
    assert refused.refusal == "no setting keeps this attacker's gain within 5 points."
    assert SameError(Fraction(1, 1000), 100).find_trial(bound, attacked, attacked).chosen_plan is None


def test_bounds_around_another_are_powers_of_its_odds() -> None:
    found = list_bounds_around(BreachBound("1/13", "1/3"), (0.5, 1.5))
    assert [each.posterior for each in found] == [Fraction(1, 3), Fraction(17, 100), Fraction(11, 20)]
    assert [float(each.person_amplification) for each in found[1:]] == pytest.approx([6**0.5, 6**1.5], rel=0.05)
    assert len(list_bounds_around(BreachBound("1/10", "11/100"), (0.5, 1.5))) == 2  # where nothing lies between


# ----------------------------------------------------------------------------------------------------------- baselines


def test_redrawn_values_lose_how_columns_go_together() -> None:
    """Against every draw: the mean square of what `redraw` publishes in each condition."""
    counts, rows = [60, 30, 10], 100
    held = np.repeat(np.arange(3), counts)
    columns = {"half": np.where(np.arange(rows) % 2 == 0, 0, 1), "own": held}
    found = redraw_values(Sample(columns, held, rows), Histogram.of("abc", counts), 30)
    assert found is not None
    errors: list[float] = []
    draws = [distribution_based.redraw(counts, rows, Draws.unsafe_test_key(f"{seed:064x}")) for seed in range(2000)]
    for codes in columns.values():
        for code in np.unique(codes):
            for value in range(3):
                truth = int(((codes == code) & (held == value)).sum())
                if 15 <= truth < 60:
                    off = [distribution_based.count_published(each, codes == code, value) - truth for each in draws]
                    errors.append(math.sqrt(float(np.mean(np.square(off)))) / truth)
    assert found.error == pytest.approx(float(np.mean(errors)), rel=0.03)
    assert found.gain == 0
    assert redraw_values(Sample({}, held, rows), Histogram.of("abc", counts), 30) is None


def test_laplace_table_has_the_noise_of_every_group_that_a_count_covers() -> None:
    """Ten groups of a hundred people: a count of all people with a value adds the noise of ten counts."""
    bound, histogram = BreachBound("1/10", "1/3"), Histogram.of(["flu", "HIV"], [500, 500])
    assert estimate_laplace_table(bound, histogram, 500) is None
    found = estimate_laplace_table(bound, replace(histogram, class_sizes=((100, 10),)), 500)
    assert found is not None
    scale = 2 / math.log(4.5)
    assert found.error == pytest.approx(math.sqrt(10 * 2) * scale / 500)
    shared = estimate_laplace_table(bound.share_among_rows(2), replace(histogram, class_sizes=((100, 10),)), 500)
    assert shared is not None
    assert shared.error == pytest.approx(2 * found.error)
    half = estimate_laplace_table(bound, replace(histogram, class_sizes=((100, 10),)), 250)
    assert half is not None
    assert half.error == pytest.approx(math.sqrt(5 * 2) * scale / 250)


# ------------------------------------------------------------------------------------------------------------ mistakes


@pytest.mark.parametrize(
    ("how", "code", "fields"),
    [
        ({"at_gain": "5%", "error": "5%"}, "two-criteria", {}),
        ({"at_gain": "1"}, "gain-out-of-range", {"given": "1"}),
        ({"error": "0"}, "error-out-of-range", {"given": "0"}),
        ({"at": 0}, "count-out-of-range", {"given": 0}),
        ({"attacker": "Z"}, "unknown-attacker", {"attacker": "Z"}),
    ],
    ids=str,
)
def test_mistakes_are_refused(how: dict[str, Any], code: str, fields: dict[str, ErrorField]) -> None:
    with refuses(SpecError, code, **fields):
        compare(request(), seed=SEED, **how)


def test_what_has_no_one_posterior_is_refused() -> None:
    with refuses(SpecError, "no-single-bound"):
        compare(request(Tolerance("3/2")), seed=SEED)


@pytest.mark.parametrize(("counts", "usual"), [([5000, 10], 1000), ([437, 20], 400), ([7, 3], 7)], ids=str)
def test_errors_are_told_of_counts_that_there_are(counts: Sequence[int], usual: int) -> None:
    assert choose_usual_count(Histogram.of("ab", counts)) == usual
