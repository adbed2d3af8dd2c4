"""SQL programs over Kinesis, Firehose and DynamoDB, on a server of AWS's protocols that is not ours."""

from __future__ import annotations

import json
from itertools import islice
from typing import Any

import pytest
from clusters import RunningCluster
from job_support import environment

from flinkpy.common.errors import JobExecutionError
from flinkpy.connectors.aws.client import new_client
from flinkpy.table import StreamTableEnvironment, TableEnvironment

KEY = {"aws.credentials.basic.accesskeyid": "key", "aws.credentials.basic.secretkey": "secret"}


@pytest.fixture
def tables(shared_cluster: RunningCluster) -> TableEnvironment:
    return StreamTableEnvironment.create(environment(shared_cluster))


def client(service: str, endpoint: str) -> Any:
    login = {key.replace("credentials", "credentials.provider"): text for key, text in KEY.items()}
    return new_client(service, {"aws.endpoint": endpoint, "aws.region": "us-east-1", **login})


def create(tables: TableEnvironment, endpoint: str, name: str, columns: str, parts: str = "", **options: str) -> None:
    common = {"aws.region": "us-east-1", "aws.endpoint": endpoint, **KEY, **options}
    given = ", ".join(f"'{key}' = '{text}'" for key, text in common.items())
    tables.execute_sql(f"CREATE TABLE {name} ({columns}) {parts} WITH ({given})")


def test_rows_in_a_stream_are_written_and_read(tables: TableEnvironment, aws_endpoint: str) -> None:
    client("kinesis", aws_endpoint).create_stream(StreamName="orders", ShardCount=2)
    columns = "id INT, name STRING, shard STRING METADATA FROM 'shard-id' VIRTUAL"
    # The server loses records of concurrent requests, because it assigns the same sequence number twice.
    options = {"format": "json", "source.init.position": "TRIM_HORIZON", "sink.requests.max-inflight": "1"}
    stream = {"connector": "kinesis", "stream.arn": "orders", "sink.parallelism": "1", **options}
    create(tables, aws_endpoint, "orders", columns, "PARTITIONED BY (name)", **stream)
    tables.execute_sql("INSERT INTO orders VALUES (1, 'a'), (2, 'b'), (3, 'a')").wait()
    with tables.execute_sql("SELECT * FROM orders").collect() as found:
        rows = sorted(tuple(row) for row in islice(found, 3))
    assert [row[:2] for row in rows] == [(1, "a"), (2, "b"), (3, "a")]
    assert rows[0][2] == rows[2][2], "the partition key chooses the shard"


def test_delivery_stream_receives_rows(tables: TableEnvironment, aws_endpoint: str) -> None:
    s3, firehose = client("s3", aws_endpoint), client("firehose", aws_endpoint)
    s3.create_bucket(Bucket="rows")
    destination = {"RoleARN": "arn:aws:iam::123456789012:role/r", "BucketARN": "arn:aws:s3:::rows"}
    firehose.create_delivery_stream(DeliveryStreamName="rows", ExtendedS3DestinationConfiguration=destination)
    delivery = {"connector": "firehose", "delivery-stream": "rows", "format": "json"}
    create(tables, aws_endpoint, "delivered", "id INT, name STRING", **delivery)
    tables.execute_sql("INSERT INTO delivered VALUES (1, 'a'), (2, 'b')").wait()
    keys = [entry["Key"] for entry in s3.list_objects_v2(Bucket="rows")["Contents"]]
    text = "".join(s3.get_object(Bucket="rows", Key=key)["Body"].read().decode() for key in keys)
    lines = text.replace("}{", "}\n{").splitlines()
    assert sorted(json.loads(line)["id"] for line in lines) == [1, 2]


def test_items_are_put_and_deleted_by_key(tables: TableEnvironment, aws_endpoint: str) -> None:
    dynamodb = client("dynamodb", aws_endpoint)
    dynamodb.create_table(
        TableName="totals",
        KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "N"}],
        BillingMode="PAY_PER_REQUEST",
    )
    columns = (
        "id INT, total BIGINT, price DECIMAL(6, 2), seen TIMESTAMP(3), tags ARRAY<STRING>, "
        "extra MAP<STRING, DOUBLE>, missing STRING, PRIMARY KEY (id) NOT ENFORCED"
    )
    create(tables, aws_endpoint, "totals", columns, **{"connector": "dynamodb", "table-name": "totals"})
    values = ", ".join(f"({number % 40}, {number})" for number in range(200))
    tables.execute_sql(
        f"""
        INSERT INTO totals
        SELECT id, SUM(n), CAST(1.5 AS DECIMAL(6, 2)), TIMESTAMP '2024-01-02 03:04:05',
          ARRAY['x', CAST(NULL AS STRING)], MAP['y', CAST(0.5 AS DOUBLE)], CAST(NULL AS STRING)
        FROM (VALUES {values}) AS t (id, n) GROUP BY id HAVING SUM(n) < 500
        """
    ).wait()
    items = sorted(dynamodb.scan(TableName="totals")["Items"], key=lambda item: int(item["id"]["N"]))
    sums = {number: sum(range(number, 200, 40)) for number in range(40)}
    assert {int(item["id"]["N"]): int(item["total"]["N"]) for item in items} == {
        key: total for key, total in sums.items() if total < 500
    }, "rows that no longer meet the condition are deleted"
    assert items[0] == {
        "id": {"N": "0"},
        "total": {"N": "400"},
        "price": {"N": "1.50"},
        "seen": {"S": "2024-01-02T03:04:05"},
        "tags": {"L": [{"S": "x"}, {"NULL": True}]},
        "extra": {"M": {"y": {"N": "0.5"}}},
        "missing": {"NULL": True},
    }


def test_missing_table_fails_the_insert_with_its_name(tables: TableEnvironment, aws_endpoint: str) -> None:
    missing = {"connector": "dynamodb", "table-name": "nowhere", "sink.ignore-nulls": "true"}
    create(tables, aws_endpoint, "nowhere", "id INT", **missing)
    with pytest.raises(JobExecutionError, match="DynamoDB table 'nowhere': ResourceNotFoundException"):
        tables.execute_sql("INSERT INTO nowhere VALUES (1)").wait()
