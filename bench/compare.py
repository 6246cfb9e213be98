"""How long it takes to compare all mechanisms, and how it grows with the table.

    python bench/compare.py [--rows 150000] [--times 10] [--at-gain 5%]

An invented table of seven public columns and one protected one of 46 values is compared at one posterior, then one with
so many times the rows. Printed are seconds on the clock and seconds of processor, and by how much they grow. On a
machine that others use, the latter say more.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import pyarrow as pa

from sfumato import BreachBound, Request, Schema, compare

VALUES = 46
HEIGHTS = (10, 2, 7, 17, 14, 9, 6)
TOLD = 0.15
"""So many of the people have a value of a public column that their protected value decides."""


def table(rows: int) -> pa.Table:
    """Values as frequent as occupations are, and columns that tell a little of them."""
    chance = np.random.default_rng(1)
    shares = 1 / np.arange(1, VALUES + 1) ** 0.6
    held = chance.choice(VALUES, rows, p=shares / shares.sum())
    columns = {}
    for number, height in enumerate(HEIGHTS):
        own, other = held * (number + 3) % height, chance.integers(0, height, rows)
        columns[f"public {number}"] = np.where(chance.random(rows) < TOLD, own, other)
    return pa.table({**columns, "value": np.array([f"value {each}" for each in range(VALUES)])[held]})


def main() -> None:
    """Compare a small and a large table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=150_000)
    parser.add_argument("--times", type=int, default=10)
    parser.add_argument("--at-gain")
    given = parser.parse_args()
    found = []
    for rows in (given.rows, given.times * given.rows):
        request = Request(table(rows), schema=Schema.of("value", public="*"), spec=BreachBound("1/13", "1/3"))
        clock, processor = time.perf_counter(), time.process_time()
        made = compare(request, at_gain=given.at_gain, seed=1)
        found.append((time.perf_counter() - clock, time.process_time() - processor))
        said = f"{found[-1][0]:6.1f} s, {found[-1][1]:6.1f} s of processor"
        print(f"{rows:>12,} rows: {said}; {len(made.possible_contenders)} mechanisms")
    clocks, processors = (later / first for first, later in zip(*found, strict=True))
    print(f"{given.times} times the rows: {clocks:.1f} times as long, {processors:.1f} times the processor")


if __name__ == "__main__":
    main()
