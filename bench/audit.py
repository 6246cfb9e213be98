"""How long a report about a release takes, by the number of its records.

    python bench/audit.py [--rows 15000 150000] [--columns 8] [--values 50]

An invented table of so many columns, one of them sensitive and none of them telling it, is published by `subset` with
its key kept, and audited with that key and without it; the page is made too.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from datetime import date
from pathlib import Path

import numpy as np
import pyarrow as pa

from sfumato import BreachBound, Request, Schema, publish
from sfumato._evidence import audit_release


def invented(rows: int, columns: int, values: int) -> pa.Table:
    """Columns of few values each, and a sensitive one whose values are less and less frequent."""
    chance = np.random.default_rng(rows)
    shares = 1 / np.arange(2, values + 2)
    table = {f"c{number}": chance.integers(0, 4 + 3 * number, rows) for number in range(columns - 1)}
    return pa.table({**table, "disease": chance.choice(values, rows, p=shares / shares.sum())})


def seconds(rows: int, columns: int, values: int, folder: Path) -> tuple[list[str], int]:
    """With the key and without it, of the clock and of the processors; and how large the page is."""
    table, release, plan = invented(rows, columns, values), folder / f"{rows}", folder / f"{rows}.plan"
    request = Request(
        table, schema=Schema.of("disease", public="*"), spec=BreachBound("1/13", "1/3"), mechanism="subset"
    )
    publish(request, release, plan_file=plan, on_notice=lambda notice: None)
    took, size = list[str](), 0
    for key in (plan, None):
        began, worked = time.perf_counter(), time.process_time()
        size = len(audit_release(release, table, report_date=date.today(), plan_file=key).document().to_html())
        took.append(f"{time.perf_counter() - began:.1f} s ({time.process_time() - worked:.1f} s)")
    return took, size


def main() -> None:
    """Print a line for each number of rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[15_000, 150_000])
    parser.add_argument("--columns", type=int, default=8)
    parser.add_argument("--values", type=int, default=50)
    given = parser.parse_args()
    print("rows, with the key and without it by the clock (and of the processors), size of the page")
    with tempfile.TemporaryDirectory() as name:
        for rows in given.rows:
            took, size = seconds(rows, given.columns, given.values, Path(name))
            print(f"{rows:,}  {'  '.join(took)}  {size / 1000:.0f} kB", flush=True)


if __name__ == "__main__":
    main()
