"""What a comparison found of each mechanism: what is proved, what attackers find, what it costs; and a word of advice.

Advice names the attacker that it is for. A mechanism that promises less than was asked for is never advised, nor is one
whose release would be stopped.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sfumato._comparison.comparison_baselines import Baseline
from sfumato._comparison.matching_criteria import Aim, SameError
from sfumato._comparison.mechanism_trial import Trial
from sfumato._core.cell_values import off_by
from sfumato._figures.number_format import percent_exactly, points, quantity
from sfumato._request.guarantee import Guarantee
from sfumato._request.requirements import BreachBound
from sfumato._risk.attackers.attack_result import Attack
from sfumato.mechanisms.mechanism import AnyMechanism

SAME_ERROR, SAME_GAIN = 0.02, 0.005
"""Errors that differ by less than this part, and gains by less than this, are the same."""
NO_BOUND = "none"
POSSIBLE = "could be taken too"


@dataclass(frozen=True, eq=False)
class Contender:
    """One mechanism, where it meets the aim. Secret."""

    mechanism: AnyMechanism
    proposed: Trial
    """Where it meets the aim; without a plan, and with a reason, where it does not."""
    curve: tuple[Trial, ...] = ()
    """The same mechanism at several posteriors, from small to large."""
    attacks: Mapping[str, Attack] = field(default_factory=dict)
    """What attackers find, by their letters."""
    stop: str = ""
    """Why publishing it would stop, where it would."""
    bytes: float | None = None
    """How much room what is protected takes, for each record."""

    @property
    def is_possible(self) -> bool:
        """Whether there is a plan."""
        return self.proposed.chosen is not None

    @property
    def why_not(self) -> str:
        """Why it cannot be taken, where it cannot: in few words, without what could be done about it."""
        if self.is_possible and not self.stop:
            return ""
        return re.split(r"[;:] ", self.stop or self.proposed.refusal, maxsplit=1)[0].removesuffix(".")

    def proved(self, letter: str) -> str:
        """What is proved of an attacker: how far odds rise at most, or a belief; or that nothing is. Never measured."""
        trial, guarantee = self.proposed, self.mechanism.guarantee
        if trial.chosen is None or trial.spec is None:
            return NO_BOUND
        if guarantee.is_for_everybody:
            return f"\u00d7{quantity(float(trial.bound.whole))}"
        if letter != "F":
            return NO_BOUND
        return f"\u2264 {max(trial.spec.limits(trial.chosen.histogram.values))}"


@dataclass(frozen=True, eq=False)
class Comparison:
    """Every mechanism at one aim. Secret: it shows counts, and what can be learned about people."""

    asked: str
    """The request, in plain words."""
    bound: BreachBound
    """The bound that was asked for, or the one that asks for as much."""
    guarantee: Guarantee
    """Against whom it was asked to hold."""
    named: str | None
    """The mechanism that the request names, if it does."""
    aim: Aim
    attacker: str
    """The letter of the attacker that gains are told of."""
    at: int
    """The count whose error is told."""
    records: int
    """How many records attackers were let at."""
    total: int
    contenders: tuple[Contender, ...]
    baselines: tuple[Baseline, ...] = ()

    @property
    def possible(self) -> tuple[Contender, ...]:
        """Those that have a plan; the recommended one first, then as strong ones, the least error first."""

        def rank(each: Contender) -> tuple[Any, ...]:
            is_last = each.proposed.error is None
            return each is not self.recommended, self.is_weaker(each.proposed), is_last, each.proposed.error or 0.0

        return tuple(sorted((each for each in self.contenders if each.is_possible), key=rank))

    def is_weaker(self, trial: Trial) -> bool:
        """Whether a trial promises less than was asked for: against fewer people, or more of a rise."""
        less = trial.mechanism.guarantee.is_weaker_than(self.guarantee)
        return less or trial.bound.amplification > self.bound.amplification

    def standing(self, each: Contender) -> str:
        """What to know of a mechanism before its numbers are read, in few words."""
        if each is self.recommended:
            return "recommended"
        if each.stop:
            return "publishing would stop"
        return "promises less than was asked for" if self.is_weaker(each.proposed) else POSSIBLE

    @property
    def recommended(self) -> Contender | None:
        """Of those that promise what was asked for, the one of the least error; or of the least gain at one error."""
        able = [
            each
            for each in self.contenders
            if each.is_possible
            and not each.stop
            and not self.is_weaker(each.proposed)
            and each.proposed.error is not None
            and each.proposed.gain is not None
        ]
        by_gain = isinstance(self.aim, SameError)
        best: Contender | None = None
        for each in able:
            if best is None or _is_better(each.proposed, best.proposed, by_gain=by_gain):
                best = each
        return best

    @property
    def knows(self) -> str:
        """What the attacker in question knows."""
        found = [each.attacks[self.attacker].knows for each in self.contenders if self.attacker in each.attacks]
        return found[0] if found else "how frequent the values are"

    @property
    def recommendation(self) -> str:
        """The advice in words: for which attacker, which mechanism, and what the others would do."""
        return " ".join(_advice(self))

    def to_json(self) -> dict[str, Any]:
        """For machines."""
        best = self.recommended
        return {
            "asked": {
                "sentence": self.asked,
                "guarantee": self.guarantee,
                "mechanism": self.named,
                **self.bound.to_json(),
            },
            "aim": self.aim.words,
            "attacker": {"letter": self.attacker, "knows": self.knows},
            "at": self.at,
            "records": self.records,
            "total": self.total,
            "recommended": None if best is None else best.mechanism.name,
            "recommendation": self.recommendation,
            "mechanisms": [_contender_json(self, each) for each in self.contenders],
            "baselines": [each.to_json() for each in self.baselines],
        }


def _is_better(one: Trial, other: Trial, *, by_gain: bool) -> bool:
    """Whether the first of two trials is to be preferred; both numbers are known."""
    gains, errors = (one.gain or 0.0, other.gain or 0.0), (one.error or 0.0, other.error or 0.0)
    is_same_gain = abs(gains[0] - gains[1]) <= SAME_GAIN
    is_same_error = abs(errors[0] - errors[1]) <= SAME_ERROR * max(errors)
    if by_gain:
        return errors[0] < errors[1] if is_same_gain else gains[0] < gains[1]
    return not is_same_gain and gains[0] < gains[1] if is_same_error else errors[0] < errors[1]


def _advice(made: Comparison) -> Sequence[str]:
    """Sentence by sentence."""
    best, who = made.recommended, f"somebody who knows {made.knows}"
    if best is None:
        return [
            f"For {who}, nothing is recommended: at {made.aim.words}, no mechanism that can be published promises as "
            f"much as was asked for ({made.guarantee}, posterior {made.bound.posterior}), with an error and a gain "
            "that are known. Ask for less, coarsen public columns, or look at larger counts.",
            *_absent(made),
        ]
    attack = best.attacks[made.attacker]
    right = None if attack.with_release is None else attack.with_release.right
    least = "gain" if isinstance(made.aim, SameError) else "error"
    said = [
        f"For {who}, {best.mechanism.name} is recommended (at {made.aim.words}): of the mechanisms that promise as "
        f"much as was asked for, it has the smallest {least}. Counts of {made.at:,} people are typically off by "
        f"{off_by(best.proposed.error)}, and this attacker guesses {percent_exactly(right)} of the people right with "
        f"the release, {percent_exactly(attack.without.right)} without it."
    ]
    others = [each for each in made.possible if each is not best and not each.stop]
    strong = [each for each in others if not made.is_weaker(each.proposed)]
    kinder = [each for each in strong if each.proposed.gain is not None and _gains_less(each, best)]
    if kinder:
        told = (
            f"{each.mechanism.name} (gain {points(each.proposed.gain)}, error {off_by(each.proposed.error)})"
            for each in kinder
        )
        said.append(f"The attacker gains less with {_listed(told)}; {best.mechanism.name} has a gain of {_gain(best)}.")
    weaker = [each.mechanism.name for each in others if made.is_weaker(each.proposed) and _errs_less(each, best)]
    if weaker:
        verb = "promises" if len(weaker) == 1 else "promise"
        have = "has a smaller error" if len(weaker) == 1 else "have smaller errors"
        said.append(f"{_listed(weaker)} {have}, and {verb} less than was asked for.")
    if made.named is not None and made.named != best.mechanism.name:
        said.append(f"The request names {made.named}.")
    said += _absent(made)
    said.append("Other attackers may gain more; which gain is acceptable is for the holder of the table to decide.")
    return said


def _absent(made: Comparison) -> list[str]:
    """Which mechanisms were not weighed, and why, so that nobody looks for one in vain."""
    stopped = [f"{each.mechanism.name} ({each.why_not})" for each in made.contenders if each.is_possible and each.stop]
    lacking = [f"{each.mechanism.name} ({each.why_not})" for each in made.contenders if not each.is_possible]
    said = [f"Publishing would stop with {_listed(stopped)}."] if stopped else []
    return [*said, *([f"Not possible here: {_listed(lacking)}."] if lacking else [])]


def _gains_less(one: Contender, other: Contender) -> bool:
    return (one.proposed.gain or 0.0) < (other.proposed.gain or 0.0) - SAME_GAIN


def _errs_less(one: Contender, other: Contender) -> bool:
    return one.proposed.error is not None and one.proposed.error < (other.proposed.error or 0.0)


def _gain(each: Contender) -> str:
    return points(each.proposed.gain)


def _listed(names: Any) -> str:
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else str(last)


def _contender_json(made: Comparison, each: Contender) -> dict[str, Any]:
    trial, name = each.proposed, each.mechanism.name
    known = {"mechanism": name, "guarantee": each.mechanism.guarantee, "possible": each.is_possible}
    if trial.chosen is None or trial.spec is None:
        return {**known, "reason": trial.refusal}
    return {
        **known,
        "weaker_than_asked": made.is_weaker(trial),
        "would_stop": each.stop or None,
        "setting": trial.spec.brief,
        "posterior": str(trial.bound.posterior),
        "proved": {
            "sentence": each.mechanism.guarantee.sentence,
            "attackers": {letter: each.proved(letter) for letter in each.attacks},
        },
        "measured": {letter: attack.to_json() for letter, attack in each.attacks.items()},
        "cost": {
            "error_at": trial.error,
            "relative_error": dict(trial.chosen.predicted),
            "bytes_a_record": each.bytes,
            "planning_seconds": round(trial.seconds, 3),
        },
        "curve": [
            {
                "posterior": str(point.bound.posterior),
                "setting": None if point.spec is None else point.spec.brief,
                "gain": point.gain,
                "error": point.error,
                "weaker_than_asked": made.is_weaker(point),
            }
            for point in each.curve
        ],
    }
