"""KafkaSource: reads topics of Apache Kafka, each record once.

Source: org.apache.flink.connector.kafka.source.KafkaSource, pyflink.datastream.connectors.kafka.
"""

from __future__ import annotations

import logging
import random
from typing import TYPE_CHECKING, Any

from flinkpy.common.errors import ConfigurationError, InternalError
from flinkpy.common.serialization import DeserializationSchema
from flinkpy.connector_api.serializer import SimpleVersionedSerializer
from flinkpy.connector_api.source import (
    Boundedness,
    SourceBase,
    SourceReader,
    SourceReaderContext,
    SplitEnumerator,
    SplitEnumeratorContext,
)
from flinkpy.connectors.kafka.client import (
    CLIENT_ID_PREFIX,
    COMMIT_OFFSETS_ON_CHECKPOINT,
    PARTITION_DISCOVERY_INTERVAL,
    boolean_property,
    client_settings,
    int_property,
)
from flinkpy.connectors.kafka.offsets import KafkaOffsetResetStrategy, KafkaOffsetsInitializer, NoStoppingOffsets
from flinkpy.connectors.kafka.partitions import (
    KafkaPartitionSplitSerializer,
    KafkaSourceEnumStateSerializer,
    KafkaTopicPartition,
)
from flinkpy.connectors.kafka.subscriber import (
    KafkaSubscriber,
    PartitionSetSubscriber,
    TopicListSubscriber,
    TopicPatternSubscriber,
)

if TYPE_CHECKING:
    from flinkpy.connectors.kafka.deserialization import KafkaRecordDeserializationSchema
    from flinkpy.connectors.kafka.enumerator import PartitionDiscovery

_LOG = logging.getLogger(__name__)

#: Flink's default.
DEFAULT_DISCOVERY_INTERVAL_MS = 300_000
_RESET = {
    KafkaOffsetResetStrategy.EARLIEST: "earliest",
    KafkaOffsetResetStrategy.LATEST: "latest",
    KafkaOffsetResetStrategy.NONE: "error",
}


class KafkaSource(SourceBase):
    """Built with `KafkaSource.builder()`. The records' timestamps are those of Kafka."""

    def __init__(
        self,
        properties: dict[str, str],
        subscriber: KafkaSubscriber,
        starting_offsets: KafkaOffsetsInitializer,
        stopping_offsets: KafkaOffsetsInitializer,
        boundedness: Boundedness,
        deserializer: KafkaRecordDeserializationSchema | None,
    ) -> None:
        self._properties = properties
        self._subscriber = subscriber
        self._starting_offsets = starting_offsets
        self._stopping_offsets = stopping_offsets
        self._boundedness = boundedness
        self._deserializer = deserializer

    @staticmethod
    def builder() -> KafkaSourceBuilder:
        return KafkaSourceBuilder()

    @property
    def boundedness(self) -> Boundedness:
        return self._boundedness

    @property
    def properties(self) -> dict[str, str]:
        """Of the consumer, as the builder completed them."""
        return dict(self._properties)

    @property
    def subscriber(self) -> KafkaSubscriber:
        return self._subscriber

    @property
    def starting_offsets(self) -> KafkaOffsetsInitializer:
        return self._starting_offsets

    @property
    def stopping_offsets(self) -> KafkaOffsetsInitializer:
        return self._stopping_offsets

    @property
    def deserializer(self) -> KafkaRecordDeserializationSchema:
        if self._deserializer is None:
            raise InternalError("the JobMaster's half of a Kafka source reads no records")
        return self._deserializer

    @property
    def produced_type(self) -> Any:
        return self.deserializer.get_produced_type()

    @property
    def split_serializer(self) -> SimpleVersionedSerializer:
        return KafkaPartitionSplitSerializer()

    @property
    def enumerator_state_serializer(self) -> SimpleVersionedSerializer:
        return KafkaSourceEnumStateSerializer()

    def create_enumerator(self, context: SplitEnumeratorContext) -> SplitEnumerator:
        return self.restore_enumerator(context, None)

    def restore_enumerator(self, context: SplitEnumeratorContext, state: Any) -> SplitEnumerator:
        from flinkpy.connectors.kafka.enumerator import KafkaSourceEnumerator

        interval_ms = int_property(self._properties, PARTITION_DISCOVERY_INTERVAL, DEFAULT_DISCOVERY_INTERVAL_MS)
        ends = not isinstance(self._stopping_offsets, NoStoppingOffsets)
        return KafkaSourceEnumerator(context, self.partition_discovery().find, interval_ms, ends, state)

    def partition_discovery(self) -> PartitionDiscovery:
        """Finds the partitions, and where they begin and end."""
        from flinkpy.connectors.kafka.enumerator import PartitionDiscovery

        return PartitionDiscovery(
            self._properties,
            self._subscriber,
            self._starting_offsets,
            self._stopping_offsets,
            f"{self._properties[CLIENT_ID_PREFIX]}-enumerator-admin-client",
        )

    def create_reader(self, context: SourceReaderContext) -> SourceReader:
        from flinkpy.connectors.kafka.fetcher import KafkaFetcher
        from flinkpy.connectors.kafka.reader import KafkaSourceReader
        from flinkpy.connectors.kafka.reader_metrics import KafkaReaderMetrics

        properties = self._properties
        client_id = f"{properties[CLIENT_ID_PREFIX]}-{context.subtask_index}"
        settings = client_settings(properties)
        settings |= {
            "client.id": client_id,
            # librdkafka wants a name for it in any case; nothing is committed under this one.
            "group.id": properties.get("group.id", client_id),
            "auto.offset.reset": _RESET[self._starting_offsets.get_auto_offset_reset_strategy()],
            "enable.partition.eof": True,
            "enable.auto.offset.store": boolean_property(properties, "enable.auto.commit", False),
        }
        metrics = KafkaReaderMetrics(context.metric_group)
        fetcher = KafkaFetcher(settings, f"kafka-fetcher-{client_id}", context.notify_available, metrics)
        commits = boolean_property(properties, COMMIT_OFFSETS_ON_CHECKPOINT, True)
        return KafkaSourceReader(context, fetcher, self.deserializer, commits, metrics)

    def for_coordinator(self) -> KafkaSource:
        # The JobMaster reads no records: a schema may be big, or need libraries that only tasks have.
        return KafkaSource(
            self._properties,
            self._subscriber,
            self._starting_offsets,
            self._stopping_offsets,
            self._boundedness,
            None,
        )

    def __repr__(self) -> str:
        return f"KafkaSource({self._properties['bootstrap.servers']}, {self._subscriber!r})"


