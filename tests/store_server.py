"""An S3 store on this machine, which can be told to refuse what a store may refuse, and remembers what it was asked."""

from __future__ import annotations

import logging
import os
import re
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow.fs as pafs
import pytest

DENIED = b"<Error><Code>AccessDenied</Code><Message>told to refuse</Message></Error>"


def make_bucket(name: str) -> str:
    """A new bucket in the store of the environment, and its address."""
    store = pafs.S3FileSystem(endpoint_override=os.environ["AWS_ENDPOINT_URL"], allow_bucket_creation=True)
    store.create_dir(name)
    return f"s3://{name}"


class Store:
    """The server: what it was asked, and what it refuses."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        """Methods and names, in their order."""
        self.refused: re.Pattern[str] | None = None
        from moto.server import DomainDispatcherApplication, create_backend_app  # noqa: PLC0415 - takes a second to load

        self.serving = DomainDispatcherApplication(create_backend_app)

    def __call__(self, environment: Any, respond: Any) -> Iterable[bytes]:
        asked = f"{environment['REQUEST_METHOD']} {environment['PATH_INFO']}"
        self.asked.append(asked)
        if self.refused is not None and self.refused.search(asked):
            environment["wsgi.input"].read(int(environment.get("CONTENT_LENGTH") or 0))
            respond("403 Forbidden", [("Content-Type", "application/xml"), ("Content-Length", str(len(DENIED)))])
            return [DENIED]
        found: Iterable[bytes] = self.serving(environment, respond)
        return found

    @contextmanager
    def refusing(self, pattern: str) -> Iterator[None]:
        """Refuse requests such as `PUT /bucket/name`."""
        self.refused = re.compile(pattern)
        try:
            yield
        finally:
            self.refused = None


@contextmanager
def serving() -> Iterator[Store]:
    """A store that the environment speaks of, with whatever credentials."""
    from werkzeug.serving import make_server  # noqa: PLC0415 - comes with moto

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    store = Store()
    server = make_server("127.0.0.1", 0, store, threaded=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.port}")
        patch.setenv("AWS_ACCESS_KEY_ID", "AKIANOBODY")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "very-secret")
        patch.setenv("AWS_REGION", "us-east-1")
        patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        yield store
    server.shutdown()
    thread.join()
    server.server_close()
