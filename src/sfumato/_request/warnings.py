"""What the holder of a table should know: a sentence for people, and a code, a column and numbers for machines."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from sfumato._core.json_types import Json
from sfumato._terminal_safe import escape_unprintable
from sfumato.errors import NoticeError, SpecError

NoticeNumber = int | float | str
"""A number of a notice; a rational is a text."""

NOTICE_CODES = (
    "records-left-out",
    "persons-unchecked",
    "rows-chosen",
    "domain-observed",
    "missing-marks",
    "decimal-commas",
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
    "would-be-refused",
    "key-not-kept",
)
"""The codes of notices about any table and any plan; a mechanism lists those of its own remarks."""


@dataclass(frozen=True)
class Notice:
    """Something the holder should know: private advice, never written into a release. Its text is its sentence."""

    code: str
    """What kind of notice it is: a word that stays, whatever becomes of the sentence."""
    sentence: str
    column: str | None = None
    """The column it is about, if it is about one."""
    numbers: Mapping[str, NoticeNumber] = field(default_factory=dict, hash=False)
    """The numbers of the sentence by their names."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "sentence", escape_unprintable(self.sentence))

    def __str__(self) -> str:
        return self.sentence

    def to_json(self) -> Json:
        """For machines."""
        return {"code": self.code, "sentence": self.sentence, "column": self.column, "numbers": dict(self.numbers)}


class NoticeWarning(UserWarning):
    """A notice that nobody took while a table was published."""

    def __init__(self, notice: Notice) -> None:
        super().__init__(notice)
        self.notice = notice


def check_codes(codes: Iterable[str], known_codes: Collection[str]) -> None:
    """Refuse a code that no notice has: a check that can never fail would be taken for one that passed."""
    if unknown := next((code for code in codes if code not in known_codes), None):
        raise SpecError(f"no notice has the code {unknown!r}; there are {', '.join(known_codes)}.")


def check_notices(notices: Iterable[Notice], stop_codes: Collection[str]) -> None:
    """Stop where notices came up that must not."""
    if stopping_notices := [notice for notice in notices if notice.code in stop_codes]:
        notice_list = ", ".join(
            f"{notice.code} ({notice.column!r})" if notice.column else notice.code for notice in stopping_notices
        )
        opening = (
            "this notice came up, which was" if len(stopping_notices) == 1 else "these notices came up, which were"
        )
        raise NoticeError(f"{opening} to stop everything: {notice_list}; nothing was written.", stopping_notices)
