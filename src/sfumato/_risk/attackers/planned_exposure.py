"""Measures before publishing what a release adds to the attack success of known public columns. Private.

The published values are drawn with a discarded key, so the measurement does not weaken the guarantee of the release.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property, partial

import numpy as np

from sfumato._core.array_types import Codes, Floats, Mask, Numbers, Places
from sfumato._core.cell_values import Value
from sfumato._core.random_draws import Draws
from sfumato._planning.predicted_error import ChosenMechanism
from sfumato._profile.equivalence_classes import hash_numbers
from sfumato._profile.record_sample import Sample
from sfumato._records import PerturbedRecords
from sfumato._records.column_codes import SensitiveColumns
from sfumato._request.belief_bounds import PrivacySpec
from sfumato._request.histogram import compute_margins
from sfumato._risk.attackers.attack_result import Attack, BeliefSum
from sfumato._risk.attackers.known_column_beliefs import ColumnEvidence, Knowledge, compute_smoothed_shares
from sfumato._risk.attackers.predictive_columns import (
    MOST_TOGETHER,
    ColumnPrediction,
    measure_blind_guess,
    measure_guesses,
)

MOST_BELIEFS, LEAST_RECORDS = 1 << 19, 3000
"""The most records times values of an attack, and the fewest records; larger tables are sampled at random."""
CHUNK_BELIEFS = 1 << 18
SMALLEST = np.finfo(np.float64).tiny
FREQUENCIES, ONE_COLUMN, ALL_COLUMNS = "frequencies", "one column", "all columns"


@dataclass(frozen=True)
class Target:
    """One protected column: its name, the true values of the records, and the belief limit of each value."""

    name: str
    true_codes: Codes
    limits: Floats
    columns: Mapping[str, Codes] = field(repr=False)
    """The public columns of the same records."""
    column_sizes: Mapping[str, int] = field(default_factory=dict, repr=False)
    """The numbers of possible values of the columns, where not all occur here."""

    @property
    def size(self) -> int:
        """The number of values."""
        return len(self.limits)

    @property
    def attacked_count(self) -> int:
        """The number of attacked records."""
        return min(len(self.true_codes), max(LEAST_RECORDS, MOST_BELIEFS // self.size))

    @cached_property
    def shares(self) -> Floats:
        """The shares of the values."""
        return compute_smoothed_shares(self.true_codes, self.size)

    @cached_property
    def evidence(self) -> dict[str, ColumnEvidence]:
        """The evidence of each public column."""
        shares = self.shares

        def count_evidence(name: str) -> ColumnEvidence:
            return ColumnEvidence.of(self.columns[name], self.true_codes, shares, self.column_sizes.get(name, 0))

        with ThreadPoolExecutor() as pool:
            return dict(zip(self.columns, pool.map(count_evidence, self.columns), strict=True))

    @cached_property
    def halves(self) -> tuple[Target, Target]:
        """The records of each half, independent of their order in a table."""
        heights = {name: int(codes.max(initial=0)) + 1 for name, codes in self.columns.items()}
        half_targets = []
        for rows in (np.flatnonzero(self.is_first), np.flatnonzero(~self.is_first)):
            columns = {name: codes[rows] for name, codes in self.columns.items()}
            half_targets.append(Target(self.name, self.true_codes[rows], self.limits, columns, heights))
        return half_targets[0], half_targets[1]

    @cached_property
    def belief_cache(self) -> dict[bytes, Callable[[Places], Floats]]:
        """Cached beliefs about some of its records, for attacks on several releases of the same people."""
        return {}

    @cached_property
    def is_first(self) -> Mask:
        """The records of the first half, by a hash of their numbers."""
        return np.asarray(hash_numbers(np.arange(len(self.true_codes)), np.uint64(0)) & np.uint64(1), dtype=np.bool_)

    def learn_across_halves(self, known_columns: Sequence[str]) -> Callable[[Places], Floats]:
        """Beliefs of an attacker who learns about the people of each half from the other half.

        If each record were only left out of its own evidence, the true one of two equally likely values would always
        seem less likely. That alone would make guesses wrong.
        """
        if not known_columns:
            return self.learn(()).compute_beliefs
        first, second = (half.learn(known_columns) for half in self.halves)

        def compute_beliefs(rows: Places) -> Floats:
            chances = np.empty((len(rows), self.size))
            for is_in_half, knowledge in ((self.is_first[rows], second), (~self.is_first[rows], first)):
                half_rows = rows[is_in_half]
                chances[is_in_half] = knowledge.predict_others(
                    [self.columns[name][half_rows] for name in known_columns], len(half_rows)
                )
            return chances

        return compute_beliefs

    def learn(self, known_columns: Sequence[str]) -> Knowledge:
        """Beliefs of an attacker who knows some public columns."""
        return Knowledge.of([self.evidence[name] for name in known_columns], self.true_codes, self.shares)


def make_targets(sample: Sample, sensitive: SensitiveColumns, spec: PrivacySpec) -> list[Target]:
    """The protected columns, one by one if they are protected separately."""
    column_domains: list[tuple[str, Sequence[Value]]] = [(sensitive.name, sensitive.domain)]
    if sensitive.is_independent:
        column_domains = [(part.name, part.domain) for part in sensitive.parts]
    return [
        Target(name, true_codes, np.array([float(limit) for limit in spec.list_limits(domain)]), sample.columns)
        for (name, domain), true_codes in zip(column_domains, sensitive.list_rank_codes(sample.sensitive), strict=True)
    ]


def run_planned_attacks(
    chosen: ChosenMechanism, sample: Sample, sensitive: SensitiveColumns, protected_targets: Sequence[Target]
) -> tuple[Attack, ...]:
    """Attacks by attackers who each know one public column, and by one who knows all of them.

    The attackers of `attack_scenarios` know the same columns but are not the same. Those here learn from all other
    people and use uncalibrated beliefs, because publishing stops at the strongest belief. Those there learn from other
    people and are calibrated: correct as often as they expect.
    """
    records = max(target.attacked_count for target in protected_targets)
    perturbed_records = draw_published_values(chosen, sensitive, sample.sensitive[:records], Draws.from_fresh_key())
    scenarios: list[tuple[str, tuple[str, ...]]] = [(ONE_COLUMN, (name,)) for name in sample.columns]
    scenarios += [(ALL_COLUMNS, tuple(sample.columns))] if len(sample.columns) > 1 else []

    def run_scenario(number: int, target: Target, scenario: str, names: tuple[str, ...]) -> Attack:
        return attack(scenario, names, target, partial(compute_value_likelihoods, chosen, perturbed_records, number))

    with ThreadPoolExecutor() as pool:  # numpy takes most of the time and releases the lock
        for target in protected_targets:
            _ = target.evidence  # all attacks need it
        attack_arguments = [
            (number, target, scenario, names)
            for number, target in enumerate(protected_targets)
            for scenario, names in scenarios
        ]
        return tuple(pool.map(run_scenario, *zip(*attack_arguments, strict=True)))


def attack(
    scenario: str,
    known_columns: tuple[str, ...],
    target: Target,
    compute_likelihoods: Callable[[Places], Floats | None],
) -> Attack:
    """The beliefs about the first records, by the columns alone and with their published values."""
    records, knowledge = target.attacked_count, target.learn(known_columns)
    sum_without, sum_with = BeliefSum(target.limits), BeliefSum(target.limits)
    for rows in split_into_chunks(records, target.size):
        beliefs, true_codes = knowledge.compute_beliefs(rows), target.true_codes[rows]
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
    """Draws published values; the records of one value are distributed over its slots as in the full table."""
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
    """A slot for each record below the count of its value, in random order; all slots if all records are here."""
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

    Accepted columns are measured only one by one: they are known to disclose, and so would every combination with them.
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
