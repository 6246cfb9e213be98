"""Chaytor and Wang, "Small domain randomization: same privacy, more utility" (2010).

The published tables are drawn from CENSUS with 50 occupations; ours have the same largest and smallest shares, or are
the user's. UP is uniform perturbation, PP small domain randomization with the paper's order and merging.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import permutations
from statistics import NormalDist, mean
from typing import Any

from papers.experiment import Conditions, Experiment
from papers.experiment_outcome import Outcome, Verdict, is_within, judge
from sfumato._core.exact_numbers import Exact, parse_exact
from sfumato._core.random_draws import Draws
from sfumato._figures.line_chart import Axis, MeasuredLine, draw_lines
from sfumato._figures.number_format import format_percent
from sfumato._request.belief_bounds import BreachBound
from sfumato._request.histogram import Histogram
from sfumato.mechanisms._randomized_response import uniform_mechanism as uniform
from sfumato.mechanisms._randomized_response.small_domain import USUAL_MINIMUM
from sfumato.mechanisms._randomized_response.small_domain.balancing import (
    BalancedGroups,
    balance,
    find_protected_places,
)
from sfumato.mechanisms._randomized_response.small_domain.merging import (
    CountedCell,
    Part,
    compute_error_bound,
    compute_total_variance,
    merge_by_bound,
    merge_by_variance,
    merge_groups,
)
from sfumato.mechanisms._randomized_response.small_domain.sub_table_planning import rearrange_groups
from sfumato.mechanisms.mechanism import NoOptions

EXAMPLE = (12, 8, 6, 5, 4, 3, 1, 1, 1, 1)
PRIOR = "1/13"
PRINTED = 0.05
"""Half of the last printed digit of a percentage."""
LIMITS = (6, 5, 4, 3)
"""One over the posterior, called L."""
TWO_SIDED_95 = NormalDist().inv_cdf(0.975)
"""Standard errors that 95% of estimates keep; the paper's bound is of the same 95%."""
REQUESTS: Mapping[str, tuple[tuple[int, ...], Fraction | None]] = {
    "occupations": (LIMITS, None),
    "education": ((10, 8, 6, 4), Fraction(1, 30)),
}
"""What the paper asks of its two tables: L, and the prior where it is not the largest share."""


@dataclass(frozen=True)
class PhasedPlan:
    """A table on its way through the phases of the paper."""

    posterior: Fraction
    protected: tuple[int, ...]
    balanced: BalancedGroups
    order: tuple[int, ...]
    parts: tuple[Part, ...]

    @classmethod
    def of(cls, counts: Sequence[int], prior: Exact, posterior: Exact) -> PhasedPlan:
        """Balanced, rearranged and merged."""
        protected = find_protected_places(counts, parse_exact(prior))
        balanced = balance(counts, protected)
        return cls(parse_exact(posterior), protected, balanced, (), ()).merge(rearrange_groups(balanced.groups))

    def merge(self, order: Sequence[int]) -> PhasedPlan:
        """The same groups in another order, merged."""
        parts = merge_by_bound(self.balanced.groups, order, self.protected, self.posterior, 0)
        return replace(self, order=tuple(order), parts=parts)

    @property
    def whole_cell(self) -> CountedCell:
        """The table as one cell: uniform perturbation."""
        return merge_groups(self.balanced.groups, self.protected)

    @property
    def cells(self) -> list[CountedCell]:
        """The sub-tables."""
        return [merge_groups([self.balanced.groups[number] for number in part], self.protected) for part in self.parts]

    @property
    def retentions(self) -> list[Fraction]:
        """The chance of each sub-table's coin."""
        return [part.compute_retention(self.posterior) for part in self.cells]


