"""The allowlist of SQL constructs.

Constructs that are not on the list are rejected, because a question may come from a stranger. No construct on the list
reads a file, a setting, a clock or a random number.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from importlib.metadata import version
from typing import Any, ClassVar

import sqlglot
from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB

from sfumato._query.parser import query_size
from sfumato.errors import InternalError, QueryError

Tree = Any
"""A node of a parsed query; its class name depends on the version of the parser."""


def _find_classes(names: str) -> tuple[type[exp.Expr], ...]:
    """Looks up constructs by their names in sqlglot.

    An unknown name raises an error. Without the error, the list would allow less than it appears to allow.
    """
    if lacking := [name for name in names.split() if not hasattr(exp, name)]:
        raise InternalError(
            f"sqlglot {version('sqlglot')} does not know {', '.join(lacking)}; update sfumato or sqlglot.",
            code="incompatible-library",
            fields={"package": "sqlglot"},
        )
    return tuple(getattr(exp, name) for name in names.split())


OPERATORS = _find_classes(
    "And Or Not Paren EQ NEQ LT LTE GT GTE NullSafeEQ NullSafeNEQ Between In Tuple Like ILike Escape SimilarTo "
    "RegexpLike Is Null Boolean Literal Neg Add Sub Mul Div IntDiv Mod Pow DPipe Column Identifier Cast TryCast "
    "DataType DataTypeParam Case If Coalesce Nullif Interval Var"
)
FUNCTIONS = _find_classes(
    "Abs Ceil Floor Round Trunc Sign Sqrt Cbrt Exp Ln Log Greatest Least Length Lower Upper Trim Substring Left Right "
    "Concat ConcatWs Replace StrPosition StartsWith EndsWith Contains Reverse RegexpReplace RegexpExtract Levenshtein "
    "IsNan IsInf Year Month Day Quarter Week WeekOfYear DayOfWeek DayOfWeekIso DayOfMonth DayOfYear Hour Minute Second "
    "Extract TimestampTrunc DateTrunc DateDiff DateAdd DateSub TsOrDsAdd TimeToStr StrToTime StrToDate "
    "DateFromParts LastDay Dayname Monthname Date TsOrDsToDate Unicode Chr"
)
_FUNCTION_NAMES = (
    "date_part datepart date_trunc contains prefix suffix isnan isinf isfinite isodow isoyear yearweek weekday "
    "dayname monthname strlen trunc even log2 log10 century decade era epoch julian make_date damerau_levenshtein "
    "hamming jaccard jaro_similarity jaro_winkler_similarity strip_accents instr position round_even signbit gcd "
    "lcm date_diff datediff date_sub datesub left right ifnull"
)
FUNCTION_NAMES = frozenset(_FUNCTION_NAMES.split())
"""Functions of DuckDB that the parser keeps unchanged."""

AGGREGATES = _find_classes("Count CountIf Sum Avg")
"""The aggregates that can be estimated."""

PUBLIC_AGGREGATES = _find_classes(
    "Min Max Median Mode Stddev StddevPop StddevSamp Variance VariancePop Quantile PercentileCont "
    "PercentileDisc Corr CovarPop CovarSamp ArgMax ArgMin AnyValue LogicalAnd LogicalOr ApproxDistinct ApproxQuantile "
    "ArrayAgg GroupConcat First Last Kurtosis Skewness BitwiseAndAgg BitwiseOrAgg BitwiseXorAgg WithinGroup Grouping "
    "RegrSlope RegrIntercept RegrR2 RegrCount RegrAvgx RegrAvgy RegrSxx RegrSyy RegrSxy"
)
CLAUSES = _find_classes(
    "Select From Join Where Group Having Order Ordered Limit LimitOptions Offset Distinct Subquery Table TableAlias "
    "Alias Star Filter Exists Window WindowSpec RowNumber Rank DenseRank Lag Lead FirstValue LastValue NthValue Ntile "
    "PercentRank CumeDist IgnoreNulls RespectNulls Qualify Rollup Cube GroupingSets Union Intersect Except With CTE "
    "Values Unnest Explode Lateral Columns Any All"
)
COLLECTIONS = _find_classes(
    "Array Bracket Slice Struct PropertyEQ Map Lambda Transform Comprehension ArraySort ArrayContains "
    "ArrayConcat ArrayFilter ArrayDistinct Dot Split SplitPart Sin Cos Tan Cot Asin Acos Atan Atan2 Degrees "
    "Radians Pi WidthBucket BitwiseAnd BitwiseOr BitwiseXor BitwiseNot BitwiseLeftShift BitwiseRightShift DateBin"
)
"""Constructs that only queries of public columns may use."""

WINDOWS = _find_classes(
    "Window WindowSpec Order Ordered RowNumber Rank DenseRank PercentRank CumeDist Ntile Lag Lead FirstValue LastValue "
    "NthValue Sum Avg Count Min Max Filter Where Star IgnoreNulls RespectNulls"
)
"""Constructs of windows over the rows of an answer."""

EXPRESSIONS = OPERATORS + FUNCTIONS
PUBLIC_CONSTRUCTS = EXPRESSIONS + AGGREGATES + PUBLIC_AGGREGATES + CLAUSES + COLLECTIONS
_PUBLIC_FUNCTION_NAMES = (
    "histogram mad entropy product favg fsum sem geomean mode list_sort list_reverse_sort list_distinct list_unique "
    "list_sum list_avg list_min list_max list_median list_contains list_has_any list_position list_slice "
    "list_aggregate list_zip len cardinality map_keys map_values map_extract element_at struct_extract row "
    "regexp_split_to_array string_split max_by min_by arg_min arg_max hash"
)
PUBLIC_FUNCTION_NAMES = FUNCTION_NAMES | frozenset(_PUBLIC_FUNCTION_NAMES.split())
"""Functions that only queries of public columns may use. Functions that make strings of any length, such as REPEAT, are
not allowed."""

STATEMENTS = _find_classes("Describe Summarize Show Pivot")
"""Statements that are not queries. Each is answered, or rejected with a proposal of a query that works."""

_PLAIN_WORD = re.compile(r"[A-Za-z][A-Za-z _]*")


def parse(sql: str) -> Tree:
    """Parses one SELECT or several joined SELECTs, within the size limits."""
    query_size.check_text(sql)
    try:
        trees = sqlglot.parse(sql, dialect="duckdb")
    except RecursionError as error:
        raise query_size.explain_too_deep() from error
    except sqlglot.errors.SqlglotError as error:
        raise QueryError(f"this SQL cannot be parsed: {str(error).splitlines()[0]}", code="invalid-sql") from error
    if len(trees) != 1 or not isinstance(trees[0], (exp.Query, *STATEMENTS)) or "\0" in sql:
        raise QueryError(
            "write a single SELECT, such as SELECT COUNT(*) FROM release WHERE age > 30.", code="not-one-select"
        )
    tree: Tree = trees[0]
    for node in tree.walk():  # a comment could contain anything
        node.comments = None
        node.meta.clear()
    query: Tree = query_size.balance_tree(tree)
    query_size.check_tree(query)
    while isinstance(query, exp.Subquery) and not any(value for name, value in query.args.items() if name != "this"):
        query = query.this
    return query


def check(tree: Tree, allowed: tuple[type[exp.Expr], ...], function_names: frozenset[str] = FUNCTION_NAMES) -> None:
    """Rejects a tree with a construct that is not on the list."""
    for node in tree.walk():
        if not _is_known(node, allowed, function_names):
            raise QueryError(
                f"{write_sql(node)!r} cannot be answered; use comparisons, AND, OR, NOT, IN, BETWEEN, LIKE, and "
                "functions of strings, numbers and dates.",
                code="unsupported-expression",
                fields={"expression": write_sql(node)},
            )


class OwnSql(exp.Expression):
    """SQL from sfumato itself. It is inserted into a tree unchanged, and the parser never creates this node."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True}


