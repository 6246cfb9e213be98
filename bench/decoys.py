"""Decoys on a real table: the error of large counts by every estimator, its coverage, and what a second release tells.

    PYTHONPATH=. python bench/decoys.py TABLE.parquet COLUMN [--rows 100000] [--group-size 5] [--releases 5]

Queries join conditions on one to three public columns, each with a value chosen by chance, with one value of the
sensitive column, and find between 0.5% and 5% of the records. Printed are the mean relative error over queries and
releases and the share of 95% intervals that hold the truth, for each way of making groups; beside them the same
queries on an Anatomy release by its own estimator, on values drawn afresh, and by Laplace noise. At the end, how often
a value that two releases agree on is the true one.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq

from papers.baselines import distribution_based, laplace
from sfumato._core.random_draws import Draws
from sfumato._perturb.perturbation import Slots
from sfumato._query.estimate import Estimate
from sfumato._records.tally import Holdings, Tally
from sfumato._request.bucket_and_decoy_requirements import DecoyGroups, Diversity
from sfumato._request.histogram import Histogram
from sfumato.mechanisms import _decoys
from sfumato.mechanisms._bucketization import anatomy_mechanism as anatomy

LEAST, MOST = 0.005, 0.05
QUERIES = 5000
EPSILONS = {"ln 2": math.log(2), "ln 3": math.log(3)}

Codes = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Condition:
    """Records that share values of public columns, and the large counts among them: place and true count."""

    mask: Mask
    counts: dict[int, int]
    times: dict[int, int]
    """How often each of them was drawn."""


def conditions(columns: Sequence[Codes], sensitive: Codes, chance: np.random.Generator) -> list[Condition]:
    """Draw queries with replacement until there are enough large ones; put those with the same condition together."""
    rows, size = len(sensitive), int(sensitive.max()) + 1
    found: dict[tuple[tuple[int, int], ...], Condition] = {}
    drawn = 0
    while drawn < QUERIES:
        chosen = chance.choice(len(columns), size=chance.integers(1, 4), replace=False)
        key = tuple(sorted((int(column), int(chance.integers(0, columns[column].max() + 1))) for column in chosen))
        if key not in found:
            mask = np.ones(rows, dtype=np.bool_)
            for column, value in key:
                mask &= columns[column] == value
            found[key] = Condition(mask, dict(enumerate(np.bincount(sensitive[mask], minlength=size).tolist())), {})
        place = int(chance.integers(0, size))
        if LEAST * rows <= found[key].counts[place] < MOST * rows:
            found[key].times[place] = found[key].times.get(place, 0) + 1
            drawn += 1
    return [condition for condition in found.values() if condition.times]


def histogram_of(sensitive: Codes) -> Histogram:
    """The counts of the sensitive column."""
    counts = np.bincount(sensitive)
    return Histogram.of(tuple(map(str, range(len(counts)))), counts.tolist())


def slots_of(sensitive: Codes, draws: Draws, purpose: str) -> npt.NDArray[np.uint64]:
    """The slots of all records."""
    counts = np.bincount(sensitive)
    return Slots(draws, purpose, counts.tolist())(sensitive, np.zeros(len(counts), dtype=np.int64))


def released(sensitive: Codes, group_size: int, creation: _decoys.GroupCreation) -> tuple[_decoys.Design, Codes]:
    """A fresh release: its design, and what each record publishes."""
    draws = Draws.from_fresh_key().narrow_to_column("sensitive")
    plan = _decoys.plan(histogram_of(sensitive), DecoyGroups(group_size), _decoys.Options(creation), draws)
    shown = _decoys.perturb(plan, sensitive, slots_of(sensitive, draws, _decoys.NAME), draws, 0).values
    assert shown is not None
    return _decoys.make_design(plan), shown.astype(np.int64)


def weighted(errors: Iterator[tuple[float, int]]) -> float:
    """The mean of errors that each count several times."""
    values, times = zip(*errors, strict=True)
    return float(np.average(values, weights=times))


def measure(
    sensitive: Codes, asked: Sequence[Condition], group_size: int, creation: _decoys.GroupCreation, runs: int
) -> None:
    """Print one line for each estimator."""
    size = int(sensitive.max()) + 1
    errors: dict[str, list[float]] = {name: [] for name in _decoys.MECHANISM.estimators}
    covered: dict[str, list[float]] = {name: [] for name in _decoys.MECHANISM.estimators}
    for number in range(runs):
        design, shown = released(sensitive, group_size, creation)
        whole = Tally.of_symbols(np.bincount(shown, minlength=size))
        for name, method in _decoys.MECHANISM.estimators.items():
            if name == "paper" and number:
                continue  # slow, and its error is bias rather than chance
            off, hits = [], []
            for condition in asked:
                counts = np.bincount(shown[condition.mask], minlength=size)
                tally = Tally.of_symbols(counts).attach_context(whole, None)
                places = list(condition.times)
                found = method.count(design, tally, [np.array([place]) for place in places])
                for place, moments in zip(places, found, strict=True):
                    truth, times = condition.counts[place], condition.times[place]
                    off.append((abs(float(moments.value[0]) - truth) / truth, times))
                    if not np.isnan(moments.base[0]):
                        low, high = Estimate.of(moments, "", "").interval(0.95)
                        hits.append((float(low <= truth <= high), times))
            errors[name].append(weighted(iter(off)))
            if hits:
                covered[name].append(weighted(iter(hits)))
    for name in _decoys.MECHANISM.estimators:
        told = f", 95% intervals cover {np.mean(covered[name]):.1%}" if covered[name] else ""
        print(f"{creation.value:>16} {name:>8}: {np.mean(errors[name]):6.1%}{told}")


def measure_others(sensitive: Codes, asked: Sequence[Condition], group_size: int) -> None:
    """The same queries without decoys: Anatomy's own estimator, the inverse of it, fresh values, and noise."""
    draws = Draws.from_fresh_key().narrow_to_column("sensitive")
    plan = anatomy.plan(histogram_of(sensitive), Diversity(group_size), anatomy.Options(), draws)
    buckets = anatomy.MECHANISM.perturb(plan, sensitive, slots_of(sensitive, draws, anatomy.NAME), draws, 0).cells
    lines = [
        np.concatenate(column)
        for column in zip(*anatomy.MECHANISM.bucket_table.list_contents(plan).iter_batches(1 << 20), strict=True)
    ]
    holdings = Holdings(*(column.astype(np.int64) for column in lines), domain_size=int(sensitive.max()) + 1)
    afresh = distribution_based.redraw(np.bincount(sensitive).tolist(), len(sensitive), draws)
    off: dict[str, list[tuple[float, int]]] = {}
    for condition in asked:
        counts = np.bincount(buckets[condition.mask], minlength=plan.bucket_count)
        tally = Tally.of_symbols(counts).attach_context(None, holdings)
        places = list(condition.times)
        answers = {
            f"Anatomy, {name}": [
                float(moments.value[0])
                for moments in anatomy.MECHANISM.estimators[name].count(
                    None, tally, [np.array([place]) for place in places]
                )
            ]
            for name in ("uniform", "inverse")
        }
        answers["drawn afresh"] = [
            distribution_based.count_published(afresh, condition.mask, place) for place in places
        ]
        truths = [condition.counts[place] for place in places]
        for words, epsilon in EPSILONS.items():
            answers[f"Laplace {words}"] = laplace.answer_counts(truths, epsilon).tolist()
        for name, found in answers.items():
            for place, truth, value in zip(places, truths, found, strict=True):
                off.setdefault(name, []).append((abs(value - truth) / truth, condition.times[place]))
    for name, pairs in off.items():
        print(f"{name:>25}: {weighted(iter(pairs)):6.2%}")


