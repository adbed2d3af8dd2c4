"""DynamicKafkaSource: reads streams, which may be on several clusters, and may move between them while a job runs.

Source: org.apache.flink.connector.kafka.dynamic.source.DynamicKafkaSource(Builder),
pyflink.datastream.connectors.dynamic_kafka.
"""

from __future__ import annotations

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
from flinkpy.connectors.kafka.client import CLIENT_ID_PREFIX, PARTITION_DISCOVERY_INTERVAL, int_property
from flinkpy.connectors.kafka.dynamic_enumerator import (
    DynamicKafkaSourceEnumerator,
    DynamicKafkaSourceEnumStateSerializer,
    DynamicKafkaSourceSplitSerializer,
    StreamDiscovery,
)
from flinkpy.connectors.kafka.offsets import KafkaOffsetsInitializer, NoStoppingOffsets
from flinkpy.connectors.kafka.source import KafkaSource, KafkaSourceBuilder
from flinkpy.connectors.kafka.stream_metadata import (
    ClusterMetadata,
    KafkaMetadataService,
    KafkaStreamSetSubscriber,
    KafkaStreamSubscriber,
    StreamPatternSubscriber,
)

if TYPE_CHECKING:
    from flinkpy.connectors.kafka.deserialization import KafkaRecordDeserializationSchema

#: Ask the metadata service so often; 0 or less: only at the start.
METADATA_DISCOVERY_INTERVAL = "stream-metadata-discovery-interval-ms"
METADATA_DISCOVERY_FAILURE_THRESHOLD = "stream-metadata-discovery-failure-threshold"


class DynamicKafkaSource(SourceBase):
    """Built with `DynamicKafkaSource.builder()`."""

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
        self._properties = properties
        self._service = service
        self._subscriber = subscriber
        self._starting_offsets = starting_offsets
        self._stopping_offsets = stopping_offsets
        self._boundedness = boundedness
        self._deserializer = deserializer

    @staticmethod
    def builder() -> DynamicKafkaSourceBuilder:
        return DynamicKafkaSourceBuilder()

    @property
    def boundedness(self) -> Boundedness:
        return self._boundedness

    @property
    def properties(self) -> dict[str, str]:
        """Of the consumers of all clusters."""
        return dict(self._properties)

    @property
    def metadata_service(self) -> KafkaMetadataService:
        return self._service

    @property
    def subscriber(self) -> KafkaStreamSubscriber:
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
        return DynamicKafkaSourceSplitSerializer()

    @property
    def enumerator_state_serializer(self) -> SimpleVersionedSerializer:
        return DynamicKafkaSourceEnumStateSerializer()

    def create_enumerator(self, context: SplitEnumeratorContext) -> SplitEnumerator:
        return self.restore_enumerator(context, None)

    def restore_enumerator(self, context: SplitEnumeratorContext, state: Any) -> SplitEnumerator:
        discovery = StreamDiscovery(
            self._service,
            self._subscriber,
            lambda cluster_id, metadata: self.source_on(cluster_id, metadata).partition_discovery().find,
        )
        keys = (METADATA_DISCOVERY_INTERVAL, PARTITION_DISCOVERY_INTERVAL)
        intervals = [interval for key in keys if (interval := int_property(self._properties, key, -1)) > 0]
        interval_ms = -1 if self._boundedness is Boundedness.BOUNDED else min(intervals, default=-1)
        max_failures = int_property(self._properties, METADATA_DISCOVERY_FAILURE_THRESHOLD, 1)
        ends = not isinstance(self._stopping_offsets, NoStoppingOffsets)
        return DynamicKafkaSourceEnumerator(context, discovery.find, interval_ms, max_failures, ends, state)

    def create_reader(self, context: SourceReaderContext) -> SourceReader:
        from flinkpy.connectors.kafka.dynamic_reader import DynamicKafkaSourceReader

        return DynamicKafkaSourceReader(
            context, lambda cluster_id, metadata, own: self.source_on(cluster_id, metadata).create_reader(own)
        )

    def source_on(self, cluster_id: str, metadata: ClusterMetadata) -> KafkaSource:
        """The source of what is on one cluster. A cluster's own properties count before those of the source."""
        builder = (
            KafkaSourceBuilder()
            .set_properties({**self._properties, **metadata.properties})
            .set_topics(*sorted(metadata.topics))
            .set_starting_offsets(self._starting_offsets)
        )
        prefix = self._properties.get(CLIENT_ID_PREFIX) or self._properties.get("group.id") or "DynamicKafkaSource"
        builder.set_client_id_prefix(f"{prefix}-{cluster_id}")
        if self._boundedness is Boundedness.BOUNDED:
            builder.set_bounded(self._stopping_offsets)
        return builder.build_with(self._deserializer)

    def for_coordinator(self) -> DynamicKafkaSource:
        return DynamicKafkaSource(
            self._properties,
            self._service,
            self._subscriber,
            self._starting_offsets,
            self._stopping_offsets,
            self._boundedness,
            None,
        )


