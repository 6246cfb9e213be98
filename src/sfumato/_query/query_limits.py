"""Limits on the time and memory of one question."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from sfumato.errors import QueryError

DEFAULT_SECONDS = 60.0
DEFAULT_MEMORY = "1GB"


@dataclass(frozen=True, slots=True)
class Limits:
    """The time and the memory that one question may use."""

    seconds: float = DEFAULT_SECONDS
    memory: str = DEFAULT_MEMORY

    @property
    def timeout_error(self) -> QueryError:
        """Makes the error for a question that exceeds its time."""
        return QueryError(
            f"the question takes longer than {self.seconds:g} seconds; allow more time (`timeout=`), or ask for "
            "fewer groups.",
            code="timeout",
            fields={"seconds": self.seconds},
        )

    @property
    def memory_error(self) -> QueryError:
        """Makes the error for a question that exceeds its memory."""
        return QueryError(
            f"the question takes more memory than {self.memory}; group by fewer or coarser columns, and select fewer "
            "columns.",
            code="out-of-memory",
            fields={"memory": self.memory},
        )


@dataclass(frozen=True, slots=True)
class Clock:
    """The time limit of one question. The time begins before the question is parsed."""

    limits: Limits = field(default_factory=Limits)
    start_time: float = field(default_factory=time.monotonic)

    @property
    def seconds_left(self) -> float:
        """The remaining seconds. Negative if the time is over."""
        return self.start_time + self.limits.seconds - time.monotonic()

    def check(self) -> None:
        """Raises an error if the time is over.

        Python code needs this check, because DuckDB's interrupt does not stop Python code.
        """
        if self.seconds_left <= 0:
            raise self.limits.timeout_error
