"""Limits the size of a question: the size of its text, its tree, and the strings that it creates.

DuckDB can be interrupted, but not while it plans a query or processes a few thousand rows. So everything that could
grow in this time is measured first. Examples are names that stand for whole expressions, replacements by longer
strings, and letter-by-letter comparisons of strings.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from sfumato.errors import QueryError

MOST_CHARACTERS = 1 << 16
MOST_NODES = 20_000
"""The largest number of names, numbers and signs in a question, with all named expressions inserted."""
MOST_SQL_PARTS = 4 * MOST_NODES
"""The largest number of parts in the SQL for DuckDB. Some functions need several parts."""
MOST_DEPTH = 150
"""The deepest nesting. Recursive functions reach this depth with several calls for each level."""
MOST_TABLES = 50
"""The largest number of tables. DuckDB takes long to plan more tables, and cannot be interrupted meanwhile."""
MOST_SETS = 256
"""The largest number of grouping sets in one GROUP BY."""
MOST_PARTS = 1 << 16
"""The largest number of sums, numbers and signs in the formula of one estimate."""
MOST_WEIGHTS = 2_000
"""The largest number of sums for one count. These are sums of numbers and of products of numbers."""
MOST_ALIAS_NODES = 2_000
"""The largest size that inserting aliases of the SELECT list may add."""
LONGEST_TEXT = 1 << 16
"""The longest possible string. DuckDB builds two thousand strings at once."""
MOST_LETTER_PAIRS = 1 << 16
"""For a function that compares two strings letter by letter, the largest product of their lengths."""
SCALAR_LENGTH = 64
"""The longest number, date or boolean, written as a string."""
LETTERS_PER_BYTE = 8
"""The largest number of letters that a byte may become, as bits or as an escape."""

_CONCATENATIONS = (exp.Concat, exp.ConcatWs, exp.DPipe, exp.Tuple, exp.Array, exp.ArrayConcat, exp.Struct, exp.Map)
_CONCATENATION_NAMES = frozenset(["row", "list_zip"])
_REPLACEMENTS = (exp.Replace, exp.RegexpReplace, exp.TimeToStr)
_DISTANCE_FUNCTIONS = frozenset(["levenshtein", "damerau_levenshtein", "jaro_similarity", "jaro_winkler_similarity"])
_PLAIN_TYPES = exp.DataType.TEXT_TYPES | exp.DataType.NUMERIC_TYPES | exp.DataType.TEMPORAL_TYPES


def explain_too_large(limit: int, parts: str) -> QueryError:
    """Makes the error for a question with too many parts of one kind."""
    return QueryError(
        f"the question is too large: it may have at most {limit:,} {parts}. Ask several smaller questions, or attach "
        "long lists as a table.",
        code="query-too-large",
        fields={"limit": limit},
    )


def explain_too_deep() -> QueryError:
    """Makes the error for a question that is nested too deeply."""
    return QueryError(
        "the question is nested too deeply; write long conditions as a list (IN), or attach a table.",
        code="query-too-deep",
    )


def check_text(sql: str) -> None:
    """Rejects a text that would take long to parse."""
    if len(sql) > MOST_CHARACTERS:
        raise explain_too_large(MOST_CHARACTERS, "characters")


def count_nodes(tree: exp.Expr) -> int:
    """The number of nodes of a tree."""
    return sum(1 for _ in tree.walk())


@dataclass
class SizeBudget:
    """The size that a question may still gain from replacing names by their expressions."""

    remaining_nodes: int = MOST_NODES

    def copy_tree(self, tree: exp.Expr) -> exp.Expr:
        """Copies a tree, if there is room for it."""
        self.remaining_nodes -= count_nodes(tree)
        if self.remaining_nodes < 0:
            raise explain_too_large(MOST_NODES, "names, numbers and signs")
        return tree.copy()


def check_tree(tree: exp.Expr) -> None:
    """Rejects a tree with too many parts, tables or grouping sets, or with too deep nesting.

    If DuckDB copies a part, each copy counts.
    """
    node_count = tables = 0
    waiting = [(tree, 1, 1)]
    while waiting:
        node, depth, times = waiting.pop()
        node_count += times
        tables += isinstance(node, exp.Table)
        if isinstance(node, exp.Group):
            check_sets(node)
        if depth > MOST_DEPTH:
            raise explain_too_deep()
        if node_count > MOST_NODES:
            raise explain_too_large(MOST_NODES, "names, numbers and signs")
        if tables > MOST_TABLES:
            raise explain_too_large(MOST_TABLES, "tables")
        waiting.extend((child, depth + 1, times * _count_copies(node, child)) for child in node.iter_expressions())


def _count_copies(node: exp.Expr, part: exp.Expr) -> int:
    """The number of copies that DuckDB makes of a part.

    It copies the subject of a CASE for each WHEN, and a table for each star.
    """
    if isinstance(node, exp.Case) and part is node.this:
        return max(1, len(node.args["ifs"]))
    if isinstance(node, exp.Nullif | exp.In | exp.Between) and part is node.this and not isinstance(part, exp.Column):
        return 2
    if isinstance(node, exp.Select) and isinstance(part, exp.From | exp.Join):
        stars = Counter(
            star.table if isinstance(star, exp.Column) else "" for star in filter(_is_star, node.expressions)
        )
        everything = stars.pop("", 0)
        return max(1, everything + max(stars.values(), default=0))
    return 1


def _is_star(expression: exp.Expr) -> bool:
    return expression.is_star or expression.find(exp.Columns) is not None


def check_sets(group: exp.Group) -> None:
    """Rejects a GROUP BY with too many grouping sets, without building them."""
    if math.prod(_count_sets(grouping) for grouping in group.expressions) > MOST_SETS:
        raise QueryError(
            f"the query makes more than {MOST_SETS} kinds of subtotals; use fewer grouping sets.",
            code="too-many-subtotals",
            fields={"limit": MOST_SETS},
        )


def _count_sets(element: exp.Expr) -> int:
    """The number of grouping sets from one part of GROUP BY."""
    if isinstance(element, exp.Cube):
        return int(2 ** min(len(element.expressions), MOST_SETS))
    if isinstance(element, exp.Rollup):
        return len(element.expressions) + 1
    if isinstance(element, exp.GroupingSets):
        return sum(map(_count_sets, element.expressions))
    return 1


def balance_tree(tree: exp.Expr) -> exp.Expr:
    """Rebuilds long chains of AND or OR as shallow trees. This is allowed because both operators are associative."""
    for kind in (exp.And, exp.Or):
        tops = [node for node in tree.find_all(kind) if not isinstance(node.parent, kind)]
        for top in tops:
            parts = _flatten_chain(top, kind)
            while len(parts) > 2:  # noqa: PLR2004 - the top node joins the last two operands
                pairs = [parts[at : at + 2] for at in range(0, len(parts), 2)]
                parts = [kind(this=pair[0], expression=pair[1]) if pair[1:] else pair[0] for pair in pairs]
            top.set("this", parts[0])
            top.set("expression", parts[1])
    return tree


def _flatten_chain(top: exp.Expr, kind: type[exp.Connector]) -> list[exp.Expr]:
    """The operands in a chain of one operator, in order."""
    operands: list[exp.Expr] = []
    waiting = [top]
    while waiting:
        node = waiting.pop()
        if isinstance(node, kind):
            waiting += [node.expression, node.this]
        else:
            operands.append(node)
    return operands


def check_texts(tree: exp.Expr, longest: Callable[[], int]) -> None:
    """Rejects a query whose strings could become too long, or that repeats its own expressions too often.

    `longest` is called only if the length of the strings in the tables matters.
    """
    makes_texts = any(
        _is_concatenation(node) or isinstance(node, _REPLACEMENTS) or _is_text_distance(node) for node in tree.walk()
    )
    column_length = max(SCALAR_LENGTH, longest() if makes_texts else 0)
    _TextMeasurer(column_length, max(LONGEST_TEXT, column_length)).measure(tree, _Scope(column_length))


def _is_concatenation(node: exp.Expr) -> bool:
    """Whether a result (a string, a list or a row) contains all of its parts."""
    return isinstance(node, _CONCATENATIONS) or (
        isinstance(node, exp.Anonymous) and node.name.lower() in _CONCATENATION_NAMES
    )


def _is_text_distance(node: exp.Expr) -> bool:
    return isinstance(node, exp.Levenshtein) or (
        isinstance(node, exp.Anonymous) and node.name.lower() in _DISTANCE_FUNCTIONS
    )


@dataclass(frozen=True)
class _Scope:
    """The lengths of the visible columns, and the meanings of the aliases."""

    column_length: int
    aliases: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """The string length and the number of parts of each alias, by its lower-case name."""


@dataclass
class _TextMeasurer:
    column_length: int
    max_length: int
    alias_nodes: int = 0

    def measure(self, node: exp.Expr, scope: _Scope) -> int:
        """The largest length of an expression's string.

        If another value contains strings, the length of the longest.
        """
        if isinstance(node, exp.Select):
            return self._measure_select(node, scope)
        if isinstance(node, exp.Literal):
            return len(node.name)
        if isinstance(node, exp.Table):
            return self.column_length
        if isinstance(node, exp.Column):
            return self._measure_column(node, scope)
        lengths = [
            self.measure(child, scope) for child in node.iter_expressions() if not isinstance(child, exp.Identifier)
        ]
        result_length = self._measure_result(node, lengths)
        if result_length > self.max_length and result_length > max(lengths, default=0):
            raise QueryError(
                f"the question creates strings or lists of more than {self.max_length:,} letters; join or replace "
                "fewer strings, or transform the answer instead.",
                code="strings-too-long",
                fields={"limit": self.max_length},
            )
        return result_length

    def _measure_result(self, node: exp.Expr, lengths: Sequence[int]) -> int:
        """The length of a function's string result, from the lengths of its arguments."""
        if isinstance(node, exp.ConcatWs):
            return sum(lengths) + len(lengths) * lengths[0]
        if _is_concatenation(node):
            return sum(lengths)
        if isinstance(node, exp.Replace) and isinstance(node.expression, exp.Literal) and node.expression.name:
            return lengths[0] * max(1, -(-lengths[2] // lengths[1]))
        if isinstance(node, _REPLACEMENTS):
            # Every letter may match. An empty pattern may match every gap between two letters.
            first, *others = lengths
            return max(first, SCALAR_LENGTH) * (1 + max(others, default=0))
        if isinstance(node, exp.Cast | exp.TryCast) and node.to.this not in _PLAIN_TYPES:
            return LETTERS_PER_BYTE * max(SCALAR_LENGTH, *lengths)
        if _is_text_distance(node) and lengths[0] * lengths[-1] > MOST_LETTER_PAIRS:
            raise QueryError(
                f"the question compares strings of up to {lengths[0]:,} and {lengths[-1]:,} letters with each other, "
                "letter by letter; compare only the beginnings of these strings, in a table of your own.",
                code="strings-too-long-to-compare",
            )
        return max(SCALAR_LENGTH, *lengths) if lengths else SCALAR_LENGTH

    def _measure_column(self, node: exp.Column, scope: _Scope) -> int:
        length, parts = scope.aliases.get(node.name.lower(), (0, 0))
        self.alias_nodes += parts
        if self.alias_nodes > MOST_ALIAS_NODES:
            raise QueryError(
                "the question uses the names of its own columns too often in further columns; write the expressions "
                "instead of the names.",
                code="aliases-too-large",
                fields={"limit": MOST_ALIAS_NODES},
            )
        return max(length, scope.column_length)

    def _measure_select(self, select: exp.Select, outer_scope: _Scope) -> int:
        """Measures a SELECT. It can use the columns of its tables, of outer queries, and its own earlier columns."""
        first = select.args.get("from_") or select.args.get("from")
        sources = [*([] if first is None else [first]), *(select.args.get("joins") or ())]
        source_lengths = [self.measure(item.this, outer_scope) for item in sources]
        column_length = max(outer_scope.column_length, *source_lengths, SCALAR_LENGTH)
        aliases: dict[str, tuple[int, int]] = {}
        longest_output = column_length if select.is_star else SCALAR_LENGTH
        for item in select.expressions:
            nodes_before = self.alias_nodes
            length = self.measure(item.unalias(), _Scope(column_length, aliases))
            longest_output = max(longest_output, length)
            if item.alias:
                aliases[item.alias.lower()] = length, count_nodes(item) + self.alias_nodes - nodes_before
        scope, measured_ids = (
            _Scope(column_length, aliases),
            {id(item) for item in (*select.expressions, *(source.this for source in sources))},
        )
        for clause in select.iter_expressions():
            for item in clause.iter_expressions() if isinstance(clause, exp.From | exp.Join) else [clause]:
                if id(item) not in measured_ids:
                    self.measure(item, scope)
        return longest_output
