"""The command `audit`: a report about a release, for its holder."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, NoReturn

import typer

import sfumato
from sfumato._publish.request_settings import HIERARCHY_FORM, parse_assignments
from sfumato._readers.read_options import POINT, ReadOptions
from sfumato.cli import render
from sfumato.cli.option_group import OptionGroup
from sfumato.cli.options import (
    OUTPUT_PANEL,
    TABLES_HELP,
    Decimal,
    Encoding,
    PrintOptions,
    ReleasePath,
)
from sfumato.cli.output import CHECK_FAILED, err, out, print_error, print_json
from sfumato.errors import TargetError

if TYPE_CHECKING:
    from sfumato._evidence import Dossier

KNOWLEDGE_PANEL = "What is known"


@dataclass(frozen=True)
class AuditOptions(OptionGroup):
    """What is known of a release besides its files."""

    PANEL: ClassVar = KNOWLEDGE_PANEL

    original: Annotated[
        str, typer.Option("--original", metavar="TABLE", help=f"The table it was made from. {TABLES_HELP}.")
    ]
    plan_file: Annotated[
        Path | None,
        typer.Option(
            "--plan-file", metavar="FILE", help="Its key, which tells whose record is whose. For buckets needed."
        ),
    ] = None
    context: Annotated[
        Path | None,
        typer.Option(
            "--context", metavar="FILE.toml", help="What a person states: purpose, setting, decision, name, date."
        ),
    ] = None
    questions: Annotated[
        Path | None,
        typer.Option("--questions", metavar="FILE", help="Questions of your own: .csv with a column sql, or .jsonl."),
    ] = None
    population: Annotated[
        str | None,
        typer.Option("--population", metavar="TABLE", help="A register that somebody may link with, person by person."),
    ] = None
    second: Annotated[
        Path | None, typer.Option("--second", metavar="RELEASE", help="Another release of the same table.")
    ] = None
    second_plan_file: Annotated[
        Path | None, typer.Option("--second-plan-file", metavar="FILE", help="The key of the other release.")
    ] = None
    seed: Annotated[
        int | None, typer.Option("--seed", metavar="N", min=0, help="Draw by this number, so that it can be repeated.")
    ] = None
    hierarchy: Annotated[
        list[str],
        typer.Option("--hierarchy", metavar="COL=FILE", help="If groups of a level were published. Repeatable."),
    ] = field(default_factory=list)
    encoding: Encoding = "utf-8"
    decimal: Decimal = POINT


@dataclass(frozen=True)
class ReportOptions(OptionGroup):
    """Where the report goes."""

    PANEL: ClassVar = OUTPUT_PANEL

    target: Annotated[
        Path | None, typer.Option("--out", metavar="FILE.html", help="Where the report goes: a new file. Private.")
    ] = None
    force: Annotated[bool, typer.Option("--force", help="Replace an existing page.")] = False


def audit(
    release: ReleasePath, audit_options: AuditOptions, report_options: ReportOptions, print_options: PrintOptions
) -> None:
    """Let attackers at a release, compare answers with the truth, and write a report to file. Private."""
    from sfumato._query.batch_queries import read_batch  # noqa: PLC0415 - takes long to load

    if report_options.target is None and not print_options.as_json:
        raise TargetError("name the file of the report with --out, such as --out report.html, or ask for --json.")
    if audit_options.second_plan_file is not None and audit_options.second is None:
        raise TargetError("--second-plan-file is the key of another release; name that with --second.")
    questions = [] if audit_options.questions is None else read_batch(audit_options.questions)
    with render.open_progress_engine(err, print_options) as engine:
        dossier = sfumato.audit(
            release,
            audit_options.original,
            report_options.target,
            plan_file=audit_options.plan_file,
            second=None if audit_options.second is None else (audit_options.second, audit_options.second_plan_file),
            population=audit_options.population,
            context=audit_options.context,
            questions=questions,
            seed=audit_options.seed,
            command=_format_command(release, audit_options, report_options),
            hierarchies={name: Path(file) for name, file in parse_assignments(audit_options.hierarchy, HIERARCHY_FORM)},
            read=ReadOptions(encoding=audit_options.encoding, decimal=audit_options.decimal),
            progress=engine.progress,
            force=report_options.force,
        )
    if print_options.as_json:
        print_json(({} if report_options.target is None else {"path": str(report_options.target)}) | dossier.to_json())
    elif not print_options.quiet:
        _show_summary(dossier)
        out.print(
            f"written to {render.escape_for_terminal(str(report_options.target))}, for you alone",
            soft_wrap=True,
            highlight=False,
        )
    if not dossier.is_met:
        _report_failed_check(dossier)


def _report_failed_check(dossier: Dossier) -> NoReturn:
    """The release does not keep what it promises."""
    failed = dossier.failed_checks[0]
    print_error(f"the release does not pass the check of {failed.name}: {failed.detail}")
    raise typer.Exit(CHECK_FAILED)


def _show_summary(dossier: Dossier) -> None:
    """The numbers that are read first, and what they do not cover."""
    from sfumato._report.audit_report import list_five_numbers  # noqa: PLC0415 - takes long to load

    for number_text, what, caveat in list_five_numbers(dossier):
        out.print(
            f"[bold]{render.escape_for_terminal(number_text)}[/bold]  {render.escape_for_terminal(what)}",
            highlight=False,
        )
        render.show_text(out, caveat)


def _format_command(release: Path, audit_options: AuditOptions, report_options: ReportOptions) -> str:
    """How to ask for the same once more."""
    option_values: list[tuple[str, object]] = [
        ("--original", audit_options.original),
        ("--plan-file", audit_options.plan_file),
        ("--context", audit_options.context),
        ("--questions", audit_options.questions),
        ("--population", audit_options.population),
        ("--second", audit_options.second),
        ("--second-plan-file", audit_options.second_plan_file),
        ("--seed", audit_options.seed),
        *(("--hierarchy", hierarchy) for hierarchy in audit_options.hierarchy),
        ("--out", report_options.target),
    ]
    arguments = [word for name, value in option_values if value is not None for word in (name, str(value))]
    return shlex.join(["sfumato", "audit", str(release), *arguments])
