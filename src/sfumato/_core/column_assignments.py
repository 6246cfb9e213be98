"""Reads and writes settings of columns, `COLUMN=VALUE`; a name that contains the sign stands in double quotes."""

from __future__ import annotations

import re

SIGN = "="
_QUOTED = re.compile(r'"(?P<name>(?:[^"]|"")*)"=(?P<value>.*)', re.DOTALL)


def format_assignment(name: str, value: str) -> str:
    """Writes a setting. `split_assignment` reads the same name and value from it."""
    is_plain = SIGN not in name and not name.startswith('"')
    return f"{name}={value}" if is_plain else '"{}"={}'.format(name.replace('"', '""'), value)


def split_assignment(text: str, *, at_last: bool = False) -> tuple[str, str]:
    """Splits a setting at its first or its last sign. Without a sign, the value is empty."""
    if (quoted := _QUOTED.fullmatch(text)) is not None:
        return quoted["name"].replace('""', '"'), quoted["value"]
    name, sign, value = text.rpartition(SIGN) if at_last else text.partition(SIGN)
    return (name, value) if sign else (text, "")
