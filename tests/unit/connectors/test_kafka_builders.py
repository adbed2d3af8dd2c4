"""The builders of PyFlink's Kafka connectors: settings, defaults and refused arguments."""

from __future__ import annotations

import logging
import subprocess
import sys

import cloudpickle
import pytest
from connector_fakes import TestingReaderContext

from flinkpy.common import ByteArraySchema, Row, SimpleStringSchema, Types
from flinkpy.common.errors import ConfigurationError, InternalError, UnsupportedOperationError
from flinkpy.connector_api.source import Boundedness
from flinkpy.connectors.kafka import client
from flinkpy.connectors.kafka.client import _Repeats, client_settings
from flinkpy.connectors.kafka.offsets import NoStoppingOffsets
from flinkpy.connectors.kafka.sink import producer_settings
from flinkpy.datastream.connectors.base import DeliveryGuarantee
from flinkpy.datastream.connectors.dynamic_kafka import (
    DynamicKafkaSource,
    KafkaMetadataService,
    KafkaStreamSetSubscriber,
    SingleClusterTopicMetadataService,
    StreamPatternSubscriber,
)
from flinkpy.datastream.connectors.kafka import (
    FlinkKafkaConsumer,
    FlinkKafkaProducer,
    KafkaOffsetResetStrategy,
    KafkaOffsetsInitializer,
    KafkaRecordDeserializationSchema,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
    KafkaTopicPartition,
    KafkaTopicSelector,
    Semantic,
)
from flinkpy.records.batch import Batch

EARLIEST, LATEST = KafkaOffsetsInitializer.earliest(), KafkaOffsetsInitializer.latest()


def source():
    return (
        KafkaSource.builder().set_bootstrap_servers("localhost:9092").set_value_only_deserializer(SimpleStringSchema())
    )


def topic_source():
    return source().set_topics("t")


# -- the source --------------------------------------------------------------------------------------------------------


def test_source_with_all_required_settings_can_be_built_and_pickled():
    built = cloudpickle.loads(cloudpickle.dumps(topic_source().build()))
    assert built.boundedness is Boundedness.CONTINUOUS_UNBOUNDED
    assert built.produced_type == Types.STRING()
    assert built.properties["bootstrap.servers"] == "localhost:9092"
    assert built.properties["auto.offset.reset"] == "earliest"
    assert built.properties["enable.auto.commit"] == "false"
    assert built.properties["commit.offsets.on.checkpoint"] == "false", "without a group"
    assert built.properties["isolation.level"] == "read_uncommitted"
    with pytest.raises(InternalError, match="JobMaster's half of a Kafka source reads no records"):
        built.for_coordinator().create_reader(TestingReaderContext())


def test_job_masters_half_of_a_source_loads_neither_columns_nor_the_schema():
    """The process of the JobMaster starts fast because it loads little."""
    halves = [topic_source().build(), streams().set_stream_ids({"a"}).build()]
    data = cloudpickle.dumps([half.for_coordinator() for half in halves])
    program = (
        f"import pickle, sys; pickle.loads({data!r}); print([m for m in ('pyarrow', 'numpy') if m in sys.modules])"
    )
    completed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert completed.stdout == "[]\n"


def test_source_keeps_its_properties():
    built = (
        topic_source()
        .set_group_id("group")
        .set_client_id_prefix("prefix")
        .set_property("isolation.level", "read_committed")
        .set_properties({"fetch.min.bytes": "1", "max.poll.records": 10})
        .build()
    )
    expected = {
        "group.id": "group",
        "client.id.prefix": "prefix",
        "isolation.level": "read_committed",
        "fetch.min.bytes": "1",
        "max.poll.records": "10",
    }
    assert expected.items() <= built.properties.items()
    assert topic_source().set_group_id("group").build().properties["client.id.prefix"] == "group"


def test_source_subscribes_to_topics_a_pattern_or_partitions():
    assert source().set_topics("a", "b").build().subscriber.topics == ["a", "b"]
    assert source().set_topic_pattern("a-.*").build().subscriber.pattern.pattern == "a-.*"
    partitions = {KafkaTopicPartition("a", 0), KafkaTopicPartition("b", 3)}
    assert source().set_partitions(partitions).build().subscriber.partitions == partitions


