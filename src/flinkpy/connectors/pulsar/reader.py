"""PulsarReader: emits the messages of its partitions, and knows the last one of each.

A checkpoint has the id of the last message. Pulsar is told of it when the checkpoint is complete, so that it need not
keep what is before; a restored reader does not depend on what Pulsar was told.

Source: org.apache.flink.connector.pulsar.source.reader.PulsarSourceReader.
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from typing import Any

import numpy as np

from flinkpy.connector_api.source import ReaderStatus, SourceReader, SourceReaderContext
from flinkpy.connectors.pulsar.client import PulsarMessage
from flinkpy.connectors.pulsar.enumerator import PulsarSplit
from flinkpy.connectors.pulsar.fetcher import Fetched, PartitionFetcher
from flinkpy.connectors.pulsar.message_id import PulsarMessageId
from flinkpy.formats.bad_records import BadRecordReporter
from flinkpy.formats.schema import decode_messages, on_error_of
from flinkpy.records.batch import Batch


class PulsarReader(SourceReader):
    """Thread: task thread. The records' timestamps are the event times of the messages, or when they were published.

    Args:
        is_exclusive: messages come in order. Otherwise what was acknowledged does not come again, and the rest may.
    """

    names_splits = True

    def __init__(
        self, context: SourceReaderContext, fetcher: PartitionFetcher, schema: Any, is_exclusive: bool
    ) -> None:
        self._context = context
        self._fetcher = fetcher
        self._schema = schema
        self._is_exclusive = is_exclusive
        self._bad_records = BadRecordReporter(context, on_error_of(schema))
        self._splits: dict[str, PulsarSplit] = {}
        self._fetched: Fetched | None = None
        self._num_emitted = 0
        #: Of paused partitions: one answer each at most, as the fetcher then gets no other.
        self._held_back: dict[str, Fetched] = {}
        self._paused: set[str] = set()
        self._resumed: deque[Fetched] = deque()
        self._no_more_splits = False
        #: Read since the last checkpoint, and in each that is not complete.
        self._read: dict[str, list[PulsarMessageId]] = {}
        self._to_acknowledge: dict[int, dict[str, list[PulsarMessageId]]] = {}

    def start(self) -> None:
        self._fetcher.start()

    def add_splits(self, splits: list[PulsarSplit]) -> None:
        for split in splits:
            if split.stop.ends_with(split.read_to):
                self._context.split_finished(split.split_id)
                continue
            self._splits[split.partition] = split
            self._fetcher.add(split)
        self._context.notify_available()

    def notify_no_more_splits(self) -> None:
        self._no_more_splits = True
        self._context.notify_available()

    def pause_or_resume_splits(self, splits_to_pause: list[str], splits_to_resume: list[str]) -> None:
        self._paused.update(splits_to_pause)
        self._paused.difference_update(splits_to_resume)
        for split_id in splits_to_resume:
            held = self._held_back.pop(split_id, None)
            if held is not None:
                self._resumed.append(held)
        self._fetcher.pause_or_resume(splits_to_pause, splits_to_resume)
        if self._resumed:
            self._context.notify_available()

    def poll_batch(self) -> Batch | ReaderStatus:
        while True:
            if self._fetched is None:
                if not self._splits and self._no_more_splits:
                    return ReaderStatus.END_OF_INPUT
                self._fetched = self._resumed.popleft() if self._resumed else self._fetcher.take()
                self._num_emitted = 0
                if self._fetched is None:
                    return ReaderStatus.NOTHING_AVAILABLE
            fetched = self._fetched
            if fetched.partition in self._paused:
                self._held_back[fetched.partition] = fetched._replace(messages=fetched.messages[self._num_emitted :])
                self._fetched = None
                continue
            batch = self._next_batch(fetched)
            if batch is not None:
                return batch

    def _next_batch(self, fetched: Fetched) -> Batch | None:
        split = self._splits.get(fetched.partition)
        if split is None:
            # Of a partition that has ended: it was on its way.
            self._fetched = None
            return None
        begin = self._num_emitted
        end = self._num_emitted = min(begin + self._context.max_batch_rows, len(fetched.messages))
        messages = fetched.messages[begin:end]
        if end == len(fetched.messages):
            self._fetched = None
            self._fetcher.done_with(split.partition)
        wanted, is_end = self._wanted(split, messages)
        batch = self._decode(split, wanted) if wanted else None
        self.current_split_id = split.split_id
        if wanted:
            split = self._splits[split.partition] = replace(split, read_to=wanted[-1].message_id)
        read = self._read.setdefault(split.partition, [])
        if self._is_exclusive:
            read[:] = [split.read_to] if split.read_to is not None else []
        else:
            read += [message.message_id for message in (wanted if is_end else messages)]
        if is_end:
            self._finish(split)
        return batch

    def _wanted(self, split: PulsarSplit, messages: list[PulsarMessage]) -> tuple[list[PulsarMessage], bool]:
        """Those that have not been read and are not behind the end; and whether that has come."""
        wanted: list[PulsarMessage] = []
        for message in messages:
            if self._was_read(split, message):
                continue
            if split.stop.is_behind(message):
                return wanted, True
            wanted.append(message)
            if split.stop.ends_with(message.message_id):
                return wanted, True
        return wanted, False

    def _was_read(self, split: PulsarSplit, message: PulsarMessage) -> bool:
        message_id = message.message_id[:3]
        if split.read_to is not None:
            return self._is_exclusive and message_id <= split.read_to[:3]
        start = split.start.message_id
        if start is None:
            return False
        return message_id < start[:3] or (message_id == start[:3] and not split.start.is_inclusive)

    def _decode(self, split: PulsarSplit, messages: list[PulsarMessage]) -> Batch | None:
        batch, positions, bad = decode_messages(
            self._schema,
            [message.data for message in messages],
            lambda index: f"Pulsar partition {split.partition}, message {messages[index].message_id[:3]}",
        )
        self._bad_records.report(bad)
        if not batch.num_rows:
            return None
        times = np.array([message.event_time or message.publish_time for message in messages], np.int64)
        batch.timestamps = times[positions]
        return batch

    def _finish(self, split: PulsarSplit) -> None:
        del self._splits[split.partition]
        self._fetcher.end(split.partition)
        self._context.split_finished(split.split_id)

    def snapshot_state(self, checkpoint_id: int) -> list[PulsarSplit]:
        self._to_acknowledge[checkpoint_id], self._read = self._read, {}
        return list(self._splits.values())

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Also of those before it, which may have been aborted."""
        for known in sorted(known for known in self._to_acknowledge if known <= checkpoint_id):
            for partition, message_ids in self._to_acknowledge.pop(known).items():
                if message_ids:
                    self._fetcher.acknowledge(partition, message_ids)

    def close(self) -> None:
        self._fetched = None
        self._fetcher.close()
