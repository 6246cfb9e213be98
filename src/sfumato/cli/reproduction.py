"""The command `reproduce`: the tables and figures of the published works, ours beside theirs."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from sfumato.cli import render
from sfumato.cli.options import PrintOptions
from sfumato.cli.output import StoppedError, err, out, print_json
from sfumato.errors import TargetError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.reproduce import Experiment, Reproduced

LIST = "list"


def reproduce(  # noqa: PLR0913 - the options of the command
    names: Annotated[
        list[str], typer.Argument(metavar="list | all | NAME...", help="What to run: see sfumato reproduce list.")
    ],
    data: Annotated[
        Path | None,
        typer.Option("--data", metavar="DIR", help="Tables of your own; generated ones where there is none."),
    ] = None,
    target: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Where tables and figures go. Finished ones are kept.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer records, queries and repeats: seconds.")] = False,
    seed: Annotated[int, typer.Option("--seed", min=0, help="What follows from chance follows from it.")] = 1,
    *,
    printed: PrintOptions,
) -> None:
    """Reproduce tables and figures of the published works, each with one sentence that says whether they hold."""
    from sfumato import reproduce as papers  # noqa: PLC0415 - takes long to load

    if names == [LIST]:
        _list(papers.EXPERIMENTS, printed)
        return
    experiments = papers.named(names)
    if target is None:
        raise TargetError("name a directory for what is found with --out, such as --out papers.")
    found = _run(experiments, target, printed, data=data, seed=seed, quick=quick)
    if printed.as_json:
        print_json({"path": str(target), "experiments": [_json(each) for each in found]})
    elif not printed.quiet:
        render.show_text(out, f"written to {target}")


def _run(
    experiments: Sequence[Experiment], target: Path, printed: PrintOptions, **conditions: Any
) -> Sequence[Reproduced]:
    """One after the other, with progress; whoever stops it is told what is kept."""
    from sfumato import reproduce as papers  # noqa: PLC0415 - takes long to load

    found: list[Reproduced] = []
    with render.progress_of(err, printed, "reproducing") as shown:

        def progress(name: str, done: int, of: int) -> None:
            shown(done, of, f"{name}, {len(found) + 1} of {len(experiments)}")

        try:
            for outcome in papers.reproduce(experiments, target, progress=progress, **conditions):
                found.append(outcome)
                if not printed.is_silent:
                    _show(outcome)
        except KeyboardInterrupt as stopped:
            done = f"{len(found)} of {len(experiments)} are in {target}"
            raise StoppedError(f"stopped; {done}, and the same command goes on from there.") from stopped
    return found


def _list(experiments: Sequence[Experiment], printed: PrintOptions) -> None:
    from sfumato.reproduce.works import work_of  # noqa: PLC0415 - takes long to load

    if printed.as_json:
        told = [{"name": each.name, "title": each.title, "work": work_of(each.name)} for each in experiments]
        print_json({"experiments": told})
        return
    table = Table("name", "what is printed or drawn")
    for work, own in groupby(experiments, key=lambda each: work_of(each.name)):
        table.add_section()
        table.add_row("", f"[bold]{render.plain(work)}[/bold]")
        for each in own:
            table.add_row(each.name, each.title)
    out.print(table)


def _show(found: Reproduced) -> None:
    kept = "kept from before" if found.is_kept else f"{found.seconds:.1f} s"
    said = ", ".join([kept, *dict.fromkeys(each.partition(",")[0] for each in found.tables)])
    out.print(f"[bold]{render.plain(found.name)}[/bold] {found.verdict} ({render.plain(said)})", highlight=False)
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
