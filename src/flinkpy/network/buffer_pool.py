"""Buffer pools: they limit the bytes in flight.

A segment is a unit of accounting (`taskmanager.memory.segment-size`), not a piece of memory: Arrow and Python own the
bytes. The `NetworkBufferPool` of a process has a fixed number of segments and divides them among `LocalBufferPool`s,
one per result partition and one per gate with remote channels. Each local pool is guaranteed the segments that it
requires. The spare ones are redistributed whenever a pool is created or removed.

Invariant: the quota of a pool is never less than the pool requires. So two tasks never wait for segments that the other
one holds. Apart from overdrafts, the sum of `max(quota, used)` over all pools never exceeds the total. An overdraft
occurs because `reserve` of a partition always succeeds, since `emit` must not block. It lasts until the queue has
drained.

Source: org.apache.flink.runtime.io.network.buffer.{NetworkBufferPool, LocalBufferPool}.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

from flinkpy.common.errors import InsufficientNetworkBuffersError


@dataclass(frozen=True, slots=True)
class PauseLevel:
    """The fill level at which a producer pauses.

    It is a number of segments or of maximum-size buffers, whichever is larger.
    """

    segments: int
    buffers: int


def _ignore() -> None:
    return None


class LocalBufferPool:
    """The share of one partition or gate. Thread: any; the lock is held for a few instructions only."""

    def __init__(
        self, parent: NetworkBufferPool, name: str, required: int, maximum: int, pause_level: PauseLevel
    ) -> None:
        self.name = name
        self.required = required
        self.maximum = maximum
        self._parent = parent
        self._lock = threading.Lock()
        #: The segments that it may use now, and those in use. Changed by this class only.
        self.quota = 0
        self.used = 0
        self._pause_level = pause_level
        self._largest_buffer = 0
        #: A producer should pause when more than `_stop_above` segments are in use, and resume at `_resume_at`.
        self._stop_above = self._resume_at = 0
        #: The segments kept free while the pool is available, so that one more buffer of this size fits into the
        #: quota.
        self.headroom = 1
        self._available = True
        self._destroyed = False
        #: Called, on any thread, each time the pool turns available again.
        self.on_available: Callable[[], None] = _ignore
        #: Called, on any thread, after the quota changed.
        self.on_quota_change: Callable[[], None] = _ignore

    @property
    def free(self) -> int:
        return max(0, self.quota - self.used)

    @property
    def is_available(self) -> bool:
        """True if a producer may continue.

        It turns False when enough segments are in use, and True again when a good part of them is free. With this
        hysteresis a paused producer wakes up once for many buffers instead of once for each.
        """
        return self._available

    def reserve(self, segments: int) -> None:
        """Takes `segments` in any case: the caller has checked `is_available` and cannot stop half-way."""
        with self._lock:
            self.used += segments
            if segments > self._largest_buffer:
                self._largest_buffer = segments
                self._set_limits()
            if self._available and self.used > self._stop_above:
                self._available = False

    def try_acquire(self, wanted: int) -> int:
        """Takes up to `wanted` free segments and returns their number."""
        with self._lock:
            if self._destroyed:
                return 0
            got = min(wanted, self.quota - self.used)
            if got <= 0:
                return 0
            self.used += got
            return got

    def recycle(self, segments: int) -> None:
        """Returns segments that `reserve` or `try_acquire` took."""
        with self._lock:
            was_over = self.used > self.quota
            self.used -= segments
            if self.used < 0:
                raise AssertionError(f"{self.name}: more segments were recycled than taken")
            turned = not self._available and self._may_turn_available()
            if turned:
                self._available = True
        if was_over:
            self._parent.redistribute()
        if turned:
            self.on_available()

    def destroy(self) -> None:
        """Gives up the quota. Segments that are still in use, on the wire or in a queue, may be recycled later."""
        self._parent.remove(self)

    def _may_turn_available(self) -> bool:
        return self.used <= self._resume_at

    def _set_quota(self, quota: int) -> None:
        """Requires the parent's lock."""
        with self._lock:
            self.quota = quota
            self.headroom = max(1, quota // 4)
            self._set_limits()

    def _set_limits(self) -> None:
        """Requires the lock."""
        pause_level = max(self._pause_level.segments, self._pause_level.buffers * self._largest_buffer)
        self._stop_above = min(self.quota - self.headroom, pause_level)
        self._resume_at = max(0, min(self.quota // 2, -(-2 * self._stop_above // 3)))

    def _notify_quota_change(self) -> None:
        with self._lock:
            turned = not self._available and self._may_turn_available()
            if turned:
                self._available = True
        self.on_quota_change()
        if turned:
            self.on_available()


class NetworkBufferPool:
    """All segments of a process. Thread: any."""

    def __init__(self, memory_bytes: int, segment_size_bytes: int) -> None:
        if segment_size_bytes <= 0 or memory_bytes < segment_size_bytes:
            raise InsufficientNetworkBuffersError(
                f"network memory of {memory_bytes} bytes is less than one segment of {segment_size_bytes} bytes: "
                "raise taskmanager.memory.network.min"
            )
        self.segment_size_bytes = segment_size_bytes
        self.total = memory_bytes // segment_size_bytes
        self._lock = threading.Lock()
        self._pools: list[LocalBufferPool] = []
        #: Destroyed pools with segments in use, which count until they are recycled.
        self._lingering: list[LocalBufferPool] = []

    @property
    def used(self) -> int:
        with self._lock:
            return sum(pool.used for pool in self._pools) + sum(pool.used for pool in self._lingering)

    @property
    def used_bytes(self) -> int:
        return self.used * self.segment_size_bytes

    @property
    def required(self) -> int:
        """The segments that are guaranteed to the current pools."""
        with self._lock:
            return sum(pool.required for pool in self._pools)

    def create_local_pool(
        self, name: str, required: int, maximum: int | None = None, pause_level: PauseLevel | None = None
    ) -> LocalBufferPool:
        """Creates a pool that is guaranteed `required` segments and gets a share of the spare ones, up to `maximum`.

        Args:
            pause_level: the fill level at which a producer pauses, if that is less than the quota.

        Raises:
            InsufficientNetworkBuffersError: the required segments of all pools together would exceed the total.
        """
        maximum = self.total if maximum is None else max(maximum, required)
        pool = LocalBufferPool(self, name, required, maximum, pause_level or PauseLevel(maximum, 1))
        with self._lock:
            taken = sum(other.required for other in self._pools)
            if taken + required > self.total:
                raise InsufficientNetworkBuffersError(
                    f"{name} requires {required} network buffers, but only {self.total - taken} of "
                    f"{self.total} ({self.segment_size_bytes} bytes each) are not required by others: raise "
                    "taskmanager.memory.network.min (or .fraction / .max), or lower the parallelism",
                    details={"required": str(required), "free": str(self.total - taken), "total": str(self.total)},
                )
            self._pools.append(pool)
        self.redistribute()
        return pool

    def remove(self, pool: LocalBufferPool) -> None:
        with self._lock:
            if pool not in self._pools:
                return
            self._pools.remove(pool)
            pool._destroyed = True
            pool._set_quota(0)
            if pool.used:
                self._lingering.append(pool)
        self.redistribute()

    def redistribute(self) -> None:
        """Distributes the spare segments in proportion to what each pool could still take."""
        with self._lock:
            self._lingering = [pool for pool in self._lingering if pool.used]
            changed = self._share_out()
        for pool in changed:
            pool._notify_quota_change()

    def _share_out(self) -> list[LocalBufferPool]:
        pools = self._pools
        if not pools:
            return []
        spare = self.total - sum(pool.required for pool in pools)
        room = [min(pool.maximum - pool.required, spare) for pool in pools]
        total_room = sum(room)
        wanted = [
            pool.required + (min(space, spare * space // total_room) if total_room else 0)
            for pool, space in zip(pools, room)
        ]
        # Segments in use beyond the new quotas cannot be given to others until they come back.
        overhang = sum(pool.used for pool in self._lingering)
        overhang += sum(max(0, pool.used - quota) for pool, quota in zip(pools, wanted))
        overhang -= self.total - sum(wanted)
        for index in sorted(range(len(pools)), key=lambda i: pools[i].used - wanted[i]):
            if overhang <= 0:
                break
            given_up = min(overhang, max(0, wanted[index] - max(pools[index].used, pools[index].required)))
            wanted[index] -= given_up
            overhang -= given_up
        changed = []
        for pool, quota in zip(pools, wanted):
            if pool.quota != quota:
                pool._set_quota(quota)
                changed.append(pool)
        return changed
