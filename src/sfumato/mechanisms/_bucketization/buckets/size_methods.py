"""Chooses a bucket setting and its records from counts and caps, by the requested method."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction

from sfumato.mechanisms._bucketization.buckets.bucket_problem import NoBucketingError, Problem, TooFewSizes, pose
from sfumato.mechanisms._bucketization.buckets.bucket_setting import Assignment, Setting, assign
from sfumato.mechanisms._bucketization.buckets.cap_rounding import Integers
from sfumato.mechanisms._bucketization.buckets.least_loss import Optimum, add_remedy, find_optimal_setting
from sfumato.mechanisms._bucketization.buckets.relaxation import relax
from sfumato.mechanisms._bucketization.buckets.two_size_splitting import split_top_down
from sfumato.mechanisms._bucketization.buckets.two_sizes import find_best_two_sizes

# Buckets of one size: the best setting is the smallest size that works.
#
# Source: Wang 2014, Lemma 3: b buckets of size S are valid if and only if o_i <= c_i(S) * b for every value and S * b =
# |T|.
# Notation: o_i = counts[i], c_i(S) = floors[i, S], S = size, b = buckets.


def find_best_size(problem: Problem) -> Setting:
    """Finds the valid setting with one bucket size that has the smallest loss."""
    for column, size in enumerate(problem.sizes.tolist()):
        buckets, rest = divmod(problem.total, size)
        if not rest and (problem.counts <= problem.floors[:, column] * buckets).all():
            return Setting.of([(size, buckets)])
    raise NoBucketingError(TooFewSizes("one"))


# ---------------------------------------------------------------------------------------------------------------------

HEURISTICS = {"one": find_best_size, "two": find_best_two_sizes, "multi": split_top_down}
METHODS = (*HEURISTICS, "optimal")

SMALLEST_SIZES = (3, 4, 6, 8, 12, 16, 20, 24, 32, 40, 48)
"""The number of values for the smallest size that are tried besides the smallest allowed size."""
MANY_VALUES = 150
"""With this many values or more, half of the sizes are left out.

The optimum is left out too, because finding it would take long.
"""


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
    """Chooses buckets of `smallest` to `largest` records. If there is no solution, raises `Blocked` with the reason."""
    try:
        problem = pose(counts, caps, smallest, largest)
        if method == "optimal":
            optimum = find_optimal_setting(problem)
        else:
            setting = HEURISTICS[method](problem)
            optimum = Optimum(setting, relax(problem).bound)  # a bound of the loss, to judge the setting
    except NoBucketingError as blocked:
        raise add_remedy(blocked, counts, caps, smallest, largest) from None
    return _make_choice(problem, optimum.setting, optimum.bound)


def _make_choice(problem: Problem, setting: Setting, bound: int) -> Choice:
    return Choice(assign(problem, setting), problem.floors[:, setting.to_vector(problem) > 0], bound)


def list_choices(
    counts: Sequence[int], caps: Sequence[Fraction], *, smallest: int = 2, largest: int = 50
) -> dict[tuple[str, int], Choice]:
    """Lists different choices of buckets, each with the method and the smallest size that found it.

    Raises `Blocked` if there is none.

    The smallest loss means small buckets for frequent values. The other values are in large buckets, which are then
    similar. The larger the smallest bucket is, the more the buckets can differ. The caller decides which choice is
    best.
    """
    keys_by_setting: dict[Setting, tuple[str, int]] = {}
    try:
        problem = pose(counts, caps, smallest, largest)
        has_many = len(counts) >= MANY_VALUES
        larger_sizes = [size for size in SMALLEST_SIZES[:: 2 if has_many else 1] if smallest < size <= largest]
        for size in (smallest, *larger_sizes):
            for method in ("two", "multi"):
                with suppress(NoBucketingError):
                    keys_by_setting.setdefault(HEURISTICS[method](problem.drop_smaller_sizes(size)), (method, size))
        if has_many and keys_by_setting:
            bound = relax(problem).bound
        else:
            best = find_optimal_setting(problem)
            bound, keys_by_setting[best.setting] = best.bound, ("optimal", smallest)
    except NoBucketingError as blocked:
        raise add_remedy(blocked, counts, caps, smallest, largest) from None
    return {choice_key: _make_choice(problem, setting, bound) for setting, choice_key in keys_by_setting.items()}
