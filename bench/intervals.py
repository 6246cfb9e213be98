"""Intervals by the exact law: thousands of different numbers of rows and hits of one release, none known before.

python bench/intervals.py [--pairs 5000] [--repeats 3]
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from sfumato._query import intervals

DESIGNS = {
    "uniform, 843 values, amplification 9/2": (4.5 / 846.5, 1 / 846.5),
    "uniform, 1,000 values, amplification 20": (20 / 1019, 1 / 1019),
    "uniform, 1,000 values, amplification 2": (2 / 1001, 1 / 1001),
    "uniform, 50 values, amplification 10": (10 / 59, 1 / 59),
    "uniform, 10 values, amplification 10": (10 / 19, 1 / 19),
    "subset, 843 values, amplification 9/2": (0.5, 0.1813),
}
"""The chances of a hit: of a record with the value, and of another."""


def seconds(wanted: float, other: float, number: int) -> tuple[int, float]:
    """How many different pairs were made, of counts up to 50, and how long their intervals took."""
    chance = np.random.default_rng(7)
    rows = chance.integers(1, int(intervals.FEW_EXPECTED_HITS / other), number * 2)
    counts = np.minimum(chance.integers(0, 51, len(rows)), rows)
    hits = chance.binomial(counts, wanted) + chance.binomial(rows - counts, other)
    pairs = chance.permutation(np.unique(np.stack([rows, hits]), axis=1), axis=1)[:, :number]
    chances = np.repeat([[wanted], [other]], pairs.shape[1], axis=1)
    intervals.find_accepted_counts.cache_clear()
    start = time.perf_counter()
    intervals.invert_hits(chances, *pairs, 0.95)
    return pairs.shape[1], time.perf_counter() - start


def main() -> None:
    """Print the best time of each design."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=5000)
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args()
    for name, (wanted, other) in DESIGNS.items():
        times = [seconds(wanted, other, given.pairs) for _ in range(given.repeats)]
        print(f"{name}: {times[0][0]:,} pairs in {min(each for _, each in times):.3f} s")


if __name__ == "__main__":
    main()
