"""Makes the draws for planning, so that a plan can be repeated and shows the release that its plan file would give."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from sfumato._core.random_draws import Draws
from sfumato._engines.engine import Engine
from sfumato._planning.plan_file import PlanFile
from sfumato._publish.request import Request
from sfumato._readers.sources import Source
from sfumato.errors import SourceError, explain_os_error


def choose_planning_draws(
    request: Request, source: Source, engine: Engine, plan_file: str | Path | None
) -> tuple[Draws, PlanFile | None]:
    """The plan file and its draws, or draws for planning only.

    A plan file that `publish` would refuse is refused here too.

    With a plan file, the plan makes the same random choices as the release, for example between several first rows of a
    person. Without a plan file, the release will use a fresh key, and the plan uses a key that is never used to publish
    (`Draws.for_planning`).
    """
    plan = PlanFile.read_if_written(None if plan_file is None else Path(plan_file))
    if plan is None:
        return Draws.for_planning(), None
    fingerprint = compute_first_digest(partial(source.compute_fingerprint, engine.map_items, is_content=True))
    plan.check(fingerprint, request.to_record())
    return plan.table_draws, plan


def compute_first_digest(compute_digest: Callable[[], str]) -> str:
    """The digest of an opened table. The table may have been removed since it was opened."""
    try:
        return compute_digest()
    except OSError as error:
        raise SourceError(
            f"the table cannot be read: {explain_os_error(error)}.",
            code="unreadable-table",
            fields={"reason": explain_os_error(error)},
        ) from error
