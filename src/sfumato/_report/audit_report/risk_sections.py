"""The sections of a report about risks: singling out, linkability, inference, and what an intruder finds."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from functools import partial

from sfumato._evidence.audit_dossier import Dossier
from sfumato._figures import (
    AlikeCurve,
    ColumnExposure,
    Corruption,
    GuessedRight,
    PromisedBelief,
    attackers_ladder,
    corruption,
    exposure_by_column,
    posterior_by_prior,
    uniqueness,
)
from sfumato._figures.number_format import NOT_TOLD, percent, percent_exactly, some
from sfumato._report.audit_report.shared_sections import ARROW, odds_words, stated
from sfumato._report.html_page import NOTHING, called, drawn, facts, paragraph, table
from sfumato._request.guarantee import Guarantee
from sfumato._risk.attackers.attack_result import EXPOSURE_WORDS, Attack

LARGEST_READ = 100
MOST_SETS, MOST_VALUES = 10, 20
"""So many rows are read on a page; all are in the output of --json."""
WITHOUT_KEY = (
    "No key told whose record is whose (--plan-file): {:,} people were found by their public columns, and among people "
    "who are alike it was drawn by the law of the release. Of those the numbers say what the design tells, not whether "
    "the release keeps to it."
)
WIDER = 700
"""A figure whose rows have long names."""
ATTACKERS = (
    "Right guesses are in per cent of people. Without the release is what somebody guesses who knows the same and has "
    "no record; the difference is what publishing adds. Other attackers may know more than these."
)


def singling_section(found: Dossier) -> str:
    """How many records are alike, by all public columns and by few."""
    singled = found.singling
    curves = [AlikeCurve("as published", singled.after)]
    if singled.before is not None:
        curves.append(AlikeCurve("before bins", singled.before))
    rows = [(", ".join(map(called, names)), percent(share)) for names, share in singled.sets[:MOST_SETS]]
    alike = singled.alike
    known = [
        ("alone", percent(alike.alone)),
        ("among fewer than 5", percent(alike.below_5)),
        ("among fewer than 11", percent(alike.below_11)),
        ("smallest group", some(singled.smallest, "record")),
    ]
    people = found.audit.linked.in_population
    if people is not None:
        known += [
            ("like one person of the register", percent(people.alone)),
            ("like fewer than 5, than 11", f"{percent(people.below_5)}, {percent(people.below_11)}"),
            ("like nobody of it", percent(found.audit.linked.absent)),
        ]
    tried = f"Of {singled.tried:,} sets of up to three columns {len(singled.sets):,} make somebody alone."
    if singled.left_out:
        tried += f" Not tried together: {', '.join(singled.left_out)}."
    return "".join(
        [
            drawn(partial(uniqueness, curves)),
            facts("Records that are alike in all public columns", known),
            table("Sets of at most three columns that make most alone", ("columns", "alone"), rows, numbers=(1,)),
            paragraph(tried, "quiet"),
            paragraph(
                "Whoever is alone is found by somebody who knows those columns; what such a record shows of "
                "the protected value is in section 5. Columns that others hold in another form are not compared.",
                "quiet",
            ),
            stated(found, "threshold"),
        ]
    )


def linking_section(found: Dossier) -> str:
    """Records that join, and orders that would tell whose record is whose."""
    links, checks = found.audit.linked, {each.name: each for each in found.verification.checks}
    known = [("linked by", ", ".join(map(called, links.columns)) or "no column")]
    known.append(("one to one with the original", f"{percent(links.in_release.alone)} of the records"))
    if links.in_population is None:
        known.append(("with a register", "none was given (--population)"))
    else:
        known.append(("one to one with the register", f"{percent(links.in_population.alone)} of the records"))
    metadata = checks.get("metadata")
    known.append(("file metadata", NOT_TOLD if metadata is None else metadata.detail))
    rows = [
        (each.name, "go together" if each.is_found else "nothing found", f"{each.score:.1f}", f"{each.records:,}")
        for each in found.audit.trails
    ]
    headings = ("what was compared", "found", "standard deviations", "records")
    return "".join(
        [
            facts("Records that join", known),
            table("Orders that would tell whose record is whose", headings, rows, numbers=(2, 3)),
            paragraph(
                "An order that has nothing to do with another one is beyond 4.9 standard deviations once in a million "
                "times; 0 where too few people differ. Orders that were not compared may still tell something.",
                "quiet",
            ),
            stated(found, "registers"),
        ]
    )


def inference_section(found: Dossier) -> str:
    """What is proved, then what attackers guess, by what they know."""
    audit, manifest = found.audit, found.manifest
    parts = [_proved(found)]
    for about in dict.fromkeys(each.about for each in audit.attacks):
        mine = [GuessedRight.of(each, manifest.mechanism_name) for each in audit.attacks if each.about == about]
        parts.append(drawn(partial(attackers_ladder, mine), WIDER))
    parts.append(paragraph(ATTACKERS if audit.attacks else f"No attacker was scored: {audit.unmatched}", "quiet"))
    if audit.alone is not None:
        parts.append(paragraph(WITHOUT_KEY.format(audit.alone), "quiet"))
    parts += _by_column(found)
    if found.spec is not None and found.spec.bound is not None:
        total = max(sum(each.count for each in found.values), 1)
        shares = {each.name: each.count / total for each in found.values}
        holds = manifest.mechanism.guarantee is Guarantee.ANY_PRIOR
        parts.append(
            drawn(partial(posterior_by_prior, PromisedBelief.of(found.spec.bound, shares, for_every_belief=holds)))
        )
    parts += [_values(found), stated(found, "acceptable_gain")]
    return "".join(parts)


def _proved(found: Dossier) -> str:
    """What holds by the design alone, whoever attacks; nothing that was measured."""
    guarantee, spec = found.manifest.mechanism.guarantee, found.spec
    checks = [each.detail for each in found.verification.checks if each.name == "promise"]
    known = [
        ("asked for", "bounds on odds alone" if spec is None else spec.sentence),
        ("promised", f"{guarantee}: {guarantee.sentence}"),
        ("recomputed", *(checks or [NOT_TOLD])),
        ("largest factor of odds", odds_words(found)),
    ]
    words = "Proved, from the published design alone; all that follows in this section is measured"
    return facts(words, [(each[0], each[1]) for each in known])


def _by_column(found: Dossier) -> Iterator[str]:
    """What each public column tells, by itself and with the release."""
    audit = found.audit
    for about in dict.fromkeys(each.about for each in audit.columns):
        mine = [each for each in audit.columns if each.about == about]
        if found.spec is not None:
            bound = "" if found.spec.bound is None else f"of {found.spec.bound.posterior}"
            yield drawn(partial(exposure_by_column, [ColumnExposure.of(each) for each in mine], bound=bound))
        rows = [_belief_row(called(each.told[0]), each) for each in mine]
        caption = f"What somebody believes of {about!r} who knows one public column, without the release{ARROW}with it"
        headings = ("knows", "guesses right", "belief in the true value, mean", "highest", "clearly beyond the request")
        yield table(caption, headings, rows, numbers=range(1, 5))
    if audit.columns:
        yield paragraph(EXPOSURE_WORDS.format(max(each.records for each in audit.columns)), "quiet")


def _belief_row(name: str, attack: Attack) -> tuple[str, ...]:
    beliefs = [attack.without, *([] if attack.with_release is None else [attack.with_release])]
    numbers = zip(*((one.right, one.mean, one.worst, one.well_above) for one in beliefs), strict=True)
    return name, *(ARROW.join(map(percent_exactly, both)) for both in numbers)


def _values(found: Dossier) -> str:
    total = max(sum(each.count for each in found.values), 1)
    rows = [
        (
            called(each.name),
            f"{each.count:,}",
            percent(each.count / total),
            _short(each.limit) if each.is_covered and each.limit is not None else NOTHING,
            "yes" if each.is_covered else "no: " + why_open(found),
        )
        for each in found.values
    ]
    covered = sum(each.is_covered for each in found.values)
    against = found.manifest.mechanism.guarantee
    caption = (
        f"Values, those of most records first: {covered:,} of {len(rows):,} are covered by the bound, against those "
        f"whom the promise is about ({against}) and no others"
    )
    return table(
        caption, ("value", "count", "share", "believed at most", "covered"), rows, numbers=(1, 2, 3), most=MOST_VALUES
    )


def _short(limit: Fraction) -> str:
    """A fraction that can be read, or its decimals."""
    return str(limit) if limit.denominator <= LARGEST_READ else f"{float(limit):.3g}"


def why_open(found: Dossier) -> str:
    """Why a value is not covered."""
    if found.spec is None:
        return "odds alone are bounded"
    return "above the prior, odds alone are bounded" if found.spec.bound is not None else "nothing was asked"


def intruder_section(found: Dossier) -> str:
    """Each attack with its control, and what was spoilt on purpose."""
    audit = found.audit
    rows = [
        (
            each.knows,
            f"{each.records:,}",
            percent_exactly(each.without.right),
            NOT_TOLD if each.with_release is None else percent_exactly(each.with_release.right),
            NOTHING if each.with_release is None else _between(each.with_release.interval),
            NOTHING if each.control is None else percent_exactly(each.control.right),
            "secret" if each.seed is None else str(each.seed),
        )
        for each in audit.attacks
    ]
    headings = ("knows", "people", "right without", "right with", "95% interval", "control", "seed")
    parts = [
        table("Each attack: what it was told, and its result", headings, rows, numbers=range(1, 6)),
        paragraph(
            "The control is the same attacker about people of whom the release has no record: what it teaches in "
            "general. Attackers who know public columns learned from the original, of each half of the people what the "
            "other half tells, which is more than such people usually have.",
            "quiet",
        )
        if audit.attacks
        else paragraph(f"No attacker was scored: {audit.unmatched}"),
    ]
    curves = [Corruption(f"{found.manifest.mechanism_name}, {name}", told) for name, told in audit.corrupted.items()]
    if any(each.known for each in curves):
        parts.append(drawn(partial(corruption, curves)))
    parts += [_looks(found), _controls(found), stated(found, "intruder_knows")]
    return "".join(parts)


def _between(interval: tuple[float, float]) -> str:
    return f"{percent_exactly(interval[0])} to {percent_exactly(interval[1])}"


def _looks(found: Dossier) -> str:
    rows = [("as expected" if each.passed else "FOUND", each.detail) for each in found.audit.checks]
    return table("Looks that must find nothing", ("result", "what was seen"), rows)


def _controls(found: Dossier) -> str:
    rows = [
        (each.what, "noticed" if each.is_noticed else "not noticed", f"{each.score:.1f}", each.power)
        for each in found.audit.controls
    ]
    caption = "The same looks at records that were spoilt on purpose, in memory: what they must notice"
    headings = ("spoilt", "result", "standard deviations", "how small a fault is noticed")
    told = table(caption, headings, rows, numbers=(2,))
    return told + paragraph(
        "Each look cries wolf once in a million times. What is smaller than the last column says may pass unnoticed.",
        "quiet",
    )
