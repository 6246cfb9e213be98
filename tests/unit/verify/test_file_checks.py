"""Verification: from its files alone a release must show what it promises, and beside the original that it keeps it."""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from accepted import ALL_ACCEPTED
from enumeration import transition_law
from refusals import refuses
from releases import BOUND, FILES, edit_manifest, people, published
from selection import examples
from sfumato._core.random_draws import Draws
from sfumato._publish.publication import publish
from sfumato._publish.request import Request
from sfumato._records import DATA_FILE, PerturbedRecords
from sfumato._release.manifest import WEIGHTS
from sfumato._release.release_folder import pack
from sfumato._request.belief_bounds import BreachBound
from sfumato._request.histogram import Histogram
from sfumato._request.range_edges import Ranges
from sfumato._request.schema import Schema
from sfumato._verify.against_original import verify
from sfumato._verify.distributions import REFERENCE_DISTRIBUTIONS, find_distribution
from sfumato._verify.distributions import fine_grain_verifier as fine_grain_distribution
from sfumato._verify.distributions import small_domain_verifier as small_domain_distribution
from sfumato._verify.distributions import subset_verifier as subset_distribution
from sfumato._verify.distributions import uniform_verifier as uniform_law
from sfumato._verify.distributions.score_tests import find_largest_deviation
from sfumato._verify.distributions.sub_table_distribution import (
    SubTableDistribution,
    compute_lowered_belief,
    compute_raised_belief,
    compute_sub_table_posteriors,
)
from sfumato._verify.distributions.subset_verifier import SetDistribution, compute_set_posteriors
from sfumato._verify.file_checks import ACCEPTED, FITNESS, PERSONS, README_TEXT, verify_folder
from sfumato.errors import InfeasibleError, MissingCapabilityError, ReleaseFormatError
from sfumato.mechanisms import REGISTRY
from sfumato.mechanisms._randomized_response import uniform_mechanism as uniform
from strategies import breach_bounds, fine_breach_bounds, histograms, shares
from tampering import failed, failed_alone, rewrite, with_cell, with_column

ALONE = ["files", "schema", "metadata", "domain", "guarantee", "weights", PERSONS, ACCEPTED, README_TEXT, FITNESS]
WITH_ORIGINAL = ["public columns", "order", "draws", "posteriors"]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A release that nobody changes."""
    return published(people(), tmp_path_factory.mktemp("verify") / "release", key=None).folder


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    """A release of one's own."""
    return Path(shutil.copytree(made, tmp_path / "release"))


def test_whole_release_passes_every_check(made: Path) -> None:
    found = verify(made)
    assert found.has_passed
    assert [check.name for check in found.checks] == ALONE
    assert all(check.detail.endswith(".") for check in found.checks)


def test_whole_release_passes_beside_its_original(made: Path) -> None:
    found = verify(made, people())
    assert found.has_passed
    assert [check.name for check in found.checks] == [*ALONE, *WITH_ORIGINAL]


@pytest.mark.slow
def test_release_in_one_file_is_verified_too(made: Path, tmp_path: Path) -> None:
    pack(made, tmp_path / "release.zip")
    assert verify(tmp_path / "release.zip").has_passed
    assert verify(tmp_path / "release.zip", people()).has_passed


@pytest.mark.slow
def test_release_of_a_test_key_is_unfit_and_nothing_else(tmp_path: Path) -> None:
    assert failed(published(people(), tmp_path / "release", key=5).folder, people()) == [FITNESS]


# ---------------------------------------------------------------------------------------------------------------- files


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("place", [0, 100, -1], ids=["first byte", "some byte", "last byte"])
def test_changed_file_is_noticed(folder: Path, name: str, place: int) -> None:
    content = bytearray((folder / name).read_bytes())
    content[place] ^= 1
    (folder / name).write_bytes(content)
    assert failed(folder) == ["files"]


@pytest.mark.parametrize("name", FILES)
def test_longer_and_shorter_files_are_noticed(folder: Path, name: str) -> None:
    content = (folder / name).read_bytes()
    for other in (content + b"\n", content[:-1], b""):
        (folder / name).write_bytes(other)
        assert failed(folder) == ["files"]


