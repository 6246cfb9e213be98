"""Describes each column of a table, and its treatment when the table is published."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sfumato._core.json_types import Json
from sfumato._request.schema import Role, Schema

UNPUBLISHED = {
    Role.IDENTIFIER: "identifies people",
    Role.PERSON: "person number, checked",
    Role.DROPPED: "dropped",
}
"""Why a column is not published."""


@dataclass(frozen=True)
class PlannedColumn:
    """A column of the table, with its treatment."""

    name: str
    role: Role
    treatment: str
    """The treatment of the column, in words."""

    @property
    def is_published(self) -> bool:
        """Whether the release would contain the column."""
        return self.role not in UNPUBLISHED

    def to_json(self) -> Json:
        """The column as JSON."""
        return {"name": self.name, "role": self.role.value, "treatment": self.treatment}


def list_planned_columns(schema: Schema, names: Sequence[str]) -> tuple[PlannedColumn, ...]:
    """Lists the columns of a table, in the order of the table."""
    schema = schema.resolve_patterns(names)
    return tuple(PlannedColumn(name, schema.get_role(name), _describe_treatment(schema, name)) for name in names)


def _describe_treatment(schema: Schema, name: str) -> str:
    role = schema.get_role(name)
    if role in UNPUBLISHED:
        return UNPUBLISHED[role]
    parts = ["protected"] if role is Role.SENSITIVE else []
    if name in schema.publish_at:
        parts.append(f"at the level {schema.publish_at[name]}")
    if name in schema.ranges:
        parts.append(f"in {len(schema.ranges[name].labels):,} ranges")
    if name in schema.merged_values:
        parts.append("rare values merged")
    if role is Role.UNDECIDED:
        parts.append("no role yet")
    return ", ".join(parts) or "unchanged"
