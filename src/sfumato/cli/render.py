"""How what commands find looks in a terminal; `--json` bypasses all of it."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Protocol

from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Column, Table
from rich.text import Text

import sfumato
from sfumato._core.cell_values import counted, labels, listed, off_by
from sfumato._core.object_store import Address
from sfumato._figures.number_cells import lined_up
from sfumato._planning.predicted_error import CURVE
from sfumato._query.intervals import DEFAULT_LEVEL
from sfumato._records.sql_quoting import plain_level, plain_name
from sfumato._terminal_safe import printable, printable_lines
from sfumato.errors import ReleaseFormatError
from sfumato.mechanisms import broken_plugins

if TYPE_CHECKING:  # what is only looked at need not be loaded before it is there
    from pathlib import Path

    from sfumato import Attack, Chosen, Notice, Outlook, Publication, Release, Verification
    from sfumato._commands.demo import Demonstration
    from sfumato._engines.engine import Engine
    from sfumato._engines.engine import Progress as Told
    from sfumato._planning.bound_for_error import ErrorTarget
    from sfumato._planning.grouping_gains import Gain
    from sfumato._profile.equivalence_classes import Uniqueness
    from sfumato._profile.role_guessing import TableGuess
    from sfumato._release.description import Description
    from sfumato.cli.options import PrintOptions

MOST_CELLS = 12
LEAST_SHOWN = 0.0005
"""Below this, a share would be written as 0.0%."""
MOST_COLUMNS = 40
COMPARING = "comparing"
UNITS = {COMPARING: "mechanisms"}
"""What is counted while a stage goes on, where it is not rows."""


class GuardedConsole(Console):
    """A console on which no text can steer the terminal, whoever forgot to think of it."""

    def render_str(self, text: str, **styles: Any) -> Text:
        """Every text passes here, in a table or alone."""
        return super().render_str(printable_lines(text), **styles)


def plain(text: str) -> str:
    """A text from a table or a release as one that may be printed: nothing in it steers, breaks a line or is markup."""
    return escape(printable(text))


@contextmanager
def progress_engine(
    console: Console, printed: PrintOptions, made: Callable[[Told], Engine] | None = None
) -> Iterator[Engine]:
    """An engine whose progress is shown while the terminal is interactive; on demand, also when each stage ended."""
    began, ended = time.monotonic(), dict[str, float]()

    with _bars(console, is_wanted=console.is_terminal and not printed.is_silent) as show:

        def progress(stage: str, done: int, total: int | None) -> None:
            ended[stage] = time.monotonic() - began
            show(stage, done, total)

        yield sfumato.LocalEngine(progress=progress) if made is None else made(progress)
    if printed.verbose and ended:
        said = ", ".join(f"{stage} until {seconds:.1f} s" for stage, seconds in ended.items())
        console.print(f"time: {said}", highlight=False)


@contextmanager
def _bars(console: Console, *, is_wanted: bool) -> Iterator[Callable[[str, int, int | None], None]]:
    """A bar for each stage."""
    if not is_wanted:
        yield lambda stage, done, total: None
        return
    columns = (
        TextColumn("{task.description:>10}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[unit]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as bars:
        tasks: dict[str, Any] = {}

        def show(stage: str, done: int, total: int | None) -> None:
            if stage not in tasks:
                tasks[stage] = bars.add_task(stage, total=total, unit=UNITS.get(stage, "rows"))
            bars.update(tasks[stage], completed=done, total=total)

        yield show


class ProgressShown(Protocol):
    """Says how many steps are done, and of what, if that changes."""

    def __call__(self, done: int, total: int, what: str = ...) -> None:  # noqa: D102
        ...


@contextmanager
def progress_of(console: Console, printed: PrintOptions, doing: str = "asking") -> Iterator[ProgressShown]:
    """Shows how many questions are answered, or steps done, while the terminal is interactive."""
    if printed.is_silent or not console.is_terminal:
        yield lambda done, total, what=doing: None
        return
    words = TextColumn("{task.description}")
    with Progress(words, BarColumn(), MofNCompleteColumn(), console=console, transient=True) as bars:
        task = bars.add_task(doing)
        yield lambda done, total, what=doing: bars.update(task, description=what, completed=done, total=total)


@contextmanager
def fetching(console: Console, release: Path, *, quiet: bool) -> Iterator[None]:
    """Says that a release comes from a store, while the terminal is interactive."""
    address = Address.of(release, ReleaseFormatError)
    if quiet or not console.is_terminal or address is None:
        yield
        return
    with console.status(f"fetching {plain(str(address))}"):
        yield


def looking(console: Console, *, quiet: bool) -> AbstractContextManager[Any]:
    """Says that a table is looked at, while the terminal is interactive."""
    if quiet or not console.is_terminal:
        return nullcontext()
    return console.status("looking at the table")


def show_notice(console: Console, notice: Notice | str) -> None:
    """Something the holder should know, on one line."""
    console.print(f"[yellow]notice:[/yellow] {plain(str(notice))}", soft_wrap=not console.is_terminal, highlight=False)


def show_notices(console: Console, notices: Sequence[Notice]) -> None:
    """Print notices, a line each."""
    for notice in notices:
        show_notice(console, notice)


def show_broken_plugins(console: Console) -> None:
    """The plug-ins that were left out; every other mechanism works."""
    for plugin in broken_plugins():
        show_notice(console, plugin.sentence)


def show_plan(console: Console, chosen: Chosen, target: ErrorTarget | None = None, at: int | None = None) -> None:
    """What would be published, at which error, also of counts of a size that was asked about."""
    histogram, plan = chosen.histogram, chosen.to_json()
    console.print(f"mechanism [bold]{plan['mechanism']}[/bold], guarantee {plan['guarantee']}")
    explanation = chosen.mechanism.explanation
    if explanation is not None:
        console.print(explanation.summarize(chosen.plan), highlight=False)
    _show_questions(console, [chosen, *chosen.others], sorted({*CURVE, *([] if at is None else [at])}))
    if target is not None:
        show_text(console, target.sentence)
    extra = [each for each in explanation.value_columns if each.entry in plan] if explanation else []
    table = Table("value", Column("count", justify="right"), Column("share", justify="right"))
    for each in extra:
        table.add_column(each.heading)
    order = sorted(range(histogram.domain_size), key=lambda place: -histogram.counts[place])
    names = labels(histogram.values)
    for place in order[:MOST_CELLS]:
        name, count = names[place], histogram.counts[place]
        numbers = [(each, plan[each.entry].get(name)) for each in extra]
        row = [each.without if number is None else each.words(number) for each, number in numbers]
        table.add_row(plain(name), f"{count:,}", f"{count / histogram.total:.2%}", *row)
    if len(order) > MOST_CELLS:
        table.add_row(f"... {len(order) - MOST_CELLS} more", *[""] * (2 + len(extra)))
    console.print(table)
    for small in explanation.list_tables(chosen.plan) if explanation else ():
        console.print(plain(small.title), highlight=False)
        shown = Table(*(plain(heading) for heading in small.headings))
        for line in small.rows:
            shown.add_row(*map(plain, line))
        console.print(shown)
    show_text(console, plan["scope"])


def plan_json(found: Outlook, target: ErrorTarget | None) -> dict[str, Any]:
    """What would be published, at which error, and what its holder should know; for machines."""
    levels = {"publish_at": [each.to_json() for each in found.gains]} if found.gains else {}
    return {
        **found.chosen.to_json(),
        **levels,
        "target": target and target.to_json(),
        "notices": [each.to_json() for each in found.notices],
        "exposures": [each.to_json() for each in found.exposures],
        "uniqueness": found.uniqueness and found.uniqueness.to_json(),
    }


def show_gains(console: Console, column: str, gains: Sequence[Gain]) -> None:
    """What publishing at each level of a hierarchy would gain."""
    if gains:
        console.print("if groups were published in the place of values:", highlight=False)
    for gain in gains:
        show_text(console, gain.words(column))


def _show_questions(console: Console, plans: Sequence[Chosen], sizes: Sequence[float]) -> None:
    """How far off answers are under the plans that meet a request, the chosen one first; and where that is not told."""
    console.print("how far off answers typically are (standard error, in % of the true number):")
    table = Table("how many have")
    for plan in plans:
        table.add_column(f"{plan.mechanism.name}\n{plan.mechanism.guarantee}", justify="right")
    reasons: dict[str, None] = {}
    for asked in zip(*(plan.questions for plan in plans), strict=True):
        reasons |= {each.reason: None for each in asked if each.reason}
        errors = [each.relative_error for each in asked]
        if any(error is not None for error in errors):
            table.add_row(plain(asked[0].held), *map(off_by, errors))
    table.add_section()
    for found in zip(*(plan.error_curve(sizes) for plan in plans), strict=True):
        if any(each.evenly is not None for each in found):
            table.add_row(f"any value ({found[0].count:,})", *(off_by(each.evenly) for each in found))
    if table.row_count:
        console.print(table)
    chosen = [each for each in plans[0].error_curve(sizes) if each.by_records is not None]
    if chosen:
        said = ", ".join(f"{off_by(each.by_records)} at {each.count:,}" for each in chosen)
        show_text(
            console,
            f"any value ({chosen[0].count:,}): a condition that finds {chosen[0].count:,} people with the value; the "
            f"mean over all values that so many people have. The mean over these people instead: {said}.",
        )
    for reason in reasons:
        console.print(f"not told: {plain(reason)}.", highlight=False)


def show_exposures(console: Console, exposures: Sequence[Attack], uniqueness: Uniqueness | None) -> None:
    """What knowing public columns tells, without the release and with it; and how many records are alone with them."""
    if uniqueness is None or not exposures:
        return
    console.print("\n[bold]what public columns tell[/bold] (private, not published)")
    show_text(console, uniqueness.sentence)
    for about in dict.fromkeys(each.about for each in exposures):
        mine = [each for each in exposures if each.about == about]
        shown = _telling_most(mine)
        console.print(_exposure_table(shown))
        if len(mine) > len(shown):
            console.print(f"{len(mine) - len(shown):,} further columns, each of which tells no more (--json has all)")
    from sfumato._risk.attackers.attack_result import EXPOSURE_WORDS  # noqa: PLC0415 - takes long to load

    show_text(console, EXPOSURE_WORDS.format(max(each.records for each in exposures)))


def _telling_most(exposures: Sequence[Attack]) -> list[Attack]:
    """Those who guess best from one column, in the order of the table, and who knows all; wide tables have many."""
    alone = [each for each in exposures if len(each.told) == 1]
    best = sorted(alone, key=lambda each: (each.with_release or each.without).right, reverse=True)[:MOST_CELLS]
    return [each for each in exposures if each in best or len(each.told) > 1]


def _exposure_table(exposures: Sequence[Attack]) -> Table:
    about = plain(exposures[0].about)
    table = Table(
        "knows",
        f"guesses {about} right",
        "belief in the true value, mean",
        "highest",
        "clearly beyond the request",
        highlight=False,
    )
    for each in exposures:
        told = plain(each.told[0]) if len(each.told) == 1 else f"all {len(each.told)} columns"
        beliefs = [each.without, *([] if each.with_release is None else [each.with_release])]
        numbers = zip(*((one.right, one.mean, one.worst, one.well_above) for one in beliefs), strict=True)
        table.add_row(told, *(f"{' -> '.join(map(_per_cent, both))}%" for both in numbers))
    return table


def _per_cent(share: float) -> str:
    """A share in per cent with one digit; what is there is never told as nothing."""
    return "<0.1" if 0 < share < LEAST_SHOWN else f"{100 * share:.1f}"


def show_text(console: Console, text: str) -> None:
    """A paragraph, indented."""
    console.print(Padding(plain(text), (0, 2)), highlight=False)


def show_verification(console: Console, verification: Verification, *, quiet: bool = False) -> None:
    """One line for each check; or for those alone that failed."""
    for check in verification.checks:
        if quiet and check.passed:
            continue
        mark = "[green]ok  [/green]" if check.passed else "[red]FAIL[/red]"
        console.print(f"{mark} {check.name}: {plain(check.detail)}", soft_wrap=not console.is_terminal, highlight=False)


def verification_json(verification: Verification) -> dict[str, Any]:
    """The checks for machines."""
    checks = [{"name": check.name, "passed": check.passed, "detail": check.detail} for check in verification.checks]
    return {"passed": verification.passed, "checks": checks}


def show_draft(console: Console, path: str, decisions: Sequence[str]) -> None:
    """What is left to do with a request file."""
    console.print(
        f"written to {plain(path)}; open it in an editor, check it, and decide:", soft_wrap=True, highlight=False
    )
    for number, decision in enumerate(decisions, 1):
        console.print(f"  {number}. {decision}", highlight=False)
    console.print(f"then run: sfumato plan {plain(path)}", soft_wrap=True, highlight=False)


def guess_json(guess: TableGuess) -> dict[str, Any]:
    """What was guessed of a table, for machines."""
    columns = [
        {"name": each.name, "role": each.role.value, "remarks": list(each.remarks), "bins": list(each.edges)}
        for each in guess.columns
    ]
    return {"columns": columns, "missing": list(guess.missing), "doubtful": list(guess.doubtful)}


def publication_json(publication: Publication) -> dict[str, Any]:
    """What was published, for machines, with what is for its holder alone."""
    said = [each.to_json() for each in publication.notices]
    exposed = [each.to_json() for each in publication.exposures]
    told = {"exposures": exposed, "uniqueness": publication.uniqueness.to_json()}
    return {**sfumato.info(publication.release), "notices": said, **told}


def show_info(console: Console, release: Release) -> None:
    """What a release is and promises."""
    manifest = release.manifest
    show_about(console, manifest.about)
    console.print(f"{release.rows:,} records, mechanism [bold]{manifest.mechanism_name}[/bold]")
    table = Table("column", "type", "role")
    for each in release.columns[:MOST_COLUMNS]:
        table.add_row(*map(plain, each))
    console.print(table)
    if (further := len(release.columns) - MOST_COLUMNS) > 0:
        console.print(f"{further:,} further columns (query: DESCRIBE release)", highlight=False)
    for name, words in manifest.about.columns.items():
        console.print(plain(f"{name}: {words}"), highlight=False)
    for column, values in release.values.items():
        said = f"{column} has {counted(values)}: {listed(values, MOST_CELLS)} (query: GROUP BY {plain_name(column)})"
        console.print(plain(said), highlight=False)
    for column, hierarchy in manifest.hierarchies.items():
        for place, level in enumerate(hierarchy.levels[1:], 1):
            known, asked = hierarchy.groups(place), plain_level(column, level)
            said = f"{asked} has {counted(known, 'group')}: {listed(known, MOST_CELLS)} (query: GROUP BY {asked})"
            console.print(plain(said), highlight=False)
    show_text(console, release.promise)
    if len(release.methods) > 1:
        console.print(f"estimators: {', '.join(release.methods)} (query --method)", highlight=False)
    if manifest.proposal:
        show_text(console, manifest.proposal)
    if manifest.is_test:
        console.print("[red]UNFIT TO PUBLISH: drawn with a test key.[/red]")


def show_about(console: Console, about: Description) -> None:
    """What the publisher says in words."""
    if about.title:
        console.print(f"[bold]{plain(about.title)}[/bold]", highlight=False)
    for line in filter(None, (about.description, *about.lines())):
        console.print(plain(line), highlight=False)


def show_practice(console: Console, path: str, rows: int) -> None:
    """What to do with a table to practise on."""
    where = shlex.quote(path)
    console.print(f"{rows:,} invented hospital stays were written to {plain(path)}.", soft_wrap=True, highlight=False)
    console.print(f"then run: sfumato init {plain(where)}", soft_wrap=True, highlight=False)


def show_demonstration(console: Console, shown: Demonstration, kept: bool) -> None:
    """The demonstration as a story."""
    release = shown.publication.release
    console.print(f"An invented hospital table of {release.rows:,} patients was published.")
    console.print("Its column [bold]diagnosis[/bold] is protected:\n")
    show_text(console, release.promise)
    console.print("\nThe release was verified against the original:")
    show_verification(console, shown.verification)
    console.print("\nWhat an analyst gets from the release alone, beside the truth:")
    table = Table("question", "truth", Column("estimate", no_wrap=True), Column("holds the truth", no_wrap=True))
    cells = lined_up([line.estimate.cell() for line in shown.lines])
    for line, parts in zip(shown.lines, cells, strict=True):
        held = "yes" if line.is_covered else "no, as 1 in 20"
        table.add_row(line.question, f"{line.truth:,}", escape(" ".join(parts)), held)
    console.print(table)
    console.print(f"[dim]± standard error, \\[{DEFAULT_LEVEL:.0%} interval][/dim]", highlight=False)
    if kept:
        where = plain(str(shown.table.parent))
        console.print(f"The table and the release are in {where}.", soft_wrap=True, highlight=False)


def demonstration_json(shown: Demonstration) -> dict[str, Any]:
    """The demonstration for machines."""
    lines = []
    for line in shown.lines:
        low, high = line.estimate.interval(DEFAULT_LEVEL)
        found = {"question": line.question, "truth": line.truth, "n": line.estimate.value}
        lines.append({**found, "n_se": line.estimate.standard_error, "n_low": low, "n_high": high})
    release = sfumato.info(shown.publication.release)
    return {"release": release, "verification": verification_json(shown.verification), "answers": lines}
