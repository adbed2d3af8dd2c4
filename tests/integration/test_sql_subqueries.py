"""Subqueries, set operations, rewritten joins and split aggregates give DuckDB's rows. One job runs many queries."""

from __future__ import annotations

from collections import Counter
from typing import Any

import duckdb
import pytest

from flinkpy.table.environment_settings import EnvironmentSettings
from flinkpy.table.table_environment import TableEnvironment
from tests.integration.test_sql_against_duckdb import TABLES, rows

QUERIES = [
    "SELECT a FROM t INTERSECT ALL SELECT x FROM u",
    "SELECT a FROM t EXCEPT ALL SELECT x FROM u",
    "SELECT c FROM t INTERSECT ALL SELECT z FROM u",
    "SELECT c FROM t EXCEPT ALL SELECT z FROM u",
    "SELECT a FROM t UNION SELECT x FROM u",
    "SELECT a, c FROM t UNION ALL SELECT x, z FROM u",
    "SELECT a FROM t UNION ALL SELECT x FROM u EXCEPT SELECT b FROM t",
    "SELECT c FROM t WHERE a = 1 EXCEPT SELECT z FROM u WHERE x = 1",
    "SELECT a, b FROM t WHERE a IN (SELECT x FROM u)",
    "SELECT a, b FROM t WHERE a NOT IN (SELECT x FROM u WHERE x > 100)",
    "SELECT a, b FROM t WHERE (a, c) IN (SELECT x, z FROM u)",
    "SELECT a, b FROM t WHERE (a, c) NOT IN (SELECT x, z FROM u)",
    "SELECT a, b FROM t WHERE a NOT IN (SELECT x FROM u WHERE z = c)",
    "SELECT a, b FROM t WHERE a IN (SELECT x FROM u WHERE z = c) OR b = 25",
    "SELECT a, b, a IN (SELECT x FROM u) FROM t",
    "SELECT a, b, a NOT IN (SELECT x FROM u) FROM t",
    "SELECT a, b, a NOT IN (SELECT x FROM u WHERE x IS NOT NULL) FROM t",
    "SELECT a, b, a IN (SELECT x FROM u WHERE x > 100) FROM t",
    "SELECT b, b IN (SELECT y FROM u) FROM t",
    "SELECT a, b FROM t WHERE NOT (a IN (SELECT x FROM u) AND b > 10)",
    "SELECT a, b FROM t WHERE a NOT IN (SELECT x FROM u) OR b > 20",
    "SELECT a, b FROM t WHERE (a IN (SELECT x FROM u)) IS NULL",
    "SELECT CASE WHEN a IN (SELECT x FROM u) THEN 'in' ELSE 'out' END, b FROM t",
    "SELECT a, b, EXISTS (SELECT 1 FROM u WHERE x = a) FROM t",
    "SELECT a, b, NOT EXISTS (SELECT 1 FROM u WHERE x = a AND y > b) FROM t",
    (
        "SELECT a, b FROM t WHERE EXISTS (SELECT 1 FROM u WHERE x = a) AND NOT EXISTS (SELECT 1 FROM u WHERE z = c "
        "AND y > 20)"
    ),
    "SELECT a, b FROM t WHERE EXISTS (SELECT 1 FROM u WHERE y > b)",
    "SELECT a, b FROM t WHERE EXISTS (SELECT 1 FROM u)",
    "SELECT a, b FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE y > 1000)",
    "SELECT a, b FROM t WHERE EXISTS (SELECT COUNT(*) FROM u WHERE x = a)",
    "SELECT a, b FROM t WHERE EXISTS (SELECT z FROM u WHERE x = a GROUP BY z HAVING COUNT(*) > 1)",
    "SELECT a, b FROM t WHERE b > 8 AND (EXISTS (SELECT 1 FROM u WHERE x = a) OR c = 'y')",
    "SELECT a, (SELECT MAX(y) FROM u WHERE x = a) FROM t",
    "SELECT a, (SELECT MAX(y) FROM u) FROM t",
    "SELECT a, (SELECT COUNT(*) + 1 FROM u WHERE x = a) FROM t",
    "SELECT a, (SELECT COUNT(*) FROM u WHERE x > a) FROM t",
    "SELECT a, (SELECT MAX(y) FROM u WHERE y < b) FROM t",
    "SELECT a, (SELECT y FROM u WHERE y = 30) FROM t",
    "SELECT a, (SELECT COALESCE(SUM(y), 0) FROM u WHERE x = a) FROM t",
    "SELECT a, (SELECT SUM(y) * 2 FROM u WHERE x = a AND z = c) FROM t",
    "SELECT a, b FROM t WHERE b = (SELECT MAX(b) FROM t AS t2 WHERE t2.c = t.c)",
    "SELECT a, b FROM t WHERE b > (SELECT AVG(y) FROM u)",
    "SELECT a, b FROM t WHERE b < (SELECT MAX(y) FROM u WHERE x = a) OR a = 3",
    "SELECT c, SUM(b) FROM t GROUP BY c HAVING SUM(b) > (SELECT AVG(y) FROM u)",
    "SELECT c, (SELECT COUNT(*) FROM u WHERE z = c) FROM t GROUP BY c",
    "SELECT a, (SELECT MIN(y) FROM u WHERE x = a) + (SELECT MAX(y) FROM u WHERE x = a) FROM t",
    "SELECT a, b FROM t WHERE (SELECT COUNT(*) FROM u WHERE x = a) = 0",
    "SELECT a, b FROM t WHERE (SELECT COUNT(*) FROM u WHERE x = a) > 1",
    "SELECT a, (SELECT COUNT(DISTINCT z) FROM u WHERE x = a) FROM t",
    "SELECT a, b FROM t WHERE b > ALL (SELECT y FROM u WHERE x = a)",
    "SELECT a, b FROM t WHERE b > ANY (SELECT y FROM u WHERE x = a)",
    "SELECT a, b FROM t WHERE b >= ALL (SELECT y FROM u WHERE z = 'q')",
    "SELECT a, b FROM t WHERE a = ANY (SELECT x FROM u)",
    "SELECT a, b FROM t WHERE a <> ALL (SELECT x FROM u WHERE x IS NOT NULL)",
    "SELECT a, b, b > ANY (SELECT y FROM u WHERE x = a) FROM t",
    "SELECT a, b, b > ALL (SELECT y FROM u) FROM t",
    "SELECT a FROM t WHERE a IN (SELECT x FROM u WHERE y > (SELECT MIN(b) FROM t))",
    (
        "SELECT a FROM t WHERE EXISTS (SELECT 1 FROM u WHERE x = a AND EXISTS (SELECT 1 FROM t AS t3 WHERE t3.b > "
        "y AND t3.c = t.c))"
    ),
    "SELECT a, b FROM t WHERE a IN (SELECT x FROM u WHERE z IN (SELECT c FROM t WHERE b > 10))",
    "SELECT a FROM (SELECT a, b FROM t WHERE b > (SELECT MIN(y) FROM u)) WHERE a IN (SELECT x FROM u)",
    "SELECT a, b, y FROM t JOIN u ON (a = x AND b > y) OR (a = x AND c = z)",
    "SELECT a, b, y FROM t, u WHERE (a = x AND c = 'x' AND y > 20) OR (a = x AND c = 'y' AND y < 20)",
    "SELECT a, b, y FROM t LEFT JOIN u ON a = x AND b > 10",
    "SELECT a, b, y FROM t LEFT JOIN u ON a = x WHERE y IS NULL",
    "SELECT a, b, y FROM t LEFT JOIN u ON a = x WHERE y > 10",
    "SELECT a, b, y FROM t RIGHT JOIN u ON a = x AND y > 10",
    "SELECT a, b, y FROM t FULL JOIN u ON a = x WHERE a = 2 OR y = 1",
    "SELECT a, b, y FROM t CROSS JOIN u WHERE b = y + 1",
    "SELECT t.a, t2.b, y FROM t, t AS t2, u WHERE t.a = x AND t2.a = t.a AND t2.c = z",
    "SELECT t.a, t2.b, y FROM t JOIN u ON t.a = x LEFT JOIN t AS t2 ON t2.c = z AND t2.a = t.a",
    "SELECT a, y FROM t JOIN u ON a = x OR c = z",
    "SELECT a, y FROM t JOIN u ON a IS NOT DISTINCT FROM x",
    "SELECT a, y FROM t LEFT JOIN u ON a = x AND EXISTS (SELECT 1 FROM t AS t2 WHERE t2.b = 5)",
    "SELECT a, y FROM t JOIN u ON a = x AND y > (SELECT MIN(b) FROM t)",
    "SELECT a, b, y FROM t LEFT JOIN u ON a = x AND b > (SELECT MIN(y) FROM u)",
    "SELECT a, b, y FROM t LEFT JOIN u ON a = x AND c IN (SELECT z FROM u) AND y IN (SELECT b FROM t)",
    "SELECT a, b, y FROM t RIGHT JOIN u ON a = x AND EXISTS (SELECT 1 FROM t AS s WHERE s.b = y)",
    "SELECT a, b, y FROM t FULL JOIN u ON a = x AND b + y > (SELECT MAX(s.b) FROM t AS s)",
    "SELECT a, b, y FROM t FULL JOIN u ON a = x AND z IN (SELECT c FROM t AS s) AND b NOT IN (SELECT x FROM u AS w)",
    "SELECT a, y FROM t JOIN u ON a + 1 = x",
    "SELECT t.a, m FROM t, LATERAL (SELECT MAX(y) AS m FROM u WHERE x = t.a) AS l",
    "SELECT t.a, y FROM t LEFT JOIN LATERAL (SELECT y FROM u WHERE x = t.a AND y > 10) AS l ON TRUE",
    "SELECT c, COUNT(DISTINCT a), SUM(DISTINCT a), COUNT(DISTINCT b) FILTER (WHERE b > 10), COUNT(*) FROM t GROUP BY c",
    "SELECT c, COUNT(*) FROM t WHERE 1 + 1 = 2 AND c = 'x' GROUP BY c",
    "SELECT DISTINCT c, a FROM t",
    "SELECT c, a, SUM(b) FROM t GROUP BY GROUPING SETS ((c), (a), ())",
    "SELECT c FROM (SELECT c, COUNT(*) AS n FROM t GROUP BY c) WHERE n = 1 AND c <> 'q'",
    "SELECT a, b FROM t WHERE NULLIF(a, 1) IS NULL AND CAST('1' AS INT) = 1",
    "SELECT a FROM t WHERE a BETWEEN 1 AND 2 AND NOT (b < 11)",
    "SELECT a, (SELECT y FROM u WHERE x <= a ORDER BY y DESC LIMIT 1) FROM t",
    "SELECT a, y FROM t, LATERAL (SELECT y FROM u WHERE z = c ORDER BY y LIMIT 1) AS l",
    (
        "SELECT a, (SELECT SUM(v) FROM (SELECT y AS v FROM u WHERE x = a UNION ALL SELECT b FROM t AS s WHERE s.c "
        "= t.c) AS w) FROM t"
    ),
    "SELECT a, (SELECT COUNT(*) FROM (SELECT x FROM u WHERE y > b INTERSECT SELECT x FROM u WHERE z = c) AS w) FROM t",
    "SELECT a, (SELECT COUNT(*) FROM u LEFT JOIN t AS s ON s.a = x AND s.b > t.b WHERE y > 1) FROM t",
    "SELECT a, (SELECT COUNT(s.b) FROM t AS s RIGHT JOIN u ON s.a = x AND s.b > t.b) FROM t",
    (
        "SELECT a, b FROM t WHERE EXISTS (SELECT 1 FROM u LEFT JOIN t AS s ON s.b = t.b AND s.a = x WHERE s.a IS "
        "NULL AND y > t.b)"
    ),
    "SELECT a, b, (a, c) IN (SELECT x, z FROM u) FROM t",
    "SELECT a, b, (a, c) NOT IN (SELECT x, z FROM u WHERE y < 25) FROM t",
    "SELECT a, b, b <> ALL (SELECT y FROM u WHERE x >= a) FROM t",
    "SELECT a, b, b <= ANY (SELECT y FROM u WHERE FALSE) FROM t",
    "SELECT a, b, a > ALL (SELECT x FROM u WHERE y < b) FROM t",
    "SELECT a, b FROM t WHERE NOT (b > ALL (SELECT y FROM u WHERE x = a)) OR a IS NULL",
    (
        "SELECT c, SUM(b), (SELECT MAX(y) FROM u WHERE z = c) FROM t GROUP BY c HAVING EXISTS (SELECT 1 FROM u "
        "WHERE z = c)"
    ),
    "SELECT a + 1, (SELECT COUNT(*) FROM u WHERE x = a + 1) FROM t GROUP BY a + 1, a",
    "SELECT a, b FROM t WHERE a IN (SELECT x FROM u WHERE y > b) AND c IN (SELECT z FROM u WHERE x <> a)",
    (
        "SELECT a, b FROM t WHERE CASE WHEN b > 10 THEN a IN (SELECT x FROM u) ELSE EXISTS (SELECT 1 FROM u WHERE "
        "z = c) END"
    ),
    (
        "SELECT x, y FROM u WHERE y = (SELECT MAX(y) FROM u AS v WHERE v.x = u.x AND v.y < (SELECT MAX(b) FROM t "
        "WHERE t.a = u.x))"
    ),
    "SELECT a FROM t WHERE b IN (SELECT MAX(b) FROM t AS s GROUP BY s.c)",
    "SELECT a, b FROM t WHERE (SELECT MIN(x) FROM u WHERE z = c) IS NULL",
    "SELECT a, b FROM t WHERE a = (SELECT x FROM u WHERE y = b - 2) OR a IN (SELECT x FROM u WHERE z = 'q')",
    "SELECT a FROM t EXCEPT ALL SELECT x FROM u WHERE x > (SELECT MIN(a) FROM t)",
    "SELECT c, n FROM (SELECT c, COUNT(*) AS n FROM t GROUP BY c) AS g WHERE n IN (SELECT COUNT(*) FROM u GROUP BY z)",
    "SELECT s.a, s.m FROM (SELECT a, (SELECT MAX(y) FROM u WHERE x = a) AS m FROM t) AS s WHERE s.m > 10",
    "SELECT a, EXISTS (SELECT 1 FROM u WHERE y > 100), NOT EXISTS (SELECT 1 FROM u WHERE y > 20) FROM t",
    "SELECT a FROM t WHERE EXISTS (SELECT 1) OR b = 5",
    (
        "SELECT a, (SELECT COUNT(*) FROM (SELECT * FROM t AS s WHERE s.b > t.b) AS l RIGHT JOIN u ON l.a = x) FROM t "
        "WHERE b > 10"
    ),
    "SELECT b, (SELECT SUM(y) FROM (SELECT * FROM t AS s WHERE s.c = t.c) AS l FULL JOIN u ON l.a = x) FROM t",
]
#: Aggregates of DISTINCT values, which are split into partial and final ones.
DISTINCT = [
    "SELECT c, COUNT(DISTINCT a) AS n, COUNT(DISTINCT b), MAX(b) FROM t GROUP BY c",
    (
        "SELECT c, COUNT(DISTINCT a), COUNT(DISTINCT a) FILTER (WHERE b > 8), COUNT(DISTINCT a) FILTER (WHERE b > 15), "
        "COUNT(*), SUM(b), CAST(AVG(b * 2) AS INT) FROM t GROUP BY c"
    ),
    "SELECT COUNT(DISTINCT a), SUM(DISTINCT b), COUNT(DISTINCT c), MIN(a), COUNT(*) FILTER (WHERE b > 10) FROM t",
    "SELECT a, COUNT(DISTINCT a), SUM(DISTINCT b), MIN(c) FROM t GROUP BY a",
    (
        "SELECT n, COUNT(DISTINCT m), COUNT(DISTINCT c), SUM(DISTINCT m) FILTER (WHERE m > 1), MAX(c) "
        "FROM (SELECT c, COUNT(*) AS n, MAX(a) AS m FROM t GROUP BY c) AS g GROUP BY n"
    ),
    "SELECT COUNT(DISTINCT n), COUNT(DISTINCT c) FROM (SELECT c, COUNT(*) AS n FROM t GROUP BY c) AS g WHERE n > 1",
    "SELECT c, a, COUNT(DISTINCT b) FROM t GROUP BY GROUPING SETS ((c), (a))",
]
_SPLIT = {
    "table.optimizer.distinct-agg.split.enabled": "true",
    "table.optimizer.distinct-agg.split.bucket-num": "3",
}
_MINI_BATCH = {
    "table.exec.mini-batch.enabled": "true",
    "table.exec.mini-batch.allow-latency": "1 s",
    "table.exec.mini-batch.size": "3",
}
#: Queries of one job. More of them make the job's plan larger, fewer of them more jobs.
_PER_JOB = 23


