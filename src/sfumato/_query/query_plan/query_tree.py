"""Answers a query tree of SELECTs over records, SELECTs over rows, UNION ALL, and subqueries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
from sqlglot import exp

from sfumato._core.array_types import Mask
from sfumato._core.cell_values import find_field_type
from sfumato._query.consistent_answers import NOT_ADJUSTED, CountAdjuster
from sfumato._query.duckdb_session import Session
from sfumato._query.formula_estimation import Number
from sfumato._query.parser import allowed_sql, public_queries
from sfumato._query.parser.allowed_sql import Tree
from sfumato._query.parser.column_names import make_answer_column
from sfumato._query.parser.from_clause import is_filter_only
from sfumato._query.parser.query_size import SizeBudget
from sfumato._query.parser.sensitive_queries import SelectReader
from sfumato._query.query_plan.intermediate_rows import (
    LINE,
    SCALAR,
    EstimateRows,
    PlanContext,
    Result,
    name_formula_column,
)
from sfumato._query.query_plan.name_scope import Scope, replace_named_windows
from sfumato._query.query_plan.outer_selects import Clauses, RowSelect, replace_ordered_tree, replace_output_number
from sfumato._query.query_plan.record_selects import RecordSelect
from sfumato._query.query_plan.select_clauses import Ending, add_constant, find_aggregates, finish_select, group_rows
from sfumato._records.sql_quoting import TABLE, quote_name
from sfumato.errors import QueryError

_CLAUSES = {
    "expressions", "from", "from_", "joins", "where", "group", "having", "order", "limit", "offset", "kind", "qualify",
    "windows", "distinct",
}  # fmt: skip


@dataclass
class QueryReader:
    """Reads queries. A query that occurs twice within another query is answered once."""

    context: PlanContext
    size_budget: SizeBudget = field(default_factory=SizeBudget)
    adjusting: CountAdjuster | None = None
    """Adjusts the counts of the outermost SELECT."""
    adjusted_names: dict[str, str] = field(default_factory=dict)
    """The adjusted counts, with the names of their adjusted versions."""
    has_records: bool = True
    has_subtotals: bool = False
    _results: dict[str, Result] = field(default_factory=dict)

    @property
    def session(self) -> Session:
        """The connection."""
        return self.context.session

    def read_whole(self, tree: Tree) -> Result:
        """Answers a whole query without common table expressions."""
        return self._read_query(_unwrap_query(tree), is_outer=True)

    def read_subquery(self, tree: Tree) -> Result:
        """Answers a query within another."""
        tree = public_queries.inline_common_tables(_unwrap_query(tree), {}, self.size_budget)
        key = allowed_sql.write_sql(tree)
        if key not in self._results:
            self._results[key] = self._read_query(tree)
        return self._results[key]

    def _read_query(self, tree: Tree, *, is_outer: bool = False) -> Result:
        self.session.clock.check()
        if is_outer and self.adjusting is not None and not (isinstance(tree, exp.Select) and _reads_records(tree)):
            raise QueryError(NOT_ADJUSTED, code="not-adjustable")
        if not public_queries.has_sensitive_names(tree, self.session) or not public_queries.has_release(tree):
            return self._read_public(tree)
        if isinstance(tree, exp.SetOperation):
            return self._read_union(tree)
        if not isinstance(tree, exp.Select):
            raise QueryError("write one SELECT, or several SELECTs joined by UNION ALL.", code="not-one-select")
        refused_clauses = [name for name, value in tree.args.items() if value and name not in _CLAUSES]
        if refused_clauses:
            raise QueryError(
                f"{refused_clauses[0].strip('_').upper()} cannot be answered with a protected column; remove this "
                "clause.",
                code="unsupported-clause",
                fields={"clause": refused_clauses[0].strip("_").upper()},
            )
        tree = replace_named_windows(tree, self.size_budget)
        return self.read_records(tree, is_outer=is_outer) if _reads_records(tree) else self._read_rows(tree)

    def _read_public(self, tree: Tree) -> Result:
        """Runs a query whose result is known: a query of public columns, or of the analyst's own tables."""
        public_queries.materialise(tree, self.session)
        table = self.session.subquery_tables[-1]
        names = [self.context.make_name("p") for _ in table.column_names]
        output_columns = tuple(zip(table.column_names, names, strict=True))
        numbered_table = table.rename_columns(names).append_column(LINE, pa.array(range(table.num_rows), pa.int64()))
        return Result(EstimateRows(numbered_table), output_columns)

    # ---------------------------------------------------------------------------------------------------------- records

    def read_records(self, select: exp.Select, *, is_outer: bool = False, value_mask: Mask | None = None) -> Result:
        """Answers a SELECT over all records, or over the records with one value.

        It returns only the numbers of groups.
        """
        select = self._fill_where(select, in_where=True)
        block = RecordSelect(SelectReader(select, self.session), self.session)
        expressions = [expression.unalias() for expression in select.expressions]
        if not select.args.get("group") and not any(map(find_aggregates, expressions)):
            resolved_trees = [
                block.reader.names.resolve(expression)
                for expression in expressions
                if not expression.find(exp.Star, exp.Query)
            ]
            raise block.explain_single_rows(exp.Tuple(expressions=resolved_trees))
        block.read_groups()
        scalars: dict[str, Result] = {}
        ending = Clauses(select, lambda tree: self._replace_scalars(tree, scalars), self.size_budget).read_ending(block)
        if is_outer and self.adjusting is not None:
            self.adjusting.find_counts(block, ending)  # a count that cannot be adjusted is rejected before counting
        rows = block.estimate_rows(
            self.context, value_mask, block.find_formula_groups(ending.trees) if is_outer else None
        )
        rows = self._add_constants(rows, scalars)
        self.has_records = self.has_records and block.has_records
        self.has_subtotals = self.has_subtotals or block.grouping_sets is not None
        if is_outer and self.adjusting is not None:
            rows, ending, self.adjusted_names = self.adjusting.add_adjusted(self.context, block, rows, ending)
        return finish_select(self.context, rows, ending, is_outer=is_outer)

    def _fill_where(self, select: exp.Select, *, in_where: bool) -> exp.Select:
        """Inserts the results of subqueries into the conditions of a SELECT.

        Each subquery runs first and on its own.
        """
        copy = select.copy()
        where = copy.args.get("where")
        if where is not None:
            self._fill_subqueries(where, is_record=in_where)
        return copy

    def _fill_subqueries(self, tree: Tree, *, is_record: bool) -> None:
        """Replaces subqueries with protected columns in a condition by their results."""
        for query in [subquery for subquery in tree.find_all(exp.Subquery) if self._is_estimated(subquery)]:
            parent: Tree = query.parent or query
            if isinstance(parent, exp.In) and parent.args.get("query") is query:
                parent.set("query", self._make_list(query))
            elif is_record:
                raise QueryError(
                    "a condition on single records cannot compare with an estimate; query the estimate first and "
                    "write it as a number, or compare in HAVING.",
                    code="condition-on-estimate",
                )

    def _make_list(self, query: Tree) -> Tree:
        """The result of a subquery in IN, as a table."""
        result = self.read_subquery(query)
        if len(result.output_columns) != 1 or result.rows.estimate_columns:
            raise QueryError(
                "IN (SELECT ...) needs a list of values, and cannot contain estimates.", code="in-without-list"
            )
        ((_, column),) = result.output_columns
        self.context.note_choice(result.rows, [make_answer_column(column)])
        name = self._register_part(result.rows.table.select([column]))
        return allowed_sql.make_ready_sql(f"(SELECT * FROM {name})")

    def _register_part(self, table: pa.Table) -> str:
        name = f"sfumato part {len(self.session.subquery_tables)}"
        self.session.subquery_tables.append(table)
        self.session.register(name, table)
        return quote_name(name)

    def _is_estimated(self, query: Tree) -> bool:
        return public_queries.has_release(query) and public_queries.has_sensitive_names(query, self.session)

    def _replace_scalars(self, tree: Tree, scalars: dict[str, Result]) -> Tree:
        """Replaces single-number subqueries of an expression by columns."""
        holder = exp.Paren(this=tree.copy())
        self._fill_subqueries(holder, is_record=False)
        while (
            query := next((subquery for subquery in holder.find_all(exp.Subquery) if self._is_number(subquery)), None)
        ) is not None:
            result = self.read_subquery(query)
            if len(result.output_columns) != 1 or result.rows.table.num_rows > 1:
                raise QueryError(
                    "a subquery in an expression must return one number, in one column and one row.",
                    code="subquery-not-scalar",
                )
            name = self.context.make_name(SCALAR)
            scalars[name] = result
            query.replace(make_answer_column(name))
        return holder.this.pop()

    def _is_number(self, query: Tree) -> bool:
        """Whether a subquery stands for a single known or estimated value."""
        return not isinstance(query.parent, exp.In | exp.Exists | exp.From | exp.Join)

    # ------------------------------------------------------------------------------------------------------------- rows

    def _read_rows(self, select: exp.Select) -> Result:
        """Answers a SELECT over the results of other queries."""
        select = self._fill_where(select, in_where=False)
        scope, scalars = Scope(), dict[str, Result]()
        rows = self._join_sources(select, scope)
        clauses = Clauses(select, lambda tree: self._replace_scalars(tree, scalars), self.size_budget, scope)
        row_select = RowSelect(self.context, scope, clauses)
        where = select.args.get("where")
        condition = None if where is None else row_select.resolve(clauses.prepare(where.this))
        ending = clauses.read_ending(row_select)
        rows = self.context.filter_rows(self._add_constants(rows, scalars), condition)
        if row_select.has_groups:
            rows = self._add_constants(
                group_rows(self.context, rows, row_select.keys, row_select.grouping_sql, row_select.aggregates), scalars
            )
        return finish_select(self.context, rows, ending)

    def _add_constants(self, rows: EstimateRows, scalars: Mapping[str, Result]) -> EstimateRows:
        """The rows with the numbers of single-number subqueries as columns."""
        for name, result in scalars.items():
            rows = add_constant(self.context, rows, name, result)
        return rows

    def _join_sources(self, select: exp.Select, scope: Scope) -> EstimateRows:
        """Joins the rows of all parts of FROM and JOIN."""
        from_clause = select.args.get("from_") or select.args.get("from")
        if from_clause is None:
            return EstimateRows(pa.table({LINE: pa.array([0], pa.int64())}))
        parts, join_conditions = [self._read_table(from_clause.this, scope)], [""]
        for join in select.args.get("joins") or ():
            if join.args.get("method") or (join.kind or "").upper() not in ("", "INNER", "OUTER", "CROSS"):
                raise QueryError(
                    "join the results of queries by JOIN, LEFT, RIGHT, FULL or CROSS JOIN, with ON or USING.",
                    code="unsupported-join",
                )
            parts.append(self._read_table(join.this, scope))
            on = self._read_on(join, scope, parts)
            join_conditions.append(f" ON {on}" if on else "")
        sides = ["", *((join.side or "").upper() for join in select.args.get("joins") or ())]
        text = ""
        for number, (part, on, side) in enumerate(zip(parts, join_conditions, sides, strict=True)):
            join_keyword = "" if number == 0 else f" {side} JOIN " if on else " CROSS JOIN "
            text += f"{join_keyword}{self._register_part(part.table)} AS t{number}{on}"
        names = [quote_name(name) for part in parts for name in part.table.column_names if name != LINE]
        lines = ", ".join(f"t{number}.{LINE}" for number in range(len(parts)))
        table = self.session.fetch_subquery(
            f"SELECT {', '.join([*names, f'ROW_NUMBER() OVER (ORDER BY {lines}) AS {LINE}'])} FROM {text}"
        )
        return self.context.check_row_count(
            EstimateRows(table.sort_by(LINE), frozenset().union(*(part.estimate_columns for part in parts)))
        )

    def _read_on(self, join: exp.Join, scope: Scope, rows: Sequence[EstimateRows]) -> str:
        """The condition of a join."""
        if (on := join.args.get("on")) is not None:
            allowed_sql.check(on, allowed_sql.EXPRESSIONS)
            tree = scope.resolve(on)
        else:
            parts = []
            (*others, last) = scope.tables.values()
            for item in join.args.get("using") or ():
                name = item.name.lower()
                first = next((columns[name] for columns in others if name in columns), None)
                if first is None or name not in last:
                    raise QueryError(
                        f"USING names {item.name!r}, which is not a column of both tables.",
                        code="unshared-column",
                        fields={"column": item.name},
                    )
                scope.shared_names.add(name)
                parts.append(exp.EQ(this=make_answer_column(first[1]), expression=make_answer_column(last[name][1])))
            if not parts:
                return ""
            tree = exp.and_(*parts)
        if any(item.list_estimates(tree) for item in rows):
            raise QueryError(
                "tables cannot be joined by an estimate; join them by the columns of their groups.",
                code="join-by-estimate",
            )
        return allowed_sql.write_sql(tree)

    def _read_table(self, table: Tree, scope: Scope) -> EstimateRows:
        """The rows of a table in FROM, with new internal names."""
        if isinstance(table, exp.Subquery):
            result, alias = self.read_subquery(table.this), table.alias or f"subquery {len(scope.tables)}"
            if table.args.get("alias") is not None and table.args["alias"].args.get("columns"):
                raise QueryError("name the columns of a subquery inside it, with AS.", code="renamed-columns")
        else:
            public_queries.check_table(table, self.session)
            if table.name.lower() == TABLE:
                raise QueryError(
                    f"results of queries can be joined to each other, but not to {TABLE}; put {TABLE} into a "
                    "separate query.",
                    code="join-with-release",
                )
            result = self._read_public(exp.select("*").from_(table.name))
            alias = table.alias or table.name
        new_names = {column: self.context.make_name("c") for _, column in result.output_columns}
        names = {name: new_names[column] for name, column in result.output_columns}
        if len({name.lower() for name, _ in result.output_columns}) != len(result.output_columns):
            raise QueryError(
                "two columns of a subquery have the same name; rename one with AS.", code="repeated-column"
            )
        scope.add(alias, names)
        column_map, estimated = {LINE: LINE}, result.rows.estimate_columns
        for column, new_name in new_names.items():
            column_map[column] = new_name
            if column in estimated:
                column_map[name_formula_column(column)] = name_formula_column(new_name)
        self.context.uncertain_columns |= {
            new_name for column, new_name in new_names.items() if column in self.context.uncertain_columns
        }
        kept_columns = result.rows.table.select(list(column_map))
        return EstimateRows(
            kept_columns.rename_columns(list(column_map.values())),
            frozenset(new_names[column_name] for column_name in new_names if column_name in estimated),
        )

    # ------------------------------------------------------------------------------------------------------------ UNION

    def _read_union(self, union: exp.SetOperation) -> Result:
        """Answers UNION ALL, which puts the rows of one query below those of the other."""
        if type(union) is not exp.Union:
            raise QueryError(
                "only UNION ALL can combine queries of estimates; EXCEPT and INTERSECT would compare their numbers.",
                code="set-operation-on-estimates",
            )
        if union.args.get("distinct"):
            raise QueryError(
                "UNION would remove equal rows, but equal estimates need not stand for equal numbers; use UNION ALL.",
                code="union-of-estimates",
            )
        parts = [self.read_subquery(union.this), self.read_subquery(union.expression)]
        if len({len(part.output_columns) for part in parts}) != 1:
            raise QueryError(
                "the parts of a UNION ALL must have the same number of columns.", code="other-column-count"
            )
        names = [self.context.make_name("u") for _ in parts[0].output_columns]
        rows = [self._align_part(part, parts, names) for part in parts]
        estimated = rows[0].estimate_columns
        columns = [
            item for name in names for item in ([name, name_formula_column(name)] if name in estimated else [name])
        ]
        tables = [self._register_part(item.table) for item in rows]
        column_list = ", ".join(map(quote_name, columns))
        texts = [f"SELECT {column_list}, {at} AS part, {LINE} FROM {name}" for at, name in enumerate(tables)]
        table = self.session.fetch_subquery(
            f"SELECT {column_list}, ROW_NUMBER() OVER (ORDER BY part, {LINE}) AS {LINE} FROM "
            f"({' UNION ALL '.join(texts)})"
        ).sort_by(LINE)
        outputs = [
            (name, make_answer_column(own)) for (name, _), own in zip(parts[0].output_columns, names, strict=True)
        ]
        order = union.args.get("order")
        order_trees = [_find_union_column(item, outputs) for item in (order.expressions if order is not None else ())]
        return finish_select(
            self.context,
            self.context.check_row_count(EstimateRows(table, estimated)),
            Ending(tuple(outputs), order=tuple(order_trees), limit=allowed_sql.write_limit(union)),
        )

    def _align_part(self, part: Result, parts: list[Result], names: list[str]) -> EstimateRows:
        """The rows of a part. A column has estimates here if it has estimates in any part."""
        rows = EstimateRows(pa.table({LINE: part.rows.table.column(LINE)}))
        for at, name in enumerate(names):
            column = part.output_columns[at][1]
            values = part.rows.table.column(column)
            if column in part.rows.estimate_columns:
                numbers = part.rows.table.column(name_formula_column(column)).to_pylist()
                rows = self.context.append_formulas(rows, {name: self.context.get_formulas(numbers)})
            elif any(item.output_columns[at][1] in item.rows.estimate_columns for item in parts):
                if find_field_type(values.type) not in ("integer", "number") and not pa.types.is_null(values.type):
                    raise QueryError(
                        "the parts of a UNION ALL must have numbers in the same columns.", code="other-column-types"
                    )
                formulas = [None if item is None else Number(float(item)) for item in values.to_pylist()]
                rows = self.context.append_formulas(rows, {name: formulas})
            else:
                rows = self.context.append_values(rows, {name: values})
        return rows


