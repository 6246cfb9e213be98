"""Where the passes over a table run. An engine moves data and knows no mechanism."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from sfumato.apply.persons import Grouping
from sfumato.apply.preparation import Preparation
from sfumato.apply.profile import Profile
from sfumato.apply.rewrite import Rewrite
from sfumato.apply.source import Source
from sfumato.draws import Draws
from sfumato.shown import SideTable


class Engine(Protocol):
    """Two passes over a source that can be read twice in the same order."""

    def people(self, source: Source, person: str, folder: Path) -> Grouping:
        """The rows of a table by person; `folder` may hold temporary files."""
        ...

    def profile(self, source: Source, preparation: Preparation, draws: Draws) -> tuple[Profile, int]:
        """Count the prepared rows; returns their profile, and how many rows were left out."""
        ...

    def rewrite(  # noqa: PLR0913, PLR0917 - where rows come from, what becomes of them, where they go
        self,
        source: Source,
        preparation: Preparation,
        rewrite: Rewrite,
        rows: int,
        target: Path,
        beside: Callable[[], None] = ...,
    ) -> None:
        """Rewrite every batch, and write all rows to the target in the order of the words they carry.

        `beside` is other work, to be finished too, which may be done at the same time.
        """
        ...

    def write_side(self, side: SideTable, folder: Path) -> None:
        """Write the rows of a side table into the folder, in their order."""
        ...
