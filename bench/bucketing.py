"""Choosing bucket sizes: the loss and the time of every method on the census-like histograms of the thesis' settings.

    PYTHONPATH=. python bench/bucketing.py [--cases occ-like-300000 edu-like ...] [--milp] [--limit 60] [--split 64]

The histograms are those of `tests/bucket_cases.py`: synthetic, with the number of values and the largest and smallest
share of the thesis. The cap of a value is a factor times its share, plus 1/50; buckets have at most 50 records. Printed
are, for each table and factor: the loss of `find_optimal_setting` (compared with the known optimum), the gap to its
proven bound,
and its time; the loss of the best two sizes, as a ratio, with the time of the closed form and of the thesis' Programs
5.2 and 5.3; the ratio of the top-down method; with `--milp`, the thesis' full integer programme in HiGHS, stopped at
the limit, with the numbers of records whole as in the thesis, and free. Then every value is split into 64, and
`find_optimal_setting` runs again. Times are processor times: all methods use one core, and other work on the machine
counts for little so. The limit is in seconds of the clock.
"""

from __future__ import annotations

import argparse
import importlib
import itertools
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from papers.baselines.assignment_program import solve
from papers.baselines.two_size_programs import search_fully_pruned, search_loss_pruned
from sfumato._request.bucket_and_decoy_requirements import ShareCap
from sfumato._request.histogram import Histogram
from sfumato.mechanisms._bucketization.buckets.bucket_problem import Problem, pose
from sfumato.mechanisms._bucketization.buckets.cap_rounding import compute_least_size
from sfumato.mechanisms._bucketization.buckets.least_loss import Optimum, find_optimal_setting
from sfumato.mechanisms._bucketization.buckets.two_size_splitting import split_top_down
from sfumato.mechanisms._bucketization.buckets.two_sizes import find_best_two_sizes

Result = TypeVar("Result")

LARGEST = 50


def known_cases(wanted: list[str]) -> Iterator[Any]:
    """The census-like cases of the tests whose names begin like one of these."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
    for case in importlib.import_module("bucket_cases").CASES:
        if "-like-" in case.name and any(case.name.startswith(name) for name in wanted):
            yield case


def posed(counts: tuple[int, ...], factor: str, offset: str) -> Problem:
    """The problem of a histogram, from the least size that the caps allow."""
    histogram = Histogram.of(range(len(counts)), counts)
    caps = ShareCap.from_shares(histogram, factor, offset).list_caps(histogram.values)
    return pose(counts, caps, min(compute_least_size(cap) for cap in caps), LARGEST)


def split(counts: tuple[int, ...], parts: int) -> tuple[int, ...]:
    """Every value in so many of nearly equal size."""
    return tuple((count + part) // parts for count in counts for part in range(parts))


def timed(method: Callable[[Problem], Result], problem: Problem, repeats: int = 1) -> tuple[Result, str]:
    """What a method finds, and the best processor time of the repeats."""
    seconds = []
    for _ in range(repeats):
        start = time.process_time()
        found = method(problem)
        seconds.append(time.process_time() - start)
    return found, shown_time(min(seconds))


def shown_time(seconds: float) -> str:
    """Milliseconds below a second."""
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"


def shown_gap(found: Optimum) -> str:
    """How far the loss may be from the best."""
    return "proven" if found.is_proven else f"{1 - found.bound / found.setting.loss:.1e}"


def print_row(*cells: object) -> None:
    """One line of a Markdown table."""
    print("|", " | ".join(str(cell) for cell in cells), "|", flush=True)


def print_head(*cells: str) -> None:
    """The head of a Markdown table."""
    print_row(*cells)
    print("|" + "---|" * len(cells))


def compare(case: Any, repeats: int) -> list[str]:
    """All methods but the integer programme on one case."""
    problem = posed(case.counts, *case.caps[1:])
    best, optimal_time = timed(find_optimal_setting, problem, repeats)
    loss = best.setting.loss
    if loss != case.optimum:
        print(f"{case.name}: the loss {loss} is not the known optimum {case.optimum}", file=sys.stderr)
    two, closed_time = timed(find_best_two_sizes, problem, repeats)
    bisected, bisection_time = timed(search_fully_pruned, problem)
    checked, checking_time = timed(search_loss_pruned, problem)
    if not two == bisected == checked:
        print(f"{case.name}: the two-size methods disagree", file=sys.stderr)
    fine, _ = timed(split_top_down, problem)
    times = [optimal_time, f"{two.loss / loss:.3f}", closed_time, bisection_time, checking_time]
    return [f"{loss:,}", shown_gap(best), *times, f"{fine.loss / loss:.3f}"]


def print_comparison(cases: list[Any], repeats: int) -> None:
    """The table of all methods but the integer programme."""
    head = ["optimum", "gap", "time", "two sizes", "closed form", "Program 5.3", "Program 5.2", "top-down"]
    print_head("table", "factor", *head)
    for case in cases:
        table, factor = case.name.split("-theta-")
        print_row(table, factor, *compare(case, repeats))


def print_programme(cases: list[Any], limit: float) -> None:
    """The table of the integer programme."""
    print(f"\nThe full integer programme in HiGHS, stopped at {limit:g} s:\n")
    print_head("table", "factor", "records", "time", "loss / optimum", "gap it claims", "finished")
    for case, whole in itertools.product(cases, (True, False)):
        table, factor = case.name.split("-theta-")
        method = partial(solve, seconds=limit, whole_records=whole)
        answer, seconds = timed(method, posed(case.counts, *case.caps[1:]))
        ratio = "none found" if answer.loss is None else f"{answer.loss / case.optimum:.7f}"
        ended = "yes" if answer.is_finished else "no"
        print_row(table, factor, "whole" if whole else "free", seconds, ratio, f"{answer.gap:.1e}", ended)


def print_split(cases: list[Any], parts: int) -> None:
    """The table of the larger domains."""
    print(f"\nEvery value split into {parts}:\n")
    print_head("table", "factor", "values", "loss", "gap", "time")
    for case in cases:
        table, factor = case.name.split("-theta-")
        counts = split(case.counts, parts)
        found, seconds = timed(find_optimal_setting, posed(counts, *case.caps[1:]))
        print_row(table, factor, len(counts), f"{found.setting.loss:,}", shown_gap(found), seconds)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", nargs="+", default=["edu", "occ"], help="how the names of the cases begin")
    parser.add_argument("--repeats", type=int, default=3, help="of the fast methods")
    parser.add_argument("--milp", action="store_true", help="run the full integer programme too")
    parser.add_argument("--limit", type=float, default=60.0, help="seconds for each integer programme")
    parser.add_argument("--split", type=int, default=64, help="into how many values each is split at the end")
    arguments = parser.parse_args()
    cases = list(known_cases(arguments.cases))
    print_comparison(cases, arguments.repeats)
    if arguments.milp:
        print_programme(cases, arguments.limit)
    print_split(cases, arguments.split)


if __name__ == "__main__":
    main()
