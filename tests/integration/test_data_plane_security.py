"""Access control of the data plane over real sockets: accepted peers, abilities of refused ones, and error messages."""

from __future__ import annotations

import datetime as dt
import pickle
import re
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from flinkpy.common.errors import PartitionAuthenticationError, PartitionConnectionError
from flinkpy.network.environment import NetworkEnvironment
from flinkpy.network.input_gate import InputGate
from flinkpy.network.options import NetworkOptions
from flinkpy.network.transport import frames, greeting
from flinkpy.network.transport.authenticator import (
    DataPlaneAuthenticator,
    HmacAuthenticator,
    PeerRole,
    TrustedNetworkAuthenticator,
)
from flinkpy.records.batch import Batch
from flinkpy.records.elements import Element, EndOfPartition
from flinkpy.security import PEER_NAME, TlsMaterial
from tests.certificates import Authority, authority, self_signed

TIMEOUT_S = 60.0
DAY = dt.timedelta(days=1)
MEMBER = HmacAuthenticator(b"k" * 32)
STRANGER = HmacAuthenticator(b"x" * 32)

Start = Callable[..., NetworkEnvironment]


class Network:
    """Environments of one test, in one process."""

    def __init__(self) -> None:
        self._made: list[NetworkEnvironment] = []

    def start(
        self,
        authenticator: DataPlaneAuthenticator = MEMBER,
        tls: TlsMaterial | None = None,
        *,
        address: str | None = None,
        **limits: Any,
    ) -> NetworkEnvironment:
        environment = NetworkEnvironment(
            NetworkOptions(**limits),
            resource_id=f"executor-{len(self._made)}",
            authenticator=authenticator,
            tls=tls,
        )
        self._made.append(environment)
        environment.start()
        return environment

    def close(self) -> None:
        for environment in self._made:
            environment.close()


@pytest.fixture
def network() -> Iterator[Network]:
    threads = set(threading.enumerate())
    made = Network()
    yield made
    made.close()
    assert set(threading.enumerate()) <= threads


class Reader:
    """A consuming task of one partition."""

    def __init__(self, environment: NetworkEnvironment, address: str, partition_id: str = "p") -> None:
        self._woken = threading.Event()
        self.failures: list[Exception] = []
        self.gate: InputGate = environment.create_input_gate(
            owner="consumer", subpartition_index=0, partitions=[(partition_id, address)], on_failure=self._failed
        )
        self.gate.set_availability_listener(self._woken.set)
        self.gate.request_partitions()

    def _failed(self, error: Exception) -> None:
        self.failures.append(error)
        self._woken.set()

    def next(self) -> Batch | Element:
        while True:
            item = self.gate.poll()
            if item is not None:
                return item[1]
            if not self._woken.wait(TIMEOUT_S):
                raise TimeoutError("nothing arrived")
            self._woken.clear()

    def rows(self) -> int:
        """Reads until the end and returns the number of rows."""
        rows = 0
        while True:
            item = self.next()
            if isinstance(item, Batch):
                rows += item.num_rows
            elif isinstance(item, EndOfPartition):
                return rows


def finished_partition(environment: NetworkEnvironment, partition_id: str = "p") -> None:
    partition = environment.create_result_partition(partition_id=partition_id, num_subpartitions=1)
    partition.emit(0, Batch(pa.record_batch({"n": np.arange(10)})))
    partition.emit(0, Batch(["a", "b"]))
    partition.finish()


def wait_until(condition: Callable[[], bool], what: str) -> None:
    pause = threading.Event()
    for _ in range(int(TIMEOUT_S / 0.005)):
        if condition():
            return
        pause.wait(0.005)
    raise TimeoutError(what)


