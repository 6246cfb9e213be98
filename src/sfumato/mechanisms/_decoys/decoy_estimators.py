"""The estimators of decoys: three with different assumptions about leaks between values, and two biased ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

import numpy as np

from sfumato._core.array_types import Floats, Indices, Mask
from sfumato._core.cell_values import Value, choose_example_value, split_value
from sfumato._core.markdown import format_as_code
from sfumato._records import Naming
from sfumato._records.sql_quoting import quote_if_needed, write_equality
from sfumato._records.tally import Holdings, Tally
from sfumato._request.warnings import Notice
from sfumato._terminal_safe import escape_unprintable
from sfumato.errors import QueryError
from sfumato.mechanisms._decoys.decoy_estimation import (
    DecoyDesign,
    DistributionMaker,
    count_all_records,
    estimate_counts,
    estimate_shrunk,
    estimate_total,
    make_even_distribution,
    make_fitted_distribution,
    make_group_distribution,
    make_twin,
)
from sfumato.mechanisms._decoys.leak_matrix import GroupCreation
from sfumato.mechanisms._decoys.splu_iteration import estimate_by_paper
from sfumato.mechanisms._randomized_response.estimators import BIAS_NOTE
from sfumato.mechanisms.estimator import BrowserEstimator, Method, Moments, SumPiece

# SQL that counts decoys in any tool, for the README of a release.

_CLOSED_FORM_SQL = """\
With any SQL tool, compare how often the selected records publish the value with how often all records publish it. This
method assumes that a record of any other value publishes this value equally often. `sfumato query` is more accurate. In
DuckDB, for {column}, with a condition on the public columns instead of `true`:

    WITH whole AS (SELECT {shown} / COUNT(*) AS share FROM '{data}'),
         selected AS (SELECT COUNT(*) AS records, {shown} AS shown FROM '{data}' WHERE true)
    SELECT records * share + (shown - records * share) * {size} * (1 - share) / (1 - {size} * share)
    FROM whole, selected"""


def format_closed_form(naming: Naming, values: Sequence[Value], group_size: int, data: str) -> str:
    """Writes the closed form for the first sensitive column: R phi + (y - R phi) / d."""
    column, (example, *_) = naming.sensitive[0], split_value(choose_example_value(values))
    count_expression = escape_unprintable(f"COUNT(*) FILTER (WHERE {write_equality(quote_if_needed(column), example)})")
    return _CLOSED_FORM_SQL.format(column=format_as_code(column), shown=count_expression, size=group_size, data=data)


# ---------------------------------------------------------------------------------------------------------------------

SELECTED_SHARE = 0.1
"""The share of people in the predicted counts."""
RELATIVE_CHANGE = 0.5
"""The assumed relative difference between a value's frequency in such a group of people and in the whole table."""
WORTHWHILE_RATIO = 0.9
"""An error below this fraction of another one makes a method worth proposing."""

SHUFFLED_ASSUMPTION = "none, because the records of a value are dealt to groups at random"
EVEN_ASSUMPTION = (
    "records of every other value publish a value equally often, as in mixed groups; the interval is too short for "
    "values that share groups with a value in a third of the groups or more"
)
MEETING_ASSUMPTION = "values are in the same groups as often as their frequencies allow, as in mixed groups"


def _make_method(
    make_distribution: DistributionMaker, label: str, assumption: str, groups: Sequence[GroupCreation]
) -> Method[DecoyDesign]:
    """Reverses the leaks under an assumption about groups. The error is given only for groups that meet the assumption.

    In other groups values meet in other proportions, and no interval takes this into account. On a million records,
    such 95% intervals contained the true number in only 72 to 94 of 100 cases.
    """

    def count_values(design: DecoyDesign, tally: Tally, value_sets: Sequence[Indices]) -> list[Moments]:
        estimates = estimate_counts(design, tally, value_sets, make_distribution)
        if design.creation in groups:
            return estimates
        is_whole = tally.rows == count_all_records(tally)  # these are the published numbers under any assumption
        return [_drop_interval(moments, is_whole, design, groups) for moments in estimates]

    def estimate_sum(design: DecoyDesign, pieces: Sequence[SumPiece]) -> Moments:
        moments = estimate_total(design, pieces, make_distribution)
        if design.creation in groups:
            return moments
        return _drop_interval(moments, np.zeros(len(moments), dtype=np.bool_), design, groups)

    def make_page_twin(design: DecoyDesign, whole: Tally, holdings: Holdings | None) -> BrowserEstimator:
        if design.creation not in groups:
            raise QueryError(
                f"{_explain_no_interval(design, groups)}; a page shows only numbers with an interval, so use sfumato "
                "query.",
                code="no-interval",
            )
        return make_twin(design, whole, holdings, make_distribution)

    return Method(label, assumption, count_values, needs_whole=True, total=estimate_sum, twin=make_page_twin)


