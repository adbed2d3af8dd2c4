"""InputGate: the input of a task from one upstream data set, with one channel per producing partition.

Channels with data form a queue. `poll` takes one item from the first channel and moves the channel to the back. So each
channel gets its turn, however much data the others have. A channel that is not in the queue costs nothing.

A priority barrier is delivered before any data. Its task may be waiting for output memory and may not poll at all then.
Therefore such barriers have their own listener and the method `poll_priority`.

Source: org.apache.flink.runtime.io.network.partition.consumer.{SingleInputGate, ChannelStatePersister}.
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


#: (channel, its batches in order), sorted by channel.
Captured = list[tuple[int, list[InFlightBatch]]]


class ChannelCapture:
    """The in-flight batches of the channels of a gate that belong to one unaligned checkpoint.

    The task takes its snapshot at the first barrier. Batches that another channel delivers before its own barrier are
    processed after the snapshot, so they are captured when they are processed. When the barrier of the channel arrives,
    the queued batches that it overtook are captured too, and the channel is done.

    Pure. Thread: task thread.

    Args:
        open_channels: the channels whose barrier has not arrived.
        overtaken: the batches that the barriers which have arrived had overtaken, by channel.
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
        """Adds a batch of an open channel that is about to be processed."""
        self._captured.setdefault(channel, []).append(batch)

    def on_barrier(self, channel: int, checkpoint_id: int, overtaken: Iterable[InFlightBatch] = ()) -> None:
        """Closes a channel and adds the batches that its barrier overtook.

        A barrier of a later checkpoint closes the channel too: the barrier of this checkpoint will not arrive any more.
        """
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
    """Reads the channels of one input.

    Thread: the consumer's task thread, except where a method says "any".

    Args:
        owner: the name of the task, for messages.
        on_failure: called once, on any thread, with the first failure of a channel.
        pool: the memory of remote channels; None if all channels are local.
        on_closed: called when the gate was closed.
    """

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
        #: Barriers to deliver before all data, with their channels.
        self._priority: deque[tuple[InputChannel, PriorityMarker]] = deque()
        self._capture: ChannelCapture | None = None
        #: The batches that delivered barriers had overtaken, by checkpoint and channel. An entry is removed when the
        #: capture of its checkpoint begins or ends.
        self._overtaken: dict[int, dict[int, list[InFlightBatch]]] = {}
        #: Ordinary barriers of this checkpoint overtake queued batches as soon as they arrive. Read by any thread.
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
        """True if `poll` would return an item or raise a failure. Thread: any."""
        return bool(self._ready) or bool(self._priority) or self._failure is not None

    @property
    def has_priority(self) -> bool:
        """True if `poll_priority` may return a barrier. Thread: any."""
        return bool(self._priority)

    @property
    def is_capturing(self) -> bool:
        """True while polled batches become part of a checkpoint."""
        return self._capture is not None

    @property
    def all_channels_finished(self) -> bool:
        return self._unfinished == 0

    @property
    def bytes_in(self) -> int:
        return sum(channel.bytes_in for channel in self.channels)

    def set_availability_listener(self, listener: Callable[[], None]) -> None:
        """Sets the function that is called, on any thread, when the gate gets data after it was empty, or fails."""
        self._listener = listener

    def request_partitions(self) -> None:
        """Requests this gate's subpartition from every producer. Returns immediately; failures go to `on_failure`."""
        for channel in self.channels:
            channel.request_subpartition()

    def poll(self) -> tuple[int, Batch | Element] | None:
        """Returns the next batch or element with the index of its channel, or None if there is no data now.

        Raises:
            PartitionConnectionError, PartitionNotFoundError: a channel failed. Data that is still queued is not
                delivered.
        """
        while True:
            if self._failure is not None:
                raise self._failure
            if self._priority:
                barrier = self.poll_priority()
                if barrier is not None:
                    return barrier
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
        """Works like `poll` if the next item is a batch and no capture is in progress. Otherwise takes nothing.

        The caller can process accumulated batches as one, without an element between them.
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
        # None: the producer has dropped its data, and the gate fails.
        return (channel.index, item) if isinstance(item, Batch) else None

    def _take_from(self, channel: InputChannel) -> Batch | Element | None:
        """Takes the first item of a channel that was just removed from the queue of channels.

        The channel returns to the back of the queue if it has more data.
        """
        channel.is_queued = False  # before taking, so that later data queues the channel again
        item = channel.take() if self._capture is None else self._take_capturing(channel, self._capture)
        if channel.has_data and not channel.is_queued:
            with self._lock:
                channel.is_queued = True
                self._ready.append(channel)
        return item

    def put_back(self, index: int, rest: Batch) -> None:
        """Puts the end of the last polled batch back to the front of channel `index`.

        A barrier may overtake it there. Not allowed during a capture, which already contains the whole batch.
        """
        if self._capture is not None:
            raise InternalError(f"{self.owner}: a captured batch cannot be put back")
        channel = self.channels[index]
        channel.put_back(rest)
        self.on_channel_data(channel)

    def poll_priority(self) -> tuple[int, CheckpointBarrier] | None:
        """Returns the next priority barrier and its channel, which may be blocked; None if there is no barrier."""
        while self._priority:
            channel, marker = self._priority.popleft()
            overtaken = channel.overtake_queue(marker)
            if overtaken is not None:
                self._on_priority_barrier(channel, marker.barrier.checkpoint_id, overtaken)
                return channel.index, marker.barrier
        return None

    # ---- checkpoints

    def block_channel(self, index: int) -> None:
        """Stops reading from the channel until `unblock_channels`. Idempotent.

        Meanwhile the data of the channel does not make the gate available.
        """
        channel = self.channels[index]
        with self._lock:
            if channel.is_blocked:
                return
            channel.is_blocked = True
            if channel in self._ready:
                self._ready.remove(channel)
            channel.is_queued = True  # so that new data does not put it into the queue

    def unblock_channels(self) -> None:
        """Resumes reading from all blocked channels. Idempotent."""
        for channel in self.channels:
            if not channel.is_blocked:
                continue
            with self._lock:
                channel.is_blocked = channel.is_queued = False
            if channel.has_data:  # checked after the flag was cleared: later data queues the channel itself
                self.on_channel_data(channel)

    def start_capture(self, checkpoint_id: int) -> None:
        """Starts to capture the in-flight batches of an unaligned checkpoint. Call it when the snapshot is taken.

        * For a channel whose barrier has not arrived: the batches it delivers from now on, and those that the barrier
          overtakes when it arrives. The barrier is expedited, see `convert_to_unaligned`.
        * For a channel whose priority barrier has arrived: the batches that it had overtaken.
        * For all other channels: nothing.
        """
        overtaken = self._overtaken.pop(checkpoint_id, {})
        self._overtaken.clear()
        waiting = [c.index for c in self.channels if not c.is_finished and c.last_barrier_id < checkpoint_id]
        self._capture = ChannelCapture(checkpoint_id, waiting, overtaken)
        self.convert_to_unaligned(checkpoint_id)

    def finish_capture(self, checkpoint_id: int) -> Captured:
        """Ends the capture after the barriers of all channels have arrived.

        Returns: the batches to persist, by channel; channels without any are left out.
        """
        capture = self._capture
        if capture is None or capture.checkpoint_id != checkpoint_id:
            raise InternalError(f"{self.owner}: no capture of checkpoint {checkpoint_id} is in progress")
        if capture.open_channels:
            raise InternalError(
                f"{self.owner}: channels {sorted(capture.open_channels)} have not delivered the barrier of "
                f"checkpoint {checkpoint_id}"
            )
        self._end_captures(checkpoint_id)
        return capture.result()

    def abort_capture(self, checkpoint_id: int) -> None:
        """Drops the captures of checkpoints up to this one. Idempotent."""
        self._end_captures(checkpoint_id)

    def convert_to_unaligned(self, checkpoint_id: int) -> None:
        """Lets the barriers of this checkpoint overtake queued batches, whether they are queued or arrive later.

        FORCED_ALIGNED barriers keep their place.
        """
        self._expedited_id = checkpoint_id  # before the search: `on_barrier_queued` sees a barrier that it misses
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
            # Kept until the capture begins or ends. Captures of older checkpoints will not begin any more.
            self._overtaken = {known: kept for known, kept in self._overtaken.items() if known >= checkpoint_id}
            self._overtaken.setdefault(checkpoint_id, {})[channel.index] = overtaken

    # ---- events of channels

    def on_channel_data(self, channel: InputChannel) -> None:
        """Adds a channel that may have data after it was empty to the queue of channels. Thread: any."""
        if channel.is_queued:
            return
        with self._lock:
            if channel.is_queued or self._closed:
                return
            channel.is_queued = True
            self._ready.append(channel)
            # If it is 0 already, the task thread has taken the channel and does not need to be woken.
            was_empty = len(self._ready) == 1
        if was_empty:
            self._listener()

    def on_channel_priority(self, channel: InputChannel, marker: PriorityMarker) -> None:
        """Queues a barrier for delivery before all data. Thread: any."""
        with self._lock:
            if self._closed:
                return
            self._priority.append((channel, marker))
        self._listener()

    def on_barrier_queued(self, channel: InputChannel, barrier: CheckpointBarrier) -> None:
        """Lets a barrier that was just queued overtake batches if its checkpoint became unaligned. Thread: any."""
        if barrier.checkpoint_id == self._expedited_id and may_overtake(barrier):
            self.on_channel_priority(channel, PriorityMarker(as_unaligned(barrier)))

    def on_channel_failure(self, error: Exception) -> None:
        """Fails the gate, because a channel failed. Only the first failure counts. Thread: any."""
        with self._lock:
            if self._closed or self._failure is not None:
                return
            self._failure = error
        self._on_failure(error)
        self._listener()

    def send_grants(self, grants: Sequence[Grant]) -> None:
        """Sends credit to the senders of this gate's channels. Thread: any."""
        for grant in grants:
            channel = self.channels[grant.channel_index]
            if isinstance(channel, RemoteInputChannel):
                channel.send_grant(grant)

    def on_quota_change(self, credits: CreditManager) -> None:
        """Adapts the credits to the new quota of the gate's pool. Thread: any."""
        grants, reclaims = credits.quota_changed()
        self.send_grants(grants)
        for index, keep in reclaims:
            channel = self.channels[index]
            if isinstance(channel, RemoteInputChannel):
                channel.send_reclaim(keep)

    def close(self) -> None:
        """Releases all channels and buffers, and drops queued data. Idempotent. Thread: any."""
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
