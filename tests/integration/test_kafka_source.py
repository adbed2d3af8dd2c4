"""KafkaSource and an at-least-once KafkaSink on a real broker."""

from __future__ import annotations

from collections import Counter

from clusters import RunningCluster
from job_support import environment
from kafka_broker.broker import KafkaBroker

from flinkpy.common import SimpleStringSchema, Types, WatermarkStrategy
from flinkpy.datastream.connectors.base import DeliveryGuarantee
from flinkpy.datastream.connectors.kafka import (
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
)


def test_a_bounded_job_copies_a_topic(cluster: RunningCluster, kafka: KafkaBroker) -> None:
    source_topic, sink_topic = kafka.create_topic(partitions=3), kafka.create_topic(partitions=2)
    kafka.produce(source_topic, list(range(5000)))
    source = (
        KafkaSource.builder()
        .set_bootstrap_servers(kafka.bootstrap_servers)
        .set_topics(source_topic)
        .set_bounded(KafkaOffsetsInitializer.latest())
        .set_value_only_deserializer(SimpleStringSchema())
        .build()
    )
    serializer = (
        KafkaRecordSerializationSchema.builder()
        .set_topic(sink_topic)
        .set_value_serialization_schema(SimpleStringSchema())
        .build()
    )
    sink = (
        KafkaSink.builder()
        .set_bootstrap_servers(kafka.bootstrap_servers)
        .set_delivery_guarantee(DeliveryGuarantee.AT_LEAST_ONCE)
        .set_record_serializer(serializer)
        .build()
    )
    env = environment(cluster)
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "kafka")
    stream.map(lambda text: f"<{text}>", Types.STRING()).sink_to(sink)
    env.execute("copy")
    assert Counter(kafka.read_values(sink_topic)) == Counter(f"<{number}>" for number in range(5000))
