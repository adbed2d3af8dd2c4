"""A program without checkpoints gets a warning about sinks that commit at checkpoints."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flinkpy.common import Configuration, Encoder, SimpleStringSchema, Types, WatermarkStrategy
from flinkpy.datastream import StreamExecutionEnvironment
from flinkpy.datastream.connectors.base import DeliveryGuarantee
from flinkpy.datastream.connectors.file_system import FileSink
from flinkpy.datastream.connectors.kafka import KafkaRecordSerializationSchema, KafkaSink, KafkaSource


def kafka_sink(guarantee: DeliveryGuarantee) -> KafkaSink:
    serializer = KafkaRecordSerializationSchema.builder().set_topic("t")
    return (
        KafkaSink.builder()
        .set_bootstrap_servers("127.0.0.1:1")
        .set_delivery_guarantee(guarantee)
        .set_transactional_id_prefix("p")
        .set_record_serializer(serializer.set_value_serialization_schema(SimpleStringSchema()).build())
        .build()
    )


def never_ending(env: StreamExecutionEnvironment) -> Any:
    source = (
        KafkaSource.builder()
        .set_bootstrap_servers("127.0.0.1:1")
        .set_topics("t")
        .set_value_only_deserializer(SimpleStringSchema())
        .build()
    )
    return env.from_source(source, WatermarkStrategy.no_watermarks(), "endless")


def ending(env: StreamExecutionEnvironment) -> Any:
    return env.from_collection(["a"], Types.STRING())


def warnings_of(build: Callable[[StreamExecutionEnvironment], None], **options: str) -> list[str]:
    env = StreamExecutionEnvironment(Configuration.from_dict(options))
    build(env)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        env.generate_job_graph()
    return [str(one.message) for one in caught if "no reader will see what sink" in str(one.message)]


@pytest.mark.parametrize("kind", ["kafka", "file"])
def test_the_warning_about_a_sink_that_never_commits_says_what_to_do(kind: str, tmp_path: Path) -> None:
    sink: Any = (
        kafka_sink(DeliveryGuarantee.EXACTLY_ONCE)
        if kind == "kafka"
        else FileSink.for_row_format(str(tmp_path), Encoder.simple_string_encoder()).build()
    )
    (told,) = warnings_of(lambda env: never_ending(env).map(str).sink_to(sink).name("bills"))
    assert "sink 'bills: Writer'" in told
    assert "env.enable_checkpointing(interval_ms)" in told
    # One input that never ends is enough.
    assert warnings_of(lambda env: never_ending(env).union(ending(env)).sink_to(sink))


def test_a_sink_that_commits_or_needs_no_commit_causes_no_warning() -> None:
    exactly_once = kafka_sink(DeliveryGuarantee.EXACTLY_ONCE)
    every_second = {"execution.checkpointing.interval": "1 s"}
    assert warnings_of(lambda env: never_ending(env).sink_to(exactly_once), **every_second) == []
    assert warnings_of(lambda env: ending(env).sink_to(exactly_once)) == []
    assert warnings_of(lambda env: never_ending(env).sink_to(kafka_sink(DeliveryGuarantee.AT_LEAST_ONCE))) == []
    assert warnings_of(lambda env: never_ending(env).print()) == []
