"""Notices for the data steward: a sentence for people, and a code, a column and numbers for programs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from sfumato._core.json_types import Json
from sfumato._terminal_safe import escape_unprintable
from sfumato.errors import NoticeError, SpecError

NoticeNumber = int | float | str
"""A number of a notice. A rational number is written as a string."""

NOTICE_CODES = (
    "records-left-out",
    "persons-unchecked",
    "row-number-as-person",
    "rows-chosen",
    "domain-observed",
    "missing-marks",
    "decimal-commas",
    "missing-numbers",
    "outer-spaces",
    "several-spellings",
    "thousands-separators",
    "dates-as-text",
    "free-text",
    "spaces-in-names",
    "rare-values-merged",
    "telling-column",
    "telling-groups",
    "coarser-column",
    "records-sampled",
    "records-alone",
    "mechanism-chosen",
    "capability-missing",
    "frequent-values",
    "shared-bound",
    "weak-bound",
    "would-be-refused",
    "key-not-kept",
    "columns-undecided",
    "looks-sensitive",
    "column-discloses",
    "records-unique",
    "values-uncovered",
    "exposure-above-bound",
    "bound-breached",
    "one-valued-groups",
)
"""The codes of notices about any table and any plan. Each mechanism lists the codes of its own remarks."""


class Grade(StrEnum):
    """The grade of a notice, by what it asks of the data steward."""

    STOP = "stop"
    """Publishing needs a decision first."""
    WARNING = "warning"
    """A risk for the people in the table, or for the analysts."""
    NOTE = "note"
    """Information about how something was done."""


REFUSED_CODE = "would-be-refused"
"""The code of a refusal that no decision of the data steward lifts."""
STOP_CODES = frozenset(
    {
        REFUSED_CODE,
        "columns-undecided",
        "looks-sensitive",
        "column-discloses",
        "records-unique",
        "values-uncovered",
        "exposure-above-bound",
        "bound-breached",
    }
)
NOTE_CODES = frozenset(
    {
        "rows-chosen",
        "records-sampled",
        "mechanism-chosen",
        "capability-missing",
        "shared-bound",
        "shrunk-is-closer",
        "counts-published",
    }
)


@dataclass(frozen=True)
class Notice:
    """Private advice for the data steward, never written into a release. Its string form is its sentence."""

    code: str
    """The kind of notice: a stable identifier, even if the sentence changes."""
    sentence: str
    column: str | None = None
    """The column of the notice, if there is one."""
    numbers: Mapping[str, NoticeNumber] = field(default_factory=dict, hash=False)
    """The numbers in the sentence, by name."""
    columns: tuple[str, ...] = ()
    """The columns of the notice, if it is about several columns."""
    ways_out: tuple[str, ...] = ()
    """For a stop: the ways in which the data steward can resolve it, one sentence each."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "sentence", escape_unprintable(self.sentence))
        object.__setattr__(self, "ways_out", tuple(map(escape_unprintable, self.ways_out)))

    def __str__(self) -> str:
        return self.sentence

    @property
    def grade(self) -> Grade:
        """The grade of the notice. A code without a listed grade is a warning."""
        if self.code in STOP_CODES:
            return Grade.STOP
        return Grade.NOTE if self.code in NOTE_CODES else Grade.WARNING

    def to_json(self) -> Json:
        """Writes the notice for programs."""
        return {
            "code": self.code,
            "grade": self.grade,
            "sentence": self.sentence,
            "column": self.column,
            "numbers": dict(self.numbers),
            **({"columns": list(self.columns)} if self.columns else {}),
            **({"ways_out": list(self.ways_out)} if self.ways_out else {}),
        }


class NoticeWarning(UserWarning):
    """The Python warning for a notice, if the caller of `publish` does not collect notices."""

    def __init__(self, notice: Notice) -> None:
        super().__init__(notice)
        self.notice = notice


def check_codes(codes: Iterable[str], known_codes: Collection[str]) -> None:
    """Refuses an unknown code, because a check for that code could never fail."""
    if unknown := next((code for code in codes if code not in known_codes), None):
        raise SpecError(
            f"there is no notice with the code {unknown!r}; choose from {', '.join(known_codes)}.",
            code="unknown-notice",
            fields={"notice": unknown},
        )


def check_notices(notices: Iterable[Notice], stop_codes: Collection[str]) -> None:
    """Stops the publication if a notice has one of the given codes."""
    if stopping_notices := [notice for notice in notices if notice.code in stop_codes]:
        notice_list = ", ".join(
            f"{notice.code} ({notice.column!r})" if notice.column else notice.code for notice in stopping_notices
        )
        opening = "a notice" if len(stopping_notices) == 1 else "notices"
        raise NoticeError(f"{opening} stopped the publication: {notice_list}. Nothing was written.", stopping_notices)
