"""Verification of every mechanism: whoever edits a release, and makes its digests fit, is found out by what it says."""

from __future__ import annotations

import functools
import itertools
import random
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from accepted import ALL_ACCEPTED, REASON, give_reasons
from command_line import complaint, run
from protected_tables import DISEASES, patients
from refusals import refuses
from releases import edit_manifest, read_json
from sfumato._publish.publication import publish
from sfumato._publish.request import Request
from sfumato._readers.open_table import open_source
from sfumato._records import DATA_FILE, PerturbedRecords
from sfumato._records.member_columns import make_member_names
from sfumato._release.manifest import WEIGHTS
from sfumato._request.belief_bounds import BreachBound, PrivacySpec, Tolerance
from sfumato._request.guarantee import Guarantee
from sfumato._request.schema import Schema
from sfumato._verify.against_original import OriginalRows, verify, verify_original
from sfumato._verify.distributions import read_reference
from sfumato._verify.file_checks import verify_folder
from sfumato.errors import ReleaseFormatError
from sfumato.mechanisms import REGISTRY
from sfumato.mechanisms._randomized_response import fine_grain, small_domain
from sfumato.mechanisms._randomized_response import harmonic_mechanism as harmonic
from sfumato.mechanisms._subset_selection import subset_mechanism as subset
from slow_counts import SlowRelease
from tampering import Design, edit_design, failed, failed_alone, rewrite, with_cell, with_column

BOUND = BreachBound("1/3", "2/3")
TOLERATED = "subset by a tolerance"
LISTS, COLUMNS, SHARES, BOTH = (
    "subset as lists",
    "subset as columns",
    "small-domain with shares",
    "fine-grain in both directions",
)
WAYS: dict[str, tuple[PrivacySpec, Any]] = {
    "subset": (BOUND, subset.Options()),
    LISTS: (BOUND, subset.Options(subset.Form.LIST)),
    COLUMNS: (BOUND, subset.Options(subset.Form.COLUMNS)),
    "small-domain": (BOUND, small_domain.Options(min_cell=50)),
    SHARES: (BOUND, small_domain.Options(min_cell=50, publish_shares=True)),
    "harmonic": (Tolerance("3"), harmonic.Options()),
    TOLERATED: (Tolerance("3"), subset.Options()),
    "fine-grain": (Tolerance("3"), fine_grain.Options()),
    BOTH: (Tolerance("3"), fine_grain.Options(fine_grain.Direction.BOTH, fine_grain.Objective.AGGREGATE)),
}
every_way = pytest.mark.parametrize("way", WAYS)
both_sets = pytest.mark.parametrize("way", ["subset", LISTS])
both_cells = pytest.mark.parametrize("way", ["small-domain", SHARES])
both_coins = pytest.mark.parametrize("way", ["fine-grain", BOTH])

TIMES = 7
"""With so many people, 4200, it shows whether values were drawn."""


def original(times: int = 1) -> pa.Table:
    """The patients, several times over."""
    return pa.table({name: values * times for name, values in patients().items() if name != "drug"})


@pytest.fixture(scope="module")
def releases(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, int], Path]:
    """Releases that nobody changes, each made once."""
    place = tmp_path_factory.mktemp("verify")

    @functools.cache
    def release(way: str, times: int) -> Path:
        spec, options = WAYS[way]
        mechanism = way.partition(" ")[0]
        asked = Request(
            original(times),
            schema=Schema.of("disease", public="*"),
            spec=spec,
            mechanism=mechanism,
            options={mechanism: options},
            accept_marginal_prior=REASON,
            **ALL_ACCEPTED,
        )
        return publish(asked, place / f"{way} {times}").release.folder

    return release


@pytest.fixture
def folder(releases: Callable[[str, int], Path], way: str, tmp_path: Path) -> Path:
    """A release of one's own."""
    return Path(shutil.copytree(releases(way, 1), tmp_path / "release"))


@pytest.fixture
def many(releases: Callable[[str, int], Path], way: str, tmp_path: Path) -> Path:
    """A larger release of one's own."""
    return Path(shutil.copytree(releases(way, TIMES), tmp_path / "many"))


