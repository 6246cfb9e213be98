"""The commands `certificate` and `page`, and the page of a plan."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer

import sfumato
from sfumato._core.json_types import Json
from sfumato._document.document import DEFAULT_DECIDER, Document
from sfumato._release.description import Description
from sfumato._request.stated_context import StatedContext
from sfumato.cli import render
from sfumato.cli.option_group import OptionGroup
from sfumato.cli.options import OUTPUT_PANEL, Describe, PrintOptions, ReleasePath
from sfumato.cli.output import err, out, print_json
from sfumato.errors import SfumatoError, SpecError, TargetError

if TYPE_CHECKING:  # only annotations need these
    from sfumato import PublicationPlan, Release, Request
    from sfumato._engines.engine import Engine, Progress
    from sfumato._planning.bound_for_error import ErrorTarget

MAX_MEGABYTES = 10.0
Force = Annotated[bool, typer.Option("--force", help="Replace an existing page.")]
Decider = Annotated[
    str,
    typer.Option("--decider", metavar="NAME", help='The person who decides, as printed on the page: "Name, role".'),
]


@dataclass(frozen=True)
class PlanPageOptions(OptionGroup):
    """The key of a plan, its page, and the person who decides about it."""

    PANEL: ClassVar = OUTPUT_PANEL

    plan_file: Annotated[
        Path | None,
        typer.Option("--plan-file", metavar="FILE", help="Plan the release that this private file repeats."),
    ] = None
    report: Annotated[
        Path | None,
        typer.Option(
            "--report", metavar="FILE.html", help="Also write an HTML page with figures (as slow as compare). Private."
        ),
    ] = None
    sheet: Annotated[
        Path | None,
        typer.Option("--sheet", metavar="FILE.html", help="Also write one A4 page to decide and sign. Private."),
    ] = None
    context: Annotated[
        Path | None,
        typer.Option("--context", metavar="FILE.toml", help="For --sheet: purpose, recipients, legal basis, decision."),
    ] = None
    describe: Annotated[
        Path | None,
        typer.Option("--describe", metavar="FILE.toml", help="For --sheet: title, and descriptions of columns."),
    ] = None
    force: Force = False
    decider: Decider = DEFAULT_DECIDER

    def check(self) -> None:
        """Refuses unusable files for the pages before the long computation."""
        from sfumato._report import check_place  # noqa: PLC0415 - takes long to load

        pages = [page for page in (self.report, self.sheet) if page is not None]
        for page_path in pages:
            check_place(page_path, force=self.force)
        if len({page_path.resolve() for page_path in pages}) < len(pages):
            raise TargetError("--report and --sheet are two pages; give them different names.", code="same-file")
        if not pages and self.decider != DEFAULT_DECIDER:
            raise TargetError(
                "--decider is printed on the page of a plan; name the page with --report or --sheet.",
                code="decider-without-page",
            )
        if self.sheet is None and self.context is not None:
            raise TargetError(
                "--context is printed on the decision sheet; name the sheet with --sheet.", code="context-without-sheet"
            )
        if self.context is not None:
            StatedContext.read(self.context, None)  # its columns are checked when the table was read
        Description.read_optional(self.describe)

    def save_sheet(self, outlook: PublicationPlan, print_options: PrintOptions) -> None:
        """Writes the decision sheet, if requested."""
        if self.sheet is None:
            return
        decider = None if self.decider == DEFAULT_DECIDER else self.decider
        document = outlook.decision_sheet(self.context, self.describe, decider)
        _save_private(document, self.sheet, print_options, force=self.force)

    def save(
        self,
        outlook: PublicationPlan,
        target: ErrorTarget | None,
        comparison_input: tuple[Request, Callable[[Progress], Engine]] | None,
        print_options: PrintOptions,
    ) -> None:
        """Writes the page of a plan, if requested. With a table, the page compares all mechanisms."""
        from sfumato._comparison.comparison_document import list_alternative_sections  # noqa: PLC0415 - takes long to load
        from sfumato._publish.plan_document import make_plan_document  # noqa: PLC0415 - takes long to load

        self.save_sheet(outlook, print_options)
        if self.report is None:
            return
        document = make_plan_document(outlook, target, self.decider)
        if comparison_input is not None:
            request, make_engine = comparison_input
            # Without a single posterior.
            with (
                render.open_progress_engine(err, print_options, make_engine) as engine,
                suppress(SpecError),
            ):
                progress = partial(engine.progress, render.COMPARING)
                comparison = sfumato.compare(request, engine, plan_file=self.plan_file, progress=progress)
                document = document.add_sections(list_alternative_sections(comparison))
        _save_private(document, self.report, print_options, force=self.force)


def _save_private(document: Document, target: Path, print_options: PrintOptions, *, force: bool) -> None:
    render.save_document(document, target, force=force)
    if not print_options.is_silent:
        message = f"written to {render.escape_for_terminal(str(target))} (private)"
        out.print(message, soft_wrap=True, highlight=False)


def certificate(  # noqa: PLR0913 - the arguments of a command are its options
    release: ReleasePath,
    target: Annotated[Path | None, typer.Option("--out", metavar="FILE.html", help="The page, a new file.")] = None,
    force: Force = False,
    decider: Decider = DEFAULT_DECIDER,
    describe: Describe = None,
    *,
    print_options: PrintOptions,
) -> None:
    """Write one page to publish with a verified release: guarantee, design, errors and limits."""
    if target is None and not print_options.as_json:
        raise TargetError("name a file for the page (--out certificate.html) or ask for --json.", code="no-target")
    certified = sfumato.certificate(release, target, decider=decider, describe=describe, force=force)
    if print_options.as_json:
        print_json(({} if target is None else {"path": str(target)}) | certified.to_json())
    elif not print_options.quiet:
        render.show_document(out, certified.document())
        out.print(f"written to {render.escape_for_terminal(str(target))}", soft_wrap=True, highlight=False)


# ------------------------------------------------------------------------------------------------ the page that answers


@dataclass(frozen=True)
class QuestionPageOptions(OptionGroup):
    """The page that answers questions, written beside a release."""

    PANEL: ClassVar = OUTPUT_PANEL

    page: Annotated[
        Path | None,
        typer.Option(
            "--page", metavar="FILE.html", help="Also write an HTML page, beside the release, that answers questions."
        ),
    ] = None

    def check(self, release: Path, *, force: bool) -> None:
        """Refuses an unusable file for the page before the long computation."""
        from sfumato._report import check_place  # noqa: PLC0415 - takes long to load

        if self.page is not None:
            if release.resolve() in self.page.resolve().parents:
                raise TargetError(
                    f"the page {str(self.page)!r} would be inside the release; write it elsewhere.",
                    code="inside-release",
                    fields={"file": str(self.page)},
                )
            check_place(self.page, force=force)

    def save(self, release: Release, print_options: PrintOptions, *, force: bool) -> Json:
        """Writes the page of a published release, if requested, and reports it as JSON."""
        if self.page is None:
            return {}
        try:
            return {"page": save_page(release, self.page, print_options, force=force)}
        except SfumatoError as error:
            raise TargetError(
                f"the release was written to {str(release.path)!r}, but not its page: {error}",
                code="page-not-written",
                fields={"file": str(self.page), "release": str(release.path)},
            ) from error


def save_page(  # noqa: PLR0913 - all but the release and the place have a default
    release: Release,
    target: Path,
    print_options: PrintOptions,
    *,
    title: str | None = None,
    max_megabytes: float = MAX_MEGABYTES,
    force: bool = False,
) -> Json:
    """Writes the page of a release, and reports it as JSON."""
    with render.show_progress(err, print_options, "counting") as progress:
        ask_page = sfumato.page(release, target, title=title, megabytes=max_megabytes, force=force, progress=progress)
    content_kind = "counts" if ask_page.has_only_counts else "records"
    if not print_options.is_silent:
        message = (
            f"written to {render.escape_for_terminal(str(target))}: {ask_page.size / 1e6:,.1f} MB, with the "
            f"{ask_page.contents_in_words} of the release"
        )
        out.print(message, soft_wrap=True, highlight=False)
    return {
        "path": str(target),
        "bytes": ask_page.size,
        "holds": content_kind,
        "left_out": list(ask_page.contents.omitted_columns),
    }


def page(  # noqa: PLR0913 - the arguments of a command are its options
    release: ReleasePath,
    target: Annotated[Path, typer.Option("--out", metavar="FILE.html", help="The page, a new file.")],
    title: Annotated[str | None, typer.Option("--title", metavar="TEXT", help="The title of the page.")] = None,
    largest: Annotated[
        float,
        typer.Option(
            "--megabytes",
            min=0.1,
            max=500,
            help="Largest size. The page of a larger release has counts of column pairs.",
        ),
    ] = MAX_MEGABYTES,
    force: Force = False,
    *,
    print_options: PrintOptions,
) -> None:
    """Write one HTML page that answers questions about a release, with error bars and without a network."""
    from sfumato._report import check_place  # noqa: PLC0415 - takes long to load

    check_place(target, force=force)
    with render.show_fetching(err, release, quiet=print_options.is_silent):
        opened = sfumato.Release.open(release)
        _ = opened.folder  # records from a store are downloaded to here
    report = save_page(opened, target, print_options, title=title, max_megabytes=largest, force=force)
    if print_options.as_json:
        print_json(report)
