"""Credits: the number of segments that each remote channel may still send.

Both halves only keep accounts. Their callers send the messages.

```
   sender                                             receiver (one CreditManager per gate)
   credit  <---- CREDIT n --------------------------  unannounced   acquired from the gate's pool, not yet announced
     |                                                    ^
     |                                                    |  consumed by the task
     +----- DATA (cost, backlog) ------------------>  queued        received, waiting for the task
            outstanding = credit + data on the wire
```

* Invariant: a channel holds `outstanding + unannounced + queued` segments of the gate's pool, and never more than
  `MAX_WINDOW_SEGMENTS`. The sender has at most `outstanding`. So there is always room for data on the wire.
* A channel gets its window ahead of demand: a fair share of half of the pool, but at least the exclusive buffers. It
  has the exclusive buffers from its opening to its end. So the data before a barrier always gets through, even if
  channels that are blocked until that barrier arrives hold all other segments. With an announced backlog the channel
  may grow to the full window out of the free segments, first come first served.
* Freed segments are announced in parcels of a quarter of the window, not one by one, because a CREDIT wakes the other
  process.
* A sender that cannot send its next buffer reports the cost (BACKLOG). It gets an answer as soon as there is enough
  credit. If the task can free no more segments of the channel, the answer grants all available credit and is marked
  final; then the sender cuts the buffer to that size. So a buffer of any cost is sent eventually.
* A gate whose pool shrinks takes back unused credits (RECLAIM, RETURNED).

Source: org.apache.flink.runtime.io.network.partition.consumer.BufferManager,
org.apache.flink.runtime.io.network.netty.CreditBasedSequenceNumberingViewReader.
Differs: Flink's window is exclusive plus floating buffers (320 KiB per gate by default). Here a buffer is a whole batch
of up to tens of segments, so the window is 4 MiB if the memory allows it.
"""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass

from flinkpy.network.buffer_pool import LocalBufferPool

# 4 MiB at the default segment size: two batches of the maximum size of a record writer, so that one can be sent while
# the other is processed. A larger window would only add latency under backpressure.
MAX_WINDOW_SEGMENTS = 128

# The cost of a buffer is determined before it is encoded, and encoding adds some bytes per column. A buffer larger than
# `_SLACK_FACTOR` times its cost plus `_SLACK_SEGMENTS` is charged its real size. So a receiver knows the maximum length
# of a frame.
_SLACK_FACTOR, _SLACK_SEGMENTS = 2, 8


def is_undercharged(cost: int, encoded_segments: int) -> bool:
    """True if the encoded buffer is so much larger than its estimate `cost` that its real size is charged."""
    return encoded_segments > _SLACK_FACTOR * cost + _SLACK_SEGMENTS


def most_bytes(cost: int, segment_size_bytes: int) -> int:
    """Returns the maximum length of a frame that costs `cost` credits."""
    return (_SLACK_FACTOR * cost + _SLACK_SEGMENTS) * segment_size_bytes


@dataclass(slots=True)
class Grant:
    """More credits for the sender of `channel_index`.

    Attributes:
        is_final: the sender must not wait for more, but cut its next buffer to the credit it has.
    """

    channel_index: int
    credits: int
    window: int
    is_final: bool = False


#: Shared, so it must not be changed.
_NO_GRANTS: list[Grant] = []


class ChannelCredit:
    """The receiver's account of one channel, in segments. Changed only under the lock of its CreditManager."""

    __slots__ = (
        "backlog",
        "index",
        "is_closed",
        "is_suspended",
        "is_waiting",
        "outstanding",
        "queued",
        "starving_for",
        "unannounced",
    )

    def __init__(self, index: int) -> None:
        self.index = index
        self.outstanding = 0
        self.unannounced = 0
        self.queued = 0
        self.backlog = 0
        #: The cost of the sender's next buffer while it waits for that much credit; else 0.
        self.starving_for = 0
        #: True while it is in the queue for segments that become free.
        self.is_waiting = False
        self.is_closed = False
        #: True while there is no sender to announce to: before the partition is requested, and between two requests.
        self.is_suspended = True

    @property
    def held(self) -> int:
        return self.outstanding + self.unannounced + self.queued


