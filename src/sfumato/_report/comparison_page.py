"""A comparison as a page: which mechanism, for which attacker, with what is proved, measured and lost. Private."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial

from sfumato._comparison.comparison_outcome import Comparison, Contender
from sfumato._comparison.comparison_tables import BRIEFLY, KNOWING, Layer, cost, measured, proved
from sfumato._figures import (
    ErrorCurve,
    GuessedRight,
    TradeOff,
    TradeOffs,
    attackers_ladder,
    error_by_count,
    risk_utility,
)
from sfumato._figures.svg import element
from sfumato._report.html_page import HOLDER, Page, Section, drawn, facts, listed, paragraph, table

COUNTS = (100, 300, 1_000, 3_000, 10_000, 30_000, 100_000)
ABOUT = (
    "This page shows what can be learned about the people of the table under each mechanism. Nothing was published: "
    "what records would show was drawn with keys that are thrown away. All numbers are in the output of compare --json."
)
NOT_COVERED = (
    "A gain is that of one attacker, who knows what is said and nothing else; somebody who knows more may gain more.",
    "Right guesses are an average over people: of some of them an attacker can be much surer.",
    "What public columns tell by themselves is told with or without a release, and no mechanism takes it back.",
    "Several releases of the same table add up. Here each is looked at alone.",
    "Errors are of counts; models, small groups and rare values lose more.",
)


def compare_page(found: Comparison, column: str, decider: str = HOLDER) -> Page:
    """What `compare` shows, with figures."""
    sections = [
        Section("What is recommended, and for whom", _advice(found, column, decider)),
        Section("Gain against error", plane(found), starts_page=True),
        *layers(found),
        Section("What these numbers do not cover", listed(NOT_COVERED)),
        Section("Not possible, or would not be published", left_out(found)),
    ]
    subtitle = f"Protecting {column!r}, compared at {found.aim.words}"
    shown = tuple(each for each in sections if each.body)
    return Page("Mechanisms compared", subtitle, shown, is_private=True)


def alternatives(found: Comparison) -> list[Section]:
    """What the page of a plan tells of the other mechanisms, by what attackers find under each."""
    advice = element("div", paragraph(found.recommendation), class_="promise")
    return [
        Section("Other mechanisms", advice + plane(found) + left_out(found), starts_page=True),
        *layers(found),
        Section("What these numbers do not cover", listed(NOT_COVERED)),
    ]


def layers(found: Comparison) -> list[Section]:
    """Three layers, always together."""
    known = facts("What attackers know", KNOWING.items())
    return [
        Section("Proved", known + _layer(proved(found)), starts_page=True),
        Section("Measured", ladder_figure(found) + _layer(measured(found)), starts_page=True),
        Section("Cost", errors(found) + _layer(cost(found)) + _baselines(found), starts_page=True),
    ]


def _advice(found: Comparison, column: str, decider: str) -> str:
    is_whole = found.records == found.total
    known = [
        ("asked for", found.asked),
        ("guarantee", f"{found.guarantee}: {found.guarantee.sentence}"),
        ("compared at", found.aim.words),
        ("attacker", f"{found.attacker}: somebody who knows {found.knows}"),
        ("records", f"{found.total:,}; attackers were let at {'all' if is_whole else f'{found.records:,}'} of them"),
    ]
    return "".join(
        [
            paragraph(ABOUT, "quiet"),
            element("div", paragraph(found.recommendation), class_="promise"),
            facts(f"What was asked about {column!r}", known),
            paragraph(f"Which mechanism is taken, and whether its promise is enough, is for {decider} to decide."),
        ]
    )


def plane(found: Comparison) -> str:
    """What the attacker gains against the error of counts: a curve for each mechanism over its posterior."""
    curves = [
        TradeOffs(
            each.mechanism.name,
            tuple(
                TradeOff(
                    "" if trial.spec is None else trial.spec.brief,
                    float("nan") if trial.gain is None else trial.gain,
                    float("nan") if trial.error is None else trial.error,
                    is_proposed=each is found.recommended and trial.bound == each.proposed.bound,
                    is_weaker=found.is_weaker(trial),
                )
                for trial in each.curve
            ),
        )
        for each in found.possible
    ]
    accepted = getattr(found.aim, "gain", None)
    said = (
        f"Each curve is a mechanism at several posteriors; the gain is that of somebody who knows {found.knows}, and "
        f"the error that of counts of {found.at:,} people. Nearer to the lower left corner is better for both."
    )
    return drawn(partial(risk_utility, curves, accepted=accepted)) + paragraph(said, "quiet")


def ladder_figure(found: Comparison) -> str:
    """What attackers guess right without a release and with it."""
    guesses = [_guessed(letter, each) for letter in KNOWING for each in found.possible if letter in each.attacks]
    return drawn(partial(attackers_ladder, guesses)) if guesses else ""


def _guessed(letter: str, each: Contender) -> GuessedRight:
    guess = GuessedRight.of(each.attacks[letter], each.mechanism.name)
    return replace(guess, knows=BRIEFLY.get(letter, guess.knows))


def errors(found: Comparison) -> str:
    """How far off counts are by their size, dashed where less is promised than was asked for."""
    curves = [
        ErrorCurve.of(
            each.mechanism.name,
            each.proposed.chosen.error_curve(COUNTS),
            guarantee=each.mechanism.guarantee,
            is_weaker=found.is_weaker(each.proposed),
        )
        for each in found.possible
        if each.proposed.chosen is not None
    ]
    return drawn(partial(error_by_count, curves, at=found.at))


def _layer(layer: Layer) -> str:
    caption, headings = layer.title[:1].upper() + layer.title[1:], layer.headings
    return table(caption, headings, layer.rows, numbers=range(layer.words, len(headings))) + paragraph(
        layer.note, "quiet"
    )


def _baselines(found: Comparison) -> str:
    lines = [f"{each.name}: {each.words}" for each in found.baselines]
    return element("h3", "Held against") + listed(lines) if lines else ""


def left_out(found: Comparison) -> str:
    """Why some mechanisms are not there, and which ones a publication would stop."""
    return listed(_reasons(found.contenders))


def _reasons(contenders: Sequence[Contender]) -> Iterable[str]:
    for each in contenders:
        if not each.is_possible:
            yield f"{each.mechanism.name} is not possible: {each.proposed.refusal}"
        elif each.stop:
            yield f"{each.mechanism.name} would not be published as it is: {each.stop}"
