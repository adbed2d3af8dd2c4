"""KafkaSourceReader: emits the records of its partitions, and knows how far it has come in each.

A batch has records of one partition. What has been emitted of a partition is everything before its position, so a
checkpoint is the positions; offsets that the consumer group is told of are only for others to see.

Source: org.apache.flink.connector.kafka.source.reader.KafkaSourceReader.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from flinkpy.connector_api.source import ReaderStatus, SourceReader, SourceReaderContext
from flinkpy.connectors.kafka.deserialization import KafkaRecordDeserializationSchema
from flinkpy.connectors.kafka.fetcher import LAST_COMMIT_S, Fetched, KafkaFetcher
from flinkpy.connectors.kafka.partitions import KafkaPartitionSplit, KafkaTopicPartition
from flinkpy.connectors.kafka.reader_metrics import KafkaReaderMetrics
from flinkpy.formats.bad_records import BadRecordReporter

if TYPE_CHECKING:
    from flinkpy.records.batch import Batch


class KafkaSourceReader(SourceReader):
    """Thread: task thread.

    Args:
        commits_offsets: tell the consumer group of each completed checkpoint.
    """

    names_splits = True

    def __init__(
        self,
        context: SourceReaderContext,
        fetcher: KafkaFetcher,
        deserializer: KafkaRecordDeserializationSchema,
        commits_offsets: bool,
        metrics: KafkaReaderMetrics,
    ) -> None:
        self._context = context
        self._fetcher = fetcher
        self._deserializer = deserializer
        self._commits_offsets = commits_offsets
        self._metrics = metrics
        self._bad_records = BadRecordReporter(context, deserializer.on_error)
        #: Those not finished; `starting_offset` is the position.
        self._splits: dict[KafkaTopicPartition, KafkaPartitionSplit] = {}
        #: What is being emitted, and how many of its messages have been.
        self._fetched: Fetched | None = None
        self._num_emitted = 0
        #: Of paused splits, until they are resumed; then it comes before anything newer.
        self._held_back: dict[KafkaTopicPartition, deque[Fetched]] = {}
        self._resumed: deque[Fetched] = deque()
        self._no_more_splits = False
        #: Checkpoint id to the positions in it, finished splits included, until it is complete.
        self._to_commit: dict[int, dict[KafkaTopicPartition, int]] = {}
        self._finished: dict[KafkaTopicPartition, int] = {}

    def start(self) -> None:
        self._fetcher.start()

    def add_splits(self, splits: list[KafkaPartitionSplit]) -> None:
        reading = {}
        for split in splits:
            self._metrics.on_position(split.partition, split.starting_offset)
            if split.has_end and split.starting_offset >= split.stopping_offset:
                self._context.split_finished(split.split_id)
                continue
            self._splits[split.partition] = split
            reading[split.partition] = split.starting_offset
        if reading:
            self._fetcher.assign(reading)
        self._context.notify_available()

    def notify_no_more_splits(self) -> None:
        self._no_more_splits = True
        self._context.notify_available()

    def pause_or_resume_splits(self, splits_to_pause: list[str], splits_to_resume: list[str]) -> None:
        by_id = {split.split_id: key for key, split in self._splits.items()}
        to_pause = [by_id[split_id] for split_id in splits_to_pause if split_id in by_id]
        to_resume = [by_id[split_id] for split_id in splits_to_resume if split_id in by_id]
        for key in to_pause:
            self._held_back.setdefault(key, deque())
        for key in to_resume:
            self._resumed.extend(self._held_back.pop(key, ()))
        self._fetcher.pause_or_resume(to_pause, to_resume)
        if self._resumed:
            self._context.notify_available()

    def poll_batch(self) -> Batch | ReaderStatus:
        while True:
            if self._fetched is None:
                if self._has_ended:
                    return ReaderStatus.END_OF_INPUT
                self._fetched = self._resumed.popleft() if self._resumed else self._fetcher.take()
                self._num_emitted = 0
                if self._fetched is None:
                    return ReaderStatus.NOTHING_AVAILABLE
            fetched = self._fetched
            held_back = self._held_back.get(fetched.partition)
            if held_back is not None:
                held_back.append(fetched._replace(messages=fetched.messages[self._num_emitted :]))
                self._fetched = None
                continue
            batch = self._next_batch(fetched)
            if batch is not None:
                return batch

    def _next_batch(self, fetched: Fetched) -> Batch | None:
        """Of what was fetched; None: it gave no record, or it is used up."""
        split = self._splits.get(fetched.partition)
        if split is None:
            # Of a split that has ended: it was on its way.
            self._fetched = None
            return None
        self._metrics.on_end_offset(fetched.partition, fetched.high_watermark)
        if fetched.end_offset is not None:
            # Transaction markers and aborted records are not given, so an end may lie behind the last record.
            self._advance(split, fetched.end_offset)
            self._fetched = None
            return None
        messages = fetched.messages
        begin = self._num_emitted
        end = min(begin + self._context.max_batch_rows, len(messages))
        behind = messages[end - 1].offset() + 1
        if split.has_end and behind > split.stopping_offset:
            end = bisect_left(messages, split.stopping_offset, begin, end, key=_offset)
            behind = split.stopping_offset
        self._num_emitted = end
        if end == len(messages):
            self._fetched = None
        batch = self._decode(messages[begin:end])
        self.current_split_id = split.split_id
        self._advance(split, behind)
        return batch

    def _decode(self, messages: list[Any]) -> Batch | None:
        if not messages:
            return None
        batch, positions, bad = self._deserializer.decode(messages)
        self._bad_records.report(bad)
        if not batch.num_rows:
            return None
        times = np.fromiter((message.timestamp()[1] for message in messages), np.int64, len(messages))
        batch.timestamps = times if len(positions) == len(times) else times[positions]
        return batch

    def _advance(self, split: KafkaPartitionSplit, position: int) -> None:
        """All before `position` has been emitted, or is in the batch that is about to be."""
        position = max(position, split.starting_offset)
        self._metrics.on_position(split.partition, position)
        if split.has_end and position >= split.stopping_offset:
            del self._splits[split.partition]
            self._finished[split.partition] = split.stopping_offset
            self._fetcher.unassign(split.partition)
            self._context.split_finished(split.split_id)
        else:
            self._splits[split.partition] = replace(split, starting_offset=position)

    def snapshot_state(self, checkpoint_id: int) -> list[KafkaPartitionSplit]:
        if self._commits_offsets:
            positions = {key: split.starting_offset for key, split in self._splits.items()}
            self._to_commit[checkpoint_id] = self._finished | positions
        return list(self._splits.values())

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        offsets = self._to_commit.pop(checkpoint_id, {})
        for older in [known for known in self._to_commit if known < checkpoint_id]:
            del self._to_commit[older]
        if offsets:
            self._fetcher.commit(offsets)

    def close(self) -> None:
        self._fetched = None
        # A reader that ends before has failed or was cancelled. It ends at once.
        self._fetcher.close(LAST_COMMIT_S if self._has_ended else 0.0)

    @property
    def _has_ended(self) -> bool:
        return self._no_more_splits and not self._splits


def _offset(message: Any) -> int:
    offset: int = message.offset()
    return offset
