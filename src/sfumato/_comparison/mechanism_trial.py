"""Tries a mechanism at one bound, for its plan, its error of counts, and an attacker's gain. Nothing is published.

Published values are drawn with discarded keys, never with the key of a plan file.
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
from sfumato._request.belief_bounds import SEVERAL_ROWS_REASON, BreachBound, PrivacySpec
from sfumato._request.histogram import Histogram
from sfumato._risk.attackers.attack_result import Attack
from sfumato._risk.attackers.attack_scenarios import (
    attack_with_all_columns,
    attack_with_frequencies,
    attack_with_known_others,
    attack_with_release_alone,
    attack_with_worst_column,
)
from sfumato._risk.attackers.attack_setup import AttackSetup, make_draws, make_planned_setups
from sfumato._risk.attackers.attack_target import Target, make_targets
from sfumato.errors import InfeasibleError, MissingCapabilityError, SpecError
from sfumato.mechanisms.capabilities import Comparability
from sfumato.mechanisms.mechanism import AnyMechanism

MOST_LEARNED = 1 << 19
"""The largest product of records and values that attackers learn from.

It is a quarter of the limit for an audit, because an audit has only one trial.
"""

ATTACKERS: Mapping[str, Callable[[AttackSetup], Attack]] = {
    "F": attack_with_frequencies,
    "C": attack_with_worst_column,
    "P": attack_with_all_columns,
    "O": attack_with_known_others,
    "L": partial(attack_with_release_alone, most_learned=MOST_LEARNED),
}
"""The attackers by letter, least knowledge first, except that the last one has only the release."""


@dataclass(frozen=True, eq=False)
class Trial:
    """The result of trying a mechanism at a bound. Secret."""

    mechanism: AnyMechanism
    bound: BreachBound
    spec: PrivacySpec | None = None
    """The mechanism's own kind of request."""
    chosen_plan: ChosenMechanism | None = field(default=None, repr=False)
    refusal: str = ""
    """The reason why there is no plan, if there is none."""
    error: float | None = None
    """The standard error of a count of the given size, divided by the count, as the mean over values."""
    seconds: float = 0.0
    """The planning time, in seconds."""
    attack: Attack | None = None
    """The chosen attacker's result; None if it was not run, or has no result."""

    @property
    def gain(self) -> float | None:
        """The share of correct guesses with the release, minus the share without."""
        if self.attack is None or self.attack.with_release is None:
            return None
        return self.attack.with_release.success - self.attack.without_release.success

    @property
    def unlinked_gain(self) -> float | None:
        """The same gain if nobody knows which record is the person's; None if it was not measured."""
        if self.attack is None or self.attack.unlinked is None:
            return None
        return self.attack.unlinked.with_release.success - self.attack.unlinked.without_release.success


@dataclass(frozen=True, eq=False)
class TrialTable:
    """The records that attackers work on: the whole table, or a sample that is treated as a whole table.

    Treated as a whole table, a sample has whole groups. Attacks on parts of groups would show too little success.
    """

    sample: Sample
    sensitive: SensitiveColumns
    histogram: Histogram
    """The number of records of the whole table."""
    targets: Sequence[Target]
    seed: int

    @classmethod
    def of(cls, survey: TableScan, bound: BreachBound, seed: int) -> TrialTable:
        """Makes the table from the first reading. The attacks on it count beliefs above the bound."""
        sample = replace(survey.sample, total=survey.sample.records)
        return cls(sample, survey.sensitive, survey.histogram, make_targets(sample, survey.sensitive, bound), seed)

    def make_plan(self, trial: Trial, options: object) -> ChosenMechanism:
        """The plan of a trial for these records: the trial's own plan if they are the whole table."""
        if trial.chosen_plan is None:
            raise InfeasibleError(trial.refusal, code="no-plan")
        value_counts = np.bincount(self.sample.sensitive, minlength=self.histogram.domain_size)
        if int(value_counts.sum()) == self.histogram.total:
            return trial.chosen_plan
        sample_histogram = replace(self.histogram, counts=tuple(value_counts.tolist()))
        plan = trial.mechanism.plan(sample_histogram, trial.spec, options, make_draws(self.seed))
        return ChosenMechanism(trial.mechanism, plan, sample_histogram)

    def make_setups(self, chosen: ChosenMechanism) -> list[AttackSetup]:
        """Sets up the attacks on a possible release, which is drawn with a discarded key.

        Each protected column has one setup.
        """
        return make_planned_setups(chosen, self.sample, self.sensitive, self.targets, self.seed)


def run_attack(setups: Sequence[AttackSetup], letter: str) -> Attack:
    """Runs an attacker. Of several protected columns, the column with the largest gain counts."""
    attacks = [ATTACKERS[letter](setup) for setup in setups]
    return max(
        attacks,
        key=lambda attack: attack.final_success - attack.without_release.success,
    )


ONE_COLUMN = "the mechanism protects only one column, but the request protects several columns separately."


def plan_trial(
    mechanism: AnyMechanism, bound: BreachBound, request: Request, trial_table: TrialTable, at: int
) -> Trial:
    """Plans with a mechanism at a bound, with the mechanism's own kind of request and the given options.

    The error is for counts of `at` records.
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
    """The given options of a mechanism, or its defaults."""
    return request.options.get(mechanism.name) or mechanism.options()
