"""The report about a release: ten sections that an officer files, from what was gathered and what a person states.

Private: it shows counts of the table and what can be learned about its people. It gives no verdict; beside every number
of a risk stands what the number does not cover.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial
from importlib.metadata import version

from sfumato.audit.attackers.attack import EXPOSURE_WORDS, Attack
from sfumato.audit.attackers.exposure import ALL_COLUMNS
from sfumato.estimate.foreseen import foreseen
from sfumato.evidence.context import NOT_STATED, SECTIONS
from sfumato.evidence.evidence import Evidence
from sfumato.evidence.utility import OwnAnswer
from sfumato.pages.certificate import (
    OF,
    UNCHECKED,
    column_roles,
    design_words,
    digest_in_parts,
    foreseen_curves,
    uncovered,
)
from sfumato.pages.page import (
    HOLDER,
    MOST_ROWS,
    NOTHING,
    Page,
    Section,
    called,
    decision,
    drawn,
    facts,
    listed,
    paragraph,
    said,
    table,
    tiles,
)
from sfumato.report import (
    AlikeCurve,
    ColumnExposure,
    Corruption,
    GuessedRight,
    PromisedBelief,
    against_truth,
    attackers_ladder,
    corruption,
    error_by_count,
    exposure_by_column,
    forest,
    posterior_by_prior,
    uniqueness,
)
from sfumato.report.drawing import element
from sfumato.report.truth import size_classes
from sfumato.report.wording import NOT_TOLD, percent, percent_exactly, quantity
from sfumato.request.guarantee import Guarantee

TITLE = "Evidence about a release"
ARROW = " \u2192 "
MOST_QUESTIONS = 20
"""So many of the holder's own questions have a table of their own; all are in the output of --json."""
STATED = "Stated by a person, not checked"
WITHOUT_KEY = (
    "No key told whose record is whose (--plan-file): {:,} people were found by their public columns, and among people "
    "who are alike it was drawn by the law of the release. Of those the numbers say what the design tells, not whether "
    "the release keeps to it."
)
ATTACKERS = (
    "Right guesses are in per cent of people. Without the release is what somebody guesses who knows the same and has "
    "no record; the difference is what publishing adds. Other attackers may know more than these."
)


def report_page(found: Evidence) -> Page:
    """All ten sections."""
    sections = [
        Section("0. Summary", _summary(found)),
        Section("1. Setting", _setting(found), starts_page=True),
        Section("2. Columns", _columns(found)),
        Section("3. Singling out", _singling(found), starts_page=True),
        Section("4. Linkability", _linking(found)),
        Section("5. Inference", _inference(found), starts_page=True),
        Section("6. Motivated intruder", _intruder(found), starts_page=True),
        Section("7. Utility", _utility(found), starts_page=True),
        Section("8. How it was made", _made(found), starts_page=True),
        Section("9. Limits", _limits(found)),
    ]
    name = found.manifest.sensitive_name
    ending = (
        f"Made with sfumato {version('sfumato')} on {found.on.isoformat()}, from the release and the table it was made "
        f"from. Tables are cut to {MOST_ROWS} rows; all of them are in the output of audit --json."
    )
    return Page(TITLE, f"A table in which {name!r} is protected", tuple(sections), ending, is_private=True)


def _stated(found: Evidence, *keys: str) -> str:
    """What a person says to a section, or that nobody did."""
    pairs = [(SECTIONS["judgement"][key], found.context.entry("judgement", key)) for key in keys]
    return facts(STATED, pairs)


# ---------------------------------------------------------------------------------------------------------- the summary


def _summary(found: Evidence) -> str:
    manifest, context = found.manifest, found.context
    published = (
        f"{found.release.rows:,} records with {len(manifest.public):,} public columns; {manifest.sensitive_name!r} is "
        f"protected by {manifest.mechanism_name} ({manifest.mechanism.guarantee})"
    )
    why = [each.detail[:1].upper() + each.detail[1:] for each in found.failed]
    decider = context.decider or HOLDER
    blanks = [(words, "" if text == NOT_STATED else text) for words, text in context.entries("decision")[1:]]
    return "".join(
        [
            facts("What was published", [("release", published), ("purpose", context.entry("decision", "purpose"))]),
            element("div", paragraph(manifest.promise), class_="promise"),
            tiles(five_numbers(found)),
            element("h3", "What is not covered"),
            listed(uncovered(manifest)),
            decision(found.is_met, decider, why, blanks),
        ]
    )


