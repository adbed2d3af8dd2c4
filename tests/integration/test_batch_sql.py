"""SQL in batch mode: TPC-H with the answers of DuckDB, and final rows from every kind of operator."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest
from clusters import RunningCluster, StartCluster
from job_support import FIXED_DELAY, Gate, environment

from benchmarks.tpch_sql.tables import QUERIES, TABLES, create_tables, generate, query
from flinkpy.common.types import RowKind
from flinkpy.table import DataTypes, EnvironmentSettings, StreamTableEnvironment, TableEnvironment
from flinkpy.table.catalog.catalog_statistics import ColumnStatistics
from flinkpy.table.catalog.identifiers import ObjectPath
from flinkpy.table.udf import udf

SCALE = 0.01


def batch_tables(cluster: RunningCluster, engine: str) -> TableEnvironment:
    made = StreamTableEnvironment.create(environment(cluster), EnvironmentSettings.in_batch_mode())
    made.get_config().set("table.exec.batch.engine", engine)
    return made


def rows(tables: TableEnvironment, text: str) -> list[tuple[Any, ...]]:
    with tables.execute_sql(text).collect() as found:
        result = list(found)
    assert all(row.get_row_kind() is RowKind.INSERT for row in result)
    return [tuple(row) for row in result]


@pytest.fixture(scope="module")
def tpch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("tpch")
    generate(directory, SCALE)
    return directory


def is_same(ours: Any, theirs: Any) -> bool:
    """True if a value is that of DuckDB, which divides decimals as doubles."""
    if isinstance(theirs, float):
        return abs(float(ours) - theirs) <= 1e-6 * max(1.0, abs(theirs))
    return bool(ours == theirs)


def test_all_queries_of_tpch_have_the_answers_of_duckdb(shared_cluster: RunningCluster, tpch: Path) -> None:
    duckdb = pytest.importorskip("duckdb", reason="the answers are those of DuckDB")
    tables = batch_tables(shared_cluster, "DUCKDB")
    create_tables(tables, tpch)
    with duckdb.connect() as reference:
        for name in TABLES:
            reference.execute(f"create view {name} as select * from '{tpch / name}.parquet'")
        for number in QUERIES:
            ours = rows(tables, query(number))
            theirs = reference.execute(query(number).replace("`", '"')).fetchall()
            assert len(ours) == len(theirs), f"Q{number}"
            for mine, other in zip(ours, theirs):
                assert all(map(is_same, mine, other)), f"Q{number}: {mine} is not {other}"


def test_operators_send_final_rows_only(shared_cluster: RunningCluster) -> None:
    tables = batch_tables(shared_cluster, "OPERATORS")
    items = tables.from_elements([(1, "a", 5), (2, "b", 7), (3, "a", 1), (4, None, 2)], ["id", "k", "v"])
    tables.create_temporary_view("items", items)
    assert rows(tables, "SELECT k, COUNT(*), SUM(v) FROM items GROUP BY k ORDER BY k DESC") == [
        ("b", 1, 7),
        ("a", 2, 6),
        (None, 1, 2),
    ]
    joined = "SELECT l.id, r.id FROM items l LEFT JOIN items r ON l.k = r.k AND l.id < r.id ORDER BY 1 LIMIT 3 OFFSET 1"
    assert rows(tables, joined) == [(2, None), (3, None), (4, None)]
    best = "SELECT k, v FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY v DESC) AS n FROM items) WHERE n = 1"
    assert sorted(rows(tables, f"{best} AND k IS NOT NULL")) == [("a", 5), ("b", 7)]
    times = "(1, '3.000002'), (2, '3.000001'), (3, '1'), (4, '9')"
    pattern = (
        "MATCH_RECOGNIZE (ORDER BY ts MEASURES A.id AS a, B.id AS b AFTER MATCH SKIP TO NEXT ROW PATTERN (A B) "
        "WITHIN INTERVAL '5' SECOND DEFINE B AS B.id > 0)"
    )
    events = f"SELECT id, CAST('2024-01-01 00:00:0' || s AS TIMESTAMP(6)) AS ts FROM (VALUES {times}) AS e(id, s)"
    tables.execute_sql(f"CREATE TEMPORARY VIEW events AS {events}")
    assert rows(tables, f"SELECT * FROM events {pattern}") == [(3, 2), (2, 1)]


def test_analyze_table_stores_what_a_query_computes(shared_cluster: RunningCluster, tmp_path: Path) -> None:
    tables = batch_tables(shared_cluster, "OPERATORS")
    tables.execute_sql(
        "CREATE TABLE items (id INT, name STRING, k INT) PARTITIONED BY (k) "
        f"WITH ('connector' = 'filesystem', 'path' = '{tmp_path}', 'format' = 'csv')"
    )
    for key, lines in ((1, "5,ab\n7,\n"), (2, "9,a\n")):
        (tmp_path / f"k={key}").mkdir()
        (tmp_path / f"k={key}" / "a.csv").write_text(lines)
    for key in (1, 2, 3):
        tables.execute_sql(f"ALTER TABLE items ADD PARTITION (k = '{key}')")
    tables.execute_sql("ANALYZE TABLE items PARTITION (k) COMPUTE STATISTICS FOR ALL COLUMNS")
    catalog, path = tables.get_catalog("default_catalog"), ObjectPath("default_database", "items")
    partitions = catalog.list_partitions(path)
    counts = [each.get_row_count() for each in catalog.bulk_get_partition_statistics(path, partitions)]
    assert dict(zip(partitions, counts)) == {(("k", "1"),): 2, (("k", "2"),): 1, (("k", "3"),): 0}
    columns = catalog.get_partition_column_statistics(path, (("k", "1"),)).get_column_statistics_data()
    assert columns["id"] == ColumnStatistics(0, 2, 5, 7)
    assert columns["name"].max_length == 2


def test_functions_of_python_and_the_engine_take_turns(shared_cluster: RunningCluster) -> None:
    pytest.importorskip("duckdb")
    tables = batch_tables(shared_cluster, "AUTO")
    items = tables.from_elements([(1, "a"), (2, "b"), (3, "a")], ["id", "k"])
    tables.create_temporary_view("items", items)
    tables.create_temporary_system_function("shout", udf(lambda text: text + "!", result_type=DataTypes.STRING()))
    found = rows(tables, "SELECT shout(k), n FROM (SELECT k, COUNT(*) AS n FROM items GROUP BY k)")
    assert sorted(found) == [("a!", 2), ("b!", 1)]
    assert rows(tables, "SELECT shout(k) AS s, MAX(id) AS m FROM items GROUP BY shout(k) ORDER BY m") == [
        ("b!", 2),
        ("a!", 3),
    ]


def test_an_error_of_a_kernel_in_the_engine_is_that_of_the_kernel(shared_cluster: RunningCluster) -> None:
    pytest.importorskip("duckdb")
    tables = batch_tables(shared_cluster, "AUTO")
    tables.create_temporary_view("items", tables.from_elements([(1, "x"), (2, "3")], ["id", "k"]))
    with pytest.raises(Exception, match="x") as caught:
        rows(tables, "SELECT SUM(CAST(k AS INT)) FROM items GROUP BY id")
    assert "DuckDB" not in str(caught.value)


def test_a_killed_task_executor_changes_nothing_in_the_answer(start_cluster: StartCluster, tmp_path: Path) -> None:
    pytest.importorskip("duckdb")
    cluster = start_cluster(2)
    made = StreamTableEnvironment.create(environment(cluster, 1, **FIXED_DELAY), EnvironmentSettings.in_batch_mode())
    made.create_temporary_view("items", made.from_elements([(n, n % 3) for n in range(1000)], ["n", "k"]))
    gate = Gate(tmp_path)
    made.create_temporary_system_function("held", udf(gate.pass_at(0), result_type=DataTypes.BIGINT()))
    result = made.execute_sql("SELECT k, SUM(held(n)) AS s FROM items GROUP BY k ORDER BY k")
    client = result.get_job_client()
    assert client is not None
    job_id = str(client.get_job_id())
    gate.wait_for_arrival()
    os.kill(gate.arrivals[0], signal.SIGKILL)
    gate.open()
    with result.collect() as found:
        assert [tuple(row) for row in found] == [(k, sum(range(k, 1000, 3))) for k in range(3)]
    assert cluster.client.request_job(job_id).num_restarts >= 1
