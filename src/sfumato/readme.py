"""The README.md inside a release: its promise in plain words, and how to count with any tool."""

from __future__ import annotations

import re

from sfumato.manifest import Manifest
from sfumato.sql import quoted
from sfumato.values import display

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

_TEST = """
> **UNFIT TO PUBLISH.** This release was drawn with a known test key: whoever knows the key can undo the protection.
"""

_TEXT = """# A protected table
{warning}
`data.parquet` has {rows:,} records. The column `{sensitive}` is protected: each record shows a value that may or may
not be the true one. All other columns ({public}) are as the publisher gave them{bins}.

## What is promised

{promise}

What is not promised: the other columns are not protected, so a person may be recognised by them. What is hidden is the
person's `{sensitive}`. What can be learned about groups of people is not limited; that is what the release is for. It
tells something about each person whose value is tied to those of others.

## How to count

Never count the published values as they stand: most of them may be chance. With sfumato, every answer has an error bar:

    sfumato query THIS_DIRECTORY "SELECT COUNT(*) FROM release WHERE {quoted} = '{example}'"

With any SQL tool, add up the weights of `weights.parquet`; the sum is an unbiased count, and may be negative if the
true count is small. In DuckDB, for the records that satisfy a condition on the other columns:

    SELECT SUM(CASE WHEN d.{quoted} IS NOT DISTINCT FROM w.value THEN w.if_equal ELSE w.otherwise END)
    FROM 'data.parquet' AS d, 'weights.parquet' AS w
    WHERE CAST(w.value AS VARCHAR) = '{example}'

Intervals are for the counts of this table, not for a population that it was sampled from.

Made with sfumato {software}, mechanism `{mechanism}`; the exact design is in `datapackage.json`.
"""


def release_readme(manifest: Manifest, rows: int) -> str:
    """Write the README of a release."""
    example = next(value for value in manifest.design.domain if value is not None)
    return _TEXT.format(
        warning=_TEST if manifest.is_test else "",
        rows=rows,
        sensitive=manifest.sensitive,
        quoted=manifest.sensitive if _PLAIN.fullmatch(manifest.sensitive) else quoted(manifest.sensitive),
        public=", ".join(f"`{name}`" for name in manifest.public),
        bins="; some are given in ranges" if manifest.bins else "",
        promise=manifest.promise,
        example=display(example).replace("'", "''"),
        software=manifest.software,
        mechanism=manifest.mechanism_name,
    )
