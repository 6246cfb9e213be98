"""Groups of options. A command takes groups, and `expand_option_groups` turns these into parameters for typer."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Iterator
from copy import copy
from dataclasses import MISSING, dataclass, fields
from functools import wraps
from inspect import Parameter, Signature
from typing import Annotated, Any, ClassVar, Self, get_args, get_type_hints

import typer
from typer.models import ArgumentInfo

from sfumato._core.option_fields import OptionValues

LIST_MARK = ",..."
"""The end of a metavar whose option takes names or texts: repeated, or in a list with commas."""
LIST_HELP = f"Options with {LIST_MARK} Repeatable, or a list with commas. A name with a comma is quoted: '\"a,b\",c'."
_LIST_ITEM = re.compile(r"""(?:^|,\ *)(?:"(?P<quoted>(?:[^"]|"")*)"\ *(?=,|\Z)|(?P<plain>[^,]*))""")


def list_option(name: str, metavar: str, help_text: str) -> Any:
    """Declares an option for several names or texts. The command splits the arguments of the option at commas."""
    return typer.Option(name, metavar=metavar + LIST_MARK, help=help_text)


def split_list(text: str) -> list[str]:
    """Splits a list at its commas. An item with a comma is quoted as in CSV. Spaces after a comma are ignored."""
    return [
        match["plain"] if match["quoted"] is None else match["quoted"].replace('""', '"')
        for match in _LIST_ITEM.finditer(text)
    ]


def join_list(items: Iterable[str]) -> str:
    """Joins items in the form that `split_list` reads."""

    def quote_item(item: str) -> str:
        is_plain = item == item.strip() and not any(mark in item for mark in ',"')
        return item if is_plain else '"' + item.replace('"', '""') + '"'

    return ",".join(map(quote_item, items))


@dataclass(frozen=True)
class OptionGroup:
    """Options that belong together. A group is one parameter of the command, and one panel of its help."""

    PANEL: ClassVar[str | None] = None
    """The title of the panel. None for the panel of options without their own panel."""

    @classmethod
    def list_parameters(cls) -> Iterator[Parameter]:
        """Lists the options as parameters for typer."""
        declared = get_type_hints(cls, include_extras=True)
        for option_field in fields(cls):
            kind, option_info = get_args(declared[option_field.name])
            option_info = copy(option_info)
            option_info.rich_help_panel = None if isinstance(option_info, ArgumentInfo) else cls.PANEL
            default = Parameter.empty if option_field.default is MISSING else option_field.default
            if option_field.default_factory is not MISSING:
                default = option_field.default_factory()
            yield make_command_parameter(option_field.name, kind, option_info, default)

    @classmethod
    def of(cls, arguments: OptionValues) -> Self:
        """Makes the group from the values of its parameters."""
        return cls(**arguments)


def make_command_parameter(name: str, kind: object, option_info: object, default: object) -> Parameter:
    """Makes a parameter of a command, with its typer option."""
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, option_info])


def expand_option_groups(function: Callable[..., None]) -> Callable[..., None]:
    """A command with one parameter for each option in the groups of a function."""
    declared = inspect.signature(function, eval_str=True).parameters
    groups = {
        name: parameter.annotation
        for name, parameter in declared.items()
        if isinstance(parameter.annotation, type) and issubclass(parameter.annotation, OptionGroup)
    }
    options = {name: list(group.list_parameters()) for name, group in groups.items()}

    @wraps(function)
    def command(**arguments: object) -> None:
        option_groups = {
            name: group.of({option.name: arguments.pop(option.name) for option in options[name]})
            for name, group in groups.items()
        }
        function(**arguments, **option_groups)

    flat = [
        parameter
        for name, declared_parameter in declared.items()
        for parameter in options.get(name, [declared_parameter])
    ]
    by_name = [parameter.replace(kind=Parameter.KEYWORD_ONLY) for parameter in flat]
    command.__signature__ = Signature(by_name)  # type: ignore[attr-defined]
    return command
