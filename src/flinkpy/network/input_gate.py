"""InputGate: where one task reads one of its inputs: one channel per producing partition, served in turn.

Channels with data stand in a line. `poll` takes one item of the first and sends the channel to the back, so each gets
its turn however much another has; a channel that is not in the line costs nothing.

A priority barrier is given before any data. Its task may be waiting for output memory and not be polling at all then,
so there is a listener of its own for it, and `poll_priority`.

Source: org.apache.flink.runtime.io.network.partition.consumer.SingleInputGate.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence

from flinkpy.common.errors import InternalError
from flinkpy.network.buffer_pool import LocalBufferPool
from flinkpy.network.credit import CreditManager, Grant
from flinkpy.network.in_flight import InFlightBatch
from flinkpy.network.input_channel import InputChannel
from flinkpy.network.priority import PriorityMarker, as_unaligned, may_overtake
from flinkpy.network.remote_input_channel import RemoteInputChannel
from flinkpy.records.batch import Batch
from flinkpy.records.elements import CheckpointBarrier, Element, EndOfPartition


def _ignore() -> None:
    return None


#: (channel, its batches in order), by channel.
Captured = list[tuple[int, list[InFlightBatch]]]


class ChannelCapture:
    """Thread: task thread.

    Args:
        open_channels: those whose barrier has not come.
        overtaken: what the barriers that have come had overtaken.
    """

    def __init__(
        self, checkpoint_id: int, open_channels: Iterable[int], overtaken: Mapping[int, list[InFlightBatch]]
    ) -> None:
        self.checkpoint_id = checkpoint_id
        self.open_channels = set(open_channels)
        self._captured: dict[int, list[InFlightBatch]] = {
            channel: list(batches) for channel, batches in overtaken.items()
        }

    def on_batch(self, channel: int, batch: InFlightBatch) -> None:
        """A batch of an open channel is about to be processed."""
        self._captured.setdefault(channel, []).append(batch)

    def on_barrier(self, channel: int, checkpoint_id: int, overtaken: Iterable[InFlightBatch] = ()) -> None:
        """A later checkpoint's barrier says as well that this one's will not come any more."""
        if checkpoint_id < self.checkpoint_id or channel not in self.open_channels:
            return
        self.open_channels.discard(channel)
        if checkpoint_id == self.checkpoint_id:
            self._captured.setdefault(channel, []).extend(overtaken)

    def on_channel_end(self, channel: int) -> None:
        self.open_channels.discard(channel)

    def result(self) -> Captured:
        return [(channel, batches) for channel, batches in sorted(self._captured.items()) if batches]


class InputGate:
    """Thread: the consumer's task thread, except where a method says "any"."""

    def __init__(
        self,
        owner: str,
        on_failure: Callable[[Exception], None],
        pool: LocalBufferPool | None = None,
        on_closed: Callable[[InputGate], None] | None = None,
    ) -> None:
        self.owner = owner
        self.channels: Sequence[InputChannel] = ()
        self.pool = pool
        self._on_failure = on_failure
        self._on_closed = on_closed
        self._listener: Callable[[], None] = _ignore
        self._lock = threading.Lock()
        self._ready: deque[InputChannel] = deque()
        self._unfinished = 0
        self._failure: Exception | None = None
        self._closed = False
        #: Barriers to be given first, with their channels.
        self._priority: deque[tuple[InputChannel, PriorityMarker]] = deque()
        self._priority_listener: Callable[[], None] = _ignore
        self._capture: ChannelCapture | None = None
        #: By checkpoint whose capture has not begun: what the barriers given so far had overtaken, by channel.
        self._overtaken: dict[int, dict[int, list[InFlightBatch]]] = {}
        #: Ordinary barriers of this checkpoint overtake what is queued as soon as they come. Read by any thread.
        self._expedited_id = -1
        #: Captures of checkpoints up to this one have ended.
        self._ended_id = -1

    def set_channels(self, channels: Sequence[InputChannel]) -> None:
        self.channels = channels
        self._unfinished = len(channels)

    @property
    def num_channels(self) -> int:
        return len(self.channels)

    @property
    def is_available(self) -> bool:
        """Whether `poll` has something to give, a failure included. Thread: any."""
        return bool(self._ready) or bool(self._priority) or self._failure is not None

    @property
    def has_priority(self) -> bool:
        """Whether `poll_priority` may have something to give. Thread: any."""
        return bool(self._priority)

    @property
    def is_capturing(self) -> bool:
        """Whether what is polled becomes part of a checkpoint."""
        return self._capture is not None

    @property
    def all_channels_finished(self) -> bool:
        return self._unfinished == 0

    @property
    def bytes_in(self) -> int:
        return sum(channel.bytes_in for channel in self.channels)

    @property
    def batches_in(self) -> int:
        return sum(channel.batches_in for channel in self.channels)

    def set_availability_listener(self, listener: Callable[[], None]) -> None:
        """Have `listener()` called, on any thread, when the gate turns from empty to not empty (or fails)."""
        self._listener = listener

    def set_priority_listener(self, listener: Callable[[], None]) -> None:
        """Have `listener()` called, on any thread, whenever a priority barrier comes."""
        self._priority_listener = listener

    def request_partitions(self) -> None:
        """Ask every producer for this gate's subpartition. Returns at once; failures come through `on_failure`."""
        for channel in self.channels:
            channel.request_subpartition()

    def poll(self) -> tuple[int, Batch | Element] | None:
        """The next batch or element and the channel it came on; None where there is nothing now.

        Raises:
            PartitionConnectionError, PartitionNotFoundError: a channel failed; what was still queued is not
            delivered.
        """
        while True:
            if self._failure is not None:
                raise self._failure
            if self._priority and (first := self.poll_priority()) is not None:
                return first
            try:
                channel = self._ready.popleft()
            except IndexError:
                return None
            item = self._take_from(channel)
            if isinstance(item, Batch):
                return channel.index, item
            if item is not None:
                self._on_element(channel, item)
                return channel.index, item

    def poll_batch(self) -> tuple[int, Batch] | None:
        """As `poll`, where what it would give is a batch and no capture is going on; else None, and nothing is taken.

        So batches that have accumulated can be processed as one, without any element between them.
        """
        if self._failure is not None or self._priority or self._capture is not None:
            return None
        try:
            if not self._ready[0].starts_with_batch:
                return None
            channel = self._ready.popleft()
        except IndexError:
            return None
        item = self._take_from(channel)
        # None: its producer has dropped what it had, and the gate fails.
        return (channel.index, item) if isinstance(item, Batch) else None

    def _take_from(self, channel: InputChannel) -> Batch | Element | None:
        """The first item of a channel that has just been taken out of the line; it goes to the back if it has more."""
        channel.is_queued = False  # before taking: data that comes from now on queues the channel again
        item = channel.take() if self._capture is None else self._take_capturing(channel, self._capture)
        if channel.has_data and not channel.is_queued:
            with self._lock:
                channel.is_queued = True
                self._ready.append(channel)
        return item

    def put_back(self, index: int, rest: Batch) -> None:
        """Give the end of the batch that was polled last, from channel `index`, before what follows it there.

        It is in the queue again: a barrier may overtake it. Not while a capture is going on, which has the whole batch.
        """
        if self._capture is not None:
            raise InternalError(f"{self.owner}: a batch that was captured cannot be put back")
        channel = self.channels[index]
        channel.put_back(rest)
        self.on_channel_data(channel)

    def poll_priority(self) -> tuple[int, CheckpointBarrier] | None:
        """The next priority barrier and its channel, blocked or not; None where there is none now."""
        while self._priority:
            channel, marker = self._priority.popleft()
            overtaken = channel.overtake_queue(marker)
            if overtaken is not None:
                self._on_priority_barrier(channel, marker.barrier.checkpoint_id, overtaken)
                return channel.index, marker.barrier
        return None

    # ---- checkpoints

    def block_channel(self, index: int) -> None:
        """Take nothing from the channel, and do not turn available by it, until `unblock_channels`. Idempotent."""
        channel = self.channels[index]
        with self._lock:
            if channel.is_blocked:
                return
            channel.is_blocked = True
            if channel in self._ready:
                self._ready.remove(channel)
            channel.is_queued = True  # as if it stood in the line: what comes does not put it there

    def unblock_channels(self) -> None:
        """Idempotent."""
        for channel in self.channels:
            if not channel.is_blocked:
                continue
            with self._lock:
                channel.is_blocked = channel.is_queued = False
            if channel.has_data:  # looked at after the flag was cleared: what comes from now on queues the channel
                self.on_channel_data(channel)

    def start_capture(self, checkpoint_id: int) -> None:
        """Remember what belongs to the state of that unaligned checkpoint: call it when the snapshot is taken.

        That is, of each channel whose barrier has not come, the batches given from now on, and what the barrier
        overtakes when it comes, being expedited like `convert_to_unaligned` does; of a channel whose priority barrier
        has come, what that had overtaken; of other channels nothing.
        """
        overtaken = self._overtaken.pop(checkpoint_id, {})
        self._overtaken.clear()
        waiting = [c.index for c in self.channels if not c.is_finished and c.last_barrier_id < checkpoint_id]
        self._capture = ChannelCapture(checkpoint_id, waiting, overtaken)
        self.convert_to_unaligned(checkpoint_id)

    def finish_capture(self, checkpoint_id: int) -> Captured:
        """The barriers of all channels have come. What is to be persisted, by channel; empty ones are left out."""
        capture = self._capture
        if capture is None or capture.checkpoint_id != checkpoint_id:
            raise InternalError(f"{self.owner}: no capture of checkpoint {checkpoint_id} is going on")
        if capture.open_channels:
            raise InternalError(
                f"{self.owner}: channels {sorted(capture.open_channels)} owe the barrier of checkpoint {checkpoint_id}"
            )
        self._end_captures(checkpoint_id)
        return capture.result()

    def abort_capture(self, checkpoint_id: int) -> None:
        """Forget what was captured for checkpoints up to that one. Idempotent."""
        self._end_captures(checkpoint_id)

    def convert_to_unaligned(self, checkpoint_id: int) -> None:
        """Have barriers of that checkpoint overtake what is queued: those that are queued, and those that will come.

        FORCED_ALIGNED ones stay in order.
        """
        self._expedited_id = checkpoint_id  # before looking: a barrier that is not found is seen by `on_barrier_queued`
        for channel in self.channels:
            marker = channel.queued_barrier(checkpoint_id)
            if marker is not None:
                self.on_channel_priority(channel, marker)

    def _end_captures(self, checkpoint_id: int) -> None:
        self._ended_id = max(self._ended_id, checkpoint_id)
        if self._capture is not None and self._capture.checkpoint_id <= checkpoint_id:
            self._capture = None
        for ended in [known for known in self._overtaken if known <= checkpoint_id]:
            del self._overtaken[ended]

    def _take_capturing(self, channel: InputChannel, capture: ChannelCapture) -> Batch | Element | None:
        if channel.index not in capture.open_channels:
            return channel.take()
        item, frozen = channel.take_frozen()
        if frozen is not None:
            capture.on_batch(channel.index, frozen)
        return item

    def _on_element(self, channel: InputChannel, element: Element) -> None:
        if isinstance(element, CheckpointBarrier):
            channel.last_barrier_id = max(channel.last_barrier_id, element.checkpoint_id)
            if self._capture is not None:
                self._capture.on_barrier(channel.index, element.checkpoint_id)
        elif isinstance(element, EndOfPartition):
            self._unfinished -= 1
            if self._capture is not None:
                self._capture.on_channel_end(channel.index)

    def _on_priority_barrier(self, channel: InputChannel, checkpoint_id: int, overtaken: list[InFlightBatch]) -> None:
        channel.last_barrier_id = max(channel.last_barrier_id, checkpoint_id)
        capture = self._capture
        if capture is not None:
            capture.on_barrier(channel.index, checkpoint_id, overtaken)
        if (capture is None or capture.checkpoint_id < checkpoint_id) and checkpoint_id > self._ended_id:
            # Until its capture begins or ends; older ones will not begin any more.
            self._overtaken = {known: kept for known, kept in self._overtaken.items() if known >= checkpoint_id}
            self._overtaken.setdefault(checkpoint_id, {})[channel.index] = overtaken

    # ---- news of channels

    def on_channel_data(self, channel: InputChannel) -> None:
        """A channel may have turned from empty to not empty. Thread: any."""
        if channel.is_queued:
            return
        with self._lock:
            if channel.is_queued or self._closed:
                return
            channel.is_queued = True
            self._ready.append(channel)
            # Less than one: the task thread has taken it already, and does not need waking.
            was_empty = len(self._ready) == 1
        if was_empty:
            self._listener()

    def on_channel_priority(self, channel: InputChannel, marker: PriorityMarker) -> None:
        """A barrier is to be given before everything else. Thread: any."""
        with self._lock:
            if self._closed:
                return
            self._priority.append((channel, marker))
        self._listener()
        self._priority_listener()

    def on_barrier_queued(self, channel: InputChannel, barrier: CheckpointBarrier) -> None:
        """An ordinary barrier has come. Thread: any, after it was queued."""
        if barrier.checkpoint_id == self._expedited_id and may_overtake(barrier):
            self.on_channel_priority(channel, PriorityMarker(as_unaligned(barrier)))

    def on_channel_failure(self, error: Exception) -> None:
        """A channel broke: the gate is of no use any more. Only the first failure counts. Thread: any."""
        with self._lock:
            if self._closed or self._failure is not None:
                return
            self._failure = error
        self._on_failure(error)
        self._listener()

    def send_grants(self, grants: Sequence[Grant]) -> None:
        """Tell senders of this gate's channels what they may send. Thread: any."""
        for grant in grants:
            channel = self.channels[grant.channel_index]
            if isinstance(channel, RemoteInputChannel):
                channel.send_grant(grant)

    def on_quota_change(self, credits: CreditManager) -> None:
        """The gate's pool grew or shrank. Thread: any."""
        grants, reclaims = credits.quota_changed()
        self.send_grants(grants)
        for index, keep in reclaims:
            channel = self.channels[index]
            if isinstance(channel, RemoteInputChannel):
                channel.send_reclaim(keep)

    def close(self) -> None:
        """Let go of all channels and buffers; data still queued is dropped. Idempotent. Thread: any."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
        for channel in self.channels:
            channel.close()
        self._ready.clear()
        self._priority.clear()
        if self.pool is not None:
            self.pool.destroy()
        if self._on_closed is not None:
            self._on_closed(self)
