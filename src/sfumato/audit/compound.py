"""The parts of a compound value under a mechanism that protects single values only: exact posteriors of each column."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction
from typing import Any

from sfumato.audit.planned import Entry, held_values, plan_cells
from sfumato.errors import InfeasibleError
from sfumato.plan.choose import Chosen
from sfumato.request.spec import BreachBound, BreachBoundPerValue, DecoyGroups, PrivacySpec, Tolerance
from sfumato.request.values import Scalar, display, parts


def check_parts(chosen: Chosen, spec: PrivacySpec, names: Sequence[str]) -> None:
    """Refuse a plan under which a value of a single column comes to be believed more than the request allows.

    The request speaks of combinations; a column on its own is a statement about several of them.
    """
    limit = _limit(spec)
    histogram = chosen.histogram
    for number, name in enumerate(names):
        held = _added((parts(value)[number], count) for value, count in held_values(chosen))
        worst = _worst(chosen, number)
        for part, count in held.items():
            allowed = limit(Fraction(count, histogram.total))
            if allowed is not None and worst[part] > allowed:
                raise InfeasibleError(
                    f"{display(part)!r} of column {name!r} alone could come to be believed with {worst[part]} (about "
                    f"{float(worst[part]):.3f}), above {allowed}: this mechanism protects combinations, not the "
                    "columns they are made of; choose --mechanism uniform or subset, which cover every statement."
                )


def _limit(spec: PrivacySpec) -> Callable[[Fraction], Fraction | None]:
    """From the share of a value to how far it may come to be believed; None where nothing is asked."""
    if isinstance(spec, BreachBound):
        return lambda share: spec.posterior if share <= spec.prior else None
    if isinstance(spec, Tolerance):
        # Bounds that grow with the share hold for sums of values too; this is the proof for the table at hand.
        return lambda share: spec.factor * share if spec.factor * share < 1 else None
    if isinstance(spec, DecoyGroups):
        raise InfeasibleError(
            "decoys of combinations say nothing about the columns they are made of; name each of the columns with "
            "--sensitive instead, and each is protected for itself."
        )
    if not isinstance(spec, BreachBoundPerValue):
        raise InfeasibleError(
            "caps and diversity of combinations say nothing about the columns they are made of; make buckets for one "
            "column, or choose --mechanism uniform or subset, which cover every statement."
        )
    raise InfeasibleError(
        "bounds for combinations say nothing about the columns they are made of; ask for a --tolerance, or for one "
        "bound with --mechanism uniform or subset, which cover every statement."
    )


def _worst(chosen: Chosen, number: int) -> dict[Scalar, Fraction]:
    """The largest posterior of each value of one column, over all cells and published values; exact."""
    worst = dict.fromkeys((parts(value)[number] for value in chosen.histogram.values), Fraction(0))
    for cell in plan_cells(chosen):
        for part, reached in part_posteriors(cell, number):
            worst[part] = max(worst[part], reached)
    return worst


def part_posteriors(cell: Sequence[Entry], number: int) -> Iterator[tuple[Scalar, Fraction]]:
    """The largest posterior of each value of one column within a cell, by Bayes' rule with the cell's counts.

    A record of x is redrawn into each published value with weight n(x)(1-p)/m, and kept with weight n(x)p.
    """
    drawn = [entry.count * (1 - entry.retention) / len(cell) for entry in cell]
    kept = [entry.count * entry.retention for entry in cell]
    keys = [parts(entry.value)[number] for entry in cell]
    by_part = _added(zip(keys, drawn, strict=True))
    total = sum(drawn, Fraction(0))
    for part, weight in by_part.items():
        inside = max(each for each, key in zip(kept, keys, strict=True) if key == part)
        outside = min((each for each, key in zip(kept, keys, strict=True) if key != part), default=None)
        reached = (weight + inside) / (total + inside) if total + inside else Fraction(0)
        if outside is not None and total + outside:
            reached = max(reached, weight / (total + outside))
        yield part, reached


def _added(pairs: Iterable[tuple[Any, Any]]) -> dict[Any, Any]:
    """Add up the numbers of each key."""
    added: dict[Any, Any] = {}
    for key, number in pairs:
        added[key] = added.get(key, 0) + number
    return added
