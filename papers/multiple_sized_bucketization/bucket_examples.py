"""Examples and tables of Wang, "Multiple-sized bucketization for privacy protection" (2014), chapters 3 to 6.

All of them are small enough to check by hand. What is printed is held against the library, which finds the best sizes
exactly; where a printed table of buckets is there, its records are counted.
Notation: x_i = values, S = size, b = buckets; T1, T2 = the records of the smaller and of the larger size.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from papers.experiment import Conditions, Experiment
from papers.experiment_outcome import Outcome, judge
from papers.multiple_sized_bucketization.printed_problems import (
    EXAMPLE_5,
    EXAMPLE_8,
    EXAMPLE_10,
    EXAMPLE_13,
    TABLE_3_4,
    TABLE_4_1,
    TABLE_4_2,
    TABLE_5_2,
    Buckets,
    are_within_caps,
    compare_counts_and_caps,
    count_held,
    format_setting,
    format_values,
    is_as_printed,
)
from papers.multiple_sized_bucketization.top_down_splitting import example12, example13, figure6_1
from sfumato.mechanisms._bucketization.buckets.bucket_setting import Assignment, Setting, assign, is_valid
from sfumato.mechanisms._bucketization.buckets.cap_rounding import compute_least_size
from sfumato.mechanisms._bucketization.buckets.least_loss import find_optimal_setting
from sfumato.mechanisms._bucketization.buckets.record_assignment import deal_round_robin
from sfumato.mechanisms._bucketization.buckets.size_methods import find_best_size
from sfumato.mechanisms._bucketization.buckets.two_size_splitting import fill_second_part
from sfumato.mechanisms._bucketization.buckets.two_sizes import find_best_two_sizes, list_pairs

Pair = tuple[int, int]


def table3_3(_: Conditions) -> Outcome:
    """The data of Example 5."""
    return compare_counts_and_caps(EXAMPLE_5, ("0.056", "0.11", "0.19"), ("0.187", "0.353", "0.603"))


def table5_1(_: Conditions) -> Outcome:
    """The data of Example 8."""
    return compare_counts_and_caps(EXAMPLE_8, ("0.02", "0.12", "0.18"), ("0.09", "0.29", "0.41"))


def table5_3(_: Conditions) -> Outcome:
    """The data of Example 10."""
    return compare_counts_and_caps(EXAMPLE_10, ("0.1428", "0.286"), ("0.286", "0.57"))


def table6_1(_: Conditions) -> Outcome:
    """The data of Example 13."""
    return compare_counts_and_caps(
        EXAMPLE_13, ("0.051", "0.102", "0.179", "0.205"), ("0.174", "0.327", "0.558", "0.635")
    )


# ----------------------------------------------------------------------------------------------------- chapters 3 and 4


def example5(_: Conditions) -> Outcome:
    """The best buckets for 36 records."""
    problem = EXAMPLE_5.make_problem(2, EXAMPLE_5.total)
    best, two, one = find_optimal_setting(problem).setting, find_best_two_sizes(problem), find_best_size(problem)
    printed = Setting.of((len(bucket), 1) for bucket in TABLE_3_4)
    rows = (
        (
            "any sizes",
            format_setting(best),
            best.loss,
            best.record_count,
            format_setting(printed),
            printed.loss,
            printed.record_count,
        ),
        ("two sizes", format_setting(two), two.loss, two.record_count, None, None, None),
        ("one size", format_setting(one), one.loss, one.record_count, "6 of 6", 150, 36),
    )
    headings = ("", "buckets", "loss", "records", "as printed", "loss", "records")
    agreeing = [best.loss == printed.loss, one.loss == 150]  # noqa: PLR2004 - printed
    sentence = (
        f"The least loss is {best.loss} and not {printed.loss}: the printed buckets hold {printed.record_count} of the "
        f"{EXAMPLE_5.total} records; one size loses {one.loss}, as printed."
        if agreeing == [False, True]
        else f"Any sizes lose {best.loss}, in print {printed.loss}; one size {one.loss}, in print 150."
    )
    return Outcome(headings, rows, judge(agreeing), sentence)


def table3_4(_: Conditions) -> Outcome:
    """The printed best buckets, counted."""
    problem = EXAMPLE_5.make_problem(2, EXAMPLE_5.total)
    ours = assign(problem, find_optimal_setting(problem).setting)
    printed = count_held(TABLE_3_4, len(EXAMPLE_5.counts))
    rows = tuple(
        (f"x{place + 1}", count, printed[place], " + ".join(map(str, ours.records[place])))
        for place, count in enumerate(EXAMPLE_5.counts)
    )
    headings = ("value", "records", "in the printed buckets", f"in ours ({format_setting(ours.setting)})")
    missing = [place for place, count in enumerate(EXAMPLE_5.counts) if printed[place] < count]
    sentence = (
        f"Every bucket is within the caps, but all {sum(EXAMPLE_5.counts[place] for place in missing)} records of "
        f"{format_values(missing)} are missing."
        if missing and are_within_caps(TABLE_3_4, EXAMPLE_5.caps)
        else "The printed buckets hold all records."
    )
    return Outcome(headings, rows, judge([not missing]), sentence)


def example6(_: Conditions) -> Outcome:
    """The size of buckets for the least frequent value."""
    share, cap = Fraction(EXAMPLE_5.counts[0], EXAMPLE_5.total), EXAMPLE_5.caps[0]
    size = compute_least_size(cap)
    checked = (
        ("share of x1", float(share), "0.005556"),
        ("cap of x1", float(cap), "0.1866"),
        ("least size S", size, "6"),
        ("buckets b", EXAMPLE_5.total // size, "6"),
    )
    agreeing = [is_as_printed(ours, printed) for _, ours, printed in checked]
    wrong = [name for (name, *_), agrees in zip(checked, agreeing, strict=True) if not agrees]
    sentence = (
        f"Not as printed: the {', '.join(wrong)}, which is {float(share):.5f} and 2 of 36 records; cap, size and "
        "number of buckets follow from that."
        if wrong == ["share of x1"]
        else f"Not as printed: {', '.join(wrong) or 'nothing'}."
    )
    return Outcome(("", "ours", "as printed"), checked, judge(agreeing), sentence)


def _deal_example() -> list[list[int]]:
    """Example 6 dealt in turn, from x9 to x1: how many records of each value every bucket holds."""
    dealing = deal_round_robin(Assignment(Setting.of([(6, 6)]), np.array(EXAMPLE_5.counts[::-1])[:, None]))
    holdings: list[list[int]] = next(dealing.generate_holdings())[:, ::-1].tolist()
    return holdings


def _format_contents(line: Sequence[int], values: Sequence[int]) -> str:
    """What a bucket holds of some values, from the last value on."""
    return " ".join(f"x{number}" for number in sorted(values, reverse=True) for _ in range(line[number - 1]))


def _compare_dealing(printed: Sequence[Buckets], dealt_values: Sequence[Sequence[int]], subject: str) -> Outcome:
    """Buckets after some steps, beside the printed ones; which of the buckets is called the first does not matter."""
    rows, agreeing = [], []
    for buckets, values in zip(printed, dealt_values, strict=True):
        ours = sorted((_format_contents(line, values) for line in _deal_example()), reverse=True)
        theirs = sorted((" ".join(f"x{number}" for number in bucket) for bucket in buckets), reverse=True)
        step = "all" if len(values) > 2 else format_values([number - 1 for number in values])  # noqa: PLR2004
        rows += [(step, our_bucket, theirs_bucket) for our_bucket, theirs_bucket in zip(ours, theirs, strict=True)]
        agreeing.append(ours == theirs)
    sentence = (
        f"{subject} as printed, except for the bucket that is called the first: formula (4.1) names another one."
        if all(agreeing)
        else f"{subject} not as printed."
    )
    return Outcome(("values dealt", "a bucket of ours", "as printed"), tuple(rows), judge(agreeing), sentence)


def table4_1(_: Conditions) -> Outcome:
    """The first two steps of dealing."""
    return _compare_dealing(TABLE_4_1, ((9,), (9, 8)), "The two steps are")


def table4_2(_: Conditions) -> Outcome:
    """All records dealt in turn."""
    return _compare_dealing((TABLE_4_2,), (range(1, 10),), "The six buckets are")


def example7(_: Conditions) -> Outcome:
    """Which sizes are valid: no more records than fit."""
    printed = {6: ((6, 12, 18), True), 4: ((0, 9, 18), False)}
    rows, agreeing = [], []
    for size, (limits, valid) in printed.items():
        buckets = EXAMPLE_5.total // size
        room = (EXAMPLE_5.compute_floors(size)[:, 0] * buckets).tolist()
        is_valid_setting = is_valid(EXAMPLE_5.make_problem(2, 6), Setting.of([(size, buckets)]))
        for (name, place), limit in zip(EXAMPLE_5.list_runs(), limits, strict=True):
            count = EXAMPLE_5.counts[place]
            rows.append(
                (f"{buckets} of {size}", name, count, room[place], limit, "yes" if count <= room[place] else "no")
            )
            agreeing.append(room[place] == limit)
        agreeing.append(is_valid_setting == valid)
    headings = ("buckets", "values", "records", "room", "room as printed", "fits")
    sentence = (
        "Room and conclusions are as printed: six buckets of 6 are valid, nine of 4 are not; the sign that is meant is "
        '"at most" (4.2), and not "less than".'
        if all(agreeing)
        else "Room or conclusions are not as printed."
    )
    return Outcome(headings, tuple(rows), judge(agreeing), sentence)


# ------------------------------------------------------------------------------------------------------------ chapter 5


def example8(_: Conditions) -> Outcome:
    """Nine buckets of 4 and one of 14, by the conditions of Theorem 1."""
    setting, printed = Setting.of([(4, 9), (14, 1)]), ((0, 1), (6, 4), (9, 5))
    counts = np.array(EXAMPLE_8.counts)
    bounds = np.minimum(EXAMPLE_8.compute_floors(4, 14) * np.array([9, 1]), counts[:, None])
    rows = tuple(
        (name, EXAMPLE_8.counts[place], *bounds[place].tolist(), ", ".join(map(str, printed_bounds)))
        for (name, place), printed_bounds in zip(EXAMPLE_8.list_runs(), printed, strict=True)
    )
    conditions = [(bounds.sum(axis=1) >= counts).all(), (bounds.sum(axis=0) >= [36, 14]).all()]
    problem = EXAMPLE_8.make_problem(3, 14)
    agreeing = [
        tuple(bounds[place].tolist()) == printed_bounds
        for (_, place), printed_bounds in zip(EXAMPLE_8.list_runs(), printed, strict=True)
    ]
    agreeing += [all(conditions), is_valid(problem, setting)]
    best = find_optimal_setting(problem).setting
    is_best = find_best_two_sizes(problem) == setting
    sentence = (
        f"Bounds and conclusion are {'' if all(agreeing) else 'not all '}as printed; with a loss of {setting.loss} it "
        f"is {'' if is_best else 'not '}the best of two sizes up to 14, and {format_setting(best)} lose {best.loss}."
    )
    headings = ("values", "records", "bound in size 4", "bound in size 14", "both as printed")
    return Outcome(headings, rows, judge(agreeing), sentence)


def table5_2(_: Conditions) -> Outcome:
    """The records of both sizes: the printed choice, and that of Program 5.1 in the order of the values."""
    setting = Setting.of([(4, 9), (14, 1)])
    second = fill_second_part(EXAMPLE_8.make_problem(3, 14), setting)
    small, large = (count_held(buckets, len(EXAMPLE_8.counts)) for buckets in (TABLE_5_2[:-1], TABLE_5_2[-1:]))
    rows = tuple(
        (f"x{place + 1}", count, f"{small[place]} + {large[place]}", f"{count - second[place]} + {second[place]}")
        for place, count in enumerate(EXAMPLE_8.counts)
    )
    complete = [first + other for first, other in zip(small, large, strict=True)] == list(EXAMPLE_8.counts)
    valid = are_within_caps(TABLE_5_2, EXAMPLE_8.caps)
    moved = [place for place in range(8, len(EXAMPLE_8.counts)) if second[place]]
    sentence = (
        f"The printed buckets hold {'all' if complete else 'not all'} records, {'all' if valid else 'not all'} within "
        f"the caps; Program 5.1 leaves open which records move, and in the order of the values they are those of "
        f"{format_values(moved)}."
    )
    return Outcome(("value", "records", "as printed", "in order"), rows, judge([complete, valid]), sentence)


def list_feasible_pairs(total: int, small: int, large: int) -> list[Pair]:
    """All numbers of buckets of two sizes that hold exactly the records, more of the smaller ones first."""
    row = list_pairs(total, small, large)
    if row is None:
        return []
    return [(row.first - step * row.small_step, row.second + step * row.large_step) for step in range(row.steps + 1)]


def _format_pairs(pairs: Sequence[Pair]) -> str:
    return " ".join(f"({first}, {second})" for first, second in pairs) or "none"


def _compare_pairs(
    lines: Sequence[tuple[str, Sequence[Pair], Sequence[Pair]]], sentence: str, other_sentence: str
) -> Outcome:
    """Lists of pairs beside the printed ones."""
    rows = tuple((name, _format_pairs(ours), _format_pairs(printed_pairs)) for name, ours, printed_pairs in lines)
    agreeing = [list(ours) == list(printed_pairs) for _, ours, printed_pairs in lines]
    return Outcome(("", "ours", "as printed"), rows, judge(agreeing), sentence if all(agreeing) else other_sentence)


PAIRS = ((14, 0), (12, 1), (10, 2), (8, 3), (6, 4), (4, 5), (2, 6), (0, 7))


def example9(_: Conditions) -> Outcome:
    """Numbers of buckets of two sizes that hold exactly 28 records."""
    lines = [
        ("sizes 2 and 4", list_feasible_pairs(28, 2, 4), PAIRS),
        ("sizes 3 and 5", list_feasible_pairs(28, 3, 5), ((1, 5),)),
    ]
    missing = [pair for _, ours, printed_pairs in lines for pair in ours if pair not in printed_pairs]
    return _compare_pairs(
        lines,
        "Both lists are as printed.",
        f"The first list is as printed; of the second {_format_pairs(missing)} is missing, with which it begins: more "
        "smaller buckets, so less loss.",
    )


def example10(_: Conditions) -> Outcome:
    """Which of these buckets can be filled."""
    floors, counts = EXAMPLE_10.compute_floors(2, 4), np.array(EXAMPLE_10.counts)

    def is_fillable(pair: Pair, place: int) -> bool:
        size, buckets = (2, 4)[place], pair[place]
        return bool(np.minimum(floors[:, place] * buckets, counts).sum() >= size * buckets)

    first = [pair for pair in list_feasible_pairs(28, 2, 4) if is_fillable(pair, 0)]
    second = [pair for pair in list_feasible_pairs(28, 2, 4) if is_fillable(pair, 1)]
    best = find_best_two_sizes(EXAMPLE_10.make_problem(2, 4))
    return _compare_pairs(
        [("buckets of 2 can be filled", first, PAIRS[3:]), ("buckets of 4 can be filled", second, PAIRS)],
        f"Both lists are as printed (where our scan has (5.9), (5.8) is meant); the first pair that "
        f"meets all conditions is {format_setting(best)}, with a loss of {best.loss}.",
        "The lists are not as printed.",
    )


def example11(_: Conditions) -> Outcome:
    """Where the first value has room, in each size by itself."""
    floors, count = EXAMPLE_10.compute_floors(2, 4)[0].tolist(), EXAMPLE_10.counts[0]
    pairs = list_feasible_pairs(28, 2, 4)
    small = [pair for pair in pairs if floors[0] * pair[0] >= count]
    large = [pair for pair in pairs if floors[1] * pair[1] >= count]
    return _compare_pairs(
        [("room for x1 in buckets of 2", small, ()), ("room for x1 in buckets of 4", large, PAIRS[4:])],
        "Both lists are as printed; the data are those of Example 10, where our scan has Example 9.",
        "The lists are not as printed.",
    )


EXPERIMENTS = (
    Experiment("buckets/table3-3", "counts, shares and caps of Example 5", table3_3),
    Experiment("buckets/ex5", "the best buckets for 36 records", example5, ("x7 is missing, so 70 is too little",)),
    Experiment("buckets/table3-4", "the best buckets, counted", table3_4, ("x7 is missing",)),
    Experiment("buckets/ex6", "the size for the least frequent value", example6, ("f_1 is 0.05556",)),
    Experiment("buckets/table4-1", "the first two steps of dealing in turn", table4_1),
    Experiment("buckets/table4-2", "36 records dealt in turn", table4_2),
    Experiment("buckets/ex7", "which single sizes are valid", example7, ('"<" for "at most"',)),
    Experiment("buckets/table5-1", "counts, shares and caps of Example 8", table5_1),
    Experiment("buckets/ex8", "two sizes by Theorem 1", example8),
    Experiment("buckets/table5-2", "the records of two sizes", table5_2),
    Experiment("buckets/ex9", "numbers of buckets that hold all records", example9, ("the row of 3 and 5",)),
    Experiment("buckets/table5-3", "counts, shares and caps of Example 10", table5_3),
    Experiment("buckets/ex10", "which buckets can be filled", example10, scan_faults=("(5.9) for (5.8)",)),
    Experiment("buckets/ex11", "where one value has room", example11, scan_faults=("Example 9 for Example 10",)),
    Experiment("buckets/ex12", "three sizes that cannot be filled", example12, ("u = 20 for 30",)),
    Experiment("buckets/table6-1", "counts, shares and caps of Example 13", table6_1),
    Experiment("buckets/ex13", "top-down, round by round", example13, ("132 for 148", "B3 is 2 buckets of 6")),
    Experiment("buckets/fig6-1", "how top-down splits", figure6_1, ("as Example 13",)),
)
