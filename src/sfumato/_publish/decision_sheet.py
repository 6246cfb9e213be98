"""The decision sheet: a plan on one A4 page, for the person who decides about it and signs. Private."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from fractions import Fraction

from sfumato._core.cell_values import format_relative_error, format_values
from sfumato._core.digests import format_digest
from sfumato._core.software_version import read_software_version
from sfumato._document.document import (
    DEFAULT_DECIDER,
    Block,
    DataTable,
    Decision,
    Document,
    Facts,
    Heading,
    Items,
    Section,
    SideBySide,
    Text,
    Tone,
    make_section,
)
from sfumato._document.html_markup import shorten_name
from sfumato._figures.number_format import (
    NOT_AVAILABLE,
    format_exact_percent,
    format_percent,
    format_quantity,
    format_upper_factor,
)
from sfumato._profile.equivalence_classes import Uniqueness
from sfumato._publish.planned_answers import PlannedAnswer
from sfumato._publish.publication_plan import PublicationPlan
from sfumato._release.description import NO_DESCRIPTION, Description
from sfumato._request.belief_bounds import BreachBound
from sfumato._request.schema import Role
from sfumato._request.stated_context import NOT_STATED, StatedContext
from sfumato._request.warnings import Grade
from sfumato._risk.attackers.attack_result import Attack
from sfumato.errors import SfumatoError

TITLE = "Decision about a publication"
BLANK = "_" * 50
"""A blank line to fill in by hand. A longer one would be shortened, as a long word is."""
SHORT_BLANK = "_" * 16
MOST_COLUMNS, MOST_QUESTIONS, MOST_ADVICE, MOST_NAMED = 15, 4, 5, 4
"""The most columns, questions, open decisions and values that fit on the sheet. The plan lists all of them."""
MOST_LETTERS, MOST_SQL = 260, 100
"""The most letters of an open decision, and of a question."""
STATED = (
    ("purpose", "decision", "purpose"),
    ("recipients", "setting", "recipients"),
    ("legal basis", "setting", "legal_basis"),
)
"""The statements of a person at the top of the sheet: label, section and key."""
SHOWN_ELSEWHERE = "frequent-values"
"""The code of the notice whose content stands under "What is not covered"."""
NOT_MEASURED = "Not measured, because the plan was made from counts and not from a table."


def make_decision_sheet(
    outlook: PublicationPlan,
    context: StatedContext | None = None,
    description: Description = NO_DESCRIPTION,
    decider: str | None = None,
) -> Document:
    """Makes the sheet. Each statement that nobody made is left as a blank line."""
    context = context or StatedContext()
    histogram = outlook.choice.histogram
    title = f"{description.title}: " if description.title else ""
    mechanism = outlook.choice.mechanism
    subtitle = (
        f"{title}{histogram.total:,} records; {outlook.column!r} is protected by {mechanism.name} "
        f"({mechanism.guarantee})"
    )
    sides = SideBySide(
        (_make_columns(outlook, context, description), _make_uncovered(outlook)),
        (_make_risk(outlook), _make_utility(outlook)),
    )
    sections = (
        _make_request(outlook, context),
        sides,
        make_section("Residual risk", Text(_describe_residual_risk(outlook))),
        _make_decision(outlook, context, decider),
    )
    digest = format_digest(outlook.request_digest)
    request = f" Digest of the request, which the journal of its publication also records: {digest}" if digest else ""
    ending = f"Made with sfumato {read_software_version()}. This sheet shows numbers from the table.{request}"
    return Document(TITLE, subtitle, sections, ending, is_private=True, is_one_page=True)


def _make_request(outlook: PublicationPlan, context: StatedContext) -> Section:
    pairs = [(label, _get_statement(context, section, key) or BLANK) for label, section, key in STATED]
    pairs += [] if outlook.spec is None else [("requested", outlook.spec.sentence)]
    statement = outlook.choice.mechanism.state_guarantee(outlook.choice.design)
    return make_section("The request", Facts("", (*pairs, ("guarantee", statement.short))))


def _get_statement(context: StatedContext, section: str, key: str) -> str:
    statement = context.get_entry(section, key)
    return "" if statement == NOT_STATED else statement


def _make_columns(outlook: PublicationPlan, context: StatedContext, description: Description) -> Section:
    published = [column for column in outlook.columns if column.is_published]
    published.sort(key=lambda column: column.role is not Role.SENSITIVE)
    rows = [
        (
            shorten_name(column.name),
            column.treatment,
            context.column_reasons.get(column.name) or description.columns.get(column.name) or SHORT_BLANK,
        )
        for column in published[:MOST_COLUMNS]
    ]
    if (omitted_count := len(published) - MOST_COLUMNS) > 0:
        rows.append((f"and {omitted_count:,} more columns", "the plan lists all", ""))
    dropped = [f"{column.name} ({column.treatment})" for column in outlook.columns if not column.is_published]
    more = f" and {len(dropped) - MOST_COLUMNS:,} more" if len(dropped) > MOST_COLUMNS else ""
    named = ", ".join(dropped[:MOST_COLUMNS]) + more
    return make_section(
        "Columns",
        DataTable("", ("column", "published", "reason for publishing it"), tuple(rows)),
        Text(f"Not published: {named}." if dropped else "" if published else NOT_MEASURED),
    )


def _make_risk(outlook: PublicationPlan) -> Section:
    blocks: list[Block] = []
    if outlook.uniqueness is not None:
        blocks.append(_make_class_table(outlook.uniqueness))
    if attackers := _select_attackers(outlook.exposures):
        rows = tuple((_name_attacker(attack), *_format_success(attack)) for attack in attackers)
        caption = f"Correct guesses of {attackers[0].protected_column!r}, as a share of records"
        blocks.append(DataTable(caption, ("attacker knows", "without the release", "with the release"), rows, (1, 2)))
    return make_section("Disclosure risk, before and after", *(blocks or [Text(NOT_MEASURED)]))


def _make_class_table(uniqueness: Uniqueness) -> DataTable:
    after = uniqueness.after_bins
    before = uniqueness.before_bins or after
    rows = tuple(
        (label, format_exact_percent(old), format_exact_percent(new))
        for label, old, new in (
            ("unique", before.unique_share, after.unique_share),
            ("records in groups of fewer than 5", before.below_5, after.below_5),
            ("records in groups of fewer than 11", before.below_11, after.below_11),
        )
    )
    headings = ("share of records", "before grouping into ranges", "as published")
    return DataTable("Records in small groups with the same public columns", headings, rows, (1, 2))


def _select_attackers(exposures: Sequence[Attack]) -> list[Attack]:
    """The most successful attacker who knows all columns, and the most successful attacker who knows one column."""
    everything = [attack for attack in exposures if len(attack.known_columns) > 1]
    single = [attack for attack in exposures if len(attack.known_columns) == 1]
    return [max(group, key=lambda attack: attack.final_success) for group in (everything, single) if group]


def _name_attacker(attack: Attack) -> str:
    known = attack.known_columns
    return f"all {len(known)} public columns" if len(known) > 1 else f"only {known[0]!r}"


def _format_success(attack: Attack) -> tuple[str, str]:
    release = attack.with_release
    return (
        format_exact_percent(attack.without_release.success),
        NOT_AVAILABLE if release is None else format_exact_percent(release.success),
    )


def _make_uncovered(outlook: PublicationPlan) -> Section:
    mechanism = outlook.choice.mechanism
    items = [*_describe_uncovered_values(outlook), mechanism.guarantee.limit]
    items.append("Public columns are not protected, and the release does not hide who is in the table.")
    return make_section("What is not covered", Items(tuple(items)))


def list_uncovered_places(outlook: PublicationPlan) -> list[int]:
    """The positions in the domain of values that occur and that the bound does not cover. Most frequent first."""
    histogram, spec = outlook.choice.histogram, outlook.spec
    if spec is None or histogram.axes:
        return []
    limits: Sequence[Fraction | None] = [None] * histogram.domain_size
    with suppress(SfumatoError):
        limits = list(spec.resolve(histogram).list_limits(histogram.values))
    prior = None if spec.bound is None else spec.bound.prior
    places = [
        place
        for place, (limit, count) in enumerate(zip(limits, histogram.counts, strict=True))
        if count and (limit is None or limit >= 1 or (prior is not None and count > prior * histogram.total))
    ]
    return sorted(places, key=lambda place: -histogram.counts[place])


def _describe_uncovered_values(outlook: PublicationPlan) -> Iterator[str]:
    histogram, bound = outlook.choice.histogram, None if outlook.spec is None else outlook.spec.bound
    places = list_uncovered_places(outlook)
    if not places:
        return
    people = sum(histogram.counts[place] for place in places)
    unit = "people" if outlook.spec is not None and outlook.spec.rows == 1 else "records"
    names = format_values([histogram.values[place] for place in places], MOST_NAMED)
    subject = "This value is" if len(places) == 1 else "Each is"
    reason = "No bound was requested for these values."
    if bound is not None:
        reason = (
            f"{subject} more frequent than {format_percent(float(bound.prior))}, so the limit of {bound.posterior} "
            f"does not apply to it. {_describe_odds_limit(outlook, bound)}"
        )
    share = format_percent(people / max(histogram.total, 1))
    owned = "this value" if len(places) == 1 else "one of these"
    yield f"{names}: {people:,} {unit} ({share}) have {owned}. {reason}"


def _describe_odds_limit(outlook: PublicationPlan, bound: BreachBound) -> str:
    if not outlook.choice.mechanism.guarantee.is_for_everybody:
        return "The guarantee does not protect such values."
    return f"An attacker's odds rise by a factor of at most {format_upper_factor(bound.person_amplification)}."


def _make_utility(outlook: PublicationPlan) -> Section:
    rows = (*_list_own_rows(outlook.answers), *_list_example_rows(outlook))[:MOST_QUESTIONS]
    headings = ("question", "true number", "standard error", "in %")
    return make_section(
        "What analysts get",
        DataTable("", headings, tuple(rows), (1, 2, 3)),
        Text("" if rows else "The mechanism predicts no errors. Every answer will state its own error."),
        Text(
            "About two of three answers are within one standard error of the true number." if rows else "", Tone.QUIET
        ),
    )


def _list_own_rows(answers: Sequence[PlannedAnswer]) -> Iterator[tuple[str, ...]]:
    """The data steward's own questions that have a single number as answer."""
    for answer in answers:
        if len(answer.numbers) == 1 and (error := answer.numbers[0].standard_error) is not None:
            truth, relative = answer.numbers[0].truth, answer.numbers[0].relative_error
            number = "unknown" if truth is None else format_quantity(truth)
            yield (
                _shorten(answer.sql, MOST_SQL),
                number,
                f"\u00b1 {format_quantity(error)}",
                format_relative_error(relative),
            )


