"""Runs one SQL query or one count on a release."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from types import EllipsisType

import numpy as np
import pyarrow as pa
from sqlglot import exp

from sfumato._core.array_types import Mask
from sfumato._core.cell_values import Value
from sfumato._query import public_answers
from sfumato._query.answer import Answer
from sfumato._query.consistent_answers import ADJUSTED, NOTHING_TO_ADJUST, CountAdjuster
from sfumato._query.describe_statements import answer_description, is_description
from sfumato._query.duckdb_session import OpenRelease, Session
from sfumato._query.estimate import EXACT_ASSUMPTION, EXACT_METHOD, Estimate
from sfumato._query.impossible_literals import explain_missing_value
from sfumato._query.parser import allowed_sql, public_queries
from sfumato._query.parser.allowed_sql import Tree
from sfumato._query.parser.conditions import PLACE_NAME
from sfumato._query.parser.from_clause import VALUES_NAME
from sfumato._query.parser.query_size import SizeBudget, check_texts, check_tree, explain_too_deep
from sfumato._query.parser.sensitive_queries import list_number_columns, name_note_column
from sfumato._query.query_limits import Clock, Limits
from sfumato._query.query_plan.intermediate_rows import PlanContext
from sfumato._query.query_plan.joint_sums import JointSums
from sfumato._query.query_plan.query_tree import QueryReader
from sfumato._query.unknown_literals import explain_absent_values
from sfumato._records.sql_quoting import TABLE
from sfumato._release.manifest import Manifest
from sfumato.errors import QueryError
from sfumato.mechanisms.estimator import AnyMethod

ROUGH_ERROR = 0.5
"""A standard error above this share of its number counts as large."""
DECIDED_BY_ESTIMATES = "{} depends on estimates and thus partly on chance, and its error is unknown"
PICKED_NOTE = "CASE selected numbers by an estimate and thus partly by chance, which the errors do not include"
SUBTOTALS_NOTE = "a subtotal has no value in the columns that it sums over"
NO_SAMPLING = "a sample would only make the error larger; leave out the sample to count all records."
SELECTS_NOISE = (
    "rows were selected or ordered by an estimate, so the top rows are partly there by chance, and their numbers are "
    "probably too far from zero"
)
JOINT_INTERVALS = "; all intervals hold simultaneously (Bonferroni over {} numbers)"


@dataclass(frozen=True)
class QueryRunner:
    """A release for questions, with the tables of the analyst and the limits of a question."""

    open_release: OpenRelease
    attached_tables: Mapping[str, pa.Table] = field(default_factory=dict)
    limits: Limits = field(default_factory=Limits)
    method: str | None = None
    is_simultaneous: bool = False
    adjuster: CountAdjuster | None = None
    """Adjusts counts; the adjusted numbers appear in addition to the estimates."""

    def ask(self, sql: str) -> Answer:
        """Answers one SQL query."""
        clock = Clock(self.limits)
        method = find_method(self.open_release.manifest, self.method)
        with _limit_recursion():
            select = allowed_sql.parse(sql)
            with self.open_release.open_session(self.attached_tables, clock) as session:
                return self._answer(session, select, method)

    def _answer(self, session: Session, select: Tree, method: AnyMethod) -> Answer:
        if select.find(exp.TableSample):
            raise QueryError(NO_SAMPLING, code="sample")
        if is_description(select):
            return answer_description(select, session)
        query = public_queries.decorrelate(public_queries.inline_common_tables(select, {}, SizeBudget()))
        _check(query, session)
        if not public_queries.has_sensitive_names(query, session):
            manifest = self.open_release.manifest
            answer = replace(
                public_answers.answer_public_query(session, query),
                counted_unit=manifest.count_unit,
                population=manifest.population,
            )
            if self.adjuster is None:
                return answer
            return replace(answer, note=" ".join(filter(None, [answer.note, NOTHING_TO_ADJUST])))
        _register_values(session)
        return self._answer_by_estimates(session, query, method)

    def _answer_by_estimates(self, session: Session, query: Tree, method: AnyMethod) -> Answer:
        """Answers a query with protected columns."""
        context = PlanContext(session, JointSums(method))
        reader = QueryReader(context, adjusting=self.adjuster)
        result = reader.read_whole(query)
        outputs, rows = [pair for pair in result.output_columns if pair[0] is not ADJUSTED], result.rows
        names, numbers = (
            tuple(name for name, _ in outputs),
            tuple(name for name, column in outputs if column in rows.estimate_columns),
        )
        column_names = [
            *names,
            *(estimate for name in numbers for estimate in [*list_number_columns(name)[1:], name_note_column(name)]),
        ]
        column_names += reader.adjusted_names.values()
        public_answers.check_answer_names(column_names)
        table = {name: context.read_column(rows, column) for name, column in outputs}
        if reader.adjusted_names:
            table |= dict.fromkeys(
                reader.adjusted_names.values(), context.read_column(rows, result.output_columns[-1][1])
            )
        answer_rows = tuple(dict(zip(table, row, strict=True)) for row in zip(*table.values(), strict=True))
        estimates = [row[name] for row in answer_rows for name in numbers]
        estimate_count = (
            len(numbers) * max(context.most_rows, len(answer_rows)) if any(not e.is_exact for e in estimates) else 0
        )
        if result.candidates is not None:
            estimates = [context.sums.evaluate(formula) for formula in result.candidates]
            estimate_count = sum(not estimate.is_exact for estimate in estimates)
        chance_columns = [
            name
            for name, column in outputs
            if column in context.uncertain_columns and column not in rows.estimate_columns
        ]
        notes = [
            SUBTOTALS_NOTE if reader.has_subtotals else None,
            SELECTS_NOISE if context.has_uncertain_rows else None,
            PICKED_NOTE if context.has_uncertain_case else None,
            DECIDED_BY_ESTIMATES.format(", ".join(chance_columns)) if chance_columns else None,
        ]
        note = [propose_method(self, estimates) if result.has_only_counts else None, ". ".join(filter(None, notes))]
        method_label, assumption = (
            (method.label, method.assumption) if chance_columns else _describe_methods(method, estimates)
        )
        if self.is_simultaneous:
            method_label += JOINT_INTERVALS.format(estimate_count)
        answer = Answer(
            names,
            numbers,
            answer_rows,
            method_label,
            assumption,
            " ".join(filter(None, note)) or None,
            estimate_count,
            self.is_simultaneous,
            reader.adjusted_names,
            None if self.adjuster is None else self.adjuster.adjustment.description,
            self.open_release.manifest.count_unit,
            self.open_release.manifest.population,
        )
        return answer.add_absence_note(explain_absent_values(session, is_empty=not reader.has_records))

    def count(self, value: Value | EllipsisType, where: str | None) -> Estimate:
        """Counts the rows with a value, or with any value, that satisfy a condition."""
        clock = Clock(self.limits)
        method = find_method(self.open_release.manifest, self.method)
        with _limit_recursion():
            select = allowed_sql.parse(f"SELECT COUNT(*) FROM {TABLE}" + (f" WHERE {where}" if where else ""))
            clauses = {name for name, argument in select.args.items() if argument}
            if clauses - {"expressions", "from", "from_", "where"}:
                raise QueryError(
                    "a condition cannot contain GROUP BY, ORDER BY or LIMIT; write a complete query instead.",
                    code="not-a-condition",
                )
            value_mask = None if isinstance(value, EllipsisType) else self._make_value_mask(value)
            with self.open_release.open_session(self.attached_tables, clock) as session:
                _check(select, session)
                if value_mask is None and not public_queries.has_sensitive_names(select, session):
                    exact = public_answers.answer_public_query(session, select)
                    return replace(exact, population=self.open_release.manifest.population).get_estimate()
                _register_values(session)
                reader = QueryReader(PlanContext(session, JointSums(method)))
                result = reader.read_records(select, is_outer=True, value_mask=value_mask)
                ((_, column),) = result.output_columns
                estimate: Estimate
                (estimate,) = reader.context.read_column(result.rows, column)
                absence_note = explain_absent_values(session, is_empty=not reader.has_records)
                return replace(estimate.add_note(absence_note), population=self.open_release.manifest.population)

    def _make_value_mask(self, value: Value) -> Mask:
        """Marks the position of a value in the domain."""
        if value not in self.open_release.manifest.domain:
            raise explain_missing_value(value, self.open_release.manifest)
        mask: Mask = np.arange(len(self.open_release.manifest.domain)) == self.open_release.manifest.domain.index(value)
        return mask


def propose_method(runner: QueryRunner, counts: Sequence[Estimate]) -> str | None:
    """Proposes another method if some counts by the default method have large errors."""
    manifest = runner.open_release.manifest
    if runner.method not in (None, next(iter(manifest.methods))):
        return None
    is_rough = any(
        estimate.standard_error and estimate.standard_error > ROUGH_ERROR * abs(estimate.value) for estimate in counts
    )
    return manifest.proposal if is_rough else None


@contextmanager
def _limit_recursion() -> Iterator[None]:
    """Turns a recursion error into a message. The caller's stack also affects the depth that Python allows."""
    try:
        yield
    except RecursionError as error:
        raise explain_too_deep() from error


