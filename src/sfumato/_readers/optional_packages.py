"""Imports libraries that only some tables need."""

from __future__ import annotations

import importlib
from typing import Any

from sfumato.errors import MissingExtraError


def import_optional(module: str, extra: str, what: str) -> Any:
    """An optional library; if it is missing, the error names the command that installs it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingExtraError(
            f"{what} needs another library; install it with: pip install 'sfumato[{extra}]'.",
            code="missing-package",
            fields={"extra": extra},
        ) from error
