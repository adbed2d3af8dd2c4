"""The source and the sinks of Amazon Kinesis: PyFlink's `pyflink.datastream.connectors.kinesis`.

It needs `pip install 'flinkpy[kinesis]'`. Properties have Flink's keys: `aws.region`, `aws.endpoint`,
`aws.credentials.provider...`, `flink.stream.initpos`, `flink.shard...`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from flinkpy.common.errors import ConfigurationError
from flinkpy.common.serialization import DeserializationSchema, SerializationSchema
from flinkpy.common.time import Duration
from flinkpy.common.watermark_strategy import WatermarkStrategy
from flinkpy.connectors.kinesis.client import check_properties
from flinkpy.connectors.kinesis.deserialization import KinesisDeserializationSchema
from flinkpy.connectors.kinesis.shards import KinesisShardAssigner
from flinkpy.connectors.kinesis.sinks import (
    BufferSettings,
    KinesisFirehoseSink,
    KinesisStreamsSink,
    PartitionKeyGenerator,
)
from flinkpy.connectors.kinesis.source import (
    SHARD_IDLE_INTERVAL,
    WATERMARK_LOOKAHEAD,
    WATERMARK_SYNC_INTERVAL,
    KinesisSource,
    int_property,
)
from flinkpy.connectors.source_function import SourceFunction

__all__ = [
    "FlinkKinesisConsumer",
    "KinesisDeserializationSchema",
    "KinesisFirehoseSink",
    "KinesisFirehoseSinkBuilder",
    "KinesisShardAssigner",
    "KinesisStreamsSink",
    "KinesisStreamsSinkBuilder",
    "PartitionKeyGenerator",
    "WatermarkTracker",
]


class WatermarkTracker:
    """Makes sources wait that are ahead of others with the same tracker (watermark alignment)."""

    def __init__(self, j_watermark_tracker: str) -> None:
        self.aggregate_name = j_watermark_tracker

    @staticmethod
    def job_manager_watermark_tracker(
        aggregate_name: str, log_accumulator_interval_millis: int = -1
    ) -> WatermarkTracker:
        """Returns a tracker.

        Args:
            aggregate_name: the name of the tracker.
            log_accumulator_interval_millis: has no effect: watermarks are metrics.
        """
        return WatermarkTracker(aggregate_name)


class FlinkKinesisConsumer(SourceFunction):
    """Reads Kinesis streams exactly once, also while they are resharded, for `add_source`.

    Args:
        streams: the name or the ARN of a stream, or a list of them.
        deserializer: deserializes the records.
        config_props: the properties. By default it reads records that arrive after the start of the job
            (`flink.stream.initpos` LATEST).
    """

    def __init__(
        self,
        streams: str | list[str],
        deserializer: DeserializationSchema | KinesisDeserializationSchema,
        config_props: dict[str, Any],
    ) -> None:
        super().__init__()
        self._streams = (streams,) if isinstance(streams, str) else tuple(streams)
        self._schema = deserializer
        self._properties = _texts(config_props)
        self._assigner = KinesisShardAssigner.default_shard_assigner()
        self._strategy: WatermarkStrategy | None = None
        self._tracker: WatermarkTracker | None = None
        self.to_source()

    def set_shard_assigner(self, shard_assigner: KinesisShardAssigner) -> FlinkKinesisConsumer:
        if not hasattr(shard_assigner, "assign"):
            raise TypeError(f"{shard_assigner!r} is not a KinesisShardAssigner")
        self._assigner = shard_assigner
        return self

    def set_periodic_watermark_assigner(self, periodic_watermark_assigner: Any) -> FlinkKinesisConsumer:
        """Sets the timestamps and watermarks of each shard.

        Args:
            periodic_watermark_assigner: a WatermarkStrategy. Java's assigners cannot run here.
        """
        if not isinstance(periodic_watermark_assigner, WatermarkStrategy):
            raise TypeError(f"{periodic_watermark_assigner!r} is not a WatermarkStrategy")
        self._strategy = periodic_watermark_assigner
        return self

    def set_watermark_tracker(self, watermark_tracker: WatermarkTracker) -> FlinkKinesisConsumer:
        """Makes this source wait if it is more than `flink.watermark.lookahead.millis` ahead. It needs watermarks."""
        if not isinstance(watermark_tracker, WatermarkTracker):
            raise TypeError(f"{watermark_tracker!r} is not a WatermarkTracker")
        self._tracker = watermark_tracker
        return self

    @property
    def watermark_strategy(self) -> WatermarkStrategy | None:
        """The watermark strategy that `add_source` uses; None for no watermarks."""
        strategy = self._strategy
        if strategy is None:
            return None
        idle_ms = int_property(self._properties, SHARD_IDLE_INTERVAL, -1, -1)
        if idle_ms > 0:
            strategy = strategy.with_idleness(Duration.of_millis(idle_ms))
        if self._tracker is not None:
            lookahead = Duration.of_millis(int_property(self._properties, WATERMARK_LOOKAHEAD, 0))
            interval = Duration.of_millis(int_property(self._properties, WATERMARK_SYNC_INTERVAL, 30_000, 1))
            strategy = strategy.with_watermark_alignment(self._tracker.aggregate_name, lookahead, interval)
        return strategy

    def to_source(self) -> KinesisSource:
        return KinesisSource(self._streams, self._schema, self._properties, self._assigner)


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
        self._properties = _texts(kinesis_client_properties)
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
        self._properties = _texts(firehose_client_properties)
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


def _texts(properties: dict[str, Any]) -> dict[str, str]:
    return {key: str(value) for key, value in properties.items()}
