"""Writes the README.md of a release: its guarantee in plain words, and how to count with any tool."""

from __future__ import annotations

import shlex
import textwrap

from sfumato._core.cell_values import Value, choose_example_value, split_value
from sfumato._core.markdown import escape_markdown, format_as_code
from sfumato._records.sql_quoting import format_level, quote_if_needed, write_equality
from sfumato._release.manifest import README_TEMPLATE, WEIGHTS, Manifest
from sfumato._request.hierarchy import Hierarchy
from sfumato._terminal_safe import escape_unprintable, is_printable

_TEST = """
> **UNFIT TO PUBLISH.** This release was drawn with a known test key. Anyone who knows this key can undo the protection.
"""

_TEXT = """# {title}
{warning}{about}
{size} {encoding} The other columns ({public}) are published as they are{ranges}.

## The guarantee

{short}

> **Exactly.** {exact}

{details}

The other columns are not protected, and a person may be recognised by them. If they disclose the person's {sensitive},
the guarantee cannot prevent it. Facts about groups of people are not hidden, because analysts need them. Such a fact
also discloses something about the people in the group.

## How to count

{warning_of_counts} With sfumato, every answer has a standard error and a confidence interval:

    sfumato query THIS_DIRECTORY {query}
{levels}
{by_weights}{in_r}
{escapes}{copies}
{population} The confidence intervals are for the same numbers.

Made with sfumato {software}, mechanism `{mechanism}`. The exact design is in `datapackage.json`. `sfumato
verify` checks that this text (template {template}) agrees with `datapackage.json`.
"""

_LEVELS = """
The values of {name} belong to groups. A query can use each of these levels like a column (in brackets: the number of
groups): {levels}. For example:

    sfumato query THIS_DIRECTORY {query}
"""

_IN_R = """

The same in R, with the package duckdb:

    library(duckdb)
    release <- dbConnect(duckdb())
    dbGetQuery(release, "
{text}
    ")"""

_COPIES = """
{names} {say} as CSV. An empty field is a missing value, and an empty text is in
quotes. Sets and lists are written as `["a", "b"]`. A spreadsheet treats a text that begins with `=`, `+`, `-` or `@` as
a formula. Import such columns as text, or use the Parquet files.
"""

_ESCAPES = """
Unprintable characters above are written as escapes, such as `\\x1b`. Replace these before you run a query.
"""

_BY_SFUMATO = "This release has no file of weights, so only sfumato can count its records."


def make_readme(manifest: Manifest, rows: int, coverage: str = "", *, people_in_counts: int = 0) -> str:
    """Writes the README of a release by the current template, with a sentence about its coverage.

    `people_in_counts` is how many of the `rows` are published in counts instead of records. The README depends only on
    the manifest and the records, so `verify` can write it again.
    """
    naming, data = manifest.naming, manifest.data_file
    if len(manifest.data_files) > 1:  # SQL tools read all files that match a pattern
        data = f"{manifest.data_files[0].partition('/')[0]}/*.parquet"
    example = choose_example_value(
        [manifest.domain[place] for place in manifest.encoding.list_places(len(manifest.domain))]
    )
    pairs = zip(manifest.sensitive_columns, split_value(example), strict=True)
    value_condition = " AND ".join(write_equality(quote_if_needed(name), value) for name, value in pairs)
    protection = "each on its own" if manifest.is_independent else "together"
    column_phrase = "column {} is" if len(manifest.sensitive_columns) == 1 else f"columns {{}} are, {protection},"
    manual_query = manifest.encoding.write_manual_sql(
        naming, value_condition
    ) or manifest.mechanism.estimation_rules.write_manual_sql(manifest.design, naming)
    levels = [
        f" Its values are groups of the level {format_as_code(level)}." for level in manifest.published_levels.values()
    ]
    tool_query = manual_query or _write_weight_query(manifest, example, value_condition)
    return _TEXT.format(
        title=escape_markdown(manifest.description.title) or "A protected table",
        about=_write_description(manifest),
        warning=_TEST if manifest.is_test else "",
        size=manifest.encoding.describe_size(data, rows, people_in_counts, manifest.count_unit),
        encoding=manifest.encoding.describe(f"The {column_phrase.format(naming.markdown_names)} protected", naming)
        + "".join(levels),
        sensitive=naming.markdown_names,
        public=", ".join(map(format_as_code, manifest.public_columns)),
        ranges=", some of them in ranges" if manifest.ranges else "",
        short=escape_markdown(manifest.guarantee.short),
        exact=escape_markdown(manifest.guarantee.exact),
        details="\n".join(
            f"- {escape_markdown(detail)}" for detail in (*manifest.guarantee.details, coverage) if detail
        ),
        query=_quote_for_shell(question := f"SELECT COUNT(*) FROM release WHERE {value_condition}"),
        warning_of_counts=manifest.encoding.WARNING,
        levels="".join(_describe_levels(name, hierarchy) for name, hierarchy in manifest.hierarchies.items()),
        by_weights=(by_weights := tool_query.replace(f"FROM '{manifest.data_file}'", f"FROM '{data}'")),
        in_r=_translate_to_r(by_weights),
        escapes="" if all(map(is_printable, (question, *manifest.protected_columns, *manifest.levels))) else _ESCAPES,
        copies=_describe_copies(manifest),
        population=escape_markdown(manifest.population.sentence),
        software=escape_markdown(manifest.software),
        mechanism=manifest.mechanism_name,
        template=README_TEMPLATE,
    )


