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
from sfumato._core.cell_values import format_relative_error
from sfumato._figures.number_format import format_exact_percent, format_points, format_quantity
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
            return f"\u00d7{format_quantity(float(trial.bound.whole))}"
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

        return tuple(sorted((contender for contender in self.contenders if contender.is_possible), key=rank))

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
            contender
            for contender in self.contenders
            if contender.is_possible
            and not contender.stop
            and not self.is_weaker(contender.proposed)
            and contender.proposed.error is not None
            and contender.proposed.gain is not None
        ]
        by_gain = isinstance(self.aim, SameError)
        best: Contender | None = None
        for contender in able:
            if best is None or _is_better(contender.proposed, best.proposed, by_gain=by_gain):
                best = contender
        return best

    @property
    def knows(self) -> str:
        """What the attacker in question knows."""
        knowledge = [
            contender.attacks[self.attacker].knows
            for contender in self.contenders
            if self.attacker in contender.attacks
        ]
        return knowledge[0] if knowledge else "how frequent the values are"

    @property
    def recommendation(self) -> str:
        """The advice in words: for which attacker, which mechanism, and what the others would do."""
        return " ".join(_write_advice(self))

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
            "mechanisms": [_write_contender_json(self, item) for item in self.contenders],
            "baselines": [item.to_json() for item in self.baselines],
        }


def _is_better(one: Trial, other: Trial, *, by_gain: bool) -> bool:
    """Whether the first of two trials is to be preferred; both numbers are known."""
    gains, errors = (one.gain or 0.0, other.gain or 0.0), (one.error or 0.0, other.error or 0.0)
    is_same_gain = abs(gains[0] - gains[1]) <= SAME_GAIN
    is_same_error = abs(errors[0] - errors[1]) <= SAME_ERROR * max(errors)
    if by_gain:
        return errors[0] < errors[1] if is_same_gain else gains[0] < gains[1]
    return not is_same_gain and gains[0] < gains[1] if is_same_error else errors[0] < errors[1]


def _write_advice(comparison: Comparison) -> Sequence[str]:
    """Sentence by sentence."""
    best, who = comparison.recommended, f"somebody who knows {comparison.knows}"
    if best is None:
        return [
            f"For {who}, nothing is recommended: at {comparison.aim.words}, no mechanism that can be published "
            f"promises as much as was asked for ({comparison.guarantee}, posterior {comparison.bound.posterior}), with "
            "an error and a gain that are known. Ask for less, coarsen public columns, or look at larger counts.",
            *_list_absent(comparison),
        ]
    attack = best.attacks[comparison.attacker]
    right = None if attack.with_release is None else attack.with_release.right
    least = "gain" if isinstance(comparison.aim, SameError) else "error"
    sentences = [
        f"For {who}, {best.mechanism.name} is recommended (at {comparison.aim.words}): of the mechanisms that "
        f"promise as much as was asked for, it has the smallest {least}. Counts of {comparison.at:,} people are "
        f"typically off by {format_relative_error(best.proposed.error)}, and this attacker guesses "
        f"{format_exact_percent(right)} of the people right with the release, "
        f"{format_exact_percent(attack.without.right)} without it."
    ]
    others = [contender for contender in comparison.possible if contender is not best and not contender.stop]
    strong = [contender for contender in others if not comparison.is_weaker(contender.proposed)]
    kinder = [
        contender for contender in strong if contender.proposed.gain is not None and _has_less_gain(contender, best)
    ]
    if kinder:
        attack_text = (
            f"{contender.mechanism.name} (gain {format_points(contender.proposed.gain)}, error "
            f"{format_relative_error(contender.proposed.error)})"
            for contender in kinder
        )
        sentences.append(
            f"The attacker gains less with {_join_names(attack_text)}; {best.mechanism.name} has a gain of "
            f"{_gain(best)}."
        )
    weaker = [
        contender.mechanism.name
        for contender in others
        if comparison.is_weaker(contender.proposed) and _has_less_error(contender, best)
    ]
    if weaker:
        verb = "promises" if len(weaker) == 1 else "promise"
        have = "has a smaller error" if len(weaker) == 1 else "have smaller errors"
        sentences.append(f"{_join_names(weaker)} {have}, and {verb} less than was asked for.")
    if comparison.named is not None and comparison.named != best.mechanism.name:
        sentences.append(f"The request names {comparison.named}.")
    sentences += _list_absent(comparison)
    sentences.append(
        "Other attackers may gain more; which gain is acceptable is for the holder of the table to decide."
    )
    return sentences


def _list_absent(comparison: Comparison) -> list[str]:
    """Which mechanisms were not weighed, and why, so that nobody looks for one in vain."""
    stopped = [
        f"{contender.mechanism.name} ({contender.why_not})"
        for contender in comparison.contenders
        if contender.is_possible and contender.stop
    ]
    lacking = [
        f"{contender.mechanism.name} ({contender.why_not})"
        for contender in comparison.contenders
        if not contender.is_possible
    ]
    sentences = [f"Publishing would stop with {_join_names(stopped)}."] if stopped else []
    return [*sentences, *([f"Not possible here: {_join_names(lacking)}."] if lacking else [])]


def _has_less_gain(one: Contender, other: Contender) -> bool:
    return (one.proposed.gain or 0.0) < (other.proposed.gain or 0.0) - SAME_GAIN


def _has_less_error(one: Contender, other: Contender) -> bool:
    return one.proposed.error is not None and one.proposed.error < (other.proposed.error or 0.0)


def _gain(contender: Contender) -> str:
    return format_points(contender.proposed.gain)


def _join_names(names: Any) -> str:
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else str(last)


def _write_contender_json(comparison: Comparison, contender: Contender) -> dict[str, Any]:
    trial, name = contender.proposed, contender.mechanism.name
    contender_json = {"mechanism": name, "guarantee": contender.mechanism.guarantee, "possible": contender.is_possible}
    if trial.chosen is None or trial.spec is None:
        return {**contender_json, "reason": trial.refusal}
    return {
        **contender_json,
        "weaker_than_asked": comparison.is_weaker(trial),
        "would_stop": contender.stop or None,
        "setting": trial.spec.brief,
        "posterior": str(trial.bound.posterior),
        "proved": {
            "sentence": contender.mechanism.guarantee.sentence,
            "attackers": {letter: contender.proved(letter) for letter in contender.attacks},
        },
        "measured": {letter: attack.to_json() for letter, attack in contender.attacks.items()},
        "cost": {
            "error_at": trial.error,
            "relative_error": dict(trial.chosen.predicted),
            "bytes_a_record": contender.bytes,
            "planning_seconds": round(trial.seconds, 3),
        },
        "curve": [
            {
                "posterior": str(point.bound.posterior),
                "setting": None if point.spec is None else point.spec.brief,
                "gain": point.gain,
                "error": point.error,
                "weaker_than_asked": comparison.is_weaker(point),
            }
            for point in contender.curve
        ],
    }