def five_numbers(found: Evidence) -> Iterator[tuple[str, str, str]]:
    """Five numbers, each with what it does not cover."""
    factors = [each for each in found.audit.odds.values() if each is not None]
    much = NOT_TOLD if not factors else "none" if math.isinf(max(factors)) else f"{max(factors):.4g} times"
    yield (
        much,
        "the largest factor by which what a record shows moves the odds of two values",
        "Not what public columns tell before, nor what a second release adds. None: some values are ruled out.",
    )
    best = _most_knowing(found)
    yield (
        NOT_TOLD if best is None else _right(best),
        "people guessed right"
        if best is None
        else f"people guessed right who is known by {best.knows}, without the release and with it",
        "Not what attackers find who know more than these.",
    )
    yield (
        percent(found.singling.alike.alone),
        "records that are alone with their public columns",
        "Not who has such columns elsewhere, nor what is learned about people who are alike.",
    )
    error = found.utility.error
    yield (
        NOT_TOLD if error is None else f"\u00b1{percent(error)}",
        "typical error of a count of 1,000 records",
        "Not other questions: every answer has an error of its own.",
    )
    coverage = found.utility.coverage
    yield (
        percent_exactly(coverage),
        f"of {len(found.utility.known):,} intervals hold the truth; 95% are meant to",
        "Counts drawn at random, of this release alone.",
    )


def _most_knowing(found: Evidence) -> Attack | None:
    """Of those who know most and what is published, the one who is right most often."""
    all_of = [each for each in found.audit.attacks if each.who == ALL_COLUMNS] or list(found.audit.attacks)[:1]
    return max(all_of, key=lambda each: (each.with_release or each.without).right, default=None)


def _right(attack: Attack) -> str:
    with_release = None if attack.with_release is None else attack.with_release.right
    return f"{percent(attack.without.right)}{ARROW}{percent(with_release)}"


# ------------------------------------------------------------------------------------------------- setting and columns


def _setting(found: Evidence) -> str:
    return facts(STATED, found.context.entries("setting"))


def _columns(found: Evidence) -> str:
    manifest, needed = found.manifest, found.context.needed
    rows = [(called(name), kind, role, needed.get(name, NOT_STATED)) for name, kind, role in column_roles(manifest)]
    rows += [(called(name), "", "left out", "") for name in found.dropped]
    origin = "declared by the publisher" if manifest.is_declared else "taken from the table, so it tells which occur"
    checks = {each.name: each.detail for each in found.verification.checks}
    left = NOT_TOLD if found.left_out is None else f"{found.left_out:,} rows of the table were not published"
    known = [
        ("records", f"{found.release.rows:,} published; {left}"),
        ("missing values", manifest.nulls),
        ("list of values", f"{len(manifest.domain):,} values, {origin}"),
        ("persons", checks.get("persons", NOT_TOLD)),
        ("accepted", checks.get("accepted", NOT_TOLD)),
    ]
    return table(
        "Each column, and what became of it", ("column", "type", "technique", "why it is needed"), rows
    ) + facts("Records and values", known)


# ------------------------------------------------------------------------------------------- singling out, linkability


