"""Questions to a release: SQL is parsed, public columns are counted by DuckDB, and the counts become estimates.

The parser accepts a short list of constructs and refuses everything else, and the counting connection can read one file
and nothing more; a release and a question may both come from strangers.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import EllipsisType
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import sqlglot
from sqlglot import exp

from sfumato.errors import QueryError, ReleaseFormatError
from sfumato.estimate import DEFAULT_LEVEL, Estimate
from sfumato.manifest import Manifest
from sfumato.tally import Mask, Tally
from sfumato.values import Value, display, domain_array

TABLE = "release"
MEMORY_LIMIT = "1GB"
DEFAULT_COUNT = "n"
MOST_CELLS = 1 << 26
"""Groups times values of the domain: beyond this an answer would fill the memory, and nobody could read it."""

_ALLOWED = (
    exp.And,
    exp.Or,
    exp.Not,
    exp.Paren,
    exp.EQ,
    exp.NEQ,
    exp.LT,
    exp.LTE,
    exp.GT,
    exp.GTE,
    exp.Between,
    exp.In,
    exp.Tuple,
    exp.Like,
    exp.ILike,
    exp.Is,
    exp.Null,
    exp.Boolean,
    exp.Literal,
    exp.Neg,
    exp.Add,
    exp.Sub,
    exp.Mul,
    exp.Div,
    exp.IntDiv,
    exp.Mod,
    exp.Column,
    exp.Identifier,
    exp.Cast,
    exp.DataType,
    exp.Case,
    exp.If,
    exp.Coalesce,
    exp.Lower,
    exp.Upper,
    exp.Floor,
    exp.Year,
    exp.Month,
)


@dataclass(frozen=True)
class Output:
    """One column of the answer: the count, or one of the groups."""

    name: str
    group: int | None


@dataclass(frozen=True)
class Question:
    """A parsed query: what rows to count, which sensitive values to look for, and how to group."""

    outputs: tuple[Output, ...]
    public_where: str | None
    sensitive_where: str | None
    groups: tuple[str | None, ...]
    """SQL expressions over public columns; None stands for the sensitive column."""

    @property
    def by_sensitive(self) -> bool:
        """Whether there is a group for each sensitive value."""
        return None in self.groups


@dataclass(frozen=True)
class Answer:
    """The rows of an answer; each holds its group values and an Estimate."""

    names: tuple[str, ...]
    count_name: str
    rows: tuple[tuple[Mapping[str, Value], Estimate], ...]
    method: str
    assumption: str

    def table(self, level: float = DEFAULT_LEVEL) -> tuple[list[str], list[dict[str, Any]]]:
        """Column names and rows with `n`, `n_se`, `n_low` and `n_high`."""
        count, added = self.count_name, _count_columns(self.count_name)
        columns = [each for name in self.names for each in (added if name == count else [name])]
        rows = []
        for groups, estimate in self.rows:
            numbers = (estimate.value, estimate.standard_error, *estimate.interval(level))
            rows.append({**groups, **dict(zip(added, numbers, strict=True))})
        return columns, [{name: row[name] for name in columns} for row in rows]


def _count_columns(count: str) -> list[str]:
    """The columns that a count fills: itself, its standard error, and the two ends of its interval."""
    return [count, f"{count}_se", f"{count}_low", f"{count}_high"]


def ask(manifest: Manifest, data: Path, sql: str) -> Answer:
    """Answer one SQL query."""
    return answer(manifest, data, parse(sql, manifest))


def count(manifest: Manifest, data: Path, value: Value | EllipsisType, where: str | None) -> Estimate:
    """Count the rows that hold a value, or any value, under a condition."""
    question = parse(f"SELECT COUNT(*) FROM {TABLE}" + (f" WHERE {where}" if where else ""), manifest)
    if question.groups:
        raise QueryError("a condition has no GROUP BY; ask for groups with a whole query.")
    if not isinstance(value, EllipsisType):
        if value not in manifest.design.domain:
            raise QueryError(f"{display(value)!r} is not in the domain of {manifest.sensitive!r}.")
        is_value = f"{_quoted(manifest.sensitive)} IS NOT DISTINCT FROM {exp.convert(value).sql('duckdb')}"
        both = " AND ".join(filter(None, (question.sensitive_where, is_value)))
        question = replace(question, sensitive_where=both)
    return answer(manifest, data, question).rows[0][1]


def answer(manifest: Manifest, data: Path, question: Question) -> Answer:
    """Count in the release, and estimate each group."""
    mechanism, design = manifest.mechanism, manifest.design
    with _connection(data) as connection:
        places = pa.array(range(len(design.domain)))
        domain = {_place(manifest): places, manifest.sensitive: domain_array(design.domain)}
        connection.register("domain", pa.table(domain))
        wanted = _wanted(connection, manifest, question)
        tallies = list(_tallies(connection, manifest, question))
    if not tallies and not any(question.groups):
        tallies = [((), Tally(np.zeros(len(design.domain), dtype=np.int64)))]
    is_exact = bool(wanted.all()) and not question.by_sensitive
    rows = []
    for key, tally in tallies:
        for value, mask in _masks(design.domain, wanted) if question.by_sensitive else [(None, wanted)]:
            if is_exact:
                estimate = Estimate.exact(tally.rows)
            else:
                moments = mechanism.reconstruct(design, tally, mask)
                estimate = Estimate.of(moments, mechanism.METHOD, mechanism.ASSUMPTION)
            rows.append((_named(question, key, value), estimate))
    count_name = next(output.name for output in question.outputs if output.group is None)
    method = (
        ("exact count", "none: only public columns are counted")
        if is_exact
        else (mechanism.METHOD, mechanism.ASSUMPTION)
    )
    return Answer(tuple(output.name for output in question.outputs), count_name, tuple(rows), *method)


def _masks(domain: Sequence[Value], wanted: Mask) -> Iterator[tuple[Value, Mask]]:
    for place in np.flatnonzero(wanted):
        yield domain[int(place)], np.arange(len(domain)) == place


def _named(question: Question, key: Sequence[Value], value: Value) -> dict[str, Value]:
    public = iter(key)
    values = [value if group is None else next(public) for group in question.groups]
    return {output.name: values[output.group] for output in question.outputs if output.group is not None}


def _connection(data: Path) -> duckdb.DuckDBPyConnection:
    """A connection that can read the data file of the release, and nothing else."""
    connection = duckdb.connect(
        config={
            "memory_limit": MEMORY_LIMIT,
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
            "python_enable_replacements": False,
        }
    )
    path = str(data.resolve()).replace("'", "''")
    try:
        connection.execute(f"SET allowed_paths = ['{path}']")
        connection.execute("SET enable_external_access = false")
        connection.execute("SET lock_configuration = true")
        connection.execute(f"CREATE VIEW {TABLE} AS SELECT * FROM read_parquet('{path}')")
    except duckdb.Error as error:
        connection.close()
        raise ReleaseFormatError(f"{data.name} cannot be read; get the release again from its publisher.") from error
    return connection


def _wanted(connection: duckdb.DuckDBPyConnection, manifest: Manifest, question: Question) -> Mask:
    """Which values of the domain satisfy the sensitive part of the WHERE clause, by DuckDB's own rules."""
    domain = manifest.design.domain
    if question.sensitive_where is None:
        return np.ones(len(domain), dtype=np.bool_)
    wanted = np.zeros(len(domain), dtype=np.bool_)
    for row in _run(connection, f"SELECT {_quoted(_place(manifest))} FROM domain WHERE {question.sensitive_where}"):
        wanted[row[0]] = True
    return wanted


