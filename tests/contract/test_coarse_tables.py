"""Coarse tables beside noisy counts: everybody is counted again by some public columns, with noise of its own.

The tests recount the table row by row in Python, and estimate with their own formulas.
"""

from __future__ import annotations

import shutil
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyarrow import csv

from accepted import ALL_ACCEPTED
from far_engine import FarEngine
from refusals import refuses
from releases import accepting, edit_manifest, known_key, list_domains, read_json
from sfumato import BreachBound, Release, Request, Schema, export, plan, publish, verify
from sfumato._engines.engine import Engine
from sfumato._engines.local_engine import LocalEngine
from sfumato._evidence.certificate import list_design_facts
from sfumato._query.counting.count_request import CountQuery
from sfumato._records import DATA_FILE
from sfumato._records.count_tables import COARSE_FILES, COUNTS_FILE
from sfumato._verify.distributions import noisy_counts_verifier
from sfumato._verify.file_checks import FITNESS
from sfumato._verify.manifest_view import ManifestView
from sfumato.errors import ReleaseFormatError, SchemaError
from sfumato.mechanisms._noisy_counts import fixed_sum_noise
from sfumato.mechanisms._noisy_counts import noisy_counts_mechanism as noisy_counts

TABLES = "age,sex=1/5; region=1/10"
COLUMNS = {COARSE_FILES[0]: ["age", "sex"], COARSE_FILES[1]: ["region"]}


def make_people(rows: int = 400) -> pa.Table:
    """People of whom about half are alone with their public columns; some regions and ages are missing."""
    chance = np.random.default_rng(5)
    regions = [f"r{number}" for number in range(6)]
    return pa.table(
        {
            "age": [None if age == 50 else int(age) for age in chance.choice([20, 30, 40, 50], rows)],
            "sex": chance.choice(["F", "M"], rows),
            "region": [None if region == "r5" else region for region in chance.choice(regions, rows)],
            "visits": chance.integers(0, 9, rows),
            "disease": chance.choice(["HIV", "asthma", "cold", "flu"], rows, p=[0.1, 0.2, 0.3, 0.4]),
        }
    )


def ask(table: pa.Table, also_by: str | None = TABLES) -> Request:
    asked = Schema.of("disease", public="*", domains=list_domains(table, ["disease"]))
    return Request(
        table,
        schema=asked,
        spec=BreachBound("1/10", "1/3"),
        mechanism="noisy-counts",
        options={"noisy-counts": noisy_counts.Options(also_by=also_by)},
        **accepting(table, asked),
        **ALL_ACCEPTED,
    )


def released(
    folder: Path,
    engine: Engine | None = None,
    table: pa.Table | None = None,
    also_by: str | None = TABLES,
    *,
    as_csv: bool = False,
) -> Path:
    """The folder of a release."""
    request = ask(make_people() if table is None else table, also_by)
    publish(request, folder, unsafe_test_key=known_key(0), engine=engine, on_notice=lambda notice: None, as_csv=as_csv)
    return folder


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Release:
    return Release.open(released(tmp_path_factory.mktemp("coarse") / "release", as_csv=True))


@pytest.fixture(scope="module")
def small_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return released(tmp_path_factory.mktemp("coarse") / "small", table=make_people(60))


def count_groups(table: pa.Table, columns: list[str]) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(row.values()) for row in table.select(columns).to_pylist())


@pytest.mark.parametrize("file", COLUMNS)
def test_everybody_is_counted_in_every_coarse_table(file: str, release: Release) -> None:
    table, columns = make_people(), COLUMNS[file]
    lines = pq.read_table(release.folder / file)
    assert lines.column_names == [*columns, "people", "disease", "noisy", "count"]
    people = {tuple(line[name] for name in columns): line["people"] for line in lines.to_pylist()}
    assert people == count_groups(table, columns)
    noisy = lines.group_by(columns).aggregate([("noisy", "sum"), ("count", "sum")]).to_pylist()
    for group in noisy:
        expected = people[tuple(group[name] for name in columns)]
        assert group["noisy_sum"] == expected
        assert group["count_sum"] == pytest.approx(expected)
    true_counts = count_groups(table, [*columns, "disease"])
    assert any(
        line["noisy"] != true_counts[tuple(line[name] for name in [*columns, "disease"])] for line in lines.to_pylist()
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "engine", [LocalEngine(1, 4, 0), LocalEngine(7, 2, 2000), FarEngine(13)], ids=["single rows", "pieces", "far"]
)
def test_same_key_gives_the_same_release_however_the_table_is_cut(
    engine: Engine, small_folder: Path, tmp_path: Path
) -> None:
    cut = released(tmp_path / "cut", engine, make_people(60))
    assert {path.name for path in small_folder.iterdir()} > {COUNTS_FILE, *COLUMNS}
    for path in small_folder.iterdir():
        assert (cut / path.name).read_bytes() == path.read_bytes()


