"""Describes the columns of a table: roles, domains, ranges and missing values."""

from __future__ import annotations

import datetime
import itertools
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum, StrEnum
from pathlib import Path
from typing import TypeVar

from sfumato._core.cell_values import Value, display, to_json
from sfumato._core.json_types import Json
from sfumato._core.small_text_files import read_csv_lines
from sfumato._core.suggestions import NAME_SIMILARITY, explain_missing_name
from sfumato._request.hierarchy import Hierarchy, format_level_name
from sfumato._request.person_rows import ONE_ROW_EACH, OneRow, PersonRows, Surplus
from sfumato.errors import SchemaError

COMPOUND_MARK = " + "
"""Separates the names of the columns of a compound."""
NAMED_COLUMNS = 50
"""The largest number of existing columns named in the message about a missing one."""

RANGE_LABEL = re.compile(r"\[(?P<low>[^,]+),(?P<high>[^,]+)[)\]]")
"""The published name of a range, such as `[18,65)`."""

Edge = int | float | datetime.date | datetime.datetime
ChoiceT = TypeVar("ChoiceT", bound=StrEnum)


class Role(Enum):
    """The role of a column."""

    IDENTIFIER = "identifier"
    """Identifies a person, such as a name or an insurance number; never published."""
    PERSON = "person"
    """Identifies the person of a row; its rows per person are checked, and it is never published."""
    PUBLIC = "public"
    """Published unchanged, or recoded into ranges."""
    SENSITIVE = "sensitive"
    """Published under protection."""
    DROPPED = "dropped"
    """Not published."""
    UNDECIDED = "undecided"
    """Has no role yet. A plan treats the column as public, and publishing stops until it has a role."""


PUBLISHED_ROLES = (Role.PUBLIC, Role.SENSITIVE, Role.UNDECIDED)
"""The roles of the columns that would be published."""
PATTERN_ROLES = (Role.PUBLIC, Role.DROPPED, Role.IDENTIFIER)
"""The roles that a name with `*` can give to several columns."""
ANY_CHARACTERS = "*"
"""Stands for any characters in the name of a column; alone, for all columns that have no other role."""


class NullPolicy(StrEnum):
    """The treatment of records whose sensitive value is missing."""

    VALUE = "value"
    ERROR = "error"
    DROP = "drop"


@dataclass(frozen=True, slots=True)
class Ranges:
    """Half-open intervals [a,b) between edges. The last interval is closed, and edges keep their spelling."""

    edges: tuple[str, ...]

    def __post_init__(self) -> None:
        if len(self.edges) in (0, 1):
            raise SchemaError("ranges need at least two edges, such as 0,20,40,60.", code="too-few-edges")
        parsed = self.parsed_edges
        dates = [edge for edge in parsed if isinstance(edge, datetime.date)]
        if len(dates) not in (0, len(parsed)):
            raise SchemaError("the edges of ranges must be all numbers or all dates.", code="mixed-edges")
        if len({isinstance(edge, datetime.datetime) and edge.tzinfo is not None for edge in dates}) > 1:
            raise SchemaError("either all edges of ranges must have an offset from UTC, or none.", code="mixed-offsets")
        if any(low >= high for low, high in itertools.pairwise(parsed)):  # type: ignore[operator]
            raise SchemaError(
                f"the edges {', '.join(self.edges)} must rise from left to right.", code="edges-not-rising"
            )

    @classmethod
    def parse(cls, text: str) -> Ranges:
        """Reads `0,20,40,60` or `2020-01-01,2021-01-01`."""
        return cls(tuple(edge.strip() for edge in text.split(",")))

    @classmethod
    def of(cls, edges: Ranges | str | Sequence[Edge]) -> Ranges:
        """Accepts ranges, a string, or a list of edges."""
        if isinstance(edges, Ranges):
            return edges
        return cls.parse(edges) if isinstance(edges, str) else cls(tuple(str(edge) for edge in edges))

    @property
    def parsed_edges(self) -> tuple[Edge, ...]:
        """The edges as numbers or dates. If some edges have a time of day, a date stands for its midnight."""
        parsed = tuple(_parse_edge(edge) for edge in self.edges)
        if not any(isinstance(edge, datetime.datetime) for edge in parsed):
            return parsed
        return tuple(
            datetime.datetime.combine(edge, datetime.time()) if type(edge) is datetime.date else edge for edge in parsed
        )

    @property
    def labels(self) -> tuple[str, ...]:
        """The published names of the ranges, in rising order."""
        pairs = list(itertools.pairwise(self.edges))
        return tuple(f"[{low},{high}{']' if (low, high) == pairs[-1] else ')'}" for low, high in pairs)


