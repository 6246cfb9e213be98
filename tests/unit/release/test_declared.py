"""A declared domain hides what occurs: change any one sensitive value, and all but drawn values stays the same bytes.

For uniform and subset, everything in a release except drawn values and digests is a function of the public columns, the
number of rows and the request.
"""

from __future__ import annotations

import datetime
import random
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from accepted import ALL_ACCEPTED, give_reasons
from releases import known_key
from sfumato._core.cell_values import Value
from sfumato._publish.publication import Publication, publish
from sfumato._publish.request import Request
from sfumato._readers.read_options import ReadOptions
from sfumato._records.count_tables import COUNTS_FILE
from sfumato._release.manifest import MANIFEST
from sfumato._request.belief_bounds import BreachBound
from sfumato._request.schema import Schema
from sfumato._verify.against_original import verify
from sfumato.mechanisms._subset_selection import subset_mechanism as subset

ROWS = 12
BOUND = BreachBound("3/7", "1/2")
"""So close that sets of two of four values are the best."""


@dataclass(frozen=True)
class Domain:
    """A domain as a file declares it, and the same values as Python has them; without the last they read otherwise."""

    texts: tuple[str | None, ...]
    values: tuple[Value, ...]
    type: str


DOMAINS = {
    "codes": Domain(("250", "401", "715", "042"), ("250", "401", "715", "042"), "string"),
    "words": Domain(("1", "2", "3", "flu"), ("1", "2", "3", "flu"), "string"),
    "integers": Domain(("1", "2", "3", None), (1, 2, 3, None), "integer"),
    "numbers": Domain(("1", "2", "3", "2.5"), (1, 2, 3, 2.5), "number"),
    "dates": Domain(
        ("2024-01-01", "2024-02-29", None), (datetime.date(2024, 1, 1), datetime.date(2024, 2, 29), None), "date"
    ),
    "truths": Domain(("true", "false", None), (True, False, None), "boolean"),
}


def to_csv(places: list[int], domain: Domain, folder: Path) -> Path:
    """The values as they are spelled in the domain file."""
    lines = [f"{'FM'[row % 2]},{row % 3},{domain.texts[place] or ''}" for row, place in enumerate(places)]
    (folder / "people.csv").write_text("\n".join(["sex,age,code", *lines, ""]))
    return folder / "people.csv"


