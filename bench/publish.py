"""Publishing against a plain copy: 10 million rows Parquet to Parquet, measured in one interleaved run.

    python bench/publish.py [--rows 10000000] [--repeats 3] [--folder DIR] [--mechanisms uniform subset buckets ...]

The reference reads the same file row group by row group with pyarrow and writes it unchanged. Printed are the ratios of
the best times, rows per second, and the peak memory, each run in a process of its own. "in order" is publishing without
the shuffle, which no release does.
"""

from __future__ import annotations

import argparse
import multiprocessing
import multiprocessing.connection
import resource
import shutil
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sfumato import BreachBound, DecoyGroups, Diversity, LinearCap, LocalEngine, Request, Schema, choose, publish
from sfumato.apply.engine import TablePiece
from sfumato.apply.offsets import Offset
from sfumato.apply.rewrite import Rewrite, decode, published_schema
from sfumato.apply.survey import survey
from sfumato.apply.writing import open_parquet
from sfumato.draws import Draws
from sfumato.mechanisms import subset
from sfumato.outlook import open_table

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
    return Request(source, Schema.of("sensitive"), spec, mechanism, options=options, accept_marginal_prior=True)


def run(mechanism: str, source: Path, target: Path) -> None:
    """Publish the table, with everything that belongs to it."""
    publish(request_for(source, mechanism), target)


def run_in_order(source: Path, target: Path) -> None:
    """The two passes without the shuffle: what the rows cost if they could stay in order. No product does this."""
    request, engine = request_for(source), LocalEngine(batch_rows=ROW_GROUP)
    table = open_table(request, target.parent)
    draws = Draws.secret()
    found = survey(request.schema, source=table, engine=engine, folder=target.parent, draws=draws)
    chosen = choose(found.histogram, request.spec, draws, request.mechanism)
    counts = found.histogram.counts
    rewrite = Rewrite(found.columns, found.sensitive, chosen.mechanism, chosen.plan, counts, draws)

    pieces, offsets = engine.pieces(table, found.preparation.columns), rewrite.offsets(found.pieces)
    columns, plain = rewrite.published, [column.name for column in rewrite.published if column.is_plain]

    def rewritten(item: tuple[TablePiece, Offset]) -> pa.Table:
        batches = (found.preparation(batch) for batch, _ in item[0].batches(found.preparation.columns))
        return pa.concat_tables([decode(columns, rows) for rows in rewrite.piece(batches, item[1])])

    with open_parquet(target, published_schema(columns), plain) as writer:
        for group in engine.each(rewritten, zip(pieces, offsets, strict=True)):
            writer.write_table(group, row_group_size=ROW_GROUP)


def timed(work: Callable[[Path, Path], None], source: Path, target: Path) -> tuple[float, int]:
    """Run in a fresh process; returns seconds and the peak memory in bytes."""
    receiver, sender = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.get_context("spawn").Process(target=_timed, args=(sender, work, source, target))
    process.start()
    sender.close()  # so that a process that fails ends the waiting
    measured: tuple[float, int] = receiver.recv()
    process.join()
    shutil.rmtree(target) if target.is_dir() else target.unlink()
    return measured


def _timed(
    sender: multiprocessing.connection.Connection, work: Callable[[Path, Path], None], source: Path, target: Path
) -> None:
    start = time.perf_counter()
    work(source, target)
    sender.send((time.perf_counter() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--mechanisms", nargs="+", default=["uniform"])
    parser.add_argument("--folder", type=Path, help="where to make the tables (default: a temporary directory)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as name:
        folder = Path(name)
        source = folder / "source.parquet"
        make_table(source, arguments.rows)
        print(f"{arguments.rows:,} rows, {source.stat().st_size / 1e6:.0f} MB")
        times: dict[str, list[tuple[float, int]]] = {"copy": [], "in order": []}
        for _ in range(arguments.repeats):
            times["copy"].append(timed(copy, source, folder / "copy.parquet"))
            times["in order"].append(timed(run_in_order, source, folder / "in_order.parquet"))
            for mechanism in arguments.mechanisms:
                measured = timed(partial(run, mechanism), source, folder / "release")
                times.setdefault(mechanism, []).append(measured)
    reference = min(seconds for seconds, _ in times["copy"])
    for label, measured in times.items():
        best = min(seconds for seconds, _ in measured)
        peak = max(memory for _, memory in measured)
        speed = arguments.rows / best / 1e6
        ratio = best / reference
        print(f"{label:>12}: {best:6.2f} s, {speed:5.2f} M rows/s, ratio {ratio:.2f}, peak {peak / 2**20:.0f} MiB")


if __name__ == "__main__":
    main()
