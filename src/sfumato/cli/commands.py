"""What a command is: its help in panels, and where its settings come from."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperCommand, TyperOption

from sfumato._core.small_text_files import TOML
from sfumato._terminal_safe import escape_unprintable, hide_passwords
from sfumato.cli.request_file import BY_COLUMN, TABLE, RequestFile
from sfumato.errors import SpecError

LEAVING_OUT = ("identifier", "drop")
"""Columns that a file leaves out stay out, whichever others the command line names."""

PERSON_ROWS = ("rows_per_person", "surplus", "one_row")
ROLES = ("sensitive", "identifier", "person", "drop")
ASKED = "--sensitive diagnosis --person patient --prior 1/10 --posterior 1/3"
EXAMPLES = {
    "demo": "sfumato demo --out tour",
    "init": "sfumato init tour/hospital.parquet",
    "plan": f"sfumato plan tour/hospital.parquet {ASKED}",
    "compare": f"sfumato compare tour/hospital.parquet {ASKED}",
    "publish": f"sfumato publish tour/hospital.parquet {ASKED} --out release",
    "info": "sfumato info tour/release",
    "query": "sfumato query tour/release \"SELECT sex, COUNT(*) FROM release WHERE diagnosis = 'HIV' GROUP BY sex\"",
    "verify": "sfumato verify tour/release --original tour/hospital.parquet",
    "certificate": "sfumato certificate tour/release --out certificate.html",
    "page": "sfumato page tour/release --out ask.html",
    "export": "sfumato export tour/release --values HIV,COPD --to counts.csv",
    "audit": "sfumato audit tour/release --original tour/hospital.parquet --out report.html",
    "measure": "sfumato measure tour/hospital.parquet --public age --public sex --sensitive diagnosis",
    "lint": "sfumato lint tour/release",
}
"""A command that runs as it stands, for each; most need what the demonstration leaves behind."""


def make_epilog(name: str) -> str | None:
    """What stands under the help of a command."""
    if (example := EXAMPLES.get(name)) is None:
        return None
    first = f"{EXAMPLES['demo']}, then " if "tour/" in example else ""
    return f"Example: {first}{example}"


class Command(TyperCommand):
    """A command whose --help stands in the panel of its last option, and that tells on demand how long it took."""

    def invoke(self, ctx: Any) -> Any:
        """Run it."""
        began = time.monotonic()
        result = super().invoke(ctx)
        if ctx.params.get("verbose"):
            typer.echo(f"time: {time.monotonic() - began:.1f} s in all", err=True)
        return result

    def get_help_option(self, ctx: Any) -> TyperOption | None:
        """The option that shows the help."""
        help_option = super().get_help_option(ctx)
        if help_option is not None:
            help_option.rich_help_panel = getattr(self.params[-1], "rich_help_panel", None)
        return help_option


class RequestCommand(Command):
    """A command that takes a request file in the place of a table; options on the command line win over the file's."""

    def parse_args(self, ctx: Any, args: list[str]) -> Any:
        """Take from the file what the command line does not say."""
        named = self.make_parser(ctx).parse_args(args=list(args))[0].get(TABLE)
        if not isinstance(named, str) or not named.lower().endswith(TOML):
            rest = super().parse_args(ctx, args)
            self._tell(ctx, {}, "")
            return rest
        file = RequestFile.read(Path(named))
        ctx.default_map = {name: value for name, value in file.given.items() if name != TABLE}
        rest = super().parse_args(ctx, args)
        ctx.params[TABLE] = table = file.table
        if table is None and ctx.params.get("counts") is None:
            raise SpecError(f"the request file {named!r} names no table; write path = '...' in its section [table].")
        _decide_rows(ctx)
        columns_by_role = {role: list(ctx.params[role]) if is_given(ctx, role) else [] for role in ROLES}
        for name in (*LEAVING_OUT, *BY_COLUMN.values()):
            if is_given(ctx, name) and name in file.given:
                ctx.params[name] = _merge_column_settings(name, file.given[name], ctx.params[name])
        _decide_roles(ctx, columns_by_role)
        self._tell(ctx, file.given, named)
        return rest

    def _tell(self, ctx: Any, filed: Mapping[str, Any], file: str) -> None:
        if ctx.params.get("verbose"):
            for line in list_setting_origins(ctx, filed, file):
                typer.echo(escape_unprintable(hide_passwords(f"setting: {line}")), err=True)


def _decide_rows(ctx: Any) -> None:
    """Which rows of a person are published is one decision: in whichever option the command line makes it, it wins."""
    if any(is_given(ctx, name) for name in PERSON_ROWS):
        for option in (parameter for parameter in ctx.command.params if parameter.name in PERSON_ROWS):
            if not is_given(ctx, option.name):
                ctx.params[option.name] = option.default


def _decide_roles(ctx: Any, columns_by_role: Mapping[str, Sequence[str]]) -> None:
    """A column has one role: one that the command line names is taken out of the other lists of the file."""
    for role in columns_by_role:
        others = {name for other, names in columns_by_role.items() if other != role for name in names}
        ctx.params[role] = [name for name in ctx.params[role] if name not in others]


def is_given(ctx: Any, name: str) -> bool:
    """Whether an option was given on the command line."""
    source = ctx.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def _merge_column_settings(name: str, filed: Sequence[str], from_command_line: Sequence[str]) -> list[str]:
    """What the file and the command line say of columns; of the same column the command line's word counts."""
    if name in LEAVING_OUT:
        return list(dict.fromkeys((*filed, *from_command_line)))
    again = {setting.partition("=")[0] for setting in from_command_line}
    return [*(setting for setting in filed if setting.partition("=")[0] not in again), *from_command_line]


def list_setting_origins(ctx: Any, filed: Mapping[str, Any], file: str) -> Iterator[str]:
    """Each setting that is not a default, and where it comes from."""
    for option in (
        parameter for parameter in ctx.command.params if parameter.name in ctx.params and parameter.name != "verbose"
    ):
        name = option.name
        value = f"{option.opts[0].removeprefix('--').replace('-', '_')} = {_format_value(ctx.params[name])}"
        if name in filed and (name == TABLE or not is_given(ctx, name)):
            yield f"{value}, from {file}"
        elif not is_given(ctx, name):
            continue
        elif name not in filed:
            yield f"{value}, from the command line"
        elif name in (*LEAVING_OUT, *BY_COLUMN.values()):
            yield f"{value}, from {file} and the command line"
        else:
            yield f"{value}, from the command line, instead of {_format_value(filed[name])} from {file}"
    yield "everything else as it is by default"


def _format_value(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