def raised(number: str, digits: int = 6) -> str:
    """A rational with 1 added to the last of so many digits."""
    return str(Fraction(number) + Fraction(1, 10**digits))


def lowered(number: str) -> str:
    """Half of a rational."""
    return str(Fraction(number) / 2)


@every_way
def test_rewriting_a_release_as_it_was_is_not_noticed(folder: Path) -> None:
    rewrite(folder, DATA_FILE, lambda table: table)
    rewrite(folder, WEIGHTS, lambda table: table)
    assert failed(folder, original()) == []


# ------------------------------------------------------------------------------------------------------------- promises


def with_coin(design: Design, retention: str) -> None:
    """Another coin, and the redraws as they are to each other."""
    left, swaps = 1 - Fraction(design["retention"]), map(Fraction, design["swaps"])
    design["swaps"] = [str(each * (1 - Fraction(retention)) / left) for each in swaps]
    design["retention"] = retention


def raise_chance(design: Design, digits: int) -> None:
    """Raise one chance that a record shows its own value."""
    if "hold_probability" in design:
        design["hold_probability"] = raised(design["hold_probability"], digits)
    elif "swaps" in design:
        with_coin(design, raised(design["retention"], digits))
    elif "cells" in design:
        design["cells"][-1]["retention"] = raised(design["cells"][-1]["retention"], digits)
    else:
        largest = max(range(len(design["retentions"])), key=lambda place: Fraction(design["retentions"][place]))
        design["retentions"][largest] = raised(design["retentions"][largest], digits)


@every_way
@pytest.mark.parametrize("digits", [2, 9])
def test_chance_that_is_too_large_breaks_the_promise(folder: Path, digits: int) -> None:
    edit_design(folder, lambda design: raise_chance(design, digits))
    assert "guarantee" in failed_alone(folder)
    with refuses(ReleaseFormatError, "design-breaks-bound"):
        verify(folder)


@pytest.mark.parametrize("way", [TOLERATED])
def test_odds_that_rise_too_far_are_noticed_beside_the_original(folder: Path, tmp_path: Path) -> None:
    """No value has a share within a prior of next to nothing, and so it is the odds that are looked at."""
    edit_design(folder, lambda design: raise_chance(design, 1))
    source = open_source(original(), tmp_path / "spool")
    checks = verify_original(
        folder, OriginalRows(*read_reference(read_json(folder)), source, (), None, tmp_path), {}
    ).checks
    found = {each.name: each for each in checks}
    assert not found["posteriors"].has_passed
    assert found["posteriors"].detail == "the odds of a value can rise by more than the guaranteed factor 3."


@both_cells
@pytest.mark.parametrize("cell", [0, 1, -1])
def test_every_cell_is_looked_at(folder: Path, cell: int) -> None:
    def change(design: Design) -> None:
        design["cells"][cell]["retention"] = raised(design["cells"][cell]["retention"])

    edit_design(folder, change)
    assert "guarantee" in failed_alone(folder)


@both_coins
@pytest.mark.parametrize("place", range(10))
def test_every_value_with_a_bound_is_looked_at(folder: Path, place: int) -> None:
    def change(design: Design) -> None:
        posterior = Fraction(design["posteriors"][place])
        prior = Fraction(design["priors"][place])
        design["posteriors"][place] = str(prior + (posterior - prior) / 100)

    edit_design(folder, change)
    assert failed_alone(folder) == ["guarantee"]


@every_way
def test_tighter_bound_than_was_planned_for_breaks_the_promise(folder: Path) -> None:
    def change(design: Design) -> None:
        if "posteriors" in design:
            design["posteriors"] = [str(Fraction(each) * Fraction(9, 10)) for each in design["posteriors"]]
        else:
            design["posterior"] = str(Fraction(design["posterior"]) - Fraction(1, 10**9))

    edit_design(folder, change)
    assert failed_alone(folder) == ["guarantee"]


@pytest.mark.parametrize("way", ["fine-grain"])
def test_promise_that_nothing_falls_is_not_believed(folder: Path) -> None:
    edit_design(folder, lambda design: design.update(direction="both"))
    assert failed_alone(folder) == ["guarantee"]


