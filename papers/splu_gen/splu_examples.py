"""Fu, Wang, Wong, Wang and Jiang, "Small sum privacy and large sum utility in data publishing" (2014): what is exact.

Its example, its bounds and its transition matrix need no table. Figures 4 and 5 cannot be read, so what is compared is
what the text says of them; where it does not name a number that they need, ours is named in the sentence.
Notation: gamma = group size, f = count of a value, N = records, epsilon = relative error.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from itertools import combinations

import numpy as np

from papers.experiment import Conditions, Experiment
from papers.experiment_outcome import Outcome, is_within, judge
from papers.splu_gen.band_errors import format_sizes
from sfumato._figures.line_chart import Axis, MeasuredLine, draw_lines
from sfumato._figures.number_format import format_percent, format_quantity
from sfumato._request.decoy_count_errors import (
    compute_chebyshev_bound,
    compute_error_probability,
    compute_tail,
    compute_tail_figure,
    find_accurate_count,
)
from sfumato.mechanisms._decoys.group_creation import Groups, compute_transition, make_fullest_groups
from sfumato.mechanisms._decoys.likelihood_ratios import compute_leak
from sfumato.mechanisms._decoys.splu_iteration import run_iteration

GROUP_SIZE = 10
"""Of Examples 1 and 2; Figure 4 names none."""

DISEASES = ("Hiv", "Flu", "Flu", "Fever", "Hiv", "Flu", "Fever", "Fever", "H5N1")
PUBLISHED = ("Flu", "Flu", "Fever", "Hiv", "Flu", "Hiv", "Fever", "Flu", "H5N1")
FIRST_GROUP = (0, 1, 3)
"""Figure 2: what nine people have and what they publish; and the one group that the text names, the first of three."""

Partition = list[tuple[int, ...]]


def figures2_3(_: Conditions) -> Outcome:
    """The nine people of the example: their groups, and whether what is printed can come from them."""
    values = sorted(set(DISEASES), key=DISEASES.index)
    group_places = _list_groups(make_fullest_groups([DISEASES.count(value) for value in values], 3, None))
    ours = [sorted(values[place] for place in group) for group in group_places]
    partitions = [part for part in _iter_partitions(tuple(range(len(DISEASES)))) if FIRST_GROUP in part]
    able_partitions = [part for part in partitions if all(_is_publishable(group) for group in part)]
    kept_count = sum(
        true_value == published_value for true_value, published_value in zip(DISEASES, PUBLISHED, strict=True)
    )
    named_values = sorted(DISEASES[record] for record in FIRST_GROUP)
    rows = (
        *(
            (f"group {number + 1}", " ".join(group), " ".join(named_values) if not number else None)
            for number, group in enumerate(ours)
        ),
        ("partitions with the named group", len(partitions), None),
        ("of these, able to publish Figure 2(b)", len(able_partitions), "at least 1"),
        ("chance of Figure 2(b) in such a partition", Fraction(1, 3 ** len(DISEASES)), None),
        ("own value published", kept_count, None),
    )
    holds = [named_values in ours, bool(able_partitions)]
    sentence = (
        f"{'The named group is among ours' if holds[0] else 'The named group is not among ours'}, and the printed "
        f"release can come from {len(able_partitions)} of the {len(partitions)} partitions that have it: {kept_count} "
        "of the nine people publish their own disease, where three do on average."
    )
    return Outcome(("", "ours", "as printed"), rows, judge(holds), sentence)


def _list_groups(groups: Groups) -> list[list[int]]:
    runs = zip(groups.members.tolist(), groups.sizes.tolist(), groups.lengths.tolist(), strict=True)
    return [sorted(members[:size]) for members, size, length in runs for _ in range(length)]


def _iter_partitions(records: tuple[int, ...]) -> Iterator[Partition]:
    """All ways to put the records into groups of three with different diseases."""
    if not records:
        yield []
        return
    for others in combinations(records[1:], 2):
        group = (records[0], *others)
        if len({DISEASES[record] for record in group}) == len(group):
            for rest in _iter_partitions(tuple(record for record in records if record not in group)):
                yield [group, *rest]


def _is_publishable(group: tuple[int, ...]) -> bool:
    return {PUBLISHED[record] for record in group} <= {DISEASES[record] for record in group}


COUNTS = (100, 200, 300, 400, 500, 600, 700, 800, 900)
ERRORS = (Fraction(1, 20), Fraction(1, 10), Fraction(3, 10))
DRAWN_ERROR = Fraction(1, 10)


def figure4(_: Conditions) -> Outcome:
    """The chance that a count is off: the printed bound, Chebyshev's, and the chance itself."""
    points = [(error, count) for error in ERRORS for count in COUNTS]
    chances = {
        (error, count): (
            1 / (GROUP_SIZE * error**2 * count**2),
            compute_chebyshev_bound(count, GROUP_SIZE, error),
            Fraction(compute_tail_figure(count, GROUP_SIZE, error)),
        )
        for error, count in points
    }
    rows = tuple((float(error), count, *(float(each) for each in chances[error, count])) for error, count in points)
    excess_by_point = {
        point: float(exact / printed) for point, (printed, _, exact) in chances.items() if exact > printed
    }
    is_right = all(exact <= right for _, right, exact in chances.values())
    risk = Fraction(1, 20)
    threshold = math.sqrt(1 / (GROUP_SIZE * DRAWN_ERROR**2 * risk))
    needed = find_accurate_count(GROUP_SIZE, DRAWN_ERROR, risk)
    lines = ("printed bound", "Chebyshev, corrected", "the chance itself")
    figure = draw_lines(
        f"How likely a count is off by {format_percent(float(DRAWN_ERROR))} or more",
        Axis("records that hold the value"),
        Axis(f"chance, groups of {GROUP_SIZE}", is_logarithmic=True),
        [
            MeasuredLine(
                name,
                tuple((count, float(chances[DRAWN_ERROR, count][place])) for count in COUNTS),
                is_published=not place,
            )
            for place, name in enumerate(lines)
        ],
        reading=f"At {COUNTS[0]} records the chance is {float(chances[DRAWN_ERROR, COUNTS[0]][2]):.2g}; the printed "
        "bound "
        f"says {float(chances[DRAWN_ERROR, COUNTS[0]][0]):.2g}.",
    )
    worst = max(excess_by_point, key=lambda point: excess_by_point[point], default=None)
    sentence = (
        (
            f"In groups of {GROUP_SIZE} the chance is above the printed bound at {len(excess_by_point)} of "
            f"{len(points)} points"
        )
        + (f" (by up to {format_quantity(excess_by_point[worst])} times) and " if worst else ", and ")
        + f"{'never' if is_right else 'sometimes'} above the corrected one; an error below "
        f"{format_percent(float(DRAWN_ERROR))} but for a chance of {format_percent(float(risk))} needs {needed} "
        "records, "
        f"where Lemma 1 asks for {math.ceil(threshold)}."
    )
    headings = ("relative error", "count", *lines)
    return Outcome(headings, rows, judge([], refuted=bool(excess_by_point)), sentence, figure)


