"""Prints the results of commands in a terminal. With `--json`, commands do not use this module's layout."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Protocol

from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn, TimeRemainingColumn
from rich.progress import Progress as ProgressBars
from rich.table import Column, Table
from rich.text import Text

import sfumato
from sfumato._core.cell_values import format_values
from sfumato._core.json_types import Json
from sfumato._core.object_store import Address
from sfumato._document.document import Document
from sfumato._document.terminal_document import print_document
from sfumato._figures.estimate_format import align_cells
from sfumato._query.intervals import DEFAULT_LEVEL
from sfumato._request.warnings import Grade, Notice
from sfumato._terminal_safe import escape_lines, escape_unprintable
from sfumato.cli.argument_names import name_arguments
from sfumato.errors import ReleaseFormatError
from sfumato.mechanisms import list_broken_plugins

if TYPE_CHECKING:  # only annotations need these
    from pathlib import Path

    from sfumato import Publication, PublicationPlan, RequestDraft, Verification
    from sfumato._commands.demo import Demonstration
    from sfumato._engines.engine import Engine, Progress
    from sfumato._planning.bound_for_error import ErrorTarget
    from sfumato._profile.role_guessing import TableGuess
    from sfumato.cli.options import PrintOptions

GRADE_STYLES = {Grade.STOP: "red", Grade.WARNING: "yellow", Grade.NOTE: "dim"}
COMPARING = "comparing"
ASKING = "asking"
UNITS = {COMPARING: "mechanisms", ASKING: "questions"}
"""The unit of a stage's progress, if it is not rows."""


class GuardedConsole(Console):
    """A console that escapes control characters in every text."""

    def render_str(self, text: str, **styles: Any) -> Text:
        """Escapes every text, in a table or alone."""
        return super().render_str(escape_lines(text), **styles)


def escape_for_terminal(text: str) -> str:
    """Escapes control characters, line breaks and markup in a text from a table or release."""
    return escape(escape_unprintable(text))


@contextmanager
def open_progress_engine(
    console: Console, print_options: PrintOptions, make_engine: Callable[[Progress], Engine] | None = None
) -> Iterator[Engine]:
    """An engine with progress bars in an interactive terminal. With --verbose, it also prints the times of stages."""
    start_time, end_times = time.monotonic(), dict[str, float]()

    with _show_bars(console, is_visible=console.is_terminal and not print_options.is_silent) as show:

        def progress(stage: str, done: int, total: int | None) -> None:
            end_times[stage] = time.monotonic() - start_time
            show(stage, done, total)

        yield sfumato.LocalEngine(progress=progress) if make_engine is None else make_engine(progress)
    if print_options.verbose and end_times:
        stage_times = ", ".join(f"{stage} done at {seconds:.1f} s" for stage, seconds in end_times.items())
        console.print(f"time: {stage_times}", highlight=False)


@contextmanager
def _show_bars(console: Console, *, is_visible: bool) -> Iterator[Callable[[str, int, int | None], None]]:
    """Shows a progress bar for each stage."""
    if not is_visible:
        yield lambda stage, done, total: None
        return
    columns = (
        TextColumn("{task.description:>10}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[unit]}"),
        TimeRemainingColumn(),
    )
    with ProgressBars(*columns, console=console, transient=True) as bars:
        tasks: dict[str, TaskID] = {}

        def show(stage: str, done: int, total: int | None) -> None:
            if stage not in tasks:
                tasks[stage] = bars.add_task(stage, total=total, unit=UNITS.get(stage, "rows"))
            bars.update(tasks[stage], completed=done, total=total)

        yield show


class StepProgress(Protocol):
    """Reports how many steps are done, and the current activity if it changes."""

    def __call__(self, done: int, total: int, what: str = ...) -> None:  # noqa: D102
        ...