@every_way
def test_release_says_the_guarantee_of_its_mechanism(folder: Path) -> None:
    ours = read_json(folder)["sfumato"]
    assert ours["guarantee"] == REGISTRY[ours["mechanism"]].guarantee.value


@every_way
@pytest.mark.parametrize("guarantee", [*map(str, Guarantee), "certain", None, ["any-prior"]], ids=str)
def test_guarantee_that_the_mechanism_does_not_give_is_not_believed(folder: Path, guarantee: Any) -> None:
    """A release of fine-grain may say any-prior, as all did before its guarantee had a name of its own."""
    mechanism = read_json(folder)["sfumato"]["mechanism"]
    kept = [REGISTRY[mechanism].guarantee, *(["any-prior"] if mechanism == "fine-grain" else [])]
    edit_manifest(folder, lambda written: written["sfumato"].update(guarantee=guarantee))
    found = {check.name: check.detail for check in verify_folder(folder).checks if not check.has_passed}
    untrue = {"guarantee": f"the mechanism {mechanism!r} cannot give the guarantee {guarantee!r}."}
    assert found == ({} if guarantee in kept else untrue)


@every_way
def test_smaller_chance_contradicts_the_weights(folder: Path) -> None:
    def change(design: Design) -> None:
        if "hold_probability" in design:
            hold, even = Fraction(design["hold_probability"]), Fraction(design["subset_size"], len(design["domain"]))
            design["hold_probability"] = str((hold + even) / 2)
        elif "swaps" in design:
            with_coin(design, lowered(design["retention"]))
        elif "cells" in design:
            design["cells"][0]["retention"] = lowered(design["cells"][0]["retention"])
        else:
            design["retentions"] = [lowered(each) for each in design["retentions"]]

    edit_design(folder, change)
    assert failed_alone(folder) == ["weights"]


@both_cells
def test_cell_for_a_larger_prior_than_it_was_made_for_breaks_the_promise(folder: Path) -> None:
    def change(design: Design) -> None:
        design["cells"][0]["prior"] = raised(design["cells"][0]["prior"])

    edit_design(folder, change)
    assert failed_alone(folder) == ["guarantee"]


@both_cells
@pytest.mark.parametrize("prior", ["2/3", "1", "0", "-1/2"])
def test_cell_whose_prior_protects_nothing_breaks_the_promise(folder: Path, prior: str) -> None:
    edit_design(folder, lambda design: design["cells"][1].update(prior=prior))
    assert failed_alone(folder) == ["guarantee"]


@pytest.mark.slow
@pytest.mark.parametrize("way", ["small-domain"])
def test_cell_that_says_a_smaller_prior_is_found_out_beside_the_original(folder: Path) -> None:
    def change(design: Design) -> None:
        for cell in design["cells"]:
            cell["prior"] = lowered(cell["prior"])

    edit_design(folder, change)
    assert failed(folder) == []
    assert failed(folder, original()) == ["posteriors"]


@pytest.mark.parametrize("way", [SHARES])
@pytest.mark.parametrize("amount", [1, -1])
def test_counts_of_a_cell_that_are_wrong_are_found_out_beside_the_original(folder: Path, amount: int) -> None:
    def change(design: Design) -> None:
        design["cells"][0]["counts"][0] += amount

    edit_design(folder, change)
    assert "posteriors" in failed(folder, original())


@pytest.mark.parametrize("way", [SHARES])
def test_counts_that_are_exchanged_between_cells_are_found_out_beside_the_original(folder: Path) -> None:
    """The rows of each cell stay as many as they are; the records of two values do not."""

    def change(design: Design) -> None:
        design["cells"][0]["counts"][0] += 1
        design["cells"][0]["counts"][1] -= 1

    edit_design(folder, change)
    assert "posteriors" in failed(folder, original())


