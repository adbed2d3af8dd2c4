"""Plans of SQL queries give the rows that DuckDB gives: joins, subqueries, grouping sets, set operations, ranks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import duckdb
import pytest

from flinkpy.common.types import RowKind
from flinkpy.table.environment_settings import EnvironmentSettings
from flinkpy.table.table_environment import TableEnvironment

TABLES = """
WITH t (a, b, c) AS (
    VALUES (1, 10, 'x'), (2, 20, 'y'), (2, 25, 'x'), (3, 5, 'z'), (CAST(NULL AS INT), 7, 'x'), (1, 11, 'y')
),
u (x, y, z) AS (VALUES (1, 9, 'x'), (2, 30, 'x'), (2, 22, 'y'), (4, 1, 'q'), (CAST(NULL AS INT), 2, 'y'))
"""
QUERIES = [
    "SELECT a, b, x, y FROM t FULL JOIN u ON a = x AND y > b",
    "SELECT c, COUNT(*), SUM(b), MIN(a), MAX(b), COUNT(DISTINCT a) FROM t GROUP BY c HAVING COUNT(*) > 1",
    "SELECT c, MAX(n) FROM (SELECT c, a, COUNT(*) AS n FROM t GROUP BY c, a) GROUP BY c",
    "SELECT a, c, COUNT(*), SUM(b), GROUPING(a, c) FROM t GROUP BY CUBE (a, c)",
    "SELECT a, b FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE x = a AND y > b)",
    "SELECT a, b FROM t WHERE a NOT IN (SELECT x FROM u WHERE x IS NOT NULL)",
    "SELECT a, b FROM t WHERE a NOT IN (SELECT x FROM u)",
    "SELECT a, b FROM t WHERE b > (SELECT MAX(y) FROM u WHERE z = c)",
    "SELECT a, (SELECT COUNT(*) FROM u WHERE x = a) FROM t",
    "SELECT a, b FROM t WHERE b = 5 OR EXISTS (SELECT 1 FROM u WHERE x = a)",
    "SELECT a FROM t INTERSECT SELECT x FROM u",
    "SELECT a, c FROM t EXCEPT SELECT x, z FROM u",
    "SELECT c, b, n FROM (SELECT c, b, ROW_NUMBER() OVER (PARTITION BY c ORDER BY b) AS n FROM t) WHERE n <= 2",
    "SELECT a, b FROM t ORDER BY b LIMIT 2 OFFSET 1",
]


@pytest.fixture(scope="module")
def environment() -> Iterator[TableEnvironment]:
    made = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    made.get_config().set("parallelism.default", "2")
    yield made


def rows(environment: TableEnvironment, query: str) -> Counter[tuple[Any, ...]]:
    """Returns the rows that are left after all changes."""
    found: Counter[tuple[Any, ...]] = Counter()
    for row in environment.execute_sql(query).collect():
        is_added = row.get_row_kind() in (RowKind.INSERT, RowKind.UPDATE_AFTER)
        found[tuple(row)] += 1 if is_added else -1
    assert all(count >= 0 for count in found.values()), "a row was taken back that was not there"
    return +found


@pytest.mark.parametrize("query", QUERIES)
def test_query_gives_the_rows_of_duckdb(environment: TableEnvironment, query: str) -> None:
    assert rows(environment, TABLES + query) == Counter(map(tuple, duckdb.sql(TABLES + query).fetchall()))
