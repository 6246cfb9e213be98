"""Runs all attackers on a release and its original table, privately for the data steward."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from sfumato._core.array_types import Floats
from sfumato._core.json_types import Json
from sfumato._query.release import Release
from sfumato._readers.read_options import DEFAULT_READ_OPTIONS, ReadOptions
from sfumato._readers.reader import AnyTable
from sfumato._request.belief_bounds import PrivacySpec
from sfumato._request.hierarchy import Hierarchy
from sfumato._risk.attackers.attack_result import Attack
from sfumato._risk.attackers.attack_scenarios import (
    KNOWN_SHARE,
    attack_with_each_column,
    measure_by_known_share,
    run_attack_scenarios,
)
from sfumato._risk.attackers.attack_setup import AttackSetup, make_draws
from sfumato._risk.attackers.attack_target import Target
from sfumato._risk.attackers.crowd_matching import match_crowds, select_recorded
from sfumato._risk.attackers.published_count_test import (
    PublishedCountTest,
    examine_published_counts,
    run_count_self_test,
)
from sfumato._risk.attackers.published_crowds import count_one_valued
from sfumato._risk.attackers.published_value_test import (
    CORRUPTION,
    PublishedValueTest,
    examine_published_values,
    run_self_test,
)
from sfumato._risk.attackers.record_linkage import LinkageRisk, link_records, list_public_columns
from sfumato._risk.attackers.release_matching import MatchedRelease, match_by_key, match_by_likelihood, read_original
from sfumato._risk.attackers.row_order_attack import (
    LEAST_RECORDS,
    OrderTest,
    detect_reused_key,
    examine_row_order,
    examine_value_table,
)
from sfumato._risk.attackers.self_test import SelfTest, make_ordered_list_tests, make_unshuffled_tests
from sfumato._verify.check_results import Check
from sfumato.errors import ReleaseFormatError

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
    published_value_tests: tuple[PublishedValueTest | PublishedCountTest, ...] = ()
    """For each protected column, whether published values fit the true values of people whose record is certain.

    For published counts, whether their noise has its reference distribution.
    """
    unique_matches: int | None = None
    """The number of people who were matched by public columns, without a key."""
    skip_reason: str = ""
    """The reason why no attack ran, if none did."""
    one_valued_people: int | None = None
    """The number of people in crowds of fewer than 11 people with one value; None if no counts are published."""

    @property
    def checks(self) -> tuple[Check, ...]:
        """The checks that a correctly made release passes, and the self-tests; each fails by chance once in a million.

        Published values must fit the true values as well as the reference distribution says.
        """
        self_checks = [check for item in self.self_tests if (check := item.check) is not None]
        return (
            *(item.check for item in self.order_tests),
            *(item.check for item in self.published_value_tests),
            *self_checks,
        )

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
            "people_in_one_valued_groups": self.one_valued_people,
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
    opened.manifest.mechanism.check_attackable()  # an audit that cannot attack must not look like an audit that passed
    linkage = link_records(release, population, read=read)
    if table is None:
        table = read_original(opened, original, plan_file, hierarchies=hierarchies, read=read)
    recorded_table = select_recorded(table, match_crowds(opened, table))
    mechanism, order_tests = opened.manifest.mechanism_name, examine_row_order(opened, recorded_table)
    names = list_public_columns(opened)
    self_tests = make_unshuffled_tests(names, recorded_table) if names and recorded_table.num_rows else []
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
        (*self_tests, *(self_test for result in column_attacks for self_test in result.self_tests)),
        tuple(test for result in column_attacks for test in result.value_tests),
        None if matched_release.is_unique is None else int(matched_release.is_unique.sum()),
        one_valued_people=(
            None if matched_release.crowds is None else count_one_valued(matched_release.crowds.true_counts)
        ),
    )


@dataclass(frozen=True)
class _ColumnAttacks:
    """The attacks on one protected column."""

    column: str
    attacks: tuple[Attack, ...]
    column_attacks: tuple[Attack, ...]
    success_by_share: tuple[tuple[float, float | None], ...]
    odds_factor: float | None
    value_tests: tuple[PublishedValueTest | PublishedCountTest, ...]
    self_tests: tuple[SelfTest, ...]

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
        value_test, self_test = _test_published_values(setup, release)
        value_tests = [] if value_test is None else [value_test]
        self_tests = [] if self_test is None else [self_test]
        count_tests: list[PublishedCountTest] = []
        if release.crowds is not None and len(release.crowds.noisy):
            count_tests.append(examine_published_counts(setup.target.name, release.crowds))
            self_tests.append(run_count_self_test(setup.target.name, release.crowds, setup.draws))
        step()
        return cls(
            setup.target.name,
            attacks,
            column_attacks,
            success_by_share,
            odds_factor,
            (*value_tests, *count_tests),
            tuple(self_tests),
        )


def _test_published_values(
    setup: AttackSetup, release: MatchedRelease
) -> tuple[PublishedValueTest | None, SelfTest | None]:
    """Tests the published values of people whose record is certain, and the test itself."""
    certain_setup = _select_certain_people(setup, release)
    if certain_setup is None:
        reason = f"fewer than {LEAST_RECORDS} people have a record of their own"
        if release.is_unique is not None:
            reason = (
                f"fewer than {LEAST_RECORDS} people are unique on the public columns; name the plan file of the release"
            )
        return None, SelfTest.make_impossible(CORRUPTION.format(setup.target.name), 0.0, reason)
    return examine_published_values(certain_setup), run_self_test(certain_setup)


def _select_certain_people(setup: AttackSetup, release: MatchedRelease) -> AttackSetup | None:
    """The people whose record is certain; None if there are too few for a test.

    These people form a separate table, because their value frequencies differ from those of all people.
    """
    if release.is_unique is None and setup.crowds is None:
        return setup
    is_certain = ~setup.is_counted(np.arange(len(setup.target.true_codes)))
    if release.is_unique is not None:
        is_certain &= release.is_unique
    unique_people = np.flatnonzero(is_certain)
    if len(unique_people) < LEAST_RECORDS:
        return None
    target = Target(setup.target.name, setup.target.true_codes[unique_people], setup.target.limits, {})
    rows = np.arange(target.attacked_count)
    return replace(
        setup,
        target=target,
        rows=rows,
        crowds=None,
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
    """The largest factor by which what is published about a person changes the odds of two values.

    For a person in a crowd, this is the factor for an attacker who knows all other people.
    """
    is_counted = setup.is_counted(setup.rows)
    recorded, counted = setup.rows[~is_counted], setup.rows[is_counted]
    parts = [setup.compute_likelihoods(recorded)] if len(recorded) else []
    if setup.crowds is not None and len(counted):
        others = setup.crowds.count_others(setup.target.true_codes, counted)
        parts.append(setup.crowds.compute_count_likelihoods(setup.crowds.noisy[setup.crowds.numbers[counted]] - others))
    factors = [None if likelihoods is None else _find_largest_factor(likelihoods) for likelihoods in parts]
    if not factors or None in factors:
        return None
    return max(factor for factor in factors if factor is not None)


def _find_largest_factor(likelihoods: Floats) -> float:
    least, most = likelihoods.min(axis=1), likelihoods.max(axis=1)
    return float(np.divide(most, least, out=np.full(len(most), np.inf), where=least > 0).max())
