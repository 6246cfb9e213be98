"""What an experiment is, and under which conditions it runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np

from papers.experiment_outcome import Outcome
from papers.experiment_tables import TableSource

Item = TypeVar("Item")
Progress = Callable[[int, int], None]
"""How many steps are done, of how many."""


@dataclass(frozen=True)
class Conditions:
    """How an experiment is run."""

    tables: TableSource = field(default_factory=TableSource)
    seed: int = 1
    is_quick: bool = False
    """Fewer records, queries and repeats: the shape of the result in seconds."""
    progress: Progress = lambda done, of: None

    def iter_steps(self, items: Iterable[Item]) -> Iterator[Item]:
        """The items one after the other, with progress."""
        all_items = list(items)
        for done, item in enumerate(all_items):
            self.progress(done, len(all_items))
            yield item
        self.progress(len(all_items), len(all_items))

    def choose(self, quick: Item, full: Item) -> Item:
        """What a quick run takes, or a full one."""
        return quick if self.is_quick else full

    def make_generator(self, *purpose: int) -> np.random.Generator:
        """Numbers that follow from the seed; experiments are no releases, and nothing in them is secret."""
        return np.random.default_rng([self.seed, *purpose])

    def make_key(self, number: int = 0) -> str:
        """A key for a release that is measured and thrown away."""
        return f"{(self.seed << 32) + number:064x}"


@dataclass(frozen=True)
class Experiment:
    """A table, figure or example of a published work."""

    name: str
    """The work and the item, as in `small-domain/table2`."""
    title: str
    run: Callable[[Conditions], Outcome]
    errata: tuple[str, ...] = ()
    """What is known to be misprinted or false there, in a few words each."""
    scan_faults: tuple[str, ...] = ()
    """What our scan shows otherwise than it can be meant. The print may be right, so this is no erratum."""
    is_timed: bool = False
    """Whether its sentence depends on the machine, so that no two runs say the same."""
    is_long: bool = False
    """Whether even a quick run takes seconds, so that tests leave it to `make full`."""
