"""The sections of a report about risks: singling out, linkability, inference, and what an intruder finds."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from functools import partial

from sfumato._evidence.audit_dossier import Dossier
from sfumato._figures import (
    AttackSuccess,
    BeliefBound,
    ClassSizeCurve,
    ColumnExposure,
    KnownOthersCurve,
    draw_attack_scenarios,
    draw_exposure_by_column,
    draw_known_others,
    draw_posterior_by_prior,
    draw_uniqueness,
)
from sfumato._figures.number_format import NOT_AVAILABLE, format_count, format_exact_percent, format_percent
from sfumato._report.audit_report.section_phrases import ARROW, describe_odds, render_statement
from sfumato._report.html_page import NOTHING, render_facts, render_figure, render_paragraph, render_table, shorten_name
from sfumato._request.guarantee import Guarantee
from sfumato._risk.attackers.attack_result import EXPOSURE_EXPLANATION, Attack

MAX_DENOMINATOR = 100
MOST_SETS, MOST_VALUES = 10, 20
"""So many rows are read on a page; all are in the JSON output."""
WITHOUT_KEY = (
    "No key told whose record is whose (no plan file was given): {:,} people were found by their public columns, and "
    "among people who are alike it was drawn by the law of the release. Of those the numbers say what the design "
    "tells, not whether the release keeps to it."
)
WIDE_FIGURE = 700
"""A figure whose rows have long names."""
ATTACKERS = (
    "Right guesses are in per cent of people. Without the release is what somebody guesses who knows the same and has "
    "no record; the difference is what publishing adds. Other attackers may know more than these."
)


def render_singling_out(dossier: Dossier) -> str:
    """How many records are alike, by all public columns and by few."""
    singling_out = dossier.singling_out
    curves = [ClassSizeCurve("as published", singling_out.after_bins)]
    if singling_out.before_bins is not None:
        curves.append(ClassSizeCurve("before ranges", singling_out.before_bins))
    rows = [
        (", ".join(map(shorten_name, names)), format_percent(share))
        for names, share in singling_out.column_sets[:MOST_SETS]
    ]
    class_size_shares = singling_out.class_size_shares
    fact_rows = [
        ("alone", format_percent(class_size_shares.unique_share)),
        ("among fewer than 5", format_percent(class_size_shares.below_5)),
        ("among fewer than 11", format_percent(class_size_shares.below_11)),
        ("smallest group", format_count(singling_out.smallest_class, "record")),
    ]
    people = dossier.audit.linkage.in_population
    if people is not None:
        fact_rows += [
            ("like one person of the register", format_percent(people.unique_share)),
            ("like fewer than 5, than 11", f"{format_percent(people.below_5)}, {format_percent(people.below_11)}"),
            ("like nobody of it", format_percent(dossier.audit.linkage.absent_share)),
        ]
    tried_note = (
        f"Of {singling_out.tried_count:,} sets of up to three columns {len(singling_out.column_sets):,} "
        "make somebody alone."
    )
    if singling_out.untried_columns:
        tried_note += f" Not tried together: {', '.join(singling_out.untried_columns)}."
    return "".join(
        [
            render_figure(partial(draw_uniqueness, curves)),
            render_facts("Records that are alike in all public columns", fact_rows),
            render_table(
                "Sets of at most three columns that make most alone", ("columns", "alone"), rows, numbers=(1,)
            ),
            render_paragraph(tried_note, "quiet"),
            render_paragraph(
                "Whoever is alone is found by somebody who knows those columns; what such a record shows of "
                "the protected value is in section 5. Columns that others hold in another form are not compared.",
                "quiet",
            ),
            render_statement(dossier, "threshold"),
        ]
    )


def render_linkability(dossier: Dossier) -> str:
    """Records that join, and orders that would tell whose record is whose."""
    links, checks = dossier.audit.linkage, {item.name: item for item in dossier.verification.checks}
    fact_rows = [("linked by", ", ".join(map(shorten_name, links.columns)) or "no column")]
    fact_rows.append(
        ("one to one with the original", f"{format_percent(links.in_release.unique_share)} of the records")
    )
    if links.in_population is None:
        fact_rows.append(("with a register", "none was given"))
    else:
        fact_rows.append(
            ("one to one with the register", f"{format_percent(links.in_population.unique_share)} of the records")
        )
    metadata = checks.get("metadata")
    fact_rows.append(("file metadata", NOT_AVAILABLE if metadata is None else metadata.detail))
    rows = [
        (item.name, "go together" if item.is_significant else "nothing found", f"{item.score:.1f}", f"{item.records:,}")
        for item in dossier.audit.order_tests
    ]
    headings = ("what was compared", "found", "standard deviations", "records")
    return "".join(
        [
            render_facts("Records that join", fact_rows),
            render_table("Orders that would tell whose record is whose", headings, rows, numbers=(2, 3)),
            render_paragraph(
                "An order that has nothing to do with another one is beyond 4.9 standard deviations once in a million "
                "times; 0 where too few people differ. Orders that were not compared may still tell something.",
                "quiet",
            ),
            render_statement(dossier, "registers"),
        ]
    )


def render_inference(dossier: Dossier) -> str:
    """What is proved, then what attackers guess, by what they know."""
    audit, manifest = dossier.audit, dossier.manifest
    parts = [_render_guarantee(dossier)]
    for about in dict.fromkeys(item.protected_column for item in audit.attacks):
        attack_successes = [
            AttackSuccess.of(item, manifest.mechanism_name) for item in audit.attacks if item.protected_column == about
        ]
        parts.append(render_figure(partial(draw_attack_scenarios, attack_successes), WIDE_FIGURE))
    parts.append(
        render_paragraph(ATTACKERS if audit.attacks else f"No attacker was scored: {audit.skip_reason}", "quiet")
    )
    if audit.unique_matches is not None:
        parts.append(render_paragraph(WITHOUT_KEY.format(audit.unique_matches), "quiet"))
    parts += _render_exposure(dossier)
    if dossier.spec is not None and dossier.spec.bound is not None:
        total = max(sum(item.count for item in dossier.values), 1)
        shares = {item.name: item.count / total for item in dossier.values}
        is_any_prior = manifest.mechanism.guarantee is Guarantee.ANY_PRIOR
        parts.append(
            render_figure(
                partial(draw_posterior_by_prior, BeliefBound.of(dossier.spec.bound, shares, is_any_prior=is_any_prior))
            )
        )
    parts += [_render_values(dossier), render_statement(dossier, "acceptable_gain")]
    return "".join(parts)


def _render_guarantee(dossier: Dossier) -> str:
    """What holds by the design alone, whoever attacks; nothing that was measured."""
    guarantee, spec = dossier.manifest.mechanism.guarantee, dossier.spec
    checks = [item.detail for item in dossier.verification.checks if item.name == "promise"]
    fact_rows = [
        ("asked for", "bounds on odds alone" if spec is None else spec.sentence),
        ("promised", f"{guarantee}: {guarantee.sentence}"),
        ("recomputed", *(checks or [NOT_AVAILABLE])),
        ("largest factor of odds", describe_odds(dossier)),
    ]
    caption = "Proved, from the published design alone; all that follows in this section is measured"
    return render_facts(caption, [(item[0], item[1]) for item in fact_rows])


def _render_exposure(dossier: Dossier) -> Iterator[str]:
    """What each public column tells, by itself and with the release."""
    audit = dossier.audit
    for about in dict.fromkeys(attack.protected_column for attack in audit.column_attacks):
        column_attacks = [attack for attack in audit.column_attacks if attack.protected_column == about]
        if dossier.spec is not None:
            bound = "" if dossier.spec.bound is None else f"of {dossier.spec.bound.posterior}"
            yield render_figure(
                partial(draw_exposure_by_column, [ColumnExposure.of(attack) for attack in column_attacks], bound=bound)
            )
        rows = [_make_belief_row(shorten_name(attack.known_columns[0]), attack) for attack in column_attacks]
        caption = f"What somebody believes of {about!r} who knows one public column, without the release{ARROW}with it"
        headings = ("knows", "guesses right", "belief in the true value, mean", "highest", "clearly beyond the request")
        yield render_table(caption, headings, rows, numbers=range(1, 5))
    if audit.column_attacks:
        yield render_paragraph(
            EXPOSURE_EXPLANATION.format(max(attack.records for attack in audit.column_attacks)), "quiet"
        )


def _make_belief_row(name: str, attack: Attack) -> tuple[str, ...]:
    beliefs = [attack.without_release, *([] if attack.with_release is None else [attack.with_release])]
    numbers = zip(
        *((belief.success, belief.mean_belief, belief.worst_belief, belief.share_well_above) for belief in beliefs),
        strict=True,
    )
    return name, *(ARROW.join(map(format_exact_percent, pair)) for pair in numbers)


def _render_values(dossier: Dossier) -> str:
    total = max(sum(protected_value.count for protected_value in dossier.values), 1)
    rows = [
        (
            shorten_name(protected_value.name),
            f"{protected_value.count:,}",
            format_percent(protected_value.count / total),
            _format_limit(protected_value.limit)
            if protected_value.is_covered and protected_value.limit is not None
            else NOTHING,
            "yes" if protected_value.is_covered else "no: " + explain_uncovered(dossier),
        )
        for protected_value in dossier.values
    ]
    covered_count = sum(protected_value.is_covered for protected_value in dossier.values)
    guarantee = dossier.manifest.mechanism.guarantee
    caption = (
        f"Values, those of most records first: {covered_count:,} of {len(rows):,} are covered by the bound, against "
        f"those whom the promise is about ({guarantee}) and no others"
    )
    return render_table(
        caption,
        ("value", "count", "share", "believed at most", "covered"),
        rows,
        numbers=(1, 2, 3),
        max_rows=MOST_VALUES,
    )


def _format_limit(limit: Fraction) -> str:
    """A fraction that can be read, or its decimals."""
    return str(limit) if limit.denominator <= MAX_DENOMINATOR else f"{float(limit):.3g}"


def explain_uncovered(dossier: Dossier) -> str:
    """Why a value is not covered."""
    if dossier.spec is None:
        return "odds alone are bounded"
    return "above the prior, odds alone are bounded" if dossier.spec.bound is not None else "nothing was asked"


def render_intruder_test(dossier: Dossier) -> str:
    """Each attack with its control, and what was spoilt on purpose."""
    audit = dossier.audit
    rows = [
        (
            item.knowledge,
            f"{item.records:,}",
            format_exact_percent(item.without_release.success),
            NOT_AVAILABLE if item.with_release is None else format_exact_percent(item.with_release.success),
            NOTHING if item.with_release is None else _format_interval(item.with_release.interval),
            NOTHING if item.control is None else format_exact_percent(item.control.success),
            "secret" if item.seed is None else str(item.seed),
        )
        for item in audit.attacks
    ]
    headings = ("knows", "people", "right without", "right with", "95% interval", "control", "seed")
    parts = [
        render_table("Each attack: what it was told, and its result", headings, rows, numbers=range(1, 6)),
        render_paragraph(
            "The control is the same attacker about people of whom the release has no record: what it teaches in "
            "general. Attackers who know public columns learned from the original, of each half of the people what the "
            "other half tells, which is more than such people usually have.",
            "quiet",
        )
        if audit.attacks
        else render_paragraph(f"No attacker was scored: {audit.skip_reason}"),
    ]
    curves = [
        KnownOthersCurve(f"{dossier.manifest.mechanism_name}, {name}", curve_points)
        for name, curve_points in audit.success_by_share.items()
    ]
    if any(item.known_points for item in curves):
        parts.append(render_figure(partial(draw_known_others, curves)))
    parts += [_render_checks(dossier), _render_controls(dossier), render_statement(dossier, "intruder_knows")]
    return "".join(parts)


def _format_interval(interval: tuple[float, float]) -> str:
    return f"{format_exact_percent(interval[0])} to {format_exact_percent(interval[1])}"


def _render_checks(dossier: Dossier) -> str:
    rows = [("as expected" if check.has_passed else "FOUND", check.detail) for check in dossier.audit.checks]
    return render_table("Looks that must find nothing", ("result", "what was seen"), rows)


def _render_controls(dossier: Dossier) -> str:
    rows = [
        (control.corruption, "noticed" if control.is_noticed else "not noticed", f"{control.score:.1f}", control.power)
        for control in dossier.audit.self_tests
    ]
    caption = "The same looks at records that were spoilt on purpose, in memory: what they must notice"
    headings = ("spoilt", "result", "standard deviations", "how small a fault is noticed")
    table_html = render_table(caption, headings, rows, numbers=(2,))
    return table_html + render_paragraph(
        "Each look cries wolf once in a million times. What is smaller than the last column says may pass unnoticed.",
        "quiet",
    )
