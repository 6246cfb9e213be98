"""datapackage.json: written and read back, and refused where it is damaged, edited or not that of a release."""

from __future__ import annotations

import contextlib
import copy
import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refusals import refuses
from releases import FILES, SENSITIVE, WAYS, edit_manifest, people, published, published_by, read_json, write_json
from selection import examples
from sfumato._core.digests import compute_file_digest
from sfumato._records.column_codes import Field
from sfumato._release.manifest import FORMAT, MANIFEST, Manifest, compute_manifest_digest
from sfumato._release.manifest_reader import load_json, read_manifest
from sfumato._request.hierarchy import Hierarchy
from sfumato._request.schema import NullPolicy
from sfumato._verify.against_original import verify
from sfumato._verify.file_checks import verify_folder
from sfumato.errors import ErrorField, ReleaseFormatError
from sfumato.mechanisms._randomized_response import uniform_mechanism as uniform
from strategies import breach_bounds, domains, field_types, shares

NAMES = st.text("abXY 09_é'\"{}.", min_size=1, max_size=8)


@st.composite
def designs(draw: st.DrawFn, field_type: str) -> uniform.Design:
    """A design that keeps its promise: the retention is some part of the largest that the bound allows."""
    domain, bound = draw(domains(field_type)), draw(breach_bounds())
    largest = (bound.amplification - 1) / (len(domain) - 1 + bound.amplification)
    return uniform.Design(domain, largest * draw(shares() | st.just(1)), bound)


@st.composite
def manifests(draw: st.DrawFn) -> Manifest:
    """Any manifest that publishing could write."""
    names = draw(st.lists(NAMES, min_size=2, max_size=5, unique_by=str.lower))
    fields = tuple(Field(name, draw(field_types()), draw(st.booleans())) for name in names)
    sensitive = draw(st.sampled_from(fields))
    design = draw(designs(sensitive.type))
    levels = draw(st.sampled_from([(), ("code", "group"), ("code", "Group", "part of it")]))
    paths = [(value, *(f"{level} {place % 2}" for level in levels[1:])) for place, value in enumerate(design.domain)]
    hierarchies = {sensitive.name: Hierarchy.of(levels, paths)} if levels else {}
    return Manifest(
        mechanism_name=uniform.MECHANISM.name,
        sensitive_columns=(sensitive.name,),
        sensitive_types=(sensitive.type,),
        fields=fields,
        design=design,
        is_declared=draw(st.booleans()),
        ranges=draw(
            st.dictionaries(st.sampled_from(names), st.sampled_from([("0", "20", "40"), ("2020-01-01", "2021-01-01")]))
        ),
        nulls=draw(st.sampled_from(NullPolicy)).value,
        software=draw(st.sampled_from(["0.1.0", "1.0.dev3"])),
        is_test=draw(st.booleans()),
        missing_markers=tuple(draw(st.lists(st.sampled_from(["?", "NA", ""]), unique=True))),
        hierarchies=hierarchies,
        published_levels=draw(st.sampled_from([{}, {sensitive.name: next(iter(levels), "top")}])),
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the files that a manifest describes; it does not look into them."""
    made = tmp_path_factory.mktemp("manifest")
    for name in FILES:
        (made / name).write_text(f"content of {name}")
    return made


@given(manifests())
def test_manifest_survives_being_written_and_read(folder: Path, manifest: Manifest) -> None:
    write_json(folder, manifest.to_json(folder))
    assert read_manifest(folder) == manifest


@given(manifests())
def test_manifest_describes_its_columns_in_order(folder: Path, manifest: Manifest) -> None:
    data, weights, _ = manifest.to_json(folder)["resources"]
    assert [each["name"] for each in data["schema"]["fields"]] == [each.name for each in manifest.fields]
    assert [each["name"] for each in weights["schema"]["fields"]] == ["cell", "value", "if_equal", "otherwise"]
    assert manifest.get_field(manifest.sensitive_name).name not in manifest.public_columns
    assert len(manifest.public_columns) == len(manifest.fields) - 1


@given(manifests())
def test_manifest_holds_the_digest_of_every_file(folder: Path, manifest: Manifest) -> None:
    hashes = {each["path"]: each["hash"] for each in manifest.to_json(folder)["resources"]}
    assert hashes == {name: f"sha256:{compute_file_digest(folder / name)}" for name in FILES}


@given(manifests())
def test_promise_says_what_else_the_release_tells(manifest: Manifest) -> None:
    assert manifest.guarantee.text.startswith(uniform.state_guarantee(manifest.design).text)
    assert ("was taken from the table" in manifest.guarantee.text) == (not manifest.is_declared)
    assert ("were dropped" in manifest.guarantee.text) == (manifest.nulls == "drop")


# ------------------------------------------------------------------------------------------------------- edited by hand


def nodes(written: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path to everything in a JSON document but the document itself."""
    inside = written.items() if isinstance(written, dict) else enumerate(written) if isinstance(written, list) else ()
    for key, value in inside:
        yield (*path, key)
        yield from nodes(value, (*path, key))


def replaced(written: Any, path: tuple[Any, ...], value: Any) -> Any:
    """The document with another value at a path; `...` takes it away."""
    edited = copy.deepcopy(written)
    parent = edited
    for key in path[:-1]:
        parent = parent[key]
    if value is ...:
        del parent[path[-1]]
    else:
        parent[path[-1]] = value
    return edited


GROUPS = [["HIV", "blood"], ["asthma", "lungs"], ["cold", "lungs"], ["flu", "lungs"]]
"""In the order of the domain."""


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A release whose manifest each test writes anew."""
    return published(people(), tmp_path_factory.mktemp("edited") / "release").folder


@pytest.fixture(scope="module")
def written(release: Path) -> dict[str, Any]:
    """The manifest of that release as it was published."""
    return read_json(release)


@pytest.fixture(scope="module", params=WAYS)
def any_release(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same by each mechanism, with a hierarchy."""
    folder = published_by(request.param, people(), tmp_path_factory.mktemp("edited") / "release").folder
    groups = {SENSITIVE: {"levels": ["code", "chapter"], "paths": GROUPS}}
    edit_manifest(folder, lambda written: written["sfumato"].update(hierarchies=groups))
    return folder


@pytest.fixture(scope="module")
def any_written(any_release: Path) -> dict[str, Any]:
    """The manifest of that release as it was published."""
    return read_json(any_release)


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.just("1e999999999"),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=3,
)