@pytest.mark.slow
def test_release_without_coarse_tables_has_none_of_their_files_or_entries(tmp_path: Path) -> None:
    folder = released(tmp_path / "release", table=make_people(60), also_by=None)
    assert not {path.name for path in folder.iterdir()} & set(COARSE_FILES)
    assert "also_by" not in read_json(folder)["sfumato"]["design"]


# ----------------------------------------------------------------------------------------------------------- estimating


def estimate(release: Release, sql: str) -> dict[Any, Any]:
    """The number of each row, by its other columns."""
    answer = release.sql(sql)
    return {tuple(value for name, value in row.items() if name != "n"): row["n"] for row in answer.rows}


def count_without(release: Release, condition: str) -> float:
    """The count of a value by crowds and sets alone, with the SQL of the README."""
    sql = f"""
        SELECT (SELECT COALESCE(SUM(count), 0) FROM '{release.folder / COUNTS_FILE}'
                WHERE disease = 'HIV' AND {condition})
             + COALESCE((SELECT SUM(CASE WHEN get_bit(d.disease::BIT, w.place) = 1 THEN w.if_equal ELSE w.otherwise END)
                FROM '{release.folder / DATA_FILE}' AS d, '{release.folder / "weights.parquet"}' AS w
                WHERE w.value = 'HIV' AND {condition}), 0)"""
    ((value,),) = duckdb.sql(sql).fetchall()
    return float(value)


@pytest.mark.parametrize(
    ("condition", "uses"),
    [
        ("TRUE", True),
        ("sex = 'F'", True),
        ("age IS NULL AND sex = 'F'", True),
        ("age BETWEEN 25 AND 45", True),
        ("region = 'r1'", True),
        ("region = 'r1' OR region IS NULL", True),
        ("visits < 100", True),
        ("visits < 4", False),
        ("region = 'r1' AND sex = 'F'", False),
    ],
)
def test_selected_people_decide_whether_a_coarse_table_is_used(condition: str, uses: bool, release: Release) -> None:
    answer = release.sql(f"SELECT COUNT(*) AS n FROM release WHERE disease = 'HIV' AND ({condition})")
    is_without = answer.get_estimate().value == pytest.approx(count_without(release, f"({condition})"))
    assert is_without == (not uses)


def test_parts_add_up_to_the_whole(release: Release) -> None:
    """All parts of a group by age and sex use the same table as the whole does."""
    ((whole,),) = [estimate(release, "SELECT COUNT(*) AS n FROM release WHERE disease = 'HIV'").values()]
    for columns in ("age", "sex", "age, sex"):
        parts = estimate(
            release, f"SELECT {columns}, COUNT(*) AS n FROM release WHERE disease = 'HIV' GROUP BY {columns}"
        )
        assert sum(part.value for part in parts.values()) == pytest.approx(whole.value)
        assert sum(part.standard_error**2 for part in parts.values()) == pytest.approx(whole.standard_error**2, rel=0.2)
    values = estimate(release, "SELECT disease, COUNT(*) AS n FROM release WHERE sex = 'F' GROUP BY disease")
    women = sum(sex == "F" for sex in make_people().column("sex").to_pylist())
    assert sum(value.value for value in values.values()) == pytest.approx(women)


def test_all_numbers_of_one_question_use_the_same_tables(release: Release) -> None:
    """A share is the ratio of its two counts, also where one of them alone could use a coarse table."""
    for condition in ("sex = 'F'", "visits < 4"):
        part, whole = (
            f"COUNT(*) FILTER (WHERE disease = 'HIV' AND {condition})",
            "COUNT(*) FILTER (WHERE disease = 'HIV')",
        )
        (row,) = release.sql(f"SELECT {part} AS a, {whole} AS b, {part} / {whole} AS n FROM release").rows
        assert row["n"].value == pytest.approx(row["a"].value / row["b"].value)
        linear = release.sql(f"SELECT {part} - 0.5 * {whole} AS n FROM release").rows[0]["n"]
        assert linear.value == pytest.approx(row["a"].value - 0.5 * row["b"].value)


