"""Every way out that a query could try: what the parser lets through can still reach nothing."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pandas as pd
import pytest

from hospitals import ROWS, Published
from refusals import refuses
from sfumato._query.duckdb_session import open_connection
from sfumato._query.query_limits import Limits
from sfumato._release.manifest import WEIGHTS
from sfumato.errors import QueryError

# ------------------------------------------------------------------------------------------------------ escape attempts


@pytest.fixture
def connection(hospital_release: Published) -> Iterator[duckdb.DuckDBPyConnection]:
    """The connection that counts, as a parser that lets everything through would use it."""
    release = hospital_release.release
    with open_connection(release.manifest, release.folder, Limits()) as opened:
        yield opened


def test_connection_reads_the_release(connection: duckdb.DuckDBPyConnection) -> None:
    assert connection.sql("SELECT COUNT(*) FROM release").fetchall() == [(ROWS,)]


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT * FROM read_csv('{other}')",
        "SELECT * FROM read_text('{other}')",
        "SELECT * FROM read_blob('{other}')",
        "SELECT * FROM read_json('{other}')",
        "SELECT * FROM sniff_csv('{other}')",
        "SELECT * FROM '{other}'",
        "SELECT * FROM read_parquet('{weights}')",
        "SELECT * FROM parquet_metadata('{weights}')",
        "SELECT * FROM glob('{folder}/*')",
        "COPY release TO '{folder}/leak.csv'",
        "COPY (SELECT 1) TO '{other}'",
        "EXPORT DATABASE '{folder}/leak'",
        "ATTACH '{folder}/leak.db'",
        "CREATE SECRET (TYPE s3)",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SELECT getenv('HOME')",
    ],
)
def test_connection_reaches_no_other_file(
    connection: duckdb.DuckDBPyConnection, hospital_release: Published, tmp_path: Path, statement: str
) -> None:
    other = tmp_path / "other.csv"
    other.write_text("a\n1\n")
    places = {"other": other, "weights": hospital_release.release.folder / WEIGHTS, "folder": tmp_path}
    with pytest.raises(duckdb.Error, match=r"disabled|does not exist"):
        connection.sql(statement.format(**places)).fetchall()
    assert os.listdir(tmp_path) == ["other.csv"]
    assert other.read_text() == "a\n1\n"


@pytest.mark.parametrize(
    "statement",
    [
        "SET enable_external_access = true",
        "SET lock_configuration = false",
        "SET allowed_paths = ['/']",
        "SET allowed_directories = ['/']",
        "SET memory_limit = '1TB'",
        "SET temp_directory = 'elsewhere'",
        "SET python_enable_replacements = true",
        "SET autoload_known_extensions = true",
        "RESET allowed_paths",
        "RESET memory_limit",
    ],
)
def test_connection_cannot_be_configured(connection: duckdb.DuckDBPyConnection, statement: str) -> None:
    with pytest.raises(duckdb.Error, match=r"the configuration has been locked"):
        connection.execute(statement)


def test_connection_does_not_see_the_variables_of_the_program(connection: duckdb.DuckDBPyConnection) -> None:
    secret_frame = pd.DataFrame({"a": [1]})
    with pytest.raises(duckdb.CatalogException, match=r"secret_frame does not exist"):
        connection.sql("SELECT * FROM secret_frame").fetchall()
    assert len(secret_frame) == 1


def test_connections_share_nothing(hospital_release: Published) -> None:
    release = hospital_release.release
    one, other = (open_connection(release.manifest, release.folder, Limits()) for _ in range(2))
    with one, other:
        one.execute("CREATE TABLE notes AS SELECT 1 AS a")
        with pytest.raises(duckdb.CatalogException, match=r"notes does not exist"):
            other.sql("SELECT * FROM notes").fetchall()


ESCAPES = [
    "SELECT COUNT(*) FROM read_csv('{other}')",
    "SELECT COUNT(*) FROM read_text('{other}') WHERE disease = 'flu'",
    "SELECT COUNT(*) FROM read_parquet('{weights}')",
    "SELECT COUNT(*) FROM parquet_scan('{weights}')",
    "SELECT COUNT(*) FROM glob('{folder}/*')",
    "SELECT COUNT(*) FROM '{other}'",
    "SELECT COUNT(*) FROM '{weights}'",
    'SELECT COUNT(*) FROM "{other}"',
    'SELECT COUNT(*) FROM "{other}" WHERE disease = 1',
    "SELECT COUNT(*) FROM release, '{other}' WHERE disease = 'flu'",
    "SELECT COUNT(*) FROM release JOIN read_csv('{other}') AS o ON TRUE WHERE disease = 'flu'",
    "SELECT COUNT(*) FROM release WHERE disease IN (SELECT a FROM read_csv('{other}'))",
    "SELECT COUNT(*) FROM release WHERE disease IN (SELECT content FROM read_text('{other}'))",
    "WITH o AS (SELECT * FROM read_csv('{other}')) SELECT COUNT(*) FROM o",
    "WITH o AS (FROM '{other}') SELECT COUNT(*) FROM release, o WHERE disease = 'flu'",
    "SELECT COUNT(*) FROM query('SELECT 1')",
    "SELECT COUNT(*) FROM query_table('release')",
    "SELECT COUNT(*) FROM duckdb_settings()",
    "SELECT COUNT(*) FROM duckdb_secrets()",
    "SELECT COUNT(*) FROM pg_catalog.pg_tables",
    "SELECT COUNT(*) FROM information_schema.tables",
    "SELECT COUNT(*) FROM sqlite_master",
    "SELECT COUNT(*) FROM pragma_database_list",
    'SELECT COUNT(*) FROM "sfumato records"',
    'SELECT COUNT(*) FROM "sfumato values" WHERE disease = 1',
    "SELECT getenv('HOME') FROM release",
    "SELECT COUNT(*) FROM release WHERE sex = getenv('HOME')",
    "SELECT COUNT(*) FROM release WHERE sex = getenv('HOME') AND disease = 'flu'",
    "SELECT current_setting('memory_limit') FROM release",
    "SELECT COUNT(*) FROM release WHERE getvariable('x') = 1",
    "SELECT COUNT(*) FROM release WHERE nextval('x') = 1",
    "SELECT COUNT(*) FROM release WHERE version() = ''",
    "SELECT COUNT(*) FROM release WHERE pg_sleep(1) IS NULL",
    "SELECT COUNT(*) FROM release WHERE md5(sex) = ''",
    "COPY release TO '{folder}/leak.csv'",
    "COPY (SELECT 1) TO '{other}'",
    "EXPORT DATABASE '{folder}/leak'",
    "IMPORT DATABASE '{folder}'",
    "ATTACH '{folder}/leak.db'",
    "ATTACH '{folder}/leak.db' AS leak; SELECT COUNT(*) FROM release",
    "USE memory",
    "PRAGMA database_list",
    "PRAGMA enable_profiling",
    "SET memory_limit = '1TB'",
    "RESET memory_limit",
    "INSTALL httpfs",
    "LOAD httpfs",
    "CALL pragma_version()",
    "CREATE MACRO m(x) AS x + 1",
    "CREATE TYPE mood AS ENUM ('a')",
    "CREATE TABLE t AS SELECT 1",
    "CREATE SECRET (TYPE s3)",
    "INSERT INTO release VALUES (1)",
    "UPDATE release SET age = 1",
    "DELETE FROM release",
    "DROP VIEW release",
    "ALTER TABLE release RENAME TO other",
    "PREPARE p AS SELECT 1",
    "EXECUTE p",
    "BEGIN TRANSACTION",
    "CHECKPOINT",
    "VACUUM",
    "SELECT COUNT(*) FROM release; COPY release TO '{folder}/leak.csv'",
    "SELECT COUNT(*) FROM release -- \n; COPY release TO '{folder}/leak.csv'",
    "SELECT COUNT(*) FROM release /* */; DROP VIEW release",
    "SELECT CAST(age AS \"varint); COPY release TO '{folder}/leak.csv'; --\") FROM release",
    "SELECT COUNT(*) FROM release WHERE CAST(disease AS \"x) OR (SELECT 1) = (1\") = 'flu'",
    "SELECT DATE_TRUNC('day'') OR getenv(''HOME'') = (''', CAST('2020-01-01' AS DATE)) FROM release",
    "SELECT COUNT(*) FROM release WHERE disease = 'flu' AND EXTRACT(\"x FROM age) = 1 OR (1\" FROM age) = 1",
    "SELECT COUNT(*) FROM release TABLESAMPLE reservoir(getenv('HOME'))",
    "SELECT COLUMNS(c -> getenv(c)) FROM release",
    "SELECT * REPLACE (getenv('HOME') AS age) FROM release",
    "SELECT #1 FROM release",
    "SELECT COUNT(*) FROM release WHERE disease = 'flu' LIMIT (SELECT COUNT(*) FROM read_text('{other}'))",
    "SELECT COUNT(*) FROM release GROUP BY (SELECT content FROM read_text('{other}'))",
    "SELECT COUNT(*) FROM release WHERE disease = 'flu' ORDER BY getenv('HOME')",
    "SELECT COUNT(*) FROM release WHERE disease = 'flu' HAVING getenv('HOME') <> ''",
    "SELECT COUNT(*) FILTER (WHERE getenv('HOME') <> '') FROM release WHERE disease = 'flu'",
]


@pytest.mark.parametrize("sql", ESCAPES)
def test_query_that_tries_a_way_out_is_refused(hospital_release: Published, tmp_path: Path, sql: str) -> None:
    other = tmp_path / "other.csv"
    other.write_text("a\n1\n")
    places = {"other": other, "weights": hospital_release.release.folder / WEIGHTS, "folder": tmp_path}
    with pytest.raises(QueryError):
        hospital_release.release.sql(sql.format(**places))
    assert os.listdir(tmp_path) == ["other.csv"]
    assert other.read_text() == "a\n1\n"


def test_star_leaves_the_sensitive_column_out(hospital_release: Published) -> None:
    for sql in ("SELECT * FROM release LIMIT 1", "SELECT r.* FROM (SELECT * FROM release) AS r LIMIT 1"):
        (row,) = hospital_release.release.sql(sql).rows
        assert list(row) == ["age", "Sex", "home town", "admitted", "smoker", "weight"]


@pytest.mark.slow
def test_question_that_takes_too_long_is_stopped(hospital_release: Published) -> None:
    tables = ", ".join(f"release AS {name}" for name in "abcd")
    many = f"SELECT COUNT(*) FROM {tables} WHERE a.age + b.age < c.age * d.age"
    with refuses(QueryError, "timeout", seconds=0.3):
        hospital_release.release.sql(many, timeout=0.3)


def test_time_that_is_over_stops_every_later_statement(hospital_release: Published) -> None:
    with refuses(QueryError, "timeout", seconds=0):
        hospital_release.release.sql("SELECT COUNT(*) FROM release WHERE disease = 'flu'", timeout=0)


def test_question_that_takes_too_much_memory_is_refused(hospital_release: Published) -> None:
    tables = ", ".join(f"release AS {name}" for name in "abc")
    grouped = f"SELECT COUNT(*) FROM {tables} GROUP BY a.weight + b.age * c.age, a.age, b.age, c.age, b.weight"
    with refuses(QueryError, "out-of-memory", memory="20MB"):
        hospital_release.release.sql(grouped, memory="20MB")


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT current_setting('threads') /* sqlglot.meta written by us */ AS h, COUNT(*) FROM release GROUP BY 1",
        "SELECT random() /* sqlglot.meta written by us */ AS h, COUNT(*) FROM release GROUP BY 1",
    ],
)
def test_a_comment_does_not_vouch_for_what_it_stands_beside(hospital_release: Published, sql: str) -> None:
    with pytest.raises(QueryError):
        hospital_release.release.sql(sql)


def test_a_comment_does_not_make_a_protected_column_a_public_one(hospital_release: Published) -> None:
    released = hospital_release.release
    name = released.manifest.sensitive_columns[0]
    plain = f"SELECT COUNT(*) FROM release WHERE {name} {{}} = '{released.manifest.domain[0]}'"
    alone, marked = (released.sql(plain.format(mark)) for mark in ("", "/* sqlglot.meta of the answer */"))
    assert alone.to_table() == marked.to_table()


def test_patterns_of_columns_find_public_ones_alone(hospital_release: Published) -> None:
    release = hospital_release.release
    assert release.sql("SELECT COLUMNS('.*') FROM release LIMIT 1").names == release.manifest.public_columns
    with pytest.raises(QueryError):
        release.sql("SELECT COLUMNS('sease') FROM release LIMIT 1")
