"""The exact posterior of every value, for whoever knows the counts of the original: for its holder."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from sfumato.audit import decoys
from sfumato.audit.counted import WHOLE, Connection, held_counts, outside, shown_counts
from sfumato.audit.promise import cell_laws, cell_posteriors, reached, set_law, set_posteriors
from sfumato.audit.written import Check, sensitive_domain
from sfumato.request.spec import BreachBound, exact


def check_posteriors(connection: Connection, written: Mapping[str, Any]) -> Check:
    """No value that the promise covers may come to be believed beyond it."""
    if written["sfumato"]["mechanism"] == "decoys":
        return decoys.check_posteriors(connection, written)
    found = held_counts(connection, written, WHOLE)
    if found is None:
        return outside(written, "posteriors")
    counts = [int(count) for count in found.get(None, np.zeros(len(sensitive_domain(written))))]
    return _POSTERIORS[written["sfumato"]["mechanism"]](connection, written, counts)


def _bounded(counts: Sequence[int], posteriors: Sequence[Fraction], design: Mapping[str, Any]) -> Check:
    """Among the values whose share is within the prior, none may come to be believed beyond the posterior."""
    prior, posterior = exact(design["prior"]), exact(design["posterior"])
    limit = prior.numerator * sum(counts)
    covered = [worst for count, worst in zip(counts, posteriors, strict=True) if count * prior.denominator <= limit]
    if not covered:
        return Check("posteriors", True, f"no value has a share within {prior}, so only the odds are bounded.")
    worst = max(covered)
    words = f"of {len(covered)} values with a share within {prior}, none can be believed with more than {worst}"
    return Check("posteriors", worst <= posterior, f"{words} (about {float(worst):.4f}); promised: {posterior}.")


def _uniform_posteriors(connection: Connection, written: Mapping[str, Any], counts: Sequence[int]) -> Check:
    (law,) = cell_laws(written["sfumato"])
    return _bounded(counts, cell_posteriors(counts, law), written["sfumato"]["design"])


def _subset_posteriors(connection: Connection, written: Mapping[str, Any], counts: Sequence[int]) -> Check:
    return _bounded(counts, set_posteriors(counts, set_law(written["sfumato"])), written["sfumato"]["design"])


def _fine_grain_posteriors(connection: Connection, written: Mapping[str, Any], counts: Sequence[int]) -> Check:
    (law,), design, total = cell_laws(written["sfumato"]), written["sfumato"]["design"], sum(counts)
    bounds = zip(design["priors"], design["posteriors"], counts, cell_posteriors(counts, law), strict=True)
    bounded = [
        (worst, allowed(BreachBound(low, high), Fraction(count, total))) for low, high, count, worst in bounds if low
    ]
    if over := next((pair for pair in bounded if pair[0] > pair[1]), None):
        return Check("posteriors", False, f"a value can be believed with {over[0]}; promised: {over[1]}.")
    return Check("posteriors", True, f"none of {len(bounded)} values with a bound can be believed beyond it.")


def allowed(bound: BreachBound, share: Fraction) -> Fraction:
    """How far a value of this share may come to be believed: beyond its prior, the bound is one on the odds."""
    return bound.posterior if share <= bound.prior else reached(share, bound.amplification)


def _small_domain_posteriors(connection: Connection, written: Mapping[str, Any], counts: Sequence[int]) -> Check:
    """Exact where the counts of the cells are published; else their rows must leave room for all protected records."""
    design, laws = written["sfumato"]["design"], cell_laws(written["sfumato"])
    prior, posterior, total = exact(design["prior"]), exact(design["posterior"]), sum(counts)
    protected = [0 < count * prior.denominator <= prior.numerator * total for count in counts]
    shown = shown_counts(connection, written, WHOLE).get(None, {})
    room = [0] * len(counts)
    worst = Fraction(0)
    for number, (law, cell) in enumerate(zip(laws, design["cells"], strict=True)):
        rows = int(shown.get(number, np.zeros(1)).sum())
        held = cell.get("counts")
        if held is not None and sum(held) != rows:
            return Check("posteriors", False, f"cell {number} does not have as many records as its counts say.")
        # A protected value may hold the cell's prior of its rows; any other may hold them all.
        most = [math.floor(exact(cell["prior"]) * rows) if protected[place] else rows for place in law.places]
        for place, count in zip(law.places, held or most, strict=True):
            room[place] += count
        if held is not None:
            believed = zip(law.places, cell_posteriors(held, law), strict=True)
            worst = max([worst, *(each for place, each in believed if protected[place])])
    is_exact = all("counts" in cell for cell in design["cells"])
    if room != list(counts) if is_exact else any(more < count for more, count in zip(room, counts, strict=True)):
        return Check("posteriors", False, "the cells cannot hold the records of the original as the design says.")
    if not is_exact:
        detail = f"the cells have room for all protected records within their priors; promised: {posterior}."
        return Check("posteriors", True, detail)
    words = f"knowing the counts of the cells, no protected value can be believed with more than {worst}"
    return Check("posteriors", worst <= posterior, f"{words} (about {float(worst):.4f}); promised: {posterior}.")


def _bucket_posteriors(connection: Connection, written: Mapping[str, Any], counts: Sequence[int]) -> Check:
    """Caps below the share of a value in the table could not hold; that they hold in each bucket is checked before."""
    total, caps = sum(counts), [exact(cap) for cap in written["sfumato"]["design"]["caps"]]
    if any(count * cap.denominator > cap.numerator * total for count, cap in zip(counts, caps, strict=True)):
        return Check("posteriors", False, "a value has a larger share of the table than its cap.")
    detail = "knowing the bucket alone, no value can be believed with more than its cap."
    return Check("posteriors", True, detail)


_POSTERIORS: Mapping[str, Callable[[Connection, Mapping[str, Any], Sequence[int]], Check]] = {
    "uniform": _uniform_posteriors,
    "subset": _subset_posteriors,
    "small-domain": _small_domain_posteriors,
    "fine-grain": _fine_grain_posteriors,
    "buckets": _bucket_posteriors,
    "anatomy": _bucket_posteriors,
}
