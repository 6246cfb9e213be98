"""Reads a manifest's entries about merged, missing and grouped original values. The input is untrusted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sfumato._core.cell_values import Value, values_from_json
from sfumato._core.json_types import JsonView
from sfumato._request.hierarchy import Hierarchy
from sfumato._request.schema import MergedValues
from sfumato.errors import ReleaseFormatError


def read_merged(section: JsonView) -> dict[str, MergedValues]:
    """The merged values in a manifest."""
    kinds = dict(zip(section["sensitive"], section.get("types", ()), strict=False))
    return {
        str(name): MergedValues(frozenset(values_from_json(entry["values"], [kinds[name]])), entry["label"])
        for name, entry in section.get("merged", {}).items()
    }


def read_missing(section: JsonView) -> tuple[str, ...]:
    """The strings of the original table that mark a missing value."""
    texts = section.get("missing", [])
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise ReleaseFormatError(
            "the markers of missing values in the original table are not a list of strings.",
            code="invalid-missing-markers",
        )
    return tuple(texts)


def read_hierarchies(section: JsonView, types: Sequence[str], domain: Sequence[Value]) -> dict[str, Hierarchy]:
    """Reads the hierarchies in a manifest.

    Only the single sensitive column may have a hierarchy. The hierarchy must have exactly the values of its domain.
    """
    hierarchies = {}
    for name, entry in section.get("hierarchies", {}).items():
        levels, paths = entry["levels"], entry["paths"]
        if [name] != section["sensitive"] or not isinstance(levels, list) or not isinstance(paths, list):
            raise ReleaseFormatError(
                "the release has a hierarchy that does not belong to its sensitive column.", code="misplaced-hierarchy"
            )
        if not all(isinstance(path, list) and len(path) == len(levels) for path in paths):
            raise ReleaseFormatError(
                "a value of the release's hierarchy does not have exactly one group at every level.",
                code="invalid-hierarchy",
            )
        values = values_from_json([path[0] for path in paths], types)
        hierarchies[name] = Hierarchy.of(levels, paths).replace_values(values)
        if hierarchies[name].domain != tuple(domain):
            raise ReleaseFormatError(
                "the hierarchy of the release has other values than its domain.", code="hierarchy-of-other-domain"
            )
    return hierarchies


def read_published_levels(section: JsonView) -> dict[str, str]:
    """The level at which the sensitive column was published."""
    levels: Any = section.get("published_at", {})
    if not isinstance(levels, dict) or any([name] != section["sensitive"] for name in levels):
        raise ReleaseFormatError(
            "the release has a level that does not belong to its sensitive column.", code="misplaced-level"
        )
    finest_levels = {name: entry["levels"][0] for name, entry in section.get("hierarchies", {}).items()}
    if any(not isinstance(level, str) or finest_levels.get(name, level) != level for name, level in levels.items()):
        raise ReleaseFormatError(
            "the release was published at a level that its hierarchy does not have.", code="unknown-level"
        )
    return dict(levels)
