"""Which demand costs most: the price of each value's bound."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from sfumato._figures.figure import WIDTH, Column, Figure, Head, drawn_width, finished
from sfumato._figures.number_format import is_known, name, percent, quantity
from sfumato._figures.row_chart import MOST_ROWS, Rows
from sfumato._figures.scales import linear
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


def costs_of(explained: Mapping[str, Any]) -> list[Cost]:
    """From what a plan with a bound for each value tells (`Chosen.to_json`); empty where it tells no prices."""
    bounds = explained.get("amplification")
    demands = bounds if isinstance(bounds, Mapping) else {}

    def demand(value: str) -> str:
        bound = demands.get(value)
        return "no bound" if bound is None else f"odds \u00d7{quantity(float(Fraction(bound)))}"

    return [Cost(value, demand(value), price) for value, price in explained.get("shadow_price", {}).items()]


def cost_per_value(costs: Sequence[Cost], width: float = WIDTH, *, priced: str = PRICED) -> Figure:
    """A row for each value, the dearest bound first."""
    width = drawn_width(width)
    ordered = sorted(costs, key=lambda each: -(each.price if each.price is not None and is_known(each.price) else -1.0))
    drawn = ordered[:MOST_ROWS]
    head = Head.of("What each bound costs", [priced], width)
    said = [quantity(each.price) for each in drawn]
    names = [f"{each.value} ({each.demand})" if each.demand else each.value for each in drawn]
    rows = Rows.below(head, width, names, said, total=len(ordered))
    x = linear([each.price for each in drawn], rows.area.left + 8, rows.area.right - 8)
    parts = [rows.frame(x, quantity, "price")]
    for number, (each, at) in enumerate(zip(drawn, rows.middles, strict=True)):
        parts.append(rows.said(number, quantity(each.price)))
        if each.price is not None and is_known(each.price):
            words = f"{name(names[number])}: {quantity(each.price)}{_saving(each)}"
            parts.append(rows.across(number, x(0.0), x(each.price), "thin s0"))
            parts.append(mark("circle", x(each.price), at, "dot s0", title=words))
    columns = (
        Column("value", name),
        Column("bound", name),
        Column("price", quantity),
        Column("loosened to", name),
        Column("saves of the error", percent),
    )
    table = [(each.value, each.demand, each.price, each.loosened or "-", each.saves) for each in ordered]
    return finished(head, parts, size=(width, rows.area.height), reading=_reading(ordered), columns=columns, rows=table)


def _saving(cost: Cost) -> str:
    if not cost.loosened or not is_known(cost.saves):
        return ""
    return f"; loosening it to {name(cost.loosened)} saves {percent(cost.saves)} of the error"


def _reading(ordered: Sequence[Cost]) -> str:
    known = [each for each in ordered if is_known(each.price)]
    if not known:
        return "What bounds cost is not known."
    first = known[0]
    if not first.price or first.price < 0:
        return "No bound costs anything: loosening one alone gains nothing."
    saving = _saving(first).replace("; loosening", ": loosening")
    if saving:
        return f"{name(first.value)}'s bound costs most{saving}."
    if len(known) > 1:
        after = f"; next is {name(known[1].value)}'s with {quantity(known[1].price)}"
        return f"{name(first.value)}'s bound costs most, at a price of {quantity(first.price)}{after}."
    return f"{name(first.value)}'s bound has a price of {quantity(first.price)}."
