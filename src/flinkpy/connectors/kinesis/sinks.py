"""KinesisStreamsSink and KinesisFirehoseSink: write records to a stream at least once, with an AsyncWriter.

Source: org.apache.flink.connector.kinesis.sink.KinesisStreamsSink,
org.apache.flink.connector.firehose.sink.KinesisFirehoseSink,
org.apache.flink.connector.base.sink.writer.AsyncSinkWriter. Differs: a checkpoint waits until all records have been
sent. Flink stores unsent records in the checkpoint.
"""

from __future__ import annotations

import logging
import queue
import threading
import uuid
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from flinkpy.common.errors import ConfigurationError, InputFormatError, KinesisError, TypeMismatchError
from flinkpy.common.serialization import SerializationSchema
from flinkpy.connector_api.sink import SinkBase, SinkWriter, WriterContext
from flinkpy.connectors.kinesis.client import (
    check_properties,
    client_errors,
    is_retryable,
    is_retryable_code,
    kinesis_error,
    new_client,
    stream_argument,
)
from flinkpy.formats.schema import encode_batch
from flinkpy.logs.context import in_current_context
from flinkpy.records.batch import Batch

_LOG = logging.getLogger(__name__)

_FIRST_PAUSE_S = 0.05
_MAX_PAUSE_S = 2.0


@dataclass(frozen=True)
class BufferSettings:
    """The limits of an AsyncWriter's buffer and requests. Sizes are in bytes, times in milliseconds."""

    max_batch_size: int = 500
    max_in_flight_requests: int = 50
    max_buffered_requests: int = 10_000
    max_batch_size_in_bytes: int = 5 << 20
    max_time_in_buffer_ms: int = 5_000
    max_record_size_in_bytes: int = 1 << 20

    def check(self) -> None:
        """Checks all values. Raises: ConfigurationError."""
        for name, value in vars(self).items():
            if isinstance(value, bool) or not isinstance(value, int) or value <= 0:
                raise ConfigurationError(f"{name} must be an int above 0, not {value!r}")
        if self.max_buffered_requests <= self.max_batch_size:
            raise ConfigurationError(
                f"max_buffered_requests ({self.max_buffered_requests}) must be above max_batch_size "
                f"({self.max_batch_size})"
            )
        if self.max_batch_size_in_bytes < self.max_record_size_in_bytes:
            raise ConfigurationError(
                f"max_batch_size_in_bytes ({self.max_batch_size_in_bytes}) must not be below max_record_size_in_bytes "
                f"({self.max_record_size_in_bytes})"
            )


class Entry(NamedTuple):
    """A record in the form of a request, with its size in bytes."""

    request: dict[str, Any]
    size: int


class Refusal(NamedTuple):
    """The reason why the service refused the entry at `position` of a request."""

    position: int
    code: str
    message: str


class EntrySink(ABC):
    """Converts batches to entries and sends them.

    Thread: `entries_of` is called by the task thread, `send` by threads of the writer.
    """

    #: The name of the stream in errors and log lines.
    name: str

    @abstractmethod
    def entries_of(self, batch: Batch) -> list[Entry]: ...

    @abstractmethod
    def send(self, requests: list[dict[str, Any]]) -> list[Refusal]:
        """Sends one request. Returns the refused entries. Raises: errors of boto3."""


class _Answer(NamedTuple):
    entries: list[Entry]
    refusals: list[Refusal]
    error: Exception | None


