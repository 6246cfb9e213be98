"""At which bound each mechanism is compared: at one posterior, one gain of an attacker, or one error of counts."""

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
"""What comes of one mechanism at a bound."""
WEAKEST = Fraction(99, 100)
"""The largest posterior that is looked at; asked for, it lets every smaller one be as strong as asked."""


class Aim(ABC):
    """What is the same for all mechanisms."""

    @abstractmethod
    def find_trial(self, bound: BreachBound, plan_trial: TrialRunner, attack_trial: TrialRunner) -> Trial:
        """The trial of a mechanism that meets the aim, with the prior of a bound; one with a refusal if none does.

        `planned` tells the error alone, and `attacked` what the attacker finds as well.
        """

    @property
    @abstractmethod
    def description(self) -> str:
        """What is the same, so that `compared at ...` can be said."""


@dataclass(frozen=True)
class SamePosterior(Aim):
    """The posterior that was asked for."""

    posterior: Fraction

    def find_trial(self, bound: BreachBound, plan_trial: TrialRunner, attack_trial: TrialRunner) -> Trial:
        """At the bound itself."""
        return attack_trial(bound)

    @property
    def description(self) -> str:
        """The posterior."""
        return f"one posterior, {self.posterior}"


@dataclass(frozen=True)
class SameGain(Aim):
    """As many more people are guessed right by the attacker, or a little fewer."""

    gain: float

    def find_trial(self, bound: BreachBound, plan_trial: TrialRunner, attack_trial: TrialRunner) -> Trial:
        """At the largest posterior of two digits with at most this gain: it grows with the posterior."""
        bounds = list_weaker_bounds(bound)

        def is_beyond(candidate: BreachBound) -> bool:  # where there is no plan, a larger posterior may have one
            gain = attack_trial(candidate).gain
            return gain is not None and gain > self.gain

        number = bisect_left(bounds, True, key=is_beyond)
        trial = attack_trial(bounds[max(number - 1, 0)])
        if trial.chosen_plan is not None and number:
            return trial
        refusal_text = f"no setting keeps the gain of this attacker within {format_points(self.gain)}."
        return replace(trial, chosen_plan=None, refusal=trial.refusal if number == len(bounds) else refusal_text)

    @property
    def description(self) -> str:
        """The gain."""
        return f"a gain of at most {format_points(self.gain)}"


@dataclass(frozen=True)
class SameError(Aim):
    """Counts of one size are at most so far off."""

    error: Fraction
    count_size: int

    def find_trial(self, bound: BreachBound, plan_trial: TrialRunner, attack_trial: TrialRunner) -> Trial:
        """At the smallest posterior of two digits with at most this error: it falls with the posterior."""
        bounds = list_weaker_bounds(bound)

        def is_within(candidate: BreachBound) -> bool:
            error = plan_trial(candidate).error
            return error is not None and error <= self.error

        number = bisect_left(bounds, True, key=is_within)
        if number < len(bounds):
            return attack_trial(bounds[number])
        last, refusal_text = plan_trial(bounds[-1]), f"no posterior up to {WEAKEST} has so small an error."
        return replace(last, chosen_plan=None, refusal=last.refusal or refusal_text)

    @property
    def description(self) -> str:
        """The error, and at which count."""
        return f"an error of at most {format_percent(float(self.error))} at counts of {self.count_size:,}"


def list_weaker_bounds(bound: BreachBound) -> list[BreachBound]:
    """The bounds with the same prior and every larger posterior of two digits that leaves something to be told."""
    bounds = []
    for posterior in list_two_digit_shares(bound.prior):
        with suppress(SpecError):
            bounds.append(BreachBound(bound.prior, posterior, bound.rows))
    return bounds


def list_bounds_around(bound: BreachBound, exponents: Sequence[float]) -> list[BreachBound]:
    """Bounds with the same prior, whose odds rise by powers of what they may rise by here; posteriors of two digits."""
    bounds = [bound]
    for exponent in exponents:
        odds = float(bound.person_amplification) ** exponent * float(bound.prior / (1 - bound.prior))
        posterior = min(parse_exact(f"{odds / (1 + odds):.2g}"), WEAKEST)
        with suppress(SpecError):
            bounds.append(BreachBound(bound.prior, posterior, bound.rows))
    return bounds
