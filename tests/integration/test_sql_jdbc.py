"""SQL programs over a real PostgreSQL: changes are written by key, scanned in partitions, and looked up."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from clusters import RunningCluster
from job_support import environment
from postgresql_server import connect, postgresql

from flinkpy.common.errors import ValidationError
from flinkpy.table import StreamTableEnvironment, TableEnvironment

ROWS = "VALUES (1, 'a', 10), (2, 'b', 20), (1, 'a', 30), (3, 'c', 5)"


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    # Not below pytest's directories, which only their owner may enter: the server is another user.
    with tempfile.TemporaryDirectory(prefix="flinkpy-postgresql-") as directory, postgresql(Path(directory)) as running:
        yield running


def final(tables: TableEnvironment, query: str) -> list[dict[str, Any]]:
    return tables.sql_query(query).to_arrow().to_pylist()


def test_tables_are_written_by_key_scanned_and_looked_up(shared_cluster: RunningCluster, url: str) -> None:
    with connect(url) as connection:
        connection.execute(
            "CREATE TABLE totals (id int PRIMARY KEY, total bigint, price numeric(6, 2), seen timestamp, tags text[])"
        )
        connection.execute("CREATE TABLE moments (id int PRIMARY KEY, at_time timestamptz)")
    tables = StreamTableEnvironment.create(environment(shared_cluster))

    def create(name: str, **options: str) -> None:
        common = {"connector": "jdbc", "url": url, "table-name": "totals", "username": "flink", "password": "secret"}
        given = ", ".join(f"'{key}' = '{text}'" for key, text in {**common, **options}.items())
        columns = "id INT, total BIGINT, price DECIMAL(6, 2), seen TIMESTAMP(3), tags ARRAY<STRING>"
        tables.execute_sql(f"CREATE TABLE {name} ({columns}, PRIMARY KEY (id) NOT ENFORCED) WITH ({given})")

    create("totals", **{"sink.buffer-flush.max-rows": "2", "sink.parallelism": "2"})
    tables.execute_sql(
        f"""
        INSERT INTO totals
        SELECT id, SUM(n), CAST(1.5 AS DECIMAL(6, 2)), TIMESTAMP '2024-01-02 03:04:05', ARRAY[MAX(name), 'x']
        FROM ({ROWS}) AS t (id, name, n) GROUP BY id
        """
    ).wait()
    create("parts", **{f"scan.partition.{key}": text for key, text in PARTITIONS.items()})
    found = sorted(final(tables, "SELECT id, total, price, tags FROM parts"), key=lambda row: row["id"])
    assert [(row["id"], row["total"], str(row["price"]), row["tags"]) for row in found] == [
        (1, 40, "1.50", ["a", "x"]),
        (2, 20, "1.50", ["b", "x"]),
        (3, 5, "1.50", ["c", "x"]),
    ]
    some = "SELECT id FROM parts WHERE total > 10 AND price = 1.5 AND seen < TIMESTAMP '2025-01-01 00:00:00'"
    assert sorted(row["id"] for row in final(tables, some)) == [1, 2]
    assert "filter=[" in tables.explain_sql(some)
    joined = final(
        tables,
        """
        SELECT o.id, d.total, d.seen FROM (SELECT id, PROCTIME() AS p FROM (VALUES (2), (7)) AS t (id)) AS o
        LEFT JOIN totals FOR SYSTEM_TIME AS OF o.p AS d ON o.id = d.id
        """,
    )
    assert sorted((row["id"], row["total"], str(row["seen"])) for row in joined) == [
        (2, 20, "2024-01-02 03:04:05"),
        (7, None, "None"),
    ]

    base = url.rpartition("/")[0]
    login = "'default-database' = 'postgres', 'username' = 'flink', 'password' = 'secret'"
    tables.execute_sql(f"CREATE CATALOG pg WITH ('type' = 'jdbc', 'base-url' = '{base}', {login})")
    assert tables.get_catalog("pg").list_tables("postgres") == ["public.moments", "public.totals"]
    moment = "CAST(TO_TIMESTAMP_LTZ(5000, 3) AS TIMESTAMP_LTZ(6))"
    tables.execute_sql(f"INSERT INTO pg.postgres.moments VALUES (7, {moment}) ON CONFLICT DO DEDUPLICATE").wait()
    both = (
        "SELECT t.id, t.tags, m.at_time FROM pg.postgres.`public.totals` AS t, pg.postgres.moments AS m WHERE t.id = 1"
    )
    (row,) = final(tables, both)
    assert (row["id"], row["tags"], row["at_time"].timestamp()) == (1, ["a", "x"], 5)
    with pytest.raises(ValidationError, match="moment"):
        tables.execute_sql("SELECT * FROM pg.postgres.moment")


PARTITIONS = {"column": "id", "num": "2", "lower-bound": "1", "upper-bound": "3"}
