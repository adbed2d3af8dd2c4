"""The bytes of the few requests of Kafka's protocol that confluent-kafka does not offer.

A Kafka request has a header and a body of fixed fields. Newer versions of a request are "flexible": a length is a
varint plus one (0: null), and each structure ends with a list of tagged fields. We need none of the tagged fields.

No library replaces this module and `broker_connection`. confluent-kafka cannot end a transaction of another producer.
aiokafka 0.14 (Apache-2.0, Python 3.10 to 3.14, one or two releases a year) has EndTxn and InitProducerId, both only in
version 0. It lacks the three requests that find and judge transactions: DescribeTransactions, ListTransactions and
DescribeProducers. We would still define these, as subclasses of protocol classes that are not part of its documented
API. Its connections need an event loop, while the committer makes blocking calls on the task thread. It would add a
second Kafka client (3.7 MB with C extensions) to save some of 450 lines.

Source: the message definitions of Apache Kafka (clients/src/main/resources/common/message).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from flinkpy.common.errors import KafkaError

#: None of our requests has a longer answer, so the peer is not a Kafka broker.
MAX_RESPONSE_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class Api:
    """A kind of request: its number in the protocol, and the version that we send."""

    name: str
    key: int
    version: int
    is_flexible: bool = False


FETCH = Api("Fetch", 1, 4)
METADATA = Api("Metadata", 3, 4)
FIND_COORDINATOR = Api("FindCoordinator", 10, 2)
SASL_HANDSHAKE = Api("SaslHandshake", 17, 1)
API_VERSIONS = Api("ApiVersions", 18, 0)
INIT_PRODUCER_ID = Api("InitProducerId", 22, 1)
#: Up to version 4 the broker does not raise the epoch of the producer, so the same request can be repeated.
END_TXN = Api("EndTxn", 26, 2)
SASL_AUTHENTICATE = Api("SaslAuthenticate", 36, 0)
DESCRIBE_PRODUCERS = Api("DescribeProducers", 61, 0, is_flexible=True)
DESCRIBE_TRANSACTIONS = Api("DescribeTransactions", 65, 0, is_flexible=True)
LIST_TRANSACTIONS = Api("ListTransactions", 66, 0, is_flexible=True)

#: Kafka's names of the error codes in the answers to these requests.
ERROR_NAMES = {
    -1: "UNKNOWN_SERVER_ERROR",
    0: "NONE",
    1: "OFFSET_OUT_OF_RANGE",
    3: "UNKNOWN_TOPIC_OR_PARTITION",
    5: "LEADER_NOT_AVAILABLE",
    6: "NOT_LEADER_OR_FOLLOWER",
    7: "REQUEST_TIMED_OUT",
    14: "COORDINATOR_LOAD_IN_PROGRESS",
    15: "COORDINATOR_NOT_AVAILABLE",
    16: "NOT_COORDINATOR",
    29: "TOPIC_AUTHORIZATION_FAILED",
    31: "CLUSTER_AUTHORIZATION_FAILED",
    33: "UNSUPPORTED_SASL_MECHANISM",
    34: "ILLEGAL_SASL_STATE",
    35: "UNSUPPORTED_VERSION",
    47: "INVALID_PRODUCER_EPOCH",
    48: "INVALID_TXN_STATE",
    49: "INVALID_PRODUCER_ID_MAPPING",
    50: "INVALID_TRANSACTION_TIMEOUT",
    51: "CONCURRENT_TRANSACTIONS",
    52: "TRANSACTION_COORDINATOR_FENCED",
    53: "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
    56: "KAFKA_STORAGE_ERROR",
    58: "SASL_AUTHENTICATION_FAILED",
    59: "UNKNOWN_PRODUCER_ID",
    90: "PRODUCER_FENCED",
    105: "TRANSACTIONAL_ID_NOT_FOUND",
}


def error_name(code: int) -> str:
    return ERROR_NAMES.get(code, f"error {code}")


class Writer:
    """Builds the bytes of a request."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    @property
    def data(self) -> bytes:
        return b"".join(self._parts)

    def int8(self, value: int) -> Writer:
        return self._pack(">b", value)

    def int16(self, value: int) -> Writer:
        return self._pack(">h", value)

    def int32(self, value: int) -> Writer:
        return self._pack(">i", value)

    def int64(self, value: int) -> Writer:
        return self._pack(">q", value)

    def boolean(self, value: bool) -> Writer:
        return self._pack(">?", value)

    def string(self, value: str) -> Writer:
        encoded = value.encode()
        return self.int16(len(encoded)).raw(encoded)

    def bytes_(self, value: bytes) -> Writer:
        return self.int32(len(value)).raw(value)

    def varint(self, value: int) -> Writer:
        """Appends an unsigned varint: seven bits per byte, the lowest first."""
        encoded = bytearray()
        while value > 0x7F:
            encoded.append(value & 0x7F | 0x80)
            value >>= 7
        encoded.append(value)
        return self.raw(bytes(encoded))

    def compact_string(self, value: str) -> Writer:
        encoded = value.encode()
        return self.varint(len(encoded) + 1).raw(encoded)

    def no_tags(self) -> Writer:
        return self.varint(0)

    def raw(self, data: bytes) -> Writer:
        self._parts.append(data)
        return self

    def _pack(self, form: str, value: int | bool) -> Writer:
        self._parts.append(struct.pack(form, value))
        return self


