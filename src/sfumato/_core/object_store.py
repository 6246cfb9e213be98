"""Reads and writes files in object stores with pyarrow.fs.

Such a file has an address, such as `s3://bucket/folder/name`, instead of a path.

An address contains only a location, because messages and files repeat it. Credentials and endpoints come from the
environment (`AWS_ACCESS_KEY_ID`, `AWS_PROFILE`, `AWS_REGION`, `AWS_ENDPOINT_URL`, ...).
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
"""The stores that pyarrow supports, by each name that users may write."""
PIECE_BYTES = 1 << 23
"""The size of a single request, which is large because every request waits for the network."""
SPARK_PREFIX = "spark:"
"""The prefix of the name of a Spark table, which is neither a path nor an address."""
_ADDRESS = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/{1,2}([^/].*)?", re.DOTALL)
"""A single slash is accepted too, because `Path` turns two slashes into one."""


@dataclass(frozen=True, slots=True, order=True)
class Address:
    """A file or a folder in a store.

    It can be pickled. The process that receives it uses the credentials of its own environment.
    """

    scheme: str
    key: str
    """The bucket, and the name of the file in the bucket."""

    @classmethod
    def of(cls, location: str | Path, error: type[SfumatoError]) -> Address | None:
        """Parses an address. None for a path. An error message never repeats an invalid address."""
        match = _ADDRESS.fullmatch(str(location))
        scheme = SCHEMES.get(match[1].lower()) if match else None
        if match is None or scheme is None:
            return None
        bucket, *names = (match[2] or "").rstrip("/").split("/")
        # An abfs account stands after the @. In other addresses, a password stands before it, after a colon.
        if not bucket or ":" in bucket or ("@" in bucket and not scheme.startswith("abfs")) or "?" in str(location):
            raise error(
                "an address contains only a bucket and the name of a file or folder, such as s3://bucket/name. "
                "Credentials, regions and endpoints are taken from the environment (AWS_PROFILE, AWS_ENDPOINT_URL, "
                "...).",
                code="wrong-address",
            )
        if any(name in ("", ".", "..") for name in names):
            raise error(
                "a part of the address is empty, '.' or '..'; write every folder by its name.", code="wrong-address"
            )
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
        """The ending of the name, from its last dot."""
        return PurePosixPath(self.key).suffix

    @property
    def parent(self) -> Address:
        """The folder that contains this file or folder."""
        return Address(self.scheme, str(PurePosixPath(self.key).parent))

    def relative_to(self, folder: Address) -> PurePosixPath:
        """The name relative to a folder above it."""
        return PurePosixPath(self.key).relative_to(folder.key)

    @property
    def _path(self) -> str:
        """The name in the store; in an abfs address, the account stands after the container."""
        bucket, slash, name = self.key.partition("/")
        return bucket.partition("@")[0] + slash + name

    @property
    def _store(self) -> pafs.FileSystem:
        names = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
        endpoint = next((os.environ[name] for name in names if os.environ.get(name)), None)
        return _open_store(self.scheme, self.key.partition("/")[0], endpoint)

    def is_file(self) -> bool:
        """Whether a file exists at this address."""
        return bool(self._store.get_file_info(self._path).type == pafs.FileType.File)

    def is_dir(self) -> bool:
        """Whether a folder with content exists at this address."""
        return bool(self._store.get_file_info(self._path).type == pafs.FileType.Directory)

    @property
    def size(self) -> int:
        """The size of the file in bytes."""
        return int(self._store.get_file_info(self._path).size or 0)

    def list_files(self, *, is_deep: bool = True) -> list[Address]:
        """The files in the folder, sorted by name. With `is_deep`, the files in its subfolders are included."""
        selector = pafs.FileSelector(self._path, allow_not_found=True, recursive=is_deep)
        paths = [info.path for info in self._store.get_file_info(selector) if info.type == pafs.FileType.File]
        return [Address(self.scheme, self.key + path.removeprefix(self._path)) for path in sorted(paths)]

    def read_version(self) -> str:
        """A digest of the store's metadata of the file, which changes whenever the file is written."""
        info = self._store.get_file_info(self._path)
        with self._store.open_input_stream(self._path) as file:
            metadata = {name.lower(): value for name, value in (file.metadata() or {}).items()}
        tag = next((metadata[name] for name in ("etag", "generation") if name in metadata), b"")
        return hashlib.sha256(repr((str(self), info.size, info.mtime_ns, tag)).encode()).hexdigest()

    # ---------------------------------------------------------------------------------------------- reading and writing

    def open_seekable(self) -> pa.NativeFile:
        """Opens the file for Arrow, with random access."""
        return self._store.open_input_file(self._path)

    def open(self, mode: str = "r", newline: str | None = None, encoding: str = "utf-8") -> Any:
        """Opens the file from its first byte, like `Path.open`."""
        file = self._store.open_input_stream(self._path, compression=None, buffer_size=PIECE_BYTES)
        return file if mode == "rb" else io.TextIOWrapper(file, encoding=encoding, newline=newline)

    def read_bytes(self, most: int) -> bytes:
        """The content of a file, which must not be larger than `most`."""
        with self._store.open_input_stream(self._path, compression=None) as file:
            content: bytes = file.read(most + 1)
        if len(content) > most:
            raise OSError(f"a file is larger than {most} bytes.")
        return content

    def fetch(self, target: Path) -> None:
        """Copies the file to a new local file that no other user can read."""
        target.parent.mkdir(mode=0o700, exist_ok=True)
        descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with open(descriptor, "wb") as sink, self.open("rb") as file:
            shutil.copyfileobj(file, sink, PIECE_BYTES)

    def put(self, source: Path | bytes) -> None:
        """Writes the file. The file appears in the store when its last byte was written."""
        with self._store.open_output_stream(self._path, compression=None) as sink:
            if isinstance(source, bytes):
                sink.write(source)
                return
            with source.open("rb") as file:
                shutil.copyfileobj(file, sink, PIECE_BYTES)

    def remove(self) -> None:
        """Removes the file, or the folder with all its contents, if there is one."""
        if self.is_file():
            self._store.delete_file(self._path)
        elif self.is_dir():
            self._store.delete_dir(self._path)


