"""FlinkKafkaConsumer and FlinkKafkaProducer: the older API, for programs that use `add_source` and `add_sink`.

Source: pyflink.datastream.connectors.kafka. Differs: they are built on KafkaSource and KafkaSink, and have the same
state and guarantees.
"""

from __future__ import annotations

import warnings
from enum import Enum
from typing import Any

from flinkpy.common.serialization import DeserializationSchema, SerializationSchema
from flinkpy.common.typeinfo import TypeInformation
from flinkpy.connectors.kafka.client import COMMIT_OFFSETS_ON_CHECKPOINT, PARTITION_DISCOVERY_INTERVAL
from flinkpy.connectors.kafka.offsets import KafkaOffsetResetStrategy, KafkaOffsetsInitializer
from flinkpy.connectors.kafka.serialization import BuiltSchema, FlinkFixedPartitioner
from flinkpy.connectors.kafka.sink import LOG_FAILURES_ONLY, KafkaSink
from flinkpy.connectors.kafka.source import KafkaSource
from flinkpy.connectors.sink_function import SinkFunction
from flinkpy.connectors.source_function import SourceFunction
from flinkpy.datastream.connectors.base import DeliveryGuarantee
from flinkpy.formats.schema import produced_type_of

__all__ = ["FlinkKafkaConsumer", "FlinkKafkaConsumerBase", "FlinkKafkaProducer", "FlinkKafkaProducerBase", "Semantic"]

#: The older name of `partition.discovery.interval.ms`. Without it partitions are not discovered.
_DISCOVERY = "flink.partition-discovery.interval-millis"
#: A producer property of flinkpy: the prefix of transactional ids.
TRANSACTIONAL_ID_PREFIX = "transactional.id.prefix"
_RESET = {
    "latest": KafkaOffsetResetStrategy.LATEST,
    "largest": KafkaOffsetResetStrategy.LATEST,
    "earliest": KafkaOffsetResetStrategy.EARLIEST,
    "smallest": KafkaOffsetResetStrategy.EARLIEST,
    "none": KafkaOffsetResetStrategy.NONE,
    "error": KafkaOffsetResetStrategy.NONE,
}


class FlinkKafkaConsumerBase(SourceFunction):
    """Reads topics. By default it starts from the group's offsets, or without any by `auto.offset.reset` (latest)."""

    def __init__(
        self, topics: str | list[str], deserialization_schema: DeserializationSchema, properties: dict[str, str]
    ) -> None:
        super().__init__()
        self._topics = [topics] if isinstance(topics, str) else list(topics)
        self._schema = deserialization_schema
        self._properties = {key: str(value) for key, value in properties.items()}
        self._starting_offsets: KafkaOffsetsInitializer | None = None
        self._commits_offsets = True

    def set_commit_offsets_on_checkpoints(self, commit_on_checkpoints: bool) -> FlinkKafkaConsumerBase:
        """Sets if completed checkpoints commit offsets to the group. They serve other programs, not recovery."""
        self._commits_offsets = commit_on_checkpoints
        return self

    def set_start_from_earliest(self) -> FlinkKafkaConsumerBase:
        self._starting_offsets = KafkaOffsetsInitializer.earliest()
        return self

    def set_start_from_latest(self) -> FlinkKafkaConsumerBase:
        self._starting_offsets = KafkaOffsetsInitializer.latest()
        return self

    def set_start_from_timestamp(self, startup_offsets_timestamp: int) -> FlinkKafkaConsumerBase:
        """Starts from the first records at or after a time, in milliseconds since the epoch."""
        self._starting_offsets = KafkaOffsetsInitializer.timestamp(startup_offsets_timestamp)
        return self

    def set_start_from_group_offsets(self) -> FlinkKafkaConsumerBase:
        self._starting_offsets = None
        return self

    def disable_filter_restored_partitions_with_subscribed_topics(self) -> FlinkKafkaConsumerBase:
        """Has no effect: restored partitions are always read, whatever the topics are now."""
        return self

    def get_produced_type(self) -> TypeInformation:
        return produced_type_of(self._schema)

    def to_source(self) -> KafkaSource:
        properties = dict(self._properties)
        reset = properties.pop("auto.offset.reset", "latest").lower()
        if reset not in _RESET:
            raise ValueError(f"auto.offset.reset must be one of {', '.join(_RESET)}, not {reset!r}")
        starting = self._starting_offsets
        if starting is None:
            if "group.id" not in properties:
                raise ValueError("FlinkKafkaConsumer: starting from group offsets needs the property group.id")
            starting = KafkaOffsetsInitializer.committed_offsets(_RESET[reset])
        properties[PARTITION_DISCOVERY_INTERVAL] = properties.pop(_DISCOVERY, "-1")
        if "group.id" in properties:
            properties[COMMIT_OFFSETS_ON_CHECKPOINT] = str(self._commits_offsets).lower()
        return (
            KafkaSource.builder()
            .set_properties(properties)
            .set_topics(*self._topics)
            .set_starting_offsets(starting)
            .set_value_only_deserializer(self._schema)
            .build()
        )


