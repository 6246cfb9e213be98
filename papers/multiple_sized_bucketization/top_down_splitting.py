"""Buckets of more than two sizes in Wang, "Multiple-sized bucketization for privacy protection" (2014), chapter 6.

Notation: x_i = values; u = room of a value in all buckets of a size.
"""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

import numpy as np

from papers.experiment import Conditions
from papers.experiment_outcome import Outcome, judge
from papers.multiple_sized_bucketization.printed_problems import EXAMPLE_13, format_setting, format_values
from sfumato._figures.line_chart import Axis, MeasuredLine, draw_lines
from sfumato.mechanisms._bucketization.buckets.bucket_problem import Problem, pose
from sfumato.mechanisms._bucketization.buckets.bucket_setting import Setting, find_blocking_set, is_valid
from sfumato.mechanisms._bucketization.buckets.least_loss import find_optimal_setting
from sfumato.mechanisms._bucketization.buckets.two_size_splitting import generate_rounds


def example12(_: Conditions) -> Outcome:
    """Three sizes that meet the conditions for two, and cannot be filled."""
    counts, setting = (5,) * 10 + (20,), Setting.of([(4, 5), (5, 4), (6, 5)])
    caps = [Fraction(1, 6)] * 10 + [Fraction(1)]
    room = np.array([[int(cap * size) * buckets for size, buckets in setting] for cap in caps])
    bounds = np.minimum(room, np.array(counts)[:, None])
    sizes = [size * buckets for size, buckets in setting]
    is_met = bool((bounds.sum(axis=1) >= counts).all() and (bounds.sum(axis=0) >= sizes).all())
    blocked = find_blocking_set(pose(counts, caps, 1, 6), setting)
    rows = (
        ("room for each of x1-x10", ", ".join(map(str, room[0])), "0, 0, 5"),
        ("room for x11", ", ".join(map(str, room[-1])), "20, 20, 20"),
        ("meets the conditions", "yes" if is_met else "no", "yes"),
        ("can be filled", "no" if blocked else "yes", "no"),
    )
    agreeing = [ours == printed for _, ours, printed in rows]
    sentence = (
        "The conclusion holds: the conditions for two sizes are not enough for three, and "
        f"{format_values(blocked[:1])} to {format_values(blocked[-1:])} block each other; but a value that may fill "
        f"buckets of 4 alone has room for {room[-1][-1]} and not 20 records in those of 6."
        if agreeing == [True, False, True, True]
        else "The conclusion does not hold."
    )
    return Outcome(("", "ours", "as printed"), rows, judge(agreeing), sentence)


PRINTED_ROUNDS = (
    (Setting.of([(5, 3), (6, 4)]), 132),
    (Setting.of([(5, 3), (4, 3), (4, 3)]), 125),
    (Setting.of([(5, 3), (4, 3), (4, 2), (2, 2)]), 118),
)
MENDED_ROUNDS = (
    Setting.of([(5, 3), (6, 4)]),
    Setting.of([(5, 3), (6, 2), (4, 3)]),
    Setting.of([(5, 3), (6, 2), (4, 2), (2, 2)]),
)
"""With two buckets of 6 for the first of the two that are printed as 3 of 4."""


def example13(_: Conditions) -> Outcome:
    """Top-down, round by round."""
    problem = EXAMPLE_13.make_problem(2, 6)
    ours, rows, agreeing = list(generate_rounds(problem)), [], []
    for number in range(max(len(ours), len(PRINTED_ROUNDS))):
        our_cells = (format_setting(ours[number]), ours[number].loss) if number < len(ours) else (None, None)
        if number < len(PRINTED_ROUNDS):
            printed_setting, loss = PRINTED_ROUNDS[number]
            valid = is_valid(problem, printed_setting)
            rows.append(
                (
                    number + 1,
                    *our_cells,
                    format_setting(printed_setting),
                    loss,
                    printed_setting.loss,
                    "yes" if valid else "no",
                )
            )
            agreeing.append(valid and loss == printed_setting.loss)
        else:
            rows.append((number + 1, *our_cells, None, None, None, None))
    best = find_optimal_setting(problem).setting
    invalid = [str(row[0]) for row in rows if row[-1] == "no"]
    mended_losses = [mended.loss for mended in MENDED_ROUNDS[1:] if is_valid(problem, mended)]
    sentence = (
        f"The two sizes of round 1 are {'' if ours[0] == PRINTED_ROUNDS[0][0] else 'not '}as printed and lose "
        f"{ours[0].loss}, not 132; the printed buckets of round {' and '.join(invalid)} break the caps, and with two "
        f"of 6 in the place of three of 4 they lose {' and '.join(map(str, mended_losses))}; in the order of the "
        f"values top-down ends at {ours[-1].loss}, and the least loss is {best.loss}."
    )
    headings = ("round", "ours", "loss", "as printed", "loss as printed", "its loss", "meets the caps")
    return Outcome(headings, tuple(rows), judge(agreeing), sentence)


def figure6_1(conditions: Conditions) -> Outcome:
    """How top-down splits, in many orders of the values."""
    problem, orders = EXAMPLE_13.make_problem(2, 6), conditions.choose(300, 3000)
    generator = conditions.make_generator(6, 1)
    orders_by_losses: dict[tuple[int, ...], int] = Counter()
    for _ in conditions.iter_steps(range(orders)):
        order = generator.permutation(len(EXAMPLE_13.counts))
        reordered_problem = Problem(problem.counts[order], problem.sizes, problem.floors[order])
        orders_by_losses[tuple(setting.loss for setting in generate_rounds(reordered_problem))] += 1
    ends: dict[int, int] = Counter()
    for losses, times in orders_by_losses.items():
        ends[losses[-1]] += times
    in_order, best = [setting.loss for setting in generate_rounds(problem)], find_optimal_setting(problem).setting.loss
    mended = tuple(setting.loss for setting in MENDED_ROUNDS)
    lines = [
        MeasuredLine("as printed", tuple(enumerate((132, 125, 118), start=1)), is_published=True),
        MeasuredLine("in the order of the values", tuple(enumerate(in_order, start=1))),
        MeasuredLine("corrected", tuple(enumerate(mended, start=1))),
        MeasuredLine("least possible", ((1, best), (max(len(in_order), 3), best))),
    ]
    figure = draw_lines(
        "The loss after each round of splitting",
        Axis("round"),
        Axis("loss"),
        lines,
        reading=f"In the order of the values top-down goes from {in_order[0]} to {in_order[-1]}; {best} is possible.",
    )
    rows = tuple((loss, times, times / orders, "yes" if loss == 118 else "no") for loss, times in sorted(ends.items()))  # noqa: PLR2004
    common = max(ends, key=lambda loss: ends[loss])
    sentence = (
        f"The tree is one of several: which records move when a part is split is left open, and in {orders:,} random "
        f"orders top-down ends at {', '.join(map(str, sorted(ends)))}, mostly at {common} "
        f"({100 * ends[common] / orders:.0f}%); the printed 118 is "
        + ("among them" if 118 in ends else "not among them")  # noqa: PLR2004
        + f", and the least loss {best} is {'too' if best in ends else 'not'}."
    )
    headings = ("last loss", "orders", "share of the orders", "as printed")
    return Outcome(headings, rows, judge([set(ends) == {118}]), sentence, figure)
