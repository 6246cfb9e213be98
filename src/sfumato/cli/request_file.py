"""A request file: the options of `plan` and `publish`, kept in TOML beside the table.

    [table]
    path = "patients.csv"

    [columns]
    sensitive = "diagnosis"

    [bins]
    age = [0, 20, 40, 60, inf]

    [promise]
    prior = 0.1
    posterior = "1/3"

A key is the name of an option, with `_` for `-`. Sections are for people: a key may stand in any of them but `bins`,
`domains`, `hierarchies` and `publish_at`, which have a line for each column. Numbers are taken as they are written, so
that 0.1 is one tenth. Paths are relative to the file.
"""

from __future__ import annotations

import csv
import datetime
import difflib
import glob
import io
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import NoneType
from typing import Any, get_args, get_origin

from sfumato._core.object_store import Address
from sfumato._core.small_text_files import read_toml
from sfumato._readers.reader_registry import find_reader_of_address
from sfumato._readers.tables_in_files import split
from sfumato.cli.option_group import OptionGroup
from sfumato.cli.options import (
    NoticeOptions,
    PlanTableOptions,
    PromiseOptions,
    ReleaseOptions,
    StopOptions,
    TargetOptions,
)
from sfumato.cli.where import EngineOptions
from sfumato.errors import SpecError

GROUPS: tuple[type[OptionGroup], ...] = (
    PlanTableOptions,
    PromiseOptions,
    TargetOptions,
    StopOptions,
    ReleaseOptions,
    NoticeOptions,
    EngineOptions,
)
"""The options that a file may have: all but those that say how the outcome is told."""
SECTIONS = ("table", "columns", "promise", "output")
BY_COLUMN = {"bins": "bins", "domains": "domain", "hierarchies": "hierarchy", "publish_at": "publish_at"}
"""Sections with a line for each column, and the options that they are."""
PATH = "path"
"""The key of the table itself, which is no option."""
TABLE = "table"
"""The parameter that it is for."""


@dataclass(frozen=True)
class Key:
    """What a key of a request file takes, by the parameter of its option."""

    parameter: str
    kind: type
    is_list: bool = False
    is_joined: bool = False
    """Whether several are one text with commas."""


def list_keys() -> dict[str, Key]:
    """Every key that a request file may have, from the options of the commands."""
    keys = {PATH: Key(TABLE, Path)}
    for parameter in (item for group in GROUPS for item in group.parameters() if item.name != TABLE):
        declared, shown = get_args(parameter.annotation)
        is_list = get_origin(declared) is list
        kind = next(item for item in get_args(declared) or (declared,) if item is not NoneType)
        # The first name is where a default would be if there were no annotation.
        name = next(item for item in (shown.default, *shown.param_decls) if str(item).startswith("--"))
        is_joined = "," in (shown.metavar or "")
        keys[name.removeprefix("--").replace("-", "_")] = Key(parameter.name, kind, is_list, is_joined)
    return keys


@dataclass(frozen=True)
class RequestFile:
    """What a request file says, as the command line would be given it."""

    path: Path
    given: Mapping[str, Any] = field(default_factory=dict)
    """By the parameters of the options."""

    @classmethod
    def read(cls, path: Path) -> RequestFile:
        """Read a file, and refuse in one sentence what no option takes."""
        written = read_toml(path, f"the request file {str(path)!r}", parse_float=str)
        reader = _Reader(path, list_keys())
        for name, value in written.items():
            reader.take(name, value)
        return cls(path, reader.given)

    @property
    def table(self) -> str | None:
        """The table that is named, which is there."""
        named: str | None = self.given.get(TABLE)
        is_here = named is not None and not _is_elsewhere(named)
        if named is not None and is_here and not Path(path := split(named)[0]).exists() and not glob.glob(path):
            raise SpecError(
                f"the request file {str(self.path)!r} names a table that is not there, {named!r}; a path in it is "
                "relative to the file."
            )
        return named