class FlinkKafkaConsumer(FlinkKafkaConsumerBase):
    """Reads Kafka topics. Deprecated: use KafkaSource.

    Args:
        topics: the name of a topic, or a list of names.
        deserialization_schema: deserializes the values of the messages.
        properties: the properties of the Kafka consumer, such as `bootstrap.servers` and `group.id`.
    """

    def __init__(
        self, topics: str | list[str], deserialization_schema: DeserializationSchema, properties: dict[str, str]
    ) -> None:
        warnings.warn("Deprecated in 1.16. Use KafkaSource instead.", DeprecationWarning, stacklevel=2)
        super().__init__(topics, deserialization_schema, properties)


class Semantic(Enum):
    """The guarantee of a FlinkKafkaProducer. KafkaSink has DeliveryGuarantee instead."""

    EXACTLY_ONCE = (0,)
    AT_LEAST_ONCE = (1,)
    NONE = 2


class FlinkKafkaProducerBase(SinkFunction):
    """The settings of a FlinkKafkaProducer."""

    def __init__(
        self,
        topic: str,
        serialization_schema: SerializationSchema,
        producer_config: dict[str, str],
        semantic: Semantic,
    ) -> None:
        super().__init__()
        self._topic = topic
        self._schema = serialization_schema
        self._properties = {key: str(value) for key, value in producer_config.items()}
        self._semantic = semantic
        self._logs_failures_only = False
        self._flushes_on_checkpoint = True
        self._writes_timestamps = False
        self._ignores_timeouts = False

    def set_log_failures_only(self, log_failures_only: bool) -> FlinkKafkaProducerBase:
        """Sets if records that Kafka rejects are logged and skipped."""
        self._logs_failures_only = log_failures_only
        return self

    def set_flush_on_checkpoint(self, flush_on_checkpoint: bool) -> FlinkKafkaProducerBase:
        """Sets if a checkpoint waits until Kafka has stored all records. Without it there is no guarantee."""
        self._flushes_on_checkpoint = flush_on_checkpoint
        return self

    def set_write_timestamp_to_kafka(self, write_timestamp_to_kafka: bool) -> FlinkKafkaProducerBase:
        """Sets if the messages get the records' event times. Otherwise they get the time of writing."""
        self._writes_timestamps = write_timestamp_to_kafka
        return self


class FlinkKafkaProducer(FlinkKafkaProducerBase):
    """Writes to a Kafka topic. Deprecated: use KafkaSink.

    All records of a subtask go to one partition (FlinkFixedPartitioner).

    Args:
        topic: the name of the topic.
        serialization_schema: serializes the records to the values of the messages.
        producer_config: the properties of the Kafka producer, such as `bootstrap.servers`. Jobs that write to the same
            topic exactly once need a different `transactional.id.prefix` each.
        kafka_producer_pool_size: has no effect: there is a transaction for every checkpoint.
        semantic: the guarantee.
    """

    def __init__(
        self,
        topic: str,
        serialization_schema: SerializationSchema,
        producer_config: dict[str, str],
        kafka_producer_pool_size: int = 5,
        semantic: Semantic = Semantic.AT_LEAST_ONCE,
    ) -> None:
        super().__init__(topic, serialization_schema, producer_config, semantic)
        if not isinstance(semantic, Semantic):
            raise TypeError(f"{semantic!r} is not a Semantic")
        self._producer_pool_size = kafka_producer_pool_size

    def ignore_failures_after_transaction_timeout(self) -> FlinkKafkaProducer:
        """Continues if Kafka has rolled back a transaction of the restored checkpoint. Its records are lost."""
        self._ignores_timeouts = True
        return self

    def to_sink(self) -> KafkaSink:
        properties: dict[str, Any] = dict(self._properties)
        prefix = properties.pop(TRANSACTIONAL_ID_PREFIX, f"FlinkKafkaProducer-{self._topic}")
        guarantee = DeliveryGuarantee[self._semantic.name]
        if guarantee is DeliveryGuarantee.AT_LEAST_ONCE and not self._flushes_on_checkpoint:
            guarantee = DeliveryGuarantee.NONE
        schema = BuiltSchema(
            self._topic, None, None, self._schema, FlinkFixedPartitioner(), writes_timestamps=self._writes_timestamps
        )
        builder = KafkaSink.builder().set_record_serializer(schema).set_delivery_guarantee(guarantee)
        for key, value in properties.items():
            builder.set_property(key, value)
        if self._logs_failures_only:
            builder.set_property(LOG_FAILURES_ONLY, "true")
        if self._ignores_timeouts:
            builder.ignore_failures_after_transaction_timeout()
        return builder.set_transactional_id_prefix(prefix).build()