@pytest.mark.parametrize("way", [SHARES])
def test_cell_in_which_a_value_is_too_frequent_breaks_the_promise_beside_the_original(folder: Path) -> None:
    """Two values change places between two cells: every sum is right, and one value is believed too much."""
    cells = [dict(zip(each["places"], each["counts"], strict=True)) for each in SlowRelease(folder).design["cells"]]
    pairs = itertools.permutations(range(len(cells)), 2)
    (first, second), (one, other) = next(
        (pair, shared[:2]) for pair in pairs if len(shared := sorted(cells[pair[0]].keys() & cells[pair[1]])) > 1
    )
    moved = min(cells[first][other], cells[second][one]) - 1

    def change(design: Design) -> None:
        for number, sign in ((first, 1), (second, -1)):
            cell = design["cells"][number]
            cell["counts"][cell["places"].index(one)] += sign * moved
            cell["counts"][cell["places"].index(other)] -= sign * moved

    edit_design(folder, change)
    assert "posteriors" in failed(folder, original())


# -------------------------------------------------------------------------------------------------------- what is shown


@both_cells
def test_value_in_a_cell_that_does_not_have_it_is_noticed(folder: Path) -> None:
    slow = SlowRelease(folder)
    row, shown = next(
        (number, each)
        for number, each in enumerate(slow.rows)
        if any(slow.domain.index((each["disease"],)) not in places for places, _ in slow.cells)
    )
    place = slow.domain.index((shown["disease"],))
    stranger = next(number for number, (places, _) in enumerate(slow.cells) if place not in places)
    rewrite(folder, DATA_FILE, lambda table: with_cell(table, "cell", row, stranger))
    assert failed(folder) == ["domain"]


@both_cells
@pytest.mark.parametrize("cell", [-1, 99])
def test_cell_that_is_not_in_the_design_is_noticed(folder: Path, cell: int) -> None:
    rewrite(folder, DATA_FILE, lambda table: with_cell(table, "cell", 0, cell))
    assert failed(folder) == ["domain"]


@pytest.mark.parametrize("way", ["small-domain", SHARES, "fine-grain", BOTH])
def test_value_outside_the_domain_is_noticed(folder: Path) -> None:
    rewrite(folder, DATA_FILE, lambda table: with_cell(table, "disease", 5, "plague"))
    assert failed(folder) == ["domain"]


def as_bytes(members: set[int]) -> bytes:
    """A set of places below 16 as two bytes, the first place the highest bit."""
    bits = sum(1 << (15 - place) for place in members)
    return bits.to_bytes(2, "big")


@pytest.mark.parametrize("way", ["subset"])
@pytest.mark.parametrize("members", [set(), {1}, {0, 4, 9}, set(range(10))], ids=["none", "one", "three", "all"])
def test_set_with_too_few_or_too_many_members_is_noticed(folder: Path, members: set[int]) -> None:
    assert SlowRelease(folder).design["subset_size"] == 2
    rewrite(folder, DATA_FILE, lambda table: with_cell(table, "disease", 3, as_bytes(members)))
    assert failed(folder) == ["domain"]


@pytest.mark.parametrize("way", ["subset"])
@pytest.mark.parametrize("members", [{0, 9, 10}, {0, 9, 15}, {0, 12}], ids=["next", "last", "instead"])
def test_bit_that_stands_for_no_value_is_noticed(folder: Path, members: set[int]) -> None:
    rewrite(folder, DATA_FILE, lambda table: with_cell(table, "disease", 3, as_bytes(members)))
    assert failed(folder) == ["domain"]


@pytest.mark.parametrize("way", ["subset"])
def test_another_set_of_the_right_size_cannot_be_noticed(folder: Path) -> None:
    rewrite(folder, DATA_FILE, lambda table: with_cell(table, "disease", 3, as_bytes({0, 9})))
    assert failed(folder) == []


@pytest.mark.parametrize("way", [LISTS])
@pytest.mark.parametrize(
    "members",
    [[], ["flu"], ["flu", "cold", None], ["flu", "flu"], ["flu", "flu", "cold"]],
    ids=["none", "one", "three", "the same twice", "one twice"],
)
def test_list_with_too_few_or_too_many_members_is_noticed(folder: Path, members: list[str | None]) -> None:
    rewrite(folder, DATA_FILE, lambda table: with_cell(table, "disease", 3, members))
    assert failed(folder) == ["domain"]


