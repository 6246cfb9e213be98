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
from papers.baselines.two_size_programs import search_fully_pruned, search_loss_pruned, search_unpruned
from papers.experiment import Conditions, Experiment
from papers.experiment_outcome import Outcome, Verdict, judge
from papers.multiple_sized_bucketization.census_problems import CENSUSES, OCCUPATIONS, Census, pose_problem
from sfumato._figures.line_chart import Axis, MeasuredLine, Panel, draw_panels
from sfumato.mechanisms._bucketization.buckets.bucket_problem import NoBucketingError, Problem
from sfumato.mechanisms._bucketization.buckets.least_loss import find_optimal_setting
from sfumato.mechanisms._bucketization.buckets.two_sizes import find_best_two_sizes

NONE, LOSS, FULL, PROGRAMME = "no pruning", "loss pruning", "full pruning", "integer programme"
DIRECT, OPTIMAL = "ours, two sizes", "ours, any sizes"
SEARCHES: dict[str, Callable[[Problem], object]] = {
    NONE: search_unpruned,
    LOSS: search_loss_pruned,
    FULL: search_fully_pruned,
    DIRECT: find_best_two_sizes,
    OPTIMAL: find_optimal_setting,
}
HARDLY = 0.5
"""What grows by less than this power of what the table grows by is said to hardly grow: the root of it."""


@dataclass(frozen=True)
class SearchTime:
    """How long a search took on one table, and whether it was stopped."""

    table: str
    point: int
    search: str
    seconds: float
    is_stopped: bool = False


def _time_searches(
    census: Census, point: int, problem: Problem, limit: float, searches: Iterable[str] = SEARCHES
) -> Iterator[SearchTime]:
    """The processor time of every search; what finds nothing is left out."""
    for name in searches:
        began = time.process_time()
        try:
            SEARCHES[name](problem)
        except NoBucketingError:
            continue
        yield SearchTime(census.name, point, name, time.process_time() - began)
    began = time.process_time()
    solved = solve(problem, seconds=limit)
    yield SearchTime(census.name, point, PROGRAMME, time.process_time() - began, not solved.is_finished)


def _make_outcome(times: Sequence[SearchTime], across: Axis, heading: str, verdict: Verdict, sentence: str) -> Outcome:
    rows = tuple(
        (
            search_time.table,
            search_time.point,
            search_time.search,
            search_time.seconds,
            "yes" if search_time.is_stopped else "no",
        )
        for search_time in times
    )
    panels = []
    for census in CENSUSES:
        lines = []
        for name in (*SEARCHES, PROGRAMME):
            own = _select_times(times, census.name, name)
            points = tuple((search_time.point, search_time.seconds) for search_time in own)
            lines.append(
                MeasuredLine(
                    name,
                    points,
                    hollow_points=tuple(search_time.point for search_time in own if search_time.is_stopped),
                )
            )
        panels.append(
            Panel(Axis(f"{census.name}: seconds of processor time", is_logarithmic=True), lines, "stopped at the limit")
        )
    ends = {name: _get_last_time(times, name) for name in SEARCHES if _select_times(times, OCCUPATIONS.name, name)}
    quickest = min(ends, key=lambda name: ends[name])
    reading = f"At the last point of OCC the quickest is: {quickest} ({1000 * ends[quickest]:.0f} ms)."
    figure = draw_panels(heading, across, panels, reading=reading)
    return Outcome(("table", across.label, "search", "seconds", "stopped"), rows, verdict, sentence, figure)


def _select_times(times: Sequence[SearchTime], table: str, name: str) -> list[SearchTime]:
    """From the first point to the last."""
    return sorted(
        (search_time for search_time in times if (search_time.table, search_time.search) == (table, name)),
        key=lambda search_time: search_time.point,
    )


def _get_last_time(times: Sequence[SearchTime], name: str, table: str = OCCUPATIONS.name) -> float:
    """The time at the last point."""
    return _select_times(times, table, name)[-1].seconds


def compare_programme(times: Sequence[SearchTime], than: str, limit: float) -> str:
    """In how many cases the programme was quicker than a search, and in how many slower.

    It is stopped by the clock. What was stopped before it had taken as long as the search may be either.
    """
    pairs = [
        (own, other)
        for census in CENSUSES
        for own, other in zip(
            _select_times(times, census.name, PROGRAMME), _select_times(times, census.name, than), strict=True
        )
    ]
    quicker = sum(own.seconds < other.seconds and not own.is_stopped for own, other in pairs)
    slower = sum(own.seconds > other.seconds for own, other in pairs)
    stopped = sum(own.is_stopped for own, _ in pairs)
    return (
        f"the integer programme (HiGHS, any sizes) is quicker than {than} in {quicker} of {len(pairs)} cases and "
        f"slower in {slower}, and was stopped after {limit:g} s of the clock in {stopped}"
    )