@pytest.mark.parametrize("name", [DATA_FILE, WEIGHTS])
def test_footer_that_makes_no_sense_is_refused_in_words_even_with_its_digest(folder: Path, name: str) -> None:
    content = (folder / name).read_bytes()
    refused = 0
    for place in range(len(content) - 300, len(content), 7):
        (folder / name).write_bytes(content[:place] + bytes([content[place] ^ 0x40]) + content[place + 1 :])
        edit_manifest(folder)
        try:
            verify_folder(folder)  # a flipped bit may do no harm
        except ReleaseFormatError:
            refused += 1
    assert refused > 10


@pytest.mark.slow
def test_page_that_would_swell_is_refused_before_it_is_unpacked(folder: Path) -> None:
    long = [f"{row}{'x' * (1 << 20)}" for row in range(60)]
    rewrite(folder, DATA_FILE, lambda table: with_column(table, "sex", long))
    assert (folder / DATA_FILE).stat().st_size < 1 << 15
    with refuses(ReleaseFormatError, "page-unpacks-too-large", file="data.parquet"):
        verify_folder(folder)


@pytest.mark.parametrize("name", FILES)
def test_missing_file_is_noticed(folder: Path, name: str) -> None:
    (folder / name).unlink()
    assert failed_alone(folder) == ["files"]


@pytest.mark.parametrize("name", ["notes.txt", ".hidden", "data.parquet.bak"])
def test_additional_file_is_noticed(folder: Path, name: str) -> None:
    (folder / name).write_text("x")
    found = verify(folder).checks[0]
    assert not found.has_passed
    assert name in found.detail


def test_file_that_the_manifest_does_not_list_is_noticed(folder: Path) -> None:
    edit_manifest(folder, lambda written: written["resources"].pop())
    assert failed(folder) == ["files"]


def test_file_that_the_manifest_lists_twice_is_noticed(folder: Path) -> None:
    edit_manifest(folder, lambda written: written["resources"].append(written["resources"][1]))
    assert failed(folder) == ["files"]


def test_records_that_the_manifest_lists_twice_are_refused(folder: Path) -> None:
    """Or a reader of all files would count them twice."""
    edit_manifest(folder, lambda written: written["resources"].append(written["resources"][0]))
    with refuses(ReleaseFormatError, "unlisted-files", file="datapackage.json"):
        failed(folder)


@pytest.mark.parametrize("path", ["../secret.txt", "/etc/hostname", "datapackage.json"])
def test_manifest_cannot_point_at_other_files(folder: Path, path: str) -> None:
    edit_manifest(folder, lambda written: written["resources"][2].update(path=path))
    with refuses(ReleaseFormatError, "foreign-file", file=path):
        failed(folder)


# ---------------------------------------------------------------------------------------- edited, with digests that fit


def test_rewriting_a_release_as_it_was_is_not_noticed(folder: Path) -> None:
    rewrite(folder, DATA_FILE, lambda table: table)
    rewrite(folder, WEIGHTS, lambda table: table)
    assert failed(folder, people()) == []


def test_value_outside_the_domain_is_noticed(folder: Path) -> None:
    rewrite(folder, DATA_FILE, lambda table: with_cell(table, "disease", 59, "plague"))
    assert failed(folder) == ["domain"]


def test_missing_value_outside_the_domain_is_noticed(folder: Path) -> None:
    def change(table: pa.Table) -> pa.Table:
        nullable = pa.schema([pa.field(field.name, field.type) for field in table.schema])
        return with_cell(table.cast(nullable), "disease", 0, None)

    rewrite(folder, DATA_FILE, change)
    assert failed(folder) == ["domain"]


def test_another_value_of_the_domain_cannot_be_noticed(folder: Path) -> None:
    rewrite(folder, DATA_FILE, lambda table: with_cell(table, "disease", 0, "HIV"))
    assert failed(folder) == []


@pytest.mark.parametrize(
    "change",
    [
        lambda table: table.rename_columns({"sex": "gender"}),
        lambda table: table.select(["sex", "age", "disease"]),
        lambda table: table.drop_columns(["sex"]),
        lambda table: table.append_column("more", pa.array([1] * 60)),
        lambda table: table.set_column(0, "age", table.column("age").cast(pa.string())),
    ],
    ids=["renamed", "reordered", "left out", "added", "another type"],
)
def test_other_columns_than_the_manifest_says_are_noticed(folder: Path, change: Callable[[pa.Table], pa.Table]) -> None:
    rewrite(folder, DATA_FILE, change)
    assert "schema" in failed(folder)


