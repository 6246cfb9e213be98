"""A query with sensitive columns, taken apart: what to count, how to group, and what to show of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlglot import exp

from sfumato.errors import QueryError
from sfumato.estimate.connection import Session
from sfumato.estimate.sql import grammar, public
from sfumato.estimate.sql.aggregates import Aggregates, Total, is_arithmetic
from sfumato.estimate.sql.conditions import Condition, split
from sfumato.estimate.sql.formulas import Formula, Sum
from sfumato.estimate.sql.grammar import Tree
from sfumato.estimate.sql.names import Names, is_of_answer, of_answer
from sfumato.estimate.sql.naming import DEFAULT_COUNT, output_names
from sfumato.estimate.sql.sources import FromClause, filters_only, source_of
from sfumato.estimate.unheard import checked
from sfumato.shown.quoting import TABLE, plain_name

KNOWN_CLAUSES = {
    "expressions", "from", "from_", "joins", "where", "group", "having", "order", "limit", "offset", "kind",
}  # fmt: skip


@dataclass(frozen=True)
class Group:
    """What to group by: an expression over public columns, or one over sensitive columns."""

    sql: str
    is_sensitive: bool


@dataclass(frozen=True)
class Output:
    """One column of the answer: a number to estimate, or an expression over the groups."""

    name: str
    formula: int | None
    sql: str
    """Over the columns `k0`, `k1`, ... of the groups and `e0`, `e1`, ... of the formulas."""

    @property
    def columns(self) -> list[str]:
        """The columns of the answer that it fills."""
        return [self.name] if self.formula is None else [*number_columns(self.name), note_column(self.name)]


@dataclass(frozen=True)
class Selection:
    """Which rows of the answer to show, in which order, by the same columns."""

    having: str | None = None
    order: str | None = None
    limit: str | None = None
    by_formulas: frozenset[int] = frozenset()
    """The formulas that decide."""

    @property
    def is_all(self) -> bool:
        """Whether every row is shown, as it comes."""
        return self.having is None and self.order is None and self.limit is None


@dataclass(frozen=True)
class Question:
    """Everything that a query asks."""

    source: FromClause
    where: Condition
    groups: tuple[Group, ...]
    totals: tuple[Total, ...]
    formulas: tuple[Formula, ...]
    outputs: tuple[Output, ...]
    selection: Selection

    @property
    def public_groups(self) -> tuple[str, ...]:
        """The expressions over public columns."""
        return tuple(group.sql for group in self.groups if not group.is_sensitive)

    @property
    def sensitive_groups(self) -> tuple[str, ...]:
        """The expressions over sensitive columns."""
        return tuple(group.sql for group in self.groups if group.is_sensitive)

    @property
    def public_names(self) -> tuple[str, ...]:
        """What the public groups are called: as in the answer, where they are shown."""
        shown = {output.sql: output.name for output in self.outputs if output.formula is None}
        numbered = enumerate(self.groups)
        return tuple(shown.get(f'"k{at}"', group.sql) for at, group in numbered if not group.is_sensitive)

    def is_count(self, output: Output) -> bool:
        """Whether an output is COUNT(*), without a condition of its own."""
        formula = None if output.formula is None else self.formulas[output.formula]
        return isinstance(formula, Sum) and self.totals[formula.number] == Total(Condition())


def question_of(select: exp.Select, session: Session) -> Question:
    """Take apart a SELECT whose common table expressions were put in."""
    return SelectReader(select, session).question()


class SelectReader:
    """Reads the clauses of a SELECT over the records of the release."""

    def __init__(self, select: exp.Select, session: Session) -> None:
        self.select = select
        self.session = session
        self.source = source_of(select, session)
        self.names: Names = self.source.names
        self.aggregates = Aggregates(self.names, session, self.source.records)
        self.formulas: list[Formula] = []
        self.aliases = {each.alias_or_name.lower(): each.unalias() for each in select.expressions if _has_name(each)}
        counts = [each for each in select.expressions if grammar.sql_of(each) == "COUNT(*)"]
        self.answered = {**({DEFAULT_COUNT: counts[0]} if counts else {}), **self.aliases}

    def question(self) -> Question:
        """Everything that it asks."""
        self._check_clauses()
        self.groups = self._groups()
        named = zip(output_names(self.select.expressions), self.select.expressions, strict=True)
        outputs = tuple(self._output(name, each) for name, each in named)
        selection = self._selection()
        names = [name for each in outputs for name in each.columns]
        if len(set(names)) != len(names):
            raise QueryError("two columns of the answer have the same name; rename one with AS.")
        groups = tuple(Group(grammar.sql_of(each), not self.names.is_public(each)) for each in self.groups)
        totals = tuple(self.aggregates.totals)
        return Question(self.source, self.where(), groups, totals, tuple(self.formulas), outputs, selection)

    def _check_clauses(self) -> None:
        select = self.select
        if select.args.get("distinct"):
            raise QueryError("SELECT DISTINCT cannot be answered with a sensitive column; use GROUP BY and COUNT(*).")
        other = [name for name, value in select.args.items() if value and name not in KNOWN_CLAUSES]
        if other:
            raise QueryError(f"{other[0].rstrip('_').upper()} cannot be answered with a sensitive column.")
        if not select.expressions:
            raise QueryError("select at least one number, such as COUNT(*).")

    def where(self) -> Condition:
        """The condition on records."""
        where = self.select.args.get("where")
        asked = [*self.source.conditions]
        if where is not None:
            asked.append(self.resolved(where.this))
        return split([checked(each, self.session) for each in asked], self.names)

    def resolved(self, expression: Tree, allowed: tuple[type[Any], ...] = grammar.EXPRESSIONS) -> Tree:
        """An expression over columns; an alias of the SELECT list stands for what it names, where no column does."""
        self.session.clock.check()
        expression = public.without_subqueries(expression, self.session)
        grammar.check(expression, allowed)
        return checked(self.names.resolved(expression), self.session)

    # ----------------------------------------------------------------------------------------------------------- groups

    def _groups(self) -> list[Tree]:
        group = self.select.args.get("group")
        if group is None:
            return []
        if group.args.get("all"):
            return [self.group(each.unalias()) for each in self.select.expressions if not is_aggregate(each)]
        if any(value for name, value in group.args.items() if name != "expressions"):
            raise QueryError("group by a plain list of columns; ROLLUP, CUBE and GROUPING SETS are asked one by one.")
        return [self.group(each) for each in group.expressions]

    def group(self, expression: Tree) -> Tree:
        """An expression to group by."""
        found = grammar.unwrapped(self.resolved(self.meant(expression)))
        if isinstance(found, exp.Literal) and not found.is_string:
            raise QueryError("group by columns of the release, by their names.")
        protected = self.names.protected(found)
        if protected and not self.names.is_sensitive(found):
            raise QueryError(
                f"group by {protected[0]!r} and by public columns one beside the other, not by an expression of both."
            )
        return found

    def meant(self, expression: Tree) -> Tree:
        """What a group names: a column, or an output by its number or its alias."""
        node = grammar.unwrapped(expression)
        if isinstance(node, exp.Literal) and node.is_int and 1 <= int(node.name) <= len(self.select.expressions):
            return self._no_aggregate(self.select.expressions[int(node.name) - 1].unalias())
        if isinstance(node, exp.Column) and not node.table and node.name.lower() in self.aliases:
            is_column = any(node.name.lower() in columns for columns in self.names.tables.values())
            return node if is_column else self._no_aggregate(self.aliases[node.name.lower()])
        return expression

    @staticmethod
    def _no_aggregate(expression: Tree) -> Tree:
        if is_aggregate(expression):
            raise QueryError("group by columns, not by an aggregate; use HAVING to choose by one.")
        return expression

    # ---------------------------------------------------------------------------------------------------------- outputs

    def _output(self, name: str, expression: Tree) -> Output:
        inner = grammar.unwrapped(expression.unalias())
        if is_aggregate(inner):
            return Output(name, self.formula(inner), "")
        return Output(name, None, self._over_groups(inner))

    def formula(self, expression: Tree) -> int:
        """The number of a formula of aggregates."""
        formula = self.aggregates.formula(expression)
        if formula not in self.formulas:
            self.formulas.append(formula)
        return self.formulas.index(formula)

    def _over_groups(self, expression: Tree) -> str:
        """An expression of the groups and of the numbers of the answer, over their columns."""
        if expression.find(exp.Star):
            raise QueryError("the sensitive value of single rows is protected, so * cannot be selected; name columns.")
        found = self.resolved(expression)
        keys = {grammar.sql_of(each): number for number, each in enumerate(self.groups)}

        def put(node: Tree) -> Tree:
            self.session.clock.check()
            number = keys.get(grammar.sql_of(grammar.unwrapped(node)))
            return node if number is None else of_answer(f"k{number}")

        over = found.transform(put)
        for each in over.find_all(exp.Column):
            if not is_of_answer(each):
                raise self.ungrouped(each)
        return grammar.sql_of(over)

    def ungrouped(self, column: exp.Column) -> QueryError:
        """What is said of a column that is neither a group nor in an aggregate."""
        if (column.table, column.name) in self.names.sensitive:
            return QueryError(
                f"the {column.name!r} of single rows is protected, so it cannot be selected; count it instead, with "
                f"GROUP BY {plain_name(column.name)}."
            )
        return QueryError(f"{column.name!r} is neither an aggregate nor a group; add it to GROUP BY, or aggregate it.")

    # -------------------------------------------------------------------------------------------------------- selection

    def _selection(self) -> Selection:
        having, order = self.select.args.get("having"), self.select.args.get("order")
        if order is not None and order.args.get("siblings"):
            raise QueryError("order by columns of the answer.")
        used: set[int] = set()
        chosen = None if having is None else self._over_answer(having.this, used)
        parts = [self._ordered(each, used) for each in (order.expressions if order is not None else ())]
        return Selection(chosen, ", ".join(parts) or None, grammar.limit_of(self.select) or None, frozenset(used))

    def _ordered(self, ordered: Tree, used: set[int]) -> str:
        """One part of ORDER BY: an output by its number or its alias, or any expression."""
        node = grammar.unwrapped(ordered.this)
        if isinstance(node, exp.Literal) and node.is_int:
            if not 1 <= int(node.name) <= len(self.select.expressions):
                raise QueryError(f"ORDER BY {node.name} names no column of the answer.")
            node = self.select.expressions[int(node.name) - 1].unalias()
        direction = " DESC" if ordered.args.get("desc") else " ASC"
        nulls = " NULLS FIRST" if ordered.args.get("nulls_first") else " NULLS LAST"
        return self._over_answer(node, used) + direction + nulls

    def _over_answer(self, expression: Tree, used: set[int]) -> str:
        """An expression over the groups and the numbers of the answer."""
        holder = exp.Paren(this=expression.copy())
        for node in list(holder.find_all(exp.Column)):
            meant = self.answered.get(node.name.lower()) if not node.table else None
            if meant is not None and not node.find_ancestor(exp.AggFunc, exp.Filter):
                node.replace(exp.paren(self.names.room.take(meant)))
        while (found := holder.find(exp.AggFunc)) is not None:
            self.session.clock.check()
            whole: Tree = found.parent if isinstance(found.parent, exp.Filter) else found
            number = self.formula(whole)
            used.add(number)
            whole.replace(of_answer(f"e{number}"))
        return f"({self._over_groups(holder.this)})"


def is_question(select: Tree, session: Session) -> bool:  # noqa: PLR0911 - one for each reason why it is none
    """Whether a query is one SELECT over records that shows groups, and sums, means, ratios and the like of them.

    What else can be made of estimates, such as windows and subtotals, is made from their rows.
    """
    known = {"expressions", "from", "from_", "joins", "where", "group", "having", "order", "limit", "offset", "kind"}
    if not isinstance(select, exp.Select) or any(value for name, value in select.args.items() if name not in known):
        return False
    given, group = select.args.get("from_") or select.args.get("from"), select.args.get("group")
    if given is None or (group is not None and group.find(exp.Rollup, exp.Cube, exp.GroupingSets)):
        return False
    first = given.this
    if not filters_only(first.this) if isinstance(first, exp.Subquery) else first.name.lower() != TABLE:
        return False
    where = select.args.get("where")
    if where is not None and any(_is_sensitive(each, session) for each in where.find_all(exp.Query)):
        return False
    behind = [select.args[name] for name in ("having", "order") if select.args.get(name)]
    if any(each.find(exp.Query, exp.Window, exp.Var) for each in behind):
        return False
    known_names = {name.lower() for name in (*session.manifest.public, *session.manifest.sensitive)}
    if group is None and not any(map(is_aggregate, select.expressions)):
        return False
    names = {each.alias.lower() for each in select.expressions if each.alias} - known_names
    return all(_is_plain(each.unalias(), names) for each in select.expressions)


def _is_sensitive(query: Tree, session: Session) -> bool:
    return public.has_release(query) and public.names_sensitive(query, session)


def _is_plain(expression: Tree, names: set[str]) -> bool:
    """Whether a column of the answer is one of groups, or arithmetic of aggregates."""
    node = grammar.unwrapped(expression)
    if not is_aggregate(node):
        return not any(not each.table and each.name.lower() in names for each in node.find_all(exp.Column))
    return is_arithmetic(node)


def _has_name(expression: Tree) -> bool:
    """Whether a column of the answer can be named: by its alias, or as `chapter` of `diagnosis.chapter`."""
    return isinstance(expression, exp.Alias) or (isinstance(expression, exp.Column) and bool(expression.table))


def is_aggregate(expression: Tree) -> bool:
    """Whether an expression needs more than one record."""
    return expression.find(exp.AggFunc, exp.Filter, exp.Window) is not None


def number_columns(name: str) -> list[str]:
    """The columns that a number fills: itself, its standard error, and the two ends of its interval."""
    return [name, f"{name}_se", f"{name}_low", f"{name}_high"]


def note_column(name: str) -> str:
    """The column that says what to beware of, where there is something to say."""
    return f"{name}_note"
