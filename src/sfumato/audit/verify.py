"""Checking a release from its files alone: digests, columns, metadata, domain, promise and weights."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sfumato.audit import decoys
from sfumato.audit.buckets import check_buckets
from sfumato.audit.promise import CellLaw, cell_laws, cell_posteriors, fallen, reached, set_law
from sfumato.audit.written import (
    Check,
    Verification,
    is_bucketed,
    resource_of,
    sensitive_domain,
    sensitive_names,
    tables_of,
)
from sfumato.errors import ReleaseFormatError, SfumatoError
from sfumato.release.manifest import (
    BUCKET_FILES,
    DATA,
    FILES,
    MANIFEST,
    README,
    WEIGHTS,
    load_json,
    published_type,
)
from sfumato.request.digest import file_digest
from sfumato.request.schema import COMPOUND_MARK
from sfumato.request.spec import exact
from sfumato.request.values import domain_array, parts
from sfumato.shown.columns import bytes_of
from sfumato.shown.members import membership
from sfumato.shown.tally import Members

FIT = "fitness"
BATCH_ROWS = 1 << 18
LARGEST_WEIGHTS = 1000
"""Larger domains of fine-grain releases come without weights."""
CLOSE = 1e-9
STATISTICS = (
    "stats_min",
    "stats_max",
    "stats_null_count",
    "stats_distinct_count",
    "stats_min_value",
    "stats_max_value",
)
"""What a Parquet file may say of a column, as DuckDB names it."""


def verify_folder(folder: Path) -> Verification:
    """Check the files of a release directory against its manifest, and the promise against its design."""
    written = load_json(folder)
    try:
        files = _check_files(folder, written)
        # What is not the published file cannot be asked about its columns, and may not be readable at all.
        others = _CHECKS if files.passed else ()
        return Verification((files, *(check(folder, written) for check in others)))
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, SfumatoError) as error:
        if isinstance(error, ReleaseFormatError):
            raise
        raise ReleaseFormatError(f"{MANIFEST} does not describe a release as it should.") from error


def _check_files(folder: Path, written: Mapping[str, Any]) -> Check:
    for resource in written["resources"]:
        name = str(resource["path"])
        if name not in (*FILES, *BUCKET_FILES):
            return Check("files", False, f"{name!r} is not a file of a release.")
        path = folder / name
        if not path.is_file() or f"sha256:{file_digest(path)}" != resource["hash"]:
            return Check("files", False, f"{name} is missing or was changed after publishing.")
    listed = sorted(str(resource["path"]) for resource in written["resources"])
    extra = sorted({path.name for path in folder.iterdir()} - {*listed, MANIFEST})
    if extra or listed not in (sorted(FILES), sorted((DATA, README)), sorted(BUCKET_FILES)):
        named = ", ".join(extra) or "one is not listed, or twice"
        return Check("files", False, f"the files differ from the manifest: {named}.")
    return Check("files", True, f"{len(listed)} files have the digests of the manifest.")


def _check_schema(folder: Path, written: Mapping[str, Any]) -> Check:
    for name in tables_of(written):
        with pq.ParquetFile(folder / name) as file:
            found = [(column.name, published_type(column.type)) for column in file.schema_arrow]
        fields = resource_of(written, name)["schema"]["fields"]
        if found != [(field["name"], field["type"]) for field in fields]:
            return Check("schema", False, f"{name} has other columns or types than the manifest says.")
    return Check("schema", True, "columns and types are those of the manifest.")


def _check_metadata(folder: Path, written: Mapping[str, Any]) -> Check:
    """Statistics and metadata could tell of the original: there must be none."""
    for name in tables_of(written):
        with pq.ParquetFile(folder / name) as file:
            has_metadata = bool(file.metadata.metadata)
        if has_metadata or _has_statistics(folder / name):
            return Check("metadata", False, f"{name} carries statistics or metadata, which can give records away.")
    return Check("metadata", True, "the files carry no statistics and no metadata.")


def _has_statistics(path: Path) -> bool:
    """Whether some column of some part has statistics or metadata.

    Asked of DuckDB: pyarrow ends the process where a footer says of a column what cannot be.
    """
    told = " OR ".join(f"{name} IS NOT NULL" for name in STATISTICS)
    sql = f"SELECT COUNT(*) FROM parquet_metadata(?) WHERE {told} OR cardinality(key_value_metadata) > 0"
    try:
        with duckdb.connect() as connection:
            return bool(connection.execute(sql, [str(path)]).fetchall()[0][0])
    except duckdb.Error as error:
        raise ReleaseFormatError(f"{path.name} cannot be read; get the release again from its publisher.") from error


def _check_domain(folder: Path, written: Mapping[str, Any]) -> Check:
    """Every record must show what the design lets it show."""
    if written["sfumato"]["mechanism"] == "subset":
        return _check_sets(folder, written)
    if is_bucketed(written):
        return check_buckets(folder, written)
    ours, domain = written["sfumato"], sensitive_domain(written)
    names = sensitive_names(written)
    cells = [ours["cell_column"]] if "cell_column" in ours else []
    laws = [range(len(domain))] if ours["mechanism"] == "decoys" else [law.places for law in cell_laws(ours)]
    allowed = {
        (number, *parts(domain[place])) if cells else parts(domain[place])
        for number, places in enumerate(laws)
        for place in places
    }
    found: set[tuple[Any, ...]] = set()
    for batch in _batches(folder, [*cells, *names], names):
        distinct = pa.Table.from_batches([batch]).group_by(batch.schema.names).aggregate([])
        found.update(zip(*(distinct.column(name).to_pylist() for name in (*cells, *names)), strict=True))
    named = COMPOUND_MARK.join(names)
    if outside := len(found - allowed):
        return Check("domain", False, f"{outside} published values are outside the domain.")
    where = f"the values of its cell, of {len(laws)}" if cells else f"the {len(domain)} values of the domain"
    return Check("domain", True, f"every published {named!r} is one of {where}.")


def _batches(folder: Path, columns: Sequence[str], names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The columns of the data, group by group; texts as dictionaries, which are quick to count."""
    data = folder / DATA
    with pq.ParquetFile(data) as file:
        strings = [name for name in names if pa.types.is_string(file.schema_arrow.field(name).type)]
    with pq.ParquetFile(data, read_dictionary=strings) as file:
        for group in range(file.num_row_groups):
            yield from file.iter_batches(BATCH_ROWS, row_groups=[group], columns=list(columns))