@pytest.mark.parametrize("way", [LISTS])
def test_list_with_a_value_outside_the_domain_is_noticed(folder: Path) -> None:
    rewrite(folder, DATA_FILE, lambda table: with_cell(table, "disease", 3, ["flu", "plague"]))
    with refuses(ReleaseFormatError, "set-outside-domain"):
        verify(folder)


@pytest.mark.parametrize("way", ["subset"])
def test_sets_of_another_width_are_noticed(folder: Path) -> None:
    def change(table: pa.Table) -> pa.Table:
        wider = [each + b"\0" for each in table.column("disease").to_pylist()]
        place = table.schema.names.index("disease")
        return table.set_column(place, pa.field("disease", pa.binary(3), nullable=False), pa.array(wider, pa.binary(3)))

    rewrite(folder, DATA_FILE, change)
    with pytest.raises(ReleaseFormatError):
        verify(folder)


@both_sets
def test_size_of_the_sets_is_that_of_the_design(folder: Path) -> None:
    edit_design(folder, lambda design: design.update(subset_size=3))
    assert "domain" in failed_alone(folder)


@pytest.mark.parametrize(
    ("way", "change"),
    [
        ("small-domain", lambda design: design["cells"][0]["places"].append(10)),
        ("small-domain", lambda design: design["cells"][0]["places"].append(-1)),
        ("small-domain", lambda design: design["cells"][0].update(places=[0, 0, 1])),
        ("small-domain", lambda design: design["cells"][0].update(places=[0])),
        ("small-domain", lambda design: design["cells"][0].update(retention="1")),
        ("small-domain", lambda design: design.update(cells=[])),
        (SHARES, lambda design: design["cells"][0]["counts"].pop()),
        ("subset", lambda design: design.update(subset_size=0)),
        ("subset", lambda design: design.update(subset_size=10)),
        ("subset", lambda design: design.update(hold_probability="1")),
        ("subset", lambda design: design.update(hold_probability="1/5")),
        ("subset", lambda design: design.update(form="text")),
        ("harmonic", lambda design: design["swaps"].pop()),
        ("harmonic", lambda design: design["priors"].pop()),
        ("harmonic", lambda design: design.update(retention="1")),
        ("harmonic", lambda design: design["swaps"].__setitem__(0, "1/1000")),
        ("harmonic", lambda design: design.update(priors=[None] * 10, posteriors=[None] * 10)),
        ("harmonic", lambda design: design["posteriors"].__setitem__(0, "1/500000000")),
        ("fine-grain", lambda design: design["retentions"].pop()),
        ("fine-grain", lambda design: design["priors"].pop()),
        ("fine-grain", lambda design: design["retentions"].__setitem__(0, "-1/9")),
        ("fine-grain", lambda design: design["retentions"].__setitem__(0, "10/9")),
        ("fine-grain", lambda design: design.update(priors=[None] * 10, posteriors=[None] * 10)),
        ("fine-grain", lambda design: design.update(direction="down")),
        ("fine-grain", lambda design: design.update(retentions=["0", "0", *design["retentions"][2:]])),
    ],
)
def test_design_that_is_none_is_refused_or_fails(folder: Path, change: Callable[[Design], Any]) -> None:
    edit_design(folder, change)
    sentence = run("verify", folder).err
    assert re.fullmatch(r"error: [^\n]+\.\n", sentence), sentence


# -------------------------------------------------------------------------------------------------------------- weights


@every_way
@pytest.mark.parametrize("row", [0, -1], ids=["first", "last"])
def test_weight_that_is_wrong_is_noticed(folder: Path, row: int) -> None:
    def change(table: pa.Table) -> pa.Table:
        name = table.column_names[-1]
        return with_cell(table, name, row, table.column(name)[row].as_py() + 1e-6)

    rewrite(folder, WEIGHTS, change)
    assert failed(folder) == ["weights"]


@every_way
@pytest.mark.parametrize(
    "change",
    [
        lambda table: table.take([1, 0, *range(2, table.num_rows)]),
        lambda table: table.slice(1),
        lambda table: pa.concat_tables([table, table.slice(0, 1)]),
        lambda table: with_column(table, "value", table.column("value").to_pylist()[::-1]),
    ],
    ids=["reordered", "one left out", "one twice", "other values"],
)
def test_weights_of_other_values_are_noticed(folder: Path, change: Callable[[pa.Table], pa.Table]) -> None:
    rewrite(folder, WEIGHTS, change)
    assert failed(folder) == ["weights"]


