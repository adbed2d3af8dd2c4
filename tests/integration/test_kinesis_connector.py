"""Programs that read and write Kinesis, and write Firehose, on a local server with the AWS protocols."""

from __future__ import annotations

import datetime
import threading
from typing import Any

import pytest

from flinkpy.common import Configuration, SimpleStringSchema, WatermarkStrategy
from flinkpy.connectors.aws.client import new_client
from flinkpy.connectors.kinesis.shards import KinesisShardAssigner
from flinkpy.connectors.kinesis.source import KinesisSource
from flinkpy.datastream import StreamExecutionEnvironment
from flinkpy.datastream.connectors.kinesis import (
    FlinkKinesisConsumer,
    KinesisFirehoseSink,
    KinesisStreamsSink,
    PartitionKeyGenerator,
)

NUMBERS = [f"{number}\n" for number in range(1200)]


@pytest.fixture(scope="module")
def properties(aws_endpoint: str) -> dict[str, str]:
    return {
        "aws.endpoint": aws_endpoint,
        "aws.region": "us-east-1",
        "aws.credentials.provider.basic.accesskeyid": "key",
        "aws.credentials.provider.basic.secretkey": "secret",
    }


def environment(parallelism: int) -> StreamExecutionEnvironment:
    env = StreamExecutionEnvironment.get_execution_environment(Configuration())
    env.set_parallelism(parallelism)
    return env


def streams_sink(properties: dict[str, str], stream: str) -> Any:
    builder = KinesisStreamsSink.builder().set_kinesis_client_properties(properties).set_stream_name(stream)
    builder.set_serialization_schema(SimpleStringSchema()).set_max_batch_size(100)
    # The server loses records of concurrent requests, because it assigns the same sequence number twice.
    builder.set_max_in_flight_requests(1)
    return builder.set_partition_key_generator(PartitionKeyGenerator.random()).build()


def read(properties: dict[str, str], stream: str, number: int) -> list[str]:
    env = environment(2)
    env.enable_checkpointing(200)
    consumer = FlinkKinesisConsumer(stream, SimpleStringSchema(), properties)
    result: Any = env.add_source(consumer).execute_and_collect(limit=number)
    return list(result)


def test_records_that_one_program_writes_to_a_stream_are_read_by_another(properties: dict[str, str]) -> None:
    client = new_client("kinesis", properties)
    client.create_stream(StreamName="numbers", ShardCount=3)
    env = environment(1)
    env.from_collection(NUMBERS).sink_to(streams_sink(properties, "numbers"))
    env.execute("write")
    from_start = properties | {"flink.stream.initpos": "TRIM_HORIZON"}
    assert sorted(read(from_start, "numbers", len(NUMBERS))) == sorted(NUMBERS)


def test_the_latest_position_starts_when_the_job_starts(properties: dict[str, str]) -> None:
    client = new_client("kinesis", properties)
    client.create_stream(StreamName="later", ShardCount=1)
    client.put_record(StreamName="later", PartitionKey="k", Data=b"before")
    env = environment(1)
    later = properties | {"flink.stream.initpos": "LATEST", "flink.shard.discovery.intervalmillis": "50"}
    stream = env.add_source(FlinkKinesisConsumer("later", SimpleStringSchema(), later))
    done = threading.Event()

    def put_until_read() -> None:
        while not done.wait(0.2):
            client.put_record(StreamName="later", PartitionKey="k", Data=b"after")

    thread = threading.Thread(target=put_until_read)
    thread.start()
    try:
        found: Any = stream.execute_and_collect(limit=2)
        assert list(found) == ["after", "after"]
    finally:
        done.set()
        thread.join()


def test_a_delivery_stream_receives_the_records(properties: dict[str, str]) -> None:
    s3 = new_client("s3", properties)
    s3.create_bucket(Bucket="delivered")
    firehose = new_client("firehose", properties)
    destination = {"RoleARN": "arn:aws:iam::123456789012:role/r", "BucketARN": "arn:aws:s3:::delivered"}
    firehose.create_delivery_stream(DeliveryStreamName="delivery", ExtendedS3DestinationConfiguration=destination)
    builder = KinesisFirehoseSink.builder().set_firehose_client_properties(properties)
    sink = builder.set_serialization_schema(SimpleStringSchema()).set_delivery_stream_name("delivery").build()
    env = environment(1)
    env.from_collection(NUMBERS).sink_to(sink)
    env.execute("deliver")
    keys = [entry["Key"] for entry in s3.list_objects_v2(Bucket="delivered")["Contents"]]
    text = "".join(s3.get_object(Bucket="delivered", Key=key)["Body"].read().decode() for key in keys)
    assert sorted(text.splitlines(keepends=True)) == sorted(NUMBERS)


class ReshardedStream:
    """The client of a fixed stream in which s0 was split into s1 and s2. moto's server cannot split shards."""

    def __init__(self, *_: object) -> None:
        self.parents = {"s0": None, "s1": "s0", "s2": "s0"}

    def list_shards(self, **_: object) -> dict[str, Any]:
        hash_keys = {"StartingHashKey": "0", "EndingHashKey": "9"}
        shards: list[dict[str, Any]] = [{"ShardId": shard, "HashKeyRange": hash_keys} for shard in self.parents]
        for listed in shards:
            if self.parents[listed["ShardId"]]:
                listed["ParentShardId"] = self.parents[listed["ShardId"]]
        return {"Shards": shards}

    def get_shard_iterator(self, ShardId: str, StartingSequenceNumber: str = "0", **_: object) -> dict[str, Any]:
        return {"ShardIterator": f"{ShardId} {StartingSequenceNumber}"}

    def get_records(self, ShardIterator: str, Limit: int) -> dict[str, Any]:
        shard, begin = ShardIterator.split()
        end = min(int(begin) + 50, 200)
        records = [
            {
                "Data": f"{shard} {number}".encode(),
                "PartitionKey": "k",
                "SequenceNumber": str(number),
                "ApproximateArrivalTimestamp": datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC),
            }
            for number in range(int(begin) + 1, end + 1)
        ]
        is_end = shard == "s0" and end == 200
        return {"Records": records, "NextShardIterator": None if is_end else f"{shard} {end}"}


def test_child_shards_are_read_after_their_parent() -> None:
    properties = {"aws.region": "x", "flink.stream.initpos": "TRIM_HORIZON"}
    assigner = KinesisShardAssigner(lambda shard, parallelism: int(shard.shard_id[1:]))
    env = environment(2)
    env.enable_checkpointing(100)
    source = KinesisSource(("stream",), SimpleStringSchema(), properties, assigner, ReshardedStream)
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "kinesis")
    read: Any = stream.execute_and_collect(limit=600)
    records = list(read)
    assert sorted(records) == sorted(f"s{shard} {number}" for shard in range(3) for number in range(1, 201))
    assert [record for record in records if record.startswith("s0")] == records[:200]
