"""Makes the document of a plan: the decisions, what analysts get, and what attackers learn. Private."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from sfumato._core.cell_values import format_relative_error, make_labels
from sfumato._document.document import (
    DEFAULT_DECIDER,
    Alerts,
    Block,
    DataTable,
    Decision,
    Document,
    Facts,
    Heading,
    Items,
    Picture,
    Section,
    Text,
    Tone,
    list_guarantee_blocks,
    make_section,
)
from sfumato._figures import (
    BeliefBound,
    BucketComposition,
    ErrorCurve,
    draw_bucket_composition,
    draw_cost_per_value,
    draw_error_by_count,
    draw_posterior_by_prior,
    list_costs,
)
from sfumato._figures.number_format import format_percent, format_quantity
from sfumato._planning.bound_for_error import ErrorTarget
from sfumato._planning.predicted_error import CURVE_COUNTS, ChosenMechanism
from sfumato._publish.exposure_section import make_exposure_section
from sfumato._publish.planned_answers import PlannedAnswer
from sfumato._publish.publication_plan import PublicationPlan
from sfumato._request.belief_bounds import PrivacySpec
from sfumato._request.warnings import REFUSED_CODE, Grade

FIGURE_COUNTS = (100, 300, 1_000, 3_000, 10_000, 30_000, 100_000)
MOST_SCREEN_VALUES = 12
COUNTS_CHOSEN = (
    "Method: counts of people with equal public columns. People who are tied to each other within one such group are "
    "less protected than by records. For one protected record of each person, use `records=True`."
)
ABOUT = (
    "This plan shows counts from the table, and what attackers can learn about its people. A release contains "
    "nothing of this plan. Errors are predictions. The JSON output of plan has all numbers."
)


def make_plan_document(
    outlook: PublicationPlan, target: ErrorTarget | None = None, decider: str = DEFAULT_DECIDER
) -> Document:
    """Makes the document. The document says that the request is met, unless publishing would be refused."""
    chosen = outlook.choice
    mechanism = chosen.mechanism
    bound = "" if outlook.spec is None or outlook.spec.bound is None else f"of {outlook.spec.bound.posterior}"
    sections = [
        _make_answer(outlook, decider),
        _make_errors([chosen, *chosen.alternatives], target, outlook.answers),
        _make_guarantee(outlook),
        make_section(
            "The guarantee, exactly",
            *list_guarantee_blocks(mechanism.state_guarantee(chosen.design)),
            is_page_only=True,
        ),
        make_exposure_section(outlook.exposures, outlook.uniqueness, bound, outlook.recodings),
        _make_values(chosen),
    ]
    subtitle = f"Protecting {outlook.column!r} with {mechanism.name} ({mechanism.guarantee})"
    nonempty = tuple(section for section in sections if section.blocks)
    return Document("A plan to publish a table", subtitle, nonempty, is_private=True)


def answer_question(outlook: PublicationPlan) -> str:
    """Answers in one line whether the table can be published."""
    stops = [notice for notice in outlook.notices if notice.grade is Grade.STOP]
    refusal = next((notice for notice in stops if notice.code == REFUSED_CODE), None)
    if refusal is not None:
        return f"No: {refusal.sentence}"
    answer = "Yes." if not stops else f"Yes, after {len(stops)} decision{'s' if len(stops) > 1 else ''}."
    return f"{answer} {COUNTS_CHOSEN}" if outlook.choice.has_counts else answer


def _make_answer(outlook: PublicationPlan, decider: str) -> Section:
    is_met = all(notice.grade is not Grade.STOP for notice in outlook.notices)
    others = [notice for notice in outlook.notices if notice.code != REFUSED_CODE]
    section = make_section(
        "Can I publish this?", Text(answer_question(outlook), Tone.ANSWER), Alerts.of(others), Text(ABOUT, Tone.QUIET)
    )
    return replace(section, blocks=(*section.blocks, Decision(is_met, decider)))


def _make_guarantee(outlook: PublicationPlan) -> Section:
    chosen, spec, mechanism = outlook.choice, outlook.spec, outlook.choice.mechanism
    pairs = (
        ("requested", "" if spec is None else spec.sentence),
        ("guarantee", f"{mechanism.guarantee}: {mechanism.guarantee.sentence}"),
        ("design", "" if mechanism.explanation is None else mechanism.explanation.summarize(chosen.plan)),
        ("records", f"{chosen.histogram.total:,}, with {chosen.histogram.domain_size:,} possible values"),
        ("why this mechanism", chosen.reason),
    )
    gains = tuple(gain.describe(outlook.column) for gain in outlook.gains)
    return make_section(
        "The guarantee",
        Facts("", tuple(pair for pair in pairs if pair[1])),
        Text(mechanism.state_guarantee(chosen.design).short, Tone.STRONG),
        None if spec is None else _draw_belief_curve(chosen, spec),
        Heading("If you published groups instead of values" if gains else ""),
        Items(gains),
    )


def _draw_belief_curve(chosen: ChosenMechanism, spec: PrivacySpec) -> Picture | None:
    if spec.bound is None:
        return None
    value_counts = zip(make_labels(chosen.histogram.values), chosen.histogram.counts, strict=True)
    shares = {name: count / max(chosen.histogram.total, 1) for name, count in value_counts}
    is_any_prior = chosen.mechanism.guarantee.covers_all_statements
    belief_bound = BeliefBound.of(spec.bound, shares, is_any_prior=is_any_prior)
    return Picture(partial(draw_posterior_by_prior, belief_bound))


def _make_errors(
    plans: Sequence[ChosenMechanism], target: ErrorTarget | None, answers: Sequence[PlannedAnswer]
) -> Section:
    """Shows the errors of all plans that meet the request, the chosen plan first. Weaker ones are dashed."""
    own_guarantee = plans[0].mechanism.guarantee
    curves = [
        ErrorCurve.of(
            item.mechanism.name,
            item.predict_error_curve(FIGURE_COUNTS),
            guarantee=item.mechanism.guarantee,
            is_weaker=not item.mechanism.guarantee.covers(own_guarantee),
        )
        for item in plans
    ]
    sizes = sorted({*CURVE_COUNTS, *([] if target is None else [target.count])})
    rows = [*_list_question_rows(plans), *_list_curve_rows(plans, sizes)]
    reasons = dict.fromkeys(
        prediction.reason for plan in plans for prediction in plan.question_predictions if prediction.reason
    )
    headings = ("number of people with", *(f"{plan.mechanism.name} ({plan.mechanism.guarantee})" for plan in plans))
    caption = "Typical standard error of an answer, in % of the true number. A tenth is a group unrelated to the value"
    blocks: list[Block] = [
        *_list_own_questions(answers),
        DataTable(caption, headings, tuple(rows), tuple(range(1, len(headings)))),
        Text(_explain_curve(plans[0], sizes), Tone.QUIET),
        Picture(partial(draw_error_by_count, curves)),
        *(Text(f"No prediction: {reason}.", Tone.QUIET) for reason in reasons),
        Text("" if target is None else target.sentence),
    ]
    return make_section("What analysts will get", *blocks, has_page_break=True)


def _list_own_questions(answers: Sequence[PlannedAnswer]) -> list[Block]:
    """Lists the data steward's questions. A question with several numbers has a line of its own above its numbers."""
    rows: list[tuple[str, ...]] = []
    for answer in answers:
        if len(answer.numbers) > 1:
            rows.append((answer.sql, "", "", ""))
        for number in answer.numbers:
            label = answer.sql if len(answer.numbers) == 1 else f"  {number.label}"
            error = "none" if number.standard_error is None else f"± {format_quantity(number.standard_error)}"
            truth = "unknown" if number.truth is None else format_quantity(number.truth)
            rows.append((label, truth, error, format_relative_error(number.relative_error)))
    headings = ("question", "true number (private)", "standard error", "error in %")
    problems = [f"Question in line {answer.line}: {answer.problem}" for answer in answers if answer.problem]
    caption = "Your questions: true numbers from the table, and standard errors from one simulated release"
    return [
        DataTable(caption, headings, tuple(rows), (1, 2, 3), max_rows=len(rows), max_screen_rows=len(rows)),
        *map(Text, problems),
    ]