@pytest.mark.parametrize(
    ("way", "name"),
    [("small-domain", "cell"), (SHARES, "cell"), ("subset", "place"), (LISTS, "place"), ("fine-grain", "published")],
)
def test_weights_of_another_cell_or_place_are_noticed(folder: Path, name: str) -> None:
    rewrite(folder, WEIGHTS, lambda table: with_column(table, name, table.column(name).to_pylist()[::-1]))
    assert failed(folder) == ["weights"]


@every_way
def test_release_without_its_weights_is_noticed(folder: Path) -> None:
    (folder / WEIGHTS).unlink()
    edit_manifest(folder, lambda written: written["resources"].pop(1))
    assert failed_alone(folder) == ["weights"]
    with refuses(ReleaseFormatError, "missing-file", file="weights.parquet"):
        verify(folder)


# ---------------------------------------------------------------------------------------------------- with the original


def undrawn(slow: SlowRelease, disease: list[Any]) -> dict[str, list[Any]]:
    """What the release would show if nothing had been drawn: the true values, each in a cell or a set that has it."""
    chance = random.Random(1)
    places = [slow.domain.index((value,)) for value in disease]
    if slow.ours["mechanism"] == "small-domain":
        homes = [[number for number, (held, _) in enumerate(slow.cells) if place in held] for place in range(10)]
        return {"disease": disease, "cell": [chance.choice(homes[place]) for place in places]}
    if slow.ours["mechanism"] in ("fine-grain", "harmonic"):
        return {"disease": disease}
    sets = [{place, (place + chance.randrange(1, 10)) % 10} for place in places]
    if slow.design["form"] == "columns":
        names = make_member_names("disease", tuple(value for (value,) in slow.domain))
        return {name: [place in members for members in sets] for place, name in enumerate(names)}
    if slow.design["form"] == "bits":
        return {"disease": [as_bytes(members) for members in sets]}
    return {"disease": [[slow.domain[place][0] for place in members] for members in sets]}


