"""One module for each work, with all its experiments."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from sfumato.errors import SpecError
from sfumato.reproduce.experiment import Experiment
from sfumato.reproduce.papers import (
    beyond,
    buckets,
    buckets_errors,
    buckets_losses,
    buckets_times,
    fine_grain,
    fine_grain_figures,
    small_domain,
    small_domain_figures,
    small_sums,
    small_sums_figures,
    small_sums_further,
)

EVERYTHING = "all"

EXPERIMENTS: tuple[Experiment, ...] = (
    *small_domain.EXPERIMENTS,
    *small_domain_figures.FIGURES,
    *fine_grain.EXPERIMENTS,
    *fine_grain_figures.FIGURES,
    *small_sums.EXPERIMENTS,
    *small_sums_figures.FIGURES,
    *small_sums_further.FURTHER,
    *buckets.EXPERIMENTS,
    *buckets_losses.LOSSES,
    *buckets_errors.ERRORS[:1],
    *buckets_times.TIMES,
    *buckets_errors.ERRORS[1:],
    *beyond.EXPERIMENTS,
)
"""In the order in which a reader of the works meets them."""


def named(names: Sequence[str]) -> tuple[Experiment, ...]:
    """The experiments of some names; a work's name stands for all of its own, and `all` for everything."""
    known = {experiment.name for experiment in EXPERIMENTS}
    works = {name.partition("/")[0] for name in known}
    wanted = set()
    for name in names:
        if name not in known | works | {EVERYTHING}:
            near = difflib.get_close_matches(name, [*known, *works], 1)
            hint = f"did you mean {near[0]!r}? All stand in" if near else "all stand in"
            raise SpecError(f"there is no experiment {name!r}; {hint} sfumato reproduce list.")
        wanted |= {each for each in known if name in (each, each.partition("/")[0], EVERYTHING)}
    return tuple(experiment for experiment in EXPERIMENTS if experiment.name in wanted)