def test_source_refuses_a_second_subscription():
    with pytest.raises(ConfigurationError, match=r"Cannot use topics like x.* because topics t is already set"):
        topic_source().set_topic_pattern("x")


@pytest.mark.parametrize(
    ("initializer", "reset"),
    [
        (EARLIEST, "earliest"),
        (LATEST, "latest"),
        (KafkaOffsetsInitializer.timestamp(7), "none"),
        (KafkaOffsetsInitializer.committed_offsets(), "none"),
        (KafkaOffsetsInitializer.committed_offsets(KafkaOffsetResetStrategy.LATEST), "latest"),
        (KafkaOffsetsInitializer.offsets({KafkaTopicPartition("t", 0): 5}), "earliest"),
        (KafkaOffsetsInitializer.offsets({}, KafkaOffsetResetStrategy.NONE), "none"),
    ],
)
def test_starting_offsets_determine_the_reset_strategy(initializer, reset):
    built = topic_source().set_group_id("g").set_starting_offsets(initializer).build()
    assert built.starting_offsets is initializer
    assert built.properties["auto.offset.reset"] == reset


def test_bounded_source_discovers_partitions_only_once():
    built = topic_source().set_property("partition.discovery.interval.ms", "10").set_bounded(LATEST).build()
    assert built.boundedness is Boundedness.BOUNDED
    assert built.stopping_offsets is LATEST
    assert built.properties["partition.discovery.interval.ms"] == "-1"


def test_unbounded_source_may_have_stopping_offsets():
    built = topic_source().set_unbounded(LATEST).build()
    assert built.boundedness is Boundedness.CONTINUOUS_UNBOUNDED
    assert built.stopping_offsets is LATEST
    assert built.properties["partition.discovery.interval.ms"] == "-1"
    assert isinstance(topic_source().build().stopping_offsets, NoStoppingOffsets)
    assert "partition.discovery.interval.ms" not in topic_source().build().properties, "five minutes"


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: KafkaSource.builder().build(), r"Property bootstrap.servers is required"),
        (lambda: source().build(), r"No subscribe mode is specified"),
        (
            lambda: KafkaSource.builder().set_bootstrap_servers("x").set_topics("t").build(),
            "Deserialization schema is required",
        ),
        (
            lambda: topic_source().set_property("commit.offsets.on.checkpoint", "true").build(),
            r"Property group.id is required when offset commit is enabled",
        ),
        (
            lambda: topic_source().set_starting_offsets(KafkaOffsetsInitializer.committed_offsets()).build(),
            r"Property group.id is required when using committed offset",
        ),
        (
            lambda: topic_source().set_property("partition.discovery.interval.ms", "soon").build(),
            r"Kafka property partition.discovery.interval.ms must be a whole number, not 'soon'",
        ),
        (
            lambda: topic_source().set_property("commit.offsets.on.checkpoint", "perhaps").build(),
            r"Kafka property commit.offsets.on.checkpoint must be true or false, not 'perhaps'",
        ),
        (
            lambda: topic_source().set_property("ssl.truststore.location", "/x.jks").build(),
            r"ssl.truststore.location: a Java key store cannot be read; set PEM files",
        ),
    ],
)
def test_source_with_missing_or_wrong_settings_is_refused(build, message):
    with pytest.raises(ConfigurationError, match=message):
        build()


@pytest.mark.parametrize(
    "call",
    [
        lambda: source().set_topics(),
        lambda: source().set_topics(7),
        lambda: source().set_partitions({"t"}),
        lambda: source().set_partitions(set()),
        lambda: source().set_starting_offsets("earliest"),
        lambda: source().set_bounded(None),
        lambda: source().set_value_only_deserializer(object()),
        lambda: source().set_deserializer(SimpleStringSchema()),
        lambda: source().set_property(7, "x"),
        lambda: KafkaOffsetsInitializer.timestamp(-1),
        lambda: KafkaOffsetsInitializer.offsets({"t": 1}),
        lambda: KafkaOffsetsInitializer.offsets({KafkaTopicPartition("t", 0): -1}),
        lambda: KafkaOffsetsInitializer.committed_offsets("latest"),
        lambda: KafkaTopicPartition("t", -1),
        lambda: KafkaTopicPartition("", 0),
    ],
)
def test_setters_refuse_arguments_of_the_wrong_type(call):
    with pytest.raises((TypeError, ValueError)):
        call()


