"""The page of a plan: the planned release, predicted errors, and exposure by public columns. Private."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from sfumato._comparison.comparison_outcome import Comparison
from sfumato._core.cell_values import format_relative_error, make_labels
from sfumato._figures import (
    BeliefBound,
    BucketComposition,
    ClassSizeCurve,
    ColumnExposure,
    ErrorCurve,
    draw_bucket_composition,
    draw_cost_per_value,
    draw_error_by_count,
    draw_exposure_by_column,
    draw_posterior_by_prior,
    draw_uniqueness,
    list_costs,
)
from sfumato._figures.number_format import format_exact_percent, format_percent
from sfumato._figures.svg import element
from sfumato._planning.bound_for_error import ErrorTarget
from sfumato._planning.predicted_error import ChosenMechanism
from sfumato._publish.publication_plan import PublicationPlan
from sfumato._report.comparison_page import list_alternatives
from sfumato._report.html_page import (
    DEFAULT_DECIDER,
    Page,
    Section,
    render_decision,
    render_facts,
    render_figure,
    render_list,
    render_paragraph,
    render_table,
)
from sfumato._request.belief_bounds import PrivacySpec
from sfumato._request.guarantee import Guarantee
from sfumato._risk.attackers.attack_result import EXPOSURE_EXPLANATION, Attack

COUNTS = (100, 300, 1_000, 3_000, 10_000, 30_000, 100_000)
ABOUT = (
    "This page shows counts of the table and what attackers can learn about its people. No release contains any of "
    "this. Errors are predictions. The JSON output of plan has all numbers."
)
REFUSED_CODE = "would-be-refused"
"""The code of the notice that publishing would be refused."""


def make_plan_page(  # noqa: PLR0913, PLR0917 - plan, request and decider
    outlook: PublicationPlan,
    spec: PrivacySpec,
    column: str,
    target: ErrorTarget | None = None,
    decider: str = DEFAULT_DECIDER,
    comparison: Comparison | None = None,
) -> Page:
    """Makes the page of `plan`, with figures; the request is met unless publishing would be refused.

    A comparison adds the errors and the attack success of every mechanism.
    """
    chosen = outlook.choice
    sections = [
        Section("The plan", _render_plan(outlook, spec, column, target, decider)),
        Section("Errors of answers", _render_answers([chosen, *chosen.alternatives], target), has_page_break=True),
        Section("What an attacker infers from public columns", _render_exposure(outlook, spec), has_page_break=True),
        Section("The values", _render_values(chosen), has_page_break=True),
        *([] if comparison is None else list_alternatives(comparison)),
    ]
    nonempty_sections = tuple(section for section in sections if section.body)
    mechanism = chosen.mechanism
    subtitle = f"Protecting {column!r} with {mechanism.name} ({mechanism.guarantee})"
    return Page("A plan to publish a table", subtitle, nonempty_sections, is_private=True)


def _render_plan(
    outlook: PublicationPlan, spec: PrivacySpec, column: str, target: ErrorTarget | None, decider: str
) -> str:
    chosen, mechanism = outlook.choice, outlook.choice.mechanism
    refusals = [item.sentence[:1].upper() + item.sentence[1:] for item in outlook.notices if item.code == REFUSED_CODE]
    fact_rows = [
        ("requested", spec.sentence),
        ("guarantee", f"{mechanism.guarantee}: {mechanism.guarantee.sentence}"),
        ("design", "" if mechanism.explanation is None else mechanism.explanation.summarize(chosen.plan)),
        ("records", f"{chosen.histogram.total:,}, with {chosen.histogram.domain_size:,} possible values"),
    ]
    if chosen.reason:
        fact_rows.append(("why this mechanism", chosen.reason))
    parts = [
        render_paragraph(ABOUT, "quiet"),
        render_facts(f"Plan for {column!r}", [pair for pair in fact_rows if pair[1]]),
        element("div", render_paragraph(mechanism.state_guarantee(chosen.design)), class_="promise"),
        *_list_warnings(outlook),  # before the signature
        render_decision(not refusals, decider, refusals),
    ]
    if spec.bound is not None:
        value_counts = zip(make_labels(chosen.histogram.values), chosen.histogram.counts, strict=True)
        shares = {name: count / max(chosen.histogram.total, 1) for name, count in value_counts}
        is_any_prior = mechanism.guarantee is Guarantee.ANY_PRIOR
        belief_bound = BeliefBound.of(spec.bound, shares, is_any_prior=is_any_prior)
        parts.append(render_figure(partial(draw_posterior_by_prior, belief_bound)))
    if outlook.gains:
        sentences = (item.describe(column) for item in outlook.gains)
        parts += [element("h3", "If you published groups instead of values"), render_list(sentences)]
    return "".join(parts)


def _list_warnings(outlook: PublicationPlan) -> list[str]:
    """Lists the notices for the data steward, without those shown in the decision box."""
    sentences = [
        warning.sentence[:1].upper() + warning.sentence[1:]
        for warning in outlook.notices
        if warning.code != REFUSED_CODE
    ]
    return [element("h3", "Before you decide"), render_list(sentences)] if sentences else []


def _render_answers(plans: Sequence[ChosenMechanism], target: ErrorTarget | None) -> str:
    """Renders all plans that meet the request, the chosen one first; weaker guarantees are dashed."""
    own_guarantee = plans[0].mechanism.guarantee
    curves = [
        ErrorCurve.of(
            item.mechanism.name,
            item.predict_error_curve(COUNTS),
            guarantee=item.mechanism.guarantee,
            is_weaker=not item.mechanism.guarantee.covers(own_guarantee),
        )
        for item in plans
    ]
    question_rows = zip(*(plan.question_predictions for plan in plans), strict=True)
    rows = [
        (item[0].counted_text, *(format_relative_error(prediction.relative_error) for prediction in item))
        for item in question_rows
        if any(prediction.relative_error is not None for prediction in item)
    ]
    headings = ("number of people with", *(f"{item.mechanism.name} ({item.mechanism.guarantee})" for item in plans))
    reasons = dict.fromkeys(item.reason for plan in plans for item in plan.question_predictions if item.reason)
    caption = "Typical error of an answer (standard error, in % of the true number), the chosen plan first"
    return "".join(
        [
            render_figure(partial(draw_error_by_count, curves)),
            render_table(caption, headings, rows, numbers=range(1, len(headings))),
            *(render_paragraph(f"No prediction: {reason}.", "quiet") for reason in reasons),
            "" if target is None else render_paragraph(target.sentence),
        ]
    )


def _render_exposure(outlook: PublicationPlan, spec: PrivacySpec) -> str:
    """Renders for each protected column the exposure by public columns, and the share of unique records."""
    parts: list[str] = []
    if outlook.exposures:
        bound = "" if spec.bound is None else f"of {spec.bound.posterior}"
        for about in dict.fromkeys(attack.protected_column for attack in outlook.exposures):
            column_attacks = [attack for attack in outlook.exposures if attack.protected_column == about]
            exposures = [ColumnExposure.of(attack) for attack in column_attacks]
            parts += [
                render_figure(partial(draw_exposure_by_column, exposures, bound=bound)),
                _render_exposure_table(about, column_attacks),
            ]
        parts.append(
            render_paragraph(EXPOSURE_EXPLANATION.format(max(attack.records for attack in outlook.exposures)), "quiet")
        )
    if outlook.uniqueness is not None:
        curves = [ClassSizeCurve.of("as published", outlook.uniqueness.after_bins)]
        if outlook.uniqueness.before_bins is not None:
            curves.append(ClassSizeCurve.of("before ranges", outlook.uniqueness.before_bins))
        parts += [render_figure(partial(draw_uniqueness, curves)), render_paragraph(outlook.uniqueness.sentence)]
    return "".join(parts)


def _render_exposure_table(about: str, exposures: Sequence[Attack]) -> str:
    def iter_rows() -> Iterator[tuple[str, ...]]:
        for attack in exposures:
            columns_text = (
                attack.known_columns[0]
                if len(attack.known_columns) == 1
                else f"all {len(attack.known_columns)} columns"
            )
            beliefs = [attack.without_release, *([] if attack.with_release is None else [attack.with_release])]
            numbers = zip(
                *(
                    (belief.success, belief.mean_belief, belief.worst_belief, belief.share_well_above)
                    for belief in beliefs
                ),
                strict=True,
            )
            yield columns_text, *(" \u2192 ".join(map(format_exact_percent, pair)) for pair in numbers)

    caption = f"Inference of {about!r} by an attacker who knows public columns, without the release \u2192 with it"
    headings = ("knows", "correct guesses", "mean confidence in the truth", "highest", "clearly above the bound")
    return render_table(caption, headings, iter_rows(), numbers=range(1, 5))


def _render_values(chosen: ChosenMechanism) -> str:
    """Renders each value with its count, the cost of its bound, and the composition of buckets."""
    histogram, plan = chosen.histogram, chosen.to_json()
    explanation = chosen.mechanism.explanation
    extra_columns = (
        [value_column for value_column in explanation.value_columns if value_column.entry in plan]
        if explanation
        else []
    )
    names = make_labels(histogram.values)
    order = sorted(range(histogram.domain_size), key=lambda place: -histogram.counts[place])

    def make_row(place: int) -> tuple[str, ...]:
        count = histogram.counts[place]
        numbers = ((value_column, plan[value_column.entry].get(names[place])) for value_column in extra_columns)
        own_cells = (
            value_column.placeholder if number is None else value_column.format_number(number)
            for value_column, number in numbers
        )
        return names[place], f"{count:,}", format_percent(count / max(histogram.total, 1)), *own_cells

    headings = ("value", "count", "share", *(value_column.heading for value_column in extra_columns))
    parts = []
    if costs := list_costs(plan):
        parts.append(render_figure(partial(draw_cost_per_value, costs)))
    if composition := BucketComposition.from_plan(plan):
        parts.append(render_figure(partial(draw_bucket_composition, composition)))
    parts.append(render_table("Values, most frequent first", headings, map(make_row, order), numbers=(1, 2)))
    for extra_table in explanation.list_tables(chosen.plan) if explanation else ():
        parts.append(render_table(extra_table.title, extra_table.headings, extra_table.rows))
    return "".join(parts)
