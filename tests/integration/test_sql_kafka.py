"""SQL programs over a real Kafka broker: rows, upserts and changes come back as they were written."""

from __future__ import annotations

from typing import Any

from clusters import RunningCluster
from job_support import environment
from kafka_broker.broker import KafkaBroker

from flinkpy.table import StreamTableEnvironment, TableEnvironment
from tests.unit.table.formats.registry_server import running_registry

ROWS = "VALUES (1, 'a', 10), (2, 'b', 20), (1, 'a', 30)"


def final(tables: TableEnvironment, query: str) -> list[dict[str, Any]]:
    return tables.sql_query(query).to_arrow().to_pylist()


def test_tables_in_topics_are_written_and_read(kafka: KafkaBroker, shared_cluster: RunningCluster) -> None:
    tables = StreamTableEnvironment.create(environment(shared_cluster))
    # Changes have no key here, so only one partition keeps their order.
    counts = {"plain": 2, "upserts": 2, "held": 1, "changes": 1}
    topics = {name: kafka.create_topic(partitions=count) for name, count in counts.items()}

    def create(name: str, columns: str, **options: str) -> None:
        common = {
            "topic": topics[name],
            "properties.bootstrap.servers": kafka.bootstrap_servers,
            "properties.fetch.wait.max.ms": "20",
            "scan.bounded.mode": "latest-offset",
        }
        given = ", ".join(f"'{key}' = '{text}'" for key, text in {**common, **options}.items())
        tables.execute_sql(f"CREATE TABLE {name} ({columns}) WITH ({given})")

    create(
        "plain",
        "id INT, name STRING, n BIGINT, part INT METADATA FROM 'partition' VIRTUAL, `offset` BIGINT METADATA VIRTUAL",
        **{"connector": "kafka", "scan.startup.mode": "earliest-offset", "key.format": "raw", "key.fields": "name"},
        **{"value.format": "json", "sink.delivery-guarantee": "exactly-once", "sink.transactional-id-prefix": "sql"},
        **{"properties.transaction.timeout.ms": "60000", "properties.isolation.level": "read_committed"},
    )
    tables.execute_sql(f"INSERT INTO plain {ROWS}").wait()
    found = sorted(final(tables, "SELECT * FROM plain"), key=lambda row: row["n"])
    assert [(row["id"], row["name"], row["n"]) for row in found] == [(1, "a", 10), (2, "b", 20), (1, "a", 30)]
    assert found[0]["part"] == found[2]["part"], "the key chooses the partition"
    assert found[0]["offset"] < found[2]["offset"]

    formats = {"key.format": "json", "value.format": "csv", "value.fields-include": "EXCEPT_KEY"}
    create("upserts", "id INT, total BIGINT, PRIMARY KEY (id) NOT ENFORCED", connector="upsert-kafka", **formats)
    tables.execute_sql("INSERT INTO upserts SELECT id, SUM(n) FROM plain GROUP BY id").wait()
    totals = [{"id": 1, "total": 40}, {"id": 2, "total": 20}]
    assert sorted(final(tables, "SELECT * FROM upserts"), key=lambda row: row["id"]) == totals

    with running_registry() as registry:
        formats = {"key.format": "avro-confluent", "value.format": "avro-confluent"}
        urls = {f"{part}.avro-confluent.url": registry.url for part in ("key", "value")}
        held = {"sink.buffer-flush.max-rows": "1000", "sink.buffer-flush.interval": "10 s"}
        columns = "id INT, total BIGINT, seen TIMESTAMP(3), PRIMARY KEY (id) NOT ENFORCED"
        create("held", columns, connector="upsert-kafka", **formats, **urls, **held)
        tables.execute_sql(
            "INSERT INTO held SELECT id, SUM(n), TIMESTAMP '2024-01-02 03:04:05' FROM plain GROUP BY id"
        ).wait()
        found = sorted(final(tables, "SELECT id, total FROM held WHERE YEAR(seen) = 2024"), key=lambda row: row["id"])
        assert found == totals
        assert set(registry.subjects) == {f"{topics['held']}-key", f"{topics['held']}-value"}

    start = {"scan.startup.mode": "earliest-offset", "format": "debezium-json"}
    create("changes", "id INT, total BIGINT", connector="kafka", **start)
    tables.execute_sql("INSERT INTO changes SELECT id, SUM(n) FROM plain GROUP BY id").wait()
    assert sorted(final(tables, "SELECT * FROM changes"), key=lambda row: row["id"]) == totals


def test_partition_that_lags_behind_has_no_late_rows(kafka: KafkaBroker, shared_cluster: RunningCluster) -> None:
    env = environment(shared_cluster)
    env.set_parallelism(1)
    tables = StreamTableEnvironment.create(env)
    topic = kafka.create_topic(partitions=2)
    tables.execute_sql(
        "CREATE TABLE events (part INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'kafka', "
        f"'topic' = '{topic}', 'properties.bootstrap.servers' = '{kafka.bootstrap_servers}', 'format' = 'json', "
        "'key.format' = 'raw', 'key.fields' = 'part', 'scan.startup.mode' = 'earliest-offset', "
        "'scan.bounded.mode' = 'latest-offset', 'properties.fetch.wait.max.ms' = '20')"
    )
    times = [
        f"({part}, TIMESTAMP '2024-01-0{day} 00:00:0{second}')" for part, day in ((0, 3), (5, 1)) for second in (1, 2)
    ]
    tables.execute_sql(f"INSERT INTO events VALUES {', '.join(times)}").wait()
    query = (
        "SELECT window_start, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '1' SECOND)) "
        "GROUP BY window_start, window_end"
    )

    assert "watermark=[ts], watermarkEmitStrategy=[on-periodic]" in tables.explain_sql(query)
    assert [row["n"] for row in final(tables, query)] == [1, 1, 1, 1]
