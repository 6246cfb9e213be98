"""The version of the installed package."""

from __future__ import annotations

from functools import cache
from importlib.metadata import version


@cache
def read_software_version() -> str:
    """Reads the version once, because importlib parses all metadata of the package each time."""
    return version("sfumato")