def test_sums_use_a_table_whose_groups_have_one_weight(release: Release) -> None:
    (row,) = release.sql("SELECT SUM(age) AS n FROM release WHERE disease = 'HIV'").rows
    parts = estimate(release, "SELECT age, sex, COUNT(*) AS n FROM release WHERE disease = 'HIV' GROUP BY age, sex")
    assert row["n"].value == pytest.approx(sum((age or 0) * part.value for (age, _), part in parts.items()))
    assert (
        row["n"].standard_error
        < release.sql("SELECT SUM(age + visits * 0.001) AS n FROM release WHERE disease = 'HIV'")
        .rows[0]["n"]
        .standard_error
    )


WHERES: list[dict[str, Any]] = [
    {},
    {"sex": "F"},
    {"age": [20, 30], "sex": "M"},
    {"age": None},
    {"region": None},
    {"region": ["r1", "r2"]},
    {"region": "r1", "sex": "F"},
    {"visits": list(range(9))},
    {"visits": [1, 2]},
    {"visits": list(range(9)), "age": 30},
]


def write_condition(where: dict[str, Any]) -> str | None:
    """The same condition in SQL."""
    parts = []
    for name, values in where.items():
        listed = values if isinstance(values, list) else [values]
        parts.append(f"{name} IS NULL" if listed == [None] else f"{name} IN ({', '.join(map(repr, listed))})")
    return " AND ".join(parts) or None


def test_many_counts_at_once_are_those_of_sql(release: Release) -> None:
    many = release.count_many([CountQuery(where=where, values=["HIV"]) for where in WHERES])
    for where, own in zip(WHERES, many, strict=True):
        one = release.count("HIV", where=write_condition(where))
        assert own.value == pytest.approx(one.value)
        assert own.standard_error == pytest.approx(one.standard_error)
        assert tuple(own.interval()) == pytest.approx(tuple(one.interval()))


def test_readme_tells_how_to_use_a_coarse_table(release: Release) -> None:
    readme = (release.folder / "README.md").read_text()
    query = f"SELECT disease, SUM(count) FROM '{COARSE_FILES[0]}' GROUP BY disease"
    assert query in readme
    counts = duckdb.sql(query.replace(COARSE_FILES[0], str(release.folder / COARSE_FILES[0]))).fetchall()
    assert sum(count for _, count in counts) == pytest.approx(400)
    assert any("product of the factors" in sentence for sentence in release.manifest.guarantee.details)


def test_certificate_lists_the_coarse_tables(release: Release) -> None:
    facts = dict(list_design_facts(release.manifest))
    assert facts["also by, 1"].startswith("columns age, sex; ratio ")
    assert facts["also by, 2"].startswith("columns region; ratio ")


def test_exported_weights_are_those_of_crowds_and_sets(release: Release, tmp_path: Path) -> None:
    exported = export(release, ["HIV"], tmp_path / "people.csv")
    (column,) = exported.weight_columns
    weights = pc.sum(csv.read_csv(exported.path).column(column)).as_py()
    assert weights == pytest.approx(count_without(release, "TRUE"))


# ------------------------------------------------------------------------------------------------------------ verifying


@pytest.mark.slow
def test_release_passes_its_verification_with_the_original(release: Release) -> None:
    checks = verify(release.folder, make_people()).checks
    assert [check.detail for check in checks if not check.has_passed and check.name != FITNESS] == []
    (counts,) = [check for check in checks if check.name == "counts"]
    assert "2 coarse tables" in counts.detail
    assert (release.folder / COARSE_FILES[0]).with_suffix(".csv").exists()


def find_check(folder: Path, name: str) -> bool:
    (check,) = [check for check in verify(folder).checks if check.name == name]
    return check.has_passed


def change_lines(folder: Path, file: str, **columns: Any) -> None:
    """Changes columns of a table, and makes the manifest fit again."""
    table = pq.read_table(folder / file)
    for name, change in columns.items():
        place = table.schema.get_field_index(name)
        table = table.set_column(
            place, table.schema.field(place), pa.array(change(table.column(name).to_numpy().copy()))
        )
    pq.write_table(table, folder / file)


