"""Releases for tests: publish a small table with a known key, and edit a release the way a stranger could."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from accepted import ALL_ACCEPTED, REASON, give_reasons
from sfumato._core.digests import compute_file_digest
from sfumato._engines.engine import Engine
from sfumato._publish.publication import publish
from sfumato._publish.request import Request
from sfumato._query.bound_coverage import estimate_bound_coverage
from sfumato._query.release import Release
from sfumato._records import DATA_FILE
from sfumato._release.description import Description
from sfumato._release.manifest import MANIFEST, README, README_TEMPLATE, WEIGHTS, compute_manifest_digest
from sfumato._release.manifest_reader import parse_manifest
from sfumato._release.readme import make_readme
from sfumato._request.belief_bounds import BreachBound, PrivacySpec, Tolerance
from sfumato._request.bucket_and_decoy_requirements import DecoyGroups, Diversity, LinearCap
from sfumato._request.hierarchy import Hierarchy
from sfumato._request.schema import NullPolicy, Role, Schema
from sfumato.errors import ReleaseFormatError
from sfumato.mechanisms import _decoys
from sfumato.mechanisms._bucketization import anatomy_mechanism as anatomy
from sfumato.mechanisms._bucketization import buckets
from sfumato.mechanisms._noisy_counts import noisy_counts_mechanism as noisy_counts
from sfumato.mechanisms._randomized_response import fine_grain, small_domain
from sfumato.mechanisms._randomized_response import harmonic_mechanism as harmonic
from sfumato.mechanisms._randomized_response import uniform_mechanism as uniform
from sfumato.mechanisms._subset_selection import levels
from sfumato.mechanisms._subset_selection import subset_mechanism as subset

SENSITIVE = "disease"
BOUND = BreachBound("1/10", "1/2")
FILES = (DATA_FILE, WEIGHTS, README)
"""The files of a release that shows values, beside its manifest."""


FEWEST = 3
"""A table needs so many values, for groups that are not the values themselves."""


@dataclass(frozen=True)
class Way:
    """How to ask for a mechanism, so that a small table of few values can be published by it."""

    spec: PrivacySpec
    options: Any
    has_groups: bool = False
    """Whether it needs a hierarchy of the values."""
    has_domain: bool = False
    """Whether it needs a declared domain."""

    def schema(self, asked: Schema, table: Any) -> Schema:
        """The schema of a table, with a hierarchy if one is needed: the former half of the values, and the others.

        A compound can have none: one of its columns is protected alone.
        """
        if self.has_domain and not (asked.compound or asked.domains or asked.hierarchies):
            names = asked.sensitive_columns
            domains = list_domains(table, names)
            if asked.nulls is NullPolicy.DROP:
                domains = {name: [value for value in values if value is not None] for name, values in domains.items()}
            return replace(asked, domains=domains)
        if not self.has_groups:
            return asked
        name = asked.sensitive_columns[-1]
        asked = Schema.of(name, public="*") if asked.compound else asked
        drops = asked.nulls is NullPolicy.DROP
        found = {value for value in table.column(name).to_pylist() if value is not None or not drops}
        values = sorted(found, key=lambda value: (value is None, value or 0))
        values += ["unheard of"] if len(values) < FEWEST else []
        paths = [(value, "former" if 2 * number < len(values) else "latter") for number, value in enumerate(values)]
        return replace(asked, hierarchies={name: Hierarchy.of(("own", "kind"), paths)})

    def request(self, mechanism: str) -> dict[str, Any]:
        """The parts of a request that make it one for this mechanism; whatever a public column tells is accepted."""
        return {
            "spec": self.spec,
            "mechanism": mechanism,
            "options": {mechanism: self.options},
            "accept_marginal_prior": REASON,
        }


WAYS: dict[str, Way] = {
    "uniform": Way(BOUND, uniform.NoOptions()),
    "subset": Way(BreachBound("3/7", "1/2"), subset.Options()),
    "levels": Way(BreachBound("1/3", "1/2"), levels.Options(), has_groups=True),
    "noisy-counts": Way(BreachBound("1/3", "1/2"), noisy_counts.Options(), has_domain=True),
    "small-domain": Way(BreachBound("1/2", "3/4"), small_domain.Options(min_cell=1)),
    "harmonic": Way(Tolerance("3/2"), harmonic.Options()),
    "fine-grain": Way(Tolerance("3/2"), fine_grain.Options(objective=fine_grain.Objective.AGGREGATE)),
    "buckets": Way(LinearCap("3/2"), buckets.Options()),
    "anatomy": Way(Diversity(2), anatomy.Options()),
    "decoys": Way(DecoyGroups(2), _decoys.Options()),
}
"""One way for each mechanism: sets of two of four values, several cells, coins of their own, buckets, decoys."""


def known_key(number: int) -> str:
    """The known key of a number: fixed, so that a failure can be repeated."""
    return f"{number:064x}"


def published_by(mechanism: str, table: Any, out: Path | str, *, engine: Engine | None = None) -> Release:
    """Publish a table by a mechanism with a known key; `disease` is sensitive."""
    schema = WAYS[mechanism].schema(Schema.of(SENSITIVE, public="*"), table)
    request = Request(
        table, schema=schema, **WAYS[mechanism].request(mechanism), **accepting(table, schema), **ALL_ACCEPTED
    )
    return publish(request, out, unsafe_test_key=known_key(0), engine=engine).release


def published(  # noqa: PLR0913 - everything but the table and the place has a default
    table: Any,
    out: Path,
    *,
    schema: Schema | None = None,
    bound: BreachBound = BOUND,
    key: int | None = 0,
    mechanism: str = "auto",
    engine: Engine | None = None,
    describe: Description | None = None,
) -> Release:
    """Publish a table with a known key (None: a secret one); `disease` is sensitive unless a schema says otherwise."""
    asked = schema or Schema.of(SENSITIVE, public="*")
    request = Request(table, schema=asked, spec=bound, mechanism=mechanism, **accepting(table, asked), **ALL_ACCEPTED)
    test_key = None if key is None else known_key(key)
    return publish(request, out, unsafe_test_key=test_key, engine=engine, describe=describe).release


def list_domains(table: Any, columns: Sequence[str]) -> dict[str, list[Any]]:
    """The values of columns as if they were declared, the missing value last."""
    values = {name: set(table.column(name).to_pylist()) for name in columns}
    return {
        name: sorted(found, key=lambda value: (value is None, 0 if value is None else value))
        for name, found in values.items()
    }


def accepting(table: Any, schema: Schema) -> dict[str, dict[str, str]]:
    """That all public columns may tell what is sensitive: tables of a test are small, and often repeat."""
    is_file = isinstance(table, Path) and table.suffix == ".parquet"
    names = pq.read_schema(table).names if is_file else getattr(table, "column_names", ())
    schema = schema.resolve_patterns(names)
    return {"accept_disclosing": give_reasons(name for name in names if schema.get_role(name) is Role.PUBLIC)}


def people(rows: int = 60, **columns: Sequence[Any]) -> pa.Table:
    """A table in which no public column tells the disease; further columns repeat to its length."""
    repeated: Mapping[str, Sequence[Any]] = {
        "age": [30, 40, 50, 60],
        "sex": ["F", "M"],
        SENSITIVE: [name for name in ("flu", "HIV", "cold", "asthma", "flu") for _ in range(4)],
        **columns,
    }
    return pa.table({name: [values[row % len(values)] for row in range(rows)] for name, values in repeated.items()})


def read_json(folder: Path) -> dict[str, Any]:
    """The manifest of a release as JSON."""
    written: dict[str, Any] = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    return written


def write_json(folder: Path, written: Any) -> None:
    """Write a manifest as it is given, consistent or not."""
    (folder / MANIFEST).write_text(json.dumps(written), encoding="utf-8")


def edit_manifest(folder: Path, change: Callable[[dict[str, Any]], Any] = lambda written: None) -> None:
    """Change the manifest of a release, and make README and every digest fit again: nothing looks edited."""
    edited = read_json(folder)
    change(edited)
    with contextlib.suppress(ReleaseFormatError, pa.ArrowException, OSError):  # some edits leave nothing to fit
        manifest = parse_manifest(edited)
        if manifest.readme_template >= README_TEMPLATE:
            release = Release(folder, manifest, folder)
            coverage = estimate_bound_coverage(release)
            sentence = "" if coverage is None else coverage.sentence
            readme = make_readme(manifest, release.rows, sentence, people_in_counts=release.people_in_counts)
            (folder / README).write_bytes(readme.encode())
    fit_digests(folder, change)


def fit_digests(folder: Path, change: Callable[[dict[str, Any]], Any] = lambda written: None) -> None:
    """Change the manifest of a release, and make every digest fit again; the README stays as it is."""
    written = read_json(folder)
    for resource in written["resources"]:
        if (path := folder / resource["path"]).is_file():
            resource["hash"] = f"sha256:{compute_file_digest(path)}"
    change(written)
    written["sfumato"]["digest"] = compute_manifest_digest(written)
    write_json(folder, written)
