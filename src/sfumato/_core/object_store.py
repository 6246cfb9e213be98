"""Object stores: what has an address such as `s3://bucket/folder/name` and no path, reached through pyarrow.fs.

An address names a place and nothing else, because it stands in messages and in files: who may go there, and at which
endpoint, is for the environment to say (`AWS_ACCESS_KEY_ID`, `AWS_PROFILE`, `AWS_REGION`, `AWS_ENDPOINT_URL`, ...).
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import shutil
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs

from sfumato.errors import SfumatoError

SCHEMES = {"s3": "s3", "s3a": "s3", "gs": "gs", "gcs": "gs", "abfs": "abfs", "abfss": "abfss"}
"""The stores that pyarrow knows, by all their names."""
PIECE_BYTES = 1 << 23
"""What is asked for at once: every request waits for the network."""
SPARK_PREFIX = "spark:"
"""What the name of a table begins with that Spark knows: no path, and no address."""
_ADDRESS = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/{1,2}([^/].*)?", re.DOTALL)
"""With one slash too, which is what a `Path` makes of two."""


@dataclass(frozen=True, slots=True, order=True)
class Address:
    """A file or a folder in a store. It can be pickled: whoever gets it goes there with an environment of their own."""

    scheme: str
    key: str
    """The bucket, and the name in it."""

    @classmethod
    def of(cls, location: str | Path, error: type[SfumatoError]) -> Address | None:
        """The address that is meant; None where it is a path. What is neither is refused without repeating it."""
        match = _ADDRESS.fullmatch(str(location))
        scheme = SCHEMES.get(match[1].lower()) if match else None
        if match is None or scheme is None:
            return None
        bucket, *names = (match[2] or "").rstrip("/").split("/")
        # An account of abfs stands behind the @; a password stands before it in all others, and behind a colon.
        if not bucket or ":" in bucket or ("@" in bucket and not scheme.startswith("abfs")) or "?" in str(location):
            raise error(
                "an address names a bucket and what is in it, such as s3://bucket/name, and no more: credentials, "
                "regions and endpoints are taken from the environment (AWS_PROFILE, AWS_ENDPOINT_URL, ...)."
            )
        if any(name in ("", ".", "..") for name in names):
            raise error("a name in an address is empty, . or ..; write it out.")
        return cls(scheme, "/".join([bucket, *names]))

    def __str__(self) -> str:
        return f"{self.scheme}://{self.key}"

    def __truediv__(self, name: str) -> Address:
        return Address(self.scheme, f"{self.key}/{name}")

    @property
    def name(self) -> str:
        """The last part of the name."""
        return PurePosixPath(self.key).name

    @property
    def suffix(self) -> str:
        """What the name ends with, from its last dot on."""
        return PurePosixPath(self.key).suffix

    @property
    def parent(self) -> Address:
        """The folder that it is in."""
        return Address(self.scheme, str(PurePosixPath(self.key).parent))

    def relative_to(self, folder: Address) -> PurePosixPath:
        """Its name from a folder on."""
        return PurePosixPath(self.key).relative_to(folder.key)

    @property
    def _path(self) -> str:
        """What the store calls it; in an address of abfs, the account stands behind the container."""
        bucket, slash, name = self.key.partition("/")
        return bucket.partition("@")[0] + slash + name

    @property
    def _store(self) -> pafs.FileSystem:
        names = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
        endpoint = next((os.environ[name] for name in names if os.environ.get(name)), None)
        return _open_store(self.scheme, self.key.partition("/")[0], endpoint)

    def is_file(self) -> bool:
        """Whether a file is there."""
        return bool(self._store.get_file_info(self._path).type == pafs.FileType.File)

    def is_dir(self) -> bool:
        """Whether there is anything below it."""
        return bool(self._store.get_file_info(self._path).type == pafs.FileType.Directory)

    @property
    def size(self) -> int:
        """How many bytes the file has."""
        return int(self._store.get_file_info(self._path).size or 0)

    def list_files(self, *, is_deep: bool = True) -> list[Address]:
        """The files in the folder, in the order of their names; those in its folders too."""
        selector = pafs.FileSelector(self._path, allow_not_found=True, recursive=is_deep)
        paths = [info.path for info in self._store.get_file_info(selector) if info.type == pafs.FileType.File]
        return [Address(self.scheme, self.key + path.removeprefix(self._path)) for path in sorted(paths)]

    def read_version(self) -> str:
        """A digest of what the store says of the file, which is another one as soon as the file is written again."""
        info = self._store.get_file_info(self._path)
        with self._store.open_input_stream(self._path) as file:
            metadata = {name.lower(): value for name, value in (file.metadata() or {}).items()}
        tag = next((metadata[name] for name in ("etag", "generation") if name in metadata), b"")
        return hashlib.sha256(repr((str(self), info.size, info.mtime_ns, tag)).encode()).hexdigest()

    # ---------------------------------------------------------------------------------------------- reading and writing

    def open_seekable(self) -> pa.NativeFile:
        """The file as Arrow reads it: from any place in it."""
        return self._store.open_input_file(self._path)

    def open(self, mode: str = "r", newline: str | None = None, encoding: str = "utf-8") -> Any:
        """The file from its first byte on, as `Path.open` gives it to readers."""
        file = self._store.open_input_stream(self._path, compression=None, buffer_size=PIECE_BYTES)
        return file if mode == "rb" else io.TextIOWrapper(file, encoding=encoding, newline=newline)

    def read_bytes(self, most: int) -> bytes:
        """What is in a file that is not larger than this."""
        with self._store.open_input_stream(self._path, compression=None) as file:
            content: bytes = file.read(most + 1)
        if len(content) > most:
            raise OSError(f"a file is larger than {most} bytes.")
        return content

    def fetch(self, target: Path) -> None:
        """Copy the file to a new one of ours, which nobody else may read."""
        target.parent.mkdir(mode=0o700, exist_ok=True)
        descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with open(descriptor, "wb") as sink, self.open("rb") as file:
            shutil.copyfileobj(file, sink, PIECE_BYTES)

    def put(self, source: Path | bytes) -> None:
        """Write the file. It appears at the end, and bytes appear whole or not at all."""
        with self._store.open_output_stream(self._path, compression=None) as sink:
            if isinstance(source, bytes):
                sink.write(source)
                return
            with source.open("rb") as file:
                shutil.copyfileobj(file, sink, PIECE_BYTES)

    def remove(self) -> None:
        """Remove the file, or the folder with all that is in it; there may be none."""
        if self.is_file():
            self._store.delete_file(self._path)
        elif self.is_dir():
            self._store.delete_dir(self._path)


def is_spark_name(table: object) -> bool:
    """Whether a table is named as Spark knows it."""
    return isinstance(table, str) and table.startswith(SPARK_PREFIX)


@dataclass(frozen=True, slots=True)
class BufferFile:
    """A file of ours that has no name on the disk, such as what came in by standard input."""

    name: str
    """What it is called in messages; its ending says what it is."""
    content: pa.Buffer = field(repr=False)

    @property
    def suffix(self) -> str:
        """What the name ends with, from its last dot on."""
        return PurePosixPath(self.name).suffix

    def open_seekable(self) -> pa.NativeFile:
        """The file as Arrow reads it: from any place in it."""
        return pa.BufferReader(self.content)

    def open(self, mode: str = "r", newline: str | None = None, encoding: str = "utf-8") -> Any:
        """The file from its first byte on, as `Path.open` gives it to readers."""
        file = self.open_seekable()
        return file if mode == "rb" else io.TextIOWrapper(file, encoding=encoding, newline=newline)


File = Path | Address | BufferFile
"""What can be read from its first byte to its last."""


def open_for_arrow(file: File) -> Any:
    """A file as Arrow takes it."""
    return file if isinstance(file, Path) else file.open_seekable()


def read_file_version(file: File) -> str | None:
    """What a store says of a file, so that nobody need read it to know whether it is still the same; None of a path."""
    return file.read_version() if isinstance(file, Address) else None


@lru_cache(maxsize=64)
def _open_store(scheme: str, bucket: str, endpoint: str | None) -> pafs.FileSystem:
    """The store that has a bucket. Not every pyarrow looks for the endpoint in the environment."""
    try:
        if scheme == "s3" and endpoint is not None:
            return pafs.S3FileSystem(endpoint_override=endpoint)
        return pafs.FileSystem.from_uri(f"{scheme}://{bucket}")[0]
    except pa.ArrowException as error:
        raise OSError(f"{scheme}: no such store") from error
