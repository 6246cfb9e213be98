"""Figures: pure functions from numbers and a width to a picture, a sentence that reads it, and a table.

A figure draws what it is handed and knows nobody, so whoever has numbers may draw them. There is one function for each
question that a figure decides, beside the small classes of what it needs; classes that have an `of` are made from what
plans, attacks and estimates give. No script, no chart library: text that any page, report or notebook can hold.
"""

from sfumato.report.alikeness import AlikeCurve, uniqueness
from sfumato.report.answers import AnswerRow, answer_rows, forest, rows_of_answer
from sfumato.report.beliefs import PromisedBelief, posterior_by_prior
from sfumato.report.composition import BucketSize, Composition, bucket_composition
from sfumato.report.corruption import Corruption, corruption
from sfumato.report.costs import Cost, cost_per_value, costs_of
from sfumato.report.error_curves import ErrorCurve, error_by_count
from sfumato.report.exposures import ColumnExposure, exposure_by_column
from sfumato.report.figure import Column, Figure, FigureTable
from sfumato.report.ladder import GuessedRight, attackers_ladder
from sfumato.report.plane import TradeOff, TradeOffs, risk_utility
from sfumato.report.style import STYLE
from sfumato.report.truth import BesideTheTruth, against_truth

__all__ = [
    "STYLE",
    "AlikeCurve",
    "AnswerRow",
    "BesideTheTruth",
    "BucketSize",
    "Column",
    "ColumnExposure",
    "Composition",
    "Corruption",
    "Cost",
    "ErrorCurve",
    "Figure",
    "FigureTable",
    "GuessedRight",
    "PromisedBelief",
    "TradeOff",
    "TradeOffs",
    "against_truth",
    "answer_rows",
    "attackers_ladder",
    "bucket_composition",
    "corruption",
    "cost_per_value",
    "costs_of",
    "error_by_count",
    "exposure_by_column",
    "forest",
    "posterior_by_prior",
    "risk_utility",
    "rows_of_answer",
    "uniqueness",
]
