"""The command `compare`: all mechanisms under one requirement, as three small tables and a recommendation."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer
from rich.table import Column, Table

import sfumato
from sfumato._planning.bound_for_error import DEFAULT_COUNT
from sfumato.cli import render
from sfumato.cli.engine_options import EngineOptions
from sfumato.cli.option_group import OptionGroup
from sfumato.cli.options import (
    OUTPUT_PANEL,
    PROMISE_PANEL,
    PrintOptions,
    PromiseOptions,
    RequestPath,
    StopOptions,
    TableOptions,
)
from sfumato.cli.output import err, out, print_json
from sfumato.cli.page_commands import DEFAULT_DECIDER, Decider
from sfumato.errors import TargetError

if TYPE_CHECKING:
    from sfumato import Comparison
    from sfumato._comparison.comparison_tables import ComparisonTable

POSTERIOR, WEAKEST = "posterior", "99/100"
"""The posterior for comparisons at an equal gain or error, where none is requested."""
STANDING_MARKS = {
    "recommended": "\u25cf",
    "weaker guarantee than requested": "\u25cb",
    "would be refused by publish": "\u25a0",
    "also possible": " ",
}
"""The mark before a mechanism's name, by its standing."""


@dataclass(frozen=True)
class AimOptions(OptionGroup):
    """The criterion of a comparison, and the attacker whose gain is shown; a request file cannot set these."""

    PANEL: ClassVar = PROMISE_PANEL

    same_gain: Annotated[
        str | None,
        typer.Option(
            "--at-gain",
            metavar="R",
            help="Compare at an equal attacker's gain, R (5%) more correct guesses, instead of an equal posterior.",
        ),
    ] = None
    attacker: Annotated[
        str,
        typer.Option(
            "--attacker",
            metavar="F|C|P|O|L",
            help="The attacker, who knows: frequencies, one public column, all, others' values too, only the release.",
            autocompletion=lambda: ["F", "C", "P", "O", "L"],
        ),
    ] = "P"
    same_error: Annotated[
        str | None, typer.Option("--error", metavar="R", help="Compare at an equal standard error of counts, R (10%).")
    ] = None
    count: Annotated[
        int | None,
        typer.Option(
            "--at", metavar="N", help="The count that has this error.", min=1, show_default=f"{DEFAULT_COUNT:,}"
        ),
    ] = None
    seed: Annotated[int | None, typer.Option("--seed", metavar="N", help="Random seed, for reproducible attacks.")] = (
        None
    )

    def complete_promise(self, promise: PromiseOptions) -> PromiseOptions:
        """The requirement; its posterior may be missing where gains or errors are equal instead."""
        is_open = promise.given["prior"] is not None and promise.given[POSTERIOR] is None
        if is_open and (self.same_gain or self.same_error):
            return replace(promise, given={**promise.given, POSTERIOR: WEAKEST})
        return promise


@dataclass(frozen=True)
class ComparePageOptions(OptionGroup):
    """The file of the comparison's page."""

    PANEL: ClassVar = OUTPUT_PANEL

    page: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="FILE.html", help="Also write the comparison as an HTML page with figures. Private."
        ),
    ] = None
    replaces: Annotated[bool, typer.Option("--force", help="Replace an existing page.")] = False
    decider: Decider = DEFAULT_DECIDER

    def check(self) -> None:
        """Refuses an unusable file for the page before the long computation."""
        from sfumato._report.html_page import check_place  # noqa: PLC0415 - takes long to load

        if self.page is not None:
            check_place(self.page, force=self.replaces)
        elif self.decider != DEFAULT_DECIDER:
            raise TargetError("--decider is printed on the page of a comparison; name the page with --out.")


