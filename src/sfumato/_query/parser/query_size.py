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
from typing import Any

from sqlglot import exp

from sfumato.errors import QueryError

MOST_CHARACTERS = 1 << 16
MOST_NODES = 20_000
"""How many names, numbers and signs a question is made of, with everything that it names put in its place."""
MOST_WRITTEN = 4 * MOST_NODES
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
MOST_REPEATED = 2_000
"""How much aliases of the SELECT list may add, where they stand for what they name."""
LONGEST_TEXT = 1 << 16
"""How long a text may become; DuckDB makes two thousand of them at once."""
MOST_COMPARED = 1 << 16
"""The letters of one text times those of another, where every pair of them is looked at."""
SHORT = 64
"""No number, date or truth value is longer, written as a text."""
SWOLLEN_BYTE = 8
"""How many letters a byte may become, as bits or as an escape."""

_ADDED = (exp.Concat, exp.ConcatWs, exp.DPipe, exp.Tuple, exp.Array, exp.ArrayConcat, exp.Struct, exp.Map)
_ADDED_NAMED = frozenset(["row", "list_zip"])
_REPLACED = (exp.Replace, exp.RegexpReplace, exp.TimeToStr)
_COMPARED = frozenset(["levenshtein", "damerau_levenshtein", "jaro_similarity", "jaro_winkler_similarity"])
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


def count_nodes(tree: Any) -> int:
    """How many parts a tree has."""
    return sum(1 for _ in tree.walk())


@dataclass
class SizeBudget:
    """What may still be put into one question, where names stand for whole expressions."""

    left: int = MOST_NODES

    def take(self, tree: Any) -> Any:
        """A copy of a tree, if there is room for it."""
        self.left -= count_nodes(tree)
        if self.left < 0:
            raise explain_too_large(f"{MOST_NODES:,} names, numbers and signs")
        return tree.copy()


def check_tree(tree: Any) -> None:
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


def _count_copies(node: Any, part: Any) -> int:
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


def _is_star(expression: Any) -> bool:
    return expression.is_star or expression.find(exp.Columns) is not None


def check_sets(group: Any) -> None:
    """Refuse a GROUP BY that makes too many grouping sets; they are counted, and none is made."""
    if math.prod(_count_sets(grouping) for grouping in group.expressions) > MOST_SETS:
        raise QueryError(f"the query makes more than {MOST_SETS} kinds of subtotals; ask for fewer.")


def _count_sets(element: Any) -> int:
    """How many grouping sets one part of GROUP BY makes."""
    if isinstance(element, exp.Cube):
        return int(2 ** min(len(element.expressions), MOST_SETS))
    if isinstance(element, exp.Rollup):
        return len(element.expressions) + 1
    if isinstance(element, exp.GroupingSets):
        return sum(map(_count_sets, element.expressions))
    return 1


def balance_tree(tree: Any) -> Any:
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


def _flatten_chain(top: Any, kind: type[Any]) -> list[Any]:
    """What a chain of one operator joins, in its order."""
    operands: list[Any] = []
    waiting = [top]
    while waiting:
        node = waiting.pop()
        if isinstance(node, kind):
            waiting += [node.expression, node.this]
        else:
            operands.append(node)
    return operands


def check_texts(tree: Any, longest: Callable[[], int]) -> None:
    """Refuse a query that would make texts too long, or repeats its own expressions too often.

    How long the texts of the tables are at most is only asked where it matters.
    """
    makes_texts = any(_is_added(node) or isinstance(node, _REPLACED) or _is_compared(node) for node in tree.walk())
    column = max(SHORT, longest() if makes_texts else 0)
    _Measuring(column, max(LONGEST_TEXT, column)).length(tree, _Scope(column))


def _is_added(node: Any) -> bool:
    """Whether something holds all that it is made of: a text, a list, a row."""
    return isinstance(node, _ADDED) or (isinstance(node, exp.Anonymous) and node.name.lower() in _ADDED_NAMED)


