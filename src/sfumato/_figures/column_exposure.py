"""Which public column to coarsen: the records that it tells by itself, and those that the release adds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sfumato._figures.attack_success import AttackFound
from sfumato._figures.figure import WIDTH, Column, Figure, Head, drawn_width, finished
from sfumato._figures.number_format import is_known, name, percent
from sfumato._figures.row_chart import MOST_ROWS, Rows, most_telling
from sfumato._figures.scales import shares
from sfumato._figures.svg import element


@dataclass(frozen=True, slots=True)
class ColumnExposure:
    """For which shares of the records the true value is believed beyond the bound by who knows a column, or several."""

    column: str
    alone: float
    with_release: float | None
    is_single: bool = True

    @classmethod
    def of(cls, attack: AttackFound) -> ColumnExposure:
        """From an `Attack`: what is beyond the bound clearly, by more than a tenth of the odds."""
        with_release = None if attack.with_release is None else attack.with_release.well_above
        is_single = len(attack.told) == 1
        column = attack.told[0] if is_single else f"all {len(attack.told)} columns"
        return cls(column, attack.without.well_above, with_release, is_single)

    @property
    def words(self) -> str:
        """Both shares."""
        return f"{percent(self.alone)} \u2192 {percent(self.with_release)}"


def exposure_by_column(
    exposures: Sequence[ColumnExposure], width: float = WIDTH, *, bound: str = "", accepted: float | None = None
) -> Figure:
    """A row for each column, those that tell most by themselves first; a line at the share that is accepted."""
    width = drawn_width(width)
    ordered = sorted(exposures, key=lambda each: (-each.alone, -(each.with_release or 0.0)))
    ordered = most_telling(ordered, lambda each: max(each.alone, each.with_release or 0.0))
    drawn = ordered[:MOST_ROWS]
    beyond = f"the bound {bound}" if bound else "the bound"
    measured = [
        f"records whose true value is believed beyond {beyond}:",
        "by the column alone (grey), with the release (blue)",
    ]
    head = Head.of("What each public column tells", measured, width)
    rows = Rows.below(head, width, [each.column for each in drawn], [each.words for each in drawn], total=len(ordered))
    x = shares(
        [accepted, *(share for each in drawn for share in (each.alone, each.with_release))],
        rows.area.left,
        rows.area.right,
    )
    parts = [rows.frame(x, percent, "records beyond the bound")]
    for number, (each, at) in enumerate(zip(drawn, rows.middles, strict=True)):
        words = f"{name(each.column)}: {each.words}"
        bars = [(each.alone, -7, "fill grey"), (each.with_release, 1, "fill s0")]
        for share, up, kind in bars:
            if share is not None and is_known(share):
                size = {"width": max(x(share) - x(0), 1.0), "height": 6.0}
                parts.append(element("rect", title=words, x=x(0), y=at + up, class_=kind, **size))
        parts.append(rows.said(number, each.words))
    if accepted is not None:
        parts.append(rows.area.upright(x(accepted), f"accepted: {percent(accepted)}"))
    columns = (Column("known", name), Column("by the column alone", percent), Column("with the release", percent))
    table = [(each.column, each.alone, each.with_release) for each in ordered]
    return finished(head, parts, size=(width, rows.area.height), reading=_reading(ordered), columns=columns, rows=table)


def _reading(ordered: Sequence[ColumnExposure]) -> str:
    if not ordered:
        return "No public column was looked at."
    single = [each for each in ordered if each.is_single] or ordered  # one column can be coarsened, all cannot
    worst = max(single, key=lambda each: (each.alone, each.with_release or 0.0))
    said = f"Knowing {name(worst.column)} alone puts {percent(worst.alone)} of the records beyond the bound"
    if worst.with_release is None or not is_known(worst.with_release):
        return f"{said}; with the release is not told."
    if worst.with_release <= worst.alone:
        return f"{said}; the release adds none."
    return f"{said}, and with the release {percent(worst.with_release)}."
