"""The error of every mechanism's estimators on the papers' own query pools, and what their intervals cover.

    PYTHONPATH=. python bench/accuracy.py --data DIR [--tables census_occ ...] [--mechanisms buckets ...]
                             [--pool small crossed large spread groups] [--repeats 5] [--queries 100] [--slow 10]
                             [--quick] [--processes 2]

DIR holds census_occ.parquet, census_all.parquet, vaers_adr40.parquet and vaers_adr_all.parquet. Printed is one table:
for each request, mechanism and estimator the mean relative error over queries and releases, the median in brackets, and
the share of 95% intervals that hold the truth. In bold is each default; the papers' own methods are named. The pools:

    small     counts of 1 to 10                                                                      (SPLU)
    crossed   200 conditions with every value, counts from 0.1%, 0.5% and 1% of the records on       (small domain)
    large     counts of 0.5% to 5% of the records                                                    (SPLU)
    spread    one to all public columns with several values, 1% of the records expected              (F'-privacy)
    groups    conditions as in crossed with every group of values, counts from 0.5% on; only for vaers_adr_all, whose
              reactions are grouped by their first letter

Estimators with a star are slow: they answer the first --slow queries of each pool in one release, and without such
queries they are left out; over the 1,420 values of vaers_adr_all, em and gls would take an hour, and are left out. The
iteration of the SPLU paper, with a cross, answers all of them in one release. Pools and
releases follow from seeds: a run can be repeated. --quick takes 10,000 records of each table, one release, small
pools and no slow estimator.
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from papers.accuracy import compute_accuracy
from papers.coded_table import CodedTable
from papers.measured_errors import Contestant, make_request
from papers.query_pools import (
    Band,
    Pool,
    draw_band_pool,
    draw_crossed_pool,
    draw_spread_pool,
    make_bands_between,
    make_lower_bands,
    make_small_band,
)
from sfumato import (
    BreachBound,
    CountQuery,
    DecoyGroups,
    Diversity,
    Estimates,
    Hierarchy,
    InfeasibleError,
    LinearCap,
    Release,
    Schema,
    Tolerance,
    publish,
)
from sfumato.mechanisms import REGISTRY
from sfumato.mechanisms._bucketization import buckets
from sfumato.mechanisms._randomized_response import fine_grain, small_domain

SEED = 14
GROUPS, LETTER = "groups", "letter"
QUICK_RECORDS = 10_000
SLOW = ("em", "gls")
"""Estimators that iterate, or solve a system, for every query."""
ONCE = ("paper",)
"""Estimators that iterate for every value, which one release bears and five do not."""

PAPERS = {
    ("uniform", "closed"): "the baseline of small domain randomization",
    ("small-domain, paper's merging", "closed"): "small domain randomization",
    ("buckets", "uniform"): "the F'-privacy thesis' estimator",
    ("buckets of least loss", "uniform"): "the F'-privacy thesis",
    ("anatomy", "uniform"): "Anatomy",
    ("decoys", "paper"): "SPLU",
}
"""The methods that are a paper's own."""


@dataclass(frozen=True)
class Subject:
    """A table, its sensitive column, and requests that it allows: its largest share is below the prior and 1/size."""

    column: str
    prior: str
    posterior: str
    size: int
    factors: tuple[int, ...] = (8,)
    slow: tuple[str, ...] = SLOW
    left_out: tuple[str, ...] = ()
    """Estimators that nobody would wait for."""
    group_sizes: tuple[int, ...] = (5,)
    """Those of decoys."""
    is_grouped: bool = False
    """Whether values are grouped by their first letter."""

    def contestants(self) -> Iterator[tuple[str, Contestant]]:
        """Every mechanism, with the requests that it is made for, in words and as such."""
        bound, words = BreachBound(self.prior, self.posterior), f"{self.prior} to {self.posterior}"
        yield words, Contestant("uniform", "uniform", bound)
        yield words, Contestant("subset", "subset", bound)
        if self.is_grouped:
            yield words, Contestant("levels", "levels", bound)
        merging = {"small-domain": small_domain.Options(small_domain.Merge.PAPER)}
        yield words, Contestant("small-domain, paper's merging", "small-domain", bound, merging, "closed")
        yield words, Contestant("small-domain", "small-domain", bound)
        counts = {"fine-grain": fine_grain.Options(objective=fine_grain.Objective.AGGREGATE)}
        yield "tolerance 10", Contestant("fine-grain", "fine-grain", Tolerance(10))
        yield "tolerance 10", Contestant("fine-grain for counts", "fine-grain", Tolerance(10), counts)
        yield "tolerance 10", Contestant("harmonic", "harmonic", Tolerance(10))
        yield "tolerance 10", Contestant("subset by a tolerance", "subset", Tolerance(10))
        yield f"diversity {self.size}", Contestant("anatomy", "anatomy", Diversity(self.size))
        for factor in self.factors:
            caps = LinearCap(factor, "1/50")
            yield f"caps {factor}f + 1/50", Contestant("buckets", "buckets", caps)
            least_loss = {"buckets": buckets.Options(buckets.Sizes.OPTIMAL)}
            yield f"caps {factor}f + 1/50", Contestant("buckets of least loss", "buckets", caps, least_loss)
        for size in self.group_sizes:
            yield f"groups of {size}", Contestant("decoys", "decoys", DecoyGroups(size))


