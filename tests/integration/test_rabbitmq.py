"""Queues of a real RabbitMQ: a failure loses no message, and with correlation ids it repeats none."""

from __future__ import annotations

import logging
import os
import signal
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from clusters import RunningCluster, StartCluster
from job_support import Gate, environment, wait_until
from rabbitmq_server import rabbitmq

from flinkpy.common import SimpleStringSchema, Types
from flinkpy.common.errors import JobExecutionError
from flinkpy.common.serialization import Encoder
from flinkpy.datastream import StreamExecutionEnvironment
from flinkpy.datastream.connectors.file_system import FileSink, RollingPolicy
from flinkpy.datastream.connectors.rabbitmq import RMQConnectionConfig, RMQSink, RMQSource

logging.getLogger("pika").setLevel(logging.CRITICAL)

SETTINGS = {
    "restart-strategy.type": "fixed-delay",
    "restart-strategy.fixed-delay.attempts": "20",
    "restart-strategy.fixed-delay.delay": "50 ms",
    "execution.checkpointing.interval": "100 ms",
}


@pytest.fixture(scope="module")
def server() -> Iterator[RMQConnectionConfig]:
    with tempfile.TemporaryDirectory(prefix="flinkpy-rabbitmq-") as directory, rabbitmq(Path(directory)) as running:
        yield running


def publish(config: RMQConnectionConfig, queue: str, messages: list[str], with_ids: bool = True) -> None:
    import pika

    connection = config.connect()
    channel = connection.channel()
    channel.queue_declare(queue, durable=True)
    channel.tx_select()
    for message in messages:
        properties = pika.BasicProperties(correlation_id=message if with_ids else None)
        channel.basic_publish("", queue, message.encode(), properties)
    channel.tx_commit()
    connection.close()


def messages_in(config: RMQConnectionConfig, queue: str) -> int:
    connection = config.connect()
    try:
        return connection.channel().queue_declare(queue, durable=True, passive=True).method.message_count
    finally:
        connection.close()


def drain(config: RMQConnectionConfig, queue: str) -> list[str]:
    connection = config.connect()
    channel = connection.channel()
    taken = []
    while True:
        method, _, body = channel.basic_get(queue, auto_ack=True)
        if method is None:
            connection.close()
            return taken
        taken.append(body.decode())


def from_queue(env: StreamExecutionEnvironment, config: RMQConnectionConfig, queue: str, with_ids: bool) -> Any:
    source = RMQSource(config, queue, with_ids, SimpleStringSchema())
    return env.add_source(source, "rabbitmq", Types.STRING()).uid("source").set_parallelism(1)


def lines_below(directory: Path) -> list[str]:
    files = [path for path in directory.rglob("part-*") if path.is_file()]
    return [line for path in files for line in path.read_text().splitlines()]


def test_a_job_writes_to_a_queue_and_another_reads_it(
    shared_cluster: RunningCluster, server: RMQConnectionConfig
) -> None:
    env = environment(shared_cluster, 1)
    texts = [f"text {number} ü" for number in range(2_500)]
    env.from_collection(texts, Types.STRING()).add_sink(RMQSink(server, "both", SimpleStringSchema()))
    env.execute("write")
    assert messages_in(server, "both") == 2_500

    env = environment(shared_cluster, 1)
    read = from_queue(env, server, "both", with_ids=False).execute_and_collect(limit=2_500)
    assert read == texts


def test_each_message_with_a_correlation_id_arrives_once_even_if_a_task_executor_dies(
    start_cluster: StartCluster, server: RMQConnectionConfig, tmp_path: Path
) -> None:
    cluster = start_cluster(2)
    env = environment(cluster, 1, **SETTINGS, **{"execution.checkpointing.dir": str(tmp_path / "checkpoints")})
    gate = Gate(tmp_path)
    texts = [f"m{number}" for number in range(4_000)]
    publish(server, "exact", texts[:2_000])
    lines = from_queue(env, server, "exact", with_ids=True).map(gate.pass_at("m1500"), Types.STRING()).uid("gate")
    output = tmp_path / "output"
    sink = FileSink.for_row_format(str(output), Encoder.simple_string_encoder())
    lines.sink_to(sink.with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy()).build()).uid("sink")
    client = env.execute_async("exact")
    gate.wait_for_arrival()
    os.kill(gate.arrivals[0], signal.SIGKILL)
    gate.wait_for_arrival(2)
    gate.open()
    publish(server, "exact", texts[2_000:])
    wait_until(lambda: len(lines_below(output)) >= 4_000, "all messages are in files")
    publish(server, "exact", ["the end"])
    wait_until(lambda: "the end" in lines_below(output), "the last message is in a file")
    client.cancel().result()

    assert Counter(lines_below(output)) == Counter([*texts, "the end"])


def test_a_message_without_a_correlation_id_fails_a_source_that_needs_them(
    shared_cluster: RunningCluster, server: RMQConnectionConfig
) -> None:
    publish(server, "anonymous", ["who?"], with_ids=False)
    env = environment(shared_cluster, 1, **{"execution.checkpointing.interval": "1 s"})
    from_queue(env, server, "anonymous", with_ids=True).print()
    with pytest.raises(JobExecutionError, match="queue anonymous: a message has no correlation id"):
        env.execute("anonymous")


def test_a_missing_server_fails_the_job_and_the_error_names_its_address(shared_cluster: RunningCluster) -> None:
    config = RMQConnectionConfig.Builder().set_uri("amqp://me:secret@127.0.0.1:1/").build()
    env = environment(shared_cluster, 1)
    from_queue(env, config, "nowhere", with_ids=False).print()
    with pytest.raises(JobExecutionError, match=r"amqp://127\.0\.0\.1:1/, queue 'nowhere'") as failure:
        env.execute("nowhere")
    assert "secret" not in str(failure.value)


def test_connection_settings_can_be_read_back() -> None:
    builder = RMQConnectionConfig.Builder().set_host("h").set_port(1).set_virtual_host("/v").set_user_name("u")
    builder = builder.set_password("p").set_automatic_recovery(False).set_topology_recovery_enabled(True)
    builder = builder.set_requested_heartbeat(2).set_requested_frame_max(3).set_requested_channel_max(4)
    config = builder.set_connection_timeout(5).set_network_recovery_interval(6).set_prefetch_count(7).build()
    assert (config.get_host(), config.get_port(), config.get_virtual_host()) == ("h", 1, "/v")
    assert (config.get_user_name(), config.get_password(), config.get_uri()) == ("u", "p", None)
    assert (config.is_automatic_recovery(), config.is_topology_recovery()) == (False, True)
    assert (config.get_requested_heartbeat(), config.get_requested_frame_max()) == (2, 3)
    assert (config.get_requested_channel_max(), config.get_connection_timeout()) == (4, 5)
    assert config.get_network_recovery_interval() == 6
    with pytest.raises(ValueError, match="port is missing"):
        RMQConnectionConfig.Builder().set_host("h").build()
