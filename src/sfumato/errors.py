"""What can go wrong, as a tree.

SfumatoError
├── SpecError            the privacy request makes no sense
├── SchemaError          the columns do not fit the roles, domains or ranges given to them
├── SourceError          the table cannot be read, or changed while it was read
├── InfeasibleError      the request makes sense, and no mechanism can meet it on this table
│   └── DecisionError    the data steward must decide something before the table can be published
├── TargetError          the release cannot be written where it was asked for
├── ReleaseFormatError   a release (or plan file, or journal) is damaged, edited or too new
├── QueryError           the question cannot be parsed, or cannot be estimated
├── NoticeError          a notice came up that was to stop everything
├── EngineError          the workers of an engine cannot do the work
├── MissingExtraError    an optional dependency is not installed
├── MissingCapabilityError  a mechanism cannot do what a command needs
└── InternalError        a promise of our own code does not hold: please report it

Messages are one sentence for the person who asked: what is wrong, and what would work.
They never contain a row of data. Where a sentence is about values of the table, it says how many there are, because
messages end up in logs; the same sentence with the values stands beside it, for a terminal that somebody looks at.

Programs read the code and the fields of an error instead of its sentence, which may change.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from sfumato._terminal_safe import escape_unprintable, hide_passwords

ErrorField = str | int | float | None
"""A fact about an error; a rational is written as a string."""


class SfumatoError(Exception):
    """Every error that sfumato raises on purpose."""

    kind: ClassVar[str] = "error"
    """The kind of error, for programs: one for each class."""

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
        """The exact problem, for programs: a stable identifier, even if the sentence changes."""
        self.fields = {
            name: _make_safe_line(fact) if isinstance(fact, str) else fact for name, fact in (fields or {}).items()
        }
        """The facts in the sentence, by name: a column, a limit, a file. Never a value of the table."""
        self.sentence_with_values = str(self) if sentence_with_values is None else _make_safe_line(sentence_with_values)
        """The sentence with the values of the table that it is about, where it is about some."""


def _make_safe_line(sentence: str) -> str:
    return escape_unprintable(hide_passwords(" ".join(sentence.splitlines())))


class SpecError(SfumatoError, ValueError):
    """The privacy request makes no sense."""

    kind = "spec"


class SchemaError(SfumatoError, ValueError):
    """The columns do not fit the roles, domains or ranges given to them."""

    kind = "schema"


class SourceError(SfumatoError, ValueError):
    """The table cannot be read, or changed while it was read."""

    kind = "source"


class InfeasibleError(SfumatoError):
    """The request makes sense, and no mechanism can meet it on this table."""

    kind = "infeasible"


class DecisionError(InfeasibleError):
    """The data steward must decide something before the table can be published."""

    kind = "decision"

    def __init__(self, stops: Sequence[Any]) -> None:
        self.summary = "publishing needs a decision" if len(stops) == 1 else f"publishing needs {len(stops)} decisions"
        """The number of decisions."""
        self.stops = tuple(stops)
        """The stops, each with its ways out."""
        parts = [" ".join([stop.sentence, *stop.ways_out]) for stop in stops]
        super().__init__(f"{self.summary}: {' '.join(parts)}", fields={"stops": ", ".join(stop.code for stop in stops)})


class TargetError(SfumatoError):
    """The release cannot be written where it was asked for."""

    kind = "target"


class ReleaseFormatError(SfumatoError, ValueError):
    """A release, a plan file or a journal is damaged, edited by hand, or of a newer format."""

    kind = "release-format"


class QueryError(SfumatoError, ValueError):
    """The question cannot be parsed, or cannot be estimated."""

    kind = "query"


class NoticeError(SfumatoError):
    """A notice came up that was to stop everything."""

    kind = "notice"

    def __init__(self, sentence: str, notices: Sequence[Any] = ()) -> None:
        super().__init__(sentence)
        self.notices = tuple(notices)
        """The notices that did."""


class EngineError(SfumatoError):
    """The workers of an engine cannot do the work: they lack something, or do not reach it."""

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
        """The name of the capability that it does not have."""


class InternalError(SfumatoError):
    """A promise of our own code does not hold; please report it."""

    kind = "internal"


def explain_os_error(error: OSError) -> str:
    """What the operating system or a store says, without what libraries say around it."""
    if error.errno:
        return os.strerror(error.errno)
    match = re.search(r"AWS Error ([A-Z_]+)", str(error))
    return match[1].replace("_", " ").lower() if match else type(error).__name__