def table1(_: Conditions) -> Outcome:
    """The probabilities of uniform perturbation by the size of the domain, amplification 5."""
    printed = {77: (5, 1), 70: (5, 1), 50: (7, 2), 14: (22, 6), 9: (31, 8), 7: (36, 9), 6: (40, 10), 2: (67, 17)}
    rows, agreeing = [], []
    for size, (printed_retention, printed_swap) in printed.items():
        retention, swap = _compute_uniform(size)
        rows.append((size, float(100 * retention), printed_retention, float(100 * swap), printed_swap))
        agreeing += [round(100 * retention) == printed_retention, round(100 * swap) == printed_swap]
    headings = ("values", "p in %", "p as printed", "q in %", "q as printed")
    sentence = f"{agreeing.count(True)} of the {len(agreeing)} percentages are as printed."
    return Outcome(headings, tuple(rows), judge(agreeing), sentence)


def _compute_uniform(size: int) -> tuple[Fraction, Fraction]:
    """Retention and swap of the product's uniform perturbation with amplification 5."""
    histogram = Histogram.of(range(size), [1] * size)
    plan = uniform.plan(histogram, BreachBound("1/10", "5/14"), NoOptions(), Draws.unsafe_test_key("00" * 32))
    design = uniform.make_design(plan)
    return design.retention, design.swap_probability


def large_domains(_: Conditions) -> Outcome:
    """Probabilities for domains of thousands of values (section 1.1)."""
    rows, differing = [], []
    for name, size, printed in (
        ("ICD-9 codes", 15_000, (6.7e-5, 3.3e-4)),
        ("age and country", 5_390, (1.9e-4, 7.4e-4)),
    ):
        retention, swap = _compute_uniform(size)
        probabilities = (float(swap), float(retention + swap))
        rows.append((name, size, probabilities[0], printed[0], probabilities[1], printed[1], float(retention)))
        differing += [
            f"{label} of {name} is {ours:.1e} where {theirs:.1e} is printed"
            + (", which is p alone" if f"{float(retention):.1e}" == f"{theirs:.1e}" else "")
            for label, ours, theirs in zip(("q", "p + q"), probabilities, printed, strict=True)
            if f"{ours:.1e}" != f"{theirs:.1e}"
        ]
    headings = ("domain", "values", "q", "q as printed", "p + q", "p + q as printed", "p")
    sentence = (
        f"{4 - len(differing)} of the 4 numbers are as printed"
        + "".join(f"; {difference}" for difference in differing)
        + "."
    )
    return Outcome(headings, tuple(rows), judge([not differing]), sentence)


def example1(_: Conditions) -> Outcome:
    """Two sub-tables at (1/3, 2/3), and the table without them."""
    planned = PhasedPlan.of(EXAMPLE, "1/3", "2/3")
    rows = [
        (name, part.total, part.domain_size, prior, *_compute_probabilities(prior, part.domain_size), printed)
        for name, part, prior, printed in (
            ("T1", planned.cells[0], planned.cells[0].prior, "1/3, 4, 4/9"),
            ("T2", planned.cells[1], planned.cells[1].prior, "1/6, 10, 2/3"),
            ("T, at the prior that is asked", planned.whole_cell, Fraction(1, 3), "1/3, 4, 4/13"),
            ("T, at its largest share as T1 and T2 are", planned.whole_cell, planned.whole_cell.prior, None),
        )
    ]
    agreeing = [", ".join(map(str, row[3:6])) == row[6] for row in rows[:3]]
    headings = ("table", "records", "values", "prior", "amplification", "diagonal", "as printed")
    sentence = (
        f"{'All' if all(agreeing) else 'Not all'} probabilities are as printed; but the parts are taken at their "
        f"largest share and the whole at the prior that is asked: at its own largest share, {rows[3][3]}, it has "
        f"amplification {rows[3][4]} and diagonal {rows[3][5]}, from which the gain of the parts would be smaller."
    )
    return Outcome(headings, tuple(rows), judge(agreeing), sentence)


def _compute_probabilities(prior: Fraction | None, size: int) -> tuple[Fraction, Fraction]:
    """The amplification of a table at the posterior 2/3, and the chance that a value of it stays."""
    amplification = BreachBound(prior or Fraction(1, 3), "2/3").amplification
    return amplification, amplification / (size - 1 + amplification)


