"""A PostgreSQL server on this machine, from Debian's packages, as the user whom they make for it."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from needs import leave_out, needs

USER, PASSWORD = "steward", "Pa55-w0rd~of!theirs"
PROGRAMS = Path("/usr/lib/postgresql")
"""Where Debian puts each version."""


@dataclass(frozen=True)
class Server:
    """Where it answers."""

    port: int

    def address(self, table: str = "", user: str = USER, password: str | None = PASSWORD) -> str:
        """The address of a table, with the password if one is given."""
        secret = "" if password is None else f":{password}"
        return f"postgresql://{user}{secret}@127.0.0.1:{self.port}/postgres" + (f"::{table}" if table else "")

    def run(self, *statements: str) -> None:
        """Run SQL as the owner of everything."""
        import adbc_driver_postgresql.dbapi as adbc  # noqa: PLC0415 - a test without a server does not need it

        with adbc.connect(self.address()) as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
            connection.commit()

    def load(self, table: str, rows: Any, columns: str) -> None:
        """Make a table of an Arrow table."""
        import adbc_driver_postgresql.dbapi as adbc  # noqa: PLC0415 - as above

        self.run(f"DROP TABLE IF EXISTS {table}", f"CREATE TABLE {table} ({columns})")
        with adbc.connect(self.address()) as connection, connection.cursor() as cursor:
            cursor.adbc_ingest(table, rows, mode="append")
            connection.commit()


@contextmanager
def serving() -> Iterator[Server]:
    """A server that is gone afterwards, with all that it holds; skips where none can be had."""
    found = sorted(PROGRAMS.glob("*/bin/pg_ctl"), key=lambda path: int(path.parts[-3]))
    control = Path(found[-1] if found else needs("pg_ctl"))
    try:
        as_user = ["runuser", "-u", "postgres", "--"] if os.getuid() == 0 and pwd.getpwnam("postgres") else []
    except KeyError:
        leave_out("user postgres")
    folder = Path(tempfile.mkdtemp(prefix="sfumato-postgres-"))
    try:
        (folder / "password").write_text(PASSWORD)
        if as_user:
            for path in (folder, folder / "password"):
                shutil.chown(path, "postgres")
        data, port = folder / "data", _free_port()
        _run(*as_user, control.with_name("initdb"), "-D", data, "-U", USER, "-A", "scram-sha-256", "--no-sync",
             "--pwfile", folder / "password", "--encoding", "UTF8", "--locale", "C.UTF-8")  # fmt: skip
        settings = f"-p {port} -k {folder} -c listen_addresses=127.0.0.1 -c fsync=off"
        _run(*as_user, control, "-D", data, "-w", "-o", settings, "-l", folder / "log", "start")
        try:
            yield Server(port)
        finally:
            _run(*as_user, control, "-D", data, "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _run(*command: Any) -> None:
    # To a file and not to a pipe: the server inherits it, and a pipe would stay open as long as the server runs.
    with tempfile.TemporaryFile() as said:
        done = subprocess.run(list(map(str, command)), stdout=said, stderr=said, cwd="/", check=False)
        said.seek(0)
        assert done.returncode == 0, said.read().decode()


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
