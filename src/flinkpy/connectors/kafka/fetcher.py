"""KafkaFetcher: a thread that takes messages from librdkafka, a bounded number ahead of the task.

librdkafka fetches messages on its own threads. This thread waits for them, so that the task does not have to. The
thread ends with the first permanent error, which the task then raises.

Source: org.apache.flink.connector.kafka.source.reader.KafkaPartitionSplitReader, with its SplitFetcher;
org.apache.flink.connector.kafka.source.metrics.KafkaSourceReaderMetrics.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from flinkpy.connectors.kafka.client import load_confluent_kafka, new_client, typed_error
from flinkpy.connectors.kafka.partitions import KafkaPartitionSplit, KafkaTopicPartition
from flinkpy.connectors.source_reader_base import Fetched, SplitFetcherManager

_LOG = logging.getLogger(__name__)

#: The most messages that are taken from librdkafka at once: enough to make the cost of a call negligible.
FETCH_MESSAGES = 5_000
#: The most chunks that wait for the task, as `source.reader.element.queue.capacity` of Flink's readers.
QUEUE_CAPACITY = 2
#: The longest wait for a message. A new split waits for as long before the thread notices it.
POLL_S = 0.1
#: The longest time a reader that has read everything waits until its offsets are committed. Java's KafkaConsumer.close
#: waits as long.
LAST_COMMIT_S = 30.0
#: The first and the longest pause before a refused commit is sent again. Coordinators move and load within seconds.
COMMIT_POLL_S = 0.005
COMMIT_RETRY_S = 0.2


#: The value of a metric of a partition without a committed offset.
NO_OFFSET = -1


class KafkaReaderMetrics:
    """The metrics of a Kafka reader, under Flink's names.

        KafkaSourceReader.topic.<topic>.partition.<number>.{currentOffset,committedOffset}
        KafkaSourceReader.{commitsSucceeded,commitsFailed}
        pendingRecords                    records behind the positions of all partitions, as of the last fetch

    Thread: the task thread writes positions, the fetcher's thread writes ends of partitions and commits. Any thread
    reads.
    """

    def __init__(self, metric_group: Any) -> None:
        self._group = metric_group.add_group("KafkaSourceReader")
        self._positions: dict[KafkaTopicPartition, int] = {}
        self._end_offsets: dict[KafkaTopicPartition, int] = {}
        self._committed: dict[KafkaTopicPartition, int] = {}
        self._succeeded = self._group.counter("commitsSucceeded")
        self._failed = self._group.counter("commitsFailed")
        metric_group.gauge("pendingRecords", self._pending_records)

    def on_position(self, partition: KafkaTopicPartition, offset: int) -> None:
        """Records a position: the next emitted record has this offset or a greater one."""
        if partition not in self._positions:
            group = self._group.add_group("topic", partition.topic).add_group("partition", str(partition.partition))
            # As in Flink: the offset of the last emitted record.
            group.gauge("currentOffset", lambda: self._positions[partition] - 1)
            group.gauge("committedOffset", lambda: self._committed.get(partition, NO_OFFSET))
        self._positions[partition] = offset

    def on_end_offset(self, partition: KafkaTopicPartition, offset: int) -> None:
        self._end_offsets[partition] = offset

    def on_commit(self, offsets: dict[KafkaTopicPartition, int]) -> None:
        self._succeeded.inc()
        self._committed.update(offsets)

    def on_failed_commit(self) -> None:
        self._failed.inc()

    def _pending_records(self) -> int:
        ends = list(self._end_offsets.items())
        return sum(max(0, end - self._positions.get(partition, end)) for partition, end in ends)


@dataclass(slots=True)
class _Requests:
    """The requests of the task since the thread last took them. Splits are named by their ids."""

    assign: list[KafkaPartitionSplit] = field(default_factory=list)
    unassign: set[str] = field(default_factory=set)
    pause: set[str] = field(default_factory=set)
    resume: set[str] = field(default_factory=set)
    commit: dict[KafkaTopicPartition, int] = field(default_factory=dict)
    #: True if the queue can take another chunk.
    has_room: bool = False

    @property
    def is_any(self) -> bool:
        return bool(self.assign or self.unassign or self.pause or self.resume or self.commit)


class KafkaFetcher(SplitFetcherManager):
    """Fetches messages of the assigned partitions and commits offsets.

    The records of a split are messages of confluent-kafka in the order of their offsets. At the end of the partition
    comes a list of one message with the error _PARTITION_EOF: the next record has its offset or a greater one.

    Thread: the task thread calls the methods. Only the thread that `start` creates uses the consumer: a call of one
    thread may block for ever while another thread keeps polling (observed with `commit`).

    Args:
        settings: the librdkafka settings of the consumer.
        notify: called when `take` has a result or an error.
        make_consumer: creates a confluent_kafka.Consumer from settings.
    """

    def __init__(
        self,
        settings: dict[str, Any],
        name: str,
        notify: Callable[[], None],
        metrics: KafkaReaderMetrics,
        make_consumer: Callable[[dict[str, Any]], Any] = partial(new_client, "Consumer"),  # noqa: B008 - it is a constant
    ) -> None:
        super().__init__("Kafka", notify)
        self._settings = settings
        self._name = name
        self._metrics = metrics
        self._requests = _Requests()
        # The fields up to `_is_last_commit_refused` are only used by the thread.
        #: The assigned partitions, by split id.
        self._assigned: dict[str, KafkaTopicPartition] = {}
        #: The same the other way round: split ids, by topic and number of the partition.
        self._split_ids: dict[tuple[str, int], str] = {}
        self._known_topics: set[str] = set()
        #: Offsets that were sent to the coordinator of the group and are not confirmed.
        self._unconfirmed: dict[KafkaTopicPartition, int] = {}
        #: The offsets that were sent last, confirmed or not.
        self._last_sent: dict[KafkaTopicPartition, int] = {}
        self._num_commits_in_flight = 0
        self._is_last_commit_refused = False
        self._last_commit_s = 0.0
        self._make_consumer = make_consumer
        self._consumer: Any = None

    def start(self) -> None:
        """Creates the consumer and starts the thread.

        Raises:
            ConfigurationError: the consumer refuses the settings.
        """
        callbacks = {"error_cb": self._on_client_error, "on_commit": self._on_commit}
        self._consumer = self._make_consumer({**self._settings, **callbacks})
        self._start_thread(self._name, self._serve_until_closed)

    def add(self, split: KafkaPartitionSplit) -> None:
        """Starts reading a partition at the starting offset of its split."""
        with self._lock:
            self._requests.assign.append(split)
            self._lock.notify_all()

    def end(self, split_id: str) -> None:
        """Stops reading a partition. `take` still returns messages of it that were fetched before."""
        with self._lock:
            self._requests.unassign.add(split_id)
            self._lock.notify_all()

    def pause_or_resume(self, to_pause: list[str], to_resume: list[str]) -> None:
        with self._lock:
            requests = self._requests
            requests.pause.difference_update(to_resume)
            requests.pause.update(to_pause)
            requests.resume.difference_update(to_pause)
            requests.resume.update(to_resume)
            self._lock.notify_all()

    def commit(self, offsets: dict[KafkaTopicPartition, int]) -> None:
        """Commits offsets to the consumer group in the background. A failed commit is made up for by the next one."""
        with self._lock:
            self._requests.commit.update(offsets)
            self._lock.notify_all()

    def close(self, extra_s: float = 0.0) -> None:
        """Ends the thread.

        Args:
            extra_s: the longest wait, in seconds, until the coordinator has confirmed all offsets. It matters at the
                end of the input, because no later commit makes up for a failed one.
        """
        self._last_commit_s = extra_s
        super().close(extra_s)

    # -- the thread ----------------------------------------------------------------------------------------------

    def _run(self, run: Callable[..., None], *arguments: Any) -> None:
        # The task learns of an error before the consumer is closed, which may take long.
        try:
            super()._run(run, *arguments)
        finally:
            self._end()

    def _serve_until_closed(self) -> None:
        while (requests := self._wait_for_work()) is not None:
            self._serve(requests)
            if requests.has_room and self._assigned:
                self._fetch()

    def _end(self) -> None:
        with self._lock:
            to_commit, last_commit_s = self._requests.commit, self._last_commit_s
        try:
            if to_commit:
                # The last checkpoint of a bounded job completes just before its tasks end.
                self._send_commit(to_commit)
            if last_commit_s:
                self._wait_for_commits(last_commit_s)
        finally:
            self._consumer.close()

    def _wait_for_commits(self, timeout_s: float) -> None:
        """Waits until all offsets are confirmed. Resends them while the coordinator is not ready."""
        if self._assigned:
            self._unassign(list(self._assigned))
        deadline = time.monotonic() + timeout_s
        poll_s = COMMIT_POLL_S
        # An older commit in flight may yet replace the offsets of a newer one.
        while (self._unconfirmed or self._num_commits_in_flight) and not self._is_last_commit_refused:
            if time.monotonic() >= deadline:
                _LOG.warning("Kafka: offsets were not committed within %g s: %s", timeout_s, self._unconfirmed)
                return
            if not self._num_commits_in_flight:
                self._send_commit(dict(self._unconfirmed))
            # This calls `_on_commit`. No partition is assigned, so it returns no message and takes all its time.
            self._consumer.poll(poll_s)
            poll_s = min(2 * poll_s, COMMIT_RETRY_S)

    def _wait_for_work(self) -> _Requests | None:
        """Waits until there are requests, or a partition to read and room for its messages.

        Returns None when the fetcher is closed.
        """
        with self._lock:
            while not self._closed.is_set():
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
                [
                    client_partition(split.partition.topic, split.partition.partition, split.starting_offset)
                    for split in requests.assign
                ]
            )
            for split in requests.assign:
                self._assigned[split.split_id] = split.partition
                self._split_ids[split.partition.topic, split.partition.partition] = split.split_id
            self._ask_for_leaders({split.partition.topic for split in requests.assign})
        # Only assigned partitions: one may have ended since the task asked.
        if unassign := self._assigned.keys() & requests.unassign:
            self._unassign(unassign)
        if pause := self._assigned.keys() & requests.pause:
            self._consumer.pause(self._client_partitions(pause))
        if resume := self._assigned.keys() & requests.resume:
            self._consumer.resume(self._client_partitions(resume))
        if requests.commit:
            self._send_commit(requests.commit)

    def _unassign(self, split_ids: Collection[str]) -> None:
        self._consumer.incremental_unassign(self._client_partitions(split_ids))
        for split_id in split_ids:
            partition = self._assigned.pop(split_id)
            del self._split_ids[partition.topic, partition.partition]

    def _client_partitions(self, split_ids: Iterable[str]) -> list[Any]:
        partitions = map(self._assigned.__getitem__, split_ids)
        return [load_confluent_kafka().TopicPartition(key.topic, key.partition) for key in partitions]

    def _ask_for_leaders(self, topics: set[str]) -> None:
        """Makes librdkafka look up leaders now. Otherwise it does so once a second, which delays the start."""
        for topic in topics - self._known_topics:
            try:
                self._consumer.list_topics(topic, timeout=POLL_S * 10)
            except load_confluent_kafka().KafkaException as error:
                _LOG.info("Kafka topic %s: %s", topic, error)
        self._known_topics |= topics

    def _fetch(self) -> None:
        # Wait for the first message only: `consume` with a timeout waits for all the messages it is asked for.
        first = self._consumer.poll(POLL_S)
        if first is None:
            return
        chunk: dict[tuple[str, int], Fetched] = {}
        fetched: list[Fetched] = []
        for message in (first, *self._consumer.consume(FETCH_MESSAGES, 0)):
            error = message.error()
            if error is not None and not self._is_end(message, error):
                continue
            key = (message.topic(), message.partition())
            known = chunk.get(key)
            if known is None or error is not None:
                split_id = self._split_ids.get(key)
                if split_id is None:
                    # The partition has been unassigned.
                    continue
                known = chunk[key] = Fetched(split_id, [])
                fetched.append(known)
            known.records.append(message)
            if error is not None:
                del chunk[key]
                self._metrics.on_end_offset(KafkaTopicPartition(*key), message.offset())
        if fetched:
            for key in chunk:
                self._note_high_watermark(KafkaTopicPartition(*key))
            self._enqueue(fetched)

    def _is_end(self, message: Any, error: Any) -> bool:
        """True if the message marks the end of a partition. Raises: KafkaError if its error is permanent."""
        module = load_confluent_kafka()
        if error.code() == module.KafkaError._PARTITION_EOF:
            return True
        where = "Kafka" if message.topic() is None else f"Kafka partition {message.topic()}-{message.partition()}"
        if error.retriable() or error.code() in (module.KafkaError._TRANSPORT, module.KafkaError._ALL_BROKERS_DOWN):
            _LOG.warning("%s: %s", where, error)
            return False
        raise typed_error(error, where)

    def _note_high_watermark(self, partition: KafkaTopicPartition) -> None:
        """Records the end of the partition as of the last answer of a broker, for a metric; sends no request."""
        asked = load_confluent_kafka().TopicPartition(partition.topic, partition.partition)
        known = self._consumer.get_watermark_offsets(asked, cached=True)
        if known is not None:
            self._metrics.on_end_offset(partition, int(known[1]))

    def _on_client_error(self, error: Any) -> None:
        """Fails the fetcher on permanent errors. `poll` of the consumer calls this.

        librdkafka reconnects automatically. It reports a missing topic after `topic.metadata.propagation.max.ms`.
        """
        known = load_confluent_kafka().KafkaError
        permanent = {
            known._AUTHENTICATION,
            known._UNKNOWN_PARTITION,
            known._UNKNOWN_TOPIC,
            known.UNKNOWN_TOPIC_OR_PART,
            known.TOPIC_AUTHORIZATION_FAILED,
        }
        if error.fatal() or error.code() in permanent:
            self._fail(typed_error(error, f"Kafka brokers {self._settings['bootstrap.servers']}"))
        else:
            _LOG.warning("Kafka brokers %s: %s", self._settings["bootstrap.servers"], error)

    def _send_commit(self, offsets: dict[KafkaTopicPartition, int]) -> None:
        module = load_confluent_kafka()
        at = [module.TopicPartition(key.topic, key.partition, offset) for key, offset in offsets.items()]
        self._unconfirmed.update(offsets)
        self._last_sent.update(offsets)
        self._num_commits_in_flight += 1
        self._is_last_commit_refused = False
        try:
            self._consumer.commit(offsets=at, asynchronous=True)
        except module.KafkaException as error:
            self._on_commit(error.args[0], [])

    def _on_commit(self, error: Any, partitions: list[Any]) -> None:
        """Handles the answer to a commit. `poll` and `close` of the consumer call this."""
        self._num_commits_in_flight -= 1
        error = error or next((partition.error for partition in partitions if partition.error is not None), None)
        if error is not None:
            self._metrics.on_failed_commit()
            self._is_last_commit_refused = not _is_transient(error)
            _LOG.warning("Kafka: offsets were not committed: %s", error)
            return
        committed = {KafkaTopicPartition(at.topic, at.partition): at.offset for at in partitions}
        for partition, offset in committed.items():
            last_sent = self._last_sent.get(partition, offset)
            if offset == last_sent:
                self._unconfirmed.pop(partition, None)
            else:
                # librdkafka repeats commits while the coordinator loads, so an older one may be carried out last.
                self._unconfirmed[partition] = last_sent
        self._metrics.on_commit(committed)


def _is_transient(error: Any) -> bool:
    """Returns True if a commit failed because the coordinator is unknown, moving or loading, or not connected."""
    known = load_confluent_kafka().KafkaError
    return error.retriable() or error.code() in {
        known.COORDINATOR_LOAD_IN_PROGRESS,
        known.COORDINATOR_NOT_AVAILABLE,
        known.NOT_COORDINATOR,
        known.REQUEST_TIMED_OUT,
        known.NETWORK_EXCEPTION,
        known._WAIT_COORD,
        known._TRANSPORT,
        known._TIMED_OUT,
        known._TIMED_OUT_QUEUE,
        known._ALL_BROKERS_DOWN,
    }
