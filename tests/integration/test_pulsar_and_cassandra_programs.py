"""Programs that read and write Pulsar, and write Cassandra, with fakes behind the interfaces of their clients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from flinkpy.common import Configuration, SimpleStringSchema, Types, WatermarkStrategy
from flinkpy.connectors.cassandra.client import CassandraClient
from flinkpy.connectors.pulsar.client import PulsarConnection, PulsarMessage, Subscription, TopicProducer
from flinkpy.connectors.pulsar.cursors import StartPosition
from flinkpy.connectors.pulsar.message_id import PulsarMessageId
from flinkpy.datastream import StreamExecutionEnvironment
from flinkpy.datastream.connectors.base import DeliveryGuarantee
from flinkpy.datastream.connectors.cassandra import CassandraSink, ClusterBuilder
from flinkpy.datastream.connectors.pulsar import PulsarSink, PulsarSource, StopCursor

PARTITIONS = ["t-partition-0", "t-partition-1", "t-partition-2"]
PER_PARTITION = 500


class TopicOfNumbers(PulsarConnection):
    """A topic of three partitions with fixed messages. Output is appended to files, one per partition."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def partitions(self, topic: str) -> list[str]:
        return PARTITIONS

    def topics(self, namespace: str) -> list[str]:
        return ["t"]

    def subscribe_at(self, partition: str, start: StartPosition, resets: bool) -> bool:
        return True

    def last_message_id(self, partition: str) -> PulsarMessageId:
        return PulsarMessageId(1, PER_PARTITION - 1)

    def subscribe(self, partition: str, ranges: Any, seek_to: PulsarMessageId | None) -> Subscription:
        return Numbers(partition, 0 if seek_to is None else seek_to.entry_id)

    def produce(self, partition: str) -> TopicProducer:
        return FileProducer(self.directory / partition)

    def close(self) -> None:
        return


class Numbers(Subscription):
    def __init__(self, partition: str, at: int) -> None:
        self.first = PARTITIONS.index(partition) * PER_PARTITION
        self.at = at

    def receive(self) -> list[PulsarMessage]:
        begin, self.at = self.at, min(self.at + 100, PER_PARTITION)
        return [
            PulsarMessage(PulsarMessageId(1, number), str(self.first + number).encode(), 0, 1000 + number)
            for number in range(begin, self.at)
        ]

    def acknowledge(self, message_ids: list[PulsarMessageId], is_cumulative: bool) -> None:
        assert is_cumulative

    def close(self) -> None:
        return


class FileProducer(TopicProducer):
    def __init__(self, path: Path) -> None:
        self.path = path

    def send_async(self, data: bytes, event_time: Any, delay_ms: Any, on_done: Callable[[str | None], None]) -> None:
        with self.path.open("ab") as file:
            file.write(data + b"\n")
        on_done(None)

    def close(self) -> None:
        return


class FileClient(CassandraClient):
    unset = None

    def __init__(self, path: Path) -> None:
        self.path = path

    def prepare(self, query: str) -> int:
        return query.count("?")

    def execute_async(self, values: Sequence[Any], on_done: Callable[[BaseException | None], None]) -> None:
        with self.path.open("a") as file:
            file.write(f"{list(values)}\n")
        on_done(None)

    def execute(self, query: str, values: Sequence[Any] = ()) -> list[Any]:
        return []

    def close(self) -> None:
        return


class FileBuilder(ClusterBuilder):
    def __init__(self, path: Path) -> None:
        super().__init__(lambda: None)
        self.path = path

    def new_client(self, consistency_level: int | None, is_traced: bool) -> CassandraClient:
        return FileClient(self.path)


def environment() -> StreamExecutionEnvironment:
    env = StreamExecutionEnvironment.get_execution_environment(Configuration())
    env.set_parallelism(2)
    env.enable_checkpointing(100)
    return env


def urls(builder: Any) -> Any:
    return builder.set_service_url("pulsar://localhost:6650").set_admin_url("http://localhost:8080")


def numbers(env: StreamExecutionEnvironment, directory: Path) -> Any:
    builder = urls(PulsarSource.builder()).set_subscription_name("s").set_topics("t")
    builder.set_deserialization_schema(SimpleStringSchema()).set_bounded_stop_cursor(StopCursor.latest())
    source = builder.build()
    source.make_connection = lambda _: TopicOfNumbers(directory)
    return env.from_source(source, WatermarkStrategy.no_watermarks(), "pulsar")


ALL = sorted(range(len(PARTITIONS) * PER_PARTITION))


def test_a_bounded_topic_is_read_once_and_written_to_another(tmp_path: Path) -> None:
    env = environment()
    builder = urls(PulsarSink.builder()).set_topics("t").set_serialization_schema(SimpleStringSchema())
    sink = builder.set_delivery_guarantee(DeliveryGuarantee.AT_LEAST_ONCE).build()
    sink.make_connection = lambda _: TopicOfNumbers(tmp_path)
    numbers(env, tmp_path).sink_to(sink)
    env.execute("pulsar")
    assert sorted(int(line) for path in tmp_path.iterdir() for line in path.read_text().splitlines()) == ALL


@pytest.mark.parametrize("has_log", [pytest.param(False, marks=pytest.mark.chaos), True])
def test_rows_are_written_to_cassandra_at_once_or_with_their_checkpoint(tmp_path: Path, has_log: bool) -> None:
    path = tmp_path / "rows"
    env = environment()
    row_type = Types.TUPLE([Types.STRING(), Types.INT()])
    stream = numbers(env, tmp_path).map(lambda text: (text, int(text)), output_type=row_type)
    builder = CassandraSink.add_sink(stream).set_query("INSERT INTO k.t (a, b) VALUES (?, ?)")
    builder.set_cluster_builder(FileBuilder(path))
    if has_log:
        builder.enable_write_ahead_log()
    builder.build().set_parallelism(1).name("rows")
    env.execute("cassandra")
    assert sorted(path.read_text().splitlines(), key=lambda line: int(line.split("'")[1])) == [
        f"['{number}', {number}]" for number in ALL
    ]
