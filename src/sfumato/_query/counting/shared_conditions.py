"""Splits queries into the conditions and value sets that they share."""

from __future__ import annotations

import datetime
import math
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal

import numpy as np
import pyarrow as pa

from sfumato._core.array_types import Codes, Mask, Places
from sfumato._core.cell_values import Scalar, Value, display, find_field_type, simplify_type
from sfumato._query.counting.count_request import Condition, CountQuery, Range
from sfumato._query.impossible_literals import describe_missing_value, explain_missing_range, explain_missing_value
from sfumato._release.manifest import Manifest
from sfumato._request.named_columns import explain_missing_column
from sfumato._request.range_edges import Ranges
from sfumato.errors import QueryError

_COMPARABLE_TYPES: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int, float, Decimal),
    "number": (int, float, Decimal),
    "boolean": (bool,),
    "date": (datetime.date,),
    "datetime": (datetime.date,),
}
"""The Python types that can be compared with a column of each Data Package type."""


@dataclass
class QueriedColumn:
    """A public column that occurs in a query.

    Its codes number the queried values. The numbers follow the order of mention first, and finally the values' own
    order. The next code stands for the missing value, and the last code for all other values.
    """

    name: str
    kind: pa.DataType
    codes_by_value: dict[Scalar, int] = field(default_factory=dict)

    @property
    def values(self) -> pa.Array:
        """The queried values, in the type of the column."""
        return pa.array(list(self.codes_by_value), type=self.kind)

    @property
    def missing_code(self) -> int:
        """The code of the missing value."""
        return len(self.codes_by_value)

    @property
    def size(self) -> int:
        """The number of codes."""
        return len(self.codes_by_value) + 2

    def encode(self, value: Scalar) -> int | None:
        """The code of a value. -1 for the missing value, which is coded later. None for an impossible value."""
        if value is None:
            return -1
        converted = self.convert(value)
        return None if converted is None else self.codes_by_value.setdefault(converted, len(self.codes_by_value))

    def put_in_order(self) -> list[int]:
        """Renumbers the queried values in their own order, as in releases.

        Returns the new codes. The missing value's code is last. If queries name all values of a column, these codes
        equal the numbers in the file.
        """
        order = sorted(self.codes_by_value)  # type: ignore[type-var]
        place = {value: code for code, value in enumerate(order)}
        ordered_codes = [place[value] for value in self.codes_by_value]
        self.codes_by_value = place
        return [*ordered_codes, self.missing_code]

    def convert(self, value: Scalar) -> Scalar:
        """Converts the value to the column's type. None if this is impossible."""
        self.check(value)
        if pa.types.is_integer(self.kind) and not isinstance(value, int):
            is_whole = math.isfinite(value) and value == int(value)  # type: ignore[arg-type]
            return int(value) if is_whole else None  # type: ignore[arg-type]
        if pa.types.is_timestamp(self.kind) and isinstance(value, datetime.date):
            value = convert_moment(value, self.kind)
        if pa.types.is_decimal(self.kind) and isinstance(value, float):
            value = Decimal(repr(value))
        try:
            converted: Scalar = pa.scalar(value, self.kind).as_py()
        except (pa.ArrowException, OverflowError, ValueError):
            return None
        return converted + 0.0 if isinstance(converted, float) else converted  # zero has one sign

    def check(self, value: Scalar) -> None:
        """Rejects a value whose type does not fit the column. Such a value is a mistake, and not a count of zero."""
        kind = find_field_type(self.kind) or ""
        is_bool = isinstance(value, bool) and kind != "boolean"
        is_moment = isinstance(value, datetime.datetime) and kind == "date"
        if is_bool or is_moment or not isinstance(value, _COMPARABLE_TYPES.get(kind, ())):
            raise QueryError(
                f"{value!r} cannot be compared with {self.name!r}, which has the type {self.kind}.",
                code="incomparable-value",
                fields={"column": self.name, "type": str(self.kind)},
            )


COLUMN_SHIFT = 32
"""The number of bits for a condition's number within its column. Higher bits have the column's number."""


@dataclass(frozen=True)
class Atom:
    """One condition. It is a list of codes that satisfy it, or a range."""

    column: int
    codes: tuple[int, ...] = ()
    range: Range | None = None


