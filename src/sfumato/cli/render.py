"""Terminal output of the commands' results; `--json` bypasses all of it."""

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
from sfumato._core.cell_values import format_relative_error, format_value_count, format_values, make_labels
from sfumato._core.json_types import Json
from sfumato._core.object_store import Address
from sfumato._figures.estimate_format import align_cells
from sfumato._planning.predicted_error import CURVE_COUNTS
from sfumato._query.intervals import DEFAULT_LEVEL
from sfumato._records.sql_quoting import format_level, quote_if_needed
from sfumato._terminal_safe import escape_lines, escape_unprintable
from sfumato.cli.flags import name_flags
from sfumato.errors import ReleaseFormatError
from sfumato.mechanisms import list_broken_plugins

if TYPE_CHECKING:  # only annotations need these
    from pathlib import Path

    from sfumato import Attack, ChosenMechanism, Notice, Publication, PublicationPlan, Release, Verification
    from sfumato._commands.demo import Demonstration
    from sfumato._engines.engine import Engine, Progress
    from sfumato._planning.bound_for_error import ErrorTarget
    from sfumato._planning.grouping_gains import GroupingGain
    from sfumato._profile.equivalence_classes import Uniqueness
    from sfumato._profile.role_guessing import TableGuess
    from sfumato._release.description import Description
    from sfumato.cli.options import PrintOptions

MOST_CELLS = 12
LEAST_SHOWN = 0.0005
"""Smaller shares would be written as 0.0%."""
MOST_COLUMNS = 40
COMPARING = "comparing"
UNITS = {COMPARING: "mechanisms"}
"""The unit of a stage's progress, where it is not rows."""


class GuardedConsole(Console):
    """A console that escapes control characters in every text."""

    def render_str(self, text: str, **styles: Any) -> Text:
        """Escapes every text, in a table or alone."""
        return super().render_str(escape_lines(text), **styles)


def escape_for_terminal(text: str) -> str:
    """Escapes a text from a table or release: no control characters, line breaks or markup."""
    return escape(escape_unprintable(text))


@contextmanager
def open_progress_engine(
    console: Console, print_options: PrintOptions, make_engine: Callable[[Progress], Engine] | None = None
) -> Iterator[Engine]:
    """An engine with progress bars in an interactive terminal; under --verbose, it also prints stage times."""
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
    """Prints a notice for the data steward on one line."""
    console.print(
        f"[yellow]notice:[/yellow] {escape_for_terminal(name_flags(str(notice)))}",
        soft_wrap=not console.is_terminal,
        highlight=False,
    )


def show_notices(console: Console, notices: Sequence[Notice]) -> None:
    """Prints notices, one a line."""
    for notice in notices:
        show_notice(console, notice)


def show_broken_plugins(console: Console) -> None:
    """Reports plug-ins that failed to load; all other mechanisms work."""
    for plugin in list_broken_plugins():
        show_notice(console, plugin.sentence)


def show_plan(
    console: Console, chosen: ChosenMechanism, target: ErrorTarget | None = None, at: int | None = None
) -> None:
    """Shows the plan: mechanism, predicted errors (also for counts of a requested size) and values."""
    histogram, plan = chosen.histogram, chosen.to_json()
    console.print(f"mechanism [bold]{plan['mechanism']}[/bold], guarantee {plan['guarantee']}")
    explanation = chosen.mechanism.explanation
    if explanation is not None:
        console.print(explanation.summarize(chosen.plan), highlight=False)
    _show_questions(console, [chosen, *chosen.alternatives], sorted({*CURVE_COUNTS, *([] if at is None else [at])}))
    if target is not None:
        show_text(console, target.sentence)
    extra_columns = (
        [value_column for value_column in explanation.value_columns if value_column.entry in plan]
        if explanation
        else []
    )
    table = Table("value", Column("count", justify="right"), Column("share", justify="right"))
    for value_column in extra_columns:
        table.add_column(value_column.heading)
    order = sorted(range(histogram.domain_size), key=lambda place: -histogram.counts[place])
    names = make_labels(histogram.values)
    for place in order[:MOST_CELLS]:
        name, count = names[place], histogram.counts[place]
        numbers = [(value_column, plan[value_column.entry].get(name)) for value_column in extra_columns]
        row = [
            value_column.placeholder if number is None else value_column.format_number(number)
            for value_column, number in numbers
        ]
        table.add_row(escape_for_terminal(name), f"{count:,}", f"{count / histogram.total:.2%}", *row)
    if len(order) > MOST_CELLS:
        table.add_row(f"... {len(order) - MOST_CELLS} more", *[""] * (2 + len(extra_columns)))
    console.print(table)
    for extra_table in explanation.list_tables(chosen.plan) if explanation else ():
        console.print(escape_for_terminal(extra_table.title), highlight=False)
        small_table = Table(*(escape_for_terminal(heading) for heading in extra_table.headings))
        for line in extra_table.rows:
            small_table.add_row(*map(escape_for_terminal, line))
        console.print(small_table)
    show_text(console, plan["scope"])


