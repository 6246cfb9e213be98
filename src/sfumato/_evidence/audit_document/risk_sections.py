"""Makes the sections about risks: singling out, linkability, inference, and the motivated intruder."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from functools import partial

from sfumato._document.document import Block, DataTable, Facts, Picture, Text, Tone
from sfumato._document.html_markup import NOTHING, shorten_name
from sfumato._evidence.audit_document.section_phrases import describe_odds, make_statement
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
from sfumato._figures.number_format import (
    NOT_AVAILABLE,
    format_count,
    format_exact_percent,
    format_percent,
    format_upper_percent,
)
from sfumato._publish.exposure_section import list_unlinked_blocks, make_belief_table
from sfumato._risk.attackers.attack_result import EXPOSURE_EXPLANATION
from sfumato._risk.attackers.self_test import SelfTest
from sfumato._verify.check_results import make_checks

MAX_DENOMINATOR = 100
MOST_SETS, MOST_VALUES = 10, 20
"""The most rows on a page; the JSON output has all."""
WITHOUT_KEY = (
    "No plan file was given, so records were matched without the key. {:,} people were matched by unique public "
    "columns, and the others at random within equivalence classes. For the others, the numbers follow from the "
    "design and do not test the release."
)
WIDE_FIGURE = 700
"""The width of a figure whose rows have long names."""
ATTACKERS = (
    "Attack success is the % of people whose value is guessed correctly. Without the release, the attacker has the "
    "same knowledge but no published record, so the difference is due to publishing. Other attackers may know more."
)


def list_singling_out(dossier: Dossier) -> tuple[Block, ...]:
    """Makes the section about singling out, with class sizes by all public columns and by few columns."""
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
        ("unique records", format_percent(class_size_shares.unique_share)),
        ("in groups of fewer than 5", format_percent(class_size_shares.below_5)),
        ("in groups of fewer than 11", format_percent(class_size_shares.below_11)),
        ("size of the smallest group", format_count(singling_out.smallest_class, "record")),
    ]
    if dossier.audit.one_valued_people is not None:
        fact_rows.append(
            ("people in counts of fewer than 11 people with one value", f"{dossier.audit.one_valued_people:,}")
        )
    people = dossier.audit.linkage.in_population
    if people is not None:
        fact_rows += [
            ("records that match one person of the register", format_percent(people.unique_share)),
            (
                "records that match fewer than 5, fewer than 11",
                f"{format_percent(people.below_5)}, {format_percent(people.below_11)}",
            ),
            ("records that match nobody", format_percent(dossier.audit.linkage.absent_share)),
        ]
    tried_note = (
        f"Of {singling_out.tried_count:,} sets of up to three columns, {len(singling_out.column_sets):,} "
        "make at least one record unique."
    )
    if singling_out.untried_columns:
        tried_note += f" Not tried together: {', '.join(singling_out.untried_columns)}."
    return (
        Picture(partial(draw_uniqueness, curves)),
        Facts("Records with the same values in all public columns", tuple(fact_rows)),
        DataTable(
            "The sets of up to three columns with the most unique records",
            ("columns", "unique records"),
            tuple(rows),
            (1,),
        ),
        Text(tried_note, Tone.QUIET),
        Text(
            "Anyone who knows these columns can re-identify a unique record; section 5 shows what the record "
            "discloses about the protected value. Other data may have these columns in other forms; this was not "
            "compared.",
            Tone.QUIET,
        ),
        make_statement(dossier, "threshold"),
    )


def list_linkability(dossier: Dossier) -> tuple[Block, ...]:
    """Makes the section about linkability, with the records that can be joined and the tests of row order."""
    links, checks = dossier.audit.linkage, {item.name: item for item in dossier.verification.checks}
    fact_rows = [("linked by", ", ".join(map(shorten_name, links.columns)) or "no column")]
    fact_rows.append(
        ("unique match with the original", f"{format_percent(links.in_release.unique_share)} of the records")
    )
    if links.in_population is None:
        fact_rows.append(("with a register", "none was given"))
    else:
        fact_rows.append(
            ("unique match with the register", f"{format_percent(links.in_population.unique_share)} of the records")
        )
    metadata = checks.get("metadata")
    fact_rows.append(("file metadata", NOT_AVAILABLE if metadata is None else metadata.detail))
    rows = [
        (item.name, "associated" if item.is_significant else "independent", f"{item.score:.1f}", f"{item.records:,}")
        for item in dossier.audit.order_tests
    ]
    headings = ("comparison", "result", "standard deviations", "records")
    return (
        Facts("Records that can be joined", tuple(fact_rows)),
        DataTable("Row orders that could match records with people", headings, tuple(rows), (2, 3)),
        Text(
            "If two orders are independent, a test exceeds 4.9 standard deviations once in a million tests. 0 means "
            "that too few people differ for a test. Orders that were not compared may still disclose something.",
            Tone.QUIET,
        ),
        make_statement(dossier, "registers"),
    )


def list_inference(dossier: Dossier) -> tuple[Block, ...]:
    """Makes the section about inference, with the proved guarantee and then attack success by knowledge."""
    audit, manifest = dossier.audit, dossier.manifest
    parts: list[Block] = [_make_guarantee(dossier)]
    for about in dict.fromkeys(item.protected_column for item in audit.attacks):
        attack_successes = [
            AttackSuccess.of(item, manifest.mechanism_name) for item in audit.attacks if item.protected_column == about
        ]
        parts.append(Picture(partial(draw_attack_scenarios, attack_successes), WIDE_FIGURE))
    parts.append(Text(ATTACKERS if audit.attacks else f"No attack was run: {audit.skip_reason}", Tone.QUIET))
    if audit.unique_matches is not None:
        parts.append(Text(WITHOUT_KEY.format(audit.unique_matches), Tone.QUIET))
    parts += _list_exposures(dossier)
    if dossier.spec is not None and dossier.spec.bound is not None:
        total = max(sum(item.count for item in dossier.values), 1)
        shares = {item.name: item.count / total for item in dossier.values}
        is_any_prior = manifest.mechanism.guarantee.covers_all_statements
        parts.append(
            Picture(
                partial(draw_posterior_by_prior, BeliefBound.of(dossier.spec.bound, shares, is_any_prior=is_any_prior))
            )
        )
    return *parts, _make_value_table(dossier), make_statement(dossier, "acceptable_gain")


def _make_guarantee(dossier: Dossier) -> Facts:
    """Makes the facts that the design guarantees, without measurements."""
    guarantee, spec = dossier.manifest.mechanism.guarantee, dossier.spec
    checks = [item.detail for item in dossier.verification.checks if item.name == "guarantee"]
    fact_rows = [
        ("requested", "bounds on odds only" if spec is None else spec.sentence),
        ("guaranteed", f"{guarantee}: {guarantee.sentence}"),
        ("recomputed", *(checks or [NOT_AVAILABLE])),
        ("largest factor of odds", describe_odds(dossier)),
    ]
    caption = "Proved from the published design (the rest of this section is measured)"
    return Facts(caption, tuple((item[0], item[1]) for item in fact_rows))


def _list_exposures(dossier: Dossier) -> Iterator[Block]:
    """Lists the exposure by each public column, without and with the release."""
    audit = dossier.audit
    for about in dict.fromkeys(attack.protected_column for attack in audit.column_attacks):
        column_attacks = [attack for attack in audit.column_attacks if attack.protected_column == about]
        if dossier.spec is not None:
            bound = "" if dossier.spec.bound is None else f"of {dossier.spec.bound.posterior}"
            yield Picture(
                partial(draw_exposure_by_column, [ColumnExposure.of(attack) for attack in column_attacks], bound=bound)
            )
        yield make_belief_table(about, column_attacks)
    if audit.column_attacks:
        yield Text(EXPOSURE_EXPLANATION.format(max(attack.records for attack in audit.column_attacks)), Tone.QUIET)


def _make_value_table(dossier: Dossier) -> DataTable:
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
        f"Values, most frequent first. The bound covers {covered_count:,} of {len(rows):,} values, against the "
        f"attackers that this guarantee ({guarantee}) covers"
    )
    return DataTable(
        caption,
        ("value", "count", "share", "highest confidence", "covered"),
        tuple(rows),
        (1, 2, 3),
        max_rows=MOST_VALUES,
    )


def _format_limit(limit: Fraction) -> str:
    """A fraction with a small denominator, or its percentage, rounded up."""
    return str(limit) if limit.denominator <= MAX_DENOMINATOR else format_upper_percent(limit)


def explain_uncovered(dossier: Dossier) -> str:
    """Explains in a phrase why a value is not covered."""
    if dossier.spec is None:
        return "no fixed limit on the confidence"
    return "more frequent than the prior" if dossier.spec.bound is not None else "no bound was requested"


def list_intruder_test(dossier: Dossier) -> tuple[Block, ...]:
    """Makes the section with each attack and its control, the checks, and the self-test of the checks."""
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
    headings = (
        "knows",
        "people",
        "success without the release",
        "success with the release",
        "95% confidence interval",
        "control",
        "seed",
    )
    parts: list[Block] = [
        DataTable("Each attack: knowledge and success", headings, tuple(rows), (1, 2, 3, 4, 5)),
        Text(
            "The control is the same attack on people without a record in the release. The control measures what the "
            "release teaches about people in general. Attackers who know public columns learned from the original "
            "table: from each half of the people for guesses about the other half. Real attackers usually know less.",
            Tone.QUIET,
        )
        if audit.attacks
        else Text(f"No attack was run: {audit.skip_reason}"),
    ]
    for about in dict.fromkeys(item.protected_column for item in audit.attacks):
        parts += list_unlinked_blocks(about, [item for item in audit.attacks if item.protected_column == about])
    curves = [
        KnownOthersCurve(f"{dossier.manifest.mechanism_name}, {name}", curve_points)
        for name, curve_points in audit.success_by_share.items()
    ]
    if any(item.known_points for item in curves):
        parts.append(Picture(partial(draw_known_others, curves)))
    checks = make_checks("Checks of a correctly made release, and their self-test", audit.checks)
    return *parts, checks, *_list_self_tests(dossier), make_statement(dossier, "intruder_knows")


def _format_interval(interval: tuple[float, float]) -> str:
    return f"{format_exact_percent(interval[0])} to {format_exact_percent(interval[1])}"


def _describe_detection(self_test: SelfTest) -> str:
    if not self_test.is_possible:
        return "not possible"
    return "detected" if self_test.is_noticed else "NOT DETECTED"


def _list_self_tests(dossier: Dossier) -> tuple[Block, ...]:
    rows = [
        (
            control.corruption,
            _describe_detection(control),
            f"{control.score:.1f}",
            control.power,
        )
        for control in dossier.audit.self_tests
    ]
    caption = "Self-test: do the checks detect a deliberately corrupted release?"
    headings = ("corruption", "result", "standard deviations", "smallest fault detected, or why none is possible")
    return DataTable(caption, headings, tuple(rows), (2,)), Text(
        "By chance, one check in a million rejects a correct release, and one self-test in a million misses its fault. "
        "Faults smaller than those in the last column may remain undetected.",
        Tone.QUIET,
    )
