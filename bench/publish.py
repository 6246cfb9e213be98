"""Publishing against a plain copy: 10 million rows Parquet to Parquet, measured in one interleaved run.

    python bench/publish.py [--rows 10000000] [--repeats 3] [--folder DIR] [--mechanisms uniform subset buckets ...]

The reference reads the same file row group by row group with pyarrow and writes it unchanged. Printed are the ratios of
the best times, by the clock and of the processor, rows per second, and the peak memory, each run in a process of its
own. The look at public columns (what they tell, and who is alone with them) belongs to every publication and is in all
of that; it is timed inside the same run, and the act without it is told too: of the clock, what the main thread spends
on it is left out, and of the processor all of it. None of them loads pandas, like the command, unless `--with-pandas`
lets pyarrow do so, as it does in a library call. "in order" is publishing without the shuffle, which no release does.
"""

from __future__ import annotations

import argparse
import inspect
import multiprocessing
import multiprocessing.connection
import resource
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial, wraps
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sfumato import (
    BreachBound,
    DecoyGroups,
    Diversity,
    LinearCap,
    LocalEngine,
    Request,
    Schema,
    choose,
    publish,
)
from sfumato._core.random_draws import Draws
from sfumato._engines.engine import TablePiece
from sfumato._parquet.parquet_writer import EncodedRows, Encoder, FileWriter
from sfumato._perturb.perturbation import Rewrite
from sfumato._perturb.record_writer import encode_row_group
from sfumato._profile import combined_column_counts as joint_counts
from sfumato._profile import equivalence_classes, record_sample
from sfumato._profile import table_scan as surveying
from sfumato._profile.piece_offsets import PieceOffset
from sfumato._profile.table_scan import scan_table
from sfumato._publish import publication_plan
from sfumato._publish.publication_plan import open_table
from sfumato._risk.attackers import known_column_beliefs as attacker_knowledge
from sfumato._risk.attackers import planned_exposure, predictive_columns
from sfumato.cli.entry_point import PandasBlocker
from sfumato.mechanisms._subset_selection import subset_mechanism as subset

DOMAIN_SIZES = (77, 2, 14, 6, 9, 10, 83, 50)
ROW_GROUP = 1 << 20


def make_table(path: Path, rows: int) -> None:
    """Eight categorical columns with skewed values, in row groups of about a million rows."""
    chance = np.random.default_rng(1)
    dictionaries = [
        pa.array([f"value {value:03d} of column {column}" for value in range(size)])
        for column, size in enumerate(DOMAIN_SIZES)
    ]
    names = [f"column_{column}" for column in range(len(DOMAIN_SIZES) - 1)] + ["sensitive"]
    schema = pa.schema([(name, pa.dictionary(pa.int8(), pa.string())) for name in names])
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for first in range(0, rows, ROW_GROUP):
            size = min(ROW_GROUP, rows - first)
            columns = []
            for dictionary in dictionaries:
                shares = 1 / np.arange(1, len(dictionary) + 1) ** 0.5
                codes = np.searchsorted(np.cumsum(shares / shares.sum())[:-1], chance.random(size)).astype(np.int8)
                columns.append(pa.DictionaryArray.from_arrays(codes, dictionary))
            writer.write_table(pa.Table.from_arrays(columns, schema=schema), row_group_size=ROW_GROUP)


def copy(source: Path, target: Path) -> None:
    """The reference: read and write every row group unchanged."""
    with pq.ParquetFile(source) as file, pq.ParquetWriter(target, file.schema_arrow, compression="zstd") as writer:
        for group in range(file.num_row_groups):
            writer.write_table(file.read_row_group(group))


def request_for(source: Path, mechanism: str = "uniform") -> Request:
    """The request that is measured; `subset/columns` is the mechanism `subset` with its sets in another form."""
    mechanism, _, form = mechanism.partition("/")
    options = {mechanism: subset.Options(subset.Form(form))} if form else {}
    specs = {"buckets": LinearCap("8", "1/50"), "anatomy": Diversity(5), "decoys": DecoyGroups(5)}
    spec = specs.get(mechanism, BreachBound("1/13", "1/6"))
    return Request(
        source,
        schema=Schema.of("sensitive", public="*"),
        spec=spec,
        mechanism=mechanism,
        options=options,
        accept_marginal_prior="a benchmark",
        accept_unique="a benchmark",
        accept_uncovered="a benchmark",
    )


def run(mechanism: str, source: Path, target: Path) -> None:
    """Publish the table, with everything that belongs to it."""
    publish(request_for(source, mechanism), target, on_notice=lambda notice: None)


def run_in_order(source: Path, target: Path) -> None:
    """The two passes without the shuffle: what the rows cost if they could stay in order. No product does this."""
    request, engine = request_for(source), LocalEngine(batch_rows=ROW_GROUP)
    table = open_table(request, target.parent, engine)
    draws = Draws.from_fresh_key()
    found = scan_table(request.schema, source=table, engine=engine, folder=target.parent, draws=draws)
    chosen = choose(found.histogram, request.spec, draws, request.mechanism)
    counts = found.histogram.counts
    rewrite = Rewrite(found.columns, found.sensitive, chosen.mechanism, chosen.plan, counts, draws)

    pieces, offsets = engine.split_source(table, found.preparation.columns), rewrite.list_offsets(found.pieces)
    encoder = Encoder(rewrite.published_columns)

    def rewritten(item: tuple[TablePiece, PieceOffset]) -> list[EncodedRows]:
        batches = (found.preparation(batch) for batch, _ in item[0].read_batches(found.preparation.columns))
        return [
            encode_row_group(encoder, rewrite.published_columns, rows)
            for rows in rewrite.rewrite_piece(batches, item[1])
        ]

    with target.open("wb") as sink:
        writer = FileWriter(sink, encoder.schema)
        for groups in engine.map_items(rewritten, zip(pieces, offsets, strict=True)):
            for group in groups:
                writer.add(group)
        writer.finish()