def _list_example_rows(outlook: PublicationPlan) -> Iterator[tuple[str, ...]]:
    for question in outlook.choice.question_predictions:
        if question.relative_error is not None and question.count is not None:
            error = f"\u00b1 {format_quantity(question.relative_error * question.count)}"
            relative = format_relative_error(question.relative_error)
            yield f"how many have {question.counted_text}", f"{question.count:,.0f}", error, relative


def _describe_residual_risk(outlook: PublicationPlan) -> str:
    """Describes in two sentences what attackers still learn."""
    attackers, uniqueness = _select_attackers(outlook.exposures), outlook.uniqueness
    if not attackers or uniqueness is None:
        return f"{NOT_MEASURED} Plan with the table to see what public columns disclose."
    without, success = _format_success(attackers[0])
    unique = format_exact_percent(uniqueness.after_bins.unique_share)
    singled_out = (
        f"For the {unique} of records that are unique on the public columns, this attacker also knows which record "
        "is the person's. Its published value adds at most what the guarantee above allows."
        if uniqueness.after_bins.unique_share
        else "No record is unique on the public columns, so these columns do not identify the person's record."
    )
    return (
        f"An attacker who knows {_name_attacker(attackers[0])} of a person guesses "
        f"{attackers[0].protected_column!r} correctly for {without} of records without the release, and for {success} "
        f"of records with the release. {singled_out}"
    )


