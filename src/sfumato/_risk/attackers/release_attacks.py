"""Runs all attackers on a release and its original table, privately for the data steward."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from sfumato._core.array_types import Codes, Floats, Places
from sfumato._core.json_types import Json
from sfumato._query.release import Release
from sfumato._readers.read_options import DEFAULT_READ_OPTIONS, ReadOptions
from sfumato._readers.reader import AnyTable
from sfumato._request.belief_bounds import PrivacySpec
from sfumato._request.hierarchy import Hierarchy
from sfumato._risk.attackers.attack_result import ROUNDING, Attack, BeliefSummary
from sfumato._risk.attackers.attack_scenarios import (
    KNOWN_SHARE,
    attack_with_each_column,
    attack_with_frequencies,
    measure_by_known_share,
    run_attack_scenarios,
)
from sfumato._risk.attackers.attack_setup import AttackSetup, make_draws
from sfumato._risk.attackers.attack_target import Target
from sfumato._risk.attackers.record_linkage import LinkageRisk, encode_shared_values, link_records, list_public_columns
from sfumato._risk.attackers.release_matching import MatchedRelease, match_by_key, match_by_likelihood, read_original
from sfumato._risk.attackers.row_order_attack import (
    LARGEST_SCORE,
    LEAST_RECORDS,
    OrderTest,
    compare_group_lists,
    compare_order,
    compare_places,
    detect_reused_key,
    examine_row_order,
    examine_value_table,
)
from sfumato._verify.check_results import Check
from sfumato.errors import ReleaseFormatError
from sfumato.mechanisms.capabilities import AttackModel

# Self-test: the same checks run on deliberately corrupted records in memory, and must detect them. A check that detects
# nothing proves little by itself. So each check also runs on the output of a careless publisher, who also publishes
# true values, or keeps the rows in the order of the table, or lists the values of groups in the order of their people.

NORMAL_95_ONE_SIDED = 1.6448536269514722
"""A standard normal number is above the negative of this with probability 95%."""


@dataclass(frozen=True, slots=True)
class SelfTest:
    """A deliberate corruption, and whether it was detected."""

    corruption: str
    score: float
    """The deviation in standard deviations.

    If it exceeds the limit of one false alarm in a million, the corruption is detected.
    """
    power: str
    """A phrase about the smallest corruption that is detected."""

    @property
    def is_noticed(self) -> bool:
        """Whether the corruption was detected."""
        return abs(self.score) > LARGEST_SCORE

    def to_json(self) -> Json:
        """The self-test as JSON."""
        return {"what": self.corruption, "score": self.score, "is_noticed": self.is_noticed, "power": self.power}


def corrupt_published_values(setup: AttackSetup) -> SelfTest | None:
    """Corrupts some records so that they disclose their value, and an attacker with frequencies succeeds too often.

    The corrupted share is twice the smallest share that is detected in 95% of cases. None if the likelihood of
    published values is unknown, or records are in groups.
    """
    belief = attack_with_frequencies(setup).with_release
    if setup.groups is not None or belief is None:
        return None
    share = find_smallest_share(belief)
    if not share < 0.5:  # noqa: PLR2004 - twice this share is tried
        return SelfTest(
            "true values published in some records",
            0.0,
            f"there are too few people ({len(setup.rows):,}) to detect this corruption",
        )
    rows, true_codes = setup.rows, setup.target.true_codes
    disclosing_rows = _select_most_disclosing(setup)
    is_corrupted = setup.draws.get_stream("spoilt").draw_bits(0, len(true_codes)) / 2.0**64 < 2 * share

    def corrupt_likelihoods(selected_rows: Places) -> Floats | None:
        return setup.compute_likelihoods(
            np.where(is_corrupted[selected_rows], disclosing_rows[true_codes[selected_rows]], selected_rows)
        )

    corrupted_belief = attack_with_frequencies(replace(setup, compute_likelihoods=corrupt_likelihoods)).with_release
    return SelfTest(
        f"for {2 * share:.1%} of people, the published value discloses their {setup.target.name!r}",
        0.0 if corrupted_belief is None else corrupted_belief.surprise,
        f"if this affects {share:.1%} of people, it is detected in 95% of cases ({len(rows):,} people tested)",
    )


def find_smallest_share(belief: BeliefSummary) -> float:
    """The smallest share of people with a disclosed value that is detected in 95% of cases."""
    return (LARGEST_SCORE + NORMAL_95_ONE_SIDED) * belief.deviation / max(1 - belief.expected_success, ROUNDING)


def _select_most_disclosing(setup: AttackSetup) -> Places:
    """For each value, the record that discloses this value most."""
    likelihoods = setup.compute_likelihoods(setup.rows)
    if likelihoods is None:
        return setup.rows[:0]
    weights = likelihoods * setup.target.shares
    parts = weights / np.maximum(weights.sum(axis=1, keepdims=True), ROUNDING)
    return np.asarray(setup.rows[parts.argmax(axis=0)])


def make_unshuffled_tests(names: Sequence[str], table: pa.Table) -> list[SelfTest]:
    """Self-tests with the rows in the order of the table."""
    (table_codes,) = encode_shared_values(names, [table])
    order_tests = [
        compare_places("rows at the same positions as in the table", table_codes, table_codes),
        compare_order("rows in the order of the table", table_codes, table_codes),
    ]
    return [SelfTest(order_test.name, order_test.score, _describe_least_rows(order_test)) for order_test in order_tests]


def _describe_least_rows(order_test: OrderTest) -> str:
    if not order_test.score:
        return f"too few records are unique or differ ({order_test.records:,}) to detect this corruption"
    share = min((LARGEST_SCORE + NORMAL_95_ONE_SIDED) / abs(order_test.score), 1.0)
    return f"about {max(share, 0.001):.1%} of this effect is detected in 95% of cases"


def make_ordered_list_tests(release: MatchedRelease) -> list[SelfTest]:
    """Self-tests with the values of groups listed in the order of their records."""
    if release.holdings is None:
        return []
    groups, true_codes = release.published_codes[release.order], release.true_codes[release.order]
    order = np.argsort(groups, kind="stable")
    lines: Codes = groups[order]
    order_test = compare_group_lists(
        "values of groups listed in the order of their records", groups, true_codes, lines, true_codes[order]
    )
    score = order_test.score if math.isfinite(order_test.score) else 0.0
    return [SelfTest(order_test.name, score, _describe_least_rows(order_test))]


# ---------------------------------------------------------------------------------------------------------------------

Progress = Callable[[int, int], None]
"""A callback with the number of steps done and the total."""


@dataclass(frozen=True)
class Audit:
    """The attacks on a release. They contain no verdict, because a person decides whether the release is acceptable."""

    mechanism: str
    attacks: tuple[Attack, ...]
    """The attackers of each protected column, least knowledge first. Empty if the row order discloses records, or
    if records cannot be matched with people.
    """
    order_tests: tuple[OrderTest, ...]
    """The tests of the row order."""
    linkage: LinkageRisk
    """The records that public columns identify."""
    column_attacks: tuple[Attack, ...] = ()
    """For each protected column, attackers who know one public column each."""
    success_by_share: Mapping[str, tuple[tuple[float, float | None], ...]] = field(default_factory=dict)
    """For each protected column, the attack success for several shares of known people."""
    odds_factors: Mapping[str, float | None] = field(default_factory=dict)
    """For each protected column, the largest factor by which a published value changes odds.

    It is infinite if a published value excludes a value, and None if unknown.
    """
    self_tests: tuple[SelfTest, ...] = ()
    """Deliberate corruptions that must be detected."""
    frequency_attacks: tuple[Attack, ...] = ()
    """The attack of an attacker who knows frequencies on people whose record is certain."""
    unique_matches: int | None = None
    """The number of people who were matched by public columns, without a key."""
    skip_reason: str = ""
    """The reason why no attack ran, if none did."""

    @property
    def checks(self) -> tuple[Check, ...]:
        """The checks that a correctly made release passes.

        Each check fails by chance with a probability of one in a million.

        An attacker who knows frequencies must succeed as often as the reference distribution says.
        """
        all_checks = [item.check for item in self.order_tests]
        for item in self.frequency_attacks:
            if item.with_release is not None:
                belief = item.with_release
                sentence = (
                    f"an attacker who knows the frequencies of {item.protected_column!r} guesses correctly for "
                    f"{belief.success:.1%} of {item.records:,} people; the reference distribution expects "
                    f"{belief.expected_success:.1%} ({belief.surprise:.1f} standard deviations)."
                )
                all_checks.append(Check("law", abs(belief.surprise) <= LARGEST_SCORE, sentence))
        return tuple(all_checks)

    def to_json(self) -> Json:
        """The audit as JSON."""
        return {
            "mechanism": self.mechanism,
            "attacks": [item.to_json() for item in self.attacks],
            "columns": [item.to_json() for item in self.column_attacks],
            "order": [{"name": item.name, "score": item.score, "records": item.records} for item in self.order_tests],
            "linked": self.linkage.to_json(),
            "others_known": {name: [list(item) for item in shares] for name, shares in self.success_by_share.items()},
            "odds_factors": {
                name: factor if factor is not None and np.isfinite(factor) else None
                for name, factor in self.odds_factors.items()
            },
            "controls": [item.to_json() for item in self.self_tests],
            "matched_by": "key" if self.unique_matches is None else "public columns and reference distribution",
            "alone": self.unique_matches,
            "not_attacked": self.skip_reason or None,
        }


NO_KEY = (
    "without the key, records cannot be matched with people, because the release publishes the values of each group; "
    "publish with `plan_file=`, and name the plan file here."
)


def audit(  # noqa: PLR0913 - a release, a table, and other things that attackers may have
    release: str | Path,
    original: AnyTable,
    plan_file: str | Path | None = None,
    *,
    second: tuple[str | Path, str | Path | None] | None = None,
    population: AnyTable = None,
    spec: PrivacySpec | None = None,
    known_share: float = KNOWN_SHARE,
    seed: int | None = None,
    hierarchies: Mapping[str, Hierarchy | Path] | None = None,
    read: ReadOptions = DEFAULT_READ_OPTIONS,
    table: pa.Table | None = None,
    progress: Progress = lambda done, total: None,
) -> Audit:
    """Runs all attackers on a release. `second` is another release of the same table, with its plan file.

    Without a plan file, records are matched with people of equal public columns by the reference distribution. With a
    request (`spec`), beliefs above its bound are counted. With a population, records that are unique in the population
    are counted. A seed makes the random draws reproducible. `table` is the result of `read_original`, if the table was
    read already.
    """
    opened = Release.open(release)
    opened.manifest.mechanism.require(
        AttackModel
    )  # an audit that cannot attack must not look like an audit that passed
    linkage = link_records(release, population, read=read)
    if table is None:
        table = read_original(opened, original, plan_file, hierarchies=hierarchies, read=read)
    mechanism, order_tests = opened.manifest.mechanism_name, examine_row_order(opened, table)
    self_tests = make_unshuffled_tests(list_public_columns(opened), table) if list_public_columns(opened) else []
    progress(1, 3)
    try:
        matched_release = match_with_original(opened, table, plan_file, seed)
    except ReleaseFormatError:
        # In this case an attacker needs no key, and the key does not fit.
        if plan_file is not None and any(result.is_significant for result in order_tests):
            skip_reason = "the order of the rows discloses the person of each row, and it is not the order of the key."
            return Audit(
                mechanism, (), tuple(order_tests), linkage, self_tests=tuple(self_tests), skip_reason=skip_reason
            )
        raise
    if matched_release is None:
        return Audit(mechanism, (), tuple(order_tests), linkage, self_tests=tuple(self_tests), skip_reason=NO_KEY)
    order_tests += examine_value_table(matched_release)
    self_tests += make_ordered_list_tests(matched_release)
    setups = matched_release.make_setups(spec, seed)
    second_setups: Sequence[AttackSetup | None] = [None] * len(setups)
    if second is not None:
        second_release = Release.open(second[0])
        second_table = read_original(second_release, original, second[1], hierarchies=hierarchies, read=read)
        second_matched = match_with_original(second_release, second_table, second[1], seed)
        second_setups = second_setups if second_matched is None else second_matched.make_setups(spec, seed)
        order_tests.append(detect_reused_key(release, second[0]))
    steps = iter(range(2, 2 + 4 * len(setups)))
    column_attacks = [
        _ColumnAttacks.of(
            setup, second_setup, known_share, matched_release, lambda: progress(next(steps), 1 + 4 * len(setups))
        )
        for setup, second_setup in zip(setups, second_setups, strict=True)
    ]
    return Audit(
        mechanism,
        tuple(attack for result in column_attacks for attack in result.attacks),
        tuple(order_tests),
        linkage,
        tuple(attack for result in column_attacks for attack in result.column_attacks),
        {result.column: result.success_by_share for result in column_attacks},
        {result.column: result.odds_factor for result in column_attacks},
        (*self_tests, *(result.self_test for result in column_attacks if result.self_test is not None)),
        tuple(result.frequency_attack for result in column_attacks if result.frequency_attack is not None),
        None if matched_release.is_unique is None else int(matched_release.is_unique.sum()),
    )


@dataclass(frozen=True)
class _ColumnAttacks:
    """The attacks on one protected column."""

    column: str
    attacks: tuple[Attack, ...]
    column_attacks: tuple[Attack, ...]
    success_by_share: tuple[tuple[float, float | None], ...]
    odds_factor: float | None
    frequency_attack: Attack | None
    self_test: SelfTest | None

    @classmethod
    def of(
        cls,
        setup: AttackSetup,
        second_setup: AttackSetup | None,
        known_share: float,
        release: MatchedRelease,
        step: Callable[[], None],
    ) -> _ColumnAttacks:
        """Runs the attacks in four steps."""
        attacks = tuple(run_attack_scenarios(setup, second_setup, known_share=known_share))
        step()
        column_attacks = attack_with_each_column(setup)
        step()
        success_by_share = measure_by_known_share(setup) if setup.target.columns else ()
        odds_factor = compute_odds_factor(setup)
        step()
        certain_setup = _select_certain_people(setup, release)
        frequency_attack, self_test = (
            (None, None)
            if certain_setup is None
            else (attack_with_frequencies(certain_setup), corrupt_published_values(certain_setup))
        )
        step()
        return cls(
            setup.target.name, attacks, column_attacks, success_by_share, odds_factor, frequency_attack, self_test
        )


def _select_certain_people(setup: AttackSetup, release: MatchedRelease) -> AttackSetup | None:
    """The people whose record is certain; None if there are too few for a test.

    These people form a separate table, because their value frequencies differ from those of all people.
    """
    if release.is_unique is None:
        return setup
    unique_people = np.flatnonzero(release.is_unique)
    if len(unique_people) < LEAST_RECORDS:
        return None
    target = Target(setup.target.name, setup.target.true_codes[unique_people], setup.target.limits, {})
    rows = np.arange(target.attacked_count)
    return replace(
        setup,
        target=target,
        rows=rows,
        compute_likelihoods=lambda selected_rows: setup.compute_likelihoods(unique_people[selected_rows]),
    )


def match_with_original(
    release: Release, table: pa.Table, plan_file: str | Path | None, seed: int | None = None
) -> MatchedRelease | None:
    """Matches records with people: by the key, or by public columns and the reference distribution."""
    if plan_file is not None:
        return match_by_key(release, table, plan_file)
    return match_by_likelihood(release, table, make_draws(seed))


def compute_odds_factor(setup: AttackSetup) -> float | None:
    """The largest factor by which a published value changes the odds of two values."""
    likelihoods = setup.compute_likelihoods(setup.rows)
    if likelihoods is None or not len(likelihoods):
        return None
    least, most = likelihoods.min(axis=1), likelihoods.max(axis=1)
    return float(np.divide(most, least, out=np.full(len(most), np.inf), where=least > 0).max())
