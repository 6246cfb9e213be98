"""The command line of `python -m papers`: experiments by name, and publishing and asking as the works print it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any

import typer
import typer.main
from rich.table import Table

from papers import experiments as registry
from papers.as_published import AS_PUBLISHED, PrintedGuaranteeOptions, ask_as_published, check_release
from papers.experiment import Experiment
from papers.reproduction import Reproduction, reproduce
from papers.works import find_work
from sfumato.cli import app, render
from sfumato.cli.command_settings import Command, RequestCommand
from sfumato.cli.engine_options import EngineOptions
from sfumato.cli.option_group import expand_option_groups
from sfumato.cli.options import (
    NoticeOptions,
    PlanTableOptions,
    PrintOptions,
    ReleaseOptions,
    ReleasePath,
    RequestPath,
    StopOptions,
    TableOptions,
    TargetOptions,
)
from sfumato.cli.output import StoppedError, err, out, print_json
from sfumato.cli.page_commands import PlanPageOptions, QuestionPageOptions
from sfumato.cli.query_command import QueryOptions, answer_questions
from sfumato.errors import TargetError

PROGRAM_NAME = "python -m papers"
LIST = "list"


def run_experiments(
    names: Annotated[
        list[str], typer.Argument(metavar="list | all | NAME...", help=f"What to run: see {PROGRAM_NAME} {LIST}.")
    ],
    data: Annotated[
        Path | None,
        typer.Option("--data", metavar="DIR", help="Your own tables; tables that are not there are generated."),
    ] = None,
    target: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Where tables and figures go. Finished ones are kept.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer records, queries and repeats: seconds.")] = False,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Random seed, for results that can be repeated.")] = 1,
    *,
    printed: PrintOptions,
) -> None:
    """Reproduce tables and figures of the papers, each with one sentence that says whether they hold."""
    if names == [LIST]:
        _list_experiments(registry.EXPERIMENTS, printed)
        return
    experiments = registry.select_experiments(names)
    if target is None:
        raise TargetError("name a directory for the results with --out, such as --out results.", code="no-target")
    results = _run_all(experiments, target, printed, data=data, seed=seed, quick=quick)
    if printed.as_json:
        print_json({"path": str(target), "experiments": [_to_json(result) for result in results]})
    elif not printed.quiet:
        render.show_text(out, f"written to {target}")


def plan(
    described: PlanTableOptions,
    promise: PrintedGuaranteeOptions,
    accepting: StopOptions,
    aimed: TargetOptions,
    where: EngineOptions,
    stops: NoticeOptions,
    filed: PlanPageOptions,
    printed: PrintOptions,
) -> None:
    """Show what would be published with the settings that a work prints. Private: it shows counts."""
    app.plan(described, promise, accepting, aimed, where, stops, filed, printed)


def publish(
    table: RequestPath,
    described: TableOptions,
    promise: PrintedGuaranteeOptions,
    stops: StopOptions,
    where: EngineOptions,
    written: ReleaseOptions,
    paged: QuestionPageOptions,
    noticed: NoticeOptions,
    printed: PrintOptions,
) -> None:
    """Publish a table with the settings that a work prints; sfumato opens, verifies and answers the release."""
    app.publish(table, described, promise, stops, where, written, paged, noticed, printed)


def query(
    release: ReleasePath,
    as_published: Annotated[str, AS_PUBLISHED],
    asked: QueryOptions,
    printed: PrintOptions,
) -> None:
    """Ask a release with the estimator that a work prints; --method names any other one, also those of the papers."""
    question = ask_as_published(asked, as_published)
    answer_questions(release, question, printed, lambda opened: check_release(opened, as_published))


COMMANDS = {"plan": (plan, RequestCommand), "publish": (publish, RequestCommand), "query": (query, Command)}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run experiments, or one of the commands."""
    argument_list = list(sys.argv[1:] if arguments is None else arguments)
    if argument_list and argument_list[0] in COMMANDS:
        command, kind = COMMANDS[argument_list[0]]
        app.run_program(lambda: _build(command, kind), f"{PROGRAM_NAME} {argument_list[0]}", argument_list[1:])
    else:
        app.run_program(lambda: _build(run_experiments, Command), PROGRAM_NAME, argument_list)


def _build(function: Any, kind: type[Command]) -> Any:
    program = typer.Typer(pretty_exceptions_enable=False, add_completion=False)
    about = (
        f"With the settings that a work prints: {', '.join(f'{PROGRAM_NAME} {name}' for name in COMMANDS)} (--help)."
    )
    program.command(cls=kind, epilog=about if function is run_experiments else None)(expand_option_groups(function))
    return typer.main.get_command(program)


def _run_all(
    experiments: Sequence[Experiment], target: Path, printed: PrintOptions, **conditions: Any
) -> Sequence[Reproduction]:
    """One after the other, with progress; whoever stops it is told what is kept."""
    results: list[Reproduction] = []
    with render.show_progress(err, printed, "reproducing") as update_progress:

        def progress(name: str, finished_text: int, of: int) -> None:
            update_progress(finished_text, of, f"{name}, {len(results) + 1} of {len(experiments)}")

        try:
            for outcome in reproduce(experiments, target, progress=progress, **conditions):
                results.append(outcome)
                if not printed.is_silent:
                    _show_result(outcome)
        except KeyboardInterrupt as stopped:
            finished_text = f"{len(results)} of {len(experiments)} are in {target}"
            raise StoppedError(f"stopped; {finished_text}, and the same command goes on from there.") from stopped
    return results


def _list_experiments(experiments: Sequence[Experiment], printed: PrintOptions) -> None:
    if printed.as_json:
        entries = [
            {"name": experiment.name, "title": experiment.title, "work": find_work(experiment.name)}
            for experiment in experiments
        ]
        print_json({"experiments": entries})
        return
    table = Table("name", "what is printed or drawn")
    for work, own_experiments in groupby(experiments, key=lambda experiment: find_work(experiment.name)):
        table.add_section()
        table.add_row("", f"[bold]{render.escape_for_terminal(work)}[/bold]")
        for experiment in own_experiments:
            table.add_row(experiment.name, experiment.title)
    out.print(table)


def _show_result(result: Reproduction) -> None:
    time_text = "kept from before" if result.is_kept else f"{result.seconds:.1f} s"
    details = ", ".join([time_text, *dict.fromkeys(origin.partition(",")[0] for origin in result.tables)])
    out.print(
        (
            f"[bold]{render.escape_for_terminal(result.name)}[/bold] {result.verdict} "
            f"({render.escape_for_terminal(details)})"
        ),
        highlight=False,
    )
    render.show_text(out, result.sentence)


def _to_json(result: Reproduction) -> dict[str, object]:
    return {
        "name": result.name,
        "title": result.title,
        "verdict": result.verdict.value,
        "sentence": result.sentence,
        "seconds": result.seconds,
        "tables": list(result.tables),
        "kept": result.is_kept,
    }
