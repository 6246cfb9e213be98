"""Draws figures.

Each is a pure function from numbers and a width to a picture, a sentence about the picture, and a table.

A figure depends only on its input, so anyone with numbers may draw it. There is one function for each question, and
small classes for its input. Classes with a method `of` are made from plans, attacks and estimates. Figures are text for
any page, report or notebook, and need no script or chart library.
"""

from sfumato._figures.attack_success import AttackSuccess, draw_attack_scenarios
from sfumato._figures.belief_curve import BeliefBound, draw_posterior_by_prior
from sfumato._figures.bucket_composition import BucketComposition, BucketSize, draw_bucket_composition
from sfumato._figures.class_sizes import ClassSizeCurve, draw_uniqueness
from sfumato._figures.column_exposure import ColumnExposure, draw_exposure_by_column
from sfumato._figures.error_by_count import ErrorCurve, draw_error_by_count
from sfumato._figures.estimates_against_truth import EstimateWithTruth, draw_against_truth
from sfumato._figures.figure import Column, Figure, FigureTable
from sfumato._figures.figure_style import STYLE
from sfumato._figures.forest_plot import AnswerRow, draw_forest_plot, list_answer_rows, make_answer_rows
from sfumato._figures.risk_utility_plane import TradeOff, TradeOffCurve, draw_risk_utility
from sfumato._figures.success_by_known_others import KnownOthersCurve, draw_known_others
from sfumato._figures.value_bound_prices import BoundCost, draw_cost_per_value, list_costs

__all__ = [
    "STYLE",
    "AnswerRow",
    "AttackSuccess",
    "BeliefBound",
    "BoundCost",
    "BucketComposition",
    "BucketSize",
    "ClassSizeCurve",
    "Column",
    "ColumnExposure",
    "ErrorCurve",
    "EstimateWithTruth",
    "Figure",
    "FigureTable",
    "KnownOthersCurve",
    "TradeOff",
    "TradeOffCurve",
    "draw_against_truth",
    "draw_attack_scenarios",
    "draw_bucket_composition",
    "draw_cost_per_value",
    "draw_error_by_count",
    "draw_exposure_by_column",
    "draw_forest_plot",
    "draw_known_others",
    "draw_posterior_by_prior",
    "draw_risk_utility",
    "draw_uniqueness",
    "list_answer_rows",
    "list_costs",
    "make_answer_rows",
]
