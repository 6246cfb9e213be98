"""The cells of a plan, from what it tells its holder, and the exact posterior of every value in them.

A release does not say how many records of each value a cell has, so what it promises about cells is proved before it is
written, from the plan's own counts and by first principles.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from sfumato.audit.promise import CellLaw, cell_posteriors
from sfumato.errors import InternalError
from sfumato.plan.choose import Chosen
from sfumato.request.spec import BreachBound, PrivacySpec, exact
from sfumato.request.values import Value, to_json


@dataclass(frozen=True)
class Entry:
    """One value in one cell: how many records hold it, and the coin that keeps it."""

    value: Value
    count: int
    retention: Fraction


def check_cells(chosen: Chosen, spec: PrivacySpec) -> None:
    """Make sure that whoever knows the counts of a cell believes no protected value of it beyond the bound."""
    if not isinstance(spec, BreachBound) or "cells" not in chosen.mechanism.explain(chosen.plan):
        return
    total = chosen.histogram.total
    protected = {value for value, count in held_values(chosen) if Fraction(count, total) <= spec.prior}
    for cell in plan_cells(chosen):
        law = CellLaw.of(range(len(cell)), [entry.retention for entry in cell])
        reached = cell_posteriors([entry.count for entry in cell], law)
        if any(each > spec.posterior for entry, each in zip(cell, reached, strict=True) if entry.value in protected):
            raise InternalError("the plan breaks its own bound. Please report this.")


def held_values(chosen: Chosen) -> Iterator[tuple[Value, int]]:
    """Each value of the domain, and how many records hold it."""
    return zip(chosen.histogram.values, chosen.histogram.counts, strict=True)


def plan_cells(chosen: Chosen) -> list[list[Entry]]:
    """The cells of a plan, from what it tells its holder in JSON."""
    explained = chosen.mechanism.explain(chosen.plan)
    if "cells" not in explained:
        retentions = [exact(each) for each in chosen.design.to_json()["retentions"]]
        return [
            [Entry(value, count, each) for (value, count), each in zip(held_values(chosen), retentions, strict=True)]
        ]
    known = {_key(to_json(value)): value for value in chosen.histogram.values}
    return [
        [
            Entry(known[_key(value)], count, exact(cell["retention"]))
            for value, count in zip(cell["values"], cell["counts"], strict=True)
        ]
        for cell in explained["cells"]
    ]


def _key(written: Any) -> Any:
    return tuple(written) if isinstance(written, list) else written