def _singling(found: Evidence) -> str:
    singled = found.singling
    curves = [AlikeCurve("as published", singled.after)]
    if singled.before is not None:
        curves.append(AlikeCurve("before bins", singled.before))
    rows = [(", ".join(map(called, names)), percent(share)) for names, share in singled.sets]
    alike = singled.alike
    known = [
        ("alone", percent(alike.alone)),
        ("among fewer than 5", percent(alike.below_5)),
        ("among fewer than 11", percent(alike.below_11)),
        ("smallest group", f"{singled.smallest:,} records"),
    ]
    people = found.audit.linked.in_population
    if people is not None:
        known += [
            ("like one person of the register", percent(people.alone)),
            ("like fewer than 5, than 11", f"{percent(people.below_5)}, {percent(people.below_11)}"),
            ("like nobody of it", percent(found.audit.linked.absent)),
        ]
    tried = f"Of {singled.tried:,} sets of up to three columns those are listed with which somebody is alone."
    if singled.left_out:
        tried += f" Not tried together: {', '.join(singled.left_out)}."
    return "".join(
        [
            drawn(partial(uniqueness, curves)),
            facts("Records that are alike in all public columns", known),
            table("Sets of columns that make most alone", ("columns", "records alone"), rows, numbers=(1,)),
            paragraph(tried, "quiet"),
            paragraph(
                "Whoever is alone is found by somebody who knows those columns; what such a record shows of "
                "the protected value is in section 5. Columns that others hold in another form are not compared.",
                "quiet",
            ),
            _stated(found, "threshold"),
        ]
    )


def _linking(found: Evidence) -> str:
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
            _stated(found, "registers"),
        ]
    )


# ------------------------------------------------------------------------------------------------------------ inference


def _inference(found: Evidence) -> str:
    audit, manifest = found.audit, found.manifest
    parts = [element("div", paragraph(manifest.promise), class_="promise")]
    parts.append(
        paragraph("The promise is proved, from the published design alone; what follows is measured.", "quiet")
    )
    for about in dict.fromkeys(each.about for each in audit.attacks):
        mine = [GuessedRight.of(each, manifest.mechanism_name) for each in audit.attacks if each.about == about]
        parts.append(drawn(partial(attackers_ladder, mine)))
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
    parts += [_values(found), _stated(found, "acceptable_gain")]
    return "".join(parts)


def _by_column(found: Evidence) -> Iterator[str]:
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
    return name, *(ARROW.join(f"{one:.1%}" for one in both) for both in numbers)


def _values(found: Evidence) -> str:
    total = max(sum(each.count for each in found.values), 1)
    rows = [
        (
            called(each.name),
            f"{each.count:,}",
            percent(each.count / total),
            NOTHING if each.limit is None else str(each.limit),
            "yes" if each.is_covered else "no: " + _why_open(found),
        )
        for each in found.values
    ]
    covered = sum(each.is_covered for each in found.values)
    caption = f"Values: {covered:,} of {len(rows):,} are covered by the bound; those of most records first"
    return table(caption, ("value", "count", "share", "believed at most", "covered"), rows, numbers=(1, 2, 3))


def _why_open(found: Evidence) -> str:
    if found.spec is None:
        return "odds alone are bounded"
    return "above the prior, odds alone are bounded" if found.spec.bound is not None else "nothing was asked"


# --------------------------------------------------------------------------------------------------- motivated intruder


def _intruder(found: Evidence) -> str:
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
            "other half tells, which is an upper bound for columns such as these.",
            "quiet",
        )
        if audit.attacks
        else paragraph(f"No attacker was scored: {audit.unmatched}"),
    ]
    curves = [Corruption(f"{found.manifest.mechanism_name}, {name}", told) for name, told in audit.corrupted.items()]
    if any(each.known for each in curves):
        parts.append(drawn(partial(corruption, curves)))
    parts += [_looks(found), _controls(found), _stated(found, "intruder_knows")]
    return "".join(parts)


def _between(interval: tuple[float, float]) -> str:
    return f"{percent_exactly(interval[0])} to {percent_exactly(interval[1])}"


def _looks(found: Evidence) -> str:
    rows = [(each.name, "as it should be" if each.passed else "FOUND", each.detail) for each in found.audit.checks]
    return table("Looks that must find nothing", ("look", "result", "what was seen"), rows)


def _controls(found: Evidence) -> str:
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


# -------------------------------------------------------------------------------------------------------------- utility