def test_topic_partitions_compare_by_value():
    assert KafkaTopicPartition("t", 1) == KafkaTopicPartition("t", 1) != KafkaTopicPartition("t", 2)
    assert len({KafkaTopicPartition("t", 1), KafkaTopicPartition("t", 1)}) == 1
    assert KafkaTopicPartition("t", 1) != "t-1"


# -- properties ------------------------------------------------------------------------------------------------------


def test_java_properties_become_librdkafka_settings():
    settings = client_settings(
        {
            "bootstrap.servers": "a:1",
            "key.deserializer": "org.apache.kafka.common.serialization.ByteArrayDeserializer",
            "fetch.max.wait.ms": "5",
            "buffer.memory": "33554432",
            "max.request.size": "99",
            "sasl.mechanism": "SCRAM-SHA-256",
            "sasl.jaas.config": 'org.apache.kafka...ScramLoginModule required username="ann" password="s=cret;";',
            "partition.discovery.interval.ms": "1",
        }
    )
    del settings["logger"]
    assert settings == {
        "bootstrap.servers": "a:1",
        "fetch.wait.max.ms": "5",
        "queue.buffering.max.kbytes": 32768,
        "message.max.bytes": "99",
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.username": "ann",
        "sasl.password": "s=cret;",
        "log_level": 4,
    }


def test_error_names_an_unknown_property():
    settings = client_settings({"bootstrap.servers": "a:1", "no.such.thing": "1"})
    with pytest.raises(ConfigurationError, match=r"Kafka Producer: .*no.such.thing"):
        client.new_client("Producer", settings)


def test_error_without_confluent_kafka_says_what_to_install(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "confluent_kafka", None)
    with pytest.raises(UnsupportedOperationError, match=r"pip install 'flinkpy\[kafka\]'"):
        client.load_confluent_kafka()


def test_producer_has_the_defaults_of_java():
    settings = producer_settings({"bootstrap.servers": "a:1", "transaction.timeout.ms": "3600000"})
    assert settings["partitioner"] == "murmur2_random"
    assert settings["enable.idempotence"] is True
    assert settings["delivery.timeout.ms"] == 120_000
    assert "enable.idempotence" not in producer_settings({"acks": "1"})
    assert producer_settings({"transaction.timeout.ms": "5000"})["delivery.timeout.ms"] == 5000


# -- the sink ----------------------------------------------------------------------------------------------------------


def serializer(**parts):
    builder = KafkaRecordSerializationSchema.builder().set_value_serialization_schema(SimpleStringSchema())
    return builder.set_topic("t").build()


def sink():
    return KafkaSink.builder().set_bootstrap_servers("localhost:9092").set_record_serializer(serializer())


def test_sink_with_all_required_settings_can_be_built_and_pickled():
    built = cloudpickle.loads(cloudpickle.dumps(sink().build()))
    assert built.delivery_guarantee is DeliveryGuarantee.NONE
    assert built.properties["bootstrap.servers"] == "localhost:9092"
    assert built.properties["transaction.timeout.ms"] == "3600000", "an hour, as Flink"
    assert built.create_committer() is None
    assert built.get_transformer() is None


@pytest.mark.parametrize("guarantee", list(DeliveryGuarantee))
def test_only_exactly_once_has_a_committer(guarantee):
    built = sink().set_delivery_guarantee(guarantee).set_transactional_id_prefix("p").build()
    assert built.delivery_guarantee is guarantee
    assert (built.create_committer() is not None) == (guarantee is DeliveryGuarantee.EXACTLY_ONCE)


def test_exactly_once_requires_a_transactional_id_prefix():
    with pytest.raises(ConfigurationError, match="EXACTLY_ONCE delivery guarantee requires a transactionalIdPrefix"):
        sink().set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE).build()
    built = sink().set_transactional_id_prefix("mine").build()
    assert built.transactional_id_prefix == "mine"
    with pytest.raises(ConfigurationError, match="prefix is too long"):
        sink().set_transactional_id_prefix("p" * 64_001)


