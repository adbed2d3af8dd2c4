"""KafkaSourceReader: emits the records of its partitions and tracks its position in each.

Every batch holds records of a single partition. All records before the position of a partition have been emitted, so a
checkpoint consists of the positions. The offsets that are committed to the consumer group only serve other programs.

DynamicKafkaSourceReader runs one KafkaSourceReader per cluster.

Source: org.apache.flink.connector.kafka.source.reader.KafkaSourceReader,
org.apache.flink.connector.kafka.dynamic.source.reader.DynamicKafkaSourceReader.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from flinkpy.connector_api.source import ReaderStatus, SourceReader, SourceReaderContext
from flinkpy.connectors.kafka.enumerator import MetadataUpdate
from flinkpy.connectors.kafka.fetcher import LAST_COMMIT_S, KafkaFetcher, KafkaReaderMetrics
from flinkpy.connectors.kafka.partitions import KafkaPartitionSplit, KafkaTopicPartition
from flinkpy.connectors.kafka.serialization import KafkaRecordDeserializationSchema
from flinkpy.connectors.kafka.subscriber import ClusterMetadata
from flinkpy.connectors.source_reader_base import SourceReaderBase

if TYPE_CHECKING:
    from flinkpy.records.batch import Batch


class KafkaSourceReader(SourceReaderBase):
    """Reads partitions of one cluster.

    Thread: task thread.

    Args:
        commits_offsets: commit the positions of each completed checkpoint to the consumer group.
    """

    _fetcher: KafkaFetcher

    def __init__(
        self,
        context: SourceReaderContext,
        fetcher: KafkaFetcher,
        deserializer: KafkaRecordDeserializationSchema,
        commits_offsets: bool,
        metrics: KafkaReaderMetrics,
    ) -> None:
        super().__init__(context, fetcher, deserializer)
        self._commits_offsets = commits_offsets
        self._metrics = metrics
        #: The positions in each checkpoint that is not complete, by checkpoint id, including finished splits.
        self._to_commit: dict[int, dict[KafkaTopicPartition, int]] = {}
        self._finished: dict[KafkaTopicPartition, int] = {}

    def add_splits(self, splits: list[KafkaPartitionSplit]) -> None:
        for split in splits:
            self._metrics.on_position(split.partition, split.starting_offset)
            if split.has_end and split.starting_offset >= split.stopping_offset:
                self._context.split_finished(split.split_id)
                continue
            self._splits[split.split_id] = split
            self._fetcher.add(split)
        self._context.notify_available()

    def _read(self, split: KafkaPartitionSplit, messages: list[Any]) -> Batch | None:
        last = messages[-1]
        if last.error() is not None:
            # Transaction markers and aborted records are not delivered, so the end may lie behind the last record.
            self._advance(split, last.offset())
            return None
        position = last.offset() + 1
        if split.has_end and position > split.stopping_offset:
            messages = messages[: bisect_left(messages, split.stopping_offset, key=_offset)]
            position = split.stopping_offset
        batch = self._decode(messages) if messages else None
        self._advance(split, position)
        return batch

    def _decode(self, messages: list[Any]) -> Batch | None:
        times = np.fromiter((message.timestamp()[1] for message in messages), np.int64, len(messages))
        batch = self._batch_of(self._schema.decode(messages), times)
        if batch is not None and not self._schema.has_timestamps:
            batch.timestamps = None
        return batch

    def _advance(self, split: KafkaPartitionSplit, position: int) -> None:
        """Sets the position: all records before it have been emitted, or are in the batch that is returned next."""
        position = max(position, split.starting_offset)
        self._metrics.on_position(split.partition, position)
        if split.has_end and position >= split.stopping_offset:
            del self._splits[split.split_id]
            self._finished[split.partition] = split.stopping_offset
            self._fetcher.end(split.split_id)
            self._context.split_finished(split.split_id)
        else:
            self._splits[split.split_id] = replace(split, starting_offset=position)

    def snapshot_state(self, checkpoint_id: int) -> list[KafkaPartitionSplit]:
        if self._commits_offsets:
            positions = {split.partition: split.starting_offset for split in self._splits.values()}
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
        # A reader that is closed before its end has failed or was cancelled. It does not wait for commits.
        self._fetcher.close(LAST_COMMIT_S if self._has_ended else 0.0)


def _offset(message: Any) -> int:
    offset: int = message.offset()
    return offset


class _ClusterContext:
    """The context of a reader of one cluster: the metrics carry the cluster id."""

    def __init__(self, context: SourceReaderContext, cluster_id: str) -> None:
        self._context = context
        self._cluster_id = cluster_id

    @property
    def metric_group(self) -> Any:
        return self._context.metric_group.add_group("kafkaCluster", self._cluster_id)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)


class DynamicKafkaSourceReader(SourceReader):
    """Runs a KafkaSourceReader for each cluster that it has splits of.

    Thread: task thread.

    Args:
        reader_on: (cluster id, the part of the streams on that cluster, context) -> a KafkaSourceReader.
    """

    names_splits = True

    def __init__(
        self, context: SourceReaderContext, reader_on: Callable[[str, ClusterMetadata, Any], SourceReader]
    ) -> None:
        self._context = context
        self._reader_on = reader_on
        #: The clusters to read; None until the enumerator has announced them. Splits wait until then.
        self._clusters: dict[str, ClusterMetadata] | None = None
        self._readers: dict[str, SourceReader] = {}
        self._waiting: list[KafkaPartitionSplit] = []
        self._no_more_splits = False

    def start(self) -> None:
        return

    def add_splits(self, splits: list[KafkaPartitionSplit]) -> None:
        self._waiting += splits
        self._start_waiting()

    def notify_no_more_splits(self) -> None:
        self._no_more_splits = True
        for reader in self._readers.values():
            reader.notify_no_more_splits()
        self._context.notify_available()

    def handle_source_event(self, event: MetadataUpdate) -> None:
        before = self._clusters or {}
        self._clusters = event.clusters
        for cluster_id, reader in list(self._readers.items()):
            if event.clusters.get(cluster_id) != before.get(cluster_id):
                # A new reader takes over the splits that are still to be read.
                self._waiting += reader.snapshot_state(0)
                del self._readers[cluster_id]
                reader.close()
        self._start_waiting()

    def pause_or_resume_splits(self, splits_to_pause: list[str], splits_to_resume: list[str]) -> None:
        # Each reader ignores the splits of the other clusters.
        for reader in self._readers.values():
            reader.pause_or_resume_splits(splits_to_pause, splits_to_resume)

    def poll_batch(self) -> Batch | ReaderStatus:
        num_ended = 0
        for cluster_id, reader in list(self._readers.items()):
            polled = reader.poll_batch()
            if not isinstance(polled, ReaderStatus):
                self.current_split_id = reader.current_split_id
                # The next poll begins with the other clusters.
                self._readers[cluster_id] = self._readers.pop(cluster_id)
                return polled
            if polled is ReaderStatus.END_OF_INPUT:
                num_ended += 1
        if self._no_more_splits and not self._waiting and num_ended == len(self._readers):
            return ReaderStatus.END_OF_INPUT
        return ReaderStatus.NOTHING_AVAILABLE

    def snapshot_state(self, checkpoint_id: int) -> list[KafkaPartitionSplit]:
        reading = [split for reader in self._readers.values() for split in reader.snapshot_state(checkpoint_id)]
        return reading + self._waiting

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        for reader in self._readers.values():
            reader.notify_checkpoint_complete(checkpoint_id)

    def close(self) -> None:
        readers, self._readers = self._readers, {}
        for reader in readers.values():
            reader.close()

    def _start_waiting(self) -> None:
        """Gives the waiting splits to the readers of their clusters. Splits that are no longer to be read end."""
        if self._clusters is None:
            return
        waiting, self._waiting = self._waiting, []
        by_cluster: dict[str, list[KafkaPartitionSplit]] = {}
        for split in waiting:
            assert split.kafka_cluster_id is not None
            metadata = self._clusters.get(split.kafka_cluster_id)
            if metadata is None or split.partition.topic not in metadata.topics:
                self._context.split_finished(split.split_id)
            else:
                by_cluster.setdefault(split.kafka_cluster_id, []).append(split)
        for cluster_id, splits in by_cluster.items():
            reader = self._readers.get(cluster_id)
            if reader is not None:
                reader.add_splits(splits)
                continue
            context = _ClusterContext(self._context, cluster_id)
            reader = self._reader_on(cluster_id, self._clusters[cluster_id], context)
            self._readers[cluster_id] = reader
            reader.add_splits(splits)
            if self._no_more_splits:
                reader.notify_no_more_splits()
            reader.start()
        self._context.notify_available()
