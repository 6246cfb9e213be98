"""How something is given on the command line: declared once, beside what it is for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields, replace
from enum import Enum
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

Given = TypeVar("Given")


@dataclass(frozen=True, slots=True)
class Flag:
    """The name of an option, what it takes, and a sentence of help."""

    name: str
    help: str
    kind: Any = str
    """The type of what is given; text where it is read from text in several ways."""
    metavar: str | None = None
    least: int | None = None
    """The smallest whole number that makes sense."""
    offered: tuple[str, ...] = ()
    """The values that may be given, where the type has others that only the library sets."""

    @property
    def parameter(self) -> str:
        """The name of the parameter that receives it."""
        return self.name.removeprefix("--").replace("-", "_")

    def read(self, given: Any) -> Any:
        """Turns what was given into a value of the field."""
        return self.kind(given) if self.offered else given


def option(  # noqa: PLR0913 - what is said of an option
    default: Given,
    name: str,
    words: str,
    *,
    metavar: str | None = None,
    least: int | None = None,
    offered: tuple[str, ...] = (),
) -> Given:
    """A field of a dataclass of options, with its default and its flag.

    A field without a flag is set by the library alone, as for the reproduction of a paper.
    """
    return field(default=default, metadata={"flag": Flag(name, words, Any, metavar, least, offered)})


def options_of(options: type[Any]) -> Iterator[tuple[str, Flag]]:
    """The fields of a dataclass of options that have a flag, each with the type that it is given as."""
    kinds = get_type_hints(options)
    for each in fields(options):
        if "flag" in each.metadata:
            yield each.name, replace(each.metadata["flag"], kind=_given_as(kinds[each.name]))


def _given_as(kind: Any) -> Any:
    """What a field of a type is given as: what may be nothing by its type, and an exact number as text."""
    if get_origin(kind) not in (Union, UnionType):
        return kind
    kinds = [each for each in get_args(kind) if each is not NoneType]
    return kinds[0] if len(kinds) == 1 else str


def options_json(options: Any) -> dict[str, Any]:
    """Every option by the name of its field, with the value that is used."""
    return {each.name: _json(getattr(options, each.name)) for each in fields(options)}


def _json(value: Any) -> Any:
    """A value as JSON has it; an exact number as a text."""
    if isinstance(value, Enum):
        return value.value
    return value if value is None or isinstance(value, bool | int) else str(value)
