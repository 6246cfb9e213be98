"""Figures: pure functions from numbers and a width to a picture, a sentence that reads it, and a table.

A figure draws what it is handed and knows nobody, so whoever has numbers may draw them. There is one function for each
question that a figure decides, beside the small classes of what it needs; classes that have an `of` are made from what
plans, attacks and estimates give. No script, no chart library: text that any page, report or notebook can hold.
"""

from sfumato._figures.answer_intervals import AnswerRow, answer_rows, forest, rows_of_answer
from sfumato._figures.attack_success import GuessedRight, attackers_ladder
from sfumato._figures.belief_curve import PromisedBelief, posterior_by_prior
from sfumato._figures.bound_prices import Cost, cost_per_value, costs_of
from sfumato._figures.bucket_composition import BucketSize, Composition, bucket_composition
from sfumato._figures.class_sizes import AlikeCurve, uniqueness
from sfumato._figures.column_exposure import ColumnExposure, exposure_by_column
from sfumato._figures.error_curves import ErrorCurve, error_by_count
from sfumato._figures.estimates_against_truth import BesideTheTruth, against_truth
from sfumato._figures.figure import Column, Figure, FigureTable
from sfumato._figures.figure_style import STYLE
from sfumato._figures.known_others import Corruption, corruption
from sfumato._figures.risk_utility_plane import TradeOff, TradeOffs, risk_utility

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
