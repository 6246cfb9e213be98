"""The command `compare`, which shows all mechanisms for one requirement in a recommendation and three tables."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, ClassVar

import typer

import sfumato
from sfumato._document.document import DEFAULT_DECIDER
from sfumato._planning.bound_for_error import DEFAULT_COUNT
from sfumato.cli import render
from sfumato.cli.engine_options import EngineOptions
from sfumato.cli.option_group import OptionGroup
from sfumato.cli.options import (
    GUARANTEE_PANEL,
    OUTPUT_PANEL,
    GuaranteeOptions,
    PrintOptions,
    RequestPath,
    StopOptions,
    TableOptions,
)
from sfumato.cli.output import err, out, print_json
from sfumato.cli.page_commands import Decider
from sfumato.errors import TargetError

POSTERIOR, WEAKEST = "posterior", "99/100"
"""The posterior for comparisons at an equal gain or error, if no posterior is requested."""


@dataclass(frozen=True)
class AimOptions(OptionGroup):
    """The criterion of a comparison, and the attacker whose gain is shown. A request file cannot set these options."""

    PANEL: ClassVar = GUARANTEE_PANEL

    same_gain: Annotated[
        str | None,
        typer.Option(
            "--at-gain",
            metavar="R",
            help="Compare at an equal gain for an attacker (such as 5% more correct guesses), not an equal posterior.",
        ),
    ] = None
    attacker: Annotated[
        str,
        typer.Option(
            "--attacker",
            metavar="F|C|P|O|L",
            help="What the attacker knows: frequencies, one public column, all, also others' values, only the release.",
            autocompletion=lambda: ["F", "C", "P", "O", "L"],
        ),
    ] = "P"
    same_error: Annotated[
        str | None, typer.Option("--error", metavar="R", help="Compare at an equal standard error of counts: 10%.")
    ] = None
    count: Annotated[
        int | None,
        typer.Option(
            "--at",
            metavar="N",
            help="The size of the counts with this error.",
            min=1,
            show_default=f"{DEFAULT_COUNT:,}",
        ),
    ] = None
    seed: Annotated[int | None, typer.Option("--seed", metavar="N", help="Random seed, for reproducible attacks.")] = (
        None
    )

    def complete_guarantee(self, promise: GuaranteeOptions) -> GuaranteeOptions:
        """The requirement. A comparison at an equal gain or error needs no posterior."""
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
        from sfumato._report import check_place  # noqa: PLC0415 - takes long to load

        if self.page is not None:
            check_place(self.page, force=self.replaces)
        elif self.decider != DEFAULT_DECIDER:
            raise TargetError(
                "--decider is printed on the page of a comparison; name the page with --out.",
                code="decider-without-page",
            )


def compare(  # noqa: PLR0913, PLR0917 - the options of the command
    table: RequestPath,
    table_options: TableOptions,
    promise: GuaranteeOptions,
    stop_options: StopOptions,
    aim_options: AimOptions,
    engine_options: EngineOptions,
    page_options: ComparePageOptions,
    print_options: PrintOptions,
) -> None:
    """Compare all mechanisms: what each guarantees, what attackers learn, and how accurate counts are. Private."""
    from sfumato.cli.app import make_request  # noqa: PLC0415 - the program imports its commands

    page_options.check()
    request = make_request(table, table_options, aim_options.complete_guarantee(promise), stop_options)
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
        from sfumato._comparison.comparison_document import make_comparison_document  # noqa: PLC0415 - takes long to load

        document = make_comparison_document(comparison, page_options.decider)
        render.save_document(document, page_options.page, force=page_options.replaces)
    if print_options.as_json:
        print_json(({} if page_options.page is None else {"path": str(page_options.page)}) | comparison.to_json())
        return
    render.show_document(out, comparison.document(), quiet=print_options.quiet)
    if page_options.page is not None and not print_options.quiet:
        message = f"written to {render.escape_for_terminal(str(page_options.page))} (private)"
        out.print(message, soft_wrap=True, highlight=False)
