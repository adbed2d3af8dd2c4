"""Time-to-live: what the value, list element or map value of a state looks like with it, and when it has expired.

Each is stored as `(value, time of last access in ms)`, so that it is the same in every backend and in a snapshot.

Source: org.apache.flink.runtime.state.ttl.{TtlUtils,TtlIncrementalCleanup,TtlStateSnapshotTransformer}.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from flinkpy.state.meta_info import LIST, MAP

#: `(value, time of last access in ms)`.
Stamped = tuple[Any, int]


class TimeToLive:
    """A StateTtlConfig, resolved. Thread: any.

    Attributes:
        ttl_ms: how long a value lives after its last access.
        updates_on_read: reading renews the life.
        returns_expired: what has expired is seen until it is removed.
    """

    def __init__(self, config: Any, now_ms: Callable[[], int]) -> None:
        self.ttl_ms: int = config.get_ttl().to_milliseconds()
        self.updates_on_read = config.get_update_type().name == "OnReadAndWrite"
        self.returns_expired = config.get_state_visibility().name == "ReturnExpiredIfNotCleanedUp"
        self.now_ms = now_ms
        strategies = config.get_cleanup_strategies()
        #: Snapshots leave out what has expired.
        self.cleans_snapshots: bool = strategies.in_full_snapshot()
        #: (entries looked at per access, also for every record), or None.
        self.incremental: tuple[int, bool] | None = None
        strategy = strategies.get_incremental_cleanup_strategy()
        if strategy is not None:
            self.incremental = (strategy.get_cleanup_size(), strategy.run_cleanup_for_every_record())

    def stamp(self, value: Any) -> Stamped:
        return (value, self.now_ms())

    def is_expired(self, stamped: Stamped) -> bool:
        return stamped[1] + self.ttl_ms <= self.now_ms()

    def is_visible(self, stamped: Stamped) -> bool:
        return self.returns_expired or stamped[1] + self.ttl_ms > self.now_ms()

    def unexpired(self, kind: str, stored: Any, now_ms: int) -> Any | None:
        """What is left of all that a key has in a state of that kind: itself, something new, or None."""
        alive_after = now_ms - self.ttl_ms
        if kind == LIST:
            kept = [element for element in stored if element[1] > alive_after]
            return stored if len(kept) == len(stored) else kept or None
        if kind == MAP:
            entries = {key: element for key, element in stored.items() if element[1] > alive_after}
            return stored if len(entries) == len(stored) else entries or None
        return stored if stored[1] > alive_after else None


class IncrementalCleanup:
    """Goes round the keys of a state a few at a time, and removes what has expired. Thread: task thread.

    Args:
        keys: gives the keys anew, for each round.
        clean: removes what has expired of one key.
    """

    def __init__(self, size: int, keys: Callable[[], Iterable[Any]], clean: Callable[[Any], None]) -> None:
        self._size = size
        self._keys = keys
        self._clean = clean
        self._round: list[Any] = []

    def run(self, times: int = 1) -> None:
        """One step, or several: look at `size` keys each, but at no key twice."""
        left = self._size * times
        for _ in range(min(left, len(self._round))):
            self._clean(self._round.pop())
            left -= 1
        if left:
            self._round = list(self._keys())
            for _ in range(min(left, len(self._round))):
                self._clean(self._round.pop())