def is_list_of_rising_ranges(labels: Sequence[str]) -> bool:
    """Whether all texts are names of ranges, and their lower edges rise; `[5,18)` comes before `[18,65)`."""
    matches = [RANGE_LABEL.fullmatch(label) for label in labels]
    edges = [match for match in matches if match is not None]
    if not edges or len(edges) < len(matches):
        return False
    try:
        Ranges((*(match["low"] for match in edges), edges[-1]["high"]))
    except SchemaError:
        return False
    return True


def _parse_edge(text: str) -> Edge:
    for read in (int, float, datetime.date.fromisoformat, datetime.datetime.fromisoformat):
        try:
            edge: Edge = read(text)
        except ValueError:
            continue
        if not (isinstance(edge, float) and math.isnan(edge)):
            return edge
    raise SchemaError(
        f"the edge {text!r} is neither a number nor a date such as 2024-01-31.",
        code="wrong-edge",
        fields={"edge": text},
    )


@dataclass(frozen=True, slots=True)
class MergedValues:
    """Rare values of a column that are published as one value, which is a label or the missing value."""

    values: frozenset[Value]
    label: str | None

    def to_json(self) -> Json:
        """Writes the merged values as a manifest has them."""
        return {"values": sorted((to_json(value) for value in self.values), key=str), "label": self.label}


