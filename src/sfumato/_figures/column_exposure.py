"""Draws the exposure by public columns, without and with the release, to show which column should be coarsened."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sfumato._figures.attack_success import AttackLike
from sfumato._figures.figure import WIDTH, Column, Figure, Head, assemble_figure, limit_width
from sfumato._figures.number_format import format_name, format_percent, is_known
from sfumato._figures.row_chart import MOST_ROWS, RowLayout, put_largest_first
from sfumato._figures.scales import make_share_scale
from sfumato._figures.svg import element


@dataclass(frozen=True, slots=True)
class ColumnExposure:
    """The shares of records for which the confidence of an attacker who knows the columns exceeds the bound."""

    column: str
    without_release: float
    with_release: float | None
    is_single: bool = True

    @classmethod
    def of(cls, attack: AttackLike) -> ColumnExposure:
        """Makes the row from an `Attack`. A record counts if the odds exceed the odds of the bound by more than 10%."""
        with_release = None if attack.with_release is None else attack.with_release.share_well_above
        is_single = len(attack.known_columns) == 1
        column = attack.known_columns[0] if is_single else f"all {len(attack.known_columns)} columns"
        return cls(column, attack.without_release.share_well_above, with_release, is_single)

    @property
    def shares_text(self) -> str:
        """Both shares as text."""
        return f"{format_percent(self.without_release)} \u2192 {format_percent(self.with_release)}"


def draw_exposure_by_column(
    exposures: Sequence[ColumnExposure], width: float = WIDTH, *, bound: str = "", accepted_share: float | None = None
) -> Figure:
    """Draws a row for each column, the most disclosing column first, with a line at the accepted share."""
    width = limit_width(width)
    ordered_exposures = sorted(
        exposures, key=lambda exposure: (-exposure.without_release, -(exposure.with_release or 0.0))
    )
    ordered_exposures = put_largest_first(
        ordered_exposures, lambda exposure: max(exposure.without_release, exposure.with_release or 0.0)
    )
    drawn_exposures = ordered_exposures[:MOST_ROWS]
    bound_text = f"the bound {bound}" if bound else "the bound"
    captions = [
        f"records with confidence in the true value above {bound_text}:",
        "from the column alone (grey), with the release (blue)",
    ]
    head = Head.of("Exposure by each public column", captions, width)
    rows = RowLayout.from_head(
        head,
        width,
        [exposure.column for exposure in drawn_exposures],
        [exposure.shares_text for exposure in drawn_exposures],
        total=len(ordered_exposures),
    )
    x = make_share_scale(
        [
            accepted_share,
            *(share for exposure in drawn_exposures for share in (exposure.without_release, exposure.with_release)),
        ],
        rows.area.left,
        rows.area.right,
    )
    parts = [rows.draw_frame(x, format_percent, "records above the bound")]
    for number, (exposure, at) in enumerate(zip(drawn_exposures, rows.middles, strict=True)):
        tooltip = f"{format_name(exposure.column)}: {exposure.shares_text}"
        bars = [(exposure.without_release, -7, "fill grey"), (exposure.with_release, 1, "fill s0")]
        for share, offset, kind in bars:
            if share is not None and is_known(share):
                size = {"width": max(x(share) - x(0), 1.0), "height": 6.0}
                parts.append(element("rect", title=tooltip, x=x(0), y=at + offset, class_=kind, **size))
        parts.append(rows.draw_row_text(number, exposure.shares_text))
    if accepted_share is not None:
        parts.append(rows.area.draw_vertical_line(x(accepted_share), f"accepted: {format_percent(accepted_share)}"))
    columns = (
        Column("known", format_name),
        Column("from the column alone", format_percent),
        Column("with the release", format_percent),
    )
    table = [(exposure.column, exposure.without_release, exposure.with_release) for exposure in ordered_exposures]
    return assemble_figure(
        head,
        parts,
        size=(width, rows.area.figure_height),
        reading=_describe_figure(ordered_exposures),
        columns=columns,
        rows=table,
    )


def _describe_figure(exposures: Sequence[ColumnExposure]) -> str:
    if not exposures:
        return "No public column was measured."
    single_columns = [
        exposure for exposure in exposures if exposure.is_single
    ] or exposures  # a single column can be coarsened
    worst = max(single_columns, key=lambda exposure: (exposure.without_release, exposure.with_release or 0.0))
    sentence = (
        f"Knowing {format_name(worst.column)} alone puts {format_percent(worst.without_release)} of "
        "records above the bound"
    )
    if worst.with_release is None or not is_known(worst.with_release):
        return f"{sentence}; the share with the release is unknown."
    if worst.with_release <= worst.without_release:
        return f"{sentence}; the release adds no records."
    return f"{sentence}; with the release, the share is {format_percent(worst.with_release)}."
