"""Finds mechanisms and verifiers by name: ours, those registered by a program, and those of installed plug-ins.

A plug-in is a distribution with an entry point in a group of ours; the name of the entry point is the mechanism's name.
Plug-ins are loaded when a registry is first asked for something. One that cannot be loaded is left out and named.
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
    """The distribution that brings it."""
    name: str
    """The name of its mechanism."""
    sentence: str
    """Why it was left out, in one sentence."""


class Registry(MutableMapping[str, EntryT], Generic[EntryT]):
    """Entries by the name of a mechanism: ours first, then those of plug-ins by name."""

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
        """The names of what was registered, and of plug-ins: `auto` never takes these."""
        self._load_entries()
        return frozenset(self._added_names)

    def find_reason(self, name: str) -> str:
        """The sentence that says why the plug-in of this name was left out; empty where none was."""
        return next((plugin.sentence for plugin in self.broken_plugins if plugin.name == name and name not in self), "")

    def register(self, name: str, entry: EntryT) -> None:
        """Enters something under a new name; refused where the name is taken."""
        if not isinstance(entry, self._kind):
            raise SpecError(f"only a {self._kind.__name__} can be registered, and {name!r} is none.")
        if name in self._load_entries():
            raise SpecError(f"the name {name!r} is taken; register under another name.")
        self._entries[name] = entry
        self._added_names.add(name)

    def _load_entries(self) -> dict[str, EntryT]:
        if not self._is_loaded:
            with self._lock:
                self._load_once()
        return self._entries

    def _load_once(self) -> None:
        if self._is_loading:  # or done by another thread; a plug-in may ask the registry while it is imported
            return
        self._is_loading = True
        for point in sorted(entry_points(group=self._group), key=lambda point: point.name):
            self._load(point)
        self._is_loaded = True

    def _load(self, point: EntryPoint) -> None:
        """Loads one plug-in; whatever goes wrong with it is told, and touches no other."""
        try:
            if point.name in self._entries:
                owner = "sfumato" if point.name in self._own_names else "another plug-in"
                raise SpecError(f"the name is taken by {owner}")
            entry = point.load()
            if not isinstance(entry, self._kind):
                raise SpecError(f"{point.value} is no {self._kind.__name__}")
            if (own_name := getattr(entry, "name", point.name)) != point.name:
                raise SpecError(f"its entry point has another name than the mechanism, {own_name!r}")
            self._entries[point.name] = entry
            self._added_names.add(point.name)
        except Exception as error:
            distribution = "unknown" if point.dist is None else point.dist.name
            reason = str(error) if isinstance(error, SpecError) else f"it raised {type(error).__name__}"
            self._broken_plugins.append(
                BrokenPlugin(
                    distribution,
                    point.name,
                    f"the plug-in {point.name!r} of the distribution {distribution!r} was left out: {reason}.",
                )
            )