def to_pandas(places: list[int], domain: Domain, folder: Path) -> pd.DataFrame:
    """The values as pandas likes to have them: one that is missing makes numbers of integers."""
    given = [domain.values[place] for place in places]
    return pd.DataFrame({"sex": ["F", "M"] * (ROWS // 2), "age": [0, 1, 2] * (ROWS // 3), "code": given})


def to_parquet(places: list[int], domain: Domain, folder: Path) -> Path:
    """What pandas makes of them, in a file."""
    to_pandas(places, domain, folder).to_parquet(folder / "people.parquet")
    return folder / "people.parquet"


def to_csv_by_pandas(places: list[int], domain: Domain, folder: Path) -> Path:
    """What pandas makes of them, in a CSV file: integers beside a missing value are written as 1.0."""
    frame = to_pandas(places, domain, folder)
    if domain.type == "boolean":
        frame["code"] = [None if value is None else str(value).lower() for value in frame["code"]]
    frame.to_csv(folder / "people.csv", index=False)
    return folder / "people.csv"


SOURCES: dict[str, Callable[[list[int], Domain, Path], Any]] = {
    "csv": to_csv,
    "pandas": to_pandas,
    "parquet": to_parquet,
    "csv by pandas": to_csv_by_pandas,
}
MECHANISMS: dict[str, Mapping[str, Any]] = {
    "auto": {},
    "uniform": {"mechanism": "uniform"},
    "sets": {"mechanism": "subset"},
    "lists": {"mechanism": "subset", "options": {"subset": subset.Options(form=subset.Form.LIST)}},
}


def told(made: Publication) -> dict[str, Any]:
    """Everything in a release except drawn values and digests."""
    release, manifest = made.release, made.release.manifest
    found: dict[str, Any] = {path.name: path.read_bytes() for path in sorted(release.folder.iterdir())}
    found[MANIFEST] = re.sub(rb"[0-9a-f]{64}", b"digest", found[MANIFEST])
    if COUNTS_FILE in found:
        counts = pq.read_table(release.folder / COUNTS_FILE)
        found[COUNTS_FILE] = counts.drop_columns(counts.column_names[-2:]).to_pylist()  # noisy counts and estimates
    with pq.ParquetFile(release.folder / manifest.data_file) as file:
        public = file.read(columns=list(manifest.public_columns)).to_pylist()
        columns = [str(file.schema.column(number)) for number in range(len(file.schema.names))]
        described = (columns, str(file.schema_arrow), file.metadata.metadata, file.metadata.created_by)
        found[manifest.data_file] = (described, file.num_row_groups, public)
    return found


def releases(  # noqa: PLR0913 - each is a parameter of a test
    name: str, source: str, way: str, seed: int, folder: Path, *, declared: Any
) -> list[dict[str, Any]]:
    """What is told of a table that lacks a value of the domain, and of the same table with it in one of its records.

    Drawn with one key, so that public columns stand in one order.
    """
    domain, chance, found = DOMAINS[name], random.Random(seed), []
    last = chance.choice([len(domain.texts) - 1, chance.randrange(len(domain.texts))])
    few = [place for place in range(len(domain.texts)) if place != last]
    places = [*few, *(chance.choice(few) for _ in range(ROWS - len(few)))]
    chance.shuffle(places)
    row = chance.randrange(ROWS)
    schema = Schema.of("code", domains={"code": declared} if declared else {}, keep=["code"], public="*")
    for number, held in enumerate((places[row], last)):
        (folder / str(number)).mkdir()
        table = SOURCES[source]([*places[:row], held, *places[row + 1 :]], domain, folder / str(number))
        request = Request(table, schema=schema, spec=BOUND, **MECHANISMS[way], **ALL_ACCEPTED)
        found.append(told(publish(request, folder / str(number) / "release", unsafe_test_key=known_key(seed))))
    return found


@pytest.mark.slow
@pytest.mark.pairwise
@pytest.mark.parametrize("seed", [*range(3), *(pytest.param(seed, marks=pytest.mark.full) for seed in range(3, 12))])
@pytest.mark.parametrize("way", MECHANISMS)
@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("name", DOMAINS)
def test_one_sensitive_value_changes_nothing_but_drawn_values(
    name: str, source: str, way: str, seed: int, tmp_path: Path
) -> None:
    domain = DOMAINS[name]
    declared = domain.texts if seed % 2 or "csv" in source else domain.values
    without, having = releases(name, source, way, seed, tmp_path, declared=declared)
    assert having == without


@pytest.mark.slow
@pytest.mark.parametrize("name", DOMAINS)
def test_one_sensitive_value_is_seen_where_the_domain_is_taken_from_the_table(name: str, tmp_path: Path) -> None:
    """The twin: what the test above compares tells of a value that nobody else has."""
    without, having = releases(name, "csv", "uniform", 0, tmp_path, declared=None)
    assert having.keys() == without.keys()
    assert having[MANIFEST] != without[MANIFEST]


@pytest.mark.slow
@pytest.mark.parametrize("source", ["csv by pandas", "parquet"])
@pytest.mark.parametrize("name", DOMAINS)
def test_type_is_that_of_the_domain_and_the_original_is_read_by_it(name: str, source: str, tmp_path: Path) -> None:
    """Also if the value that decides the type does not occur."""
    domain = DOMAINS[name]
    table = SOURCES[source]([0, 1] * (ROWS // 2), domain, tmp_path)
    schema = Schema.of("code", domains={"code": domain.texts}, keep=["code"], public="*")
    request = Request(
        table, schema=schema, spec=BOUND, mechanism="uniform", accept_disclosing=give_reasons(("sex",)), **ALL_ACCEPTED
    )  # it repeats as the codes do
    made = publish(request, tmp_path / "release")
    assert made.release.manifest.sensitive_types == (domain.type,)
    assert made.release.manifest.domain == domain.values
    assert verify(tmp_path / "release", table).has_passed


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", ["uniform", "subset"])
@pytest.mark.parametrize(
    ("schema", "other"),
    [
        (Schema.of("code", ranges={"code": "0,100,300,500"}, public="*"), "42.5"),
        (
            Schema.of(
                compound=("age", "code"), domains={"code": ("250", "042", None), "age": ("0", "1", "2")}, public="*"
            ),
            "042",
        ),
    ],
    ids=["bins", "compound"],
)
def test_bins_and_compounds_hide_what_occurs_too(schema: Schema, other: str, mechanism: str, tmp_path: Path) -> None:
    found = []
    for number, code in enumerate(("250", other, "")):
        lines = [f"{'FM'[row % 2]},{row % 3},{'250' if row else code}" for row in range(ROWS)]
        (tmp_path / f"{number}.csv").write_text("\n".join(["sex,age,code", *lines, ""]))
        request = Request(tmp_path / f"{number}.csv", schema=schema, spec=BOUND, mechanism=mechanism, **ALL_ACCEPTED)
        found.append(told(publish(request, tmp_path / f"release-{number}", unsafe_test_key=known_key(7))))
    assert found[0] == found[1] == found[2]


def test_integers_are_texts_on_request(tmp_path: Path) -> None:
    table = pa.table({"sex": ["F", "M"] * 6, "code": [1, 2, 3] * 4})
    schema = Schema.of("code", domains={"code": ("1", "2", "3")}, public="*")
    made = publish(
        Request(
            table, schema=schema, spec=BOUND, mechanism="uniform", read=ReadOptions(text=("code",)), **ALL_ACCEPTED
        ),
        tmp_path / "release",
    )
    assert made.release.manifest.domain == ("1", "2", "3")
    assert verify(tmp_path / "release", table).has_passed


def test_public_column_with_a_domain_has_its_type_too(tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text("ward,code\n" + "7,a\n8,b\n" * 6)
    schema = Schema.of("code", domains={"code": ("a", "b"), "ward": ("07", "7", "8")}, public="*")
    request = Request(
        tmp_path / "people.csv",
        schema=schema,
        spec=BOUND,
        mechanism="uniform",
        accept_disclosing=give_reasons(("ward",)),
        **ALL_ACCEPTED,
    )
    made = publish(request, tmp_path / "release")
    assert made.release.manifest.get_field("ward").type == "string"
    assert verify(tmp_path / "release", tmp_path / "people.csv").has_passed