class AsyncWriter(SinkWriter):
    """Sends entries in batches, in several requests at a time. Refused entries are sent again.

    Thread: task thread. Separate threads send the requests.
    """

    def __init__(self, context: WriterContext, sink: EntrySink, settings: BufferSettings, fails_on_error: bool) -> None:
        self._context = context
        self._sink = sink
        self._settings = settings
        self._fails_on_error = fails_on_error
        self._buffer: deque[Entry] = deque()
        self._bytes = 0
        self._in_flight = 0
        self._answers: queue.SimpleQueue[_Answer] = queue.SimpleQueue()
        self._executor = ThreadPoolExecutor(settings.max_in_flight_requests, thread_name_prefix=sink.name)
        self._has_timer = False
        #: The number of answers in a row that contained refusals.
        self._failures = 0
        self._closed = threading.Event()

    def write(self, batch: Batch) -> None:
        settings = self._settings
        for entry in self._sink.entries_of(batch):
            if entry.size > settings.max_record_size_in_bytes:
                raise InputFormatError(
                    f"{self._sink.name}: a record of {entry.size} bytes is longer than max_record_size_in_bytes, "
                    f"{settings.max_record_size_in_bytes}"
                )
            while len(self._buffer) >= settings.max_buffered_requests:
                self._send_one()
            self._buffer.append(entry)
            self._bytes += entry.size
            while len(self._buffer) >= settings.max_batch_size or self._bytes >= settings.max_batch_size_in_bytes:
                if self._in_flight >= settings.max_in_flight_requests and len(self._buffer) < (
                    settings.max_buffered_requests
                ):
                    break
                self._send_one()
        self._take_answers(blocking=False)
        self._schedule()

    def flush(self, end_of_input: bool) -> None:
        while self._buffer or self._in_flight:
            if self._buffer:
                self._send_one()
            else:
                self._take_answers(blocking=True)

    def close(self) -> None:
        self._closed.set()
        self._executor.shutdown(wait=True, cancel_futures=True)

    def _schedule(self) -> None:
        if not self._has_timer and (self._buffer or self._in_flight):
            self._has_timer = True
            self._context.schedule_after(self._settings.max_time_in_buffer_ms, self._on_time)

    def _on_time(self, _: int) -> None:
        self._has_timer = False
        self._take_answers(blocking=False)
        waiting = len(self._buffer)
        while waiting > 0:
            waiting -= self._send_one()
        self._schedule()

    def _send_one(self) -> int:
        """Sends a batch as soon as the number of requests allows it. Returns the number of entries in it."""
        while self._in_flight >= self._settings.max_in_flight_requests:
            self._take_answers(blocking=True)
        entries: list[Entry] = []
        size = 0
        buffer, settings = self._buffer, self._settings
        while buffer and len(entries) < settings.max_batch_size:
            if size + buffer[0].size > settings.max_batch_size_in_bytes:
                break
            entry = buffer.popleft()
            entries.append(entry)
            size += entry.size
        if entries:
            self._bytes -= size
            self._in_flight += 1
            self._executor.submit(in_current_context(self._request), entries, self._pause_s())
        return len(entries)

    def _pause_s(self) -> float:
        return min(_MAX_PAUSE_S, _FIRST_PAUSE_S * 2 ** (self._failures - 1)) if self._failures else 0.0

    def _request(self, entries: list[Entry], pause_s: float) -> None:
        """Thread: the executor's."""
        if pause_s:
            self._closed.wait(pause_s)
        try:
            answer = _Answer(entries, self._sink.send([entry.request for entry in entries]), None)
        except Exception as error:  # noqa: BLE001 - the task thread handles it
            answer = _Answer(entries, [], error)
        self._answers.put(answer)

    def _take_answers(self, blocking: bool) -> None:
        """Handles the answers that have arrived. With `blocking`, waits for at least one."""
        while self._in_flight:
            try:
                answer = self._answers.get(blocking)
            except queue.Empty:
                return
            blocking = False
            self._in_flight -= 1
            self._on_answer(answer)

    def _on_answer(self, answer: _Answer) -> None:
        name, error = self._sink.name, answer.error
        again = answer.entries
        if error is not None:
            if self._fails_on_error or not isinstance(error, client_errors()) or not is_retryable(error):
                raise kinesis_error(name, error) from error
            reason = f"{type(error).__name__}: {error}"
        elif answer.refusals:
            first = answer.refusals[0]
            reason = f"{first.code}: {first.message}"
            hopeless = next((refusal for refusal in answer.refusals if not is_retryable_code(refusal.code)), None)
            if self._fails_on_error or hopeless is not None:
                cause = hopeless or first
                text = f"{len(answer.refusals)} of {len(again)} records were refused: {cause.code}: {cause.message}"
                raise KinesisError(f"{name}: {text}", details={"code": cause.code})
            again = [again[refusal.position] for refusal in answer.refusals]
        else:
            self._failures = 0
            return
        self._failures += 1
        _LOG.warning("%s refused %d of %d records: %s; sending again", name, len(again), len(answer.entries), reason)
        self._buffer.extendleft(reversed(again))
        self._bytes += sum(entry.size for entry in again)


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
