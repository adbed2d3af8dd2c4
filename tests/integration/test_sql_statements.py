"""Statements about jobs, models and changelogs on real processes."""

from __future__ import annotations

import sqlite3
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from clusters import RunningCluster
from job_support import environment, wait_until

from flinkpy.common.errors import JobExecutionError, ValidationError
from flinkpy.table import StreamTableEnvironment, TableEnvironment


@pytest.fixture
def tables(shared_cluster: RunningCluster, tmp_path: Path) -> TableEnvironment:
    savepoints = {"execution.checkpointing.savepoint-dir": str(tmp_path / "savepoints")}
    return StreamTableEnvironment.create(environment(shared_cluster, **savepoints))


def rows(tables: TableEnvironment, query: str) -> list[tuple[Any, ...]]:
    with tables.execute_sql(query).collect() as found:
        return [tuple(row) for row in found]


def test_a_job_is_listed_described_and_stopped_with_a_savepoint(tables: TableEnvironment, tmp_path: Path) -> None:
    tables.execute_sql("CREATE TABLE numbers (n INT) WITH ('connector' = 'datagen', 'rows-per-second' = '10')")
    tables.execute_sql("CREATE TABLE nothing (n INT) WITH ('connector' = 'blackhole')")
    client = tables.execute_sql("INSERT INTO nothing SELECT n FROM numbers").get_job_client()
    assert client is not None
    job_id = str(client.get_job_id())

    def is_running() -> bool:
        return rows(tables, f"DESCRIBE JOB '{job_id}'")[0][2] == "RUNNING"

    wait_until(is_running, "the job runs")
    listed = {row[0]: row for row in rows(tables, "SHOW JOBS")}
    assert listed[job_id][1] == "insert-into_default_catalog.default_database.nothing"
    assert isinstance(listed[job_id][3], datetime)
    ((path,),) = rows(tables, f"STOP JOB '{job_id}' WITH SAVEPOINT")
    assert Path(path.removeprefix("file://")).is_relative_to(tmp_path / "savepoints")
    client.get_job_execution_result().result()
    assert rows(tables, f"DESCRIBE JOB '{job_id}'")[0][2] == "FINISHED"
    with pytest.raises(ValidationError, match=f"Described job {'0' * 32} does not exist in the cluster"):
        tables.execute_sql(f"DESCRIBE JOB '{'0' * 32}'")


def test_ml_predict_calls_a_model_of_python(tables: TableEnvironment) -> None:
    tables.execute_sql(
        "CREATE MODEL hypotenuse INPUT (a DOUBLE, b DOUBLE) OUTPUT (c DOUBLE) "
        "WITH ('provider' = 'python', 'model' = 'math.hypot', 'input-format' = 'rows')"
    )
    found = rows(
        tables,
        "SELECT name, c FROM ML_PREDICT((SELECT * FROM (VALUES ('x', 3, 4.0), ('y', 6, 8.0)) AS v(name, a, b)), "
        "MODEL hypotenuse, DESCRIPTOR(a, b)) WHERE c > 5",
    )
    assert found == [("y", 10.0)]


def test_vector_search_finds_the_most_similar_rows_of_files(tables: TableEnvironment, tmp_path: Path) -> None:
    tables.execute_sql(
        "CREATE TABLE documents (name STRING, v ARRAY<FLOAT>) "
        f"WITH ('connector' = 'filesystem', 'path' = '{tmp_path}', 'format' = 'json')"
    )
    (tmp_path / "a.json").write_text(
        '{"name": "cat", "v": [1, 0]}\n{"name": "dog", "v": [0.8, 0.6]}\n{"name": "car", "v": [0, 1]}\n'
    )
    queries = "(VALUES (1, ARRAY[CAST(2 AS FLOAT), CAST(0 AS FLOAT)]), (2, CAST(NULL AS ARRAY<FLOAT>))) AS q(id, e)"
    found = rows(
        tables,
        f"SELECT id, name, ROUND(score, 3) FROM {queries} "
        "LEFT JOIN LATERAL TABLE(VECTOR_SEARCH(TABLE documents, DESCRIPTOR(v), q.e, 2)) ON TRUE",
    )
    assert sorted(found, key=str) == [(1, "cat", 1.0), (1, "dog", 0.8), (2, None, None)]


def test_a_changelog_goes_into_rows_and_back(tables: TableEnvironment) -> None:
    changes = "SELECT k, COUNT(*) AS n FROM (VALUES ('a'), ('b'), ('a')) AS v(k) GROUP BY k"
    found = rows(tables, f"SELECT op, k, n FROM TO_CHANGELOG(({changes}))")
    assert [row for row in found if row[1] == "a"] == [
        ("INSERT", "a", 1),
        ("UPDATE_BEFORE", "a", 1),
        ("UPDATE_AFTER", "a", 2),
    ]
    tables.execute_sql(f"CREATE TEMPORARY VIEW log AS SELECT * FROM TO_CHANGELOG(({changes}))")
    final = tables.sql_query("SELECT k, n FROM FROM_CHANGELOG(TABLE log)").to_arrow().to_pylist()
    assert sorted((row["k"], row["n"]) for row in final) == [("a", 2), ("b", 1)]


