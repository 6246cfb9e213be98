"""Where a release is to appear: as a directory or .zip here, or at an address in a store."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

from sfumato._core.object_store import Address
from sfumato._release import store_transfer as store_upload
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
    def local_path(self) -> Path:
        """A path here beside which the release is built."""
        ...

    def check(self, *, force: bool) -> None:
        """Refuse a place that cannot be written, has something, or has something else than a release."""
        ...

    def make_published_check(self, built_path: Path) -> Callable[[], bool]:
        """A way to tell, later on, whether what was built has appeared."""
        ...

    def place(self, built_path: Path, staging_folder: Path, progress: ProgressCallback, *, force: bool) -> None:
        """Let what was built appear."""
        ...


@dataclass(frozen=True)
class LocalDestination:
    """A directory, or a .zip."""

    local_path: Path

    def __str__(self) -> str:
        return str(self.local_path)

    @property
    def is_packed(self) -> bool:
        """Whether the release is to be one file."""
        return self.local_path.suffix == ".zip"

    def check(self, *, force: bool) -> None:
        """Refuse a path that cannot be written, exists, or is something else than a release."""
        check_target(self.local_path, force=force)

    def make_published_check(self, built_path: Path) -> Callable[[], bool]:
        """Whether it has the name: a file or directory stays the same one under every name."""
        return partial(is_at, self.local_path, built_path.stat())

    def place(self, built_path: Path, staging_folder: Path, progress: ProgressCallback, *, force: bool) -> None:
        """Rename it."""
        move_into_place(built_path, self.local_path, staging_folder, force=force)


@dataclass(frozen=True)
class StoreDestination:
    """An address in a store; the release is built where temporary files go."""

    address: Address

    is_packed = False

    def __str__(self) -> str:
        return str(self.address)

    @property
    def local_path(self) -> Path:
        """A path among the temporary files."""
        return Path(tempfile.gettempdir()) / "release"

    def check(self, *, force: bool) -> None:
        """Refuse an address that has a release, or anything else."""
        store_upload.check_address(self.address, force=force)

    def make_published_check(self, built_path: Path) -> Callable[[], bool]:
        """Whether its datapackage.json is at the address."""
        _, outer_manifest = store_upload.make_outer_manifest(built_path)
        return partial(store_upload.is_uploaded, outer_manifest, self.address)

    def place(self, built_path: Path, staging_folder: Path, progress: ProgressCallback, *, force: bool) -> None:
        """Put its files into the store, and then its datapackage.json."""
        store_upload.upload(built_path, self.address, force=force, progress=progress)


def make_destination(out: str | Path) -> Destination:
    """The place that is meant."""
    address = Address.of(out, TargetError)
    return LocalDestination(Path(out)) if address is None else StoreDestination(address)
