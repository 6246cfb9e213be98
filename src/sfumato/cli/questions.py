"""The options of questions to a release."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import typer

from sfumato.cli.option_group import OptionGroup
from sfumato.estimate.intervals import DEFAULT_LEVEL
from sfumato.estimate.limits import DEFAULT_SECONDS


@dataclass(frozen=True)
class QueryOptions(OptionGroup):
    """What is asked, and how it is answered."""

    sql: Annotated[
        str | None, typer.Argument(metavar="[SQL]", help="SELECT COUNT(*) FROM release WHERE ... GROUP BY ...")
    ] = None
    batch: Annotated[
        Path | None,
        typer.Option(
            "--batch", metavar="FILE", help="Many questions: .csv with a column sql, or .jsonl with a key sql."
        ),
    ] = None
    attach: Annotated[
        list[str],
        typer.Option("--attach", metavar="NAME=FILE", help="A CSV or Parquet file to join with. Repeatable."),
    ] = field(default_factory=list)
    level: Annotated[float, typer.Option("--level", help="The level of the intervals.")] = DEFAULT_LEVEL
    method: Annotated[
        str | None,
        typer.Option("--method", help="The estimator: one of those that info lists, the first by default."),
    ] = None
    simultaneous: Annotated[
        bool, typer.Option("--simultaneous", help="Widen the intervals so that all of them hold together.")
    ] = False
    consistent: Annotated[
        bool, typer.Option("--consistent", help="Also give counts that are not negative and add up.")
    ] = False
    totals: Annotated[
        list[Path],
        typer.Option("--totals", metavar="FILE", help="A CSV of known totals that counts shall add up to. Repeatable."),
    ] = field(default_factory=list)
    timeout: Annotated[
        float, typer.Option("--timeout", metavar="SECONDS", help="Stop a question that takes longer.")
    ] = DEFAULT_SECONDS
