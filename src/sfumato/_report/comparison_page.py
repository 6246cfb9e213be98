"""The page of a comparison: recommendation, attacker, and the guarantee, risk and cost of each mechanism. Private."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial

from sfumato._comparison.comparison_outcome import Comparison, Contender
from sfumato._comparison.comparison_tables import (
    KNOWLEDGE,
    SHORT_KNOWLEDGE,
    ComparisonTable,
    make_attack_table,
    make_cost_table,
    make_guarantee_table,
)
from sfumato._figures import (
    AttackSuccess,
    ErrorCurve,
    TradeOff,
    TradeOffCurve,
    draw_attack_scenarios,
    draw_error_by_count,
    draw_risk_utility,
)
from sfumato._figures.svg import element
from sfumato._report.html_page import (
    DEFAULT_DECIDER,
    Page,
    Section,
    render_facts,
    render_figure,
    render_list,
    render_paragraph,
    render_table,
)

COUNTS = (100, 300, 1_000, 3_000, 10_000, 30_000, 100_000)
ABOUT = (
    "This page compares what attackers can learn about the people in the table under each mechanism. Nothing was "
    "published: published values were drawn with discarded keys. The JSON output of compare has all numbers."
)
NOT_COVERED = (
    "A gain belongs to one attacker with the stated knowledge; an attacker who knows more may gain more.",
    "Attack success is an average over people; about some of them an attacker can be much more certain.",
    "Public columns disclose the same with every mechanism.",
    "Several releases of the same table add up. Here each is measured alone.",
    "Errors are those of counts; models, small groups and rare values lose more.",
)


def make_comparison_page(comparison: Comparison, column: str, decider: str = DEFAULT_DECIDER) -> Page:
    """Makes the page of `compare`, with figures."""
    sections = [
        Section("Recommendation", _render_advice(comparison, column, decider)),
        Section("Gain against error", render_plane(comparison), has_page_break=True),
        *list_layers(comparison),
        Section("What these numbers do not cover", render_list(NOT_COVERED)),
        Section("Not possible, or refused by publish", render_omitted(comparison)),
    ]
    subtitle = f"Protecting {column!r}, compared at {comparison.aim.description}"
    nonempty_sections = tuple(section for section in sections if section.body)
    return Page("Mechanisms compared", subtitle, nonempty_sections, is_private=True)


def list_alternatives(comparison: Comparison) -> list[Section]:
    """Lists the sections about other mechanisms on the page of a plan, with attack success under each."""
    advice = element("div", render_paragraph(comparison.recommendation), class_="promise")
    return [
        Section(
            "Other mechanisms", advice + render_plane(comparison) + render_omitted(comparison), has_page_break=True
        ),
        *list_layers(comparison),
        Section("What these numbers do not cover", render_list(NOT_COVERED)),
    ]


def list_layers(comparison: Comparison) -> list[Section]:
    """Lists the three layers, which always appear together."""
    knowledge = render_facts("What attackers know", KNOWLEDGE.items())
    return [
        Section("Proved", knowledge + _render_layer(make_guarantee_table(comparison)), has_page_break=True),
        Section(
            "Measured",
            render_attack_scenarios(comparison) + _render_layer(make_attack_table(comparison)),
            has_page_break=True,
        ),
        Section(
            "Cost",
            render_errors(comparison) + _render_layer(make_cost_table(comparison)) + _render_baselines(comparison),
            has_page_break=True,
        ),
    ]


def _render_advice(comparison: Comparison, column: str, decider: str) -> str:
    is_whole = comparison.records == comparison.total
    fact_rows = [
        ("requested", comparison.request_sentence),
        ("guarantee", f"{comparison.guarantee}: {comparison.guarantee.sentence}"),
        ("compared at", comparison.aim.description),
        ("attacker", f"{comparison.attacker}, who knows {comparison.knowledge}"),
        (
            "records",
            f"{comparison.total:,}; attacks ran on {'all' if is_whole else f'{comparison.records:,}'} of them",
        ),
    ]
    return "".join(
        [
            render_paragraph(ABOUT, "quiet"),
            element("div", render_paragraph(comparison.recommendation), class_="promise"),
            render_facts(f"Request for {column!r}", fact_rows),
            render_paragraph(f"The choice of mechanism, and whether its guarantee suffices, is up to {decider}."),
        ]
    )


def render_plane(comparison: Comparison) -> str:
    """Renders the attacker's gain against the error of counts: a curve over the posterior for each mechanism."""
    curves = [
        TradeOffCurve(
            contender.mechanism.name,
            tuple(
                TradeOff(
                    "" if trial.spec is None else trial.spec.summary,
                    float("nan") if trial.gain is None else trial.gain,
                    float("nan") if trial.error is None else trial.error,
                    is_proposed=contender is comparison.recommended_contender and trial.bound == contender.trial.bound,
                    is_weaker=comparison.is_weaker(trial),
                )
                for trial in contender.curve
            ),
        )
        for contender in comparison.possible_contenders
    ]
    accepted_gain = getattr(comparison.aim, "gain", None)
    sentence = (
        "Each curve is a mechanism at several posteriors. The gain is that of an attacker who knows "
        f"{comparison.knowledge}; the error is that of counts of {comparison.count_size:,} people. Closer to the lower "
        "left corner is better in both."
    )
    return render_figure(partial(draw_risk_utility, curves, accepted_gain=accepted_gain)) + render_paragraph(
        sentence, "quiet"
    )


def render_attack_scenarios(comparison: Comparison) -> str:
    """Renders attack success without and with a release."""
    guesses = [
        _make_guess(letter, contender)
        for letter in KNOWLEDGE
        for contender in comparison.possible_contenders
        if letter in contender.attacks
    ]
    return render_figure(partial(draw_attack_scenarios, guesses)) if guesses else ""


def _make_guess(letter: str, contender: Contender) -> AttackSuccess:
    guess = AttackSuccess.of(contender.attacks[letter], contender.mechanism.name)
    return replace(guess, knowledge=SHORT_KNOWLEDGE.get(letter, guess.knowledge))


def render_errors(comparison: Comparison) -> str:
    """Renders the error of counts by size, dashed for a weaker guarantee than requested."""
    curves = [
        ErrorCurve.of(
            contender.mechanism.name,
            contender.trial.chosen_plan.predict_error_curve(COUNTS),
            guarantee=contender.mechanism.guarantee,
            is_weaker=comparison.is_weaker(contender.trial),
        )
        for contender in comparison.possible_contenders
        if contender.trial.chosen_plan is not None
    ]
    return render_figure(partial(draw_error_by_count, curves, at_count=comparison.count_size))


def _render_layer(layer: ComparisonTable) -> str:
    caption, headings = layer.title[:1].upper() + layer.title[1:], layer.headings
    return render_table(
        caption, headings, layer.rows, numbers=range(layer.text_columns, len(headings))
    ) + render_paragraph(layer.note, "quiet")


def _render_baselines(comparison: Comparison) -> str:
    lines = [f"{baseline.name}: {baseline.description}" for baseline in comparison.baselines]
    return element("h3", "Baselines") + render_list(lines) if lines else ""


def render_omitted(comparison: Comparison) -> str:
    """Renders the reasons why mechanisms are missing or would be refused."""
    return render_list(_list_reasons(comparison.contenders))


def _list_reasons(contenders: Sequence[Contender]) -> Iterable[str]:
    for contender in contenders:
        if not contender.is_possible:
            yield f"{contender.mechanism.name} cannot be used: {contender.trial.refusal}"
        elif contender.stop_reason:
            yield f"{contender.mechanism.name} would be refused by publish: {contender.stop_reason}"