class Reader:
    """Reads the fields of an answer in their order.

    Raises:
        KafkaError: the answer is too short: the peer is not a Kafka broker, or speaks another version.
    """

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    def int8(self) -> int:
        return int(self._unpack(">b", 1))

    def int16(self) -> int:
        return int(self._unpack(">h", 2))

    def int32(self) -> int:
        return int(self._unpack(">i", 4))

    def int64(self) -> int:
        return int(self._unpack(">q", 8))

    def string(self) -> str:
        return self.nullable_string() or ""

    def nullable_string(self) -> str | None:
        length = self.int16()
        return None if length < 0 else self.raw(length).decode()

    def bytes_(self) -> bytes:
        length = self.int32()
        return b"" if length < 0 else self.raw(length)

    def varint(self) -> int:
        value = shift = 0
        while True:
            byte = self.raw(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    def compact_string(self) -> str:
        length = self.varint() - 1
        return "" if length < 0 else self.raw(length).decode()

    def compact_length(self) -> int:
        """Reads the length of an array. A null array has none."""
        return max(0, self.varint() - 1)

    def skip_tags(self) -> None:
        for _ in range(self.varint()):
            self.varint()
            self.raw(self.varint())

    def raw(self, length: int) -> bytes:
        end = self._position + length
        if end > len(self._data):
            raise KafkaError(f"the answer of a Kafka broker ends after {len(self._data)} bytes, but needs {end}")
        found = self._data[self._position : end]
        self._position = end
        return found

    def _unpack(self, form: str, size: int) -> int:
        [value] = struct.unpack(form, self.raw(size))
        return value


def request_bytes(api: Api, correlation_id: int, client_id: str, body: bytes) -> bytes:
    """Returns a whole request, including its length."""
    header = Writer().int16(api.key).int16(api.version).int32(correlation_id).string(client_id)
    if api.is_flexible:
        header.no_tags()
    message = header.data + body
    return struct.pack(">i", len(message)) + message


def response_body(api: Api, correlation_id: int, message: bytes) -> Reader:
    """Returns a reader of the body of an answer. `message` is the answer without its length."""
    reader = Reader(message)
    found = reader.int32()
    if found != correlation_id:
        raise KafkaError(f"a Kafka broker answered request {found} instead of request {correlation_id} ({api.name})")
    if api.is_flexible:
        reader.skip_tags()
    return reader