@dataclass(frozen=True)
class Measured:
    """What a run took."""

    seconds: float
    processor: float
    looking: float
    """Seconds of the processor for the look at public columns, by all threads."""
    waiting: float
    """Seconds by the clock in which the main thread did nothing but look at public columns."""
    memory: int

    @property
    def without(self) -> float:
        """Seconds by the clock without that."""
        return self.seconds - self.waiting


def timed(work: Callable[[Path, Path], None], source: Path, target: Path, *, with_pandas: bool) -> Measured:
    """Run in a fresh process."""
    receiver, sender = multiprocessing.Pipe(duplex=False)
    given = (sender, work, source, target, with_pandas)
    process = multiprocessing.get_context("spawn").Process(target=_timed, args=given)
    process.start()
    sender.close()  # so that a process that fails ends the waiting
    measured: Measured = receiver.recv()
    process.join()
    shutil.rmtree(target) if target.is_dir() else target.unlink()
    return measured


def _timed(
    sender: multiprocessing.connection.Connection,
    work: Callable[[Path, Path], None],
    source: Path,
    target: Path,
    with_pandas: bool,
) -> None:
    if not with_pandas:
        sys.meta_path.insert(0, PandasBlocker())
    watch = _Watch()
    start, before = time.perf_counter(), time.process_time()
    work(source, target)
    seconds, processor = time.perf_counter() - start, time.process_time() - before
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    sender.send(Measured(seconds, processor, sum(watch.processor), sum(watch.clock), memory))


class _Watch:
    """Lets the functions that look at public columns add up what they take."""

    def __init__(self) -> None:
        self.processor: list[float] = []
        self.clock: list[float] = []
        """By the main thread alone: other work goes on beside the others."""
        self._inside = threading.local()
        self.wrap(joint_counts._ColumnGroup, "add_hashes")
        self.wrap(equivalence_classes, "hash_values")
        for name in ("_sort", "compute_shares"):  # adding is little but sorting
            self.wrap(equivalence_classes.ClassSizeSketch, name)
        self.wrap(equivalence_classes, "count_unique")
        for name in ("add", "merge", "to_table"):
            self.wrap(record_sample.Sampler, name)
        self.wrap(surveying, "compute_unique_without")
        for name in ("make_targets", "measure_predictions", "list_column_notices", "run_planned_attacks"):
            self.wrap(publication_plan, name)
        for name in ("measure_best_guess", "count_disclosed_records"):
            self.wrap(predictive_columns, name)
        self.wrap(planned_exposure, "attack")
        self.wrap(attacker_knowledge.ColumnEvidence, "of")

    def wrap(self, owner: Any, name: str) -> None:
        """Time a function, unless another one that is timed has called it in the same thread."""
        function = inspect.getattr_static(owner, name)
        is_of_class = isinstance(function, classmethod)
        called = function.__func__ if is_of_class else function

        @wraps(called)
        def watched(*given: Any, **named: Any) -> Any:
            if getattr(self._inside, "is_timed", False):
                return called(*given, **named)
            self._inside.is_timed = True
            before, start = time.thread_time(), time.perf_counter()
            try:
                return called(*given, **named)
            finally:
                self._inside.is_timed = False
                self.processor.append(time.thread_time() - before)
                if threading.current_thread() is threading.main_thread():
                    self.clock.append(time.perf_counter() - start)

        setattr(owner, name, classmethod(watched) if is_of_class else watched)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--mechanisms", nargs="+", default=["uniform"])
    parser.add_argument("--with-pandas", action="store_true", help="let pyarrow load pandas")
    parser.add_argument("--folder", type=Path, help="where to make the tables (default: a temporary directory)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as name:
        folder = Path(name)
        source = folder / "source.parquet"
        make_table(source, arguments.rows)
        print(f"{arguments.rows:,} rows, {source.stat().st_size / 1e6:.0f} MB")
        runs: dict[str, Callable[[Path, Path], None]] = {"copy": copy, "in order": run_in_order}
        runs |= {mechanism: partial(run, mechanism) for mechanism in arguments.mechanisms}
        times: dict[str, list[Measured]] = {label: [] for label in runs}
        for _ in range(arguments.repeats):
            for label, work in runs.items():
                times[label].append(timed(work, source, folder / "target", with_pandas=arguments.with_pandas))
    reference = _best(times["copy"])
    for label, measured in times.items():
        best = _best(measured)
        print(
            f"{label:>12}: {best.seconds:6.2f} s, {arguments.rows / best.seconds / 1e6:5.2f} M rows/s, "
            f"ratio {best.seconds / reference.seconds:.2f}; processor {best.processor:.2f} s, "
            f"ratio {best.processor / reference.processor:.2f}; peak {best.memory / 2**20:.0f} MiB"
        )
        if best.looking:
            without = min(each.without for each in measured)
            processor = min(each.processor - each.looking for each in measured)
            print(
                f"{'':>12}  without the look at columns {without:.2f} s, ratio {without / reference.seconds:.2f}; "
                f"processor {processor:.2f} s, ratio {processor / reference.processor:.2f}"
            )


def _best(measured: Sequence[Measured]) -> Measured:
    """The least time of several runs, and the most memory."""
    return Measured(
        min(each.seconds for each in measured),
        min(each.processor for each in measured),
        min(each.looking for each in measured),
        min(each.waiting for each in measured),
        max(each.memory for each in measured),
    )


if __name__ == "__main__":
    main()