@contextmanager
def show_progress(console: Console, print_options: PrintOptions, activity: str = "asking") -> Iterator[StepProgress]:
    """Shows progress through questions or steps in an interactive terminal."""
    if print_options.is_silent or not console.is_terminal:
        yield lambda done, total, what=activity: None
        return
    description_column = TextColumn("{task.description}")
    with ProgressBars(description_column, BarColumn(), MofNCompleteColumn(), console=console, transient=True) as bars:
        task = bars.add_task(activity)
        yield lambda done, total, what=activity: bars.update(task, description=what, completed=done, total=total)


@contextmanager
def show_fetching(console: Console, release: Path, *, quiet: bool) -> Iterator[None]:
    """Shows in an interactive terminal that a release is being fetched from a store."""
    address = Address.of(release, ReleaseFormatError)
    if quiet or not console.is_terminal or address is None:
        yield
        return
    with console.status(f"fetching {escape_for_terminal(str(address))}"):
        yield


def show_looking(console: Console, *, quiet: bool) -> AbstractContextManager[object]:
    """Shows in an interactive terminal that a table is being read."""
    if quiet or not console.is_terminal:
        return nullcontext()
    return console.status("reading the table")


def show_notice(console: Console, notice: Notice | str) -> None:
    """Prints a notice for the data steward, with its grade, on one line."""
    grade = notice.grade if isinstance(notice, Notice) else Grade.NOTE
    style = GRADE_STYLES[grade]
    console.print(
        f"[{style}]{grade}:[/{style}] {escape_for_terminal(name_arguments(str(notice)))}",
        soft_wrap=not console.is_terminal,
        highlight=False,
    )
    for way_out in notice.ways_out if isinstance(notice, Notice) else ():
        console.print(
            f"      {escape_for_terminal(name_arguments(way_out))}", soft_wrap=not console.is_terminal, highlight=False
        )


def show_notices(console: Console, notices: Sequence[Notice]) -> None:
    """Prints notices, one a line."""
    for notice in notices:
        show_notice(console, notice)


def show_broken_plugins(console: Console) -> None:
    """Reports plug-ins that failed to load. All other mechanisms work."""
    for plugin in list_broken_plugins():
        show_notice(console, plugin.sentence)


def plan_json(outlook: PublicationPlan, target: ErrorTarget | None) -> Json:
    """The plan with its errors and notices, as JSON."""
    levels = {"publish_at": [item.to_json() for item in outlook.gains]} if outlook.gains else {}
    return {
        **outlook.choice.to_json(),
        **levels,
        "target": target and target.to_json(),
        **({"questions": [answer.to_json() for answer in outlook.answers]} if outlook.answers else {}),
        "notices": [item.to_json() for item in outlook.notices],
        "exposures": [item.to_json() for item in outlook.exposures],
        "uniqueness": outlook.uniqueness and outlook.uniqueness.to_json(),
        "recodings": outlook.recodings and outlook.recodings.to_json(),
    }


def show_text(console: Console, text: str) -> None:
    """Prints an indented paragraph; arguments appear as options or keys."""
    console.print(Padding(escape_for_terminal(name_arguments(text)), (0, 2)), highlight=False)


def save_document(document: Document, target: Path, *, force: bool) -> None:
    """Writes a document as a page; arguments appear as options or keys."""
    from sfumato._report import save  # noqa: PLC0415 - takes long to load

    save(document.map_text(name_arguments), target, force=force)


def show_document(console: Console, document: Document, *, quiet: bool = False) -> None:
    """Prints a document; arguments appear as options or keys."""
    print_document(console, document.map_text(name_arguments), quiet=quiet)


def verification_json(verification: Verification) -> Json:
    """The checks as JSON."""
    checks = [{"name": check.name, "passed": check.has_passed, "detail": check.detail} for check in verification.checks]
    return {"passed": verification.has_passed, "checks": checks}


