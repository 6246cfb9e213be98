"""What one question may take."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from sfumato.errors import QueryError

DEFAULT_SECONDS = 60.0
DEFAULT_MEMORY = "1GB"


@dataclass(frozen=True, slots=True)
class Limits:
    """How long and how much memory one question may take."""

    seconds: float = DEFAULT_SECONDS
    memory: str = DEFAULT_MEMORY

    @property
    def timeout_error(self) -> QueryError:
        """What is said when time is over, wherever that is found out."""
        return QueryError(
            f"the question takes longer than {self.seconds:g} seconds; allow it more (`timeout=`), or ask for fewer "
            "groups."
        )

    @property
    def memory_error(self) -> QueryError:
        """What is said when memory is full."""
        return QueryError(
            f"the question takes more memory than {self.memory}; group by fewer or coarser columns, and select fewer."
        )


@dataclass(frozen=True, slots=True)
class Clock:
    """The time that one question has; it runs from before the question is read."""

    limits: Limits = field(default_factory=Limits)
    start_time: float = field(default_factory=time.monotonic)

    @property
    def seconds_left(self) -> float:
        """The seconds that are left, below zero when time is over."""
        return self.start_time + self.limits.seconds - time.monotonic()

    def check(self) -> None:
        """Refuse to go on when time is over: what we do ourselves, nobody interrupts."""
        if self.seconds_left <= 0:
            raise self.limits.timeout_error
