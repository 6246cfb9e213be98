"""What cannot be answered: each is refused with a sentence that says why, and what to ask instead."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hospitals import Published
from releases import people, published
from sfumato._records import tally as tallying
from sfumato.errors import QueryError

ONE_SELECT = r"^ask one SELECT, such as SELECT COUNT\(\*\) FROM release WHERE age > 30\.$"
ATTACH = r"SELECT \.\.\. FROM release \.\.\. Attach a table of your own first: `attach=\{'domain': 'FILE'\}`\.$"
TABLES = r"^use only the tables release: SELECT \.\.\. FROM release \.\.\.$"
NO_TABLE = r"^name the table to count: SELECT \.\.\. FROM release \.\.\.$"
CONSTRUCT = r" cannot be answered: use comparisons, AND, OR, NOT, IN, BETWEEN, LIKE, and functions of strings"
PROTECTED = r"^the 'disease' of single rows is protected, so it cannot be selected; count it instead, with GROUP BY"
UNKNOWN = (
    r"^the release has no column '{}'; it has 'age', 'Sex', 'home town', 'admitted', 'smoker', 'weight', 'disease'\.$"
)
UNFIT = (
    r"^(?!.*Error)(the columns of the release do not support this query as written; |'\w+' is (not|neither) a|"
    r"[A-Z]+ does not accept (a|nothing)|there is no column '|a string and a number cannot be compared)"
)
NO_VALUE = r"^no value of 'disease' satisfies the condition; (its|did you mean 'flu'\? Its) values are 'HIV', "
UNREADABLE = r"^this SQL cannot be parsed: "
SAME_NAME = r"^two columns of the answer have the same name; rename one with AS\.$"
NOT_ESTIMATED = r" cannot be estimated with a known error, because single records decide it; (ask for|count its values)"
SAMPLED = r"^a sample would only make the error larger; leave it out to count all records"
NO_ARITHMETIC = r" cannot be computed from estimates: use \+ - \* / of COUNT, SUM, AVG and numbers"
SINGLE_ROWS = (
    r"^'disease' is protected, so single rows can be neither shown with it nor chosen by it; count them instead: "
    r"SELECT disease, COUNT\(\*\) FROM release GROUP BY disease\.$"
)
COMPARED = r"^a condition on single records cannot compare with an estimate; ask for the estimate first and write it as"
OF_ESTIMATES = r" of estimates would measure their errors more than the groups; use SUM, AVG, COUNT, MIN and MAX of "
FUNCTION = r" of an estimate has no known error; use \+ - \* /, ROUND, CAST to a number, LN, LOG, EXP, SQRT, ABS, POWER"
DISTINCT = r" cannot be answered: a release gives frequencies, but not which values occur; count them with GROUP BY\."
SUBQUERY = r"^a subquery cannot use 'disease', because it is estimated, not known; use it in WHERE"
ALONE = r"^a subquery runs on its own, so it cannot use a column of the outer release; join the table instead\.$"
FILTERS = (
    r"^a subquery over release with sensitive columns may only filter records and select columns; aggregate, order"
)
TWICE = r"^the join counts some records several times, which the error bars do not allow for; join a table in"

REFUSED_QUERIES = {
    "": ONE_SELECT,
    ";": ONE_SELECT,
    "-- nothing": ONE_SELECT,
    "SELECT COUNT(*) FROM release; SELECT COUNT(*) FROM release": ONE_SELECT,
    "VALUES (1)": ONE_SELECT,
    "EXPLAIN SELECT COUNT(*) FROM release": ONE_SELECT,
    "SELECT COUNT(*) FROM release WHERE Sex = '\0'": ONE_SELECT,
    "SELECT COUNT(*)": NO_TABLE,
    "SELECT COUNT(*) FROM domain": ATTACH,
    "SELECT COUNT(*) FROM domain WHERE disease = 'flu'": ATTACH,
    "SELECT COUNT(*) FROM release JOIN domain ON value = disease": ATTACH,
    "SELECT COUNT(*) FROM 'data.parquet' WHERE disease = 'flu'": TABLES,
    "SELECT COUNT(*) FROM main.release": TABLES,
    "SELECT COUNT(*) FROM main.release WHERE disease = 'flu'": TABLES,
    "SELECT COUNT(*) FROM release AS r(a, b) WHERE disease = 'flu'": TABLES,
    "SELECT COUNT(*) FROM release TABLESAMPLE 10%": SAMPLED,
    "SELECT COUNT(*) FROM release PIVOT (COUNT(*) FOR Sex IN ('F'))": CONSTRUCT,
    "SELECT COUNT(*) FROM release AT (VERSION => 1)": CONSTRUCT,
    "SELECT COUNT(*) FROM release USING SAMPLE 5": SAMPLED,
    "SELECT COUNT(*) INTO other FROM release": CONSTRUCT,
    "SELECT COUNT(*) FROM release GROUP BY random()": CONSTRUCT,
    "SELECT DISTINCT disease FROM release": SINGLE_ROWS,
    "SELECT Sex, COUNT(*) FROM release": UNFIT,
    "SELECT FROM release": UNFIT,
    "SELECT COUNT(*, age) FROM release": UNFIT,
    "SELECT COUNT(* EXCLUDE (age)) FROM release": UNFIT,
    "SELECT Sex, COUNT(*) FROM release WHERE disease = 'flu'": r"^'Sex' is neither an aggregate nor a group; add it",
    "SELECT * FROM release WHERE disease = 'flu'": SINGLE_ROWS,
    "SELECT age FROM release WHERE disease = 'flu'": SINGLE_ROWS,
    "SELECT UPPER(disease), COUNT(*) FROM release": PROTECTED,
    "SELECT disease FROM release": SINGLE_ROWS,
    "SELECT disease FROM release LIMIT 1": SINGLE_ROWS,
    "SELECT age, disease FROM release GROUP BY age": PROTECTED,
    "SELECT disease, ROW_NUMBER() OVER () FROM release": SINGLE_ROWS,
    "SELECT COUNT(*) FROM release WHERE disease = 'flu' GROUP BY Sex ORDER BY disease": PROTECTED,
    "SELECT COUNT(*) FROM release GROUP BY Sex HAVING disease = 'flu'": PROTECTED,
    "SELECT ROW_NUMBER() OVER (ORDER BY disease) FROM release": SINGLE_ROWS,
    "SELECT SUM(age) OVER (PARTITION BY disease) FROM release": SINGLE_ROWS,
    "SELECT COUNT(DISTINCT disease) FROM release": DISTINCT,
    "SELECT COUNT(DISTINCT age) FROM release WHERE disease = 'flu'": DISTINCT,
    "SELECT SUM(DISTINCT age) FROM release WHERE disease = 'flu'": DISTINCT,
    "SELECT MIN(disease) FROM release": NOT_ESTIMATED,
    "SELECT MAX(disease) FROM release": NOT_ESTIMATED,
    "SELECT MEDIAN(disease) FROM release": r"^quantiles are only available for public numbers; count the prot",
    "SELECT MEDIAN(age) + 2 * AVG(age) FROM release WHERE disease = 'flu'": r"^a median or quantile can be scaled, rou",
    "SELECT QUANTILE_CONT(age, 2) FROM release WHERE disease = 'flu'": r"^a quantile needs one number from 0 to 1, suc",
    "SELECT QUANTILE_CONT(age, [0.1, 0.9]) FROM release WHERE disease = 'flu'": r"^a quantile needs one number from 0",
    "SELECT MODE(disease) FROM release": NOT_ESTIMATED,
    "SELECT LIST(disease) FROM release": NOT_ESTIMATED,
    "SELECT STRING_AGG(disease, ',') FROM release": NOT_ESTIMATED,
    "SELECT FIRST(disease) FROM release": NOT_ESTIMATED,
    "SELECT ANY_VALUE(disease) FROM release": NOT_ESTIMATED,
    "SELECT MEDIAN(Sex) FROM release WHERE disease = 'flu'": UNFIT,
    "SELECT STDDEV(Sex) FROM release WHERE disease = 'flu'": UNFIT,
    "SELECT KURTOSIS(age) FROM release WHERE disease = 'flu'": NOT_ESTIMATED,
    "SELECT SUM(disease) FROM release": UNFIT,
    "SELECT SUM(age || disease) FROM release": r"mixes public and sensitive columns; write it as a product, as SUM",
    "SELECT (SELECT COUNT(*) FROM release) FROM release WHERE disease = 'flu'": SINGLE_ROWS,
    "SELECT COUNT(*) FROM release WHERE age > (SELECT COUNT(*) FROM release WHERE disease = 'flu')": COMPARED,
    "SELECT COUNT(*) FROM release WHERE disease IN (SELECT disease FROM release)": SINGLE_ROWS,
    "SELECT COUNT(*) FROM release WHERE EXISTS (SELECT 1 FROM release AS r WHERE r.disease = 'flu')": SUBQUERY,
    "SELECT COUNT(*) FROM release WHERE EXISTS (SELECT 1 FROM tiny WHERE tiny.a = release.disease)": UNFIT,
    "SELECT COUNT(*) FROM release JOIN (SELECT a FROM tiny WHERE a = release.disease) AS s ON TRUE": ALONE,
    "SELECT COUNT(*) FROM release WHERE EXISTS (SELECT 1 FROM tiny WHERE a = disease) AND disease = 'flu'": UNFIT,
    "WITH w AS (SELECT disease FROM release LIMIT 3) SELECT COUNT(*) FROM w WHERE disease = 'flu'": SINGLE_ROWS,
    "WITH w AS (SELECT DISTINCT disease FROM release) SELECT COUNT(*) FROM w": SINGLE_ROWS,
    "WITH release AS (SELECT 1 AS a) SELECT COUNT(*) FROM release": r"^'release' is the release; give the common table",
    "WITH RECURSIVE w AS (SELECT 1 AS a UNION ALL SELECT a + 1 FROM w) SELECT COUNT(*) FROM w": r"^a recursive WITH",
    "WITH w(a) AS (SELECT age FROM release) SELECT COUNT(*) FROM w": r"^name the columns of a common table expression",
    "SELECT COUNT(*) FROM release, release WHERE disease = 'flu'": r"^release is joined to itself, which would count",
    "SELECT COUNT(*) FROM release JOIN release AS r ON TRUE WHERE disease = 'flu'": r"^release is joined to itself",
    "SELECT COUNT(*) FROM release, tiny WHERE disease = 'flu'": TWICE,
    "SELECT COUNT(*) FROM release JOIN tiny ON age > a WHERE disease = 'flu'": TWICE,
    "SELECT COUNT(*) FROM release JOIN twice ON disease = word": r"^the join gives some values of the sensitive colum",
    "SELECT COUNT(*) FROM release RIGHT JOIN tiny ON age = a WHERE disease = 'flu'": r"^RIGHT JOIN cannot be answered",
    "SELECT COUNT(*) FROM release FULL JOIN tiny ON age = a WHERE disease = 'flu'": r"^FULL JOIN cannot be answered",
    "SELECT COUNT(*) FROM release SEMI JOIN tiny ON age = a WHERE disease = 'flu'": r"^SEMI JOIN cannot be answered",
    "SELECT COUNT(*) FROM release NATURAL JOIN tiny WHERE disease = 'flu'": r"^NATURAL JOIN cannot be answered",
    "SELECT COUNT(*) FROM release JOIN twice ON disease = word AND age = b": r"^a join uses 'disease' together with p",
    "SELECT COUNT(*) FROM release JOIN tiny USING (nothing) WHERE disease = 'flu'": r"^USING names 'nothing', which is",
    "SELECT COUNT(*) FROM tiny JOIN release ON age = a WHERE disease = 'flu'": r"^begin with the release: FROM releas",
    "SELECT COUNT(*) FROM release JOIN (SELECT 1 AS a) ON TRUE WHERE disease = 'flu'": r"^a joined subquery needs",
    "SELECT LAG(disease) OVER (ORDER BY age) FROM release": SINGLE_ROWS,
    "SELECT age, COUNT(*) OVER (PARTITION BY disease) FROM release": SINGLE_ROWS,
    "SELECT Sex, MAX(disease) OVER () FROM release GROUP BY Sex": PROTECTED,
    "SELECT Sex, LAG(disease) OVER (ORDER BY Sex) FROM release GROUP BY Sex": PROTECTED,
    "SELECT Sex, SUM(COUNT(*)) OVER (ORDER BY disease) FROM release GROUP BY Sex": PROTECTED,
    "SELECT Sex, COUNT(*) FROM release GROUP BY Sex QUALIFY disease = 'flu'": PROTECTED,
    "SELECT Sex, SUM(COUNT(*)) OVER (ORDER BY random()) FROM release GROUP BY Sex, disease": CONSTRUCT,
    "SELECT Sex, SUM(COUNT(*)) OVER w FROM release GROUP BY Sex, disease": r"^there is no window 'w'; define it: WINDO",
    "SELECT COUNT(*)::VARCHAR FROM release WHERE disease = 'flu'": FUNCTION,
    "SELECT COUNT(*) || ' people' FROM release WHERE disease = 'flu'": FUNCTION,
    "SELECT SIN(COUNT(*)) FROM release WHERE disease = 'flu'": CONSTRUCT,
    "SELECT STRFTIME(admitted, '%Y') || COUNT(*) FROM release WHERE disease = 'flu' GROUP BY 1": r"aggregate",
    "SELECT POWER(2, COUNT(*)) FROM release WHERE disease = 'flu'": FUNCTION,
    "SELECT COUNT(*) + 'one' FROM release WHERE disease = 'flu'": r"^an estimate can be combined with numbers only",
    "SELECT STDDEV(n) FROM (SELECT disease, COUNT(*) AS n FROM release GROUP BY disease)": OF_ESTIMATES,
    "SELECT LIST(n) FROM (SELECT disease, COUNT(*) AS n FROM release GROUP BY disease)": OF_ESTIMATES,
    "SELECT COUNT(DISTINCT n) FROM (SELECT disease, COUNT(*) AS n FROM release GROUP BY disease)": r"^DISTINCT does no",
    "SELECT DISTINCT COUNT(*) FROM release GROUP BY disease": r"^SELECT DISTINCT does not work on estimates: equal",
    "SELECT n, COUNT(*) AS m FROM (SELECT disease, COUNT(*) AS n FROM release GROUP BY disease) GROUP BY n": r"^group ",
    "SELECT m FROM (SELECT disease, COUNT(*) AS n FROM release GROUP BY disease)": r"^there is no column 'm'; it has '",
    "SELECT t.n FROM (SELECT disease, COUNT(*) AS n FROM release GROUP BY disease) AS s": r"^there is no table 't'; th",
    "SELECT disease, SUM(n) FROM (SELECT disease, COUNT(*) AS n FROM release GROUP BY disease)": r"^'disease' is neith",
    "SELECT COUNT(*) FROM release WHERE disease = 'flu' UNION SELECT 1": r"^UNION removes equal rows, but equal estim",
    "SELECT COUNT(*) FROM release WHERE disease = 'flu' EXCEPT SELECT 1": r"^only UNION ALL can combine queries of es",
    "SELECT COUNT(*) FROM release WHERE disease = 'flu' UNION ALL SELECT 1, 2": r"^the parts of a UNION ALL must have ",
    "SELECT COUNT(*) FROM release WHERE disease = 'flu' UNION ALL SELECT 'a'": r"^the parts of a UNION ALL must have n",
    "SELECT COUNT(*) + (SELECT disease FROM release) FROM release WHERE disease = 'flu'": SINGLE_ROWS,
    "SELECT COUNT(*) + (SELECT COUNT(*) FROM release GROUP BY disease) FROM release": r"^a subquery in an expression m",
    "SELECT Sex AS n, COUNT(*) FROM release GROUP BY Sex": SAME_NAME,
    "SELECT Sex AS n_low, COUNT(*) FROM release GROUP BY Sex": SAME_NAME,
    "SELECT disease AS n, COUNT(*) FROM release GROUP BY disease": SAME_NAME,
    "SELECT disease AS n_note, COUNT(*) FROM release GROUP BY disease": SAME_NAME,
    "SELECT COUNT(*), COUNT(*) FROM release WHERE disease = 'flu'": SAME_NAME,
    "SELECT COUNT(*) FROM release WHERE disease = 'flu' GROUP BY 7": r"^group by columns of the release, by their nam",
    "SELECT COUNT(*) FROM release WHERE disease = 'flu' GROUP BY 1": r"^group by columns, not by an aggregate; use HAV",
    "SELECT COUNT(*) AS c FROM release WHERE disease = 'flu' GROUP BY c": r"^group by columns, not by an aggregate; u",
    "SELECT COUNT(*) FROM release GROUP BY Sex || disease": r"^group by 'disease' and by public columns separately",
    "SELECT COUNT(*) FROM release WHERE disease = 'flu' ORDER BY 2": r"^ORDER BY 2 names no column of the answer\.$",
    "SELECT COUNT(*) FROM release WHERE disease = 'flu' LIMIT 1 + 1": r"^LIMIT needs a whole number\.$",
    "SELECT COUNT(*) FROM release GROUP BY town": UNKNOWN.format("town"),
    "SELECT COUNT(*) FROM release WHERE": UNREADABLE,
    "SELECT COUNT(*) FROM release WHERE Sex = 'F": UNREADABLE,
    "SELECT COUNT(* FROM release": UNREADABLE,
    "SELEC COUNT(*) FROM release": UNREADABLE,
    "how many women have the flu?": UNREADABLE,
}

REFUSED_CONDITIONS = {
    "random() < 0.5": CONSTRUCT,
    "CURRENT_DATE > admitted": CONSTRUCT,
    "NOW() > admitted": CONSTRUCT,
    "uuid() = Sex": CONSTRUCT,
    "Sex = ?": CONSTRUCT,
    "Sex = $1": CONSTRUCT,
    "len(range(age)) > 3": CONSTRUCT,
    "repeat(Sex, 1000000000) = ''": CONSTRUCT,
    "CAST(age AS no_such_type) = 1": CONSTRUCT,
    "disease = 'flu' AND COUNT(*) > 1": CONSTRUCT,
    "disease = 'flu' AND ROW_NUMBER() OVER () = 1": CONSTRUCT,
    "COUNT(*) > 1": UNFIT,
    "ROW_NUMBER() OVER () = 1": UNFIT,
    "town = 'Aix'": UNKNOWN.format("town"),
    "town = 'Aix' AND disease = 'flu'": UNKNOWN.format("town"),
    'Sex = "F"': UNKNOWN.format("F")[:-1] + r" A string stands in single quotes: 'F'\.$",
    "wieght > 50": r"^the release has no column 'wieght'; did you mean 'weight'\? It has 'age', 'Sex', 'home town', ",
    "rowid = 1": UNKNOWN.format("rowid"),
    "filename = 'data.parquet'": UNKNOWN.format("filename"),
    "other.age = 1": r"^there is no table 'other'; there is release\.$",
    "age > 30 GROUP BY Sex": r"^a condition cannot contain GROUP BY, ORDER BY or LIMIT; use a whole query for these\.$",
    "age > 30 LIMIT 1": r"^a condition cannot contain GROUP BY",
    "age > 30; DROP VIEW release": ONE_SELECT,
    "age > 30) OR (disease = 'flu'": UNREADABLE,
    "age > 30 ESCAPE": UNREADABLE,
    "Sex > 30": UNFIT,
    "YEAR(Sex) = 3": UNFIT,
    "disease = 'plague'": NO_VALUE,
    "disease = 'Flu'": NO_VALUE,
    "disease = NULL": NO_VALUE,
    "disease = 'flu' AND disease = 'cold'": NO_VALUE,
}

TABLES_BESIDE = {
    "tiny": pa.table({"a": [1, 2]}),
    "twice": pa.table({"word": ["flu", "flu"], "b": [1, 2]}),
}


@pytest.mark.parametrize(("sql", "sentence"), [pytest.param(*each, id=each[0]) for each in REFUSED_QUERIES.items()])
def test_query_that_cannot_be_answered_is_refused(hospital_release: Published, sql: str, sentence: str) -> None:
    named = {name: table for name, table in TABLES_BESIDE.items() if name in sql}
    with pytest.raises(QueryError, match=sentence):
        hospital_release.release.sql(sql, attach=named)


@pytest.mark.parametrize(
    ("where", "sentence"), [pytest.param(*each, id=each[0]) for each in REFUSED_CONDITIONS.items()]
)
def test_condition_that_cannot_be_answered_is_refused(hospital_release: Published, where: str, sentence: str) -> None:
    with pytest.raises(QueryError, match=sentence):
        hospital_release.release.count(where=where)


@pytest.mark.parametrize("value", ["plague", 3, True, "(missing)", float("nan")])
def test_value_outside_the_domain_cannot_be_counted(hospital_release: Published, value: Any) -> None:
    with pytest.raises(
        QueryError, match=r"^'disease' has no value '.+'(; it has 'HIV', |: .* None stands for a missing value)"
    ):
        hospital_release.release.count(value)


def test_missing_value_cannot_be_counted_where_none_can_be_missing(tmp_path: Path) -> None:
    with pytest.raises(QueryError, match=r"^'disease' has no value '\(missing\)'; it has 'HIV', "):
        published(people(), tmp_path / "release").count(None)


def test_too_many_groups_are_refused(hospital_release: Published, monkeypatch: pytest.MonkeyPatch) -> None:
    sql = "SELECT Sex, COUNT(*) FROM release WHERE disease = 'flu' GROUP BY Sex"
    cells = 3 * 6  # groups times values
    monkeypatch.setattr(tallying, "MOST_CELLS", cells)
    assert len(hospital_release.release.sql(sql).rows) == 3
    monkeypatch.setattr(tallying, "MOST_CELLS", cells - 1)
    with pytest.raises(QueryError, match=r"^the query makes too many groups; group by fewer or coarser columns\.$"):
        hospital_release.release.sql(sql)


def test_rows_of_public_columns_without_a_limit_are_refused_if_they_are_too_many(
    hospital_release: Published, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sfumato._query.public_answers.MOST_ROWS", 100)
    with pytest.raises(QueryError, match=r"^the answer has more than 100 rows; add LIMIT, or group by coarser columns"):
        hospital_release.release.sql("SELECT age FROM release")
    assert len(hospital_release.release.sql("SELECT age FROM release LIMIT 100").rows) == 100


def test_conditions_that_tell_too_many_values_apart_are_refused(tmp_path: Path) -> None:
    names = [f"d{number:03}" for number in range(300)]
    table = pa.table({"word": [names[-1], names[0]] * 600, "disease": names * 4})
    release = published(table, tmp_path / "release")
    with pytest.raises(QueryError, match=r"^the conditions distinguish more than 240 values or groups of values"):
        release.count(where="disease = word")
    assert release.count(where="disease >= 'd150' OR word = 'd000'").standard_error
