"""A mechanism at one bound: its plan, how far off counts are, and what an attacker gains. Nothing is published.

What records would show is drawn with keys that are thrown away, never with that of a plan file.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from sfumato._planning.predicted_error import ChosenMechanism
from sfumato._profile.record_sample import Sample
from sfumato._profile.table_scan import TableScan
from sfumato._publish.request import Request
from sfumato._records.column_codes import SensitiveColumns
from sfumato._request.histogram import Histogram
from sfumato._request.requirements import SEVERAL_ROWS_REASON, BreachBound, PrivacySpec
from sfumato._risk.attackers.attack_result import Attack
from sfumato._risk.attackers.attack_scenarios import (
    attack_with_all_columns,
    attack_with_frequencies,
    attack_with_known_others,
    attack_with_release_alone,
    attack_with_worst_column,
)
from sfumato._risk.attackers.attack_setup import AttackSetup, make_draws, make_planned_setups
from sfumato._risk.attackers.planned_exposure import Target, make_targets
from sfumato.errors import InfeasibleError, MissingCapabilityError, SpecError
from sfumato.mechanisms.capabilities import Comparability
from sfumato.mechanisms.mechanism import AnyMechanism

MOST_LEARNED = 1 << 19
"""Records times values that a release is learned from: a quarter of what an audit takes, because there are many."""

ATTACKERS: Mapping[str, Callable[[AttackSetup], Attack]] = {
    "F": attack_with_frequencies,
    "C": attack_with_worst_column,
    "P": attack_with_all_columns,
    "O": attack_with_known_others,
    "L": partial(attack_with_release_alone, most_learned=MOST_LEARNED),
}
"""The attackers by their letters, those who know least first; the last has the release and nothing else."""


@dataclass(frozen=True, eq=False)
class Trial:
    """What came of a mechanism at a bound. Secret."""

    mechanism: AnyMechanism
    bound: BreachBound
    spec: PrivacySpec | None = None
    """What the mechanism was asked, by its own kind of request."""
    chosen_plan: ChosenMechanism | None = field(default=None, repr=False)
    refusal: str = ""
    """Why there is no plan, where there is none."""
    error: float | None = None
    """The standard error of a count of the size in question, divided by the count; the mean over the values."""
    seconds: float = 0.0
    """How long planning took."""
    attack: Attack | None = None
    """What the attacker in question finds; None where it was not tried, or nothing is known of it."""

    @property
    def gain(self) -> float | None:
        """How many more people the attacker guesses right with the release, as a share of all."""
        if self.attack is None or self.attack.with_release is None:
            return None
        return self.attack.with_release.success - self.attack.without_release.success


@dataclass(frozen=True, eq=False)
class TrialTable:
    """The table as attackers see it: its records, or as many of them as are looked at, as if they were all.

    So that whole groups are there to be looked at: whoever sees a part of each would find less.
    """

    sample: Sample
    sensitive: SensitiveColumns
    histogram: Histogram
    """Of the whole table."""
    targets: Sequence[Target]
    seed: int

    @classmethod
    def of(cls, survey: TableScan, bound: BreachBound, seed: int) -> TrialTable:
        """From the first reading of a table; what is believed beyond the bound is counted."""
        sample = replace(survey.sample, total=survey.sample.records)
        return cls(sample, survey.sensitive, survey.histogram, make_targets(sample, survey.sensitive, bound), seed)

    def make_plan(self, trial: Trial, options: object) -> ChosenMechanism:
        """The plan of a trial for the records that are here: its own, where these are all."""
        if trial.chosen_plan is None:
            raise InfeasibleError(trial.refusal)
        value_counts = np.bincount(self.sample.sensitive, minlength=self.histogram.domain_size)
        if int(value_counts.sum()) == self.histogram.total:
            return trial.chosen_plan
        sample_histogram = replace(self.histogram, counts=tuple(value_counts.tolist()))
        plan = trial.mechanism.plan(sample_histogram, trial.spec, options, make_draws(self.seed))
        return ChosenMechanism(trial.mechanism, plan, sample_histogram)

    def make_setups(self, chosen: ChosenMechanism) -> list[AttackSetup]:
        """What would be published, drawn with a key that is thrown away; one for each protected column."""
        return make_planned_setups(chosen, self.sample, self.sensitive, self.targets, self.seed)


def run_attack(setups: Sequence[AttackSetup], letter: str) -> Attack:
    """What an attacker finds; of several protected columns the one of which it gains most."""
    attacks = [ATTACKERS[letter](setup) for setup in setups]
    return max(
        attacks,
        key=lambda attack: (attack.with_release or attack.without_release).success - attack.without_release.success,
    )


ONE_COLUMN = "it protects one column, and several are to be protected each for itself."


def plan_trial(
    mechanism: AnyMechanism, bound: BreachBound, request: Request, trial_table: TrialTable, at: int
) -> Trial:
    """Plan with a mechanism at a bound, by its own kind of request and with the options that were given.

    The error is that of counts of `at` records.
    """
    histogram = trial_table.histogram
    if bound.rows > 1 and not mechanism.covers_predicates:
        return Trial(mechanism, bound, refusal=SEVERAL_ROWS_REASON)
    if request.schema.is_independent and mechanism.several_columns is None:
        return Trial(mechanism, bound, refusal=ONE_COLUMN)
    try:
        spec = mechanism.require(Comparability).match_posterior(bound, histogram.values)
    except MissingCapabilityError as error:
        return Trial(mechanism, bound, refusal=str(error))
    start_time = time.monotonic()
    try:
        plan = mechanism.plan(histogram, spec, select_options(mechanism, request), make_draws(trial_table.seed))
    except (InfeasibleError, SpecError) as error:
        return Trial(mechanism, bound, spec, refusal=str(error))
    chosen, seconds = ChosenMechanism(mechanism, plan, histogram), time.monotonic() - start_time
    (count_error,) = chosen.predict_error_curve([at])
    return Trial(mechanism, bound, spec, chosen, error=count_error.evenly, seconds=seconds)


def select_options(mechanism: AnyMechanism, request: Request) -> object:
    """The options of a mechanism that were given, or its usual ones."""
    return request.options.get(mechanism.name) or mechanism.options()
