"""Libraries that only some tables need."""

from __future__ import annotations

import importlib
from typing import Any

from sfumato.errors import MissingExtraError


def import_optional(module: str, extra: str, what: str) -> Any:
    """A library that is no dependency; where it is missing, how to get it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingExtraError(
            f"{what} needs a further library; install it with: pip install 'sfumato[{extra}]'."
        ) from error
