"""Sets as columns of truth values: names of any values, and the same answers as from the bits of the same key."""

from __future__ import annotations

import random
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accepted import ALL_ACCEPTED, give_reasons
from refusals import refuses
from sfumato import BreachBound, Release, Request, Schema, publish
from sfumato._core.cell_values import Value
from sfumato._records import DATA_FILE
from sfumato._records.column_codes import CodedColumn, SensitiveColumns
from sfumato._records.member_columns import MOST_COLUMNS, MemberColumnEncoding, make_member_names
from sfumato._release.manifest import WEIGHTS
from sfumato.errors import ReleaseFormatError, SpecError
from sfumato.mechanisms._subset_selection import subset_mechanism as subset
from sfumato.mechanisms._subset_selection.subset_mechanism import Form
from tampering import failed, rewrite, with_column

HOSTILE = ["HIV", "hiv", "a'b", 'a"b', "x\x1b[31m", "", "; DROP TABLE release; --", "流感", "missing", "x" * 80]
"""Values that a name cannot hold as they are, or only once."""
KEY = "07" * 32


def patients(values: list[str] | None = None, **more: list[str]) -> pa.Table:
    chance = random.Random(3)
    rows = 400
    held = chance.choices([*(values or HOSTILE), None], k=rows)
    return pa.table({"sex": chance.choices("FM", k=rows), "disease": pa.array(held), **more})


def published(form: Form, folder: Path, table: pa.Table | None = None) -> Release:
    options = {"subset": subset.Options(form)}
    source = patients() if table is None else table
    request = Request(
        source,
        schema=Schema.of("disease", public="*"),
        spec=BreachBound("1/10", "1/3"),
        mechanism="subset",
        options=options,
        accept_disclosing=give_reasons(source.column_names[2:]),
        **ALL_ACCEPTED,
    )
    return publish(request, folder, unsafe_test_key=KEY).release


@pytest.fixture(scope="module")
def releases(tmp_path_factory: pytest.TempPathFactory) -> dict[Form, Release]:
    folder = tmp_path_factory.mktemp("forms")
    return {form: published(form, folder / form) for form in (Form.BITS, Form.COLUMNS)}


# ---------------------------------------------------------------------------------------------------------------- names


@pytest.mark.parametrize(
    ("domain", "expected"),
    [
        (("flu", "heart failure", None), ("s_flu", "s_heart_failure", "s_missing")),
        (("HIV", "hiv", "Hiv!", "hiv_2"), ("s_hiv", "s_hiv_2", "s_hiv_3", "s_hiv_2_2")),
        (("", " ", "?"), ("s_1", "s_2", "s_3")),
        (("missing", None), ("s_missing", "s_missing_2")),
        ((1, -1, 1.5, True), ("s_1", "s_1_2", "s_1_5", "s_true")),
        ((("a", 1), ("a", None)), ("s_a_1", "s_a_missing")),
        (("x" * 80, "x" * 81), (f"s_{'x' * 40}", f"s_{'x' * 40}_2")),
    ],
    ids=["words", "small and capital letters", "nothing", "missing", "numbers", "compounds", "long"],
)
def test_names_of_columns_are_made_of_values(domain: tuple[Value, ...], expected: tuple[str, ...]) -> None:
    assert make_member_names("s", domain) == expected


@given(st.lists(st.one_of(st.none(), st.integers(), st.text(max_size=8)), unique=True, min_size=1, max_size=12))
def test_names_are_all_different_and_plain_whatever_the_values_are(domain: list[Value]) -> None:
    names = make_member_names("held", tuple(domain))
    assert len({name.lower() for name in names}) == len(domain)
    assert all(re.fullmatch(r"held_\w+", name) for name in names)


# ----------------------------------------------------------------------------------------------------------- publishing


def test_columns_say_what_the_bits_say(releases: dict[Form, Release]) -> None:
    bits, columns = (pq.read_table(releases[form].folder / DATA_FILE) for form in (Form.BITS, Form.COLUMNS))
    names = releases[Form.COLUMNS].manifest.protected_columns
    packed = np.frombuffer(b"".join(bits.column("disease").to_pylist()), dtype=np.uint8).reshape(len(bits), -1)
    assert columns.schema.names == ["sex", *names]
    assert {columns.schema.field(name).type for name in names} == {pa.bool_()}
    told = np.array([columns.column(name).to_pylist() for name in names]).T
    assert (told == np.unpackbits(packed, axis=1)[:, : len(names)]).all()