class OwnColumn(exp.Column):
    """A column named by sfumato. No name in a query can refer to it, and the parser never creates this node."""


class _Generator(DuckDB.Generator):  # type: ignore[valid-type, misc]
    """Writes trees for DuckDB, including the nodes that sfumato inserts."""

    TRANSFORMS: ClassVar[dict[Any, Any]] = {
        **DuckDB.Generator.TRANSFORMS,
        OwnSql: lambda self, node: node.args["this"],
        OwnColumn: lambda self, node: self.column_sql(node),
    }
    part_count = 0

    def sql(self, *args: Any, **options: Any) -> str:
        """Writes a part within a size limit. If DuckDB lacks a function, repeated parts replace it."""
        self.part_count += 1
        if self.part_count > query_size.MOST_SQL_PARTS:
            raise query_size.explain_too_large(
                query_size.MOST_SQL_PARTS, "names, numbers and signs, as it is written for DuckDB,"
            )
        return str(super().sql(*args, **options))


def make_ready_sql(sql: str) -> Tree:
    """Wraps SQL from sfumato itself, to insert it into a tree unchanged."""
    return OwnSql(this=sql)


def _is_known(node: Tree, allowed: tuple[type[exp.Expr], ...], function_names: frozenset[str]) -> bool:
    if isinstance(node, OwnSql | exp.Literal | exp.Identifier):
        return True
    if isinstance(node, exp.Anonymous):
        return node.name.lower() in function_names
    if not isinstance(node, allowed) or (isinstance(node, exp.DataType) and not _is_known_type(node)):
        return False
    return all(_PLAIN_WORD.fullmatch(text) for text in _list_texts(node.args.values()))


def _is_known_type(node: Tree) -> bool:
    """Whether a type name is known. An unknown name would reach DuckDB unchanged and could contain any code."""
    return isinstance(node.this, exp.DataType.Type) and node.this is not exp.DataType.Type.USERDEFINED


def _list_texts(arguments: Iterable[object]) -> Iterable[str]:
    """The plain strings in a node, such as the unit of a date. These strings are written unchanged."""
    return (argument for argument in arguments if isinstance(argument, str) and argument)


def write_sql(tree: Tree) -> str:
    """Writes a tree for DuckDB, without its comments."""
    return str(_Generator(dialect="duckdb", comments=False).generate(tree))


def split_conjuncts(expression: Tree) -> Iterable[Tree]:
    """The parts of a condition that are joined by AND."""
    if isinstance(expression, exp.And):
        yield from split_conjuncts(expression.this)
        yield from split_conjuncts(expression.expression)
    elif isinstance(expression, exp.Paren) and isinstance(expression.this, exp.And | exp.Paren):
        yield from split_conjuncts(expression.this)
    else:
        yield expression


def unwrap(expression: Tree) -> Tree:
    """The expression without the parentheses around it."""
    while isinstance(expression, exp.Paren):
        expression = expression.this
    return expression


def write_limit(query: Tree) -> str:
    """Writes LIMIT and OFFSET of a query."""
    parts = []
    for name, keyword in (("limit", "LIMIT"), ("offset", "OFFSET")):
        clause = query.args.get(name)
        if clause is None:
            continue
        number = clause.expression
        if not (isinstance(number, exp.Literal) and number.is_int):
            raise QueryError(f"{keyword} needs a whole number.", code="not-a-whole-number", fields={"clause": keyword})
        parts.append(f"{keyword} {int(number.name)}")
    return " ".join(parts)
