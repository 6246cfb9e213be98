"""The results of a comparison: proved bounds, attack success and errors of each mechanism, with a recommendation.

The recommendation names its attacker. A recommendation never names a mechanism with a weaker guarantee than requested,
or one that `publish` would refuse.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from sfumato._comparison.comparison_baselines import Baseline
from sfumato._comparison.matching_criteria import Aim, SameError
from sfumato._comparison.mechanism_trial import Trial
from sfumato._core.cell_values import format_relative_error
from sfumato._core.json_types import Json
from sfumato._document.document import Document
from sfumato._figures.number_format import format_exact_percent, format_points, format_quantity
from sfumato._request.belief_bounds import BreachBound
from sfumato._request.guarantee import Guarantee
from sfumato._request.warnings import Notice
from sfumato._risk.attackers.attack_result import Attack
from sfumato.mechanisms.mechanism import AnyMechanism

SAME_ERROR, SAME_GAIN = 0.02, 0.005
"""Errors, or gains, that differ by less than this share count as equal."""
NO_BOUND = "none"


class Standing(StrEnum):
    """The standing of a mechanism in a comparison."""

    RECOMMENDED = "recommended"
    WEAKER = "weaker"
    """Can be used, with a weaker guarantee than requested."""
    REFUSED = "refused"
    """Can be planned, but publishing would be refused."""
    POSSIBLE = "possible"
    """Can be used, with the requested guarantee."""


@dataclass(frozen=True, eq=False)
class Contender:
    """One mechanism at the point where it meets the criterion. Secret."""

    mechanism: AnyMechanism
    trial: Trial
    """The trial that meets the criterion. If no trial does, this one has a reason and no plan."""
    curve: tuple[Trial, ...] = ()
    """The same mechanism at several posteriors, from small to large."""
    attacks: Mapping[str, Attack] = field(default_factory=dict)
    """The attacks, by their letters."""
    stop_reason: str = ""
    """The reason why publishing would be refused, if it would be."""
    record_bytes: float | None = None
    """The size of the protected column, in bytes per record."""

    @property
    def is_possible(self) -> bool:
        """Whether there is a plan."""
        return self.trial.chosen_plan is not None

    def describe_bound(self, letter: str) -> str:
        """The proved bound against an attacker: a factor on odds, a posterior, or none.

        A proved bound is never a measurement.
        """
        trial, guarantee = self.trial, self.mechanism.guarantee
        if trial.chosen_plan is None or trial.spec is None:
            return NO_BOUND
        if guarantee.is_for_everybody:
            return f"\u00d7{format_quantity(float(trial.bound.person_amplification))}"
        if letter != "F":
            return NO_BOUND
        return f"\u2264 {max(trial.spec.list_limits(trial.chosen_plan.histogram.values))}"


@dataclass(frozen=True, eq=False)
class Comparison:
    """All mechanisms under one criterion. Secret: it shows counts, and facts about people."""

    column: str
    """The protected column."""
    request_sentence: str
    """The request, in plain words."""
    bound: BreachBound
    """The requested bound, or an equally strict bound."""
    guarantee: Guarantee
    """The requested guarantee."""
    named_mechanism: str | None
    """The mechanism that the request names, if any."""
    aim: Aim
    attacker: str
    """The letter of the attacker whose gains are shown."""
    count_size: int
    """The count whose error is shown."""
    records: int
    """The number of attacked records."""
    total: int
    contenders: tuple[Contender, ...]
    baselines: tuple[Baseline, ...] = ()
    stops: tuple[Notice, ...] = ()
    """The open decisions that do not depend on the mechanism."""

    @property
    def possible_contenders(self) -> tuple[Contender, ...]:
        """The contenders with a plan. The recommended one is first, then equally strong ones by error, then others."""

        def rank(candidate: Contender) -> tuple[object, ...]:
            is_last = candidate.trial.error is None
            return (
                candidate is not self.recommended_contender,
                self.is_weaker(candidate.trial),
                is_last,
                candidate.trial.error or 0.0,
            )

        return tuple(sorted((contender for contender in self.contenders if contender.is_possible), key=rank))

    def is_weaker(self, trial: Trial) -> bool:
        """Whether a trial has a weaker guarantee than requested, by attackers covered or by increase of odds."""
        is_less_general = trial.mechanism.guarantee.is_weaker_than(self.guarantee)
        return is_less_general or trial.bound.amplification > self.bound.amplification

    def find_standing(self, contender: Contender) -> Standing:
        """Finds the standing of a possible mechanism."""
        if contender is self.recommended_contender:
            return Standing.RECOMMENDED
        if contender.stop_reason:
            return Standing.REFUSED
        return Standing.WEAKER if self.is_weaker(contender.trial) else Standing.POSSIBLE

    @property
    def recommended_contender(self) -> Contender | None:
        """The best contender with the requested guarantee, by error, or by gain at an equal error."""
        eligible = [
            contender
            for contender in self.contenders
            if contender.is_possible
            and not contender.stop_reason
            and not self.is_weaker(contender.trial)
            and contender.trial.error is not None
            and contender.trial.gain is not None
        ]
        by_gain = isinstance(self.aim, SameError)
        best: Contender | None = None
        for contender in eligible:
            if best is None or _is_better(contender.trial, best.trial, by_gain=by_gain):
                best = contender
        return best

    @property
    def knowledge(self) -> str:
        """The knowledge of the chosen attacker."""
        knowledge = [
            contender.attacks[self.attacker].knowledge
            for contender in self.contenders
            if self.attacker in contender.attacks
        ]
        return knowledge[0] if knowledge else "the frequencies of values"

    @property
    def recommendation(self) -> str:
        """The recommendation in words, with the attacker, the mechanism, and a comparison with other mechanisms."""
        return " ".join(_write_advice(self))

    def document(self) -> Document:
        """Makes the document of the comparison. Private."""
        from sfumato._comparison.comparison_document import make_comparison_document  # noqa: PLC0415 - a cycle

        return make_comparison_document(self)

    def to_json(self) -> Json:
        """The comparison as JSON."""
        best = self.recommended_contender
        return {
            "asked": {
                "sentence": self.request_sentence,
                "guarantee": self.guarantee,
                "mechanism": self.named_mechanism,
                **self.bound.to_json(),
            },
            "aim": self.aim.description,
            "attacker": {"letter": self.attacker, "knows": self.knowledge},
            "at": self.count_size,
            "records": self.records,
            "total": self.total,
            "recommended": None if best is None else best.mechanism.name,
            "recommendation": self.recommendation,
            "mechanisms": [_write_contender_json(self, item) for item in self.contenders],
            "baselines": [item.to_json() for item in self.baselines],
            "stops": [stop.to_json() for stop in self.stops],
        }


def pair_gains(one: Trial, other: Trial) -> tuple[float, float]:
    """The gains of an attacker under two mechanisms that can be compared.

    If a mechanism publishes counts, nobody has a record. In a comparison with such a mechanism, the attacker does not
    know the person's record under the other mechanism either. A known record would make counts look as if they
    disclosed less.
    """
    has_counts = any(trial.mechanism.crowd_counts is not None for trial in (one, other))
    if has_counts and one.unlinked_gain is not None and other.unlinked_gain is not None:
        return one.unlinked_gain, other.unlinked_gain
    return one.gain or 0.0, other.gain or 0.0


def _is_better(one: Trial, other: Trial, *, by_gain: bool) -> bool:
    """Whether the first of two trials is better. The compared numbers of both are known."""
    gains, errors = pair_gains(one, other), (one.error or 0.0, other.error or 0.0)
    is_same_gain = abs(gains[0] - gains[1]) <= SAME_GAIN
    is_same_error = abs(errors[0] - errors[1]) <= SAME_ERROR * max(errors)
    if by_gain:
        return errors[0] < errors[1] if is_same_gain else gains[0] < gains[1]
    return not is_same_gain and gains[0] < gains[1] if is_same_error else errors[0] < errors[1]


def _write_advice(comparison: Comparison) -> Sequence[str]:
    """Writes the recommendation, sentence by sentence."""
    best, who = comparison.recommended_contender, f"an attacker who knows {comparison.knowledge}"
    if best is None:
        return [
            f"No mechanism is recommended against {who} (at {comparison.aim.description}). No mechanism with the "
            f"requested guarantee ({comparison.guarantee}, posterior {comparison.bound.posterior}) may be published "
            "and "
            "has a known error and gain. Request a weaker guarantee, coarsen public columns, or choose larger counts.",
            *_list_absent(comparison),
        ]
    attack = best.attacks[comparison.attacker]
    right = None if attack.with_release is None else attack.with_release.success
    least = "gain" if isinstance(comparison.aim, SameError) else "error"
    sentences = [
        f"Use {best.mechanism.name} against {who} (at {comparison.aim.description}). It has the smallest {least} of "
        f"the mechanisms with the requested guarantee. Counts of {comparison.count_size:,} people are typically "
        f"off by {format_relative_error(best.trial.error)}. This attacker guesses the values of "
        f"{format_exact_percent(attack.without_release.success)} of people correctly without the release, and of "
        f"{format_exact_percent(right)} with the release."
    ]
    others = [
        contender for contender in comparison.possible_contenders if contender is not best and not contender.stop_reason
    ]
    strong_contenders = [contender for contender in others if not comparison.is_weaker(contender.trial)]
    safer_contenders = [
        contender
        for contender in strong_contenders
        if contender.trial.gain is not None and _has_less_gain(contender, best)
    ]
    if safer_contenders:
        attack_text = (
            f"{contender.mechanism.name} ({_describe_gains(contender, best)}, error "
            f"{format_relative_error(contender.trial.error)})"
            for contender in safer_contenders
        )
        sentences.append(f"The attacker gains less under {_join_names(attack_text)}.")
    weaker_names = [
        contender.mechanism.name
        for contender in others
        if comparison.is_weaker(contender.trial) and _has_less_error(contender, best)
    ]
    if weaker_names:
        have = "has a smaller error" if len(weaker_names) == 1 else "have smaller errors"
        sentences.append(f"{_join_names(weaker_names)} {have}, but a weaker guarantee than requested.")
    if comparison.named_mechanism is not None and comparison.named_mechanism != best.mechanism.name:
        sentences.append(f"The request names {comparison.named_mechanism}.")
    sentences += _list_absent(comparison)
    sentences.append("Other attackers may gain more; the data steward decides which gain is acceptable.")
    return sentences


def _list_absent(comparison: Comparison) -> list[str]:
    """Names the mechanisms that were not considered. The document gives the reasons."""
    stopped_names = [
        contender.mechanism.name
        for contender in comparison.contenders
        if contender.is_possible and contender.stop_reason
    ]
    infeasible_names = [contender.mechanism.name for contender in comparison.contenders if not contender.is_possible]
    sentences = [f"publish would refuse: {_join_names(stopped_names)}."] if stopped_names else []
    return [*sentences, *([f"Not possible here: {_join_names(infeasible_names)}."] if infeasible_names else [])]


def _has_less_gain(one: Contender, other: Contender) -> bool:
    gain, other_gain = pair_gains(one.trial, other.trial)
    return gain < other_gain - SAME_GAIN


def _has_less_error(one: Contender, other: Contender) -> bool:
    return one.trial.error is not None and one.trial.error < (other.trial.error or 0.0)


def _describe_gains(contender: Contender, best: Contender) -> str:
    """Describes the gains under two mechanisms, both with or both without a known record."""
    gain, other_gain = pair_gains(contender.trial, best.trial)
    is_unlinked = (gain, other_gain) == (contender.trial.unlinked_gain, best.trial.unlinked_gain)
    condition = " if the person's own record is unknown" if is_unlinked else ""
    return f"gain {format_points(gain)} instead of {format_points(other_gain)}{condition}"


def _join_names(names: Iterable[str]) -> str:
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else str(last)


def _write_contender_json(comparison: Comparison, contender: Contender) -> Json:
    trial, name = contender.trial, contender.mechanism.name
    contender_json = {"mechanism": name, "guarantee": contender.mechanism.guarantee, "possible": contender.is_possible}
    if trial.chosen_plan is None or trial.spec is None:
        return {**contender_json, "reason": trial.refusal}
    return {
        **contender_json,
        "weaker_than_asked": comparison.is_weaker(trial),
        "would_stop": contender.stop_reason or None,
        "setting": trial.spec.summary,
        "posterior": str(trial.bound.posterior),
        "proved": {
            "sentence": contender.mechanism.guarantee.sentence,
            "attackers": {letter: contender.describe_bound(letter) for letter in contender.attacks},
        },
        "measured": {letter: attack.to_json() for letter, attack in contender.attacks.items()},
        "cost": {
            "error_at": trial.error,
            "relative_error": dict(trial.chosen_plan.predicted_errors),
            "bytes_a_record": contender.record_bytes,
            "planning_seconds": round(trial.seconds, 3),
        },
        "curve": [
            {
                "posterior": str(point.bound.posterior),
                "setting": None if point.spec is None else point.spec.summary,
                "gain": point.gain,
                "error": point.error,
                "weaker_than_asked": comparison.is_weaker(point),
            }
            for point in contender.curve
        ],
    }
