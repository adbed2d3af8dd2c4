"""TransactionClient: asks transaction coordinators, and ends transactions that another producer has begun.

Any client can end a Kafka transaction if it names the transactional id, the producer id and the producer epoch. A
KafkaCommittable holds these three, so any process can commit the transaction of a process that has died. Flink's Java
sink does the same by setting these fields of a KafkaProducer through reflection
(FlinkKafkaInternalProducer.resumeTransaction).

Source: org.apache.flink.connector.kafka.sink.KafkaCommittable.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, NamedTuple

from flinkpy.common.errors import KafkaError
from flinkpy.connector_api.serializer import SimpleVersionedSerializer
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

#: Transient errors: the coordinator or leader moves or loads, or the previous transaction is still being completed.
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
#: The host and port of a broker.
Address = tuple[str, int]
#: The pauses between attempts: short at first, because most transient errors end within milliseconds.
_FIRST_PAUSE_S = 0.01
_LONGEST_PAUSE_S = 0.5


class RecordPosition(NamedTuple):
    """The place of a record in Kafka."""

    topic: str
    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class KafkaCommittable:
    """The identity of a transaction whose records are all stored: all that is needed to commit it from any process."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    #: The first record of the transaction in one of its partitions. The log there tells how the transaction ended.
    #: None if the brokers did not tell it, or if the checkpoint is of a release that did not ask.
    first_record: RecordPosition | None = None


class KafkaCommittableSerializer(SimpleVersionedSerializer):
    """Writes JSON, because a later release may read the savepoint. Version 1 had no first record."""

    @property
    def version(self) -> int:
        return 2

    def serialize(self, value: KafkaCommittable) -> bytes:
        return json.dumps(
            [value.transactional_id, value.producer_id, value.producer_epoch, value.first_record]
        ).encode()

    def deserialize(self, version: int, data: bytes) -> KafkaCommittable:
        transactional_id, producer_id, producer_epoch, *more = json.loads(data)
        first_record = RecordPosition(*more[0]) if more and more[0] is not None else None
        return KafkaCommittable(transactional_id, producer_id, producer_epoch, first_record)


@dataclass(frozen=True, slots=True)
class TransactionDescription:
    """The last transaction of a transactional id, as its coordinator describes it."""

    transactional_id: str
    #: Ongoing, PrepareCommit, CompleteCommit, PrepareAbort, CompleteAbort, PrepareEpochFence, Empty, Dead.
    state: str
    producer_id: int
    producer_epoch: int
    #: The partitions that an open transaction has written to, as (topic, number).
    partitions: tuple[tuple[str, int], ...] = ()


