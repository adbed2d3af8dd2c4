"""PulsarReader: emits the messages of its partitions, and keeps the id of the last message of each.

A checkpoint contains the id of the last message that was emitted. When the checkpoint is complete, the reader
acknowledges the messages, so that Pulsar can delete them. A restored reader does not depend on acknowledgements.

Source: org.apache.flink.connector.pulsar.source.reader.PulsarSourceReader.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from flinkpy.connector_api.source import SourceReaderContext
from flinkpy.connectors.pulsar.client import PulsarMessage
from flinkpy.connectors.pulsar.enumerator import PulsarSplit
from flinkpy.connectors.pulsar.fetcher import PartitionFetcher
from flinkpy.connectors.pulsar.message_id import PulsarMessageId
from flinkpy.connectors.source_reader_base import SourceReaderBase
from flinkpy.formats.schema import decode_messages
from flinkpy.records.batch import Batch


class PulsarReader(SourceReaderBase):
    """The timestamp of a record is the event time of its message, or the publish time if there is none.

    Thread: task thread.

    Args:
        is_exclusive: True if the messages of a partition come in order. If False, acknowledged messages do not come
            again after a failure, and the others may.
    """

    _fetcher: PartitionFetcher

    def __init__(
        self, context: SourceReaderContext, fetcher: PartitionFetcher, schema: Any, is_exclusive: bool
    ) -> None:
        super().__init__(context, fetcher, schema)
        self._is_exclusive = is_exclusive
        #: Ids to acknowledge: those read since the last checkpoint, and those of each checkpoint not completed yet.
        self._read_ids: dict[str, list[PulsarMessageId]] = {}
        self._to_acknowledge: dict[int, dict[str, list[PulsarMessageId]]] = {}

    def add_splits(self, splits: list[PulsarSplit]) -> None:
        for split in splits:
            if split.stop.ends_with(split.read_to):
                self._context.split_finished(split.split_id)
                continue
            self._splits[split.split_id] = split
            self._fetcher.add(split)
        self._context.notify_available()

    def _read(self, split: PulsarSplit, messages: list[PulsarMessage]) -> Batch | None:
        new, is_end = self._new_messages(split, messages)
        batch = self._decode(split, new) if new else None
        if new:
            split = self._splits[split.split_id] = replace(split, read_to=new[-1].message_id)
        read = self._read_ids.setdefault(split.partition, [])
        if self._is_exclusive:
            read[:] = [split.read_to] if split.read_to is not None else []
        else:
            read += [message.message_id for message in (new if is_end else messages)]
        if is_end:
            del self._splits[split.split_id]
            self._fetcher.end(split.split_id)
            self._context.split_finished(split.split_id)
        return batch

    def _new_messages(self, split: PulsarSplit, messages: list[PulsarMessage]) -> tuple[list[PulsarMessage], bool]:
        """Returns the messages that were not read before and lie before the stop, and True if the stop is reached."""
        new: list[PulsarMessage] = []
        for message in messages:
            if self._was_read(split, message):
                continue
            if split.stop.is_behind(message):
                return new, True
            new.append(message)
            if split.stop.ends_with(message.message_id):
                return new, True
        return new, False

    def _was_read(self, split: PulsarSplit, message: PulsarMessage) -> bool:
        message_id = message.message_id[:3]
        if split.read_to is not None:
            return self._is_exclusive and message_id <= split.read_to[:3]
        start = split.start.message_id
        if start is None:
            return False
        return message_id < start[:3] or (message_id == start[:3] and not split.start.is_inclusive)

    def _decode(self, split: PulsarSplit, messages: list[PulsarMessage]) -> Batch | None:
        decoded = decode_messages(
            self._schema,
            [message.data for message in messages],
            lambda index: f"Pulsar partition {split.partition}, message {messages[index].message_id[:3]}",
        )
        return self._batch_of(decoded, [message.event_time or message.publish_time for message in messages])

    def snapshot_state(self, checkpoint_id: int) -> list[PulsarSplit]:
        self._to_acknowledge[checkpoint_id], self._read_ids = self._read_ids, {}
        return list(self._splits.values())

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Acknowledges the messages of this checkpoint and of earlier ones, which may have been aborted."""
        for known in sorted(known for known in self._to_acknowledge if known <= checkpoint_id):
            for partition, message_ids in self._to_acknowledge.pop(known).items():
                if message_ids:
                    self._fetcher.acknowledge(partition, message_ids)