def _is_compared(node: Any) -> bool:
    return isinstance(node, exp.Levenshtein) or (isinstance(node, exp.Anonymous) and node.name.lower() in _COMPARED)


@dataclass(frozen=True)
class _Scope:
    """How long the columns are that an expression sees, and what its aliases stand for."""

    column: int
    aliases: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """By their names in small letters: the length of the text, and the number of parts."""


@dataclass
class _Measuring:
    column: int
    most: int
    repeated: int = 0

    def length(self, node: Any, scope: _Scope) -> int:
        """How long the text of an expression may be; the longest that it holds, where it is none."""
        if isinstance(node, exp.Select):
            return self._selected(node, scope)
        if isinstance(node, exp.Literal):
            return len(node.name)
        if isinstance(node, exp.Table):
            return self.column
        if isinstance(node, exp.Column):
            return self._column(node, scope)
        lengths = [
            self.length(child, scope) for child in node.iter_expressions() if not isinstance(child, exp.Identifier)
        ]
        result_length = self._made(node, lengths)
        if result_length > self.most and result_length > max(lengths, default=0):
            raise QueryError(
                f"the question makes texts of more than {self.most:,} letters, or lists that hold as much; join or "
                "replace fewer texts, or do it with the answer."
            )
        return result_length

    def _made(self, node: Any, lengths: Sequence[int]) -> int:
        """The length of what a function makes of texts of given lengths."""
        if isinstance(node, exp.ConcatWs):
            return sum(lengths) + len(lengths) * lengths[0]
        if _is_added(node):
            return sum(lengths)
        if isinstance(node, exp.Replace) and isinstance(node.expression, exp.Literal) and node.expression.name:
            return lengths[0] * max(1, -(-lengths[2] // lengths[1]))
        if isinstance(node, _REPLACED):
            # Every letter may be a match, and where nothing is matched, every gap between two.
            first, *others = lengths
            return max(first, SHORT) * (1 + max(others, default=0))
        if isinstance(node, exp.Cast | exp.TryCast) and node.to.this not in _PLAIN_TYPES:
            return SWOLLEN_BYTE * max(SHORT, *lengths)
        if _is_compared(node) and lengths[0] * lengths[-1] > MOST_COMPARED:
            raise QueryError(
                f"the question compares texts of up to {lengths[0]:,} and {lengths[-1]:,} letters with each other, "
                "letter by letter; compare their beginnings in a table of your own."
            )
        return max(SHORT, *lengths) if lengths else SHORT

    def _column(self, node: exp.Column, scope: _Scope) -> int:
        length, parts = scope.aliases.get(node.name.lower(), (0, 0))
        self.repeated += parts
        if self.repeated > MOST_REPEATED:
            raise QueryError(
                "the question uses names of its own columns for more and more of them; write out what is meant."
            )
        return max(length, scope.column)

    def _selected(self, select: exp.Select, around: _Scope) -> int:
        """A query sees the columns of what it selects from, of what is around it, and its own before each."""
        first = select.args.get("from_") or select.args.get("from")
        sources = [*([] if first is None else [first]), *(select.args.get("joins") or ())]
        columns = [self.length(item.this, around) for item in sources]
        column = max(around.column, *columns, SHORT)
        aliases: dict[str, tuple[int, int]] = {}
        longest_output = column if select.is_star else SHORT
        for item in select.expressions:
            before = self.repeated
            length = self.length(item.unalias(), _Scope(column, aliases))
            longest_output = max(longest_output, length)
            if item.alias:
                aliases[item.alias.lower()] = length, count_nodes(item) + self.repeated - before
        scope, visible_scope = (
            _Scope(column, aliases),
            {id(item) for item in (*select.expressions, *(source.this for source in sources))},
        )
        for clause in select.iter_expressions():
            for item in clause.iter_expressions() if isinstance(clause, exp.From | exp.Join) else [clause]:
                if id(item) not in visible_scope:
                    self.length(item, scope)
        return longest_output