def raised(retention: str, digits: int) -> str:
    """The retention with 1 added to the last of so many digits."""
    return str(Fraction(retention) + Fraction(1, 10**digits))


@pytest.mark.parametrize("digits", [1, 6, 40])
def test_retention_that_is_too_large_by_one_digit_breaks_the_promise(folder: Path, digits: int) -> None:
    def change(written: dict[str, Any]) -> None:
        design = written["sfumato"]["design"]
        design["retention"] = raised(design["retention"], digits)

    edit_manifest(folder, change)
    assert "guarantee" in failed_alone(folder)


def test_smaller_retention_keeps_the_promise_and_contradicts_the_weights(folder: Path) -> None:
    edit_manifest(folder, lambda written: written["sfumato"]["design"].update(retention="1/2"))
    assert failed(folder) == ["weights"]


def test_tighter_bound_than_was_planned_for_breaks_the_promise(folder: Path) -> None:
    edit_manifest(folder, lambda written: written["sfumato"]["design"].update(posterior="499999999/1000000000"))
    assert failed_alone(folder) == ["guarantee"]


@pytest.mark.parametrize("domain", [["HIV", "asthma", "cold"], ["HIV", "asthma", "cold", "flu", "gout"]])
def test_another_domain_is_noticed(folder: Path, domain: list[str]) -> None:
    edit_manifest(folder, lambda written: written["sfumato"]["design"].update(domain=domain))
    assert "weights" in failed_alone(folder)


def test_domain_that_names_a_value_twice_is_refused(folder: Path) -> None:
    domain = ["HIV", "asthma", "cold", "flu", "flu"]
    edit_manifest(folder, lambda written: written["sfumato"]["design"].update(domain=domain))
    with refuses(ReleaseFormatError, "damaged-design", part="retention"):
        verify(folder)


@pytest.mark.parametrize("name", [DATA_FILE, WEIGHTS])
@pytest.mark.parametrize(
    "options",
    [
        {"write_statistics": ["{column}"], "store_schema": False},
        {"write_statistics": False, "store_schema": True},
    ],
    ids=["statistics of one column", "stored schema"],
)
def test_statistics_and_metadata_are_noticed(folder: Path, name: str, options: dict[str, Any]) -> None:
    table = pq.read_table(folder / name)
    columns = options["write_statistics"] and [table.schema.names[1]]
    pq.write_table(table, folder / name, **{**options, "write_statistics": columns})
    edit_manifest(folder)
    assert failed(folder) == ["metadata"]


def test_metadata_of_the_file_are_noticed(folder: Path) -> None:
    rewrite(folder, DATA_FILE, lambda table: table.replace_schema_metadata({"source": "people.csv"}))
    table = pq.read_table(folder / DATA_FILE)
    with pq.ParquetWriter(folder / DATA_FILE, table.schema, write_statistics=False, store_schema=False) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata({"source": "people.csv"})
    edit_manifest(folder)
    assert failed(folder) == ["metadata"]


@pytest.mark.parametrize("column", ["if_equal", "otherwise"])
@pytest.mark.parametrize("row", [0, 3])
@pytest.mark.parametrize("factor", [1 - 1e-8, 1 + 1e-8], ids=["too small", "too large"])
def test_weight_that_is_wrong_in_its_eighth_digit_is_noticed(
    folder: Path, column: str, row: int, factor: float
) -> None:
    rewrite(folder, WEIGHTS, lambda table: with_cell(table, column, row, factor * table.column(column)[row].as_py()))
    assert failed(folder) == ["weights"]


@pytest.mark.parametrize(
    "change",
    [
        lambda table: table.take([1, 0, 2, 3]),
        lambda table: table.slice(0, 3),
        lambda table: pa.concat_tables([table, table.slice(0, 1)]),
    ],
    ids=["reordered", "one left out", "one twice"],
)
def test_weights_of_other_values_are_noticed(folder: Path, change: Callable[[pa.Table], pa.Table]) -> None:
    rewrite(folder, WEIGHTS, change)
    assert failed(folder) == ["weights"]


@pytest.mark.parametrize("fit", [False, None, 1, "yes"])
def test_release_that_does_not_say_that_it_is_fit_is_not(folder: Path, fit: Any) -> None:
    edit_manifest(folder, lambda written: written["sfumato"].update(fit_to_publish=fit))
    assert failed(folder) == [FITNESS]


