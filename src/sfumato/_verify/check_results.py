"""The results of checks."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Check:
    """The result of one check, in words."""

    name: str
    has_passed: bool
    detail: str


@dataclass(frozen=True)
class Verification:
    """All checks of a release."""

    checks: tuple[Check, ...]

    @property
    def has_passed(self) -> bool:
        """Whether every check passed."""
        return all(check.has_passed for check in self.checks)
