"""KafkaSourceReader with fake messages: positions, ends of splits, pauses and batch sizes."""

from __future__ import annotations

from collections import deque
from dataclasses import replace

import pytest
from connector_fakes import TestingReaderContext

from flinkpy.common import SimpleStringSchema
from flinkpy.common.errors import KafkaError
from flinkpy.connector_api.source import ReaderStatus
from flinkpy.connectors.kafka.fetcher import LAST_COMMIT_S, KafkaReaderMetrics
from flinkpy.connectors.kafka.partitions import (
    KafkaPartitionSplit,
    KafkaPartitionSplitSerializer,
    KafkaTopicPartition,
    java_hash,
    split_owner,
)
from flinkpy.connectors.kafka.reader import KafkaSourceReader
from flinkpy.connectors.kafka.serialization import KafkaRecordDeserializationSchema
from flinkpy.connectors.source_reader_base import Fetched

A, B = KafkaTopicPartition("t", 0), KafkaTopicPartition("t", 1)


class Message:
    """A fake confluent_kafka.Message."""

    def __init__(self, partition, offset, value="", timestamp=None, error=None):
        self._fields = partition, offset, value, timestamp
        self._error = error

    def error(self):
        return self._error

    def topic(self):
        return self._fields[0].topic

    def partition(self):
        return self._fields[0].partition

    def offset(self):
        return self._fields[1]

    def value(self):
        value = self._fields[2]
        return None if value is None else (value or f"{self._fields[0].partition}:{self.offset()}").encode()

    def timestamp(self):
        return 1, self._fields[1] * 10 if self._fields[3] is None else self._fields[3]


class FakeFetcher:
    """Returns the messages that a test puts into it."""

    def __init__(self, *fetched):
        self.queue = deque(fetched)
        self.added = []
        self.ended = []
        self.pauses = []
        self.commits = []
        self.error = None
        self.is_closed = False
        self.last_commit_s = None

    def start(self):
        return

    def add(self, split):
        self.added.append(split)

    def end(self, split_id):
        self.ended.append(split_id)

    def done_with(self, split_id):
        return

    def pause_or_resume(self, to_pause, to_resume):
        self.pauses.append((to_pause, to_resume))

    def take(self):
        if self.queue:
            return self.queue.popleft()
        if self.error is not None:
            raise self.error
        return None

    def commit(self, offsets):
        self.commits.append(offsets)

    def close(self, last_commit_s=0.0):
        self.is_closed = True
        self.last_commit_s = last_commit_s


def messages(partition, *offsets):
    return Fetched(f"{partition}", [Message(partition, offset) for offset in offsets])


def end(partition, offset):
    return Fetched(f"{partition}", [Message(partition, offset, error="_PARTITION_EOF")])


class Reading:
    def __init__(self, *fetched, splits=None, rows=1000, commits=True, schema=None):
        self.context = TestingReaderContext(max_batch_rows=rows)
        self.fetcher = FakeFetcher(*fetched)
        deserializer = KafkaRecordDeserializationSchema.value_only(schema or SimpleStringSchema())
        metrics = KafkaReaderMetrics(self.context.metric_group)
        self.reader = KafkaSourceReader(self.context, self.fetcher, deserializer, commits, metrics)
        self.reader.add_splits([KafkaPartitionSplit(A, 0)] if splits is None else splits)
        self.reader.start()

    def batches(self, number=None):
        """Returns (split id, values) of the next `number` batches, or of all."""
        found = []
        while number is None or len(found) < number:
            polled = self.reader.poll_batch()
            if isinstance(polled, ReaderStatus):
                self.status = polled
                break
            found.append((self.reader.current_split_id, polled.values))
        return found

    def positions(self, checkpoint_id=1):
        return {split.split_id: split.starting_offset for split in self.reader.snapshot_state(checkpoint_id)}


