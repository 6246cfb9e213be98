"""The perturbation mechanisms side by side on a real table: the error of the same queries, and the time of planning.

    python bench/perturbation.py TABLE.parquet COLUMN --prior 1/11 [--posteriors 1/6 1/5 1/4 1/3] [--releases 3]

Every mechanism releases the same table and answers the same queries: conditions on public columns joined with one
sensitive value, chosen by chance among those that find about a given share of the records. Printed is, for each share,
the mean relative error that was measured over queries and releases, its ratio to uniform perturbation, and in brackets
the error that the exact variance of each query predicts, which is free of the chance of a few releases.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq

from sfumato._core.random_draws import Draws
from sfumato._perturb.perturbation import Slots
from sfumato._records.set_records import SetEncoding
from sfumato._records.tally import Tally
from sfumato._records.value_records import ValueEncoding
from sfumato._request.histogram import Histogram
from sfumato._request.requirements import BreachBound
from sfumato.mechanisms import REGISTRY
from sfumato.mechanisms._randomized_response import small_domain
from sfumato.mechanisms._randomized_response.inverse_estimation import compute_flat_variance
from sfumato.mechanisms._randomized_response.small_domain import Merge

SELECTIVITIES = (0.001, 0.005, 0.01)
NEAR = 1.25
"""A query counts for a selectivity if it finds at most this many times more or fewer records."""
CONDITIONS = 400
MOST_QUERIES = 1500

Codes = npt.NDArray[np.int64]
Masks = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Contender:
    """A mechanism with its options."""

    label: str
    mechanism: str
    options: Any

    def plan(self, histogram: Histogram, bound: BreachBound, draws: Draws) -> Any:
        """Plan with this mechanism and these options."""
        return REGISTRY[self.mechanism].plan(histogram, bound, self.options, draws)


CONTENDERS = (
    Contender("uniform", "uniform", REGISTRY["uniform"].options()),
    Contender("subset", "subset", REGISTRY["subset"].options()),
    Contender("small-domain, paper", "small-domain", small_domain.Options(Merge.PAPER)),
    Contender("small-domain, variance", "small-domain", small_domain.Options()),
)


def conditions(columns: Sequence[Codes], chance: np.random.Generator) -> Iterator[Masks]:
    """Random conditions: for one to three columns, a random range of their values."""
    for _ in range(CONDITIONS):
        mask = np.ones(len(columns[0]), dtype=np.bool_)
        for column in chance.choice(len(columns), size=chance.integers(1, 4), replace=False):
            codes = columns[column]
            low, high = np.sort(chance.integers(0, codes.max() + 1, size=2))
            mask &= (codes >= low) & (codes <= high)
        yield mask


def queries(
    masks: Sequence[Masks], sensitive: Codes, size: int, chance: np.random.Generator
) -> dict[float, list[tuple[int, int, int]]]:
    """(condition, value, true count) of the queries of each selectivity."""
    counts = np.array([np.bincount(sensitive[mask], minlength=size) for mask in masks])
    found = {}
    for share in SELECTIVITIES:
        aim = share * len(sensitive)
        pairs = np.argwhere((counts >= aim / NEAR) & (counts <= aim * NEAR))
        chosen = chance.permutation(len(pairs))[:MOST_QUERIES]
        found[share] = [(int(row), int(value), int(counts[row, value])) for row, value in pairs[chosen]]
    return found


def tallies(contender: Contender, plan: Any, masks: Sequence[Masks], sensitive: Codes, draws: Draws) -> list[Tally]:
    """Release the table, and count under each condition."""
    module = REGISTRY[contender.mechanism]
    counts = np.bincount(sensitive)
    slots = None
    if module.uses_slots:
        slots = Slots(draws, module.name, counts.tolist())(sensitive, np.zeros(len(counts), dtype=np.int64))
    replaced = module.perturb(plan, sensitive.astype(np.uint16), slots, draws, 0)
    shown = module.make_encoding(module.make_design(plan))
    if isinstance(shown, SetEncoding):
        bits = np.unpackbits(replaced.values, axis=1, count=shown.size).astype(np.float32)
        members = np.array(masks, dtype=np.float32) @ bits
        return [
            Tally.of_one(row.round().astype(np.int64), int(mask.sum()))
            for row, mask in zip(members, masks, strict=True)
        ]
    symbols = symbol_numbers(shown, len(counts))
    cells = np.zeros(len(sensitive), dtype=np.int64) if replaced.cells is None else replaced.cells
    numbers = symbols[cells, replaced.values]
    return [Tally.of_symbols(np.bincount(numbers[mask], minlength=len(shown.symbols))) for mask in masks]


def symbol_numbers(shown: ValueEncoding, size: int) -> Codes:
    """The number of the symbol for each cell and value."""
    cells = np.zeros(len(shown.symbols), dtype=np.int64) if shown.cells is None else shown.cells
    numbers = np.full((int(cells.max()) + 1, size), -1)
    numbers[cells, shown.symbols] = np.arange(len(shown.symbols))
    return numbers


def errors(
    contender: Contender, plan: Any, pool: dict[float, list[tuple[int, int, int]]], counted: Sequence[Tally]
) -> dict[float, float]:
    """The mean relative error of the queries of each selectivity."""
    module = REGISTRY[contender.mechanism]
    design, count = module.make_design(plan), module.estimators["closed"].count
    found = {}
    for share, asked in pool.items():
        off = [
            abs(float(count(design, counted[row], [np.array([value])])[0].value[0]) - truth) / truth
            for row, value, truth in asked
        ]
        found[share] = float(np.mean(off)) if off else float("nan")
    return found


def expected_errors(
    contender: Contender, plan: Any, pool: dict[float, list[tuple[int, int, int]]], held: Codes
) -> dict[float, float]:
    """The mean relative error of the same queries by their exact variance; `held` counts values by condition."""
    module = REGISTRY[contender.mechanism]
    found = {}
    for share, asked in pool.items():
        off = []
        for row, value, truth in asked:
            counts = held[row].astype(np.float64)
            if module.uses_slots:
                variance = cells_variance(plan, counts, value)
            else:
                rows = np.full(len(counts), counts.sum())
                variance = float(
                    module.error_prediction.predict_variances(plan, rows, np.full(len(counts), float(truth)))[value]
                )
            off.append(np.sqrt(2 / np.pi * variance) / truth)
        found[share] = float(np.mean(off)) if off else float("nan")
    return found


def cells_variance(plan: small_domain.Plan, counts: npt.NDArray[np.float64], value: int) -> float:
    """The variance of a count over cells, with the rows that each cell is expected to have."""
    operator = plan.design.operator
    entries = counts[operator.places] * plan.shares
    rows = operator.sum_by_cell(entries)[operator.cells]
    base, slope = compute_flat_variance(operator.retention, operator.swap, rows, 1)
    return float((base + slope * entries)[operator.places == value].sum())


def planning_time(contender: Contender, histogram: Histogram, bound: BreachBound) -> float:
    """The best of five plans, in seconds."""
    times = []
    for _ in range(5):
        start = time.perf_counter()
        contender.plan(histogram, bound, Draws.from_fresh_key())
        times.append(time.perf_counter() - start)
    return min(times)


def compare(sensitive: Codes, masks: Sequence[Masks], histogram: Histogram, bound: BreachBound, releases: int) -> None:
    """Print one line for each mechanism."""
    chance = np.random.default_rng(2)
    pool = queries(masks, sensitive, histogram.domain_size, chance)
    sizes = ", ".join(f"{len(asked)} at {share:.1%}" for share, asked in pool.items())
    print(f"\nposterior {bound.posterior} (queries: {sizes})")
    held = np.array([np.bincount(sensitive[mask], minlength=histogram.domain_size) for mask in masks])
    reference: dict[float, float] = {}
    for contender in CONTENDERS:
        plan = contender.plan(histogram, bound, Draws.from_fresh_key())
        runs = []
        for _ in range(releases):
            draws = Draws.from_fresh_key().narrow_to_column("sensitive")
            runs.append(errors(contender, plan, pool, tallies(contender, plan, masks, sensitive, draws)))
        mean = {share: float(np.mean([run[share] for run in runs])) for share in pool}
        reference = reference or mean
        model = expected_errors(contender, plan, pool, held)
        shown = "  ".join(
            f"{mean[share]:6.3f} = {mean[share] / reference[share]:.2f} x [{model[share]:.4f}]" for share in pool
        )
        print(f"{contender.label:>24}: {shown}  planned in {planning_time(contender, histogram, bound) * 1e3:.1f} ms")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", type=Path)
    parser.add_argument("column")
    parser.add_argument("--prior", required=True)
    parser.add_argument("--posteriors", nargs="+", default=["1/6", "1/5", "1/4", "1/3"])
    parser.add_argument("--releases", type=int, default=3)
    arguments = parser.parse_args()
    table = pq.read_table(arguments.table).combine_chunks()
    encoded = {name: table.column(name).combine_chunks().dictionary_encode() for name in table.column_names}
    codes = {
        name: np.asarray(column.chunk(0).indices if hasattr(column, "chunk") else column.indices, dtype=np.int64)
        for name, column in encoded.items()
    }
    sensitive = codes.pop(arguments.column)
    counts = np.bincount(sensitive)
    histogram = Histogram.of([f"v{place:05d}" for place in range(len(counts))], counts.tolist())
    largest = counts.max() / counts.sum()
    print(f"{arguments.table.name}: {len(sensitive):,} rows, {len(counts)} values, largest share {largest:.2%}")
    masks = list(conditions(list(codes.values()), np.random.default_rng(1)))
    for posterior in arguments.posteriors:
        bound = BreachBound(arguments.prior, posterior)
        compare(sensitive, masks, histogram, bound, arguments.releases)


if __name__ == "__main__":
    main()
