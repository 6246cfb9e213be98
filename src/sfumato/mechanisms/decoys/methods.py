"""The estimators of decoys: three that differ in how they take values to leak into each other, and two biased ones."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np

from sfumato.arrays import Floats
from sfumato.mechanisms.coins.methods import BIASED
from sfumato.mechanisms.decoys.estimation import (
    DecoyDesign,
    Laws,
    counted,
    even_law,
    fitted_law,
    group_law_of,
    shrunk,
    totalled,
    twin,
)
from sfumato.mechanisms.decoys.iteration import by_paper
from sfumato.mechanisms.method import Method
from sfumato.request.notice import Notice

PART = 0.1
"""How many of the people the predicted counts are about."""
CHANGE = 0.5
"""By how much more or less often such a part is taken to have a value, relative to everybody."""
MUCH = 0.9
"""An error below this part of another one is worth asking for."""

SHUFFLED = "none beyond how groups are made: records of a value are dealt to groups at random"
EVEN = (
    "every other value leaks alike into a value; beside values in a third of the groups and more, and in groups that "
    "take the fullest values first, the interval is too short"
)
MEETING = (
    "values meet as often as their frequencies allow, which mixed groups see to; in groups that take the fullest "
    "values first the interval is too short"
)


def _by(laws: Laws, words: str, assumption: str) -> Method[Any]:
    """Undo the leaks of these laws."""
    count, total = partial(counted, laws=laws), partial(totalled, laws=laws)
    return Method(words, assumption, count, needs_whole=True, total=total, twin=partial(twin, laws=laws))


METHODS: Mapping[str, Method[Any]] = MappingProxyType(
    {
        "fitted": _by(fitted_law, "fit of evenly mixed decoy groups, normal interval", MEETING),
        "closed": _by(even_law, "closed form for decoys, normal interval", EVEN),
        "inverse": _by(group_law_of, "inverse of recomputed decoy groups, normal interval", SHUFFLED),
        "shrunk": Method(
            "shrunk towards independence (empirical Bayes), biased", SHUFFLED, shrunk, needs_whole=True, note=BIASED
        ),
        "paper": Method(
            "iteration of the paper with its 1% rule, biased", EVEN, by_paper, needs_whole=True, note=BIASED
        ),
    }
)


def proposal(design: DecoyDesign, /) -> str | None:
    """What to ask with where errors are large."""
    if len(design.sizes) > 1:
        return None
    return (
        "where an error is large beside its number, the method 'shrunk' comes nearer to the truth on average; it is "
        "biased towards what counts would be if value and condition were unrelated, and has no interval."
    )


def nearer(counts: Floats, errors: Floats) -> list[Notice]:
    """For how many values `shrunk` predicts a smaller error, from true counts among some people and standard errors.

    With the relative error r of a count and the relative change t of the frequency by the condition, a count is pulled
    by r² / (r² + t²) of its change, and its error becomes r t / sqrt(r² + t²) on average over changes.
    """
    is_told = (counts > 0) & np.isfinite(errors) & (errors > 0)
    relative = errors[is_told] / counts[is_told]
    shrunk_errors = relative * CHANGE / np.hypot(relative, CHANGE)
    better = shrunk_errors < MUCH * relative
    if not better.any():
        return []
    usual, smaller = (float(np.median(each[better])) for each in (relative, shrunk_errors))
    bias = usual**2 / (usual**2 + CHANGE**2)
    sentence = (
        f"for {int(better.sum())} of {len(counts)} values, counted among a tenth of the people, query --method shrunk "
        f"predicts a smaller error than the default: in the middle of them {smaller:,.0%} instead of {usual:,.0%}, if "
        f"the tenth has values about {CHANGE:.0%} more or less often than everybody. It is biased: of that difference "
        f"it leaves out about {bias:.0%}."
    )
    numbers = {"default": usual, "shrunk": smaller, "values": int(better.sum()), "bias": bias}
    return [Notice("shrunk-is-closer", sentence, numbers=numbers)]