def test_batch_holds_records_of_one_partition_and_names_it():
    splits = [KafkaPartitionSplit(A, 0), KafkaPartitionSplit(B, 5)]
    reading = Reading(messages(A, 0, 1), messages(B, 5), messages(A, 2), splits=splits)
    assert reading.fetcher.added == splits
    assert reading.batches() == [("t-0", ["0:0", "0:1"]), ("t-1", ["1:5"]), ("t-0", ["0:2"])]
    assert reading.status is ReaderStatus.NOTHING_AVAILABLE
    assert reading.positions() == {"t-0": 3, "t-1": 6}


@pytest.mark.parametrize("rows", [1, 2, 3, 100])
def test_records_and_positions_do_not_depend_on_the_batch_size(rows):
    reading = Reading(messages(A, 3, 4, 7, 8), messages(A, 9, 20), rows=rows)
    given = []
    positions = [3]
    while (polled := reading.batches(1)) != []:
        assert len(polled[0][1]) <= rows
        given += polled[0][1]
        positions.append(reading.positions()["t-0"])
    assert given == ["0:3", "0:4", "0:7", "0:8", "0:9", "0:20"]
    assert positions == sorted(positions) and positions[-1] == 21


def test_records_have_the_timestamps_of_kafka():
    reading = Reading(messages(A, 1, 2))
    assert reading.reader.poll_batch().timestamps.tolist() == [10, 20]


def test_split_ends_before_its_stopping_offset():
    split = KafkaPartitionSplit(A, 0, 5)
    reading = Reading(messages(A, 0, 3, 4, 5, 6), messages(A, 7), splits=[split], rows=2)
    reading.reader.notify_no_more_splits()
    assert reading.batches() == [("t-0", ["0:0", "0:3"]), ("t-0", ["0:4"])]
    assert reading.status is ReaderStatus.END_OF_INPUT
    assert reading.context.finished_splits == ["t-0"] and reading.fetcher.ended == ["t-0"]
    assert reading.positions() == {}


@pytest.mark.parametrize(
    "last", [[messages(A, 0, 1), end(A, 5)], [messages(A, 0, 1, 9)], [messages(A, 0, 1), end(A, 9)]]
)
def test_split_ends_if_the_last_offsets_hold_no_records(last):
    """Transaction markers, aborted records and compacted records leave gaps."""
    reading = Reading(*last, splits=[KafkaPartitionSplit(A, 0, 5)])
    reading.reader.notify_no_more_splits()
    assert reading.batches() == [("t-0", ["0:0", "0:1"])]
    assert reading.status is ReaderStatus.END_OF_INPUT


def test_empty_split_finishes_at_once():
    reading = Reading(splits=[KafkaPartitionSplit(A, 5, 5), KafkaPartitionSplit(B, 0, 0)])
    assert reading.context.finished_splits == ["t-0", "t-1"] and reading.fetcher.added == []
    assert reading.batches() == [] and reading.status is ReaderStatus.NOTHING_AVAILABLE
    reading.reader.notify_no_more_splits()
    assert reading.batches() == [] and reading.status is ReaderStatus.END_OF_INPUT


def test_end_of_a_partition_becomes_the_position():
    reading = Reading(messages(A, 0), end(A, 4))
    reading.batches()
    assert reading.positions() == {"t-0": 4}, "a restored reader does not read the markers again"


def test_messages_without_a_value_advance_the_position():
    reading = Reading(Fetched("t-0", [Message(A, 0), Message(A, 1, None), Message(A, 2)]), rows=1)
    assert reading.batches() == [("t-0", ["0:0"]), ("t-0", ["0:2"])]
    reading = Reading(Fetched("t-0", [Message(A, 0, None)]))
    assert reading.batches() == []
    assert reading.positions() == {"t-0": 1}


