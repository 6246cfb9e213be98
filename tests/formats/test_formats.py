"""Releases written by past versions must still open, verify and answer; and a key must still mean the same draws.

`1/` was published from the table below by version 0.1.0, the first of format 1; the others are the first of formats 2
to 4: from the third on with the third version of the draws, some with the first pages of our own, and in the fourth the
manifest says by which template the README was written. None is ever written anew.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from accepted import ALL_ACCEPTED, REASON, give_reasons
from parquet_files import pages_of
from releases import edit_manifest
from sfumato import BreachBound, Release, Request, Schema, publish
from sfumato._engines import shuffle
from sfumato._parquet.parquet_writer import CREATED_BY
from sfumato._release.manifest import MANIFEST, WEIGHTS
from sfumato._request.belief_bounds import PrivacySpec, Tolerance
from sfumato._request.bucket_and_decoy_requirements import DecoyGroups, Diversity, LinearCap
from sfumato._request.hierarchy import Hierarchy
from sfumato._verify.distributions import find_distribution
from sfumato._verify.file_checks import FITNESS, README_TEXT, verify_folder
from sfumato.mechanisms import REGISTRY, _decoys
from sfumato.mechanisms._bucketization import buckets
from sfumato.mechanisms._noisy_counts import noisy_counts_mechanism as noisy_counts
from sfumato.mechanisms._randomized_response import fine_grain, small_domain
from sfumato.mechanisms._subset_selection import subset_mechanism as subset

HERE = Path(__file__).parent
KEY = "5f" * 32
DISEASES = ("flu", "asthma", "HIV", None)
BOUND = BreachBound("1/4", "3/4")
AGGREGATE = {"fine-grain": fine_grain.Options(objective=fine_grain.Objective.AGGREGATE)}


def people() -> pa.Table:
    """Three hundred invented people, by arithmetic alone."""
    numbers = range(300)
    return pa.table(
        {
            "age": pa.array([20 + number * 7 % 60 for number in numbers], type=pa.int16()),
            "sex": ["FM"[number * 5 % 7 % 2] for number in numbers],
            "disease": [DISEASES[min(number * number % 11 // 3, 3)] for number in numbers],
        }
    )


def patients() -> pa.Table:
    """The same people with diseases of which none is frequent, one very rare, and with drugs."""
    numbers = range(300)
    diseases = [("flu", "cold", "asthma", None, "gout")[number * number % 13 % 5] for number in numbers]
    drugs = [("pill", "tea", "salve")[number * 11 % 17 % 3] for number in numbers]
    table = people().set_column(2, "disease", pa.array(["HIV", *diseases[1:]]))
    return table.append_column("drug", pa.array(drugs))


@dataclass(frozen=True)
class Written:
    """A release as it was asked for, and what it answered when it was written."""

    mechanism: str
    value: Any
    estimate: float
    error: float | None
    """None where too small a one was told then, and none is by now."""
    schema: Schema = field(default_factory=lambda: Schema.of("disease", domains={"disease": DISEASES}, public="*"))
    spec: PrivacySpec = BOUND
    options: dict[str, Any] = field(default_factory=dict)
    where: str = "sex = 'F' AND age < 50"
    method: str | None = None
    table: Callable[[], pa.Table] = people
    file_rows: int | None = None
    """How many rows make a file, where that is not as usual."""

    def request(self) -> Request:
        """The request, to be made again."""
        return Request(
            self.table(),
            schema=self.schema,
            spec=self.spec,
            mechanism=self.mechanism,
            options=self.options,
            accept_marginal_prior=REASON,
            accept_exposure=REASON,
            accept_disclosing=give_reasons(("age",)),
            **ALL_ACCEPTED,
        )

    def publish(self, folder: Path) -> Release:
        """The release, made again with the same key."""
        with pytest.MonkeyPatch.context() as patch:
            if self.file_rows is not None:
                patch.setattr(shuffle, "FILE_ROWS", self.file_rows)
            return publish(self.request(), folder, unsafe_test_key=KEY).release


CELLS = {"small-domain": small_domain.Options(min_cell=20)}
PAIR = Schema.of(compound=("sex", "disease"), domains={"sex": ("F", "M"), "disease": DISEASES}, public="*")
EACH = Schema.of(("disease", "drug"), domains={"drug": ("pill", "tea", "salve", "none")}, public="*")
DISEASE = Schema.of("disease", drop=["drug"], public="*")
DISEASE_OF_SIX = Schema.of(
    "disease", drop=["drug"], domains={"disease": ("flu", "cold", "asthma", "gout", "HIV", None)}, public="*"
)
COARSE = {"noisy-counts": noisy_counts.Options(also_by="sex=1/5")}
PAIRS_OF_SIX = BreachBound("1/4", "2/5")
"""The best sets of six values hold two of them."""
CHAPTERS = [
    *((name, "lungs") for name in ("flu", "cold", "asthma")),
    ("gout", "other"),
    ("HIV", "other"),
    (None, "other"),
]
KINDS = Schema.of(
    "disease", drop=["drug"], hierarchies={"disease": Hierarchy.of(("disease", "chapter"), CHAPTERS)}, public="*"
)
MERGED = {
    "decoys": _decoys.Options(_decoys.GroupCreation.ANATOMY_RANDOM, ratio_limit="50", rare=_decoys.RareTreatment.MERGE)
}

RELEASES = {
    "1": Written("uniform", "asthma", 56.75000000000001, 5.382262535402746),
    "2-uniform": Written("uniform", "asthma", 56.75000000000001, 5.382262535402746),
    "2-subset": Written("subset", "asthma", 56.75000000000001, 5.382262535402746),
    "2-small-domain": Written("small-domain", "asthma", 55.05263157894737, 3.4939599643795276, options=CELLS),
    "2-fine-grain": Written(
        "fine-grain", "asthma", 56.86125326056429, 16.55008245137456, spec=Tolerance("2"), options=AGGREGATE
    ),
    "2-compound": Written("uniform", ("F", "asthma"), 47.25, 8.40200868840303, schema=PAIR, where="age < 50"),
    "2-buckets": Written(
        "buckets",
        "asthma",
        46.166666666666664,
        3.7527767497325675,
        spec=LinearCap("3/2", "1/10"),
        options={"buckets": buckets.Options(buckets.Sizes.OPTIMAL)},
        method="uniform",
    ),
    "2-decoys": Written(
        "decoys",
        "flu",
        22.62962962962963,
        None,
        DISEASE,
        DecoyGroups(3),
        MERGED,
        method="closed",
        table=patients,
    ),
    "2-decoys-columns": Written(
        "decoys",
        ("asthma", "tea"),
        39.64661654135338,
        28.984769132906166,
        EACH,
        DecoyGroups(2),
        method="closed",
        table=patients,
    ),
    "3-uniform": Written("uniform", "asthma", 56.74999999999999, 5.382262535402746),
    "3-compound": Written("uniform", ("F", "asthma"), 47.25, 8.40200868840303, schema=PAIR, where="age < 50"),
    "3-several-files": Written("uniform", "asthma", 56.74999999999999, 5.382262535402746, file_rows=100),
    "3-subset": Written(
        "subset", "asthma", 26.00000000000003, 21.85177338341216, DISEASE, PAIRS_OF_SIX, table=patients
    ),
    "3-subset-list": Written(
        "subset",
        "asthma",
        26.00000000000003,
        21.85177338341216,
        DISEASE,
        PAIRS_OF_SIX,
        {"subset": subset.Options(subset.Form.LIST)},
        table=patients,
    ),
    "3-subset-columns": Written(
        "subset",
        "asthma",
        26.00000000000003,
        21.85177338341216,
        DISEASE,
        PAIRS_OF_SIX,
        {"subset": subset.Options(subset.Form.COLUMNS)},
        table=patients,
    ),
    "3-levels": Written(
        "levels", "asthma", 0.5174583333333413, 22.500360518593176, KINDS, PAIRS_OF_SIX, table=patients
    ),
    "3-harmonic": Written("harmonic", "asthma", 37.6, 8.956189665998222, spec=Tolerance("2")),
    "3-fine-grain": Written(
        "fine-grain", "asthma", 56.861253318012075, 16.550082474707352, spec=Tolerance("2"), options=AGGREGATE
    ),
    "3-small-domain": Written("small-domain", "asthma", 55.05263157894737, 3.4939599643795276, options=CELLS),
    "3-buckets": Written(
        "buckets",
        "asthma",
        46.666666666666664,
        3.80058475033046,
        spec=LinearCap("3/2", "1/10"),
        options={"buckets": buckets.Options(buckets.Sizes.OPTIMAL)},
        method="uniform",
    ),
    "3-anatomy": Written(
        "anatomy", "asthma", 13.0, 2.449489742783178, DISEASE, Diversity(3), method="uniform", table=patients
    ),
    "3-decoys": Written(
        "decoys",
        "flu",
        6.51612903225805,
        None,
        DISEASE,
        DecoyGroups(3),
        MERGED,
        method="closed",
        table=patients,
    ),
    "3-decoys-columns": Written(
        "decoys",
        ("asthma", "tea"),
        -14.310679611650489,
        18.936113951565297,
        EACH,
        DecoyGroups(2),
        method="closed",
        table=patients,
    ),
}

PAGES = {name.replace("3-", "3-pages-"): RELEASES[name] for name in ("3-uniform", "3-buckets", "3-subset-columns")}
"""The same releases, packed into pages of our own."""
WITH_TEMPLATE = ("3-uniform", "3-buckets", "3-subset-columns", "3-levels")
NUMBERED = {name.replace("3-", "4-"): RELEASES[name] for name in WITH_TEMPLATE}
"""The same releases, whose manifest says by which template the README was written."""
CURRENT = {name.replace("3-", "5-"): RELEASES[name] for name in WITH_TEMPLATE}
"""The same releases, with the reasons of what was accepted and the README of today."""
CURRENT |= {
    "5-noisy-counts": Written(
        "noisy-counts", "asthma", 6.2280799607557285, 15.213651933195234, DISEASE_OF_SIX, PAIRS_OF_SIX, table=patients
    ),
    "5-noisy-counts-coarse": Written(
        "noisy-counts",
        "asthma",
        16.49731549279476,
        13.965018904012526,
        DISEASE_OF_SIX,
        PAIRS_OF_SIX,
        COARSE,
        where="sex = 'F'",
        table=patients,
    ),
}
RELEASES |= PAGES | NUMBERED | CURRENT

every_release = pytest.mark.parametrize("name", RELEASES)


@every_release
def test_release_opens_and_answers_as_when_it_was_written(name: str) -> None:
    written = RELEASES[name]
    estimate = Release.open(HERE / name).count(written.value, where=written.where, method=written.method)
    assert estimate.value == pytest.approx(written.estimate, rel=1e-12)
    if written.error is None:
        assert estimate.standard_error is None
    else:
        assert estimate.standard_error == pytest.approx(written.error, rel=1e-12)


@every_release
def test_release_verifies_but_for_its_test_key(name: str) -> None:
    assert [check.name for check in verify_folder(HERE / name).checks if not check.has_passed] == [FITNESS]


@every_release
def test_readme_is_compared_where_its_template_is_known(name: str) -> None:
    (check,) = (check for check in verify_folder(HERE / name).checks if check.name == README_TEXT)
    assert check.has_passed
    assert ("not compared" in check.detail) == (name not in CURRENT)


@pytest.mark.parametrize("name", NUMBERED)
def test_readme_of_an_older_template_is_not_compared(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "release"
    shutil.copytree(HERE / name, folder)
    (check,) = (check for check in verify_folder(folder).checks if check.name == README_TEXT)
    assert check.has_passed
    assert "not compared" in check.detail


def test_a_compound_whose_combinations_were_taken_from_the_table_says_so(tmp_path: Path) -> None:
    """Earlier versions published such releases; here the frozen one says so."""
    folder = tmp_path / "release"
    shutil.copytree(HERE / "3-compound", folder)
    edit_manifest(folder, lambda written: written["sfumato"].update(domain_declared=False))
    sentence = "The list of combinations of 'sex + disease' was taken from the table"
    assert sentence in Release.open(folder).guarantee.text


def test_releases_of_fine_grain_said_more_than_they_kept_and_still_verify(tmp_path: Path) -> None:
    """Its guarantee has a name of its own now, and the shares behind a tolerance are rounded in another way."""
    frozen = json.loads((HERE / "2-fine-grain" / MANIFEST).read_text())["sfumato"]
    assert frozen["guarantee"] == "any-prior"
    publish(RELEASES["2-fine-grain"].request(), tmp_path / "release", unsafe_test_key=KEY)
    today = json.loads((tmp_path / "release" / MANIFEST).read_text())["sfumato"]
    assert today["guarantee"] == "single-values"
    assert today.keys() - frozen.keys() == {"persons", "accepted", "readme_template"}
    changed = {key for key in frozen if today[key] != frozen[key]} - {"software"}
    assert changed == {"format", "guarantee", "digest", "design"}
    assert {key for key in today["design"] if today["design"][key] != frozen["design"].get(key)} <= {
        *("tolerance", "priors", "posteriors", "retentions")
    }


@every_release
def test_release_says_no_more_of_its_guarantee_than_when_it_was_written(name: str) -> None:
    """Only the name that a past version wrote is taken beside that of today."""
    ours = json.loads((HERE / name / MANIFEST).read_text())["sfumato"]
    known = find_distribution(ours["mechanism"]).guarantees
    assert ours.get("guarantee", known[0]) in known
    written = [json.loads((HERE / each / MANIFEST).read_text())["sfumato"] for each in RELEASES]
    past = {each.get("guarantee", known[0]) for each in written if each["mechanism"] == ours["mechanism"]}
    assert set(known) == {REGISTRY[ours["mechanism"]].guarantee.value, *past}


@pytest.mark.parametrize(
    "name", [name for name in RELEASES if not name.startswith(("2-buckets", "2-decoys", "2-subset"))]
)
def test_key_still_gives_the_same_rows(name: str, tmp_path: Path) -> None:
    """Slots of a key are others since the second version of the draws, and sets of up to 64 values since the third."""
    release = RELEASES[name].publish(tmp_path / "release")
    tables = [file for file in release.manifest.tables if file != WEIGHTS]
    assert tables
    for file in tables:
        assert pq.read_table(tmp_path / "release" / file).equals(pq.read_table(HERE / name / file))


@pytest.mark.parametrize("name", PAGES)
def test_pages_are_laid_out_as_they_were(name: str, tmp_path: Path) -> None:
    """What is compressed, and not to how many bytes; whoever changes it changes what files say they were created by."""
    release = RELEASES[name].publish(tmp_path / "release")
    for file in (file for file in release.manifest.tables if file != WEIGHTS):
        assert pq.read_metadata(HERE / name / file).created_by == CREATED_BY.decode()
        for column in pq.read_schema(HERE / name / file).names:
            frozen, today = (
                [[page.data for page in group] for group in pages_of(folder / file, column)]
                for folder in (HERE / name, tmp_path / "release")
            )
            assert today == frozen
