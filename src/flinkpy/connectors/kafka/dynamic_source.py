"""DynamicKafkaSource: reads streams, which may be on several clusters and may move between them while a job runs.

The source builds a KafkaSource for the part of its streams that is on a cluster. That KafkaSource discovers the
partitions there and creates the readers.

Source: org.apache.flink.connector.kafka.dynamic.source.DynamicKafkaSource(Builder),
pyflink.datastream.connectors.dynamic_kafka.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flinkpy.common.errors import ConfigurationError
from flinkpy.connector_api.source import (
    Boundedness,
    SourceReader,
    SourceReaderContext,
    SplitEnumerator,
    SplitEnumeratorContext,
)
from flinkpy.connectors.kafka.client import CLIENT_ID_PREFIX, PARTITION_DISCOVERY_INTERVAL, int_property
from flinkpy.connectors.kafka.offsets import KafkaOffsetsInitializer
from flinkpy.connectors.kafka.partitions import KafkaSourceEnumState
from flinkpy.connectors.kafka.source import KafkaSource, KafkaSourceBase, KafkaSourceBuilder, KafkaSourceBuilderBase
from flinkpy.connectors.kafka.subscriber import (
    ClusterMetadata,
    KafkaMetadataService,
    KafkaStreamSetSubscriber,
    KafkaStreamSubscriber,
    StreamPatternSubscriber,
)

if TYPE_CHECKING:
    from flinkpy.connectors.kafka.serialization import KafkaRecordDeserializationSchema

#: The interval at which the metadata service is asked again; 0 or less: only at the start.
METADATA_DISCOVERY_INTERVAL = "stream-metadata-discovery-interval-ms"
METADATA_DISCOVERY_FAILURE_THRESHOLD = "stream-metadata-discovery-failure-threshold"


class DynamicKafkaSource(KafkaSourceBase[KafkaStreamSubscriber]):
    """Reads streams that a metadata service resolves to topics on clusters.

    Example:
        service = SingleClusterTopicMetadataService("east", {"bootstrap.servers": "broker:9092"})
        source = (
            DynamicKafkaSource.builder()
            .set_stream_ids({"orders"})
            .set_kafka_metadata_service(service)
            .set_property("stream-metadata-discovery-interval-ms", "60000")
            .set_value_only_deserializer(SimpleStringSchema())
            .build()
        )
    """

    def __init__(
        self,
        properties: dict[str, str],
        service: KafkaMetadataService,
        subscriber: KafkaStreamSubscriber,
        starting_offsets: KafkaOffsetsInitializer,
        stopping_offsets: KafkaOffsetsInitializer,
        boundedness: Boundedness,
        deserializer: KafkaRecordDeserializationSchema | None,
    ) -> None:
        super().__init__(properties, subscriber, starting_offsets, stopping_offsets, boundedness, deserializer)
        self._service = service

    @staticmethod
    def builder() -> DynamicKafkaSourceBuilder:
        """Returns a builder of a DynamicKafkaSource."""
        return DynamicKafkaSourceBuilder()

    @property
    def metadata_service(self) -> KafkaMetadataService:
        return self._service

    def restore_enumerator(self, context: SplitEnumeratorContext, state: Any) -> SplitEnumerator:
        from flinkpy.connectors.kafka.enumerator import KafkaSourceEnumerator, StreamDiscovery

        discovery = StreamDiscovery(
            self._service,
            self._subscriber,
            lambda cluster_id, metadata: self.source_on(cluster_id, metadata).partition_discovery(cluster_id),
        )
        return KafkaSourceEnumerator(
            context,
            discovery,
            self._discovery_interval_ms,
            self._has_end,
            state or KafkaSourceEnumState({}, False),
            max_failures=int_property(self._properties, METADATA_DISCOVERY_FAILURE_THRESHOLD, 1),
            # A metadata service is user code, which may raise anything.
            tolerates=Exception,
        )

    def create_reader(self, context: SourceReaderContext) -> SourceReader:
        from flinkpy.connectors.kafka.reader import DynamicKafkaSourceReader

        return DynamicKafkaSourceReader(
            context,
            lambda cluster_id, metadata, on_cluster: self.source_on(cluster_id, metadata).create_reader(on_cluster),
        )

    def source_on(self, cluster_id: str, metadata: ClusterMetadata) -> KafkaSource:
        """Returns the source of the topics on one cluster. The properties of the cluster override those of this source.

        Without a deserializer, as in the JobMaster, it only discovers partitions.
        """
        prefix = self._properties.get(CLIENT_ID_PREFIX) or self._properties.get("group.id") or "DynamicKafkaSource"
        builder = (
            KafkaSourceBuilder()
            .set_properties({**self._properties, **metadata.properties})
            .set_topics(*sorted(metadata.topics))
            .set_starting_offsets(self._starting_offsets)
            .set_client_id_prefix(f"{prefix}-{cluster_id}")
        )
        if self._boundedness is Boundedness.BOUNDED:
            builder.set_bounded(self._stopping_offsets)
        return builder.build_with(self._deserializer)

    @property
    def _discovery_interval_ms(self) -> int:
        if self._boundedness is Boundedness.BOUNDED:
            return -1
        keys = (METADATA_DISCOVERY_INTERVAL, PARTITION_DISCOVERY_INTERVAL)
        intervals_ms = [int_property(self._properties, key, -1) for key in keys]
        return min((interval_ms for interval_ms in intervals_ms if interval_ms > 0), default=-1)


class DynamicKafkaSourceBuilder(KafkaSourceBuilderBase):
    """Builds a DynamicKafkaSource.

    Streams, a metadata service and a deserializer are required. By default the source begins at the earliest offsets
    and never ends.
    """

    def __init__(self) -> None:
        super().__init__()
        self._service: KafkaMetadataService | None = None
        self._subscriber: KafkaStreamSubscriber | None = None

    def set_stream_ids(self, stream_ids: set[str]) -> DynamicKafkaSourceBuilder:
        """Selects streams. The metadata service must know them when the job starts.

        Raises:
            ValueError: `stream_ids` is empty, or a single string.
            ConfigurationError: streams are already selected.
        """
        return self.set_kafka_stream_subscriber(KafkaStreamSetSubscriber(stream_ids))

    def set_stream_pattern(self, stream_pattern: str) -> DynamicKafkaSourceBuilder:
        """Selects all streams whose whole id matches, including streams that appear later.

        Args:
            stream_pattern: a regular expression in Python's syntax.

        Raises:
            ConfigurationError: streams are already selected.
        """
        return self.set_kafka_stream_subscriber(StreamPatternSubscriber(stream_pattern))

    def set_kafka_stream_subscriber(self, kafka_stream_subscriber: KafkaStreamSubscriber) -> DynamicKafkaSourceBuilder:
        """Sets the subscriber that selects the streams.

        Raises:
            TypeError: the argument is not a KafkaStreamSubscriber.
            ConfigurationError: streams are already selected.
        """
        if not isinstance(kafka_stream_subscriber, KafkaStreamSubscriber):
            raise TypeError(f"{kafka_stream_subscriber!r} is not a KafkaStreamSubscriber")
        if self._subscriber is not None:
            raise ConfigurationError(
                "Kafka streams are already selected: call only one of set_stream_ids, set_stream_pattern and "
                "set_kafka_stream_subscriber"
            )
        self._subscriber = kafka_stream_subscriber
        return self

    def set_kafka_metadata_service(self, kafka_metadata_service: KafkaMetadataService) -> DynamicKafkaSourceBuilder:
        """Sets the service that resolves streams to topics on clusters."""
        if not isinstance(kafka_metadata_service, KafkaMetadataService):
            raise TypeError(f"{kafka_metadata_service!r} is not a KafkaMetadataService")
        self._service = kafka_metadata_service
        return self

    def build(self) -> DynamicKafkaSource:
        """Returns the source.

        Raises:
            ConfigurationError: a required setting is missing, or a number is malformed.
        """
        if self._subscriber is None:
            raise ConfigurationError("Kafka stream subscriber is required but not provided: set_stream_ids(...)")
        if self._service is None:
            raise ConfigurationError("Kafka metadata service is required but not provided.")
        if self._deserializer is None:
            raise ConfigurationError("Deserialization schema is required but not provided.")
        for key in (METADATA_DISCOVERY_INTERVAL, METADATA_DISCOVERY_FAILURE_THRESHOLD, PARTITION_DISCOVERY_INTERVAL):
            int_property(self._properties, key, 0)
        return DynamicKafkaSource(
            dict(self._properties),
            self._service,
            self._subscriber,
            self._starting_offsets,
            self._stopping_offsets,
            self._boundedness,
            self._deserializer,
        )
