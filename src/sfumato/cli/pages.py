"""Pages that people file: the command `certificate`, and where the page of a plan goes."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer

import sfumato
from sfumato.cli import render
from sfumato.cli.option_group import OptionGroup
from sfumato.cli.options import OUTPUT, PrintOptions, ReleasePath
from sfumato.cli.output import out, print_json
from sfumato.errors import SpecError, TargetError

if TYPE_CHECKING:  # what is only looked at need not be loaded before it is there
    from sfumato import Comparison, LocalEngine, Outlook, Request
    from sfumato.plan.target import ErrorTarget
    from sfumato.request.spec import PrivacySpec

HOLDER = "the holder of the table"
Force = Annotated[bool, typer.Option("--force", help="Replace an existing page.")]
Decider = Annotated[str, typer.Option("--decider", metavar="NAME", help="Who decides whether this is enough.")]


@dataclass(frozen=True)
class PageOptions(OptionGroup):
    """Where the page of a plan goes, and who decides about it."""

    PANEL: ClassVar = OUTPUT

    report: Annotated[
        Path | None,
        typer.Option("--report", metavar="FILE.html", help="Also write the plan as a page with figures. Private."),
    ] = None
    force: Force = False
    decider: Decider = HOLDER

    def check(self) -> None:
        """Refuse a place for the page before anything takes long."""
        from sfumato.pages.page import check_place  # noqa: PLC0415 - takes long to load

        if self.report is not None:
            check_place(self.report, force=self.force)
        elif self.decider != HOLDER:
            raise TargetError("--decider is for the page of a plan; name its file with --report.")

    def compared(self, request: Request, engine: LocalEngine) -> Comparison | None:
        """Every mechanism at the posterior of a request, if a page is wanted; None where it has no such posterior."""
        if self.report is None:
            return None
        try:
            return sfumato.compare(request, engine, progress=partial(engine.progress, render.COMPARING))
        except SpecError:
            return None

    def save(  # noqa: PLR0913 - what the page shows
        self,
        found: Outlook,
        spec: PrivacySpec,
        column: str,
        target: ErrorTarget | None,
        *,
        compared: Comparison | None = None,
        quiet: bool,
    ) -> None:
        """Write the page of a plan, if one is wanted."""
        from sfumato.pages import plan_page, save  # noqa: PLC0415 - takes long to load

        if self.report is not None:
            save(plan_page(found, spec, column, target, self.decider, compared), self.report, force=self.force)
            if not quiet:
                said = f"written to {render.plain(str(self.report))}, for you alone"
                out.print(said, soft_wrap=True, highlight=False)


def certificate(
    release: ReleasePath,
    target: Annotated[
        Path | None, typer.Option("--out", metavar="FILE.html", help="Where the page goes: a new file.")
    ] = None,
    force: Force = False,
    decider: Decider = HOLDER,
    *,
    printed: PrintOptions,
) -> None:
    """Write one page about a release that may go with it: its promise, design, error and limits. It verifies first."""
    from sfumato.pages import certificate as certified  # noqa: PLC0415 - takes long to load
    from sfumato.pages import check_place, save  # noqa: PLC0415 - takes long to load

    if target is None and not printed.as_json:
        raise TargetError("name the file of the page with --out, such as --out certificate.html, or ask for --json.")
    if target is not None:
        check_place(target, force=force)
    found = certified(release, date.today(), decider)
    if target is not None:
        save(found.page(), target, force=force)
    if printed.as_json:
        print_json(({} if target is None else {"path": str(target)}) | found.to_json())
    elif not printed.quiet:
        render.show_text(out, found.manifest.promise)
        out.print(f"written to {render.plain(str(target))}", soft_wrap=True, highlight=False)