def _check_sets(folder: Path, written: Mapping[str, Any]) -> Check:
    """Every set has the size of the design, and holds nothing but values of the domain."""
    law, design = set_law(written["sfumato"]), written["sfumato"]["design"]
    shown = Members(law.size, design["form"] == "list")
    domain = domain_array([parts(value)[0] for value in sensitive_domain(written)])
    name = COMPOUND_MARK.join(sensitive_names(written))
    for batch in _batches(folder, [name], []):
        sizes, has_stray = _set_sizes(batch.column(0), shown, domain)
        if has_stray or (sizes != law.subset_size).any():
            return Check("domain", False, f"a published set does not hold {law.subset_size} values of the domain.")
    detail = f"every published set holds {law.subset_size} of the {law.size} values of the domain."
    return Check("domain", True, detail)


def _set_sizes(column: pa.Array, shown: Members, domain: pa.Array) -> tuple[np.ndarray, bool]:
    """How many values each set holds, and whether there is anything that stands for no value."""
    if shown.as_list:
        members = membership(column, shown, domain).sum(axis=1)
        return members, bool((members != pc.list_value_length(column).to_numpy(zero_copy_only=False)).any())
    try:
        rows = bytes_of(column, shown.size)
    except pa.ArrowException as error:
        raise ReleaseFormatError("the release holds sets of another size than its domain has.") from error
    if column.null_count:
        return np.zeros(1), True
    unused = (1 << (-shown.size % 8)) - 1
    return np.bitwise_count(rows).sum(axis=1), bool((rows[:, -1] & unused).any())


def _check_promise(folder: Path, written: Mapping[str, Any]) -> Check:
    ours = written["sfumato"]
    guarantee = _GUARANTEES.get(ours["mechanism"], "any-prior")
    if ours.get("guarantee", guarantee) != guarantee:
        return Check("promise", False, f"the mechanism {ours['mechanism']!r} does not give {ours['guarantee']!r}.")
    if ours["mechanism"] == "decoys":
        return decoys.check_promise(_shown_counts(folder, written), ours)
    return _PROMISES[ours["mechanism"]](ours)


def _shown_counts(folder: Path, written: Mapping[str, Any]) -> dict[str, list[int]]:
    """How often each value of each sensitive column is published."""
    names = sensitive_names(written)
    counts: dict[str, Counter[Any]] = {name: Counter() for name in names}
    for batch in _batches(folder, names, names):
        for name in names:
            for entry in pc.value_counts(batch.column(name)).to_pylist():
                counts[name][entry["values"]] += entry["counts"]
    return {name: list(each.values()) for name, each in counts.items()}


def _bound(design: Mapping[str, Any]) -> tuple[Fraction, Fraction]:
    prior, posterior = exact(design["prior"]), exact(design["posterior"])
    if not 0 < prior < posterior < 1:
        raise ReleaseFormatError(f"a bound from {prior} to {posterior} promises nothing.")
    return prior, posterior


