"""The three layers of a comparison as tables, for a terminal and for a page: proved, measured, and cost."""

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
    "F": "how frequent the values are",
    "C": "the public column that tells most",
    "P": "all public columns",
    "O": f"all public columns, and the values of {KNOWN_SHARE:.0%} of the others",
    "L": "nothing but the release",
}
"""What attackers know, by their letters."""

SHORT_KNOWLEDGE = {"O": f"public columns and {KNOWN_SHARE:.0%} of the others"}
"""What an attacker knows, where the words of the attack are too long for a figure."""

PROVED_NOTE = (
    "\u00d7 is by how much the odds of a value rise at most by a person's own record, whatever was believed before, "
    "what all other records teach included; \u2264 is how far a value within the prior is believed at most. Where "
    "there is none, nothing limits what is learned."
)
MEASURED_NOTE = (
    "For how many % of the people attackers guess the value right without the release {} with it, on {:,} of {:,} "
    "records, published with a key that is thrown away. Nothing measured is a bound: another attacker can be right "
    "more often."
)
COST_NOTE = (
    "Errors are standard errors in % of the count, predicted from the table: of counts of {:,} people with a value, "
    "the mean over all values that so many have, among people who are selected by something else; and of counts that "
    "find such a share of the records, the mean over the records. Bytes are what stands for a record in the place of "
    "the protected column."
)
TIME_NOTE = " Seconds are those of planning."


@dataclass(frozen=True)
class ComparisonTable:
    """A table of which every row is a mechanism, and what has to be known to read it."""

    title: str
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str
    text_columns: int = 1
    """How many of the first columns are words; the others are numbers."""


def make_guarantee_table(comparison: Comparison, *, with_standing: bool = True) -> ComparisonTable:
    """What holds for certain, of each attacker; nothing measured stands here.

    With a column for what stands against a mechanism, where no marks say so.
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
    """What attackers find."""
    rows = tuple(
        (contender.mechanism.name, *(format_guesses(contender.attacks.get(letter)) for letter in ATTACKERS))
        for contender in comparison.possible_contenders
    )
    note = MEASURED_NOTE.format(ARROW, comparison.records, comparison.total)
    return ComparisonTable("measured", ("mechanism", *ATTACKERS), rows, note)


def make_cost_table(comparison: Comparison, *, with_time: bool = True) -> ComparisonTable:
    """What counts lose, and how much room it takes; and time, where there is a column for it."""
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
    """Right without the release, and with it."""
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