@pytest.mark.parametrize("name", ["disease_flu", "Disease_Flu"])
def test_a_column_that_has_the_name_already_is_named(name: str, tmp_path: Path) -> None:
    table = patients(["flu", "cold", "gout"], **{name: ["x"] * 400})
    with refuses(SpecError, "repeated-column", column=name):
        published(Form.COLUMNS, tmp_path / "release", table)
    assert list(tmp_path.iterdir()) == []


def test_too_many_columns_are_refused() -> None:
    column = CodedColumn("disease", pa.array([f"value {number}" for number in range(MOST_COLUMNS + 1)]), False)
    with refuses(SpecError, "too-many-columns", columns=1025):
        MemberColumnEncoding(MOST_COLUMNS + 1, False, 100).check(SensitiveColumns.of_column(column))


# --------------------------------------------------------------------------------------------------------------- asking

QUESTIONS = [
    "SELECT COUNT(*) FROM release WHERE disease = 'HIV'",
    "SELECT sex, COUNT(*) FROM release WHERE disease IN ('hiv', '') GROUP BY sex",
    "SELECT COUNT(*) FROM release WHERE disease IS NULL AND sex = 'F'",
    "SELECT disease, COUNT(*) FROM release GROUP BY disease",
    "SELECT sex, disease, COUNT(*) FROM release GROUP BY ALL",
    "SELECT COUNT(*) FILTER (WHERE disease = 'hiv') / COUNT(*) FROM release",
    "SELECT SUM(CASE WHEN sex = 'F' THEN 2 ELSE 1 END) FROM release WHERE disease <> 'hiv'",
    "SELECT COUNT(*) FROM release WHERE disease = 'hiv' OR sex = 'F'",
    "SELECT COUNT(*) FROM release WHERE sex = 'X' AND disease = 'hiv'",
]


@pytest.mark.parametrize(
    ("sql", "method"), [*((sql, None) for sql in QUESTIONS), *((sql, "shrunk") for sql in QUESTIONS[:5])]
)
def test_answers_are_those_of_the_bits(releases: dict[Form, Release], sql: str, method: str | None) -> None:
    bits, columns = (releases[form].sql(sql, method=method) for form in (Form.BITS, Form.COLUMNS))
    assert columns.rows == bits.rows


def test_tables_that_add_up_are_those_of_the_bits(releases: dict[Form, Release]) -> None:
    """What is not wanted is counted too where a table shall add up."""
    sql = "SELECT sex, COUNT(*) AS n FROM release WHERE disease = 'hiv' GROUP BY sex"
    bits, columns = (releases[form].sql(sql, consistent=True).rows for form in (Form.BITS, Form.COLUMNS))
    assert [row["n"] for row in columns] == [row["n"] for row in bits]
    expected = [row["n_consistent"] for row in bits]
    assert [row["n_consistent"] for row in columns] == pytest.approx(expected, rel=1e-9)


def test_weights_of_records_are_those_of_the_bits(releases: dict[Form, Release]) -> None:
    for value in (None, "hiv"):
        assert releases[Form.COLUMNS].weights(value).equals(releases[Form.BITS].weights(value))


# ------------------------------------------------------------------------------------------------------------- trusting


@pytest.mark.parametrize("column", [pa.array([True] * 400), pa.array([1] * 400)], ids=["may be missing", "numbers"])
def test_columns_of_another_kind_are_refused(tmp_path: Path, column: pa.Array) -> None:
    release = published(Form.COLUMNS, tmp_path / "release")
    name = release.manifest.protected_columns[0]
    rewrite(release.folder, DATA_FILE, lambda table: table.set_column(table.schema.names.index(name), name, column))
    with pytest.raises(ReleaseFormatError):
        Release.open(release.folder)


def test_sets_of_another_size_are_noticed(tmp_path: Path) -> None:
    release = published(Form.COLUMNS, tmp_path / "release")
    name = release.manifest.protected_columns[0]
    rewrite(release.folder, DATA_FILE, lambda table: with_column(table, name, [True] * len(table)))
    assert failed(release.folder) == ["domain", "fitness"]


def test_a_weight_of_another_column_is_noticed(tmp_path: Path) -> None:
    release = published(Form.COLUMNS, tmp_path / "release")
    names = list(release.manifest.protected_columns)
    rewrite(release.folder, WEIGHTS, lambda table: with_column(table, "column", [*names[1:], names[0]]))
    assert failed(release.folder) == ["weights", "fitness"]
