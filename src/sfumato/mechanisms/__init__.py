"""The mechanisms: one room each, and nobody else knows them; the registry lists them."""

from __future__ import annotations

from typing import Any

from sfumato.errors import InternalError
from sfumato.mechanisms import anatomy, buckets, decoys, fine_grain, harmonic, levels, small_domain, subset, uniform
from sfumato.mechanisms.mechanism import AnyMechanism

REGISTRY: dict[str, AnyMechanism] = {
    each.name: each
    for each in (
        uniform.MECHANISM,
        subset.MECHANISM,
        levels.MECHANISM,
        small_domain.MECHANISM,
        fine_grain.MECHANISM,
        harmonic.MECHANISM,
        buckets.MECHANISM,
        anatomy.MECHANISM,
        decoys.MECHANISM,
    )
}
"""Every mechanism by its name, simple ones first: of equally good ones the first is chosen."""


def mechanism_of(name: str) -> AnyMechanism:
    """The mechanism of a name."""
    found = REGISTRY.get(name)
    if found is None:
        raise InternalError(f"there is no mechanism {name!r}. Please report this.")
    return found


UNNAMED: dict[str, dict[str, Any]] = {
    "subset": {"form": "bits"},
    "levels": {"levels": None, "importance": None},
    "small-domain": {"merge": "variance", "min_cell": None, "publish_shares": False},
    "fine-grain": {"direction": "upward", "objective": "record"},
    "harmonic": {"direction": "upward"},
    "buckets": {"sizes": "optimal", "min_bucket": 2, "max_bucket": 50, "dealing": "mixed"},
    "anatomy": {"dealing": "mixed"},
    "decoys": {"groups": "mixed", "ratio_limit": None, "rare": "keep"},
}
"""The value that an option has for a plan file that does not name it: the default when such files were written.

An option that is added gets a line here, with the value that stands for how things were before; a line is never
changed, whatever becomes of the default.
"""
