"""All attackers at once, on a release and the table it was made from: private, for the holder."""

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
from sfumato._risk.attackers.planned_exposure import Target
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

# Would it be noticed? The same looks at the same records, spoilt on purpose in memory: what they must find.
#
# A look that finds nothing says little by itself. So each is also taken at what a careless publisher would have put
# out: true values shown besides, rows left in the order of the table, values of groups listed in the order of their
# people.

NORMAL_95_ONE_SIDED = 1.6448536269514722
"""A normal number is above minus this in 95 of 100 cases."""


@dataclass(frozen=True, slots=True)
class SelfTest:
    """Something that was spoilt on purpose, and whether it was noticed."""

    corruption: str
    score: float
    """In standard deviations; noticed beyond the limit of once in a million."""
    power: str
    """How small a fault would be noticed."""

    @property
    def is_noticed(self) -> bool:
        """Whether it was found."""
        return abs(self.score) > LARGEST_SCORE

    def to_json(self) -> Json:
        """For machines."""
        return {"what": self.corruption, "score": self.score, "is_noticed": self.is_noticed, "power": self.power}


def corrupt_published_values(setup: AttackSetup) -> SelfTest | None:
    """Some people's records show what speaks most for their value: whoever knows the frequencies is right too often.

    As large a share as would be noticed in 95 of 100 cases, and twice that is tried. None where it is not known how
    likely a record shows what it does, or where records are in groups.
    """
    belief = attack_with_frequencies(setup).with_release
    if setup.groups is not None or belief is None:
        return None
    share = find_smallest_share(belief)
    if not share < 0.5:  # noqa: PLR2004 - twice that is tried
        return SelfTest("true values shown besides", 0.0, f"too few people ({len(setup.rows):,}) to notice it")
    rows, true_codes = setup.rows, setup.target.true_codes
    disclosing_rows = _select_most_disclosing(setup)
    is_corrupted = setup.draws.get_stream("spoilt").draw_bits(0, len(true_codes)) / 2.0**64 < 2 * share

    def corrupt_likelihoods(selected_rows: Places) -> Floats | None:
        return setup.compute_likelihoods(
            np.where(is_corrupted[selected_rows], disclosing_rows[true_codes[selected_rows]], selected_rows)
        )

    corrupted_belief = attack_with_frequencies(replace(setup, compute_likelihoods=corrupt_likelihoods)).with_release
    return SelfTest(
        f"{2 * share:.1%} of the people show what speaks most for their value of {setup.target.name!r}",
        0.0 if corrupted_belief is None else corrupted_belief.surprise,
        f"{share:.1%} of the people are noticed in 95 of 100 cases ({len(rows):,} looked at)",
    )


def find_smallest_share(belief: BeliefSummary) -> float:
    """Which share of the people must show their true value besides, so that it is noticed in 95 of 100 cases."""
    return (LARGEST_SCORE + NORMAL_95_ONE_SIDED) * belief.deviation / max(1 - belief.expected_success, ROUNDING)


def _select_most_disclosing(setup: AttackSetup) -> Places:
    """For each value a record, of those looked at, that speaks most for it."""
    likelihoods = setup.compute_likelihoods(setup.rows)
    if likelihoods is None:
        return setup.rows[:0]
    weights = likelihoods * setup.target.shares
    parts = weights / np.maximum(weights.sum(axis=1, keepdims=True), ROUNDING)
    return np.asarray(setup.rows[parts.argmax(axis=0)])


def make_unshuffled_tests(names: Sequence[str], table: pa.Table) -> list[SelfTest]:
    """The rows as the table has them, looked at as those of the release are."""
    (table_codes,) = encode_shared_values(names, [table])
    order_tests = [
        compare_places("rows that stand where the table has them", table_codes, table_codes),
        compare_order("rows in the order of the table", table_codes, table_codes),
    ]
    return [SelfTest(order_test.name, order_test.score, _describe_least_rows(order_test)) for order_test in order_tests]


def _describe_least_rows(order_test: OrderTest) -> str:
    if not order_test.score:
        return f"too few people are alone or differ to notice it ({order_test.records:,})"
    share = min((LARGEST_SCORE + NORMAL_95_ONE_SIDED) / abs(order_test.score), 1.0)
    return f"about {max(share, 0.001):.1%} of that is noticed in 95 of 100 cases"


def make_ordered_list_tests(release: MatchedRelease) -> list[SelfTest]:
    """The values beside groups of records in the order of their records."""
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
"""Called with how many looks were taken, and how many there will be."""


