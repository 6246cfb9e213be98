"""Every experiment runs, and its sentence is the one that is documented.

`python -m papers all --quick --out DIR` writes the lines that docs/reproduction.md must have to DIR/results.md.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from papers import EXPERIMENTS, Conditions, Experiment, Verdict
from papers.results_page import format_line

DOCUMENTED = (Path(__file__).parents[2] / "docs/reproduction.md").read_text(encoding="utf-8")
LINES = re.findall(r"^\| ([a-z-]+/\S+) \| (\w+) \| (.+) \|$", DOCUMENTED, re.MULTILINE)


def cases() -> list[object]:
    return [pytest.param(each, id=each.name, marks=[pytest.mark.full] if each.is_long else []) for each in EXPERIMENTS]


@pytest.mark.slow
@pytest.mark.parametrize("experiment", cases())
def test_experiment_says_what_is_documented(experiment: Experiment) -> None:
    outcome = experiment.run(Conditions(is_quick=True))
    assert outcome.rows
    assert {len(row) for row in outcome.rows} == {len(outcome.headings)}
    assert outcome.sentence.endswith(".")
    assert outcome.verdict in Verdict
    if experiment.is_timed:
        assert (experiment.name, outcome.verdict) in [(name, verdict) for name, verdict, _ in LINES]
    else:
        assert format_line(experiment.name, outcome.verdict, outcome.sentence) in DOCUMENTED


CONTRADICTING = {name for name, verdict, _ in LINES if verdict == Verdict.CONTRADICTS}


@pytest.mark.parametrize("name", sorted(CONTRADICTING))
def test_a_contradiction_follows_from_the_print_alone(name: str) -> None:
    """It asks for no table, and another seed and a full run say the same."""
    experiment = next(each for each in EXPERIMENTS if each.name == name)
    quick, full = Conditions(is_quick=True), Conditions(seed=2)
    sentences = {experiment.run(conditions).sentence for conditions in (quick, full)}
    assert len(sentences) == 1
    assert not quick.tables.origins
    assert not full.tables.origins


def test_the_work_that_is_contradicted_claims_it_of_every_table() -> None:
    """Theorem 1 of fine-grain; Theorem 3, Theorem 4 and equations 6 to 9 of small sums."""
    claims = {"fine-grain/theorem1", "small-sums/fig4", "small-sums/thm4", "small-sums/fig6"}
    assert claims == CONTRADICTING


def test_every_experiment_is_documented_and_no_other() -> None:
    assert {name for name, _, _ in LINES} == {each.name for each in EXPERIMENTS}
    assert {verdict for _, verdict, _ in LINES} <= set(Verdict)


def test_the_published_numbers_of_groups_are_found() -> None:
    """Table 3 of small domain randomization: 17, 18, 19, 20 and 20 initial groups; ours come from the shares alone."""
    outcome = next(each for each in EXPERIMENTS if each.name == "small-domain/table3").run(Conditions())
    assert [row[1] for row in outcome.rows] == [row[2] for row in outcome.rows] == [17, 18, 19, 20, 20]