def figure5(_: Conditions) -> Outcome:
    """The chance that a small count is off by more than three tenths."""
    error, sizes, counts = Fraction(3, 10), (2, 5, 10), range(1, 11)
    chances = {size: [float(compute_tail(count, size, error, inclusive=False)) for count in counts] for size in sizes}
    rows = tuple((count, *(chances[size][count - 1] for size in sizes)) for count in counts)
    example1, example2 = chances[GROUP_SIZE][4], float(compute_error_probability(3, GROUP_SIZE, error))
    apart = {
        size: max(abs(one - other) for one, other in zip(chances[size], chances[10], strict=True)) for size in sizes
    }
    holds = [is_within(example1, 0.48, 0.005), example2 >= 0.6]  # noqa: PLR2004 - as printed
    figure = draw_lines(
        "How likely a small count is off by more than 30%",
        Axis("records that hold the value"),
        Axis("chance"),
        [MeasuredLine(f"groups of {size}", tuple(zip(counts, chances[size], strict=True))) for size in sizes],
        reading=f"Five records in groups of {GROUP_SIZE} are off with a chance of {example1:.2f}; in print 0.48.",
    )
    sentence = (
        f"Example 1 is {example1:.2f} (in print 0.48), and up to three records are off with at least {example2:.2f} "
        f"(in print 0.6), with the printed saw; groups of 5 and 10 differ by up to {apart[5]:.2f}, groups of 2 and 10 "
        f"by up to {apart[2]:.2f}."
    )
    headings = ("records", *(f"groups of {size}" for size in sizes))
    return Outcome(headings, rows, judge(holds), sentence, figure)


