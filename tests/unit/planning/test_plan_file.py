"""The plan file keeps a key for its owner alone, and for one table, one request and one release."""

from __future__ import annotations

import fcntl
import io
import json
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from accepted import ALL_ACCEPTED, REASON, give_reasons
from command_line import content, people
from moments import run_scenario
from refusals import refuses
from releases import WAYS, known_key
from releases import people as small_table
from sfumato import BreachBound, LocalEngine, Request, Schema, publish
from sfumato._core import random_draws
from sfumato._core.option_fields import dump_options, list_flags
from sfumato._core.random_draws import Draws
from sfumato._planning.plan_file import FORMAT, PlanFile, RequestRecord, claim_plan_file
from sfumato._readers.read_options import ReadOptions
from sfumato._request.belief_bounds import BreachBoundPerValue, PrivacySpec, Tolerance
from sfumato._request.bucket_and_decoy_requirements import DecoyGroups, Diversity, LinearCap
from sfumato._request.person_rows import PersonRows
from sfumato._request.range_edges import Ranges
from sfumato.errors import ReleaseFormatError, SpecError, TargetError
from sfumato.mechanisms import REGISTRY, UNNAMED_OPTIONS, _decoys
from sfumato.mechanisms._bucketization import anatomy_mechanism as anatomy
from sfumato.mechanisms._bucketization import buckets
from sfumato.mechanisms._bucketization.buckets import DealingMethod, Sizes
from sfumato.mechanisms._noisy_counts import noisy_counts_mechanism as noisy_counts
from sfumato.mechanisms._randomized_response import fine_grain, small_domain
from sfumato.mechanisms._randomized_response import harmonic_mechanism as harmonic
from sfumato.mechanisms._randomized_response import uniform_mechanism as uniform
from sfumato.mechanisms._subset_selection import levels
from sfumato.mechanisms._subset_selection import subset_mechanism as subset

OPTIONS = {name: dict(each) for name, each in UNNAMED_OPTIONS.items()}
REMEMBERED = RequestRecord({"prior": "1/10"}, {**OPTIONS, "subset": {"form": "list"}})
PLAN = PlanFile(Draws.unsafe_test_key("ab" * 32), "fingerprint", REMEMBERED, "subset", "digest")


def keep(plan: PlanFile, path: Path) -> None:
    """Write a new plan file."""
    with claim_plan_file(path) as claim:
        claim.write(plan, lambda: False)


def test_plan_file_is_read_as_it_was_written(desk: Path) -> None:
    other = PlanFile(Draws.from_fresh_key(), "other", RequestRecord({}, OPTIONS), "uniform", None, "0.0.9", 7)
    for number, plan in enumerate((PLAN, other)):
        keep(plan, desk / str(number))
        assert PlanFile.read(desk / str(number)) == plan


def test_plan_file_is_for_its_owner_only_and_says_so(desk: Path) -> None:
    keep(PLAN, desk / "plan")
    assert (desk / "plan").stat().st_mode & 0o777 == 0o600
    assert json.loads((desk / "plan").read_text())["warning"].startswith("private: anyone who has this file can undo")


def test_existing_file_is_never_overwritten(desk: Path) -> None:
    (desk / "plan").write_text("precious")
    with refuses(ReleaseFormatError, "damaged-plan-file", file=str(desk / "plan")):
        keep(PLAN, desk / "plan")
    assert (desk / "plan").read_text() == "precious"


def test_file_behind_a_link_is_never_overwritten(desk: Path) -> None:
    (desk / "plan").symlink_to(desk / "precious")
    with pytest.raises(TargetError):
        keep(PLAN, desk / "plan")
    assert not (desk / "precious").exists()


def test_half_a_plan_file_is_removed(desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def half(written: Any, file: io.TextIOBase, **_: Any) -> None:
        file.write('{"sfumato_plan"')
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(json, "dump", half)
    with refuses(TargetError, "unwritable-file", file=str(desk / "plan"), reason="No space left on device"):
        keep(PLAN, desk / "plan")
    assert list(desk.iterdir()) == []


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o602, 0o610, 0o601, 0o777])
def test_plan_file_that_is_open_to_others_is_refused(mode: int, desk: Path) -> None:
    keep(PLAN, desk / "plan")
    (desk / "plan").chmod(mode)
    with refuses(ReleaseFormatError, "plan-file-readable-by-others", file="plan"):
        PlanFile.read(Path("plan"))
    (desk / "plan").chmod(0o400)
    assert PlanFile.read(Path("plan")) == PLAN