def _drop_interval(moments: Moments, is_kept: Mask, design: DecoyDesign, groups: Sequence[GroupCreation]) -> Moments:
    """The same numbers with unknown errors, except for numbers to keep, certain numbers and unknown numbers."""
    is_kept = is_kept | moments.is_certain | (moments.base >= (moments.most - moments.least) ** 2)
    notes = [
        note if keeps_note else _explain_no_interval(design, groups)
        for note, keeps_note in zip(moments.all_notes, is_kept, strict=True)
    ]
    return replace(moments, base=np.where(is_kept, moments.base, np.nan), notes=notes)


def _explain_no_interval(design: DecoyDesign, groups: Sequence[GroupCreation]) -> str:
    """The reason why there is no interval."""
    if design.creation is GroupCreation.ANATOMY:
        return (
            "no interval, because in groups of the kind 'anatomy' the release does not determine how often values meet"
        )
    return (
        f"no interval, because this method is for {' and '.join(groups)} groups and these groups are "
        f"{design.creation}; use the method inverse"
    )


METHODS: Mapping[str, Method[DecoyDesign]] = MappingProxyType(
    {
        "fitted": _make_method(
            make_fitted_distribution,
            "fit of evenly mixed decoy groups, with a normal confidence interval",
            MEETING_ASSUMPTION,
            [GroupCreation.MIXED],
        ),
        "closed": _make_method(
            make_even_distribution,
            "closed form for decoys, with a normal confidence interval",
            EVEN_ASSUMPTION,
            [GroupCreation.MIXED],
        ),
        "inverse": _make_method(
            make_group_distribution,
            "inverse of recomputed decoy groups, with a normal confidence interval",
            SHUFFLED_ASSUMPTION,
            [GroupCreation.MIXED, GroupCreation.ANATOMY_RANDOM],
        ),
        "shrunk": Method(
            "shrunk towards independence (empirical Bayes), biased",
            SHUFFLED_ASSUMPTION,
            estimate_shrunk,
            needs_whole=True,
            note=BIAS_NOTE,
        ),
        "paper": Method(
            "iteration of the paper with its 1% rule, biased",
            EVEN_ASSUMPTION,
            estimate_by_paper,
            needs_whole=True,
            note=BIAS_NOTE,
            is_reproduction=True,
        ),
    }
)


def propose_estimator(design: DecoyDesign, /) -> str | None:
    """Proposes another estimator for large errors."""
    if len(design.sizes) > 1:
        return None
    return (
        "if an error is large compared with its number, the method 'shrunk' is more accurate on average. This method "
        "is biased towards independence of value and condition, and gives no interval."
    )


def describe_shrunk_gain(counts: Floats, errors: Floats) -> list[Notice]:
    """The number of values for which `estimate_shrunk` predicts a smaller error, from true counts and standard errors.

    Let r be the relative error of a count, and t the relative change of the frequency by the condition. Then a count is
    shrunk by r² / (r² + t²) of its change. Its error becomes r t / sqrt(r² + t²) on average over changes.
    """
    has_error = (counts > 0) & np.isfinite(errors) & (errors > 0)
    relative = errors[has_error] / counts[has_error]
    shrunk_errors = relative * RELATIVE_CHANGE / np.hypot(relative, RELATIVE_CHANGE)
    is_better = shrunk_errors < WORTHWHILE_RATIO * relative
    if not is_better.any():
        return []
    usual, smaller = (float(np.median(errors_of_values[is_better])) for errors_of_values in (relative, shrunk_errors))
    bias = usual**2 / (usual**2 + RELATIVE_CHANGE**2)
    sentence = (
        "for counts among a tenth of the people, `method='shrunk'` is predicted to be more accurate than the default "
        f"for {int(is_better.sum())} of {len(counts)} values. Its median error is {smaller:,.0%} instead of "
        f"{usual:,.0%}. This prediction assumes that the frequencies of the values in this tenth differ by about "
        f"{RELATIVE_CHANGE:.0%} from those in the whole table. The method is biased: it ignores about {bias:.0%} of "
        "this difference."
    )
    numbers = {"default": usual, "shrunk": smaller, "values": int(is_better.sum()), "bias": bias}
    return [Notice("shrunk-is-closer", sentence, numbers=numbers)]


MANUAL_SQL = """\
With any SQL tool, compare how often the selected records publish the value with how often all records publish it. This
method assumes that a record of any other value publishes this value equally often. `sfumato query` is more accurate. In
DuckDB, for `{column}`, with a condition on the public columns instead of `true`:

    WITH whole AS (SELECT {shown} / COUNT(*) AS share FROM '{data}'),
         selected AS (SELECT COUNT(*) AS records, {shown} AS shown FROM '{data}' WHERE true)
    SELECT records * share + (shown - records * share) * {size} * (1 - share) / (1 - {size} * share)
    FROM whole, selected"""
"""A query for tools that have no estimation weights."""