class Bomb:
    """An object that creates a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return open, (str(self._path), "w")


def connect(environment: NetworkEnvironment) -> socket.socket:
    host, _, port = environment.address.rpartition(":")
    return socket.create_connection((host, int(port)), timeout=TIMEOUT_S)


def read_frame(sock: socket.socket) -> tuple[tuple[int, ...], bytes]:
    header = _exactly(sock, frames.HEADER_BYTES)
    fields = frames.HEADER.unpack(header)
    return fields, _exactly(sock, fields[0])


def _exactly(sock: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = sock.recv(size - len(data))
        if not more:
            raise EOFError(data)
        data += more
    return data


def read_to_end(sock: socket.socket) -> bytes:
    data = b""
    with suppress(ConnectionResetError):
        while more := sock.recv(1 << 16):
            data += more
    return data


def hello(environment: NetworkEnvironment, nonce: bytes = b"n" * 32) -> greeting.Hello:
    version = frames.PROTOCOL_VERSION
    return greeting.Hello(version, version, nonce, "stranger", environment.address)


def said_by_both(sock: socket.socket, first: greeting.Hello) -> Any:
    """Greets the producer at the other end. Returns both greetings and the proof of the producer."""
    sock.sendall(first.to_frame())
    fields, body = read_frame(sock)
    assert fields[1] == frames.CHALLENGE
    challenge = greeting.Challenge.of_frame(fields[5], fields[6], fields[7], fields[8], body)
    said = greeting.introductions(first, challenge.version, challenge.producer_id, challenge.nonce)
    return said, challenge.proof


class FakeProducer:
    """Listens like a producer, and handles each consumer with a function of the test."""

    def __init__(self, serve: Callable[[socket.socket], None]) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:{}".format(self._listener.getsockname()[1])  # noqa: UP032 - the port alone
        self._serve = serve
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        # A consumer connects again if its connection breaks at once.
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            with sock, suppress(OSError, EOFError):
                sock.settimeout(TIMEOUT_S)
                self._serve(sock)

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(TIMEOUT_S)
        assert not self._thread.is_alive()

    def authenticate(self, sock: socket.socket) -> None:
        """Authenticates like a member of the cluster."""
        fields, body = read_frame(sock)
        said_first = greeting.Hello.of_frame(fields[5], fields[6], fields[7], fields[8], body)
        said = greeting.introductions(said_first, frames.PROTOCOL_VERSION, "fake", b"f" * 32)
        proof = MEMBER.proof(said, PeerRole.PRODUCER)
        sock.sendall(greeting.Challenge(frames.PROTOCOL_VERSION, b"f" * 32, proof, "fake", 32 * 1024).to_frame())
        assert read_frame(sock)[0][1] == frames.PROOF
        assert read_frame(sock)[0][1] == frames.PARTITION_REQUEST


@contextmanager
def fake_producer(serve: Callable[[FakeProducer, socket.socket], None]) -> Iterator[FakeProducer]:
    holder: list[FakeProducer] = []
    ready = threading.Event()

    def run(sock: socket.socket) -> None:
        ready.wait(TIMEOUT_S)
        serve(holder[0], sock)

    holder.append(FakeProducer(run))
    ready.set()
    try:
        yield holder[0]
    finally:
        holder[0].close()


# ---------------------------------------------------------------- the cluster's secret


def test_members_of_a_cluster_exchange_columns_and_rows(network: Network) -> None:
    producer, consumer = network.start(), network.start()
    finished_partition(producer)

    assert Reader(consumer, producer.address).rows() == 12


@pytest.mark.parametrize("which", ["producer", "consumer"])
def test_a_process_of_another_cluster_gets_no_data_and_both_sides_log_why(
    network: Network, which: str, caplog: pytest.LogCaptureFixture
) -> None:
    producer = network.start(STRANGER if which == "producer" else MEMBER)
    consumer = network.start(MEMBER if which == "producer" else STRANGER)
    finished_partition(producer)
    reader = Reader(consumer, producer.address)

    with pytest.raises(PartitionAuthenticationError, match=r"channel to partition p broke: .*cluster's secret"):
        reader.next()
    assert isinstance(reader.failures[0], PartitionAuthenticationError)
    wait_until(lambda: producer.statistics().connections == 0, "the producer has closed the connection")
    assert [record.levelname for record in caplog.records] == ["WARNING"]


def test_a_process_without_a_secret_gets_no_data(network: Network) -> None:
    producer, consumer = network.start(), network.start(TrustedNetworkAuthenticator())
    finished_partition(producer)

    with pytest.raises(PartitionAuthenticationError, match="did not prove that it knows this cluster's secret"):
        Reader(consumer, producer.address).next()


def test_a_recorded_proof_cannot_be_replayed(network: Network) -> None:
    producer = network.start()
    with connect(producer) as first:
        said, _ = said_by_both(first, hello(producer))
        overheard = MEMBER.proof(said, PeerRole.CONSUMER)
        first.sendall(greeting.proof_frame(overheard))
        wait_until(lambda: _authenticated(producer) == 1, "a member is let in")
    with connect(producer) as second:
        said_by_both(second, hello(producer))
        second.sendall(greeting.proof_frame(overheard))

        assert b"was not authenticated" in read_to_end(second)


def _authenticated(environment: NetworkEnvironment) -> int:
    return sum(getattr(one, "is_authenticated", False) for one in environment._connections.connections)


def test_the_proof_of_the_producer_cannot_be_reflected(network: Network) -> None:
    producer = network.start()
    with connect(producer) as sock:
        _, proof = said_by_both(sock, hello(producer))
        sock.sendall(greeting.proof_frame(proof))

        assert b"was not authenticated" in read_to_end(sock)


def test_a_relay_to_a_real_producer_is_detected(network: Network) -> None:
    """An attacker listens at the address of a dead process and relays the consumer to a live producer."""
    producer, consumer = network.start(), network.start()
    finished_partition(producer)

    def relay(_: FakeProducer, sock: socket.socket) -> None:
        with connect(producer) as beyond:
            fields, body = read_frame(sock)
            beyond.sendall(frames.HEADER.pack(*fields) + body)
            sock.sendall(read_to_end(beyond))

    with (
        fake_producer(relay) as relayed,
        pytest.raises(PartitionAuthenticationError, match=f"{relayed.address} was requested, but the producer has"),
    ):
        Reader(consumer, relayed.address).next()


def test_nothing_received_before_the_proof_is_unpickled(network: Network, tmp_path: Path) -> None:
    consumer, exploded = network.start(), tmp_path / "exploded"
    bomb = pickle.dumps([Bomb(exploded)])
    body = bomb + bytes(-len(bomb) % 8)
    data = frames.HEADER.pack(len(body), frames.DATA, frames.PICKLED, 0, 1, 0, len(bomb), 0, 0, 1) + body

    def serve(_: FakeProducer, sock: socket.socket) -> None:
        read_frame(sock)
        sock.sendall(data)
        read_to_end(sock)

    with fake_producer(serve) as fake, pytest.raises(PartitionConnectionError, match="before the greeting"):
        Reader(consumer, fake.address).next()
    producer = network.start()
    with connect(producer) as sock:
        sock.sendall(hello(producer).to_frame() + data)
        read_to_end(sock)
    assert not exploded.exists()


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
def test_a_silent_connection_is_closed(network: Network, tls: bool, caplog: pytest.LogCaptureFixture) -> None:
    producer = network.start(tls=authority().member() if tls else None, handshake_timeout_ms=50)

    with connect(producer) as sock:
        assert sock.recv(1) == b""
    wait_until(lambda: producer.statistics().connections == 0, "the connection is forgotten")
    assert "connected and did not authenticate itself" in caplog.text


def test_a_silent_producer_is_given_up(network: Network) -> None:
    consumer = network.start(connect_timeout_ms=50)

    def serve(_: FakeProducer, sock: socket.socket) -> None:
        read_to_end(sock)

    with (
        fake_producer(serve) as fake,
        pytest.raises(PartitionConnectionError, match="no answer from the data address"),
    ):
        Reader(consumer, fake.address).next()


def test_the_error_about_a_producer_of_an_old_release_names_its_version(network: Network) -> None:
    consumer = network.start()

    def serve(_: FakeProducer, sock: socket.socket) -> None:
        sock.sendall(frames.frame(frames.GREETING_OF_VERSION_1, a=1, body=bytes(32)))
        read_to_end(sock)

    with (
        fake_producer(serve) as fake,
        pytest.raises(PartitionConnectionError, match="the old data plane protocol 1"),
    ):
        Reader(consumer, fake.address).next()


def test_many_silent_connections_lock_no_member_out(network: Network) -> None:
    producer = network.start(handshake_timeout_ms=100, max_unauthenticated_connections=4)
    consumer = network.start()
    finished_partition(producer)
    silent = [connect(producer) for _ in range(12)]
    try:
        wait_until(lambda: producer.statistics().connections == 4, "the places are taken")

        assert Reader(consumer, producer.address).rows() == 12
        assert producer.statistics().connections <= 5
    finally:
        for sock in silent:
            sock.close()


@pytest.mark.parametrize("size", [frames.MAX_SMALL_BODY_BYTES + 8, 1 << 30])
@pytest.mark.parametrize("is_member", [False, True])
def test_a_consumer_gets_no_memory_for_long_frames(network: Network, size: int, is_member: bool) -> None:
    producer = network.start()
    with connect(producer) as sock:
        if is_member:
            said, _ = said_by_both(sock, hello(producer))
            sock.sendall(greeting.proof_frame(MEMBER.proof(said, PeerRole.CONSUMER)))
        before = pa.total_allocated_bytes()
        sock.sendall(frames.HEADER.pack(size, frames.PARTITION_REQUEST, 0, 0, 1, 0, 1, 1, 1, 1))
        read_to_end(sock)
        assert pa.total_allocated_bytes() - before < 1 << 20


# Type, declared bytes, cost. A gigabyte is declared for too much credit, for little credit, for none, and as a schema.
@pytest.mark.parametrize(
    ("kind", "size", "cost"),
    [
        (frames.DATA, 1 << 30, 40_000),
        (frames.DATA, 1 << 30, 1),
        (frames.DATA, 1 << 30, 0),
        (frames.SCHEMA, 1 << 30, 0),
        (frames.ELEMENT, 1 << 29, 0),
        (frames.DATA, (1 << 30) + 8, 1),
    ],
)
def test_a_producer_gets_no_memory_that_it_is_not_entitled_to(
    network: Network, kind: int, size: int, cost: int
) -> None:
    consumer = network.start()

    def serve(fake: FakeProducer, sock: socket.socket) -> None:
        fake.authenticate(sock)
        sock.sendall(frames.HEADER.pack(size, kind, 0, 0, 1, 0, 8, 0, 0, cost))
        read_to_end(sock)

    before = pa.total_allocated_bytes()
    with fake_producer(serve) as fake:
        with pytest.raises(PartitionConnectionError, match="carries no valid frames"):
            Reader(consumer, fake.address).next()
        assert pa.total_allocated_bytes() - before < 8 << 20


def test_memory_for_a_long_frame_is_allocated_as_it_arrives(network: Network) -> None:
    """A schema may be long, but memory is used only for the bytes that have arrived."""
    consumer = network.start()
    begun, allocated = threading.Event(), []

    def serve(fake: FakeProducer, sock: socket.socket) -> None:
        fake.authenticate(sock)
        sock.sendall(frames.HEADER.pack(frames.MAX_SCHEMA_BYTES, frames.SCHEMA, 0, 0, 1, 8, 0, 0, 0, 0) + bytes(64))
        begun.set()
        read_to_end(sock)

    before = pa.total_allocated_bytes()
    with fake_producer(serve) as fake:
        reader = Reader(consumer, fake.address)
        assert begun.wait(TIMEOUT_S)
        wait_until(lambda: consumer.statistics().bytes_received > 64, "the front of the frame has come")
        allocated.append(pa.total_allocated_bytes() - before)
        reader.gate.close()
        consumer.close()
    assert allocated[0] <= 5 << 20


def test_a_broken_connection_does_not_affect_others(network: Network) -> None:
    producer, consumer = network.start(), network.start()
    partition = producer.create_result_partition(partition_id="p", num_subpartitions=1)
    reader = Reader(consumer, producer.address)
    partition.emit(0, Batch(["before"]))
    assert isinstance(reader.next(), Batch)

    def serve(fake: FakeProducer, sock: socket.socket) -> None:
        fake.authenticate(sock)
        sock.sendall(struct.pack("<Q", 1 << 63) * 64)
        read_to_end(sock)

    with fake_producer(serve) as fake, pytest.raises(PartitionConnectionError):
        Reader(consumer, fake.address).next()

    partition.emit(0, Batch(["after"]))
    item = reader.next()
    assert isinstance(item, Batch)
    assert item.values == ["after"]


# ---------------------------------------------------------------- TLS


def test_members_exchange_over_tls_and_nothing_is_readable_on_the_way(network: Network) -> None:
    material = authority().member()
    producer, consumer = network.start(tls=material), network.start(tls=authority().member())
    finished_partition(producer)

    assert Reader(consumer, producer.address).rows() == 12
    (connection,) = consumer._connections.connections
    (connected,) = producer._connections.connections
    for one in (connection, connected):
        assert isinstance(one._socket, ssl.SSLSocket)
        assert one._socket.version() == "TLSv1.3"


OTHERS = Authority("another authority")
#: Fault -> key material of the producer and of the consumer, error of the consumer's task, log of the producer.
REFUSALS: dict[str, tuple[Callable[[], TlsMaterial], Callable[[], TlsMaterial], str, str]] = {
    "another authority's consumer": (
        authority().member,
        lambda: OTHERS.member(trusted=authority()),
        "does not trust the authority of this process's certificate",
        "was not accepted: unable to get local issuer certificate",
    ),
    "another authority's producer": (
        lambda: OTHERS.member(trusted=authority()),
        authority().member,
        "was not accepted: unable to get local issuer certificate",
        "does not trust the authority of this process's certificate",
    ),
    "an expired consumer": (
        authority().member,
        lambda: authority().member(valid_from=-DAY, valid_for=DAY / 2),
        "reports that this process's certificate has expired",
        "was not accepted: certificate has expired",
    ),
    "an expired producer": (
        lambda: authority().member(valid_from=-DAY, valid_for=DAY / 2),
        authority().member,
        "was not accepted: certificate has expired",
        "reports that this process's certificate has expired",
    ),
    "a consumer of tomorrow": (
        authority().member,
        lambda: authority().member(valid_from=DAY),
        "did not accept this process's certificate",
        "was not accepted: certificate is not yet valid",
    ),
    "a producer of tomorrow": (
        lambda: authority().member(valid_from=DAY),
        authority().member,
        "was not accepted: certificate is not yet valid",
        "did not accept this process's certificate",
    ),
    "a consumer that signed for itself": (
        authority().member,
        self_signed,
        "does not trust the authority of this process's certificate",
        "was not accepted: self-signed certificate",
    ),
    "a producer that signed for itself": (
        self_signed,
        authority().member,
        "was not accepted: self-signed certificate",
        "does not trust the authority of this process's certificate",
    ),
    "a consumer of another name": (
        authority().member,
        lambda: authority().member(name="www.example.org"),
        f"lacks the name {PEER_NAME}",
        f"lacks the name {PEER_NAME}",
    ),
    "a producer of another name": (
        lambda: authority().member(name="www.example.org"),
        authority().member,
        f"was not accepted: Hostname mismatch, certificate is not valid for '{PEER_NAME}'",
        "did not accept this process's certificate",
    ),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_a_peer_with_the_wrong_certificate_is_refused_and_both_sides_log_why(
    network: Network, case: str, caplog: pytest.LogCaptureFixture
) -> None:
    of_producer, of_consumer, told, logged = REFUSALS[case]
    producer, consumer = network.start(tls=of_producer()), network.start(tls=of_consumer())
    finished_partition(producer)

    with pytest.raises(PartitionAuthenticationError, match=re.escape(told)):
        Reader(consumer, producer.address).next()
    wait_until(lambda: logged in caplog.text, f"{logged!r} is in the log: {caplog.text}")
    wait_until(
        lambda: not any(side.statistics().connections for side in (producer, consumer)),
        "both sides have forgotten the connection",
    )


@pytest.mark.parametrize("side", ["producer", "consumer"])
def test_a_certificate_with_another_fingerprint_than_configured_is_refused(network: Network, side: str) -> None:
    member = authority().member()
    strict = TlsMaterial(member.private_key, member.certificate_chain, member.trusted_certificates, ("ab" * 20,))
    producer = network.start(tls=strict if side == "producer" else member)
    consumer = network.start(tls=strict if side == "consumer" else member)

    with pytest.raises(PartitionAuthenticationError, match="has none of the fingerprints"):
        Reader(consumer, producer.address).next()


def test_a_plaintext_consumer_is_refused_by_a_tls_producer(network: Network, caplog: pytest.LogCaptureFixture) -> None:
    producer, consumer = network.start(tls=authority().member()), network.start()

    with pytest.raises(PartitionAuthenticationError, match="refused the data connection: it uses TLS"):
        Reader(consumer, producer.address).next()
    wait_until(lambda: "does not use TLS, but this process does" in caplog.text, caplog.text)


def test_a_tls_consumer_is_refused_by_a_plaintext_producer(network: Network, caplog: pytest.LogCaptureFixture) -> None:
    producer, consumer = network.start(), network.start(tls=authority().member())

    with pytest.raises(PartitionAuthenticationError, match="does not use TLS, but this process does"):
        Reader(consumer, producer.address).next()
    wait_until(lambda: "uses TLS, but this process does not" in caplog.text, caplog.text)


def client_context(*, minimum: ssl.TLSVersion = ssl.TLSVersion.TLSv1_2) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.minimum_version = minimum
    return context


def test_a_consumer_without_a_certificate_is_refused(network: Network, caplog: pytest.LogCaptureFixture) -> None:
    producer = network.start(tls=authority().member())

    with (
        connect(producer) as sock,
        client_context().wrap_socket(sock) as wrapped,
        pytest.raises(ssl.SSLError, match="CERTIFICATE_REQUIRED"),
    ):
        wrapped.recv(1)
    wait_until(lambda: "showed no certificate" in caplog.text, caplog.text)


def old_tls(context: ssl.SSLContext) -> ssl.SSLContext:
    with pytest.warns(DeprecationWarning):
        context.minimum_version = ssl.TLSVersion.TLSv1_1
        context.maximum_version = ssl.TLSVersion.TLSv1_1
    context.set_ciphers("ALL:@SECLEVEL=0")
    return context


def test_a_consumer_with_an_old_tls_is_refused(network: Network, caplog: pytest.LogCaptureFixture) -> None:
    producer = network.start(tls=authority().member())

    with connect(producer) as sock, pytest.raises(ssl.SSLError, match=r"(?i)protocol"):
        old_tls(client_context()).wrap_socket(sock)
    wait_until(lambda: "supports no version of TLS that this process allows" in caplog.text, caplog.text)


def test_a_producer_with_an_old_tls_is_refused(network: Network) -> None:
    consumer = network.start(tls=authority().member())
    context = old_tls(authority().member().server_context())

    def serve(_: FakeProducer, sock: socket.socket) -> None:
        with suppress(ssl.SSLError):
            context.wrap_socket(sock, server_side=True).close()

    with fake_producer(serve) as fake, pytest.raises(PartitionAuthenticationError, match="no version of TLS"):
        Reader(consumer, fake.address).next()


def test_a_valid_certificate_does_not_replace_the_secret(network: Network) -> None:
    producer = network.start(tls=authority().member())
    consumer = network.start(STRANGER, tls=authority().member())

    with pytest.raises(PartitionAuthenticationError, match="did not prove that it knows this cluster's secret"):
        Reader(consumer, producer.address).next()


def test_refused_peers_do_not_disturb_others(network: Network) -> None:
    producer, consumer = network.start(tls=authority().member()), network.start(tls=authority().member())
    partition = producer.create_result_partition(partition_id="p", num_subpartitions=1)
    reader = Reader(consumer, producer.address)
    partition.emit(0, Batch([1]))
    reader.next()

    for stranger in (network.start(tls=self_signed()), network.start(), network.start(STRANGER)):
        with pytest.raises(PartitionAuthenticationError):
            Reader(stranger, producer.address).next()

    partition.emit(0, Batch([2]))
    partition.finish()
    assert reader.rows() == 1