def _any_prior(ours: Mapping[str, Any], worst: Fraction | None) -> Check:
    """A belief of exactly the prior, and odds multiplied by the whole amplification: the worst case of any prior."""
    prior, posterior = _bound(ours["design"])
    risen = reached(prior, worst)
    if risen > posterior:
        return Check("promise", False, f"a belief of {prior} can rise to {risen}, above the promised {posterior}.")
    detail = f"a belief of {prior} can rise to {risen} at most, within the promised {posterior} (odds times {worst})."
    return Check("promise", True, detail)


def _uniform_promise(ours: Mapping[str, Any]) -> Check:
    (law,) = cell_laws(ours)
    return _any_prior(ours, law.rise(0))


def _subset_promise(ours: Mapping[str, Any]) -> Check:
    return _any_prior(ours, set_law(ours).amplification)


def _small_domain_promise(ours: Mapping[str, Any]) -> Check:
    """In each cell, the most frequent protected value starts from the cell's prior and must not pass the posterior."""
    _, posterior = _bound(ours["design"])
    worst = Fraction(0)
    for law, cell in zip(cell_laws(ours), ours["design"]["cells"], strict=True):
        prior = exact(cell["prior"])
        if not 0 < prior < posterior:
            return Check("promise", False, f"a cell that starts from a belief of {prior} protects nothing.")
        worst = max(worst, reached(prior, law.rise(0)), *_counted_posteriors(ours["design"], law, cell))
    if worst > posterior:
        return Check("promise", False, f"a belief can rise to {worst} in a cell, above the promised {posterior}.")
    cells = len(ours["design"]["cells"])
    detail = f"in each of {cells} cells a protected value can rise to {worst} at most, within the promised {posterior}"
    return Check("promise", True, f"{detail}, for whoever knows the shares of the cell and no more.")


def _counted_posteriors(design: Mapping[str, Any], law: CellLaw, cell: Mapping[str, Any]) -> list[Fraction]:
    """The posteriors of the protected values of a cell, where its counts are published."""
    if "counts" not in cell:
        return []
    held = [0] * len(design["domain"])
    for each in design["cells"]:
        for place, count in zip(each["places"], each["counts"], strict=True):
            held[place] += count
    limit = exact(design["prior"]) * sum(held)
    found = zip(law.places, cell_posteriors(cell["counts"], law), strict=True)
    return [posterior for place, posterior in found if held[place] <= limit]


def _fine_grain_promise(ours: Mapping[str, Any]) -> Check:
    (law,), design = cell_laws(ours), ours["design"]
    bounds = list(zip(design["priors"], design["posteriors"], strict=True))
    if len(bounds) != len(law.places):
        return Check("promise", False, "there is not one bound for each value.")
    bounded = 0
    for number, (low, high) in enumerate(bounds):
        if low is None:
            continue
        bounded += 1
        prior, posterior = _bound({"prior": low, "posterior": high})
        risen, lowered = reached(prior, law.rise(number)), fallen(posterior, law.fall(number))
        if risen > posterior:
            return Check("promise", False, f"a belief of {prior} can rise to {risen}, above the promised {posterior}.")
        if design["direction"] == "both" and lowered < prior:
            return Check(
                "promise", False, f"a belief of {posterior} can fall to {lowered}, below the promised {prior}."
            )
    if not bounded:
        return Check("promise", False, "no value has a bound, so nothing is promised.")
    also = "above its posterior or below its prior" if design["direction"] == "both" else "above its posterior"
    return Check("promise", True, f"no belief in one of {bounded} values with a bound can go {also}.")


def _bucket_promise(ours: Mapping[str, Any]) -> Check:
    """The caps themselves; that they hold in every bucket is checked with the buckets."""
    caps = [exact(cap) for cap in ours["design"]["caps"]]
    if len(caps) != len(ours["design"]["domain"]) or not all(0 < cap <= 1 for cap in caps):
        return Check("promise", False, "there is not one cap between 0 and 1 for each value.")
    if all(cap == 1 for cap in caps):
        return Check("promise", False, "every value has the cap 1, so nothing is promised.")
    if ours["mechanism"] == "anatomy" and (len(set(caps)) > 1 or caps[0].numerator != 1):
        return Check("promise", False, "the caps are not those of one diversity.")
    return Check("promise", True, f"every value has a cap, from {min(caps)} to {max(caps)}.")


_GUARANTEES = {
    "small-domain": "marginal-prior",
    "buckets": "bucket-only",
    "anatomy": "bucket-only",
    "decoys": "decoys-only",
}

_PROMISES: Mapping[str, Callable[[Mapping[str, Any]], Check]] = {
    "uniform": _uniform_promise,
    "subset": _subset_promise,
    "small-domain": _small_domain_promise,
    "fine-grain": _fine_grain_promise,
    "buckets": _bucket_promise,
    "anatomy": _bucket_promise,
}


