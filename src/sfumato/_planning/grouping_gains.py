"""Compares a release of values with a release of groups of values, by the standard error of a group's count."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sfumato._core.cell_values import format_value_count
from sfumato._core.json_types import Json
from sfumato._planning.mechanism_choice import AUTO, NO_OPTIONS
from sfumato._planning.predicted_error import ChosenMechanism
from sfumato._request.hierarchy import Hierarchy
from sfumato.errors import InfeasibleError, MissingCapabilityError, SpecError
from sfumato.mechanisms.capabilities import ErrorPrediction

PEOPLE_SHARE = 0.1
"""The compared counts are among this share of people, because bucketization counts all people exactly."""
SAME_FACTOR = 1.05
"""A factor below this is called no difference."""


@dataclass(frozen=True)
class GroupingGain:
    """The effect of publishing the groups of a level. Secret, because it may depend on counts."""

    level: str
    group_count: int
    """The number of groups."""
    mechanism: str | None = None
    """The mechanism that would publish the groups. None if none can."""
    factor: float | None = None
    """The factor by which the standard error of a group's count would be smaller, as the median over groups."""
    reason: str | None = None
    """The reason for a missing factor."""

    def describe(self, column: str) -> str:
        """The effect, on one line."""
        result_text = f"{'unknown' if self.mechanism else 'not possible'}, because {self.reason}"
        if self.factor is not None:
            ratio = max(self.factor, 1 / self.factor)
            size = (
                f"{ratio:.1f} times {'smaller' if self.factor > 1 else 'larger'}"
                if ratio >= SAME_FACTOR
                else "as large as without groups"
            )
            result_text = f"the error of a group's count is {size}"
        option = f"`publish_at={ {column: self.level}!r}`"
        return f"by {self.level}, in {format_value_count(range(self.group_count), 'group')} ({option}): {result_text}"

    def to_json(self) -> Json:
        """The JSON form."""
        level_entry = {"level": self.level, "groups": self.group_count, "mechanism": self.mechanism}
        return {**level_entry, "error_factor": self.factor, "reason": self.reason}


def compute_gains(chosen: ChosenMechanism, choose_plan: Callable[..., ChosenMechanism]) -> tuple[GroupingGain, ...]:
    """The effect of publishing at each level above the values.

    `choose_plan` chooses a plan for the counts of the groups.

    Options of mechanisms for the values may not fit the groups, so `choose_plan` may be called with another mechanism
    and other options.
    """
    hierarchy = chosen.histogram.hierarchy
    if hierarchy is None:
        return ()
    return tuple(_compute_gain(chosen, hierarchy, number, choose_plan) for number in range(1, len(hierarchy.levels)))


def _compute_gain(
    chosen: ChosenMechanism, hierarchy: Hierarchy, number: int, choose_plan: Callable[..., ChosenMechanism]
) -> GroupingGain:
    """Add up the values of each group, and compare the errors with those of a release of the groups."""
    group_histogram = chosen.histogram.group_by_level(number)
    level, size = hierarchy.levels[number], group_histogram.domain_size
    group_choice, reason = None, ""
    for overrides in ({}, {"options": NO_OPTIONS}, {"options": NO_OPTIONS, "mechanism": AUTO}):
        try:
            group_choice = choose_plan(group_histogram, **overrides)
            break
        except (InfeasibleError, SpecError) as error:
            reason = str(error).removesuffix(".")
    if group_choice is None:
        return GroupingGain(level, size, reason=reason)
    if "mechanism" in overrides:
        return GroupingGain(
            level, size, group_choice.mechanism.name, reason=f"{chosen.mechanism.name} cannot publish only this level"
        )
    places = np.array(hierarchy.list_group_places(number))
    sets = [np.flatnonzero(places == group) for group in range(size)]
    try:
        predictions = [choice.mechanism.require(ErrorPrediction) for choice in (chosen, group_choice)]
    except MissingCapabilityError as error:
        return GroupingGain(level, size, group_choice.mechanism.name, reason=str(error).removesuffix("."))
    summed_variances = predictions[0].predict_set_variances(chosen.plan, PEOPLE_SHARE, sets)
    group_variances = predictions[1].predict_set_variances(
        group_choice.plan, PEOPLE_SHARE, [np.array([group]) for group in range(size)]
    )
    is_predicted = (
        np.isfinite(summed_variances) & np.isfinite(group_variances) & (group_variances > 0) & (summed_variances > 0)
    )
    if not is_predicted.any():
        names = " and ".join(dict.fromkeys((chosen.mechanism.name, group_choice.mechanism.name)))
        return GroupingGain(level, size, group_choice.mechanism.name, reason=f"{names} predict no error of such counts")
    factor = float(np.median(np.sqrt(summed_variances[is_predicted] / group_variances[is_predicted])))
    return GroupingGain(level, size, group_choice.mechanism.name, factor)
