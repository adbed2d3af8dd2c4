"""KinesisReader: emits the records of its shards, and keeps the last sequence number of each.

Source: org.apache.flink.connector.kinesis.source.reader.KinesisStreamsSourceReader.
"""

from __future__ import annotations

import datetime
from dataclasses import replace
from typing import Any

from flinkpy.connector_api.source import SourceReaderContext
from flinkpy.connectors.kinesis.deserialization import decode
from flinkpy.connectors.kinesis.enumerator import FinishKept, ShardsFinished
from flinkpy.connectors.kinesis.fetcher import ShardFetcher
from flinkpy.connectors.kinesis.shards import KinesisShardSplit, Position
from flinkpy.connectors.source_reader_base import SourceReaderBase
from flinkpy.records.batch import Batch

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MS = datetime.timedelta(milliseconds=1)


class KinesisReader(SourceReaderBase):
    """The timestamp of a record is its arrival at Kinesis. Thread: task thread."""

    def __init__(self, context: SourceReaderContext, fetcher: ShardFetcher, schema: Any) -> None:
        super().__init__(context, fetcher, schema)
        #: Finished shards that no completed checkpoint of the enumerator has yet.
        self._finished: dict[str, KinesisShardSplit] = {}

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

    def handle_source_event(self, event: Any) -> None:
        assert isinstance(event, FinishKept)
        for split_id in event.split_ids:
            self._finished.pop(split_id, None)

    def _read(self, split: KinesisShardSplit, records: list[dict[str, Any]]) -> Batch | None:
        times = [(record["ApproximateArrivalTimestamp"] - _EPOCH) // _MS for record in records]
        batch = self._batch_of(decode(self._schema, split.shard, records, times), times)
        position = Position("AFTER_SEQUENCE_NUMBER", sequence_number=records[-1]["SequenceNumber"])
        self._splits[split.split_id] = replace(split, position=position)
        return batch

    def _on_end(self, split: KinesisShardSplit) -> None:
        del self._splits[split.split_id]
        self._finished[split.split_id] = replace(split, is_finished=True)
        self._context.split_finished(split.split_id)
        self._context.send_source_event(ShardsFinished((split.split_id,)))

    def snapshot_state(self, checkpoint_id: int) -> list[KinesisShardSplit]:
        return [*self._splits.values(), *self._finished.values()]
