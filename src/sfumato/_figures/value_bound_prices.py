"""Draws the cost of each value's bound, to find the most expensive bound."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from sfumato._figures.figure import WIDTH, Column, Figure, Head, assemble_figure, limit_width
from sfumato._figures.number_format import format_name, format_percent, format_quantity, is_known
from sfumato._figures.row_chart import MOST_ROWS, RowLayout
from sfumato._figures.scales import make_linear_scale
from sfumato._figures.svg import draw_mark

PRICE_CAPTION = "increase in the share of records that keep their value, if the odds factor rises by 1"


@dataclass(frozen=True, slots=True)
class BoundCost:
    """The cost of the bound of one value."""

    value: str
    bound: str
    """The bound as text."""
    price: float | None
    weaker_bound: str = ""
    """A weaker bound as text, if the resulting reduction of the error is known."""
    saved_error: float | None = None
    """The share of the error that the weaker bound removes."""


def list_costs(plan_json: Mapping[str, Any]) -> list[BoundCost]:
    """Lists costs from a plan in JSON with a bound for each value. Empty if the plan has no prices."""
    bounds = plan_json.get("amplification")
    bounds_by_value = bounds if isinstance(bounds, Mapping) else {}

    def describe_bound(value: str) -> str:
        bound = bounds_by_value.get(value)
        return "no bound" if bound is None else f"odds \u00d7{format_quantity(float(Fraction(bound)))}"

    return [
        BoundCost(value, describe_bound(value), price) for value, price in plan_json.get("shadow_price", {}).items()
    ]


def draw_cost_per_value(costs: Sequence[BoundCost], width: float = WIDTH, *, caption: str = PRICE_CAPTION) -> Figure:
    """Draws a row for each value, the most expensive bound first."""
    width = limit_width(width)
    ordered_costs = sorted(
        costs, key=lambda cost: -(cost.price if cost.price is not None and is_known(cost.price) else -1.0)
    )
    drawn_costs = ordered_costs[:MOST_ROWS]
    head = Head.of("Cost of each bound", [caption], width)
    price_texts = [format_quantity(cost.price) for cost in drawn_costs]
    names = [f"{cost.value} ({cost.bound})" if cost.bound else cost.value for cost in drawn_costs]
    rows = RowLayout.from_head(head, width, names, price_texts, total=len(ordered_costs))
    x = make_linear_scale([cost.price for cost in drawn_costs], rows.area.left + 8, rows.area.right - 8)
    parts = [rows.draw_frame(x, format_quantity, "price")]
    for number, (cost, at) in enumerate(zip(drawn_costs, rows.middles, strict=True)):
        parts.append(rows.draw_row_text(number, format_quantity(cost.price)))
        if cost.price is not None and is_known(cost.price):
            tooltip = f"{format_name(names[number])}: {format_quantity(cost.price)}{_format_saving(cost)}"
            parts.append(rows.draw_row_line(number, x(0.0), x(cost.price), "thin s0"))
            parts.append(draw_mark("circle", x(cost.price), at, "dot s0", title=tooltip))
    columns = (
        Column("value", format_name),
        Column("bound", format_name),
        Column("price", format_quantity),
        Column("loosened to", format_name),
        Column("reduction of the error", format_percent),
    )
    table = [(cost.value, cost.bound, cost.price, cost.weaker_bound or "-", cost.saved_error) for cost in ordered_costs]
    return assemble_figure(
        head,
        parts,
        size=(width, rows.area.figure_height),
        reading=_describe_figure(ordered_costs),
        columns=columns,
        rows=table,
    )


def _format_saving(cost: BoundCost) -> str:
    if not cost.weaker_bound or not is_known(cost.saved_error):
        return ""
    return f"; loosening it to {format_name(cost.weaker_bound)} saves {format_percent(cost.saved_error)} of the error"


def _describe_figure(ordered_costs: Sequence[BoundCost]) -> str:
    priced_costs = [cost for cost in ordered_costs if is_known(cost.price)]
    if not priced_costs:
        return "The costs of bounds are unknown."
    first = priced_costs[0]
    if not first.price or first.price < 0:
        return "No bound has a cost: loosening a single bound reduces no error."
    saving = _format_saving(first).replace("; loosening", ": loosening")
    if saving:
        return f"{format_name(first.value)}'s bound costs most{saving}."
    if len(priced_costs) > 1:
        next_text = f"; next is {format_name(priced_costs[1].value)}'s with {format_quantity(priced_costs[1].price)}"
        return (
            f"{format_name(first.value)}'s bound costs most, at a price of {format_quantity(first.price)}{next_text}."
        )
    return f"{format_name(first.value)}'s bound has a price of {format_quantity(first.price)}."
