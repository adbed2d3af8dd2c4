"""SQL programs that write documents to a real OpenSearch, which speaks the bulk API of Elasticsearch, too."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from clusters import RunningCluster
from job_support import environment
from opensearch_node.node import OpenSearchNode, opensearch_node

from flinkpy.common.errors import JobExecutionError
from flinkpy.table import StreamTableEnvironment, TableEnvironment


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenSearchNode]:
    with opensearch_node(tmp_path_factory.mktemp("opensearch")) as running:
        yield running


@pytest.fixture
def tables(shared_cluster: RunningCluster) -> TableEnvironment:
    return StreamTableEnvironment.create(environment(shared_cluster))


def create(tables: TableEnvironment, node: OpenSearchNode, name: str, columns: str, **options: str) -> None:
    common = {"hosts": node.url, "index": name, **options}
    given = ", ".join(f"'{key}' = '{text}'" for key, text in common.items())
    tables.execute_sql(f"CREATE TABLE {name} ({columns}) WITH ({given})")


@pytest.mark.parametrize("connector", ["opensearch", "elasticsearch-7"])
def test_documents_are_updated_and_deleted_by_key(
    tables: TableEnvironment, node: OpenSearchNode, connector: str
) -> None:
    name = connector.replace("-", "_")
    columns = "id INT, name STRING, total BIGINT, price DECIMAL(6, 2), at_time TIMESTAMP(3), tags ARRAY<STRING>"
    key = f"{columns}, PRIMARY KEY (id, name) NOT ENFORCED"
    create(tables, node, name, key, connector=connector, **{"sink.bulk-flush.max-actions": "7"})
    values = ", ".join(f"({number % 20}, {number})" for number in range(100))
    tables.execute_sql(
        f"""
        INSERT INTO {name}
        SELECT id, name, SUM(n), CAST(1.5 AS DECIMAL(6, 2)), TIMESTAMP '2024-01-02 03:04:05.678', ARRAY['x', 'y']
        FROM (SELECT id, CAST(id AS STRING) AS name, n FROM (VALUES {values}) AS t (id, n))
        GROUP BY id, name HAVING SUM(n) < 230
        """
    ).wait()
    sums = {number: sum(range(number, 100, 20)) for number in range(20)}
    found = node.documents(name)
    assert {key: each["total"] for key, each in found.items()} == {
        f"{number}_{number}": total for number, total in sums.items() if total < 230
    }
    assert found["3_3"] == {
        "id": 3,
        "name": "3",
        "total": 215,
        "price": 1.5,
        "at_time": "2024-01-02 03:04:05.678",
        "tags": ["x", "y"],
    }


def test_rows_are_added_to_the_index_of_their_time(tables: TableEnvironment, node: OpenSearchNode) -> None:
    dynamic = {"connector": "opensearch-2", "index": "logs-{at_time|yyyy-MM}"}
    create(tables, node, "logs", "n INT, at_time TIMESTAMP(3)", **dynamic)
    tables.execute_sql(
        "INSERT INTO logs VALUES (1, TIMESTAMP '2024-01-02 00:00:00'), (2, TIMESTAMP '2024-02-02 00:00:00'), "
        "(1, TIMESTAMP '2024-01-02 00:00:00')"
    ).wait()
    assert sorted(each["n"] for each in node.documents("logs-2024-01").values()) == [1, 1]
    assert [each["n"] for each in node.documents("logs-2024-02").values()] == [2]


def test_refused_document_fails_the_insert_or_is_dropped(tables: TableEnvironment, node: OpenSearchNode) -> None:
    node.request("PUT", "strict", {"mappings": {"properties": {"n": {"type": "integer"}}}})
    create(tables, node, "strict", "n STRING", connector="opensearch")
    with pytest.raises(JobExecutionError, match="index 'strict', document without an id: 400, mapper_parsing"):
        tables.execute_sql("INSERT INTO strict VALUES ('x')").wait()
    create(tables, node, "lenient", "n STRING", connector="opensearch", index="strict", **{"failure-handler": "ignore"})
    tables.execute_sql("INSERT INTO lenient VALUES ('x'), ('3')").wait()
    assert [each["n"] for each in node.documents("strict").values()] == ["3"]