# ------------------------------------------------------------------------------------------------------ who may use it


def test_new_plan_file_is_there_and_private_before_anything_is_drawn(
    desk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    def secret() -> Draws:
        seen.append(((desk / "plan").stat().st_mode & 0o777, (desk / "plan").stat().st_size))
        return PLAN.draws

    monkeypatch.setattr(Draws, "from_fresh_key", secret)
    publish(request_for("uniform"), "one", plan_file="plan")
    assert seen[0] == (0o600, 0)


def test_second_run_with_one_new_plan_file_is_refused_while_the_first_goes_on(desk: Path) -> None:
    """Without this, the second has a key of its own, finds a file at its end, and its release is out without a key."""
    refused = []

    def progress(stage: str, done: int, total: int | None) -> None:
        if stage == "writing" and not refused:
            with refuses(TargetError, "plan-file-in-use", file="plan") as caught:
                publish(request_for("uniform"), "two", plan_file="plan")
            refused.append(caught)

    publish(request_for("uniform"), "one", plan_file="plan", engine=LocalEngine(progress=progress))
    assert refused
    assert sorted(path.name for path in desk.iterdir()) == ["one", "plan"]
    publish(request_for("uniform"), "two", plan_file="plan")
    assert content(desk / "one") == content(desk / "two")


@pytest.mark.slow
def test_releases_of_runs_that_race_for_one_new_plan_file_are_all_the_one_it_repeats(tmp_path: Path) -> None:
    assert int(run_scenario("racing", tmp_path, 4)) >= 1


@pytest.mark.full
@pytest.mark.parametrize("runs", [2, 3, 8, 16])
def test_releases_of_many_runs_that_race_are_all_the_one_it_repeats(runs: int, tmp_path: Path) -> None:
    assert int(run_scenario("racing", tmp_path, runs)) >= 1


def test_runs_that_repeat_one_plan_file_do_not_stop_each_other(desk: Path) -> None:
    keep(PLAN, desk / "plan")
    (desk / "plan").chmod(0o400)
    with claim_plan_file(desk / "plan") as one, claim_plan_file(desk / "plan") as two:
        assert one.repeated_plan == two.repeated_plan == PLAN
        one.write(replace(PLAN, fingerprint="other"), lambda: True)
    assert PlanFile.read(desk / "plan") == PLAN


def test_empty_file_of_a_run_that_was_killed_is_taken_over(desk: Path) -> None:
    (desk / "plan").touch(0o600)
    keep(PLAN, desk / "plan")
    assert PlanFile.read(desk / "plan") == PLAN


def test_empty_file_that_no_run_has_made_is_refused(desk: Path) -> None:
    (desk / "plan").touch(0o644)
    (desk / "folder").mkdir()
    for name in ("plan", "folder", "/dev/null"):
        with refuses(ReleaseFormatError, "damaged-plan-file", file=str(desk / name)):
            keep(PLAN, desk / name)
    assert (desk / "plan").stat().st_size == 0


@pytest.mark.parametrize("is_written", [False, True])
def test_failed_run_leaves_no_plan_file_and_no_key_under_another_name(is_written: bool, desk: Path) -> None:
    def stop() -> None:
        with claim_plan_file(desk / "plan") as claim:
            (desk / "copy").hardlink_to(desk / "plan")
            if is_written:
                claim.write(PLAN, lambda: False)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stop()
    assert content(desk) == {"copy": b""}


def test_failed_run_keeps_the_plan_file_of_a_release_that_is_out(desk: Path) -> None:
    def stop() -> None:
        with claim_plan_file(desk / "plan") as claim:
            claim.write(PLAN, lambda: True)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stop()
    assert PlanFile.read(desk / "plan") == PLAN


@pytest.mark.parametrize("becomes", ["written", "removed", "another"])
def test_plan_file_that_changes_before_its_lock_is_had_is_looked_at_again(
    becomes: str, desk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when the run before has just ended, well or badly."""
    path, real = desk / "plan", fcntl.flock

    def late(descriptor: int, how: int) -> None:
        monkeypatch.setattr(fcntl, "flock", real)
        if becomes == "written":
            path.write_text(json.dumps(PLAN.to_json()))
        else:
            path.unlink()
        if becomes == "another":
            keep(PLAN, path)
        real(descriptor, how)

    monkeypatch.setattr(fcntl, "flock", late)
    with claim_plan_file(path) as claim:
        assert claim.repeated_plan == (None if becomes == "removed" else PLAN)
        claim.write(replace(PLAN, fingerprint="second"), lambda: True)
    assert PlanFile.read(path).fingerprint == ("second" if becomes == "removed" else "fingerprint")


# ----------------------------------------------------------------------------------------------------------- what it is


def test_plan_file_of_a_newer_format_is_refused(desk: Path) -> None:
    keep(PLAN, desk / "plan")
    written = json.loads((desk / "plan").read_text())
    (desk / "plan").write_text(json.dumps(written | {"sfumato_plan": FORMAT + 1}))
    with refuses(ReleaseFormatError, "newer-format", file=str(desk / "plan")):
        PlanFile.read(desk / "plan")


@pytest.mark.parametrize(
    "change",
    [
        {"key": "ab"},
        {"key": "xy" * 32},
        {"key": None},
        {"sfumato_plan": "1"},
        {"request": None},
        {"request": 3},
        {"options": None},
        {"options": ["subset"]},
        {"options": {"subset": "list"}},
        {"draws": None},
        {"draws": "one"},
    ],
    ids=str,
)
def test_plan_file_that_makes_no_sense_is_refused_without_its_key(change: dict[str, Any], desk: Path) -> None:
    keep(PLAN, desk / "plan")
    written = json.loads((desk / "plan").read_text())
    (desk / "plan").write_text(json.dumps(written | change))
    with refuses(ReleaseFormatError, "damaged-plan-file", file=str(desk / "plan")) as caught:
        PlanFile.read(desk / "plan")
    assert "abab" not in str(caught.value)


@pytest.mark.parametrize("name", ["sfumato_plan", "key", "is_test", "fingerprint", "request", "options"])
def test_plan_file_that_lacks_something_is_refused(name: str, desk: Path) -> None:
    keep(PLAN, desk / "plan")
    written = json.loads((desk / "plan").read_text())
    del written[name]
    (desk / "plan").write_text(json.dumps(written))
    with refuses(ReleaseFormatError, "damaged-plan-file", file=str(desk / "plan")):
        PlanFile.read(desk / "plan")


def test_plan_file_is_used_for_its_table_and_request_only() -> None:
    PLAN.check("fingerprint", REMEMBERED)
    with refuses(ReleaseFormatError, "plan-file-of-another-table"):
        PLAN.check("another", REMEMBERED)
    for other in (RequestRecord({"prior": "1/11"}, REMEMBERED.options), RequestRecord(REMEMBERED.request, OPTIONS)):
        with refuses(ReleaseFormatError, "plan-file-of-another-request"):
            PLAN.check("fingerprint", other)


@pytest.mark.parametrize(
    ("then", "now", "said"),
    [
        (
            {"spec": BreachBound("1/10", "1/2")},
            {"spec": BreachBound("1/10", "1/3")},
            "`posterior='1/2'` in the plan file, `posterior='1/3'` in this request",
        ),
        ({"mechanism": "uniform"}, {}, "`mechanism='uniform'` in the plan file, `mechanism='auto'` in this request"),
        (
            {},
            {"guarantee": "marginal-prior"},
            "no `guarantee=` in the plan file, `guarantee='marginal-prior'` in this request",
        ),
        (
            {"schema": Schema.of("disease", drop=["sex"], public="*")},
            {},
            "the roles of columns, or the way they are read (such as `drop=`, `ranges=`, `domains=`)",
        ),
        (
            {"spec": Tolerance("3"), "options": {"fine-grain": fine_grain.Options(fine_grain.Direction.BOTH)}},
            {"spec": Tolerance("3")},
            "`direction='both'` in the plan file, `direction='upward'` in this request",
        ),
        (
            {"spec": BreachBoundPerValue({"Zelenka's disease": BreachBound("1/10", "1/2")})},
            {"spec": BreachBoundPerValue({"Zelenka's disease": BreachBound("1/10", "1/3")})},
            "`bounds=`",
        ),
        (
            {"spec": LinearCap("3/2", "1/10"), "options": {"buckets": buckets.Options(Sizes.OPTIMAL)}},
            {"spec": LinearCap("3/2", "1/10")},
            "`sizes='optimal'` in the plan file, `sizes='auto'` in this request",
        ),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_refusal_says_what_is_asked_otherwise_than_then(then: dict[str, Any], now: dict[str, Any], said: str) -> None:
    """Whoever repeats a release a year later knows which option to bring back; an option of several is said once."""
    one, other = (Request(people(), **{**BASE, **each}, **ALL_ACCEPTED).to_record() for each in (then, now))
    with pytest.raises(ReleaseFormatError) as caught:
        replace(PLAN, request_record=one).check("fingerprint", other)
    assert f": {said}. " in str(caught.value)


def test_plan_file_that_is_not_there_is_not_called_damaged(desk: Path) -> None:
    with refuses(ReleaseFormatError, "unreadable-file", file="lost", reason="No such file or directory"):
        PlanFile.read(Path("lost"))


def test_mechanism_that_only_one_side_knows_has_had_no_say() -> None:
    """A later version has more of them to choose from, an earlier one fewer; the one of the file is taken."""
    PLAN.check("fingerprint", RequestRecord(REMEMBERED.request, {**REMEMBERED.options, "later": {"strength": 3}}))
    PLAN.check("fingerprint", RequestRecord(REMEMBERED.request, {"subset": {"form": "list"}}))


BOUND = BreachBound("1/10", "1/2")
BASE: dict[str, Any] = {"schema": Schema.of("disease", public="*"), "spec": BreachBound("1/10", "1/2")}


@pytest.mark.parametrize(
    "other",
    [
        {"spec": BreachBound("1/11", "1/2")},
        {"spec": BreachBound("1/10", "2/3")},
        {"schema": Schema.of("sex", public="*")},
        {"schema": Schema.of("disease", drop=["sex"], public="*")},
        {"schema": Schema.of("disease", nulls="drop", public="*")},
        {"schema": Schema.of("disease", ranges={"age": Ranges(("0", "99"))}, public="*")},
        {"schema": Schema.of("disease", domains={"disease": ["flu", "HIV"]}, public="*")},
        {"schema": Schema.of("disease", domains={"disease": ["HIV", "flu"]}, public="*")},
        {"schema": Schema.of("disease", each_row_is_a_person=True, public="*")},
        {"mechanism": "uniform"},
        {"records": True},
        {"guarantee": "marginal-prior"},
        {"read": ReadOptions(text=("age",))},
        {"read": ReadOptions(encoding="latin-1")},
        {"read": ReadOptions(missing=("?",))},
        {"read": ReadOptions(decimal=",")},
    ],
    ids=lambda other: next(iter(other)),
)
def test_another_request_is_told_apart(other: dict[str, Any]) -> None:
    one, changed = Request(people(), **BASE, **ALL_ACCEPTED), Request(people(), **{**BASE, **other}, **ALL_ACCEPTED)
    assert one.to_record() != changed.to_record()
    assert not one.to_record().is_same(changed.to_record())
    assert changed.to_record() == Request(people(), **{**BASE, **other}, **ALL_ACCEPTED).to_record()


def test_the_same_request_in_other_words_is_the_same() -> None:
    one = Request(
        "a.csv",
        schema=Schema.of("disease", drop=["sex"], identifier=["name"], public="*"),
        spec=BreachBound("1/10", "1/2"),
        **ALL_ACCEPTED,
    )
    other = Request(
        "b.csv",
        schema=Schema.of(["disease"], identifier="name", drop="sex", public="*"),
        spec=BreachBound("0.1", "0.5"),
        **ALL_ACCEPTED,
    )
    assert one.to_record() == other.to_record()


def test_remembered_request_says_nothing_of_the_values() -> None:
    schema = Schema.of("disease", domains={"disease": ["Zelenka's disease"]}, public="*")
    remembered = Request("a.csv", schema=schema, spec=BreachBound("1/10", "1/2"), **ALL_ACCEPTED).to_record()
    assert "Zelenka" not in json.dumps([remembered.request, remembered.options])


# -------------------------------------------------------------------------------------------------------------- options


OTHER: dict[str, tuple[PrivacySpec, Any]] = {
    "uniform": (BreachBound("1/10", "1/2"), uniform.NoOptions()),
    "subset": (BreachBound("1/10", "1/2"), subset.Options(subset.Form.LIST)),
    "levels": (BreachBound("1/10", "1/2"), levels.Options("code=1/2,chapter=1/2", "code=1,chapter=1")),
    "noisy-counts": (BreachBound("1/10", "1/2"), noisy_counts.Options(5, "age,sex=1/5")),
    "small-domain": (BreachBound("1/10", "1/2"), small_domain.Options(small_domain.Merge.PAPER, 20, True)),
    "harmonic": (Tolerance("3/2"), harmonic.Options(fine_grain.Direction.BOTH)),
    "fine-grain": (Tolerance("3/2"), fine_grain.Options(fine_grain.Direction.BOTH, fine_grain.Objective.AGGREGATE)),
    "buckets": (LinearCap("3/2", "1/10"), buckets.Options(Sizes.TWO, 3, 9, DealingMethod.ROUND_ROBIN)),
    "anatomy": (Diversity(2), anatomy.Options(DealingMethod.ROUND_ROBIN)),
    "decoys": (
        DecoyGroups(3),
        _decoys.Options(_decoys.GroupCreation.ANATOMY_RANDOM, "9/2", _decoys.RareTreatment.MERGE),
    ),
}
"""A request for each mechanism, and options of which none is the default."""

SINCE: dict[str, dict[str, Any]] = {"buckets": {"sizes": "auto"}}
"""Options whose default is no longer what it was when files did not name them."""

every_mechanism = pytest.mark.parametrize("mechanism", REGISTRY)
every_option = pytest.mark.parametrize(
    ("mechanism", "option"), [(name, option) for name, each in UNNAMED_OPTIONS.items() for option in each]
)


def asked(mechanism: str, *, named: bool = True, **options: Any) -> Request:
    """A request for a mechanism with some options of its own; only the kind of request tells which, if unnamed."""
    given = {"options": {mechanism: REGISTRY[mechanism].options(**options)}} if options else {}
    return Request(
        "t.csv",
        schema=Schema.of("disease", public="*"),
        spec=OTHER[mechanism][0],
        mechanism=mechanism if named else "auto",
        **given,
        **ALL_ACCEPTED,
    )


def defaults(mechanism: str) -> dict[str, Any]:
    """The options of a mechanism if nothing is said."""
    return UNNAMED_OPTIONS.get(mechanism, {}) | SINCE.get(mechanism, {})


def test_options_that_old_files_do_not_name_are_the_defaults_of_then() -> None:
    """A line of this table is never changed; a new option gets one, with what stands for how things were before."""
    assert (
        UNNAMED_OPTIONS.items()
        >= {
            "subset": {"form": "bits"},
            "levels": {"levels": None, "importance": None},
            "noisy-counts": {"smallest_crowd": None, "also_by": None},
            "small-domain": {"merge": "variance", "min_cell": None, "publish_shares": False},
            "fine-grain": {"direction": "upward", "objective": "record"},
            "buckets": {"sizes": "optimal", "min_bucket": 2, "max_bucket": 50, "dealing": "mixed"},
            "anatomy": {"dealing": "mixed"},
            "decoys": {"groups": "mixed", "ratio_limit": None, "rare": "keep"},
        }.items()
    )


@every_mechanism
def test_every_option_has_a_line_with_the_default_of_today(mechanism: str) -> None:
    assert dump_options(REGISTRY[mechanism].options()) == defaults(mechanism)
    assert defaults(mechanism).keys() == UNNAMED_OPTIONS.get(mechanism, {}).keys()


@every_mechanism
@pytest.mark.parametrize("named", [True, False], ids=["named", "auto"])
def test_every_option_is_remembered_with_the_value_that_is_used(mechanism: str, named: bool) -> None:
    spec, options = OTHER[mechanism]
    request = asked(mechanism, named=named)
    assert request.to_record().options[mechanism] == defaults(mechanism)
    changed = replace(request, options={mechanism: options}).to_record().options
    assert changed[mechanism].keys() == defaults(mechanism).keys()
    assert not changed[mechanism].items() & defaults(mechanism).items()
    others = [name for name, each in REGISTRY.items() if isinstance(spec, each.accepted_requests) and name != mechanism]
    # An option that several mechanisms share, by the name of its flag, holds for all of them.
    flags = {flag.name: getattr(options, name) for name, flag in list_flags(REGISTRY[mechanism].options)}
    shared = {
        other: {
            name: flags[flag.name].value for name, flag in list_flags(REGISTRY[other].options) if flag.name in flags
        }
        for other in others
    }
    assert {name: changed[name] for name in changed if name != mechanism} == (
        {} if named else {name: {**defaults(name), **shared[name]} for name in others}
    )


def test_remembered_options_are_plain_json() -> None:
    options = asked("decoys", ratio_limit="9/2", rare=_decoys.RareTreatment.MERGE).to_record().options
    assert json.dumps(options) == '{"decoys": {"groups": "mixed", "ratio_limit": "9/2", "rare": "merge"}}'
    options = asked("small-domain", min_cell=20, publish_shares=True).to_record().options
    assert json.dumps(options) == ('{"small-domain": {"merge": "variance", "min_cell": 20, "publish_shares": true}}')


def otherwise(remembered: RequestRecord, mechanism: str, option: str) -> RequestRecord:
    """The same request with another value of one option, whether or not the mechanism would take it so."""
    used, default = remembered.options[mechanism], UNNAMED_OPTIONS[mechanism][option]
    other = dump_options(OTHER[mechanism][1])[option] if used[option] == default else default
    return replace(remembered, options={**remembered.options, mechanism: {**used, option: other}})


@every_option
def test_another_value_of_any_option_is_another_request(mechanism: str, option: str) -> None:
    for named in (True, False):
        remembered = asked(mechanism, named=named).to_record()
        assert not remembered.is_same(otherwise(remembered, mechanism, option))


@every_mechanism
def test_default_that_is_written_out_is_the_same_request(mechanism: str) -> None:
    request = asked(mechanism, named=False)
    said = replace(request, options={mechanism: REGISTRY[mechanism].options()})
    assert request.to_record() == said.to_record()


@every_option
def test_option_that_a_file_does_not_name_had_the_default_of_then(mechanism: str, option: str, desk: Path) -> None:
    """As in a file of this format that was written before there was such an option."""
    then = asked(mechanism, **{name: UNNAMED_OPTIONS[mechanism][name] for name in SINCE.get(mechanism, {})}).to_record()
    keep(PlanFile(PLAN.draws, "f", then, mechanism), desk / "plan")
    written = json.loads((desk / "plan").read_text())
    del written["options"][mechanism][option]
    (desk / "plan").write_text(json.dumps(written))
    read = PlanFile.read(desk / "plan")
    read.check("f", then)
    with refuses(ReleaseFormatError, "plan-file-of-another-request"):
        read.check("f", otherwise(then, mechanism, option))


# ---------------------------------------------------------------------------------------------------------- old formats


def write_older(path: Path, form: int, draws_version: int | None) -> None:
    """Write a plan file as older versions did: the first formats told neither options nor plan nor draws."""
    keep(replace(PLAN, person_settings=("patient", PersonRows(2))), path)
    written = json.loads(path.read_text()) | {"sfumato_plan": form, "draws": draws_version}
    if draws_version is None:
        for name in ("options", "plan", "software", "draws", *(["mechanism"] if form == 1 else [])):
            del written[name]
        written["request"] |= {"options": {"subset": "Options(form=<Form.LIST: 'list'>)"}}
    path.write_text(json.dumps(written))


@pytest.mark.parametrize(("form", "draws_version"), [(1, None), (2, None), (3, 1), (3, 2), (3, 3)], ids=str)
def test_older_file_tells_its_key_and_persons_but_publishes_nothing(
    form: int, draws_version: int | None, desk: Path
) -> None:
    """An audit of a release that is out may need them; a second release by the same unbound key must never appear."""
    write_older(desk / "plan", form, draws_version)
    plan = PlanFile.read(desk / "plan")
    assert plan.table_draws == plan.draws == PLAN.draws
    assert plan.person_settings == ("patient", PersonRows(2))
    with refuses(ReleaseFormatError, "plan-file-of-older-version"):
        plan.check("fingerprint", REMEMBERED)


# ------------------------------------------------------------------------------------------------------------- repeated


def request_for(mechanism: str) -> Request:
    """A request of a small table for a mechanism."""
    way, table = WAYS[mechanism], small_table()
    return Request(
        table, schema=way.schema(Schema.of("disease", public="*"), table), **way.request(mechanism), **ALL_ACCEPTED
    )


def published_again(mechanism: str, out: str) -> dict[str, bytes | None]:
    """Publish a small table with a plan file, and return what was written."""
    publish(request_for(mechanism), out, plan_file="plan")
    return content(Path(out))


@every_mechanism
def test_plan_file_says_what_was_used_and_by_which_versions(mechanism: str, desk: Path) -> None:
    published_again(mechanism, "one")
    written = json.loads((desk / "plan").read_text())
    assert written["sfumato_plan"] == FORMAT == 3
    assert written["options"] == {mechanism: dump_options(WAYS[mechanism].options)}
    assert written["mechanism"] == mechanism
    assert (written["software"], written["draws"]) == (version("sfumato"), random_draws.VERSION)
    assert len(written["plan"]) == 64


def test_plan_file_of_an_automatic_choice_names_the_options_of_all_that_could_be_taken(desk: Path) -> None:
    publish(
        Request(small_table(), schema=Schema.of("disease", public="*"), spec=BOUND, **ALL_ACCEPTED),
        "one",
        plan_file="plan",
    )
    written = json.loads((desk / "plan").read_text())
    assert written["options"] == {
        name: UNNAMED_OPTIONS.get(name, {})
        for name, each in REGISTRY.items()
        if isinstance(BOUND, each.accepted_requests)
    }


@every_mechanism
@pytest.mark.parametrize("change", [{"plan": "0" * 64}, {"draws": random_draws.VERSION + 1}], ids=str)
def test_release_that_would_come_out_differently_is_refused(mechanism: str, change: dict[str, Any], desk: Path) -> None:
    published_again(mechanism, "one")
    written = json.loads((desk / "plan").read_text()) | {"software": "0.0.7"} | change
    (desk / "plan").write_text(json.dumps(written))
    before = content(desk)
    with refuses(ReleaseFormatError, "release-would-differ", software="0.0.7"):
        published_again(mechanism, "two")
    assert content(desk) == before


def test_planner_that_plans_otherwise_than_for_the_file_is_refused(desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in another version, or with another version of a solver."""
    published_again("uniform", "one")
    now = uniform.MECHANISM

    def cautious(histogram: Any, spec: Any, options: Any, given: Draws) -> Any:
        return uniform.plan(histogram, BreachBound("1/10", "1/3"), options, given)

    monkeypatch.setitem(REGISTRY, "uniform", replace(now, plan=cautious))
    before = content(desk)
    with refuses(ReleaseFormatError, "release-would-differ"):
        published_again("uniform", "two")
    assert content(desk) == before
    monkeypatch.setitem(REGISTRY, "uniform", now)
    assert published_again("uniform", "two") == content(desk / "one")


def test_mechanism_that_is_gone_is_refused_and_not_replaced(desk: Path) -> None:
    published_again("uniform", "one")
    written = json.loads((desk / "plan").read_text()) | {"mechanism": "magic"}
    (desk / "plan").write_text(json.dumps(written))
    with refuses(ReleaseFormatError, "unknown-mechanism", mechanism="magic"):
        published_again("uniform", "two")
    assert not (desk / "two").exists()


@pytest.mark.parametrize("declared", [False, True], ids=["domain of the table", "declared domain"])
def test_plan_file_remembers_the_request_as_it_was_made_before_rare_values_were_merged(
    declared: bool, desk: Path
) -> None:
    diseases = ["HIV", *("flu", "cold", "asthma", "gout") * 30]
    schema = Schema.of("disease", domains={"disease": sorted(set(diseases))} if declared else {}, public="*")
    options = {"decoys": _decoys.Options(ratio_limit="10", rare=_decoys.RareTreatment.MERGE)}
    accepting = {
        "accept_disclosing": give_reasons(("age",)),
        "accept_exposure": REASON,
    }  # it repeats as the diseases do
    request = Request(
        small_table(len(diseases), disease=diseases),
        schema=schema,
        spec=DecoyGroups(2),
        mechanism="decoys",
        options=options,
        **accepting,
        **ALL_ACCEPTED,
    )
    assert publish(request, "one", plan_file="plan").release.manifest.merged_values
    publish(request, "two", plan_file="plan")
    assert content(desk / "one") == content(desk / "two")


def test_test_key_beside_a_plan_file_must_be_its_own(desk: Path) -> None:
    request = request_for("uniform")
    publish(request, "one", plan_file="plan", unsafe_test_key=known_key(3))
    publish(request, "two", plan_file="plan", unsafe_test_key=known_key(3))
    assert content(desk / "one") == content(desk / "two")
    with refuses(SpecError, "two-keys"):
        publish(request, "three", plan_file="plan", unsafe_test_key=known_key(4))