@pytest.mark.parametrize("column", ["people", "noisy", "count"])
def test_changed_coarse_table_is_noticed(column: str, release: Release, tmp_path: Path) -> None:
    folder = tmp_path / "changed"
    shutil.copytree(release.folder, folder)

    def move_one(numbers: np.ndarray) -> np.ndarray:
        numbers[0] += 1
        return numbers

    change_lines(folder, COARSE_FILES[1], **{column: move_one})
    edit_manifest(folder)
    assert not find_check(folder, "counts")


def test_coarse_table_of_other_people_is_noticed(release: Release, tmp_path: Path) -> None:
    """The groups have right sums and estimates, but two of them have exchanged their regions."""
    folder = tmp_path / "changed"
    shutil.copytree(release.folder, folder)
    change_lines(folder, COARSE_FILES[1], region=lambda names: np.concatenate([names[4:8], names[:4], names[8:]]))
    edit_manifest(folder)
    assert not find_check(folder, "counts")
    with pytest.raises(ReleaseFormatError):
        Release.open(folder).sql("SELECT COUNT(*) FROM release WHERE disease = 'HIV'")


def test_tables_that_exceed_the_bound_together_are_noticed(release: Release, tmp_path: Path) -> None:
    """Each factor alone is within the bound."""
    folder = tmp_path / "changed"
    shutil.copytree(release.folder, folder)

    def raise_factor(written: dict[str, Any]) -> None:
        entry = written["sfumato"]["design"]["also_by"][0]
        entry["ratio"] = str(Fraction(entry["ratio"]) * Fraction(9, 10))

    view = ManifestView(read_json(folder), release.manifest.encoding)
    assert noisy_counts_verifier.check_guarantee(folder, view).has_passed
    edit_manifest(folder, raise_factor)
    assert not noisy_counts_verifier.check_guarantee(
        folder, ManifestView(read_json(folder), release.manifest.encoding)
    ).has_passed
    with pytest.raises(ReleaseFormatError):
        Release.open(folder)


@pytest.mark.slow
def test_noise_of_crowds_used_again_is_noticed_with_the_original(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The twin: a coarse table with many groups, whose draws have the purpose of the crowds."""
    chance = np.random.default_rng(6)
    rows = 3000
    table = pa.table(
        {
            "place": chance.integers(0, 300, rows),
            "sex": chance.choice(["F", "M"], rows),
            "disease": chance.choice(["HIV", "asthma", "cold", "flu"], rows),
        }
    )
    right = released(tmp_path / "right", table=table, also_by="place=1/3")
    assert [check.name for check in verify(right, table).checks if not check.has_passed] == [FITNESS]
    draw = fixed_sum_noise.FixedSumNoise.draw
    monkeypatch.setattr(
        fixed_sum_noise.FixedSumNoise,
        "draw",
        lambda self, draws, first, cells, purpose="": draw(self, draws, first, cells),
    )
    wrong = released(tmp_path / "wrong", table=table, also_by="place=1/3")
    (check,) = [check for check in verify(wrong, table).checks if check.name == "draws"]
    assert not check.has_passed


# ------------------------------------------------------------------------------------------------------------- refusing


@pytest.mark.parametrize(
    ("also_by", "code"),
    [
        ("age,height=1/5", "coarse-table-without-column"),
        ("disease=1/5", "coarse-table-by-sensitive-column"),
        ("age,sex,region,visits=1/5", "coarse-table-by-all-columns"),
    ],
)
def test_columns_that_are_not_some_of_the_public_ones_are_refused(also_by: str, code: str, tmp_path: Path) -> None:
    with refuses(SchemaError, code):
        plan(ask(make_people(), also_by))
    with refuses(SchemaError, code):
        released(tmp_path / "release", also_by=also_by)


@pytest.mark.slow
def test_plan_shows_the_trade_and_proposes_nothing_by_default() -> None:
    mechanism = noisy_counts.MECHANISM
    assert mechanism.explanation is not None
    with_tables, without = (plan(ask(make_people(), also_by)).choice.plan for also_by in (TABLES, None))
    tables = mechanism.explanation.list_tables(with_tables)
    assert [table.title.rpartition(" by ")[2] for table in tables] == ["age, sex", "region"]
    assert mechanism.explanation.list_tables(without) == []