def _list_question_rows(plans: Sequence[ChosenMechanism]) -> list[tuple[str, ...]]:
    question_rows = zip(*(plan.question_predictions for plan in plans), strict=True)
    return [
        (predictions[0].counted_text, *(format_relative_error(item.relative_error) for item in predictions))
        for predictions in question_rows
        if any(item.relative_error is not None for item in predictions)
    ]


def _list_curve_rows(plans: Sequence[ChosenMechanism], sizes: Sequence[float]) -> list[tuple[str, ...]]:
    curve_rows = zip(*(plan.predict_error_curve(sizes) for plan in plans), strict=True)
    return [
        (f"any value ({points[0].count:,})", *(format_relative_error(point.evenly) for point in points))
        for points in curve_rows
        if any(point.evenly is not None for point in points)
    ]


def _explain_curve(chosen: ChosenMechanism, sizes: Sequence[float]) -> str:
    points = [point for point in chosen.predict_error_curve(sizes) if point.by_records is not None]
    if not points:
        return ""
    errors = ", ".join(f"{format_relative_error(point.by_records)} at {point.count:,}" for point in points)
    count = f"{points[0].count:,}"
    return (
        f"Any value ({count}): the error of a count of {count} people with a value, averaged over all values that at "
        "least "
        f"{count} people have. Averaged over people instead of values: {errors}."
    )


def _make_values(chosen: ChosenMechanism) -> Section:
    """Shows each value with its count, the cost of its bound, and the composition of buckets."""
    histogram, plan = chosen.histogram, chosen.to_json()
    explanation = chosen.mechanism.explanation
    value_columns = [column for column in explanation.value_columns if column.entry in plan] if explanation else []
    names = make_labels(histogram.values)

    def make_row(place: int) -> tuple[str, ...]:
        count = histogram.counts[place]
        numbers = ((column, plan[column.entry].get(names[place])) for column in value_columns)
        cells = (column.placeholder if number is None else column.format_number(number) for column, number in numbers)
        return names[place], f"{count:,}", format_percent(count / max(histogram.total, 1)), *cells

    order = sorted(range(histogram.domain_size), key=lambda place: -histogram.counts[place])
    headings = ("value", "count", "share", *(column.heading for column in value_columns))
    costs, composition = list_costs(plan), BucketComposition.from_plan(plan)
    values = DataTable(
        "Values, most frequent first",
        headings,
        tuple(map(make_row, order)),
        (1, 2),
        max_screen_rows=MOST_SCREEN_VALUES,
    )
    return make_section(
        "The values",
        Picture(partial(draw_cost_per_value, costs)) if costs else None,
        Picture(partial(draw_bucket_composition, composition)) if composition else None,
        values,
        *(
            DataTable(table.title, tuple(table.headings), tuple(map(tuple, table.rows)))
            for table in (explanation.list_tables(chosen.plan) if explanation else ())
        ),
        has_page_break=True,
    )
