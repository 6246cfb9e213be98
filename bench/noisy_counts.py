"""Noisy counts beside subset selection: errors, coverage, the bound of equal accuracy, speed, and OpenDP.

    PYTHONPATH=. python bench/noisy_counts.py error coverage equal speed peers [--data DIR] [--tables census_occ ...]
                         [--releases 3] [--questions 1500] [--rows 1000000] [--repeats 3] [--folder DIR]

Every comparison is a ratio in one run: both mechanisms publish the same table at the same bound, and answer the same
questions. A question counts one value under one to three public columns. The value and the columns' values are those
of a random record, so large counts are more frequent.

    error     Mean relative error by size of the true count, and the ratio of the mean absolute errors.
    coverage  The share of 95% intervals that contain the truth, by kind of question, over 200 releases of an invented
              table.
    equal     The amplification at which noisy counts have the error of subset selection: predicted, and measured.
    speed     Publishing, drawing, thousands of counts, one question in SQL.
    peers     OpenDP adds noise to the same cells at the same epsilon.

DIR has census_occ.parquet, census_all.parquet, adult.parquet, vaers_adr40.parquet and vaers_adr_all.parquet. A missing
table is skipped. The table of `sfumato demo` is made here.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import importlib.util
import math
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from papers.coded_table import CodedTable
from papers.measured_errors import REASON
from papers.query_pools import Band, Pool
from sfumato import BreachBound, CountQuery, Release, Request, Schema, publish
from sfumato._commands.demo import ROWS, make_hospital_table
from sfumato._core.random_draws import Draws
from sfumato.mechanisms._noisy_counts.clamped_estimation import estimate_counts
from sfumato.mechanisms._noisy_counts.crowd_size import find_equal_accuracy
from sfumato.mechanisms._noisy_counts.fixed_sum_noise import FixedSumNoise

sys.path.insert(0, str(Path(__file__).parent))
tables = importlib.import_module("publish")

Floats = npt.NDArray[np.float64]

SEED = 14
PRIOR = Fraction(1, 10)
AMPLIFICATIONS = (Fraction(9, 2), Fraction(9))
SUBSET, NOISY = "subset", "noisy-counts"
BANDS = (
    Band("1-10", 1, 10),
    Band("10-50", 10, 50),
    Band("50-200", 50, 200),
    Band("200-1,000", 200, 1000),
    Band("above", 1000),
)
DECADE = 10


# --------------------------------------------------------------------------------------------------------------- tables


@dataclass(frozen=True)
class Subject:
    """A table with its public columns."""

    file: str
    sensitive: str
    public: tuple[str, ...] = ()
    """The public columns; all others if empty."""
    decades: tuple[str, ...] = ()
    """The columns of numbers that are published in tens."""
    ratios: tuple[float | None, float | None] = (None, None)
    """The error of noisy counts divided by that of subset selection, in our experiments before the code existed. The
    two numbers are for an amplification of 4.5 and 9.
    """
    equal: tuple[float | None, float | None] = (None, None)
    """The amplifications of equal accuracy in the same experiments."""

    def load(self, folder: Path | None) -> pa.Table | None:
        """The public columns and the sensitive one; None if the file is missing."""
        if self.file == DEMO:
            table = make_hospital_table(ROWS)
        elif folder is None or not (folder / f"{self.file}.parquet").exists():
            return None
        else:
            table = pq.read_table(folder / f"{self.file}.parquet")
        table = table.select([*(self.public or [n for n in table.column_names if n != self.sensitive]), self.sensitive])
        for name in self.decades:
            place, numbers = table.column_names.index(name), table.column(name).to_numpy()
            table = table.set_column(place, name, pa.array(numbers // DECADE * DECADE))
        return table.replace_schema_metadata()


DEMO = "demo"
ADULT = ("age", "workclass", "education", "marital_status", "race", "sex", "native_country")
ADULT_MORE = ("relationship", "capital_gain", "capital_loss", "hours_per_week", "income")
SUBJECTS: Mapping[str, Subject] = {
    "demo, decades": Subject(DEMO, "diagnosis", ("age", "sex", "region"), ("age",), (0.06, 0.05), (1.08, 1.13)),
    "demo": Subject(DEMO, "diagnosis", ("age", "sex", "region", "admission")),
    "census_occ, decades": Subject("census_occ", "Occupation", (), ("Age",), (0.27, 0.29), (1.59, 2.08)),
    "census_all, decades": Subject("census_all", "Education", (), ("Age",), (0.24, 0.20), (1.42, 1.62)),
    "adult, 7 columns, decades": Subject("adult", "occupation", ADULT, ("age",), (0.43, 0.43), (1.89, 2.71)),
    "adult, 12 columns": Subject("adult", "occupation", (*ADULT, *ADULT_MORE), (), (0.90, 0.87)),
    "vaers 40, decades": Subject("vaers_adr40", "Reaction", (), ("Age",), (0.73, 0.75), (3.2, 5.9)),
    "vaers 40": Subject("vaers_adr40", "Reaction", (), (), (0.89, None)),
    "vaers all, decades": Subject("vaers_adr_all", "Reaction", (), ("Age",), (0.71, 0.83)),
}


def iter_tables(arguments: argparse.Namespace) -> Iterator[tuple[str, Subject, pa.Table]]:
    """Loads the requested tables one after the other, and names those that are missing."""
    for name in arguments.tables:
        table = SUBJECTS[name].load(arguments.data)
        if table is None:
            print(f"{name}: skipped, because {SUBJECTS[name].file}.parquet is not in the folder of --data.", flush=True)
        else:
            yield name, SUBJECTS[name], table


# ----------------------------------------------------------------------------------------------- publishing and asking


def make_bound(amplification: Fraction) -> BreachBound:
    """The bound from a prior of 1/10 that allows the odds to grow by this factor."""
    odds = amplification * PRIOR / (1 - PRIOR)
    return BreachBound(PRIOR, odds / (1 + odds))


def make_request(table: Any, schema: Schema, mechanism: str, amplification: Fraction) -> Request:
    """A request that accepts every risk, because the release is thrown away."""
    names = table.column_names if isinstance(table, pa.Table) else []
    return Request(
        table,
        schema=schema,
        spec=make_bound(amplification),
        mechanism=mechanism,
        accept_exposure=REASON,
        accept_unique=REASON,
        accept_uncovered=REASON,
        accept_disclosing=dict.fromkeys((name for name in names if name not in schema.sensitive_columns), REASON),
    )


def make_schema(table: pa.Table, sensitive: str) -> Schema:
    """All columns but one are public. The values of the sensitive column are declared."""
    return Schema.of(sensitive, public="*", domains={sensitive: sorted(table.column(sensitive).unique().to_pylist())})


@contextlib.contextmanager
def publish_once(request: Request, number: int, folder: Path | None = None) -> Iterator[Release]:
    """A release with a test key, which exists while it is used."""
    with tempfile.TemporaryDirectory(dir=folder) as name:
        target = Path(name) / "release"
        key = f"{SEED + number:064x}"
        yield publish(request, target, unsafe_test_key=key, on_notice=lambda notice: None).release


def draw_questions(table: CodedTable, number: int, seed: int = SEED) -> Pool:
    """Counts of a record's value under one to three of its public values."""
    generator = np.random.default_rng(seed)
    names, queries, codes, values = list(table.public_columns), list[CountQuery](), [], []
    for record in generator.integers(table.rows, size=number).tolist():
        columns = generator.choice(names, generator.integers(1, 4), replace=False).tolist()
        own = {name: int(table.public_columns[name].codes[record]) for name in columns}
        value = int(table.sensitive.codes[record])
        where = {name: table.public_columns[name].domain[code] for name, code in own.items()}
        queries.append(CountQuery(where, [table.sensitive.domain[value]]))
        codes.append({name: [code] for name, code in own.items()})
        values.append([value])
    return Pool(tuple(queries), table.count_questions(codes, values))


