"""Shapes of SQL that people type at a release, and what each must give: the table in docs/sql.md is made from them.

`python tests/sql_shapes.py` writes the table anew.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

import numpy as np
import pyarrow as pa

PAGE = Path(__file__).parents[1] / "docs" / "sql.md"
BEGINS, ENDS = "<!-- shapes: written by tests/sql_shapes.py -->", "<!-- end of shapes -->"

Outcome = Literal["estimated", "exact", "refused"]


@dataclass(frozen=True)
class Shape:
    """One way to ask, and what comes of it."""

    family: str
    sql: str
    outcome: Outcome


def _shapes(family: str, outcome: Outcome, text: str) -> Iterator[Shape]:
    """One shape for each line."""
    return (Shape(family, line.strip(), outcome) for line in text.strip().splitlines())


SHAPES: tuple[Shape, ...] = (
    *_shapes(
        "counts, sums, means",
        "estimated",
        """
        SELECT COUNT(*) FROM release WHERE diagnosis = 'asthma'
        SELECT diagnosis, COUNT(*) AS n FROM release GROUP BY diagnosis ORDER BY n DESC LIMIT 3
        SELECT ward, SUM(CASE WHEN diagnosis = 'asthma' THEN 1 ELSE 0 END) AS n FROM release GROUP BY ward
        SELECT AVG(stay) FROM release WHERE diagnosis = 'injury'
        SELECT stay // 3 AS b, COUNT(*) AS n FROM release WHERE diagnosis = 'flu' GROUP BY b ORDER BY b
        SELECT diagnosis, COUNT(*) AS n FROM release GROUP BY diagnosis HAVING COUNT(*) > 200
        SELECT EXTRACT(year FROM DATE '2005-03-01') AS y, COUNT(*) FROM release WHERE diagnosis = 'flu' GROUP BY 1
        SELECT CASE WHEN diagnosis IN ('asthma', 'flu') THEN 'lung' ELSE 'other' END AS part, COUNT(*) FROM release GROUP BY 1
        """,
    ),
    *_shapes(
        "conditions",
        "estimated",
        """
        SELECT COUNT(*) FROM release WHERE diagnosis LIKE 'in%'
        SELECT COUNT(*) FROM release WHERE regexp_matches(diagnosis, '^[af]')
        SELECT COUNT(*) FROM release WHERE stay BETWEEN 3 AND 7 AND diagnosis = 'injury'
        SELECT COUNT(*) FROM release WHERE diagnosis IN (SELECT diagnosis FROM codes WHERE code = 'J45')
        SELECT COUNT(*) FROM release r WHERE EXISTS (SELECT 1 FROM codes c WHERE c.diagnosis = r.diagnosis)
        SELECT COUNT(*) FROM release r WHERE diagnosis = 'flu' AND EXISTS (SELECT 1 FROM codes c WHERE c.diagnosis = r.diagnosis)
        SELECT chapter, COUNT(*) FROM release JOIN codes USING (diagnosis) GROUP BY chapter
        """,
    ),
    *_shapes(
        "arithmetic and functions of numbers",
        "estimated",
        """
        SELECT age, ROUND(100.0 * COUNT(*) FILTER (WHERE diagnosis = 'flu') / COUNT(*), 1) AS pct FROM release GROUP BY age
        SELECT CAST(COUNT(*) AS INTEGER) FROM release WHERE diagnosis = 'flu'
        SELECT COUNT(*)::DOUBLE / 2 AS half FROM release WHERE diagnosis = 'flu'
        SELECT LN(COUNT(*) FILTER (WHERE diagnosis = 'flu') / COUNT(*) FILTER (WHERE diagnosis = 'injury')) AS l FROM release
        SELECT EXP(AVG(stay) / 10) FROM release WHERE diagnosis = 'flu'
        SELECT SQRT(COUNT(*)), ABS(COUNT(*) - 100), POWER(COUNT(*), 2) FROM release WHERE diagnosis = 'flu'
        SELECT COALESCE(AVG(stay), 0) AS a, NULLIF(COUNT(*), 0) AS b FROM release WHERE diagnosis = 'flu'
        SELECT ward, CASE WHEN COUNT(*) > 100 THEN COUNT(*) ELSE 0 END AS n FROM release WHERE diagnosis = 'flu' GROUP BY ward
        SELECT ward, COUNT(*) > 100 AS is_large, COUNT(*) AS n FROM release WHERE diagnosis = 'flu' GROUP BY ward
        """,
    ),
    *_shapes(
        "windows over groups",
        "estimated",
        """
        SELECT diagnosis, 100.0 * COUNT(*) / SUM(COUNT(*)) OVER () AS pct FROM release GROUP BY diagnosis
        SELECT ward, diagnosis, COUNT(*) / SUM(COUNT(*)) OVER (PARTITION BY ward) AS share FROM release GROUP BY ALL
        SELECT age, diagnosis, COUNT(*) AS n, RANK() OVER (PARTITION BY age ORDER BY COUNT(*) DESC) AS place FROM release GROUP BY ALL
        SELECT age, COUNT(*) AS n, SUM(COUNT(*)) OVER (ORDER BY age) AS so_far FROM release WHERE diagnosis = 'flu' GROUP BY age
        SELECT age, COUNT(*) - LAG(COUNT(*)) OVER (ORDER BY age) AS more FROM release WHERE diagnosis = 'flu' GROUP BY age
        SELECT age, AVG(COUNT(*)) OVER (ORDER BY age ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) AS smooth FROM release WHERE diagnosis = 'flu' GROUP BY age
        SELECT ward, COUNT(*) AS n, MAX(COUNT(*)) OVER () AS most FROM release WHERE diagnosis = 'flu' GROUP BY ward
        SELECT ward, COUNT(*) / FIRST_VALUE(COUNT(*)) OVER (ORDER BY ward) AS to_first FROM release WHERE diagnosis = 'flu' GROUP BY ward
        """,
    ),
    *_shapes(
        "top k per group",
        "estimated",
        """
        SELECT age, diagnosis, COUNT(*) AS n FROM release GROUP BY ALL QUALIFY ROW_NUMBER() OVER (PARTITION BY age ORDER BY n DESC) <= 2
        SELECT * FROM (SELECT ward, diagnosis, COUNT(*) AS n, ROW_NUMBER() OVER (PARTITION BY ward ORDER BY COUNT(*) DESC) AS place FROM release GROUP BY ALL) WHERE place <= 2
        WITH counts AS (SELECT ward, diagnosis, COUNT(*) AS n FROM release GROUP BY ALL), places AS (SELECT *, RANK() OVER (PARTITION BY ward ORDER BY n DESC) AS place FROM counts) SELECT * FROM places WHERE place = 1
        """,
    ),
    *_shapes(
        "subtotals",
        "estimated",
        """
        SELECT sex, diagnosis, COUNT(*) FROM release GROUP BY ROLLUP (sex, diagnosis)
        SELECT sex, ward, COUNT(*) AS n, AVG(stay) AS stay FROM release WHERE diagnosis = 'flu' GROUP BY CUBE (sex, ward)
        SELECT sex, diagnosis, COUNT(*) FROM release GROUP BY GROUPING SETS ((sex, diagnosis), (sex), ())
        SELECT sex, GROUPING(sex) AS is_total, COUNT(*) FROM release WHERE diagnosis = 'flu' GROUP BY ROLLUP (sex)
        """,
    ),
    *_shapes(
        "subqueries and WITH",
        "estimated",
        """
        WITH old AS (SELECT * FROM release WHERE age = '[60,120]') SELECT diagnosis, COUNT(*) AS n FROM old GROUP BY diagnosis
        WITH c AS (SELECT diagnosis, COUNT(*) AS n FROM release GROUP BY diagnosis) SELECT diagnosis, n FROM c WHERE n > 200
        WITH c AS (SELECT diagnosis, COUNT(*) AS n FROM release GROUP BY diagnosis) SELECT diagnosis, n / (SELECT SUM(n) FROM c) AS share FROM c
        SELECT AVG(n) FROM (SELECT age, COUNT(*) AS n FROM release WHERE diagnosis = 'flu' GROUP BY age) t
        SELECT diagnosis, COUNT(*) * 1.0 / (SELECT COUNT(*) FROM release) AS share FROM release GROUP BY diagnosis
        SELECT diagnosis, COUNT(*) FROM release GROUP BY diagnosis HAVING COUNT(*) > (SELECT COUNT(*) FROM release) / 8
        SELECT (SELECT COUNT(*) FROM release WHERE diagnosis = 'flu') AS flu, (SELECT COUNT(*) FROM release WHERE diagnosis = 'asthma') AS asthma
        WITH s AS (SELECT ward, COUNT(*) AS total FROM release GROUP BY 1) SELECT release.ward, COUNT(*) / MAX(s.total) AS share FROM release JOIN s ON s.ward = release.ward WHERE diagnosis = 'flu' GROUP BY 1
        WITH f AS (SELECT ward, COUNT(*) AS n FROM release WHERE diagnosis = 'flu' GROUP BY ward), t AS (SELECT ward, COUNT(*) AS n FROM release GROUP BY ward) SELECT f.ward, f.n / t.n AS share FROM f JOIN t USING (ward)
        SELECT COUNT(*) AS large_wards FROM (SELECT ward, COUNT(*) AS n FROM release WHERE diagnosis = 'flu' GROUP BY ward) WHERE n > 50
        """,
    ),
    *_shapes(
        "UNION ALL",
        "estimated",
        """
        SELECT COUNT(*) FROM release WHERE diagnosis = 'flu' UNION ALL SELECT COUNT(*) FROM release WHERE diagnosis = 'injury'
        SELECT 'flu' AS what, COUNT(*) AS n FROM release WHERE diagnosis = 'flu' UNION ALL SELECT 'all', COUNT(*) FROM release ORDER BY n
        """,
    ),
    *_shapes(
        "spread and association of public numbers",
        "estimated",
        """
        SELECT STDDEV(stay), VARIANCE(stay), VAR_POP(stay), STDDEV_POP(stay) FROM release WHERE diagnosis = 'flu'
        SELECT diagnosis, STDDEV(stay) FROM release GROUP BY diagnosis
        SELECT CORR(stay, drugs), COVAR_SAMP(stay, drugs), COVAR_POP(stay, drugs) FROM release WHERE diagnosis = 'flu'
        SELECT REGR_SLOPE(stay, drugs), REGR_INTERCEPT(stay, drugs), REGR_R2(stay, drugs) FROM release WHERE diagnosis = 'flu'
        """,
    ),
    *_shapes(
        "quantiles of public numbers",
        "estimated",
        """
        SELECT MEDIAN(stay) FROM release WHERE diagnosis = 'flu'
        SELECT QUANTILE_CONT(stay, 0.9) FROM release WHERE diagnosis = 'flu'
        SELECT diagnosis, QUANTILE_DISC(stay, 0.25) AS lower_quarter FROM release GROUP BY diagnosis
        SELECT PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY stay) FROM release WHERE diagnosis = 'flu'
        """,
    ),
    *_shapes(
        "no protected column",
        "exact",
        """
        SELECT DISTINCT age FROM release ORDER BY age
        SELECT MEDIAN(stay), MIN(stay), MAX(stay), STDDEV(stay) FROM release
        SELECT * FROM release LIMIT 5
        SELECT ward, sex, COUNT(*) FROM release GROUP BY ROLLUP (ward, sex)
        SELECT ward, COUNT(*) AS n FROM release GROUP BY ward QUALIFY RANK() OVER (ORDER BY n DESC) = 1
        SELECT ward, QUANTILE_CONT(stay, [0.25, 0.5, 0.75]) FROM release GROUP BY ward
        SELECT ward, LIST(DISTINCT sex) AS sexes, STRING_AGG(DISTINCT age, ', ' ORDER BY age) AS ages FROM release GROUP BY ward
        SELECT HISTOGRAM(stay) FROM release
        SELECT COUNT(*) FROM release a JOIN release b ON a.stay = b.stay AND a.ward = 'A' AND b.ward = 'B'
        SELECT sex FROM release WHERE ward = 'A' UNION SELECT sex FROM release WHERE ward = 'B'
        SELECT * EXCLUDE (drugs) FROM release ORDER BY stay LIMIT 3
        SELECT COLUMNS('s.*') FROM release LIMIT 3
        PIVOT release ON sex USING COUNT(*) GROUP BY ward
        FROM release SELECT ward, COUNT(*) GROUP BY ward
        DESCRIBE release
        SHOW TABLES
        SUMMARIZE release
        """,
    ),
    *_shapes(
        "what needs single protected rows",
        "refused",
        """
        SELECT DISTINCT diagnosis FROM release
        SELECT COUNT(DISTINCT diagnosis) FROM release
        SELECT COUNT(DISTINCT ward) FROM release WHERE diagnosis = 'flu'
        SELECT age, diagnosis FROM release LIMIT 5
        SELECT * FROM release WHERE diagnosis = 'flu'
        SELECT MIN(stay), MAX(stay) FROM release WHERE diagnosis = 'flu'
        SELECT MODE(diagnosis) FROM release
        SELECT STRING_AGG(diagnosis, ', ') FROM release
        SELECT ward, ROW_NUMBER() OVER (PARTITION BY diagnosis) FROM release
        SELECT COUNT(*) OVER (PARTITION BY diagnosis) FROM release
        SELECT ward, LAG(diagnosis) OVER (ORDER BY stay) FROM release
        SELECT COUNT(*) FROM release a JOIN release b ON a.age = b.age WHERE a.diagnosis = 'flu'
        SELECT COUNT(*) FROM release TABLESAMPLE 10% WHERE diagnosis = 'flu'
        SELECT COUNT(*) FROM (SELECT diagnosis FROM release LIMIT 10) WHERE diagnosis = 'flu'
        PIVOT release ON sex USING COUNT(*) GROUP BY diagnosis
        SELECT COUNT(*) FROM release WHERE diagnosis = 'flu' UNION SELECT COUNT(*) FROM release WHERE diagnosis = 'injury'
        """,
    ),
    *_shapes(
        "mistakes",
        "refused",
        """
        SELECT COUNT(*) FROM release WHERE diagnosis = "flu"
        SELECT COUNT(*) FROM release WHERE diagnosis = 'flue'
        SELECT COUNT(*) FROM release WHERE diagnosos = 'flu'
        SELECT COUNT(*) FROM patients WHERE diagnosis = 'flu'
        SELEC COUNT(*) FROM release
        DELETE FROM release
        SELECT COUNT(*) FROM release; SELECT COUNT(*) FROM release
        SELECT COUNT(*) FROM release WHERE stay = 'long' AND diagnosis = 'flu'
        SELECT SUM(diagnosis) FROM release
        SELECT AVG(age) FROM release
        SELECT COUNT(*) FROM read_csv('/etc/passwd')
        COPY release TO 'out.csv'
        """,
    ),
)


def table(rows: int = 3000) -> pa.Table:
    """An invented table of hospital stays."""
    chance = np.random.default_rng(5)
    diagnoses = np.array(["flu", "asthma", "injury", "diabetes", "migraine", "infarct"])
    code = chance.choice(len(diagnoses), rows, p=[0.3, 0.25, 0.15, 0.12, 0.1, 0.08])
    stay = 1 + chance.poisson(2 + code)
    return pa.table(
        {
            "age": chance.integers(0, 100, rows),
            "sex": chance.choice(["F", "M"], rows),
            "ward": chance.choice(["A", "B", "C", "D"], rows),
            "stay": stay,
            "drugs": stay + chance.poisson(3, rows),
            "diagnosis": diagnoses[code],
        }
    )


CODES: Mapping[str, list[str]] = {
    "code": ["J10", "J45", "T14", "E11", "G43", "I21"],
    "diagnosis": ["flu", "asthma", "injury", "diabetes", "migraine", "infarct"],
    "chapter": ["lung", "lung", "outside", "hormones", "nerves", "heart"],
}


def told(shape: Shape, release: object) -> tuple[Outcome, str]:
    """What comes of a shape, and what is said."""
    from sfumato.errors import QueryError  # noqa: PLC0415 - the list can be read without the package
    from sfumato.estimate.estimate import EXACT_METHOD  # noqa: PLC0415

    try:
        answer = release.sql(shape.sql, attach={"codes": pa.table(CODES)})  # type: ignore[attr-defined]
    except QueryError as error:
        return "refused", str(error)
    return ("exact" if answer.method == EXACT_METHOD else "estimated"), answer.note or ""


def open_release(folder: Path) -> object:
    """The release to ask."""
    from releases import known_key  # noqa: PLC0415
    from sfumato.outlook import Request  # noqa: PLC0415
    from sfumato.publication import publish  # noqa: PLC0415
    from sfumato.request.schema import Schema  # noqa: PLC0415
    from sfumato.request.spec import BreachBound  # noqa: PLC0415

    schema = Schema.of("diagnosis", bins={"age": [0, 20, 40, 60, 120]})
    request = Request(
        table(), schema, BreachBound("1/3", "3/4"), accept_telling=("stay", "drugs", "age", "sex", "ward")
    )
    return publish(request, folder / "release", unsafe_test_key=known_key(1)).release


def written(release: object) -> str:
    """The table of shapes, as Markdown."""
    lines = []
    for family in dict.fromkeys(shape.family for shape in SHAPES):
        lines += [f"### {family[0].upper()}{family[1:]}", "", "| query | |", "|---|---|"]
        for shape in (each for each in SHAPES if each.family == family):
            outcome, said = told(shape, release)
            words = said if outcome == "refused" else outcome
            lines.append(f"| `{_escaped(shape.sql)}` | {_escaped(words)} |")
        lines.append("")
    return "\n".join(lines)


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")


def with_table(page: str, found: str) -> str:
    """A page with the table put into its place."""
    before, _, rest = page.partition(BEGINS)
    return f"{before}{BEGINS}\n\n{found}{ENDS}{rest.partition(ENDS)[2]}"


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    with TemporaryDirectory() as made:
        opened = open_release(Path(made))
        if "--show" in sys.argv:
            for each in SHAPES:
                outcome, said = told(each, opened)
                mark = "  " if outcome == each.outcome else "!!"
                print(mark, outcome, "|", each.sql, "|", said if outcome == "refused" else "")  # noqa: T201
        else:
            PAGE.write_text(with_table(PAGE.read_text("utf-8"), written(opened)), "utf-8")
