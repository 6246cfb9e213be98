"""The command `audit`, which makes a private report about a release for its data steward."""

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
    Describe,
    Encoding,
    PrintOptions,
    ReleasePath,
)
from sfumato.cli.output import CHECK_FAILED, err, out, print_error, print_json
from sfumato.errors import TargetError

if TYPE_CHECKING:
    from sfumato._evidence import Dossier

KNOWLEDGE_PANEL = "Inputs"


@dataclass(frozen=True)
class AuditOptions(OptionGroup):
    """Information about a release that its files do not contain."""

    PANEL: ClassVar = KNOWLEDGE_PANEL

    original: Annotated[str, typer.Option("--original", metavar="TABLE", help=f"The original table. {TABLES_HELP}.")]
    plan_file: Annotated[
        Path | None,
        typer.Option(
            "--plan-file",
            metavar="FILE",
            help="The plan file with the key, to match records exactly. Needed for buckets.",
        ),
    ] = None
    context: Annotated[
        Path | None,
        typer.Option(
            "--context", metavar="FILE.toml", help="Statements by a person: purpose, setting, decision, name, date."
        ),
    ] = None
    describe: Describe = None
    questions: Annotated[
        Path | None,
        typer.Option("--questions", metavar="FILE", help="Questions of your own: .sql, .csv or .jsonl."),
    ] = None
    population: Annotated[
        str | None,
        typer.Option("--population", metavar="TABLE", help="A register with one row per person, to attack by linkage."),
    ] = None
    second: Annotated[
        Path | None, typer.Option("--second", metavar="RELEASE", help="Another release of the same table.")
    ] = None
    second_plan_file: Annotated[
        Path | None, typer.Option("--second-plan-file", metavar="FILE", help="The plan file of the other release.")
    ] = None
    seed: Annotated[
        int | None, typer.Option("--seed", metavar="N", min=0, help="Random seed, for reproducible attacks.")
    ] = None
    hierarchy: Annotated[
        list[str],
        typer.Option(
            "--hierarchy", metavar="COL=FILE", help="Needed if the release has groups instead of values. Repeatable."
        ),
    ] = field(default_factory=list)
    encoding: Encoding = "utf-8"
    decimal: Decimal = POINT

    def check(self) -> None:
        """Refuses a second plan file without its release."""
        if self.second_plan_file is not None and self.second is None:
            raise TargetError(
                "--second-plan-file belongs to another release; name that release with --second.",
                code="plan-file-without-release",
            )


@dataclass(frozen=True)
class ReportOptions(OptionGroup):
    """The file of the report."""

    PANEL: ClassVar = OUTPUT_PANEL

    target: Annotated[
        Path | None, typer.Option("--out", metavar="FILE.html", help="The report, a new file. Private.")
    ] = None
    force: Annotated[bool, typer.Option("--force", help="Replace an existing report.")] = False

    def check(self, *, as_json: bool) -> None:
        """Refuses an unusable file for the report before the long computation."""
        from sfumato._report import check_place  # noqa: PLC0415 - takes long to load

        if self.target is not None:
            check_place(self.target, force=self.force)
        elif not as_json:
            raise TargetError("name a file for the report (--out report.html) or ask for --json.", code="no-target")


def audit(
    release: ReleasePath, audit_options: AuditOptions, report_options: ReportOptions, print_options: PrintOptions
) -> None:
    """Attack a release, compare its answers with the truth, and write a report. Private."""
    from sfumato._query.batch_queries import read_batch  # noqa: PLC0415 - takes long to load

    audit_options.check()
    report_options.check(as_json=print_options.as_json)
    questions = [] if audit_options.questions is None else read_batch(audit_options.questions)
    with render.open_progress_engine(err, print_options) as engine:
        dossier = sfumato.audit(
            release,
            audit_options.original,
            plan_file=audit_options.plan_file,
            second=None if audit_options.second is None else (audit_options.second, audit_options.second_plan_file),
            population=audit_options.population,
            context=audit_options.context,
            describe=audit_options.describe,
            questions=questions,
            seed=audit_options.seed,
            command=_format_command(release, audit_options, report_options),
            hierarchies={name: Path(file) for name, file in parse_assignments(audit_options.hierarchy, HIERARCHY_FORM)},
            read=ReadOptions(encoding=audit_options.encoding, decimal=audit_options.decimal),
            progress=engine.progress,
        )
    if report_options.target is not None:
        render.save_document(dossier.document(), report_options.target, force=report_options.force)
    if print_options.as_json:
        print_json(({} if report_options.target is None else {"path": str(report_options.target)}) | dossier.to_json())
    elif not print_options.quiet:
        render.show_document(out, dossier.document())
        out.print(
            f"written to {render.escape_for_terminal(str(report_options.target))} (private)",
            soft_wrap=True,
            highlight=False,
        )
    if not dossier.is_met:
        _report_failed_check(dossier)


def _report_failed_check(dossier: Dossier) -> NoReturn:
    """Stops, because the release breaks its guarantee or the audit cannot decide whether the release keeps it."""
    from sfumato._risk.attackers.self_test import SELF_TEST_CHECK  # noqa: PLC0415 - takes long to load

    failed = dossier.failed_checks[0]
    subject = "the audit fails its own" if failed.name == SELF_TEST_CHECK else "the release fails the check"
    print_error(f"{subject} {failed.name!r}: {failed.detail}")
    raise typer.Exit(CHECK_FAILED)


def _format_command(release: Path, audit_options: AuditOptions, report_options: ReportOptions) -> str:
    """The command line that repeats this audit."""
    option_values: list[tuple[str, object]] = [
        ("--original", audit_options.original),
        ("--plan-file", audit_options.plan_file),
        ("--context", audit_options.context),
        ("--describe", audit_options.describe),
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
