"""The command line: each command calls one library function and renders its result.

Modules that load slowly are imported on first use, so help appears at once.
"""

from __future__ import annotations

import logging
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer
import typer.main
from typer.core import TyperGroup
from typer.exceptions import TyperException

import sfumato
from sfumato._planning.bound_for_error import DEFAULT_COUNT, DEFAULT_ERROR, ErrorTarget, find_error_target
from sfumato._publish import request_settings
from sfumato._publish.named_inputs import check_names_first
from sfumato._publish.request_settings import HIERARCHY_FORM, parse_assignments
from sfumato._readers.read_options import POINT
from sfumato._readers.reader import AnyTable
from sfumato._request.histogram import Histogram
from sfumato._request.warnings import check_codes, check_notices
from sfumato.cli import key_notice, render
from sfumato.cli.argument_names import begin_command
from sfumato.cli.audit_command import audit
from sfumato.cli.command_settings import Command, RequestCommand, make_epilog
from sfumato.cli.compare_command import compare
from sfumato.cli.engine_options import EngineOptions
from sfumato.cli.export_command import export
from sfumato.cli.journal_command import journal
from sfumato.cli.measure_and_lint import lint, measure
from sfumato.cli.option_group import expand_option_groups, list_option
from sfumato.cli.options import (
    Decimal,
    Encoding,
    GuaranteeOptions,
    NoticeOptions,
    PlanTableOptions,
    PrintOptions,
    ReleaseFormat,
    ReleaseOptions,
    ReleasePath,
    RequestPath,
    StopOptions,
    TableOptions,
    TablePath,
    TargetOptions,
)
from sfumato.cli.output import BAD_INPUT, CHECK_FAILED, StoppedError, err, out, print_error, print_json, report_failure
from sfumato.cli.page_commands import PlanPageOptions, QuestionPageOptions, certificate, page
from sfumato.cli.query_command import QueryOptions, answer_questions
from sfumato.errors import DecisionError, NoticeError, SfumatoError, TargetError, explain_os_error

if TYPE_CHECKING:
    from sfumato._engines.engine import Engine, Progress

NAME = "sfumato"
STOPPED_CODE = 130
DEMO_ROWS = 50_000


def _print_version(is_requested: bool) -> None:
    if is_requested:
        typer.echo(f"{NAME} {version('sfumato')}")
        raise typer.Exit


