"""Declares the options of a request or a mechanism, each once and beside the code that uses it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from sfumato._core.json_types import Json

OptionValue = TypeVar("OptionValue")

OptionValues = Mapping[str, Any]
"""Values of options by the names of their fields or parameters; each has the type that its flag declares."""


@dataclass(frozen=True, slots=True)
class Flag:
    """The name of an option, its type, and a sentence of help."""

    name: str
    """The name of the argument in Python, such as `group_size`."""
    help: str
    """The help sentence. The sentence names other options as arguments between backquotes."""
    kind: Any = str
    """The type of the argument. The type is a string if the argument can be written in several ways."""
    metavar: str | None = None
    minimum: int | None = None
    """The smallest sensible integer."""
    choices: tuple[str, ...] = ()
    """The values that users may choose, if the type has others that only the library sets."""

    def read(self, argument: object) -> object:
        """Converts an argument to a value of the field."""
        return self.kind(argument) if self.choices else argument


def option(  # noqa: PLR0913 - the properties of an option
    default: OptionValue,
    name: str,
    help_text: str,
    *,
    metavar: str | None = None,
    minimum: int | None = None,
    choices: tuple[str, ...] = (),
) -> OptionValue:
    """Declares a dataclass field for an option, with its default and its flag.

    Only the library sets a field without a flag, for example to reproduce a paper.
    """
    return field(default=default, metadata={"flag": Flag(name, help_text, Any, metavar, minimum, choices)})


def list_flags(options: type) -> tuple[tuple[str, Flag], ...]:
    """The dataclass fields that have a flag, each with the type of its argument."""
    return _read_flags(options)


@cache
def _read_flags(options: type) -> tuple[tuple[str, Flag], ...]:
    """Reads the flags once, because the types of the fields are strings that Python evaluates each time."""
    kinds = get_type_hints(options)
    return tuple(
        (option_field.name, replace(option_field.metadata["flag"], kind=_find_flag_type(kinds[option_field.name])))
        for option_field in fields(options)
        if "flag" in option_field.metadata
    )


def _find_flag_type(kind: Any) -> Any:
    """Finds the type of an option's argument. None is left out, and exact numbers are read as strings."""
    if get_origin(kind) not in (Union, UnionType):
        return kind
    kinds = [member for member in get_args(kind) if member is not NoneType]
    return kinds[0] if len(kinds) == 1 else str


def dump_options(options: Any) -> Json:
    """The value of every option, by the name of its field."""
    return {
        option_field.name: _convert_to_json(getattr(options, option_field.name)) for option_field in fields(options)
    }


def _convert_to_json(value: object) -> object:
    """Converts a value to JSON; an exact number becomes a string."""
    if isinstance(value, Enum):
        return value.value
    return value if value is None or isinstance(value, bool | int) else str(value)