SUBJECTS = {
    "census_occ": Subject("Occupation", "1/11", "1/4", 5, (2, 8, 32), group_sizes=(3, 5, 10)),
    "census_all": Subject("Education", "1/4", "1/2", 4, group_sizes=(3, 4)),
    "vaers_adr40": Subject("Reaction", "1/7", "1/4", 5, group_sizes=(3, 5)),
    "vaers_adr_all": Subject(
        "Reaction",
        "1/12",
        "1/4",
        5,
        slow=(*ONCE, "inverse", "fitted", "shrunk"),
        left_out=SLOW,
        is_grouped=True,
    ),
}


@dataclass(frozen=True)
class Asked:
    """A pool, and the bands of it that are told apart."""

    pool: Pool
    bands: Sequence[Band]


def asked(table: CodedTable, names: Sequence[str], number: int) -> dict[str, Asked]:
    """The pools that are wanted, each in an order in which the first queries are a fair sample."""
    rows, found = table.rows, {}
    if "small" in names:
        found["small"] = Asked(draw_band_pool(table, SEED, make_small_band(), size=number), [make_small_band()])
    if "crossed" in names:
        bands = make_lower_bands(rows, "0.1%", "0.5%", "1%")
        pool = draw_crossed_pool(table, SEED)
        passed = np.random.default_rng(SEED).permutation(np.flatnonzero(bands[0].holds(pool.truths)))
        found["crossed"] = Asked(pool.take(passed[: 2 * number]), bands)
    if "large" in names:
        (whole,) = make_bands_between(rows, "0.5%", "5%")
        found["large"] = Asked(
            draw_band_pool(table, SEED, whole, size=number), make_bands_between(rows, "0.5%", "1%", "5%")
        )
    if "spread" in names:
        found["spread"] = Asked(draw_spread_pool(table, SEED, size=number), [Band("spread", 1)])
    return found


def asked_of_groups(table: pa.Table, column: str, number: int) -> Asked:
    """Counts of groups of values, drawn as counts of values are."""
    letters = pc.utf8_slice_codeunits(table.column(column).cast(pa.string()), 0, 1)
    coarse = CodedTable.of(table.set_column(table.column_names.index(column), column, letters), column)
    pool, (band,) = draw_crossed_pool(coarse, SEED), make_lower_bands(table.num_rows, "0.5%")
    chosen = np.random.default_rng(SEED).permutation(np.flatnonzero(band.holds(pool.truths)))[: 2 * number]
    queries = [
        CountQuery({**query.where, f"{column}.{LETTER}": next(iter(query.values or ()))})
        for query in pool.take(chosen).queries
    ]
    return Asked(Pool(tuple(queries), pool.truths[chosen]), [band])


def hierarchy_of(table: pa.Table, column: str) -> Hierarchy:
    """Values by their first letter."""
    values = sorted(pc.unique(table.column(column).cast(pa.string())).to_pylist())
    return Hierarchy.of(("value", LETTER), [(value, value[:1]) for value in values])


def released(table: pa.Table, subject: Subject, contestant: Contestant, number: int, folder: Path) -> Release:
    """One of the releases."""
    column = subject.column
    grouping = {column: hierarchy_of(table, column)} if subject.is_grouped else {}
    request = make_request(table, Schema.of(column, hierarchies=grouping, public="*"), contestant)
    key = f"{SEED + number:064x}"
    return publish(request, folder / str(number), unsafe_test_key=key, on_notice=lambda notice: None).release


def cell(pool: Pool, answers: Sequence[Estimates], band: Band) -> str:
    """Mean, median and coverage, as they are printed."""
    found = compute_accuracy(pool, answers, band)
    if math.isnan(found.mean):
        return "-"
    covered = "" if math.isnan(found.coverage) else f", {found.coverage:.1%}"
    return f"{found.mean:.3g} ({found.median:.2g}){covered}"