@dataclass(frozen=True)
class Audit:
    """What attackers find in a release. Nothing here is a verdict: whether it is enough is for a person to decide."""

    mechanism: str
    attacks: tuple[Attack, ...]
    """Those who know least first, for each protected column; none where the order gives the records away, or where
    nobody can tell whose record is whose."""
    order_tests: tuple[OrderTest, ...]
    """What the order of the rows gives away."""
    linkage: LinkageRisk
    """How many records are found by their public columns."""
    column_attacks: tuple[Attack, ...] = ()
    """Whoever knows one public column, each in its turn, for each protected column."""
    success_by_share: Mapping[str, tuple[tuple[float, float | None], ...]] = field(default_factory=dict)
    """For each protected column, how often who knows some of the others is right, by how many of them."""
    odds_factors: Mapping[str, float | None] = field(default_factory=dict)
    """For each protected column the largest factor by which what a record shows moves odds; infinite where it rules a
    value out, None where that is not known."""
    self_tests: tuple[SelfTest, ...] = ()
    """What was spoilt on purpose, and must be noticed."""
    frequency_attacks: tuple[Attack, ...] = ()
    """Whoever knows the frequencies, about people of whom it is certain which record is theirs."""
    unique_matches: int | None = None
    """How many people were matched by their public columns, where no key told whose record is whose."""
    skip_reason: str = ""
    """Why there is no attack, where there is none."""

    @property
    def checks(self) -> tuple[Check, ...]:
        """What must not be so in a release that was made as it says; each fails by chance once in a million times.

        Whoever knows the frequencies must be right as often as the law of the release says, neither more nor less.
        """
        all_checks = [item.check for item in self.order_tests]
        for item in self.frequency_attacks:
            if item.with_release is not None:
                belief = item.with_release
                sentence = (
                    f"whoever knows how frequent the values of {item.protected_column!r} are is right for "
                    f"{belief.success:.1%} of {item.records:,} people, and by the law of the release for "
                    f"{belief.expected_success:.1%} ({belief.surprise:.1f} standard deviations)."
                )
                all_checks.append(Check("law", abs(belief.surprise) <= LARGEST_SCORE, sentence))
        return tuple(all_checks)

    def to_json(self) -> Json:
        """For machines."""
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
            "matched_by": "key" if self.unique_matches is None else "public columns and law",
            "alone": self.unique_matches,
            "not_attacked": self.skip_reason or None,
        }


NO_KEY = (
    "which record is whose cannot be told without the key of the release, because it is published what each group "
    "holds; publish with `plan_file=`, and name that file here."
)


def audit(  # noqa: PLR0913 - a release, a table, and what else attackers may have
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
    """Let all attackers at a release; `second` is another release of the same table, with its plan file.

    Without a plan file it is drawn by the law of the release whose record is whose among people who are alike. With a
    request (`spec`) it is also counted who is believed beyond it; with a population, who is alone in it. A seed makes
    it possible to repeat what is drawn. `table` is what `read_original` gives, if that was read already.
    """
    opened = Release.open(release)
    opened.manifest.mechanism.require(AttackModel)  # an audit that cannot attack must not look like one that passed
    linkage = link_records(release, population, read=read)
    if table is None:
        table = read_original(opened, original, plan_file, hierarchies=hierarchies, read=read)
    mechanism, order_tests = opened.manifest.mechanism_name, examine_row_order(opened, table)
    self_tests = make_unshuffled_tests(list_public_columns(opened), table) if list_public_columns(opened) else []
    progress(1, 3)
    try:
        matched_release = match_with_original(opened, table, plan_file, seed)
    except ReleaseFormatError:
        # Nobody needs a key, and it does not fit.
        if plan_file is not None and any(result.is_significant for result in order_tests):
            skip_reason = "the rows stand in an order that gives them away, and not where the key puts them."
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
    """What attackers find about one protected column."""

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
        """Let them look, in four steps."""
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
    """The people of whom it is certain which record is theirs; None where they are too few to judge by.

    They are a table of their own, because their values are not as frequent as those of all.
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
    """Whose record is whose: by the key of the plan file, or without one by public columns and law, if that can be."""
    if plan_file is not None:
        return match_by_key(release, table, plan_file)
    return match_by_likelihood(release, table, make_draws(seed))


def compute_odds_factor(setup: AttackSetup) -> float | None:
    """The largest factor by which what one of the records shows moves the odds of two values."""
    likelihoods = setup.compute_likelihoods(setup.rows)
    if likelihoods is None or not len(likelihoods):
        return None
    least, most = likelihoods.min(axis=1), likelihoods.max(axis=1)
    return float(np.divide(most, least, out=np.full(len(most), np.inf), where=least > 0).max())
