"""Destinations of a release: a local directory or .zip, or an address in a store."""

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
"""A function that is called with the current task, the amount done and the total amount."""


class Destination(Protocol):
    """A destination, where a release appears complete or not at all."""

    @property
    def is_packed(self) -> bool:
        """Whether the release will be a single file."""
        ...

    @property
    def local_path(self) -> Path:
        """A local path. The release is built beside this path."""
        ...

    def check(self, *, force: bool) -> None:
        """Refuses a destination that is not writable or is occupied. Only a release may be there already."""
        ...

    def make_published_check(self, built_path: Path) -> Callable[[], bool]:
        """A function that checks later whether the built release has appeared."""
        ...

    def place(self, built_path: Path, staging_folder: Path, progress: ProgressCallback, *, force: bool) -> None:
        """Move the built release to its destination."""
        ...


@dataclass(frozen=True)
class LocalDestination:
    """A directory, or a .zip."""

    local_path: Path

    def __str__(self) -> str:
        return str(self.local_path)

    @property
    def is_packed(self) -> bool:
        """Whether the release will be a single file."""
        return self.local_path.suffix == ".zip"

    def check(self, *, force: bool) -> None:
        """Refuse a path that is not writable, exists, or is not a release."""
        check_target(self.local_path, force=force)

    def make_published_check(self, built_path: Path) -> Callable[[], bool]:
        """Whether the path is the built file or directory, which keeps its identity when renamed."""
        return partial(is_at, self.local_path, built_path.stat())

    def place(self, built_path: Path, staging_folder: Path, progress: ProgressCallback, *, force: bool) -> None:
        """Rename it."""
        move_into_place(built_path, self.local_path, staging_folder, force=force)


@dataclass(frozen=True)
class StoreDestination:
    """An address in a store. The release is built in the folder for temporary files."""

    address: Address

    is_packed = False

    def __str__(self) -> str:
        return str(self.address)

    @property
    def local_path(self) -> Path:
        """A path among the temporary files."""
        return Path(tempfile.gettempdir()) / "release"

    def check(self, *, force: bool) -> None:
        """Refuse an address that holds a release, or other files."""
        store_upload.check_address(self.address, force=force)

    def make_published_check(self, built_path: Path) -> Callable[[], bool]:
        """Whether the address has the datapackage.json of this release."""
        _, outer_manifest = store_upload.make_outer_manifest(built_path)
        return partial(store_upload.is_uploaded, outer_manifest, self.address)

    def place(self, built_path: Path, staging_folder: Path, progress: ProgressCallback, *, force: bool) -> None:
        """Uploads the files to the store. The datapackage.json comes last."""
        store_upload.upload(built_path, self.address, force=force, progress=progress)


def make_destination(out: str | Path) -> Destination:
    """The destination of a path or an address."""
    address = Address.of(out, TargetError)
    return LocalDestination(Path(out)) if address is None else StoreDestination(address)