def _compute_growths(times: Sequence[SearchTime], name: str) -> list[float]:
    """How much longer the last point takes than the first, for each table."""
    times_by_table = [_select_times(times, census.name, name) for census in CENSUSES]
    return [own[-1].seconds / max(own[0].seconds, 1e-9) for own in times_by_table]


def _format_growths(growths: Sequence[float]) -> str:
    return " and ".join(f"{growth:.2g}" for growth in growths)


def figure7_5(conditions: Conditions) -> Outcome:
    """Time against the number of records."""
    sizes, limit = conditions.choose((2_000, 12_000), (100_000, 200_000, 300_000)), conditions.choose(0.2, 20.0)
    times: list[SearchTime] = []
    for census, rows in conditions.iter_steps([(census, rows) for census in CENSUSES for rows in sizes]):
        times += _time_searches(census, rows, pose_problem(census.get_counts(conditions, rows)), limit)
    is_ordered = all(
        _get_last_time(times, FULL, census.name)
        < _get_last_time(times, LOSS, census.name)
        < _get_last_time(times, NONE, census.name)
        for census in CENSUSES
    )
    none, loss, full = (_compute_growths(times, name) for name in (NONE, LOSS, FULL))
    holds = is_ordered and max(full) < (sizes[-1] / sizes[0]) ** HARDLY
    part = max(
        _get_last_time(times, DIRECT, census.name) / _get_last_time(times, FULL, census.name) for census in CENSUSES
    )
    sentence = (
        f"At {sizes[-1]:,} records full pruning takes {'' if is_ordered else 'not '}less time than loss pruning, and "
        f"that less than none; {sizes[-1] // sizes[0]} times the records take (OCC and EDU) {_format_growths(none)} "
        "times as "
        f"long without pruning, {_format_growths(loss)} with loss pruning and {_format_growths(full)} with full "
        "pruning, as claimed"
        f"{'' if holds else ' only in part'}; {compare_programme(times, NONE, limit)} (in print it is quicker); the "
        f"same two sizes without a search take {100 * part:.1g}% of the time of full pruning or less."
    )
    verdict = judge([holds])
    across = Axis("records", is_logarithmic=True)
    return _make_outcome(times, across, "How long two sizes take, by the records", verdict, sentence)


def split_values(counts: Sequence[int], parts: int, generator: np.random.Generator) -> tuple[int, ...]:
    """Every value becomes so many, and each of its records is one of them at random."""
    part_counts = np.concatenate([generator.multinomial(count, np.full(parts, 1 / parts)) for count in counts])
    return tuple(int(count) for count in part_counts if count)


def figure7_6(conditions: Conditions) -> Outcome:
    """Time against the number of values."""
    factors, limit = conditions.choose((1, 8), (2, 8, 32)), conditions.choose(0.2, 20.0)
    rows = conditions.choose(8_000, 100_000)
    searches = conditions.choose([name for name in SEARCHES if name != OPTIMAL], list(SEARCHES))
    times: list[SearchTime] = []
    for census, factor in conditions.iter_steps([(census, factor) for census in CENSUSES for factor in factors]):
        counts = split_values(census.get_counts(conditions, rows), factor, conditions.make_generator(7, 6, factor))
        times += _time_searches(census, factor, pose_problem(counts), limit, searches)
    none, loss, full = (_compute_growths(times, name) for name in (NONE, LOSS, FULL))
    many = factors[-1] / factors[0]
    falls, little = max(none) < 1, max(loss + full) < many
    sentence = (
        f"{many:.0f} times the values take (OCC and EDU) {_format_growths(none)} times as long without pruning, which "
        f"is {'less, as claimed' if falls else 'not less on both'}, {_format_growths(loss)} with loss pruning and "
        f"{_format_growths(full)} with full pruning, {'less' if little else 'not less'} than the values grow; "
        f"{compare_programme(times, FULL, limit)} (in print it is slower); the same two sizes without a search take "
        f"up to {1000 * max(_get_last_time(times, DIRECT, census.name) for census in CENSUSES):.0f} ms"
        + (
            ""
            if conditions.is_quick
            else f", any sizes {max(_get_last_time(times, OPTIMAL, each.name) for each in CENSUSES):.2g} s"
        )
        + f" ({rows:,} records, in print 500,000)."
    )
    verdict = judge([little, falls])
    across = Axis("γ: values, each split into so many", is_logarithmic=True)
    return _make_outcome(times, across, "How long two sizes take, by the values", verdict, sentence)


TIMES = (
    Experiment("buckets/fig7-5", "time by the records", figure7_5, is_timed=True, is_long=True),
    Experiment("buckets/fig7-6", "time by the values", figure7_6, is_timed=True, is_long=True),
)