def _make_decision(outlook: PublicationPlan, context: StatedContext, decider: str | None) -> Section:
    graded = [notice for notice in outlook.notices if notice.grade in (Grade.STOP, Grade.WARNING)]
    advice = [notice for notice in graded if notice.code != SHOWN_ELSEWHERE]
    advice.sort(key=lambda notice: notice.grade is not Grade.STOP)
    items = [f"{notice.grade.upper()}: {_shorten(notice.sentence)}" for notice in advice[:MOST_ADVICE]]
    items += [f"{more:,} more decisions; the plan lists all."] if (more := len(advice) - MOST_ADVICE) > 0 else []
    accepted = outlook.accepted_risks.list_sentences(outlook.column)
    is_met = all(notice.grade is not Grade.STOP for notice in advice)
    signed = {
        "decision": _get_statement(context, "decision", "decision"),
        "name and role": context.decider or decider or "",
        "date": _get_statement(context, "decision", "date"),
        "review by": _get_statement(context, "decision", "review_by"),
        "signature": "",
    }
    who = context.decider or decider or DEFAULT_DECIDER
    return make_section(
        "Open decisions",
        Items(tuple(items) or ("None.",)),
        Heading("Accepted stops"),
        Items(tuple(accepted) or ("No stop was overridden.",)),
        Heading("Decision"),
        Decision(is_met, who, statements=tuple(signed.items())),
    )


def _shorten(sentence: str, most: int = MOST_LETTERS) -> str:
    """Shortens a sentence to two lines, and begins it with a capital letter."""
    whole = sentence[:1].upper() + sentence[1:]
    return whole if len(whole) <= most else whole[:most].rpartition(" ")[0] + " \u2026"
