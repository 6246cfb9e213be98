"""Tables in spreadsheets and databases; a password in an address appears nowhere."""

from __future__ import annotations

import datetime
import re
import sys
import traceback
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import openpyxl
import pyarrow as pa
import pytest

import sfumato
from command_line import BOUND, TEST_KEY, Outcome, content, fail, people, run, succeed, write_parquet
from postgres_server import PASSWORD, Server, serving
from refusals import refuses
from sfumato._readers import excel_files
from sfumato._readers.excel_files import MOST_CELLS
from sfumato._readers.open_table import open_source
from sfumato._readers.postgres_tables import PostgresTable
from sfumato._records import DATA_FILE
from sfumato.errors import SourceError

TABLE = pa.table(people(300, weight=[0.5, 1.25, None, 2.0], day=[datetime.date(2024, 1, 31), None]))


def keyed(table: str | Path, out: str, *more: str) -> tuple[str | Path, ...]:
    return ("publish", table, "--sensitive", "disease", *BOUND, "--unsafe-test-key", TEST_KEY, "--out", out, *more)


def same_release(desk: Path, table: str | Path, *more: str) -> Outcome:
    """Publish a table, and hold it to the release of the same table in Parquet."""
    succeed(*keyed(write_parquet(desk / "people.parquet", TABLE), "expected"))
    done = succeed(*keyed(table, "release", *more))
    assert (desk / "release" / DATA_FILE).read_bytes() == (desk / "expected" / DATA_FILE).read_bytes()
    return done


def read(table: Any, desk: Path, **how: Any) -> pa.Table:
    source = open_source(table, desk / "spool", read=sfumato.ReadOptions(**how))
    return pa.Table.from_batches(source.read_batches(source.schema.names, 50), source.schema)


# ---------------------------------------------------------------------------------------------------------------- Excel


def book(path: Path, **sheets: list[list[Any]]) -> Path:
    made = openpyxl.Workbook()
    made.remove(made.active)
    for name, rows in sheets.items():
        sheet = made.create_sheet(name)
        for row in rows:
            sheet.append(row)
    made.save(path)
    return path


def rows_of(table: pa.Table) -> list[list[Any]]:
    return [table.column_names, *(list(row.values()) for row in table.to_pylist())]


def test_sheet_gives_the_release_of_its_parquet_file(desk: Path) -> None:
    same_release(desk, book(desk / "people.xlsx", People=rows_of(TABLE)))


@pytest.mark.slow
def test_sheet_is_named_where_there_are_several(desk: Path) -> None:
    path = book(desk / "people.xlsx", Notes=[["x"], [1]], People=rows_of(TABLE))
    said = fail(desk, *keyed(path, "release"))
    assert all(fact in said for fact in ("'people.xlsx'", "2 sheets", "'people.xlsx::Notes'", "'Notes', 'People'"))
    assert "no sheet 'Nope'" in fail(desk, *keyed(f"{path}::Nope", "release"))
    same_release(desk, f"{path}::People")


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        ([1, 2.0, None], pa.array([1, 2, None])),
        ([1, 2.5], pa.array([1.0, 2.5])),
        ([250, "V45", 2.5, True], pa.array(["250", "V45", "2.5", "true"])),
        ([True, None], pa.array([True, None])),
        ([datetime.date(2024, 1, 31)], pa.array([datetime.date(2024, 1, 31)])),
        ([datetime.datetime(2024, 1, 31, 10)], pa.array([datetime.datetime(2024, 1, 31, 10)], pa.timestamp("us"))),
        ([datetime.time(10, 30)], pa.array(["10:30:00"])),
        (["007", "008"], pa.array(["007", "008"])),
        ([1, "?"], pa.array([1, None])),
    ],
    ids=str,
)
def test_cells_make_a_column_of_one_type(cells: list[Any], expected: pa.Array, desk: Path) -> None:
    path = book(desk / "t.xlsx", Sheet=[["x", "y"], *([cell, 0] for cell in cells)])
    assert read(path, desk, missing=["?"]).column("x").combine_chunks().equals(expected)