def plan_json(outlook: PublicationPlan, target: ErrorTarget | None) -> Json:
    """The plan with its errors and notices, as JSON."""
    levels = {"publish_at": [item.to_json() for item in outlook.gains]} if outlook.gains else {}
    return {
        **outlook.choice.to_json(),
        **levels,
        "target": target and target.to_json(),
        "notices": [item.to_json() for item in outlook.notices],
        "exposures": [item.to_json() for item in outlook.exposures],
        "uniqueness": outlook.uniqueness and outlook.uniqueness.to_json(),
    }


def show_gains(console: Console, column: str, gains: Sequence[GroupingGain]) -> None:
    """Shows the gain of publishing at each level of a hierarchy."""
    if gains:
        console.print("if you published groups instead of values:", highlight=False)
    for gain in gains:
        show_text(console, gain.describe(column))


def _show_questions(console: Console, plans: Sequence[ChosenMechanism], sizes: Sequence[float]) -> None:
    """Shows predicted errors of all plans that meet the requirement, the chosen one first, with reasons for gaps."""
    console.print("Typical error of an answer (standard error, in % of the true number):")
    table = Table("number of people with")
    for plan in plans:
        table.add_column(f"{plan.mechanism.name}\n{plan.mechanism.guarantee}", justify="right")
    reasons: dict[str, None] = {}
    for predictions in zip(*(plan.question_predictions for plan in plans), strict=True):
        reasons |= {prediction.reason: None for prediction in predictions if prediction.reason}
        errors = [prediction.relative_error for prediction in predictions]
        if any(error is not None for error in errors):
            table.add_row(escape_for_terminal(predictions[0].counted_text), *map(format_relative_error, errors))
    table.add_section()
    for curve_points in zip(*(plan.predict_error_curve(sizes) for plan in plans), strict=True):
        if any(prediction.evenly is not None for prediction in curve_points):
            table.add_row(
                f"any value ({curve_points[0].count:,})",
                *(format_relative_error(prediction.evenly) for prediction in curve_points),
            )
    if table.row_count:
        console.print(table)
    curve_predictions = [
        prediction for prediction in plans[0].predict_error_curve(sizes) if prediction.by_records is not None
    ]
    if curve_predictions:
        errors_by_size = ", ".join(
            f"{format_relative_error(prediction.by_records)} at {prediction.count:,}"
            for prediction in curve_predictions
        )
        show_text(
            console,
            f"any value ({curve_predictions[0].count:,}): a condition that finds {curve_predictions[0].count:,} "
            "people with the value, averaged over all values that at least as many people have. Weighted by people "
            f"instead: {errors_by_size}.",
        )
    for reason in reasons:
        console.print(f"no prediction: {escape_for_terminal(name_flags(reason))}.", highlight=False)


def show_exposures(console: Console, exposures: Sequence[Attack], uniqueness: Uniqueness | None) -> None:
    """Shows attack success by known public columns, without and with the release, and the share of unique records."""
    if uniqueness is None or not exposures:
        return
    console.print("\n[bold]What an attacker infers from public columns[/bold] (private, not published)")
    show_text(console, uniqueness.sentence)
    for about in dict.fromkeys(attack.protected_column for attack in exposures):
        column_attacks = [attack for attack in exposures if attack.protected_column == about]
        best_attacks = _select_best_attackers(column_attacks)
        console.print(_build_exposure_table(best_attacks))
        if len(column_attacks) > len(best_attacks):
            console.print(
                f"{len(column_attacks) - len(best_attacks):,} further columns disclose no more (--json lists all)"
            )
    from sfumato._risk.attackers.attack_result import EXPOSURE_EXPLANATION  # noqa: PLC0415 - takes long to load

    show_text(console, EXPOSURE_EXPLANATION.format(max(attack.records for attack in exposures)))


def _select_best_attackers(exposures: Sequence[Attack]) -> list[Attack]:
    """Selects the single columns that disclose most, in table order, and the attacker who knows all columns."""
    single_column = [attack for attack in exposures if len(attack.known_columns) == 1]
    best = sorted(
        single_column, key=lambda attack: (attack.with_release or attack.without_release).success, reverse=True
    )[:MOST_CELLS]
    return [attack for attack in exposures if attack in best or len(attack.known_columns) > 1]


def _build_exposure_table(exposures: Sequence[Attack]) -> Table:
    about = escape_for_terminal(exposures[0].protected_column)
    table = Table(
        "knows",
        f"correct guesses of {about}",
        "mean confidence in the truth",
        "highest",
        "clearly above the bound",
        highlight=False,
    )
    for attack in exposures:
        knowledge = (
            escape_for_terminal(attack.known_columns[0])
            if len(attack.known_columns) == 1
            else f"all {len(attack.known_columns)} columns"
        )
        beliefs = [attack.without_release, *([] if attack.with_release is None else [attack.with_release])]
        numbers = zip(
            *((belief.success, belief.mean_belief, belief.worst_belief, belief.share_well_above) for belief in beliefs),
            strict=True,
        )
        table.add_row(knowledge, *(f"{' -> '.join(map(_format_percentage, pair))}%" for pair in numbers))
    return table