def _find_union_column(ordered: Tree, outputs: list[tuple[str, Tree]]) -> Tree:
    """A part of ORDER BY after a UNION ALL. It can only name columns."""
    node = allowed_sql.unwrap(ordered.this)
    if isinstance(node, exp.Literal) and node.is_int:
        return replace_ordered_tree(ordered, replace_output_number(node, outputs))
    scope = Scope()
    scope.add("union", {name: tree.name for name, tree in outputs})
    allowed_sql.check(ordered.this, allowed_sql.EXPRESSIONS)
    return replace_ordered_tree(ordered, scope.resolve(ordered.this))


def _unwrap_query(tree: Tree) -> Tree:
    """The query without the parentheses around it."""
    while isinstance(tree, exp.Subquery | exp.Paren) and not _has_ending(tree):
        tree = tree.this
    return tree


def _has_ending(tree: Tree) -> bool:
    return any(tree.args.get(name) for name in ("order", "limit", "offset"))


def _reads_records(select: exp.Select) -> bool:
    """Whether a SELECT reads records. These are records of the release, or of a subquery that only filters records."""
    from_clause = select.args.get("from_") or select.args.get("from")
    if from_clause is None:
        return False
    tables = [from_clause.this, *(join.this for join in select.args.get("joins") or ())]
    if any(isinstance(table, exp.Table) and table.name.lower() == TABLE for table in tables):
        return True
    return isinstance(from_clause.this, exp.Subquery) and is_filter_only(from_clause.this.this)
