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
from sfumato._query.describe_statements import description, is_description
from sfumato._query.estimate import EXACT_ASSUMPTION, EXACT_METHOD, Estimate
from sfumato._query.impossible_literals import no_value
from sfumato._query.parser import allowed_sql, public_queries
from sfumato._query.parser.allowed_sql import Tree
from sfumato._query.parser.conditions import PLACE_NAME
from sfumato._query.parser.from_clause import VALUES_NAME
from sfumato._query.parser.query_size import Room, check_texts, check_tree, too_deep
from sfumato._query.parser.sensitive_queries import note_column, number_columns
from sfumato._query.query_limits import Clock, Limits
from sfumato._query.query_plan.estimated_rows import Bench
from sfumato._query.query_plan.joint_sums import JointSums
from sfumato._query.query_plan.query_tree import Reader
from sfumato._query.unknown_literals import lacking
from sfumato._records.sql_quoting import TABLE
from sfumato._release.manifest import Manifest
from sfumato.errors import QueryError
from sfumato.mechanisms.estimator import Method

ROUGH = 0.5
"""A standard error above this part of its number is large."""
DECIDED = "{} was decided by estimates, partly by chance, and has no error of its own"
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
        method = method_of(self.opened.manifest, self.method)
        with _not_too_deep():
            select = allowed_sql.parse(sql)
            with self.opened.session(self.attached, clock) as session:
                return self._asked(session, select, method)

    def _asked(self, session: Session, select: Tree, method: Method[Any]) -> Answer:
        if select.find(exp.TableSample):
            raise QueryError(SAMPLED)
        if is_description(select):
            return description(select, session)
        whole = public_queries.uncorrelated(public_queries.inlined(select, {}, Room()))
        _check(whole, session)
        if not public_queries.names_sensitive(whole, session):
            answer = replace(public_answers.answer(session, whole), counted=self.opened.manifest.counted)
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
        filled = [*names, *(each for name in numbers for each in [*number_columns(name)[1:], note_column(name)])]
        filled += reader.adjusted.values()
        if len({name.lower() for name in filled}) != len(filled):
            raise QueryError("two columns of the answer have the same name; rename one with AS.")
        table = {name: bench.shown(rows, own) for name, own in shown}
        if reader.adjusted:
            table |= dict.fromkeys(reader.adjusted.values(), bench.shown(rows, result.shown[-1][1]))
        found = tuple(dict(zip(table, row, strict=True)) for row in zip(*table.values(), strict=True))
        estimates = [row[name] for row in found for name in numbers]
        estimated = len(numbers) * max(bench.most_rows, len(found)) if any(not e.is_exact for e in estimates) else 0
        if result.candidates is not None:
            estimates = [bench.sums.evaluate(formula) for formula in result.candidates]
            estimated = sum(not each.is_exact for each in estimates)
        decided = [name for name, own in shown if own in bench.by_chance and own not in rows.estimated]
        notes = [
            SUBTOTALS if reader.has_subtotals else None,
            SELECTS_NOISE if bench.chosen else None,
            PICKED if bench.picked else None,
            DECIDED.format(", ".join(decided)) if decided else None,
        ]
        note = [proposed(self, estimates) if result.are_counts else None, ". ".join(filter(None, notes))]
        words, assumption = (method.words, method.assumption) if decided else _described(method, estimates)
        if self.is_simultaneous:
            words += TOGETHER.format(estimated)
        answer = Answer(
            names,
            numbers,
            found,
            words,
            assumption,
            " ".join(filter(None, note)) or None,
            estimated,
            self.is_simultaneous,
            reader.adjusted,
            None if self.adjusting is None else self.adjusting.adjustment.words,
            self.opened.manifest.counted,
        )
        return answer.with_lacking(lacking(session, is_empty=not reader.has_records))

    def count(self, value: Value | EllipsisType, where: str | None) -> Estimate:
        """Count the rows that hold a value, or any value, under a condition."""
        clock = Clock(self.limits)
        method = method_of(self.opened.manifest, self.method)
        with _not_too_deep():
            select = allowed_sql.parse(f"SELECT COUNT(*) FROM {TABLE}" + (f" WHERE {where}" if where else ""))
            if set(name for name, given in select.args.items() if given) - {"expressions", "from", "from_", "where"}:
                raise QueryError("a condition has no GROUP BY, ORDER BY or LIMIT; ask for these with a whole query.")
            only = None if isinstance(value, EllipsisType) else self._only(value)
            with self.opened.session(self.attached, clock) as session:
                _check(select, session)
                if only is None and not public_queries.names_sensitive(select, session):
                    return public_answers.answer(session, select).only()
                _register_values(session)
                reader = Reader(Bench(session, JointSums(method)))
                result = reader.read_records(select, is_outer=True, only=only)
                ((_, column),) = result.shown
                found: Estimate
                (found,) = reader.bench.shown(result.rows, column)
                return found.beware(lacking(session, is_empty=not reader.has_records))

    def _only(self, value: Value) -> Mask:
        """The place of a value of the domain."""
        if value not in self.opened.manifest.domain:
            raise no_value(value, self.opened.manifest)
        found: Mask = np.arange(len(self.opened.manifest.domain)) == self.opened.manifest.domain.index(value)
        return found


