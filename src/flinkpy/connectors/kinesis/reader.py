"""KinesisReader: emits the records of its shards, and knows the last sequence number of each.

Source: org.apache.flink.connector.kinesis.source.reader.KinesisStreamsSourceReader.
"""

from __future__ import annotations

import datetime
from collections import deque
from dataclasses import replace
from typing import Any

import numpy as np

from flinkpy.connector_api.source import ReaderStatus, SourceReader, SourceReaderContext
from flinkpy.connectors.kinesis.deserialization import decode
from flinkpy.connectors.kinesis.enumerator import FinishKept, ShardsFinished
from flinkpy.connectors.kinesis.fetcher import Fetched, ShardFetcher
from flinkpy.connectors.kinesis.shards import KinesisShardSplit, Position
from flinkpy.formats.bad_records import BadRecordReporter
from flinkpy.formats.schema import on_error_of
from flinkpy.records.batch import Batch

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MS = datetime.timedelta(milliseconds=1)


class KinesisReader(SourceReader):
    """Thread: task thread. The records' timestamps are their arrival at Kinesis."""

    names_splits = True

    def __init__(self, context: SourceReaderContext, fetcher: ShardFetcher, schema: Any) -> None:
        self._context = context
        self._fetcher = fetcher
        self._schema = schema
        self._bad_records = BadRecordReporter(context, on_error_of(schema))
        self._splits: dict[str, KinesisShardSplit] = {}
        #: Read to their end, until a checkpoint of the enumerator has it.
        self._finished: dict[str, KinesisShardSplit] = {}
        self._fetched: Fetched | None = None
        self._num_emitted = 0
        #: Of paused shards: one answer each at most, as the fetcher then gets no other.
        self._held_back: dict[str, Fetched] = {}
        self._paused: set[str] = set()
        self._resumed: deque[Fetched] = deque()

    def start(self) -> None:
        self._fetcher.start()

    def add_splits(self, splits: list[KinesisShardSplit]) -> None:
        finished = []
        for split in splits:
            if split.is_finished:
                self._finished[split.split_id] = split
                self._context.split_finished(split.split_id)
                finished.append(split.split_id)
            else:
                self._splits[split.split_id] = split
                self._fetcher.add(split)
        if finished:
            self._context.send_source_event(ShardsFinished(tuple(finished)))
        self._context.notify_available()

    def notify_no_more_splits(self) -> None:
        """There are always more: a stream has no end."""

    def handle_source_event(self, event: Any) -> None:
        assert isinstance(event, FinishKept)
        for split_id in event.split_ids:
            self._finished.pop(split_id, None)

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
                self._fetched = self._resumed.popleft() if self._resumed else self._fetcher.take()
                self._num_emitted = 0
                if self._fetched is None:
                    return ReaderStatus.NOTHING_AVAILABLE
            fetched = self._fetched
            if fetched.split_id in self._paused:
                self._held_back[fetched.split_id] = fetched._replace(records=fetched.records[self._num_emitted :])
                self._fetched = None
                continue
            batch = self._next_batch(fetched)
            if batch is not None:
                return batch

    def _next_batch(self, fetched: Fetched) -> Batch | None:
        split = self._splits[fetched.split_id]
        begin = self._num_emitted
        end = self._num_emitted = min(begin + self._context.max_batch_rows, len(fetched.records))
        records = fetched.records[begin:end]
        batch = self._decode(split, records) if records else None
        self.current_split_id = split.split_id
        if records:
            position = Position("AFTER_SEQUENCE_NUMBER", sequence_number=records[-1]["SequenceNumber"])
            self._splits[split.split_id] = replace(split, position=position)
        if end == len(fetched.records):
            self._fetched = None
            self._fetcher.done_with(split.split_id)
            if fetched.is_end:
                self._finish(split.split_id)
        return batch

    def _decode(self, split: KinesisShardSplit, records: list[dict[str, Any]]) -> Batch | None:
        times = [(record["ApproximateArrivalTimestamp"] - _EPOCH) // _MS for record in records]
        batch, positions, bad = decode(self._schema, split.shard, records, times)
        self._bad_records.report(bad)
        if not batch.num_rows:
            return None
        batch.timestamps = np.array(times, np.int64)[positions]
        return batch

    def _finish(self, split_id: str) -> None:
        self._finished[split_id] = replace(self._splits.pop(split_id), is_finished=True)
        self._context.split_finished(split_id)
        self._context.send_source_event(ShardsFinished((split_id,)))

    def snapshot_state(self, checkpoint_id: int) -> list[KinesisShardSplit]:
        return [*self._splits.values(), *self._finished.values()]

    def close(self) -> None:
        self._fetched = None
        self._fetcher.close()
