"""Finds mechanisms and verifiers by name. They are built in, registered by a program, or installed as plug-ins.

A plug-in is a distribution with an entry point in one of our groups; the entry point has the mechanism's name. Plug-ins
are loaded at the first use of a registry. A plug-in that cannot be loaded is left out and listed.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Generic, TypeVar

from sfumato.errors import SpecError

MECHANISM_GROUP = "sfumato.mechanisms"
"""The group of entry points that are mechanisms."""
VERIFIER_GROUP = "sfumato.verifiers"
"""The group of entry points that are verifiers."""

EntryT = TypeVar("EntryT")


@dataclass(frozen=True, slots=True)
class BrokenPlugin:
    """A plug-in that was left out."""

    distribution: str
    """The installed package that provides the plug-in."""
    name: str
    """The name of the plug-in's mechanism."""
    sentence: str
    """The reason why the plug-in was left out, in one sentence."""


class Registry(MutableMapping[str, EntryT], Generic[EntryT]):
    """Entries by the name of a mechanism: first the built-in entries, then plug-ins sorted by name."""

    def __init__(self, group: str, kind: type[EntryT], own: Mapping[str, EntryT]) -> None:
        self._group, self._kind = group, kind
        self._own_names = frozenset(own)
        self._entries = dict(own)
        self._added_names: set[str] = set()
        self._lock = threading.RLock()
        self._is_loaded = self._is_loading = False
        self._broken_plugins: list[BrokenPlugin] = []

    def __getitem__(self, name: str) -> EntryT:
        return self._load_entries()[name]

    def __setitem__(self, name: str, entry: EntryT) -> None:
        self._load_entries()[name] = entry

    def __delitem__(self, name: str) -> None:
        del self._load_entries()[name]
        self._added_names.discard(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._load_entries())

    def __len__(self) -> int:
        return len(self._load_entries())

    @property
    def broken_plugins(self) -> tuple[BrokenPlugin, ...]:
        """The plug-ins that were left out."""
        self._load_entries()
        return tuple(self._broken_plugins)

    @property
    def added_names(self) -> frozenset[str]:
        """The names of registered mechanisms and plug-ins. `auto` never chooses them."""
        self._load_entries()
        return frozenset(self._added_names)

    def find_reason(self, name: str) -> str:
        """The sentence that says why the plug-in of this name was left out; empty if no plug-in was."""
        return next((plugin.sentence for plugin in self.broken_plugins if plugin.name == name and name not in self), "")

    def register(self, name: str, entry: EntryT) -> None:
        """Adds an entry under a new name; refuses a name that is in use."""
        if not isinstance(entry, self._kind):
            raise SpecError(
                f"{name!r} is not a {self._kind.__name__}; only such objects can be registered.",
                code="not-registrable",
                fields={"name": name, "expected": self._kind.__name__},
            )
        if name in self._load_entries():
            raise SpecError(
                f"the name {name!r} is already in use; choose another name.", code="name-taken", fields={"name": name}
            )
        self._entries[name] = entry
        self._added_names.add(name)

    def _load_entries(self) -> dict[str, EntryT]:
        if not self._is_loaded:
            with self._lock:
                self._load_once()
        return self._entries

    def _load_once(self) -> None:
        if self._is_loading:  # another thread may have loaded it; a plug-in may use the registry during its import
            return
        self._is_loading = True
        for point in sorted(entry_points(group=self._group), key=lambda point: point.name):
            self._load(point)
        self._is_loaded = True

    def _load(self, point: EntryPoint) -> None:
        """Loads one plug-in. An error is recorded and does not affect other plug-ins."""
        try:
            if point.name in self._entries:
                owner = "sfumato" if point.name in self._own_names else "another plug-in"
                raise SpecError(f"{owner} already uses the name", code="name-taken", fields={"name": point.name})
            entry = point.load()
            if not isinstance(entry, self._kind):
                raise SpecError(
                    f"{point.value} is not a {self._kind.__name__}",
                    code="not-registrable",
                    fields={"name": point.name, "expected": self._kind.__name__},
                )
            if (own_name := getattr(entry, "name", point.name)) != point.name:
                raise SpecError(
                    f"its entry point must have the mechanism's name, {own_name!r}",
                    code="name-differs",
                    fields={"name": point.name, "own_name": own_name},
                )
            self._entries[point.name] = entry
            self._added_names.add(point.name)
        except Exception as error:
            distribution = "unknown" if point.dist is None else point.dist.name
            reason = str(error) if isinstance(error, SpecError) else f"its import raised {type(error).__name__}"
            self._broken_plugins.append(
                BrokenPlugin(
                    distribution,
                    point.name,
                    f"the plug-in {point.name!r} of the package {distribution!r} was left out: {reason}.",
                )
            )