@dataclass(frozen=True, slots=True)
class Schema:
    """The roles of the named columns; every other column of a table is undecided."""

    roles: Mapping[str, Role]
    domains: Mapping[str, tuple[Value, ...]] = field(default_factory=dict)
    ranges: Mapping[str, Ranges] = field(default_factory=dict)
    nulls: NullPolicy = NullPolicy.VALUE
    confirmed_columns: frozenset[str] = frozenset()
    compound: tuple[str, ...] = ()
    """Sensitive columns that are protected together, as one column of their combinations."""
    merged_values: Mapping[str, MergedValues] = field(default_factory=dict)
    person_rows: PersonRows = ONE_ROW_EACH
    each_row_is_a_person: bool = False
    """Whether the data steward states that each row is a different person; this is published, and not checked."""
    hierarchies: Mapping[str, Hierarchy] = field(default_factory=dict)
    """The hierarchies of columns. The values of a hierarchy are the declared domain of its column."""
    publish_at: Mapping[str, str] = field(default_factory=dict)
    """The level at which a column is published: its groups replace its values."""
    patterns: tuple[tuple[str, Role], ...] = ()
    """Names with `*`, such as `DX*`, with the role of matching columns. A column named in full keeps its role."""

    def __post_init__(self) -> None:
        sensitive_names = [name for name, role in self.roles.items() if role is Role.SENSITIVE]
        if other := next((name for name in self.hierarchies if sensitive_names != [name]), None):
            raise SchemaError(
                f"{other!r} cannot have a hierarchy: only a single sensitive column can. Leave its hierarchy out.",
                code="hierarchy-not-possible",
                fields={"column": other},
            )
        declared = {name: hierarchy.domain for name, hierarchy in self.hierarchies.items()}
        object.__setattr__(self, "domains", {**self.domains, **declared})
        if lacking := next((name for name in self.publish_at if name not in self.hierarchies), None):
            raise SchemaError(
                f"column {lacking!r} cannot be published at a level, because it has no hierarchy; give it one "
                f"(`hierarchies={{{lacking!r}: Path('FILE')}}`).",
                code="no-hierarchy",
                fields={"column": lacking},
            )
        levels = [(name, self.hierarchies[name], level) for name, level in self.publish_at.items()]
        level_names = {
            name: hierarchy.levels[hierarchy.find_level(level)]
            for name, hierarchy, level in levels
            if hierarchy.find_level(level)
        }
        # The finest level is the values themselves, so publishing at it changes nothing.
        object.__setattr__(self, "publish_at", level_names)
        if self.person_column is not None and self.each_row_is_a_person:
            raise SchemaError(
                f"`person={self.person_column!r}` asks sfumato to check persons, but `each_row_is_a_person=True` "
                "states them without a check; give one of the two."
            )
        if self.person_column is None and not self.person_rows.is_default:
            raise SchemaError(
                "rows of a person can be counted and chosen only with a person column; name it (`person=`).",
                code="no-person-column",
            )
        row_choice = self.person_rows.one_row
        if row_choice is not None and row_choice.column == self.person_column:
            raise SchemaError(
                f"`one_row=` cannot order the rows of a person by {row_choice.column!r}, which identifies the person; "
                "choose another column, or a random row (`one_row='random'`).",
                code="rows-ordered-by-person",
                fields={"column": row_choice.column},
            )
        if row_choice is not None and self.get_role(row_choice.column or "") is Role.SENSITIVE:
            raise SchemaError(
                f"`one_row=` must not depend on the sensitive column {row_choice.column!r}, because the chosen row "
                "would disclose something about it; choose another column, or a random row (`one_row='random'`).",
                code="rows-ordered-by-sensitive",
                fields={"column": row_choice.column},
            )
        if len(self.compound) == 1 or len(set(self.compound)) != len(self.compound):
            raise SchemaError(
                "a compound needs at least two different columns, such as disease,drug.",
                code="too-few-compound-columns",
            )
        if both := sorted(set(self.domains) & set(self.ranges)):
            raise SchemaError(
                f"column {both[0]!r} has both a domain and ranges, but ranges replace a domain; give only one of the "
                "two.",
                code="two-domains",
                fields={"column": both[0], "by": "domain, ranges"},
            )

    @classmethod
    def of(  # noqa: PLR0913 - each argument is a role or a rule that users name one by one
        cls,
        sensitive: str | Iterable[str] = (),
        *,
        compound: Iterable[str] = (),
        public: str | Iterable[str] = (),
        identifier: Iterable[str] = (),
        person: str | None = None,
        drop: Iterable[str] = (),
        keep: Iterable[str] = (),
        domains: Mapping[str, Sequence[Value] | Path] | None = None,
        hierarchies: Mapping[str, Hierarchy | Path] | None = None,
        publish_at: Mapping[str, str] | None = None,
        ranges: Mapping[str, Ranges | str | Sequence[Edge]] | None = None,
        nulls: NullPolicy | str = NullPolicy.VALUE,
        rows_per_person: int = 1,
        surplus: Surplus | str = Surplus.REFUSE,
        one_row: OneRow | str | None = None,
        each_row_is_a_person: bool = False,
    ) -> Schema:
        """Makes a schema from lists of column names. A column with two roles is refused.

        In `public`, `drop` and `identifier`, a `*` stands for any characters: `DX*`. `public='*'` makes every column
        public that has no other role.
        """
        compound_columns = _list_names(compound)
        names_by_role = [
            (Role.SENSITIVE, (*_list_names(sensitive), *compound_columns)),
            (Role.PUBLIC, _list_names(public)),
            (Role.PERSON, _list_names(person or ())),
            (Role.IDENTIFIER, _list_names(identifier)),
            (Role.DROPPED, _list_names(drop)),
        ]
        roles: dict[str, Role] = {}
        patterns: dict[str, Role] = {}
        for role, names in names_by_role:
            for name in names:
                known_roles = patterns if ANY_CHARACTERS in name and role in PATTERN_ROLES else roles
                # The person column is never published, so a list of unpublished columns may name it too.
                is_person = known_roles.get(name) is Role.PERSON and role in (Role.IDENTIFIER, Role.DROPPED)
                if known_roles.setdefault(name, role) is not role and not is_person:
                    raise SchemaError(
                        f"column {name!r} cannot be both {known_roles[name].value} and {role.value}; give it one role.",
                        code="two-roles",
                        fields={"column": name, "first": known_roles[name].value, "second": role.value},
                    )
        if both := sorted(set(domains or ()) & set(hierarchies or ())):
            raise SchemaError(
                f"column {both[0]!r} has both a domain and a hierarchy, but the first level of a hierarchy is the "
                "domain; give only one.",
                code="two-domains",
                fields={"column": both[0], "by": "domain, hierarchy"},
            )
        read_domains = {name: _read_declared_domain(name, values) for name, values in (domains or {}).items()}
        parsed_ranges = {name: Ranges.of(edges) for name, edges in (ranges or {}).items()}
        row_choice = OneRow.parse(one_row) if isinstance(one_row, str) else one_row
        return cls(
            roles,
            read_domains,
            parsed_ranges,
            _parse_choice(NullPolicy, nulls, "nulls"),
            frozenset(_list_names(keep)),
            compound_columns,
            person_rows=PersonRows(rows_per_person, _parse_choice(Surplus, surplus, "surplus"), row_choice),
            each_row_is_a_person=each_row_is_a_person,
            hierarchies={
                name: hierarchy if isinstance(hierarchy, Hierarchy) else Hierarchy.read(hierarchy)
                for name, hierarchy in (hierarchies or {}).items()
            },
            publish_at=publish_at or {},
            patterns=tuple(patterns.items()),
        )

    @property
    def sensitive_columns(self) -> tuple[str, ...]:
        """The columns to protect: one column, the columns of a compound, or columns protected separately."""
        names = tuple(name for name, role in self.roles.items() if role is Role.SENSITIVE)
        if self.compound:
            if extra := sorted(set(names) - set(self.compound)):
                raise SchemaError(
                    f"{extra[0]!r} is sensitive but not in the compound of {' and '.join(map(repr, self.compound))}, "
                    "and only one column can be protected. Add it to the compound.",
                    code="column-outside-compound",
                    fields={"column": extra[0]},
                )
            return self.compound
        if not names:
            raise SchemaError(
                "there is no sensitive column, so nothing would be protected. Name one with `sensitive=`.",
                code="no-sensitive-column",
            )
        return names

    @property
    def combined_columns(self) -> tuple[str, ...]:
        """The sensitive columns whose combinations are counted, if there are several."""
        return self.sensitive_columns if len(self.sensitive_columns) > 1 else ()

    @property
    def is_independent(self) -> bool:
        """Whether several columns are protected separately."""
        return bool(self.combined_columns) and not self.compound

    @property
    def sensitive_name(self) -> str:
        """The name of the single sensitive column, or the joined names of several."""
        return COMPOUND_MARK.join(self.sensitive_columns)

    @property
    def is_declared(self) -> bool:
        """Whether the domains of the sensitive columns are declared, so that they need not be read from the table."""
        return not self.list_undeclared()

    def list_undeclared(self) -> tuple[str, ...]:
        """The sensitive columns whose possible values would be read from the table."""
        return tuple(name for name in self.sensitive_columns if name not in self.domains and name not in self.ranges)

    def get_published_domain(self, name: str) -> tuple[Value, ...]:
        """The declared values of a column as published: the values themselves, or the groups of a level."""
        level = self.publish_at.get(name)
        hierarchy = self.hierarchies.get(name)
        return (
            self.domains[name]
            if level is None or hierarchy is None
            else hierarchy.list_groups(hierarchy.find_level(level))
        )

    def get_published_hierarchy(self, name: str) -> Hierarchy | None:
        """The published hierarchy of a column. If groups of a level are published, it begins at that level."""
        hierarchy, level = self.hierarchies.get(name), self.publish_at.get(name)
        return hierarchy if hierarchy is None or level is None else hierarchy.start_at(hierarchy.find_level(level))

    @property
    def person_column(self) -> str | None:
        """The column that identifies the person of a row."""
        return next((name for name, role in self.roles.items() if role is Role.PERSON), None)

    @property
    def person_settings(self) -> tuple[str, PersonRows] | None:
        """The person column and the rules for the rows of a person; None without a person column."""
        return None if self.person_column is None else (self.person_column, self.person_rows)

    @property
    def identifiers(self) -> tuple[str, ...]:
        """The columns that identify people."""
        return tuple(name for name, role in self.roles.items() if role is Role.IDENTIFIER)

    def get_role(self, column: str) -> Role:
        """The role of a column; undecided unless it is named."""
        return self.roles.get(column, Role.UNDECIDED)

    def resolve_patterns(self, columns: Sequence[str]) -> Schema:
        """Gives the columns of a table the roles of the patterns that match them; `*` alone comes last."""
        roles = dict(self.roles)
        for pattern, role in sorted(self.patterns, key=lambda item: item[0] == ANY_CHARACTERS):
            matches = find_matches(pattern, columns)
            if not matches and pattern != ANY_CHARACTERS:
                raise SchemaError(
                    f"no column of the table matches {pattern!r}; correct it, or remove it.",
                    code="pattern-without-column",
                    fields={"pattern": pattern},
                )
            for name in matches:
                if pattern == ANY_CHARACTERS or name in self.roles:
                    roles.setdefault(name, role)
                elif roles.setdefault(name, role) is not role:
                    raise SchemaError(
                        f"column {name!r} cannot be both {roles[name].value} and {role.value}; name it in full in "
                        "one of the lists.",
                        code="two-roles",
                        fields={"column": name},
                    )
        return replace(self, roles=roles)

    def list_undecided(self, columns: Iterable[str]) -> tuple[str, ...]:
        """The columns without a role; call it after `resolve_patterns`."""
        return tuple(name for name in columns if self.get_role(name) is Role.UNDECIDED)

    def select_published(self, columns: Iterable[str]) -> tuple[str, ...]:
        """The columns of the release, in the order of the table."""
        return tuple(name for name in columns if self.get_role(name) in PUBLISHED_ROLES)

    def check_columns(self, columns: Sequence[str]) -> None:
        """Refuses repeated or empty column names, and names of columns that the table lacks."""
        repeated = sorted({name for name in columns if columns.count(name) > 1})
        if repeated:
            raise SchemaError(
                f"the table has two columns named {repeated[0]!r}; rename one of them.",
                code="repeated-column",
                fields={"column": repeated[0]},
            )
        published = self.select_published(columns)
        if "" in published:
            raise SchemaError(
                "a column of the table has no name; give it one, or leave it out (`drop=['']`).",
                code="column-without-name",
            )
        if truncated_name := next((name for name in published if "\0" in name), None):
            raise SchemaError(
                f"the name of column {truncated_name!r} has a zero character, at which many readers cut it off; "
                "rename or drop it.",
                code="zero-in-column-name",
                fields={"column": truncated_name},
            )
        # SQL ignores capital letters in names, so a query about one of these columns could be answered from the other.
        lowered = [name.lower() for name in published]
        if similar_names := [name for name in published if lowered.count(name.lower()) > 1]:
            raise SchemaError(
                f"columns {similar_names[0]!r} and {similar_names[1]!r} differ only by capital letters; rename or "
                "drop one of them.",
                code="column-names-alike",
                fields={"first": similar_names[0], "second": similar_names[1]},
            )
        row_choice = self.person_rows.one_row
        order_columns = () if row_choice is None or row_choice.column is None else (row_choice.column,)
        for name in (*self.roles, *self.domains, *self.ranges, *self.confirmed_columns, *order_columns):
            if name not in columns:
                raise SchemaError(explain_missing_column(name, columns), code="missing-column", fields={"column": name})
        if self.combined_columns and self.sensitive_name.lower() in lowered:
            raise SchemaError(
                f"the table has a column {self.sensitive_name!r}, which is the joint name of the sensitive "
                "columns; rename it.",
                code="column-name-taken",
                fields={"column": self.sensitive_name, "by": "sensitive columns"},
            )
        hierarchies = {name: self.get_published_hierarchy(name) for name in self.hierarchies}
        levels = [
            format_level_name(name, level)
            for name, hierarchy in hierarchies.items()
            if hierarchy
            for level in hierarchy.levels
        ]
        if taken_name := next((level for level in levels if level.lower() in lowered), None):
            raise SchemaError(
                f"the table has a column {taken_name!r}, which is the name of a level of the hierarchy; rename one.",
                code="column-named-as-level",
                fields={"column": taken_name},
            )
        if not any(self.get_role(name) in (Role.PUBLIC, Role.UNDECIDED) for name in columns):
            raise SchemaError(
                "there would be no public column to publish beside the sensitive column; keep at least one public "
                "column.",
                code="no-public-column",
            )

    def check_missing(self, texts: Sequence[str]) -> None:
        """Refuses a missing marker that is also a value of a declared domain."""
        if isinstance(texts, str):
            raise SchemaError(
                f"the missing markers are one string; give a list such as [{texts!r}].",
                code="not-a-list",
                fields={"argument": "missing"},
            )
        for name, values in self.domains.items():
            domain_texts = {display(value) for value in values if value is not None}
            if both := next((text for text in texts if text in domain_texts), None):
                raise SchemaError(
                    f"{both!r} is a missing marker, but also a value in the domain of {name!r}; remove it from the "
                    "missing markers or from the domain.",
                    code="missing-marker-in-domain",
                    fields={"column": name},
                )