def measure_repeats(sensitive: Codes, group_size: int) -> None:
    """How often a value that two or three independent releases agree on is the true one."""
    shown = [released(sensitive, group_size, _decoys.GroupCreation.MIXED)[1] for _ in range(3)]
    two = shown[0] == shown[1]
    three = two & (shown[1] == shown[2])
    figures = [np.mean(shown[0] == sensitive), *(np.mean(shown[0][same] == sensitive[same]) for same in (two, three))]
    words = ", ".join(f"{figure:.1%}" for figure in figures)
    print(f"a published value is the true one in one release, and where two and three releases agree: {words}")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", type=Path)
    parser.add_argument("column")
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--group-size", type=int, default=5)
    parser.add_argument("--releases", type=int, default=5)
    arguments = parser.parse_args()
    chance = np.random.default_rng(1)
    table = pq.read_table(arguments.table)
    table = table.take(np.sort(chance.permutation(table.num_rows)[: arguments.rows]))
    codes = {
        name: np.asarray(table.column(name).combine_chunks().dictionary_encode().indices, dtype=np.int64)
        for name in table.column_names
    }
    sensitive = codes.pop(arguments.column)
    asked = conditions(list(codes.values()), sensitive, chance)
    cells = sum(len(condition.times) for condition in asked)
    print(f"{len(sensitive):,} rows, groups of {arguments.group_size}: {QUERIES} queries, {cells} of them different,")
    print(f"under {len(asked)} conditions; {arguments.releases} releases")
    for creation in _decoys.GroupCreation:
        measure(sensitive, asked, arguments.group_size, creation, arguments.releases)
    measure_others(sensitive, asked, arguments.group_size)
    measure_repeats(sensitive, arguments.group_size)


if __name__ == "__main__":
    main()