def test_sink_keeps_its_properties():
    built = sink().set_property("compression.type", "lz4").set_property("linger.ms", 5).build()
    assert {"compression.type": "lz4", "linger.ms": "5"}.items() <= built.properties.items()


def test_sink_without_servers_or_serializer_is_refused():
    with pytest.raises(ConfigurationError, match=r"bootstrap.servers is required"):
        KafkaSink.builder().set_record_serializer(serializer()).build()
    with pytest.raises(ConfigurationError, match="a record serializer is required"):
        KafkaSink.builder().set_bootstrap_servers("x").build()
    with pytest.raises(TypeError, match="is not a KafkaRecordSerializationSchema"):
        sink().set_record_serializer(SimpleStringSchema())
    with pytest.raises(TypeError, match="is not a DeliveryGuarantee"):
        sink().set_delivery_guarantee("EXACTLY_ONCE")


# -- the record serializer -------------------------------------------------------------------------------------------


def builder():
    return KafkaRecordSerializationSchema.builder()


def encoded(schema, *values):
    records = schema.encode(Batch(list(values)), None)
    return list(zip(records.topics, records.keys, records.values))


def test_schema_writes_to_a_fixed_topic():
    schema = builder().set_topic("t").set_value_serialization_schema(SimpleStringSchema()).build()
    assert encoded(schema, "a", "b") == [("t", None, b"a"), ("t", None, b"b")]


class ByCategory(KafkaTopicSelector):
    def apply(self, data):
        return "topic-" + data[0]


@pytest.mark.parametrize("selector", [ByCategory(), lambda text: "topic-" + text[0]])
def test_schema_writes_to_the_selected_topic(selector):
    schema = builder().set_topic_selector(selector).set_value_serialization_schema(SimpleStringSchema()).build()
    assert encoded(schema, "a1", "b1") == [("topic-a", None, b"a1"), ("topic-b", None, b"b1")]


def test_topic_selector_without_a_result_is_an_error():
    schema = builder().set_topic_selector(lambda value: None).set_value_serialization_schema(SimpleStringSchema())
    with pytest.raises(TypeError, match="None is not the name of a Kafka topic"):
        encoded(schema.build(), "a")


def test_key_schema_makes_the_key():
    schema = builder().set_topic("t").set_key_serialization_schema(SimpleStringSchema("UTF-16-LE"))
    schema.set_value_serialization_schema(SimpleStringSchema())
    assert encoded(schema.build(), "a") == [("t", b"a\0", b"a")]


def test_value_schema_makes_the_value():
    schema = builder().set_topic("t").set_value_serialization_schema(ByteArraySchema()).build()
    assert encoded(schema, b"\x00\xff") == [("t", None, b"\x00\xff")]


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: builder().set_topic("t").build(), "No value serializer is configured"),
        (lambda: builder().set_value_serialization_schema(SimpleStringSchema()).build(), "No topic selector is conf"),
        (lambda: builder().set_topic("t").set_topic_selector(ByCategory()), "Topic selector already set"),
        (
            lambda: (
                builder()
                .set_value_serialization_schema(SimpleStringSchema())
                .set_value_serialization_schema(SimpleStringSchema())
            ),
            "Value serializer already set",
        ),
        (
            lambda: (
                builder()
                .set_key_serialization_schema(SimpleStringSchema())
                .set_key_serialization_schema(SimpleStringSchema())
            ),
            "Key serializer already set",
        ),
    ],
)
def test_schema_with_missing_or_repeated_parts_is_refused(build, message):
    with pytest.raises(ConfigurationError, match=message):
        build()


def test_topic_selector_of_the_wrong_type_is_refused():
    with pytest.raises(TypeError, match="topic_selector must be KafkaTopicSelector or a callable"):
        builder().set_topic_selector("t")


# -- the older names ---------------------------------------------------------------------------------------------------


def consumer(**properties):
    with pytest.warns(DeprecationWarning, match=r"Deprecated in 1\.16\. Use KafkaSource instead"):
        return FlinkKafkaConsumer("t", SimpleStringSchema(), {"bootstrap.servers": "x:1", **properties})


