"""Reads request files, which hold the options of `plan` and `publish` in TOML.

    [table]
    path = "patients.csv"

    [columns]
    sensitive = "diagnosis"

    [ranges]
    age = [0, 20, 40, 60, inf]

    [protection]
    prior = 0.1
    posterior = "1/3"

A key is the name of an option, with `_` for `-`. A key may stand in any section except `ranges`, `domains`,
`hierarchies`, `publish_at` and `accept_disclosing`, which have one line for each column. Numbers are read exactly, so
0.1 is one tenth. Paths are relative to the file.
"""

from __future__ import annotations

import csv
import datetime
import difflib
import glob
import io
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sfumato._core.column_assignments import format_assignment
from sfumato._core.object_store import Address
from sfumato._core.small_text_files import read_toml
from sfumato._publish.named_inputs import check_names_first
from sfumato._publish.request import Request
from sfumato._publish.request_settings import (
    convert_setting,
    list_bound_flags,
    list_mechanism_flags,
    make_request,
)
from sfumato._readers.reader_registry import find_reader_of_address
from sfumato._readers.tables_in_files import split_table_name
from sfumato._request.person_rows import Surplus
from sfumato.errors import SpecError

SECTIONS = ("table", "columns", "protection", "output")
COLUMN_SECTIONS = {
    "ranges": "ranges",
    "domains": "domain",
    "hierarchies": "hierarchy",
    "publish_at": "publish_at",
    "accept_disclosing": "accept_disclosing",
}
"""The options of the sections that have one line for each column."""
ACCEPTED_RISKS = ("accept_unique", "accept_uncovered", "accept_exposure", "accept_marginal_prior")
"""The keys of risks that are accepted with a reason."""
PATH = "path"
"""The key of the table itself, which is not an option."""
ROWS_PER_PERSON, SURPLUS = "rows_per_person", "surplus"
AT_RANDOM = re.compile("([0-9]{1,4}) at random")
"""The value of `rows_per_person` that also drops the further rows of a person."""
TABLE = "table"
"""The parameter for the table."""


@dataclass(frozen=True)
class RequestKey:
    """The form of the value of a key."""

    parameter: str
    kind: type = str
    """The type of the value: int, bool, Path or str."""
    is_list: bool = False
    is_joined: bool = False
    """Whether several values are joined into one string with commas."""


LISTS = (
    *("sensitive", "identifier", "person", "domain", "hierarchy", "publish_at", "ranges", "drop", "keep"),
    *("compound", "text", "missing", "public"),
)
REQUEST_KEYS: Mapping[str, RequestKey] = {
    PATH: RequestKey(TABLE, Path),
    **{name: RequestKey(name, is_list=True) for name in LISTS},
    "rows_per_person": RequestKey("rows_per_person", int),
    **{name: RequestKey(name) for name in ("surplus", "one_row", "nulls", "encoding", "decimal")},
    **{name: RequestKey(name) for name in ("mechanism", "guarantee", "breach_limit", "unique_limit")},
    **{name: RequestKey(name) for name in ACCEPTED_RISKS},
    **{name: RequestKey(name, bool) for name in ("each_row_is_a_person", "records")},
}
"""The keys of the request itself, besides its bound and the options of mechanisms."""
COMMAND_KEYS: Mapping[str, RequestKey] = {
    "counts": RequestKey("counts", Path),
    "error": RequestKey("error"),
    "at": RequestKey("at", int),
    "questions": RequestKey("questions", Path),
    "out": RequestKey("target", Path),
    "force": RequestKey("force", bool),
    "format": RequestKey("format"),
    "describe": RequestKey("describe", Path),
    "plan_file": RequestKey("plan_file", Path),
    "journal": RequestKey("journal", Path),
    "unsafe_test_key": RequestKey("unsafe_test_key"),
    "fail_on": RequestKey("fail_on", is_list=True),
    "engine": RequestKey("engine"),
    "spark_master": RequestKey("spark_master"),
}
"""The keys that only commands use: the place of the release, and the engine."""


