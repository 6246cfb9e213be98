"""The draws with which a publication is planned, so that a plan repeats, and shows what its plan file will publish."""

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
    """The draws of the plan file, with the file, refused as `publish` would refuse it; else those for planning only.

    With a plan file, a random choice, such as between several first rows of a person, is that of the release. Without
    one, the release will choose by a fresh key, and the plan by a key that is never used to publish
    (`Draws.for_planning`).
    """
    plan = PlanFile.read_if_written(None if plan_file is None else Path(plan_file))
    if plan is None:
        return Draws.for_planning(), None
    fingerprint = compute_first_digest(partial(source.compute_fingerprint, engine.map_items, is_content=True))
    plan.check(fingerprint, request.to_record())
    return plan.table_draws, plan


def compute_first_digest(compute_digest: Callable[[], str]) -> str:
    """The digest of an opened table, which may have been removed since."""
    try:
        return compute_digest()
    except OSError as error:
        raise SourceError(
            f"the table cannot be read: {explain_os_error(error)}.",
            code="unreadable-table",
            fields={"reason": explain_os_error(error)},
        ) from error