def example2(_: Conditions) -> Outcome:
    """Balancing: the initial groups of Example 1."""
    groups = PhasedPlan.of(EXAMPLE, "1/3", "2/3").balanced.groups
    printed = ((6, 6, 6), (4, 0, 0, 4, 4), (2, 2, 0, 0, 0, 2), (0, 0, 0, 1, 0, 1, 1), (0, 0, 0, 0, 0, 0, 0, 1, 1, 1))
    full = [group + (0,) * (10 - len(group)) for group in printed]
    rows = tuple(
        (f"g{number + 1}", " ".join(map(str, ours)), " ".join(map(str, theirs)))
        for number, (ours, theirs) in enumerate(zip(groups, full, strict=True))
    )
    agreeing = [ours == theirs for ours, theirs in zip(groups, full, strict=True)]
    sentence = f"{agreeing.count(True)} of the {len(agreeing)} groups are as printed."
    return Outcome(("group", "ours", "as printed"), rows, judge(agreeing), sentence)


def example3(_: Conditions) -> Outcome:
    """Rearranging: the order of the groups."""
    planned = PhasedPlan.of(EXAMPLE, "1/3", "2/3")
    rows = ((" ".join(f"g{number + 1}" for number in planned.order), "g1 g3 g2 g4 g5"),)
    is_same = planned.order == (0, 2, 1, 3, 4)
    orders = list(permutations(planned.order))
    bounds = {round(compute_error_bound(planned.merge(order).cells, planned.posterior), 9) for order in orders}
    sentence = (
        f"The order is {'' if is_same else 'not '}as printed with our way of breaking ties, which the paper leaves "
        f"open; the {len(orders)} orders have {len(bounds)} different least bounds, from {min(bounds):.3g} to "
        f"{max(bounds):.3g}."
    )
    return Outcome(("ours", "as printed"), rows, judge([is_same]), sentence)


def example4(_: Conditions) -> Outcome:
    """Merging: which groups become a sub-table, and the bound of the error."""
    planned = PhasedPlan.of(EXAMPLE, "1/3", "2/3")
    part_names = ["{" + ", ".join(f"g{number + 1}" for number in part) + "}" for part in planned.parts]
    bound = compute_error_bound(planned.cells, planned.posterior)
    rows = (("sub-tables", " ".join(part_names), "{g1, g3, g2} {g4, g5}"), ("bound", bound, None))
    agreeing = [planned.parts == ((0, 2, 1), (3, 4))]
    sentence = (
        f"The sub-tables are {'' if agreeing[0] else 'not '}those of print; the bound of the error is {bound:.4f} (no "
        "number is printed)."
    )
    return Outcome(("", "ours", "as printed"), rows, judge(agreeing), sentence)