class CreditManager:
    """The receiver's half, for all remote channels of one gate. Thread: any.

    Args:
        pool: the gate's pool, used by this manager only.
        num_channels: the number of remote channels. The caller chooses their indices, see `open_channel`.
        exclusive: the segments that each channel always has.
    """

    def __init__(self, pool: LocalBufferPool, num_channels: int, exclusive: int) -> None:
        self._pool = pool
        self._num_channels = max(1, num_channels)
        self._exclusive = exclusive
        self._lock = threading.Lock()
        self._channels: dict[int, ChannelCredit] = {}
        self._waiting: deque[ChannelCredit] = deque()
        #: The segments that a channel may hold ahead of demand.
        self.window = self._fair_window()

    def _fair_window(self) -> int:
        fair = self._pool.quota // (2 * self._num_channels)
        return max(self._exclusive, min(MAX_WINDOW_SEGMENTS, fair))

    def open_channel(self, index: int) -> Grant:
        """Opens a channel that is about to request its partition, perhaps again.

        Returns: the credit to send with the request. No more is announced until `resume_channel`.
        """
        with self._lock:
            channel = self._channels.get(index)
            if channel is None:
                channel = self._channels[index] = ChannelCredit(index)
            channel.is_suspended = True
            channel.backlog = channel.starving_for = 0
            window = self.window
            # The exclusive buffers are reserved even if other channels hold all segments: blocked channels may keep
            # them until this one has delivered its barrier.
            owed = self._exclusive - channel.held
            if owed > 0:
                self._pool.reserve(owed)
                channel.unannounced += owed
            missing = window - channel.held
            channel.outstanding += channel.unannounced + (self._pool.try_acquire(missing) if missing > 0 else 0)
            channel.unannounced = 0
            return Grant(index, channel.outstanding, window)

    def resume_channel(self, index: int) -> list[Grant]:
        """Allows announcements, because the request was sent."""
        with self._lock:
            channel = self._channels.get(index)
            if channel is None:
                return []
            channel.is_suspended = False
            return self._due(channel)

    def suspend_channel(self, index: int) -> None:
        """Stops announcements: the producer does not have the partition, and it will be requested again."""
        with self._lock:
            channel = self._channels.get(index)
            if channel is not None:
                channel.is_suspended = True

    def close_channel(self, index: int) -> list[Grant]:
        """Removes the channel. Returns grants to other channels, which can use its segments."""
        with self._lock:
            channel = self._channels.pop(index, None)
            if channel is None:
                return []
            channel.is_closed = True
            held = channel.held
        return self._recycle(held)

    def received(self, index: int, cost: int, backlog: int) -> list[Grant]:
        """Accounts for a buffer of `cost`, with `backlog` segments behind it at the sender.

        Raises:
            ValueError: the sender did not have that much credit.
        """
        with self._lock:
            channel = self._channels.get(index)
            if channel is None:
                return []
            if cost > channel.outstanding:
                raise ValueError(f"a buffer of {cost} segments arrived on {channel.outstanding} credits")
            channel.outstanding -= cost
            channel.queued += cost
            channel.backlog = backlog
            if backlog and channel.outstanding + channel.unannounced < backlog:
                self._grow(channel)
                return self._due(channel)
            return _NO_GRANTS

    def has_credit(self, index: int, cost: int) -> bool:
        """True if the sender has that much credit. A closed channel may have had up to the maximum window."""
        channel = self._channels.get(index)
        return cost <= (MAX_WINDOW_SEGMENTS if channel is None else channel.outstanding)

    def consumed(self, index: int, cost: int) -> list[Grant]:
        """Accounts for a buffer of `cost` that the task has taken out of the channel."""
        with self._lock:
            channel = self._channels.get(index)
            if channel is None:
                return []
            channel.queued -= cost
            pool = self._pool
            if pool.used > pool.quota:
                limit = self._exclusive
            elif channel.backlog and len(self._waiting) <= channel.is_waiting:
                limit = MAX_WINDOW_SEGMENTS
            else:
                limit = self.window
            room = limit - channel.outstanding - channel.unannounced - channel.queued
            if cost <= room:
                channel.unannounced += cost
                return self._due(channel) if channel.starving_for or self._is_parcel(channel) else _NO_GRANTS
            keep = max(0, room)
            channel.unannounced += keep
            grants = self._due(channel)
        return grants + self._recycle(cost - keep)

    def starving(self, index: int, backlog: int, next_cost: int) -> list[Grant]:
        """Handles a sender whose next buffer, of `next_cost`, exceeds its credit."""
        with self._lock:
            channel = self._channels.get(index)
            if channel is None:
                return []
            channel.backlog = backlog
            channel.starving_for = next_cost
            self._grow(channel)
            return self._due(channel)

    def returned(self, index: int, credits: int) -> list[Grant]:
        """Accounts for credits that the sender gave back after RECLAIM."""
        with self._lock:
            channel = self._channels.get(index)
            if channel is None:
                return []
            given = min(credits, channel.outstanding)
            channel.outstanding -= given
        return self._recycle(given)

    def quota_changed(self) -> tuple[list[Grant], list[tuple[int, int]]]:
        """Adapts to the new quota of the pool. Returns grants, and (channel, credits to keep) to reclaim."""
        with self._lock:
            window = self.window = self._fair_window()
            if self._pool.used <= self._pool.quota:
                grants = list(self._serve_waiting())
                for channel in self._channels.values():
                    missing = window - channel.held
                    if missing > 0:
                        channel.unannounced += self._pool.try_acquire(missing)
                        grants += self._due(channel)
                return grants, []
            unused = 0
            reclaims: list[tuple[int, int]] = []
            for channel in self._channels.values():
                spare = max(0, min(channel.unannounced, channel.held - self._exclusive))
                channel.unannounced -= spare
                unused += spare
                if channel.outstanding > window:
                    reclaims.append((channel.index, window))
        return self._recycle(unused), reclaims

    def _recycle(self, segments: int) -> list[Grant]:
        """Returns segments to the pool, and grants them to waiting channels.

        Must not be called under the lock: the pool may redistribute, and call `quota_changed` of this or another gate.
        """
        if segments:
            self._pool.recycle(segments)
        with self._lock:
            return self._serve_waiting()

    def validate(self) -> None:
        """Asserts the invariants."""
        with self._lock:
            for channel in self._channels.values():
                for name in ("outstanding", "unannounced", "queued"):
                    assert getattr(channel, name) >= 0, f"channel {channel.index}: {name} is negative"
                assert channel.held <= MAX_WINDOW_SEGMENTS, f"channel {channel.index} holds {channel.held}"
            held = sum(channel.held for channel in self._channels.values())
            assert held == self._pool.used, f"channels hold {held}, the pool counts {self._pool.used}"

    def _grow(self, channel: ChannelCredit) -> None:
        """Acquires as many free segments as the backlog of the channel needs."""
        wanted = max(channel.backlog, channel.starving_for) - channel.outstanding - channel.unannounced
        wanted = min(wanted, MAX_WINDOW_SEGMENTS - channel.held)
        if wanted > 0:
            got = self._pool.try_acquire(wanted)
            channel.unannounced += got
            if got < wanted:
                self._wait(channel)

    def _wait(self, channel: ChannelCredit) -> None:
        if not channel.is_waiting:
            channel.is_waiting = True
            self._waiting.append(channel)

    def _serve_waiting(self) -> list[Grant]:
        grants: list[Grant] = []
        for _ in range(len(self._waiting)):
            if self._pool.free <= 0:
                break
            channel = self._waiting.popleft()
            channel.is_waiting = False
            if channel.is_closed:
                continue
            self._grow(channel)
            grants += self._due(channel)
        return grants

    def _due(self, channel: ChannelCredit) -> list[Grant]:
        """Returns the grant that is due now, if any."""
        credits = channel.unannounced
        if channel.is_suspended:
            return _NO_GRANTS
        is_parcel = self._is_parcel(channel)
        if channel.starving_for:
            if channel.queued and not is_parcel:
                return _NO_GRANTS
            enough = channel.outstanding + credits >= channel.starving_for
            if not enough and (channel.queued or channel.outstanding + credits == 0):
                return _NO_GRANTS
            channel.starving_for = 0
            return [self._announce(channel, is_final=not enough)]
        if credits and is_parcel:
            return [self._announce(channel)]
        return _NO_GRANTS

    def _is_parcel(self, channel: ChannelCredit) -> bool:
        """True if the unannounced credits make a full parcel.

        While the task has data to process, grants wait for a full parcel, even if the sender is starving.
        """
        credits = channel.unannounced
        return credits * 4 >= min(self.window, channel.outstanding + credits + channel.queued)

    def _announce(self, channel: ChannelCredit, is_final: bool = False) -> Grant:
        credits, channel.unannounced = channel.unannounced, 0
        channel.outstanding += credits
        return Grant(channel.index, credits, self.window, is_final)