@pytest.mark.parametrize(("prior", "posterior"), [("1/2", "1/2"), ("2/3", "1/2"), ("1/10", "1"), ("0", "1/2")])
def test_bound_that_promises_nothing_is_refused(folder: Path, prior: str, posterior: str) -> None:
    edit_manifest(folder, lambda written: written["sfumato"]["design"].update(prior=prior, posterior=posterior))
    with refuses(ReleaseFormatError, "bound-without-effect", prior=prior, posterior=posterior):
        verify_folder(folder)


READ: dict[str, Callable[[dict[str, Any]], Any]] = {
    "uniform": uniform_law.read_distribution,
    "fine-grain": fine_grain_distribution.read_distribution,
    "small-domain": small_domain_distribution.read_distributions,
    "subset": subset_distribution.read_distribution,
}


def law_from(mechanism: str, **design: Any) -> Any:
    """The law that a release of this design has."""
    return READ[mechanism]({"domain": ["flu", "cold", "HIV"], **design})


@pytest.mark.parametrize(
    ("mechanism", "design"),
    [
        ("uniform", {"retention": "3/2"}),
        ("uniform", {"retention": "-2/3"}),
        ("uniform", {"retention": "1/2", "domain": ["flu"]}),
        ("fine-grain", {"retentions": ["1/2", "3/2", "0"]}),
        ("fine-grain", {"retentions": ["1/2", "1/2"]}),
        ("small-domain", {"cells": [{"places": [0], "retention": "1/2"}]}),
        ("small-domain", {"cells": [{"places": [0, 1], "retention": "2"}]}),
        ("subset", {"subset_size": 0, "hold_probability": "1/2"}),
        ("subset", {"subset_size": 3, "hold_probability": "1/2"}),
        ("subset", {"subset_size": 1, "hold_probability": "1"}),
        ("subset", {"subset_size": 1, "hold_probability": "1/3"}),
    ],
    ids=str,
)
def test_numbers_that_make_no_law_are_refused(mechanism: str, design: dict[str, Any]) -> None:
    with refuses(ReleaseFormatError, "invalid-distribution"):
        law_from(mechanism, **design)


@pytest.mark.parametrize("places", [[0, 3], [-1, 0], [1, 1]], ids=str)
def test_cell_of_other_values_than_the_domain_has_is_refused(places: list[int]) -> None:
    with refuses(ReleaseFormatError, "value-outside-domain"):
        law_from("small-domain", cells=[{"places": places, "retention": "1/2"}])


@pytest.mark.parametrize("retention", ["0", "1", "-1/9", "3/2"])
def test_release_of_a_retention_that_protects_nothing_or_says_nothing_does_not_pass(
    folder: Path, retention: str
) -> None:
    edit_manifest(folder, lambda written: written["sfumato"]["design"].update(retention=retention))
    with pytest.raises(ReleaseFormatError):
        verify(folder)


def test_every_mechanism_has_a_law() -> None:
    assert REFERENCE_DISTRIBUTIONS.keys() == REGISTRY.keys()


@pytest.mark.parametrize("mechanism", REGISTRY)
def test_law_says_what_the_mechanism_guarantees_today(mechanism: str) -> None:
    assert find_distribution(mechanism).guarantees[0] == REGISTRY[mechanism].guarantee