def list_keys() -> dict[str, RequestKey]:
    """Lists every key that a request file may have."""
    flags = (*list_bound_flags(), *(flag for _, _, flag in list_mechanism_flags()))
    flag_keys = {
        flag.name: RequestKey(
            flag.name, flag.kind if flag.kind in (bool, int, Path) else str, is_joined="," in (flag.metavar or "")
        )
        for flag in flags
    }
    return {**REQUEST_KEYS, **flag_keys, **COMMAND_KEYS}


def read_request(path: Path) -> Request:
    """Reads the request of a file. Keys that only commands use are ignored."""
    file = RequestFile.read(path)
    if file.table is None:
        raise SpecError(
            f"the request file {str(path)!r} names no table; write path = '...' in its section [table].",
            code="no-table",
            fields={"file": str(path)},
        )
    command_settings = {TABLE, *(key.parameter for key in COMMAND_KEYS.values())}
    settings = {name: value for name, value in file.settings.items() if name not in command_settings}
    for flag in (*list_bound_flags(), *(flag for _, _, flag in list_mechanism_flags())):
        if flag.name in settings:
            settings[flag.name] = convert_setting(flag, settings[flag.name])
    with check_names_first(file.table, settings):
        return make_request(file.table, settings)


@dataclass(frozen=True)
class RequestFile:
    """The content of a request file, as values of command-line parameters."""

    path: Path
    settings: Mapping[str, Any] = field(default_factory=dict)
    """The settings by parameter name."""
    sections: Mapping[str, str] = field(default_factory=dict)
    """The section of each key. Empty for a key before all sections."""

    @classmethod
    def read(cls, path: Path) -> RequestFile:
        """Read a file, and refuse any key or value that no option accepts."""
        sections = read_toml(path, f"the request file {str(path)!r}", parse_float=str)
        reader = _SettingsReader(path, list_keys())
        for name, value in sections.items():
            reader.read_section(name, value)
        return cls(path, reader.settings, reader.sections)

    @property
    def table(self) -> str | None:
        """The named table, which must exist."""
        name: str | None = self.settings.get(TABLE)
        is_here = name is not None and not _is_elsewhere(name)
        if (
            name is not None
            and is_here
            and not Path(path := split_table_name(name)[0]).exists()
            and not glob.glob(path)
        ):
            section = self.sections.get(PATH)
            raise SpecError(
                f"the table {name!r} does not exist; correct {PATH}{f' in [{section}]' if section else ''} of the "
                f"request file {str(self.path)!r}, relative to that file.",
                code="missing-table",
                fields={"file": str(self.path), "table": name, "key": PATH, "section": section},
            )
        return name


def _is_elsewhere(name: str) -> bool:
    """Whether a table is in a store, on a server or in Spark's catalog, and not at a path."""
    return find_reader_of_address(name) is not None or Address.of(name, SpecError) is not None


