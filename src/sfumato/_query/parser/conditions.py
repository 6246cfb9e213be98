"""Splits conditions into a public part, a sensitive part, and a mixed part.

Each value of the domain is inserted into the mixed part. This gives a condition on public columns for each value.
Values with equal conditions share one condition. A record's signature shows which of the conditions the record
satisfies.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sqlglot import exp

from sfumato._core.array_types import Counts, Floats, Mask
from sfumato._core.cell_values import format_values
from sfumato._query.duckdb_session import Session
from sfumato._query.parser import allowed_sql
from sfumato._query.parser.allowed_sql import Tree
from sfumato._query.parser.column_names import ColumnNames
from sfumato._query.parser.from_clause import FromClause
from sfumato._records.sql_quoting import format_literal, quote_name
from sfumato._records.tally import ResultRow
from sfumato.errors import QueryError

MOST_BITS = 240
"""The largest number of different conditions in one scan."""
BLOCK_BITS = 60
"""The number of conditions that are packed into one integer."""
MOST_NAMED_VALUES, MOST_SUGGESTIONS = 20, 3
PLACE_NAME = "sfumato place"
PLACE = quote_name(PLACE_NAME)
_NULL_SUFFIX = " IS NULL)"


@dataclass(frozen=True)
class Condition:
    """A condition in three parts, all of which must hold."""

    public_parts: tuple[str, ...] = ()
    sensitive_parts: tuple[str, ...] = ()
    mixed_parts: tuple[Tree, ...] = ()
    has_levels: bool = False
    """Whether the sensitive part uses levels of the hierarchy, which no record contains."""

    @property
    def public_sql(self) -> str | None:
        """The part on public columns."""
        return " AND ".join(self.public_parts) or None


def split_conditions(expressions: Iterable[Tree], names: ColumnNames) -> Condition:
    """Splits resolved conditions into their parts."""
    public, sensitive, mixed, has_levels = [], [], [], False
    for conjunct in (part for expression in expressions for part in allowed_sql.split_conjuncts(expression)):
        if names.is_public(conjunct):
            public.append(f"({allowed_sql.write_sql(conjunct)})")
        elif names.is_sensitive(conjunct):
            sensitive.append(f"({allowed_sql.write_sql(conjunct)})")
            has_levels |= not names.coarse_columns.isdisjoint(names.find_keys(conjunct))
        else:
            mixed.append(conjunct)
    return Condition(tuple(public), tuple(sensitive), tuple(mixed), has_levels)


class Signature:
    """Public conditions whose results for a record are packed into integers."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}

    def add(self, sql: str) -> int:
        """Adds a condition and returns its number."""
        number = self.numbers.setdefault(sql, len(self.numbers))
        if number >= MOST_BITS:
            raise QueryError(
                f"the conditions distinguish more than {MOST_BITS} values or groups of values; compare the sensitive "
                "column with fewer values, or write several queries.",
                code="too-many-value-groups",
                fields={"limit": MOST_BITS},
            )
        return number

    @property
    def columns(self) -> tuple[str, ...]:
        """The SQL of the packed integers."""
        texts = list(self.numbers)
        blocks = [texts[start : start + BLOCK_BITS] for start in range(0, len(texts), BLOCK_BITS)]
        return tuple(
            " + ".join(f"CASE WHEN {sql} THEN CAST({1 << bit} AS BIGINT) ELSE 0 END" for bit, sql in enumerate(block))
            for block in blocks
        )

    def unpack_bits(self, packed: Sequence[int]) -> Mask:
        """Unpacks the result of each condition."""
        number = sum(int(packed_bits) << (BLOCK_BITS * place) for place, packed_bits in enumerate(packed))
        return np.array([number >> place & 1 for place in range(len(self.numbers))], dtype=np.bool_)


@dataclass(frozen=True)
class ValueFilter:
    """A condition with its wanted values for each possible signature."""

    value_mask: Mask
    needed_bits: tuple[int, ...] = ()
    """The conditions that a wanted record must satisfy, whatever its value."""
    class_bits: tuple[Counts, ...] = field(default=())
    """For each mixed part and each value, the condition that decides whether the value is wanted."""

    def select_values(self, bits: Mask) -> Mask:
        """The wanted domain values."""
        if not bits[list(self.needed_bits)].all():
            return np.zeros_like(self.value_mask)
        is_selected = self.value_mask
        for numbers in self.class_bits:
            is_selected = is_selected & bits[numbers]
        return is_selected


