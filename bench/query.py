"""Counting: thousands of queries at once, and one query alone, against the engines people use; ratios within one run.

    python bench/query.py [--rows 500000] [--queries 5000] [--large 10000000] [--repeats 3] [--folder DIR]
                          [--grouped 100000] [--values 700] [--mechanisms uniform subset subset/columns buckets ...]

Three parts. First, random counts (one to three equalities on public columns, and one sensitive value) in a release of
`--rows` records: `count_many` from the closed files to all intervals, against one statement a query, which gives the
two counts that an estimate needs, in DuckDB on the release's Parquet file and on integer codes in memory, and in SQLite
on the same texts and on integer codes. These are timed on some of the queries and scaled; their counts are compared
with those of `count_many`. Second, one query on `--large` records: `release.count` against the plain DuckDB count of
the same condition on the same file; where records show no values, of the condition on the public columns. The first
question to an open release is shown apart: it reads what all others share. Third, the ten most frequent of `--values`
values among `--grouped` records, by their counts, by a share and by a mean, against DuckDB's GROUP BY on the original.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sfumato import Release, publish
from sfumato._query.counting.count_request import CountQuery
from sfumato._query.counting.many_counts import count_many
from sfumato._records.value_records import ValueEncoding

sys.path.insert(0, str(Path(__file__).parent))
tables = importlib.import_module("publish")

SAMPLE = {"DuckDB, the release's Parquet": 60, "DuckDB, codes in memory": 200, "SQLite, texts": 8, "SQLite, codes": 12}
"""How many of the queries each engine is timed on."""


def label(column: int, value: int) -> str:
    """A value of the table that `bench/publish.py` makes."""
    return f"value {value:03d} of column {column}"


def random_queries(number: int) -> list[CountQuery]:
    """One to three columns, a value of each, and a sensitive value, all drawn evenly."""
    chance = np.random.default_rng(7)
    sizes = tables.DOMAIN_SIZES
    public = len(sizes) - 1
    queries = []
    for _ in range(number):
        columns = np.sort(chance.choice(public, chance.integers(1, 4), replace=False)).tolist()
        where = {f"column_{column}": label(column, int(chance.integers(sizes[column]))) for column in columns}
        queries.append(CountQuery(where, [label(public, int(chance.integers(sizes[public])))]))
    return queries


def best(work: Callable[[], Any], repeats: int) -> tuple[float, Any]:
    """The shortest time of some repeats, and what came out."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        found = work()
        times.append(time.perf_counter() - start)
    return min(times), found


# --------------------------------------------------------------------------------------------------------- many queries


def code(text: Any) -> int:
    """The number of a value: its place in its column."""
    return int(str(text).split()[1])


def statement(query: CountQuery, is_coded: bool) -> str:
    """One query as SQL: the records that satisfy the conditions, and those among them that show the value."""
    write = (lambda text: str(code(text))) if is_coded else (lambda text: f"'{text}'")
    (value,) = query.values or ()
    where = " AND ".join(f"{name} = {write(text)}" for name, text in query.where.items())
    return f"SELECT COUNT(*), COALESCE(SUM(sensitive = {write(value)}), 0) FROM t WHERE {where}"


def duckdb_statement(query: CountQuery, is_coded: bool) -> str:
    """The same for DuckDB, which does not add truth values up."""
    return statement(query, is_coded).replace("SUM(sensitive = ", "SUM(1) FILTER (WHERE sensitive = ")


@contextmanager
def duckdb_parquet(data: Path) -> Iterator[Callable[[CountQuery], Any]]:
    """DuckDB on the file of the release, opened once."""
    with duckdb.connect() as connection:
        connection.execute(f"CREATE VIEW t AS SELECT * FROM '{data}'")
        yield lambda query: connection.execute(duckdb_statement(query, False)).fetchone()


@contextmanager
def duckdb_codes(data: Path) -> Iterator[Callable[[CountQuery], Any]]:
    """DuckDB on integers in memory."""
    names = pq.read_schema(data).names
    coded = ", ".join(f"CAST(split_part({name}, ' ', 2) AS UTINYINT) AS {name}" for name in names)
    with duckdb.connect() as connection:
        connection.execute(f"CREATE TABLE t AS SELECT {coded} FROM '{data}'")
        yield lambda query: connection.execute(duckdb_statement(query, True)).fetchone()


