"""What a manifest says, read from its JSON: for the checks, which trust nothing else; and what a check finds."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from sfumato.errors import ReleaseFormatError
from sfumato.release.manifest import BUCKETS, DATA, RECORDS, WEIGHTS
from sfumato.request.schema import COMPOUND_MARK
from sfumato.request.values import Value, values_from_json

MOST_COMBINATIONS = 1 << 18
"""Of the values of columns that are protected each for itself."""


@dataclass(frozen=True)
class Check:
    """One thing that was checked, in words."""

    name: str
    passed: bool
    detail: str


@dataclass(frozen=True)
class Verification:
    """All checks of a release."""

    checks: tuple[Check, ...]

    @property
    def passed(self) -> bool:
        """Whether every check passed."""
        return all(check.passed for check in self.checks)


def sensitive_names(written: Mapping[str, Any]) -> tuple[str, ...]:
    """The names of the sensitive columns; format 1 had one."""
    names = written["sfumato"]["sensitive"]
    return (names,) if isinstance(names, str) else tuple(names)


def shown_names(written: Mapping[str, Any]) -> tuple[str, ...]:
    """The columns of the data that show something about what is sensitive."""
    ours, names = written["sfumato"], sensitive_names(written)
    if ours["mechanism"] == "subset":
        names = (COMPOUND_MARK.join(names),)
    if is_bucketed(written):
        names = ()
    return (*names, ours["cell_column"]) if "cell_column" in ours else names


def sensitive_domain(written: Mapping[str, Any]) -> tuple[Value, ...]:
    """The domain of what is sensitive."""
    ours = written["sfumato"]
    kinds = {field["name"]: field["type"] for field in resource_of(written, data_of(written))["schema"]["fields"]}
    types = ours.get("types") or [kinds[name] for name in sensitive_names(written)]
    if "domains" in ours["design"]:  # columns that are protected each for itself: all their combinations
        pairs = zip(ours["design"]["domains"], types, strict=True)
        domains = [values_from_json(domain, [kind]) for domain, kind in pairs]
        if math.prod(map(len, domains)) > MOST_COMBINATIONS:
            raise ReleaseFormatError("the domain of the release is larger than any release needs.")
        return tuple(itertools.product(*domains))  # type: ignore[arg-type]
    return values_from_json(ours["design"]["domain"], types)


def by_column(written: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """A manifest of columns that are protected each for itself, as one manifest for each of them.

    The other sensitive columns are left out of each: they are not public.
    """
    ours, names = written["sfumato"], sensitive_names(written)
    if "domains" not in ours["design"]:
        return [written]
    found: list[Mapping[str, Any]] = []
    for name, kind, domain in zip(names, ours["types"], ours["design"]["domains"], strict=True):
        design = {key: value for key, value in ours["design"].items() if key != "domains"}
        alone = {**ours, "sensitive": [name], "types": [kind], "design": {**design, "domain": domain}}
        found.append({**written, "sfumato": alone, "resources": _without(written, set(names) - {name})})
    return found


def _without(written: Mapping[str, Any], names: Collection[str]) -> list[Mapping[str, Any]]:
    """The resources of a release without some columns of the data."""
    found: list[Mapping[str, Any]] = []
    for resource in written["resources"]:
        if resource["path"] == DATA:
            fields = [field for field in resource["schema"]["fields"] if field["name"] not in names]
            resource = {**resource, "schema": {**resource["schema"], "fields": fields}}  # noqa: PLW2901
        found.append(resource)
    return found


def tables_of(written: Mapping[str, Any]) -> tuple[str, ...]:
    """The Parquet files of the release."""
    listed = {str(resource["path"]) for resource in written["resources"]}
    return tuple(name for name in (DATA, WEIGHTS, RECORDS, BUCKETS) if name in listed)


def is_bucketed(written: Mapping[str, Any]) -> bool:
    """Whether a release shows the bucket of each record, and no value."""
    return written["sfumato"]["mechanism"] in ("buckets", "anatomy")


def data_of(written: Mapping[str, Any]) -> str:
    """The file of the records."""
    return RECORDS if is_bucketed(written) else DATA


def resource_of(written: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """The description of one file."""
    found: Mapping[str, Any] = {resource["path"]: resource for resource in written["resources"]}[name]
    return found
