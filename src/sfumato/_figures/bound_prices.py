"""Which demand costs most: the price of each value's bound."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from sfumato._figures.figure import WIDTH, Column, Figure, Head, assemble_figure, limit_width
from sfumato._figures.number_format import format_percent, format_quantity, is_known, name
from sfumato._figures.row_chart import MOST_ROWS, Rows
from sfumato._figures.scales import make_linear_scale
from sfumato._figures.svg import mark

PRICED = "what the share of records that keep their value gains, for each unit that the odds factor is raised"


@dataclass(frozen=True, slots=True)
class Cost:
    """What the bound of one value costs."""

    value: str
    demand: str
    """The bound, in words."""
    price: float | None
    loosened: str = ""
    """A weaker bound, in words, if what it saves is known."""
    saves: float | None = None
    """The part of the error that it saves."""


def list_costs(explained: Mapping[str, Any]) -> list[Cost]:
    """From what a plan with a bound for each value tells (`Chosen.to_json`); empty where it tells no prices."""
    bounds = explained.get("amplification")
    demands = bounds if isinstance(bounds, Mapping) else {}

    def demand(value: str) -> str:
        bound = demands.get(value)
        return "no bound" if bound is None else f"odds \u00d7{format_quantity(float(Fraction(bound)))}"

    return [Cost(value, demand(value), price) for value, price in explained.get("shadow_price", {}).items()]


def draw_cost_per_value(costs: Sequence[Cost], width: float = WIDTH, *, priced: str = PRICED) -> Figure:
    """A row for each value, the dearest bound first."""
    width = limit_width(width)
    ordered = sorted(costs, key=lambda cost: -(cost.price if cost.price is not None and is_known(cost.price) else -1.0))
    drawn = ordered[:MOST_ROWS]
    head = Head.of("What each bound costs", [priced], width)
    price_texts = [format_quantity(cost.price) for cost in drawn]
    names = [f"{cost.value} ({cost.demand})" if cost.demand else cost.value for cost in drawn]
    rows = Rows.below(head, width, names, price_texts, total=len(ordered))
    x = make_linear_scale([cost.price for cost in drawn], rows.area.left + 8, rows.area.right - 8)
    parts = [rows.frame(x, format_quantity, "price")]
    for number, (cost, at) in enumerate(zip(drawn, rows.middles, strict=True)):
        parts.append(rows.said(number, format_quantity(cost.price)))
        if cost.price is not None and is_known(cost.price):
            tooltip = f"{name(names[number])}: {format_quantity(cost.price)}{_format_saving(cost)}"
            parts.append(rows.across(number, x(0.0), x(cost.price), "thin s0"))
            parts.append(mark("circle", x(cost.price), at, "dot s0", title=tooltip))
    columns = (
        Column("value", name),
        Column("bound", name),
        Column("price", format_quantity),
        Column("loosened to", name),
        Column("saves of the error", format_percent),
    )
    table = [(cost.value, cost.demand, cost.price, cost.loosened or "-", cost.saves) for cost in ordered]
    return assemble_figure(
        head, parts, size=(width, rows.area.height), reading=_describe_figure(ordered), columns=columns, rows=table
    )


def _format_saving(cost: Cost) -> str:
    if not cost.loosened or not is_known(cost.saves):
        return ""
    return f"; loosening it to {name(cost.loosened)} saves {format_percent(cost.saves)} of the error"


def _describe_figure(ordered: Sequence[Cost]) -> str:
    priced_costs = [cost for cost in ordered if is_known(cost.price)]
    if not priced_costs:
        return "What bounds cost is not known."
    first = priced_costs[0]
    if not first.price or first.price < 0:
        return "No bound costs anything: loosening one alone gains nothing."
    saving = _format_saving(first).replace("; loosening", ": loosening")
    if saving:
        return f"{name(first.value)}'s bound costs most{saving}."
    if len(priced_costs) > 1:
        after = f"; next is {name(priced_costs[1].value)}'s with {format_quantity(priced_costs[1].price)}"
        return f"{name(first.value)}'s bound costs most, at a price of {format_quantity(first.price)}{after}."
    return f"{name(first.value)}'s bound has a price of {format_quantity(first.price)}."
