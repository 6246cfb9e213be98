"""Turns aggregates into sums over records. Each record adds a public factor times a score of its sensitive value.

COUNT adds 1, and SUM adds a column. AVG is a SUM divided by a COUNT.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from sfumato._query.duckdb_session import Session
from sfumato._query.formula_estimation import Arithmetic, Formula, Sum
from sfumato._query.parser import allowed_sql, public_queries, range_comparisons
from sfumato._query.parser.allowed_sql import Tree
from sfumato._query.parser.column_names import ColumnNames
from sfumato._query.parser.conditions import Condition, split_conditions
from sfumato._query.parser.variance_functions import is_spread, make_spread_formula
from sfumato._query.unknown_literals import check_literals
from sfumato._request.person_rows import PersonBasis
from sfumato.errors import QueryError


@dataclass(frozen=True)
class Total:
    """A sum over the records that satisfy a condition. Each record adds factor times score."""

    condition: Condition
    factor: str | None = None
    """An expression over public columns. None means 1. A record adds nothing if its value is missing."""
    score: str | None = None
    """An expression over sensitive columns. None means 1. A record adds nothing if its value is missing."""

    @property
    def is_count(self) -> bool:
        """Whether every record that satisfies the condition adds 1."""
        return self.factor is None and self.score is None


SIGNS: Mapping[type[exp.Expr], str] = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/"}


class Aggregates:
    """Collects the sums that a query needs, and turns its aggregates into formulas over them."""

    def __init__(self, names: ColumnNames, session: Session, records: str) -> None:
        self.names = names
        self.records = records
        self.session = session
        self.ranges = session.manifest.ranges
        self.totals: dict[Total, int] = {}

    def parse_aggregate(self, node: Tree) -> Formula:
        """Turns an aggregate, with its FILTER, into a formula."""
        where: list[Tree] = []
        if isinstance(node, exp.Filter):
            where.append(self.resolve(node.expression.this))
            node = node.this
        if is_spread(node):
            return make_spread_formula(node, where, self)
        if not isinstance(node, allowed_sql.AGGREGATES):
            raise self._explain_unknown(node)
        inner = node.this
        if isinstance(inner, exp.Distinct):
            raise self._explain_distinct(node)
        if set(node.args) - {"this", "big_int", "expressions"} or node.expressions:
            raise self._explain_unknown(node)
        if isinstance(node, exp.Count):
            return self._parse_count(inner, where)
        value = self.resolve(inner)
        if isinstance(node, exp.CountIf):
            return self._add_total(Total(self._split([*where, value])))
        sum_formula = self.make_sum(value, where)
        if isinstance(node, exp.Sum):
            return sum_formula
        return Arithmetic("/", sum_formula, self._add_total(Total(self._split([*where, _make_not_null(value)]))))

    def _explain_distinct(self, node: Tree) -> QueryError:
        """Makes the error for COUNT(DISTINCT). It proposes COUNT(*) if each person has one row."""
        manifest = self.session.manifest
        people = " Each person has one row here, so COUNT(*) counts people." if manifest.count_unit == "people" else ""
        if manifest.person_check is not None and manifest.person_check.basis is PersonBasis.STATED:
            people = " The publisher states that each row is a different person, so COUNT(*) counts people."
        try:
            for expression in node.this.expressions:
                self.resolve(expression)
        except QueryError as error:  # this may be a patient number, for example, which no release contains
            return QueryError(f"{error}{people}", code=error.code, fields=error.fields)
        return QueryError(
            f"{allowed_sql.write_sql(node)} cannot be answered, because a release gives frequencies and does not "
            "show which values occur; count the values with GROUP BY. To count distinct values of public columns, "
            f"write a query without sensitive columns.{people}",
            code="count-of-different-values",
        )

    def _parse_count(self, inner: Tree, where: list[Tree]) -> Formula:
        if isinstance(inner, exp.Star):
            if any(inner.args.values()):
                raise QueryError("use COUNT(*) to count rows.", code="count-of-expression")
            return self._add_total(Total(self._split(where)))
        value = self.resolve(inner)
        if not self.names.find_keys(value) and not isinstance(value, exp.Null):
            return self._add_total(Total(self._split(where)))
        return self._add_total(Total(self._split([*where, _make_not_null(value)])))

    def make_sum(self, value: Tree, where: list[Tree]) -> Formula:
        """Turns the sum of an expression into public factors times sensitive scores."""
        value = allowed_sql.unwrap(value)
        case = _parse_case(value)
        if case is not None and not self.names.is_public(value) and not self.names.is_sensitive(value):
            return self.make_sum(case[1], [*where, case[0]])
        range_comparisons.check_sum(value, self.ranges)
        factors, scores = [], []
        for factor in _split_factors(value):
            if self.names.is_public(factor):
                factors.append(f"({allowed_sql.write_sql(factor)})")
            elif self.names.is_sensitive(factor):
                scores.append(f"({allowed_sql.write_sql(factor)})")
            else:
                raise QueryError(
                    f"{allowed_sql.write_sql(factor)} mixes public and sensitive columns; write it as a product, as "
                    "SUM(...) + SUM(...), or as SUM(...) FILTER (WHERE ...).",
                    code="mixed-expression",
                )
        return self._add_total(Total(self._split(where), " * ".join(factors) or None, " * ".join(scores) or None))

    def make_count(self, where: Sequence[Tree]) -> Formula:
        """The number of records that satisfy the conditions."""
        return self._add_total(Total(self._split(where)))

    def compute_centre(self, value: Tree) -> float:
        """The mean of a public expression over all records. For a sensitive expression, the result is zero."""
        if not self.names.is_public(value):
            return 0.0
        sql = f"SELECT AVG(CAST({allowed_sql.write_sql(value)} AS DOUBLE)) FROM {self.records}"
        ((mean,),) = self.session.fetch_rows(sql)
        return 0.0 if mean is None or not math.isfinite(mean) else round(float(mean), 6)

    def resolve(self, expression: Tree) -> Tree:
        """The expression with every column resolved."""
        self.session.clock.check()
        expression = public_queries.run_subqueries(expression, self.session)
        allowed_sql.check(expression, allowed_sql.EXPRESSIONS)
        return check_literals(self.names.resolve(expression), self.session)

    def _split(self, expressions: Iterable[Tree]) -> Condition:
        return split_conditions(expressions, self.names)

    def _add_total(self, total: Total) -> Sum:
        return Sum(self.totals.setdefault(total, len(self.totals)))

    def _explain_unknown(self, node: Tree) -> QueryError:
        sql = allowed_sql.write_sql(node)
        if isinstance(node, exp.AggFunc):
            return QueryError(
                f"{sql} cannot be estimated with a known error, because single records decide it; "
                f"{self._propose_aggregate(node)}.",
                code="unsupported-aggregate",
                fields={"aggregate": sql},
            )
        return QueryError(
            f"{sql!r} cannot be computed from estimates. Use + - * / of COUNT, SUM, AVG and numbers, or transform "
            "the numbers of the answer yourself.",
            code="not-linear",
        )

    def _propose_aggregate(self, node: Tree) -> str:
        """Advises what to ask instead. The advice depends on the type of the column and on its protection."""
        column = next(node.find_all(exp.Column), None)
        if column is None:
            return "ask for COUNT(*)"
        name, resolved = allowed_sql.write_sql(column), self.resolve(column.copy())
        manifest = self.session.manifest
        types = {field.name: field.type for field in manifest.fields}
        types |= zip(manifest.sensitive_columns, manifest.sensitive_types, strict=True)
        key = next(iter(resolved.find_all(exp.Column))).name
        if types.get(key) not in ("integer", "number") or key in self.ranges:
            return f"count its values with GROUP BY {name}"
        if self.names.is_public(resolved):
            return f"ask for AVG({name}), STDDEV({name}) or QUANTILE_CONT({name}, 0.95)"
        return f"ask for AVG({name}) or STDDEV({name}), or count its values with GROUP BY {name}"


def _make_not_null(value: Tree) -> Tree:
    return exp.Not(this=exp.Is(this=exp.paren(value.copy()), expression=exp.Null()))


def _parse_case(value: Tree) -> tuple[Tree, Tree] | None:
    """The condition and the value of a CASE with one branch. The alternative is missing or zero."""
    if not isinstance(value, exp.Case) or value.this or len(value.args["ifs"]) != 1:
        return None
    default = value.args.get("default")
    if default is not None and allowed_sql.write_sql(default) not in ("0", "0.0", "NULL"):
        return None
    branch = value.args["ifs"][0]
    return branch.this, branch.args["true"]


def _split_factors(value: Tree) -> list[Tree]:
    value = allowed_sql.unwrap(value)
    return [*_split_factors(value.this), *_split_factors(value.expression)] if isinstance(value, exp.Mul) else [value]
