"""Measures, before publishing, how much a release adds to the success of attackers who know public columns.

The result is private.

The published values are drawn with a separate key that is derived from the key of the release. So repeating the release
repeats the measurement. The guarantee is not weakened, because the release and the measurement share no draw.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from sfumato._core.array_types import Floats, Places
from sfumato._core.ordered_threads import map_arrays
from sfumato._core.random_draws import Draws
from sfumato._planning.predicted_error import ChosenMechanism
from sfumato._profile.record_sample import Sample
from sfumato._records.column_codes import SensitiveColumns
from sfumato._risk.attackers.attack_result import Attack, BeliefSum, UnlinkedSuccess
from sfumato._risk.attackers.attack_setup import AttackSetup
from sfumato._risk.attackers.attack_target import Target
from sfumato._risk.attackers.belief_calibration import BeliefFunction, learn_all_columns
from sfumato._risk.attackers.crowd_posteriors import SMALLEST
from sfumato._risk.attackers.planned_values import compute_value_likelihoods, draw_published_values
from sfumato._risk.attackers.predictive_columns import (
    MOST_TOGETHER,
    ColumnPrediction,
    measure_blind_guess,
    measure_guesses,
)
from sfumato._risk.attackers.published_crowds import draw_planned_crowds
from sfumato._risk.attackers.unlinked_attack import attack_unlinked_people

CHUNK_BELIEFS = 1 << 18
ATTACKS, UNLINKED = "attacks before publishing", "records of nobody in particular"
"""The uses of keys that draw the published values of the attacks."""
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
    stops. `attack_scenarios` defines the attacker with all columns, whose beliefs are as often right as expected. Two
    attackers also attack without knowing which record belongs to which person. These are the strongest attacker with
    one column, and the attacker with all columns.
    """
    records = max(target.attacked_count for target in protected_targets)
    draws = release_draws.separate(ATTACKS)
    perturbed_records = draw_published_values(chosen, sensitive, sample.sensitive[:records], draws)
    scenarios: list[tuple[str, tuple[str, ...]]] = [(ONE_COLUMN, (name,)) for name in sample.columns]
    scenarios += [(ALL_COLUMNS, tuple(sample.columns))] if len(sample.columns) > 1 else []
    setups = [
        AttackSetup(
            target,
            partial(compute_value_likelihoods, chosen, perturbed_records, number),
            np.arange(target.attacked_count),
            crowds=draw_planned_crowds(
                chosen, sample, target.size, target.attacked_count, draws.narrow_to_column(target.name)
            ),
        )
        for number, target in enumerate(protected_targets)
    ]

    def run_scenario(attack_case: tuple[AttackSetup, str, tuple[str, ...]]) -> Attack:
        setup, scenario, names = attack_case
        beliefs = learn_all_columns(setup.target, setup.rows) if scenario == ALL_COLUMNS else None
        update_beliefs = None if setup.crowds is None else setup.update_beliefs
        return attack(scenario, names, setup.target, setup.compute_likelihoods, beliefs, update_beliefs)

    for target in protected_targets:
        _ = target.evidence  # all attacks need this
    attack_cases = [(setup, scenario, names) for setup in setups for scenario, names in scenarios]
    most_beliefs = max(target.attacked_count * target.size for target in protected_targets)
    attacks = map_arrays(run_scenario, attack_cases, most_beliefs)
    for number, setup in enumerate(setups):
        own_attacks = [item for item in attacks if item.protected_column == setup.target.name]
        for item in _select_strongest(own_attacks):
            unlinked = _attack_unlinked(chosen, sample, sensitive, setup, number, item.known_columns, draws)
            attacks[attacks.index(item)] = replace(item, unlinked=unlinked)
    return tuple(attacks)


def _select_strongest(attacks: Sequence[Attack]) -> list[Attack]:
    """The most successful attacker with one column, and the one with all columns."""
    single = [item for item in attacks if item.scenario == ONE_COLUMN]
    strongest = [max(single, key=lambda item: item.final_success)] if single else []
    return [*strongest, *(item for item in attacks if item.scenario == ALL_COLUMNS)]


def _attack_unlinked(  # noqa: PLR0913, PLR0917 - a plan, its records, and an attacker
    chosen: ChosenMechanism,
    sample: Sample,
    sensitive: SensitiveColumns,
    setup: AttackSetup,
    number: int,
    names: Sequence[str],
    draws: Draws,
) -> UnlinkedSuccess | None:
    """Attacks people of whole equivalence classes, whose published values are drawn for this attack alone."""
    if chosen.mechanism.bucket_table is not None:
        return None

    def compute_likelihoods(rows: Places) -> Floats | None:
        published = draw_published_values(chosen, sensitive, sample.sensitive[rows], draws.separate(UNLINKED))
        return compute_value_likelihoods(chosen, published, number, np.arange(len(rows)))

    target = setup.target
    beliefs = learn_all_columns(target, setup.rows) if len(names) > 1 else target.learn_across_halves(names)
    return attack_unlinked_people(target, beliefs, compute_likelihoods, setup.crowds)


def attack(  # noqa: PLR0913, PLR0917 - an attacker, its target, and its view of the release
    scenario: str,
    known_columns: tuple[str, ...],
    target: Target,
    compute_likelihoods: Callable[[Places], Floats | None],
    compute_beliefs: BeliefFunction | None = None,
    update_beliefs: Callable[[Floats, Places], Floats | None] | None = None,
) -> Attack:
    """The beliefs about the first records, from the columns alone and with the published values.

    `update_beliefs` replaces the likelihoods if not every published value belongs to one record. It sees all records
    together.
    """
    records = target.attacked_count
    compute_beliefs = compute_beliefs or target.learn(known_columns).compute_beliefs
    sum_without, sum_with = BeliefSum(target.limits), BeliefSum(target.limits)
    chunks = split_into_chunks(records, target.size) if update_beliefs is None else iter([np.arange(records)])
    for rows in chunks:
        beliefs, true_codes = compute_beliefs(rows), target.true_codes[rows]
        sum_without.add(beliefs, true_codes)
        if update_beliefs is not None:
            posteriors = update_beliefs(beliefs, rows)
            if posteriors is not None:
                sum_with.add(posteriors, true_codes)
            continue
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
