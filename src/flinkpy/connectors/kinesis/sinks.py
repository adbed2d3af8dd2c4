"""KinesisStreamsSink and KinesisFirehoseSink: records into a stream, at least once.

Source: org.apache.flink.connector.kinesis.sink.KinesisStreamsSink,
org.apache.flink.connector.firehose.sink.KinesisFirehoseSink.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from typing import Any

from flinkpy.common.errors import TypeMismatchError
from flinkpy.connector_api.sink import SinkBase, SinkWriter, WriterContext
from flinkpy.connectors.kinesis.async_writer import AsyncWriter, BufferSettings, Entry, EntrySink, Refusal
from flinkpy.connectors.kinesis.client import new_client, stream_argument
from flinkpy.formats.schema import encode_batch
from flinkpy.records.batch import Batch


class PartitionKeyGenerator:
    """The key of a record, which decides its shard. Also a callable: `PartitionKeyGenerator(lambda record: "key")`."""

    def __init__(self, j_partition_key_generator: Any) -> None:
        if not callable(j_partition_key_generator):
            raise TypeError(
                f"{j_partition_key_generator!r} is not a callable (record) -> str; flinkpy has no JVM for a generator "
                "of Java"
            )
        self._key_of = j_partition_key_generator

    def keys_of(self, batch: Batch, context: WriterContext) -> list[str]:
        """Raises: TypeMismatchError."""
        from flinkpy.records.lanes import rows_of

        keys = [self._key_of(record) for record in rows_of(batch, context.input_type)]
        for key in keys:
            if not isinstance(key, str):
                raise TypeMismatchError(f"a partition key is a str, not {key!r}")
        return keys

    @staticmethod
    def fixed() -> PartitionKeyGenerator:
        """The number of the subtask: all its records go to one shard."""
        return _Fixed(str)

    @staticmethod
    def random() -> PartitionKeyGenerator:
        return _Random(str)


class _Fixed(PartitionKeyGenerator):
    def keys_of(self, batch: Batch, context: WriterContext) -> list[str]:
        return [str(context.subtask_index)] * batch.num_rows


class _Random(PartitionKeyGenerator):
    def keys_of(self, batch: Batch, context: WriterContext) -> list[str]:
        return [str(uuid.uuid4()) for _ in range(batch.num_rows)]


class KinesisStreamsSink(SinkBase):
    """Built with `KinesisStreamsSink.builder()`."""

    def __init__(
        self,
        j_kinesis_streams_sink: str,
        schema: Any,
        key_generator: PartitionKeyGenerator,
        properties: Mapping[str, str],
        settings: BufferSettings,
        fails_on_error: bool,
        make_client: Callable[..., Any] = new_client,
    ) -> None:
        self.stream = j_kinesis_streams_sink
        self.schema = schema
        self.key_generator = key_generator
        self.properties = dict(properties)
        self.settings = settings
        self.fails_on_error = fails_on_error
        self.make_client = make_client

    @staticmethod
    def builder() -> Any:
        from flinkpy.datastream.connectors.kinesis import KinesisStreamsSinkBuilder

        return KinesisStreamsSinkBuilder()

    def create_writer(self, context: WriterContext) -> SinkWriter:
        client = self.make_client("kinesis", self.properties, self.settings.max_in_flight_requests)
        return AsyncWriter(context, _StreamEntries(self, client, context), self.settings, self.fails_on_error)


class KinesisFirehoseSink(SinkBase):
    """Built with `KinesisFirehoseSink.builder()`."""

    def __init__(
        self,
        j_kinesis_firehose_sink: str,
        schema: Any,
        properties: Mapping[str, str],
        settings: BufferSettings,
        fails_on_error: bool,
        make_client: Callable[..., Any] = new_client,
    ) -> None:
        self.stream = j_kinesis_firehose_sink
        self.schema = schema
        self.properties = dict(properties)
        self.settings = settings
        self.fails_on_error = fails_on_error
        self.make_client = make_client

    @staticmethod
    def builder() -> Any:
        from flinkpy.datastream.connectors.kinesis import KinesisFirehoseSinkBuilder

        return KinesisFirehoseSinkBuilder()

    def create_writer(self, context: WriterContext) -> SinkWriter:
        client = self.make_client("firehose", self.properties, self.settings.max_in_flight_requests)
        return AsyncWriter(context, _FirehoseEntries(self, client, context), self.settings, self.fails_on_error)


class _StreamEntries(EntrySink):
    def __init__(self, sink: KinesisStreamsSink, client: Any, context: WriterContext) -> None:
        self.name = f"Kinesis stream {sink.stream!r}"
        self._sink = sink
        self._client = client
        self._context = context

    def entries_of(self, batch: Batch) -> list[Entry]:
        keys = self._sink.key_generator.keys_of(batch, self._context)
        messages = encode_batch(self._sink.schema, batch, self._context.input_type)
        return [
            Entry({"Data": message, "PartitionKey": key}, len(message))
            for message, key in zip(messages, keys)
            if message is not None
        ]

    def send(self, requests: list[dict[str, Any]]) -> list[Refusal]:
        answer = self._client.put_records(Records=requests, **stream_argument(self._sink.stream))
        return _refusals(answer.get("FailedRecordCount"), answer["Records"])


class _FirehoseEntries(EntrySink):
    def __init__(self, sink: KinesisFirehoseSink, client: Any, context: WriterContext) -> None:
        self.name = f"Firehose stream {sink.stream!r}"
        self._sink = sink
        self._client = client
        self._context = context

    def entries_of(self, batch: Batch) -> list[Entry]:
        messages = encode_batch(self._sink.schema, batch, self._context.input_type)
        return [Entry({"Data": message}, len(message)) for message in messages if message is not None]

    def send(self, requests: list[dict[str, Any]]) -> list[Refusal]:
        answer = self._client.put_record_batch(DeliveryStreamName=self._sink.stream, Records=requests)
        return _refusals(answer["FailedPutCount"], answer["RequestResponses"])


def _refusals(number: int | None, answers: list[dict[str, Any]]) -> list[Refusal]:
    if not number:
        return []
    return [
        Refusal(index, answer["ErrorCode"], answer.get("ErrorMessage", ""))
        for index, answer in enumerate(answers)
        if answer.get("ErrorCode")
    ]
