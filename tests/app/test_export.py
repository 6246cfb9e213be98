"""Exports for statistics packages: weights add up to the counts of the release, in every kind of file."""

from __future__ import annotations

import datetime
import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyreadstat
import pytest

from command_line import fail, people, publishing, run, succeed, write_csv
from refusals import refuses
from releases import SENSITIVE, published_by
from sfumato import QueryError, TargetError, export
from sfumato.mechanisms import REGISTRY

TABLE = pa.table(
    people(
        400,
        when=[datetime.date(2024, 1, 31), datetime.date(2023, 5, 1), None],
        tall=[True, False, None],
        code=[3_000_000_000, 4, None],
        **{"Blood group, see note 7": ["0", "A", "AB", None]},
    )
)


def read(path: Path) -> pd.DataFrame:
    """A file as its package would read it."""
    if path.suffix == ".csv":
        return pa_csv.read_csv(path, convert_options=pa_csv.ConvertOptions(strings_can_be_null=True)).to_pandas()
    frame, _ = (pyreadstat.read_dta if path.suffix == ".dta" else pyreadstat.read_sav)(path)
    return frame


@pytest.mark.parametrize("name", REGISTRY)
def test_weights_add_up_to_counts(name: str, tmp_path: Path) -> None:
    release = published_by(name, TABLE.select(["age", "sex", SENSITIVE]), tmp_path / "release")
    if next(iter(release.manifest.methods.values())).compute_weights is None:
        with refuses(QueryError, "no-record-weights"):
            export(release, ["HIV"], tmp_path / "out.csv")
        assert not (tmp_path / "out.csv").exists()
        return
    for suffix in (".csv", ".dta", ".sav"):
        frame = read(export(release, ["HIV", "flu"], tmp_path / f"out{suffix}").path)
        people_columns = ["people"] if release.people_in_counts else []
        assert list(frame.columns) == ["age", "sex", *people_columns, "w_HIV", "w_flu"]
        for value in ("HIV", "flu"):
            for sex, rows in frame.groupby("sex"):
                counted = release.count(value, where=f"sex = '{sex}'").value
                assert math.isclose(rows[f"w_{value}"].sum(), counted, rel_tol=1e-9, abs_tol=1e-6)


@pytest.mark.parametrize("suffix", [".csv", ".dta", ".sav"])
def test_public_columns_come_as_they_are(suffix: str, tmp_path: Path) -> None:
    release = published_by("uniform", TABLE, tmp_path / "release")
    found = export(release, ["HIV"], tmp_path / f"out{suffix}")
    frame, said = read(found.path), dict(found.renamed_columns)
    assert said == ({} if suffix == ".csv" else {"Blood group, see note 7": "Blood_group_see_note_7"})
    published = release.sql('SELECT age, sex, "when", tall, code FROM release').to_arrow().to_pylist()

    def plain(value: Any) -> Any:
        is_missing = value is None or value == "" or (isinstance(value, float) and math.isnan(value))
        return None if is_missing else value

    for name in ("age", "sex", "tall", "code", "when"):
        values = [plain(value) for value in frame[name].astype(object).where(frame[name].notna(), None)]
        wanted = [row[name] for row in published]
        assert sorted(map(str, map(_same, values))) == sorted(map(str, map(_same, wanted)))
    blood = frame[said.get("Blood group, see note 7", "Blood group, see note 7")]
    assert sorted({str(plain(value)) for value in blood}) == ["0", "A", "AB", "None"]


def _same(value: Any) -> Any:
    """A value of the release, and of a package that has fewer types, as one."""
    if isinstance(value, datetime.datetime):
        value = value.date()
    return float(value) if isinstance(value, bool | int | float | np.number) else value


def test_names_are_such_as_packages_take_and_labels_say_the_rest(tmp_path: Path) -> None:
    table = pa.table(
        {
            "1st": ["a", "b"] * 100,
            "été": ["a", "b"] * 100,
            "T": ["a", "b"] * 100,
            "x" * 40: ["a", "b"] * 100,
            "x" * 39 + "y": ["a", "b"] * 100,
            "w_HIV": ["a", "b"] * 100,
            SENSITIVE: ["HIV", "hiv+", "flu", "cold"] * 50,
        }
    )
    release = published_by("uniform", table, tmp_path / "release")
    found = export(release, ["HIV", "hiv+"], tmp_path / "out.sav")
    frame, meta = pyreadstat.read_sav(found.path)
    names = list(frame.columns)
    assert len({name.lower() for name in names}) == len(names) == 8
    assert all(len(name) <= 32 and name.isidentifier() and name.isascii() for name in names)
    labels = dict(zip(names, meta.column_labels, strict=True))
    assert {labels[name] for name in found.weight_columns} == {"weight of HIV", "weight of hiv+"}
    assert labels[found.renamed_columns["1st"]] == "1st"