class SenderCredit:
    """The sender's half, for one channel.

    Thread: `grant` on the I/O thread; `spend` and `give_back` under the connection's write lock. The two counters have
    one writer each, so reading their difference needs no lock.
    """

    __slots__ = ("_granted", "_spent", "is_final", "largest_buffer", "window")

    def __init__(self, initial: int, window: int) -> None:
        self._granted = initial
        self._spent = 0
        #: True if the receiver cannot grant more for now: the next buffer has to be cut to the available credit.
        self.is_final = False
        self._set_window(window)

    @property
    def available(self) -> int:
        return self._granted - self._spent

    def _set_window(self, window: int) -> None:
        self.window = max(1, window)
        #: The largest buffer to send at once, in segments: half of the receiver's window, so that two can be on their
        #: way.
        self.largest_buffer = max(1, self.window // 2)

    def grant(self, credits: int, window: int, is_final: bool) -> None:
        self._set_window(window)
        self.is_final = is_final
        self._granted += credits

    def spend(self, cost: int) -> None:
        if cost > self.available:
            raise AssertionError(f"sending {cost} segments with {self.available} credits")
        self._spent += cost
        self.is_final = False

    def try_spend(self, cost: int) -> bool:
        """Spends `cost` for a buffer that can be sent whole now. Returns False if it has to wait or be cut."""
        if cost > self._granted - self._spent or cost > self.largest_buffer:
            return False
        self._spent += cost
        self.is_final = False
        return True

    def give_back(self, keep: int) -> int:
        """Gives up the credits beyond `keep` and returns their number."""
        excess = max(0, self.available - keep)
        self._spent += excess
        return excess
