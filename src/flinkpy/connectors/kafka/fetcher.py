"""KafkaFetcher: a thread that takes messages from librdkafka, a bounded number ahead of the task.

librdkafka has fetched them before, on threads of its own; what this thread saves the task is waiting. It ends with the
first error that will not go away by itself, which the task then raises.

Source: org.apache.flink.connector.kafka.source.reader.KafkaPartitionSplitReader, with its SplitFetcher.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from flinkpy.common.errors import FlinkError, InternalError
from flinkpy.connectors.kafka.client import load_confluent_kafka, new_client, typed_error
from flinkpy.connectors.kafka.partitions import KafkaTopicPartition
from flinkpy.connectors.kafka.reader_metrics import KafkaReaderMetrics

_LOG = logging.getLogger(__name__)

#: Taken from librdkafka at a time: enough that the calls around it cost nothing per record.
FETCH_MESSAGES = 5_000
#: Chunks that may wait for the task, as `source.reader.element.queue.capacity` of Flink's readers.
QUEUE_CAPACITY = 2
#: How long a new split may wait until the thread looks for it.
POLL_S = 0.1
#: librdkafka's threads end within a few milliseconds, unless a broker hangs.
CLOSE_S = 10.0


class Fetched(NamedTuple):
    """Messages of a partition in the order of their offsets, or none and the end of the partition."""

    partition: KafkaTopicPartition
    messages: list[Any]
    #: Where the partition ends as far as is known; -1: it is not.
    high_watermark: int = -1
    #: Where the partition ended when it was reached: the offset that its next message will have at least.
    end_offset: int | None = None


@dataclass(slots=True)
class _Requests:
    """What the task has asked the thread for since it last looked."""

    assign: dict[KafkaTopicPartition, int] = field(default_factory=dict)
    unassign: set[KafkaTopicPartition] = field(default_factory=set)
    pause: set[KafkaTopicPartition] = field(default_factory=set)
    resume: set[KafkaTopicPartition] = field(default_factory=set)
    commit: dict[KafkaTopicPartition, int] = field(default_factory=dict)
    #: Whether what is fetched next can be queued.
    has_room: bool = False

    @property
    def is_any(self) -> bool:
        return bool(self.assign or self.unassign or self.pause or self.resume or self.commit)


class KafkaFetcher:
    """Thread: the methods are called by the task thread. The consumer is used by the thread that `start` begins, and by
    no other: a call of one thread may wait for ever while another polls again and again (seen with `commit`).

    Args:
        settings: librdkafka's, for a Consumer.
        notify: called when `take` has something, or an error, to give.
    """

    def __init__(
        self, settings: dict[str, Any], name: str, notify: Callable[[], None], metrics: KafkaReaderMetrics
    ) -> None:
        self._settings = settings
        self._metrics = metrics
        self._notify = notify
        self._lock = threading.Condition()
        self._queue: deque[list[Fetched]] = deque()
        self._taken: deque[Fetched] = deque()
        self._requests = _Requests()
        #: Used by the thread alone.
        self._assigned: set[KafkaTopicPartition] = set()
        self._known_topics: set[str] = set()
        self._error: BaseException | None = None
        self._is_closed = False
        self._consumer: Any = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Raises: ConfigurationError: the settings are not a consumer's."""
        callbacks = {"error_cb": self._on_client_error, "on_commit": self._on_commit}
        self._consumer = new_client("Consumer", {**self._settings, **callbacks})
        self._thread.start()

    def assign(self, offsets: dict[KafkaTopicPartition, int]) -> None:
        """Begin to read these partitions at these offsets."""
        with self._lock:
            self._requests.assign.update(offsets)
            self._lock.notify_all()

    def unassign(self, partition: KafkaTopicPartition) -> None:
        """Stop reading it; what is on its way of it is still given."""
        with self._lock:
            self._requests.unassign.add(partition)
            self._lock.notify_all()

    def pause_or_resume(self, to_pause: list[KafkaTopicPartition], to_resume: list[KafkaTopicPartition]) -> None:
        """Fetch nothing of the former until they are among the latter; what is on its way of them is still given."""
        with self._lock:
            requests = self._requests
            requests.pause.difference_update(to_resume)
            requests.pause.update(to_pause)
            requests.resume.difference_update(to_pause)
            requests.resume.update(to_resume)
            self._lock.notify_all()

    def take(self) -> Fetched | None:
        """What was fetched next; None: nothing yet.

        Raises:
            FlinkError: fetching has ended with it.
        """
        if not self._taken:
            with self._lock:
                if self._queue:
                    self._taken.extend(self._queue.popleft())
                    self._lock.notify_all()
                elif self._error is not None:
                    raise self._error
        return self._taken.popleft() if self._taken else None

    def commit(self, offsets: dict[KafkaTopicPartition, int]) -> None:
        """Tell the group's coordinator, sometime soon. Nothing depends on its success."""
        with self._lock:
            self._requests.commit.update(offsets)
            self._lock.notify_all()

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            self._lock.notify_all()
        if self._thread.ident is None:
            return
        self._thread.join(CLOSE_S)
        if self._thread.is_alive():
            _LOG.warning("Kafka: thread %s does not end", self._thread.name)

    # -- the thread ----------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while (requests := self._wait_for_work()) is not None:
                self._serve(requests)
                if requests.has_room and self._assigned:
                    self._fetch()
        except FlinkError as error:
            self._fail(error)
        except Exception as error:  # noqa: BLE001 - the task raises it; a thread that ends silently would hang the job
            self._fail(InternalError(f"the Kafka fetcher failed: {type(error).__name__}: {error}"))
        finally:
            self._end()

    def _end(self) -> None:
        with self._lock:
            to_commit = self._requests.commit
        if to_commit:
            # The last checkpoint of a bounded job is complete just before its tasks end. Closing waits for the answer.
            self._send_commit(to_commit)
        self._consumer.close()

    def _wait_for_work(self) -> _Requests | None:
        """What the task has asked for; or nothing, when there is a partition to read and room for what it gives.

        Returns None when the fetcher is closed.
        """
        with self._lock:
            while not self._is_closed:
                has_room = len(self._queue) < QUEUE_CAPACITY
                requests, self._requests = self._requests, _Requests()
                if requests.is_any or (has_room and self._assigned):
                    return replace(requests, has_room=has_room)
                self._lock.wait()
        return None

    def _serve(self, requests: _Requests) -> None:
        if requests.assign:
            client_partition = load_confluent_kafka().TopicPartition
            self._consumer.incremental_assign(
                [client_partition(key.topic, key.partition, offset) for key, offset in requests.assign.items()]
            )
            self._assigned.update(requests.assign)
            self._ask_for_leaders({key.topic for key in requests.assign})
        unassign = self._assigned.intersection(requests.unassign)
        if unassign:
            self._consumer.incremental_unassign(_client_partitions(unassign))
            self._assigned -= unassign
        # Of partitions that are read: one may have ended since it was to be paused.
        if pause := self._assigned.intersection(requests.pause):
            self._consumer.pause(_client_partitions(pause))
        if resume := self._assigned.intersection(requests.resume):
            self._consumer.resume(_client_partitions(resume))
        if requests.commit:
            self._send_commit(requests.commit)

    def _ask_for_leaders(self, topics: set[str]) -> None:
        """librdkafka asks for the leaders of new partitions once in a second; a job should begin at once."""
        for topic in topics - self._known_topics:
            try:
                self._consumer.list_topics(topic, timeout=POLL_S * 10)
            except load_confluent_kafka().KafkaException as error:
                _LOG.info("Kafka topic %s: %s", topic, error)
        self._known_topics |= topics

    def _fetch(self) -> None:
        # Waits for the first message only: `consume` with a time-out waits for all it is asked for.
        first = self._consumer.poll(POLL_S)
        if first is None:
            return
        chunk: dict[tuple[str, int], Fetched] = {}
        fetched: list[Fetched] = []
        for message in (first, *self._consumer.consume(FETCH_MESSAGES, 0)):
            error = message.error()
            if error is not None:
                ended = self._on_message_error(message, error)
                if ended is not None:
                    fetched.append(ended)
                    chunk.pop((ended.partition.topic, ended.partition.partition), None)
                continue
            key = (message.topic(), message.partition())
            known = chunk.get(key)
            if known is None:
                partition = KafkaTopicPartition(*key)
                known = chunk[key] = Fetched(partition, [], self._high_watermark(partition))
                fetched.append(known)
            known.messages.append(message)
        if fetched:
            with self._lock:
                self._queue.append(fetched)
            self._notify()

    def _on_message_error(self, message: Any, error: Any) -> Fetched | None:
        module = load_confluent_kafka()
        if error.code() == module.KafkaError._PARTITION_EOF:
            end_offset = message.offset()
            return Fetched(KafkaTopicPartition(message.topic(), message.partition()), [], end_offset, end_offset)
        where = "Kafka" if message.topic() is None else f"Kafka partition {message.topic()}-{message.partition()}"
        if error.retriable() or error.code() in (module.KafkaError._TRANSPORT, module.KafkaError._ALL_BROKERS_DOWN):
            _LOG.warning("%s: %s", where, error)
            return None
        raise typed_error(error, where)

    def _high_watermark(self, partition: KafkaTopicPartition) -> int:
        """As of the newest answer of a broker; asks nobody."""
        [asked] = _client_partitions([partition])
        known = self._consumer.get_watermark_offsets(asked, cached=True)
        return -1 if known is None else int(known[1])

    def _on_client_error(self, error: Any) -> None:
        """Called by `poll`. Lost connections are made again by librdkafka itself; topics that are not there it reports
        when it has seen so for `topic.metadata.propagation.max.ms`.
        """
        known = load_confluent_kafka().KafkaError
        ends = {
            known._AUTHENTICATION,
            known._UNKNOWN_PARTITION,
            known._UNKNOWN_TOPIC,
            known.UNKNOWN_TOPIC_OR_PART,
            known.TOPIC_AUTHORIZATION_FAILED,
        }
        if error.fatal() or error.code() in ends:
            self._fail(typed_error(error, f"Kafka brokers {self._settings['bootstrap.servers']}"))
        else:
            _LOG.warning("Kafka brokers %s: %s", self._settings["bootstrap.servers"], error)

    def _send_commit(self, offsets: dict[KafkaTopicPartition, int]) -> None:
        module = load_confluent_kafka()
        at = [module.TopicPartition(key.topic, key.partition, offset) for key, offset in offsets.items()]
        try:
            self._consumer.commit(offsets=at, asynchronous=True)
        except module.KafkaException as error:
            self._on_commit(error, [])

    def _on_commit(self, error: Any, partitions: list[Any]) -> None:
        error = error or next((partition.error for partition in partitions if partition.error is not None), None)
        if error is not None:
            self._metrics.on_failed_commit()
            _LOG.warning("Kafka: offsets were not committed: %s", error)
        else:
            self._metrics.on_commit({KafkaTopicPartition(at.topic, at.partition): at.offset for at in partitions})

    def _fail(self, error: FlinkError) -> None:
        with self._lock:
            if self._error is None:
                self._error = error
        self._notify()


def _client_partitions(partitions: Iterable[KafkaTopicPartition]) -> list[Any]:
    module = load_confluent_kafka()
    return [module.TopicPartition(key.topic, key.partition) for key in partitions]
