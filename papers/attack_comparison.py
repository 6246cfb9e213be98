"""What none of the works shows: every mechanism at one posterior, on the axis of attackers.

The works compare errors at numbers that look alike: a posterior of 1/3 and a diversity of 3. What those numbers keep
attackers from is not alike. Nothing is published here; what records would show is drawn, and attackers are let at it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from papers.experiment import Conditions, Experiment
from papers.experiment_outcome import Outcome, Verdict
from sfumato._comparison.compare_mechanisms import choose_usual_count
from sfumato._comparison.mechanism_trial import Rehearsal, Trial, plan_trial, run_attack, select_options
from sfumato._engines.local_engine import LocalEngine
from sfumato._figures.line_chart import Axis, MeasuredLine, draw_lines
from sfumato._figures.number_format import format_percent, join_phrases
from sfumato._publication_plan import Request, open_table, survey_table
from sfumato._request.guarantee import Guarantee
from sfumato._request.requirements import BreachBound
from sfumato._request.schema import Schema
from sfumato._risk.attackers.attack_result import Attack
from sfumato._risk.attackers.attack_setup import make_draws
from sfumato.mechanisms import REGISTRY

LETTERS = {"F": "frequencies", "C": "one column", "P": "all columns", "O": "columns, others"}
"""The attackers, and what they know of a person and of others; those who know least first."""
BOUND = BreachBound("1/10", "1/3")


@dataclass(frozen=True)
class Tried:
    """A mechanism at the bound, and what each attacker found."""

    trial: Trial
    attacks: Mapping[str, Attack]

    @property
    def name(self) -> str:
        """The mechanism's."""
        return self.trial.mechanism.name

    @property
    def told(self) -> str:
        """Its name, with what its promise is about where that is less than any statement."""
        is_single = self.trial.mechanism.guarantee is Guarantee.SINGLE_VALUES
        return f"{self.name} for single values" if is_single else self.name

    @property
    def holds_for_everybody(self) -> bool:
        """Whether the promise covers all these attackers."""
        return self.trial.mechanism.guarantee.is_for_everybody

    def right(self, letter: str) -> float:
        """The share of people that an attacker guesses right with the release."""
        found = self.attacks[letter]
        return (found.with_release or found.without).right


def _tried(conditions: Conditions, rows: int) -> Iterator[Tried]:
    """Every mechanism that has a plan for the table."""
    sample = conditions.tables.get("occupations", rows, conditions.seed)
    telling = tuple(name for name in sample.table.column_names if name != sample.sensitive)
    request = Request(sample.table, schema=Schema.of(sample.sensitive), spec=BOUND, accept_telling=telling)
    engine = LocalEngine()
    with tempfile.TemporaryDirectory() as folder:
        source = open_table(request, Path(folder), engine)
        request, found = survey_table(request, source, engine, Path(folder), make_draws(conditions.seed))
    stage = Rehearsal.of(found, BOUND, conditions.seed)
    for mechanism in conditions.steps(REGISTRY.values()):
        trial = plan_trial(mechanism, BOUND, request, stage, choose_usual_count(found.histogram))
        if trial.chosen is not None:
            scenes = stage.scenes(stage.chosen(trial, select_options(mechanism, request)))
            yield Tried(trial, {letter: run_attack(scenes, letter) for letter in LETTERS})


def attackers(conditions: Conditions) -> Outcome:
    """How many people each attacker guesses right, by mechanism."""
    tried = list(_tried(conditions, conditions.either(2_000, 100_000)))
    places = dict(enumerate(LETTERS))
    without = {letter: tried[0].attacks[letter].without.right for letter in LETTERS}
    lines = [
        MeasuredLine("no release", tuple((place, without[letter]) for place, letter in places.items())),
        *(
            MeasuredLine(each.name, tuple((place, each.right(letter)) for place, letter in places.items()))
            for each in tried
        ),
    ]
    rows = [
        (each.name, str(each.trial.mechanism.guarantee), 100 * (each.trial.error or 0.0), *_shares(each))
        for each in tried
    ]
    rows.append(("no release", None, None, *(100 * without[letter] for letter in LETTERS)))
    headings = (
        "mechanism",
        "guarantee",
        "error of a count in %",
        *(f"{each}: right in %" for each in LETTERS.values()),
    )
    return Outcome(
        headings,
        tuple(rows),
        Verdict.BEYOND,
        _sentence(tried, without),
        draw_lines(
            "How many people attackers guess right, at one posterior of 1/3",
            Axis("what the attacker knows", lambda place: LETTERS[places[round(place)]]),
            Axis("share of the people guessed right", format_percent),
            lines,
            reading=_reading(tried, without),
        ),
    )


def _shares(each: Tried) -> tuple[float, ...]:
    return tuple(100 * each.right(letter) for letter in LETTERS)


def _reading(tried: list[Tried], without: Mapping[str, float]) -> str:
    worst = max(tried, key=lambda each: each.right("P"))
    return (
        f"Somebody who knows all public columns guesses {format_percent(without['P'])} right without a release, and "
        f"{format_percent(worst.right('P'))} with one by {worst.name}; others who know more may guess more."
    )


def _sentence(tried: list[Tried], without: Mapping[str, float]) -> str:
    strong = [each for each in tried if each.holds_for_everybody]
    weak = [each for each in tried if not each.holds_for_everybody]
    beyond = [each for each in tried if each.right("P") > float(BOUND.posterior)]
    best = min(strong, key=lambda each: each.trial.error or 0.0)
    return (
        f"At one posterior, {BOUND.posterior} from {BOUND.prior}, whoever knows all public columns guesses "
        f"{format_percent(without['P'])} of the people right without a release, {_range(strong)} with one that holds "
        f"for every prior ({join_phrases([each.told for each in strong])}), and {_range(weak)} with the others; more "
        f"than {BOUND.posterior} with {join_phrases([each.name for each in beyond]) or 'none'}, whose promises do not "
        f"cover such knowledge. Of those that hold for every prior, {best.name} has the least error."
    )


def _range(tried: list[Tried]) -> str:
    low, high = (format_percent(end(each.right("P") for each in tried)) for end in (min, max))
    return low if low == high else f"{low} to {high}"


EXPERIMENTS = (Experiment("beyond/attackers", "every mechanism on the axis of attackers", attackers),)