def _tallies(
    connection: duckdb.DuckDBPyConnection, manifest: Manifest, question: Question
) -> Iterator[tuple[tuple[Value, ...], Tally]]:
    """For each public group, the counts of the published symbols."""
    sensitive = _quoted(manifest.sensitive)
    groups = [f"({group}) AS g{number}" for number, group in enumerate(filter(None, question.groups))]
    names = "".join(f"counted.g{number}, " for number in range(len(groups)))
    where = f" WHERE {question.public_where}" if question.public_where else ""
    counted = (
        f"SELECT {', '.join([*groups, f'{sensitive} AS symbol'])}, COUNT(*) AS rows FROM {TABLE}{where} GROUP BY ALL"
    )
    joined = f"({counted}) AS counted LEFT JOIN domain ON counted.symbol IS NOT DISTINCT FROM domain.{sensitive}"
    numbered = f"SELECT {names}domain.{_quoted(_place(manifest))}, counted.rows FROM {joined} ORDER BY ALL"
    rows = _run(connection, numbered)
    if len({tuple(row[:-2]) for row in rows}) * len(manifest.design.domain) > MOST_CELLS:
        raise QueryError("the query makes too many groups; group by fewer or coarser columns.")
    by_group: dict[tuple[Value, ...], np.ndarray] = {}
    for *key, place, count in rows:
        if place is None:
            raise ReleaseFormatError("the release holds a value outside its domain; get it again from its publisher.")
        # One object for every not-a-number, because two of them are never equal.
        group = tuple(math.nan if isinstance(value, float) and math.isnan(value) else value for value in key)
        by_group.setdefault(group, np.zeros(len(manifest.design.domain), dtype=np.int64))[place] += count
    return ((key, Tally(counts)) for key, counts in by_group.items())


