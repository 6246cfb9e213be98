"""Names arguments in messages of the library as the user gave them: as options, or as keys of the request file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

from sfumato._publish.request_file import RequestFile
from sfumato.cli.flags import name_flags

SENTENCE_KEYS = (
    *("sentence", "ways_out", "message", "error", "detail", "reason", "why_not", "would_stop", "not_attacked"),
    *("recommendation", "note", "remarks"),
)
"""The JSON keys whose values are sentences of the library."""
DATA_KEYS = ("rows",)
"""The JSON keys whose values are data, with arbitrary names."""

_request_file: ContextVar[RequestFile | None] = ContextVar("request_file", default=None)
"""The request file of the running command, if it has one."""


@contextmanager
def begin_command() -> Iterator[None]:
    """Runs a command whose arguments are options, until it reads a request file."""
    token = _request_file.set(None)
    try:
        yield
    finally:
        _request_file.reset(token)


def use_file_keys(file: RequestFile) -> None:
    """From here on, the running command names arguments as keys of its request file."""
    _request_file.set(file)


def name_arguments(sentence: str) -> str:
    """Replaces each argument between backquotes by its option, or by its key if the command has a request file."""
    file = _request_file.get()
    if file is None:
        return name_flags(sentence)
    from sfumato.cli.file_keys import name_keys  # noqa: PLC0415 - only a request file needs it

    return name_keys(sentence, file)


def name_arguments_in_json(entries: object, key: str | None = None) -> object:
    """Names arguments in all sentences of a JSON document."""
    if isinstance(entries, str):
        return name_arguments(entries) if key in SENTENCE_KEYS else entries
    if isinstance(entries, Mapping):
        return {
            name: entry if name in DATA_KEYS else name_arguments_in_json(entry, name) for name, entry in entries.items()
        }
    return [name_arguments_in_json(entry, key) for entry in entries] if isinstance(entries, list | tuple) else entries