def test_a_materialized_table_is_suspended_and_resumed(tables: TableEnvironment, tmp_path: Path) -> None:
    tables.execute_sql("CREATE TABLE numbers (n INT) WITH ('connector' = 'datagen', 'rows-per-second' = '10')")
    tables.execute_sql(
        "CREATE MATERIALIZED TABLE doubled WITH ('connector' = 'blackhole') FRESHNESS = INTERVAL '10' SECOND "
        "AS SELECT 2 * n AS d FROM numbers"
    )

    def job() -> tuple[str, str]:
        (row,) = [row for row in rows(tables, "SHOW JOBS") if row[1].endswith("doubled`_continuous_refresh_job")][:1]
        return row[0], row[2]

    wait_until(lambda: job()[1] == "RUNNING", "the job runs")
    first = job()[0]
    tables.execute_sql("ALTER MATERIALIZED TABLE doubled SUSPEND")
    assert job() == (first, "FINISHED")
    assert list((tmp_path / "savepoints").iterdir())
    tables.execute_sql("ALTER MATERIALIZED TABLE doubled RESUME")
    assert job()[0] != first
    tables.execute_sql("DROP MATERIALIZED TABLE doubled")
    wait_until(lambda: job()[1] == "CANCELED", "the job is canceled")


def test_a_materialized_table_is_refreshed_by_hand(tables: TableEnvironment, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    source = tmp_path / "in" / "a.csv"
    source.write_text("1,x\n2,y\n")
    tables.execute_sql(
        f"CREATE TABLE lines (n INT, k STRING) WITH ('connector' = 'filesystem', 'path' = '{tmp_path / 'in'}', "
        "'format' = 'csv')"
    )
    tables.execute_sql(
        f"CREATE MATERIALIZED TABLE stored PARTITIONED BY (k) WITH ('connector' = 'filesystem', 'format' = 'csv', "
        f"'path' = '{tmp_path / 'out'}') REFRESH_MODE = FULL AS SELECT n, k FROM lines"
    )

    def refreshed(partition: str = "") -> list[tuple[Any, ...]]:
        ((job_id,),) = rows(tables, f"ALTER MATERIALIZED TABLE stored REFRESH {partition}")
        wait_until(lambda: rows(tables, f"DESCRIBE JOB '{job_id}'")[0][2] == "FINISHED", "the refresh ends")
        return sorted(rows(tables, "SELECT n, k FROM stored"))

    assert refreshed() == [(1, "x"), (2, "y")]
    source.write_text("3,x\n4,y\n")
    assert refreshed("PARTITION (k = 'y')") == [(1, "x"), (4, "y")]
    assert refreshed() == [(3, "x"), (4, "y")]


def test_rows_of_a_database_are_updated_deleted_and_truncated(shared_cluster: RunningCluster, tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "shop.db") as connection:
        connection.execute("CREATE TABLE items (id INTEGER PRIMARY KEY, name TEXT, price REAL)")
        connection.executemany("INSERT INTO items VALUES (?, ?, ?)", [(1, "a", 1.0), (2, "b", 2.0), (3, "c", 3.0)])
    tables = TableEnvironment.create(environment(shared_cluster).get_configuration())
    tables.execute_sql("SET 'execution.runtime-mode' = 'batch'")
    tables.execute_sql(
        "CREATE TABLE items (id INT, name STRING, price DOUBLE, PRIMARY KEY (id) NOT ENFORCED) "
        f"WITH ('connector' = 'jdbc', 'url' = 'jdbc:sqlite:{tmp_path / 'shop.db'}', 'table-name' = 'items')"
    )

    def stored() -> list[tuple[Any, ...]]:
        with sqlite3.connect(tmp_path / "shop.db") as connection:
            return connection.execute("SELECT id, name, price FROM items ORDER BY id").fetchall()

    tables.execute_sql("UPDATE items SET price = price * 2, name = UPPER(name) WHERE id > 1").wait()
    assert stored() == [(1, "a", 1.0), (2, "B", 4.0), (3, "C", 6.0)]
    tables.execute_sql("DELETE FROM items WHERE price > (SELECT AVG(price) FROM items)").wait()
    assert stored() == [(1, "a", 1.0)]
    tables.execute_sql("TRUNCATE TABLE items")
    assert stored() == []


def test_an_error_of_a_job_names_the_expression_and_its_columns(tables: TableEnvironment) -> None:
    tables.execute_sql(
        "CREATE TABLE counted (amount INT) WITH ('connector' = 'datagen', 'fields.amount.kind' = 'sequence', "
        "'fields.amount.start' = '0', 'fields.amount.end' = '3')"
    )
    with pytest.raises(JobExecutionError, match=r"Division by zero in the expression \(12 / amount\)"):
        rows(tables, "SELECT 12 / amount FROM counted")


def test_a_temporal_table_function_finds_the_version_of_each_row(tables: TableEnvironment, tmp_path: Path) -> None:
    lines = {"orders": "1,EUR,00:05\n2,USD,00:15\n3,EUR,00:25\n", "rates": "EUR,10,00:01\nEUR,30,00:20\nEUR,20,00:10\n"}
    for name, columns in (("orders", "id INT, currency STRING"), ("rates", "currency STRING, rate INT")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.csv").write_text(lines[name].replace(",00:", ",2024-01-01 00:").replace("\n", ":00\n"))
        tables.execute_sql(
            f"CREATE TABLE {name} ({columns}, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '1' HOUR) "
            f"WITH ('connector' = 'filesystem', 'path' = '{tmp_path / name}', 'format' = 'csv')"
        )
    function = tables.from_path("rates").create_temporal_table_function("ts", "currency")
    tables.create_temporary_system_function("Rates", function)
    found = rows(
        tables,
        "SELECT id, rate, OBJECT_OF('Price', 'id', id, 'rate', rate).rate FROM orders AS o, "
        "LATERAL TABLE(Rates(o.ts)) AS r WHERE o.currency = r.currency",
    )
    assert sorted(found) == [(1, 10, 10), (3, 30, 30)]
