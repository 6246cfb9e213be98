"""The criteria of a comparison: an equal posterior, an equal gain of an attacker, or an equal error of counts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction

from sfumato._comparison.mechanism_trial import Trial
from sfumato._core.exact_numbers import parse_exact
from sfumato._figures.number_format import format_percent, format_points
from sfumato._planning.bound_for_error import list_two_digit_shares
from sfumato._request.belief_bounds import BreachBound
from sfumato.errors import SpecError

TrialRunner = Callable[[BreachBound], Trial]
"""The function that tries a mechanism at a bound."""
WEAKEST = Fraction(99, 100)
"""The largest posterior that is tried."""


class Aim(ABC):
    """The criterion that is equal for all mechanisms."""

    @abstractmethod
    def find_trial(self, bound: BreachBound, plan_trial: TrialRunner, attack_trial: TrialRunner) -> Trial:
        """Finds the trial that meets the criterion, with the prior of a bound.

        If no trial meets the criterion, the returned trial states the reason.

        `planned` computes only the error of a trial. `attacked` also computes the attack success.
        """

    @property
    @abstractmethod
    def description(self) -> str:
        """The criterion as a phrase, to complete `compared at ...`."""


@dataclass(frozen=True)
class SamePosterior(Aim):
    """The requested posterior."""

    posterior: Fraction

    def find_trial(self, bound: BreachBound, plan_trial: TrialRunner, attack_trial: TrialRunner) -> Trial:
        """Tries the bound itself."""
        return attack_trial(bound)

    @property
    def description(self) -> str:
        """Names the posterior."""
        return f"one posterior, {self.posterior}"


@dataclass(frozen=True)
class SameGain(Aim):
    """An equal gain of the attacker, or a slightly smaller gain."""

    gain: float

    def find_trial(self, bound: BreachBound, plan_trial: TrialRunner, attack_trial: TrialRunner) -> Trial:
        """Finds the largest two-digit posterior with at most this gain. The gain grows with the posterior."""
        bounds = list_weaker_bounds(bound)

        def is_beyond(candidate: BreachBound) -> bool:  # a larger posterior may have a plan even if this one has none
            gain = attack_trial(candidate).gain
            return gain is not None and gain > self.gain

        number = bisect_left(bounds, True, key=is_beyond)
        trial = attack_trial(bounds[max(number - 1, 0)])
        if trial.chosen_plan is not None and number:
            return trial
        refusal_text = f"no setting keeps this attacker's gain within {format_points(self.gain)}."
        return replace(trial, chosen_plan=None, refusal=trial.refusal if number == len(bounds) else refusal_text)

    @property
    def description(self) -> str:
        """Names the gain."""
        return f"a gain of at most {format_points(self.gain)}"


@dataclass(frozen=True)
class SameError(Aim):
    """An error of at most this share, for counts of one size."""

    error: Fraction
    count_size: int

    def find_trial(self, bound: BreachBound, plan_trial: TrialRunner, attack_trial: TrialRunner) -> Trial:
        """Finds the smallest two-digit posterior with at most this error. The error falls with the posterior."""
        bounds = list_weaker_bounds(bound)

        def is_within(candidate: BreachBound) -> bool:
            error = plan_trial(candidate).error
            return error is not None and error <= self.error

        number = bisect_left(bounds, True, key=is_within)
        if number < len(bounds):
            return attack_trial(bounds[number])
        last, refusal_text = plan_trial(bounds[-1]), f"no posterior up to {WEAKEST} gives an error this small."
        return replace(last, chosen_plan=None, refusal=last.refusal or refusal_text)

    @property
    def description(self) -> str:
        """Names the error and its count."""
        return f"an error of at most {format_percent(float(self.error))} at counts of {self.count_size:,}"


def list_weaker_bounds(bound: BreachBound) -> list[BreachBound]:
    """Lists the bounds with the same prior and each larger two-digit posterior below 1."""
    bounds = []
    for posterior in list_two_digit_shares(bound.prior):
        with suppress(SpecError):
            bounds.append(BreachBound(bound.prior, posterior, bound.rows))
    return bounds


def list_bounds_around(bound: BreachBound, exponents: Sequence[float]) -> list[BreachBound]:
    """Lists bounds with the same prior, whose odds factors are powers of the given one. Posteriors have two digits."""
    bounds = [bound]
    for exponent in exponents:
        odds = float(bound.person_amplification) ** exponent * float(bound.prior / (1 - bound.prior))
        posterior = min(parse_exact(f"{odds / (1 + odds):.2g}"), WEAKEST)
        with suppress(SpecError):
            bounds.append(BreachBound(bound.prior, posterior, bound.rows))
    return bounds
