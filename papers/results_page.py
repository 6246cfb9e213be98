"""All that was found in a directory, in one page: a line for each experiment, by what it was made with."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

PAGE = "results.md"
HEADINGS = "| experiment | verdict | reading |\n|---|---|---|\n"


def line(name: str, verdict: str, sentence: str) -> str:
    """What was found in one experiment, as a line of a table."""
    return f"| {name} | {verdict} | {sentence.replace('|', chr(92) + '|')} |\n"


def summary(out: Path) -> str:
    """The results of a directory; of other runs, whose version, seed or tables are others, under another heading."""
    by_origin: dict[str, list[str]] = defaultdict(list)
    for found in _records(out):
        by_origin[_origin(found)].append(line(found["name"], found["verdict"], found["sentence"]))
    parts = [
        "# What was reproduced\n",
        *(f"{origin}\n\n{HEADINGS}{''.join(by_origin[origin])}" for origin in by_origin),
    ]
    return "\n".join(parts)


def _origin(found: Mapping[str, Any]) -> str:
    extent = "a quick run" if found["quick"] else "a full run"
    tables = "; ".join(found["data"].values()) or "generated"
    return f"sfumato {found['version']}, seed {found['seed']}, {extent}. Tables: {tables}."


def _by_number(path: Path) -> list[tuple[int, str]]:
    """So that ex2 comes before ex10."""
    parts = re.split(r"(\d+)", f"{path.parent.name}/{path.stem}")
    return [(int(part), "") if part.isdigit() else (0, part) for part in parts]


def _records(out: Path) -> Iterator[Mapping[str, Any]]:
    """Whatever else lies in the directory is not ours."""
    for path in sorted(out.glob("*/*.json"), key=_by_number):
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
            is_whole = {"name", "verdict", "sentence", "version", "seed", "quick", "data"} <= set(found)
        except (OSError, ValueError, TypeError):
            continue
        if is_whole:
            yield found
