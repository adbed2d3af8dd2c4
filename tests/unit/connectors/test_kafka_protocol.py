"""The requests that the exactly-once sink sends to brokers itself: bytes, SASL, retries, and logs of transactions."""

from __future__ import annotations

import base64
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinkpy.common.errors import ConfigurationError, KafkaError
from flinkpy.connectors.kafka.broker_connection import BrokerConnection, ScramClient
from flinkpy.connectors.kafka.transaction_client import (
    KafkaCommittable,
    KafkaCommittableSerializer,
    RecordPosition,
    TransactionClient,
    TransactionDescription,
)
from flinkpy.connectors.kafka.transaction_log import Outcome, TransactionLog
from flinkpy.connectors.kafka.wire import (
    DESCRIBE_PRODUCERS,
    DESCRIBE_TRANSACTIONS,
    END_TXN,
    FETCH,
    FIND_COORDINATOR,
    METADATA,
    Reader,
    Writer,
    request_bytes,
    response_body,
)

# -- bytes -------------------------------------------------------------------------------------------------------------


@given(st.integers(0, 2**35), st.text(max_size=300), st.binary(max_size=300), st.integers(-(2**63), 2**63 - 1))
def test_reader_reads_what_the_writer_wrote(number, text, data, signed):
    written = (
        Writer().varint(number).compact_string(text).string(text).bytes_(data).int64(signed).boolean(True).no_tags()
    )
    reader = Reader(written.data)
    assert (reader.varint(), reader.compact_string(), reader.string()) == (number, text, text)
    assert (reader.bytes_(), reader.int64(), reader.int8()) == (data, signed, 1)
    reader.skip_tags()
    with pytest.raises(KafkaError, match="ends after"):
        reader.int8()


def test_reader_reads_nulls_and_tagged_fields():
    data = Writer().int16(-1).int32(-1).varint(0).varint(0).varint(1).varint(9).varint(3).raw(b"abc").int8(5).data
    reader = Reader(data)
    assert (reader.nullable_string(), reader.bytes_()) == (None, b"")
    assert (reader.compact_string(), reader.compact_length()) == ("", 0)
    reader.skip_tags()
    assert reader.int8() == 5


def test_requests_have_the_documented_bytes():
    body = Writer().string("id").int64(1).int16(2).boolean(True).data
    assert request_bytes(END_TXN, 7, "me", body).hex() == (
        "0000001b" + "001a" + "0002" + "00000007" + "00026d65" + "00026964" + "0000000000000001" + "0002" + "01"
    )
    flexible = request_bytes(DESCRIBE_TRANSACTIONS, 7, "me", Writer().varint(2).compact_string("id").no_tags().data)
    assert flexible.hex() == "00000012" + "0041" + "0000" + "00000007" + "00026d65" + "00" + "02" + "036964" + "00"


def test_answer_to_another_request_is_refused():
    with pytest.raises(KafkaError, match="answered request 8 instead of request 7"):
        response_body(END_TXN, 7, Writer().int32(8).data)


# -- SASL --------------------------------------------------------------------------------------------------------------