@dataclass(frozen=True)
class _SettingsReader:
    """Converts the content of a file key by key."""

    path: Path
    keys: Mapping[str, RequestKey]
    settings: dict[str, Any] = field(default_factory=dict)
    sections: dict[str, str] = field(default_factory=dict)

    def read_section(self, name: str, value: Any) -> None:
        """Read a section, or a key before all sections."""
        if not isinstance(value, dict):
            self.read_key(name, value)
        elif name in COLUMN_SECTIONS:
            parameter = COLUMN_SECTIONS[name]
            readers = {
                "ranges": self.format_edges,
                "publish_at": self.check_level,
                "accept_disclosing": self.check_reason,
            }
            read = readers.get(name, self.resolve_path)
            self.settings[parameter] = [
                format_assignment(column, read(column, entry)) for column, entry in value.items()
            ]
        elif name in SECTIONS:
            for key, entry in value.items():
                self.read_key(key, entry, name)
        else:
            raise self.make_unknown_error(f"section [{name}]", name, (*SECTIONS, *COLUMN_SECTIONS))

    def read_key(self, name: str, value: Any, in_section: str = "") -> None:
        """Read one option."""
        section = next((section for section, option in COLUMN_SECTIONS.items() if name in (section, option)), None)
        if section is not None:
            raise self.make_type_error(name, f"a section [{section}] with one line for each column")
        if name not in self.keys:
            raise self.make_unknown_error(f"key {name!r}", name, self.keys)
        key = self.keys[name]
        if name == ROWS_PER_PERSON and (at_random := AT_RANDOM.fullmatch(str(value))):
            self.read_key(SURPLUS, Surplus.DROP.value)
            value = int(at_random[1])
        self.sections.setdefault(name, in_section)
        if key.parameter in self.settings:
            raise SpecError(
                f"{name!r} occurs twice in {str(self.path)!r}; write it once.",
                code="repeated-key",
                fields={"file": str(self.path), "key": name},
            )
        if key.is_list:
            items = value if isinstance(value, list) else [value]
            self.settings[key.parameter] = [self.convert_value(name, item, key) for item in items]
        elif key.is_joined and isinstance(value, list):
            joined = io.StringIO()
            csv.writer(joined, lineterminator="").writerow([self.convert_value(name, item, key) for item in value])
            self.settings[key.parameter] = joined.getvalue()
        else:
            self.settings[key.parameter] = self.convert_value(name, value, key)

    def convert_value(self, name: str, value: Any, key: RequestKey) -> Any:
        """Converts one value to the type of the option."""
        if key.kind is bool or key.kind is int:
            if type(value) is not key.kind:
                raise self.make_type_error(name, "true or false" if key.kind is bool else "a whole number")
            return value
        if key.kind is Path:
            return self.resolve_path(name, value)
        if isinstance(value, str) or type(value) is int:
            return str(value)  # numbers too, because the option parses them exactly
        raise self.make_type_error(name, "a list of strings" if key.is_list else "a string in quotes, or a number")

    def resolve_path(self, name: str, value: Any) -> str:
        """A path relative to the working directory. An address does not change."""
        if not isinstance(value, str):
            raise self.make_type_error(name, "the name of a file, in quotes")
        address = Address.of(value, SpecError)
        if address is None and _is_elsewhere(value):
            return value
        return str(self.path.parent / value if address is None else address)

    def format_edges(self, column: str, value: Any) -> str:
        """The edges of ranges, in the form that the option has."""
        if isinstance(value, str):
            return value
        edges = value if isinstance(value, list) else [None]
        if not all(isinstance(edge, str | int | datetime.date) and not isinstance(edge, bool) for edge in edges):
            raise self.make_type_error(column, "a list of numbers or dates, such as [0, 20, 40]")
        return ",".join(map(str, edges))

    def check_level(self, column: str, value: Any) -> str:
        """The name of a level."""
        if not isinstance(value, str):
            raise self.make_type_error(column, "the name of a level, in quotes")
        return value

    def check_reason(self, column: str, value: Any) -> str:
        """The reason to publish a column."""
        if not isinstance(value, str):
            raise self.make_type_error(column, "the reason in words, in quotes")
        return value

    def make_type_error(self, name: str, expected: str) -> SpecError:
        """The error for a value of the wrong type."""
        return SpecError(
            f"{name!r} in {str(self.path)!r} should be {expected}.",
            code="wrong-type",
            fields={"file": str(self.path), "key": name, "expected": expected},
        )

    def make_unknown_error(self, what: str, name: str, known_names: Iterable[str]) -> SpecError:
        """The error for an unknown key or section."""
        (nearest,) = difflib.get_close_matches(name, list(known_names), 1, 0)
        return SpecError(
            f"the {what} in {str(self.path)!r} is unknown; the nearest known name is {nearest!r}.",
            code="unknown-key",
            fields={"file": str(self.path), "key": name, "nearest": nearest},
        )
