"""Makes tables add up, on request, by moving the estimates of an answer to exact and known totals.

The plain estimates and their sums are unbiased. But estimates may be negative, and may not add up to the known totals.
`make_consistent` finds the nearest table that adds up and has no negative numbers. `calibrate` finds the nearest table
that adds up and allows negative numbers. `sum_constraints` describes the totals. `nonnegative_projection` and
`least_squares` find the tables. `conflicting_totals` explains totals that contradict each other. `known_totals` reads
totals of the analyst, and `consistent_tables` adjusts an answer.
"""

from sfumato._query.consistency.consistent_tables import CALIBRATED, CONSISTENT, Adjustment, AnswerCells
from sfumato._query.consistency.known_totals import KnownTotals, read_totals
from sfumato._query.consistency.least_squares import Calibration, calibrate
from sfumato._query.consistency.nonnegative_projection import make_consistent
from sfumato._query.consistency.sum_constraints import Family

__all__ = [
    "CALIBRATED",
    "CONSISTENT",
    "Adjustment",
    "AnswerCells",
    "Calibration",
    "Family",
    "KnownTotals",
    "calibrate",
    "make_consistent",
    "read_totals",
]
