"""A plan as a page: what would be published, how far off answers would be, and what public columns tell. Private."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from sfumato._comparison.comparison_outcome import Comparison
from sfumato._core.cell_values import labels, off_by
from sfumato._figures import (
    AlikeCurve,
    ColumnExposure,
    Composition,
    ErrorCurve,
    PromisedBelief,
    bucket_composition,
    cost_per_value,
    costs_of,
    error_by_count,
    exposure_by_column,
    posterior_by_prior,
    uniqueness,
)
from sfumato._figures.number_format import percent, percent_exactly
from sfumato._figures.svg import element
from sfumato._planning.bound_for_error import ErrorTarget
from sfumato._planning.predicted_error import Chosen
from sfumato._publication_plan import Outlook
from sfumato._report.comparison_page import alternatives
from sfumato._report.html_page import HOLDER, Page, Section, decision, drawn, facts, listed, paragraph, table
from sfumato._request.guarantee import Guarantee
from sfumato._request.requirements import PrivacySpec
from sfumato._risk.attackers.attack_result import EXPOSURE_WORDS, Attack

COUNTS = (100, 300, 1_000, 3_000, 10_000, 30_000, 100_000)
ABOUT = (
    "This page shows counts of the table and what can be learned about its people. Nothing of it is in a release. "
    "Errors are predicted before anything is drawn. All numbers are in the output of plan --json."
)
REFUSED = "would-be-refused"
"""The code of the notice that a publication would stop."""


def plan_page(  # noqa: PLR0913, PLR0917 - what was found, what was asked, and who decides
    found: Outlook,
    spec: PrivacySpec,
    column: str,
    target: ErrorTarget | None = None,
    decider: str = HOLDER,
    compared: Comparison | None = None,
) -> Page:
    """What `plan` shows, with figures; the request is met unless publishing would stop.

    With a comparison, also what every mechanism would come to, and what attackers find under each.
    """
    chosen = found.chosen
    sections = [
        Section("The plan", _plan(found, spec, column, target, decider)),
        Section("How far off answers are", _answers([chosen, *chosen.others], target), starts_page=True),
        Section("What public columns tell", _exposed(found, spec), starts_page=True),
        Section("The values", _values(chosen), starts_page=True),
        *([] if compared is None else alternatives(compared)),
    ]
    shown = tuple(each for each in sections if each.body)
    mechanism = chosen.mechanism
    subtitle = f"Protecting {column!r} with {mechanism.name} ({mechanism.guarantee})"
    return Page("A plan to publish a table", subtitle, shown, is_private=True)


def _plan(found: Outlook, spec: PrivacySpec, column: str, target: ErrorTarget | None, decider: str) -> str:
    chosen, mechanism = found.chosen, found.chosen.mechanism
    refused = [each.sentence[:1].upper() + each.sentence[1:] for each in found.notices if each.code == REFUSED]
    known = [
        ("asked for", spec.sentence),
        ("guarantee", f"{mechanism.guarantee}: {mechanism.guarantee.sentence}"),
        ("decided", "" if mechanism.explanation is None else mechanism.explanation.summarize(chosen.plan)),
        ("records", f"{chosen.histogram.total:,}, of {chosen.histogram.domain_size:,} values"),
    ]
    if chosen.reason:
        known.append(("why this mechanism", chosen.reason))
    parts = [
        paragraph(ABOUT, "quiet"),
        facts(f"What would be published of {column!r}", [pair for pair in known if pair[1]]),
        element("div", paragraph(mechanism.state_guarantee(chosen.design)), class_="promise"),
        *_notices(found),  # before anybody signs
        decision(not refused, decider, refused),
    ]
    if spec.bound is not None:
        counted = zip(labels(chosen.histogram.values), chosen.histogram.counts, strict=True)
        shares = {name: count / max(chosen.histogram.total, 1) for name, count in counted}
        holds = mechanism.guarantee is Guarantee.ANY_PRIOR
        promised = PromisedBelief.of(spec.bound, shares, for_every_belief=holds)
        parts.append(drawn(partial(posterior_by_prior, promised)))
    if found.gains:
        said = (each.words(column) for each in found.gains)
        parts += [element("h3", "If groups were published in the place of values"), listed(said)]
    return "".join(parts)


def _notices(found: Outlook) -> list[str]:
    """What the holder should know, but for what is said with the decision."""
    said = [each.sentence[:1].upper() + each.sentence[1:] for each in found.notices if each.code != REFUSED]
    return [element("h3", "What you should know before you decide"), listed(said)] if said else []


def _answers(plans: Sequence[Chosen], target: ErrorTarget | None) -> str:
    """Every plan that meets the request, the chosen one first; dashed where another promise is weaker than its own."""
    own = plans[0].mechanism.guarantee
    curves = [
        ErrorCurve.of(
            each.mechanism.name,
            each.error_curve(COUNTS),
            guarantee=each.mechanism.guarantee,
            is_weaker=not each.mechanism.guarantee.covers(own),
        )
        for each in plans
    ]
    asked = zip(*(plan.questions for plan in plans), strict=True)
    rows = [
        (each[0].held, *(off_by(one.relative_error) for one in each))
        for each in asked
        if any(one.relative_error is not None for one in each)
    ]
    headings = ("how many have", *(f"{each.mechanism.name} ({each.mechanism.guarantee})" for each in plans))
    reasons = dict.fromkeys(each.reason for plan in plans for each in plan.questions if each.reason)
    caption = "How far off answers typically are (standard error, in % of the true number), the chosen plan first"
    return "".join(
        [
            drawn(partial(error_by_count, curves)),
            table(caption, headings, rows, numbers=range(1, len(headings))),
            *(paragraph(f"Not told: {reason}.", "quiet") for reason in reasons),
            "" if target is None else paragraph(target.sentence),
        ]
    )


def _exposed(found: Outlook, spec: PrivacySpec) -> str:
    """For each protected column what public ones tell, and how many records are alone with them."""
    parts: list[str] = []
    if found.exposures:
        bound = "" if spec.bound is None else f"of {spec.bound.posterior}"
        for about in dict.fromkeys(each.about for each in found.exposures):
            mine = [each for each in found.exposures if each.about == about]
            exposures = [ColumnExposure.of(each) for each in mine]
            parts += [drawn(partial(exposure_by_column, exposures, bound=bound)), _exposure_table(about, mine)]
        parts.append(paragraph(EXPOSURE_WORDS.format(max(each.records for each in found.exposures)), "quiet"))
    if found.uniqueness is not None:
        curves = [AlikeCurve.of("as published", found.uniqueness.after)]
        if found.uniqueness.before is not None:
            curves.append(AlikeCurve.of("before bins", found.uniqueness.before))
        parts += [drawn(partial(uniqueness, curves)), paragraph(found.uniqueness.sentence)]
    return "".join(parts)


def _exposure_table(about: str, exposures: Sequence[Attack]) -> str:
    def lines() -> Iterator[tuple[str, ...]]:
        for each in exposures:
            told = each.told[0] if len(each.told) == 1 else f"all {len(each.told)} columns"
            beliefs = [each.without, *([] if each.with_release is None else [each.with_release])]
            numbers = zip(*((one.right, one.mean, one.worst, one.well_above) for one in beliefs), strict=True)
            yield told, *(" \u2192 ".join(map(percent_exactly, both)) for both in numbers)

    caption = f"What somebody believes of {about!r} who knows public columns, without the release \u2192 with it"
    headings = ("knows", "guesses right", "belief in the true value, mean", "highest", "clearly beyond the request")
    return table(caption, headings, lines(), numbers=range(1, 5))


def _values(chosen: Chosen) -> str:
    """Each value with its count, what its bound costs, and what buckets hold."""
    histogram, plan = chosen.histogram, chosen.to_json()
    explanation = chosen.mechanism.explanation
    extra = [each for each in explanation.value_columns if each.entry in plan] if explanation else []
    names = labels(histogram.values)
    order = sorted(range(histogram.domain_size), key=lambda place: -histogram.counts[place])

    def line(place: int) -> tuple[str, ...]:
        count = histogram.counts[place]
        numbers = ((each, plan[each.entry].get(names[place])) for each in extra)
        own = (each.without if number is None else each.words(number) for each, number in numbers)
        return names[place], f"{count:,}", percent(count / max(histogram.total, 1)), *own

    headings = ("value", "count", "share", *(each.heading for each in extra))
    parts = []
    if costs := costs_of(plan):
        parts.append(drawn(partial(cost_per_value, costs)))
    if composition := Composition.found_in(plan):
        parts.append(drawn(partial(bucket_composition, composition)))
    parts.append(table("Values, those of most records first", headings, map(line, order), numbers=(1, 2)))
    for small in explanation.list_tables(chosen.plan) if explanation else ():
        parts.append(table(small.title, small.headings, small.rows))
    return "".join(parts)