def test_scram_follows_the_example_of_rfc_7677():
    client = ScramClient("SCRAM-SHA-256", "user", "pencil", nonce="rOprNGfwEbeRWgbNEkqO")
    assert client.first() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    server_first = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    assert client.final(server_first) == (
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    client.verify(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")
    with pytest.raises(KafkaError, match="did not prove its identity"):
        client.verify(b"v=" + base64.b64encode(bytes(32)))


@pytest.mark.parametrize("answer", [b"r=other,s=AAAA,i=4096", b"r=NONCEx,s=AAAA,i=99999999999", b"r=NONCEx,s=AAAA"])
def test_scram_answer_of_another_conversation_is_refused(answer):
    client = ScramClient("SCRAM-SHA-512", "a,b=c", "p", nonce="NONCE")
    assert client.first() == b"n,,n=a=2Cb=3Dc,r=NONCE"
    with pytest.raises(KafkaError, match="does not belong to this conversation"):
        client.final(answer)


# -- connections -------------------------------------------------------------------------------------------------------


class FakeBroker:
    """Answers each request with `answer(api key, body after the header)`. None closes the connection."""

    def __init__(self, answer: Callable[[int, bytes], bytes | None]) -> None:
        self._answer = answer
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = self._server.getsockname()[1]
        self.requests: list[int] = []
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._server.accept()
            except OSError:
                return
            with connection:
                while self._serve_one(connection):
                    pass

    def _serve_one(self, connection: socket.socket) -> bool:
        head = connection.recv(4, socket.MSG_WAITALL)
        if len(head) < 4:
            return False
        message = connection.recv(struct.unpack(">i", head)[0], socket.MSG_WAITALL)
        key, _, correlation_id, length = struct.unpack(">hhih", message[:10])
        self.requests.append(key)
        body = self._answer(key, message[10 + length :])
        if body is None:
            return False
        answer = struct.pack(">i", correlation_id) + body
        connection.sendall(struct.pack(">i", len(answer)) + answer)
        return True

    def close(self) -> None:
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        self._thread.join(5)


def versions(*keys: int) -> bytes:
    writer = Writer().int16(0).int32(len(keys))
    for key in keys:
        writer.int16(key).int16(0).int16(9)
    return writer.data


@pytest.fixture
def broker():
    started = []

    def start(answer):
        started.append(FakeBroker(answer))
        return started[-1]

    yield start
    for fake in started:
        fake.close()


def connect(fake: FakeBroker, **settings: str) -> BrokerConnection:
    return BrokerConnection("127.0.0.1", fake.port, {key.replace("_", "."): v for key, v in settings.items()}, 5.0)


def test_error_names_a_broker_that_is_too_old(broker):
    connection = connect(broker(lambda key, body: versions(18, 3)))
    with pytest.raises(KafkaError, match=r"does not know DescribeTransactions version 0: exactly-once needs .* 3\.0"):
        connection.ask(DESCRIBE_TRANSACTIONS, b"")
    connection.close()


def test_error_names_a_peer_that_is_no_broker():
    server = socket.create_server(("127.0.0.1", 0))

    def answer():
        with server.accept()[0] as connection:
            connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    thread = threading.Thread(target=answer)
    thread.start()
    with pytest.raises(KafkaError, match="does not speak Kafka's protocol"):
        BrokerConnection("127.0.0.1", server.getsockname()[1], {}, 5.0)
    thread.join()
    server.close()


def test_plain_sasl_sends_user_and_password(broker):
    seen = []

    def answer(key, body):
        if key == 17:
            return Writer().int16(0).int32(1).string("PLAIN").data
        if key == 36:
            seen.append(Reader(body).bytes_())
            return Writer().int16(0).int16(-1).bytes_(b"").data
        return versions(18)

    settings = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN"}
    connect(broker(answer), **settings, sasl_username="ann", sasl_password="secret").close()
    assert seen == [b"\0ann\0secret"]


def test_error_of_a_refused_login_has_the_reason(broker):
    def refuses_password(key, body):
        if key == 17:
            return Writer().int16(0).int32(0).data
        return Writer().int16(58).string("wrong password").bytes_(b"").data

    settings = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN"}
    with pytest.raises(KafkaError, match="refuses the login: SASL_AUTHENTICATION_FAILED: wrong password"):
        connect(broker(refuses_password), **settings)
    other = broker(lambda key, body: Writer().int16(33).int32(2).string("GSSAPI").string("OAUTHBEARER").data)
    with pytest.raises(KafkaError, match="refuses SASL mechanism PLAIN; it offers GSSAPI, OAUTHBEARER"):
        connect(other, **settings)


def test_error_names_unsupported_mechanisms_and_settings(broker):
    fake = broker(lambda key, body: Writer().int16(0).int32(0).data)
    with pytest.raises(ConfigurationError, match=r"sink does not support sasl.mechanism GSSAPI, only PLAIN"):
        connect(fake, security_protocol="SASL_PLAINTEXT")
    with pytest.raises(ConfigurationError, match=r"sink does not support ssl.keystore.password"):
        connect(fake, security_protocol="SSL", ssl_keystore_password="x")


# -- the transaction client --------------------------------------------------------------------------------------------


NOT_COORDINATOR = 16


class FakeCoordinator:
    """A broker that coordinates all transactions. It answers EndTxn with the given codes in turn, then with 0."""

    def __init__(self, broker, codes: list[int | None]) -> None:
        self.codes = codes
        self.fake = broker(self._answer)

    def _answer(self, key: int, body: bytes) -> bytes | None:
        if key == FIND_COORDINATOR.key:
            return Writer().int32(0).int16(0).int16(-1).int32(1).string("127.0.0.1").int32(self.fake.port).data
        if key == END_TXN.key:
            code = self.codes.pop(0) if self.codes else 0
            return None if code is None else Writer().int32(0).int16(code).data
        return versions(*range(70))

    def client(self, timeout_s: float = 10.0) -> TransactionClient:
        return TransactionClient({"bootstrap.servers": f"127.0.0.1:1,127.0.0.1:{self.fake.port}"}, timeout_s)

    @property
    def ends(self) -> int:
        return self.fake.requests.count(END_TXN.key)


def test_client_retries_transient_errors(broker):
    # not the coordinator, loading, still completing the former transaction, connection lost
    coordinator = FakeCoordinator(broker, [NOT_COORDINATOR, 14, 51, None])
    client = coordinator.client()
    client.end("id", 1, 2, commit=True)
    assert coordinator.ends == 5
    client.close()


def test_client_looks_the_coordinator_up_again_only_after_an_error(broker):
    coordinator = FakeCoordinator(broker, [0, 0, NOT_COORDINATOR])
    client = coordinator.client()
    for _ in range(3):
        client.end("id", 1, 2, commit=True)
    assert coordinator.ends == 4
    assert coordinator.fake.requests.count(FIND_COORDINATOR.key) == 2
    client.close()


@pytest.mark.parametrize(
    ("code", "name"),
    [(90, "PRODUCER_FENCED"), (48, "INVALID_TXN_STATE"), (53, "TRANSACTIONAL_ID_AUTH"), (99, "error 99")],
)
def test_client_raises_permanent_errors_at_once(broker, code, name):
    coordinator = FakeCoordinator(broker, [code])
    client = coordinator.client()
    with pytest.raises(KafkaError, match=f"EndTxn of transactional id id: {name}"):
        client.end("id", 1, 2, commit=True)
    assert coordinator.ends == 1
    client.close()


def test_client_stops_retrying_after_its_timeout(broker):
    coordinator = FakeCoordinator(broker, [14] * 1000)
    client = coordinator.client(timeout_s=0.1)
    with pytest.raises(KafkaError, match="COORDINATOR_LOAD_IN_PROGRESS"):
        client.end("id", 1, 2, commit=True)
    client.close()


# -- the log of a transaction ------------------------------------------------------------------------------------------

COMMITTABLE = KafkaCommittable("id", 7, 3, RecordPosition("t", 1, 40))
NOT_LEADER, OUT_OF_RANGE, UNAUTHORIZED = 6, 1, 29


def batch(base: int = 38, delta: int = 5, producer_id: int = 7, epoch: int = 3) -> bytes:
    return struct.pack(">qiibIhiqqqh", base, 100, 0, 2, 0, 0x10, delta, 0, 0, producer_id, epoch) + b"records"


def fetched(code: int = 0, stable: int = 90, aborted: tuple[tuple[int, int], ...] = (), records: bytes = b"") -> bytes:
    writer = Writer().int32(0).int32(1).string("t").int32(1).int32(1).int16(code).int64(99).int64(stable)
    writer.int32(len(aborted) or -1)
    for producer_id, first in aborted:
        writer.int64(producer_id).int64(first)
    return writer.bytes_(records).data


class FakeLeader:
    """Leads partition 1 of topic "t". It answers Fetch and DescribeProducers with the given bytes in turn."""

    def __init__(self, broker, *answers: bytes) -> None:
        self.answers = list(answers)
        self.fake = broker(self._answer)

    def _answer(self, key: int, body: bytes) -> bytes | None:
        if key == METADATA.key:
            brokers = Writer().int32(0).int32(1).int32(5).string("127.0.0.1").int32(self.fake.port).int16(-1)
            topic = brokers.int16(-1).int32(5).int32(1).int16(0).string("t").int8(0).int32(2)
            for partition, leader in ((0, 9), (1, 5)):
                topic.int16(0).int32(partition).int32(leader).int32(1).int32(leader).int32(1).int32(leader)
            return topic.data
        if key in (FETCH.key, DESCRIBE_PRODUCERS.key):
            return self.answers.pop(0)
        return versions(*range(70))

    @contextmanager
    def log(self) -> Iterator[TransactionLog]:
        client = TransactionClient({"bootstrap.servers": f"127.0.0.1:{self.fake.port}"}, 10)
        try:
            yield TransactionLog(client)
        finally:
            client.close()


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (fetched(records=batch()), Outcome.COMMITTED),
        (fetched(aborted=((7, 38),), records=batch()), Outcome.ABORTED),
        (
            fetched(aborted=((8, 30), (7, 60)), records=batch()),
            Outcome.COMMITTED,
        ),  # another producer, and a later transaction
        (fetched(aborted=((7, 38),)), Outcome.ABORTED),  # compacted, but still listed
        (fetched(), Outcome.NOT_FOUND),
        (fetched(records=batch(base=41)), Outcome.NOT_FOUND),
        (fetched(records=batch(producer_id=8)), Outcome.NOT_FOUND),
        (fetched(records=batch(epoch=4)), Outcome.NOT_FOUND),
        (fetched(code=OUT_OF_RANGE), Outcome.NOT_FOUND),
    ],
)
def test_the_log_tells_how_a_transaction_ended(broker, answer, expected):
    with FakeLeader(broker, answer).log() as log:
        assert log.outcome(COMMITTABLE) is expected


