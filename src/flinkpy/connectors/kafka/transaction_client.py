"""TransactionClient: what a transaction coordinator knows, and ending transactions that another producer has begun.

A Kafka transaction is ended by anybody who names its transactional id, producer id and producer epoch: that is what
makes a transaction of a process that has died complete. Flink's Java sink does the same by setting these fields of a
KafkaProducer through reflection (FlinkKafkaInternalProducer.resumeTransaction).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from flinkpy.common.errors import KafkaError
from flinkpy.connectors.kafka.broker_connection import BrokerConnection
from flinkpy.connectors.kafka.wire import (
    DESCRIBE_TRANSACTIONS,
    END_TXN,
    FIND_COORDINATOR,
    INIT_PRODUCER_ID,
    LIST_TRANSACTIONS,
    METADATA,
    Api,
    Reader,
    Writer,
    error_name,
)

#: The coordinator or the leader moves or loads, or the transaction before is still being finished: ask again.
RETRIABLE = {
    "UNKNOWN_TOPIC_OR_PARTITION",
    "LEADER_NOT_AVAILABLE",
    "NOT_LEADER_OR_FOLLOWER",
    "KAFKA_STORAGE_ERROR",
    "REQUEST_TIMED_OUT",
    "COORDINATOR_LOAD_IN_PROGRESS",
    "COORDINATOR_NOT_AVAILABLE",
    "NOT_COORDINATOR",
    "CONCURRENT_TRANSACTIONS",
}
_TRANSACTION_COORDINATOR = 1
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.01, 0.5


@dataclass(frozen=True, slots=True)
class TransactionDescription:
    """A transactional id, as its coordinator knows it."""

    transactional_id: str
    #: Ongoing, PrepareCommit, CompleteCommit, PrepareAbort, CompleteAbort, PrepareEpochFence, Empty, Dead.
    state: str
    producer_id: int
    producer_epoch: int
    #: The partitions, as (topic, number), that an open transaction has written to.
    partitions: tuple[tuple[str, int], ...] = ()


class TransactionClient:
    """Thread: one at a time. Connects when it is first asked, and again when a connection has broken.

    Args:
        settings: librdkafka's properties.
        timeout_s: what one call takes at most, all its attempts together.

    Raises (all calls):
        KafkaError: no answer in that time, or one that is an error; `details["code"]` is its name.
    """

    def __init__(self, settings: dict[str, Any], timeout_s: float) -> None:
        self._settings = settings
        self._timeout_s = timeout_s
        self._connections: dict[tuple[str, int], BrokerConnection] = {}
        self._coordinators: dict[str, tuple[str, int]] = {}
        self._leaders: dict[tuple[str, int], tuple[str, int]] = {}
        #: Never set: there is nothing to be told, the brokers only need time.
        self._pause = threading.Event()

    def describe(self, transactional_id: str) -> TransactionDescription:
        body = Writer().varint(2).compact_string(transactional_id).no_tags().data

        def read(answer: Reader) -> tuple[int, TransactionDescription | None]:
            answer.int32()
            if not answer.compact_length():
                return -1, None
            code, found, state = answer.int16(), answer.compact_string(), answer.compact_string()
            answer.int32()
            answer.int64()
            producer_id, producer_epoch = answer.int64(), answer.int16()
            partitions = []
            for _ in range(answer.compact_length()):
                topic = answer.compact_string()
                partitions += [(topic, answer.int32()) for _ in range(answer.compact_length())]
                answer.skip_tags()
            return code, TransactionDescription(found, state, producer_id, producer_epoch, tuple(partitions))

        return self._ask_coordinator(transactional_id, DESCRIBE_TRANSACTIONS, body, read)

    def end(self, transactional_id: str, producer_id: int, producer_epoch: int, *, commit: bool) -> None:
        """Commit or abort. The same call again changes nothing and succeeds, as long as nobody has taken the id over.

        Raises:
            KafkaError: PRODUCER_FENCED or INVALID_PRODUCER_EPOCH: somebody has, or the broker has rolled it back;
                INVALID_TXN_STATE: it was ended the other way; INVALID_PRODUCER_ID_MAPPING: the id is not known.
        """
        body = Writer().string(transactional_id).int64(producer_id).int16(producer_epoch).boolean(commit).data
        self._ask_coordinator(transactional_id, END_TXN, body, _code_after_throttle)

    def fence(self, transactional_id: str, transaction_timeout_ms: int) -> None:
        """Abort its transaction, if it has one, and let no producer of before go on."""
        body = Writer().string(transactional_id).int32(transaction_timeout_ms).data
        self._ask_coordinator(transactional_id, INIT_PRODUCER_ID, body, _code_after_throttle)

    def list_open(self, prefix: str) -> list[str]:
        """The transactional ids that begin with `prefix` and have a transaction that was begun and not ended."""
        body = Writer().varint(2).compact_string("Ongoing").varint(1).no_tags().data
        found = []
        for host, port in self._brokers():
            answer = self._retry(lambda at=(host, port): _checked(self._connection(at).ask(LIST_TRANSACTIONS, body)))
            for _ in range(answer.compact_length()):
                answer.compact_string()  # a state that the broker does not know: there is none
            for _ in range(answer.compact_length()):
                transactional_id = answer.compact_string()
                answer.int64()
                answer.compact_string()
                answer.skip_tags()
                if transactional_id.startswith(prefix):
                    found.append(transactional_id)
        return found

    def ask_leader(
        self, topic: str, partition: int, api: Api, body: bytes, read: Callable[[Reader], tuple[int, Any]]
    ) -> Any:
        """Asks the broker that leads the partition. `read` returns the error code in its answer, and the result."""
        about = f" of Kafka partition {topic}-{partition}"

        def ask() -> Any:
            at = (topic, partition)
            address = self._leaders.get(at) or self._find_leader(topic, partition)
            self._leaders[at] = address
            try:
                code, result = read(self._connection(address).ask(api, body))
                _check(code, api, about)
            except KafkaError:
                # Another broker may lead it the next time.
                self._leaders.pop(at, None)
                raise
            return result

        return self._retry(ask)

    def set_timeout(self, timeout_s: float) -> None:
        """Of calls from now on."""
        self._timeout_s = timeout_s

    def close(self) -> None:
        connections, self._connections = self._connections, {}
        for connection in connections.values():
            connection.close()

    # -- inside --------------------------------------------------------------------------------------------------

    def _brokers(self) -> list[tuple[str, int]]:
        def ask() -> list[tuple[str, int]]:
            answer = self._bootstrap().ask(METADATA, Writer().int32(0).boolean(False).data)
            return list(_read_brokers(answer).values())

        return self._retry(ask)

    def _find_leader(self, topic: str, partition: int) -> tuple[str, int]:
        answer = self._bootstrap().ask(METADATA, Writer().int32(1).string(topic).boolean(False).data)
        brokers = _read_brokers(answer)
        answer.nullable_string()
        answer.int32()
        for _ in range(answer.int32()):
            about = f" of Kafka topic {topic}"
            _check(answer.int16(), METADATA, about)
            answer.string()
            answer.int8()
            for _ in range(answer.int32()):
                code, number, leader = answer.int16(), answer.int32(), answer.int32()
                for _ in range(2):  # its replicas, and those that are in sync
                    for _ in range(answer.int32()):
                        answer.int32()
                if number == partition:
                    _check(code, METADATA, about)
                    if leader in brokers:
                        return brokers[leader]
        raise KafkaError(f"Kafka partition {topic}-{partition} has no leader", details={"code": "LEADER_NOT_AVAILABLE"})

    def _ask_coordinator(self, transactional_id: str, api: Api, body: bytes, read: Any) -> Any:
        def ask() -> Any:
            address = self._coordinators.get(transactional_id) or self._find_coordinator(transactional_id)
            try:
                code, result = read(self._connection(address).ask(api, body))
                _check(code, api, f" of transactional id {transactional_id}")
            except KafkaError:
                # It may be another broker the next time.
                self._coordinators.pop(transactional_id, None)
                raise
            return result

        return self._retry(ask)

    def _find_coordinator(self, transactional_id: str) -> tuple[str, int]:
        body = Writer().string(transactional_id).int8(_TRANSACTION_COORDINATOR).data
        answer = self._bootstrap().ask(FIND_COORDINATOR, body)
        answer.int32()
        code = answer.int16()
        answer.nullable_string()
        _check(code, FIND_COORDINATOR, f" of transactional id {transactional_id}")
        answer.int32()
        return answer.string(), answer.int32()

    def _retry(self, call: Any) -> Any:
        deadline = time.monotonic() + self._timeout_s
        pause_s = _FIRST_PAUSE_S
        while True:
            try:
                return call()
            except KafkaError as error:
                code = error.details.get("code")
                if (code is not None and code not in RETRIABLE) or time.monotonic() + pause_s >= deadline:
                    raise
            self._pause.wait(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    def _bootstrap(self) -> BrokerConnection:
        """A connection to any broker."""
        for address in self._connections:
            return self._connection(address)
        errors = []
        for server in str(self._settings["bootstrap.servers"]).split(","):
            host, _, port = server.strip().rpartition("://")[2].rpartition(":")
            try:
                return self._connection((host.strip("[]"), int(port or 9092)))
            except KafkaError as error:
                errors.append(error)
        raise errors[0]

    def _connection(self, address: tuple[str, int]) -> BrokerConnection:
        known = self._connections.get(address)
        if known is not None and known.is_open:
            return known
        self._connections.pop(address, None)
        connection = BrokerConnection(*address, self._settings, self._timeout_s)
        self._connections[address] = connection
        return connection


def _read_brokers(answer: Reader) -> dict[int, tuple[str, int]]:
    """Returns the address of each broker by its number; the beginning of an answer to Metadata."""
    answer.int32()
    found = {}
    for _ in range(answer.int32()):
        number = answer.int32()
        found[number] = (answer.string(), answer.int32())
        answer.nullable_string()
    return found


def _code_after_throttle(answer: Reader) -> tuple[int, None]:
    answer.int32()
    return answer.int16(), None


def _checked(answer: Reader) -> Reader:
    """An answer that begins with its throttle time and an error code."""
    answer.int32()
    _check(answer.int16(), LIST_TRANSACTIONS, "")
    return answer


def _check(code: int, api: Api, about: str) -> None:
    if code:
        raise KafkaError(f"{api.name}{about}: {error_name(code)}", details={"code": error_name(code)})