def table2(conditions: Conditions) -> Outcome:
    """Retention at four posteriors on 300,000 occupations."""
    up, pp = (2.9, 4.0, 5.9, 9.4), (9.0, 12.3, 17.3, 25.7)
    counts = conditions.tables.get_counts("occupations", 300_000, conditions.seed)
    prior = max(Fraction(PRIOR), Fraction(max(counts), sum(counts)))  # a value above the prior is not protected
    rows, ours = [], []
    for limit, whole, parts in zip(LIMITS, up, pp, strict=True):
        planned = PhasedPlan.of(counts, prior, Fraction(1, limit))
        alone = 100 * float(planned.whole_cell.compute_retention(planned.posterior))
        divided = 100 * float(mean(planned.retentions))
        rows.append((limit, alone, whole, divided, parts, divided / alone))
        ours.append((alone, divided))
    differences = [abs(alone - printed) for (alone, _), printed in zip(ours, up, strict=True)]
    differences += [abs(divided - printed) for (_, divided), printed in zip(ours, pp, strict=True)]
    figure = draw_lines(
        "How often the coin keeps a value",
        Axis("L, one over the posterior"),
        Axis("retention in %"),
        [
            MeasuredLine("PP, ours", tuple((row[0], row[3]) for row in rows)),
            MeasuredLine("PP", tuple((row[0], row[4]) for row in rows), is_published=True),
            MeasuredLine("UP, ours", tuple((row[0], row[1]) for row in rows)),
            MeasuredLine("UP", tuple((row[0], row[2]) for row in rows), is_published=True),
        ],
        reading=f"At L = 6 sub-tables keep {rows[0][5]:.1f} times as many values as the whole table; in print 3.1.",
    )
    headings = ("L", "UP in %", "UP as printed", "PP in %", "PP as printed", "PP by UP")
    sentence = (
        f"Within {max(differences):.1f} points of print: PP keeps {rows[0][5]:.1f} to {rows[-1][5]:.1f} times as much "
        "as UP, in print 3.1 to 2.7 times; our table differs (its largest share is "
        f"{format_percent(max(counts) / sum(counts))}, and of CENSUS only the largest and the smallest are published)."
    )
    verdict = judge([difference <= PRINTED for difference in differences])
    return Outcome(headings, tuple(rows), verdict, sentence, figure)


def table3(conditions: Conditions) -> Outcome:
    """Groups and sub-tables by the number of records, posterior 1/6."""
    printed = {
        100_000: (17, 15, 15.0, 2.6),
        200_000: (18, 8, 20.9, 2.7),
        300_000: (19, 10, 17.3, 2.6),
        400_000: (20, 11, 17.0, 2.6),
        500_000: (20, 12, 18.4, 2.8),
    }
    rows, agreeing = [], []
    for records, printed_row in conditions.iter_steps(printed.items()):
        counts = conditions.tables.get_counts("occupations", records, conditions.seed)
        prior = max(Fraction(PRIOR), Fraction(max(counts), sum(counts)))
        planned = PhasedPlan.of(counts, prior, "1/6")
        sizes = mean(part.domain_size for part in planned.cells)
        amplifications = [part.compute_amplification(planned.posterior) for part in planned.cells]
        amplified = float(mean(amplification for amplification in amplifications if amplification is not None))
        groups = len(planned.balanced.groups)
        rows.append(
            (
                records,
                groups,
                printed_row[0],
                len(planned.cells),
                printed_row[1],
                float(sizes),
                printed_row[2],
                amplified,
                printed_row[3],
            )
        )
        agreeing.append(is_within(groups, printed_row[0], 1) and is_within(amplified, printed_row[3], 0.25))
    headings = ("records", "t", "printed", "k", "printed", "mean m", "printed", "mean amplification", "printed")
    sentence = (
        "The number of initial groups (t) and the mean amplification are those of print or next to them; the number "
        "of sub-tables (k) depends on how ties of the order are broken, which the paper leaves open."
        if all(agreeing)
        else f"From other shares than those of CENSUS come {rows[0][1]} to {rows[-1][1]} groups (print: 17 to 20) and "
        f"a mean amplification of {_format_range([row[7] for row in rows])} (print: 2.6 to 2.8); the number of "
        "sub-tables "
        "depends on the order besides, which the paper leaves open."
    )
    return Outcome(headings, tuple(rows), judge(agreeing), sentence)


def example6(conditions: Conditions) -> Outcome:
    """Balancing in numbers (the thesis' Example 6), which Figure 11 draws."""
    return replace(figure11(conditions), figure=None)


