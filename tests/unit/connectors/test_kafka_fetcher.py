"""KafkaFetcher with a fake consumer: fetched messages, and the last commit of offsets."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from connector_fakes import TestingReaderContext

from flinkpy.connectors.kafka.fetcher import KafkaFetcher, KafkaReaderMetrics
from flinkpy.connectors.kafka.partitions import KafkaPartitionSplit, KafkaTopicPartition

confluent_kafka = pytest.importorskip("confluent_kafka")

A, B = KafkaTopicPartition("t", 0), KafkaTopicPartition("t", 1)
LOADING, NOT_COORDINATOR, NOT_KNOWN_YET, LOST = 14, 16, -180, -195
UNAUTHORIZED = 30
#: In place of a code: the coordinator does not answer.
NEVER = -1000


class FakeConsumer:
    """Answers commits when it is polled: with the given error codes in turn, then with success.

    It answers them in the order in which they were sent, or the newest one first.
    """

    answers_newest_first = False

    def __init__(self, settings: dict[str, Any], codes: list[int]) -> None:
        self._on_commit = settings["on_commit"]
        self._codes = codes
        self._unanswered: list[Any] = []
        #: The offsets that the coordinator has stored, and the number of commits.
        self.committed: dict[KafkaTopicPartition, int] = {}
        self.num_commits = 0
        self.is_closed = False
        #: The messages of the next fetch.
        self.messages: list[Any] = []
        #: Is released with each commit.
        self.sent = threading.Semaphore(0)
        self.polled = threading.Event()

    def commit(self, offsets: list[Any], asynchronous: bool) -> None:
        assert asynchronous
        self.num_commits += 1
        self._unanswered.append(offsets)
        self.sent.release()

    def poll(self, timeout_s: float) -> Any:
        self.polled.set()
        answered = self._unanswered[::-1] if self.answers_newest_first else list(self._unanswered)
        for offsets in answered:
            if self._codes[:1] == [NEVER]:
                return None
            code = self._codes.pop(0) if self._codes else 0
            if not code:
                self.committed |= {KafkaTopicPartition(at.topic, at.partition): at.offset for at in offsets}
            self._on_commit(confluent_kafka.KafkaError(code) if code else None, offsets)
        del self._unanswered[: len(answered)]
        return self.messages.pop(0) if self.messages else None

    def consume(self, num_messages: int, timeout_s: float) -> list[Any]:
        messages, self.messages = self.messages, []
        return messages

    def get_watermark_offsets(self, partition: Any, cached: bool) -> tuple[int, int]:
        return 0, 100

    def incremental_assign(self, partitions: list[Any]) -> None:
        return

    def incremental_unassign(self, partitions: list[Any]) -> None:
        return

    def list_topics(self, topic: str, timeout: float) -> None:
        return

    def close(self) -> None:
        self.is_closed = True


class FakeMessage:
    def __init__(self, partition: KafkaTopicPartition, offset: int, error: Any = None) -> None:
        self._partition = partition
        self._offset = offset
        self._error = error

    def topic(self) -> str:
        return self._partition.topic

    def partition(self) -> int:
        return self._partition.partition

    def offset(self) -> int:
        return self._offset

    def error(self) -> Any:
        return self._error


class Fetching:
    def __init__(self, *codes: int, messages: tuple[FakeMessage, ...] = ()) -> None:
        self.context = TestingReaderContext()
        self.consumer: Any = None
        self.is_notified = threading.Event()

        def make_consumer(settings: dict[str, Any]) -> FakeConsumer:
            self.consumer = FakeConsumer(settings, list(codes))
            self.consumer.messages = list(messages)
            return self.consumer

        metrics = KafkaReaderMetrics(self.context.metric_group)
        self.fetcher = KafkaFetcher({}, "fetcher", self.is_notified.set, metrics, make_consumer)
        self.fetcher.start()

    def commit_and_close(self, last_commit_s: float, *commits: dict[KafkaTopicPartition, int]) -> FakeConsumer:
        for offsets in commits:
            self.fetcher.commit(offsets)
        self.fetcher.close(last_commit_s)
        assert self.consumer.is_closed
        return self.consumer


def test_fetch_is_divided_by_split_and_ends_follow_the_records() -> None:
    end = confluent_kafka.KafkaError(confluent_kafka.KafkaError._PARTITION_EOF)
    unassigned = KafkaTopicPartition("t", 9)
    fetching = Fetching(
        messages=(
            FakeMessage(A, 0),
            FakeMessage(B, 7),
            FakeMessage(A, 1),
            FakeMessage(unassigned, 5),
            FakeMessage(A, 4, end),
            FakeMessage(A, 4),
        )
    )
    with fetching.fetcher._lock:
        fetching.fetcher.add(KafkaPartitionSplit(A, 0))
        fetching.fetcher.add(KafkaPartitionSplit(B, 7, kafka_cluster_id="east"))
    assert fetching.is_notified.wait(60)
    found = []
    while (fetched := fetching.fetcher.take()) is not None:
        found.append((fetched.split_id, [message.offset() for message in fetched.records]))
    fetching.commit_and_close(0.0)
    assert found == [("t-0", [0, 1]), ("east-t-1", [7]), ("t-0", [4]), ("t-0", [4])]


@pytest.mark.parametrize("code", [LOADING, NOT_COORDINATOR, NOT_KNOWN_YET, LOST])
def test_last_commit_is_retried_until_the_coordinator_accepts_it(code: int) -> None:
    consumer = Fetching(code, code, code).commit_and_close(60.0, {A: 5, B: 7})
    assert consumer.committed == {A: 5, B: 7}
    assert consumer.num_commits == 4


def test_refused_commit_is_repeated_at_the_end() -> None:
    fetching = Fetching(LOADING)
    fetching.fetcher.add(KafkaPartitionSplit(A, 0))
    fetching.fetcher.commit({A: 5})
    assert fetching.consumer.polled.wait(10)
    consumer = fetching.commit_and_close(60.0)
    assert consumer.committed == {A: 5}


def test_older_commit_that_is_carried_out_last_does_not_win() -> None:
    fetching = Fetching()
    fetching.fetcher.commit({A: 0, B: 0})
    fetching.consumer.answers_newest_first = True
    assert fetching.consumer.sent.acquire(timeout=60)
    consumer = fetching.commit_and_close(60.0, {A: 5, B: 7})
    assert consumer.committed == {A: 5, B: 7}


def test_permanently_refused_commit_is_not_retried() -> None:
    consumer = Fetching(*[UNAUTHORIZED] * 10).commit_and_close(60.0, {A: 5})
    assert consumer.committed == {} and consumer.num_commits == 1


def test_wait_for_the_last_commit_is_bounded(caplog: pytest.LogCaptureFixture) -> None:
    consumer = Fetching(NEVER).commit_and_close(0.05, {A: 5})
    assert consumer.num_commits == 1, "a commit in flight is not repeated"
    assert "offsets were not committed within 0.05 s" in caplog.text


def test_cancelled_reader_waits_for_no_commit() -> None:
    consumer = Fetching(NEVER).commit_and_close(0.0, {A: 5})
    assert consumer.committed == {} and not consumer.polled.is_set()
