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


def format_line(name: str, verdict: str, sentence: str) -> str:
    """What was found in one experiment, as a line of a table."""
    return f"| {name} | {verdict} | {sentence.replace('|', chr(92) + '|')} |\n"


def format_summary(out: Path) -> str:
    """The results of a directory; of other runs, whose version, seed or tables are others, under another heading."""
    by_origin: dict[str, list[str]] = defaultdict(list)
    for record in _iter_records(out):
        by_origin[_describe_origin(record)].append(format_line(record["name"], record["verdict"], record["sentence"]))
    parts = [
        "# What was reproduced\n",
        *(f"{origin}\n\n{HEADINGS}{''.join(by_origin[origin])}" for origin in by_origin),
    ]
    return "\n".join(parts)


def _describe_origin(record: Mapping[str, Any]) -> str:
    extent = "a quick run" if record["quick"] else "a full run"
    tables = "; ".join(record["data"].values()) or "generated"
    return f"sfumato {record['version']}, seed {record['seed']}, {extent}. Tables: {tables}."


def _make_sort_key(path: Path) -> list[tuple[int, str]]:
    """So that ex2 comes before ex10."""
    parts = re.split(r"(\d+)", f"{path.parent.name}/{path.stem}")
    return [(int(part), "") if part.isdigit() else (0, part) for part in parts]


def _iter_records(out: Path) -> Iterator[Mapping[str, Any]]:
    """Whatever else lies in the directory is not ours."""
    for path in sorted(out.glob("*/*.json"), key=_make_sort_key):
        try:
            record = json.loads(path.read_text(encoding="utf-8"))
            is_whole = {"name", "verdict", "sentence", "version", "seed", "quick", "data"} <= set(record)
        except (OSError, ValueError, TypeError):
            continue
        if is_whole:
            yield record