def figure11(_: Conditions) -> Outcome:
    """Balancing, iteration by iteration (the thesis' Example 6 and Figure 11)."""
    balanced = PhasedPlan.of(EXAMPLE, "1/3", "2/3").balanced
    printed = ("42, 12, 6, 5, 8, 6", "24, 6, 4, 3, 5, 4", "..., 2", "6, 1, 1, 1, 1, 1", "3, 1, 1, 0, 1, 1")
    remaining: tuple[int, ...] = EXAMPLE
    rows, agreeing, remaining_by_step = [], [], [remaining]
    for number, (group, printed_row) in enumerate(zip(balanced.groups, printed, strict=True)):
        ranked, width = (*sorted(remaining, reverse=True), 0), balanced.balance
        first, last, following = ranked[0], ranked[width - 1], ranked[width]
        spread = Fraction(sum(remaining), width) - max(first - last, following)
        step_numbers = (sum(remaining), first, last, following, spread, max(group))
        rows.append((number + 1, *step_numbers, printed_row, " ".join(map(str, remaining)), " ".join(map(str, group))))
        agreeing.append(", ".join(map(str, step_numbers)).endswith(printed_row.removeprefix("...")))
        remaining = tuple(count - group_count for count, group_count in zip(remaining, group, strict=True))
        remaining_by_step.append(remaining)
    figure = draw_lines(
        "What is left of each value as balancing goes on",
        Axis("iterations done"),
        Axis("records"),
        [
            MeasuredLine(f"x{place + 1}", tuple((done, counts[place]) for done, counts in enumerate(remaining_by_step)))
            for place in range(len(EXAMPLE))
        ],
        reading=f"After {len(rows)} iterations nothing is left of {sum(EXAMPLE)} records.",
    )
    headings = ("iteration", "records left", "largest", "last of three", "fourth", "sigma", "height", "as printed")
    sentence = (
        f"All {len(rows)} iterations have the printed numbers, as far as the scan has them (of the third only the "
        "height)."
        if all(agreeing)
        else f"{agreeing.count(False)} of the {len(rows)} iterations have other numbers than print."
    )
    return Outcome((*headings, "left", "group"), tuple(rows), judge(agreeing), sentence, figure)


def example7(_: Conditions) -> Outcome:
    """Balancing where not all values are protected (the thesis' Example 7)."""
    planned = PhasedPlan.of(EXAMPLE, "1/4", "2/3")
    poured = [group[0] for group in planned.balanced.groups]
    rows = tuple(
        (f"g{number + 1}", " ".join(map(str, group)), printed)
        for number, (group, printed) in enumerate(zip(planned.balanced.groups, (6, 3, 1, 2), strict=True))
    )
    is_same = poured == [6, 3, 1, 2]
    sentence = (
        f"The twelve records of the value that is not protected are {'' if is_same else 'not '}poured over the groups "
        "as printed."
    )
    return Outcome(("group", "ours", "records of x1 as printed"), rows, judge([is_same]), sentence)


def beyond(conditions: Conditions) -> Outcome:
    """What merging by the exact variance gains at the same bound, on both tables of the paper."""
    rows: list[tuple[Any, ...]] = []
    for name, (limits, prior) in REQUESTS.items():
        counts = conditions.tables.get_counts(name, 300_000, conditions.seed)
        least = prior or max(Fraction(PRIOR), Fraction(max(counts), sum(counts)))
        rows += [(name, limit, *_compare_merging(PhasedPlan.of(counts, least, Fraction(1, limit)))) for limit in limits]
    names = ("by variance", "as in the paper", "undivided")
    education_rows = [row for row in rows if row[0] == "education"]
    figure = draw_lines(
        "Standard error of the count of a level of education, all at one bound",
        Axis("L, one over the posterior"),
        Axis("records, of 300,000", is_logarithmic=True),
        [
            MeasuredLine(name, tuple((row[1], row[2 + place]) for row in education_rows))
            for place, name in enumerate(names)
        ],
        reading=(
            f"At L = {education_rows[0][1]}: {education_rows[0][2]:.0f} records by variance, "
            f"{education_rows[0][3]:.0f} as in the paper."
        ),
    )
    ratio_texts = (
        f"{_format_range([row[2] / row[3] for row in rows if row[0] == name])} on {name}" for name in REQUESTS
    )
    lower = [row for row in rows if row[2] < row[3] and row[6] > row[7]]
    bounds = (f"{_format_range([row[7] / row[6] for row in rows if row[0] == name])} on {name}" for name in REQUESTS)
    looseness = (
        f"{_format_range(ratios, 0)} times ({name})"
        for name in REQUESTS
        if (ratios := [row[9] for row in rows if row[0] == name and row[10] > 1])
    )
    sentence = (
        "Merging the same groups by the exact variance, at the same bound and for the same attacker, has a standard "
        f"error of {' and '.join(ratio_texts)} times that of the paper's cells, and of "
        f"{_format_range([row[2] / row[4] for row in rows])} times that of the undivided table; no cell of it has "
        f"fewer than {USUAL_MINIMUM:,} records, and of the paper's the smallest has {min(row[5] for row in rows):,}. "
        f"In {len(lower)} of {len(rows)} cases the error is lower though the paper's bound of it is higher: the bound "
        f"of the paper's cells is {' and '.join(bounds)} times that of ours. Where the paper divides a table, its "
        f"bound is {' and '.join(looseness)} the error that 95% of estimates keep, and for undivided tables "
        f"{_format_range([row[8] for row in rows], 0)} times."
    )
    errors = tuple(f"error, {name}" for name in names)
    headings = (
        *("table", "L", *errors, "smallest cell of the paper", "bound", "bound of the paper"),
        *("bound by 95% error, undivided", "bound by 95% error, paper", "cells of the paper"),
    )
    return Outcome(headings, tuple(rows), Verdict.BEYOND, sentence, figure)