def _write_description(manifest: Manifest) -> str:
    """Returns the publisher's description as plain text without Markdown."""
    description = manifest.description
    paragraphs = [escape_markdown(line) for line in filter(None, (description.description, *description.list_lines()))]
    columns = [
        f"- {format_as_code(name)}: {escape_markdown(text)}" for name, text in manifest.column_descriptions.items()
    ]
    parts = [*paragraphs, *(["\n".join(columns)] if columns else [])]
    return "".join(f"\n{part}\n" for part in parts)


def _describe_levels(name: str, hierarchy: Hierarchy) -> str:
    """Lists the levels of a column, with an example query about the first level."""
    level_names = [format_level(name, level) for level in hierarchy.levels[1:]]
    level_labels = [
        f"{format_as_code(level)} ({len(hierarchy.list_groups(number))})" for number, level in enumerate(level_names, 1)
    ]
    query = _quote_for_shell(f"SELECT {level_names[0]}, COUNT(*) FROM release GROUP BY {level_names[0]}")
    return _LEVELS.format(name=format_as_code(name), levels=", ".join(level_labels), query=query)


def _write_weight_query(manifest: Manifest, example: Value, value_condition: str) -> str:
    """Writes a query for other tools that adds up the weights of one value."""
    if manifest.weights is None:
        return _BY_SFUMATO
    endings = [""] if len(manifest.sensitive_columns) == 1 else [f" {name}" for name in manifest.sensitive_columns]
    has_pairs = "weight" in manifest.weights  # a weight for each pair of a value and a published value
    columns = [f"{'published' if has_pairs else 'value'}{ending}" for ending in endings]
    match_condition, conditions = manifest.encoding.write_match(manifest.naming, columns, example)
    pairs = zip(endings, split_value(example), strict=True)
    value_conditions = [write_equality(f"w.{quote_if_needed(f'value{ending}')}", part) for ending, part in pairs]
    source = [f"FROM '{manifest.data_file}' AS d, '{WEIGHTS}' AS w"]
    if has_pairs:
        sql = "\n".join(
            [
                "SELECT SUM(w.weight)",
                *source,
                f"WHERE {' AND '.join([match_condition, *conditions, *value_conditions])}",
            ]
        )
    else:
        terms = [
            f"CASE WHEN {match_condition} THEN w.if_equal ELSE w.otherwise END",
            *manifest.encoding.list_extra_terms(manifest.naming),
        ]
        source.append(f"WHERE {' AND '.join([*conditions, *value_conditions])}")
        sql = manifest.encoding.write_tool_query(
            " + ".join(terms), "\n".join(source), manifest.naming, manifest.public_columns, value_condition
        )
    lines = "\n".join(f"    {escape_unprintable(line)}" for line in sql.splitlines())
    return f"{manifest.encoding.TOOL_QUERY_HINT}\n\n{lines}"


def _translate_to_r(by_weights: str) -> str:
    """Writes the same query for R, from its indented lines. The result is empty if there is no query."""
    lines = [line for line in by_weights.splitlines() if line.startswith("    ")]
    if not lines:
        return ""
    escaped = "\n".join(lines).replace("\\", "\\\\").replace('"', '\\"')
    return _IN_R.format(text=textwrap.indent(escaped, "    "))


def _describe_copies(manifest: Manifest) -> str:
    """Returns a remark about the CSV files, if there are any."""
    if not manifest.copies:
        return ""
    names = [f"`{name}`" for name in manifest.copies]
    return _COPIES.format(
        names=" and ".join(names),
        say="has the content of the Parquet file" if len(names) == 1 else "have the content of the Parquet files",
    )


def _quote_for_shell(text: str) -> str:
    """Quotes a string as one shell argument.

    Double quotes are used, unless the string has characters that are special in double quotes.
    """
    text = escape_unprintable(text)
    return shlex.quote(text) if any(mark in text for mark in '"$`\\!') else f'"{text}"'
