"""Texts that stand for a missing value: missing before anything else is decided, and known to who verifies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pyarrow as pa
import pytest

from accepted import ALL_ACCEPTED
from command_line import BOUND, TEST_KEY, fail, people, publishing, run, succeed, write_csv, write_parquet
from refusals import refuses
from releases import edit_manifest, read_json
from sfumato import BreachBound, ReadOptions, Request, Schema, SchemaError, publish, verify
from sfumato._readers.open_table import open_source
from sfumato._release.manifest import MANIFEST

MARKED: dict[str, Any] = {"weight": [50, "?", 70], "ward": ["north", "NA", "south"]}
MISSING = ("--missing", "?", "--missing", "NA")


def columns(release: Path) -> dict[str, str]:
    """The columns of a release with their types."""
    fields = read_json(release)["resources"][0]["schema"]["fields"]
    return {field["name"]: field["type"] for field in fields}


def test_mark_is_missing_before_types_are_inferred(desk: Path) -> None:
    table = write_csv(desk / "people.csv", people(**MARKED))
    succeed(*publishing(table, *MISSING))
    assert columns(desk / "release") == {
        **{"age": "integer", "sex": "string", "disease": "string"},
        **{"weight": "integer", "ward": "string"},
    }
    (found,) = duckdb.sql(
        "SELECT COUNT(*) FILTER (weight IS NULL), COUNT(*) FILTER (ward IS NULL), COUNT(*) FILTER (ward = 'NA')"
        "FROM 'release/data.parquet'"
    ).fetchall()
    assert found == (20, 20, 0)


def test_without_the_option_a_mark_is_a_text(desk: Path) -> None:
    table = write_csv(desk / "people.csv", people(**MARKED))
    succeed(*publishing(table))
    assert columns(desk / "release")["weight"] == "string"
    assert "missing" not in read_json(desk / "release")["sfumato"]


def test_number_in_bins_may_have_marks(desk: Path) -> None:
    table = write_csv(desk / "people.csv", people(**MARKED))
    succeed(*publishing(table, *MISSING, "--ranges", "weight=0,60,100"))
    succeed("verify", "release", "--original", table)


@pytest.mark.slow
@pytest.mark.parametrize("write", [write_csv, write_parquet], ids=["csv", "parquet"])
def test_original_is_read_with_the_same_marks(write: Any, desk: Path) -> None:
    texts = people(disease=["flu", "HIV", "cold", "?", "asthma"], ward=MARKED["ward"])
    table = write(desk / f"people.{write.__name__.removeprefix('write_')}", texts)
    succeed(*publishing(table, *MISSING))
    assert read_json(desk / "release")["sfumato"]["missing"] == ["?", "NA"]
    succeed("verify", "release", "--original", table)
    # Without the key, the original is another table.
    edit_manifest(desk / "release", lambda whole: whole["sfumato"].pop("missing"))
    assert run("verify", "release", "--original", table).code != 0


def test_mark_in_the_sensitive_column_is_the_missing_value(desk: Path) -> None:
    table = write_csv(desk / "people.csv", people(disease=["flu", "HIV", "?", "cold", "flu"]))
    succeed(*publishing(table, "--missing", "?"))
    assert read_json(desk / "release")["sfumato"]["design"]["domain"] == ["HIV", "cold", "flu", None]


def kinds_of_tables() -> dict[str, Any]:
    texts = pa.table({"text": ["x", "?", None, "NA", ""], "number": [1, 2, 3, 4, 5]})
    stored = [pa.large_string(), pa.dictionary(pa.int8(), pa.string())]
    return {
        "arrow": texts,
        "pandas": texts.to_pandas(),
        "categories": pd.DataFrame(texts.to_pandas().astype({"text": "category"})),
        "stream": texts.to_reader(),
        **{str(kind): texts.set_column(0, "text", texts.column("text").cast(kind)) for kind in stored},
    }


@pytest.mark.parametrize("kind", list(kinds_of_tables()))
def test_texts_of_any_table_are_missing_where_they_are_marked(kind: str, desk: Path) -> None:
    source = open_source(kinds_of_tables()[kind], desk / "spool", read=ReadOptions(missing=("?", "NA", "4")))
    rows = [row for batch in source.read_batches(["number", "text"], 2) for row in batch.to_pylist()]
    numbers, texts = [1, 2, 3, None, 5], ["x", None, None, None, ""]
    assert rows == [{"number": number, "text": text} for number, text in zip(numbers, texts, strict=True)]
    assert source.schema.field("text").type == pa.string()
    assert source.rows == 5


def test_empty_text_is_missing_in_a_typed_table_only_if_it_is_named(desk: Path) -> None:
    table = pa.table({"text": ["x", ""]})
    for missing, expected in ([], ["x", ""]), ([""], ["x", None]):
        (batch,) = open_source(table, desk / "spool", read=ReadOptions(missing=tuple(missing))).read_batches(
            ["text"], 10
        )
        assert batch.column("text").to_pylist() == expected


@pytest.mark.parametrize("command", ["plan", "publish"])
def test_mark_that_is_a_value_of_a_domain_is_refused(command: str, desk: Path) -> None:
    table = write_csv(desk / "people.csv", people())
    (desk / "diseases.txt").write_text("flu\nHIV\ncold\nasthma\n?\n")
    out = ["--out", "release"] if command == "publish" else []
    asked = [command, table, *out, "--sensitive", "disease", *BOUND, "--domain", "disease=diseases.txt"]
    assert fail(desk, *asked, "--missing", "?") == (
        "'?' is a missing marker, but also a value in the domain of 'disease'; remove it from the missing "
        "markers or from the domain."
    )


def test_number_of_a_domain_that_is_marked_is_refused() -> None:
    schema = Schema.of("dose", domains={"dose": [None, 1, 99]}, public="*")
    with refuses(SchemaError, "missing-marker-in-domain", column="dose"):
        Request(
            "t.csv", schema=schema, spec=BreachBound("1/10", "1/2"), read=ReadOptions(missing=("99",)), **ALL_ACCEPTED
        )


def test_one_text_for_a_list_is_refused() -> None:
    with refuses(SchemaError, "not-a-list", argument="missing"):
        Request(
            "t.csv",
            schema=Schema.of("disease", public="*"),
            spec=BreachBound("1/10", "1/2"),
            read=ReadOptions(missing="NA"),
            **ALL_ACCEPTED,
        )  # type: ignore[arg-type]


def test_plan_file_belongs_to_its_marks(desk: Path) -> None:
    table = write_csv(desk / "people.csv", people(**MARKED))
    succeed(*publishing(table, *MISSING, "--plan-file", "plan", "--unsafe-test-key", TEST_KEY))
    succeed(*publishing(table, *reversed_pairs(MISSING), "--plan-file", "plan", out="again"))
    assert "another request" in fail(desk, *publishing(table, "--missing", "?", "--plan-file", "plan", out="other"))


def reversed_pairs(options: tuple[str, ...]) -> tuple[str, ...]:
    """The same options in another order."""
    return (*options[2:], *options[:2])


def test_library_reads_the_same_marks(desk: Path) -> None:
    frame = pd.DataFrame(people(disease=["flu", "?", "HIV"], ward=["north", "?"]))
    publish(
        Request(
            frame,
            schema=Schema.of("disease", public="*"),
            spec=BreachBound("1/10", "1/2"),
            read=ReadOptions(missing=("?",)),
            **ALL_ACCEPTED,
        ),
        desk / "release",
    )
    assert verify(desk / "release", frame).has_passed
    assert '"missing": [' in (desk / "release" / MANIFEST).read_text()