TOTAL, HOLDERS = 100_000, 1000
FEW_ROUNDS = 1000
"""Estimates that die out are as good as nought by then."""


CONDITION_SIZES = range(2, 11)
CONDITION_COUNTS = range(1, 13)
CONDITION_ERRORS = (Fraction(1, 10), Fraction(3, 10))


def theorem4(conditions: Conditions) -> Outcome:
    """A condition whose records all hold a value: what is claimed of their count, and what the iteration does."""
    rows: list[tuple[float, int, int, float, float]] = []
    for size in conditions.iter_steps(CONDITION_SIZES):
        for error, chances in _compute_error_chances(size).items():
            claims = {k: float(compute_error_probability(k, size, error)) for k in CONDITION_COUNTS}
            rows += [(float(error), size, k, claims[k], float(chances[k])) for k in CONDITION_COUNTS]
    below = [row for row in rows if row[4] < row[3]]
    worst = max(rows, key=lambda row: row[3] - row[4])
    drawn = [row for row in rows if row[:2] == worst[:2]]
    drawn_error, drawn_size = format_percent(worst[0]), worst[1]
    figure = draw_lines(
        f"How likely a count under a condition is off by {drawn_error}",
        Axis("records of the condition, who all hold the value"),
        Axis(f"chance, groups of {drawn_size}"),
        [
            MeasuredLine("at least, as claimed", tuple((row[2], row[3]) for row in drawn), True),
            MeasuredLine("the printed iteration", tuple((row[2], row[4]) for row in drawn)),
        ],
        reading=(
            f"In groups of {drawn_size} it is less likely than claimed for {sum(row in below for row in drawn)} of "
            f"{len(drawn)} counts."
        ),
    )
    texts = []
    for error in CONDITION_ERRORS:
        sizes = sorted({row[1] for row in below if row[0] == float(error)})
        place = f"in groups of {format_sizes(sizes)}" if sizes else "nowhere"
        texts.append(f"by {format_percent(float(error))} {place}")
    sentence = (
        "If all k records of a condition hold a value, their count by the printed iteration is off less often than "
        f"claimed for {len(below)} of {len(rows)} cases: {', '.join(texts)}"
        + (
            f"; as k = {worst[2]} in groups of {worst[1]}, by {drawn_error}: {worst[4]:.2f}, claimed {worst[3]:.2f}."
            if below
            else "; so the claim holds here."
        )
    )
    headings = ("relative error", "group size", "k", "at least, as claimed", "printed iteration")
    return Outcome(headings, tuple(rows), judge([], refuted=bool(below)), sentence, figure)


def _compute_error_chances(size: int) -> dict[Fraction, dict[int, Fraction]]:
    """The chance that the printed iteration is off, for each relative error and count; by how many show the value."""
    cases = [(count, shown_count) for count in CONDITION_COUNTS for shown_count in range(count + 1)]
    states = np.array(
        [(TOTAL - HOLDERS, HOLDERS - count, count - shown_count, shown_count) for count, shown_count in cases]
    )
    estimates, _ = run_iteration(states.astype(np.float64), (size,), most_rounds=FEW_ROUNDS)
    chances = {error: dict.fromkeys(CONDITION_COUNTS, Fraction(0)) for error in CONDITION_ERRORS}
    for (count, shown_count), estimate in zip(cases, estimates[:, 3].tolist(), strict=True):
        chance = Fraction(math.comb(count, shown_count) * (size - 1) ** (count - shown_count), size**count)
        for error in CONDITION_ERRORS:
            if abs(estimate - count) >= error * count:
                chances[error][count] += chance
    return chances


