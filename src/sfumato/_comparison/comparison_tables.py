"""Makes the three tables of a comparison: proved bounds, measured attack success, and errors of counts."""

from __future__ import annotations

from dataclasses import dataclass

from sfumato._comparison.comparison_outcome import Comparison, Contender
from sfumato._comparison.mechanism_trial import ATTACKERS
from sfumato._core.cell_values import format_relative_error
from sfumato._figures.number_format import NOT_AVAILABLE, format_percent
from sfumato._planning.predicted_error import SELECTIVITIES
from sfumato._risk.attackers.attack_result import Attack
from sfumato._risk.attackers.attack_scenarios import KNOWN_SHARE

ARROW = "\u2192"
KNOWLEDGE = {
    "F": "the frequencies of values",
    "C": "the public column that discloses most",
    "P": "all public columns",
    "O": f"all public columns, and the values of {KNOWN_SHARE:.0%} of the others",
    "L": "only the release",
}
"""The attackers' knowledge, by letter."""

SHORT_KNOWLEDGE = {"O": f"public columns and {KNOWN_SHARE:.0%} of the others"}
"""The attackers' knowledge in short form, for figures."""

PROVED_NOTE = (
    "\u00d7 marks the largest factor by which a person's own record, or being counted, raises the odds of a value. "
    "This limit holds whatever the attacker knew before or learns from other records. "
    "\u2264 marks the highest possible confidence in a value that is no more frequent than the prior. "
    "Without either mark, nothing limits what the attacker learns. "
    "Standing: a weaker mechanism has a weaker guarantee than requested. "
    "`publish` refuses a mechanism that is marked as refused."
)
MEASURED_NOTE = (
    "Attack success is the % of people whose value is guessed correctly, without the release {} with the release, if "
    "the person's own record is known. "
    "Success was measured on {:,} of {:,} records, in a trial release. Measurements are not bounds, because another "
    "attacker "
    "may succeed more often."
)
UNLINKED_NOTE = (
    "The same attackers, if nobody knows which of the records with equal public columns is the person's. This table "
    "describes real releases, because their rows have a random order. People in published counts have no record. Use "
    "this table to compare published counts with published records. The table above assumes that the person's own "
    "record is known. That assumption overstates what records disclose about people who are alike."
)
COST_NOTE = (
    "Errors are predicted standard errors in % of the count. The first column is for counts of {:,} people with a "
    "value, averaged over the values with at least this count. The other columns are for counts of the given share "
    "of records, averaged over records. Bytes are the size of the published value of a record."
)


@dataclass(frozen=True)
class ComparisonTable:
    """A table with one row for each mechanism, and a note that explains the table."""

    title: str
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str
    text_columns: int = 1
    """The number of leading text columns; the others are numbers."""


def make_guarantee_table(comparison: Comparison) -> ComparisonTable:
    """The table of proved bounds against each attacker, with the standing of each mechanism."""
    rows = tuple(
        (
            contender.mechanism.name,
            contender.mechanism.guarantee,
            comparison.find_standing(contender),
            *(contender.describe_bound(letter) for letter in ATTACKERS),
        )
        for contender in comparison.possible_contenders
    )
    headings = ("mechanism", "guarantee", "standing")
    return ComparisonTable("Proved", (*headings, *ATTACKERS), rows, PROVED_NOTE, text_columns=len(headings))


def make_attack_table(comparison: Comparison) -> ComparisonTable:
    """The table of the attack success of all attackers."""
    rows = tuple(
        (contender.mechanism.name, *(format_guesses(contender.attacks.get(letter)) for letter in ATTACKERS))
        for contender in comparison.possible_contenders
    )
    note = MEASURED_NOTE.format(ARROW, comparison.records, comparison.total)
    return ComparisonTable("Measured", ("mechanism", *ATTACKERS), rows, note)


def make_unlinked_table(comparison: Comparison) -> ComparisonTable | None:
    """The table of the attack success of attackers who do not know which record is the person's; None without any."""
    letters = list_unlinked_letters(comparison)
    if not letters:
        return None
    rows = tuple(
        (
            contender.mechanism.name,
            *(_format_unlinked_guesses(contender.attacks.get(letter)) for letter in letters),
        )
        for contender in comparison.possible_contenders
    )
    return ComparisonTable("Own record unknown", ("mechanism", *letters), rows, UNLINKED_NOTE)


def list_unlinked_letters(comparison: Comparison) -> list[str]:
    """The attackers that also attacked without knowing which record is the person's."""
    return [
        letter
        for letter in ATTACKERS
        if any(
            letter in contender.attacks and contender.attacks[letter].unlinked is not None
            for contender in comparison.possible_contenders
        )
    ]


def _format_unlinked_guesses(attack: Attack | None) -> str:
    if attack is None or attack.unlinked is None:
        return NOT_AVAILABLE
    unlinked = attack.unlinked
    return f"{100 * unlinked.without_release.success:.1f}{ARROW}{100 * unlinked.with_release.success:.1f}"


def make_cost_table(comparison: Comparison) -> ComparisonTable:
    """The table of the errors of counts and the size of records."""
    shares = tuple(f"{100 * float(contender):g}%" for contender in SELECTIVITIES)
    headings = ("mechanism", "setting", f"at {comparison.count_size:,}", *shares, "bytes")
    rows = tuple(_make_cost_row(contender) for contender in comparison.possible_contenders)
    return ComparisonTable(
        "Cost",
        headings,
        rows,
        COST_NOTE.format(comparison.count_size),
        text_columns=2,
    )


def format_guesses(attack: Attack | None) -> str:
    """Attack success without and with the release."""
    if attack is None:
        return NOT_AVAILABLE
    with_release = NOT_AVAILABLE if attack.with_release is None else f"{100 * attack.with_release.success:.1f}"
    return f"{100 * attack.without_release.success:.1f}{ARROW}{with_release}"


def _make_cost_row(contender: Contender) -> tuple[str, ...]:
    trial = contender.trial
    chosen, spec = trial.chosen_plan, trial.spec
    shares = (
        [NOT_AVAILABLE] * len(SELECTIVITIES)
        if chosen is None
        else map(format_percent, chosen.predicted_errors.values())
    )
    bytes_text = NOT_AVAILABLE if contender.record_bytes is None else f"{contender.record_bytes:.1f}"
    setting = "" if spec is None else spec.summary
    return (
        contender.mechanism.name,
        setting,
        format_relative_error(trial.error),
        *shares,
        bytes_text,
    )
