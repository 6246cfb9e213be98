"""Where a publication stops because public columns tell too much beside it, and what it says then."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from sfumato._core.random_draws import Draws
from sfumato._planning.mechanism_choice import choose
from sfumato._planning.predicted_error import ChosenMechanism
from sfumato._profile.record_sample import Sample
from sfumato._request.belief_bounds import BreachBound
from sfumato._request.guarantee import Guarantee
from sfumato._request.histogram import Histogram
from sfumato._risk.attackers import planned_exposure
from sfumato._risk.attackers.attack_result import Attack, BeliefSummary
from sfumato._risk.attackers.planned_exposure import ALL_COLUMNS, ONE_COLUMN
from sfumato._risk.attackers.publication_gates import Breach, find_breach_stop, find_exposure_stop, measure_breaches
from sfumato.errors import MissingCapabilityError
from sfumato.mechanisms import REGISTRY
from sfumato.mechanisms._randomized_response import small_domain
from sfumato.mechanisms.mechanism import AnyMechanism

COUNTS = (12, 8, 6, 5, 4, 3, 1, 1, 1, 1)
"""Example 1 of the small-domain paper."""


def cells() -> ChosenMechanism:
    options = {"small-domain": small_domain.Options(small_domain.Merge.PAPER)}
    histogram = Histogram.of([f"x{number}" for number in range(10)], COUNTS)
    draws = Draws.unsafe_test_key("5d" * 32)
    return choose(histogram, BreachBound("1/3", "2/3"), draws, "small-domain", options=options)


def table() -> Sample:
    """Each value has its column: `fair` halves all of them, and `telling` parts three from the others."""
    held = np.repeat(np.arange(10), COUNTS).repeat(2)
    fair, telling = np.arange(len(held)) % 2, np.isin(held, [0, 3, 6]).astype(np.uint8)
    return Sample({"fair": fair, "telling": telling, "alone": np.arange(len(held))}, held, len(held))


@pytest.mark.parametrize("cells_at_once", [1, 25, 10**6])
def test_breaches_are_those_of_the_mechanism_however_groups_are_cut(
    cells_at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planned_exposure, "CHUNK_BELIEFS", cells_at_once)
    chosen, sample = cells(), table()
    found = {each.column: each for each in measure_breaches(chosen, sample)}
    assert list(found) == ["fair", "telling", "alone"]
    for name, codes in sample.columns.items():
        groups = np.zeros((int(codes.max()) + 1, 10), dtype=np.int64)
        np.add.at(groups, (codes, sample.sensitive), 1)
        risk = chosen.mechanism.group_risk.measure(chosen.plan, groups)
        assert found[name].worst_posterior == pytest.approx(risk.worst_posterior)
        assert found[name].breached_share == pytest.approx(risk.breached_share)
    assert found["fair"].breached_share == 0 < found["telling"].breached_share
    assert found["alone"].breached_share == 0  # what is certain before is no breach of the release


def test_worst_column_stops_and_is_named_with_what_could_be_done() -> None:
    found = [Breach("age", 0.7, 0.005), Breach("home town", 0.914, 0.0123), Breach("sex", 0.99, 0.011)]
    stop = find_breach_stop(found, Fraction(1, 100))
    assert (stop.code, stop.column) == ("bound-breached", "home town")
    assert stop.numbers == {"share": 0.0123, "posterior": 0.914, "limit": "1/100"}
    for remedy in ("`mechanism='subset'`", "`drop=`", "`breach_limit=`", "`accept_marginal_prior='REASON'`"):
        assert any(remedy in way_out for way_out in stop.ways_out)


def test_limit_itself_is_not_exceeded() -> None:
    assert find_breach_stop([Breach("age", 0.9, 0.25)], Fraction(1, 4)) is None
    assert find_breach_stop([Breach("age", 0.9, 0.0)], Fraction(0)) is None
    assert find_breach_stop([], Fraction(0)) is None
    assert find_breach_stop([Breach("age", 0.9, 0.25)], Fraction(249, 1000)) is not None


def attacked(well_above: float, name: str = "sex", who: str = ONE_COLUMN, *, is_known: bool = True) -> Attack:
    without, with_release = (BeliefSummary(0.5, (0.4, 0.6), 0.5, 0.876, each, each) for each in (0.0, well_above))
    return Attack(who, (name,), "disease", 100, without, with_release if is_known else None)


def giving(guarantee: Guarantee) -> AnyMechanism:
    """The first mechanism that gives a guarantee."""
    return next(each for each in REGISTRY.values() if each.guarantee is guarantee)


@pytest.mark.parametrize("guarantee", [Guarantee.BUCKET_ONLY, Guarantee.DECOYS_ONLY])
def test_column_that_lifts_more_than_half_of_the_records_stops_where_the_promise_is_for_the_release_alone(
    guarantee: Guarantee,
) -> None:
    found = [attacked(0.51), attacked(0.83, "home town"), attacked(0.1, "age")]
    stop = find_exposure_stop(found, giving(guarantee))
    assert (stop.code, stop.column) == ("exposure-above-bound", "home town")
    assert stop.numbers == {"share": 0.83, "belief": 0.876}
    for remedy in ("`spec=BreachBound(...)`", "`drop=`", "`accept_exposure='REASON'`"):
        assert any(remedy in way_out for way_out in stop.ways_out)


@pytest.mark.parametrize("guarantee", [each for each in Guarantee if each.name not in {"BUCKET_ONLY", "DECOYS_ONLY"}])
def test_promise_that_holds_for_who_knows_columns_is_not_stopped_by_what_they_lift(guarantee: Guarantee) -> None:
    assert find_exposure_stop([attacked(1.0)], giving(guarantee)) is None


def test_half_of_the_records_do_not_stop_nor_do_all_columns_together_nor_what_is_not_known() -> None:
    found = [attacked(0.5), attacked(1.0, who=ALL_COLUMNS), attacked(1.0, is_known=False)]
    assert find_exposure_stop(found, giving(Guarantee.BUCKET_ONLY)) is None
    assert find_exposure_stop([], giving(Guarantee.BUCKET_ONLY)) is None


@pytest.mark.parametrize("guarantee", [Guarantee.BUCKET_ONLY, Guarantee.DECOYS_ONLY])
def test_gate_refuses_a_mechanism_that_cannot_be_attacked(guarantee: Guarantee) -> None:
    silent = replace(giving(guarantee), attack_model=None)
    with pytest.raises(MissingCapabilityError) as caught:
        find_exposure_stop([attacked(1.0, is_known=False)], silent)
    assert (caught.value.mechanism, caught.value.capability) == (silent.name, "AttackModel")
    assert find_exposure_stop([], silent) is None  # without public columns there is nothing to lift


def test_gate_refuses_a_marginal_prior_mechanism_that_cannot_measure_groups() -> None:
    silent = replace(cells(), mechanism=replace(cells().mechanism, group_risk=None))
    with pytest.raises(MissingCapabilityError) as caught:
        measure_breaches(silent, table())
    assert caught.value.capability == "GroupRisk"
