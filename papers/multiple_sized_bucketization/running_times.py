"""Figures 7.5 and 7.6 of the thesis on buckets: how long it takes to find the best two sizes.

The thesis' programs were written in C++ and ran on another machine, its integer programme was solved by Gurobi; here
they run in Python and by HiGHS. So only what grows, and what is quicker than what, is compared. Beside them stand what
sfumato does: the same two sizes without a search, and the best of any sizes.
Notation: |T| = records; γ = into how many values each is split.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from papers.baselines.assignment_program import solve
from papers.baselines.two_size_programs import fully_pruned, loss_pruned, unpruned
from papers.experiment import Conditions, Experiment
from papers.experiment_outcome import Outcome, Verdict
from papers.multiple_sized_bucketization.census_problems import BOTH, OCCUPATIONS, Census, posed
from sfumato._figures.line_chart import Axis, MeasuredLine, Panel, draw_panels
from sfumato.mechanisms._bucketization.buckets.bucket_problem import Blocked, Problem
from sfumato.mechanisms._bucketization.buckets.least_loss import find_optimal_setting
from sfumato.mechanisms._bucketization.buckets.two_sizes import find_best_two_sizes

NONE, LOSS, FULL, PROGRAMME = "no pruning", "loss pruning", "full pruning", "integer programme"
DIRECT, OPTIMAL = "ours, two sizes", "ours, any sizes"
SEARCHES: dict[str, Callable[[Problem], object]] = {
    NONE: unpruned,
    LOSS: loss_pruned,
    FULL: fully_pruned,
    DIRECT: find_best_two_sizes,
    OPTIMAL: find_optimal_setting,
}
HARDLY = 0.5
"""What grows by less than this power of what the table grows by is said to hardly grow: the root of it."""


@dataclass(frozen=True)
class Timed:
    """How long a search took on one table, and whether it was stopped."""

    table: str
    at: int
    search: str
    seconds: float
    is_stopped: bool = False


def _timed(
    census: Census, at: int, problem: Problem, limit: float, searches: Iterable[str] = SEARCHES
) -> Iterator[Timed]:
    """The processor time of every search; what finds nothing is left out."""
    for name in searches:
        began = time.process_time()
        try:
            SEARCHES[name](problem)
        except Blocked:
            continue
        yield Timed(census.name, at, name, time.process_time() - began)
    began = time.process_time()
    solved = solve(problem, seconds=limit)
    yield Timed(census.name, at, PROGRAMME, time.process_time() - began, not solved.is_finished)


def _outcome(times: Sequence[Timed], across: Axis, heading: str, verdict: Verdict, sentence: str) -> Outcome:
    rows = tuple((each.table, each.at, each.search, each.seconds, "yes" if each.is_stopped else "no") for each in times)
    panels = []
    for census in BOTH:
        lines = []
        for name in (*SEARCHES, PROGRAMME):
            own = _of(times, census.name, name)
            points = tuple((each.at, each.seconds) for each in own)
            lines.append(MeasuredLine(name, points, singled_out=tuple(each.at for each in own if each.is_stopped)))
        panels.append(
            Panel(Axis(f"{census.name}: seconds of processor time", is_logarithmic=True), lines, "stopped at the limit")
        )
    ends = {name: _last(times, name) for name in SEARCHES if _of(times, OCCUPATIONS.name, name)}
    quickest = min(ends, key=lambda name: ends[name])
    reading = f"At the last point of OCC the quickest is: {quickest} ({1000 * ends[quickest]:.0f} ms)."
    figure = draw_panels(heading, across, panels, reading=reading)
    return Outcome(("table", across.label, "search", "seconds", "stopped"), rows, verdict, sentence, figure)


def _of(times: Sequence[Timed], table: str, name: str) -> list[Timed]:
    """From the first point to the last."""
    return sorted((each for each in times if (each.table, each.search) == (table, name)), key=lambda each: each.at)


def _last(times: Sequence[Timed], name: str, table: str = OCCUPATIONS.name) -> float:
    """The time at the last point."""
    return _of(times, table, name)[-1].seconds


def programme_beside(times: Sequence[Timed], than: str, limit: float) -> str:
    """In how many cases the programme was quicker than a search, and in how many slower.

    It is stopped by the clock. What was stopped before it had taken as long as the search may be either.
    """
    pairs = [
        (own, other)
        for census in BOTH
        for own, other in zip(_of(times, census.name, PROGRAMME), _of(times, census.name, than), strict=True)
    ]
    quicker = sum(own.seconds < other.seconds and not own.is_stopped for own, other in pairs)
    slower = sum(own.seconds > other.seconds for own, other in pairs)
    stopped = sum(own.is_stopped for own, _ in pairs)
    return (
        f"the integer programme (HiGHS, any sizes) is quicker than {than} in {quicker} of {len(pairs)} cases and "
        f"slower in {slower}, and was stopped after {limit:g} s of the clock in {stopped}"
    )


def _growths(times: Sequence[Timed], name: str) -> list[float]:
    """How much longer the last point takes than the first, for each table."""
    each = [_of(times, census.name, name) for census in BOTH]
    return [own[-1].seconds / max(own[0].seconds, 1e-9) for own in each]


def _times(growths: Sequence[float]) -> str:
    return " and ".join(f"{each:.2g}" for each in growths)


def figure7_5(conditions: Conditions) -> Outcome:
    """Time against the number of records."""
    sizes, limit = conditions.either((2_000, 12_000), (100_000, 200_000, 300_000)), conditions.either(0.2, 20.0)
    times: list[Timed] = []
    for census, rows in conditions.steps([(census, rows) for census in BOTH for rows in sizes]):
        times += _timed(census, rows, posed(census.counts(conditions, rows)), limit)
    is_ordered = all(
        _last(times, FULL, census.name) < _last(times, LOSS, census.name) < _last(times, NONE, census.name)
        for census in BOTH
    )
    none, loss, full = (_growths(times, name) for name in (NONE, LOSS, FULL))
    holds = is_ordered and max(full) < (sizes[-1] / sizes[0]) ** HARDLY
    part = max(_last(times, DIRECT, census.name) / _last(times, FULL, census.name) for census in BOTH)
    sentence = (
        f"At {sizes[-1]:,} records full pruning takes {'' if is_ordered else 'not '}less time than loss pruning, and "
        f"that less than none; {sizes[-1] // sizes[0]} times the records take (OCC and EDU) {_times(none)} times as "
        f"long without pruning, {_times(loss)} with loss pruning and {_times(full)} with full pruning, as claimed"
        f"{'' if holds else ' only in part'}; {programme_beside(times, NONE, limit)} (in print it is quicker); the "
        f"same two sizes without a search take {100 * part:.1g}% of the time of full pruning or less."
    )
    verdict = Verdict.AGREES if holds else Verdict.DIFFERS
    across = Axis("records", is_logarithmic=True)
    return _outcome(times, across, "How long two sizes take, by the records", verdict, sentence)


def split(counts: Sequence[int], parts: int, generator: np.random.Generator) -> tuple[int, ...]:
    """Every value becomes so many, and each of its records is one of them at random."""
    drawn = np.concatenate([generator.multinomial(count, np.full(parts, 1 / parts)) for count in counts])
    return tuple(int(count) for count in drawn if count)


def figure7_6(conditions: Conditions) -> Outcome:
    """Time against the number of values."""
    factors, limit = conditions.either((1, 8), (2, 8, 32)), conditions.either(0.2, 20.0)
    rows = conditions.either(8_000, 100_000)
    searches = conditions.either([name for name in SEARCHES if name != OPTIMAL], list(SEARCHES))
    times: list[Timed] = []
    for census, factor in conditions.steps([(census, factor) for census in BOTH for factor in factors]):
        counts = split(census.counts(conditions, rows), factor, conditions.generator(7, 6, factor))
        times += _timed(census, factor, posed(counts), limit, searches)
    none, loss, full = (_growths(times, name) for name in (NONE, LOSS, FULL))
    many = factors[-1] / factors[0]
    falls, little = max(none) < 1, max(loss + full) < many
    sentence = (
        f"{many:.0f} times the values take (OCC and EDU) {_times(none)} times as long without pruning, which is "
        f"{'less, as claimed' if falls else 'not less on both'}, {_times(loss)} with loss pruning and {_times(full)} "
        f"with full pruning, {'less' if little else 'not less'} than the values grow; "
        f"{programme_beside(times, FULL, limit)} (in print it is slower); the same two sizes without a search take up "
        f"to {1000 * max(_last(times, DIRECT, census.name) for census in BOTH):.0f} ms"
        + ("" if conditions.is_quick else f", any sizes {max(_last(times, OPTIMAL, each.name) for each in BOTH):.2g} s")
        + f" ({rows:,} records, in print 500,000)."
    )
    verdict = Verdict.AGREES if little and falls else Verdict.DIFFERS
    across = Axis("γ: values, each split into so many", is_logarithmic=True)
    return _outcome(times, across, "How long two sizes take, by the values", verdict, sentence)


TIMES = (
    Experiment("buckets/fig7-5", "time by the records", figure7_5, is_timed=True, is_long=True),
    Experiment("buckets/fig7-6", "time by the values", figure7_6, is_timed=True, is_long=True),
)
