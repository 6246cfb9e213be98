"""The analyst's interface to a release. It opens a release, shows the guarantee, and answers questions."""

from __future__ import annotations

import itertools
import shutil
import tempfile
import weakref
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from types import EllipsisType
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from sfumato._core.cell_values import Scalar, Value, split_value
from sfumato._core.object_store import Address, File, open_for_arrow
from sfumato._document.document import Document
from sfumato._document.notebook_document import render_notebook
from sfumato._engines.engine import Engine
from sfumato._query.answer import Answer
from sfumato._query.answer_document import make_release_document
from sfumato._query.attached_tables import read_attached_table
from sfumato._query.batch_queries import Progress, ask_many
from sfumato._query.consistent_answers import CountAdjuster, make_adjuster
from sfumato._query.counting.count_request import CountQuery
from sfumato._query.counting.file_counts import RecordFiles
from sfumato._query.counting.many_counts import count_many
from sfumato._query.counting.simple_sql import parse_simple_count
from sfumato._query.describe_statements import list_askable_columns
from sfumato._query.duckdb_session import OpenRelease, Session
from sfumato._query.estimate import Estimate, Estimates
from sfumato._query.parser.allowed_sql import parse
from sfumato._query.query_limits import DEFAULT_MEMORY, DEFAULT_SECONDS, Clock, Limits
from sfumato._query.query_runner import QueryRunner, explain_unknown_method, list_methods
from sfumato._query.record_weights import compute_record_weights
from sfumato._readers.reader import AnyTable
from sfumato._records.sql_quoting import TABLE, quote_name
from sfumato._release.manifest import Manifest
from sfumato._release.manifest_reader import read_digest
from sfumato._release.release_folder import find_release_folder, read_folder, unpack
from sfumato._release.store_transfer import fetch, fetch_manifest
from sfumato._request.guarantee import GuaranteeStatement
from sfumato._request.hierarchy import Hierarchy
from sfumato._request.range_edges import Ranges
from sfumato._terminal_safe import escape_unprintable
from sfumato.errors import QueryError, ReleaseFormatError, SfumatoError

if TYPE_CHECKING:  # it asks a release
    from sfumato._query.bound_coverage import BoundCoverage