def _check_weights(folder: Path, written: Mapping[str, Any]) -> Check:
    """A record of another value must count as 0 on average, and one of the value itself as 1."""
    ours = written["sfumato"]
    if is_bucketed(written):
        return Check("weights", True, "a release of buckets has no weights.")
    if ours["mechanism"] == "decoys" and WEIGHTS not in tables_of(written):
        return Check("weights", True, "what a record adds follows from the published counts, and is not written down.")
    if WEIGHTS not in tables_of(written):
        if ours["mechanism"] == "fine-grain" and len(ours["design"]["domain"]) > LARGEST_WEIGHTS:
            return Check("weights", True, "the domain is too large for weights.")
        return Check("weights", False, f"{WEIGHTS} is missing.")
    table = pq.read_table(folder / WEIGHTS).to_pydict()
    is_right = _WEIGHTS[ours["mechanism"]](ours, table) and _are_values(written, table)
    return Check("weights", is_right, f"the weights are {'' if is_right else 'not '}those of the design.")


def _expected_weights(same: Fraction, other: Fraction) -> tuple[float, float]:
    """Two equations, two unknowns: what a record adds if it shows a value, and otherwise."""
    gain = same - other
    return float((1 - other) / gain), float(-other / gain)


def _cell_weights(ours: Mapping[str, Any], table: Mapping[str, list[Any]]) -> bool:
    expected = [
        (number, *_expected_weights(law.same[0], law.other[0]))
        for number, law in enumerate(cell_laws(ours))
        for _ in law.places
    ]
    found = zip(table["cell"], table["if_equal"], table["otherwise"], strict=True)
    return _are_close(found, expected)


def _set_weights(ours: Mapping[str, Any], table: Mapping[str, list[Any]]) -> bool:
    law = set_law(ours)
    expected = [(place, *_expected_weights(law.hold, law.other)) for place in range(law.size)]
    return _are_close(zip(table["place"], table["if_equal"], table["otherwise"], strict=True), expected)


def _are_close(found: Iterable[tuple[float, ...]], expected: Sequence[tuple[float, ...]]) -> bool:
    rows = np.array(list(found), dtype=np.float64)
    return rows.shape == (len(expected), 3) and bool(np.allclose(rows, expected, rtol=CLOSE, atol=CLOSE))


def _inverse_weights(ours: Mapping[str, Any], table: Mapping[str, list[Any]]) -> bool:
    (law,) = cell_laws(ours)
    size = len(law.places)
    if size > LARGEST_WEIGHTS or len(table["weight"]) != size**2:
        return False
    transition = np.tile(np.array([float(each) for each in law.other])[:, None], (1, size))
    np.fill_diagonal(transition, [float(each) for each in law.same])
    weights = np.array(table["weight"]).reshape(size, size)
    scale = max(1.0, float(np.abs(weights).max()))
    return bool(np.allclose(transition @ weights.T, np.eye(size), atol=CLOSE * scale))


_WEIGHTS: Mapping[str, Callable[[Mapping[str, Any], Mapping[str, list[Any]]], bool]] = {
    "uniform": _cell_weights,
    "small-domain": _cell_weights,
    "subset": _set_weights,
    "fine-grain": _inverse_weights,
}


def _are_values(written: Mapping[str, Any], table: Mapping[str, list[Any]]) -> bool:
    """Whether the lines of the weights are about the values they should be about."""
    ours, domain, names = written["sfumato"], sensitive_domain(written), sensitive_names(written)
    size = len(domain)
    expected = {"value": list(range(size))}
    if ours["mechanism"] == "small-domain":
        expected = {"value": [place for law in cell_laws(ours) for place in law.places]}
    if ours["mechanism"] == "fine-grain":
        expected = {
            "value": [place for place in range(size) for _ in range(size)],
            "published": list(range(size)) * size,
        }
    for name, places in expected.items():
        for number, part in enumerate(names):
            column = name if len(names) == 1 else f"{name} {part}"
            if table[column] != [parts(domain[place])[number] for place in places]:
                return False
    return True


def _check_fitness(folder: Path, written: Mapping[str, Any]) -> Check:
    if written["sfumato"]["fit_to_publish"] is not True:
        return Check(FIT, False, "the release was drawn with a test key that others may know: it is unfit to publish.")
    return Check(FIT, True, "the release was drawn with a secret key.")


_CHECKS: tuple[Callable[[Path, Mapping[str, Any]], Check], ...] = (
    _check_schema,
    _check_metadata,
    _check_domain,
    _check_promise,
    _check_weights,
    _check_fitness,
)