@dataclass(frozen=True, eq=False)
class Workload:
    """Distinct conditions, their combinations, and the value sets.

    Each query has the numbers of its combination and set.
    """

    columns: Sequence[QueriedColumn]
    atoms: Mapping[int, Atom]
    wheres: Sequence[tuple[int, ...]]
    """Each combination as the numbers of its conditions in column order, with at most one for each column."""
    sets: Sequence[Places | None]
    """Sets of domain indices; None for all values, because then no estimate is needed."""
    where_numbers: Places
    set_numbers: Places

    def select_part(self, first: int, last: int) -> tuple[Workload, Places]:
        """The queries that have some of the combinations, and the numbers of these queries."""
        if first == 0 and last >= len(self.wheres):
            return self, np.arange(len(self.where_numbers))
        queries = np.flatnonzero((self.where_numbers >= first) & (self.where_numbers < last))
        return (
            replace(
                self,
                wheres=self.wheres[first:last],
                where_numbers=self.where_numbers[queries] - first,
                set_numbers=self.set_numbers[queries],
            ),
            queries,
        )

    def list_columns(self, where: int) -> tuple[int, ...]:
        """The columns that a combination names."""
        return tuple([atom >> COLUMN_SHIFT for atom in self.wheres[where]])


def build_workload(queries: Sequence[CountQuery], manifest: Manifest, schema: pa.Schema) -> Workload:
    """Numbers the shared conditions and value sets of all queries."""
    reader = _QueryReader(manifest, schema)
    pairs = np.array([reader.read_query(query) for query in queries], dtype=np.int64).reshape(-1, 2)
    return Workload(reader.columns, reader.build_atoms(), list(reader.wheres), reader.sets, pairs[:, 0], pairs[:, 1])


class _QueryReader:
    """Reads queries one by one, and finds known conditions by a single lookup."""

    def __init__(self, manifest: Manifest, schema: pa.Schema) -> None:
        self.manifest, self.schema = manifest, schema
        self.names = {name.lower(): name for name in manifest.public_columns}
        self.places = {value: place for place, value in enumerate(manifest.domain)}
        self.levels = {name.lower(): groups for name, groups in manifest.levels.items()}
        self.columns: list[QueriedColumn] = []
        self.column_numbers: dict[str, int] = {}
        self.atoms: dict[int, Atom] = {}
        self.numbers_by_condition: dict[tuple[str, object], int] = {}
        self.wheres: dict[tuple[int, ...], int] = {}
        self.sets: list[Places | None] = []
        self.set_numbers: dict[tuple[Value, ...] | None, int] = {}

    def read_query(self, query: CountQuery) -> tuple[int, int]:
        """The numbers of the query's combination and value set."""
        atom_numbers = self.numbers_by_condition
        if self.levels and any(str(name).lower() in self.levels for name in query.where):
            query = self._resolve_levels(query)
        try:
            atoms = [atom_numbers[item] for item in query.where.items()]
        except (KeyError, TypeError):  # the condition is new, or a list
            atoms = [self._number_condition(*item) for item in query.where.items()]
        atoms.sort()
        where = self.wheres.setdefault(tuple(atoms), len(self.wheres))
        values = query.values
        if values is not None and not isinstance(values, tuple):
            values = _make_value_tuple(values)
        try:
            set_number = self.set_numbers.get(values)
        except TypeError as error:
            raise QueryError(_NO_VALUES, code="invalid-values") from error
        if set_number is None:
            set_number = self.set_numbers[values] = len(self.sets)
            self.sets.append(None if values is None else self._find_places(values))
        return where, set_number

    def _resolve_levels(self, query: CountQuery) -> CountQuery:
        """Replaces conditions on levels of the sensitive column by values."""
        values = None if query.values is None else self._find_places(_make_value_tuple(query.values))
        places = list(range(len(self.places))) if values is None else values.tolist()
        where: dict[str, Condition] = {}
        for name, condition in query.where.items():
            groups = self.levels.get(name.lower())
            if groups is None:
                where[name] = condition
                continue
            if isinstance(condition, Range):
                raise QueryError(
                    f"{name!r} is a level; list the groups to count instead of a range.",
                    code="range-of-level",
                    fields={"column": name},
                )
            group_names = _list_condition_values(condition)
            if unknown := [group for group in group_names if group not in groups]:
                raise QueryError(
                    describe_missing_value(display(unknown[0]), name, groups, "group"),
                    code="unknown-group",
                    fields={"column": name},
                )
            places = [place for place in places if groups[place] in group_names]
        if not places:
            raise QueryError(
                f"no value of {self.manifest.sensitive_name!r} satisfies the condition.",
                code="no-matching-value",
                fields={"column": self.manifest.sensitive_name},
            )
        return CountQuery(where, tuple(self.manifest.domain[place] for place in places))

    def _number_condition(self, name: str, condition: Condition) -> int:
        try:
            key = (name, condition if isinstance(condition, Hashable) else tuple(condition))
            atom_number = self.numbers_by_condition.get(key)
        except TypeError as error:  # one of the values is itself a collection
            raise QueryError(
                f"{condition!r} cannot be compared with {name!r}; give one value, several values, or a Range.",
                code="incomparable-value",
                fields={"column": name},
            ) from error
        if atom_number is None:
            atom_number = self.numbers_by_condition[key] = self._add_atom(name, condition)
        return atom_number

    def build_atoms(self) -> dict[int, Atom]:
        """Builds the conditions, now that all values and codes of each column are known."""
        codes = [column.put_in_order() for column in self.columns]
        return {
            number: Atom(atom.column, tuple(sorted(codes[atom.column][code] for code in atom.codes)), atom.range)
            for number, atom in self.atoms.items()
        }

    def _add_atom(self, name: str, condition: Condition) -> int:
        place = self._number_column(name)
        column = self.columns[place]
        if column.name in self.manifest.ranges:
            _check_ranges(column, condition, Ranges(self.manifest.ranges[column.name]))
        if isinstance(condition, Range):
            for end in condition.list_ends().values():
                column.check(end)
            atom = Atom(place, range=condition)
        else:
            codes = {column.encode(value) for value in _list_condition_values(condition)}
            atom = Atom(place, tuple(sorted(code for code in codes if code is not None)))
        number = (place << COLUMN_SHIFT) + len(self.atoms)
        self.atoms[number] = atom
        return number

    def _number_column(self, name: str) -> int:
        name = str(name)
        column_name = self.names.get(name.lower())
        if column_name is None:
            if name.lower() in {sensitive_name.lower() for sensitive_name in self.manifest.sensitive_columns}:
                raise QueryError(
                    f"{name!r} is sensitive; list the values to count instead of a condition.",
                    code="condition-on-sensitive-column",
                    fields={"column": name},
                )
            raise QueryError(
                explain_missing_column(name, self.names.values(), "the release has no public column"),
                code="missing-column",
                fields={"column": name},
            )
        if column_name not in self.column_numbers:
            self.column_numbers[column_name] = len(self.columns)
            self.columns.append(QueriedColumn(column_name, simplify_type(self.schema.field(column_name).type)))
        return self.column_numbers[column_name]

    def _find_places(self, values: tuple[Value, ...]) -> Places | None:
        if not values:
            raise QueryError(_NO_VALUES, code="invalid-values")
        for value in values:
            if value not in self.places:
                raise explain_missing_value(value, self.manifest)
        places = np.unique(np.array([self.places[value] for value in values], dtype=np.int64))
        return None if len(places) == len(self.places) else places


