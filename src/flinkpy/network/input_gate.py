"""InputGate: where one task reads one of its inputs: one channel per producing partition, served in turn.

Channels with data stand in a line. `poll` takes one item of the first and sends the channel to the back, so each gets
its turn however much another has; a channel that is not in the line costs nothing.

Source: org.apache.flink.runtime.io.network.partition.consumer.SingleInputGate.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence

from flinkpy.network.buffer_pool import LocalBufferPool
from flinkpy.network.credit import CreditManager, Grant
from flinkpy.network.input_channel import InputChannel, RemoteInputChannel
from flinkpy.records.batch import Batch
from flinkpy.records.elements import Element, EndOfPartition


def _ignore() -> None:
    return None


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

    def set_channels(self, channels: Sequence[InputChannel]) -> None:
        self.channels = channels
        self._unfinished = len(channels)

    @property
    def num_channels(self) -> int:
        return len(self.channels)

    @property
    def is_available(self) -> bool:
        """Whether `poll` has something to give, a failure included. Thread: any."""
        return bool(self._ready) or self._failure is not None

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
            try:
                channel = self._ready.popleft()
            except IndexError:
                return None
            channel.is_queued = False  # before taking: data that comes from now on queues the channel again
            item = channel.take()
            if channel.has_data and not channel.is_queued:
                with self._lock:
                    channel.is_queued = True
                    self._ready.append(channel)
            if item is None:
                continue
            if isinstance(item, EndOfPartition):
                self._unfinished -= 1
            return channel.index, item

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
        if self.pool is not None:
            self.pool.destroy()
        if self._on_closed is not None:
            self._on_closed(self)