class DynamicKafkaSourceBuilder:
    """Builds a DynamicKafkaSource: streams, a metadata service and a deserializer are needed."""

    def __init__(self) -> None:
        self._properties: dict[str, str] = {}
        self._service: KafkaMetadataService | None = None
        self._subscriber: KafkaStreamSubscriber | None = None
        self._starting_offsets = KafkaOffsetsInitializer.earliest()
        self._stopping_offsets: KafkaOffsetsInitializer = NoStoppingOffsets()
        self._boundedness = Boundedness.CONTINUOUS_UNBOUNDED
        self._deserializer: KafkaRecordDeserializationSchema | None = None

    def set_stream_ids(self, stream_ids: set[str]) -> DynamicKafkaSourceBuilder:
        """Streams that the metadata service must know when the job starts."""
        return self.set_kafka_stream_subscriber(KafkaStreamSetSubscriber(stream_ids))

    def set_stream_pattern(self, stream_pattern: str) -> DynamicKafkaSourceBuilder:
        """All streams whose whole id matches, also those that appear later."""
        return self.set_kafka_stream_subscriber(StreamPatternSubscriber(stream_pattern))

    def set_kafka_stream_subscriber(self, kafka_stream_subscriber: KafkaStreamSubscriber) -> DynamicKafkaSourceBuilder:
        if not isinstance(kafka_stream_subscriber, KafkaStreamSubscriber):
            raise TypeError(f"{kafka_stream_subscriber!r} is not a KafkaStreamSubscriber")
        if self._subscriber is not None:
            raise ConfigurationError(
                "Kafka streams are already subscribed to: only one of set_stream_ids, "
                "set_stream_pattern and set_kafka_stream_subscriber may be called"
            )
        self._subscriber = kafka_stream_subscriber
        return self

    def set_kafka_metadata_service(self, kafka_metadata_service: KafkaMetadataService) -> DynamicKafkaSourceBuilder:
        if not isinstance(kafka_metadata_service, KafkaMetadataService):
            raise TypeError(f"{kafka_metadata_service!r} is not a KafkaMetadataService")
        self._service = kafka_metadata_service
        return self

    def set_deserializer(self, deserializer: KafkaRecordDeserializationSchema) -> DynamicKafkaSourceBuilder:
        from flinkpy.connectors.kafka.deserialization import KafkaRecordDeserializationSchema

        if not isinstance(deserializer, KafkaRecordDeserializationSchema):
            raise TypeError(f"{deserializer!r} is not a KafkaRecordDeserializationSchema")
        self._deserializer = deserializer
        return self

    def set_value_only_deserializer(self, deserialization_schema: DeserializationSchema) -> DynamicKafkaSourceBuilder:
        from flinkpy.connectors.kafka.deserialization import KafkaRecordDeserializationSchema

        return self.set_deserializer(KafkaRecordDeserializationSchema.value_only(deserialization_schema))

    def set_starting_offsets(self, starting_offsets_initializer: KafkaOffsetsInitializer) -> DynamicKafkaSourceBuilder:
        if not isinstance(starting_offsets_initializer, KafkaOffsetsInitializer):
            raise TypeError(f"{starting_offsets_initializer!r} is not a KafkaOffsetsInitializer")
        self._starting_offsets = starting_offsets_initializer
        return self

    def set_bounded(self, stopping_offsets_initializer: KafkaOffsetsInitializer) -> DynamicKafkaSourceBuilder:
        """End at these offsets; new streams and partitions are not looked for."""
        if not isinstance(stopping_offsets_initializer, KafkaOffsetsInitializer):
            raise TypeError(f"{stopping_offsets_initializer!r} is not a KafkaOffsetsInitializer")
        self._boundedness = Boundedness.BOUNDED
        self._stopping_offsets = stopping_offsets_initializer
        return self

    def set_properties(self, props: dict[str, str]) -> DynamicKafkaSourceBuilder:
        """Of the consumers of all clusters."""
        for key, value in props.items():
            self.set_property(key, value)
        return self

    def set_property(self, key: str, value: str) -> DynamicKafkaSourceBuilder:
        if not isinstance(key, str):
            raise TypeError(f"set_property: {key!r} is not the name of a property")
        self._properties[key] = str(value)
        return self

    def set_group_id(self, group_id: str) -> DynamicKafkaSourceBuilder:
        return self.set_property("group.id", group_id)

    def set_client_id_prefix(self, prefix: str) -> DynamicKafkaSourceBuilder:
        return self.set_property(CLIENT_ID_PREFIX, prefix)

    def build(self) -> DynamicKafkaSource:
        """Raises: ConfigurationError: something is missing."""
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