class KafkaSourceBuilder:
    """Builds a KafkaSource: bootstrap servers, what to subscribe to and a deserializer are needed.

    Without `set_starting_offsets` reading begins at the earliest offsets; without `set_bounded` or `set_unbounded` it
    never ends.
    """

    def __init__(self) -> None:
        self._properties: dict[str, str] = {}
        self._subscriber: KafkaSubscriber | None = None
        self._starting_offsets = KafkaOffsetsInitializer.earliest()
        self._stopping_offsets: KafkaOffsetsInitializer = NoStoppingOffsets()
        self._boundedness = Boundedness.CONTINUOUS_UNBOUNDED
        self._deserializer: KafkaRecordDeserializationSchema | None = None

    def set_bootstrap_servers(self, bootstrap_servers: str) -> KafkaSourceBuilder:
        """`host:port`, several with commas between."""
        return self.set_property("bootstrap.servers", bootstrap_servers)

    def set_group_id(self, group_id: str) -> KafkaSourceBuilder:
        """The consumer group that is told of the offsets of completed checkpoints."""
        return self.set_property("group.id", group_id)

    def set_topics(self, *topics: str) -> KafkaSourceBuilder:
        """Topics that must exist when the job starts."""
        for topic in topics:
            if not isinstance(topic, str) or not topic:
                raise TypeError(f"set_topics: {topic!r} is not the name of a topic")
        if not topics:
            raise ValueError("set_topics: no topic is given")
        return self._subscribe(TopicListSubscriber(list(topics)))

    def set_topic_pattern(self, topic_pattern: str) -> KafkaSourceBuilder:
        """All topics whose whole name matches, also those that appear later (`partition.discovery.interval.ms`)."""
        return self._subscribe(TopicPatternSubscriber(topic_pattern))

    def set_partitions(self, partitions: set[KafkaTopicPartition]) -> KafkaSourceBuilder:
        for partition in partitions:
            if not isinstance(partition, KafkaTopicPartition):
                raise TypeError(f"set_partitions: {partition!r} is not a KafkaTopicPartition")
        if not partitions:
            raise ValueError("set_partitions: no partition is given")
        return self._subscribe(PartitionSetSubscriber(partitions))

    def set_starting_offsets(self, starting_offsets_initializer: KafkaOffsetsInitializer) -> KafkaSourceBuilder:
        """Where the partitions begin that are there when the job starts. A restored job goes on where it was."""
        self._starting_offsets = _initializer(starting_offsets_initializer)
        return self

    def set_unbounded(self, stopping_offsets_initializer: KafkaOffsetsInitializer) -> KafkaSourceBuilder:
        """End at these offsets, in a job that counts as a streaming one. Without `partition.discovery.interval.ms`
        there is no discovery then: a source that looks for new partitions never ends.
        """
        self._boundedness = Boundedness.CONTINUOUS_UNBOUNDED
        self._stopping_offsets = _initializer(stopping_offsets_initializer)
        return self

    def set_bounded(self, stopping_offsets_initializer: KafkaOffsetsInitializer) -> KafkaSourceBuilder:
        """End at these offsets; new partitions are not looked for."""
        self._boundedness = Boundedness.BOUNDED
        self._stopping_offsets = _initializer(stopping_offsets_initializer)
        return self

    def set_value_only_deserializer(self, deserialization_schema: DeserializationSchema) -> KafkaSourceBuilder:
        """Records are the values of the Kafka records, read with this; those without a value are passed over."""
        from flinkpy.connectors.kafka.deserialization import KafkaRecordDeserializationSchema

        return self.set_deserializer(KafkaRecordDeserializationSchema.value_only(deserialization_schema))

    def set_deserializer(self, record_deserializer: KafkaRecordDeserializationSchema) -> KafkaSourceBuilder:
        """Beyond PyFlink: sees key, headers, timestamp, partition and offset, too."""
        from flinkpy.connectors.kafka.deserialization import KafkaRecordDeserializationSchema

        if not isinstance(record_deserializer, KafkaRecordDeserializationSchema):
            raise TypeError(f"{record_deserializer!r} is not a KafkaRecordDeserializationSchema")
        self._deserializer = record_deserializer
        return self

    def set_client_id_prefix(self, prefix: str) -> KafkaSourceBuilder:
        """How the clients call themselves, with their subtask behind."""
        return self.set_property(CLIENT_ID_PREFIX, prefix)

    def set_property(self, key: str, value: str) -> KafkaSourceBuilder:
        """A property of the source, or of the Kafka consumer, under the name that it has in Java or in librdkafka."""
        if not isinstance(key, str):
            raise TypeError(f"set_property: {key!r} is not the name of a property")
        self._properties[key] = str(value)
        return self

    def set_properties(self, props: dict[str, str]) -> KafkaSourceBuilder:
        for key, value in props.items():
            self.set_property(key, value)
        return self

    def build(self) -> KafkaSource:
        """Raises: ConfigurationError: something is missing, or does not go together."""
        return self.build_with(self._deserializer, needs_deserializer=True)

    def build_with(
        self, deserializer: KafkaRecordDeserializationSchema | None, *, needs_deserializer: bool = False
    ) -> KafkaSource:
        """With this deserializer; without any it is only good for the JobMaster."""
        properties = dict(self._properties)
        has_group = "group.id" in properties
        if "bootstrap.servers" not in properties:
            raise ConfigurationError("Property bootstrap.servers is required but not provided")
        if self._subscriber is None:
            raise ConfigurationError(
                "No subscribe mode is specified, should be one of topics, topic pattern and partition set."
            )
        if deserializer is None and needs_deserializer:
            raise ConfigurationError("Deserialization schema is required but not provided.")
        commits = boolean_property(properties, COMMIT_OFFSETS_ON_CHECKPOINT, False)
        if not has_group and (commits or boolean_property(properties, "enable.auto.commit", False)):
            raise ConfigurationError("Property group.id is required when offset commit is enabled")
        if not has_group and (self._starting_offsets.needs_group or self._stopping_offsets.needs_group):
            raise ConfigurationError(
                "Property group.id is required when using committed offset for offsets initializer"
            )
        self._complete(properties, has_group)
        return KafkaSource(
            properties,
            self._subscriber,
            self._starting_offsets,
            self._stopping_offsets,
            self._boundedness,
            deserializer,
        )

    def _complete(self, properties: dict[str, str], has_group: bool) -> None:
        if not has_group:
            _LOG.warning("Kafka: without group.id no offsets are committed on checkpoints")
            properties[COMMIT_OFFSETS_ON_CHECKPOINT] = "false"
        properties.setdefault("enable.auto.commit", "false")
        # What the Java client does unless told otherwise; librdkafka would leave out what is not committed.
        properties.setdefault("isolation.level", "read_uncommitted")
        reset = self._starting_offsets.get_auto_offset_reset_strategy().name.lower()
        if properties.get("auto.offset.reset", reset) != reset:
            _LOG.warning("Kafka: auto.offset.reset is %s, as the starting offsets say", reset)
        properties["auto.offset.reset"] = reset
        if self._boundedness is Boundedness.BOUNDED:
            properties[PARTITION_DISCOVERY_INTERVAL] = "-1"
        elif not isinstance(self._stopping_offsets, NoStoppingOffsets):
            properties.setdefault(PARTITION_DISCOVERY_INTERVAL, "-1")
        prefix = properties["group.id"] if has_group else f"KafkaSource-{random.getrandbits(63)}"
        properties.setdefault(CLIENT_ID_PREFIX, prefix)
        for key in (PARTITION_DISCOVERY_INTERVAL,):
            int_property(properties, key, 0)
        client_settings(properties)

    def _subscribe(self, subscriber: KafkaSubscriber) -> KafkaSourceBuilder:
        if self._subscriber is not None:
            raise ConfigurationError(
                f"Cannot use {subscriber!r} for consumption because {self._subscriber!r} is already set for "
                "consumption."
            )
        self._subscriber = subscriber
        return self


def _initializer(value: Any) -> KafkaOffsetsInitializer:
    if not isinstance(value, KafkaOffsetsInitializer):
        raise TypeError(f"{value!r} is not a KafkaOffsetsInitializer")
    return value