def proposed(asker: Asker, counts: Sequence[Estimate]) -> str | None:
    """Which other way to count with, if some of the counts by the default one have large errors."""
    manifest = asker.opened.manifest
    if asker.method not in (None, next(iter(manifest.methods))):
        return None
    is_rough = any(each.standard_error and each.standard_error > ROUGH * abs(each.value) for each in counts)
    return manifest.proposal if is_rough else None


@contextmanager
def _not_too_deep() -> Iterator[None]:
    """How deep Python may go also depends on who asks, so a question within all bounds may still be too deep."""
    try:
        yield
    except RecursionError as error:
        raise too_deep() from error


def _check(select: Tree, session: Session) -> None:
    """Refuse a question that would become too large while it is answered."""
    check_tree(select)
    check_texts(select, lambda: session.longest)
    session.clock.check()


def method_of(manifest: Manifest, name: str | None) -> Method[Any]:
    """The estimator of this name, or the default one."""
    methods = manifest.methods
    found = next(iter(methods.values())) if name is None else methods.get(name)
    if found is None:
        raise unknown_method(manifest, str(name))
    return found


def offered_methods(manifest: Manifest) -> tuple[str, ...]:
    """Lists the estimators for analysts, the default one first."""
    return tuple(name for name, method in manifest.methods.items() if not method.is_reproduction)


def unknown_method(manifest: Manifest, name: str) -> QueryError:
    """Says that there is no such estimator, and which there are."""
    known = ", ".join(offered_methods(manifest))
    return QueryError(f"the method {name!r} is unknown for {manifest.mechanism_name!r}; there are {known}.")


def _register_values(session: Session) -> None:
    """Let queries read the domain as a table, with the place of each value and its part in each column.

    So are its groups, one column for each level of a hierarchy.
    """
    manifest = session.manifest
    columns = {name: manifest.naming.part(number) for number, name in enumerate(manifest.sensitive)}
    places = pa.array(range(len(manifest.domain)), pa.int64())
    groups = {level: pa.array(found, pa.string()) for level, found in manifest.groups.items()}
    session.register(VALUES_NAME, pa.table({PLACE_NAME: places, **columns, **groups}))


def _described(method: Method[Any], estimates: Sequence[Estimate]) -> tuple[str, str]:
    """The methods behind the numbers of an answer, and what they assume."""
    uncertain = [each for each in estimates if not each.is_exact]
    if not uncertain:
        return EXACT_METHOD, EXACT_ASSUMPTION
    made = dict.fromkeys(each.made for each in uncertain if each.made is not None)
    return "; ".join([method.words, *made]), method.assumption
