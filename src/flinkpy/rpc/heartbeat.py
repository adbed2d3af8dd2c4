"""HeartbeatMonitor: decides who is dead.

Imagine a lighthouse keeper with a list of ships. Each ship that answers is ticked with the time. Now and then the
keeper looks for ships not ticked for longer than the time-out, and, because a ship whose mast was seen to break
need not be waited for, for ships that could not even be called several times running. A ship that is not on the
list is ignored.

Pure: `now_ms` is always a parameter. Source: org.apache.flink.runtime.heartbeat.HeartbeatManagerImpl and the options
heartbeat.interval, heartbeat.timeout, heartbeat.rpc-failure-threshold.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

K = TypeVar("K")

#: heartbeat.rpc-failure-threshold: -1 switches detection by failed calls off.
DISABLED = -1


@dataclass(slots=True)
class _Target:
    last_heard_ms: int
    failed_calls: int = 0


class HeartbeatMonitor(Generic[K]):
    def __init__(self, timeout_ms: int, rpc_failure_threshold: int = 2) -> None:
        self.timeout_ms = timeout_ms
        self.rpc_failure_threshold = rpc_failure_threshold
        self._targets: dict[K, _Target] = {}

    def add_target(self, target: K, now_ms: int) -> None:
        """Begin to watch; a target already watched starts anew."""
        self._targets[target] = _Target(now_ms)

    def remove(self, target: K) -> None:
        self._targets.pop(target, None)

    def received(self, target: K, now_ms: int) -> bool:
        """A heartbeat came. False where the target is not watched (stale or unknown)."""
        found = self._targets.get(target)
        if found is None:
            return False
        found.last_heard_ms = max(found.last_heard_ms, now_ms)
        found.failed_calls = 0
        return True

    def rpc_failed(self, target: K) -> None:
        """A call to the target could not be delivered."""
        found = self._targets.get(target)
        if found is not None:
            found.failed_calls += 1

    def expired(self, now_ms: int) -> list[K]:
        """Targets given up now; each is reported once and watched no more."""
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
