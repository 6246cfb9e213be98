"""Decisions that tests take for granted: their tables are small and made up, so much is unique and often repeats."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

REASON = "these people are made up"
ALL_ACCEPTED: dict[str, Any] = {"accept_unique": REASON, "accept_uncovered": REASON}
"""Settings of a request that accept what small tables cannot avoid."""
OPTIONS = ("--public=*", f"--accept-unique={REASON}", f"--accept-uncovered={REASON}")
"""The same for a command, with every other column public."""


def give_reasons(names: Iterable[str]) -> dict[str, str]:
    """The same reason for each accepted column."""
    return dict.fromkeys(names, REASON)
