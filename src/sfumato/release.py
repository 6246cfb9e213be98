"""A release as the analyst holds it: open it, read its promise, ask it questions."""

from __future__ import annotations

import itertools
import shutil
import tempfile
import weakref
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import EllipsisType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from sfumato.batch import Progress, ask_many
from sfumato.errors import QueryError, ReleaseFormatError, SfumatoError
from sfumato.estimate import Estimate
from sfumato.manifest import KNOWN_FILES, MANIFEST, Manifest, read_manifest
from sfumato.many import CountQuery, Estimates, count_many
from sfumato.query import DEFAULT_MEMORY, DEFAULT_SECONDS, Answer, Asker, Limits, attached, record_weights
from sfumato.schema import Bins
from sfumato.sql import TABLE, quoted
from sfumato.values import Value


@dataclass(frozen=True)
class Release:
    """A published table with its design."""

    path: Path
    folder: Path
    manifest: Manifest

    @classmethod
    def open(cls, path: str | Path) -> Release:
        """Open a release directory or .zip; nothing in it is executed or trusted."""
        given = Path(path)
        if given.is_dir():
            return cls(given, given, _read(given))
        if not given.exists():
            raise ReleaseFormatError(f"{str(path)!r} does not exist; name the directory or .zip of a release.")
        folder = Path(tempfile.mkdtemp(prefix="sfumato-"))
        try:
            unpack(given, folder)
            release = cls(given, folder, _read(folder))
        except BaseException:
            shutil.rmtree(folder)
            raise
        weakref.finalize(release, shutil.rmtree, folder, ignore_errors=True)
        return release

    @property
    def rows(self) -> int:
        """The number of records."""
        try:
            return int(pq.read_metadata(self.folder / self.manifest.data).num_rows)
        except (pa.ArrowException, OSError) as error:
            raise ReleaseFormatError(
                f"{self.manifest.data} cannot be read; get the release again from its publisher."
            ) from error

    @property
    def promise(self) -> str:
        """What an attacker can learn at most, in plain words."""
        return self.manifest.promise

    def count(
        self, value: Value | EllipsisType = ..., *, where: str | None = None, method: str | None = None
    ) -> Estimate:
        """Estimate how many records hold `value` (None: missing) and satisfy a condition.

        Without a value, the rows that satisfy the condition are counted; exactly, if it is on public columns. The value
        of a compound is a tuple.
        """
        return self._asker(method=method).count(value, where)

    def count_many(self, queries: Sequence[CountQuery], *, method: str | None = None) -> Estimates:
        """Answer thousands of counts in one reading of the release, each as `count` would."""
        return count_many(self.manifest, self.folder, queries, method)

    def sum(self, column: str, *, where: str | None = None, method: str | None = None) -> Estimate:
        """Estimate the sum of a column, or of an SQL expression, over the records that satisfy a condition."""
        return self._number(f"SUM({column})", where, method)

    def mean(self, column: str, *, where: str | None = None, method: str | None = None) -> Estimate:
        """Estimate the mean of a column, or of an SQL expression, over the records that satisfy a condition."""
        return self._number(f"AVG({column})", where, method)

    def share(self, condition: str, *, where: str | None = None, method: str | None = None) -> Estimate:
        """Estimate which part of the records that satisfy `where` also satisfies a condition."""
        return self._number(f"COUNT(*) FILTER (WHERE {condition}) / COUNT(*)", where, method)

    def crosstab(self, *columns: str, where: str | None = None, method: str | None = None) -> Answer:
        """Count the records of every combination of columns, or of SQL expressions, public or sensitive."""
        if not columns:
            raise QueryError("name the columns of the table, such as crosstab('sex', 'disease').")
        listed = ", ".join(columns)
        return self.sql(f"SELECT {listed}, COUNT(*) AS n FROM {TABLE}{_where(where)} GROUP BY {listed}", method=method)

    def histogram(
        self,
        column: str,
        *,
        edges: Sequence[float] | None = None,
        where: str | None = None,
        method: str | None = None,
    ) -> Answer:
        """Count the records of each value of a column; with edges, those of each range `[a,b)` of a number."""
        name = quoted(column)
        if edges is None:
            sql = f"SELECT {name}, COUNT(*) AS n FROM {TABLE}{_where(where)} GROUP BY {name}"
            return self.sql(sql, method=method)
        bins = Bins.of(list(edges))
        pairs = zip(bins.labels, itertools.pairwise(bins.edges), strict=True)
        signs = ["<"] * (len(bins.labels) - 1) + ["<="]
        cases = [
            f"WHEN {name} >= {low} AND {name} {sign} {high} THEN {number}"
            for number, ((_, (low, high)), sign) in enumerate(zip(pairs, signs, strict=True))
        ]
        sql = f"SELECT CASE {' '.join(cases)} END AS number, COUNT(*) AS n FROM {TABLE}{_where(where)} GROUP BY 1"
        return _labelled(self.sql(sql, method=method), column, bins.labels)

    def sql(  # noqa: PLR0913 - everything but the query has a default
        self,
        query: str,
        *,
        method: str | None = None,
        attach: Mapping[str, Any] | None = None,
        simultaneous: bool = False,
        timeout: float = DEFAULT_SECONDS,
        memory: str = DEFAULT_MEMORY,
    ) -> Answer:
        """Answer a SELECT about `release`: every number that depends on the sensitive column comes with its error.

        `attach` names tables of your own (files, frames, Arrow tables) that the query may join. With `simultaneous`,
        all intervals of the answer hold together at their level.
        """
        tables = {name: attached(name, table) for name, table in (attach or {}).items()}
        limits = Limits(timeout, memory)
        return self._asker(method=method, attached=tables, limits=limits, is_simultaneous=simultaneous).ask(query)

    def ask_many(  # noqa: PLR0913 - everything but the questions has a default
        self,
        questions: Sequence[str],
        *,
        method: str | None = None,
        attach: Mapping[str, Any] | None = None,
        simultaneous: bool = False,
        timeout: float = DEFAULT_SECONDS,
        progress: Progress = lambda done, total: None,
    ) -> list[Answer | SfumatoError]:
        """Answer many SQL questions, in their order; simple counts by one reading of the release.

        A question that cannot be answered gives its error in its place. The timeout is for each that is asked alone.
        """
        tables = {name: attached(name, table) for name, table in (attach or {}).items()}
        limits = Limits(timeout, DEFAULT_MEMORY)
        asker = self._asker(method=method, attached=tables, limits=limits, is_simultaneous=simultaneous)
        return ask_many(asker, questions, progress)

    def weights(self, value: Value, *, method: str | None = None) -> pa.Array:
        """What each record adds to the unbiased count of a value, in the order of the records in the data file.

        The sum over any selection of records by public columns is the estimate of `count(value, where=...)`.
        """
        return record_weights(self.manifest, self.folder, value, method)

    def _asker(self, **options: Any) -> Asker:
        return Asker(self.manifest, self.folder, **options)

    def _number(self, expression: str, where: str | None, method: str | None) -> Estimate:
        return self.sql(f"SELECT {expression} AS number FROM {TABLE}{_where(where)}", method=method).only()

    @property
    def methods(self) -> tuple[str, ...]:
        """The names of the estimators that this release can be asked with; the first is the default."""
        return tuple(self.manifest.methods)


