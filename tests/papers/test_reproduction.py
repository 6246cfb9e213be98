"""Every experiment runs, and its sentence is the one that is documented."""

from __future__ import annotations

import pytest

from sfumato.reproduce import EXPERIMENTS, Conditions, Experiment, Verdict


@pytest.mark.slow
@pytest.mark.parametrize("experiment", EXPERIMENTS, ids=lambda each: each.name)
def test_experiment_gives_a_table_and_a_sentence(experiment: Experiment) -> None:
    outcome = experiment.run(Conditions(is_quick=True))
    assert outcome.rows
    assert {len(row) for row in outcome.rows} == {len(outcome.headings)}
    assert outcome.sentence.endswith(".")
    assert outcome.verdict in Verdict


def test_the_published_numbers_of_groups_are_found() -> None:
    """Table 3 of small domain randomization: 17, 18, 19, 20 and 20 initial groups; ours come from the shares alone."""
    outcome = next(each for each in EXPERIMENTS if each.name == "small-domain/table3").run(Conditions())
    assert [row[1] for row in outcome.rows] == [row[2] for row in outcome.rows] == [17, 18, 19, 20, 20]
