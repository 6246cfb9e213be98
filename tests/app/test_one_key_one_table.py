"""A key that is kept protects one table: no reader takes another table for it, and no draw is shared by two tables."""

from __future__ import annotations

import gzip
import io
import json
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import openpyxl
import polars
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pyreadstat
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accepted import ALL_ACCEPTED
from command_line import content, write_csv
from postgres_server import Server, serving
from refusals import refuses
from releases import WAYS, known_key
from sfumato import BreachBound, Request, Schema, publish
from sfumato._core.random_draws import Draws
from sfumato._planning.plan_file import PlanFile, RequestRecord
from sfumato._readers.open_table import open_source
from sfumato._readers.reader_registry import READERS
from sfumato.errors import ReleaseFormatError
from sfumato.mechanisms import REGISTRY

ROWS = 60
DISEASES = ("asthma", "cold", "flu", "gout", "HIV")
BOUND = BreachBound("1/10", "1/2")


def table_of(shift: int) -> pa.Table:
    """A table of people in one order, whose diseases are others for another shift."""
    return pa.table(
        {
            "sex": ["F", "M", "M"] * (ROWS // 3),
            "disease": [DISEASES[(row * 7 + row // 11 + shift) % len(DISEASES)] for row in range(ROWS)],
        }
    )


ONE, OTHER = table_of(0), table_of(1)


def write_each(desk: Path, ending: str, write: Callable[[pa.Table, Path], object]) -> tuple[Path, Path]:
    for table, name in ((ONE, "one"), (OTHER, "other")):
        write(table, desk / (name + ending))
    return desk / f"one{ending}", desk / f"other{ending}"


def write_lines(table: pa.Table, path: Path) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))


def write_packed(table: pa.Table, path: Path) -> None:
    plain = write_csv(path.with_suffix(".plain"), table.to_pydict())
    path.write_bytes(gzip.compress(plain.read_bytes()))


def sheets_of_one_book(desk: Path) -> tuple[str, str]:
    book = openpyxl.Workbook()
    book.remove(book.active)
    for name, table in (("one", ONE), ("other", OTHER)):
        sheet = book.create_sheet(name)
        sheet.append(table.column_names)
        for row in table.to_pylist():
            sheet.append(list(row.values()))
    book.save(desk / "book.xlsx")
    return f"{desk}/book.xlsx::one", f"{desk}/book.xlsx::other"


def tables_of_one_database(desk: Path) -> tuple[str, str]:
    with duckdb.connect(str(desk / "base.duckdb")) as database:
        for name, table in (("one", ONE), ("other", OTHER)):
            database.register("rows", table)
            database.execute(f"CREATE TABLE {name} AS SELECT * FROM rows")
    return f"{desk}/base.duckdb::one", f"{desk}/base.duckdb::other"


def labelled_by(write: Callable[..., object]) -> Callable[[pa.Table, Path], object]:
    """Write diseases as codes with labels, as statistics packages do."""

    def written(table: pa.Table, path: Path) -> object:
        frame = table.to_pandas()
        frame["disease"] = frame["disease"].map(DISEASES.index)
        return write(frame, str(path), variable_value_labels={"disease": dict(enumerate(DISEASES))})

    return written


def files_with_other_labels(desk: Path) -> tuple[Path, Path]:
    """The same codes, whose labels differ: what is published differs too."""
    frame = ONE.to_pandas()
    frame["disease"] = frame["disease"].map(DISEASES.index)
    for name, labels in (("one", DISEASES), ("other", DISEASES[::-1])):
        pyreadstat.write_sav(frame, desk / f"{name}.sav", variable_value_labels={"disease": dict(enumerate(labels))})
    return desk / "one.sav", desk / "other.sav"


def folders_with_a_file_in_common(desk: Path) -> tuple[str, str]:
    for name, table in (("one", ONE), ("other", OTHER)):
        (desk / name).mkdir()
        pq.write_table(ONE.slice(0, ROWS // 2), desk / name / "a.parquet")
        pq.write_table(table.slice(ROWS // 2), desk / name / "b.parquet")
    return f"{desk}/one", f"{desk}/other"


TABLES: dict[str, Callable[[Path], tuple[Any, Any]]] = {
    "CSV": lambda desk: write_each(desk, ".csv", lambda table, path: write_csv(path, table.to_pydict())),
    "Parquet": lambda desk: write_each(desk, ".parquet", pq.write_table),
    "Arrow": lambda desk: write_each(desk, ".feather", pyarrow.feather.write_feather),
    "JSON lines": lambda desk: write_each(desk, ".jsonl", write_lines),
    "Excel": sheets_of_one_book,
    "DuckDB": tables_of_one_database,
    "SPSS": lambda desk: write_each(desk, ".sav", labelled_by(pyreadstat.write_sav)),
    "Stata": lambda desk: write_each(desk, ".dta", labelled_by(pyreadstat.write_dta)),
    "SAS transport": lambda desk: write_each(
        desk, ".xpt", lambda table, path: pyreadstat.write_xport(table.to_pandas(), path)
    ),
    "Arrow table": lambda desk: (ONE, OTHER),
    "Arrow stream": lambda desk: (ONE.to_reader(), OTHER.to_reader()),
    "pandas": lambda desk: (ONE.to_pandas(), OTHER.to_pandas()),
    "polars": lambda desk: (polars.from_arrow(ONE), polars.from_arrow(OTHER)),
}
"""Two tables for each reader; in one file, where a file has several tables."""
ELSEWHERE = {"PostgreSQL", "Spark", "SAS"}
"""PostgreSQL is tried below, and Spark, which is read through Parquet files, in `tests/spark`; nothing here writes data
sets of SAS, which are read by the same functions as its transport files."""

FORMS: dict[str, Callable[[Path], tuple[Any, Any]]] = {
    **TABLES,
    "packed": lambda desk: write_each(desk, ".csv.gz", write_packed),
    "several files": folders_with_a_file_in_common,
    "compressed SPSS": lambda desk: write_each(
        desk, ".zsav", labelled_by(partial(pyreadstat.write_sav, compress=True))
    ),
    "labels": files_with_other_labels,
}


def test_every_reader_is_tried() -> None:
    assert TABLES.keys() | ELSEWHERE == READERS.keys()


def refuse_other(one: Any, other: Any, desk: Path) -> None:
    """Publish a table with a plan file, and see the plan file refused for the other one."""
    publish(
        Request(one, schema=Schema.of("disease", public="*"), spec=BOUND, mechanism="uniform", **ALL_ACCEPTED),
        "release",
        plan_file="private.plan",
    )
    before = content(desk)
    with refuses(ReleaseFormatError, "plan-file-of-another-table"):
        publish(
            Request(other, schema=Schema.of("disease", public="*"), spec=BOUND, mechanism="uniform", **ALL_ACCEPTED),
            "second",
            plan_file="private.plan",
        )
    assert content(desk) == before


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_plan_file_is_refused_for_another_table_of_the_same_reader(form: str, desk: Path) -> None:
    refuse_other(*FORMS[form](desk), desk)


def test_plan_file_is_refused_for_another_table_from_a_pipe(desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = TABLES["CSV"](desk)

    class Piped:
        """Standard input, which gives one table and then the other."""

        parts: Iterator[bytes] = iter([path.read_bytes() for path in paths])

        @property
        def buffer(self) -> io.BytesIO:
            return io.BytesIO(next(self.parts))

        def isatty(self) -> bool:
            return False

    monkeypatch.setattr(sys, "stdin", Piped())
    refuse_other("-", "-", desk)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving() as started:
        for name, table in (("one", ONE), ("other", OTHER)):
            started.load(name, table, "sex text, disease text")
        yield started


@pytest.mark.slow
def test_plan_file_is_refused_for_another_table_of_a_server(server: Server, desk: Path) -> None:
    refuse_other(server.address("one"), server.address("other"), desk)


def test_sheet_is_known_again_when_another_sheet_changes(desk: Path) -> None:
    """The rows that are published count, not the file that they stand in."""
    one, _ = sheets_of_one_book(desk)
    first = open_source(one, desk / "spool").compute_fingerprint()
    book = openpyxl.load_workbook(desk / "book.xlsx")
    book["other"].append(["F", "flu"])
    book.save(desk / "book.xlsx")
    assert open_source(one, desk / "spool").compute_fingerprint() == first


# --------------------------------------------------------------------------------------------------------------- draws


def record_subkeys(monkeypatch: pytest.MonkeyPatch) -> set[bytes]:
    """Collect every subkey that anything is drawn with from now on."""
    subkeys: set[bytes] = set()
    derive = Draws._derive_subkey

    def recorded(self: Draws, purpose: str) -> bytes:
        subkey = derive(self, purpose)
        subkeys.add(subkey)
        return subkey

    monkeypatch.setattr(Draws, "_derive_subkey", recorded)
    return subkeys


def publish_with(table: pa.Table, mechanism: str, out: str, **keeping: Any) -> None:
    way = WAYS[mechanism]
    publish(
        Request(
            table, schema=way.schema(Schema.of("disease", public="*"), table), **way.request(mechanism), **ALL_ACCEPTED
        ),
        out,
        **keeping,
    )


@pytest.mark.parametrize("mechanism", REGISTRY)
def test_two_tables_share_no_draw_under_one_key(mechanism: str, desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even if one key came to be used for another table, as by a plan file that is taken for another sheet."""
    subkeys = record_subkeys(monkeypatch)
    used = []
    for number, (table, key) in enumerate([(ONE, 1), (OTHER, 1), (ONE, 2), (OTHER, 2)]):
        publish_with(table, mechanism, f"{number}", plan_file=f"{number}.plan", unsafe_test_key=known_key(key))
        used.append(set(subkeys))
        subkeys.clear()
    keyless = used[0] & used[2] | used[1] & used[3]  # what is simulated from counts alone, whatever the key
    assert used[0] - keyless
    assert (used[0] - keyless).isdisjoint(used[1])


def test_same_table_and_key_share_their_draws(desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin of the test above: it would notice draws that two tables share."""
    subkeys = record_subkeys(monkeypatch)
    publish_with(ONE, "uniform", "one", plan_file="private.plan")
    first = set(subkeys)
    subkeys.clear()
    publish_with(ONE, "uniform", "again", plan_file="private.plan")
    assert first & subkeys
    assert content(desk / "one") == content(desk / "again")


TEXTS = st.text(max_size=3)
REQUESTS = st.dictionaries(TEXTS, TEXTS, max_size=2)


@given(st.tuples(TEXTS, REQUESTS), st.tuples(TEXTS, REQUESTS))
def test_key_is_bound_to_content_and_request(
    one: tuple[str, dict[str, str]], other: tuple[str, dict[str, str]]
) -> None:
    key = Draws.unsafe_test_key("ab" * 32)
    bound = [RequestRecord(request).bind(key, fingerprint) for fingerprint, request in (one, other)]
    assert (bound[0].key == bound[1].key) == (one == other)
    assert key.key not in {each.key for each in bound}


def test_digest_of_the_content_is_in_no_file_of_a_release(desk: Path) -> None:
    publish_with(ONE, "uniform", "one", plan_file="private.plan")
    plan = PlanFile.read(desk / "private.plan")
    secrets = (plan.fingerprint, plan.draws.key.hex(), plan.table_draws.key.hex())
    for path in sorted((desk / "one").rglob("*")):
        written = path.read_bytes()
        assert not any(secret.encode() in written or bytes.fromhex(secret) in written for secret in secrets)
