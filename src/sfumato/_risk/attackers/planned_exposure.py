"""Measures, before publishing, how much a release adds to the success of attackers who know public columns.

The result is private.

The published values are drawn with a separate key that is derived from the key of the release. So repeating the release
repeats the measurement. The guarantee is not weakened, because the release and the measurement share no draw.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np

from sfumato._core.array_types import Codes, Floats, Numbers, Places
from sfumato._core.ordered_threads import map_arrays
from sfumato._core.random_draws import Draws
from sfumato._planning.predicted_error import ChosenMechanism
from sfumato._profile.record_sample import Sample
from sfumato._records import PerturbedRecords
from sfumato._records.column_codes import SensitiveColumns
from sfumato._request.histogram import compute_margins
from sfumato._risk.attackers.attack_result import Attack, BeliefSum
from sfumato._risk.attackers.attack_target import Target
from sfumato._risk.attackers.belief_calibration import BeliefFunction, learn_all_columns
from sfumato._risk.attackers.predictive_columns import (
    MOST_TOGETHER,
    ColumnPrediction,
    measure_blind_guess,
    measure_guesses,
)

CHUNK_BELIEFS = 1 << 18
SMALLEST = np.finfo(np.float64).tiny
ATTACKS = "attacks before publishing"
"""The use of the key that draws the published values of the attacks."""
FREQUENCIES, ONE_COLUMN, ALL_COLUMNS = "frequencies", "one column", "all columns"


def run_planned_attacks(
    chosen: ChosenMechanism,
    sample: Sample,
    sensitive: SensitiveColumns,
    protected_targets: Sequence[Target],
    release_draws: Draws,
) -> tuple[Attack, ...]:
    """Attacks by attackers who know one public column each, and by an attacker who knows all public columns.

    An attacker with one column learns from all other people, because the strongest belief decides whether publishing
    stops. The attacker with all columns is defined in `attack_scenarios`: that attacker's beliefs are as often right as
    expected.
    """
    records = max(target.attacked_count for target in protected_targets)
    draws = release_draws.separate(ATTACKS)
    perturbed_records = draw_published_values(chosen, sensitive, sample.sensitive[:records], draws)
    scenarios: list[tuple[str, tuple[str, ...]]] = [(ONE_COLUMN, (name,)) for name in sample.columns]
    scenarios += [(ALL_COLUMNS, tuple(sample.columns))] if len(sample.columns) > 1 else []

    def run_scenario(attack_case: tuple[int, Target, str, tuple[str, ...]]) -> Attack:
        number, target, scenario, names = attack_case
        likelihoods = partial(compute_value_likelihoods, chosen, perturbed_records, number)
        rows = np.arange(target.attacked_count)
        beliefs = learn_all_columns(target, rows) if scenario == ALL_COLUMNS else None
        return attack(scenario, names, target, likelihoods, beliefs)

    for target in protected_targets:
        _ = target.evidence  # all attacks need this
    attack_cases = [
        (number, target, scenario, names)
        for number, target in enumerate(protected_targets)
        for scenario, names in scenarios
    ]
    most_beliefs = max(target.attacked_count * target.size for target in protected_targets)
    return tuple(map_arrays(run_scenario, attack_cases, most_beliefs))


def attack(
    scenario: str,
    known_columns: tuple[str, ...],
    target: Target,
    compute_likelihoods: Callable[[Places], Floats | None],
    compute_beliefs: BeliefFunction | None = None,
) -> Attack:
    """The beliefs about the first records, from the columns alone and with the published values."""
    records = target.attacked_count
    compute_beliefs = compute_beliefs or target.learn(known_columns).compute_beliefs
    sum_without, sum_with = BeliefSum(target.limits), BeliefSum(target.limits)
    for rows in split_into_chunks(records, target.size):
        beliefs, true_codes = compute_beliefs(rows), target.true_codes[rows]
        sum_without.add(beliefs, true_codes)
        likelihoods = compute_likelihoods(rows)
        if likelihoods is not None:
            weights = beliefs * likelihoods
            sum_with.add(weights / np.maximum(weights.sum(axis=1, keepdims=True), SMALLEST), true_codes)
    return Attack(
        scenario,
        known_columns,
        target.name,
        records,
        sum_without.summarize(),
        sum_with.summarize() if sum_with.records else None,
    )


def compute_value_likelihoods(
    chosen: ChosenMechanism, perturbed_records: PerturbedRecords, number: int, rows: Places
) -> Floats | None:
    """The likelihood of some records' published values for each value of a protected column, if known."""
    model = chosen.mechanism.attack_model
    if model is None:
        return None
    part = PerturbedRecords(
        *(None if array is None else array[rows] for array in (perturbed_records.values, perturbed_records.cells))
    )
    return model.compute_likelihoods(chosen.plan, part)[number]