def test_rows_without_a_value_are_none(desk: Path) -> None:
    path = book(desk / "t.xlsx", Sheet=[["x", "y"], [1, 2], [None, None], [3, None], [None, None]])
    assert read(path, desk).to_pydict() == {"x": [1, 3], "y": [2, None]}


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([], "the sheet 'Sheet' is empty"),
        ([["x", None], [1, 2]], "a column of the sheet 'Sheet' has no name"),
        ([["x", "x"], [1, 2]], "two columns named 'x'"),
    ],
)
def test_sheet_without_names_is_refused(rows: list[list[Any]], words: str, desk: Path) -> None:
    assert words in fail(desk, *keyed(book(desk / "t.xlsx", Sheet=rows), "release"))


def test_file_that_is_no_spreadsheet_is_refused(desk: Path) -> None:
    (desk / "t.xlsx").write_bytes(b"PK nothing")
    assert "'t.xlsx' cannot be read as an Excel file" in fail(desk, *keyed(desk / "t.xlsx", "release"))


def with_sheet(path: Path, data: str, kind: str = "worksheet") -> Path:
    """A workbook whose only sheet has these rows in XML."""
    plain = book(path.with_suffix(".plain.xlsx"), Sheet=[["x", "y"], [1, 2]])
    with zipfile.ZipFile(plain) as old, zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as new:
        for info in old.infolist():
            is_sheet = info.filename == "xl/worksheets/sheet1.xml"
            text = f'<{kind} xmlns="{SPREADSHEET}"><sheetData>{data}</sheetData></{kind}>'
            new.writestr(info.filename, text if is_sheet else old.read(info))
    plain.unlink()
    return path


SPREADSHEET = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
NAMES = '<row r="1"><c r="A1" t="inlineStr"><is><t>x</t></is></c><c r="B1" t="inlineStr"><is><t>y</t></is></c></row>'


@pytest.mark.parametrize(
    "far",
    [
        '<row r="1048576"><c r="XFD1048576"><v>1</v></c></row>',
        '<row r="1048576"><c r="A1048576"><v>1</v></c></row><row><c r="XFD2"><v>1</v></c></row>',
        "<row r='1048576'><x:c xmlns:x='" + SPREADSHEET + "' r = 'xfd1048576'><v>1</v></x:c></row>",
        '<row r="1040000">' + "<c><v>1</v></c>" * 40 + "</row>",
    ],
    ids=["corner", "two", "prefix", "no references"],
)
def test_sheet_with_a_far_cell_is_refused_before_memory_is_taken(far: str, desk: Path) -> None:
    path = with_sheet(desk / "t.xlsx", NAMES + far)
    assert path.stat().st_size < 8000
    with refuses(SourceError, "too-many-cells", file="t.xlsx", limit=MOST_CELLS):
        read(path, desk)
    path = with_sheet(desk / "t.xlsx", NAMES + far, kind="other")
    with refuses(SourceError, "too-many-cells", file="t.xlsx", limit=MOST_CELLS):
        read(path, desk)


@pytest.mark.parametrize("sheet", ["<!DOCTYPE worksheet [<!ATTLIST c r CDATA 'A1'>]>{}", "{} and more", "{}<open>"])
def test_sheet_that_readers_may_take_differently_is_refused(sheet: str, desk: Path) -> None:
    path = with_sheet(desk / "whole.xlsx", NAMES)
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(desk / "t.xlsx", "w") as new:
        for info in old.infolist():
            text = old.read(info).decode()
            new.writestr(info.filename, sheet.format(text) if "sheet1" in info.filename else text)
    with refuses(SourceError, "damaged-file", file="t.xlsx"):
        read(desk / "t.xlsx", desk)


def test_empty_cells_far_away_are_no_matter(desk: Path) -> None:
    """Formats of whole rows and columns reach far, and hold nothing."""
    far = (
        '<row r="2"><c r="A2"><v>1</v></c><c r="B2"><v>2</v></c></row><row r="1048576"><c r="XFD1048576" s="0"/></row>'
    )
    path = with_sheet(desk / "t.xlsx", NAMES + far)
    assert read(path, desk).to_pydict() == {"x": [1], "y": [2]}


def test_cells_without_references_follow_each_other(desk: Path) -> None:
    rows = "".join("<row><c><v>1</v></c><c><v>2</v></c></row>" for _ in range(50))
    path = with_sheet(desk / "t.xlsx", NAMES.replace(' r="A1"', "").replace(' r="B1"', "").replace(' r="1"', "") + rows)
    assert read(path, desk).num_rows == 50