def test_mechanism_without_a_verifier_is_not_the_fault_of_a_release(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(REFERENCE_DISTRIBUTIONS, "uniform")
    for check in (verify_folder, verify):
        with pytest.raises(MissingCapabilityError) as raised:
            check(folder)
        assert (raised.value.mechanism, raised.value.capability) == ("uniform", "Verifier")


def test_release_of_a_mechanism_that_nobody_knows_is_refused_for_that(folder: Path) -> None:
    edit_manifest(folder, lambda written: written["sfumato"].update(mechanism="magic"))
    with refuses(ReleaseFormatError, "unknown-mechanism", mechanism="magic"):
        verify(folder)


# ---------------------------------------------------------------------------------------------------- with the original


def swapped(table: pa.Table, column: str, one: int, other: int) -> pa.Table:
    """The table with two cells of a column exchanged."""
    values = table.column(column).to_pylist()
    return with_cell(with_cell(table, column, one, values[other]), column, other, values[one])


@pytest.mark.parametrize(
    "change",
    [
        lambda table: with_cell(table, "age", 17, 31),
        lambda table: with_cell(table, "sex", 0, None),
        lambda table: swapped(table, "sex", 0, 1),
        lambda table: table.slice(1),
        lambda table: pa.concat_tables([table, table.slice(0, 1)]),
        lambda table: pa.concat_tables([table.slice(1), table.slice(1, 1)]),
        lambda table: people(60, age=[30, 40, 50, 61]),
    ],
    ids=["changed", "emptied", "swapped", "one fewer", "one more", "one for another", "another table"],
)
def test_public_columns_that_are_not_the_original_ones_are_noticed(
    made: Path, change: Callable[[pa.Table], pa.Table]
) -> None:
    assert failed(made, change(people())) == ["public columns"]


@pytest.mark.slow
def test_changed_public_cell_of_the_release_is_noticed(folder: Path) -> None:
    rewrite(folder, DATA_FILE, lambda table: with_cell(table, "age", 3, 99))
    assert failed(folder) == []
    assert failed(folder, people()) == ["public columns"]


@pytest.mark.slow
def test_release_in_the_order_of_the_original_is_noticed(folder: Path) -> None:
    rewrite(folder, DATA_FILE, lambda table: people().cast(table.schema))
    assert failed(folder, people()) == ["order"]
    assert failed(folder, people().sort_by("age")) == []


@pytest.mark.slow
def test_release_of_people_who_are_all_alike_has_no_order(tmp_path: Path) -> None:
    table = people(60, age=[30], sex=["F"])
    assert failed(published(table, tmp_path / "release", key=None).folder, table) == []


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A release of so many people that the law of its values shows."""
    return published(people(4000), tmp_path_factory.mktemp("many") / "release", key=None).folder


def joined(table: pa.Table, change: Callable[[pa.Table], pa.Table]) -> pa.Table:
    """The published rows with other published values."""
    return table.set_column(2, table.schema.field(2), change(table).column("disease").cast(table.schema.field(2).type))


@pytest.mark.slow
@pytest.mark.parametrize(
    "change",
    [
        lambda table: people(4000).take(np.random.default_rng(1).permutation(4000)),
        lambda table: table.set_column(2, "disease", pa.array(["flu", "HIV", "cold", "asthma"] * 1000)),
        lambda table: table.sort_by("disease"),
    ],
    ids=["not perturbed", "all values equally often", "tied to a public column"],
)
def test_values_that_are_not_drawn_as_the_design_says_are_noticed(
    many: Path, tmp_path: Path, change: Callable[[pa.Table], pa.Table]
) -> None:
    folder = Path(shutil.copytree(many, tmp_path / "release"))
    assert failed(folder, people(4000)) == []
    mixed = np.random.default_rng(2).permutation(4000)
    rewrite(folder, DATA_FILE, lambda table: joined(table.sort_by("sex"), change).take(mixed))
    assert failed(folder, people(4000)) == ["draws"]


def test_deviation_is_counted_in_standard_deviations() -> None:
    def deviation(errors: list[float], variances: list[float]) -> float:
        return find_largest_deviation(np.array(errors, dtype=np.float64), np.array(variances, dtype=np.float64))

    assert deviation([50, -50], [75 + 65.625, 156.25]) == pytest.approx(50 / (75 + 65.625) ** 0.5)
    assert deviation([50, -50], [75 + 65.625, 125]) == pytest.approx(50 / 125**0.5)
    assert deviation([0, 0], [140, 156]) == 0
    assert deviation([60, -60], [99, 99]) == 0  # too few to tell
    assert deviation([], []) == 0


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", ["uniform", "subset"])
@pytest.mark.parametrize(
    ("moved", "times", "found"),
    [(50, 1, f"{50 / (75 + 65.625) ** 0.5:.1f}"), (0, 1, "0.0"), (31, 5, "0.0")],
    ids=["off", "as expected", "too few to tell"],
)
def test_records_that_show_a_value_are_expected_by_binomial_coins(
    tmp_path: Path, mechanism: str, moved: int, times: int, found: str
) -> None:
    """Of 1000 records 400 hold the value: 400 * 3/4 + 600 * 1/8 = 375 show it, with a variance of 75 + 65.625.

    Of 200 records it is a fifth of that, which says nothing about any value.
    """
    held, shown = (400 // times, 600 // times, 0), (375 // times + moved, 500 // times - moved, 125 // times)
    table = pa.table({"sex": ["F"] * sum(held), "disease": np.repeat(list("abc"), held)})
    schema = Schema.of("disease", domains={"disease": list("abc")}, public="*")
    publish(
        Request(table, schema=schema, spec=BreachBound("1/2", "6/7"), mechanism=mechanism, **ALL_ACCEPTED),
        tmp_path / "release",
    )
    symbols = list("abc") if mechanism == "uniform" else [bytes([128 >> place]) for place in range(3)]
    drawn = [symbols[place] for place in np.repeat(range(3), shown)]
    rewrite(tmp_path / "release", DATA_FILE, lambda written: with_column(written, "disease", drawn))
    detail = next(check.detail for check in verify(tmp_path / "release", table).checks if check.name == "draws")
    assert f"largest deviation: {found} standard deviations" in detail


@pytest.mark.slow
def test_value_that_nobody_has_must_be_shown_as_often_as_the_design_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its records, spread over 49 other values, would not stand out there."""
    drawn = uniform.perturb

    def never_the_last(*arguments: Any) -> Any:
        codes = drawn(*arguments).values
        return PerturbedRecords(np.where(codes == 49, np.arange(len(codes)) % 49, codes).astype(codes.dtype))

    monkeypatch.setitem(REGISTRY, "uniform", replace(uniform.MECHANISM, perturb=never_the_last))
    table = pa.table({"sex": ["F", "M"] * 9_800, "disease": [f"{number % 49:02d}" for number in range(19_600)]})
    domain = [f"{number:02d}" for number in range(50)]
    request = Request(
        table,
        schema=Schema.of("disease", domains={"disease": domain}, public="*"),
        spec=BreachBound("1/10", "1/3"),
        mechanism="uniform",
        **ALL_ACCEPTED,
    )
    publish(request, tmp_path / "release")
    assert failed(tmp_path / "release", table) == ["draws"]


def test_original_may_come_in_another_order(made: Path) -> None:
    assert failed(made, people().sort_by("disease")) == []


def test_original_with_a_value_outside_the_domain_is_noticed(made: Path) -> None:
    assert failed(made, with_cell(people(), "disease", 0, "plague")) == ["draws", "posteriors"]


def test_original_without_a_published_column_is_refused(made: Path) -> None:
    with refuses(ReleaseFormatError, "not-the-original", column="sex"):
        verify(made, people().drop_columns(["sex"]))


@pytest.mark.slow
def test_original_of_other_types_is_refused(made: Path) -> None:
    assert failed(made, people(disease=[1, 2, 3])) == ["draws", "posteriors"]  # as texts, and outside the domain
    with refuses(ReleaseFormatError, "columns-do-not-match"):
        verify(made, people(age=["old", "young"]))


def test_columns_that_were_not_published_do_not_matter(made: Path) -> None:
    assert failed(made, people(name=["Ann", "Bob", "Cy"])) == []


@pytest.mark.slow
def test_bins_and_missing_values_are_treated_as_in_publishing(tmp_path: Path) -> None:
    table = people(70, disease=["flu", "cold", None, "HIV", "flu", "asthma", "cold"])
    schema = Schema.of("disease", ranges={"age": Ranges.parse("0,45,90")}, nulls="drop", public="*")
    release = published(table, tmp_path / "release", schema=schema, key=None)
    assert release.rows == 60
    assert failed(release.folder, table) == []
    assert failed(release.folder, with_cell(table, "age", 0, 31)) == []
    assert failed(release.folder, with_cell(table, "age", 0, 46)) == ["public columns"]


@pytest.mark.slow
def test_original_can_be_a_file(tmp_path: Path) -> None:
    table = people(60, code=["007", "010"])
    pa_csv.write_csv(table, tmp_path / "people.csv")
    pq.write_table(table, tmp_path / "people.parquet")
    release = published(table, tmp_path / "release", key=None)
    assert failed(release.folder, tmp_path / "people.csv") == []
    assert failed(release.folder, str(tmp_path / "people.parquet")) == []


@pytest.mark.slow
def test_posteriors_are_those_of_the_original(tmp_path: Path) -> None:
    """The odds of the 5 records of 100 rise nine times: 9 * 5 against 95, which is 45 of 140 or 9/28."""
    table = people(100, disease=["HIV"] * 5 + ["flu"] * 45 + ["cold"] * 50)
    detail = verify(published(table, tmp_path / "release").folder, table).checks[-1].detail
    assert detail == (
        "for each of the 1 values with a share of at most 1/10, an attacker's confidence is at most 32.2% "
        "(exactly 9/28); guaranteed: 1/2."
    )


# ----------------------------------------------------------------------------------------------------------- exact laws


Matrix = list[list[Fraction]]
"""The chance of all that can be published (columns) for each true value (row)."""


def full_law(law: SubTableDistribution) -> Matrix:
    """The whole matrix of a cell."""
    numbers = range(len(law.places))
    return [
        [law.same_chances[true] if shown == true else law.other_chances[true] for shown in numbers] for true in numbers
    ]


def full_set_law(law: SetDistribution) -> Matrix:
    """The whole matrix, with a column for each set."""
    sets = [set(members) for members in combinations(range(law.domain_size), law.subset_size)]
    inside = law.hold_chance / math.comb(law.domain_size - 1, law.subset_size - 1)
    outside = (1 - law.hold_chance) / math.comb(law.domain_size - 1, law.subset_size)
    return [[inside if true in members else outside for members in sets] for true in range(law.domain_size)]


def worst_posteriors(counts: Sequence[int], matrix: Matrix) -> list[Fraction]:
    """Bayes' rule, written out: the largest chance of each true value, over all that can be published."""
    joint = [[count * chance for chance in row] for count, row in zip(counts, matrix, strict=True)]
    seen = [sum(column) for column in zip(*joint, strict=True)]
    return [max(each / total for each, total in zip(row, seen, strict=True) if total) for row in joint]


def cell_laws_of(size: int, retentions: st.SearchStrategy[Any]) -> st.SearchStrategy[SubTableDistribution]:
    """Laws in which each value has a coin of its own."""
    coins = st.lists(retentions, min_size=size, max_size=size)
    return coins.map(lambda each: SubTableDistribution.of(range(size), [Fraction(coin) for coin in each]))


def uniform_laws(size: int) -> st.SearchStrategy[SubTableDistribution]:
    """The laws of uniform perturbation with any retention."""
    return shares(500).map(lambda retention: SubTableDistribution.of(range(size), [retention] * size))


def some_cell_laws(size: int) -> st.SearchStrategy[SubTableDistribution]:
    """Laws of one coin for all values, or of one for each: never kept, always kept, or shown less often than others."""
    coins = shares(50) | st.sampled_from([0, 1]) | shares(50).map(lambda share: -share / (size - 1))
    return uniform_laws(size) | cell_laws_of(size, coins)


@st.composite
def set_laws(draw: st.DrawFn, largest: int = 6) -> SetDistribution:
    """Laws of sets of any size, which hold the true value with any chance above that of the others."""
    size = draw(st.integers(2, largest))
    members = draw(st.integers(1, size - 1))
    even = Fraction(members, size)
    return SetDistribution(size, members, even + (1 - even) * draw(shares(50)))


@given(st.data(), st.lists(st.integers(0, 50), min_size=2, max_size=7).filter(any))
def test_posteriors_of_values_are_those_of_bayes_rule(data: st.DataObject, counts: list[int]) -> None:
    law = data.draw(some_cell_laws(len(counts)))
    assert compute_sub_table_posteriors(counts, law) == worst_posteriors(counts, full_law(law))


@given(st.data(), set_laws())
def test_posteriors_of_sets_are_those_of_bayes_rule(data: st.DataObject, law: SetDistribution) -> None:
    counts = data.draw(st.lists(st.integers(0, 50), min_size=law.domain_size, max_size=law.domain_size).filter(any))
    assert compute_set_posteriors(counts, law) == worst_posteriors(counts, full_set_law(law))


def largest_ratio(one: Sequence[Fraction], others: Sequence[Sequence[Fraction]]) -> Fraction | None:
    """The largest ratio of a row to any other row in the same column; None where it has no limit."""
    pairs = [(each, rival) for row in others for each, rival in zip(one, row, strict=True) if each]
    return None if any(not rival for _, rival in pairs) else max(each / rival for each, rival in pairs)


@given(st.data(), st.integers(2, 6))
def test_odds_rise_by_the_largest_ratio_of_the_whole_law(data: st.DataObject, size: int) -> None:
    law = data.draw(some_cell_laws(size))
    matrix = full_law(law)
    for number, row in enumerate(matrix):
        assert law.compute_rise(number) == largest_ratio(row, [*matrix[:number], *matrix[number + 1 :]])


@given(st.data(), st.integers(2, 6))
def test_odds_fall_by_the_largest_ratio_of_the_whole_law(data: st.DataObject, size: int) -> None:
    law = data.draw(some_cell_laws(size))
    matrix = full_law(law)
    for number, row in enumerate(matrix):
        ratios = [largest_ratio(rival, [row]) for rival in [*matrix[:number], *matrix[number + 1 :]]]
        assert law.compute_fall(number) == (
            None if None in ratios else max(each for each in ratios if each is not None)
        )


@given(set_laws())
def test_amplification_of_sets_is_the_largest_ratio_of_the_whole_law(law: SetDistribution) -> None:
    columns = list(zip(*full_set_law(law), strict=True))
    assert law.amplification == max(one / other for column in columns for one in column for other in column)


@given(set_laws())
def test_another_value_is_held_as_often_as_the_whole_law_says(law: SetDistribution) -> None:
    sets = list(combinations(range(law.domain_size), law.subset_size))
    chances = full_set_law(law)[0]
    assert law.other_chance == sum(chance for chance, members in zip(chances, sets, strict=True) if 1 in members)


@given(shares(60), shares(60))
def test_belief_rises_and_falls_by_bayes_rule(belief: Fraction, chance: Fraction) -> None:
    """A statement whose evidence is `factor` times as likely if it is true, or if it is false."""
    factor = 1 + chance
    assert compute_raised_belief(belief, factor) == belief * factor / (belief * factor + (1 - belief) * 1)
    assert compute_lowered_belief(belief, factor) == belief * 1 / (belief * 1 + (1 - belief) * factor)
    assert (compute_raised_belief(belief, None), compute_lowered_belief(belief, None)) == (1, 0)


def planned_law(histogram: Histogram, bound: BreachBound) -> SubTableDistribution:
    """The law of the plan that was made for a table; an example for which there is none is passed over."""
    try:
        plan = uniform.plan(histogram, bound, uniform.NoOptions(), Draws.unsafe_test_key("00" * 32))
    except InfeasibleError:
        reject()
    return uniform_law.read_distribution(uniform.make_design(plan).to_json())


def worst_covered(histogram: Histogram, bound: BreachBound) -> Fraction:
    """The largest posterior of a value whose share is within the prior."""
    posteriors = compute_sub_table_posteriors(histogram.counts, planned_law(histogram, bound))
    covered = [each for each, share in zip(posteriors, histogram.shares, strict=True) if share <= bound.prior]
    return max(covered, default=Fraction(0))


@settings(max_examples=examples(50))
@given(histograms(max_size=5), breach_bounds() | fine_breach_bounds())
def test_no_covered_value_of_any_table_is_believed_beyond_the_bound(histogram: Histogram, bound: BreachBound) -> None:
    assert worst_covered(histogram, bound) <= bound.posterior


@given(breach_bounds(60), st.integers(2, 5))
def test_value_as_frequent_as_the_prior_is_believed_as_much_as_the_bound_allows(bound: BreachBound, size: int) -> None:
    """The bound is tight: a record that shows a value of share `prior` makes it as likely as `posterior`."""
    total = bound.prior.denominator
    counts = [bound.prior.numerator, total - bound.prior.numerator, *[0] * (size - 2)]
    assert worst_covered(Histogram(tuple(range(size)), tuple(counts)), bound) == bound.posterior


@pytest.mark.parametrize("size", [2, 3, 5])
@pytest.mark.parametrize("bound", [BOUND, BreachBound("1/13", "1/4")], ids=["wide", "narrow"])
def test_published_law_is_what_the_sampler_does(size: int, bound: BreachBound) -> None:
    histogram = Histogram(tuple("abcde"[:size]), (1,) * size)
    plan = uniform.plan(histogram, bound, uniform.NoOptions(), Draws.unsafe_test_key("00" * 32))
    law = uniform_law.read_distribution(uniform.make_design(plan).to_json())
    assert transition_law(uniform.MECHANISM, plan, histogram.counts) == [dict(enumerate(row)) for row in full_law(law)]
