"""From counts and caps to a setting and the records in it, by the method asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from sfumato.mechanisms.buckets.caps import Integers
from sfumato.mechanisms.buckets.one_size import one_size
from sfumato.mechanisms.buckets.optimal import Optimum, optimal, with_remedy
from sfumato.mechanisms.buckets.problem import Blocked, pose
from sfumato.mechanisms.buckets.relaxation import relax
from sfumato.mechanisms.buckets.setting import Assignment, assign
from sfumato.mechanisms.buckets.top_down import top_down
from sfumato.mechanisms.buckets.two_sizes import two_sizes

HEURISTICS = {"one": one_size, "two": two_sizes, "multi": top_down}
METHODS = (*HEURISTICS, "optimal")


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """A valid setting with its records, the floors of its sizes, and a bound of the loss over all settings."""

    assignment: Assignment
    floors: Integers
    bound: int

    @property
    def loss(self) -> int:
        """The loss of the setting."""
        return self.assignment.setting.loss

    @property
    def is_proven(self) -> bool:
        """Whether no setting has less loss."""
        return self.bound == self.loss


def choose(
    counts: Sequence[int], caps: Sequence[Fraction], method: str, *, smallest: int = 2, largest: int = 50
) -> Choice:
    """Choose buckets of `smallest` to `largest` records; `Blocked` says why there are none."""
    try:
        problem = pose(counts, caps, smallest, largest)
        if method == "optimal":
            found = optimal(problem)
        else:
            setting = HEURISTICS[method](problem)
            found = Optimum(setting, relax(problem).bound)  # a bound to judge it by
    except Blocked as blocked:
        raise with_remedy(blocked, counts, caps, smallest, largest) from None
    return Choice(assign(problem, found.setting), problem.floors[:, found.setting.vector(problem) > 0], found.bound)
