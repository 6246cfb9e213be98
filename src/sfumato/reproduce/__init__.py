"""The tables and figures of the published works, ours beside theirs.

An experiment is a function from conditions (seed, tables, how long it may take) to an outcome: a table, a figure, and
one sentence that says whether the published numbers hold. A work has a module in `papers` with all its experiments;
`EXPERIMENTS` finds them. What is written carries the version, the seed and the digest of the table it came from, and a
finished experiment is not run again.
"""

from sfumato.reproduce.experiment import Conditions, Experiment
from sfumato.reproduce.outcome import Outcome, Verdict
from sfumato.reproduce.papers import EXPERIMENTS, named
from sfumato.reproduce.running import Reproduced, reproduce
from sfumato.reproduce.tables import Tables

__all__ = [
    "EXPERIMENTS",
    "Conditions",
    "Experiment",
    "Outcome",
    "Reproduced",
    "Tables",
    "Verdict",
    "named",
    "reproduce",
]