@contextmanager
def sqlite(data: Path, is_coded: bool) -> Iterator[Callable[[CountQuery], Any]]:
    """SQLite in memory, without indexes, on the texts of the release or on their numbers."""
    table = pq.read_table(data)
    columns = [column.to_pylist() for column in table.columns]
    if is_coded:
        columns = [[code(text) for text in column] for column in columns]
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute(f"CREATE TABLE t ({', '.join(table.column_names)})")
        marks = ", ".join("?" * len(columns))
        connection.executemany(f"INSERT INTO t VALUES ({marks})", zip(*columns, strict=True))
        del columns
        yield lambda query: connection.execute(statement(query, is_coded)).fetchone()


def all_of(ask: Callable[[CountQuery], Any], queries: Sequence[CountQuery]) -> list[Any]:
    """Ask one query after the other."""
    return [ask(query) for query in queries]


def compare_many(release: Release, queries: Sequence[CountQuery], repeats: int) -> None:
    """Time all engines on the same release."""
    data = release.folder / release.manifest.data_file
    seconds, found = best(lambda: count_many(release.manifest, release.folder, queries), repeats)
    intervals, _ = best(lambda: (found.standard_error, found.interval()), 1)  # what is found once is kept
    each = f"{seconds / len(queries) * 1e6:8.1f} µs a query"
    print(f"  {'count_many':>30}: {seconds:8.3f} s for {len(queries):,}, {each}; intervals {intervals:.3f} s")
    seconds += intervals
    if release.manifest.mechanism_name != "uniform":
        return
    engines = {
        "DuckDB, the release's Parquet": duckdb_parquet(data),
        "DuckDB, codes in memory": duckdb_codes(data),
        "SQLite, texts": sqlite(data, False),
        "SQLite, codes": sqlite(data, True),
    }
    retention = float(release.manifest.design.retention)
    for name, engine in engines.items():
        some = range(0, len(queries), max(len(queries) // SAMPLE[name], 1))
        with engine as ask:
            ask(queries[0])
            each, answers = best(partial(all_of, ask, [queries[number] for number in some]), repeats)
        for number, (rows, hits) in zip(some, answers, strict=True):
            swap = (1 - retention) / len(release.manifest.domain)
            expected = (hits - rows * swap) / retention
            assert abs(found.value[number] - expected) < 1e-6 * (1 + rows), (queries[number], rows, hits)
        whole = each / len(some) * len(queries)
        single = whole / len(queries) * 1e6
        print(f"  {name:>30}: {whole:8.1f} s scaled, {single:8.0f} µs a query, ratio {whole / seconds:,.0f}")


# ------------------------------------------------------------------------------------------------------------ one query


def compare_one(release: Release, repeats: int) -> None:
    """One interactive count against the plain count of the same condition, in turn; also in processor time."""
    value = label(len(tables.DOMAIN_SIZES) - 1, 3)
    conditions = [f"column_2 = '{label(2, 3)}'", f"column_0 = '{label(0, 5)}' AND column_4 = '{label(4, 1)}'"]
    data = ", ".join(f"'{path}'" for path in release.manifest.list_data_paths(release.folder))
    shows_values = isinstance(release.manifest.encoding, ValueEncoding)
    start = time.perf_counter()
    release.count(value, where=conditions[0]).interval()
    print(f"  the first question: {(time.perf_counter() - start) * 1e3:7.1f} ms")
    for where in conditions:
        plain, ours = [], []
        predicate = where + (f" AND sensitive = '{value}'" if shows_values else "")
        for _ in range(repeats):
            start = now()
            with duckdb.connect() as connection:
                connection.execute(f"SELECT COUNT(*) FROM read_parquet([{data}]) WHERE {predicate}").fetchone()
            middle = now()
            release.count(value, where=where).interval()
            plain.append(middle - start)
            ours.append(now() - middle)
        best_ours, best_plain = np.min(ours, axis=0), np.min(plain, axis=0)
        wall, processor = best_ours / best_plain
        print(f"  {where.count('=')} public columns: {_milliseconds(best_ours[0], best_plain[0])}, ratio {wall:5.2f};")
        print(f"    of all processors {_milliseconds(best_ours[1], best_plain[1])}, ratio {processor:5.2f}")


def _milliseconds(ours: float, plain: float) -> str:
    return f"{ours * 1e3:7.1f} ms, plain count {plain * 1e3:7.1f} ms"


def now() -> Any:
    """Seconds on the clock, and of all processors."""
    return np.array([time.perf_counter(), time.process_time()])


# ---------------------------------------------------------------------------------------------------------- many groups

TOP_TEN = {
    "counts": "COUNT(*)",
    "shares": "COUNT(*) FILTER (WHERE column_1 = 0) / COUNT(*)",
    "means": "AVG(column_0)",
}


def make_values(path: Path, rows: int, values: int) -> None:
    """Two public columns of numbers, and a sensitive one of many values, each half as frequent at twice the place."""
    chance = np.random.default_rng(7)
    weights = 1 / np.arange(1, values + 1)
    sensitive = chance.choice(values, rows, p=weights / weights.sum())
    columns = {
        "column_0": chance.integers(0, 80, rows) + sensitive % 7,
        "column_1": (chance.random(rows) < 0.4 + 0.2 * (sensitive % 2)).astype(np.int64),
        "sensitive": np.array([f"value {value:04d}" for value in range(values)])[sensitive],
    }
    pq.write_table(pa.table(columns), path)


def compare_groups(release: Release, source: Path, repeats: int) -> None:
    """The ten most frequent values, on the release and on the original in turn; what all questions share is read."""
    release.count("value 0000", where="column_1 = 0")
    for name, expression in TOP_TEN.items():
        select = f"SELECT sensitive, {expression} AS n FROM {{}} WHERE column_0 < 60 GROUP BY sensitive "
        ordered = select + "ORDER BY n DESC LIMIT 10"
        plain, ours = [], []
        for _ in range(repeats):
            start = time.perf_counter()
            duckdb.connect().execute(ordered.format(f"'{source}'")).fetchall()
            middle = time.perf_counter()
            release.sql(ordered.format("release"))
            plain.append(middle - start)
            ours.append(time.perf_counter() - middle)
        print(
            f"  {name:>7}: {min(ours) * 1e3:7.1f} ms, on the original {min(plain) * 1e3:7.1f} ms, "
            f"ratio {min(ours) / min(plain):5.1f}"
        )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=500_000)
    parser.add_argument("--queries", type=int, default=5_000)
    parser.add_argument("--large", type=int, default=10_000_000, help="records for the single query; 0 leaves it out")
    parser.add_argument("--grouped", type=int, default=100_000, help="records for the top ten; 0 leaves it out")
    parser.add_argument("--values", type=int, default=700)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument(
        "--mechanisms", nargs="+", default=["uniform", "small-domain", "subset", "subset/columns", "buckets"]
    )
    parser.add_argument("--folder", type=Path, help="where to make the tables (default: a temporary directory)")
    arguments = parser.parse_args()
    queries = random_queries(arguments.queries)
    with tempfile.TemporaryDirectory(dir=arguments.folder) as name:
        for rows, compare in (
            (arguments.rows, lambda release: compare_many(release, queries, arguments.repeats)),
            (arguments.large, lambda release: compare_one(release, arguments.repeats)),
        ):
            if not rows:
                continue
            print(f"{rows:,} records, {os.cpu_count()} cores")
            source = Path(name) / f"source {rows}.parquet"
            tables.make_table(source, rows)
            for mechanism in arguments.mechanisms:
                print(f" {mechanism}")
                folder = Path(name) / f"{mechanism.replace('/', ' as ')} {rows}"
                compare(publish(tables.request_for(source, mechanism), folder).release)
        if arguments.grouped:
            print(f"{arguments.grouped:,} records, {arguments.values} values")
            source = Path(name) / "values.parquet"
            make_values(source, arguments.grouped, arguments.values)
            for mechanism in arguments.mechanisms:
                print(f" {mechanism}")
                request = tables.request_for(source, mechanism)
                release = publish(request, Path(name) / f"{mechanism.replace('/', ' as ')} values").release
                compare_groups(release, source, arguments.repeats)


if __name__ == "__main__":
    main()
