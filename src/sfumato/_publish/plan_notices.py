"""Lists the notices of a plan: about public columns, and about the chosen mechanism and its bound."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from sfumato._core.random_draws import Draws
from sfumato._figures.number_format import format_percent, format_upper_factor
from sfumato._planning.predicted_error import ChosenMechanism, compute_even_error
from sfumato._profile.table_scan import TableScan
from sfumato._profile.table_warnings import warn_of_frequent_values
from sfumato._publish.publication_stops import (
    NOTABLE_DISCLOSED_SHARE,
)
from sfumato._publish.request import Request
from sfumato._request.belief_bounds import BreachBound, PrivacySpec
from sfumato._request.warnings import NOTICE_CODES, Notice, NoticeNumber
from sfumato._risk.attackers.attack_target import Target
from sfumato._risk.attackers.predictive_columns import (
    ColumnPrediction,
    count_disclosed_records,
)
from sfumato._risk.attackers.published_crowds import count_planned_one_valued
from sfumato.errors import (
    MissingCapabilityError,
)
from sfumato.mechanisms import REGISTRY
from sfumato.mechanisms.capabilities import ErrorPrediction, PlanExplanation

if TYPE_CHECKING:  # it builds releases, which need plans
    pass

NOTABLE_UNIQUE_SHARE = 0.05
"""The share of unique records from which a notice is given."""
LARGEST_USUAL_AMPLIFICATION = 19
"""By this factor on odds, a belief of one half rises to 95%. A larger factor gives hardly any protection."""


def list_column_notices(
    request: Request,
    table_survey: TableScan,
    targets: Sequence[Target],
    column_predictions: Sequence[ColumnPrediction],
    stops: Sequence[Notice] = (),
) -> list[Notice]:
    """Notices about public columns that disclose something, but do not stop the publication."""
    notices, sample, bound, risks = [], table_survey.sample, request.spec.bound, request.accepted_risks
    unique_share = table_survey.uniqueness.after_bins.unique_share
    is_stop = unique_share > request.unique_limit and not risks.unique_records
    if unique_share >= NOTABLE_UNIQUE_SHARE and not is_stop:
        sentence = (
            f"{unique_share:.1%} of the records are unique on the public columns, so anyone who knows these "
            "columns can re-identify the person; use wider ranges (`ranges=`), or drop columns (`drop=`)."
        )
        notices.append(Notice("records-alone", sentence, None, {"share": unique_share}))
    if not sample.is_whole:
        sentence = (
            f"the risk of public columns was estimated on a random sample of {sample.records:,} of {sample.total:,} "
            "records."
        )
        notices.append(Notice("records-sampled", sentence, None, {"records": sample.records, "total": sample.total}))
    for predictor in column_predictions:
        if predictor.is_predictive and risks.accepts_column(predictor.columns[0]):
            numbers: dict[str, NoticeNumber] = {"guessed": predictor.success, "blindly": predictor.blind_success}
            notices.append(
                Notice("telling-column", f"{predictor.sentence}; you accepted this.", predictor.columns[0], numbers)
            )
        elif predictor.is_coarser and not predictor.is_predictive and not risks.accepts_column(predictor.columns[0]):
            sentence = (
                f"public column {predictor.columns[0]!r} is a coarser form of {predictor.protected_column!r}, so it "
                "discloses with certainty the group to which every person's value belongs; drop the column "
                f"(`drop={[predictor.columns[0]]!r}`)."
            )
            notices.append(Notice("coarser-column", sentence, predictor.columns[0]))
    if bound is None:
        return notices
    stopped = {name for stop in stops if stop.code == "column-discloses" for name in stop.columns}
    for target in targets:
        for name, codes in sample.columns.items():
            disclosed_records = count_disclosed_records(
                codes, target.true_codes, target.size, float(bound.prior), float(bound.posterior)
            )
            share = disclosed_records / sample.records
            if share >= NOTABLE_DISCLOSED_SHARE and not risks.accepts_column(name) and name not in stopped:
                sentence = (
                    f"public column {name!r} discloses the {target.name!r} of {share:.1%} of the records. In the "
                    f"whole table, the value of these records has a share of at most {bound.prior}. Among records "
                    "with the "
                    f"same {name!r}, the value has a share above {bound.posterior}. Drop or coarsen the column."
                )
                notices.append(Notice("telling-groups", sentence, name, {"records": disclosed_records, "share": share}))
    return notices


def list_plan_notices(chosen: ChosenMechanism, spec: PrivacySpec, column: str) -> list[Notice]:
    """Notices about the chosen plan. Adds the name of the column, because a mechanism does not know this name."""
    notices = [Notice("mechanism-chosen", chosen.reason)] if chosen.reason and chosen.alternatives else []
    if spec.bound is not None and spec.bound.person_amplification > LARGEST_USUAL_AMPLIFICATION:
        notices.append(_make_weak_bound_notice(spec.bound))
    if spec.bound is not None and chosen.mechanism.guarantee.covers_all_statements:
        notices += warn_of_frequent_values(chosen.histogram, spec.bound, column)
        notices += [] if spec.rows == 1 else [_make_shared_bound_notice(chosen, spec.bound)]
    for capability in (ErrorPrediction, PlanExplanation, *chosen.mechanism.attack_capabilities):
        try:
            chosen.mechanism.require(capability)
        except MissingCapabilityError as error:
            notices.append(Notice("capability-missing", str(error), None, {"capability": error.capability}))
    return [*notices, *(replace(remark, column=column) for remark in chosen.remarks)]


def list_crowd_notices(chosen: ChosenMechanism, table_survey: TableScan, column: str) -> list[Notice]:
    """The notice about people in small groups with one value, if the mechanism publishes counts of groups."""
    if chosen.mechanism.crowd_counts is None:
        return []
    people, total = count_planned_one_valued(chosen, table_survey.sample), table_survey.histogram.total
    if people is None:
        sentence = (
            f"people in small groups with one value of {column!r} were not counted, because the table has more than "
            f"{table_survey.sample.records:,} records. `sfumato audit` counts them after publishing."
        )
        return [Notice("one-valued-groups", sentence, column, {"total": total})]
    if not people:
        return []
    sentence = (
        f"{people:,} people ({format_percent(people / total)} of all) are in published counts of fewer than 11 people "
        f"who all have the same {column!r}. Counts disclose such a shared value more clearly than records. Use wider "
        "ranges (`ranges=`), count only larger groups (`smallest_crowd=11`), or publish records (`records=True`)."
    )
    return [Notice("one-valued-groups", sentence, column, {"people": people, "total": total})]


def _make_weak_bound_notice(bound: BreachBound) -> Notice:
    sentence = (
        f"the bound protects little: odds can rise by a factor of up to "
        f"{format_upper_factor(bound.person_amplification)}, and a belief of {bound.prior} to {bound.posterior}; "
        "choose a smaller posterior (`posterior=`)."
    )
    return Notice("weak-bound", sentence, None, {"amplification": str(bound.person_amplification)})


def _make_shared_bound_notice(chosen: ChosenMechanism, bound: BreachBound) -> Notice:
    """The notice about the cost of sharing the bound among the rows of a person."""
    draws = Draws.for_planning()
    even_errors = [
        compute_even_error(chosen.mechanism, row_bound, chosen.mechanism.options(), draws, chosen.histogram)
        for row_bound in (bound, bound.share_among_rows(1))
    ]
    factor = (even_errors[0] or math.inf) / (even_errors[1] or math.inf)
    sentence = (
        f"up to {bound.rows} rows of a person share the bound, so each row multiplies an attacker's odds by at most "
        f"{format_upper_factor(bound.amplification)} instead of "
        f"{format_upper_factor(bound.person_amplification)}. The error of a count is {factor:.1f} times the error "
        "with one row per person. The risk of public columns is shown for "
        "each row separately. An attacker who combines the rows of a person learns more, but at most what the bound "
        "for persons allows."
    )
    return Notice("shared-bound", sentence, None, {"rows": bound.rows, "error_factor": factor})


def list_notice_codes() -> tuple[str, ...]:
    """Lists the codes of all notices. The codes of the mechanisms' remarks come last."""
    explanations = [item.explanation for item in REGISTRY.values() if item.explanation is not None]
    return tuple(dict.fromkeys((*NOTICE_CODES, *(code for item in explanations for code in item.remark_codes))))