def is_spark_name(table: object) -> bool:
    """Whether a table is given by its name in Spark."""
    return isinstance(table, str) and table.startswith(SPARK_PREFIX)


@dataclass(frozen=True, slots=True)
class BufferFile:
    """A local file without a name on the disk, such as standard input."""

    name: str
    """The name shown in messages; its ending gives the format."""
    content: pa.Buffer = field(repr=False)

    @property
    def suffix(self) -> str:
        """The ending of the name, from its last dot."""
        return PurePosixPath(self.name).suffix

    def open_seekable(self) -> pa.NativeFile:
        """Opens the file for Arrow, with random access."""
        return pa.BufferReader(self.content)

    def open(self, mode: str = "r", newline: str | None = None, encoding: str = "utf-8") -> Any:
        """Opens the file from its first byte, like `Path.open`."""
        file = self.open_seekable()
        return file if mode == "rb" else io.TextIOWrapper(file, encoding=encoding, newline=newline)


File = Path | Address | BufferFile
"""A file that can be read from its first byte to its last."""


def open_for_arrow(file: File) -> Any:
    """Converts a file to a form that Arrow accepts."""
    return file if isinstance(file, Path) else file.open_seekable()


def read_file_version(file: File) -> str | None:
    """The version of a file in a store, which shows changes without reading the file. None for a path."""
    return file.read_version() if isinstance(file, Address) else None


@lru_cache(maxsize=64)
def _open_store(scheme: str, bucket: str, endpoint: str | None) -> pafs.FileSystem:
    """The store with a bucket. Not every version of pyarrow reads the endpoint from the environment."""
    try:
        if scheme == "s3" and endpoint is not None:
            return pafs.S3FileSystem(endpoint_override=endpoint)
        return pafs.FileSystem.from_uri(f"{scheme}://{bucket}")[0]
    except pa.ArrowException as error:
        raise OSError(f"{scheme}: no such store") from error