@given(st.data())
def test_any_edit_is_noticed(release: Path, written: dict[str, Any], data: st.DataObject) -> None:
    path = data.draw(st.sampled_from([each for each in nodes(written) if each != ("sfumato", "format")]))
    edited = replaced(written, path, data.draw(JUNK | st.just(...)))
    write_json(release, edited)
    if json.dumps(edited, sort_keys=True) == json.dumps(written, sort_keys=True):
        assert load_json(release) == written
    else:
        with pytest.raises(ReleaseFormatError) as refused:
            load_json(release)
        assert refused.value.code in ("changed-file", "not-a-release")


@pytest.mark.slow
@settings(max_examples=examples(30))
@given(st.data())
def test_manifest_of_a_stranger_is_read_or_refused(
    any_release: Path, any_written: dict[str, Any], data: st.DataObject
) -> None:
    """The digest fits, the content is anything: no other exception, and no endless computation."""
    path = data.draw(st.sampled_from(list(nodes(any_written))))
    edited = replaced(any_written, path, data.draw(JUNK | st.just(...)))
    if isinstance(edited.get("sfumato"), dict):
        edited["sfumato"]["digest"] = compute_manifest_digest(edited)
    write_json(any_release, edited)
    for read in (read_manifest, verify_folder):
        with contextlib.suppress(ReleaseFormatError):
            read(any_release)


def test_manifest_of_every_mechanism_survives_being_written_and_read(
    any_release: Path, any_written: dict[str, Any]
) -> None:
    write_json(any_release, any_written)
    manifest = read_manifest(any_release)
    assert manifest.to_json(any_release) == any_written