@dataclass(frozen=True)
class Domain:
    """The domain of the sensitive column. DuckDB evaluates expressions on the domain by its own rules."""

    session: Session
    source: FromClause

    @property
    def size(self) -> int:
        """The number of values."""
        return len(self.session.manifest.domain)

    def fetch_rows(self, columns: Sequence[str], where: Sequence[str] = ()) -> Iterator[ResultRow]:
        """Yields the index and some expressions of each value that satisfies the conditions."""
        clause = f" WHERE {' AND '.join(where)}" if where else ""
        selected_sql = ", ".join([f"{quote_name('release')}.{PLACE}", *columns])
        yield from self.session.fetch_rows(f"SELECT {selected_sql} FROM {self.source.values_sql}{clause}")

    def match_values(self, conditions: Sequence[str]) -> Mask:
        """Marks the values that satisfy the conditions.

        If no value satisfies them, an error is raised, because a typo would look like zero.
        """
        if not conditions and not self.source.value_joins:
            return np.ones(self.size, dtype=np.bool_)
        is_match = np.zeros(self.size, dtype=np.bool_)
        is_match[[place for (place,) in self.fetch_rows((), conditions)]] = True
        if not is_match.any() and not (
            conditions and all(condition.endswith(_NULL_SUFFIX) for condition in conditions)
        ):
            raise self._explain_no_match()  # IS NULL has no value that could be misspelt
        return is_match

    def check_joins(self) -> None:
        """Rejects a join that gives a value several rows. It reads only as many rows as the check needs."""
        if not self.source.value_joins:
            return
        most = self.size + 1
        places = self.session.fetch_rows(
            f"SELECT {quote_name('release')}.{PLACE} FROM {self.source.values_sql} LIMIT {most}"
        )
        if len(set(places)) < len(places):
            raise QueryError(
                "the join gives some values of the sensitive column several rows, which would count a record "
                "several times; join a table in which the column is unique.",
                code="join-repeats-values",
            )

    def _explain_no_match(self) -> QueryError:
        manifest = self.session.manifest
        groups = [
            f"; the values of {level!r} are {format_values(tuple(dict.fromkeys(group_names)), MOST_NAMED_VALUES)}"
            for level, group_names in manifest.upper_levels.items()
        ]
        suggestions = [
            item.nearest_value for item in self.session.absent_values[:MOST_SUGGESTIONS] if item.is_protected
        ]
        suggestion = next((item for item in suggestions if item is not None), None)
        hint = "its" if suggestion is None else f"did you mean {suggestion!r}? Its"
        return QueryError(
            f"no value of {manifest.sensitive_name!r} satisfies the condition; {hint} values are "
            f"{format_values(manifest.domain, MOST_NAMED_VALUES)}{''.join(groups)}.",
            code="no-matching-value",
            fields={"column": manifest.sensitive_name},
        )

    def compute_values(self, sql: str) -> list[Any]:
        """Evaluates an expression of the sensitive columns for each value.

        The result is also None if a join has no row for the value.
        """
        place_values: list[Any] = [None] * self.size
        for place, value in self.fetch_rows([sql]):
            place_values[place] = value
        return place_values

    def compute_scores(self, sql: str) -> Floats:
        """Evaluates a numeric expression for each value. NaN if the result is missing."""
        # DuckDB rejects values that cannot be added up.
        self.session.describe_columns(f"SELECT SUM({sql}) FROM {self.source.values_sql}")
        numbers = self.compute_values(f"CAST({sql} AS DOUBLE)")
        return np.array([np.nan if number is None else number for number in numbers], dtype=np.float64)

    def make_filter(self, condition: Condition, signature: Signature, *, is_where: bool = False) -> ValueFilter:
        """Prepares a condition.

        The public part of a WHERE needs no bits, because only records that satisfy this part are counted.
        """
        needed_bits = () if is_where else tuple(signature.add(sql) for sql in condition.public_parts)
        class_bits = tuple(self._find_class_bits(mixed_part, signature) for mixed_part in condition.mixed_parts)
        return ValueFilter(self.match_values(condition.sensitive_parts), needed_bits, class_bits)

    def _find_class_bits(self, mixed: Tree, signature: Signature) -> Counts:
        """For each value, the number of the condition that the mixed part becomes."""
        atoms = _find_atoms(mixed, self.source.names)
        atom_sql = [allowed_sql.write_sql(atom) for atom in atoms]
        columns_sql = ", ".join(f"{sql} AS a{number}" for number, sql in enumerate(atom_sql))
        kinds = list(self.session.describe_columns(f"SELECT {columns_sql} FROM {self.source.values_sql}").values())
        numbers: dict[tuple[str, ...], int] = {}
        class_numbers = np.zeros(self.size, dtype=np.int64)
        for place, *values in self.fetch_rows(atom_sql):
            literals = tuple(format_literal(value, kind) for value, kind in zip(values, kinds, strict=True))
            if literals not in numbers:
                numbers[literals] = signature.add(
                    _substitute_atoms(mixed, dict(zip(atom_sql, literals, strict=True)), self)
                )
            class_numbers[place] = numbers[literals]
        return class_numbers


def _is_atom(node: Tree, names: ColumnNames) -> bool:
    """Whether a node depends only on the sensitive value and is a complete expression."""
    return isinstance(node, exp.Condition) and not isinstance(node, exp.If | exp.Tuple) and names.is_sensitive(node)


def _find_atoms(expression: Tree, names: ColumnNames) -> list[Tree]:
    """The largest parts of a mixed expression that depend only on the sensitive value."""
    atoms_by_sql: dict[str, Tree] = {}
    waiting = [expression]
    while waiting:
        node = waiting.pop()
        if _is_atom(node, names):
            atoms_by_sql.setdefault(allowed_sql.write_sql(node), node)
        else:
            waiting.extend(node.iter_expressions())
    return list(atoms_by_sql.values())


def _substitute_atoms(mixed: Tree, literals: Mapping[str, str], domain: Domain) -> str:
    """The mixed part, with the value of each sensitive expression inserted."""

    def replace_atom(node: Tree) -> Tree:
        domain.session.clock.check()
        if _is_atom(node, domain.source.names) and (sql := literals.get(allowed_sql.write_sql(node))) is not None:
            return allowed_sql.make_ready_sql(sql)
        return node

    return f"({allowed_sql.write_sql(mixed.transform(replace_atom))})"