def _compare_merging(planned: PhasedPlan) -> tuple[float, float, float, int, float, float, float, float, int]:
    """The error of a value's count by variance, by the paper and undivided; its smallest cell; the bounds of both.

    Then how many times its bound is the error that 95% of estimates keep, undivided and by the paper; and its cells.
    """
    groups, protected, posterior = planned.balanced.groups, planned.protected, planned.posterior
    parts = merge_by_variance(groups, protected, posterior, USUAL_MINIMUM)
    merged = [merge_groups([groups[number] for number in part], protected) for part in parts]
    ways = (merged, planned.cells, [planned.whole_cell])
    ours, theirs, whole = (
        (compute_total_variance(cells, posterior) / planned.whole_cell.domain_size) ** 0.5 for cells in ways
    )
    our_bound, their_bound, whole_bound = (compute_error_bound(cells, posterior) for cells in ways)
    records = planned.whole_cell.total
    return (
        ours,
        theirs,
        whole,
        min(cells.total for cells in planned.cells),
        our_bound,
        their_bound,
        whole_bound * records / (TWO_SIDED_95 * whole),
        their_bound * records / (TWO_SIDED_95 * theirs),
        len(planned.cells),
    )


def _format_range(numbers: Sequence[float], digits: int = 2) -> str:
    low, high = f"{min(numbers):.{digits}f}", f"{max(numbers):.{digits}f}"
    return low if low == high else f"{low} to {high}"


EXPERIMENTS = (
    Experiment("small-domain/table1", "probabilities by the size of the domain", table1),
    Experiment("small-domain/sec1-1", "probabilities of large domains", large_domains, ("p + q for 5,390 values",)),
    Experiment(
        "small-domain/ex1", "two sub-tables and their matrices", example1, scan_faults=("the table's last four counts",)
    ),
    Experiment("small-domain/ex2", "initial groups", example2),
    Experiment("small-domain/ex3", "the order of groups", example3),
    Experiment("small-domain/ex4", "groups merged into sub-tables", example4),
    Experiment("small-domain/ex6", "balancing in numbers", example6),
    Experiment("small-domain/fig11", "balancing, iteration by iteration", figure11),
    Experiment("small-domain/ex7", "groups where not all values are protected", example7),
    Experiment("small-domain/table2", "retention against the posterior", table2, ("the row UP has a prior of 7.5%",)),
    Experiment("small-domain/table3", "groups and sub-tables by the size of the table", table3),
    Experiment("small-domain/beyond", "what merging by variance gains at the same bound", beyond),
)
