"""What can go wrong, as a tree.

SfumatoError
├── SpecError            the privacy request makes no sense
├── SchemaError          the columns do not fit the roles, domains or bins given to them
├── SourceError          the table cannot be read, or changed while it was read
├── InfeasibleError      the request makes sense, and no mechanism can meet it on this table
├── TargetError          the release cannot be written where it was asked for
├── ReleaseFormatError   a release (or plan file) is damaged, edited or too new
├── QueryError           the question cannot be parsed, or cannot be estimated
├── MissingExtraError    an optional dependency is not installed
└── InternalError        a promise of our own code does not hold: please report it

Messages are one sentence for the person who asked: what is wrong, and what would work.
They never contain a row of data.
"""

from __future__ import annotations

import os


class SfumatoError(Exception):
    """Every error that sfumato raises on purpose."""


class SpecError(SfumatoError, ValueError):
    """The privacy request makes no sense."""


class SchemaError(SfumatoError, ValueError):
    """The columns do not fit the roles, domains or bins given to them."""


class SourceError(SfumatoError, ValueError):
    """The table cannot be read, or changed while it was read."""


class InfeasibleError(SfumatoError):
    """The request makes sense, and no mechanism can meet it on this table."""


class TargetError(SfumatoError):
    """The release cannot be written where it was asked for."""


class ReleaseFormatError(SfumatoError, ValueError):
    """A release or a plan file is damaged, edited by hand, or of a newer format."""


class QueryError(SfumatoError, ValueError):
    """The question cannot be parsed, or cannot be estimated."""


class MissingExtraError(SfumatoError, ImportError):
    """An optional dependency is not installed."""


class InternalError(SfumatoError):
    """A promise of our own code does not hold; please report it."""


def reason(error: OSError) -> str:
    """What the operating system says, without what libraries say around it."""
    return os.strerror(error.errno) if error.errno else type(error).__name__
