"""Random SQL conditions, each with its meaning in plain Python: what a query engine must agree with.

Truth has three values, as in SQL: None is unknown, and a row is counted only where a condition is true.
"""

from __future__ import annotations

import datetime
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

Row = Mapping[str, Any]
Truth = bool | None

COMPARISONS: Mapping[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@dataclass(frozen=True)
class Condition:
    """A condition on the columns of one row. In the SQL, `{column}` stands for a column that goes by several names."""

    sql: str
    holds: Callable[[Row], Truth]

    def __repr__(self) -> str:
        return self.sql


def negated(condition: Condition) -> Condition:
    """What is true where the condition is false."""

    def holds(row: Row) -> Truth:
        truth = condition.holds(row)
        return None if truth is None else not truth

    return Condition(f"NOT ({condition.sql})", holds)


def both(one: Condition, other: Condition) -> Condition:
    """True where both are; false where either is."""

    def holds(row: Row) -> Truth:
        truths = {one.holds(row), other.holds(row)}
        return False if False in truths else None if None in truths else True

    return Condition(f"({one.sql}) AND ({other.sql})", holds)


def either(one: Condition, other: Condition) -> Condition:
    """True where either is; false where both are."""

    def holds(row: Row) -> Truth:
        truths = {one.holds(row), other.holds(row)}
        return True if True in truths else None if None in truths else False

    return Condition(f"({one.sql}) OR ({other.sql})", holds)


def known(name: str, sql: str, test: Callable[[Any], bool]) -> Condition:
    """A condition on one column that is unknown where the value is missing."""
    return Condition(sql, lambda row: None if row[name] is None else bool(test(row[name])))


def literal(value: Any) -> str:
    """A value in SQL."""
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return f"DATE '{value}'" if isinstance(value, datetime.date) else str(value)


def trees(atoms: st.SearchStrategy[Condition]) -> st.SearchStrategy[Condition]:
    """Conditions made of others by NOT, AND and OR."""
    return st.recursive(
        atoms,
        lambda smaller: st.one_of(
            smaller.map(negated), st.builds(both, smaller, smaller), st.builds(either, smaller, smaller)
        ),
        max_leaves=4,
    )


def comparisons(name: str, written: str, values: Sequence[Any]) -> st.SearchStrategy[Condition]:
    """Compare a column, written in some way, with values of its type: singly, in a range, in a list, or missing."""
    value = st.sampled_from(values)
    return st.one_of(
        st.builds(
            lambda sign, other: known(
                name, f"{written} {sign} {literal(other)}", lambda found: COMPARISONS[sign](found, other)
            ),
            st.sampled_from(sorted(COMPARISONS)),
            value,
        ),
        st.builds(
            lambda low, high: known(
                name, f"{written} BETWEEN {literal(low)} AND {literal(high)}", lambda found: low <= found <= high
            ),
            value,
            value,
        ),
        st.lists(value, min_size=1, max_size=3).map(
            lambda several: known(
                name, f"{written} IN ({', '.join(map(literal, several))})", lambda found: found in several
            )
        ),
        st.just(Condition(f"{written} IS NULL", lambda row: row[name] is None)),
        st.just(Condition(f"{written} IS NOT NULL", lambda row: row[name] is not None)),
    )


def arithmetic(name: str, written: str, numbers: Sequence[int]) -> st.SearchStrategy[Condition]:
    """Compare what is computed from a column of whole numbers that are not negative."""
    number = st.sampled_from(numbers)
    return st.one_of(
        st.builds(
            lambda factor, more, other: known(
                name, f"{written} * {factor} - {more} > {other}", lambda found: found * factor - more > other
            ),
            st.integers(1, 3),
            st.integers(0, 50),
            number,
        ),
        st.builds(
            lambda divisor, rest: known(name, f"{written} % {divisor} = {rest}", lambda found: found % divisor == rest),
            st.integers(2, 9),
            st.integers(0, 8),
        ),
        st.builds(
            lambda divisor, other: known(
                name, f"{written} // {divisor} = {other}", lambda found: found // divisor == other
            ),
            st.integers(2, 9),
            st.integers(0, 9),
        ),
        st.builds(
            lambda other: known(name, f"-{written} < -{other}", lambda found: -found < -other),
            number,
        ),
    )


def patterns(name: str, written: str, words: Sequence[str]) -> st.SearchStrategy[Condition]:
    """Match a column of words by a pattern, or change its letters first."""
    pattern = st.builds(
        lambda word, start, stop, hole: "%" * start + word[start:stop].replace("i", hole) + "%",
        st.sampled_from(words),
        st.integers(0, 1),
        st.integers(1, 4),
        st.sampled_from("i_"),
    )
    return st.one_of(
        pattern.map(
            lambda each: known(name, f"{written} LIKE {literal(each)}", lambda found: _matches(found, each, 0))
        ),
        pattern.map(
            lambda each: known(
                name,
                f"{written} ILIKE {literal(each.upper())}",
                lambda found: _matches(found, each.upper(), re.IGNORECASE),
            )
        ),
        st.sampled_from(words).map(
            lambda word: known(
                name, f"UPPER({written}) = {literal(word.upper())}", lambda found: found.upper() == word.upper()
            )
        ),
        st.sampled_from(words).map(
            lambda word: Condition(
                f"COALESCE({written}, 'none') <> {literal(word)}",
                lambda row: ("none" if row[name] is None else row[name]) != word,
            )
        ),
    )


def _matches(text: str, pattern: str, flags: int) -> bool:
    regex = "".join({"%": ".*", "_": "."}.get(letter, re.escape(letter)) for letter in pattern)
    return re.fullmatch(regex, text, flags | re.DOTALL) is not None
