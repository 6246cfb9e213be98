"""What a law is: how a release of one mechanism is checked, from its published JSON and its files alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from sfumato._core.json_types import JsonView
from sfumato._records import RecordEncoding
from sfumato._verify.check_results import Check
from sfumato._verify.manifest_view import ManifestView
from sfumato._verify.original_counts import Connection

WeightTable = Mapping[str, list[Any]]
"""The columns of a table of weights, each with its values."""


@dataclass(frozen=True, slots=True)
class ValueRetention:
    """One value in one cell of a plan: how many records hold it, and the coin that keeps it."""

    value: Any
    """As JSON has it."""
    count: int
    retention: Fraction
    draw_chance: Fraction | None = None
    """The chance that a redrawn record becomes this value; None where all values of the cell have the same."""


def _require_weights(view: ManifestView) -> str | None:
    """There must be weights."""
    return None


@dataclass(frozen=True, kw_only=True)
class ReferenceDistribution:
    """The checks of one mechanism's releases. None of them uses the mechanism's code."""

    guarantees: tuple[str, ...]
    """What a release may say of its guarantee; the first is what it says today."""
    make_encoding: Callable[[JsonView], RecordEncoding]
    """What a record shows, from the design."""
    check_domain: Callable[[Path, ManifestView], Check]
    """Every record shows what the design lets it show."""
    check_guarantee: Callable[[Path, ManifestView], Check]
    """The promise, recomputed."""
    check_draws: Callable[[Connection, ManifestView], Check]
    """What is published is distributed as the design says, given the original."""
    check_posteriors: Callable[[Connection, ManifestView], Check]
    """No value that the promise covers comes to be believed beyond it, by whoever knows the counts of the original."""
    are_weights: Callable[[ManifestView, WeightTable], bool] | None = None
    """Whether the columns of the weights are right; None where there never are any."""
    explain_missing_weights: Callable[[ManifestView], str | None] = _require_weights
    """Why a release has no weights; None where it must have them."""
    list_value_retentions: Callable[[JsonView, JsonView, Sequence[int]], list[list[ValueRetention]]] | None = None
    """The cells of a plan, from what it tells its holder, its design and the counts of its domain, if it has any."""
