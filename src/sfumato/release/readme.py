"""The README.md inside a release: its promise in plain words, and how to count with any tool."""

from __future__ import annotations

import re
import shlex

from sqlglot import exp

from sfumato.mechanisms import decoys
from sfumato.release.manifest import BUCKETS, Manifest
from sfumato.request.values import Scalar, Value, parts
from sfumato.shown.quoting import quoted
from sfumato.shown.tally import Buckets, Members, Symbols

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

_TEST = """
> **UNFIT TO PUBLISH.** This release was drawn with a known test key: whoever knows the key can undo the protection.
"""

_TEXT = """# A protected table
{warning}
`{data}` has {rows:,} records. {shown} All other columns ({public}) are as the publisher gave them{bins}.

## What is promised

{promise}

What is not promised: the other columns are not protected, so a person may be recognised by them. What is hidden is the
person's {sensitive}. What can be learned about groups of people is not limited; that is what the release is for. It
tells something about each person whose value is tied to those of others.

## How to count

{warning_of_counts} With sfumato, every answer has an error bar:

    sfumato query THIS_DIRECTORY {query}

{by_weights}

Intervals are for the counts of this table, not for a population that it was sampled from.

Made with sfumato {software}, mechanism `{mechanism}`; the exact design is in `datapackage.json`.
"""

_BY_WEIGHTS = """\
With any SQL tool, add up the weights of `weights.parquet`; the sum is an unbiased count, and may be negative if the
true count is small. In DuckDB, for the records that satisfy a condition on the other columns:

{sql}"""

_BY_BUCKETS = """\
With any SQL tool, let every record count for its bucket's share of the value. This is the plain estimate, which is
right only if values and public columns are unrelated within buckets; `sfumato query` corrects for that. In DuckDB:

{sql}"""

_BY_DECOYS = """\
With any SQL tool, compare how often the value is shown by the selected records with how often it is shown by all. This
takes all other values to leak alike into it; `sfumato query` fits that better. In DuckDB, for {column}, with a
condition on the public columns in place of `true`:

{sql}"""

_BY_SFUMATO = (
    "There are too many values to write down what each record adds to a count, so other tools cannot count here."
)


def release_readme(manifest: Manifest, rows: int) -> str:
    """Write the README of a release."""
    example = _example(manifest)
    return _TEXT.format(
        warning=_TEST if manifest.is_test else "",
        rows=rows,
        shown=_shown(manifest),
        sensitive=_listed(manifest.sensitive),
        public=", ".join(f"`{name}`" for name in manifest.public),
        bins="; some are given in ranges" if manifest.bins else "",
        promise=manifest.promise,
        query=_quoted_for_shell(f"SELECT COUNT(*) FROM release WHERE {_condition(manifest, example)}"),
        warning_of_counts=_warning(manifest),
        by_weights=_by_weights(manifest, example),
        data=manifest.data,
        software=manifest.software,
        mechanism=manifest.mechanism_name,
    )


def _by_weights(manifest: Manifest, example: Value) -> str:
    """How to count with other tools."""
    if isinstance(manifest.observation, Buckets):
        return _BY_BUCKETS.format(sql=_indented(_bucket_sql(manifest, example)))
    if manifest.mechanism_name == decoys.NAME:
        return _BY_DECOYS.format(column=_listed(manifest.sensitive[:1]), sql=_indented(_decoy_sql(manifest, example)))
    if not manifest.has_weights:
        return _BY_SFUMATO
    return _BY_WEIGHTS.format(sql=_indented(_sql(manifest, example)))


def _bucket_sql(manifest: Manifest, example: Value) -> str:
    bucket, count = _name(manifest.cell_column or ""), _name(manifest.count_column)
    wanted = _condition(manifest, example)
    return "\n".join(
        [
            f"WITH sizes AS (SELECT {bucket}, SUM({count}) AS size FROM '{BUCKETS}' GROUP BY ALL),",
            f"     marked AS (SELECT {bucket}, SUM({count}) AS marked FROM '{BUCKETS}' WHERE {wanted} GROUP BY ALL)",
            f"SELECT COALESCE(SUM(marked.marked / sizes.size), 0) FROM '{manifest.data}'",
            f"JOIN sizes USING ({bucket}) JOIN marked USING ({bucket})",
        ]
    )


def _decoy_sql(manifest: Manifest, example: Value) -> str:
    """The closed form for the first sensitive column: R phi + (y - R phi) / d."""
    size = manifest.design.group_size
    shown = f"COUNT(*) FILTER (WHERE {_equals(_name(manifest.sensitive[0]), parts(example)[0])})"
    return "\n".join(
        [
            f"WITH whole AS (SELECT {shown} / COUNT(*) AS share FROM '{manifest.data}'),",
            f"     selected AS (SELECT COUNT(*) AS records, {shown} AS shown FROM '{manifest.data}' WHERE true)",
            f"SELECT records * share + (shown - records * share) * {size} * (1 - share) / (1 - {size} * share)",
            "FROM whole, selected",
        ]
    )


