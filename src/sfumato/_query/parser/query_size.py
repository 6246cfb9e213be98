"""How large a question may be: its text, its tree, and the texts that it makes.

DuckDB is interrupted when time is over, but not while it takes a query apart or works on some thousands of rows, and
nobody interrupts us. So whatever could swell there is measured first: a name that stands for a whole expression, a text
that is replaced by a longer one, two texts that are compared letter by letter.
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
"""How many names, numbers and signs a question is made of, with everything that it names put in its place."""
MOST_SQL_PARTS = 4 * MOST_NODES
"""How many parts are written for DuckDB, which needs several for some functions."""
MOST_DEPTH = 150
"""How deep they are nested. Functions that call themselves go as deep, several calls for each level."""
MOST_TABLES = 50
"""More take DuckDB long to put in order, and it is not interrupted there."""
MOST_SETS = 256
"""How many grouping sets one GROUP BY may make."""
MOST_PARTS = 1 << 16
"""How many sums, numbers and signs the formula of one estimate may have."""
MOST_WEIGHTS = 2_000
"""How many sums of numbers and of their products one count may need."""
MOST_ALIAS_NODES = 2_000
"""How much aliases of the SELECT list may add, where they stand for what they name."""
LONGEST_TEXT = 1 << 16
"""How long a text may become; DuckDB makes two thousand of them at once."""
MOST_LETTER_PAIRS = 1 << 16
"""The letters of one text times those of another, where every pair of them is looked at."""
SCALAR_LENGTH = 64
"""No number, date or truth value is longer, written as a text."""
LETTERS_PER_BYTE = 8
"""How many letters a byte may become, as bits or as an escape."""

_CONCATENATIONS = (exp.Concat, exp.ConcatWs, exp.DPipe, exp.Tuple, exp.Array, exp.ArrayConcat, exp.Struct, exp.Map)
_CONCATENATION_NAMES = frozenset(["row", "list_zip"])
_REPLACEMENTS = (exp.Replace, exp.RegexpReplace, exp.TimeToStr)
_DISTANCE_FUNCTIONS = frozenset(["levenshtein", "damerau_levenshtein", "jaro_similarity", "jaro_winkler_similarity"])
_PLAIN_TYPES = exp.DataType.TEXT_TYPES | exp.DataType.NUMERIC_TYPES | exp.DataType.TEMPORAL_TYPES


def explain_too_large(most: str) -> QueryError:
    """What is said of a question that has too many of something."""
    return QueryError(
        f"the question is too large: {most} at most; ask for its parts one by one, or attach long lists as a table."
    )


def explain_too_deep() -> QueryError:
    """What is said of a question that is nested too deeply."""
    return QueryError("the question is nested too deeply; write long conditions as a list (IN), or attach a table.")


def check_text(sql: str) -> None:
    """Refuse a text that would take long to read."""
    if len(sql) > MOST_CHARACTERS:
        raise explain_too_large(f"{MOST_CHARACTERS:,} characters")


def count_nodes(tree: exp.Expr) -> int:
    """How many parts a tree has."""
    return sum(1 for _ in tree.walk())


@dataclass
class SizeBudget:
    """What may still be put into one question, where names stand for whole expressions."""

    remaining_nodes: int = MOST_NODES

    def copy_tree(self, tree: exp.Expr) -> exp.Expr:
        """A copy of a tree, if there is room for it."""
        self.remaining_nodes -= count_nodes(tree)
        if self.remaining_nodes < 0:
            raise explain_too_large(f"{MOST_NODES:,} names, numbers and signs")
        return tree.copy()


def check_tree(tree: exp.Expr) -> None:
    """Refuse a tree that has too many parts, is too deep, joins too many tables, or makes too many grouping sets.

    A part that stands once and is put in several times counts as often.
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
            raise explain_too_large(f"{MOST_NODES:,} names, numbers and signs")
        if tables > MOST_TABLES:
            raise explain_too_large(f"{MOST_TABLES} tables")
        waiting.extend((child, depth + 1, times * _count_copies(node, child)) for child in node.iter_expressions())


def _count_copies(node: exp.Expr, part: exp.Expr) -> int:
    """How often DuckDB puts in a part of a node: the subject of a CASE for each WHEN, a table for each star."""
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
    """Refuse a GROUP BY that makes too many grouping sets; they are counted, and none is made."""
    if math.prod(_count_sets(grouping) for grouping in group.expressions) > MOST_SETS:
        raise QueryError(f"the query makes more than {MOST_SETS} kinds of subtotals; ask for fewer.")


