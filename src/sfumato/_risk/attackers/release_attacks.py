"""All attackers at once, on a release and the table it was made from: private, for the holder."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato._query.release import Release
from sfumato._readers.read_options import AS_USUAL, ReadOptions
from sfumato._request.hierarchy import Hierarchy
from sfumato._request.requirements import PrivacySpec
from sfumato._risk.attackers.attack_result import Attack
from sfumato._risk.attackers.attack_scenarios import (
    KNOWN_SHARE,
    attack_with_each_column,
    attack_with_frequencies,
    measure_by_known_share,
    run_attack_scenarios,
)
from sfumato._risk.attackers.attack_setup import AttackSetup, make_draws
from sfumato._risk.attackers.corrupted_controls import (
    Control,
    corrupt_published_values,
    make_ordered_list_controls,
    make_unshuffled_controls,
)
from sfumato._risk.attackers.planned_exposure import Target
from sfumato._risk.attackers.record_linkage import Linked, link_records, list_public_columns
from sfumato._risk.attackers.release_matching import Matched, match_by_key, match_by_likelihood, read_original
from sfumato._risk.attackers.row_order_attack import (
    LARGEST_SCORE,
    LEAST_RECORDS,
    Trail,
    detect_reused_key,
    examine_row_order,
    examine_value_table,
)
from sfumato._verify.verification import Check
from sfumato.errors import ReleaseFormatError
from sfumato.mechanisms.capabilities import AttackModel

Progress = Callable[[int, int], None]
"""Called with how many looks were taken, and how many there will be."""


@dataclass(frozen=True)
class Audit:
    """What attackers find in a release. Nothing here is a verdict: whether it is enough is for a person to decide."""

    mechanism: str
    attacks: tuple[Attack, ...]
    """Those who know least first, for each protected column; none where the order gives the records away, or where
    nobody can tell whose record is whose."""
    trails: tuple[Trail, ...]
    """What the order of the rows gives away."""
    linked: Linked
    """How many records are found by their public columns."""
    columns: tuple[Attack, ...] = ()
    """Whoever knows one public column, each in its turn, for each protected column."""
    corrupted: Mapping[str, tuple[tuple[float, float | None], ...]] = field(default_factory=dict)
    """For each protected column, how often who knows some of the others is right, by how many of them."""
    odds: Mapping[str, float | None] = field(default_factory=dict)
    """For each protected column the largest factor by which what a record shows moves odds; infinite where it rules a
    value out, None where that is not known."""
    controls: tuple[Control, ...] = ()
    """What was spoilt on purpose, and must be noticed."""
    laws: tuple[Attack, ...] = ()
    """Whoever knows the frequencies, about people of whom it is certain which record is theirs."""
    alone: int | None = None
    """How many people were matched by their public columns, where no key told whose record is whose."""
    unmatched: str = ""
    """Why there is no attack, where there is none."""

    @property
    def checks(self) -> tuple[Check, ...]:
        """What must not be so in a release that was made as it says; each fails by chance once in a million times.

        Whoever knows the frequencies must be right as often as the law of the release says, neither more nor less.
        """
        all_checks = [item.check for item in self.trails]
        for item in self.laws:
            if item.with_release is not None:
                belief = item.with_release
                sentence = (
                    f"whoever knows how frequent the values of {item.about!r} are is right for {belief.right:.1%} of "
                    f"{item.records:,} people, and by the law of the release for {belief.expected:.1%} "
                    f"({belief.surprise:.1f} standard deviations)."
                )
                all_checks.append(Check("law", abs(belief.surprise) <= LARGEST_SCORE, sentence))
        return tuple(all_checks)

    def to_json(self) -> dict[str, Any]:
        """For machines."""
        return {
            "mechanism": self.mechanism,
            "attacks": [item.to_json() for item in self.attacks],
            "columns": [item.to_json() for item in self.columns],
            "order": [{"name": item.name, "score": item.score, "records": item.records} for item in self.trails],
            "linked": self.linked.to_json(),
            "others_known": {name: [list(item) for item in shares] for name, shares in self.corrupted.items()},
            "odds_factors": {
                name: factor if factor is not None and np.isfinite(factor) else None
                for name, factor in self.odds.items()
            },
            "controls": [item.to_json() for item in self.controls],
            "matched_by": "key" if self.alone is None else "public columns and law",
            "alone": self.alone,
            "not_attacked": self.unmatched or None,
        }


NO_KEY = (
    "which record is whose cannot be told without the key of the release, because it is published what each group "
    "holds; publish with --plan-file, and name that file here."
)


def audit(  # noqa: PLR0913 - a release, a table, and what else attackers may have
    release: str | Path,
    original: Any,
    plan_file: str | Path | None = None,
    *,
    second: tuple[str | Path, str | Path | None] | None = None,
    population: Any = None,
    spec: PrivacySpec | None = None,
    known_share: float = KNOWN_SHARE,
    seed: int | None = None,
    hierarchies: Mapping[str, Hierarchy | Path] | None = None,
    read: ReadOptions = AS_USUAL,
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
    links = link_records(release, population, read=read)
    if table is None:
        table = read_original(opened, original, plan_file, hierarchies=hierarchies, read=read)
    mechanism, looks = opened.manifest.mechanism_name, examine_row_order(opened, table)
    controls = make_unshuffled_controls(list_public_columns(opened), table) if list_public_columns(opened) else []
    progress(1, 3)
    try:
        matched_release = match_with_original(opened, table, plan_file, seed)
    except ReleaseFormatError:
        if plan_file is not None and any(
            result.is_found for result in looks
        ):  # nobody needs a key, and it does not fit
            why = "the rows stand in an order that gives them away, and not where the key puts them."
            return Audit(mechanism, (), tuple(looks), links, controls=tuple(controls), unmatched=why)
        raise
    if matched_release is None:
        return Audit(mechanism, (), tuple(looks), links, controls=tuple(controls), unmatched=NO_KEY)
    looks += examine_value_table(matched_release)
    controls += make_ordered_list_controls(matched_release)
    scenes = matched_release.scenes(spec, seed)
    twins: Sequence[AttackSetup | None] = [None] * len(scenes)
    if second is not None:
        other = Release.open(second[0])
        same = read_original(other, original, second[1], hierarchies=hierarchies, read=read)
        twin = match_with_original(other, same, second[1], seed)
        twins = twins if twin is None else twin.scenes(spec, seed)
        looks.append(detect_reused_key(release, second[0]))
    steps = iter(range(2, 2 + 4 * len(scenes)))
    column_attacks = [
        _ColumnAttacks.of(
            scene, again, known_share, matched_release, lambda: progress(next(steps), 1 + 4 * len(scenes))
        )
        for scene, again in zip(scenes, twins, strict=True)
    ]
    return Audit(
        mechanism,
        tuple(attack for result in column_attacks for attack in result.attacks),
        tuple(looks),
        links,
        tuple(attack for result in column_attacks for attack in result.columns),
        {result.column: result.corrupted for result in column_attacks},
        {result.column: result.odds for result in column_attacks},
        (*controls, *(result.control for result in column_attacks if result.control is not None)),
        tuple(result.law for result in column_attacks if result.law is not None),
        None if matched_release.is_alone is None else int(matched_release.is_alone.sum()),
    )


@dataclass(frozen=True)
class _ColumnAttacks:
    """What attackers find about one protected column."""

    column: str
    attacks: tuple[Attack, ...]
    columns: tuple[Attack, ...]
    corrupted: tuple[tuple[float, float | None], ...]
    odds: float | None
    law: Attack | None
    control: Control | None

    @classmethod
    def of(
        cls,
        scene: AttackSetup,
        again: AttackSetup | None,
        known_share: float,
        release: Matched,
        step: Callable[[], None],
    ) -> _ColumnAttacks:
        """Let them look, in four steps."""
        attacks = tuple(run_attack_scenarios(scene, again, known_share=known_share))
        step()
        columns = attack_with_each_column(scene)
        step()
        corrupted = measure_by_known_share(scene) if scene.target.columns else ()
        odds = compute_odds_factor(scene)
        step()
        certain = _select_certain_people(scene, release)
        law, control = (
            (None, None) if certain is None else (attack_with_frequencies(certain), corrupt_published_values(certain))
        )
        step()
        return cls(scene.target.name, attacks, columns, corrupted, odds, law, control)


def _select_certain_people(scene: AttackSetup, release: Matched) -> AttackSetup | None:
    """The people of whom it is certain which record is theirs; None where they are too few to judge by.

    They are a table of their own, because their values are not as frequent as those of all.
    """
    if release.is_alone is None:
        return scene
    alone = np.flatnonzero(release.is_alone)
    if len(alone) < LEAST_RECORDS:
        return None
    target = Target(scene.target.name, scene.target.held[alone], scene.target.limits, {})
    rows = np.arange(target.looked_at)
    return replace(scene, target=target, rows=rows, likely=lambda wanted: scene.likely(alone[wanted]))


def match_with_original(
    release: Release, table: pa.Table, plan_file: str | Path | None, seed: int | None = None
) -> Matched | None:
    """Whose record is whose: by the key of the plan file, or without one by public columns and law, if that can be."""
    if plan_file is not None:
        return match_by_key(release, table, plan_file)
    return match_by_likelihood(release, table, make_draws(seed))


def compute_odds_factor(scene: AttackSetup) -> float | None:
    """The largest factor by which what one of the records shows moves the odds of two values."""
    likely = scene.likely(scene.rows)
    if likely is None or not len(likely):
        return None
    least, most = likely.min(axis=1), likely.max(axis=1)
    return float(np.divide(most, least, out=np.full(len(most), np.inf), where=least > 0).max())
