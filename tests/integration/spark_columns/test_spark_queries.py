"""Statements of batch SQL have the same rows, to the digit, from flinkpy's operators, from DuckDB and from Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from clusters import RunningCluster
from job_support import environment

from flinkpy.graph.table_specs import SparkQuerySpec
from flinkpy.sql.parser import parse_query
from flinkpy.sql.session_settings import DEFAULT_SETTINGS
from flinkpy.sql.types.arrow import schema_of
from flinkpy.sql.types.internal_type_info import InternalTypeInfo
from flinkpy.table import EnvironmentSettings, StreamTableEnvironment, TableEnvironment
from flinkpy.table.planner.physical import nodes as ph

pytest.importorskip("duckdb")
pytest.importorskip("pyspark")

from flinkpy.spark.columns.queries import run_query
from flinkpy.spark.stream_frame import Layout, StreamFrame
from flinkpy.streaming.operators.table.engine_session import EngineSession

TABLES = """
WITH t (a, b, c, d, e) AS (VALUES
    (1, CAST(10.25 AS DECIMAL(15, 2)), 'x', DATE '2024-02-29', TIMESTAMP '2024-02-29 01:02:03.004'),
    (2, CAST(9999999999999.99 AS DECIMAL(15, 2)), 'y', DATE '1969-12-31', TIMESTAMP '1969-12-31 23:59:59.999'),
    (2, CAST(-25.35 AS DECIMAL(15, 2)), 'x', CAST(NULL AS DATE), CAST(NULL AS TIMESTAMP(3))),
    (2147483647, CAST(0.01 AS DECIMAL(15, 2)), 'Zürich', DATE '2000-01-01', TIMESTAMP '2000-01-01 00:00:00.000'),
    (CAST(NULL AS INT), CAST(7 AS DECIMAL(15, 2)), CAST(NULL AS STRING), DATE '0001-01-01', CAST(NULL AS TIMESTAMP(3))),
    (1, CAST(NULL AS DECIMAL(15, 2)), 'y', DATE '9999-12-31', TIMESTAMP '2024-12-31 12:00:00.000')
),
u (x, y, z) AS (VALUES (1, 9, 'x'), (2, 30, 'x'), (2, 22, 'y'), (4, 1, 'it''s'), (CAST(NULL AS INT), 2, 'y'))
"""
QUERIES = [
    "SELECT DISTINCT a + 1, a * a, -a, a / 7, b * b, b / 3, b - 0.005, 100.00 * b / 7.1 FROM t",
    "SELECT DISTINCT c || '${x}{input_0}', UPPER(c), SUBSTRING(c, 2, 3), CHAR_LENGTH(c), c LIKE '_%r%', TRIM(c) FROM t",
    "SELECT DISTINCT EXTRACT(YEAR FROM d), EXTRACT(QUARTER FROM e), FLOOR(e TO DAY), CAST(e AS STRING), d > e FROM t",
    "SELECT DISTINCT CASE WHEN a > 1 THEN b ELSE CAST(a AS DECIMAL(3, 0)) END, COALESCE(c, 'no'), NULLIF(a, 2) FROM t",
    "SELECT c, COUNT(*), SUM(a), SUM(b), AVG(b), AVG(a), MIN(d), MAX(c), COUNT(DISTINCT a) FROM t GROUP BY c",
    "SELECT SUM(b) FILTER (WHERE a > 1), SUM(a), SUM(b) / SUM(a), MAX(b) - MIN(b) FROM t WHERE c <> 'x'",
    "SELECT a, b, x, y FROM t FULL JOIN u ON a = x AND y > b",
    "SELECT a, c, y FROM t LEFT JOIN u ON a = x AND c IS NOT DISTINCT FROM z",
    "SELECT a, c FROM t WHERE a NOT IN (SELECT x FROM u WHERE x > 1) AND EXISTS (SELECT 1 FROM u WHERE y > b)",
    "SELECT a, (SELECT COUNT(*) FROM u WHERE x = a) FROM t",
    "SELECT a, c, COUNT(*), GROUPING(a, c) FROM t GROUP BY CUBE (a, c)",
    "(SELECT a FROM t INTERSECT SELECT x FROM u) UNION (SELECT a FROM t EXCEPT SELECT y FROM u)",
    "SELECT a, SUM(b) OVER (PARTITION BY c ORDER BY d ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM t",
    "SELECT * FROM (SELECT c, b, ROW_NUMBER() OVER (PARTITION BY c ORDER BY b DESC) AS n FROM t) WHERE n <= 1",
    "SELECT a, c FROM t ORDER BY a DESC, c LIMIT 3 OFFSET 1",
]


@pytest.fixture(scope="module")
def planners() -> dict[str, TableEnvironment]:
    """Returns environments that plan for DuckDB and for Spark. They start no cluster."""
    made = {}
    for name, backend in (("DuckDB", "native"), ("Spark", "spark")):
        made[name] = TableEnvironment.create(EnvironmentSettings.in_batch_mode())
        made[name].get_config().set("execution.batch.backend", backend)
    return made


def whole_query(tables: TableEnvironment, text: str) -> ph.EngineQuery:
    """Returns the plan of a statement that an engine computes as a whole."""
    planner = tables._planner
    (found,) = planner._physical([planner.bind(parse_query(text))], requires_update_before=True)
    assert isinstance(found, ph.EngineQuery), found.description()
    assert not found.tables
    return found


def by_duckdb(node: ph.EngineQuery, directory: Path) -> list[tuple[Any, ...]]:
    session = EngineSession(1, 256 << 20, directory / "engine", "test")
    try:
        for function in node.functions:
            session.add_function(function, DEFAULT_SETTINGS)
        return rows_of(node, session.run(node.query, schema_of(node.row_type)))
    finally:
        session.close()


def by_spark(node: ph.EngineQuery, session: Any) -> list[tuple[Any, ...]]:
    output_type = InternalTypeInfo(node.row_type)
    spec = SparkQuerySpec(node.query, node.tables, node.functions, output_type=output_type)
    stream = StreamFrame(run_query(session, spec, [], "test", None), output_type, Layout.COLUMNS)
    found = [stream.decode(rows) for rows in stream.frame.toArrow().to_batches()]
    return rows_of(node, (batch.values for batches in found for batch in batches))


def rows_of(node: ph.EngineQuery, batches: Any) -> list[tuple[Any, ...]]:
    table = pa.Table.from_batches(list(batches), schema_of(node.row_type))
    return sorted(zip(*(column.to_pylist() for column in table.columns)), key=repr)


@pytest.mark.parametrize("query", QUERIES)
def test_engines_agree(
    planners: dict[str, TableEnvironment],
    session: Any,
    shared_cluster: RunningCluster,
    tmp_path: Path,
    query: str,
) -> None:
    text = TABLES + query
    operators = StreamTableEnvironment.create(environment(shared_cluster, 1), EnvironmentSettings.in_batch_mode())
    operators.get_config().set("table.exec.batch.engine", "OPERATORS")
    table = operators.sql_query(text).to_arrow()
    expected = sorted(zip(*(column.to_pylist() for column in table.columns)), key=repr)
    assert by_spark(whole_query(planners["Spark"], text), session) == expected
    assert by_duckdb(whole_query(planners["DuckDB"], text), tmp_path) == expected
