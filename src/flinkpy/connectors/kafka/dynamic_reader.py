"""DynamicKafkaSourceReader: a KafkaSourceReader for each cluster that has a split here.

Source: org.apache.flink.connector.kafka.dynamic.source.reader.DynamicKafkaSourceReader.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from flinkpy.connector_api.source import ReaderStatus, SourceReader, SourceReaderContext
from flinkpy.connectors.kafka.dynamic_enumerator import DynamicKafkaSourceSplit, MetadataUpdate
from flinkpy.connectors.kafka.stream_metadata import ClusterMetadata

if TYPE_CHECKING:
    from flinkpy.records.batch import Batch


class _ClusterContext:
    """A cluster's reader's view of its task: split ids have the cluster's before them."""

    def __init__(self, context: SourceReaderContext, cluster_id: str) -> None:
        self._context = context
        self._cluster_id = cluster_id

    @property
    def metric_group(self) -> Any:
        return self._context.metric_group.add_group("kafkaCluster", self._cluster_id)

    def split_finished(self, split_id: str) -> None:
        self._context.split_finished(f"{self._cluster_id}-{split_id}")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)


class DynamicKafkaSourceReader(SourceReader):
    """Thread: task thread.

    Args:
        reader_on: (cluster id, what is there, context) -> its KafkaSourceReader.
    """

    names_splits = True

    def __init__(
        self, context: SourceReaderContext, reader_on: Callable[[str, ClusterMetadata, Any], SourceReader]
    ) -> None:
        self._context = context
        self._reader_on = reader_on
        #: None: nothing was told yet, and splits wait.
        self._clusters: dict[str, ClusterMetadata] | None = None
        self._readers: dict[str, SourceReader] = {}
        self._waiting: list[DynamicKafkaSourceSplit] = []
        self._no_more_splits = False

    def start(self) -> None:
        return

    def add_splits(self, splits: list[DynamicKafkaSourceSplit]) -> None:
        self._waiting += splits
        self._start_waiting()

    def notify_no_more_splits(self) -> None:
        self._no_more_splits = True
        for reader in self._readers.values():
            reader.notify_no_more_splits()
        self._context.notify_available()

    def handle_source_event(self, event: MetadataUpdate) -> None:
        before, self._clusters = self._clusters or {}, event.clusters
        for cluster_id, reader in list(self._readers.items()):
            if event.clusters.get(cluster_id) != before.get(cluster_id):
                # Begun anew with what it has, of what it is still to read.
                self._waiting += [DynamicKafkaSourceSplit(cluster_id, split) for split in reader.snapshot_state(0)]
                del self._readers[cluster_id]
                reader.close()
        self._start_waiting()

    def pause_or_resume_splits(self, splits_to_pause: list[str], splits_to_resume: list[str]) -> None:
        for cluster_id, reader in self._readers.items():
            reader.pause_or_resume_splits(_without(splits_to_pause, cluster_id), _without(splits_to_resume, cluster_id))

    def poll_batch(self) -> Batch | ReaderStatus:
        ended = 0
        for cluster_id, reader in list(self._readers.items()):
            polled = reader.poll_batch()
            if not isinstance(polled, ReaderStatus):
                self.current_split_id = f"{cluster_id}-{reader.current_split_id}"
                # The others have their turn first.
                self._readers[cluster_id] = self._readers.pop(cluster_id)
                return polled
            ended += polled is ReaderStatus.END_OF_INPUT
        if self._no_more_splits and not self._waiting and ended == len(self._readers):
            return ReaderStatus.END_OF_INPUT
        return ReaderStatus.NOTHING_AVAILABLE

    def snapshot_state(self, checkpoint_id: int) -> list[DynamicKafkaSourceSplit]:
        reading = [
            DynamicKafkaSourceSplit(cluster_id, split)
            for cluster_id, reader in self._readers.items()
            for split in reader.snapshot_state(checkpoint_id)
        ]
        return reading + self._waiting

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        for reader in self._readers.values():
            reader.notify_checkpoint_complete(checkpoint_id)

    def close(self) -> None:
        readers, self._readers = self._readers, {}
        for reader in readers.values():
            reader.close()

    def _start_waiting(self) -> None:
        """Give the splits that wait to the readers of their clusters; those that are no more to be read end."""
        if self._clusters is None:
            return
        waiting, self._waiting = self._waiting, []
        by_cluster: dict[str, list[Any]] = {}
        for split in waiting:
            metadata = self._clusters.get(split.kafka_cluster_id)
            if metadata is None or split.split.partition.topic not in metadata.topics:
                self._context.split_finished(split.split_id)
            else:
                by_cluster.setdefault(split.kafka_cluster_id, []).append(replace(split.split))
        for cluster_id, splits in by_cluster.items():
            reader = self._readers.get(cluster_id)
            if reader is None:
                context = _ClusterContext(self._context, cluster_id)
                reader = self._readers[cluster_id] = self._reader_on(cluster_id, self._clusters[cluster_id], context)
                reader.add_splits(splits)
                if self._no_more_splits:
                    reader.notify_no_more_splits()
                reader.start()
            else:
                reader.add_splits(splits)
        self._context.notify_available()


def _without(split_ids: list[str], cluster_id: str) -> list[str]:
    """Those of the cluster, as its reader knows them."""
    return [split_id[len(cluster_id) + 1 :] for split_id in split_ids if split_id.startswith(f"{cluster_id}-")]
