"""Commands with their help in panels. Settings come from the command line or from a request file."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperCommand, TyperOption

from sfumato._core.column_assignments import split_assignment
from sfumato._core.option_fields import OptionValues
from sfumato._core.small_text_files import TOML
from sfumato._publish.request_file import COLUMN_SECTIONS, TABLE, RequestFile, list_keys
from sfumato._terminal_safe import escape_unprintable, hide_passwords
from sfumato.cli.argument_names import use_file_keys
from sfumato.cli.option_group import LIST_HELP, LIST_MARK, split_list
from sfumato.errors import SpecError

MERGED_OPTIONS = ("public", "identifier", "drop")
"""Lists of columns. The command line adds columns to these lists of the file, and may give a column another role."""

PERSON_ROWS = ("rows_per_person", "surplus", "one_row")
ROWS_ARE_PERSONS = "each_row_is_a_person"
ROLES = ("sensitive", "public", "identifier", "person", "drop")
EXAMPLE_OPTIONS = "--sensitive diagnosis --person patient --public '*' --prior 1/10 --posterior 1/3"
EXAMPLES = {
    "demo": "sfumato demo --out tour",
    "init": "sfumato init tour/hospital.parquet",
    "plan": f"sfumato plan tour/hospital.parquet {EXAMPLE_OPTIONS}",
    "compare": f"sfumato compare tour/hospital.parquet {EXAMPLE_OPTIONS}",
    "publish": f"sfumato publish tour/hospital.parquet {EXAMPLE_OPTIONS} --out release",
    "info": "sfumato info tour/release",
    "query": "sfumato query tour/release \"SELECT sex, COUNT(*) FROM release WHERE diagnosis = 'HIV' GROUP BY sex\"",
    "verify": "sfumato verify tour/release --original tour/hospital.parquet",
    "certificate": "sfumato certificate tour/release --out certificate.html",
    "page": "sfumato page tour/release --out ask.html",
    "export": "sfumato export tour/release --values HIV,COPD --out counts.csv",
    "audit": "sfumato audit tour/release --original tour/hospital.parquet --out report.html",
    "measure": "sfumato measure tour/hospital.parquet --public age,sex --sensitive diagnosis",
    "lint": "sfumato lint tour/release",
    "journal": "sfumato journal tour/journal.jsonl",
}
"""An example for each command. Most examples use the files that the demonstration writes."""


def make_epilog(name: str) -> str | None:
    """The example under the help of a command."""
    if (example := EXAMPLES.get(name)) is None:
        return None
    first = f"{EXAMPLES['demo']}, then " if "tour/" in example else ""
    return f"Example: {first}{example}"


class Command(TyperCommand):
    """A command whose options take lists. Its help has --help in the last panel. --verbose prints the running time."""

    def __init__(self, *arguments: Any, epilog: str | None = None, **settings: Any) -> None:
        super().__init__(*arguments, epilog=epilog, **settings)
        if any(map(takes_list, self.params)):  # paragraphs, which the terminal shows below each other
            self.epilog = "\n\n".join(filter(None, (LIST_HELP, epilog)))

    def parse_args(self, ctx: Any, args: list[str]) -> Any:
        """Splits the lists of the command line. The lists of a request file are split already."""
        rest = super().parse_args(ctx, args)
        for option in filter(takes_list, self.params):
            if is_given(ctx, option.name):
                ctx.params[option.name] = [item for text in ctx.params[option.name] for item in split_list(text)]
        return rest

    def invoke(self, ctx: Any) -> Any:
        """Runs the command."""
        start_time = time.monotonic()
        result = super().invoke(ctx)
        if ctx.params.get("verbose"):
            typer.echo(f"time: {time.monotonic() - start_time:.1f} s in all", err=True)
        return result

    def get_help_option(self, ctx: Any) -> TyperOption | None:
        """The option that shows the help."""
        help_option = super().get_help_option(ctx)
        if help_option is not None:
            help_option.rich_help_panel = getattr(self.params[-1], "rich_help_panel", None)
        return help_option


class RequestCommand(Command):
    """A command that accepts a request file instead of a table. Options on the command line override the file."""

    def parse_args(self, ctx: Any, args: list[str]) -> Any:
        """Reads the settings that are not on the command line from the file."""
        table_name = self.make_parser(ctx).parse_args(args=list(args))[0].get(TABLE)
        if not isinstance(table_name, str) or not table_name.lower().endswith(TOML):
            rest = super().parse_args(ctx, args)
            self._print_settings(ctx, {}, "")
            return rest
        file = RequestFile.read(Path(table_name))
        use_file_keys(file)
        ctx.default_map = {name: value for name, value in file.settings.items() if name != TABLE}
        try:
            rest = super().parse_args(ctx, args)
        except typer.BadParameter as error:
            raise _find_wrong_key(ctx, error, file) from error
        ctx.params[TABLE] = table = file.table
        if table is None and ctx.params.get("counts") is None:
            raise SpecError(
                f"the request file {table_name!r} names no table; add path = '...' to its section [table].",
                code="no-table",
                fields={"file": table_name},
            )
        _decide_rows(ctx)
        columns_by_role = {role: list(ctx.params[role]) if is_given(ctx, role) else [] for role in ROLES}
        for name in (*MERGED_OPTIONS, *COLUMN_SECTIONS.values()):
            if is_given(ctx, name) and name in file.settings:
                ctx.params[name] = _merge_column_settings(name, file.settings[name], ctx.params[name])
        _decide_roles(ctx, columns_by_role)
        self._print_settings(ctx, file.settings, table_name)
        return rest

    def _print_settings(self, ctx: typer.Context, file_settings: OptionValues, file: str) -> None:
        if ctx.params.get("verbose"):
            for line in list_setting_origins(ctx, file_settings, file):
                typer.echo(escape_unprintable(hide_passwords(f"setting: {line}")), err=True)


def _find_wrong_key(ctx: typer.Context, error: typer.BadParameter, file: RequestFile) -> Exception:
    """The error for a value that no option accepts. If the value is from the file, the error names its key."""
    name = str(getattr(error.param, "name", None))
    if name not in file.settings or is_given(ctx, name):
        return error
    key = next(key for key, form in list_keys().items() if form.parameter == name)
    return SpecError(
        f"{key!r} in {str(file.path)!r} cannot be used: {error.message.removeprefix('Value error, ').rstrip('.')}.",
        code="wrong-value",
        fields={"file": str(file.path), "key": key, "section": file.sections.get(key)},
    )


def _decide_rows(ctx: typer.Context) -> None:
    """Ignores all options about persons in the file if the command line has such an option."""
    if any(is_given(ctx, name) for name in PERSON_ROWS):
        _reset(ctx, PERSON_ROWS)
    if is_given(ctx, ROWS_ARE_PERSONS):
        _reset(ctx, ("person", *PERSON_ROWS))
    elif is_given(ctx, "person"):
        _reset(ctx, (ROWS_ARE_PERSONS,))


def _reset(ctx: typer.Context, names: Sequence[str]) -> None:
    """Gives options that are not on the command line their defaults, and ignores the file."""
    for option in (parameter for parameter in ctx.command.params if parameter.name in names):
        if not is_given(ctx, option.name):
            ctx.params[option.name] = [] if option.multiple else option.default


def _decide_roles(ctx: typer.Context, columns_by_role: Mapping[str, Sequence[str]]) -> None:
    """Removes a column from the file's lists if the command line gives the column another role.

    Two roles on the command line, or two roles in the file alone, are still an error.
    """
    for role, own in columns_by_role.items():
        others = {name for other, names in columns_by_role.items() if other != role for name in names}
        ctx.params[role] = [name for name in ctx.params[role] if name in own or name not in others]


def takes_list(parameter: Any) -> bool:
    """Whether an option takes several names or texts, repeated or in a list with commas."""
    return (parameter.metavar or "").endswith(LIST_MARK)


def is_given(ctx: typer.Context, name: str) -> bool:
    """Whether an option was given on the command line."""
    source = ctx.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def _merge_column_settings(name: str, from_file: Sequence[str], from_command_line: Sequence[str]) -> list[str]:
    """Merges the column settings of file and command line. For the same column, the command line takes precedence."""
    if name in MERGED_OPTIONS:
        return list(dict.fromkeys((*from_file, *from_command_line)))
    repeated_columns = {split_assignment(setting)[0] for setting in from_command_line}
    return [
        *(setting for setting in from_file if split_assignment(setting)[0] not in repeated_columns),
        *from_command_line,
    ]


def list_setting_origins(ctx: typer.Context, file_settings: OptionValues, file: str) -> Iterator[str]:
    """Lists each setting that is not a default, with its source."""
    for option in (
        parameter for parameter in ctx.command.params if parameter.name in ctx.params and parameter.name != "verbose"
    ):
        name = option.name
        value = f"{option.opts[0].removeprefix('--').replace('-', '_')} = {_format_value(ctx.params[name])}"
        if name in file_settings and (name == TABLE or not is_given(ctx, name)):
            yield f"{value}, from {file}"
        elif not is_given(ctx, name):
            continue
        elif name not in file_settings:
            yield f"{value}, from the command line"
        elif name in (*MERGED_OPTIONS, *COLUMN_SECTIONS.values()):
            yield f"{value}, from {file} and the command line"
        else:
            yield f"{value}, from the command line, instead of {_format_value(file_settings[name])} from {file}"
    yield "all other settings have their defaults"


def _format_value(value: object) -> str:
    return " ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
