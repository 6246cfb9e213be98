"""The errors that sfumato raises, as a tree of classes.

SfumatoError ├── SpecError            the privacy request is invalid or contradicts itself ├── SchemaError          the
columns do not fit the roles, domains or ranges given to them ├── SourceError          the table cannot be read, or it
changed during the reading ├── InfeasibleError      the request is valid, but no mechanism can meet it on this table │
└── DecisionError    the data steward must decide something before the table can be published ├── TargetError
the release cannot be written to the requested place ├── ReleaseFormatError   a release (or plan file, or journal) is
damaged, edited or too new ├── QueryError           the question cannot be parsed, or cannot be estimated ├──
NoticeError          a message occurred that the caller wanted to treat as an error ├── EngineError          the workers
of an engine lack something, or do not respond ├── MissingExtraError    an optional dependency is not installed ├──
MissingCapabilityError  a mechanism cannot do what a command needs └── InternalError        sfumato has a fault: please
report it

Messages are one sentence for the person who asked: what is wrong, and what would work. Messages never contain a row of
data. A message about values of the table gives only their number, because messages end up in logs. Another field of the
error has the same sentence with the values, to be shown on a terminal.

Programs read the code and the fields of an error instead of its sentence, which may change.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from sfumato._terminal_safe import escape_unprintable, hide_passwords

ErrorField = str | int | float | None
"""A fact about an error. A rational number is written as a string."""


class SfumatoError(Exception):
    """The base class of all errors that sfumato raises on purpose."""

    kind: ClassVar[str] = "error"
    """The kind of error, for programs. Each class has its own kind."""

    def __init__(
        self,
        sentence: str,
        *,
        code: str | None = None,
        fields: Mapping[str, ErrorField] | None = None,
        sentence_with_values: str | None = None,
    ) -> None:
        super().__init__(_make_safe_line(sentence))
        self.code = code or self.kind
        """The exact problem, for programs: an identifier that stays the same when the sentence changes."""
        self.fields = {
            name: _make_safe_line(fact) if isinstance(fact, str) else fact for name, fact in (fields or {}).items()
        }
        """The facts in the sentence by their names, such as a column, a limit or a file.

        No fact is a value of the table.
        """
        self.sentence_with_values = str(self) if sentence_with_values is None else _make_safe_line(sentence_with_values)
        """The same sentence with the values of the table, if the sentence is about values."""


def _make_safe_line(sentence: str) -> str:
    return escape_unprintable(hide_passwords(" ".join(sentence.splitlines())))


class SpecError(SfumatoError, ValueError):
    """The privacy request is invalid or contradicts itself."""

    kind = "spec"


class SchemaError(SfumatoError, ValueError):
    """The columns do not fit the roles, domains or ranges given to them."""

    kind = "schema"


class SourceError(SfumatoError, ValueError):
    """The table cannot be read, or it changed during the reading."""

    kind = "source"


class InfeasibleError(SfumatoError):
    """The request is valid, but no mechanism can meet it on this table."""

    kind = "infeasible"


class DecisionError(InfeasibleError):
    """The data steward must decide something before the table can be published."""

    kind = "decision"

    def __init__(self, stops: Sequence[Any]) -> None:
        self.summary = "publishing needs a decision" if len(stops) == 1 else f"publishing needs {len(stops)} decisions"
        """The number of decisions."""
        self.stops = tuple(stops)
        """The stops, each with the actions that would resolve it."""
        parts = [" ".join([stop.sentence, *stop.ways_out]) for stop in stops]
        super().__init__(f"{self.summary}: {' '.join(parts)}", fields={"stops": ", ".join(stop.code for stop in stops)})


class TargetError(SfumatoError):
    """The release cannot be written to the requested place."""

    kind = "target"


class ReleaseFormatError(SfumatoError, ValueError):
    """A release, a plan file or a journal is damaged, edited by hand, or of a newer format."""

    kind = "release-format"


class QueryError(SfumatoError, ValueError):
    """The question cannot be parsed, or cannot be estimated."""

    kind = "query"


class NoticeError(SfumatoError):
    """A message occurred that the caller wanted to treat as an error."""

    kind = "notice"

    def __init__(self, sentence: str, notices: Sequence[Any] = ()) -> None:
        super().__init__(sentence)
        self.notices = tuple(notices)
        """The messages that caused this error."""


class EngineError(SfumatoError):
    """The workers of an engine cannot do the work: they lack a package or a file, or cannot reach it."""

    kind = "engine"


class MissingExtraError(SfumatoError, ImportError):
    """An optional dependency is not installed."""

    kind = "missing-extra"


class MissingCapabilityError(SfumatoError):
    """A mechanism cannot do what a command needs."""

    kind = "missing-capability"

    def __init__(self, sentence: str, mechanism: str = "", capability: str = "") -> None:
        super().__init__(sentence, fields={"mechanism": mechanism, "capability": capability})
        self.mechanism = mechanism
        """The name of the mechanism."""
        self.capability = capability
        """The name of the missing capability."""


class InternalError(SfumatoError):
    """sfumato has a fault; please report it."""

    kind = "internal"


def explain_os_error(error: OSError) -> str:
    """Returns the message of the operating system or store, without the words that libraries add."""
    if error.errno:
        return os.strerror(error.errno)
    match = re.search(r"AWS Error ([A-Z_]+)", str(error))
    return match[1].replace("_", " ").lower() if match else type(error).__name__
