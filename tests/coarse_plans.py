"""Plans of noisy counts for tests."""

from __future__ import annotations

from dataclasses import replace

from sfumato._core.random_draws import Draws
from sfumato._request.belief_bounds import BreachBound
from sfumato._request.histogram import ClassSizes, Histogram
from sfumato.mechanisms._noisy_counts import noisy_counts_mechanism as noisy_counts

DRAWS = Draws.unsafe_test_key(f"{7:064x}").narrow_to_column("disease")
BOUND = BreachBound("1/10", "1/3")


def make_plan(
    also_by: str | None = None,
    bound: BreachBound = BOUND,
    values: int = 4,
    class_sizes: ClassSizes = (),
    coarse_sizes: tuple[ClassSizes, ...] = (),
) -> noisy_counts.Plan:
    """A plan for a declared domain of so many values."""
    histogram = Histogram.of(range(values), [1000 // values] * values)
    histogram = replace(histogram, is_declared=True, class_sizes=class_sizes, coarse_sizes=coarse_sizes)
    return noisy_counts.plan(histogram, bound, noisy_counts.Options(also_by=also_by), DRAWS)