def find_matches(pattern: str, columns: Iterable[str]) -> list[str]:
    """Lists the columns that a name stands for: the column of that name, or those that match its `*`."""
    columns = list(columns)
    if pattern in columns:
        return [pattern]
    expression = re.compile(".*".join(map(re.escape, pattern.split(ANY_CHARACTERS))), re.DOTALL)
    return [name for name in columns if expression.fullmatch(name)]


def explain_missing_column(name: str, columns: Iterable[str], opening: str = "the table has no column") -> str:
    """Describes a missing column, and suggests the column with the most similar name, ignoring capital letters."""
    return explain_missing_name(name, list(columns), opening, most=NAMED_COLUMNS, similarity=NAME_SIMILARITY)


def _list_names(names: str | Iterable[str]) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names)


def _read_declared_domain(column: str, values: Sequence[Value] | Path) -> tuple[Value, ...]:
    if isinstance(values, Path):
        return read_domain(values)
    if isinstance(values, str):
        raise SchemaError(
            f"the domain of {column!r} is a string; give a list of values, or the Path of a domain file.",
            code="not-a-list",
            fields={"argument": "domains", "column": column},
        )
    return tuple(values)


def _parse_choice(kind: type[ChoiceT], choice: ChoiceT | str, argument: str) -> ChoiceT:
    """Finds the member of an enumeration by its name."""
    if choice not in list(kind):
        raise SchemaError(
            f"`{argument}={str(choice)!r}` is unknown; choose {' or '.join(kind)}.",
            code="unknown-choice",
            fields={"argument": argument, "given": str(choice)},
        )
    return kind(choice)


def read_domain(path: Path) -> tuple[str | None, ...]:
    """Reads a domain file: one value a line, quoted as in CSV where needed; an empty line is the missing value.

    A first line `value` is a header.
    """
    format_message = f"the domain file {str(path)!r} cannot be read; check its quotes."
    rows = read_csv_lines(path, SchemaError, format_message, "the domain file", is_list=True)
    if wide_line := next((number for number, row in enumerate(rows, 1) if len(row) > 1), None):
        raise SchemaError(
            f"line {wide_line} of the domain file {str(path)!r} has several fields; write one value a line, in quotes "
            "if it has a comma.",
            code="wrong-number-of-fields",
            fields={"file": str(path), "line": wide_line},
        )
    values = tuple(row[0] if row and row[0] else None for row in rows)
    return values[1:] if values and (values[0] or "").lower() == "value" else values