def compare(  # noqa: PLR0913, PLR0917 - the options of the command
    table: RequestPath,
    table_options: TableOptions,
    promise: PromiseOptions,
    stop_options: StopOptions,
    aim_options: AimOptions,
    engine_options: EngineOptions,
    page_options: ComparePageOptions,
    print_options: PrintOptions,
) -> None:
    """Compare all mechanisms: what each guarantees, what attackers learn, what it costs in accuracy. Private."""
    from sfumato.cli.app import make_request  # noqa: PLC0415 - the program imports its commands

    page_options.check()
    request = make_request(table, table_options, aim_options.complete_promise(promise), stop_options)
    with render.open_progress_engine(err, print_options, partial(engine_options.make_engine, table)) as engine:
        comparison = sfumato.compare(
            request,
            engine,
            at_gain=aim_options.same_gain,
            attacker=aim_options.attacker,
            error=aim_options.same_error,
            at=aim_options.count,
            seed=aim_options.seed,
            progress=partial(engine.progress, render.COMPARING),
        )
    if page_options.page is not None:
        from sfumato._report import make_comparison_page, save  # noqa: PLC0415 - takes long to load

        save(
            make_comparison_page(comparison, request.schema.sensitive_name, page_options.decider),
            page_options.page,
            force=page_options.replaces,
        )
    if print_options.as_json:
        print_json(({} if page_options.page is None else {"path": str(page_options.page)}) | comparison.to_json())
        return
    show_comparison(comparison, quiet=print_options.quiet)
    if page_options.page is not None and not print_options.quiet:
        message = f"written to {render.escape_for_terminal(str(page_options.page))} (private)"
        out.print(message, soft_wrap=True, highlight=False)


def show_comparison(comparison: Comparison, *, quiet: bool = False) -> None:
    """Shows three tables (proved, measured, cost), then the recommendation and the mechanisms left out."""
    from sfumato._comparison.comparison_tables import (  # noqa: PLC0415 - takes long to load
        KNOWLEDGE,
        make_attack_table,
        make_cost_table,
        make_guarantee_table,
    )

    out.print(
        f"compared at {comparison.aim.description}; prior {comparison.bound.prior}, guarantee {comparison.guarantee}",
        highlight=False,
    )
    knowledge = "; ".join(f"{letter}: {knowledge}" for letter, knowledge in KNOWLEDGE.items())
    render.show_text(out, f"attackers know: {knowledge}. The gains shown are those of attacker {comparison.attacker}.")
    for layer in (
        make_guarantee_table(comparison, with_standing=False),
        make_attack_table(comparison),
        make_cost_table(comparison, with_time=False),
    ):
        out.print(f"\n[bold]{layer.title}[/bold]", highlight=False)
        out.print(_build_table(comparison, layer))
        if not quiet:
            render.show_text(out, layer.note)
    marks = "  ".join(f"{mark} {standing}" for standing, mark in STANDING_MARKS.items() if mark.strip())
    out.print(f"{marks}\n", style="dim", highlight=False)
    render.show_text(out, comparison.recommendation)
    for contender in comparison.contenders:
        if not contender.is_possible:
            render.show_text(out, f"{contender.mechanism.name} cannot be used: {contender.trial.refusal}")
        elif contender.stop_reason and not quiet:
            render.show_text(out, f"{contender.mechanism.name} would be refused by publish: {contender.stop_reason}")
    for baseline in () if quiet else comparison.baselines:
        render.show_text(out, f"{baseline.name}: {baseline.description}")


def _build_table(comparison: Comparison, layer: ComparisonTable) -> Table:
    """A table with a line for each possible mechanism, marked by its standing."""
    table = Table(Column(layer.headings[0], no_wrap=True), highlight=False)
    for number, heading in enumerate(layer.headings[1:], start=1):
        table.add_column(heading, justify="left" if number < layer.text_columns else "right", no_wrap=True)
    for contender, (name, *cells) in zip(comparison.possible_contenders, layer.rows, strict=True):
        table.add_row(
            f"{STANDING_MARKS[comparison.describe_standing(contender)]} {render.escape_for_terminal(name)}",
            *map(render.escape_for_terminal, cells),
        )
    return table