@pytest.fixture(scope="module")
def environment() -> TableEnvironment:
    made = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    made.get_config().set("parallelism.default", "1")
    return made


def text(value: Any) -> str:
    """Returns a value as Flink's CAST to STRING writes it."""
    return "NULL" if value is None else str(value).upper() if isinstance(value, bool) else str(value)


def as_texts(number: int, query: str) -> tuple[str, Counter[tuple[int, str]]]:
    """Returns a query of one text per row of the given one, and these texts as DuckDB computes them."""
    result = duckdb.sql(TABLES + query)
    expected = Counter((number, ",".join(map(text, row))) for row in result.fetchall())
    names = [f"c{place}" for place in range(len(result.columns))]
    texts = [f"COALESCE(CAST({name} AS STRING), 'NULL')" for name in names]
    line = " || ',' || ".join(texts)
    return f"SELECT {number}, {line} FROM ({query}) AS q ({', '.join(names)})", expected


def check(environment: TableEnvironment, queries: list[str]) -> None:
    parts = [as_texts(number, query) for number, query in enumerate(queries)]
    expected = sum((each for _, each in parts), Counter[Any]())

    found = rows(environment, TABLES + " UNION ALL ".join(query for query, _ in parts))

    wrong = {queries[number] for number, _ in (found - expected) + (expected - found)}
    assert not wrong, (found - expected, expected - found)


@pytest.mark.parametrize("first", range(0, len(QUERIES), _PER_JOB))
def test_queries_give_the_rows_of_duckdb(environment: TableEnvironment, first: int) -> None:
    check(environment, QUERIES[first : first + _PER_JOB])


@pytest.mark.parametrize("settings", [_SPLIT, {**_SPLIT, **_MINI_BATCH}], ids=["plain", "mini-batch"])
def test_split_distinct_aggregates_give_the_rows_of_duckdb(settings: dict[str, str]) -> None:
    environment = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    for key, value in {"parallelism.default": "2", **settings}.items():
        environment.get_config().set(key, value)

    check(environment, DISTINCT)