def _example(manifest: Manifest) -> Value:
    """A value to count, if possible one that is not missing, and that a record can show."""
    shown = manifest.observation
    everything = range(len(manifest.domain))
    places = sorted(set(shown.places.tolist())) if isinstance(shown, Symbols) else everything
    values = [manifest.domain[place] for place in places]
    return next((value for value in values if None not in parts(value)), values[0])


def _listed(names: tuple[str, ...]) -> str:
    return " and ".join(f"`{name}`" for name in names)


def _shown(manifest: Manifest) -> str:
    """What a record shows of what is protected."""
    names = _listed(manifest.sensitive)
    if isinstance(manifest.observation, Buckets):
        return (
            f"It does not say who has which {names}: each record is in a bucket (`{manifest.cell_column}`), and "
            f"`{BUCKETS}` lists which values the records of each bucket have, and how often."
        )
    each = "each for itself" if manifest.is_independent else "together"
    together = "column {} is" if len(manifest.sensitive) == 1 else f"columns {{}} are, {each},"
    subject = f"The {together.format(names)} protected"
    if isinstance(manifest.observation, Members):
        size = len(manifest.domain)
        form = (
            "a list of values" if manifest.observation.as_list else f"bits: {size} of them, in the order of the domain"
        )
        return f"{subject}: each record shows a set of values, as {form}, which may or may not hold the true one."
    cells = ""
    if manifest.cell_column is not None:
        cells = f" The column `{manifest.cell_column}` says in which cell of the table a record was perturbed."
    return f"{subject}: each record shows a value that may or may not be the true one.{cells}"


def _warning(manifest: Manifest) -> str:
    if isinstance(manifest.observation, Buckets):
        return "Records and values of a bucket must not be joined and counted: every record would have every value."
    if isinstance(manifest.observation, Members):
        return "Never count the sets as they stand: most of their members are chance."
    return "Never count the published values as they stand: most of them may be chance."


def _name(column: str) -> str:
    return column if _PLAIN.fullmatch(column) else quoted(column)


def _condition(manifest: Manifest, example: Value) -> str:
    pairs = zip(manifest.sensitive, parts(example), strict=True)
    return " AND ".join(_equals(_name(name), value) for name, value in pairs)


def _equals(column: str, value: Scalar) -> str:
    return f"{column} IS NULL" if value is None else f"{column} = {exp.convert(value).sql('duckdb')}"


def _quoted_for_shell(text: str) -> str:
    """A text as one argument of a shell: in double quotes unless it holds what means something there."""
    return shlex.quote(text) if any(mark in text for mark in '"$`\\!') else f'"{text}"'


def _sql(manifest: Manifest, example: Value) -> str:
    """A query that adds up the weights of one value."""
    single = len(manifest.sensitive) == 1
    columns = ["value"] if single else [f"value {name}" for name in manifest.sensitive]
    wanted = [_equals(f"w.{_name(column)}", part) for column, part in zip(columns, parts(example), strict=True)]
    shown = manifest.observation
    if isinstance(shown, Members):
        data = f"d.{_name(manifest.sensitive_name)}"
        test = f"list_contains({data}, w.value)" if shown.as_list else f"get_bit({data}::BIT, w.place) = 1"
        return _summed(test, [], wanted)
    published = columns if manifest.mechanism_name != "fine-grain" else [f"published{each[5:]}" for each in columns]
    same = [
        f"d.{_name(name)} IS NOT DISTINCT FROM w.{_name(column)}"
        for name, column in zip(manifest.sensitive, published, strict=True)
    ]
    if manifest.mechanism_name == "fine-grain":
        return "\n".join(
            ["SELECT SUM(w.weight)", "FROM 'data.parquet' AS d, 'weights.parquet' AS w", _where([*same, *wanted])]
        )
    cells = [] if manifest.cell_column is None else [f"d.{_name(manifest.cell_column)} = w.cell"]
    return _summed(" AND ".join(same), cells, wanted)


def _summed(test: str, cells: list[str], wanted: list[str]) -> str:
    return "\n".join(
        [
            f"SELECT COALESCE(SUM(CASE WHEN {test} THEN w.if_equal ELSE w.otherwise END), 0)",
            "FROM 'data.parquet' AS d, 'weights.parquet' AS w",
            _where([*cells, *wanted]),
        ]
    )


def _where(conditions: list[str]) -> str:
    return f"WHERE {' AND '.join(conditions)}"


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.splitlines())