def measured(
    methods: Mapping[str, bool], releases: Sequence[Release], pools: Mapping[str, Asked], slow: int
) -> Iterator[tuple[str, list[str]]]:
    """The cells of each estimator; of each is said whether it is slow."""
    for method, is_slow in methods.items():
        asked = [
            each.pool.take(np.arange(min(slow, len(each.pool)))) if is_slow else each.pool for each in pools.values()
        ]
        queries = [query for pool in asked for query in pool.queries]  # in one reading of a release
        ends = np.cumsum([len(pool) for pool in asked])
        answers = [
            release.count_many(queries, method=method)
            for release in releases[: 1 if is_slow or method in ONCE else None]
        ]
        cells = []
        for each, pool, end in zip(pools.values(), asked, ends, strict=True):
            mine = [replace(answer, moments=answer.moments.take(np.arange(end - len(pool), end))) for answer in answers]
            cells += [cell(pool, mine, band) for band in each.bands]
        yield method, cells


def compare(name: str, arguments: argparse.Namespace) -> list[str]:
    """The lines of one table; how far it is goes to standard error."""
    subject, lines = SUBJECTS[name], list[str]()
    table = pq.read_table(arguments.data / f"{name}.parquet")
    if arguments.quick:
        table = table.take(np.sort(np.random.default_rng(SEED).permutation(table.num_rows)[:QUICK_RECORDS]))
    pools = asked(CodedTable.of(table, subject.column), arguments.pool, arguments.queries)
    if subject.is_grouped and GROUPS in arguments.pool:
        pools[GROUPS] = asked_of_groups(table, subject.column, arguments.queries)
    for words, contestant in subject.contestants():
        if arguments.mechanisms and contestant.mechanism not in arguments.mechanisms:
            continue
        with tempfile.TemporaryDirectory() as folder:
            try:
                releases = [
                    released(table, subject, contestant, number, Path(folder)) for number in range(arguments.repeats)
                ]
            except InfeasibleError:
                lines.append(f"| {name} | {words} | {contestant.name} | nothing meets the request |")
                continue
            methods = {
                method: method in subject.slow
                for method in ([contestant.method] if contestant.method else releases[0].manifest.methods)
                if method not in subject.left_out and (arguments.slow or method not in subject.slow)
            }
            for method, cells in measured(methods, releases, pools, arguments.slow):
                paper = PAPERS.get((contestant.name, method))
                estimator = f"**{method}**" if method == releases[0].methods[0] else method
                estimator += "\\*" if methods[method] else "†" * (method in ONCE)
                estimator += f": {paper}" if paper else ""
                none = ["-"] * (GROUPS in arguments.pool and not subject.is_grouped)
                said = [name, words, contestant.name, estimator, *cells, *none]
                lines.append(f"| {' | '.join(said)} |")
            print(f"{name}: {contestant.name} ({words})", file=sys.stderr, flush=True)
    return lines


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--tables", nargs="+", choices=list(SUBJECTS), default=list(SUBJECTS))
    parser.add_argument("--mechanisms", nargs="+", choices=list(REGISTRY), help="only these; all if none is named")
    kinds = ["small", "crossed", "large", "spread", GROUPS]
    parser.add_argument("--pool", nargs="+", choices=kinds, default=kinds)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--queries", type=int, default=100)
    parser.add_argument("--slow", type=int, default=10)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--processes", type=int, default=2, help="how many tables are measured beside each other")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.repeats, arguments.queries, arguments.slow = 1, 40, 0
    bands = {
        "small": ["1 to 10"],
        "crossed": ["from 0.1%", "from 0.5%", "from 1%"],
        "large": ["0.5% to 1%", "1% to 5%"],
        "spread": ["spread"],
        GROUPS: ["groups, from 0.5%"],
    }
    heads = [
        "table",
        "request",
        "mechanism",
        "estimator",
        *(band for kind in kinds if kind in arguments.pool for band in bands[kind]),
    ]
    print(f"| {' | '.join(heads)} |\n|{'---|' * len(heads)}", flush=True)
    start = time.perf_counter()
    # The last tables take longest, and begin first. A process that is a copy of this one would share pyarrow's threads.
    with ProcessPoolExecutor(arguments.processes, mp_context=get_context("spawn")) as pool:
        running = {name: pool.submit(compare, name, arguments) for name in reversed(arguments.tables)}
        for name in arguments.tables:
            print("\n".join(running[name].result()), flush=True)
    print(f"\n{arguments.repeats} release(s) each, {time.perf_counter() - start:.0f} s.")


if __name__ == "__main__":
    main()