def test_consumer_becomes_a_source():
    properties = {"group.id": "g", "auto.offset.reset": "earliest"}
    made = consumer(**properties)
    assert made.get_produced_type() == Types.STRING()
    built = made.to_source()
    assert built.subscriber.topics == ["t"]
    assert built.starting_offsets.needs_group
    assert built.properties["auto.offset.reset"] == "earliest"
    assert built.properties["commit.offsets.on.checkpoint"] == "true"
    assert built.properties["partition.discovery.interval.ms"] == "-1"
    assert made.set_commit_offsets_on_checkpoints(False).to_source().properties["commit.offsets.on.checkpoint"] == (
        "false"
    )
    discovering = consumer(**properties, **{"flink.partition-discovery.interval-millis": "7"}).to_source()
    assert discovering.properties["partition.discovery.interval.ms"] == "7"


def test_consumer_starts_where_its_setters_say():
    made = consumer()
    assert made.set_start_from_latest().to_source().properties["auto.offset.reset"] == "latest"
    assert made.set_start_from_earliest().to_source().properties["auto.offset.reset"] == "earliest"
    assert made.set_start_from_timestamp(5).to_source().properties["auto.offset.reset"] == "none"
    assert made.disable_filter_restored_partitions_with_subscribed_topics() is made
    with pytest.raises(ValueError, match=r"starting from group offsets needs the property group.id"):
        made.set_start_from_group_offsets().to_source()
    with pytest.raises(ValueError, match=r"auto.offset.reset must be one of"):
        consumer(**{"group.id": "g", "auto.offset.reset": "middle"}).to_source()


def test_producer_becomes_a_sink():
    made = FlinkKafkaProducer("t", SimpleStringSchema(), {"bootstrap.servers": "x:1"})
    assert made.to_sink().delivery_guarantee is DeliveryGuarantee.AT_LEAST_ONCE
    assert made.set_flush_on_checkpoint(False).to_sink().delivery_guarantee is DeliveryGuarantee.NONE
    assert made.set_log_failures_only(True).to_sink().properties["log.failures.only"] == "true"
    batch = Batch(["a"], timestamps=__import__("numpy").array([5]))
    schema = made.to_sink().record_serializer
    schema.partitioner = None
    assert list(zip(schema.encode(batch, None).timestamps, "x")) == [(0, "x")], "the time of writing"
    schema = made.set_write_timestamp_to_kafka(True).to_sink().record_serializer
    schema.partitioner = None
    assert list(schema.encode(batch, None).timestamps) == [5]


def test_producer_may_write_exactly_once():
    made = FlinkKafkaProducer("t", SimpleStringSchema(), {"bootstrap.servers": "x:1"}, 5, Semantic.EXACTLY_ONCE)
    built = made.ignore_failures_after_transaction_timeout().to_sink()
    assert built.delivery_guarantee is DeliveryGuarantee.EXACTLY_ONCE
    assert built.transactional_id_prefix == "FlinkKafkaProducer-t"
    named = FlinkKafkaProducer(
        "t", SimpleStringSchema(), {"bootstrap.servers": "x:1", "transactional.id.prefix": "own"}
    )
    assert named.to_sink().transactional_id_prefix == "own"
    with pytest.raises(TypeError, match="is not a Semantic"):
        FlinkKafkaProducer("t", SimpleStringSchema(), {}, semantic=DeliveryGuarantee.NONE)


# -- streams -----------------------------------------------------------------------------------------------------------

SERVICE = SingleClusterTopicMetadataService("cluster-a", {"bootstrap.servers": "localhost:9092"})


def streams():
    return (
        DynamicKafkaSource.builder()
        .set_kafka_metadata_service(SERVICE)
        .set_value_only_deserializer(SimpleStringSchema())
    )


def test_stream_source_with_all_required_settings_can_be_built_and_pickled():
    built = cloudpickle.loads(cloudpickle.dumps(streams().set_stream_ids({"a"}).build()))
    assert built.boundedness is Boundedness.CONTINUOUS_UNBOUNDED
    assert built.produced_type == Types.STRING()
    assert built.metadata_service.kafka_cluster_id == "cluster-a"


