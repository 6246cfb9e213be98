"""The estimators of decoys: three that differ in how they take values to leak into each other, and two biased ones."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

from sfumato.mechanisms.coins.methods import BIASED
from sfumato.mechanisms.decoys.estimation import Laws, counted, even_law, fitted_law, group_law_of, shrunk, totalled
from sfumato.mechanisms.decoys.iteration import by_paper
from sfumato.mechanisms.method import Method

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
    return Method(words, assumption, count, needs_whole=True, total=total)


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
