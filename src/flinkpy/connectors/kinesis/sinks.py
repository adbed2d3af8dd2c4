"""KinesisStreamsSink and KinesisFirehoseSink: write records to a stream at least once, with an AsyncWriter.

Source: org.apache.flink.connector.kinesis.sink.KinesisStreamsSink,
org.apache.flink.connector.firehose.sink.KinesisFirehoseSink.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from flinkpy.common.errors import ConfigurationError, FlinkError, KinesisError, TypeMismatchError
from flinkpy.common.serialization import SerializationSchema
from flinkpy.connector_api.sink import SinkBase, SinkWriter, WriterContext
from flinkpy.connectors.aws.async_writer import AsyncWriter, BufferSettings, Entry, EntrySink, Refusal
from flinkpy.connectors.aws.client import check_properties, new_client
from flinkpy.connectors.kinesis.requests import stream_argument
from flinkpy.formats.schema import encode_batch
from flinkpy.records.batch import Batch


class PartitionKeyGenerator:
    """Returns the partition key of a record, which determines its shard.

    Args:
        j_partition_key_generator: a callable `(record) -> str`.

    Example:
        >>> generator = PartitionKeyGenerator(lambda order: order["customer"])
    """

    def __init__(self, j_partition_key_generator: Any) -> None:
        if not callable(j_partition_key_generator):
            raise TypeError(
                f"{j_partition_key_generator!r} is not a callable (record) -> str; flinkpy has no JVM and cannot use a "
                "generator written in Java"
            )
        self._key_of = j_partition_key_generator

    def keys_of(self, batch: Batch, context: WriterContext) -> list[str]:
        """Returns one key per record. Raises: TypeMismatchError if a key is not a str."""
        from flinkpy.records.lanes import rows_of

        keys = [self._key_of(record) for record in rows_of(batch, context.input_type)]
        for key in keys:
            if not isinstance(key, str):
                raise TypeMismatchError(f"a partition key must be a str, not {key!r}")
        return keys

    @staticmethod
    def fixed() -> PartitionKeyGenerator:
        """Returns a generator that uses the subtask's number. All records of a subtask go to one shard."""
        return _Fixed(str)

    @staticmethod
    def random() -> PartitionKeyGenerator:
        """Returns a generator of random keys, which distribute the records evenly."""
        return _Random(str)


class _Fixed(PartitionKeyGenerator):
    def keys_of(self, batch: Batch, context: WriterContext) -> list[str]:
        return [str(context.subtask_index)] * batch.num_rows


class _Random(PartitionKeyGenerator):
    def keys_of(self, batch: Batch, context: WriterContext) -> list[str]:
        return [str(uuid.uuid4()) for _ in range(batch.num_rows)]


class KinesisStreamsSink(SinkBase):
    """Writes records to a Kinesis data stream. Create it with `KinesisStreamsSink.builder()`."""

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
    def builder() -> KinesisStreamsSinkBuilder:
        return KinesisStreamsSinkBuilder()

    def create_writer(self, context: WriterContext) -> SinkWriter:
        client = self.make_client("kinesis", self.properties, self.settings.max_in_flight_requests)
        return AsyncWriter(context, _StreamEntries(self, client, context), self.settings, self.fails_on_error)


class KinesisFirehoseSink(SinkBase):
    """Writes records to a Firehose delivery stream. Create it with `KinesisFirehoseSink.builder()`."""

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
    def builder() -> KinesisFirehoseSinkBuilder:
        return KinesisFirehoseSinkBuilder()

    def create_writer(self, context: WriterContext) -> SinkWriter:
        client = self.make_client("firehose", self.properties, self.settings.max_in_flight_requests)
        return AsyncWriter(context, _FirehoseEntries(self, client, context), self.settings, self.fails_on_error)


class _KinesisEntries(EntrySink):
    """The entries of both sinks."""

    def failure(self, reason: str, code: str) -> FlinkError:
        return KinesisError(f"{self.name}: {reason}", details={"code": code})


class _StreamEntries(_KinesisEntries):
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


class _FirehoseEntries(_KinesisEntries):
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


class _BufferSetters:
    """The settings of buffers and requests that both sinks have."""

    def __init__(self, settings: BufferSettings) -> None:
        self._settings = settings
        self._schema: SerializationSchema | None = None
        self._fails_on_error = False
        self._properties: dict[str, str] = {}
        self._stream: str | None = None

    def _set(self, **values: int) -> None:
        self._settings = replace(self._settings, **values)

    def _check(self, stream: str) -> tuple[str, SerializationSchema]:
        if not self._stream:
            raise ConfigurationError(f"The {stream} must be set when initializing the sink.")
        if self._schema is None:
            raise ConfigurationError("The serialization schema must be set: call set_serialization_schema")
        check_properties(self._properties)
        self._settings.check()
        return self._stream, self._schema


