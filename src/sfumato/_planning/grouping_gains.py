"""What publishing groups in the place of values would gain: the error of a group's count, from either release."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sfumato._core.cell_values import format_value_count
from sfumato._core.json_types import Json
from sfumato._planning.mechanism_choice import AUTO, NO_OPTIONS
from sfumato._planning.predicted_error import Chosen
from sfumato._request.hierarchy import Hierarchy
from sfumato.errors import InfeasibleError, MissingCapabilityError, SpecError
from sfumato.mechanisms.capabilities import ErrorPrediction

SHARE = 0.1
"""It is asked among this part of the people: counts of everybody are exact where records are dealt into buckets."""
SAME = 1.05
"""A factor below this is no difference."""


@dataclass(frozen=True)
class Gain:
    """What it would be to publish the groups of a level. Secret: it may follow counts."""

    level: str
    groups: int
    """How many there are."""
    mechanism: str | None = None
    """What would publish them; None where nothing can."""
    factor: float | None = None
    """How many times smaller the standard error of a group's count would be, typically: the median of all groups."""
    reason: str | None = None
    """Why that is not told, where it is not."""

    def words(self, column: str) -> str:
        """All of it, on one line."""
        result_text = f"{'not told' if self.mechanism else 'not possible'}, because {self.reason}"
        if self.factor is not None:
            by = max(self.factor, 1 / self.factor)
            size = f"{by:.1f} times {'smaller' if self.factor > 1 else 'larger'}" if by >= SAME else "as large as now"
            result_text = f"the error of a group's count is {size}"
        option = f"--publish-at {shlex.quote(f'{column}={self.level}')}"
        return f"by {self.level}, in {format_value_count(range(self.groups), 'group')} ({option}): {result_text}"

    def to_json(self) -> Json:
        """For machines."""
        named = {"level": self.level, "groups": self.groups, "mechanism": self.mechanism}
        return {**named, "error_factor": self.factor, "reason": self.reason}


def compute_gains(chosen: Chosen, planned: Callable[..., Chosen]) -> tuple[Gain, ...]:
    """What each level above the values would gain; `planned` chooses a plan for the counts of its groups.

    What was asked of mechanisms for the values may not fit the groups: `planned` can be told another mechanism, and
    other options.
    """
    hierarchy = chosen.histogram.hierarchy
    if hierarchy is None:
        return ()
    return tuple(_gain(chosen, hierarchy, number, planned) for number in range(1, len(hierarchy.levels)))


def _gain(chosen: Chosen, hierarchy: Hierarchy, number: int, planned: Callable[..., Chosen]) -> Gain:
    """Add up the values of each group, and compare with a release of the groups alone."""
    grouped = chosen.histogram.grouped(number)
    level, size = hierarchy.levels[number], grouped.domain_size
    other, reason = None, ""
    for instead in ({}, {"options": NO_OPTIONS}, {"options": NO_OPTIONS, "mechanism": AUTO}):
        try:
            other = planned(grouped, **instead)
            break
        except (InfeasibleError, SpecError) as error:
            reason = str(error).removesuffix(".")
    if other is None:
        return Gain(level, size, reason=reason)
    if "mechanism" in instead:
        return Gain(
            level, size, other.mechanism.name, reason=f"{chosen.mechanism.name} cannot publish this level alone"
        )
    places = np.array(hierarchy.places(number))
    sets = [np.flatnonzero(places == group) for group in range(size)]
    try:
        predictions = [choice.mechanism.require(ErrorPrediction) for choice in (chosen, other)]
    except MissingCapabilityError as error:
        return Gain(level, size, other.mechanism.name, reason=str(error).removesuffix("."))
    added = predictions[0].predict_set_variances(chosen.plan, SHARE, sets)
    alone = predictions[1].predict_set_variances(other.plan, SHARE, [np.array([group]) for group in range(size)])
    is_told = np.isfinite(added) & np.isfinite(alone) & (alone > 0) & (added > 0)
    if not is_told.any():
        names = " and ".join(dict.fromkeys((chosen.mechanism.name, other.mechanism.name)))
        return Gain(level, size, other.mechanism.name, reason=f"no error of such counts is predicted for {names}")
    factor = float(np.median(np.sqrt(added[is_told] / alone[is_told])))
    return Gain(level, size, other.mechanism.name, factor)