@dataclass(frozen=True, repr=False)
class Release:
    """A published table with its design."""

    path: Path | Address
    manifest: Manifest
    local_folder: Path
    """The folder of the files. For a release in a store, it has the fetched copies."""
    store_address: Address | None = None
    """The address of a release in a store."""

    def __repr__(self) -> str:
        manifest = self.manifest
        description = (
            f"{manifest.mechanism_name}, protects {manifest.sensitive_name}, public "
            f"{', '.join(manifest.public_columns)}"
        )
        return escape_unprintable(f"Release({str(self.path)!r}: {description})")

    def _repr_html_(self) -> str:
        """Renders the release for a notebook."""
        return render_notebook(self.document())

    def document(self) -> Document:
        """Makes the document of the release: its columns and its guarantee."""
        return make_release_document(self)

    @classmethod
    def open(cls, path: str | Path) -> Release:
        """Opens a release directory, a .zip, or a release in a store. No content is executed or trusted.

        A release in a store is copied to a private folder. This folder is removed with the Release object. The
        description is fetched at once, and the records at the first question.
        """
        location = Address.of(path, ReleaseFormatError) or Path(path)
        if isinstance(location, Path) and location.is_dir():
            folder = find_release_folder(location)
            return cls(location, read_folder(folder), folder)
        if isinstance(location, Path) and not location.exists():
            raise ReleaseFormatError(
                f"{str(path)!r} does not exist; name the directory or .zip of a release.",
                code="missing-file",
                fields={"file": str(path)},
            )
        folder = Path(tempfile.mkdtemp(prefix="sfumato-"))
        try:
            if isinstance(location, Address):
                store_address, manifest = fetch_manifest(location, folder)
                release = cls(location, manifest, folder, store_address)
            else:
                unpack(location, folder)
                release = cls(location, read_folder(folder), folder)
        except BaseException:
            shutil.rmtree(folder)
            raise
        weakref.finalize(release, shutil.rmtree, folder, ignore_errors=True)
        return release

    @cached_property
    def folder(self) -> Path:
        """The folder of all files. Records in a store are fetched now."""
        if self.store_address is not None:
            fetch(self.store_address, self.local_folder, [*self.manifest.data_files, *self.manifest.copies])
            read_folder(self.local_folder)
        return self.local_folder

    @property
    def records(self) -> tuple[File, ...]:
        """The data files of the records, at their own location."""
        if self.store_address is None:
            return self.manifest.list_data_paths(self.local_folder)
        return tuple(self.store_address / name for name in self.manifest.data_files)

    @property
    def rows(self) -> int:
        """The number of records, or of people if some are published as counts."""
        people_in_counts = self.people_in_counts
        try:
            return people_in_counts + sum(int(pq.read_metadata(open_for_arrow(path)).num_rows) for path in self.records)
        except (pa.ArrowException, OSError, ValueError) as error:
            raise ReleaseFormatError(
                f"{self.manifest.data_file} cannot be read; get the release again from its publisher.",
                code="damaged-file",
                fields={"file": self.manifest.data_file},
            ) from error

    @property
    def people_in_counts(self) -> int:
        """How many of these people have no record. The counts of their groups are published instead."""
        return self.manifest.encoding.count_people_beside(self.manifest.naming, self.local_folder)

    @property
    def columns(self) -> list[tuple[str, str, str]]:
        """The name, the type and the role of each column. The role is public or protected, with ranges and level."""
        return list_askable_columns(self.manifest)

    @property
    def values(self) -> dict[str, tuple[Scalar, ...]]:
        """The possible values of each protected column; None is the missing value."""
        value_parts = [split_value(value) for value in self.manifest.domain]
        names = enumerate(self.manifest.sensitive_columns)
        return {name: tuple(dict.fromkeys(value[number] for value in value_parts)) for number, name in names}

    @property
    def digest(self) -> str:
        """The digest of the description, which contains the digests of all files."""
        return read_digest(self.folder)

    @property
    def guarantee(self) -> GuaranteeStatement:
        """The privacy guarantee in a short and an exact form, with details about what else the release discloses."""
        return self.manifest.guarantee

    @cached_property
    def bound_coverage(self) -> BoundCoverage | None:
        """The share of people whom the bound covers in full, as the release estimates it. None without one bound."""
        from sfumato._query.bound_coverage import estimate_bound_coverage  # noqa: PLC0415 - it asks a release

        return estimate_bound_coverage(self)

    @property
    def known_coverage(self) -> BoundCoverage | None:
        """The coverage. None if the records would have to be fetched from a store."""
        return self.bound_coverage if self.store_address is None else None

    @property
    def hierarchies(self) -> Mapping[str, Hierarchy]:
        """The levels of the sensitive column, if it has any. Queries can use `diagnosis.chapter` like a column."""
        return self.manifest.hierarchies

    def count(
        self,
        value: Value | EllipsisType = ...,
        *,
        where: str | None = None,
        method: str | None = None,
        engine: Engine | None = None,
    ) -> Estimate:
        """Estimates how many records hold `value` (None: missing) and satisfy a condition.

        Without a value, all rows that satisfy the condition are counted. This count is exact if the condition is on
        public columns. For a compound, the value is a tuple. With an engine, `count_many` must support the condition.
        """
        if engine is None:
            return self._make_runner(method=method).count(value, where)
        query = parse_simple_count(parse(f"SELECT COUNT(*) FROM {TABLE}{_write_where(where)}"), self.manifest)
        if query is None or not (query.values is None or isinstance(value, EllipsisType)):
            raise QueryError(
                "with an engine, conditions can only compare columns with values (=, IN, BETWEEN, <, >, IS NULL), "
                "joined by AND, with the sensitive column at most once; use no engine for other conditions.",
                code="unsupported-with-engine",
            )
        count_query = query if isinstance(value, EllipsisType) else CountQuery(query.where, (value,))
        (estimate,) = self.count_many([count_query], method=method, engine=engine)
        return estimate

    def count_many(
        self, queries: Sequence[CountQuery], *, method: str | None = None, engine: Engine | None = None
    ) -> Estimates:
        """Answers thousands of counts in one pass over the release. The results equal those of `count`.

        With an engine, each file of the records is counted where the engine runs. This process needs no access to the
        files.
        """
        if engine is None:
            return count_many(self.manifest, self.folder, queries, method)
        return count_many(self.manifest, self.local_folder, queries, method, RecordFiles(self.records, engine))

    def sum(self, column: str, *, where: str | None = None, method: str | None = None) -> Estimate:
        """Estimates the sum of a column, or of an SQL expression, over the records that satisfy a condition."""
        return self._estimate_number(f"SUM({column})", where, method)

    def mean(self, column: str, *, where: str | None = None, method: str | None = None) -> Estimate:
        """Estimates the mean of a column, or of an SQL expression, over the records that satisfy a condition."""
        return self._estimate_number(f"AVG({column})", where, method)

    def share(self, condition: str, *, where: str | None = None, method: str | None = None) -> Estimate:
        """Estimates a share: the records that satisfy a condition, among the records that satisfy `where`."""
        return self._estimate_number(f"COUNT(*) FILTER (WHERE {condition}) / COUNT(*)", where, method)

    def crosstab(
        self,
        *columns: str,
        where: str | None = None,
        method: str | None = None,
        consistent: bool = False,
        totals: Sequence[AnyTable] = (),
    ) -> Answer:
        """Counts the records of every combination of columns or SQL expressions. They may be public or sensitive.

        `consistent` and `totals` work as in `sql`.
        """
        if not columns:
            raise QueryError("name the columns of the table, such as crosstab('sex', 'disease').", code="no-columns")
        column_list = ", ".join(columns)
        sql = f"SELECT {column_list}, COUNT(*) AS n FROM {TABLE}{_write_where(where)} GROUP BY {column_list}"
        return self.sql(sql, method=method, consistent=consistent, totals=totals)

    def histogram(  # noqa: PLR0913 - everything but the column has a default
        self,
        column: str,
        *,
        edges: Sequence[float] | None = None,
        where: str | None = None,
        method: str | None = None,
        consistent: bool = False,
        totals: Sequence[AnyTable] = (),
    ) -> Answer:
        """Counts the records of each value of a column.

        With edges, the records in each range `[a,b)` of a number are counted. Totals then name the ranges. `consistent`
        and `totals` work as in `sql`.
        """
        name = quote_name(column)
        if edges is None:
            sql = f"SELECT {name}, COUNT(*) AS n FROM {TABLE}{_write_where(where)} GROUP BY {name}"
            return self.sql(sql, method=method, consistent=consistent, totals=totals)
        bins = Ranges.of(list(edges))
        pairs = zip(bins.labels, itertools.pairwise(bins.edges), strict=True)
        signs = ["<"] * (len(bins.labels) - 1) + ["<="]
        cases = [
            f"WHEN {name} >= {low} AND {name} {sign} {high} THEN '{label}'"
            for (label, (low, high)), sign in zip(pairs, signs, strict=True)
        ]
        sql = f"SELECT CASE {' '.join(cases)} END AS {name}, COUNT(*) AS n FROM {TABLE}{_write_where(where)} GROUP BY 1"
        return _order_by_ranges(self.sql(sql, method=method, consistent=consistent, totals=totals), column, bins.labels)

    def sql(  # noqa: PLR0913 - everything but the query has a default
        self,
        query: str,
        *,
        method: str | None = None,
        attach: Mapping[str, AnyTable] | None = None,
        simultaneous: bool = False,
        consistent: bool = False,
        totals: Sequence[AnyTable] = (),
        timeout: float = DEFAULT_SECONDS,
        memory: str = DEFAULT_MEMORY,
    ) -> Answer:
        """Answers a SELECT about `release`. Every number that depends on the sensitive column has an error.

        `attach` names tables of your own (files, frames, Arrow tables) that the query may join. With `simultaneous`,
        all intervals of the answer hold simultaneously at their level. With `consistent`, each COUNT(*) gets a second
        column. It has no negative numbers and adds up to the exactly known totals. With `totals`, the second column
        also adds up to your own totals. These are CSV files or frames with columns of the answer and a column `total`.
        """
        runner = self._make_runner(
            method=method,
            attached_tables={name: read_attached_table(name, table) for name, table in (attach or {}).items()},
            limits=Limits(timeout, memory),
            is_simultaneous=simultaneous,
            adjuster=make_adjuster(consistent=consistent, totals=totals),
        )
        return runner.ask(query)

    def ask_many(  # noqa: PLR0913 - everything but the questions has a default
        self,
        questions: Sequence[str],
        *,
        method: str | None = None,
        attach: Mapping[str, AnyTable] | None = None,
        simultaneous: bool = False,
        timeout: float = DEFAULT_SECONDS,
        progress: Progress = lambda done, total: None,
    ) -> list[Answer | SfumatoError]:
        """Answers many SQL questions in order. Simple counts take one pass over the release.

        If a question fails, its error takes the place of its answer. The timeout applies to each question that runs
        alone.
        """
        tables = {name: read_attached_table(name, table) for name, table in (attach or {}).items()}
        limits = Limits(timeout, DEFAULT_MEMORY)
        runner = self._make_runner(method=method, attached_tables=tables, limits=limits, is_simultaneous=simultaneous)
        return ask_many(runner, questions, progress)

    def weights(self, value: Value, *, method: str | None = None) -> pa.Array:
        """The weight of each record in the unbiased count of a value, in the order of the data file.

        Select records by public columns and add up their weights. The sum is the estimate of `count(value, where=...)`.
        If people are published in counts instead of records, there are no such weights. `export` then writes a row for
        each group of people.
        """
        if self.people_in_counts:
            raise QueryError(
                f"{self.people_in_counts:,} of {self.rows:,} {self.manifest.count_unit} have no record, because the "
                "counts of their groups are published. Write a file with a row for each group (`export`), or query "
                "counts.",
                code="no-record-weights",
                fields={"rows": self.rows, "people_in_counts": self.people_in_counts},
            )
        return compute_record_weights(self.manifest, self.folder, value, method)

    def open_session(self, timeout: float = DEFAULT_SECONDS) -> AbstractContextManager[Session]:
        """Opens a connection that can read only this release, for a limited time in seconds."""
        return self._open_release.open_session(clock=Clock(Limits(timeout)))

    def _make_runner(
        self,
        *,
        method: str | None,
        attached_tables: Mapping[str, pa.Table] | None = None,
        limits: Limits | None = None,
        is_simultaneous: bool = False,
        adjuster: CountAdjuster | None = None,
    ) -> QueryRunner:
        return QueryRunner(
            self._open_release, attached_tables or {}, limits or Limits(), method, is_simultaneous, adjuster
        )

    @cached_property
    def _open_release(self) -> OpenRelease:
        return OpenRelease(self.manifest, self.folder)

    def _estimate_number(self, expression: str, where: str | None, method: str | None) -> Estimate:
        return self.sql(
            f"SELECT {expression} AS number FROM {TABLE}{_write_where(where)}", method=method
        ).get_estimate()

    @property
    def methods(self) -> tuple[str, ...]:
        """The names of this release's estimators; the first is the default."""
        return list_methods(self.manifest)

    def check_method(self, name: str | None) -> None:
        """Rejects an estimator that is not for analysts, such as an estimator that only reproduces a paper."""
        if name is not None and name not in self.methods:
            raise explain_unknown_method(self.manifest, name)


def _write_where(condition: str | None) -> str:
    return "" if condition is None else f" WHERE ({condition})"


def _order_by_ranges(answer: Answer, column: str, labels: Sequence[str]) -> Answer:
    """Sorts an answer by range. Rows outside all ranges come last."""
    places = {label: place for place, label in enumerate(labels)}
    return replace(answer, rows=tuple(sorted(answer.rows, key=lambda row: places.get(row[column], len(labels)))))