def _check(select: Tree, session: Session) -> None:
    """Rejects a question that would become too large while it runs."""
    check_tree(select)
    check_texts(select, lambda: session.longest_text)
    session.clock.check()


def find_method(manifest: Manifest, name: str | None) -> AnyMethod:
    """The estimator with this name, or the default estimator."""
    methods = manifest.methods
    method = next(iter(methods.values())) if name is None else methods.get(name)
    if method is None:
        raise explain_unknown_method(manifest, str(name))
    return method


def list_methods(manifest: Manifest) -> tuple[str, ...]:
    """Lists the estimators for analysts, with the default estimator first."""
    return tuple(name for name, method in manifest.methods.items() if not method.is_reproduction)


def explain_unknown_method(manifest: Manifest, name: str) -> QueryError:
    """Makes the error for an unknown estimator, with the names of the existing estimators."""
    method_names = ", ".join(list_methods(manifest))
    return QueryError(
        f"the method {name!r} is unknown for {manifest.mechanism_name!r}; use {method_names}.",
        code="unknown-method",
        fields={"method": name},
    )


def _register_values(session: Session) -> None:
    """Registers the domain as a table. The table has the index of each value and its part in each column."""
    manifest = session.manifest
    columns = {name: manifest.naming.make_part_domain(number) for number, name in enumerate(manifest.sensitive_columns)}
    places = pa.array(range(len(manifest.domain)), pa.int64())
    groups = {level: pa.array(group_values, pa.string()) for level, group_values in manifest.upper_levels.items()}
    session.register(VALUES_NAME, pa.table({PLACE_NAME: places, **columns, **groups}))


def _describe_methods(method: AnyMethod, estimates: Sequence[Estimate]) -> tuple[str, str]:
    """The methods that produced the numbers of an answer, and their assumptions."""
    uncertain = [estimate for estimate in estimates if not estimate.is_exact]
    if not uncertain:
        return EXACT_METHOD, EXACT_ASSUMPTION
    derivations = dict.fromkeys(estimate.derivation for estimate in uncertain if estimate.derivation is not None)
    return "; ".join([method.label, *derivations]), method.assumption
