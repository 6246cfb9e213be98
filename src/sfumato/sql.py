"""SQL taken apart: what rows to count, which sensitive values to look for, and how to group.

The parser knows a short list of constructs and refuses everything else, because a question may come from a stranger;
what it hands on is written anew, with every column quoted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import sqlglot
from sqlglot import exp

from sfumato.errors import QueryError
from sfumato.manifest import Manifest

TABLE = "release"
DEFAULT_COUNT = "n"

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
class Group:
    """What to group by: an SQL expression over public columns, or a sensitive column by its name."""

    sql: str
    is_sensitive: bool


@dataclass(frozen=True)
class Question:
    """A parsed query: what rows to count, which sensitive values to look for, and how to group."""

    outputs: tuple[Output, ...]
    public_where: str | None
    sensitive_where: str | None
    groups: tuple[Group, ...]

    @property
    def public_groups(self) -> tuple[str, ...]:
        """The expressions over public columns."""
        return tuple(group.sql for group in self.groups if not group.is_sensitive)

    @property
    def sensitive_groups(self) -> tuple[str, ...]:
        """The sensitive columns that are grouped by."""
        return tuple(group.sql for group in self.groups if group.is_sensitive)


def count_columns(count: str) -> list[str]:
    """The columns that a count fills: itself, its standard error, and the two ends of its interval."""
    return [count, f"{count}_se", f"{count}_low", f"{count}_high"]


def note_column(count: str) -> str:
    """The column that says what to beware of, where there is something to say."""
    return f"{count}_note"


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
        self.sensitive = manifest.sensitive
        # What a release shows of the sensitive columns is no column to ask about; the columns themselves are.
        self.names = {name.lower(): name for name in (*manifest.public, *manifest.sensitive)}

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
        names = [name for each in outputs for name in self._filled(each)]
        if len(set(names)) != len(names):
            raise QueryError("two columns of the answer have the same name; rename one with AS.")
        return Question(outputs, public, sensitive, groups)

    @staticmethod
    def _filled(output: Output) -> list[str]:
        """The columns of the answer that an output fills."""
        return [output.name] if output.group is not None else [*count_columns(output.name), note_column(output.name)]

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
            protected = sorted(named & set(self.sensitive))
            if protected and len(protected) < len(named):
                raise QueryError(
                    f"a condition mixes {protected[0]!r} with public columns other than by AND; ask for the parts one "
                    "by one and combine the counts."
                )
            (sensitive if protected else public).append(self._sql(part))
        return " AND ".join(public) or None, " AND ".join(sensitive) or None

    def _group(self, expression: exp.Expression) -> Group:
        named = self._columns(expression)
        protected = sorted(named & set(self.sensitive))
        if not protected:
            if not named:
                raise QueryError("group by columns of the release, by their names.")
            return Group(self._sql(expression), False)
        if isinstance(_unwrapped(expression), exp.Column):
            return Group(protected[0], True)
        raise QueryError(f"group by {protected[0]!r} itself, not by an expression of it.")

    def _output(self, expression: exp.Expression, keys: list[str]) -> Output:
        inner = _unwrapped(expression.this if isinstance(expression, exp.Alias) else expression)
        if isinstance(inner, exp.Count):
            if inner.sql("duckdb", comments=False) != "COUNT(*)":
                raise QueryError("count rows with COUNT(*); other counts cannot be answered yet.")
            return Output(expression.alias or DEFAULT_COUNT, None)
        if (key := self._sql(inner)) in keys:
            return Output(expression.alias or inner.name or inner.sql("duckdb"), keys.index(key))
        if isinstance(inner, exp.Column) and (name := self._name(inner)) in self.sensitive:
            raise QueryError(
                f"the {name!r} of single rows is protected, so it cannot be selected; count it instead, with GROUP BY "
                f"{name}."
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
            named = exp.column(exp.to_identifier(self._name(column), quoted=True))
            if column is copy:
                return str(named.sql("duckdb"))
            column.replace(named)
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


def quoted(name: str) -> str:
    """A name as SQL writes it if it may be anything."""
    return str(exp.to_identifier(name, quoted=True).sql("duckdb"))