def test_error_of_a_weighted_total_is_not_below_that_of_the_release(tmp_path: Path) -> None:
    # What a survey package says of a total: the spread of the weights, times the root of their number.
    release = published_by("uniform", TABLE.select(["age", "sex", SENSITIVE]), tmp_path / "release")
    weights = np.asarray(release.weights("HIV"))
    by_package = weights.std(ddof=1) * math.sqrt(len(weights))
    by_release = release.count("HIV").standard_error
    assert by_release <= by_package <= 1.5 * by_release


# ---------------------------------------------------------------------------------------------------------- the command


def test_command_says_what_to_add_up(release: Path) -> None:
    done = succeed("export", release, "--values", "HIV, flu", "--out", "out.csv")
    assert done.out.splitlines()[:2] == ["add up w_HIV to count HIV", "add up w_flu to count flu"]
    assert "60 records written to out.csv; the weights add up to the estimated counts" in done.words
    told = succeed("export", release, "--values", "HIV", "--out", "out.csv", "--force", "--json").json
    assert (told["rows"], told["weights"], told["formulas"]) == (60, {"w_HIV": "HIV"}, [])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--values", "AIDS", "--out", "out.csv"), "'disease' has no value 'AIDS'; it has 'HIV', 'asthma'"),
        (("--values", "", "--out", "out.csv"), "'disease' has no value '';"),
        (("--values", "HIV", "--out", "out.xls"), "must end in .csv, .dta, .sav"),
        (("--values", "HIV", "--out", "no/out.csv"), "the directory 'no' does not exist"),
        (("--values", "HIV", "--out", "people.csv"), "'people.csv' exists"),
        (("--values", "HIV", "--out", "release.csv", "--force"), "'release.csv' exists"),
        (("--values", "HIV", "--out", "out.csv", "--method", "best"), "best"),
    ],
)
def test_what_cannot_be_exported_is_refused(arguments: tuple[str, ...], words: str, release: Path) -> None:
    write_csv(release.parent / "people.csv", people())
    (release.parent / "release.csv").mkdir()
    assert words in fail(release.parent, "export", release, *arguments)


@pytest.mark.slow
def test_texts_that_look_like_formulas_are_told(desk: Path) -> None:
    table = write_csv(desk / "people.csv", {**people(), "note": ["=1+1", "plain"] * 30})
    succeed(*publishing(table, "--accept-disclosing", "note=made up"))
    done = succeed("export", "release", "--values", "HIV", "--out", "out.csv")
    assert "'note' contains text that a spreadsheet reads as a formula" in " ".join(done.err.split())
    assert "=1+1" in (desk / "out.csv").read_text()  # as it is: another text would be another value
    assert run("export", "release", "--values", "HIV", "--out", "out.dta").err == ""


@pytest.mark.parametrize("suffix", [".dta", ".sav"])
def test_numbers_that_no_double_holds_stay_exact(suffix: str, tmp_path: Path) -> None:
    """Two codes of people or places that differ must not become the same number."""
    codes, amounts = [2**53, 2**53 + 1, 2**62 + 1], [Decimal("1.10"), Decimal("99999999999999999.99")]
    table = pa.table(people(60, code=codes, amount=amounts, price=[Decimal("0.10"), Decimal("7.25")]))
    release = published_by("uniform", table, tmp_path / "release")
    frame = read(export(release, ["HIV"], tmp_path / f"out{suffix}").path)
    assert set(frame["code"]) == set(map(str, codes))
    assert set(frame["amount"]) == set(map(str, amounts))
    assert set(frame["price"]) == {0.1, 7.25}


@pytest.mark.parametrize("suffix", [".dta", ".sav"])
@pytest.mark.parametrize(
    ("values", "reason"),
    [(["a\0b", "a\0c"], "zero-character"), ([1e308, 2.5], "large-number"), ([math.inf, 2.5], "large-number")],
    ids=["zero", "large", "infinite"],
)
def test_what_packages_would_change_is_refused(suffix: str, values: list[Any], reason: str, tmp_path: Path) -> None:
    release = published_by("uniform", pa.table(people(60, **{"what it is": values})), tmp_path / "release")
    with refuses(TargetError, "unwritable-column", column="what it is", reason=reason):
        export(release, ["HIV"], tmp_path / f"out{suffix}")
    assert {path.name for path in tmp_path.iterdir()} == {"release"}
    assert export(release, ["HIV"], tmp_path / "out.csv").rows == 60


def test_words_that_packages_keep_for_themselves_are_no_names(tmp_path: Path) -> None:
    names = ["if", "BY", "with", "str5", "byte", "strL", "_n"]
    release = published_by("uniform", pa.table(people(60, **{name: [1, 2] for name in names})), tmp_path / "release")
    for suffix in (".dta", ".sav"):
        done = export(release, ["HIV"], tmp_path / f"out{suffix}")
        taken = ["v_if", "v_BY", "v_with", "v_str5", "v_byte", "v_strL", "n"]
        assert dict(done.renamed_columns) == dict(zip(names, taken, strict=True))
        assert set(taken) < set(read(done.path).columns)