@dataclass(frozen=True)
class Errors:
    """The errors of some releases (rows) in each question (columns)."""

    absolute: Floats
    is_covered: npt.NDArray[np.bool_]
    truths: npt.NDArray[np.int64]

    @property
    def mean(self) -> float:
        """The mean absolute error."""
        return float(self.absolute.mean())

    def compute_ratio(self, base: Errors) -> tuple[float, float]:
        """The mean absolute error divided by another one, and the standard error of this ratio over releases."""
        ratio, spreads = self.mean / base.mean, [0.0]
        if len(self.absolute) > 1:
            means = [errors.absolute.mean(axis=1) for errors in (self, base)]
            spreads = [own.std(ddof=1) / own.mean() / len(own) ** 0.5 for own in means]
        return ratio, ratio * math.hypot(*spreads)

    def compute_relative(self, band: Band) -> float:
        """The mean relative error of the counts in a band; not a number if there are none."""
        is_in_band = band.holds(self.truths)
        if not is_in_band.any():
            return math.nan
        return float((self.absolute[:, is_in_band] / self.truths[is_in_band]).mean())

    @property
    def coverage(self) -> float:
        """The share of 95% intervals that contain the truth."""
        return float(self.is_covered.mean())


def measure_errors(request: Request, pool: Pool, releases: int) -> Errors:
    """Publishes a table some times, and asks each release all questions."""
    absolute, is_covered = [], []
    for number in range(releases):
        with publish_once(request, number) as release:
            answers = release.count_many(pool.queries)
            low, high = answers.interval()
        absolute.append(np.abs(answers.value - pool.truths))
        is_covered.append((low <= pool.truths) & (pool.truths <= high))
    return Errors(np.array(absolute), np.array(is_covered), pool.truths)