@pytest.mark.parametrize("is_honest", [True, False])
def test_workbook_that_unpacks_to_too_much_is_refused(
    is_honest: bool, desk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the archive says that a part is small."""
    monkeypatch.setattr(excel_files, "LARGEST_CONTENT", 4 << 20)
    path = with_sheet(desk / "t.xlsx", NAMES + " " * (9 << 20))
    assert path.stat().st_size < 30_000
    if not is_honest:
        size = next(info for info in zipfile.ZipFile(path).infolist() if info.file_size > 9 << 20).file_size
        written = path.read_bytes()
        assert written.count(size.to_bytes(4, "little")) == 2
        path.write_bytes(written.replace(size.to_bytes(4, "little"), (100).to_bytes(4, "little")))
    with refuses(SourceError, "unpacks-too-large", file="t.xlsx", limit=4194304):
        read(path, desk)


def test_workbook_of_another_kind_is_refused(desk: Path) -> None:
    """Whatever its name says: sizes of other kinds are not checked, and one cell may repeat a million times."""
    repeated = (
        '<office:document-content xmlns:office="urn:oasis:names:tc:opendocument:xmlns:office:1.0" '
        'xmlns:table="urn:oasis:names:tc:opendocument:xmlns:table:1.0"><office:body><office:spreadsheet>'
        '<table:table table:name="x"><table:table-row table:number-rows-repeated="1048576"><table:table-cell '
        'office:value-type="float" office:value="1" table:number-columns-repeated="16384"/></table:table-row>'
        "</table:table></office:spreadsheet></office:body></office:document-content>"
    )
    with zipfile.ZipFile(desk / "t.xlsx", "w", zipfile.ZIP_DEFLATED) as made:
        made.writestr("mimetype", "application/vnd.oasis.opendocument.spreadsheet")
        made.writestr("content.xml", repeated)
        made.writestr("META-INF/manifest.xml", "<manifest/>")
    with refuses(SourceError, "damaged-file", file="t.xlsx"):
        read(desk / "t.xlsx", desk)
    for name in ("t.ods", "t.xls", "t.xlsb"):
        (desk / name).write_bytes((desk / "t.xlsx").read_bytes())
        with pytest.raises(SourceError):
            read(desk / name, desk)


# --------------------------------------------------------------------------------------------------------------- DuckDB


@pytest.fixture
def database(desk: Path) -> Path:
    with duckdb.connect(desk / "hospital.duckdb") as made:
        made.register("given", TABLE)
        made.execute("CREATE TABLE people AS SELECT * FROM given")
        made.execute("CREATE SCHEMA other")
        made.execute('CREATE TABLE other."odd "" name" AS SELECT uuid() AS key, TIME \'10:00\' AS at')
        made.execute("CREATE VIEW outside AS SELECT * FROM read_text('/etc/hostname')")
    return desk / "hospital.duckdb"


@pytest.mark.slow
def test_table_in_a_duckdb_file_gives_the_release_of_its_parquet_file(database: Path) -> None:
    before = database.read_bytes()
    same_release(database.parent, f"{database}::people")
    for out in ("kept", "again"):
        succeed(*keyed(f"{database}::people", out, "--plan-file", "private.plan"))
    assert content(database.parent / "kept") == content(database.parent / "again")
    assert database.read_bytes() == before
    with duckdb.connect(database) as made:
        made.execute("UPDATE people SET age = 31 WHERE rowid = 5")
    assert "another table" in fail(
        database.parent, *keyed(f"{database}::people", "other", "--plan-file", "private.plan")
    )


def test_table_of_a_duckdb_file_is_named(database: Path) -> None:
    said = fail(database.parent, *keyed(database, "release"))
    assert said.startswith("'hospital.duckdb' contains 3 tables; name one as 'hospital.duckdb::outside'")
    found = read(f'{database}::other.odd " name', database.parent)
    assert found.schema.types == [pa.string(), pa.string()]


def test_view_cannot_read_other_files(database: Path) -> None:
    said = fail(database.parent, *keyed(f"{database}::outside", "release"))
    assert said == "'hospital.duckdb' has a view that reads other files; store it as a table first."


def test_duckdb_file_that_is_none_or_in_use_is_refused(database: Path) -> None:
    (database.parent / "broken.duckdb").write_bytes(b"no database" * 1000)
    said = fail(database.parent, *keyed("broken.duckdb", "release"))
    assert said == "'broken.duckdb' cannot be read as a DuckDB file: it is damaged, or of a newer version."


def test_part_of_one_table_is_refused(desk: Path) -> None:
    write_parquet(desk / "people.parquet", TABLE)
    assert "remove '::x'" in fail(desk, *keyed("people.parquet::x", "release"))


def test_request_file_may_name_a_table_in_a_file(database: Path) -> None:
    succeed("init", f"{database}::people", "--sensitive", "disease")
    written = (database.parent / "request.toml").read_text()
    assert 'path = "hospital.duckdb::people"' in written or f'path = "{database}::people"' in written
    succeed("plan", "request.toml", *BOUND)


# ----------------------------------------------------------------------------------------------------------- PostgreSQL


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A server with the table, whose rows lie in another order than that of its key."""
    with serving() as found:
        numbered = TABLE.append_column("number", pa.array(range(300)))
        backwards = numbered.take(pa.array(range(299, -1, -1)))
        columns = "age bigint, sex text, disease text, weight double precision, day date, number bigint PRIMARY KEY"
        found.load("people", backwards, columns)
        found.run('CREATE SCHEMA "Odd"', 'CREATE TABLE "Odd"."The ""Table" AS SELECT 1 AS x')
        found.run(
            "CREATE TYPE mood AS ENUM ('well', 'ill')",
            "CREATE DOMAIN money_ AS numeric(10, 2)",
            "CREATE TABLE kinds AS SELECT 1.50::numeric(10, 2) AS priced, 7::numeric(12) AS whole, 2.5::numeric AS "
            "free, 'ab'::char(4) AS padded, 'ill'::mood AS mood, 3.25::money_ AS money, true AS truth, 2::smallint AS "
            "small, 'c3ca2d1c-0ae0-4680-9788-df97042f2500'::uuid AS key, '10:30'::time AS at, '2024-01-31 "
            "10:00+02'::timestamptz AS moment, ARRAY[1, 2] AS several, NULL::text AS nothing",
        )
        yield found


@pytest.mark.slow
def test_table_of_a_server_is_read_by_its_key(server: Server, desk: Path) -> None:
    plan = ("--plan-file", "private.plan", "--drop", "number")
    same_release(desk, server.address("people"), "--drop", "number")
    succeed(*keyed(server.address("people"), "kept", *plan))
    server.run("UPDATE people SET sex = sex WHERE number < 100")  # which puts rows elsewhere, and changes none
    succeed(*keyed(server.address("public.people"), "again", *plan))
    assert (desk / "again" / DATA_FILE).read_bytes() == (desk / "kept" / DATA_FILE).read_bytes()


@pytest.mark.slow
def test_types_of_a_server_are_plain(server: Server, desk: Path) -> None:
    found = read(server.address("kinds"), desk)
    assert found.to_pylist() == [
        {
            "priced": 1.5,
            "whole": 7,
            "free": 2.5,
            "padded": "ab",
            "mood": "ill",
            "money": 3.25,
            "truth": True,
            "small": 2,
            "key": "c3ca2d1c-0ae0-4680-9788-df97042f2500",
            "at": "10:30:00",
            "moment": datetime.datetime(2024, 1, 31, 8, tzinfo=datetime.UTC),
            "several": "{1,2}",
            "nothing": None,
        }
    ]
    assert read(server.address('Odd.The "Table'), desk).to_pydict() == {"x": [1]}


SECRET = re.escape(PASSWORD)


@pytest.mark.slow
def test_password_is_in_no_file_and_no_message(server: Server, desk: Path) -> None:
    address = server.address("people")
    said = [
        run("init", address, "--sensitive", "disease", "-v"),
        run("plan", address, "--sensitive", "disease", *BOUND, "--drop", "number", "-v"),
        run(*keyed(address, "release", "--plan-file", "private.plan", "--drop", "number", "-v")),
        run("verify", "release", "--original", address),
        run("verify", "release", "--original", address, "--json"),
        run("measure", address, "--public", "age"),
        run("lint", address),
        run("publish", address, "--sensitive", "nothing", *BOUND, "--out", "other", "-v"),
        run("publish", address, address, "-v", "--json"),
        run("publish", server.address("nowhere"), "--sensitive", "disease", *BOUND, "--out", "other"),
        run(*keyed(address.replace("/postgres::", "/nowhere::"), "other")),
        run(*keyed(address.replace("::people", ""), "other", "--json")),
        run(*keyed(f"x{address}", "other", "--json")),
        run("query", "release", "SELECT COUNT(*) FROM release, x", "--attach", f"x={address}1"),
        run("publish", "request.toml", "--out", "other", "-v"),
    ]
    assert [each.code for each in said[:3]] == [0, 0, 0], said[:3]
    for each in said:
        assert PASSWORD not in each.out + each.err
        assert "Traceback" not in each.err
    assert all(PASSWORD.encode() not in (held or b"") for held in content(desk).values())
    assert f'path = "postgresql://steward@127.0.0.1:{server.port}/postgres::people"' in Path("request.toml").read_text()


@pytest.mark.slow
def test_what_the_server_refuses_is_said_without_the_password(server: Server, desk: Path) -> None:
    for address, code, name in (
        (server.address("people", password="wr0ng"), "wrong-password", "people"),
        (server.address("people").replace(f":{server.port}", ":1"), "no-server", "people"),
        (server.address("people", password="100%zz"), "server-refuses", "people"),
        (server.address("nowhere"), "unknown-table", "nowhere"),
    ):
        with refuses(SourceError, code, table=name) as caught:
            open_source(address, desk / "spool")
        told = "".join(traceback.format_exception(caught.value))
        secret = PostgresTable.of(address).address.split("@")[0].split(":")[-1]
        assert secret not in told


BREAKING = {
    "value": ("SELECT x::int AS y FROM notes", "unconvertible-value"),
    "number": ("SELECT ('1e40' || length(x))::numeric AS y FROM notes", "unconvertible-value"),
    "time": ("SELECT x, pg_sleep(0.01)::text AS y FROM notes, generate_series(1, 100)", "statement-timeout"),
    "connection": ("SELECT x, pg_terminate_backend(pg_backend_pid()) AS y FROM notes", "connection-lost"),
    "writing": ("SELECT x, nextval('counter') AS y FROM notes", "view-writes-data"),
}


@pytest.mark.slow
@pytest.mark.parametrize("broken", BREAKING)
def test_server_that_fails_while_it_is_read_gets_one_sentence(broken: str, server: Server, desk: Path) -> None:
    query, code = BREAKING[broken]
    server.run(
        "CREATE TABLE IF NOT EXISTS notes (x text)",
        "INSERT INTO notes SELECT 'Zelenka' WHERE NOT EXISTS (SELECT FROM notes)",
        "CREATE SEQUENCE IF NOT EXISTS counter",
        "DROP VIEW IF EXISTS breaking",
        f"CREATE VIEW breaking AS {query}",
    )
    breaking = server.address("breaking").replace("::", "?options=-cstatement_timeout%3D200::")
    assert fail(desk, *keyed(breaking, "release"))
    with refuses(SourceError, code, table="breaking") as caught:
        open_source(breaking, desk / "spool")
    assert "Zelenka" not in "".join(traceback.format_exception(caught.value))
    assert PASSWORD not in "".join(traceback.format_exception(caught.value))


@pytest.mark.slow
def test_user_without_rights_is_told_so(server: Server, desk: Path) -> None:
    server.run("CREATE ROLE guest LOGIN PASSWORD 'of-a-guest'")
    said = fail(desk, *keyed(server.address("people", user="guest", password="of-a-guest"), "release"))
    assert (
        said == "the table 'people' cannot be read from PostgreSQL: this user is not allowed to read the whole table."
    )


@pytest.mark.slow
def test_infinite_days_are_refused_by_the_name_of_their_column(server: Server, desk: Path) -> None:
    for kind in ("date", "timestamp", "timestamptz"):
        for days in ("infinity", "-infinity", "0044-03-15 BC"):
            server.run(
                "DROP TABLE IF EXISTS stays",
                f"CREATE TABLE stays AS SELECT disease, '{days}'::{kind} AS until FROM people",
            )
            said = fail(desk, *keyed(server.address("stays"), "release"))
            assert said.startswith("column 'until' holds infinite dates, or dates before the year 1 or after 9999;")


@pytest.mark.slow
def test_what_is_no_number_is_missing(server: Server, desk: Path) -> None:
    server.run(
        "CREATE TABLE odd_numbers AS SELECT 'NaN'::numeric(12) AS whole, 'NaN'::numeric AS free, 7::numeric(12) AS n"
    )
    assert read(server.address("odd_numbers"), desk).to_pylist() == [{"whole": None, "free": None, "n": 7}]


@pytest.mark.slow
def test_keys_that_are_equal_as_doubles_still_give_an_order(server: Server, desk: Path) -> None:
    """A row that is written again lies behind the others; the order must not follow that."""
    large = 10**20
    server.run("CREATE TABLE far_keys (id numeric PRIMARY KEY, x bigint)")
    server.run(f"INSERT INTO far_keys VALUES ({large + 2}, 2), ({large + 1}, 1), ({large + 3}, 3)")
    assert read(server.address("far_keys"), desk).column("x").to_pylist() == [1, 2, 3]


@pytest.mark.slow
def test_functions_of_others_do_not_choose_the_table(server: Server, desk: Path) -> None:
    server.run(
        "CREATE SCHEMA evil",
        "CREATE FUNCTION evil.lower(text) RETURNS text AS $$ SELECT 'evil.trap'::text $$ LANGUAGE sql",
        "CREATE TABLE evil.trap AS SELECT 666 AS x",
        "CREATE TABLE public.small AS SELECT 1 AS x",
    )
    with_path = server.address("PUBLIC.SMALL").replace("::", "?options=-csearch_path%3Devil,public,pg_catalog::")
    assert read(with_path, desk).to_pydict() == {"x": [1]}


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://me:p@ss/w0rd@host/db::t",
        "postgresql://me:p@ssw0rd@host/db::t",
        "postgresql://me:p@ss?w0rd@host/db::t",
        "postgresql://me:p@ssw0rd@host/db",
        "postgres://me:p@ssw0rd@host::t",
        "postgresql://me:p@ss w0rd@host/db::t",
    ],
)
def test_address_that_can_be_read_in_two_ways_is_refused_without_repeating_it(address: str, desk: Path) -> None:
    said = fail(desk, *keyed(address, "release"))
    assert said.startswith("name a table in PostgreSQL as postgresql://user@host:5432/database::schema.table")
    assert "ss" not in re.sub("address|password|pgpass|PGPASSWORD", "", said)
    verbose = run(*keyed(address, "release", "-v"))
    assert "w0rd" not in verbose.out + verbose.err


