"""Makes the document of a comparison: a recommendation, and guarantee, risk and errors by mechanism. Private."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from sfumato._comparison.comparison_outcome import Comparison, Contender
from sfumato._comparison.comparison_tables import (
    KNOWLEDGE,
    SHORT_KNOWLEDGE,
    ComparisonTable,
    list_unlinked_letters,
    make_attack_table,
    make_cost_table,
    make_guarantee_table,
    make_unlinked_table,
)
from sfumato._document.document import (
    DEFAULT_DECIDER,
    Alerts,
    Block,
    DataTable,
    Document,
    Facts,
    Heading,
    Items,
    Picture,
    Section,
    Text,
    Tone,
    make_section,
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

COUNTS = (100, 300, 1_000, 3_000, 10_000, 30_000, 100_000)
ABOUT = (
    "This comparison shows what attackers can learn about the people in the table under each mechanism. Nothing was "
    "published: the attacks ran on simulated releases, which are not kept. The JSON output of compare has all numbers."
)
NOT_COVERED = (
    "Each gain is that of one attacker with the stated knowledge; an attacker who knows more may gain more.",
    "Attack success is an average over people; an attacker can be much more certain about some people.",
    "Public columns disclose the same with every mechanism.",
    "Several releases of the same table disclose more together. Here each release is measured alone.",
    "Errors are for counts; statistical models, small groups and rare values lose more accuracy.",
)
NOT_COVERED_SECTION = make_section("What these numbers do not cover", Items(NOT_COVERED))


def make_comparison_document(comparison: Comparison, decider: str = DEFAULT_DECIDER) -> Document:
    """Makes the document of `compare`, with figures."""
    sections = [
        _make_advice(comparison, decider),
        make_section(
            "Attacker's gain and error of counts", *_draw_plane(comparison), has_page_break=True, is_page_only=True
        ),
        *_list_layers(comparison),
        NOT_COVERED_SECTION,
        make_section("Decisions before publishing, whatever the mechanism", Alerts.of(comparison.stops)),
        make_section("Not possible, or refused by publish", _list_reasons(comparison)),
    ]
    subtitle = f"Protecting {comparison.column!r}, compared at {comparison.aim.description}"
    nonempty_sections = tuple(section for section in sections if section.blocks)
    return Document("Mechanisms compared", subtitle, nonempty_sections, is_private=True)


def list_alternative_sections(comparison: Comparison) -> list[Section]:
    """Lists the sections about other mechanisms on the page of a plan, with attack success under each."""
    advice = Text(comparison.recommendation, Tone.GUARANTEE)
    return [
        make_section(
            "Other mechanisms", advice, *_draw_plane(comparison), _list_reasons(comparison), has_page_break=True
        ),
        *_list_layers(comparison),
        NOT_COVERED_SECTION,
    ]


def _list_layers(comparison: Comparison) -> list[Section]:
    """Lists the tables of guarantees, attack success and errors, which always appear together."""
    baselines = tuple(f"{baseline.name}: {baseline.description}" for baseline in comparison.baselines)
    return [
        make_section(
            "Proved",
            Facts("What attackers know", tuple(KNOWLEDGE.items())),
            *_make_layer(make_guarantee_table(comparison)),
            has_page_break=True,
        ),
        make_section(
            "Measured",
            *_draw_attack_scenarios(comparison),
            *_make_layer(make_attack_table(comparison)),
            *_list_unlinked(comparison),
            has_page_break=True,
        ),
        make_section(
            "Cost",
            _draw_errors(comparison),
            *_make_layer(make_cost_table(comparison)),
            Heading("Baselines" if baselines else ""),
            Items(baselines),
            has_page_break=True,
        ),
    ]


def _make_advice(comparison: Comparison, decider: str) -> Section:
    is_whole = comparison.records == comparison.total
    pairs = (
        ("requested", comparison.request_sentence),
        ("guarantee", f"{comparison.guarantee}: {comparison.guarantee.sentence}"),
        ("compared at", comparison.aim.description),
        ("attacker", f"{comparison.attacker}, who knows {comparison.knowledge}"),
        (
            "records",
            f"{comparison.total:,}; attacks ran on {'all' if is_whole else f'{comparison.records:,}'} of them",
        ),
    )
    return make_section(
        "Recommendation",
        Text(comparison.recommendation, Tone.GUARANTEE),
        Text(ABOUT, Tone.QUIET),
        Facts(f"Request for {comparison.column!r}", pairs),
        Text(f"The choice of mechanism, and whether its guarantee suffices, is up to {decider}."),
    )


def _draw_plane(comparison: Comparison) -> tuple[Block, ...]:
    """Draws the attacker's gain against the error of counts. Each mechanism has a curve over several posteriors."""
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
        "Each curve is a mechanism at several posteriors. The attacker knows "
        f"{comparison.knowledge}; the error is the standard error of counts of {comparison.count_size:,} people. "
        "Curves closer to the lower left corner have a smaller gain and a smaller error."
    )
    return Picture(partial(draw_risk_utility, curves, accepted_gain=accepted_gain)), Text(sentence, Tone.QUIET)


def _draw_attack_scenarios(comparison: Comparison) -> tuple[Block, ...]:
    """Draws attack success without and with a release."""
    guesses = [
        _make_guess(letter, contender)
        for letter in KNOWLEDGE
        for contender in comparison.possible_contenders
        if letter in contender.attacks
    ]
    return (Picture(partial(draw_attack_scenarios, guesses)),) if guesses else ()


def _list_unlinked(comparison: Comparison) -> tuple[Block, ...]:
    """Shows the success of attackers who do not know which record is the person's."""
    table = make_unlinked_table(comparison)
    if table is None:
        return ()
    guesses = [
        replace(
            _make_guess(letter, contender),
            without_release=unlinked.without_release.success,
            with_release=unlinked.with_release.success,
            interval=unlinked.with_release.interval,
            control=None,
        )
        for letter in list_unlinked_letters(comparison)
        for contender in comparison.possible_contenders
        if letter in contender.attacks and (unlinked := contender.attacks[letter].unlinked) is not None
    ]
    figure = Picture(partial(draw_attack_scenarios, guesses, condition="own record unknown"))
    return Heading(table.title), figure, *_make_layer(table)


def _make_guess(letter: str, contender: Contender) -> AttackSuccess:
    guess = AttackSuccess.of(contender.attacks[letter], contender.mechanism.name)
    return replace(guess, knowledge=SHORT_KNOWLEDGE.get(letter, guess.knowledge))


def _draw_errors(comparison: Comparison) -> Picture:
    """Draws the error of counts by size. Mechanisms with a weaker guarantee than requested have dashed lines."""
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
    return Picture(partial(draw_error_by_count, curves, at_count=comparison.count_size))


def _make_layer(layer: ComparisonTable) -> tuple[Block, ...]:
    numbers = tuple(range(layer.text_columns, len(layer.headings)))
    return DataTable("", layer.headings, layer.rows, numbers), Text(layer.note, Tone.QUIET)


def _list_reasons(comparison: Comparison) -> Items:
    """Lists the reasons why mechanisms are missing or would be refused."""
    reasons = []
    for contender in comparison.contenders:
        if not contender.is_possible:
            reasons.append(f"{contender.mechanism.name} cannot be used: {contender.trial.refusal}")
        elif contender.stop_reason:
            reasons.append(f"publish would refuse {contender.mechanism.name}: {contender.stop_reason}")
    return Items(tuple(reasons))
