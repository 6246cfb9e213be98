"""Named attackers, with their attack success without and with the release. They are the same for all mechanisms.

F knows the frequencies of values; C knows the public column that discloses most with the release. P knows all public
columns. O also knows the true values of a share of the other people. D also has a second release of the same people. L
has only the release. All except L know the original: to guess the values of one half of the people, they learn from
the other half. No attacker can learn more from these columns. L learns from the release. The control for L is what the
release teaches about people without a record in it.

P is defined in `belief_calibration.learn_all_columns`, and attacks before publishing use the same definition. Before
publishing, attackers with one column find the strongest belief that the column allows, because this belief can stop a
publication.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from sfumato._core.array_types import Codes, Floats, Mask, Places
from sfumato._core.cell_values import Value
from sfumato._core.exact_numbers import parse_exact
from sfumato._core.small_text_files import match_to_domain, read_value_entries
from sfumato._figures.attack_success import describe_known_columns
from sfumato._profile.equivalence_classes import hash_numbers
from sfumato._records.tally import Holdings
from sfumato._risk.attackers.attack_result import Attack, BeliefSum, BeliefSummary
from sfumato._risk.attackers.attack_setup import AttackSetup
from sfumato._risk.attackers.attack_target import Target
from sfumato._risk.attackers.belief_calibration import BeliefFunction, learn_all_columns
from sfumato._risk.attackers.guesses_from_release import (
    CandidateBeliefs,
    learn_best_round,
    learn_by_updates,
    learn_from_buckets,
    predict_others,
)
from sfumato._risk.attackers.planned_exposure import ALL_COLUMNS, FREQUENCIES, ONE_COLUMN
from sfumato._risk.attackers.published_crowds import UNUSED, choose_most_correct, count_right_guesses
from sfumato._risk.attackers.unlinked_attack import attack_unlinked_people
from sfumato.errors import SpecError

OTHERS, TWO_RELEASES, RELEASE_ALONE, OWN_BELIEF = "others", "two releases", "release alone", "own belief"
ALL_OTHERS = "all others"
KNOWN_SHARE, KNOWN_SHARES = 0.2, (0.0, 0.1, 0.2, 0.4, 0.6, 0.8)
ROUNDS = 10
COUNT_ROUNDS = 1
"""The number of rounds of learning from counts after the first. More rounds mainly learn noise."""
MOST_LEARNED = 1 << 21
"""The largest product of records and values for learning from a release in which every record may have any value."""


def run_attack_scenarios(
    setup: AttackSetup, second_setup: AttackSetup | None = None, *, known_share: float = KNOWN_SHARE
) -> tuple[Attack, ...]:
    """Runs all attackers in order of their knowledge, with a second release of the same people if there is one.

    Without public columns, the attackers who know public columns are skipped.
    """
    attack_results = [attack_with_frequencies(setup)]
    if setup.target.columns:
        attack_results += [
            attack_with_worst_column(setup),
            attack_with_all_columns(setup),
            attack_with_known_others(setup, known_share),
        ]
        attack_results += [] if setup.crowds is None else [attack_with_all_others(setup)]
        attack_results += [] if second_setup is None else [attack_with_two_releases(setup, second_setup)]
        attack_results.append(attack_with_release_alone(setup))
    return tuple(attack_results)


def attack_with_frequencies(setup: AttackSetup) -> Attack:
    """F: an attacker who knows the frequencies of values."""
    beliefs = setup.target.learn(()).compute_beliefs
    return _add_unlinked(setup, _attack(setup, FREQUENCIES, (), beliefs), beliefs)


def attack_with_worst_column(setup: AttackSetup) -> Attack:
    """C: an attacker who knows the public column that gives the most correct guesses, with the release if possible."""
    column_attacks = attack_with_each_column(setup)
    if not column_attacks:
        raise SpecError(
            "the release has no public column, so there is no attacker who knows a public column.",
            code="no-public-column",
        )
    worst = max(column_attacks, key=lambda attack: attack.final_success)
    return _add_unlinked(setup, worst, setup.target.learn_across_halves(worst.known_columns))


def attack_with_each_column(setup: AttackSetup) -> tuple[Attack, ...]:
    """Attackers each of whom knows one public column of a person."""
    names = setup.target.columns
    return tuple(_attack(setup, ONE_COLUMN, (name,), setup.target.learn_across_halves((name,))) for name in names)


def attack_with_all_columns(setup: AttackSetup) -> Attack:
    """P: an attacker who knows all public columns, with beliefs calibrated on other people."""
    beliefs = learn_all_columns(setup.target, setup.rows)
    return _add_unlinked(setup, _attack(setup, ALL_COLUMNS, tuple(setup.target.columns), beliefs), beliefs)


def attack_with_known_others(setup: AttackSetup, share: float = KNOWN_SHARE) -> Attack:
    """O: an attacker who also knows the true values of a random share of the people.

    Only the other people are attacked.

    Known people and their values are removed from their group. Published values that do not depend on others are used
    as before.
    """
    if not 0 <= share < 1:
        raise SpecError(
            f"the share of known people is {share}, but it must be at least 0 and below 1.",
            code="share-out-of-range",
            fields={"given": share},
        )
    random_bits = setup.draws.get_stream("others").draw_bits(0, len(setup.target.true_codes))
    is_known: Mask = random_bits < np.uint64(int(share * 2**64))
    rows = setup.rows[~is_known[setup.rows]]
    attacker_columns = tuple(setup.target.columns)
    knows = f"{describe_known_columns(attacker_columns)} and the values of {share:.0%} of the other people"
    known = None if setup.crowds is None else setup.crowds.count_known(setup.target.true_codes, is_known)
    return _attack(
        replace(setup, rows=rows),
        OTHERS,
        attacker_columns,
        learn_all_columns(setup.target, setup.rows),
        knows,
        lambda beliefs, own_rows: setup.update_beliefs(beliefs, own_rows, known=known),
    )


def attack_with_all_others(setup: AttackSetup) -> Attack:
    """A: an attacker who also knows the values of all other people, where counts are published.

    Nobody can learn more from the counts of a crowd. Records do not depend on the values of others, so this attacker
    equals P for people with a record. People who are alike may have related values. So the beliefs without the release
    also use the values of the other people.
    """
    target, crowds = setup.target, setup.crowds
    if crowds is None:
        raise SpecError(
            "the release publishes no counts, so its records do not depend on the values of other people.",
            code="no-counts-published",
        )
    rows, true_codes, known_columns = setup.rows, target.true_codes[setup.rows], tuple(target.columns)
    beliefs = learn_all_columns(target, rows)(rows)
    inside = crowds.is_inside(rows)
    with_records = setup.update_by_records(beliefs[~inside], rows[~inside])
    pairs = list(crowds.iter_with_others(beliefs[inside], target.true_codes, rows[inside]))
    befores, afters = ([pair[number] for pair in pairs] for number in (0, 1))
    before, after = beliefs.copy(), beliefs.copy()
    before[inside] = choose_most_correct(befores, true_codes[inside])
    after[inside] = choose_most_correct(afters, true_codes[inside])
    with_release = None
    if with_records is not None:
        after[~inside] = with_records
        with_release = _summarize_beliefs(target, after, true_codes)
    knows = f"{describe_known_columns(known_columns)} and the values of all other people"
    without_release = _summarize_beliefs(target, before, true_codes)
    return Attack(
        ALL_OTHERS, known_columns, target.name, len(rows), without_release, with_release, knows, seed=setup.seed
    )


def attack_with_two_releases(setup: AttackSetup, second_setup: AttackSetup) -> Attack:
    """D: an attacker who knows all public columns and has two independent releases."""
    if not np.array_equal(setup.target.true_codes, second_setup.target.true_codes):
        raise SpecError(
            "the two releases are not about the same people; name two releases of one table.",
            code="releases-of-other-people",
        )

    attacker_columns = tuple(setup.target.columns)
    knows = f"{describe_known_columns(attacker_columns)} and a second release"
    return _attack(
        setup,
        TWO_RELEASES,
        attacker_columns,
        learn_all_columns(setup.target, setup.rows),
        knows,
        lambda beliefs, rows: setup.update_beliefs(beliefs, rows, second=second_setup),
    )


def measure_by_known_share(
    setup: AttackSetup, shares: Sequence[float] = KNOWN_SHARES
) -> tuple[tuple[float, float | None], ...]:
    """Measures the success of O with the release for several shares of known people, for a figure."""
    beliefs_by_share = [(share, attack_with_known_others(setup, share).with_release) for share in shares]
    return tuple((share, None if belief is None else belief.success) for share, belief in beliefs_by_share)


def attack_with_own_belief(setup: AttackSetup, prior: Mapping[Value, float] | Path, domain: Sequence[Value]) -> Attack:
    """An attacker with your own belief about every person, as a share for each value or a CSV of `value,share`."""
    if isinstance(prior, Path):
        prior = {
            value: float(parse_exact(row["share"], "a share"))
            for value, row in read_value_entries(prior, ["share"]).items()
        }
    given_shares = match_to_domain(prior, domain, "share")
    parts = np.array([0.0 if part is None else part for part in given_shares])
    if not np.isfinite(parts).all() or (parts < 0).any() or not parts.sum() > 0:
        raise SpecError(
            "the shares of a belief must be at least 0, and one share must be above 0.", code="belief-without-shares"
        )
    share = parts / parts.sum()
    return _attack(setup, OWN_BELIEF, (), lambda rows: np.tile(share, (len(rows), 1)), "your own belief")


def attack_with_release_alone(setup: AttackSetup, rounds: int = ROUNDS, most_learned: int = MOST_LEARNED) -> Attack:
    """L: an attacker who has only the release, and learns from the release how public columns predict values.

    The control learns in the same way from one half of the records, and sees only the public columns of the other half.
    """
    target, groups = setup.target, setup.groups
    baseline = _attack(setup, RELEASE_ALONE, (), target.learn(()).compute_beliefs, "only the release")
    columns = [codes.astype(np.int64) for codes in target.columns.values()]
    if baseline.with_release is None or not columns:
        return baseline
    if setup.crowds is not None:
        return _learn_from_counts(setup, baseline, columns, rounds, most_learned)
    # A hash divides the records, so that the order of the table does not matter.
    rows = np.argsort(hash_numbers(np.arange(len(target.true_codes)), np.uint64(1)))
    rows = rows[: most_learned // target.size] if groups is None else rows

    def learn(rows: Places) -> CandidateBeliefs:
        column_codes = [column[rows] for column in columns]
        if groups is None:
            likelihoods = setup.compute_likelihoods(rows)
            return learn_best_round(
                np.ones((len(rows), target.size)) if likelihoods is None else likelihoods, column_codes, rounds
            )
        _, numbers = np.unique(groups[rows], return_inverse=True)
        return learn_from_buckets(
            numbers, count_group_values(numbers, target.true_codes[rows], target.size), column_codes, rounds
        )

    is_first_half = target.is_first[rows] if groups is None else groups[rows] % 2 == 0  # groups stay whole
    one, other = rows[is_first_half], rows[~is_first_half]
    control = None
    if len(one) > 1 and len(other):
        predictions = predict_others(
            learn(one), [column[one] for column in columns], [column[other] for column in columns]
        )
        control = _summarize_beliefs(target, predictions, target.true_codes[other])
    learned_beliefs = learn(rows)
    release_summary = _summarize_beliefs(target, learned_beliefs.value_beliefs, target.true_codes[rows])
    result = replace(baseline, records=len(rows), with_release=release_summary, control=control)
    if groups is not None:
        return result
    own_columns = [column[rows] for column in columns]
    return _add_unlinked(
        setup,
        result,
        lambda people: predict_others(learned_beliefs, own_columns, [column[people] for column in columns]),
    )


def _learn_from_counts(
    setup: AttackSetup, baseline: Attack, columns: Sequence[Places], rounds: int, most_learned: int
) -> Attack:
    """L, where counts are published: the counts of all crowds tell how public columns predict the values.

    The number of learning rounds and the degree of ties are those with the most correct guesses. When the records are
    divided for the control, people who are alike stay together.
    """
    target, crowds = setup.target, setup.crowds
    rows = np.argsort(hash_numbers(np.arange(len(target.true_codes)), np.uint64(1)))
    rows = rows[: most_learned // target.size]
    if crowds is not None:
        rows = rows[crowds.numbers[rows] != UNUSED]
    true_codes = target.true_codes[rows]

    def learn(own_rows: Places) -> list[CandidateBeliefs]:
        own_columns = [column[own_rows] for column in columns]
        update = partial(_update_all, setup, own_rows)
        return list(learn_by_updates(update, own_columns, target.size, min(rounds, COUNT_ROUNDS)))

    learned = learn(rows)
    numbers = [count_right_guesses(item.value_beliefs, true_codes) for item in learned]
    best = int(np.argmax(numbers))
    is_first_half = (hash_numbers(target.classes, np.uint64(4)) & np.uint64(1)).astype(np.bool_)[rows]
    one, other = rows[is_first_half], rows[~is_first_half]
    control = None
    if len(one) > 1 and len(other):
        predictions = predict_others(
            learn(one)[best], [column[one] for column in columns], [column[other] for column in columns]
        )
        control = _summarize_beliefs(target, predictions, target.true_codes[other])
    with_release = _summarize_beliefs(target, learned[best].value_beliefs, true_codes)
    result = replace(baseline, records=len(rows), with_release=with_release, control=control)
    own_columns = [column[rows] for column in columns]
    return _add_unlinked(
        setup,
        result,
        lambda people: predict_others(learned[best], own_columns, [column[people] for column in columns]),
    )


def _update_all(setup: AttackSetup, rows: Places, beliefs: Floats) -> Floats | None:
    return setup.update_beliefs(beliefs, rows)


def _add_unlinked(setup: AttackSetup, attack: Attack, compute_beliefs: BeliefFunction) -> Attack:
    """Adds the success of the same attacker who does not know which record is the person's.

    Records in groups with published values have no such number.
    """
    if setup.groups is not None:
        return attack
    earlier = setup.target.learn(()).compute_beliefs if attack.scenario == RELEASE_ALONE else None
    unlinked = attack_unlinked_people(setup.target, compute_beliefs, setup.compute_likelihoods, setup.crowds, earlier)
    return replace(attack, unlinked=unlinked)


def count_group_values(groups: Places, true_codes: Codes, size: int) -> Holdings:
    """Lists the values of groups from the values of their records."""
    lines, counts = np.unique(groups * size + true_codes, return_counts=True)
    numbers, places = np.divmod(lines, size)
    return Holdings(numbers, places, counts, domain_size=size)


def _attack(  # noqa: PLR0913, PLR0917 - an attacker, its beliefs, and its view of the release
    setup: AttackSetup,
    scenario: str,
    known_columns: tuple[str, ...],
    compute_beliefs: BeliefFunction,
    label: str = "",
    update_beliefs: Callable[[Floats, Places], Floats | None] | None = None,
) -> Attack:
    """Attacks every person, without and with the release."""
    rows, target = setup.rows, setup.target
    beliefs = compute_beliefs(rows)
    posteriors = (update_beliefs or setup.update_beliefs)(beliefs, rows)
    true_codes = target.true_codes[rows]
    with_release = None if posteriors is None else _summarize_beliefs(target, posteriors, true_codes)
    without_release = _summarize_beliefs(target, beliefs, true_codes)
    return Attack(
        scenario, known_columns, target.name, len(rows), without_release, with_release, label, seed=setup.seed
    )


def _summarize_beliefs(target: Target, beliefs: Floats, true_codes: Codes) -> BeliefSummary:
    belief_sum = BeliefSum(target.limits)
    belief_sum.add(beliefs, true_codes)
    return belief_sum.summarize()