def test_address_is_shown_without_what_is_secret() -> None:
    found = PostgresTable.of("postgres://me:p%40ss@h:1/db?sslmode=require&password=x&sslpassword=y::s.t")
    assert found.safe_address == "postgresql://me@h:1/db?sslmode=require::s.t"
    assert found.address == "postgresql://me:p%40ss@h:1/db?sslmode=require&password=x&sslpassword=y"
    assert "p%40ss" not in repr(found)
    assert PostgresTable.of("postgres://me@h/db?p%61ssword=x::t").safe_address == "postgresql://me@h/db::t"
    bound = sfumato.BreachBound("1/10", "1/2")
    assert "p%40ss" not in repr(sfumato.Request(found.address, schema=sfumato.Schema.of("x", public="*"), spec=bound))


@pytest.mark.parametrize(
    ("module", "extra", "table"),
    [
        ("python_calamine", "excel", "people.xlsx"),
        ("adbc_driver_postgresql.dbapi", "postgres", "postgresql://me@host/db::people"),
    ],
)
def test_library_that_is_missing_is_named(
    module: str, extra: str, table: str, desk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (desk / "people.xlsx").write_bytes(b"")
    monkeypatch.setitem(sys.modules, module, None)
    assert f"pip install 'sfumato[{extra}]'" in fail(desk, *keyed(table, "release"))