# ----------------------------------------------------------------------------------------------------------- the errors


def compare_errors(arguments: argparse.Namespace) -> None:
    """Prints a line for each table and amplification."""
    heads = ["table", "amplification", *(band.label for band in BANDS), "ratio", "experiment", "coverage"]
    print_line(heads)
    print(f"|{'---|' * len(heads)}", flush=True)
    for name, subject, table in iter_tables(arguments):
        pool = draw_questions(CodedTable.of(table, subject.sensitive), arguments.questions)
        for amplification, before in zip(AMPLIFICATIONS, subject.ratios, strict=True):
            requests = [
                make_request(table, make_schema(table, subject.sensitive), mechanism, amplification)
                for mechanism in (SUBSET, NOISY)
            ]
            sets, noisy = (measure_errors(request, pool, arguments.releases) for request in requests)
            pairs = [f"{sets.compute_relative(band):.3g} / {noisy.compute_relative(band):.3g}" for band in BANDS]
            ratio, error = noisy.compute_ratio(sets)
            expected = "" if before is None else f"{before:.2f}"
            numbers = [f"{ratio:.3f} ± {error:.3f}", expected, f"{noisy.coverage:.1%}"]
            print_line([name, f"{float(amplification):g}", *pairs, *numbers])


def print_line(cells: Sequence[str]) -> None:
    """Prints a line of a Markdown table."""
    print(f"| {' | '.join(cells)} |", flush=True)


# ------------------------------------------------------------------------------------------------------------- coverage

COVERAGE_RELEASES, COVERAGE_ROWS, SEVERITIES, FEW_CROWDS = 200, 12_000, 12, 20
LEVEL = 0.95
GROUPED: Mapping[str, tuple[str, ...]] = {
    "sum of a public column": (
        "SELECT region, SUM(age) AS n FROM people WHERE severity = 3 GROUP BY region",
        "SELECT sex, SUM(age) AS n FROM people WHERE severity IN (1, 2) AND region = 'R1' GROUP BY sex",
    ),
    "sum of the sensitive column": (
        "SELECT region, SUM(severity) AS n FROM people GROUP BY region",
        "SELECT age, SUM(severity) AS n FROM people WHERE region = 'R2' GROUP BY age",
    ),
    "mean of a public column": (
        "SELECT severity, AVG(age) AS n FROM people GROUP BY severity",
        "SELECT region, AVG(age) AS n FROM people WHERE severity > 9 GROUP BY region",
    ),
    "mean of the sensitive column": (
        "SELECT region, AVG(severity) AS n FROM people GROUP BY region",
        "SELECT age, AVG(severity) AS n FROM people WHERE ward = 'W1' GROUP BY age",
    ),
    "share among those with a value": (
        "SELECT severity, COUNT(*) FILTER (WHERE sex = 'F') / COUNT(*) AS n FROM people GROUP BY severity",
        "SELECT ward, COUNT(*) FILTER (WHERE age < 50) / COUNT(*) AS n FROM people WHERE severity < 4 GROUP BY ward",
    ),
    "median of a public column": ("SELECT severity, QUANTILE_CONT(age, 0.5) AS n FROM people GROUP BY severity",),
}


