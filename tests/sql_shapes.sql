-- What people type at a release, by families; what becomes of a family stands behind its name.

-- counts, sums, means: estimated
SELECT COUNT(*) FROM release WHERE diagnosis = 'asthma'
SELECT diagnosis, COUNT(*) AS n FROM release GROUP BY diagnosis ORDER BY n DESC LIMIT 3
SELECT ward, SUM(CASE WHEN diagnosis = 'asthma' THEN 1 ELSE 0 END) AS n FROM release GROUP BY ward
SELECT AVG(stay) FROM release WHERE diagnosis = 'injury'
SELECT stay // 3 AS b, COUNT(*) AS n FROM release WHERE diagnosis = 'flu' GROUP BY b ORDER BY b
SELECT diagnosis, COUNT(*) AS n FROM release GROUP BY diagnosis HAVING COUNT(*) > 200
SELECT EXTRACT(year FROM DATE '2005-03-01') AS y, COUNT(*) FROM release WHERE diagnosis = 'flu' GROUP BY 1
SELECT CASE WHEN diagnosis IN ('asthma', 'flu') THEN 'lung' ELSE 'other' END AS part, COUNT(*) FROM release GROUP BY 1

-- conditions: estimated
SELECT COUNT(*) FROM release WHERE diagnosis LIKE 'in%'
SELECT COUNT(*) FROM release WHERE regexp_matches(diagnosis, '^[af]')
SELECT COUNT(*) FROM release WHERE stay BETWEEN 3 AND 7 AND diagnosis = 'injury'
SELECT COUNT(*) FROM release WHERE diagnosis IN (SELECT diagnosis FROM codes WHERE code = 'J45')
SELECT COUNT(*) FROM release r WHERE NOT EXISTS (SELECT 1 FROM codes c WHERE c.diagnosis = r.diagnosis AND c.chapter = 'lung')
SELECT COUNT(*) FROM release r WHERE diagnosis = 'flu' AND EXISTS (SELECT 1 FROM codes c WHERE c.diagnosis = r.diagnosis)
SELECT chapter, COUNT(*) FROM release JOIN codes USING (diagnosis) GROUP BY chapter

-- arithmetic and functions of numbers: estimated
SELECT age, ROUND(100.0 * COUNT(*) FILTER (WHERE diagnosis = 'flu') / COUNT(*), 1) AS pct FROM release GROUP BY age
SELECT CAST(COUNT(*) AS INTEGER) FROM release WHERE diagnosis = 'flu'
SELECT COUNT(*)::DOUBLE / 2 AS half FROM release WHERE diagnosis = 'flu'
SELECT LN(COUNT(*) FILTER (WHERE diagnosis = 'flu') / COUNT(*) FILTER (WHERE diagnosis = 'injury')) AS l FROM release
SELECT EXP(AVG(stay) / 10) FROM release WHERE diagnosis = 'flu'
SELECT SQRT(COUNT(*)), ABS(COUNT(*) - 100), POWER(COUNT(*), 2) FROM release WHERE diagnosis = 'flu'
SELECT COALESCE(AVG(stay), 0) AS a, NULLIF(COUNT(*), 0) AS b FROM release WHERE diagnosis = 'flu'
SELECT ward, CASE WHEN COUNT(*) > 100 THEN COUNT(*) ELSE 0 END AS n FROM release WHERE diagnosis = 'flu' GROUP BY ward
SELECT ward, COUNT(*) > 100 AS is_large, COUNT(*) AS n FROM release WHERE diagnosis = 'flu' GROUP BY ward

