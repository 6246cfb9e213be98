"""The three layers of a comparison as tables for terminal and page: proved, measured, and cost."""

from __future__ import annotations

from dataclasses import dataclass

from sfumato._comparison.comparison_outcome import Comparison, Contender
from sfumato._comparison.mechanism_trial import ATTACKERS
from sfumato._core.cell_values import format_relative_error
from sfumato._figures.number_format import format_percent
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
    "\u00d7 is the largest factor by which a person's own record raises the odds of a value, whatever the attacker "
    "knew before or learns from other records. \u2264 is the highest confidence in a value within the prior. Without "
    "either, nothing limits what the attacker learns."
)
MEASURED_NOTE = (
    "Attack success: % of people whose value is guessed correctly, without the release {} with it, on {:,} of {:,} "
    "records, published with a discarded key. Measurements are not bounds: another attacker may succeed more often."
)
COST_NOTE = (
    "Errors are predicted standard errors in % of the count. First, counts of {:,} people with a value, selected by "
    "other columns, averaged over values with at least this count. Then, counts of the given share of records, "
    "averaged over records. Bytes are those of the published value of a record."
)
TIME_NOTE = " Seconds are the planning time."


@dataclass(frozen=True)
class ComparisonTable:
    """A table with one row for each mechanism, and a note that explains it."""

    title: str
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str
    text_columns: int = 1
    """The number of leading text columns; the others are numbers."""


def make_guarantee_table(comparison: Comparison, *, with_standing: bool = True) -> ComparisonTable:
    """The proved bounds against each attacker; no measurements.

    An extra column names what counts against a mechanism, unless marks do.
    """
    rows = tuple(
        (
            contender.mechanism.name,
            contender.mechanism.guarantee,
            *((comparison.describe_standing(contender),) if with_standing else ()),
            *(contender.describe_bound(letter) for letter in ATTACKERS),
        )
        for contender in comparison.possible_contenders
    )
    text_headings = ("mechanism", "guarantee", *(("standing",) if with_standing else ()))
    return ComparisonTable("proved", (*text_headings, *ATTACKERS), rows, PROVED_NOTE, text_columns=len(text_headings))


def make_attack_table(comparison: Comparison) -> ComparisonTable:
    """The attack success of all attackers."""
    rows = tuple(
        (contender.mechanism.name, *(format_guesses(contender.attacks.get(letter)) for letter in ATTACKERS))
        for contender in comparison.possible_contenders
    )
    note = MEASURED_NOTE.format(ARROW, comparison.records, comparison.total)
    return ComparisonTable("measured", ("mechanism", *ATTACKERS), rows, note)


def make_cost_table(comparison: Comparison, *, with_time: bool = True) -> ComparisonTable:
    """The errors of counts and the size of records; with a column for planning time if requested."""
    shares = tuple(f"{100 * float(contender):g}%" for contender in SELECTIVITIES)
    headings = ("mechanism", "setting", f"at {comparison.count_size:,}", *shares, "bytes", "seconds")
    width = len(headings) if with_time else -1
    rows = tuple(_make_cost_row(contender)[:width] for contender in comparison.possible_contenders)
    return ComparisonTable(
        "cost",
        headings[:width],
        rows,
        COST_NOTE.format(comparison.count_size) + (TIME_NOTE if with_time else ""),
        text_columns=2,
    )


def format_guesses(attack: Attack | None) -> str:
    """Attack success without and with the release."""
    if attack is None:
        return "not told"
    with_release = "not told" if attack.with_release is None else f"{100 * attack.with_release.success:.1f}"
    return f"{100 * attack.without_release.success:.1f}{ARROW}{with_release}"


def _make_cost_row(contender: Contender) -> tuple[str, ...]:
    trial = contender.trial
    chosen, spec = trial.chosen_plan, trial.spec
    shares = (
        ["not told"] * len(SELECTIVITIES) if chosen is None else map(format_percent, chosen.predicted_errors.values())
    )
    bytes_text = "not told" if contender.record_bytes is None else f"{contender.record_bytes:.1f}"
    setting = "" if spec is None else spec.summary
    return (
        contender.mechanism.name,
        setting,
        format_relative_error(trial.error),
        *shares,
        bytes_text,
        f"{trial.seconds:.1f}",
    )
