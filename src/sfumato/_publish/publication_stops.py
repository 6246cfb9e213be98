"""Lists the decisions that the data steward must make before publishing, with the options for each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sfumato._core.cell_values import format_values
from sfumato._figures.number_format import format_exact_percent
from sfumato._planning.predicted_error import ChosenMechanism
from sfumato._profile.sensitive_column_signs import Sign, find_sensitive_signs
from sfumato._profile.table_scan import TableScan
from sfumato._publish.request import Request
from sfumato._request.belief_bounds import propose_bound
from sfumato._request.guarantee import Guarantee
from sfumato._request.warnings import Notice
from sfumato._risk.attackers.attack_result import Attack
from sfumato._risk.attackers.predictive_columns import ColumnPrediction, list_disclosing_columns
from sfumato._risk.attackers.publication_gates import find_breach_stop, find_exposure_stop, measure_breaches

REASON = "REASON"
"""Stands for the data steward's reason in a proposed setting."""


def list_undecided_stops(request: Request, names: Sequence[str]) -> list[Notice]:
    """Lists the stop for columns without a role, from the names of the columns alone."""
    undecided = request.schema.list_undecided(names)
    if not undecided:
        return []
    has = "column has" if len(undecided) == 1 else "columns have"
    sentence = (
        f"{len(undecided)} {has} no role yet: {format_values(undecided, len(undecided))}. Give each of these columns "
        "a role."
    )
    ways_out = (
        f"Publish unchanged: `public={list(undecided)!r}`.",
        f"Drop: `drop={list(undecided)!r}`.",
    )
    return [Notice("columns-undecided", sentence, None, {"columns": len(undecided)}, undecided, ways_out)]


def list_table_stops(
    request: Request, table_scan: TableScan, column_predictions: Sequence[ColumnPrediction]
) -> list[Notice]:
    """Lists the risks of the table that the data steward has not accepted. The risks exist under every mechanism."""
    risks = request.accepted_risks
    stops = [
        *list_undecided_stops(request, [column.name for column in table_scan.columns]),
        *_list_sensitive_looks(request, table_scan),
        *_list_disclosing(request, column_predictions),
    ]
    if not risks.unique_records:
        stops += _list_unique_records(request, table_scan)
    if not risks.uncovered_values:
        stops += _list_uncovered(request, table_scan)
    return stops


def list_mechanism_stops(
    request: Request, table_scan: TableScan, chosen: ChosenMechanism, exposures: Sequence[Attack]
) -> list[Notice]:
    """Lists the risks of the chosen mechanism that the data steward has not accepted."""
    risks, stops = request.accepted_risks, []
    if not risks.exposure:
        stops.append(find_exposure_stop(exposures, chosen.mechanism))
    if chosen.mechanism.guarantee is Guarantee.MARGINAL_PRIOR and not risks.marginal_prior:
        stops.append(find_breach_stop(measure_breaches(chosen, table_scan.sample), request.breach_limit))
    return [stop for stop in stops if stop is not None]


def _list_sensitive_looks(request: Request, table_scan: TableScan) -> Iterator[Notice]:
    schema, risks = request.schema, request.accepted_risks
    signs = find_sensitive_signs(table_scan.columns, table_scan.sensitive.parts, schema.ranges)
    for sign in Sign:
        names = tuple(name for name, found in signs.items() if found is sign and not risks.accepts_column(name))
        if names:
            has = f"each {sign.value}" if len(names) > 1 else sign.value
            sentence = f"{format_values(names, len(names))} {has}, and would be published unchanged."
            numbers = {"columns": len(names)}
            yield Notice("looks-sensitive", sentence, names[0], numbers, names, _list_column_ways_out(names))


def _list_disclosing(request: Request, column_predictions: Sequence[ColumnPrediction]) -> Iterator[Notice]:
    risks = request.accepted_risks
    open_predictions = [
        prediction for prediction in column_predictions if not risks.accepts_column(prediction.columns[0])
    ]
    if disclosing := list_disclosing_columns(open_predictions):
        worst, names = disclosing
        yield Notice(
            "column-discloses",
            f"{worst.sentence}. Protecting {worst.protected_column!r} does not prevent this disclosure.",
            names[0],
            {"guessed": worst.success, "blindly": worst.blind_success},
            tuple(names),
            _list_column_ways_out(names),
        )


def _list_column_ways_out(names: Sequence[str]) -> tuple[str, ...]:
    return (
        f"Drop: `drop={list(names)!r}`.",
        f"Or accept the disclosure, with your reason: `accept_disclosing={dict.fromkeys(names, REASON)!r}`.",
    )


def _list_unique_records(request: Request, table_scan: TableScan) -> Iterator[Notice]:
    share = table_scan.uniqueness.after_bins.unique_share
    if share <= request.unique_limit:
        return
    limit = format_exact_percent(float(request.unique_limit))
    yield Notice(
        "records-unique",
        f"{format_exact_percent(share)} of records are unique on the public columns (limit: {limit}). Anyone who "
        "knows these columns of a person can find the person's record.",
        None,
        {"share": share, "limit": str(request.unique_limit)},
        (),
        (
            "Drop columns (`drop=`), or publish them in wider ranges (`ranges=`).",
            f"Or accept it, with your reason: `accept_unique={REASON!r}`.",
        ),
    )


def _list_uncovered(request: Request, table_scan: TableScan) -> Iterator[Notice]:
    bound, histogram = request.spec.bound, table_scan.histogram
    if bound is None or histogram.count_within(bound.prior):
        return
    proposed, example = propose_bound(histogram.domain_size), ""
    if histogram.count_within(proposed.prior):
        example = f", such as `prior='{proposed.prior}'` with `posterior='{proposed.posterior}'`"
    yield Notice(
        "values-uncovered",
        f"the limit on an attacker's confidence covers nobody. Every value of {request.schema.sensitive_name!r} that "
        f"occurs is more frequent than the prior {bound.prior}, so only an attacker's odds are bounded.",
        request.schema.sensitive_name,
        {"prior": str(bound.prior), "covered_share": 0.0},
        (),
        (
            f"Choose a prior above the share of the values that need protection{example}.",
            f"Or accept it, with your reason: `accept_uncovered={REASON!r}`.",
        ),
    )
