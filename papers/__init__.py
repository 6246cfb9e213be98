"""The research papers behind sfumato: their experiments, their methods, and what they compare with.

This package stands beside the wheel and is not part of it. `python -m papers` runs it from a checkout:

    python -m papers list                       names every experiment
    python -m papers NAME... | all --out DIR    prints and draws tables and figures, ours beside theirs
    python -m papers publish | query --as-published WORK    publishes or asks with the settings that a paper prints

An experiment is a function from conditions (seed, tables, how long it may take) to an outcome: a table, a figure, and
one sentence that says whether the published numbers hold. Each paper has a package with its experiments;
`experiments.EXPERIMENTS` lists all of them. Every result carries the version, the seed and the digest of its table, and
a finished experiment is not run again.
"""

from papers.experiment import Conditions, Experiment
from papers.experiment_outcome import Outcome, Verdict
from papers.experiment_tables import TableSource
from papers.experiments import EXPERIMENTS, select_experiments
from papers.reproduction import Reproduction, reproduce

__all__ = [
    "EXPERIMENTS",
    "Conditions",
    "Experiment",
    "Outcome",
    "Reproduction",
    "TableSource",
    "Verdict",
    "reproduce",
    "select_experiments",
]