RECORDS, VALUES = 2000, 40
CONVERGED = 1e-12
MOST_ROUNDS = 100_000


def figure6(_: Conditions) -> Outcome:
    """The chance that a record shows a value which it does not hold: printed, corrected, and from groups."""
    rows, curves, comparisons = [], [], []
    for size in (2, 5, 10):
        points = []
        for percentage in (1, 2, 4, 6, 8, 10, 15, 20, 30, 40, 50):
            count = RECORDS * percentage // 100
            if size * count > RECORDS:
                continue
            printed, right = Fraction(count, RECORDS), compute_leak(count, RECORDS, size)
            estimate_ratio = _estimate_all(count, size) / count
            rows.append(
                (size, percentage, float(printed), float(right), _measure_leak(count, size), 100 * estimate_ratio)
            )
            points.append((percentage, 100 * estimate_ratio))
            comparisons.append(
                (printed != right, size * count != RECORDS, abs(rows[-1][4] - float(right)) <= CONVERGED)
            )
        curves.append(MeasuredLine(f"groups of {size}", tuple(points)))
    wrong, confirmed = (
        sum(comparison[0] for comparison in comparisons),
        all(comparison[2] for comparison in comparisons),
    )
    exception_text = (
        ", all but those of a value in every group"
        if all(comparison[0] == comparison[1] for comparison in comparisons)
        else ""
    )
    least = min(rows, key=lambda row: row[-1])
    figure = draw_lines(
        "What the printed matrix makes of a value's own count",
        Axis("records that hold the value, in %"),
        Axis("estimate in % of the truth"),
        curves,
        reading=f"Of a value that {least[1]}% hold, groups of {least[0]} leave {least[-1]:.0f}%.",
    )
    sentence = (
        f"The corrected leak {'is' if confirmed else 'is not'} that of groups counted one by one, the printed one "
        f"differs from it at {wrong} of {len(comparisons)} points{exception_text}; with it, counting everybody gives "
        f"{least[-1]:.0f}% of a value that {least[1]}% hold (groups of {least[0]})."
    )
    verdict = judge([], refuted=bool(wrong))
    headings = ("group size", "share in %", "leak as printed", "corrected", "of groups", "estimate of all in %")
    return Outcome(headings, tuple(rows), verdict, sentence, figure)


def _estimate_all(count: int, size: int) -> float:
    """What the printed iteration, run until it rests, makes of a value's count if everybody is counted."""
    states = np.array([0.0, 0.0, RECORDS - count, count])
    estimates, _ = run_iteration(states, (size,), stop=CONVERGED, most_rounds=MOST_ROUNDS)
    return float(estimates[3])


def _measure_leak(count: int, size: int) -> float:
    """The same from groups: of the first of some values, the others as frequent as each other."""
    others = np.diff(np.rint(np.linspace(0, RECORDS - count, VALUES)).astype(np.int64))
    groups = make_fullest_groups([count, *others.tolist()], size, None, most_runs=RECORDS)
    chances, value_counts = compute_transition(groups)[:, 0], groups.counts
    return float(chances[1:] @ value_counts[1:] / value_counts[1:].sum())


EXPERIMENTS = (
    Experiment("small-sums/fig2-3", "nine people in groups of three", figures2_3),
    Experiment("small-sums/fig4", "how far large counts are off", figure4, ("Theorem 3 and Lemma 1",)),
    Experiment("small-sums/fig5", "how far small counts are off", figure5),
    Experiment("small-sums/thm4", "small counts under a condition", theorem4, ("Lemma 3 and Theorem 4",)),
    Experiment("small-sums/fig6", "the transition matrix", figure6, ("the leak of equations 6 to 9",)),
)
