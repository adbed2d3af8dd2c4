"""What the exactly-once sink says to brokers itself: bytes, SASL, and what it makes of answers."""

from __future__ import annotations

import base64
import socket
import struct
import threading
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinkpy.common.errors import ConfigurationError, KafkaError
from flinkpy.connectors.kafka.broker_connection import BrokerConnection
from flinkpy.connectors.kafka.scram import ScramClient
from flinkpy.connectors.kafka.transaction_client import TransactionClient
from flinkpy.connectors.kafka.wire import (
    DESCRIBE_TRANSACTIONS,
    END_TXN,
    FIND_COORDINATOR,
    Reader,
    Writer,
    request_bytes,
    response_body,
)

# -- bytes -------------------------------------------------------------------------------------------------------------


@given(st.integers(0, 2**35), st.text(max_size=300), st.binary(max_size=300), st.integers(-(2**63), 2**63 - 1))
def test_what_is_written_is_read_again(number, text, data, signed):
    written = (
        Writer().varint(number).compact_string(text).string(text).bytes_(data).int64(signed).boolean(True).no_tags()
    )
    reader = Reader(written.data)
    assert (reader.varint(), reader.compact_string(), reader.string()) == (number, text, text)
    assert (reader.bytes_(), reader.int64(), reader.int8()) == (data, signed, 1)
    reader.skip_tags()
    with pytest.raises(KafkaError, match="ends after"):
        reader.int8()


def test_nulls_and_tagged_fields_are_read():
    data = Writer().int16(-1).int32(-1).varint(0).varint(0).varint(1).varint(9).varint(3).raw(b"abc").int8(5).data
    reader = Reader(data)
    assert (reader.nullable_string(), reader.bytes_()) == (None, b"")
    assert (reader.compact_string(), reader.compact_length()) == ("", 0)
    reader.skip_tags()
    assert reader.int8() == 5


def test_a_request_as_kafka_documents_it():
    body = Writer().string("id").int64(1).int16(2).boolean(True).data
    assert request_bytes(END_TXN, 7, "me", body).hex() == (
        "0000001b" + "001a" + "0002" + "00000007" + "00026d65" + "00026964" + "0000000000000001" + "0002" + "01"
    )
    flexible = request_bytes(DESCRIBE_TRANSACTIONS, 7, "me", Writer().varint(2).compact_string("id").no_tags().data)
    assert flexible.hex() == "00000012" + "0041" + "0000" + "00000007" + "00026d65" + "00" + "02" + "036964" + "00"


def test_an_answer_to_another_request_is_refused():
    with pytest.raises(KafkaError, match="answered request 8, asked was 7"):
        response_body(END_TXN, 7, Writer().int32(8).data)


# -- SASL --------------------------------------------------------------------------------------------------------------


def test_scram_as_rfc_7677_shows_it():
    client = ScramClient("SCRAM-SHA-256", "user", "pencil", nonce="rOprNGfwEbeRWgbNEkqO")
    assert client.first() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    server_first = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    assert client.final(server_first) == (
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    client.verify(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")
    with pytest.raises(KafkaError, match="did not prove who it is"):
        client.verify(b"v=" + base64.b64encode(bytes(32)))


@pytest.mark.parametrize("answer", [b"r=other,s=AAAA,i=4096", b"r=NONCEx,s=AAAA,i=99999999999", b"r=NONCEx,s=AAAA"])
def test_a_scram_answer_of_another_conversation_is_refused(answer):
    client = ScramClient("SCRAM-SHA-512", "a,b=c", "p", nonce="NONCE")
    assert client.first() == b"n,,n=a=2Cb=3Dc,r=NONCE"
    with pytest.raises(KafkaError, match="does not belong to this conversation"):
        client.final(answer)


# -- connections -------------------------------------------------------------------------------------------------------


class FakeBroker:
    """Answers each request with what `answer(api key, body after the header)` gives; None closes the connection."""

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


def test_a_broker_that_is_too_old_is_named(broker):
    connection = connect(broker(lambda key, body: versions(18, 3)))
    with pytest.raises(KafkaError, match=r"does not know DescribeTransactions version 0: exactly-once needs .* 3\.0"):
        connection.ask(DESCRIBE_TRANSACTIONS, b"")
    connection.close()


def test_something_that_is_no_broker_is_named():
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


def test_plain_sasl(broker):
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


def test_refused_sasl_says_why(broker):
    def refuses_password(key, body):
        if key == 17:
            return Writer().int16(0).int32(0).data
        return Writer().int16(58).string("wrong password").bytes_(b"").data

    settings = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN"}
    with pytest.raises(KafkaError, match="refuses us: SASL_AUTHENTICATION_FAILED: wrong password"):
        connect(broker(refuses_password), **settings)
    other = broker(lambda key, body: Writer().int16(33).int32(2).string("GSSAPI").string("OAUTHBEARER").data)
    with pytest.raises(KafkaError, match="refuses SASL mechanism PLAIN; it offers GSSAPI, OAUTHBEARER"):
        connect(other, **settings)


def test_what_is_not_spoken_is_named(broker):
    fake = broker(lambda key, body: Writer().int16(0).int32(0).data)
    with pytest.raises(
        ConfigurationError, match=r"GSSAPI is not spoken by the exactly-once Kafka sink: it knows PLAIN"
    ):
        connect(fake, security_protocol="SASL_PLAINTEXT")
    with pytest.raises(ConfigurationError, match=r"ssl.keystore.password: not known to the exactly-once Kafka sink"):
        connect(fake, security_protocol="SSL", ssl_keystore_password="x")


# -- the transaction client --------------------------------------------------------------------------------------------


class FakeCoordinator:
    """A broker that is everybody's coordinator, and answers EndTxn with these codes in turn, then with 0."""

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


def test_what_goes_away_by_itself_is_asked_again(broker):
    # not the coordinator, loading, still finishing the transaction before, connection lost
    coordinator = FakeCoordinator(broker, [16, 14, 51, None])
    client = coordinator.client()
    client.end("id", 1, 2, commit=True)
    assert coordinator.ends == 5
    client.close()


@pytest.mark.parametrize(
    ("code", "name"),
    [(90, "PRODUCER_FENCED"), (48, "INVALID_TXN_STATE"), (53, "TRANSACTIONAL_ID_AUTH"), (99, "error 99")],
)
def test_what_does_not_is_an_error_at_once(broker, code, name):
    coordinator = FakeCoordinator(broker, [code])
    client = coordinator.client()
    with pytest.raises(KafkaError, match=f"EndTxn of transactional id id: {name}"):
        client.end("id", 1, 2, commit=True)
    assert coordinator.ends == 1
    client.close()


def test_asking_again_has_an_end(broker):
    coordinator = FakeCoordinator(broker, [14] * 1000)
    client = coordinator.client(timeout_s=0.1)
    with pytest.raises(KafkaError, match="COORDINATOR_LOAD_IN_PROGRESS"):
        client.end("id", 1, 2, commit=True)
    client.close()
