"""SQL programs over a server of MongoDB's protocol: documents are written by key, scanned, and looked up."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from typing import Any

import pytest
from clusters import RunningCluster
from job_support import environment
from mongodb_server import mongodb_server

from flinkpy.table import StreamTableEnvironment, TableEnvironment

# The server has no Decimal128.
COLUMNS = (
    "id INT, n BIGINT, name STRING, total DOUBLE, seen TIMESTAMP(3), tags ARRAY<STRING>, "
    "place ROW<x DOUBLE, y DOUBLE>, extra MAP<STRING, INT>"
)


@pytest.fixture(scope="module")
def uri(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with mongodb_server(tmp_path_factory.mktemp("ferretdb")) as running:
        yield running


def final(tables: TableEnvironment, query: str) -> list[dict[str, Any]]:
    return tables.sql_query(query).to_arrow().to_pylist()


def create(tables: TableEnvironment, uri: str, name: str, columns: str, **options: str) -> None:
    # The server does not know cursors without a time limit.
    common = {"connector": "mongodb", "uri": uri, "database": "shop", "scan.cursor.no-timeout": "false"}
    given = ", ".join(f"'{key}' = '{text}'" for key, text in {**common, "collection": name, **options}.items())
    tables.execute_sql(f"CREATE TABLE {name} ({columns}) WITH ({given})")


def test_documents_are_written_by_key_scanned_and_looked_up(shared_cluster: RunningCluster, uri: str) -> None:
    import pymongo
    from bson import ObjectId

    tables = StreamTableEnvironment.create(environment(shared_cluster))
    create(tables, uri, "totals", f"{COLUMNS}, PRIMARY KEY (id) NOT ENFORCED", **{"sink.buffer-flush.max-rows": "2"})
    tables.execute_sql(
        """
        INSERT INTO totals
        SELECT id, COUNT(*), MAX(name), CAST(SUM(n) AS DOUBLE), TIMESTAMP '2024-01-02 03:04:05.678',
          ARRAY[MAX(name), 'x'], ROW(CAST(1.5 AS DOUBLE), CAST(id AS DOUBLE)), MAP['n', CAST(COUNT(*) AS INT)]
        FROM (VALUES (1, 'a', 10), (2, 'b', 20), (1, 'c', 30), (3, 'd', 5)) AS t (id, name, n) GROUP BY id
        """
    ).wait()
    with pymongo.MongoClient(uri) as client:
        stored = client.shop.totals.find_one({"_id": 1})
        client.shop.things.insert_many(
            [{"_id": ObjectId("6" * 24), "price": 3}, {"_id": "text", "price": "4"}, {"_id": 7, "price": None}]
        )
    assert stored == {
        "_id": 1,
        "id": 1,
        "n": 2,
        "name": "c",
        "total": 40.0,
        "seen": datetime.datetime(2024, 1, 2, 3, 4, 5, 678000),
        "tags": ["c", "x"],
        "place": {"x": 1.5, "y": 1.0},
        "extra": {"n": 2},
    }
    (row,) = final(tables, "SELECT * FROM totals WHERE id > 1 AND name = 'b'")
    assert (row["id"], row["total"], row["tags"], row["place"]) == (2, 20.0, ["b", "x"], {"x": 1.5, "y": 2.0})
    assert row["extra"] == [("n", 1)]
    assert "filter=[" in tables.explain_sql("SELECT name FROM totals WHERE id > 1 AND name = 'b'")

    create(tables, uri, "things", "_id STRING, price INT, PRIMARY KEY (_id) NOT ENFORCED")
    found = sorted(final(tables, "SELECT * FROM things"), key=lambda row: row["_id"])
    assert found == [{"_id": "6" * 24, "price": 3}, {"_id": "7", "price": None}, {"_id": "text", "price": 4}]
    joined = final(
        tables,
        f"""
        SELECT o.k, t.price FROM (SELECT k, PROCTIME() AS p FROM (VALUES ('{"6" * 24}'), ('text'), ('z')) AS t (k)) AS o
        LEFT JOIN things FOR SYSTEM_TIME AS OF o.p AS t ON o.k = t._id
        """,
    )
    assert sorted((row["k"], row["price"]) for row in joined) == [("6" * 24, 3), ("text", 4), ("z", None)]

    # An update keeps the ObjectId, and another id makes another document.
    tables.execute_sql(f"INSERT INTO things VALUES ('{'6' * 24}', 30), ('new', 1) ON CONFLICT DO DEDUPLICATE").wait()
    with pymongo.MongoClient(uri) as client:
        assert client.shop.things.find_one({"_id": ObjectId("6" * 24)}) == {"_id": ObjectId("6" * 24), "price": 30}
        assert client.shop.things.count_documents({}) == 4


def test_documents_are_read_an_answer_at_a_time(shared_cluster: RunningCluster, uri: str) -> None:
    tables = StreamTableEnvironment.create(environment(shared_cluster))
    # The server ignores bounds of ranges, so there is one: pages are counted only.
    pages = {"scan.partition.strategy": "pagination", "scan.partition.record-size": "200", "scan.fetch-size": "7"}
    create(tables, uri, "numbers", "n INT, twice BIGINT", **pages)
    values = ", ".join(f"({number}, {2 * number})" for number in range(100))
    tables.execute_sql(f"INSERT INTO numbers VALUES {values}").wait()
    (row,) = final(tables, "SELECT COUNT(*) AS c, COUNT(DISTINCT n) AS d, SUM(twice) AS s FROM numbers")
    assert row == {"c": 100, "d": 100, "s": 9900}
    assert len(final(tables, "SELECT n FROM numbers LIMIT 5")) == 5
