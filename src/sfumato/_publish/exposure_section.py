"""Makes the section about public columns, with unique records and what an attacker infers from the columns."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from sfumato._document.document import Block, DataTable, Picture, Section, Text, Tone, make_section
from sfumato._figures import ClassSizeCurve, ColumnExposure, draw_exposure_by_column, draw_uniqueness
from sfumato._figures.number_format import format_exact_percent
from sfumato._profile.equivalence_classes import Uniqueness
from sfumato._profile.recoding_search import Recoding, RecodingProposals
from sfumato._risk.attackers.attack_result import EXPOSURE_EXPLANATION, Attack

HEADING = "What an attacker infers from public columns (private, not published)"
MOST_COLUMNS = 12
"""The most single columns in the table. The figure shows all."""
ARROW = " \u2192 "
MOST_RECODINGS = 8
"""The most changes in a table. The JSON output has all."""
RECODING_HEADINGS = ("change", "unique records", "detail lost", "type")
RECODING_EXPLANATION = (
    f"Unique records: the share of {{:,}} records, before{ARROW}after the change. Detail lost: the share of the "
    "column's "
    "entropy that the change removes (100% if it drops the column). The proposals follow from the public columns alone."
)
NO_RECODING = "Changes to a few columns make less than a tenth of the unique records common. Drop more columns."
UNLINKED_HEADINGS = ("knows", "own record known", "own record unknown")
UNLINKED_EXPLANATION = (
    "'Own record known': the attacker knows which of the records with equal public columns is the person's. 'Own "
    "record unknown': nobody knows that, as in the release itself, whose rows have a random order. For people who are "
    "unique, both are the same. People in published counts have no record, so both columns use the counts. An unknown "
    "record was attacked for {:,} people, in whole groups of equal public columns."
)
"""Explains the two numbers, given the number of people attacked without a known record."""
HEADINGS = ("knows", "correct guesses", "mean confidence in the truth", "highest", "clearly above the bound")


def make_exposure_section(
    exposures: Sequence[Attack],
    uniqueness: Uniqueness | None,
    bound: str = "",
    recodings: RecodingProposals | None = None,
) -> Section:
    """Makes the section: a figure and a table for each protected column, and proposals to recode public columns."""
    blocks: list[Block] = []
    if uniqueness is not None:
        curves = [ClassSizeCurve.of("as published", uniqueness.after_bins)]
        if uniqueness.before_bins is not None:
            curves.append(ClassSizeCurve.of("before ranges", uniqueness.before_bins))
        blocks += [Text(uniqueness.sentence), Picture(partial(draw_uniqueness, curves))]
    if recodings is not None:
        blocks += _list_recoding_blocks(recodings)
    for name in dict.fromkeys(attack.protected_column for attack in exposures):
        attacks = [attack for attack in exposures if attack.protected_column == name]
        column_exposures = [ColumnExposure.of(attack) for attack in attacks]
        shown = _select_attackers(attacks)
        omitted = len(attacks) - len(shown)
        blocks += [
            Picture(partial(draw_exposure_by_column, column_exposures, bound=bound)),
            make_belief_table(name, shown),
            *list_unlinked_blocks(name, attacks),
            Text(f"{omitted:,} further columns disclose no more (the JSON output has all)." if omitted else ""),
        ]
    if exposures:
        explanation = EXPOSURE_EXPLANATION.format(max(attack.records for attack in exposures))
        blocks.append(Text(explanation, Tone.QUIET))
    return make_section(HEADING, *blocks, has_page_break=True)


def _list_recoding_blocks(recodings: RecodingProposals) -> list[Block]:
    """Lists the proposed changes, single and combined, with the detail that each loses."""
    if not (recodings.single or recodings.combined):
        return [Text(NO_RECODING)]
    tables = [
        DataTable(caption, RECODING_HEADINGS, tuple(map(_make_recoding_row, changes[:MOST_RECODINGS])), (1, 2))
        for caption, changes in (
            ("Single changes that make fewer records unique, best first", recodings.single),
            ("Changes to combine; each row includes the changes above it", recodings.combined),
        )
        if changes
    ]
    return [*tables, Text(RECODING_EXPLANATION.format(recodings.records), Tone.QUIET)]


def _make_recoding_row(recoding: Recoding) -> tuple[str, ...]:
    shares = map(format_exact_percent, (recoding.unique_share_before, recoding.unique_share_after))
    return recoding.description, ARROW.join(shares), f"{recoding.loss:.0%}", recoding.setting


def make_belief_table(protected_column: str, attacks: Sequence[Attack]) -> DataTable:
    """Makes the table of attack success by known columns, without the release and with it."""
    caption = (
        f"Inference of {protected_column!r} by an attacker who knows public columns: without{ARROW}with the release"
    )
    return DataTable(caption, HEADINGS, tuple(map(_make_row, attacks)), tuple(range(1, len(HEADINGS))))


def list_unlinked_blocks(protected_column: str, attacks: Sequence[Attack]) -> list[Block]:
    """Lists attack success with and without knowing which record is the person's. Empty if no attack has both."""
    rows = tuple(
        (attack.knowledge, *(ARROW.join(map(format_exact_percent, pair)) for pair in pairs))
        for attack in attacks
        if (pairs := _list_success_pairs(attack))
    )
    if not rows:
        return []
    records = max(attack.unlinked.records for attack in attacks if attack.unlinked is not None)
    caption = f"Correct guesses of {protected_column!r}, if the person's own record is known, and if it is not"
    return [
        DataTable(caption, UNLINKED_HEADINGS, rows, (1, 2)),
        Text(UNLINKED_EXPLANATION.format(records), Tone.QUIET),
    ]


def _list_success_pairs(attack: Attack) -> list[tuple[float, float]]:
    """The success without and with the release, for a known and an unknown record."""
    if attack.unlinked is None or attack.with_release is None:
        return []
    return [
        (attack.without_release.success, attack.with_release.success),
        (attack.unlinked.without_release.success, attack.unlinked.with_release.success),
    ]


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
