"""Examples and tables of Wang, "Multiple-sized bucketization for privacy protection" (2014), chapters 3 to 6.

All of them are small enough to check by hand. What is printed is held against the library, which finds the best sizes
exactly; where a printed table of buckets is there, its records are counted.
Notation: x_i = values, o_i = counts, f_i = shares, f'_i = caps; S = size, b = buckets; T1, T2 = the records of the
smaller and of the larger size.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from sfumato.mechanisms.buckets.caps import Integers, least_size
from sfumato.mechanisms.buckets.dealing import round_robin
from sfumato.mechanisms.buckets.one_size import one_size
from sfumato.mechanisms.buckets.optimal import optimal
from sfumato.mechanisms.buckets.problem import Problem, pose
from sfumato.mechanisms.buckets.setting import Assignment, Setting, assign, blocking_set, is_valid
from sfumato.mechanisms.buckets.top_down import rounds, second_part
from sfumato.mechanisms.buckets.two_sizes import pairs_of, two_sizes
from sfumato.report.lines import Axis, MeasuredLine, measured_lines
from sfumato.reproduce.experiment import Conditions, Experiment
from sfumato.reproduce.outcome import Outcome, verdict_of, within
from sfumato.request.group_spec import ShareCap
from sfumato.request.histogram import Histogram

Pair = tuple[int, int]
Buckets = Sequence[Sequence[int]]
"""The numbers of the values that each bucket holds."""


@dataclass(frozen=True)
class SmallTable:
    """A table of the thesis: its counts, and the caps factor * share + offset."""

    counts: tuple[int, ...]
    factor: str
    offset: str = "0"

    @property
    def total(self) -> int:
        """The number of records."""
        return sum(self.counts)

    @cached_property
    def caps(self) -> tuple[Fraction, ...]:
        """The cap of each value."""
        histogram = Histogram.of(range(len(self.counts)), self.counts)
        return ShareCap.linear(histogram, self.factor, self.offset).of(histogram.values)

    def problem(self, smallest: int, largest: int) -> Problem:
        """What is to be bucketed."""
        return pose(self.counts, self.caps, smallest, largest)

    def floors(self, *sizes: int) -> Integers:
        """How many records of each value fit into a bucket of each size."""
        return np.array([[int(cap * size) for size in sizes] for cap in self.caps])

    def runs(self) -> list[tuple[str, int]]:
        """Neighbouring values with the same count: what they are called, and the first."""
        starts = [place for place, count in enumerate(self.counts) if not place or count != self.counts[place - 1]]
        ends = [*starts[1:], len(self.counts)]
        return [
            (f"x{start + 1}" if end == start + 1 else f"x{start + 1}-x{end}", start)
            for start, end in zip(starts, ends, strict=True)
        ]


EXAMPLE_5 = SmallTable((2, 2, 2, 4, 4, 4, 4, 7, 7), "3", "0.02")
EXAMPLE_8 = SmallTable((1,) * 8 + (6, 6, 6, 6, 9, 9), "2", "0.05")
EXAMPLE_10 = SmallTable((4, 4, 4, 8, 8), "2")
EXAMPLE_13 = SmallTable((2, 2, 2, 2, 4, 4, 4, 4, 7, 8), "3", "0.02")

TABLE_3_4 = ((1, 2, 3, 8, 8, 9), (1, 2, 3, 8, 9, 9), *((4, 5, 6),) * 4, *((8, 9),) * 4)
TABLE_4_1 = (((9, 9), *((9,),) * 5), ((9, 9, 8), (9, 8, 8), *((9, 8),) * 4))
TABLE_4_2 = (
    (9, 9, 8, 6, 5, 3),
    (9, 8, 8, 6, 5, 3),
    *((9, 8, 7, 6, 4, 2),) * 2,
    *((9, 8, 7, 5, 4, 1),) * 2,
)
TABLE_5_2 = (
    (9, 10, 12, 13),
    (9, 11, 12, 14),
    *((9, 11, 13, 14),) * 3,
    (10, 11, 13, 14),
    *((10, 12, 13, 14),) * 3,
    tuple(range(1, 15)),
)


def written(setting: Setting) -> str:
    """Buckets in words, from the smallest on."""
    return ", ".join(f"{count} of {size}" for size, count in setting)


def named(places: Sequence[int]) -> str:
    """Values by their numbers."""
    return ", ".join(f"x{place + 1}" for place in places)


def as_printed(ours: float | Fraction, printed: str) -> bool:
    """Whether a number is within one of the last printed digit: some are rounded there, some cut off."""
    return within(float(ours), float(printed), 10.0 ** -_digits(printed))


def _digits(printed: str) -> int:
    return len(printed.partition(".")[2])


def held(buckets: Buckets, values: int) -> list[int]:
    """How many records of each value all buckets together hold."""
    found = Counter(number - 1 for bucket in buckets for number in bucket)
    return [found[place] for place in range(values)]


def are_within_caps(buckets: Buckets, caps: Sequence[Fraction]) -> bool:
    """Whether no value has more than its cap of a bucket."""
    return all(
        count <= caps[number - 1] * len(bucket) for bucket in buckets for number, count in Counter(bucket).items()
    )


# -------------------------------------------------------------------------------------------- tables of counts and caps


def counts_and_caps(table: SmallTable, shares: Sequence[str], caps: Sequence[str]) -> Outcome:
    """Shares and caps beside the printed ones, for each run of equal counts."""
    rows, agreeing, rounded = [], [], []
    for (name, place), share_said, cap_said in zip(table.runs(), shares, caps, strict=True):
        share, cap = Fraction(table.counts[place], table.total), table.caps[place]
        rows.append((name, table.counts[place], float(share), share_said, float(cap), cap_said, least_size(cap)))
        agreeing += [as_printed(share, share_said), as_printed(cap, cap_said)]
        rounded += [f"{float(each):.{_digits(said)}f}" == said for each, said in ((share, share_said), (cap, cap_said))]
    headings = ("values", "records", "share", "share as printed", "cap", "cap as printed", "least bucket")
    off, cut = agreeing.count(False), rounded.count(False)
    sentence = (
        f"All {len(agreeing)} different shares and caps are as printed"
        + (f"; {cut} of them {'is' if cut == 1 else 'are'} cut off instead of rounded." if cut else ".")
        if not off
        else f"{off} of the {len(agreeing)} shares and caps are not as printed."
    )
    return Outcome(headings, tuple(rows), verdict_of(agreeing), sentence)


def table3_3(_: Conditions) -> Outcome:
    """The data of Example 5."""
    return counts_and_caps(EXAMPLE_5, ("0.056", "0.11", "0.19"), ("0.187", "0.353", "0.603"))


def table5_1(_: Conditions) -> Outcome:
    """The data of Example 8."""
    return counts_and_caps(EXAMPLE_8, ("0.02", "0.12", "0.18"), ("0.09", "0.29", "0.41"))


def table5_3(_: Conditions) -> Outcome:
    """The data of Example 10."""
    return counts_and_caps(EXAMPLE_10, ("0.1428", "0.286"), ("0.286", "0.57"))


def table6_1(_: Conditions) -> Outcome:
    """The data of Example 13."""
    return counts_and_caps(EXAMPLE_13, ("0.051", "0.102", "0.179", "0.205"), ("0.174", "0.327", "0.558", "0.635"))


# ----------------------------------------------------------------------------------------------------- chapters 3 and 4


def example5(_: Conditions) -> Outcome:
    """The best buckets for 36 records."""
    problem = EXAMPLE_5.problem(2, EXAMPLE_5.total)
    best, two, one = optimal(problem).setting, two_sizes(problem), one_size(problem)
    printed = Setting.of((len(bucket), 1) for bucket in TABLE_3_4)
    rows = (
        ("any sizes", written(best), best.loss, best.records, written(printed), printed.loss, printed.records),
        ("two sizes", written(two), two.loss, two.records, None, None, None),
        ("one size", written(one), one.loss, one.records, "6 of 6", 150, 36),
    )
    headings = ("", "buckets", "loss", "records", "as printed", "loss", "records")
    agreeing = [best.loss == printed.loss, one.loss == 150]  # noqa: PLR2004 - printed
    sentence = (
        f"The least loss is {best.loss} and not {printed.loss}: the printed buckets hold {printed.records} of the "
        f"{EXAMPLE_5.total} records; one size loses {one.loss}, as printed."
        if agreeing == [False, True]
        else f"Any sizes lose {best.loss}, in print {printed.loss}; one size {one.loss}, in print 150."
    )
    return Outcome(headings, rows, verdict_of(agreeing), sentence)


def table3_4(_: Conditions) -> Outcome:
    """The printed best buckets, counted."""
    problem = EXAMPLE_5.problem(2, EXAMPLE_5.total)
    ours = assign(problem, optimal(problem).setting)
    printed = held(TABLE_3_4, len(EXAMPLE_5.counts))
    rows = tuple(
        (f"x{place + 1}", count, printed[place], " + ".join(map(str, ours.records[place])))
        for place, count in enumerate(EXAMPLE_5.counts)
    )
    headings = ("value", "records", "in the printed buckets", f"in ours ({written(ours.setting)})")
    missing = [place for place, count in enumerate(EXAMPLE_5.counts) if printed[place] < count]
    sentence = (
        f"Every bucket is within the caps, but all {sum(EXAMPLE_5.counts[place] for place in missing)} records of "
        f"{named(missing)} are missing."
        if missing and are_within_caps(TABLE_3_4, EXAMPLE_5.caps)
        else "The printed buckets hold all records."
    )
    return Outcome(headings, rows, verdict_of([not missing]), sentence)


def example6(_: Conditions) -> Outcome:
    """The size of buckets for the least frequent value."""
    share, cap = Fraction(EXAMPLE_5.counts[0], EXAMPLE_5.total), EXAMPLE_5.caps[0]
    size = least_size(cap)
    checked = (
        ("share of x1", float(share), "0.005556"),
        ("cap of x1", float(cap), "0.1866"),
        ("least size S", size, "6"),
        ("buckets b", EXAMPLE_5.total // size, "6"),
    )
    agreeing = [as_printed(ours, said) for _, ours, said in checked]
    wrong = [name for (name, *_), agrees in zip(checked, agreeing, strict=True) if not agrees]
    sentence = (
        f"Not as printed: the {', '.join(wrong)}, which is {float(share):.5f} and 2 of 36 records; cap, size and "
        "number of buckets follow from that."
        if wrong == ["share of x1"]
        else f"Not as printed: {', '.join(wrong) or 'nothing'}."
    )
    return Outcome(("", "ours", "as printed"), checked, verdict_of(agreeing), sentence)


def _dealt() -> list[list[int]]:
    """Example 6 dealt in turn, from x9 to x1: how many records of each value every bucket holds."""
    dealing = round_robin(Assignment(Setting.of([(6, 6)]), np.array(EXAMPLE_5.counts[::-1])[:, None]))
    found: list[list[int]] = next(dealing.holdings())[:, ::-1].tolist()
    return found


def _contents(line: Sequence[int], only: Sequence[int]) -> str:
    """What a bucket holds of some values, from the last value on."""
    return " ".join(f"x{number}" for number in sorted(only, reverse=True) for _ in range(line[number - 1]))


def _dealing(printed: Sequence[Buckets], shown: Sequence[Sequence[int]], words: str) -> Outcome:
    """Buckets after some steps, beside the printed ones; which of the buckets is called the first does not matter."""
    rows, agreeing = [], []
    for buckets, values in zip(printed, shown, strict=True):
        ours = sorted((_contents(line, values) for line in _dealt()), reverse=True)
        theirs = sorted((" ".join(f"x{number}" for number in bucket) for bucket in buckets), reverse=True)
        step = "all" if len(values) > 2 else named([number - 1 for number in values])  # noqa: PLR2004
        rows += [(step, mine, said) for mine, said in zip(ours, theirs, strict=True)]
        agreeing.append(ours == theirs)
    sentence = (
        f"{words} as printed, up to which bucket is called the first: by formula (4.1) it is another."
        if all(agreeing)
        else f"{words} not as printed."
    )
    return Outcome(("values dealt", "a bucket of ours", "as printed"), tuple(rows), verdict_of(agreeing), sentence)


def table4_1(_: Conditions) -> Outcome:
    """The first two steps of dealing."""
    return _dealing(TABLE_4_1, ((9,), (9, 8)), "The two steps are")


def table4_2(_: Conditions) -> Outcome:
    """All records dealt in turn."""
    return _dealing((TABLE_4_2,), (range(1, 10),), "The six buckets are")


def example7(_: Conditions) -> Outcome:
    """Which sizes are valid: no more records than fit."""
    printed = {6: ((6, 12, 18), True), 4: ((0, 9, 18), False)}
    rows, agreeing = [], []
    for size, (limits, valid) in printed.items():
        buckets = EXAMPLE_5.total // size
        room = (EXAMPLE_5.floors(size)[:, 0] * buckets).tolist()
        found = is_valid(EXAMPLE_5.problem(2, 6), Setting.of([(size, buckets)]))
        for (name, place), limit in zip(EXAMPLE_5.runs(), limits, strict=True):
            count = EXAMPLE_5.counts[place]
            rows.append(
                (f"{buckets} of {size}", name, count, room[place], limit, "yes" if count <= room[place] else "no")
            )
            agreeing.append(room[place] == limit)
        agreeing.append(found == valid)
    headings = ("buckets", "values", "records", "room", "room as printed", "fits")
    sentence = (
        "Room and conclusions are as printed: six buckets of 6 are valid, nine of 4 are not; the sign that is meant is "
        '"at most" (4.2), and not "less than".'
        if all(agreeing)
        else "Room or conclusions are not as printed."
    )
    return Outcome(headings, tuple(rows), verdict_of(agreeing), sentence)


# ------------------------------------------------------------------------------------------------------------ chapter 5


def example8(_: Conditions) -> Outcome:
    """Nine buckets of 4 and one of 14, by the conditions of Theorem 1."""
    setting, printed = Setting.of([(4, 9), (14, 1)]), ((0, 1), (6, 4), (9, 5))
    counts = np.array(EXAMPLE_8.counts)
    bounds = np.minimum(EXAMPLE_8.floors(4, 14) * np.array([9, 1]), counts[:, None])
    rows = tuple(
        (name, EXAMPLE_8.counts[place], *bounds[place].tolist(), ", ".join(map(str, said)))
        for (name, place), said in zip(EXAMPLE_8.runs(), printed, strict=True)
    )
    conditions = [(bounds.sum(axis=1) >= counts).all(), (bounds.sum(axis=0) >= [36, 14]).all()]
    problem = EXAMPLE_8.problem(3, 14)
    agreeing = [
        tuple(bounds[place].tolist()) == said for (_, place), said in zip(EXAMPLE_8.runs(), printed, strict=True)
    ]
    agreeing += [all(conditions), is_valid(problem, setting)]
    best = optimal(problem).setting
    is_best = two_sizes(problem) == setting
    sentence = (
        f"Bounds and conclusion are {'' if all(agreeing) else 'not all '}as printed; with a loss of {setting.loss} it "
        f"is {'' if is_best else 'not '}the best of two sizes up to 14, and {written(best)} lose {best.loss}."
    )
    headings = ("values", "records", "bound in size 4", "bound in size 14", "both as printed")
    return Outcome(headings, rows, verdict_of(agreeing), sentence)


def table5_2(_: Conditions) -> Outcome:
    """The records of both sizes: the printed choice, and that of Program 5.1 in the order of the values."""
    setting = Setting.of([(4, 9), (14, 1)])
    second = second_part(EXAMPLE_8.problem(3, 14), setting)
    small, large = (held(buckets, len(EXAMPLE_8.counts)) for buckets in (TABLE_5_2[:-1], TABLE_5_2[-1:]))
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
        f"{named(moved)}."
    )
    return Outcome(("value", "records", "as printed", "in order"), rows, verdict_of([complete, valid]), sentence)


def feasible_pairs(total: int, small: int, large: int) -> list[Pair]:
    """All numbers of buckets of two sizes that hold exactly the records, more of the smaller ones first."""
    row = pairs_of(total, small, large)
    if row is None:
        return []
    return [(row.first - step * row.given, row.second + step * row.taken) for step in range(row.steps + 1)]


def _listed(pairs: Sequence[Pair]) -> str:
    return " ".join(f"({first}, {second})" for first, second in pairs) or "none"


def _compared(lines: Sequence[tuple[str, Sequence[Pair], Sequence[Pair]]], sentence: str, other: str) -> Outcome:
    """Lists of pairs beside the printed ones."""
    rows = tuple((name, _listed(ours), _listed(said)) for name, ours, said in lines)
    agreeing = [list(ours) == list(said) for _, ours, said in lines]
    return Outcome(("", "ours", "as printed"), rows, verdict_of(agreeing), sentence if all(agreeing) else other)


PAIRS = ((14, 0), (12, 1), (10, 2), (8, 3), (6, 4), (4, 5), (2, 6), (0, 7))


def example9(_: Conditions) -> Outcome:
    """Numbers of buckets of two sizes that hold exactly 28 records."""
    lines = [("sizes 2 and 4", feasible_pairs(28, 2, 4), PAIRS), ("sizes 3 and 5", feasible_pairs(28, 3, 5), ((1, 5),))]
    missing = [pair for _, ours, said in lines for pair in ours if pair not in said]
    return _compared(
        lines,
        "Both lists are as printed.",
        f"The first list is as printed; of the second {_listed(missing)} is missing, with which it begins: more "
        "smaller buckets, so less loss.",
    )


def example10(_: Conditions) -> Outcome:
    """Which of these buckets can be filled."""
    floors, counts = EXAMPLE_10.floors(2, 4), np.array(EXAMPLE_10.counts)

    def fillable(pair: Pair, place: int) -> bool:
        size, buckets = (2, 4)[place], pair[place]
        return bool(np.minimum(floors[:, place] * buckets, counts).sum() >= size * buckets)

    first = [pair for pair in feasible_pairs(28, 2, 4) if fillable(pair, 0)]
    second = [pair for pair in feasible_pairs(28, 2, 4) if fillable(pair, 1)]
    best = two_sizes(EXAMPLE_10.problem(2, 4))
    return _compared(
        [("buckets of 2 can be filled", first, PAIRS[3:]), ("buckets of 4 can be filled", second, PAIRS)],
        f"Both lists are as printed (where they are said to follow from (5.9), (5.8) is meant); the first pair that "
        f"meets all conditions is {written(best)}, with a loss of {best.loss}.",
        "The lists are not as printed.",
    )


def example11(_: Conditions) -> Outcome:
    """Where the first value has room, in each size by itself."""
    floors, count = EXAMPLE_10.floors(2, 4)[0].tolist(), EXAMPLE_10.counts[0]
    pairs = feasible_pairs(28, 2, 4)
    small = [pair for pair in pairs if floors[0] * pair[0] >= count]
    large = [pair for pair in pairs if floors[1] * pair[1] >= count]
    return _compared(
        [("room for x1 in buckets of 2", small, ()), ("room for x1 in buckets of 4", large, PAIRS[4:])],
        "Both lists are as printed; the data are those of Example 10, not of Example 9.",
        "The lists are not as printed.",
    )


# ------------------------------------------------------------------------------------------------------------ chapter 6


def example12(_: Conditions) -> Outcome:
    """Three sizes that meet the conditions for two, and cannot be filled."""
    counts, setting = (5,) * 10 + (20,), Setting.of([(4, 5), (5, 4), (6, 5)])
    caps = [Fraction(1, 6)] * 10 + [Fraction(1)]
    room = np.array([[int(cap * size) * buckets for size, buckets in setting] for cap in caps])
    bounds = np.minimum(room, np.array(counts)[:, None])
    sizes = [size * buckets for size, buckets in setting]
    meets = bool((bounds.sum(axis=1) >= counts).all() and (bounds.sum(axis=0) >= sizes).all())
    blocked = blocking_set(pose(counts, caps, 1, 6), setting)
    rows = (
        ("room for each of x1-x10", ", ".join(map(str, room[0])), "0, 0, 5"),
        ("room for x11", ", ".join(map(str, room[-1])), "20, 20, 20"),
        ("meets the conditions", "yes" if meets else "no", "yes"),
        ("can be filled", "no" if blocked else "yes", "no"),
    )
    agreeing = [ours == said for _, ours, said in rows]
    sentence = (
        f"The conclusion holds: the conditions for two sizes are not enough for three, and {named(blocked[:1])} to "
        f"{named(blocked[-1:])} block each other; but a value that may fill buckets of 4 alone has room for "
        f"{room[-1][-1]} and not 20 records in those of 6."
        if agreeing == [True, False, True, True]
        else "The conclusion does not hold."
    )
    return Outcome(("", "ours", "as printed"), rows, verdict_of(agreeing), sentence)


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
    problem = EXAMPLE_13.problem(2, 6)
    ours, rows, agreeing = list(rounds(problem)), [], []
    for number in range(max(len(ours), len(PRINTED_ROUNDS))):
        mine = (written(ours[number]), ours[number].loss) if number < len(ours) else (None, None)
        if number < len(PRINTED_ROUNDS):
            said, loss = PRINTED_ROUNDS[number]
            valid = is_valid(problem, said)
            rows.append((number + 1, *mine, written(said), loss, said.loss, "yes" if valid else "no"))
            agreeing.append(valid and loss == said.loss)
        else:
            rows.append((number + 1, *mine, None, None, None, None))
    best = optimal(problem).setting
    invalid = [str(row[0]) for row in rows if row[-1] == "no"]
    would = [mended.loss for mended in MENDED_ROUNDS[1:] if is_valid(problem, mended)]
    sentence = (
        f"The two sizes of round 1 are {'' if ours[0] == PRINTED_ROUNDS[0][0] else 'not '}as printed and lose "
        f"{ours[0].loss}, not 132; the printed buckets of round {' and '.join(invalid)} break the caps, and with two "
        f"of 6 in the place of three of 4 they lose {' and '.join(map(str, would))}; in the order of the values "
        f"top-down ends at {ours[-1].loss}, and the least loss is {best.loss}."
    )
    headings = ("round", "ours", "loss", "as printed", "loss as printed", "its loss", "meets the caps")
    return Outcome(headings, tuple(rows), verdict_of(agreeing), sentence)


def figure6_1(conditions: Conditions) -> Outcome:
    """How top-down splits, in many orders of the values."""
    problem, orders = EXAMPLE_13.problem(2, 6), conditions.either(300, 3000)
    generator = conditions.generator(6, 1)
    found: dict[tuple[int, ...], int] = Counter()
    for _ in conditions.steps(range(orders)):
        order = generator.permutation(len(EXAMPLE_13.counts))
        turned = Problem(problem.counts[order], problem.sizes, problem.floors[order])
        found[tuple(setting.loss for setting in rounds(turned))] += 1
    ends: dict[int, int] = Counter()
    for losses, times in found.items():
        ends[losses[-1]] += times
    in_order, best = [setting.loss for setting in rounds(problem)], optimal(problem).setting.loss
    mended = tuple(setting.loss for setting in MENDED_ROUNDS)
    lines = [
        MeasuredLine("as printed", tuple(enumerate((132, 125, 118), start=1)), is_published=True),
        MeasuredLine("in the order of the values", tuple(enumerate(in_order, start=1))),
        MeasuredLine("corrected", tuple(enumerate(mended, start=1))),
        MeasuredLine("least possible", ((1, best), (max(len(in_order), 3), best))),
    ]
    figure = measured_lines(
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
    return Outcome(headings, rows, verdict_of([set(ends) == {118}]), sentence, figure)


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
    Experiment("buckets/ex10", "which buckets can be filled", example10, ("(5.9) for (5.8)",)),
    Experiment("buckets/ex11", "where one value has room", example11, ("Example 9 for Example 10",)),
    Experiment("buckets/ex12", "three sizes that cannot be filled", example12, ("u = 20 for 30",)),
    Experiment("buckets/table6-1", "counts, shares and caps of Example 13", table6_1),
    Experiment("buckets/ex13", "top-down, round by round", example13, ("132 for 148", "B3 is 2 buckets of 6")),
    Experiment("buckets/fig6-1", "how top-down splits", figure6_1, ("as Example 13",)),
)
