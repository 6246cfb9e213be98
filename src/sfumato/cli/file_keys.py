"""Translates arguments in messages of the library into keys of a request file.

The library writes `drop=['age']` between backquotes, as in Python. With a request file, a terminal shows
drop = ["age"] in [columns]. If the file has this list already, it shows: add "age" to drop in [columns].
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from sfumato._commands.request_draft import format_key, quote_toml
from sfumato._core.column_assignments import split_assignment
from sfumato._profile.column_checks import INIT_PROPOSES_RANGES
from sfumato._publish.publication_stops import DECIDE_IN_DRAFT, DROP_IN_DRAFT
from sfumato._publish.request_file import COLUMN_SECTIONS, RequestFile, list_keys
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
ROLE_LISTS = ("sensitive", "public", "identifier", "drop")
"""The lists that give columns a role. A column may be in only one of these lists."""
GROWING_LISTS = (*ROLE_LISTS, "keep", "text", "missing")
"""The lists to which advice adds entries, and which it never replaces."""
ADVICE_TO_DRAFT = {
    DECIDE_IN_DRAFT: "Give each column a role: add its name to public, drop, identifier or sensitive in [columns].",
    DROP_IN_DRAFT: "Add their names to drop in [columns], and remove them from other lists.",
    INIT_PROPOSES_RANGES: "",
}
"""What replaces the advice to draft a request file, because the reader has one."""


@dataclass(frozen=True)
class _NamedKey:
    """An argument in the words of a request file."""

    text: str
    section: str = ""
    """The section of the key. Empty if the text names no section."""
    other_change: str = ""
    """A further change of the file that the key needs."""


def name_keys(sentence: str, file: RequestFile) -> str:
    """Replaces each argument between backquotes by its key. Neighbouring keys of one section name the section once."""
    for advice, replacement in ADVICE_TO_DRAFT.items():
        sentence = sentence.replace(advice, replacement)
    matches = [match for match in ARGUMENT.finditer(sentence) if match["name"] is not None]
    keys = [_format_argument(match["name"], match["value"], file) for match in matches]
    following_sections = [*(key.section for key in keys[1:]), ""]
    parts: list[str] = []
    end, previous_section = 0, ""
    for match, key, following in zip(matches, keys, following_sections, strict=False):
        between = sentence[end : match.start()]
        if parts and between.isspace():  # options can stand side by side, but keys cannot
            between = " and the line " if key.section == previous_section else " and "
        is_named_here = key.section and (key.section != following or key.other_change)
        parts += [between, key.text, f" in [{key.section}]" if is_named_here else "", key.other_change]
        end, previous_section = match.end(), key.section
    return "".join((*parts, sentence[end:]))


def _format_argument(name: str, value_text: str, file: RequestFile) -> _NamedKey:
    """An argument as a key and its section. An argument without a key becomes an option."""
    key = find_option_name(name)
    column_section = {option: section for section, option in COLUMN_SECTIONS.items()}.get(key)
    if name != REQUIREMENT and column_section is None and key not in list_keys():
        return _NamedKey(name_flags(f"`{name}={value_text}`"))
    section = column_section or file.sections.get(key, _find_usual_section(key))
    if not value_text:
        return _NamedKey(key, section) if column_section is None else _NamedKey(f"[{column_section}]")
    try:
        node = ast.parse(value_text, mode="eval").body
        if name == REQUIREMENT and isinstance(node, ast.Call):
            return _format_requirement(node, file.sections)
        value = ast.literal_eval(unwrap(node))
    except (ValueError, SyntaxError, LookupError, TypeError):
        return _NamedKey(f"{key} = {value_text}", section)  # a placeholder such as COL
    if column_section is not None and isinstance(value, Mapping):
        return _NamedKey(_join_lines(_list_column_lines(key, value, file)), section)
    return _format_setting(key, value, section, file)


def _format_setting(key: str, value: object, section: str, file: RequestFile) -> _NamedKey:
    """A key with its value. Entries are added to a list of the file, and removed from lists of other roles."""
    entries = list(value) if isinstance(value, list | tuple) else [value]
    removals = [
        f", and remove {', '.join(map(_format_value, listed))} from {other}"
        for other in (ROLE_LISTS if key in ROLE_LISTS else ())
        if other != key and (listed := [entry for entry in entries if entry in file.settings.get(other, ())])
    ]
    is_growing = key in GROWING_LISTS and key in file.sections
    additions = [entry for entry in entries if entry not in file.settings.get(key, ())] if is_growing else []
    if additions:
        text = f"add {', '.join(map(_format_value, additions))} to {key}"
    else:
        text = f"{key} = {_format_value(value)}"
    return _NamedKey(text, section, "".join(removals))


def _list_column_lines(option: str, values: Mapping[object, object], file: RequestFile) -> Iterator[str]:
    """The line of each column. A section cannot have two lines for one column."""
    present_values = dict(map(split_assignment, file.settings.get(option, ())))
    for column, value in values.items():
        instead = " in place of its present line" if present_values.get(str(column), value) != value else ""
        yield f"{format_key(str(column))} = {_format_value(value)}{instead}"


def _join_lines(lines: Iterator[str] | Sequence[str]) -> str:
    """Joins lines of a file in a sentence, so that readers see where each line ends."""
    first, *others = lines
    if not others:
        return first
    *middle, last = (f"the line {line}" for line in (first, *others))
    return f"{', '.join(middle)} and {last}"


def _format_requirement(call: ast.Call, sections: Mapping[str, str]) -> _NamedKey:
    """The keys that state a requirement, with their values. `BreachBound(...)` gives only the names of its keys."""
    kind = {kind.__name__: kind for kind in REQUIREMENT_KINDS}[ast.unparse(call.func)]
    section = sections.get(kind.FLAGS[0].name, OTHER_SECTION)
    arguments = [ast.literal_eval(argument) for argument in call.args]
    if arguments == [...]:
        return _NamedKey(ARGUMENT.sub(lambda match: find_option_name(match["name"]), kind.FLAGS_TEXT), section)
    pairs = zip(kind.FLAGS, arguments, strict=True)
    return _NamedKey(_join_lines([f"{flag.name} = {_format_value(argument)}" for flag, argument in pairs]), section)


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