@pytest.mark.parametrize(
    ("subscribe", "expected"),
    [
        (lambda made: made.set_stream_ids({"a", "b"}), {"a", "b"}),
        (lambda made: made.set_kafka_stream_subscriber(KafkaStreamSetSubscriber({"a"})), {"a"}),
    ],
)
def test_stream_source_subscribes_to_stream_ids(subscribe, expected):
    assert subscribe(streams()).build().subscriber.stream_ids == expected


@pytest.mark.parametrize(
    "subscribe",
    [
        lambda made: made.set_stream_pattern("a.*"),
        lambda made: made.set_kafka_stream_subscriber(StreamPatternSubscriber("a.*")),
    ],
)
def test_stream_source_subscribes_to_a_pattern(subscribe):
    assert subscribe(streams()).build().subscriber.pattern.pattern == "a.*"


def test_stream_source_keeps_its_properties():
    built = streams().set_stream_ids({"a"}).set_properties({"x": "1"}).set_property("y", "2").set_group_id("g")
    properties = built.set_client_id_prefix("c").build().properties
    assert properties == {"x": "1", "y": "2", "group.id": "g", "client.id.prefix": "c"}


def test_stream_source_keeps_its_offsets():
    built = streams().set_stream_ids({"a"}).set_starting_offsets(LATEST).set_bounded(LATEST).build()
    assert built.starting_offsets is LATEST and built.stopping_offsets is LATEST
    assert built.boundedness is Boundedness.BOUNDED


def test_stream_source_keeps_its_deserializer():
    schema = KafkaRecordDeserializationSchema.value_only(SimpleStringSchema())
    assert streams().set_stream_ids({"a"}).set_deserializer(schema).build().deserializer is schema


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: streams().build(), "Kafka stream subscriber is required"),
        (lambda: DynamicKafkaSource.builder().set_stream_ids({"a"}).build(), "Kafka metadata service is required"),
        (
            lambda: DynamicKafkaSource.builder().set_stream_ids({"a"}).set_kafka_metadata_service(SERVICE).build(),
            "Deserialization schema is required",
        ),
        (lambda: streams().set_stream_ids({"a"}).set_stream_pattern("b"), "already selected"),
    ],
)
def test_stream_source_with_missing_settings_is_refused(build, message):
    with pytest.raises(ConfigurationError, match=message):
        build()


def test_java_objects_are_refused():
    class Service(KafkaMetadataService):
        def get_all_streams(self):
            return set()

        def describe_streams(self, stream_ids):
            return {}

    with pytest.raises(UnsupportedOperationError, match="subclass KafkaMetadataService in Python"):
        Service(object())
    with pytest.raises(ValueError, match=r"needs bootstrap.servers"):
        SingleClusterTopicMetadataService("c", {})


def test_users_schema_writes_rows():
    class Own(KafkaRecordSerializationSchema):
        def serialize(self, element):
            from flinkpy.datastream.connectors.kafka import ProducerRecord

            return ProducerRecord(element[0], element[1])

    assert encoded(Own(), Row("t1", b"v1"), Row("t2", b"v2")) == [("t1", None, b"v1"), ("t2", None, b"v2")]


def test_client_without_brokers_logs_it_once_per_interval() -> None:
    now = [0.0]
    repeats = _Repeats(lambda: now[0])

    def lets_through(number: int, time_ms: int, broker: str = "b:1") -> str | None:
        text = f"FAIL [g#producer-{number}] {broker}: Connect failed (after {time_ms}ms in state CONNECT)"
        record = logging.LogRecord("kafka", logging.ERROR, "", 0, "%s", (text,), None)
        return record.getMessage() if repeats.filter(record) else None

    assert lets_through(1, 0) is not None
    assert [lets_through(2, 3), lets_through(1, 0)] == [None, None]
    assert lets_through(1, 0, "b:2") is not None
    now[0] = 31.0
    later = lets_through(1, 5)
    assert later is not None and later.endswith("CONNECT) (repeated 2 times since it was last logged)")
    assert lets_through(1, 5) is None
