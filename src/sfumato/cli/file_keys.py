"""Translates arguments in messages of the library into keys of a request file.

The library writes `drop=['age']` between backquotes, as in Python; who wrote a request file reads drop = ["age"] in
[columns].
"""

from __future__ import annotations

import ast
from collections.abc import Mapping

from sfumato._commands.request_draft import format_key, quote_toml
from sfumato._publish.request_file import COLUMN_SECTIONS, list_keys
from sfumato._request.requirement_kinds import REQUIREMENT_KINDS
from sfumato.cli.flags import ARGUMENT, REQUIREMENT, find_option_name, name_flags, unwrap

USUAL_SECTIONS = {
    "table": ("path", "encoding", "decimal", "missing", "text"),
    "columns": (
        *("sensitive", "compound", "public", "identifier", "person", "drop", "keep", "nulls"),
        *("rows_per_person", "surplus", "one_row", "each_row_is_a_person"),
    ),
    "output": (
        *("out", "force", "format", "describe", "plan_file", "unsafe_test_key", "fail_on"),
        *("journal", "engine", "spark_master"),
    ),
}
"""The section of a key that the file does not have yet."""
OTHER_SECTION = "protection"


def name_keys(sentence: str, sections: Mapping[str, str]) -> str:
    """Replaces each argument between backquotes by its key; neighbours in one section name it once.

    `sections` has the section of each key in the file, empty for a key before all sections.
    """
    named_keys = [
        (match.span(), *_format_argument(match["name"], match["value"], sections))
        for match in ARGUMENT.finditer(sentence)
        if match["name"] is not None
    ]
    following_sections = [section for _, _, section in named_keys[1:]] + [""]
    parts, end = [], 0
    for ((start, stop), text, section), following in zip(named_keys, following_sections, strict=False):
        parts += [sentence[end:start], text, f" in [{section}]" if section and section != following else ""]
        end = stop
    return "".join((*parts, sentence[end:]))


def _format_argument(name: str, value_text: str, sections: Mapping[str, str]) -> tuple[str, str]:
    """The text of an argument as a key, and its section; an argument that is no key becomes an option."""
    key = find_option_name(name)
    column_section = {option: section for section, option in COLUMN_SECTIONS.items()}.get(key)
    if name != REQUIREMENT and column_section is None and key not in list_keys():
        return name_flags(f"`{name}={value_text}`"), ""
    section = column_section or sections.get(key, _find_usual_section(key))
    if not value_text:
        return (key, section) if column_section is None else (f"[{column_section}]", "")
    try:
        node = ast.parse(value_text, mode="eval").body
        if name == REQUIREMENT and isinstance(node, ast.Call):
            return _format_requirement(node, sections)
        value = ast.literal_eval(unwrap(node))
    except (ValueError, SyntaxError, LookupError, TypeError):
        return f"{key} = {value_text}", section  # a placeholder such as COL
    if column_section is None or not isinstance(value, Mapping):
        return f"{key} = {_format_value(value)}", section
    return " and ".join(
        f"{format_key(str(column))} = {_format_value(entry)}" for column, entry in value.items()
    ), section


def _format_requirement(call: ast.Call, sections: Mapping[str, str]) -> tuple[str, str]:
    """A requirement as the keys that make it; `BreachBound(...)` as their names alone."""
    kind = {kind.__name__: kind for kind in REQUIREMENT_KINDS}[ast.unparse(call.func)]
    section = sections.get(kind.FLAGS[0].name, OTHER_SECTION)
    arguments = [ast.literal_eval(argument) for argument in call.args]
    if arguments == [...]:
        return ARGUMENT.sub(lambda match: find_option_name(match["name"]), kind.FLAGS_TEXT), section
    pairs = zip(kind.FLAGS, arguments, strict=True)
    return " and ".join(f"{flag.name} = {_format_value(argument)}" for flag, argument in pairs), section


def _format_value(value: object) -> str:
    """Formats a value as TOML."""
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_format_value, value))}]"
    if isinstance(value, bool):
        return str(value).lower()
    if value is ...:
        return "..."
    return quote_toml(value) if isinstance(value, str) else str(value)


def _find_usual_section(key: str) -> str:
    return next((section for section, keys in USUAL_SECTIONS.items() if key in keys), OTHER_SECTION)
