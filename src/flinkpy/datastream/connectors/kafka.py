"""PyFlink's `pyflink.datastream.connectors.kafka`. Needs confluent-kafka: `pip install 'flinkpy[kafka]'`."""

from flinkpy.connectors.kafka.offsets import KafkaOffsetResetStrategy, KafkaOffsetsInitializer
from flinkpy.connectors.kafka.partitions import KafkaTopicPartition
from flinkpy.connectors.kafka.serialization import (
    ConsumerRecord,
    FlinkFixedPartitioner,
    KafkaPartitioner,
    KafkaRecordDeserializationSchema,
    KafkaRecordSerializationSchema,
    KafkaRecordSerializationSchemaBuilder,
    KafkaTopicSelector,
    ProducerRecord,
)
from flinkpy.connectors.kafka.sink import KafkaSink, KafkaSinkBuilder
from flinkpy.connectors.kafka.source import KafkaSource, KafkaSourceBuilder
from flinkpy.datastream.connectors.base import DeliveryGuarantee
from flinkpy.datastream.connectors.kafka_functions import (
    FlinkKafkaConsumer,
    FlinkKafkaConsumerBase,
    FlinkKafkaProducer,
    FlinkKafkaProducerBase,
    Semantic,
)

__all__ = [
    "ConsumerRecord",
    "DeliveryGuarantee",
    "FlinkFixedPartitioner",
    "FlinkKafkaConsumer",
    "FlinkKafkaConsumerBase",
    "FlinkKafkaProducer",
    "FlinkKafkaProducerBase",
    "KafkaOffsetResetStrategy",
    "KafkaOffsetsInitializer",
    "KafkaPartitioner",
    "KafkaRecordDeserializationSchema",
    "KafkaRecordSerializationSchema",
    "KafkaRecordSerializationSchemaBuilder",
    "KafkaSink",
    "KafkaSinkBuilder",
    "KafkaSource",
    "KafkaSourceBuilder",
    "KafkaTopicPartition",
    "KafkaTopicSelector",
    "ProducerRecord",
    "Semantic",
]
