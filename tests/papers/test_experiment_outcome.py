"""Tables and sentences of an experiment."""

from __future__ import annotations

import csv
import io
from fractions import Fraction

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
