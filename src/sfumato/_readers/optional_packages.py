"""Imports libraries that are needed for some tables only."""

from __future__ import annotations

import importlib
from typing import Any

from sfumato.errors import MissingExtraError


def import_optional(module: str, extra: str, what: str) -> Any:
    """Imports an optional library. If it is missing, the error names the command that installs it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingExtraError(
            f"{what} needs an additional library; install it with: pip install 'sfumato[{extra}]'.",
            code="missing-package",
            fields={"extra": extra},
        ) from error