def make_people(rows: int = COVERAGE_ROWS) -> pa.Table:
    """Invented people with a severity from 1 to 12, which depends on age. A few percent share no cell with anybody."""
    generator = np.random.default_rng(SEED)
    age = np.clip(np.rint(generator.normal(4.5, 2, rows)), 0, 9).astype(np.int64)
    regions, wards = (1 / np.arange(1, size + 1) ** 1.2 for size in (8, 16))
    severity = np.clip(np.rint(generator.gamma(2 + age / 4, 1.5, rows)), 1, SEVERITIES).astype(np.int64)
    return pa.table(
        {
            "age": DECADE * age,
            "sex": generator.choice(["F", "M"], rows),
            "region": [f"R{place}" for place in generator.choice(8, rows, p=regions / regions.sum())],
            "ward": [f"W{place}" for place in generator.choice(16, rows, p=wards / wards.sum())],
            "severity": severity,
        }
    )


def count_cells(table: CodedTable) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The cell of each record, and the people of each cell. A cell has the people with equal public values."""
    cells = np.zeros(table.rows, dtype=np.int64)
    for column in table.public_columns.values():
        cells = np.unique(cells * column.size + column.codes, return_inverse=True)[1]
    return cells, np.bincount(cells)


def name_kind(sizes: npt.NDArray[np.int64], values: int) -> str:
    """The kind of a count, given the sizes of its cells."""
    crowds, has_outsiders = int((sizes > 1).sum()), bool((sizes == 1).any())
    if values > 1:
        kind = "value set"
    elif not crowds:
        return "people outside crowds alone"
    else:
        kind = "count"
    kind += f", fewer than {FEW_CROWDS} crowds" if crowds < FEW_CROWDS else f", {FEW_CROWDS} crowds or more"
    return f"{kind}, and people outside" if has_outsiders else kind


def draw_counts(table: CodedTable, number: int) -> tuple[Pool, list[str]]:
    """Random counts of one to six values under one to four public columns, and the kind of each."""
    generator, (cells, people) = np.random.default_rng(SEED), count_cells(table)
    names, queries, codes, values, kinds = list(table.public_columns), list[CountQuery](), [], [], []
    for record in generator.integers(table.rows, size=number).tolist():
        columns = generator.choice(names, generator.integers(1, len(names) + 1), replace=False).tolist()
        own = {name: int(table.public_columns[name].codes[record]) for name in columns}
        wanted = generator.choice(table.sensitive.size, generator.choice([1, 1, 2, 4, 6]), replace=False).tolist()
        is_selected = np.logical_and.reduce([table.public_columns[name].codes == code for name, code in own.items()])
        where = {name: table.public_columns[name].domain[code] for name, code in own.items()}
        queries.append(CountQuery(where, [table.sensitive.domain[value] for value in wanted]))
        codes.append({name: [code] for name, code in own.items()})
        values.append(wanted)
        kinds.append(name_kind(people[np.unique(cells[is_selected])], len(wanted)))
    return Pool(tuple(queries), table.count_questions(codes, values)), kinds


def answer_groups(release: Release, original: duckdb.DuckDBPyConnection, sql: str) -> list[tuple[bool, float]]:
    """For each group, whether the interval contains the truth, and the error in standard errors."""
    truths = {tuple(keys): number for *keys, number in original.execute(sql).fetchall()}
    outcomes = []
    for row in release.sql(sql.replace("FROM people", "FROM release")).rows:
        estimate = row.pop("n")
        low, high = estimate.interval(LEVEL)
        truth = truths[tuple(row.values())]
        outcomes.append((low <= truth <= high, float(estimate.value - truth)))
    return outcomes


def measure_coverage(arguments: argparse.Namespace) -> None:
    """Prints the share of intervals that contain the truth, by kind of question."""
    table = make_people()
    pool, kinds = draw_counts(CodedTable.of(table, "severity"), 1000)
    request = make_request(table, make_schema(table, "severity"), NOISY, AMPLIFICATIONS[0])
    covered: dict[str, list[float]] = {kind: [] for kind in [*sorted(set(kinds)), *GROUPED]}
    with duckdb.connect() as original:
        original.register("people", table)
        for number in range(arguments.coverage_releases):
            with publish_once(request, number) as release:
                low, high = release.count_many(pool.queries).interval(LEVEL)
                is_covered = (low <= pool.truths) & (pool.truths <= high)
                for kind in set(kinds):
                    covered[kind].append(float(is_covered[np.array(kinds) == kind].mean()))
                for kind, statements in GROUPED.items():
                    outcomes = [one for sql in statements for one in answer_groups(release, original, sql)]
                    covered[kind].append(float(np.mean([is_in for is_in, _ in outcomes])))
    print(f"{table.num_rows:,} people, {arguments.coverage_releases} releases, amplification 4.5")
    print_line(["question", "questions", "coverage", "standard error"])
    print("|---|---|---|---|")
    for kind, shares in covered.items():
        questions = kinds.count(kind) or ""
        error = np.std(shares, ddof=1) / len(shares) ** 0.5
        print_line([kind, str(questions), f"{np.mean(shares):.1%}", f"{error:.1%}"])


# ---------------------------------------------------------------------------------------------------------------- speed

PUBLIC_COLUMNS, CROWD_COLUMNS, COUNTED_ROWS, COUNTED_QUERIES, DRAWN_COUNTS = (3, 5), 5, 500_000, 5_000, 10_000_000
DRAWN_SIZES = (2, 17, 46, 1_420)
CONDITION, ONE_VALUE = "column_2 = 'value 003 of column 2'", "value 003 of column 7"


def make_crowded_file(path: Path, rows: int, columns: int = CROWD_COLUMNS) -> None:
    """The table of `publish.py` with some of its seven public columns, so that most people are in crowds."""
    whole = path.with_suffix(".whole")
    tables.make_table(whole, rows)
    names = [f"column_{column}" for column in range(columns)] + ["sensitive"]
    with pq.ParquetFile(whole) as file:
        schema = pa.schema([file.schema_arrow.field(name) for name in names])
        with pq.ParquetWriter(path, schema, compression="zstd") as writer:
            for group in range(file.num_row_groups):
                writer.write_table(file.read_row_group(group, columns=names))
    whole.unlink()


def make_file_request(source: Path, mechanism: str) -> Request:
    """The request for a file of this table."""
    place = len(tables.DOMAIN_SIZES) - 1
    domain = [f"value {value:03d} of column {place}" for value in range(tables.DOMAIN_SIZES[place])]
    return make_request(
        source, Schema.of("sensitive", public="*", domains={"sensitive": domain}), mechanism, AMPLIFICATIONS[0]
    )


def publish_file(mechanism: str, source: Path, target: Path) -> None:
    """Publishes a file, with everything that belongs to it."""
    publish(make_file_request(source, mechanism), target, on_notice=lambda notice: None)


def measure_speed(arguments: argparse.Namespace) -> None:
    """Times publishing, drawing and asking."""
    compare_drawing()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as name:
        for rows in arguments.rows:
            for columns in PUBLIC_COLUMNS:
                compare_publishing(Path(name), rows, columns, arguments.repeats)
        compare_asking(Path(name), arguments.repeats)


def compare_drawing() -> None:
    """Prints how many noisy counts are drawn in a second of processor time."""
    for size in DRAWN_SIZES:
        noise, cells = FixedSumNoise(size, 1 / AMPLIFICATIONS[0]), DRAWN_COUNTS // size
        draws = Draws.from_fresh_key().narrow_to_column("sensitive")
        noise.draw(draws, 0, min(cells, 1000))
        start = time.process_time()
        noise.draw(draws, 0, cells)
        seconds = time.process_time() - start
        print(f"{size:>6} values: {cells * size / seconds / 1e6:6.1f} million counts drawn in a CPU second", flush=True)


def compare_publishing(folder: Path, rows: int, columns: int, repeats: int) -> None:
    """Publishes by both mechanisms in turn, each in a fresh process."""
    source = folder / "source.parquet"
    make_crowded_file(source, rows, columns)
    cells = (
        pq.read_table(source).group_by([f"column_{column}" for column in range(columns)]).aggregate([([], "count_all")])
    )
    counts = int((cells.column("count_all").to_numpy() > 1).sum()) * tables.DOMAIN_SIZES[-1]
    del cells
    runs: dict[str, list[Any]] = {SUBSET: [], NOISY: []}
    for _ in range(repeats):
        for mechanism, measured in runs.items():
            work = partial(publish_file, mechanism)
            measured.append(tables.timed(work, source, folder / "target", with_pandas=False))
    clock, processor, memory = (
        {mechanism: pick(measured) for mechanism, measured in runs.items()}
        for pick in (
            lambda measured: min(run.seconds for run in measured),
            lambda measured: min(run.processor for run in measured),
            lambda measured: max(run.memory for run in measured) / 2**20,
        )
    )
    print(f"{rows:,} rows published, {counts:,} noisy counts; ratios to subset selection", flush=True)
    for words, numbers, unit in (("clock", clock, "s"), ("processor", processor, "s"), ("peak", memory, "MiB")):
        ratio = numbers[NOISY] / numbers[SUBSET]
        print(f"  {words:>10}: {numbers[NOISY]:8.2f} {unit} and {numbers[SUBSET]:8.2f} {unit}, ratio {ratio:.2f}")


def compare_asking(folder: Path, repeats: int) -> None:
    """Asks releases by both mechanisms the same questions: thousands of counts, and single questions in SQL."""
    source = folder / "asked.parquet"
    make_crowded_file(source, COUNTED_ROWS)
    questions = draw_even_questions(COUNTED_QUERIES)
    releases = [
        publish(make_file_request(source, mechanism), folder / mechanism, on_notice=lambda notice: None).release
        for mechanism in (SUBSET, NOISY)
    ]
    print(f"{COUNTED_ROWS:,} rows, {COUNTED_QUERIES:,} counts at once; seconds on the clock and of processors")
    works = [list_works(release, questions) for release in releases]
    for kind in works[0]:
        times = [[time_once(own[kind]) for own in works] for _ in range(repeats + 1)]
        for when, (base, ours) in (("first", times[0]), ("later", np.min(times[1:], axis=0))):
            numbers = [f"{one:7.3f} s, ratio {one / other:5.2f}" for one, other in zip(ours, base, strict=True)]
            print(f"  {kind:>34}, {when}: clock {numbers[0]}; processor {numbers[1]}", flush=True)


def list_works(release: Release, questions: Sequence[CountQuery]) -> dict[str, Callable[[], Any]]:
    """The kinds of questions that are timed."""
    value = f"sensitive = '{ONE_VALUE}'"
    statements = {
        "a count in SQL": f"SELECT COUNT(*) FROM release WHERE {CONDITION} AND {value}",
        "the counts of all values in SQL": f"SELECT sensitive, COUNT(*) FROM release WHERE {CONDITION} GROUP BY 1",
        "a count by a public column in SQL": f"SELECT column_4, COUNT(*) FROM release WHERE {value} GROUP BY 1",
    }
    return {
        "count_many": lambda: release.count_many(questions),
        "count_many with intervals": lambda: release.count_many(questions).interval(LEVEL),
        **{kind: partial(release.sql, statement) for kind, statement in statements.items()},
    }


def time_once(work: Callable[[], Any]) -> tuple[float, float]:
    """Seconds on the clock, and of all processors."""
    start, processor = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - start, time.process_time() - processor


def draw_even_questions(number: int) -> list[CountQuery]:
    """One to three public columns, a value of each, and a sensitive value, all drawn evenly, as in `query.py`."""
    generator, sizes = np.random.default_rng(7), tables.DOMAIN_SIZES
    place, questions = len(sizes) - 1, []
    for _ in range(number):
        columns = np.sort(generator.choice(CROWD_COLUMNS, generator.integers(1, 4), replace=False)).tolist()
        values = {column: int(generator.integers(sizes[column])) for column in [*columns, place]}
        labels = {column: f"value {value:03d} of column {column}" for column, value in values.items()}
        where = {f"column_{column}": labels[column] for column in columns}
        questions.append(CountQuery(where, [labels[place]]))
    return questions


# ------------------------------------------------------------------------------------------------------- equal accuracy

THOUSANDTHS = 1000


def compare_equal_accuracy(arguments: argparse.Namespace) -> None:
    """Prints the amplification at which noisy counts have the error of subset selection, predicted and measured."""
    print_line(["table", "subset selection at", "predicted", "error ratio there", "measured", "experiment"])
    print("|---|---|---|---|---|---|")
    for name, subject, table in iter_tables(arguments):
        coded = CodedTable.of(table, subject.sensitive)
        pool = draw_questions(coded, arguments.questions)
        sizes, classes = np.unique(count_cells(coded)[1], return_counts=True)
        class_sizes = dict(zip(sizes.tolist(), classes.tolist(), strict=True))
        for amplification, before in zip(AMPLIFICATIONS, subject.equal, strict=True):
            make = partial(make_request, table, make_schema(table, subject.sensitive))
            target = measure_errors(make(SUBSET, amplification), pool, arguments.releases).mean
            predicted = find_equal_accuracy(coded.sensitive.size, amplification, class_sizes)
            tried = [1 + (predicted - 1) * factor for factor in (Fraction(4, 5), Fraction(1), Fraction(5, 4))]
            tried = [Fraction(round(odds * THOUSANDTHS), THOUSANDTHS) for odds in tried]
            ratios = [measure_errors(make(NOISY, odds), pool, arguments.releases).mean / target for odds in tried]
            print_line(
                [
                    name,
                    f"{float(amplification):g}",
                    f"{float(predicted):.3g}",
                    f"{ratios[1]:.2f}",
                    f"{find_measured_factor(tried, ratios):.3g}",
                    "" if before is None else f"{before:g}",
                ]
            )


def find_measured_factor(tried: Sequence[Fraction], ratios: Sequence[float]) -> float:
    """The amplification with an error ratio of 1, by a line through the logarithms."""
    gains = np.log([float(odds) - 1 for odds in tried])
    slope, start = np.polyfit(gains, np.log(ratios), 1)
    return float(1 + math.exp(-start / slope))


# ---------------------------------------------------------------------------------------------------------------- peers


OURS, ESTIMATES, DISCRETE = "sfumato", "sfumato, estimates", "OpenDP, discrete Laplace"


def compare_peers(arguments: argparse.Namespace) -> None:
    """Adds the noise of OpenDP to the counts of the same cells, and compares the errors of the same random counts."""
    if importlib.util.find_spec("opendp") is None:
        print("skipped, because OpenDP is not installed.")
        return
    for name, subject, table in iter_tables(arguments):
        coded = CodedTable.of(table, subject.sensitive)
        for amplification in AMPLIFICATIONS:
            compare_with_opendp(name, coded, amplification, arguments)


def compare_with_opendp(name: str, table: CodedTable, amplification: Fraction, arguments: argparse.Namespace) -> None:
    """Draws noise for all cells by both, in turn.

    If a person's value is replaced, two counts of a cell change by 1. So OpenDP's sensitivity is 2, and its scale is
    2/epsilon. Its users know the people of each cell too. They can subtract the mean of the noise of a cell, which is
    shown as `projected`.
    """
    (cells, people), size = count_cells(table), table.sensitive.size
    counts = np.bincount(cells * size + table.sensitive.codes, minlength=len(people) * size).reshape(-1, size)
    noise, draws = FixedSumNoise(size, 1 / amplification), Draws.from_fresh_key().narrow_to_column("sensitive")
    epsilon, values = math.log(amplification), counts.ravel().tolist()
    works: Mapping[str, Callable[[int], Any]] = {
        OURS: lambda number: counts + noise.draw(draws, number * len(counts), len(counts)),
        DISCRETE: lambda number: make_opendp_noise(epsilon, is_whole=True)(values),
        "OpenDP, Laplace": lambda number: make_opendp_noise(epsilon, is_whole=False)(list(map(float, values))),
    }
    selected = draw_selected_cells(table, cells, arguments.questions)
    seconds, errors = dict.fromkeys(works, math.inf), dict[str, list[float]]()
    for number in range(arguments.releases):
        noisy: dict[str, Floats] = {}
        for label, work in works.items():
            start = time.process_time()
            drawn = work(number)
            seconds[label] = min(seconds[label], time.process_time() - start)
            noisy[label] = np.asarray(drawn, dtype=np.float64).reshape(counts.shape)
        noisy[ESTIMATES] = estimate_counts(noise, people, noisy[OURS].astype(np.int64))
        surplus = noisy[DISCRETE].sum(axis=1) - people
        noisy["OpenDP, projected"] = noisy[DISCRETE] - surplus[:, np.newaxis] / size
        for label, numbers in noisy.items():
            errors.setdefault(label, []).append(
                float(np.mean([abs(numbers[own, value].sum() - counts[own, value].sum()) for own, value in selected]))
            )
    print(f"{name}, {len(counts):,} cells of {size} values, amplification {float(amplification):g}", flush=True)
    for label, means in errors.items():
        ratio, cost = np.mean(means) / np.mean(errors[ESTIMATES]), ""
        if label in seconds:
            cost = f"; {counts.size / seconds[label] / 1e6:8.3f} million counts drawn in a CPU second"
        print(f"  {label:>26}: mean error {np.mean(means):8.2f}, {ratio:5.2f} times ours{cost}", flush=True)


def make_opendp_noise(epsilon: float, *, is_whole: bool) -> Callable[[list[Any]], list[Any]]:
    """OpenDP's measurement for a list of counts that may change by 2 in total."""
    import opendp.prelude as dp  # noqa: PLC0415 - an optional package

    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T=int if is_whole else float, nan=None if is_whole else False))
    metric = dp.l1_distance(T=int if is_whole else float)
    return dp.m.make_laplace(space, metric, scale=2 / epsilon)


