"""Where a release is to appear: as a directory or .zip here, or at an address in a store."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

from sfumato._core.object_store import Address
from sfumato._release import store_upload
from sfumato._release.staging import check_target, is_at, move_into_place
from sfumato.errors import TargetError

ProgressCallback = Callable[[str, int, int | None], None]
"""Called with what is being done, how much of it is done, and how much there is."""


class Destination(Protocol):
    """A place for a release, which appears there whole or not at all."""

    @property
    def is_packed(self) -> bool:
        """Whether the release is to be one file."""
        ...

    @property
    def beside(self) -> Path:
        """A path here beside which the release is built."""
        ...

    def check(self, *, force: bool) -> None:
        """Refuse a place that cannot be written, has something, or has something else than a release."""
        ...

    def is_out(self, built: Path) -> Callable[[], bool]:
        """A way to tell, later on, whether what was built has appeared."""
        ...

    def place(self, built: Path, workshop: Path, told: ProgressCallback, *, force: bool) -> None:
        """Let what was built appear."""
        ...


@dataclass(frozen=True)
class LocalDestination:
    """A directory, or a .zip."""

    beside: Path

    def __str__(self) -> str:
        return str(self.beside)

    @property
    def is_packed(self) -> bool:
        """Whether the release is to be one file."""
        return self.beside.suffix == ".zip"

    def check(self, *, force: bool) -> None:
        """Refuse a path that cannot be written, exists, or is something else than a release."""
        check_target(self.beside, force=force)

    def is_out(self, built: Path) -> Callable[[], bool]:
        """Whether it has the name: a file or directory stays the same one under every name."""
        return partial(is_at, self.beside, built.stat())

    def place(self, built: Path, workshop: Path, told: ProgressCallback, *, force: bool) -> None:
        """Rename it."""
        move_into_place(built, self.beside, workshop, force=force)


@dataclass(frozen=True)
class StoreDestination:
    """An address in a store; the release is built where temporary files go."""

    address: Address

    is_packed = False

    def __str__(self) -> str:
        return str(self.address)

    @property
    def beside(self) -> Path:
        """A path among the temporary files."""
        return Path(tempfile.gettempdir()) / "release"

    def check(self, *, force: bool) -> None:
        """Refuse an address that has a release, or anything else."""
        store_upload.check_address(self.address, force=force)

    def is_out(self, built: Path) -> Callable[[], bool]:
        """Whether its datapackage.json is at the address."""
        _, outer = store_upload.make_outer_manifest(built)
        return partial(store_upload.is_out, outer, self.address)

    def place(self, built: Path, workshop: Path, told: ProgressCallback, *, force: bool) -> None:
        """Put its files into the store, and then its datapackage.json."""
        store_upload.upload(built, self.address, force=force, progress=told)


def make_destination(out: str | Path) -> Destination:
    """The place that is meant."""
    address = Address.of(out, TargetError)
    return LocalDestination(Path(out)) if address is None else StoreDestination(address)
