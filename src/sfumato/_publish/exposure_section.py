"""The section about public columns: unique records, and what an attacker infers from the columns."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from sfumato._document.document import Block, DataTable, Picture, Section, Text, Tone, make_section
from sfumato._figures import ClassSizeCurve, ColumnExposure, draw_exposure_by_column, draw_uniqueness
from sfumato._figures.number_format import format_exact_percent
from sfumato._profile.equivalence_classes import Uniqueness
from sfumato._risk.attackers.attack_result import EXPOSURE_EXPLANATION, Attack

HEADING = "What an attacker infers from public columns (private, not published)"
MOST_COLUMNS = 12
"""The most single columns in the table; the figure has all."""
ARROW = " \u2192 "
HEADINGS = ("knows", "correct guesses", "mean confidence in the truth", "highest", "clearly above the bound")


def make_exposure_section(exposures: Sequence[Attack], uniqueness: Uniqueness | None, bound: str = "") -> Section:
    """Makes the section, with a figure and a table for each protected column."""
    blocks: list[Block] = []
    if uniqueness is not None:
        curves = [ClassSizeCurve.of("as published", uniqueness.after_bins)]
        if uniqueness.before_bins is not None:
            curves.append(ClassSizeCurve.of("before ranges", uniqueness.before_bins))
        blocks += [Text(uniqueness.sentence), Picture(partial(draw_uniqueness, curves))]
    for name in dict.fromkeys(attack.protected_column for attack in exposures):
        attacks = [attack for attack in exposures if attack.protected_column == name]
        column_exposures = [ColumnExposure.of(attack) for attack in attacks]
        shown = _select_attackers(attacks)
        omitted = len(attacks) - len(shown)
        blocks += [
            Picture(partial(draw_exposure_by_column, column_exposures, bound=bound)),
            make_belief_table(name, shown),
            Text(f"{omitted:,} further columns disclose no more (the JSON output has all)." if omitted else ""),
        ]
    if exposures:
        explanation = EXPOSURE_EXPLANATION.format(max(attack.records for attack in exposures))
        blocks.append(Text(explanation, Tone.QUIET))
    return make_section(HEADING, *blocks, has_page_break=True)


def make_belief_table(protected_column: str, attacks: Sequence[Attack]) -> DataTable:
    """Makes the table of attack success by known columns, without the release and with it."""
    caption = (
        f"Inference of {protected_column!r} by an attacker who knows public columns, without the release{ARROW}with it"
    )
    return DataTable(caption, HEADINGS, tuple(map(_make_row, attacks)), tuple(range(1, len(HEADINGS))))


def _make_row(attack: Attack) -> tuple[str, ...]:
    known = attack.known_columns
    name = known[0] if len(known) == 1 else f"all {len(known)} columns"
    beliefs = [attack.without_release, *([] if attack.with_release is None else [attack.with_release])]
    numbers = zip(
        *((belief.success, belief.mean_belief, belief.worst_belief, belief.share_well_above) for belief in beliefs),
        strict=True,
    )
    return name, *(ARROW.join(map(format_exact_percent, pair)) for pair in numbers)


def _select_attackers(attacks: Sequence[Attack]) -> list[Attack]:
    """Selects the single columns that disclose most, in table order, and the attacker who knows all columns."""
    single_column = [attack for attack in attacks if len(attack.known_columns) == 1]
    best = sorted(single_column, key=lambda attack: attack.final_success, reverse=True)[:MOST_COLUMNS]
    return [attack for attack in attacks if attack in best or len(attack.known_columns) > 1]