def _where(condition: str | None) -> str:
    return "" if condition is None else f" WHERE ({condition})"


def _labelled(answer: Answer, column: str, labels: Sequence[str]) -> Answer:
    """An answer whose groups are numbers of ranges, with the ranges instead, in their order."""
    ordered = sorted(answer.rows, key=lambda row: len(labels) if row["number"] is None else int(row["number"]))
    rows = tuple(
        {column: None if row["number"] is None else labels[int(row["number"])], "n": row["n"]} for row in ordered
    )
    return replace(answer, names=(column, "n"), rows=rows)


def _read(folder: Path) -> Manifest:
    manifest = read_manifest(folder)
    for name in manifest.files:
        if not (folder / name).is_file():
            raise ReleaseFormatError(f"the release lacks {name}; get it again from its publisher.")
    return manifest


def unpack(path: Path, folder: Path) -> None:
    """Unpack the .zip of a release: the known files, stored as they are, so that nothing can swell or escape."""
    try:
        with zipfile.ZipFile(path) as archive:
            for entry in archive.infolist():
                if entry.filename not in (MANIFEST, *KNOWN_FILES) or entry.compress_type != zipfile.ZIP_STORED:
                    raise ReleaseFormatError(
                        f"{path.name!r} holds what no release holds; get it again from its publisher."
                    )
                archive.extract(entry, folder)
    except (OSError, EOFError, RuntimeError, zipfile.BadZipFile) as error:
        raise ReleaseFormatError(f"{path.name!r} is not the directory or .zip of a release.") from error


def pack(folder: Path, path: Path) -> None:
    """Pack a release directory into one .zip; every entry has the same fixed date."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for name in (MANIFEST, *KNOWN_FILES):
            if not (folder / name).exists():
                continue
            with (
                archive.open(zipfile.ZipInfo(name), "w", force_zip64=True) as entry,
                (folder / name).open("rb") as file,
            ):
                shutil.copyfileobj(file, entry, 1 << 20)
