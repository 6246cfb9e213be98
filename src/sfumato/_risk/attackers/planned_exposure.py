"""What a release would add to what public columns tell: for its holder, before anything is published.

What records would show is drawn with a key that is thrown away, so that the look at it costs the release nothing.
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
"""Records times values of an attack, and the fewest records: of more, those are taken that come first by chance."""
CHUNK_BELIEFS = 1 << 18
SMALLEST = np.finfo(np.float64).tiny
FREQUENCIES, ONE_COLUMN, ALL_COLUMNS = "frequencies", "one column", "all columns"


@dataclass(frozen=True)
class Target:
    """One protected column: its name, what the records hold of it, and how far each value may be believed."""

    name: str
    true_codes: Codes
    limits: Floats
    columns: Mapping[str, Codes] = field(repr=False)
    """The public columns of the same records."""
    column_sizes: Mapping[str, int] = field(default_factory=dict, repr=False)
    """How many values columns have, where not all of them may be here."""

    @property
    def size(self) -> int:
        """How many values it has."""
        return len(self.limits)

    @property
    def attacked_count(self) -> int:
        """How many records are looked at."""
        return min(len(self.true_codes), max(LEAST_RECORDS, MOST_BELIEFS // self.size))

    @cached_property
    def shares(self) -> Floats:
        """The shares of its values."""
        return compute_smoothed_shares(self.true_codes, self.size)

    @cached_property
    def evidence(self) -> dict[str, ColumnEvidence]:
        """What each public column says of it."""
        shares = self.shares

        def count_evidence(name: str) -> ColumnEvidence:
            return ColumnEvidence.of(self.columns[name], self.true_codes, shares, self.column_sizes.get(name, 0))

        with ThreadPoolExecutor() as pool:
            return dict(zip(self.columns, pool.map(count_evidence, self.columns), strict=True))

    @cached_property
    def halves(self) -> tuple[Target, Target]:
        """The records of each half, by no order that a table may have."""
        heights = {name: int(codes.max(initial=0)) + 1 for name, codes in self.columns.items()}
        half_targets = []
        for rows in (np.flatnonzero(self.is_first), np.flatnonzero(~self.is_first)):
            columns = {name: codes[rows] for name, codes in self.columns.items()}
            half_targets.append(Target(self.name, self.true_codes[rows], self.limits, columns, heights))
        return half_targets[0], half_targets[1]

    @cached_property
    def belief_cache(self) -> dict[bytes, Callable[[Places], Floats]]:
        """What is believed of it by some of its records, for whoever attacks several releases of the same people."""
        return {}

    @cached_property
    def is_first(self) -> Mask:
        """Which records are in the first half: by a hash of their numbers."""
        return np.asarray(hash_numbers(np.arange(len(self.true_codes)), np.uint64(0)) & np.uint64(1), dtype=np.bool_)

    def learn_across_halves(self, known_columns: Sequence[str]) -> Callable[[Places], Floats]:
        """What somebody believes of the people of each half who knows some columns, and how they go in the other half.

        Where each record is left out by itself, a value that would be as likely as another is always a little less
        likely if it is the true one: whoever guesses would be wrong by that alone.
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
        """What somebody believes of it who knows some public columns."""
        return Knowledge.of([self.evidence[name] for name in known_columns], self.true_codes, self.shares)


def make_targets(sample: Sample, sensitive: SensitiveColumns, spec: PrivacySpec) -> list[Target]:
    """What is protected, column by column where each is protected for itself."""
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
    """Somebody who knows one public column of a person, each in its turn, and somebody who knows all of them.

    Not the attackers of `attack_scenarios`, although they know the same columns: these here learn from everybody but
    the person, and trust it to the letter, because publishing stops at the strongest belief; those are to be right as
    often as they believe, and learn from other people.
    """
    records = max(target.attacked_count for target in protected_targets)
    perturbed_records = draw_published_values(chosen, sensitive, sample.sensitive[:records], Draws.from_fresh_key())
    scenarios: list[tuple[str, tuple[str, ...]]] = [(ONE_COLUMN, (name,)) for name in sample.columns]
    scenarios += [(ALL_COLUMNS, tuple(sample.columns))] if len(sample.columns) > 1 else []

    def run_scenario(number: int, target: Target, scenario: str, names: tuple[str, ...]) -> Attack:
        return attack(scenario, names, target, partial(compute_value_likelihoods, chosen, perturbed_records, number))

    with ThreadPoolExecutor() as pool:  # numpy takes the time, and needs no lock
        for target in protected_targets:
            _ = target.evidence  # which all of them need
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
    """What is believed of the first records, by the columns alone and with how likely they would show what they do."""
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
    """How likely some records would show what they do from each value of one protected column, if that is known."""
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
    """How well a protected column is guessed from several columns together, by what is learned of each."""
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
    """Some rows after the other, as many as have few enough beliefs to be held at once."""
    step = max(1, CHUNK_BELIEFS // size)
    for first in range(0, records, step):
        yield np.arange(first, min(first + step, records))


def draw_published_values(
    chosen: ChosenMechanism, sensitive: SensitiveColumns, codes: Codes, draws: Draws
) -> PerturbedRecords:
    """What records would show; those of one value are spread over its slots as all of them would be."""
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
    """A slot for each record, below the count of its value: in random order, and all of them where all are here."""
    order = np.lexsort((draws.get_stream("order").draw_bits(0, len(codes)), codes))
    sample_counts = np.bincount(codes, minlength=len(counts))
    ranks = np.arange(len(codes)) - np.repeat(np.cumsum(sample_counts) - sample_counts, sample_counts)
    random_shares = draws.get_stream("place").draw_bits(0, len(codes)) / 2.0**64
    slots = np.empty(len(codes), dtype=np.int64)
    slot_positions = (ranks + random_shares) * np.repeat(counts / np.maximum(sample_counts, 1), sample_counts)
    slots[order] = np.minimum(slot_positions.astype(np.int64), np.repeat(counts, sample_counts) - 1)
    return slots


def measure_predictions(protected_targets: Sequence[Target], accepted: Sequence[str]) -> list[ColumnPrediction]:
    """How well each protected column is guessed from single columns, from two, and from all of them.

    What was accepted is guessed from alone: that it tells is known, and together with others it would always tell.
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
