"""Lists the experiments of every work, and finds them by name."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from papers import attack_comparison
from papers.experiment import Experiment
from papers.fine_grain_perturbation import fine_grain_examples, fine_grain_figures
from papers.multiple_sized_bucketization import bucket_examples, information_losses, query_errors, running_times
from papers.small_domain_randomization import small_domain_examples, small_domain_figures
from papers.splu_gen import further_figures, splu_examples, splu_figures
from sfumato.errors import SpecError

ALL_NAME = "all"

EXPERIMENTS: tuple[Experiment, ...] = (
    *small_domain_examples.EXPERIMENTS,
    *small_domain_figures.FIGURES,
    *fine_grain_examples.EXPERIMENTS,
    *fine_grain_figures.FIGURES,
    *splu_examples.EXPERIMENTS,
    *splu_figures.FIGURES,
    *further_figures.FURTHER,
    *bucket_examples.EXPERIMENTS,
    *information_losses.LOSSES,
    *query_errors.ERRORS[:1],
    *running_times.TIMES,
    *query_errors.ERRORS[1:],
    *attack_comparison.EXPERIMENTS,
)
"""In the order in which a reader of the works meets them."""


def select_experiments(names: Sequence[str]) -> tuple[Experiment, ...]:
    """Returns the experiments of some names: a work's name stands for all of its own, and `all` for everything."""
    all_names = {experiment.name for experiment in EXPERIMENTS}
    works = {name.partition("/")[0] for name in all_names}
    selected_names = set()
    for name in names:
        if name not in all_names | works | {ALL_NAME}:
            near = difflib.get_close_matches(name, [*all_names, *works], 1)
            hint = f"did you mean {near[0]!r}? List all" if near else "list all"
            raise SpecError(
                f"there is no experiment {name!r}; {hint} with python -m papers list.",
                code="unknown-experiment",
                fields={"experiment": name, "nearest": near[0] if near else None},
            )
        selected_names |= {
            experiment_name
            for experiment_name in all_names
            if name in (experiment_name, experiment_name.partition("/")[0], ALL_NAME)
        }
    return tuple(experiment for experiment in EXPERIMENTS if experiment.name in selected_names)
