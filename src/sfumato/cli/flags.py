"""Translates arguments in messages of the library into options of the command line.

The library writes `drop=['age']` between backquotes, as in Python. A terminal shows --drop age.
"""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Mapping

from sfumato._core.option_fields import list_flags
from sfumato._request.requirement_kinds import REQUIREMENT_KINDS
from sfumato.mechanisms import REGISTRY

OTHER_NAMES = {"domains": "domain", "hierarchies": "hierarchy", "master": "spark_master"}
"""Arguments whose option has another name. Mechanisms declare such names themselves."""
COMMA_LISTS = ("compound", "values")
"""Arguments whose option takes a comma-separated list. For other lists, the option is repeated."""
REQUIREMENT = "spec"
"""The argument whose options depend on the kind of requirement."""
SENTENCE_KEYS = (
    *("sentence", "ways_out", "message", "error", "detail", "reason", "why_not", "would_stop", "not_attacked"),
    *("recommendation", "note", "remarks"),
)
"""The JSON keys whose values are sentences of the library."""
DATA_KEYS = ("rows",)
"""The JSON keys whose values are data, with arbitrary names."""

_QUOTED = r"""(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")"""
# Quoted text is a name or value of a table, where a backquote is an ordinary character.
_SPAN = re.compile(rf"""(?<!\w){_QUOTED}(?!\w)|`(?P<name>[a-z_]+)=(?P<value>(?:{_QUOTED}|[^`'"])*)`""")


def format_flag(name: str) -> str:
    """Formats a name as an option: rows_per_person becomes --rows-per-person."""
    return f"--{name.replace('_', '-')}"


def name_flags(sentence: str) -> str:
    """Replaces each argument between backquotes by the option of the command line."""
    return _SPAN.sub(
        lambda span: span[0] if span["name"] is None else _format_argument(span["name"], span["value"]), sentence
    )


def name_flags_in_json(entries: object, key: str | None = None) -> object:
    """Names flags in all sentences of a JSON document."""
    if isinstance(entries, str):
        return name_flags(entries) if key in SENTENCE_KEYS else entries
    if isinstance(entries, Mapping):
        return {
            name: entry if name in DATA_KEYS else name_flags_in_json(entry, name) for name, entry in entries.items()
        }
    return [name_flags_in_json(entry, key) for entry in entries] if isinstance(entries, list | tuple) else entries


def _format_argument(name: str, value_text: str) -> str:
    """Formats one argument as options. A value that is not Python, such as COL, stays unchanged."""
    flag = format_flag(_find_option_name(name))
    if not value_text:
        return flag
    try:
        node = ast.parse(value_text, mode="eval").body
        if name == REQUIREMENT and isinstance(node, ast.Call):
            return _format_requirement(node)
        texts = _list_option_texts(ast.literal_eval(_unwrap(node)))
    except (ValueError, SyntaxError, LookupError, TypeError):
        return f"{flag} {value_text}"
    if texts is None:
        return flag
    texts = [",".join(texts)] if name in COMMA_LISTS else texts
    return " ".join(f"{flag} {shlex.quote(text)}" for text in texts)


def _find_option_name(argument: str) -> str:
    """The option of an argument, possibly of a mechanism, as --subset-form for `form` of subset."""
    option_names = [
        flag.name
        for mechanism in REGISTRY.values()
        for field, flag in list_flags(mechanism.options)
        if argument in (field, flag.name)
    ]
    return option_names[0] if option_names else OTHER_NAMES.get(argument, argument)


def _format_requirement(call: ast.Call) -> str:
    """Formats `BreachBound('1/10', '1/3')` as its options, and `BreachBound(...)` as their names alone."""
    kind = {kind.__name__: kind for kind in REQUIREMENT_KINDS}[ast.unparse(call.func)]
    arguments = [ast.literal_eval(argument) for argument in call.args]
    if arguments == [...]:
        return name_flags(kind.FLAGS_TEXT)
    pairs = zip(kind.FLAGS, arguments, strict=True)
    return " ".join(f"{format_flag(flag.name)} {shlex.quote(str(argument))}" for flag, argument in pairs)


def _unwrap(node: ast.expr) -> ast.expr:
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
        return [f"{key}={_join(item)}" for key, item in value.items()]
    return [_join(item) for item in value] if isinstance(value, list | tuple) else [_join(value)]


def _join(value: object) -> str:
    if isinstance(value, list | tuple):
        return ",".join(map(_join, value))
    return "..." if value is ... else str(value)
