"""Named attackers, each right so often without the release and so often with it: the one axis that is the same for all.

F knows how frequent the values are; C the public column of a person that tells most beside the release; P all public
columns; O all of them and the true values of a share of the others; D all of them and a second release of the same
people; L has the release and nothing else. All but L know the original, of each half of the people what the other half
tells, which is as much as such columns can tell anybody; what L learns, it learns from the release, and its control is
what that teaches about people of whom the release has no record.

What is shown before publishing (`planned_exposure.run_planned_attacks`) is not made by these: it looks for the
strongest belief that a column allows, and these for how often somebody is right.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from sfumato._core.arrays import Codes, Floats, Mask, Places
from sfumato._core.cell_values import Value
from sfumato._core.exact_numbers import parse_exact
from sfumato._core.small_text_files import match_to_domain, read_value_entries
from sfumato._figures.attack_success import describe_known_columns
from sfumato._profile.equivalence_classes import hash_numbers
from sfumato._records.tally import Holdings
from sfumato._risk.attackers.attack_result import Attack, Belief, BeliefSum
from sfumato._risk.attackers.attack_setup import AttackSetup
from sfumato._risk.attackers.belief_calibration import Believing, calibrate_beliefs
from sfumato._risk.attackers.naive_bayes import Beliefs, learn_best_round, learn_from_buckets, predict_others
from sfumato._risk.attackers.planned_exposure import ALL_COLUMNS, FREQUENCIES, ONE_COLUMN, SMALLEST, Target
from sfumato.errors import SpecError

OTHERS, TWO_RELEASES, RELEASE_ALONE, OWN_BELIEF = "others", "two releases", "release alone", "own belief"
KNOWN_SHARE, KNOWN_SHARES = 0.2, (0.0, 0.1, 0.2, 0.4, 0.6, 0.8)
ROUNDS = 10
MOST_LEARNED = 1 << 21
"""Records times values that a release is learned from, where every record may have any value."""


def run_attack_scenarios(
    scene: AttackSetup, again: AttackSetup | None = None, *, known_share: float = KNOWN_SHARE
) -> tuple[Attack, ...]:
    """All attackers, those who know least first; with what a second release shows of the same people, if there is one.

    Somebody who knows public columns is left out where there are none.
    """
    attack_results = [attack_with_frequencies(scene)]
    if scene.target.columns:
        attack_results += [
            attack_with_worst_column(scene),
            attack_with_all_columns(scene),
            attack_with_known_others(scene, known_share),
        ]
        attack_results += [] if again is None else [attack_with_two_releases(scene, again)]
        attack_results.append(release_alone(scene))
    return tuple(attack_results)


def attack_with_frequencies(scene: AttackSetup) -> Attack:
    """F: whoever knows how frequent the values are."""
    return _attack(scene, FREQUENCIES, (), scene.target.known(()).beliefs)


def attack_with_worst_column(scene: AttackSetup) -> Attack:
    """C: whoever knows the public column that makes most guesses right, with the release if its law is known."""
    tried = attack_with_each_column(scene)
    if not tried:
        raise SpecError("there is no public column that somebody could know.")
    return max(tried, key=lambda attack: (attack.with_release or attack.without).right)


def attack_with_each_column(scene: AttackSetup) -> tuple[Attack, ...]:
    """Whoever knows one public column of a person, each in its turn."""
    names = scene.target.columns
    return tuple(_attack(scene, ONE_COLUMN, (name,), scene.target.held_out((name,))) for name in names)


def attack_with_all_columns(scene: AttackSetup) -> Attack:
    """P: whoever knows all public columns, and trusts what they say as far as it was right of others."""
    return _attack(scene, ALL_COLUMNS, tuple(scene.target.columns), _compute_calibrated_beliefs(scene))


def attack_with_known_others(scene: AttackSetup, share: float = KNOWN_SHARE) -> Attack:
    """O: the same with the true values of a share of the others, drawn by chance; who is known is not attacked.

    Those of a group who are known leave it, with their values. Where what a record shows does not depend on others, it
    is weighed as before.
    """
    if not 0 <= share < 1:
        raise SpecError(f"a share of {share} of the others cannot be known; name one from 0 on and below 1.")
    random_bits = scene.draws.stream("others").words(0, len(scene.target.held))
    is_known: Mask = random_bits < np.uint64(int(share * 2**64))
    rows = scene.rows[~is_known[scene.rows]]
    attacker_columns = tuple(scene.target.columns)
    knows = f"{describe_known_columns(attacker_columns)} and the values of {share:.0%} of the others"
    return _attack(replace(scene, rows=rows), OTHERS, attacker_columns, _compute_calibrated_beliefs(scene), knows)


def attack_with_two_releases(scene: AttackSetup, again: AttackSetup) -> Attack:
    """D: the same with two releases that were drawn independently."""
    if not np.array_equal(scene.target.held, again.target.held):
        raise SpecError("the two releases are not of the same people; name two releases of one table.")

    def after(beliefs: Floats, rows: Places) -> Floats | None:
        once, likely = scene.after(beliefs, rows), again.likely(rows)
        if once is None or likely is None:
            return None
        weighed = once * likely
        return np.asarray(weighed / np.maximum(weighed.sum(axis=1, keepdims=True), SMALLEST))

    attacker_columns = tuple(scene.target.columns)
    knows = f"{describe_known_columns(attacker_columns)} and a second release"
    return _attack(scene, TWO_RELEASES, attacker_columns, _compute_calibrated_beliefs(scene), knows, after)


def measure_by_known_share(
    scene: AttackSetup, shares: Sequence[float] = KNOWN_SHARES
) -> tuple[tuple[float, float | None], ...]:
    """How often O is right with the release, by the share of the others whose values are known: for a figure."""
    beliefs_by_share = [(share, attack_with_known_others(scene, share).with_release) for share in shares]
    return tuple((share, None if belief is None else belief.right) for share, belief in beliefs_by_share)


def attack_with_own_belief(scene: AttackSetup, prior: Mapping[Value, float] | Path, domain: Sequence[Value]) -> Attack:
    """Whoever believes of everybody what was given: a part of the whole for each value, or a CSV of `value,share`."""
    if isinstance(prior, Path):
        prior = {
            value: float(parse_exact(row["share"], "a share"))
            for value, row in read_value_entries(prior, ["share"]).items()
        }
    given_shares = match_to_domain(prior, domain, "share")
    parts = np.array([0.0 if part is None else part for part in given_shares])
    if not np.isfinite(parts).all() or (parts < 0).any() or not parts.sum() > 0:
        raise SpecError("a belief is made of parts of a whole: numbers from 0 on, and not all of them 0.")
    share = parts / parts.sum()
    return _attack(scene, OWN_BELIEF, (), lambda rows: np.tile(share, (len(rows), 1)), "what you believe")


def release_alone(scene: AttackSetup, rounds: int = ROUNDS, most_learned: int = MOST_LEARNED) -> Attack:
    """L: whoever has the release and nothing else, and learns from it how public columns go with values.

    The control: the same learned from one half of the records about the people of the other one, of whom only public
    columns are looked at.
    """
    target, groups = scene.target, scene.groups
    baseline = _attack(scene, RELEASE_ALONE, (), target.known(()).beliefs, "nothing but the release")
    columns = [codes.astype(np.int64) for codes in target.columns.values()]
    if baseline.with_release is None or not columns:
        return baseline
    rows = np.argsort(hash_numbers(np.arange(len(target.held)), np.uint64(1)))  # in no order that a table may have
    rows = rows[: most_learned // target.size] if groups is None else rows

    def learn(rows: Places) -> Beliefs:
        met = [column[rows] for column in columns]
        if groups is None:
            likely = scene.likely(rows)
            return learn_best_round(np.ones((len(rows), target.size)) if likely is None else likely, met, rounds)
        _, numbers = np.unique(groups[rows], return_inverse=True)
        return learn_from_buckets(numbers, count_group_values(numbers, target.held[rows], target.size), met, rounds)

    is_taught = target.is_first[rows] if groups is None else groups[rows] % 2 == 0  # groups stay whole
    one, other = rows[is_taught], rows[~is_taught]
    control = None
    if len(one) > 1 and len(other):
        general = predict_others(learn(one), [column[one] for column in columns], [column[other] for column in columns])
        control = _summarize_beliefs(target, general, target.held[other])
    whole = _summarize_beliefs(target, learn(rows).by_value, target.held[rows])
    return replace(baseline, records=len(rows), with_release=whole, control=control)


def count_group_values(groups: Places, true_codes: Codes, size: int) -> Holdings:
    """What groups hold, by what their records do."""
    lines, counts = np.unique(groups * size + true_codes, return_counts=True)
    numbers, places = np.divmod(lines, size)
    return Holdings(numbers, places, counts, domain_size=size)


def _compute_calibrated_beliefs(scene: AttackSetup) -> Believing:
    """What all public columns tell, as far as it was right of others; the same under every mechanism."""
    target, key = scene.target, scene.rows.tobytes()
    if key not in target.kept:
        target.kept[key] = calibrate_beliefs(target, target.held_out(tuple(target.columns)), scene.rows)
    return target.kept[key]


def _attack(  # noqa: PLR0913, PLR0917 - who it is, what it believes, and how it looks at the release
    scene: AttackSetup,
    who: str,
    told: tuple[str, ...],
    believing: Believing,
    label: str = "",
    after: Callable[[Floats, Places], Floats | None] | None = None,
) -> Attack:
    """Everybody who is attacked, without the release and with it."""
    rows, target = scene.rows, scene.target
    beliefs = believing(rows)
    afterwards = (after or scene.after)(beliefs, rows)
    true_codes = target.held[rows]
    with_release = None if afterwards is None else _summarize_beliefs(target, afterwards, true_codes)
    without = _summarize_beliefs(target, beliefs, true_codes)
    return Attack(who, told, target.name, len(rows), without, with_release, label, seed=scene.seed)


def _summarize_beliefs(target: Target, beliefs: Floats, true_codes: Codes) -> Belief:
    added = BeliefSum(target.limits)
    added.add(beliefs, true_codes)
    return added.result()