def guess_from_columns(
    target: Target, columns: Sequence[str], single_predictions: Sequence[ColumnPrediction]
) -> ColumnPrediction:
    """The success of guessing a protected column from several columns, combined by naive Bayes."""
    order = sorted(
        columns,
        key=lambda name: -max(prediction.success for prediction in single_predictions if prediction.columns == (name,)),
    )
    outcome = attack(ALL_COLUMNS, tuple(order), target, lambda rows: None)
    return ColumnPrediction(
        tuple(order),
        target.name,
        outcome.without_release.success,
        measure_blind_guess(target.true_codes),
        outcome.records,
    )


def split_into_chunks(records: int, size: int) -> Iterator[Places]:
    """Splits rows into chunks whose beliefs fit into memory."""
    step = max(1, CHUNK_BELIEFS // size)
    for first in range(0, records, step):
        yield np.arange(first, min(first + step, records))


def draw_published_values(
    chosen: ChosenMechanism, sensitive: SensitiveColumns, codes: Codes, draws: Draws
) -> PerturbedRecords:
    """Draws published values. The records of one value are distributed over its slots as in the full table."""
    slots = None
    if chosen.mechanism.uses_slots:
        counts = [np.array(chosen.histogram.counts)]
        if sensitive.is_independent:
            counts = compute_margins(chosen.histogram.counts, sensitive.sizes)
        pairs = zip(sensitive.list_rank_codes(codes), counts, strict=True)
        slot_lists = [
            _spread_over_slots(column_codes, column_counts, draws.narrow_to_column(str(number)))
            for number, (column_codes, column_counts) in enumerate(pairs)
        ]
        slots = np.stack(slot_lists) if sensitive.is_independent else slot_lists[0]
    return chosen.mechanism.perturb(chosen.plan, codes, slots, draws, 0)


def _spread_over_slots(codes: Codes, counts: Numbers, draws: Draws) -> Numbers:
    """Gives each record a random slot below the count of its value.

    If all records are here, all slots are used.
    """
    order = np.lexsort((draws.get_stream("order").draw_bits(0, len(codes)), codes))
    sample_counts = np.bincount(codes, minlength=len(counts))
    ranks = np.arange(len(codes)) - np.repeat(np.cumsum(sample_counts) - sample_counts, sample_counts)
    random_shares = draws.get_stream("place").draw_bits(0, len(codes)) / 2.0**64
    slots = np.empty(len(codes), dtype=np.int64)
    slot_positions = (ranks + random_shares) * np.repeat(counts / np.maximum(sample_counts, 1), sample_counts)
    slots[order] = np.minimum(slot_positions.astype(np.int64), np.repeat(counts, sample_counts) - 1)
    return slots


def measure_predictions(protected_targets: Sequence[Target], accepted: Sequence[str]) -> list[ColumnPrediction]:
    """The success of guessing each protected column from single columns, from pairs, and from all.

    Accepted columns are measured only one by one. They are known to disclose the value, and so does every combination
    with them.
    """
    predictions = []
    for target in protected_targets:
        single_predictions = measure_guesses(target.columns, target.true_codes, target.size, target.name, together=1)
        other_columns = [
            prediction.columns[0]
            for prediction in single_predictions
            if not prediction.is_predictive and prediction.columns[0] not in accepted
        ]
        columns = {name: target.columns[name] for name in other_columns}
        predictions += [
            *single_predictions,
            *measure_guesses(columns, target.true_codes, target.size, target.name, together=MOST_TOGETHER),
        ]
        if len(other_columns) > MOST_TOGETHER:
            predictions.append(guess_from_columns(target, other_columns, single_predictions))
    return predictions
