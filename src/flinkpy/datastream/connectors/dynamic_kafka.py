"""PyFlink's `pyflink.datastream.connectors.dynamic_kafka`. Needs confluent-kafka: `pip install 'flinkpy[kafka]'`."""

from flinkpy.connectors.kafka.dynamic_source import DynamicKafkaSource, DynamicKafkaSourceBuilder
from flinkpy.connectors.kafka.serialization import KafkaRecordDeserializationSchema
from flinkpy.connectors.kafka.subscriber import (
    ClusterMetadata,
    KafkaMetadataService,
    KafkaStream,
    KafkaStreamSetSubscriber,
    KafkaStreamSubscriber,
    SingleClusterTopicMetadataService,
    StreamPatternSubscriber,
)

__all__ = [
    "ClusterMetadata",
    "DynamicKafkaSource",
    "DynamicKafkaSourceBuilder",
    "KafkaMetadataService",
    "KafkaRecordDeserializationSchema",
    "KafkaStream",
    "KafkaStreamSetSubscriber",
    "KafkaStreamSubscriber",
    "SingleClusterTopicMetadataService",
    "StreamPatternSubscriber",
]
