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

MECHANISMS = "sfumato.mechanisms"
"""The group of entry points that are mechanisms."""
VERIFIERS = "sfumato.verifiers"
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
        self._own = frozenset(own)
        self._entries = dict(own)
        self._added: set[str] = set()
        self._lock = threading.RLock()
        self._is_loaded = self._is_loading = False
        self._broken: list[BrokenPlugin] = []

    def __getitem__(self, name: str) -> EntryT:
        return self._loaded()[name]

    def __setitem__(self, name: str, entry: EntryT) -> None:
        self._loaded()[name] = entry

    def __delitem__(self, name: str) -> None:
        del self._loaded()[name]
        self._added.discard(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._loaded())

    def __len__(self) -> int:
        return len(self._loaded())

    @property
    def broken(self) -> tuple[BrokenPlugin, ...]:
        """The plug-ins that were left out."""
        self._loaded()
        return tuple(self._broken)

    @property
    def added(self) -> frozenset[str]:
        """The names of what was registered, and of plug-ins: `auto` never takes these."""
        self._loaded()
        return frozenset(self._added)

    def reason(self, name: str) -> str:
        """The sentence that says why the plug-in of this name was left out; empty where none was."""
        return next((plugin.sentence for plugin in self.broken if plugin.name == name and name not in self), "")

    def register(self, name: str, entry: EntryT) -> None:
        """Enters something under a new name; refused where the name is taken."""
        if not isinstance(entry, self._kind):
            raise SpecError(f"only a {self._kind.__name__} can be registered, and {name!r} is none.")
        if name in self._loaded():
            raise SpecError(f"the name {name!r} is taken; register under another name.")
        self._entries[name] = entry
        self._added.add(name)

    def _loaded(self) -> dict[str, EntryT]:
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
                whose = "sfumato" if point.name in self._own else "another plug-in"
                raise SpecError(f"the name is taken by {whose}")
            entry = point.load()
            if not isinstance(entry, self._kind):
                raise SpecError(f"{point.value} is no {self._kind.__name__}")
            if (own_name := getattr(entry, "name", point.name)) != point.name:
                raise SpecError(f"its entry point has another name than the mechanism, {own_name!r}")
            self._entries[point.name] = entry
            self._added.add(point.name)
        except Exception as error:
            distribution = "unknown" if point.dist is None else point.dist.name
            reason = str(error) if isinstance(error, SpecError) else f"it raised {type(error).__name__}"
            self._broken.append(
                BrokenPlugin(
                    distribution,
                    point.name,
                    f"the plug-in {point.name!r} of the distribution {distribution!r} was left out: {reason}.",
                )
            )