def show_draft(console: Console, path: str, draft: RequestDraft) -> None:
    """Lists the untidy values of the table, and the decisions left in a new request file."""
    for kind, names in draft.guess.untidy_columns.items():
        finding = f"found in {format_values(names)}: {kind.value.finding}; {kind.value.remedy}."
        console.print(escape_for_terminal(finding), soft_wrap=True, highlight=False)
    console.print(
        f"written to {escape_for_terminal(path)}; open it in an editor, check it, and decide:",
        soft_wrap=True,
        highlight=False,
    )
    for number, decision in enumerate(draft.open_decisions, 1):
        console.print(f"  {number}. {decision}", highlight=False)
    console.print(f"then run: sfumato plan {escape_for_terminal(path)}", soft_wrap=True, highlight=False)


def guess_json(guess: TableGuess) -> Json:
    """The proposed uses of columns, as JSON."""
    columns = [
        {"name": column.name, "role": column.role.value, "remarks": list(column.remarks), "bins": list(column.edges)}
        for column in guess.columns
    ]
    untidy = {kind.value.code: names for kind, names in guess.untidy_columns.items()}
    markers = {"missing": list(guess.missing_markers), "doubtful": list(guess.doubtful_markers)}
    return {"columns": columns, **markers, "untidy": untidy}


def show_written(console: Console, publication: Publication) -> None:
    """Prints the place of a release, and the head of its journal for the data steward to note."""
    path = escape_for_terminal(str(publication.release.path))
    console.print(f"written to {path}", soft_wrap=True, highlight=False)
    if publication.journal_head is not None:
        console.print(f"head of the journal: {publication.journal_head}", soft_wrap=True, highlight=False)


def publication_json(publication: Publication) -> Json:
    """A publication as JSON, including private parts for the data steward."""
    notices = [item.to_json() for item in publication.notices]
    exposures = [item.to_json() for item in publication.exposures]
    risks = {"exposures": exposures, "uniqueness": publication.uniqueness.to_json()}
    head = {} if publication.journal_head is None else {"journal_head": publication.journal_head}
    return {**sfumato.info(publication.release), "notices": notices, **risks, **head}


def show_practice(console: Console, path: str, rows: int) -> None:
    """Prints the next step for a practice table."""
    where = shlex.quote(path)
    console.print(
        f"{rows:,} invented hospital stays were written to {escape_for_terminal(path)}.",
        soft_wrap=True,
        highlight=False,
    )
    console.print(f"then run: sfumato init {escape_for_terminal(where)}", soft_wrap=True, highlight=False)


def show_demonstration(console: Console, demonstration: Demonstration, is_kept: bool) -> None:
    """Prints the demonstration step by step."""
    release = demonstration.publication.release
    console.print(f"An invented hospital table of {release.rows:,} patients was published.")
    console.print("Its column [bold]diagnosis[/bold] is protected:\n")
    show_text(console, release.guarantee.short)
    console.print("\nThe release was verified against the original table:")
    show_document(console, demonstration.verification.document())
    console.print("\nWhat an analyst gets from the release, compared with the truth:")
    table = Table("question", "truth", Column("estimate", no_wrap=True), Column("in the interval", no_wrap=True))
    cells = align_cells([line.estimate.to_cell() for line in demonstration.answers])
    for line, parts in zip(demonstration.answers, cells, strict=True):
        coverage = "yes" if line.is_covered else "no (1 in 20)"
        table.add_row(line.question, f"{line.truth:,}", escape(" ".join(parts)), coverage)
    console.print(table)
    console.print(f"[dim]± standard error, \\[{DEFAULT_LEVEL:.0%} confidence interval][/dim]", highlight=False)
    if is_kept:
        where = escape_for_terminal(str(demonstration.table.parent))
        console.print(f"The table and the release are in {where}.", soft_wrap=True, highlight=False)


def demonstration_json(demonstration: Demonstration) -> Json:
    """The demonstration as JSON."""
    lines = []
    for line in demonstration.answers:
        low, high = line.estimate.interval(DEFAULT_LEVEL)
        answer = {"question": line.question, "truth": line.truth, "n": line.estimate.value}
        lines.append({**answer, "n_se": line.estimate.standard_error, "n_low": low, "n_high": high})
    release = sfumato.info(demonstration.publication.release)
    return {"release": release, "verification": verification_json(demonstration.verification), "answers": lines}