@pytest.mark.parametrize(
    ("mechanism", "change"),
    [
        ("uniform", lambda ours: ours.update(sensitive=[0])),
        ("uniform", lambda ours: ours.update(sensitive=[10**30])),
        ("subset", lambda ours: ours["design"].update(subset_size=math.inf)),
        ("small-domain", lambda ours: ours["design"]["cells"][0]["places"].append(math.inf)),
        ("small-domain", lambda ours: ours["design"]["cells"][0].update(counts=[math.inf])),
        ("small-domain", lambda ours: ours.update(cell_column=0)),
    ],
    ids=["column by number", "column by a large number", "endless sets", "endless place", "endless count", "cell"],
)
def test_number_where_none_belongs_is_refused(
    mechanism: str, change: Callable[[dict[str, Any]], Any], tmp_path: Path
) -> None:
    folder = published_by(mechanism, people(), tmp_path / "release").folder
    edit_manifest(folder, lambda whole: change(whole["sfumato"]))
    with pytest.raises(ReleaseFormatError):
        read_manifest(folder)
    with contextlib.suppress(ReleaseFormatError):  # not everything is its business, but nothing else may be raised
        verify_folder(folder)


@pytest.mark.parametrize(
    ("change", "code", "facts"),
    [
        (lambda ours: ours.update(format=FORMAT + 1), "newer-format", {"format": 6, "limit": 5}),
        (lambda ours: ours.update(mechanism="magic"), "unknown-mechanism", {"mechanism": "magic"}),
        (lambda ours: ours["design"].update(retention="1"), "damaged-design", {"part": "retention"}),
        (lambda ours: ours["design"].update(domain=["flu"]), "damaged-design", {"part": "retention"}),
        (lambda ours: ours["design"].update(domain=["flu", 3]), "damaged-domain", {"type": "string"}),
        (lambda ours: ours["design"].update(retention=0.5), "invalid-manifest", {"file": "datapackage.json"}),
        (lambda ours: ours["design"].update(prior="1e99999999"), "invalid-manifest", {"file": "datapackage.json"}),
        (lambda ours: ours["design"].update(prior="2/3"), "invalid-manifest", {"file": "datapackage.json"}),
        (lambda ours: ours.update(sensitive=["town"]), "missing-column", {}),
        (lambda ours: ours.update(sensitive=[]), "invalid-sensitive-columns", {}),
        (lambda ours: ours.update(types=["string"] * 2), "invalid-sensitive-columns", {}),
        (lambda ours: ours.update(cell_column="age"), "missing-column", {}),
        (lambda ours: ours.pop("bins"), "invalid-manifest", {"file": "datapackage.json"}),
        (
            lambda ours: ours.update(missing="NA"),
            "invalid-missing-markers",
            {},
        ),
        (
            lambda ours: ours.update(missing=[None]),
            "invalid-missing-markers",
            {},
        ),
    ],
    ids=[
        *(
            "newer format",
            "unknown mechanism",
            "no perturbation",
            "one value",
            "mixed domain",
            "float",
            "endless number",
        ),
        *("prior above posterior", "unknown column", "no column", "two types", "cells of no cells", "no bins"),
        *("a text for a list", "no text"),
    ],
)
def test_manifest_that_makes_no_sense_is_refused(
    release: Path,
    written: dict[str, Any],
    change: Callable[[dict[str, Any]], Any],
    code: str,
    facts: dict[str, ErrorField],
) -> None:
    write_json(release, written)
    edit_manifest(release, lambda whole: change(whole["sfumato"]))
    with refuses(ReleaseFormatError, code, **facts):
        read_manifest(release)