def test_outcome_waits_for_a_moving_leader_and_for_the_end_of_the_transaction(broker):
    leader = FakeLeader(broker, fetched(code=NOT_LEADER), fetched(stable=40), fetched(records=batch()))
    with leader.log() as log:
        assert log.outcome(COMMITTABLE) is Outcome.COMMITTED
    assert leader.answers == []
    assert leader.fake.requests.count(METADATA.key) >= 2, "the client looks the leader up again"


def test_unauthorized_read_of_the_log_is_an_error_at_once(broker):
    with (
        FakeLeader(broker, fetched(code=UNAUTHORIZED)).log() as log,
        pytest.raises(KafkaError, match="Fetch of Kafka partition t-1: TOPIC_AUTHORIZATION_FAILED"),
    ):
        log.outcome(COMMITTABLE)


def producers(code: int, *found: tuple[int, int]) -> bytes:
    """Returns an answer to DescribeProducers.

    Args:
        found: (producer id, offset at which its open transaction begins).
    """
    writer = Writer().no_tags().int32(0).varint(2).compact_string("t").varint(2).int32(1).int16(code).varint(0)
    writer.varint(len(found) + 1)
    for producer_id, start in found:
        writer.int64(producer_id).int32(3).int32(0).int64(0).int32(0).int64(start).no_tags()
    return writer.no_tags().no_tags().no_tags().data


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (producers(0, (6, 11), (7, 40)), RecordPosition("t", 1, 40)),
        (producers(0, (7, -1)), None),
        (producers(0), None),
    ],
)
def test_first_record_is_where_the_open_transaction_begins(broker, answer, expected):
    open_transaction = TransactionDescription("id", "Ongoing", 7, 3, (("t", 1),))
    with FakeLeader(broker, answer).log() as log:
        assert log.first_record(open_transaction) == expected


def test_sink_without_read_permission_warns_once(broker, caplog):
    with FakeLeader(broker, producers(UNAUTHORIZED), producers(UNAUTHORIZED)).log() as log:
        for _ in range(2):
            assert log.first_record(TransactionDescription("id", "Ongoing", 7, 3, (("t", 1),))) is None
    [warning] = [record.getMessage() for record in caplog.records]
    assert "TOPIC_AUTHORIZATION_FAILED" in warning and "Grant the principal Read on the topic" in warning


def test_serializer_reads_committables_of_both_versions():
    serializer = KafkaCommittableSerializer()
    for committable in (COMMITTABLE, KafkaCommittable("id", 7, 3)):
        assert serializer.deserialize(2, serializer.serialize(committable)) == committable
    assert serializer.deserialize(1, b'["id", 7, 3]') == KafkaCommittable("id", 7, 3)