def _format_percentage(share: float) -> str:
    """A share in percent with one digit; a positive share is never shown as zero."""
    return "<0.1" if 0 < share < LEAST_SHOWN else f"{100 * share:.1f}"


def show_text(console: Console, text: str) -> None:
    """Prints an indented paragraph; arguments appear as command-line options."""
    console.print(Padding(escape_for_terminal(name_flags(text)), (0, 2)), highlight=False)


def show_verification(console: Console, verification: Verification, *, quiet: bool = False) -> None:
    """Prints one line for each check, or for each failed check only."""
    for check in verification.checks:
        if quiet and check.has_passed:
            continue
        mark = "[green]ok  [/green]" if check.has_passed else "[red]FAIL[/red]"
        console.print(
            f"{mark} {check.name}: {escape_for_terminal(name_flags(check.detail))}",
            soft_wrap=not console.is_terminal,
            highlight=False,
        )


def verification_json(verification: Verification) -> Json:
    """The checks as JSON."""
    checks = [{"name": check.name, "passed": check.has_passed, "detail": check.detail} for check in verification.checks]
    return {"passed": verification.has_passed, "checks": checks}


def show_draft(console: Console, path: str, decisions: Sequence[str]) -> None:
    """Lists the decisions left in a new request file."""
    console.print(
        f"written to {escape_for_terminal(path)}; open it in an editor, check it, and decide:",
        soft_wrap=True,
        highlight=False,
    )
    for number, decision in enumerate(decisions, 1):
        console.print(f"  {number}. {decision}", highlight=False)
    console.print(f"then run: sfumato plan {escape_for_terminal(path)}", soft_wrap=True, highlight=False)


def guess_json(guess: TableGuess) -> Json:
    """The proposed uses of columns, as JSON."""
    columns = [
        {"name": column.name, "role": column.role.value, "remarks": list(column.remarks), "bins": list(column.edges)}
        for column in guess.columns
    ]
    return {"columns": columns, "missing": list(guess.missing_markers), "doubtful": list(guess.doubtful_markers)}


def publication_json(publication: Publication) -> Json:
    """A publication as JSON, with private parts for the data steward."""
    notices = [item.to_json() for item in publication.notices]
    exposures = [item.to_json() for item in publication.exposures]
    risks = {"exposures": exposures, "uniqueness": publication.uniqueness.to_json()}
    return {**sfumato.info(publication.release), "notices": notices, **risks}


def show_info(console: Console, release: Release) -> None:
    """Shows a release: its columns, values and guarantee."""
    manifest = release.manifest
    show_about(console, manifest.description)
    console.print(f"{release.rows:,} records, mechanism [bold]{manifest.mechanism_name}[/bold]")
    table = Table("column", "type", "role")
    for column_row in release.columns[:MOST_COLUMNS]:
        table.add_row(*map(escape_for_terminal, column_row))
    console.print(table)
    if (further := len(release.columns) - MOST_COLUMNS) > 0:
        console.print(f"{further:,} further columns (query: DESCRIBE release)", highlight=False)
    for name, description in manifest.description.columns.items():
        console.print(escape_for_terminal(f"{name}: {description}"), highlight=False)
    for column, values in release.values.items():
        sentence = (
            f"{column} has {format_value_count(values)}: {format_values(values, MOST_CELLS)} (query: GROUP BY "
            f"{quote_if_needed(column)})"
        )
        console.print(escape_for_terminal(sentence), highlight=False)
    for column, hierarchy in manifest.hierarchies.items():
        for place, level in enumerate(hierarchy.levels[1:], 1):
            groups, level_text = hierarchy.list_groups(place), format_level(column, level)
            sentence = (
                f"{level_text} has {format_value_count(groups, 'group')}: {format_values(groups, MOST_CELLS)} (query: "
                f"GROUP BY {level_text})"
            )
            console.print(escape_for_terminal(sentence), highlight=False)
    show_text(console, release.promise)
    if len(release.methods) > 1:
        console.print(f"estimators: {', '.join(release.methods)} (query --method)", highlight=False)
    if manifest.proposal:
        show_text(console, manifest.proposal)
    if manifest.is_test:
        console.print("[red]UNFIT TO PUBLISH: drawn with a test key.[/red]")


def show_about(console: Console, about: Description) -> None:
    """Prints the publisher's description."""
    if about.title:
        console.print(f"[bold]{escape_for_terminal(about.title)}[/bold]", highlight=False)
    for line in filter(None, (about.description, *about.list_lines())):
        console.print(escape_for_terminal(line), highlight=False)


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
    show_text(console, release.promise)
    console.print("\nThe release was verified against the original:")
    show_verification(console, demonstration.verification)
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