def draw_selected_cells(
    table: CodedTable, cells: npt.NDArray[np.int64], number: int
) -> list[tuple[npt.NDArray[np.int64], int]]:
    """The cells and the value of each random count, drawn as `draw_questions` does."""
    generator, names = np.random.default_rng(SEED), list(table.public_columns)
    first = np.unique(cells, return_index=True)[1]
    codes = {name: column.codes[first] for name, column in table.public_columns.items()}
    selected = []
    for record in generator.integers(table.rows, size=number).tolist():
        columns = generator.choice(names, generator.integers(1, 4), replace=False).tolist()
        own = [codes[name] == table.public_columns[name].codes[record] for name in columns]
        selected.append((np.flatnonzero(np.logical_and.reduce(own)), int(table.sensitive.codes[record])))
    return selected


PARTS: Mapping[str, Callable[[argparse.Namespace], None]] = {
    "error": compare_errors,
    "coverage": measure_coverage,
    "equal": compare_equal_accuracy,
    "speed": measure_speed,
    "peers": compare_peers,
}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", choices=list(PARTS), default=list(PARTS))
    parser.add_argument("--data", type=Path, help="the folder of the real tables; without it they are skipped")
    parser.add_argument("--tables", nargs="+", choices=list(SUBJECTS), default=list(SUBJECTS))
    parser.add_argument("--releases", type=int, default=3, help="releases of each table and mechanism")
    parser.add_argument("--questions", type=int, default=1500)
    parser.add_argument("--coverage-releases", type=int, default=COVERAGE_RELEASES)
    parser.add_argument(
        "--rows", type=int, nargs="*", default=[1_000_000, 10_000_000], help="rows of the tables to publish"
    )
    parser.add_argument("--repeats", type=int, default=3, help="repeats of what is timed; the best counts")
    parser.add_argument("--folder", type=Path, help="where to make tables (default: a temporary directory)")
    arguments = parser.parse_args()
    for part in arguments.parts:
        print(f"\n{part}", flush=True)
        PARTS[part](arguments)


if __name__ == "__main__":
    main()
