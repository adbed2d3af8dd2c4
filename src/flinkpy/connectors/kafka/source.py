"""KafkaSource: reads topics of Apache Kafka, each record once.

Source: org.apache.flink.connector.kafka.source.KafkaSource, pyflink.datastream.connectors.kafka.
"""

from __future__ import annotations

import copy
import logging
import random
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

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
    KafkaSourceEnumState,
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
    from flinkpy.connectors.kafka.enumerator import PartitionDiscovery
    from flinkpy.connectors.kafka.serialization import KafkaRecordDeserializationSchema

_LOG = logging.getLogger(__name__)

#: Flink's default.
DEFAULT_DISCOVERY_INTERVAL_MS = 300_000
_RESET = {
    KafkaOffsetResetStrategy.EARLIEST: "earliest",
    KafkaOffsetResetStrategy.LATEST: "latest",
    KafkaOffsetResetStrategy.NONE: "error",
}

SUBSCRIBER = TypeVar("SUBSCRIBER")


class KafkaSourceBase(SourceBase, Generic[SUBSCRIBER]):
    """The common part of KafkaSource and DynamicKafkaSource.

    Args:
        deserializer: None in the JobMaster, which reads no records.
    """

    def __init__(
        self,
        properties: dict[str, str],
        subscriber: SUBSCRIBER,
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

    @property
    def boundedness(self) -> Boundedness:
        return self._boundedness

    @property
    def properties(self) -> dict[str, str]:
        """The properties of the Kafka consumers, as the builder completed them."""
        return dict(self._properties)

    @property
    def subscriber(self) -> SUBSCRIBER:
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

    def for_coordinator(self) -> Self:
        # The schema is left out: it may be big, or need libraries that only the tasks have.
        half = copy.copy(self)
        half._deserializer = None
        return half

    @property
    def _has_end(self) -> bool:
        return not isinstance(self._stopping_offsets, NoStoppingOffsets)


class KafkaSource(KafkaSourceBase[KafkaSubscriber]):
    """Reads topics of one Kafka cluster. The timestamps of the records are Kafka's.

    Example:
        source = (
            KafkaSource.builder()
            .set_bootstrap_servers("broker:9092")
            .set_topics("orders")
            .set_group_id("billing")
            .set_starting_offsets(KafkaOffsetsInitializer.earliest())
            .set_value_only_deserializer(SimpleStringSchema())
            .build()
        )
        env.from_source(source, WatermarkStrategy.for_monotonous_timestamps(), "orders")
    """

    @staticmethod
    def builder() -> KafkaSourceBuilder:
        """Returns a builder of a KafkaSource."""
        return KafkaSourceBuilder()

    def restore_enumerator(self, context: SplitEnumeratorContext, state: Any) -> SplitEnumerator:
        from flinkpy.connectors.kafka.enumerator import KafkaSourceEnumerator

        interval_ms = int_property(self._properties, PARTITION_DISCOVERY_INTERVAL, DEFAULT_DISCOVERY_INTERVAL_MS)
        state = state or KafkaSourceEnumState({None: frozenset()}, False)
        return KafkaSourceEnumerator(context, self.partition_discovery(), interval_ms, self._has_end, state)

    def partition_discovery(self, kafka_cluster_id: str | None = None) -> PartitionDiscovery:
        """Returns a discovery of the partitions of this source. The cluster id is part of the splits it finds."""
        from flinkpy.connectors.kafka.enumerator import PartitionDiscovery

        return PartitionDiscovery(
            self._properties,
            self._subscriber,
            self._starting_offsets,
            self._stopping_offsets,
            f"{self._properties[CLIENT_ID_PREFIX]}-enumerator-admin-client",
            kafka_cluster_id,
        )

    def create_reader(self, context: SourceReaderContext) -> SourceReader:
        from flinkpy.connectors.kafka.fetcher import KafkaFetcher, KafkaReaderMetrics
        from flinkpy.connectors.kafka.reader import KafkaSourceReader

        properties = self._properties
        client_id = f"{properties[CLIENT_ID_PREFIX]}-{context.subtask_index}"
        settings = client_settings(properties)
        settings |= {
            "client.id": client_id,
            # librdkafka requires a group. Nothing is committed to this one if the user has set none.
            "group.id": properties.get("group.id", client_id),
            "auto.offset.reset": _RESET[self._starting_offsets.get_auto_offset_reset_strategy()],
            "enable.partition.eof": True,
            "enable.auto.offset.store": boolean_property(properties, "enable.auto.commit", False),
        }
        metrics = KafkaReaderMetrics(context.metric_group)
        fetcher = KafkaFetcher(settings, f"kafka-fetcher-{client_id}", context.notify_available, metrics)
        commits = boolean_property(properties, COMMIT_OFFSETS_ON_CHECKPOINT, True)
        return KafkaSourceReader(context, fetcher, self.deserializer, commits, metrics)

    def __repr__(self) -> str:
        return f"KafkaSource({self._properties['bootstrap.servers']}, {self._subscriber!r})"


class KafkaSourceBuilderBase:
    """The common part of the builders of KafkaSource and DynamicKafkaSource."""

    def __init__(self) -> None:
        self._properties: dict[str, str] = {}
        self._starting_offsets = KafkaOffsetsInitializer.earliest()
        self._stopping_offsets: KafkaOffsetsInitializer = NoStoppingOffsets()
        self._boundedness = Boundedness.CONTINUOUS_UNBOUNDED
        self._deserializer: KafkaRecordDeserializationSchema | None = None

    def set_group_id(self, group_id: str) -> Self:
        """Sets the consumer group. The offsets of completed checkpoints are committed to it."""
        return self.set_property("group.id", group_id)

    def set_starting_offsets(self, starting_offsets_initializer: KafkaOffsetsInitializer) -> Self:
        """Sets where reading begins: `KafkaOffsetsInitializer.earliest()` unless set.

        It applies to the partitions that exist when the job starts. A restored job resumes at its checkpoint.
        """
        self._starting_offsets = _initializer(starting_offsets_initializer)
        return self

    def set_bounded(self, stopping_offsets_initializer: KafkaOffsetsInitializer) -> Self:
        """Makes the source bounded. It ends at the given offsets and discovers no further streams or partitions."""
        self._boundedness = Boundedness.BOUNDED
        self._stopping_offsets = _initializer(stopping_offsets_initializer)
        return self

    def set_value_only_deserializer(self, deserialization_schema: DeserializationSchema) -> Self:
        """Sets the schema that reads the values of the Kafka records. Records without a value are skipped.

        Args:
            deserialization_schema: for example `SimpleStringSchema()` or a JSON or Avro schema.
        """
        from flinkpy.connectors.kafka.serialization import KafkaRecordDeserializationSchema

        return self.set_deserializer(KafkaRecordDeserializationSchema.value_only(deserialization_schema))

    def set_deserializer(self, deserializer: KafkaRecordDeserializationSchema) -> Self:
        """Sets a schema that also reads key, headers, timestamp, partition and offset. Beyond PyFlink."""
        from flinkpy.connectors.kafka.serialization import KafkaRecordDeserializationSchema

        if not isinstance(deserializer, KafkaRecordDeserializationSchema):
            raise TypeError(f"{deserializer!r} is not a KafkaRecordDeserializationSchema")
        self._deserializer = deserializer
        return self

    def set_client_id_prefix(self, prefix: str) -> Self:
        """Sets the prefix of the client ids. Each client appends its subtask index."""
        return self.set_property(CLIENT_ID_PREFIX, prefix)

    def set_property(self, key: str, value: str) -> Self:
        """Sets a property of the source or of its Kafka consumers.

        Args:
            key: the name of the property in Java, or in librdkafka.
            value: the value; it is converted to a string.
        """
        if not isinstance(key, str):
            raise TypeError(f"set_property: {key!r} is not the name of a property")
        self._properties[key] = str(value)
        return self

    def set_properties(self, props: dict[str, str]) -> Self:
        """Sets several properties, see `set_property`."""
        for key, value in props.items():
            self.set_property(key, value)
        return self


class KafkaSourceBuilder(KafkaSourceBuilderBase):
    """Builds a KafkaSource.

    Bootstrap servers, one way to select partitions and a deserializer are required. By default the source begins at the
    earliest offsets and never ends.
    """

    def __init__(self) -> None:
        super().__init__()
        self._subscriber: KafkaSubscriber | None = None

    def set_bootstrap_servers(self, bootstrap_servers: str) -> KafkaSourceBuilder:
        """Sets the brokers to connect to first: `host:port`, separated by commas."""
        return self.set_property("bootstrap.servers", bootstrap_servers)

    def set_topics(self, *topics: str) -> KafkaSourceBuilder:
        """Selects all partitions of topics. The topics must exist when the job starts.

        Raises:
            TypeError: a topic is not a string, or is empty.
            ValueError: no topic is given.
            ConfigurationError: partitions are already selected.
        """
        for topic in topics:
            if not isinstance(topic, str) or not topic:
                raise TypeError(f"set_topics: {topic!r} is not the name of a topic")
        if not topics:
            raise ValueError("set_topics: no topic is given")
        return self._subscribe(TopicListSubscriber(list(topics)))

    def set_topic_pattern(self, topic_pattern: str) -> KafkaSourceBuilder:
        """Selects all topics whose whole name matches.

        Topics that appear later are discovered every `partition.discovery.interval.ms` milliseconds.

        Args:
            topic_pattern: a regular expression in Python's syntax.

        Raises:
            ConfigurationError: partitions are already selected.
        """
        return self._subscribe(TopicPatternSubscriber(topic_pattern))

    def set_partitions(self, partitions: set[KafkaTopicPartition]) -> KafkaSourceBuilder:
        """Selects single partitions. They must exist when the job starts.

        Raises:
            TypeError: an element is not a KafkaTopicPartition.
            ValueError: the set is empty.
            ConfigurationError: partitions are already selected.
        """
        for partition in partitions:
            if not isinstance(partition, KafkaTopicPartition):
                raise TypeError(f"set_partitions: {partition!r} is not a KafkaTopicPartition")
        if not partitions:
            raise ValueError("set_partitions: no partition is given")
        return self._subscribe(PartitionSetSubscriber(partitions))

    def set_unbounded(self, stopping_offsets_initializer: KafkaOffsetsInitializer) -> KafkaSourceBuilder:
        """Sets offsets at which the source ends, but keeps the job a streaming job.

        Partitions are then not discovered repeatedly, unless `partition.discovery.interval.ms` is set: a source that
        looks for new partitions never ends.
        """
        self._boundedness = Boundedness.CONTINUOUS_UNBOUNDED
        self._stopping_offsets = _initializer(stopping_offsets_initializer)
        return self

    def build(self) -> KafkaSource:
        """Returns the source.

        Raises:
            ConfigurationError: a required setting is missing, or settings contradict each other.
        """
        source = self.build_with(self._deserializer)
        if self._deserializer is None:
            raise ConfigurationError("Deserialization schema is required but not provided.")
        return source

    def build_with(self, deserializer: KafkaRecordDeserializationSchema | None) -> KafkaSource:
        """Returns a source with the given deserializer. Without one, the source only serves the JobMaster."""
        properties = dict(self._properties)
        has_group = "group.id" in properties
        if "bootstrap.servers" not in properties:
            raise ConfigurationError("Property bootstrap.servers is required but not provided")
        if self._subscriber is None:
            raise ConfigurationError(
                "No subscribe mode is specified, should be one of topics, topic pattern and partition set."
            )
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
            _LOG.warning("Kafka: group.id is not set, so completed checkpoints commit no offsets")
            properties[COMMIT_OFFSETS_ON_CHECKPOINT] = "false"
        properties.setdefault("enable.auto.commit", "false")
        # The default of the Java client. librdkafka's default would leave out uncommitted records.
        properties.setdefault("isolation.level", "read_uncommitted")
        reset = self._starting_offsets.get_auto_offset_reset_strategy().name.lower()
        if properties.get("auto.offset.reset", reset) != reset:
            _LOG.warning("Kafka: auto.offset.reset is overridden by the starting offsets with %s", reset)
        properties["auto.offset.reset"] = reset
        if self._boundedness is Boundedness.BOUNDED:
            properties[PARTITION_DISCOVERY_INTERVAL] = "-1"
        elif not isinstance(self._stopping_offsets, NoStoppingOffsets):
            properties.setdefault(PARTITION_DISCOVERY_INTERVAL, "-1")
        prefix = properties["group.id"] if has_group else f"KafkaSource-{random.getrandbits(63)}"
        properties.setdefault(CLIENT_ID_PREFIX, prefix)
        # Both raise an error that names a wrong property.
        int_property(properties, PARTITION_DISCOVERY_INTERVAL, 0)
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
