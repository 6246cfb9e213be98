"""How far `shrunk` numbers are off, by true count: beside the unbiased ones, and beside the paper's for decoys.

    PYTHONPATH=. python bench/shrunk.py TABLE.parquet COLUMN [--rows 148318] [--conditions 200] [--releases 5]
                           [--bound 1/11 1/3] [--group-sizes 3 5 10]

Conditions take one to three public columns, each with a value that a record of the table has, or with any value of the
domain; every value of the sensitive column is counted under each. Printed is the mean absolute error of each estimator,
over the counts of a band and all releases, as a multiple of that of the default; in brackets the mean of what it is off
by, relative to the mean count. For decoys, the last line has the better of the default and `shrunk` by the paper's.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq
from decoys import histogram_of, slots_of

from papers.coded_table import CodedTable
from papers.query_pools import Band
from sfumato._core.array_types import Codes
from sfumato._core.random_draws import Draws
from sfumato._records.tally import Tally
from sfumato._request.belief_bounds import BreachBound, PrivacySpec
from sfumato._request.bucket_and_decoy_requirements import DecoyGroups
from sfumato.mechanisms import REGISTRY

BANDS = (
    Band("0", 0, 1),
    Band("1 to 10", 1, 11),
    Band("11 to 50", 11, 51),
    Band("51 to 200", 51, 201),
    Band("201 to 1,000", 201, 1001),
    Band("above", 1001),
)
LEAST_ROWS = 5
SEED = 14

Lines = npt.NDArray[np.int64]
Errors = Mapping[str, npt.NDArray[np.float64]]


def conditions(table: CodedTable, number: int) -> list[Lines]:
    """The records of random conditions, by their numbers."""
    chance, names = np.random.default_rng(SEED), list(table.public_columns)
    found: dict[tuple[tuple[str, int], ...], Lines] = {}
    while len(found) < number:
        chosen = [names[place] for place in chance.choice(len(names), size=chance.integers(1, 4), replace=False)]
        record = chance.integers(table.rows) if chance.random() < 1 / 2 else None
        codes = [
            int(
                chance.integers(table.public_columns[name].size)
                if record is None
                else table.public_columns[name].codes[record]
            )
            for name in chosen
        ]
        mask = np.logical_and.reduce(
            [table.public_columns[name].codes == code for name, code in zip(chosen, codes, strict=True)]
        )
        if mask.sum() >= LEAST_ROWS:
            found[tuple(sorted(zip(chosen, codes, strict=True)))] = np.flatnonzero(mask)
    return list(found.values())


def tally_of(shown: Codes, asked: Sequence[Lines], size: int) -> Tally:
    """What the records of each condition show: values, or sets as bits."""
    if shown.ndim == 1:
        lines = [np.bincount(shown[rows], minlength=size) for rows in asked]
        whole = np.bincount(shown, minlength=size)
    else:
        bits = np.unpackbits(shown, axis=1, count=size)
        lines = [bits[rows].sum(axis=0, dtype=np.int64) for rows in asked]
        whole = bits.sum(axis=0, dtype=np.int64)
    counted = Tally(np.array(lines), np.array([len(rows) for rows in asked]))
    return counted.attach_context(Tally.of_one(whole, len(shown)), None)


def errors(table: CodedTable, name: str, spec: PrivacySpec, asked: Sequence[Lines], releases: int) -> Errors:
    """What each estimator is off by, for each release, condition and value."""
    mechanism: Any = REGISTRY[name]
    codes, size = table.sensitive.codes.astype(np.int64), table.sensitive.size
    truths = np.array([np.bincount(codes[rows], minlength=size) for rows in asked])
    found: dict[str, list[npt.NDArray[np.float64]]] = {}
    for number in range(releases):
        draws = Draws.unsafe_test_key(f"{SEED + number:064x}").narrow_to_column("sensitive")
        plan = mechanism.plan(histogram_of(codes), spec, mechanism.options(), draws)
        slots = slots_of(codes, draws, name) if mechanism.uses_slots else None
        tally = tally_of(np.asarray(mechanism.perturb(plan, codes, slots, draws, 0).values), asked, size)
        design = mechanism.make_design(plan)
        default = next(iter(mechanism.list_estimators(design)))
        for method in (default, "shrunk", *(["paper"] if "paper" in mechanism.estimators else [])):
            singles = [np.array([place]) for place in range(size)]
            counted = mechanism.estimators[method].count(design, tally, singles)
            off = np.array([each.value for each in counted]).T - truths
            found.setdefault("default" if method == default else method, []).append(off)
    return {"truths": truths.astype(np.float64), **{method: np.array(each) for method, each in found.items()}}


def show(words: str, found: Errors) -> None:
    """A line for each estimator, a cell for each band."""
    truths = found["truths"].astype(np.int64)
    bands = [band.holds(truths) for band in BANDS]
    means = {name: [np.abs(each[:, band]).mean() for band in bands] for name, each in found.items() if name != "truths"}
    for name, row in means.items():
        cells = []
        for mean, default, band in zip(row, means["default"], bands, strict=True):
            bias = found[name][:, band].mean() / max(truths[band].mean(), 1.0)
            cells.append(f"{mean:.1f}" if name == "default" else f"{mean / default:.2f} ({bias:+.0%})")
        print(f"| {words} | {name} | {' | '.join(cells)} |", flush=True)
    if "paper" in means:
        better = np.minimum(means["default"], means["shrunk"]) / np.array(means["paper"])
        print(f"| {words} | the better by the paper's | {' | '.join(f'{each:.2f}' for each in better)} |", flush=True)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", type=Path)
    parser.add_argument("column")
    parser.add_argument("--rows", type=int, default=1 << 30)
    parser.add_argument("--conditions", type=int, default=200)
    parser.add_argument("--releases", type=int, default=5)
    parser.add_argument("--bound", nargs="*", default=["1/11", "1/3"])
    parser.add_argument("--group-sizes", type=int, nargs="*", default=[3, 5, 10])
    arguments = parser.parse_args()
    table = pq.read_table(arguments.table)
    some = np.sort(np.random.default_rng(SEED).permutation(table.num_rows)[: arguments.rows])
    coded = CodedTable.of(table.take(some), arguments.column)
    asked = conditions(coded, arguments.conditions)
    print(f"| request | estimator | {' | '.join(band.label for band in BANDS)} |\n|{'---|' * (2 + len(BANDS))}")
    if arguments.bound:
        bound = BreachBound(*arguments.bound)
        for name in ("uniform", "subset"):
            show(f"{name}, {' to '.join(arguments.bound)}", errors(coded, name, bound, asked, arguments.releases))
    for size in arguments.group_sizes:
        words = f"decoys, groups of {size}"
        show(words, errors(coded, "decoys", DecoyGroups(size), asked, arguments.releases))


if __name__ == "__main__":
    main()