def _is_elsewhere(name: str) -> bool:
    """Whether a table is in a store, on a server or known to Spark, and not at a path."""
    return find_reader_of_address(name) is not None or Address.of(name, SpecError) is not None


@dataclass(frozen=True)
class _Reader:
    """Takes what a file says key by key."""

    path: Path
    keys: Mapping[str, Key]
    given: dict[str, Any] = field(default_factory=dict)

    def take(self, name: str, value: Any) -> None:
        """A section, or a key that stands before all sections."""
        if not isinstance(value, dict):
            self.take_key(name, value)
        elif name in BY_COLUMN:
            parameter = BY_COLUMN[name]
            read = {"bins": self.edges, "publish_at": self.level}.get(name, self.file)
            self.given[parameter] = [f"{column}={read(column, entry)}" for column, entry in value.items()]
        elif name in SECTIONS:
            for key, entry in value.items():
                self.take_key(key, entry)
        else:
            raise self.unknown(f"section [{name}]", name, (*SECTIONS, *BY_COLUMN))

    def take_key(self, name: str, value: Any) -> None:
        """One option."""
        section = next((section for section, option in BY_COLUMN.items() if name in (section, option)), None)
        if section is not None:
            raise self.wrong(name, f"a section [{section}] with a line for each column")
        if name not in self.keys:
            raise self.unknown(f"key {name!r}", name, self.keys)
        key = self.keys[name]
        if key.parameter in self.given:
            raise SpecError(f"{name!r} stands twice in {str(self.path)!r}; write it once.")
        if key.is_list:
            items = value if isinstance(value, list) else [value]
            self.given[key.parameter] = [self.one(name, item, key) for item in items]
        elif key.is_joined and isinstance(value, list):
            joined = io.StringIO()
            csv.writer(joined, lineterminator="").writerow([self.one(name, item, key) for item in value])
            self.given[key.parameter] = joined.getvalue()
        else:
            self.given[key.parameter] = self.one(name, value, key)

    def one(self, name: str, value: Any, key: Key) -> Any:
        """One value, of the type that the option takes."""
        if key.kind is bool or key.kind is int:
            if type(value) is not key.kind:
                raise self.wrong(name, "true or false" if key.kind is bool else "a whole number")
            return value
        if key.kind is Path:
            return self.file(name, value)
        if isinstance(value, str) or type(value) is int:
            return str(value)  # a number too: what it is exactly is for its option to say
        raise self.wrong(name, "a list of texts" if key.is_list else "a text in quotes, or a number")

    def file(self, name: str, value: Any) -> str:
        """A path, from where the command runs; or an address, which is the same from everywhere."""
        if not isinstance(value, str):
            raise self.wrong(name, "the name of a file, in quotes")
        address = Address.of(value, SpecError)
        if address is None and _is_elsewhere(value):
            return value
        return str(self.path.parent / value if address is None else address)

    def edges(self, column: str, value: Any) -> str:
        """The edges of bins as an option has them."""
        if isinstance(value, str):
            return value
        edges = value if isinstance(value, list) else [None]
        if not all(isinstance(edge, str | int | datetime.date) and not isinstance(edge, bool) for edge in edges):
            raise self.wrong(column, "a list of numbers or dates, such as [0, 20, 40]")
        return ",".join(map(str, edges))

    def level(self, column: str, value: Any) -> str:
        """The name of a level."""
        if not isinstance(value, str):
            raise self.wrong(column, "the name of a level, in quotes")
        return value

    def wrong(self, name: str, wanted: str) -> SpecError:
        """What is said of a value of another type."""
        return SpecError(f"{name!r} in {str(self.path)!r} should be {wanted}.")

    def unknown(self, what: str, name: str, known: Iterable[str]) -> SpecError:
        """What is said of a name that nothing has."""
        (nearest,) = difflib.get_close_matches(name, list(known), 1, 0)
        return SpecError(f"the {what} in {str(self.path)!r} is unknown; the nearest that is known is {nearest!r}.")
