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
from papers.as_published import AS_PUBLISHED, PrintedPromiseOptions, ask_as_published, check_release
from papers.experiment import Experiment
from papers.reproduction import Reproduced, reproduce
from papers.works import work_of
from sfumato.cli import app, render
from sfumato.cli.commands import Command, RequestCommand
from sfumato.cli.option_group import spread
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
from sfumato.cli.pages import AskPageOptions, PageOptions
from sfumato.cli.questions import QueryOptions, answer_questions
from sfumato.cli.where import EngineOptions
from sfumato.errors import TargetError

NAME = "python -m papers"
LIST = "list"


def run_experiments(
    names: Annotated[
        list[str], typer.Argument(metavar="list | all | NAME...", help=f"What to run: see {NAME} {LIST}.")
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
        _list(registry.EXPERIMENTS, printed)
        return
    experiments = registry.select_experiments(names)
    if target is None:
        raise TargetError("name a directory for the results with --out, such as --out results.")
    found = _run(experiments, target, printed, data=data, seed=seed, quick=quick)
    if printed.as_json:
        print_json({"path": str(target), "experiments": [_json(each) for each in found]})
    elif not printed.quiet:
        render.show_text(out, f"written to {target}")


def plan(
    described: PlanTableOptions,
    promise: PrintedPromiseOptions,
    accepting: StopOptions,
    aimed: TargetOptions,
    where: EngineOptions,
    stops: NoticeOptions,
    filed: PageOptions,
    printed: PrintOptions,
) -> None:
    """Show what would be published with the settings that a work prints. Private: it shows counts."""
    app.plan(described, promise, accepting, aimed, where, stops, filed, printed)


def publish(
    table: RequestPath,
    described: TableOptions,
    promise: PrintedPromiseOptions,
    stops: StopOptions,
    where: EngineOptions,
    written: ReleaseOptions,
    paged: AskPageOptions,
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
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given and given[0] in COMMANDS:
        command, kind = COMMANDS[given[0]]
        app.run_program(lambda: _build(command, kind), f"{NAME} {given[0]}", given[1:])
    else:
        app.run_program(lambda: _build(run_experiments, Command), NAME, given)


def _build(function: Any, kind: type[Command]) -> Any:
    program = typer.Typer(pretty_exceptions_enable=False, add_completion=False)
    about = f"With the settings that a work prints: {', '.join(f'{NAME} {name}' for name in COMMANDS)} (--help)."
    program.command(cls=kind, epilog=about if function is run_experiments else None)(spread(function))
    return typer.main.get_command(program)


def _run(
    experiments: Sequence[Experiment], target: Path, printed: PrintOptions, **conditions: Any
) -> Sequence[Reproduced]:
    """One after the other, with progress; whoever stops it is told what is kept."""
    found: list[Reproduced] = []
    with render.show_progress(err, printed, "reproducing") as shown:

        def progress(name: str, done: int, of: int) -> None:
            shown(done, of, f"{name}, {len(found) + 1} of {len(experiments)}")

        try:
            for outcome in reproduce(experiments, target, progress=progress, **conditions):
                found.append(outcome)
                if not printed.is_silent:
                    _show(outcome)
        except KeyboardInterrupt as stopped:
            done = f"{len(found)} of {len(experiments)} are in {target}"
            raise StoppedError(f"stopped; {done}, and the same command goes on from there.") from stopped
    return found


def _list(experiments: Sequence[Experiment], printed: PrintOptions) -> None:
    if printed.as_json:
        told = [{"name": each.name, "title": each.title, "work": work_of(each.name)} for each in experiments]
        print_json({"experiments": told})
        return
    table = Table("name", "what is printed or drawn")
    for work, own in groupby(experiments, key=lambda each: work_of(each.name)):
        table.add_section()
        table.add_row("", f"[bold]{render.escape_for_terminal(work)}[/bold]")
        for each in own:
            table.add_row(each.name, each.title)
    out.print(table)


def _show(found: Reproduced) -> None:
    kept = "kept from before" if found.is_kept else f"{found.seconds:.1f} s"
    said = ", ".join([kept, *dict.fromkeys(each.partition(",")[0] for each in found.tables)])
    out.print(
        f"[bold]{render.escape_for_terminal(found.name)}[/bold] {found.verdict} ({render.escape_for_terminal(said)})",
        highlight=False,
    )
    render.show_text(out, found.sentence)


def _json(found: Reproduced) -> dict[str, object]:
    return {
        "name": found.name,
        "title": found.title,
        "verdict": found.verdict.value,
        "sentence": found.sentence,
        "seconds": found.seconds,
        "tables": list(found.tables),
        "kept": found.is_kept,
    }