def _handle_program_options(
    show_version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Options of the program itself."""
    render.show_broken_plugins(err)


def demo(
    keep_in: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="DIR", help="Save the table, its code lists and the release in this new directory."
        ),
    ] = None,
    raw: Annotated[
        Path | None,
        typer.Option("--raw", metavar="FILE.csv", help="Only write a raw table of hospital stays to practise on."),
    ] = None,
    rows: Annotated[
        int, typer.Option("--rows", min=1000, max=100_000_000, help="Number of patients (or stays) to invent.")
    ] = DEMO_ROWS,
    *,
    print_options: PrintOptions,
) -> None:
    """Invent a hospital table, publish it, verify the release, and ask the release three questions."""
    if raw is not None:
        from sfumato._commands.demo import write_stays  # noqa: PLC0415 - takes long to load

        if keep_in is not None:
            raise TargetError(
                "--raw writes one table and --out a directory with a release; give one of the two.", code="two-targets"
            )
        write_stays(raw, rows)
        if print_options.as_json:
            print_json({"path": str(raw), "rows": rows})
        else:
            render.show_practice(out, str(raw), rows)
        return
    directory = tempfile.TemporaryDirectory(prefix="sfumato-demo-") if keep_in is None else _create_directory(keep_in)
    with directory as folder:
        with render.open_progress_engine(err, print_options) as engine:
            demonstration = sfumato.demo(folder, rows, engine)
        if print_options.as_json:
            print_json(render.demonstration_json(demonstration))
        else:
            render.show_demonstration(out, demonstration, is_kept=keep_in is not None)


def init(
    table: TablePath,
    target: Annotated[
        Path, typer.Option("--out", metavar="FILE", help="The request file to write; its name ends in .toml.")
    ] = Path("request.toml"),
    force: Annotated[bool, typer.Option("--force", help="Replace an existing request file.")] = False,
    sensitive: Annotated[
        list[str] | None, list_option("--sensitive", "COL", "The columns to protect, if you know them.")
    ] = None,
    encoding: Encoding = "utf-8",
    *,
    print_options: PrintOptions,
) -> None:
    """Write a request file for you to complete, with a proposed use for each column. It contains no table value."""
    with render.show_looking(err, quiet=print_options.is_silent):
        read = sfumato.ReadOptions(encoding=encoding)
        draft = sfumato.init(table, target, sensitive=sensitive or (), read=read, force=force)
    if print_options.as_json:
        print_json({"path": str(target), **render.guess_json(draft.guess), "open": list(draft.open_decisions)})
    elif not print_options.quiet:
        render.show_draft(out, str(target), draft)


def plan(
    table_options: PlanTableOptions,
    promise: GuaranteeOptions,
    stop_options: StopOptions,
    target_options: TargetOptions,
    engine_options: EngineOptions,
    notice_options: NoticeOptions,
    page_options: PlanPageOptions,
    print_options: PrintOptions,
) -> None:
    """Show what a release would contain and how accurate it would be. Publishes nothing. Private: shows counts."""
    from sfumato._publish.plan_notices import list_notice_codes  # noqa: PLC0415 - takes long to load
    from sfumato._publish.publication_plan import plan_counts  # noqa: PLC0415 - takes long to load

    check_codes(notice_options.codes, list_notice_codes())
    page_options.check()
    table_options.check(has_questions=target_options.questions is not None)
    make_engine = partial(engine_options.make_engine, table_options.table)
    if table_options.counts is not None:
        request, (histogram, column) = None, table_options.group_counts(Histogram.read(table_options.counts))
        spec = promise.spec.share_among_rows(table_options.rows_per_person)
        guarantee, options = promise.guarantee, promise.options
        outlook = plan_counts(histogram, spec, promise.mechanism, column=column, guarantee=guarantee, options=options)
    else:
        request = make_request(table_options.table, table_options, promise, stop_options)
        outlook = _plan_table(request, make_engine, page_options.plan_file, target_options.questions, print_options)
    error_target = _find_target(outlook, promise, target_options)
    is_stopped = any(notice.code in notice_options.codes for notice in outlook.notices)
    comparison_input = None if request is None else (request, make_engine)
    save_page = partial(page_options.save, outlook, error_target, comparison_input, print_options)
    if print_options.as_json and not is_stopped:
        save_page()  # first, so that an error here leaves no second JSON document
    if not is_stopped:  # a failure prints only its reason
        _print_plan(outlook, error_target, print_options)
    if error_target is None and not print_options.quiet:
        _explain_ignored_target(target_options)
    if (print_options.as_json or is_stopped) and not print_options.quiet:  # otherwise, the document has them
        render.show_notices(err, outlook.notices)
    check_notices(outlook.notices, notice_options.codes)
    if not print_options.as_json:
        save_page()


def _explain_ignored_target(target_options: TargetOptions) -> None:
    if target_options.error or target_options.at:
        render.show_notice(err, "`error=` and `at=` are ignored, because they need `prior=` and `posterior=`.")


def _print_plan(
    outlook: sfumato.PublicationPlan, error_target: ErrorTarget | None, print_options: PrintOptions
) -> None:
    from sfumato._publish.plan_document import make_plan_document  # noqa: PLC0415 - takes long to load

    if print_options.as_json:
        print_json(render.plan_json(outlook, error_target))
    else:
        render.show_document(out, make_plan_document(outlook, error_target), quiet=print_options.quiet)


def _plan_table(
    request: sfumato.Request,
    make_engine: Callable[[Progress], Engine],
    plan_file: Path | None,
    questions: Path | None,
    print_options: PrintOptions,
) -> sfumato.PublicationPlan:
    with render.open_progress_engine(err, print_options, make_engine) as engine:
        return sfumato.plan(request, engine, plan_file=plan_file, questions=() if questions is None else questions)


def _find_target(
    outlook: sfumato.PublicationPlan, promise: GuaranteeOptions, target_options: TargetOptions
) -> ErrorTarget | None:
    """Finds the posterior that gives the requested error, for the mechanisms that may be chosen."""
    bound, histogram = None if outlook.spec is None else outlook.spec.bound, outlook.choice.histogram
    if bound is None:
        return None
    choice = {"mechanism": promise.mechanism, "guarantee": promise.guarantee, "options": promise.options}
    return find_error_target(
        histogram,
        bound,
        DEFAULT_ERROR if target_options.error is None else target_options.error,
        target_options.at or DEFAULT_COUNT,
        **choice,
    )


def make_request(
    table: AnyTable, table_options: TableOptions, promise: GuaranteeOptions, stop_options: StopOptions
) -> sfumato.Request:
    """Makes a request from the options of a command."""
    settings = {**vars(table_options), **vars(stop_options), **promise.given, "mechanism": promise.mechanism}
    with check_names_first(table, settings):
        return request_settings.make_request(table, settings, promise.options)


def publish(
    table: RequestPath,
    table_options: TableOptions,
    promise: GuaranteeOptions,
    stop_options: StopOptions,
    engine_options: EngineOptions,
    release_options: ReleaseOptions,
    page_options: QuestionPageOptions,
    notice_options: NoticeOptions,
    print_options: PrintOptions,
) -> None:
    """Publish a table with its sensitive column protected."""
    request = make_request(table, table_options, promise, stop_options)
    page_options.check(target := release_options.find_target(), force=release_options.force)
    with render.open_progress_engine(err, print_options, partial(engine_options.make_engine, table)) as engine:
        publication = sfumato.publish(
            request,
            target,
            force=release_options.force,
            plan_file=release_options.plan_file,
            unsafe_test_key=release_options.unsafe_test_key,
            engine=engine,
            on_notice=key_notice.make_notice_handler(print_options, partial(render.show_notice, err)),
            fail_on=notice_options.codes,
            as_csv=release_options.format is ReleaseFormat.CSV,
            describe=release_options.describe,
            journal=release_options.journal,
        )
    release = publication.release
    if not print_options.is_silent:
        from sfumato._publish.exposure_section import make_exposure_section  # noqa: PLC0415 - takes long to load
        from sfumato._query.answer_document import make_release_document  # noqa: PLC0415 - takes long to load

        exposures = make_exposure_section(publication.exposures, publication.uniqueness)
        render.show_document(out, make_release_document(release, is_brief=True).add_sections([exposures]))
        if (notice := key_notice.find_key_notice(publication)) is not None:
            render.show_text(out, str(notice))
        render.show_written(out, publication)
    page_report = page_options.save(release, print_options, force=release_options.force)
    if print_options.as_json:
        print_json({"path": str(release.path), **page_report, **render.publication_json(publication)})


def info(release: ReleasePath, print_options: PrintOptions) -> None:
    """Show a release: its columns, its values and its guarantee."""
    opened = sfumato.Release.open(release)
    if print_options.as_json:
        print_json(sfumato.info(opened))
    else:
        render.show_document(out, opened.document())


def query(release: ReleasePath, query_options: QueryOptions, print_options: PrintOptions) -> None:
    """Ask a release a question in SQL. Every number has a standard error and a confidence interval."""
    answer_questions(release, query_options, print_options, lambda opened: opened.check_method(query_options.method))


def verify(
    release: ReleasePath,
    original: Annotated[
        str | None,
        typer.Option(
            "--original", metavar="TABLE", help="The original table, to check public columns and posteriors too."
        ),
    ] = None,
    encoding: Encoding = "utf-8",
    decimal: Decimal = POINT,
    plan_file: Annotated[
        Path | None,
        typer.Option("--plan-file", metavar="FILE", help="Needed with --original if rows of a person were dropped."),
    ] = None,
    hierarchy: Annotated[
        list[str] | None,
        typer.Option("--hierarchy", metavar="COL=FILE", help="Needed with --original if groups replace the values."),
    ] = None,
    *,
    print_options: PrintOptions,
) -> None:
    """Check a release: files, columns, domain and the exact guarantee. --original also compares it with the table."""
    files = {name: Path(file) for name, file in parse_assignments(hierarchy or (), HIERARCHY_FORM)}
    with render.show_fetching(err, release, quiet=print_options.is_silent):
        verification = sfumato.verify(
            release,
            original,
            read=sfumato.ReadOptions(encoding=encoding, decimal=decimal),
            plan_file=plan_file,
            hierarchies=files,
        )
    if print_options.as_json:
        print_json(render.verification_json(verification))
    else:
        render.show_document(out, verification.document(), quiet=print_options.quiet)
    if not verification.has_passed:
        failed = next(check for check in verification.checks if not check.has_passed)
        print_error(f"the release fails the check {failed.name!r}: {failed.detail}")
        raise typer.Exit(CHECK_FAILED)


@contextmanager
def _create_directory(path: Path) -> Iterator[str]:
    """Creates a directory. Removes the directory again if the following work fails."""
    try:
        path.mkdir()
    except OSError as error:
        raise TargetError(
            f"cannot create the directory {str(path)!r}: {error.strerror}.",
            code="unwritable-file",
            fields={"file": str(path), "reason": error.strerror},
        ) from error
    try:
        yield str(path)
    except BaseException:
        shutil.rmtree(path, ignore_errors=True)
        raise


def build() -> TyperGroup:
    """Builds the program with the options of all registered mechanisms."""
    app = typer.Typer(
        name=NAME,
        pretty_exceptions_enable=False,
        help="Publish a table about people. Analysts can count accurately, and no one learns much about any person.",
        epilog="Start with: sfumato demo",
    )
    app.callback()(_handle_program_options)
    other_commands = (info, query, verify, certificate, page, export, audit, measure, lint, journal)
    for command in (demo, init, plan, compare, publish, *other_commands):
        kind = RequestCommand if command in (plan, compare, publish) else Command
        app.command(cls=kind, epilog=make_epilog(command.__name__))(expand_option_groups(command))
    return cast(TyperGroup, typer.main.get_command(app))


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command of sfumato."""
    run_program(build, NAME, arguments)


@begin_command()
def run_program(build_program: Callable[[], TyperGroup], name: str, arguments: Sequence[str] | None) -> None:
    """Run a command. A user's mistake gives one sentence and exit code 2, never a traceback."""
    fail = partial(report_failure, "--json" in (sys.argv[1:] if arguments is None else arguments))
    stop_message = "stopped; nothing was written."
    for signal_number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(signal_number) != signal.SIG_IGN:  # nohup ignores SIGHUP; a handler would undo that
            signal.signal(signal_number, signal.default_int_handler)  # so that temporary files are removed on exit
    logging.getLogger("sqlglot").setLevel(logging.ERROR)  # our own message about an SQL mistake is enough
    try:
        code = build_program()(args=arguments, prog_name=name, standalone_mode=False)
    except NoticeError as error:
        fail(error.kind, str(error), code=error.code, notices=[notice.to_json() for notice in error.notices])
        code = CHECK_FAILED
    except DecisionError as error:
        render.show_notices(err, error.stops)
        message = f"{error.summary}; nothing was written."
        fail(error.kind, message, code=error.code, fields=error.fields, stops=[stop.to_json() for stop in error.stops])
        code = BAD_INPUT
    except SfumatoError as error:
        fail(error.kind, str(error), error.sentence_with_values, code=error.code, fields=error.fields)
        code = BAD_INPUT
    except TyperException as error:
        context, message = getattr(error, "ctx", None), error.format_message().strip().rstrip(".")
        program = context.command_path if context else name
        fail("usage", f"{message[:1].lower()}{message[1:]}; see {program} --help.")
        code = BAD_INPUT
    except OSError as error:
        fail("file", f"cannot read or write a file: {explain_os_error(error)}.")
        code = BAD_INPUT
    except MemoryError:
        fail("memory", "memory is full, and nothing was written; end other programs, or use a larger machine.")
        code = BAD_INPUT
    except (typer.Abort, KeyboardInterrupt):
        code = STOPPED_CODE
    except StoppedError as error:
        code, stop_message = STOPPED_CODE, str(error)
    if code == STOPPED_CODE:  # typer returns this code for an interrupt and prints nothing
        fail("stopped", stop_message)
    sys.exit(code if isinstance(code, int) else 0)
