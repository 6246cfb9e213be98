"""Describes the columns of a table: roles, domains, ranges and missing values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum, StrEnum
from pathlib import Path
from typing import TypeVar

from sfumato._core.cell_values import Value, display, to_json
from sfumato._core.json_types import Json
from sfumato._request.domain_files import read_declared_domain
from sfumato._request.hierarchy import Hierarchy, format_level_name
from sfumato._request.named_columns import ANY_CHARACTERS, check_named_columns, find_matches
from sfumato._request.person_rows import ONE_ROW_EACH, OneRow, PersonRows, Surplus
from sfumato._request.range_edges import Edge, Ranges
from sfumato.errors import SchemaError

COMPOUND_MARK = " + "
"""Separates the names of the columns of a compound."""


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


ROLE_ARGUMENTS = {
    Role.SENSITIVE: "sensitive",
    Role.IDENTIFIER: "identifier",
    Role.PERSON: "person",
    Role.DROPPED: "drop",
}
"""The argument that gives a column its role. Columns without such an argument are public."""


class NullPolicy(StrEnum):
    """The treatment of records whose sensitive value is missing."""

    VALUE = "value"
    ERROR = "error"
    DROP = "drop"


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
    """The roles of the named columns. Every other column of a table is undecided."""

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
    """Whether the data steward states that each row is a different person. The statement is published, but not checked.
    """
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
        self._check_person_rows()
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

    def _check_person_rows(self) -> None:
        """Refuses settings for the rows of persons that contradict each other, or depend on the sensitive column."""
        if self.person_column is not None and self.each_row_is_a_person:
            raise SchemaError(
                f"`person={self.person_column!r}` asks sfumato to check persons, but `each_row_is_a_person=True` "
                "states them without a check; give one of the two.",
                code="person-and-statement",
                fields={"column": self.person_column},
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
        read_domains = {name: read_declared_domain(name, values) for name, values in (domains or {}).items()}
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
        """The person column and the rules for the rows of a person. None without a person column."""
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
        """The columns without a role. Call this method after `resolve_patterns`."""
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
        check_named_columns(self._list_named_columns(), columns)
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

    def _list_named_columns(self) -> Iterator[tuple[str, str]]:
        """Lists the columns that are named, each with the argument that names it."""
        for name, role in self.roles.items():
            if role in ROLE_ARGUMENTS:
                yield "compound" if name in self.compound else ROLE_ARGUMENTS[role], name
        for argument, names in (("domains", self.domains), ("ranges", self.ranges), ("keep", self.confirmed_columns)):
            yield from (("hierarchies" if name in self.hierarchies else argument, name) for name in names)
        row_choice = self.person_rows.one_row
        if row_choice is not None and row_choice.column is not None:
            yield "one_row", row_choice.column

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


def _list_names(names: str | Iterable[str]) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names)


def _parse_choice(kind: type[ChoiceT], choice: ChoiceT | str, argument: str) -> ChoiceT:
    """Finds the member of an enumeration by its name."""
    if choice not in list(kind):
        raise SchemaError(
            f"`{argument}={str(choice)!r}` is unknown; choose {' or '.join(kind)}.",
            code="unknown-choice",
            fields={"argument": argument, "given": str(choice)},
        )
    return kind(choice)
