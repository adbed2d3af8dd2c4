"""HeartbeatMonitor: decides which peers are dead.

The monitor keeps the time of the last heartbeat of each target. A target is dead when its last heartbeat is older than
the time-out, or when several calls to it in a row could not be delivered, because then there is no need to wait for the
time-out. Heartbeats of unknown targets are ignored.

Pure: `now_ms` is always a parameter. Source: org.apache.flink.runtime.heartbeat.HeartbeatManagerImpl and the options
heartbeat.interval, heartbeat.timeout, heartbeat.rpc-failure-threshold.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

K = TypeVar("K")

#: The value of heartbeat.rpc-failure-threshold that disables the detection by failed calls.
DISABLED = -1


@dataclass(slots=True)
class _Target:
    last_heard_ms: int
    failed_calls: int = 0


class HeartbeatMonitor(Generic[K]):
    """Watches targets that are identified by a hashable key."""

    def __init__(self, timeout_ms: int, rpc_failure_threshold: int = 2) -> None:
        self.timeout_ms = timeout_ms
        self.rpc_failure_threshold = rpc_failure_threshold
        self._targets: dict[K, _Target] = {}

    def add_target(self, target: K, now_ms: int) -> None:
        """Starts to watch a target, also if it is watched already, with `now_ms` as its last heartbeat."""
        self._targets[target] = _Target(now_ms)

    def remove(self, target: K) -> None:
        self._targets.pop(target, None)

    def received(self, target: K, now_ms: int) -> bool:
        """Records a heartbeat. Returns False if the target is not watched."""
        found = self._targets.get(target)
        if found is None:
            return False
        found.last_heard_ms = max(found.last_heard_ms, now_ms)
        found.failed_calls = 0
        return True

    def rpc_failed(self, target: K) -> None:
        """Records that a call to the target could not be delivered."""
        found = self._targets.get(target)
        if found is not None:
            found.failed_calls += 1

    def expired(self, now_ms: int) -> list[K]:
        """Returns the dead targets and stops watching them."""
        dead = [target for target, state in self._targets.items() if self._is_dead(state, now_ms)]
        for target in dead:
            del self._targets[target]
        return dead

    @property
    def targets(self) -> list[K]:
        return list(self._targets)

    def last_heard_ms(self, target: K) -> int | None:
        found = self._targets.get(target)
        return None if found is None else found.last_heard_ms

    def _is_dead(self, state: _Target, now_ms: int) -> bool:
        if now_ms - state.last_heard_ms >= self.timeout_ms:
            return True
        return self.rpc_failure_threshold != DISABLED and state.failed_calls >= self.rpc_failure_threshold
