"""Publishing on Spark against one machine: 10 million rows, in turn, in one run; starting Spark is timed apart.

    .venv-sail/bin/python bench/spark.py [--rows 10000000] [--repeats 2] [--mechanisms uniform buckets]
    .venv-spark/bin/python bench/spark.py --workers 2

With Sail, whose server runs in this process, or with Spark itself and so many workers, whichever is installed. Printed
are the best times of the whole act, and their ratio. The bytes are compared as well.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from publish import make_table, request_for

from sfumato import LocalEngine, SparkEngine, publish
from sfumato._core.digests import compute_file_digest
from sfumato._engines.engine import Engine

KEY = "07" * 32


def session(workers: int) -> tuple[str, Any, Callable[[], None]]:
    """The name of what is installed, a session of it, and how to end it."""
    if find_spec("pysail") is not None:
        from pysail.spark import SparkConnectServer  # noqa: PLC0415 - not in every environment
        from pyspark.sql import SparkSession  # noqa: PLC0415

        server = SparkConnectServer("127.0.0.1", 0)
        server.start(background=True)
        found = SparkSession.builder.remote(f"sc://127.0.0.1:{server.listening_address[1]}").getOrCreate()
        return "Sail", found, lambda: (found.stop(), server.stop(), None)[-1]
    from sfumato._readers.spark_frames import get_session as started  # noqa: PLC0415 - only where it is used

    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    found = started(f"local[{workers}]")
    return f"Spark {found.version}", found, found.stop


def timed(work: Callable[[], Any]) -> float:
    """How long it takes, in seconds."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def released(source: Path, mechanism: str, target: Path, engine: Engine) -> str:
    """Publish, and the digest of the records."""
    publish(request_for(source, mechanism), target, unsafe_test_key=KEY, engine=engine)
    files = sorted(path for path in target.rglob("*.parquet"))
    return " ".join(map(compute_file_digest, files))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--mechanisms", nargs="+", default=["uniform", "buckets"])
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as name:
        source = Path(name) / "source.parquet"
        make_table(source, arguments.rows)
        start = time.perf_counter()
        what, spark, stop = session(arguments.workers)
        started = time.perf_counter() - start
        first = timed(lambda: list(SparkEngine(spark).map_items(str, range(2 * arguments.workers))))
        print(f"{arguments.rows:,} rows; {what}: session {started:.1f} s, first job {first:.1f} s", flush=True)
        for mechanism in arguments.mechanisms:
            times: dict[str, list[float]] = {"here": [], "there": []}
            for _ in range(arguments.repeats):
                digests = set()
                for where, engine in {"here": LocalEngine(), "there": SparkEngine(spark)}.items():
                    target = Path(name) / where
                    began = time.perf_counter()
                    digests.add(released(source, mechanism, target, engine))
                    times[where].append(time.perf_counter() - began)
                    shutil.rmtree(target)
                if len(digests) > 1:
                    sys.exit(f"{mechanism}: the releases differ")
            here, there = min(times["here"]), min(times["there"])
            print(f"{mechanism}: one machine {here:.2f} s, {what} {there:.2f} s, ratio {there / here:.2f}", flush=True)
        stop()


if __name__ == "__main__":
    main()
