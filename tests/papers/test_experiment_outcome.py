"""Tables and sentences of an experiment."""

from __future__ import annotations

import csv
import io
import re
from fractions import Fraction
from pathlib import Path

from papers import experiment_outcome
from papers.experiment_outcome import Outcome, Verdict, is_within, judge


def test_csv_has_all_digits_and_markdown_few() -> None:
    outcome = Outcome(("a|b", "c"), ((1 / 3, Fraction(1, 3)), ("x,y", None)), Verdict.AGREES, "So.")
    assert list(csv.reader(io.StringIO(outcome.to_csv()))) == [
        ["a|b", "c"],
        ["0.3333333333333333", "1/3"],
        ["x,y", ""],
    ]
    assert outcome.to_markdown().splitlines() == [
        "| a\\|b | c |",
        "| --- | --- |",
        "| 0.3333 | 1/3 |",
        "| x,y | - |",
    ]


def test_one_number_off_is_a_difference() -> None:
    assert judge([is_within(2.94, 2.9, 0.05), is_within(3.95, 4.0, 0.05)]) is Verdict.AGREES
    assert judge([is_within(2.94, 2.9, 0.05), is_within(3.94, 4.0, 0.05)]) is Verdict.DIFFERS


def test_only_a_refuted_claim_about_every_table_is_a_contradiction() -> None:
    assert judge([False]) is Verdict.DIFFERS
    assert judge([True], refuted=True) is Verdict.CONTRADICTS
    assert judge([], refuted=False) is Verdict.AGREES


def test_one_place_decides_the_verdicts() -> None:
    """No experiment sets a verdict by hand, but for what was not published at all."""
    package = Path(experiment_outcome.__file__).parent
    texts = {path.name: path.read_text(encoding="utf-8") for path in package.rglob("*.py")}
    assert {name for name, text in texts.items() if re.search(r"Verdict\.(AGREES|DIFFERS|CONTRADICTS)", text)} == {
        "experiment_outcome.py"
    }