@pytest.mark.slow
@every_way
def test_true_values_instead_of_draws_are_noticed(many: Path) -> None:
    table, slow = original(TIMES), SlowRelease(many)
    assert failed(many, table) == []
    shuffled = table.take(random.Random(2).sample(range(len(table)), len(table))).to_pydict()

    def change(published: pa.Table) -> pa.Table:
        columns = {**shuffled, **undrawn(slow, shuffled["disease"])}
        return pa.Table.from_pydict({name: columns[name] for name in published.column_names}, schema=published.schema)

    rewrite(many, DATA_FILE, change)
    assert failed(many) == []
    # Cells are filled in proportion, so that a value shows there as often as it is held: what does not fit is the room.
    assert failed(many, table) == ["posteriors" if slow.ours["mechanism"] == "small-domain" else "draws"]


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", ["small-domain", "uniform"])
def test_values_that_were_never_drawn_are_noticed_where_they_are_equally_frequent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mechanism: str
) -> None:
    """Every street has two people, so whoever compares them with the original sees that nobody was perturbed."""
    rows = range(4000)
    table = pa.table({"street": [row // 2 for row in rows], "disease": [f"x{row % 8}" for row in rows]})

    def never(plan: Any, codes: Any, slots: Any, draws: Any, first_row: int) -> PerturbedRecords:
        return PerturbedRecords(codes, plan.layout.find_cells(codes, slots) if mechanism == "small-domain" else None)

    monkeypatch.setitem(REGISTRY, mechanism, replace(REGISTRY[mechanism], perturb=never))
    schema = Schema.of("disease", keep=["street"], public="*")
    publish(
        Request(
            table,
            schema=schema,
            spec=BOUND,
            mechanism=mechanism,
            accept_marginal_prior=REASON,
            accept_disclosing=give_reasons(["street"]),
            **ALL_ACCEPTED,
        ),
        tmp_path / "release",
    )
    assert failed(tmp_path / "release", table) == ["draws"]


@pytest.mark.slow
@every_way
def test_draws_that_are_tied_to_a_public_column_are_noticed(many: Path) -> None:
    """The published values in order, beside the women first: each is drawn by the law, and together they are not."""

    def change(published: pa.Table) -> pa.Table:
        shown = [name for name in published.column_names if name == "cell" or name.startswith("disease")]
        public = published.sort_by("sex").drop_columns(shown)
        rows = published.to_pylist()
        rows.sort(key=lambda row: str([row[name] for name in shown if name != "cell"]))
        columns = {**public.to_pydict(), **{name: [row[name] for row in rows] for name in shown}}
        tied = pa.Table.from_pydict({name: columns[name] for name in published.column_names}, schema=published.schema)
        return tied.take(np.random.default_rng(1).permutation(tied.num_rows))

    rewrite(many, DATA_FILE, change)
    assert failed(many) == []
    assert failed(many, original(TIMES)) == ["draws"]


@pytest.mark.slow
@every_way
def test_rows_in_the_order_of_the_original_are_noticed(folder: Path) -> None:
    def change(published: pa.Table) -> pa.Table:
        table = original()
        for name in ("sex", "age", "ward"):
            published = with_column(published, name, table.column(name).to_pylist())
        return published

    rewrite(folder, DATA_FILE, change)
    assert failed(folder) == []
    assert "order" in failed(folder, original())


@pytest.mark.slow
@every_way
def test_public_column_that_is_not_the_original_one_is_noticed(folder: Path) -> None:
    rewrite(folder, DATA_FILE, lambda table: with_cell(table, "age", 3, 31))
    assert failed(folder) == []
    assert failed(folder, original()) == ["public columns"]


@every_way
def test_original_with_a_value_outside_the_domain_is_noticed(releases: Callable[[str, int], Path], way: str) -> None:
    assert failed(releases(way, 1), with_cell(original(), "disease", 0, "plague")) == ["draws", "posteriors"]


@pytest.mark.slow
@every_way
def test_original_may_come_in_another_order(releases: Callable[[str, int], Path], way: str) -> None:
    assert failed(releases(way, 1), original().sort_by("disease")) == []


@pytest.mark.parametrize("way", ["small-domain"])
def test_original_with_more_of_a_rare_value_does_not_fit_the_cells(folder: Path) -> None:
    """Fifty more people with mumps than there are: their records have no room in the cells that hold mumps."""
    disease = original().column("disease").to_pylist()
    flu = [row for row, value in enumerate(disease) if value == "flu"][:50]
    changed = ["mumps" if row in flu else value for row, value in enumerate(disease)]
    assert changed.count("mumps") == DISEASES["mumps"] + 50
    assert "posteriors" in failed(folder, with_column(original(), "disease", changed))


# -------------------------------------------------------------------------------------------------- on the command line


@pytest.mark.parametrize(
    ("way", "change", "words"),
    [
        (
            "subset",
            lambda table: with_cell(table, "disease", 0, as_bytes({1, 2, 3})),
            "a published set does not consist of 2",
        ),
        ("small-domain", lambda table: with_cell(table, "cell", 0, 99), "1 published values are outside the domain."),
        ("fine-grain", lambda table: with_cell(table, "disease", 0, "x"), "1 published values are outside the domain."),
    ],
)
def test_command_exits_with_the_check_that_failed(
    folder: Path, change: Callable[[pa.Table], pa.Table], words: str
) -> None:
    rewrite(folder, DATA_FILE, change)
    outcome = run("verify", folder)
    assert "FAIL domain" in outcome.out
    sentence = complaint(type(outcome)(outcome.code, "", outcome.err), code=1)
    assert sentence.startswith(f"the release fails the check 'domain': {words}")


@every_way
def test_command_refuses_a_promise_that_is_untrue(folder: Path) -> None:
    edit_design(folder, lambda design: raise_chance(design, 3))
    for command in (["verify", folder], ["info", folder], ["query", folder, "SELECT COUNT(*) FROM release"]):
        assert "allow" in complaint(run(*command))
