"""The command `query`: its options, its answers in the terminal and as JSON."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import sfumato
from sfumato._core.cell_values import to_json
from sfumato._core.json_types import Json
from sfumato._query.intervals import DEFAULT_LEVEL
from sfumato._query.query_limits import DEFAULT_SECONDS
from sfumato._terminal_safe import escape_unprintable
from sfumato.cli import render
from sfumato.cli.argument_names import name_arguments
from sfumato.cli.option_group import OptionGroup
from sfumato.cli.options import PrintOptions
from sfumato.cli.output import BAD_INPUT, err, out, print_error, print_json
from sfumato.errors import QueryError, SfumatoError

if TYPE_CHECKING:
    from sfumato import Answer, Release


def answer_json(answer: Answer, level: float) -> Json:
    """An answer as JSON."""
    columns, rows = answer.to_table(level)
    return {
        "columns": columns,
        "rows": [{name: to_json(value) for name, value in row.items()} for row in rows],
        "method": answer.method,
        "assumption": answer.assumption,
        "level": level,
        "counted": answer.counted_unit,
        "population": None if answer.population is None else str(answer.population),
        **({"adjustment": answer.adjustment} if answer.adjustment else {}),
        **({"note": answer.note} if answer.note else {}),
    }


# ---------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class QueryOptions(OptionGroup):
    """The question, and the options for its answer."""

    sql: Annotated[
        str | None, typer.Argument(metavar="[SQL]", help="SELECT COUNT(*) FROM release WHERE ... GROUP BY ...")
    ] = None
    batch: Annotated[
        Path | None,
        typer.Option(
            "--batch",
            metavar="FILE",
            help="A file of questions: .sql with one per line, .csv with a column sql, or .jsonl.",
        ),
    ] = None
    attach: Annotated[
        list[str],
        typer.Option("--attach", metavar="NAME=FILE", help="A CSV or Parquet file to join. Repeatable."),
    ] = field(default_factory=list)
    level: Annotated[float, typer.Option("--level", help="The confidence level of the intervals.")] = DEFAULT_LEVEL
    method: Annotated[
        str | None,
        typer.Option("--method", help="The estimator; `sfumato info` lists them. Default: the first."),
    ] = None
    simultaneous: Annotated[
        bool, typer.Option("--simultaneous", help="Widen the intervals so that all of them hold at once.")
    ] = False
    consistent: Annotated[
        bool, typer.Option("--consistent", help="Also print counts that are not negative and add up.")
    ] = False
    totals: Annotated[
        list[Path],
        typer.Option(
            "--totals", metavar="FILE", help="A CSV of known totals, to which adjusted counts add up. Repeatable."
        ),
    ] = field(default_factory=list)
    timeout: Annotated[float, typer.Option("--timeout", metavar="SECONDS", help="Time limit for one question.")] = (
        DEFAULT_SECONDS
    )


def _check_questions(query_options: QueryOptions) -> None:
    """Requires either one question or a batch, and refuses options that a batch does not have."""
    if (query_options.sql is None) == (query_options.batch is None):
        raise QueryError(
            "ask either one question in SQL, or many with --batch FILE; see sfumato query --help.",
            code="no-single-question",
        )
    if query_options.batch is not None and (query_options.consistent or query_options.totals):
        raise QueryError(
            "--consistent and --totals apply to one question; ask it without --batch.", code="options-for-one-question"
        )


def answer_questions(
    release: Path, query_options: QueryOptions, print_options: PrintOptions, check: Callable[[Release], None]
) -> None:
    """Checks the release, answers one question or a batch, and prints the answers."""
    from sfumato._query.attached_tables import parse_attachments  # noqa: PLC0415 - takes long to load
    from sfumato._query.batch_queries import read_batch  # noqa: PLC0415 - takes long to load
    from sfumato._query.query_process import QueryJob, ask_in_child  # noqa: PLC0415 - takes long to load

    _check_questions(query_options)
    tables, opened = parse_attachments(query_options.attach), sfumato.Release.open(release)
    check(opened)
    questions = [str(query_options.sql)] if query_options.batch is None else read_batch(query_options.batch)
    with render.show_fetching(err, release, quiet=print_options.is_silent):
        asking = QueryJob(
            opened,
            tuple(questions),
            is_batch=query_options.batch is not None,
            method=query_options.method,
            attached_paths=tables,
            is_simultaneous=query_options.simultaneous,
            is_consistent=query_options.consistent,
            totals=query_options.totals,
            timeout=query_options.timeout,
        )
    if asking.is_batch:
        with render.show_progress(err, print_options) as progress:
            answers = ask_in_child(asking, progress)
        _print_batch(answers, query_options.level, print_options)
        return
    (answer,) = ask_in_child(asking)
    if isinstance(answer, SfumatoError):
        raise answer
    if print_options.as_json:
        print_json(answer_json(answer, query_options.level))
    else:
        render.show_document(out, answer.document(query_options.level), quiet=print_options.quiet)


def _print_batch(answers: Sequence[Answer | SfumatoError], level: float, print_options: PrintOptions) -> None:
    """Prints all answers. If some questions have no answer, the command fails after the last one."""
    failed_numbers = [number for number, answer in enumerate(answers, 1) if isinstance(answer, SfumatoError)]
    if print_options.as_json:
        results = [
            {"error": str(answer)} if isinstance(answer, SfumatoError) else answer_json(answer, level)
            for answer in answers
        ]
        print_json({"results": results})
    else:
        for number, answer in enumerate(answers, 1):
            out.print(f"question {number}", style="bold")
            if isinstance(answer, SfumatoError):
                out.print(
                    f"not answered: {escape_unprintable(name_arguments(str(answer)))}",
                    soft_wrap=True,
                    highlight=False,
                    markup=False,
                )
            else:
                render.show_document(out, answer.document(level), quiet=print_options.quiet)
    if failed_numbers:
        print_error(
            f"{len(failed_numbers)} of {len(answers)} questions were not answered; the first of these is number "
            f"{failed_numbers[0]}."
        )
        raise typer.Exit(BAD_INPUT)