def _place(manifest: Manifest) -> str:
    """The column that numbers the domain; its name cannot be that of the sensitive column beside it."""
    return f"{manifest.sensitive} place"


def _run(connection: duckdb.DuckDBPyConnection, sql: str) -> list[tuple[Any, ...]]:
    try:
        table = connection.sql(sql).to_arrow_table()
        return list(zip(*(column.to_pylist() for column in table.columns), strict=True))
    except duckdb.Error as error:
        reason = str(error).splitlines()[0]
        raise QueryError(f"the query does not fit the columns of the release: {reason}") from error


def parse(sql: str, manifest: Manifest) -> Question:
    """Read a query; what cannot be answered is refused with what to ask instead."""
    try:
        trees = sqlglot.parse(sql, dialect="duckdb")
    except sqlglot.errors.SqlglotError as error:
        raise QueryError(f"this is not SQL that can be read: {str(error).splitlines()[0]}") from error
    if len(trees) != 1 or not isinstance(trees[0], exp.Select):
        raise QueryError("ask one SELECT, such as SELECT COUNT(*) FROM release WHERE age > 30.")
    return _Parser(manifest).question(trees[0])


class _Parser:
    """Takes one SELECT apart."""

    def __init__(self, manifest: Manifest) -> None:
        self.names = {field.name.lower(): field.name for field in manifest.fields}
        self.sensitive = manifest.sensitive

    def question(self, select: exp.Select) -> Question:
        self._check_clauses(select)
        public, sensitive = self._where(select.args.get("where"))
        group = select.args.get("group")
        expressions = list(group.expressions) if group else []
        groups = tuple(self._group(each) for each in expressions)
        keys = [self._sql(_unwrapped(each)) for each in expressions]
        outputs = tuple(self._output(each, keys) for each in select.expressions)
        if sum(output.group is None for output in outputs) != 1:
            raise QueryError("select one COUNT(*), and any of the columns that you group by.")
        names = [
            name for each in outputs for name in (_count_columns(each.name) if each.group is None else [each.name])
        ]
        if len(set(names)) != len(names):
            raise QueryError("two columns of the answer have the same name; rename one with AS.")
        return Question(outputs, public, sensitive, groups)

    def _check_clauses(self, select: exp.Select) -> None:
        known = {"expressions", "from", "from_", "where", "group"}
        other = [name for name, value in select.args.items() if value and name not in known and name != "kind"]
        if other:
            clause = other[0].rstrip("_").upper()
            raise QueryError(f"{clause} cannot be answered yet: ask SELECT ... FROM release WHERE ... GROUP BY ...")
        source = select.args.get("from") or select.args.get("from_")
        table = source.this if source else None
        plain = isinstance(table, exp.Table) and not any(table.args[name] for name in table.args if name != "this")
        if table is None or not plain or table.name.lower() != TABLE:
            raise QueryError(f"the one table to ask is {TABLE}: SELECT ... FROM {TABLE} ...")
        group = select.args.get("group")
        if group and any(value for name, value in group.args.items() if name != "expressions"):
            raise QueryError("group by a plain list of columns.")

    def _where(self, where: exp.Where | None) -> tuple[str | None, str | None]:
        """Split the clause into its public and its sensitive part."""
        public: list[str] = []
        sensitive: list[str] = []
        for part in _conjuncts(where.this) if where else []:
            named = self._columns(part)
            if self.sensitive in named and len(named) > 1:
                raise QueryError(
                    f"a condition mixes {self.sensitive!r} with public columns other than by AND; ask for the parts "
                    "one by one and combine the counts."
                )
            (sensitive if self.sensitive in named else public).append(self._sql(part))
        return " AND ".join(public) or None, " AND ".join(sensitive) or None

    def _group(self, expression: exp.Expression) -> str | None:
        named = self._columns(expression)
        if self.sensitive not in named:
            if not named:
                raise QueryError("group by columns of the release, by their names.")
            return self._sql(expression)
        if isinstance(_unwrapped(expression), exp.Column):
            return None
        raise QueryError(f"group by {self.sensitive!r} itself, not by an expression of it.")

    def _output(self, expression: exp.Expression, keys: list[str]) -> Output:
        inner = _unwrapped(expression.this if isinstance(expression, exp.Alias) else expression)
        if isinstance(inner, exp.Count):
            if inner.sql("duckdb", comments=False) != "COUNT(*)":
                raise QueryError("count rows with COUNT(*); other counts cannot be answered yet.")
            return Output(expression.alias or DEFAULT_COUNT, None)
        if (key := self._sql(inner)) in keys:
            return Output(expression.alias or inner.name or inner.sql("duckdb"), keys.index(key))
        if isinstance(inner, exp.Column) and self._name(inner) == self.sensitive:
            raise QueryError(
                f"the {self.sensitive!r} of single rows is protected, so it cannot be selected; count it instead, with "
                f"GROUP BY {self.sensitive}."
            )
        raise QueryError("select COUNT(*) and columns that you also GROUP BY; nothing else can be answered yet.")

    def _columns(self, expression: exp.Expression) -> set[str]:
        for node in expression.walk():
            # The name of a type that is no known one would reach DuckDB as it is written, and could be any code.
            is_named_type = isinstance(node, exp.DataType) and node.this is exp.DataType.Type.USERDEFINED
            if is_named_type or not isinstance(node, _ALLOWED):
                raise QueryError(
                    f"{node.sql('duckdb')!r} cannot be answered: use comparisons, AND, OR, NOT, IN, BETWEEN, LIKE."
                )
        return {self._name(column) for column in expression.find_all(exp.Column)}

    def _name(self, column: exp.Column) -> str:
        if column.table and column.table.lower() != TABLE:
            raise QueryError(f"there is no table {column.table!r}; the one table is {TABLE}.")
        found = self.names.get(column.name.lower())
        if found is None:
            raise QueryError(
                f"the release has no column {column.name!r}; it has {', '.join(map(repr, self.names.values()))}."
            )
        return found

    def _sql(self, expression: exp.Expression) -> str:
        """Write an expression for DuckDB, with every column quoted."""
        copy = expression.copy()
        for column in list(copy.find_all(exp.Column)):
            quoted = exp.column(exp.to_identifier(self._name(column), quoted=True))
            if column is copy:
                return str(quoted.sql("duckdb"))
            column.replace(quoted)
        return f"({copy.sql('duckdb')})"


def _conjuncts(expression: exp.Expression) -> Iterator[exp.Expression]:
    if isinstance(expression, exp.And):
        yield from _conjuncts(expression.this)
        yield from _conjuncts(expression.expression)
    elif isinstance(expression, exp.Paren) and isinstance(expression.this, exp.And | exp.Paren):
        yield from _conjuncts(expression.this)
    else:
        yield expression


def _unwrapped(expression: exp.Expression) -> exp.Expression:
    """An expression without the parentheses around it."""
    while isinstance(expression, exp.Paren):
        expression = expression.this
    return expression


def _quoted(name: str) -> str:
    return str(exp.to_identifier(name, quoted=True).sql("duckdb"))
