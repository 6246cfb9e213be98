"""A declared hierarchy of a column's values, such as codes grouped in chapters, and chapters grouped in parts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sfumato._core.cell_values import Value, display, to_json
from sfumato._core.json_types import Json, JsonView
from sfumato._core.small_text_files import read_csv_lines
from sfumato.errors import SchemaError


def format_level_name(column: str, level: str) -> str:
    """The name of a column's level in queries, such as `diagnosis.chapter`."""
    return f"{column}.{level}"


@dataclass(frozen=True, slots=True)
class Hierarchy:
    """The levels of the values, the finest first. Each group of a level lies in one group of the next level."""

    levels: tuple[str, ...]
    """The names of the levels; the first is the level of the values themselves."""
    paths: tuple[tuple[Value, ...], ...]
    """For each value of the domain, in order: the value, its group, and the groups above."""

    def __post_init__(self) -> None:
        lowered = [name.lower() for name in self.levels]
        if len(self.levels) < 2 or "" in lowered or len(set(lowered)) != len(lowered):  # noqa: PLR2004 - value, group
            raise SchemaError(
                "a hierarchy has at least two levels with different names, such as code,chapter.", code="too-few-levels"
            )
        if incomplete_path := next((path for path in self.paths if len(path) != len(self.levels)), None):
            raise SchemaError(
                f"{display(incomplete_path[0])!r} lacks a group at some level of the hierarchy; give it one at "
                "every level.",
                code="value-without-group",
            )
        if any(not isinstance(group, str | None) for path in self.paths for group in path[1:]):
            raise SchemaError("a group of the hierarchy is not a string; write its name as one.", code="group-not-text")
        for path in self.paths:
            if "" in path[1:] or (None in path[1:] and path[0] is not None):
                raise SchemaError(
                    f"{display(path[0])!r} of the hierarchy has an empty group; give it one at every level.",
                    code="value-without-group",
                )
        if repeated_values := [value for value, times in Counter(self.domain).items() if times > 1]:
            raise SchemaError(
                f"the hierarchy names {display(repeated_values[0])!r} twice; name each value once.",
                code="repeated-value",
            )
        for level in range(1, len(self.levels) - 1):
            parents: dict[Value, Value] = {}
            for path in self.paths:
                if parents.setdefault(path[level], path[level + 1]) != path[level + 1]:
                    raise SchemaError(
                        f"{self.levels[level]} {display(path[level])!r} lies in two groups of "
                        f"{self.levels[level + 1]}; put it in only one.",
                        code="group-in-two-groups",
                        fields={"level": self.levels[level], "above": self.levels[level + 1]},
                    )

    @classmethod
    def of(cls, levels: Sequence[str], paths: Sequence[Sequence[Value]]) -> Hierarchy:
        """Makes a hierarchy from any sequences."""
        return cls(tuple(levels), tuple(tuple(path) for path in paths))

    @classmethod
    def read(cls, path: Path) -> Hierarchy:
        """Reads a CSV whose header names the levels, with a line for each value.

        A group without a value is the group of the missing value. Empty lines, repeated lines and spaces around a name
        are ignored.
        """
        title = f"the hierarchy {str(path)!r}"
        format_message = (
            f"{title} must be a CSV with a header that names the levels, such as code,chapter, and a line for each "
            "value."
        )
        header, *rows = [
            [field.strip() for field in row]
            for row in read_csv_lines(path, SchemaError, format_message, "the hierarchy")
        ] or [[]]
        if not any(header):
            raise SchemaError(
                f"{title} has no first line that names the levels, such as code,chapter; write one.",
                code="no-level-names",
                fields={"file": str(path)},
            )
        if "" in header:
            raise SchemaError(
                f"column {header.index('') + 1} of {title} has no name; name its level in the first line.",
                code="level-without-name",
                fields={"file": str(path), "position": header.index("") + 1},
            )
        rows_by_value: dict[str, tuple[int, list[str]]] = {}
        group_spellings: dict[tuple[int, str], str] = {}
        for number, row in enumerate(rows, 2):
            if not any(row):
                continue
            location, value = f"line {number} of {title}", display(row[0] or None)
            if len(row) != len(header):
                raise SchemaError(
                    f"{location} has {len(row)} fields, but the first line has {len(header)}. Give {value!r} a group "
                    "at every level, in quotes if it has a comma.",
                    code="wrong-number-of-fields",
                    fields={"file": str(path), "line": number},
                )
            if row[0] and "" in row:
                raise SchemaError(
                    f"{location} has an empty group for {value!r}; give it one at every level.",
                    code="value-without-group",
                    fields={"file": str(path), "line": number},
                )
            first, earlier_row = rows_by_value.setdefault(row[0], (number, row))
            if earlier_row != row:
                raise SchemaError(
                    f"{location} names {value!r} again, with other groups than line {first}; name it once.",
                    code="repeated-value",
                    fields={"file": str(path), "line": number, "first": first},
                )
            for level, group in enumerate(row[1:], 1):
                other = group_spellings.setdefault((level, " ".join(group.casefold().split())), group)
                if other != group:
                    raise SchemaError(
                        f"{location} has the group {group!r} beside {other!r}, which differ only by capital letters "
                        "or spaces; write them the same.",
                        code="groups-spelled-alike",
                        fields={"file": str(path), "line": number},
                    )
        return cls.of(header, [[field or None for field in row] for _, row in rows_by_value.values()])

    @classmethod
    def from_json(cls, entries: JsonView) -> Hierarchy:
        """Reads a hierarchy that `to_json` wrote. Its values keep their form in JSON."""
        return cls.of(entries["levels"], entries["paths"])

    def to_json(self) -> Json:
        """Writes the hierarchy for a manifest."""
        return {"levels": list(self.levels), "paths": [[to_json(value) for value in path] for path in self.paths]}

    @property
    def domain(self) -> tuple[Value, ...]:
        """The values of the finest level."""
        return tuple(path[0] for path in self.paths)

    def find_level(self, level: str) -> int:
        """The number of a level, ignoring capital letters."""
        lowered = [name.lower() for name in self.levels]
        if level.lower() not in lowered:
            raise SchemaError(
                f"there is no level {level!r}; the hierarchy has {', '.join(self.levels)}.",
                code="unknown-level",
                fields={"level": level, "known": ", ".join(self.levels)},
            )
        return lowered.index(level.lower())

    def list_groups(self, number: int) -> tuple[Value, ...]:
        """The groups of a level, in the order in which the values first name them."""
        return tuple(dict.fromkeys(path[number] for path in self.paths))

    def list_group_places(self, number: int) -> tuple[int, ...]:
        """For each value of the domain, the index of its group among the groups of a level."""
        place = {group: index for index, group in enumerate(self.list_groups(number))}
        return tuple(place[path[number]] for path in self.paths)

    @property
    def canonical_hierarchy(self) -> Hierarchy:
        """The same hierarchy with the missing value last, as in a published domain."""
        return Hierarchy(self.levels, tuple(sorted(self.paths, key=lambda path: path[0] is None)))

    def replace_values(self, values: Sequence[Value]) -> Hierarchy:
        """The same hierarchy, with each value in another spelling or type."""
        paths = zip(values, self.paths, strict=True)
        return Hierarchy(self.levels, tuple((value, *path[1:]) for value, path in paths))

    def start_at(self, number: int) -> Hierarchy | None:
        """The part of the hierarchy from a level upwards, in which the groups of the level are the values.

        None if no level is above it.
        """
        if number >= len(self.levels) - 1:
            return None
        return Hierarchy(self.levels[number:], tuple(dict.fromkeys(path[number:] for path in self.paths)))