def test_paused_split_returns_nothing_until_it_resumes_and_then_everything():
    splits = [KafkaPartitionSplit(A, 0), KafkaPartitionSplit(B, 0)]
    reading = Reading(messages(A, 0, 1, 2), messages(B, 0), messages(A, 3), splits=splits, rows=1)
    assert reading.batches(1) == [("t-0", ["0:0"])]
    reading.reader.pause_or_resume_splits(["t-0"], [])
    assert reading.batches() == [("t-1", ["1:0"])]
    assert reading.positions() == {"t-0": 1, "t-1": 1}, "messages that are held back do not count"
    reading.fetcher.queue.append(messages(A, 4))
    reading.fetcher.queue.append(messages(B, 1))
    assert reading.batches() == [("t-1", ["1:1"])]
    reading.reader.pause_or_resume_splits([], ["t-0"])
    reading.fetcher.queue.append(messages(A, 5))
    assert [value for _, [value] in reading.batches()] == ["0:1", "0:2", "0:3", "0:4", "0:5"]
    assert reading.fetcher.pauses == [(["t-0"], []), ([], ["t-0"])]
    reading.reader.pause_or_resume_splits(["t-9"], ["t-8"])
    assert reading.fetcher.pauses[-1] == ([], []), "splits that have ended are ignored"


def test_reader_commits_offsets_of_completed_checkpoints_only():
    splits = [KafkaPartitionSplit(A, 0, 2), KafkaPartitionSplit(B, 0)]
    reading = Reading(messages(A, 0, 1), splits=splits)
    reading.batches()
    reading.reader.snapshot_state(1)
    reading.fetcher.queue.append(messages(B, 0, 1))
    reading.batches()
    reading.reader.snapshot_state(2)
    reading.reader.snapshot_state(3)
    reading.reader.notify_checkpoint_complete(2)
    assert reading.fetcher.commits == [{A: 2, B: 2}], "including the finished split"
    reading.reader.notify_checkpoint_complete(1)
    assert len(reading.fetcher.commits) == 1
    silent = Reading(messages(A, 0), commits=False)
    silent.batches()
    silent.reader.snapshot_state(1)
    silent.reader.notify_checkpoint_complete(1)
    assert silent.fetcher.commits == []


def test_error_of_the_fetcher_follows_the_fetched_messages():
    reading = Reading(messages(A, 0))
    reading.fetcher.error = KafkaError("gone")
    assert reading.batches(1) == [("t-0", ["0:0"])]
    with pytest.raises(KafkaError, match="gone"):
        reading.batches()
    reading.reader.close()
    assert reading.fetcher.is_closed and reading.fetcher.last_commit_s == 0


def test_only_a_finished_reader_waits_for_its_last_commit():
    reading = Reading(messages(A, 0, 1), splits=[KafkaPartitionSplit(A, 0, 2)])
    reading.batches()
    reading.reader.notify_no_more_splits()
    reading.reader.close()
    assert reading.fetcher.last_commit_s == LAST_COMMIT_S
    cancelled = Reading(messages(A, 0), splits=[KafkaPartitionSplit(A, 0, 2)])
    cancelled.batches()
    cancelled.reader.notify_no_more_splits()
    cancelled.reader.close()
    assert cancelled.fetcher.last_commit_s == 0


def test_splits_are_stored_and_assigned_as_in_flink():
    serializer = KafkaPartitionSplitSerializer()
    for split in (KafkaPartitionSplit(A, 7), KafkaPartitionSplit(KafkaTopicPartition("ü", 3), 0, 9)):
        assert serializer.deserialize(1, serializer.serialize(split)) == split
    assert replace(split, stopping_offset=1).has_end
    # "hello".hashCode() and "topic".hashCode() of Java
    assert (java_hash("hello"), java_hash("topic"), java_hash("")) == (99162322, 110546223, 0)
    assert java_hash("orders-of-the-year") == java_reference("orders-of-the-year")
    owners = [split_owner(KafkaPartitionSplit(KafkaTopicPartition("topic", number), 0), 3) for number in range(6)]
    start = (110546223 * 31 & 0x7FFFFFFF) % 3
    assert owners == [(start + number) % 3 for number in range(6)]


def java_reference(text):
    return sum(ord(character) * 31 ** (len(text) - 1 - index) for index, character in enumerate(text)) % 2**32
