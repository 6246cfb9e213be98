"""Divides the bound between the counts of crowds and coarse tables beside them.

A coarse table counts all people by some of the public columns. A person is in the coarse tables as well as in a crowd
or a set, so their factors multiply. The bound is divided so that the product of all factors is exactly the factor of
the whole bound.

Notation: γ = amplification, s = the share of a coarse table. Its factor is the largest fraction of small whole numbers
that is at most γ^s, and the rest of γ is left for crowds and sets.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import prod

from sfumato._core.exact_numbers import find_root_below, parse_exact
from sfumato._records.count_tables import MOST_COARSE_TABLES
from sfumato.errors import InfeasibleError, SpecError

LARGEST_DENOMINATOR = 1000
"""The denominator of a share is at most this, so that powers stay small."""

_NAME = re.compile(r'\s*(?:"((?:[^"]|"")+)"|([^",;=]+))\s*(?:,|$)')
_TABLE = re.compile(r'\s*((?:"(?:[^"]|"")*"|[^";=])+)=([^";=]+)(?:;|$)')


@dataclass(frozen=True, slots=True)
class CoarseShare:
    """The columns of a coarse table, and its share of the budget."""

    columns: tuple[str, ...]
    share: Fraction


def parse_shares(text: str) -> tuple[CoarseShare, ...]:
    """Reads coarse tables, such as `age,sex=1/5; region=1/10`. Names with special characters are in double quotes."""
    shares = tuple(
        CoarseShare(_parse_columns(columns, text), parse_exact(share.strip(), f"the share of {columns.strip()!r}"))
        for columns, share in _split(text, _TABLE, text)
    )
    if len(shares) > MOST_COARSE_TABLES:
        raise SpecError(
            f"{len(shares)} coarse tables were requested; at most {MOST_COARSE_TABLES} are possible.",
            code="too-many-coarse-tables",
            fields={"tables": len(shares), "limit": MOST_COARSE_TABLES},
        )
    if len({frozenset(share.columns) for share in shares}) < len(shares):
        raise SpecError(
            f"two coarse tables in `also_by={text!r}` have the same columns; name each table once.",
            code="repeated-coarse-table",
        )
    if any(share.share <= 0 for share in shares) or sum(share.share for share in shares) >= 1:
        raise SpecError(
            f"the shares in `also_by={text!r}` must be above 0 and add up to less than 1, because the rest of the "
            "budget is for the counts by all public columns.",
            code="coarse-shares-out-of-range",
        )
    if any(share.share.denominator > LARGEST_DENOMINATOR for share in shares):
        raise SpecError(
            f"a share in `also_by={text!r}` has too many digits; write a simple fraction, such as 1/5.",
            code="coarse-shares-out-of-range",
        )
    return shares


def _parse_columns(columns: str, text: str) -> tuple[str, ...]:
    names = tuple(
        quoted.replace('""', '"') if quoted else plain.strip() for quoted, plain in _split(columns, _NAME, text)
    )
    if not all(names) or len(set(names)) < len(names):
        raise _make_form_error(text)
    return names


def _split(text: str, pattern: re.Pattern[str], whole: str) -> list[tuple[str, str]]:
    """The groups of a pattern that must match one after the other, up to the end."""
    matches, position = [], 0
    while position < len(text.rstrip()):
        match = pattern.match(text, position)
        if match is None:
            raise _make_form_error(whole)
        matches.append((match[1] or "", match[2] or ""))
        position = match.end()
    if not matches or text.rstrip().endswith((",", ";")):
        raise _make_form_error(whole)
    return matches


def _make_form_error(text: str) -> SpecError:
    return SpecError(
        f"`also_by={text!r}` does not name columns with a share; write for example `also_by='age,sex=1/5'`, or "
        "several tables as 'age,sex=1/5; region=1/10'.",
        code="invalid-coarse-tables",
    )


def divide_budget(amplification: Fraction, shares: Sequence[CoarseShare]) -> tuple[Fraction, tuple[Fraction, ...]]:
    """The factor of crowds and sets, and the factor of each coarse table. Their product is the amplification."""
    factors = tuple(find_root_below(amplification**share.share.numerator, share.share.denominator) for share in shares)
    for share, factor in zip(shares, factors, strict=True):
        if factor <= 1:
            raise InfeasibleError(
                f"a share of {share.share} is too small for a table by {', '.join(share.columns)}; give it a larger "
                "share (`also_by=`), or leave it out.",
                code="coarse-share-too-small",
                fields={"share": str(share.share)},
            )
    return amplification / prod(factors, start=Fraction(1)), factors