def _count_sets(element: exp.Expr) -> int:
    """How many grouping sets one part of GROUP BY makes."""
    if isinstance(element, exp.Cube):
        return int(2 ** min(len(element.expressions), MOST_SETS))
    if isinstance(element, exp.Rollup):
        return len(element.expressions) + 1
    if isinstance(element, exp.GroupingSets):
        return sum(map(_count_sets, element.expressions))
    return 1


def balance_tree(tree: exp.Expr) -> exp.Expr:
    """The same question, with long chains of AND and of OR as shallow trees; both are associative."""
    for kind in (exp.And, exp.Or):
        tops = [node for node in tree.find_all(kind) if not isinstance(node.parent, kind)]
        for top in tops:
            parts = _flatten_chain(top, kind)
            while len(parts) > 2:  # noqa: PLR2004 - the last two are joined by the top itself
                pairs = [parts[at : at + 2] for at in range(0, len(parts), 2)]
                parts = [kind(this=pair[0], expression=pair[1]) if pair[1:] else pair[0] for pair in pairs]
            top.set("this", parts[0])
            top.set("expression", parts[1])
    return tree


def _flatten_chain(top: exp.Expr, kind: type[exp.Connector]) -> list[exp.Expr]:
    """What a chain of one operator joins, in its order."""
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
    """Refuse a query that would make texts too long, or repeats its own expressions too often.

    How long the texts of the tables are at most is only asked where it matters.
    """
    makes_texts = any(
        _is_concatenation(node) or isinstance(node, _REPLACEMENTS) or _is_text_distance(node) for node in tree.walk()
    )
    column_length = max(SCALAR_LENGTH, longest() if makes_texts else 0)
    _TextMeasurer(column_length, max(LONGEST_TEXT, column_length)).measure(tree, _Scope(column_length))


def _is_concatenation(node: exp.Expr) -> bool:
    """Whether something holds all that it is made of: a text, a list, a row."""
    return isinstance(node, _CONCATENATIONS) or (
        isinstance(node, exp.Anonymous) and node.name.lower() in _CONCATENATION_NAMES
    )


def _is_text_distance(node: exp.Expr) -> bool:
    return isinstance(node, exp.Levenshtein) or (
        isinstance(node, exp.Anonymous) and node.name.lower() in _DISTANCE_FUNCTIONS
    )


@dataclass(frozen=True)
class _Scope:
    """How long the columns are that an expression sees, and what its aliases stand for."""

    column_length: int
    aliases: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """By their names in small letters: the length of the text, and the number of parts."""


@dataclass
class _TextMeasurer:
    column_length: int
    max_length: int
    alias_nodes: int = 0

    def measure(self, node: exp.Expr, scope: _Scope) -> int:
        """How long the text of an expression may be; the longest that it holds, where it is none."""
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
                f"the question makes texts of more than {self.max_length:,} letters, or lists that hold as much; join "
                "or replace fewer texts, or do it with the answer."
            )
        return result_length

    def _measure_result(self, node: exp.Expr, lengths: Sequence[int]) -> int:
        """The length of what a function makes of texts of given lengths."""
        if isinstance(node, exp.ConcatWs):
            return sum(lengths) + len(lengths) * lengths[0]
        if _is_concatenation(node):
            return sum(lengths)
        if isinstance(node, exp.Replace) and isinstance(node.expression, exp.Literal) and node.expression.name:
            return lengths[0] * max(1, -(-lengths[2] // lengths[1]))
        if isinstance(node, _REPLACEMENTS):
            # Every letter may be a match, and where nothing is matched, every gap between two.
            first, *others = lengths
            return max(first, SCALAR_LENGTH) * (1 + max(others, default=0))
        if isinstance(node, exp.Cast | exp.TryCast) and node.to.this not in _PLAIN_TYPES:
            return LETTERS_PER_BYTE * max(SCALAR_LENGTH, *lengths)
        if _is_text_distance(node) and lengths[0] * lengths[-1] > MOST_LETTER_PAIRS:
            raise QueryError(
                f"the question compares texts of up to {lengths[0]:,} and {lengths[-1]:,} letters with each other, "
                "letter by letter; compare their beginnings in a table of your own."
            )
        return max(SCALAR_LENGTH, *lengths) if lengths else SCALAR_LENGTH

    def _measure_column(self, node: exp.Column, scope: _Scope) -> int:
        length, parts = scope.aliases.get(node.name.lower(), (0, 0))
        self.alias_nodes += parts
        if self.alias_nodes > MOST_ALIAS_NODES:
            raise QueryError(
                "the question uses names of its own columns for more and more of them; write out what is meant."
            )
        return max(length, scope.column_length)

    def _measure_select(self, select: exp.Select, outer_scope: _Scope) -> int:
        """A query sees the columns of what it selects from, of what is around it, and its own before each."""
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
