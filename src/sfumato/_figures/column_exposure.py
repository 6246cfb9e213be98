"""Which public column to coarsen: the records that it tells by itself, and those that the release adds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sfumato._figures.attack_success import AttackFound
from sfumato._figures.figure import WIDTH, Column, Figure, Head, assemble_figure, limit_width
from sfumato._figures.number_format import format_percent, is_known, name
from sfumato._figures.row_chart import MOST_ROWS, Rows, put_largest_first
from sfumato._figures.scales import make_share_scale
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
        return f"{format_percent(self.alone)} \u2192 {format_percent(self.with_release)}"


def draw_exposure_by_column(
    exposures: Sequence[ColumnExposure], width: float = WIDTH, *, bound: str = "", accepted: float | None = None
) -> Figure:
    """A row for each column, those that tell most by themselves first; a line at the share that is accepted."""
    width = limit_width(width)
    ordered = sorted(exposures, key=lambda exposure: (-exposure.alone, -(exposure.with_release or 0.0)))
    ordered = put_largest_first(ordered, lambda exposure: max(exposure.alone, exposure.with_release or 0.0))
    drawn = ordered[:MOST_ROWS]
    beyond = f"the bound {bound}" if bound else "the bound"
    measured = [
        f"records whose true value is believed beyond {beyond}:",
        "by the column alone (grey), with the release (blue)",
    ]
    head = Head.of("What each public column tells", measured, width)
    rows = Rows.below(
        head, width, [exposure.column for exposure in drawn], [exposure.words for exposure in drawn], total=len(ordered)
    )
    x = make_share_scale(
        [accepted, *(share for exposure in drawn for share in (exposure.alone, exposure.with_release))],
        rows.area.left,
        rows.area.right,
    )
    parts = [rows.frame(x, format_percent, "records beyond the bound")]
    for number, (exposure, at) in enumerate(zip(drawn, rows.middles, strict=True)):
        tooltip = f"{name(exposure.column)}: {exposure.words}"
        bars = [(exposure.alone, -7, "fill grey"), (exposure.with_release, 1, "fill s0")]
        for share, up, kind in bars:
            if share is not None and is_known(share):
                size = {"width": max(x(share) - x(0), 1.0), "height": 6.0}
                parts.append(element("rect", title=tooltip, x=x(0), y=at + up, class_=kind, **size))
        parts.append(rows.said(number, exposure.words))
    if accepted is not None:
        parts.append(rows.area.upright(x(accepted), f"accepted: {format_percent(accepted)}"))
    columns = (
        Column("known", name),
        Column("by the column alone", format_percent),
        Column("with the release", format_percent),
    )
    table = [(exposure.column, exposure.alone, exposure.with_release) for exposure in ordered]
    return assemble_figure(
        head, parts, size=(width, rows.area.height), reading=_describe_figure(ordered), columns=columns, rows=table
    )


def _describe_figure(ordered: Sequence[ColumnExposure]) -> str:
    if not ordered:
        return "No public column was looked at."
    single = [
        exposure for exposure in ordered if exposure.is_single
    ] or ordered  # one column can be coarsened, all cannot
    worst = max(single, key=lambda exposure: (exposure.alone, exposure.with_release or 0.0))
    sentence = f"Knowing {name(worst.column)} alone puts {format_percent(worst.alone)} of the records beyond the bound"
    if worst.with_release is None or not is_known(worst.with_release):
        return f"{sentence}; with the release is not told."
    if worst.with_release <= worst.alone:
        return f"{sentence}; the release adds none."
    return f"{sentence}, and with the release {format_percent(worst.with_release)}."
