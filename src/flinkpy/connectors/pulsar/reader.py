"""PulsarReader and its PartitionFetcher: receive and emit the messages of a subtask's partitions.

A checkpoint contains the id of the last message that was emitted. When the checkpoint is complete, the reader
acknowledges the messages, so that Pulsar can delete them. A restored reader does not depend on acknowledgements.

Source: org.apache.flink.connector.pulsar.source.reader.{PulsarSourceReader,PulsarPartitionSplitReader}.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from flinkpy.connector_api.source import SourceReaderContext
from flinkpy.connectors.pulsar.client import PulsarConnection, PulsarMessage
from flinkpy.connectors.pulsar.enumerator import PulsarSplit
from flinkpy.connectors.pulsar.message_id import PulsarMessageId
from flinkpy.connectors.source_reader_base import SourceReaderBase, SplitFetcher, SplitState
from flinkpy.formats.schema import decode_messages
from flinkpy.records.batch import Batch


class _Partition(SplitState):
    def __init__(self, split: PulsarSplit) -> None:
        super().__init__(split)
        self.is_ended = False
        self.to_acknowledge: list[PulsarMessageId] = []

    @property
    def may_fetch(self) -> bool:
        return super().may_fetch and not self.is_ended


class PartitionFetcher(SplitFetcher[_Partition]):
    """Receives the messages of each partition in a separate thread, which alone uses the subscription.

    Thread: public methods are called by the task thread.
    """

    def __init__(
        self,
        make_connection: Callable[[Mapping[str, str]], PulsarConnection],
        properties: Mapping[str, str],
        ranges: tuple[tuple[int, int], ...],
        notify: Callable[[], None],
    ) -> None:
        super().__init__("Pulsar", notify)
        self._make_connection = make_connection
        self._properties = properties
        self._ranges = ranges
        self._connection: PulsarConnection | None = None

    def start(self) -> None:
        """Raises: PulsarError; UnsupportedOperationError if the client is not installed."""
        self._connection = self._make_connection(self._properties)
        for partition in self._splits.values():
            self._begin(partition)

    def add(self, split: PulsarSplit) -> None:
        partition = self._splits[split.split_id] = _Partition(split)
        if self._connection is not None:
            self._begin(partition)

    def end(self, split_id: str) -> None:
        """Stops receiving messages of a partition. Messages can still be acknowledged."""
        with self._lock:
            self._splits[split_id].is_ended = True
            self._lock.notify_all()

    def acknowledge(self, split_id: str, message_ids: list[PulsarMessageId]) -> None:
        """Acknowledges messages asynchronously; in an exclusive subscription, all messages up to the last id."""
        with self._lock:
            self._splits[split_id].to_acknowledge += message_ids
            self._lock.notify_all()

    def close(self, extra_s: float = 0.0) -> None:
        super().close(extra_s)
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _begin(self, partition: _Partition) -> None:
        assert self._connection is not None
        name = f"pulsar {partition.split.partition}"
        self._start_thread(name, self._receive_all, self._connection, partition)

    # -- the threads ---------------------------------------------------------------------------------------------

    def _receive_all(self, connection: PulsarConnection, partition: _Partition) -> None:
        split = partition.split
        subscription = connection.subscribe(split.partition, self._ranges, split.read_to)
        is_exclusive = not self._ranges
        try:
            while True:
                with self._lock:
                    while not (self._closed.is_set() or partition.to_acknowledge or partition.may_fetch):
                        self._lock.wait()
                    to_acknowledge, partition.to_acknowledge = partition.to_acknowledge, []
                    may_receive = partition.may_fetch
                    is_closed = self._closed.is_set()
                if to_acknowledge:
                    subscription.acknowledge(to_acknowledge[-1:] if is_exclusive else to_acknowledge, is_exclusive)
                if is_closed:
                    return
                if may_receive:
                    messages = subscription.receive()
                    if messages:
                        self._put(partition, messages)
        finally:
            subscription.close()


class PulsarReader(SourceReaderBase):
    """Emits messages, and keeps the id of the last message of each partition.

    The timestamp of a record is the event time of its message, or the publish time if there is none.

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