class TransactionClient:
    """Sends requests to coordinators and partition leaders. Connects on demand, and retries transient errors.

    Thread: one at a time.

    Args:
        settings: the librdkafka settings of the connections.
        timeout_s: the longest time of one call, including all its attempts.

    Raises (all calls):
        KafkaError: no answer came in time, or the answer is an error. `details["code"]` is Kafka's name of the error.
    """

    def __init__(self, settings: dict[str, Any], timeout_s: float) -> None:
        self._settings = settings
        self._timeout_s = timeout_s
        self._connections: dict[Address, BrokerConnection] = {}
        #: The known brokers of transactional ids and of partitions. A subtask has at most 1,000 ids.
        self._brokers_of: dict[Hashable, Address] = {}
        #: Never set; only used to wait between attempts.
        self._pause = threading.Event()

    def describe(self, transactional_id: str) -> TransactionDescription:
        """Returns the last transaction of a transactional id.

        Raises:
            KafkaError: TRANSACTIONAL_ID_NOT_FOUND: the coordinator does not know the id (any more).
        """
        body = Writer().varint(2).compact_string(transactional_id).no_tags().data

        def read(answer: Reader) -> tuple[int, TransactionDescription | None]:
            answer.int32()  # throttle time
            if not answer.compact_length():
                return -1, None
            code = answer.int16()
            found = answer.compact_string()
            state = answer.compact_string()
            answer.int32()  # timeout
            answer.int64()  # start time
            producer_id = answer.int64()
            producer_epoch = answer.int16()
            partitions = []
            for _ in range(answer.compact_length()):
                topic = answer.compact_string()
                partitions += [(topic, answer.int32()) for _ in range(answer.compact_length())]
                answer.skip_tags()
            return code, TransactionDescription(found, state, producer_id, producer_epoch, tuple(partitions))

        return self._ask_coordinator(transactional_id, DESCRIBE_TRANSACTIONS, body, read)

    def end(self, transactional_id: str, producer_id: int, producer_epoch: int, *, commit: bool) -> None:
        """Commits or aborts a transaction. A repeated call succeeds until another producer takes over the id.

        Raises:
            KafkaError: PRODUCER_FENCED or INVALID_PRODUCER_EPOCH: another producer has taken over the id, or the broker
                has aborted the transaction; INVALID_TXN_STATE: it has ended in the other way;
                INVALID_PRODUCER_ID_MAPPING: the coordinator does not know the id.
        """
        body = Writer().string(transactional_id).int64(producer_id).int16(producer_epoch).boolean(commit).data
        self._ask_coordinator(transactional_id, END_TXN, body, _code_after_throttle)

    def fence(self, transactional_id: str, transaction_timeout_ms: int) -> None:
        """Takes over a transactional id: aborts its open transaction, if any, and fences its previous producers."""
        body = Writer().string(transactional_id).int32(transaction_timeout_ms).data
        self._ask_coordinator(transactional_id, INIT_PRODUCER_ID, body, _code_after_throttle)

    def list_open(self, prefix: str) -> list[str]:
        """Returns the transactional ids with the prefix that have an open transaction."""
        body = Writer().varint(2).compact_string("Ongoing").varint(1).no_tags().data
        found = []
        for host, port in self._brokers():
            answer = self._retry(lambda at=(host, port): _checked(self._connection(at).ask(LIST_TRANSACTIONS, body)))
            for _ in range(answer.compact_length()):
                answer.compact_string()  # states in our request that the broker does not know
            for _ in range(answer.compact_length()):
                transactional_id = answer.compact_string()
                answer.int64()  # producer id
                answer.compact_string()  # state
                answer.skip_tags()
                if transactional_id.startswith(prefix):
                    found.append(transactional_id)
        return found

    def ask_leader(
        self, topic: str, partition: int, api: Api, body: bytes, read: Callable[[Reader], tuple[int, Any]]
    ) -> Any:
        """Sends a request to the leader of a partition.

        Args:
            body: the request without its header.
            read: returns the error code and the result of an answer.
        """
        return self._ask_broker_of(
            (topic, partition),
            lambda: self._find_leader(topic, partition),
            api,
            body,
            read,
            f" of Kafka partition {topic}-{partition}",
        )

    def set_timeout(self, timeout_s: float) -> None:
        """Sets the timeout of all following calls."""
        self._timeout_s = timeout_s

    def close(self) -> None:
        connections, self._connections = self._connections, {}
        for connection in connections.values():
            connection.close()

    # -- requests ------------------------------------------------------------------------------------------------

    def _brokers(self) -> list[Address]:
        def ask() -> list[Address]:
            answer = self._bootstrap().ask(METADATA, Writer().int32(0).boolean(False).data)
            return list(_read_brokers(answer).values())

        return self._retry(ask)

    def _find_leader(self, topic: str, partition: int) -> Address:
        answer = self._bootstrap().ask(METADATA, Writer().int32(1).string(topic).boolean(False).data)
        brokers = _read_brokers(answer)
        answer.nullable_string()  # cluster id
        answer.int32()  # controller
        for _ in range(answer.int32()):
            about = f" of Kafka topic {topic}"
            _check(answer.int16(), METADATA, about)
            answer.string()
            answer.int8()  # is it internal
            for _ in range(answer.int32()):
                code = answer.int16()
                number = answer.int32()
                leader = answer.int32()
                for _ in range(2):  # all replicas, then those in sync
                    for _ in range(answer.int32()):
                        answer.int32()
                if number == partition:
                    _check(code, METADATA, about)
                    if leader in brokers:
                        return brokers[leader]
        raise KafkaError(f"Kafka partition {topic}-{partition} has no leader", details={"code": "LEADER_NOT_AVAILABLE"})

    def _ask_coordinator(
        self, transactional_id: str, api: Api, body: bytes, read: Callable[[Reader], tuple[int, Any]]
    ) -> Any:
        return self._ask_broker_of(
            transactional_id,
            lambda: self._find_coordinator(transactional_id),
            api,
            body,
            read,
            f" of transactional id {transactional_id}",
        )

    def _ask_broker_of(
        self,
        subject: Hashable,
        find: Callable[[], Address],
        api: Api,
        body: bytes,
        read: Callable[[Reader], tuple[int, Any]],
        about: str,
    ) -> Any:
        """Sends a request to the broker that coordinates a transactional id or leads a partition.

        After an error the next attempt looks the broker up again, because the subject may have moved.
        """

        def ask() -> Any:
            address = self._brokers_of.get(subject) or find()
            self._brokers_of[subject] = address
            try:
                code, result = read(self._connection(address).ask(api, body))
                _check(code, api, about)
            except KafkaError:
                del self._brokers_of[subject]
                raise
            return result

        return self._retry(ask)

    def _find_coordinator(self, transactional_id: str) -> Address:
        body = Writer().string(transactional_id).int8(_TRANSACTION_COORDINATOR).data
        answer = self._bootstrap().ask(FIND_COORDINATOR, body)
        answer.int32()  # throttle time
        code = answer.int16()
        answer.nullable_string()  # error message
        _check(code, FIND_COORDINATOR, f" of transactional id {transactional_id}")
        answer.int32()  # number of the broker
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
        """Returns a connection to any broker."""
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

    def _connection(self, address: Address) -> BrokerConnection:
        known = self._connections.get(address)
        if known is not None and known.is_open:
            return known
        self._connections.pop(address, None)
        connection = BrokerConnection(*address, self._settings, self._timeout_s)
        self._connections[address] = connection
        return connection


def _read_brokers(answer: Reader) -> dict[int, Address]:
    """Reads the beginning of an answer to Metadata. Returns the address of each broker by its number."""
    answer.int32()  # throttle time
    found = {}
    for _ in range(answer.int32()):
        number = answer.int32()
        found[number] = (answer.string(), answer.int32())
        answer.nullable_string()  # rack
    return found


def _code_after_throttle(answer: Reader) -> tuple[int, None]:
    answer.int32()  # throttle time
    return answer.int16(), None


def _checked(answer: Reader) -> Reader:
    """Checks the beginning of an answer to ListTransactions and returns the answer."""
    answer.int32()  # throttle time
    _check(answer.int16(), LIST_TRANSACTIONS, "")
    return answer


def _check(code: int, api: Api, about: str) -> None:
    if code:
        raise KafkaError(f"{api.name}{about}: {error_name(code)}", details={"code": error_name(code)})
