"""A document has sections of blocks, and no layout.

A result builds its document once. The renderers decide how it looks: `html_document`, `terminal_document`,
`json_document` and `notebook_document`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from enum import Enum, StrEnum
from typing import Any

from sfumato._document.estimate_table import EstimateTable
from sfumato._figures.figure import Figure
from sfumato._request.guarantee import GuaranteeStatement
from sfumato._request.warnings import Grade, Notice

MOST_ROWS = 50
"""The most rows of a table on a page."""
MOST_SCREEN_ROWS = 20
"""The most rows of a table in a terminal."""
FIGURE_WIDTH = 520
"""The usual width of a figure on a page."""
DEFAULT_DECIDER = "the data steward"
BLANKS = ("decision", "name and role", "date", "review by")


class Tone(StrEnum):
    """The purpose of a text, which determines its look."""

    PLAIN = "plain"
    STRONG = "strong"
    ANSWER = "answer"
    """The answer to the question of a heading."""
    QUIET = "quiet"
    """An explanation that a reader may skip."""
    GUARANTEE = "guarantee"
    """The words of a guarantee, set in a box."""
    CODE = "code"
    """Text for the reader to type."""


class Outcome(StrEnum):
    """The result of a check."""

    PASSED = "passed"
    FAILED = "failed"


@dataclass(frozen=True)
class Text:
    """A paragraph."""

    text: str
    tone: Tone = Tone.PLAIN


@dataclass(frozen=True)
class Heading:
    """A heading within a section."""

    text: str


@dataclass(frozen=True)
class Items:
    """A list of sentences."""

    items: tuple[str, ...]


@dataclass(frozen=True)
class Facts:
    """Names and their values."""

    caption: str
    pairs: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class DataTable:
    """A table. The first column names the row."""

    caption: str
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    number_columns: tuple[int, ...] = ()
    """The columns that are aligned to the right."""
    max_rows: int = MOST_ROWS
    max_screen_rows: int = MOST_SCREEN_ROWS
    """The most rows in a terminal."""
    total: int | None = None
    """The number of all rows, if `rows` has only the first ones."""

    @property
    def row_count(self) -> int:
        """The number of all rows."""
        return len(self.rows) if self.total is None else self.total


@dataclass(frozen=True)
class Tile:
    """A key number with its meaning and its caveat."""

    number: str
    meaning: str
    caveat: str


@dataclass(frozen=True)
class Tiles:
    """The key numbers, side by side."""

    tiles: tuple[Tile, ...]


@dataclass(frozen=True)
class Picture:
    """A figure, which a function draws at a given width."""

    draw: Callable[[float], Figure]
    widest: float = FIGURE_WIDTH
    summary: str = ""
    """The label under which the figure is folded away. Empty if it is shown at once."""


@dataclass(frozen=True)
class Alert:
    """Advice for the data steward, with its grade and the possible decisions."""

    grade: Grade
    sentence: str
    ways_out: tuple[str, ...] = ()

    @classmethod
    def of(cls, notice: Notice) -> Alert:
        """Makes an alert from a notice."""
        return cls(notice.grade, notice.sentence[:1].upper() + notice.sentence[1:], notice.ways_out)


@dataclass(frozen=True)
class Alerts:
    """The advice, stops first."""

    alerts: tuple[Alert, ...]

    @classmethod
    def of(cls, notices: Sequence[Notice]) -> Alerts:
        """Makes alerts from notices: stops, then warnings, then notes."""
        alerts = [Alert.of(notice) for notice in notices]
        return cls(tuple(alert for grade in Grade for alert in alerts if alert.grade is grade))


@dataclass(frozen=True)
class CheckLine:
    """A check and its outcome."""

    outcome: Outcome
    name: str
    detail: str


@dataclass(frozen=True)
class Checks:
    """Checks with their outcomes."""

    caption: str
    lines: tuple[CheckLine, ...]


@dataclass(frozen=True)
class Decision:
    """The box in which a person decides. It gives no verdict."""

    is_met: bool
    decider: str
    reasons: tuple[str, ...] = ()
    statements: tuple[tuple[str, str], ...] = tuple((label, "") for label in BLANKS)

    @property
    def sentence(self) -> str:
        """States the outcome, and who decides."""
        outcome = "The request is met." if self.is_met else "The request is not met."
        return f"{outcome} Whether this is enough is up to {self.decider}."


@dataclass(frozen=True)
class EstimateBlock:
    """The rows of an answer, with the values of groups and the estimates with their intervals."""

    table: EstimateTable
    total: int
    """The number of all rows."""


Block = Text | Heading | Items | Facts | DataTable | Tiles | Picture | Alerts | Checks | Decision | EstimateBlock


@dataclass(frozen=True)
class Section:
    """A part of a document, with its own heading."""

    heading: str
    blocks: tuple[Block, ...]
    has_page_break: bool = False
    """Whether the section starts a new printed page."""
    is_sheet: bool = False
    """Whether it fits on one printed sheet."""
    is_page_only: bool = False
    """Whether the section is left out in a terminal."""


@dataclass(frozen=True)
class SideBySide:
    """Two columns of sections."""

    left: tuple[Section, ...]
    right: tuple[Section, ...]


@dataclass(frozen=True)
class Document:
    """Title, sections and ending."""

    title: str
    subtitle: str
    sections: tuple[Section | SideBySide, ...]
    ending: str = ""
    is_private: bool = False
    is_one_page: bool = False
    """Whether it fits on one printed sheet."""

    @property
    def flat_sections(self) -> tuple[Section, ...]:
        """The sections in reading order."""
        return tuple(section for part in self.sections for section in _flatten(part))

    @property
    def blocks(self) -> tuple[Block, ...]:
        """All blocks in reading order."""
        return tuple(block for section in self.flat_sections for block in section.blocks)

    def add_sections(self, sections: Sequence[Section | SideBySide]) -> Document:
        """The document with further sections at its end."""
        return replace(self, sections=(*self.sections, *sections))

    def map_text(self, change: Callable[[str], str]) -> Document:
        """The document with every text changed, for example with options in place of arguments."""
        changed: Document = _map_text(self, change)
        return changed

    def to_html(self) -> str:
        """Renders the document as one HTML file."""
        from sfumato._document.html_document import render_html  # noqa: PLC0415 - it imports this module

        return render_html(self)

    def to_json(self) -> dict[str, Any]:
        """Renders the document as JSON."""
        from sfumato._document.json_document import render_json  # noqa: PLC0415 - it imports this module

        return render_json(self)


def list_guarantee_blocks(statement: GuaranteeStatement) -> tuple[Block, ...]:
    """Lists the blocks of a guarantee: a summary, the exact statement in a box, and details."""
    exact = Text(f"Exactly. {statement.exact}", Tone.GUARANTEE)
    return Text(statement.short, Tone.STRONG), exact, Items(statement.details)


def make_section(heading: str, *blocks: Block | None, **layout: bool) -> Section:
    """Makes a section. Empty texts, lists and tables are left out."""
    return Section(heading, tuple(block for block in blocks if block is not None and not is_empty(block)), **layout)


def is_empty(block: Block) -> bool:
    """Whether a block has nothing to show."""
    match block:
        case Text(text) | Heading(text):
            return not text
        case Items(parts) | Tiles(parts) | Alerts(parts) | Checks(_, parts) | Facts(_, parts):
            return not parts
        case DataTable():
            return not block.rows
    return False


def _flatten(part: Section | SideBySide) -> Iterator[Section]:
    if isinstance(part, SideBySide):
        yield from (*part.left, *part.right)
    else:
        yield part


def _map_text(value: Any, change: Callable[[str], str]) -> Any:
    """Changes each text in a value made of dataclasses and tuples. Enumerations and functions stay unchanged."""
    if isinstance(value, str) and not isinstance(value, Enum):
        return change(value)
    if isinstance(value, tuple):
        return tuple(_map_text(part, change) for part in value)
    if is_dataclass(value) and not isinstance(value, type):
        parts = {field.name: _map_text(getattr(value, field.name), change) for field in fields(value)}
        return replace(value, **parts)
    return value
