"""Translates arguments in messages of the library into options of the command line.

The library writes `drop=['age']` between backquotes, as in Python. A terminal shows --drop age.
"""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Mapping

from sfumato._core.column_assignments import format_assignment
from sfumato._core.option_fields import list_flags
from sfumato._request.requirement_kinds import REQUIREMENT_KINDS
from sfumato._terminal_safe import UNPRINTABLE, is_printable
from sfumato.cli.option_group import join_list
from sfumato.mechanisms import REGISTRY

OTHER_NAMES = {"domains": "domain", "hierarchies": "hierarchy", "master": "spark_master"}
"""Arguments whose option has another name. Mechanisms declare such names for their own options."""
LIST_ARGUMENTS = (
    *("sensitive", "compound", "identifier", "drop", "keep", "text", "missing"),
    *("public", "values", "fail_on"),
)
"""Arguments whose option takes a list with commas. A text that has a comma is quoted in this list."""
LAST_ASCII = 0x7F
"""Characters up to this code are one byte. A shell reads `\\x` as one byte."""
REQUIREMENT = "spec"
"""The argument whose options depend on the kind of requirement."""
_QUOTED = r"""(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")"""
# Quoted text is a name or value of a table, where a backquote is an ordinary character.
ARGUMENT = re.compile(rf"""(?<!\w){_QUOTED}(?!\w)|`(?P<name>[a-z_]+)=(?P<value>(?:{_QUOTED}|[^`'"])*)`""")


def format_flag(name: str) -> str:
    """Formats a name as an option: rows_per_person becomes --rows-per-person."""
    return f"--{name.replace('_', '-')}"


def name_flags(sentence: str) -> str:
    """Replaces each argument between backquotes by the option of the command line."""
    return ARGUMENT.sub(
        lambda span: span[0] if span["name"] is None else _format_argument(span["name"], span["value"]), sentence
    )


def _format_argument(name: str, value_text: str) -> str:
    """Formats one argument as options. A value that is not Python, such as COL, stays unchanged."""
    flag = format_flag(find_option_name(name))
    if not value_text:
        return flag
    try:
        node = ast.parse(value_text, mode="eval").body
        if name == REQUIREMENT and isinstance(node, ast.Call):
            return _format_requirement(node)
        value = ast.literal_eval(unwrap(node))
        texts = _list_option_texts([value] if name in LIST_ARGUMENTS and isinstance(value, str) else value)
    except (ValueError, SyntaxError, LookupError, TypeError):
        return f"{flag} {value_text}"
    if texts is None:
        return flag
    return " ".join(f"{flag} {_quote(text)}" for text in texts)


def _quote(text: str) -> str:
    r"""Quotes a text for a shell. bash and zsh read an unprintable character as an escape: `$'first\x0asecond'`."""
    if is_printable(text):
        return shlex.quote(text)
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"$'{UNPRINTABLE.sub(lambda match: _escape_for_shell(ord(match[0])), escaped)}'"


def _escape_for_shell(code: int) -> str:
    return f"\\x{code:02x}" if code < LAST_ASCII else f"\\U{code:08x}"


def find_option_name(argument: str) -> str:
    """The option of an argument, possibly of a mechanism: `form` of subset is --subset-form."""
    option_names = [
        flag.name
        for mechanism in REGISTRY.values()
        for field, flag in list_flags(mechanism.options)
        if argument in (field, flag.name)
    ]
    return option_names[0] if option_names else OTHER_NAMES.get(argument, argument)


def _format_requirement(call: ast.Call) -> str:
    """Formats `BreachBound('1/10', '1/3')` as options with values, and `BreachBound(...)` as names of options only."""
    kind = {kind.__name__: kind for kind in REQUIREMENT_KINDS}[ast.unparse(call.func)]
    arguments = [ast.literal_eval(argument) for argument in call.args]
    if arguments == [...]:
        return name_flags(kind.FLAGS_TEXT)
    pairs = zip(kind.FLAGS, arguments, strict=True)
    return " ".join(f"{format_flag(flag.name)} {shlex.quote(str(argument))}" for flag, argument in pairs)


def unwrap(node: ast.expr) -> ast.expr:
    """Replaces each path by its text: `Path('codes.csv')` becomes 'codes.csv'."""

    class Unwrapper(ast.NodeTransformer):
        def visit_Call(self, call: ast.Call) -> ast.expr:  # the name is fixed by ast
            (argument,) = call.args
            return argument

    unwrapped: ast.expr = Unwrapper().visit(node)
    return unwrapped


def _list_option_texts(value: object) -> list[str] | None:
    """Lists the texts of an option, one for each item. None stands for a switch that is on."""
    if value is True:
        return None
    if isinstance(value, Mapping):
        return [format_assignment(key, _join(item)) for key, item in value.items()]
    return [join_list(map(_join, value))] if isinstance(value, list | tuple) else [_join(value)]


def _join(value: object) -> str:
    if isinstance(value, list | tuple):
        return ",".join(map(_join, value))
    return "..." if value is ... else str(value)