class KinesisStreamsSinkBuilder(_BufferSetters):
    """Builds a sink of a data stream. Stream name, schema, partition keys and a region are required."""

    def __init__(self) -> None:
        super().__init__(BufferSettings())
        self._key_generator: PartitionKeyGenerator | None = None

    def set_stream_name(self, stream_name: str | list[str]) -> KinesisStreamsSinkBuilder:
        """Sets the stream by its name or ARN."""
        names = [stream_name] if isinstance(stream_name, str) else list(stream_name)
        if len(names) != 1:
            raise ValueError(f"A sink writes to exactly one stream, not to {names}")
        self._stream = names[0]
        return self

    def set_serialization_schema(self, serialization_schema: SerializationSchema) -> KinesisStreamsSinkBuilder:
        self._schema = serialization_schema
        return self

    def set_partition_key_generator(self, partition_key_generator: PartitionKeyGenerator) -> KinesisStreamsSinkBuilder:
        if not isinstance(partition_key_generator, PartitionKeyGenerator):
            raise TypeError(f"{partition_key_generator!r} is not a PartitionKeyGenerator")
        self._key_generator = partition_key_generator
        return self

    def set_fail_on_error(self, fail_on_error: bool) -> KinesisStreamsSinkBuilder:
        """Sets if every failed record fails the job.

        By default throttled records are sent again, and only records that can never succeed fail the job.
        """
        self._fails_on_error = fail_on_error
        return self

    def set_kinesis_client_properties(self, kinesis_client_properties: dict[str, Any]) -> KinesisStreamsSinkBuilder:
        self._properties = text_properties(kinesis_client_properties)
        return self

    def set_max_batch_size(self, max_batch_size: int) -> KinesisStreamsSinkBuilder:
        """Sets the number of records of a request. Kinesis allows 500."""
        self._set(max_batch_size=max_batch_size)
        return self

    def set_max_in_flight_requests(self, max_in_flight_requests: int) -> KinesisStreamsSinkBuilder:
        """Sets the number of unanswered requests above which the task waits."""
        self._set(max_in_flight_requests=max_in_flight_requests)
        return self

    def set_max_buffered_requests(self, max_buffered_requests: int) -> KinesisStreamsSinkBuilder:
        """Sets the number of buffered records above which the task waits."""
        self._set(max_buffered_requests=max_buffered_requests)
        return self

    def set_max_batch_size_in_bytes(self, max_batch_size_in_bytes: int) -> KinesisStreamsSinkBuilder:
        self._set(max_batch_size_in_bytes=max_batch_size_in_bytes)
        return self

    def set_max_time_in_buffer_ms(self, max_time_in_buffer_ms: int) -> KinesisStreamsSinkBuilder:
        self._set(max_time_in_buffer_ms=max_time_in_buffer_ms)
        return self

    def set_max_record_size_in_bytes(self, max_record_size_in_bytes: int) -> KinesisStreamsSinkBuilder:
        """Sets the size in bytes above which a record fails the job."""
        self._set(max_record_size_in_bytes=max_record_size_in_bytes)
        return self

    def build(self) -> KinesisStreamsSink:
        """Returns the sink. Raises: ConfigurationError if a setting is missing, or settings conflict."""
        stream, schema = self._check("stream name")
        if self._key_generator is None:
            raise ConfigurationError("The partition key generator must be set: call set_partition_key_generator")
        return KinesisStreamsSink(
            stream, schema, self._key_generator, self._properties, self._settings, self._fails_on_error
        )


class KinesisFirehoseSinkBuilder(_BufferSetters):
    """Builds a sink of a delivery stream. Delivery stream name, schema and a region are required."""

    def __init__(self) -> None:
        super().__init__(BufferSettings(max_batch_size_in_bytes=4 << 20, max_record_size_in_bytes=1000 << 10))

    def set_delivery_stream_name(self, delivery_stream_name: str) -> KinesisFirehoseSinkBuilder:
        self._stream = delivery_stream_name
        return self

    def set_serialization_schema(self, serialization_schema: SerializationSchema) -> KinesisFirehoseSinkBuilder:
        self._schema = serialization_schema
        return self

    def set_fail_on_error(self, fail_on_error: bool) -> KinesisFirehoseSinkBuilder:
        """Sets if every failed record fails the job, as for KinesisStreamsSink."""
        self._fails_on_error = fail_on_error
        return self

    def set_firehose_client_properties(self, firehose_client_properties: dict[str, Any]) -> KinesisFirehoseSinkBuilder:
        self._properties = text_properties(firehose_client_properties)
        return self

    def set_max_batch_size(self, max_batch_size: int) -> KinesisFirehoseSinkBuilder:
        self._set(max_batch_size=max_batch_size)
        return self

    def set_max_in_flight_requests(self, max_in_flight_requests: int) -> KinesisFirehoseSinkBuilder:
        self._set(max_in_flight_requests=max_in_flight_requests)
        return self

    def set_max_buffered_requests(self, max_buffered_requests: int) -> KinesisFirehoseSinkBuilder:
        self._set(max_buffered_requests=max_buffered_requests)
        return self

    def set_max_batch_size_in_bytes(self, max_batch_size_in_bytes: int) -> KinesisFirehoseSinkBuilder:
        self._set(max_batch_size_in_bytes=max_batch_size_in_bytes)
        return self

    def set_max_time_in_buffer_ms(self, max_time_in_buffer_ms: int) -> KinesisFirehoseSinkBuilder:
        self._set(max_time_in_buffer_ms=max_time_in_buffer_ms)
        return self

    def set_max_record_size_in_bytes(self, max_record_size_in_bytes: int) -> KinesisFirehoseSinkBuilder:
        self._set(max_record_size_in_bytes=max_record_size_in_bytes)
        return self

    def build(self) -> KinesisFirehoseSink:
        """Returns the sink. Raises: ConfigurationError if a setting is missing, or settings conflict."""
        stream, schema = self._check("delivery stream name")
        return KinesisFirehoseSink(stream, schema, self._properties, self._settings, self._fails_on_error)


def text_properties(properties: dict[str, Any]) -> dict[str, str]:
    """Returns properties with all values as text."""
    return {key: str(value) for key, value in properties.items()}
