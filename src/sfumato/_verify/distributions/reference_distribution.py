"""Defines a verifier, which checks the releases of one mechanism from their published JSON and files alone."""

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
    """One value in a sub-table of a plan: the number of its records, and its retention."""

    value: Any
    """The value in the form of JSON."""
    count: int
    retention: Fraction
    draw_chance: Fraction | None = None
    """The probability that a redrawn record gets this value; None if it is the same for all values of the sub-table."""


def _require_weights(view: ManifestView) -> str | None:
    """The default for the reason of missing weights: None, because weights must exist."""
    return None


@dataclass(frozen=True, kw_only=True)
class ReferenceDistribution:
    """The checks of one mechanism's releases. None of them uses the mechanism's code."""

    guarantees: tuple[str, ...]
    """The valid names of the guarantee in a release. The first is the current name."""
    make_encoding: Callable[[JsonView], RecordEncoding]
    """The record encoding, from the design."""
    check_domain: Callable[[Path, ManifestView], Check]
    """Checks that the design allows every published value."""
    check_guarantee: Callable[[Path, ManifestView], Check]
    """Recomputes the guarantee."""
    check_draws: Callable[[Connection, ManifestView], Check]
    """Checks that published values are distributed as designed, given the original."""
    check_posteriors: Callable[[Connection, ManifestView], Check]
    """Checks that no belief in a covered value exceeds the guarantee, for an attacker who knows the original's
    counts.
    """
    check_counts: Callable[[Path, ManifestView], Check] | None = None
    """Checks the table of noisy counts; None if the mechanism never has one."""
    are_weights: Callable[[ManifestView, WeightTable], bool] | None = None
    """Whether the columns of the weights are right; None if the mechanism never has weights."""
    explain_missing_weights: Callable[[ManifestView], str | None] = _require_weights
    """The reason why a release has no weights; None if it must have weights."""
    list_value_retentions: Callable[[JsonView, JsonView, Sequence[int]], list[list[ValueRetention]]] | None = None
    """The sub-tables of a plan (if it has any), from its explanation, its design and the counts of its domain."""