_NO_VALUES = "give the values to count in a list, such as ['HIV'], or give no values to count every record."


def _make_value_tuple(values: Iterable[Value]) -> tuple[Value, ...]:
    """The values to count. A string is a single value."""
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise QueryError(_NO_VALUES, code="invalid-values")
    return tuple(values)


def convert_moment(date: datetime.date, kind: pa.DataType) -> datetime.datetime:
    """Converts a date or a time for comparison with a time column.

    A date means its midnight. A time without an offset is in UTC.
    """
    converted = date if isinstance(date, datetime.datetime) else datetime.datetime.combine(date, datetime.time())
    if kind.tz is None:
        return converted if converted.tzinfo is None else converted.astimezone(datetime.UTC).replace(tzinfo=None)
    return converted if converted.tzinfo is not None else converted.replace(tzinfo=datetime.UTC)


def _list_condition_values(condition: Scalar | Collection[Scalar]) -> Collection[Scalar]:
    """The values that a condition names: one, or several."""
    is_one = isinstance(condition, str | bytes) or not isinstance(condition, Collection)
    return (condition,) if is_one else condition  # type: ignore[return-value]


def _check_ranges(column: QueriedColumn, condition: Condition, bins: Ranges) -> None:
    """For a column published in ranges, rejects values that are not ranges of this column."""
    if isinstance(condition, Range):
        labels = ", ".join(map(repr, bins.labels))
        raise QueryError(
            f"{column.name!r} was published in ranges; list the ranges to count. Its ranges are {labels}.",
            code="range-of-ranges",
            fields={"column": column.name},
        )
    for value in _list_condition_values(condition):
        if value is not None:
            column.check(value)
            if value not in bins.labels:
                raise explain_missing_range(str(value), column.name, bins)


def match_codes(codes: Codes, atom: Atom, size: int) -> Mask:
    """Marks the codes that satisfy a condition with listed codes."""
    if len(atom.codes) == 1:
        return np.asarray(codes == atom.codes[0])
    table = np.zeros(size, dtype=np.bool_)
    table[list(atom.codes)] = True
    return table.take(codes)
