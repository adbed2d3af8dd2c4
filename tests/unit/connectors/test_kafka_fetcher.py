"""KafkaFetcher with a fake consumer: the last commit of offsets."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from connector_fakes import TestingReaderContext

from flinkpy.connectors.kafka.fetcher import KafkaFetcher, KafkaReaderMetrics
from flinkpy.connectors.kafka.partitions import KafkaTopicPartition

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
        #: Is released with each commit.
        self.sent = threading.Semaphore(0)
        self.polled = threading.Event()

    def commit(self, offsets: list[Any], asynchronous: bool) -> None:
        assert asynchronous
        self.num_commits += 1
        self._unanswered.append(offsets)
        self.sent.release()

    def poll(self, timeout_s: float) -> None:
        self.polled.set()
        answered = self._unanswered[::-1] if self.answers_newest_first else list(self._unanswered)
        for offsets in answered:
            if self._codes[:1] == [NEVER]:
                return
            code = self._codes.pop(0) if self._codes else 0
            if not code:
                self.committed |= {KafkaTopicPartition(at.topic, at.partition): at.offset for at in offsets}
            self._on_commit(confluent_kafka.KafkaError(code) if code else None, offsets)
        del self._unanswered[: len(answered)]

    def consume(self, num_messages: int, timeout_s: float) -> list[Any]:
        return []

    def incremental_assign(self, partitions: list[Any]) -> None:
        return

    def incremental_unassign(self, partitions: list[Any]) -> None:
        return

    def list_topics(self, topic: str, timeout: float) -> None:
        return

    def close(self) -> None:
        self.is_closed = True


class Fetching:
    def __init__(self, *codes: int) -> None:
        self.context = TestingReaderContext()
        self.consumer: Any = None

        def make_consumer(settings: dict[str, Any]) -> FakeConsumer:
            self.consumer = FakeConsumer(settings, list(codes))
            return self.consumer

        metrics = KafkaReaderMetrics(self.context.metric_group)
        self.fetcher = KafkaFetcher({}, "fetcher", lambda: None, metrics, make_consumer)
        self.fetcher.start()

    def commit_and_close(self, last_commit_s: float, *commits: dict[KafkaTopicPartition, int]) -> FakeConsumer:
        for offsets in commits:
            self.fetcher.commit(offsets)
        self.fetcher.close(last_commit_s)
        assert self.consumer.is_closed
        return self.consumer


@pytest.mark.parametrize("code", [LOADING, NOT_COORDINATOR, NOT_KNOWN_YET, LOST])
def test_last_commit_is_retried_until_the_coordinator_accepts_it(code: int) -> None:
    consumer = Fetching(code, code, code).commit_and_close(60.0, {A: 5, B: 7})
    assert consumer.committed == {A: 5, B: 7}
    assert consumer.num_commits == 4


def test_refused_commit_is_repeated_at_the_end() -> None:
    fetching = Fetching(LOADING)
    fetching.fetcher.assign({A: 0})
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
