"""Questions that would take for ever, or all memory, or more calls than Python has: by their shape.

They are asked of a release with a text `word`, a number `age`, a `sex` and the sensitive `disease`. Some are answered,
most are refused, and the endless ones run until they are stopped; none may take longer than it has, or end otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

COUNT = "SELECT COUNT(*) FROM release"
CROSS = "release a, release b, release c"


def nested(opening: str, inner: str, closing: str, depth: int) -> str:
    """Something inside itself, so many times."""
    return opening * depth + inner + closing * depth


def replaced(letters: int, times: int, function: str = "replace") -> str:
    """A text in which each a becomes so many, so many times."""
    return nested(f"{function}(", "word", f", 'a', '{'a' * letters}')", times)


def common_tables(levels: int) -> str:
    """Common table expressions of which each names the one before it twice."""
    twice = ", ".join(f"t{at} AS (SELECT x.age FROM t{at - 1} x, t{at - 1} y)" for at in range(1, levels))
    return f"WITH t0 AS (SELECT age FROM release LIMIT 1), {twice} SELECT COUNT(*) FROM t{levels - 1}"


def aliases(levels: int, sign: str, first: str) -> str:
    """Columns of which each is made of the one before it, twice."""
    names = [first, *(f"c{at}" for at in range(levels))]
    return "SELECT " + ", ".join(f"{was} {sign} {was} AS {name}" for was, name in pairwise(names))


def subqueries(levels: int, made: str, outer: str) -> str:
    """Subqueries of which each makes something of the column of the one inside."""
    return outer + nested(f"(SELECT {made} AS x FROM ", "(SELECT word AS x FROM release LIMIT 5)", ")", levels)


BOUNDED: Mapping[str, str] = {
    "cross product kept as a table": f"{COUNT} WHERE disease = 'flu' AND age IN"
    " (SELECT a.age FROM release a, release b)",
    "replacing by longer texts": f"SELECT length({replaced(8, 9)}) FROM release",
    "replacing by much longer texts": f"SELECT max(length({replaced(10, 6)})) FROM release",
    "replacing by a pattern": f"SELECT max({replaced(10, 6, 'regexp_replace')}) FROM release",
    "texts joined to themselves": subqueries(28, "x || x", "SELECT length(x) FROM "),
    "texts joined by a function": subqueries(28, "concat(x, x)", "SELECT length(x) FROM "),
    "rows of rows": subqueries(28, "(x, x)", "SELECT x FROM "),
    "texts joined by names": aliases(28, "||", "word") + " FROM release",
    "sums of names": aliases(28, "+", "age") + " FROM release",
    "sums through subqueries of a sensitive column": f"{COUNT.replace('release', '')}"
    + nested("(SELECT disease, x + x AS x FROM ", "(SELECT disease, age AS x FROM release)", ")", 28)
    + " WHERE disease = 'flu' AND x > 3",
    "three hundred mixed conditions": f"{COUNT} WHERE "
    + " AND ".join(f"(disease = 'flu' OR age > {at})" for at in range(300)),
    "as many alternatives as fit": f"{COUNT} WHERE " + " OR ".join(f"age = {at}" for at in range(4000)),
    "too many alternatives": f"{COUNT} WHERE " + " OR ".join(f"age = {at}" for at in range(100_000)),
    "too many alternatives of a sensitive column": f"{COUNT} WHERE "
    + " OR ".join(f"disease = '{at}'" for at in range(10_000)),
    "alternatives that mix": f"{COUNT} WHERE disease = 'flu' OR " + " OR ".join(f"age = {at}" for at in range(1000)),
    "1,200 conditions with a sensitive one": f"{COUNT} WHERE disease = 'flu'" + " AND age > 0" * 1200,
    "5,000 parentheses": f"{COUNT} WHERE {nested('(', 'age > 1', ')', 5000)}",
    "150 parentheses": f"{COUNT} WHERE {nested('(', 'age > 1', ')', 150)}",
    "NOT 3,000 times": f"{COUNT} WHERE {nested('NOT ', 'age > 1', '', 3000)}",
    "minus 3,000 times": f"{COUNT} WHERE age > {nested('- ', '1', '', 3000)}",
    "200 nested cases": f"{COUNT} WHERE age > {nested('CASE WHEN age > 1 THEN ', '1', ' END', 200)}",
    "200 nested functions": f"{COUNT} WHERE age > {nested('abs(', '1', ')', 200)}",
    "40 subqueries": f"SELECT COUNT(*) FROM {nested('(SELECT * FROM ', 'release', ')', 40)}",
    "200 subqueries": f"SELECT COUNT(*) FROM {nested('(SELECT * FROM ', 'release', ')', 200)}",
    "common tables doubled 6 times": common_tables(7),
    "common tables that nobody asks": f"WITH t AS (SELECT age{', age' * 900} FROM release)"
    + "".join(f", u{at} AS (SELECT age FROM t)" for at in range(30)) + " SELECT age FROM t",
    "common tables doubled 15 times": common_tables(16),
    "common tables doubled 23 times": common_tables(24),
    "many joins": f"SELECT COUNT(*) FROM release r0{''.join(f', release r{at}' for at in range(1, 300))}",
    "a name 3,000 times in a sum": f"{COUNT} GROUP BY disease ORDER BY {'+'.join(['n'] * 3000)}",
    "a name 3,000 times": f"SELECT COUNT(*) AS n FROM release GROUP BY disease ORDER BY {','.join(['n'] * 3000)}",
    "long texts letter by letter": f"SELECT sum(levenshtein({replaced(6, 3)}, {replaced(6, 3)})) FROM release",
    "pattern of patterns": f"{COUNT} WHERE word SIMILAR TO '(((a{{1,100}}){{1,100}}){{1,100}})'",
    "number of 100,000 digits": f"{COUNT} WHERE disease = 'flu' AND age > {'9' * 100_000}",
    "number of 50,000 digits": f"{COUNT} WHERE disease = 'flu' AND age > {'9' * 50_000}",
    "groups by 500 texts of a sensitive column": f"{COUNT} GROUP BY "
    + ",".join(f"disease || '{at}'" for at in range(500)),
    "window without a table": "SELECT sum(age) OVER (ORDER BY age) FROM release, release b LIMIT 10",
    "text of 50 megabytes": f"{COUNT} WHERE sex = '{'x' * 50_000_000}'",
    "texts of all records": "SELECT string_agg(word) FROM release a, release b",
    "padding": "SELECT lpad(word, 1000000000, 'x') FROM release",
    "repeating": "SELECT repeat(word, 1000000000) FROM release",
    "20,000 texts in one": f"SELECT length(concat_ws(',', {','.join(['word'] * 20_000)})) FROM release",
    "8,000 texts in one": f"SELECT length(concat_ws(',', {','.join(['word'] * 8_000)})) FROM release",
    "letter of no alphabet": "SELECT chr(999999999) FROM release",
    "limit that is too large": "SELECT age FROM release LIMIT 99999999999999999999999",
    "offset behind the end": "SELECT age FROM release OFFSET 999999999999999999",
    "sum that is too large": "SELECT SUM(CAST(9e18 AS BIGINT) * 1) FROM release",
    "half a character": f"{COUNT} WHERE sex = '\ud800'",
    "an answer of 500 columns": f"SELECT {','.join(f'age + {at} AS c{at}' for at in range(500))} FROM release",
}  # fmt: skip
"""Refused, or answered."""

ENDLESS: Mapping[str, str] = {
    "cross product counted": f"SELECT COUNT(*) FROM {CROSS}",
    "cross product without doubles": f"SELECT DISTINCT a.age + b.age * 1000 + c.age FROM {CROSS}",
    "cross product in order": f"SELECT a.age FROM {CROSS} ORDER BY a.age + b.age + c.age LIMIT 1",
    "cross product row by row": f"SELECT a.age + b.age AS s FROM {CROSS} WHERE (a.age + b.age + c.age) % 7 = 8",
    "median of a cross product": f"SELECT median(a.age) FROM {CROSS}",
    "mode of a cross product": f"SELECT mode(a.age * 1000000 + b.age) FROM {CROSS}",
}
"""Stopped when time is over."""

GROUPED = "SELECT disease, COUNT(*) AS n FROM release GROUP BY disease"


def several(count: int, base: str = "age") -> str:
    """So many different expressions of a column."""
    return ", ".join(f"{base} + {at}" for at in range(count))


def sets_of(parts: str) -> Mapping[str, str]:
    """The same GROUP BY of a protected count, of public columns, and over the rows of another query."""
    rows = "(SELECT disease, age, sex, COUNT(*) AS n FROM release GROUP BY ALL)"
    return {
        "of a protected count": f"{COUNT} WHERE disease = 'flu' GROUP BY {parts}",
        "of public columns": f"{COUNT} GROUP BY {parts}",
        "over rows": f"SELECT SUM(n) FROM {rows} GROUP BY {parts}",
        "within a subquery": f"SELECT n FROM (SELECT disease, COUNT(*) AS n FROM release GROUP BY disease, {parts})",
    }


SETS = {
    f"{name} {where}": sql
    for name, parts in {
        "cube of 24": f"CUBE ({several(24)})",
        "cube of 24 times the same": f"CUBE ({', '.join(['age'] * 24)})",
        "cube of 3,000": f"CUBE ({several(3000)})",
        "product of cubes": ", ".join(f"CUBE ({several(7, f'age * {at}')})" for at in range(4)),
        "product of rollups": ", ".join(f"ROLLUP ({several(60, f'age * {at}')})" for at in range(5)),
        "product of lists": ", ".join([f"GROUPING SETS ({', '.join(['(age, sex)', '()'] * 30)})"] * 5),
        "list of cubes": f"GROUPING SETS ({', '.join([f'CUBE ({several(20)})'] * 5)})",
        "rollup of 2,000": f"ROLLUP ({several(2000)})",
        "list of 3,000": f"GROUPING SETS ({', '.join(['()'] * 3000)})",
    }.items()
    for where, sql in sets_of(parts).items()
}
"""Each makes more grouping sets than are allowed."""


def doubled(expression: str) -> str:
    """A value that is put into itself, subquery by subquery."""
    return subqueries(28, expression, "SELECT x FROM ")


MULTIPLIED: Mapping[str, str] = {
    "subject of a case": f"SELECT {nested('CASE ', 'age', ' WHEN 1 THEN 2 WHEN 2 THEN 3 END', 25)} AS x FROM release",
    "subject of a case of estimates": f"SELECT {nested('CASE ', 'n', ' WHEN 1 THEN 2 WHEN 2 THEN 3 END', 25)} AS x"
    f" FROM ({GROUPED})",
    "nullif": f"SELECT {nested('nullif(', 'age', ', 1)', 30)} AS x FROM release",
    "lists of a list": f"SELECT {nested('(', 'age', ' IN (1, 2))', 30)} AS x FROM release",
    "betweens": f"SELECT {nested('(', 'age', ' NOT BETWEEN 1 AND 2)', 30)} AS x FROM release",
    "stars": "SELECT * FROM " + nested("(SELECT *, * FROM ", "(SELECT age FROM release LIMIT 1)", ")", 20),
    "stars of a table": "SELECT * FROM " + nested("(SELECT a.*, a.* FROM ", "release a", ") a", 20),
    "stars by a pattern": "SELECT * FROM "
    + nested("(SELECT COLUMNS('.*'), COLUMNS('.*') FROM ", "(SELECT age FROM release)", ")", 20),
    "function that DuckDB has otherwise": f"SELECT {nested('ceil(1, ', 'age', ')', 20)} AS x FROM release",
    "lists of lists": doubled("[x, x]"),
    "joined lists": doubled("list_concat(x, x)"),
    "structs of structs": doubled("{'a': x, 'b': x}"),
    "rows of rows": doubled("row(x, x)"),
    "maps of maps": doubled("map(['a', 'b'], [x, x])"),
    "lists side by side": doubled("list_zip([x], [x])"),
    "windows by their name": f"SELECT {', '.join(f'SUM(n) OVER w AS s{at}' for at in range(700))} FROM ({GROUPED})"
    f" WINDOW w AS (ORDER BY {'+'.join(['n'] * 100)})",
    "products of products": "SELECT n FROM " + nested("(SELECT disease, n * n AS n FROM ", f"({GROUPED})", ")", 28),
    "sums of functions of all rows": "SELECT n FROM "
    + nested("(SELECT disease, SUM(sqrt(n)) OVER () AS n FROM ", f"({GROUPED})", ")", 14),
    "products of many columns": "SELECT * FROM (SELECT "
    + ", ".join(f"CORR(age + {at}, age * {at}) AS c{at}" for at in range(2, 40))
    + " FROM release WHERE disease = 'flu')",
}  # fmt: skip
"""Each would make of a few words more than fits anywhere."""
