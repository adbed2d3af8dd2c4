"""An Apache Kafka broker in KRaft mode: a Java process on loopback, with the jars that pom.xml names."""

from __future__ import annotations

import base64
import datetime
import ipaddress
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from maven_jars import require_jars
from ports import own_port
from requirements import has_java, require

#: A start takes about three seconds on an idle machine.
READY_S = 60.0
#: The user of the listener with TLS and SASL.
USER = "ann"
PASSWORD = "s3cret"

_PROPERTIES = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller_port}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port},SECURE://127.0.0.1:{secure_port}
advertised.listeners=PLAINTEXT://127.0.0.1:{port},SECURE://127.0.0.1:{secure_port}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SECURE:SASL_SSL
controller.listener.names=CONTROLLER
sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512
listener.name.secure.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required \\
    user_{user}="{password}";
listener.name.secure.scram-sha-256.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;
listener.name.secure.scram-sha-512.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;
listener.name.secure.ssl.keystore.type=PEM
listener.name.secure.ssl.keystore.location={directory}/keystore.pem
log.dirs={directory}/data
auto.create.topics.enable=false
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
transaction.max.timeout.ms=900000
transaction.abort.timed.out.transaction.cleanup.interval.ms=500
log.flush.offset.checkpoint.interval.ms=60000
{more}
"""
#: A restarted broker may register when its former session has expired.
_SHORT_SESSION = "broker.heartbeat.interval.ms=300\nbroker.session.timeout.ms=1500"

#: Ends the broker with this process. Otherwise it would outlive tests that are killed.
_TIED_TO_THIS_PROCESS = (
    sys.executable,
    "-c",
    "import os, sys, flinkpy.common.process as p; p.die_with_parent(int(sys.argv[1])); os.execvp('java', sys.argv[2:])",
)


class KafkaBroker:
    """A broker that tests control. Transactions may last 15 minutes, which is the default of brokers."""

    def __init__(self, jars: Path, directory: Path, settings: str = "") -> None:
        self._directory = directory
        self._settings = settings
        self._class_path = f"{jars}/*"
        self._popen: subprocess.Popen[bytes] | None = None
        self._topics = 0
        self._secure_port = 0
        self.port = 0

    @property
    def is_running(self) -> bool:
        return self._popen is not None and self._popen.poll() is None

    @property
    def bootstrap_servers(self) -> str:
        return f"127.0.0.1:{self.port}"

    def secure_properties(self, mechanism: str) -> dict[str, str]:
        """Returns the properties of a client of the listener with TLS and SASL."""
        return {
            "bootstrap.servers": f"127.0.0.1:{self._secure_port}",
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(self._directory / "ca.pem"),
            "sasl.mechanism": mechanism,
            "sasl.username": USER,
            "sasl.password": PASSWORD,
        }

    # -- life cycle ----------------------------------------------------------------------------------------------

    def start(self) -> None:
        write_certificate(self._directory / "keystore.pem", self._directory / "ca.pem")
        self.port, controller_port, self._secure_port = own_port(), own_port(), own_port()
        settings = self._directory / "server.properties"
        settings.write_text(
            _PROPERTIES.format(
                port=self.port,
                controller_port=controller_port,
                secure_port=self._secure_port,
                user=USER,
                password=PASSWORD,
                directory=self._directory,
                more=self._settings,
            )
        )
        cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        users = [
            argument
            for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512")
            for argument in ("--add-scram", f"{mechanism}=[name={USER},password={PASSWORD}]")
        ]
        command = ("kafka.tools.StorageTool", "format", f"--cluster-id={cluster_id}", "-c", str(settings), *users)
        assert self._java(*command).wait(READY_S) == 0, self.log[-2000:]
        self.resume()
        try:
            self.wait_until_ready()
        except AssertionError:
            self.kill()
            raise

    def resume(self) -> None:
        """Starts the broker again with its data, at the same address."""
        self._popen = self._java("kafka.Kafka", str(self._directory / "server.properties"))

    def wait_until_ready(self) -> None:
        assert self._popen is not None
        deadline = time.monotonic() + READY_S
        while True:
            try:
                self.admin().list_topics(timeout=1.0)
            except Exception as error:  # noqa: BLE001 - any error of a client without a broker
                assert self._popen.poll() is None, f"the broker has ended:\n{self.log[-2000:]}"
                assert time.monotonic() < deadline, f"no broker after {READY_S} s: {error}\n{self.log[-2000:]}"
            else:
                return

    def kill(self) -> None:
        popen, self._popen = self._popen, None
        if popen is not None:
            popen.send_signal(signal.SIGKILL)
            popen.wait()

    @property
    def log(self) -> str:
        return (self._directory / "broker.log").read_text(errors="replace")

    def _java(self, *command: str) -> subprocess.Popen[bytes]:
        # A simple compiler and collector: a broker of tests is short-lived and never busy.
        options = ["-Xmx400m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto"]
        with open(self._directory / "broker.log", "ab") as log:
            return subprocess.Popen(
                [*_TIED_TO_THIS_PROCESS, str(os.getpid()), "java", *options, "-cp", self._class_path, *command],
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                env={**os.environ, "LOG_DIR": str(self._directory)},
            )

    # -- topics and records --------------------------------------------------------------------------------------

    def admin(self) -> Any:
        from confluent_kafka.admin import AdminClient

        return AdminClient({"bootstrap.servers": self.bootstrap_servers, "log_level": 0})

    def create_topic(self, name: str | None = None, partitions: int = 1, **settings: str) -> str:
        """Creates a topic, waits until it is ready and returns its name."""
        from confluent_kafka.admin import NewTopic

        self._topics += 1
        topic = name or f"topic-{os.getpid()}-{self._topics}"
        admin = self.admin()
        config = {key.replace("_", "."): value for key, value in settings.items()}
        [created] = admin.create_topics([NewTopic(topic, partitions, 1, config=config)]).values()
        created.result(30)
        deadline = time.monotonic() + READY_S
        while topic not in (found := admin.list_topics(timeout=10).topics) or (
            len(found[topic].partitions) < partitions
            or any(partition.leader < 0 for partition in found[topic].partitions.values())
        ):
            assert time.monotonic() < deadline, f"topic {topic} does not appear"
            time.sleep(0.02)
        return topic

    def add_partitions(self, topic: str, total: int) -> None:
        from confluent_kafka.admin import NewPartitions

        admin = self.admin()  # must stay alive until the answer
        [done] = admin.create_partitions([NewPartitions(topic, total)]).values()
        done.result(30)

    def delete_topic(self, topic: str) -> None:
        admin = self.admin()
        [done] = admin.delete_topics([topic]).values()
        done.result(30)

    def produce(
        self,
        topic: str,
        values: list[Any],
        *,
        partition: int = -1,
        timestamps: list[int] | None = None,
        key: Any = None,
    ) -> None:
        """Writes records and waits until they are stored."""
        from confluent_kafka import Producer

        producer = Producer({"bootstrap.servers": self.bootstrap_servers, "linger.ms": 0})
        for index, value in enumerate(values):
            at = {} if timestamps is None else {"timestamp": timestamps[index]}
            encoded = None if value is None else str(value).encode()
            while True:
                try:
                    producer.produce(topic, encoded, key=key, partition=partition, **at)
                    break
                except BufferError:
                    producer.poll(0.1)
        assert producer.flush(30) == 0

    def read(self, topic: str, *, committed: bool = True) -> list[Any]:
        """Returns all present messages (confluent_kafka.Message).

        Args:
            committed: read with `read_committed`.
        """
        from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap_servers,
                "group.id": "test-reader",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "isolation.level": "read_committed" if committed else "read_uncommitted",
                "fetch.wait.max.ms": 10,
            }
        )
        try:
            partitions = consumer.list_topics(topic, timeout=10).topics[topic].partitions
            consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in partitions])
            ended: set[int] = set()
            messages = []
            deadline = time.monotonic() + READY_S
            while len(ended) < len(partitions):
                assert time.monotonic() < deadline, f"topic {topic} has no end"
                for message in consumer.consume(1000, timeout=0.5):
                    error = message.error()
                    if error is None:
                        messages.append(message)
                    elif error.code() == KafkaError._PARTITION_EOF:
                        ended.add(message.partition())
            return messages
        finally:
            consumer.close()

    def read_values(self, topic: str, *, committed: bool = True) -> list[str]:
        return [message.value().decode() for message in self.read(topic, committed=committed)]


def write_certificate(keystore: Path, authority: Path) -> None:
    """Writes a key with a self-signed certificate for 127.0.0.1, and the certificate alone."""
    now = datetime.datetime.now(datetime.UTC)
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "kafka of the tests")])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=30))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    text = certificate.public_bytes(serialization.Encoding.PEM)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    keystore.write_bytes(private + text)
    authority.write_bytes(text)


def broker_jars() -> Path:
    """Returns the directory of the broker's jars. Skips the test without Java or the jars."""
    require("Java", has_java(17), "Apache Kafka runs on Java 17")
    return require_jars("kafka_broker")


@pytest.fixture(scope="session")
def kafka() -> Iterator[KafkaBroker]:
    """Provides a broker for all tests of this session."""
    with_jars = broker_jars()
    directory = Path(tempfile.mkdtemp(prefix="flinkpy-kafka-"))
    broker = KafkaBroker(with_jars, directory)
    try:
        broker.start()
        yield broker
    finally:
        broker.kill()
        shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture(scope="session")
def _mortal_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    broker = KafkaBroker(broker_jars(), tmp_path_factory.mktemp("kafka"), _SHORT_SESSION)
    try:
        broker.start()
        yield broker
    finally:
        broker.kill()


@pytest.fixture
def own_kafka(_mortal_kafka: KafkaBroker) -> KafkaBroker:
    """Provides a broker that a test may kill. The next test gets the same one, started again."""
    if not _mortal_kafka.is_running:
        _mortal_kafka.resume()
        _mortal_kafka.wait_until_ready()
    return _mortal_kafka
