"""Attacks on small tables against what their definition says; what records show is given, or drawn with a known key."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from selection import examples
from sfumato._core.array_types import Codes, Floats
from sfumato._core.random_draws import Draws
from sfumato._planning.mechanism_choice import choose
from sfumato._planning.predicted_error import ChosenMechanism
from sfumato._profile.record_sample import Sample
from sfumato._records import PerturbedRecords
from sfumato._records.column_codes import CodedColumn, SensitiveColumns
from sfumato._request.belief_bounds import BreachBound, PrivacySpec, Tolerance
from sfumato._request.bucket_and_decoy_requirements import DecoyGroups, Diversity, ShareCap
from sfumato._request.histogram import Histogram
from sfumato._risk.attackers import attack_target, planned_exposure
from sfumato._risk.attackers.attack_result import BeliefSum
from sfumato._risk.attackers.attack_scenarios import attack_with_all_columns
from sfumato._risk.attackers.attack_setup import make_planned_setups
from sfumato._risk.attackers.attack_target import Target, make_targets
from sfumato._risk.attackers.known_column_beliefs import WEIGHTS
from sfumato._risk.attackers.planned_exposure import (
    ALL_COLUMNS,
    ONE_COLUMN,
    attack,
    guess_from_columns,
    measure_predictions,
    run_planned_attacks,
    split_into_chunks,
)
from sfumato._risk.attackers.planned_values import draw_published_values
from sfumato._risk.attackers.predictive_columns import ColumnPrediction
from sfumato.mechanisms import _decoys
from sfumato.mechanisms._bucketization import buckets
from sfumato.mechanisms._randomized_response import fine_grain, small_domain
from sfumato.mechanisms._randomized_response import uniform_mechanism as uniform
from sfumato.mechanisms._subset_selection import subset_mechanism as subset

DRAWS = Draws.unsafe_test_key("5c" * 32)
VALUES = ("a", "b", "c", "d")
BOUND = BreachBound("1/3", "2/3")


def sensitive_of(*names: str, values: Sequence[str] = VALUES) -> SensitiveColumns:
    """One column, or several that are protected each for itself."""
    parts = tuple(CodedColumn(name, pa.array(values), False) for name in names)
    return SensitiveColumns(", ".join(names), parts, is_independent=len(names) > 1)


def sample_of(held: Sequence[int], **columns: Sequence[int]) -> Sample:
    return Sample({name: np.array(codes) for name, codes in columns.items()}, np.array(held), len(held))


def target_of(held: Sequence[int], size: int = 4, **columns: Sequence[int]) -> Target:
    """What records hold, believed with at most 2/3, beside public columns."""
    codes = {name: np.array(each) for name, each in columns.items()}
    return Target("disease", np.array(held), np.full(size, 2 / 3), codes)


def nothing_shown(rows: Codes) -> None:
    return None


# ------------------------------------------------------------------------------------------------- an attack by itself


TABLES = st.lists(st.tuples(*[st.integers(0, 3)] * 3), min_size=2, max_size=40)


@settings(max_examples=examples(40))
@given(TABLES, st.integers(1, 2), st.integers(4, 40))
def test_attack_is_the_sum_of_what_is_believed_of_each_record_however_it_is_cut(
    rows: list[tuple[int, ...]], known: int, cells: int
) -> None:
    one, other, held = zip(*rows, strict=True)
    target = target_of(held, one=one, other=other)
    names = ("one", "other")[:known]
    likely = np.array([[1.0 + (place == (row * 7) % 4) for place in range(4)] for row in range(len(held))])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(planned_exposure, "CHUNK_BELIEFS", cells)
        found = attack(ONE_COLUMN, names, target, lambda chosen: likely[chosen])
    beliefs = target.learn(names).compute_beliefs(np.arange(len(held)))
    for believed, expected in ((found.without_release, beliefs), (found.with_release, beliefs * likely)):
        added = BeliefSum(target.limits)
        added.add(expected / expected.sum(axis=1, keepdims=True), target.true_codes)
        assert believed is not None
        assert list(believed.to_json().values()) == pytest.approx(list(added.summarize().to_json().values()))
    assert (found.scenario, found.known_columns, found.protected_column, found.records) == (
        ONE_COLUMN,
        names,
        "disease",
        len(held),
    )


def test_attack_by_hand() -> None:
    """Four records: 0 0 1 share x, and 1 is alone with y. The shares are 1/2 each, and 1/4 without one record.

    With the weight w of the table, the first two are told 1 + 1/(w/4) times 0 and 1 + 1/(w/2) times 1 by their two
    companions; the third is told 0 by 1 + 2/(w/2), and of its own value nothing; the last believes the shares.
    """
    column, held = [0, 0, 0, 1], [0, 0, 1, 1]
    found = attack(ONE_COLUMN, ("x",), target_of(held, 2, x=column), nothing_shown)
    weight = WEIGHTS[-1]  # the third is best foretold by the shares of the table, and the others by anything
    first, third = (1 + 4 / weight) / (2 + 6 / weight), 1 / (2 + 4 / weight)
    assert found.without_release.mean_belief == pytest.approx((first + first + third + 1 / 2) / 4)
    assert found.without_release.worst_belief == pytest.approx(first)
    assert found.without_release.success == pytest.approx((1 + 1 + 0 + 1 / 2) / 4)
    assert found.with_release is None


def test_release_that_shows_the_value_is_believed_whatever_columns_say() -> None:
    held = [0, 1, 2, 3] * 5
    found = attack(ONE_COLUMN, ("x",), target_of(held, x=held), lambda rows: np.eye(4)[np.array(held)[rows]])
    assert found.with_release is not None
    assert (found.with_release.success, found.with_release.mean_belief) == (1, pytest.approx(1))
    assert found.with_release.share_above == 1


def test_release_that_shows_nothing_changes_nothing() -> None:
    held = [0, 1, 1, 3, 2, 2, 1] * 4
    column = [value % 2 for value in held]
    found = attack(ONE_COLUMN, ("x",), target_of(held, x=column), lambda rows: np.ones((len(rows), 4)))
    assert found.with_release is not None
    assert list(found.with_release.to_json().values()) == pytest.approx(list(found.without_release.to_json().values()))


def test_what_cannot_be_shown_by_any_believed_value_does_not_divide_by_nothing() -> None:
    held = [0, 1] * 3
    found = attack(ONE_COLUMN, ("x",), target_of(held, 2, x=held), lambda rows: np.zeros((len(rows), 2)))
    assert found.with_release is not None
    assert found.with_release.mean_belief == 0


# ----------------------------------------------------------------------------------------- the closed form of uniform

COUNTS = (16, 32, 64, 16)
"""Of four values; any retention in quarters shows each of them by whole numbers of records."""


def exactly_shown(retention: Fraction) -> tuple[ChosenMechanism, Codes, Codes]:
    """A plan, and records that show each value exactly as often as expected: what they hold, and what they show."""
    odds = (retention + (1 - retention) / 4) / ((1 - retention) / 4)
    chosen = choose(Histogram.of(VALUES, COUNTS), BreachBound("1/2", odds / (1 + odds)), DRAWS, "uniform")
    pairs = []
    for value, count in enumerate(COUNTS):
        for place in range(4):
            records = count * ((1 - retention) / 4 + retention * (place == value))
            assert records.denominator == 1
            pairs += [(value, place)] * int(records)
    held, seen = (np.array(each) for each in zip(*pairs, strict=True))
    return chosen, held, seen


@pytest.mark.parametrize("retention", [Fraction(1, 4), Fraction(1, 2), Fraction(3, 4)], ids=str)
def test_right_guesses_by_uniform_are_those_of_the_closed_form_where_columns_tell_nothing(retention: Fraction) -> None:
    """Sum over y of max over x of f(x) P(y|x), by a column in which everybody is alone."""
    chosen, held, seen = exactly_shown(retention)

    def likely(rows: Codes) -> Floats:
        (found,) = chosen.mechanism.attack_model.compute_likelihoods(chosen.plan, PerturbedRecords(seen[rows]))
        return found

    found = attack(ONE_COLUMN, ("alone",), target_of(held, alone=range(len(held))), likely)
    shares = [Fraction(count, sum(COUNTS)) for count in COUNTS]
    law = [[(1 - retention) / 4 + retention * (x == y) for y in range(4)] for x in range(4)]
    expected = sum(max(shares[x] * law[x][y] for x in range(4)) for y in range(4))
    assert found.with_release is not None
    assert found.with_release.success == pytest.approx(float(expected))
    assert found.without_release.success == float(max(shares))


# ---------------------------------------------------------------------------------------------------- what is protected


def test_each_column_is_a_target_where_each_is_protected_for_itself() -> None:
    sensitive = sensitive_of("disease", "drug", values=("a", "b"))
    found = make_targets(sample_of([0, 1, 2, 3]), sensitive, DecoyGroups(2))
    assert [(each.name, each.true_codes.tolist(), each.limits.tolist()) for each in found] == [
        ("disease", [0, 0, 1, 1], [1 / 2, 1 / 2]),
        ("drug", [0, 1, 0, 1], [1 / 2, 1 / 2]),
    ]


LIMITS: dict[str, tuple[PrivacySpec, list[float]]] = {
    "a bound": (BOUND, [2 / 3] * 4),
    "groups of different values": (Diversity(3), [1 / 3] * 4),
    "caps": (ShareCap({"a": Fraction(1, 4), "c": Fraction(1, 2)}), [1 / 4, 1, 1 / 2, 1]),
    "decoys": (DecoyGroups(4), [1 / 4] * 4),
    "a tolerance": (Tolerance("2"), [20 / 128, 60 / 128, 120 / 128, 20 / 128]),  # twice the shares, cut to ten records
}


@pytest.mark.parametrize("name", LIMITS)
def test_limits_are_what_the_request_lets_one_believe_of_each_value(name: str) -> None:
    spec, expected = LIMITS[name]
    histogram = Histogram.of(VALUES, COUNTS)
    (found,) = make_targets(sample_of([0]), sensitive_of("disease"), spec.resolve(histogram))
    assert found.limits.tolist() == pytest.approx(expected)
    assert found.size == 4


# -------------------------------------------------------------------------------------------------------- all attackers

WAYS: dict[str, tuple[PrivacySpec, Any]] = {
    "uniform": (BOUND, uniform.NoOptions()),
    "subset": (BreachBound("3/7", "1/2"), subset.Options()),
    "small-domain": (BreachBound("1/2", "3/4"), small_domain.Options(min_cell=1)),
    "fine-grain": (Tolerance("3/2"), fine_grain.Options()),
    "buckets": (ShareCap(dict.fromkeys(VALUES, Fraction(3, 4))), buckets.Options()),
    "decoys": (DecoyGroups(2), _decoys.Options()),
}


def chosen_by(mechanism: str, counts: Sequence[int] = COUNTS) -> ChosenMechanism:
    spec, options = WAYS[mechanism]
    return choose(Histogram.of(VALUES, counts), spec, DRAWS, mechanism, options={mechanism: options})


@pytest.mark.parametrize("mechanism", WAYS)
def test_every_column_is_tried_alone_and_all_of_them_together(mechanism: str) -> None:
    held = np.repeat(np.arange(4), COUNTS)
    sample = sample_of(held, half=np.arange(128) % 2, coarse=held // 2)
    chosen, sensitive = chosen_by(mechanism), sensitive_of("disease")
    found = run_planned_attacks(
        chosen, sample, sensitive, make_targets(sample, sensitive, WAYS[mechanism][0].resolve(chosen.histogram)), DRAWS
    )
    assert [(each.scenario, each.known_columns) for each in found] == [
        (ONE_COLUMN, ("half",)),
        (ONE_COLUMN, ("coarse",)),
        (ALL_COLUMNS, ("half", "coarse")),
    ]
    assert {each.protected_column for each in found} == {"disease"}
    assert found[0].without_release.success <= found[1].without_release.success
    for each in found:
        assert each.with_release is not None
        assert 0 <= each.with_release.mean_belief <= each.with_release.worst_belief <= 1
        assert each.records == 128


def test_attacker_of_all_columns_is_the_same_before_publishing_and_in_an_audit() -> None:
    held = np.random.default_rng(2).permutation(np.repeat(np.arange(4), COUNTS))
    sample = sample_of(held, half=held // 2, noisy=(held + np.arange(128) // 100) % 4)
    chosen, sensitive = chosen_by("uniform"), sensitive_of("disease")
    targets = make_targets(sample, sensitive, BOUND)
    planned = run_planned_attacks(chosen, sample, sensitive, targets, DRAWS)[-1]
    (setup,) = make_planned_setups(chosen, sample, sensitive, targets)
    assert planned.without_release == attack_with_all_columns(setup).without_release


def test_only_column_is_not_tried_twice() -> None:
    held = np.repeat(np.arange(4), COUNTS)
    sample, sensitive = sample_of(held, half=np.arange(128) % 2), sensitive_of("disease")
    found = run_planned_attacks(chosen_by("uniform"), sample, sensitive, make_targets(sample, sensitive, BOUND), DRAWS)
    assert [each.scenario for each in found] == [ONE_COLUMN]


def test_without_public_columns_nobody_is_attacked() -> None:
    held = np.repeat(np.arange(4), COUNTS)
    sample, sensitive = sample_of(held), sensitive_of("disease")
    assert (
        run_planned_attacks(chosen_by("uniform"), sample, sensitive, make_targets(sample, sensitive, BOUND), DRAWS)
        == ()
    )


def test_columns_that_are_protected_each_for_itself_are_attacked_each() -> None:
    """With what each of them shows, which is true for every other record, but for a chance far below 1e-9."""
    sensitive = sensitive_of("disease", "drug", values=("a", "b", "c"))
    counts = [1200, 300, 300, 400, 1200, 300, 300, 300, 1200]
    held = np.repeat(np.arange(9), counts)
    histogram = Histogram.of(sensitive.domain, counts, sensitive.sizes)
    chosen = choose(histogram, DecoyGroups(2), DRAWS, "decoys")
    sample = sample_of(held, half=np.arange(len(held)) % 2)
    found = run_planned_attacks(chosen, sample, sensitive, make_targets(sample, sensitive, DecoyGroups(2)), DRAWS)
    assert [(each.protected_column, each.known_columns) for each in found] == [
        ("disease", ("half",)),
        ("drug", ("half",)),
    ]
    assert all(each.with_release is not None and 0.45 < each.with_release.success < 0.55 for each in found)


def test_mechanism_that_does_not_know_its_law_is_attacked_without_the_release() -> None:
    chosen = chosen_by("uniform")
    silent = dataclasses.replace(chosen, mechanism=dataclasses.replace(chosen.mechanism, attack_model=None))
    held = np.repeat(np.arange(4), COUNTS)
    sample, sensitive = sample_of(held, half=np.arange(128) % 2), sensitive_of("disease")
    (found,) = run_planned_attacks(silent, sample, sensitive, make_targets(sample, sensitive, BOUND), DRAWS)
    assert found.with_release is None


def test_of_many_beliefs_those_of_the_first_records_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attack_target, "MOST_BELIEFS", 40)
    monkeypatch.setattr(attack_target, "LEAST_RECORDS", 8)
    held = np.arange(128) % 4
    sample, sensitive = sample_of(held, half=np.arange(128) % 2), sensitive_of("disease")
    (target,) = make_targets(sample, sensitive, BOUND)
    (found,) = run_planned_attacks(chosen_by("uniform", [32] * 4), sample, sensitive, [target], DRAWS)
    assert found.records == 10
    whole = target.learn(["half"])  # learned from all of them
    assert found.without_release.mean_belief == pytest.approx(
        whole.compute_beliefs(np.arange(10))[np.arange(10), held[:10]].mean()
    )


def test_of_very_many_values_enough_records_are_looked_at() -> None:
    target = Target("disease", np.zeros(10_000, dtype=np.int64), np.ones(attack_target.MOST_BELIEFS), {})
    assert target.attacked_count == attack_target.LEAST_RECORDS


@pytest.mark.parametrize(("records", "size"), [(0, 3), (1, 3), (10, 3), (7, 1000)])
def test_chunks_are_all_rows_in_their_order(records: int, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planned_exposure, "CHUNK_BELIEFS", 12)
    found = list(split_into_chunks(records, size))
    assert [row for rows in found for row in rows.tolist()] == list(range(records))
    assert all(len(rows) <= max(1, 12 // size) for rows in found)


# ---------------------------------------------------------------------------------------------------- what records show


@pytest.mark.parametrize("mechanism", ["small-domain", "buckets", "decoys"])
def test_all_records_have_all_slots_of_their_value(mechanism: str) -> None:
    """In any order, so that what is shown is a release that there could be."""
    chosen = chosen_by(mechanism)
    codes = np.tile(np.repeat(np.arange(4), np.array(COUNTS) // 4), 4)
    slots = _slots(chosen, codes)
    for value, count in enumerate(COUNTS):
        assert sorted(slots[codes == value].tolist()) == list(range(count))
    assert slots[codes == 2].tolist() != list(range(COUNTS[2]))


def _slots(chosen: ChosenMechanism, codes: Codes) -> Codes:
    """The slots that records are given."""
    given: list[Codes] = []

    def noted(plan: Any, codes: Codes, slots: Codes, draws: Draws, first_row: int) -> PerturbedRecords:
        given.append(slots)
        return PerturbedRecords(codes)

    noting = dataclasses.replace(chosen, mechanism=dataclasses.replace(chosen.mechanism, perturb=noted))
    draw_published_values(noting, sensitive_of("disease"), codes, DRAWS)
    return given[0]


def test_some_records_are_spread_evenly_over_the_slots_of_their_value() -> None:
    """Of 6,400 records of a value 64 are here: one for each hundred slots."""
    chosen = chosen_by("decoys", [100 * count for count in COUNTS])
    codes = np.repeat(np.arange(4), COUNTS)
    slots = _slots(chosen, codes)
    for value, count in enumerate(COUNTS):
        assert sorted((slots[codes == value] // 100).tolist()) == list(range(count))


def test_what_is_shown_follows_the_key() -> None:
    codes = np.repeat(np.arange(4), COUNTS)
    for mechanism in WAYS:
        chosen = chosen_by(mechanism)
        one, same, other = (
            draw_published_values(chosen, sensitive_of("disease"), codes, Draws.unsafe_test_key(key * 32))
            for key in ("01", "01", "02")
        )
        for name in ("values", "cells"):
            assert np.array_equal(getattr(one, name), getattr(same, name))
        assert any(not np.array_equal(getattr(one, name), getattr(other, name)) for name in ("values", "cells"))


# --------------------------------------------------------------------------------------------------------- what is told


def told(found: Sequence[ColumnPrediction]) -> dict[tuple[str, ...], bool]:
    return {each.columns: each.is_predictive for each in found}


def parity(rows: int = 400) -> dict[str, list[int]]:
    """Two columns that tell the value together, and neither alone; and one that tells nothing."""
    return {
        "one": [row % 2 for row in range(rows)],
        "other": [row // 2 % 2 for row in range(rows)],
        "idle": [row // 4 % 2 for row in range(rows)],
    }


def test_two_columns_that_tell_only_together_are_found() -> None:
    columns = parity()
    held = [one ^ other for one, other in zip(columns["one"], columns["other"], strict=True)]
    found = told(measure_predictions([target_of(held, 2, **columns)], []))
    assert found == {
        **dict.fromkeys([("one",), ("other",), ("idle",)], False),
        ("one", "other"): True,
        ("one", "idle"): False,
        ("other", "idle"): False,
        ("one", "other", "idle"): False,  # each by itself says nothing that could be learned
    }


def test_columns_that_tell_alone_are_not_tried_with_others() -> None:
    """That they tell with any other is no news."""
    columns = {**parity(), "chapter": parity()["idle"]}
    held = parity()["idle"]
    del columns["idle"]
    found = told(measure_predictions([target_of(held, 2, **columns)], []))
    assert found == {("one",): False, ("other",): False, ("chapter",): True, ("one", "other"): False}


def test_columns_that_were_accepted_are_looked_at_alone() -> None:
    columns = parity()
    held = [one ^ other for one, other in zip(columns["one"], columns["other"], strict=True)]
    found = told(measure_predictions([target_of(held, 2, **columns)], ["one"]))
    assert ("one",) in found
    assert all("one" not in names for names in found if len(names) > 1)


def weak(rows: int, many: int) -> tuple[dict[str, Codes], Codes]:
    """Columns of which each has the value of seven records in ten, and of the others any."""
    chance = np.random.default_rng(7)
    held = chance.integers(0, 2, rows)
    columns = {
        f"weak {number}": np.where(chance.random(rows) < 0.4, held, chance.integers(0, 2, rows))
        for number in range(many)
    }
    return columns, held


def test_many_weak_columns_tell_together_by_what_is_learned_of_each() -> None:
    columns, held = weak(4000, 9)
    found = measure_predictions([target_of(held, 2, **columns)], [])
    assert [len(each.columns) for each in found if each.is_predictive] == [9]
    assert found[-1].columns[0] == max(found[:9], key=lambda each: each.success).columns[0]


def test_learned_guess_is_what_the_attacker_guesses_who_knows_them() -> None:
    columns, held = weak(500, 4)
    target = target_of(held, 2, **columns)
    single = [each for each in measure_predictions([target], []) if len(each.columns) == 1]
    found = guess_from_columns(target, list(columns), single)
    expected = attack(ALL_COLUMNS, found.columns, target, nothing_shown)
    assert found.success == expected.without_release.success
    assert found.records == 500
    assert sorted(found.columns) == sorted(columns)


def test_each_target_has_its_own_tellings() -> None:
    first = target_of(parity()["one"], 2, one=parity()["one"])
    second = Target("drug", np.array(parity()["other"]), np.ones(2), first.columns)
    found = measure_predictions([first, second], [])
    assert [(each.protected_column, each.is_predictive) for each in found] == [("disease", True), ("drug", False)]