def _utility(found: Evidence) -> str:
    useful, parts = found.utility, list[str]()
    if curves := foreseen_curves(foreseen(found.release)):
        parts.append(drawn(partial(error_by_count, curves, of=OF)))
    if useful.known:
        parts.append(drawn(partial(against_truth, useful.answers)))
        rows = [
            (
                f"below {quantity(each.high)}" if not each.low else f"{quantity(each.low)} to {quantity(each.high)}",
                f"{len(each.answers):,}",
                quantity(each.error),
                quantity(_observed([one.estimate - one.truth for one in each.answers])),
                percent_exactly(each.held),
            )
            for each in size_classes(useful.known)
        ]
        headings = ("true count", "questions", "predicted error", "observed error", "95% intervals that hold")
        caption = "Counts drawn at random: conditions as records have them, on up to three public columns"
        parts.append(table(caption, headings, rows, numbers=range(1, 5)))
        parts.append(
            paragraph(
                "Predicted is the middle one of the standard errors that answers say, observed the root mean square of "
                "how far they are off. Counts of one release are not independent of each other.",
                "quiet",
            )
        )
    else:
        parts.append(paragraph(f"No count was compared with the truth: {useful.why_not or 'none could be asked.'}"))
    if found.own:
        parts.append(element("h3", "The holder's own questions"))
        parts += map(_own, found.own[:MOST_QUESTIONS])
        if len(found.own) > MOST_QUESTIONS:
            parts.append(paragraph(f"{len(found.own) - MOST_QUESTIONS:,} more are in the output of --json.", "quiet"))
    return "".join([*parts, _stated(found, "fit_for_purpose")])


def _observed(differences: Sequence[float]) -> float:
    return math.sqrt(sum(each**2 for each in differences) / max(len(differences), 1))


def _own(answer: OwnAnswer) -> str:
    asked = element("p", element("code", said(answer.sql)))
    if answer.why_not and not answer.rows:
        return asked + paragraph(f"Not answered: {answer.why_not}")
    rows = [
        (called(each.label) or "all", each.words, each.ends, quantity(truth), _holds(each.low, each.high, truth))
        for each, truth in answer.rows
    ]
    told = table("Answer and truth", ("of", "estimate", "95% interval", "truth", "holds it"), rows, numbers=(1, 3))
    picture = drawn(partial(forest, [each for each, _ in answer.rows])) if len(rows) > 1 else ""
    return (
        asked
        + told
        + picture
        + (paragraph(answer.why_not[:1].upper() + answer.why_not[1:], "quiet") if answer.why_not else "")
    )


def _holds(low: float | None, high: float | None, truth: float | None) -> str:
    if truth is None or low is None or high is None:
        return NOTHING
    return "yes" if low <= truth <= high else "no"


# ---------------------------------------------------------------------------------------------- how it was made, limits


def _made(found: Evidence) -> str:
    manifest = found.manifest
    asked = ", ".join(f"{key} {value}" for key, value in found.asked.items() if value is not None and key != "schema")
    known = [
        ("mechanism", manifest.mechanism_name),
        *design_words(manifest),
        ("software", f"release by sfumato {manifest.software}, report by {version('sfumato')}"),
        ("digest", digest_in_parts(found.digest)),
        ("request", asked or "the plan file was not given, which remembers it"),
        ("key", "the plan file told whose record is whose" if found.has_plan else "no plan file was given"),
        ("seed", "secret" if found.seed is None else str(found.seed)),
        ("command", found.command or NOT_STATED),
    ]
    rows = [
        (each.name, "passed" if each.passed else "FAILED", each.detail)
        for each in (*found.verification.checks, *found.audit.checks)
    ]
    return facts("The design, exactly as it is published", known) + table(
        "Verification", ("check", "result", "what was seen"), rows
    )


def _limits(found: Evidence) -> str:
    measured = [
        "Attackers are those that are named; somebody who knows more may guess more. What they find holds for this "
        "release, and for the people who were looked at.",
        UNCHECKED[1],
    ]
    return listed([*uncovered(found.manifest), *measured])
