"""Measuring a table by the usual privacy models: sfumato against pyCANON, in one run.

    python bench/measures.py [--rows 300000] [--repeats 3]

The table is invented: three public columns of 2, 6 and 8 values, and two sensitive ones that go with them, 15 texts and
40 whole numbers. Both compute k-anonymity, (alpha, k), three kinds of diversity, t-closeness, two kinds of likeness and
delta-disclosure of each sensitive column from a pandas frame; pyCANON is run once, sfumato several times, and the
slowest counts. Numbers that both define alike are compared. Without pycanon there is nothing to compare, and nothing is
done; it pins other versions of numpy, pandas and typer than sfumato needs, so give it an environment of its own.
"""

from __future__ import annotations

import argparse
import math
import time
from importlib.util import find_spec
from typing import Any

import numpy as np

import sfumato

PUBLIC = ["sex", "region", "age"]
SENSITIVE = ["disease", "visits"]
TIED = 0.3
"""Of so many people the disease goes with the age."""


def invented(rows: int) -> Any:
    """A frame whose sensitive columns go with its public ones."""
    import pandas as pd  # noqa: PLC0415 - comes with pycanon

    draw = np.random.default_rng(1)
    age = draw.integers(0, 8, rows)
    disease = np.where(draw.random(rows) < TIED, age, draw.integers(0, 15, rows))
    visits = np.minimum(draw.poisson(3 + age), 39)
    return pd.DataFrame(
        {
            "sex": np.array(["F", "M"])[draw.integers(0, 2, rows)],
            "region": [f"region {number}" for number in draw.integers(0, 6, rows)],
            "age": [f"{10 * number} to {10 * number + 9}" for number in age],
            "disease": [f"disease {number}" for number in disease],
            "visits": visits,
        }
    )


def by_pycanon(frame: Any) -> dict[str, list[float]]:
    """What pyCANON says, a number for each sensitive column."""
    from pycanon import anonymity  # noqa: PLC0415 - is not there everywhere

    each = [[name] for name in SENSITIVE]
    found: dict[str, list[float]] = {"k_anonymity": [anonymity.k_anonymity(frame, PUBLIC)] * len(SENSITIVE)}
    found["largest_share"] = [anonymity.alpha_k_anonymity(frame, PUBLIC, name)[0] for name in each]
    found["distinct_diversity"] = [anonymity.l_diversity(frame, PUBLIC, name) for name in each]
    found["entropy_diversity"] = [anonymity.entropy_l_diversity(frame, PUBLIC, name) for name in each]
    found["closeness"] = [anonymity.t_closeness(frame, PUBLIC, name) for name in each]
    found["basic_likeness"] = [anonymity.basic_beta_likeness(frame, PUBLIC, name) for name in each]
    found["disclosure_of_present"] = [anonymity.delta_disclosure(frame, PUBLIC, name) for name in each]
    for name in each:  # defined otherwise there: computed for the time, and not compared
        anonymity.recursive_c_l_diversity(frame, PUBLIC, name)
        anonymity.enhanced_beta_likeness(frame, PUBLIC, name)
    return found


def compared(found: sfumato.Measures) -> dict[str, list[float]]:
    """The same numbers by sfumato."""
    told: dict[str, list[float]] = {}
    for column in found.columns:
        numbers = dict(column.numbers)
        ordered = numbers.pop("ordered_distance")
        numbers["closeness"] = numbers["equal_distance"] if ordered is None else ordered
        numbers["entropy_diversity"] = math.floor((numbers["entropy_diversity"] or 0.0) + 1e-9)
        for key, number in numbers.items():
            told.setdefault(key, []).append(math.nan if number is None else number)
    return told


def main() -> None:
    """Time both, and compare what they say."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=300_000)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    if find_spec("pycanon") is None:
        print("pycanon is not installed here: skipped")
        return
    frame = invented(options.rows)
    ours = []
    for _ in range(options.repeats):
        start = time.process_time()
        found = sfumato.measure(frame, PUBLIC, SENSITIVE)
        ours.append(time.process_time() - start)
    start = time.process_time()
    theirs = by_pycanon(frame)
    theirs_time = time.process_time() - start
    mine = compared(found)
    for key, numbers in theirs.items():
        is_same = np.allclose(numbers, mine[key], rtol=1e-9)
        print(f"{key:>22}: {numbers} {'the same' if is_same else f'but here {mine[key]}'}")
    print(f"{options.rows:,} rows, {found.group_count} groups, processor time")
    print(f"pyCANON {theirs_time:.1f} s, sfumato {max(ours):.2f} s: {theirs_time / max(ours):.0f} times as fast")


if __name__ == "__main__":
    main()
