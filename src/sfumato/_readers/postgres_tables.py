"""Reads a table or a view in PostgreSQL through ADBC in one snapshot.

The name of a table is `postgresql://user@host/database::schema.table`. The address may contain a password, which
appears nowhere else. Messages of libpq may repeat parts of the address, so they are not shown.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

import pyarrow as pa

from sfumato._readers.optional_packages import import_optional
from sfumato._readers.reader import Opening, TableReader
from sfumato._readers.sources import MemorySource
from sfumato.errors import SourceError

SCHEME_PATTERN = re.compile(r"postgres(ql)?:/{1,2}", re.IGNORECASE)
"""The pattern also matches a single slash, because `Path` turns two slashes into one."""
ADDRESS_PATTERN = re.compile(
    r"postgres(?:ql)?:/{1,2}(?:(?P<user>[^:@/?#\s]*)(?P<password>:[^@/?#\s]*)?@)?"
    r"(?P<place>[^@/?#\s]*/[^@/?#\s]+)(?P<options>\?[^@#\s]*?)?::(?P<table>[^@?#]+)",
    re.IGNORECASE,
)
ADDRESS_HELP = (
    "name a table in PostgreSQL as postgresql://user@host:5432/database::schema.table; keep the password in "
    "~/.pgpass or PGPASSWORD, or write its special characters in percent encoding (%40 for @)."
)
PLAIN_TYPES = (
    "bool",
    "int2",
    "int4",
    "int8",
    "float4",
    "float8",
    "text",
    "varchar",
    "date",
    "timestamp",
    "timestamptz",
)
"""Types that are read unchanged. Other types are read as text, and numbers with a scale as doubles."""
WHOLE_DIGITS = 18
SNAPSHOT = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY"
COLUMNS_SQL = """
SELECT a.attname, CASE WHEN t.typtype = 'd' THEN b.typname ELSE t.typname END,
       CASE WHEN t.typtype = 'd' THEN t.typtypmod ELSE a.atttypmod END
FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_type t ON t.oid = a.atttypid
LEFT JOIN pg_catalog.pg_type b ON b.oid = t.typbasetype
WHERE a.attrelid = {oid} AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum
"""
PRIMARY_KEY_SQL = """
SELECT a.attname FROM pg_catalog.pg_index i
CROSS JOIN pg_catalog.unnest(i.indkey::pg_catalog.int2[]) WITH ORDINALITY AS k(attnum, place)
JOIN pg_catalog.pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum
WHERE i.indrelid = {oid} AND i.indisprimary ORDER BY k.place
"""
BROKEN_OFF = "the connection was interrupted"
UNCONVERTED = "one of its values cannot be converted; check the table on the server first (SELECT * FROM TABLE)"
REASONS = (
    ("password authentication failed", "wrong-password", "the user name or the password is wrong"),
    ("no password supplied", "no-password", "the server needs a password; keep it in ~/.pgpass or PGPASSWORD"),
    ("could not translate host name", "unknown-host", "there is no such host"),
    ("Connection refused", "no-server", "no server answers at this address"),
    ("timeout expired", "no-server", "no server answers at this address"),
    ("No such file or directory", "no-server", "no server answers at this address"),
    ("permission denied", "not-permitted", "this user is not allowed to read the whole table"),
    (
        "statement timeout",
        "statement-timeout",
        "the server stopped the query after its statement_timeout; allow this user more time",
    ),
    ("read-only transaction", "view-writes-data", "the view writes data; store its result as a table first"),
    ("terminating connection", "connection-lost", BROKEN_OFF),
    ("closed the connection", "connection-lost", BROKEN_OFF),
    ("closed unexpectedly", "connection-lost", BROKEN_OFF),
    ("invalid input syntax", "unconvertible-value", UNCONVERTED),
    ("out of range", "unconvertible-value", UNCONVERTED),
    ("SSL", "ssl-mismatch", "the SSL setting of the address does not fit the server"),
    ('database "', "unknown-database", "there is no such database or user"),
    ('role "', "unknown-database", "there is no such database or user"),
)
"""Parts of server messages, each with the code of the problem and our explanation."""


def open_postgres(opening: Opening) -> MemorySource:
    """Read the rows of one table or view in one snapshot, and keep them."""
    with PostgresTable.of(opening.table).open_rows() as rows:
        return MemorySource.spool_stream(rows, opening.spool, opening.row_progress)


def hide_password(address: str) -> str:
    """Write an address without its password."""
    return PostgresTable.of(address).safe_address


@dataclass(frozen=True)
class PostgresTable:
    """A table on a server."""

    address: str = field(repr=False)
    """The address, with its password if it has one."""
    safe_address: str
    """The address without its password."""
    table: str

    @classmethod
    def of(cls, name: str) -> PostgresTable:
        """Parses the address of a table. A malformed address is refused without repeating it."""
        if (match := ADDRESS_PATTERN.fullmatch(name)) is None:
            raise SourceError(ADDRESS_HELP, code="wrong-address")
        user, options = match["user"], match["options"] or ""
        user_prefix = "" if user is None else f"{user}@"
        safe_options = "&".join(
            option for option in options[1:].split("&") if option and "pass" not in unquote(option).lower()
        )
        safe_address = (
            f"postgresql://{user_prefix}{match['place']}{'?' if safe_options else ''}{safe_options}::{match['table']}"
        )
        secret = f"{user or ''}{match['password'] or ''}@" if user is not None else ""
        return cls(f"postgresql://{secret}{match['place']}{options}", safe_address, match["table"])

    @contextmanager
    def open_rows(self) -> Iterator[pa.RecordBatchReader]:
        """The rows, ordered by the primary key if there is one."""
        driver = import_optional("adbc_driver_postgresql.dbapi", "postgres", "a table in PostgreSQL")
        failure: Exception | None = None
        try:
            with driver.connect(self.address) as connection, connection.cursor() as cursor:
                cursor.execute(SNAPSHOT)
                cursor.execute(self._write_query(cursor))
                yield cursor.fetch_record_batch()
        except (driver.Error, pa.ArrowException, OSError) as error:
            if getattr(error, "errno", None) is not None:  # an error of the local disk, not of the server
                raise
            failure = error
        if failure is not None:  # outside the except block, because a traceback would show libpq's message
            code, why = next(
                ((code, reason) for mark, code, reason in REASONS if mark in str(failure)),
                ("server-refuses", "the server refuses"),
            )
            raise SourceError(
                f"the table {self.table!r} cannot be read from PostgreSQL: {why}.",
                code=code,
                fields={"table": self.table},
            ) from None

    def _write_query(self, cursor: Any) -> str:
        oid, table_sql = self._find_table(cursor)
        cursor.execute(COLUMNS_SQL.format(oid=oid))
        select_list = ", ".join(_write_column_sql(*column) for column in cursor.fetchall())
        cursor.execute(PRIMARY_KEY_SQL.format(oid=oid))
        # Qualified by the table: the bare name means the converted column, in which two keys may be equal.
        key = ", ".join(f"original.{_quote_name(name)}" for (name,) in cursor.fetchall())
        return f"SELECT {select_list} FROM {table_sql} AS original{' ORDER BY ' if key else ''}{key}"

    def _find_table(self, cursor: Any) -> tuple[int, str]:
        """The OID of the table and its SQL name: as written, or in lower case."""
        quoted = ".".join(map(_quote_name, self.table.split(".")))
        cursor.execute(
            "SELECT c.oid::pg_catalog.int8, c.oid::pg_catalog.regclass::pg_catalog.text FROM pg_catalog.pg_class c "
            "WHERE c.relkind IN ('r', 'v', 'm', 'p', 'f') AND c.oid = coalesce(pg_catalog.to_regclass($1), "
            "pg_catalog.to_regclass(pg_catalog.lower($1)))",
            (quoted,),
        )
        if (table_row := cursor.fetchone()) is None:
            raise SourceError(
                f"there is no table {self.table!r} in the database; name it as schema.table.",
                code="unknown-table",
                fields={"table": self.table},
            )
        return table_row[0], table_row[1]


def _quote_name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _write_column_sql(name: str, kind: str, modifier: int) -> str:
    quoted = _quote_name(name)
    if kind in PLAIN_TYPES:
        return quoted
    if kind != "numeric":
        return f"{quoted}::pg_catalog.text AS {quoted}"
    digits, scale = ((modifier - 4) >> 16) & 0xFFFF, (modifier - 4) & 0x7FF
    is_whole = modifier >= 0 and scale == 0 and digits <= WHOLE_DIGITS
    return f"nullif({quoted}, 'NaN')::pg_catalog.{'int8' if is_whole else 'float8'} AS {quoted}"


READER = TableReader(
    name="PostgreSQL",
    example="postgresql://user@host/database::TABLE",
    open=open_postgres,
    address_pattern=SCHEME_PATTERN,
    hide_secrets=hide_password,
    extra="postgres",
)
