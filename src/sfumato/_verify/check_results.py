"""The results of checks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sfumato._document.document import CheckLine, Checks, Document, Outcome, make_section


@dataclass(frozen=True)
class Check:
    """The result of one check, as a sentence."""

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

    def document(self) -> Document:
        """Makes the document of the checks."""
        return Document("", "", (make_section("", make_checks("Verification", self.checks)),))


def make_checks(caption: str, checks: Sequence[Check]) -> Checks:
    """Makes the block of checks with their outcomes."""
    return Checks(
        caption,
        tuple(
            CheckLine(Outcome.PASSED if check.has_passed else Outcome.FAILED, check.name, check.detail)
            for check in checks
        ),
    )
