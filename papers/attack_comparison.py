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
from sfumato._comparison.mechanism_trial import Trial, TrialTable, plan_trial, run_attack, select_options
from sfumato._engines.local_engine import LocalEngine
from sfumato._figures.line_chart import Axis, MeasuredLine, draw_lines
from sfumato._figures.number_format import format_percent, join_phrases
from sfumato._publish.publication_plan import open_table, survey_table
from sfumato._publish.request import Request
from sfumato._request.belief_bounds import BreachBound
from sfumato._request.guarantee import Guarantee
from sfumato._request.schema import Schema
from sfumato._risk.attackers.attack_result import Attack
from sfumato._risk.attackers.attack_setup import make_draws
from sfumato.mechanisms import REGISTRY

ATTACKERS = {"F": "frequencies", "C": "one column", "P": "all columns", "O": "columns, others"}
"""The attackers, and what they know of a person and of others; those who know least first."""
BOUND = BreachBound("1/10", "1/3")


@dataclass(frozen=True)
class AttackedMechanism:
    """A mechanism at the bound, and what each attacker found."""

    trial: Trial
    attacks: Mapping[str, Attack]

    @property
    def name(self) -> str:
        """The mechanism's."""
        return self.trial.mechanism.name

    @property
    def label(self) -> str:
        """Its name, with what its promise is about where that is less than any statement."""
        is_single = self.trial.mechanism.guarantee is Guarantee.SINGLE_VALUES
        return f"{self.name} for single values" if is_single else self.name

    @property
    def is_for_everybody(self) -> bool:
        """Whether the promise covers all these attackers."""
        return self.trial.mechanism.guarantee.is_for_everybody

    def get_success(self, letter: str) -> float:
        """The share of people that an attacker guesses right with the release."""
        attack = self.attacks[letter]
        return (attack.with_release or attack.without_release).success


def _attack_mechanisms(conditions: Conditions, rows: int) -> Iterator[AttackedMechanism]:
    """Every mechanism that has a plan for the table."""
    sample = conditions.tables.get_sample("occupations", rows, conditions.seed)
    public_names = tuple(name for name in sample.table.column_names if name != sample.sensitive_column)
    request = Request(
        sample.table,
        schema=Schema.of(sample.sensitive_column, public="*"),
        spec=BOUND,
        accept_disclosing=dict.fromkeys(public_names, "nothing is published"),
    )
    engine = LocalEngine()
    with tempfile.TemporaryDirectory() as folder:
        source = open_table(request, Path(folder), engine)
        request, survey = survey_table(request, source, engine, Path(folder), make_draws(conditions.seed))
    rehearsal = TrialTable.of(survey, BOUND, conditions.seed)
    for mechanism in conditions.iter_steps(REGISTRY.values()):
        trial = plan_trial(mechanism, BOUND, request, rehearsal, choose_usual_count(survey.histogram))
        if trial.chosen_plan is not None:
            setups = rehearsal.make_setups(rehearsal.make_plan(trial, select_options(mechanism, request)))
            yield AttackedMechanism(trial, {letter: run_attack(setups, letter) for letter in ATTACKERS})


def compare_attackers(conditions: Conditions) -> Outcome:
    """How many people each attacker guesses right, by mechanism."""
    mechanisms = list(_attack_mechanisms(conditions, conditions.choose(2_000, 100_000)))
    places = dict(enumerate(ATTACKERS))
    success_without = {letter: mechanisms[0].attacks[letter].without_release.success for letter in ATTACKERS}
    lines = [
        MeasuredLine("no release", tuple((place, success_without[letter]) for place, letter in places.items())),
        *(
            MeasuredLine(
                mechanism.name, tuple((place, mechanism.get_success(letter)) for place, letter in places.items())
            )
            for mechanism in mechanisms
        ),
    ]
    rows = [
        (
            mechanism.name,
            str(mechanism.trial.mechanism.guarantee),
            100 * (mechanism.trial.error or 0.0),
            *_list_success(mechanism),
        )
        for mechanism in mechanisms
    ]
    rows.append(("no release", None, None, *(100 * success_without[letter] for letter in ATTACKERS)))
    headings = (
        "mechanism",
        "guarantee",
        "error of a count in %",
        *(f"{mechanism}: right in %" for mechanism in ATTACKERS.values()),
    )
    return Outcome(
        headings,
        tuple(rows),
        Verdict.BEYOND,
        _write_sentence(mechanisms, success_without),
        draw_lines(
            "How many people attackers guess right, at one posterior of 1/3",
            Axis("what the attacker knows", lambda place: ATTACKERS[places[round(place)]]),
            Axis("share of the people guessed right", format_percent),
            lines,
            reading=_write_reading(mechanisms, success_without),
        ),
    )


def _list_success(mechanism: AttackedMechanism) -> tuple[float, ...]:
    return tuple(100 * mechanism.get_success(letter) for letter in ATTACKERS)


def _write_reading(mechanisms: list[AttackedMechanism], success_without: Mapping[str, float]) -> str:
    worst = max(mechanisms, key=lambda mechanism: mechanism.get_success("P"))
    return (
        f"Somebody who knows all public columns guesses {format_percent(success_without['P'])} right without a "
        f"release, and {format_percent(worst.get_success('P'))} with one by {worst.name}; others who know more may "
        "guess more."
    )


def _write_sentence(mechanisms: list[AttackedMechanism], success_without: Mapping[str, float]) -> str:
    strong = [mechanism for mechanism in mechanisms if mechanism.is_for_everybody]
    weak = [mechanism for mechanism in mechanisms if not mechanism.is_for_everybody]
    beyond = [mechanism for mechanism in mechanisms if mechanism.get_success("P") > float(BOUND.posterior)]
    best = min(strong, key=lambda mechanism: mechanism.trial.error or 0.0)
    return (
        f"At one posterior, {BOUND.posterior} from {BOUND.prior}, whoever knows all public columns guesses "
        f"{format_percent(success_without['P'])} of the people right without a release, {_format_range(strong)} with "
        f"one that holds for every prior ({join_phrases([mechanism.label for mechanism in strong])}), and "
        f"{_format_range(weak)} with the others; more than {BOUND.posterior} with "
        f"{join_phrases([mechanism.name for mechanism in beyond]) or 'none'}, whose promises do not cover such "
        f"knowledge. Of those that hold for every prior, {best.name} has the least error."
    )


def _format_range(mechanisms: list[AttackedMechanism]) -> str:
    low, high = (format_percent(end(mechanism.get_success("P") for mechanism in mechanisms)) for end in (min, max))
    return low if low == high else f"{low} to {high}"


EXPERIMENTS = (Experiment("beyond/attackers", "every mechanism on the axis of attackers", compare_attackers),)