def objects(written: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where a manifest has objects whose keys are ours: at the top, under `sfumato`, and in its resources."""
    if isinstance(written, dict):
        if path[-1:] not in [("bins",), ("merged",), ("hierarchies",), ("published_at",)]:  # keys are names of columns
            yield path
        for key, value in written.items():
            yield from objects(value, (*path, key))
    elif isinstance(written, list):
        for number, value in enumerate(written):
            yield from objects(value, (*path, number))


def inside(written: Any, path: tuple[Any, ...]) -> Any:
    """What a manifest has at a place."""
    for step in path:
        written = written[step]
    return written


def test_unknown_key_is_refused_wherever_it_is(any_release: Path, any_written: dict[str, Any]) -> None:
    for path in objects(any_written):
        edited = copy.deepcopy(any_written)
        inside(edited, path)["odd key"] = None
        edited["sfumato"]["digest"] = compute_manifest_digest(edited)
        write_json(any_release, edited)
        for read in (read_manifest, verify):
            with refuses(ReleaseFormatError, "unknown-key", key="odd key", file="datapackage.json"):
                read(any_release)
    write_json(any_release, any_written)
    read_manifest(any_release)


def test_key_that_is_there_twice_is_refused_wherever_it_is(any_release: Path, any_written: dict[str, Any]) -> None:
    """Readers differ in which of the two they take."""
    for path in objects(any_written):
        edited = copy.deepcopy(any_written)
        inside(edited, path).update({"twice": 0, "once": 0})
        (any_release / MANIFEST).write_text(json.dumps(edited).replace('"once"', '"twice"'))
        with refuses(ReleaseFormatError, "repeated-key", key="twice", file="datapackage.json"):
            load_json(any_release)
    write_json(any_release, any_written)


def test_keys_of_a_newer_format_are_not_asked_about(release: Path, written: dict[str, Any]) -> None:
    write_json(release, written)
    edit_manifest(release, lambda whole: whole["sfumato"].update({"format": FORMAT + 1, "odd key": None}))
    with refuses(ReleaseFormatError, "newer-format", format=FORMAT + 1, limit=FORMAT):
        read_manifest(release)


def test_what_any_data_package_may_say_is_known(release: Path, written: dict[str, Any]) -> None:
    write_json(release, written)
    said = {"title": "Stays", "keywords": ["x"], "sources": [{"title": "Wards"}], "version": "2", "homepage": "x"}
    edit_manifest(release, lambda whole: whole.update(said))
    assert read_manifest(release).description.title == "Stays"


@pytest.mark.parametrize(
    ("hierarchies", "code", "facts"),
    [
        ([], "invalid-manifest", {"file": "datapackage.json"}),
        ({"disease": []}, "invalid-manifest", {"file": "datapackage.json"}),
        ({"disease": {"levels": ["code", "chapter"]}}, "invalid-manifest", {"file": "datapackage.json"}),
        ({"disease": {"levels": "cc", "paths": GROUPS}}, "misplaced-hierarchy", {}),
        ({"disease": {"levels": ["code", "chapter"], "paths": {}}}, "misplaced-hierarchy", {}),
        ({"disease": {"levels": ["code", 3], "paths": GROUPS}}, "invalid-manifest", {"file": "datapackage.json"}),
        ({"disease": {"levels": ["code", "Code"], "paths": GROUPS}}, "invalid-manifest", {"file": "datapackage.json"}),
        (
            {"disease": {"levels": ["code"], "paths": [[path[0]] for path in GROUPS]}},
            "invalid-manifest",
            {"file": "datapackage.json"},
        ),
        ({"disease": {"levels": ["code", "chapter"], "paths": [*GROUPS[:3], "as"]}}, "invalid-hierarchy", {}),
        ({"disease": {"levels": ["code", "chapter"], "paths": [*GROUPS[:3], ["flu"]]}}, "invalid-hierarchy", {}),
        (
            {"disease": {"levels": ["code", "chapter"], "paths": [*GROUPS[:3], ["flu", 7]]}},
            "invalid-manifest",
            {"file": "datapackage.json"},
        ),
        (
            {"disease": {"levels": ["code", "chapter"], "paths": [*GROUPS[:3], [7, "lungs"]]}},
            "damaged-domain",
            {"type": "string"},
        ),
        ({"disease": {"levels": ["code", "chapter"], "paths": GROUPS[:3]}}, "hierarchy-of-other-domain", {}),
        ({"disease": {"levels": ["code", "chapter"], "paths": GROUPS[::-1]}}, "hierarchy-of-other-domain", {}),
        ({"age": {"levels": ["code", "chapter"], "paths": GROUPS}}, "misplaced-hierarchy", {}),
    ],
)
def test_hierarchy_that_is_not_of_the_domain_is_refused(
    release: Path, written: dict[str, Any], hierarchies: Any, code: str, facts: dict[str, ErrorField]
) -> None:
    write_json(release, written)
    edit_manifest(release, lambda whole: whole["sfumato"].update(hierarchies=hierarchies))
    with refuses(ReleaseFormatError, code, **facts):
        read_manifest(release)


@pytest.mark.parametrize(
    ("published_at", "code"),
    [
        ([], "misplaced-level"),
        ({"age": "chapter"}, "misplaced-level"),
        ({"disease": 3}, "unknown-level"),
        ({"disease": "other"}, "unknown-level"),
    ],
)
def test_level_that_is_not_of_the_hierarchy_is_refused(
    release: Path, written: dict[str, Any], published_at: Any, code: str
) -> None:
    paths = [[value, "all"] for value in written["sfumato"]["design"]["domain"]]
    known = {"disease": {"levels": ["code", "chapter"], "paths": paths}}
    write_json(release, written)
    edit_manifest(release, lambda whole: whole["sfumato"].update(hierarchies=known, published_at=published_at))
    with refuses(ReleaseFormatError, code):
        read_manifest(release)


def test_column_with_the_name_of_a_level_is_refused(release: Path, written: dict[str, Any]) -> None:
    paths = [[value, "all"] for value in written["sfumato"]["design"]["domain"]]
    write_json(release, written)

    def change(whole: dict[str, Any]) -> None:
        whole["sfumato"].update(hierarchies={"disease": {"levels": ["code", "chapter"], "paths": paths}})
        whole["resources"][0]["schema"]["fields"][0].update(name="Disease.Chapter")

    edit_manifest(release, change)
    with refuses(ReleaseFormatError, "column-named-as-level"):
        read_manifest(release)


def test_two_columns_of_one_name_are_refused(release: Path, written: dict[str, Any]) -> None:
    write_json(release, written)
    edit_manifest(release, lambda whole: whole["resources"][0]["schema"]["fields"][0].update(name="SEX"))
    with refuses(ReleaseFormatError, "repeated-column"):
        read_manifest(release)


@pytest.mark.parametrize(
    "content",
    [
        *(b"", b"{}", b"[]", b"3", b'{"sfumato": 3}', b"\xff\xfe", b"[" * 100_000, b'{"sfumato": {"format": 1e999}}'),
        b'{"sfumato": {"format": 1, "digest": "0"}, "name": "half \\ud800 a character"}',
    ],
    ids=["empty", "no release", "list", "number", "wrong kind", "no text", "deep", "no number", "half a character"],
)
def test_what_is_no_manifest_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / MANIFEST).write_bytes(content)
    with refuses(ReleaseFormatError, "not-a-release", file="datapackage.json"):
        load_json(tmp_path)


def test_directory_without_a_manifest_is_refused(tmp_path: Path) -> None:
    with refuses(ReleaseFormatError, "no-manifest"):
        load_json(tmp_path)


def test_huge_manifest_is_refused_before_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / MANIFEST).write_bytes(b" " * (2 << 20))
    monkeypatch.setattr("sfumato._release.manifest_reader.LARGEST_MANIFEST", 1 << 20)
    with refuses(ReleaseFormatError, "manifest-too-large", file="datapackage.json", limit=1048576):
        load_json(tmp_path)


def test_digest_of_a_manifest_does_not_depend_on_its_layout(written: dict[str, Any]) -> None:
    backwards = dict(reversed(written.items()))
    backwards["sfumato"] = dict(reversed(written["sfumato"].items()))
    assert compute_manifest_digest(backwards) == compute_manifest_digest(written) == written["sfumato"]["digest"]