-- windows over groups: estimated
SELECT diagnosis, 100.0 * COUNT(*) / SUM(COUNT(*)) OVER () AS pct FROM release GROUP BY diagnosis
SELECT ward, diagnosis, COUNT(*) / SUM(COUNT(*)) OVER (PARTITION BY ward) AS share FROM release GROUP BY ALL
SELECT age, diagnosis, COUNT(*) AS n, RANK() OVER (PARTITION BY age ORDER BY COUNT(*) DESC) AS place FROM release GROUP BY ALL
SELECT age, COUNT(*) AS n, SUM(COUNT(*)) OVER (ORDER BY age) AS so_far FROM release WHERE diagnosis = 'flu' GROUP BY age
SELECT age, COUNT(*) - LAG(COUNT(*)) OVER (ORDER BY age) AS more FROM release WHERE diagnosis = 'flu' GROUP BY age
SELECT age, AVG(COUNT(*)) OVER (ORDER BY age ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) AS smooth FROM release WHERE diagnosis = 'flu' GROUP BY age
SELECT ward, COUNT(*) AS n, MAX(COUNT(*)) OVER () AS most FROM release WHERE diagnosis = 'flu' GROUP BY ward
SELECT ward, COUNT(*) / FIRST_VALUE(COUNT(*)) OVER (ORDER BY ward) AS to_first FROM release WHERE diagnosis = 'flu' GROUP BY ward

-- top k per group: estimated
SELECT age, diagnosis, COUNT(*) AS n FROM release GROUP BY ALL QUALIFY ROW_NUMBER() OVER (PARTITION BY age ORDER BY n DESC) <= 2
SELECT * FROM (SELECT ward, diagnosis, COUNT(*) AS n, ROW_NUMBER() OVER (PARTITION BY ward ORDER BY COUNT(*) DESC) AS place FROM release GROUP BY ALL) WHERE place <= 2
WITH counts AS (SELECT ward, diagnosis, COUNT(*) AS n FROM release GROUP BY ALL), places AS (SELECT *, RANK() OVER (PARTITION BY ward ORDER BY n DESC) AS place FROM counts) SELECT * FROM places WHERE place = 1

-- subtotals: estimated
SELECT sex, diagnosis, COUNT(*) FROM release GROUP BY ROLLUP (sex, diagnosis)
SELECT sex, ward, COUNT(*) AS n, AVG(stay) AS stay FROM release WHERE diagnosis = 'flu' GROUP BY CUBE (sex, ward)
SELECT sex, diagnosis, COUNT(*) FROM release GROUP BY GROUPING SETS ((sex, diagnosis), (sex), ())
SELECT sex, GROUPING(sex) AS is_total, COUNT(*) FROM release WHERE diagnosis = 'flu' GROUP BY ROLLUP (sex)

-- subqueries and WITH: estimated
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

-- UNION ALL: estimated
SELECT COUNT(*) FROM release WHERE diagnosis = 'flu' UNION ALL SELECT COUNT(*) FROM release WHERE diagnosis = 'injury'
SELECT 'flu' AS what, COUNT(*) AS n FROM release WHERE diagnosis = 'flu' UNION ALL SELECT 'all', COUNT(*) FROM release ORDER BY n

-- spread and association of public numbers: estimated
SELECT STDDEV(stay), VARIANCE(stay), VAR_POP(stay), STDDEV_POP(stay) FROM release WHERE diagnosis = 'flu'
SELECT diagnosis, STDDEV(stay) FROM release GROUP BY diagnosis
SELECT CORR(stay, drugs), COVAR_SAMP(stay, drugs), COVAR_POP(stay, drugs) FROM release WHERE diagnosis = 'flu'
SELECT REGR_SLOPE(stay, drugs), REGR_INTERCEPT(stay, drugs), REGR_R2(stay, drugs) FROM release WHERE diagnosis = 'flu'

-- quantiles of public numbers: estimated
SELECT MEDIAN(stay) FROM release WHERE diagnosis = 'flu'
SELECT QUANTILE_CONT(stay, 0.9) FROM release WHERE diagnosis = 'flu'
SELECT diagnosis, QUANTILE_DISC(stay, 0.25) AS lower_quarter FROM release GROUP BY diagnosis
SELECT PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY stay) FROM release WHERE diagnosis = 'flu'

-- no protected column: exact
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
FROM release SELECT ward, COUNT(*) GROUP BY ward
DESCRIBE release
SHOW TABLES
SUMMARIZE release

-- what needs single protected rows: refused
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

-- mistakes: refused
SELECT COUNT(*) FROM release WHERE diagnosis = "flu"
SELECT COUNT(*) FROM release WHERE diagnosis = 'flue'
SELECT COUNT(*) FROM release WHERE age = '20-39' AND diagnosis = 'flu'
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
