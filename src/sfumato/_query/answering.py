"""Ask a release: one SQL query, or one count."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from types import EllipsisType
from typing import Any

import numpy as np
import pyarrow as pa
from sqlglot import exp

from sfumato._core.arrays import Mask
from sfumato._core.cell_values import Value
from sfumato._query import public_answers
from sfumato._query.answer import Answer
from sfumato._query.connection import OpenRelease, Session
from sfumato._query.consistent_answers import ADJUSTED, NOTHING_TO_ADJUST, Adjusting
from sfumato._query.describe_statements import answer_description, is_description
from sfumato._query.estimate import EXACT_ASSUMPTION, EXACT_METHOD, Estimate
from sfumato._query.impossible_literals import explain_missing_value
from sfumato._query.parser import allowed_sql, public_queries
from sfumato._query.parser.allowed_sql import Tree
from sfumato._query.parser.conditions import PLACE_NAME
from sfumato._query.parser.from_clause import VALUES_NAME
from sfumato._query.parser.query_size import SizeBudget, check_texts, check_tree, explain_too_deep
from sfumato._query.parser.sensitive_queries import note_column, number_columns
from sfumato._query.query_limits import Clock, Limits
from sfumato._query.query_plan.estimated_rows import Bench
from sfumato._query.query_plan.joint_sums import JointSums
from sfumato._query.query_plan.query_tree import Reader
from sfumato._query.unknown_literals import explain_absent_values
from sfumato._records.sql_quoting import TABLE
from sfumato._release.manifest import Manifest
from sfumato.errors import QueryError
from sfumato.mechanisms.estimator import Method

ROUGH = 0.5
"""A standard error above this part of its number is large."""
DECIDED_BY_ESTIMATES = "{} was decided by estimates, partly by chance, and has no error of its own"
PICKED = "CASE took one number or another by an estimate, partly by chance, which the errors do not allow for"
SUBTOTALS = "a subtotal has no value in the columns that it adds up"
SAMPLED = (
    "a sample is drawn at random, and would only make the error larger; leave it out, and all records are counted."
)
SELECTS_NOISE = (
    "rows were chosen or ordered by an estimate: those on top are there partly by chance, and their numbers are likely "
    "to be further from zero than the truth"
)
TOGETHER = "; intervals hold together (Bonferroni over {} numbers)"


@dataclass(frozen=True)
class Asker:
    """A release to ask, with the tables of the analyst and the limits of a question."""

    opened: OpenRelease
    attached: Mapping[str, pa.Table] = field(default_factory=dict)
    limits: Limits = field(default_factory=Limits)
    method: str | None = None
    is_simultaneous: bool = False
    adjusting: Adjusting | None = None
    """How to adjust counts, beside the estimates."""

    def ask(self, sql: str) -> Answer:
        """Answer one SQL query."""
        clock = Clock(self.limits)
        method = find_method(self.opened.manifest, self.method)
        with _limit_recursion():
            select = allowed_sql.parse(sql)
            with self.opened.session(self.attached, clock) as session:
                return self._asked(session, select, method)

    def _asked(self, session: Session, select: Tree, method: Method[Any]) -> Answer:
        if select.find(exp.TableSample):
            raise QueryError(SAMPLED)
        if is_description(select):
            return answer_description(select, session)
        whole = public_queries.decorrelate(public_queries.inline_common_tables(select, {}, SizeBudget()))
        _check(whole, session)
        if not public_queries.has_sensitive_names(whole, session):
            answer = replace(public_answers.answer_public_query(session, whole), counted=self.opened.manifest.counted)
            if self.adjusting is None:
                return answer
            return replace(answer, note=" ".join(filter(None, [answer.note, NOTHING_TO_ADJUST])))
        _register_values(session)
        return self._estimated(session, whole, method)

    def _estimated(self, session: Session, query: Tree, method: Method[Any]) -> Answer:
        """Answer a query with protected columns."""
        bench = Bench(session, JointSums(method))
        reader = Reader(bench, adjusting=self.adjusting)
        result = reader.read_whole(query)
        shown, rows = [pair for pair in result.shown if pair[0] is not ADJUSTED], result.rows
        names, numbers = tuple(name for name, _ in shown), tuple(name for name, own in shown if own in rows.estimated)
        filled = [
            *names,
            *(estimate for name in numbers for estimate in [*number_columns(name)[1:], note_column(name)]),
        ]
        filled += reader.adjusted.values()
        if len({name.lower() for name in filled}) != len(filled):
            raise QueryError("two columns of the answer have the same name; rename one with AS.")
        table = {name: bench.shown(rows, own) for name, own in shown}
        if reader.adjusted:
            table |= dict.fromkeys(reader.adjusted.values(), bench.shown(rows, result.shown[-1][1]))
        answer_rows = tuple(dict(zip(table, row, strict=True)) for row in zip(*table.values(), strict=True))
        estimates = [row[name] for row in answer_rows for name in numbers]
        estimated = (
            len(numbers) * max(bench.most_rows, len(answer_rows)) if any(not e.is_exact for e in estimates) else 0
        )
        if result.candidates is not None:
            estimates = [bench.sums.evaluate(formula) for formula in result.candidates]
            estimated = sum(not estimate.is_exact for estimate in estimates)
        decided = [name for name, own in shown if own in bench.by_chance and own not in rows.estimated]
        notes = [
            SUBTOTALS if reader.has_subtotals else None,
            SELECTS_NOISE if bench.chosen else None,
            PICKED if bench.picked else None,
            DECIDED_BY_ESTIMATES.format(", ".join(decided)) if decided else None,
        ]
        note = [propose_method(self, estimates) if result.are_counts else None, ". ".join(filter(None, notes))]
        method_label, assumption = (
            (method.words, method.assumption) if decided else _describe_methods(method, estimates)
        )
        if self.is_simultaneous:
            method_label += TOGETHER.format(estimated)
        answer = Answer(
            names,
            numbers,
            answer_rows,
            method_label,
            assumption,
            " ".join(filter(None, note)) or None,
            estimated,
            self.is_simultaneous,
            reader.adjusted,
            None if self.adjusting is None else self.adjusting.adjustment.words,
            self.opened.manifest.counted,
        )
        return answer.with_lacking(explain_absent_values(session, is_empty=not reader.has_records))

    def count(self, value: Value | EllipsisType, where: str | None) -> Estimate:
        """Count the rows that hold a value, or any value, under a condition."""
        clock = Clock(self.limits)
        method = find_method(self.opened.manifest, self.method)
        with _limit_recursion():
            select = allowed_sql.parse(f"SELECT COUNT(*) FROM {TABLE}" + (f" WHERE {where}" if where else ""))
            if set(name for name, argument in select.args.items() if argument) - {
                "expressions",
                "from",
                "from_",
                "where",
            }:
                raise QueryError("a condition has no GROUP BY, ORDER BY or LIMIT; ask for these with a whole query.")
            only = None if isinstance(value, EllipsisType) else self._only(value)
            with self.opened.session(self.attached, clock) as session:
                _check(select, session)
                if only is None and not public_queries.has_sensitive_names(select, session):
                    return public_answers.answer_public_query(session, select).only()
                _register_values(session)
                reader = Reader(Bench(session, JointSums(method)))
                result = reader.read_records(select, is_outer=True, only=only)
                ((_, column),) = result.shown
                estimate: Estimate
                (estimate,) = reader.bench.shown(result.rows, column)
                return estimate.beware(explain_absent_values(session, is_empty=not reader.has_records))

    def _only(self, value: Value) -> Mask:
        """The place of a value of the domain."""
        if value not in self.opened.manifest.domain:
            raise explain_missing_value(value, self.opened.manifest)
        mask: Mask = np.arange(len(self.opened.manifest.domain)) == self.opened.manifest.domain.index(value)
        return mask


def propose_method(asker: Asker, counts: Sequence[Estimate]) -> str | None:
    """Which other way to count with, if some of the counts by the default one have large errors."""
    manifest = asker.opened.manifest
    if asker.method not in (None, next(iter(manifest.methods))):
        return None
    is_rough = any(
        estimate.standard_error and estimate.standard_error > ROUGH * abs(estimate.value) for estimate in counts
    )
    return manifest.proposal if is_rough else None


@contextmanager
def _limit_recursion() -> Iterator[None]:
    """How deep Python may go also depends on who asks, so a question within all bounds may still be too deep."""
    try:
        yield
    except RecursionError as error:
        raise explain_too_deep() from error


def _check(select: Tree, session: Session) -> None:
    """Refuse a question that would become too large while it is answered."""
    check_tree(select)
    check_texts(select, lambda: session.longest)
    session.clock.check()


def find_method(manifest: Manifest, name: str | None) -> Method[Any]:
    """The estimator of this name, or the default one."""
    methods = manifest.methods
    method = next(iter(methods.values())) if name is None else methods.get(name)
    if method is None:
        raise explain_unknown_method(manifest, str(name))
    return method


def list_methods(manifest: Manifest) -> tuple[str, ...]:
    """Lists the estimators for analysts, the default one first."""
    return tuple(name for name, method in manifest.methods.items() if not method.is_reproduction)


def explain_unknown_method(manifest: Manifest, name: str) -> QueryError:
    """Says that there is no such estimator, and which there are."""
    method_names = ", ".join(list_methods(manifest))
    return QueryError(f"the method {name!r} is unknown for {manifest.mechanism_name!r}; there are {method_names}.")


def _register_values(session: Session) -> None:
    """Let queries read the domain as a table, with the place of each value and its part in each column.

    So are its groups, one column for each level of a hierarchy.
    """
    manifest = session.manifest
    columns = {name: manifest.naming.part(number) for number, name in enumerate(manifest.sensitive)}
    places = pa.array(range(len(manifest.domain)), pa.int64())
    groups = {level: pa.array(group_values, pa.string()) for level, group_values in manifest.groups.items()}
    session.register(VALUES_NAME, pa.table({PLACE_NAME: places, **columns, **groups}))


def _describe_methods(method: Method[Any], estimates: Sequence[Estimate]) -> tuple[str, str]:
    """The methods behind the numbers of an answer, and what they assume."""
    uncertain = [estimate for estimate in estimates if not estimate.is_exact]
    if not uncertain:
        return EXACT_METHOD, EXACT_ASSUMPTION
    derivations = dict.fromkeys(estimate.made for estimate in uncertain if estimate.made is not None)
    return "; ".join([method.words, *derivations]), method.assumption
