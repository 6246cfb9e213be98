"""What one question may take."""

from __future__ import annotations

from dataclasses import dataclass

DEFAULT_SECONDS = 60.0
DEFAULT_MEMORY = "1GB"


@dataclass(frozen=True, slots=True)
class Limits:
    """How long and how much memory one question may take."""

    seconds: float = DEFAULT_SECONDS
    memory: str = DEFAULT_MEMORY
