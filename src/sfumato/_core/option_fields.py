"""Options that a request or a mechanism takes: declared once, beside what they are for, and named as in Python."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from enum import Enum
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from sfumato._core.json_types import Json

OptionValue = TypeVar("OptionValue")

OptionValues = Mapping[str, Any]
"""Values of options by the names of their fields or parameters: each is of the type that its own flag declares."""


@dataclass(frozen=True, slots=True)
class Flag:
    """The name of an option, what it takes, and a sentence of help."""

    name: str
    """As an argument in Python: `group_size`."""
    help: str
    """Names other options as arguments between backquotes."""
    kind: Any = str
    """The type of what is given; text where it is read from text in several ways."""
    metavar: str | None = None
    minimum: int | None = None
    """The smallest whole number that makes sense."""
    choices: tuple[str, ...] = ()
    """The values that may be given, where the type has others that only the library sets."""

    def read(self, argument: object) -> object:
        """Turns what was given into a value of the field."""
        return self.kind(argument) if self.choices else argument


def option(  # noqa: PLR0913 - what is said of an option
    default: OptionValue,
    name: str,
    help_text: str,
    *,
    metavar: str | None = None,
    minimum: int | None = None,
    choices: tuple[str, ...] = (),
) -> OptionValue:
    """A field of a dataclass of options, with its default and its flag.

    A field without a flag is set by the library alone, as for the reproduction of a paper.
    """
    return field(default=default, metadata={"flag": Flag(name, help_text, Any, metavar, minimum, choices)})


def list_flags(options: type) -> Iterator[tuple[str, Flag]]:
    """The fields of a dataclass of options that have a flag, each with the type that it is given as."""
    kinds = get_type_hints(options)
    for option_field in fields(options):
        if "flag" in option_field.metadata:
            yield (
                option_field.name,
                replace(option_field.metadata["flag"], kind=_find_flag_type(kinds[option_field.name])),
            )


def _find_flag_type(kind: Any) -> Any:
    """What a field of a type is given as: what may be nothing by its type, and an exact number as text."""
    if get_origin(kind) not in (Union, UnionType):
        return kind
    kinds = [member for member in get_args(kind) if member is not NoneType]
    return kinds[0] if len(kinds) == 1 else str


def dump_options(options: Any) -> Json:
    """Every option by the name of its field, with the value that is used."""
    return {
        option_field.name: _convert_to_json(getattr(options, option_field.name)) for option_field in fields(options)
    }


def _convert_to_json(value: object) -> object:
    """A value as JSON has it; an exact number as a text."""
    if isinstance(value, Enum):
        return value.value
    return value if value is None or isinstance(value, bool | int) else str(value)
